"""What a solve is expected to take, beside what it takes."""

import numpy as np
import pytest

from lmgp import GaussianKernel, MaternKernel, SpectralGPRegressor
from lmgp.errors import LmgpError, MemoryLimitError, TimeLimitError
from lmgp.spectral.effort import MEASURED_MODES, WITH_BLOCK, check_modes, expected_iterations, iteration_seconds
from lmgp.spectral.modes import choose_modes, half_shape
from lmgp.spectral.solve import Toeplitz


def rows(d: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(n + d)
    X = rng.uniform(size=(n, d))
    return X, np.sin(6.0 * X).sum(axis=1) + 0.1 * rng.normal(size=n)


@pytest.mark.parametrize("room", [1.0, 2.0])
def test_modes_that_take_more_memory_are_refused_with_their_number(room: float) -> None:
    X, kernel = np.random.default_rng(0).uniform(0.0, 9.0, (50, 2)), GaussianKernel(1.0)
    modes = choose_modes(kernel, X, 0.1, 1e-2, room)
    vectors = Toeplitz.n_bytes(modes.counts, 2) / 2**30
    sums = 16.0 * np.prod(half_shape(2 * modes.counts)) * 3 / 2**30
    check_modes(modes, kernel, 1e-2, 2, vectors + 4.0 * sums)
    first, second = (2 * int(m) + 1 for m in modes.counts)
    with pytest.raises(MemoryLimitError) as refused:
        check_modes(modes, kernel, 1e-2, 2, vectors + sums)
    told = str(refused.value)
    assert told.startswith(f"The {first:,} × {second:,} Fourier modes of ")
    assert "a tolerance of 0.01" in told
    assert (" and room=2" in told) == ("or less room" in told) == (room > 1.0)


@pytest.mark.parametrize("noise_variance", [1e-2, 0.1, 1.0])
@pytest.mark.parametrize("kernel", [GaussianKernel(0.3), GaussianKernel(0.05), MaternKernel(0.2, smoothness=1.5)])
@pytest.mark.parametrize("d", [1, 2])
def test_iterations_are_no_more_than_expected(d: int, kernel: GaussianKernel, noise_variance: float) -> None:
    X, y = rows(d, 1000)
    model = SpectralGPRegressor(1e-2, kernel=kernel, noise_variance=noise_variance).fit(X, y)
    modes = choose_modes(kernel, X, noise_variance, 1e-2)
    expected = expected_iterations(modes, kernel, noise_variance, len(y))
    assert modes.n_modes == model.error_.n_modes
    assert 1 <= model.error_.n_iterations <= expected


def test_more_rows_and_less_noise_are_expected_to_take_more_iterations() -> None:
    kernel = GaussianKernel(0.01)
    modes = choose_modes(kernel, rows(2, 500)[0], 0.1, 1e-3)
    some, more, quieter = (
        expected_iterations(modes, kernel, noise, n) for noise, n in [(0.1, 10_000), (0.1, 40_000), (0.025, 10_000)]
    )
    assert more == pytest.approx(quieter)
    assert more - 40.0 == pytest.approx(2.0 * (some - 40.0))
    # Of few modes, no more are left to solve for than there are, and with a block of them few take few iterations.
    few, some = (choose_modes(GaussianKernel(s), rows(1, 500)[0], 0.1, 1e-3) for s in (1.0, 0.02))
    assert expected_iterations(few, GaussianKernel(1.0), 1e-9, 10**9) == 3 * few.n_modes < WITH_BLOCK
    assert expected_iterations(some, GaussianKernel(0.02), 1e-9, 10**9) == WITH_BLOCK < 3 * some.n_modes


def test_many_modes_are_measured_by_fewer() -> None:
    modes = choose_modes(GaussianKernel(1e-4), rows(2, 500)[0], 0.1, 1e-3)
    assert modes.n_modes > 1000 * MEASURED_MODES
    assert iteration_seconds(modes) > 1.0  # a thousand times what 100,000 modes take


def test_a_fit_that_may_take_longer_is_refused_before_it_begins() -> None:
    X, y = rows(2, 2000)
    given = {"kernel": GaussianKernel(0.05), "noise_variance": 1e-4}
    with pytest.raises(
        TimeLimitError, match=r"The sums of 2,000 rows .* iterations .* above max_seconds=1e-09"
    ) as told:
        SpectralGPRegressor(**given, max_seconds=1e-9).fit(X, y)
    assert isinstance(told.value, LmgpError)
    allowed = SpectralGPRegressor(**given, max_seconds=1e6).fit(X, y)
    np.testing.assert_array_equal(allowed.predict(X[:5]), SpectralGPRegressor(**given).fit(X, y).predict(X[:5]))


def test_max_seconds_has_to_be_positive() -> None:
    with pytest.raises(ValueError, match="max_seconds"):
        SpectralGPRegressor(max_seconds=0.0).fit(*rows(1, 20))
