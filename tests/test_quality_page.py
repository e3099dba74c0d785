"""The tables of the page on the quality of predictions are made right from the results of its benchmark."""

import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from scipy import stats

from lmgp.metrics import coverage
from lmgp.metrics.gaussian import crps_rows

ROOT = Path(__file__).parent.parent
RUN = {"fit_s": 2.0, "predict_s": 0.5, "peak_gib": 0.25, "target_sd": 4.0, "rows": [90, 10, 2], "threads": 2}
SHARES = {"coverage_50": 0.41, "coverage_80": 0.74, "coverage": 0.951, "coverage_99": 0.985}
BESIDE = {
    "normal": {"nlpd": 0.63},
    "conformal": {"coverage_50": 0.49, "coverage_80": 0.81, "coverage": 0.96, "coverage_99": 0.99},
}
RESULTS = {
    "modis_lst": [
        {"method": "lmgp", **RUN, "rmse": 0.4, "nlpd": 0.51, "crps": 0.2, **SHARES, "beside": BESIDE},
        {"method": "gpboost-matern32", "no answer": "none in 300 s", "cap_s": 300.0},
        {"method": "boosting", **RUN, "rmse": 0.375},
    ]
}


@pytest.fixture
def quality_distributions(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import quality_distributions

    return quality_distributions


@pytest.fixture
def quality_page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for name in ("common", "quality", "quality_page"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    import quality_page

    return quality_page


def rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:1] == "|"]


def test_the_best_of_a_column_is_bold_and_no_answer_is_said(quality_page: ModuleType) -> None:
    table = rows(quality_page.scores_table(RESULTS["modis_lst"]))
    assert table[0][1:8] == ["NLPD", "CRPS", "RMSE", "50%", "80%", "95%", "99%"]
    assert table[2][:8] == ["GPRegressor()", "**0.510**", "**0.200**", "0.400", "41.0", "74.0", "95.1", "98.5"]
    assert table[3][:3] == ["GPBoost, Matérn-3/2: none in 300 s", "–", "–"]
    assert table[4][:5] == ["gradient boosting", "–", "–", "**0.375**", "–"]


def test_normal_noise_and_conformal_intervals_stand_beside_the_distribution(quality_page: ModuleType) -> None:
    table = rows(quality_page.ours_table(RESULTS))
    assert table[2] == ["modis_lst", "0.510", "0.630", "41.0", "74.0", "95.1", "98.5", "49.0", "81.0", "96.0", "99.0"]


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
    assert table[0][2:] == ["splits", "NLPD", "CRPS", "RMSE", "50%", "80%", "95%", "99%", "seconds"]
    (line,) = table[2:]
    assert line[:4] == ["set", "GPRegressor()", "2", "0.200 ± 0.100"]
    assert line[4:] == ["–", "0.350 ± 0.050", "–", "–", "94.0 ± 1.0", "–", "2.5 ± 0.0"]


def test_a_normal_variable_plus_a_t_has_the_distribution_of_its_draws(quality_distributions: ModuleType) -> None:
    mean, variance, degrees, scale = np.array([0.5, 0.0]), np.array([0.04, 4.0]), 3.0, 0.7
    found = quality_distributions.NormalMixture.of_normal_and_student(mean, variance, degrees, scale)
    rng = np.random.default_rng(0)
    shape = 400_000, 2
    draws = mean + np.sqrt(variance) * rng.standard_normal(shape) + scale * rng.standard_t(degrees, shape)
    y, h = np.array([1.5, -1.0]), 1e-4
    np.testing.assert_allclose(found.cdf(y), np.mean(draws <= y, axis=0), atol=0.003)
    np.testing.assert_allclose(np.exp(found.logpdf(y)), (found.cdf(y + h) - found.cdf(y - h)) / (2.0 * h), rtol=1e-5)
    expected = np.mean(np.abs(draws - y), axis=0) - 0.5 * np.mean(np.abs(draws - draws[::-1]), axis=0)
    np.testing.assert_allclose(crps_rows(y, found), expected, atol=0.005)
    without = quality_distributions.NormalMixture.of_normal_and_student(mean, 1e-12 + 0.0 * variance, degrees, scale)
    np.testing.assert_allclose(without.logpdf(y), stats.t(degrees, mean, scale).logpdf(y), atol=1e-6)


def test_quantiles_have_nearly_the_scores_of_their_distribution(quality_distributions: ModuleType) -> None:
    whole = stats.norm(np.array([0.0, 1.0, -2.0]), np.array([1.0, 2.0, 0.5]))
    levels = np.linspace(0.01, 0.99, 99)
    some = quality_distributions.Quantiles(levels, np.column_stack([whole.ppf(level) for level in levels[::-1]]))
    y = np.array([0.3, 4.0, -2.1])
    np.testing.assert_allclose(crps_rows(y, some), crps_rows(y, whole), rtol=0.01)
    np.testing.assert_allclose(some.cdf(y), whole.cdf(y), atol=1e-3)
    assert coverage(some.values[:, 9], some, level=0.8) == 1.0  # the ends of an interval are within it
    assert coverage(some.values[:, 8], some, level=0.8) == 0.0
