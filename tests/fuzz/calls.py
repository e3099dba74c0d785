"""Calls of the command line: random ones, of the options that the parser has itself."""

import argparse
from typing import Any

import numpy as np

from lmgp.cli import _parser

Random = np.random.Generator

# What an option gets: by its destination, by its type, or else anything. What may be right comes first.
TEXT = ("a", "", "b", "y", "c", "-", "--", "nowhere", ".", "0", "-1", "x" * 300, "ä", "\0", "\n", "a=0:1:3", "*", "%s")
WHOLE = ("1", "2", "0", "0.5", "-1", "1e3", "nan", "inf", "", "x", "1_0", "9" * 30)
NUMBERS = ("0.5", "1", "0.9", "0", "-1", "1e-300", "1e300", "1e400", "nan", "inf", "-inf", "", "x", "1_0", "9" * 30)
PLACES = ("out.csv", "out.csv.gz", "out.html", "out.lmgp", "out.parquet", "out.nc", "out.png", "out", "-")
NO_PLACES = (".", "", "rows.csv", "nowhere/out.csv", "rows.csv/out.csv", "\0", "x" * 300, "model.lmgp")
AXES = ("a=0:1:3", "b=1", "a=1", "b=0:1:2", "a=1:0:4", "y=1", "a=0:1:0", "a=nan", "a=0:1:999999999", "=1", "a", "a=")
OF_OPTION: dict[str, tuple[str, ...]] = {
    "sep": (",", ";", "tab", "\\t", "", ";;", "\n", '"', "\0", " ", "ä", "."),
    "decimal": (".", ",", "", "x"),
    "encoding": ("utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-7", "klingon", "", "hex", "idna", "undefined", "\0"),
    "grid": AXES,
    "kernel": ("gaussian", "matern32", "matern12+gaussian", "rational_quadratic", "gausian", "", "+", "gaussian+"),
    "trend": ("constant", "linear", "a", "b", "c", ""),
    "columns": ("a", "b", "y", "c", "", "a,b"),
    "target": ("y", "a", "z", "", "Y"),
    "methods": ("rff", "exact", "local_taylor", "rff2", ""),
    "method": ("nowhere:Map", "math:sqrt", "lmgp:TaylorFeatures", "lmgp:", ":", "", "lmgp.errors:InputError"),
    "data_dir": (".", "nowhere", "rows.csv", "", "\0"),
    "out": PLACES + NO_PLACES,
    "report": ("out.html", *PLACES, *NO_PLACES),
}
# How often a value is the first of these.
FIRST = 0.75
# What takes seconds is tried seldom: the last of an option counts.
QUICK: dict[str, list[str]] = {
    "fit": ["--kernel", "gaussian"],
    "compare": ["--methods", "rff", "--n-features", "8", "--seeds", "1"],
    "reproduce": ["--seeds", "0"],
}


def commands() -> dict[str, argparse.ArgumentParser]:
    """The parser of every command."""
    (of_commands,) = [one for one in _parser()._actions if isinstance(one, argparse._SubParsersAction)]
    return dict(of_commands.choices)


COMMANDS = commands()
# Those of a model file, and those of a table or a data set.
OF_MODELS = [name for name, parser in COMMANDS.items() if "model" in [one.dest for one in parser._actions]]
OF_TABLES = [
    name
    for name, parser in COMMANDS.items()
    if {"table", "datasets"} & {one.dest for one in parser._actions if not one.option_strings}
]


def _value(action: argparse.Action, rng: Random) -> str:
    pool: tuple[Any, ...]
    if action.choices is not None and rng.random() < 0.85:
        pool = tuple(map(str, action.choices))
    elif action.dest in OF_OPTION and rng.random() < 0.9:
        pool = OF_OPTION[action.dest]
    elif action.type is not None:
        pool = WHOLE if action.type is int else NUMBERS
    else:
        pool = TEXT
    return str(pool[0 if rng.random() < FIRST else int(rng.integers(len(pool)))])


def _option(action: argparse.Action, rng: Random) -> list[str]:
    name = action.option_strings[int(rng.integers(len(action.option_strings)))]
    if action.nargs == 0:
        return [name]
    n = int(rng.integers(1, 4)) if action.nargs in ("+", "*") else 1
    if rng.random() < 0.03:
        n = 0
    return [name, *(_value(action, rng) for _ in range(n))]


def call(command: str, rng: Random, *, model: str, table: str, n_options: int) -> list[str]:
    """Make a call of a command with a model file, a table and some options."""
    parser = COMMANDS[command]
    optional = [one for one in parser._actions if one.option_strings and one.dest != "help"]
    places = {"model": model, "table": table, "datasets": f"./{table}"}
    arguments = [command]
    for action in parser._actions:
        if (not action.option_strings and action.nargs != "?") or action.dest == "table":
            arguments.append(places.get(action.dest) or _value(action, rng))
    if rng.random() < 0.05:
        arguments.pop()
    for action in optional:
        if action.required and rng.random() < 0.95:
            good = {"target": "y", "out": "out.lmgp"}.get(action.dest)
            arguments += (
                _option(action, rng) if good is None or rng.random() < 0.1 else [action.option_strings[-1], good]
            )
    for index in rng.integers(len(optional), size=n_options if optional else 0):
        arguments += _option(optional[index], rng)
    if command == "compare":
        arguments += ["--target", "y"]
    return arguments + QUICK.get(command, [])
