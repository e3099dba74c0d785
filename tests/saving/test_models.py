"""Every model and every map is the same after it was saved and loaded in another process, to the last bit."""

import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.svm import SVC, SVR, OneClassSVM

import lmgp
from lmgp import (
    ExactGPRegressor,
    ExponentialKernel,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LinearKernel,
    LocalizedGPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    OptimizedMaclaurinFeatures,
    RandomFourierFeatures,
    RationalQuadraticKernel,
    SpectralGPRegressor,
    SphericalCoordinates,
    TaylorFeatures,
    TransformedTargetGPRegressor,
)
from lmgp.errors import InputError
from lmgp.estimators import MultiTargetGPRegressor
from lmgp.features import (
    CraftFeatures,
    LinearFeatures,
    PolynomialMaclaurinFeatures,
    SphericalFourierFeatures,
    exact_features,
)
from lmgp.rbf import QuadraticRBF, TaylorRBF
from lmgp.saving.files import load_with_header
from lmgp.saving.tags import TAGS, class_of, tag_of
from lmgp.sgd import KernelSGDClassifier, KernelSGDRegressor
from tests.conftest import GIVEN, MAPS, REGRESSORS, draw
from tests.public import classes

ROOT = Path(__file__).parents[2]
MATERN = {"kernel": MaternKernel([1.2, 0.9], 1.5, smoothness=1.5), "noise_variance": 0.1}
SUM = {"kernel": GaussianKernel(1.2) + 0.3 * RationalQuadraticKernel(0.7), "noise_variance": 0.1}

GPS = {name: model for name, model in REGRESSORS.items() if name != "featurized_sklearn_nystroem"} | {
    "exact_learned": ExactGPRegressor(trend="linear", ard=True, random_state=np.random.default_rng(3)),
    "exact_iterative": ExactGPRegressor(solver="iterative", **MATERN, trend=[0]),
    "exact_sum": ExactGPRegressor(**SUM, random_state=np.random.RandomState(3)),
    "exact_product": ExactGPRegressor(
        kernel=ExponentialKernel(LinearKernel()) * GaussianKernel(2.0), noise_variance=0.2
    ),
    "featurized_trend": FeaturizedGPRegressor(TaylorFeatures(30), **GIVEN, trend="linear"),
    "localized_given_centroids": LocalizedGPRegressor(
        OptimizedMaclaurinFeatures(30, sketch="tensor_srht"), centroids=[[9.0, -2.0], [13.0, -2.0]], **GIVEN
    ),
    "localized_nearest_rows": LocalizedGPRegressor(**MATERN, trend="linear"),
    "nearest_trend": NearestNeighborsGPRegressor(30, **SUM, trend=[0]),
    "spectral_matern_trend": SpectralGPRegressor(1e-2, **MATERN, trend="linear"),
    "spectral_nearest": SpectralGPRegressor(1e-2, **MATERN),
    "spectral_taylor": SpectralGPRegressor(1e-2, **GIVEN),
    "chosen": GPRegressor(kernel=["gaussian", "matern32"], random_state=0),
    "chosen_sphere": GPRegressor(kernel=MaternKernel(300.0), noise_variance=0.1, metric="sphere", random_state=0),
}
OTHERS: dict[str, Any] = {
    "log_target": TransformedTargetGPRegressor(FeaturizedGPRegressor(TaylorFeatures(20), **GIVEN), "log1p"),
    "several_targets": MultiTargetGPRegressor(FeaturizedGPRegressor(TaylorFeatures(20), **GIVEN)),
    "sgd_weights": KernelSGDRegressor(random_state=0, n_steps=200),
    "sgd_rows": KernelSGDRegressor(GaussianKernel(2.0), strategy="kernel", random_state=0, n_steps=200),
    "sgd_classes": KernelSGDClassifier(features=TaylorFeatures(20), random_state=0, n_steps=200),
    "taylor_svr": TaylorRBF(SVR(gamma=0.01), degree=4),
    "taylor_classes": TaylorRBF(SVC(gamma=0.02), degree=3),
    "quadratic_classes": QuadraticRBF(SVC(gamma=0.02)),
    "quadratic_outliers": QuadraticRBF(OneClassSVM(gamma=0.01), center="mean"),
}
FEATURES: dict[str, Any] = {
    **{
        name: clone(one).set_params(random_state=1) if hasattr(one, "random_state") else one
        for name, one in MAPS.items()
    },
    "nystroem": NystroemFeatures(12, kernel=MaternKernel(1.1), random_state=0),
    "sum": TaylorFeatures(10) + 0.5 * RandomFourierFeatures(8, random_state=0),
    "product": TaylorFeatures(10) * LinearFeatures(),
    "exact_columns": exact_features(LinearKernel()),
    "polynomial": PolynomialMaclaurinFeatures(20, random_state=0),
    "spherical": SphericalFourierFeatures(20, normalize=True, random_state=0),
    "craft": CraftFeatures(PolynomialMaclaurinFeatures(64, random_state=1), 16, random_state=0),
    "sphere": SphericalCoordinates(),
}
# What this solves for the first prediction is in the files that are written after it.
SOLVED_LATER = ("exact_iterative",)
UNFITTED = {**GPS, **OTHERS, **FEATURES}


