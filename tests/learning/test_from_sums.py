"""Learning from sums: the likelihood of the modes, its gradient and its maximum against those of the exact process."""

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from lmgp import GaussianKernel, MaternKernel, RationalQuadraticKernel
from lmgp.data import Noise, Rows
from lmgp.errors import InputError, MemoryLimitError
from lmgp.kernels.base import Kernel
from lmgp.learning import from_sums as module
from lmgp.learning.from_sums import learn_from_sums
from lmgp.posteriors.exact import log_likelihood
from lmgp.posteriors.modes import ModePlan
from lmgp.posteriors.spectral import ModeLikelihood
from lmgp.sums.modes import ModeSums
from tests.dense import log_likelihood_and_gradient

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
KERNEL = GaussianKernel(0.7, 1.5)


def drawn(d: int, kernel: Kernel, n: int = 150, own: bool = False, n_targets: int = 1) -> Rows:
    """Rows of targets with a mean of 7."""
    rng = np.random.default_rng(d)
    X = rng.uniform(0.0, 5.0, (n, d))
    Y = 7.0 + np.linalg.cholesky(kernel(X) + NOISE * np.eye(n)) @ rng.normal(size=(n, n_targets))
    return Rows(X, Y, None, rng.uniform(0.02, 0.2, n) if own else None)


def summed(rows: Rows, kernel: Kernel, tolerance: float, room: float = 1.8, trend: bool = False) -> ModeSums:
    """The sums of rows, less 6, and of the columns of a trend or of a constant."""
    n, (_, d) = len(rows), rows.X.shape
    H = np.column_stack((np.full(n, 2.0), rows.X)) if trend else np.full((n, 1), 2.0)
    whole = rows.with_targets(np.column_stack((rows.Y - 6.0, H)))
    plan = ModePlan.choose(kernel, Noise(0.08), whole, tolerance, room=room, n_trend=1 + d if trend else 0)
    return ModeSums.for_plan(plan, whole.n_targets).of(whole)


def centred(rows: Rows) -> Rows:
    return rows.with_targets(rows.Y - rows.means)


@every_kernel
@pytest.mark.parametrize("arguments", ["plain", "weights", "noises", "two targets"])
def test_value_and_gradient_are_the_exact_ones(d: int, kernel: Kernel, tolerance: float, arguments: str) -> None:
    rows = drawn(d, kernel, own=arguments == "noises", n_targets=1 + (arguments == "two targets"))
    weights = np.random.default_rng(0).integers(1, 4, 150) * 1.0 if arguments in ("weights", "noises") else None
    rows = Rows(rows.X, rows.Y, weights, rows.noise_variances)
    statistics = summed(rows, kernel, tolerance).statistics.centred()
    if arguments != "noises":
        statistics = statistics.with_noise(Noise(0.08), 0.08)
    elsewhere, noise = kernel.with_theta(kernel.theta + 0.2), 0.08 if arguments == "noises" else 0.06
    value, gradient = ModeLikelihood(statistics)(elsewhere, elsewhere.theta, noise)
    expected, slopes = log_likelihood_and_gradient(centred(rows), elsewhere, noise)
    n_free, close = len(slopes) - (arguments == "noises"), 0.03 * tolerance * 150 / 1e-1 * rows.n_targets
    assert value == pytest.approx(expected, abs=close)
    np.testing.assert_allclose(gradient[:n_free], slopes[:n_free], rtol=1e-3, atol=close)


@pytest.mark.slow
@every_kernel
def test_the_maximum_is_the_exact_one(d: int, kernel: Kernel, tolerance: float) -> None:
    rows = drawn(d, kernel)
    fixed = kernel.set_params(alpha_bounds="fixed") if isinstance(kernel, RationalQuadraticKernel) else kernel

    def objective(free: np.ndarray) -> tuple[float, np.ndarray]:
        value, slopes = log_likelihood_and_gradient(centred(rows), fixed.with_theta(free[:-1]), math.exp(free[-1]))
        return -value, -slopes

    exact = minimize(objective, np.append(fixed.theta, math.log(NOISE)), jac=True, options={"gtol": 1e-6})
    start = fixed.with_theta(exact.x[:-1] + 0.4 * (-1.0) ** np.arange(len(fixed.theta)))
    found = learn_from_sums(summed(rows, start, tolerance), start)
    assert found.converged
    np.testing.assert_allclose(found.kernel.theta, exact.x[:-1], rtol=0, atol=0.01)
    assert found.noise_variance == pytest.approx(math.exp(exact.x[-1]), rel=2e-3)
    assert found.log_marginal_likelihood == pytest.approx(-exact.fun, abs=0.05)


