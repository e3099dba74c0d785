"""The Gram matrix of monomials from their moments.

With features φ_a(x) = e^{−‖x‖²/2} xᵃ/√(a!), the entry of ΦᵀΦ at a and b depends on a and b through a + b only:
Σᵢ e^{−‖xᵢ‖²} xᵢ^{a+b}/√(a! b!) = M_{a+b} √((a+b)!/(a! b!)), with the moments M_γ = Σᵢ e^{−‖xᵢ‖²} xᵢ^γ/√(γ!). All
moments are one matrix product: the monomials of one half of the inputs times those of the other half. In few dimensions
this takes a small part of the work of the Gram product.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import comb
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from lmgp.data import as_tensor
from lmgp.features.sparse import as_float
from lmgp.features.statistics import FeatureSums, GramSums
from lmgp.utils.lazy import Tensor, torch

Exponents = NDArray[np.int64]
Step = tuple[NDArray[np.int64], NDArray[np.int64]]


# Where moments stay within float64: the highest degree of one input, for the factor between moments and Gram matrix
# grows up to 2^degree; and the largest ‖x‖² of a row in lengthscales, for e^{−‖x‖²} to be far from underflow.
HIGHEST_DEGREE, LARGEST_SQUARE = 400, 600.0

# Products of features with many targets are by way of the features themselves where they take more than this number of
# multiplications for each feature otherwise; and the rows of which these are in the cache at a time.
PRODUCT_WORTH, PRODUCT_ROWS = 30, 512


def plan(exponents: Exponents) -> list[Step]:
    """Plan how the monomials of the first j + 1 inputs follow from those of the first j: a parent times a power.

    Parameters
    ----------
    exponents : ndarray of shape (D, d)

    Returns
    -------
    list of (parents, powers)
        One a column of the inputs; the last step gives the monomials in the order of the rows of `exponents`.
    """
    steps = []
    parent = np.zeros(len(exponents), dtype=np.int64)
    for j, (first, inverse) in enumerate(_groups(exponents)):
        if j == exponents.shape[1] - 1:
            first, inverse = np.arange(len(exponents)), np.arange(len(exponents))
        steps.append((parent[first], exponents[first, j]))
        parent = inverse
    return steps


def _groups(exponents: Exponents) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield, for the first j + 1 inputs, the first place of each distinct multi-index, and the group of each row."""
    place = np.zeros(len(exponents), dtype=np.intp)
    for powers in exponents.T:
        # Two rows are in one group if they were so for one input fewer, and have the same power of this one.
        _, first, place = np.unique(place * (powers.max() + 1) + powers, return_index=True, return_inverse=True)
        yield first, place


def monomials(columns: Tensor, steps: list[Step], rate: float) -> Tensor:
    """Evaluate e^{−rate‖x‖²} xᵃ/√(a!).

    Parameters
    ----------
    columns : Tensor of shape (n, d)
    steps : list of (parents, powers)
        See `plan`.
    rate : float

    Returns
    -------
    Tensor of shape (D, n)
        Monomials are rows, so that picking some of them copies contiguous memory.
    """
    values: Tensor | None = None
    for column, (parents, exponents) in zip(columns.T, steps, strict=True):
        powers = scaled_powers(column, int(exponents.max()), rate)
        if not np.array_equal(exponents, np.arange(len(powers))):
            powers = powers[as_tensor(exponents)]
        values = powers if values is None else values[as_tensor(parents)].mul_(powers)
    assert values is not None
    return values


def scaled_powers(x: Tensor, degree: int, rate: float) -> Tensor:
    """e^{−rate x²} xᵏ/√(k!) for k = 0, …, degree, shape (degree + 1, n)."""
    if rate == 0.0 or rate * x.square().max() < LARGEST_SQUARE:
        powers = np.empty((degree + 1, len(x)))
        column = x.contiguous().numpy()
        powers[0] = 1.0 if rate == 0.0 else np.exp(-rate * np.square(column))
        for k in range(1, degree + 1):
            np.multiply(powers[k - 1], column, out=powers[k])
            powers[k] *= k**-0.5
        return torch.from_numpy(powers)
    # In logarithms: the exponential alone underflows where the power brings the product back into range.
    orders = torch.arange(degree + 1, dtype=torch.float64)[:, None]
    logarithm = torch.xlogy(orders, x.abs()) - as_tensor(gammaln(orders.numpy() + 1.0)) / 2.0 - rate * x.square()
    magnitude = torch.exp(logarithm)
    return torch.where((orders % 2 == 1) & (x < 0), -magnitude, magnitude)


def moment_count(n_inputs: int, degree: int) -> float:
    """Return the number of moments of all monomials up to a total degree; infinity where it is beyond floats."""
    halves = (n_inputs + 1) // 2, n_inputs // 2
    left, right = (as_float(comb(size + 2 * degree, 2 * degree)) for size in halves)
    return left * right


