"""Calibration and prediction against truth: counted by hand, and uniform for exact data."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot
from scipy import stats
from scipy.stats import binom, kstest, norm

from lmgp import plots
from lmgp.errors import InputError
from lmgp.metrics import coverage


def test_coverage_is_what_is_counted() -> None:
    rng = np.random.default_rng(0)
    y, mean, std = rng.normal(size=60), rng.normal(size=60), rng.uniform(0.5, 2.0, 60)
    levels = [0.9, 0.25, 0.5]
    ax, _ = plots.calibration(y, mean, std, levels=levels)
    diagonal, line = ax.lines
    np.testing.assert_array_equal(diagonal.get_xydata(), [[0, 0], [1, 1]])
    np.testing.assert_array_equal(line.get_xdata(), np.sort(levels))
    for level, share in zip(*line.get_data(), strict=True):
        low, high = norm.interval(level, mean, std)
        assert share == sum(a <= one <= b for a, one, b in zip(low, y, high, strict=True)) / 60
        assert share == coverage(y, mean, std**2, level)


def test_a_target_at_the_end_of_an_interval_is_within_it() -> None:
    ax, _ = plots.calibration([0.0, 10.0], [0.0, 0.0], [1.0, 1.0], levels=[0.5])
    assert ax.lines[1].get_ydata().tolist() == [0.5]


def test_the_pit_of_exact_data_is_uniform_and_of_others_is_not() -> None:
    rng = np.random.default_rng(1)
    mean, std = rng.normal(size=4000), rng.uniform(0.5, 2.0, 4000)
    y = mean + std * rng.normal(size=4000)
    _, ax = plots.calibration(y, mean, std, bins=8)
    heights = np.array([bar.get_height() for bar in ax.patches])
    by_hand = [((norm.cdf(y, mean, std) * 8).astype(int) == j).sum() * 8 / 4000 for j in range(8)]
    np.testing.assert_allclose(heights, by_hand)
    low, high = (end * 8 / 4000 for end in binom.interval(0.999, 4000, 1 / 8))
    assert np.all((low <= heights) & (heights <= high))
    assert kstest(norm.cdf(y, mean, std), "uniform").pvalue > 0.01
    _, hill = plots.calibration(y, mean, 2.0 * std, bins=8)
    assert hill.patches[0].get_height() < 0.5 < 1.5 < hill.patches[4].get_height()


@pytest.mark.slow
def test_the_range_of_chance_holds_exact_data() -> None:
    rng = np.random.default_rng(2)
    inside = []
    for _ in range(40):
        ax, _ = plots.calibration(rng.normal(size=200), np.zeros(200), np.ones(200), levels=[0.3])
        outline = ax.collections[0].get_paths()[0].vertices[:, 1]
        inside.append(outline.min() <= ax.lines[1].get_ydata()[0] <= outline.max())
        pyplot.close(ax.figure)
    assert np.mean(inside) >= 0.85  # 0.95 is expected


def test_prediction_against_truth_has_a_bar_of_one_standard_deviation() -> None:
    y = pd.Series([1.0, 3.0, 2.0], name="rent_$")
    ax = plots.prediction(y, [1.5, 2.5, 2.0], [0.1, 0.2, 0.4])
    points, _, (bars,) = ax.containers[0]
    np.testing.assert_array_equal(points.get_xydata(), [[1.0, 1.5], [3.0, 2.5], [2.0, 2.0]])
    ends = [segment[:, 1].tolist() for segment in bars.get_segments()]
    np.testing.assert_allclose(ends, [[1.4, 1.6], [2.3, 2.7], [1.6, 2.4]])
    assert ax.get_xlabel() == r"observed rent_\$"


def test_a_distribution_is_drawn_as_its_means_and_standard_deviations() -> None:
    ax = plots.prediction([1.0, 3.0], stats.t(5.0, [1.5, 2.5], [0.1, 0.2]))
    (bars,) = ax.containers[0][2]
    std = np.array([0.1, 0.2]) * np.sqrt(5 / 3)
    np.testing.assert_allclose([np.ptp(segment[:, 1]) / 2 for segment in bars.get_segments()], std)
    with pytest.raises(InputError, match="got list alone"):
        plots.prediction([1.0], [1.0])


def test_of_many_predictions_a_sample_is_drawn_and_said() -> None:
    y = np.arange(1000.0)
    ax = plots.prediction(y, y + 0.5, np.ones(1000))
    points = ax.containers[0][0]
    assert len(points.get_xdata()) == 300
    np.testing.assert_array_equal(points.get_ydata() - points.get_xdata(), 0.5)
    assert ax.get_title() == "300 of 1,000 rows"


BAD: list[tuple[Any, str]] = [
    (([], [], []), "must have at least one row"),
    (([1.0, np.nan], [1.0, 1.0], [1.0, 1.0]), "y must be finite"),
    (([1.0, 2.0], [1.0], [1.0, 1.0]), r"got the shapes y \(2,\), mean \(1,\), std \(2,\)"),
    (([[1.0], [2.0]], [1.0, 2.0], [1.0, 1.0]), r"y \(2, 1\)"),
    (([1.0, 2.0], [1.0, 2.0], [1.0, 0.0]), "std must be positive; got 0 in row 1"),
    ((["a", "b"], [1.0, 2.0], [1.0, 1.0]), "y must be an array of real numbers"),
]


@pytest.mark.parametrize("draw", [plots.calibration, plots.prediction])
@pytest.mark.parametrize(("given", "told"), BAD, ids=range(len(BAD)))
def test_bad_predictions_are_refused(draw: Any, given: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        draw(*given)


@pytest.mark.parametrize("options", [{"levels": [0.0, 0.5]}, {"levels": [95]}, {"levels": []}, {"bins": 0}])
def test_bad_options_are_refused(options: Any) -> None:
    with pytest.raises(InputError, match=f"{next(iter(options))} must be"):
        plots.calibration([1.0], [1.0], [1.0], **options)


def test_calibration_is_of_one_target() -> None:
    with pytest.raises(InputError, match="of one target"):
        plots.calibration(np.zeros((5, 2)), norm(np.zeros((5, 2)), 1.0))


@pytest.mark.parametrize("bins", [0, 2.5])
def test_a_number_of_bins_is_a_positive_integer(bins: Any) -> None:
    with pytest.raises(InputError, match=f"bins must be a positive integer; got {bins}"):
        plots.calibration(np.zeros(9), np.zeros(9), np.ones(9), bins=bins)


@pytest.mark.parametrize("plot", [plots.calibration, plots.prediction])
def test_a_distribution_takes_no_standard_deviation_beside_it(plot: Any) -> None:
    with pytest.raises(InputError, match="mean is a distribution, which has its own standard deviation"):
        plot(np.zeros(9), norm(np.zeros(9), np.ones(9)), np.ones(9))
