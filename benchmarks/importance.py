"""Which columns matter: what `importance_` says, beside what shuffling columns of test rows costs the same model.

Of six of the sets of quality.py. The reference shuffles each column of up to 3,000 test rows, which no fit has seen,
twice, and takes the growth of the mean squared error of `GPRegressor()` over the variance of their y. Told of each set:
the rank correlation of both over the columns, that of `inverse_lengthscales_`, and the seconds to fit and, of these,
those that `importance_` takes.

    python benchmarks/importance.py [--sets NAME ...] [--rows 3000]

Writes benchmarks/results/importance.json: all numbers, and the environment.
"""

import argparse
import sys

import numpy as np
from common import timed, write
from quality import SETS, load
from scipy.stats import spearmanr

from lmgp import GPRegressor
from lmgp.estimators.importance import importances

NAMES = ("concrete", "kin8nm", "uk_flats_2020-12", "elevators", "kin40k", "protein")
N_SHUFFLES = 2


def reference(model, X, y, rng):
    """Return the growth of the mean squared error where each column is shuffled, over the variance of y."""
    error = np.mean((y - model.predict(X)) ** 2)
    growth = np.zeros(X.shape[1])
    for _ in range(N_SHUFFLES):
        for j in range(X.shape[1]):
            shuffled = X.copy()
            shuffled[:, j] = rng.permutation(X[:, j])
            growth[j] += (np.mean((y - model.predict(shuffled)) ** 2) - error) / N_SHUFFLES
    return growth / np.var(y)


def measured(name, n_rows, data_dir):
    """Return the line of a set."""
    X, y, X_test, y_test, spatial = load(name, data_dir, **SETS[name])
    model = GPRegressor(metric="sphere" if spatial else None, random_state=0)
    fit_s, _ = timed(lambda: model.fit(X, y))
    posterior = model._posterior()
    importance_s, _ = timed(lambda: importances(model._fitted, posterior.rows, model._table, posterior))
    expected = reference(model, X_test[:n_rows], y_test[:n_rows], np.random.default_rng(7))
    line = {
        "set": name, "rows": len(X), "fit_s": fit_s, "importance_s": importance_s,
        "rank_correlation": spearmanr(model.importance_, expected)[0],
        "importance": model.importance_.tolist(), "error": model.importance_error_.tolist(),
        "reference": expected.tolist(),
    }  # fmt: skip
    if not spatial:  # whose lengthscales are those of points in space
        line["rank_correlation_of_inverse_lengthscales"] = spearmanr(model.inverse_lengthscales_, expected)[0]
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--sets", nargs="+", choices=NAMES, default=NAMES, metavar="NAME", help=f"of {', '.join(NAMES)}"
    )
    parser.add_argument("--rows", type=int, default=3000, help="test rows that are shuffled, at most")
    parser.add_argument("--data-dir", help="default: the environment variable LMGP_DATA_DIR")
    args = parser.parse_args()
    lines = []
    for name in args.sets:
        lines.append(measured(name, args.rows, args.data_dir))
        numbers = {key: f"{value:.4g}" for key, value in lines[-1].items() if isinstance(value, float)}
        sys.stdout.write(f"{name}: {numbers}\n")
        sys.stdout.flush()
    write("importance", {"sets": lines})


if __name__ == "__main__":
    main()
