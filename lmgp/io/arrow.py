"""Data sets of Parquet and Arrow files as sources of chunks."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lmgp.data import Floats
from lmgp.errors import DatasetError, nearest_names
from lmgp.io.sources import Chunk, RowSource, checked_chunk_rows
from lmgp.io.tables import FORMATS, as_floats, batches, choose_inputs, is_numeric, opened, readable
from lmgp.saving.output import PathLike, as_path

SUFFIXES = ", ".join(FORMATS)


def open_dataset(
    path: PathLike | Sequence[PathLike],
    target: str,
    *,
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
    noise_variances: str | None = None,
    chunk_rows: int | None = None,
) -> "TableSource":
    """Open a data set of Parquet or Arrow files, whose rows are read chunk by chunk.

    Parameters
    ----------
    path : path or sequence of path
        Of a file, or of a folder whose files ``*.parquet``, ``*.arrow`` and ``*.feather`` are read in the order of
        their names, those of its folders included; or several files. Names that start with a dot or an underscore are
        left out. A folder that is partitioned, with folders such as ``k=1``, is refused: name its files.
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
    TableSource
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
    roles = target, sample_weight, noise_variances
    _check_names(*roles, columns)
    paths = _paths([path] if isinstance(path, str) or not isinstance(path, Sequence) else list(path))
    files = {}
    for source in paths:
        with readable(source):
            files[source] = opened(source)
    first, known = paths[0], files[paths[0]].schema.names
    named = [name for name in roles if name is not None]
    inputs = choose_inputs(str(first), known, named, columns)
    for source, file in files.items():
        _check_types(source, file.schema, first, files[first].schema, (*inputs, *named))
    return TableSource(files, inputs, roles, chunk_rows)


def _check_names(target: Any, sample_weight: Any, noise_variances: Any, columns: Any) -> None:
    """Refuse what are no names of columns by a DatasetError."""
    for role, name in (("target", target), ("sample_weight", sample_weight), ("noise_variances", noise_variances)):
        if not isinstance(name, str) and (name is not None or role == "target"):
            raise DatasetError(f"{role} must be the name of a column, such as 'height'; got {name!r}.")
    if isinstance(columns, str):
        raise DatasetError(f"columns must be a list of names; got the text {columns!r}. Write [{columns!r}].")
    if columns is not None and not (isinstance(columns, Iterable) and all(isinstance(name, str) for name in columns)):
        raise DatasetError(f"columns must be a list of names, such as ['east', 'north']; got {columns!r}.")


def _check_types(path: Path, schema: Any, first: Path, expected: Any, used: Sequence[str]) -> None:
    """Refuse columns that are missing, not numeric, or of another type than in the first file."""
    for name in used:
        if name not in schema.names:
            raise DatasetError(
                f"{path} has no column {name!r}, which {first} has; {nearest_names(name, schema.names)} Mend the file, "
                "or leave it out."
            )
        kind = schema.field(name).type
        if kind != expected.field(name).type:
            raise DatasetError(
                f"{path}: column {name!r} has the type {kind}, in {first} it has {expected.field(name).type}. Write "
                "both with one type."
            )
        if not is_numeric(kind):
            raise DatasetError(
                f"{path}: column {name!r} has the type {kind}, which is not numeric. Encode it as numbers, or choose "
                "the inputs with columns=[...]."
            )


class TableSource(RowSource):
    """Rows of Parquet or Arrow files, see `open_dataset`.

    Attributes
    ----------
    names : tuple of str
        Of the inputs.
    n_rows : int
    """

    def __init__(
        self, files: dict[Path, Any], names: tuple[str, ...], roles: tuple[str | None, ...], chunk_rows: int | None
    ) -> None:
        self._files, self.names, self._roles = files, names, roles
        self._chunk_rows = checked_chunk_rows(chunk_rows, len(names))
        super().__init__(self._chunks_ahead, n_rows=sum(file.count_rows() for file in files.values()))

    def __repr__(self) -> str:
        return f"<{self.n_rows:,} rows of {', '.join(self.names)} in {len(self._files)} files; y is {self._roles[0]}>"

    def _chunks_ahead(self) -> Iterator[Chunk]:
        from lmgp.utils.parallel import ahead  # here, so that tables are read without torch

        return ahead(self._chunks())

    def _chunks(self) -> Iterator[Chunk]:
        waiting = np.empty((0, len(self.names) + 1))
        for part in self._parts():
            waiting = np.concatenate((waiting, part)) if len(waiting) else part
            while len(waiting) >= self._chunk_rows:
                yield self._chunk(waiting[: self._chunk_rows])
                waiting = waiting[self._chunk_rows :]
        if len(waiting):
            yield self._chunk(waiting)

    def _chunk(self, table: Floats) -> Chunk:
        import pandas

        d = len(self.names)
        others = iter(table[:, d:].T)
        parts = [None if name is None else np.ascontiguousarray(next(others)) for name in self._roles]
        return Chunk(pandas.DataFrame(table[:, :d], columns=list(self.names)), *parts)

    def _parts(self) -> Iterator[Floats]:
        """Yield all columns of the rows, some at a time."""
        used = (*self.names, *(name for name in self._roles if name is not None))
        for path, file in self._files.items():
            with readable(path):
                for batch in batches(file, used):
                    yield as_floats(batch, used)


def _paths(given: Sequence[PathLike]) -> list[Path]:
    """Return the files that are given, and those in folders that are given."""
    paths: list[Path] = []
    for source in given:
        path = as_path(source)
        if path.is_dir():
            files = sorted(file for file in path.rglob("*") if file.suffix.lower() in FORMATS and file.is_file())
            inside = [file.relative_to(path) for file in files]
            shown = [file for file in inside if not any(part.startswith((".", "_")) for part in file.parts)]
            if not shown:
                raise DatasetError(f"{path} has no file that ends in {SUFFIXES}; name another folder.")
            folders = [name for file in shown for name in file.parent.parts]
            if keys := dict.fromkeys(name.partition("=")[0] for name in folders if "=" in name):
                raise DatasetError(
                    f"{path} is partitioned by {', '.join(keys)}, and columns that folders name are not read: write it "
                    "without partition_cols, or name its files to leave these columns out."
                )
            paths += [path / file for file in shown]
        elif not path.exists():
            raise DatasetError(f"{path} does not exist; give the path of a Parquet or Arrow file, or of a folder.")
        elif path.suffix.lower() not in FORMATS:
            raise DatasetError(
                f"{path} is no Parquet or Arrow file by its name: expected one that ends in {SUFFIXES}. Of a CSV file, "
                "read chunks by pandas.read_csv(..., chunksize=100_000)."
            )
        else:
            paths.append(path)
    if not paths:
        raise DatasetError("No file is given; give the path of a Parquet or Arrow file, or of a folder.")
    return paths
