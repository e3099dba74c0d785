"""What the library logs and warns about, and what a model file does in use, as lines on standard error."""

import argparse
import logging
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any

from lmgp.errors import LmgpError, ModelFileError
from lmgp.utils.progress import display, handled


@contextmanager
def messages(quiet: bool, silent: Collection[str] = ()) -> Iterator[None]:
    """Show what the library logs and warns about, or nothing of it.

    Parameters
    ----------
    quiet : bool
        Whether to show nothing.
    silent : collection of str
        Names of loggers whose messages are not shown.
    """
    lines = display("lmgp: {}".format)
    lines.addFilter(lambda record: record.name not in silent)
    with handled(lines, logging.CRITICAL if quiet else logging.INFO) as package, warnings.catch_warnings():

        def show(message: Warning | str, *_: Any, **__: Any) -> None:
            package.warning("%s", message)

        warnings.showwarning = show
        yield


# What parts of a model that do not fit together raise.
DO_NOT_FIT = (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)


@contextmanager
def using(arguments: argparse.Namespace) -> Iterator[None]:
    """Tell of a model file that can be read, but not be used.

    Parameters
    ----------
    arguments : argparse.Namespace
        Of a command that may have read a model file, `model`, with what it says beside the model, `header`.

    Raises
    ------
    ModelFileError
        In place of what a model raises whose parts do not fit together. Parts fit in a file that holds what `save` of
        this version wrote: what such a model raises is a defect of lmgp, and so is all that is raised before a model
        is read.
    """
    try:
        yield
    except DO_NOT_FIT as error:
        from lmgp.utils.memory import is_out_of_memory

        header = getattr(arguments, "header", None)
        if isinstance(error, LmgpError) or header is None or header["as_written"] or is_out_of_memory(error):
            raise
        reason = (str(error).splitlines() or [""])[0].rstrip(".")
        raise ModelFileError(
            f"{arguments.model} can be read, but not be used so ({type(error).__name__}: {reason}). Its parts may not "
            "fit together: save the model again. If that changes nothing, it is a defect of lmgp: report it."
        ) from error
