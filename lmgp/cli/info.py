"""What a model file has, in lines of text."""

from pathlib import Path
from typing import Any

from lmgp.columns.table import columns_of
from lmgp.estimators.summary import summary
from lmgp.metrics.scorers import end_of
from lmgp.utils.facts import Facts


def facts(model: Any, notes: dict[str, Any]) -> Facts:
    """Return what there is to say of a fitted model or map, and what its columns have become.

    Parameters
    ----------
    model : fitted model or map
    notes : dict
        What `lmgp fit` says of the data.
    """
    told = dict(summary(model, notes).facts)
    columns = columns_of(model)
    return Facts(told if columns is None else told | {"columns": str(columns)})


def is_solved(model: Any) -> bool:
    """Say whether a model has a posterior: that of sums to which rows came is made when it is first needed."""
    process = end_of(getattr(end_of(model), "regressor_", model))
    return getattr(vars(process).get("_fitted"), "posterior", process) is not None


def of_file(path: Path, model: Any, header: dict[str, Any]) -> str:
    """Describe a model file: its size, what it keeps, what wrote it, and what was tried to make the model.

    Parameters
    ----------
    path : pathlib.Path
    model : fitted model or map
    header : dict
        See `lmgp.saving.files.load_with_header`.
    """
    kept = header.get("rows_kept", 0)
    packages = ", ".join(f"{name} {number}" for name, number in header.get("packages", {}).items())
    lines = {
        "rows kept": f"{kept:,}" if kept else "none: the model needs no training rows",
        "file": f"{path.stat().st_size:,} bytes, written by lmgp {header.get('lmgp')} with {packages}",
    }
    return f"{Facts(lines)}\n" + "".join(f"\n{title}:\n\n{table}\n" for title, table in tables(model).items())


def tables(model: Any) -> dict[str, str]:
    """Return the tables of what was tried to make a model, as plain text by title."""
    model = end_of(model)
    process = end_of(getattr(model, "regressor_", model))
    titles = {"learning_": "Learning the kernel", "selection_": "Choosing the model", "noise_": "Choosing the noise"}
    by_title = {title: getattr(process, attribute, None) for attribute, title in titles.items()}
    if hasattr(model, "target_names_"):  # which have learned one kernel, or each its own
        by_title |= {"Learning the kernel": getattr(model, "learning_", None), "Choosing the noise": None}
        if not hasattr(model, "estimators_"):
            noises = zip(model.target_names_, model.noise_, strict=True)
            by_title |= {f"Choosing the noise of {name}": noise for name, noise in noises}
        for name, estimator in zip(model.target_names_, getattr(model, "estimators_", ()), strict=False):
            by_title |= {f"{title} of {name}": table for title, table in tables(estimator).items()}
    return {title: str(table) for title, table in by_title.items() if table is not None and len(table)}
