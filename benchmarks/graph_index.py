"""A graph of near rows in place of the exact search: seconds, misses, and what they cost in nats.

Predictions from the 64 nearest training rows, once by `lmgp.neighbours.leaves.Leaves`, which misses none, and once by
the graphs of hnswlib (16 links) and pynndescent (its default), each at several settings of accuracy. Rows are those of
real sets, and made ones of 100 columns, in lengthscales of the kernel that `learn` finds for them.

    pip install hnswlib==0.8.0 pynndescent==0.7.0
    python benchmarks/graph_index.py [--data-dir DIR] [--cases NAME ...] [--threads 2] [--redraw]

Writes benchmarks/results/graph_index.json, a table of each case, and the table in docs/nearest_rows.md.
"""

import argparse
import json
import os

import numpy as np
from common import RESULTS, timed, write, write_table
from many_columns import table
from quality import load, standardised
from threadpoolctl import threadpool_limits

from lmgp import learn
from lmgp.data import Noise, Rows
from lmgp.metrics import nlpd
from lmgp.neighbours.leaves import Leaves
from lmgp.neighbours.trees import tree_points
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.utils.parallel import parallel_map

K, N_NEW, N_LEARNED = 64, 10_000, 20_000
# Names of real sets, and the rows and columns of made ones.
CASES = {
    "kin40k": None,
    "elevators": None,
    "keggdirected": None,
    "hflights": None,
    "made, 8 columns": (1_000_000, 8),
    "made, 100 columns": (100_000, 100),
}
# The number of rows that a search of hnswlib keeps in view, and by what pynndescent goes on beyond the nearest row.
VIEWS, BEYOND = (64, 128, 256), (0.1, 0.3)


def rows_of(name, data_dir):
    if CASES[name] is None:
        X, y, new, observed, _ = load(name, data_dir)
        X, new = standardised(X, new)
        return X, y, new[:N_NEW], observed[:N_NEW]
    (X, y), (new, observed) = table(*CASES[name])
    return X, y, new[:N_NEW], observed[:N_NEW]


def exact_search(points, threads):
    build_s, leaves = timed(lambda: Leaves.of(points))

    def query(new):
        parts = np.array_split(new, max(1, len(new) // 256))
        return np.concatenate(parallel_map(lambda part: leaves.query(part, np.arange(1, K + 1))[1], parts))

    return build_s, [("exact", None, query)]


def hnswlib_search(points, threads):
    import hnswlib

    graph = hnswlib.Index(space="l2", dim=points.shape[1])

    def build():
        graph.init_index(max_elements=len(points), ef_construction=200, M=16, random_seed=0)
        graph.add_items(points, num_threads=threads)

    build_s, _ = timed(build)

    def with_view(view):
        def query(new):
            graph.set_ef(view)
            return graph.knn_query(new, k=K, num_threads=threads)[0].astype(np.intp)

        return query

    return build_s, [("hnswlib", view, with_view(view)) for view in VIEWS]


def pynndescent_search(points, threads):
    import pynndescent

    def build():
        graph = pynndescent.NNDescent(points.astype(np.float32), n_jobs=threads, random_state=0)
        graph.prepare()
        graph.query(points[:10].astype(np.float32), k=K)
        return graph

    build()  # once to compile
    build_s, graph = timed(build)

    def with_epsilon(epsilon):
        return lambda new: graph.query(new.astype(np.float32), k=K, epsilon=epsilon)[0].astype(np.intp)

    return build_s, [("pynndescent", epsilon, with_epsilon(epsilon)) for epsilon in BEYOND]


def measure(name, data_dir, threads):
    X, y, new, observed = rows_of(name, data_dir)
    some = np.random.default_rng(0).permutation(len(y))[:N_LEARNED]
    learned = learn(X[some], y[some], kernel="matern12+matern52", random_state=0)
    rows = Rows(X, y - y.mean())
    posterior = NearestPosterior(learned.kernel, rows, Noise(learned.noise_variance), K, share=False)
    of_rows, prior = posterior._predictor(), learned.kernel.evaluate_diagonal(new)
    points, searched = learned.kernel.points(X), tree_points(learned.kernel, new)
    nearest, runs = None, []
    for search in (exact_search, hnswlib_search, pynndescent_search):
        build_s, queries = search(points, threads)
        for method, setting, query in queries:
            query(searched[:100])
            query_s, near = timed(lambda query=query: query(searched))
            solve_s, (means, reduction, _) = timed(lambda near=near: of_rows(near, new))
            nearest = near if nearest is None else nearest
            in_both = sum(len(np.intersect1d(*pair)) for pair in zip(near, nearest, strict=True)) / near.size
            scale = np.sqrt(np.maximum(prior - reduction, 0.0) + learned.noise_variance)
            run = {
                "method": method, "setting": setting, "rows": len(y), "columns": points.shape[1], "build_s": build_s,
                "queries_per_s": len(new) / query_s, "solves_per_s": len(new) / solve_s, "missed": 1.0 - in_both,
                "nlpd": nlpd(observed, means[:, 0] + y.mean(), scale**2),
            }  # fmt: skip
            runs.append(run)
            print(name, run, flush=True)
            write("graph_index", {name: runs})


def write_page():
    """Put the quickest setting of each graph into the page, between its marks."""
    kept = json.loads((RESULTS / "graph_index.json").read_text())
    graphs = ("hnswlib", VIEWS[0]), ("pynndescent", BEYOND[0])
    heading = ["", "rows", "columns", "solved/s", "exact: s", "searches/s"]
    for method, _ in graphs:
        heading += [f"{method}: s", "searches/s", "missed", "nats lost"]
    lines = [f"| {' | '.join(heading)} |", "|---|" + "---:|" * (len(heading) - 1)]
    for name in (name for name in CASES if name in kept):
        exact, *runs = kept[name]
        numbers = [
            f"{exact['rows']:,}",
            f"{exact['columns']}",
            f"{np.median([run['solves_per_s'] for run in runs]):,.0f}",
        ]
        numbers += [f"{exact['build_s']:.2f}", f"{exact['queries_per_s']:,.0f}"]
        for run in (run for run in runs if (run["method"], run["setting"]) in graphs):
            numbers += [f"{run['build_s']:.1f}", f"{run['queries_per_s']:,.0f}", f"{run['missed']:.2%}"]
            numbers += [f"{run['nlpd'] - exact['nlpd']:.4f}"]
        lines.append(f"| {name} | {' | '.join(numbers)} |")
    write_table("nearest_rows.md", "graphs", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--data-dir", help="default: the environment variable LMGP_DATA_DIR")
    parser.add_argument("--threads", type=int, default=min(2, os.cpu_count()))
    parser.add_argument("--redraw", action="store_true", help="only write the table of what is in the results")
    args = parser.parse_args()
    if not args.redraw:
        with threadpool_limits(args.threads):
            for name in args.cases:
                measure(name, args.data_dir, args.threads)
    write_page()


if __name__ == "__main__":
    main()
