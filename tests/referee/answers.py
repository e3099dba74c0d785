"""What the package answers: the numbers of many small models on fixed rows, through the public interface alone.

``python tests/referee/answers.py`` writes them to `answers.json`: the name of a configuration, then of a quantity, then
its numbers. `test_referee.py` computes them again and compares. The file is the referee of a change that is meant to
leave all answers as they are: write it before the change, and write it anew only where another answer is wanted, with
the reason in the message of the commit.

A quantity that a model does not offer, or refuses by a `ValueError`, has no line in the file. One that it offers later
is not compared until the file is written anew.
"""

import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import PowerTransformer
from sklearn.svm import SVR

Floats = NDArray[np.float64]
Answers = dict[str, list[float]]

FILE = Path(__file__).with_name("answers.json")

# Where each name is. A name that moves, or gets another one, is changed here and nowhere else.
PLACES = {
    "lmgp.features": """
        CraftFeatures LinearFeatures ModulatedFeatures PolynomialMaclaurinFeatures SphericalFourierFeatures
        exact_features
    """,
    "lmgp": """
        ExactGPRegressor ExponentialKernel FeaturizedGPRegressor GPRegressor GaussianKernel LinearKernel
        LocalizedGPRegressor MaternKernel ModulatedKernel NearestNeighborsGPRegressor NystroemFeatures
        OptimizedMaclaurinFeatures OrthogonalFourierFeatures RandomFourierFeatures RandomMaclaurinFeatures
        RationalQuadraticKernel ResidualGPRegressor SpectralGPRegressor SphericalCoordinates
        StructuredOrthogonalFourierFeatures TaylorFeatures TransformedTargetGPRegressor farthest_point_clustering
        learn load predict_grid
    """,
    "lmgp.estimators": "MultiTargetGPRegressor",
    "lmgp.learning": "learn_from_sums",
    "lmgp.errors": "ToleranceWarning",
    "lmgp.gpytorch": "from_gpytorch to_gpytorch",
    "lmgp.io": "open_dataset",
    "lmgp.metrics": "coverage crps kl_divergence nlpd rmse",
    "lmgp.rbf": "QuadraticRBF TaylorRBF gamma_max",
    "lmgp.sgd": "KernelSGDRegressor",
}


class _Public(SimpleNamespace):
    """The names of `PLACES`, each looked up when it is first asked for."""

    def __getattr__(self, name: str) -> Any:
        place = next((place for place, names in PLACES.items() if name in names.split()), None)
        if place is None:
            raise AttributeError(f"{name} is not in PLACES")
        return getattr(import_module(place), name)


public = _Public()


def several(regressor: Any, **options: Any) -> Any:
    """Return a regressor of several targets at the same rows: itself, or one for each."""
    if options.get("hyperparameters") == "each":
        return public.MultiTargetGPRegressor(regressor)
    return regressor


class Tolerance(NamedTuple):
    """How far quantities of some configurations may be from the file, relative to the largest number of each."""

    configurations: str  # a pattern
    quantities: str  # a pattern
    tolerance: float
    reason: str


TOLERANCE = 1e-10
# The first one that matches counts.
TOLERANCES = (
    Tolerance(
        "featurized/taylor/draws-at-many-places",
        "draws",
        0.5,
        "The covariance that the map leaves out is singular to rounding at near places, and its root is not unique.",
    ),
    Tolerance("*/spherical", "*", 5e-2, "A search finds the radial density, and ends elsewhere on another processor."),
    *(
        Tolerance(name, "draws*", 1e-5, "The covariance is nearly singular: its root has half of the digits.")
        for name in (
            "exact/linear",
            "exact/polynomial",
            "featurized/polynomial/nystroem",
            "featurized/nystroem/*",
            "featurized/taylor/*",
            "chosen/methods=nystroem",
        )
    ),
    Tolerance("learned/*", "*", 1e-6, "A search for an optimum enlarges rounding."),
    Tolerance("transformed/exact/power", "*", 1e-6, "The power is found by a search, which enlarges rounding."),
    Tolerance("spectral/*iterations", "*", 1e-6, "Conjugate gradients end at a tolerance, and depend on threads."),
    Tolerance("iterative/default-tolerance", "*", 1e-4, "Conjugate gradients end at a tolerance, in single precision."),
    Tolerance(
        "featurized/single-precision", "*", 1e-5, "Columns are of single precision, and products round as the CPU does."
    ),
    Tolerance("chosen/methods=nearest_rows", "*", 1e-4, "Systems of 128 rows are solved in single precision."),
    Tolerance("*nystroem*", "*", 1e-8, "Columns are divided by what their landmark adds, which may be small."),
    Tolerance("*spectral*", "*", 1e-8, "About 1,000 modes are far more than the rows determine."),
)
# What counts as large of quantities that may be near zero by chance, or by rounding alone: in nats.
LARGE = {
    "divergence": 1e-3,
    "error stated": 1e-3,
    "rounding divergence": 1e-3,
    "log marginal likelihood": 100.0,
    "log marginal likelihood elsewhere": 100.0,
}
# Configurations whose answers may change: a change is shown, and fails nothing.
INFORMATIVE = "default-learned/*"


