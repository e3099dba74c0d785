"""Sources of chunks of rows: iterators, memory-mapped arrays, files. Every source gives the same chunks each time."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lmgp.errors import InputError, StreamError

# The number of values of X in a chunk of an array or a file: 4 MiB.
CHUNK_VALUES = 2**19


class Chunk(NamedTuple):
    """Rows as they come.

    Attributes
    ----------
    X : array-like of shape (n, d)
    y : array-like of shape (n,)
    sample_weight, noise_variances : array-like of shape (n,) or None
    """

    X: Any
    y: Any
    sample_weight: Any = None
    noise_variances: Any = None


class RowSource(ABC):
    """Chunks of rows, always the same ones in the same order.

    Attributes
    ----------
    again : bool
        Whether it can be read more than once.
    n_rows : int or None
        None where that is not known before they are read.
    """

    again: bool = True
    n_rows: int | None = None

    @abstractmethod
    def chunks(self, start: int = 0) -> Iterator[Chunk]:
        """Yield the chunks from number `start` on, counted from 0."""


class ArraySource(RowSource):
    """The rows of arrays, which may be memory-mapped.

    Parameters
    ----------
    X : array of shape (n, d)
    y : array-like of shape (n,)
    sample_weight, noise_variances : array-like of shape (n,) or None
    chunk_rows : int
    """

    def __init__(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None, noise_variances: ArrayLike | None, chunk_rows: int
    ) -> None:
        self._columns = [None if one is None else np.asanyarray(one) for one in (y, sample_weight, noise_variances)]
        self._X, self._chunk_rows, self.n_rows = X, chunk_rows, len(X)
        for name, one in zip(("y", "sample_weight", "noise_variances"), self._columns, strict=True):
            if one is not None and (one.ndim == 0 or len(one) != len(X)):
                got = "one number" if one.ndim == 0 else f"{len(one):,}"
                raise InputError(f"X has {len(X):,} rows; {name} must have one value for each, got {got}.")

    def chunks(self, start: int = 0) -> Iterator[Chunk]:  # noqa: D102
        for first in range(start * self._chunk_rows, len(self._X), self._chunk_rows):
            part = slice(first, first + self._chunk_rows)
            # Copies, so that no page of the file stays in memory by a reference to it.
            others = (None if one is None else np.array(one[part]) for one in self._columns)
            yield Chunk(np.array(self._X[part]), *others)


class ChunkSource(RowSource):
    """The chunks of an iterable, or of what a function without arguments returns.

    Parameters
    ----------
    made : iterable or callable
        Of tuples (X, y), (X, y, sample_weight) or (X, y, sample_weight, noise_variances). An iterator is read once.
    """

    def __init__(self, made: Iterable[Any] | Callable[[], Iterable[Any]]) -> None:
        self._made = made
        self.again = not isinstance(made, Iterator)
        self._read = False

    def chunks(self, start: int = 0) -> Iterator[Chunk]:  # noqa: D102
        if self._read and not self.again:
            raise InputError(
                "The iterator of chunks has been read. Make another one, or give a function that makes one: then it "
                "can be read again."
            )
        self._read = True
        made = self._made() if callable(self._made) else self._made
        for number, chunk in enumerate(islice(made, start, None), start):
            yield _as_chunk(chunk, number)


def _as_chunk(chunk: Any, number: int) -> Chunk:
    if isinstance(chunk, Chunk):
        return chunk
    if not isinstance(chunk, tuple | list) or not 2 <= len(chunk) <= 4:
        got = f"{len(chunk)} parts" if isinstance(chunk, tuple | list) else type(chunk).__name__
        raise StreamError(
            f"Chunk {number:,} (counted from 0) is no pair of X and y: got {got}. Expected (X, y), (X, y, "
            "sample_weight) or (X, y, sample_weight, noise_variances).",
            number,
        )
    return Chunk(*chunk)


def default_chunk_rows(n_inputs: int) -> int:
    """Return the number of rows in a chunk of an array or a file with `n_inputs` columns."""
    return max(1, CHUNK_VALUES // max(1, n_inputs))


def checked_chunk_rows(chunk_rows: Any, n_inputs: int) -> int:
    """Return the number of rows in a chunk: as given, or the default.

    Raises
    ------
    InputError
        If it is no positive integer.
    """
    if chunk_rows is None:
        return default_chunk_rows(n_inputs)
    if isinstance(chunk_rows, bool) or not isinstance(chunk_rows, Integral) or chunk_rows < 1:
        raise InputError(f"chunk_rows must be a positive integer, or None; got {chunk_rows!r}.")
    return int(chunk_rows)


def source_of(
    X: Any,
    y: Any = None,
    sample_weight: ArrayLike | None = None,
    noise_variances: ArrayLike | None = None,
    chunk_rows: int | None = None,
    *,
    arrays: bool = False,
) -> RowSource | None:
    """Return the source that the arguments of `fit` are, or None where they are rows in memory.

    Parameters
    ----------
    X : RowSource, iterable or callable of chunks, or array-like of shape (n, d)
        A memory-mapped array of more than one chunk is a source.
    y : array-like of shape (n,), optional
    sample_weight, noise_variances : array-like of shape (n,), optional
    chunk_rows : int, optional
        Of an array: as many as have 2**19 values if not given.
    arrays : bool, default=False
        Whether arrays in memory are a source, too.

    Raises
    ------
    InputError
        If chunks come with a y, weights or noise variances beside them.
    """
    if _is_array(X):
        if y is None or not (arrays or isinstance(X, np.memmap) or chunk_rows is not None):
            return None
        made = X if hasattr(X, "shape") and not hasattr(X, "iloc") else np.asarray(X)
        if len(made.shape) != 2:
            return None  # which is refused as rows are
        rows = checked_chunk_rows(chunk_rows, made.shape[1])
        if len(made) <= rows and not arrays and chunk_rows is None:
            return None
        return ArraySource(made, y, sample_weight, noise_variances, rows)
    for name, one in (("y", y), ("sample_weight", sample_weight), ("noise_variances", noise_variances)):
        if one is not None:
            cure = " Give list(X) if these are rows." if isinstance(X, Iterator) else ""
            raise InputError(
                f"X is a source of chunks, each (X, y), (X, y, sample_weight) or (X, y, sample_weight, "
                f"noise_variances): {name} belongs into the chunks. Leave it out here; got a {type(X).__name__}.{cure}"
            )
    return X if isinstance(X, RowSource) else ChunkSource(X)


def _is_array(X: Any) -> bool:
    """Say whether X are rows, and no chunks of rows."""
    if isinstance(X, RowSource | Iterator) or (callable(X) and not hasattr(X, "shape")):
        return False
    if X is None or isinstance(X, str | bytes | dict):
        return True
    if any(hasattr(X, name) for name in ("shape", "__array__", "iloc")):
        return True
    if isinstance(X, list | tuple):
        return not (len(X) > 0 and all(isinstance(one, tuple) and _is_pair(one) for one in X))
    return not isinstance(X, Iterable)


def _is_pair(chunk: tuple[Any, ...]) -> bool:
    return 2 <= len(chunk) <= 4 and len(np.shape(chunk[0])) == 2
