"""Taylor expansions of fitted RBF models, whose predictions take a time that does not grow with the support vectors."""

import math
from dataclasses import dataclass
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
from lmgp.fitted import OfFit
from lmgp.locality.clustering import farthest_point_clustering, nearest_centroids
from lmgp.memory import check_memory, chunks
from lmgp.rbf.approximation import ApproximateRBF, ApproximationFit, template
from lmgp.rbf.expansion import RBFExpansion
from lmgp.rbf.validity import PAPER_TOLERANCE, check_degree, largest_distance, largest_exponent, resolve_center
from lmgp.validation import as_tensor

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Limits:
    """Where an expansion stops.

    Attributes
    ----------
    monomials : int
        The most columns: with more, neither the plan of the monomials nor a prediction is fast.
    negligible : float
        A support vector is left out where its part at every row is below this share of its coefficient.
    """

    monomials: int = 100_000
    negligible: float = 1e-12


LIMITS = Limits()


@dataclass(frozen=True, eq=False, kw_only=True)
class TaylorFit(ApproximationFit):
    """What `TaylorRBF` learns; see its attributes."""

    degree: int
    weights: Floats
    centers: Floats

    @property
    def expansion_point(self) -> Floats:
        """The only centre."""
        if len(self.centers) > 1:
            raise AttributeError("There are many points of expansion: see centers_.")
        return self.centers[0]

    @property
    def row_size(self) -> int:  # noqa: D102
        return self.weights.shape[1]

    @property
    def arrays(self) -> tuple[Floats, ...]:  # noqa: D102
        return self.weights, self.centers

    def evaluate(self, rows: Floats) -> tuple[Floats, Floats]:  # noqa: D102
        nearest = nearest_centroids(rows * self.scale, self.centers * self.scale)
        # Rows of one centre side by side, so that each centre takes one product.
        order = np.argsort(nearest, kind="stable")
        nearest = nearest[order]
        shifted = (rows[order] - self.centers[nearest]) * self.scale
        features = monomials(as_tensor(shifted), _steps(self.n_features_in, self.degree), 0.5).numpy()
        outputs, distances = np.empty((len(rows), len(self.intercept))), np.empty(len(rows))
        distances[order] = np.linalg.norm(shifted, axis=1)
        starts = np.flatnonzero(np.diff(nearest, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(rows)], strict=True):
            outputs[order[start:stop]] = features[:, start:stop].T @ self.weights[nearest[start]]
        return outputs, distances