def difference(quantity: str, found: list[float], expected: list[float]) -> float:
    """Return the largest difference of two lists of numbers, relative to the largest; infinite of two lengths."""
    if len(found) != len(expected):
        return np.inf
    new, old = np.asarray(found), np.asarray(expected)
    same = (new == old) | (np.isnan(new) & np.isnan(old))
    if same.all():
        return 0.0
    size = max(float(np.max(np.abs(old[np.isfinite(old)]), initial=0.0)), LARGE.get(quantity, 0.0))
    worst = float(np.max(np.abs(new - old)[~same]))
    return np.inf if np.isnan(worst) or size == 0.0 else worst / size


def tolerance_of(configuration: str, quantity: str) -> float:
    """Return how far a quantity may be from the file."""
    for one in TOLERANCES:
        if fnmatchcase(configuration, one.configurations) and fnmatchcase(quantity, one.quantities):
            return one.tolerance
    return TOLERANCE


# ----------------------------------------------------------------------------------------------------------------------
# Rows


@dataclass(frozen=True, eq=False)
class Data:
    """Training rows, what belongs to each of them, and 12 places to predict: inside, at a training row, and outside."""

    X: Floats
    y: Floats
    Y: Floats  # of two targets
    T: Floats
    weights: Floats  # how often a row counts, zero included
    noises: Floats
    both_noises: Floats  # of each row and target


