"""Gaussian processes of targets on another scale, such as their logarithm."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import norm
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.utils import Tags
from sklearn.utils._param_validation import HasMethods, StrOptions
from sklearn.utils.validation import check_is_fitted, column_or_1d

from lmgp.data import Floats, RandomState, floats, refuse_no_targets
from lmgp.errors import InputError
from lmgp.estimators.base import checked_probabilities, numbers
from lmgp.estimators.chosen import GPRegressor
from lmgp.estimators.leave_one_out import LeaveOneOut
from lmgp.estimators.summary import Summarized
from lmgp.estimators.warping import LogScale, Scale, TransformerScale, WarpedDistribution
from lmgp.io.sources import refuse_chunks
from lmgp.metrics.gaussian import checked_level
from lmgp.metrics.scorers import end_of, last_step, options_of_last_step
from lmgp.utils.columns import dask_kind, refuse_other_than_numbers
from lmgp.utils.fitted import Fitted, OfFit, unchanged_on_failure

LOGARITHMS = {"log": 0.0, "log1p": 1.0}


@dataclass(frozen=True, eq=False)
class TransformedFit:
    """The fitted state: the regressor of z = g(y), and g."""

    regressor: Any
    scale: Scale


class TransformedTargetGPRegressor(Summarized, MetaEstimatorMixin, Fitted, RegressorMixin, BaseEstimator):
    """A Gaussian process of log y, or of another monotone function of y, that predicts y with its uncertainty.

    Where errors are relative, or y is positive and skewed, such as prices, its logarithm is nearer to Gaussian. The
    model is one of z = g(y); its predictions are the mean, the standard deviation and the quantiles of the distribution
    of y = g⁻¹(z), in the units of y. scikit-learn's `TransformedTargetRegressor` has the first of these only, and gives
    the median.

    Parameters
    ----------
    regressor : regressor, optional
        A Gaussian process of this package, or a pipeline that ends in one; `GPRegressor` if not given. Its kernel,
        trend and noise variance are those of z.
    transformer : {"log", "log1p"} or transformer, default="log"
        g: the logarithm of positive targets, or of targets + 1, for counts and amounts that may be zero; or a
        scikit-learn transformer of one column with an inverse, such as ``PowerTransformer()`` or
        ``FunctionTransformer(np.sqrt, inverse_func=lambda z: np.square(np.maximum(z, 0.0)))``, which is strictly
        monotone. The inverse must not turn back where z has no y, as ``np.square`` does below zero.

    Attributes
    ----------
    regressor_ : regressor
        Fitted to z.
    scale_ : lmgp.estimators.warping.Scale
        g, with its inverse and its derivative.
    importance_, importance_error_
        Those of z, see `ExactGPRegressor`.
    n_features_in_ : int
        The number of input columns, d.

    Notes
    -----
    This is a warped Gaussian process with a fixed function. Quantiles, intervals, probabilities and densities are those
    of z, whatever its distribution is, and exact. Means, standard deviations and the CRPS are under a normal
    distribution of z, for the exponential of a Student t has none. Its variance is that of the function, and
    `noise_variance_` times the square of what `noise_` makes of a standard deviation in that row. Those of logarithms
    are in closed form, y + shift being log-normal; those of other transformers are by Gauss-Hermite quadrature.

    References
    ----------
    E. Snelson, C. E. Rasmussen and Z. Ghahramani, *Warped Gaussian Processes*, NIPS 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import ExactGPRegressor, GaussianKernel, TransformedTargetGPRegressor
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> price = np.exp(np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60))
    >>> model = TransformedTargetGPRegressor(ExactGPRegressor(GaussianKernel(1.0), 0.01)).fit(X, price)
    >>> mean, std = model.predict(X, return_std=True, include_noise=True)
    >>> lower, upper = model.predict_interval(X, level=0.95)
    >>> bool(np.all(lower > 0) and np.all(lower < mean) and np.all(mean < upper))
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "regressor": [HasMethods(["fit", "predict"]), None],
        "transformer": [StrOptions(set(LOGARITHMS)), HasMethods(["fit", "transform", "inverse_transform"])],
    }

    __metadata_request__fit: ClassVar = {"verbose": True}
    __metadata_request__predict: ClassVar = dict.fromkeys(("return_std", "include_noise", "return_error"), True)

    regressor_ = OfFit[Any]()
    scale_ = OfFit[Scale]()

    _fitted: TransformedFit

    def __init__(self, regressor: Any = None, transformer: Any = "log") -> None:
        self.regressor = regressor
        self.transformer = transformer

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
        verbose: bool | int = False,
        **options: Any,
    ) -> Self:
        """Fit the transformer to y, and the regressor to X and z = g(y).

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            As in `ExactGPRegressor.fit`.
        noise_variances : array-like of shape (n,), optional
            A noise variance for each row, in squared units of z: for a logarithm, of the relative error.
        verbose : bool or int, default=False
            Whether what is tried is shown on standard error as it goes.
        **options
            All else that `fit` of the regressor takes.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If a target has no z, or the transformer is not strictly monotone on them.
        """
        with unchanged_on_failure(self):
            self._validate_params()
            refuse_chunks(self, X, y)
            target, present = self._checked_target(y, sample_weight)
            scale = self._scale(target[present])
            scale.check(target)
            regressor = GPRegressor() if self.regressor is None else clone(self.regressor)
            given = {"sample_weight": sample_weight, "noise_variances": noise_variances, "verbose": verbose or None}
            given = {name: values for name, values in given.items() if values is not None}
            regressor.fit(X, scale.forward(target), **options_of_last_step(regressor, given), **options)
            self._fitted = TransformedFit(regressor, scale)
        return self

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        include_noise: bool = False,
        return_error: bool = False,
        **options: Any,
    ) -> Floats | tuple[Floats, ...]:
        """Predict y at new rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
        return_std : bool, default=False
            Whether to return the standard deviation as well.
        include_noise : bool, default=False
            Whether that is of a new observation y, or of its expectation E[y | f], f being the latent function of z.
            Off by default, as in `ExactGPRegressor.predict`.
        return_error : bool, default=False
            Whether to return an estimate of the divergence from the exact prediction as well, see `ExactGPRegressor`.
            That of y is that of z.
        **options
            All else that `predict` of the regressor takes, but `return_cov`: see `sample_y`.

        Returns
        -------
        mean : ndarray of shape (n,)
            The mean of a new observation, E[y]: exp(μ + σ²/2) of a logarithm, with the noise in σ². It is that of
            E[y | f] as well. The median is ``predict_quantile(X, 0.5)``.
        std : ndarray of shape (n,)
            In units of y; only with `return_std`.
        error : ndarray of shape (n,)
            In nats; only with `return_error`.

        Raises
        ------
        ValueError
            As `ExactGPRegressor.predict`; `lmgp.errors.InputError`, which is one, with `return_cov`.
        NumericalError
            If y has no mean: the inverse of the transformer is not finite where the model holds z possible, of a
            probability above 1e-5.
        """
        check_is_fitted(self)
        if options.get("return_cov"):
            raise InputError(
                "return_cov=True is for Gaussian predictions; got it for a transformed target, which is not Gaussian. "
                "Take numpy.cov of draws at all rows, sample_y(X, n_samples=1000), or ask regressor_, for that of z."
            )
        scale, with_error = self.scale_, {"return_error": True} if return_error else {}
        model, rows = last_step(self.regressor_, X)
        mean, latent, *errors = model.predict(rows, return_std=True, **with_error, **options)
        noise = _noise_std(model, rows, mean, latent)
        std = np.hypot(latent, noise)
        result = [scale.mean(mean, std)]
        if return_std:
            result.append(scale.std(mean, std) if include_noise else scale.of_expectation(mean, latent, noise).std())
        result.extend(errors)
        return result[0] if len(result) == 1 else tuple(result)

    def predict_distribution(
        self, X: ArrayLike, include_noise: bool = True, batch_size: int | None = None, verbose: bool = False
    ) -> WarpedDistribution:
        """Predict distributions.

        Parameters
        ----------
        X : array-like of shape (n, d)
        include_noise : bool, default=True
            Whether of a new observation y, or of its expectation E[y | f]. On by default: y is what will be observed.
        batch_size : int, optional
        verbose : bool, default=False
            As in `ExactGPRegressor.predict`.

        Returns
        -------
        WarpedDistribution
            Of shape (n,), in units of y, with the methods mean, std, logpdf, pdf, cdf, sf, logcdf, logsf, ppf, isf,
            median, interval and rvs of scipy.stats' frozen distributions, and crps.
        """
        check_is_fitted(self)
        model, rows = last_step(self.regressor_, X)
        of_z, latent = model._distributions(rows, include_noise, batch_size, verbose)
        mean = of_z.median()
        noise = _noise_std(model, rows, mean, latent)
        if not include_noise:
            return self.scale_.of_expectation(mean, latent, noise)
        return WarpedDistribution(of_z, norm(mean, np.hypot(latent, noise)), self.scale_)

    def predict_quantile(
        self, X: ArrayLike, quantile: float | Sequence[float] = 0.5, include_noise: bool = True, **options: Any
    ) -> Floats:
        """Predict quantiles of a new observation: g⁻¹ of those of z, which is exact.

        Parameters
        ----------
        X : array-like of shape (n, d)
        quantile : float or sequence of float, default=0.5
            The probability of a value below, strictly between 0 and 1: the median, if not given.
        include_noise : bool, default=True
            Whether those are of a new observation y, or of its expectation E[y | f]. On by default: y is what will be
            observed.
        **options
            All else that `predict_distribution` takes.

        Returns
        -------
        ndarray of shape (n,) or (n, n_quantiles)

        Raises
        ------
        InputError
            If a probability is not between 0 and 1.
        """
        probabilities = checked_probabilities(quantile)
        distribution = self.predict_distribution(X, include_noise, **options)
        columns = [distribution.ppf(probability) for probability in probabilities.ravel()]
        return columns[0] if probabilities.ndim == 0 else np.stack(columns, axis=1)

    def predict_interval(
        self,
        X: ArrayLike,
        level: float = 0.95,
        include_noise: bool = True,
        method: Literal["distribution", "conformal"] = "distribution",
        **options: Any,
    ) -> tuple[Floats, Floats]:
        """Predict an interval that has a new observation with a given probability; above and below are equally likely.

        Parameters
        ----------
        X : array-like of shape (n, d)
        level : float, default=0.95
        include_noise : bool, default=True
            As in `predict_quantile`.
        method : {"distribution", "conformal"}, default="distribution"
            As in `ExactGPRegressor.predict_interval`: conformal intervals are those of z.
        **options
            ``batch_size``, as in `ExactGPRegressor.predict`.

        Returns
        -------
        lower, upper : ndarray of shape (n,)

        Raises
        ------
        InputError
            If the level is not between 0 and 1.
        """
        check_is_fitted(self)
        if include_noise or method != "distribution":
            model, rows = last_step(self.regressor_, X)
            ends = model.predict_interval(rows, level, include_noise, method=method, **options)
            lower, upper = map(self.scale_.inverse, ends if self.scale_.increasing else ends[::-1])
        else:
            tail = 0.5 - 0.5 * checked_level(level)
            lower, upper = self.predict_quantile(X, [tail, 1.0 - tail], include_noise, **options).T
        return lower, upper

    def predict_exceedance(
        self, X: ArrayLike, threshold: ArrayLike, include_noise: bool = True, **options: Any
    ) -> Floats:
        """Predict the probability of a value above a threshold: of a new observation, that of z above g(threshold).

        Parameters
        ----------
        X : array-like of shape (n, d)
        threshold : float or array-like of shape (n,)
            One for all rows, or one a row, in units of y. Above all that y can be, the probability is 0; below, 1.
        include_noise : bool, default=True
            As in `predict_quantile`.
        **options
            All else that `predict_distribution` takes.

        Returns
        -------
        ndarray of shape (n,)

        Raises
        ------
        InputError
            If the threshold is no finite number, or there is another number of them than of rows.
        """
        limits = numbers(threshold, "threshold")
        distribution = self.predict_distribution(X, include_noise, **options)
        n = len(distribution.of_z.mean())
        if limits.shape not in ((), (n,)):
            raise InputError(f"threshold must be one number, or one a row, shape ({n},); got shape {limits.shape}.")
        return distribution.sf(limits)

    def sample_y(
        self, X: ArrayLike, n_samples: int = 1, random_state: RandomState = 0, include_noise: bool = False
    ) -> Floats:
        """Draw from the posterior, at rows: g⁻¹ of draws of z, or E[y | f] of draws of f.

        Parameters
        ----------
        X : array-like of shape (n, d)
        n_samples : int, default=1
        random_state : int, numpy.random.Generator, numpy.random.RandomState or None, default=0
        include_noise : bool, default=False
            Whether to draw new observations y, or their expectation E[y | f]. Off by default: a draw is a function.

        Returns
        -------
        ndarray of shape (n, n_samples)
            In units of y. A column is one draw, with the mean and the standard deviation of `predict`.

        Raises
        ------
        ValueError
            As `ExactGPRegressor.sample_y`.
        NumericalError
            As `predict`.
        """
        check_is_fitted(self)
        model, rows = last_step(self.regressor_, X)
        drawn = model.sample_y(rows, n_samples, random_state, include_noise)
        if include_noise:
            return self.scale_.inverse(drawn)
        noise = _noise_std(model, rows, *model.predict(rows, return_std=True))
        return self.scale_.mean(drawn.ravel(), np.repeat(noise, drawn.shape[1])).reshape(drawn.shape)

    def calibrate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
    ) -> Self:
        """Fit the distribution of z to rows that had no part in the fit; see `ExactGPRegressor.calibrate`.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,)
        sample_weight, noise_variances : array-like of shape (n,), optional
            As in `fit`.

        Returns
        -------
        self

        Raises
        ------
        InputError
            As `fit`, and if there are fewer than 30 rows.
        """
        check_is_fitted(self)
        target, _ = self._checked_target(y, sample_weight)
        self.scale_.check(target)
        model, rows = last_step(self.regressor_, X)
        model.calibrate(rows, self.scale_.forward(target), sample_weight, noise_variances)
        return self

    @property
    def loo_(self) -> LeaveOneOut:
        """Leave-one-out predictions of the training rows, of y in its units; see `ExactGPRegressor`."""
        z, scale = end_of(self.regressor_).loo_, self.scale_
        latent = np.sqrt(np.maximum(z.normal.var() - np.square(z.noise_std), 0.0))
        noise = z.noise_std * z.std / z.normal.std()
        of_y = WarpedDistribution(z.distribution, norm(z.mean, np.hypot(latent, noise)), scale)
        normal = WarpedDistribution(z.normal, z.normal, scale)
        return LeaveOneOut(scale.inverse(z.y), of_y, normal, z.noise_std, z.weights)

    @property
    def importance_(self) -> Floats:
        """What each column explains of z, shape (d,), see `ExactGPRegressor`; of a pipeline, those of its last step."""
        return end_of(self.regressor_).importance_

    @property
    def importance_error_(self) -> Floats:
        """The standard errors of `importance_`, shape (d,)."""
        return end_of(self.regressor_).importance_error_

    @property
    def n_features_in_(self) -> int:
        """The number of input columns."""
        return self.regressor_.n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """The names of the columns, where X was a data frame."""
        return self.regressor_.feature_names_in_

    def _checked_target(self, y: Any, sample_weight: Any) -> tuple[Floats, Any]:
        """Return y of shape (n,), with the target of a row that counts in rows of weight zero, and which rows count."""
        refuse_no_targets(self, y)
        shape = np.asarray(y).shape
        if len(shape) == 2 and shape[1] > 1:
            raise InputError(
                f"y should be a 1d array, got an array of shape {shape} instead. For several targets use "
                "lmgp.estimators.MultiTargetGPRegressor with this regressor."
            )
        refuse_other_than_numbers(y, "y")
        target, weights = np.asarray(column_or_1d(y, warn=True), dtype=np.float64), floats(sample_weight)
        if weights.shape != target.shape or not weights.any():
            return target, slice(None)
        return np.where(weights == 0.0, target[np.argmax(weights != 0.0)], target), weights != 0.0

    def _scale(self, y: Floats) -> Scale:
        if isinstance(self.transformer, str):
            scale: Scale = LogScale(LOGARITHMS[self.transformer])
        elif len(y):
            scale = TransformerScale.of(clone(self.transformer).fit(y.reshape(-1, 1)), y)
        else:
            scale = LogScale(1.0)  # the regressor says that there are no rows
        return scale

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = self.transformer == "log"
        return tags


def _noise_std(model: Any, X: Any, mean: Floats, latent: Floats) -> Floats:
    """Return the standard deviation of the noise of z at each row, by the noise that was fitted, (n,)."""
    normal = np.sqrt(model.noise_variances_[0])
    if dask_kind(X) is None:
        std = model._deviations(model._read(X), mean[:, None], latent[:, None])[:, 0]
    else:
        _, std = model.predict(X, return_std=True, include_noise=True)
    return normal * std / np.hypot(latent, normal)
