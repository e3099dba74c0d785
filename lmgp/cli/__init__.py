"""The command ``lmgp``: fit models and predict, compare methods on data sets, and reproduce the paper.

Exit status: 0; 2 after an error that a message on standard error explains; 130 after Ctrl-C; 141 where what read the
output, such as ``head``, has stopped.
"""

# Whatever takes longer to import than to press Ctrl-C is imported within `main`, which answers it in one line.
import atexit
import gc
import io
import os
import sys
from collections.abc import Sequence

from lmgp.cli import comparisons, models, scores
from lmgp.cli.interrupts import INTERRUPTED, prompt_interrupts
from lmgp.cli.messages import messages, using
from lmgp.cli.parsing import Parser, parser
from lmgp.errors import LmgpError

# Garbage is looked for after this number of allocations: imports allocate most of what a short command does, and throw
# nothing away.
ALLOCATIONS = 100_000


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process if not given.

    Returns
    -------
    int
        The exit status.
    """
    gc.set_threshold(ALLOCATIONS)
    atexit.register(gc.freeze)  # so that the interpreter looks for no garbage as it ends
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # a service may have closed it
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode, closefd=False))
    if isinstance(sys.stdout, io.TextIOWrapper):  # an encoding may lack some letters of a name
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        try:
            arguments = _parser().parse_args(argv)
            with prompt_interrupts(), messages(arguments.quiet, arguments.silent), using(arguments):
                arguments.run(arguments)
        finally:
            sys.stdout.flush()  # here, where a closed pipe is answered
    except BrokenPipeError:
        _let_go_of_output()
        return 141
    except (LmgpError, OSError) as error:
        sys.stderr.write(f"lmgp: error: {error}\n")
        _let_go_of_output()
        return 2
    except (MemoryError, RuntimeError) as error:
        from lmgp.utils.memory import is_out_of_memory

        if not is_out_of_memory(error):
            raise
        sys.stderr.write("lmgp: error: out of memory; use fewer rows (lmgp compare: --max-train-rows, --n-features)\n")
        return 2
    except KeyboardInterrupt as error:
        told = f": {error}" if str(error) else ""
        sys.stderr.write(f"lmgp: interrupted{told}\n")
        return INTERRUPTED
    return 0


def _let_go_of_output() -> None:
    """Point output that cannot be written to nowhere, or the interpreter complains about it as it exits."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _parser() -> Parser:
    return parser(vars(models) | vars(scores) | vars(comparisons))  # commands are functions of their names
