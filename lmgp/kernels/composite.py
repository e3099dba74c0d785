"""Kernels of inner products, and kernels made from kernels: sums, products, multiples, exponentials, modulations."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_array

from lmgp.data import Floats, as_tensor, checked_scales
from lmgp.errors import InputError
from lmgp.kernels.base import (
    Bounds,
    Kernel,
    Parameter,
    RadialPart,
    check_parameters,
    require,
    rescaled_values,
    unsupported,
)
from lmgp.utils.columns import checked_table
from lmgp.utils.lazy import Tensor, torch

if TYPE_CHECKING:
    from lmgp.kernels.stationary import GaussianKernel

Function = Callable[[Floats], Floats]


class ComposedKernel(Kernel):
    """A kernel made from one or two others, its parts.

    Subclasses name the constructor parameters that hold the parts in `_part_names`.
    """

    _part_names: ClassVar[tuple[str, ...]] = ("left", "right")

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left = left
        self.right = right

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernels that this one is made from."""
        return tuple(checked_kernel(getattr(self, name)) for name in self._part_names)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All numeric parameters of the parts, free and fixed."""
        inner = (
            parameter._replace(name=f"{name}__{parameter.name}")
            for name, part in zip(self._part_names, self.parts, strict=True)
            for parameter in part.parameters
        )
        return (*super().parameters, *inner)

    def checked(self, n_inputs: int) -> Self:  # noqa: D102
        for name, part in zip(self._part_names, self.parts, strict=True):
            try:
                part.checked(n_inputs)
            except InputError as error:
                raise InputError(f"In the {name} part of {type(self).__name__}: {error}") from None
        return self

    def with_indices(self, names: Sequence[str] | None, n_inputs: int) -> Kernel:  # noqa: D102
        parts = [part.with_indices(names, n_inputs) for part in self.parts]
        same = all(part is other for part, other in zip(parts, self.parts, strict=True))
        return self if same else self._with_parts(parts)

    def rescaled(self, scales: ArrayLike) -> Kernel:  # noqa: D102
        return self._with_parts([part.rescaled(scales) for part in self.parts])

    def _with_parts(self, parts: Iterable[Kernel]) -> Kernel:
        return type(self)(**{**self.get_params(deep=False), **dict(zip(self._part_names, parts, strict=True))})

    def can(self, capability: str) -> bool:  # noqa: D102
        enough = any if capability == "metric" else all
        return super().can(capability) and enough(part.can(capability) for part in self.parts)

    def _part_values(self, X: Tensor, Z: Tensor, values: Mapping[str, Tensor]) -> Iterator[Tensor]:
        """Evaluate each part, with its own values of the parameters."""
        for name, part in zip(self._part_names, self.parts, strict=True):
            yield part.covariance(X, Z, _of_part(name, values))


class SumKernel(ComposedKernel):
    """The sum k(x, z) = k₁(x, z) + k₂(x, z).

    Parameters
    ----------
    left, right : Kernel

    Examples
    --------
    >>> from lmgp import GaussianKernel, LinearKernel
    >>> (GaussianKernel() + LinearKernel())([[1.0]], [[1.0], [0.0]]).round(3)
    array([[2.   , 0.607]])
    """

    @property
    def terms(self) -> tuple[tuple[Kernel, ...], ...]:  # noqa: D102
        return tuple(term for part in self.parts for term in part.terms)

    def covariance(self, X: Tensor, Z: Tensor, values: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        left, right = self._part_values(X, Z, values)
        return left + right

    def radial_parts(self) -> tuple[RadialPart, ...] | None:  # noqa: D102
        left, right = (part.radial_parts() for part in self.parts)
        return None if left is None or right is None else (*left, *right)

    def metric(self, n_inputs: int) -> Floats:
        """Return ℓ with ℓ⁻² = Σ vₖ ℓₖ⁻² / Σ vₖ, of the terms with lengthscales ℓₖ and variances vₖ.

        So near rows are those that are correlated through the terms that vary most. Where a term's variance is not the
        same everywhere, all terms count alike.
        """
        require(self, "metric", "This")
        near = [(term.metric(n_inputs), share) for term, share in self._shares() if term.can("metric")]
        metrics, shares = zip(*near, strict=True)
        return _combined(metrics, np.array(shares))

    def circles(self, X: Floats) -> Floats:  # noqa: D102
        return np.hstack([math.sqrt(share) * term.circles(X) for term, share in self._shares()])

    def _shares(self) -> list[tuple[Kernel, float]]:
        """Return the variance of each term over that of those with a metric; where it is not told, all count alike."""
        terms = list(self._terms())
        near = [term for term in terms if term.can("metric")]
        told = all(term.can("prior_variance") for term in near) and any(term.prior_variance() for term in near)
        variances = [term.prior_variance() if told and term.can("prior_variance") else 1.0 for term in terms]
        total = np.sum([variance for term, variance in zip(terms, variances, strict=True) if term.can("metric")])
        return [(term, float(variance / (total or 1.0))) for term, variance in zip(terms, variances, strict=True)]

    def _terms(self) -> Iterator[Kernel]:
        """Go through the terms, those of sums among them."""
        for part in self.parts:
            yield from part._terms() if isinstance(part, SumKernel) else (part,)

    def prior_variance(self) -> float:  # noqa: D102
        return sum(part.prior_variance() for part in self.parts)

    def spectral_density(self, frequencies: ArrayLike) -> Floats:  # noqa: D102
        require(self, "spectral_density", "This")
        left, right = (part.spectral_density(frequencies) for part in self.parts)
        return left + right

    def sample_frequencies(self, directions: ArrayLike, rng: np.random.Generator) -> Floats:
        """Draw each frequency from one part, taken by the shares of their variances."""
        require(self, "frequencies", "This")
        left, right = (part.sample_frequencies(directions, rng) for part in self.parts)
        first, second = (part.prior_variance() for part in self.parts)
        return np.where(rng.random((len(left), 1)) * (first + second) < first, left, right)

    def gaussian_components(self) -> "tuple[GaussianKernel, ...]":  # noqa: D102
        require(self, "gaussian_components", "This")
        return tuple(component for part in self.parts for component in part.gaussian_components())


def _combined(metrics: Sequence[Floats], weights: Floats) -> Floats:
    """Return ℓ with ℓ⁻² = Σ wₖ ℓₖ⁻² of each column, whatever its unit; infinite where all are."""
    least = np.min(metrics, axis=0)
    seen, combined = np.isfinite(least), np.full(least.shape, np.inf)
    with np.errstate(divide="ignore"):  # of a column that terms without variance alone see
        combined[seen] = least[seen] * (weights @ np.square(least[seen] / np.array(metrics)[:, seen])) ** -0.5
    return combined


class ProductKernel(ComposedKernel):
    """The product k(x, z) = k₁(x, z) k₂(x, z).

    Parameters
    ----------
    left, right : Kernel

    Examples
    --------
    >>> from lmgp import LinearKernel
    >>> (LinearKernel() * LinearKernel())([[3.0]], [[2.0]])
    array([[36.]])
    """

    @property
    def terms(self) -> tuple[tuple[Kernel, ...], ...]:  # noqa: D102
        left, right = self.parts
        return tuple((*term, *other) for term in left.terms for other in right.terms)

    def covariance(self, X: Tensor, Z: Tensor, values: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        left, right = self._part_values(X, Z, values)
        return left * right

    def radial_parts(self) -> tuple[RadialPart, ...] | None:  # noqa: D102
        left, right = (part.radial_parts() for part in self.parts)
        if left is None or right is None or not all(part.factor for part in (*left[1:], *right[1:])):  # or sums
            return None
        return (*left, right[0]._replace(factor=True), *right[1:])

    def can(self, capability: str) -> bool:  # noqa: D102
        # The transform of a product is a convolution, with a closed form for Gaussians alone.
        return super().can("gaussian_components" if capability == "spectral_density" else capability)

    def metric(self, n_inputs: int) -> Floats:  # noqa: D102
        factors = [part for part in self.parts if part.can("metric")]
        if not factors:
            raise unsupported(self, "metric", "This")
        return _combined([factor.metric(n_inputs) for factor in factors], np.ones(len(factors)))

    def circles(self, X: Floats) -> Floats:  # noqa: D102
        return np.hstack([part.circles(X) for part in self.parts])

    def prior_variance(self) -> float:  # noqa: D102
        return math.prod(part.prior_variance() for part in self.parts)

    def spectral_density(self, frequencies: ArrayLike) -> Floats:  # noqa: D102
        require(self, "spectral_density", "This")
        densities = [component.spectral_density(frequencies) for component in self.gaussian_components()]
        return sum(densities, np.zeros(np.shape(frequencies)[:1]))

    def sample_frequencies(self, directions: ArrayLike, rng: np.random.Generator) -> Floats:
        """Draw the sum of a frequency of one part and one of the other."""
        require(self, "frequencies", "This")
        rows: Floats = check_array(directions, dtype=np.float64)
        left, right = self.parts
        return left.sample_frequencies(rows, rng) + right.sample_frequencies(rng.standard_normal(rows.shape), rng)

    def gaussian_components(self) -> "tuple[GaussianKernel, ...]":  # noqa: D102
        require(self, "gaussian_components", "This")
        left, right = (part.gaussian_components() for part in self.parts)
        return tuple(sine.times(other) for sine in left for other in right)


class ScaledKernel(ComposedKernel):
    """The multiple c k(x, z).

    Parameters
    ----------
    kernel : Kernel
    factor : float
        c ≥ 0. Learning leaves it as it is.

    Examples
    --------
    >>> from lmgp import LinearKernel
    >>> (0.5 * LinearKernel())([[3.0]], [[2.0]])
    array([[3.]])
    """

    _part_names = ("kernel",)

    def __init__(self, kernel: Kernel, factor: float) -> None:
        self.kernel = kernel
        self.factor = factor

    @property
    def label(self) -> str:  # noqa: D102
        return self.parts[0].label

    @property
    def terms(self) -> tuple[tuple[Kernel, ...], ...]:  # noqa: D102
        return tuple((ScaledKernel(first, self.factor), *others) for first, *others in self.parts[0].terms)

    def covariance(self, X: Tensor, Z: Tensor, values: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        (part,) = self._part_values(X, Z, values)
        return float(self.factor) * part

    def checked(self, n_inputs: int) -> Self:  # noqa: D102
        checked_factor(self.factor)
        return super().checked(n_inputs)

    def radial_parts(self) -> tuple[RadialPart, ...] | None:  # noqa: D102
        parts, factor = self.parts[0].radial_parts(), float(self.factor)
        if parts is None:
            return None
        return tuple(part if part.factor else part._replace(variance=factor * part.variance) for part in parts)

    def metric(self, n_inputs: int) -> Floats:  # noqa: D102
        return self.parts[0].metric(n_inputs)

    def circles(self, X: Floats) -> Floats:  # noqa: D102
        return self.parts[0].circles(X)

    def prior_variance(self) -> float:  # noqa: D102
        return checked_factor(self.factor) * self.parts[0].prior_variance()

    def spectral_density(self, frequencies: ArrayLike) -> Floats:  # noqa: D102
        return checked_factor(self.factor) * self.parts[0].spectral_density(frequencies)

    def sample_frequencies(self, directions: ArrayLike, rng: np.random.Generator) -> Floats:  # noqa: D102
        return self.parts[0].sample_frequencies(directions, rng)

    def gaussian_components(self) -> "tuple[GaussianKernel, ...]":  # noqa: D102
        factor = checked_factor(self.factor)
        components = self.parts[0].gaussian_components() if factor else ()
        return tuple(clone(part).set_params(variance=factor * float(part.variance)) for part in components)


@dataclass(eq=False, repr=False)
class LinearKernel(Kernel):
    """The linear kernel k(x, z) = (x − c)ᵀ √V A √V (z − c), of linear functions that are zero at c.

    Parameters
    ----------
    matrix : array-like of shape (d, d), optional
        A, symmetric and positive semi-definite; the identity if not given.
    variance : float or array-like of shape (d,), default=1.0
        The diagonal of V: the prior variance of the slope in each column, in squared units of the target over those of
        the column; one for all columns, or one a column.
    center : float or array-like of shape (d,), default=0.0
        c, in the units of the inputs.
    variance_bounds : (float, float), "fixed" or None, default=None
        See `GaussianKernel`.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, section 4.2.2.

    C. De Sa, *Kernels and Feature Extraction*, CS4787 lecture 18, Cornell University: the table of constructions.

    Examples
    --------
    >>> from lmgp import LinearKernel
    >>> LinearKernel([[2.0, 0.0], [0.0, 1.0]])([[1.0, 1.0]], [[3.0, 4.0]])
    array([[10.]])
    >>> LinearKernel(variance=[2.0, 1.0], center=1.0)([[2.0, 2.0]], [[3.0, 4.0]])
    array([[7.]])
    """

    parameter_names: ClassVar[tuple[str, ...]] = ("variance",)
    parameter_kinds: ClassVar[Mapping[str, str]] = {"variance": "slope"}

    matrix: ArrayLike | None = None
    variance: float | ArrayLike = 1.0
    center: float | ArrayLike = 0.0
    _: KW_ONLY
    variance_bounds: Bounds = None

    @property
    def label(self) -> str:  # noqa: D102
        return "linear" if self.matrix is None else "linear (with a matrix)"

    def covariance(self, X: Tensor, Z: Tensor, values: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        center, root = as_tensor(np.array(self.center, dtype=np.float64)).to(X.device), values["variance"].sqrt()
        left, right = (X - center) * root, (Z - center) * root
        if self.matrix is not None:
            right = right @ as_tensor(np.asarray(self.matrix, dtype=np.float64)).to(Z.device)
        return left @ right.mT

    def checked(self, n_inputs: int) -> Self:  # noqa: D102
        if self.matrix is not None:
            checked_matrix(self.matrix, n_inputs)
        check_parameters(self, n_inputs, ("variance",))
        center = np.asarray(self.center)
        if center.dtype.kind not in "iuf" or center.shape not in ((), (n_inputs,)) or not np.all(np.isfinite(center)):
            raise InputError(
                f"center must be one finite number or one a column, shape ({n_inputs},) for these rows; got "
                f"{self.center!r} in LinearKernel."
            )
        return self

    def rescaled(self, scales: ArrayLike) -> "LinearKernel":  # noqa: D102
        factors = checked_scales(scales)
        kernel = self.checked(len(factors))
        variance, bounds = rescaled_values(kernel.variance, kernel.variance_bounds, factors**-2.0)
        center, _ = rescaled_values(kernel.center, None, factors)
        return clone(self).set_params(variance=variance, center=center, variance_bounds=bounds)


class ModulatedKernel(ComposedKernel):
    """The modulation f(x) k(x, z) f(z).

    Parameters
    ----------
    kernel : Kernel
    function : callable
        f: takes rows as an array of shape (n, d), gives one finite number a row, shape (n,). To pickle the kernel it
        must be a function of a module.

    Examples
    --------
    >>> from lmgp import LinearKernel, ModulatedKernel
    >>> ModulatedKernel(LinearKernel(), lambda X: X[:, 0] ** 2)([[3.0]], [[2.0]])
    array([[216.]])
    """

    _part_names = ("kernel",)

    def __init__(self, kernel: Kernel, function: Function) -> None:
        self.kernel = kernel
        self.function = function

    def covariance(self, X: Tensor, Z: Tensor, values: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        (part,) = self._part_values(X, Z, values)
        return self._at(X)[..., :, None] * part * self._at(Z)[..., None, :]

    def rescaled(self, scales: ArrayLike) -> Kernel:
        """Refuse: what the function makes of other units is not known."""
        return Kernel.rescaled(self, scales)

    def _at(self, X: Tensor) -> Tensor:
        values = as_tensor(row_values(self.function, X.reshape(-1, X.shape[-1]).cpu().numpy()))
        return values.reshape(X.shape[:-1]).to(X.device)


class ExponentialKernel(ComposedKernel):
    """The exponential exp(k(x, z)), which has no finite feature map.

    Parameters
    ----------
    kernel : Kernel

    Examples
    --------
    The Gaussian kernel is f(x) exp(xᵀz) f(z) with f(x) = exp(−‖x‖²/2):

    >>> import numpy as np
    >>> from lmgp import GaussianKernel
    >>> from lmgp import ExponentialKernel, LinearKernel, ModulatedKernel
    >>> kernel = ModulatedKernel(ExponentialKernel(LinearKernel()), lambda X: np.exp(-0.5 * (X**2).sum(axis=1)))
    >>> X = [[0.3, 1.0], [-0.5, 0.2]]
    >>> bool(np.allclose(kernel(X), GaussianKernel()(X)))
    True
    """

    _part_names = ("kernel",)

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def covariance(self, X: Tensor, Z: Tensor, values: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        (part,) = self._part_values(X, Z, values)
        return torch.exp(part)


def _of_part(name: str, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the values of the parameters of one part, by their names in that part."""
    prefix = f"{name}__"
    return {key.removeprefix(prefix): value for key, value in values.items() if key.startswith(prefix)}


