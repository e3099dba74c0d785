"""Dask collections as sources of rows: what is made of each partition is reduced as a tree, where the partition is."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, reduce
from itertools import accumulate
from numbers import Real
from operator import add
from typing import Any
from uuid import uuid4

import numpy as np
from sklearn.utils.validation import validate_data

from lmgp.data import Rows, drawing_of, sampling
from lmgp.errors import ClusterError, InputError, LmgpError
from lmgp.io.sources import Chunk, RowSource, default_chunk_rows, source_of
from lmgp.neighbours.lattice import union
from lmgp.sums.base import SAMPLE_ROWS, Sample
from lmgp.sums.stream import FITTED, Made, Place, used
from lmgp.utils.columns import dask_kind, refuse_what_is_no_table
from lmgp.utils.fitted import unchanged_on_failure
from lmgp.utils.parallel import single_threaded
from lmgp.utils.progress import counted

# Results of this many partitions, or of groups of them, are merged at a time.
SPLIT_EVERY = 8

# What is made of the rows of a partition, from its number, the number of rows before it, and its rows; None of no rows.
Task = Callable[[int, int | None, Chunk], Made | None]


class Partitions:
    """The partitions of a dask array or data frame X, with a y, weights and noise variances of the same partitions.

    Parameters
    ----------
    X : dask array of shape (n, d) or dask data frame
    y : dask array of shape (n,) or dask series
    sample_weight, noise_variances : dask array of shape (n,), dask series, float or None

    Attributes
    ----------
    X : dask array or dask data frame
        With one partition for each group of rows.
    n_partitions : int
    starts : list of int or None
        The number of rows before each partition; None where it is not known.

    Raises
    ------
    InputError
        If these are no rows and targets with the same partitions.
    """

    def __init__(self, X: Any, y: Any, sample_weight: Any = None, noise_variances: Any = None) -> None:
        self.X = as_table(X)
        given = Chunk(self.X, _column(y, "y"), sample_weight, noise_variances)._asdict()
        for name in ("sample_weight", "noise_variances"):
            if given[name] is not None and not isinstance(given[name], Real):
                given[name] = _column(given[name], name)
        self._given = {name: _aligned(self.X, values, name) for name, values in given.items()}
        self.n_partitions, sizes = self.X.npartitions, _sizes(self.X)
        self.starts = [None] * self.n_partitions if sizes is None else [0, *accumulate(sizes)][:-1]

    def reduced(
        self, task: Task[Made], merge: Callable[[Made, Made], Made], client: Any = None, verbose: str | None = None
    ) -> Made | None:
        """Return what a task makes of each partition, merged in the order of the partitions; None of no rows.

        Parameters
        ----------
        task : callable
            See `Task`. It is sent once, and runs on one thread.
        merge : callable
            Of two results. What it makes does not depend on where and when it runs.
        client : distributed.Client, optional
            The current one, or else the scheduler of dask, if not given.
        verbose : str, optional
            The title of a progress bar of what runs in this process; a client has its dashboard.

        Raises
        ------
        ClusterError
            If workers are lost, more often than dask tries again.
        """
        from dask.delayed import delayed

        together, prefix = delayed(_merged, pure=False), f"partition-{uuid4().hex}"
        leaves = list(self._leaves(task, prefix))
        while len(leaves) > 1:
            leaves = [together(merge, leaves[i : i + SPLIT_EVERY]) for i in range(0, len(leaves), SPLIT_EVERY)]
        with _bar(verbose, prefix, self.n_partitions):
            result: Made | None = computed(leaves[0], client)
        return result

    def first(
        self, task: Task[Made], merge: Callable[[Made, Made], Made], is_enough: Callable[[Made], bool], client: Any
    ) -> Made | None:
        """Merge what a task makes of the first partitions that have rows, until it is enough."""
        first: Made | None = None
        for leaf in self._leaves(task, f"first-{uuid4().hex}"):
            first = _merged(merge, [first, computed(leaf, client)])
            if first is not None and is_enough(first):
                break
        return first

    def _leaves(self, task: Task[Made], prefix: str) -> Iterator[Any]:
        """Yield what a task makes of each partition, as delayed values whose keys begin with a prefix."""
        from dask import config
        from dask.base import optimize
        from dask.delayed import delayed

        # A key of its own: dask sends it to a worker once, and to another one if that is lost.
        sent, apply = delayed(task, name=f"task-{prefix}", pure=False, traverse=False), delayed(_applied, pure=False)
        kinds = {name: dask_kind(values) for name, values in self._given.items()}
        frames = {name: values for name, values in self._given.items() if kinds[name] in ("frame", "series")}
        arrays = {name: values for name, values in self._given.items() if kinds[name] == "array"}
        same = {name: values for name, values in self._given.items() if kinds[name] is None}
        columns: list[Iterable[Any]] = [[()] * self.n_partitions]
        if frames:
            # As one expression, so that a partition from which all of them come is made once.
            frame, *others = frames.values()
            tuples = frame.map_partitions(
                _together, *others, align_dataframes=False, enforce_metadata=False, meta=(None, object),
                clear_divisions=True,
            )  # fmt: skip
            columns = [tuples.to_delayed()]
        if arrays:
            # What X and y are both made of is made once: it is not fused into each of them.
            with config.set({"optimization.fuse.active": False}):
                collections = optimize(*arrays.values())
            columns += [array.to_delayed(optimize_graph=False).ravel() for array in collections]
        names = (*frames, *arrays)
        for number, (start, *parts) in enumerate(zip(self.starts, *columns, strict=True)):
            yield apply(sent, number, start, same, names, *parts, dask_key_name=f"{prefix}-{number}")


def computed(total: Any, client: Any = None) -> Any:
    """Compute a delayed value, on a client, or where dask would.

    Raises
    ------
    ClusterError
        If workers, or the scheduler, are lost.
    """
    from dask.base import compute

    try:
        return compute(total)[0] if client is None else client.compute(total).result()
    except LmgpError:
        raise
    except Exception as error:
        if isinstance(error, CancelledError) or type(error).__module__.partition(".")[0] == "distributed":
            told = f"{type(error).__name__}: {str(error).rstrip('.')}"
            raise ClusterError(
                f"The cluster did not finish: {told}. The model is as it was. Where workers are lost again and again, "
                "a partition and what is made of it may need more memory than a worker has: make smaller partitions, "
                "or give the workers more memory. Rows that were scattered on a lost worker, and that dask cannot make "
                "again, have to be given again."
            ) from error
        raise


@contextmanager
def _bar(title: str | None, prefix: str, n: int) -> Iterator[None]:
    """Show how many of n tasks, whose keys begin with a prefix, are done by a scheduler in this process."""
    if title is None:
        yield
        return
    from dask.callbacks import Callback

    with counted(n, title, "partitions", True) as bar:

        def done(key: Any, *_: Any) -> None:
            bar.update(str(key).startswith(prefix))

        with Callback(posttask=done):
            yield


def source_or_partitions(
    given: Chunk, chunk_rows: int | None = None, *, checkpoint: Any = None, client: Any = None
) -> RowSource | Partitions | None:
    """Return the partitions or the source that the arguments of `fit` are, or None where they are rows in memory.

    Parameters
    ----------
    given : Chunk
        See `Partitions` and `lmgp.io.sources.source_of`.
    chunk_rows, checkpoint, client
        See `lmgp.estimators.streamed.AdditiveGaussianProcess.fit`.

    Raises
    ------
    InputError
        If these do not go together.
    """
    partitions = partitions_of(given)
    if partitions is None:
        if client is not None:
            raise InputError(
                f"client computes with dask collections, and X is a {type(given.X).__name__}; leave client out, or "
                "make one by dask.array.from_array(X, chunks=(100_000, -1))."
            )
        return source_of(given, chunk_rows, arrays=checkpoint is not None)
    for name, arg in (("chunk_rows", chunk_rows), ("checkpoint", checkpoint)):
        if arg is not None:
            raise InputError(
                f"{name} is for chunks that are read one by one; got {arg!r} with a dask collection, whose partitions "
                "are its chunks, and whose lost parts dask makes again. Leave it out."
            )
    if client is not None:
        if not hasattr(client, "compute") or not hasattr(client, "scheduler_info"):
            raise InputError(
                f"client must be a distributed.Client, or None for the current one; got {client!r}. Make one by "
                "distributed.Client(address)."
            )
        if getattr(client, "asynchronous", False):
            raise InputError("client is asynchronous, and fit waits for its result; give distributed.Client(address).")
    return partitions


def partitions_of(given: Chunk) -> Partitions | None:
    """Return the partitions of dask collections, or None where there is none among the arguments."""
    return None if all(dask_kind(values) is None for values in given) else Partitions(*given)


def empty(X: Any) -> Any:
    """Return the table of no rows with the columns of a dask array or data frame."""
    return X._meta if dask_kind(X) == "frame" else np.empty((0, X.shape[1]))


def as_table(X: Any) -> Any:
    """Return X with all of its columns in each partition."""
    kind = dask_kind(X)
    if kind not in ("array", "frame"):
        got = f"a dask {type(X).__name__}" if kind else f"{type(X).__name__}, beside other dask collections"
        raise InputError(
            f"X must be a dask array of shape (n, d), or a dask data frame; got {got}. Rows in memory become one by "
            "dask.array.from_array(X, chunks=(100_000, -1))."
        )
    if kind == "frame":
        return X
    if X.ndim != 2:
        raise InputError(f"X must have rows and columns, shape (n, d); got a dask array of shape {X.shape}.")
    if X.shape[1] != X.shape[1]:
        raise InputError("X has an unknown number of columns: call X.compute_chunk_sizes() first.")
    return X if len(X.chunks[1]) <= 1 else X.rechunk({1: -1})


def _column(column: Any, name: str) -> Any:
    """Return a dask array of shape (n,) or a dask series."""
    kind = dask_kind(column)
    if kind not in ("array", "series", "frame"):
        what = "None" if column is None else f"a dask {type(column).__name__}" if kind else type(column).__name__
        raise InputError(
            f"{name} must be a dask array of shape (n,), or a dask series, like X; got {what}. An array in memory "
            f"becomes one by dask.array.from_array({name}, chunks=X.chunks[0])."
        )
    width = len(column.columns) if kind == "frame" else column.shape[1] if column.ndim == 2 else 1
    if (kind == "array" and column.ndim not in (1, 2)) or width != 1:
        shape = f"{len(column.columns)} columns" if kind == "frame" else f"shape {column.shape}"
        raise InputError(f"{name} should be a 1d array, one number a row; got {shape}.")
    if kind == "frame":
        return column[column.columns[0]]
    return column[:, 0] if column.ndim == 2 else column


def _aligned(X: Any, column: Any, name: str) -> Any:
    """Return a column with the partitions of X."""
    if column is None or isinstance(column, Real) or column is X:
        return column
    sizes, lengths = _sizes(X), _sizes(column)
    if sizes is not None and lengths is not None:
        if sum(sizes) != sum(lengths):
            raise InputError(f"X has {sum(sizes):,} rows; {name} must have one value for each, got {sum(lengths):,}.")
        return column if lengths == sizes else column.rechunk((sizes,))
    if X.npartitions != column.npartitions:
        raise InputError(
            f"X has {X.npartitions:,} partitions, {name} has {column.npartitions:,}: they must be the "
            "same, row by row. Take both from one data frame, or make the lengths known: compute_chunk_sizes() of an "
            "array, to_dask_array(lengths=True) of a data frame."
        )
    frames = dask_kind(X) == "frame" and dask_kind(column) == "series"
    if frames and X.known_divisions and column.known_divisions and X.divisions != column.divisions:
        raise InputError(
            f"X and {name} have as many partitions, but of other rows: the divisions of their indices differ. Use "
            f"{name}.repartition(divisions=X.divisions)."
        )
    return column


def _sizes(collection: Any) -> tuple[int, ...] | None:
    """Return the number of rows of each partition, where it is known."""
    if dask_kind(collection) != "array":
        return None
    sizes = collection.chunks[0]
    return None if any(size != size for size in sizes) else tuple(map(int, sizes))


def _together(*parts: Any) -> tuple[Any, ...]:
    return parts


def _applied(
    task: Task[Made], number: int, first: int | None, same: dict[str, Any], names: Sequence[str],
    frames: tuple[Any, ...], *arrays: Any,
) -> Made | None:  # fmt: skip
    """Apply a task to one partition, on one thread."""
    with single_threaded():
        return task(number, first, Chunk(**same, **dict(zip(names, (*frames, *arrays), strict=True))))


def _merged(merge: Callable[[Made, Made], Made], parts: Sequence[Made | None]) -> Made | None:
    with single_threaded():
        results = [part for part in parts if part is not None]
        return reduce(merge, results) if results else None


UNCHANGED = "The model is as it was. Mend the partition, and call again."


def made_of_rows(
    model: Any, make: Callable[[int, Rows], Made], number: int, first: int | None, chunk: Chunk
) -> Made | None:
    """Check the rows of a partition for a model without a fitted state, and return what is made of them: a `Task`."""
    lengths = {name: len(values) for name, values in chunk._asdict().items() if hasattr(values, "__len__")}
    place = Place(number, first, lengths["X"], UNCHANGED, "Partition", "all")
    with place.named():
        for name, length in lengths.items():
            if length != lengths["X"]:
                raise InputError(
                    f"X has {lengths['X']:,} rows, {name} has {length:,}. A partition has the same rows of both."
                )
    if not lengths["X"]:
        return None
    return used(model, chunk._replace(X=unnamed(model, chunk.X)), place, partial(make, number))


def _sampled(number: int, rows: Rows, noise_variance: float | None, size: int = SAMPLE_ROWS, of: int = 0) -> Sample:
    """Return a sample of the rows of a partition, drawn by a generator of its own."""
    sample = Sample(sampling(number, of), size)
    sample.add(rows, noise_variance)
    return sample


def _summed(fit: Any, size: int | None, number: int, rows: Rows) -> tuple[Any, Sample | None]:
    """Return the sums over the rows of a partition, for a fitted state without rows, and a sample if it has a size."""
    sample = None if size is None else _sampled(number, rows, fit.noise_variance, size, of=1)
    rows = fit.checked(rows)
    step = max(default_chunk_rows(rows.X.shape[1]), fit.sums.least_rows)
    parts = (rows.take(slice(start, start + step)) for start in range(0, len(rows), step))
    return reduce(add, map(fit.sums.of, parts)), sample


def _both(pair: tuple[Any, Any], other: tuple[Any, Any]) -> tuple[Any, Any]:
    """Merge the sums of two partitions, and their samples where there are some."""
    return pair[0] + other[0], None if pair[1] is None else pair[1].merge(other[1])


def fit_to_partitions(model: Any, source: Partitions, client: Any, verbose: bool, center: Any) -> None:
    """Fit a model to dask collections: a sample of the rows is gathered, and their sums.

    Parameters
    ----------
    model : AdditiveGaussianProcess
    source : Partitions
    client : distributed.Client or None
    verbose : bool
    center : float, array-like or None
        A mean of y that is known.
    """
    name = type(model).__name__
    with unchanged_on_failure(model):
        for attribute in FITTED:
            vars(model).pop(attribute, None)
        bare = _bare(model, source, reset=True)
        drawing = drawing_of(model.random_state)
        look = partial(made_of_rows, bare, partial(_sampled, noise_variance=model.noise_variance))
        if whole := model._needs_sample():
            sample = source.reduced(look, Sample.merge, client, f"{name}, first pass" if verbose else None)
        else:
            # A model is not made of one row.
            sample = source.first(look, Sample.merge, lambda sample: len(sample.keys) > 1, client)
        if sample is None:
            raise InputError("There are no rows of positive weight in any partition; at least 2 are needed.")
        sample.whole = whole
        fit = model._begun(sample, drawing, center)
        if fit.sums.covers:
            places = source.reduced(
                partial(made_of_rows, bare, lambda _, rows: fit.sums.places(rows)),
                lambda keys, other: union(keys, other)[0],
                client,
                f"{name}, centroids" if verbose else None,
            )
            fit = replace(fit, sums=fit.sums.covering(places))
        of_noise = model._sample_of_noise()
        make = partial(_summed, fit.summing(), None if of_noise is None else of_noise.size)
        result = source.reduced(partial(made_of_rows, bare, make), _both, client, name if verbose else None)
        assert result is not None  # of the rows of the sample, two at least
        sums, of_noise = result
        model._fitted = model._ended(replace(fit, sums=sums), of_noise)


def sums_of_partitions(model: Any, source: Partitions, client: Any = None, verbose: bool = False) -> Any:
    """Return the sums over the rows of dask collections, for a fitted model that keeps no rows.

    Raises
    ------
    InputError
        If the model keeps its rows, or has other columns, or there is no row.
    """
    fit, bare = model._state().summing(), _bare(model, source, reset=False)
    bare._fitted = fit  # which says what columns are
    task = partial(made_of_rows, bare, partial(_summed, fit, None))
    sums, _ = source.reduced(task, _both, client, type(model).__name__ if verbose else None) or (None, None)
    if sums is None:
        raise InputError("There are no rows of positive weight in any partition; give at least one.")
    return sums


def _bare(model: Any, source: Partitions, *, reset: bool) -> Any:
    """Check the columns before anything is computed, and return the model before its fit, which checks rows of them."""
    example = empty(source.X)
    refuse_what_is_no_table(example, "X")
    validate_data(model, example, reset=reset, skip_check_array=True)
    bare = object.__new__(type(model))
    left_out = ("_fitted",) if hasattr(example, "iloc") else ("_fitted", "feature_names_in_")
    vars(bare).update({name: value for name, value in vars(model).items() if name not in left_out})
    return bare


def unnamed(model: Any, part: Any) -> Any:
    """Return rows without the names of their columns where a model knows none: the call has warned of that."""
    return part.to_numpy() if hasattr(part, "iloc") and not hasattr(model, "feature_names_in_") else part
