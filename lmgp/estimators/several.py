"""Several targets with a kernel, a map and a choice of their own."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.utils import Tags, _safe_indexing, check_consistent_length, get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.validation import check_is_fitted

from lmgp.data import Floats, RandomState, generator, named_targets, refuse_no_targets, refuse_other_targets
from lmgp.distributions.noise import ObservationNoise
from lmgp.distributions.targets import TargetDistributions
from lmgp.errors import InputError
from lmgp.estimators.base import PREDICT_OPTIONS, limits_of_targets
from lmgp.estimators.chosen import GPRegressor
from lmgp.estimators.summary import Summarized
from lmgp.io.sources import refuse_chunks
from lmgp.metrics.scorers import end_of, last_step, options_of_last_step
from lmgp.utils.columns import checked_table, pandas_frame, refuse_what_is_no_table
from lmgp.utils.fitted import Fitted, OfFit, unchanged_on_failure


@dataclass(frozen=True, eq=False)
class TargetFits:
    """A regressor for each target, and the names of the targets."""

    estimators: tuple[Any, ...]
    target_names: NDArray[Any]


@contextmanager
def _naming(target: Any) -> Iterator[None]:
    """Say of which target an error is."""
    try:
        yield
    except np.linalg.LinAlgError:  # which is no error of the input
        raise
    except ValueError as error:
        kind = type(error) if isinstance(error, InputError) else InputError
        raise kind(f"Target {str(target)!r}: {error}") from error


class MultiTargetGPRegressor(Summarized, MetaEstimatorMixin, Fitted, RegressorMixin, BaseEstimator):
    """A regressor for each of several targets, with hyperparameters of its own: y of shape (n, t).

    Every Gaussian process of this package but `TransformedTargetGPRegressor` takes y of shape (n, t) itself, and learns
    one kernel for all targets, which share its factorisations. This one learns a kernel for each, at t times the cost.

    Parameters
    ----------
    regressor : regressor, optional
        A Gaussian process of this package, a pipeline that ends in one, or a `TransformedTargetGPRegressor`;
        `GPRegressor` if not given.

    Attributes
    ----------
    estimators_ : tuple of regressor
        One for each target.
    target_names_ : ndarray of shape (t,)
        The columns of y, if y is a data frame; "0", "1" and so on of an array.
    n_features_in_ : int
        The number of input columns, d.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import ExactGPRegressor
    >>> from lmgp.estimators.several import MultiTargetGPRegressor
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.column_stack((np.sin(X[:, 0]), np.sin(5 * X[:, 0])))
    >>> y += 0.1 * np.random.default_rng(0).normal(size=(60, 2))
    >>> model = MultiTargetGPRegressor(ExactGPRegressor(random_state=0)).fit(X, y)
    >>> model.predict(X, return_std=True)[1].shape
    (60, 2)
    >>> lengthscales = [one.kernel_.lengthscale for one in model.estimators_]
    >>> lengthscales[0] > 2 * lengthscales[1]
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"regressor": [HasMethods(["fit", "predict"]), None]}

    __metadata_request__fit: ClassVar = {"verbose": True}
    __metadata_request__predict: ClassVar = PREDICT_OPTIONS

    estimators_ = OfFit[tuple[Any, ...]]()
    target_names_ = OfFit[NDArray[Any]]()

    def __init__(self, regressor: Any = None) -> None:
        self.regressor = regressor

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
        verbose: bool | int = False,
        **options: Any,
    ) -> Self:
        """Fit a regressor to each target.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n, t)
            All targets of each row; a row has no part in the fit to a target that it lacks. For one target, of shape
            (n,), use `GPRegressor`.
        sample_weight : array-like of shape (n,), optional
            For all targets.
        noise_variances : array-like of shape (n,) or (n, t), optional
            A noise variance for each row, or for each row and target, in squared units of y.
        verbose : bool or int, default=False
            Whether what is tried is shown on standard error as it goes.
        **options
            All else that `fit` of the regressor takes.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If a target is infinite or no number, or as the regressor, with the name of the target.
        """
        with unchanged_on_failure(self):
            self._validate_params()
            refuse_chunks(self, X, y)
            names, given = self._of_rows(X, y, sample_weight, noise_variances)
            estimators = []
            for name, (rows, target, of_rows) in zip(names, given, strict=True):
                regressor = GPRegressor() if self.regressor is None else clone(self.regressor)
                told = options_of_last_step(regressor, of_rows | ({"verbose": verbose} if verbose else {}))
                with _naming(name):
                    estimators.append(regressor.fit(rows, target, **told, **options))
            self._fitted = TargetFits(tuple(estimators), names)
        return self

    def calibrate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
    ) -> Self:
        """Fit the distribution of each target to rows that had no part in the fit; see `ExactGPRegressor.calibrate`.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n, t)
            With gaps, as in `fit`.
        sample_weight, noise_variances : array-like, optional
            As in `fit`.

        Returns
        -------
        self

        Raises
        ------
        InputError
            As `fit`, and if there are fewer than 30 rows, or another number of targets. No target is calibrated then.
        """
        check_is_fitted(self)
        with ExitStack() as all_or_none:
            for model in self._processes:
                all_or_none.enter_context(unchanged_on_failure(model))
            self._by_rows_of_each("calibrate", X, y, sample_weight, noise_variances)
        return self

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the mean of R² over the targets, each of the rows that have it.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n, t)
            With gaps, as in `fit`.
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        float

        Raises
        ------
        InputError
            If a target is infinite or no number, no row has it, or there is another number of targets.
        """
        check_is_fitted(self)
        return float(np.mean(self._by_rows_of_each("score", X, y, sample_weight, None)))

    def predict(self, X: ArrayLike, **options: Any) -> Any:
        """Predict at new rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
        **options
            As in `ExactGPRegressor.predict`.

        Returns
        -------
        mean : ndarray of shape (n, t)
            In units of each target; with it, in this order, what else is asked for: the standard deviation and the
            error of shape (n, t), and the covariance of shape (n, n, t).
        """
        # The axis of targets is behind those of the rows.
        return self._of_each("predict", X, -1, **options)

    def predict_distribution(self, X: ArrayLike, **options: Any) -> TargetDistributions:
        """Predict the distributions of new observations, of shape (n, t); see `ExactGPRegressor.predict_distribution`.

        Targets may have distributions of different kinds, such as a normal one, a t, and that of a logarithm.
        """
        return TargetDistributions(tuple(self._each("predict_distribution", X, **options)))

    def predict_quantile(self, X: ArrayLike, quantile: ArrayLike = 0.5, **options: Any) -> Floats:
        """Predict quantiles, (n, t) or (n, t, q); see `ExactGPRegressor.predict_quantile`."""
        return self._of_each("predict_quantile", X, 1, quantile=quantile, **options)

    def predict_interval(self, X: ArrayLike, level: float = 0.95, **options: Any) -> tuple[Floats, Floats]:
        """Predict central intervals, each bound of shape (n, t); see `ExactGPRegressor.predict_interval`."""
        return self._of_each("predict_interval", X, 1, level=level, **options)

    def predict_exceedance(self, X: ArrayLike, threshold: ArrayLike, **options: Any) -> Floats:
        """Predict the probability of a value above a threshold: one, one a target, or one a row and target."""
        check_is_fitted(self)
        limits = np.moveaxis(limits_of_targets(threshold, len(self.estimators_)), -1, 0)
        return self._of_each("predict_exceedance", X, 1, limits, **options)

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: RandomState = 0, include_noise: bool = False
    ) -> Floats:
        """Draw functions from the posterior of each target, (n, t, n_samples); see `ExactGPRegressor.sample_y`."""
        options = {"n_samples": n_samples, "random_state": generator(random_state), "include_noise": include_noise}
        return self._of_each("sample_y", X, 1, **options)

    @property
    def loo_(self) -> tuple[Any, ...]:
        """Leave-one-out predictions of the training rows of each target."""
        return tuple(end_of(model).loo_ for model in self.estimators_)

    def log_marginal_likelihood(self) -> Floats:
        """Return the log marginal likelihood of each target, of a transformed one that of z, in nats, shape (t,)."""
        check_is_fitted(self)
        return np.array([model.log_marginal_likelihood() for model in self._processes])

    @property
    def noise_(self) -> tuple[ObservationNoise, ...]:
        """The distribution of new observations of each target."""
        return tuple(model.noise_ for model in self._processes)

    @property
    def _processes(self) -> tuple[Any, ...]:
        """The Gaussian process of each target: of a transformed one, that of z."""
        return tuple(end_of(getattr(end_of(model), "regressor_", model)) for model in self.estimators_)

    @property
    def n_features_in_(self) -> int:
        """The number of input columns."""
        return self.estimators_[0].n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns, where X was a data frame."""
        return self.estimators_[0].feature_names_in_

    def _of_rows(
        self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None, noise_variances: ArrayLike | None
    ) -> tuple[NDArray[Any], Iterator[tuple[Any, Floats, dict[str, Any]]]]:
        """Return the names of targets, and X, y, weights and noise variances of the rows of each, after checking y."""
        import pandas as pd  # here, for predictions do without it

        refuse_what_is_no_table(X, "X")
        refuse_no_targets(self, y)
        refuse_what_is_no_table(y, "y")
        table: Any = pandas_frame(y)
        beside: Any = sample_weight, noise_variances
        missing = pd.isna(np.asarray(table))
        if missing.any():
            check_consistent_length(X, table, *(values for values in beside if np.ndim(values)))
            table = table.mask(missing, 0.0) if hasattr(table, "iloc") else np.where(missing, 0.0, table)
        targets: Floats = checked_table(table, "y", ensure_2d=False, ensure_min_samples=0, ensure_min_features=1)
        if targets.ndim < 2:
            raise InputError(
                f"Expected 2D array, got {('scalar', '1D')[targets.ndim]} array: y must have one column a target, "
                f"shape (n, t), and has shape {targets.shape}. For one target use GPRegressor, or make a column of "
                "it, y.reshape(-1, 1)."
            )
        names = named_targets(table, targets)
        assert names is not None  # of a table
        noise = None if noise_variances is None else np.asarray(noise_variances)
        if noise is not None and noise.ndim == 2 and noise.shape != targets.shape:
            raise InputError(
                f"noise_variances must have one value a row, shape ({len(targets)},), or one a row and target, "
                f"shape {targets.shape}; got shape {noise.shape}."
            )
        noises = [noise_variances] * len(names) if noise is None or noise.ndim < 2 else list(noise.T)

        def of_target(j: int) -> tuple[Any, Floats, dict[str, Any]]:
            rows = np.flatnonzero(~missing[:, j])

            def taken(values: Any) -> Any:
                return _safe_indexing(values, rows) if missing[:, j].any() and np.ndim(values) else values

            of_rows = {"sample_weight": sample_weight, "noise_variances": noises[j]}
            return taken(X), targets[rows, j], {key: taken(arg) for key, arg in of_rows.items() if arg is not None}

        return names, map(of_target, range(len(names)))

    def _by_rows_of_each(self, method: str, X: Any, y: Any, *beside: ArrayLike | None) -> list[Any]:
        """Return what a method of the model of each target makes of the rows that have it."""
        names, given = self._of_rows(X, y, *beside)
        if len(names) != len(self.estimators_):
            raise InputError(f"The model has {len(self.estimators_)} targets; got y with {len(names)}.")
        refuse_other_targets(y, self.target_names_)
        results = []
        for name, estimator, (rows, target, of_rows) in zip(names, self.estimators_, given, strict=True):
            with _naming(name):
                model, rows = last_step(estimator, rows)
                results.append(getattr(model, method)(rows, target, **of_rows))
        return results

    def _of_each(self, name: str, X: ArrayLike, axis: int, values: Any = None, /, **options: Any) -> Any:
        """Return what a method gives of each target, joined at an axis; see `_each`."""
        results = self._each(name, X, values, **options)
        if isinstance(results[0], tuple):
            return tuple(np.stack(parts, axis=axis) for parts in zip(*results, strict=True))
        return np.stack(results, axis=axis)

    def _each(self, name: str, X: ArrayLike, values: Any = None, /, **options: Any) -> list[Any]:
        """Return what a method gives of each target; `values` are arguments of each, if any."""
        check_is_fitted(self)
        arguments = [()] * len(self.estimators_) if values is None else [(value,) for value in values]
        ends = (last_step(model, X) for model in self.estimators_)
        pairs = zip(ends, arguments, strict=True)
        return [getattr(model, name)(rows, *given, **options) for (model, rows), given in pairs]

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output, tags.target_tags.single_output = True, False
        if self.regressor is not None:
            tags.target_tags.positive_only = get_tags(self.regressor).target_tags.positive_only
        return tags