class _Half(NamedTuple):
    """What the columns of one half of the inputs contribute.

    Attributes
    ----------
    exponents : ndarray of shape (m, half of d)
        The distinct parts of the multi-indices in this half.
    place : ndarray of shape (D,)
        Which of them each multi-index has.
    sums : ndarray of shape (n_sums, half of d)
        The distinct sums of two of them.
    sum_place : ndarray of shape (m, m)
        Which of the sums each pair has.
    log_factor : ndarray of shape (m, m)
        log √((a+b)!/(a! b!)).
    """

    exponents: Exponents
    place: NDArray[np.intp]
    sums: Exponents
    sum_place: NDArray[np.intp]
    log_factor: NDArray[np.float64]

    def own(self, of_sums: Tensor) -> Tensor:
        """Pick the rows of the distinct parts from an array with a row a sum: a part is its own sum with zero."""
        place = self.sum_place[0]
        if np.array_equal(place, np.arange(len(place))):
            return of_sums[: len(place)]  # without a copy
        return of_sums[place]

    @classmethod
    def of(cls, exponents: Exponents) -> "_Half":
        distinct, place = np.unique(exponents, axis=0, return_inverse=True)
        pairs = distinct[:, None, :] + distinct[None, :, :]
        sums, sum_place = np.unique(pairs.reshape(-1, exponents.shape[1]), axis=0, return_inverse=True)
        log_factorials = gammaln(distinct + 1.0).sum(axis=1)
        log_factor = 0.5 * (gammaln(pairs + 1.0).sum(axis=2) - log_factorials[:, None] - log_factorials)
        return cls(distinct, place.ravel(), sums, sum_place.reshape(len(distinct), -1), log_factor)


def _padded(exponents: Exponents) -> Exponents:
    """Give a single input a second one that is always zero, so that there are two halves."""
    return np.pad(exponents, ((0, 0), (0, 1))) if exponents.shape[1] == 1 else exponents


