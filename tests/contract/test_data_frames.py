"""The contract of all estimators: columns as people have them, in data frames and arrays, at fit and at predict."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    NearestNeighborsGPRegressor,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    ResidualGPRegressor,
    SpectralGPRegressor,
    TaylorFeatures,
)
from lmgp.errors import InputError, ScaleWarning
from lmgp.sgd import KernelSGDClassifier, KernelSGDRegressor

GIVEN: dict[str, Any] = {"kernel": GaussianKernel(2.0), "noise_variance": 0.1, "random_state": 0}
CLASSES = (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    LocalizedGPRegressor,
    NearestNeighborsGPRegressor,
    ResidualGPRegressor,
    SpectralGPRegressor,
    GPRegressor,
)
REGRESSORS: dict[str, Callable[..., Any]] = {one.__name__: one for one in CLASSES}
MODELS: dict[str, Callable[[], Any]] = {
    **{name: lambda one=one: one(**GIVEN) for name, one in REGRESSORS.items()},
    "KernelSGDRegressor": lambda: KernelSGDRegressor(random_state=0, n_steps=200),
    "KernelSGDClassifier": lambda: KernelSGDClassifier(random_state=0, n_steps=200),
}
MAPS: dict[str, Callable[[], Any]] = {
    "TaylorFeatures": lambda: TaylorFeatures(20),
    "RandomFourierFeatures": lambda: RandomFourierFeatures(20, random_state=0),
    "OrthogonalFourierFeatures": lambda: OrthogonalFourierFeatures(20, random_state=0),
}
every_model = pytest.mark.parametrize("name", MODELS)
every_regressor = pytest.mark.parametrize("name", REGRESSORS)
every_estimator = pytest.mark.parametrize("name", MODELS | MAPS)


def make(name: str) -> Any:
    return (MODELS | MAPS)[name]()


def table(n: int = 40) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"size": rng.normal(size=n), "rooms": rng.integers(1, 5, n), "new": rng.random(n) < 0.5})
    return df, (df["size"] > 0).to_numpy().astype(int)


def applied(estimator: Any, X: Any) -> np.ndarray:
    return estimator.transform(X) if hasattr(estimator, "transform") else estimator.predict(X)


@every_estimator
def test_columns_of_every_numeric_type_are_those_of_floats(name: str) -> None:
    df, y = table()
    floats = df.astype(float)
    expected = applied(make(name).fit(floats, y), floats)
    others = {
        "as they come": df,
        "nullable": df.astype({"size": "Float64", "rooms": "Int64", "new": "boolean"}),
        "text": floats.astype(str),
        "objects": df.astype(object),
        **({} if name == "GPRegressor" else {"a category": df.astype({"rooms": "category"})}),
    }
    for other in others.values():
        np.testing.assert_allclose(applied(make(name).fit(other, y), other), expected, rtol=1e-12)


@every_estimator
def test_what_is_no_number_is_refused_by_the_name_of_its_column(name: str) -> None:
    df, y = table()
    df = df.drop(columns="new")
    dates = pd.date_range("2020-01-01", periods=len(df))
    bad = {
        "Column 'sold' of X has dates.*one date for all tables": df.assign(sold=dates),
        "Column 'held' of X has durations.*total_seconds": df.assign(held=dates - dates[0]),
        "Column 'wave' of X has complex numbers": df.assign(wave=1j),
        "Column 'town' of X is not numeric: could not convert string to float: 'York'": df.assign(town="York"),
        r"Input X contains NaN .*in 40 of 40 rows .*column 'age' \(40\)": df.assign(age=np.nan),
    }
    for message, frame in bad.items():
        if name != "GPRegressor":  # which takes dates, text and gaps: see test_columns
            with pytest.raises(InputError, match=message):
                make(name).fit(frame, y)
        last = list(frame)[-1]
        fitted = make(name).fit(frame.assign(**{last: 1.0}), y)
        with pytest.raises(InputError, match=message):
            applied(fitted, frame)


@every_estimator
def test_frames_and_arrays_of_nothing_but_dates_are_refused(name: str) -> None:
    _, y = table()
    dates = pd.DataFrame({"built": pd.date_range("2020", periods=40), "sold": pd.date_range("2021", periods=40)})
    if name == "GPRegressor":
        assert np.isfinite(applied(make(name).fit(dates, y), dates)).all()
        return
    with pytest.raises(InputError, match="Column 'built' of X, column 'sold' of X have dates"):
        make(name).fit(dates, y)
    with pytest.raises(InputError, match="Column 0 of X, column 1 of X have dates"):
        make(name).fit(dates.to_numpy(), y)


@every_estimator
def test_names_are_checked_as_scikit_learn_does(name: str) -> None:
    df, y = table()
    fitted = make(name).fit(df, y)
    assert list(fitted.feature_names_in_) == ["size", "rooms", "new"]
    with pytest.raises(ValueError, match="feature names should match"):
        applied(fitted, df.rename(columns={"new": "old"}))
    with pytest.raises(InputError, match=r"(?s)feature names.*Take them by name: X\[model.feature_names_in_\]"):
        applied(fitted, df[["rooms", "size", "new"]])
    with pytest.warns(UserWarning, match="valid feature names"):
        applied(fitted, df.astype(float).to_numpy())


TARGETS = {
    "integers": pd.Series([0, 1] * 20),
    "booleans": pd.Series([False, True] * 20),
    "nullable": pd.Series([0, 1] * 20, dtype="Int64"),
    "nullable booleans": pd.Series([False, True] * 20, dtype="boolean"),
    "text": pd.Series(["0", "1"] * 20),
    "a list": [0, 1] * 20,
}


@every_regressor
@pytest.mark.parametrize("kind", TARGETS)
def test_targets_of_every_numeric_type_are_those_of_floats(name: str, kind: str) -> None:
    df, _ = table()
    expected = make(name).fit(df, np.array([0.0, 1.0] * 20)).predict(df)
    np.testing.assert_allclose(make(name).fit(df, TARGETS[kind]).predict(df), expected, rtol=1e-12)


@every_regressor
def test_targets_that_are_none(name: str) -> None:
    df, y = table()
    bad = {
        "y has dates": pd.Series(pd.date_range("2020", periods=40)),
        "y has complex": y * 1j,
        "y is not numeric.*For classes use a classifier": np.where(y > 0, "yes", "no"),
        r"Input y contains NaN \(missing values\) in 1 of 40 rows \(3\)": pd.Series(y, dtype="Int64").mask(
            df.index == 3
        ),
    }
    for message, target in bad.items():
        with pytest.raises(InputError, match=message):
            make(name).fit(df, target)


# ------------------------------------------------------------------------------------------------------------- scales


def housing(n: int = 120) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(1)
    df = pd.DataFrame(
        {
            "income": rng.gamma(3.0, 1.3, n),
            "population": rng.lognormal(7.0, 1.0, n),
            "rooms": rng.integers(1, 9, n),
            "latitude": rng.uniform(32.0, 42.0, n),
            "one": 1.0,
        }
    )
    return df, np.log1p(df["income"]).to_numpy() + 0.05 * np.sin(df["latitude"]) + 0.05 * rng.normal(size=n)


# Fourier modes serve three columns.
OTHERS = [name for name in REGRESSORS if name not in ("GPRegressor", "SpectralGPRegressor")]


@pytest.mark.parametrize("name", OTHERS)
def test_one_lengthscale_for_columns_a_thousandfold_apart_is_warned_of_once(name: str) -> None:
    df, y = housing()
    df["share"] = df["income"] / 100.0
    with pytest.warns(ScaleWarning) as record:
        model = REGRESSORS[name](random_state=0).fit(df, y)
    (warning,) = [one for one in record if one.category is ScaleWarning]
    assert warning.filename == __file__
    for told in ("column 'population' of X", "column 'share'", "StandardScaler", "ard=True", "GPRegressor"):
        assert told in str(warning.message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(df)


def test_one_lengthscale_with_bounds_is_warned_of_as_well() -> None:
    df, y = housing()
    bounds = (0.01, 1e5)
    kernel = GaussianKernel(1.0, lengthscale_bounds=bounds) + GaussianKernel(1.0)
    with pytest.warns(ScaleWarning, match="in a pipeline.*give the kernel one lengthscale a column"):
        ExactGPRegressor(kernel, 0.1).fit(df, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScaleWarning)
        ExactGPRegressor(GaussianKernel(np.ones(df.shape[1]), lengthscale_bounds=bounds), 0.1).fit(df, y)


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize(
    ("parameters", "units"),
    [({"ard": True}, 1.0), ({"kernel": GaussianKernel(2.0)}, 1.0), ({}, [1.0, 1e-3, 1.0, 1.0, 1.0])],
)
def test_otherwise_there_is_no_such_warning(name: str, parameters: dict[str, Any], units: Any) -> None:
    df, y = housing()
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScaleWarning)
        REGRESSORS[name](random_state=0, **parameters).fit(df.astype(float) * units, y)


@pytest.mark.slow
def test_the_model_to_start_with_takes_them_as_they_come() -> None:
    X, y = housing(300)
    train, test = slice(0, 200), slice(200, 300)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ScaleWarning)
        model = GPRegressor(random_state=0).fit(X[train], y[train])
    assert model.score(X[test], y[test]) > 0.7
    # In other units it is the same model.
    units = np.array([1e3, 1e-6, 1.0, 60.0, 1.0])
    scaled = GPRegressor(random_state=0).fit(X[train] * units, y[train])
    np.testing.assert_allclose(scaled.predict(X[test] * units), model.predict(X[test]), rtol=1e-4)


FEW_COLUMNS = pytest.mark.parametrize("name", [name for name in MODELS if name != "SpectralGPRegressor"])


@FEW_COLUMNS
def test_categories_become_columns_in_a_column_transformer(name: str) -> None:
    df, y = table()
    df["town"] = np.array(["York", "Leeds", "Hull"])[np.arange(40) % 3]
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    encoded = make_column_transformer((encoder, ["town"]), remainder="passthrough", verbose_feature_names_out=False)
    pipeline = make_pipeline(encoded, make(name)).set_output(transform="pandas").fit(df, y)
    names = ["town_Hull", "town_Leeds", "town_York", "size", "rooms", "new"]
    assert pipeline[-1].feature_names_in_.tolist() == names
    towns = (df[["town"]].to_numpy() == np.array(["Hull", "Leeds", "York"])).astype(float)
    by_hand = np.column_stack((towns, df[["size", "rooms", "new"]].astype(float)))
    np.testing.assert_allclose(pipeline.predict(df), make(name).fit(by_hand, y).predict(by_hand), rtol=1e-10)
    elsewhere = by_hand.copy()
    elsewhere[:, :3] = 0.0
    expected = make(name).fit(by_hand, y).predict(elsewhere)
    np.testing.assert_allclose(pipeline.predict(df.assign(town="Selby")), expected, rtol=1e-10)


@pytest.mark.parametrize("name", [*REGRESSORS, "RandomFourierFeatures"])
def test_frames_of_sparse_columns_are_refused_with_the_cure(name: str) -> None:
    df, y = table()
    sparse = df.astype(float).astype(pd.SparseDtype(float, 0.0))
    with pytest.raises(TypeError, match=r"sparse columns was passed as X.* needs dense ones.*X\.sparse\.to_dense\(\)"):
        make(name).fit(sparse, y)
    expected = applied(make(name).fit(df, y), df)
    np.testing.assert_allclose(applied(make(name).fit(sparse.sparse.to_dense(), y), df.astype(float)), expected)


@FEW_COLUMNS
def test_sparse_columns_of_categories_are_refused_with_the_cure(name: str) -> None:
    df, y = table()
    df["town"] = [f"town {i}" for i in range(40)]
    encoded = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    with pytest.raises((ValueError, TypeError), match=r"sparse_output=False|toarray"):
        make_pipeline(encoded, make(name)).fit(df, y)


def test_a_series_is_no_table() -> None:
    frame = pd.DataFrame({"a": np.linspace(0.0, 1.0, 12), "b": np.linspace(1.0, 3.0, 12)})
    model = ExactGPRegressor(GaussianKernel(1.0), 0.1).fit(frame, frame["a"])
    for X in (frame["a"], frame.iloc[0]):
        with pytest.raises(ValueError, match=r"Expected 2D array|Expected a 2-dimensional container"):
            model.predict(X)


def test_text_says_nothing_of_what_is_shown() -> None:
    frame = pd.DataFrame({"a": np.linspace(0.0, 1.0, 12)})
    with pytest.raises(InputError, match="verbose must be True, False, 1 or 2; got 'yes'"):
        ExactGPRegressor(GaussianKernel(1.0), 0.1).fit(frame, frame["a"], verbose="yes")
