"""The contract of all regressors, as scikit-learn has it: parameters, and what a fit learns and leaves alone."""

import copy

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    TaylorFeatures,
)
from lmgp.errors import InputError
from tests.conftest import GIVEN, OF_ROWS, REGRESSORS, changed, every_class, every_regressor, make, near, predictions
from tests.conftest import draw_normal as draw

KERNEL = GIVEN["kernel"]
# With a number of neighbours, repeated rows leave fewer others among them.
EVERY_ROW = {"nearest_rows": {"n_neighbors": 1000}, "residual_taylor": {"n_neighbors": 1000, "block_size": 1000}}

# --- scikit-learn ---


@every_regressor
def test_is_a_regressor_that_clones(name: str) -> None:
    model = REGRESSORS[name]
    assert is_regressor(model)
    twin = clone(model)
    assert twin.kernel is not model.kernel
    assert repr(twin) == repr(model)
    assert list(twin.get_params()) == list(model.get_params())


@every_class
def test_constructor_only_stores(regressor: type) -> None:
    defaults = regressor().get_params(deep=False)
    for name in defaults:
        # Nonsense, and the very object: whatever is to be said about it, `fit` says.
        value = object()
        assert getattr(regressor(**{name: value}), name) is value
    assert vars(regressor()) == defaults


@every_class
def test_everything_is_learned_by_default(regressor: type) -> None:
    parameters = regressor().get_params()
    assert parameters["kernel"] is None
    assert parameters["noise_variance"] is None
    assert parameters["random_state"] is None
    assert parameters.get("features") is None


@every_regressor
def test_nested_parameters(name: str) -> None:
    X, y = draw()
    model = make(name).set_params(kernel__lengthscale=[1.0, 2.0, 3.0], kernel__variance=4.0, noise_variance=0.5)
    assert model.get_params()["kernel__lengthscale"] == [1.0, 2.0, 3.0]
    model.fit(X, y)
    assert model.kernel_.lengthscale == [1.0, 2.0, 3.0]
    assert model.kernel_.variance == 4.0
    assert model.noise_variance_ == 0.5
    assert REGRESSORS[name].kernel.lengthscale == 1.2


# What a search varies beside the noise: the worse value first. scikit-learn's Nyström map has a lengthscale of its own.
SCALES = {"kernel__lengthscale": [0.01, 1.2]}
GRIDS: dict[str, dict[str, list]] = dict.fromkeys(REGRESSORS, SCALES) | {
    "featurized_taylor": SCALES | {"features__n_features": [4, 40]},
    "featurized_maclaurin": SCALES | {"features__n_features": [4, 40]},
    "localized_taylor": SCALES | {"features__n_features": [4, 40]},
    "localized_maclaurin": SCALES | {"features__n_features": [4, 40]},
    "featurized_sklearn_nystroem": {"features__n_components": [1, 20]},
    # Of short lengthscales the modes do not fit into the memory.
    "spectral": {"kernel__lengthscale": [30.0, 1.2]},
}


@pytest.mark.slow
@every_regressor
def test_grid_search_reaches_kernel_and_map(name: str) -> None:
    X, y = draw(60)
    grid = {**GRIDS[name], "noise_variance": [50.0, 0.05]}
    search = GridSearchCV(make(name), grid, cv=2, error_score="raise").fit(X, y)
    assert search.best_params_ == {parameter: values[-1] for parameter, values in grid.items()}
    assert search.score(X, y) > 0.5
    # What was searched is what was fitted.
    assert search.best_estimator_.noise_variance_ == 0.05
    assert np.ptp(search.cv_results_["mean_test_score"]) > 0.1


@every_class
@pytest.mark.parametrize("kernel", [None, "matern32"])
def test_a_lengthscale_of_a_kernel_that_is_learned_cannot_be_searched(regressor: type, kernel: str | None) -> None:
    X, y = draw()
    expected = rf"kernel__lengthscale of {regressor.__name__} cannot be set: kernel={kernel!r}.*kernel=GaussianKernel"
    with pytest.raises(InputError, match=expected):
        GridSearchCV(regressor(kernel=kernel), {"kernel__lengthscale": [0.5, 1.0]}).fit(X, y)
    # Both at once are no contradiction.
    model = regressor(kernel=kernel).set_params(kernel__lengthscale=2.0, kernel=GaussianKernel())
    assert model.kernel.lengthscale == 2.0


def test_parameters_of_a_map_that_is_chosen_in_fit_cannot_be_set() -> None:
    with pytest.raises(InputError, match=r"features__n_features of FeaturizedGPRegressor.*features=TaylorFeatures"):
        FeaturizedGPRegressor().set_params(features__n_features=10)
    with pytest.raises(InputError, match="kernel__lengthscale of TaylorFeatures cannot be set: kernel=None"):
        FeaturizedGPRegressor(TaylorFeatures(10)).set_params(features__kernel__lengthscale=0.5)
    with pytest.raises(ValueError, match="Invalid parameter 'features'"):
        ExactGPRegressor().set_params(features__n_features=10)


@every_regressor
def test_pipeline(name: str) -> None:
    X, y = draw()
    units = np.array([1.0, 100.0, 0.01])
    pipeline = make_pipeline(StandardScaler(), make(name)).fit(X * units, y)
    mean, std = pipeline.predict(X[:5] * units, return_std=True, include_noise=True)
    scaler = StandardScaler().fit(X)
    expected = make(name).fit(scaler.transform(X), y).predict(scaler.transform(X[:5]), True, True)
    np.testing.assert_allclose((mean, std), expected, **near(name, 1e-8))
    assert np.all(np.isfinite(cross_val_score(pipeline, X * units, y, cv=3)))


