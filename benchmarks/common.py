"""What the benchmarks share: where they ran, and how their results are kept."""

import argparse
import json
import platform
import re
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

HERE = Path(__file__).parent
RESULTS = HERE / "results"
FIGURES = HERE.parent / "docs"

# Settings of matplotlib for figures 6.6 inches wide, whose letters can be read at 390 pixels.
NARROW = {
    "font.size": 12,
    "axes.titlesize": 12,
    "axes.labelsize": 12,
    "xtick.labelsize": 11,
    "ytick.labelsize": 11,
    "legend.fontsize": 11,
    "lines.linewidth": 2,
    "savefig.dpi": 120,
}
WIDTH = 6.6


def environment():
    import torch  # here, so that a process that measures another package's memory does not hold it

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


def write(name, results, folder=RESULTS, **more):
    """Keep tables of results in FOLDER/NAME.json, a row a line; tables that are not given stay as they are.

    Each table is kept with the command that made it, where that ran, and what more is to be said of it.
    """
    path = folder / f"{name}.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    measured = {table: {"command": _command(), "environment": environment(), **more} for table in results}
    kept = {**kept, **results, "measured": {**kept.get("measured", {}), **measured}}
    parts = []
    for key, value in kept.items():
        text = "[\n" + ",\n".join("  " + json.dumps(row) for row in value) + "\n ]"
        parts.append(f" {json.dumps(key)}: {text if isinstance(value, list) else json.dumps(value)}")
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


def measure_or_redraw(about, sets, draws, measure, write_page):
    """Measure some sets as the command line says, and write the page; with --redraw write the page alone."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=sets, default=list(sets))
    parser.add_argument("--draws", type=int, default=draws)
    parser.add_argument("--data-dir", help="default: the environment variable LMGP_DATA_DIR")
    parser.add_argument("--redraw", action="store_true", help="only write the table")
    args = parser.parse_args()
    if not args.redraw:
        measure(args)
    write_page()


def write_table(page, mark, lines):
    """Put the lines of a table into a page of the documentation, between its mark and the end."""
    path, table = FIGURES / page, "\n".join((f"<!-- {mark} -->", *lines, "<!-- end -->"))
    path.write_text(re.sub(rf"<!-- {mark} -->.*?<!-- end -->", lambda _: table, path.read_text(), flags=re.DOTALL))


def _command():
    """Return the command line, with the last part only of paths that belong to one machine."""
    return [Path(part).name if Path(part).is_absolute() else part for part in sys.argv]
