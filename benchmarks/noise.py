"""What the choice of a distribution costs: nats where noise is normal, and seconds and scores on data sets.

The first part draws smooth functions of three columns with normal noise, and compares the mean log density of new rows
under noise="auto" with that under noise="normal", with everything else learned in the same way. The second part times
and scores fits of each noise on data sets, in turns: NLPD and RMSE with y in its standard deviations, and the mean
error in units of y.

    python benchmarks/noise.py [--draws 5] [--sizes 300 1000 4000 20000] [--repeats 3]
    python benchmarks/noise.py --sets uk_houses_2020-12 kin40k protein  # LMGP_DATA_DIR has the data

Writes benchmarks/results/noise.json.
"""

import argparse
from functools import partial
from itertools import product
from statistics import mean, median

import numpy as np
from common import timed, write
from quality import SETS, load, scores

from lmgp import GPRegressor
from lmgp.learning.engine import remembered

NOISES, OF_SETS = ("normal", "auto"), ("normal", "varying", "auto")


def drawn(n, seed, n_new=2000):
    """Return rows of a sum of waves with normal noise, and new rows of it."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 3.0, (n + n_new, 3))
    waves = np.cos(X @ rng.standard_normal((3, 500)) + rng.uniform(0.0, 2.0 * np.pi, 500))
    y = waves.sum(axis=1) * np.sqrt(2.0 / 500) + 0.3 * rng.standard_normal(n + n_new)
    return X[:n], y[:n], X[n:], y[n:]


def losses(sizes, draws):
    """Return a row for each draw: what "auto" took, and by how much its density of new rows is smaller."""
    rows = []
    for n in sizes:
        for seed in range(draws):
            X, y, X_new, y_new = drawn(n, seed)
            models = {noise: GPRegressor(kernel="gaussian", noise=noise, random_state=0).fit(X, y) for noise in NOISES}
            densities = {
                noise: model.predict_distribution(X_new).logpdf(y_new).mean() for noise, model in models.items()
            }
            loss = float(densities["normal"] - densities["auto"])
            rows.append({"rows": n, "draw": seed, "loss": loss, "taken": models["auto"].noise_.chosen.noise})
            print(rows[-1], flush=True)
        print(
            f"{n:,} rows: {mean(row['loss'] for row in rows if row['rows'] == n):.4f} nats lost on average", flush=True
        )
    return rows


def seconds(sets, repeats):
    """Return a row for each set and repeat: the seconds and the scores of fits with each noise."""
    rows = []
    for name, repeat in product(sets, range(repeats)):
        rows.append({"set": name, "repeat": repeat, **of_set(*load(name, **SETS[name])[:4])})
        print(rows[-1], flush=True)
    for name, what in product(sets, ("fit", "predict")):
        ratio = median(row[f"{what} auto"] / row[f"{what} normal"] for row in rows if row["set"] == name)
        print(f"{name}, {what}: {ratio:.2f} times as long with noise='auto'", flush=True)
    return rows


def of_set(X, y, X_new, y_new):
    """Return the seconds of a fit and of predictions with each noise, and their scores."""
    found = {}
    for noise in OF_SETS:
        remembered.cache_clear()  # or the second fit would learn nothing
        model = GPRegressor(noise=noise, random_state=0)
        found[f"fit {noise}"] = timed(partial(model.fit, X, y))[0]
        found[f"predict {noise}"], predicted = timed(partial(model.predict_distribution, X_new))
        told = scores(y_new, predicted, y.std()) | {"mean error": float(np.mean(y_new - predicted.mean()))}
        found |= {f"{score} {noise}": told[score] for score in ("nlpd", "rmse", "mean error")}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="*", default=[300, 1000, 4000, 20_000])
    parser.add_argument("--sets", nargs="*", default=[], choices=SETS)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    if args.sizes:
        write("noise", {"normal data": losses(args.sizes, args.draws)})
    if args.sets:
        write("noise", {"seconds": seconds(args.sets, args.repeats)})


if __name__ == "__main__":
    main()
