"""How the search for a kernel goes: its rounds, and what decides who goes on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Round:
    """One round: on this number of positions, with this number of neighbours, for at most this number of steps.

    Attributes
    ----------
    n_positions, n_neighbors, n_steps : int
    n_kept : int
        The number of forms that go on; of the first round, of single kernels and of sums each.
    tolerance : float
        In nats, see `lmgp.learning.scoring.climb`.
    """

    n_positions: int
    n_neighbors: int
    n_steps: int
    n_kept: int
    tolerance: float


@dataclass(frozen=True)
class SearchPlan:
    """How the search goes.

    Attributes
    ----------
    first, second, last : Round
        All forms, those that are left, and the best sum and the best single kernel, between which held-out rows decide.
    positions_per_parameter : int
        The last round takes this number of positions for each free parameter, if that is more: on few positions, many
        parameters vary with the sample.
    max_rows : int
        The first two rounds look at a sample of at most this number of rows.
    start_lengthscales, start_noises : tuple of float
        Where a single kernel starts: at the best of these, in √d standard deviations and in variances of y.
    apart : tuple of float
        Where a sum starts: at the best of these factors on the lengthscales of its smoother part.
    closer : tuple of (int, int)
        Numbers of neighbours and of positions that the last round goes on to, as long as that pays.
    gain : float
        In nats per row: what more neighbours have to add.
    exact : tuple of Round
        Of the exact likelihood: the positions are those of its information. All forms take the first steps, and those
        with the highest likelihood go on.
    sample : Round
        Of the exact likelihood of a sample, beside the Vecchia likelihood of all rows.
    beside : int
        Beside the Vecchia likelihood of all rows, the exact one is of at most this number of rows, unless the exact
        likelihood of all rows decides.
    n_exact : int
        Of at most `beside` rows, the exact likelihood decides between this number of forms, after the first round:
        where their Vecchia likelihoods are level, it may differ by 100 nats.
    decided : int
        Of at most this multiple of `max_learning_rows` rows, the exact likelihood of all rows decides between optima.
    sampled : int
        Of more rows, that of this multiple of `max_learning_rows` rows decides between those that predict equally well.
    close : float
        In nats: of more rows, the exact likelihood decides between forms whose Vecchia likelihoods are this close, and
        that of all rows between optima where that of half of them is this close.
    behind : float
        In nats: sums have one lengthscale, or one a column, only if the best single kernel of that kind is not this far
        behind the best of the other kind. A third form goes on if it is not this far behind the best one of its kind.
    fewest_to_leave_out : int
        Of at most this number of rows, none is left out.
    rows_per_parameter : int
        With fewer rows for each parameter of a sum with one lengthscale a column, ``ard="auto"`` tries no such kernel.
    """

    first: Round = Round(500, 16, 8, 3, 0.5)
    second: Round = Round(1200, 30, 8, 3, 0.5)
    last: Round = Round(4000, 30, 16, 1, 0.5)
    exact: tuple[Round, ...] = (Round(200, 30, 3, 2, 0.02), Round(200, 30, 12, 1, 0.02))
    sample: Round = Round(1000, 30, 8, 1, 0.05)
    beside: int = 1000
    n_exact: int = 6
    decided: int = 4
    sampled: int = 2
    close: float = 20.0
    behind: float = 5.0
    positions_per_parameter: int = 250
    max_rows: int = 50_000
    start_lengthscales: tuple[float, ...] = (0.03, 0.1, 0.3, 1.0, 3.0)
    start_noises: tuple[float, ...] = (0.02, 0.3)
    apart: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0)
    closer: tuple[tuple[int, int], ...] = ((60, 3000), (120, 2000))
    gain: float = 0.02
    fewest_to_leave_out: int = 100
    rows_per_parameter: int = 3


PLAN = SearchPlan()
