"""Gaussian processes of a global map and of what it leaves out, predicted from the nearest rows."""

from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar

from sklearn.base import TransformerMixin
from sklearn.utils._param_validation import Interval

from lmgp.estimators.streamed import AdditiveGaussianProcess
from lmgp.features.base import KernelMap
from lmgp.kernels.base import Kernel
from lmgp.recipes import Residual


@dataclass(eq=False, repr=False)
class ResidualGPRegressor(AdditiveGaussianProcess):
    """A Gaussian process of a global map and local residuals: for smooth and rough functions of many columns.

    The map carries the long part of the kernel; what it leaves out of the covariance is predicted from the rows nearest
    to each row, with their own residual covariance. So neither has to be exact: with a few hundred landmarks and a few
    dozen neighbours, it is nearer to the exact Gaussian process than either alone.

    Parameters
    ----------
    features : FeatureMap, optional
        A map of the kernel; `NystroemFeatures` with 1,024 landmarks if not given.
    n_neighbors : int, default=64
        The number of nearest rows, in the metric of the kernel, whose residuals predict that of a row.
    block_size : int, default=256
        The most rows of a block within which the fit knows the residuals to be correlated. The fit takes
        O(n · block_size · (block_size + D)) time beside that of the map.
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
        The memory of the features of all rows and of the covariances within blocks, n · (D + block_size) numbers, in
        GiB.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Draws the landmarks. What is learned does not depend on it.

    Attributes
    ----------
    features_ : KernelMap
        The fitted map.
    kernel_, noise_variance_, center_, trend_, learning_, inverse_lengthscales_, n_features_in_
        See `lmgp.estimators.GaussianProcess`.

    Notes
    -----
    With f = φᵀw + g, g has the covariance r = k − φᵀφ, which is positive semi-definite for Nyström maps. Maps whose
    columns are random, or that add up to more than the kernel, have no such residual: give Nyström or Taylor maps.

    Rows that come later, by `partial_fit`, get blocks of their own, and the map stays as it is: the model is one of the
    same kind, and not that of all rows at once, which have other blocks and landmarks. An update takes the time of its
    rows and of a Cholesky factor of D columns. A trend stays as `fit` has estimated it.

    A row with a `sample_weight` of w takes one place among near rows, and w copies of it take w: predictions are from
    fewer different rows then.

    References
    ----------
    E. Snelson and Z. Ghahramani, *Local and Global Sparse Gaussian Process Approximations*, AISTATS 2007.
    H. Sang and J. Z. Huang, *A Full Scale Approximation of Covariance Functions for Large Spatial Data Sets*, JRSS B
    74, 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import GaussianKernel, NystroemFeatures, ResidualGPRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (1000, 4))
    >>> y = np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=1000)
    >>> model = ResidualGPRegressor(NystroemFeatures(100), 32, kernel=GaussianKernel(2.0), noise_variance=0.01)
    >>> mean, std = model.fit(X, y).predict(np.zeros((1, 4)), return_std=True)
    >>> bool(abs(mean[0]) < 3 * std[0])
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AdditiveGaussianProcess._parameter_constraints,
        "n_neighbors": [Interval(Integral, 1, None, closed="left")],
        "block_size": [Interval(Integral, 1, None, closed="left")],
    }

    _maps_are_streams = False  # rows in memory have blocks of the nearest of all

    features: TransformerMixin | None = None
    n_neighbors: int = 64
    _: KW_ONLY
    block_size: int = 256

    def _recipe(self, n_rows: int, kernel: Kernel) -> Residual:
        return Residual(self.features, int(self.n_neighbors), int(self.block_size), self.max_memory_gib)

    @property
    def features_(self) -> KernelMap:
        """The fitted map."""
        return self._process("features_").features
