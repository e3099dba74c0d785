"""Several targets on the same Fourier modes: one set of sums, and conjugate gradients for all of them at once."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lmgp.inference.trend import Trend
from lmgp.memory import memory_limit
from lmgp.spectral.accuracy import warn_of_iterations
from lmgp.spectral.posterior import SpectralPosterior
from lmgp.spectral.solve import Solution, Toeplitz
from lmgp.spectral.sums import SpectralSums
from lmgp.spectral.transforms import sums_over_rows
from lmgp.validation import Rows

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]


def posteriors_of(
    first: SpectralPosterior, rows: Rows, trends: Sequence[Trend], max_memory_gib: float | None = None
) -> tuple[SpectralPosterior, ...]:
    """Return the posteriors of several targets from that of the first.

    They share the modes, the Gram matrix of the rows and the solutions for the columns of a trend.

    Parameters
    ----------
    first : SpectralPosterior
        Of these rows and the first target.
    rows : Rows
        With y of shape (n, t), of mean 0; of a trend, the residuals of its least-squares fits.
    trends : sequence of Trend
        One for each target; none of a constant.
    max_memory_gib : float, optional
        Of targets that do not fit as one group, several groups are solved one after the other.

    Returns
    -------
    tuple of SpectralPosterior

    Warns
    -----
    ToleranceWarning
        If the iterations end before the tolerance is reached.
    """
    sums = _sums_of_each(first, rows)
    group = max(1, int(memory_limit(max_memory_gib) / Toeplitz.n_bytes(first.modes.counts, 1)))
    found = [first]
    for start in range(1, len(sums), group):
        some = sums[start : start + group]
        squares = np.array([float(one.products[0, 0]) for one in some])
        right = np.concatenate([one.cross[:1] for one in some])
        coefficients, solved = first._of_cross(right, first._enough(squares, 0))
        if not solved.converged:
            worst, noise = float(solved.left.max()), first.noise.variance
            warn_of_iterations(solved.n_iterations, worst, noise, first.sums.n, first._tolerance)
        for i, own in enumerate(some):
            trend = trends[start + i] if len(trends) else None
            found.append(_with_solution(first, own, trend, coefficients[i : i + 1], solved, i))
    return tuple(found)


def _sums_of_each(first: SpectralPosterior, rows: Rows) -> list[SpectralSums]:
    """Return the sums of each target: those of the rows and of the columns of a trend are shared."""
    sums, y = first.sums, rows.y.T
    precision = first.noise.variance / first.noise_of(replace(rows, y=rows.y[:, 0]))
    weights = np.ones(len(precision)) if rows.weights is None else rows.weights
    weighted, columns = precision * y, first.columns(rows.X)
    cross = sums_over_rows(first.modes.angles(rows.X), weighted, first.modes.counts, first._transform_tolerance)
    squares, with_columns, totals = np.sum(weighted * y, axis=1), weighted @ columns, y @ weights
    found = []
    for j in range(len(y)):
        products, total = sums.products.copy(), sums.totals.copy()
        products[0, 0], products[0, 1:], products[1:, 0] = squares[j], with_columns[j], with_columns[j]
        total[0] = totals[j]
        whole = np.concatenate((cross[j : j + 1], sums.cross[1:]))
        found.append(replace(sums, cross=whole, products=products, totals=total))
    return found


def _with_solution(
    first: SpectralPosterior, sums: SpectralSums, trend: Trend | None, coefficients: Complexes, solved: Solution, i: int
) -> SpectralPosterior:
    """Return the posterior of one target, which is the i-th of a solution; the columns of a trend are the first's."""
    other, known = copy(first), first._solved
    other._trend = trend
    other.sums = sums if trend is None else replace(sums, origin=trend.start)
    other._coefficients = np.concatenate((coefficients, first._coefficients[1:]))
    other._solved = Solution(
        np.concatenate((solved.vectors[i : i + 1], known.vectors[1:])),
        np.concatenate((solved.left[i : i + 1], known.left[1:])),
        solved.n_iterations,
        solved.converged and known.converged,
    )
    other._estimate()
    return other
