"""The noise variance beside heavy tails, against dense leave-one-out predictions."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from lmgp import GPRegressor, MaternKernel
from lmgp.data import Rows, sampling
from lmgp.distributions import tails
from lmgp.distributions.student import Student
from lmgp.distributions.tails import ERRORS, LEAST_GAIN, N_NEIGHBORS, STEP, with_heavy_tails
from lmgp.kernels.composite import LinearKernel
from lmgp.learning.record import Learned, Learning, Trial
from lmgp.learning.space import LEAST_NOISE
from lmgp.neighbours.duplicates import steady_order
from lmgp.posteriors.average import WeightedKernel

KERNEL = MaternKernel([1.0, 1.0], 1.0, smoothness=2.5)
N, N_ROWS = 450, 400


@pytest.fixture(autouse=True)
def _of_few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tails, "FEWEST_ROWS", N)
    monkeypatch.setattr(tails, "N_ROWS", N_ROWS)


def rows_of(effect: float, n: int = N, share: float = 0.33) -> Rows:
    """A smooth function, and three rows at each of n/3 places that agree but for 0.02; in a share, they differ by 1."""
    rng = np.random.default_rng(0)
    places = rng.uniform(0.0, 4.0, (n // 3 + 1, 2)).repeat(3, axis=0)[:n]
    X = places + 1e-3 * rng.standard_normal((n, 2))
    y = np.sin(2.0 * X[:, 0]) + np.cos(X[:, 1]) + effect * rng.standard_normal(n // 3 + 1).repeat(3)[:n]
    far = (rng.uniform(size=n // 3 + 1) < share).repeat(3)[:n] & (effect > 0.0)
    y += np.where(far, 1.0, 0.02 if effect else 0.05) * rng.standard_normal(n)
    return Rows(X, (y - y.mean())[:, None])


def learned_of(noise_variance: float, kernel: Any = KERNEL) -> Learned:
    trial = Trial("matern52", True, 4, "vecchia", N, 30, -1.0, chosen=True)
    average = WeightedKernel(kernel, noise_variance, 0.6), WeightedKernel(kernel, 2.0 * noise_variance, 0.4)
    return Learned(kernel, noise_variance, -1.0, True, Learning((trial,), N), average)


def density(rows: Rows, noise_variance: float, index: Any) -> Any:
    """The log density of rows under a t, each from the nearest others by dense algebra."""
    errors, log_std = np.empty(len(index)), np.empty(len(index))
    for place, i in enumerate(index):
        apart = np.square(rows.X - rows.X[i]).sum(axis=1)
        near = np.argsort(apart)[1 : N_NEIGHBORS + 1]
        covariance = KERNEL(rows.X[near]) + noise_variance * np.eye(len(near))
        cross = KERNEL(rows.X[near], rows.X[i : i + 1])[:, 0]
        weights = np.linalg.solve(covariance, cross)
        variance = 1.0 - cross @ weights + noise_variance
        errors[place] = (rows.Y[i, 0] - weights @ rows.Y[near, 0]) / np.sqrt(variance)
        log_std[place] = 0.5 * np.log(variance)
    return Student.fitted(errors).log_density(errors) - log_std


@pytest.mark.slow
def test_near_copies_that_agree_ask_for_a_smaller_noise() -> None:
    rows, start = rows_of(0.5), 0.04
    before = learned_of(start)
    after = with_heavy_tails(rows, before)
    index = steady_order(rows)[np.sort(sampling().permutation(N)[:N_ROWS])]
    noises = [start / STEP**i for i in range(6) if start / STEP**i >= LEAST_NOISE * rows.Y.var()]
    densities = [density(rows, noise, index) for noise in noises]
    gains = [b - a for a, b in pairwise(densities)]
    rises = [gain.mean() > 0.0 for gain in gains]
    gains = gains[: (*rises, False).index(False)]
    pays = [gain.mean() > max(ERRORS * gain.std() / np.sqrt(N_ROWS), LEAST_GAIN) for gain in gains]
    taken = 1 + max(np.flatnonzero(pays))
    assert taken > 1
    assert after.noise_variance == pytest.approx(noises[taken])
    assert [one.noise_variance for one in after.average] == pytest.approx([noises[taken], 2.0 * noises[taken]])
    assert after.kernel is before.kernel
    # What was tried tells it, and what was taken before is a line of its own.
    first, last = after.learning
    assert not first.chosen
    assert after.learning.chosen is last
    assert (last.likelihood, last.n_rows, last.n_neighbors) == ("leave-one-out, t", N_ROWS, N_NEIGHBORS)
    assert last.log_likelihood == pytest.approx(densities[taken].mean(), abs=1e-6)


def test_copies_at_a_place_count_alike_in_any_order() -> None:
    """Of 150 rows at one place, which differ in y alone, 128 are the nearest."""
    rows, order = rows_of(0.5, share=0.1), np.random.default_rng(1).permutation(N)
    rows.X[:150], rows.Y[:150] = rows.X[0], rows.Y[0] + 0.02 * rows.Y[:150]
    first, second = (with_heavy_tails(each, learned_of(0.4)) for each in (rows, rows.take(order)))
    assert first.noise_variance == second.noise_variance < 0.4
    assert first.learning.chosen.log_likelihood == second.learning.chosen.log_likelihood


def test_where_it_does_not_pay_all_stays_as_it_is() -> None:
    learned = learned_of(0.0025)
    assert with_heavy_tails(rows_of(0.0), learned) is learned
    few = rows_of(0.5, N - 1)
    assert with_heavy_tails(few, learned_of(1.0)).noise_variance == 1.0
    no_distances = learned_of(1.0, LinearKernel())
    assert with_heavy_tails(rows_of(0.5), no_distances) is no_distances


@pytest.mark.slow
def test_the_regressor_takes_it_where_it_may() -> None:
    rows = rows_of(0.5, share=0.1)
    options: Any = {"kernel": "matern52", "methods": ["nearest_rows"], "random_state": 0}
    normal, tailed, given = (
        GPRegressor(**{**options, **more}).fit(rows.X, rows.Y[:, 0])
        for more in ({"noise": "normal"}, {"noise": "student"}, {"noise": "student", "noise_variance": 0.2})
    )
    assert tailed.noise_variance_ < 0.2 * normal.noise_variance_
    assert repr(tailed.kernel_) == repr(normal.kernel_)
    assert given.noise_variance_ == 0.2
    assert normal.learning_.chosen.likelihood != tailed.learning_.chosen.likelihood == "leave-one-out, t"
