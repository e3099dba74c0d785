"""Pipelines of scikit-learn's transformers and a model of ours, in files."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.exceptions import InconsistentVersionWarning, NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    PolynomialFeatures,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    SplineTransformer,
    StandardScaler,
)

import lmgp
from lmgp import ExactGPRegressor, GaussianKernel
from lmgp.errors import InputError, ModelFileError
from lmgp.saving.tags import OF_SCIKIT_LEARN, class_of, tag_of
from tests.saving.rewriting import rewritten


def model() -> ExactGPRegressor:
    return ExactGPRegressor(GaussianKernel(2.0), 0.1)


def table() -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(40, 3)), columns=["a", "b", "c"])
    frame["kind"], frame["place"] = np.where(frame["a"] > 0, "u", "v"), rng.choice(["x", "y", "z"], 40)
    return frame, frame["a"].to_numpy() + 0.1 * rng.normal(size=40)


NUMBERS = ["a", "b", "c"]
STEPS: list[Any] = [
    StandardScaler(),
    MinMaxScaler(),
    MaxAbsScaler(),
    RobustScaler(),
    QuantileTransformer(n_quantiles=20, output_distribution="normal", random_state=0),
    PowerTransformer(),
    PolynomialFeatures(2),
    SimpleImputer(strategy="median", add_indicator=True),
    PCA(2),
    FunctionTransformer(),
    make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
        (OneHotEncoder(sparse_output=False, handle_unknown="ignore", dtype=np.float32), ["kind", "place"]),
        remainder="passthrough",
    ),
    ColumnTransformer(
        [("numbers", StandardScaler(), slice(0, 3)), ("kinds", OrdinalEncoder(), ["kind"]), ("rest", "drop", ["place"])]
    ).set_output(transform="pandas"),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: type(step).__name__)
def test_a_pipeline_predicts_the_same_after_it_was_saved(step: Any, tmp_path: Path) -> None:
    frame, y = table()
    frame = frame if isinstance(step, ColumnTransformer) else frame[NUMBERS]
    if isinstance(step, SimpleImputer):
        frame.loc[3, "a"] = np.nan
    pipeline = make_pipeline(step, model()).fit(frame, y)
    lmgp.save(pipeline, tmp_path / "pipeline.lmgp")
    again = lmgp.load(tmp_path / "pipeline.lmgp")
    assert repr(again) == repr(pipeline)
    for one, other in zip(pipeline.predict(frame, return_std=True), again.predict(frame, return_std=True), strict=True):
        np.testing.assert_array_equal(one, other)
    lmgp.save(again, tmp_path / "again.lmgp")
    assert (tmp_path / "again.lmgp").read_bytes() == (tmp_path / "pipeline.lmgp").read_bytes()


def test_save_writes_what_the_method_writes(tmp_path: Path) -> None:
    frame, y = table()
    fitted = model().fit(frame[NUMBERS], y)
    fitted.save(tmp_path / "one.lmgp")
    lmgp.save(fitted, tmp_path / "other.lmgp")
    assert (tmp_path / "one.lmgp").read_bytes() == (tmp_path / "other.lmgp").read_bytes()


def test_tags_lead_to_their_classes() -> None:
    for tag in OF_SCIKIT_LEARN:
        assert tag_of(class_of(tag)) == tag


@pytest.mark.parametrize("steps", [None, [], 3])
def test_a_pipeline_without_steps_is_no_model(steps: Any, tmp_path: Path) -> None:
    frame, y = table()
    file = tmp_path / "pipeline.lmgp"
    lmgp.save(make_pipeline(StandardScaler(), model()).fit(frame[NUMBERS], y), file)

    def empty(header: dict[str, Any], arrays: list[Any]) -> None:
        header["model"]["state"]["steps"] = steps

    file.write_bytes(rewritten(file.read_bytes(), empty))
    with pytest.raises(ModelFileError, match="it holds no model"):
        lmgp.load(file)


def test_another_version_of_scikit_learn_is_told(tmp_path: Path) -> None:
    frame, y = table()
    pipeline = make_pipeline(StandardScaler(), model()).fit(frame[NUMBERS], y)
    file = tmp_path / "pipeline.lmgp"
    lmgp.save(pipeline, file)

    def age(header: dict[str, Any], arrays: list[Any]) -> None:
        header["model"]["state"]["steps"][0]["items"][1]["state"]["_sklearn_version"] = "1.0"

    file.write_bytes(rewritten(file.read_bytes(), age))
    with pytest.warns(InconsistentVersionWarning):
        again = lmgp.load(file)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(again.predict(frame[NUMBERS]), pipeline.predict(frame[NUMBERS]))


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (SplineTransformer(), "Pipeline cannot be saved: its steps.0.1 is SplineTransformer of sklearn"),
        (FunctionTransformer(np.tanh), "its steps.0.1.func is the function tanh"),
    ],
)
def test_other_steps_are_refused_by_name(step: Any, told: str, tmp_path: Path) -> None:
    frame, y = table()
    pipeline = make_pipeline(step, model()).fit(frame[NUMBERS], y)
    with pytest.raises(InputError, match=told):
        lmgp.save(pipeline, tmp_path / "pipeline.lmgp")
    assert not list(tmp_path.iterdir())


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    frame, y = table()
    search = GridSearchCV(model(), {"noise_variance": [0.1, 0.2]}, cv=2).fit(frame[NUMBERS], y)
    for one, told in (
        (search, "GridSearchCV cannot be saved.*: save its best_estimator_"),
        (StandardScaler().fit(frame[NUMBERS]), "a pipeline that ends in one"),
        (make_pipeline(StandardScaler()).fit(frame[NUMBERS]), "a pipeline that ends in one"),
    ):
        with pytest.raises(InputError, match=told):
            lmgp.save(one, tmp_path / "file.lmgp")
    with pytest.raises(NotFittedError):
        lmgp.save(make_pipeline(StandardScaler(), model()), tmp_path / "file.lmgp")
    assert not list(tmp_path.iterdir())
