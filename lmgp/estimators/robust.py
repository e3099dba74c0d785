"""Fits under a noise with heavy tails: rows that are outliers bend them less."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import clone

from lmgp.kernels.base import Kernel
from lmgp.learning.space import LEAST_NOISE

# The weights of outliers settle within this number of rounds at one kernel.
ROUNDS = 3


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
        pull = (degrees + 1.0) / (degrees + squares / (model.noise_variance_ if variances is None else variances))
        of_turn = clone(again)
        if turn != ROUNDS:
            of_turn.set_params(kernel=model.kernel_)
            if again.noise_variance is None and variances is None:
                noise = float(np.average(pull * squares, weights=weights))
                of_turn.set_params(noise_variance=max(noise, LEAST_NOISE * float(y.var())))
        model = of_turn._fit_normal(**{**arguments, "sample_weight": weights * pull})
    return model