class TaylorRBF(ApproximateRBF):
    """The Taylor approximation of any degree of a fitted RBF model, around one centre or around many.

    The outputs become linear in the C(d + p, p) monomials e^{−γ‖z‖²} zᵃ up to a total degree p, where z is the
    difference to the centre: suited to few input columns. `QuadraticRBF` is degree 2, and faster.

    Parameters
    ----------
    estimator : estimator, optional
        What `fit` clones, fits and approximates; see `QuadraticRBF`.
    degree : int, default=4
        p, at least 0.
    center : {"origin", "mean"} or array-like of shape (d,), default="origin"
        As for `QuadraticRBF`; not for use with a threshold.
    threshold : float, optional
        In lengthscales 1/√(2γ). Expand around many centroids, so that every support vector is closer than this to one
        of them. A row uses the expansion around its nearest centroid, to which all support vectors within reach
        contribute. The model grows with the number of centroids, but can be accurate everywhere.
    tolerance : float, default=PAPER_TOLERANCE
        The largest error of a kernel value within the bound: relative with one centre (by default 3.05%, the paper's
        for degree 2); absolute with a threshold, where k(x, x) = 1.

    Attributes
    ----------
    weights_ : ndarray of shape (n_centers, n_monomials, n_outputs)
        Of the monomials zᵃ/√(a!), z in lengthscales, in the order of `lmgp.features.index_sets.total_degree`.
    centers_ : ndarray of shape (n_centers, d)
    expansion_point_ : ndarray of shape (d,)
        The only centre; with several, there is no such attribute.
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
    A support vector is left out of an expansion where its part is below 1e-12 of its coefficient at every row.

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
    >>> fast = TaylorRBF(SVR(gamma=1.0, epsilon=0.01), degree=12, threshold=1.0).fit(X, np.sin(3 * X[:, 0]))
    >>> predictions, valid = fast.predict(X, return_valid=True)
    >>> bool(valid.all()), bool(np.abs(predictions - model.predict(X)).max() < 1e-4)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ApproximateRBF._parameter_constraints,
        "threshold": [Interval(Real, 0, None, closed="neither"), None],
        "tolerance": [Interval(Real, 0, 1, closed="neither")],
    }

    weights_ = OfFit[Floats]()
    centers_ = OfFit[Floats]()
    expansion_point_ = OfFit[Floats]()

    def __init__(
        self,
        estimator: Any = None,
        degree: int = 4,
        *,
        center: str | ArrayLike = "origin",
        threshold: float | None = None,
        tolerance: float = PAPER_TOLERANCE,
    ) -> None:
        self.estimator = estimator
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
            Its `estimator` is a clone of the model, without what it has learned; None of a file or an expansion.

        Raises
        ------
        InputError
            If the model is not supported, or a parameter does not fit it.
        """
        made = cls(template(model), degree, center=center, threshold=threshold, tolerance=tolerance)
        return made._approximate(model)

    def _expand(self, expansion: RBFExpansion, taken_over: dict[str, Any]) -> TaylorFit:
        degree, n_inputs = check_degree(self.degree), expansion.vectors.shape[1]
        n_monomials = comb(n_inputs + degree, degree)
        if n_monomials > LIMITS.monomials:
            raise InputError(
                f"Degree {degree} of {n_inputs} columns has {n_monomials:,} monomials, more than "
                f"{LIMITS.monomials:,}. Use a lower degree, or QuadraticRBF."
            )
        centers, validity = self._around(expansion, degree)
        return TaylorFit(
            **taken_over, **validity, degree=degree, centers=centers, weights=_weights(expansion, degree, centers)
        )

    def _around(self, expansion: RBFExpansion, degree: int) -> tuple[Floats, dict[str, Any]]:
        """Return the centres, and what holds around them: the radius, the error and the advice."""
        scale = expansion.scale
        if self.threshold is None:
            centers = resolve_center(self.center, expansion.vectors)[None, :]
            farthest = float(np.linalg.norm((expansion.vectors - centers) * scale, axis=1).max())
            return centers, {
                "radius": largest_exponent(degree, self.tolerance) / farthest if farthest else math.inf,
                "error": f"each term of the sum errs by less than {self.tolerance:.3%}",
                "advice": "Expand around the data (center), train with gamma at most "
                f"gamma_max(X, center=..., degree={degree}), or use a higher degree or a threshold.",
            }
        if not isinstance(self.center, str) or self.center != "origin":
            raise InputError(f"center={self.center!r} and threshold={self.threshold!r} cannot both be given.")
        return farthest_point_clustering(expansion.vectors * scale, self.threshold) / scale, {
            "radius": largest_distance(degree, self.tolerance),
            "error": f"each kernel value errs by less than {self.tolerance:.3g}",
            "advice": "Use a smaller threshold or a higher degree; rows far from all support vectors stay outside.",
        }


def _weights(expansion: RBFExpansion, degree: int, centers: Floats) -> Floats:
    """Return the weights of the monomials around each centre, shape (n_centers, n_monomials, n_outputs)."""
    n_inputs = expansion.vectors.shape[1]
    steps = _steps(n_inputs, degree)
    shape = len(centers), comb(n_inputs + degree, degree), len(expansion.intercept)
    check_memory(
        8.0 * prod(shape),
        f"The weights of {shape[1]:,} monomials at {shape[0]:,} centroids for {shape[2]} output(s)",
        "Use a larger threshold or a lower degree.",
    )
    # No row has features of norm above 1, and those of a support vector at distance r have the squared norm
    # Q(p + 1, r²). Their inner product is the support vector's part at the row.
    reach = gammainccinv(degree + 1, LIMITS.negligible**2) ** 0.5
    all_weights = np.zeros(shape)
    for weights, center in zip(all_weights, centers, strict=True):
        shifted = (expansion.vectors - center) * expansion.scale
        within = np.flatnonzero(np.square(shifted).sum(axis=1) <= reach**2)
        for part in chunks(len(within), shape[1]):
            features = monomials(as_tensor(shifted[within[part]]), steps, 0.5).numpy()
            weights += features @ expansion.coefficients[within[part]]
    return all_weights


@lru_cache(maxsize=8)
def _steps(n_inputs: int, degree: int) -> list[Step]:
    """Return how the monomials are evaluated. It follows from two numbers, so that no model keeps it."""
    return plan(total_degree(n_inputs, degree))
