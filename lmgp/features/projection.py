"""Sums over the columns of a map, φ(x)ᵀw: without the columns where they are products of few others."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmgp.features.base import KernelMap
from lmgp.features.moments import Step, monomials, plan
from lmgp.features.series import vanishing
from lmgp.features.taylor import TaylorFeatures
from lmgp.utils.lazy import Tensor, torch
from lmgp.utils.memory import chunks

# Bytes of the monomials of half of the inputs that are held at a time: few enough to stay in a processor's cache.
BATCH_BYTES = 2**19

# Products of two halves pay up to this number for each column: they take part in one matrix product.
WORTH = 16.0


class Projection:
    """The function X ↦ Φ(X) w for one map and one vector of weights after another.

    A Taylor column is a monomial of one half of the inputs times one of the other half, so that Σₐ wₐ xᵃ/√(a!) is a
    bilinear form in the distinct monomials of both: in two columns, 2(p + 1) of them in place of (p + 1)(p + 2)/2.

    Parameters
    ----------
    features : KernelMap
        Fitted.
    """

    def __init__(self, features: KernelMap) -> None:
        self._features: Any = features
        # Of each half of the inputs, how the distinct parts of the multi-indices follow from each other, and which of
        # these each column has; none where the sums are by columns.
        self._halves: list[tuple[list[Step], NDArray[np.intp]]] = []
        exponents = getattr(features, "exponents_", None)
        if not isinstance(features, TaylorFeatures) or exponents is None or features.coef0_ is not None:
            return
        n_columns, n_inputs = exponents.shape
        if n_inputs < 2:
            return
        parts = [np.unique(half, axis=0, return_inverse=True) for half in np.array_split(exponents, 2, axis=1)]
        self._sizes = [len(distinct) for distinct, _ in parts]
        if math.prod(self._sizes) <= WORTH * n_columns:
            self._halves = [(plan(distinct), place.ravel()) for distinct, place in parts]

    def __call__(self, X: Tensor, weights: Tensor) -> Tensor:
        """Return Φ(X) w, shape (n,), for X of shape (n, d) less the centre of the map."""
        values = torch.empty(len(X), dtype=torch.float64)
        if not self._halves:
            for part in chunks(len(X), self._features.n_features_out_):
                values[part] = self._features.evaluate(X[part]) @ weights
            return values
        for part in chunks(len(X), sum(self._sizes), BATCH_BYTES):
            values[part] = self.of_groups(X[part], [weights], [len(X[part])])
        return values

    @property
    def by_halves(self) -> bool:
        """Whether sums are by halves of the inputs."""
        return bool(self._halves)

    def of_groups(self, X: Tensor, weights: list[Tensor], sizes: list[int]) -> Tensor:
        """Return Φ(X) w of groups of rows by halves of the inputs, each with its own weights, shape (n,).

        Parameters
        ----------
        X : Tensor of shape (n, d)
            Less the centre of the map of each group.
        weights : list of Tensor of shape (D,)
        sizes : list of int
            The numbers of rows of the groups, in their order.
        """
        scaled = self._features.in_lengthscales(X)
        halves = scaled.tensor_split([len(self._halves[0][0])], dim=1)
        left_half, other = (monomials(half, steps, 0.5) for half, (steps, _) in zip(halves, self._halves, strict=True))
        left, right = (place for _, place in self._halves)
        products, start = torch.empty_like(left_half), 0
        form = torch.zeros(self._sizes, dtype=torch.float64)
        for block, size in zip(weights, sizes, strict=True):
            form[left, right] = block  # the same places every time
            products[:, start : start + size] = form @ other[:, start : start + size]
            start += size
        summed = products.mul_(left_half).sum(dim=0).mul_(float(self._features.component_.variance) ** 0.5)
        summed[vanishing(scaled.square().sum(dim=1), self._features.degree_)] = 0.0
        return summed
