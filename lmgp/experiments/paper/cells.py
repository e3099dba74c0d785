"""The cells of Figure 4: which are run, and how they compare with what was published."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from lmgp.experiments.paper.published import PUBLISHED_NAMES, PublishedCell, published
from lmgp.experiments.paper.section import Table, Value
from lmgp.experiments.protocol import Protocol, Settings
from lmgp.experiments.report import by_line, mean
from lmgp.experiments.results import Row
from lmgp.experiments.runner import Comparison
from lmgp.methods import METHODS

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


@dataclass(frozen=True)
class Tolerances:
    """How much larger than the published divergence ours may be: ratios of KL per row.

    Attributes
    ----------
    cell : float
        Of one cell.
    sorf : float
        Of one cell of structured orthogonal Fourier features, which differ less from seed to seed.
    other_month : float
        Of a set of another month than the published one.
    median : float
        Of the median over the cells of a model.
    share : float
        The least share of a model's cells that are within the tolerance of a cell.
    low : float
        A ratio below asks for an explanation as well.
    """

    cell: float = 2.0
    sorf: float = 1.3
    other_month: float = 1.0
    median: float = 1.3
    share: float = 0.9
    low: float = 0.5

    def of_cell(self, dataset: str, method: str) -> float:
        """Return the largest ratio that passes."""
        if dataset in PUBLISHED_NAMES:
            return self.other_month
        return self.sorf if method == "sorf" else self.cell


TOLERANCES = Tolerances()


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
        thresholds: tuple[float, ...] = (1.0, 2.0, 16.0)
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
    published: PublishedCell | None

    def mean(self, name: str) -> float:
        """Average one field over the seeds."""
        return mean(self.rows, name)

    @property
    def n_centroids(self) -> float | None:
        """The mean number of centroids; None for a global model."""
        return None if self.threshold is None else self.mean("n_centroids")

    @property
    def ratio(self) -> float | None:
        """Our mean divergence per row over the published one."""
        return None if self.published is None else self.mean("kl") / self.published.kl

    @property
    def is_out(self) -> bool:
        """Whether the ratio is out of tolerance. One seed is not enough to tell."""
        tolerance = TOLERANCES.of_cell(self.dataset, self.method)
        return self.ratio is not None and len(self.rows) > 1 and self.ratio > tolerance

    @property
    def published_sum(self) -> float | None:
        """The published sum over test rows; None where ours is over another number of rows."""
        if self.published is None or {row.n_test for row in self.rows} != {self.published.n_test}:
            return None
        return self.published.kl_sum

    @property
    def remark(self) -> str:
        """What explains a ratio far from 1; empty where there is nothing to explain."""
        if self.ratio is None or TOLERANCES.low <= self.ratio <= TOLERANCES.of_cell(self.dataset, self.method):
            return ""
        if self.dataset == "uk_flats_2020-12" and self.ratio < TOLERANCES.low:
            return "padding" if self.method == "sorf" else "another month; float32"
        # Only there do the degrees above 10 matter: with fewer columns there are none, and near a centroid they vanish.
        far = self.method.startswith("local_maclaurin") and self.n_features >= 512 and (self.threshold or 0.0) >= 4.0
        if self.dataset == "yacht" and far and self.ratio < TOLERANCES.low:
            return "degrees above 10"
        if self._is_chance:
            return "chance"
        return "one seed" if len(self.rows) == 1 else "not explained"

    @property
    def _is_chance(self) -> bool:
        """Whether the difference is within three standard errors, from the published spread over runs."""
        assert self.published is not None
        spread = self.published.kl_sum_sd / self.published.n_test
        error = spread * (1.0 / self.published.runs + 1.0 / len(self.rows)) ** 0.5
        return abs(self.mean("kl") - self.published.kl) <= 3.0 * error


def lines_of(comparison: Comparison) -> list[Line]:
    """Average the cells of a comparison over the seeds, beside what was published for them."""
    # What was published has the hyper-parameters of the paper: nothing else compares with it.
    known = published(comparison.dataset.name) if comparison.settings.protocol.published else {}
    lines = [
        Line(comparison.dataset.name, method, n_features, threshold, rows, known.get((method, n_features, threshold)))
        for (n_features, method, threshold), rows in by_line(comparison.rows).items()
        if n_features is not None
    ]
    return sorted(lines, key=_order)


def lines_over_clusters(comparison: Comparison) -> list[Line]:
    """Select what the figure over clusters shows: one size."""
    size = n_features_of_clusters(comparison.settings.n_features)
    return [line for line in lines_of(comparison) if line.n_features == size]


def lines_over_features(comparison: Comparison) -> list[Line]:
    """Select what the figure over features shows: one threshold."""
    return [line for line in lines_of(comparison) if line.threshold in (None, FEATURES_THRESHOLD)]


def _spread(line: Line) -> float | None:
    divergences = [row.kl for row in line.rows if row.kl is not None]
    return float(np.std(divergences, ddof=1)) if len(divergences) > 1 else None


_COLUMNS: dict[str, Callable[[Line], Value]] = {
    "data set": lambda line: line.dataset,
    "model": lambda line: METHODS[line.method].label,
    "D": lambda line: line.n_features,
    "threshold": lambda line: line.threshold,
    "columns": lambda line: line.mean("n_features_out"),
    "clusters": lambda line: line.n_centroids,
    "clusters published": lambda line: line.published and line.published.n_centroids,
    "KL/row": lambda line: line.mean("kl"),
    "s.d.": _spread,
    "KL sum": lambda line: line.mean("kl_sum"),
    "KL/row published": lambda line: line.published and line.published.kl,
    "KL sum published": lambda line: line.published_sum,
    "KL ratio": lambda line: line.ratio,
    "remark": lambda line: line.remark,
    "reverse KL/row": lambda line: line.mean("reverse_kl"),
    "RMSE": lambda line: line.mean("rmse"),
    "RMSE published": lambda line: line.published and line.published.rmse,
    "RMSE ratio": lambda line: line.published and line.mean("rmse") / line.published.rmse,
    "NLPD": lambda line: line.mean("nlpd"),
    "95% cover": lambda line: line.mean("coverage"),
    "seeds": lambda line: len(line.rows),
}
_OVER_CLUSTERS = (
    "data set", "model", "D", "threshold", "clusters", "clusters published", "KL/row", "KL sum", "KL/row published",
    "KL sum published", "KL ratio", "remark",
)  # fmt: skip
_OVER_FEATURES = (
    "data set", "model", "D", "clusters", "RMSE", "RMSE published", "RMSE ratio", "KL/row", "KL sum",
    "KL/row published", "KL sum published", "KL ratio", "remark",
)  # fmt: skip


def over_clusters(comparisons: Sequence[Comparison]) -> Table:
    """Tabulate what the figure over clusters shows."""
    return _table("figure-4-clusters", "What is drawn.", _OVER_CLUSTERS, map(lines_over_clusters, comparisons))


def over_features(comparisons: Sequence[Comparison]) -> Table:
    """Tabulate what the figure over features shows, and the divergences beside it."""
    return _table("figure-4-features", "What is drawn.", _OVER_FEATURES, map(lines_over_features, comparisons))


def cells(comparisons: Sequence[Comparison]) -> Table:
    """Tabulate every cell: what was published, what was measured, and their ratio."""
    return _table("figure-4-cells", "Every cell.", tuple(_COLUMNS), map(lines_of, comparisons), folded=True)


def _table(
    name: str, caption: str, columns: tuple[str, ...], lines: Iterable[list[Line]], *, folded: bool = False
) -> Table:
    """Make a table of one row a line, marked where its ratio is out of tolerance."""
    every = [line for of_dataset in lines for line in of_dataset]
    marked = (number for number, line in enumerate(every) if line.is_out)
    rows = tuple(tuple(_COLUMNS[column](line) for column in columns) for line in every)
    units = "Mean over the seeds; KL in nats, approximation to exact GP, noise included; RMSE in the target's units."
    return Table(name, f"{caption} {units}", columns, rows, frozenset(marked), folded=folded)


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
    "sketches overflow from degree 11 on for these inputs. With max_degree=10 our divergences are within three "
    "standard errors of the published ones; in float64 the allocation uses degrees up to 14.",
    "chance": "chance: within three standard errors of the published divergence, from its spread over runs and the "
    "number of seeds here.",
    "one seed": "one seed: it is not enough to tell the difference from chance; more seeds are (--seeds).",
    "not explained": "not explained: our divergence is further from the published one than chance explains, and we do "
    "not know why.",
}


def remarks(comparisons: Sequence[Comparison]) -> list[str]:
    """Explain the remarks of the cells of these comparisons."""
    found = {line.remark for comparison in comparisons for line in lines_of(comparison)}
    return [text for remark, text in _REMARKS.items() if remark in found]