# --- fit ---


@every_regressor
def test_fit_returns_the_model_and_learns_its_attributes(name: str) -> None:
    X, y = draw()
    model = make(name)
    assert model.fit(X, y) is model
    assert model.n_features_in_ == 3
    assert model.center_ == pytest.approx(y.mean(), rel=1e-14)
    assert model.noise_variance_ == 0.1
    assert isinstance(model.noise_variance_, float)
    assert model.kernel_.get_params() == KERNEL.get_params()


@every_regressor
def test_fit_edits_no_parameter(name: str) -> None:
    X, y = draw()
    lengthscale = np.array([1.0, 2.0, 3.0])
    kernel = GaussianKernel(lengthscale, 1.5)
    model = make(name).set_params(kernel=kernel)
    before = {key: (value, copy.deepcopy(value)) for key, value in model.get_params(deep=True).items()}
    predictions(model.fit(X, y), X)
    after = model.get_params(deep=True)
    assert list(after) == list(before)
    for key, (value, content) in before.items():
        assert after[key] is value
        assert repr(after[key]) == repr(content)
    np.testing.assert_array_equal(lengthscale, [1.0, 2.0, 3.0])
    assert model.kernel is kernel
    assert model.kernel_ is not kernel
    if getattr(model, "features", None) is not None:
        assert not [attribute for attribute in vars(model.features) if attribute.endswith("_")]


@every_regressor
def test_neither_fit_nor_predict_edits_its_input(name: str) -> None:
    X, y = draw()
    arrays = [X, y, np.random.default_rng(1).uniform(0, 2, 40), np.random.default_rng(2).uniform(0.1, 2, 40)]
    copies = [array.copy() for array in arrays]
    model = make(name).fit(X, y, sample_weight=arrays[2], noise_variances=arrays[3])
    predictions(model, X)
    for array, expected in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, expected)


@every_regressor
def test_the_caller_may_change_the_rows_afterwards(name: str) -> None:
    X, y = draw()
    T, expected = X[:5] + 0.1, make(name).fit(X.copy(), y.copy())
    model = make(name).fit(X, y)
    X[:], y[:] = X[::-1] + 1.0, 0.0
    np.testing.assert_array_equal(predictions(model, T), predictions(expected, T))
    np.testing.assert_array_equal(model.loo_.mean, expected.loo_.mean)


@every_regressor
def test_a_second_fit_forgets_the_first(name: str) -> None:
    X, y = draw()
    other = draw(n=25, d=2, seed=1)
    model = make(name).fit(*other)
    predictions(model, other[0])
    expected = make(name).fit(X, y)
    np.testing.assert_array_equal(predictions(model.fit(X, y), X), predictions(expected, X))
    assert model.n_features_in_ == 3
    assert set(vars(model)) == set(vars(expected))


@every_regressor
@pytest.mark.parametrize("predicted", [False, True])
def test_a_refit_that_fails_leaves_the_model_as_it_was(name: str, predicted: bool) -> None:
    X, y = draw()
    model = make(name).fit(X, y)
    expected = predictions(make(name).fit(X, y), X)
    if predicted:
        predictions(model, X)
    before = dict(vars(model))
    for wrong in ((X[:, :2], changed(y, np.nan)), (X[:, :2], y[:-1]), (X[:1, :2], y[:1])):
        with pytest.raises(ValueError, match=r".+"):
            model.fit(*wrong)
    # Beyond what is checked first, too: the width is known by now, and the kernel does not fit it.
    with pytest.raises(InputError, match="lengthscale"):
        model.set_params(kernel=GaussianKernel([1.0, 2.0])).fit(np.column_stack((X, X[:, 0])), y)
    model.set_params(kernel=before["kernel"])
    assert dict(vars(model)) == before
    np.testing.assert_array_equal(predictions(model, X), expected)


@every_regressor
def test_weights_and_noise_variances_that_say_nothing_change_nothing(name: str) -> None:
    X, y = draw()
    expected = predictions(make(name).fit(X, y), X)
    np.testing.assert_allclose(predictions(make(name).fit(X, y, np.ones(40)), X), expected, rtol=1e-10)
    noisy = make(name).fit(X, y, noise_variances=np.full(40, 0.1))
    np.testing.assert_allclose(predictions(noisy, X), expected, rtol=1e-10)


@every_regressor
def test_weights_and_noise_variances_matter(name: str) -> None:
    X, y = draw()
    expected = predictions(make(name).fit(X, y), X)
    rng = np.random.default_rng(1)
    for arguments in ({"sample_weight": rng.uniform(0, 3, 40)}, {"noise_variances": rng.uniform(0.01, 3, 40)}):
        assert np.max(np.abs(predictions(make(name).fit(X, y, **arguments), X) - expected)) > 1e-2


@pytest.mark.parametrize("name", [name for name in REGRESSORS if name not in OF_ROWS])
def test_integer_weights_are_repetitions(name: str) -> None:
    X, y = draw()
    counts = np.random.default_rng(1).integers(0, 4, 40)
    model = make(name, **EVERY_ROW.get(name, {}))
    weighted = clone(model).fit(X, y, sample_weight=counts)
    repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(predictions(weighted, X), predictions(repeated, X), **near(name, 1e-8))
