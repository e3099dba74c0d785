"""How long a fit says that it takes, beside how long it takes: `GPRegressor()` on data sets and on made rows.

Before a fit begins, it says about how many seconds its stages will take. Here stands beside each of these what it took.

    python benchmarks/expected.py [--data-dir DIR] [--sets NAME ...] [--shapes N:D ...]

Writes benchmarks/results/expected.json, and the table in docs/scale.md. Two threads, five minutes.
"""

import argparse
import logging
from time import perf_counter

import numpy as np
from common import write, write_table
from threadpoolctl import threadpool_limits

from lmgp import GPRegressor
from lmgp.experiments.datasets import load_dataset

SETS = ("concrete", "kin8nm", "uk_flats_2020-12", "elevators", "protein", "modis_lst", "keggdirected")
SHAPES = ("200:3", "1000:5", "2000:2", "20000:2", "20000:8", "5000:20", "3000:100", "200000:5")


class Stopwatch(logging.Handler):
    """Notes what is expected, and when each stage begins."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.plan, self.begun = {}, []

    def emit(self, record):
        """Note a message."""
        self.plan = getattr(record, "plan", self.plan)
        name = getattr(record, "stage", None)
        if name in self.plan and name not in dict(self.begun):
            self.begun.append((name, perf_counter()))

    def seconds(self, end):
        """Return what the stages of the plan took."""
        ends = [time for _, time in self.begun[1:]] + [end]
        return {name: after - time for (name, time), after in zip(self.begun, ends, strict=True)}


def made(shape):
    """Return rows of a function of three columns at most, with noise."""
    n, d = map(int, shape.split(":"))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1] + np.cos(X[:, d // 2]) + 0.3 * rng.normal(size=n)
    return X, y


def measure(name, X, y):
    """Fit, and return what was expected and what it took."""
    stopwatch, package = Stopwatch(), logging.getLogger("lmgp")
    package.addHandler(stopwatch)
    package.setLevel(logging.INFO)
    package.propagate = False
    start = perf_counter()
    GPRegressor(random_state=0).fit(X, y)
    end = perf_counter()
    package.removeHandler(stopwatch)
    return {"name": name, "rows": X.shape, "s": end - start, "plan": stopwatch.plan, "stages": stopwatch.seconds(end)}


def main():
    """Measure all, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data-dir")
    parser.add_argument("--sets", nargs="*", default=SETS)
    parser.add_argument("--shapes", nargs="*", default=SHAPES)
    arguments = parser.parse_args()
    runs = []
    with threadpool_limits(2):
        measure("made", *made("1000:2"))  # what is compiled at the first use is not counted
        for name in arguments.sets:
            loaded = load_dataset(name, arguments.data_dir)
            runs.append(measure(name, loaded.X, loaded.y))
            print(runs[-1], flush=True)
        for shape in arguments.shapes:
            runs.append(measure("made", *made(shape)))
            print(runs[-1], flush=True)
    write("expected", {"runs": runs})
    ratios = [run["s"] / sum(run["plan"].values()) for run in runs]
    print("took, of what was expected:", np.round(ratios, 2), "geometric mean", np.exp(np.mean(np.log(ratios))))
    lines = ["| rows | number | columns | seconds expected | seconds taken |", "|---|---:|---:|---:|---:|"]
    for run in runs:
        (n, d), expected = run["rows"], sum(run["plan"].values())
        lines.append(f"| {run['name']} | {n:,} | {d} | {expected:.0f} | {run['s']:.0f} |")
    write_table("scale.md", "expected", lines)


if __name__ == "__main__":
    main()
