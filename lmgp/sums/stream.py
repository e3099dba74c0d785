"""Passes over the chunks of a source: one that looks at rows where the sums need it, and one that sums them."""

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from tqdm import tqdm

from lmgp.data import Rows, generator, spawn
from lmgp.errors import EmptyChunkWarning, InputError, LmgpError, ModelFileError, StreamError
from lmgp.io.sources import Chunk, RowSource
from lmgp.saving.output import check_place
from lmgp.sums.checkpoint import Checkpoint, read_checkpoint
from lmgp.sums.sample import Sample
from lmgp.utils.fitted import unchanged_on_failure


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
    start: int = 0,
    first: int = 0,
    chunks: Iterator[Chunk] | None = None,
    *,
    looks: bool = False,
) -> Iterator[tuple[Place, Chunk]]:
    """Yield the chunks of a source from number `start` on, behind `first` rows, with a progress bar.

    Chunks without rows are skipped.

    Warns
    -----
    EmptyChunkWarning
        Of the first chunk without rows; not in a pass that `looks` at rows which another one sums.
    """
    n_bar, told = source.n_rows, looks
    with tqdm(total=n_bar, initial=first, desc=title, unit=" rows", unit_scale=True, disable=not verbose) as bar:
        for number, chunk in enumerate(source.chunks(start) if chunks is None else chunks, start):
            with Place(number, first, 0).named():
                n = _count(chunk)
            if n == 0:
                if not told:
                    warnings.warn(
                        f"Chunk {number:,} (counted from 0) has no rows: it is skipped, and so are others like it.",
                        EmptyChunkWarning,
                        stacklevel=2,
                    )
                told = True
                continue
            yield Place(number, first, n), chunk
            first += n
            bar.update(n)


def _count(chunk: Chunk) -> int:
    shape = np.shape(chunk.X)
    if len(shape) != 2:
        raise InputError(f"X must have rows and columns, shape (n, d); got an array of shape {shape}.")
    return int(shape[0])


def checked_chunk(model: Any, chunk: Chunk, place: Place) -> Rows | None:
    """Return the rows of a chunk of positive weight, checked; None of none.

    Raises
    ------
    StreamError
        It names the chunk, and the first row that cannot be used.
    """
    with place.named(chunk):
        rows: Rows = model._rows_of(chunk)
    return rows if len(rows) else None


def first_bad_row(chunk: Iterable[Any]) -> int | None:
    """Return the first row with a number that is not finite; None of none."""
    bad = []
    for part in chunk:
        with suppress(TypeError, ValueError):
            values = None if part is None else np.asarray(part, dtype=np.float64)
            if values is not None and values.ndim and not np.isfinite(values.sum()):
                found = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
                bad += [int(np.argmax(found))] if found.any() else []
    return min(bad, default=None)


def fit_to_stream(
    model: Any, source: RowSource, path: str | PathLike[str] | None, verbose: bool, center: Any = None
) -> None:
    """Fit a model to a source.

    Parameters
    ----------
    model : lmgp.estimators.streamed.StreamedGaussianProcess
    source : RowSource
    path : path or None
        Of the checkpoint.
    verbose : bool
    center : float or array-like, optional
        A mean of y that is known.
    """
    _StreamFit(model, source, path, verbose, center).run()


