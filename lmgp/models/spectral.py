"""Gaussian processes whose mean is solved for all rows at once, on Fourier modes, and whose variance is local."""

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from lmgp.fitted import unchanged_on_failure
from lmgp.inference.additive import rows_are_gone
from lmgp.inference.joint import NearErrors, normal_draws, with_variance
from lmgp.inference.learning import Hyperparameters
from lmgp.inference.leave_one_out import from_all
from lmgp.io.partitions import source_or_partitions
from lmgp.kernels.base import Kernel
from lmgp.learning.forms import Ard
from lmgp.learning.learn import Wanted
from lmgp.memory import chunks
from lmgp.models.base import GPFit, TrendColumns
from lmgp.models.evidence import less_trend
from lmgp.models.spectral_fit import Later, PendingFit, SpectralFit, checked_box, resolved, without_rows
from lmgp.models.streams import Sample, StreamedGP, check_trend
from lmgp.noise import Noise
from lmgp.spectral.accuracy import SpectralError
from lmgp.spectral.dense import DenseFactor
from lmgp.spectral.joint import joint_samples, mode_covariance
from lmgp.spectral.posterior import SpectralPosterior
from lmgp.spectral.sums import SpectralSums, check_admitted
from lmgp.validation import RandomState, Rows

Floats = NDArray[np.float64]

# The modes of a stream that is read once serve as many rows.
ROWS_TO_COME = 10**6


