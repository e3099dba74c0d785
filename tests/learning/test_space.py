"""The free numbers of a form: their units, bounds and priors."""

import math
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from lmgp import GaussianKernel, LinearKernel, MaternKernel, PeriodicKernel, RationalQuadraticKernel
from lmgp.data import Rows
from lmgp.errors import InputError
from lmgp.learning.forms import declared_free, parameter_units
from lmgp.learning.space import LEAST_NOISE, Space, Units
from tests.learning.conftest import form_of

Floats = NDArray[np.float64]

DEVIATIONS = np.array([1.0, 100.0, 0.01])


def rows(n: int = 60) -> Rows:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = 5.0 * rng.normal(size=n)
    return Rows((X - X.mean(axis=0)) / X.std(axis=0) * DEVIATIONS + 7.0, y - y.mean())


def space(name: str = "matern12+gaussian", ard: bool = True, standardize: bool = True, **given: float) -> Space:
    return Space(form_of(name, ard, 3), Units.of(rows(), standardize), **given)


class TestUnits:
    def test_are_the_standard_deviations(self) -> None:
        units = Units.of(rows(), standardize=True)
        np.testing.assert_allclose(units.columns, DEVIATIONS, rtol=1e-9)
        np.testing.assert_allclose(units.shared, DEVIATIONS, rtol=1e-9)
        assert units.variance == pytest.approx(rows().Y[:, 0].var())

    def test_one_scale_for_all_is_the_root_of_their_mean_square(self) -> None:
        units = Units.of(rows(), standardize=False)
        np.testing.assert_allclose(units.shared, np.sqrt(np.mean(DEVIATIONS**2)), rtol=1e-9)

    def test_a_constant_column_has_a_unit_and_does_not_count(self) -> None:
        given = rows()
        constant = Rows(np.column_stack((given.X, np.full(60, 3.0))), given.Y[:, 0])
        units = Units.of(constant, standardize=False)
        assert units.columns[3] == 1.0
        np.testing.assert_allclose(units.shared, np.sqrt(np.mean(DEVIATIONS**2)), rtol=1e-9)

    def test_columns_of_a_group_share_a_unit(self) -> None:
        columns = Units.of(rows(), True, groups=[0, 0, 1]).columns
        assert columns[0] == columns[1] == pytest.approx(np.sqrt((1.0 + 1e4) / 2.0))

    def test_the_noise_of_weight_one_is_in_the_variance_of_y_times_the_mean_weight(self) -> None:
        given = rows()
        weighted = replace(given, weights=np.linspace(1.0, 5.0, 60))
        assert Units.of(weighted, True).noise == pytest.approx(3.0 * given.Y[:, 0].var())

    @pytest.mark.parametrize("offset", [1e60, 6e99])
    def test_columns_far_from_zero_have_the_unit_of_their_spread(self, offset: float) -> None:
        X = offset * (1.0 + 1e-3 * rows().X)
        np.testing.assert_allclose(Units.of(Rows(X, rows().Y), True).columns, 1e-3 * offset * DEVIATIONS, rtol=1e-6)

    @pytest.mark.parametrize(
        ("X", "y", "message"),
        [
            (np.arange(10.0).reshape(5, 2), np.zeros(5), "y is constant"),
            (1e150 * np.arange(10.0).reshape(5, 2), np.arange(5.0), "which overflow float64"),
            (np.arange(10.0).reshape(5, 2), 1e150 * np.arange(5.0), "which overflow float64"),
            (1e-150 * np.arange(10.0).reshape(5, 2), np.arange(5.0), "underflow"),
        ],
    )
    def test_rows_without_a_scale_are_refused(self, X: Floats, y: Floats, message: str) -> None:
        with pytest.raises(InputError, match=message):
            Units.of(Rows(X, y), standardize=True)

    def test_equal_rows_have_no_lengthscale_but_a_noise(self) -> None:
        units = Units.of(Rows(np.ones((5, 2)), np.arange(5.0)), standardize=True)
        with pytest.raises(InputError, match="All rows of X are the same"):
            Space(form_of("gaussian", True, 2), units)
        assert Space(declared_free(GaussianKernel()), units).kinds.tolist() == ["noise"]


