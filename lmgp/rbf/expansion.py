"""A fitted model as a weighted sum of Gaussian kernels at support vectors, and what its outputs mean."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if

# scikit-learn has no public name for this function: its own SVC turns the values of pairs into those of classes by it.
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_array

from lmgp.data import Floats
from lmgp.errors import InputError
from lmgp.kernels.stationary import GaussianKernel
from lmgp.utils.memory import chunks

# Bytes of one chunk's kernel matrix, between rows and all support vectors.
KERNEL_BYTES = 64 * 2**20


@dataclass(frozen=True)
class Regression:
    """The outputs are the predictions.

    Attributes
    ----------
    one_dimensional : bool, default=True
        Whether the predictions for the only output have shape (n,), not (n, 1).
    """

    one_dimensional: bool = True
    kind: ClassVar[str] = "regressor"

    @property
    def n_outputs(self) -> int | None:
        """How many outputs there must be; None for any number."""
        return 1 if self.one_dimensional else None

    def predict(self, outputs: Floats) -> Floats:
        """Return predictions, shape (n,) or (n, n_outputs)."""
        return outputs[:, 0] if self.one_dimensional else outputs


@dataclass(frozen=True)
class OneClass:
    """The only output is positive for inliers: rows like those of the training."""

    kind: ClassVar[str] = "outlier_detector"
    n_outputs: ClassVar[int] = 1

    def decision(self, outputs: Floats) -> Floats:
        """Return the output, shape (n,)."""
        return outputs[:, 0]

    def predict(self, outputs: Floats) -> NDArray[Any]:
        """Return 1 for inliers and -1 for outliers, shape (n,)."""
        return np.where(outputs[:, 0] > 0, 1, -1)


@dataclass(frozen=True, eq=False)
class Classification:
    """One output for each pair of classes, as in LIBSVM: positive for the first of the two.

    Attributes
    ----------
    labels : ndarray of shape (n_classes,)
        In the model's own order. The pairs are (0, 1), (0, 2), …, (1, 2), …. Where classes have equally many votes,
        the first of them is predicted.
    shape : {"ovr", "ovo"}, default="ovr"
        Whether decision values of more than two classes are one a class, or one a pair.
    break_ties : bool, default=False
        With more than two classes, whether to predict that of the largest decision value, not that of most votes.
    """

    labels: NDArray[Any]
    shape: Literal["ovr", "ovo"] = "ovr"
    break_ties: bool = False
    kind: ClassVar[str] = "classifier"

    @property
    def classes(self) -> NDArray[Any]:
        """The labels in scikit-learn's order, which is ascending."""
        return np.sort(self.labels)

    @property
    def n_outputs(self) -> int:
        """How many outputs there must be."""
        return len(self.labels) * (len(self.labels) - 1) // 2

    def decision(self, outputs: Floats) -> Floats:
        """Return decision values by scikit-learn's conventions, with the classes in ascending order.

        Parameters
        ----------
        outputs : ndarray of shape (n, n_pairs)

        Returns
        -------
        ndarray of shape (n,), (n, n_classes) or (n, n_pairs)
            With two classes, positive for the second; with more, see `shape`.
        """
        n_classes = len(self.labels)
        first, second = np.triu_indices(n_classes, 1)
        column = np.empty((n_classes, n_classes), dtype=np.intp)
        column[first, second] = column[second, first] = np.arange(len(first))
        order = np.argsort(self.labels)
        left, right = order[first], order[second]
        ordered = outputs[:, column[left, right]] * np.where(left < right, 1.0, -1.0)
        if n_classes == 2:
            return -ordered[:, 0]
        return ordered if self.shape == "ovo" else _ovr_decision_function(ordered < 0, -ordered, n_classes)

    def predict(self, outputs: Floats) -> NDArray[Any]:
        """Return labels, shape (n,)."""
        n_classes = len(self.labels)
        if self.break_ties and n_classes > 2:
            return self.classes[np.argmax(self.decision(outputs), axis=1)]
        first, second = np.triu_indices(n_classes, 1)
        winners = np.where(outputs > 0, first, second)
        votes = (winners[:, :, None] == np.arange(n_classes)).sum(axis=1)
        return self.labels[np.argmax(votes, axis=1)]


Readout = Regression | OneClass | Classification


