"""The known mean of y, and the trend, are in all that a model says."""

import numpy as np
import pytest

from lmgp import ExactGPRegressor, GPRegressor
from tests.conftest import GIVEN, every_regressor, make, universal_kriging, with_ones

RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 4.0, (50, 2))
Y = 3.0 + np.sin(X[:, 0]) + 0.1 * RNG.normal(size=50)


@every_regressor
def test_a_known_centre_is_what_y_is_less_of(name: str) -> None:
    model, plain = make(name).fit(X, Y, center=100), make(name).fit(X, Y - 100.0, center=0.0)
    assert model.center_ == 100.0
    np.testing.assert_allclose(
        model.predict(X), plain.predict(X) + 100.0, rtol=0, atol=1e-2 if name == "spectral" else 1e-6
    )


def test_a_chosen_model_keeps_a_known_centre() -> None:
    model = GPRegressor(**GIVEN, random_state=0).fit(X, Y, center=100)
    exact = ExactGPRegressor(**GIVEN).fit(X, Y, center=100)
    assert model.center_ == 100.0
    np.testing.assert_allclose(model.predict([[50.0, 50.0]]), 100.0, rtol=1e-9)  # where no rows are
    np.testing.assert_allclose(model.predict(X), exact.predict(X), atol=0.1)


def test_leave_one_out_has_the_variance_of_the_trend() -> None:
    model = ExactGPRegressor(**GIVEN, trend="linear").fit(X, Y)
    kernel, noise = GIVEN["kernel"], GIVEN["noise_variance"]
    for i in range(0, 50, 7):
        Z, own = np.delete(X, i, axis=0), X[i : i + 1]
        mean, variance, *_ = universal_kriging(
            kernel(Z),
            kernel(Z, own),
            kernel.diagonal(own),
            np.delete(Y, i),
            np.full(49, noise),
            with_ones(Z),
            with_ones(own),
        )
        assert model.loo_.mean[i] == pytest.approx(mean[0], abs=1e-8)
        assert model.loo_.std[i] ** 2 == pytest.approx(variance[0] + noise, rel=1e-8)
