"""Averages of kernels in GPRegressor."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lmgp import ExactGPRegressor, GPRegressor, MaternKernel
from lmgp.errors import InputError
from lmgp.gpytorch import to_gpytorch
from lmgp.learning import engine
from lmgp.saving.files import load

NAMES = ["matern12", "gaussian"]
KERNEL = MaternKernel([0.5, 2.0])


def rows(n: int, seed: int = 0) -> tuple[Any, Any]:
    """A smooth function of two columns with jumps, which neither kernel has alone."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 4.0, (n, 2))
    return X, np.sin(3.0 * X[:, 0]) + 0.5 * np.floor(X[:, 1]) + 0.2 * rng.standard_normal(n)


@pytest.fixture(scope="module")
def few() -> tuple[GPRegressor, Any, Any]:
    X, y = rows(60)
    model = GPRegressor(kernel=NAMES, ard=True, noise="normal", random_state=0).fit(X, y)
    return model, X, y


def parts_of(model: GPRegressor, X: Any, y: Any) -> list[ExactGPRegressor]:
    return [ExactGPRegressor(one.kernel, one.noise_variance).fit(X, y) for one in model.kernels_]


def test_predictions_are_those_of_the_mixture(few: tuple[GPRegressor, Any, Any]) -> None:
    model, X, y = few
    weights = np.array([one.weight for one in model.kernels_])
    assert len(weights) > 10
    assert weights.sum() == pytest.approx(1.0)
    assert np.all(np.diff(weights[1:]) <= 0.0)
    assert model.kernels_[0].kernel is model.kernel_
    new, _ = rows(20, seed=1)
    moments = np.array([one.predict(new, return_std=True, include_noise=True) for one in parts_of(model, X, y)])
    mean = weights @ moments[:, 0]
    std = np.sqrt(weights @ (np.square(moments[:, 1]) + np.square(moments[:, 0])) - np.square(mean))
    found = model.predict(new, return_std=True, include_noise=True)
    np.testing.assert_allclose(found, (mean, std), rtol=1e-7)
    assert model.noise_variance_ == pytest.approx(weights @ [one.noise_variance for one in model.kernels_])


@pytest.mark.slow
def test_what_few_rows_leave_uncertain_is_part_of_the_variance() -> None:
    # Of one column, and targets from a known process: intervals of one optimum hold too few of them.
    inside: dict[bool | str, list[bool]] = {False: [], "auto": []}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.uniform(0.0, 4.0, (40, 1))
        covariance = MaternKernel(0.7)(X) + 0.02 * np.eye(40)
        y = np.linalg.cholesky(covariance) @ rng.standard_normal(40)
        for average, found in inside.items():
            model = GPRegressor(average=average, noise="normal", random_state=0).fit(X[:8], y[:8])
            mean, std = model.predict(X[8:], return_std=True, include_noise=True)
            found += (np.abs(y[8:] - mean) < 1.96 * std).tolist()
    alone, averaged = (np.mean(one) for one in inside.values())
    assert averaged > alone + 0.02
    assert 0.90 < averaged < 0.99


@pytest.mark.slow
def test_draws_are_of_few_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "FEW_ROWS", 100)
    for n, several in ((100, True), (101, False)):
        X, y = rows(n)
        model = GPRegressor(kernel="matern32", noise="normal", random_state=0).fit(X, y)
        assert (len(model.kernels_) > 1) == several
        # The first one is the optimum of the likelihood, whether others stand beside it or not.
        alone = GPRegressor(kernel="matern32", noise="normal", average=False, random_state=0).fit(X, y)
        np.testing.assert_array_equal(model.kernel_.theta, alone.kernel_.theta)


@pytest.mark.slow
def test_above_few_rows_weights_are_those_of_rows_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "FEW_ROWS", 100)
    X, y = rows(400)
    names = ["gaussian", "rational_quadratic"]
    model = GPRegressor(kernel=names, ard=True, noise="normal", random_state=0).fit(X, y)
    weights = np.array([one.weight for one in model.kernels_])
    assert len(weights) == 2
    assert weights[0] == weights.max()
    assert all(np.isfinite([one.alone, one.regions]).all() for one in model.learning_)


