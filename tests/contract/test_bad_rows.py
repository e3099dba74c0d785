"""The contract of all regressors: rows and targets that cannot be used, and those that only look so."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError

from lmgp.errors import InputError
from tests.conftest import GIVEN, REGRESSORS, changed, every_class, every_regressor, make, predictions
from tests.conftest import draw_normal as draw

KERNEL = GIVEN["kernel"]


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
@pytest.mark.parametrize(
    ("missing", "dtype"), [(None, object), ("nan", object), ("inf", object), ("nan", str), ("inf", str)]
)
def test_values_that_are_not_finite_once_they_are_numbers(regressor: type, missing: str | None, dtype: type) -> None:
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
    with pytest.raises(
        TypeError, match=r"dense data is required by .*sparse_output=False.*sparse_threshold=0.*toarray"
    ):
        regressor(**GIVEN).fit(sparse.csr_array(X), y)
    with pytest.raises(ValueError, match=r"could not convert string to float.*'red'"):
        regressor(**GIVEN).fit(X, y).predict(colours)


@every_class
def test_shapes_that_do_not_fit(regressor: type) -> None:
    X, y = draw()
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[40, 39\]"):
        regressor(**GIVEN).fit(X, y[:-1])
    with pytest.raises(ValueError, match="Found array with dim 3"):
        regressor(**GIVEN).fit(X, y[:, None, None])
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


# scikit-learn's Nyström map would have the same landmarks only; 20 rows at the same distance are any of the 40.
@pytest.mark.parametrize("name", sorted(set(REGRESSORS) - {"featurized_sklearn_nystroem", "nearest_rows"}))
def test_rows_that_are_all_the_same_with_given_hyperparameters(name: str) -> None:
    _, y = draw()
    mean, std = make(name).fit(np.full((40, 3), 0.1), y).predict(np.full((2, 3), 0.1), return_std=True)
    np.testing.assert_allclose(mean, y.mean(), rtol=1e-12)
    # Forty observations of one value: 1/v = 1/σ² + n/σ²_noise, with what little the map leaves out.
    np.testing.assert_allclose(std**2, 1 / (1 / 1.5 + 40 / 0.1), rtol=1e-9)


@every_regressor
def test_constant_columns(name: str) -> None:
    X, y = draw()
    constant = np.column_stack((X[:, :1], np.full(40, 0.1), X[:, 1:2]))
    mean, std = make(name).fit(constant, y).predict(constant, return_std=True)
    assert np.mean((mean - y) ** 2) < 0.5 * np.var(y)
    # Random features miss σ² by a little.
    assert np.all((std > 0) & (std <= 1.2 * np.sqrt(1.5)))


@pytest.mark.parametrize(
    ("name", "of_three", "of_four"),
    [
        ("exact", {}, {}),
        ("nearest_rows", {}, {}),
        # As many columns as take the same degree, 8, of three and of four inputs.
        ("featurized_taylor", {"features__n_features": 165}, {"features__n_features": 495}),
        ("localized_taylor", {"features__n_features": 165}, {"features__n_features": 495}),
        ("localized_dual", {"features__n_features": 165}, {"features__n_features": 495}),
        ("localized_test_rows", {"features__n_features": 165}, {"features__n_features": 495}),
    ],
)
def test_constant_columns_change_nothing(name: str, of_three: dict, of_four: dict) -> None:
    X, y = draw()
    constant = np.column_stack((X[:, :1], np.full(40, 0.1), X[:, 1:]))
    expected = predictions(make(name, **of_three).fit(X, y), X)
    found = predictions(make(name, **of_four).fit(constant, y), constant)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


@every_regressor
def test_duplicate_rows(name: str) -> None:
    X, y = draw()
    X, y = np.concatenate((X, X, X[:5])), np.concatenate((y, y + 0.5, y[:5]))
    mean, std = make(name).fit(X, y).predict(np.concatenate((X, X[:1])), return_std=True)
    np.testing.assert_allclose(mean[:40], mean[40:80], rtol=1e-12)
    np.testing.assert_allclose(std[:40], std[40:80], rtol=1e-12)
    assert np.all(std > 0)
