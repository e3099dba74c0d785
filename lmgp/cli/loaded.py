"""A model file and a table for it: what predictions and scores on the command line share."""

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from lmgp.cli.parsing import dialect_of
from lmgp.errors import DatasetError, InputError, nearest_names

if TYPE_CHECKING:
    from lmgp.cli.grids import Floats
    from lmgp.models.base import GaussianProcess
    from lmgp.tables import Dialect

_LOG = logging.getLogger(__name__)

STANDARD = "-"
TABLE = "a CSV file (compressed, if its name ends in .gz), a Parquet file (.parquet), or - for CSV on standard input"

# What is written of each row: its columns, after the name of the target where there are several.
COLUMNS = ("mean", "std", "lower", "upper")


def loaded_model(arguments: argparse.Namespace) -> tuple[Any, dict[str, Any]]:
    """Read a regressor, and what is noted of its data; what the file says beside it becomes `arguments.header`."""
    from lmgp.models.base import GaussianProcess
    from lmgp.models.several import MultiTargetGPRegressor
    from lmgp.models.transformed import TransformedTargetGPRegressor
    from lmgp.saving.files import load_with_header

    path = arguments.model
    model, header = load_with_header(path)
    arguments.header = header
    if not isinstance(model, GaussianProcess | TransformedTargetGPRegressor | MultiTargetGPRegressor):
        raise InputError(
            f"{path} has a {type(model).__name__}, which predicts no mean and standard deviation; use it in Python: "
            f"lmgp.load({str(path)!r})."
        )
    return model, header.get("notes", {})


def table_source(table: str) -> Path | BinaryIO:
    """Return the file that is to be read, or standard input."""
    return sys.stdin.buffer if table == STANDARD else Path(table).expanduser()


def table_dialect(arguments: argparse.Namespace) -> "Dialect":
    """Return how CSV is written."""
    from lmgp.tables import Dialect

    return Dialect(**dialect_of(arguments))


def input_names(model: "GaussianProcess") -> tuple[str, ...] | None:
    """Return the names of the columns that a model takes, if it knows them."""
    known = getattr(model, "feature_names_in_", None)
    return None if known is None else tuple(map(str, known))


def target_names(model: Any) -> tuple[str, ...] | None:
    """Return the names of several targets; None of a model of one."""
    return tuple(map(str, model.target_names_)) if hasattr(model, "target_names_") else None


def column_chooser(
    model: "GaussianProcess", columns: Sequence[str] | None, targets: Sequence[str] = ()
) -> Callable[[str, tuple[str, ...]], Sequence[str]]:
    """Return what finds the columns of a model in a table, and then the targets."""
    known, n_inputs = input_names(model), model.n_features_in_
    if known is not None and columns is not None:
        raise InputError(f"The model takes its columns by their names, {', '.join(known)}; leave out --columns.")

    def choose(where: str, names: tuple[str, ...]) -> Sequence[str]:
        wanted = known or tuple(columns or (name for name in names if name not in targets))
        missing = [name for name in (*wanted, *targets) if name not in names]
        if missing:
            told = "; ".join(f"no column is named {name!r}, {nearest_names(name, names)}" for name in missing)
            raise DatasetError(f"{where} lacks {len(missing)} of the columns that are needed: {told}.")
        if len(wanted) != n_inputs:
            raise DatasetError(
                f"{where} has {len(wanted)} inputs, {', '.join(wanted)}; the model was fitted to {n_inputs} columns "
                "without names. Choose the inputs (--columns)."
            )
        return (*wanted, *targets)

    return choose


def predictions_of(model: Any, X: "Floats", complete: Any, level: float, include_noise: bool) -> "dict[str, Floats]":
    """Return means, standard deviations and intervals of rows; NaN of those that are not complete."""
    import numpy as np

    from lmgp.grids import predicted

    rows, shown, several = X if complete is None else X[complete], _LOG.isEnabledFor(logging.INFO), target_names(model)
    names = COLUMNS if several is None else [f"{one}_{column}" for one in several for column in COLUMNS]
    found = np.full((len(names), len(X)), np.nan)
    if len(rows):
        place = slice(None) if complete is None else complete
        if several is None:  # with a bar, where it takes long
            found[:, place] = predicted(model, rows, True, include_noise, level, verbose=shown)
        else:
            found[:, place] = _of_targets(model, rows, include_noise, level, shown)
    return dict(zip(names, found, strict=True))


def _of_targets(model: Any, rows: "Floats", include_noise: bool, level: float, verbose: bool) -> "Floats":
    """Return the columns of several targets, one target after the other, shape (4t, n)."""
    import numpy as np
    from scipy.special import ndtri

    named = with_names(model, rows)
    mean, std = model.predict(named, return_std=True, include_noise=include_noise, verbose=verbose)
    if hasattr(model, "estimators_"):  # of which some are not Gaussian
        lower, upper = model.predict_interval(named, level, include_noise)
    else:
        half = float(ndtri(0.5 + 0.5 * level)) * std
        lower, upper = mean - half, mean + half
    parts = np.stack((mean, std, lower, upper))  # (4, n, t)
    return parts.transpose(2, 0, 1).reshape(-1, len(rows))


def with_names(model: Any, rows: "Floats") -> "Floats":
    """Return rows with the names that the model knows."""
    import numpy as np

    from lmgp.columns import NamedColumns

    names = input_names(model)
    return rows if names is None else NamedColumns.of(np.ascontiguousarray(rows), names)
