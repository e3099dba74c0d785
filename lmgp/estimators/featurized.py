"""Gaussian processes in feature space: D × D in place of n × n."""

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

from sklearn.base import TransformerMixin
from sklearn.utils._param_validation import StrOptions

from lmgp.data import APPROXIMATIONS, Approximation
from lmgp.estimators.streamed import AdditiveGaussianProcess
from lmgp.features.base import KernelMap
from lmgp.kernels.base import Kernel
from lmgp.recipes import Weights
from lmgp.utils.arithmetic import Arithmetic, Precision, check_device


@dataclass(eq=False, repr=False)
class FeaturizedGPRegressor(AdditiveGaussianProcess):
    """A Gaussian process with one feature map: Bayesian linear regression on D columns.

    Takes O(n D²) time and O(D²) memory beyond the data: rows are mapped and summed chunk by chunk.

    Parameters
    ----------
    features : FeatureMap or scikit-learn transformer, optional
        Cloned, given the kernel, and fitted to X less its mean. Any other transformer is fitted to X as it is, and its
        columns times σ are the features. If not given, ``OrthogonalFourierFeatures(512)`` for stationary kernels and
        their sums and products, and ``NystroemFeatures(512)`` for all others.
    kernel : Kernel, str, list of str or None, default=None
        Any kernel that the map can serve, used as it is, but for parameters with bounds, which are learned. A name,
        such as "matern32" or "matern12+gaussian", several, or "auto": what predicts best of these, learned from all
        rows, see `lmgp.learn`. None: "gaussian".
    noise_variance : float, optional
        In squared units of y; learned likewise if not given.
    noise : {"normal", "student", "varying", "robust", "auto"}, default="normal"
        The distribution of new observations, see `lmgp.estimators.GaussianProcess`.
    approximation : {"dtc", "sor", "fitc"}, default="fitc"
        What becomes of the prior variance that the map leaves out at a row (zero for Fourier features). "sor" ignores
        it, as the paper's formula does; "dtc" adds it to the prediction's variance, which keeps that honest far from
        the centre of the map; "fitc" also adds it to the noise of the training rows.
    trend : {"constant", "linear"} or list of int or str, default="constant"
        The mean function: the mean of y, an intercept and a slope for each column, or for these columns; see
        `ExactGPRegressor`.
    ard : bool or "auto", default=False
        Whether a learned kernel has one lengthscale a column; "auto" is True.
    max_learning_rows : int, default=2000
        The largest number of rows whose exact likelihood is maximised. Of more rows, Vecchia's is maximised, or the
        exact one of a random sample of this size where the kernel has no lengthscale.
    max_memory_gib : float, default=4.0
        The memory that the D × D matrices and the parameters of the map may take, in GiB.
    device : str, optional
        Where torch sums the products of columns, such as "cuda"; of a Fourier map, also where it makes them. If not
        given, numpy's and scipy's BLAS on the CPU. Sums are float64 always.
    feature_dtype : {"float64", "float32"}, default="float64"
        The precision of the columns of training rows, and of the products of up to 4,096 rows. "float32" takes
        less time; what it costs is `rounding_divergence_`.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seeds the map, where that has no seed of its own.

    Attributes
    ----------
    features_ : FeatureMap
        The fitted map. Other transformers come as `lmgp.features.adapter.TransformerFeatures`.
    log_marginal_likelihood_ : float
        Of the centred y of all rows under the featurized model, or of the residuals of the estimated trend, in nats.
    rounding_divergence_ : float
        KL(this prediction ‖ that of float64 features), in nats: the mean over rows, estimated from at most 4,096 of
        them; 0 of float64.
    kernel_, noise_variance_, center_, trend_, n_features_in_
        See `ExactGPRegressor`.

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, eq. 2.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import FeaturizedGPRegressor, GaussianKernel, TaylorFeatures
    >>> X = np.linspace(0, 6, 1000)[:, None]
    >>> model = FeaturizedGPRegressor(TaylorFeatures(n_features=40), kernel=GaussianKernel(1.0), noise_variance=0.01)
    >>> mean, std = model.fit(X, np.sin(X[:, 0])).predict([[1.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.0)) < 3 * std[0])
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AdditiveGaussianProcess._parameter_constraints,
        "approximation": [StrOptions(set(APPROXIMATIONS))],
        "device": [str, None],
        "feature_dtype": [StrOptions({"float64", "float32"})],
    }

    features: TransformerMixin | None = None
    _: KW_ONLY
    approximation: Approximation = "fitc"
    device: str | None = None
    feature_dtype: Precision = "float64"

    def _recipe(self, n_rows: int, kernel: Kernel) -> Weights:
        if self.device is not None:
            check_device(self.device)
        arithmetic = Arithmetic(self.device, self.feature_dtype)
        return Weights(self.features, self.approximation, self.max_memory_gib, arithmetic)

    @property
    def features_(self) -> KernelMap:
        """The fitted map."""
        return self._process("features_").features

    @property
    def rounding_divergence_(self) -> float:
        """What features in single precision cost, in nats a row."""
        return self._process("rounding_divergence_").rounding_divergence
