"""How the time and the memory of the six strategies of kernel SGD grow with n, d, D and T.

Each sweep varies one size, at sizes where the arithmetic dominates, and fits the slope of its logarithms: the exponent
of that size in the lecture's table. Three quantities are measured apart: the time to make all rows (cached strategies
only); the time of the steps, less what the interpreter takes for as many steps on rows of next to no columns; and the
peak memory that Python and NumPy allocate (tracemalloc, in a run of its own).
The steps of strategy 4 over n are the exception: no Gram matrix that fits has rows long enough to outweigh the
interpreter, and a slope of None says that the difference drowned.

    python benchmarks/kernel_sgd.py [--quick] [--repeats 3]

Writes benchmarks/results/kernel_sgd.json: the command, the environment, all runs and slopes; draws docs/kernel_sgd.png.
With --quick, sizes are divided by 16 and nothing is written.
"""

import argparse
import json
import tracemalloc
from functools import reduce
from operator import add
from time import perf_counter

import numpy as np
from common import FIGURES, NARROW, RESULTS, WIDTH, write
from matplotlib import rc_context
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from lmgp import GaussianKernel, LinearKernel, RandomFourierFeatures
from lmgp.sgd import KernelSGDRegressor
from lmgp.sgd.functions import STRATEGIES, KernelFunctions, make_source

# What is measured of which strategy (1 to 6): sizes to start from, and for each size that is varied its values and its
# exponent in the table. A step of strategies 2, 4 and 6 reads one row: it takes many columns to outweigh the rest.
WIDE = {"values": [2**15, 2**16, 2**17, 2**18], "exponent": 1}
FEW = {"values": [32, 64, 128, 256], "exponent": 0}
T = {"values": [100, 200, 400, 800], "exponent": 1}


def grows(values, exponent=1):
    return {"values": values, "exponent": exponent}


SWEEPS = {
    "rows": {
        2: (
            {"n": 2000, "d": 256, "D": 2048, "T": 0},
            {
                "n": grows([500, 1000, 2000, 4000]),
                "d": grows([128, 256, 512, 1024]),
                "D": grows([1024, 2048, 4096, 8192]),
            },
        ),
        4: (
            {"n": 2000, "d": 128, "D": 0, "T": 0},
            {"n": grows([750, 1500, 3000, 6000], 2), "d": grows([64, 128, 256, 512])},
        ),
        6: (
            {"n": 1000, "d": 1024, "D": 2048, "T": 0},
            {
                "n": grows([500, 1000, 2000, 4000]),
                "d": grows([512, 1024, 2048, 4096]),
                "D": grows([1024, 2048, 4096, 8192]),
            },
        ),
    },
    "steps": {
        1: (
            {"n": 500, "d": 512, "D": 2048, "T": 100},
            {
                "n": grows([125, 250, 500, 1000], 0),
                "d": grows([256, 512, 1024]),
                "D": grows([1024, 2048, 4096, 8192]),
                "T": T,
            },
        ),
        2: ({"n": 64, "d": 0, "D": 2**16, "T": 400}, {"n": FEW, "D": WIDE, "T": T}),
        3: (
            {"n": 8000, "d": 128, "D": 0, "T": 50},
            {
                "n": grows([4000, 8000, 16000, 32000]),
                "d": grows([64, 128, 256, 512]),
                "T": grows([25, 50, 100, 200]),
            },
        ),
        4: (
            {"n": 4000, "d": 4, "D": 0, "T": 4000},
            {
                "n": grows([1000, 2000, 4000, 8000]),
                "d": grows([2, 4, 8, 16], 0),
                "T": grows([2000, 4000, 8000, 16000]),
            },
        ),
        5: (
            {"n": 500, "d": 1024, "D": 4096, "T": 100},
            {
                "n": grows([125, 250, 500, 1000], 0),
                "d": grows([512, 1024, 2048, 4096]),
                "D": grows([2048, 4096, 8192, 16384]),
                "T": T,
            },
        ),
        6: (
            {"n": 64, "d": 4, "D": 2**16, "T": 400},
            {"n": FEW, "d": grows([2, 4, 8, 16], 0), "D": WIDE, "T": T},
        ),
    },
    "memory": {
        1: (
            {"n": 100, "d": 256, "D": 4096, "T": 5},
            {"n": grows([100, 200, 400], 0), "d": grows([256, 512, 1024], 0), "D": grows([4096, 8192, 16384])},
        ),
        2: (
            {"n": 1000, "d": 128, "D": 1024, "T": 5},
            {
                "n": grows([1000, 2000, 4000]),
                "d": grows([64, 128, 256], 0),
                "D": grows([1024, 2048, 4096]),
            },
        ),
        3: (
            {"n": 8000, "d": 4, "D": 0, "T": 5},
            {"n": grows([8000, 16000, 32000]), "d": grows([4, 16, 64], 0)},
        ),
        4: ({"n": 4000, "d": 4, "D": 0, "T": 5}, {"n": grows([2000, 4000, 8000], 2), "d": grows([4, 16, 64], 0)}),
        5: (
            {"n": 100, "d": 256, "D": 2048, "T": 5},
            {
                "n": grows([100, 200, 400], 0),
                "d": grows([256, 512, 1024]),
                "D": grows([2048, 4096, 8192]),
            },
        ),
        6: (
            {"n": 1000, "d": 16, "D": 1024, "T": 5},
            {
                "n": grows([1000, 2000, 4000]),
                "d": grows([16, 32, 64], 0),
                "D": grows([1024, 2048, 4096]),
            },
        ),
    },
}


