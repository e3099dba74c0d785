"""Mutants of the modules that carry the mathematics, and how many of them the tests kill.

A mutant is a module with one operator, comparison, number or condition changed, by the operators of cosmic-ray. It is
killed where a test of its module fails, or takes more than sixteen times as long as without the change.

    make mutation        (or: python benchmarks/mutation.py [--only MODULE ...] [--most 120])

Needs the extra `mutation`. Of a module with more mutants than `--most`, a random sample of a fixed seed is tried.
Changed are neither messages of errors, annotations nor decorators; an operator of arithmetic becomes another of
+, −, × and ÷, since those of bits and remainders fail on any float. The repository stays as it is: each mutant is
imported from memory by a process of its own, forked from one that has loaded the libraries, on one core.

A reason that is written beside a survivor in the results, why no test can tell it from the original, stays there for
as long as it survives.
"""

import argparse
import contextlib
import gc
import importlib
import importlib.abc
import importlib.util
import json
import os
import random
import re
import resource
import signal
import sys
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before the libraries: a process with threads cannot be forked
sys.dont_write_bytecode = False

from common import RESULTS, write  # noqa: E402

ROOT = Path(__file__).resolve().parents[1]

# Part, module, and the tests of it that take seconds; those that kill most come first.
TARGETS = [
    ("metrics", "metrics/gaussian", ["test_metrics.py"]),
    ("metrics", "metrics/scorers", ["test_scorers.py"]),
    ("allocation", "features/allocation", ["features/test_allocation.py", "features/test_allocation_rows.py"]),
    (
        "rows",
        "data",
        [
            "test_rows.py",
            "test_noise.py",
            "sums/test_summary.py",
            "test_inputs.py",
            "contract/test_bad_parameters.py::test_weights_and_noise_variances",
            "contract/test_bad_rows.py::test_shapes_that_do_not_fit",
            "contract/test_bad_rows.py::test_two_rows_are_enough",
        ],
    ),
    ("posterior", "posteriors/base", ["posteriors/test_contract.py", "contract/test_predictions.py"]),
    ("posterior", "posteriors/weights", ["posteriors/test_contract.py", "contract/test_predictions.py"]),
    ("posterior", "posteriors/exact", ["posteriors/test_contract.py", "contract/test_predictions.py"]),
    (
        "trend",
        "posteriors/trend",
        [
            "posteriors/test_trend.py",
            "posteriors/test_contract.py::test_a_trend_is_that_of_universal_kriging",
            "posteriors/test_contract.py::test_combined_targets_with_a_trend_are_combined_with_their_trends",
        ],
    ),
    ("sums", "sums/base", ["sums/test_base.py", "sums/test_kept.py", "sums/test_modes.py", "sums/test_cubes.py"]),
    ("recipe", "recipes", ["test_recipes.py"]),
    ("robust fits", "estimators/robust", ["estimators/test_robust.py"]),
    ("learning", "learning/space", ["learning/test_space.py"]),
    ("learning", "learning/scoring", ["learning/test_scoring.py"]),
    (
        "learning",
        "learning/search",
        ["learning/test_search.py", "learning/test_screening.py", "learning/test_periods.py::TestStarts"],
    ),
    ("learning", "learning/heldout", ["learning/test_heldout.py"]),
    ("learning", "learning/choice", ["learning/test_choice.py", "learning/test_plausible.py"]),
    ("learning", "learning/trends", ["learning/test_trends.py"]),
    ("learning", "learning/periods", ["learning/test_periods.py"]),
    (
        "learning",
        "learning/forms",
        ["learning/test_forms.py", "learning/test_space.py::test_what_the_parameters_of_a_kernel_are_measured_in"],
    ),
    (
        "learning",
        "learning/engine",
        ["learning/test_learn.py", "learning/test_exact_likelihood.py", "learning/test_bad_rows.py"],
    ),
    ("selection", "selection/probes", ["selection/test_probes.py"]),
    ("selection", "selection/record", ["selection/test_selection.py"]),
    (
        "selection",
        "selection/choose",
        [
            "selection/test_choose.py",
            "selection/test_nearest.py",
            "estimators/test_chosen_modes.py::TestGlobalSolve::"
            "test_is_passed_over_where_it_takes_longer_than_the_exact_process",
        ],
    ),
    ("selection", "selection/candidates", ["selection/test_candidates.py", "selection/test_costs.py::TestSeconds"]),
    (
        "Vecchia likelihood",
        "posteriors/vecchia",
        [
            "posteriors/test_vecchia.py",
            "learning/test_several_targets.py::test_the_vecchia_likelihood_is_the_sum_of_those_of_each_target",
            "learning/test_several_targets.py::test_the_information_is_that_of_each_target_on_average",
            "learning/test_several_targets.py::test_squares_are_those_of_dense_algebra_where_all_rows_are_neighbours",
        ],
    ),
    ("spectral solver", "posteriors/modes", ["posteriors/test_modes.py", "posteriors/test_transforms.py"]),
    ("spectral solver", "posteriors/toeplitz", ["posteriors/test_toeplitz.py", "posteriors/test_preconditioning.py"]),
    ("spectral solver", "posteriors/spectral", ["posteriors/test_spectral.py"]),
    ("spectral solver", "sums/modes", ["sums/test_modes.py"]),
]
# What the parent loads, so that no child does.
LIBRARIES = [
    "gpytorch", "finufft", "matplotlib.pyplot", "pandas", "pooch", "pytest", "hypothesis.extra.numpy", "scipy.fft",
    "scipy.optimize", "scipy.spatial", "scipy.special", "scipy.stats", "sklearn.kernel_approximation",
    "sklearn.model_selection", "sklearn.neighbors", "sklearn.pipeline", "tqdm",
]  # fmt: skip
# Operators that any test kills, or none can.
LEFT_OUT = re.compile(
    r"ReplaceBinaryOperator_(\w+_(FloorDiv|Mod|Pow|RShift|LShift|BitOr|BitAnd|BitXor)|BitOr_\w+)$|RemoveDecorator$"
)
NOT_CHANGED = {"raise_stmt", "decorator", "fstring", "assert_stmt"}
MOST_MEMORY = 16 * 2**30
SECONDS = 5.0  # beyond several times those of the unchanged module


