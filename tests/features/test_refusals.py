"""Kernels that no map, or only some, can serve; and maps that would not fit into memory."""

from typing import Any

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import StandardScaler

from lmgp import (
    FeaturizedGPRegressor,
    GaussianKernel,
    LinearKernel,
    MaternKernel,
    NystroemFeatures,
    OptimizedMaclaurinFeatures,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    TaylorFeatures,
)
from lmgp.errors import InputError, MemoryLimitError
from lmgp.features.adapter import TransformerFeatures, make_feature_map, work_of
from lmgp.features.composition import CraftFeatures, LinearFeatures, ModulatedFeatures
from lmgp.kernels.base import Kernel
from lmgp.posteriors.weights import check_model

X = np.random.default_rng(0).normal(size=(60, 2))
Y = np.sin(X[:, 0]) + X[:, 1]


def first_column(rows: np.ndarray) -> np.ndarray:
    return rows[:, 0]


# ------------------------------------------------------------------------------------------------------- the prior


COMPOSED = {
    "sum": RandomFourierFeatures(40, random_state=0) + RandomFourierFeatures(40, random_state=1),
    "multiple": 2.0 * RandomFourierFeatures(40, random_state=0),
    "pipeline": make_pipeline(StandardScaler(), RandomFourierFeatures(40, random_state=0)),
    "other library": Nystroem(n_components=20, random_state=0),
}


@pytest.mark.parametrize("name", COMPOSED)
@pytest.mark.parametrize(
    "kernel",
    [
        MaternKernel([0.7, 1.5], 2.0),
        MaternKernel([0.7, 1.5]) + 0.5 * GaussianKernel([2.0, 1.0]),
        3.0 * GaussianKernel([0.7, 1.5]) * MaternKernel(2.0),
    ],
    ids=["matern", "sum", "product"],
)
def test_a_composed_map_has_the_prior_variance_of_any_stationary_kernel(name: str, kernel: Kernel) -> None:
    made = make_feature_map(COMPOSED[name], kernel, np.random.default_rng(0)).fit(X)
    inner = made.transformer_.transform(X)
    np.testing.assert_allclose(made.transform(X), kernel.prior_variance() ** 0.5 * inner, rtol=1e-12)
    assert kernel.prior_variance() == pytest.approx(kernel.diagonal(X[:1])[0])


@pytest.mark.parametrize("name", COMPOSED)
@pytest.mark.parametrize("kernel", [LinearKernel(), GaussianKernel() + LinearKernel()], ids=["linear", "sum"])
def test_a_composed_map_is_refused_where_the_prior_variance_is_not_one_number(name: str, kernel: Kernel) -> None:
    model = FeaturizedGPRegressor(COMPOSED[name], kernel=kernel, noise_variance=0.1)
    with pytest.raises(InputError, match=r"one prior variance for all rows .* has none.*: NystroemFeatures"):
        model.fit(X, Y)


@pytest.mark.parametrize(
    "features",
    [
        RandomFourierFeatures(20),
        TaylorFeatures(20),
        OptimizedMaclaurinFeatures(20),
        RandomMaclaurinFeatures(20),
        NystroemFeatures(20),
        TransformerFeatures(StandardScaler()),
    ],
    ids=lambda features: type(features).__name__,
)
def test_a_kernel_that_is_zero_is_refused(features: Any) -> None:
    with pytest.raises(InputError, match="is zero everywhere"):
        features.set_params(kernel=0.0 * GaussianKernel()).fit(X)
    with pytest.raises(InputError, match="is zero everywhere"):
        FeaturizedGPRegressor(features, kernel=0.0 * GaussianKernel(), noise_variance=0.1).fit(X, Y)


def test_a_kernel_that_is_zero_at_every_landmark_is_refused() -> None:
    with pytest.raises(InputError, match=r"LinearKernel\(\) is zero at all landmarks"):
        NystroemFeatures(kernel=LinearKernel()).fit(np.zeros((5, 2)))


def test_nystroem_features_need_no_metric_in_a_global_model() -> None:
    model = FeaturizedGPRegressor(NystroemFeatures(60), kernel=LinearKernel(), noise_variance=0.1).fit(X, Y)
    gram = X @ X.T + 0.1 * np.eye(60)
    expected = Y.mean() + X @ X.T @ np.linalg.solve(gram, Y - Y.mean())
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-8)


# ---------------------------------------------------------------------------------------------------------- memory


def test_given_landmarks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(MemoryLimitError, match="400,000 columns"):
        NystroemFeatures(landmarks=np.zeros((400_000, 1))).fit(np.zeros((3, 1)))


@pytest.mark.parametrize(
    ("features", "n_columns"),
    [
        (LinearFeatures(), 2),
        (RandomFourierFeatures(30) + TaylorFeatures(10), 40),
        (RandomFourierFeatures(30) * TaylorFeatures(10), 300),
        (3.0 * RandomFourierFeatures(30), 30),
        (ModulatedFeatures(RandomFourierFeatures(30), first_column), 30),
        (CraftFeatures(RandomFourierFeatures(30), 8), 8),
        (make_pipeline(StandardScaler(), RandomFourierFeatures(30) + Nystroem(n_components=7)), 37),
        (FeatureUnion([("one", RandomFourierFeatures(30)), ("two", TaylorFeatures(10))]), 40),
        (Nystroem(n_components=13), 13),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_columns_of_any_map_are_counted_before_it_is_fitted(features: Any, n_columns: int) -> None:
    assert work_of(features, 2).columns == n_columns
    assert features.fit(X).transform(X).shape[1] == n_columns


@pytest.mark.parametrize(
    "features",
    [
        RandomFourierFeatures(30_000) + RandomFourierFeatures(30_000),
        RandomFourierFeatures(300) * RandomFourierFeatures(300),
        FeatureUnion([("one", RandomFourierFeatures(60_000)), ("two", RandomFourierFeatures(2))]),
        TaylorFeatures(60_000),
    ],
    ids=["sum", "product", "union", "taylor"],
)
def test_the_matrices_of_any_map_are_refused_before_it_is_made(features: Any) -> None:
    model = FeaturizedGPRegressor(features, kernel=GaussianKernel(), noise_variance=0.1)
    with pytest.raises(MemoryLimitError, match=r"columns take .* of max_memory_gib=4\. Use at most [\d,]+ features"):
        model.fit(X, Y)


@pytest.mark.parametrize("d", [2, 8])
@pytest.mark.parametrize("limit", [0.002, 0.1])
def test_what_is_said_to_fit_fits(d: int, limit: float) -> None:
    with pytest.raises(MemoryLimitError) as refused:
        check_model(TaylorFeatures(20_000), 1000, d, limit)
    most = int(str(refused.value).split("at most ")[1].split(" ")[0].replace(",", ""))
    check_model(TaylorFeatures(most), 1000, d, limit)
    with pytest.raises(MemoryLimitError):
        check_model(TaylorFeatures(most + 1), 1000, d, limit)


def test_the_arrays_of_a_moment_plan_count() -> None:
    # Of two inputs the statistics are sums of moments, whose plan has two arrays of D × D; of eight they are not.
    with_plan, without = (TaylorFeatures(990).n_bytes(1000, d) / TaylorFeatures(990).work(d).columns for d in (2, 8))
    assert with_plan > 16 * 900
    assert without < 16 * 100
