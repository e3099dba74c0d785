"""What all Gaussian-process regressors share."""

from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from lmgp.errors import InputError
from lmgp.inference.learning import Hyperparameters, maximize_likelihood
from lmgp.kernels.stationary import GaussianKernel
from lmgp.validation import RandomState, Rows, check_rows, generator, spawn

Floats = NDArray[np.float64]


class GPRegressor(RegressorMixin, BaseEstimator, ABC):
    """Gaussian-process regression with a Gaussian kernel: y = f(x) + noise, y centred by its training mean.

    Subclasses implement `_fit` and `_predict`, and add their parameters.

    Parameters
    ----------
    kernel : GaussianKernel, optional
        Learned by maximum marginal likelihood of the exact GP if not given.
    noise_variance : float, optional
        In squared units of y; learned likewise if not given.
    ard : bool, default=False
        Whether a learned kernel has one lengthscale a column.
    max_rows : int, default=2000
        The largest number of rows from which hyper-parameters are learned; a random sample of this size of more.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seeds everything that has no seed of its own.

    Attributes
    ----------
    kernel_ : GaussianKernel
    noise_variance_ : float
    center_ : float
        The mean of y, weighted by `sample_weight`.
    n_features_in_ : int
        The number of input columns, d.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [GaussianKernel, None],
        "noise_variance": [Interval(Real, 0, None, closed="neither"), None],
        "ard": ["boolean"],
        "max_rows": [Interval(Integral, 2, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
    }

    kernel: GaussianKernel | None
    noise_variance: float | None
    ard: bool
    max_rows: int
    random_state: RandomState

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
    ) -> Self:
        """Fit the model to training rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            A weight w stands for w repetitions of the row; zero for its absence. Repetitions agree to the last digit,
            and so a learned noise variance becomes small: for weights that mean precision, give `noise_variances`.
        noise_variances : array-like of shape (n,), optional
            A noise variance for each row, in squared units of y, in place of the common one. The latter then is only
            the noise of new rows; where it is not given, it is the weighted mean of these.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X or y is not finite and numeric, their lengths differ, there are fewer than 2 rows, or a parameter is
            out of its range. `lmgp.errors.InputError`, which is one, if the data or the kernel do not allow a fit.
        """
        self._validate_params()
        inputs, target = validate_data(self, X, y, dtype=np.float64, y_numeric=True, ensure_min_samples=2)
        # Objects and strings become numbers only here: a missing value among them has not been seen yet.
        target = check_array(target, dtype=np.float64, ensure_2d=False, input_name="y")
        rows = check_rows(inputs, target, sample_weight, noise_variances)
        if self.kernel is not None:
            self.kernel.checked(inputs.shape[1])
        learns_noise = self.noise_variance is None and rows.noise_variances is None
        if (self.kernel is None or learns_noise) and np.ptp(rows.y) == 0:
            raise InputError(
                f"y is constant (all {rows.y[0]:g}): no hyper-parameters can be learned from it. Check the target, or "
                "give both kernel and noise_variance."
            )
        self.center_ = rows.mean
        rows = Rows(rows.X, rows.y - self.center_, rows.weights, rows.noise_variances)
        # Two streams, so that a map is the same whether the hyper-parameters were learned or given.
        learning, drawing = spawn(generator(self.random_state), 2)
        self._learn(rows, learning)
        self._fit(rows, drawing)
        return self

    def predict(
        self, X: ArrayLike, return_std: bool = False, include_noise: bool = False, return_error: bool = False
    ) -> Floats | tuple[Floats, ...]:
        """Predict at new rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
        return_std : bool, default=False
            Whether to return the standard deviation as well.
        include_noise : bool, default=False
            Whether that is of a new observation y instead of the latent function f.
        return_error : bool, default=False
            Whether to return an estimate of the divergence from the exact prediction as well. For models with
            `TaylorFeatures`; zero for the exact one.

        Returns
        -------
        mean : ndarray of shape (n,)
            In units of y.
        std : ndarray of shape (n,)
            In units of y; only with `return_std`.
        error : ndarray of shape (n,)
            The estimated KL(this prediction ‖ the exact GP's), with noise, in nats; only with `return_error`. An
            expectation, best averaged over rows: see the notes of `lmgp.inference.truncation.expected_divergence`.

        Raises
        ------
        ValueError
            If X is not finite and numeric, or has another number of columns than the training rows.
            `lmgp.errors.InputError`, which is one, if there is no such estimate for the model's features.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        # First, so that a model without one says so before it predicts.
        error = self._expected_divergence(rows) if return_error else None
        mean, variance = self._predict(rows)
        result = [mean + self.center_]
        if return_std:
            result.append(np.sqrt(variance + self.noise_variance_ if include_noise else variance))
        if error is not None:
            result.append(error)
        return result[0] if len(result) == 1 else tuple(result)

    def _maximize(self, rows: Rows, rng: np.random.Generator) -> Hyperparameters:
        return maximize_likelihood(
            rows,
            kernel=None if self.kernel is None else clone(self.kernel),
            noise_variance=self.noise_variance,
            ard=self.ard,
            max_learning_rows=self.max_rows,
            rng=rng,
        )

    def _learn(self, rows: Rows, rng: np.random.Generator) -> None:
        """Set ``kernel_`` and ``noise_variance_``."""
        if self.kernel is not None and self.noise_variance is not None:
            self.kernel_, self.noise_variance_ = clone(self.kernel), float(self.noise_variance)
            return
        learned = self._maximize(rows, rng)
        self.kernel_, self.noise_variance_ = learned.kernel, learned.noise_variance

    @abstractmethod
    def _fit(self, rows: Rows, rng: np.random.Generator) -> None:
        """Fit to checked rows with centred y, at given hyper-parameters."""

    @abstractmethod
    def _expected_divergence(self, X: Floats) -> Floats:
        """Return an estimate of the divergence from the exact prediction at each row."""

    @abstractmethod
    def _predict(self, X: Floats) -> tuple[Floats, Floats]:
        """Return the mean, without the centre, and the variance of the latent function."""
