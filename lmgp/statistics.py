"""The additive sufficient statistics of a featurized GP.

Everything that a posterior needs is a sum over rows, so the statistics of disjoint rows add: of chunks, of calls and of
machines. The mean of y is no part of them: it is subtracted when they are solved.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.arithmetic import USUAL, Arithmetic, Columns, Products
from lmgp.errors import InputError
from lmgp.fitted import digest
from lmgp.noise import Noise


class Sums(Protocol):
    """Sums over rows that involve the features φ, shape (D,) each: of products of columns, or of moments."""

    def combine(self, other: "Sums", sign: float) -> "Sums":
        """Return these sums plus `sign` times others."""

    def shifted(self, change: float) -> "Sums":
        """Return the sums for targets y + change. They may share memory with these."""

    def expand(self) -> "GramSums":
        """Return the sums of products; sums of products return themselves."""


@dataclass(frozen=True, eq=False)
class GramSums:
    """Sums of products of columns, with the precision ρ of each row.

    Attributes
    ----------
    gram : Tensor of shape (D, D)
        Σ ρ φφᵀ; of the symmetric matrix only the lower triangle is kept.
    cross : Tensor of shape (D, 2)
        Σ ρ φ(y − origin), and Σ ρ φ.
    """

    gram: torch.Tensor
    cross: torch.Tensor

    @classmethod
    def zeros(cls, n_features: int) -> "GramSums":
        """Make the sums over no rows, for D = `n_features` columns."""
        return cls(*(torch.zeros((n_features, size), dtype=torch.float64) for size in (n_features, 2)))

    def combine(self, other: Sums, sign: float) -> Sums:  # noqa: D102
        if not isinstance(other, GramSums):
            # Sums of moments hold products beside them.
            return other.combine(self, sign) if sign == 1.0 else self.combine(other.expand(), sign)
        return self.plus(other, sign)

    def plus(self, other: "GramSums", sign: float) -> "GramSums":
        """Return these sums plus `sign` times others."""
        gram = torch.add(self.gram, other.gram, alpha=sign)
        return GramSums(gram, torch.add(self.cross, other.cross, alpha=sign))

    def shifted(self, change: float) -> "GramSums":  # noqa: D102
        if change == 0.0:
            return self
        y, ones = self.cross.unbind(dim=1)
        return replace(self, cross=torch.stack((y + change * ones, ones), dim=1))

    def expand(self) -> "GramSums":  # noqa: D102
        return self

    def of_columns(self, columns: torch.Tensor, factor: float) -> "GramSums":
        """Return the sums for a map with only some of the columns, times a factor."""
        return GramSums(self.gram[columns[:, None], columns] * factor**2, self.cross[columns] * factor)


@dataclass
class TargetSums:
    """Sums over rows that do not involve the features, with y − origin for y.

    Attributes
    ----------
    origin : float
        Any number near the mean of y, so that sums of squares lose no digits.
    squares, linear, precision : float
        Σ ρ y², Σ ρ y, Σ ρ.
    n, weighted : float
        Σ w, Σ w y.
    log_precision : float
        Σ w log(ρ/w), the rows' own part of the log likelihood; 0 where all rows share one noise variance.
    """

    origin: float = 0.0
    squares: float = 0.0
    linear: float = 0.0
    precision: float = 0.0
    n: float = 0.0
    weighted: float = 0.0
    log_precision: float = 0.0

    def add_rows(
        self, y: torch.Tensor, weights: torch.Tensor | None, relative_precision: torch.Tensor | None
    ) -> torch.Tensor | None:
        """Add the sums over rows, in place, and return ρ of each, shape (n,); None where it is 1 for all.

        Parameters
        ----------
        y : Tensor of shape (n,)
            Less the origin.
        weights, relative_precision : Tensor of shape (n,) or None
            w and ρ/w; 1 if None.
        """
        n = float(len(y)) if weights is None else float(weights.sum())
        total = float(y.sum()) if weights is None else float(weights @ y)
        self.n += n
        self.weighted += total
        precision = weights
        if relative_precision is not None:
            logarithm = torch.log(relative_precision)
            self.log_precision += float(logarithm.sum() if weights is None else weights @ logarithm)
            precision = relative_precision if weights is None else weights * relative_precision
            n, total = float(precision.sum()), float(precision @ y)
        self.precision += n
        self.linear += total
        self.squares += float(y @ y if precision is None else precision @ y.square())
        return precision

    def about(self, origin: float) -> "TargetSums":
        """Return these sums about another origin."""
        change = self.origin - origin
        return replace(
            self,
            origin=origin,
            squares=self.squares + change * (2.0 * self.linear + change * self.precision),
            linear=self.linear + change * self.precision,
            weighted=self.weighted + change * self.n,
        )

    def combine(self, other: "TargetSums", sign: float) -> "TargetSums":
        """Return these sums plus `sign` times others about the same origin."""
        names = ("squares", "linear", "precision", "n", "weighted", "log_precision")
        return replace(self, **{name: getattr(self, name) + sign * getattr(other, name) for name in names})


@dataclass(frozen=True, eq=False)
class Source:
    """What statistics are of: two with equal sources add.

    Attributes
    ----------
    noise : Noise
        What the precision of a row is relative to.
    kernel : str
        As it prints.
    features : str
        The name and a digest of the fitted map: of its kernel, its columns and what was drawn.
    centre : ndarray of shape (d,) or None
        The centre of the map, in the units of X.
    """

    noise: Noise
    kernel: str = ""
    features: str = ""
    centre: NDArray[np.float64] | None = None

    def check(self, other: "Source") -> None:
        """Refuse another source.

        Raises
        ------
        InputError
            It names what differs, of both.
        """
        if self is other:
            return
        same_noise = (self.noise.variance, self.noise.counts_missing) == (
            other.noise.variance,
            other.noise.counts_missing,
        )
        differing: tuple[str, object, object] | None = (
            ("noise variance", self.noise, other.noise) if not same_noise
            else ("kernel", self.kernel, other.kernel) if self.kernel != other.kernel
            else ("map", self.features, other.features) if self.features != other.features
            else ("centre", self.centre, other.centre) if not _same(self.centre, other.centre)
            else None
        )  # fmt: skip
        if differing is not None:
            what, mine, theirs = differing
            raise InputError(
                f"Statistics of another {what} cannot be merged: these have {mine}, the others {theirs}. Sum both with "
                "the same fitted map, centre and noise."
            )


def _same(one: NDArray[np.float64] | None, other: NDArray[np.float64] | None) -> bool:
    return one is other or (one is not None and other is not None and np.array_equal(one, other))


@dataclass
class Statistics:
    """Weighted sums over rows with features φ (D columns) and target y.

    Row i counts with its precision relative to the model's noise variance σ², ρ = w σ²/σᵢ², where w is its weight and
    σᵢ² its noise variance. The sums are kept about an origin of y, which changes nothing but the rounding.

    Attributes
    ----------
    source : Source
        The kernel, map, centre and noise that these statistics are of. Only those of one source add and subtract.
    sums : Sums
        Those that involve the features: products of columns, or moments.
    targets : TargetSums
        Those that do not.
    """

    source: Source
    sums: Sums
    targets: TargetSums = field(default_factory=TargetSums)

    @classmethod
    def zeros(cls, n_features: int, source: Source, origin: float = 0.0) -> "Statistics":
        """Make the statistics of no rows, for D = `n_features` columns."""
        return cls(source, GramSums.zeros(n_features), TargetSums(origin))

    def add_rows(
        self,
        features: torch.Tensor,
        y: torch.Tensor,
        weights: torch.Tensor | None = None,
        relative_precision: torch.Tensor | None = None,
    ) -> None:
        """Add the sums over the rows of one chunk, in place.

        Parameters
        ----------
        features : Tensor of shape (n, D)
        y : Tensor of shape (n,)
            As it is.
        weights : Tensor of shape (n,), optional
            How many rows each row stands for; 1 if not given.
        relative_precision : Tensor of shape (n,), optional
            σ²/σᵢ² of each row; 1 if not given.
        """
        with self.adding() as add:
            add(features, y, weights, relative_precision)

    @contextmanager
    def adding(self, arithmetic: Arithmetic = USUAL) -> Iterator[Callable[..., None]]:
        """Give what adds the rows of a chunk, with the parameters of `add_rows`; at the end they are in these sums.

        Parameters
        ----------
        arithmetic : Arithmetic
            Features are in its precision, on its device; or they are what writes them, see `Products.add`.
        """
        self.sums = sums = self.sums.expand()
        products = Products(sums.gram, sums.cross, arithmetic)

        def add(
            features: Columns,
            y: torch.Tensor,
            weights: torch.Tensor | None = None,
            relative_precision: torch.Tensor | None = None,
        ) -> None:
            left = y - self.targets.origin
            precision = self.targets.add_rows(left, weights, relative_precision)
            place = arithmetic.place
            products.add(features, left.to(place), None if precision is None else precision.to(place))

        yield add
        products.finish()

    @property
    def mean(self) -> float:
        """The weighted mean of y; 0 of no rows."""
        return self.targets.origin + self.targets.weighted / self.targets.n if self.targets.n else 0.0

    def centred(self, center: float) -> "Statistics":
        """Return these statistics about another origin of y, and as sums of products."""
        sums = self.sums.expand().shifted(self.targets.origin - center)
        return Statistics(self.source, replace(sums, gram=sums.gram.clone()), self.targets.about(center))

    def expanded(self) -> "Statistics":
        """Return these statistics as sums of products; statistics that are return themselves."""
        return self if isinstance(self.sums, GramSums) else replace(self, sums=self.sums.expand())

    def of_columns(self, columns: torch.Tensor, factor: float = 1.0) -> "Statistics":
        """Return the statistics of a map that has only some of the columns, times a factor.

        Parameters
        ----------
        columns : Tensor of shape (m,)
            Indices, ascending.
        factor : float

        Returns
        -------
        Statistics
            With a source of its own: they do not add to statistics of the whole map.
        """
        name = f"columns {digest(columns.numpy())} times {factor:g} of {self.source.features}"
        part = replace(self.source, features=name)
        return Statistics(part, self.sums.expand().of_columns(columns, factor), replace(self.targets))

    def merge(self, other: "Statistics", sign: float = 1.0) -> "Statistics":
        """Return the statistics of the rows of both; with ``sign=-1.0``, without the rows of the other.

        Raises
        ------
        InputError
            If the other's kernel, map, centre or noise is not the same.
        """
        self.source.check(other.source)
        origin = self.targets.origin
        sums = self.sums.combine(other.sums.shifted(other.targets.origin - origin), sign)
        return Statistics(self.source, sums, self.targets.combine(other.targets.about(origin), sign))

    def update(self, other: "Statistics", sign: float = 1.0) -> None:
        """Do in place what `merge` does."""
        merged = self.merge(other, sign)
        self.sums, self.targets = merged.sums, merged.targets

    def __add__(self, other: "Statistics") -> "Statistics":
        return self.merge(other)

    def __sub__(self, other: "Statistics") -> "Statistics":
        return self.merge(other, -1.0)
