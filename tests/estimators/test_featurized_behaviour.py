"""What a featurized Gaussian process does: shifts, seeds, rows far away, defaults, and after the data have changed."""

import pickle
import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

import tests.conftest
from lmgp import FeaturizedGPRegressor, GaussianKernel, OrthogonalFourierFeatures, TaylorFeatures
from lmgp.errors import ImplausibleMeanWarning
from tests.conftest import APPROXIMATIONS, MAPS, TRUNCATED

LENGTHSCALE = np.array([1.0, 0.7, 2.0])
VARIANCE = 2.0
NOISE = 0.05
KERNEL = GaussianKernel(LENGTHSCALE, VARIANCE)

draw = partial(tests.conftest.draw, n=60, low=(3.5, -3.5, -1.0), high=(6.5, -0.5, 2.0), n_new=12)


def model_of(name: str, approximation: str = "fitc", random_state: int = 0, **parameters) -> FeaturizedGPRegressor:
    parameters = {"kernel": KERNEL, "noise_variance": NOISE, **parameters}
    return FeaturizedGPRegressor(MAPS[name], approximation=approximation, random_state=random_state, **parameters)


@pytest.mark.parametrize("name", ["orf", "tensor_srht", "taylor"])
def test_a_shift_of_y_shifts_the_mean(name: str) -> None:
    X, y, T = draw()
    mean, std = model_of(name).fit(X, y).predict(T, return_std=True)
    shifted = model_of(name).fit(X, y + 1000.0)
    shifted_mean, shifted_std = shifted.predict(T, return_std=True)
    np.testing.assert_allclose(shifted_mean - 1000.0, mean, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(shifted_std, std)
    assert shifted.log_marginal_likelihood_ == pytest.approx(
        model_of(name).fit(X, y).log_marginal_likelihood_, rel=1e-9
    )


@pytest.mark.parametrize("name", MAPS)
def test_a_shift_of_x_changes_nothing(name: str) -> None:
    X, y, T = draw()
    expected = model_of(name).fit(X, y).predict(T, return_std=True)
    shifted = model_of(name).fit(X + 1024.0, y).predict(T + 1024.0, return_std=True)
    np.testing.assert_allclose(shifted, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", MAPS)
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("noise_variance", [1e-8, 1e-4])
def test_variance_is_never_negative(name: str, approximation: str, noise_variance: float) -> None:
    X, y, T = draw(n=300)
    T = np.concatenate((X, T, X[:20] + 100.0, [X.mean(axis=0)]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ImplausibleMeanWarning)
        model = model_of(name, approximation, noise_variance=noise_variance).fit(X, y)
        mean, std = model.predict(T, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std >= 0.0)
    assert np.all(std**2 <= np.sum(model.features_.transform(T - X.mean(axis=0)) ** 2, axis=1) + VARIANCE + 1e-9)


@pytest.mark.parametrize("name", TRUNCATED)
@pytest.mark.parametrize("approximation", ["dtc", "fitc"])
def test_rows_far_away_return_to_the_prior(name: str, approximation: str) -> None:
    X, y, _ = draw()
    far = X[:5] + np.array([20.0, 100.0, -1e3, 1e6, -1e100])[:, None]
    mean, std = model_of(name, approximation).fit(X, y).predict(far, return_std=True)
    np.testing.assert_allclose(mean, y.mean(), rtol=0, atol=1e-10)
    np.testing.assert_allclose(std, np.sqrt(VARIANCE), rtol=1e-10)


@pytest.mark.parametrize("name", TRUNCATED)
def test_far_away_the_published_formula_is_sure_of_nothing(name: str) -> None:
    X, y, _ = draw()
    mean, std = model_of(name, "sor").fit(X, y).predict(X[:5] + 20.0, return_std=True)
    np.testing.assert_allclose(mean, y.mean(), rtol=0, atol=1e-10)
    np.testing.assert_allclose(std, 0.0, atol=1e-10)


def test_default_map() -> None:
    X, y, T = draw()
    model = FeaturizedGPRegressor(kernel=KERNEL, noise_variance=NOISE, random_state=0).fit(X, y)
    assert isinstance(model.features_, OrthogonalFourierFeatures)
    assert model.features_.n_features_out_ == 512
    named = FeaturizedGPRegressor(OrthogonalFourierFeatures(512), kernel=KERNEL, noise_variance=NOISE, random_state=0)
    np.testing.assert_array_equal(model.predict(T), named.fit(X, y).predict(T))


def test_the_kernel_of_the_regressor_rules() -> None:
    X, y, T = draw()
    other = TaylorFeatures(30, kernel=GaussianKernel(9.0, 9.0))
    model = FeaturizedGPRegressor(other, kernel=KERNEL, noise_variance=NOISE).fit(X, y)
    np.testing.assert_array_equal(model.predict(T), model_of("taylor").fit(X, y).predict(T))
    assert other.kernel.lengthscale == 9.0


@pytest.mark.parametrize("name", sorted(set(MAPS) - {"taylor"}))
def test_seeds(name: str) -> None:
    X, y, T = draw()

    def predicted(of_map: int | None, of_regressor: int | None) -> list[float]:
        model = clone(model_of(name)).set_params(features__random_state=of_map, random_state=of_regressor)
        return model.fit(X, y).predict(T).tolist()

    assert predicted(None, 0) == predicted(None, 0)
    assert predicted(None, 0) != predicted(None, 1)
    # A map with a seed of its own keeps it.
    assert predicted(7, 0) == predicted(7, 1)
    assert predicted(7, 0) != predicted(8, 0)


@pytest.mark.parametrize("name", MAPS)
def test_data_may_change_after_the_fit(name: str) -> None:
    X, y, T = draw()
    model = model_of(name).fit(X, y)
    expected = model_of(name).fit(X.copy(), y.copy()).predict(T)
    X *= 3.0
    y *= 3.0
    np.testing.assert_array_equal(model.predict(T), expected)


@pytest.mark.parametrize("name", MAPS)
def test_pickle(name: str) -> None:
    X, y, T = draw()
    model = model_of(name).fit(X, y)
    loaded = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(loaded.predict(T, return_std=True), model.predict(T, return_std=True))
    assert loaded.log_marginal_likelihood_ == model.log_marginal_likelihood_


def test_other_parameters_after_the_fit_wait_for_the_next() -> None:
    X, y, T = draw()
    model = model_of("taylor", "dtc").fit(X, y)
    expected = model.predict(T, return_std=True, return_error=True)
    model.set_params(approximation="sor", kernel=None, noise_variance=9.0)
    np.testing.assert_array_equal(model.predict(T, return_std=True, return_error=True), expected)
