"""Arguments of commands: what cannot be parsed is reported as all other bad input is."""

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lmgp.errors import InputError

if TYPE_CHECKING:
    from lmgp.io.tables import Dialect

STANDARD = "-"
MODEL = "a file that 'lmgp fit' or model.save(path) wrote"
TABLE = "a CSV file (compressed, if its name ends in .gz), a Parquet file (.parquet), or - for CSV on standard input"


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


def add_model_and_table(parser: argparse.ArgumentParser, table: str, drop: str) -> None:
    """Add the arguments of what is predicted with a model file; `table` and `drop` say what these are for."""
    add = parser.add_argument
    add("model", type=Path, metavar="MODEL", help=MODEL)
    add("table", nargs="?", metavar="TABLE", help=table)
    add("--level", type=number(0.0, 1.0), default=0.95, metavar="P", help="of the intervals (default: 0.95)")
    add("--columns", nargs="+", metavar="COLUMN", help="the inputs, for a model that knows no names of columns")
    add("--drop", action="store_true", help=drop)
    add_dialect(parser)


def dialect_of(arguments: argparse.Namespace) -> "Dialect":
    """Return how CSV is written, see `add_dialect`."""
    from lmgp.io.tables import Dialect

    separator = {"tab": "\t", "\\t": "\t"}.get(arguments.sep, arguments.sep)
    return Dialect(separator, arguments.decimal, arguments.encoding)


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
