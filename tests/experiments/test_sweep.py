"""Many models at once, against the regressors fitted one by one and against dense algebra."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lmgp import (
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    OptimizedMaclaurinFeatures,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    StructuredOrthogonalFourierFeatures,
    TaylorFeatures,
)
from lmgp.experiments import sweep
from lmgp.features.adapter import make_feature_map
from lmgp.features.base import KernelMap
from lmgp.inference import local
from lmgp.inference.local import LocalPosterior, fitted_map
from lmgp.locality.clustering import nearest_centroids
from lmgp.locality.placement import cover
from lmgp.noise import Approximation, Noise
from lmgp.validation import Rows

Floats = NDArray[np.float64]
NOISE = 0.05
MAPS: dict[str, Any] = {
    "rff": lambda size: RandomFourierFeatures(size, random_state=3),
    "orf": lambda size: OrthogonalFourierFeatures(size, random_state=3),
    "sorf": lambda size: StructuredOrthogonalFourierFeatures(size, random_state=3),
    "taylor": TaylorFeatures,
    "maclaurin": lambda size: OptimizedMaclaurinFeatures(
        size, allocation="mean", sketch="rademacher", n_allocation_rows=40, random_state=3
    ),
}
NESTED = ("rff", "orf", "sorf", "taylor")
SIZES = (7, 30, 12)


class Problem:
    """Rows that extend over many lengthscales, with one lengthscale a column."""

    def __init__(self, d: int, n: int = 90, extent: float = 5.0) -> None:
        rng = np.random.default_rng(d)
        self.kernel = GaussianKernel(np.linspace(0.6, 1.7, d), 1.3)
        self.X = 20.0 + rng.uniform(-extent, extent, (n, d)) * (1.0 if d < 4 else 0.4)
        y = 4.0 + np.sin(self.X).sum(axis=1) + 0.2 * rng.standard_normal(n)
        self.y = y
        self.centre = y.mean()
        self.rows = Rows(self.X, y - self.centre)
        far = np.vstack((np.full((1, d), 1e3), np.full((1, d), -1e8)))
        self.X_test = np.vstack((self.X[:25] + 0.1 * rng.standard_normal((25, d)), far, self.X[:3]))

    def model(self, features: KernelMap, threshold: float | None, prune: float = 0.0) -> sweep.Placement:
        """Of a fitted map."""
        if threshold is None:
            return sweep.Placement(features, features.centre_of(self.X, None)[None, :], prune)
        return sweep.Placement(features, cover(self.rows, self.kernel, threshold), prune)

    def fitted(self, unfitted: Any, threshold: float | None) -> KernelMap:
        features = make_feature_map(unfitted, self.kernel, np.random.default_rng(0))
        centroids = features.centre_of(self.X, None)[None, :]
        if threshold is not None:
            centroids = cover(self.rows, self.kernel, threshold)
        return features.fit_around(self.X, centroids)

    def predict(self, models: Sequence[sweep.Placement], approximation: Approximation) -> list[tuple[Floats, Floats]]:
        return sweep.predict(models, self.rows, self.X_test, self.kernel, Noise(NOISE, approximation))

    def by_regressor(
        self, unfitted: Any, threshold: float | None, prune: float, approximation: Approximation
    ) -> tuple[Floats, Floats]:
        shared: dict[str, Any] = {
            "kernel": self.kernel, "noise_variance": NOISE, "approximation": approximation, "random_state": 0
        }  # fmt: skip
        if threshold is None:
            model = FeaturizedGPRegressor(unfitted, **shared).fit(self.X, self.y)
            mean, std = model.predict(self.X_test, return_std=True)
            return mean - self.centre, std**2
        centroids = cover(self.rows, self.kernel, threshold)
        made = fitted_map(unfitted, self.kernel, self.rows, centroids, np.random.default_rng(0))
        noise = Noise(NOISE, approximation)
        mean, variance = LocalPosterior(self.kernel, self.rows, noise, centroids, features=made, prune=prune).predict(
            self.X_test
        )
        assert variance is not None
        return mean, variance


def assert_same(got: tuple[Floats, Floats], wanted: tuple[Floats, Floats], rtol: float = 1e-10) -> None:
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol * np.abs(other).max())


@pytest.mark.parametrize("approximation", ["dtc", "sor"])
@pytest.mark.parametrize("d", [1, 2, 6])
@pytest.mark.parametrize("kind", MAPS)
def test_all_sizes_and_thresholds_at_once_are_the_regressors_one_by_one(
    kind: str, d: int, approximation: Approximation
) -> None:
    problem = Problem(d)
    grid = [(size, threshold) for size in SIZES for threshold in (1.5, 6.0, None)]
    if kind == "maclaurin":  # one map for all thresholds, as its columns do not depend on the centroids
        maps = {size: problem.fitted(MAPS[kind](size), 1.5) for size in SIZES}
        models = [problem.model(maps[size], threshold) for size, threshold in grid]
    else:  # a map each, even where they are equal
        models = [problem.model(problem.fitted(MAPS[kind](size), at), at) for size, at in grid]
    predictions = problem.predict(models, approximation)
    assert len(predictions) == len(grid)
    for (size, threshold), got in zip(grid, predictions, strict=True):
        assert_same(got, problem.by_regressor(MAPS[kind](size), threshold, 0.0, approximation))
    # A kernel of Fourier features is the same around any centre.
    n_distinct = len({mean[:25].sum().round(9) for mean, _ in predictions})
    assert n_distinct > len(SIZES) if kind in ("taylor", "maclaurin") else n_distinct == len(SIZES)


def test_maps_of_every_kind_at_once() -> None:
    problem = Problem(2)
    grid = [(kind, size, threshold) for kind in MAPS for size in (20, 7) for threshold in (2.0, None)]
    models = [problem.model(problem.fitted(MAPS[kind](size), at), at) for kind, size, at in grid]
    for (kind, size, threshold), got in zip(grid, problem.predict(models, "dtc"), strict=True):
        assert_same(got, problem.by_regressor(MAPS[kind](size), threshold, 0.0, "dtc"))


@pytest.mark.parametrize(("d", "sizes"), [(1, (5, 40)), (2, (10, 66)), (6, (28, 210))])
@pytest.mark.parametrize("kind", ["taylor", "maclaurin"])
def test_pruned_models_are_within_the_tolerance(
    kind: str, d: int, sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(d, n=400, extent=12.0 if d < 4 else 25.0)
    grid = [(size, threshold) for size in sizes for threshold in (1.0, 4.0)]
    maps = {size: problem.fitted(MAPS[kind](size), 1.0) for size in sizes}
    counts = []
    accumulate = local.accumulate

    def counted(features: KernelMap, rows: Rows, *rest: Any, **options: Any) -> Any:
        counts.append(len(rows.y))
        return accumulate(features, rows, *rest, **options)

    monkeypatch.setattr(local, "accumulate", counted)
    models = [problem.model(maps[size], threshold, prune=1e-3) for size, threshold in grid]
    predictions = problem.predict(models, "dtc")
    assert min(counts) < 0.7 * len(problem.X)  # rows are left out, or this tests nothing
    for (size, threshold), (mean, variance) in zip(grid, predictions, strict=True):
        whole_mean, whole = problem.by_regressor(MAPS[kind](size), threshold, 0.0, "dtc")
        assert np.all(np.abs(mean - whole_mean) <= 1e-3 * np.sqrt(whole) + 1e-12)
        np.testing.assert_allclose(np.sqrt(variance), np.sqrt(whole), rtol=1e-3)
        own_mean, own = problem.by_regressor(MAPS[kind](size), threshold, 1e-3, "dtc")
        assert np.all(np.abs(mean - own_mean) <= 2e-3 * np.sqrt(whole) + 1e-12)
        np.testing.assert_allclose(np.sqrt(variance), np.sqrt(own), rtol=2e-3)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_rows_within_reach_are_those_of_the_largest_map(
    order: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = Problem(1, n=300, extent=30.0)
    maps = [problem.fitted(TaylorFeatures(size), None) for size in (4, 25)]
    used = []
    accumulate = local.accumulate

    def noted(features: KernelMap, rows: Rows, centre: Floats, *rest: Any, **options: Any) -> Any:
        used.append((rows.X.copy(), centre.copy()))
        return accumulate(features, rows, centre, *rest, **options)

    monkeypatch.setattr(local, "accumulate", noted)
    problem.predict([problem.model(maps[i], 2.0, prune=1e-3) for i in order], "sor")
    regressor = LocalizedGPRegressor(TaylorFeatures(25), 2.0, kernel=problem.kernel, noise_variance=NOISE)
    reach = regressor.fit(problem.X, problem.y).reach_
    for rows, centre in used:
        distance = np.abs(problem.X[:, 0] - centre[0]) / problem.kernel.lengthscale[0]
        np.testing.assert_array_equal(np.sort(rows[:, 0]), np.sort(problem.X[distance <= reach, 0]))


def test_a_model_that_keeps_all_rows_is_exact_beside_one_that_does_not() -> None:
    problem = Problem(1, n=300, extent=30.0)
    maps = [problem.fitted(TaylorFeatures(size), None) for size in (6, 25)]
    models = [problem.model(maps[0], 2.0, prune=0.0), problem.model(maps[1], 2.0, prune=0.5)]
    kept, _ = problem.predict(models, "dtc")
    assert_same(kept, problem.by_regressor(TaylorFeatures(6), 2.0, 0.0, "dtc"))


def test_the_predictions_are_those_of_dense_algebra() -> None:
    """The n × n matrix of the series around each row's nearest centroid, for a size and two thresholds."""
    problem = Problem(2)
    sizes, thresholds = (3, 15), (1.5, 6.0)
    maps = {size: problem.fitted(TaylorFeatures(size), None) for size in sizes}
    grid = [(size, threshold) for size in sizes for threshold in thresholds]
    predictions = problem.predict([problem.model(maps[size], threshold) for size, threshold in grid], "sor")
    scaled = problem.kernel.scale(problem.X)
    for (size, threshold), (mean, variance) in zip(grid, predictions, strict=True):
        degree = {3: 1, 15: 4}[size]
        centroids = problem.kernel.scale(cover(problem.rows, problem.kernel, threshold))
        for i, row in enumerate(problem.kernel.scale(problem.X_test)):
            centre = centroids[np.square(centroids - row).sum(axis=1).argmin()]
            A, b = scaled - centre, (row - centre)[None, :]

            def series(x: Floats, z: Floats, degree: int = degree) -> Floats:
                product = x @ z.T
                damping = np.exp(-np.add.outer(np.square(x).sum(axis=1), np.square(z).sum(axis=1)) / 2)
                return 1.3 * damping * sum(product**n / math.factorial(n) for n in range(degree + 1))

            if np.linalg.norm(b) > 1e3:  # the powers overflow where the exponential is zero
                assert (mean[i], variance[i]) == (0.0, 0.0)
                continue
            cross = series(A, b)[:, 0]
            solved = np.linalg.solve(series(A, A) + NOISE * np.eye(len(A)), np.column_stack((problem.rows.y, cross)))
            assert mean[i] == pytest.approx(cross @ solved[:, 0], rel=1e-8, abs=1e-10)
            assert variance[i] == pytest.approx(series(b, b)[0, 0] - cross @ solved[:, 1], rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("kind", NESTED)
def test_each_centroid_is_summed_once_and_solved_once_a_size(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(2)
    thresholds = (0.8, 1.5, 4.0)
    maps = [problem.fitted(MAPS[kind](size), None) for size in SIZES]
    models = [problem.model(features, threshold) for features in maps for threshold in thresholds]
    summed, solved, evaluated = [], [], []
    accumulate, evaluate, posterior = local.accumulate, sweep.evaluate, sweep.WeightPosterior

    def noted_sum(features: KernelMap, rows: Rows, centre: Floats, *rest: Any, **options: Any) -> Any:
        summed.append((features.n_features_out_, tuple(centre)))
        return accumulate(features, rows, centre, *rest, **options)

    def noted_posterior(statistics: Any, center: float) -> Any:
        solved.append(len(statistics.sums.cross))
        return posterior(statistics, center)

    def noted_evaluation(of: Any, features: KernelMap, X: Floats, centre: Floats, *rest: Any) -> Any:
        evaluated.append((features.n_features_out_, tuple(centre)))
        return evaluate(of, features, X, centre, *rest)

    monkeypatch.setattr(local, "accumulate", noted_sum)
    monkeypatch.setattr(sweep, "WeightPosterior", noted_posterior)
    monkeypatch.setattr(sweep, "evaluate", noted_evaluation)
    problem.predict(models, "dtc")
    used: set[tuple[float, ...]] = set()
    each = []
    for threshold in thresholds:
        centroids = cover(problem.rows, problem.kernel, threshold)
        label = nearest_centroids(problem.kernel.scale(problem.X_test), problem.kernel.scale(centroids))
        each.append({tuple(centroids[i]) for i in label})
        used |= each[-1]
    assert len(used) < sum(map(len, each))  # some are shared between thresholds
    largest = max(features.n_features_out_ for features in maps)
    assert sorted(summed) == sorted((largest, centre) for centre in used)
    assert sorted(solved) == sorted(size for size in (features.n_features_out_ for features in maps) for _ in used)
    assert sorted(evaluated) == sorted((features.n_features_out_, centre) for features in maps for centre in used)


def test_maps_that_are_no_parts_are_summed_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(2)
    summed = []
    accumulate = local.accumulate

    def noted(features: KernelMap, *rest: Any, **options: Any) -> Any:
        summed.append(features)
        return accumulate(features, *rest, **options)

    monkeypatch.setattr(local, "accumulate", noted)
    maps = [problem.fitted(RandomFourierFeatures(20, random_state=seed), None) for seed in (0, 1)]
    maps += [problem.fitted(MAPS["maclaurin"](size), None) for size in (10, 20)]
    problem.predict([problem.model(features, None) for features in maps], "dtc")
    assert len(summed) == 4
    assert {id(features) for features in summed} == {id(features) for features in maps}


def test_what_is_handed_in_is_not_changed() -> None:
    problem = Problem(2)
    features = problem.fitted(TaylorFeatures(10), None)
    models = [problem.model(features, threshold, 1e-3) for threshold in (1.5, 4.0)]
    arrays = [problem.X, problem.y, problem.rows.y, problem.X_test, *(model.centroids for model in models)]
    before = [array.copy() for array in arrays]
    first = problem.predict(models, "dtc")
    for array, expected in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, expected)
    for one, again in zip(first, problem.predict(models, "dtc"), strict=True):
        np.testing.assert_array_equal(one, again)


@pytest.mark.parametrize("kind", ["rff", "taylor", "maclaurin"])
def test_with_fitc_sizes_share_nothing_but_their_rows(kind: str) -> None:
    # What a smaller map leaves out is another noise of the training rows.
    problem = Problem(2)
    grid = [(size, threshold) for size in (12, 30) for threshold in (1.5, None)]
    models = [problem.model(problem.fitted(MAPS[kind](size), at), at) for size, at in grid]
    for (size, threshold), got in zip(grid, problem.predict(models, "fitc"), strict=True):
        assert_same(got, problem.by_regressor(MAPS[kind](size), threshold, 0.0, "fitc"))
