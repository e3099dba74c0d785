"""What is predicted of several targets beside means and standard deviations, and what the training rows say."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, column_or_1d

from lmgp.columns import refuse_other_than_numbers, refuse_what_is_no_table
from lmgp.errors import InputError
from lmgp.inference.leave_one_out import LeaveOneOut
from lmgp.metrics import crps_scorer, nlpd_scorer
from lmgp.metrics.scorers import DensityScorer, end_of, last_step, loss_rows
from lmgp.models.apart import EachFit, Known, OneFit, checked_targets, stacked
from lmgp.models.prediction import Predictions, numbers
from lmgp.validation import RandomState, generator

Floats = NDArray[np.float64]


class TargetPredictions:
    """Mixin of a model of several targets: quantiles, intervals, probabilities, draws and losses of each target."""

    _fitted: Any

    predict: Any
    target_names_: Any

    def predict_quantile(
        self, X: ArrayLike, quantile: ArrayLike = 0.5, include_noise: bool = True, batch_size: int | None = None
    ) -> Floats:
        """Predict quantiles, see `ExactGPRegressor.predict_quantile`.

        Parameters
        ----------
        X : array-like of shape (n, d)
        quantile : float or array-like of shape (q,), default=0.5
        include_noise : bool, default=True
        batch_size : int, optional

        Returns
        -------
        ndarray of shape (n, t) or (n, t, q)
            In units of each target.

        Raises
        ------
        ValueError
            As `predict`, and if a quantile is not strictly between 0 and 1.
        """
        found: Floats = self._distribution("predict_quantile", X, include_noise, batch_size, quantile=quantile)
        return found

    def predict_interval(
        self, X: ArrayLike, level: float = 0.95, include_noise: bool = True, batch_size: int | None = None
    ) -> tuple[Floats, Floats]:
        """Predict central intervals, see `ExactGPRegressor.predict_interval`.

        Parameters
        ----------
        X : array-like of shape (n, d)
        level : float, default=0.95
        include_noise : bool, default=True
        batch_size : int, optional

        Returns
        -------
        lower, upper : ndarray of shape (n, t)
            In units of each target.

        Raises
        ------
        ValueError
            As `predict`, and if the level is not strictly between 0 and 1.
        """
        lower, upper = self._distribution("predict_interval", X, include_noise, batch_size, level=level)
        return lower, upper

    def predict_exceedance(
        self, X: ArrayLike, threshold: ArrayLike, include_noise: bool = True, batch_size: int | None = None
    ) -> Floats:
        """Predict the probability of a value above a threshold, see `ExactGPRegressor.predict_exceedance`.

        Parameters
        ----------
        X : array-like of shape (n, d)
        threshold : float or array-like of shape (t,) or (n, t)
            One for all targets, one a target, or one a row and target, in units of each target.
        include_noise : bool, default=True
        batch_size : int, optional

        Returns
        -------
        ndarray of shape (n, t)

        Raises
        ------
        ValueError
            As `predict`, and if a threshold is no finite number, or they have another shape.
        """
        check_is_fitted(self)
        fit = self._fitted
        # What is not asked for is not passed on: a model of log y knows new observations alone.
        options: dict[str, Any] = {} if include_noise else {"include_noise": False}
        options |= {} if batch_size is None else {"batch_size": batch_size}
        if isinstance(fit, OneFit):
            one: Floats = self._of_each("predict_exceedance", X, threshold=threshold, **options)
            return one
        limits, t = numbers(threshold, "threshold"), len(self.target_names_)
        if limits.ndim > 2 or (limits.ndim and limits.shape[-1] != t):
            raise InputError(
                f"threshold must be one number, one a target, shape ({t},), or one a row and target, shape (n, {t}); "
                f"got shape {limits.shape}."
            )
        of_each = np.moveaxis(np.broadcast_to(limits, (*limits.shape[:-1], t)), -1, 0)
        if isinstance(fit, EachFit):
            pairs = zip(fit.estimators, of_each, strict=True)
            found = [_asked(estimator, "predict_exceedance", X, threshold=own, **options) for estimator, own in pairs]
            return np.stack(found, axis=1)
        mean, std = self.predict(X, return_std=True, include_noise=include_noise, batch_size=batch_size)
        known = [Known(*pair) for pair in zip(mean.T, std.T, strict=True)]
        of: Any = Predictions.predict_exceedance
        return np.stack([of(model, X, own) for model, own in zip(known, of_each, strict=True)], axis=1)

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: RandomState = 0, include_noise: bool = False
    ) -> Floats:
        """Draw functions from the posterior of each target, at rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
        n_samples : int, default=1
        random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=0
        include_noise : bool, default=False
            Whether to draw new observations y instead of the latent functions.

        Returns
        -------
        ndarray of shape (n, t, n_samples)
            In units of each target. Draws of two targets are independent.

        Raises
        ------
        ValueError
            As `ExactGPRegressor.sample_y`.
        """
        check_is_fitted(self)
        fit, rng = self._fitted, generator(random_state)
        if isinstance(fit, OneFit | EachFit):
            drawn: Floats = self._of_each("sample_y", X, n_samples, rng, include_noise, axis=1)
            return drawn
        return fit.together.samples(X, n_samples, rng, include_noise)

    def nlpd_rows(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """Return −log p(y) of each row and target, by the density of each model. `lmgp.metrics.nlpd_scorer` takes it.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n, t)

        Returns
        -------
        ndarray of shape (n, t)
            In nats.
        """
        return self._losses(nlpd_scorer, X, y)

    def crps_rows(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """Return the continuous ranked probability score of each. `lmgp.metrics.crps_scorer` takes it.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n, t)

        Returns
        -------
        ndarray of shape (n, t)
            In units of each target.
        """
        return self._losses(crps_scorer, X, y)

    def _losses(self, scorer: DensityScorer, X: ArrayLike, y: ArrayLike) -> Floats:
        check_is_fitted(self)
        fit = self._fitted
        if isinstance(fit, OneFit):
            return loss_rows(scorer, fit.estimators[0], X, _one_target(self, X, y))
        targets, t = checked_targets(y, least=1)[0], len(self.target_names_)
        if targets.shape[1] != t:
            raise InputError(f"y must have the {t} targets of the model, shape (n, {t}); got shape {targets.shape}.")
        if isinstance(fit, EachFit):
            pairs = zip(fit.estimators, targets.T, strict=True)
            return np.column_stack([loss_rows(scorer, one, X, np.ascontiguousarray(own)) for one, own in pairs])
        mean, std = self.predict(X, return_std=True, include_noise=True)
        return scorer.loss(targets, mean, np.square(std))

    @property
    def loo_(self) -> tuple[LeaveOneOut, ...] | LeaveOneOut:
        """Leave-one-out predictions of the training rows of each target, in its units; see `ExactGPRegressor`."""
        if "_fitted" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no loo_: it is not fitted.")
        fit = self._fitted
        if isinstance(fit, OneFit):
            return end_of(fit.estimators[0]).loo_
        if isinstance(fit, EachFit):
            return tuple(end_of(one).loo_ for one in fit.estimators)
        return fit.together.left_out

    def log_marginal_likelihood(self) -> float | Floats:
        """Return the log marginal likelihood of each target, see `ExactGPRegressor.log_marginal_likelihood`.

        Returns
        -------
        ndarray of shape (t,)
            In nats, of y in its units.
        """
        check_is_fitted(self)
        fit = self._fitted
        if isinstance(fit, OneFit | EachFit):
            values = [float(end_of(one).log_marginal_likelihood()) for one in fit.estimators]
            return values[0] if isinstance(fit, OneFit) else np.array(values)
        return fit.together.log_likelihoods()

    def _of_each(self, method: str, X: ArrayLike, *args: Any, axis: int = -1, **options: Any) -> Any:
        """Ask each estimator; results of all targets are stacked, of y of shape (n,) as they are."""
        fit = self._fitted
        found = [_asked(one, method, X, *args, **options) for one in fit.estimators]
        return found[0] if isinstance(fit, OneFit) else stacked(found, axis)

    def _distribution(
        self, method: str, X: ArrayLike, include_noise: bool, batch_size: int | None, **level: Any
    ) -> Any:
        """Return quantiles or intervals of each target."""
        check_is_fitted(self)
        if isinstance(self._fitted, OneFit | EachFit):
            options = {} if batch_size is None else {"batch_size": batch_size}
            return self._of_each(method, X, axis=1, include_noise=include_noise, **level, **options)
        mean, std = self.predict(X, return_std=True, include_noise=include_noise, batch_size=batch_size)
        of: Any = getattr(Predictions, method)
        return stacked([of(Known(*pair), X, **level) for pair in zip(mean.T, std.T, strict=True)], axis=1)


def _one_target(model: Any, X: Any, y: Any) -> Floats:
    """Return targets of shape (n,), after checking that they are finite numbers, one for each row."""
    if y is None:
        raise InputError(f"{type(model).__name__} requires y to be passed, but the target y is None.")
    refuse_what_is_no_table(X, "X")
    shape, n_rows = np.shape(y), np.shape(X)[:1]
    if len(shape) == 2 and shape[1] > 1:
        raise InputError(f"y should be a 1d array, got an array of shape {shape} instead: the model has one target.")
    refuse_other_than_numbers(y, "y")
    target = np.asarray(column_or_1d(y, warn=True), dtype=np.float64)
    if n_rows and np.size(X) and n_rows != target.shape:  # no rows are refused by the model
        raise InputError(f"X and y have inconsistent numbers of samples: [{n_rows[0]}, {len(target)}].")
    return target


def _asked(estimator: Any, method: str, X: ArrayLike, *args: Any, **options: Any) -> Any:
    """Return what a model says of rows; of a pipeline or a search, the one at its end, where it alone is asked."""
    if not hasattr(estimator, method):
        estimator, X = last_step(estimator, X)
    return getattr(estimator, method)(X, *args, **options)
