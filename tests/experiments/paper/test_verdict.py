"""The verdict on made rows, against made numbers in the place of the published ones."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lmgp.datasets import Dataset
from lmgp.experiments.paper import cells, verdict
from lmgp.experiments.paper.published import Key, PublishedCell
from lmgp.experiments.paper.section import Table
from lmgp.experiments.protocol import PROTOCOLS, Settings
from lmgp.experiments.results import Row
from lmgp.experiments.runner import Comparison
from lmgp.methods import EXACT, METHODS

LOCAL = "local_maclaurin_rademacher"
Compare = Callable[..., Comparison]


def row(method: str, n_features: int | None, threshold: float | None, kl: float | None) -> Row:
    return Row(
        settings="mark", dataset="made", protocol="paper", n_train=40, n_test=20, n_inputs=2, seed=0, method=method,
        n_features=n_features, threshold=threshold, rmse=0.5, nlpd=1.5, coverage=0.9, crps=0.25, kl=kl, kl_sum=kl,
        n_centroids=3 if threshold else None,
    )  # fmt: skip


@pytest.fixture
def compare(make: Callable[..., Dataset]) -> Compare:
    def made(rows: Sequence[Row], name: str, protocol: str = "paper", seeds: int = 3) -> Comparison:
        settings = Settings(PROTOCOLS[protocol], seeds=seeds)
        return Comparison(replace(make(d=2), name=name), settings, [row(EXACT, None, None, None), *rows], {})

    return made


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[Key, PublishedCell]:
    """The published cells, of whatever data set; to be filled."""
    numbers: dict[Key, PublishedCell] = {}
    monkeypatch.setattr(cells, "published", lambda name: numbers)
    return numbers


def number() -> PublishedCell:
    return PublishedCell(4.5, 10, 64, 64.0, 0.0, rmse=0.4, rmse_sd=0.1)


def column(table: Table, name: str) -> list[Any]:
    at = table.columns.index(name)
    return [of_row[at] for of_row in table.rows]


@pytest.mark.parametrize(
    ("ratios", "seeds", "wanted"),
    [
        ({"rff": 1.1, LOCAL: 1.1}, 2, "every model is within the tolerance; the median ratio"),
        ({"rff": 1.5, LOCAL: 1.1}, 2, "out of tolerance: random Fourier; the median ratio"),
        ({"rff": 9.0, LOCAL: 9.0}, 1, "one seed is not enough to tell; the median ratio"),
    ],
)
def test_the_verdict_sums_up_each_set(
    ratios: dict[str, float], seeds: int, wanted: str, compare: Compare, known: dict[Key, PublishedCell]
) -> None:
    rows = []
    for method, ratio in ratios.items():
        threshold = 1.0 if METHODS[method].localized else None
        known[method, 32, threshold] = number()
        rows.append(row(method, 32, threshold, ratio))
    section = verdict.verdict_section([compare(rows, "yacht", seeds=seeds), compare(rows, "kin8nm", seeds=3)])
    assert section is not None
    assert section.tables[0].name == "figure-4-summary"
    assert section.text[0].startswith(f"yacht: {wanted}")
    assert f"is {np.median(list(ratios.values())):.2f} over 2 cells" in section.text[0]
    assert section.text[1].startswith("kin8nm: ")
    marked = {section.tables[0].rows[number][0] for number in section.tables[0].marked}
    assert ("yacht" in marked) == wanted.startswith("out")
    assert ("nothing of it is marked" in section.tables[0].caption) == (seeds == 1)


def test_nothing_published_is_no_verdict(compare: Compare, known: dict[Key, PublishedCell]) -> None:
    assert verdict.verdict_section([]) is None
    known["rff", 32, None] = number()
    assert verdict.verdict_section([compare([row("rff", 32, None, 9.0)], "yacht", "converged")]) is None


def test_the_summary_has_the_medians_and_the_shares(compare: Compare, known: dict[Key, PublishedCell]) -> None:
    rng = np.random.default_rng(0)
    ratios = {method: rng.uniform(0.2, 3.0, 7) for method in ("rff", "sorf", LOCAL)}
    rows = []
    for method, values in ratios.items():
        for size, ratio in enumerate(values, start=32):
            threshold = 1.0 if METHODS[method].localized else None
            known[method, size, threshold] = number()
            rows.append(row(method, size, threshold, float(ratio)))
    rows.append(row("orf", 32, None, 99.0))
    table = verdict.summary([compare(rows, "kin8nm")])
    labels = [METHODS[method].label for method in ratios]
    assert column(table, "model") == [*labels, "all but structured orthogonal Fourier"]
    groups = [*ratios.values(), np.concatenate((ratios["rff"], ratios[LOCAL]))]
    assert column(table, "cells") == [7, 7, 7, 14]
    assert column(table, "median ratio") == pytest.approx([np.median(group) for group in groups])
    assert column(table, "share within 2") == pytest.approx([np.mean(group <= 2.0) for group in groups])
    assert column(table, "least") == pytest.approx([group.min() for group in groups])
    assert column(table, "most") == pytest.approx([group.max() for group in groups])
    assert column(table, "at most") == [1.3] * 4
    assert set(column(table, "data set")) == {"kin8nm"}


@pytest.mark.parametrize(
    ("dataset", "ratios", "marked"),
    [
        ("kin8nm", [1.3] * 10, False),
        ("kin8nm", [1.3 + 1e-9] * 10, True),
        ("kin8nm", [1.0] * 9 + [2.5], False),  # nine of ten within a factor of 2
        ("kin8nm", [1.0] * 8 + [2.0] + [2.5], False),
        ("kin8nm", [1.0] * 8 + [2.5, 2.5], True),
        ("uk_flats_2020-12", [1.0] * 10, False),
        ("uk_flats_2020-12", [1.0] * 4 + [1.1] * 6, True),
        ("uk_flats_2020-12", [0.5] * 9 + [1.1], False),
        ("uk_flats_2020-12", [0.5] * 8 + [1.1, 1.1], True),
    ],
)
def test_the_summary_marks_what_misses_the_tolerance(
    dataset: str, ratios: list[float], marked: bool, compare: Compare, known: dict[Key, PublishedCell]
) -> None:
    rows = []
    for size, ratio in enumerate(ratios, start=32):
        known["rff", size, None] = number()
        rows.append(row("rff", size, None, ratio))
    table = verdict.summary([compare(rows, dataset)])
    assert table.marked == ({0, 1} if marked else frozenset())
    assert column(table, "at most") == [1.0 if dataset == "uk_flats_2020-12" else 1.3] * 2
