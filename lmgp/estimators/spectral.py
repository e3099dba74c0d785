"""Gaussian processes whose mean is solved for all rows at once, on Fourier modes, and whose variance is local."""

from dataclasses import KW_ONLY, dataclass, replace
from numbers import Integral, Real
from time import perf_counter
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from lmgp.data import Noise
from lmgp.distributions.noise import ObservationNoise
from lmgp.estimators.rows_left_out import with_noise
from lmgp.estimators.streamed import AdditiveGaussianProcess
from lmgp.io.sources import Chunk
from lmgp.kernels.base import Kernel
from lmgp.learning.from_sums import learn_from_sums
from lmgp.learning.record import Learning, Trial
from lmgp.posteriors.spectral import SpectralError
from lmgp.recipes import Spectral
from lmgp.sums.modes import ModeSums

# Of a model whose hyperparameters are learned from sums, the noise is this.
LEARNED_AGAIN = "normal: hyperparameters were learned again, from sums; calibrate(X, y) fits the noise to rows."


@dataclass(eq=False, repr=False)
class SpectralGPRegressor(AdditiveGaussianProcess):
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
        `lmgp.learn`. None: "gaussian".
    noise_variance : float, optional
        In squared units of y; learned likewise if not given.
    noise : {"normal", "student", "varying", "robust", "auto"}, default="normal"
        The distribution of new observations, see `lmgp.estimators.GaussianProcess`.
    trend : {"constant", "linear"} or list of int or str, default="constant"
        The mean function: the mean of y, an intercept and a slope for each column, or for these columns; see
        `ExactGPRegressor`. It is estimated from all rows.
    ard : bool or "auto", default=False
        Whether a learned kernel has one lengthscale a column; "auto" is True.
    max_learning_rows : int, default=2000
        The largest number of rows whose exact likelihood is maximised. Of more rows, Vecchia's is maximised, or the
        exact one of a random sample of this size where the kernel has no lengthscale.
    max_memory_gib : float, default=4.0
        The memory of the modes, in GiB. Modes that need more are refused before they are made.
    max_seconds : float, optional
        What the sums and iterations of a fit may be expected to take, by nominal rates that are the same on every
        machine. A fit that may take more is refused before it begins. If not given, it takes its time. The rows of an
        iterator are not known before: they count as a million.
    room : float, default=1.0
        The modes serve lengthscales up to this factor shorter or longer than the kernel's: `relearn` finds the best
        within that. Each column has up to its square times the modes.
    box : array-like of shape (2, d), optional
        The lowest and the highest value of each column, where `update` is to add rows beyond the box of those of `fit`,
        such as later ones of a time series. The modes grow with the box.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        What is learned does not depend on it.

    Attributes
    ----------
    sums_ : ModeSums
        The statistics of all rows, which add. They know no kernel: `lmgp.learning.learn_from_sums` learns from them
        alone.
    error_ : SpectralError
        The number of modes and iterations, an estimate of the divergence by frequencies left out, and a bound of what
        the iterations leave. Printed, it is a table.
    variance_by_ : str
        What the variance is from: exactly of all modes or rows, of Taylor features, or of the nearest rows or corners
        that stand for them, with an estimate of the relative error of the standard deviation.
    kernel_, noise_variance_, center_, trend_, learning_, inverse_lengthscales_, n_features_in_
        See `lmgp.estimators.GaussianProcess`.

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
        **AdditiveGaussianProcess._parameter_constraints,
        "tolerance": [Interval(Real, 0, None, closed="neither")],
        "max_iterations": [Interval(Integral, 1, None, closed="left")],
        "max_seconds": [Interval(Real, 0, None, closed="neither"), None],
        "room": [Interval(Real, 1, None, closed="left")],
        "box": ["array-like", None],
    }

    tolerance: float = 1e-3
    _: KW_ONLY
    max_iterations: int = 2000
    max_seconds: float | None = None
    room: float = 1.0
    box: ArrayLike | None = None

    def _recipe(self, n_rows: int, kernel: Kernel) -> Spectral:
        return Spectral(
            float(self.tolerance), int(self.max_iterations), self.max_memory_gib, self.max_seconds, float(self.room),
            self.box,
        )  # fmt: skip

    @property
    def error_(self) -> SpectralError:
        """What the mean may be off by."""
        return self._process("error_").accuracy

    @property
    def variance_by_(self) -> str:
        """What the variance is from."""
        return self._process("variance_by_").variance_by

    @property
    def sums_(self) -> ModeSums:
        """The statistics of all rows."""
        sums = self._state("sums_").known_sums
        assert isinstance(sums, ModeSums)  # of this recipe
        return sums

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
        y : array-like of shape (n,) or (n, t)
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
        rows = self._rows_of(Chunk(X, y, sample_weight, noise_variances), least=1)
        self._fitted = self._state().with_more(rows).of_sums(warm=True)
        return self

    def relearn(self) -> Self:
        """Learn the hyperparameters again, from the sums of all rows, with the modes as they are.

        The likelihood of the modes is maximised from the present parameters, see `lmgp.learning.learn_from_sums`: those
        of the kernel that are not "fixed", lengthscales within the `room`, and the noise variance where no row has one
        of its own. The time does not depend on the number of rows.

        Returns
        -------
        self
            Rows that the model keeps tell the distribution of new observations again. Of a model that keeps none it is
            normal, until `calibrate` fits another one.

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
        fit, sums, start = self._state(), self.sums_, perf_counter()
        statistics = sums.settled.statistics
        given = fit.noise_variance if sums.statistics.shared_noise is None else None
        units = np.diag(np.append(1.0 / fit.scales, np.ones(len(statistics.cross) - len(fit.scales))))
        scaled = replace(sums.settled, statistics=statistics.combined(units))
        learned = learn_from_sums(scaled, fit.kernel, given, max_memory_gib=self.max_memory_gib)
        several = any(param.value.ndim for param in learned.kernel.parameters if param.name.endswith("lengthscale"))
        n_free, n = len(learned.kernel.theta) + (given is None), sums.n_rows
        trial = Trial(
            type(learned.kernel).__name__, several, n_free, "modes", n, 0,
            learned.log_marginal_likelihood / sums.targets.n_densities, seconds=perf_counter() - start, chosen=True,
        )  # fmt: skip
        changed = replace(
            fit, kernel=learned.kernel, noise_variance=learned.noise_variance,
            learning=Learning((trial,), n, 0, trial.seconds), average=(),
            noises=(ObservationNoise(note=LEARNED_AGAIN),) * len(fit.noises),
        )  # fmt: skip
        state = changed.with_sums(sums.with_kernel(learned.kernel, Noise(learned.noise_variance))).solved
        self._fitted = with_noise(state, self.noise) if fit.noises and sums.keeps_rows else state
        return self
