"""Memory: rows in chunks of bounded size, and one check before anything large is allocated."""

import ctypes
import os
import platform
from collections.abc import Callable, Iterable

from lmgp.errors import MemoryLimitError
from lmgp.utils.parallel import unless_abandoned

# Bytes of the feature matrix of one chunk. A larger one makes no matrix product faster, and above 32 MiB the C library
# returns every buffer to the system, which takes as long as the features themselves.
CHUNK_BYTES = 8 * 2**20


# The C library of Linux takes every buffer above 128 KiB from the system and gives it back, which can take longer
# than what is computed in it. It keeps up to 64 MiB of buffers of at most 32 MiB, the most that it allows to be kept.
_KEPT_BYTES, _M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = 32 * 2**20, -1, -3
if platform.libc_ver()[0] == "glibc":
    ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _KEPT_BYTES)
    ctypes.CDLL(None).mallopt(_M_TRIM_THRESHOLD, 2 * _KEPT_BYTES)


def chunks(n: int, n_columns: int, n_bytes: int | None = None) -> Iterable[slice]:
    """Cut n rows into slices whose float64 matrices of `n_columns` columns stay within `n_bytes` (`CHUNK_BYTES`)."""
    size = max(1, (n_bytes or CHUNK_BYTES) // (8 * n_columns))
    return unless_abandoned(slice(start, min(start + size, n)) for start in range(0, n, size))


def check_memory(
    n_bytes: float, subject: str, advice: str | Callable[[float], str], max_memory_gib: float | None = None
) -> None:
    """Refuse what needs more memory than there is, or than the user allows.

    Parameters
    ----------
    n_bytes : float
        What is needed.
    subject : str
        What needs it, in the plural: "The frequencies of 1e9 features".
    advice : str or callable
        What to do, as a sentence; a callable makes it from the limit in bytes, to say what would fit.
    max_memory_gib : float, optional
        The limit, in GiB. If not given, the machine's memory; no limit where the system does not say how much that is.

    Raises
    ------
    MemoryLimitError
        It says what is needed, the limit, and what would fit.
    """
    limit = memory_limit(max_memory_gib)
    if n_bytes <= limit:
        return
    whose = "of this machine" if max_memory_gib is None else f"of max_memory_gib={max_memory_gib:g}"
    raise MemoryLimitError(
        f"{subject} take {_size(n_bytes)}, above the {_size(limit)} {whose}. "
        f"{advice if isinstance(advice, str) else advice(limit)}"
    )


def memory_limit(max_memory_gib: float | None = None) -> float:
    """Return the limit in bytes; the machine's memory if none is given, infinite where the system does not say it."""
    return _machine_bytes() if max_memory_gib is None else max_memory_gib * 2**30


def _size(n_bytes: float) -> str:
    return f"{n_bytes / 2**30:,.1f} GiB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:,.3g} MiB"


def _machine_bytes() -> float:
    try:
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return float("inf")


# What torch's allocators of CPUs and GPUs say, where Python and numpy raise a MemoryError.
_TORCH_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "out of memory")


def is_out_of_memory(error: BaseException) -> bool:
    """Say whether an allocation failed: torch raises a RuntimeError for it."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(told in str(error) for told in _TORCH_OUT_OF_MEMORY)
