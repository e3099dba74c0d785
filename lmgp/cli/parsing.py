"""Arguments of commands: what cannot be parsed is reported as all other bad input is."""

import argparse
import math
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from lmgp.errors import InputError
from lmgp.selection.methods import METHODS

if TYPE_CHECKING:
    from lmgp.io.tables import Dialect

STANDARD = "-"


class Parser(argparse.ArgumentParser):
    """Reports what it cannot parse in the same way as all other bad input."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:  # noqa: D102
        arguments, rest = super().parse_known_args(args, namespace)
        # Before Python 3.12.7, argparse leaves a table behind an option unread.
        if len(rest) == 1 and getattr(arguments, "table", "") is None and (rest[0] == STANDARD or rest[0][:1] != "-"):
            arguments.table = rest.pop()
        return arguments, rest

    def error(self, message: str) -> NoReturn:  # noqa: D102
        raise InputError(f"{message} (see {self.prog} --help)")


def number(low: float, high: float = math.inf) -> Callable[[str], float]:
    """Make the type of an option: a number between two others, which it is not itself."""

    def parsed(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not low < value < high:
            allowed = f"number between {low:g} and {high:g}" if math.isfinite(high) else f"finite number above {low:g}"
            raise argparse.ArgumentTypeError(f"expected a {allowed}; got {text!r}")
        return value

    return parsed


TYPES = {"int": int, "float": float, "path": Path, "positive": number(0.0), "probability": number(0.0, 1.0)}


def parser(run: Mapping[str, Callable[[argparse.Namespace], None]]) -> Parser:
    """Make the parser of all commands, as ``commands.toml`` describes them.

    Parameters
    ----------
    run : mapping of str to callable
        What each command does; becomes `run` of what is parsed.

    Returns
    -------
    Parser
    """
    described = tomllib.loads((files(__package__) / "commands.toml").read_text(encoding="utf-8"))
    command_line = Parser(prog="lmgp", description="Gaussian processes: fit, predict, and compare with the exact one.")
    command_line.add_argument("--version", action="version", version=f"lmgp {version('lmgp')}")
    command_line.set_defaults(quiet=False, silent=("lmgp.stages", "lmgp.tried"))
    commands = command_line.add_subparsers(required=True, metavar="COMMAND")
    for name, command in described["commands"].items():
        told = {key: command[key].format(methods=", ".join(METHODS)) for key in ("help", "epilog") if key in command}
        command_parser = commands.add_parser(name, description=command.get("description"), **told)
        command_parser.set_defaults(run=run[name])
        first, last = (map(described["shared"].get, command.get(key, ())) for key in ("shared", "last"))
        for arguments in (*first, command.get("arguments", {}), *last):
            _add(command_parser, arguments)
    return command_line


def _add(parser: Any, arguments: Mapping[str, Mapping[str, Any]]) -> None:
    """Add the arguments to a parser, those of a group to the group."""
    group, exclusive = cache(parser.add_argument_group), cache(lambda name: parser.add_mutually_exclusive_group())
    for flag, given in arguments.items():
        options, place = dict(given), parser
        if "group" in options:
            place = group(options.pop("group"))
        if "exclusive" in options:
            place = exclusive(options.pop("exclusive"))
        if "type" in options:
            options["type"] = TYPES[options["type"]]
        if options.get("nargs") == "+":
            options["action"] = "extend"  # what is given one by one adds up
        place.add_argument(flag, **options)


def dialect_of(arguments: argparse.Namespace) -> "Dialect":
    """Return how CSV is written."""
    from lmgp.io.tables import Dialect

    separator = {"tab": "\t", "\\t": "\t"}.get(arguments.sep, arguments.sep)
    return Dialect(separator, arguments.decimal, arguments.encoding)
