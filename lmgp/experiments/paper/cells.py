"""The cells of Figure 4: which are run, and how they compare with what was published."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from lmgp.experiments.paper.published import Published, published
from lmgp.experiments.paper.section import Table, Value
from lmgp.experiments.protocol import METHODS, Protocol, Settings
from lmgp.experiments.report import by_line, mean
from lmgp.experiments.results import Row
from lmgp.experiments.runner import Comparison

Effort = Literal["quick", "default", "full"]

PAPER_METHODS = (
    "rff",
    "sorf",
    "global_maclaurin_rademacher",
    "global_maclaurin_tensor_srht",
    "local_maclaurin_rademacher",
    "local_maclaurin_tensor_srht",
)
EXTRA_METHODS = ("orf", "global_taylor", "local_taylor")
THRESHOLDS = tuple(2.0**exponent for exponent in range(-3, 5))
CLUSTERS_N_FEATURES = 512  # of the panels over clusters
FEATURES_THRESHOLD = 2.0  # of the panels over features: 57, 10 and 1 clusters, as published
MAX_TEST_ROWS = 10_000

# How much larger than the published divergence ours may be.
TOLERANCE, SORF_TOLERANCE, OTHER_MONTH_TOLERANCE = 2.0, 1.3, 1.0
MEDIAN_TOLERANCE, SHARE_WITHIN = 1.3, 0.9
LOW = 0.5  # a ratio below this asks for an explanation as well


def settings_for(
    dataset: str, protocol: Protocol, effort: Effort, *, seeds: int | None, clusters: bool, features: bool
) -> Settings:
    """Say which cells of a data set are run.

    Parameters
    ----------
    dataset : str
    protocol : Protocol
    effort : {"quick", "default", "full"}
        "default" takes all thresholds and 10 seeds of yacht, thresholds from 1 on and 2 seeds of the others.
    seeds : int or None
        In place of the effort's number.
    clusters, features : bool
        Which of the two figures are wanted: with both, every size is run at every threshold.

    Returns
    -------
    Settings
    """
    small = dataset == "yacht"
    if effort == "quick":
        thresholds: tuple[float, ...] = (1.0, 2.0, 16.0) if small else (2.0, 16.0)
        n_features: tuple[int, ...] = (32, 128)
        n_seeds = 1
    else:
        thresholds = THRESHOLDS if small or effort == "full" else tuple(t for t in THRESHOLDS if t >= 1.0)
        n_features = (32, 64, 128, 256, 512, 1024)
        if dataset.startswith("uk_flats"):
            n_features = (8, 16, *n_features)
        n_seeds = 10 if small or effort == "full" else 2
    if not clusters:
        thresholds = (FEATURES_THRESHOLD,)
    if not features:
        n_features = (n_features_of_clusters(n_features),)
    return Settings(
        protocol,
        methods=(*PAPER_METHODS, *EXTRA_METHODS),
        n_features=n_features,
        thresholds=thresholds,
        seeds=n_seeds if seeds is None else seeds,
        max_test_rows=MAX_TEST_ROWS if protocol.published else protocol.max_test_rows,
    )


def n_features_of_clusters(n_features: Sequence[int]) -> int:
    """Return the size at which the number of clusters is varied."""
    return max(size for size in n_features if size <= CLUSTERS_N_FEATURES)


class Line(NamedTuple):
    """The seeds of one cell, with what was published for it."""

    dataset: str
    method: str
    n_features: int
    threshold: float | None
    rows: list[Row]
    published: Published | None

    def mean(self, name: str) -> float:
        """Average one field over the seeds."""
        return mean(self.rows, name)

    @property
    def ratio(self) -> float | None:
        """Our mean divergence per row over the published one."""
        return None if self.published is None else self.mean("kl") / self.published.kl

    @property
    def tolerance(self) -> float:
        """The largest ratio that passes."""
        if self.dataset == "uk_flats_2020-12":
            return OTHER_MONTH_TOLERANCE
        return SORF_TOLERANCE if self.method == "sorf" else TOLERANCE

    @property
    def remark(self) -> str:
        """What explains a ratio far from 1; empty where there is nothing to explain."""
        if self.ratio is None or LOW <= self.ratio <= self.tolerance:
            return ""
        if self.ratio > self.tolerance:
            return "above the tolerance"
        if self.dataset == "uk_flats_2020-12":
            return "padding" if self.method == "sorf" else "another month; float32"
        if self.dataset == "yacht" and self.method.startswith("local_maclaurin") and self.n_features >= 256:
            return "degrees above 10"
        return "not explained"


def lines_of(comparison: Comparison) -> list[Line]:
    """Average the cells of a comparison over the seeds, beside what was published for them."""
    # What was published has the hyper-parameters of the paper: nothing else compares with it.
    known = published(comparison.dataset.name) if comparison.settings.protocol.published else {}
    return [
        Line(comparison.dataset.name, method, n_features, threshold, rows, known.get((method, n_features, threshold)))
        for (n_features, method, threshold), rows in by_line(comparison.rows).items()
    ]


def summary(comparisons: Sequence[Comparison]) -> Table:
    """Tabulate the ratios to the published divergences, model by model.

    Parameters
    ----------
    comparisons : sequence of Comparison

    Returns
    -------
    Table
        A row that is marked misses the tolerance for the median or for the share of cells.
    """
    rows: list[tuple[Value, ...]] = []
    marked = set()
    for comparison in comparisons:
        lines = [line for line in lines_of(comparison) if line.ratio is not None]
        groups = {METHODS[method].label: [line for line in lines if line.method == method] for method in PAPER_METHODS}
        groups["all but structured orthogonal Fourier"] = [line for line in lines if line.method != "sorf"]
        for label, group in groups.items():
            ratios = np.array([line.ratio for line in group], dtype=float)
            if not len(ratios):
                continue
            other_month = group[0].tolerance == OTHER_MONTH_TOLERANCE
            allowed = OTHER_MONTH_TOLERANCE if other_month else MEDIAN_TOLERANCE
            within = float(np.mean(ratios <= (OTHER_MONTH_TOLERANCE if other_month else TOLERANCE)))
            if np.median(ratios) > allowed or within < SHARE_WITHIN:
                marked.add(len(rows))
            rows.append(
                (comparison.dataset.name, label, len(ratios), float(np.median(ratios)), allowed, within,
                 float(ratios.min()), float(ratios.max()))
            )  # fmt: skip
    columns = ("data set", "model", "cells", "median ratio", "at most", f"share within {TOLERANCE:g}", "least", "most")
    caption = (
        "Our KL per row over the published one. A cell is a size and a threshold, averaged over its seeds. "
        f"Of a set of another month, the share is of ratios within {OTHER_MONTH_TOLERANCE:g}."
    )
    return Table("figure-4-summary", caption, columns, tuple(rows), frozenset(marked))


def cells(comparisons: Sequence[Comparison]) -> Table:
    """Tabulate every cell: what was published, what was measured, and their ratio."""
    columns = (
        "data set", "model", "D", "threshold", "columns", "clusters", "clusters published", "KL/row", "s.d.",
        "KL sum", "KL sum published", "KL/row published", "ratio", "remark", "reverse KL/row", "RMSE", "RMSE published",
        "RMSE ratio", "NLPD", "95% cover", "seeds",
    )  # fmt: skip
    rows: list[tuple[Value, ...]] = []
    marked = set()
    for comparison in comparisons:
        for line in sorted(lines_of(comparison), key=_order):
            if line.ratio is not None and line.ratio > line.tolerance:
                marked.add(len(rows))
            divergences = [row.kl for row in line.rows if row.kl is not None]
            known = line.published
            rows.append(
                (
                    line.dataset, METHODS[line.method].label, line.n_features, line.threshold,
                    line.mean("n_features_out"), None if line.threshold is None else line.mean("n_centroids"),
                    known.n_centroids if known else None, line.mean("kl"),
                    float(np.std(divergences, ddof=1)) if len(divergences) > 1 else None, line.mean("kl_sum"),
                    known.kl_sum if known else None, known.kl if known else None, line.ratio, line.remark,
                    line.mean("reverse_kl"), line.mean("rmse"), known.rmse if known else None,
                    line.mean("rmse") / known.rmse if known else None, line.mean("nlpd"), line.mean("coverage"),
                    len(line.rows),
                )
            )  # fmt: skip
    caption = "Every cell, averaged over its seeds. KL in nats, approximation to exact GP, noise included."
    return Table("figure-4-cells", caption, columns, tuple(rows), frozenset(marked), folded=True)


def _order(line: Line) -> tuple[int, float, int]:
    return list(METHODS).index(line.method), line.threshold or 0.0, line.n_features


_REMARKS = {
    "padding": "padding: the published structured orthogonal features pad two input columns to two, which leaves two "
    "frequencies whatever D is; here rows are padded to at least 64 columns.",
    "another month; float32": "another month; float32: the published set is January 2022, this one December 2020. "
    "Published divergences level off at 0.05 per row for every model; a reference in float32 whose distances come from "
    "inner products of degrees that were not centred, as in the published code, is by itself 0.015 per row away from "
    "the float64 one on this set, seed 0.",
    "degrees above 10": "degrees above 10: in float32, as the published code computes, the expected variances of the "
    "sketches overflow from degree 11 on for these inputs. With max_degree=10 our divergences are the published ones; "
    "in float64 the allocation uses degrees up to 14.",
    "not explained": "not explained: our divergence is less than half of the published one, and we do not know why.",
    "above the tolerance": "above the tolerance: see the number of seeds, and the published standard deviations.",
}


def remarks(comparisons: Sequence[Comparison]) -> list[str]:
    """Explain the remarks of the cells of these comparisons."""
    found = {line.remark for comparison in comparisons for line in lines_of(comparison)}
    return [text for remark, text in _REMARKS.items() if remark in found]
