"""Approximations of fitted RBF models, whose predictions take a time that does not grow with the support vectors."""

import math
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache
from math import comb, prod
from numbers import Real
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from scipy.special import gammainccinv
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, Tags, get_tags
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from lmgp.data import Floats, as_tensor, validated
from lmgp.errors import InputError, ValidityWarning, warn
from lmgp.features.index_sets import total_degree
from lmgp.features.moments import Step, monomials, plan
from lmgp.neighbours.clustering import farthest_point_clustering, nearest_centroids
from lmgp.rbf.estimators import check_kind, rbf_expansion
from lmgp.rbf.expansion import Classification, OneClass, RBFExpansion, Readout
from lmgp.rbf.validity import PAPER_TOLERANCE, check_degree, largest_distance, largest_exponent, resolve_center
from lmgp.utils.columns import refuse_other_than_numbers
from lmgp.utils.fitted import Fitted, forget
from lmgp.utils.memory import check_memory, chunks

# A row at the bound is within it, whatever its norm is rounded to: so are all rows of a model trained at gamma_max.
ROUNDING = 1e-12
# With more columns, neither the plan of the monomials nor a prediction is fast.
MOST_MONOMIALS = 100_000
# A support vector is left out where its part at every row is below this share of its coefficient.
NEGLIGIBLE = 1e-12


class Sizes(NamedTuple):
    """Numbers that a model keeps, before and after.

    Attributes
    ----------
    exact : int
        n_sv d + (coefficients that are not zero) + n_outputs.
    approximate : int
        All that a prediction of the approximate model reads.
    """

    exact: int
    approximate: int

    @property
    def ratio(self) -> float:
        """How many times smaller the approximate model is."""
        return self.exact / self.approximate

    @property
    def n_bytes(self) -> tuple[int, int]:
        """Both in bytes, at 8 a number."""
        return 8 * self.exact, 8 * self.approximate


def _is(*kinds: str) -> Any:
    """Offer a method only where what is approximated is of one of some kinds."""
    return available_if(lambda approximation: approximation._kind in kinds)


