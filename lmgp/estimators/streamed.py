"""Regressors whose posterior is made of sums over rows: streams, dask collections, and rows that come later."""

from copy import copy
from dataclasses import replace
from numbers import Integral
from os import PathLike
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from lmgp.columns.categories import MOST_LEVELS, Categories, ManyCategories
from lmgp.data import Rows, check_rows, known_centers, refuse_other_order, sampling, validated_pair
from lmgp.distributions.noise import checked_noise
from lmgp.errors import InputError
from lmgp.estimators.base import Fit, GaussianProcess
from lmgp.estimators.importance import importances
from lmgp.estimators.rows_left_out import MOST_ROWS, with_noise_of_sample
from lmgp.io.sources import Chunk, source_of
from lmgp.kernels.table import row_variances
from lmgp.neighbours.duplicates import Duplicates, check_duplicates
from lmgp.posteriors.trend import check_number
from lmgp.recipes import AdditiveRecipe
from lmgp.sums.base import Sample
from lmgp.sums.cubes import CubeSums
from lmgp.sums.kept import ONE_START, NearestSums, RowSums
from lmgp.sums.partitions import Partitions, fit_to_partitions, partitions_of, source_or_partitions, sums_of_partitions
from lmgp.sums.stream import StreamFit, reading, used
from lmgp.utils.fitted import digest
from lmgp.utils.progress import shown

# Sums that say themselves what others of these they take: sums around centroids take rows that are kept.
OF_PLACES = CubeSums, RowSums, NearestSums


