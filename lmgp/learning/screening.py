"""Screening of many columns: which of them have lengthscales of their own."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lmgp.data import Floats, Indices
from lmgp.learning.scoring import ExactObjective
from lmgp.learning.space import Space

# At most this number of columns have lengthscales of their own.
OWN_COLUMNS = 20


class Screening(NamedTuple):
    """A space in which most of many columns share a lengthscale in each part.

    Attributes
    ----------
    space : Space
    start : ndarray of shape (n_free,)
        A point there.
    places : ndarray of int
        Which of its numbers each number of the space of all lengthscales has become.
    own : ndarray of int
        The columns with lengthscales of their own.
    """

    space: Space
    start: Floats
    places: Indices
    own: Indices

    def shorter_half(self, free: Floats, full: Space) -> Indices:
        """Return the half of the columns that have the shortest lengthscales of their own in any part."""
        scales, columns = _lengthscales(full)
        least = np.full(columns.max() + 1, np.inf)
        np.minimum.at(least, columns, free[self.places][scales])
        half: Indices = self.own[np.argsort(least[self.own], kind="stable")[: OWN_COLUMNS // 2]]
        return half


def screened(objective: ExactObjective, start: Floats, stay: Indices | None = None) -> Screening:
    """Let most of many columns share a lengthscale in each part of a named form.

    Those columns have lengthscales of their own of which shorter ones raise the likelihood most, by its slope. All
    others share one, in their standard deviations.

    Parameters
    ----------
    objective : ExactObjective
        Of some rows.
    start : ndarray of shape (n_free,)
        In the space of all lengthscales, where the slope is taken.
    stay : ndarray of int, optional
        Columns that have lengthscales of their own, whatever the slope.

    Returns
    -------
    Screening
        With the same point to start from, but that columns which share a lengthscale have that of the first of them.
    """
    space = objective.space
    scales, columns = _lengthscales(space)
    candidates = np.unique(columns)
    if len(candidates) <= OWN_COLUMNS or not space.form.named:
        return Screening(space, start, np.arange(len(start)), candidates)
    slopes = np.bincount(columns, objective(start).gradient[scales])[candidates]
    if stay is not None:
        slopes[np.isin(candidates, stay)] = -np.inf
    own = candidates[np.argsort(slopes, kind="stable")[:OWN_COLUMNS]]
    parts, shared, behind = space.labels[scales, 0], ~np.isin(columns, own), np.arange(len(start))
    for part in np.unique(parts[shared]):
        of_part = scales[shared & (parts == part)]
        behind[of_part] = of_part[0]
    kept, index = np.unique(behind, return_inverse=True)
    form = replace(space.form, ties=index[space.form.ties])
    return Screening(Space(form, space.units, space.given_noise), start[kept], index, own)


def _lengthscales(space: Space) -> tuple[Indices, Indices]:
    """Return which numbers of a space are lengthscales, and the column of each."""
    (scales,) = np.nonzero(space.kinds == "lengthscale")
    return scales, space.labels[scales, 1]
