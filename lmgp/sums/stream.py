"""Passes over the chunks of a source: one that looks at rows where the sums need it, and one that sums them."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import version
from itertools import chain, islice, tee
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import joblib
import numpy as np

from lmgp.data import Rows, drawing_of, named_targets, refuse_other_targets, sampling
from lmgp.errors import EmptyChunkWarning, InputError, LmgpError, ModelFileError, StreamError, warn
from lmgp.io.sources import Chunk, RowSource
from lmgp.saving.files import read_file, write_file
from lmgp.saving.output import check_place
from lmgp.sums.base import Sample
from lmgp.utils.fitted import digest, unchanged_on_failure
from lmgp.utils.progress import counted

Made = TypeVar("Made")

# What a model knows of the columns of its rows.
COLUMNS = ("n_features_in_", "feature_names_in_")
# What it has of an earlier fit.
FITTED = ("_fitted", "_columns_read", *COLUMNS)

# The rows of the first chunks from which a model learns where these are read once: fewer tell the noise badly.
FIRST_ROWS = 2_000

# What a checkpoint calls itself, and what it has of a fit.
CHECKPOINT = "checkpoint"
STATE = ("drawing", "columns", "sample", "of_noise", "fit", "covered", "n_chunks", "n_rows", "mark")


@dataclass
class Place:
    """Where in a stream a chunk is.

    Attributes
    ----------
    chunk : int
        Its number, counted from 0.
    first : int or None
        The number of rows before it; None where it is not known.
    n : int
        Of its own rows.
    kept : str
        What has become of the model, a sentence, where that is known here.
    noun, whole : str
        What messages call it, and all of them.
    """

    chunk: int
    first: int | None
    n: int
    kept: str = ""
    noun: str = "Chunk"
    whole: str = "the stream"

    @contextmanager
    def named(self, chunk: Iterable[Any] = ()) -> Iterator[None]:
        """Say in errors which chunk they are of, and which of its rows if one has a number that is not finite."""
        try:
            yield
        except (ValueError, TypeError) as error:
            if isinstance(error, StreamError):
                raise
            row = first_bad_row(chunk)
            at = "" if row is None else f", row {row:,} of it"
            if row is not None and self.first is not None:
                at += f", row {self.first + row:,} of {self.whole}"
            told = f"{self.noun} {self.chunk:,}{at} (counted from 0): {error}"
            raise StreamError(f"{told} {self.kept}".rstrip(), self.chunk, row) from error


def reading(
    source: RowSource,
    verbose: bool,
    title: str,
    chunks: Iterator[Chunk] | None = None,
    start: int = 0,
    first: int = 0,
    *,
    looks: bool = False,
) -> Iterator[tuple[Place, Chunk]]:
    """Yield the chunks of a source, or those left of number `start` and on, behind `first` rows; show how far it is.

    Chunks without rows are skipped.

    Warns
    -----
    EmptyChunkWarning
        Of the first chunk without rows; not in a pass that `looks` at rows which another one sums.
    """
    n_bar, told = source.n_rows, looks
    with counted(n_bar, title, "rows", verbose, first) as bar:
        for number, chunk in enumerate(source.chunks() if chunks is None else chunks, start):
            with Place(number, first, 0).named():
                if len(shape := np.shape(chunk.X)) != 2:
                    raise InputError(f"X must have rows and columns, shape (n, d); got an array of shape {shape}.")
                n = int(shape[0])
            if n == 0:
                if not told:
                    warn(
                        f"Chunk {number:,} (counted from 0) has no rows: it is skipped, and so are others like it.",
                        EmptyChunkWarning,
                    )
                told = True
                continue
            yield Place(number, first, n), chunk
            first += n
            bar.update(n)


def used(model: Any, chunk: Chunk, place: Place, use: Callable[[Rows], Made]) -> Made | None:
    """Check a chunk, and return what a function makes of its rows of positive weight; None if it has no such row.

    Raises
    ------
    StreamError
        It names the chunk, and the first row that cannot be used.
    """
    with place.named(chunk):
        rows: Rows = model._rows_of(chunk)
    with place.named():
        return use(rows) if len(rows) else None


def first_bad_row(chunk: Iterable[Any]) -> int | None:
    """Return the first row with a number that is not finite; None if all are finite."""
    bad = []
    for part in chunk:
        with suppress(TypeError, ValueError):
            values = None if part is None else np.asarray(part, dtype=np.float64)
            if values is not None and values.ndim and not np.isfinite(values.sum()):
                mask = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
                bad += [int(np.argmax(mask))] if mask.any() else []
    return min(bad, default=None)


class StreamFit:
    """A fit of a model to a source.

    Parameters
    ----------
    model : lmgp.estimators.streamed.AdditiveGaussianProcess
    source : RowSource
    path : path or None
        Of the checkpoint.
    verbose : bool
    center : float or array-like, optional
        A mean of y that is known.

    Attributes
    ----------
    drawing : numpy.random.Generator
        Draws the map.
    columns : dict
        The number of columns, and their names where they have names.
    sample : Sample or None
        During the first pass.
    of_noise : Sample or None
        Rows of the last pass that tell the noise, where it is not normal.
    fit : Fit or None
        The model, after the first pass, with the sums of the last one.
    covered : bool
        Whether the sums have seen where all rows are, where they need that.
    n_chunks, n_rows : int
        That the present pass has finished.
    mark : str
        A digest of those of these chunks that have rows, each chained to that of the one before it.
    """

    def __init__(
        self, model: Any, source: RowSource, path: str | PathLike[str] | None, verbose: bool, center: Any = None
    ) -> None:
        self.model, self.source, self.path, self.verbose, self.center = model, source, path, verbose, center
        self.name = type(model).__name__
        parameters = digest((*model.get_params(deep=False).items(), center))  # which fits that go on share
        self._header = {"class": CHECKPOINT, "of": self.name, "parameters": parameters}
        self.drawing = drawing_of(model.random_state)
        self.sample: Sample | None = Sample(sampling())
        self.of_noise: Sample | None = model._sample_of_noise()
        self.columns: dict[str, Any] = {}
        self.fit: Any = None
        self.covered = False
        self.n_chunks, self.n_rows, self.mark = 0, 0, ""
        if path is not None:
            check_place(path)
            state = self._read(Path(path).expanduser()) if Path(path).expanduser().exists() else {}
            # What is read once has no passes before that of the sums, and goes on with none.
            if state and (source.again or state["covered"]):
                vars(self).update(state)

    def _read(self, file: Path) -> dict[str, Any]:
        """Read how far an earlier fit has come.

        Raises
        ------
        ModelFileError
            If the file is no checkpoint, is damaged, or is of another model, other parameters or another version.
        """
        state, header = read_file(file)
        cure = "Go on with what wrote it, or remove the file, or give another path, to begin again."
        same = header.get("parameters") == self._header["parameters"] and isinstance(state, dict)
        kind, wrote, of = (str(header.get(name))[:40] for name in ("class", "lmgp", "of"))
        for fits, told in (
            (kind == CHECKPOINT, f"is a model of {kind}, and no checkpoint"),
            (wrote == version("lmgp"), f"was written by lmgp {wrote}, and this is lmgp {version('lmgp')}"),
            (of == self.name, f"is a checkpoint of {of}, not of {self.name}"),
            (same and state.keys() == set(STATE), f"is a checkpoint of a {self.name} with other parameters"),
        ):
            if not fits:
                raise ModelFileError(f"{file} {told}. {cure}")
        return dict(state)

    def run(self) -> None:
        """Do what is left of all passes."""
        before, chunks = vars(self.model).copy(), None
        with unchanged_on_failure(self.model):
            for name in FITTED:
                vars(self.model).pop(name, None)
            vars(self.model).update(self.columns)
            if self.fit is None:
                chunks = self._look()
                self.fit = self.model._begun(self.sample, self.drawing, self.center)
                self.sample = None
                # Where all rows are, sums can see of chunks that are read again.
                self.covered = not (self.fit.sums.covers and self.source.again)
                if self.source.again:
                    self._write()
            if not self.covered:
                self._pass(f"{self.name}, centroids", "looked at", self._see, looks=True)
                self.covered = True
        try:
            self._pass(self.name, "in the model", self._sum, chunks)
            n_rows = self.fit.sums.n_rows
            if n_rows < 2:
                raise InputError(
                    f"At least 2 rows of positive weight are needed to fit a model; the stream has {n_rows}."
                )
            fitted = self.model._ended(self.fit, self.of_noise)
        except BaseException:
            self._keep(before)
            raise
        self.model._fitted = fitted
        if self.path is not None:
            Path(self.path).expanduser().unlink(missing_ok=True)

    def _look(self) -> Iterator[Chunk] | None:
        """Take the sample; return all chunks where they can be read once only."""
        sample = self.sample
        assert sample is not None  # until the model is frozen
        if self.model._needs_sample() and self.source.again:
            self._pass(f"{self.name}, first pass", "looked at", self._sample, looks=True)
            sample.whole = True
            return None
        chunks, again = tee(self.source.chunks())
        # A model is not made of one row.
        enough = FIRST_ROWS if self.model._needs_sample() else 2
        try:
            for place, chunk in reading(self.source, False, "", chunks, looks=True):
                used(self.model, chunk, place, partial(self._sample, chunk))
                if len(sample.keys) >= enough:
                    break
        except StreamError as error:
            if len(sample.keys) < 2:
                raise
            return chain(again, _raised(error))  # the pass that sums ends there, with the chunks before
        return again

    def _sample(self, chunk: Chunk, rows: Rows) -> None:
        assert self.sample is not None  # until the model is frozen
        if self.sample.rows is None:
            self.sample.target_names = named_targets(chunk.y, np.asarray(chunk.y))
        refuse_other_targets(chunk.y, self.sample.target_names)
        self.sample.add(rows, self.model.noise_variance)

    def _see(self, _: Chunk, rows: Rows) -> None:
        sums = self.fit.sums
        self.fit = replace(self.fit, sums=sums.covering(sums.places(rows)))

    def _sum(self, chunk: Chunk, rows: Rows) -> None:
        refuse_other_targets(chunk.y, self.fit.target_names)
        self.fit = replace(self.fit, sums=self.fit.known_sums.added(self.fit.checked(rows)))
        if self.of_noise is not None:
            self.of_noise.add(rows, self.fit.noise_variance)

    def _pass(
        self,
        title: str,
        where: str,
        use: Callable[[Chunk, Rows], None],
        chunks: Iterator[Chunk] | None = None,
        *,
        looks: bool = False,
    ) -> None:
        """Use the rows of the chunks that are left; say of one that cannot be used where those before it are."""
        try:
            for place, chunk in self._remaining(title, chunks, looks):
                used(self.model, chunk, place, partial(use, chunk))
                self._done(place, chunk)
        except StreamError as error:
            ended = "" if str(error).endswith(".") else "."
            raise StreamError(f"{error}{ended} {self._kept(where)}", error.chunk, error.row) from error.__cause__
        self.n_chunks, self.n_rows, self.mark = 0, 0, ""

    def _keep(self, before: dict[str, Any]) -> None:
        """Leave the model of the chunks that are finished, or what was there before."""
        kept = None
        with suppress(LmgpError, ValueError, ArithmeticError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kept = self.model._ended(self.fit, self.of_noise) if self.fit.sums.n_rows > 1 else None
        if kept is None:
            vars(self.model).clear()
            vars(self.model).update(before)
        else:
            self.model._fitted = kept

    def _remaining(self, title: str, chunks: Iterator[Chunk] | None, looks: bool) -> Iterator[tuple[Place, Chunk]]:
        """Yield the chunks that are left, after a look at those that are not: they must be the same ones."""
        source = self.source
        if not self.n_chunks:
            return reading(source, self.verbose, title, chunks, looks=looks)
        again, mark = source.chunks(), ""
        for chunk in islice(again, self.n_chunks):
            mark = _mark(chunk, mark) if len(chunk.X) else mark
        if mark != self.mark:
            raise ModelFileError(
                f"{self.path} is a checkpoint of another stream: the first {self.n_chunks:,} chunks of this one are "
                "not those that it has. Give the same chunks in the same order, or remove the file to begin again."
            )
        return reading(source, self.verbose, title, again, self.n_chunks, self.n_rows, looks=looks)

    def _done(self, place: Place, chunk: Chunk) -> None:
        self.n_chunks, self.n_rows = place.chunk + 1, (place.first or 0) + place.n
        if self.path is not None:
            self.mark = _mark(chunk, self.mark)
            self._write()

    def _write(self) -> None:
        """Write how far the fit has come to the checkpoint, which then replaces that of an earlier chunk."""
        self.columns = {name: vars(self.model)[name] for name in COLUMNS if name in vars(self.model)}
        if self.path is not None:
            write_file(self.path, {name: vars(self)[name] for name in STATE}, "A checkpoint", self._header)

    def _kept(self, where: str) -> str:
        told = f"The {self.n_rows:,} rows of the {self.n_chunks:,} chunks before it are {where}."
        if self.path is not None:
            return f"{told} Mend the chunk and fit again with this checkpoint, {self.path}: it goes on with this chunk."
        if where == "in the model" and self.n_chunks and hasattr(self.model, "partial_fit"):
            return f"{told} Mend the chunk, and go on with partial_fit; or fit again, with checkpoint=."
        return f"{told} Mend the chunk, and fit again; with checkpoint= a fit goes on where it ended."


def _raised(error: StreamError) -> Iterator[Chunk]:
    """Raise the error with which a source ended: an iterator that has raised one yields nothing after it."""
    raise error
    yield


def _mark(chunk: Chunk, before: str) -> str:
    """Return a digest of a chunk and of the mark of all chunks before it."""
    return str(joblib.hash((before, [None if part is None else np.asarray(part) for part in chunk])))
