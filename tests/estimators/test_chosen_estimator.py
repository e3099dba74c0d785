"""Models chosen by measurement as estimators: what they warn of, seeds, copies and fits that fail."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone

from lmgp import ExactGPRegressor, GPRegressor, MaternKernel
from lmgp.errors import InputError, ToleranceWarning
from tests.estimators.conftest import FEATURES, ROWS, auto, divergence, draw


class TestWarning:
    @pytest.mark.slow
    def test_says_how_far_off_the_nearest_is(self) -> None:
        X, y, T = draw(600, extent=20.0)
        with pytest.warns(ToleranceWarning) as caught:
            model = auto(max_features=40, methods=FEATURES).fit(X, y)
        (text,) = (str(one.message) for one in caught)
        chosen = model.selection_.chosen
        assert chosen.kl > 1e-3
        assert "Raise tolerance (lmgp fit: --tolerance)" in text
        assert "tolerance=0.001" in text
        assert f"{chosen.method} of size {chosen.n_features}" in text
        assert f"{chosen.kl:.2g} nats" in text
        # And it is about the best of all that were tried.
        assert chosen.kl <= 1.1 * min(trial.kl for trial in model.selection_)
        # On other rows it is about as far off.
        assert 0.2 * chosen.kl < divergence(model, X, y, T) < 5.0 * chosen.kl

    def test_is_told_of_the_line_that_calls_fit(self) -> None:
        with pytest.warns(ToleranceWarning) as caught:
            auto(max_features=8, methods=FEATURES).fit(*draw(200)[:2])
        assert [one.filename for one in caught] == [__file__]

    @pytest.mark.slow
    def test_what_nobody_asked_for_is_no_warning(self) -> None:
        """Of a rough function of eight columns no model is within the tolerance that is the default."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(5000, 8))
        y = rng.normal(size=5000)
        given = {"kernel": MaternKernel(4.0, smoothness=2.5), "noise_variance": 1e-3, "n_predict": 10**6}
        with warnings.catch_warnings():
            warnings.simplefilter("error", ToleranceWarning)
            model = GPRegressor(**given, noise="normal", random_state=0).fit(X, y)
        assert model.selection_.chosen.kl > model.tolerance
        with pytest.warns(ToleranceWarning, match=f"{model.selection_.chosen.kl:.2g} nats a row"):
            GPRegressor(0.0011, **given, noise="normal", random_state=0).fit(X, y)


@pytest.mark.slow
def test_copies_that_all_have_one_target_end_no_fit() -> None:
    """The noise is small among copies, and the rows from which it is learned again have one target."""
    X, y = np.random.default_rng(0).integers(0, 50, (2500, 2)).astype(np.float64), np.zeros(2500)
    y[0] = 1.0
    model = GPRegressor(random_state=0).fit(X, y)
    assert model.learning_.n_copies > 0
    assert np.isfinite(model.predict(X[:5])).all()


class TestEstimator:
    @pytest.mark.slow
    def test_the_same_seed_gives_the_same_predictions(self) -> None:
        X, y, T = draw()
        for parameters in ({}, {"tolerance": 0.3, "methods": FEATURES}):
            first, again = (auto(3.0, **parameters).fit(X, y) for _ in range(2))
            assert [trial[:6] for trial in first.selection_] == [trial[:6] for trial in again.selection_]
            np.testing.assert_array_equal(first.predict(T, return_std=True), again.predict(T, return_std=True))

    @pytest.mark.parametrize("n_predict", [1, 10**5])
    def test_pickle_and_clone(self, n_predict: int) -> None:
        X, y, T = draw(300)
        model = auto(n_predict=n_predict, tolerance=1e-2).fit(X, y)
        expected = model.predict(T, return_std=True)
        copied = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(copied.predict(T, return_std=True), expected)
        assert copied.selection_ == model.selection_
        anew = clone(model)
        assert not hasattr(anew, "selection_")
        np.testing.assert_array_equal(anew.fit(X, y).predict(T, return_std=True), expected)

    def test_a_fit_that_fails_changes_nothing(self) -> None:
        X, y, T = draw(100)
        model = auto().fit(X, y)
        before = model.predict(T), model.selection_
        with pytest.raises(InputError):
            model.set_params(methods=["nothing"]).fit(X[:50], y[:50])
        np.testing.assert_array_equal(model.predict(T), before[0])
        assert model.selection_ is before[1]

    def test_hyperparameters_are_learned_first(self) -> None:
        X, y, T = draw(80)
        model = auto(kernel=None, ard=False, noise_variance=None, average=False).fit(X, y)
        exact = ExactGPRegressor(random_state=0).fit(X, y)
        assert model.noise_variance_ == pytest.approx(exact.noise_variance_, rel=0.1)
        np.testing.assert_allclose(model.predict(T), exact.predict(T), rtol=0, atol=0.1)

    def test_data_may_change_after_the_fit(self) -> None:
        X, y, T = draw(300)
        expected = auto().fit(X, y).predict(T)
        arrays = X.copy(), y.copy()
        model = auto().fit(*arrays)
        for array in arrays:
            array *= 3.0
        np.testing.assert_array_equal(model.predict(T), expected)

    @pytest.mark.parametrize("methods", [["exact"], ["orf"], ["global_taylor"], ["residual"]])
    def test_parameters_of_the_chosen_regressor_change_no_prediction(self, methods: list[str]) -> None:
        X, y, T = draw(150)
        model = auto(methods=methods, tolerance=10.0).fit(X, y)
        expected, recipe, kernel = model.predict(T), repr(model.recipe_), clone(model.kernel_)
        inner = model.model_.set_params(kernel__lengthscale=50.0, noise_variance=9.0)
        for name in inner.get_params():
            if name.startswith("features__"):
                inner.set_params(**{name: None})
        np.testing.assert_array_equal(model.predict(T), expected)
        np.testing.assert_array_equal(inner.predict(T), expected)
        assert (repr(model.recipe_), repr(model.kernel_)) == (recipe, repr(kernel))

    def test_error_of_the_exact_choice_is_none(self) -> None:
        X, y, T = draw(100)
        model = auto(tolerance=1e-12, methods=ROWS).fit(X, y)
        assert model.selection_.chosen.method == "exact"
        np.testing.assert_array_equal(model.predict(T, return_error=True)[1], 0.0)
