"""Memory: what the cells of a comparison would take, and whether an error is that of an allocator."""

from collections.abc import Iterable

from lmgp.errors import MemoryLimitError
from lmgp.methods import METHODS

# What torch's allocators of CPUs and GPUs say, where Python and numpy raise a MemoryError.
_TOLD = ("can't allocate memory", "not enough memory", "out of memory")


def check_features(
    name: str, methods: Iterable[str], sizes: Iterable[int], n_train: int, max_memory_gib: float
) -> None:
    """Refuse sizes at which two D × D matrices, those of a model in feature space, do not fit.

    Parameters
    ----------
    name : str
        Of the data set.
    methods : iterable of str
        Names in `METHODS`. A method that chooses its own size, or has none, is not checked.
    sizes : iterable of int
        The numbers of features, D.
    n_train : int
        The training rows: landmarks are at most that many.
    max_memory_gib : float
        The memory, in GiB, that one model may take.

    Raises
    ------
    MemoryLimitError
        Nothing has been allocated then.
    """
    largest = max(sizes, default=0)
    for method in methods:
        n_columns = min(largest, n_train) if METHODS[method].family == "rows" else largest
        needed = 16.0 * n_columns**2 / 2**30
        if needed > max_memory_gib and METHODS[method].sized and not METHODS[method].chooses:
            raise MemoryLimitError(
                f"{name}: method {method} with {n_columns:,} features takes {needed:,.1f} GiB for its matrices, above "
                f"the limit of {max_memory_gib:g} GiB. Lower --n-features: {most_columns(max_memory_gib):,} fit."
            )


def most_columns(max_memory_gib: float) -> int:
    """Return the largest D whose two D × D matrices of float64 fit into this many GiB."""
    return int((max_memory_gib * 2**30 / 16.0) ** 0.5)


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an allocation failed: torch raises a RuntimeError for it."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(told in str(error) for told in _TOLD)
