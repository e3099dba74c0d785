"""What the benchmarks share: where they ran, and how their results are kept."""

import json
import platform
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import scipy
import sklearn
import torch
from threadpoolctl import threadpool_info

HERE = Path(__file__).parent
RESULTS = HERE / "results"
FIGURES = HERE.parent / "docs"


def environment():
    return {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "torch": torch.__version__,
        "scikit-learn": sklearn.__version__,
        "torch threads": torch.get_num_threads(),
        "blas": [{key: pool[key] for key in ("internal_api", "version", "num_threads")} for pool in threadpool_info()],
    }


def timed(action):
    """Return how many seconds an action takes, and its result."""
    start = perf_counter()
    result = action()
    return perf_counter() - start, result


def write(name, results):
    """Keep results as results/NAME.json, with the command and the environment, a row of a table in each line."""
    parts = []
    for key, value in {"command": sys.argv, "environment": environment(), **results}.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            text = "[\n" + ",\n".join("  " + json.dumps(row) for row in value) + "\n ]"
        else:
            text = json.dumps(value)
        parts.append(f" {json.dumps(key)}: {text}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text("{\n" + ",\n".join(parts) + "\n}\n")
