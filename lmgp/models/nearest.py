"""Gaussian processes of the nearest rows: each row is predicted from the training rows around it."""

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval

from lmgp.arithmetic import check_device
from lmgp.errors import NoEstimateError
from lmgp.inference.learning import Hyperparameters
from lmgp.inference.nearest import NearestPosterior
from lmgp.kernels.base import require
from lmgp.learning.forms import Ard
from lmgp.learning.learn import Wanted
from lmgp.models.base import GaussianProcess, GPFit, TrendColumns
from lmgp.noise import Noise
from lmgp.validation import RandomState, Rows

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NearestFit(GPFit):
    """The fitted state of a model of the nearest rows."""

    posterior: NearestPosterior


class NearestNeighborsGPRegressor(GaussianProcess):
    """A Gaussian process that predicts each row from the training rows nearest to it.

    Made for rough kernels, such as `MaternKernel`, and for any number of training rows: fitting builds a search tree,
    and a prediction takes the same time whatever their number. For smooth kernels in a few columns,
    `LocalizedGPRegressor` is nearer to the exact Gaussian process.

    Parameters
    ----------
    n_neighbors : int, default=100
        The least number of nearest rows, in the metric of the kernel. More are nearer to the exact Gaussian process,
        in O(n_neighbors³) time a row. In one and two columns, rows near to each other share all training rows around
        them, about twice this number, where that is quicker.
    kernel : Kernel, str, list of str or None, default=None
        With a lengthscale, used as it is, but for parameters with bounds, which are learned. A name,
        such as "matern32" or "matern12+gaussian", several, or "auto": what predicts best of these, learned from all
        rows, see `lmgp.learn`. None: a `GaussianKernel` by maximum marginal likelihood of at most `max_learning_rows`
        rows.
    noise_variance : float, optional
        In squared units of y; learned likewise if not given.
    trend : {"constant", "linear"} or list of int or str, default="constant"
        The mean function: the mean of y, an intercept and a slope for each column, or for these columns; see
        `ExactGPRegressor`. It is estimated from all rows, or from 4,000 random ones.
    ard : bool or "auto", default=False
        Whether a learned kernel has one lengthscale a column; "auto" tries both.
    max_learning_rows : int, default=2000
        The largest number of rows whose exact likelihood is maximised; of more rows, a random sample of this size.
    max_memory_gib : float, default=4.0
        The memory of the matrices of one prediction, in GiB.
    device : str, default="cpu"
        Where batches of matrices are factorised, as torch names it, such as "cuda". On an accelerator each row is
        predicted from its own `n_neighbors` rows.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Draws the rows from which hyper-parameters are learned.

    Attributes
    ----------
    kernel_, noise_variance_, center_, trend_, n_features_in_
        See `ExactGPRegressor`.

    Notes
    -----
    A prediction depends on the training rows and its own row alone, not on the rows that are predicted beside it: see
    `lmgp.inference.nearest.NearestPosterior`.

    References
    ----------
    A. V. Vecchia, *Estimation and Model Identification for Continuous Spatial Processes*, JRSS B 50, 1988.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import MaternKernel, NearestNeighborsGPRegressor
    >>> X = np.linspace(0, 100, 2000)[:, None]
    >>> model = NearestNeighborsGPRegressor(32, kernel=MaternKernel(2.0), noise_variance=0.01)
    >>> bool(abs(model.fit(X, np.sin(X[:, 0])).predict([[50.0]])[0] - np.sin(50.0)) < 0.1)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GaussianProcess._parameter_constraints,
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
    }

    _fitted: NearestFit

    def __init__(
        self,
        n_neighbors: int = 100,
        *,
        kernel: Wanted = None,
        noise_variance: float | None = None,
        trend: TrendColumns = "constant",
        ard: Ard = False,
        max_learning_rows: int = 2000,
        max_memory_gib: float = 4.0,
        device: str = "cpu",
        random_state: RandomState = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.trend = trend
        self.ard = ard
        self.max_learning_rows = max_learning_rows
        self.max_memory_gib = max_memory_gib
        self.device = device
        self.random_state = random_state

    def _fit(self, rows: Rows, learned: Hyperparameters, common: GPFit, rng: np.random.Generator) -> NearestFit:
        require(common.kernel, "metric", type(self).__name__)
        check_device(self.device)
        rows, noise = rows.copy(), Noise(common.noise_variance)
        common, trend = self._with_trend(rows, noise, common)
        posterior = NearestPosterior(
            common.kernel, rows, noise, int(self.n_neighbors), self.max_memory_gib, trend, device=self.device
        )
        return NearestFit(**vars(common), posterior=posterior)

    def _predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        return self._fitted.posterior.predict(X, variance)

    def _training_rows(self) -> Rows:
        return self._fitted.posterior.rows

    def _left_out(self, rows: Rows) -> tuple[Floats, Floats]:
        return self._fitted.posterior.leave_one_out()

    def _expectations(self, X: Floats) -> tuple[Floats, Floats]:
        return self._fitted.posterior.expectations(X)

    def _expected_divergence(self, X: Floats) -> Floats:
        raise no_estimate(self._fitted.posterior)


def no_estimate(posterior: NearestPosterior) -> NoEstimateError:
    """Make the error of a model of the nearest rows that is asked for its divergence from the exact process."""
    return NoEstimateError(
        f"return_error cannot say what the rows beyond the nearest {posterior.n_neighbors} would change. Compare with "
        "ExactGPRegressor on some rows instead."
    )
