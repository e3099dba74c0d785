"""What all approximations of a kernel expansion have in common: prediction, and a check of every row."""

import warnings
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, RegressorTags, Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from lmgp.errors import ValidityWarning
from lmgp.memory import chunks
from lmgp.rbf.estimators import rbf_expansion
from lmgp.rbf.expansion import RBFExpansion, has_decision
from lmgp.rbf.readouts import Classification, Readout, Regression

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


class ApproximateRBF(BaseEstimator, ABC):
    """An approximation of the outputs of a fitted model, which keeps none of its support vectors.

    Subclasses implement what is abstract here; `_expand` sets `radius_`, `_error`, which says what holds within it, and
    `_advice`, how more rows come to be within it.
    """

    readout: Readout
    n_features_in_: int
    gamma_: Floats
    intercept_: Floats
    radius_: float
    _error: str
    _advice: str

    def fit(self, model: Any) -> Self:
        """Approximate a fitted model; `from_estimator` does this and the constructor in one call.

        Parameters
        ----------
        model
            See `lmgp.rbf.estimators.rbf_expansion`.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If the model is not supported, or a parameter does not fit it.
        """
        self._validate_params()
        expansion = rbf_expansion(model)
        self.readout = expansion.readout
        self.n_features_in_ = expansion.vectors.shape[1]
        for name in ("classes_", "feature_names_in_"):  # of a model before
            self.__dict__.pop(name, None)
        if isinstance(self.readout, Classification):
            self.classes_ = self.readout.classes
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = model.feature_names_in_
        # Copies: nothing of the model stays reachable from here.
        self.gamma_, self.intercept_ = np.array(expansion.gamma, dtype=np.float64), expansion.intercept.copy()
        self._expand(expansion)
        self._n_exact = expansion.n_numbers
        return self

    @property
    def sizes(self) -> Sizes:
        """Numbers kept before and after."""
        check_is_fitted(self)
        return Sizes(self._n_exact, 1 + sum(array.size for array in (self.gamma_, self.intercept_, *self._arrays())))

    def predict(
        self, Z: ArrayLike, return_valid: bool = False
    ) -> NDArray[Any] | tuple[NDArray[Any], NDArray[np.bool_]]:
        """Predict what the model predicts, approximately.

        Parameters
        ----------
        Z : array-like of shape (n, d)
        return_valid : bool, default=False
            Whether to return as well which rows are within the bound.

        Returns
        -------
        predictions : ndarray of shape (n,) or (n, n_outputs)
            Labels, 1 and -1 for inliers and outliers, or the target.
        valid : ndarray of bool of shape (n,)
            Only with `return_valid`.

        Raises
        ------
        ValueError
            If Z is not finite and numeric, or has another number of columns than the support vectors.

        Warns
        -----
        ValidityWarning
            If rows are outside the bound.
        """
        outputs, valid = self._outputs(Z)
        predictions = self.readout.predict(outputs)
        return (predictions, valid) if return_valid else predictions

    @available_if(has_decision)
    def decision_function(self, Z: ArrayLike, return_valid: bool = False) -> Floats | tuple[Floats, NDArray[np.bool_]]:
        """Return the model's decision values, approximately; for classifiers and outlier detectors.

        Parameters
        ----------
        Z : array-like of shape (n, d)
        return_valid : bool, default=False
            Whether to return as well which rows are within the bound.

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

    def _outputs(self, Z: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
        check_is_fitted(self)
        rows = validate_data(self, Z, dtype=np.float64, reset=False)
        outputs, distances = np.empty((len(rows), len(self.intercept_))), np.empty(len(rows))
        # A row too far away for its square in float64 is infinitely far, which is what it should be.
        with np.errstate(over="ignore", under="ignore"):
            for part in chunks(len(rows), self._row_size):
                outputs[part], distances[part] = self._evaluate(rows[part])
        outputs += self.intercept_
        valid = distances <= self.radius_ * (1.0 + ROUNDING)
        if not valid.all():
            warnings.warn(
                f"{np.count_nonzero(~valid)} of {len(valid)} rows are outside the bound within which {self._error}: "
                f"{self.radius_:.3g} lengthscales 1/√(2 gamma) from the centre; the farthest row is at "
                f"{distances.max():.3g}. {self._advice}",
                ValidityWarning,
                stacklevel=3,
            )
        return outputs, valid

    @property
    def _scale(self) -> Floats:
        return np.sqrt(2.0 * self.gamma_)

    @property
    @abstractmethod
    def _row_size(self) -> int:
        """How many numbers are held for a row while it is evaluated."""

    @abstractmethod
    def _arrays(self) -> tuple[Floats, ...]:
        """Return what is kept, beside gamma, the intercept and the radius."""

    @abstractmethod
    def _expand(self, expansion: RBFExpansion) -> None:
        """Set what the subclass predicts with, and the radius."""

    @abstractmethod
    def _evaluate(self, rows: Floats) -> tuple[Floats, Floats]:
        """Return outputs without the intercept, and distances to the centre in lengthscales."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if hasattr(self, "readout"):
            tags.estimator_type = self.readout.kind
            tags.classifier_tags = ClassifierTags() if self.readout.kind == "classifier" else None
            tags.regressor_tags = RegressorTags() if self.readout.kind == "regressor" else None
        return tags
