"""What a fitted model is: what was learned, how good it is by rows left out, and what was chosen."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmgp.columns.table import Columns, column_names
from lmgp.data import Floats
from lmgp.distributions.noise import ObservationNoise
from lmgp.errors import InputError
from lmgp.estimators.warping import LogScale
from lmgp.kernels.base import Kernel
from lmgp.kernels.table import kernel_table, row_variances
from lmgp.metrics.scorers import end_of
from lmgp.posteriors.average import WeightedKernel
from lmgp.selection.record import Selection
from lmgp.utils.facts import Described, Facts, Table, digits

# The columns that lines name.
SHOWN = 20
# A t of more degrees of freedom is called normal.
NEARLY_NORMAL = 1000.0
# The kernels of an average that are named.
MOST_NAMED = 3

Lines = dict[str, str | Table]


class Summarized(Described):
    """Mixin of estimators that print as their summary once they are fitted."""

    def _description(self) -> Facts | None:
        return summary(self) if self.__sklearn_is_fitted__() else None  # type: ignore[attr-defined]


def summary(model: Any, notes: Mapping[str, Any] | None = None) -> Facts:
    """Return what there is to say of a fitted model or map.

    Nothing that takes long is computed for it: importances are told where `fit` has measured them.

    Parameters
    ----------
    model : fitted model or map
    notes : dict, optional
        What `lmgp fit` notes of the data.
    """
    steps, model = getattr(model, "steps", [])[:-1], end_of(model)
    process = end_of(getattr(model, "regressor_", model))  # of a model of log y, that of log y
    lines: Lines = {"model": type(process).__name__}
    if steps:
        lines["model"] = (
            f"{lines['model']}, of what {' and '.join(repr(step) for _, step in steps)} make of the columns"
        )
    if (inner := getattr(process, "model_", None)) is not None:
        lines["model"] = f"{lines['model']}, which chose {type(inner).__name__}"
    inputs, is_process = listed(column_names(model)), hasattr(process, "noise_variance_")
    if notes:
        targets = listed(list(map(str, notes.get("targets", [notes.get("target")]))))
        lines["fitted to"] = f"{targets} of {notes.get('table')}, {notes.get('rows', 0):,} rows, by {inputs}"
    elif is_process:
        lines["fitted to"] = f"{process._state().posterior.n_rows:,} rows, by {inputs}"
    else:
        lines["inputs"] = inputs
    if hasattr(model, "estimators_"):
        return Facts(lines | _of_models(model))
    if not is_process:
        return Facts(lines | _of_parameters(model))
    if process is model:
        return Facts(lines | _of_process(process))
    scale = model.scale_
    name = ("log(target + 1)" if scale.shift else "logarithm") if isinstance(scale, LogScale) else scale.name
    lines["target"] = f"its {name} is modelled: kernel, noise and trend are in those units"
    lines |= _of_process(process)
    if isinstance(scale, LogScale):
        relative = float(np.expm1(process._state().variance_of_noise ** 0.5))
        lines["noise"] = f"{lines['noise']} of the logarithm: {100 * relative:.3g}% of the target"
    return Facts(lines)


def _of_parameters(model: Any) -> Lines:
    """Describe a map or another estimator."""
    lines: Lines = {"parameters": " ".join(repr(model).split())}
    kernel = getattr(model, "kernel_", None)
    if isinstance(kernel, Kernel):
        lines["kernel"] = kernel_table(kernel, Columns.of_numbers(model.n_features_in_, column_names(model)).labels)
    return lines


def _of_models(model: Any) -> Lines:
    """Describe the models of several targets, each with a kernel of its own."""
    names = list(map(str, model.target_names_))
    lines: Lines = {"model": f"{type(model).__name__}, a model of each target", "targets": listed(names)}
    for name, model_of_target in zip(names, model.estimators_, strict=True):
        lines |= {f"{name}: {what}": told for what, told in summary(model_of_target).facts.items() if what != "inputs"}
    return lines


def _of_process(model: Any) -> Lines:
    fit, trend = model._state(), model.trend_
    names = None if fit.target_names is None else list(map(str, fit.target_names))
    lines: Lines = {}
    if names is not None:
        parts = zip(fit.centers, fit.scales, np.sqrt(model.noise_variances_), strict=True)
        told = [f"mean {c:.6g}, scale {s:.6g}, noise {noise:.6g}" for c, s, noise in parts]
        lines["targets"] = _of_each(told, names)
        lines["units"] = "kernel and noise are of each target less its mean and over its scale"
    lines["kernel" if trend is None else "kernel, around the trend"] = _table(model)
    if len(fit.kernels) > 1:
        lines["average"] = averaged_kernels(fit.kernels)
    noise = fit.noise_variance
    lines["noise"] = f"variance {digits(noise)}, standard deviation {digits(noise**0.5)}"
    if (of_rows := fit.variance_of_noise) != noise:
        lines["noise"] = f"scale {digits(noise**0.5)} of a t, standard deviation {digits(of_rows**0.5)}"
    lines["observations"] = _of_each(list(map(observations, fit.of_targets)), names)
    if trend is not None:
        pairs = [("trend", trend)] if names is None else zip([f"trend of {name}" for name in names], trend, strict=True)
        lines |= {name: estimate.table for name, estimate in pairs}
    if any(scores := list(map(_scores, fit.of_targets))):
        lines["scores"] = _of_each(scores, names)
    if fit.importance is not None:
        told = [_ranked(column_names(model), *of_target) for of_target in zip(*fit.importance, strict=True)]
        lines["importance"] = _of_each(told, names)
    if len(fit.learning):
        trial = fit.learning.chosen
        lines["learned"] = f"{trial.kernel}, by the likelihood ({trial.likelihood}) of {trial.n_rows:,} rows"
    if fit.selection is not None:
        lines["chosen"] = _chosen(fit.selection)
    return lines


def _table(model: Any) -> Table:
    """Return the table of the kernel, with the columns that matter most first."""
    fit, labels = model._state(), model._table.labels
    worth = None
    if fit.importance is not None:
        worth = [fit.importance[0].max(axis=0)[list(label.inputs)].max() for label in labels]
    elif fit.kernel.can("metric"):
        worth = [model.inverse_lengthscales_[list(label.columns)].max() for label in labels]
    return kernel_table(
        fit.kernel, labels, noise_variance=fit.variance_of_noise, variances=_variances(fit),
        deviations=fit.column_scales, worth=worth,
    )  # fmt: skip


def _variances(fit: Any) -> Floats | None:
    """Return the variance of each term of the kernel over the training rows; None where these are not kept."""
    if fit.variances is None:
        try:
            rows = fit.posterior.rows
        except InputError:
            return None
        vars(fit)["variances"] = row_variances(fit.kernel, rows.X)  # kept
    return fit.variances


def _of_each(told: Sequence[str], names: Sequence[str] | None) -> str:
    """Return what is told of the only target, or a paragraph for each of several."""
    if names is None:
        return told[0]
    width = max(map(len, names))
    return "\n".join(f"{name:<{width}}  {fact}" for name, fact in zip(names, told, strict=True))


def observations(noise: ObservationNoise) -> str:
    """Say what the distribution of observations is."""
    if noise.name == "normal":
        return noise.note or "normal"
    scales = dict.fromkeys(f"{scale:.3g}" for scale in (noise.chosen.least, noise.chosen.most))
    shape = f"Student t of {noise.degrees:.3g} degrees of freedom" if noise.degrees < NEARLY_NORMAL else "normal"
    return f"{shape}, {' to '.join(scales)} times the standard deviation"


def averaged_kernels(kernels: Sequence[WeightedKernel]) -> str:
    """Say what is averaged: the kernels of a list, or the draws of a form, which have no names."""
    if len(kernels) > MOST_NAMED:
        return f"{len(kernels)} kernels that the rows leave plausible, this one with the weight {kernels[0].weight:.2g}"
    names = [" + ".join(" × ".join(factor.label for factor in term) for term in of.kernel.terms) for of in kernels[1:]]
    beside = [f"{kernel.weight:.2g} of {name}" for name, kernel in zip(names, kernels[1:], strict=True)]
    return f"{kernels[0].weight:.2g} of this kernel, {', '.join(beside)}"


def _scores(noise: ObservationNoise) -> str:
    """Say how well rows left out are predicted; nothing where none was left out."""
    if not noise.trials:
        return ""
    told = "" if np.isnan(noise.rmse) else f"R² {noise.r2:.3f}, RMSE {digits(noise.rmse)}, "
    return f"{told}log density {noise.chosen.alone:.3f} nats, of {len(noise.distances):,} rows left out"


def _chosen(selection: Selection) -> str:
    trial = selection.chosen
    if not trial.kl:
        return "the exact process"
    near = f"{trial.kl:.2g} nats a row from the exact process"
    size = f"{trial.n_features:,}{', chosen by rows left out' if selection.by_rows_left_out else ''}"
    return f"{trial.method} of size {size}, {near}; {len(selection)} were tried"


def _ranked(names: Sequence[str], values: Floats, errors: Floats) -> str:
    """List columns with their importance, the largest first."""
    order: NDArray[np.intp] = np.argsort(-values, kind="stable")
    return listed([f"{names[j]} {values[j]:.2g} ± {errors[j]:.1g}" for j in order])


def listed(parts: Sequence[str]) -> str:
    """Join names, of which no more than 20 are listed."""
    more = f" and {len(parts) - SHOWN} more" if len(parts) > SHOWN else ""
    return ", ".join(parts[:SHOWN]) + more
