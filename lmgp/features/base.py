"""The contract of all feature maps."""

from abc import abstractmethod
from collections.abc import Iterable
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc, gammainccinv
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from lmgp.features.composition import TensorMap
from lmgp.kernels.stationary import GaussianKernel
from lmgp.locality.clustering import nearest_centroids
from lmgp.statistics import Statistics
from lmgp.validation import RandomState, Rows, as_tensor, generator


class FeatureMap(TensorMap, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """A map φ from rows to columns with φ(x)ᵀφ(z) ≈ k(x, z) for the Gaussian kernel k.

    A scikit-learn transformer: `fit` draws what is random and decides how many columns there are, `transform` maps.
    It applies the kernel's lengthscale and variance, and it never centres: where the map has a centre (all but the
    Fourier maps), that is the origin, and whoever uses it hands over X − c.

    Subclasses implement `_draw` and `evaluate`.

    Parameters
    ----------
    n_features : int, default=512
        The number of columns to make. Where a map cannot make this number, it makes the largest one below.
    kernel : GaussianKernel, optional
        The kernel to approximate; GaussianKernel(1, 1) if not given. A regressor gives its maps its own.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of what is drawn.

    Attributes
    ----------
    n_features_out_ : int
        The number of columns made.
    n_features_in_ : int
        The number of input columns, d.
    kernel_ : GaussianKernel
        The kernel that is approximated.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_features": [Interval(Integral, 1, None, closed="left")],
        "kernel": [GaussianKernel, None],
        "random_state": ["random_state", np.random.Generator],
    }

    n_features_out_: int
    _accepts_sparse: ClassVar[bool] = False

    def __init__(
        self, n_features: int = 512, *, kernel: GaussianKernel | None = None, random_state: RandomState = None
    ) -> None:
        self.n_features = n_features
        self.kernel = kernel
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Draw the map for rows like these.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : ignored

        Raises
        ------
        InputError
            If the map cannot make as few columns as `n_features`, or the kernel does not fit the rows.
        """
        X, rng = self._start(X)
        self._draw(X, rng)
        return self

    def centre_of(self, X: NDArray[np.float64], weights: NDArray[np.float64] | None) -> NDArray[np.float64]:
        """Return where one map for all rows is best centred, shape (d,): the weighted mean of the rows."""
        return np.average(X, axis=0, weights=weights)

    def fit_around(self, X: NDArray[np.float64], centroids: NDArray[np.float64]) -> Self:
        """Draw the map for use on differences between rows and their nearest centroid.

        Parameters
        ----------
        X : ndarray of shape (n, d)
        centroids : ndarray of shape (n_centroids, d)
        """
        scale = (self.kernel or GaussianKernel()).scale
        return self.fit(X - centroids[nearest_centroids(scale(X), scale(centroids))])

    def transform(self, X: ArrayLike) -> NDArray[np.float64]:
        """Map rows to features.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n_features_out_)
        """
        check_is_fitted(self)
        return self.evaluate(as_tensor(validate_data(self, X, dtype=np.float64, reset=False))).numpy()

    @abstractmethod
    def evaluate(self, X: torch.Tensor) -> torch.Tensor:
        """Map a checked float64 tensor of shape (n, d) to features of shape (n, n_features_out_)."""

    def missing_variance(self, X: torch.Tensor, features: torch.Tensor) -> torch.Tensor | None:
        """Return the prior variance that the map leaves out at each row.

        Parameters
        ----------
        X : Tensor of shape (n, d)
        features : Tensor of shape (n, n_features_out_)
            What `evaluate` made of X.

        Returns
        -------
        Tensor of shape (n,) or None
            k(x, x) − E‖φ(x)‖² ≥ 0; None where that is zero for every row.
        """
        return None

    def reach(self, epsilon: float) -> float:
        """Return the distance from the origin, in lengthscales, beyond which E‖φ(x)‖² ≤ epsilon · variance."""
        return float("inf")

    @property
    def row_size(self) -> int:
        """How many numbers `summed` holds for each row of a chunk, about."""
        return self.n_features_out_

    def summed(self, chunks: Iterable[Rows], noise_variance: float, *, missing_is_noise: bool = False) -> Statistics:
        """Sum the statistics of rows.

        Parameters
        ----------
        chunks : iterable of Rows
            With X as differences to the centre and y centred.
        noise_variance : float
            What the precisions of the rows are relative to.
        missing_is_noise : bool, default=False
            Whether what the map leaves out of a row's variance counts as noise of that row.

        Returns
        -------
        Statistics
        """
        total = Statistics.zeros(self.n_features_out_)
        for chunk in chunks:
            X = as_tensor(chunk.X)
            features = self.evaluate(X)
            missing = self.missing_variance(X, features) if missing_is_noise else None
            weights = None if chunk.weights is None else as_tensor(chunk.weights)
            precision = relative_precision(chunk, missing, noise_variance)
            total.add_rows(features, as_tensor(chunk.y), weights, precision)
        return total

    def columns_in(self, larger: "FeatureMap") -> tuple[NDArray[np.intp], float] | None:
        """Say which columns of a larger map, times what factor, are the columns of this one.

        Parameters
        ----------
        larger : FeatureMap
            Fitted, as this map.

        Returns
        -------
        columns : ndarray of shape (n_features_out_,)
            Ascending; None in place of the pair where this map is no part of the other.
        factor : float
        """
        return (np.arange(self.n_features_out_), 1.0) if larger is self else None

    @property
    def _n_features_out(self) -> int:
        return self.n_features_out_

    def _start(self, X: ArrayLike) -> tuple[NDArray[np.float64], np.random.Generator]:
        """Check parameters and rows; return the rows and the generator that `random_state` names."""
        self._validate_params()
        rows: NDArray[np.float64] = validate_data(
            self, X, dtype=np.float64, accept_sparse="csr" if self._accepts_sparse else False
        )
        kernel = GaussianKernel() if self.kernel is None else clone(self.kernel)
        self.kernel_ = kernel.checked(rows.shape[1])
        return rows, generator(self.random_state)

    def _scale(self, X: torch.Tensor) -> torch.Tensor:
        return X / as_tensor(np.asarray(self.kernel_.lengthscale, dtype=np.float64))

    @abstractmethod
    def _draw(self, X: NDArray[np.float64], rng: np.random.Generator) -> None:
        """Draw the map for rows X and set ``n_features_out_``."""


def vanishing(squares: torch.Tensor, degree: int) -> torch.Tensor:
    """Say for which rows a Maclaurin map up to a degree is zero for all purposes: Q(degree + 1, r²) < 1e-280.

    Features of such rows must be exact zeros: as subnormal numbers they make matrix products tens of times slower.
    """
    return squares > float(gammainccinv(degree + 1, 1e-280))


def relative_precision(chunk: Rows, missing: torch.Tensor | None, noise_variance: float) -> torch.Tensor | None:
    """Return noise_variance over the noise of each row, with what a map leaves out; None where that is 1 everywhere."""
    if chunk.noise_variances is None and missing is None:
        return None
    noise = torch.tensor(noise_variance, dtype=torch.float64)
    if chunk.noise_variances is not None:
        noise = as_tensor(chunk.noise_variances)
    return noise_variance / (noise if missing is None else noise + missing)


def same_kernel(one: FeatureMap, other: FeatureMap) -> bool:
    """Say whether two fitted maps approximate the same kernel."""
    first, second = one.kernel_, other.kernel_
    return first.variance == second.variance and np.array_equal(first.lengthscale, second.lengthscale)


class TruncatedMap(FeatureMap):
    """A map of the Maclaurin series of exp(xᵀz), cut after ``degree_``.

    In expectation ‖φ(x)‖² = variance · Q(degree + 1, r²), where r is the row's distance to the origin in lengthscales
    and Q the regularised upper incomplete gamma function: 1 near the origin, 0 beyond r² ≈ degree.

    Attributes
    ----------
    degree_ : int
        The degree of the truncated series.
    """

    degree_: int

    def fit(self, X: ArrayLike, y: object = None, centroids: ArrayLike | None = None) -> Self:
        """Choose the columns for rows like these, and draw what is random.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows as differences to the centre of the map, or to the mean of all rows where there are several centres.
        y : ignored
        centroids : array-like of shape (n_centroids, d), optional
            The centres around which the map will be used, in the coordinates of X; only the origin if not given. They
            matter where columns are chosen by the rows within reach of a centre.

        Raises
        ------
        InputError
            If the map cannot make as few columns as `n_features`, or the kernel does not fit the rows.
        """
        X, rng = self._start(X)
        self._draw(X, rng, None if centroids is None else check_array(centroids, dtype=np.float64))
        return self

    def fit_around(self, X: NDArray[np.float64], centroids: NDArray[np.float64]) -> Self:  # noqa: D102
        mean = X.mean(axis=0)
        return self.fit(X - mean, centroids=centroids - mean)

    @abstractmethod
    def _draw(
        self, X: NDArray[np.float64], rng: np.random.Generator, centroids: NDArray[np.float64] | None = None
    ) -> None:
        """Choose and draw the map for rows X around centroids, and set ``n_features_out_`` and ``degree_``."""

    def missing_variance(self, X: torch.Tensor, features: torch.Tensor | None = None) -> torch.Tensor:  # noqa: D102
        squares = self._scale(X).square().sum(dim=1)
        # scipy's: torch's own is wrong in the tenth digit for some degrees.
        return self.kernel_.variance * as_tensor(np.asarray(gammainc(self.degree_ + 1, squares.numpy())))

    def reach(self, epsilon: float) -> float:  # noqa: D102
        return float(np.sqrt(gammainccinv(self.degree_ + 1, epsilon)))
