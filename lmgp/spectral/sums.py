"""The additive statistics of rows on Fourier modes: they know no kernel."""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import InputError
from lmgp.noise import Noise
from lmgp.spectral.modes import Modes
from lmgp.spectral.transforms import sums_over_rows
from lmgp.statistics import Source
from lmgp.validation import Rows

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

# Precisions are equal where the standard deviation of their logarithms is below this.
EQUAL = 1e-5


@dataclass(frozen=True, eq=False)
class SpectralSums:
    """Sums over rows, with the precision ρ of each: those of disjoint rows add.

    Row i counts with its precision relative to the model's noise variance σ², ρ = w σ²/σᵢ², where w is its weight and
    σᵢ² its noise variance. The targets t are y less hᵀ`origin`, and the p columns h of a trend; the first one is 1.

    Attributes
    ----------
    modes : Modes
    source : Source
        The modes, trend and noise that these sums are of. Only those of one source add and subtract.
    generator : ndarray of shape half_shape(2 m)
        Σ ρ e^{−2πi h∘k·(x − center)} of all differences k of two modes: the Gram matrix is Toeplitz.
    cross : ndarray of shape (1 + p, *half_shape(m))
        Σ ρ t e^{−2πi h∘j·(x − center)}.
    products : ndarray of shape (1 + p, 1 + p)
        Σ ρ t tᵀ.
    totals : ndarray of shape (1 + p,)
        Σ w t.
    log_precision : float
        Σ w log(ρ/w), the rows' own part of the log likelihood.
    origin : ndarray of shape (p,)
        Any coefficients near those of y, so that sums of squares lose no digits.
    """

    modes: Modes
    source: Source
    generator: Complexes
    cross: Complexes
    products: Floats
    totals: Floats
    log_precision: float
    origin: Floats

    @classmethod
    def of(
        cls, modes: Modes, rows: Rows, columns: Floats, noise: Noise, variances: Floats, tolerance: float,
        *, trend: str = "", origin: Floats | None = None,
    ) -> "SpectralSums":  # fmt: skip
        """Sum over rows.

        Parameters
        ----------
        modes : Modes
        rows : Rows
            With y as it is.
        columns : ndarray of shape (n, p)
            h, of which the first column is 1.
        noise : Noise
            σ².
        variances : ndarray of shape (n,)
            σᵢ²/w of each row.
        tolerance : float
            Of the transforms, relative.
        trend : str, default=""
            The name of the columns h: sums of others do not add.
        origin : ndarray of shape (p,), optional
            Zero if not given.
        """
        origin = np.zeros(columns.shape[1]) if origin is None else origin
        targets = np.vstack((rows.y - columns @ origin, columns.T))
        precision = noise.variance / variances
        weights = np.ones(len(rows.y)) if rows.weights is None else rows.weights
        weighted = precision * targets
        # One transform for all: the generator holds the sums of the column of ones.
        every = sums_over_rows(modes.angles(rows.X), weighted, modes.doubled.counts, tolerance)
        return cls(
            modes,
            Source(noise, features=modes.name + trend, centre=modes.center),
            every[1],
            _inner(every, modes),
            weighted @ targets.T,
            targets @ weights,
            _weighted_logarithms(precision / weights, weights),
            origin,
        )

    @property
    def n(self) -> float:
        """The number of rows, each by its weight."""
        return float(self.totals[1])

    @property
    def mean(self) -> float:
        """The weighted mean of y."""
        means = self.totals / self.n
        return float(means[0] + self.origin @ means[1:])

    @property
    def shared_noise(self) -> float | None:
        """The noise variance of all rows; None where they differ."""
        precision = float(self.products[1, 1]) / self.n
        # By Jensen's inequality, the mean of the logarithms of precisions that differ is below that of the mean.
        equal = math.log(precision) - self.log_precision / self.n <= 0.5 * EQUAL**2
        return self.source.noise.variance / precision if equal else None

    def about(self, origin: Floats) -> "SpectralSums":
        """Return these sums about another origin."""
        if np.array_equal(origin, self.origin):
            return self
        change = np.concatenate(([1.0], self.origin - origin))  # of the first target: what is taken of each
        basis = np.eye(len(change))
        basis[0] = change
        cross = self.cross.copy()
        cross[0] = np.tensordot(change, self.cross, axes=1)
        products = basis @ self.products @ basis.T
        return replace(self, cross=cross, products=products, totals=basis @ self.totals, origin=origin)

    def with_noise(self, noise: Noise, variance: float) -> "SpectralSums":
        """Return the sums where all rows have another noise variance, relative to that of `noise`."""
        factor = noise.variance / variance * self.n / float(self.products[1, 1])
        return replace(
            self,
            source=replace(self.source, noise=noise),
            generator=factor * self.generator,
            cross=factor * self.cross,
            products=factor * self.products,
            log_precision=self.n * math.log(noise.variance / variance),
        )

    def merge(self, other: "SpectralSums", sign: float = 1.0) -> "SpectralSums":
        """Return the sums over the rows of both; with ``sign=-1.0``, without the rows of the other.

        Raises
        ------
        InputError
            If the other's modes, trend or noise are not the same.
        """
        self.source.check(other.source)
        other = other.about(self.origin)
        added = ("generator", "cross", "products", "totals", "log_precision")
        return replace(self, **{name: getattr(self, name) + sign * getattr(other, name) for name in added})

    def __add__(self, other: "SpectralSums") -> "SpectralSums":
        return self.merge(other)

    def __sub__(self, other: "SpectralSums") -> "SpectralSums":
        return self.merge(other, -1.0)


def check_admitted(modes: Modes, X: Floats) -> None:
    """Refuse rows that are outside the box of the modes.

    Raises
    ------
    InputError
        It names the first of them, and says what to do.
    """
    (outside,) = np.nonzero(~modes.admits(X))
    if len(outside):
        box = " × ".join(
            f"[{low:.6g}, {high:.6g}]"
            for low, high in zip(modes.low - modes.margin, modes.high + modes.margin, strict=True)
        )
        raise InputError(
            f"Rows are added within {box}, which the Fourier modes serve; {len(outside):,} rows are not, the first of "
            f"them row {outside[0]}, {X[outside[0]].tolist()}. Leave them out, or fit again to all rows, "
            "or with a box that holds those to come."
        )


def _weighted_logarithms(values: Floats, weights: Floats) -> float:
    """Return Σ w log v; of equal values, from one logarithm."""
    if np.all(values == values[:1]):
        return float(weights.sum() * np.log(values[:1]).sum())
    return float(weights @ np.log(values))


def _inner(values: Complexes, modes: Modes) -> Complexes:
    """Return the modes from −m to m, of arrays that hold those from −2m to 2m."""
    for axis, m in enumerate(modes.counts[:-1].tolist(), start=1):
        values = np.concatenate((values.take(range(m + 1), axis), values.take(range(-m, 0), axis)), axis)
    return np.ascontiguousarray(values[..., : modes.shape[-1]])
