"""Taylor expansions of fitted RBF models: prediction in a time that does not depend on their support vectors."""

from functools import lru_cache
from math import comb, prod
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainccinv
from sklearn.utils._param_validation import Interval

from lmgp.errors import InputError
from lmgp.features.index_sets import total_degree
from lmgp.features.moments import Step, monomials, plan
from lmgp.locality.clustering import farthest_point_clustering, nearest_centroids
from lmgp.memory import check_memory, chunks
from lmgp.rbf.approximation import ApproximateRBF
from lmgp.rbf.expansion import RBFExpansion
from lmgp.rbf.validity import PAPER_TOLERANCE, check_degree, largest_distance, largest_exponent, resolve_center
from lmgp.validation import as_tensor

Floats = NDArray[np.float64]

# More columns than this, and neither the plan of the monomials nor the prediction is fast.
MAX_MONOMIALS = 100_000

# What leaving a support vector out may change, relative to its coefficient, at any row.
PRUNE = 1e-12


class QuadraticRBF(ApproximateRBF):
    """The quadratic approximation f(z) ≈ e^{−γ‖z‖²}(c + vᵀz + zᵀMz) + b of a fitted RBF model.

    With z the difference to the centre. A prediction takes O(d²) for each output, whatever the number of support
    vectors, of which none is kept.

    Parameters
    ----------
    center : {"origin", "mean"} or array-like of shape (d,), default="origin"
        What to expand around: the origin as in the paper, the mean of the support vectors, or a point, such as the mean
        of all training rows. The kernel does not depend on it; the bound holds for more rows where it is amid the data.

    Attributes
    ----------
    c_ : ndarray of shape (n_outputs,)
        Σᵢ wᵢ with wᵢ = αᵢ e^{−γ‖xᵢ‖²}.
    v_ : ndarray of shape (n_outputs, d)
        2γ Σᵢ wᵢ xᵢ.
    M_ : ndarray of shape (n_outputs, d, d)
        2γ² Σᵢ wᵢ xᵢxᵢᵀ: half the Hessian at the centre.
    center_ : ndarray of shape (d,)
    gamma_ : ndarray of shape () or (d,)
    intercept_ : ndarray of shape (n_outputs,)
        b.
    radius_ : float
        In lengthscales 1/√(2γ): rows no farther than this from the centre are within the bound ‖x_M‖‖z‖ ≤ 1/(4γ), x_M
        the support vector that is farthest from the centre. There every term of the sum errs by less than 3.05%.
    classes_ : ndarray of shape (n_classes,)
        Of classifiers.
    n_features_in_ : int
        The number of input columns, d.
    sizes : Sizes
        Numbers kept before and after.

    Notes
    -----
    The bound is on the terms, not on their sum: where large terms of both signs cancel, the error of the sum can be a
    larger share of it, and labels near a decision boundary change. It is a worst case, too: beyond it the approximation
    is without a guarantee, but often as good.

    References
    ----------
    M. Claesen, F. De Smet, J. A. K. Suykens and B. De Moor, *Fast Prediction with SVM Models Containing RBF Kernels*,
    2014, eq. 3.7, 3.8 and 3.11.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from lmgp.rbf.taylor import QuadraticRBF
    >>> from lmgp.rbf.validity import gamma_max
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(500, 3))
    >>> model = SVC(gamma=gamma_max(X), C=100).fit(X, X[:, 0] ** 2 + X[:, 1] > 0)
    >>> fast = QuadraticRBF.from_estimator(model)
    >>> labels, valid = fast.predict(X, return_valid=True)
    >>> bool(valid.all()), bool(np.mean(labels != model.predict(X)) < 0.01), fast.sizes.ratio > 10
    (True, True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"center": [str, "array-like"]}

    c_: Floats
    v_: Floats
    M_: Floats
    center_: Floats

    def __init__(self, *, center: str | ArrayLike = "origin") -> None:
        self.center = center

    @classmethod
    def from_estimator(cls, model: Any, *, center: str | ArrayLike = "origin") -> Self:
        """Approximate a fitted model.

        Parameters
        ----------
        model
            See `lmgp.rbf.estimators.rbf_expansion`.
        center
            See the class.

        Returns
        -------
        QuadraticRBF

        Raises
        ------
        InputError
            If the model is not supported, or the center does not fit it.
        """
        return cls(center=center).fit(model)

    def _expand(self, expansion: RBFExpansion) -> None:
        n_sv, n_inputs = expansion.vectors.shape
        n_outputs = len(self.intercept_)
        self.center_ = resolve_center(self.center, expansion.vectors)
        self.c_ = np.zeros(n_outputs)
        self.v_ = np.zeros((n_outputs, n_inputs))
        self.M_ = np.zeros((n_outputs, n_inputs, n_inputs))
        slope, farthest = 2.0 * self.gamma_, 0.0
        for part in chunks(n_sv, n_inputs):
            shifted = expansion.vectors[part] - self.center_
            squares = np.square(shifted * self._scale).sum(axis=1)
            farthest = max(farthest, float(squares.max()) ** 0.5)
            weights = expansion.coefficients[part] * np.exp(-squares / 2.0)[:, None]
            shifted *= slope
            self.c_ += weights.sum(axis=0)
            self.v_ += weights.T @ shifted
            for matrix, weight in zip(self.M_, weights.T, strict=True):
                matrix += (0.5 * weight * shifted.T) @ shifted
        self.radius_ = 0.5 / farthest if farthest else np.inf
        self._error = "each term of the sum errs by less than 3.05%"
        self._advice = (
            "Expand around the data (center), train with gamma at most gamma_max(X, center=...), or use TaylorRBF with "
            "a higher degree or a threshold."
        )

    def _evaluate(self, rows: Floats) -> tuple[Floats, Floats]:
        shifted = rows - self.center_
        squares = np.square(shifted * self._scale).sum(axis=1)
        # Damped before they are squared: far from the centre the quadratic form alone overflows.
        root = np.exp(-squares / 4.0)[:, None]
        shifted *= root
        outputs = root * (root * self.c_ + shifted @ self.v_.T)
        for output, matrix in zip(outputs.T, self.M_, strict=True):
            output += np.einsum("ij,ij->i", shifted @ matrix, shifted)
        return outputs, np.sqrt(squares)

    @property
    def _row_size(self) -> int:
        return self.n_features_in_ + len(self.intercept_)

    def _arrays(self) -> tuple[Floats, ...]:
        return self.c_, self.v_, self.M_, self.center_


class TaylorRBF(ApproximateRBF):
    """The Taylor approximation of any degree of a fitted RBF model, around one centre or around many.

    The outputs become linear in the monomials e^{−γ‖z‖²} zᵃ up to a total degree p, C(d + p, p) of them, with z the
    difference to the centre. For few input columns. Degree 2 is `QuadraticRBF`, which is faster.

    Parameters
    ----------
    degree : int, default=4
        p, at least 0.
    center : {"origin", "mean"} or array-like of shape (d,), default="origin"
        As for `QuadraticRBF`; not for use with a threshold.
    threshold : float, optional
        In lengthscales 1/√(2γ). Expand around each of many centroids, such that every support vector is nearer than
        this to one of them. Each expansion is of all support vectors that reach it; a row uses that of its nearest
        centroid. The model grows with the number of centroids, but can be near everywhere.
    tolerance : float, default=PAPER_TOLERANCE
        What error of a kernel value is allowed within the bound: relative with one centre, where that is 3.05% by
        default and at degree 2 the paper's bound; absolute, with k(x, x) = 1, with a threshold.

    Attributes
    ----------
    weights_ : ndarray of shape (n_centers, n_monomials, n_outputs)
        Of the monomials zᵃ/√(a!), z in lengthscales, in the order of `lmgp.features.index_sets.total_degree`.
    centers_ : ndarray of shape (n_centers, d)
    gamma_ : ndarray of shape () or (d,)
    intercept_ : ndarray of shape (n_outputs,)
    radius_ : float
        In lengthscales: the bound holds for rows no farther than this from their centre.
    classes_ : ndarray of shape (n_classes,)
        Of classifiers.
    n_features_in_ : int
        The number of input columns, d.
    sizes : Sizes
        Numbers kept before and after.

    Notes
    -----
    A support vector is left out of an expansion that it would change, at any row, by less than 1e-12 of its
    coefficient.

    References
    ----------
    M. Claesen, F. De Smet, J. A. K. Suykens and B. De Moor, *Fast Prediction with SVM Models Containing RBF Kernels*,
    2014: degree 2 around the origin.

    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022: many centres.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVR
    >>> from lmgp.rbf.taylor import TaylorRBF
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(400, 1))
    >>> model = SVR(gamma=1.0, epsilon=0.01).fit(X, np.sin(3 * X[:, 0]))
    >>> fast = TaylorRBF.from_estimator(model, degree=12, threshold=1.0)
    >>> predictions, valid = fast.predict(X, return_valid=True)
    >>> bool(valid.all()), bool(np.abs(predictions - model.predict(X)).max() < 1e-4)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "center": [str, "array-like"],
        "threshold": [Interval(Real, 0, None, closed="neither"), None],
        "tolerance": [Interval(Real, 0, 1, closed="neither")],
    }

    weights_: Floats
    centers_: Floats

    def __init__(
        self,
        degree: int = 4,
        *,
        center: str | ArrayLike = "origin",
        threshold: float | None = None,
        tolerance: float = PAPER_TOLERANCE,
    ) -> None:
        self.degree = degree
        self.center = center
        self.threshold = threshold
        self.tolerance = tolerance

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        degree: int = 4,
        *,
        center: str | ArrayLike = "origin",
        threshold: float | None = None,
        tolerance: float = PAPER_TOLERANCE,
    ) -> Self:
        """Approximate a fitted model.

        Parameters
        ----------
        model
            See `lmgp.rbf.estimators.rbf_expansion`.
        degree, center, threshold, tolerance
            See the class.

        Returns
        -------
        TaylorRBF

        Raises
        ------
        InputError
            If the model is not supported, or a parameter does not fit it.
        """
        return cls(degree, center=center, threshold=threshold, tolerance=tolerance).fit(model)

    def _expand(self, expansion: RBFExpansion) -> None:
        degree = check_degree(self.degree)
        n_monomials = comb(self.n_features_in_ + degree, degree)
        if n_monomials > MAX_MONOMIALS:
            raise InputError(
                f"Degree {degree} of {self.n_features_in_} columns has {n_monomials:,} monomials, more than "
                f"{MAX_MONOMIALS:,}. Use a lower degree, or QuadraticRBF."
            )
        if self.threshold is None:
            self.centers_ = resolve_center(self.center, expansion.vectors)[None, :]
            farthest = float(np.linalg.norm((expansion.vectors - self.centers_) * self._scale, axis=1).max())
            self.radius_ = largest_exponent(degree, self.tolerance) / farthest if farthest else np.inf
            self._error = f"each term of the sum errs by less than {self.tolerance:.3%}"
            self._advice = (
                f"Expand around the data (center), train with gamma at most gamma_max(X, center=..., degree={degree}), "
                "or use a higher degree or a threshold."
            )
        elif isinstance(self.center, str) and self.center == "origin":
            self.centers_ = farthest_point_clustering(expansion.vectors * self._scale, self.threshold) / self._scale
            self.radius_ = largest_distance(degree, self.tolerance)
            self._error = f"each kernel value errs by less than {self.tolerance:.3g}"
            self._advice = "Use a smaller threshold or a higher degree; rows far from all support vectors stay outside."
        else:
            raise InputError(f"center={self.center!r} and threshold={self.threshold!r} cannot both be given.")
        # No row has features of norm above 1, those of a support vector at r have the square Q(p + 1, r²): their inner
        # product is the support vector's part at that row.
        reach = gammainccinv(degree + 1, PRUNE**2) ** 0.5
        self._degree, steps = degree, _steps(self.n_features_in_, degree)
        shape = len(self.centers_), n_monomials, len(self.intercept_)
        check_memory(
            8.0 * prod(shape),
            f"The weights of {shape[1]:,} monomials at {shape[0]:,} centroids for {shape[2]} output(s)",
            "Use a larger threshold or a lower degree.",
        )
        self.weights_ = np.zeros(shape)
        for weights, center in zip(self.weights_, self.centers_, strict=True):
            shifted = (expansion.vectors - center) * self._scale
            within = np.flatnonzero(np.square(shifted).sum(axis=1) <= reach**2)
            for part in chunks(len(within), n_monomials):
                features = monomials(as_tensor(shifted[within[part]]), steps, 0.5).numpy()
                weights += features @ expansion.coefficients[within[part]]

    def _evaluate(self, rows: Floats) -> tuple[Floats, Floats]:
        nearest = nearest_centroids(rows * self._scale, self.centers_ * self._scale)
        # Rows of one centre side by side, so that each centre takes one product.
        order = np.argsort(nearest, kind="stable")
        nearest = nearest[order]
        shifted = (rows[order] - self.centers_[nearest]) * self._scale
        features = monomials(as_tensor(shifted), _steps(self.n_features_in_, self._degree), 0.5).numpy()
        outputs, distances = np.empty((len(rows), len(self.intercept_))), np.empty(len(rows))
        distances[order] = np.linalg.norm(shifted, axis=1)
        starts = np.flatnonzero(np.diff(nearest, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
            outputs[order[start:stop]] = features[:, start:stop].T @ self.weights_[nearest[start]]
        return outputs, distances

    @property
    def _row_size(self) -> int:
        return self.weights_.shape[1]

    def _arrays(self) -> tuple[Floats, ...]:
        return self.weights_, self.centers_


@lru_cache(maxsize=8)
def _steps(n_inputs: int, degree: int) -> list[Step]:
    """How the monomials are evaluated: not kept in a model, since it follows from two numbers."""
    return plan(total_degree(n_inputs, degree))
