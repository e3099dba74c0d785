import csv
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest

from lmgp.experiments.paper.cells import FEATURES_THRESHOLD, PAPER_METHODS, THRESHOLDS
from lmgp.experiments.paper.published import MEDIAN_DISTANCES, published
from lmgp.experiments.protocol import PROTOCOLS
from lmgp.methods import METHODS

SIZES = {"yacht": (32, 64, 128, 256, 512, 1024), "kin8nm": (32, 64, 128, 256, 512, 1024)}
SIZES["uk_flats"] = (8, 16, *SIZES["yacht"])
N_TEST = {"yacht": 108, "kin8nm": 819, "uk_flats": 10_000}
LOCAL = [method for method in PAPER_METHODS if METHODS[method].localized]


def test_the_file_comes_with_the_package() -> None:
    text = (files("lmgp.experiments.paper") / "published.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    assert len(rows) == 384
    assert {row["dataset"] for row in rows} == set(SIZES)
    keys = [(row["dataset"], row["method"], row["n_features"], row["threshold"]) for row in rows]
    assert len(set(keys)) == 384


@pytest.mark.parametrize("dataset", SIZES)
def test_every_model_has_every_size_and_threshold(dataset: str) -> None:
    known = published(dataset)
    methods = {method for method, *_ in known}
    # Of the UK flats no global Maclaurin features were published.
    assert methods == set(PAPER_METHODS if dataset != "uk_flats" else ("rff", "sorf", *LOCAL))
    wanted = {
        (method, size, threshold)
        for method in methods
        for size in SIZES[dataset]
        for threshold in (THRESHOLDS if METHODS[method].localized else [None])
    }
    assert set(known) == wanted


@pytest.mark.parametrize("dataset", SIZES)
def test_the_cells_are_consistent(dataset: str) -> None:
    known = published(dataset)
    for (method, _, _), cell in known.items():
        assert cell.n_test == N_TEST[dataset]
        assert (cell.n_centroids is not None) == METHODS[method].localized
        # A global model was run once for each of eight thresholds.
        assert cell.runs == (10 if METHODS[method].localized else 80)
        assert cell.kl == cell.kl_sum / cell.n_test
        numbers = (cell.kl_sum, cell.kl_sum_sd, cell.rmse, cell.rmse_sd)
        assert all(np.isfinite(number) and number > 0 for number in numbers)
    counts = {
        threshold: {cell.n_centroids for key, cell in known.items() if key[2] == threshold} for threshold in THRESHOLDS
    }
    assert all(len(of_threshold) == 1 for of_threshold in counts.values())  # whatever the size and the sketch
    ordered = [min(counts[threshold]) for threshold in THRESHOLDS]
    assert all(fewer <= more for more, fewer in pairwise(ordered))
    assert ordered[0] > ordered[-1] >= 1.0


def test_spot_values() -> None:
    cell = published("yacht")["local_maclaurin_rademacher", 128, 0.5]
    assert (cell.kl_sum, cell.n_centroids, cell.runs) == (6.2025, 44.0, 10)
    assert cell.kl == pytest.approx(6.2025 / 108)
    cell = published("kin8nm")["rff", 1024, None]
    assert (cell.kl_sum, cell.runs) == (pytest.approx(3.265, abs=5e-4), 80)
    assert {published("uk_flats")["sorf", size, None].kl_sum for size in SIZES["uk_flats"]} == {7763.8}


def test_the_panels_over_features_have_the_published_numbers_of_clusters() -> None:
    counts = [published(name)[LOCAL[0], 64, FEATURES_THRESHOLD].n_centroids for name in ("uk_flats", "yacht", "kin8nm")]
    assert [round(count or 0.0) for count in counts] == [57, 10, 1]


def test_another_month_is_held_against_the_published_one() -> None:
    assert published("uk_flats_2020-12") == published("uk_flats")
    assert published("sinc") == published("uk_houses_2020-12") == {}


def test_every_published_set_has_hyper_parameters_and_a_median_distance() -> None:
    assert set(SIZES) < set(PROTOCOLS["paper"].published)
    assert set(MEDIAN_DISTANCES) == {"sinc", "yacht", "kin8nm"}
