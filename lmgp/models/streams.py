"""Models that take rows chunk by chunk: fits to streams, rows that come later, rows that are taken out."""

from abc import abstractmethod
from copy import copy
from numbers import Real
from os import PathLike
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from lmgp.columns import NamedColumns
from lmgp.errors import InputError
from lmgp.fitted import digest, unchanged_on_failure
from lmgp.inference.duplicates import Duplicates, check_duplicates
from lmgp.inference.trend import Trend, without_trend
from lmgp.inputs import column_scales
from lmgp.io.partitions import Partitions, partitions_of, source_or_partitions
from lmgp.io.sample import Sample
from lmgp.io.sources import Chunk
from lmgp.kernels.base import Kernel
from lmgp.learning.forms import declared_free
from lmgp.models.base import GaussianProcess, GPFit
from lmgp.models.partitioned import fit_to_partitions, sums_of_partitions
from lmgp.models.passes import checked_chunk, fit_to_stream, reading
from lmgp.progress import shown
from lmgp.validation import Rows, check_rows, known_center, validated_pair

__all__ = ["Sample", "StreamedGP"]


class StreamedGP(GaussianProcess):
    """Gaussian processes on sums over rows: of streams, with updates.

    Subclasses implement `_freeze`. Their fitted state has `joined`, `of_rows` and `merged`, and of streams `sums_of`,
    `with_sums` and `sums`: the map, the statistics of a chunk, their sum, and what is made of it, one by one.
    """

    _fitted: Any
    _callers = 4

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
        duplicates: Duplicates = "keep",
        center: float | None = None,
        verbose: bool | int = False,
        *,
        checkpoint: str | PathLike[str] | None = None,
        chunk_rows: int | None = None,
        client: Any = None,
    ) -> Self:
        """Fit the model to training rows, in memory, in a stream of chunks, or in dask collections.

        Parameters
        ----------
        X : array-like of shape (n, d), a source of chunks, or dask array or data frame
            A source is an iterable of tuples (X, y), (X, y, sample_weight) or (X, y, sample_weight, noise_variances), a
            function that returns one, or what `lmgp.io.open_dataset` returns. An iterator is read once; all else may be
            read twice. A memory-mapped array of more than one chunk is read chunk by chunk, too. Of dask collections,
            each partition is summed where it is.
        y : array-like of shape (n,), optional
            None with a source. With dask collections, y, weights and noise variances are such, with the partitions of
            X.
        sample_weight : array-like of shape (n,), optional
            A weight w stands for w repetitions of the row; zero for its absence. Repetitions agree to the last digit,
            and so a learned noise variance becomes small: for weights that mean precision, give `noise_variances`.
        noise_variances : array-like of shape (n,), optional
            A noise variance for each row, in squared units of y. The parameter `noise_variance` then is the noise of
            new rows only; where it is not given, it is the weighted mean of these.
        duplicates : {"keep", "average", "drop"}, default="keep"
            What becomes of rows with equal X, see `ExactGPRegressor.fit`. Rows in chunks are kept.
        center : float, optional
            A mean of y that is known, and stays so with other rows; the weighted mean of the rows if not given. A trend
            takes its place.
        verbose : bool or int, default=False
            Whether what is tried to learn the kernel is shown on standard error as it goes; of a source, also the rows
            a second and the time left.
        checkpoint : path, optional
            A file that is written after each chunk of a source, and removed at the end. Where it exists, the fit goes
            on behind the last chunk that it has.
        chunk_rows : int, optional
            Read arrays in chunks of this many rows. Of memory-mapped arrays, as many as have 2**19 values if not given.
        client : distributed.Client, optional
            That computes with dask collections. The current one, or else the scheduler of dask, if not given.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X or y is not finite and numeric, their lengths differ, there are fewer than 2 rows, or a parameter is
            out of its range. `lmgp.errors.InputError`, which is one, if the data or the kernel do not allow a fit;
            `lmgp.errors.StreamError`, which is one, if a chunk cannot be used. Then the model is that of the chunks
            before, and a checkpoint stays. Of a partition of dask collections, the model is as it was.
        ClusterError
            If a cluster loses what it cannot compute again. The model is as it was.
        MemoryLimitError
            If the model needs more than `max_memory_gib`.
        ModelFileError
            If the checkpoint is of another model or version, or damaged.
        OutputError
            If the checkpoint cannot be written.

        Warns
        -----
        ScaleWarning
            If one learned lengthscale serves columns whose standard deviations differ a thousandfold.
        """
        source = source_or_partitions(
            X, y, sample_weight, noise_variances, chunk_rows, checkpoint=checkpoint, client=client
        )
        if source is None:
            target: Any = y
            return super().fit(X, target, sample_weight, noise_variances, duplicates, center, verbose)
        self._validate_params()
        check_duplicates(duplicates)
        if duplicates != "keep":
            raise InputError(
                f"duplicates={duplicates!r} compares all rows, and a fit to chunks keeps none. Give duplicates='keep': "
                "the sums of equal rows predict as their averages do. Or fit to rows in memory."
            )
        with shown(verbose):
            if isinstance(source, Partitions):
                fit_to_partitions(self, source, client, bool(verbose), known_center(center))
            else:
                fit_to_stream(self, source, checkpoint, bool(verbose), known_center(center))
        return self

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
        *,
        verbose: bool | int = False,
        client: Any = None,
    ) -> Self:
        """Add rows to the model, with its kernel, noise variance and map as they are.

        The first call is `fit`, which learns what is not given from these rows. The model of several calls is that of
        one call with all rows after the first one, in any order.

        Parameters
        ----------
        X : array-like of shape (n, d), a source of chunks, or dask array or data frame
            See `fit`.
        y : array-like of shape (n,), optional
        sample_weight, noise_variances : array-like of shape (n,), optional
        verbose : bool or int, default=False
        client : distributed.Client, optional
            See `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As `fit`. The model then is as it was; of a source, that of the chunks before.
        """
        source = source_or_partitions(X, y, sample_weight, noise_variances, client=client)
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, sample_weight, noise_variances, verbose=verbose, client=client)
        if source is None:
            with unchanged_on_failure(self):
                self._fitted = self._fitted.joined(self._more_rows(X, y, sample_weight, noise_variances), 1.0)
            return self
        if isinstance(source, Partitions):
            with unchanged_on_failure(self):
                sums = sums_of_partitions(self, source, client, bool(verbose))
                self._fitted = self._fitted.added(sums, 1.0)
            return self
        for place, chunk in reading(source, bool(verbose), type(self).__name__):
            rows = checked_chunk(self, chunk, place)
            if rows is not None:
                with place.named():
                    self._check_more(rows, self._fitted)
                    self._fitted = self._fitted.joined(rows, 1.0)
        return self

    def forget(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
    ) -> Self:
        """Take rows out of the model, with its kernel, noise variance and map as they are.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
        sample_weight, noise_variances : array-like of shape (n,), optional
            As when the rows were added.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If rows are not in the model: of a model that keeps its rows, always; of one that keeps sums, where no rows
            have the sums that would be left. The model then is as it was.
        """
        check_is_fitted(self)
        partitions = partitions_of(X, y, sample_weight, noise_variances)
        with unchanged_on_failure(self):
            if partitions is not None:
                self._fitted = self._fitted.added(sums_of_partitions(self, partitions), -1.0)
            else:
                self._fitted = self._fitted.joined(self._more_rows(X, y, sample_weight, noise_variances), -1.0)
        return self

    def with_rows(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
    ) -> Self:
        """Return a model of other rows, with this model's kernel, noise variance and map: `merge` joins both.

        Parameters and errors are those of `partial_fit`.

        Returns
        -------
        A model of the same class
        """
        check_is_fitted(self)
        partitions = partitions_of(X, y, sample_weight, noise_variances)
        other = copy(self)
        if partitions is not None:
            other._fitted = self._fitted.with_sums(sums_of_partitions(self, partitions))
        else:
            other._fitted = self._fitted.of_rows(self._more_rows(X, y, sample_weight, noise_variances))
        return other

    def merge(self, other: Self) -> Self:
        """Add the rows of another model of the same kernel, noise variance, map and trend; see `with_rows`.

        Parameters
        ----------
        other : a model of the same class
            Fitted. It stays as it is.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If the models differ in one of these; the message says in which.
        """
        check_is_fitted(self)
        name = type(self).__name__
        if not isinstance(other, type(self)):
            article = "An" if name[0] in "AEIOU" else "A"
            raise InputError(f"{article} {name} merges with another one; got {type(other).__name__}.")
        check_is_fitted(other)
        if digest(self.kernel_) != digest(other.kernel_):
            raise InputError(
                f"Models of one kernel merge; these have {self.kernel_!r} and {other.kernel_!r}. Make the other one by "
                "with_rows of this one."
            )
        if self.n_features_in_ != other.n_features_in_:
            raise InputError(
                f"Models of the same columns merge; these have {self.n_features_in_} and {other.n_features_in_}."
            )
        with unchanged_on_failure(self):
            self._fitted = self._fitted.merged(other._fitted)
        return self

    def _more_rows(self, X: Any, y: Any, sample_weight: ArrayLike | None, noise_variances: ArrayLike | None) -> Rows:
        """Check rows that are to be added or taken out; y as it is."""
        inputs, target = validated_pair(self, X, y, reset=False)
        rows = check_rows(self._coordinates(inputs), target, sample_weight, noise_variances, least=1)
        self._check_more(rows, self._fitted)
        return rows

    def _check_more(self, rows: Rows, fit: Any) -> None:
        """Refuse rows that a fitted state cannot serve."""
        check_trend(fit.trend, rows)

    def _first_rows(self, chunk: Chunk) -> Rows:
        """Check the first chunk of a stream, which says how many columns there are, and their names."""
        inputs, target = validated_pair(self, chunk.X, chunk.y)
        return check_rows(self._coordinates(inputs), target, chunk.sample_weight, chunk.noise_variances, least=0)

    def _next_rows(self, chunk: Chunk) -> Rows:
        inputs, target = validated_pair(self, chunk.X, chunk.y, reset=False)
        return check_rows(self._coordinates(inputs), target, chunk.sample_weight, chunk.noise_variances, least=0)

    def _frozen(
        self, sample: Sample, learning: np.random.Generator, drawing: np.random.Generator, known: float | None
    ) -> Any:
        """Return the state of a model without rows: all that is not summed. `known` is a center that is given."""
        rows, summary = sample.rows, sample.summary
        if rows is None or summary is None:
            raise InputError("The stream has no rows of positive weight; at least 2 are needed to fit a model.")
        names = self._names()
        X = rows.X if names is None else NamedColumns.of(rows.X, tuple(names))
        rows = self._checked_rows(X, rows.y, rows.weights, rows.noise_variances)
        center = summary.weighted / summary.n if known is None else known
        rows = Rows(rows.X, rows.y - center, rows.weights, rows.noise_variances)
        trend, rows = without_trend(rows, self._trend_columns(), names)
        if trend is not None and self._learns(rows):
            trend.check_residuals(rows)
        learned = self._learn(rows, learning)
        common = GPFit(
            learned.kernel,
            learned.noise_variance,
            center,
            farthest_target=float(np.abs(rows.y).max()),
            trend=trend,
            learning=learned.learning,
            column_scales=column_scales(rows),
            center_given=known is not None,
        )
        return self._freeze(rows, common, drawing, sample)

    def _digest_of(self, center: float | None) -> str:
        """Return a name that fits of the same parameters and center share."""
        values = {**self.get_params(deep=False), "center": center}
        return digest({name: _hashed(value) for name, value in values.items()})

    @property
    def _all_given(self) -> bool:
        """Whether nothing is learned."""
        given = isinstance(self.kernel, Kernel) and declared_free(self.kernel) is None
        return given and self.noise_variance is not None

    def _needs_sample(self) -> bool:
        """Say whether the model needs a pass over all rows before they are summed."""
        return True

    @abstractmethod
    def _freeze(self, rows: Rows, common: GPFit, rng: np.random.Generator, sample: Sample | None) -> Any:
        """Return the state of a model of no rows, from some rows: all of them, or a sample.

        y is centred; of a trend, `common.trend`, it is the residuals of the least-squares fit.
        """


def check_trend(trend: Trend | None, rows: Rows) -> None:
    """Refuse rows that differ where no training row differed, in a column of the trend.

    Raises
    ------
    InputError
    """
    if trend is not None and np.any(beside := trend.missing(rows.X)):
        raise InputError(
            f"The trend of {', '.join(trend.names)} has no slope in a direction in which no training row differed; "
            f"{int(beside.sum()):,} rows do, the first of them row {int(np.argmax(beside))}. Fit again to all "
            "rows, or list other columns."
        )


def _hashed(value: Any) -> Any:
    """Return a value that has a digest: of a generator, its state."""
    if isinstance(value, np.random.Generator):
        return str(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return str(value.get_state(legacy=False))
    return float(value) if isinstance(value, Real) and not isinstance(value, bool) else value
