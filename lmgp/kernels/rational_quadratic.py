"""The rational quadratic kernel: a mixture of Gaussian kernels of many lengthscales."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, kve

from lmgp.kernels.parameters import Bounds
from lmgp.kernels.stationary import StationaryKernel

if TYPE_CHECKING:
    import gpytorch

Floats = NDArray[np.float64]


class RationalQuadraticKernel(StationaryKernel):
    """The rational quadratic kernel k(x, z) = variance · (1 + r²/(2 alpha))^{−alpha}, r the distance in lengthscales.

    A mixture of Gaussian kernels of many lengthscales; for large `alpha` a `GaussianKernel`.

    Parameters
    ----------
    lengthscale : float or array-like of shape (d,), default=1.0
        In the units of the inputs: one for all columns (isotropic), or one a column.
    variance : float, default=1.0
        The prior variance k(x, x), in squared units of the target.
    alpha : float, default=1.0
        Positive: the smaller, the more widely the lengthscales are spread.
    lengthscale_bounds, variance_bounds, alpha_bounds : (float, float), "fixed" or None, default=None
        See `GaussianKernel`.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. 4.19.

    Examples
    --------
    >>> from lmgp import RationalQuadraticKernel
    >>> RationalQuadraticKernel(2.0, alpha=0.5)([[0.0]], [[0.0], [2.0]]).round(3)
    array([[1.   , 0.707]])
    """

    parameter_names: ClassVar[tuple[str, ...]] = ("lengthscale", "variance", "alpha")

    def __init__(
        self,
        lengthscale: float | ArrayLike = 1.0,
        variance: float = 1.0,
        alpha: float = 1.0,
        *,
        lengthscale_bounds: Bounds = None,
        variance_bounds: Bounds = None,
        alpha_bounds: Bounds = None,
    ) -> None:
        self.lengthscale = lengthscale
        self.variance = variance
        self.alpha = alpha
        self.lengthscale_bounds = lengthscale_bounds
        self.variance_bounds = variance_bounds
        self.alpha_bounds = alpha_bounds

    def correlation(self, squares: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:  # noqa: D102
        alpha = values["alpha"]
        return torch.exp(-alpha * torch.log1p(squares / (2.0 * alpha)))

    def _scaled_density(self, squares: Floats, n_inputs: int) -> Floats:
        # The mean of the Gaussian density over its precision τ ~ Gamma(alpha, rate alpha): a modified Bessel function.
        alpha, order = float(self.alpha), float(self.alpha) - n_inputs / 2.0
        rate = 2.0 * np.pi**2 * squares
        constant = alpha * np.log(alpha) - gammaln(alpha) + n_inputs / 2.0 * np.log(2.0 * np.pi)
        with np.errstate(divide="ignore", invalid="ignore"):
            argument = 2.0 * np.sqrt(alpha * rate)
            logarithm = np.log(2.0 * kve(order, argument)) - argument + order / 2.0 * np.log(rate / alpha)
        at_zero = gammaln(order) - order * np.log(alpha) if order > 0.0 else np.inf
        # Close to zero the Bessel function overflows, and at 1e9 it is not a number: there the density has its limits.
        limit = np.where(argument < 1.0, at_zero, -np.inf)
        return np.asarray(np.exp(constant + np.where(np.isfinite(logarithm), logarithm, limit)))

    def _mixing(self, size: int, rng: np.random.Generator) -> Floats:
        return np.sqrt(rng.gamma(self.alpha, 1.0 / self.alpha, size))

    def to_gpytorch(self) -> "gpytorch.kernels.Kernel":  # noqa: D102
        from lmgp.kernels.gpytorch import counterpart

        return counterpart("RQKernel", self)