class AdditiveGaussianProcess(GaussianProcess):
    """A Gaussian process whose recipe makes sums over rows, `lmgp.recipes.AdditiveRecipe`: rows come later, and go.

    It is fitted to rows in memory, or by sums over those of streams and dask collections.
    """

    # Whether memory-mapped arrays of more than one chunk are streams: sums over rows in memory are the same.
    _maps_are_streams: ClassVar[bool] = True

    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
        duplicates: Duplicates = "keep",
        center: ArrayLike | None = None,
        verbose: bool | int = False,
        *,
        checkpoint: str | PathLike[str] | None = None,
        chunk_rows: int | None = None,
        client: Any = None,
    ) -> Self:
        """Fit the model to training rows, in memory, in a stream of chunks, or in dask collections.

        Of the last two, a random sample of up to 8,000 rows tells the distribution of new observations where `noise` is
        not "normal": each is predicted from all others, in closed form. Rows that come later leave it as it is.

        Parameters
        ----------
        X : array-like of shape (n, d), a source of chunks, or dask array or data frame
            A source is an iterable of tuples (X, y), (X, y, sample_weight) or (X, y, sample_weight, noise_variances), a
            function that returns one, or what `lmgp.io.open_dataset` returns. An iterator is read once; all else may be
            read twice. A memory-mapped array of more than one chunk is read chunk by chunk, too (by `GPRegressor`, with
            `chunk_rows`). Of dask collections, each partition is summed where it is.
        y : array-like of shape (n,) or (n, t), optional
            None with a source. With dask collections, y, weights and noise variances are such, with the partitions of
            X.
        sample_weight : array-like of shape (n,), optional
            A row of weight w has the noise variance σ²/w, where σ² is that of new rows; zero stands for its absence. A
            row counts once, whatever its weight; but if all weights are whole numbers, each stands for that many equal
            rows, and as these agree to the last digit, a learned noise variance becomes small.
        noise_variances : array-like of shape (n,), optional
            A noise variance for each row, in squared units of y. The parameter `noise_variance` then is the noise of
            new rows only; where it is not given, it is the weighted mean of these.
        duplicates : {"keep", "average", "drop"}, default="keep"
            What becomes of rows with equal X, see `ExactGPRegressor.fit`. Rows in chunks are kept.
        center : float or array-like of shape (t,), optional
            A mean of y that is known, and stays so with other rows; the weighted mean of the rows if not given. A trend
            takes its place.
        verbose : bool or int, default=False
            1: show on standard error how far the fit is, of a source with the rows a second and the time left, as a bar
            on a terminal and in a notebook, and elsewhere as lines. 2: show also each kernel that is tried.
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
        ScaleWarning, ColumnWarning, OutlierWarning, DuplicateRowsWarning
            As `ExactGPRegressor.fit`. Of `GPRegressor`, a `ColumnWarning` also where missing values are filled.
        EmptyChunkWarning
            If a chunk has no rows.
        TargetWarning, ToleranceWarning
            Of `GPRegressor`: if y is one of classes or counts, or no model is near enough to the exact process.
        """
        if isinstance(X, np.memmap) and not self._maps_are_streams and chunk_rows is None:
            X = np.asarray(X)
        given = Chunk(X, y, sample_weight, noise_variances)
        source = source_or_partitions(given, chunk_rows, checkpoint=checkpoint, client=client)
        if source is None:
            return super().fit(*given, duplicates, center, verbose)
        self._validate_params()
        self._check_streamed()
        if checked_noise(self.noise) == "robust":
            raise InputError(
                "noise='robust' fits all rows several times, with other weights, and a fit to chunks keeps none. Give "
                "noise='auto', or fit to rows in memory."
            )
        check_duplicates(duplicates)
        if duplicates != "keep":
            raise InputError(
                f"duplicates={duplicates!r} compares all rows, and a fit to chunks keeps none. Give duplicates='keep': "
                "the sums of equal rows predict as their averages do. Or fit to rows in memory."
            )
        if center is not None:
            known_centers(center, Rows(np.empty((1, 1)), np.empty((1, np.size(center)))))
        with shown(verbose):
            if isinstance(source, Partitions):
                fit_to_partitions(self, source, client, bool(verbose), center)
            else:
                StreamFit(self, source, checkpoint, bool(verbose), center).run()
        return self

    def _check_streamed(self) -> None:
        """Refuse parameters that take all rows in memory."""

    def _rows_of(self, chunk: Chunk, least: int = 0) -> Rows:
        """Check rows, with y as it is; the first ones of a stream say how many columns there are, and their names."""
        known = "n_features_in_" in vars(self)
        inputs, target = self._read_pair(chunk.X, chunk.y, False) if known else validated_pair(self, chunk.X, chunk.y)
        for (j, *_), kind, _ in self._table.parts:
            if isinstance(kind, Categories) and np.any(new := kind.places(inputs[:, j]) < 0):
                raise InputError(
                    f"{self._table.names[j]!r} has a category, or lacks one, in row {np.argmax(new)} as no row of fit: "
                    "beside such rows, all unknown categories would be the same one. Fit again to all rows."
                )
        return check_rows(self._coordinates(inputs), target, chunk.sample_weight, chunk.noise_variances, least)

    def _begun(self, sample: Sample, drawing: np.random.Generator, center: ArrayLike | None) -> Fit:
        """Return the state of a model without rows: all that is not summed."""
        rows, totals = sample.rows, sample.targets
        if rows is None or totals is None or len(rows) < 2:
            n = 0 if rows is None else len(rows)
            raise InputError(f"At least 2 rows of positive weight are needed to fit a model; got {n} sample(s).")
        self._check_first(rows, sample.target_names)
        centers = totals.means if center is None else known_centers(center, rows)
        fit, rows, rng = self._frozen(rows, sample.target_names, centers, center is not None, drawing)
        assert isinstance(fit.recipe, AdditiveRecipe)  # of these regressors
        n_trend = fit.trend.n_columns if fit.trend.estimated else 0
        sums = fit.recipe.sums(fit.kernel, fit.noise_variance, replace(sample, rows=rows), rng, n_trend)
        residuals = rows.Y[:, : len(fit.scales)]
        fit = self._rescaled(fit, rows.with_targets(residuals / fit.scales))
        of_sample = rows.with_targets(residuals / fit.scales)
        noted = None if self._all_given else importances(fit, of_sample, self._table)
        return replace(fit, sums=sums, importance=noted, variances=row_variances(fit.kernel, rows.X))

    def _sample_of_noise(self) -> Sample | None:
        """Return the sample that rows are drawn into to tell the noise; None of a normal one."""
        return None if self.noise == "normal" else Sample(sampling(0, 1), MOST_ROWS)

    def _ended(self, fit: Fit, sample: Sample | None) -> Fit:
        """Return the state of all rows, solved, with the noise that a sample of them tells."""
        return fit.solved if sample is None else with_noise_of_sample(fit.solved, self.noise, sample)

    def _needs_sample(self) -> bool:
        """Say whether the model needs a pass over all rows before they are summed."""
        constant = isinstance(self.trend, str) and self.trend == "constant"
        return not (constant and self._all_given) or self._recipe(0, self.kernel).needs_sample(self.kernel)  # type: ignore

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
        one call with all rows after the first one, in any order; of `ResidualGPRegressor`, it has other blocks. Of
        models of nearest rows, a trend is estimated anew until 4,000 rows are there, and stays then. A prediction in
        another thread is that of the model before or after; updates come from one thread.

        Parameters
        ----------
        X : array-like of shape (n, d), a source of chunks, or dask array or data frame
            See `fit`.
        y : array-like of shape (n,) or (n, t), optional
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
        given = Chunk(X, y, sample_weight, noise_variances)
        source = source_or_partitions(given, client=client)
        if not self.__sklearn_is_fitted__():
            return self.fit(*given, verbose=verbose, client=client)
        if isinstance(source, Partitions):
            sums = sums_of_partitions(self, source, client, bool(verbose))
            self._fitted = self._fitted.with_sums(self._fitted.known_sums + sums)
        elif source is None:
            self._fitted = self._fitted.with_more(self._rows_of(given, least=1))
        else:
            for place, chunk in reading(source, bool(verbose), type(self).__name__):
                self._fitted = used(self, chunk, place, self._fitted.with_more) or self._fitted
        return self

    def forget(
        self,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
        *,
        keep: int | None = None,
    ) -> Self:
        """Take rows out of the model, with its kernel, noise variance and map as they are.

        Once rows of fractional weights were added, `loo_` and the likelihood take all weights as precisions, also where
        these rows are gone.

        Parameters
        ----------
        X : array-like of shape (n, d), optional
        y : array-like of shape (n,) or (n, t), optional
        sample_weight, noise_variances : array-like of shape (n,), optional
            As when the rows were added.
        keep : int, optional
            In place of rows: of this number of rows that came last, all stay, and the older ones go. For models that
            keep their rows. The rows of a fit came in their order, and those of `merge` after those of the model.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If rows are not in the model: of a model that keeps its rows, always; of one that keeps sums, where no rows
            have the sums that would be left. If no more rows would be left than a trend has coefficients. If `keep` is
            no positive number, is given beside rows, or the model has sums in place of its rows. The model then is as
            it was.
        """
        if keep is not None:
            if X is not None or isinstance(keep, bool) or not isinstance(keep, Integral) or keep < 1:
                raise InputError(
                    f"forget takes rows, or keep, the positive number of rows that stay; got keep={keep!r}"
                    f"{'' if X is None else ' and rows'}."
                )
            check_is_fitted(self)
            remaining = self._fitted.known_sums.settled.latest(int(keep))
        else:
            gone = self._sums_of(Chunk(X, y, sample_weight, noise_variances))
            try:
                remaining = self._fitted.known_sums - gone
            except InputError as error:
                named = ", ".join(sorted(self._table.names_of(ManyCategories)))
                if not named:
                    raise
                raise InputError(
                    f"{error} Of {named}, with more than {MOST_LEVELS} categories, the rows of fit have effects that "
                    "other rows tell, so that they are not found: forget(keep=) takes out those that came first."
                ) from error
        if (trend := self._fitted.trend).estimated:
            check_number(remaining.n_rows, len(trend.index))
        self._fitted = self._fitted.with_sums(remaining)
        return self

    def with_rows(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
    ) -> Self:
        """Return a model of other rows, with this model's kernel, noise variance and map: `merge` joins both.

        Parameters and errors are those of `forget`, without `keep`: rows in memory or dask collections, and no chunks.

        Returns
        -------
        A model of the same class
        """
        sums = self._sums_of(Chunk(X, y, sample_weight, noise_variances))
        other = copy(self)
        other._fitted = self._fitted.with_sums(sums).solved
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
            raise InputError(f"A {name} merges with another one; got {type(other).__name__}.")
        check_is_fitted(other)
        mine, theirs = self._fitted, other._fitted
        for what, ours, another, cure in (
            ("one kernel", self.kernel_, other.kernel_, ". Make the other one by with_rows of this one."),
            ("the same columns", self._table.names, other._table.names, "."),
            ("the same targets", len(mine.centers), len(theirs.centers), " targets."),
            ("one trend", mine.trend.name, theirs.trend.name, f". {ONE_START}"),
        ):
            if digest(ours) != digest(another):
                raise InputError(f"Models of {what} merge; these have {ours!r} and {another!r}{cure}")
        if digest(self._table) != digest(other._table):
            raise InputError(
                f"The other model has read its columns by other categories, dates, scales or gaps. {ONE_START}"
            )
        if theirs.target_names is not None:
            refuse_other_order(theirs.target_names.tolist(), mine.target_names)
        sums, others = mine.known_sums, theirs.known_sums
        alike = type(sums) is type(others) or (isinstance(sums, OF_PLACES) and isinstance(others, OF_PLACES))
        if not alike or not np.array_equal(mine.origin, theirs.origin):
            raise InputError(ONE_START)
        self._fitted = mine.with_sums(sums + others).solved
        return self

    def _sums_of(self, given: Chunk) -> Any:
        """Return the sums over rows alone, in memory or in dask collections."""
        check_is_fitted(self)
        known, partitions = self._fitted.known_sums, partitions_of(given)
        if partitions is not None:
            return sums_of_partitions(self, partitions)
        if given.y is None and source_of(given) is not None:
            raise InputError("forget and with_rows take X and y, no chunks of them: give one chunk after the other.")
        rows = self._rows_of(given, least=1)
        return known.of(self._fitted.checked(rows))
