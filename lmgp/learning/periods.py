"""The likely periods of rows: the peaks of their periodogram."""

import finufft
import numpy as np

from lmgp.data import Floats, Rows

# The likelihood has a maximum near each of many periods: those of this number of peaks are tried.
CANDIDATES = 4
# The periodogram has this number of frequencies for each cycle within the extent of a column, from two cycles on, up to
# one cycle for two rows and at most the second number of cycles; and at most the third number of rows has a part in it.
OVERSAMPLED, MOST_CYCLES, MOST_ROWS = 8, 4000, 2000
# Of two peaks that are nearer to each other, in cycles within the extent, the lower one is a side lobe.
APART = 2.0


def likely_periods(rows: Rows) -> Floats:
    """Find the periods of the highest peaks of the periodogram of y less a quadratic trend, in each column.

    Parameters
    ----------
    rows : Rows

    Returns
    -------
    ndarray of shape (4, d)
        In the units of the columns; where there are fewer peaks, 1/2, 1/4, ... of the extent of the column follow.

    References
    ----------
    N. R. Lomb, *Least-Squares Frequency Analysis of Unequally Spaced Data*, Astrophysics and Space Science 39, 1976.
    """
    step = -(-len(rows) // MOST_ROWS)
    order = np.random.default_rng(0).permutation(len(rows))[::step]  # a regular part of the rows would hide periods
    return np.column_stack([_periods(column[order], rows.Y[order], len(rows)) for column in rows.X.T])


def _periods(x: Floats, Y: Floats, n_rows: int) -> Floats:
    from scipy.signal import find_peaks  # here, for it takes half a second to load

    extent = float(np.ptp(x))
    if extent == 0.0:
        return np.ones(CANDIDATES)
    x = (x - x.min()) / extent
    trend = np.vander(x, 3)
    left = Y - trend @ np.linalg.lstsq(trend, Y, rcond=None)[0]
    cycles = np.arange(2.0, max(3.0, min(0.5 * n_rows, MOST_CYCLES)), 1.0 / OVERSAMPLED)
    modes, angles = (OVERSAMPLED * cycles).astype(int), 2.0 * np.pi / OVERSAMPLED * x
    waves = finufft.nufft1d1(
        angles, left.T.astype(complex, order="C"), 2 * modes[-1] + 2, eps=1e-12, modeord=1, nthreads=1
    )
    power = np.square(np.abs(waves[..., modes])).reshape(-1, len(modes)).sum(axis=0)
    peaks, _ = find_peaks(power, distance=APART * OVERSAMPLED)
    highest = cycles[peaks[np.argsort(-power[peaks], kind="stable")[:CANDIDATES]]]
    return extent / np.append(highest, 2.0 ** np.arange(1, 1 + CANDIDATES - len(highest)))
