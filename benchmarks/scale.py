"""Fits to generated rows that are never in memory at once: seconds and the peak of memory, from 10⁴ to 10⁷ rows.

A Fourier map with D = 1,024 of rows of eight columns, in both precisions; the localized Taylor and the spectral model
of rows of two columns, 40 × 40 lengthscales of a Gaussian kernel. Beside them, what limits them: numpy's FᵀF in
chunks, one transform of all rows, and the reading of a Parquet file.

    python benchmarks/scale.py [--methods NAME ...] [--most 10000000] [--again] [--shared]

Each cell runs in its own process with one thread. What is in benchmarks/results/scale.json already is kept: a run that
was stopped goes on; `--again` measures again. Draws docs/scale.png, and prints the tables of docs/scale.md. Seconds
are without those of the generator, which are measured in the same process.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from common import FIGURES, RESULTS, write

SHARED = "other processes ran on the same cores: seconds are upper bounds, processor seconds are nearer"
EXTENT, D, CHUNK = 40.0, 1024, 2**14
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
# The largest number of rows of a method, beside --most; the columns of its rows.
METHODS = {
    "fourier": (1_000_000, 8),
    "fourier, float32": (1_000_000, 8),
    "localized": (10_000_000, 2),
    "spectral": (10_000_000, 2),
}
LABELS = {
    "fourier": "Fourier features, D = 1,024, eight columns",
    "fourier, float32": "the same, float32",
    "localized": "localized, 66 Taylor features, two columns",
    "spectral": "spectral, two columns",
}


def model_of(method):
    import lmgp

    if method.startswith("fourier"):
        return lmgp.FeaturizedGPRegressor(
            lmgp.RandomFourierFeatures(D, random_state=0),
            kernel=lmgp.GaussianKernel(3.0),
            noise_variance=0.1,
            feature_dtype="float32" if method.endswith("32") else "float64",
        )
    given = {"kernel": lmgp.GaussianKernel(1.0), "noise_variance": 0.1}
    if method == "localized":
        return lmgp.LocalizedGPRegressor(lmgp.TaylorFeatures(66), threshold=1.5, **given)
    return lmgp.SpectralGPRegressor(box=[[0.0, 0.0], [EXTENT, EXTENT]], **given)


class Rows:
    """A source of chunks that are drawn anew in each pass, with the seconds that drawing takes."""

    def __init__(self, n, n_columns):
        self.n, self.n_columns, self.seconds, self.processor = n, n_columns, 0.0, 0.0
        self.size = CHUNK if n_columns > 2 else 2**18

    def drawn(self, number):
        """Draw the rows of a chunk."""
        rng = np.random.default_rng(number)
        n = min(self.size, self.n - number * self.size)
        X = rng.uniform(0.0, EXTENT, (n, 2)) if self.n_columns == 2 else rng.normal(size=(n, self.n_columns))
        return X, np.sin(X[:, 0]) + np.cos(X[:, 1]) + 0.3 * rng.normal(size=n)

    def __call__(self):
        """Yield all chunks."""
        for number in range(-(-self.n // self.size)):
            start = perf_counter(), process_time()
            chunk = self.drawn(number)
            self.seconds += perf_counter() - start[0]
            self.processor += process_time() - start[1]
            yield chunk


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def fit(method, n):
    """Fit a model to n rows; return what it took."""
    rows = Rows(n, METHODS[method][1])
    model, before = model_of(method), peak()
    start = perf_counter(), process_time()
    model.fit(rows)
    seconds, processor = perf_counter() - start[0] - rows.seconds, process_time() - start[1] - rows.processor
    start = perf_counter()
    model.predict(Rows(1000, rows.n_columns).drawn(0)[0], return_std=True)
    row = {"seconds": seconds, "processor seconds": processor, "before GiB": before, "peak GiB": peak()}
    row |= {"drawing": rows.seconds, "1,000 predictions": perf_counter() - start, "bytes": size_of(model)}
    if method == "fourier, float32":
        row["divergence"] = model.rounding_divergence_
    return row


def size_of(model):
    """Return the bytes of the sums of a model, which is what workers send."""
    import joblib

    sums = model._fitted.sums.settled
    with tempfile.TemporaryDirectory() as folder:
        return sum(Path(one).stat().st_size for one in joblib.dump(sums, f"{folder}/sums"))


def limit(method, n):
    """Return the seconds of what a fit to n rows cannot do without: products, a transform, and the file."""
    rows = Rows(n, METHODS[method][1])
    row = {"file": reading(rows)}
    if method.startswith("fourier"):
        F = np.random.default_rng(0).normal(size=(rows.size, D))
        F = F.astype(np.float32) if method.endswith("32") else F
        total = np.zeros((D, D))
        for number in range(1 + max(1, n // rows.size)):
            if number == 1:  # the first one warms up
                start = process_time()
            total += F.T @ F
        row["product"] = (process_time() - start) * n / (number * rows.size)
    if method == "spectral":
        row["transform"] = transforming(rows)
    return row


def reading(rows):
    """Return the seconds of one pass over a Parquet file of these rows."""
    import pyarrow
    from pyarrow import parquet

    import lmgp

    names = [*(f"x{j}" for j in range(rows.n_columns)), "y"]
    schema = pyarrow.schema([(name, pyarrow.float64()) for name in names])
    with tempfile.TemporaryDirectory() as folder:
        with parquet.ParquetWriter(f"{folder}/rows.parquet", schema, compression="none") as writer:
            for X, y in rows():
                writer.write_table(pyarrow.table(dict(zip(names, [*X.T, y], strict=True)), schema=schema))
        source = lmgp.io.open_dataset(f"{folder}/rows.parquet", target="y")
        for _ in range(2):
            start = process_time()
            for chunk in source.chunks():
                len(chunk.y)
        return process_time() - start


def transforming(rows):
    """Return the seconds of one transform of these rows, with the modes of the fit."""
    import finufft

    model = model_of("spectral").fit(*rows.drawn(0))
    modes, eps = model.sums_.plan.modes, model.sums_.plan.transform_tolerance
    seconds, size = 0.0, tuple(4 * int(m) + 1 for m in modes.counts)
    for X, y in rows():
        angles, strengths = modes.angles(X), (np.ones(len(y)) + 1j * y).astype(np.complex128)
        start = process_time()
        finufft.nufft2d1(*angles, strengths, size, eps=eps, nthreads=1, isign=-1, modeord=1)
        seconds += process_time() - start
    return seconds


def in_its_own_process(action, method, n):
    command = [sys.executable, __file__, "--cell", action, method, str(n)]
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    found = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **one}, check=False)
    if found.returncode:
        raise SystemExit(f"{method}, {n:,} rows: {found.stderr}")
    return {"method": method, "rows": n, **json.loads(found.stdout)}


def measure(args):
    path = RESULTS / "scale.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    more = {"shared": SHARED} if args.shared else {}
    for method in args.methods:
        most = min(args.most, METHODS[method][0])
        cells = [("fits", n) for n in SIZES if n <= most] + [("limits", min(most, 1_000_000))]
        for table, n in cells:
            rows = kept.setdefault(table, [])
            if not args.again and any((row["method"], row["rows"]) == (method, n) for row in rows):
                continue
            print(f"{method}: {table} of {n:,} rows", flush=True)
            found = in_its_own_process(table, method, n)
            rows[:] = [row for row in rows if (row["method"], row["rows"]) != (method, n)] + [found]
            write("scale", {table: rows}, **more)
    return kept


def rates(kept):
    """Yield, of each method, its fits, and the rows a second of what limits it."""
    for method in METHODS:
        fits = sorted((row for row in kept["fits"] if row["method"] == method), key=lambda row: row["rows"])
        for row in kept["limits"]:
            if fits and row["method"] == method:
                limits = {name: row["rows"] / row[name] for name in ("product", "transform", "file") if name in row}
                yield method, fits, limits


def heading(*names):
    print(f"\n| | {' | '.join(names)} |\n|---|{'---:|' * len(names)}")


def report(kept, n=10**9, workers=100, gigabits=10.0):
    """Print the tables of docs/scale.md."""
    heading("rows", "seconds", "processor seconds", "rows a second", "peak, GiB", "above the start, GiB")
    for method, fits, _ in rates(kept):
        for row in fits:
            rate = row["rows"] / row["processor seconds"]
            print(
                f"| {LABELS[method]} | {row['rows']:,} | {row['seconds']:.2f} | {row['processor seconds']:.2f} | "
                f"{rate:,.0f} | {row['peak GiB']:.2f} | {row['peak GiB'] - row['before GiB']:.2f} |"
            )
    heading("slope of log time", "of log memory", "share of the product's rate", "the transform's", "the file's")
    for method, fits, limits in rates(kept):
        large = [row for row in fits if row["rows"] >= 100_000]
        slopes = ["–", "–"]
        if len(large) > 1:
            logs = np.log([[row[key] for row in large] for key in ("rows", "processor seconds", "peak GiB")])
            slopes = [f"{np.polyfit(logs[0], one, 1)[0]:.2f}" for one in logs[1:]]
        rate = fits[-1]["rows"] / fits[-1]["processor seconds"]
        shares = [f"{rate / limits[name]:.2f}" if name in limits else "–" for name in ("product", "transform", "file")]
        print(f"| {LABELS[method]} | {' | '.join(slopes + shares)} |")
    print(f"\n{n:.0e} rows, {workers} workers, sums sent at {gigabits:g} Gbit/s:")
    heading("MB of sums", "seconds of a worker", "levels", "GB moved", "seconds of the reduction")
    for method, fits, _ in rates(kept):
        first, last = fits[-2], fits[-1]
        each = (last["processor seconds"] - first["processor seconds"]) / (last["rows"] - first["rows"])
        depth = int(np.ceil(np.log2(workers)))
        moved, own = last["bytes"] * (workers - 1), each * n / workers
        print(
            f"| {LABELS[method]} | {last['bytes'] / 1e6:.2f} | {own:,.1f} | {depth} | {moved / 1e9:.3f} | "
            f"{depth * last['bytes'] * 8 / gigabits / 1e9:.3f} |"
        )


def draw(kept):
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.0, 4.0), layout="constrained")
    for method, fits, _ in rates(kept):
        n = [row["rows"] for row in fits]
        left.loglog(n, [row["processor seconds"] for row in fits], "o-", label=LABELS[method])
        right.semilogx(n, [row["peak GiB"] for row in fits], "o-")
    left.set(xlabel="rows", ylabel="processor seconds of the fit")
    right.set(xlabel="rows", ylabel="peak of memory, GiB", ylim=(0.0, None))
    figure.legend(*left.get_legend_handles_labels(), fontsize=7, ncols=2, loc="outside lower center")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(FIGURES / "scale.png", dpi=150, metadata={"Software": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--most", type=int, default=SIZES[-1], help="rows of the largest cell")
    parser.add_argument("--again", action="store_true", help="measure what is measured already")
    parser.add_argument("--shared", action="store_true", help=SHARED)
    parser.add_argument("--cell", nargs=3, metavar=("TABLE", "METHOD", "ROWS"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.cell:
        table, method, n = args.cell
        print(json.dumps({"fits": fit, "limits": limit}[table](method, int(n))))
        return
    kept = measure(args)
    report(kept)
    draw(kept)


if __name__ == "__main__":
    main()
