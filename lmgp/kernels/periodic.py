"""The periodic kernel: functions that repeat themselves, such as seasons."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ive
from scipy.stats import norm
from sklearn.base import clone
from sklearn.utils.validation import check_array

from lmgp.data import Floats, as_tensor, checked_scales
from lmgp.kernels.base import Bounds, Kernel, RadialPart, check_parameters, rescaled_values
from lmgp.kernels.derivatives import squared_distances
from lmgp.utils.lazy import Tensor, torch


@dataclass(eq=False, repr=False)
class PeriodicKernel(Kernel):
    """The periodic kernel k(x, z) = variance · exp(−2 Σⱼ sin²(π(xⱼ − zⱼ)/periodⱼ)/lengthscaleⱼ²).

    A function with this prior repeats itself exactly. Times a kernel with a lengthscale, such as `MaternKernel`, it
    changes slowly from one period to the next.

    Parameters
    ----------
    period : float or array-like of shape (d,), default=1.0
        In the units of the inputs: one for all columns, or one a column.
    lengthscale : float or array-like of shape (d,), default=1.0
        Without a unit: the smaller, the more often the function turns within a period.
    variance : float, default=1.0
        The prior variance k(x, x), in squared units of the target.
    period_bounds, lengthscale_bounds, variance_bounds : (float, float), "fixed" or None, default=None
        See `GaussianKernel`.

    Notes
    -----
    It is the Gaussian kernel of the points cos(2πxⱼ/periodⱼ), sin(2πxⱼ/periodⱼ) on circles, one for each column. Rows
    that are alike may lie many periods apart, so that it has no metric by itself. Sums and products with a kernel that
    has one find near rows by both, see `circles`.

    References
    ----------
    D. J. C. MacKay, *Introduction to Gaussian Processes*, in Neural Networks and Machine Learning, NATO ASI Series 168,
    Springer, 1998, eq. 47.

    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. 4.31.

    Examples
    --------
    >>> from lmgp import PeriodicKernel
    >>> PeriodicKernel(12.0, variance=2.0)([[0.0]], [[3.0], [6.0], [24.0]]).round(3)
    array([[0.736, 0.271, 2.   ]])
    """

    parameter_names: ClassVar[tuple[str, ...]] = ("period", "lengthscale", "variance")
    parameter_kinds: ClassVar[Mapping[str, str]] = {"period": "period", "variance": "variance"}
    label = "periodic"

    period: float | ArrayLike = 1.0
    lengthscale: float | ArrayLike = 1.0
    variance: float = 1.0
    _: KW_ONLY
    period_bounds: Bounds = None
    lengthscale_bounds: Bounds = None
    variance_bounds: Bounds = None

    def covariance(self, X: Tensor, Z: Tensor, values: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        left = _on_circles(X, values)
        right = left if Z is X else _on_circles(Z, values)
        return values["variance"] * torch.exp(-0.5 * squared_distances(left, right))

    def radial_parts(self) -> tuple[RadialPart, ...] | None:  # noqa: D102
        if type(self) is not PeriodicKernel:  # a subclass may be another function
            return None
        period, lengthscale = (np.asarray(value, dtype=np.float64) for value in (self.period, self.lengthscale))
        return (RadialPart("gaussian", lengthscale, float(self.variance), 1.0, period=period),)

    def checked(self, n_inputs: int) -> Self:  # noqa: D102
        check_parameters(self, n_inputs, ("period", "lengthscale"))
        return self

    def rescaled(self, scales: ArrayLike) -> Self:  # noqa: D102
        factors = checked_scales(scales)
        value, bounds = rescaled_values(self.checked(len(factors)).period, self.period_bounds, factors)
        return clone(self).set_params(period=value, period_bounds=bounds)

    def prior_variance(self) -> float:  # noqa: D102
        return float(self.variance)

    def circles(self, X: Floats) -> Floats:  # noqa: D102
        return _on_circles(as_tensor(X), self.values(None, torch.device("cpu"))).numpy()

    def sample_frequencies(self, directions: ArrayLike, rng: np.random.Generator) -> Floats:
        """Draw harmonics of the period: the j-th with the weight e^{−κ} Iⱼ(κ) of its cosine, κ = 1/lengthscale²."""
        rows: Floats = check_array(directions, dtype=np.float64)
        self.checked(rows.shape[1])
        shares, lengthscales = norm.cdf(rows), np.broadcast_to(self.lengthscale, rows.shape[1])
        harmonics = [_harmonics(share, float(ell) ** -2.0) for share, ell in zip(shares.T, lengthscales, strict=True)]
        return 2.0 * np.pi * np.column_stack(harmonics) / np.asarray(self.period, dtype=np.float64)


def _on_circles(X: Tensor, values: Mapping[str, Tensor]) -> Tensor:
    """Return points on circles of the radii 1/lengthscale, one for each column, shape (..., n, 2d)."""
    angles = 2.0 * torch.pi * X / values["period"]
    return torch.cat((angles.cos() / values["lengthscale"], angles.sin() / values["lengthscale"]), dim=-1)


def _harmonics(shares: Floats, kappa: float) -> Floats:
    """Return the quantiles of the distribution e^{−κ} Iⱼ(κ) of the integers j, which has the variance κ."""
    most = int(np.ceil(10.0 * np.sqrt(kappa) + 20.0))
    cumulated = np.cumsum(ive(np.arange(-most, most + 1), kappa))
    return np.clip(np.searchsorted(cumulated, shares) - most, -most, most).astype(np.float64)
