"""Arguments of commands: what cannot be parsed is reported as all other bad input is."""

import argparse
import math
from typing import Any, NoReturn

from lmgp.errors import InputError


class Parser(argparse.ArgumentParser):
    """Reports what it cannot parse in the same way as all other bad input."""

    def error(self, message: str) -> NoReturn:  # noqa: D102
        raise InputError(f"{message} (see {self.prog} --help)")


def add_dialect(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how CSV files are written."""
    group = parser.add_argument_group("CSV files")
    group.add_argument("--sep", default=",", metavar="MARK", help="what separates columns (default: a comma)")
    group.add_argument("--decimal", default=".", metavar="MARK", help="the decimal mark, '.' or ',' (default: '.')")
    group.add_argument("--encoding", default="utf-8-sig", metavar="NAME", help="such as latin-1 (default: UTF-8)")


def add_of_model(parser: argparse.ArgumentParser) -> None:
    """Add the options of what is predicted with a model file."""
    parser.add_argument(
        "--level", type=number(0.0, 1.0), default=0.95, metavar="P", help="of the intervals (default: 0.95)"
    )
    parser.add_argument(
        "--columns", nargs="+", metavar="COLUMN", help="the inputs, for a model that knows no names of columns"
    )


def add_drop(parser: argparse.ArgumentParser, does: str) -> None:
    """Add the option for rows with missing values."""
    parser.add_argument("--drop", action="store_true", help=does)


def dialect_of(arguments: argparse.Namespace) -> dict[str, str]:
    """Return what `add_dialect` parsed, as arguments of `lmgp.tables.Dialect`."""
    separator = {"tab": "\t", "\\t": "\t"}.get(arguments.sep, arguments.sep)
    return {"sep": separator, "decimal": arguments.decimal, "encoding": arguments.encoding}


def number(low: float, high: float = math.inf) -> Any:
    """Make the type of an option: a number between two others, which it is not itself."""

    def parsed(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low < value < high:
            allowed = f"between {low:g} and {high:g}" if math.isfinite(high) else f"above {low:g}"
            raise argparse.ArgumentTypeError(f"expected a number {allowed}; got {text!r}")
        return value

    return parsed
