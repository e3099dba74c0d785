"""What fitted Gaussian processes predict: means, variances and covariances, intervals, probabilities and draws."""

import math
import warnings
from abc import abstractmethod
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, ndtri
from sklearn.utils.validation import check_array, check_is_fitted
from tqdm import tqdm

from lmgp.columns import dask_kind, refuse_what_is_no_table
from lmgp.errors import ImplausibleMeanWarning, InputError
from lmgp.memory import chunks
from lmgp.models.evidence import Evidence
from lmgp.models.lazily import predicted_lazily
from lmgp.models.plausible import implausible
from lmgp.validation import RandomState, generator, validated

Floats = NDArray[np.float64]

# Bytes of what is held for the rows of a batch beside the output, as far as that grows with their number.
BATCH_BYTES = 192 * 2**20
# What a row of d columns takes there, in numbers: copies of its columns, places, and several results.
NUMBERS = 16
# A bar moves at least this often, and a batch for it has at least this number of rows.
STEPS, LEAST_BATCH = 20, 2**14
# Seconds before a bar appears.
DELAY = 2.0


class Predictions(Evidence):
    """Mixin of models: everything that is predicted, by way of `_predict`, `_covariance` and `_samples`."""

    # No metadata but options: pipelines pass them on where metadata are routed.
    __metadata_request__predict: ClassVar = dict.fromkeys(
        ("return_std", "include_noise", "return_error", "return_cov", "batch_size", "verbose"), True
    )

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        include_noise: bool = False,
        return_error: bool = False,
        return_cov: bool = False,
        batch_size: int | None = None,
        verbose: bool = False,
    ) -> Floats | tuple[Floats, ...]:
        """Predict at new rows.

        Parameters
        ----------
        X : array-like of shape (n, d), or dask array or data frame
            Of a dask collection, the results are lazy: dask arrays of an array, series of a data frame, with the
            partitions of X.
        return_std : bool, default=False
            Whether to return the standard deviation as well. The mean alone takes a small part of the time.
        include_noise : bool, default=False
            Whether that, and the covariance, are of new observations y instead of the latent function f.
        return_error : bool, default=False
            Whether to return an estimate of the divergence from the exact prediction as well. For models with
            `TaylorFeatures` or on Fourier modes. Of the exact one it is zero, or what iterations leave of the mean.
            `GPRegressor` gives what its model states, or the mean of what was measured when it was chosen.
        return_cov : bool, default=False
            Whether to return the covariance of all rows as well, n × n numbers. Its diagonal is the square of the
            standard deviation. Of models whose rows are predicted by several posteriors, correlations are those of the
            errors of predictions from the nearest rows: see ``docs/predictions.md``.
        batch_size : int, optional
            The number of rows that are predicted at a time. If not given, it follows from a memory budget: beyond the
            output, any number of rows of a few columns takes less than 500 MiB. Batches change predictions by rounding
            only.
        verbose : bool, default=False
            Whether to show a progress bar where it takes more than 2 seconds.

        Returns
        -------
        mean : ndarray of shape (n,)
            In units of y.
        std : ndarray of shape (n,)
            In units of y; only with `return_std`.
        cov : ndarray of shape (n, n)
            In squared units of y; only with `return_cov`.
        error : ndarray of shape (n,)
            The estimated KL(this prediction ‖ the exact GP's), with noise, in nats; only with `return_error`. An
            expectation, best averaged over rows: see the notes of `lmgp.inference.truncation.expected_divergence`.

        Raises
        ------
        ValueError
            If X is not finite and numeric, or has another number of columns than the training rows, or `batch_size` is
            no positive integer. `lmgp.errors.NoEstimateError`, which is one, if there is no such estimate for the
            model's features.
        MemoryLimitError
            If the covariance takes more memory than the machine has.

        Warns
        -----
        ImplausibleMeanWarning
            If means are impossible under the model itself, see `lmgp.models.plausible`; the message names the cure.
        """
        check_is_fitted(self)
        if dask_kind(X) is not None:
            rows_of_batch((0, 1), batch_size, verbose)  # says at once if that is none
            options = {"return_std": return_std, "include_noise": include_noise, "return_error": return_error}
            found: Any = predicted_lazily(self, X, **options, return_cov=return_cov, batch_size=batch_size)
            return found
        inputs: Floats = validated(self, X, reset=False)
        # Of a covariance, the diagonal has the variances.
        alone = return_std and not return_cov
        mean, variance, error = self._in_batches(inputs, alone, return_error, batch_size, verbose)
        told = implausible(
            mean, self._fitted.farthest_target, lambda far: self._expectations(self._coordinates(inputs[far]))
        )
        if told is not None:
            warnings.warn(f"{told} {self._cure(self._coordinates(inputs[:1]))}", ImplausibleMeanWarning, stacklevel=2)
        trend = self._estimated_trend()
        mean += self.center_
        if trend is not None:
            for part in chunks(len(inputs), NUMBERS, BATCH_BYTES):
                mean[part] += trend.values(self._coordinates(inputs[part]))
        result, noise = [mean], self.noise_variance_ if include_noise else 0.0
        if variance is not None:
            result.append(np.sqrt(variance + noise))
        if return_cov:
            covariance = self._covariance(self._coordinates(inputs))
            covariance[np.diag_indices_from(covariance)] += noise
            result += [np.sqrt(covariance.diagonal()), covariance] if return_std else [covariance]
        if error is not None:
            result.append(error)
        return result[0] if len(result) == 1 else tuple(result)

    def _in_batches(
        self, X: Floats, variance: bool, error: bool, batch_size: int | None, verbose: bool
    ) -> tuple[Floats, Floats | None, Floats | None]:
        """Return the means without center and trend, and variances and errors where they are asked for."""
        n = len(X)
        size = rows_of_batch(X.shape, batch_size, verbose)
        mean = np.empty(n)
        variances, errors = np.empty(n) if variance else None, np.empty(n) if error else None
        with tqdm(total=n, desc="Prediction", unit="row", unit_scale=True, delay=DELAY, disable=not verbose) as bar:
            for start in range(0, n, size):
                part = slice(start, min(start + size, n))
                rows = self._coordinates(X[part])
                # First, so that a model without one says so before it predicts.
                if errors is not None:
                    errors[part] = self._expected_divergence(rows)
                mean[part], found = self._predict(rows, variance)
                if variances is not None and found is not None:
                    variances[part] = found
                bar.update(len(rows))
        return mean, variances, errors

    def predict_quantile(
        self, X: ArrayLike, quantile: ArrayLike = 0.5, include_noise: bool = True, batch_size: int | None = None
    ) -> Floats:
        """Predict quantiles.

        Parameters
        ----------
        X : array-like of shape (n, d)
        quantile : float or array-like of shape (q,), default=0.5
            The probability of a value below, strictly between 0 and 1.
        include_noise : bool, default=True
            Whether of a new observation y instead of the latent function f.
        batch_size : int, optional
            See `predict`.

        Returns
        -------
        ndarray of shape (n,) or (n, q)
            In units of y; one column for each quantile where several are asked for.

        Raises
        ------
        ValueError
            As `predict`, and if a quantile is not strictly between 0 and 1.
        """
        _refuse_dask(X)
        levels = numbers(quantile, "quantile")
        if levels.ndim > 1 or not levels.size or not np.all((levels > 0.0) & (levels < 1.0)):
            raise InputError(
                f"quantile must be a number strictly between 0 and 1, or several; got {quantile!r}. For the value that "
                "9 of 10 observations do not exceed give 0.9."
            )
        mean, std = self.predict(X, return_std=True, include_noise=include_noise, batch_size=batch_size)
        found: Floats = mean[:, None] + std[:, None] * ndtri(levels.ravel())
        return found if levels.ndim else found[:, 0]

    def predict_interval(
        self, X: ArrayLike, level: float = 0.95, include_noise: bool = True, batch_size: int | None = None
    ) -> tuple[Floats, Floats]:
        """Predict central intervals.

        Parameters
        ----------
        X : array-like of shape (n, d)
        level : float, default=0.95
            The probability of the interval, strictly between 0 and 1.
        include_noise : bool, default=True
            Whether of a new observation y instead of the latent function f.
        batch_size : int, optional
            See `predict`.

        Returns
        -------
        lower, upper : ndarray of shape (n,)
            In units of y.

        Raises
        ------
        ValueError
            As `predict`, and if the level is not strictly between 0 and 1.

        Examples
        --------
        >>> import numpy as np
        >>> from lmgp import ExactGPRegressor, GaussianKernel
        >>> X = np.linspace(0, 6, 40)[:, None]
        >>> model = ExactGPRegressor(GaussianKernel(1.0), 0.01).fit(X, np.sin(X[:, 0]))
        >>> lower, upper = model.predict_interval([[1.0], [2.0]], level=0.9)
        >>> bool(np.all((lower < np.sin([1.0, 2.0])) & (np.sin([1.0, 2.0]) < upper)))
        True
        >>> model.predict_exceedance([[1.0], [2.0]], threshold=0.0).round(3)
        array([1., 1.])
        """
        if isinstance(level, bool) or not isinstance(level, Real) or not 0.0 < level < 1.0:
            raise InputError(
                f"level must be a number strictly between 0 and 1; got {level!r}. For 95% intervals give level=0.95."
            )
        mean, std = self.predict(X, return_std=True, include_noise=include_noise, batch_size=batch_size)
        half_width = -float(ndtri(0.5 - 0.5 * float(level))) * std
        return mean - half_width, mean + half_width

    def predict_exceedance(
        self, X: ArrayLike, threshold: ArrayLike, include_noise: bool = True, batch_size: int | None = None
    ) -> Floats:
        """Predict the probability of a value above a threshold.

        Parameters
        ----------
        X : array-like of shape (n, d)
        threshold : float or array-like of shape (n,)
            One for all rows, or one a row, in units of y.
        include_noise : bool, default=True
            Whether of a new observation y instead of the latent function f.
        batch_size : int, optional
            See `predict`.

        Returns
        -------
        ndarray of shape (n,)
            P(y > threshold), between 0 and 1; accurate in its relative error where it is small.

        Raises
        ------
        ValueError
            As `predict`, and if the threshold is no finite number, or there is another number of them than of rows.
        """
        _refuse_dask(X)
        limits = numbers(threshold, "threshold")
        mean, std = self.predict(X, return_std=True, include_noise=include_noise, batch_size=batch_size)
        if limits.ndim > 1 or (limits.ndim == 1 and limits.shape != mean.shape):
            raise InputError(
                f"threshold must be one number, or one a row, shape ({len(mean)},); got shape {limits.shape}. For "
                "several thresholds ask once for each."
            )
        above = mean - limits
        # Without any uncertainty the value is the mean.
        certain = np.where(above > 0.0, np.inf, -np.inf)
        found: Floats = ndtr(np.divide(above, std, out=certain, where=std > 0.0))
        return found

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: RandomState = 0, include_noise: bool = False
    ) -> Floats:
        """Draw functions from the posterior, at rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
        n_samples : int, default=1
        random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=0
        include_noise : bool, default=False
            Whether to draw new observations y instead of the latent function f.

        Returns
        -------
        ndarray of shape (n, n_samples)
            In units of y. A column is one draw, with the mean and the covariance of `predict`. Of many rows, it is made
            without the covariance: see ``docs/predictions.md``.

        Raises
        ------
        ValueError
            As `predict`; `lmgp.errors.InputError`, which is one, if `n_samples` is no positive integer, or rows are
            where the model cannot draw.
        MemoryLimitError
            If the rows can only be drawn by way of their covariance, and that does not fit.
        """
        check_is_fitted(self)
        check_draws(n_samples)
        rows, rng = self._coordinates(validated(self, X, reset=False)), generator(random_state)
        drawn = self._samples(rows, int(n_samples), rng)
        trend = self._estimated_trend()
        drawn += self.center_
        if trend is not None:
            drawn += trend.values(rows)[:, None]
        if include_noise:
            drawn += math.sqrt(self.noise_variance_) * rng.standard_normal(drawn.shape)
        return drawn

    @abstractmethod
    def _coordinates(self, X: Floats) -> Floats: ...

    @abstractmethod
    def _cure(self, X: Floats) -> str: ...

    @abstractmethod
    def _expectations(self, X: Floats) -> tuple[Floats, Floats]:
        """Return each row's prior variance, and yᵀC⁻¹y/n of the training rows of the posterior that predicts it."""

    @abstractmethod
    def _expected_divergence(self, X: Floats) -> Floats:
        """Return an estimate of the divergence from the exact prediction at each row."""

    @abstractmethod
    def _predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        """Return the mean without centre and trend, and the variance, with the trend's, where it is asked for."""

    def _covariance(self, X: Floats) -> Floats:
        """Return the covariance of rows, with the trend's, shape (n, n)."""
        return self._near_errors().covariance(X, self._means_and_variances(X)[1])

    def _samples(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        """Draw the latent function without centre and trend, but with what is not known of it; (n, n_samples)."""
        mean, variance = self._means_and_variances(X)
        return self._near_errors().samples(X, variance, n_samples, rng) + mean[:, None]

    def _means_and_variances(self, X: Floats) -> tuple[Floats, Floats]:
        mean, variance = self._predict(X, True)
        assert variance is not None  # for the type checker
        return mean, variance


def _refuse_dask(X: Any) -> None:
    """Refuse dask collections, of which only `predict` and `predict_interval` are lazy."""
    if dask_kind(X) is not None:
        refuse_what_is_no_table(X, "X")


def check_draws(n_samples: Any) -> None:
    """Refuse a number of draws that is none."""
    if isinstance(n_samples, bool) or not isinstance(n_samples, Integral) or n_samples < 1:
        raise InputError(f"n_samples must be a positive integer; got {n_samples!r}.")


def rows_of_batch(shape: tuple[int, ...], batch_size: int | None, verbose: bool) -> int:
    """Return the number of rows of a batch."""
    n, d = shape
    if batch_size is not None:
        if isinstance(batch_size, bool) or not isinstance(batch_size, Integral) or batch_size < 1:
            raise InputError(
                f"batch_size must be a positive number of rows, or None for as many as a memory budget allows; got "
                f"{batch_size!r}."
            )
        return int(batch_size)
    size = max(1, BATCH_BYTES // (8 * (4 * d + NUMBERS)))
    return min(size, max(LEAST_BATCH, -(-n // STEPS))) if verbose else size


def numbers(values: ArrayLike, name: str) -> Floats:
    """Return one or several finite numbers as an array."""
    if isinstance(values, bool | str):
        raise InputError(f"{name} must be a number, or several; got {values!r}.")
    try:
        found: Floats = check_array(
            np.atleast_1d(np.asarray(values)), dtype=np.float64, ensure_2d=False, allow_nd=True, input_name=name
        )
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a finite number, or several: {error}") from error
    return found.reshape(np.shape(values))
