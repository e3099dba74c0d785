import re
from math import factorial

import numpy as np
import pytest
from numpy.typing import NDArray

from lmgp import TaylorFeatures
from lmgp.experiments import figure_1 as kernel
from lmgp.experiments.page import Section

Floats = NDArray[np.float64]


def series(r: Floats, s: Floats, degrees: float) -> Floats:
    """k_3 between rows of norms r and s, summed as Theorem 3.1 writes it."""
    product = r * s * np.cos(np.radians(degrees))
    return np.exp(-(r**2 + s**2) / 2) * sum(product**n / factorial(n) for n in range(4))


@pytest.fixture(scope="module")
def section() -> Section:
    return kernel.kernel_section()


def test_the_map_has_the_degree_of_the_figure() -> None:
    features = TaylorFeatures(kernel.N_FEATURES).fit(np.zeros((1, 2)))
    assert (features.degree_, features.n_features_out_) == (kernel.DEGREE, kernel.N_FEATURES) == (3, 10)


@pytest.mark.parametrize("angle", [0.0, 30.0, 90.0, 135.0, 180.0])
def test_kernels_are_the_formulas(angle: float) -> None:
    r, s = np.array([0.0, 0.7, 2.0, 4.0]), np.array([0.5, 3.0])
    exact, truncated = kernel.kernels(r, s, angle)
    squares = r[:, None] ** 2 + s**2 - 2 * r[:, None] * s * np.cos(np.radians(angle))
    np.testing.assert_allclose(exact, np.exp(-squares / 2), rtol=1e-13)
    np.testing.assert_allclose(truncated, series(r[:, None], s, angle), rtol=1e-12, atol=1e-16)


def test_panels_draw_the_exact_kernel_and_the_series(section: Section) -> None:
    for axes, angle in zip(section.figure.axes[:4], (0, 45, 90, 180), strict=True):
        assert axes.get_title().startswith(f"θ = {angle}°")
        lines = axes.get_lines()
        for solid, dashed, norm in zip(lines[::2], lines[1::2], (0.5, 1.0, 2.0, 3.0), strict=True):
            assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")
            assert solid.get_alpha() < 1
            assert dashed.get_label() == f"$k_p$, ‖ỹ‖ = {norm:g}"
            r = np.asarray(dashed.get_xdata(), dtype=float)
            assert (r[0], r[-1]) == (0.0, 4.0)
            np.testing.assert_allclose(dashed.get_ydata(), series(r, np.full_like(r, norm), angle), atol=1e-15)
            squares = r**2 + norm**2 - 2 * r * norm * np.cos(np.radians(angle))
            np.testing.assert_allclose(solid.get_ydata(), np.exp(-squares / 2), atol=1e-15)


def test_the_diagonal_has_the_closed_form_on_top(section: Section) -> None:
    exact, truncated, closed = section.figure.axes[4].get_lines()
    np.testing.assert_array_equal(exact.get_ydata(), 1.0)
    for line in (truncated, closed):
        r = np.asarray(line.get_xdata(), dtype=float)
        np.testing.assert_allclose(line.get_ydata(), series(r, r, 0.0), atol=1e-15)
    assert closed.get_linestyle() == "None"


def test_the_table_has_the_largest_error_of_each_line(section: Section) -> None:
    (table,) = section.tables
    rows = list(table.frame.itertuples(index=False, name=None))
    assert [row[:2] for row in rows] == [(a, s) for a in (0, 45, 90, 180) for s in (0.5, 1.0, 2.0, 3.0)]
    r = np.linspace(0.0, 4.0, 201)
    for angle, norm, error, at, there in rows:
        s = np.full_like(r, norm)
        squares = r**2 + s**2 - 2 * r * s * np.cos(np.radians(angle))
        errors = np.abs(np.exp(-squares / 2) - series(r, s, angle))
        assert error == pytest.approx(errors.max(), abs=1e-14)
        if angle != 90:  # there the error is rounding, and so is its place
            assert at == r[errors.argmax()]
            assert there == pytest.approx(series(r, s, angle)[errors.argmax()])


def test_theorem_3_1_holds_for_what_is_drawn(section: Section) -> None:
    errors = {tuple(row[:2]): row[2] for row in section.tables[0].frame.to_numpy()}
    for norm in (0.5, 1.0, 2.0, 3.0):
        assert errors[90, norm] <= 1e-15
        assert errors[0, norm] > max(errors[angle, norm] for angle in (45, 90, 180))


def test_the_text_states_what_is_measured(section: Section) -> None:
    _, theorem, diagonal = section.text
    assert float(re.search(r"k − k_p\| is at most (\S+)\. For", theorem)[1]) <= 1e-15
    assert float(re.search(r"by more than (\S+);", theorem)[1]) <= 1e-15
    assert float(re.search(r"deviation measured is (\S+),", diagonal)[1]) <= 1e-14
    # The largest |k_p| where ‖x̃‖² + ‖ỹ‖² ≥ 8 is that of x = y with ‖x̃‖ = 2: Q(4, 4).
    two = np.array([2.0])
    assert float(re.search(r"\|k_p\| is at most (\S+),", theorem)[1]) == pytest.approx(series(two, two, 0)[0], abs=1e-3)


def test_a_wrong_map_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "N_FEATURES", 6)
    assert float(re.search(r"measured is (\S+),", kernel.kernel_section().text[2])[1]) > 0.1
