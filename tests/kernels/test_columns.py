"""Kernels of some of the columns, in models, and columns by their names."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import lmgp
from lmgp import (
    ExactGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    PeriodicKernel,
    RandomFourierFeatures,
    ResidualGPRegressor,
    learn,
)
from lmgp.errors import InputError
from lmgp.sgd import KernelSGDRegressor
from tests.conftest import dense_gp

N, NOISE = 90, 0.04
KERNEL = MaternKernel([1.5, 0.8], 1.3, smoothness=1.5).on(["lon", "lat"]) * PeriodicKernel(12.0, 1.2).on("month")
MODELS: dict[str, Any] = {
    "exact": ExactGPRegressor(),
    "nearest rows": NearestNeighborsGPRegressor(N),
    "residual": ResidualGPRegressor(NystroemFeatures(20), n_neighbors=N, block_size=N, random_state=0),
    "localized": LocalizedGPRegressor(),
    "centroids": LocalizedGPRegressor(NystroemFeatures(N), threshold=100.0, random_state=0),
    "chosen": GPRegressor(),
}


def table(n: int = N, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "month": rng.integers(0, 48, n).astype(float),
            "lat": rng.uniform(50.0, 53.0, n),
            "other": rng.normal(size=n),
            "lon": rng.uniform(-3.0, 3.0, n),
        }
    )
    y = np.sin(frame.lon) + np.cos(np.pi * frame.month / 6.0) * frame.lat / 50.0 + 0.2 * rng.normal(size=n)
    return frame, y.to_numpy()


def by_formula(X: pd.DataFrame, Z: pd.DataFrame) -> np.ndarray:
    squares = ((X.lon.to_numpy()[:, None] - Z.lon.to_numpy()) / 1.5) ** 2
    r = np.sqrt(3.0 * (squares + ((X.lat.to_numpy()[:, None] - Z.lat.to_numpy()) / 0.8) ** 2))
    waves = np.sin(np.pi * (X.month.to_numpy()[:, None] - Z.month.to_numpy()) / 12.0) / 1.2
    return 1.3 * (1.0 + r) * np.exp(-r) * np.exp(-2.0 * waves**2)


@pytest.mark.parametrize("name", MODELS)
def test_models_predict_as_dense_algebra(name: str) -> None:
    (X, y), (T, _) = table(), table(20, seed=1)
    model = MODELS[name].set_params(kernel=KERNEL, noise_variance=NOISE)
    mean, std = model.fit(X, y).predict(T, return_std=True)
    prior = np.full(20, 1.3)
    expected, variance, _ = dense_gp(by_formula(X, X), by_formula(X, T), prior, y, np.full(N, NOISE))
    np.testing.assert_allclose(mean, expected, atol=1e-7)
    np.testing.assert_allclose(std**2, variance, atol=1e-7)
    assert model.kernel is KERNEL
    assert [model.kernel_.left.columns, model.kernel_.right.columns] == [[3, 1], [0]]


def test_a_column_that_no_part_sees_changes_nothing() -> None:
    X, y = table()
    kernel = MaternKernel(1.5).on("lon")
    for model in (NearestNeighborsGPRegressor(10), LocalizedGPRegressor(NystroemFeatures(N), 0.5, random_state=0)):
        model.set_params(kernel=kernel, noise_variance=NOISE)
        expected = model.fit(X, y).predict(X, return_std=True)
        other = X.assign(other=1e6 * np.random.default_rng(2).normal(size=N))
        np.testing.assert_allclose(model.fit(other, y).predict(other, return_std=True), expected, atol=1e-6)
        np.testing.assert_array_equal(model.inverse_lengthscales_[:3], 0.0)


@pytest.mark.slow
def test_bounds_are_learned_in_the_units_of_the_columns() -> None:
    X, y = table(300)
    y = y + np.sin(3.0 * X.lat.to_numpy())
    kernel = MaternKernel([1.0, 1.0], lengthscale_bounds=(0.05, 50.0), variance_bounds=(0.01, 100.0)).on(["lon", "lat"])
    kernel = kernel * PeriodicKernel(11.5, period_bounds=(10.0, 14.0), lengthscale_bounds=(0.1, 10.0)).on("month")
    learned = learn(X, y, kernel=kernel, random_state=0)
    assert learned.kernel.right.kernel.period == pytest.approx(12.0, rel=0.01)
    again = ExactGPRegressor(kernel, random_state=0).fit(X, y)
    np.testing.assert_allclose(again.kernel_.theta, learned.kernel.theta, rtol=0.05, atol=0.05)
    # In other units of the columns, the same.
    scales = np.array([1.0 / 12.0, 1.0, 1.0, 1e3])
    indexed = kernel.with_indices(list(X), 4)
    other = learn(X * scales, y, kernel=indexed.rescaled(scales), random_state=0)
    np.testing.assert_allclose(other.kernel.rescaled(1.0 / scales).theta, learned.kernel.theta, atol=0.1)


def test_names_that_are_not_there_are_told() -> None:
    X, y = table()
    model = ExactGPRegressor(GaussianKernel() + MaternKernel().on(["lon", "latt"]), NOISE)
    with pytest.raises(InputError, match="columns of a kernel: X has no column 'latt', did you mean 'lat'"):
        model.fit(X, y)
    with pytest.raises(InputError, match="names the column 'lon', but X has no names of columns: give a data frame"):
        model.fit(X.to_numpy(), y)
    with pytest.raises(InputError, match="names the column 'lon', but X has no names"):
        MaternKernel().on("lon")([[1.0]])
    with pytest.raises(InputError, match="X has no column 'latt'"):
        learn(X, y, kernel=MaternKernel(lengthscale_bounds=(0.1, 1.0)).on("latt"))


def test_names_are_those_of_the_table_at_which_a_kernel_is_evaluated() -> None:
    X, _ = table()
    kernel, alone = GaussianKernel(2.0).on("lon") + GaussianKernel(), X[["lon"]].to_numpy()
    np.testing.assert_array_equal(kernel(X), GaussianKernel(2.0)(alone) + GaussianKernel()(X))
    np.testing.assert_array_equal(kernel.diagonal(X), np.full(len(X), 2.0))
    np.testing.assert_array_equal(GaussianKernel(2.0).on("lon").scale(X)[:, list(X).index("lon")], alone[:, 0] / 2.0)
    with pytest.raises(InputError, match="X and Z must have the same columns in the same order for SumKernel"):
        kernel(X, X[list(X)[::-1]])


def test_a_kernel_of_no_columns_is_refused() -> None:
    model = NearestNeighborsGPRegressor(5, kernel=GaussianKernel(0.5) + GaussianKernel().on([]), noise_variance=NOISE)
    with pytest.raises(InputError, match="must list at least one column"):
        model.fit(*table())


def test_names_within_columns_are_those_of_the_columns() -> None:
    X, y = table()
    nested = (GaussianKernel(1.5).on("lon") + MaternKernel(2.0)).on(["lat", "lon"])
    kernel = ExactGPRegressor(nested, NOISE).fit(X, y).kernel_
    np.testing.assert_allclose(kernel(X), GaussianKernel(1.5)(X[["lon"]]) + MaternKernel(2.0)(X[["lat", "lon"]]))
    with pytest.raises(InputError, match="X has no column 'month'"):
        ExactGPRegressor(GaussianKernel().on("month").on(["lat", "lon"]), NOISE).fit(X, y)


def test_on_a_sphere_the_names_are_those_of_points() -> None:
    rng = np.random.default_rng(4)
    X = pd.DataFrame({"lon": rng.uniform(-3, 3, 60), "lat": rng.uniform(50, 53, 60), "month": rng.uniform(0, 36, 60)})
    y = np.cos(np.pi * X.month / 6.0)
    kernel = MaternKernel(200.0).on(["x_km", "y_km", "z_km"]) * PeriodicKernel(12.0).on("month")
    model = GPRegressor(kernel=kernel, noise_variance=NOISE, metric="sphere", noise="normal").fit(X, y)
    assert [model.kernel_.left.columns, model.kernel_.right.columns] == [[0, 1, 2], [3]]


def test_files_have_them(tmp_path: Any) -> None:
    X, y = table()
    model = GPRegressor(kernel=KERNEL + lmgp.LinearKernel(variance=0.1, center=1.0), noise_variance=NOISE).fit(X, y)
    model.save(tmp_path / "model.lmgp")
    again = lmgp.load(tmp_path / "model.lmgp")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert again.kernel.left.left.columns == ["lon", "lat"]


def test_without_a_regressor_names_are_those_of_the_data_frame() -> None:
    X, y = table()
    kernel = GaussianKernel(1.5).on("lon")
    for features in (RandomFourierFeatures(8, random_state=0), NystroemFeatures(8, random_state=0)):
        named = clone(features).set_params(kernel=kernel).fit(X)
        indexed = clone(features).set_params(kernel=GaussianKernel(1.5).on(3)).fit(X)
        assert named.kernel.columns == "lon"
        np.testing.assert_array_equal(named.transform(X), indexed.transform(X))
    for strategy in ("kernel", "approximate"):
        named, indexed = (
            KernelSGDRegressor(GaussianKernel(1.5).on(column), strategy=strategy, random_state=0).fit(X, y)
            for column in ("lon", 3)
        )
        np.testing.assert_array_equal(named.predict(X), indexed.predict(X))
