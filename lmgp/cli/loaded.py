"""A model file, and rows for it from a table: what predictions, scores and pages share."""

import argparse
import logging
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from lmgp.cli.parsing import STANDARD, dialect_of
from lmgp.errors import DatasetError, InputError, missing_columns
from lmgp.utils.progress import ticking

if TYPE_CHECKING:
    from numpy import bool_
    from numpy.typing import NDArray

    from lmgp.data import Floats

_LOG = logging.getLogger(__name__)

# After this number of seconds, a command that reads says so.
PATIENCE = 1.0


def loaded_model(arguments: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Read a regressor, and what is noted of its data; what the file says beside it becomes `arguments.header`."""
    from lmgp.saving.files import load_with_header

    path = arguments.model
    model, header = load_with_header(path)
    arguments.header = header
    from lmgp.estimators.base import GaussianProcess  # by now, a file that cannot be read has been refused
    from lmgp.estimators.several import MultiTargetGPRegressor
    from lmgp.estimators.transformed import TransformedTargetGPRegressor

    if not isinstance(model, GaussianProcess | TransformedTargetGPRegressor | MultiTargetGPRegressor):
        raise InputError(
            f"{path} has a {type(model).__name__}; only Gaussian-process regressors predict on the command line. Use "
            f"it in Python: lmgp.load({str(path)!r})."
        )
    return model, header.get("notes", {})


def target_names(model: Any) -> tuple[str, ...] | None:
    """Return the names of several targets; None of a model of one."""
    return tuple(map(str, model.target_names_)) if hasattr(model, "target_names_") else None


def table_source(table: str) -> Path | BinaryIO:
    """Return the file that is to be read, or standard input."""
    return sys.stdin.buffer if table == STANDARD else Path(table).expanduser()


def reading(table: str) -> AbstractContextManager[None]:
    """Say what is read, where that takes longer than a second."""
    whole = "standard input" if table == STANDARD else table
    return ticking(lambda: _LOG.info("reading %s", whole), PATIENCE, None)


def read_for_model(
    model: Any, arguments: argparse.Namespace, targets: Sequence[str] = ()
) -> "tuple[Any, Floats, NDArray[bool_]]":
    """Read the columns of a model from a table, and then the targets; see `lmgp.io.tables.read_table`.

    Returns
    -------
    X : DataFrame or ndarray of shape (n, d)
        A data frame where the model knows the names of its columns.
    y : ndarray of shape (n, t)
        The targets that were asked for.
    complete : ndarray of bool of shape (n,)
        Which rows lack nothing that the model needs.
    """
    from lmgp.columns.categories import Categories
    from lmgp.columns.dates import Dates
    from lmgp.columns.numbers import Numbers
    from lmgp.columns.table import Columns, columns_of
    from lmgp.io.geometry import refuse_other_system
    from lmgp.io.kinds import Kinds
    from lmgp.io.tables import choose_inputs, read_table

    names = getattr(model, "feature_names_in_", None)
    known, n_inputs = () if names is None else tuple(map(str, names)), model.n_features_in_
    if known and arguments.columns is not None:
        raise InputError(f"The model takes its columns by their names, {', '.join(known)}; leave out --columns.")

    columns = columns_of(model)
    if columns is None or len(columns.names) != n_inputs:  # the steps of a pipeline make others
        columns = Columns.of_numbers(n_inputs, names)
    kinds, chosen = Kinds(), arguments.columns and list(dict.fromkeys(arguments.columns))

    def choose(where: str, names: tuple[str, ...]) -> Sequence[str]:
        # Names in the header of a CSV file have no blanks around them.
        wanted = tuple(name if name in names else name.strip() for name in known)
        wanted = wanted or choose_inputs(where, names, targets, chosen)
        missing = [name for name in (*wanted, *targets) if name not in names]
        if missing:
            told = missing_columns(missing, names)
            raise DatasetError(f"{where} lacks {len(missing)} of the columns that are needed: {told}")
        if len(wanted) != n_inputs:
            raise DatasetError(
                f"{where} has {len(wanted)} inputs, {', '.join(wanted)}; the model was fitted to {n_inputs} columns "
                f"without names. Choose the inputs, in their order, such as --columns {' '.join(wanted[:n_inputs])}; a "
                "model that is fitted to a data frame knows their names."
            )
        here = dict(zip(columns.names, wanted, strict=True))
        dates = [(kind, columns.names[j]) for (j, *_), kind, _ in columns.parts if isinstance(kind, Dates)]
        kinds.expected = dict.fromkeys((*wanted, *targets), "numbers")
        kinds.expected |= {here[name]: "text" for name in columns.names_of(Categories)}
        for (j, *_), kind, _ in columns.parts:
            if isinstance(kind, Categories):
                kinds.coded(wanted[j], [level.strip() for level in kind.levels])
        kinds.expected |= {here[name]: None if kind.are_numbers else "dates" for kind, name in dates}
        kinds.filled = set() if columns.is_numeric else {here[name] for name in columns.names_of(Numbers, Categories)}
        return (*wanted, *targets)

    source, dialect = table_source(arguments.table), dialect_of(arguments)
    with reading(arguments.table):
        values, complete = read_table(source, choose, dialect, incomplete=arguments.drop, least=1, kinds=kinds)
    refuse_other_system(kinds.crs, columns.crs)
    X, y = values[:, :n_inputs], values[:, n_inputs:]
    if known or not columns.is_numeric:
        frame = kinds.frame(X, list(kinds.expected)[:n_inputs])
        return frame.set_axis(list(known), axis=1) if known else frame.to_numpy(), y, complete
    return X, y, complete


def complete_rows(values: "Floats", complete: "NDArray[bool_]") -> "Floats":
    """Return the rows without missing values, and say how many are left out."""
    if not complete.all():
        _LOG.info("%d of %d rows have missing values and are left out", (~complete).sum(), len(complete))
    return values[complete]