def places(source):
    """Return where a module can be changed: an operator of cosmic-ray, its occurrence and its line."""
    from cosmic_ray import plugins
    from cosmic_ray.ast import ast_nodes, get_ast

    nodes = list(ast_nodes(get_ast(source)))
    found = []
    for name in plugins.operator_names():
        operator = plugins.get_operator(name)
        if operator.arguments() or LEFT_OUT.search(name):
            continue
        of_operator = [(node, start) for node in nodes for start, _ in operator().mutation_positions(node)]
        found += [(name, i, line) for i, (node, (line, _)) in enumerate(of_operator) if is_code(node)]
    return found


def changed_at(source, name, occurrence):
    """Return the source of a mutant; None where it is none."""
    from cosmic_ray import plugins
    from cosmic_ray.mutating import mutate_code

    changed = mutate_code(source, plugins.get_operator(name)(), occurrence)
    try:
        compile(changed, name, "exec")
    except SyntaxError:
        return None
    return None if changed == source else changed


def is_code(node):
    """Say whether a node is neither of a message, of an annotation nor of a decorator."""
    while node is not None:
        parent = node.parent
        if node.type in NOT_CHANGED or is_annotation(node, parent):
            return False
        node = parent
    return True


def is_annotation(node, parent):
    if parent is None:
        return False
    if parent.type == "funcdef":
        return node is parent.annotation
    if parent.type == "tfpdef":
        return node is parent.children[2]
    return parent.type == "annassign" and node is parent.children[1]


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Give one module of the package its changed source, wherever it is imported from."""

    def __init__(self, path, source):
        self.name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        self.path, self.source = path, source

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def get_filename(self, fullname):
        return str(self.path)

    def get_data(self, path):
        return self.source.encode()

    def get_code(self, fullname):  # without a cache: that of the file on the disk is not of this source
        return self.source_to_code(self.source, str(self.path))


def tried(path, source, tests, seconds):
    """Run the tests of a module with this source, in a process of its own; return what became of it, and its time."""
    child = os.fork()
    if child == 0:
        status = 3
        os.setpgid(0, 0)
        try:
            status = in_child(path, source, tests, seconds)
        finally:
            os._exit(status)
    _, status, used = os.wait4(child, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # workers that its tests started, and that wait for more
    outcome = "survived" if status == 0 else "killed"
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGALRM, signal.SIGKILL):
        outcome = "timeout"
    return outcome, used.ru_utime + used.ru_stime


def in_child(path, source, tests, seconds):
    import pytest

    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nowhere, stream)
    # Of processor time, so that a busy machine kills no mutant; the alarm is for what waits.
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    signal.alarm(10 * int(seconds))
    sys.meta_path.insert(0, _Changed(path, source))
    paths = [f"tests/{test}" for test in tests]
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::SyntaxWarning", *paths]))


def run(part, module, tests, arguments, known):
    """Try the mutants of one module, or those that survived; after each, yield the module's row and all mutants'."""
    path = ROOT / "lmgp" / f"{module}.py"
    original = path.read_text(encoding="utf-8")
    outcome, seconds = tried(path, original, tests, 600.0)
    if outcome != "survived":
        raise SystemExit(f"{module}: its tests fail without a change: {', '.join(tests)}")
    found = places(original)
    earlier = (
        [one for one in known if one["module"] == module and one["outcome"] != "survived"] if arguments.again else []
    )
    lines, rows = original.splitlines(), []
    for name, occurrence, line in random.Random(arguments.seed).sample(found, len(found)):
        changed = None if len(rows) == arguments.most else changed_at(original, name, occurrence)
        if changed is None:
            continue
        before, after = difference(lines, changed.splitlines(), line)
        operator = name.rpartition("/")[2]
        row = {"module": module, "line": line, "operator": operator, "before": before, "after": after}
        outcome = next((one["outcome"] for one in earlier if one == {**row, "outcome": one["outcome"]}), "survived")
        if outcome == "survived":
            outcome, _ = tried(path, changed, tests, 4.0 * seconds + SECONDS)
        if outcome == "timeout":  # a second look with far more time, so that no load of the machine counts as a kill
            outcome, _ = tried(path, changed, tests, 4.0 * (4.0 * seconds + SECONDS))
        rows.append({**row, "outcome": outcome})
        if outcome == "survived":
            print(f"{module}:{line} {operator}\n  {before}\n  {after}", flush=True)
        outcomes = [one["outcome"] for one in rows]
        killed = len(rows) - outcomes.count("survived")
        counts = {
            "mutants": len(found),
            "tried": len(rows),
            "killed": killed,
            "of them by time": outcomes.count("timeout"),
        }
        yield {"part": part, "module": module, **counts, "percent killed": round(100.0 * killed / len(rows), 1)}, rows


def difference(lines, changed, line):
    """Return the line that differs, before and after."""
    pairs = [(a.strip(), b.strip()) for a, b in zip(lines, changed, strict=False) if a != b]
    return pairs[0] if pairs else (lines[line - 1].strip(), "")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="MODULE", help="such as posteriors/exact; the others stay")
    parser.add_argument("--most", type=int, default=120, metavar="N", help="mutants of a module")
    parser.add_argument("--again", action="store_true", help="after tests were added: those that were killed stay so")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    arguments = parser.parse_args()
    os.chdir(ROOT)
    sys.path.insert(0, str(ROOT))
    for library in LIBRARIES:
        importlib.import_module(library)
    gc.freeze()  # pytest collects garbage as it ends: not that of the libraries
    path = arguments.out / "mutation.json"
    known = json.loads(path.read_text()) if path.exists() else {"modules": [], "mutants": [], "survivors": []}
    for part, module, tests in TARGETS:
        if arguments.only and module not in arguments.only:
            continue
        row = {}
        for row, rows in run(part, module, tests, arguments, known["mutants"]):
            # The order is random: what is kept of a run that is stopped is a sample, too.
            found = merged(known, row, rows)
            write("mutation", {key: found[key] for key in ("modules", "survivors", "mutants")}, arguments.out)
        known = found
        print(row, flush=True)


def merged(known, row, rows):
    """Return the tables with those of one module in place of its earlier ones, and with the reasons that are known."""
    module, order = row["module"], [module for _, module, _ in TARGETS]
    reasons = {(one["module"], one["before"], one["after"]): one.get("reason") for one in known["survivors"]}
    survivors = [
        {**one, "reason": reasons.get((module, one["before"], one["after"]))}
        for one in rows
        if one["outcome"] == "survived"
    ]
    tables = {"modules": [row], "survivors": survivors, "mutants": rows}
    return {
        name: sorted(
            [*(one for one in known[name] if one["module"] != module and one["module"] in order), *new],
            key=lambda one: order.index(one["module"]),
        )
        for name, new in tables.items()
    }


if __name__ == "__main__":
    main()
