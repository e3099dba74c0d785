"""The regressor of the nearest rows: what it hands to its posterior, and what it refuses."""

import pickle

import numpy as np
import pytest

from lmgp import ExactGPRegressor, GaussianKernel, LinearKernel, MaternKernel, NearestNeighborsGPRegressor
from lmgp.data import Noise, Rows
from lmgp.errors import InputError, MemoryLimitError
from lmgp.posteriors.nearest import NearestPosterior
from tests.conftest import counts_and_noises, draw

KERNEL = MaternKernel([1.1, 0.6], 2.0)
NOISE = 0.05
GIVEN = {"kernel": KERNEL, "noise_variance": NOISE}


@pytest.mark.parametrize("arguments", [(), ("sample_weight",), ("noise_variances",)])
def test_it_is_the_posterior_of_its_rows(arguments: tuple[str, ...]) -> None:
    X, y, T = draw(200)
    counts, noises = counts_and_noises(len(y))
    given = {name: {"sample_weight": counts + 1.0, "noise_variances": noises}[name] for name in arguments}
    model = NearestNeighborsGPRegressor(30, **GIVEN).fit(X, y, **given)
    rows = Rows(X, y - model.center_, given.get("sample_weight"), given.get("noise_variances"))
    mean, variance = NearestPosterior(KERNEL, rows, Noise(NOISE), 30).predict(T)
    found = model.predict(T, return_std=True)
    np.testing.assert_allclose(found[0], mean[:, 0] + model.center_, rtol=1e-12)
    np.testing.assert_allclose(found[1], np.sqrt(variance), rtol=1e-9)
    np.testing.assert_allclose(model.predict(T), found[0], rtol=1e-12)


@pytest.mark.parametrize("n_neighbors", [150, 10**6])
def test_of_all_rows_it_is_the_exact_process(n_neighbors: int) -> None:
    X, y, T = draw(150)
    found = NearestNeighborsGPRegressor(n_neighbors, **GIVEN).fit(X, y).predict(T, return_std=True)
    np.testing.assert_allclose(found, ExactGPRegressor(**GIVEN).fit(X, y).predict(T, return_std=True), atol=1e-8)


def test_the_caller_may_change_the_rows_afterwards() -> None:
    X, y, T = draw(150)
    model = NearestNeighborsGPRegressor(30, **GIVEN).fit(X, y)
    expected = model.predict(T)
    X[:], y[:] = 0.0, 0.0
    np.testing.assert_array_equal(model.predict(T), expected)


def test_copies_predict_alike_in_any_order() -> None:
    """Of 40 copies of a place with y of their own, ten predict: the same ones in any order, and from a file."""
    rng = np.random.default_rng(1)
    places = rng.uniform(size=(30, 5))
    X, y, order = np.repeat(places, 40, axis=0), rng.normal(size=1200), rng.permutation(1200)
    model, other = (
        NearestNeighborsGPRegressor(10, kernel=MaternKernel(1.0), noise_variance=NOISE).fit(X[index], y[index])
        for index in (slice(None), order)
    )
    expected = model.predict(places, return_std=True)
    np.testing.assert_allclose(other.predict(places, return_std=True), expected, rtol=1e-10)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(places, return_std=True), expected)
    alone = [one.loo_.mean for one in (model, other)]
    np.testing.assert_allclose(alone[1], alone[0][order], rtol=1e-10)


def test_columns_count_by_their_lengthscales() -> None:
    rng = np.random.default_rng(0)
    X, T = rng.uniform(size=(400, 2)), rng.uniform(size=(50, 2))
    kernel = MaternKernel([0.2, 1e6])
    one = NearestNeighborsGPRegressor(20, kernel=MaternKernel(0.2), noise_variance=NOISE).fit(X[:, :1], X[:, 0])
    both = NearestNeighborsGPRegressor(20, kernel=kernel, noise_variance=NOISE).fit(X, X[:, 0])
    assert np.corrcoef(one.predict(T[:, :1]), both.predict(T))[0, 1] > 0.999


class TestRefused:
    def test_an_estimate_of_the_error(self) -> None:
        X, y, T = draw(150)
        with pytest.raises(InputError, match=r"beyond the nearest 30 would change. Compare with ExactGPRegressor"):
            NearestNeighborsGPRegressor(30, **GIVEN).fit(X, y).predict(T, return_error=True)

    def test_a_kernel_without_a_metric(self) -> None:
        X, y, _ = draw(150)
        with pytest.raises(InputError, match=r"NearestNeighborsGPRegressor needs a lengthscale.*LinearKernel"):
            NearestNeighborsGPRegressor(kernel=LinearKernel(), noise_variance=NOISE).fit(X, y)

    def test_more_memory_than_allowed(self) -> None:
        X, y, _ = draw(150)
        with pytest.raises(MemoryLimitError, match=r"from 100 rows take .*Use a smaller n_neighbors"):
            NearestNeighborsGPRegressor(kernel=GaussianKernel(), noise_variance=NOISE, max_memory_gib=1e-5).fit(X, y)
