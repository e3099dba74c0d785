"""How the search for a kernel goes: its rounds, and what decides who goes on."""

from typing import NamedTuple


class Round(NamedTuple):
    """One round: on this number of positions, with this number of neighbours, for at most this number of steps.

    Attributes
    ----------
    n_positions, n_neighbors, n_steps : int
    n_kept : int
        The number of forms that go on; of the first round, of single kernels and of sums each.
    tolerance : float
        In nats, see `lmgp.learning.scoring.Climb`.
    """

    n_positions: int
    n_neighbors: int
    n_steps: int
    n_kept: int
    tolerance: float


# All forms, those that are left, and the best sum and the best single kernel, between which held-out rows decide.
FIRST = Round(500, 16, 8, 3, 0.5)
SECOND = Round(1200, 30, 8, 3, 0.5)
LAST = Round(4000, 30, 16, 1, 0.5)
# The last round takes this number of positions for each free parameter, if that is more: on few positions, many
# parameters vary with the sample.
POSITIONS_PER_PARAMETER = 250
# The first two rounds look at a sample of at most this number of rows.
MAX_ROWS = 50_000
# Where a single kernel starts: at the best of these, in √d standard deviations and in variances of y.
START_LENGTHSCALES, START_NOISES = (0.03, 0.1, 0.3, 1.0, 3.0), (0.02, 0.3)
# Where a sum starts: at the best of these factors on the lengthscales of its smoother part.
APART = (0.3, 1.0, 3.0, 10.0)
# Numbers of neighbours and of positions that the last round goes on to, as long as more neighbours add this gain, in
# nats per row.
CLOSER = ((60, 3000), (120, 2000))
GAIN = 0.02
# Of the exact likelihood: the positions are those of its information. All forms take the first steps, and those with
# the highest likelihood go on.
EXACT = (Round(200, 30, 3, 2, 0.02), Round(200, 30, 12, 1, 0.02))
# Of the exact likelihood of a kernel whose lengthscales cannot tell which rows are near: the information is of all.
WITHOUT_NEIGHBORS = Round(0, 0, 16, 1, 0.02)
# Of the exact likelihood of a sample, beside the Vecchia likelihood of all rows.
SAMPLE = Round(1000, 30, 8, 1, 0.05)
# Beside the Vecchia likelihood of all rows, the exact one is of at most this number of rows, unless the exact
# likelihood of all rows decides.
BESIDE = 1000
# Of at most `BESIDE` rows, the exact likelihood decides between this number of forms, after the first round: where
# their Vecchia likelihoods are level, it may differ by 100 nats.
N_EXACT = 6
# Of at most this multiple of `max_learning_rows` rows, the exact likelihood of all rows decides between optima.
DECIDED = 4
# Of more rows, that of this multiple of `max_learning_rows` rows decides between those that predict equally well.
SAMPLED = 2
# In nats: of more rows, the exact likelihood decides between forms whose Vecchia likelihoods are this close, and that
# of all rows between optima where that of half of them is this close.
CLOSE = 20.0
# In nats: sums have one lengthscale, or one a column, only if the best single kernel of that kind is not this far
# behind the best of the other kind. A third form goes on if it is not this far behind the best one of its kind.
BEHIND = 5.0
# Of at most this number of rows, none is left out.
FEWEST_TO_LEAVE_OUT = 100
# With fewer rows for each parameter of a sum with one lengthscale a column, ``ard="auto"`` tries no such kernel.
ROWS_PER_PARAMETER = 3
