"""The contract of all regressors: parameters, weights and noise variances that cannot be used."""

import numpy as np
import pytest

from lmgp import FeaturizedGPRegressor, GaussianKernel, LocalizedGPRegressor, NearestNeighborsGPRegressor
from lmgp.data import check_rows
from lmgp.errors import InputError, LmgpError
from tests.conftest import CLASSES, GIVEN, changed, every_class
from tests.conftest import draw_normal as draw


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
    ("kernel", 3.0, "Kernel"),
    ("kernel", GaussianKernel, "GaussianKernel"),
    ("ard", "yes", "bool"),
    ("max_learning_rows", 1, r"int in the range \[2, inf\)"),
    ("max_learning_rows", 99.5, r"int in the range \[2, inf\)"),
    ("max_memory_gib", 0.0, r"\(0\.0, inf\)"),
    ("max_memory_gib", -1.0, r"\(0\.0, inf\)"),
    ("random_state", -1, r"int in the range \[0"),
    ("random_state", "seed", r"int in the range \[0"),
]
OF_SOME = [
    *(
        (regressor, "approximation", value, "'(dtc|sor|fitc)', '(dtc|sor|fitc)', '(dtc|sor|fitc)'")
        for regressor in (FeaturizedGPRegressor, LocalizedGPRegressor)
        for value in ("add", "DTC", None)
    ),
    *((LocalizedGPRegressor, "threshold", value, r"\(0\.0, inf\)") for value in (0.0, -1.0, np.nan, "far", None)),
    *((LocalizedGPRegressor, "centroids", value, "farthest_point.*array-like") for value in ("k_means", None, 5)),
    *((LocalizedGPRegressor, "solver", value, "'(auto|dual|primal)'") for value in ("exact", None)),
    *((NearestNeighborsGPRegressor, "n_neighbors", value, r"int in the range \[1, inf\)") for value in (0, 2.5)),
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
    ("sample_weight", "matern32", "sample_weight must have one number a row; got 'matern32'"),
    ("sample_weight", changed(np.ones(40), -1.5), "sample_weight must not be negative; got -1.5 for row 4"),
    ("sample_weight", np.zeros(40), "weight.*zero|zero.*weight"),
    ("sample_weight", np.eye(40)[0], "At least 2 rows of positive weight.*got 1"),
    ("sample_weight", changed(np.ones(40), np.nan), r"sample_weight contains NaN .* in 1 of 40 rows \(4\)\. Leave"),
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
    expected = regressor(**GIVEN, random_state=0).fit(X, y, sample_weight=np.full(40, 2.0))
    for weight in (2.0, np.array(2.0)):
        model = regressor(**GIVEN, random_state=0).fit(X, y, sample_weight=weight)
        np.testing.assert_array_equal(model.predict(X), expected.predict(X))


def test_rows_of_weight_zero_need_no_noise_variance() -> None:
    X, y = draw()
    weights = changed(np.ones(40), 0.0)
    rows = check_rows(X, y, weights, weights)
    np.testing.assert_array_equal(rows.noise_variances, np.ones(39))


def test_errors_of_the_package_are_value_errors() -> None:
    assert issubclass(InputError, LmgpError)
    assert issubclass(InputError, ValueError)
