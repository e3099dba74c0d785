"""What the names of kernels stand for."""

from typing import Any

import numpy as np
import pytest

from lmgp import ExactGPRegressor, GaussianKernel, LinearKernel, MaternKernel
from lmgp.data import Rows
from lmgp.errors import InputError
from lmgp.kernels.composite import SumKernel
from lmgp.learning.engine import Settings, forms_of
from lmgp.learning.forms import AUTO, PARTS, SEASONAL, WITH_CATEGORIES, Ard, Form, declared_free, make_form, names_of
from tests.learning.conftest import form_of


def forms(kernel: Any, ard: Ard, n_inputs: int, **settings: Any) -> tuple[Form, ...]:
    """Return the forms that are tried of any rows."""
    return forms_of(Rows(np.zeros((2, n_inputs)), np.zeros(2)), Settings(kernel, ard, **settings))


class TestNames:
    @pytest.mark.parametrize("name", PARTS)
    def test_a_name_is_a_kernel_with_one_lengthscale_or_one_a_column(self, name: str) -> None:
        one, many = form_of(name, False, 3), form_of(name, True, 3)
        n_parameters = len(one.kernel.parameters)
        n_a_column = {"periodic": 2}.get(name, 1)  # a period and a lengthscale; of "linear" the variance
        assert (one.n_free, many.n_free) == (n_parameters, n_parameters + 2 * n_a_column)
        assert (one.ard, many.ard) == (False, True)
        for form in (one, many):
            assert form.named
            assert form.parts == (name,)
            assert len(form.ties) == len(form.kernel.theta)

    @pytest.mark.parametrize(("name", "smoothness"), [("matern12", 0.5), ("matern32", 1.5), ("matern52", 2.5)])
    def test_the_digits_are_the_smoothness(self, name: str, smoothness: float) -> None:
        kernel = form_of(name, False, 2).kernel
        assert isinstance(kernel, MaternKernel)
        assert kernel.smoothness == smoothness

    def test_a_sum_has_the_lengthscales_of_each_part(self) -> None:
        form = form_of("matern12+gaussian", True, 3)
        assert isinstance(form.kernel, SumKernel)
        assert isinstance(form.kernel.left, MaternKernel)
        assert isinstance(form.kernel.right, GaussianKernel)
        assert form.parts == ("matern12", "gaussian")
        assert form.n_free == 8
        np.testing.assert_array_equal(form.ties, np.arange(8))
        # Tied by part: a lengthscale and a variance of each.
        np.testing.assert_array_equal(form_of("matern12+gaussian", False, 3).ties, [0, 0, 0, 1, 2, 2, 2, 3])
        assert form_of("gaussian+gaussian+matern12", False, 2).n_free == 6

    def test_a_product_has_the_variance_of_its_first_factor(self) -> None:
        form = form_of("linear+matern32*periodic", False, 2)
        free = [one.name for one in form.kernel.parameters if not one.fixed]
        assert free == ["left__variance", *(f"right__left__{name}" for name in ("lengthscale", "variance"))] + [
            f"right__right__{name}" for name in ("period", "lengthscale")
        ]
        assert form.kernel.right.right.variance == 1.0
        assert form.parts == ("linear", "matern32*periodic")
        np.testing.assert_array_equal(form.ties, [0, 0, 1, 1, 2, 3, 3, 4, 4])
        np.testing.assert_array_equal(form_of("matern32*periodic", True, 2).ties, np.arange(7))

    def test_categories_have_a_part_of_their_own_and_share_lengthscales_by_column(self) -> None:
        (form,) = forms("auto", "auto", 6, groups=[0, 1, 1, 2, 3, 3], categories=[1, 2, 4, 5])
        assert form.name == WITH_CATEGORIES
        np.testing.assert_array_equal(form.ties[:7], [0, 1, 1, 2, 3, 3, 4])
        np.testing.assert_array_equal(form.ties[-5:] - form.ties[-5], [0, 0, 1, 1, 2])
        own = form.kernel.right
        np.testing.assert_array_equal(own.metric(6)[[0, 3]], np.inf)
        assert np.isfinite(own.metric(6)[[1, 2, 4, 5]]).all()
        assert forms("auto", "auto", 6)[0].name == AUTO
        with pytest.raises(InputError, match="has a part for categories, but no column of X is one"):
            forms("matern12+categories", True, 6)

    def test_categories_may_be_any_factor_of_a_product(self) -> None:
        for name in ("matern32*categories", "categories*matern32"):
            (form,) = forms(name, False, 3, categories=[2])
            assert [one.name for one in form.kernel.parameters if one.name.endswith("variance") and not one.fixed] == [
                "left__variance" if name.startswith("matern32") else "left__kernel__variance"
            ]

    def test_linear_functions_are_zero_at_the_mean_of_the_rows(self) -> None:
        X = np.array([[1990.0, 5.0], [1994.0, 5.0], [1994.0, 5.0]])
        kernel = make_form("gaussian*linear", False, Rows(X[:2], np.zeros(2), np.array([1.0, 2.0]))).kernel
        np.testing.assert_allclose(kernel.right.center, X.mean(axis=0))
        # A factor whose variance is 1 in standard deviations of the columns; a constant column has the unit 1.
        np.testing.assert_allclose(kernel.right.variance, [1.0 / X[:, 0].var(), 1.0])

    def test_columns_of_a_group_share_a_lengthscale(self) -> None:
        form = form_of("matern32", True, 4, groups=[7, 7, 2, 7])
        np.testing.assert_array_equal(form.ties, [1, 1, 0, 1, 2])
        assert form.ard
        # One group is one lengthscale.
        assert not form_of("matern32", True, 3, groups=[1, 1, 1]).ard

    @pytest.mark.parametrize(
        "name", ["matern", "gausian", "", "matern12+", "matern12*", "matern12 gaussian", "auto+gaussian"]
    )
    def test_an_unknown_name_is_told_with_what_is_known(self, name: str) -> None:
        with pytest.raises(
            InputError,
            match=r'which is no kernel that can be named \(sums are joined by "\+", products by "\*"\); '
            "(did you mean|known)",
        ) as caught:
            forms(name, False, 2)
        assert repr(name) in str(caught.value)

    def test_a_near_name_is_proposed(self) -> None:
        with pytest.raises(InputError, match="gaussian"):
            forms("gausian", False, 2)

    @pytest.mark.parametrize(("name", "proposed"), [("autoo", True), ("gaussian+autoo", False)])
    def test_auto_is_proposed_by_itself_alone(self, name: str, proposed: bool) -> None:
        with pytest.raises(InputError, match=r"did you mean|known") as caught:
            forms(name, False, 2)
        assert ("'auto'" in str(caught.value)) == proposed


