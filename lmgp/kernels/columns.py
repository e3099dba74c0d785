"""Kernels of some of the columns."""

from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from lmgp.data import Floats, Indices, checked_scales
from lmgp.errors import InputError
from lmgp.kernels.base import Kernel, Parameter, RadialPart, require
from lmgp.kernels.composite import ComposedKernel
from lmgp.utils.columns import column_index
from lmgp.utils.lazy import Tensor


class ColumnsKernel(ComposedKernel):
    """A kernel of some of the columns: k(x, z) of x and z without the others.

    ``kernel.on(columns)`` makes it, as in ``MaternKernel().on(["lon", "lat"]) * PeriodicKernel(12.0).on("month")``.

    Parameters
    ----------
    kernel : Kernel
        Its lengthscales are those of these columns, in their order.
    columns : int, str, or sequence of these
        By their index, or by their name in the data frame that a model is fitted to: the model's `kernel_` has indices.

    Examples
    --------
    >>> from lmgp import GaussianKernel
    >>> kernel = GaussianKernel(2.0).on(1)
    >>> kernel([[0.0, 0.0]], [[9.0, 2.0]]).round(3)
    array([[0.607]])
    >>> kernel.metric(2)
    array([inf,  2.])
    """

    _part_names: ClassVar[tuple[str, ...]] = ("kernel",)

    def __init__(self, kernel: Kernel, columns: int | str | Sequence[int | str]) -> None:
        self.kernel = kernel
        self.columns = columns

    @property
    def label(self) -> str:  # noqa: D102
        return self.parts[0].label

    @property
    def terms(self) -> tuple[tuple[Kernel, ...], ...]:  # noqa: D102
        return tuple(tuple(ColumnsKernel(part, self.columns) for part in term) for term in self.parts[0].terms)

    @property
    def listed(self) -> list[Any]:
        """The columns, also where it is one."""
        is_single = isinstance(self.columns, str) or np.ndim(self.columns) == 0
        return [self.columns] if is_single else list(self.columns)  # type: ignore[arg-type]

    @property
    def parameters(self) -> tuple[Parameter, ...]:  # noqa: D102
        listed = self.listed

        def of_rows(columns: tuple[int, ...] | None) -> tuple[int, ...]:
            return tuple(listed if columns is None else [listed[j] if isinstance(j, Integral) else j for j in columns])

        return tuple(parameter._replace(columns=of_rows(parameter.columns)) for parameter in super().parameters)

    def checked(self, n_inputs: int) -> Self:  # noqa: D102
        if not self.listed:
            raise InputError("columns of a kernel must list at least one column; got none.")
        super().checked(len(self._index(n_inputs)))
        return self

    def with_indices(self, names: Sequence[str] | None, n_inputs: int) -> Kernel:  # noqa: D102
        index = column_index(self.listed, names, n_inputs, "columns of a kernel").tolist()
        listed = None if names is None else [names[j] for j in index]
        inner = self.parts[0].with_indices(listed, len(index))
        return self if inner is self.kernel and index == self.listed else ColumnsKernel(inner, index)

    def covariance(self, X: Tensor, Z: Tensor, values: Mapping[str, Tensor]) -> Tensor:  # noqa: D102
        left = X[..., self.listed]
        (part,) = self._part_values(left, left if Z is X else Z[..., self.listed], values)
        return part

    def radial_parts(self) -> tuple[RadialPart, ...] | None:  # noqa: D102
        parts, listed = self.parts[0].radial_parts(), np.array(self.listed)
        if parts is None:
            return None
        return tuple(
            part._replace(columns=(listed if part.columns is None else listed[part.columns]).tolist()) for part in parts
        )

    def rescaled(self, scales: ArrayLike) -> Kernel:  # noqa: D102
        factors = checked_scales(scales)
        return ColumnsKernel(self.parts[0].rescaled(factors[self._index(len(factors))]), self.columns)

    def metric(self, n_inputs: int) -> Floats:
        """Return the lengthscales of the kernel, and infinite ones for columns that it does not see."""
        index = self._index(n_inputs)
        metric: Floats = np.full(n_inputs, np.inf)
        metric[index] = self.parts[0].metric(len(index))
        return metric

    def circles(self, X: Floats) -> Floats:  # noqa: D102
        return self.parts[0].circles(X[:, self._index(X.shape[1])])

    def prior_variance(self) -> float:  # noqa: D102
        return self.parts[0].prior_variance()

    def sample_frequencies(self, directions: ArrayLike, rng: np.random.Generator) -> Floats:  # noqa: D102
        require(self, "frequencies", "This")
        rows: Floats = check_array(directions, dtype=np.float64)
        index = self._index(rows.shape[1])
        frequencies: Floats = np.zeros(rows.shape)
        frequencies[:, index] = self.parts[0].sample_frequencies(rows[:, index], rng)
        return frequencies

    def _index(self, n_inputs: int) -> Indices:
        return column_index(self.listed, None, n_inputs, "columns of a kernel")
