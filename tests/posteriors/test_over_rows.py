"""Coefficients of modes that are solved for over the rows, against dense algebra and the solve over the modes."""

from dataclasses import replace

import numpy as np
import pytest

from lmgp import GaussianKernel, LinearKernel, MaternKernel, SpectralGPRegressor
from lmgp.data import Noise, Rows
from lmgp.errors import ToleranceWarning
from lmgp.kernels.base import Kernel
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.modes import ModePlan, ModeSolve, RowProducts, choose_modes
from lmgp.posteriors.over_rows import solve_over_rows
from lmgp.posteriors.spectral import SpectralPosterior
from lmgp.posteriors.toeplitz import mode_products
from lmgp.posteriors.vecchia import VecchiaLikelihood
from lmgp.sums.modes import ModeSums

ROUGH, NOISE, TOLERANCE = MaternKernel([0.2, 0.3], 1.3, smoothness=1.5), 0.01, 1e-2


def drawn(n: int = 500, own_noise: bool = False, weights: bool = False) -> tuple[Rows, np.ndarray]:
    """Rows with two targets in the plane, and new rows."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n, 2))
    Y = np.column_stack((np.sin(6.0 * X[:, 0]), np.abs(X[:, 1] - 0.5))) + 0.1 * rng.normal(size=(n, 2))
    return Rows(
        X, Y - Y.mean(axis=0), rng.integers(1, 4, n) * 1.0 if weights else None,
        rng.uniform(0.005, 0.02, n) if own_noise else None,
    ), rng.uniform(-0.1, 1.1, (40, 2))  # fmt: skip


def solved(rows: Rows, tolerance: float = TOLERANCE, over_rows: bool = True, **options) -> SpectralPosterior:
    plan = ModePlan.choose(ROUGH, Noise(NOISE), rows, tolerance, keeps_rows=over_rows, **options)
    assert plan.solve(1.0).over_rows is over_rows
    return ModeSums.for_plan(plan, rows.n_targets).of(rows).posterior(np.eye(rows.n_targets))


@pytest.mark.parametrize("own_noise", [False, True])
@pytest.mark.parametrize("weights", [False, True])
def test_means_are_the_exact_ones_to_the_tolerance(own_noise: bool, weights: bool) -> None:
    rows, new = drawn(own_noise=own_noise, weights=weights)
    posterior, exact = solved(rows), ExactPosterior(ROUGH, rows, Noise(NOISE))
    off = posterior.predict(new, False)[0] - exact.predict(new, False)[0]
    assert np.sqrt(np.mean(off**2) / NOISE) < 2.0 * TOLERANCE
    np.testing.assert_allclose(posterior.products(), exact.products(), rtol=0.02, atol=0.5)
    assert 0 < posterior.accuracy.n_iterations < 40


@pytest.mark.slow
def test_the_stated_error_is_a_bound_of_the_energy_of_the_error() -> None:
    rows, _ = drawn()
    plan = replace(solved(rows).plan, transform_tolerance=1e-12)

    def to(tolerance: float) -> SpectralPosterior:
        return ModeSums.for_plan(replace(plan, tolerance=tolerance), 2).of(rows).posterior(np.eye(2))

    close, roots = to(1e-7), np.sqrt(plan.weights)
    for tolerance in (0.3, 1e-2):
        loose, system = to(tolerance), close._system
        off = loose._solution.vectors - close._solution.vectors
        image = roots * system.toeplitz(roots * off) + NOISE * off
        energy = mode_products(off, image)
        assert np.all(energy <= 1.001 * loose._solution.remaining)
        assert np.all(loose._solution.remaining <= tolerance**2 * len(rows) * NOISE)


@pytest.mark.slow
def test_they_are_those_of_the_solve_over_the_modes_in_fewer_iterations() -> None:
    rows, new = drawn()
    over_rows, over_modes = (solved(rows, over_rows=way) for way in (True, False))
    off = over_rows.predict(new, False)[0] - over_modes.predict(new, False)[0]
    assert np.sqrt(np.mean(off**2) / NOISE) < 2e-2
    assert 3 * over_rows.accuracy.n_iterations < over_modes.accuracy.n_iterations


@pytest.mark.slow
def test_draws_have_the_covariance_of_the_errors() -> None:
    rows, new = drawn(200)
    draws = solved(rows).sample(new[:8].clip(0.0, 1.0), 400, np.random.default_rng(1))
    exact = ExactPosterior(ROUGH, rows, Noise(NOISE)).covariance(new[:8].clip(0.0, 1.0))
    found = np.cov(draws[..., 0] if draws.ndim == 3 else draws)
    np.testing.assert_allclose(found, exact, atol=5.0 * exact.max() / np.sqrt(400.0))


def test_iterations_that_end_early_are_told() -> None:
    with pytest.warns(ToleranceWarning, match=r"1 iterations leave an error of the mean"):
        posterior = solved(drawn(2500)[0], max_iterations=1)
    assert not posterior.accuracy.converged


@pytest.mark.parametrize(
    ("kernel", "noise", "keeps_rows", "expected"),
    [
        (ROUGH, NOISE, True, True),
        (ROUGH, NOISE, False, False),  # of rows that are gone there are sums alone
        (ROUGH, 10.0, True, False),
        (GaussianKernel(0.2), NOISE, True, False),
        (0.5 * ROUGH + GaussianKernel(0.2), NOISE, True, True),
    ],
)
def test_the_way_with_fewer_operations_is_taken(kernel: Kernel, noise: float, keeps_rows: bool, expected: bool) -> None:
    modes = choose_modes(kernel, drawn()[0].X, noise, 1e-2)
    solve = ModeSolve.of(modes, kernel, noise, 500, 1e-2, keeps_rows)
    assert solve.over_rows is expected
    other = ModeSolve.of(modes, kernel, noise, 500, 1e-2, not keeps_rows)
    assert (solve.cost.seconds <= other.cost.seconds) == (keeps_rows or not other.over_rows)


@pytest.mark.slow
def test_a_regressor_takes_rows_that_come_later() -> None:
    rows, new = drawn(800)
    model = SpectralGPRegressor(kernel=ROUGH, noise_variance=NOISE, tolerance=1e-2, random_state=0)
    first = model.fit(rows.X, rows.Y[:, 0]).predict(new)
    again = model.partial_fit(rows.X[:50], rows.Y[:50, 0]).forget(rows.X[:50], rows.Y[:50, 0]).predict(new)
    assert np.sqrt(np.mean((again - first) ** 2) / NOISE) < 2e-2


@pytest.mark.parametrize("n_inputs", [1, 2, 3])
def test_products_are_those_of_the_covariance(n_inputs: int) -> None:
    rng, kernel = np.random.default_rng(0), MaternKernel(0.5, 1.3, smoothness=2.5)
    X, vectors = rng.uniform(size=(300, n_inputs)) + 7.0, rng.normal(size=(300, 3)) * [1.0, 1e6, 1e-3]
    plan = ModePlan.choose(kernel, Noise(0.1), Rows(X, vectors), 1e-3)
    expected = kernel(X) @ vectors
    off = np.abs(RowProducts(plan, X)(vectors) - expected).max(axis=0)
    assert np.all(off < 1e-3 * np.abs(expected).max(axis=0))


@pytest.mark.parametrize("n_inputs", [1, 2])
def test_iterations_do_not_grow_with_the_rows(n_inputs: int) -> None:
    """The noise of rows that are as many more is as much larger beside that of their mean."""
    kernel, counts = MaternKernel(0.4, 1.0, smoothness=1.5), []
    for n in (500, 8000):
        rng = np.random.default_rng(0)
        X = rng.uniform(size=(n, n_inputs))
        rows = Rows(X, np.sin(6.0 * X).sum(axis=1) + 0.3 * rng.normal(size=n))
        plan = ModePlan.choose(kernel, Noise(0.1), rows, 1e-2)
        found = solve_over_rows(plan, rows, rows.Y.T, np.array([1e-4 * n * 0.1]))
        assert found.remaining[0] <= 1e-4 * n * 0.1
        counts.append(found.n_iterations)
    assert counts[1] <= counts[0] + 6


class TestWhitening:
    @pytest.mark.parametrize("own_noise", [False, True])
    def test_of_all_rows_before_it_is_the_inverse_of_the_covariance(self, own_noise: bool) -> None:
        rows, _ = drawn(60, own_noise)
        likelihood = VecchiaLikelihood(rows, 60, 59, np.random.default_rng(0))
        likelihood.look_for_neighbours(ROUGH)
        whitening = likelihood.whitening(ROUGH, np.append(ROUGH.theta, np.log(NOISE)))
        noise = rows.noise_variances if own_noise else np.full(60, NOISE)
        inverse = np.linalg.inv(ROUGH(rows.X) + np.diag(noise))
        np.testing.assert_allclose((whitening.T @ whitening).toarray(), inverse, rtol=1e-8, atol=1e-8)

    def test_of_some_rows_each_value_is_whitened_by_its_neighbours(self) -> None:
        rows, _ = drawn(80)
        likelihood = VecchiaLikelihood(rows, 80, 7, np.random.default_rng(0))
        likelihood.look_for_neighbours(ROUGH)
        free = np.append(ROUGH.theta, np.log(NOISE))
        whitened = likelihood.whitening(ROUGH, free) @ rows.Y
        np.testing.assert_allclose(np.mean(whitened**2, axis=0), likelihood.squares(ROUGH, free), rtol=1e-9)

    def test_there_is_none_of_a_kernel_that_is_not_radial(self) -> None:
        likelihood = VecchiaLikelihood(drawn(30)[0], 30, 5, np.random.default_rng(0))
        kernel = MaternKernel() + LinearKernel()
        likelihood.look_for_neighbours(MaternKernel())
        assert likelihood.whitening(kernel, np.append(kernel.theta, np.log(NOISE))) is None
