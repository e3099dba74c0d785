"""Scorers of predictive distributions, for scikit-learn's searches and cross-validations."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn import get_config
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline
from sklearn.utils.metadata_routing import MetadataRequest

from lmgp.data import Floats
from lmgp.errors import InputError
from lmgp.metrics.gaussian import as_float64, crps_rows, nlpd_rows


@dataclass(frozen=True)
class DensityScorer:
    """A scorer of predictive distributions, for `scoring` of scikit-learn's searches and cross-validations.

    It asks the model at the end of pipelines and searches for `predict_distribution(X)`, as all regressors of this
    package have it. Of other models, distributions are normal, with the means and the standard deviations of
    `predict(X, return_std=True, include_noise=True)`. The score of several targets is the mean of theirs.

    Attributes
    ----------
    name : str
    loss : callable
        Takes targets of shape (n,) or (n, t) and their distribution, and gives one loss each; lower is better.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import ExactGPRegressor, GaussianKernel
    >>> from lmgp.metrics import nlpd_scorer
    >>> from sklearn.model_selection import GridSearchCV
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> model = ExactGPRegressor(GaussianKernel(), noise_variance=0.01)
    >>> search = GridSearchCV(model, {"kernel__lengthscale": [0.01, 1.0]}, scoring=nlpd_scorer)
    >>> search.fit(X, np.sin(X[:, 0])).best_params_
    {'kernel__lengthscale': 1.0}
    """

    name: str
    loss: Callable[[ArrayLike, Any], Floats]
    _requested: bool | str | None = None

    def __call__(self, estimator: Any, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the mean loss of a fitted model on test rows, with its sign turned: higher is better.

        Parameters
        ----------
        estimator : regressor
        X : array-like of shape (n, d)
        y : array-like of shape (n,) or (n, t)
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        float

        Raises
        ------
        InputError
            If the estimator predicts neither distributions nor standard deviations with noise, or weights are not one
            number a row.
        """
        weights = None if sample_weight is None else as_float64("sample_weight", sample_weight)
        distribution = predicted_distribution(estimator, X)
        if np.shape(y)[1:] == (1,) and np.ndim(distribution.median()) == 1:
            y = np.ravel(y)
        # Of several targets the mean of each, then the mean over them.
        losses = self.loss(y, distribution)
        if weights is not None and weights.shape != losses.shape[:1]:
            raise InputError(f"sample_weight must be one number a row, ({len(losses)},); got shape {weights.shape}.")
        return -float(np.mean(np.average(losses, weights=weights, axis=0)))

    def set_score_request(self, *, sample_weight: bool | str | None = None) -> Self:
        """Return a copy that requests weights, for scikit-learn's metadata routing.

        Parameters
        ----------
        sample_weight : bool, str or None
            Whether weights are wanted, or the name under which they are passed.
        """
        other = copy(self)
        object.__setattr__(other, "_requested", sample_weight)
        return other

    def get_metadata_routing(self) -> MetadataRequest:
        """Return what the scorer requests, for scikit-learn's metadata routing."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="sample_weight", alias=self._requested)
        return request

    def __repr__(self) -> str:
        return self.name


nlpd_scorer = DensityScorer("nlpd_scorer", nlpd_rows)
crps_scorer = DensityScorer("crps_scorer", crps_rows)


def last_step(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the model at the end of fitted searches and pipelines, and rows as it takes them.

    Parameters
    ----------
    estimator : fitted estimator
    X : array-like of shape (n, d)

    Returns
    -------
    model : fitted estimator
    X : array-like of shape (n, d)
    """
    while True:
        if hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        elif isinstance(estimator, Pipeline):
            X = estimator[:-1].transform(X) if len(estimator) > 1 else X
            estimator = estimator[-1]
        else:
            return estimator, X


def options_of_last_step(estimator: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Return options of `fit` by the names under which pipelines pass them on to their last step.

    Parameters
    ----------
    estimator : estimator
        Where it is no pipeline, and where metadata are routed, names stay as they are.
    options : dict
    """
    prefix = ""
    while isinstance(estimator, Pipeline) and not get_config()["enable_metadata_routing"]:
        prefix += f"{estimator.steps[-1][0]}__"
        estimator = estimator[-1]
    return {f"{prefix}{name}": value for name, value in options.items()}


def predicted_distribution(estimator: Any, X: ArrayLike, **options: Any) -> Any:
    """Return the distributions of new observations that a fitted regressor predicts.

    Parameters
    ----------
    estimator : fitted regressor
        Or a pipeline or a search that ends in one.
    X : array-like of shape (n, d)
    **options
        All else that its `predict_distribution` takes.

    Returns
    -------
    distribution
        With the methods of scipy.stats' frozen ones.

    Raises
    ------
    InputError
        If the estimator predicts neither distributions nor standard deviations with noise.
    """
    model, rows = last_step(estimator, X)
    if hasattr(model, "predict_distribution"):
        return model.predict_distribution(rows, **options)
    if isinstance(model, TransformedTargetRegressor):
        raise InputError(
            "scikit-learn's TransformedTargetRegressor predicts no distribution: use lmgp.TransformedTargetGPRegressor."
        )
    try:
        return norm(*model.predict(rows, return_std=True, include_noise=True))
    except TypeError as error:
        if "return_std" not in str(error) and "include_noise" not in str(error):
            raise
        raise InputError(
            "Distributions of new observations need predict_distribution(X), or predict(X, return_std=True, "
            "include_noise=True), as the Gaussian-process regressors of lmgp have them; "
            f"{type(model).__name__} has not: {error}"
        ) from error


def end_of(estimator: Any) -> Any:
    """Return the model at the end of searches and pipelines."""
    while hasattr(estimator, "best_estimator_") or isinstance(estimator, Pipeline):
        estimator = estimator[-1] if isinstance(estimator, Pipeline) else estimator.best_estimator_
    return estimator
