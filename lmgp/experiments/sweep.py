"""Many models at once: what models of different sizes and thresholds have in common is computed once.

A centroid of a large threshold is one of every smaller threshold, and so is its model. Where a map is part of a larger
one (Taylor maps of lower degree, Fourier maps with fewer frequencies of the same seed), its statistics are part of the
larger one's.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.features.base import KernelMap
from lmgp.inference.local import LocalPosterior
from lmgp.inference.weight_space import WeightPosterior, evaluate
from lmgp.kernels.base import Kernel
from lmgp.locality.placement import by_centroid
from lmgp.noise import Noise
from lmgp.parallel import parallel_map
from lmgp.statistics import Statistics
from lmgp.validation import Rows

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Placement:
    """A fitted map around centroids: localized, or global where there is one centroid and every row is kept.

    Attributes
    ----------
    features : KernelMap
        Fitted.
    centroids : ndarray of shape (n_centroids, d)
        In the units of X.
    prune : float
        See `lmgp.inference.local.LocalPosterior`.
    """

    features: KernelMap
    centroids: Floats
    prune: float


class _Family:
    """Maps that are part of the largest one among them."""

    def __init__(self, largest: KernelMap) -> None:
        self.largest = largest
        self.parts: list[tuple[KernelMap, torch.Tensor, float]] = []

    def takes(self, features: KernelMap) -> bool:
        """Add a map, if it is a part."""
        part = features.columns_in(self.largest)
        if part is not None:
            self.parts.append((features, torch.from_numpy(part[0]), part[1]))
        return part is not None


def _families(placements: Sequence[Placement], noise: Noise) -> list[_Family]:
    families: list[_Family] = []
    maps = {id(one.features): one.features for one in placements}
    for features in sorted(maps.values(), key=lambda one: one.n_features_out_, reverse=True):
        # What a smaller map leaves out is another noise of the training rows, where that counts: nothing is shared.
        if noise.counts_missing or not any(family.takes(features) for family in families):
            families.append(_Family(features))
            families[-1].takes(features)
    return families


def predict(
    placements: Sequence[Placement], rows: Rows, X: Floats, kernel: Kernel, noise: Noise
) -> list[tuple[Floats, Floats]]:
    """Predict with several models fitted to the same rows, each as the regressors of `lmgp.models` would.

    Parameters
    ----------
    placements : sequence of Placement
        Of one kernel, which their maps have.
    rows : Rows
        With y centred.
    X : ndarray of shape (m, d)
    kernel : Kernel
    noise : Noise

    Returns
    -------
    list of (mean, variance), each ndarray of shape (m,)
        Of the latent function, one pair a placement; the mean is that of the centred y.
    """
    families = _families(placements, noise)
    posteriors = [_posterior(family, placements, rows, kernel, noise) for family in families]
    groups = {id(one.centroids): by_centroid(kernel, X, one.centroids) for one in placements}
    members: dict[bytes, list[tuple[int, Indices]]] = {}  # for each centroid, the rows predicted by each placement
    places: dict[bytes, Floats] = {}
    for number, one in enumerate(placements):
        for index, group in groups[id(one.centroids)]:
            centroid = one.centroids[index]
            places[centroid.tobytes()] = centroid
            members.setdefault(centroid.tobytes(), []).append((number, group))
    predictions = [(np.empty(len(X)), np.empty(len(X))) for _ in placements]

    def predict_around(key: bytes) -> None:
        centroid = places[key]
        for family, local in zip(families, posteriors, strict=True):
            statistics: Statistics | None = None
            for features, columns, factor in family.parts:
                users = [(number, group) for number, group in members[key] if placements[number].features is features]
                if not users:
                    continue
                statistics = statistics or local.statistics(centroid).expanded()
                posterior = WeightPosterior(statistics.of_columns(columns, factor), center=0.0)
                wanted = np.unique(np.concatenate([group for _, group in users]))
                mean, variance = evaluate(posterior, features, X[wanted], centroid, noise)
                for number, group in users:
                    at = np.searchsorted(wanted, group)
                    predictions[number][0][group], predictions[number][1][group] = mean[at], variance[at]

    parallel_map(predict_around, list(members))
    return predictions


def _posterior(
    family: _Family, placements: Sequence[Placement], rows: Rows, kernel: Kernel, noise: Noise
) -> LocalPosterior:
    """Make what sums the statistics of a family's largest map, over all rows that one of its maps reaches."""
    users = [one for one in placements if any(one.features is part for part, *_ in family.parts)]
    return LocalPosterior(
        kernel, rows, noise, users[0].centroids, features=family.largest, prune=min(one.prune for one in users)
    )
