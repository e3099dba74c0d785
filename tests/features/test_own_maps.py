"""Maps that a user writes, by public names alone: what `docs/kernels.md` says of them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from lmgp import FeaturizedGPRegressor, GaussianKernel, LocalizedGPRegressor
from lmgp.data import Noise, Rows
from lmgp.errors import InputError
from lmgp.features.base import FeatureMap, KernelMap
from tests.conftest import dense_gp, draw_normal, gaussian


class Hinges(FeatureMap):
    """max(wᵀx, 0) for random directions w."""

    def __init__(self, n_features: int = 8, random_state: int | None = None) -> None:
        self.n_features = n_features
        self.random_state = random_state

    def draw(self, X: np.ndarray, rng: np.random.Generator) -> None:
        self.directions_ = rng.normal(size=(X.shape[1], self.n_features))

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:
        return (X @ torch.from_numpy(self.directions_)).clamp(min=0.0)


class AtPoints(KernelMap):
    """k(x, Z) K_ZZ^{−1/2} at the first rows Z: where these are all rows, the kernel itself."""

    needs = None

    def draw(self, X: np.ndarray, rng: np.random.Generator) -> None:
        self.points_ = X[: self.n_features].copy()
        values, vectors = np.linalg.eigh(self.kernel_(self.points_))
        self.root_ = vectors / np.sqrt(values.clip(min=1e-12))

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:
        return self.kernel_.evaluate(X, torch.from_numpy(self.points_)) @ torch.from_numpy(self.root_)

    def column_names(self, names: Any) -> list[str]:
        return [f"{'&'.join(names)} at {i}" for i in range(self.n_features_out_)]


@parametrize_with_checks([Hinges(random_state=0), AtPoints(8)])
def test_scikit_learns_own_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def test_it_serves_in_a_model_as_a_map_of_the_kernel() -> None:
    X, y = draw_normal(30, 2)
    model = FeaturizedGPRegressor(AtPoints(30), kernel=GaussianKernel(0.7, 1.5), noise_variance=0.1).fit(X, y)
    mean, std = model.predict(X[:5] + 0.1, return_std=True)
    K, cross = gaussian(X, X, 0.7, 1.5), gaussian(X, X[:5] + 0.1, 0.7, 1.5)
    expected, _, _ = dense_gp(K, cross, np.full(5, 1.5), y, np.full(30, 0.1))
    np.testing.assert_allclose(mean, expected, rtol=1e-6)
    assert np.all(std > 0)


def test_it_serves_around_centroids_and_from_sums_of_rows() -> None:
    X, y = draw_normal(30, 2)
    T = X[:5] + 0.1
    given = {"kernel": GaussianKernel(0.7, 1.5), "noise_variance": 0.1}
    one = LocalizedGPRegressor(AtPoints(30), threshold=100.0, solver="primal", **given).fit(X, y)
    whole = FeaturizedGPRegressor(AtPoints(30), **given).fit(X, y)
    # One centroid, whose map has all rows: the model of one map.
    np.testing.assert_allclose(one.predict(T, return_std=True), whole.predict(T, return_std=True), rtol=1e-6)
    several = LocalizedGPRegressor(AtPoints(30), threshold=1.0, solver="primal", **given).fit(X, y)
    assert len(several.centroids_) > 1
    assert np.all(np.isfinite(several.predict(T, return_std=True)))
    # The sums over rows, in two parts, are those of all columns at once.
    features, noise = whole.features_, Noise(0.1, "dtc")
    source = features.source(noise, None)
    parts = features.summed([Rows(X[:10], y[:10]), Rows(X[10:], y[10:])], source, 1)
    columns = features.transform(X)
    np.testing.assert_allclose(np.tril(parts.sums.gram.numpy()), np.tril(columns.T @ columns), rtol=1e-9, atol=1e-12)


def test_a_model_with_it_is_refused_by_its_name_as_a_file_and_pickles(tmp_path: Path) -> None:
    X, y = draw_normal(30, 2)
    model = FeaturizedGPRegressor(AtPoints(9), kernel=GaussianKernel(0.7), noise_variance=0.1).fit(X, y)
    for fitted, told in ((model, "its features is AtPoints of tests"), (model.features_, "it is AtPoints of tests")):
        with pytest.raises(InputError, match=rf"{told}.* joblib\.dump\(model, path\)"):
            fitted.save(tmp_path / "model.lmgp")
    assert list(tmp_path.iterdir()) == []
    joblib.dump(model, tmp_path / "model.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "model.joblib").predict(X), model.predict(X))


def test_columns_are_numbered_or_as_it_names_them() -> None:
    X, _ = draw_normal(30, 2)
    assert Hinges(2).fit(X).get_feature_names_out().tolist() == ["hinges0", "hinges1"]
    assert AtPoints(2).fit(X).get_feature_names_out().tolist() == ["x0&x1 at 0", "x0&x1 at 1"]


def test_there_are_no_names_before_fit() -> None:
    with pytest.raises(NotFittedError):
        Hinges().get_feature_names_out()
