"""Many rows of many columns, everything learned: seconds, memory and densities of `GPRegressor()`.

A made function of the first eight columns at most, with noise of a tenth of its variance; 100,000 more rows are
predicted, with their distribution. Beside all rows stands a tenth of them. Each run is a process of its own, whose peak
of memory is thereby its own; it holds the rows, too.

    python benchmarks/many_columns.py [--shapes N:D ...] [--shared]

Writes benchmarks/results/many_columns.json, a table of each shape. Two threads. Shapes beside that of the table are
10000000:8 and 100000:100.
"""

import argparse
import json
import resource
import subprocess
import sys
from time import process_time

import numpy as np
from common import timed, write
from scale import SHARED
from threadpoolctl import threadpool_limits

N_NEW, NOISE = 100_000, 0.1


def table(n, d):
    """Return training rows and new rows, each with what was observed."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(n + N_NEW, d))
    # Friedman's function of five columns, and a wave of three more.
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3] + 5 * X[:, 4]
    f += 3 * np.sin(4 * X[:, 5:8].sum(axis=1))
    y = f / f.std() + NOISE**0.5 * rng.normal(size=len(f))
    return (X[:n], y[:n]), (X[n:], y[n:])


def measure(n, d):
    """Fit and predict, and print what came of it."""
    from lmgp import GPRegressor
    from lmgp.metrics import coverage, nlpd, rmse

    (X, y), (new, observed) = table(n, d)
    model = GPRegressor(n_predict=N_NEW, random_state=0)
    with threadpool_limits(2):
        start = process_time()
        fit_s, _ = timed(lambda: model.fit(X, y))
        between = process_time()
        predict_s, predicted = timed(lambda: model.predict_distribution(new))
        end = process_time()
    result = {
        "rows": n,
        "columns": d,
        "fit_s": fit_s,
        "predict_s": predict_s,
        "fit_processor_s": between - start,
        "predict_processor_s": end - between,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "rmse": rmse(observed, predicted.mean()),
        "nlpd": nlpd(observed, predicted),
        "coverage": coverage(observed, predicted),
        "chosen": str(model.recipe_),
        "stated": model.selection_.chosen.kl,
    }
    print(json.dumps(result))


def main():
    """Measure each shape, and a tenth of its rows."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shapes", nargs="*", default=["1000000:8"])
    parser.add_argument("--shared", action="store_true", help=SHARED)
    parser.add_argument("--measure", nargs=2, type=int, metavar=("N", "D"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        return measure(*arguments.measure)
    for shape in arguments.shapes:
        runs, (n, d) = [], map(int, shape.split(":"))
        for n_rows in (n // 10, n):
            command = [sys.executable, __file__, "--measure", str(n_rows), str(d)]
            output = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
            runs.append(json.loads(output.splitlines()[-1]))
            print(runs[-1], flush=True)
            write("many_columns", {shape: runs}, **({"machine": SHARED} if arguments.shared else {}))
    return None


if __name__ == "__main__":
    main()
