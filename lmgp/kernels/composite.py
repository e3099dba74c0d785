"""Kernels made from kernels: sums, products and multiples."""

import math
from collections.abc import Callable, Iterator, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_array

from lmgp.columns import checked_table
from lmgp.errors import InputError
from lmgp.kernels.base import CAPABILITIES, Kernel, require, unsupported
from lmgp.kernels.derivatives import Pullback
from lmgp.kernels.parameters import Parameter
from lmgp.memory import chunks
from lmgp.parallel import parallel_map

if TYPE_CHECKING:
    import gpytorch

    from lmgp.kernels.stationary import GaussianKernel

Floats = NDArray[np.float64]

# Bytes of a block of kernel values.
BLOCK_BYTES = 4 * 2**20


class ComposedKernel(Kernel):
    """A kernel made from one or two others, its parts.

    Subclasses name the constructor parameters that hold the parts in `_part_names`.
    """

    _part_names: ClassVar[tuple[str, ...]] = ("left", "right")

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernels that this one is made from."""
        return tuple(checked_kernel(getattr(self, name)) for name in self._part_names)

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All numeric parameters of the parts, free and fixed."""
        inner = (
            one._replace(name=f"{name}__{one.name}")
            for name, part in zip(self._part_names, self.parts, strict=True)
            for one in part.parameters
        )
        return (*super().parameters, *inner)

    def checked(self, n_inputs: int) -> Self:  # noqa: D102
        for name, part in zip(self._part_names, self.parts, strict=True):
            try:
                part.checked(n_inputs)
            except InputError as error:
                raise InputError(f"In the {name} part of {type(self).__name__}: {error}") from None
        return self

    def rescaled(self, scales: ArrayLike) -> Kernel:  # noqa: D102
        scaled = {name: part.rescaled(scales) for name, part in zip(self._part_names, self.parts, strict=True)}
        return type(self)(**{**self.get_params(deep=False), **scaled})

    def can(self, capability: str) -> bool:  # noqa: D102
        return capability in self._capabilities and all(part.can(capability) for part in self.parts)

    def _part_values(
        self, X: torch.Tensor, Z: torch.Tensor, values: Mapping[str, torch.Tensor]
    ) -> Iterator[torch.Tensor]:
        """Evaluate each part, with its own values of the parameters."""
        for name, part in zip(self._part_names, self.parts, strict=True):
            yield part.evaluate_at(X, Z, _of_part(name, values))

    def _joined_sections(self, Z: ArrayLike, join: np.ufunc) -> Callable[[ArrayLike], Floats]:
        """Join the sections of two parts block by block: nothing but the result has its size."""
        other = checked_table(Z, "Z")
        left, right = (part.sections(other) for part in self.parts)

        def section(X: ArrayLike) -> Floats:
            rows = checked_table(X)
            found = np.empty((len(rows), len(other)))

            def fill(part: slice) -> None:
                join(left(rows[part]), right(rows[part]), out=found[part])

            parallel_map(fill, list(chunks(len(rows), max(1, len(other)), BLOCK_BYTES)))
            return found

        return section

    def _metrics(self, n_inputs: int) -> list[Floats]:
        metrics = [part.metric(n_inputs) for part in self.parts if part.can("metric")]
        if not metrics:
            raise unsupported(self, "metric", "This")
        return metrics


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

    _capabilities = frozenset(CAPABILITIES)

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left = left
        self.right = right

    def evaluate_at(self, X: torch.Tensor, Z: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:  # noqa: D102
        left, right = self._part_values(X, Z, values)
        return left + right

    def with_pullback(self, X: torch.Tensor, values: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, Pullback]:  # noqa: D102
        parts = {
            name: part.with_pullback(X, _of_part(name, values))
            for name, part in zip(self._part_names, self.parts, strict=True)
        }
        left, right = (covariance for covariance, _ in parts.values())
        return left + right, _OfSum({name: pullback for name, (_, pullback) in parts.items()})

    def sections(self, Z: ArrayLike) -> Callable[[ArrayLike], Floats]:  # noqa: D102
        return self._joined_sections(Z, np.add)

    def diagonal(self, X: ArrayLike) -> Floats:  # noqa: D102
        left, right = (part.diagonal(X) for part in self.parts)
        return left + right

    def can(self, capability: str) -> bool:  # noqa: D102
        some = any if capability == "metric" else all
        return some(part.can(capability) for part in self.parts)

    def metric(self, n_inputs: int) -> Floats:  # noqa: D102
        return np.minimum.reduce(self._metrics(n_inputs))

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

    def to_gpytorch(self) -> "gpytorch.kernels.Kernel":  # noqa: D102
        require(self, "gpytorch", "This")
        left, right = (part.to_gpytorch() for part in self.parts)
        return left + right


class _OfSum(Pullback):
    """Derivatives of a sum of kernels, from those of its parts, by their names."""

    def __init__(self, parts: Mapping[str, Pullback]) -> None:
        self._parts = parts

    def of_matrix(self, weights: torch.Tensor) -> dict[str, torch.Tensor]:
        return self._named({name: part.of_matrix(weights) for name, part in self._parts.items()})

    def of_products(self, u: torch.Tensor, V: torch.Tensor) -> dict[str, torch.Tensor]:
        return self._named({name: part.of_products(u, V) for name, part in self._parts.items()})

    def _named(self, found: Mapping[str, Mapping[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        return {f"{part}__{name}": slope for part, slopes in found.items() for name, slope in slopes.items()}


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

    _capabilities = frozenset(CAPABILITIES)

    def __init__(self, left: Kernel, right: Kernel) -> None:
        self.left = left
        self.right = right

    def evaluate_at(self, X: torch.Tensor, Z: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:  # noqa: D102
        left, right = self._part_values(X, Z, values)
        return left * right

    def sections(self, Z: ArrayLike) -> Callable[[ArrayLike], Floats]:  # noqa: D102
        return self._joined_sections(Z, np.multiply)

    def diagonal(self, X: ArrayLike) -> Floats:  # noqa: D102
        left, right = (part.diagonal(X) for part in self.parts)
        return left * right

    def can(self, capability: str) -> bool:  # noqa: D102
        if capability == "metric":
            return any(part.can("metric") for part in self.parts)
        # The transform of a product is a convolution, with a closed form for Gaussians alone.
        return super().can("gaussian_components" if capability == "spectral_density" else capability)

    def metric(self, n_inputs: int) -> Floats:  # noqa: D102
        return np.sum([metric**-2.0 for metric in self._metrics(n_inputs)], axis=0) ** -0.5

    def prior_variance(self) -> float:  # noqa: D102
        return math.prod(part.prior_variance() for part in self.parts)

    def spectral_density(self, frequencies: ArrayLike) -> Floats:  # noqa: D102
        require(self, "spectral_density", "This")
        densities = [component.spectral_density(frequencies) for component in self.gaussian_components()]
        return np.sum(densities, axis=0)

    def sample_frequencies(self, directions: ArrayLike, rng: np.random.Generator) -> Floats:
        """Draw the sum of a frequency of one part and one of the other."""
        require(self, "frequencies", "This")
        rows: Floats = check_array(directions, dtype=np.float64)
        left, right = self.parts
        return left.sample_frequencies(rows, rng) + right.sample_frequencies(rng.standard_normal(rows.shape), rng)

    def gaussian_components(self) -> "tuple[GaussianKernel, ...]":  # noqa: D102
        require(self, "gaussian_components", "This")
        left, right = (part.gaussian_components() for part in self.parts)
        return tuple(one.times(other) for one in left for other in right)

    def to_gpytorch(self) -> "gpytorch.kernels.Kernel":  # noqa: D102
        require(self, "gpytorch", "This")
        left, right = (part.to_gpytorch() for part in self.parts)
        return left * right


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

    _capabilities = frozenset(CAPABILITIES)
    _part_names = ("kernel",)

    def __init__(self, kernel: Kernel, factor: float) -> None:
        self.kernel = kernel
        self.factor = factor

    def evaluate_at(self, X: torch.Tensor, Z: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:  # noqa: D102
        (part,) = self._part_values(X, Z, values)
        return float(self.factor) * part

    def checked(self, n_inputs: int) -> Self:  # noqa: D102
        checked_factor(self.factor)
        return super().checked(n_inputs)

    def sections(self, Z: ArrayLike) -> Callable[[ArrayLike], Floats]:  # noqa: D102
        factor, section = checked_factor(self.factor), self._part.sections(Z)
        return lambda X: factor * section(X)

    def diagonal(self, X: ArrayLike) -> Floats:  # noqa: D102
        return checked_factor(self.factor) * self._part.diagonal(X)

    def metric(self, n_inputs: int) -> Floats:  # noqa: D102
        return self._part.metric(n_inputs)

    def prior_variance(self) -> float:  # noqa: D102
        return checked_factor(self.factor) * self._part.prior_variance()

    def spectral_density(self, frequencies: ArrayLike) -> Floats:  # noqa: D102
        return checked_factor(self.factor) * self._part.spectral_density(frequencies)

    def sample_frequencies(self, directions: ArrayLike, rng: np.random.Generator) -> Floats:  # noqa: D102
        return self._part.sample_frequencies(directions, rng)

    def gaussian_components(self) -> "tuple[GaussianKernel, ...]":  # noqa: D102
        factor = checked_factor(self.factor)
        components = self._part.gaussian_components() if factor else ()
        return tuple(clone(one).set_params(variance=factor * float(one.variance)) for one in components)

    def to_gpytorch(self) -> "gpytorch.kernels.Kernel":  # noqa: D102
        from lmgp.kernels.gpytorch import scaled

        return scaled(self._part.to_gpytorch(), checked_factor(self.factor), learned=False)

    @property
    def _part(self) -> Kernel:
        (part,) = self.parts
        return part


def _of_part(name: str, values: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
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
