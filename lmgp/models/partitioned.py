"""Fits to dask collections: the passes of `lmgp.models.passes`, each partition where it is, in place of one by one."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from lmgp.columns import refuse_what_is_no_table
from lmgp.errors import InputError
from lmgp.fitted import unchanged_on_failure
from lmgp.io.partitions import Partitions
from lmgp.io.sample import Sample
from lmgp.io.sources import Chunk, default_chunk_rows
from lmgp.models.passes import Place, checked_chunk
from lmgp.validation import Rows, generator, spawn

UNCHANGED = "The model is as it was. Mend the partition, and call again."


@dataclass(frozen=True, eq=False)
class _OfRows(ABC):
    """What is made of the rows of each partition, once they are checked.

    Attributes
    ----------
    model : StreamedGP
        Without a fitted state.
    """

    model: Any

    def __call__(self, number: int, first: int | None, parts: tuple[Any, ...]) -> Any:
        """Check the rows of a partition, and make it of them; None of no rows."""
        chunk = Chunk(*parts)
        lengths = {name: len(one) for name, one in chunk._asdict().items() if hasattr(one, "__len__")}
        place = Place(number, first, lengths["X"], UNCHANGED, "Partition", "all")
        with place.named():
            for name, length in lengths.items():
                if length != lengths["X"]:
                    raise InputError(
                        f"X has {lengths['X']:,} rows, {name} has {length:,}. A partition has the same rows of both."
                    )
        if not lengths["X"]:
            return None
        rows = checked_chunk(self.model, chunk._replace(X=unnamed(self.model, chunk.X)), place)
        if rows is None:
            return None
        with place.named():
            return self.made(number, rows)

    @abstractmethod
    def made(self, number: int, rows: Rows) -> Any:
        """Make it."""


@dataclass(frozen=True, eq=False)
class Look(_OfRows):
    """A sample of the rows, see `lmgp.io.sample.Sample`; each partition draws from a generator of its own."""

    seed: tuple[int, ...]

    def made(self, number: int, rows: Rows) -> Sample:  # noqa: D102
        sample = Sample.of_none(np.random.default_rng((*self.seed, number)))
        sample.add(rows, self.model.noise_variance)
        return sample


@dataclass(frozen=True, eq=False)
class Cover(_OfRows):
    """Where the rows are, for a fitted state without rows."""

    record: Any

    def made(self, number: int, rows: Rows) -> NDArray[Any]:  # noqa: D102
        return self.record.places_of(rows)


@dataclass(frozen=True, eq=False)
class Sum(_OfRows):
    """The sums over the rows, for a fitted state."""

    record: Any

    def made(self, number: int, rows: Rows) -> Any:  # noqa: D102
        self.model._check_more(rows, self.record)
        return reduce(_both_sums, (self.record.sums_of(some) for some in self._pieces(rows)))

    def _pieces(self, rows: Rows) -> Iterator[Rows]:
        """Yield as many rows at a time as a stream has."""
        size = max(default_chunk_rows(rows.X.shape[1]), self.record.least_rows)
        for start in range(0, len(rows.y), size):
            yield rows.take(slice(start, start + size))


def fit_to_partitions(
    model: Any, source: Partitions, client: Any = None, verbose: bool = False, center: float | None = None
) -> None:
    """Fit a model to dask collections: a sample of the rows is gathered, and their sums.

    Parameters
    ----------
    model : StreamedGP
    source : Partitions
    client : distributed.Client, optional
    verbose : bool
    center : float, optional
        A mean of y that is known.
    """
    name = type(model).__name__
    with unchanged_on_failure(model):
        vars(model).pop("_fitted", None)
        _check_columns(model, source, reset=True)
        bare = without_state(model, named=source.named)
        learning, drawing, sample = _looked_at(model, bare, source, client, f"{name}, first pass" if verbose else None)
        record = model._frozen(sample, learning, drawing, center)
        if record.covers:
            places = source.reduced(
                Cover(bare, record), _both_places, client, f"{name}, centroids" if verbose else None
            )
            record = record.covering(places)
        sums = source.reduced(Sum(bare, record), _both_sums, client, name if verbose else None)
        n_rows = 0 if sums is None else sums.n_rows
        if n_rows < 2:
            raise InputError(f"At least 2 rows of positive weight are needed to fit a model; there are {n_rows}.")
        model._fitted = record.with_sums(sums)


def sums_of_partitions(model: Any, source: Partitions, client: Any = None, verbose: bool = False) -> Any:
    """Return the sums over the rows of dask collections, for a fitted model that keeps no rows.

    Raises
    ------
    InputError
        If the model keeps its rows, or has other columns, or there is no row.
    """
    record = model._fitted.summing()
    _check_columns(model, source, reset=False)
    task = Sum(without_state(model, named=source.named), record)
    sums = source.reduced(task, _both_sums, client, type(model).__name__ if verbose else None)
    if sums is None:
        raise InputError("There are no rows of positive weight in any partition; give at least one.")
    return sums


def _looked_at(
    model: Any, bare: Any, source: Partitions, client: Any, verbose: str | None
) -> tuple[np.random.Generator, np.random.Generator, Sample]:
    """Return the generators for learning and for what is drawn, as a stream has them, and a sample of the rows."""
    rng = generator(model.random_state)
    learning, drawing = spawn(rng, 2)
    look = Look(bare, tuple(rng.integers(2**63, size=4).tolist()))
    whole = model._needs_sample()
    sample = source.reduced(look, _both_sums, client, verbose) if whole else source.first(look, client)
    if sample is None:
        raise InputError("There are no rows of positive weight in any partition; at least 2 are needed.")
    sample.whole = whole
    return learning, drawing, sample


def _check_columns(model: Any, source: Partitions, *, reset: bool) -> None:
    """Check the number of columns and their names, before anything is computed."""
    refuse_what_is_no_table(source.example, "X")
    validate_data(model, source.example, reset=reset, skip_check_array=True)


def without_state(model: Any, *, named: bool) -> Any:
    """Return a model as it is before its fit, for checks of rows of as many columns, with names or without."""
    bare = object.__new__(type(model))
    left_out = ("_fitted",) if named else ("_fitted", "feature_names_in_")
    vars(bare).update({name: value for name, value in vars(model).items() if name not in left_out})
    return bare


def unnamed(model: Any, part: Any) -> Any:
    """Return rows without the names of their columns where a model knows none: the call has warned of that."""
    return part.to_numpy() if hasattr(part, "iloc") and not hasattr(model, "feature_names_in_") else part


def _both_sums(one: Any, other: Any) -> Any:
    return one.merge(other)


def _both_places(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    return np.unique(np.concatenate((one, other)), axis=0)
