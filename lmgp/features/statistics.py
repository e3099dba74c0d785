"""The additive sufficient statistics of a featurized GP.

Everything that a posterior needs is a sum over rows, so the statistics of disjoint rows add: of chunks, of calls and of
machines.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self, TypeAlias

from lmgp.data import Rows, Source, TargetSums, as_tensor
from lmgp.utils.arithmetic import USUAL, Arithmetic, Columns, Products
from lmgp.utils.lazy import Tensor, torch

if TYPE_CHECKING:
    from lmgp.features.moments import MomentSums


# Sums over rows that involve the features φ, shape (D,) each: of products of columns, or of moments.
FeatureSums: TypeAlias = "GramSums | MomentSums"


@dataclass(frozen=True, eq=False)
class GramSums:
    """Sums of products of columns, with the precision ρ of each row.

    Attributes
    ----------
    gram : Tensor of shape (D, D)
        Σ ρ φφᵀ; of the symmetric matrix only the lower triangle is kept.
    cross : Tensor of shape (D, t)
        Σ ρ φyᵀ.
    """

    gram: Tensor
    cross: Tensor

    @classmethod
    def zeros(cls, n_features: int, n_targets: int) -> Self:
        """Make the sums over no rows, for D = `n_features` columns."""
        return cls(*(torch.zeros((n_features, size), dtype=torch.float64) for size in (n_features, n_targets)))

    def combine(self, other: FeatureSums, sign: float) -> FeatureSums:
        """Return these sums plus `sign` times others."""
        if not isinstance(other, GramSums):
            # Sums of moments hold products beside them.
            return other.combine(self, sign) if sign == 1.0 else self.combine(other.expand(), sign)
        return self.plus(other, sign)

    def plus(self, other: Self, sign: float) -> Self:
        """Return these sums plus `sign` times others."""
        gram = torch.add(self.gram, other.gram, alpha=sign)
        return replace(self, gram=gram, cross=torch.add(self.cross, other.cross, alpha=sign))

    def expand(self) -> Self:
        """Return the sums of products: these."""
        return self


@dataclass
class Statistics:
    """Weighted sums over rows with features φ (D columns) and t targets y.

    Row i counts with its precision relative to the model's noise variance σ², ρ = w σ²/σᵢ², where w is its weight and
    σᵢ² its noise variance.

    Attributes
    ----------
    source : Source
        The kernel, map, centre and noise that these statistics are of. Only statistics of one source can be added.
    sums : FeatureSums
        Those that involve the features: products of columns, or moments.
    targets : TargetSums
        Those that do not.
    """

    source: Source
    sums: FeatureSums
    targets: TargetSums

    @classmethod
    def zeros(cls, n_features: int, n_targets: int, source: Source) -> Self:
        """Make the statistics of no rows, for D = `n_features` columns."""
        return cls(source, GramSums.zeros(n_features, n_targets), TargetSums.zeros(n_targets))

    def add(self, chunks: Iterable[tuple[Rows, Columns, Tensor | None]], arithmetic: Arithmetic = USUAL) -> None:
        """Add rows in place, chunk by chunk.

        Parameters
        ----------
        chunks : iterable of (Rows, Columns, Tensor or None)
            Rows with their features, and what the map leaves out of the prior variance of each. Features are in the
            precision of the arithmetic, on its device; or they are what writes them, see `Products.add`.
        arithmetic : Arithmetic
        """
        sums, place = self.sums.expand(), arithmetic.place
        products = Products(sums.gram, sums.cross, arithmetic)
        for rows, features, missing in chunks:
            precision = self.add_targets(rows, missing)
            products.add(features, as_tensor(rows.Y).to(place), None if precision is None else precision.to(place))
        products.finish()
        self.sums = sums

    def add_targets(self, rows: Rows, missing: Tensor | None) -> Tensor | None:
        """Add the targets of rows in place; return ρ of each, shape (n,), None where it is 1 for all.

        Parameters
        ----------
        rows : Rows
        missing : Tensor of shape (n,) or None
            What the map leaves out of the prior variance of each row.
        """
        left_out = None if missing is None else missing.numpy()
        targets, precision = TargetSums.of(rows, self.source.noise, left_out)
        self.targets = self.targets.combine(targets)
        return None if precision is None else as_tensor(precision)

    def merge(self, other: Self) -> Self:
        """Return the statistics of the rows of both.

        Raises
        ------
        InputError
            If the other's kernel, map, centre or noise is not the same.
        """
        self.source.check(other.source)
        return replace(self, sums=self.sums.combine(other.sums, 1.0), targets=self.targets.combine(other.targets))

    def __add__(self, other: Self) -> Self:
        return self.merge(other)
