"""A fitted model as a weighted sum of Gaussian kernels at support vectors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array

from lmgp.errors import InputError
from lmgp.kernels.stationary import GaussianKernel
from lmgp.memory import chunks
from lmgp.rbf.readouts import Readout, Regression

Floats = NDArray[np.float64]

# Bytes of one chunk's kernel matrix, between rows and all support vectors.
KERNEL_BYTES = 64 * 2**20


def has_decision(model: Any) -> bool:
    """Say whether a model has decision values: classifiers and outlier detectors do, regressors do not."""
    return hasattr(model.readout, "decision")


@dataclass(frozen=True, eq=False)
class RBFExpansion:
    """The outputs f(z) = Σᵢ αᵢ exp(−Σⱼ γⱼ (xᵢⱼ − zⱼ)²) + b, and how they become predictions.

    `lmgp.rbf.estimators.rbf_expansion` makes one of a fitted model; the constructor, of the numbers of any other model.

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
        What the outputs mean (`lmgp.rbf.readouts`).

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
    >>> from lmgp.rbf.expansion import RBFExpansion
    >>> bump = RBFExpansion([[0.0], [2.0]], [[1.0], [1.0]], [-1.0], gamma=0.5)
    >>> bump.predict([[0.0], [2.0]]).round(4)
    array([0.1353, 0.1353])
    """

    vectors: Floats
    coefficients: Floats
    intercept: Floats
    gamma: float | Floats
    readout: Readout = Regression()  # noqa: RUF009 - frozen

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
        if self.readout.n_outputs() not in (None, n_outputs):
            raise InputError(f"{self.readout} needs {self.readout.n_outputs()} output(s); got {n_outputs}.")
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

    @available_if(has_decision)
    def decision_function(self, Z: ArrayLike) -> Floats:
        """Return the model's decision values; for classifiers and outlier detectors.

        Parameters
        ----------
        Z : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,), (n, n_classes) or (n, n_pairs)
        """
        assert not isinstance(self.readout, Regression)  # for the type checker: there is no such method then
        return self.readout.decision(self.outputs(Z))
