"""The contract of what is learned: names, lists, "auto" and objects with bounds mean the same in every model."""

from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    learn,
)
from lmgp.errors import InputError
from lmgp.learning.forms import AUTO
from tests.conftest import Floats, dense_gp

N = 70
MODELS: dict[str, Any] = {
    "exact": ExactGPRegressor(random_state=0),
    "featurized": FeaturizedGPRegressor(NystroemFeatures(N), random_state=0),
    "localized": LocalizedGPRegressor(random_state=0),
    "nearest rows": NearestNeighborsGPRegressor(N, random_state=0),
    "chosen": GPRegressor(random_state=0),
}
every_model = pytest.mark.parametrize("name", MODELS)


def rows() -> tuple[Floats, Floats, Floats]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (N + 20, 2))
    y = 3.0 + np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=N + 20)
    return X[:N], y[:N], X[N:]


def fitted(name: str, **parameters: Any) -> Any:
    X, y, _ = rows()
    return clone(MODELS[name]).set_params(**parameters).fit(X, y)


def test_auto_is_one_sum_of_three_parts() -> None:
    model = fitted("nearest rows", kernel="auto", ard="auto")
    assert [(trial.kernel, trial.ard) for trial in model.learning_] == [(AUTO, True)]
    assert [one.smoothness for one in (model.kernel_.left.left, model.kernel_.left.right)] == [0.5, 2.5]
    assert isinstance(model.kernel_.right, GaussianKernel)
    assert str(model.learning_).count("\n* ") == 1