class _StreamFit:
    def __init__(
        self, model: Any, source: RowSource, path: str | PathLike[str] | None, verbose: bool, center: Any
    ) -> None:
        self.model, self.source, self.path, self.verbose, self.center = model, source, path, verbose, center
        self.name = type(model).__name__
        parameters = model._digest_of(center)
        if path is not None:
            check_place(path)
        state = None if path is None else read_checkpoint(path, self.name, parameters)
        if state is None:
            rng = generator(model.random_state)
            rngs = spawn(rng, 2)
            (sampling,) = spawn(rng, 1)
            state = Checkpoint(self.name, parameters, tuple(rngs), {}, Sample.of_none(sampling))
        self.state = state

    def run(self) -> None:
        """Do what is left of both passes."""
        state, before = self.state, vars(self.model).copy()
        try:
            with unchanged_on_failure(self.model):
                for name in ("_fitted", "n_features_in_", "feature_names_in_"):
                    vars(self.model).pop(name, None)
                vars(self.model).update(state.columns)
                chunks = None
                if state.fit is None:
                    chunks = self._look()
                    self._freeze()
                if not state.covered:
                    self._cover()
        except BaseException:
            self._restore(before)
            raise
        try:
            self._sum(chunks)
            n_rows = state.fit.sums.n_rows
            if n_rows < 2:
                raise InputError(
                    f"At least 2 rows of positive weight are needed to fit a model; the stream has {n_rows}."
                )
            fitted = state.fit.solved
        except BaseException:
            self._keep(before)
            raise
        self.model._fitted = fitted
        if self.path is not None:
            Path(self.path).expanduser().unlink(missing_ok=True)

    def _restore(self, before: dict[str, Any]) -> None:
        vars(self.model).clear()
        vars(self.model).update(before)

    def _look(self) -> Iterator[Chunk] | None:
        """Take the sample; return all chunks where they can be read once only."""
        sample = self.state.sample
        assert sample is not None  # until the model is frozen
        if self.model._needs_sample() and self.source.again:
            with self._telling("looked at"):
                for place, chunk in self._remaining(f"{self.name}, first pass", looks=True):
                    self._sample(sample, place, chunk)
                    self._done(place, chunk)
            sample.whole = True
            return None
        read: list[Chunk] = []
        chunks = self.source.chunks()
        # A model is not made of one row.
        for place, chunk in reading(self.source, False, "", chunks=_kept(chunks, read), looks=True):
            self._sample(sample, place, chunk)
            self._remember_columns()
            if len(sample.keys) > 1:
                break
        return chain(read, chunks)

    def _sample(self, sample: Sample, place: Place, chunk: Chunk) -> None:
        rows = checked_chunk(self.model, chunk, place)
        if rows is not None:
            with place.named():
                sample.add(rows, self.model.noise_variance)

    def _freeze(self) -> None:
        state = self.state
        assert state.sample is not None  # until now
        state.fit = self.model._begun(state.sample, state.rngs, self.center)
        state.sample, state.n_chunks, state.n_rows, state.mark = None, 0, 0, ""
        self._remember_columns()
        if self.path is not None and self.source.again:
            state.write(self.path)

    def _cover(self) -> None:
        """Let the sums see where all rows are, where they need that and the rows can be read again."""
        state = self.state
        if state.fit.sums.covers and self.source.again:
            with self._telling("looked at"):
                for place, chunk in self._remaining(f"{self.name}, centroids", looks=True):
                    rows = checked_chunk(self.model, chunk, place)
                    if rows is not None:
                        sums = state.fit.sums
                        state.fit = replace(state.fit, sums=sums.covering(sums.places(rows)))
                    self._done(place, chunk)
            state.n_chunks, state.n_rows, state.mark = 0, 0, ""
        state.covered = True

    def _sum(self, chunks: Iterator[Chunk] | None) -> None:
        """Sum the chunks that are left."""
        with self._telling("in the model"):
            for place, chunk in self._remaining(self.name, chunks):
                rows = checked_chunk(self.model, chunk, place)
                if rows is not None:
                    with place.named():
                        self.state.fit = self.state.fit.with_more(rows)
                self._done(place, chunk)

    def _keep(self, before: dict[str, Any]) -> None:
        """Leave the model of the chunks that are finished, or what was there before."""
        kept = None
        with suppress(LmgpError, ValueError, ArithmeticError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kept = self.state.fit.solved if self.state.fit.sums.n_rows > 1 else None
        if kept is None:
            self._restore(before)
        else:
            self.model._fitted = kept

    def _remaining(
        self, title: str, chunks: Iterator[Chunk] | None = None, *, looks: bool = False
    ) -> Iterator[tuple[Place, Chunk]]:
        """Yield the chunks that are left, after a look at those that are not: they must be the same ones."""
        state, source = self.state, self.source
        if not state.n_chunks:
            return reading(source, self.verbose, title, chunks=chunks, looks=looks)
        again, mark = source.chunks(), ""
        for chunk in islice(again, state.n_chunks):
            mark = _mark(chunk, mark)
        if mark != state.mark:
            raise ModelFileError(
                f"{self.path} is a checkpoint of another stream: the first {state.n_chunks:,} chunks of this one are "
                "not those that it has. Give the same chunks in the same order, or remove the file to begin again."
            )
        return reading(source, self.verbose, title, state.n_chunks, state.n_rows, again, looks=looks)

    def _done(self, place: Place, chunk: Chunk) -> None:
        state = self.state
        skipped = place.chunk - state.n_chunks
        state.n_chunks, state.n_rows = place.chunk + 1, (place.first or 0) + place.n
        self._remember_columns()
        if self.path is not None:
            for _ in range(skipped):
                state.mark = _mark(None, state.mark)
            state.mark = _mark(chunk, state.mark)
            state.write(self.path)

    def _remember_columns(self) -> None:
        names = ("n_features_in_", "feature_names_in_")
        self.state.columns = {name: vars(self.model)[name] for name in names if name in vars(self.model)}

    @contextmanager
    def _telling(self, where: str) -> Iterator[None]:
        """Say in errors of a chunk what has become of the chunks before it."""
        try:
            yield
        except StreamError as error:
            ended = "" if str(error).endswith(".") else "."
            raise StreamError(f"{error}{ended} {self._kept(where)}", error.chunk, error.row) from error.__cause__

    def _kept(self, where: str) -> str:
        state = self.state
        told = f"The {state.n_rows:,} rows of the {state.n_chunks:,} chunks before it are {where}."
        if self.path is not None:
            return f"{told} Mend the chunk and fit again with this checkpoint, {self.path}: it goes on with this chunk."
        if where == "in the model" and state.n_chunks:
            return f"{told} Mend the chunk, and go on with partial_fit; or fit again, with checkpoint=."
        return f"{told} Mend the chunk, and fit again; with checkpoint= a fit goes on where it ended."


def _kept(chunks: Iterator[Chunk], into: list[Chunk]) -> Iterator[Chunk]:
    for chunk in chunks:
        into.append(chunk)
        yield chunk


def _mark(chunk: Chunk | None, before: str) -> str:
    """Return a digest of a chunk and of the mark of all chunks before it; all chunks without rows have the same."""
    empty = chunk is None or len(chunk.X) == 0
    parts = None if chunk is None or empty else [None if part is None else np.asarray(part) for part in chunk]
    return str(joblib.hash((before, parts)))