def exact_kernel(sizes, rng):
    """A kernel with a map of D features: a sum of D/d linear ones, D d operations a row; without d, a product."""
    if sizes["d"] == 0:
        return LinearKernel() * LinearKernel()
    kernels = [LinearKernel(np.diag(rng.uniform(0.5, 1.0, sizes["d"]))) for _ in range(sizes["D"] // sizes["d"])]
    # As a balanced tree: columns are copied once a level.
    while len(kernels) > 1:
        kernels = [reduce(add, kernels[i : i + 2]) for i in range(0, len(kernels), 2)]
    return kernels[0]


class Problem:
    """One strategy at one set of sizes, in the three parts of a fit."""

    def __init__(self, number, sizes):
        rng = np.random.default_rng(0)
        self.strategy, self.sizes = STRATEGIES[number - 1], sizes
        self.X = rng.standard_normal((sizes["n"], sizes["d"] or round(sizes["D"] ** 0.5)))
        self.X /= np.sqrt(self.X.shape[1])
        self.y = rng.standard_normal((sizes["n"], 1))
        self.kernel = GaussianKernel() if number > 2 else exact_kernel(sizes, rng)
        self.features = RandomFourierFeatures(max(2, sizes["D"]))

    def source(self):
        """The map or the kernel."""
        return make_source(self.strategy, self.kernel, self.features, self.X, np.random.default_rng(1))

    def rows(self, source):
        """The function to step, with all its rows where they are cached."""
        return KernelFunctions(self.strategy, source, self.X, 1, max_memory_gib=8.0)

    def steps(self, f):
        """T steps of the squared loss."""
        order = np.random.default_rng(2).integers(self.sizes["n"], size=self.sizes["T"]).tolist()
        for i in order:
            slope = f.outputs(i) - self.y[i]
            f.step(i, 0.9999, -0.01 * slope)


def seconds(action, repeats):
    """The shortest of some runs."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        result = action()
        times.append(perf_counter() - start)
    return min(times), result


def overhead(number, sizes, repeats):
    """What the interpreter takes for a step: its time where a row has next to no columns, of as many parts."""
    n_parts = sizes["D"] // sizes["d"] if number == 1 else 2
    problem = Problem(number, {"n": 4, "d": 2, "D": 2 * n_parts, "T": 500})
    f = problem.rows(problem.source())
    with threadpool_limits(1):  # as in `KernelSGD`
        return seconds(lambda: problem.steps(f), repeats)[0] / 500


def measure(part, number, sizes, repeats):
    """Seconds or bytes of one part of a fit."""
    problem = Problem(number, sizes)
    if part == "memory":
        # The exact map is taken as given, as in the table: d D numbers in memory, too, where it is a sum.
        source = None if number == 5 else problem.source()
        tracemalloc.start()
        source = problem.source() if source is None else source
        problem.steps(problem.rows(source))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak
    source = problem.source()
    if part == "rows":
        return seconds(lambda: problem.rows(source), repeats)[0]
    f = problem.rows(source)
    with threadpool_limits(1):
        problem.steps(f)
        return seconds(lambda: problem.steps(f), repeats)[0]


def slope(x, y):
    """The slope of log y over log x, by least squares; None where there is none."""
    if min(y) <= 0.0 or len(set(x)) == 1:
        return None
    return round(float(np.polyfit(np.log(x), np.log(y), 1)[0]), 3)


def sweep(part, number, base, varied, size, quick, repeats):
    values = [max(4, value // 16) if quick else value for value in varied["values"]]
    fixed = {name: max(4, value // 16) if quick and value else value for name, value in base.items()}
    runs = []
    for value in values:
        sizes = {**fixed, size: value}
        found = measure(part, number, sizes, repeats)
        # Measured next to each other: how busy the machine is changes.
        spent = overhead(number, sizes, repeats) * sizes["T"] if part == "steps" else 0.0
        runs.append({**sizes, "measured": found, "interpreter": spent})
    return {
        "part": part,
        "strategy": number,
        "size": size,
        "expected": varied["exponent"],
        "slope": slope(values, [run["measured"] - run["interpreter"] for run in runs]),
        "slope_with_interpreter": slope(values, [run["measured"] for run in runs]),
        "runs": runs,
    }


def one_problem(quick, repeats):
    """Seconds of whole fits at common sizes, 10 n steps: 1 and 2 with a kernel of as many features."""
    n, d = (200, 4) if quick else (4000, 16)
    X = np.random.default_rng(0).standard_normal((n, d)) / np.sqrt(d)
    y = np.sin(3.0 * X.sum(axis=1))
    found = {}
    for strategy in STRATEGIES:
        kernel = LinearKernel() * LinearKernel() if "features" in strategy else GaussianKernel()
        model = KernelSGDRegressor(
            kernel, features=RandomFourierFeatures(d * d), strategy=strategy, regularization=1e-5, random_state=0
        )
        found[strategy] = seconds(lambda model=model: model.fit(X, y), min(2, repeats))[0]
    return {"n": n, "d": d, "D": d * d, "T": 10 * n, "seconds": found}


def draw(sweeps):
    """Each quantity over each size, both as multiples of the first of the sweep; two panels a row."""
    shown = {}
    for part in SWEEPS:
        for size in ("n", "d", "D", "T"):
            # Those of strategy 4 that drowned in what the interpreter takes have no slope, and are not drawn.
            found = [f for f in sweeps if (f["part"], f["size"]) == (part, size) and f["slope"] is not None]
            if found:
                shown[part, size] = found
    n_rows = -(-(len(shown) + 1) // 2)  # one place for the legend
    with rc_context(NARROW):
        figure = Figure(figsize=(WIDTH, 2.7 * n_rows), layout="constrained")
        handles = {}
        for number, ((part, size), of_panel) in enumerate(shown.items()):
            axes = figure.add_subplot(n_rows, 2, number + 1)
            for exponent in (0, 1, 2):
                axes.plot([1, 16], [1, 16**exponent], color="0.8", zorder=0)
            for found in of_panel:
                strategy = found["strategy"]
                x = np.array([run[size] for run in found["runs"]])
                y = np.array([run["measured"] - run["interpreter"] for run in found["runs"]])
                style = {"color": f"C{strategy - 1}", "marker": "osD^vP"[strategy - 1], "markersize": 5}
                (handles[strategy],) = axes.plot(x / x[0], y / y[0], **style)
            axes.set(xscale="log", yscale="log", title=f"{part} over {size}", ylim=(0.4, 100), xticks=[1, 4, 16])
            axes.set_xticks([], minor=True)
            axes.set_xticklabels(["1", "4", "16"])
        axes = figure.add_subplot(n_rows, 2, len(shown) + 1)
        axes.axis("off")
        order = sorted(handles)
        axes.legend(
            [handles[number] for number in order],
            [f"strategy ({number})" for number in order],
            title="grey: slopes 0, 1 and 2",
            loc="center",
            frameon=False,
        )
        figure.supxlabel("size, over the smallest")
        figure.supylabel("seconds or bytes, over those of the smallest")
        figure.savefig(FIGURES / "kernel_sgd.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--redraw", action="store_true", help="only draw the figure, from the results")
    args = parser.parse_args()
    if args.redraw:
        draw(json.loads((RESULTS / "kernel_sgd.json").read_text())["sweeps"])
        return
    started = perf_counter()
    sweeps = []
    for part, strategies in SWEEPS.items():
        for number, (base, sizes) in strategies.items():
            for size, varied in sizes.items():
                found = sweep(part, number, base, varied, size, args.quick, args.repeats)
                sweeps.append(found)
                print(
                    f"{part:6} ({number}) over {size}: slope {found['slope']}, table {found['expected']} "
                    f"({[round(run['measured'], 4) for run in found['runs']]})"
                )
    problem = one_problem(args.quick, args.repeats)
    print(problem)
    print(f"{perf_counter() - started:.0f} s in all")
    if not args.quick:
        write("kernel_sgd", {"one_problem": problem, "sweeps": sweeps})
        draw(sweeps)


if __name__ == "__main__":
    main()
