"""Fits under a noise with heavy tails: rows that are outliers bend them less."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from lmgp.data import Floats, Noise, Rows, sampling
from lmgp.distributions.left_out import LeftOut
from lmgp.distributions.noise import ObservationNoise, mean_gain, pays
from lmgp.kernels.base import Kernel
from lmgp.learning.heldout import N_NEIGHBORS
from lmgp.learning.space import LEAST_NOISE
from lmgp.neighbours.duplicates import steady_order
from lmgp.posteriors.nearest import NearestPosterior

# The weights of outliers settle within this number of rounds at one kernel.
ROUNDS = 3
# Of many rows, each is weighted by what this number of nearest rows predict. Its own weight settles within the second
# number of steps.
NEIGHBORS, STEPS = 16, 10
# The number of rows that are left out to say whether weights pay, and of how many rows one is left out at most. Where
# errors are skewed, weights move means towards the most likely value: a gain is to be this number of standard errors.
LEFT_OUT, ROWS_OF_EACH, SIGNIFICANT = 2000, 5, 3.0


class RobustGain(NamedTuple):
    """What rows left out gain by weights.

    Attributes
    ----------
    normal : ObservationNoise
        The noise around predictions from rows that are not weighted.
    gain, standard_error : float
        In nats a row.
    """

    normal: ObservationNoise
    gain: float
    standard_error: float


class RobustRows(NamedTuple):
    """Rows that are weighted under the noise of a Student t, with its σ², and what that gains."""

    rows: Rows
    noise_variance: float
    gain: RobustGain


def robust_rows(
    rows: Rows, kernel: Kernel, noise_variance: float, learns_noise: bool, wanted: bool
) -> RobustRows | None:
    """Weight many rows of one target under the noise of a Student t, each by what its nearest rows predict.

    The weights are those of `robust_fit`, at one kernel. They settle among four fifths of the rows and more, which then
    predict the others: how much a row pulls follows from the rows around it, so that nothing else is honest.

    Parameters
    ----------
    rows : Rows
        With a centred target.
    kernel : Kernel
        With a metric.
    noise_variance : float
        Where the σ² of all rows begins.
    learns_noise : bool
        Whether it is learned; otherwise it stays, as those that rows bring.
    wanted : bool
        Whether weights are wanted in any case, or only where rows left out are predicted better.

    Returns
    -------
    RobustRows or None
        None where weights do not pay.
    """
    n = len(rows)
    held = steady_order(rows)[sampling(0, 3).permutation(n)[: min(LEFT_OUT, n // ROWS_OF_EACH)]]
    kept = np.setdiff1d(np.arange(n), held)
    some, rest = rows.take(held), rows.take(kept)

    def predicted(precisions: Floats, variance: float) -> tuple[Floats, Floats, LeftOut]:
        means, variances = _nearest(rest, precisions, kernel, variance, N_NEIGHBORS).distribution(some.X)
        std = np.sqrt(variances + Noise(variance).of_rows(some).numpy())[:, None]
        return means, variances, LeftOut.of([(some, some.Y, means, std, True)])

    *_, alike = predicted(np.ones(len(rest)), noise_variance)
    student, _ = ObservationNoise.fitted("student", alike)
    tails = student.chosen
    if not (wanted or pays(tails.gain, tails.standard_error, student.n_rows)):
        return None
    precisions, variance = _settled(rest, kernel, noise_variance, student.degrees, learns_noise)
    means, variances, weighted = predicted(precisions, variance)
    normal, before = ObservationNoise.fitted("auto", alike)
    _, after = ObservationNoise.fitted("auto", weighted)
    gain, error = mean_gain(before, after, some.weights)
    if not wanted and gain < SIGNIFICANT * error:
        return None
    of_all = np.empty(n)
    of_all[kept] = precisions
    of_all[held], _ = _precisions(some, means, variances, np.ones(len(some)), variance, student.degrees)
    return RobustRows(_weighted(rows, of_all), variance, RobustGain(normal, gain, error))


def _settled(rows: Rows, kernel: Kernel, variance: float, degrees: float, learns_noise: bool) -> tuple[Floats, float]:
    """Return the mean λ of each row, and σ², after some rounds."""
    precisions, least = np.ones(len(rows)), LEAST_NOISE * float(rows.Y.var())
    for _ in range(ROUNDS):
        means, variances = _nearest(rows, precisions, kernel, variance, NEIGHBORS).leave_one_out()
        precisions, squares = _precisions(rows, means, variances, precisions, variance, degrees)
        if learns_noise:
            variance = max(float(np.average(precisions * squares, weights=rows.weights)), least)
    return precisions, variance


def _weighted(rows: Rows, precisions: Floats) -> Rows:
    return replace(rows, weights=precisions if rows.weights is None else rows.weights * precisions)


def _nearest(rows: Rows, precisions: Floats, kernel: Kernel, noise_variance: float, number: int) -> NearestPosterior:
    return NearestPosterior(kernel, _weighted(rows, precisions), Noise(noise_variance), number, share=False)


def _precisions(
    rows: Rows, means: Floats, variances: Floats, precisions: Floats, noise_variance: float, degrees: float
) -> tuple[Floats, Floats]:
    """Return the mean λ of rows that are predicted without themselves, and the expected squares of their errors."""
    noise = Noise(noise_variance)
    errors, scales = rows.Y[:, 0] - means[:, 0], noise.of_rows(rows).numpy()
    for _ in range(STEPS):
        own = noise.of_weighted_rows(_weighted(rows, precisions)).numpy()
        share = own / (variances + own)  # of the error that remains where the row itself has a part
        squares = np.square(share * errors) + variances * share
        precisions = relative_precision(squares, scales, degrees)
    return precisions, squares


def relative_precision(squares: Floats, variances: Floats | float, degrees: float) -> Floats:
    """Return the mean λ of rows, by the expected squares of their errors, see `robust_fit`."""
    return (degrees + 1.0) / (degrees + squares / variances)


def robust_fit(model: Any, arguments: Mapping[str, Any], degrees: float) -> Any:
    """Return a model that is fitted under the noise of a Student t, by variational EM.

    A t of ν degrees of freedom and scale σ is a normal distribution of variance σ²/λ, with a λ of each row that has a
    gamma distribution of mean 1. Where the function has the mean m and the variance v at a row, its λ has the mean
    (ν + 1)/(ν + ((y − m)² + v)/σ²): the weight of the row in the next fit, small for an outlier. The next σ² is the
    mean of λ ((y − m)² + v). Hyper-parameters that are learned begin as those under a t by Vecchia's likelihood. After
    some rounds they are learned once more, from the rows as they are weighted then, and as many rounds follow.

    Parameters
    ----------
    model : GaussianProcess
        Fitted to one target.
    arguments : mapping
        Those of `fit`. A row that is weighted has one λ, and counts once where hyper-parameters are learned. Noise
        variances are the σ² of their rows, and stay, as a `noise_variance` that is given.
    degrees : float
        ν.

    Returns
    -------
    GaussianProcess
        A copy with normal noise, of which σ² is the noise variance of new rows.

    References
    ----------
    M. E. Tipping and N. D. Lawrence, *Variational Inference for Student-t Models: Robust Bayesian Interpolation and
    Generalised Component Analysis*, Neurocomputing 69, 2005.
    """
    again = clone(model).set_params(noise="normal", trend=model._fitted_trend, **model._same_columns)
    X, y = arguments["X"], np.asarray(arguments["y"], float).ravel()
    named = not isinstance(model.kernel, Kernel)
    if named:  # the form of the kernel stays as it is
        chosen = model.learning_.chosen
        again.set_params(kernel=chosen.kernel, ard=chosen.ard)
    if "average" in again.get_params():
        again.set_params(average=False)  # each turn goes on from one kernel
    given, variances = arguments["sample_weight"], arguments["noise_variances"]
    weights = np.broadcast_to(1.0 if given is None else np.asarray(given, dtype=np.float64), y.shape)
    if named and model.kernel_.can("metric"):
        # Vecchia's likelihood has a t, and is taken of more rows than these.
        model = clone(again).set_params(noise="student", max_learning_rows=2)._fit_normal(**arguments)
    for turn in range(2 * ROUNDS):
        mean, std = model.predict(X, return_std=True)
        squares = np.square(y - mean.ravel()) + np.square(std.ravel())
        precisions = relative_precision(squares, model.noise_variance_ if variances is None else variances, degrees)
        of_turn = clone(again)
        if turn != ROUNDS:
            of_turn.set_params(kernel=model.kernel_)
            if again.noise_variance is None and variances is None:
                noise = float(np.average(precisions * squares, weights=weights))
                of_turn.set_params(noise_variance=max(noise, LEAST_NOISE * float(y.var())))
        model = of_turn._fit_normal(**{**arguments, "sample_weight": weights * precisions})
    return model
