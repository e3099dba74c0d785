"""Importance, allocation, and divergences over size."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from sklearn.compose import TransformedTargetRegressor
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    OptimizedMaclaurinFeatures,
    RandomFourierFeatures,
    TaylorFeatures,
    plots,
)
from lmgp.cli import main
from lmgp.errors import InputError
from lmgp.selection.record import RecipeTrial, Selection


def rows(n: int = 40, d: int = 3) -> tuple[Any, Any]:
    X = np.random.default_rng(0).normal(size=(n, d)) * np.arange(1.0, d + 1.0)
    return X, np.sin(X[:, 0])


def bars(ax: Axes) -> list[float]:
    return [bar.get_width() for bar in ax.patches]


def names(ax: Axes) -> list[str]:
    return [label.get_text() for label in ax.get_yticklabels()]


# ----------------------------------------------------------------------------------------------------------- importance


def test_importance_is_drawn_with_its_standard_error() -> None:
    X, y = rows()
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = ExactGPRegressor(GaussianKernel([2.0, 4.0, 6.0]), noise_variance=0.1).fit(frame, y + X[:, 2])
    order = np.argsort(model.importance_)
    ax = plots.importance(model)
    np.testing.assert_allclose(bars(ax), model.importance_[order])
    assert names(ax) == ["b", "a", "c"]
    (lines,) = ax.collections
    half = [np.ptp(segment[:, 0]) / 2.0 for segment in lines.get_segments()]
    np.testing.assert_allclose(half, model.importance_error_[order])
    few = plots.importance(model, most=2)
    np.testing.assert_allclose(bars(few), model.importance_[order][1:])
    assert few.get_title() == "2 of 3 columns"


def test_importance_of_a_pipeline_is_that_of_its_last_step() -> None:
    X, y = rows()
    pipeline = make_pipeline(StandardScaler(), ExactGPRegressor(GaussianKernel(2.0), noise_variance=0.1)).fit(X, y)
    np.testing.assert_allclose(bars(plots.importance(pipeline)), np.sort(pipeline[-1].importance_))


def test_importance_of_a_model_of_a_transformed_target_is_that_of_its_regressor() -> None:
    X, y = rows()
    inner = ExactGPRegressor(GaussianKernel(2.0), noise_variance=0.1)
    model = TransformedTargetRegressor(inner, func=np.exp, inverse_func=np.log).fit(X, y)
    np.testing.assert_allclose(bars(plots.importance(model)), np.sort(model.regressor_.importance_))


def test_importance_of_a_pipeline_within_a_transformed_target_is_that_of_its_last_step() -> None:
    X, y = rows()
    steps = make_pipeline(StandardScaler(), ExactGPRegressor(GaussianKernel(2.0), noise_variance=0.1))
    model = TransformedTargetRegressor(steps, func=np.exp, inverse_func=np.log).fit(X, y)
    np.testing.assert_allclose(bars(plots.importance(model)), np.sort(model.regressor_[-1].importance_))


def test_what_has_no_importance_is_refused() -> None:
    X, y = rows()
    given = {"kernel": GaussianKernel(), "noise_variance": 0.1}
    with pytest.raises(InputError, match=r"knows its training rows, such as GPRegressor.*10 training rows at least"):
        plots.importance(ExactGPRegressor(**given).fit(X[:9], y[:9]))
    with pytest.raises(InputError, match="knows its training rows, such as GPRegressor"):
        plots.importance(LinearRegression().fit(X, y))
    with pytest.raises(InputError, match="of one target, y of shape"):
        plots.importance(ExactGPRegressor(**given).fit(X, np.column_stack((y, y))))
    with pytest.raises(InputError, match="most must be at least 1"):
        plots.importance(ExactGPRegressor(**given).fit(X, y), most=0)


# ----------------------------------------------------------------------------------------------------------- allocation


def test_allocation_counts_the_columns_of_each_degree() -> None:
    X, y = rows()
    model = FeaturizedGPRegressor(TaylorFeatures(30), kernel=GaussianKernel(4.0), noise_variance=0.1).fit(X, y)
    counted = Counter(
        sum(map(int, name[len("taylor[") : -1].split(","))) for name in model.features_.get_feature_names_out()
    )
    ax = plots.allocation(model)
    assert [bar.get_height() for bar in ax.patches] == [counted[degree] for degree in sorted(counted)]
    assert ax.get_title() == f"{model.features_.n_features_out_} columns"


def test_components_of_a_kernel_stand_on_each_other() -> None:
    X, _ = rows()
    kernel = GaussianKernel(2.0) + GaussianKernel(9.0)
    features = OptimizedMaclaurinFeatures(64, kernel=kernel, random_state=0).fit(X)
    ax = plots.allocation(features)
    tops = np.zeros(max(map(len, ax.containers)))
    for bars_of, part in zip(ax.containers, features.parts, strict=True):
        heights = np.array([bar.get_height() for bar in bars_of])
        np.testing.assert_array_equal(heights[: len(part.degree_counts_)], part.degree_counts_)
        np.testing.assert_array_equal([bar.get_y() for bar in bars_of], tops)
        tops += heights
    assert [text.get_text() for text in ax.texts] == [f"{int(top)}" for top in tops]
    assert tops.sum() == features.n_features_out_


def test_maps_without_degrees_are_refused() -> None:
    X, y = rows()
    model = FeaturizedGPRegressor(RandomFourierFeatures(8, random_state=0), kernel=GaussianKernel(), noise_variance=0.1)
    with pytest.raises(InputError, match="got FeaturizedGPRegressor on RandomFourierFeatures"):
        plots.allocation(model.fit(X, y))
    with pytest.raises(InputError, match="got ExactGPRegressor"):
        plots.allocation(ExactGPRegressor(GaussianKernel(), noise_variance=0.1).fit(X, y))


# -------------------------------------------------------------------------------------------------------- KL over size


def trial(method: str, size: int, kl: float, threshold: float | None = None, **others: Any) -> RecipeTrial:
    return RecipeTrial(method, size, threshold, "fitc", kl, 0.0, others.pop("n_probes", 32), 1.0, 1.0, **others)


TRIALS = (
    trial("orf", 64, 0.5),
    trial("local_taylor", 66, 1e-4, 2.0, chosen=True),
    trial("orf", 32, 2.0),
    trial("local_taylor", 66, 0.0, 1.0),
    trial("exact", 0, 0.0, n_probes=0),
)


def test_trials_of_a_selection_are_lines_with_the_choice_as_a_ring() -> None:
    selection = Selection(TRIALS, 1e-3, 100, 512, 1.0)
    ax = plots.kl_over_size(selection)
    lines = {container.get_label(): container[0].get_xydata().tolist() for container in ax.containers}
    assert lines == {
        "orthogonal Fourier": [[32.0, 2.0], [64.0, 0.5]],
        "local Taylor, T = 2": [[66.0, 1e-4]],
        "local Taylor, T = 1": [[66.0, 1e-12]],  # the axis is logarithmic
    }
    others = {line.get_label(): line.get_xydata().tolist() for line in ax.lines}
    assert others["chosen"] == [[66.0, 1e-4]]
    assert [y for _, y in others["tolerance"]] == [1e-3, 1e-3]


def test_lines_differ_without_colour() -> None:
    given = {f"method {j}": ([8, 16], [1.0, 0.1 * (j + 1)]) for j in range(12)}
    ax = plots.kl_over_size(given)
    looks = [(line[0].get_marker(), line[0].get_linestyle()) for line in ax.containers]
    assert len(set(looks)) == 12


def test_several_seeds_are_a_mean_with_their_range() -> None:
    ax = plots.kl_over_size({"made": ([16, 8], [[1.0, 3.0], [5.0, 5.0]])})
    line, _, (bars_of,) = ax.containers[0]
    np.testing.assert_array_equal(line.get_xydata(), [[8.0, 5.0], [16.0, 2.0]])
    np.testing.assert_allclose([segment[:, 1] for segment in bars_of.get_segments()], [[5.0, 5.0], [1.0, 3.0]])


def test_results_of_a_comparison_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    options = "--methods orf local_taylor --n-features 4 8 --thresholds 1 --seeds 2 --max-train-rows 40 --quiet"
    assert main(["compare", "sinc", *options.split()]) == 0
    path = tmp_path / "results" / "sinc" / "results.csv"
    ax = plots.kl_over_size(path)
    found = {container.get_label(): container[0].get_ydata().tolist() for container in ax.containers}
    written = pd.read_csv(path)
    for method, label in (("orf", "orthogonal Fourier"), ("local_taylor", "local Taylor, T = 1")):
        means = written[written.method == method].groupby("n_features").kl.mean()
        np.testing.assert_allclose(found[label], means, rtol=1e-12)
    assert set(written.method) == {"exact", "orf", "local_taylor"}
    path.write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"results\.csv is not a results\.csv of lmgp compare"):
        plots.kl_over_size(path)


def test_what_has_no_divergences_is_refused(tmp_path: Path) -> None:
    X, y = rows()
    few = GPRegressor(kernel=GaussianKernel(), noise_variance=0.1).fit(X, y)
    with pytest.raises(InputError, match="nothing with a size was measured"):
        plots.kl_over_size(few)
    with pytest.raises(InputError, match="got ExactGPRegressor"):
        plots.kl_over_size(ExactGPRegressor())
    with pytest.raises(InputError, match="There is no file"):
        plots.kl_over_size(tmp_path / "results.csv")
    for sizes, values in (([1], [1, 2]), ([], []), ([0], [1.0]), ([1], [-1.0]), ([1], [np.nan])):
        with pytest.raises(InputError, match="'made' needs"):
            plots.kl_over_size({"made": (sizes, values)})
