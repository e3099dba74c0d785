"""Every public function: a table of malformed arguments, each with its message."""

import inspect
import re
from collections.abc import Callable
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pytest
import shapely
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC

import lmgp
import lmgp.rbf
from lmgp import GaussianKernel, LinearKernel, SpectralGPRegressor, errors, metrics
from lmgp.experiments import datasets
from lmgp.learning import learn_from_sums
from lmgp.metrics import DensityScorer, bounds
from tests.malformed.conftest import GIVEN, LABELS, NUMERIC, ROWS, TARGETS, X, Y, changed
from tests.public import BASES, members

Case = tuple[Callable[[], Any], str]
EXACT = lmgp.ExactGPRegressor(**GIVEN).fit(X, Y)
SPECTRAL = SpectralGPRegressor(**GIVEN).fit(X, Y)
SINC = datasets.load_dataset("sinc")
SQUARE = geopandas.GeoSeries([shapely.box(0.0, 0.0, 1.0, 1.0)])
AXES: dict[str, Any] = {"x0": (0.0, 1.0, 3), "x1": (0.0, 1.0, 3)}
NO_PATH = r"A path is a str or a pathlib\.Path"


def of_rows(function: Callable[[Any], Any]) -> list[Case]:
    """The cases of an argument that is a table."""
    return [(lambda rows=rows: function(rows), told) for rows, told in ROWS.values()]


def of_targets(function: Callable[[Any], Any]) -> list[Case]:
    """The cases of an argument that is a target."""
    cases = {case: values for case, values in (TARGETS | NUMERIC).items() if case != "two columns"}
    return [(lambda y=y: function(y), told) for y, told in cases.values()]


def of_vectors(function: Callable[[Any], Any], name: str) -> list[Case]:
    """The cases of an argument of a score, beside values of two rows."""
    return [
        (lambda: function(None), "must have one value a row|must be finite; got nan"),
        (lambda: function("high"), "must be an array of real numbers|must have one value a row"),
        (lambda: function(["a", "b"]), f"{name} must be an array of real numbers, one a row: could not convert"),
        (lambda: function([1.0, np.nan]), f"{name} must be finite; got nan in row 1"),
        (lambda: function([1.0, np.inf]), f"{name} must be finite; got inf in row 1"),
        (lambda: function([1.0, 1j]), f"{name} must be an array of real numbers"),
        (lambda: function([1.0]), r"all in the same shape \(n,\)(, or \(n, t\) of several targets)?; got the shapes"),
        (lambda: function([[1.0, 2.0]]), r"must have one value a row"),
        (lambda: function([]), "must have (one value a row|at least one row)"),
    ]


