"""Gaussian processes of the nearest rows: each row is predicted from the training rows around it."""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar

from sklearn.utils._param_validation import Interval, StrOptions

from lmgp.estimators.streamed import AdditiveGaussianProcess
from lmgp.kernels.base import Kernel
from lmgp.recipes import Nearest
from lmgp.utils.arithmetic import Precision, check_device


@dataclass(eq=False, repr=False)
class NearestNeighborsGPRegressor(AdditiveGaussianProcess):
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
        rows, see `lmgp.learn`. None: "gaussian".
    noise_variance : float, optional
        In squared units of y; learned likewise if not given.
    noise : {"normal", "student", "varying", "robust", "auto"}, default="normal"
        The distribution of new observations, see `lmgp.estimators.GaussianProcess`.
    trend : {"constant", "linear"} or list of int or str, default="constant"
        The mean function: the mean of y, an intercept and a slope for each column, or for these columns; see
        `ExactGPRegressor`. It is estimated from all rows, or from 4,000 random ones.
    ard : bool or "auto", default=False
        Whether a learned kernel has one lengthscale a column; "auto" is True.
    max_learning_rows : int, default=2000
        The largest number of rows whose exact likelihood is maximised. Of more rows, Vecchia's is maximised, or the
        exact one of a random sample of this size where the kernel has no lengthscale.
    max_memory_gib : float, default=4.0
        The memory of the matrices of one prediction, in GiB.
    device : str, default="cpu"
        Where batches of matrices are factorised, as torch names it, such as "cuda". On an accelerator each row is
        predicted from its own `n_neighbors` rows.
    precision : {"float64", "float32"}, default="float64"
        "float32": on the CPU, systems of 100 to 1,024 rows, of kernels with compiled loops, are solved in single
        precision where the root mean square of what that changes means by is below a thousandth of the noise's standard
        deviation. All others are solved in double precision.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        What is learned does not depend on it.

    Attributes
    ----------
    kernel_, noise_variance_, center_, trend_, n_features_in_
        See `ExactGPRegressor`.

    Notes
    -----
    A prediction depends on the training rows and its own row alone, not on the rows that are predicted beside it: see
    `lmgp.posteriors.nearest.NearestPosterior`.

    An update by `partial_fit` or `forget` takes the time of its rows, not of all, and other threads may predict
    meanwhile: see ``docs/nearest_rows.md``. A trend then stays as `fit` has estimated it.

    A row with a `sample_weight` of w takes one place among the nearest, and w copies of it take w: predictions are from
    fewer different rows then.

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
        **AdditiveGaussianProcess._parameter_constraints,
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "device": [str],
        "precision": [StrOptions({"float64", "float32"})],
    }

    _maps_are_streams = False  # rows in memory have one tree

    n_neighbors: int = 100
    _: KW_ONLY
    device: str = "cpu"
    precision: Precision = "float64"

    def _recipe(self, n_rows: int, kernel: Kernel) -> Nearest:
        check_device(self.device)
        return Nearest(int(self.n_neighbors), self.max_memory_gib, self.device, precision=self.precision)