class SpectralGPRegressor(StreamedGP):
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
    max_seconds : float, optional
        What the sums and iterations of a fit may be expected to take, by rates that are measured here. A fit that may
        take more is refused before it begins. If not given, it takes its time. The rows of an iterator are not known
        before: they count as a million.
    room : float, default=1.0
        The modes serve lengthscales up to this factor shorter or longer than the kernel's: `relearn` finds the best
        within that. Each column has up to its square times the modes.
    box : array-like of shape (2, d), optional
        The lowest and the highest value of each column, where `update` is to add rows beyond the box of those of `fit`,
        such as later ones of a time series. The modes grow with the box.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Draws the rows from which hyper-parameters are learned.

    Attributes
    ----------
    sums_ : SpectralSums
        The statistics of all rows, which add. They know no kernel: `lmgp.learn_from_sums` learns from them alone.
    error_ : SpectralError
        The number of modes and iterations, an estimate of the divergence by frequencies left out, and a bound of what
        the iterations leave. Printed, it is a table.
    variance_by_ : str
        What the variance is from: exactly of all modes or rows, of Taylor features, or of the nearest rows.
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
        **StreamedGP._parameter_constraints,
        "tolerance": [Interval(Real, 0, None, closed="neither")],
        "max_iterations": [Interval(Integral, 1, None, closed="left")],
        "max_seconds": [Interval(Real, 0, None, closed="neither"), None],
        "room": [Interval(Real, 1, None, closed="left")],
        "box": ["array-like", None],
    }

    _fitted: Any

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
        max_seconds: float | None = None,
        room: float = 1.0,
        box: ArrayLike | None = None,
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
        self.max_seconds = max_seconds
        self.room = room
        self.box = box
        self.random_state = random_state

    def __getstate__(self) -> Any:
        if self.__sklearn_is_fitted__():
            self._fitted = resolved(self._fitted)
        return super().__getstate__()

    @property
    def error_(self) -> SpectralError:
        """What the mean may be off by."""
        self._of_fit("error_")
        return self._fitted.posterior.error

    @property
    def variance_by_(self) -> str:
        """What the variance is from."""
        self._of_fit("variance_by_")
        return str(self._fitted.variance)

    @property
    def sums_(self) -> SpectralSums:
        """The statistics of all rows."""
        self._of_fit("sums_")
        return self._fitted.posterior.sums

    def update(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
    ) -> Self:
        """Add rows, with kernel, noise variance and modes as they are.

        The model is that of one fit to all rows. Their sums are added to those of earlier rows, and the iterations
        start from the present solution.

        Parameters
        ----------
        X : array-like of shape (n, d)
            In the box of the rows of `fit`, or in `box`, or a little beyond.
        y : array-like of shape (n,)
        sample_weight, noise_variances : array-like of shape (n,), optional
            See `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As `fit`. `lmgp.errors.InputError`, which is one, if rows are outside of what the modes serve, or differ in
            a column that the trend could not estimate from the rows of `fit`. The model then is as it was.

        Warns
        -----
        ToleranceWarning
            If the iterations end before the tolerance is reached, or the modes are too few for this number of rows.
        """
        check_is_fitted(self)
        with unchanged_on_failure(self):
            rows = self._more_rows(X, y, sample_weight, noise_variances)
            self._fitted = resolved(self._fitted).joined(rows, 1.0, warm=True)
        return self

    def partial_fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
        *,
        verbose: bool | int = False,
        client: Any = None,
    ) -> Self:
        """Add rows as `update` does, but solve when the model is next used: for many small updates.

        The first call is `fit`, which learns what is not given from these rows, and chooses the modes for their box, or
        for `box`.

        Parameters
        ----------
        X : array-like of shape (n, d), a source of chunks, or dask array or data frame
        y, sample_weight, noise_variances : array-like of shape (n,), optional
        verbose, client
            See `fit`.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            As `update`. The model then is as it was; of a source, that of the chunks before.
        """
        rows_alone = source_or_partitions(X, y, sample_weight, noise_variances, client=client) is None
        if not rows_alone or not self.__sklearn_is_fitted__():
            return super().partial_fit(X, y, sample_weight, noise_variances, verbose=verbose, client=client)
        fit = self._fitted
        rows = self._more_rows(X, y, sample_weight, noise_variances)
        waits = isinstance(fit, PendingFit)
        if waits:
            rows, fit = fit.waiting.joined(rows, fit.fit.noise_variance), fit.fit
        self._fitted = PendingFit(fit, rows)
        if len(rows.y) >= fit.least_rows:
            self._fitted = self._fitted.resolved
        return self

    def relearn(self) -> Self:
        """Learn the hyper-parameters again, from the sums of all rows, with the modes as they are.

        The likelihood of the modes is maximised from the present parameters, see `lmgp.learn_from_sums`: those of the
        kernel that are not "fixed", lengthscales within the `room`, and the noise variance where no row has one of its
        own. The time does not depend on the number of rows.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If there are more than 6,000 modes, or y is constant.
        MemoryLimitError
            If the matrices of the modes take more than `max_memory_gib`.

        Warns
        -----
        ConvergenceWarning
            If the optimiser stopped for another reason than convergence, or where the modes have no more room.
        ToleranceWarning
            If the modes are too few for what was learned, such as a small noise variance.
        """
        check_is_fitted(self)
        self._fitted = resolved(self._fitted).relearned(self.max_memory_gib)
        return self

    def _fit(self, rows: Rows, learned: Hyperparameters, common: GPFit, rng: np.random.Generator) -> SpectralFit:
        rows = rows.copy()
        posterior = self._solved(rows, common, checked_box(self.box, rows.X.shape[1]))
        common = replace(common, trend=posterior.trend)
        later = Later(float(self.tolerance) ** 2, int(rng.integers(2**63)), self.max_memory_gib)
        variance = later.variance(posterior, rows, at_once=True)
        return SpectralFit(**vars(common), posterior=posterior, rows=rows, later=later, variance=variance)

    def _freeze(self, rows: Rows, common: GPFit, rng: np.random.Generator, sample: Sample | None) -> SpectralFit:
        assert sample is not None  # of a stream
        assert sample.summary is not None
        summary = sample.summary
        given = checked_box(self.box, rows.X.shape[1]) or (summary.low, summary.high)
        box = np.minimum(summary.low, given[0]), np.maximum(summary.high, given[1])
        n_rows = summary.n_rows if sample.whole else max(summary.n_rows, ROWS_TO_COME)
        later = Later(float(self.tolerance) ** 2, int(rng.integers(2**63)), self.max_memory_gib)
        return without_rows(self._solved(rows, common, box, n_rows), common, later, summary)

    def _solved(
        self, rows: Rows, common: GPFit, box: tuple[Floats, Floats] | None, n_rows: int | None = None
    ) -> SpectralPosterior:
        """Return the posterior of rows, or that of none, with modes for `n_rows` rows."""
        return SpectralPosterior(
            common.kernel,
            rows,
            Noise(common.noise_variance),
            float(self.tolerance),
            max_iterations=int(self.max_iterations),
            max_memory_gib=self.max_memory_gib,
            trend=common.trend,
            center=common.center,
            room=float(self.room),
            box=box,
            n_rows=n_rows,
            max_seconds=self.max_seconds,
        )

    def _check_more(self, rows: Rows, fit: SpectralFit | PendingFit) -> None:
        known = fit.fit if isinstance(fit, PendingFit) else fit  # what waits has been checked
        check_admitted(known.posterior.modes, rows.X)
        check_trend(known.trend, rows)

    def _predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        return self._fitted.posterior.mean(X), self._variance(X) if variance else None

    def _variance(self, X: Floats) -> Floats:
        posterior = self._fitted.posterior
        # Out of reach of all training rows, the prior's.
        found, served = self.kernel_.diagonal(X), posterior.modes.served(X)
        found[served] = self._fitted.variance.variance(X[served])
        return found + posterior.trend_variance(X)

    def _covariance(self, X: Floats) -> Floats:
        posterior, served = self._fitted.posterior, self._fitted.posterior.modes.served(X)
        if not isinstance(self._fitted.variance, DenseFactor):
            return super()._covariance(X)
        # Rows out of reach of all training rows are the prior's.
        found = np.zeros((len(X), len(X)))
        for some, covariance in ((served, lambda Z: mode_covariance(posterior, Z)), (~served, self.kernel_)):
            if some.any():
                found[np.ix_(some, some)] = covariance(X[some])
        if posterior.trend is not None:
            left = posterior.columns_left(X)
            found += left @ posterior.trend.covariance @ left.T
        return with_variance(found, self._means_and_variances(X)[1])

    def _samples(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        fit, trend = self._fitted, self._estimated_trend()
        if fit.parts is not None and isinstance(fit.variance, DenseFactor):
            return normal_draws(self._covariance(X), n_samples, rng) + self._predict(X, False)[0][:, None]
        if fit.parts is not None:
            return super()._samples(X, n_samples, rng)
        size = 16 * fit.posterior.modes.n_modes + 8 * (len(fit.rows.y) + len(X))  # numbers of a draw, in 256 MiB
        blocks = (len(range(n_samples)[block]) for block in chunks(n_samples, size, 2**28))
        drawn = np.concatenate([joint_samples(fit.posterior, X, fit.rows, n, rng) for n in blocks]).T
        return drawn if trend is None else drawn - trend.changes(X)[:, None]

    def _near_errors(self) -> NearErrors:
        # Of these, targets do not matter: the cells of rows that are not kept serve as well.
        return NearErrors(self.kernel_, self._fitted.rows, Noise(self.noise_variance_), self._estimated_trend())

    def _training_rows(self) -> Rows:
        if self._fitted.parts is not None:
            raise rows_are_gone()
        return less_trend(self._fitted.rows, self._estimated_trend())

    def _log_likelihood_at(self, kernel: Kernel, noise_variance: float) -> float:
        found: float | None = self._fitted.log_likelihood_at(kernel, noise_variance)
        return super()._log_likelihood_at(kernel, noise_variance) if found is None else found

    def _left_out(self, rows: Rows) -> tuple[Floats, Floats]:
        posterior = self._fitted.posterior
        mean, variance = self._means_and_variances(rows.X)
        missing = posterior.left_out
        noise = posterior.noise_of(rows)
        mean, variance = from_all(rows.y, mean, np.maximum(variance - missing, 0.0), noise)
        return mean, variance + missing

    def _expectations(self, X: Floats) -> tuple[Floats, Floats]:
        return self.kernel_.diagonal(X), np.full(len(X), self._fitted.posterior.surprise)

    def _expected_divergence(self, X: Floats) -> Floats:
        return np.full(len(X), self.error_.divergence)
