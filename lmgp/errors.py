"""The exceptions and warnings of the package.

Every error that the package raises itself is an `LmgpError`; each kind also derives from the built-in exception that
other code would expect there. (Arrays and parameters are checked by scikit-learn first, with its own `ValueError`.) A
message says what was got, what was expected, and what to do.
"""

import sys
import warnings
from collections.abc import Iterable, Sequence
from contextvars import ContextVar
from difflib import get_close_matches

PACKAGE = __name__.partition(".")[0]
# Whether the calling thread, and the workers it has started, warn of nothing; see `lmgp.utils.progress.silent`.
SILENT: ContextVar[bool] = ContextVar("silent", default=False)


class LmgpError(Exception):
    """Base class of all errors of this package."""


class InputError(LmgpError, ValueError):
    """A value that was passed in cannot be used."""


class UnknownParameterError(LmgpError, TypeError):
    """A class has no parameter of a name that was given; the message says which it has."""


class NoEstimateError(InputError):
    """A model cannot say how far it is from the exact GP: `predict` has no ``return_error`` for it."""


class DatasetError(LmgpError):
    """A data set is unknown, missing, malformed, or could not be downloaded."""


class ModelFileError(LmgpError, OSError):
    """A file is no model that this version of the package reads."""


class OutputError(LmgpError, OSError):
    """A file cannot be written where it was asked for; what was there is left as it was."""


class MemoryLimitError(LmgpError, MemoryError):
    """A computation would need more memory than its stated limit; nothing was allocated."""


class StreamError(InputError):
    """A chunk of a stream cannot be used; what was summed of the chunks before it is kept.

    Attributes
    ----------
    chunk : int or None
        Its number, counted from 0.
    row : int or None
        The first row of it that cannot be used, counted from 0 within the chunk.
    """

    def __init__(self, message: str, chunk: int | None = None, row: int | None = None) -> None:
        super().__init__(message)
        self.chunk, self.row = chunk, row


class ClusterError(LmgpError, RuntimeError):
    """A cluster lost what it computed, and could not compute it again; the model is as it was."""


class TimeLimitError(LmgpError, TimeoutError):
    """A computation would probably take longer than its stated limit; it was not begun."""


class NumericalError(LmgpError, ArithmeticError):
    """A factorisation failed for reasons that no small correction mends."""


class NumericalWarning(UserWarning):
    """A result was obtained only after a numerical correction, which the message states."""


class DuplicateRowsWarning(UserWarning):
    """Exact copies of rows made a learned noise variance collapse; the message says how many copies, and what to do."""


class ImplausibleMeanWarning(UserWarning):
    """Predicted means are impossible under the model itself; the message says which, and names the cure."""


class KernelWarning(UserWarning):
    """A part of a model keeps another kernel than the model's; the message says which."""


class ScaleWarning(UserWarning):
    """The columns of X differ a thousandfold in scale and one lengthscale serves all; the message names two of them."""


class ColumnWarning(UserWarning):
    """A column was read, or is used by the kernel, otherwise than may be expected; the message says which, and why."""


class OutlierWarning(UserWarning):
    """One row makes most of the standard deviation of a column of X; the message names both, and says what to do."""


class TargetWarning(UserWarning):
    """A target is of classes or counts, or often zero; the message says what its predictions are, and what to use."""


class EmptyChunkWarning(UserWarning):
    """A chunk of a stream has no rows and is skipped; the message says which."""


class ToleranceWarning(UserWarning):
    """No model that was allowed is as near to the exact one as was asked for; the message says how far off it is."""


class ValidityWarning(UserWarning):
    """Some rows are outside the bound within which an approximation is known to be near; the message says how many."""


def warn(message: str, category: type[Warning]) -> None:
    """Warn of the line that called the package, however many of its functions are in between."""
    if SILENT.get():
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == PACKAGE:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def nearest_names(name: str, known: Iterable[str]) -> str:
    """Say which known names come closest to one that is unknown; the case of letters does not count.

    Parameters
    ----------
    name : str
        What was got.
    known : iterable of str
        What would have been accepted.

    Returns
    -------
    str
        ``"did you mean 'a' or 'b'?"`` where something comes close, else the list of all known names.

    Examples
    --------
    >>> nearest_names("yatch", ["yacht", "kin8nm"])
    "did you mean 'yacht'?"
    """
    choices = {str(choice).lower(): str(choice) for choice in known}
    wanted = str(name).lower()
    close = [wanted] if wanted in choices else get_close_matches(wanted, choices, n=3, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(repr(choices[choice]) for choice in close)}?"
    return f"known: {', '.join(choices.values())}"


def missing_columns(missing: Iterable[object], known: Sequence[str]) -> str:
    """Say which columns a table does not have, and once which it has.

    Parameters
    ----------
    missing : iterable
        What was asked for.
    known : sequence of str
        What the table has.

    Returns
    -------
    str
        Without a full stop where it ends in a question.

    Examples
    --------
    >>> missing_columns(["lat", "hight"], ["height", "y"])
    "no column is named 'hight', did you mean 'height'?; no column is named 'lat', known: height, y"
    """
    nearest = {repr(name): nearest_names(str(name), known) for name in missing}
    strange = [name for name, told in nearest.items() if told.startswith("known")]
    parts = [f"no column is named {name}, {told}" for name, told in nearest.items() if name not in strange]
    if strange:
        parts.append(f"no column is named {' or '.join(strange)}, known: {', '.join(known)}")
    return "; ".join(parts)