class MomentPlan:
    """The tables by which the moments of a set of multi-indices are summed and expanded.

    Parameters
    ----------
    exponents : ndarray of shape (D, d)
        The multi-indices of the columns.

    Attributes
    ----------
    n_values : int
        The number of float64 values that are held for each row while it is summed.
    """

    # Bytes for each pair of columns: where its moment is, and the factor between the two.
    PAIR_BYTES: ClassVar[float] = 16.0

    def __init__(self, exponents: Exponents) -> None:
        exponents = _padded(exponents)
        half = (exponents.shape[1] + 1) // 2
        self._halves = [_Half.of(exponents[:, :half]), _Half.of(exponents[:, half:])]
        self._steps = [plan(part.sums) for part in self._halves]
        left, right = self._halves
        # In place: with one more array of D × D this is all that is held at a time.
        gather = left.sum_place[left.place[:, None], left.place]
        gather *= len(right.sums)
        gather += right.sum_place[right.place[:, None], right.place]
        factor = left.log_factor[left.place[:, None], left.place]
        factor += right.log_factor[right.place[:, None], right.place]
        np.exp(factor, out=factor)
        self._gather, self._factor = torch.from_numpy(gather), torch.from_numpy(factor)
        self._half = half
        self.n_values = sum(len(part.sums) + len(part.exponents) for part in self._halves)

    @staticmethod
    def pays(exponents: Exponents, n_rows: int) -> bool:
        """Say whether a fit takes fewer multiplications with moments than without.

        Parameters
        ----------
        exponents : ndarray of shape (D, d)
        n_rows : int
            Summed with one plan.
        """
        if exponents.max(initial=0) > HIGHEST_DEGREE:
            return False
        exponents = _padded(exponents)
        n_features, n_inputs = exponents.shape
        gram = n_features * (n_features / 2 + n_inputs)
        halves = np.array_split(np.arange(n_inputs), [(n_inputs + 1) // 2])
        distinct = [len(deque(_groups(exponents[:, half]), maxlen=1)[0][0]) for half in halves]
        # A set of m points in h dimensions has at least (h + 1)m − h(h + 1)/2 sums of two (Freiman's lemma). This bound
        # rules out most sets that do not pay, without a table of their sums.
        used = [int(np.any(exponents[:, half], axis=0).sum()) for half in halves]
        if np.prod([(h + 1.0) * m - h * (h + 1) / 2 for h, m in zip(used, distinct, strict=True)]) > gram:
            return False
        planning = sum(m * m * n_inputs for m in distinct) + n_features**2
        if planning > n_rows * gram:
            return False
        sums = [len(_Half.of(exponents[:, half]).sums) for half in halves]
        moments = np.prod(sums) + 2 * np.prod(distinct) + n_inputs * (sum(sums) + sum(distinct))
        return bool(planning + n_rows * moments < n_rows * gram)

    def sums(self, variance: float, n_targets: int) -> "MomentSums":
        """Make the moments of no rows, for features multiplied with the root of `variance`."""
        left, right = self._halves
        gram = torch.zeros((len(left.sums), len(right.sums)), dtype=torch.float64)
        cross = torch.zeros((n_targets, len(left.exponents), len(right.exponents)), dtype=torch.float64)
        return MomentSums(self, variance, gram, cross)

    def of_rows(self, scaled: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return the monomials of rows for each half of the inputs: of the sums of two multi-indices, and of each one.

        Parameters
        ----------
        scaled : Tensor of shape (n, d)

        Returns
        -------
        pair of pairs of Tensor
            Each times e^{−‖half of x‖²}; monomials are rows.
        """
        if scaled.shape[1] == 1:
            scaled = torch.cat((scaled, torch.zeros_like(scaled)), dim=1)
        parts = scaled[:, : self._half], scaled[:, self._half :]
        left, right = (monomials(part, steps, 1.0) for part, steps in zip(parts, self._steps, strict=True))
        return (left, right), (self._halves[0].own(left), self._halves[1].own(right))

    def expand(self, gram: Tensor, cross: Tensor) -> GramSums:
        """Return the sums of products of the features at unit variance, from their moments."""
        left, right = self._halves
        products = gram.ravel()[self._gather].mul_(self._factor)
        return GramSums(products, cross[:, left.place, right.place].T.contiguous())


@dataclass(frozen=True, eq=False)
class MomentSums:
    """Sums of moments of the features, and of their products with the target.

    Attributes
    ----------
    plan : MomentPlan
    variance : float
        Of the kernel.
    gram : Tensor
        Σ ρ e^{−‖x‖²} x^γ/√(γ!).
    cross : Tensor, its first axis of length t
        Σ ρ y e^{−‖x‖²/2} xᵃ/√(a!) of each target.
    rest : GramSums or None
        The sums over rows that are too far away for moments.
    """

    plan: MomentPlan
    variance: float
    gram: Tensor
    cross: Tensor
    rest: GramSums | None = None

    def add_rows(self, scaled: Tensor, squares: Tensor, Y: Tensor, precision: Tensor | None) -> None:
        """Add the sums over some rows, in place.

        Parameters
        ----------
        scaled : Tensor of shape (n, d)
            In lengthscales.
        squares : Tensor of shape (n,)
            ‖x‖² of each row, below `LARGEST_SQUARE`.
        Y : Tensor of shape (n, t)
        precision : Tensor of shape (n,) or None
            ρ; None where it is 1 for all rows.
        """
        (left, right), (own_left, own_right) = self.plan.of_rows(scaled)
        self.gram.addmm_(left if precision is None else left * precision, right.T)
        # Features fall half as fast as their products.
        factor = torch.exp(squares / 2.0)
        if precision is not None:
            factor *= precision
        right_sides = factor[:, None] * Y
        left_place, right_place = (as_tensor(half.place) for half in self.plan._halves)
        if self.cross.numel() <= PRODUCT_WORTH * len(left_place):
            for cross, y in zip(self.cross, right_sides.T, strict=True):
                cross.addmm_(own_left, (own_right * y).T)
            return
        sums = torch.zeros((len(left_place), Y.shape[1]), dtype=torch.float64)
        for start in range(0, len(Y), PRODUCT_ROWS):
            part = slice(start, start + PRODUCT_ROWS)
            features = own_left[:, part].index_select(0, left_place)
            sums.addmm_(features.mul_(own_right[:, part].index_select(0, right_place)), right_sides[part])
        self.cross[:, left_place, right_place] += sums.T

    def combine(self, other: FeatureSums, sign: float) -> FeatureSums:  # noqa: D102
        if isinstance(other, GramSums):
            return replace(self, rest=_combined(self.rest, other, sign))
        return replace(
            self,
            gram=torch.add(self.gram, other.gram, alpha=sign),
            cross=torch.add(self.cross, other.cross, alpha=sign),
            rest=_combined(self.rest, other.rest, sign),
        )

    def expand(self) -> GramSums:  # noqa: D102
        unit = self.plan.expand(self.gram, self.cross)
        sums = GramSums(unit.gram.mul_(self.variance), unit.cross.mul_(self.variance**0.5))
        return sums if self.rest is None else sums.plus(self.rest, 1.0)


def _combined(sums: GramSums | None, other: GramSums | None, sign: float) -> GramSums | None:
    if other is None:
        return sums
    return (GramSums.zeros(*other.cross.shape) if sums is None else sums).plus(other, sign)
