"""Maps of sums of Gaussian kernels inside models: what is in reach, what is left out, and what it costs."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lmgp import (
    GaussianKernel,
    MaternKernel,
    OptimizedMaclaurinFeatures,
    RandomMaclaurinFeatures,
    TaylorFeatures,
)
from lmgp.data import Noise, Rows
from lmgp.features.moments import MomentSums
from lmgp.kernels.base import Kernel
from lmgp.posteriors.local import LocalPlan, fitted_map, reach_of

Floats = NDArray[np.float64]

# The longer component reaches beyond what the shortest lengthscales, the metric, call near.
TWO = GaussianKernel([0.5, 0.9]) + GaussianKernel([1.4, 0.7], 2.0)
# A component of no weight has its lengthscale in the metric all the same.
WITH_NOTHING = 0.0 * GaussianKernel(0.3) + GaussianKernel([1.4, 0.7], 2.0)


def made(n: int = 1200, extent: float = 14.0) -> tuple[Rows, Floats, Floats]:
    """Training rows, centroids, and test rows near them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-extent, extent, size=(n, 2))
    y = np.sin(X[:, 0]) + np.cos(1.3 * X[:, 1]) + 0.1 * rng.standard_normal(n)
    centroids = rng.uniform(-extent, extent, size=(8, 2))
    near = centroids[rng.integers(8, size=60)] + 0.8 * rng.standard_normal((60, 2))
    return Rows(X, y - y.mean()), centroids, near


@pytest.mark.parametrize("kernel", [TWO, WITH_NOTHING, 0.5 * TWO * GaussianKernel(3.0)], ids=["two", "zero", "product"])
@pytest.mark.parametrize("features", [TaylorFeatures(30), OptimizedMaclaurinFeatures(30)], ids=["taylor", "maclaurin"])
def test_rows_left_out_change_no_prediction(features: Any, kernel: Kernel) -> None:
    rows, centroids, X = made()
    fitted = fitted_map(features, kernel, rows, centroids, np.random.default_rng(0))
    noise = Noise(0.1)
    reach = reach_of(fitted, kernel, noise, rows)
    pruned, whole = (LocalPlan(kernel, noise, fitted, centroids, reach=one).posterior(rows) for one in (reach, np.inf))
    # Some rows are left out, around each centroid.
    distances = np.linalg.norm(kernel.scale(rows.X)[:, None] - kernel.scale(centroids), axis=2)
    assert np.all(np.sum(distances <= pruned.reach, axis=0) < 0.95 * len(rows))
    assert whole.reach == np.inf
    (mean, variance), (expected, expected_variance) = pruned.predict(X), whole.predict(X)
    assert variance is not None
    assert expected_variance is not None
    assert np.all(np.abs(mean - expected)[:, 0] <= 1e-3 * np.sqrt(expected_variance))
    np.testing.assert_allclose(np.sqrt(variance), np.sqrt(expected_variance), rtol=1e-3)


@pytest.mark.parametrize("kernel", [TWO, WITH_NOTHING, TWO + GaussianKernel(0.4)], ids=["two", "zero", "three"])
@pytest.mark.parametrize("epsilon", [1e-2, 1e-8])
def test_beyond_the_reach_no_component_has_more_than_its_share(kernel: Kernel, epsilon: float) -> None:
    features = TaylorFeatures(60, kernel=kernel).fit([[0.0, 0.0]])
    angles = np.linspace(0.0, 2.0 * np.pi, 400)
    directions = np.stack((np.cos(angles), np.sin(angles)), axis=1)
    at_reach = directions / np.linalg.norm(kernel.scale(directions), axis=1, keepdims=True) * features.reach(epsilon)
    share = np.square(features.transform(at_reach)).sum(axis=1) / kernel.diagonal(at_reach)
    assert np.all(share <= epsilon * (1 + 1e-9))


@pytest.mark.parametrize("features", [TaylorFeatures(60), OptimizedMaclaurinFeatures(60), RandomMaclaurinFeatures(60)])
@pytest.mark.parametrize("kernel", [GaussianKernel(0.7), TWO, WITH_NOTHING])
def test_the_work_of_an_unfitted_map_tells_its_reach(features: Any, kernel: Kernel) -> None:
    features.set_params(kernel=kernel, random_state=0)
    work = features.work(2)
    fitted = features.fit(made(100)[0].X)
    assert work.columns == fitted.n_features_out_
    # A map of one component, of the degree that it is to have: the stretch is what a sum adds.
    alone = TaylorFeatures(degree=work.degree or 0, kernel=GaussianKernel(1.0)).fit([[0.0, 0.0]])
    expected = np.inf if work.degree is None else work.stretch * alone.reach(1e-6)
    assert expected >= fitted.reach(1e-6) * (1 - 1e-12)
    if isinstance(features, TaylorFeatures):
        assert expected == pytest.approx(fitted.reach(1e-6))


def test_only_one_component_has_moments() -> None:
    rows, centroids, _ = made()
    for kernel, moments in ((GaussianKernel(), True), (WITH_NOTHING, True), (TWO, False)):
        fitted = TaylorFeatures(200, kernel=kernel).fit_around(rows.X, centroids)
        sums = fitted.summed([rows], fitted.source(Noise(0.1), None), 1).sums
        assert isinstance(sums, MomentSums) == moments
        assert (fitted.work(2).moments is not None) == moments


@pytest.mark.parametrize("part", [MaternKernel(), GaussianKernel() * MaternKernel()])
def test_a_part_that_is_not_gaussian_is_refused_before_anything_is_drawn(part: Kernel) -> None:
    rows, centroids, _ = made(50)
    with pytest.raises(ValueError, match=r"TaylorFeatures needs Gaussian components .* Maps that serve this kernel: "):
        fitted_map(TaylorFeatures(30), GaussianKernel() + part, rows, centroids, np.random.default_rng(0))
