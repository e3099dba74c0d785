"""RMSE and NLPD of `GPRegressor()` on UCI regression sets, beside published figures of other methods.

A folder has a table NAME.csv or NAME.csv.gz for each set, or NAME_raw: one header line, the target last. Beside it may
stand NAME.test_mask.csv.gz, with one 0/1 column for each split, 1 for a test row; without it, a tenth of the rows,
drawn with the number of the split as the seed, are test rows. `GPRegressor()` gets the columns as they come. The
published figures are those of benchmarks/published.toml, which names the source of each.

    python benchmarks/published.py [--data-dir DIR] [--sets NAME ...] [--splits 5] [--missing]
    python benchmarks/published.py --redraw  # the tables alone, from the results

With --missing, splits that the results have are not run again. Without --sets, all sets of the folder are run of which
there are published figures: concrete, elevators, kin40k, kin8nm, protein and yacht of the data sets of this repository.

Writes benchmarks/results/published.json after every run, and the tables in docs/published.md, which it also prints.
"""

import argparse
import json
import math
import os
import sys
import textwrap
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
from common import HERE, RESULTS, timed, write, write_table

from lmgp import GPRegressor
from lmgp.metrics import coverage, nlpd, rmse

SOURCES = tomllib.loads((HERE / "published.toml").read_text(encoding="utf-8"))["source"]
SETS = sorted({name for source in SOURCES for name, figures in source.items() if isinstance(figures, dict)})
UNITS = {"y": "y in its units", "sd": "y in its standard deviations"}


def tables(folder):
    """Return the files of a folder by the names of their sets."""
    paths = [path for path in sorted(folder.glob("*.csv*")) if ".test_mask." not in path.name]
    return {path.name.partition(".csv")[0].removesuffix("_raw"): path for path in paths}


def load(path):
    """Return the columns, the target, and the published splits, one test mask a column; None where there are none."""
    table = pd.read_csv(path)
    masks = path.with_name(path.name.partition(".csv")[0] + ".test_mask.csv.gz")
    splits = pd.read_csv(masks).to_numpy() == 1 if masks.exists() else None
    return table.iloc[:, :-1], table.iloc[:, -1].to_numpy(float), splits


def test_rows(n, number, splits):
    """Return the mask of the test rows of a split, published or drawn."""
    if splits is not None:
        return splits[:, number]
    return np.random.default_rng(number).permutation(n) < round(0.1 * n)


def run(X, y, test):
    """Fit to the training rows, and score the test rows, with y in its units."""
    fit_s, model = timed(lambda: GPRegressor(random_state=0).fit(X[~test], y[~test]))
    predict_s, predicted = timed(lambda: model.predict_distribution(X[test]))
    return {
        "rows": [int(np.sum(~test)), int(np.sum(test)), X.shape[1]],
        "target_sd": float(np.std(y[~test])),
        "rmse": rmse(y[test], predicted.mean()),
        "nlpd": nlpd(y[test], predicted),
        "coverage": coverage(y[test], predicted, level=0.95),
        "fit_s": round(fit_s, 2),
        "predict_s": round(predict_s, 2),
        "chosen": repr(model.recipe_),
        "noise": model.noise_.name,
        "load": round(os.getloadavg()[0], 2),
    }


def score(runs, unit):
    """Return the mean and the standard deviation over splits of RMSE and NLPD, in a unit of y."""
    scales = np.array([one["target_sd"] if unit == "sd" else 1.0 for one in runs])
    errors = np.array([one["rmse"] for one in runs]) / scales
    densities = np.array([one["nlpd"] for one in runs]) - np.log(scales)
    return {
        name: [values.mean(), values.std(ddof=1) if len(runs) > 1 else None]
        for name, values in (("rmse", errors), ("nlpd", densities))
    }


