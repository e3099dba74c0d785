"""Predictions from the nearest rows, against dense algebra, for any kernel."""

import numpy as np
import pytest

import lmgp.inference.nearest as nearest
from lmgp import GaussianKernel, LinearKernel, MaternKernel
from lmgp.errors import InputError, MemoryLimitError, NumericalError
from lmgp.inference.nearest import NearestPosterior
from lmgp.noise import Noise
from tests.conftest import ARGUMENTS, KERNELS, NOISE, centred, dense_gp, distances, draw, rows_and_noises


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("k", [1, 7, 80, 1000])
def test_it_is_the_exact_process_of_the_nearest_rows(
    name: str, arguments: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batches of several sizes, with repeated new rows."""
    kernel, formula = KERNELS[name]
    X, y, T = draw()
    T = np.concatenate((T, T[:2]))
    rows, noise = rows_and_noises(X, y, arguments)
    monkeypatch.setattr(nearest, "BATCH_BYTES", 8 * 7**2 * 4)
    posterior = NearestPosterior(kernel, rows, Noise(NOISE), k)
    mean, variance = posterior.predict(T)
    order = np.argsort(distances(T, X, kernel.metric(2)), axis=1, kind="stable")[:, :k]
    for row, near, found in zip(T, order, zip(mean, variance, strict=True), strict=True):
        Z, own = X[near], row[None, :]
        expected = dense_gp(formula(Z, Z), formula(Z, own), np.diag(formula(own, own)), rows.y[near], noise[near], 0.0)
        np.testing.assert_allclose(found, (expected[0][0], expected[1][0]), rtol=0, atol=1e-8)
    alone = posterior.predict(T, variance=False)
    np.testing.assert_allclose(alone[0], mean, rtol=0, atol=1e-10)
    assert alone[1] is None


def test_of_no_new_rows() -> None:
    X, y, T = draw()
    mean, variance = NearestPosterior(GaussianKernel(1.0), centred(X, y), Noise(NOISE), 7).predict(T[:0])
    assert mean.shape == variance.shape == (0,)


def test_what_the_rows_were_expected_to_be() -> None:
    X, y, T = draw()
    kernel, formula = KERNELS["matern32"]
    rows = centred(X, y)
    prior, surprise = NearestPosterior(kernel, rows, Noise(NOISE), 9).expectations(T)
    np.testing.assert_allclose(prior, np.diag(formula(T, T)), rtol=1e-14)
    for near, found in zip(np.argsort(distances(T, X, kernel.metric(2)), axis=1)[:, :9], surprise, strict=True):
        covariance = formula(X[near], X[near]) + NOISE * np.eye(9)
        assert found == pytest.approx(rows.y[near] @ np.linalg.solve(covariance, rows.y[near]) / 9, rel=1e-8)


class TestRefused:
    def test_a_kernel_without_a_metric(self) -> None:
        with pytest.raises(InputError, match=r"(?s)from the nearest rows needs a lengthscale.*LinearKernel"):
            NearestPosterior(LinearKernel(), centred(*draw()[:2]), Noise(NOISE), 7)

    def test_more_neighbours_than_fit(self) -> None:
        with pytest.raises(MemoryLimitError, match=r"from 50 rows take .*max_memory_gib=1e-05.*smaller n_neighbors"):
            NearestPosterior(MaternKernel(), centred(*draw()[:2]), Noise(NOISE), 50, max_memory_gib=1e-5)

    def test_repeated_rows_without_noise_to_speak_of(self) -> None:
        X, y, T = draw(30)
        rows = centred(np.repeat(X, 3, axis=0), np.repeat(y, 3))
        posterior = NearestPosterior(GaussianKernel([11.0, 6.0], 2.0), rows, Noise(1e-17), 60)
        with pytest.raises(NumericalError, match=r"noise_variance=1e-17.*smallest noise_variance that works here is"):
            posterior.predict(T)