def one_vs_one(dual: Floats, counts: NDArray[np.int64]) -> Floats:
    """Write LIBSVM's dual coefficients as one column a pair of classes.

    Parameters
    ----------
    dual : ndarray of shape (n_classes - 1, n_sv)
        For a support vector of class i, the coefficients against the other classes in their order.
    counts : ndarray of shape (n_classes,)
        The number of support vectors of each class; they are sorted by class.

    Returns
    -------
    ndarray of shape (n_sv, n_classes * (n_classes - 1) / 2)
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    first, second = (classes[:, None] for classes in np.triu_indices(len(counts), 1))
    other = np.where(owner == second, dual[first[:, 0]], 0.0)
    return np.where(owner == first, dual[second[:, 0] - 1], other).T


@dataclass(frozen=True, eq=False)
class RBFExpansion:
    """The outputs f(z) = Σᵢ αᵢ exp(−Σⱼ γⱼ (xᵢⱼ − zⱼ)²) + b, and how they become predictions.

    `lmgp.rbf.rbf_expansion` makes one of a fitted model; the constructor, of the numbers of any other model.

    Attributes
    ----------
    vectors : ndarray of shape (n_sv, d)
        The support vectors xᵢ, at least one.
    coefficients : ndarray of shape (n_sv, n_outputs)
        αᵢ with its sign, for each output.
    intercept : ndarray of shape (n_outputs,)
        b.
    gamma : float or ndarray of shape (d,)
        Positive, in one over squared units of the inputs: one for all columns, or one a column.
    readout : Regression, OneClass or Classification, default=Regression()
        What the outputs mean.

    Raises
    ------
    InputError
        If the shapes do not match, a number is not finite, or gamma is not positive.

    References
    ----------
    M. Claesen, F. De Smet, J. A. K. Suykens and B. De Moor, *Fast Prediction with SVM Models Containing RBF Kernels*,
    2014, eq. 3.2.

    Examples
    --------
    >>> from lmgp.rbf import RBFExpansion
    >>> bump = RBFExpansion([[0.0], [2.0]], [[1.0], [1.0]], [-1.0], gamma=0.5)
    >>> bump.predict([[0.0], [2.0]]).round(4)
    array([0.1353, 0.1353])
    """

    vectors: Floats
    coefficients: Floats
    intercept: Floats
    gamma: float | Floats
    readout: Readout = Regression()

    def __post_init__(self) -> None:
        try:
            for name, n_dimensions in (("vectors", 2), ("coefficients", 2), ("intercept", 1)):
                given = np.asarray(getattr(self, name))
                if given.ndim != n_dimensions or not given.size:
                    raise InputError(
                        f"{name} must be a non-empty array of {n_dimensions} dimension(s), for at least one support "
                        f"vector and one output; got shape {given.shape}."
                    )
                checked = check_array(given, dtype=np.float64, ensure_2d=False, input_name=name)
                object.__setattr__(self, name, checked)
        except (TypeError, ValueError) as error:
            raise InputError(str(error)) from error
        n_sv, n_inputs = self.vectors.shape
        n_outputs = len(self.intercept)
        if self.coefficients.shape != (n_sv, n_outputs):
            raise InputError(
                f"coefficients must be one a support vector and output, shape ({n_sv}, {n_outputs}) for these vectors "
                f"and this intercept; got shape {self.coefficients.shape}."
            )
        if self.readout.n_outputs not in (None, n_outputs):
            raise InputError(f"{self.readout} needs {self.readout.n_outputs} output(s); got {n_outputs}.")
        gamma = np.asarray(self.gamma)
        if gamma.dtype.kind not in "iuf" or gamma.shape not in ((), (n_inputs,)):
            raise InputError(f"gamma must be one number or one a column, shape ({n_inputs},); got {self.gamma!r}.")
        if not (np.all(np.isfinite(gamma)) and np.all(gamma > 0)):
            raise InputError(f"gamma must be positive and finite; got {self.gamma!r}.")

    @property
    def scale(self) -> Floats:
        """√(2γ): differences times this are in lengthscales of the kernel exp(−‖x − z‖²/2). Shape () or (d,)."""
        return np.sqrt(2.0 * np.asarray(self.gamma, dtype=np.float64))

    @property
    def n_numbers(self) -> int:
        """Numbers that a prediction reads: support vectors, coefficients that are not zero, and intercepts.

        In one-vs-one classification most coefficients are zero: those of all pairs without the support vector's class.
        """
        return self.vectors.size + int(np.count_nonzero(self.coefficients)) + self.intercept.size

    def outputs(self, Z: ArrayLike) -> Floats:
        """Evaluate f exactly.

        Parameters
        ----------
        Z : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n_outputs)

        Raises
        ------
        ValueError
            If Z is not finite and numeric. `InputError`, which is one, if it has another number of columns.
        """
        rows = check_array(Z, dtype=np.float64, input_name="Z")
        if rows.shape[1] != self.vectors.shape[1]:
            raise InputError(f"Z has {rows.shape[1]} columns; the support vectors have {self.vectors.shape[1]}.")
        kernel = GaussianKernel(1.0 / self.scale)
        values = np.empty((len(rows), len(self.intercept)))
        for part in chunks(len(rows), len(self.vectors), KERNEL_BYTES):
            values[part] = kernel(rows[part], self.vectors) @ self.coefficients
        return values + self.intercept

    def predict(self, Z: ArrayLike) -> NDArray[Any]:
        """Predict what the model predicts.

        Parameters
        ----------
        Z : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,) or (n, n_outputs)
        """
        return self.readout.predict(self.outputs(Z))

    @available_if(lambda expansion: not isinstance(expansion.readout, Regression))
    def decision_function(self, Z: ArrayLike) -> Floats:
        """Return the model's decision values; for classifiers and outlier detectors.

        Parameters
        ----------
        Z : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,), (n, n_classes) or (n, n_pairs)
        """
        return self.readout.decision(self.outputs(Z))  # type: ignore[union-attr]  # not of a regressor
