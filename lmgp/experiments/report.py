"""The table of a comparison, as plain text."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np

from lmgp.experiments.reference import MEAN_ERROR, iterates
from lmgp.experiments.results import Row
from lmgp.experiments.runner import Comparison, prepare
from lmgp.inference.iterative import PLAN
from lmgp.methods import EXACT
from lmgp.metrics import nlpd

_COLUMNS = (
    "method", "threshold", "D", "centroids", "KL/row", "s.d.", "KL sum", "reverse KL",
    "RMSE", "NLPD", "95% cover", "CRPS", "fit s", "predict s",
)  # fmt: skip
_FAR = 1.0  # nats per row: that far from the exact GP, "nearest" is no praise
_SHOWN = 12  # names of columns in the heading
LEGEND = (
    "KL in nats, approximation to exact GP, noise included. Means over seeds; s.d. of KL/row over seeds.\n"
    "D: columns made; of nearest_rows the rows that predict, of spectral the modes. threshold: in lengthscales.\n"
    "*: nearest to the exact GP at this n_features."
)


def by_line(rows: Iterable[Row]) -> dict[tuple[int | None, str, float | None], list[Row]]:
    """Group the rows of the methods by n_features, method and threshold: what remains are the seeds."""
    groups: dict[tuple[int | None, str, float | None], list[Row]] = {}
    for row in rows:
        if row.method != EXACT:
            groups.setdefault((row.n_features, row.method, row.threshold), []).append(row)
    return groups


def mean(rows: Iterable[Row], name: str) -> float:
    """Average one field over rows; NaN where it does not apply."""
    values = [np.nan if value is None else float(value) for value in (getattr(row, name) for row in rows)]
    return float(np.mean(values))


def table(comparison: Comparison) -> str:
    """Make the block of text for one data set.

    A heading describes the data and the exact GP. Then, for each n_features, the methods follow from the nearest to the
    exact GP to the furthest; those without a size come last.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    str
        Lines of text, the last one ended.
    """
    lines = [*_heading(comparison)]
    groups = by_line(comparison.rows)
    entries: list[Sequence[str] | str] = [_COLUMNS]
    nearest = []
    for size, keys in groupby(sorted(groups, key=lambda key: key[0] or np.inf), key=lambda key: key[0]):
        ranked = sorted((groups[key] for key in keys), key=lambda rows: np.nan_to_num(mean(rows, "kl"), nan=np.inf))
        entries.append("without n_features" if size is None else f"n_features = {size}")
        if size is not None or all(other is None for other, *_ in groups):
            nearest.append(ranked[0])
        entries.extend(_entry(rows, best=size is not None and rows is ranked[0]) for rows in ranked)
    lines.extend(_aligned(entries))
    lines.extend(_warnings(comparison, nearest))
    lines.extend(f"not made: {cell}: {reason}" for cell, reason in comparison.failures.items())
    lines.extend(f"left out: {reason}" for reason in comparison.left_out)
    return "\n".join(lines) + "\n"


def selections(comparison: Comparison) -> str:
    """Make the block of text that says what the method "auto" tried and chose.

    Parameters
    ----------
    comparison : Comparison

    Returns
    -------
    str
        For each n_features a table of the first seed, and a line for each other one; empty without that method.
    """
    chosen = [row for row in comparison.rows if row.selection]
    if not chosen:
        return ""
    from lmgp.selection.search import Selection

    lines = []
    for row in sorted(chosen, key=lambda row: (row.n_features or 0, row.seed)):
        selection = Selection.from_json(row.selection)
        if row.seed == 0:
            lines += ["", f"{row.cell}: what was tried, up to max_features = {row.n_features}", str(selection)]
        else:
            trial = selection.chosen
            size = f"size {trial.n_features}" + (f", threshold {trial.threshold:g}" if trial.threshold else "")
            lines.append(f"{row.cell}: {trial.method}, {size}; KL/row {trial.kl:.2g} on the probes")
    return "".join(f"{line}\n" for line in lines)


def _warnings(comparison: Comparison, nearest: Iterable[Sequence[Row]]) -> Iterator[str]:
    """Say which of the models that are the nearest to the exact GP are still of no use."""
    trivial = _trivial_nlpd(comparison)
    for rows in nearest:
        name, kl, score = rows[0].method, mean(rows, "kl"), mean(rows, "nlpd")
        reasons = []
        if not kl <= _FAR:
            reasons.append(f"is far from the exact GP, KL/row {kl:.3g}")
        if not score <= trivial:
            reasons.append(f"predicts worse than the training mean and s.d., NLPD {score:.4g} against {trivial:.4g}")
        if reasons:
            at = "" if rows[0].n_features is None else f"at n_features = {rows[0].n_features} "
            yield (
                f"note: {at}even the nearest, {name}, {' and '.join(reasons)}. Use more features, another threshold, "
                "or other methods."
            )


def _trivial_nlpd(comparison: Comparison) -> float:
    """Score the prediction of every test row by the mean and the s.d. of the training targets; the mean over seeds."""
    scores = []
    for seed in sorted({row.seed for row in comparison.rows}):
        rows = prepare(comparison.dataset, comparison.settings, seed)
        shape = rows.y_test.shape
        scores.append(nlpd(rows.y_test, np.full(shape, rows.y_train.mean()), np.full(shape, rows.y_train.var())))
    return float(np.mean(scores))


def _lengthscales(comparison: Comparison, exact: Sequence[Row]) -> str:
    """Show the lengthscales with the names and the units of their columns."""
    standardised = comparison.settings.standardises(comparison.dataset)
    names = comparison.dataset.feature_names
    lengthscales = [row.lengthscale for row in exact]
    if len(names) > 1 and all(len(of_seed) == 1 for of_seed in lengthscales):
        unit = "in s.d. of each column" if standardised else "in units of the columns"
        return f"lengthscale {_span(value for (value,) in lengthscales)} ({unit})"
    unit = "s.d." if standardised else "units"
    of_columns = zip(names, zip(*lengthscales, strict=True), strict=True)
    return "lengthscale " + ", ".join(f"{_span(values)} {unit} of {name}" for name, values in of_columns)


def _inputs(comparison: Comparison) -> str:
    """Say what became of the input columns."""
    first, rest = comparison.dataset.feature_names[:_SHOWN], comparison.dataset.feature_names[_SHOWN:]
    names = ", ".join(first) + (f" and {len(rest)} more" if rest else "")
    if comparison.settings.standardises(comparison.dataset):
        return f"inputs: {names}; each standardised to mean 0 and s.d. 1 on the training rows"
    return f"inputs: {names}; as they are, not standardised"


def _heading(comparison: Comparison) -> list[str]:
    dataset, settings = comparison.dataset, comparison.settings
    exact = [row for row in comparison.rows if row.method == EXACT]
    used = f"{_span((row.n_train for row in exact), 9)} train, {_span((row.n_test for row in exact), 9)} test"
    learned = "" if all(row.converged is not False for row in exact) else " (the optimiser did not converge)"
    hyper = [_lengthscales(comparison, exact)]
    hyper += [
        f"{name} {_span(values)}"
        for name, values in (
            ("variance", [row.variance for row in exact if row.variance is not None]),
            ("noise variance", [row.noise_variance for row in exact if row.noise_variance is not None]),
        )
    ]
    splits = "published" if settings.protocol.published_splits and dataset.splits else "random"
    title = (
        f"{dataset.name}: {len(dataset.y)} rows ({used}), {dataset.X.shape[1]} input columns, "
        f"target {dataset.target_name}; protocol {settings.protocol.name}, {settings.seeds} seed(s), {splits} splits"
    )
    scores = ", ".join(
        (
            f"RMSE {mean(exact, 'rmse'):.4g}",
            f"NLPD {mean(exact, 'nlpd'):.4g}",
            f"95% cover {mean(exact, 'coverage'):.1%}",
            f"CRPS {mean(exact, 'crps'):.4g}",
            f"fit {mean(exact, 'fit_seconds'):.3f} s",
            f"predict {mean(exact, 'predict_seconds'):.3f} s",
        )
    )
    lines = [
        title,
        "=" * len(title),
        _inputs(comparison),
        f"exact GP: {', '.join(hyper)}{learned}",
        f"          {scores}",
    ]
    if any(iterates(row.n_train) for row in exact):
        lines.append(
            f"          mean by iteration, to {MEAN_ERROR:g} predictive s.d.; variance, approximate, from "
            f"{PLAN.n_neighbors} nearest rows and up to {PLAN.landmarks:,} landmarks"
        )
    return [*lines, ""]


def _span(values: Iterable[float], digits: int = 4) -> str:
    """Show one number where all agree to the digits shown, else the least and the greatest."""
    ordered = sorted(values)
    ends = dict.fromkeys(f"{value:.{digits}g}" for value in (ordered[0], ordered[-1]))
    return " to ".join(ends)


def _entry(rows: Sequence[Row], best: bool) -> list[str]:
    def number(name: str, form: str = ".3g") -> str:
        value = mean(rows, name)
        return "-" if np.isnan(value) else format(value, form)

    def count(name: str) -> str:
        value = round(mean(rows, name), 1)
        return "-" if np.isnan(value) else f"{value:.9g}"

    with np.errstate(invalid="ignore"):  # of infinite divergences
        spread = np.std([row.kl for row in rows if row.kl is not None], ddof=1) if len(rows) > 1 else np.nan
    return [
        f"{'*' if best else ' '} {rows[0].method}",
        number("threshold"),
        count("n_features_out"),
        count("n_centroids"),
        number("kl"),
        "-" if np.isnan(spread) else f"{spread:.1g}",
        *(number(name) for name in ("kl_sum", "reverse_kl")),
        *(number(name, ".4g") for name in ("rmse", "nlpd")),
        number("coverage", ".1%"),
        number("crps", ".4g"),
        *(number(name, ".3f") for name in ("fit_seconds", "predict_seconds")),
    ]


def _aligned(entries: Sequence[Sequence[str] | str]) -> list[str]:
    """Align the first column left and the others right; a string is a line of its own."""
    cells = [entry for entry in entries if not isinstance(entry, str)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        entry
        if isinstance(entry, str)
        else "  ".join((entry[0].ljust(widths[0]), *map(str.rjust, entry[1:], widths[1:])))
        for entry in entries
    ]
