"""The contract of all regressors: one suite for all of them."""

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import sparse
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import Nystroem
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    NystroemFeatures,
    OptimizedMaclaurinFeatures,
    TaylorFeatures,
)
from lmgp.errors import InputError, LmgpError

KERNEL = GaussianKernel(1.2, 1.5)
GIVEN = {"kernel": KERNEL, "noise_variance": 0.1}

REGRESSORS = {
    "exact": ExactGPRegressor(**GIVEN),
    "featurized": FeaturizedGPRegressor(**GIVEN, random_state=0),
    "featurized_taylor": FeaturizedGPRegressor(TaylorFeatures(40), **GIVEN),
    "featurized_maclaurin": FeaturizedGPRegressor(OptimizedMaclaurinFeatures(40), **GIVEN, random_state=0),
    "featurized_nystroem": FeaturizedGPRegressor(NystroemFeatures(20), **GIVEN, random_state=0),
    "featurized_sklearn_nystroem": FeaturizedGPRegressor(Nystroem(gamma=0.3, n_components=20), **GIVEN, random_state=0),
    "localized": LocalizedGPRegressor(**GIVEN, random_state=0),
    "localized_taylor": LocalizedGPRegressor(TaylorFeatures(40), **GIVEN),
    "localized_maclaurin": LocalizedGPRegressor(OptimizedMaclaurinFeatures(40), **GIVEN, random_state=0),
    "localized_nystroem": LocalizedGPRegressor(NystroemFeatures(20), **GIVEN, random_state=0),
    "localized_test_rows": LocalizedGPRegressor(TaylorFeatures(40), centroids="test_rows", **GIVEN),
}
CLASSES = [ExactGPRegressor, FeaturizedGPRegressor, LocalizedGPRegressor]

every_regressor = pytest.mark.parametrize("name", REGRESSORS)
every_class = pytest.mark.parametrize("regressor", CLASSES)


def draw(n: int = 40, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, 2.0 + np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=n)


def make(name: str) -> ExactGPRegressor | FeaturizedGPRegressor | LocalizedGPRegressor:
    return clone(REGRESSORS[name])


def predictions(model, T: np.ndarray) -> np.ndarray:
    return np.array(model.predict(T, return_std=True))


# --- scikit-learn ---

# The rows that these checks draw have 10 columns and extend over many lengthscales of the kernel above.
WIDE = {"kernel": GaussianKernel(4.0, 1.5), "noise_variance": 0.1}


@parametrize_with_checks(
    [
        ExactGPRegressor(**WIDE),
        FeaturizedGPRegressor(**WIDE),
        FeaturizedGPRegressor(OptimizedMaclaurinFeatures(66), **WIDE),
        FeaturizedGPRegressor(NystroemFeatures(66), **WIDE),
        LocalizedGPRegressor(TaylorFeatures(66), threshold=2.0, **WIDE),
        LocalizedGPRegressor(OptimizedMaclaurinFeatures(66), threshold=2.0, **WIDE),
    ],
)
def test_scikit_learn_checks(estimator, check: Callable) -> None:
    check(estimator)


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


@every_regressor
def test_grid_search_reaches_kernel_and_map(name: str) -> None:
    X, y = draw(60)
    grid = {"kernel__lengthscale": [0.01, 1.2], "noise_variance": [0.05, 50.0]}
    if name.endswith(("_taylor", "_maclaurin")):
        grid["features__n_features"] = [4, 40]
    if name == "featurized_sklearn_nystroem":
        grid["features__n_components"] = [1, 20]
    search = GridSearchCV(make(name), grid, cv=3, error_score="raise").fit(X, y)
    best = search.best_params_
    assert best["noise_variance"] == 0.05
    # scikit-learn's Nyström map brings a lengthscale of its own.
    assert best["kernel__lengthscale"] == 1.2 or name == "featurized_sklearn_nystroem"
    assert best.get("features__n_features", 40) == 40
    assert best.get("features__n_components", 20) == 20
    assert search.score(X, y) > 0.5
    # What was searched is what was fitted.
    assert search.best_estimator_.kernel_.lengthscale == best["kernel__lengthscale"]
    assert np.ptp(search.cv_results_["mean_test_score"]) > 0.1


