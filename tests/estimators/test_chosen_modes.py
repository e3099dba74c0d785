"""The global solve on Fourier modes as the model of choice: taken at once where it is quick, or passed over."""

import warnings

import numpy as np
import pytest

import lmgp.selection.choose
from lmgp import ExactGPRegressor, GaussianKernel, LinearKernel, MaternKernel, SpectralGPRegressor
from lmgp.errors import ToleranceWarning
from lmgp.kernels.base import Kernel
from lmgp.posteriors.costs import REFERENCE, Cost
from lmgp.posteriors.modes import ModeSolve
from tests.estimators.conftest import NOISE, VARIANCE, assert_no_warning, auto, divergence, draw


class TestGlobalSolve:
    @pytest.mark.slow
    @pytest.mark.parametrize("kernel", [GaussianKernel(1.0, VARIANCE), MaternKernel([1.0, 2.0], VARIANCE)])
    @pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-5])
    def test_is_taken_at_once_and_states_its_error(self, kernel: Kernel, tolerance: float) -> None:
        X, y, T = draw(600)
        model = assert_no_warning(auto(tolerance=tolerance, n_predict=10**6, methods=None, kernel=kernel), X, y)
        assert isinstance(model.model_, SpectralGPRegressor)
        (trial,) = model.selection_
        assert trial.method == "spectral"
        assert trial.n_features == model.model_.error_.n_modes
        assert trial.kl == model.model_.error_.divergence <= tolerance
        assert divergence(model, X, y, T) <= tolerance
        np.testing.assert_array_equal(model.predict(T, return_error=True)[1], trial.kl)
        assert "needs no search" in str(model.selection_)
        assert f"the variance {model.model_.variance_by_}." in str(model.selection_)

    @pytest.mark.slow
    def test_has_a_trend(self) -> None:
        X, y, T = draw(600)
        y += 3.0 * X[:, 0]
        model = auto(n_predict=10**6, methods=None, trend="linear").fit(X, y)
        assert isinstance(model.model_, SpectralGPRegressor)
        exact = ExactGPRegressor(model.kernel_, NOISE, trend="linear").fit(X, y)
        np.testing.assert_allclose(model.predict(T), exact.predict(T), atol=0.02 * NOISE**0.5)
        np.testing.assert_allclose(model.trend_.coef, exact.trend_.coef, atol=0.05 * exact.trend_.coef_error.min())

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("kernel", "d", "noise"),
        [
            (GaussianKernel(2.0), 4, NOISE),
            (MaternKernel(1.0, smoothness=0.5), 2, NOISE),
            (GaussianKernel(0.001), 2, NOISE),
            (GaussianKernel(1.0) + LinearKernel(), 2, NOISE),
        ],
        ids=["four columns", "rough", "a short lengthscale", "not stationary"],
    )
    def test_is_passed_over(self, kernel: Kernel, d: int, noise: float) -> None:
        X, y, _ = draw(300, d=d)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ToleranceWarning)
            model = auto(n_predict=10**6, methods=None, kernel=kernel, noise_variance=noise).fit(X, y)
        assert not isinstance(model.model_, SpectralGPRegressor)
        assert all(trial.method != "spectral" for trial in model.selection_)

    def test_is_passed_over_where_it_takes_longer_than_the_exact_process(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X, y, _ = draw(300)
        model = auto(n_predict=10**6, methods=None).fit(X, y)
        (trial,) = model.selection_
        assert trial.method == "spectral"
        # The exact GP takes 3e10 products of 300 rows and 10⁶ predictions, and so about a second: `QUICK`.
        slow = ModeSolve(False, 1e4, Cost(calls=1e4 * REFERENCE.calls))
        monkeypatch.setattr(lmgp.selection.choose.ModeSolve, "of", lambda *_: slow)
        assert auto(n_predict=10**6, methods=["spectral", "exact"]).fit(X, y).selection_.chosen.method == "exact"