class ApproximateRBF(Fitted, MetaEstimatorMixin, BaseEstimator, ABC):
    """An approximation of the outputs of a fitted model, which keeps none of its support vectors.

    Subclasses implement `_expand`, `_row_size` and `_evaluate`, and name the arrays that they keep.
    """

    _arrays: ClassVar[tuple[str, ...]]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "center": [str, "array-like"],
    }

    estimator: Any
    readout_: Readout
    gamma_: Floats
    intercept_: Floats
    n_features_in_: int
    radius_: float

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, **fit_params: Any) -> Self:
        """Fit a clone of the estimator, and approximate it; the clone itself is not kept.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        y : array-like of shape (n,), optional
            As the estimator takes it.
        **fit_params
            Such as ``sample_weight``: for `fit` of the estimator.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If there is no estimator, it is not supported, or a parameter does not fit it. And what `fit` of the
            estimator raises.
        """
        self._validate_params()
        if isinstance(X, str | PathLike | RBFExpansion) or hasattr(X, "predict"):
            raise InputError(
                f"fit takes rows X and targets y; got {type(X).__name__}. For a model that is fitted, or a file, use "
                f"{type(self).__name__}.from_estimator."
            )
        if self.estimator is None:
            raise InputError(
                f"{type(self).__name__} has no estimator to fit: give one, such as "
                f"{type(self).__name__}(estimator=SVC()), or use from_estimator with a model that is fitted."
            )
        check_kind(self.estimator)
        refuse_other_than_numbers(X, "X")
        if get_config()["enable_metadata_routing"]:
            fit_params = process_routing(self, "fit", **fit_params).estimator.fit
        return self._approximate(clone(self.estimator).fit(X, y, **fit_params))

    @classmethod
    def from_estimator(cls, model: Any, *parameters: Any, **named: Any) -> Self:
        """Approximate a fitted model.

        Parameters
        ----------
        model
            See `lmgp.rbf.rbf_expansion`.
        *parameters, **named
            Those of the class after the estimator.

        Returns
        -------
        QuadraticRBF or TaylorRBF
            Its `estimator` is a clone of the model, without what it has learned; None of a file or an expansion.

        Raises
        ------
        InputError
            If the model is not supported, or a parameter does not fit it.
        """
        unfitted = clone(model) if isinstance(model, BaseEstimator) else None
        return cls(unfitted, *parameters, **named)._approximate(model)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return where metadata such as ``sample_weight`` go: to `fit` of the estimator."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add(estimator=self.estimator, method_mapping=mapping)

    def _approximate(self, model: Any) -> Self:
        """Approximate a fitted model; nothing of it is shared."""
        self._validate_params()
        expansion = rbf_expansion(model)
        learned = self._expand(expansion)
        forget(self)
        self.readout_ = expansion.readout
        self.gamma_ = np.array(expansion.gamma, dtype=np.float64)
        self.intercept_ = expansion.intercept.copy()
        self.n_features_in_ = expansion.vectors.shape[1]
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = copy(model.feature_names_in_)
        self._n_exact = expansion.n_numbers
        self.__dict__.update(learned)
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return "radius_" in vars(self)

    @property
    def _kind(self) -> str | None:
        """What the approximated model is: that of the fit, or of the estimator to be fitted."""
        if "readout_" in vars(self):
            return self.readout_.kind
        return get_tags(self.estimator).estimator_type if hasattr(self.estimator, "__sklearn_tags__") else None

    @property
    def _scale(self) -> Floats:
        """√(2γ): differences times this are in lengthscales."""
        return np.sqrt(2.0 * self.gamma_)

    def save(self, path: str | PathLike[str]) -> None:
        """Write what was fitted to a file, which `lmgp.load` reads; without the estimator, from which nothing is read.

        Parameters
        ----------
        path : path
            See the method of the same name of `lmgp.ExactGPRegressor`. The loaded model has ``estimator=None``.
        """
        without = copy(self)
        without.estimator = None
        Fitted.save(without, path)

    @property
    def sizes(self) -> Sizes:
        """Numbers kept before and after."""
        check_is_fitted(self)
        learned = ("gamma_", "intercept_", "radius_", *self._arrays)
        return Sizes(self._n_exact, sum(np.size(getattr(self, name)) for name in learned))

    def predict(
        self, Z: ArrayLike, return_valid: bool = False
    ) -> NDArray[Any] | tuple[NDArray[Any], NDArray[np.bool_]]:
        """Approximate the model's predictions.

        Parameters
        ----------
        Z : array-like of shape (n, d)
        return_valid : bool, default=False
            Whether to also return which rows are within the bound.

        Returns
        -------
        predictions : ndarray of shape (n,) or (n, n_outputs)
            Labels, 1 and -1 for inliers and outliers, or the target.
        valid : ndarray of bool of shape (n,)
            Only with `return_valid`.

        Raises
        ------
        ValueError
            If Z is not finite and numeric, or its number of columns is not that of the support vectors.

        Warns
        -----
        ValidityWarning
            If rows are outside the bound.
        """
        outputs, valid = self._outputs(Z)
        predictions = self.readout_.predict(outputs)
        return (predictions, valid) if return_valid else predictions

    @_is("classifier", "regressor")
    def score(self, Z: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of the predictions, or R² of a regressor's.

        Parameters
        ----------
        Z : array-like of shape (n, d)
        y : array-like of shape (n,) or (n, n_outputs)
        sample_weight : array-like of shape (n,), optional

        Returns
        -------
        float
        """
        measure = accuracy_score if self._kind == "classifier" else r2_score
        return float(measure(y, self.readout_.predict(self._outputs(Z)[0]), sample_weight=sample_weight))

    @_is("classifier", "outlier_detector")
    def decision_function(self, Z: ArrayLike, return_valid: bool = False) -> Floats | tuple[Floats, NDArray[np.bool_]]:
        """Approximate the model's decision values; for classifiers and outlier detectors.

        Parameters
        ----------
        Z : array-like of shape (n, d)
        return_valid : bool, default=False
            Whether to also return which rows are within the bound.

        Returns
        -------
        values : ndarray of shape (n,), (n, n_classes) or (n, n_pairs)
        valid : ndarray of bool of shape (n,)
            Only with `return_valid`.

        Raises
        ------
        ValueError
            As `predict`.

        Warns
        -----
        ValidityWarning
            If rows are outside the bound.
        """
        outputs, valid = self._outputs(Z)
        values = self.readout_.decision(outputs)  # type: ignore[union-attr]  # not of a regressor
        return (values, valid) if return_valid else values

    @_is("outlier_detector")
    def score_samples(self, Z: ArrayLike) -> Floats:
        """Approximate the model's scores, decision values plus `offset_`; for outlier detectors.

        Parameters
        ----------
        Z : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
            Lower for rows that are less like those of the training.
        """
        return self._outputs(Z)[0][:, 0] + self.offset_

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes in ascending order, of a classifier."""
        readout = vars(self).get("readout_")
        if not isinstance(readout, Classification):
            raise AttributeError("Only fitted classifiers have classes.")
        return readout.classes

    @property
    def offset_(self) -> float:
        """The score at which decision values of an outlier detector are zero."""
        if not isinstance(self.readout_, OneClass):
            raise AttributeError("Only outlier detectors have an offset.")
        return -float(self.intercept_[0])

    def _outputs(self, Z: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
        check_is_fitted(self)
        rows = validated(self, Z, accept_sparse="csr", reset=False)
        n_rows = rows.shape[0]
        outputs, distances = np.empty((n_rows, len(self.intercept_))), np.empty(n_rows)
        # A row too far away for its square in float64 is infinitely far, which is what it should be.
        with np.errstate(over="ignore", under="ignore"):
            for part in chunks(n_rows, self._row_size()):
                dense = rows[part].toarray() if issparse(rows) else rows[part]
                outputs[part], distances[part] = self._evaluate(dense)
        outputs += self.intercept_
        valid = distances <= self.radius_ * (1.0 + ROUNDING)
        if not valid.all():
            warn(
                f"{np.count_nonzero(~valid)} of {len(valid)} rows are outside the bound within which {self._error}: "
                f"{self.radius_:.3g} lengthscales 1/√(2 gamma) from the centre; the farthest row is at "
                f"{distances.max():.3g}. {self._advice}",
                ValidityWarning,
            )
        return outputs, valid

    @abstractmethod
    def _expand(self, expansion: RBFExpansion) -> dict[str, Any]:
        """Return what is learned of an expansion.

        That is `radius_`, the arrays, what holds within the radius (`_error`), and how more rows come to be within it
        (`_advice`).
        """

    @abstractmethod
    def _row_size(self) -> int:
        """Return how many numbers are held for a row while it is evaluated."""

    @abstractmethod
    def _evaluate(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return outputs without the intercept, and distances to the centre in lengthscales."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        if hasattr(self.estimator, "__sklearn_tags__"):
            tags = get_tags(self.estimator)
        tags.estimator_type = self._kind
        tags.classifier_tags = ClassifierTags() if self._kind == "classifier" else None
        tags.regressor_tags = RegressorTags() if self._kind == "regressor" else None
        return tags


class QuadraticRBF(ApproximateRBF):
    """The quadratic approximation f(z) ≈ e^{−γ‖z‖²}(c + vᵀz + zᵀMz) + b of a fitted RBF model.

    Here z is the difference to the point of expansion. A prediction takes O(d²) operations for each output, whatever
    the number of support vectors; none of them is kept.

    Parameters
    ----------
    estimator : estimator, optional
        What `fit` clones, fits and approximates: SVC, NuSVC, SVR, NuSVR, OneClassSVM, KernelRidge,
        GaussianProcessRegressor or `lmgp.ExactGPRegressor` with a Gaussian kernel. The fitted clone is not kept. For a
        model that is fitted, or a file, there is `from_estimator`.
    center : {"origin", "mean"} or array-like of shape (d,), default="origin"
        What to expand around: the origin as in the paper, the mean of the support vectors, or a point, such as the mean
        of all training rows. The bound holds for more rows if this point lies amid the data.

    Attributes
    ----------
    c_ : ndarray of shape (n_outputs,)
        Σᵢ wᵢ with wᵢ = αᵢ e^{−γ‖xᵢ‖²}.
    v_ : ndarray of shape (n_outputs, d)
        2γ Σᵢ wᵢ xᵢ.
    M_ : ndarray of shape (n_outputs, d, d)
        2γ² Σᵢ wᵢ xᵢxᵢᵀ: half the Hessian at the point of expansion, without the factor e^{−γ‖z‖²}.
    expansion_point_ : ndarray of shape (d,)
        The point that `center` stands for.
    gamma_ : ndarray of shape () or (d,)
    intercept_ : ndarray of shape (n_outputs,)
        b.
    radius_ : float
        In lengthscales 1/√(2γ). Rows at most this far from the point of expansion are within the bound
        ‖x_M‖‖z‖ ≤ 1/(4γ), where x_M is the support vector farthest from it. There every term of the sum errs by less
        than 3.05%.
    classes_ : ndarray of shape (n_classes,)
        Of classifiers.
    n_features_in_ : int
        The number of input columns, d.
    sizes : Sizes
        Numbers kept before and after.

    Notes
    -----
    The bound is on each term, not on their sum. Where large terms of both signs cancel, the relative error of the sum
    can be larger, and labels near a decision boundary can change. The bound is a worst case: beyond it there is no
    guarantee, but the approximation is often as good.

    References
    ----------
    M. Claesen, F. De Smet, J. A. K. Suykens and B. De Moor, *Fast Prediction with SVM Models Containing RBF Kernels*,
    2014, eq. 3.7, 3.8 and 3.11.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from lmgp.rbf import QuadraticRBF, gamma_max
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(500, 3))
    >>> y = X[:, 0] ** 2 + X[:, 1] > 0
    >>> fast = QuadraticRBF(SVC(gamma=gamma_max(X), C=100)).fit(X, y)
    >>> fast.score(X, y) > 0.95, fast.sizes.ratio > 10
    (True, True)

    Of a model that is fitted:

    >>> model = SVC(gamma=gamma_max(X), C=100).fit(X, y)
    >>> labels, valid = QuadraticRBF.from_estimator(model).predict(X, return_valid=True)
    >>> bool(valid.all()), bool(np.mean(labels != model.predict(X)) < 0.01)
    (True, True)
    """

    _arrays = ("c_", "v_", "M_", "expansion_point_")

    def __init__(self, estimator: Any = None, *, center: str | ArrayLike = "origin") -> None:
        self.estimator = estimator
        self.center = center

    def _expand(self, expansion: RBFExpansion) -> dict[str, Any]:
        n_sv, n_inputs = expansion.vectors.shape
        n_outputs = len(expansion.intercept)
        point = resolve_center(self.center, expansion.vectors)
        c, v, M = np.zeros(n_outputs), np.zeros((n_outputs, n_inputs)), np.zeros((n_outputs, n_inputs, n_inputs))
        slope, farthest = 2.0 * np.asarray(expansion.gamma), 0.0
        for part in chunks(n_sv, n_inputs):
            shifted = expansion.vectors[part] - point
            squares = np.square(shifted * expansion.scale).sum(axis=1)
            farthest = max(farthest, float(squares.max()) ** 0.5)
            weights = expansion.coefficients[part] * np.exp(-squares / 2.0)[:, None]
            shifted *= slope
            c += weights.sum(axis=0)
            v += weights.T @ shifted
            for matrix, weight in zip(M, weights.T, strict=True):
                matrix += (0.5 * weight * shifted.T) @ shifted
        return {"c_": c, "v_": v, "M_": M, "expansion_point_": point, **_bound_of_one(farthest, 2, PAPER_TOLERANCE)}

    def _row_size(self) -> int:
        return self.n_features_in_ + len(self.intercept_)

    def _evaluate(self, rows: Floats) -> tuple[Floats, Floats]:
        shifted = rows - self.expansion_point_
        squares = np.square(shifted * self._scale).sum(axis=1)
        # Damped before they are squared: far from the centre the quadratic form alone overflows.
        root = np.exp(-squares / 4.0)[:, None]
        shifted *= root
        outputs = root * (root * self.c_ + shifted @ self.v_.T)
        for output, matrix in zip(outputs.T, self.M_, strict=True):
            output += np.einsum("ij,ij->i", shifted @ matrix, shifted)
        return outputs, np.sqrt(squares)


@dataclass(eq=False, repr=False)
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
    >>> from lmgp.rbf import TaylorRBF
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(400, 1))
    >>> model = SVR(gamma=1.0, epsilon=0.01).fit(X, np.sin(3 * X[:, 0]))
    >>> fast = TaylorRBF(SVR(gamma=1.0, epsilon=0.01), degree=12, threshold=1.0).fit(X, np.sin(3 * X[:, 0]))
    >>> predictions, valid = fast.predict(X, return_valid=True)
    >>> bool(valid.all()), bool(np.abs(predictions - model.predict(X)).max() < 1e-4)
    (True, True)
    """

    _arrays = ("weights_", "centers_")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **ApproximateRBF._parameter_constraints,
        "threshold": [Interval(Real, 0, None, closed="neither"), None],
        "tolerance": [Interval(Real, 0, 1, closed="neither")],
    }

    estimator: Any = None
    degree: int = 4
    _: KW_ONLY
    center: str | ArrayLike = "origin"
    threshold: float | None = None
    tolerance: float = PAPER_TOLERANCE

    @property
    def expansion_point_(self) -> Floats:
        """The only centre."""
        if len(self.centers_) > 1:
            raise AttributeError("There are many points of expansion: see centers_.")
        return self.centers_[0]

    def _expand(self, expansion: RBFExpansion) -> dict[str, Any]:
        degree, n_inputs = check_degree(self.degree), expansion.vectors.shape[1]
        n_monomials = comb(n_inputs + degree, degree)
        if n_monomials > MOST_MONOMIALS:
            raise InputError(
                f"Degree {degree} of {n_inputs} columns has {n_monomials:,} monomials, more than "
                f"{MOST_MONOMIALS:,}. Use a lower degree, or QuadraticRBF."
            )
        centers, bound = self._around(expansion, degree)
        weights = _weights(expansion, degree, centers)
        return {"_degree": degree, "weights_": weights, "centers_": centers, **bound}

    def _around(self, expansion: RBFExpansion, degree: int) -> tuple[Floats, dict[str, Any]]:
        """Return the centres, and what holds around them: the radius, the error and the advice."""
        scale = expansion.scale
        if self.threshold is None:
            centers = resolve_center(self.center, expansion.vectors)[None, :]
            farthest = float(np.linalg.norm((expansion.vectors - centers) * scale, axis=1).max())
            return centers, _bound_of_one(farthest, degree, self.tolerance)
        if not isinstance(self.center, str) or self.center != "origin":
            raise InputError(f"center={self.center!r} and threshold={self.threshold!r} cannot both be given.")
        return farthest_point_clustering(expansion.vectors * scale, self.threshold) / scale, {
            "radius_": largest_distance(degree, self.tolerance),
            "_error": f"each kernel value errs by less than {self.tolerance:.3g}",
            "_advice": "Use a smaller threshold or a higher degree; rows far from all support vectors stay outside.",
        }

    def _row_size(self) -> int:
        return int(self.weights_.shape[1])

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


def _bound_of_one(farthest: float, degree: int, tolerance: float) -> dict[str, Any]:
    """Return what holds around one centre, from which a support vector is at most `farthest` lengthscales away."""
    return {
        "radius_": largest_exponent(degree, tolerance) / farthest if farthest else math.inf,
        "_error": f"each term of the sum errs by less than {tolerance:.3%}",
        "_advice": "Expand around the data (center), train with gamma at most "
        f"gamma_max(X, center=..., degree={degree}), or use TaylorRBF with a higher degree or a threshold.",
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
    reach = gammainccinv(degree + 1, NEGLIGIBLE**2) ** 0.5
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
    """Return how the monomials are evaluated, which no model needs to keep."""
    return plan(total_degree(n_inputs, degree))
