"""Gaussian processes in feature space: D × D in place of n × n."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils._param_validation import StrOptions

from lmgp.features.adapter import make_feature_map
from lmgp.features.fourier import OrthogonalFourierFeatures
from lmgp.inference.truncation import expected_divergence
from lmgp.inference.weight_space import WeightPosterior, accumulate, check_model, evaluate
from lmgp.kernels.stationary import GaussianKernel
from lmgp.models.base import GPRegressor
from lmgp.noise import APPROXIMATIONS, Approximation, Noise
from lmgp.validation import RandomState, Rows

Floats = NDArray[np.float64]


class FeaturizedGPRegressor(GPRegressor):
    """A Gaussian process with one feature map: Bayesian linear regression on D columns.

    Takes O(n D²) time and O(D²) memory beyond the data: rows are mapped and summed chunk by chunk.

    Parameters
    ----------
    features : FeatureMap or scikit-learn transformer, optional
        Cloned, given the kernel, and fitted to X less its mean. Any other transformer is fitted to X as it is, and its
        columns times σ are the features. ``OrthogonalFourierFeatures(512)`` if not given.
    kernel : GaussianKernel, optional
        Learned by maximum marginal likelihood of the exact GP if not given.
    noise_variance : float, optional
        In squared units of y; learned likewise if not given.
    approximation : {"dtc", "sor", "fitc"}, default="fitc"
        What becomes of the prior variance that the map leaves out at a row (zero for Fourier features). "sor" ignores
        it, as the paper's formula does; "dtc" adds it to the prediction's variance, which keeps that honest far from
        the centre of the map; "fitc" also adds it to the noise of the training rows.
    ard : bool, default=False
        Whether a learned kernel has one lengthscale a column.
    max_rows : int, default=2000
        The largest number of rows from which hyper-parameters are learned.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seeds the map, where that has no seed of its own.

    Attributes
    ----------
    features_ : FeatureMap
        The fitted map. Other transformers come as `lmgp.features.adapter.TransformerFeatures`.
    log_marginal_likelihood_ : float
        Of the centred y of all rows under the featurized model, in nats.
    kernel_, noise_variance_, center_, n_features_in_
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
        **GPRegressor._parameter_constraints,
        "approximation": [StrOptions(set(APPROXIMATIONS))],
    }

    def __init__(
        self,
        features: TransformerMixin | None = None,
        *,
        kernel: GaussianKernel | None = None,
        noise_variance: float | None = None,
        approximation: Approximation = "fitc",
        ard: bool = False,
        max_rows: int = 2000,
        random_state: RandomState = None,
    ) -> None:
        self.features = features
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.approximation = approximation
        self.ard = ard
        self.max_rows = max_rows
        self.random_state = random_state

    def _fit(self, rows: Rows, rng: np.random.Generator) -> None:
        features = OrthogonalFourierFeatures() if self.features is None else self.features
        self.features_ = make_feature_map(features, self.kernel_, rng)
        self._centre = self.features_.centre_of(rows.X, rows.weights)
        check_model(self.features_, *rows.X.shape)
        self.features_.fit_around(rows.X, self._centre[None, :])
        self._noise = Noise(self.noise_variance_, self.approximation)
        statistics = accumulate(self.features_, rows, self._centre, self._noise)
        self._posterior = WeightPosterior(statistics, center=0.0)
        self._box = rows.X.min(axis=0), rows.X.max(axis=0)
        self.log_marginal_likelihood_ = self._posterior.log_marginal_likelihood

    def _predict(self, X: Floats) -> tuple[Floats, Floats]:
        return evaluate(self._posterior, self.features_, X, self._centre, self._noise)

    def _expected_divergence(self, X: Floats) -> Floats:
        outside = X - np.clip(X, *self._box)
        beyond = np.sqrt(np.square(self.kernel_.scale(outside)).sum(axis=1))
        return expected_divergence(self._posterior, self.features_, X - self._centre, beyond, self._noise)
