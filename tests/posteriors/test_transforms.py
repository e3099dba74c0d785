"""Both non-uniform transforms against the sums themselves."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from lmgp.posteriors import modes
from lmgp.posteriors.modes import _threads, sums_over_modes, sums_over_rows
from lmgp.posteriors.toeplitz import half_shape
from tests.fourier import every_mode, mirrored

COUNTS = {1: [7], 2: [5, 3], 3: [2, 4, 3]}
every_dimension = pytest.mark.parametrize("counts", [np.array(one) for one in COUNTS.values()], ids=COUNTS)


def angles_of(n: int, counts: np.ndarray) -> np.ndarray:
    return np.random.default_rng(0).uniform(-np.pi, np.pi, (n, len(counts)))


def columns(angles: np.ndarray) -> list[np.ndarray]:
    return list(np.ascontiguousarray(angles.T))


@every_dimension
@pytest.mark.parametrize("n_rows", [1, 30])
@pytest.mark.parametrize("n_sums", [1, 2, 3, 4])
class TestAgainstDirectSums:
    def test_over_rows(self, counts: np.ndarray, n_rows: int, n_sums: int) -> None:
        angles = angles_of(n_rows, counts)
        strengths = np.random.default_rng(1).normal(size=(n_sums, n_rows))
        found = sums_over_rows(columns(angles), strengths, counts, 1e-12)
        waves = np.exp(-1j * angles @ every_mode(counts).T)
        assert found.shape == (n_sums, *half_shape(counts))
        np.testing.assert_allclose(mirrored(found, counts), strengths @ waves, atol=1e-10)

    def test_over_modes(self, counts: np.ndarray, n_rows: int, n_sums: int) -> None:
        angles = angles_of(n_rows, counts)
        rng = np.random.default_rng(2)
        # Of a real function: those of row sums are.
        coefficients = sums_over_rows(columns(angles_of(9, counts)), rng.normal(size=(n_sums, 9)), counts, 1e-12)
        found = sums_over_modes(columns(angles), coefficients, counts, 1e-12)
        expected = mirrored(coefficients, counts) @ np.exp(1j * angles @ every_mode(counts).T).T
        np.testing.assert_allclose(expected.imag, 0.0, atol=1e-9)
        np.testing.assert_allclose(found, expected.real, atol=1e-9)


@every_dimension
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-10])
def test_the_tolerance_is_kept(counts: np.ndarray, tolerance: float) -> None:
    angles = angles_of(200, counts)
    strengths = np.random.default_rng(3).normal(size=(2, 200))
    expected = strengths @ np.exp(-1j * angles @ every_mode(counts).T)
    found = mirrored(sums_over_rows(columns(angles), strengths, counts, tolerance), counts)
    assert np.linalg.norm(found - expected) < 10.0 * tolerance * np.linalg.norm(expected)


@every_dimension
@pytest.mark.parametrize("large", [1e-200, 1e8, 1e100])
def test_each_of_two_sums_keeps_its_own_digits(counts: np.ndarray, large: float) -> None:
    rng, angles = np.random.default_rng(4), angles_of(200, counts)
    strengths = np.stack((np.ones(200), rng.normal(size=200), np.zeros(200)))
    expected = strengths @ np.exp(-1j * angles @ every_mode(counts).T)
    found = mirrored(sums_over_rows(columns(angles), [[1.0], [large], [1.0]] * strengths, counts, 1e-14), counts)
    np.testing.assert_allclose(found[0], expected[0], rtol=0.0, atol=1e-11)
    np.testing.assert_allclose(found[1] / large, expected[1], rtol=0.0, atol=1e-11)
    assert not found[2].any()


def test_no_more_threads_than_openmp_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modes, "n_threads", lambda: 64)
    with threadpool_limits(1, user_api="openmp"):
        assert _threads() == 1
    monkeypatch.setattr(modes, "n_threads", lambda: 1)
    with threadpool_limits(2, user_api="openmp"):
        assert _threads() == 1
