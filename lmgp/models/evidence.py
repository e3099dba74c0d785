"""What the training rows say about a fitted model: its likelihood, and predictions of each row without itself."""

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from lmgp.errors import InputError
from lmgp.inference.additive import rows_are_gone
from lmgp.inference.joint import NearErrors
from lmgp.inference.leave_one_out import LeaveOneOut
from lmgp.inference.trend import TrendFit
from lmgp.inference.vecchia import VecchiaLikelihood
from lmgp.kernels.base import Kernel
from lmgp.noise import Noise
from lmgp.validation import Rows

Floats = NDArray[np.float64]

# Of the likelihood of rows that no posterior has all of: the nearest earlier rows, and the positions it is summed over.
NEIGHBORS, POSITIONS = 64, 20_000

# Noise variances of rows are the model's where they differ by rounding alone, relatively.
SAME = 1e-12

_LEFT_OUT: WeakKeyDictionary[Any, LeaveOneOut] = WeakKeyDictionary()
_LOCK = Lock()


class Evidence(ABC):
    """Mixin of models: the likelihood and the leave-one-out predictions of the training rows."""

    kernel_: Any
    noise_variance_: Any
    center_: Any
    _fitted: Any

    def log_marginal_likelihood(self, theta: ArrayLike | None = None) -> float:
        """Return the log marginal likelihood of all training rows, at the fitted hyper-parameters or at others.

        Parameters
        ----------
        theta : array-like of shape (n_free,) or (n_free + 1,), optional
            Logarithms of the free parameters of the kernel, as ``kernel_.theta`` has them, and behind them that of the
            noise variance, which stays as it is if left out. The fitted ones if not given.

        Returns
        -------
        float
            log p(y) in nats, of y less its mean or less the estimated trend. That of the exact process of a Cholesky
            factor, of the features of `FeaturizedGPRegressor`, of the blocks of `ResidualGPRegressor`, and of up to
            2,048 modes. Of other models it is Vecchia's approximation, of each row given the nearest 64 rows before it
            in a random order; of more than 20,000 rows, an unbiased estimate of that from 20,000 of them.

        Raises
        ------
        InputError
            If it takes the training rows, and the model has not all of them: it was loaded or copied without them, or
            fitted to chunks. If `theta` has another length, or the features or blocks are made for one kernel.
        """
        check_is_fitted(self)
        if theta is None:
            return self._log_likelihood()
        return self._log_likelihood_at(*_parameters(self.kernel_, float(self.noise_variance_), theta))

    @property
    def loo_(self) -> LeaveOneOut:
        """Leave-one-out predictions of the training rows, see `lmgp.inference.leave_one_out.LeaveOneOut`.

        Each row is predicted from all others, at the fitted hyper-parameters, by closed forms. They are computed when
        they are first asked for, and kept.
        """
        if "_fitted" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no loo_: it is not fitted.")
        with _LOCK:
            found = _LEFT_OUT.get(self._fitted)
        if found is None:
            found = self._leave_one_out()
            with _LOCK:
                _LEFT_OUT[self._fitted] = found
        return found

    def _leave_one_out(self) -> LeaveOneOut:
        rows = self._training_rows()
        mean, variance = self._left_out(rows)
        noise = Noise(self.noise_variance_).of_rows(rows).numpy()
        trend = self._estimated_trend()
        level = self.center_ + (0.0 if trend is None else trend.values(rows.X))
        return LeaveOneOut(rows.y + level, mean + level, np.sqrt(variance + noise))

    def _near_errors(self) -> NearErrors:
        """Return the process whose correlations are those of predictions by several posteriors."""
        kernel: Kernel = self.kernel_
        return NearErrors(kernel, self._training_rows(), Noise(self.noise_variance_), self._estimated_trend())

    def _log_likelihood(self) -> float:
        return self._log_likelihood_at(self.kernel_, float(self.noise_variance_))

    def _log_likelihood_at(self, kernel: Kernel, noise_variance: float) -> float:
        """Return Vecchia's approximation, with the neighbours in the metric of the fitted kernel."""
        rows = self._training_rows()
        own = rows.noise_variances
        if own is not None and np.allclose(own, self.noise_variance_, rtol=SAME, atol=0.0):
            rows = replace(rows, noise_variances=None)  # which is that of all
        likelihood = VecchiaLikelihood(rows, POSITIONS, NEIGHBORS, np.random.default_rng(0))
        likelihood.look_for_neighbours(self.kernel_.metric(rows.X.shape[1]))
        terms = likelihood.terms(kernel, np.append(kernel.theta, math.log(noise_variance)))
        return float(terms.mean()) * len(rows.y)

    @abstractmethod
    def _estimated_trend(self) -> TrendFit | None: ...

    @abstractmethod
    def _training_rows(self) -> Rows:
        """Return the training rows, with y less the center and the estimated trend."""

    @abstractmethod
    def _left_out(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return means, without center and trend, and latent variances of the training rows without each of them."""


class KeptRows:
    """The training rows of a model whose files and copies go without them: no copy, but those that `fit` was given.

    Parameters
    ----------
    rows : Rows, optional
        With y less what the model's posterior has for its center.
    """

    def __init__(self, rows: Rows | None = None) -> None:
        self._rows, self._mark = rows, None if rows is None else _mark(rows)

    def get(self) -> Rows:
        """Return the rows.

        Raises
        ------
        InputError
            If there are none, or what they are a view of was changed since.
        """
        if self._rows is None:
            raise rows_are_gone()
        if _mark(self._rows) != self._mark:
            raise InputError(
                "The array that fit was given was changed since, and leave-one-out predictions are of the rows as they "
                "were. Fit again, or fit to a copy, X.copy()."
            )
        return self._rows

    def one(self, j: int) -> "KeptRows":
        """Return those of one of several targets."""
        if self._rows is None:
            return self
        other, rows = KeptRows(), self._rows
        other._rows = Rows(rows.X, np.ascontiguousarray(rows.y[:, j]), rows.weights, rows.noise_variances)
        other._mark = self._mark
        return other

    def __getstate__(self) -> dict[str, Any]:
        return {}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._rows, self._mark = None, None


def _parameters(kernel: Kernel, noise_variance: float, theta: ArrayLike) -> tuple[Kernel, float]:
    """Return the kernel and the noise variance of logarithms."""
    n_free = len(kernel.theta)
    try:
        values = np.asarray(theta, dtype=np.float64)
    except (TypeError, ValueError):
        values = np.full(1, np.nan)
    if values.shape not in ((n_free,), (n_free + 1,)) or not np.all(np.isfinite(values)):
        free = ", ".join(one.name for one in kernel.parameters if not one.fixed)
        raise InputError(
            f"theta must have the logarithms of the {n_free} free parameters of the kernel, {free}, as kernel_.theta "
            f"has them, or of these and the noise variance; got {theta!r}."
        )
    with np.errstate(over="ignore"):
        noise = noise_variance if len(values) == n_free else float(np.exp(values[-1]))
    return kernel.with_theta(values[:n_free]), noise


def made_for_one_kernel(model: Any, what: str) -> InputError:
    """Make the error of a model that has no likelihood at another kernel."""
    return InputError(
        f"log_marginal_likelihood of {type(model).__name__} is that of {what}, made for kernel_: there is none at "
        "another theta. Fit a model with kernel=model.kernel_.with_theta(theta), or use ExactGPRegressor or "
        "NearestNeighborsGPRegressor."
    )


def _mark(rows: Rows) -> tuple[int, ...]:
    """Return a checksum of what may be a view of a user's arrays."""
    arrays = (one for one in (rows.X, rows.weights, rows.noise_variances) if one is not None)
    # In the order in which they lie in memory: no copy of a data frame's columns.
    return tuple(crc32(np.ascontiguousarray(one if one.flags.c_contiguous else one.T).data) for one in arrays)


def less_trend(rows: Rows, trend: TrendFit | None) -> Rows:
    """Return rows with y, residuals of the least-squares trend, less the estimated one."""
    if trend is None:
        return rows
    return Rows(rows.X, rows.y - trend.changes(rows.X), rows.weights, rows.noise_variances)
