"""Published figures: each has its source, and stands beside ours in the same units."""

from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import published

    return published


def run(rmse: float, nlpd: float, target_sd: float = 2.0) -> dict:
    shares = {"coverage": 0.95, "fit_s": 3.0}
    return {"rows": [90, 10, 4], "published": True, "rmse": rmse, "nlpd": nlpd, "target_sd": target_sd, **shares}


def test_each_figure_has_its_source(published: ModuleType) -> None:
    names = [source["name"] for source in published.SOURCES]
    assert len(set(names)) == len(names)
    for source in published.SOURCES:
        assert source["unit"] in published.UNITS
        assert source["work"]
        figures = {name: one for name, one in source.items() if isinstance(one, dict)}
        assert figures
        for one in figures.values():
            assert {"rmse", "nlpd"} <= set(one) <= {"rmse", "nlpd", "splits"}
            assert one["rmse"][0] >= 0.0
            assert min(one["rmse"][1], one["nlpd"][1]) >= 0.0


def test_scores_change_their_units_as_y_does(published: ModuleType) -> None:
    runs = [run(4.0, 2.0), run(6.0, 4.0)]
    assert published.score(runs, "y") == {"rmse": [5.0, np.sqrt(2.0)], "nlpd": [3.0, np.sqrt(2.0)]}
    in_deviations = published.score(runs, "sd")
    np.testing.assert_allclose(in_deviations["rmse"], [2.5, np.sqrt(0.5)])
    np.testing.assert_allclose(in_deviations["nlpd"], [3.0 - np.log(2.0), np.sqrt(2.0)])


def test_a_set_has_a_table_for_each_unit(published: ModuleType) -> None:
    lines = published.set_lines("protein", [run(4.0, 2.0), run(4.2, 2.4)])
    heads = [i for i, line in enumerate(lines) if line.startswith("| y in its")]
    assert [lines[i].split(" | ")[0] for i in heads] == ["| y in its units", "| y in its standard deviations"]
    assert lines[heads[0] + 2] == "| **`GPRegressor()`** | 2 published splits | 2.20 ± 0.28 | 4.10 ± 0.14 |"
    assert any(line.startswith("| MC dropout [1] | the same 5 | 2.871 ± 0.004 |") for line in lines)
    densities = [float(line.split(" | ")[2].split(" ± ")[0]) for line in lines[heads[0] + 3 : heads[1] - 1]]
    assert densities == sorted(densities)


def test_tables_of_a_folder_are_found_with_their_splits(published: ModuleType, tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": range(20), "kind": list("uv") * 10, "y": np.arange(20.0)})
    frame.to_csv(tmp_path / "small_raw.csv.gz", index=False)
    frame.to_csv(tmp_path / "other.csv", index=False)
    pd.DataFrame({"s0": [1, *[0] * 19], "s1": [*[0] * 19, 1]}).to_csv(
        tmp_path / "small_raw.test_mask.csv.gz", index=False
    )
    found = published.tables(tmp_path)
    assert list(found) == ["other", "small"]
    X, y, splits = published.load(found["small"])
    assert X.columns.tolist() == ["a", "kind"]
    assert np.flatnonzero(published.test_rows(20, 1, splits)).tolist() == [19]
    assert published.load(found["other"])[2] is None
    drawn = published.test_rows(len(y), 0, None)
    assert drawn.sum() == 2
    np.testing.assert_array_equal(drawn, published.test_rows(len(y), 0, None))
