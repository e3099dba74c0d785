"""The panels of Figure 4 and the table of lengthscales, from made rows."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from scipy.spatial.distance import pdist

from lmgp.datasets import Dataset
from lmgp.experiments import runner
from lmgp.experiments.paper import cells, grid
from lmgp.experiments.paper.cells import EXTRA_METHODS, PAPER_METHODS
from lmgp.experiments.paper.published import Key, PublishedCell
from lmgp.experiments.paper.section import Section
from lmgp.experiments.protocol import PROTOCOLS, Cell, PublishedSettings, Settings
from lmgp.experiments.results import Row
from lmgp.experiments.runner import Comparison
from lmgp.methods import EXACT, METHODS

PAPER = PROTOCOLS["paper"]
SIZES, THRESHOLDS, SEEDS = (32, 128, 1024), (0.5, 2.0, 8.0), 2
CLUSTERS = {0.5: 40, 2.0: 7, 8.0: 1}
LABEL = {name: METHODS[name].label for name in METHODS}
Make = Callable[..., Dataset]


def values(cell: Cell) -> dict[str, Any]:
    """Numbers that differ between all cells; the models beyond the paper are the nearest to the exact GP."""
    rng = np.random.default_rng([cell.seed, list(METHODS).index(cell.method), cell.n_features or 0])
    kl = float(np.exp(rng.uniform(-5, 2))) * (1.0 + (cell.threshold or 0.0) / 8)
    kl *= 1e-3 if cell.method in EXTRA_METHODS else 1.0
    counted = CLUSTERS[cell.threshold] + cell.seed if cell.threshold else None
    numbers = {"kl": kl, "kl_sum": 20 * kl, "reverse_kl": kl, "n_features_out": cell.n_features, "n_centroids": counted}
    return numbers | {"rmse": 0.3 + 0.1 * rng.random()}


@pytest.fixture
def compare(make: Make) -> Callable[..., Comparison]:
    def made(name: str = "yacht", *, without: tuple[str, ...] = (), **changes: Any) -> Comparison:
        known = {name: PublishedSettings(0.8, 1.5, 0.02, n_train=40)}
        entry = make(d=2).entry
        dataset = replace(make(d=2), name=name, entry=entry and replace(entry, name=name))
        settings = Settings(
            replace(PAPER, published=known),
            methods=(*PAPER_METHODS, *EXTRA_METHODS),
            n_features=SIZES,
            thresholds=THRESHOLDS,
            seeds=SEEDS,
        )
        settings = replace(settings, **changes)
        shared: dict[str, Any] = {
            "settings": "mark", "dataset": name, "protocol": "paper", "n_train": 40, "n_test": 20, "n_inputs": 2,
            "nlpd": 1.5, "coverage": 0.9, "crps": 0.25,
        }  # fmt: skip
        rows = []
        for seed in range(settings.seeds):
            rows.append(Row(**shared, **Cell(seed, EXACT)._asdict(), rmse=0.25 + seed / 100, lengthscale=(0.8,)))
            wanted = [cell for cell in settings.cells(seed) if cell.method not in (EXACT, *without)]
            rows.extend(Row(**shared | cell._asdict() | values(cell)) for cell in wanted)
        return Comparison(dataset, settings, rows, {})

    return made


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[Key, PublishedCell]]:
    """Published cells of two models, of whatever data set."""
    numbers: dict[Key, PublishedCell] = {}
    for size in SIZES:
        numbers["rff", size, None] = PublishedCell(None, 80, 50, 3.0 * size, 1.0, rmse=0.5 + size / 1e4, rmse_sd=0.1)
        for threshold in THRESHOLDS:
            key = "local_maclaurin_rademacher", size, threshold
            numbers[key] = PublishedCell(
                CLUSTERS[threshold] + 0.7, 10, 50, 2.0 * size + threshold, 1.0, 0.4 + size / 1e4, 0.1
            )
    monkeypatch.setattr(cells, "published", lambda name: numbers)
    return numbers


def average(comparison: Comparison, name: str, *key: Any) -> float:
    return float(np.mean([getattr(row, name) for row in comparison.rows if row.cell[1:] == key]))


def line(axes: Axes, label: str) -> Line2D:
    (found,) = (one for one in axes.get_lines() if one.get_label() == label)
    return found


def hollow(axes: Axes) -> list[tuple[list[float], list[float]]]:
    """What is drawn by hollow markers."""
    drawn = [one for one in axes.get_lines() if one.get_markerfacecolor() == "none" and len(one.get_xdata())]
    return [(np.asarray(one.get_xdata()).tolist(), np.asarray(one.get_ydata()).tolist()) for one in drawn]


def drawn(section: Section) -> list[Axes]:
    assert section.figure is not None
    section.figure.canvas.draw()
    return section.figure.axes


# -------------------------------------------------------------------------------------------------------- over clusters


def test_the_panels_over_clusters_draw_the_divergences_of_one_size(compare: Callable[..., Comparison]) -> None:
    comparisons = [compare("yacht"), compare("kin8nm")]
    section = grid.clusters_section(comparisons)
    assert section.name == "figure-4-clusters"
    panels = drawn(section)
    assert len(panels) == 2
    for axes, comparison in zip(panels, comparisons, strict=True):
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert axes.get_xlabel() == "clusters, at 128 features"
        assert axes.get_title() == f"{comparison.dataset.name}: n = 40, d = 2, 2 seed(s)"
        counts = [CLUSTERS[threshold] + 0.5 for threshold in THRESHOLDS]
        for method in (*PAPER_METHODS, *EXTRA_METHODS):
            x, y = line(axes, LABEL[method]).get_data()
            if METHODS[method].localized:
                np.testing.assert_allclose(x, counts)
                np.testing.assert_allclose(y, [average(comparison, "kl", method, 128, at) for at in THRESHOLDS])
            else:  # the same whatever the clusters
                np.testing.assert_allclose(x, [min(counts), max(counts)])
                np.testing.assert_allclose(y, [average(comparison, "kl", method, 128, None)] * 2)
        assert [label.get_text() for label in axes.get_xticklabels()] == ["1.5", "7.5", "40.5"]
        ((x, y),) = hollow(axes)
        np.testing.assert_allclose(x, [40.7, 7.7, 1.7])
        np.testing.assert_allclose(y, [(2.0 * 128 + threshold) / 50 for threshold in THRESHOLDS])


def test_the_largest_size_of_the_figure_is_512_where_there_is_one(compare: Callable[..., Comparison]) -> None:
    (axes,) = drawn(grid.clusters_section([compare(n_features=(64, 512, 1024))]))
    assert axes.get_xlabel() == "clusters, at 512 features"


def test_the_text_names_the_nearest_model(compare: Callable[..., Comparison]) -> None:
    comparison = compare()
    of_size = [row.cell[1:] for row in comparison.rows if row.n_features == 128 and row.method in PAPER_METHODS]
    best = min(of_size, key=lambda key: average(comparison, "kl", *key))
    (note,) = (text for text in grid.clusters_section([comparison]).text if text.startswith("yacht:"))
    assert f"at 128 features the nearest to the exact GP of the paper's models is {LABEL[best[0]]}" in note
    assert f"KL {average(comparison, 'kl', *best):.3g} nats per row." in note
    ends = [average(comparison, "kl", "local_maclaurin_tensor_srht", 128, threshold) for threshold in (8.0, 0.5)]
    assert f"From 1.5 to 40.5 cluster(s) the KL of {LABEL['local_maclaurin_tensor_srht']} goes" in note
    assert note.endswith(f"from {ends[0]:.3g} to {ends[1]:.3g}.")


def test_lengthscales_stand_beside_the_median_distances(compare: Callable[..., Comparison]) -> None:
    comparisons = [compare("yacht"), compare("uk_flats")]
    table = grid.clusters_section(comparisons).tables[0]
    assert table.name == "figure-4-lengthscales"
    for row, comparison, quoted in zip(table.rows, comparisons, (3.28, None), strict=True):
        X = runner.prepare(comparison.dataset, comparison.settings, 0).X_train
        scaled = (X - X.mean(axis=0)) / X.std(axis=0)
        ours = np.median(pdist(scaled))
        wanted = (comparison.dataset.name, 0.8, np.median(pdist(X)), ours, quoted, ours / quoted if quoted else None)
        assert row[0] == wanted[0]
        assert row[1:] == pytest.approx(wanted[1:])


# -------------------------------------------------------------------------------------------------------- over features


def test_the_panels_over_features_draw_the_errors_at_one_threshold(compare: Callable[..., Comparison]) -> None:
    comparisons = [compare("yacht"), compare("kin8nm")]
    section = grid.features_section(comparisons)
    assert section.name == "figure-4-features"
    for axes, comparison in zip(drawn(section), comparisons, strict=True):
        assert axes.get_xscale() == "log"
        assert axes.get_xlabel() == "features D, with 7.5 cluster(s)"
        assert axes.get_ylabel() == "RMSE, y"
        for method in (*PAPER_METHODS, *EXTRA_METHODS):
            x, y = line(axes, LABEL[method]).get_data()
            threshold = 2.0 if METHODS[method].localized else None
            np.testing.assert_array_equal(x, SIZES)
            np.testing.assert_allclose(y, [average(comparison, "rmse", method, size, threshold) for size in SIZES])
        assert [label.get_text() for label in axes.get_xticklabels()] == ["32", "128", "1024"]
        rff, local = hollow(axes)
        assert rff == (list(SIZES), pytest.approx([0.5 + size / 1e4 for size in SIZES]))
        assert local == (list(SIZES), pytest.approx([0.4 + size / 1e4 for size in SIZES]))
        levels = [np.asarray(one.get_ydata()).tolist() for one in axes.get_lines() if len(one.get_xdata()) == 2]
        assert [0.255, 0.255] in [pytest.approx(level) for level in levels]  # the exact GP
    assert "yacht: RMSE of the exact GP 0.255." in section.text


def test_errors_far_above_the_exact_one_have_a_logarithmic_axis(compare: Callable[..., Comparison]) -> None:
    comparison = compare()
    rows = [replace(row, rmse=9.0) if row.cell == Cell(0, "rff", 32) else row for row in comparison.rows]
    (axes,) = drawn(grid.features_section([replace(comparison, rows=rows)]))
    assert axes.get_yscale() == "log"
    (axes,) = drawn(grid.features_section([comparison]))
    assert axes.get_yscale() == "linear"


# ----------------------------------------------------------------------------------------------------------------- both


@pytest.mark.parametrize("make_section", [grid.clusters_section, grid.features_section])
def test_the_table_under_a_figure_is_what_is_drawn(
    make_section: Callable[..., Section], compare: Callable[..., Comparison]
) -> None:
    comparisons = [compare("yacht"), compare("kin8nm")]
    table = make_section(comparisons).tables[-1]
    name = {grid.clusters_section: "clusters", grid.features_section: "features"}[make_section]
    assert table.name == f"figure-4-{name}"
    assert len(table.rows) == 2 * {"clusters": 6 + 3 * 3, "features": 9 * 3}[name]
    assert {"KL/row", "KL/row published", "KL ratio"} < set(table.columns)


@pytest.mark.parametrize("make_section", [grid.clusters_section, grid.features_section])
def test_the_legend_says_what_hollow_markers_are_where_there_are_any(
    make_section: Callable[..., Section], compare: Callable[..., Comparison], known: dict[Key, PublishedCell]
) -> None:
    def labels() -> list[str]:
        figure = make_section([compare()]).figure
        assert figure is not None
        return [text.get_text() for text in figure.legends[0].get_texts()]

    with_published = labels()
    assert {LABEL[method] for method in (*PAPER_METHODS, *EXTRA_METHODS)} < set(with_published)
    assert "as published (hollow)" in with_published
    known.clear()
    assert set(with_published) - set(labels()) == {"as published (hollow)"}


@pytest.mark.parametrize("make_section", [grid.clusters_section, grid.features_section])
@pytest.mark.parametrize("without", [("rff",), ("local_taylor",), ("local_maclaurin_tensor_srht", "sorf")])
def test_models_that_could_not_be_made_are_not_drawn(
    make_section: Callable[..., Section], without: tuple[str, ...], compare: Callable[..., Comparison]
) -> None:
    (axes,) = drawn(make_section([compare(without=without)]))
    for method in (*PAPER_METHODS, *EXTRA_METHODS):
        points = [point for one in axes.get_lines() if one.get_label() == LABEL[method] for point in one.get_xdata()]
        assert bool(points) == (method not in without)


@pytest.mark.parametrize("make_section", [grid.clusters_section, grid.features_section])
def test_one_threshold_or_one_cluster_can_be_drawn(
    make_section: Callable[..., Section], compare: Callable[..., Comparison]
) -> None:
    (axes,) = drawn(make_section([compare(thresholds=(2.0,), n_features=(32,), seeds=1)]))
    assert axes.get_xscale() == "log"
