"""Posteriors around centroids that are solved by rows: those within reach, the nearest ones, or the smaller form."""

from functools import partial

import numpy as np
import pytest

import tests.conftest
from lmgp import GaussianKernel, OrthogonalFourierFeatures, TaylorFeatures
from lmgp.inference.local import LocalPosterior
from tests.conftest import KERNELS, NOISE, centred, counts_and_noises, dense_gp, distances, gaussian

LENGTHSCALE = np.array([0.3, 0.6])
KERNEL = GaussianKernel(LENGTHSCALE, 2.0)
N_FEATURES = 36

draw = partial(tests.conftest.draw, n=150, low=(3.0, -4.0), high=(9.0, 4.0), n_new=25, noise=0.3)
around = partial(tests.conftest.around, TaylorFeatures(N_FEATURES), kernel=KERNEL)


def exact_from(rows, X, y, z, noise) -> tuple[float, float]:
    """The exact GP of some rows at one new row, for centred y."""
    X, y, z = X[rows], y[rows], z[None, :]
    formula = partial(gaussian, lengthscale=LENGTHSCALE, variance=2.0)
    mean, variance, _ = dense_gp(formula(X, X), formula(X, z), np.array([2.0]), y, noise[rows], 0.0)
    return mean[0], variance[0]


def centroid_of(posterior: LocalPosterior, z: np.ndarray) -> np.ndarray:
    if not len(posterior.centroids):
        return z
    return posterior.centroids[distances(z[None, :], posterior.centroids, LENGTHSCALE).argmin()]


def from_centroid(X: np.ndarray, centroid: np.ndarray) -> np.ndarray:
    return distances(X, centroid[None, :], LENGTHSCALE)[:, 0]


@pytest.mark.parametrize("centroids", [None, np.empty((0, 2))], ids=["farthest_point", "test_rows"])
@pytest.mark.parametrize("own_noise", [False, True])
def test_it_is_the_exact_process_of_the_rows_within_reach(centroids, own_noise: bool) -> None:
    X, y, T = draw()
    noises = counts_and_noises(len(y))[1] if own_noise else None
    rows = centred(X, y, None, noises)
    posterior = around(rows, centroids=centroids, solver="dual", prune=0.5)
    sizes = set()
    for z, *found in zip(T, *posterior.predict(T), strict=True):
        near = np.flatnonzero(from_centroid(X, centroid_of(posterior, z)) <= posterior.reach)
        sizes.add(len(near))
        expected = exact_from(near, X, rows.y, z, np.full(len(y), NOISE) if noises is None else noises)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert len(sizes) > 3
    assert max(sizes) < len(y)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("centroids", [None, np.empty((0, 2))], ids=["farthest_point", "test_rows"])
def test_all_rows_make_the_exact_process_of_any_kernel(name: str, centroids) -> None:
    kernel, formula = KERNELS[name]
    X, y, T = draw()
    counts, noises = counts_and_noises(len(y))
    rows = centred(X, y, counts + 1.0, noises)
    posterior = tests.conftest.around(None, rows, centroids=centroids, kernel=kernel, solver="dual")
    noise = noises / (counts + 1.0)
    expected = dense_gp(formula(X, X), formula(X, T), np.diag(formula(T, T)), rows.y, noise, 0.0)
    mean, variance = posterior.predict(T)
    np.testing.assert_allclose(mean, expected[0], rtol=0, atol=1e-8)
    np.testing.assert_allclose(variance, expected[1], rtol=0, atol=1e-8)
    np.testing.assert_allclose(posterior.predict(T, variance=False)[0], mean, rtol=0, atol=1e-10)


def test_of_a_map_that_reaches_everywhere_all_rows_count() -> None:
    X, y, T = draw()
    rows = centred(X, y)
    posterior = tests.conftest.around(OrthogonalFourierFeatures(8), rows, kernel=KERNEL, solver="dual", prune=1e-3)
    for z, *found in zip(T, *posterior.predict(T), strict=True):
        expected = exact_from(slice(None), X, rows.y, z, np.full(len(y), NOISE))
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


def test_auto_takes_the_smaller_form_at_each_centroid() -> None:
    X, y, T = draw()
    T = T[:25]
    posteriors = {solver: around(centred(X, y), solver=solver, prune=0.5) for solver in ("primal", "dual", "auto")}
    found = {solver: posterior.predict(T)[0] for solver, posterior in posteriors.items()}
    auto = posteriors["auto"]
    few = np.array([np.sum(from_centroid(X, centroid_of(auto, z)) <= auto.reach) < N_FEATURES for z in T])
    assert 0 < few.sum() < 25
    np.testing.assert_array_equal(found["auto"][few], found["dual"][few])
    np.testing.assert_array_equal(found["auto"][~few], found["primal"][~few])
    assert abs(found["dual"] - found["primal"])[few].max() > 1e-6


def test_without_rows_within_reach_it_is_the_prior() -> None:
    posterior = around(centred(*draw()[:2]), centroids=np.empty((0, 2)), solver="dual", prune=1e-3)
    mean, variance = posterior.predict(np.array([[500.0, 0.0]]))
    assert (mean[0], variance[0]) == (0.0, pytest.approx(2.0))
