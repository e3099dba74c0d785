"""The file of results: one row a cell, appended as it is measured, and read back to resume."""

import csv
import io
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lmgp.errors import InputError
from lmgp.experiments.protocol import Cell


@dataclass(frozen=True)
class Row:
    """What was measured for one cell. Divergences and scores are with noise, divergences in nats.

    Attributes
    ----------
    settings : str
        The fingerprint of all that changes the numbers and is not part of the cell.
    dataset, protocol : str
    n_train, n_test, n_inputs : int
        The rows used, and the columns of the inputs.
    seed, method, n_features, threshold
        The cell; the reference has no sizes, and some methods have none.
    rmse, nlpd, coverage, crps : float
        RMSE and CRPS in the target's units; coverage of the central 95% interval.
    fit_seconds, predict_seconds : float or None
        Wall time. The reference and localized models solve while they predict; the reference's fit is its learning.
        None where the cell shared its work with others.
    n_features_out : int or None
        The columns really made; the rows that a prediction is from, or the modes, where there is no map. None for the
        reference, as the three divergences.
    n_centroids : int or None
        None for a global model.
    kl, kl_sum, reverse_kl : float or None
        Mean and sum over test rows of KL(approximation ‖ exact), and the mean of KL(exact ‖ approximation).
    lengthscale : tuple of float
        The reference's, one or one a column. Empty for the other methods, as the fields that follow are None.
    variance, noise_variance : float or None
    converged : bool or None
        Whether learning the hyper-parameters ended at an optimum; None where they were given.
    selection : str
        What the method "auto" tried, see `lmgp.selection.search.Selection.to_json`; empty for the others.
    """

    settings: str
    dataset: str
    protocol: str
    n_train: int
    n_test: int
    n_inputs: int
    seed: int
    method: str
    n_features: int | None
    threshold: float | None
    rmse: float
    nlpd: float
    coverage: float
    crps: float
    fit_seconds: float | None = None
    predict_seconds: float | None = None
    n_features_out: int | None = None
    n_centroids: int | None = None
    kl: float | None = None
    kl_sum: float | None = None
    reverse_kl: float | None = None
    lengthscale: tuple[float, ...] = ()
    variance: float | None = None
    noise_variance: float | None = None
    converged: bool | None = None
    selection: str = ""

    @property
    def cell(self) -> Cell:
        """The key of the row."""
        return Cell(self.seed, self.method, self.n_features, self.threshold)


HEADER = [column.name for column in fields(Row)]
_PARSERS: dict[Any, Callable[[str], Any]] = {
    str: str,
    int: int,
    float: float,
    int | None: lambda text: int(text) if text else None,
    float | None: lambda text: float(text) if text else None,
    bool | None: {"": None, "True": True, "False": False}.__getitem__,
    tuple[float, ...]: lambda text: tuple(float(part) for part in text.split()),
}


def _encode(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, tuple):
        return " ".join(map(_encode, value))
    # repr, so that a float reads back as the same float.
    return repr(float(value)) if isinstance(value, float) else str(value)


def _line(values: list[str]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(values)
    return buffer.getvalue()


class ResultsFile:
    """The rows in a ``results.csv``, and the way to add more.

    Reading leaves nothing behind. The first `append` makes the folder and the file where they are missing, and cuts off
    what a killed process left of a last line.

    Parameters
    ----------
    path : Path

    Attributes
    ----------
    rows : tuple of Row
        All complete rows found, of whatever settings.

    Raises
    ------
    InputError
        If a file is there that is no results file of this version, or if `path` cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        check_writable(path)
        text = path.read_bytes().decode(errors="replace") if path.exists() else ""
        complete, newline, torn = text.rpartition("\n")
        self._repaired = None if text and not torn else complete + newline
        header = _line(HEADER)
        if not (text.startswith(header) or header.startswith(text)):
            raise InputError(
                f"{path} is not a results file of this version of lmgp and is left as it is. "
                "Move it away, or choose another --out."
            )
        self.rows = tuple(
            self._parse(number, values)
            for number, values in enumerate(csv.reader(io.StringIO(complete)), start=1)
            if number > 1
        )

    def _parse(self, number: int, values: list[str]) -> Row:
        cure = "Remove this line, and its cell is measured again; or choose another --out."
        if len(values) != len(HEADER):
            raise InputError(
                f"Line {number} of {self.path} has {len(values)} fields, and {len(HEADER)} are expected. {cure}"
            )
        parsed: dict[str, Any] = {}
        for column, text in zip(fields(Row), values, strict=True):
            try:
                parsed[column.name] = _PARSERS[column.type](text)
            except (KeyError, ValueError):
                raise InputError(
                    f"Line {number} of {self.path} has {text!r} in the column {column.name}. {cure}"
                ) from None
        return Row(**parsed)

    def append(self, row: Row) -> None:
        """Add a row; it is on disk when this returns."""
        if self._repaired is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            replace(self.path, (self._repaired or _line(HEADER)).encode())
            self._repaired = None
        with self.path.open("a", encoding="utf-8", newline="") as file:
            file.write(_line([_encode(getattr(row, name)) for name in HEADER]))


def replace(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(content)
        temporary.replace(path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def check_writable(path: Path) -> None:
    """Check that a file can be written, by making and removing one where it is not there yet.

    Permissions do not tell all: in ``/proc`` the superuser has them, and still nothing can be made. A file that exists
    is opened, and not changed.

    Raises
    ------
    InputError
        If it cannot.
    """
    existing = path
    while not os.path.lexists(existing):
        existing = existing.parent
    try:
        if existing == path:
            path.open("r+b").close()
        else:
            with TemporaryDirectory(prefix=".lmgp-", dir=existing) as folder:
                Path(folder, "file").touch()
    except OSError as error:
        raise InputError(
            f"Cannot write {path}: {existing} is in the way or not writable ({error.strerror}). Choose another --out."
        ) from None
