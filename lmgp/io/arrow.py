"""Data sets of Parquet and Arrow files as sources of chunks."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmgp.columns import NamedColumns
from lmgp.errors import DatasetError, nearest_names
from lmgp.io.sources import Chunk, Source, checked_chunk_rows
from lmgp.parallel import ahead
from lmgp.saving.output import PathLike, as_path

Floats = NDArray[np.float64]

SUFFIXES = (".parquet", ".arrow", ".feather")

# Rows that are decoded at a time.
BATCH_ROWS = 2**16
# Bytes of a file that are read at a time.
BUFFER_BYTES = 2**20


def open_dataset(
    path: PathLike | Sequence[PathLike],
    target: str,
    *,
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
    noise_variances: str | None = None,
    chunk_rows: int | None = None,
) -> "Dataset":
    """Open a data set of Parquet or Arrow files, whose rows are read chunk by chunk.

    Needs pyarrow: ``pip install 'lmgp[parquet]'``.

    Parameters
    ----------
    path : path or sequence of path
        Of a file, or of a folder whose files ``*.parquet``, ``*.arrow`` and ``*.feather`` are read in the order of
        their names, those of its folders included; or several files.
    target : str
        The column to predict.
    columns : sequence of str, optional
        The inputs; all but the others that are named here if not given.
    sample_weight, noise_variances : str, optional
        The columns of weights and of noise variances, see `fit`.
    chunk_rows : int, optional
        The number of rows in a chunk; as many as have 2**19 inputs if not given.

    Returns
    -------
    Dataset
        For the first argument of `fit` and `partial_fit`.

    Raises
    ------
    DatasetError
        If there is no such file or column, a column is not numeric, or files differ in a column or its type. It is
        raised before any row is read.

    Examples
    --------
    >>> import lmgp  # doctest: +SKIP
    >>> rows = lmgp.io.open_dataset("measurements/", target="height")  # doctest: +SKIP
    >>> model = lmgp.SpectralGPRegressor().fit(rows)  # doctest: +SKIP
    """
    _check_names(target, columns, sample_weight, noise_variances)
    files = _files([path] if isinstance(path, str) or not isinstance(path, Sequence) else list(path))
    readers = [_File(one) for one in files]
    roles = [name for name in (target, sample_weight, noise_variances) if name is not None]
    known = readers[0].types
    inputs = [name for name in known if name not in roles] if columns is None else list(columns)
    used = (*inputs, *roles)
    for name in used:
        if name not in known:
            raise DatasetError(f"{files[0]} has no column {name!r}, {nearest_names(name, known)}")
    if not inputs or len(set(used)) < len(used):
        told = "no input is left beside the target" if not inputs else f"a column is named twice among {list(used)}"
        raise DatasetError(f"{files[0]}: {told}. Name each column once, and at least one input.")
    for reader in readers:
        reader.check(readers[0], used)
    return Dataset(readers, tuple(inputs), target, sample_weight, noise_variances, chunk_rows)


def _check_names(target: Any, columns: Any, sample_weight: Any, noise_variances: Any) -> None:
    """Refuse what are no names of columns.

    Raises
    ------
    DatasetError
    """
    for role, name in (("target", target), ("sample_weight", sample_weight), ("noise_variances", noise_variances)):
        if not isinstance(name, str) and (name is not None or role == "target"):
            raise DatasetError(f"{role} must be the name of a column, such as 'height'; got {name!r}.")
    if isinstance(columns, str):
        raise DatasetError(f"columns must be a list of names; got the text {columns!r}. Write [{columns!r}].")
    if columns is not None and not (isinstance(columns, Iterable) and all(isinstance(one, str) for one in columns)):
        raise DatasetError(f"columns must be a list of names, such as ['east', 'north']; got {columns!r}.")


class Dataset(Source):
    """Rows of Parquet or Arrow files, see `open_dataset`.

    Attributes
    ----------
    names : tuple of str
        Of the inputs.
    n_rows : int
    """

    n_rows: int

    def __init__(
        self,
        files: "Sequence[_File]",
        names: tuple[str, ...],
        target: str,
        sample_weight: str | None,
        noise_variances: str | None,
        chunk_rows: int | None,
    ) -> None:
        self._files, self.names = files, names
        self._roles = target, sample_weight, noise_variances
        self._chunk_rows = checked_chunk_rows(chunk_rows, len(names))
        self.n_rows = sum(one.n_rows for one in files)

    def __repr__(self) -> str:
        return f"<{self.n_rows:,} rows of {', '.join(self.names)} in {len(self._files)} files; y is {self._roles[0]}>"

    def chunks(self, start: int = 0) -> Iterator[Chunk]:  # noqa: D102
        return ahead(self._chunks(start))

    def _chunks(self, start: int) -> Iterator[Chunk]:
        waiting: list[Floats] = []
        n_waiting = 0
        for table in self._tables(start * self._chunk_rows):
            waiting.append(table)
            n_waiting += len(table)
            while n_waiting >= self._chunk_rows:
                whole = np.concatenate(waiting) if len(waiting) > 1 else waiting[0]
                yield self._chunk(whole[: self._chunk_rows])
                waiting = [whole[self._chunk_rows :]]
                n_waiting = len(waiting[0])
        if n_waiting:
            yield self._chunk(np.concatenate(waiting))

    def _chunk(self, table: Floats) -> Chunk:
        d = len(self.names)
        others = iter(table[:, d:].T)
        parts = [None if name is None else np.ascontiguousarray(next(others)) for name in self._roles]
        return Chunk(NamedColumns.of(np.ascontiguousarray(table[:, :d]), self.names), *parts)

    def _tables(self, skipped: int) -> Iterator[Floats]:
        """Yield all columns of the rows after the first `skipped`."""
        used = (*self.names, *(name for name in self._roles if name is not None))
        for file in self._files:
            if skipped >= file.n_rows:
                skipped -= file.n_rows
                continue
            yield from file.tables(used, skipped)
            skipped = 0


class _File:
    """One file.

    Parameters
    ----------
    path : pathlib.Path
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _readable(path):
            self._parquet = path.suffix == ".parquet"
            opened = self._open()
            schema = opened.schema_arrow if self._parquet else opened.schema
            if self._parquet:
                self._sizes = [opened.metadata.row_group(i).num_rows for i in range(opened.metadata.num_row_groups)]
            else:
                self._sizes = [opened.get_batch(i).num_rows for i in range(opened.num_record_batches)]
        self.n_rows = sum(self._sizes)
        self.types: dict[str, Any] = dict(zip(schema.names, schema.types, strict=True))
        if len(self.types) < len(schema.names):
            raise DatasetError(f"{path} has two columns of one name among {', '.join(schema.names)}; rename one.")

    def check(self, first: "_File", used: Sequence[str]) -> None:
        """Refuse columns that are missing, not numeric, or of another type than in the first file."""
        from pyarrow import types

        for name in used:
            if name not in self.types:
                raise DatasetError(
                    f"{self.path} has no column {name!r}, which {first.path} has; {nearest_names(name, self.types)} "
                    "Mend the file, or leave it out."
                )
            kind = self.types[name]
            if kind != first.types[name]:
                raise DatasetError(
                    f"{self.path}: column {name!r} has the type {kind}, in {first.path} it has {first.types[name]}. "
                    "Write both with one type."
                )
            numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
            if not any(is_one(kind) for is_one in numeric):
                raise DatasetError(
                    f"{self.path}: column {name!r} has the type {kind}, which is not numeric. Encode it as numbers, or "
                    "choose the inputs with columns=[...]."
                )

    def _open(self) -> Any:
        if self._parquet:
            from pyarrow import parquet

            return parquet.ParquetFile(self.path, buffer_size=BUFFER_BYTES, pre_buffer=False)
        import pyarrow

        return pyarrow.ipc.open_file(pyarrow.memory_map(str(self.path)))

    def tables(self, used: Sequence[str], skipped: int) -> Iterator[Floats]:
        """Yield the columns of the rows after the first `skipped`, each of shape (n, len(used)); nulls are NaN."""
        first = 0
        while skipped >= self._sizes[first]:
            skipped -= self._sizes[first]
            first += 1
        with _readable(self.path):
            for batch in self._batches(used, first):
                if skipped >= batch.num_rows:
                    skipped -= batch.num_rows
                    continue
                yield _values(batch.slice(skipped), used)
                skipped = 0

    def _batches(self, used: Sequence[str], first: int) -> Iterator[Any]:
        opened = self._open()
        if self._parquet:
            groups = list(range(first, len(self._sizes)))
            yield from opened.iter_batches(BATCH_ROWS, row_groups=groups, columns=list(used), use_threads=False)
            return
        for i in range(first, len(self._sizes)):
            yield opened.get_batch(i)


