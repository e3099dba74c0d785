"""Sources of chunks of rows: iterators, memory-mapped arrays, files. Every source gives the same chunks each time."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lmgp.errors import InputError, StreamError
from lmgp.utils.columns import STREAMED, pandas_frame
from lmgp.utils.parameters import checked_count

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


@dataclass(repr=False, eq=False)
class RowSource:
    """Chunks of rows, always the same ones in the same order.

    Attributes
    ----------
    chunks : callable
        Makes an iterator of all chunks.
    again : bool
        Whether it can be read more than once.
    n_rows : int or None
        None where that is not known before they are read.
    """

    chunks: Callable[[], Iterator[Chunk]]
    again: bool = True
    n_rows: int | None = None


def _array_chunks(X: Any, columns: Sequence[Any], chunk_rows: int) -> Iterator[Chunk]:
    for first in range(0, len(X), chunk_rows):
        part = slice(first, first + chunk_rows)
        yield Chunk(*(None if column is None else _part(column, part) for column in (X, *columns)))


def _part(values: Any, part: slice) -> Any:
    """Copy some rows, so that no page of a file stays in memory by a reference; those of a frame keep its names."""
    return values.iloc[part].copy() if hasattr(values, "iloc") else np.array(values[part])


def _given_chunks(given: Iterable[Any] | Callable[[], Iterable[Any]]) -> Iterator[Chunk]:
    """Yield the chunks of an iterable, or of what a function without arguments returns: tuples, see `source_of`."""
    for number, chunk in enumerate(given() if callable(given) else given):
        if not isinstance(chunk, tuple | list) or not 2 <= len(chunk) <= 4:
            got = f"{len(chunk)} parts" if isinstance(chunk, tuple | list) else type(chunk).__name__
            raise StreamError(
                f"Chunk {number:,} (counted from 0) is no pair of X and y: got {got}. Expected (X, y), (X, y, "
                "sample_weight) or (X, y, sample_weight, noise_variances).",
                number,
            )
        yield Chunk(*chunk)


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
    return checked_count(chunk_rows, "chunk_rows must be a positive integer, or None")


def source_of(given: Chunk, chunk_rows: int | None = None, *, arrays: bool = False) -> RowSource | None:
    """Return the source that the arguments of `fit` are, or None where they are rows in memory.

    Parameters
    ----------
    given : Chunk
        Rows, or in place of X a RowSource, an iterable or a callable of chunks, which are tuples (X, y), (X, y,
        sample_weight) or (X, y, sample_weight, noise_variances). An iterator is read once. A memory-mapped array of
        more than one chunk is a source.
    chunk_rows : int, optional
        Of an array: as many as have 2**19 values if not given.
    arrays : bool, default=False
        Whether arrays in memory are a source, too.

    Raises
    ------
    InputError
        If chunks come with a y, weights or noise variances beside them.
    """
    X, beside = given.X, {name: values for name, values in given._asdict().items() if name != "X"}
    if _is_array(X):
        if given.y is None or not (arrays or isinstance(X, np.memmap) or chunk_rows is not None):
            return None
        X = pandas_frame(X)
        table = X if hasattr(X, "shape") else np.asarray(X)
        if len(table.shape) != 2:
            return None  # which is refused as rows are
        rows = checked_chunk_rows(chunk_rows, table.shape[1])
        if len(table) <= rows and not arrays and chunk_rows is None:
            return None
        frames = {name: pandas_frame(values) for name, values in beside.items()}
        columns = {
            name: arg if arg is None or hasattr(arg, "iloc") else np.asanyarray(arg) for name, arg in frames.items()
        }
        for name, column in columns.items():
            if column is not None and column.shape[:1] != (len(table),):
                got = f"{len(column):,}" if column.ndim else "one number"
                raise InputError(f"X has {len(table):,} rows; {name} must have one value for each, got {got}.")
        return RowSource(partial(_array_chunks, table, list(columns.values()), rows), n_rows=len(table))
    for name, values in beside.items():
        if values is not None:
            cure = " Give list(X) if these are rows." if isinstance(X, Iterator) else ""
            raise InputError(
                f"X is a source of chunks, each (X, y), (X, y, sample_weight) or (X, y, sample_weight, "
                f"noise_variances): {name} belongs into the chunks. Leave it out here; got a {type(X).__name__}.{cure}"
            )
    return X if isinstance(X, RowSource) else RowSource(partial(_given_chunks, X), again=not isinstance(X, Iterator))


def refuse_chunks(model: Any, X: Any, y: Any) -> None:
    """Check that the arguments of `fit` are rows in memory, for a model that takes no chunks.

    Raises
    ------
    InputError
        If X are chunks. Beside a y, what is iterated may be rows: checks of tables tell what becomes of it.
    """
    if not _is_array(X) and (y is None or isinstance(X, RowSource) or callable(X)):
        raise InputError(
            f"{type(model).__name__} takes rows in memory; got a {type(X).__name__} of chunks. Fit {STREAMED} to "
            "these, or this to a sample."
        )


def _is_array(X: Any) -> bool:
    """Say whether X are rows, and no chunks of rows."""
    if isinstance(X, RowSource | Iterator) or (callable(X) and not hasattr(X, "shape")):
        return False
    if X is None or isinstance(X, str | bytes | dict):
        return True
    if any(hasattr(X, name) for name in ("shape", "__array__", "iloc")):
        return True
    if isinstance(X, list | tuple):
        return not (len(X) > 0 and all(isinstance(pair, tuple | list) and _is_pair(pair) for pair in X))
    return not isinstance(X, Iterable)


def _is_pair(chunk: tuple[Any, ...] | list[Any]) -> bool:
    return 2 <= len(chunk) <= 4 and len(np.shape(chunk[0])) == 2
