"""The scales of data: beyond float64 they are named, within it they do not matter."""

import numpy as np
import pytest

from lmgp import ExactGPRegressor, GaussianKernel, LinearKernel, MaternKernel, RationalQuadraticKernel
from lmgp.errors import InputError
from lmgp.inference.scales import scales_of, units_of
from lmgp.validation import Rows


def rows() -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(0).uniform(-1.0, 1.0, (50, 1))
    return X, np.sin(4 * X[:, 0]) + 0.1 * np.random.default_rng(1).normal(size=50)


@pytest.mark.parametrize(
    ("factor", "match"),
    [
        (1e-200, r"y has a standard deviation of .*e-2\d\d.*underflows.*Multiply y by"),
        (1e300, r"y has values up to .*e\+300.*Divide y by"),
    ],
)
def test_a_target_whose_variance_leaves_float64_is_named(factor: float, match: str) -> None:
    X, y = rows()
    with pytest.raises(InputError, match=match):
        ExactGPRegressor(random_state=0).fit(X, factor * y)


@pytest.mark.parametrize(
    ("factor", "match"),
    [
        (1e300, r"X has values up to .*e\+(300|299).*Divide X by"),
        (1e-200, r"X has a standard deviation of .*e-20\d.*Multiply X by"),
    ],
)
def test_inputs_whose_squares_leave_float64_are_named(factor: float, match: str) -> None:
    X, y = rows()
    with pytest.raises(InputError, match=match):
        ExactGPRegressor(random_state=0).fit(factor * X, y)


@pytest.mark.parametrize(("x_scale", "y_scale"), [(1e80, 1.0), (1e-80, 1.0), (1.0, 1e80), (1.0, 1e-80)])
def test_scales_within_float64_do_not_matter(x_scale: float, y_scale: float) -> None:
    X, y = rows()
    reference = ExactGPRegressor(random_state=0).fit(X, y)
    model = ExactGPRegressor(random_state=0).fit(x_scale * X, y_scale * y)
    assert model.kernel_.lengthscale == pytest.approx(x_scale * reference.kernel_.lengthscale, rel=1e-4)
    assert model.noise_variance_ == pytest.approx(y_scale**2 * reference.noise_variance_, rel=1e-4)
    np.testing.assert_allclose(model.predict(x_scale * X) / y_scale, reference.predict(X), atol=1e-5)


def test_a_constant_sample_of_a_target_is_named() -> None:
    X = np.random.default_rng(0).normal(size=(2000, 1))
    y = np.zeros(2000)
    y[0] = 1.0
    with pytest.raises(InputError, match=r"y is constant in the random sample of 20 rows.*max_learning_rows"):
        ExactGPRegressor(max_learning_rows=20, random_state=0).fit(X, y)


def test_equal_rows_are_named() -> None:
    with pytest.raises(InputError, match=r"All rows of X are the same"):
        ExactGPRegressor().fit(np.ones((9, 2)), np.arange(9.0))


def test_what_the_parameters_of_a_kernel_are_measured_in() -> None:
    X, y = (
        np.random.default_rng(0).normal(size=(200, 2)) * [1.0, 100.0],
        10.0 * np.random.default_rng(1).normal(size=200),
    )
    units = units_of(Rows(X, y - y.mean()), learns_kernel=True)
    kernel = GaussianKernel([1.0, 1.0]) * RationalQuadraticKernel(alpha=7.0) + 2.0 * MaternKernel(
        variance_bounds="fixed"
    )
    scales = scales_of(kernel + LinearKernel(), units)
    # Two lengthscales and a variance in units of y²; a lengthscale, a factor and alpha; a lengthscale.
    assert len(scales) == len((kernel + LinearKernel()).theta) == 7
    assert [scale.kind for scale in scales] == [
        "lengthscale",
        "lengthscale",
        "variance",
        "lengthscale",
        "other",
        "other",
        "lengthscale",
    ]
    assert scales[1].unit == pytest.approx(100.0 * scales[0].unit, rel=0.3)
    assert scales[2].unit == pytest.approx(y.var())
    assert (scales[4].unit, scales[4].start, scales[5].start) == (1.0, 1.0, 7.0)
