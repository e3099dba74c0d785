"""The cells of Figure 4 on made rows, against made numbers in the place of the published ones."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lmgp.datasets import Dataset
from lmgp.experiments.paper import cells
from lmgp.experiments.paper.cells import settings_for
from lmgp.experiments.paper.published import Key, PublishedCell
from lmgp.experiments.paper.section import Table
from lmgp.experiments.protocol import PROTOCOLS, Settings
from lmgp.experiments.results import Row
from lmgp.experiments.runner import Comparison
from lmgp.methods import EXACT, METHODS

PAPER, CONVERGED = PROTOCOLS["paper"], PROTOCOLS["converged"]
LOCAL = "local_maclaurin_rademacher"
SIZES = (32, 64, 128, 256, 512, 1024)
ALL_THRESHOLDS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)


def row(
    method: str, n_features: int | None, threshold: float | None, kl: float | None, seed: int = 0, **fields: Any
) -> Row:
    values: dict[str, Any] = {
        "settings": "mark", "dataset": "made", "protocol": "paper", "n_train": 40, "n_test": 20, "n_inputs": 2,
        "rmse": 0.5, "nlpd": 1.5, "coverage": 0.9, "crps": 0.25, "n_features_out": n_features, "reverse_kl": 0.75,
        "n_centroids": 3 if threshold else None, "kl_sum": None if kl is None else 20 * kl,
    }  # fmt: skip
    return Row(**values | fields, seed=seed, method=method, n_features=n_features, threshold=threshold, kl=kl)


def twice(rows: Sequence[Row]) -> list[Row]:
    """Two equal seeds: one is not enough for a mark."""
    return [replace(one, seed=seed) for seed in (0, 1) for one in rows]


Compare = Callable[..., Comparison]


@pytest.fixture
def compare(make: Callable[..., Dataset]) -> Compare:
    def made(rows: Sequence[Row], name: str = "yacht", settings: Settings | None = None) -> Comparison:
        exact = row(EXACT, None, None, None, lengthscale=(0.8,))
        chosen = settings or Settings(PAPER, n_features=(32, 128), thresholds=(1.0, 2.0))
        return Comparison(replace(make(d=2), name=name), chosen, [exact, *rows], {})

    return made


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[Key, PublishedCell]:
    """The published cells, of whatever data set; to be filled."""
    numbers: dict[Key, PublishedCell] = {}
    monkeypatch.setattr(cells, "published", lambda name: numbers)
    return numbers


def number(
    kl: float = 1.0, sd: float = 0.0, runs: int = 10, n_test: int = 64, n_centroids: float | None = 4.5
) -> PublishedCell:
    return PublishedCell(n_centroids, runs, n_test, kl * n_test, sd * n_test, rmse=0.4, rmse_sd=0.1)


def column(table: Table, name: str) -> list[Any]:
    at = table.columns.index(name)
    return [of_row[at] for of_row in table.rows]


# ------------------------------------------------------------------------------------------------------- what is run


@pytest.mark.parametrize(
    ("dataset", "effort", "thresholds", "n_features", "seeds"),
    [
        ("yacht", "quick", (1.0, 2.0, 16.0), (32, 128), 1),
        ("kin8nm", "quick", (1.0, 2.0, 16.0), (32, 128), 1),
        ("uk_flats_2020-12", "quick", (1.0, 2.0, 16.0), (32, 128), 1),
        ("yacht", "default", ALL_THRESHOLDS, SIZES, 10),
        ("kin8nm", "default", ALL_THRESHOLDS[3:], SIZES, 2),
        ("uk_flats", "default", ALL_THRESHOLDS[3:], (8, 16, *SIZES), 2),
        ("uk_flats_2020-12", "default", ALL_THRESHOLDS[3:], (8, 16, *SIZES), 2),
        ("yacht", "full", ALL_THRESHOLDS, SIZES, 10),
        ("kin8nm", "full", ALL_THRESHOLDS, SIZES, 10),
        ("uk_flats_2020-12", "full", ALL_THRESHOLDS, (8, 16, *SIZES), 10),
    ],
)
def test_an_effort_says_what_is_run(
    dataset: str, effort: Any, thresholds: tuple[float, ...], n_features: tuple[int, ...], seeds: int
) -> None:
    settings = settings_for(dataset, PAPER, effort, seeds=None, clusters=True, features=True)
    assert (settings.thresholds, settings.n_features, settings.seeds) == (thresholds, n_features, seeds)
    assert settings.methods == (
        "rff", "sorf", "global_maclaurin_rademacher", "global_maclaurin_tensor_srht", "local_maclaurin_rademacher",
        "local_maclaurin_tensor_srht", "orf", "global_taylor", "local_taylor",
    )  # fmt: skip
    assert (settings.max_train_rows, settings.max_test_rows, settings.ard) == (10_000, 10_000, False)
    assert settings_for(dataset, PAPER, effort, seeds=3, clusters=True, features=True) == replace(settings, seeds=3)
    converged = settings_for(dataset, CONVERGED, effort, seeds=None, clusters=True, features=True)
    assert converged == replace(settings, protocol=CONVERGED, max_test_rows=2_000)


@pytest.mark.parametrize("dataset", ["yacht", "kin8nm", "uk_flats"])
@pytest.mark.parametrize(("effort", "size"), [("quick", 128), ("default", 512), ("full", 512)])
def test_one_figure_needs_a_part_of_the_cells(dataset: str, effort: Any, size: int) -> None:
    whole, clusters, features = (
        settings_for(dataset, PAPER, effort, seeds=None, clusters=of[0], features=of[1])
        for of in ((True, True), (True, False), (False, True))
    )
    assert clusters == replace(whole, n_features=(size,))
    assert features == replace(whole, thresholds=(2.0,))
    for part in (clusters, features):
        assert set(part.cells(0)) < set(whole.cells(0))


# ---------------------------------------------------------------------------------------------------- ratios and marks


def test_the_ratio_is_of_the_divergence_per_row(compare: Compare, known: dict[Key, PublishedCell]) -> None:
    """With other numbers of test rows, and seeds averaged."""
    known[LOCAL, 32, 1.0] = number(kl=0.5, n_test=100)
    known["rff", 32, None] = number(kl=0.25, n_test=20, n_centroids=None)
    comparison = compare(
        [
            row(LOCAL, 32, 1.0, 0.25, n_centroids=3, rmse=0.5),
            row(LOCAL, 32, 1.0, 0.5, seed=1, n_centroids=4, rmse=0.7),
            row("rff", 32, None, 0.5),
            row("orf", 32, None, 0.5),
        ]
    )
    table = cells.cells([comparison])
    assert table.name == "figure-4-cells"
    assert table.folded
    assert column(table, "model") == [METHODS[name].label for name in ("rff", "orf", LOCAL)]
    assert column(table, "KL/row") == [0.5, 0.5, 0.375]
    assert column(table, "KL sum") == [10.0, 10.0, 7.5]
    assert column(table, "KL/row published") == pytest.approx([0.25, None, 0.5])
    # A sum over another number of rows does not compare; only what was published for rff is over 20.
    assert column(table, "KL sum published") == [5.0, None, None]
    assert column(table, "KL ratio") == pytest.approx([2.0, None, 0.75])
    assert column(table, "s.d.") == [None, None, pytest.approx(np.std([0.25, 0.5], ddof=1))]
    assert column(table, "clusters") == [None, None, 3.5]
    assert column(table, "clusters published") == [None, None, 4.5]
    assert column(table, "RMSE") == pytest.approx([0.5, 0.5, 0.6])
    assert column(table, "RMSE ratio") == pytest.approx([1.25, None, 1.5])
    assert column(table, "seeds") == [1, 1, 2]
    assert column(table, "threshold") == [None, None, 1.0]
    assert all(len(of_row) == len(table.columns) for of_row in table.rows)


@pytest.mark.parametrize(
    ("dataset", "method", "tolerance"),
    [
        ("yacht", "rff", 2.0),
        ("yacht", "sorf", 1.3),
        ("kin8nm", "global_maclaurin_rademacher", 2.0),
        ("uk_flats", "sorf", 1.3),
        ("uk_flats", "rff", 2.0),
        ("uk_flats_2020-12", "rff", 1.0),
        ("uk_flats_2020-12", "sorf", 1.0),
    ],
)
def test_a_ratio_at_the_tolerance_passes_and_one_above_is_marked(
    dataset: str, method: str, tolerance: float, compare: Compare, known: dict[Key, PublishedCell]
) -> None:
    above = float(np.nextafter(tolerance, 9.0))
    known.update({(method, size, None): number(n_centroids=None) for size in (32, 128)})
    comparison = compare(twice([row(method, 32, None, tolerance), row(method, 128, None, above)]), dataset)
    tables = [cells.cells([comparison]), cells.over_features([comparison])]
    for table in tables:
        assert column(table, "KL ratio") == [tolerance, above]
        assert table.marked == {1}
        assert column(table, "remark")[0] == ""
        assert column(table, "remark")[1] != ""


def test_marks_are_of_the_right_rows_of_several_sets(compare: Compare, known: dict[Key, PublishedCell]) -> None:
    known.update({(method, 32, None): number(n_centroids=None) for method in ("rff", "sorf")})
    comparisons = [
        compare(twice([row("sorf", 32, None, 1.5), row("orf", 32, None, 9.0), row("rff", 32, None, 1.5)]), name)
        for name in ("kin8nm", "uk_flats_2020-12")
    ]
    table = cells.cells(comparisons)
    labels = [(of_row[0], of_row[1]) for number, of_row in enumerate(table.rows) if number in table.marked]
    sorf, rff = METHODS["sorf"].label, METHODS["rff"].label
    # What has no published number has no mark.
    assert sorted(labels) == [("kin8nm", sorf), ("uk_flats_2020-12", rff), ("uk_flats_2020-12", sorf)]


def test_one_seed_is_not_enough_to_tell(compare: Compare, known: dict[Key, PublishedCell]) -> None:
    known.update({("rff", size, None): number(n_centroids=None) for size in (32, 128)})
    comparison = compare([row("rff", 32, None, 9.0), row("rff", 128, None, 1.0)])
    table = cells.cells([comparison])
    assert table.marked == frozenset()
    assert column(table, "remark") == ["one seed", ""]
    assert cells.remarks([comparison])[0].startswith("one seed: it is not enough to tell")
    assert cells.cells([compare(twice(comparison.rows[1:]))]).marked == {0}


REMARKS = [
    # data set, method, size, threshold of a localized method, ratio, remark
    ("yacht", LOCAL, 256, 2.0, 1.0, ""),
    ("yacht", LOCAL, 256, 2.0, 0.5, ""),
    ("yacht", LOCAL, 512, 4.0, 0.49, "degrees above 10"),
    ("yacht", LOCAL, 512, 2.0, 0.49, "not explained"),
    ("yacht", LOCAL, 256, 4.0, 0.49, "not explained"),
    ("yacht", LOCAL, 128, 2.0, 0.49, "not explained"),
    ("yacht", "global_maclaurin_rademacher", 512, 2.0, 0.49, "not explained"),
    ("kin8nm", LOCAL, 512, 4.0, 0.49, "not explained"),
    ("yacht", LOCAL, 256, 2.0, 2.1, "not explained"),
    ("yacht", "rff", 32, 2.0, 2.1, "not explained"),
    ("yacht", "sorf", 32, 2.0, 1.2, ""),
    ("yacht", "sorf", 32, 2.0, 1.4, "not explained"),
    ("uk_flats", "sorf", 32, 2.0, 0.1, "not explained"),
    ("uk_flats_2020-12", "sorf", 32, 2.0, 0.1, "padding"),
    ("uk_flats_2020-12", "sorf", 32, 2.0, 1.1, "not explained"),
    ("uk_flats_2020-12", LOCAL, 256, 2.0, 0.4, "another month; float32"),
    ("uk_flats_2020-12", LOCAL, 256, 2.0, 0.6, ""),
    ("uk_flats_2020-12", LOCAL, 256, 2.0, 1.1, "not explained"),
]


@pytest.mark.parametrize(("dataset", "method", "size", "threshold", "ratio", "remark"), REMARKS)
def test_a_ratio_far_from_one_has_a_remark_that_is_explained(
    dataset: str,
    method: str,
    size: int,
    threshold: float | None,
    ratio: float,
    remark: str,
    compare: Compare,
    known: dict[Key, PublishedCell],
) -> None:
    threshold = threshold if METHODS[method].localized else None
    known[method, size, threshold] = number()
    comparison = compare(twice([row(method, size, threshold, ratio)]), dataset)
    assert column(cells.cells([comparison]), "remark") == [remark]
    explained = cells.remarks([comparison])
    assert [text.partition(":")[0] for text in explained] == ([remark] if remark else [])


@pytest.mark.parametrize(
    ("ratio", "sd", "remark"),
    [(2.5, 1.42, "chance"), (2.5, 1.41, "not explained"), (0.25, 0.708, "chance"), (0.25, 0.706, "not explained")],
)
def test_chance_is_three_standard_errors_of_both_means(
    ratio: float, sd: float, remark: str, compare: Compare, known: dict[Key, PublishedCell]
) -> None:
    """Of 40 published runs and 10 seeds: 3 √(1/40 + 1/10) sd is |ratio − 1| at sd = √2 |ratio − 1| · 2/3."""
    known["rff", 32, None] = number(sd=sd, runs=40, n_centroids=None)
    comparison = compare([row("rff", 32, None, ratio, seed) for seed in range(10)])
    assert column(cells.cells([comparison]), "remark") == [remark]


def test_every_remark_is_said_once_whatever_the_number_of_cells(
    compare: Compare, known: dict[Key, PublishedCell]
) -> None:
    known.update({(method, 32, None): number() for method in ("rff", "sorf", "orf")})
    rows = twice([row(method, 32, None, 0.1) for method in ("rff", "sorf", "orf")])
    texts = cells.remarks([compare(rows, "uk_flats_2020-12"), compare(rows, "kin8nm")])
    assert [text.partition(":")[0] for text in texts] == ["padding", "another month; float32", "not explained"]


def test_other_hyper_parameters_do_not_compare(compare: Compare, known: dict[Key, PublishedCell]) -> None:
    known["rff", 32, None] = number(kl=0.01)
    settings = Settings(CONVERGED, n_features=(32,), thresholds=(2.0,))
    comparison = compare([row("rff", 32, None, 5.0), row(LOCAL, 32, 2.0, 5.0)], settings=settings)
    for table in (cells.cells([comparison]), cells.over_clusters([comparison]), cells.over_features([comparison])):
        for name in table.columns:
            if "published" in name or "ratio" in name:
                assert column(table, name) == [None, None]
        assert column(table, "remark") == ["", ""]
        assert column(table, "KL/row") == [5.0, 5.0]
        assert table.marked == frozenset()
    assert cells.remarks([comparison]) == []


# ------------------------------------------------------------------------------------------------------ parts and order


def test_tables_under_the_figures_have_what_is_drawn(compare: Compare, known: dict[Key, PublishedCell]) -> None:
    grid = [(LOCAL, size, threshold) for size in (32, 512, 1024) for threshold in (1.0, 2.0)]
    grid += [("rff", size, None) for size in (32, 512, 1024)]
    rows = [row(*cell, kl=float(number)) for number, cell in enumerate(grid)]
    comparison = compare(rows, settings=Settings(PAPER, n_features=(32, 512, 1024), thresholds=(1.0, 2.0)))
    sizes, thresholds = (column(cells.over_clusters([comparison]), name) for name in ("D", "threshold"))
    assert list(zip(sizes, thresholds, strict=True)) == [(512, None), (512, 1.0), (512, 2.0)]
    features = cells.over_features([comparison])
    assert column(features, "D") == [32, 512, 1024] * 2
    assert column(features, "clusters") == [None] * 3 + [3.0] * 3
    assert column(features, "KL/row") == [6.0, 7.0, 8.0, 1.0, 3.0, 5.0]
    every = cells.cells([comparison])
    assert len(every.rows) == len(grid)
    assert column(every, "threshold") == [None] * 3 + [1.0] * 3 + [2.0] * 3
    assert column(every, "D") == [32, 512, 1024] * 3