class _readable:  # noqa: N801
    """Whatever makes a file unreadable becomes a `DatasetError`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        try:
            import pyarrow
        except ImportError:
            raise DatasetError(
                f"{self._path}: Parquet and Arrow files need pyarrow: pip install 'lmgp[parquet]'."
            ) from None
        self._errors = pyarrow.ArrowException, OSError, UnicodeError

    def __exit__(self, kind: type | None, error: BaseException | None, *_: object) -> None:
        if isinstance(error, self._errors) and not isinstance(error, DatasetError):
            told = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DatasetError(f"{self._path} could not be read as {self._path.suffix[1:]}: {told}") from error


def _values(batch: Any, used: Sequence[str]) -> Floats:
    import pyarrow

    values = np.empty((batch.num_rows, len(used)))
    for j, name in enumerate(used):
        column = batch.column(batch.schema.get_field_index(name))
        values[:, j] = column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False)
    return values


def _files(given: Sequence[PathLike]) -> list[Path]:
    files: list[Path] = []
    for one in given:
        path = as_path(one)
        if path.is_dir():
            inside = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
            found = [file for file in inside if not file.relative_to(path).parts[-1].startswith((".", "_"))]
            if not found:
                raise DatasetError(f"{path} has no file that ends in {', '.join(SUFFIXES)}; name another folder.")
            files += found
        elif not path.exists():
            raise DatasetError(f"{path} does not exist; give the path of a Parquet or Arrow file, or of a folder.")
        elif path.suffix not in SUFFIXES:
            raise DatasetError(
                f"{path} is no Parquet or Arrow file by its name: expected one that ends in {', '.join(SUFFIXES)}. "
                "Of a CSV file, read chunks by pandas.read_csv(..., chunksize=100_000)."
            )
        else:
            files.append(path)
    if not files:
        raise DatasetError("No file is given; give the path of a Parquet or Arrow file, or of a folder.")
    return files