def test_what_the_parameters_of_a_kernel_are_measured_in() -> None:
    kernel = GaussianKernel([1.0, 1.0]) * RationalQuadraticKernel(alpha=7.0) + 2.0 * MaternKernel(
        variance_bounds="fixed"
    )
    units, kinds, labels = parameter_units(kernel + LinearKernel(), np.array([1.0, 100.0]), 9.0)
    assert len(units) == len(kinds) == len((kernel + LinearKernel()).theta) == 8
    # Two lengthscales and a variance in units of y²; of a second factor one of each, and alpha; a lengthscale; a slope.
    expected = ["lengthscale", "lengthscale", "variance", "lengthscale", "variance", "other", "lengthscale", "variance"]
    assert kinds == expected
    np.testing.assert_array_equal(labels, [(0, 0), (0, 1), (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)])
    np.testing.assert_allclose(units, [1.0, 100.0, 9.0, 50.5, 9.0, 1.0, 50.5, 9.0 / 50.5**2])
    some = MaternKernel([1.0, 1.0]).on([2, 0]) * PeriodicKernel(3.0).on(1) + GaussianKernel().on(2) * LinearKernel()
    units, kinds, labels = parameter_units(some, np.array([1.0, 100.0, 7.0]), 9.0)
    assert kinds[2:6] == ["variance", "period", "other", "variance"]
    np.testing.assert_array_equal(labels[:4, 1], [2, 0, 2, 1])
    np.testing.assert_allclose(units, [7.0, 1.0, 9.0, 100.0, 1.0, 9.0, 7.0, 9.0, 9.0 * 36.0**-2.0])


class TestCoordinates:
    @pytest.mark.parametrize("ard", [False, True])
    @pytest.mark.parametrize("name", ["gaussian", "rational_quadratic", "matern12+gaussian"])
    def test_logarithms_are_those_of_the_kernel(self, name: str, ard: bool) -> None:
        one = space(name, ard)
        free = np.random.default_rng(1).normal(size=len(one.bounds))
        logarithms = one.logarithms(free)
        np.testing.assert_allclose(one.form.kernel.with_theta(logarithms[:-1]).theta, logarithms[:-1])
        np.testing.assert_allclose(one.kernel(free).theta, logarithms[:-1])
        assert one.noise_variance(free) == pytest.approx(math.exp(logarithms[-1]))

    def test_zero_is_one_unit(self) -> None:
        one, variance = space("matern32"), rows().Y[:, 0].var()
        kernel = one.kernel(np.zeros(5))
        np.testing.assert_allclose(kernel.lengthscale, DEVIATIONS, rtol=1e-9)
        assert kernel.variance == pytest.approx(variance)
        assert one.noise_variance(np.zeros(5)) == pytest.approx(variance)
        assert list(one.kinds) == ["lengthscale"] * 3 + ["variance", "noise"]

    def test_one_lengthscale_in_standard_deviations_comes_out_a_column(self) -> None:
        kernel = space("matern32", ard=False).kernel(np.log([2.0, 1.0, 1.0]))
        np.testing.assert_allclose(kernel.lengthscale, 2.0 * DEVIATIONS, rtol=1e-9)

    def test_one_lengthscale_of_columns_as_they_are_is_a_number(self) -> None:
        kernel = space("matern32", ard=False, standardize=False).kernel(np.log([2.0, 1.0, 1.0]))
        assert np.ndim(kernel.lengthscale) == 0
        assert kernel.lengthscale == pytest.approx(2.0 * np.sqrt(np.mean(DEVIATIONS**2)))

    def test_a_given_noise_is_not_free(self) -> None:
        one = space("matern32", given_noise=0.3)
        assert len(one.bounds) == 4
        assert one.noise_variance(np.zeros(4)) == 0.3
        assert one.logarithms(np.zeros(4))[-1] == math.log(0.3)

    @pytest.mark.parametrize("ard", [False, True])
    def test_the_gradient_follows_the_chain_rule(self, ard: bool) -> None:
        one = space(ard=ard)
        slope = np.random.default_rng(2).normal(size=len(one.logarithms(np.zeros(len(one.bounds)))))
        jacobian = np.array([one.logarithms(unit) - one.logarithms(0.0 * unit) for unit in np.eye(len(one.bounds))]).T
        np.testing.assert_allclose(one.gradient(slope), jacobian.T @ slope)


class TestBounds:
    def test_of_a_kernel_that_was_given_are_its_own(self) -> None:
        form = declared_free(GaussianKernel(50.0, lengthscale_bounds=(20.0, 300.0)))
        assert form is not None
        one = Space(form, Units.of(rows(), standardize=True))
        low, high = (one.kernel(bound).lengthscale for bound in one.bounds.T)
        assert (low, high) == (pytest.approx(20.0), pytest.approx(300.0))
        np.testing.assert_allclose(one.kernel(one.median).lengthscale, 50.0)  # and starts from its own value
        assert one.kernel(one.median).variance == 1.0

    def test_noise_has_a_floor(self) -> None:
        one = space()
        assert one.noise_variance(one.bounds[:, 0]) == pytest.approx(LEAST_NOISE * rows().Y[:, 0].var())

    def test_are_far_from_what_data_need(self) -> None:
        one = space()
        assert (one.bounds[:, 0] <= np.log(1e-3)).all()
        assert (one.bounds[:, 1] >= np.log(1e3)).all()


