"""The exact Gaussian process: the reference for all others."""

from numbers import Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from lmgp.errors import MemoryLimitError
from lmgp.inference.function_space import ExactPosterior
from lmgp.kernels.stationary import GaussianKernel
from lmgp.models.base import GPRegressor
from lmgp.validation import RandomState, Rows

Floats = NDArray[np.float64]


def check_memory(n_rows: int, max_memory_gib: float) -> None:
    """Refuse a number of rows whose two n × n matrices do not fit.

    Raises
    ------
    MemoryLimitError
        If they take more than `max_memory_gib`.
    """
    needed = 16.0 * n_rows**2 / 2**30
    if needed > max_memory_gib:
        raise MemoryLimitError(
            f"An exact prediction from {n_rows:,} rows takes {needed:,.1f} GiB for its matrices, above "
            f"max_memory_gib={max_memory_gib:g}. Use FeaturizedGPRegressor or LocalizedGPRegressor with "
            "kernel=reference.kernel_ and noise_variance=reference.noise_variance_, fewer rows, or a higher "
            "max_memory_gib."
        )


class ExactGPRegressor(GPRegressor):
    """The exact Gaussian process, with hyper-parameters by maximum marginal likelihood.

    Hyper-parameters are learned with GPyTorch, by L-BFGS from several starts to convergence, on at most `max_rows`
    rows. Predictions use all rows, which takes O(n³) time and 16 n² bytes of memory.

    Parameters
    ----------
    kernel : GaussianKernel, optional
        Learned if not given.
    noise_variance : float, optional
        In squared units of y; learned if not given.
    ard : bool, default=False
        Whether a learned kernel has one lengthscale a column.
    max_rows : int, default=2000
        The largest number of rows from which hyper-parameters are learned; a random sample of this size of more.
    max_memory_gib : float, default=4.0
        The memory that a prediction may take for its two n × n matrices, in GiB: 4 are enough for 16,384 rows.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Draws the sample of rows.

    Attributes
    ----------
    kernel_ : GaussianKernel
    noise_variance_ : float
    center_ : float
        The mean of y.
    log_marginal_likelihood_ : float
        Of the centred y of the rows from which hyper-parameters are learned (all, where there are at most
        `max_rows`), in nats.
    converged_ : bool
        Whether the likelihood was maximised to convergence; True where nothing was to be learned.
    n_features_in_ : int
        The number of input columns, d.

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, eq. 1.

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
        **GPRegressor._parameter_constraints,
        "max_memory_gib": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        kernel: GaussianKernel | None = None,
        noise_variance: float | None = None,
        *,
        ard: bool = False,
        max_rows: int = 2000,
        max_memory_gib: float = 4.0,
        random_state: RandomState = None,
    ) -> None:
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.ard = ard
        self.max_rows = max_rows
        self.max_memory_gib = max_memory_gib
        self.random_state = random_state

    def _learn(self, rows: Rows, rng: np.random.Generator) -> None:
        learned = self._maximize(rows, rng)
        self.kernel_, self.noise_variance_ = learned.kernel, learned.noise_variance
        self.log_marginal_likelihood_ = learned.log_marginal_likelihood
        self.converged_ = learned.converged

    def _fit(self, rows: Rows, rng: np.random.Generator) -> None:
        # The factorisation waits for the first prediction: whoever needs only the hyper-parameters of many rows, for
        # a featurized model, need not pay for it.
        self._rows = rows.copy()
        self._solved: list[ExactPosterior] = []

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__().copy()
        if "_solved" in state:
            state["_solved"] = []
        return state

    def dual_coefficients(self) -> tuple[Floats, Floats]:
        """Return the rows and weights that the mean is made of: center_ + Σᵢ alphaᵢ k(xᵢ, x).

        Returns
        -------
        X : ndarray of shape (n, d)
            The training rows.
        alpha : ndarray of shape (n,)
            (K + Σ)⁻¹ (y − center_), where Σ holds the noise variance of each row.

        Raises
        ------
        MemoryLimitError
            As `predict`.
        """
        check_is_fitted(self)
        posterior = self._posterior()
        alpha = torch.linalg.solve_triangular(posterior.factor.T, posterior.coefficients[:, None], upper=True)
        return posterior.X.copy(), alpha[:, 0].numpy()

    def _posterior(self) -> ExactPosterior:
        if not self._solved:
            check_memory(len(self._rows.y), self.max_memory_gib)
            self._solved.append(ExactPosterior(self.kernel_, self._rows, self.noise_variance_))
        return self._solved[0]

    def _predict(self, X: Floats) -> tuple[Floats, Floats]:
        return self._posterior().predict(X)

    def _expected_divergence(self, X: Floats) -> Floats:
        return np.zeros(len(X))
