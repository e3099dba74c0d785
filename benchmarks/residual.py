"""A global map with local residuals beside its two parts: KL from the exact GP, and seconds, in eight and nine columns.

kin8nm in full, 10,000 rows of kin40k and of protein, columns and targets standardised. The Gaussian kernel with one
lengthscale, and the noise, are those of `ExactGPRegressor`. 1,000 test rows of the first published split, or what there
are.

    python benchmarks/residual.py [--sets NAME ...] [--repeats 3] [--data-dir DIR] [--shared]
    python benchmarks/residual.py --redraw  # the table alone, from the results

Seconds are those of the fit, and of means and standard deviations of the test rows. Writes
benchmarks/results/residual.json, medians and the environment, and the table in docs/residual.md.
"""

import argparse
import json
import os

import numpy as np
from common import RESULTS, write, write_table
from localized import Problem
from spectral import SHARED, compared, nearest

from lmgp import ExactGPRegressor, FeaturizedGPRegressor, NystroemFeatures, ResidualGPRegressor
from lmgp.experiments.datasets import load_dataset, split

SETS, N_ROWS, N_NEW = ("kin8nm", "kin40k", "protein"), 10_000, 1_000


def problem_of(name, data_dir):
    data = load_dataset(name, data_dir)
    train, test = split(data, 0)
    train, test = np.random.default_rng(0).permutation(train)[:N_ROWS], test[:N_NEW]
    X, y = data.X[train], data.y[train]
    center, scale = X.mean(axis=0), X.std(axis=0)
    X, y, new = (X - center) / scale, (y - y.mean()) / y.std(), (data.X[test] - center) / scale
    learned = ExactGPRegressor(random_state=0).fit(X, y)
    return Problem(X, y, learned.kernel_, learned.noise_variance_), new


def models():
    yield from nearest((64, 256))
    yield "Nyström 1024", FeaturizedGPRegressor(NystroemFeatures(1024, random_state=0))
    for size in (512, 1024, 2048):
        for k in (64, 128):
            yield f"residual {size}, {k}", ResidualGPRegressor(NystroemFeatures(size, random_state=0), k)


def write_page():
    """Put the table into its page."""
    kept = json.loads((RESULTS / "residual.json").read_text())
    lines = ["| set | model | KL | KL of the variances | seconds |", "|---|---|---:|---:|---:|"]
    for name in (name for name in SETS if name in kept):
        for number, run in enumerate(kept[name]):
            kls = [digits(run.get(key, 0.0)) for key in ("kl", "kl_of_variances")]
            seconds = f"{run['fit_s']:.1f} + {run['predict_s']:.1f}"
            lines.append(f"| {' | '.join(('' if number else name, label(run['model']), *kls, seconds))} |")
    write_table("residual.md", "residual", lines)


def label(model):
    """Say what a model is."""
    kind, *sizes = model.replace(",", "").split()
    if kind == "residual":
        return f"residual, {sizes[0]} landmarks, {sizes[1]} neighbours"
    if kind == "nearest":
        return f"nearest {sizes[0]} rows"
    return f"Nyström, {sizes[0]} landmarks" if sizes else kind


def digits(kl):
    """Write a divergence."""
    if kl < 0.01:
        return f"{kl:.1e}".replace("e-0", "e-") if kl else "0"
    return f"{kl:.{3 if kl < 1.0 else 2}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--data-dir", default=os.environ.get("LMGP_DATA_DIR"))
    parser.add_argument("--shared", action="store_true", help=SHARED)
    parser.add_argument("--redraw", action="store_true", help="only write the table of what is in the results")
    args = parser.parse_args()
    for name in () if args.redraw else args.sets:
        problem, new = problem_of(name, args.data_dir)
        results = list(compared(name, problem, new, list(models()), args.repeats))
        write("residual", {name: results}, **({"shared": SHARED} if args.shared else {}))
    write_page()


if __name__ == "__main__":
    main()
