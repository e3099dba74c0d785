"""Gaussian processes whose mean is solved for all rows at once, on Fourier modes, and whose variance is local."""

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from lmgp.errors import InputError
from lmgp.inference.learning import Hyperparameters
from lmgp.learning.forms import Ard
from lmgp.learning.learn import Wanted
from lmgp.models.base import GaussianProcess, GPFit, TrendColumns
from lmgp.noise import Noise
from lmgp.spectral.dense import DenseFactor
from lmgp.spectral.posterior import SpectralError, SpectralPosterior
from lmgp.spectral.variance import PLAN, NearestVariance, RowVariance, TaylorVariance, local_variance
from lmgp.validation import RandomState, Rows, generator, validated

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class SpectralFit(GPFit):
    """The fitted state of a spectral model."""

    posterior: SpectralPosterior
    rows: Rows
    variance: DenseFactor | RowVariance | NearestVariance | TaylorVariance


class SpectralGPRegressor(GaussianProcess):
    """A Gaussian process in up to three columns: the mean by a global solve on Fourier modes, the variance locally.

    The mean is that of all rows. Fitting takes one non-uniform Fourier transform of the rows, and conjugate gradients;
    the work of one iteration does not depend on the number of rows. For every stationary kernel whose spectral density
    falls off: Gaussian, rational quadratic, Matérn of smoothness 3/2 and 5/2, and their sums. The variance is exact for
    up to 2,048 rows or modes. For more, it is that of localized Taylor features, or of the nearest rows where the
    kernel is no Gaussian: of as many as the tolerance asks for.

    Parameters
    ----------
    tolerance : float, default=1e-3
        The root mean square error of the mean, in noise standard deviations, that the choice of modes, and the
        iterations, may each leave: 1e-3 is a KL divergence from the exact mean of about 5e-7 nats a row.
    max_iterations : int, default=2000
        Of conjugate gradients. They grow with the square root of the number of rows over the noise variance.
    kernel : Kernel, str, list of str or None, default=None
        With a spectral density, used as it is, but for parameters with bounds, which are learned. A name, such as
        "matern32" or "matern52+gaussian", or several: what predicts best of these, learned from all rows, see
        `lmgp.learn`. None: a `GaussianKernel` by maximum marginal likelihood of at most `max_learning_rows` rows.
    noise_variance : float, optional
        In squared units of y; learned likewise if not given.
    trend : {"constant", "linear"} or list of int or str, default="constant"
        The mean function: the mean of y, an intercept and a slope for each column, or for these columns; see
        `ExactGPRegressor`. It is estimated from all rows.
    ard : bool or "auto", default=False
        Whether a learned kernel has one lengthscale a column; "auto" tries both.
    max_learning_rows : int, default=2000
        The largest number of rows whose exact likelihood is maximised; of more rows, a random sample of this size.
    max_memory_gib : float, default=4.0
        The memory of the modes, in GiB. Modes that need more are refused before they are made.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Draws the rows from which hyper-parameters are learned.

    Attributes
    ----------
    error_ : SpectralError
        The number of modes and iterations, an estimate of the divergence by frequencies left out, and a bound of what
        the iterations leave. Printed, it is a table.
    kernel_, noise_variance_, center_, trend_, learning_, relevance_, n_features_in_
        See `ExactGPRegressor`.

    Notes
    -----
    Rows far outside the box of the training rows have the prior's prediction, as the exact process has. Rows near it
    are served by the modes, whose period is larger than the box by twice the reach of the kernel.

    References
    ----------
    P. Greengard, M. Rachh and A. Barnett, *Equispaced Fourier Representations for Efficient Gaussian Process Regression
    from a Billion Data Points*, 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import GaussianKernel, SpectralGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 100, (2000, 2))
    >>> y = np.sin(X[:, 0] / 5) + np.cos(X[:, 1] / 5) + 0.1 * rng.normal(size=2000)
    >>> model = SpectralGPRegressor(kernel=GaussianKernel(8.0), noise_variance=0.01).fit(X, y)
    >>> mean, std = model.predict([[50.0, 50.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(10.0) - np.cos(10.0)) < 3 * std[0])
    True
    >>> model.error_.converged
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GaussianProcess._parameter_constraints,
        "tolerance": [Interval(Real, 0, None, closed="neither")],
        "max_iterations": [Interval(Integral, 1, None, closed="left")],
    }

    _fitted: SpectralFit

    def __init__(
        self,
        tolerance: float = 1e-3,
        *,
        max_iterations: int = 2000,
        kernel: Wanted = None,
        noise_variance: float | None = None,
        trend: TrendColumns = "constant",
        ard: Ard = False,
        max_learning_rows: int = 2000,
        max_memory_gib: float = 4.0,
        random_state: RandomState = None,
    ) -> None:
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.trend = trend
        self.ard = ard
        self.max_learning_rows = max_learning_rows
        self.max_memory_gib = max_memory_gib
        self.random_state = random_state

    @property
    def error_(self) -> SpectralError:
        """What the mean may be off by."""
        self._of_fit("error_")
        return self._fitted.posterior.error

    def sample_y(self, X: ArrayLike, n_samples: int = 1, random_state: RandomState = 0) -> Floats:
        """Draw functions from the posterior: one draw is one function, in and near the box of the training rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
        n_samples : int, default=1
        random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=0

        Returns
        -------
        ndarray of shape (n, n_samples)
            Of the latent function, in units of y.

        Raises
        ------
        InputError
            If a row is far from the box of the training rows; the message says how far rows are drawn. If `n_samples`
            is no positive integer.
        """
        check_is_fitted(self)
        if isinstance(n_samples, bool) or not isinstance(n_samples, Integral) or n_samples < 1:
            raise InputError(f"n_samples must be a positive integer; got {n_samples!r}.")
        rows, fit = self._coordinates(validated(self, X, reset=False)), self._fitted
        drawn = fit.posterior.samples(rows, fit.rows, int(n_samples), generator(random_state))
        start = 0.0 if fit.posterior.trend is None else fit.posterior.trend.least_squares(rows)
        samples: Floats = (drawn + start + fit.center).T
        return samples

    def _fit(self, rows: Rows, learned: Hyperparameters, common: GPFit, rng: np.random.Generator) -> SpectralFit:
        rows = rows.copy()
        posterior = SpectralPosterior(
            common.kernel,
            rows,
            Noise(common.noise_variance),
            float(self.tolerance),
            max_iterations=int(self.max_iterations),
            max_memory_gib=self.max_memory_gib,
            trend=common.trend,
        )
        common = replace(common, trend=posterior.trend)
        tolerance, memory = float(self.tolerance) ** 2, self.max_memory_gib
        few = posterior.modes.n_modes <= PLAN.few
        noise = Noise(common.noise_variance)
        variance = posterior.dense() if few else local_variance(common.kernel, rows, noise, tolerance, rng, memory)
        return SpectralFit(**vars(common), posterior=posterior, rows=rows, variance=variance)

    def _predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        posterior = self._fitted.posterior
        mean = posterior.mean(X)
        if not variance:
            return mean, None
        # Out of reach of all training rows, the prior's.
        found, served = self.kernel_.diagonal(X), posterior.modes.served(X)
        found[served] = self._fitted.variance.variance(X[served])
        return mean, found + posterior.trend_variance(X)

    def _expectations(self, X: Floats) -> tuple[Floats, Floats]:
        return self.kernel_.diagonal(X), np.full(len(X), self._fitted.posterior.surprise)

    def _expected_divergence(self, X: Floats) -> Floats:
        return np.full(len(X), self.error_.divergence)