def rows() -> tuple[Any, Any, Any]:
    """Training rows and targets, and rows to predict: near them and far away."""
    X, y, T = draw(60)
    return X, y, T


def as_if_of_many_modes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in ("spectral_nearest", "spectral_taylor"):
        monkeypatch.setattr("lmgp.posteriors.spectral.FEW_MODES", 20)


def fitted(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    X, y, _ = rows()
    classes = np.where(y > 3.5, "high", np.where(y > 2.5, "middle", "low"))
    model = clone(UNFITTED[name])
    if "classes" in name:
        return model.fit(X, classes)
    if name in ("chosen_sphere", "sphere"):
        X = pd.DataFrame(X, columns=["lon", "lat"])
    as_if_of_many_modes(name, monkeypatch)
    return model.fit(X, np.column_stack((y, y**2)) if name == "several_targets" else y)


def results(model: Any) -> dict[str, Any]:
    """All that a model answers."""
    T = rows()[2]
    if hasattr(model, "feature_names_in_"):
        T = pd.DataFrame(T[:15], columns=model.feature_names_in_)
    if not hasattr(model, "predict"):
        return {"columns": np.asarray(model.transform(T))}
    found = {"predictions": model.predict(T)}
    if hasattr(model, "decision_function"):
        found["decisions"] = model.decision_function(T)
    if hasattr(model, "noise_variance_"):
        found["mean"], found["std"] = model.predict(T, return_std=True, include_noise=True)
        if model.trend_ is not None:
            found["coefficients"] = model.trend_.coef
    if hasattr(model, "sample_y"):
        found["samples"] = model.sample_y(T[:15], 3)
        with suppress(InputError):  # not every model has one
            found["error"] = model.predict(T, return_error=True)[1]
    return found


def answer(folder: str) -> None:
    """Load what is in a folder, and write what it answers beside it: the other process runs this."""
    for path in sorted(Path(folder).glob("*.lmgp")):
        with pytest.MonkeyPatch.context() as patch:
            as_if_of_many_modes(path.stem, patch)
            np.savez(path.with_suffix(".npz"), **results(lmgp.load(path)))


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[str, Any]]]:
    """A folder of all models, with the answers of another process, and the answers of this one."""
    folder, expected = tmp_path_factory.mktemp("models"), {}
    for name in UNFITTED:
        with pytest.MonkeyPatch.context() as patch:
            model = fitted(name, patch)
            model.save(folder / f"{name}.lmgp")
            expected[name] = results(model)
            if name in SOLVED_LATER:
                model.save(folder / f"{name}.lmgp")
    code = f"from tests.saving.test_models import answer; answer({str(folder)!r})"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, cwd=ROOT)
    return folder, expected


@pytest.mark.slow
@pytest.mark.parametrize("name", UNFITTED)
@pytest.mark.filterwarnings("ignore")
def test_what_is_loaded_elsewhere_answers_the_same_to_the_last_bit(name: str, saved: Any) -> None:
    folder, expected = saved
    with np.load(folder / f"{name}.npz") as found:
        assert set(found.files) == set(expected[name])
        for what, values in expected[name].items():
            np.testing.assert_array_equal(found[what], values, err_msg=what, strict=True)


