"""Where a localized fit spends its time: the share of the Python interpreter, and that of each step.

Samples the stacks of a fit and its predictions, native ones included, and attributes each sample to its innermost
frame. Runs in one thread, so that no sample is of a thread that waits.

    pip install py-spy
    python benchmarks/profile_localized.py [--rows 300000]

Writes benchmarks/results/profile_localized.json: the shares, by kind of code and by line of the package.
"""

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "profile_localized.json"
WORK = """
import sys
sys.path.insert(0, {here!r})
import numpy as np
from clustering import cities
from lmgp import GaussianKernel, LocalizedGPRegressor, TaylorFeatures

def fit_and_predict(X, y):
    model = LocalizedGPRegressor(
        TaylorFeatures({n_features}), {threshold}, approximation="fitc", kernel=GaussianKernel(), noise_variance=0.1
    )
    model.fit(X, y).predict(X[::10], return_std=True)

X = cities({rows})
fit_and_predict(X, np.sin(X[:, 0]) + np.cos(X[:, 1]))
"""


def stacks(rows, n_features, threshold):
    """Return the sampled stacks, outermost frame first, with their counts."""
    with tempfile.TemporaryDirectory() as folder:
        script, output = Path(folder) / "work.py", Path(folder) / "stacks.txt"
        here = str(Path(__file__).resolve().parent)
        script.write_text(WORK.format(here=here, rows=rows, n_features=n_features, threshold=threshold))
        command = ["py-spy", "record", "--native", "--rate", "100", "--format", "raw", "--output", str(output)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run([*command, "--", sys.executable, str(script)], check=True, env=environment, capture_output=True)
        for line in output.read_text().splitlines():
            stack, count = line.rsplit(" ", 1)
            yield stack.split(";"), int(count)


def kind(frame):
    if "libpython" in frame or re.search(r"\.py:\d+\)$", frame):
        return "Python interpreter"
    if "libtorch_python" in frame:
        return "torch's bindings to Python"
    return "native code"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=300_000)
    parser.add_argument("--n-features", type=int, default=120)
    parser.add_argument("--threshold", type=float, default=2.0)
    args = parser.parse_args()

    kinds, lines, total = Counter(), Counter(), 0
    for stack, count in stacks(args.rows, args.n_features, args.threshold):
        if not any(frame.startswith("fit_and_predict") for frame in stack):
            continue
        total += count
        kinds[kind(stack[-1])] += count
        lines[next(frame for frame in reversed(stack) if "lmgp/" in frame or "work.py" in frame)] += count
    shares = {
        "command": sys.argv,
        "python": platform.python_version(),
        "load average at the end": os.getloadavg(),
        "samples": total,
        "share by kind of code": {name: count / total for name, count in kinds.most_common()},
        "share by line": {name: count / total for name, count in lines.most_common(25)},
    }
    RESULTS.write_text(json.dumps(shares, indent=1) + "\n")
    for name, share in shares["share by kind of code"].items():
        print(f"{name}: {share:.1%}")


if __name__ == "__main__":
    main()
