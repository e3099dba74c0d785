"""Rows of features or of a kernel matrix: made when they are read, or all at once."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack

from lmgp.errors import InputError
from lmgp.features.base import TensorMap
from lmgp.kernels.base import Kernel
from lmgp.memory import check_memory, chunks
from lmgp.sgd.strategies import Strategy
from lmgp.validation import as_tensor

Floats = NDArray[np.float64]
# The columns of a row whose entries are not zero, and these entries.
Entries = tuple[slice | NDArray[np.integer[Any]], Floats]
# Makes rows, dense or CSR, of the inputs in a slice.
RowMaker = Callable[[slice], Any]

# The number of sparse rows in a part; their memory is known only when they have been made.
SPARSE_ROWS = 1000


def feature_rows(features: Any, X: Any) -> RowMaker:
    """Make rows of features, from checked inputs.

    Parameters
    ----------
    features : scikit-learn transformer
        Fitted. Maps of this package take dense inputs without a further check.
    X : ndarray or CSR matrix of shape (n, d)

    Returns
    -------
    callable
        Gives an array or CSR matrix of shape (m, D) for a slice of m inputs.
    """
    if isinstance(features, TensorMap) and not issparse(X):
        inputs = as_tensor(X)
        return lambda part: features.evaluate(inputs[part]).numpy()
    return lambda part: _rows(features.transform(X[part]), features, X[part].shape[0])


def kernel_rows(kernel: Callable[..., Any], X: Floats, Z: Floats) -> RowMaker:
    """Make rows k(x, Z) of the kernel matrix, from checked inputs.

    Parameters
    ----------
    kernel : callable
        (X, Z) → matrix of shape (n, m). A `Kernel` prepares Z only once.
    X : ndarray of shape (n, d)
    Z : ndarray of shape (m, d)

    Returns
    -------
    callable
    """
    section = kernel.sections(Z) if isinstance(kernel, Kernel) else lambda rows: kernel(rows, Z)
    return lambda part: _rows(section(X[part]), kernel, len(X[part]), len(Z))


def entry_reader(
    strategy: Strategy, make: RowMaker, n: int, width: int, max_memory_gib: float
) -> Callable[[int], Entries]:
    """Return what gives the entries of the row of a training input.

    Parameters
    ----------
    strategy : Strategy
        If it is cached, all rows are made now.
    make : callable
        From `feature_rows` or `kernel_rows`.
    n, width : int
        The number of inputs and the length of a row.
    max_memory_gib : float
        For all rows of a cached strategy.

    Raises
    ------
    MemoryLimitError
        If all rows take more. They have not been made then; of sparse rows, at most `SPARSE_ROWS` above the limit.
    """
    if not strategy.cached:
        return lambda i: _entries(make(slice(i, i + 1)), 0)
    return partial(_entries, _all_rows(strategy, make, n, width, max_memory_gib))


def _all_rows(strategy: Strategy, make: RowMaker, n: int, width: int, max_memory_gib: float) -> Any:
    def check(needed: float, qualifier: str = "") -> None:
        check_memory(
            needed,
            f"{qualifier}{n:,} rows of {width:,} columns that strategy={strategy.name!r} stores",
            f"Use strategy={strategy.on_the_fly!r}, which makes them one by one, or a higher max_memory_gib.",
            max_memory_gib,
        )

    if issparse(make(slice(0, 1))):
        parts, held = [], 0
        for start in range(0, n, SPARSE_ROWS):
            parts.append(make(slice(start, start + SPARSE_ROWS)))
            held += parts[-1].data.nbytes + parts[-1].indices.nbytes
            check(held, f"{min(start + SPARSE_ROWS, n):,} of ")
        return vstack(parts, format="csr")
    check(8.0 * n * width)
    rows = np.empty((n, width))
    # Part by part: what a map or a kernel needs besides its result stays small.
    for part in chunks(n, width):
        rows[part] = make(part)
    return rows


def _entries(rows: Any, i: int) -> Entries:
    if not issparse(rows):
        return slice(None), rows[i]
    part = slice(rows.indptr[i], rows.indptr[i + 1])
    return rows.indices[part], rows.data[part]


def _rows(made: Any, source: object, n: int, width: int | None = None) -> Any:
    """Check the shape of what a transformer or a kernel made."""
    if issparse(made):
        made = made.tocsr()
        made.sum_duplicates()
    else:
        made = np.asarray(made)
    if (
        made.ndim != 2
        or made.shape[0] != n
        or made.shape[1] != (width or made.shape[1])
        or made.dtype.kind not in "fiub"
    ):
        raise InputError(
            f"{source!r} made an array of shape {made.shape} of {made.dtype} for {n} rows; expected numbers, shape "
            f"({n}, {width or 'n_features'})."
        )
    return made.astype(np.float64, copy=False)