@pytest.mark.parametrize("name", UNFITTED)
@pytest.mark.filterwarnings("ignore")
def test_what_is_loaded_has_the_same_parameters_and_can_be_saved_again(name: str, saved: Any, tmp_path: Path) -> None:
    path = saved[0] / f"{name}.lmgp"
    model = lmgp.load(path)
    assert type(model) is type(UNFITTED[name])
    given = UNFITTED[name].get_params(deep=False)
    if "estimator" in given:
        given["estimator"] = None  # of scikit-learn, and with nothing in it that predicts
    assert {one: repr(value) for one, value in model.get_params(deep=False).items() if one != "random_state"} == {
        one: repr(value) for one, value in given.items() if one != "random_state"
    }
    model.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


def test_every_public_class_that_is_fitted_is_tested() -> None:
    fitted_ones = {one.__name__ for one in classes(object) if hasattr(one, "fit")}
    assert fitted_ones <= {place.rpartition(".")[2] for place in TAGS.values()}
    # A composed map is made by an operator, and a modulated one by a function.
    tested = {type(one).__name__ for one in UNFITTED.values()}
    assert fitted_ones - tested == {"ModulatedFeatures", "ScaledFeatures"}


def test_every_tag_has_a_class_of_its_own() -> None:
    assert [tag_of(class_of(tag)) for tag in TAGS] == list(TAGS)


def test_rows_are_kept_by_those_that_predict_from_them(saved: Any) -> None:
    kept = {name: load_with_header(saved[0] / f"{name}.lmgp")[1]["rows_kept"] for name in UNFITTED}
    of_rows = {name for name in GPS if not name.startswith("featurized")} | {"sgd_rows"}
    assert {name for name in UNFITTED if kept[name]} == of_rows
    assert {kept[name] for name in of_rows - {"sgd_rows"}} == {60}


def test_iterations_are_not_made_again(saved: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def again(*arguments: Any, **options: Any) -> None:
        raise AssertionError("solved again")

    monkeypatch.setattr("lmgp.posteriors.iterative.conjugate_gradients", again)
    model = lmgp.load(saved[0] / "exact_iterative.lmgp")
    np.testing.assert_array_equal(model.predict(rows()[2]), saved[1]["exact_iterative"]["predictions"])
    assert model.iterations_.number > 0


def test_a_model_without_rows_does_not_grow_with_them(tmp_path: Path) -> None:
    sizes = []
    for n in (100, 10_000):
        X, y, _ = draw(n)
        FeaturizedGPRegressor(TaylorFeatures(20), **GIVEN).fit(X, y).save(tmp_path / "model")
        sizes.append((tmp_path / "model").stat().st_size)
    assert abs(sizes[1] - sizes[0]) < 100


def test_a_large_model_of_rows_is_little_larger_than_the_rows(tmp_path: Path) -> None:
    X, y, _ = draw(20_000, (0.0, 0.0), (90.0, 90.0))
    numbers = 8 * 3 * len(y)
    for model in (
        LocalizedGPRegressor(TaylorFeatures(55), **GIVEN),
        NearestNeighborsGPRegressor(20, **MATERN),
    ):
        model.fit(X, y).save(tmp_path / "model")
        assert (tmp_path / "model").stat().st_size < 2.5 * numbers


def test_nearest_rows_of_many_columns(tmp_path: Path) -> None:
    """Whose search tree is another one than that of few columns."""
    X = np.random.default_rng(0).normal(size=(200, 6))
    model = NearestNeighborsGPRegressor(20, kernel=MaternKernel(2.0), noise_variance=0.1).fit(X, X.sum(axis=1))
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(lmgp.load(tmp_path / "model").predict(X + 0.1), model.predict(X + 0.1))


def test_columns_that_a_data_frame_lists_are_a_list(tmp_path: Path) -> None:
    X, y, new = draw(30)
    table = pd.DataFrame(X).add_prefix("x")
    model = ExactGPRegressor(**MATERN, trend=table.columns[:1]).fit(table, y)
    model.save(tmp_path / "model.lmgp")
    loaded = lmgp.load(tmp_path / "model.lmgp")
    assert loaded.trend == ["x0"]
    ExactGPRegressor(**MATERN, trend=pd.DataFrame(X).columns[:1]).fit(X, y).save(tmp_path / "range.lmgp")
    assert lmgp.load(tmp_path / "range.lmgp").trend == [0]
    rows = pd.DataFrame(new).add_prefix("x")
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))
