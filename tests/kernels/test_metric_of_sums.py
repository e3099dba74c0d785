"""The lengthscales in which rows are near, of sums of kernels."""

import numpy as np
import pytest

from lmgp import GaussianKernel, LinearKernel, MaternKernel
from lmgp.errors import InputError


def test_the_metric_of_a_sum_weighs_terms_by_their_variances() -> None:
    kernel = GaussianKernel([1.0, 2.0], 3.0) + MaternKernel([0.5, 8.0], 1.0)
    expected = (0.75 * np.array([1.0, 2.0]) ** -2 + 0.25 * np.array([0.5, 8.0]) ** -2) ** -0.5
    np.testing.assert_allclose(kernel.metric(2), expected, rtol=1e-14)


def test_the_order_in_which_terms_are_added_does_not_change_the_metric() -> None:
    a, b, c = GaussianKernel(1.0, 3.0), MaternKernel(0.1, 1.0), MaternKernel(4.0, 2.0)
    np.testing.assert_allclose(((a + b) + c).metric(1), (a + (b + c)).metric(1), rtol=1e-14)
    np.testing.assert_allclose(((a + LinearKernel()) + c).metric(1), (a + c).metric(1), rtol=1e-14)


def test_a_term_of_little_variance_does_not_decide_which_rows_are_near() -> None:
    kernel = GaussianKernel(1.0) + MaternKernel(0.1, 1e-6)
    np.testing.assert_allclose(kernel.metric(1), [1.0], rtol=1e-4)


def test_terms_without_variance_count_alike() -> None:
    kernel = GaussianKernel(1.0, 0.0) + GaussianKernel(2.0, 0.0)
    np.testing.assert_allclose(kernel.metric(1), [(0.5 + 0.125) ** -0.5], rtol=1e-14)


def test_a_sum_without_lengthscales_has_no_metric() -> None:
    with pytest.raises(InputError, match="needs a lengthscale"):
        (LinearKernel() + LinearKernel()).metric(2)