@every_regressor
def test_pipeline(name: str) -> None:
    X, y = draw()
    units = np.array([1.0, 100.0, 0.01])
    pipeline = make_pipeline(StandardScaler(), make(name)).fit(X * units, y)
    mean, std = pipeline.predict(X[:5] * units, return_std=True, include_noise=True)
    scaler = StandardScaler().fit(X)
    expected = make(name).fit(scaler.transform(X), y).predict(scaler.transform(X[:5]), True, True)
    np.testing.assert_allclose((mean, std), expected, rtol=1e-8)
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
    assert set(vars(kernel)) == {"lengthscale", "variance"}
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
def test_a_second_fit_forgets_the_first(name: str) -> None:
    X, y = draw()
    other = draw(n=25, d=2, seed=1)
    model = make(name).fit(*other)
    predictions(model, other[0])
    np.testing.assert_array_equal(predictions(model.fit(X, y), X), predictions(make(name).fit(X, y), X))
    assert model.n_features_in_ == 3


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


@every_regressor
def test_integer_weights_are_repetitions(name: str) -> None:
    if "maclaurin" in name or "nystroem" in name:
        pytest.skip("the map is drawn from the rows; see the tests of the models for the rest")
    X, y = draw()
    counts = np.random.default_rng(1).integers(0, 4, 40)
    weighted = make(name).fit(X, y, sample_weight=counts)
    repeated = make(name).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(predictions(weighted, X), predictions(repeated, X), rtol=1e-8)


# --- predict ---


@every_regressor
def test_types_and_shapes(name: str) -> None:
    X, y = draw()
    model = make(name).fit(X, y)
    for n in (1, 7):
        mean = model.predict(X[:n])
        assert isinstance(mean, np.ndarray)
        both = model.predict(X[:n], return_std=True)
        assert isinstance(both, tuple)
        for values in (mean, *both):
            assert isinstance(values, np.ndarray)
            assert values.shape == (n,)
            assert values.dtype == np.float64
        np.testing.assert_array_equal(both[0], mean)
    assert isinstance(model.score(X, y), float)
    assert model.score(X, y) > 0.5


@every_regressor
def test_noise_is_added_to_the_variance_of_the_latent_function(name: str) -> None:
    X, y = draw()
    model = make(name).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    noisy_mean, noisy_std = model.predict(X, return_std=True, include_noise=True)
    np.testing.assert_array_equal(noisy_mean, mean)
    np.testing.assert_allclose(noisy_std**2 - std**2, model.noise_variance_, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X, include_noise=True), mean)


@every_regressor
def test_predict_changes_nothing(name: str) -> None:
    X, y = draw()
    model = make(name).fit(X, y)
    state, attributes = pickle.dumps(model), dict(vars(model))
    first = predictions(model, X)
    np.testing.assert_array_equal(predictions(model, X), first)
    assert pickle.dumps(model) == state
    assert list(vars(model)) == list(attributes)
    assert all(vars(model)[key] is value for key, value in attributes.items())


