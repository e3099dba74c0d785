"""The table of a kernel: its terms, their shares of the variance, and its parameters by column."""

import re
from functools import reduce
from operator import mul
from typing import Any

import numpy as np
import pytest

from lmgp import GaussianKernel, LinearKernel, MaternKernel, PeriodicKernel, RationalQuadraticKernel
from lmgp.kernels import ColumnsKernel, ExponentialKernel, Kernel, ModulatedKernel, ScaledKernel
from lmgp.kernels.table import MOST_COLUMNS, Label, kernel_table, row_variances
from lmgp.utils.facts import Table

X = np.random.default_rng(0).uniform(0.0, 4.0, (40, 3))
ROUGH, SMOOTH = MaternKernel([1.0, 2.0, 3.0], 2.0, smoothness=0.5), GaussianKernel(1.5, 0.5)


def cells(table: Table) -> dict[str, dict[str, str]]:
    """The cells by the names of their line and column."""
    assert all(len(line) == len(table.heading) for line in table.lines)
    return {name: dict(zip(table.heading[1:], line, strict=True)) for name, *line in table.lines}


@pytest.mark.parametrize(
    ("kernel", "labels"),
    [
        (SMOOTH, [["Gaussian"]]),
        (ROUGH + 0.5 * SMOOTH, [["Matérn 1/2"], ["Gaussian"]]),
        (2.0 * (ROUGH + SMOOTH * PeriodicKernel(3.0)), [["Matérn 1/2"], ["Gaussian", "periodic"]]),
        (SMOOTH * (ROUGH + LinearKernel()), [["Gaussian", "Matérn 1/2"], ["Gaussian", "linear"]]),
        ((GaussianKernel(1.0) + RationalQuadraticKernel()).on([2, 0]), [["Gaussian"], ["rational quadratic"]]),
        (ExponentialKernel(SMOOTH) + SMOOTH, [["ExponentialKernel"], ["Gaussian"]]),
    ],
)
def test_a_kernel_is_the_sum_of_its_terms(kernel: Kernel, labels: list[list[str]]) -> None:
    assert [[factor.label for factor in term] for term in kernel.terms] == labels
    np.testing.assert_allclose(sum(reduce(mul, term)(X) for term in kernel.terms), kernel(X), rtol=1e-12)


def test_the_variance_of_a_term_over_rows_is_that_of_its_draws() -> None:
    kernel = ROUGH + GaussianKernel(20.0, 9.0) + LinearKernel(variance=[0.1, 0.2, 0.3], center=7.0)
    found, rng = row_variances(kernel, X), np.random.default_rng(1)
    for (factor,), variance in zip(kernel.terms, found, strict=True):
        draws = rng.multivariate_normal(np.zeros(len(X)), factor(X), 20_000, method="eigh")
        assert variance == pytest.approx(draws.var(axis=1, ddof=1).mean(), rel=0.03)
    assert found[1] < 0.1 * 9.0  # hardly changes among the rows
    assert found[2] == pytest.approx(X.var(axis=0, ddof=1) @ [0.1, 0.2, 0.3], rel=1e-10)


@pytest.mark.filterwarnings("error")
def test_over_one_row_no_term_varies() -> None:
    np.testing.assert_allclose(row_variances(GaussianKernel() + MaternKernel(), X[:1]), [0.0, 0.0])


def test_shares_and_deviations_are_of_the_variances_over_rows_and_of_the_noise() -> None:
    kernel = ROUGH + SMOOTH * PeriodicKernel(3.0)
    found = cells(kernel_table(kernel, noise_variance=0.25, variances=np.array([0.5, 0.25])))
    assert found["share of the variance"] == {
        "Matérn 1/2": "50.0%", "Gaussian": "25.0%", "× periodic": "", "noise": "25.0%",
    }  # fmt: skip
    assert list(found["standard deviation"].values()) == ["0.707", "0.5", "", "0.5"]


def test_without_rows_shares_are_of_the_prior_variances_where_all_terms_have_one() -> None:
    shares = cells(kernel_table(ROUGH + SMOOTH))["share of the prior variance"]
    assert shares == {"Matérn 1/2": "80.0%", "Gaussian": "20.0%"}
    found = cells(kernel_table(ROUGH + LinearKernel()))
    assert "share of the prior variance" not in found
    assert found["prior standard deviation"] == {"Matérn 1/2": "1.41", "linear": ""}


def test_parameters_stand_in_the_line_of_their_column() -> None:
    season = PeriodicKernel(12.0, 0.8).on("month")
    kernel = MaternKernel([12345.678, 0.012345]).on(["lon", "lat"]) * season + RationalQuadraticKernel(2.0, alpha=3.3)
    found = cells(kernel_table(kernel))
    rational = "rational quadratic (alpha 3.3)"
    assert found["lon"] == {"Matérn 3/2": "12,300", "× periodic": "", rational: "2"}
    assert found["lat"] == {"Matérn 3/2": "0.0123", "× periodic": "", rational: "2"}
    assert found["month"] == {"Matérn 3/2": "", "× periodic": "period 12, lengthscale 0.8", rational: "2"}
    assert found["other columns"] == {"Matérn 3/2": "", "× periodic": "", rational: "2"}
    slopes = cells(kernel_table(LinearKernel(variance=[4.0, 0.25])))
    assert [slopes[name]["linear"] for name in ("x0", "x1")] == ["slope ±2", "slope ±0.5"]
    assert cells(kernel_table(GaussianKernel(2.0))).keys() == {
        "share of the prior variance", "prior standard deviation", "each column",
    }  # fmt: skip