class TestPriors:
    @pytest.mark.parametrize("ard", [False, True])
    def test_gradient_and_curvature_are_those_of_finite_differences(self, ard: bool) -> None:
        one, step = space(ard=ard), 1e-4
        at = np.random.default_rng(3).normal(size=len(one.bounds))
        units = step * np.eye(len(at))
        slopes = [(one.log_prior(at + unit)[0] - one.log_prior(at - unit)[0]) / (2 * step) for unit in units]
        np.testing.assert_allclose(one.log_prior(at)[1], slopes, rtol=1e-6, atol=1e-9)
        curvature = [(one.log_prior(at + unit)[1] - one.log_prior(at - unit)[1]) / (2 * step) for unit in units]
        np.testing.assert_allclose(-one.prior_information, curvature, rtol=1e-6, atol=1e-9)

    def test_the_median_is_the_mode(self) -> None:
        one = space("matern32")
        value, slope = one.log_prior(one.median)
        np.testing.assert_array_equal(slope, 0.0)
        assert one.log_prior(one.median + 0.1)[0] < value
        # √d standard deviations, the variance of y, and a tenth of it.
        kernel, variance = one.kernel(one.median), rows().Y[:, 0].var()
        np.testing.assert_allclose(kernel.lengthscale, np.sqrt(3.0) * DEVIATIONS, rtol=1e-9)
        assert kernel.variance == pytest.approx(variance)
        assert one.noise_variance(one.median) == pytest.approx(0.1 * variance)

    @pytest.mark.parametrize("n_constant", [0, 2])
    def test_of_one_column_that_varies_the_median_is_its_standard_deviation(self, n_constant: int) -> None:
        of = rows()
        X = np.column_stack((of.X[:, 1], *[np.ones(len(of))] * n_constant))
        one = Space(form_of("matern32", True, 1 + n_constant), Units.of(Rows(X, of.Y[:, 0]), standardize=True))
        assert np.ravel(one.kernel(one.median).lengthscale)[0] == pytest.approx(DEVIATIONS[1])

    def test_is_weak(self) -> None:
        # A factor of 20 on all lengthscales, or on the noise, costs at most half a nat.
        one = space("matern32")
        for kind in ("lengthscale", "noise"):
            moved = np.where(one.kinds == kind, np.log(20.0), 0.0)
            off = one.log_prior(one.median)[0] - one.log_prior(one.median + moved)[0]
            assert 0.4 < off < 0.51

    def test_lengthscales_share_what_they_have_in_common(self) -> None:
        one = space("matern12+matern52")
        covariance = np.linalg.inv(one.prior_information)
        scales = np.flatnonzero(one.kinds == "lengthscale").reshape(2, 3)
        assert covariance[scales[0, 0], scales[0, 0]] == pytest.approx(9.0 + 3.0)
        assert covariance[scales[0, 0], scales[0, 1]] == pytest.approx(9.0 + 1.0)  # of one part
        assert covariance[scales[0, 0], scales[1, 0]] == pytest.approx(9.0 + 1.0)  # of one column
        assert covariance[scales[0, 0], scales[1, 1]] == pytest.approx(9.0)
        others = np.flatnonzero(one.kinds != "lengthscale")
        np.testing.assert_allclose(covariance[np.ix_(others, others)], 9.0 * np.eye(3))
        np.testing.assert_allclose(covariance[np.ix_(others, scales.ravel())], 0.0, atol=1e-12)

    def test_lengthscales_may_be_closer_to_each_other(self) -> None:
        one = space("matern12+matern52", own_deviation=0.5)
        covariance = np.linalg.inv(one.prior_information)
        scales = np.flatnonzero(one.kinds == "lengthscale").reshape(2, 3)
        assert covariance[scales[0, 0], scales[0, 0]] == pytest.approx(9.0 + 0.75)
        assert covariance[scales[0, 0], scales[0, 1]] == pytest.approx(9.0 + 0.25)
        assert covariance[scales[0, 0], scales[1, 1]] == pytest.approx(9.0)

    @pytest.mark.parametrize("own_deviation", [1.0, 0.25])
    @pytest.mark.parametrize("name", ["matern32", "matern12+matern52"])
    def test_is_a_density(self, name: str, own_deviation: float) -> None:
        one = space(name, own_deviation=own_deviation)
        at = one.median + np.random.default_rng(0).normal(size=len(one.bounds))
        expected = multivariate_normal(one.median, np.linalg.inv(one.prior_information)).logpdf(at)
        assert one.log_prior(at)[0] == pytest.approx(expected)

    def test_does_not_depend_on_the_units_of_the_rows(self) -> None:
        given = rows()
        other = Rows(given.X * [1e3, 1.0, 1e-6], 40.0 * given.Y[:, 0])
        one, two = space(), Space(form_of("matern12+gaussian", True, 3), Units.of(other, True))
        np.testing.assert_allclose(two.median, one.median)
        np.testing.assert_allclose(two.bounds, one.bounds, atol=1e-9)
        assert isinstance(two.kernel(two.median).left, MaternKernel)
