"""Draws of hyperparameters from their posterior distribution, against numerical integration."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from lmgp import GPRegressor, MaternKernel
from lmgp.data import Rows
from lmgp.kernels.base import Kernel
from lmgp.learning import choice
from lmgp.learning.choice import plausible_kernels
from lmgp.learning.scoring import Climb
from lmgp.learning.search import Search
from lmgp.learning.space import Units
from lmgp.posteriors.exact import ExactLikelihood, log_likelihood
from tests.learning.conftest import Draw, form_of

Floats = NDArray[np.float64]


def problem(draw_from: Draw, n: int = 25) -> Rows:
    X, y = draw_from(MaternKernel(1.0), n, noise=0.05, d=1)
    return Rows(X, y - y.mean())


def optimum(rows: Rows, name: str = "matern32", noise: float | None = None) -> Climb:
    return Search(rows, Units.of(rows, True), noise, True, 0).optimum(form_of(name, False, 1))


def posterior_on_a_grid(rows: Rows, one: Climb) -> tuple[Floats, Floats]:
    """Integrate over the two free numbers: their means and standard deviations, and the weight of the grid."""
    axes = [np.linspace(center - 6.0, center + 6.0, 60) for center in one.free]
    grid = np.array(np.meshgrid(*axes, indexing="ij")).reshape(2, -1).T
    space = one.space
    logarithms = np.array(
        [
            log_likelihood(rows, space.kernel(free), space.noise_variance(free)) + space.log_prior(free)[0]
            for free in grid
        ]
    )
    weights = np.exp(logarithms - logarithms.max())
    area = np.prod([axis[1] - axis[0] for axis in axes])
    evidence = float(np.log(weights.sum() * area) + logarithms.max())
    mean = np.average(grid, axis=0, weights=weights)
    spread = np.sqrt(np.average(np.square(grid - mean), axis=0, weights=weights))
    return np.array([*mean, *spread]), np.array(evidence)


def keep_all(monkeypatch: pytest.MonkeyPatch, n_draws: int) -> None:
    for name, value in {"MOST_DRAWS": n_draws, "ROWS_OF_DRAWS": 10**9, "KEPT": 10**9, "LEAST": 0.0}.items():
        monkeypatch.setattr(choice, name, value)


@pytest.mark.slow
def test_draws_have_the_moments_of_the_posterior(draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_all(monkeypatch, 2000)
    monkeypatch.setattr(choice, "POWER", 1.0)
    rows = problem(draw_from)
    one = optimum(rows, noise=0.05)
    chosen, kernels = plausible_kernels([one], np.random.default_rng(0))
    assert chosen is one
    weights = np.array([each.weight for each in kernels])
    assert weights.sum() == pytest.approx(1.0)
    # In the units of the space.
    theta = np.array([each.kernel.theta for each in kernels]) - one.space.logarithms(np.zeros(2))[:2]
    mean = weights @ theta
    spread = np.sqrt(weights @ np.square(theta - mean))
    expected, _ = posterior_on_a_grid(rows, one)
    np.testing.assert_allclose(mean, expected[:2], atol=0.15)
    np.testing.assert_allclose(spread, expected[2:], rtol=0.15)


def test_draws_are_proposed_by_the_approximation_of_laplace(draw_from: Draw) -> None:
    one = optimum(problem(draw_from), "matern12+gaussian")
    proposal = multivariate_normal(one.free, np.linalg.inv(one.at.information))
    offsets = 0.3 * np.random.default_rng(0).normal(size=(3, len(one.free)))
    for free, logarithm, offset in zip(*choice.moved(one, offsets), offsets, strict=True):
        off = free - one.free
        assert off @ one.at.information @ off == pytest.approx(offset @ offset, rel=1e-8)
        assert logarithm == pytest.approx(proposal.logpdf(free), rel=1e-8)


def test_the_first_is_the_optimum_of_the_best_form_and_others_follow_by_weight(
    draw_from: Draw, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_all(monkeypatch, 60)
    rows = problem(draw_from, 30)
    forms = [optimum(rows, name, noise=0.05) for name in ("matern12", "gaussian")]
    for order in (forms, forms[::-1]):
        chosen, kernels = plausible_kernels(order, np.random.default_rng(0))
        np.testing.assert_array_equal(kernels[0].kernel.theta, chosen.space.kernel(chosen.free).theta)
        assert len(kernels) == 2 * (2 * 15 + 1)
        assert len({tuple(one.kernel.theta) for one in kernels}) == len(kernels)
        assert np.all(np.diff([one.weight for one in kernels[1:]]) <= 0.0)


@pytest.mark.slow
def test_forms_have_the_weights_of_their_evidence(draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_all(monkeypatch, 4000)
    monkeypatch.setattr(choice, "POWER", 1.0)
    rows = problem(draw_from, 30)
    forms = [optimum(rows, name, noise=0.05) for name in ("matern12", "gaussian")]
    chosen, kernels = plausible_kernels(forms, np.random.default_rng(0))
    evidences = np.array([posterior_on_a_grid(rows, one)[1] for one in forms])
    expected = np.exp(evidences - np.logaddexp(*evidences))
    share = sum(one.weight for one in kernels if isinstance(one.kernel, MaternKernel))
    assert 0.02 < expected[0] < 0.98
    assert share == pytest.approx(expected[0], abs=0.07)
    assert chosen is forms[int(np.argmax(expected))]


def test_the_optimum_comes_first_and_the_others_by_their_weight(draw_from: Draw) -> None:
    rows = problem(draw_from)
    one = optimum(rows)
    _, kernels = plausible_kernels([one], np.random.default_rng(0))
    kernel, noise, _ = one.space.weighted(one.free)
    np.testing.assert_array_equal(kernels[0].kernel.theta, kernel.theta)
    assert kernels[0].noise_variance == noise
    weights = [each.weight for each in kernels[1:]]
    assert weights == sorted(weights, reverse=True)
    assert 10 < len(kernels) <= choice.KEPT
    assert min(weights) >= 0.9 * choice.LEAST
    assert sum(weights) + kernels[0].weight == pytest.approx(1.0)


def test_averages_have_the_square_roots_of_importance_weights(draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_all(monkeypatch, 40)
    rows = problem(draw_from)
    one = optimum(rows)
    _, kernels = plausible_kernels([one], np.random.default_rng(0))
    monkeypatch.setattr(choice, "POWER", 1.0)
    _, by_importance = plausible_kernels([one], np.random.default_rng(0))
    assert [each.noise_variance for each in kernels] == [each.noise_variance for each in by_importance]
    weights, importance = (np.array([each.weight for each in some]) for some in (kernels, by_importance))
    np.testing.assert_allclose(weights, np.sqrt(importance) / np.sqrt(importance).sum(), rtol=1e-10)


def test_the_more_rows_there_are_the_fewer_draws(draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "ROWS_OF_DRAWS", 500)
    monkeypatch.setattr(choice, "LEAST", 0.0)
    rows = problem(draw_from)
    _, kernels = plausible_kernels([optimum(rows)], np.random.default_rng(0))
    assert len(kernels) == 500 // 25 + 1


def test_draws_come_in_pairs_around_the_optimum(draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, moved = list[Floats](), choice.moved
    monkeypatch.setattr(choice, "moved", lambda one, offsets: drawn.append(offsets) or moved(one, offsets))
    plausible_kernels([optimum(problem(draw_from, 30))], np.random.default_rng(0))
    (offsets,) = drawn
    n_pairs = len(offsets) // 2
    assert offsets.shape == (129, 3)
    np.testing.assert_array_equal(offsets[0], 0.0)
    np.testing.assert_array_equal(offsets[1 : n_pairs + 1], -offsets[n_pairs + 1 :])


def test_draws_stay_within_the_bounds(draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = problem(draw_from)
    one = optimum(rows)
    monkeypatch.setattr(one, "at", replace(one.at, of_information=lambda: 1e-4 * np.eye(3)))
    _, kernels = plausible_kernels([one], np.random.default_rng(0))
    low, high = (one.space.logarithms(bound) for bound in one.space.bounds.T)
    for each in kernels:
        values = np.append(each.kernel.theta, np.log(each.noise_variance))
        assert np.all((low - 1e-9 <= values) & (values <= high + 1e-9))


def test_draws_without_a_cholesky_factor_have_no_weight(draw_from: Draw, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = problem(draw_from)
    one = optimum(rows)
    longest = one.space.kernel(one.free).lengthscale

    plain = ExactLikelihood.value

    def refuse_longer(likelihood: ExactLikelihood, kernel: Kernel, free: np.ndarray) -> float:
        if kernel.with_theta(free[:-1]).lengthscale > longest:
            return np.nan
        return plain(likelihood, kernel, free)

    monkeypatch.setattr(ExactLikelihood, "value", refuse_longer)
    _, kernels = plausible_kernels([one], np.random.default_rng(0))
    assert len(kernels) > 1
    assert all(each.kernel.lengthscale <= longest for each in kernels)


@pytest.mark.parametrize("n", [15, 60])
def test_the_order_of_columns_makes_no_difference(draw_from: Draw, n: int) -> None:
    X, y = draw_from(MaternKernel([1.0, 3.0, 9.0]), n, noise=0.05, d=3)
    columns, places = [2, 0, 1], np.random.default_rng(0).normal(size=(20, 3))
    mean, std = GPRegressor(average=True, noise="normal").fit(X, y).predict(places, return_std=True)
    again = GPRegressor(average=True, noise="normal").fit(X[:, columns], y)
    of_again = again.predict(places[:, columns], return_std=True)
    np.testing.assert_allclose(of_again, (mean, std), rtol=1e-6, atol=1e-8)
    assert len(again.kernels_) > 1
