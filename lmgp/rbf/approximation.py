"""What all approximations of a kernel expansion share: prediction, and a check of every row."""

import warnings
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from os import PathLike
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import ClassifierTags, RegressorTags, Tags, get_tags
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from lmgp.columns import refuse_other_than_numbers
from lmgp.errors import InputError, ValidityWarning
from lmgp.fitted import Fitted, OfFit, unchanged_on_failure
from lmgp.memory import chunks
from lmgp.rbf.estimators import check_kind, rbf_expansion
from lmgp.rbf.expansion import RBFExpansion, has_decision
from lmgp.rbf.readouts import Classification, OneClass, Readout, Regression
from lmgp.validation import validated

Floats = NDArray[np.float64]

# A row at the bound is within it, whatever its norm is rounded to: so are all rows of a model trained at gamma_max.
ROUNDING = 1e-12


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


@dataclass(frozen=True, eq=False, kw_only=True)
class ApproximationFit(ABC):
    """What an approximation learns in `fit`; none of its arrays is shared with the model.

    Attributes
    ----------
    readout : Regression, OneClass or Classification
        What the outputs mean.
    gamma : ndarray of shape () or (d,)
    intercept : ndarray of shape (n_outputs,)
    n_features_in : int
        The number of input columns, d.
    names : ndarray of shape (d,) or None
        Of the columns, where the model knows them.
    n_exact : int
        Numbers that a prediction of the model reads.
    radius : float
        In lengthscales: how far from its centre a row may be for the bound to hold.
    error, advice : str
        What holds within the radius, and how more rows come to be within it.
    """

    readout: Readout
    gamma: Floats
    intercept: Floats
    n_features_in: int
    names: NDArray[Any] | None
    n_exact: int
    radius: float
    error: str
    advice: str

    @property
    def classes(self) -> NDArray[Any]:
        """The classes in ascending order, of a classifier."""
        if not isinstance(self.readout, Classification):
            raise AttributeError("Only classifiers have classes.")
        return self.readout.classes

    @property
    def feature_names_in(self) -> NDArray[Any]:
        """The names of the columns, where the model knows them."""
        if self.names is None:
            raise AttributeError("The model was fitted to columns without names.")
        return self.names

    @property
    def scale(self) -> Floats:
        """√(2γ): differences times this are in lengthscales."""
        return np.sqrt(2.0 * self.gamma)

    @property
    @abstractmethod
    def row_size(self) -> int:
        """How many numbers are held for a row while it is evaluated."""

    @property
    @abstractmethod
    def arrays(self) -> tuple[Floats, ...]:
        """What is kept beside gamma, the intercept and the radius."""

    @abstractmethod
    def evaluate(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return outputs without the intercept, and distances to the centre in lengthscales."""


def template(model: Any) -> Any:
    """Return a clone of a fitted estimator, which has learned nothing; None of a file or an expansion."""
    return clone(model) if isinstance(model, BaseEstimator) else None


def _kind(approximation: "ApproximateRBF") -> str | None:
    """Say what the approximated model is: that of the fit, or of the estimator to be fitted."""
    if hasattr(approximation, "readout"):
        return approximation.readout.kind
    kind: str | None = get_tags(approximation.estimator).estimator_type if _has_tags(approximation) else None
    return kind


def _has_tags(approximation: "ApproximateRBF") -> bool:
    return hasattr(approximation.estimator, "__sklearn_tags__")


def _decides(approximation: "ApproximateRBF") -> bool:
    if hasattr(approximation, "readout"):
        return has_decision(approximation)
    return hasattr(approximation.estimator, "decision_function")


def _detects(approximation: "ApproximateRBF") -> bool:
    return _kind(approximation) == "outlier_detector"


def _scores(approximation: "ApproximateRBF") -> bool:
    return _kind(approximation) in ("classifier", "regressor")


class ApproximateRBF(Fitted, MetaEstimatorMixin, BaseEstimator, ABC):
    """An approximation of the outputs of a fitted model, which keeps none of its support vectors.

    Subclasses implement `_expand`.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "center": [str, "array-like"],
    }

    estimator: Any

    readout = OfFit[Readout]()
    n_features_in_ = OfFit[int]()
    feature_names_in_ = OfFit[NDArray[Any]]()
    classes_ = OfFit[NDArray[Any]]()
    gamma_ = OfFit[Floats]()
    intercept_ = OfFit[Floats]()
    radius_ = OfFit[float]()

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
        with unchanged_on_failure(self):
            return self._approximate(clone(self.estimator).fit(X, y, **fit_params))

    def get_metadata_routing(self) -> MetadataRouter:
        """Return where metadata such as ``sample_weight`` go: to `fit` of the estimator."""
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=self).add(estimator=self.estimator, method_mapping=mapping)

    def _approximate(self, model: Any) -> Self:
        """Approximate a fitted model."""
        self._validate_params()
        expansion = rbf_expansion(model)
        taken_over = {
            "readout": expansion.readout,
            "gamma": np.array(expansion.gamma, dtype=np.float64),
            "intercept": expansion.intercept.copy(),
            "n_features_in": expansion.vectors.shape[1],
            "names": copy(getattr(model, "feature_names_in_", None)),
            "n_exact": expansion.n_numbers,
        }
        self._fitted = self._expand(expansion, taken_over)
        return self

    def save(self, path: str | PathLike[str]) -> None:
        """Write what was fitted to a file, which `lmgp.load` reads; without the estimator, from which nothing is read.

        Parameters
        ----------
        path : path
            See `lmgp.saving.files.Savable.save`. The loaded model has ``estimator=None``.
        """
        check_is_fitted(self)
        without = copy(self)
        without.estimator = None
        Fitted.save(without, path)

    @property
    def sizes(self) -> Sizes:
        """Numbers kept before and after."""
        check_is_fitted(self)
        fit: ApproximationFit = self._fitted
        return Sizes(fit.n_exact, 1 + sum(array.size for array in (fit.gamma, fit.intercept, *fit.arrays)))

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
        predictions = self.readout.predict(outputs)
        return (predictions, valid) if return_valid else predictions

    @available_if(_scores)
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
        measure = accuracy_score if _kind(self) == "classifier" else r2_score
        return float(measure(y, self.readout.predict(self._outputs(Z)[0]), sample_weight=sample_weight))

    @available_if(_decides)
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
        assert not isinstance(self.readout, Regression)  # for the type checker: there is no such method then
        values = self.readout.decision(outputs)
        return (values, valid) if return_valid else values

    @available_if(_detects)
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
    def offset_(self) -> float:
        """The score at which decision values of an outlier detector are zero."""
        if not isinstance(self.readout, OneClass):
            raise AttributeError("Only outlier detectors have an offset.")
        return -float(self.intercept_[0])

    def _outputs(self, Z: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
        check_is_fitted(self)
        fit: ApproximationFit = self._fitted
        rows = validated(self, Z, accept_sparse="csr", reset=False)
        n_rows = rows.shape[0]
        outputs, distances = np.empty((n_rows, len(fit.intercept))), np.empty(n_rows)
        # A row too far away for its square in float64 is infinitely far, which is what it should be.
        with np.errstate(over="ignore", under="ignore"):
            for part in chunks(n_rows, fit.row_size):
                some = rows[part].toarray() if issparse(rows) else rows[part]
                outputs[part], distances[part] = fit.evaluate(some)
        outputs += fit.intercept
        valid = distances <= fit.radius * (1.0 + ROUNDING)
        if not valid.all():
            warnings.warn(
                f"{np.count_nonzero(~valid)} of {len(valid)} rows are outside the bound within which {fit.error}: "
                f"{fit.radius:.3g} lengthscales 1/√(2 gamma) from the centre; the farthest row is at "
                f"{distances.max():.3g}. {fit.advice}",
                ValidityWarning,
                stacklevel=3,
            )
        return outputs, valid

    @abstractmethod
    def _expand(self, expansion: RBFExpansion, taken_over: dict[str, Any]) -> ApproximationFit:
        """Return the record of an expansion; `taken_over` are its fields up to the radius."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        kind = tags.estimator_type = _kind(self)
        tags.classifier_tags = ClassifierTags() if kind == "classifier" else None
        tags.regressor_tags = RegressorTags() if kind == "regressor" else None
        tags.input_tags.sparse = True
        if _has_tags(self):
            of_estimator = get_tags(self.estimator)
            tags.target_tags, tags.input_tags.sparse = of_estimator.target_tags, of_estimator.input_tags.sparse
        return tags
