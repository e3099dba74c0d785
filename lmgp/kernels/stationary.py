"""Stationary kernels: functions of the distance between two rows, in lengthscales."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, kve
from sklearn.base import clone
from sklearn.utils.validation import check_array

from lmgp.data import Floats, checked_scales
from lmgp.errors import InputError
from lmgp.kernels.base import Bounds, Kernel, RadialPart, check_parameters, require, rescaled_values, unsupported
from lmgp.kernels.derivatives import squared_distances
from lmgp.utils.lazy import Tensor, torch

# Added as a floor below a root, to keep its derivative finite at equal rows; far below the rounding of any distance.
TINY = 1e-36

# A squared distance at which e^{−r} is zero: beyond it r may be infinite, and r e^{−r} no number.
VAST = 1e6


@dataclass(eq=False, repr=False)
class StationaryKernel(Kernel):
    """k(x, z) = variance · correlation(r²) with r² = Σⱼ (xⱼ − zⱼ)²/lengthscaleⱼ².

    A subclass implements `correlation`; and `scaled_density` and `mixing`, without which it has no spectral density and
    no frequencies. Where there is compiled code for it, `profile` is its name there, see `RadialPart`.

    Parameters
    ----------
    lengthscale : float or array-like of shape (d,), default=1.0
        In the units of the inputs: one for all columns (isotropic), or one a column.
    variance : float, default=1.0
        The prior variance k(x, x), in squared units of the target.
    lengthscale_bounds, variance_bounds : (float, float), "fixed" or None, default=None
        A pair is the least and the largest value: a model learns the parameter within it. With None or "fixed" a model
        keeps the value; None leaves it in `theta`, and `relearn` may change it.
    """

    parameter_names: ClassVar[tuple[str, ...]] = ("lengthscale", "variance")

    lengthscale: float | ArrayLike = 1.0
    variance: float = 1.0
    _: KW_ONLY
    lengthscale_bounds: Bounds = None
    variance_bounds: Bounds = None

    @property
    def profile(self) -> str | None:
        """The name of the correlation in compiled code, see `RadialPart`; None where there is none."""
        return None

    @abstractmethod
    def correlation(self, squares: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        """Evaluate k/variance.

        Parameters
        ----------
        squares : Tensor of any shape
            r², squared distances in lengthscales.
        values : mapping of str to Tensor
            The parameters by their names.

        Returns
        -------
        Tensor of the shape of squares
        """

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        attributes = set(vars(cls))
        if attributes & {"correlation", "covariance"}:  # what is inherited beside them is that of another function
            for name in {"scaled_density", "mixing", "gaussian_components"} - attributes:
                setattr(cls, name, getattr(StationaryKernel, name))

    def scaled_density(self, squares: Floats, n_inputs: int) -> Floats:
        """Evaluate the spectral density for lengthscale 1 and variance 1, see `spectral_density`.

        Parameters
        ----------
        squares : ndarray of shape (m,)
            ‖ξ‖², in squared cycles per lengthscale.
        n_inputs : int

        Returns
        -------
        ndarray of shape (m,)
        """
        raise unsupported(self, "spectral_density", "scaled_density")

    def mixing(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw what multiplies Gaussian frequencies: a kernel is a mixture of Gaussian kernels of many lengthscales.

        Parameters
        ----------
        size : int
        rng : numpy.random.Generator

        Returns
        -------
        ndarray of shape (size,)
        """
        raise unsupported(self, "frequencies", "mixing")

    def can(self, capability: str) -> bool:  # noqa: D102
        needed = {"spectral_density": "scaled_density", "frequencies": "mixing"}.get(capability)
        return super().can(capability) if needed is None else self._overrides(needed, StationaryKernel)

    def covariance(self, X: Tensor, Z: Tensor, values: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        left = X / values["lengthscale"]
        right = left if Z is X else Z / values["lengthscale"]
        correlation, variance = self.correlation(squared_distances(left, right), values), values["variance"]
        learned = correlation.requires_grad or variance.requires_grad
        return variance * correlation if learned else correlation.mul_(variance)

    def radial_parts(self) -> tuple[RadialPart, ...] | None:  # noqa: D102
        if self.profile is None or "profile" not in vars(type(self)):  # a subclass may be another function
            return None
        lengthscale = np.asarray(self.lengthscale, dtype=np.float64)
        return (RadialPart(self.profile, lengthscale, float(self.variance), float(getattr(self, "alpha", 1.0))),)

    def prior_variance(self) -> float:  # noqa: D102
        return float(self.variance)

    def checked(self, n_inputs: int) -> Self:  # noqa: D102
        check_parameters(self, n_inputs, ("lengthscale",))
        return self

    def metric(self, n_inputs: int) -> Floats:  # noqa: D102
        return np.broadcast_to(np.asarray(self.lengthscale, dtype=np.float64), (n_inputs,)).copy()

    def rescaled(self, scales: ArrayLike) -> Self:  # noqa: D102
        factors = checked_scales(scales)
        value, bounds = rescaled_values(self.checked(len(factors)).lengthscale, self.lengthscale_bounds, factors)
        return clone(self).set_params(lengthscale=value, lengthscale_bounds=bounds)

    def spectral_density(self, frequencies: ArrayLike) -> Floats:  # noqa: D102
        require(self, "spectral_density", "This")
        rows: Floats = check_array(frequencies, dtype=np.float64)
        lengthscale = self.checked(rows.shape[1]).metric(rows.shape[1])
        squares = np.square(rows * lengthscale).sum(axis=1)
        return float(self.variance) * np.prod(lengthscale) * self.scaled_density(squares, rows.shape[1])

    def sample_frequencies(self, directions: ArrayLike, rng: np.random.Generator) -> Floats:  # noqa: D102
        require(self, "frequencies", "This")
        rows: Floats = check_array(directions, dtype=np.float64)
        lengthscale = self.checked(rows.shape[1]).metric(rows.shape[1])
        return rows / lengthscale * self.mixing(len(rows), rng)[:, None]


class GaussianKernel(StationaryKernel):
    """The Gaussian kernel k(x, z) = variance · exp(−½ Σⱼ (xⱼ − zⱼ)²/lengthscaleⱼ²).

    Parameters
    ----------
    lengthscale : float or array-like of shape (d,), default=1.0
        In the units of the inputs: one for all columns (isotropic), or one a column.
    variance : float, default=1.0
        The prior variance k(x, x), in squared units of the target.
    lengthscale_bounds, variance_bounds : (float, float), "fixed" or None, default=None
        A pair is the least and the largest value: a model learns the parameter within it. With None or "fixed" a model
        keeps the value; None leaves it in `theta`, and `relearn` may change it.

    Notes
    -----
    The constructor stores what it is given; values are checked where the kernel is used. The kernel is a scikit-learn
    parameter object: it clones, and a grid search reaches ``kernel__lengthscale``.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. 4.9.

    Examples
    --------
    >>> from lmgp import GaussianKernel
    >>> kernel = GaussianKernel(lengthscale=[1.0, 2.0], variance=3.0)
    >>> kernel([[0.0, 0.0]], [[1.0, 2.0], [0.0, 0.0]]).round(3)
    array([[1.104, 3.   ]])
    """

    profile = "gaussian"
    label = "Gaussian"

    def correlation(self, squares: Tensor, values: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        return torch.exp(-0.5 * squares)

    def scaled_density(self, squares: Floats, n_inputs: int) -> Floats:  # noqa: D102
        return (2.0 * np.pi) ** (n_inputs / 2.0) * np.exp(-2.0 * np.pi**2 * squares)

    def mixing(self, size: int, rng: np.random.Generator) -> Floats:  # noqa: D102
        return np.ones(size)

    def gaussian_components(self) -> "tuple[GaussianKernel, ...]":  # noqa: D102
        return (self,)

    def times(self, other: "GaussianKernel") -> "GaussianKernel":
        """Return the product with another Gaussian kernel, which is Gaussian."""
        squares = [np.asarray(kernel.lengthscale, dtype=np.float64) ** -2.0 for kernel in (self, other)]
        lengthscale = np.asarray((squares[0] + squares[1]) ** -0.5)
        variance = float(self.variance) * float(other.variance)
        return GaussianKernel(lengthscale if lengthscale.ndim else float(lengthscale), variance)


@dataclass(eq=False, repr=False)
class MaternKernel(StationaryKernel):
    """The Matérn kernel of smoothness ½, 3/2 or 5/2, a function of the distance r in lengthscales.

    k/variance is e^{−r} for ½, (1 + √3 r) e^{−√3 r} for 3/2, and (1 + √5 r + 5r²/3) e^{−√5 r} for 5/2. A
    function with this prior has 0, 1 and 2 derivatives; with a `GaussianKernel` it has all.

    Parameters
    ----------
    lengthscale : float or array-like of shape (d,), default=1.0
        In the units of the inputs: one for all columns (isotropic), or one a column.
    variance : float, default=1.0
        The prior variance k(x, x), in squared units of the target.
    smoothness : {0.5, 1.5, 2.5}, default=1.5
        ν.
    lengthscale_bounds, variance_bounds : (float, float), "fixed" or None, default=None
        See `GaussianKernel`.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. 4.14 to 4.17.

    Examples
    --------
    >>> from lmgp import MaternKernel
    >>> MaternKernel(2.0, smoothness=0.5)([[0.0]], [[0.0], [2.0]]).round(3)
    array([[1.   , 0.368]])
    """

    SMOOTHNESSES: ClassVar[tuple[float, ...]] = (0.5, 1.5, 2.5)

    smoothness: float = 1.5

    @property
    def profile(self) -> str:  # noqa: D102
        return f"matern{2.0 * self.smoothness:.0f}2"

    @property
    def label(self) -> str:  # noqa: D102
        return f"Matérn {2.0 * self.smoothness:.0f}/2"

    def correlation(self, squares: Tensor, values: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        r = torch.sqrt((2.0 * self.smoothness * squares).clamp(TINY, VAST))
        decay = torch.exp(-r)
        if self.smoothness == 0.5:
            return decay
        return (1.0 + r) * decay if self.smoothness == 1.5 else (1.0 + r + r.square() / 3.0) * decay

    def checked(self, n_inputs: int) -> Self:  # noqa: D102
        if not isinstance(self.smoothness, Real) or float(self.smoothness) not in self.SMOOTHNESSES:
            raise InputError(
                f"smoothness must be 0.5, 1.5 or 2.5; got {self.smoothness!r} in MaternKernel. For a smoother function "
                "use GaussianKernel."
            )
        return super().checked(n_inputs)

    def scaled_density(self, squares: Floats, n_inputs: int) -> Floats:  # noqa: D102
        nu, power = float(self.smoothness), float(self.smoothness) + n_inputs / 2.0
        log_constant = n_inputs * np.log(2.0 * np.sqrt(np.pi)) + gammaln(power) - gammaln(nu) + nu * np.log(2.0 * nu)
        return np.asarray(np.exp(log_constant - power * np.log(2.0 * nu + 4.0 * np.pi**2 * squares)))

    def mixing(self, size: int, rng: np.random.Generator) -> Floats:  # noqa: D102
        return np.sqrt(2.0 * self.smoothness / rng.chisquare(2.0 * self.smoothness, size))


@dataclass(eq=False, repr=False)
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
    profile = "rational_quadratic"
    label = "rational quadratic"

    alpha: float = 1.0
    _: KW_ONLY
    alpha_bounds: Bounds = None

    def correlation(self, squares: Tensor, values: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        alpha = values["alpha"]
        return torch.exp(-alpha * torch.log1p(squares / (2.0 * alpha)))

    def scaled_density(self, squares: Floats, n_inputs: int) -> Floats:  # noqa: D102
        # The mean of the Gaussian density over its precision τ ~ Gamma(alpha, rate alpha): a modified Bessel function.
        alpha, order = float(self.alpha), float(self.alpha) - n_inputs / 2.0
        rate = 2.0 * np.pi**2 * squares
        constant = alpha * np.log(alpha) - gammaln(alpha) + n_inputs / 2.0 * np.log(2.0 * np.pi)
        with np.errstate(divide="ignore", invalid="ignore"):
            argument = 2.0 * np.sqrt(alpha * rate)
            logarithm = np.log(2.0) + _log_bessel(order, argument) + order / 2.0 * np.log(rate / alpha)
        at_zero = gammaln(order) - order * np.log(alpha) if order > 0.0 else np.inf
        # Close to zero the Bessel function overflows, and there the density has its limit; far away it has no digits.
        limit = np.where(argument < 1.0, at_zero, -np.inf)
        return np.asarray(np.exp(constant + np.where(np.isfinite(logarithm), logarithm, limit)))

    def mixing(self, size: int, rng: np.random.Generator) -> Floats:  # noqa: D102
        return np.sqrt(rng.gamma(self.alpha, 1.0 / self.alpha, size))


def _log_bessel(order: float, x: Floats) -> Floats:
    """Return log K(x): of a large order, where the function overflows, by Debye's expansion (DLMF 10.41.4)."""
    plain, root = np.log(kve(order, x)) - x, np.hypot(order, x)
    if order < 50.0:
        return plain
    p = order / root
    series = 1.0 - (3.0 * p - 5.0 * p**3) / (24.0 * order)
    series += (81.0 * p**2 - 462.0 * p**4 + 385.0 * p**6) / (1152.0 * order**2)
    debye = 0.5 * np.log(np.pi / (2.0 * root)) - root + order * np.arcsinh(order / x) + np.log(series)
    return np.where(np.isfinite(plain), plain, debye)
