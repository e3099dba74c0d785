"""The figures of docs/testing.md are those of the raw results, and each survivor among the mutants is accounted for."""

import json
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
RESULTS: dict[str, Any] = json.loads((ROOT / "benchmarks/results/mutation.json").read_text(encoding="utf-8"))


def test_the_table_is_that_of_the_results() -> None:
    told = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if re.match(r"\| .* \| `lmgp/", line)]
    rows = RESULTS["modules"]
    expected = [
        [
            row["part"],
            f"`lmgp/{row['module']}.py`",
            str(row["tried"]),
            str(row["killed"]),
            f"{row['percent killed']:.0f}%",
        ]
        for row in rows
    ]
    assert told == expected


def test_at_least_eighty_percent_of_the_mutants_of_each_module_are_killed() -> None:
    assert {row["part"] for row in RESULTS["modules"]} == {
        "metrics",
        "statistics",
        "allocation",
        "posterior",
        "Vecchia likelihood",
        "spectral solver",
    }
    for row in RESULTS["modules"]:
        of_module = [one["outcome"] for one in RESULTS["mutants"] if one["module"] == row["module"]]
        killed = len(of_module) - of_module.count("survived")
        assert (len(of_module), killed) == (row["tried"], row["killed"])
        assert killed >= 0.8 * len(of_module), row["module"]


def test_survivors_are_those_of_the_mutants() -> None:
    alive = [one for one in RESULTS["mutants"] if one["outcome"] == "survived"]
    assert [{key: one[key] for key in alive[0]} for one in RESULTS["survivors"]] == alive