class TestWhatIsLearned:
    def test_rows_keep_noise_variances_of_their_own(self) -> None:
        rows = drawn(1, KERNEL, own=True)
        sums = summed(rows, KERNEL, 1e-4)
        found = learn_from_sums(sums, KERNEL)
        assert found.noise_variance == 0.08
        best = log_likelihood(centred(rows), found.kernel, 0.08)
        assert found.log_marginal_likelihood == pytest.approx(best, abs=1e-3)
        for change in np.vstack((np.eye(2), -np.eye(2))) * 0.02:
            assert log_likelihood(centred(rows), KERNEL.with_theta(found.kernel.theta + change), 0.08) < best
        with pytest.raises(InputError, match=r"noise variances of their own, relative to 0\.08: no other .*got 0\.1"):
            learn_from_sums(sums, KERNEL, 0.1)

    def test_targets_are_less_the_least_squares_fit_of_a_trend(self) -> None:
        rows = drawn(1, KERNEL)
        H = np.column_stack((np.ones(150), rows.X))
        residuals = rows.with_targets(rows.Y - H @ np.linalg.lstsq(H, rows.Y, rcond=None)[0])
        sloped = rows.with_targets(rows.Y + 3.0 * rows.X)
        found = learn_from_sums(summed(sloped, KERNEL, 1e-4, trend=True), KERNEL)
        expected = log_likelihood(residuals, found.kernel, found.noise_variance)
        assert found.log_marginal_likelihood == pytest.approx(expected, abs=1e-3)

    def test_a_given_noise_and_fixed_parameters_stay(self) -> None:
        rows = drawn(1, KERNEL)
        found = learn_from_sums(summed(rows, KERNEL, 1e-4), GaussianKernel(0.7, 1.5, variance_bounds="fixed"), 0.06)
        assert (found.kernel.variance, found.noise_variance) == (1.5, 0.06)
        for factor in (0.98, 1.02):
            other = GaussianKernel(factor * found.kernel.lengthscale, 1.5)
            assert log_likelihood(centred(rows), other, 0.06) < found.log_marginal_likelihood - 1e-3

    def test_lengthscales_stay_within_the_room_and_the_bounds(self) -> None:
        rows = drawn(1, KERNEL)
        far = GaussianKernel(0.2, 1.5)
        with pytest.warns(ConvergenceWarning, match=r"an end of the room of the modes .*: lengthscale of .*more room"):
            found = learn_from_sums(summed(rows, far, 1e-3, room=1.5), far)
        assert found.kernel.lengthscale == pytest.approx(0.3, rel=1e-9)
        bounded = GaussianKernel(0.7, 1.5, lengthscale_bounds=(0.69, 0.71))
        with pytest.warns(ConvergenceWarning, match="of the bounds"):
            found = learn_from_sums(summed(rows, KERNEL, 1e-3), bounded)
        assert 0.69 <= found.kernel.lengthscale <= 0.71 * (1.0 + 1e-12)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = learn_from_sums(summed(rows, KERNEL, 1e-3, room=1.0), KERNEL)
        assert found.kernel.lengthscale == pytest.approx(0.7, rel=1e-12)
        assert found.kernel.variance != 1.5


def test_the_unit_of_weights_changes_the_noise_alone() -> None:
    rows, weights = drawn(1, KERNEL), np.random.default_rng(0).uniform(0.5, 2.0, 150)

    def of(unit: float) -> ModeSums:
        whole = replace(rows, weights=unit * weights, measurements=unit * weights)
        whole = whole.with_targets(np.column_stack((whole.Y - 6.0, np.ones(150))))
        return ModeSums.for_plan(ModePlan.choose(KERNEL, Noise(0.08 * unit), whole, 1e-3, room=1.8), 2).of(whole)

    once, many = (learn_from_sums(of(unit), KERNEL) for unit in (1.0, 1e6))
    assert many.noise_variance == pytest.approx(1e6 * once.noise_variance, rel=1e-3)
    np.testing.assert_allclose(many.kernel.theta, once.kernel.theta, atol=1e-3)


class TestRefused:
    def sums(self) -> ModeSums:
        return summed(drawn(1, KERNEL), KERNEL, 1e-3)

    @pytest.mark.parametrize(
        "kernel", [MaternKernel(0.7), GaussianKernel(0.7) + GaussianKernel(0.1), GaussianKernel([0.7])]
    )
    def test_a_kernel_of_another_form(self, kernel: Kernel) -> None:
        with pytest.raises(InputError, match=r"on modes for GaussianKernel\(lengthscale=0.7.* kernels of that form"):
            learn_from_sums(self.sums(), kernel)

    @pytest.mark.parametrize(("sums", "kernel", "told"), [(None, KERNEL, "got NoneType"), ("", 3, "got str")])
    def test_what_is_no_sum(self, sums: Any, kernel: Any, told: str) -> None:
        with pytest.raises(InputError, match=told):
            learn_from_sums(sums, kernel)

    @pytest.mark.parametrize("noise", [0.0, -1.0, math.nan, math.inf, "auto", [0.1]])
    def test_what_is_no_noise_variance(self, noise: Any) -> None:
        with pytest.raises(InputError, match="noise_variance must be a positive number"):
            learn_from_sums(self.sums(), KERNEL, noise)

    def test_bounds_beyond_the_room(self) -> None:
        with pytest.raises(InputError, match="leave nothing of what the modes serve"):
            learn_from_sums(self.sums(), GaussianKernel(9.0, lengthscale_bounds=(8.0, 10.0)))

    def test_too_many_modes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(MemoryLimitError, match=r"matrices of .* modes"):
            learn_from_sums(self.sums(), KERNEL, max_memory_gib=1e-6)
        monkeypatch.setattr(module, "MOST_MODES", 10)
        with pytest.raises(InputError, match=r"up to 10 of them; .*larger tolerance or less room, or learn from rows"):
            learn_from_sums(self.sums(), KERNEL)

    def test_targets_without_spread(self) -> None:
        rows = drawn(1, KERNEL)
        with pytest.raises(InputError, match="y is constant"):
            learn_from_sums(summed(rows.with_targets(np.full((150, 1), 3.0)), KERNEL, 1e-3), KERNEL)
