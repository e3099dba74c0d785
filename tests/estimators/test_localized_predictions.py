"""Predictions of a localized Gaussian process: of one row or many, again, copied, and after the data have changed."""

import copy
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from sklearn.base import clone

from lmgp import GaussianKernel, LocalizedGPRegressor, MaternKernel
from lmgp.errors import ImplausibleMeanWarning
from tests.conftest import APPROXIMATIONS, MAPS, draw

NOISE = 0.05
KERNEL = GaussianKernel([1.1, 0.6], 2.0)


def model_of(name: str, approximation: str = "fitc", **parameters) -> LocalizedGPRegressor:
    defaults = {"kernel": KERNEL, "noise_variance": NOISE, "random_state": 0}
    return LocalizedGPRegressor(MAPS[name], approximation=approximation, **{**defaults, **parameters})


@pytest.mark.parametrize("centroids", ["farthest_point", "test_rows"])
@pytest.mark.parametrize("name", MAPS)
def test_a_row_alone_is_predicted_as_in_company(name: str, centroids: str) -> None:
    X, y, T = draw(n_new=6)
    T = np.concatenate((T, T[:3], X[:3], X[:1]))
    model = model_of(name, centroids=centroids).fit(X, y)
    fresh = copy.deepcopy(model)
    together = np.transpose(model.predict(T, return_std=True))
    alone = [np.ravel(copy.deepcopy(fresh).predict(row[None, :], return_std=True)) for row in T]
    np.testing.assert_allclose(alone, together, rtol=1e-11, atol=1e-12)
    order = np.random.default_rng(1).permutation(len(T))
    np.testing.assert_allclose(
        np.transpose(model.predict(T[order], return_std=True)), together[order], rtol=1e-11, atol=1e-12
    )


@pytest.mark.parametrize("centroids", ["farthest_point", "test_rows", [[9.0, -2.0]]])
def test_changes_nothing(centroids) -> None:
    X, y, T = draw()
    model = model_of("rademacher", centroids=centroids).fit(X, y)
    before, names = copy.deepcopy(model), dict(vars(model))
    state = pickle.dumps(model)
    first = model.predict(T, return_std=True)
    np.testing.assert_array_equal(model.predict(T, return_std=True), first)
    np.testing.assert_array_equal(before.predict(T, return_std=True), first)
    assert pickle.dumps(model) == state
    assert list(vars(model)) == list(names)
    for name, value in names.items():
        assert vars(model)[name] is value
    assert list(model.get_params()) == list(before.get_params())


@pytest.mark.parametrize("name", MAPS)
def test_pickle(name: str) -> None:
    X, y, T = draw()
    model = model_of(name).fit(X, y)
    untouched = pickle.loads(pickle.dumps(model))
    expected = model.predict(T, return_std=True)
    np.testing.assert_array_equal(untouched.predict(T, return_std=True), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(T, return_std=True), expected)


def test_data_may_change_after_the_fit() -> None:
    X, y, T = draw()
    noise = np.full(len(y), NOISE)
    centroids = np.array([[9.0, -2.0], [13.0, -2.0]])
    for where in ("farthest_point", "test_rows", centroids):
        model = model_of("taylor", centroids=where)
        arrays = X.copy(), y.copy(), noise.copy()
        expected = clone(model).fit(X, y, noise_variances=noise).predict(T)
        model.fit(*arrays[:2], noise_variances=arrays[2])
        for array in arrays:
            array *= 3.0
        np.testing.assert_array_equal(model.predict(T), expected)


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("name", MAPS)
def test_variance_is_never_negative(name: str, approximation: str) -> None:
    X, y, T = draw(n=200)
    T = np.concatenate((T, X))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ImplausibleMeanWarning)
        model = model_of(name, approximation, noise_variance=1e-8).fit(X, y)
        mean, std = model.predict(T, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std >= 0.0)


def test_y_may_have_any_mean() -> None:
    X, y, T = draw()
    mean, std = model_of("taylor").fit(X, y).predict(T, return_std=True)
    shifted_mean, shifted_std = model_of("taylor").fit(X, y + 1000.0).predict(T, return_std=True)
    np.testing.assert_allclose(shifted_mean - 1000.0, mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(shifted_std, std, rtol=1e-12)


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"solver": "dual"},
        {"features": None, "kernel": MaternKernel([1.1, 0.6]), "solver": "dual"},
        {"solver": "auto"},
    ],
    ids=["primal", "dual", "dual, all rows", "auto"],
)
def test_eight_threads_give_what_one_gives(parameters: dict) -> None:
    X, y, T = draw(200, n_new=50)
    model = model_of("taylor").set_params(**parameters)
    expected = clone(model).fit(X, y).predict(T, return_std=True)
    model.fit(X, y)
    barrier = Barrier(8)

    def predict(_: int) -> tuple[np.ndarray, ...]:
        barrier.wait()
        return model.predict(T, return_std=True)

    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(predict, range(8)):
            np.testing.assert_array_equal(found, expected)
