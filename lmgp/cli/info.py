"""What a model is, in lines of text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lmgp.data import Floats
from lmgp.estimators.warping import LogScale

# The columns of a model that lines name.
SHOWN = 20
# A t of more degrees of freedom is called normal.
NEARLY_NORMAL = 1000.0
# The kernels of an average that are named.
MOST_NAMED = 3


def described(model: Any, notes: dict[str, Any]) -> str:
    """Describe a fitted model or map: one line for each thing, with its name first.

    Parameters
    ----------
    model : fitted model or map
    notes : dict
        What `lmgp fit` says of the data.
    """
    return _written(facts(model, notes))


def facts(model: Any, notes: dict[str, Any]) -> dict[str, str]:
    """Describe a fitted model or map: what there is to say of it, by name; see `described`."""
    several = hasattr(model, "target_names_")
    process = getattr(model, "regressor_", model)  # of a model of log y, that of log y
    inner = getattr(process, "model_", None)
    lines = {"model": type(process).__name__ + ("" if inner is None else f", which chose {type(inner).__name__}")}
    names = getattr(model, "feature_names_in_", None)
    inputs = f"{getattr(model, 'n_features_in_', 0)} columns" if names is None else _listed(list(map(str, names)))
    if notes:
        of = _listed(list(map(str, notes.get("targets", [notes.get("target")]))))
        lines["fitted to"] = f"{of} of {notes.get('table')}, {notes.get('rows', 0):,} rows, by {inputs}"
    else:
        lines["inputs"] = inputs
    if several:
        return lines | _of_targets(model)
    if process is not model:
        lines["target"] = f"its {_described(model.scale_)} is modelled: kernel, noise and trend are in those units"
    if hasattr(process, "noise_variance_"):
        lines |= _of_process(process)
        if process is not model and isinstance(model.scale_, LogScale):
            relative = float(np.expm1(process.noise_variance_**0.5))
            lines["noise"] += f" of the logarithm: {100 * relative:.3g}% of the target"
    else:
        lines["parameters"] = " ".join(repr(model).split())
    return lines


def _of_targets(model: Any) -> dict[str, str]:
    """Describe the models of several targets."""
    names = list(map(str, model.target_names_))
    width = max(map(len, names))
    if hasattr(model, "estimators_"):
        lines = {"model": f"{type(model).__name__}, a model of each target", "targets": _listed(names)}
        for name, one in zip(names, model.estimators_, strict=True):
            own = facts(one, {})
            own.pop("inputs", None)
            lines |= {f"{name}: {what}": told for what, told in own.items()}
        return lines
    lines = _of_process(model)
    parts = zip(names, model.center_, model.scales_, np.sqrt(model.noise_variances_), strict=True)
    targets = [f"{name:<{width}}  mean {c:.6g}, scale {s:.6g}, noise {noise:.6g}" for name, c, s, noise in parts]
    observed = [f"{name:<{width}}  {_observed(noise)}" for name, noise in zip(names, model.noise_, strict=True)]
    kernel = f"{lines['kernel']}, of each target less its mean and over its scale"
    return {"targets": "\n".join(targets), "kernel": kernel, "observations": "\n".join(observed)} | {
        name: told for name, told in lines.items() if name in ("trend", "lengthscales", "importance")
    }


def _described(scale: Any) -> str:
    return ("log(target + 1)" if scale.shift else "logarithm") if isinstance(scale, LogScale) else str(scale.name)


def _observed(noise: Any) -> str:
    """Say what the distribution of observations is."""
    if noise.name == "normal":
        return noise.note or "normal"
    scales = dict.fromkeys(f"{scale:.3g}" for scale in (noise.chosen.least, noise.chosen.most))
    shape = f"Student t of {noise.degrees:.3g} degrees of freedom" if noise.degrees < NEARLY_NORMAL else "normal"
    return f"{shape}, {' to '.join(scales)} times the standard deviation"


def _averaged(kernels: Sequence[Any]) -> str:
    """Say what is averaged: the kernels of a list, or the draws of a form, which have no names."""
    if len(kernels) > MOST_NAMED:
        return f"{len(kernels)} kernels that the rows leave plausible, this one with the weight {kernels[0].weight:.2g}"
    beside = [f"{one.weight:.2g} of {' '.join(repr(one.kernel).split())}" for one in kernels[1:]]
    return f"{kernels[0].weight:.2g} of this kernel, {', '.join(beside)}"


def _of_process(model: Any) -> dict[str, str]:
    noise = model.noise_variance_
    kernels: Any = getattr(model, "kernels_", ())
    lines = {
        **({} if getattr(model, "columns_", None) is None else {"columns": str(model.columns_)}),
        "kernel": " ".join(repr(model.kernel_).split()),
        **({"average": _averaged(kernels)} if len(kernels) > 1 else {}),
        "noise": f"variance {noise:.6g}, standard deviation {noise**0.5:.6g}",
    }
    if not isinstance(model.noise_, tuple):
        lines["observations"] = _observed(model.noise_)
    if model.trend_ is not None:
        lines["trend"] = str(model.trend_)
    if model.kernel_.can("metric"):
        names, inverse = model._names(), model.inverse_lengthscales_
        labels = [f"column {j}" for j in range(len(inverse))] if names is None else list(map(str, names))
        told = [f"{labels[j]} {1.0 / inverse[j]:.3g}" for j in np.argsort(-inverse, kind="stable") if inverse[j]]
        lines["lengthscales"] = f"{_listed(told)} standard deviations of the column"
    if hasattr(model, "importance_"):
        known = getattr(model, "feature_names_in_", None)
        labels = [f"column {j}" for j in range(model.n_features_in_)] if known is None else list(map(str, known))
        of_targets = zip(np.atleast_2d(model.importance_), np.atleast_2d(model.importance_error_), strict=True)
        told = [_ranked(labels, values, errors) for values, errors in of_targets]
        several = getattr(model, "target_names_", None)
        pairs = [] if several is None else zip(map(str, several), told, strict=True)
        lines["importance"] = "\n".join(f"of {name}: {one}" for name, one in pairs) or told[0]
    return lines


def _ranked(labels: Sequence[str], values: Floats, errors: Floats) -> str:
    """List columns with their importance, the largest first."""
    order = np.argsort(-values, kind="stable")
    return _listed([f"{labels[j]} {values[j]:.2g} ± {errors[j]:.1g}" for j in order])


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
    return _written(lines) + "".join(f"\n{title}:\n\n{table}\n" for title, table in tables(model).items())


def tables(model: Any) -> dict[str, str]:
    """Return the tables of what was tried to make a model, as plain text by title."""
    process = getattr(model, "regressor_", model)
    titles = {"learning_": "Learning the kernel", "selection_": "Choosing the model", "noise_": "Choosing the noise"}
    found = {title: getattr(process, attribute, None) for attribute, title in titles.items()}
    if hasattr(model, "target_names_"):  # which have learned one kernel, or each its own
        found |= {"Learning the kernel": getattr(model, "learning_", None), "Choosing the noise": None}
        if not hasattr(model, "estimators_"):
            noises = zip(model.target_names_, model.noise_, strict=True)
            found |= {f"Choosing the noise of {name}": noise for name, noise in noises}
        for name, one in zip(model.target_names_, getattr(model, "estimators_", ()), strict=False):
            found |= {f"{title} of {name}": table for title, table in tables(one).items()}
    return {title: str(table) for title, table in found.items() if table is not None and len(table)}


def _written(lines: dict[str, str]) -> str:
    width = max(12, *(len(name) + 2 for name in lines))
    indented = {name: value.replace("\n", "\n" + " " * width) for name, value in lines.items()}
    return "".join(f"{name:<{width}}{value}\n" for name, value in indented.items())


def _listed(parts: list[str]) -> str:
    more = f" and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
    return ", ".join(parts[:SHOWN]) + more
