"""Sums over the columns of a map, φ(x)ᵀw: without the columns where they are products of few others."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lmgp.features.base import KernelMap
from lmgp.features.moments import Exponents, Step, monomials, plan
from lmgp.features.series import vanishing
from lmgp.features.taylor import TaylorFeatures
from lmgp.utils.lazy import Tensor, torch
from lmgp.utils.memory import chunks

# Bytes of the monomials of half of the inputs that are held at a time: few enough to stay in a processor's cache.
BATCH_BYTES = 2**19

# Products of two halves pay up to this number for each column: they take part in one matrix product.
WORTH = 16.0


class Half(NamedTuple):
    """The parts of multi-indices in half of the inputs.

    Attributes
    ----------
    inputs : slice
    steps : list of (parents, powers)
        How the distinct parts follow from each other, see `lmgp.features.moments.plan`.
    place : ndarray of shape (D,)
        Which of them each column has.
    size : int
        The number of distinct parts.
    """

    inputs: slice
    steps: list[Step]
    place: NDArray[np.intp]
    size: int

    @classmethod
    def of(cls, exponents: Exponents, inputs: slice) -> "Half":
        """Take the parts in some inputs."""
        parts, place = np.unique(exponents[:, inputs], axis=0, return_inverse=True)
        return cls(inputs, plan(parts), place.ravel(), len(parts))


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
        self._features = features
        self._halves: tuple[Half, Half] | None = None
        exponents = getattr(features, "exponents_", None)
        if not isinstance(features, TaylorFeatures) or exponents is None or features.coef0_ is not None:
            return
        n_columns, n_inputs = exponents.shape
        if n_inputs < 2:
            return
        half = (n_inputs + 1) // 2
        halves = Half.of(exponents, slice(half)), Half.of(exponents, slice(half, n_inputs))
        if halves[0].size * halves[1].size <= WORTH * n_columns:
            self._halves = halves

    def __call__(self, X: Tensor, weights: Tensor) -> Tensor:
        """Return Φ(X) w, shape (n,), for X of shape (n, d) less the centre of the map."""
        found = torch.empty(len(X), dtype=torch.float64)
        if self._halves is None:
            for part in chunks(len(X), self._features.n_features_out_):
                found[part] = self._features.evaluate(X[part]) @ weights
            return found
        for part in chunks(len(X), self._halves[0].size + self._halves[1].size, BATCH_BYTES):
            found[part] = self.of_groups(X[part], [weights], [len(X[part])])
        return found

    @property
    def by_halves(self) -> bool:
        """Whether sums are by halves of the inputs."""
        return self._halves is not None

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
        assert self._halves is not None  # for the type checker
        series = self._features
        assert isinstance(series, TaylorFeatures)
        scaled, (left, right) = series.in_lengthscales(X), self._halves
        one, other = (monomials(scaled[:, half.inputs], half.steps, 0.5) for half in self._halves)
        products, start = torch.empty_like(one), 0
        form = torch.zeros((left.size, right.size), dtype=torch.float64)
        for own, size in zip(weights, sizes, strict=True):
            form[left.place, right.place] = own  # the same places every time
            products[:, start : start + size] = form @ other[:, start : start + size]
            start += size
        found = products.mul_(one).sum(dim=0).mul_(float(series.component_.variance) ** 0.5)
        found[vanishing(scaled.square().sum(dim=1), series.degree_)] = 0.0
        return found
