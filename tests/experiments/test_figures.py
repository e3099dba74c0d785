from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.image import imread

from lmgp.datasets import Dataset
from lmgp.experiments import figures, runner
from lmgp.experiments.protocol import EXACT, Settings
from lmgp.experiments.runner import Comparison
from lmgp.methods import METHODS


@pytest.fixture
def comparison(dataset: Dataset, fixed: Settings, tmp_path: Path) -> Comparison:
    return runner.compare(dataset, replace(fixed, thresholds=(0.5, 2.0)), tmp_path, quiet=True)


@pytest.fixture
def drawn(comparison: Comparison) -> Figure:
    return figures.figure(comparison)


NAMES = ["random Fourier", "global Taylor", "local Taylor, threshold 0.5", "local Taylor, threshold 2"]


def test_one_line_a_method_and_threshold(drawn: Figure) -> None:
    for axes in drawn.axes:
        assert [bars.get_label() for bars in axes.containers] == NAMES
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == [*NAMES, "exact GP"]


@pytest.mark.parametrize(("panel", "name"), [(0, "kl"), (1, "rmse")])
def test_lines_show_the_means_and_bars_the_range(panel: int, name: str, comparison: Comparison, drawn: Figure) -> None:
    keys = [("rff", None), ("global_taylor", None), ("local_taylor", 0.5), ("local_taylor", 2.0)]
    for (method, threshold), (line, _, (bars,)) in zip(keys, drawn.axes[panel].containers, strict=True):
        for at, size in enumerate((8, 16)):
            values = [getattr(row, name) for row in comparison.rows if row.cell[1:] == (method, size, threshold)]
            assert len(values) == 2
            np.testing.assert_allclose(line.get_xdata()[at], size, rtol=0.2)
            np.testing.assert_allclose(line.get_ydata()[at], np.mean(values))
            np.testing.assert_allclose(bars.get_segments()[at][:, 1], sorted(values))


def test_the_exact_gp_is_a_horizontal_line(comparison: Comparison, drawn: Figure) -> None:
    exact = np.mean([row.rmse for row in comparison.rows if row.method == EXACT])
    line = next(line for line in drawn.axes[1].lines if line.get_label() == "exact GP")
    np.testing.assert_allclose(line.get_ydata(), exact)
    assert line.get_xdata() == [0, 1]


def test_axes_are_logarithmic_and_have_units(drawn: Figure) -> None:
    for axes in drawn.axes:
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["8", "16"]
    assert "nats" in drawn.axes[0].get_ylabel()
    assert "units of y" in drawn.axes[1].get_ylabel()


def test_lines_are_told_apart_without_colours(drawn: Figure) -> None:
    assert len(set(figures._MARKERS)) == len(figures._MARKERS) == len(figures._COLOURS) == len(METHODS)
    for axes in drawn.axes:
        styles = {(line.get_marker(), line.get_linestyle()) for line, _, _ in axes.containers}
        assert len(styles) == len(NAMES)


def test_the_file_is_a_picture(comparison: Comparison, tmp_path: Path) -> None:
    figures.save(comparison, tmp_path / "comparison.png")
    picture = imread(tmp_path / "comparison.png")
    assert picture.shape[0] > 500
    assert picture.std() > 0.01


def test_divergences_of_zero_can_be_drawn(comparison: Comparison, tmp_path: Path) -> None:
    rows = [replace(row, kl=0.0) if row.kl is not None else row for row in comparison.rows]
    figures.save(replace(comparison, rows=rows), tmp_path / "comparison.png")
    assert (tmp_path / "comparison.png").stat().st_size > 10_000
    axes = figures.figure(replace(comparison, rows=rows)).axes[0]
    assert axes.get_title().endswith("(1e-12: or less)")
    for line, _, _ in axes.containers:
        np.testing.assert_array_equal(line.get_ydata(), 1e-12)
