"""What the training rows say about a fitted model: its likelihood, and predictions of each row without itself."""

import math
from abc import ABC, abstractmethod
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary
from zlib import crc32

import numpy as np
from numpy.typing import NDArray
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

_LEFT_OUT: WeakKeyDictionary[Any, LeaveOneOut] = WeakKeyDictionary()
_LOCK = Lock()


class Evidence(ABC):
    """Mixin of models: the likelihood and the leave-one-out predictions of the training rows."""

    kernel_: Any
    noise_variance_: Any
    center_: Any
    _fitted: Any

    def log_marginal_likelihood(self) -> float:
        """Return the log marginal likelihood of all training rows, at the fitted hyper-parameters.

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
            fitted to chunks.
        """
        check_is_fitted(self)
        return self._log_likelihood()

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
        """Return Vecchia's approximation."""
        rows, kernel = self._training_rows(), self.kernel_
        likelihood = VecchiaLikelihood(rows, POSITIONS, NEIGHBORS, np.random.default_rng(0))
        likelihood.look_for_neighbours(kernel.metric(rows.X.shape[1]))
        terms = likelihood.terms(kernel, np.append(kernel.theta, math.log(self.noise_variance_)))
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
