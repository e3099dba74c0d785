"""The two tables of README.md: how calibrated GPRegressor() is, and how near the exact process models are.

    python benchmarks/front_page.py

Measures nothing: writes the tables from benchmarks/results/quality.json, spectral.json, residual.json and sizes.json.
"""

import json
from statistics import mean

from common import RESULTS, write_table
from quality_page import COVERAGES, LABELS, OURS, answered, numbers

README = "../README.md"
OTHER_SPLITS = ", other splits"
# Of each problem: the results, their table, the data, and the models that are shown, by their names there and here.
NEARNESS = (
    ("spectral", "where", "flats, paper", "10,000 rows of 2 columns", {
        "exact": "exact process", "nearest 64": "nearest 64 rows", "nearest 128": "nearest 128 rows",
        "localized 120, threshold 2": "localized, 120 Taylor features",
        "spectral, tolerance 0.001": "spectral, tolerance 0.001",
    }),
    ("residual", "protein", "protein", "10,000 rows of 9 columns", {
        "exact": "exact process", "nearest 256": "nearest 256 rows",
        "residual 2048, 64": "residual, 2,048 landmarks, 64 rows",
    }),
)  # fmt: skip


def results(name):
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def calibration():
    """Return the lines of the first table: a set a line, means over the splits that were run."""
    found = results("quality")
    sets = [name for name, runs in found.items() if name != "measured" and not name.endswith(OTHER_SPLITS) and runs]
    yield "| data | training rows | columns | NLPD | next best | 50% | 80% | 95% | 99% |"
    yield "|---|---:|---:|---:|---|---:|---:|---:|---:|"
    for name in sorted(sets, key=lambda name: found[name][0]["rows"][0]):
        runs = [numbers(run) for run in found[name] + found.get(f"{name}{OTHER_SPLITS}", []) if answered(run)]
        by_method = {method: [run for run in runs if run["method"] == method] for method in LABELS}
        ours = by_method.pop(OURS)
        others = {
            method: mean(run["nlpd"] for run in group)
            for method, group in by_method.items()
            if len(group) == len(ours) and "nlpd" in group[0]
        }
        best = min(others, key=others.get)
        rows, _, columns = ours[0]["rows"]
        shares = [mean(run[key.replace("coverage", "percent")] for run in ours) for key in COVERAGES.values()]
        yield (
            f"| {name}{f', {len(ours)} splits' if len(ours) > 1 else ''} | {rows:,} | {columns} "
            f"| {mean(run['nlpd'] for run in ours):.2f} | {others[best]:.2f}, {LABELS[best]} "
            f"| {' | '.join(f'{share:.0f}' for share in shares)} |"
        )


def nearness():
    """Return the lines of the second table: seconds, and the divergence from the exact process."""
    yield "| training rows | model | seconds to fit and predict | rows predicted | KL from exact, nats a row |"
    yield "|---|---|---:|---:|---:|"
    for name, table, problem, rows, models in NEARNESS:
        runs = {run["model"]: run for run in results(name)[table] if run["problem"] == problem}
        for model, label in models.items():
            run = runs[model]
            divergence = f"{run['kl']:.1e}" if "kl" in run else "0"
            yield f"| {rows} | {label} | {run['fit_s'] + run['predict_s']:.1f} | {run['n_new']:,} | {divergence} |"
    for run in results("sizes")["runs"]:
        if run["method"] == "spectral" and run["rows"] >= 1_000_000:
            yield (
                f"| {run['rows']:,} rows of 2 columns | spectral, tolerance 0.001 "
                f"| {run['fit_s'] + run['predict_s']:.1f} | 100,000 | {run['stated']:.1e}, as it states of its mean |"
            )


if __name__ == "__main__":
    write_table(README, "calibration", calibration())
    write_table(README, "nearness", nearness())
