"""Any scikit-learn transformer as a feature map, and how a regressor comes by its own map."""

from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import Pipeline

from lmgp.errors import InputError
from lmgp.features.base import FeatureMap
from lmgp.kernels.stationary import GaussianKernel
from lmgp.validation import as_tensor


class TransformerFeatures(FeatureMap):
    """A scikit-learn transformer as a feature map: its columns times σ.

    The transformer sees the rows as they come, not divided by the kernel's lengthscale.

    Parameters
    ----------
    transformer : scikit-learn transformer
        Must give one dense or sparse row of finite numbers for each input row.
    kernel : GaussianKernel, optional
        Only its variance is used.

    Attributes
    ----------
    transformer_ : scikit-learn transformer
        The fitted clone.
    """

    # The columns are the transformer's, and so are the seeds.
    random_state = None
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"kernel": [GaussianKernel, None]}

    def __init__(self, transformer: Any, *, kernel: GaussianKernel | None = None) -> None:
        self.transformer = transformer
        self.kernel = kernel

    def _draw(self, X: NDArray[np.float64], rng: np.random.Generator) -> None:
        self.transformer_ = clone(self.transformer).fit(X)
        self.n_features_out_ = self._columns(X[:1]).shape[1]

    def centre_of(self, X: NDArray[np.float64], weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """Return zeros: the transformer sees the rows as they come."""
        return np.zeros(X.shape[1])

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return as_tensor(self._columns(X.numpy())) * self.kernel_.variance**0.5

    def missing_variance(self, X: torch.Tensor, features: torch.Tensor) -> torch.Tensor | None:
        """Return σ² − ‖φ(x)‖² where the transformer is a Nyström map, whose k − φᵀφ is positive; else None."""
        last = self.transformer_[-1] if isinstance(self.transformer_, Pipeline) else self.transformer_
        if isinstance(last, Nystroem) and last.kernel in ("rbf", "laplacian"):
            # Rounding alone can make the difference negative, at the landmarks.
            return (self.kernel_.variance - features.square().sum(dim=1)).clamp(min=0.0)
        return None

    def _columns(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        columns = self.transformer_.transform(X)
        columns = np.asarray(columns.toarray() if issparse(columns) else columns, dtype=np.float64)
        if columns.ndim != 2 or len(columns) != len(X) or columns.shape[1] == 0:
            raise InputError(
                f"{self.transformer_!r} cannot serve as a feature map: it made an array of shape {columns.shape} of "
                f"{len(X)} rows; expected shape ({len(X)}, n_features)."
            )
        if not np.isfinite(columns).all():
            raise InputError(
                f"{self.transformer_!r} cannot serve as a feature map: not all numbers that it made are finite."
            )
        return np.ascontiguousarray(columns)


def make_feature_map(features: Any, kernel: GaussianKernel, rng: np.random.Generator) -> FeatureMap:
    """Clone what a regressor was given as `features`, with the regressor's kernel and seeds where it has none.

    Parameters
    ----------
    features : FeatureMap or scikit-learn transformer
    kernel : GaussianKernel
    rng : numpy.random.Generator
        Seeds every ``random_state`` parameter that is None.

    Returns
    -------
    FeatureMap
        Not fitted.

    Raises
    ------
    InputError
        If `features` has no `fit` and `transform`.
    """
    if isinstance(features, type) or not (hasattr(features, "fit") and hasattr(features, "transform")):
        raise InputError(
            f"features must be a feature map such as TaylorFeatures(n_features=120), or another scikit-learn "
            f"transformer; got {features!r}."
        )
    features = seeded_clone(features, rng)
    if isinstance(features, FeatureMap):
        return features.set_params(kernel=kernel)
    return TransformerFeatures(features, kernel=kernel)


def seeded_clone(features: Any, rng: np.random.Generator) -> Any:
    """Clone a transformer, and seed every ``random_state`` parameter, nested ones included, that is None."""
    features = clone(features)
    parameters = features.get_params(deep=True)
    for name in sorted(parameters):
        if name.split("__")[-1] == "random_state" and parameters[name] is None:
            features.set_params(**{name: int(rng.integers(2**31))})
    return features