class TestLists:
    def test_auto_is_a_rough_a_smooth_and_a_smoother_part(self) -> None:
        assert [form.name for form in forms("auto", False, 3)] == [AUTO] == ["matern12+matern52+gaussian"]

    def test_in_one_column_auto_tries_a_season_too(self) -> None:
        assert [form.name for form in forms("auto", False, 1)] == [AUTO, SEASONAL]
        assert SEASONAL == "matern12+matern52+gaussian+matern32*periodic"

    @pytest.mark.parametrize(
        ("n_inputs", "ard", "expected"), [(3, "auto", True), (3, False, False), (1, "auto", False)]
    )
    def test_ard_auto_is_one_lengthscale_a_column(self, n_inputs: int, ard: bool | str, expected: bool) -> None:
        assert {form.ard for form in forms("auto", ard, n_inputs)} == {expected}

    def test_one_group_is_one_column(self) -> None:
        assert {form.ard for form in forms("auto", "auto", 3, groups=[0, 0, 0])} == {False}
        assert {form.ard for form in forms("auto", "auto", 3, groups=[0, 0, 1])} == {True}

    def test_with_one_column_ard_true_is_one_lengthscale(self) -> None:
        (form,) = forms("gaussian", True, 1)
        assert form.n_free == 2

    def test_a_list_is_its_names_once(self) -> None:
        found = forms(["matern32", "gaussian", "matern32"], False, 2)
        assert [form.name for form in found] == ["matern32", "gaussian"]
        assert [form.name for form in forms([AUTO, "gaussian", "auto"], False, 2)] == [AUTO, "gaussian"]

    @pytest.mark.parametrize("kernel", [[], [1, 2], ["gaussian", None], [GaussianKernel()]])
    def test_what_is_no_list_of_names_is_refused(self, kernel: list[object]) -> None:
        with pytest.raises(InputError, match=r"kernel must be a kernel, a name such as 'matern32'.*got"):
            forms(kernel, False, 2)

    def test_models_say_the_same(self) -> None:
        X, y = np.arange(12.0).reshape(6, 2), np.arange(6.0)
        with pytest.raises(InputError, match="which is no kernel that can be named"):
            ExactGPRegressor("matern99").fit(X, y)


class TestDeclaredFree:
    def test_parameters_with_a_pair_of_bounds_are_free(self) -> None:
        kernel = MaternKernel([1.0, 2.0], 3.0, variance_bounds=(0.1, 10.0)) + GaussianKernel(
            0.5, lengthscale_bounds=(0.1, 1.0), variance_bounds="fixed"
        )
        form = declared_free(kernel)
        assert not form.named
        assert form.n_free == 2
        assert [one.name for one in form.kernel.parameters if not one.fixed] == ["left__variance", "right__lengthscale"]
        np.testing.assert_allclose(form.kernel.theta, np.log([3.0, 0.5]))
        # The caller's kernel stays as it is.
        assert kernel.left.lengthscale_bounds is None

    @pytest.mark.parametrize(
        "kernel", [GaussianKernel(), LinearKernel(), GaussianKernel(lengthscale_bounds="fixed") + MaternKernel()]
    )
    def test_without_bounds_nothing_is_free(self, kernel: GaussianKernel) -> None:
        form = declared_free(kernel)
        assert form.n_free == len(form.kernel.theta) == 0


def test_spaces_around_names_and_signs_are_no_part_of_a_name() -> None:
    assert names_of(" matern12 + matern32 * periodic\n", 1, False) == ("matern12+matern32*periodic",)
