"""Beside Figure 4: the models of later papers on the same rows, with the same hyper-parameters."""

from collections.abc import Mapping, Sequence

from lmgp.datasets import Dataset
from lmgp.experiments.paper import cells
from lmgp.experiments.paper.cells import PAPER_METHODS, Effort
from lmgp.experiments.paper.section import Section, Table, Value
from lmgp.experiments.protocol import Protocol, Settings
from lmgp.experiments.report import mean
from lmgp.experiments.results import Row
from lmgp.experiments.runner import Comparison
from lmgp.methods import EXACT, METHODS, NEAREST_ROWS, RESIDUAL, SPECTRAL

MODELS = (NEAREST_ROWS, RESIDUAL, SPECTRAL)


def settings_for(dataset: Dataset, protocol: Protocol, effort: Effort) -> Settings:
    """Say which cells are run beside those of Figure 4: one size of one seed, of the models that serve the data.

    Parameters
    ----------
    dataset : Dataset
    protocol : Protocol
    effort : {"quick", "default", "full"}

    Returns
    -------
    Settings
        With the rows of the first seed of Figure 4, and the size of its panels over clusters.
    """
    figure_4 = cells.settings_for(dataset.name, protocol, effort, seeds=1, clusters=True, features=False)
    n_inputs = dataset.X.shape[1]
    return Settings(
        protocol,
        methods=tuple(name for name in MODELS if METHODS[name].refusal(n_inputs) is None),
        n_features=figure_4.n_features,
        seeds=1,
        max_test_rows=figure_4.max_test_rows,
    )


def models_section(comparisons: Sequence[Comparison], figure_4: Mapping[str, Comparison]) -> Section:
    """Tabulate divergence, error and time of the models, below the exact GP and the nearest model of the paper.

    Parameters
    ----------
    comparisons : sequence of Comparison
        One a data set, of `settings_for`.
    figure_4 : mapping of str to Comparison
        What was measured for Figure 4, by data set; may lack some.

    Returns
    -------
    Section
    """
    text = [
        "Nearest rows: D of them predict each row. Nyström and nearest rows: D landmarks, and what they leave out from "
        "the 64 nearest rows. Fourier modes: the mean of all rows, without a D. The exact GP solves as it predicts. Of "
        "the paper's models there is the nearest at this D, over all thresholds that were run; cells that share their "
        "work have no time of their own."
    ]
    rows: list[tuple[Value, ...]] = []
    for comparison in comparisons:
        name, n_inputs = comparison.dataset.name, comparison.dataset.X.shape[1]
        rows.extend((name, *_entry(row)) for row in comparison.rows if row.method == EXACT)
        if name in figure_4 and (nearest := _nearest(figure_4[name], comparison.settings.n_features)):
            rows.append((name, *_entry(nearest)))
        rows.extend((name, *_entry(row)) for row in comparison.rows if row.method != EXACT)
        refusals = (METHODS[model].refusal(n_inputs) for model in MODELS)
        text.extend(f"{name}: {refusal}." for refusal in refusals if refusal is not None)
        text.extend(f"Not made: {name}, {cell}: {reason}" for cell, reason in comparison.failures.items())
    columns = ("data set", "model", "D", "threshold", "KL/row", "RMSE", "NLPD", "fit s", "predict s")
    caption = "Seed 0; KL in nats, approximation to exact GP, noise included; RMSE in the target's units."
    title = "Beside Figure 4: other models on the same rows, with the same hyper-parameters"
    return Section("models", title, tuple(text), None, (Table("models", caption, columns, tuple(rows)),))


def _nearest(comparison: Comparison, sizes: Sequence[int]) -> Row | None:
    """Return the cell of the paper's models that is the nearest to the exact GP, of the first seed and these sizes."""
    found = [
        row for row in comparison.rows if row.seed == 0 and row.method in PAPER_METHODS and row.n_features in sizes
    ]
    return min(found, key=lambda row: mean([row], "kl"), default=None)


def _entry(row: Row) -> tuple[Value, ...]:
    label = "exact GP" if row.method == EXACT else METHODS[row.method].label
    shown = f"{label} (of the paper)" if row.method in PAPER_METHODS else label
    return (
        shown, row.n_features, row.threshold, row.kl, row.rmse, row.nlpd, row.fit_seconds, row.predict_seconds,
    )  # fmt: skip
