"""The tables of the page on the quality of predictions are made right from the results of its benchmark."""

import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
RUN = {"fit_s": 2.0, "predict_s": 0.5, "peak_gib": 0.25, "target_sd": 4.0, "rows": [90, 10, 2], "threads": 2}
RESULTS = {
    "modis_lst": [
        {"method": "lmgp", **RUN, "rmse": 0.4, "nlpd": 0.51, "crps": 0.2, "coverage": 0.951},
        {"method": "gpboost-matern32", "no answer": "none in 300 s", "cap_s": 300.0},
        {"method": "boosting", **RUN, "rmse": 0.375},
    ]
}


@pytest.fixture
def quality_page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for name in ("common", "quality", "quality_page"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import quality_page

    return quality_page


def rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]


def test_the_best_of_a_line_is_bold_and_no_answer_is_said(quality_page: ModuleType) -> None:
    tables = {score.lowest: rows(quality_page.score_table(RESULTS, score)) for score in quality_page.SCORES}
    assert tables["rmse"][2] == ["modis_lst", "0.400", "none in 300 s", "**0.375**"]
    assert tables["nlpd"][2] == ["modis_lst", "**0.510**", "none in 300 s", "–"]
    assert tables[None][2] == ["modis_lst", "95.1", "none in 300 s", "–"]


def test_scores_beside_the_published_ones_are_in_degrees(quality_page: ModuleType) -> None:
    table = rows(quality_page.heaton_table(RESULTS))
    (line,) = (number for number, row in enumerate(table) if "here" in row[0])
    assert table[line][1:4] == ["1.60", "0.80", "95%"]
    assert table[line - 1][:2] == ["SPDE", "1.53"]  # by RMSE
    assert table[line + 1][:2] == ["NNGP, conjugate", "1.64"]


def test_means_over_splits_have_standard_errors(quality_page: ModuleType) -> None:
    first = {"set": [{"method": "lmgp", **RUN, "rmse": 0.3, "nlpd": 0.1, "coverage": 0.95}]}
    others = {
        "set": [
            {"method": "lmgp", "split": 1, **RUN, "rmse": 0.4, "nlpd": 0.3, "coverage": 0.93},
            {"method": "lmgp", "split": 2, "no answer": "none in 300 s", "cap_s": 300.0},
            {"method": "boosting", "split": 1, **RUN, "rmse": 0.5},
        ]
    }
    table = rows(quality_page.splits_table(first, others))
    assert table[0][2:] == ["splits", "RMSE", "NLPD", "within 95%", "seconds"]
    assert table[2:] == [["set", "GPRegressor()", "2", "0.350 ± 0.050", "0.200 ± 0.100", "94.0 ± 1.0", "2.5 ± 0.0"]]
