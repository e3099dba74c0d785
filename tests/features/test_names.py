"""The names of columns say which of the formula's terms a column is."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from lmgp import GaussianKernel, NystroemFeatures, OptimizedMaclaurinFeatures, RandomFourierFeatures, TaylorFeatures
from lmgp.errors import InputError
from lmgp.features import (
    CraftFeatures,
    LinearFeatures,
    ModulatedFeatures,
    PolynomialMaclaurinFeatures,
    SphericalFourierFeatures,
)
from lmgp.features.adapter import TransformerFeatures

HOUSES = pd.DataFrame(np.random.default_rng(0).uniform(-1.0, 1.0, (20, 2)), columns=["size", "rooms"])
X = HOUSES.to_numpy()


def names(features: Any, rows: Any = HOUSES) -> list[str]:
    return features.fit(rows).get_feature_names_out().tolist()


def test_taylor_columns_are_named_by_their_exponents() -> None:
    assert names(TaylorFeatures(6)) == ["taylor[0,0]", "taylor[1,0]", "taylor[0,1]", "taylor[2,0]", "taylor[1,1]",
                                        "taylor[0,2]"]  # fmt: skip
    columns = TaylorFeatures(21).set_output(transform="pandas").fit_transform(HOUSES)
    expected = np.exp(-0.5 * np.square(X).sum(axis=1)) * X[:, 0] ** 2 * X[:, 1] / np.sqrt(2.0)
    np.testing.assert_allclose(columns["taylor[2,1]"], expected, rtol=1e-12)


def test_fourier_columns_are_named_cosines_and_sines() -> None:
    features = RandomFourierFeatures(8, random_state=0).set_output(transform="pandas").fit(HOUSES)
    columns, angles = features.transform(HOUSES), X @ features.frequencies_.T
    np.testing.assert_allclose(columns["cos[2]"], 0.5 * np.cos(angles[:, 2]), rtol=1e-12)
    np.testing.assert_allclose(columns["sin[3]"], 0.5 * np.sin(angles[:, 3]), rtol=1e-12)
    assert names(SphericalFourierFeatures(4, normalize=True)) == ["cos[0]", "cos[1]", "sin[0]", "sin[1]"]


@pytest.mark.parametrize("cls", [OptimizedMaclaurinFeatures, PolynomialMaclaurinFeatures])
def test_maclaurin_columns_are_named_by_their_degree(cls: type) -> None:
    features = cls(12, random_state=0).fit(X)
    degrees = [int(name.removeprefix("maclaurin[").partition(",")[0]) for name in features.get_feature_names_out()]
    assert np.bincount(degrees, minlength=len(features.degree_counts_)).tolist() == features.degree_counts_.tolist()
    # A column of degree n is even or odd, as n is.
    signs = features.transform(-X) / features.transform(X)
    np.testing.assert_allclose(signs, np.broadcast_to((-1.0) ** np.array(degrees), signs.shape), rtol=1e-9)


def test_columns_of_a_sum_of_kernels_are_named_by_its_parts() -> None:
    features = TaylorFeatures(6, kernel=GaussianKernel() + GaussianKernel(3.0))
    assert names(features) == [f"part{i}__taylor[{powers}]" for i in (0, 1) for powers in ("0,0", "1,0", "0,1")]


def test_landmarks_and_projections_are_numbered() -> None:
    assert names(NystroemFeatures(2, random_state=0)) == ["nystroem[0]", "nystroem[1]"]
    assert names(CraftFeatures(TaylorFeatures(10), 2, random_state=0)) == ["craft[0]", "craft[1]"]


def test_composed_maps_name_their_parts() -> None:
    linear, scaled = LinearFeatures(), StandardScaler()
    assert names(linear) == ["linear[size]", "linear[rooms]"]
    assert names(linear + scaled) == ["left__linear[size]", "left__linear[rooms]", "right__size", "right__rooms"]
    assert names(2.0 * linear) == names(linear)
    assert names(linear * linear, X)[1:3] == ["linear[x0]*linear[x1]", "linear[x1]*linear[x0]"]
    assert names(ModulatedFeatures(linear, first)) == ["f*linear[size]", "f*linear[rooms]"]
    assert names(TransformerFeatures(scaled)) == ["size", "rooms"]
    nameless = FunctionTransformer(np.cos)  # makes no names
    assert names(linear + nameless)[2:] == ["right__functiontransformer0", "right__functiontransformer1"]
    assert names(linear + Nystroem(n_components=1))[2:] == ["right__nystroem0"]


def first(rows: np.ndarray) -> np.ndarray:
    return rows[:, 0]


def test_rows_of_many_columns_are_numbered() -> None:
    assert names(TaylorFeatures(degree=1), csr_array(np.eye(3))) == ["taylor0", "taylor1", "taylor2", "taylor3"]


def test_names_pass_through_pipelines_and_unions() -> None:
    union = make_union(LinearFeatures(), make_pipeline(StandardScaler(), TaylorFeatures(3)))
    assert names(union.set_output(transform="pandas")) == [
        *("linearfeatures__linear[size]", "linearfeatures__linear[rooms]"),
        *("pipeline__taylor[0,0]", "pipeline__taylor[1,0]", "pipeline__taylor[0,1]"),
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["a"], r"not equal to feature_names_in_, \['size', 'rooms'\]; got \['a'\]. Leave it out"),
        (["rooms", "size"], r"\['size', 'rooms'\]; got \['rooms', 'size'\]"),
    ],
)
def test_other_names_than_those_of_fit_are_refused(given: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TaylorFeatures(6).fit(HOUSES).get_feature_names_out(given)
    with pytest.raises(InputError, match="the number of columns of X, 2; got"):
        TaylorFeatures(6).fit(X).get_feature_names_out(["a"])
