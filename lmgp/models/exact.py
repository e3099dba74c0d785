"""The exact Gaussian process: the reference for all others."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from lmgp.arithmetic import check_device
from lmgp.fitted import OfFit
from lmgp.inference.cache import Cache
from lmgp.inference.function_space import RowPosterior, max_rows_within
from lmgp.inference.iterative import Iterations, IterativePosterior
from lmgp.inference.joint import row_covariance, row_samples
from lmgp.inference.learning import Hyperparameters
from lmgp.inference.leave_one_out import of_rows
from lmgp.inference.likelihood import noise_and_weights, repetitions
from lmgp.inference.trend import TrendFit
from lmgp.kernels.base import Kernel, require
from lmgp.learning.forms import Ard
from lmgp.learning.learn import Wanted, learn_rows
from lmgp.learning.record import Learned
from lmgp.models.base import GaussianProcess, GPFit, TrendColumns
from lmgp.models.evidence import less_trend
from lmgp.noise import Noise
from lmgp.validation import RandomState, Rows

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ExactFit(GPFit):
    """The fitted state of an exact model."""

    log_marginal_likelihood: float
    converged: bool
    rows: Rows
    seed: int
    solved: Cache[RowPosterior | IterativePosterior]


class ExactGPRegressor(GaussianProcess):
    """The exact Gaussian process, with hyper-parameters by maximum marginal likelihood.

    Hyper-parameters are learned by L-BFGS from several starts to convergence, on at most `max_learning_rows` rows.
    Predictions use all rows: by a Cholesky factor, in O(n³) time and 16 n² bytes of memory, or, of more rows than that
    allows, by conjugate gradients, in O(n²) time an iteration.

    Parameters
    ----------
    kernel : Kernel, str, list of str or None, default=None
        Any kernel, used as it is, but for parameters with bounds, which are learned. A name,
        such as "matern32" or "matern12+gaussian", several, or "auto": what predicts best of these, learned from all
        rows, see `lmgp.learn`. None: a `GaussianKernel` by maximum marginal likelihood of at most `max_learning_rows`
        rows.
    noise_variance : float, optional
        In squared units of y; learned if not given.
    solver : {"auto", "cholesky", "iterative"}, default="auto"
        "iterative" solves for the mean to within `tolerance`; the variance is that of `ResidualGPRegressor` with 256
        nearest rows and at most 2,048 landmarks, which is too large where these are too few. For kernels with a
        lengthscale. "auto": "iterative" where the matrices of "cholesky" do not fit into `max_memory_gib`.
    tolerance : float, default=1e-2
        At which the iterations end: the root mean square error of the mean, in predictive standard deviations.
    max_iterations : int, default=500
        Of conjugate gradients.
    device : str, default="cpu"
        Where the iterations run, as torch names it, such as "cuda".
    verbose : bool, default=False
        Whether to show a progress bar of the iterations.
    trend : {"constant", "linear"} or list of int or str, default="constant"
        The mean function. "constant" is the mean of y, as if it were known. "linear" has an intercept and a slope for
        each column, a list for the columns at these indices or, of a data frame, with these names; an empty list is an
        intercept alone. They are estimated by generalised least squares under a flat prior, and predictions have their
        uncertainty: universal kriging. Hyper-parameters are learned from the residuals of a least-squares fit.
    ard : bool or "auto", default=False
        Whether a learned kernel has one lengthscale a column; "auto" tries both.
    max_learning_rows : int, default=2000
        The largest number of rows whose exact likelihood is maximised; of more rows, a random sample of this size.
    max_memory_gib : float, default=4.0
        The memory that a prediction may take, in GiB: for the two n × n matrices of "cholesky", 4 are enough for 16,384
        rows; "iterative" keeps covariances, half of them and in single precision where that does, as far as they fit.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Draws the sample of rows, and the landmarks of an iterative solve.

    Attributes
    ----------
    kernel_ : Kernel
    noise_variance_ : float
    center_ : float
        The mean of y.
    trend_ : lmgp.inference.trend.TrendEstimate or None
        The coefficients of the trend with their standard errors, in the units of X and y; None of a constant. Printed,
        it is a table.
    log_marginal_likelihood_ : float
        Of the centred y, or of the least-squares residuals of a trend, of the rows from which hyper-parameters are
        learned (all, where there are at most `max_learning_rows`), in nats.
    converged_ : bool
        Whether the likelihood was maximised to convergence; True where nothing was to be learned.
    iterations_ : lmgp.inference.iterative.Iterations or None
        How many there were, and how far the mean is settled; None of a Cholesky factor. Both are made when they are
        first needed, so that reading this, or the first prediction, takes their time.
    n_features_in_ : int
        The number of input columns, d.

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, eq. 1.
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, 2006, eq. 2.42 (the trend).
    K. A. Wang et al., *Exact Gaussian Processes on a Million Data Points*, NeurIPS 2019 (iterations).

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import ExactGPRegressor
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=40)
    >>> reference = ExactGPRegressor(random_state=0).fit(X, y)
    >>> mean, std = reference.predict([[1.0], [100.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.0)) < 2 * std[0]), bool(np.isclose(std[1] ** 2, reference.kernel_.variance))
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GaussianProcess._parameter_constraints,
        "solver": [StrOptions({"auto", "cholesky", "iterative"})],
        "tolerance": [Interval(Real, 0, None, closed="neither")],
        "max_iterations": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
        "verbose": ["verbose"],
    }

    log_marginal_likelihood_ = OfFit[float]()
    converged_ = OfFit[bool]()

    _fitted: ExactFit

    def __init__(
        self,
        kernel: Wanted = None,
        noise_variance: float | None = None,
        *,
        solver: Literal["auto", "cholesky", "iterative"] = "auto",
        tolerance: float = 1e-2,
        max_iterations: int = 500,
        device: str = "cpu",
        verbose: bool = False,
        trend: TrendColumns = "constant",
        ard: Ard = False,
        max_learning_rows: int = 2000,
        max_memory_gib: float = 4.0,
        random_state: RandomState = None,
    ) -> None:
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.solver = solver
        self.tolerance = tolerance
        self.max_iterations = max_iterations
        self.device = device
        self.verbose = verbose
        self.trend = trend
        self.ard = ard
        self.max_learning_rows = max_learning_rows
        self.max_memory_gib = max_memory_gib
        self.random_state = random_state

    def dual_coefficients(self) -> tuple[Floats, Floats]:
        """Return the training rows and their weights: the mean at x is trend(x) + Σ αᵢ k(xᵢ, x).

        Returns
        -------
        X : ndarray of shape (n, d)
        alpha : ndarray of shape (n,)
            (K + Σ)⁻¹(y − trend), where the trend is center_, or the estimated one.
        """
        posterior = self._posterior()
        return posterior.X, posterior.coefficients

    def _learn(self, rows: Rows, rng: np.random.Generator) -> Learned:
        return learn_rows(rows, self._settings(rows.X.shape[1]), rng)  # for its likelihood, whatever was given

    def _fit(self, rows: Rows, learned: Hyperparameters, common: GPFit, rng: np.random.Generator) -> ExactFit:
        if self.solver != "cholesky":
            check_device(self.device)
        if self.solver == "iterative":
            require(learned.kernel, "metric", "An iterative solve")
        # The factorisation waits for the first prediction: whoever needs only the hyper-parameters of many rows, for
        # a featurized model, need not pay for it.
        return ExactFit(
            **vars(common),
            log_marginal_likelihood=learned.log_marginal_likelihood,
            converged=learned.converged,
            rows=rows.copy(),
            seed=int(rng.integers(2**31)),
            solved=Cache(float("inf")),
        )

    @property
    def iterations_(self) -> Iterations | None:
        """What the iterative solve has come to; None of a Cholesky factor."""
        self._of_fit("iterations_")
        posterior = self._posterior()
        return posterior.iterations if isinstance(posterior, IterativePosterior) else None

    def _posterior(self) -> RowPosterior | IterativePosterior:
        def solve() -> RowPosterior | IterativePosterior:
            fit = self._fitted
            if self._iterates():
                return self._iterated()
            return RowPosterior(fit.kernel, fit.rows, Noise(fit.noise_variance), self.max_memory_gib, fit.trend)

        return self._fitted.solved.get("posterior", solve)

    def _iterated(self, others: Floats | None = None) -> IterativePosterior:
        """Solve by iteration, and for other targets at the same time."""
        fit = self._fitted
        return IterativePosterior(
            fit.kernel,
            fit.rows,
            Noise(fit.noise_variance),
            np.random.default_rng(fit.seed),
            tolerance=float(self.tolerance),
            max_iterations=int(self.max_iterations),
            max_memory_gib=self.max_memory_gib,
            trend=fit.trend,
            device=self.device,
            verbose=bool(self.verbose),
            others=others,
        )

    def _iterates(self) -> bool:
        """Say whether the mean is solved for by iteration."""
        if self.solver != "auto":
            return self.solver == "iterative"
        fit = self._fitted
        return len(fit.rows.y) > max_rows_within(self.max_memory_gib) and fit.kernel.can("metric")

    def _estimated_trend(self) -> TrendFit | None:
        return None if self._fitted.trend is None else self._posterior().trend

    def _predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        return self._posterior().predict(X, variance)

    def _covariance(self, X: Floats) -> Floats:
        posterior = self._posterior()
        return row_covariance(posterior, X) if isinstance(posterior, RowPosterior) else super()._covariance(X)

    def _samples(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        posterior, fit = self._posterior(), self._fitted
        if not isinstance(posterior, RowPosterior):
            return super()._samples(X, n_samples, rng)
        errors = row_samples(posterior, fit.rows, Noise(fit.noise_variance), X, n_samples, rng)
        return errors + posterior.predict(X, False)[0][:, None]

    def _training_rows(self) -> Rows:
        return less_trend(self._fitted.rows, self._estimated_trend())

    def _log_likelihood_at(self, kernel: Kernel, noise_variance: float) -> float:
        fit = self._fitted
        if self._iterates():
            return super()._log_likelihood_at(kernel, noise_variance)
        fitted = (kernel, noise_variance) == (fit.kernel, fit.noise_variance)
        given = kernel, fit.rows, Noise(noise_variance), self.max_memory_gib, fit.trend
        posterior = self._posterior() if fitted else RowPosterior(*given)
        assert isinstance(posterior, RowPosterior)  # of this solver
        return posterior.log_density - 0.5 * float(repetitions(*noise_and_weights(fit.rows, noise_variance)))

    def _left_out(self, rows: Rows) -> tuple[Floats, Floats]:
        posterior, noise = self._posterior(), Noise(self._fitted.noise_variance)
        if isinstance(posterior, RowPosterior):
            return of_rows(posterior, rows, noise)
        return posterior.leave_one_out(rows, noise)

    def _expectations(self, X: Floats) -> tuple[Floats, Floats]:
        return self.kernel_.diagonal(X), np.full(len(X), self._posterior().surprise)

    def _expected_divergence(self, X: Floats) -> Floats:
        iterations = self.iterations_
        return np.full(len(X), 0.0 if iterations is None else iterations.divergence)