@pytest.mark.slow
def test_many_rows_where_the_user_allows_it() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 4.0, (2200, 2))
    y = np.sin(3.0 * X[:, 0]) + np.where(X[:, 1] > 2.0, 0.5 * np.cos(30.0 * X[:, 1]), 0.0)
    y += 0.4 * rng.standard_normal(2200)
    options: Any = {"ard": True, "noise": "normal", "random_state": 0}
    options["kernel"] = ["gaussian", "rational_quadratic"]
    alone = GPRegressor(**options).fit(X, y)
    assert [one.weight for one in alone.kernels_] == [1.0]
    model = GPRegressor(average=True, **options).fit(X, y)
    weights = np.array([one.weight for one in model.kernels_])
    assert len(weights) == 2
    exact = [one.predict(X[:50] + 0.01) for one in parts_of(model, X, y)]
    np.testing.assert_allclose(model.predict(X[:50] + 0.01), weights @ exact, atol=1e-8)


@pytest.mark.slow
def test_what_has_no_average() -> None:
    X, y = rows(80)
    for options in ({"trend": "linear"}, {"average": False}, {"kernel": KERNEL, "noise_variance": 0.04}):
        model = GPRegressor(**{"kernel": NAMES, "noise": "normal", "random_state": 0, **options}).fit(X, y)
        assert len(model.kernels_) == 1
        assert model.kernels_[0] == (model.kernel_, model.noise_variance_, 1.0)
    two = GPRegressor(kernel=NAMES, noise="normal", random_state=0).fit(X, np.column_stack((y, -y)))
    assert len(two.kernels_) == 1
    with pytest.raises(InputError, match="average"):
        GPRegressor(kernel=NAMES, average=True, trend="linear").fit(X, y)
    with pytest.raises(InputError, match=r"average=True is of one target; got 2\. .*MultiTargetGPRegressor"):
        GPRegressor(kernel=NAMES, average=True).fit(X, np.column_stack((y, -y)))


def test_files_keep_it_and_conversions_refuse_it(few: tuple[GPRegressor, Any, Any], tmp_path: Path) -> None:
    model, *_ = few
    new, _ = rows(5, seed=2)
    model.save(tmp_path / "average.lmgp")
    again = load(tmp_path / "average.lmgp")
    np.testing.assert_allclose(again.predict(new, return_std=True), model.predict(new, return_std=True))
    assert [one.weight for one in again.kernels_] == [one.weight for one in model.kernels_]
    with pytest.raises(InputError, match="average=False"):
        to_gpytorch(model)


def test_its_likelihood_is_that_of_its_likeliest_kernel() -> None:
    X, y = rows(60)
    model = GPRegressor(kernel="gaussian", noise="normal", random_state=0).fit(X, y)
    assert model.kernels_[0].noise_variance != model.noise_variance_
    expected = pytest.approx(model.log_marginal_likelihood(), rel=1e-12)
    assert model.log_marginal_likelihood(model.kernel_.theta) == expected
    with pytest.raises(InputError, match=rf"this model averages {len(model.kernels_)}: fit with average=False"):
        model.model_.dual_coefficients()


@pytest.mark.slow
def test_rows_left_out_of_an_average_with_a_kernel_without_a_lengthscale() -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, 30.0, (2100, 1))
    y = np.sin(X[:, 0]) + 0.3 * np.sin(0.3 * X[:, 0] ** 1.5) + 0.3 * rng.normal(size=2100)
    model = GPRegressor(kernel=["gaussian", "periodic"], average=True, random_state=0).fit(X, y)
    assert [one.kernel.can("metric") for one in model.kernels_] == [True, False]
    assert model.noise_.n_rows == 2100
