"""Many models at once: what models of different sizes and thresholds have in common is computed once.

A centroid of a large threshold is one of every smaller threshold, and so is its model. Where a map is part of a larger
one (Taylor maps of lower degree, Fourier maps with fewer frequencies of the same seed), its statistics are part of the
larger one's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.features.base import FeatureMap
from lmgp.inference.weight_space import WeightPosterior
from lmgp.kernels.stationary import GaussianKernel
from lmgp.locality.blocks import Neighbourhoods
from lmgp.locality.clustering import nearest_centroids
from lmgp.locality.placement import negligible_share
from lmgp.models.featurized import accumulate, evaluate
from lmgp.parallel import parallel_map
from lmgp.validation import Rows

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Model:
    """A featurized model: localized, or global where there is one centroid and every row is kept.

    Attributes
    ----------
    features : FeatureMap
        Fitted.
    centroids : ndarray of shape (n_centroids, d)
        In the units of X.
    prune : float
        See `LocalizedGPRegressor`.
    """

    features: FeatureMap
    centroids: Floats
    prune: float


class _Family:
    """Maps that are part of the largest one among them."""

    def __init__(self, largest: FeatureMap) -> None:
        self.largest = largest
        self.parts: list[tuple[FeatureMap, torch.Tensor, float]] = []

    def takes(self, features: FeatureMap) -> bool:
        """Add a map, if it is a part."""
        part = features.columns_in(self.largest)
        if part is not None:
            self.parts.append((features, torch.from_numpy(part[0]), part[1]))
        return part is not None


def _families(models: Sequence[Model]) -> list[_Family]:
    families: list[_Family] = []
    maps = {id(model.features): model.features for model in models}
    for features in sorted(maps.values(), key=lambda one: one.n_features_out_, reverse=True):
        if not any(family.takes(features) for family in families):
            families.append(_Family(features))
            families[-1].takes(features)
    return families


def predict(
    models: Sequence[Model],
    rows: Rows,
    X: Floats,
    kernel: GaussianKernel,
    noise_variance: float,
    missing_variance: Literal["add", "ignore", "fitc"],
) -> list[tuple[Floats, Floats]]:
    """Predict with several models fitted to the same rows, each as the regressors of `lmgp.models` would.

    Parameters
    ----------
    models : sequence of Model
        Of one kernel, which their maps have.
    rows : Rows
        With y centred.
    X : ndarray of shape (m, d)
    kernel : GaussianKernel
    noise_variance : float
    missing_variance : {"add", "ignore", "fitc"}

    Returns
    -------
    list of (mean, variance), each ndarray of shape (m,)
        Of the latent function, one pair a model; the mean is that of the centred y.
    """
    neighbourhoods, scaled_X = Neighbourhoods(kernel.scale(rows.X)), kernel.scale(X)
    families = _families(models)
    reaches = [
        max(
            model.features.reach(negligible_share(rows, kernel, noise_variance, model.prune)) if model.prune else np.inf
            for model in models
            if any(model.features is part for part, *_ in family.parts)
        )
        for family in families
    ]
    labels = {id(model.centroids): nearest_centroids(scaled_X, kernel.scale(model.centroids)) for model in models}
    members: dict[bytes, list[tuple[int, Indices]]] = {}  # for each centroid, the rows predicted by each model
    places: dict[bytes, Floats] = {}
    for number, model in enumerate(models):
        label = labels[id(model.centroids)]
        for index in np.unique(label):
            centroid = model.centroids[index]
            places[centroid.tobytes()] = centroid
            members.setdefault(centroid.tobytes(), []).append((number, np.flatnonzero(label == index)))
    predictions = [(np.empty(len(X)), np.empty(len(X))) for _ in models]

    def predict_around(key: bytes) -> None:
        centroid = places[key]
        for family, reach in zip(families, reaches, strict=True):
            reached = rows.take(neighbourhoods.within(reach, kernel.scale(centroid[None, :])[0]))
            shared = missing_variance != "fitc"  # with it, each size has a noise of its own for each row
            if shared:
                # "add" and "ignore" differ in the prediction only.
                statistics = accumulate(family.largest, reached, centroid, noise_variance, "ignore")
            for features, columns, factor in family.parts:
                users = [(number, index) for number, index in members[key] if models[number].features is features]
                if not users:
                    continue
                if shared:
                    own = statistics.of_columns(columns, factor)
                else:
                    own = accumulate(features, reached, centroid, noise_variance, missing_variance)
                posterior = WeightPosterior(own, noise_variance)
                wanted = np.unique(np.concatenate([index for _, index in users]))
                mean, variance = evaluate(posterior, features, X[wanted], centroid, missing_variance)
                for number, index in users:
                    at = np.searchsorted(wanted, index)
                    predictions[number][0][index], predictions[number][1][index] = mean[at], variance[at]

    parallel_map(predict_around, list(members))
    return predictions