@every_regressor
def test_pickle_and_copy(name: str) -> None:
    X, y = draw()
    model = make(name).fit(X, y)
    before = pickle.loads(pickle.dumps(model))
    expected = predictions(model, X)
    for twin in (before, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(predictions(twin, X), expected)


@every_regressor
def test_any_dense_container_and_layout(name: str) -> None:
    X, y = draw()
    X, y = np.round(X, 3).astype(np.float32), np.round(y, 3).astype(np.float32)
    expected = predictions(make(name).fit(X, y), X)
    read_only = X.astype(np.float64)
    read_only.flags.writeable = False
    backwards = np.ascontiguousarray(X[::-1].astype(np.float64))[::-1]
    for inputs in (X.tolist(), np.asfortranarray(X), read_only, backwards, np.repeat(X, 2, axis=1)[:, ::2]):
        model = make(name).fit(inputs, y.tolist())
        np.testing.assert_allclose(predictions(model, inputs), expected, rtol=1e-10)


@every_regressor
def test_integers(name: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(-3, 4, (40, 3)), rng.integers(0, 5, 40)
    expected = predictions(make(name).fit(X.astype(float), y.astype(float)), X.astype(float))
    np.testing.assert_array_equal(predictions(make(name).fit(X, y), X), expected)


# --- random state ---


@every_regressor
def test_same_seed_same_result_whatever_the_global_state(name: str) -> None:
    X, y = draw()

    def seeded(seed: int) -> np.ndarray:
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        return predictions(make(name).set_params(random_state=5).fit(X, y), X)

    np.testing.assert_array_equal(seeded(0), seeded(1))


@every_regressor
def test_global_state_is_left_alone(name: str) -> None:
    X, y = draw()
    numpy_state = np.random.get_state()  # noqa: NPY002
    torch_state, n_threads = torch.random.get_rng_state(), torch.get_num_threads()
    predictions(make(name).set_params(random_state=None).fit(X, y), X)
    assert pickle.dumps(np.random.get_state()) == pickle.dumps(numpy_state)  # noqa: NPY002
    assert torch.equal(torch.random.get_rng_state(), torch_state)
    assert torch.get_num_threads() == n_threads
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.parametrize(
    "name",
    [
        "featurized",
        "featurized_maclaurin",
        "featurized_nystroem",
        "featurized_sklearn_nystroem",
        "localized_maclaurin",
        "localized_nystroem",
    ],
)
def test_random_state_seeds_the_map(name: str) -> None:
    X, y = draw()

    def seeded(random_state) -> list[list[float]]:
        return predictions(make(name).set_params(random_state=random_state).fit(X, y), X).tolist()

    assert seeded(0) != seeded(1)
    assert seeded(None) != seeded(None)
    for kind in (np.random.default_rng, np.random.RandomState):
        assert seeded(kind(0)) == seeded(kind(0))
        assert seeded(kind(0)) != seeded(kind(1))
        stream = kind(0)
        assert seeded(stream) != seeded(stream)


# --- bad input: what was got, and what to do ---


def changed(values: np.ndarray, value: float) -> np.ndarray:
    values = values.copy()
    values.flat[4] = value
    return values


@every_regressor
@pytest.mark.parametrize(("value", "message"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_values_that_are_not_finite(name: str, value: float, message: str) -> None:
    X, y = draw()
    with pytest.raises(ValueError, match=f"Input X.*{message}"):
        make(name).fit(changed(X, value), y)
    with pytest.raises(ValueError, match=f"Input y.*{message}"):
        make(name).fit(X, changed(y, value))
    with pytest.raises(ValueError, match=f"Input X.*{message}"):
        make(name).fit(X, y).predict(changed(X, value))


@every_class
@pytest.mark.parametrize("missing", [None, "nan", "inf"])
@pytest.mark.parametrize("dtype", [object, str])
def test_values_that_are_not_finite_once_they_are_numbers(regressor: type, missing: str | None, dtype: type) -> None:
    if missing is None and dtype is str:
        pytest.skip("there is no None among strings")
    X, y = draw()
    target = y.astype(dtype)
    target[4] = missing
    with pytest.raises(ValueError, match=r"NaN|infinity|finite"):
        regressor(**GIVEN).fit(X, target)


@every_class
def test_values_that_are_not_numbers(regressor: type) -> None:
    X, y = draw()
    colours = np.array([["red", "green", "blue"]] * 40)
    for inputs in (colours, colours.astype(object), np.column_stack((X.astype(object), colours[:, 0]))):
        with pytest.raises(ValueError, match=r"could not convert string to float.*'red'"):
            regressor(**GIVEN).fit(inputs, y)
    for target in (colours[:, 0], colours[:, 0].astype(object)):
        with pytest.raises(ValueError, match=r"could not convert string to float.*'red'"):
            regressor(**GIVEN).fit(X, target)
    with pytest.raises(ValueError, match="Complex data not supported"):
        regressor(**GIVEN).fit(X + 1j, y)
    with pytest.raises(TypeError, match=r"dense data is required.*toarray"):
        regressor(**GIVEN).fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match=r"could not convert string to float.*'red'"):
        regressor(**GIVEN).fit(X, y).predict(colours)


@every_class
def test_shapes_that_do_not_fit(regressor: type) -> None:
    X, y = draw()
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[40, 39\]"):
        regressor(**GIVEN).fit(X, y[:-1])
    with pytest.raises(ValueError, match=r"y should be a 1d array, got an array of shape \(40, 2\)"):
        regressor(**GIVEN).fit(X, np.column_stack((y, y)))
    with pytest.raises(ValueError, match="requires y to be passed"):
        regressor(**GIVEN).fit(X, None)
    with pytest.raises(ValueError, match=r"(?s)Expected 2D array, got 1D array.*[Rr]eshape"):
        regressor(**GIVEN).fit(X[:, 0], y)
    with pytest.raises(ValueError, match=r"0 feature\(s\).*minimum of 1 is required"):
        regressor(**GIVEN).fit(X[:, :0], y)
    for n in (0, 1):
        with pytest.raises(ValueError, match=rf"{n} sample\(s\).*minimum of 2 is required by {regressor.__name__}"):
            regressor(**GIVEN).fit(X[:n], y[:n])


@every_class
def test_two_rows_are_enough(regressor: type) -> None:
    X, y = draw(2)
    mean, std = regressor(**GIVEN).fit(X, y).predict(X, return_std=True)
    assert np.all(np.isfinite(mean))
    assert np.all(std > 0)


@every_class
def test_a_prediction_for_rows_of_another_width(regressor: type) -> None:
    X, y = draw()
    model = regressor(**GIVEN).fit(X, y)
    for width in (2, 4):
        with pytest.raises(
            ValueError, match=f"X has {width} features, but {regressor.__name__} is expecting 3 features"
        ):
            model.predict(np.zeros((5, width)))
    with pytest.raises(ValueError, match=r"(?s)Expected 2D array, got 1D array.*[Rr]eshape"):
        model.predict(X[0])
    with pytest.raises(ValueError, match=r"0 sample\(s\).*minimum of 1"):
        model.predict(X[:0])


@every_class
def test_a_prediction_before_the_fit(regressor: type) -> None:
    with pytest.raises(NotFittedError, match=f"{regressor.__name__} instance is not fitted yet. Call 'fit'"):
        regressor(**GIVEN).predict([[0.0]])


@every_class
@pytest.mark.parametrize("given", [{}, {"kernel": KERNEL}, {"noise_variance": 0.1}], ids=["none", "kernel", "noise"])
@pytest.mark.parametrize("value", [0.0, 0.1, -1e9])
def test_nothing_is_learned_from_a_constant_target(regressor: type, given: dict, value: float) -> None:
    X, _ = draw()
    with pytest.raises(InputError, match=r"y is constant \(all [-0-9.e+]+\).*give both kernel and noise_variance"):
        regressor(**given).fit(X, np.full(40, value))


@every_class
def test_a_constant_target_beside_given_noise_variances(regressor: type) -> None:
    # With the kernel and the noise of all rows, there is nothing to be learned.
    X, _ = draw()
    model = regressor(kernel=KERNEL).fit(X, np.full(40, 0.1), noise_variances=np.full(40, 0.3))
    np.testing.assert_allclose(model.predict(X), 0.1, rtol=1e-14)
    assert model.noise_variance_ == pytest.approx(0.3)


@every_regressor
@pytest.mark.parametrize("value", [0.0, 0.1, -1e9])
def test_a_constant_target_is_predicted_with_given_hyperparameters(name: str, value: float) -> None:
    X, y = draw()
    mean, std = make(name).fit(X, np.full(40, value)).predict(X + 0.5, return_std=True)
    np.testing.assert_allclose(mean, value, rtol=1e-14)
    np.testing.assert_allclose(std, make(name).fit(X, y).predict(X + 0.5, return_std=True)[1], rtol=1e-12)


@every_class
@pytest.mark.parametrize("given", [{}, {"noise_variance": 0.1}], ids=["none", "noise"])
@pytest.mark.parametrize("value", [0.0, 0.1])
def test_no_kernel_is_learned_from_rows_that_are_all_the_same(regressor: type, given: dict, value: float) -> None:
    _, y = draw()
    with pytest.raises(InputError, match=r"All rows of X are the same.*Give kernel=GaussianKernel"):
        regressor(**given).fit(np.full((40, 3), value), y)


@every_regressor
def test_rows_that_are_all_the_same_with_given_hyperparameters(name: str) -> None:
    if name == "featurized_sklearn_nystroem":
        pytest.skip("its landmarks would all be the same")
    _, y = draw()
    mean, std = make(name).fit(np.full((40, 3), 0.1), y).predict(np.full((2, 3), 0.1), return_std=True)
    np.testing.assert_allclose(mean, y.mean(), rtol=1e-12)
    # Forty observations of one value: 1/v = 1/σ² + n/σ²_noise, with what little the map leaves out.
    np.testing.assert_allclose(std**2, 1 / (1 / 1.5 + 40 / 0.1), rtol=1e-9)


@every_regressor
def test_constant_columns(name: str) -> None:
    X, y = draw()
    constant = np.column_stack((X[:, :1], np.full(40, 0.1), X[:, 1:]))
    mean, std = make(name).fit(constant, y).predict(constant, return_std=True)
    assert np.mean((mean - y) ** 2) < 0.5 * np.var(y)
    # Random features miss σ² by a little.
    assert np.all((std > 0) & (std <= 1.2 * np.sqrt(1.5)))


@pytest.mark.parametrize("name", ["exact", "featurized_taylor", "localized_taylor", "localized_test_rows"])
def test_constant_columns_change_nothing(name: str) -> None:
    X, y = draw()
    constant = np.column_stack((X[:, :1], np.full(40, 0.1), X[:, 1:]))
    models = make(name), make(name)
    if name != "exact":
        # As many columns as take the same degree, 8, of three and of four inputs.
        for model, n_features in zip(models, (165, 495), strict=True):
            model.set_params(features__n_features=n_features)
    expected = predictions(models[0].fit(X, y), X)
    np.testing.assert_allclose(predictions(models[1].fit(constant, y), constant), expected, rtol=1e-8)


@every_regressor
def test_duplicate_rows(name: str) -> None:
    X, y = draw()
    X, y = np.concatenate((X, X, X[:5])), np.concatenate((y, y + 0.5, y[:5]))
    mean, std = make(name).fit(X, y).predict(np.concatenate((X, X[:1])), return_std=True)
    np.testing.assert_allclose(mean[:40], mean[40:80], rtol=1e-12)
    np.testing.assert_allclose(std[:40], std[40:80], rtol=1e-12)
    assert np.all(std > 0)


@every_class
@pytest.mark.parametrize(
    ("lengthscale", "message"),
    [
        (0.0, r"lengthscale must be positive and finite; got 0\.0"),
        (-1.0, r"lengthscale must be positive and finite; got -1\.0"),
        (np.nan, "lengthscale must be positive and finite; got nan"),
        (np.inf, "lengthscale must be positive and finite; got inf"),
        ([1.0, 0.0, 1.0], r"lengthscale must be positive and finite; got \[1\.0, 0\.0, 1\.0\]"),
        ([1.0, 2.0], r"one number or one a column, shape \(3,\) for these rows; got shape \(2,\)"),
        ([[1.0, 2.0, 3.0]], r"one number or one a column, shape \(3,\) for these rows; got shape \(1, 3\)"),
        ("long", "needs numbers for lengthscale and variance; got .*'long'"),
    ],
)
def test_lengthscales(regressor: type, lengthscale: object, message: str) -> None:
    X, y = draw()
    kernel = GaussianKernel(lengthscale)
    with pytest.raises(InputError, match=message):
        regressor(kernel=kernel, noise_variance=0.1).fit(X, y)
    with pytest.raises(InputError, match=message):  # and before anything is learned
        regressor(kernel=kernel).fit(X, y)


@every_class
@pytest.mark.parametrize("variance", [0.0, -1.0, np.nan, np.inf])
def test_kernel_variances(regressor: type, variance: float) -> None:
    X, y = draw()
    with pytest.raises(InputError, match=f"variance must be positive and finite; got {variance}"):
        regressor(kernel=GaussianKernel(1.0, variance), noise_variance=0.1).fit(X, y)


# Parameter, value, and what the message must name beside the value.
PARAMETERS = [
    ("noise_variance", 0.0, r"\(0\.0, inf\)"),
    ("noise_variance", -0.1, r"\(0\.0, inf\)"),
    ("noise_variance", np.nan, r"\(0\.0, inf\)"),
    ("noise_variance", "small", r"\(0\.0, inf\)"),
    ("kernel", "rbf", "GaussianKernel"),
    ("kernel", GaussianKernel, "GaussianKernel"),
    ("ard", "yes", "bool"),
    ("max_learning_rows", 1, r"int in the range \[2, inf\)"),
    ("max_learning_rows", 99.5, r"int in the range \[2, inf\)"),
    ("random_state", -1, r"int in the range \[0"),
    ("random_state", "seed", r"int in the range \[0"),
]
OF_SOME = [
    (ExactGPRegressor, "max_memory_gib", 0.0, r"\(0\.0, inf\)"),
    (ExactGPRegressor, "max_memory_gib", -1.0, r"\(0\.0, inf\)"),
    *(
        (regressor, "approximation", value, "'(add|ignore|fitc)', '(add|ignore|fitc)', '(add|ignore|fitc)'")
        for regressor in (FeaturizedGPRegressor, LocalizedGPRegressor)
        for value in ("keep", "ADD", None)
    ),
    *((LocalizedGPRegressor, "prune", value, r"\[0\.0, 1\.0\]") for value in (-1e-9, 1.5, np.nan, "none")),
    *((LocalizedGPRegressor, "threshold", value, r"\(0\.0, inf\)") for value in (0.0, -1.0, np.nan, "far", None)),
    *((LocalizedGPRegressor, "centroids", value, "farthest_point.*array-like") for value in ("k_means", None, 5)),
    (LocalizedGPRegressor, "max_memory_gib", -1.0, r"\[0\.0, inf\)"),
]


@pytest.mark.parametrize(
    ("regressor", "parameter", "value", "expected"),
    [(regressor, *case) for regressor in CLASSES for case in PARAMETERS] + OF_SOME,
)
def test_parameters_out_of_range(regressor: type, parameter: str, value: object, expected: str) -> None:
    X, y = draw()
    model = regressor(**{**GIVEN, parameter: value})
    with pytest.raises(
        ValueError, match=rf"(?s)'{parameter}' parameter of {regressor.__name__} must be.*{expected}"
    ) as e:
        model.fit(X, y)
    assert f"Got {value!r} instead" in str(e.value)


@pytest.mark.parametrize(
    ("centroids", "message"),
    [
        (np.zeros((2, 4)), r"centroids must have as many columns as X, 3; got shape \(2, 4\)"),
        (np.zeros(3), "(?s)Expected 2D array, got 1D array.*[Rr]eshape"),
        (np.full((2, 3), np.nan), "Input centroids contains NaN"),
        (np.zeros((0, 3)), r"0 sample\(s\).*minimum of 1 is required"),
        ([["a", "b", "c"]], "could not convert string to float: 'a'"),
    ],
)
def test_centroids(centroids, message: str) -> None:
    X, y = draw()
    with pytest.raises(ValueError, match=message):
        LocalizedGPRegressor(centroids=centroids, **GIVEN).fit(X, y)


WEIGHTS = [
    ("sample_weight", changed(np.ones(40), -1.5), "sample_weight must not be negative; got -1.5 for row 4"),
    ("sample_weight", np.zeros(40), "weight.*zero|zero.*weight"),
    ("sample_weight", np.eye(40)[0], "At least 2 rows of positive weight.*got 1"),
    ("sample_weight", changed(np.ones(40), np.nan), "sample_weight contains NaN"),
    ("sample_weight", changed(np.ones(40), np.inf), "sample_weight contains infinity"),
    ("sample_weight", np.ones((40, 2)), r"sample_weight must have one value a row, shape \(40,\); got shape \(40, 2\)"),
    ("sample_weight", np.ones(39), "(?s)(?=.*sample_weight)(?=.*40)(?=.*39)"),
    ("noise_variances", changed(np.ones(40), 0.0), "noise_variances must be positive; got 0 for row 4.*small positive"),
    ("noise_variances", changed(np.ones(40), -2.0), "noise_variances must be positive; got -2 for row 4"),
    ("noise_variances", changed(np.ones(40), np.nan), "noise_variances contains NaN"),
    ("noise_variances", changed(np.ones(40), np.inf), "noise_variances contains infinity"),
    ("noise_variances", np.ones((40, 1)), r"noise_variances must have one value a row.*got shape \(40, 1\)"),
    ("noise_variances", np.ones(41), "(?s)(?=.*noise_variances)(?=.*40)(?=.*41)"),
]


@every_class
@pytest.mark.parametrize(("argument", "values", "message"), WEIGHTS, ids=range(len(WEIGHTS)))
def test_weights_and_noise_variances(regressor: type, argument: str, values: np.ndarray, message: str) -> None:
    X, y = draw()
    with pytest.raises(ValueError, match=message):
        regressor(**GIVEN).fit(X, y, **{argument: values})


@every_class
def test_one_weight_for_all_rows(regressor: type) -> None:
    # scikit-learn's convention for sample_weight.
    X, y = draw()
    model = regressor(**GIVEN, random_state=0).fit(X, y, sample_weight=2.0)
    expected = regressor(**GIVEN, random_state=0).fit(X, y, sample_weight=np.full(40, 2.0))
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))


def test_errors_of_the_package_are_value_errors() -> None:
    assert issubclass(InputError, LmgpError)
    assert issubclass(InputError, ValueError)