def ours(figures):
    """Write a mean and a standard deviation with two digits of the latter, or a mean alone."""
    mean, spread = figures
    if not spread:
        return f"{mean:.3g}"
    digits = max(0, 1 - math.floor(math.log10(spread)))
    return f"{mean:.{digits}f} ± {spread:.{digits}f}"


def published(figures):
    """Write a mean and a standard deviation with the digits that the source has."""
    digits = max(len(str(one).partition(".")[2]) for one in figures)
    return " ± ".join(f"{one:.{digits}f}" for one in figures)


def set_lines(name, runs):
    """Return the tables of one set: a method a row, for each unit that figures are published in."""
    (n_train, n_test, n_columns), kind = runs[0]["rows"], "published" if runs[0]["published"] else "drawn"
    splits = f"{len(runs)} {kind} split{'s' * (len(runs) > 1)}"
    share, seconds = (np.mean([one[key] for one in runs]) for key in ("coverage", "fit_s"))
    heading = (
        f"**{name}**: {n_train:,} training rows, {n_test:,} test rows, {n_columns} columns. Of the test rows, "
        f"{share:.1%} are within 95% intervals; a fit took {seconds:.0f} s."
    )
    lines = textwrap.wrap(heading, 120)
    for unit, meaning in UNITS.items():
        peers = [source for source in SOURCES if name in source and source["unit"] == unit]
        if peers or unit == "y":
            scores = score(runs, unit)
            lines += ["", f"| {meaning} | splits | NLPD | RMSE |", "| --- | --- | ---: | ---: |"]
            lines += [f"| **`GPRegressor()`** | {splits} | {ours(scores['nlpd'])} | {ours(scores['rmse'])} |"]
            for source in sorted(peers, key=lambda one: one[name]["nlpd"][0]):
                who, scores = f"{source['name']} [{SOURCES.index(source) + 1}]", source[name]
                of = scores.get("splits", source["splits"])
                lines += [f"| {who} | {of} | {published(scores['nlpd'])} | {published(scores['rmse'])} |"]
    return [*lines, ""]


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, default=os.environ.get("LMGP_DATA_DIR"))
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--redraw", action="store_true")
    options = parser.parse_args(arguments)
    file = RESULTS / "published.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    results.pop("measured", None)
    if not options.redraw:
        if options.data_dir is None or not Path(options.data_dir).is_dir():
            parser.error("name a folder of tables with --data-dir, or in LMGP_DATA_DIR")
        here = tables(Path(options.data_dir))
        if options.sets is None and not here.keys() & set(SETS):
            parser.error(f"{options.data_dir} has none of the tables {', '.join(SETS)}; name yours with --sets")
        if options.splits < 1:
            parser.error(f"--splits must be at least 1; got {options.splits}")
        for name in options.sets or [name for name in SETS if name in here]:
            if name not in here:
                parser.error(f"{options.data_dir} has no table {name}.csv; it has {', '.join(here)}")
            X, y, splits = load(here[name])
            for number in range(options.splits if splits is None else min(options.splits, splits.shape[1])):
                known = [one for one in results.get(name, []) if one["split"] != number]
                if options.missing and len(known) < len(results.get(name, [])):
                    continue
                scored = run(X, y, test_rows(len(y), number, splits))
                row = {"split": number, "published": splits is not None, **scored}
                results[name] = sorted([*known, row], key=lambda one: one["split"])
                write("published", {name: results[name]})
                print(name, number, {key: row[key] for key in ("rmse", "nlpd", "fit_s")}, file=sys.stderr)
    scores = [line for name, runs in sorted(results.items()) for line in set_lines(name, runs)]
    sources = [
        textwrap.fill(f"{number}. {source['name']}: {source['work']}.", 120, subsequent_indent="   ")
        for number, source in enumerate(SOURCES, start=1)
    ]
    write_table("published.md", "scores", ["", *scores])
    write_table("published.md", "sources", ["", *sources, ""])
    print("\n".join([*scores, *sources]))


if __name__ == "__main__":
    main()
