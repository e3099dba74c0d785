"""The published results that a reproduction is held against.

From the tables of results in the authors' repository, github.com/joneswack/dp-rfs: mean and standard deviation over the
runs of each cell. A global model does not depend on the threshold, and was run once for each of eight: those runs are
pooled.
"""

import csv
from functools import cache
from importlib.resources import files
from typing import NamedTuple

# The paper's own file of January 2022, and the set of another month that stands for it.
PUBLISHED_NAMES = {"uk_flats_2020-12": "uk_flats"}

SINC_LENGTHSCALE = 0.11
MEDIAN_DISTANCES = {"sinc": 0.92, "yacht": 3.28, "kin8nm": 3.93}  # section 3.2 and 4.2

Key = tuple[str, int, float | None]


class PublishedCell(NamedTuple):
    """One published cell: KL divergences in nats, summed over the test rows; RMSE in the target's units."""

    n_centroids: float | None
    runs: int
    n_test: int
    kl_sum: float
    kl_sum_sd: float
    rmse: float
    rmse_sd: float

    @property
    def kl(self) -> float:
        """The mean divergence per test row."""
        return self.kl_sum / self.n_test


@cache
def published(dataset: str) -> dict[Key, PublishedCell]:
    """Read the published cells of a data set.

    Parameters
    ----------
    dataset : str
        A name in the catalogue.

    Returns
    -------
    dict of (method, n_features, threshold) to PublishedCell
        Empty where nothing was published.
    """
    name = PUBLISHED_NAMES.get(dataset, dataset)
    with (files(__package__) / "published.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["dataset"] == name]
    return {
        (row["method"], int(row["n_features"]), float(row["threshold"]) if row["threshold"] else None): PublishedCell(
            float(row["n_centroids"]) if row["n_centroids"] else None,
            int(row["runs"]),
            int(row["n_test"]),
            *(float(row[name]) for name in ("kl_sum", "kl_sum_sd", "rmse", "rmse_sd")),
        )
        for row in rows
    }
