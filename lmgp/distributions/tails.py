"""The noise variance beside errors with heavy tails: smaller than the one that a normal distribution asks for."""

import math
from dataclasses import replace
from time import perf_counter

import numpy as np

from lmgp.data import Floats, Noise, Rows, sampling
from lmgp.distributions.left_out import LeftOut
from lmgp.distributions.noise import mean_gain
from lmgp.distributions.student import Student
from lmgp.learning.record import Learned
from lmgp.learning.space import LEAST_NOISE
from lmgp.neighbours.duplicates import steady_order
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.utils.progress import tried_kernel

# With fewer rows, a robust fit finds a noise of its own.
FEWEST_ROWS = 2001
# Rows that are left out, and those from which each is predicted.
N_ROWS, N_NEIGHBORS = 2000, 128
# The noise variance is divided by `STEP`, or down to the least one, as long as this gains. The last division that gains
# more than this many nats a row, and this many standard errors, is taken: a smaller noise makes means follow outliers.
STEP, LEAST_GAIN, ERRORS = 10.0, 0.01, 3.0


def with_heavy_tails(rows: Rows, learned: Learned) -> Learned:
    """Divide the noise variance by ten as long as a t then predicts rows left out better.

    Under a normal distribution, the few rows that are far off ask for a noise which hides how closely the others follow
    their neighbours. A t has them in its tails. The last division must gain more than three standard errors, and more
    than .01 nats a row.

    Parameters
    ----------
    rows : Rows
        With one centred target.
    learned : Learned
        Of which the kernel stays as it is.
    """
    if len(rows) < FEWEST_ROWS or not learned.kernel.can("metric"):
        return learned
    rows = rows.take(steady_order(rows))  # of many copies, which are near depends on their order
    index = np.sort(sampling().permutation(len(rows))[:N_ROWS])
    some, least = rows.take(index), LEAST_NOISE * float(np.var(rows.Y))
    nearest = NearestPosterior(learned.kernel, rows, Noise(learned.noise_variance), N_NEIGHBORS, share=False)

    def density(noise_variance: float) -> Floats:
        """Return the log density of each row under a t, in nats."""
        noise = Noise(noise_variance)
        means, variances = nearest.with_noise(noise).leave_one_out(index)
        std = np.sqrt(variances + noise.of_rows(some).numpy())
        errors = LeftOut(some.X, some.Y[:, 0], means[:, 0], std, np.ones(len(index), dtype=np.bool_)).errors
        return Student.fitted(errors, some.weights).log_density(errors) - np.log(std)

    start, noise, taken = perf_counter(), learned.noise_variance, None
    before, gain = density(noise), math.inf
    while noise > least and gain > 0.0:
        noise = max(noise / STEP, least)
        after = density(noise)
        gain, error = mean_gain(before, after, some.weights)
        if gain > max(ERRORS * error, LEAST_GAIN):
            taken = noise, after, error
        before = after
    if taken is None:
        return learned
    noise, best, error = taken
    share, value = noise / learned.noise_variance, float(np.average(best, weights=some.weights))
    seconds = perf_counter() - start
    trial = learned.learning.chosen._replace(
        likelihood="leave-one-out, t", n_rows=len(index), n_neighbors=N_NEIGHBORS, log_likelihood=value,
        standard_error=error, alone=math.nan, regions=math.nan, density_error=math.nan, seconds=seconds,
    )  # fmt: skip
    trials = (*(one._replace(chosen=False) for one in learned.learning), tried_kernel(trial))
    return replace(
        learned,
        noise_variance=learned.noise_variance * share,
        average=tuple(one._replace(noise_variance=one.noise_variance * share) for one in learned.average),
        learning=replace(learned.learning, trials=trials),
    )
