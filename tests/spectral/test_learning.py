"""Learning from sums: the likelihood of the modes, its gradient and its maximum against those of the exact process."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from lmgp import (
    ExactGPRegressor,
    GaussianKernel,
    MaternKernel,
    RationalQuadraticKernel,
    SpectralGPRegressor,
    learn_from_sums,
)
from lmgp.errors import InputError, MemoryLimitError
from lmgp.inference.learning import maximize_likelihood
from lmgp.inference.likelihood import log_likelihood, log_likelihood_and_gradient
from lmgp.kernels.base import Kernel
from lmgp.spectral.learning import PLAN, SpectralLikelihood
from lmgp.spectral.sums import SpectralSums
from lmgp.validation import Rows

NOISE = 0.05
KERNELS: dict[str, tuple[int, Kernel, float]] = {
    "gaussian": (1, GaussianKernel(0.7, 1.5), 1e-4),
    "gaussian, 2 columns": (2, GaussianKernel([1.5, 2.0], 1.5), 1e-1),
    "matern52": (1, MaternKernel(1.5, 0.7, smoothness=2.5), 1e-4),
    "matern32": (1, MaternKernel(2.5, 0.7), 3e-3),
    "sum": (1, GaussianKernel(0.4, 0.5) + MaternKernel(3.0, smoothness=2.5), 1e-4),
    "rational quadratic": (1, RationalQuadraticKernel(0.9, alpha=3.0), 1e-4),
}
every_kernel = pytest.mark.parametrize(("d", "kernel", "tolerance"), KERNELS.values(), ids=KERNELS)


def drawn(d: int, kernel: Kernel, n: int = 150) -> Rows:
    rng = np.random.default_rng(d)
    X = rng.uniform(0.0, 5.0, (n, d))
    y = 7.0 + np.linalg.cholesky(kernel(X) + NOISE * np.eye(n)) @ rng.normal(size=n)
    return Rows(X, y)


def summed(rows: Rows, kernel: Kernel, tolerance: float, room: float = 1.8, noise: float = 0.08) -> SpectralSums:
    """The sums of rows, from a model that is gone."""
    model = SpectralGPRegressor(tolerance, kernel=kernel, noise_variance=noise, room=room)
    return model.fit(rows.X, rows.y, rows.weights, rows.noise_variances).sums_


def centred(rows: Rows) -> Rows:
    return Rows(rows.X, rows.y - rows.mean, rows.weights, rows.noise_variances)


@every_kernel
@pytest.mark.parametrize("arguments", ["plain", "weights", "noises"])
def test_value_and_gradient_are_the_exact_ones(d: int, kernel: Kernel, tolerance: float, arguments: str) -> None:
    rows, rng = drawn(d, kernel), np.random.default_rng(0)
    weights = rng.integers(1, 4, 150) * 1.0 if arguments != "plain" else None
    noises = rng.uniform(0.02, 0.2, 150) if arguments == "noises" else None
    rows = Rows(rows.X, rows.y, weights, noises)
    sums = summed(rows, kernel, tolerance)
    if noises is None:
        sums = sums.with_noise(sums.source.noise, sums.source.noise.variance)
    elsewhere = kernel.with_theta(kernel.theta + 0.2)
    noise = 0.08 if arguments == "noises" else 0.06
    value, gradient = SpectralLikelihood(sums)(elsewhere, elsewhere.theta, noise)
    expected, slopes = log_likelihood_and_gradient(centred(rows), elsewhere, noise)
    n_free = len(slopes) - (arguments == "noises")
    assert value == pytest.approx(expected, abs=0.03 * tolerance * 150 / 1e-1)
    np.testing.assert_allclose(gradient[:n_free], slopes[:n_free], rtol=1e-3, atol=0.03 * tolerance * 150 / 1e-1)


@every_kernel
def test_the_maximum_is_the_exact_one(d: int, kernel: Kernel, tolerance: float) -> None:
    rows = drawn(d, kernel)
    fixed = kernel.set_params(alpha_bounds="fixed") if isinstance(kernel, RationalQuadraticKernel) else kernel
    exact = maximize_likelihood(centred(rows), form=fixed, rng=np.random.default_rng(0))
    start = exact.kernel.with_theta(exact.kernel.theta + 0.4 * (-1.0) ** np.arange(len(fixed.theta)))
    sums = summed(rows, start, tolerance)
    del rows
    found = learn_from_sums(sums, start)
    assert found.converged
    np.testing.assert_allclose(found.kernel.theta, exact.kernel.theta, rtol=0, atol=0.01)
    assert found.noise_variance == pytest.approx(exact.noise_variance, rel=1e-3)
    assert found.log_marginal_likelihood == pytest.approx(exact.log_marginal_likelihood, abs=0.05)


class TestWhatIsLearned:
    kernel = GaussianKernel(0.7, 1.5)

    def test_rows_keep_noise_variances_of_their_own(self) -> None:
        rows = drawn(1, self.kernel)
        noises = np.random.default_rng(3).uniform(0.02, 0.2, 150)
        rows = Rows(rows.X, rows.y, None, noises)
        sums = summed(rows, self.kernel, 1e-4)
        found = learn_from_sums(sums, self.kernel)
        exact = maximize_likelihood(centred(rows), form=self.kernel, noise_variance=0.08, rng=np.random.default_rng(0))
        np.testing.assert_allclose(found.kernel.theta, exact.kernel.theta, rtol=0, atol=1e-3)
        assert found.log_marginal_likelihood == pytest.approx(exact.log_marginal_likelihood, abs=1e-3)
        assert found.noise_variance == 0.08
        with pytest.raises(InputError, match=r"noise variances of their own, relative to 0\.08: no other .*got 0\.1"):
            learn_from_sums(sums, self.kernel, 0.1)

    def test_a_given_noise_and_fixed_parameters_stay(self) -> None:
        rows = drawn(1, self.kernel)
        sums = summed(rows, self.kernel, 1e-4)
        found = learn_from_sums(sums, GaussianKernel(0.7, 1.5, variance_bounds="fixed"), 0.06)
        assert (found.kernel.variance, found.noise_variance) == (1.5, 0.06)
        for factor in (0.98, 1.02):
            other = GaussianKernel(factor * found.kernel.lengthscale, 1.5)
            assert log_likelihood(centred(rows), other, 0.06) < found.log_marginal_likelihood - 1e-3

    def test_lengthscales_stay_within_the_room_and_the_bounds(self) -> None:
        rows = drawn(1, self.kernel)
        far = GaussianKernel(0.2, 1.5)
        with pytest.warns(ConvergenceWarning, match=r"an end of the room of the modes .*: lengthscale of .*more room"):
            found = learn_from_sums(summed(rows, far, 1e-3, room=1.5), far)
        assert found.kernel.lengthscale == pytest.approx(0.3, rel=1e-9)
        bounded = GaussianKernel(0.7, 1.5, lengthscale_bounds=(0.69, 0.71))
        with pytest.warns(ConvergenceWarning, match="of the bounds"):
            found = learn_from_sums(summed(rows, self.kernel, 1e-3), bounded)
        assert 0.69 <= found.kernel.lengthscale <= 0.71 * (1.0 + 1e-12)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = learn_from_sums(summed(rows, self.kernel, 1e-3, room=1.0), self.kernel)
        assert found.kernel.lengthscale == pytest.approx(0.7, rel=1e-12)
        assert found.kernel.variance != 1.5


class TestRefused:
    kernel = GaussianKernel(0.7, 1.5)

    def sums(self) -> SpectralSums:
        return summed(drawn(1, self.kernel), self.kernel, 1e-3)

    @pytest.mark.parametrize(
        "kernel", [MaternKernel(0.7), GaussianKernel(0.7) + GaussianKernel(0.1), GaussianKernel([0.7])]
    )
    def test_a_kernel_of_another_form(self, kernel: Kernel) -> None:
        with pytest.raises(InputError, match=r"on modes for GaussianKernel\(lengthscale=0.7.* kernels of that form"):
            learn_from_sums(self.sums(), kernel)

    def test_bounds_beyond_the_room(self) -> None:
        with pytest.raises(InputError, match="leave nothing of what the modes serve"):
            learn_from_sums(self.sums(), GaussianKernel(9.0, lengthscale_bounds=(8.0, 10.0)))

    def test_too_many_modes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        sums = self.sums()
        with pytest.raises(MemoryLimitError, match=r"matrices of .* modes"):
            learn_from_sums(sums, self.kernel, max_memory_gib=1e-6)
        monkeypatch.setattr("lmgp.spectral.learning.PLAN", type(PLAN)(most=10))
        with pytest.raises(InputError, match=r"up to 10 of them; .*larger tolerance or less room, or learn from rows"):
            learn_from_sums(sums, self.kernel)

    def test_targets_without_spread(self) -> None:
        rows = drawn(1, self.kernel)
        with pytest.raises(InputError, match="y is constant"):
            learn_from_sums(summed(Rows(rows.X, np.full(150, 3.0)), self.kernel, 1e-3), self.kernel)


class TestModel:
    @pytest.mark.parametrize("trend", ["constant", "linear"])
    @pytest.mark.parametrize("own", [False, True])
    def test_it_predicts_with_what_it_learned(self, own: bool, trend: Any) -> None:
        kernel = GaussianKernel(0.7, 1.5)
        rows, T = drawn(1, kernel, 300), np.linspace(-1.0, 6.0, 40)[:, None]
        noises = np.random.default_rng(3).uniform(0.02, 0.2, 300) if own else None
        more = (slice(0, 100), slice(100, 300))
        fits = [{"X": rows.X[p], "y": rows.y[p], "noise_variances": noises[p] if own else None} for p in more]
        model = SpectralGPRegressor(1e-4, kernel=GaussianKernel(0.5, 0.5), noise_variance=0.1, room=2.0, trend=trend)
        before = model.fit(**fits[0]).update(**fits[1]).predict(T)
        assert model.relearn() is model
        assert (model.noise_variance_ == 0.1) == own
        assert model.learning_.chosen.likelihood == "modes"
        exact = ExactGPRegressor(model.kernel_, model.noise_variance_, trend=trend)
        exact.fit(rows.X, rows.y, noise_variances=noises)
        assert np.max(np.abs(before - exact.predict(T))) > 0.01
        for found, expected in zip(model.predict(T, True, True), exact.predict(T, True, True), strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=5e-4)
        dense = model._fitted.variance
        assert dense.log_marginal_likelihood == pytest.approx(model.learning_.chosen.log_likelihood * 300, abs=1e-2)
        # Further rows are added to what was learned.
        model.update(rows.X[:50], rows.y[:50], noise_variances=None if noises is None else noises[:50])
        again = np.concatenate((np.arange(300), np.arange(50)))
        exact.fit(rows.X[again], rows.y[again], noise_variances=None if noises is None else noises[again])
        np.testing.assert_allclose(model.predict(T), exact.predict(T), rtol=0, atol=5e-4)

    def test_a_failure_leaves_it_as_it_was(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rows = drawn(1, GaussianKernel(0.7, 1.5))
        model = SpectralGPRegressor(kernel=GaussianKernel(0.7), noise_variance=0.1).fit(rows.X, rows.y)
        before = model.predict(rows.X)
        monkeypatch.setattr("lmgp.spectral.learning.PLAN", type(PLAN)(most=10))
        with pytest.raises(InputError, match="up to 10 of them"):
            model.relearn()
        np.testing.assert_array_equal(model.predict(rows.X), before)

    @pytest.mark.parametrize("room", [0.5, 0, "much", np.nan])
    def test_room_is_at_least_1(self, room: Any) -> None:
        with pytest.raises(ValueError, match="'room' parameter of SpectralGPRegressor must be a float in the range"):
            SpectralGPRegressor(kernel=GaussianKernel(), noise_variance=0.1, room=room).fit([[0.0], [1.0]], [0.0, 1.0])