def _drawn(n: int, width: tuple[float, ...], *, n_copies: int = 0, seed: int = 0) -> Data:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, width, (n, len(width)))
    T = np.vstack((rng.uniform(0.0, width, (10, len(width))), X[3], np.add(width, 0.3)))
    X = np.vstack((X, X[:n_copies]))
    first = 3.0 + np.sin(2.0 * X[:, 0]) + 0.5 * np.cos(X[:, -1]) + 0.3 * X[:, 0]
    second = 1.0 + np.cos(1.5 * X[:, 0]) * np.sin(X[:, -1])
    Y = np.column_stack((first, second)) + 0.2 * rng.normal(size=(len(X), 2))
    Y[n : n + n_copies // 2] = Y[: n_copies // 2]  # half of the copies have the same targets as well
    return Data(
        X,
        Y[:, 0].copy(),
        Y,
        T,
        rng.integers(0, 4, len(X)).astype(float),
        rng.uniform(0.02, 0.2, len(X)),
        rng.uniform(0.02, 0.2, Y.shape),
    )


@cache
def data(name: str) -> Data:
    """Return the rows of a name."""
    if name == "sphere":
        made, corner = _drawn(90, (40.0, 30.0), seed=4), [160.0, 40.0]
        return replace(made, X=made.X + corner, T=made.T + corner)
    return {
        "line": partial(_drawn, 80, (6.0,), seed=1),
        "plane": partial(_drawn, 120, (4.0, 3.0)),
        "copies": partial(_drawn, 100, (4.0, 3.0), n_copies=8, seed=2),
        "space": partial(_drawn, 90, (3.0, 2.5, 2.0), seed=3),
        "columns": partial(_drawn, 200, (3.0, 3.0, 3.0), seed=5),
    }[name]()


# ----------------------------------------------------------------------------------------------------------------------
# Kernels and maps


def _of_first(X: Floats) -> Floats:
    return 1.0 + 0.2 * X[:, 0] ** 2


def _lengthscales(d: int) -> list[float]:
    return [0.9, 1.6, 1.3][:d]


NOISE = 0.05
KERNELS: dict[str, Callable[[int], Any]] = {
    "gaussian": lambda d: public.GaussianKernel(1.2, 1.5),
    "gaussian-ard": lambda d: public.GaussianKernel(_lengthscales(d), 1.7),
    "matern12": lambda d: public.MaternKernel(1.1, 1.3, smoothness=0.5),
    "matern32": lambda d: public.MaternKernel(_lengthscales(d), 1.3, smoothness=1.5),
    "matern52": lambda d: public.MaternKernel(_lengthscales(d), 0.9, smoothness=2.5),
    "rational-quadratic": lambda d: public.RationalQuadraticKernel(_lengthscales(d), 1.2, alpha=1.6),
    "gaussian+gaussian": lambda d: public.GaussianKernel(_lengthscales(d), 0.8) + 2.0 * public.GaussianKernel(2.5, 0.3),
    "gaussian+matern32": lambda d: public.GaussianKernel(2.0, 0.9) + public.MaternKernel(_lengthscales(d), 0.4),
    "gaussian*gaussian": lambda d: public.GaussianKernel(_lengthscales(d), 0.8) * public.GaussianKernel(2.5, 1.5),
    "gaussian*matern52": lambda d: (
        public.GaussianKernel(_lengthscales(d), 0.9) * public.MaternKernel(1.8, 1.4, smoothness=2.5)
    ),
    "linear": lambda d: public.LinearKernel(),
    "gaussian+linear": lambda d: public.GaussianKernel(_lengthscales(d)) + 0.3 * public.LinearKernel(),
    "polynomial": lambda d: 0.2 * public.LinearKernel() * public.LinearKernel() + 0.5 * public.LinearKernel(),
    "exponential": lambda d: 0.1 * public.ExponentialKernel(0.1 * public.LinearKernel()),
    "modulated": lambda d: public.ModulatedKernel(public.GaussianKernel(_lengthscales(d)), _of_first),
}
WITH_METRIC = [name for name in KERNELS if name not in ("linear", "polynomial", "exponential", "modulated")]
# Those that models of the nearest rows and of a map are tried with, one of each sort.
SOME = ["gaussian-ard", "matern12", "matern52", "rational-quadratic", "gaussian+matern32", "gaussian*matern52"]


def given(kernel: str = "gaussian-ard", d: int = 2, **more: Any) -> dict[str, Any]:
    """Return the hyperparameters of a regressor, so that it learns nothing."""
    return {"kernel": KERNELS[kernel](d), "noise_variance": NOISE, **more}


# The maps that take a kernel, by the kernels that they serve.
OF_FREQUENCIES: dict[str, Callable[[], Any]] = {
    "fourier": lambda: public.RandomFourierFeatures(40, random_state=0),
    "orthogonal-fourier": lambda: public.OrthogonalFourierFeatures(40, random_state=0),
    "structured-fourier": lambda: public.StructuredOrthogonalFourierFeatures(40, random_state=0),
}
OF_COMPONENTS: dict[str, Callable[[], Any]] = {
    "random-maclaurin": lambda: public.RandomMaclaurinFeatures(40, random_state=0),
    "maclaurin-rademacher": lambda: public.OptimizedMaclaurinFeatures(40, sketch="rademacher", random_state=0),
    "maclaurin-gaussian": lambda: public.OptimizedMaclaurinFeatures(40, sketch="gaussian", random_state=0),
    "maclaurin-srht": lambda: public.OptimizedMaclaurinFeatures(40, sketch="tensor_srht", random_state=0),
    "taylor": lambda: public.TaylorFeatures(36),
    "taylor-energy": lambda: public.TaylorFeatures(36, index_set="energy"),
    "taylor-degree": lambda: public.TaylorFeatures(degree=5),
}
OF_ROWS: dict[str, Callable[[], Any]] = {
    "nystroem": lambda: public.NystroemFeatures(30, random_state=0),
    "nystroem-farthest": lambda: public.NystroemFeatures(30, "farthest_point"),
    "nystroem-given": lambda: public.NystroemFeatures(landmarks=data("plane").X[:25]),
}
# Maps that are composed, or that take no kernel of a model.
OTHERS: dict[str, Callable[[], Any]] = {
    "polynomial-maclaurin": lambda: public.PolynomialMaclaurinFeatures(40, degree=3, gamma=0.1, random_state=0),
    "polynomial-taylor": lambda: public.TaylorFeatures(degree=3, weights="polynomial"),
    "spherical": lambda: public.SphericalFourierFeatures(40, degree=3, normalize=True, random_state=0),
    "craft": lambda: public.CraftFeatures(
        public.PolynomialMaclaurinFeatures(120, degree=2, gamma=0.1, random_state=0), 30, random_state=1
    ),
    "craft-srht": lambda: public.CraftFeatures(
        public.PolynomialMaclaurinFeatures(128, degree=2, gamma=0.1, random_state=0),
        30,
        projection="srht",
        random_state=1,
    ),
    "linear": lambda: public.LinearFeatures(),
    "exact-features": lambda: public.exact_features(KERNELS["polynomial"](2)),
    "modulated": lambda: public.ModulatedFeatures(public.RandomFourierFeatures(40, random_state=0), _of_first),
    "sum": lambda: public.LinearFeatures() + public.RandomFourierFeatures(40, random_state=0),
    "product": lambda: public.LinearFeatures() * public.RandomFourierFeatures(16, random_state=0),
    "scaled": lambda: 0.7 * public.OrthogonalFourierFeatures(40, random_state=0),
    "scikit-learn": lambda: Nystroem(gamma=0.3, n_components=20, random_state=0),
}
MAPS = OF_FREQUENCIES | OF_COMPONENTS | OF_ROWS | OTHERS

# ----------------------------------------------------------------------------------------------------------------------
# Quantities


def _numbers(values: Any) -> list[float]:
    return [float(value) for value in np.ravel(np.asarray(values, dtype=float))]


def _several(model: Any, name: str) -> Floats:
    """Return what each of several targets has."""
    if not hasattr(model, "target_names_"):
        raise AttributeError(name)
    values: Floats = getattr(model, name)
    return values


def _alone(value: Any) -> float:
    """Return what a model of one target has."""
    if np.ndim(value):
        raise AttributeError("the model has several targets")
    return float(value)


def _parameters(kernel: Any) -> Floats:
    return np.hstack([np.ravel(one.value) for one in kernel.parameters])


def _upper(covariance: Floats) -> Floats:
    """Return the upper triangle of a covariance, of each target where there are several."""
    return covariance[np.triu_indices(len(covariance))]


def _some(values: Any) -> Floats:
    """Return at most 12 of many rows, evenly spread."""
    values = np.asarray(values)
    return values[:: max(1, len(values) // 12)][:12]


def _left_out(model: Any, name: str) -> Floats:
    found = model.loo_
    parts = found if isinstance(found, tuple | list) else [found]
    return np.column_stack([_some(getattr(one, name)) for one in parts])


def _elsewhere(model: Any) -> Any:
    """Return the log marginal likelihood at other hyperparameters."""
    theta = [*(np.asarray(model.kernel_.theta) + 0.1), np.log(model.noise_variance_) + 0.2]
    return model.log_marginal_likelihood(theta)


def _trend(model: Any, name: str) -> Any:
    return getattr(model.trend_, name)


def _covariance(model: Any, X: Floats) -> Floats:
    """Return the covariance of rows; of transformed targets, that of the regressor, with its noise."""
    if isinstance(model, public.MultiTargetGPRegressor):
        return np.stack([_covariance(one, X) for one in model.estimators_], axis=-1)
    transformed = isinstance(model, public.TransformedTargetGPRegressor)
    gaussian = model.regressor_ if transformed else model
    covariance: Floats = gaussian.predict(X, return_cov=True, include_noise=transformed)[1]
    return covariance


def quantities(model: Any, T: Floats) -> dict[str, Callable[[], Any]]:
    """Return all that a fitted Gaussian process may say, each to be asked for."""
    near = T[:6]
    return {
        "mean": lambda: model.predict(T),
        "std": lambda: model.predict(T, return_std=True)[1],
        "std of observations": lambda: model.predict(T, return_std=True, include_noise=True)[1],
        "covariance": lambda: _upper(_covariance(model, T[4:])),
        "divergence": lambda: model.predict(T, return_error=True)[1],
        "interval": lambda: model.predict_interval(near, level=0.9),
        "quantiles": lambda: model.predict_quantile(near, [0.1, 0.6], include_noise=False),
        "exceedance": lambda: model.predict_exceedance(T, 3.2),
        "draws": lambda: model.sample_y(near, n_samples=2, random_state=3),
        "draws of observations": lambda: model.sample_y(near, n_samples=1, random_state=4, include_noise=True),
        "log marginal likelihood": lambda: model.log_marginal_likelihood(),
        "log marginal likelihood elsewhere": lambda: _elsewhere(model),
        "leave-one-out mean": lambda: _left_out(model, "mean"),
        "leave-one-out std": lambda: _left_out(model, "std"),
        "leave-one-out target": lambda: _left_out(model, "y"),
        "trend intercept": lambda: _trend(model, "intercept"),
        "trend slopes": lambda: _trend(model, "coef"),
        "trend covariance": lambda: _trend(model, "covariance"),
        "center": lambda: _alone(model.center_),
        "centers": lambda: _several(model, "center_"),
        "scales": lambda: _several(model, "scales_"),
        "noise variance": lambda: model.noise_variance_,
        "noise variances": lambda: _several(model, "noise_variances_"),
        "parameters of the kernel": lambda: _parameters(model.kernel_),
        "inverse lengthscales": lambda: model.inverse_lengthscales_,
        "centroids": lambda: _some(model.centroids_),
        "number of centroids": lambda: len(model.centroids_),
        "reach": lambda: model.reach_,
        "error stated": lambda: (model.error_.modes, model.error_.iterations),
        "number of modes": lambda: model.error_.n_modes,
        "error of iterations": lambda: model.iterations_.error,
        "rounding divergence": lambda: model.rounding_divergence_,
        "dual coefficients": lambda: np.hstack([np.ravel(_some(part)) for part in model.dual_coefficients()]),
    }


# What a model does not offer, or refuses.
REFUSED = (AttributeError, ValueError, TypeError)


def answers(model: Any, T: Floats) -> Answers:
    """Return all that a fitted Gaussian process says of some places and of itself."""
    found = {}
    for name, of in quantities(model, T).items():
        try:
            found[name] = _numbers(of())
        except REFUSED:
            continue
    return found


# ----------------------------------------------------------------------------------------------------------------------
# Fits


def fitted(make: Callable[[], Any], rows: str, options: str = "", **fit: Any) -> Any:
    """Fit a regressor to rows, with what `options` names: "several", "weights", "noises" and "both-noises"."""
    of, words = data(rows), options.split()
    if "weights" in words:
        fit["sample_weight"] = of.weights
    if "noises" in words:
        fit["noise_variances"] = of.noises
    if "both-noises" in words:
        fit["noise_variances"] = of.both_noises
    return make().fit(of.X, of.Y if "several" in words else of.y, **fit)


def predicted(make: Callable[[], Any], rows: str = "plane", options: str = "", **fit: Any) -> Answers:
    """Fit a regressor, and return its answers."""
    return answers(fitted(make, rows, options, **fit), data(rows).T)


def chunks(of: Data, size: int = 30, *, weights: bool = False) -> list[tuple[Any, ...]]:
    """Return rows as a list of chunks, with weights and noise variances or without."""
    parts = [slice(start, start + size) for start in range(0, len(of.X), size)]
    more = (of.weights, of.noises) if weights else ()
    return [(of.X[part], of.y[part], *(one[part] for one in more)) for part in parts]


def streamed(make: Callable[[], Any], how: str, rows: str = "plane") -> Answers:
    """Fit a regressor to chunks, or step by step, and return its answers."""
    of, model = data(rows), make()
    first, second, last = slice(0, 60), slice(60, 100), slice(100, None)
    if how == "chunks":
        model.fit(chunks(of))
    elif how == "generator":
        model.fit(one for one in chunks(of))
    elif how == "function":
        model.fit(lambda: iter(chunks(of, 25)))
    elif how == "chunk-rows":
        model.fit(of.X, of.y, chunk_rows=35)
    elif how == "weighted-chunks":
        model.fit(chunks(of, weights=True))
    elif how == "known-center":
        model.fit(chunks(of), center=2.5)
    elif how == "file":
        model = fitted_to_file(model, of)
    elif how == "checkpoint":
        with folder() as place:
            model.fit(chunks(of), checkpoint=place / "checkpoint")
    elif how == "partial_fit":
        model.partial_fit(of.X[first], of.y[first]).partial_fit(of.X[second], of.y[second])
        model.partial_fit(of.X[last], of.y[last], of.weights[last] + 1.0, of.noises[last])
    elif how == "forget":
        model.fit(of.X, of.y).forget(of.X[second], of.y[second])
    elif how == "merge":
        model.fit(of.X[first], of.y[first]).merge(model.with_rows(of.X[60:], of.y[60:]))
    elif how == "with_rows":
        model = model.fit(of.X[first], of.y[first]).with_rows(of.X[60:], of.y[60:])
    elif how == "update":
        model.fit(of.X[first], of.y[first]).update(of.X[60:], of.y[60:])
    else:
        raise ValueError(how)
    return answers(model, of.T)


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder, and remove it."""
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


def fitted_to_file(model: Any, of: Data) -> Any:
    """Fit a regressor to a Parquet file, chunk by chunk."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with folder() as place:
        columns = {f"column{j}": of.X[:, j] for j in range(of.X.shape[1])}
        pq.write_table(pa.table({**columns, "target": of.y, "count": of.weights}), place / "rows.parquet")
        source = public.open_dataset(place / "rows.parquet", target="target", sample_weight="count", chunk_rows=32)
        model.fit(source)
    return _Unnamed(model)


class _Unnamed:
    """A model that was fitted to named columns, and is asked for rows without names."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.model, name)
        if not (name.startswith("predict") or name == "sample_y"):
            return found

        def asked(X: Floats, *arguments: Any, **options: Any) -> Any:
            import pandas as pd

            return found(pd.DataFrame(X, columns=[f"column{j}" for j in range(X.shape[1])]), *arguments, **options)

        return asked


def reloaded(make: Callable[[], Any], rows: str = "plane", options: str = "", **fit: Any) -> Answers:
    """Fit a regressor, save it, load it, and return the answers of what was loaded."""
    with folder() as place:
        fitted(make, rows, options, **fit).save(place / "model.lmgp")
        return answers(public.load(place / "model.lmgp"), data(rows).T)


def drawn_at_many(make: Callable[[], Any], rows: str = "plane") -> Answers:
    """Draw functions at 2,100 places, more than those of which one covariance matrix is made."""
    of = data(rows)
    inside = np.random.default_rng(9).uniform(of.X.min(axis=0), of.X.max(axis=0), (2100, of.X.shape[1]))
    return {"draws": _numbers(fitted(make, rows).sample_y(inside, n_samples=2, random_state=1)[:12])}


# ----------------------------------------------------------------------------------------------------------------------
# Answers of what is no Gaussian process


def of_kernel(name: str) -> Answers:
    """Return the values of a kernel, and what else it can do."""
    of = data("plane")
    kernel = KERNELS[name](2)
    asked: dict[str, Callable[[], Any]] = {
        "values": lambda: kernel(of.X[:5], of.T),
        "diagonal": lambda: kernel.diagonal(of.T),
        "spectral density": lambda: kernel.spectral_density(0.2 * of.T),
        "frequencies": lambda: kernel.sample_frequencies(of.T - 2.0, np.random.default_rng(0)),
        "metric": lambda: kernel.metric(2),
        "prior variance": lambda: kernel.prior_variance(),
        "theta": lambda: kernel.theta,
        "rescaled": lambda: kernel.rescaled([2.0, 0.5])(of.X[:3], of.T[:3]),
        "with theta": lambda: kernel.with_theta(kernel.theta + 0.1)(of.X[:3], of.T[:3]),
    }
    found = {}
    for quantity, ask in asked.items():
        try:
            found[quantity] = _numbers(ask())
        except REFUSED:
            continue
    return found


def of_map(name: str) -> Answers:
    """Return columns of a feature map, and the products of rows of them."""
    of, features = data("plane"), MAPS[name]()
    if "kernel" in features.get_params(deep=False) and name != "scikit-learn":
        features.set_params(kernel=KERNELS["gaussian-ard"](2))
    features.fit(of.X)
    columns = np.asarray(features.transform(of.T))
    return {"columns": _numbers(columns[:4]), "products": _numbers(columns @ columns[:4].T)}


def of_metrics() -> Answers:
    """Return the scores of predictions of a model of a map, and their divergence from the exact ones."""
    of = data("plane")
    exact = public.ExactGPRegressor(**given()).fit(of.X, of.y)
    near = public.NearestNeighborsGPRegressor(20, **given()).fit(of.X, of.y)
    y = 3.0 + np.cos(np.arange(12.0))
    (m, s), (exact_m, exact_s) = (one.predict(of.T, return_std=True, include_noise=True) for one in (near, exact))
    return {
        "rmse": _numbers(public.rmse(y, m)),
        "nlpd": _numbers(public.nlpd(y, m, s**2)),
        "crps": _numbers(public.crps(y, m, s**2)),
        "coverage": _numbers(public.coverage(y, m, s**2)),
        "divergence": _numbers(public.kl_divergence(m, s**2, exact_m, exact_s**2)),
        "score": _numbers(near.score(of.T, y)),
    }


def of_sgd(**options: Any) -> Answers:
    """Return the predictions of kernel SGD."""
    of = data("plane")
    model = public.KernelSGDRegressor(n_steps=400, step_size=0.3, random_state=0, **options).fit(of.X, of.y)
    return {"mean": _numbers(model.predict(of.T)), "center": _numbers(model.center_)}


def of_rbf(make: Callable[[Any], Any]) -> Answers:
    """Return the predictions of a fast approximation of an RBF model."""
    of = data("plane")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows outside the bound
        mean, valid = make(SVR(gamma=0.05)).fit(of.X, of.y).predict(of.T, return_valid=True)
        exact = make(public.ExactGPRegressor(public.GaussianKernel(3.0), NOISE)).fit(of.X, of.y).predict(of.T)
    return {"mean": _numbers(mean), "valid": _numbers(valid), "mean of a Gaussian process": _numbers(exact)}


def of_grid() -> Answers:
    """Return predictions on a grid."""
    model = fitted(lambda: public.ExactGPRegressor(**given()), "plane")
    grid = public.predict_grid(model, {"x0": (0.0, 4.0, 4), "x1": [0.5, 2.0, 2.5]}, level=0.9)
    return {name: _numbers(grid[name].to_numpy()) for name in ("mean", "std", "lower", "upper")}


def of_conversion() -> Answers:
    """Return the answers of an exact model that went to GPyTorch and came back."""
    model = fitted(lambda: public.ExactGPRegressor(**given()), "plane", "noises")
    return answers(public.from_gpytorch(public.to_gpytorch(model)), data("plane").T)


def of_centroids() -> Answers:
    """Return what clustering finds, and the largest width of a quadratic approximation."""
    X = data("plane").X
    return {
        "centroids": _numbers(public.farthest_point_clustering(X, 0.8)),
        "gamma": _numbers(public.gamma_max(X, center="mean")),
    }


def of_coordinates() -> Answers:
    """Return places on the sphere."""
    return {"columns": _numbers(public.SphericalCoordinates().fit_transform(data("sphere").T))}


def learned_alone(kernel: Any, **options: Any) -> Answers:
    """Return hyperparameters that `learn` finds."""
    of = data("copies")
    found = public.learn(of.X, of.y, kernel=kernel, random_state=0, **options)
    return {
        "parameters of the kernel": _numbers(_parameters(found.kernel)),
        "noise variance": _numbers(found.noise_variance),
    }


def learned_from_sums() -> Answers:
    """Return hyperparameters that are learned from the sums of a spectral model, and a model that takes them."""
    of = data("line")
    model = public.SpectralGPRegressor(1e-6, room=2.0, **given("gaussian", 1)).fit(of.X, of.y)
    found = public.learn_from_sums(model.sums_, model.kernel_)
    return {
        "parameters learned": _numbers(_parameters(found.kernel)),
        "noise variance learned": _numbers(found.noise_variance),
        **answers(model.relearn() or model, of.T),
    }


# ----------------------------------------------------------------------------------------------------------------------
# Configurations

CONFIGURATIONS: dict[str, Callable[[], Answers]] = {}


def add(name: str, of: Callable[..., Answers], *arguments: Any, **options: Any) -> None:
    """Add a configuration."""
    assert name not in CONFIGURATIONS, name
    CONFIGURATIONS[name] = partial(of, *arguments, **options)


def made(regressor: str, *arguments: Any, kernel: str = "gaussian-ard", d: int = 2, **options: Any) -> Any:
    """Return what makes a regressor with given hyperparameters; a function among the arguments makes an argument."""

    def make() -> Any:
        values = [one() if callable(one) else one for one in arguments]
        return getattr(public, regressor)(*values, **given(kernel, d), **options)

    return make


def together(make: Callable[[], Any], **options: Any) -> Callable[[], Any]:
    """Return what makes a regressor of several targets."""
    return lambda: several(make(), **options)


exact = partial(made, "ExactGPRegressor")
featurized = partial(made, "FeaturizedGPRegressor")
localized = partial(made, "LocalizedGPRegressor")
nearest = partial(made, "NearestNeighborsGPRegressor")
residual = partial(made, "ResidualGPRegressor")
spectral = partial(made, "SpectralGPRegressor")
chosen = partial(made, "GPRegressor", noise="normal", random_state=0)
iterative = partial(exact, solver="iterative", random_state=0)
taylor, nystroem, fourier = OF_COMPONENTS["taylor"], OF_ROWS["nystroem"], OF_FREQUENCIES["orthogonal-fourier"]

# One of each, for what all of them take.
EACH: dict[str, Callable[..., Any]] = {
    "exact": exact,
    "iterative": partial(iterative, tolerance=1e-6),
    "featurized/taylor": partial(featurized, taylor),
    "featurized/nystroem": partial(featurized, nystroem),
    "featurized/orthogonal-fourier": partial(featurized, fourier),
    "localized/taylor": partial(localized, taylor, 1.0),
    "nearest": partial(nearest, 20),
    "residual/nystroem": partial(residual, nystroem, 20, block_size=32),
    "spectral": partial(spectral, 1e-6),
    "chosen": chosen,
}

for _name in KERNELS:
    add(f"kernel/{_name}", of_kernel, _name)
    add(f"exact/{_name}", predicted, exact(kernel=_name))
for _name in MAPS:
    add(f"map/{_name}", of_map, _name)
for _name, _map in (OF_FREQUENCIES | OF_COMPONENTS | OF_ROWS).items():
    add(f"featurized/gaussian-ard/{_name}", predicted, featurized(_map))
for _name, _map in OTHERS.items():
    if _name == "polynomial-taylor":
        continue  # a map for linear models, which Gaussian processes refuse
    add(f"featurized/own-kernel/{_name}", predicted, featurized(_map))
for _name in ("matern32", "gaussian+matern32"):
    add(f"featurized/{_name}/orthogonal-fourier", predicted, featurized(fourier, kernel=_name))
for _name in ("matern12", "gaussian+linear", "polynomial", "modulated"):
    add(f"featurized/{_name}/nystroem", predicted, featurized(nystroem, kernel=_name))
for _name in ("gaussian+gaussian", "gaussian*gaussian"):
    add(f"featurized/{_name}/taylor", predicted, featurized(taylor, kernel=_name))
    add(f"localized/{_name}/taylor", predicted, localized(taylor, 1.0, kernel=_name))
for _name in SOME:
    add(f"nearest/{_name}", predicted, nearest(20, kernel=_name))
    add(f"residual/{_name}/nystroem", predicted, residual(nystroem, 20, block_size=32, kernel=_name))
for _name in ("rational-quadratic", "matern32", "gaussian+matern32"):
    add(f"spectral/line/{_name}", predicted, spectral(1e-3, kernel=_name, d=1), "line")

for _name, _make in EACH.items():
    add(f"{_name}/line", predicted, _make(kernel="gaussian", d=1), "line")
    add(f"{_name}/trend=linear/noise-variances", predicted, _make(trend="linear"), "plane", "noises")
    add(f"{_name}/trend=[0]/weights", predicted, _make(trend=[0]), "plane", "weights")
    add(f"{_name}/copies/weights/noise-variances", predicted, _make(), "copies", "weights noises")
    add(f"{_name}/center", predicted, _make(), "plane", center=2.5)
    add(f"{_name}/several", predicted, together(_make()), "plane", "several")
    add(f"{_name}/several/trend=linear/weights", predicted, together(_make(trend="linear")), "plane", "several weights")
    add(f"{_name}/saved/trend=linear", reloaded, _make(trend="linear"))
for _name in ("exact", "nearest", "featurized/taylor"):
    add(f"{_name}/several/noise-variances", predicted, together(EACH[_name]()), "plane", "several noises")
    add(
        f"{_name}/several/noise-variances-of-each",
        predicted,
        together(EACH[_name](), hyperparameters="each"),
        "plane",
        "several both-noises",
    )
    _make = together(EACH[_name](), hyperparameters="each")
    add(f"{_name}/several/each", predicted, _make, "plane", "several weights")
    add(f"{_name}/several/saved", reloaded, together(EACH[_name]()), "plane", "several")
    add(f"{_name}/copies/average", predicted, EACH[_name](), "copies", duplicates="average")
    add(f"{_name}/copies/drop", predicted, EACH[_name](), "copies", duplicates="drop")
for _name in ("exact", "featurized/taylor", "nearest", "residual/nystroem", "localized/taylor"):
    add(f"{_name}/space", predicted, EACH[_name](d=3), "space")
for _name in ("exact", "featurized/taylor", "featurized/orthogonal-fourier", "nearest", "residual/nystroem"):
    add(f"{_name}/draws-at-many-places", drawn_at_many, EACH[_name]())
add("exact/trend=[]", predicted, exact(trend=[]))
add(
    "exact/matern12/trend=linear/weights/noise-variances",
    predicted,
    exact(kernel="matern12", trend="linear"),
    "copies",
    "weights noises",
)
add("iterative/matern32/space", predicted, iterative(kernel="matern32", d=3, tolerance=1e-6), "columns")
add("iterative/default-tolerance", predicted, iterative(d=3), "columns")
for _name in ("dtc", "sor"):
    add(f"featurized/taylor/{_name}", predicted, featurized(taylor, approximation=_name))
    add(
        f"featurized/nystroem/{_name}/noise-variances",
        predicted,
        featurized(nystroem, approximation=_name),
        "plane",
        "noises",
    )
    add(f"localized/taylor/{_name}", predicted, localized(taylor, 1.0, approximation=_name))
add("featurized/single-precision", predicted, featurized(fourier, feature_dtype="float32"))
add("featurized/default-map", predicted, featurized(random_state=0, kernel="matern32"))
add("localized/default-map", predicted, localized(random_state=0))
add("localized/default-map/matern32", predicted, localized(kernel="matern32", random_state=0))
add("localized/nystroem", predicted, localized(nystroem, 1.5))
add("localized/nystroem/matern52", predicted, localized(nystroem, 1.5, kernel="matern52"))
add("localized/maclaurin-srht", predicted, localized(OF_COMPONENTS["maclaurin-srht"], 1.0))
add("localized/maclaurin-gaussian/space", predicted, localized(OF_COMPONENTS["maclaurin-gaussian"], 1.0, d=3), "space")
add("localized/taylor/dual", predicted, localized(taylor, 1.0, solver="dual"))
add("localized/taylor/centroids=test_rows", predicted, localized(taylor, 1.0, centroids="test_rows"))
add("localized/taylor/centroids=given", predicted, localized(taylor, 1.0, centroids=[[1.0, 1.0], [3.0, 2.0]]))
add("nearest/all-rows", predicted, nearest(200, kernel="matern32", trend="linear"))
add("residual/taylor/trend=linear", predicted, residual(taylor, 20, block_size=32, trend="linear"))
add("spectral/gaussian+gaussian", predicted, spectral(1e-2, kernel="gaussian+gaussian"))
add(
    "spectral/matern52",
    predicted,
    lambda: public.SpectralGPRegressor(0.1, kernel=public.MaternKernel(2.0, 0.9, smoothness=2.5), noise_variance=NOISE),
)
add("spectral/line/matern12", predicted, spectral(1e-1, kernel="matern12", d=1), "line")
add(
    "spectral/space/iterations",
    predicted,
    lambda: public.SpectralGPRegressor(1e-7, kernel=public.GaussianKernel(3.0, 1.5), noise_variance=NOISE),
    "space",
)
add(
    "spectral/iterations",
    predicted,
    lambda: public.SpectralGPRegressor(1e-8, kernel=public.GaussianKernel(0.3, 1.5), noise_variance=0.3),
)
add("spectral/box", predicted, spectral(1e-4, box=[[-1.0, -1.0], [5.0, 4.0]]))
for _name in ("exact", "nearest_rows", "nystroem", "residual", "spectral"):
    add(f"chosen/methods={_name}", predicted, chosen(methods=[_name]))
add(
    "chosen/sphere",
    predicted,
    lambda: public.GPRegressor(
        metric="sphere", kernel=public.MaternKernel(900.0, 1.2), noise_variance=NOISE, noise="normal", random_state=0
    ),
    "sphere",
)

for _name, _transformer in {"log": "log", "log1p": "log1p", "power": PowerTransformer()}.items():
    add(
        f"transformed/exact/{_name}",
        predicted,
        lambda transformer=_transformer: public.TransformedTargetGPRegressor(exact()(), transformer),
    )
add(
    "transformed/nearest/log/weights/noise-variances",
    predicted,
    lambda: public.TransformedTargetGPRegressor(nearest(20, trend="linear")(), "log"),
    "plane",
    "weights noises",
)
add("transformed/exact/saved", reloaded, lambda: public.TransformedTargetGPRegressor(exact()(), "log"))
add(
    "transformed/several",
    predicted,
    together(lambda: public.TransformedTargetGPRegressor(exact()(), "log1p"), hyperparameters="each"),
    "plane",
    "several",
)

STREAMED = {
    "featurized/taylor": featurized(taylor),
    "featurized/nystroem/trend=linear": featurized(nystroem, trend="linear"),
    "localized/taylor": localized(taylor, 1.0),
    "spectral": spectral(1e-6, box=[[0.0, 0.0], [4.0, 3.0]]),
}
WAYS = (
    "chunks",
    "generator",
    "function",
    "weighted-chunks",
    "known-center",
    "file",
    "partial_fit",
    "forget",
    "merge",
    "with_rows",
)
for _name, _make in STREAMED.items():
    for _how in WAYS:
        add(f"stream/{_how}/{_name}", streamed, _make, _how)
add("stream/chunk-rows/featurized/orthogonal-fourier", streamed, featurized(fourier), "chunk-rows")
add("stream/checkpoint/spectral", streamed, spectral(1e-6), "checkpoint")
add(
    "stream/update/spectral/trend=linear",
    streamed,
    spectral(1e-6, trend="linear", box=[[0.0, 0.0], [4.0, 3.0]]),
    "update",
)
add("stream/merge/localized/line", streamed, localized(taylor, 1.0, kernel="gaussian", d=1), "merge", "line")

add("metrics", of_metrics)
add("grid", of_grid)
add("gpytorch/there-and-back", of_conversion)
add("clustering", of_centroids)
add("sphere/coordinates", of_coordinates)
add("sgd/features", of_sgd, features=None, kernel=None)
add("rbf/quadratic", of_rbf, lambda model: public.QuadraticRBF(model, center="mean"))
add("rbf/taylor", of_rbf, lambda model: public.TaylorRBF(model, degree=5, center="mean"))

add("learned/exact/gaussian/ard", predicted, lambda: public.ExactGPRegressor("gaussian", ard=True, random_state=0))
add(
    "learned/exact/matern32",
    predicted,
    lambda: public.ExactGPRegressor("matern32", random_state=0),
    "copies",
    "weights",
)
add("learned/exact/gaussian+matern12", predicted, lambda: public.ExactGPRegressor("gaussian+matern12", random_state=0))
add(
    "learned/exact/bounds",
    predicted,
    lambda: public.ExactGPRegressor(
        public.MaternKernel([1.0, 2.0], 1.2, lengthscale_bounds=(0.1, 10.0)), NOISE, random_state=0
    ),
)
add(
    "learned/nearest/matern32",
    predicted,
    lambda: public.NearestNeighborsGPRegressor(20, kernel="matern32", random_state=0),
)
add(
    "learned/featurized/gaussian",
    predicted,
    lambda: public.FeaturizedGPRegressor(nystroem(), kernel="gaussian", trend="linear", random_state=0),
)
add("learned/chosen/matern52", predicted, lambda: public.GPRegressor(kernel="matern52", noise="normal", random_state=0))
add(
    "learned/several/matern32",
    predicted,
    together(lambda: public.ExactGPRegressor("matern32", random_state=0)),
    "plane",
    "several",
)
add("learned/alone/list", learned_alone, ["gaussian", "matern32"])
add("learned/from-sums", learned_from_sums)

add("default-learned/chosen", predicted, lambda: public.GPRegressor(noise="normal", random_state=0))
add("default-learned/exact", predicted, lambda: public.ExactGPRegressor(random_state=0))
add("default-learned/several", predicted, together(lambda: public.ExactGPRegressor(random_state=0)), "plane", "several")


def answered(name: str) -> Answers:
    """Return the answers of a configuration."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", public.ToleranceWarning)  # of models that are small on purpose
        return CONFIGURATIONS[name]()


def written(found: dict[str, Answers]) -> str:
    """Return answers as JSON, with a line for each quantity."""
    parts = (
        f"{json.dumps(name)}: {{\n"
        + ",\n".join(f" {json.dumps(quantity)}: {json.dumps(numbers)}" for quantity, numbers in one.items())
        + "\n}"
        for name, one in found.items()
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(written({name: answered(name) for name in CONFIGURATIONS}))
    sys.stdout.write(f"{len(CONFIGURATIONS)} configurations in {FILE.name}, {FILE.stat().st_size / 1e6:.2f} MB\n")