def checked_kernel(kernel: Any) -> Kernel:
    """Return the kernel itself, or raise an InputError if it is none of this package's."""
    if not isinstance(kernel, Kernel):
        raise InputError(
            f"A part of a composed kernel must be a kernel of this package, such as GaussianKernel(); got {kernel!r}."
        )
    return kernel


def checked_factor(factor: Any) -> float:
    """Return the factor as a float, or raise an InputError if it is not a non-negative finite number."""
    if not isinstance(factor, Real) or not 0.0 <= float(factor) < math.inf:
        raise InputError(f"factor must be a non-negative finite number; got {factor!r}.")
    return float(factor)


def checked_matrix(matrix: ArrayLike, n_inputs: int) -> Floats:
    """Return the matrix of a linear kernel as an array.

    Raises
    ------
    InputError
        If it is not symmetric and positive semi-definite, up to rounding, with one row and column an input column.
    """
    checked: Floats = check_array(matrix, dtype=np.float64, input_name="matrix")
    if checked.shape != (n_inputs, n_inputs):
        raise InputError(f"matrix must have shape ({n_inputs}, {n_inputs}) for these rows; got {checked.shape}.")
    tolerance = 1e-12 * n_inputs * np.abs(checked).max()
    if np.abs(checked - checked.T).max() > tolerance:
        raise InputError("matrix must be symmetric; got one that is not. Use (A + A.T)/2.")
    smallest = np.linalg.eigvalsh(checked)[0]
    if smallest < -tolerance:
        raise InputError(f"matrix must be positive semi-definite; got one with the eigenvalue {smallest:.3g}.")
    return checked


def row_values(function: Any, X: ArrayLike) -> Floats:
    """Evaluate a function of rows.

    Raises
    ------
    InputError
        If it does not give one finite number for each row.
    """
    if not callable(function):
        raise InputError(f"function must be callable, (n, d) rows to (n,) values; got {function!r}.")
    rows = checked_table(X)
    values = np.asarray(function(rows))
    if values.shape != (len(rows),) or values.dtype.kind not in "biuf":
        raise InputError(
            f"function must give one number a row, shape ({len(rows)},) for these rows; got shape {values.shape} of "
            f"{values.dtype}."
        )
    if not np.isfinite(values).all():
        raise InputError(f"function must give finite numbers; row {int(np.argmin(np.isfinite(values)))} has another.")
    return values.astype(np.float64)
