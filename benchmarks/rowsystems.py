"""Systems of the rows near to each row: how many a second, compiled and by torch.

Both with two threads, and with the same rows, neighbours and kernel: a sum of a Matérn-1/2 and a Matérn-5/2 kernel with
a lengthscale for each of 8 columns. Each run of one follows one of the other. Beside the rows in a second that passes,
those in a second of the processor, two of which pass at a time where nobody else uses the machine.

predictions   Means and variances of 20,000 rows from their nearest 30 and 64 of 20,000 rows, and of 2,000 from their
              nearest 256, search included; by compiled loops also in single precision. The search alone is told beside
              them.
left out      Training rows, each from the nearest others, search included.
likelihood    Terms, gradient and information of 4,000 positions with 30 and 64 neighbours before them, and terms alone;
              without the search, which many evaluations share.
residual      A tenth as many rows, predicted and left out by 1,024 landmarks and 30 or 128 neighbours.
cells         Of two columns, where rows near each other share the rows around them: as many new rows as training rows,
              and ten times as many, from 100 neighbours; means and variances, and means alone.
exact         Value and gradient of the exact likelihood of 500, 1,000 and 2,000 rows, as learning evaluates it.

    python benchmarks/rowsystems.py [--only rows cells] [--repeats 5] [--quick]

Writes benchmarks/results/rowsystems.json: every run, and the environment.
"""

import argparse
from contextlib import contextmanager
from functools import partial
from itertools import product
from statistics import median
from time import process_time

import numpy as np
import torch
from common import timed, write

from lmgp import MaternKernel, NystroemFeatures
from lmgp.data import Noise, Rows, sampling
from lmgp.posteriors.exact import ExactLikelihood
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.posteriors.rowsystems import RowSystems
from lmgp.posteriors.vecchia import VecchiaLikelihood
from lmgp.recipes import Residual
from lmgp.utils.parallel import single_threaded

N_COLUMNS, NOISE = 8, Noise(0.1)


def problem(n, n_columns=N_COLUMNS):
    """Return training rows, new rows and a kernel."""
    rng = np.random.default_rng(0)
    X, new = rng.uniform(size=(2, n, n_columns))
    lengthscale = np.exp(0.6 * rng.normal(size=n_columns))
    kernel = MaternKernel(lengthscale, 1.0, 0.5) + MaternKernel(2.0 * lengthscale, 2.0, 2.5)
    y = np.sin(3.0 * X / lengthscale).sum(axis=1) + NOISE.variance**0.5 * rng.normal(size=n)
    return Rows(X, y - y.mean()), new, kernel


@contextmanager
def by_torch():
    """Take no kernel to compiled code."""
    of, RowSystems.of = RowSystems.of, lambda *_: None
    try:
        yield
    finally:
        RowSystems.of = of


def measured(what, n, action, repeats, ways=("compiled", "torch")):
    """Run an action on n rows in turn by each way, and return a result of each."""
    runs = {way: [] for way in ways}
    for _ in range(repeats):
        for way in ways:
            start = process_time()
            if way == "torch":
                with by_torch():
                    seconds, _ = timed(action)
            else:
                seconds, _ = timed(action)
            runs[way].append((seconds, process_time() - start))
    results = []
    for way, of_way in runs.items():
        wall, busy = (median(run[part] for run in of_way) for part in (0, 1))
        results.append(
            {
                "what": what,
                "way": way,
                "n": n,
                "seconds": [run[0] for run in of_way],
                "processor_seconds": [run[1] for run in of_way],
                "rows_a_second": round(n / wall),
                "rows_a_processor_second": round(n / busy),
            }
        )
        print(f"{what}, {way}: {n / wall:,.0f} a second, {n / busy:,.0f} a processor's second", flush=True)
    return results


def of_rows(n, repeats):
    rows, new, kernel = problem(n)
    results = []
    for k in (30, 64, 256):
        some = new[: len(new) // (10 if k > 100 else 1)]
        index = np.random.default_rng(1).permutation(len(rows))[: len(some)]
        posterior, single = (
            NearestPosterior(kernel, rows, NOISE, k, share=False, precision=precision)
            for precision in ("float64", "float32")
        )
        points = kernel.in_lengthscales(some)

        def search(posterior=posterior, points=points, k=k):
            posterior._forest.query(points, k)

        for what, action, *ways in (
            ("search, one thread", search, ("tree",)),
            ("predictions", lambda posterior=posterior, some=some: posterior.predict(some)),
            ("predictions in single precision", lambda single=single, some=some: single.predict(some), ("compiled",)),
            ("left out", lambda posterior=posterior, index=index: posterior.leave_one_out(index)),
        ):
            results += measured(f"{what}, {k} neighbours", len(some), action, repeats, *ways)
    free = np.append(kernel.theta, np.log(NOISE.variance))
    for k in (30, 64):
        likelihood = VecchiaLikelihood(rows, 4_000, k, np.random.default_rng(0))
        likelihood.look_for_neighbours(kernel)
        for what, action in (("likelihood", likelihood), ("terms of the likelihood", likelihood.terms)):
            n = likelihood.n_positions
            results += measured(f"{what}, {k} neighbours", n, lambda action=action: action(kernel, free), repeats)
    return results


def of_residuals(n, repeats):
    rows, new, kernel = problem(n)
    index, results = np.random.default_rng(1).permutation(len(rows))[: len(rows) // 10], []
    for k in (30, 128):
        posterior = Residual(NystroemFeatures(1024), k).posterior(kernel, NOISE.variance, rows, sampling())
        posterior.leave_one_out(index[:1])  # what all predictions share
        for what, predict, given in (
            ("predictions", posterior.predict, new[index]),
            ("left out", posterior.leave_one_out, index),
        ):

            def action(posterior=posterior, predict=predict, given=given):
                vars(posterior).pop("_systems", None)  # those of the other way
                predict(given)

            results += measured(f"residual, {what}, {k} neighbours", len(index), action, repeats)
    return results


def of_cells(n, repeats):
    rows, new, kernel = problem(n, 2)
    posterior, results = NearestPosterior(kernel, rows, NOISE, 100), []
    many = np.random.default_rng(1).uniform(size=(10 * n, 2))
    for new_rows, variance in product((new, many), (True, False)):
        what = f"cells, {len(new_rows) // n} new for each row, {'means and variances' if variance else 'means'}"
        action = partial(posterior.predict, new_rows, variance)
        results += measured(what, len(new_rows), action, repeats)
    return results


def of_exact(n, repeats):
    results = []
    for size in (n // 40, n // 20, n // 10):
        rows, _, kernel = problem(size)
        likelihood, free = ExactLikelihood(rows), np.append(kernel.theta, np.log(NOISE.variance))
        with single_threaded():
            likelihood(kernel, free)
            action = partial(likelihood, kernel, free)
            results += measured(f"exact likelihood, {size:,} rows", size, action, repeats)
    return results


PARTS = {"rows": of_rows, "residual": of_residuals, "cells": of_cells, "exact": of_exact}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="few rows, to see that it works; keeps nothing")
    args = parser.parse_args()
    torch.set_num_threads(2)
    n, repeats = (2_000, 1) if args.quick else (20_000, args.repeats)
    results = {part: PARTS[part](n, repeats) for part in args.only}
    if not args.quick:
        write("rowsystems", results)


if __name__ == "__main__":
    main()
