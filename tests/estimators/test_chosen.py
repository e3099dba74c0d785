"""Models chosen by measurement: the chosen one against the exact GP on rows of its own.

The test on real data reads the folder in LMGP_DATA_DIR, and is reported as skipped without it.
"""

import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LinearKernel,
    LocalizedGPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    PeriodicKernel,
    RationalQuadraticKernel,
    ResidualGPRegressor,
)
from lmgp.errors import InputError, ToleranceWarning
from lmgp.experiments.datasets import CATALOGUE, load_dataset, split
from lmgp.kernels.base import Kernel
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.local import LocalPosterior
from lmgp.posteriors.weights import WeightPosterior
from lmgp.selection import probes
from tests.estimators.conftest import FEATURES, NOISE, ROWS, VARIANCE, assert_no_warning, auto, divergence, draw


class TestNearTheExactProcess:
    @pytest.mark.slow
    @pytest.mark.parametrize("tolerance", [1e-1, 1e-2, 1e-4])
    @pytest.mark.parametrize("methods", [None, FEATURES, ROWS])
    @pytest.mark.parametrize(
        ("lengthscale", "extent", "d"), [(1.0, 10.0, 2), (4.0, 10.0, 2), (0.5, 30.0, 1), (2.0, 3.0, 6)]
    )
    def test_on_rows_that_it_has_not_seen(
        self, lengthscale: float, extent: float, d: int, methods: list[str] | None, tolerance: float
    ) -> None:
        X, y, T = draw(500, d, extent)
        model = assert_no_warning(auto(lengthscale, tolerance=tolerance, methods=methods), X, y)
        assert divergence(model, X, y, T) < 3.0 * tolerance
        assert model.selection_.chosen.kl <= tolerance

    @pytest.mark.slow
    def test_many_predictions_of_a_rough_function_are_localized(self) -> None:
        X, y, T = draw(800, extent=16.0)
        model = assert_no_warning(auto(n_predict=10**8, tolerance=1e-2), X, y)
        assert model.selection_.chosen.method.startswith("local_")
        assert len(model.model_.centroids_) > 10
        assert divergence(model, X, y, T) < 3e-2

    @pytest.mark.slow
    def test_many_predictions_of_a_smooth_function_are_of_one_model(self) -> None:
        X, y, T = draw(800)
        model = assert_no_warning(auto(8.0, n_predict=10**8), X, y)
        assert model.selection_.chosen.threshold is None
        assert isinstance(model.model_, FeaturizedGPRegressor)
        assert divergence(model, X, y, T) < 3e-3

    @pytest.mark.slow
    def test_few_predictions_are_not_worth_a_fit(self) -> None:
        """One prediction of a rough function is from its nearest rows, or from all."""
        X, y, _ = draw(1200, extent=20.0)
        model = assert_no_warning(auto(n_predict=1), X, y)
        assert model.selection_.chosen.method in ("nearest_rows", "exact")
        assert model.selection_.n_predict == 1
        assert auto().fit(X[:100], y[:100]).selection_.n_predict == 100

    @pytest.mark.slow
    def test_few_rows_are_not_worth_a_search(self) -> None:
        X, y, T = draw(600, extent=20.0)
        model = assert_no_warning(auto(), X, y)
        assert [trial.method for trial in model.selection_] == ["exact"]
        assert type(model.model_) is ExactGPRegressor
        assert divergence(model, X, y, T) < 1e-12

    @pytest.mark.slow
    @pytest.mark.parametrize("n_predict", [None, 10**6])
    def test_more_than_a_few_rows_of_a_smooth_function(
        self, n_predict: int | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Rows beyond any neighbourhood matter there, and are not lost on the reference."""
        monkeypatch.setattr(probes, "MOST_ROWS", 2000)
        X, y, T = draw(3000)
        model = assert_no_warning(auto(6.0, n_predict=n_predict), X, y)
        assert model.selection_.reference_rows < 2000
        assert divergence(model, X, y, T) < 3e-3

    @pytest.mark.slow
    def test_what_no_model_reaches_is_of_256_nearest_rows(self) -> None:
        """As near as is affordable, which one line says."""
        X, y, _ = draw(5000, d=8)
        kernel = MaternKernel(4.0, VARIANCE, smoothness=2.5)
        with pytest.warns(ToleranceWarning, match="nearest_rows of size 256") as caught:
            model = auto(kernel=kernel, n_predict=10**6, noise_variance=1e-3, methods=["orf", "nearest_rows"]).fit(X, y)
        assert len(caught) == 1
        assert isinstance(model.model_, NearestNeighborsGPRegressor)
        assert model.model_.n_neighbors == 256

    @pytest.mark.slow
    def test_by_probes_around_some_places_of_many_rows(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(probes, "MOST_ROWS", 1000)
        X, y, T = draw(1500, extent=20.0)
        model = assert_no_warning(auto(tolerance=1e-2, n_predict=10**6), X, y)
        assert model.selection_.reference_rows < 1000
        assert divergence(model, X, y, T) < 3e-2

    @pytest.mark.parametrize("n", [2, 5, 12])
    def test_of_a_few_rows_as_exact_as_can_be(self, n: int) -> None:
        X, y, T = draw(n)
        model = assert_no_warning(auto(), X, y)
        assert divergence(model, X, y, T) < 1e-10

    def test_a_tolerance_that_nothing_else_reaches(self) -> None:
        X, y, T = draw(400)
        model = assert_no_warning(auto(tolerance=1e-12), X, y)
        assert divergence(model, X, y, T) < 1e-12
        assert model.selection_.chosen.kl < 1e-12

    def test_all_rows_are_fitted_in_the_end(self) -> None:
        """Those that were held out, too."""
        X, y, T = draw(400)
        model = assert_no_warning(auto(tolerance=1e-12, methods=ROWS), X, y)
        exact = ExactGPRegressor(model.kernel_, NOISE).fit(X, y)
        expected = exact.predict(T, return_std=True)
        np.testing.assert_allclose(model.predict(T, return_std=True), expected, rtol=0, atol=1e-9)

    def test_noise_and_weights_of_each_row(self) -> None:
        X, y, T = draw(400)
        rng = np.random.default_rng(1)
        arguments = {"sample_weight": rng.integers(1, 4, 400), "noise_variances": rng.uniform(0.01, 0.5, 400)}
        model = assert_no_warning(auto(), X, y, **arguments)
        assert divergence(model, X, y, T, **arguments) < 3e-3
        assert divergence(model, X, y, T) > 1e-2  # without them

    def test_weights_are_repetitions(self) -> None:
        X, y, T = draw(200)
        counts = np.random.default_rng(1).integers(0, 4, 200)
        weighted = assert_no_warning(auto(tolerance=1e-6), X, y, sample_weight=counts)
        again = np.repeat(X, counts, axis=0), np.repeat(y, counts)
        assert divergence(weighted, *again, T) < 3e-6
        repeated = assert_no_warning(auto(tolerance=1e-6), *again)
        np.testing.assert_allclose(repeated.predict(T), weighted.predict(T), rtol=0, atol=2e-3)

    @pytest.mark.parametrize("lengthscale", [1.0, np.array([1.0, 0.3])])
    def test_a_constant_column(self, lengthscale: float | np.ndarray) -> None:
        X, y, T = draw(300)
        X[:, 1] = T[:, 1] = 2.5
        model = assert_no_warning(auto(lengthscale), X, y)
        assert divergence(model, X, y, T) < 3e-3

    def test_repeated_rows(self) -> None:
        X, y, T = draw(120)
        X, y = np.repeat(X, 4, axis=0), np.repeat(y, 4) + 0.1 * np.random.default_rng(1).normal(size=480)
        assert divergence(assert_no_warning(auto(), X, y), X, y, T) < 3e-3

    @pytest.mark.slow
    @pytest.mark.parametrize("lengthscale", [1.0, 3.0])
    def test_far_away_it_is_the_prior(self, lengthscale: float) -> None:
        X, y, _ = draw()
        for n_predict in (1, 500, 10**8):
            model = assert_no_warning(auto(lengthscale, n_predict=n_predict, tolerance=1e-2), X, y)
            assert model.selection_.chosen.method != "orf"
            mean, std = model.predict(X[:3] + 1000.0, return_std=True)
            np.testing.assert_allclose(mean, y.mean(), rtol=1e-9)
            np.testing.assert_allclose(std**2, VARIANCE, rtol=1e-9)

    def test_no_target_of_a_test_row_is_needed(self) -> None:
        """What is chosen does not depend on the scale of y where the mean is right: only predictions are compared."""
        X, y, _ = draw()
        first, second = (assert_no_warning(auto(tolerance=1e-2), X, y + shift) for shift in (0.0, 1000.0))
        assert first.selection_.chosen.kl == pytest.approx(second.selection_.chosen.kl, rel=1e-3, abs=1e-9)


class TestKernels:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "kernel",
        [
            MaternKernel(2.0, VARIANCE, smoothness=0.5),
            MaternKernel([1.0, 3.0], VARIANCE, smoothness=2.5),
            RationalQuadraticKernel(1.5, VARIANCE, alpha=1.0),
            GaussianKernel(4.0, 1.0) + MaternKernel(1.0, 1.0),
        ],
    )
    @pytest.mark.parametrize("n_predict", [1, 10**8])
    def test_any_with_a_lengthscale(self, kernel: Kernel, n_predict: int) -> None:
        X, y, T = draw(400)
        model = assert_no_warning(auto(kernel=kernel, n_predict=n_predict, tolerance=1e-2), X, y)
        assert {trial.method for trial in model.selection_} <= {"orf", "nystroem", "nearest_rows", "exact"}
        assert divergence(model, X, y, T) < 3e-2

    def test_a_sum_of_gaussians(self) -> None:
        X, y, T = draw(400)
        kernel = GaussianKernel(8.0, 1.0) + GaussianKernel(4.0, 1.0)
        model = assert_no_warning(auto(kernel=kernel, n_predict=10**8, methods=FEATURES, tolerance=1e-2), X, y)
        assert divergence(model, X, y, T) < 3e-2

    @pytest.mark.parametrize(
        "kernel", [LinearKernel(variance=0.1, center=[11.0, -2.0]), PeriodicKernel(3.0), "periodic"]
    )
    def test_one_without_a_lengthscale_is_exact_for_few_rows_and_refused_for_many(self, kernel: Kernel | str) -> None:
        X, y, T = draw(50)
        model = auto(kernel=kernel, average=False).fit(X, y)
        exact = ExactGPRegressor(model.kernel_, model.noise_variance_).fit(X, y)
        np.testing.assert_allclose(model.predict(T, return_std=True), exact.predict(T, return_std=True), atol=1e-10)
        with pytest.raises(InputError, match=r"GPRegressor for 50 rows and 1,000,000,000 predictions needs a lengthsc"):
            auto(kernel=kernel, n_predict=10**9).fit(X, y)


class TestTheChosenModel:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("methods", "kind"),
        [
            (["exact"], ExactGPRegressor),
            (["nearest_rows"], NearestNeighborsGPRegressor),
            (["residual"], ResidualGPRegressor),
            (["local_taylor"], LocalizedGPRegressor),
            (["global_taylor", "orf"], FeaturizedGPRegressor),
            (["nystroem"], FeaturizedGPRegressor),
        ],
    )
    def test_is_a_regressor_of_all_rows_that_predicts_alone(self, methods: list[str], kind: type) -> None:
        X, y, T = draw(300)
        model = auto(4.0, methods=methods, tolerance=1.0).fit(X, y)
        assert type(model.model_) is kind
        assert model.selection_.chosen.method in methods
        assert model.center_ == model.model_.center_ == pytest.approx(y.mean(), rel=1e-14)
        for arguments in ({}, {"return_std": True}, {"return_std": True, "include_noise": True}):
            np.testing.assert_array_equal(model.predict(T, **arguments), model.model_.predict(T, **arguments))
        anew = clone(model.model_).fit(X, y)
        np.testing.assert_allclose(model.predict(T, return_std=True), anew.predict(T, return_std=True), atol=1e-7)

    def test_estimates_its_divergence_where_it_can(self) -> None:
        X, y, T = draw(300)
        model = auto(methods=["local_taylor"], tolerance=1e-2).fit(X, y)
        expected = model.model_.predict(T, return_error=True)
        np.testing.assert_array_equal(model.predict(T, return_error=True), expected)
        assert divergence(model, X, y, T) < 10.0 * expected[1].mean() + 1e-6

    def test_an_estimate_that_fails_is_no_missing_one(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*arguments: object) -> None:
            raise InputError("something else")

        X, y, T = draw(300)
        model = auto(methods=["local_taylor"], tolerance=1e-2).fit(X, y)
        monkeypatch.setattr(LocalPosterior, "error", refuse)
        with pytest.raises(InputError, match="something else"):
            model.predict(T, return_error=True)

    @pytest.mark.slow
    @pytest.mark.parametrize("method", ["nearest_rows", "residual", "orf", "nystroem"])
    def test_otherwise_says_what_was_measured(self, method: str) -> None:
        X, y, T = draw(600)
        kernel = MaternKernel([1.0, 2.0], VARIANCE)
        model = auto(methods=[method], tolerance=1.0, kernel=kernel, max_features=64).fit(X, y)
        assert model.selection_.chosen.n_probes > 0
        assert model.selection_.chosen.kl > 1e-6
        error = model.predict(T, return_error=True)[1]
        np.testing.assert_array_equal(error, np.full(len(T), model.selection_.chosen.kl))
        assert 0.1 * error[0] < divergence(model, X, y, T) < 10.0 * error[0]

    @pytest.mark.parametrize("methods", [["exact"], ["orf"], ["local_taylor"]])
    def test_the_mean_alone_computes_no_variance(self, methods: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        X, y, T = draw(300)
        model = auto(methods=methods, tolerance=1e9).fit(X, y)
        mean = model.predict(T, return_std=True)[0]

        for kind in (ExactPosterior, LocalPosterior, WeightPosterior):

            def means_alone(self: Any, X: np.ndarray, variance: bool = True, predict: Any = kind.predict) -> Any:
                assert not variance
                return predict(self, X, variance)

            monkeypatch.setattr(kind, "predict", means_alone)
        with pytest.raises(AssertionError):
            model.predict(T, return_std=True)
        np.testing.assert_allclose(model.predict(T), mean, rtol=0, atol=1e-9)


class TestWhatIsOpen:
    def test_what_a_map_leaves_out_is_added_at_every_row(self) -> None:
        X, y, _ = draw(300)
        methods = ["orf", "global_taylor", "local_taylor", "nearest_rows"]
        model = auto(n_predict=10**7, methods=methods, tolerance=1e-2).fit(X, y)
        assert {trial.approximation for trial in model.selection_} == {"fitc"}
        assert model.model_.get_params().get("approximation", "fitc") == "fitc"

    def test_methods(self) -> None:
        X, y, _ = draw(300)
        features = {
            trial.method for trial in auto(methods=FEATURES, max_features=64, tolerance=0.1).fit(X, y).selection_
        }
        rows = {trial.method for trial in auto(methods=ROWS, tolerance=1e-8).fit(X, y).selection_}
        assert features <= set(FEATURES)
        assert rows <= set(ROWS)
        listed, array = (
            GPRegressor(methods=names, kernel=GaussianKernel(), noise_variance=0.1, random_state=0).fit(X, y)
            for names in (["nystroem", "exact"], np.array(["nystroem", "exact"]))
        )
        assert array.selection_.chosen == listed.selection_.chosen

    @pytest.mark.slow
    @pytest.mark.parametrize("largest", [8, 50])
    def test_max_features(self, largest: int) -> None:
        X, y, _ = draw(200)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ToleranceWarning)
            model = auto(max_features=largest, methods=FEATURES).fit(X, y)
        assert max(trial.n_features for trial in model.selection_) <= largest
        assert model.model_.features_.n_features_out_ <= largest

    def test_memory(self) -> None:
        """Three matrices of 100 columns fit, and no more than 122 rows."""
        X, y, T = draw(400)
        model = auto(8.0, max_memory_gib=3 * 8 * 100.0**2 / 2**30, max_features=512).fit(X, y)
        assert max(trial.n_features for trial in model.selection_ if trial.method in FEATURES) < 100
        assert not any(trial.method == "exact" for trial in model.selection_)
        assert divergence(model, X, y, T) < 1e-2

    def test_an_unknown_method_is_told_before_anything_is_learned(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("lmgp.estimators.base.learn_warned", lambda *_, **__: pytest.fail("learned"))
        X, y, _ = draw(50)
        with pytest.raises(InputError, match=r"'local_tayler'.*did you mean 'local_taylor'"):
            GPRegressor(methods=["local_tayler"]).fit(X, y)

    @pytest.mark.parametrize(
        ("name", "value"),
        [("tolerance", 0.0), ("max_features", 1), ("n_predict", 0), ("methods", "orf"), ("methods", [])],
    )
    def test_parameters_out_of_range(self, name: str, value: object) -> None:
        X, y, _ = draw(50)
        with pytest.raises(ValueError, match=name):
            auto(**{name: value}).fit(X, y)


def test_uk_flats() -> None:
    """Of 2,000 real flats, for as many predictions as there are in all."""
    name, folder = "uk_flats_2020-12", os.environ.get("LMGP_DATA_DIR")
    if not folder or CATALOGUE[name].local_file(Path(folder).expanduser()) is None:
        pytest.skip(f"LMGP_DATA_DIR names no folder with {name}")
    data = load_dataset(name)
    train, test = split(data, 0, n_train=2000, published=False)
    X, y, T = data.X[train], data.y[train], data.X[test[:300]]
    noise = 0.2 * y.var()
    kernel = GaussianKernel(0.1 * float(X.std()), 0.8 * y.var())
    model = assert_no_warning(auto(kernel=kernel, noise_variance=noise, n_predict=10**6, tolerance=1e-3), X, y)
    assert divergence(model, X, y, T) < 3e-3
    far = model.predict(X[:2] + 1e6, return_std=True)
    np.testing.assert_allclose(far, [[y.mean()] * 2, [kernel.variance**0.5] * 2], rtol=1e-9)
