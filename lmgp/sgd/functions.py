"""Functions f = Σ uᵢ φ(xᵢ) that take stochastic gradient steps, held as weights or as duals."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from lmgp.errors import InputError
from lmgp.memory import check_memory, chunks
from lmgp.sgd.rows import SPARSE_ROWS, Entries, entry_reader, feature_rows, kernel_rows
from lmgp.sgd.strategies import Strategy

Floats = NDArray[np.float64]

# A common factor of all weights that has shrunk to less is multiplied in.
SMALLEST_SCALE = 1e-100


class Expansion(ABC):
    """K functions f on the training inputs, zero at first.

    The weights are ``stored`` times ``scale``: to shrink all of them changes one number.

    Parameters
    ----------
    read : callable
        Gives the entries of the row of training input i.
    width : int
        The length of a row.
    n_outputs : int
        K.

    Attributes
    ----------
    squared_norm : ndarray of shape (K,)
        ‖f‖², updated at each step.
    """

    def __init__(self, read: Callable[[int], Entries], width: int, n_outputs: int) -> None:
        self.read = read
        self.stored = np.zeros((n_outputs, width))
        self.scale = np.ones(n_outputs)
        self.squared_norm = np.zeros(n_outputs)

    @property
    def weights(self) -> Floats:
        """The weights w or duals u, shape (K, width)."""
        return self.stored * self.scale[:, None]

    def outputs(self, i: int) -> Floats:
        """Return f(xᵢ), shape (K,), and keep the entries of row i for `step`."""
        self._entries = where, values = self.read(i)
        self._outputs = self.scale * (self.stored[:, where] @ values)
        return self._outputs

    def step(self, i: int, shrink: float, change: Floats, radius: Floats | None = None) -> None:
        """Set f to shrink · f + change · φ(xᵢ), then project it to ‖f‖ ≤ radius.

        Parameters
        ----------
        i : int
            That of the last call of `outputs`.
        shrink : float
        change : ndarray of shape (K,)
        radius : ndarray of shape (K,), optional
        """
        square = self._square(i)
        self.squared_norm = shrink * (shrink * self.squared_norm + 2.0 * change * self._outputs) + change**2 * square
        self.scale = self.scale * shrink
        if np.abs(self.scale).min() < SMALLEST_SCALE:
            self.stored, self.scale = self.weights, np.ones_like(self.scale)
        if change.any():
            self._add(i, change / self.scale)
        if radius is not None:
            # Rounding alone can make the norm of a vanishing f negative; 0/0 counts as no need to shrink.
            factor = np.fmin(1.0, radius / np.sqrt(self.squared_norm.clip(min=0.0)))
            self.scale = self.scale * factor
            self.squared_norm = self.squared_norm * factor**2

    def is_finite(self) -> bool:
        """Say whether the entries that were read last are finite."""
        return bool(np.isfinite(self._entries[1]).all())

    @abstractmethod
    def _square(self, i: int) -> float:
        """Return ‖φ(xᵢ)‖² from the entries that were read."""

    @abstractmethod
    def _add(self, i: int, change: Floats) -> None:
        """Add change · φ(xᵢ) to what is stored."""


class Primal(Expansion):
    """f(x) = wᵀφ(x), by rows of features."""

    def _square(self, i: int) -> float:
        values = self._entries[1]
        return float(values @ values)

    def _add(self, i: int, change: Floats) -> None:
        where, values = self._entries
        self.stored[:, where] += change[:, None] * values


class Dual(Expansion):
    """f(x) = Σ uⱼ k(xⱼ, x), by rows of the kernel matrix."""

    def _square(self, i: int) -> float:
        return float(self._entries[1][i])

    def _add(self, i: int, change: Floats) -> None:
        self.stored[:, i] += change


def expand(strategy: Strategy, source: Any, X: Any, n_outputs: int, max_memory_gib: float) -> Expansion:
    """Set up K functions that are zero, for one strategy.

    Parameters
    ----------
    strategy : Strategy
    source : transformer or callable
        From `lmgp.sgd.strategies.make_source`.
    X : ndarray or CSR matrix of shape (n, d)
    n_outputs : int
        K.
    max_memory_gib : float
        For the rows that a cached strategy makes now, and for the weights, in GiB.

    Raises
    ------
    MemoryLimitError
        If all rows or the weights take more. They have not been made then.
    """
    make = kernel_rows(source, X, X) if strategy.reads == "kernel" else feature_rows(source, X)
    n, width = X.shape[0], make(slice(0, 1)).shape[1]
    read = entry_reader(strategy, make, n, width, max_memory_gib)
    # Twice: as they are held, and once more when the common factor is multiplied in.
    check_memory(
        16.0 * n_outputs * width,
        f"The {width:,} weights of {n_outputs} function(s)",
        "Use fewer features (a lower degree, or hashed ones, such as PolynomialCountSketch()), or a higher "
        "max_memory_gib.",
        max_memory_gib,
    )
    return (Dual if strategy.reads == "kernel" else Primal)(read, width, n_outputs)


def outputs(source: Any, weights: Floats, X: Any, support: Floats | None = None) -> Floats:
    """Evaluate K functions at checked inputs, part by part.

    Parameters
    ----------
    source : transformer or callable
        The fitted map, or the kernel.
    weights : ndarray of shape (K, D) or (K, m)
        w or u.
    X : ndarray or CSR matrix of shape (n, d)
    support : ndarray of shape (m, d), optional
        With a kernel, the rows to which the duals belong.

    Returns
    -------
    ndarray of shape (n, K)

    Raises
    ------
    InputError
        If a value is not finite.
    """
    make = feature_rows(source, X) if support is None else kernel_rows(source, X, support)
    is_sparse = issparse(make(slice(0, 1)))
    parts = chunks(X.shape[0], weights.shape[1], 8 * SPARSE_ROWS * weights.shape[1] if is_sparse else None)
    with np.errstate(all="ignore"):
        values = np.concatenate([make(part) @ weights.T for part in parts])
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        raise InputError(
            f"The function is not finite at row {int(np.argmin(finite))}: its features or its kernel overflow there. "
            "Check that its columns have the scale of those of the training rows."
        )
    return values