FUNCTIONS: dict[str, list[Case]] = {
    "lmgp.learn": [
        *of_rows(lambda rows: lmgp.learn(rows, Y)),
        *of_targets(lambda y: lmgp.learn(X, y)),
        (lambda: lmgp.learn(X, np.ones(30)), "y is constant"),
        (lambda: lmgp.learn(0.0 * X, Y), "All rows of X are the same"),
        (lambda: lmgp.learn(X, Y, np.ones(29)), "sample_weight"),
        (lambda: lmgp.learn(X, Y, kernel="matern33"), "'matern33', which is no kernel that can be named"),
        (lambda: lmgp.learn(X, Y, kernel=3), "The 'kernel' parameter of learn must be .* Got 3 instead"),
        (lambda: lmgp.learn(X, Y, kernel=[]), r"a list of names, or 'auto'; got \[\]"),
        (lambda: lmgp.learn(X, Y, ard="yes"), "The 'ard' parameter of learn must be .* Got 'yes' instead"),
        (lambda: lmgp.learn(X, Y, noise_variance=-1.0), r"'noise_variance' parameter of learn must be .*\(0\.0, inf\)"),
        (lambda: lmgp.learn(X, Y, likelihood="laplace"), "'likelihood' parameter of learn must be a str among"),
        (lambda: lmgp.learn(X, Y, standardize="yes"), "'standardize' parameter of learn must be"),
        (lambda: lmgp.learn(X, Y, max_learning_rows=1), r"'max_learning_rows' parameter of learn must be .*\[2, inf\)"),
        (lambda: lmgp.learn(X, Y, max_memory_gib=0), "'max_memory_gib' parameter of learn must be"),
        (lambda: lmgp.learn(X, Y, random_state="seed"), "'random_state' parameter of learn must be"),
    ],
    "lmgp.learning.learn_from_sums": [
        (
            lambda: learn_from_sums(None, GaussianKernel()),
            "sums must be .* sums_; got NoneType.* lmgp.learn",
        ),
        (lambda: learn_from_sums(SPECTRAL, GaussianKernel()), "got SpectralGPRegressor"),
        (
            lambda: learn_from_sums(SPECTRAL.sums_, "matern32"),
            "kernel must be a kernel, .* got 'matern32'",
        ),
        (lambda: learn_from_sums(SpectralGPRegressor().sums_, GaussianKernel()), "not fitted"),
        (lambda: SPECTRAL.merge(None), "merges with another one; got NoneType"),
        (lambda: SPECTRAL.merge(EXACT), "merges with another one; got ExactGPRegressor"),
        (lambda: SPECTRAL.merge(SpectralGPRegressor()), "not fitted yet"),
        (lambda: SPECTRAL.sample_y(X, n_samples=0), "n_samples must be a positive integer; got 0"),
    ],
    "lmgp.save": [
        (lambda: lmgp.save(EXACT, None), NO_PATH),
        (lambda: lmgp.save(EXACT, "nowhere/model.lmgp"), "there is no folder"),
        (lambda: lmgp.save(None, "new.lmgp"), "NoneType cannot be saved: a model file holds a model or a map of lmgp"),
        (lambda: lmgp.save(EXACT.kernel, "new.lmgp"), "GaussianKernel cannot be saved"),
        (lambda: lmgp.save(lmgp.GPRegressor(), "new.lmgp"), "is not fitted yet"),
    ],
    "lmgp.load": [
        (lambda: lmgp.load(None), NO_PATH),
        (lambda: lmgp.load(3), NO_PATH),
        (lambda: lmgp.load("nowhere.lmgp"), "nowhere.lmgp does not exist"),
        (lambda: lmgp.load("."), "is a folder"),
        (lambda: lmgp.load("rows.csv"), "is not a model file of lmgp"),
        (lambda: lmgp.load("empty"), "is empty"),
        (lambda: lmgp.load("truncated.lmgp"), "damaged or incomplete"),
        (lambda: EXACT.save(None), NO_PATH),
        (lambda: EXACT.save("."), "is a folder"),
        (lambda: EXACT.save("nowhere/model"), "there is no folder"),
    ],
    "lmgp.load_dataset": [
        (lambda: lmgp.load_dataset("yatch"), "No data set is named 'yatch'; did you mean 'yacht'"),
        (lambda: lmgp.load_dataset(None), "No data set is named None"),
        (lambda: lmgp.load_dataset(["sinc"]), r"No data set is named \['sinc'\]"),
        (lambda: lmgp.load_dataset("sinc", "nowhere"), "'nowhere', which is not a folder"),
        (lambda: lmgp.load_dataset("sinc", 3), NO_PATH),
        (lambda: lmgp.load_dataset("diabetes", columns=["bmj"]), "no column is named 'bmj', did you mean 'bmi'"),
        (lambda: lmgp.load_dataset("diabetes", columns=3), "columns must be a list of names; got 3"),
        (lambda: lmgp.load_dataset("diabetes", columns=[]), "no input column is left"),
    ],
    "lmgp.farthest_point_clustering": [
        *of_rows(lambda rows: lmgp.farthest_point_clustering(rows, 1.0)),
        (lambda: lmgp.farthest_point_clustering(X, 0.0), "threshold must be a positive, finite number"),
        (lambda: lmgp.farthest_point_clustering(X, "near"), "threshold must be .*; got 'near'"),
        (
            lambda: lmgp.farthest_point_clustering(X, 1.0, start=[1.0]),
            "start must have one value a column of X, 2; got 1",
        ),
    ],
    "lmgp.rbf.gamma_max": [
        *of_rows(lmgp.rbf.gamma_max),
        (lambda: lmgp.rbf.gamma_max(0.0 * X), "No largest gamma can be given"),
        (lambda: lmgp.rbf.gamma_max(X, center="middle"), "center"),
        (lambda: lmgp.rbf.gamma_max(X, center=[1.0]), r"center must have one value a column, shape \(2,\)"),
        (lambda: lmgp.rbf.gamma_max(X, degree=-1), "degree must be a whole number from 0 to"),
    ],
    "lmgp.rbf.rbf_expansion": [
        (lambda: lmgp.rbf.rbf_expansion(None), "No kernel expansion is known of NoneType. Supported: SVC"),
        (lambda: lmgp.rbf.rbf_expansion(SVC()), "SVC is not fitted: fit it first"),
        (lambda: lmgp.rbf.rbf_expansion(SVC(kernel="linear").fit(X, LABELS)), "SVC has kernel='linear'"),
        (lambda: lmgp.rbf.rbf_expansion("nowhere.model"), "nowhere.model cannot be read"),
        (lambda: lmgp.rbf.QuadraticRBF.from_estimator(3), "No kernel expansion is known of int"),
        (lambda: lmgp.rbf.QuadraticRBF().fit(X, Y), r"has no estimator to fit: give one, such as .*SVC\(\)"),
    ],
    "lmgp.rbf.read_libsvm": [
        (lambda: lmgp.rbf.read_libsvm(None), "The model file None cannot be read"),
        (lambda: lmgp.rbf.read_libsvm("nowhere.model"), "nowhere.model cannot be read"),
        (lambda: lmgp.rbf.read_libsvm("rows.csv"), "rows.csv, line 1: 'a,b,y' is no field of a LIBSVM model"),
        (lambda: lmgp.rbf.read_libsvm("empty"), "empty"),
    ],
    "lmgp.features.exact_features": [
        (lambda: lmgp.features.exact_features(None), "None is no kernel of this package"),
        (lambda: lmgp.features.exact_features(GaussianKernel()), "has no finite feature map; approximate it"),
        (lambda: lmgp.features.exact_features(LinearKernel), "is no kernel of this package"),
    ],
    "lmgp.metrics.hoeffding_bound": [
        (lambda: bounds.hoeffding_bound("many", 0.1), "n_features must be a number or an array of numbers"),
        (lambda: bounds.hoeffding_bound(3, 0.1), "n_features must be even"),
        (lambda: bounds.hoeffding_bound(4, -0.1), "error must be positive"),
        (lambda: bounds.hoeffding_bound(4, None), "error must be positive and finite; got nan"),
        (lambda: bounds.hoeffding_bound([2, 4], [0.1] * 3), r"must broadcast against each other; got shapes \(2,\)"),
        (lambda: bounds.hoeffding_bound(4, 0.1, variance="one"), "variance must be positive and finite; got 'one'"),
    ],
    "lmgp.metrics.spherical_fit_bound": [
        (lambda: bounds.spherical_fit_bound(None), "degree must be at least 1 and a at least 2; got degree=None"),
        (lambda: bounds.spherical_fit_bound(3, "a"), "got degree=3, a='a'"),
    ],
    "lmgp.metrics.svm_objective_gap": [
        (lambda: bounds.svm_objective_gap(["a"], [1.0], 1.0), "kernel_diagonal must be a number or an array"),
        (lambda: bounds.svm_objective_gap([1.0], [1.0, 2.0], 1.0), "need one value for each row"),
        (lambda: bounds.svm_objective_gap([1.0], [-1.0], 1.0), "feature_squares must not be negative"),
        (lambda: bounds.svm_objective_gap([1.0], [2.0], 1.0), "The bound is for projections"),
        (lambda: bounds.svm_objective_gap([1.0], [1.0], "a"), "regularization must be positive and finite; got 'a'"),
    ],
    "lmgp.experiments.datasets.make_sinc": [
        (lambda: datasets.make_sinc(0), "n must be an integer of at least 1; got 0"),
        (lambda: datasets.make_sinc("many"), "n must be an integer of at least 1; got 'many'"),
        (lambda: datasets.make_sinc(3, noise_variance=-1.0), "noise_variance must be finite and not negative"),
        (lambda: datasets.make_sinc(3, noise_variance=None), "noise_variance must be finite and not negative"),
        (lambda: datasets.make_sinc(3, random_state=-1), "random_state must be a non-negative integer"),
    ],
    "lmgp.experiments.datasets.load_csv": [
        (lambda: datasets.load_csv(None, "y"), NO_PATH),
        (lambda: datasets.load_csv("nowhere.csv", "y"), "nowhere.csv does not exist"),
        (lambda: datasets.load_csv(".", "y"), "is a folder"),
        (lambda: datasets.load_csv("rows.csv", None), "the target is needed .* columns are a, b, y"),
        (lambda: datasets.load_csv("rows.csv", "z"), "no column is named 'z'"),
        (lambda: datasets.load_csv("rows.csv", 3), "no column is named 3"),
        (lambda: datasets.load_csv("rows.csv", "y", columns=["y"]), "not the target 'y' among them"),
        (lambda: datasets.load_csv("rows.csv", "y", sep=None), r"sep \(--sep\) must be text; got None"),
        (lambda: datasets.load_csv("rows.csv", "y", sep=";"), "is not separated by ';'"),
        (lambda: datasets.load_csv("rows.csv", "y", decimal="x"), "decimal mark"),
        (lambda: datasets.load_csv("rows.csv", "y", encoding="klingon"), "no encoding 'klingon'"),
        (lambda: datasets.load_csv("rows.csv", "y", encoding=None), "must be text; got None"),
        (lambda: datasets.load_csv("empty", "y"), "is empty"),
    ],
    "lmgp.experiments.datasets.split": [
        (lambda: datasets.split(None, 0), "dataset must be a Dataset, .*; got NoneType"),
        (lambda: datasets.split(SINC, -1), "seed must not be negative"),
        (lambda: datasets.split(SINC, 0, n_train=10**9, published=False), "at least 1 be left for testing"),
        (lambda: datasets.split(SINC, 0, test_fraction=2, published=False), "test_fraction must lie between 0 and 1"),
    ],
    "lmgp.experiments.datasets.available": [
        (lambda: datasets.available("nowhere"), "not a folder"),
        (lambda: datasets.available(3), NO_PATH),
    ],
    "lmgp.experiments.datasets.fetch": [
        (lambda: datasets.fetch(None), r"entry must be one of lmgp\.experiments\.datasets\.CATALOGUE.*; got None"),
        (lambda: datasets.fetch("yacht"), "got 'yacht'"),
    ],
    "lmgp.predict_areas": [
        (
            lambda: lmgp.predict_areas(EXACT, None),
            "a GeoDataFrame or a GeoSeries of polygons; got a None",
        ),
        (lambda: lmgp.predict_areas(EXACT, geopandas.GeoSeries([None])), "Areas must be polygons; got None"),
        (lambda: lmgp.predict_areas(EXACT, SQUARE, n_points=2.5), "n_points must be a positive integer; got 2.5"),
        (lambda: lmgp.predict_areas(None, SQUARE), "A fitted model comes first; got a NoneType"),
        (lambda: lmgp.predict_areas(lmgp.ExactGPRegressor(), SQUARE), "not fitted yet"),
    ],
    "lmgp.predict_grid": [
        (lambda: lmgp.predict_grid(None, {}), "A fitted model comes first; got a NoneType"),
        (lambda: lmgp.predict_grid(lmgp.ExactGPRegressor(), AXES), "not fitted yet"),
        (lambda: lmgp.predict_grid(EXACT, None), "axes is a dictionary with an axis of each column, .*; got None"),
        (lambda: lmgp.predict_grid(EXACT, {}), "missing are x0, x1"),
        (lambda: lmgp.predict_grid(EXACT, AXES | {"z": 0.0}), "no column 'z' for the grid; known: x0, x1"),
        (lambda: lmgp.predict_grid(EXACT, AXES | {"x1": "a"}), "could not convert string to float: 'a'"),
        (lambda: lmgp.predict_grid(EXACT, AXES | {"x1": [np.nan, 1.0]}), r"without repetition; got \[nan, 1\.0\]"),
        (lambda: lmgp.predict_grid(EXACT, AXES, level=2), "between 0 and 1; got 2"),
        (lambda: lmgp.predict_grid(EXACT, AXES, x="q"), "x: the model has no column 'q'"),
    ],
    "lmgp.gpytorch.from_gpytorch": [
        (lambda: lmgp.gpytorch.from_gpytorch(None), "kernels convert; got NoneType"),
        (lambda: lmgp.gpytorch.from_gpytorch(EXACT), "kernels convert; got ExactGPRegressor"),
    ],
    "lmgp.gpytorch.to_gpytorch": [
        (lambda: lmgp.gpytorch.to_gpytorch(None), "ExactGPRegressor converts, .*; got NoneType"),
        (lambda: lmgp.gpytorch.to_gpytorch(lmgp.ExactGPRegressor()), "not fitted yet"),
        (lambda: lmgp.gpytorch.to_gpytorch(SPECTRAL), "got SpectralGPRegressor"),
    ],
    "lmgp.io.open_dataset": [
        (lambda: lmgp.io.open_dataset(None, "y"), NO_PATH),
        (lambda: lmgp.io.open_dataset([3], "y"), NO_PATH),
        (lambda: lmgp.io.open_dataset([], "y"), "No file is given"),
        (lambda: lmgp.io.open_dataset("nowhere.parquet", "y"), r"nowhere\.parquet does not exist"),
        (lambda: lmgp.io.open_dataset(".", "y"), r"has no file that ends in \.parquet"),
        (lambda: lmgp.io.open_dataset("rows.csv", "y"), "no Parquet or Arrow file by its name"),
        (lambda: lmgp.io.open_dataset("rows.parquet", None), "target must be the name of a column, .*; got None"),
        (lambda: lmgp.io.open_dataset("rows.parquet", "y", columns="a"), r"got the text 'a'\. Write \['a'\]"),
        (
            lambda: lmgp.io.open_dataset("rows.parquet", "y", columns=[3]),
            r"columns must be a list of names, .*; got \[3\]",
        ),
        (lambda: lmgp.io.open_dataset("rows.parquet", "y", columns=3), "columns must be a list of names, .*; got 3"),
        (
            lambda: lmgp.io.open_dataset("rows.parquet", "y", sample_weight=3),
            "sample_weight must be the name of a column",
        ),
    ],
    "lmgp.metrics.rmse": [
        *of_vectors(lambda one: metrics.rmse(one, [1.0, 2.0]), "y"),
        *of_vectors(lambda one: metrics.rmse([1.0, 2.0], one), "mean"),
    ],
    "lmgp.metrics.nlpd": [
        *of_vectors(lambda one: metrics.nlpd(one, [1.0, 2.0], [1.0, 1.0]), "y"),
        *of_vectors(lambda one: metrics.nlpd([1.0, 2.0], [1.0, 2.0], one), "variance"),
        (lambda: metrics.nlpd([1.0], [1.0], [0.0]), "variance must be positive; got 0 in row 0"),
        (lambda: metrics.nlpd([1.0], [1.0], std=[-1.0]), "std must be positive; got -1 in row 0"),
        (lambda: metrics.nlpd([1.0], [1.0], [1.0], std=[1.0]), "Give variance= or std=, and not both"),
    ],
    "lmgp.metrics.crps": [
        *of_vectors(lambda one: metrics.crps([1.0, 2.0], one, [1.0, 1.0]), "mean"),
        (lambda: metrics.crps([1.0], [1.0], [-1.0]), "variance must be positive; got -1 in row 0"),
        (lambda: metrics.crps([1.0], norm([1.0, 2.0])), "the mean of the distribution"),
    ],
    "lmgp.metrics.pit": [
        *of_vectors(lambda one: metrics.pit(one, norm([1.0, 2.0])), "y"),
        (lambda: metrics.pit([1.0], [1.0]), "Give a distribution.*or means with std= or variance=.*got list alone"),
    ],
    "lmgp.metrics.coverage": [
        *of_vectors(lambda one: metrics.coverage(one, [1.0, 2.0], [1.0, 1.0]), "y"),
        (lambda: metrics.coverage([1.0], [1.0], [1.0], 95), "level must be a number strictly between 0 and 1; got 95"),
        (lambda: metrics.coverage([1.0], [1.0], [1.0], "95%"), "got '95%'"),
    ],
    "lmgp.metrics.kl_divergence": [
        *of_vectors(lambda one: metrics.kl_divergence(one, [1.0, 1.0], [0.0, 0.0], [1.0, 1.0]), "mean_p"),
        (lambda: metrics.kl_divergence([1.0], [1.0], [1.0], [-1.0]), "variance_q must be positive"),
    ],
    "lmgp.metrics.nlpd_scorer": [
        (
            lambda: metrics.nlpd_scorer(SVC().fit(X, LABELS), X, Y),
            "need predict_distribution.*return_std=True, include_noise=True",
        ),
        (lambda: metrics.nlpd_scorer(EXACT, X, Y[:-1]), "same shape"),
        (lambda: metrics.nlpd_scorer(EXACT, X, changed(Y, np.nan, float)), "y must be finite; got nan in row 2"),
    ],
    "lmgp.metrics.crps_scorer": [
        (lambda: metrics.crps_scorer(SVC().fit(X, LABELS), X, Y), "need predict_distribution"),
        (lambda: metrics.crps_scorer(EXACT, None, Y), "must be a table of numbers"),
    ],
}


