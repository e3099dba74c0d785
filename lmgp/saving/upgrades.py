"""What was saved by version 0.3, in the classes of today.

Files of version 0.3 name a class by its path in that version, such as ``kernels.stationary.GaussianKernel``. The tag of
such a class is its name in words, ``gaussian-kernel``, or stands in `TAGS_OF_PATHS`.

**Where the class is gone, or has another state now, add its converter to** `UPGRADES` under the path in version 0.3. It
gets the state that the file has, a dictionary by the names of the fields or attributes, whose parts are converted
already, and returns what takes the place of the object. ``dict`` is the converter of objects of a class that is gone,
for that of the object that holds them.

The regressors that keep their rows are conditioned on them anew, at the hyperparameters and with the maps that the
file has: no posterior of version 0.3 has to be understood.
"""

import math
import re
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import numpy as np

from lmgp.errors import ModelFileError
from lmgp.saving.tags import class_of

State = dict[str, Any]

# Of names that are not the tag in words, or that two classes had.
TAGS_OF_PATHS = {
    "features.moments._Half": "half-of-inputs",
    "learning.record.Trial": "learning-trial",
    "selection.search.Trial": "selection-trial",
}


def tag_of_path(path: Any) -> str:
    """Return the tag of a class by its path in version 0.3; there may be no such tag any more."""
    name = str(path).rpartition(".")[2]
    return TAGS_OF_PATHS.get(str(path)) or re.sub(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", name).lower()


def _of(tag: str, attributes: State) -> Any:
    """Return an object of the class of a tag; parameters that an estimator did not have then have their defaults."""
    cls: Any = class_of(tag)
    value = cls.__new__(cls)
    if hasattr(cls, "get_params"):
        parameters = signature(cls).parameters.values()
        vars(value).update({one.name: one.default for one in parameters if one.default is not one.empty})
    vars(value).update(attributes)
    return value


def _estimator(tag: str, learned: Callable[[Any, State], State], state: State) -> Any:
    """Return an estimator; `learned` makes what it has learned of the estimator before its fit, and of the fit."""
    fit = state.pop("_fitted", None)
    estimator = _of(tag, state)
    if fit is not None:
        vars(estimator).update(learned(estimator, fit))
    return estimator


def _attributes(estimator: Any, fit: State) -> State:
    """Return what the models of ``lmgp.rbf`` and ``lmgp.sgd`` have learned."""
    names = {"names": "feature_names_in_"} | {name: f"_{name}" for name in ("n_exact", "error", "advice", "degree")}
    return {names.get(name, f"{name}_"): value for name, value in fit.items() if value is not None}


def _rows(state: State) -> Any:
    from lmgp.data import Rows

    return Rows(state["X"], state["y"], state["weights"], state["noise_variances"])


def _kept_rows(fit: State) -> Any:
    """Return the rows of a fit, with the targets that it had: y less the mean, and less the first trend."""
    from lmgp.data import Rows

    posterior = fit["posterior"] if "rows" not in fit else {"_rows": fit["rows"]}
    if "_rows" in posterior:
        return posterior["_rows"]
    if "_X" not in posterior:
        raise ModelFileError("it has sums over its rows, and not the rows")
    weights = posterior["_row_weights"] if "_row_weights" in posterior else posterior["_weights"]
    X, y, noise = posterior["_X"].numpy(), posterior["_targets"].numpy()[:, 0], posterior["_noise"].numpy()
    if "change" in vars(fit["trend"] or object):  # without which these targets are
        y = y + fit["trend"].columns(X) @ fit["trend"].change
    return Rows(X, y, weights, noise if weights is None else noise * weights)


def _conditioned(estimator: Any, fit: State) -> State:
    """Return the state of a regressor whose rows the file has."""
    from dataclasses import replace

    from sklearn.base import clone

    rows, trend, center = _kept_rows(fit), fit["trend"], fit["center"]
    Y, model = rows.Y[:, 0] + center, clone(estimator)
    given = {name: fit.get(name) for name in ("kernel", "noise_variance", "features", "centroids")}
    model.set_params(**{name: value for name, value in given.items() if value is not None and np.size(value)})
    model.set_params(trend="constant" if trend is None else trend.index.tolist(), random_state=0)
    if trend is not None:
        Y = Y + trend.columns(rows.X) @ trend.start
    model.fit(rows.X, Y, rows.weights, rows.noise_variances, center=center if trend is None else None)
    names = {} if trend is None else {"trend": replace(model._fitted.trend, names=trend.names)}
    return {"_fitted": replace(model._fitted, learning=fit["learning"], column_scales=fit["column_scales"], **names)}


def _weighed(estimator: Any, fit: State) -> State:
    """Return the state of a featurized regressor, of which the file has no rows."""
    from lmgp.data import TargetSums
    from lmgp.estimators.base import Fit
    from lmgp.posteriors.trend import CONSTANT_TREND

    if fit["trend"] is not None:
        raise ModelFileError("it has a trend and no rows")
    posterior, noise = fit["posterior"], fit["noise"]
    factor, coefficients = posterior["factor"], posterior["coefficients"].reshape(-1, 1)
    determinant = 2.0 * float(factor.diagonal().log().sum())
    of_a_row = math.log(2.0 * math.pi * noise.variance) + posterior["surprise"]
    n = -(2.0 * posterior["log_marginal_likelihood"] + determinant) / of_a_row
    products = noise.variance * (n * posterior["surprise"] + (coefficients.T @ coefficients).numpy())
    attributes = {
        **{"features": fit["features"], "centre": fit["map_centre"], "kernel": fit["kernel"], "_box": fit["box"]},
        **{"noise": noise, "factor": factor, "coefficients": coefficients, "n_rows": round(n)},
        "targets": TargetSums(products, np.zeros(1), n, 0.0, products[0]),
    }
    state = Fit(
        kernel=fit["kernel"],
        noise_variance=fit["noise_variance"],
        trend=CONSTANT_TREND,
        level=np.array([[fit["center"]]]),
        centers=np.array([fit["center"]]),
        scales=np.ones(1),
        farthest=np.array([fit["farthest_target"]]),
        column_scales=fit["column_scales"],
        learning=fit["learning"],
        recipe=estimator._recipe(round(n), fit["kernel"]),
        converged=True,
        centers_given=False,
        target_names=None,
        posterior=_of("weight-posterior", attributes),
    )
    return {"_fitted": state}


def _chosen(estimator: Any, fit: State) -> State:
    """Return the state of a regressor that was chosen: that of the model that it held, with the choice."""
    from dataclasses import replace

    names = ("selection", "learning", "column_scales")
    return {"_fitted": replace(fit["model"]._fitted, **{name: fit[name] for name in names})}


# Classes that are gone, or have another state, and whose objects the converters of what holds them take as they were.
GONE = re.compile(
    r"(inference|io|locality|spectral|statistics|models\.evidence|models\.spectral_fit)\..*"
    r"|(models|rbf|sgd)\.\w+\.(Chosen|Dual|Exact|Featurized|Localized|Nearest|Primal|Quadratic|Residual|Taylor)Fit"
    r"|features\.(?!radial)\w+\.\w+(Fit|Projection)"
)


def _map_attributes(estimator: Any, fit: State) -> State:
    """Return what feature maps have learned."""
    return {f"{name}_": value for name, value in fit.items()}


UPGRADES: dict[str, Callable[[State], Any]] = {
    "validation.Rows": _rows,
    "inference.trend.Trend": lambda state: _of("trend", state | {"estimated": True}),
    "inference.trend.TrendFit": lambda state: _of("trend", state | {"estimated": True}),
    "rbf.quadratic.QuadraticRBF": partial(_estimator, "quadratic-rbf", _attributes),
    "rbf.taylor.TaylorRBF": partial(_estimator, "taylor-rbf", _attributes),
    "sgd.models.KernelSGDClassifier": partial(_estimator, "kernel-sgd-classifier", _attributes),
    "sgd.models.KernelSGDRegressor": partial(_estimator, "kernel-sgd-regressor", _attributes),
    "models.exact.ExactGPRegressor": partial(_estimator, "exact-gp-regressor", _conditioned),
    "models.featurized.FeaturizedGPRegressor": partial(_estimator, "featurized-gp-regressor", _weighed),
    "models.localized.LocalizedGPRegressor": partial(_estimator, "localized-gp-regressor", _conditioned),
    "models.nearest.NearestNeighborsGPRegressor": partial(_estimator, "nearest-neighbors-gp-regressor", _conditioned),
    "models.residual.ResidualGPRegressor": partial(_estimator, "residual-gp-regressor", _conditioned),
    "models.spectral.SpectralGPRegressor": partial(_estimator, "spectral-gp-regressor", _conditioned),
    "selection.search.Selection": lambda state: _of(
        "selection", {name: value for name, value in state.items() if name != "reference_change"}
    ),
    "models.chosen.GPRegressor": partial(_estimator, "gp-regressor", _chosen),
}


def upgrade_of(path: Any) -> Callable[[State], Any] | None:
    """Return the converter of a class by its path in version 0.3, if it needs one."""
    name = str(path)
    if name not in UPGRADES and GONE.fullmatch(name):
        return dict
    if name not in UPGRADES and re.fullmatch(r"features\..*Features", name):
        return partial(_estimator, tag_of_path(name), _map_attributes)
    return UPGRADES.get(name)
