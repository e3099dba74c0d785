"""What all approximations of a kernel expansion share: prediction, and a check of every row."""

import warnings
from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import ClassifierTags, RegressorTags, Tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from lmgp.errors import ValidityWarning
from lmgp.fitted import Fitted, OfFit
from lmgp.memory import chunks
from lmgp.rbf.estimators import rbf_expansion
from lmgp.rbf.expansion import RBFExpansion, has_decision
from lmgp.rbf.readouts import Classification, Readout, Regression
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


class ApproximateRBF(Fitted, BaseEstimator, ABC):
    """An approximation of the outputs of a fitted model, which keeps none of its support vectors.

    Subclasses implement `_expand`.
    """

    readout = OfFit[Readout]()
    n_features_in_ = OfFit[int]()
    feature_names_in_ = OfFit[NDArray[Any]]()
    classes_ = OfFit[NDArray[Any]]()
    gamma_ = OfFit[Floats]()
    intercept_ = OfFit[Floats]()
    radius_ = OfFit[float]()

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

    @available_if(has_decision)
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

    def _outputs(self, Z: ArrayLike) -> tuple[Floats, NDArray[np.bool_]]:
        check_is_fitted(self)
        fit: ApproximationFit = self._fitted
        rows = validated(self, Z, reset=False)
        outputs, distances = np.empty((len(rows), len(fit.intercept))), np.empty(len(rows))
        # A row too far away for its square in float64 is infinitely far, which is what it should be.
        with np.errstate(over="ignore", under="ignore"):
            for part in chunks(len(rows), fit.row_size):
                outputs[part], distances[part] = fit.evaluate(rows[part])
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
        if hasattr(self, "readout"):
            tags.estimator_type = self.readout.kind
            tags.classifier_tags = ClassifierTags() if self.readout.kind == "classifier" else None
            tags.regressor_tags = RegressorTags() if self.readout.kind == "regressor" else None
        return tags