def public_functions() -> set[str]:
    """The public functions and scorers; `tests/plots` tries those that draw."""
    return {name for name, member in members().items() if is_function(member) and not name.startswith("lmgp.plots.")}


def is_function(member: Any) -> bool:
    return inspect.isfunction(member) or isinstance(member, DensityScorer)


def test_every_public_name_has_a_table() -> None:
    assert public_functions() == set(FUNCTIONS)
    # All other names are records, or classes of which each method and parameter is tried in test_rows.
    for name, member in members().items():
        known = not inspect.isclass(member) or is_dataclass(member) or issubclass(member, (BaseEstimator, tuple))
        assert known or member.__name__ in (*BASES, "FeatureKernel"), f"{name} has no table of malformed input"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a table, an empty file and a model file that ends too early."""
    monkeypatch.chdir(tmp_path)
    np.savetxt("rows.csv", np.column_stack((X, Y)), delimiter=",", header="a,b,y", comments="")
    Path("empty").touch()
    EXACT.save("model.lmgp")
    Path("truncated.lmgp").write_bytes(Path("model.lmgp").read_bytes()[:500])
    return tmp_path


@pytest.mark.parametrize("function", [name for name, cases in FUNCTIONS.items() if cases])
@pytest.mark.filterwarnings("ignore")
def test_functions(function: str, folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*")}
    for number, (call, told) in enumerate(FUNCTIONS[function]):
        with pytest.raises((errors.LmgpError, ValueError, TypeError, NotFittedError, AttributeError)) as caught:
            call()
        said = f"{type(caught.value).__name__}: {caught.value}"
        assert re.search(told, said, flags=re.DOTALL | re.IGNORECASE), f"{function}, case {number}: {said}"
    assert {path: path.read_bytes() for path in folder.rglob("*")} == before
