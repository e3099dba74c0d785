"""Where learning starts and how far it goes: the free parameters of a kernel, in the units of the data."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from lmgp.errors import InputError
from lmgp.kernels.base import Kernel
from lmgp.kernels.composite import ProductKernel
from lmgp.kernels.dot_product import ExponentialKernel
from lmgp.validation import Rows

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ranges:
    """Starting points and bounds of learning, in the units of the data (`Units`).

    Attributes
    ----------
    start_lengthscales : tuple of float
        The likelihood has several optima: a short lengthscale with much noise against a long one with little.
    start_noises : tuple of float
        In variances of y. The kernel starts with the rest of the variance.
    spread : float
        Of several lengthscales in one kernel each starts at this multiple of the one before: equal ones would stay
        equal.
    lengthscale, variance, noise, other : (float, float)
        Bounds where the kernel gives none: far outside of what data can tell apart, well inside of what float64 can
        factorise. The last are those of parameters without a unit, such as alpha.
    magnitude : (float, float)
        Of X and y. Beyond it, the squares that learning computes leave the range of float64.
    """

    start_lengthscales: tuple[float, ...] = (0.1, 0.3, 1.0)
    start_noises: tuple[float, ...] = (0.01, 0.1, 0.5)
    spread: float = 3.0
    lengthscale: tuple[float, float] = (1e-4, 1e4)
    variance: tuple[float, float] = (1e-6, 1e6)
    noise: tuple[float, float] = (1e-8, 1e3)
    other: tuple[float, float] = (1e-2, 1e3)
    magnitude: tuple[float, float] = (1e-100, 1e100)


RANGES = Ranges()


@dataclass(frozen=True, eq=False)
class Units:
    """The scales of some rows.

    Attributes
    ----------
    distance : float
        The median distance between two rows of X.
    columns : ndarray of shape (d,)
        That of a row of equally spread columns, in proportion to each column's standard deviation.
    variance : float
        Of y.
    """

    distance: float
    columns: Floats
    variance: float


def units_of(rows: Rows, learns_kernel: bool) -> Units:
    """Measure the scales of rows.

    Parameters
    ----------
    rows : Rows
        With y centred.
    learns_kernel : bool
        If not, rows without spread are fine, and any scale serves.

    Returns
    -------
    Units

    Raises
    ------
    InputError
        If a kernel is to be learned and X or y has no spread, or one beyond the range of float64.
    """
    spread_of_y = deviation(rows.y, "y")
    if learns_kernel and spread_of_y == 0.0:
        raise InputError(
            f"y is constant in the random sample of {len(rows.y)} rows from which hyper-parameters are learned. Raise "
            "max_learning_rows, or give kernel and noise_variance."
        )
    if not learns_kernel:
        return Units(1.0, np.ones(rows.X.shape[1]), spread_of_y**2 or 1.0)
    deviations = np.array([deviation(column - column[0], "X") for column in rows.X.T])
    distances = pdist(rows.X)
    positive = distances[distances > 0.0]
    if len(positive) == 0:
        raise InputError(
            "All rows of X are the same: no lengthscale can be learned from them. Give kernel=GaussianKernel(...), or "
            "check the input columns."
        )
    # With many repeated rows the median can be zero.
    distance = float(np.median(distances)) or float(positive.mean())
    spread = deviations[deviations > 0.0]
    columns = np.where(deviations > 0.0, deviations / np.sqrt(np.mean(spread**2)), 1.0) * distance
    return Units(distance, columns, spread_of_y**2)


def deviation(values: Floats, name: str) -> float:
    """Return the standard deviation of values; InputError where its square leaves the range of float64."""
    largest = float(np.max(np.abs(values)))
    low, high = RANGES.magnitude
    if largest > high:
        raise InputError(
            f"{name} has values up to {largest:.3g}. Hyper-parameters are learned from squares, which overflow float64 "
            f"for values above {high:g}. Divide {name} by {largest:.0e}."
        )
    deviation = float(np.std(values / largest)) * largest if largest > 0.0 else 0.0
    if 0.0 < deviation < low:
        raise InputError(
            f"{name} has a standard deviation of {deviation:.3g}, whose square underflows in float64. Multiply {name} "
            f"by {1.0 / deviation:.0e}."
            if deviation > 1e-300
            else f"{name} has values of at most {largest:.3g}, whose squares underflow in float64. Multiply {name} by "
            "1e+300."
        )
    return deviation


@dataclass(frozen=True, eq=False)
class Scale:
    """What one free number of a kernel is measured in.

    Attributes
    ----------
    unit : float
    start : float
        In the unit.
    bounds : (float, float)
        In the unit.
    kind : {"lengthscale", "variance", "other"}
        What the start is multiplied by: a start's lengthscale, the kernel's share of the variance of y, or 1.
    """

    unit: float
    start: float
    bounds: tuple[float, float]
    kind: Literal["lengthscale", "variance", "other"]


def scales_of(kernel: Kernel, units: Units) -> list[Scale]:
    """Say what each of a kernel's free numbers is measured in, in the order of `kernel.theta`."""
    dimensionless = set(_dimensionless(kernel))
    free = [one for one in kernel.parameters if not one.fixed]
    n_variances = max(1, sum(one.name.endswith("variance") and one.name not in dimensionless for one in free))
    scales: list[Scale] = []
    n_lengthscales = 0
    for one in free:
        if one.name.endswith("lengthscale"):
            start = RANGES.spread**n_lengthscales
            n_lengthscales += 1
            own = units.columns if one.value.ndim else [units.distance]
            scales += [Scale(float(unit), start, RANGES.lengthscale, "lengthscale") for unit in own]
        elif one.name.endswith("variance") and one.name not in dimensionless:
            scales.append(Scale(units.variance, 1.0 / n_variances, RANGES.variance, "variance"))
        elif one.name.endswith("variance"):
            scales.append(Scale(1.0, 1.0, RANGES.variance, "other"))
        else:
            scales += [Scale(1.0, float(value), RANGES.other, "other") for value in one.value.ravel()]
    return scales


def _dimensionless(kernel: Kernel, carries: bool = True) -> list[str]:
    """Name the variances that are not in squared units of y: all factors of a product but the first."""
    names = [] if carries else [one for one in kernel.parameter_names if one.endswith("variance")]
    for name, part in kernel.get_params(deep=False).items():
        if isinstance(part, Kernel):
            inner = carries and not (isinstance(kernel, ProductKernel) and name == "right")
            inner = inner and not isinstance(kernel, ExponentialKernel)
            names += [f"{name}__{one}" for one in _dimensionless(part, inner)]
    return names
