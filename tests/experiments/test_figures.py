"""The figure of a comparison: one panel a family, with the errors as dots."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.image import imread
from scipy.optimize import minimize

from lmgp.datasets import Dataset
from lmgp.experiments import figures, runner
from lmgp.experiments.protocol import DEFAULT_METHODS, Cell, Settings
from lmgp.experiments.results import Row
from lmgp.experiments.runner import Comparison
from lmgp.methods import EXACT

METHODS = ("rff", "orf", "global_taylor", "local_taylor", "local_maclaurin_rademacher")
FAMILIES = ["Fourier", "Maclaurin, local", "Taylor"]
LABELS = {
    "Fourier": ["random Fourier", "orthogonal Fourier"],
    "Maclaurin, local": ["Rademacher, T = 0.5", "Rademacher, T = 2"],
    "Taylor": ["global Taylor", "local Taylor, T = 0.5", "local Taylor, T = 2"],
}
KEYS = {
    "Fourier": [("rff", None), ("orf", None)],
    "Maclaurin, local": [("local_maclaurin_rademacher", 0.5), ("local_maclaurin_rademacher", 2.0)],
    "Taylor": [("global_taylor", None), ("local_taylor", 0.5), ("local_taylor", 2.0)],
}


@pytest.fixture
def make_comparison(dataset: Dataset, fixed: Settings) -> Callable[..., Comparison]:
    """A comparison of made numbers, that differ between all cells."""

    def made(methods: Sequence[str] = METHODS, seeds: int = 2, target: str = "y") -> Comparison:
        settings = replace(fixed, methods=tuple(methods), thresholds=(0.5, 2.0), seeds=seeds)
        rng, rows = np.random.default_rng(0), []
        shared = {
            "settings": "mark", "dataset": "made", "protocol": "paper", "n_train": 40, "n_test": 20, "n_inputs": 1,
            "nlpd": 0.5, "coverage": 0.9, "crps": 0.2,
        }  # fmt: skip
        for seed in range(seeds):
            rows.append(Row(**shared, **Cell(seed, EXACT)._asdict(), rmse=0.2 + seed / 100, lengthscale=(0.8,)))
            for cell in list(settings.cells(seed))[1:]:
                kl = float(10 ** rng.uniform(-4, 1))
                rows.append(Row(**shared, **cell._asdict(), rmse=0.2 + rng.random() / 10, kl=kl, kl_sum=20 * kl))
        return Comparison(replace(dataset, target_name=target), settings, rows, {})

    return made


@pytest.fixture
def comparison(make_comparison: Callable[..., Comparison]) -> Comparison:
    return make_comparison()


@pytest.fixture
def drawn(comparison: Comparison) -> Figure:
    return figures.figure(comparison)


def bars_of(axes: Axes) -> list[ErrorbarContainer]:
    return [container for container in axes.containers if isinstance(container, ErrorbarContainer)]


def labels_at_ends(axes: Axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_one_panel_a_family_with_its_lines_named_at_their_ends(drawn: Figure) -> None:
    *panels, errors = drawn.axes
    assert [axes.get_title() for axes in panels] == FAMILIES
    for axes in panels:
        assert sorted(labels_at_ends(axes)) == sorted(LABELS[axes.get_title()])
        others = [line for line in axes.lines if line.get_color() == figures.LOOK.others]
        assert len(bars_of(axes)) + len(others) == sum(map(len, LABELS.values()))
        assert len(bars_of(axes)) == len(LABELS[axes.get_title()])
    assert errors.get_title(loc="right") == "RMSE at n_features = 16"


def test_lines_show_the_means_and_bars_the_range(comparison: Comparison, drawn: Figure) -> None:
    for axes in drawn.axes[:-1]:
        for (method, threshold), (line, _, (bars,)) in zip(KEYS[axes.get_title()], bars_of(axes), strict=True):
            np.testing.assert_array_equal(line.get_xdata(), [8, 16])
            for at, size in enumerate((8, 16)):
                values = [row.kl for row in comparison.rows if row.cell[1:] == (method, size, threshold)]
                assert len(values) == 2
                np.testing.assert_allclose(line.get_ydata()[at], np.mean(values))
                np.testing.assert_allclose(bars.get_segments()[at][:, 1], sorted(values))


def test_errors_are_dots_of_the_largest_size_the_least_on_top(comparison: Comparison, drawn: Figure) -> None:
    axes = drawn.axes[-1]
    found = {}
    for method, threshold in (key for keys in KEYS.values() for key in keys):
        values = [row.rmse for row in comparison.rows if row.cell[1:] == (method, 16, threshold)]
        found[method, threshold] = (float(np.mean(values)), *sorted(values))
    wanted = sorted(found.values(), reverse=True)
    assert len(wanted) == 7
    for height, ((middle, low, high), (dot, _, (bars,))) in enumerate(zip(wanted, bars_of(axes), strict=True)):
        assert (dot.get_xdata()[0], dot.get_ydata()[0]) == (pytest.approx(middle), height)
        np.testing.assert_allclose(bars.get_segments()[0][:, 0], [low, high])
    worst = max(found, key=found.__getitem__)
    names = {key: label for family in KEYS for key, label in zip(KEYS[family], LABELS[family], strict=True)}
    assert axes.get_yticklabels()[0].get_text().endswith(names[worst])
    (line,) = (line for line in axes.lines if line.get_alpha() == 0.4)
    np.testing.assert_allclose(line.get_xdata(), 0.205)  # the exact GP


def test_axes_are_logarithmic_and_have_units(drawn: Figure) -> None:
    *panels, errors = drawn.axes
    for axes in panels:
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["8", "16"]
    assert "nats" in panels[0].get_ylabel()
    assert errors.get_xlabel() == "units of y"


def test_lines_are_told_apart_without_colours(drawn: Figure) -> None:
    for axes in drawn.axes[:-1]:
        styles = {(line.get_marker(), line.get_linestyle()) for line, _, _ in bars_of(axes)}
        assert len(styles) == len(bars_of(axes))


def test_no_names_overlap_with_all_methods(make_comparison: Callable[..., Comparison]) -> None:
    fig = figures.figure(make_comparison(DEFAULT_METHODS))
    fig.canvas.draw()
    renderer = fig.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for axes in fig.axes[:-1] for text in axes.texts]
    boxes += [label.get_window_extent(renderer) for label in fig.axes[-1].get_yticklabels()]
    boxes += [axes.get_window_extent(renderer) for axes in fig.axes]
    assert len(boxes) == 2 * 20 + 7
    for number, box in enumerate(boxes):
        for other in boxes[:number]:
            # Half a pixel is rounding.
            assert min(box.x1, other.x1) - max(box.x0, other.x0) < 0.5 or (
                min(box.y1, other.y1) - max(box.y0, other.y0) < 0.5
            )


@pytest.mark.parametrize("seed", range(4))
def test_names_move_apart_by_the_least_squares(seed: int) -> None:
    places = np.sort(np.random.default_rng(seed).uniform(0, 1, 6))
    got = np.array(figures.spread(places.tolist(), 0.15))
    constraint = {"type": "ineq", "fun": lambda at: np.diff(at) - 0.15}
    wanted = minimize(lambda at: np.sum((at - places) ** 2), places, constraints=constraint, method="SLSQP", tol=1e-14)
    np.testing.assert_allclose(got, wanted.x, atol=1e-5)
    assert figures.spread([], 0.1) == []
    assert figures.spread([0.0, 0.5], 0.1) == [0.0, 0.5]


def test_one_method_one_seed(make_comparison: Callable[..., Comparison]) -> None:
    fig = figures.figure(make_comparison(["rff"], seeds=1))
    assert [axes.get_title() for axes in fig.axes[:-1]] == ["Fourier"]
    assert fig.get_suptitle() == "made: protocol paper, one seed"
    assert len(figures.figure(make_comparison([], seeds=1)).axes) == 1  # the exact GP alone


def test_a_comparison_that_was_run_can_be_saved(dataset: Dataset, fixed: Settings, tmp_path: Path) -> None:
    comparison = runner.compare(dataset, replace(fixed, seeds=1), tmp_path, quiet=True)
    figures.save(comparison, tmp_path / "comparison.png")
    picture = imread(tmp_path / "comparison.png")
    assert picture.shape[0] > 400
    assert picture.std() > 0.01


def test_divergences_of_zero_can_be_drawn(comparison: Comparison) -> None:
    rows = [replace(row, kl=0.0) if row.kl is not None else row for row in comparison.rows]
    fig = figures.figure(replace(comparison, rows=rows))
    fig.canvas.draw()
    assert fig.get_suptitle().endswith(". 1e-12: or less")
    for axes in fig.axes[:-1]:
        for line, _, _ in bars_of(axes):
            np.testing.assert_array_equal(line.get_ydata(), 1e-12)


@pytest.mark.parametrize("kl", [float("inf"), float("nan")])
def test_divergences_that_are_no_numbers_do_not_stop_the_others(kl: float, comparison: Comparison) -> None:
    rows = [replace(row, kl=kl) if row.method == "rff" else row for row in comparison.rows]
    fig = figures.figure(replace(comparison, rows=rows))
    fig.canvas.draw()
    assert "random Fourier" in labels_at_ends(fig.axes[0])