@every_model
class TestKernel:
    @pytest.mark.slow
    @pytest.mark.parametrize("kernel", ["gaussian", "matern12", "matern32", "matern52", "rational_quadratic"])
    def test_a_name_is_its_kernel(self, name: str, kernel: str) -> None:
        model = fitted(name, kernel=kernel, ard=False)
        smoothness = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}.get(kernel)
        if smoothness is not None:
            assert model.kernel_.smoothness == smoothness
        assert type(model.kernel_).__name__.lower().startswith(kernel.replace("_", "").rstrip("0123456789"))
        assert {trial.kernel for trial in model.learning_} == {kernel}

    def test_a_sum_is_one_of_the_kernels_that_are_named(self, name: str) -> None:
        model = fitted(name, kernel="matern12+gaussian", ard=False)
        assert isinstance(model.kernel_.left, MaternKernel)
        assert isinstance(model.kernel_.right, GaussianKernel)

    def test_a_list_chooses_one_that_was_tried(self, name: str) -> None:
        model = fitted(name, kernel=["matern12", "gaussian"], ard=False)
        assert model.learning_.chosen.kernel == "gaussian"  # the rows are of a smooth function
        assert {trial.kernel for trial in model.learning_} == {"matern12", "gaussian"}

    def test_ard_is_a_lengthscale_a_column(self, name: str) -> None:
        for ard, expected in ((True, True), (False, False), ("auto", True)):
            model = fitted(name, kernel="matern32", ard=ard)
            assert {trial.ard for trial in model.learning_} == {expected}
            assert model.inverse_lengthscales_.shape == (2,)
        inverse = fitted(name, kernel="matern32", ard=True).inverse_lengthscales_
        assert inverse[0] > 1.5 * inverse[1]

    def test_predictions_are_those_of_dense_algebra_with_the_learned_kernel(self, name: str) -> None:
        X, y, T = rows()
        alone = {"average": False} if name == "chosen" else {}
        model = fitted(name, kernel="matern12+gaussian", ard=True, **alone)
        kernel, noise = model.kernel_, np.full(N, model.noise_variance_)
        mean, variance, _ = dense_gp(kernel(X), kernel(X, T), kernel.diagonal(T), y, noise)
        found, std = model.predict(T, return_std=True)
        np.testing.assert_allclose(found, mean, atol=1e-4 if name != "chosen" else 0.02)
        np.testing.assert_allclose(std**2, variance, atol=1e-4 if name != "chosen" else 0.02)

    def test_of_an_object_the_parameters_with_bounds_are_learned(self, name: str) -> None:
        kernel = MaternKernel([0.7, 2.0], 1.0, variance_bounds=(0.3, 0.4))
        model = fitted(name, kernel=kernel)
        np.testing.assert_array_equal(model.kernel_.lengthscale, [0.7, 2.0])
        assert 0.3 - 1e-9 <= model.kernel_.variance <= 0.4 + 1e-9
        assert kernel.variance == 1.0
        assert len(model.learning_) > 0
        # Without bounds it is used as it is.
        as_it_is = fitted(name, kernel=MaternKernel([0.7, 2.0], 1.0), noise_variance=0.01)
        assert as_it_is.kernel_.variance == 1.0
        assert len(as_it_is.learning_) == 0

    def test_all_models_learn_the_same(self, name: str) -> None:
        X, y, _ = rows()
        model = fitted(name, kernel="gaussian", ard=True)
        reference = learn(X, y, kernel="gaussian", ard=True, likelihood="exact", random_state=0)
        np.testing.assert_allclose(model.kernel_.lengthscale, reference.kernel.lengthscale, rtol=0.1)
        assert model.noise_variance_ == pytest.approx(reference.noise_variance, rel=0.1)

    def test_a_given_noise_stays_and_is_not_counted(self, name: str) -> None:
        model = fitted(name, kernel="gaussian", ard=False, noise_variance=0.02)
        assert model.noise_variance_ == 0.02
        assert model.learning_.chosen.n_free == 2

    def test_is_deterministic_and_clones(self, name: str) -> None:
        X, y, T = rows()
        model = fitted(name, kernel=["matern32", "gaussian"], ard="auto", max_memory_gib=4.0)
        again = clone(model).set_params(max_memory_gib=3.9).fit(X, y)
        assert again.kernel == ["matern32", "gaussian"]
        np.testing.assert_array_equal(model.kernel_.theta, again.kernel_.theta)
        np.testing.assert_array_equal(model.predict(T), again.predict(T))

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"kernel": "matern23"}, "'matern23', which is no kernel that can be named.*matern"),
            ({"kernel": ["gaussian", "nothing"]}, "'nothing', which is no kernel that can be named"),
            ({"kernel": []}, "kernel must be a kernel, a name"),
            ({"kernel": 3.0}, "kernel"),
            ({"ard": "yes"}, "ard"),
        ],
    )
    def test_what_is_no_kernel_is_refused(self, name: str, parameters: dict[str, Any], message: str) -> None:
        with pytest.raises((InputError, ValueError), match=message):
            fitted(name, **parameters)

    def test_with_a_trend_weights_and_noises(self, name: str) -> None:
        X, y, T = rows()
        rng = np.random.default_rng(2)
        weights, noises = rng.integers(1, 3, N), rng.uniform(0.005, 0.02, N)
        model = clone(MODELS[name]).set_params(kernel="matern52", ard=False, trend="linear")
        model.fit(X, y + 10.0 * X[:, 1], sample_weight=weights, noise_variances=noises)
        assert model.trend_ is not None
        off = model.predict(T) - (3.0 + np.sin(2.0 * T[:, 0]) + 10.3 * T[:, 1])
        assert np.sqrt(np.mean(off**2)) < 0.3


@every_model
def test_inverse_lengthscales_are_spreads_over_lengthscales(name: str) -> None:
    X, _, _ = rows()
    given = fitted(name, kernel=GaussianKernel([0.5, 4.0]), noise_variance=0.01)
    np.testing.assert_allclose(given.inverse_lengthscales_, X.std(axis=0) / [0.5, 4.0], rtol=1e-6)
    # A constant column does not count.
    X_constant, y = np.column_stack((X, np.full(len(X), 7.0))), rows()[1]
    constant = clone(MODELS[name]).set_params(kernel=GaussianKernel([0.5, 4.0, 1.0]), noise_variance=0.01)
    assert constant.fit(X_constant, y).inverse_lengthscales_[2] == 0.0
    # Of a sum, that of its metric.
    summed = fitted(name, kernel=GaussianKernel([0.5, 4.0]) + MaternKernel(1.0), noise_variance=0.01)
    np.testing.assert_allclose(summed.inverse_lengthscales_, X.std(axis=0) / summed.kernel_.metric(2), rtol=1e-6)


def test_in_a_pipeline() -> None:
    X, y, T = rows()
    pipeline = make_pipeline(StandardScaler(), ExactGPRegressor("auto", ard="auto", random_state=0)).fit(X, y)
    assert np.corrcoef(pipeline.predict(T), np.sin(2.0 * T[:, 0]) + 0.3 * T[:, 1])[0, 1] > 0.97
