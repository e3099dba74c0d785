"""The exact Gaussian process: the reference for all others."""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from lmgp.data import Floats
from lmgp.errors import InputError
from lmgp.estimators.base import GaussianProcess
from lmgp.kernels.base import Kernel
from lmgp.learning.engine import Wanted
from lmgp.posteriors.exact import max_rows_within
from lmgp.posteriors.iterative import Iterations, IterativePosterior
from lmgp.recipes import Exact, Iterative
from lmgp.utils.arithmetic import check_device
from lmgp.utils.fitted import OfFit


@dataclass(eq=False, repr=False)
class ExactGPRegressor(GaussianProcess):
    """The exact Gaussian process, with hyperparameters by maximum marginal likelihood.

    Hyperparameters are learned by Fisher scoring, see `lmgp.learn`: by the exact likelihood of up to
    `max_learning_rows` rows, and by Vecchia's of more.
    Predictions use all rows: by a Cholesky factor, in O(n³) time and 16 n² bytes of memory, or, of more rows than that
    allows, by conjugate gradients, in O(n²) time an iteration.

    Parameters
    ----------
    kernel : Kernel, str, list of str or None, default=None
        Any kernel, used as it is, but for parameters with bounds, which are learned. A name,
        such as "matern32" or "matern12+gaussian", several, or "auto": what predicts best of these, learned from all
        rows, see `lmgp.learn`. None: "gaussian".
    noise_variance : float, optional
        In squared units of y; learned if not given.
    noise : {"normal", "student", "varying", "robust", "auto"}, default="normal"
        The distribution of new observations, see `lmgp.estimators.GaussianProcess`.
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
        uncertainty: universal kriging. Hyperparameters are learned from the residuals of a least-squares fit.
    ard : bool or "auto", default=False
        Whether a learned kernel has one lengthscale a column; "auto" is True.
    max_learning_rows : int, default=2000
        The largest number of rows whose exact likelihood is maximised. Of more rows, Vecchia's is maximised, or the
        exact one of a random sample of this size where the kernel has no lengthscale.
    max_memory_gib : float, default=4.0
        The memory that a prediction may take, in GiB: for the two n × n matrices of "cholesky", 4 are enough for 16,384
        rows; "iterative" keeps covariances, half of them and in single precision where that does, as far as they fit.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Draws the landmarks of an iterative solve. What is learned does not depend on it.

    Attributes
    ----------
    kernel_ : Kernel
    noise_variance_ : float
    center_ : float
        The mean of y.
    trend_ : lmgp.posteriors.trend.TrendEstimate or None
        The coefficients of the trend with their standard errors, in the units of X and y; None of a constant. Printed,
        it is a table.
    log_marginal_likelihood_, log_marginal_likelihood_value_ : float or ndarray of shape (t,)
        Of y less its mean, or less the estimated trend, of all training rows, in nats. The second is scikit-learn's
        name of it.
    converged_ : bool
        Whether the likelihood was maximised to convergence; True where nothing was to be learned.
    iterations_ : lmgp.posteriors.iterative.Iterations or None
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

    converged_ = OfFit[bool]()

    kernel: Wanted = None
    noise_variance: float | None = None
    _: KW_ONLY
    solver: Literal["auto", "cholesky", "iterative"] = "auto"
    tolerance: float = 1e-2
    max_iterations: int = 500
    device: str = "cpu"
    verbose: bool = False

    def _recipe(self, n_rows: int, kernel: Kernel) -> Exact | Iterative:
        if self.solver != "cholesky" and self.device != "cpu":
            check_device(self.device)
        fits = n_rows <= max_rows_within(self.max_memory_gib) or not kernel.can("metric")
        if self.solver == "cholesky" or (self.solver == "auto" and fits):
            return Exact(self.max_memory_gib)
        return Iterative(
            float(self.tolerance), int(self.max_iterations), self.max_memory_gib, self.device, bool(self.verbose)
        )

    @property
    def iterations_(self) -> Iterations | None:
        """What the iterative solve has come to; None of a Cholesky factor."""
        posterior = self._process("iterations_")
        return posterior.iterations if isinstance(posterior, IterativePosterior) else None

    def dual_coefficients(self) -> tuple[Floats, Floats]:
        """Return the training rows and their weights: the mean at x is trend(x) + Σ αᵢ k(xᵢ, x).

        Returns
        -------
        X : ndarray of shape (n, d)
        alpha : ndarray of shape (n,) or (n, t)
            (K + Σ)⁻¹(y − trend), where the trend is center_, or the estimated one.

        Raises
        ------
        InputError
            If the model is an average of several kernels.
        """
        fit, posterior = self._state(), self._process()
        if len(fit.kernels) > 1:
            raise InputError(
                f"Dual coefficients are of one kernel; this model averages {len(fit.kernels)}: fit with average=False."
            )
        coefficients = np.asarray(posterior.coefficients)[:, : len(fit.scales)] * fit.scales
        return posterior.rows.X, coefficients[:, 0] if fit.target_names is None else coefficients
