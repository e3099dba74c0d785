"""Nyström features: the kernel, projected onto its sections at a few landmarks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg.lapack import dpstrf
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_array

from lmgp.data import Floats, as_tensor
from lmgp.errors import InputError
from lmgp.features.base import KernelMap, Work, indexed
from lmgp.neighbours.clustering import farthest_points, nearest_centroids
from lmgp.neighbours.placement import distinct_places
from lmgp.utils.lazy import Tensor
from lmgp.utils.linalg import solve_lower
from lmgp.utils.parallel import single_threaded_blas

# A landmark is left out if it adds less than this share of the prior variance to those before it. What it adds is a
# difference of larger numbers, rounded at 1e-16: its column would be wrong from the fifth digit on, and k − φᵀφ
# negative where that column is large, outside the landmarks. A larger share costs accuracy where there is little noise.
NEGLIGIBLE = 1e-11

# k-means++ looks at this number of rows for each landmark, and at the second number at least.
ROWS_PER_LANDMARK, LEAST_ROWS = 10, 10_000


@dataclass(eq=False, repr=False)
class NystroemFeatures(KernelMap):
    """Nyström features: the kernel between a row and m landmarks, whitened.

    φ(x) = L⁻¹ k(Z, x) with K_ZZ = L Lᵀ, so that φ(x)ᵀφ(z) = k(x, Z) K_ZZ⁻¹ k(Z, z): exact at the landmarks Z, and
    nowhere larger than the kernel, for k − φᵀφ is positive semi-definite. In a regressor these are the sparse Gaussian
    processes with inducing points: ``approximation="sor"`` is the subset of regressors, ``"dtc"`` the
    deterministic training conditional and ``"fitc"`` the fully independent one.

    Parameters
    ----------
    n_features : int, default=512
        The largest number of landmarks, hence of columns. Where there are no more rows than this, all are landmarks,
        and the featurized model is the exact one. Ignored where landmarks are given.
    landmarks : {"kmeans++", "farthest_point"} or array-like of shape (m, d), default="kmeans++"
        Rows drawn one after the other with a probability that grows with the squared distance to those before; or
        rows each of which is farthest from those before, from the one nearest to the mean on (not random); both in
        lengthscales. Or these points, in the units of X, and in the coordinates of the rows that `fit` is given: the
        user's in `FeaturizedGPRegressor`, differences to the nearest centroid in `LocalizedGPRegressor`.
    kernel, random_state
        See `lmgp.features.base.KernelMap`.

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_features_out_, d)
        Those that are used, in the units of X, in the order of the factorisation: each has the largest variance of the
        remaining ones, given those before.
    n_features_out_ : int
        Their number: below `n_features` if rows or landmarks repeat each other, exactly or nearly.

    Notes
    -----
    Close landmarks make K_ZZ singular in float64. Nothing is added to its diagonal: the Cholesky factorisation is
    pivoted, and ends when no landmark has a variance, given those taken, above 1e-11 of the prior variance. At a
    landmark that is left out, k − φᵀφ is at most this. Rounding makes eigenvalues of k − φᵀφ negative by 1e-8 of the
    variance for many landmarks in a small place, and by 1e-4 at worst: for a pair alone, a few millionths of a
    lengthscale apart.

    k-means++ sees at most 10,000 random places, or 10 for each landmark where that is more. Rows at one place are one,
    whatever their weights, and the order of the rows makes no difference.

    The map serves every kernel and needs no centre: it sees the rows as they come.

    References
    ----------
    C. K. I. Williams and M. Seeger, *Using the Nyström Method to Speed Up Kernel Machines*, NIPS 2001, eq. 9.

    J. Quiñonero-Candela and C. E. Rasmussen, *A Unifying View of Sparse Approximate Gaussian Process Regression*, JMLR
    6, 2005: SoR, DTC and FITC.

    D. Arthur and S. Vassilvitskii, *k-means++: The Advantages of Careful Seeding*, SODA 2007.

    Examples
    --------
    >>> from lmgp import GaussianKernel, NystroemFeatures
    >>> X = [[0.0, 0.0], [1.0, 0.5], [1.0, 0.5], [3.0, 1.0]]
    >>> features = NystroemFeatures(landmarks="farthest_point").fit(X)
    >>> features.n_features_out_  # two rows are the same
    3
    >>> columns = features.transform(X)
    >>> bool(abs(columns @ columns.T - GaussianKernel()(X)).max() < 1e-15)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelMap._parameter_constraints,
        "landmarks": [StrOptions({"kmeans++", "farthest_point"}), "array-like"],
    }

    needs = None
    leaves_covariance = True

    landmarks: Literal["kmeans++", "farthest_point"] | ArrayLike = "kmeans++"
    landmarks_: Floats = field(init=False)
    factor_: Floats = field(init=False)  # the Cholesky factor L of the covariances of the landmarks

    def centre_of(self, X: Floats, weights: Floats | None) -> Floats:
        """Return zeros: landmarks are in the coordinates of the rows."""
        return np.zeros(X.shape[1])

    def work(self, n_inputs: int) -> Work:
        """Return what this map will cost: a triangular system for each row."""
        n_landmarks = self.n_features if isinstance(self.landmarks, str) else len(np.asarray(self.landmarks))
        return Work(n_landmarks, solved=n_landmarks)

    def n_bytes(self, n_rows: int, n_inputs: int) -> float:  # noqa: D102
        n_landmarks = self.work(n_inputs).columns
        if isinstance(self.landmarks, str):
            n_landmarks = min(n_landmarks, n_rows)
        return 8.0 * n_landmarks * (n_inputs + 2.0 * n_landmarks)

    def draw(self, X: Floats, rng: np.random.Generator) -> None:  # noqa: D102
        kernel = self.kernel_
        candidates = self._candidates(X, rng, kernel)
        rows = as_tensor(candidates)
        covariance = kernel.evaluate(rows, rows).numpy()
        unit = float(np.diagonal(covariance).max())
        if unit == 0.0:
            raise InputError(
                f"{kernel!r} is zero at all landmarks, so that no column is left. Give other rows, "
                "landmarks or another kernel."
            )
        factor, order, rank, _ = dpstrf(covariance / unit, tol=NEGLIGIBLE, lower=1)
        self.n_features_out_ = int(rank)
        self.landmarks_ = candidates[order[:rank] - 1]  # LAPACK counts from 1
        self.factor_ = np.tril(factor[:rank, :rank]) * unit**0.5

    def _candidates(self, X: Floats, rng: np.random.Generator, kernel: Any) -> Floats:
        """Return the landmarks to choose from, shape (m, d), in the units of X."""
        if not isinstance(self.landmarks, str):
            given: Floats = check_array(self.landmarks, dtype=np.float64, input_name="landmarks")
            if given.shape[1] != X.shape[1]:
                raise InputError(f"landmarks must have as many columns as X, {X.shape[1]}; got shape {given.shape}.")
            return given
        from sklearn.cluster import kmeans_plusplus  # here: it takes long to import, and predictions do without it

        X, _ = distinct_places(X)
        if len(X) <= self.n_features:
            return X
        scaled = kernel.in_lengthscales(X) if kernel.can("metric") else X
        if self.landmarks == "farthest_point":
            (middle,) = nearest_centroids(scaled.mean(axis=0, keepdims=True), scaled)
            # A row closer than this to another adds too little to it.
            chosen = farthest_points(scaled, scaled[middle], NEGLIGIBLE**0.5, self.n_features)
            return X[nearest_centroids(chosen, scaled)]
        n_rows = min(len(X), max(LEAST_ROWS, ROWS_PER_LANDMARK * self.n_features))
        sample = rng.choice(len(X), n_rows, replace=False)
        # Centred, because scikit-learn computes distances through inner products.
        centred = scaled[sample] - scaled.mean(axis=0)
        with single_threaded_blas():  # its products are small: waiting for each other, threads take longer
            _, picked = kmeans_plusplus(centred, self.n_features, random_state=int(rng.integers(2**31)))
        return X[sample[picked]]

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        return indexed("nystroem", self.n_features_out_)

    def evaluate(self, X: Tensor) -> Tensor:  # noqa: D102
        covariance = self.kernel_.evaluate(as_tensor(self.landmarks_), X)
        return solve_lower(as_tensor(self.factor_), covariance).T

    def missing_variance(self, X: Tensor, features: Tensor) -> Tensor:
        """Return k(x, x) − ‖φ(x)‖²."""
        # Rounding alone can make the difference negative, at the landmarks.
        return (as_tensor(self.kernel_.evaluate_diagonal(X.numpy())) - features.square().sum(dim=1)).clamp(min=0.0)
