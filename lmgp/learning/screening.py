"""Screening of many columns: which of them have lengthscales of their own."""

from dataclasses import replace

import numpy as np

from lmgp.data import Floats
from lmgp.learning.scoring import ExactObjective
from lmgp.learning.space import Space

# At most this number of columns have lengthscales of their own.
OWN_COLUMNS = 20


def screened(objective: ExactObjective, start: Floats) -> tuple[Space, Floats]:
    """Let most of many columns share a lengthscale in each part of a named form.

    Those columns keep lengthscales of their own of which shorter ones raise the likelihood most, by its slope where all
    have the same. All others share one, in their standard deviations.

    Parameters
    ----------
    objective : ExactObjective
        Of some rows.
    start : ndarray of shape (n_free,)
        Where all lengthscales of a part are the same.

    Returns
    -------
    space : Space
    start : ndarray of shape (n_free,)
        The same point there.
    """
    space = objective.space
    (scales,) = np.nonzero(space.kinds == "lengthscale")
    parts, columns = space.labels[scales].T
    candidates = np.unique(columns)
    if len(candidates) <= OWN_COLUMNS or not space.form.named:
        return space, start
    slopes = np.bincount(columns, objective(start).gradient[scales])[candidates]
    shared = np.isin(columns, candidates[np.argsort(slopes, kind="stable")[OWN_COLUMNS:]])
    behind = np.arange(len(start))
    for part in np.unique(parts[shared]):
        of_part = scales[shared & (parts == part)]
        behind[of_part] = of_part[0]
    kept, index = np.unique(behind, return_inverse=True)
    return Space(replace(space.form, ties=index[space.form.ties]), space.units, space.given_noise), start[kept]
