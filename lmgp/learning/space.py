"""The free numbers of a form: their units, bounds and priors."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from lmgp.data import Floats, Indices, Rows, column_deviations, column_scales
from lmgp.errors import InputError
from lmgp.kernels.base import Kernel
from lmgp.learning.forms import Form, parameter_units
from lmgp.posteriors.average import WeightedKernel

# Weak Gaussian priors on logarithms, in the units of the data, keep the lengthscale of a column that says nothing
# finite, and the noise of near-copies above zero. Their standard deviation: 3 is a factor of 20. The logarithm of a
# lengthscale is a sum: of what all have in common, with this standard deviation, and of what those of its part, those
# of its column, and it alone have, each with the second one; or with the third one, where few rows ask for it.
PRIOR_DEVIATION, OWN_DEVIATION, CLOSE_DEVIATION = 3.0, 1.0, 0.25
# The median of the noise variance, in its unit. Other medians: √d standard deviations of the column for a
# lengthscale, the variance of y for a variance.
MEDIAN_NOISE = 0.1
# The noise variance is at least this share of its unit, and the squared scale of a t, whose likelihood has no
# maximum where rows are met exactly, at least the second one.
LEAST_NOISE, LEAST_SCALE = 1e-9, 1e-6

# Bounds of the parameters of each kind, in their units, where the kernel gives none: far outside of what data can tell
# apart, well inside of what float64 can factorise.
RANGES = {
    "lengthscale": (1e-4, 1e4),
    "period": (1e-5, 1e1),
    "variance": (1e-6, 1e6),
    "noise": (1e-8, 1e3),
    "other": (1e-2, 1e3),
}

# Of X and y. Beyond these magnitudes, the squares that learning computes leave the range of float64.
SMALLEST, LARGEST = 1e-100, 1e100


def deviation(values: Floats, name: str) -> float:
    """Return the standard deviation of values; InputError where its square leaves the range of float64."""
    largest = float(np.max(np.abs(values)))
    deviation = float(np.std(values / largest)) * largest if largest > 0.0 else 0.0
    if largest > LARGEST or 0.0 < deviation < SMALLEST:
        raise InputError(
            f"{name} has values up to {largest:.3g} and a standard deviation of {deviation:.3g}. Hyperparameters are "
            f"learned from squares, which overflow float64 above {LARGEST:g} and underflow below {SMALLEST:g}. Divide "
            f"{name} by {deviation or largest:.0e}."
        )
    return deviation


@dataclass(frozen=True, eq=False)
class Units:
    """The scales of rows.

    Attributes
    ----------
    columns : ndarray of shape (d,)
        The unit of each column's lengthscale: its standard deviation.
    shared : ndarray of shape (d,)
        The units where columns share a lengthscale: the standard deviations, or one scale for all.
    variance : float
        Of y.
    noise : float
        The variance of y times the mean of weights that count no equal rows: σ² is the noise variance of weight 1.
    n_varying : int
        The number of columns that are not constant.
    """

    columns: Floats
    shared: Floats
    variance: float
    noise: float
    n_varying: int

    @classmethod
    def of(cls, rows: Rows, standardize: bool, groups: Sequence[int] | None = None) -> "Units":
        """Measure rows.

        Parameters
        ----------
        rows : Rows
            With y centred.
        standardize : bool
            Whether columns that share a lengthscale share it in their standard deviations, or as they are.
        groups : sequence of int, optional
            Columns of one group share a unit.

        Raises
        ------
        InputError
            If y has no spread, or X or y one beyond the range of float64.
        """
        spread = deviation(rows.Y, "y")
        if spread == 0.0:
            raise InputError("y is constant: no kernel can be learned from it. Give kernel and noise_variance.")
        for column in rows.X.T:
            deviation(column - column[0], "X")
        columns = column_scales(rows, None if groups is None else np.asarray(groups))
        varying = column_deviations(rows) > 0.0
        unit = math.sqrt(np.mean(np.square(columns[varying if varying.any() else slice(None)])))
        shared = columns if standardize else np.full(len(columns), unit)
        return cls(columns, shared, spread**2, spread**2 * rows.mean_weight, int(np.count_nonzero(varying)))


@dataclass(eq=False)
class Space:
    """The logarithms of what is free in a form, and of the noise variance, in the units of the data.

    Parameters
    ----------
    form : Form
    units : Units
    given_noise : float, optional
        A noise variance that is given.
    least_noise : float, default=1e-9
        In the unit of the noise.
    own_deviation : float, default=1.0
        Of the prior: the standard deviation of what each part, each column and each lengthscale have of their own.

    Raises
    ------
    InputError
        If a lengthscale is free, and all rows of X are the same.
    """

    form: Form
    units: Units
    given_noise: float | None = None
    least_noise: float = LEAST_NOISE
    own_deviation: float = OWN_DEVIATION

    def __post_init__(self) -> None:
        form, units = self.form, self.units
        columns = units.columns if form.ard else units.shared
        of_theta, of_kind, labels = parameter_units(form.kernel, columns, units.variance)
        log_units, ranges = np.log(of_theta), np.log([RANGES[kind] for kind in of_kind]).reshape(-1, 2)
        given = form.kernel.bounds - log_units[:, None]
        # Of numbers that share a free one, the first says what it is.
        _, first = np.unique(form.ties, return_index=True)
        # Behind those of the kernel stands the noise variance, free or not.
        self.index, self.kinds = np.append(form.ties, form.n_free), np.array(of_kind)[first]
        self._log_units = np.append(log_units, math.log(self.given_noise or units.noise))
        self.log_units, self.labels = log_units[first], labels[first]
        self.bounds = np.where(np.isfinite(given), given, ranges)[first]
        if self.given_noise is None:
            self.kinds = np.append(self.kinds, "noise")
            self.bounds = np.vstack((self.bounds, np.log([self.least_noise, RANGES["noise"][1]])))
        if units.n_varying == 0 and "lengthscale" in self.kinds:
            raise InputError(
                "All rows of X are the same: no lengthscale can be learned from them. Give kernel=GaussianKernel(...), "
                "or check the input columns."
            )

    @cached_property
    def median(self) -> Floats:
        """The medians of the priors, shape (n_free,)."""
        values = {"lengthscale": 0.5 * math.log(max(1, self.units.n_varying)), "noise": math.log(MEDIAN_NOISE)}
        medians = np.array([values.get(kind, 0.0) for kind in self.kinds])
        if not self.form.named:
            n_theta = len(self.form.ties)
            medians[:n_theta] = self.form.kernel.theta - self._log_units[:n_theta]
        return medians

    @property
    def lengthscales(self) -> tuple[Indices, Indices, Indices]:
        """Which of the free numbers are lengthscales, and the part and the column of each, counted from 0."""
        (scales,) = np.nonzero(self.kinds == "lengthscale")
        parts, columns = self.labels[scales].T
        return scales, parts, np.unique(columns, return_inverse=True)[1]

    def logarithms(self, free: Floats) -> Floats:
        """Return ``kernel.theta`` and the logarithm of the noise variance, in the caller's units."""
        return np.append(free, 0.0)[self.index] + self._log_units

    def kernel(self, free: Floats) -> Kernel:
        """Return the kernel; what all columns share is one number where their units are equal."""
        kernel = self.form.kernel.with_theta(self.logarithms(free)[: len(self.form.ties)])
        if self.form.named and not self.form.ard and np.ptp(self.units.shared) == 0.0:
            values = {p.name: float(p.value[0]) for p in kernel.free_parameters if p.value.ndim}
            kernel.set_params(**values)
        return kernel

    def noise_variance(self, free: Floats) -> float:
        """Return the noise variance, in squared units of y."""
        return self.given_noise or math.exp(self.logarithms(free)[-1])

    def weighted(self, free: Floats, weight: float = 1.0) -> WeightedKernel:
        """Return the kernel and the noise variance, with a weight in an average."""
        return WeightedKernel(self.kernel(free), self.noise_variance(free), weight)

    def gradient(self, by_logarithms: Floats) -> Floats:
        """Turn a gradient by `logarithms` into one by the free numbers."""
        return np.bincount(self.index, by_logarithms)[: len(self.bounds)].astype(np.float64)

    def log_prior(self, free: Floats) -> tuple[float, Floats]:
        """Return the logarithm of the prior density, and its gradient."""
        off = free - self.median
        slope: Floats = -self.prior_information @ off
        log_determinant = float(np.linalg.slogdet(self.prior_information / (2.0 * math.pi))[1])
        return 0.5 * float(off @ slope) + 0.5 * log_determinant, slope

    @cached_property
    def prior_information(self) -> Floats:
        """The inverse of the prior covariance: minus the second derivatives of the logarithm of the prior density."""
        own_variance, common = self.own_deviation**2, PRIOR_DEVIATION**2
        covariance: Floats = common * np.eye(len(self.bounds))
        scales, parts, columns = self.lengthscales
        alike = (parts == parts[:, None]).astype(float) + (columns == columns[:, None]) + np.eye(len(scales))
        covariance[np.ix_(scales, scales)] = common + own_variance * alike
        return np.linalg.inv(covariance).astype(np.float64)
