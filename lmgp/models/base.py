"""What all Gaussian-process regressors share."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils._param_validation import Interval, StrOptions

from lmgp.errors import InputError
from lmgp.fitted import Fitted, OfFit, unchanged_on_failure
from lmgp.inference.duplicates import Duplicates, averaged, check_duplicates, dropped
from lmgp.inference.function_space import estimate_trend
from lmgp.inference.learning import Hyperparameters
from lmgp.inference.trend import Trend, TrendEstimate, TrendFit, chosen_columns, without_trend
from lmgp.inputs import column_scales, warn_of_scales
from lmgp.io.sources import Source
from lmgp.kernels.base import Kernel
from lmgp.learning.forms import Ard, declared_free
from lmgp.learning.learn import Settings, Wanted, learn_rows
from lmgp.learning.record import Learned, Learning
from lmgp.models.prediction import Predictions
from lmgp.noise import Noise
from lmgp.progress import shown
from lmgp.validation import RandomState, Rows, check_rows, generator, spawn, validated_pair

Floats = NDArray[np.float64]
TrendColumns = Literal["constant", "linear"] | Sequence[int | str]


@dataclass(frozen=True, eq=False)
class GPFit:
    """What every fitted Gaussian process has.

    Attributes
    ----------
    kernel : Kernel
    noise_variance : float
    center : float
        The weighted mean of y.
    farthest_target : float
        The largest |y − center|; of a trend, the largest of its least-squares residuals.
    trend : Trend or None
        A `TrendFit` where `fit` estimates it; None of a constant.
    learning : Learning
        What was tried to learn the hyper-parameters.
    column_scales : ndarray of shape (d,)
        The standard deviation of each column that the kernel sees.
    center_given : bool
        Whether the center is known, and stays as it is with other rows.
    """

    kernel: Kernel
    noise_variance: float
    center: float
    farthest_target: float
    trend: Trend | None
    learning: Learning
    column_scales: Floats
    center_given: bool = field(default=False, kw_only=True)


class GaussianProcess(Fitted, Predictions, RegressorMixin, BaseEstimator):
    """Gaussian-process regression: y = trend(x) + f(x) + noise.

    Subclasses implement `_fit` and what `lmgp.models.prediction.Predictions` needs, and add their parameters.

    Parameters
    ----------
    kernel : Kernel, str, list of str or None
        A kernel is used as it is, but for parameters with a pair of bounds, which are learned. A name, such as
        "matern32" or "matern12+gaussian", several, or "auto": what predicts best of these, learned from all rows, see
        `lmgp.learn`. None: a `GaussianKernel` by maximum marginal likelihood of at most `max_learning_rows` rows.
    noise_variance : float, optional
        In squared units of y; learned likewise if not given.
    trend : {"constant", "linear"} or list of int or str, default="constant"
        The mean function: the weighted mean of y, an intercept and a slope for each column, or for these columns; see
        `ExactGPRegressor`.
    ard : bool or "auto", default=False
        Whether a learned kernel has one lengthscale a column; "auto" tries both.
    max_learning_rows : int, default=2000
        The largest number of rows whose exact likelihood is maximised; of more rows, a random sample of this size.
    max_memory_gib : float, default=4.0
        Memory for the matrices of the model, in GiB. A model that needs more is refused before they are made.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seeds everything that has no seed of its own.

    Attributes
    ----------
    kernel_ : Kernel
    noise_variance_ : float
    center_ : float
        The mean of y, weighted by `sample_weight`.
    trend_ : TrendEstimate or None
        The coefficients of the trend and their covariance, in the units of X and y; None of a constant.
    learning_ : Learning
        What was tried to learn the hyper-parameters. Printed, it is a table.
    relevance_ : ndarray of shape (d,)
        The standard deviation of each column over its lengthscale, the shortest one of a sum: how much the column
        counts. For kernels with a lengthscale.
    n_features_in_ : int
        The number of input columns, d.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [Kernel, str, "array-like", None],
        "noise_variance": [Interval(Real, 0, None, closed="neither"), None],
        "trend": [StrOptions({"constant", "linear"}), "array-like"],
        "ard": ["boolean", StrOptions({"auto"})],
        "max_learning_rows": [Interval(Integral, 2, None, closed="left")],
        "max_memory_gib": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state", np.random.Generator],
    }

    # No metadata but options: pipelines pass them on where metadata are routed.
    __metadata_request__fit: ClassVar = {"verbose": True}

    kernel: Wanted
    noise_variance: float | None
    trend: TrendColumns
    ard: Ard
    max_learning_rows: int
    max_memory_gib: float
    random_state: RandomState

    kernel_ = OfFit[Kernel]()
    noise_variance_ = OfFit[float]()
    center_ = OfFit[float]()
    learning_ = OfFit[Learning]()

    _fitted: GPFit

    # The line that a warning of `fit` is about, as seen from a method that it calls.
    _callers: ClassVar[int] = 3

    @property
    def relevance_(self) -> Floats:
        """How much each column counts: its standard deviation over its lengthscale."""
        scales = self._of_fit("relevance_").column_scales
        if not self.kernel_.can("metric"):
            raise AttributeError(f"{type(self).__name__} has no relevance_: its kernel has no lengthscale.")
        relevance: Floats = scales / self.kernel_.metric(len(scales))
        return relevance

    def _of_fit(self, name: str) -> GPFit:
        if "_fitted" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no {name}: it is not fitted.")
        return self._fitted

    @property
    def trend_(self) -> TrendEstimate | None:
        """The estimated trend, in the units of X and y; None of a constant."""
        self._of_fit("trend_")
        trend = self._estimated_trend()
        return None if trend is None else trend.estimate(self.center_)

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
        duplicates: Duplicates = "keep",
        center: float | None = None,
        verbose: bool | int = False,
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
            A noise variance for each row, in squared units of y. The parameter `noise_variance` then is the noise of
            new rows only; where it is not given, it is the weighted mean of these.
        duplicates : {"keep", "average", "drop"}, default="keep"
            What becomes of rows with equal X. "average": one row each, with the mean of their y and the noise of a mean
            of this number. Hyper-parameters are learned from all rows before, and the predictions are those of "keep",
            from fewer rows. "drop": of rows with equal X and y one is kept, of weight 1 at most, before anything is
            learned: for copies by accident.
        center : float, optional
            A mean of y that is known; the weighted mean of these rows if not given. A trend takes its place.
        verbose : bool or int, default=False
            Whether what is tried to learn the kernel, and to choose a model, is shown on standard error as it goes.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X or y is not finite and numeric, their lengths differ, there are fewer than 2 rows, or a parameter is
            out of its range. `lmgp.errors.InputError`, which is one, if the data or the kernel do not allow a fit.
        MemoryLimitError
            If the model needs more than `max_memory_gib`.

        Warns
        -----
        ScaleWarning
            If one learned lengthscale serves columns whose standard deviations differ a thousandfold.
        """
        with unchanged_on_failure(self), shown(verbose or getattr(self, "verbose", False)):
            self._validate_params()
            check_duplicates(duplicates)
            rows = self._checked_rows(X, y, sample_weight, noise_variances)
            rows = dropped(rows) if duplicates == "drop" else rows
            mean = rows.center(center)
            rows = Rows(rows.X, rows.y - mean, rows.weights, rows.noise_variances)
            trend, rows = without_trend(rows, self._trend_columns(), self._names())
            # Two streams, so that a map is the same whether the hyper-parameters were learned or given.
            learning, drawing = spawn(generator(self.random_state), 2)
            if trend is not None and self._learns(rows):
                trend.check_residuals(rows)
            learned = self._learn(rows, learning)
            rows = averaged(rows) if duplicates == "average" else rows
            common = GPFit(
                learned.kernel,
                learned.noise_variance,
                mean,
                farthest_target=float(np.abs(rows.y).max()),
                trend=trend,
                learning=learned.learning,
                column_scales=column_scales(rows),
                center_given=center is not None,
            )
            self._fitted = self._fit(rows, learned, common, drawing)
        return self

    def _checked_rows(
        self, X: ArrayLike, y: ArrayLike | None, sample_weight: ArrayLike | None, noise_variances: ArrayLike | None
    ) -> Rows:
        if isinstance(X, Source):
            raise InputError(
                f"{type(self).__name__} takes rows in memory; got a {type(X).__name__} of chunks. Fit "
                "FeaturizedGPRegressor, LocalizedGPRegressor or SpectralGPRegressor to these, or this to a sample."
            )
        inputs, target = validated_pair(self, X, y, ensure_min_samples=2)
        rows = check_rows(self._coordinates(inputs), target, sample_weight, noise_variances)
        if isinstance(self.kernel, Kernel):
            self.kernel.checked(rows.X.shape[1])
        if self._learns(rows) and np.ptp(rows.y) == 0:
            raise InputError(
                f"y is constant (all {rows.y[0]:g}): no hyper-parameters can be learned from it. Check the target, or "
                "give both kernel and noise_variance."
            )
        if self._one_lengthscale():
            cure = "Standardise them (sklearn.preprocessing.StandardScaler, in a pipeline), set ard=True, or use "
            warn_of_scales(
                rows, self._names(), f"{cure}GPRegressor, which takes columns as they come.", stacklevel=self._callers
            )
        return rows

    def _learns(self, rows: Rows) -> bool:
        """Say whether targets without spread cannot be fitted."""
        return not isinstance(self.kernel, Kernel) or (self.noise_variance is None and rows.noise_variances is None)

    def _coordinates(self, X: Floats) -> Floats:
        """Return the columns that the kernel sees, of columns as they come."""
        return X

    def _trend_columns(self) -> Literal["constant"] | NDArray[np.intp]:
        """Return the columns of the trend, among those that the kernel sees."""
        names = getattr(self, "feature_names_in_", None)
        index = chosen_columns(self.trend, None if names is None else names.tolist(), self.n_features_in_)
        return "constant" if index is None else self._places(index)

    def _places(self, index: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return where columns of X are among those that the kernel sees."""
        return index

    def _names(self) -> Sequence[str] | None:
        """Return the names of the columns that the kernel sees, if they have names."""
        return getattr(self, "feature_names_in_", None)

    def _one_lengthscale(self) -> bool:
        """Say whether one learned lengthscale serves all columns as they come."""
        if isinstance(self.kernel, Kernel):
            return False
        return not self.ard or (self.kernel is None and self.ard == "auto")  # None is one Gaussian, not both

    def _estimated_trend(self) -> TrendFit | None:
        """Return the trend with its estimated coefficients; None of a constant."""
        trend = self._fitted.trend
        return trend if isinstance(trend, TrendFit) else None

    def _learn(self, rows: Rows, rng: np.random.Generator) -> Learned:
        """Return the hyper-parameters: as given, and learned where they are not."""
        given = isinstance(self.kernel, Kernel) and declared_free(self.kernel) is None
        if given and self.noise_variance is not None:
            return Learned(clone(self.kernel), float(self.noise_variance), float("nan"), True)
        return learn_rows(rows, self._settings(rows.X.shape[1]), rng)

    def _settings(self, n_inputs: int) -> Settings:
        """Say what is to be learned from rows of `n_inputs` columns."""
        return Settings(
            kernel=self.kernel,
            ard=self.ard if isinstance(self.ard, str) else bool(self.ard),
            noise_variance=None if self.noise_variance is None else float(self.noise_variance),
            standardize=False,
            max_learning_rows=self.max_learning_rows,
            max_memory_gib=self.max_memory_gib,
        )

    def _cure(self, X: Floats) -> str:
        """Say what makes the predictions of rows plausible."""
        return (
            f"The noise variance {self.noise_variance_:.3g} is too small for the rows, or for the kernel: average rows "
            "that repeat each other, or give a larger noise_variance."
        )

    def _with_trend(self, rows: Rows, noise: Noise, common: GPFit) -> tuple[GPFit, TrendFit | None]:
        """Estimate the trend from some rows, for models that have no posterior of all; return the state with it."""
        if common.trend is None:
            return common, None
        # The same rows for every target.
        rng = np.random.default_rng(0)
        trend = estimate_trend(common.trend, common.kernel, rows, noise, rng, self.max_memory_gib)
        return replace(common, trend=trend), trend

    @abstractmethod
    def _fit(self, rows: Rows, learned: Hyperparameters, common: GPFit, rng: np.random.Generator) -> GPFit:
        """Fit to checked rows at given hyper-parameters; return the fitted state, with the estimated trend.

        y is centred; of a trend, `common.trend`, it is the residuals of the least-squares fit.
        """