def test_lengthscales_are_in_the_unit_of_a_label() -> None:
    labels = [Label("place", "km", 1.0, columns=(0, 1)), Label("year", "days", 58.0, columns=(2,))]
    found = cells(kernel_table(MaternKernel([3.0, 3.0, 0.5]), labels, deviations=np.array([3.0, 4.0, 1.0])))
    assert found["place, km"] == {"s.d.": "5", "Matérn 3/2": "3"}
    assert found["year, days"] == {"s.d.": "58", "Matérn 3/2": "29"}
    unequal = cells(kernel_table(MaternKernel([3.0, 1.0, 0.5]), labels))
    assert unequal["place, km"] == {"Matérn 3/2": "1 to 3"}
    slope = cells(kernel_table(LinearKernel(variance=58.0**2), labels))
    assert slope["year, days"] == {"linear": "slope ±1"}


def test_of_categories_the_correlation_is_told() -> None:
    apart = np.array([1.0, -1.0])
    labels = [Label("size", columns=(0,)), Label("kind", "correlation of categories", apart=apart, columns=(1, 2))]
    kernel = MaternKernel([2.0, 1.0, 1.0], 3.0) + GaussianKernel(1.5).on([1, 2]) + LinearKernel()
    found = cells(kernel_table(kernel, labels, deviations=np.ones(3)))
    expected = [MaternKernel(1.0), GaussianKernel(1.5)]
    correlations = [f"{one([[0.0, 0.0]], [apart])[0, 0]:.3f}" for one in expected]
    assert list(found["kind, correlation of categories"].values()) == ["", *correlations, "slope ±1"]
    assert list(found["size"]) == ["s.d.", "Matérn 3/2", "categories", "linear"]
    assert found["size"]["categories"] == ""


def test_of_many_columns_those_of_the_greatest_worth_are_shown() -> None:
    labels = [Label(f"x{j}", columns=(j,)) for j in range(60)]
    table = kernel_table(GaussianKernel(np.arange(1.0, 61.0)), labels, worth=np.arange(60.0))
    assert [name for name, *_ in table.lines[2:]] == [f"x{j}" for j in range(59, 59 - MOST_COLUMNS, -1)]
    assert table.note.endswith("40 columns that matter less are left out.")
    assert max(map(len, str(table).splitlines())) < 120


class OwnKernel(Kernel):
    """A kernel of somebody else."""

    parameter_names = ("width",)

    def __init__(self, width: Any = 2.0, width_bounds: Any = None) -> None:
        self.width, self.width_bounds = width, width_bounds

    def covariance(self, X: Any, Z: Any, values: Any) -> Any:
        return (X / values["width"]) @ Z.mT


def test_a_kernel_of_ones_own_has_a_table_without_more_code() -> None:
    assert cells(kernel_table(OwnKernel(3.0) + SMOOTH))["each column"] == {"OwnKernel (width 3)": "", "Gaussian": "1.5"}
    assert cells(kernel_table(OwnKernel([3.0, 4.0])))["x1"] == {"OwnKernel": "width 4"}


@pytest.mark.parametrize(
    "kernel",
    [
        ROUGH + 0.5 * SMOOTH * PeriodicKernel([3.0, 4.0, 5.0]),
        ColumnsKernel(SMOOTH, ["a", 1]),
        ColumnsKernel(ColumnsKernel(SMOOTH, 5), 0),
        LinearKernel(np.eye(3)),
        ScaledKernel(SMOOTH, 0.0),
        ModulatedKernel(SMOOTH, np.sum),
        GaussianKernel(np.inf, -1.0),
        GaussianKernel("wide"),
        SMOOTH + GaussianKernel([[1.0], [2.0, 3.0]]),
    ],
)
@pytest.mark.filterwarnings("error")
def test_whatever_a_kernel_is_made_of_it_prints(kernel: Kernel) -> None:
    assert str(kernel)
    assert re.match(r"\w+Kernel\(", repr(kernel))


def test_a_kernel_prints_as_its_table_and_its_repr_makes_it_again() -> None:
    kernel = MaternKernel([1.23456789, 2.0]).on([0, 2]) + GaussianKernel(3.0)
    assert str(kernel) == str(kernel_table(kernel))
    assert "1.23 " in str(kernel)
    again = eval(repr(kernel), {**globals(), "SumKernel": type(kernel), "array": np.array})
    np.testing.assert_array_equal(again(X), kernel(X))
    assert kernel._repr_mimebundle_()["text/html"].startswith(kernel_table(kernel)._repr_html_())
    assert str(GaussianKernel("wide")) == repr(GaussianKernel("wide"))
