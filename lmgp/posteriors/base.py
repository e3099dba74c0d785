"""What every posterior of a Gaussian process answers, whatever it is made of."""

import math
from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np

from lmgp.data import Floats, Indices, Noise, Rows, TargetSums
from lmgp.errors import InputError, NoEstimateError
from lmgp.kernels.base import Kernel
from lmgp.posteriors.joint import near_covariance, near_samples

# The least share of a residual that a row does not explain itself: below, float64 cannot tell it from none.
LEAST = 1e-12


class Posterior(ABC):
    """A Gaussian process with a given kernel and noise, conditioned on rows with t columns of centred targets.

    Targets share kernel, noise and rows, and so everything but the means: a posterior has one variance for each row
    that it predicts. The columns of a trend are further targets, see `lmgp.posteriors.trend.Trended`.

    Attributes
    ----------
    kernel : Kernel
    noise : Noise
    n_rows : int
        The number n of training rows.
    targets : TargetSums or None
        The sums of targets that it is made of; None of a posterior that is made of rows.
    """

    kernel: Kernel
    noise: Noise
    n_rows: int
    targets: TargetSums | None = None
    _rows: Rows

    @abstractmethod
    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:
        """Predict the latent functions.

        Parameters
        ----------
        X : ndarray of shape (m, d)
        variance : bool, default=True
            Whether to compute variances; the means alone take a small part of the time.

        Returns
        -------
        means : ndarray of shape (m, t)
        variances : ndarray of shape (m,) or None
        """

    def distribution(self, X: Floats) -> tuple[Floats, Floats]:
        """Predict the means, shape (m, t), and the variances, shape (m,)."""
        means, variances = self.predict(X)
        assert variances is not None  # they were asked for
        return means, variances

    @abstractmethod
    def combined(self, combination: Floats) -> Self:
        """Return the posterior of targets that are linear combinations of these, with everything else shared.

        Here the rows are combined, if they are kept; each posterior combines what else it has of the targets.

        Parameters
        ----------
        combination : ndarray of shape (t, s)
            The new targets are Y @ combination.
        """
        if "_rows" not in vars(self):
            return self._changed()
        return self._changed(_rows=self._rows.with_targets(self._rows.Y @ combination))

    @property
    def rows(self) -> Rows:
        """The training rows, with the targets of this posterior.

        Raises
        ------
        InputError
            If only sums over them are kept.
        """
        if "_rows" not in vars(self):
            raise rows_are_gone()
        return self._rows

    @property
    def n_observations(self) -> float:
        """The number of targets whose joint density `log_density` is."""
        return self.rows.n_observations

    @property
    def process(self) -> "Posterior":
        """The posterior of the targets of `rows`, without what is not known of a trend."""
        return self

    def _changed(self, **values: Any) -> Self:
        """Return this posterior with other attributes, and everything else shared."""
        other = type(self).__new__(type(self))
        vars(other).update(vars(self), **values)
        return other

    def products(self) -> Floats | None:
        """Return YᵀC⁻¹Y, shape (t, t), with the covariance C of the training targets, noise included.

        None where no single C has all training rows, as of models around centroids or of nearest rows.
        """
        return None

    def surprise(self, X: Floats) -> Floats:
        """Return yᵀC⁻¹y/n of the training rows of the posterior that predicts each row, shape (m, t).

        With the right covariance C of these n targets it is 1 ± √(2/n). Here C is that of all rows; a posterior without
        one has a surprise of its own.
        """
        products = self.products()
        assert products is not None  # of one C
        return np.tile(products.diagonal() / max(1, self.n_rows), (len(X), 1))

    def prior_variance(self, X: Floats) -> Floats:
        """Return the prior variance of each row, shape (m,)."""
        return self.kernel.evaluate_diagonal(X)

    def covariance(self, X: Floats) -> Floats:
        """Return the covariance of the latent function at rows, shape (m, m).

        Unless a posterior has one of its own, it has its own variances, and the correlations of predictions from the
        nearest rows, see `lmgp.posteriors.joint.near_covariance`.
        """
        return near_covariance(self.kernel, self._places(), self.noise, X, self.variances(X))

    def sample(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        """Draw the latent functions less their means at rows, shape (m, n_samples): the same for all targets."""
        return near_samples(self.kernel, self._places(), self.noise, X, self.variances(X), n_samples, rng)

    def scores(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        """Draw observations less their means, over their standard deviations: each row is standard normal."""
        noise = self.noise.variance
        drawn = self.sample(X, n_samples, rng) + np.sqrt(noise) * rng.standard_normal((len(X), n_samples))
        return drawn / np.sqrt(self.variances(X) + noise)[:, None]

    def _places(self) -> Rows:
        """Return rows that stand for the training rows where targets do not matter."""
        return self.rows

    def variances(self, X: Floats) -> Floats:
        """Return the variance of the latent function at each row, shape (m,)."""
        return self.distribution(X)[1]

    def leave_one_out(self, index: Indices | None = None) -> tuple[Floats, Floats]:
        """Predict training rows, each from all others, at the same kernel and noise.

        Parameters
        ----------
        index : ndarray of int of shape (m,), optional
            Of these rows; of all n if not given.

        Returns
        -------
        means : ndarray of shape (m, t)
        variances : ndarray of shape (m,)
            Of the latent function.
        """
        return self.without_each(self.rows if index is None else self.rows.take(index))

    def without_each(self, rows: Rows) -> tuple[Floats, Floats]:
        """Predict some of the training rows, each without itself; see `leave_one_out`."""
        means, variances = self.distribution(rows.X)
        return without_itself(rows.Y, means, variances, self.noise.of_weighted_rows(rows))

    def at(self, kernel: Kernel, noise_variance: float) -> "Posterior | None":
        """Return the posterior of the same rows with other hyperparameters; None where it takes more than rows."""
        return None

    def log_density(self, kernel: Kernel | None = None, noise_variance: float | None = None) -> Floats:
        """Return the log density of each target, in nats, shape (t,): with these hyperparameters, or with others.

        Unless a posterior has one of its own, it is Vecchia's approximation of it.
        """
        from lmgp.posteriors.vecchia import log_density

        kernel = self.kernel if kernel is None else kernel
        noise_variance = self.noise.variance if noise_variance is None else noise_variance
        return log_density(self.rows, kernel, noise_variance, self.kernel)

    def error(self, X: Floats) -> Floats:
        """Return the divergence from the exact process that this posterior states of each row, in nats, (m, t).

        Raises
        ------
        NoEstimateError
            If it states none.
        """
        raise NoEstimateError(
            f"return_error needs a model that states its divergence from the exact process; {type(self).__name__} "
            "states none. Compare with ExactGPRegressor on some rows instead."
        )

    def missing(self, X: Floats) -> Floats:
        """Return the prior variance that a map leaves out of each row and that its prediction has, shape (m,)."""
        return np.zeros(len(X))

    def cure(self, X: Floats) -> str:
        """Say what makes predictions plausible that contradict the model, in a sentence; X has one row."""
        return (
            f"The noise variance {self.noise.variance:.3g} is too small for the rows, or for the kernel: average rows "
            "that repeat each other, or give a larger noise_variance."
        )


def without_itself(Y: Floats, means: Floats, variances: Floats, noise: Floats) -> tuple[Floats, Floats]:
    """Return the means and the latent variances of rows without each of them, from those with it.

    With the posterior variance v of a row from all rows, and its noise s, h = v/s is the row's leverage on its own
    mean m: without it, the mean is y − (y − m)/(1 − h) and the variance v/(1 − h).

    Parameters
    ----------
    Y, means : ndarray of shape (n, t)
    variances, noise : ndarray of shape (n,)
        The noise variance is that of the row over its weight.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, 2006, eq. 5.12.
    """
    remaining = np.maximum(1.0 - variances / noise, LEAST)
    return Y - (Y - means) / remaining[:, None], variances / remaining


def normal_log_density(squares: Floats, log_determinant: float, n: int) -> Floats:
    """Return log N(y | 0, C) of targets with yᵀC⁻¹y = `squares` and log det C = `log_determinant`, in nats."""
    return -0.5 * (squares + log_determinant + n * math.log(2.0 * math.pi))


def repetitions(rows: Rows, noise: Noise) -> float:
    """Return −2 times what w equal rows add to the log density of one row with the noise σ²/w, summed over rows."""
    if rows.counts is None:
        return 0.0
    return float((rows.counts - 1.0) @ np.log(2.0 * math.pi * noise.of_rows(rows)) + np.log(rows.counts).sum())


def made_for_one_kernel(model: str, what: str) -> InputError:
    """Make the error of a posterior that has no log density at another kernel."""
    return InputError(
        f"log_marginal_likelihood of {model} is that of {what}, made for kernel_: there is none at another theta. Fit "
        "a model with kernel=model.kernel_.with_theta(theta), or use ExactGPRegressor or NearestNeighborsGPRegressor."
    )


def rows_are_gone() -> InputError:
    """Make the error of what needs the training rows of a model that has only their sums."""
    return InputError(
        "This model has sums over its training rows, and not the rows themselves: it was loaded from a file, copied, "
        "fitted to chunks, or rows were added, taken out or merged. Fit it to all rows at once, in memory, for "
        "leave-one-out predictions and all else that takes the rows."
    )
