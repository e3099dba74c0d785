"""Averages of Gaussian processes: of draws of their hyperparameters, or of kernels that predict rows left out."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from lmgp.data import Floats, Indices, Noise, Rows
from lmgp.kernels.base import Kernel
from lmgp.posteriors.base import Posterior

# A mixture by stacking is of at most this number of processes, each with this weight at least: its predictions take as
# long as those of all of them.
MOST, LEAST = 3, 0.05
# Steps of expectation maximisation: its weights change by less than 1e-3 in more.
STEPS = 500


class WeightedKernel(NamedTuple):
    """One process of an average.

    Attributes
    ----------
    kernel : Kernel
    noise_variance : float
        In squared units of y.
    weight : float
        Those of an average add up to 1.
    """

    kernel: Kernel
    noise_variance: float
    weight: float


def stacking_weights(densities: Floats, counts: Floats) -> Floats:
    """Return the weights with which the mixture of k distributions predicts rows best, some of them zero.

    They maximise Σᵢ cᵢ log Σₖ wₖ pₖ(yᵢ), by expectation maximisation.

    Parameters
    ----------
    densities : ndarray of shape (k, n)
        log pₖ(yᵢ) of rows that had no part in their prediction, in nats.
    counts : ndarray of shape (n,)
        How much each row counts, cᵢ.

    References
    ----------
    Y. Yao, A. Vehtari, D. Simpson and A. Gelman, *Using Stacking to Average Bayesian Predictive Distributions*,
    Bayesian Analysis 13, 2018, section 3.
    """
    weights = np.ones(len(densities))
    for least, most in ((0.0, len(weights)), (LEAST, MOST)):
        weights[np.argsort(-weights, kind="stable")[most:]] = 0.0
        weights = np.where(weights >= min(least, weights.max()), weights, 0.0) / weights.sum()
        # Of those still in: what is left out may be all that a row had, to the last digit.
        relative = np.exp(np.minimum(densities - densities[weights > 0.0].max(axis=0), 0.0))
        for _ in range(STEPS):
            shares = weights[:, None] * relative
            weights = np.average(shares / shares.sum(axis=0), axis=1, weights=counts)
    return weights


class AveragePosterior(Posterior):
    """The normal distribution with the mean and the variance of a mixture of posteriors, of one target.

    With the means mₖ, the variances vₖ and the weights wₖ, the mean is m = Σ wₖ mₖ and the variance
    Σ wₖ (vₖ + mₖ²) − m²: what the processes disagree by is a part of it. The noise variance is Σ wₖ σₖ².

    Parameters
    ----------
    parts : sequence of Posterior
        Of the same rows, the likeliest first.
    weights : ndarray of shape (k,)
        Their sum is 1.
    """

    def __init__(self, parts: Sequence[Posterior], weights: Floats) -> None:
        self.kernel, self.n_rows = parts[0].kernel, parts[0].n_rows
        first, *others = (part.noise.variance for part in parts)
        # To the last bit where it is given, and so that of all.
        noise_variance = first + float(weights[1:] @ [other - first for other in others])
        self.noise = Noise(noise_variance, parts[0].noise.approximation)
        self.parts, self.weights = tuple(parts), weights

    @property
    def rows(self) -> Rows:  # noqa: D102
        return self.parts[0].rows

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:  # noqa: D102
        if variance:
            return self._moments([part.distribution(X) for part in self.parts])
        return self._mean([part.predict(X, False)[0] for part in self.parts]), None

    def _mean(self, values: ArrayLike) -> Floats:
        """Return the weighted mean of what each part has."""
        return np.tensordot(self.weights, np.asarray(values), 1)

    def _moments(self, predicted: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
        """Return the means, shape (m, 1), and the variances of the mixture."""
        means, variances = (np.array(each) for each in zip(*predicted, strict=True))
        mean = self._mean(means)
        return mean, self._mean(variances + np.square(means - mean)[..., 0])

    def combined(self, combination: Floats) -> Self:  # noqa: D102
        return self._changed(parts=tuple(part.combined(combination) for part in self.parts))

    def surprise(self, X: Floats) -> Floats:
        """Return the weighted mean of the surprises of the parts."""
        return self._mean([part.surprise(X) for part in self.parts])

    def prior_variance(self, X: Floats) -> Floats:  # noqa: D102
        return self._mean([part.prior_variance(X) for part in self.parts])

    def covariance(self, X: Floats) -> Floats:  # noqa: D102
        apart = np.array([part.predict(X, False)[0][:, 0] for part in self.parts])
        apart -= self._mean(apart)
        return self._mean([part.covariance(X) for part in self.parts]) + (self.weights * apart.T) @ apart

    def sample(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        """Draw from the mixture: each draw is one of a part, as often as its weight says."""
        means = [part.predict(X, False)[0] for part in self.parts]
        mean = self._mean(means)
        return self._drawn(lambda k, size: self.parts[k].sample(X, size, rng) + means[k] - mean, n_samples, rng)

    def scores(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        """Draw those of a part, as often as its weight says: a mixture of standard normal rows is standard normal."""
        return self._drawn(lambda k, size: self.parts[k].scores(X, size, rng), n_samples, rng)

    def _drawn(self, draw: Callable[[int, int], Floats], n_samples: int, rng: np.random.Generator) -> Floats:
        """Return draws, each by a part, as often as its weight says."""
        which = rng.choice(len(self.parts), n_samples, p=self.weights)
        order = np.argsort(which, kind="stable")
        drawn = np.hstack([draw(k, int(size)) for k, size in enumerate(np.bincount(which)) if size])
        return drawn[:, np.argsort(order)]

    def leave_one_out(self, index: Indices | None = None) -> tuple[Floats, Floats]:  # noqa: D102
        return self._moments([part.leave_one_out(index) for part in self.parts])

    def without_each(self, rows: Rows) -> tuple[Floats, Floats]:  # noqa: D102
        return self._moments([part.without_each(rows) for part in self.parts])

    def log_density(self, kernel: Kernel | None = None, noise_variance: float | None = None) -> Floats:
        """Return that of the likeliest part."""
        return self.parts[0].log_density(kernel, noise_variance)

    def error(self, X: Floats) -> Floats:
        """Return the weighted mean of what the parts state: at least the divergence between the mixtures."""
        return self._mean([part.error(X) for part in self.parts])

    def cure(self, X: Floats) -> str:  # noqa: D102
        return self.parts[0].cure(X)


def averaged(kernels: Sequence[WeightedKernel], build: Callable[[Kernel, float], Posterior]) -> Posterior:
    """Return the posterior that is built of a kernel and its noise variance; of several, their average."""
    parts = [build(kernel.kernel, kernel.noise_variance) for kernel in kernels]
    return parts[0] if len(parts) == 1 else AveragePosterior(parts, np.array([kernel.weight for kernel in kernels]))
