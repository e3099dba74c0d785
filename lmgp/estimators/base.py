"""What all Gaussian-process regressors share: everything that is public, once."""

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from scipy.stats import norm
from scipy.stats import t as student_t
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import Tags
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from lmgp.columns.table import Columns
from lmgp.data import (
    Floats,
    Noise,
    RandomState,
    Rows,
    check_rows,
    column_deviations,
    drawing_of,
    floats,
    generator,
    known_centers,
    named_targets,
    refuse_other_targets,
    sampling,
    validated,
    validated_pair,
    warn_of_scales,
)  # fmt: skip
from lmgp.distributions.noise import FEWEST_ROWS, NoiseName, ObservationNoise, checked_noise, distribution
from lmgp.errors import ImplausibleMeanWarning, InputError, warn
from lmgp.estimators.expected import expected_seconds
from lmgp.estimators.importance import FEWEST, importances
from lmgp.estimators.leave_one_out import LeaveOneOut
from lmgp.estimators.robust import RobustGain, RobustRows, robust_rows
from lmgp.estimators.rows_left_out import observation_noises, with_noise
from lmgp.estimators.summary import Summarized
from lmgp.estimators.warned import TARGET_RANGES, implausible, warn_of_long_periods, warn_of_outlying_rows
from lmgp.io.sources import refuse_chunks
from lmgp.kernels.base import Kernel, check_kernel
from lmgp.kernels.table import row_variances
from lmgp.learning.engine import CONSTRAINTS, Settings, Wanted, learn_warned
from lmgp.learning.forms import Ard
from lmgp.learning.record import Learned, Learning
from lmgp.metrics.gaussian import checked_level
from lmgp.neighbours.duplicates import Duplicates, averaged, check_duplicates, dropped
from lmgp.posteriors.average import WeightedKernel
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.exact import ExactPosterior, max_rows_within
from lmgp.posteriors.trend import CONSTANT_TREND, UNDETERMINED, Trend, Trended, TrendEstimate, chosen_columns, trended
from lmgp.posteriors.vecchia import mean_squares
from lmgp.recipes import Recipe
from lmgp.selection.record import Selection
from lmgp.sums.base import Sums
from lmgp.utils.columns import dask_kind, refuse_what_is_no_table
from lmgp.utils.fitted import Fitted, OfFit, unchanged_on_failure
from lmgp.utils.parameters import checked_count
from lmgp.utils.progress import counted, foreseen, shown, stage

TrendColumns = Literal["constant", "linear"] | Sequence[int | str]

# Bytes of what is held for the rows of a batch beside the output, as far as that grows with their number.
BATCH_BYTES = 192 * 2**20
# What a row of d columns takes there, in numbers: copies of its columns, places, and several results.
NUMBERS = 16
# A bar moves at least this often, and a batch for it has at least this number of rows.
STEPS, LEAST_BATCH = 20, 2**14
# Seconds before a bar appears.
DELAY = 2.0


# What pipelines pass on to `predict`, where metadata are routed.
PREDICT_OPTIONS = dict.fromkeys(
    ("return_std", "include_noise", "return_error", "return_cov", "batch_size", "verbose"), True
)


@dataclass(frozen=True, eq=False)
class Fit:
    """The fitted state of every Gaussian process.

    The posterior is one of the targets z = (y − hᵀlevel)/scale, with the columns h of the trend.

    Attributes
    ----------
    kernel : Kernel
        Of z, as the noise variance.
    noise_variance : float
    trend : Trend
    level : ndarray of shape (p, t)
        The coefficients of the trend, in units of y; of a constant, the means of y.
    centers, scales : ndarray of shape (t,)
        The weighted means of y, and what makes the targets comparable; 1 of a single target.
    farthest : ndarray of shape (t,)
        The largest |z|.
    column_scales : ndarray of shape (d,)
        The standard deviation of each column that the kernel sees; 0 of a constant one.
    learning : Learning
    recipe : Recipe
    converged : bool
        Whether the likelihood was maximised to convergence; True where nothing was to be learned.
    centers_given : bool
        Whether the means of y are known, and stay as they are with other rows.
    target_names : ndarray of shape (t,) or None
        None of a y of shape (n,), of which predictions have no axis for targets.
    posterior : Posterior or None
        None of sums that are not solved yet, see `solved`.
    sums : Sums or None
        Over the rows, with the targets [y − hᵀorigin | h], where the model is made of sums.
    origin : ndarray of shape (p, t)
    before : Posterior or None
        That of nearly the same rows, of which some sums make the next one in less time.
    selection : Selection or None
        What was tried, where the recipe was chosen by measurement.
    noises : tuple of ObservationNoise
        The distribution of new observations of each target. An empty tuple means normal distributions.
    average : tuple of WeightedKernel
        The kernels that are averaged, `kernel` first; an empty tuple means `kernel` alone.
    importance : ndarray of shape (2, t, d) or None
        How much each column matters, with standard errors; None where nobody asked for it yet, see `importances`.
    variances : ndarray of shape (n_terms,) or None
        Of each term of the kernel over the training rows; None where nobody asked for it yet, see `row_variances`.
    robust : RobustGain or None
        What the weights of a robust fit gain, as long as the noise is not fitted.
    """

    kernel: Kernel
    noise_variance: float
    trend: Trend
    level: Floats
    centers: Floats
    scales: Floats
    farthest: Floats
    column_scales: Floats
    learning: Learning
    recipe: Recipe
    converged: bool
    centers_given: bool
    target_names: NDArray[Any] | None
    posterior: Posterior | None
    sums: Sums | None = None
    origin: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    before: Posterior | None = None
    selection: Selection | None = None
    noises: tuple[ObservationNoise, ...] = ()
    average: tuple[WeightedKernel, ...] = ()
    importance: Floats | None = None
    variances: Floats | None = None
    robust: RobustGain | None = None

    @property
    def known_sums(self) -> Sums:
        """The sums of a model that takes rows later.

        Raises
        ------
        InputError
            If it has none.
        """
        if self.sums is None:
            raise InputError(
                "This model has no sums, so that rows are neither added to it nor taken out: GPRegressor keeps those "
                "of chunks and of nearest rows, and files of earlier versions have none. Fit a regressor by itself, "
                "such as SpectralGPRegressor, or the model again."
            )
        return self.sums

    def checked(self, rows: Rows) -> Rows:
        """Return rows with y as it is as those of the sums, with the targets [y − hᵀorigin | h].

        Raises
        ------
        InputError
            If the sums, or the trend, cannot serve them.
        """
        self.check_targets(rows)
        self.trend.check(rows.X)
        self.known_sums.check(rows)
        h = self.trend.columns(rows.X)
        return rows.with_targets(np.column_stack((rows.Y - h @ self.origin, h)))

    def check_targets(self, rows: Rows) -> None:
        """Refuse rows with another number of targets, and noise variances where targets have scales."""
        if rows.n_targets != len(self.scales):
            raise InputError(f"The model has {len(self.scales)} targets; got y with {rows.n_targets}.")
        if rows.noise_variances is not None and np.any(self.scales != 1.0):
            raise InputError(
                "The model has learned a scale of each target, in whose squares one noise variance is another one for "
                "each; got noise_variances. Leave them out, fit with them, or use MultiTargetGPRegressor, which fits "
                "each target by its own."
            )

    def with_more(self, rows: Rows) -> Self:
        """Return the state with more rows, of y as it is, to be solved when it is needed."""
        return self.with_sums(self.known_sums.added(self.checked(rows)))

    def with_sums(self, sums: Sums) -> Self:
        """Return the state of other sums: to be solved when it is needed, or solved as this one is if that is quick."""
        fit = replace(
            self, sums=sums, posterior=None, before=self.posterior or self.before, importance=None, variances=None
        )
        return fit.of_sums() if sums.are_quick and self.posterior is not None and sums.n_rows else fit

    def summing(self) -> Self:
        """Return what it takes to sum rows elsewhere.

        Raises
        ------
        InputError
            If the model keeps its rows.
        """
        if self.known_sums.keeps_rows:
            raise InputError(
                "This model was fitted to rows in memory and keeps them: it takes no sums of rows that are not kept, "
                "as those of dask collections are. Fit it to chunks, fit([(X, y)]), or to a dask collection, before "
                "rows of others come."
            )
        return self.with_sums(self.known_sums.empty())

    @property
    def solved(self) -> Self:
        """The state with a posterior: of sums to which rows were added, it is made when it is first needed."""
        return self if self.posterior is not None else self._solved

    @cached_property
    def _solved(self) -> Self:
        return self.of_sums()

    @cached_property
    def left_out(self) -> tuple[LeaveOneOut, ...]:
        """Leave-one-out predictions of each target, of a solved state."""
        rows, y, means, std = self.without_each()
        scales = self.observed(rows.X, means, std)
        noise = np.sqrt(Noise(self.noise_variance).of_observations(rows)) * self.scales[:, None]
        targets = zip(y.T, self.degrees, means.T, scales.T, std.T, noise, strict=True)
        return tuple(
            LeaveOneOut(y, distribution(degrees, mean, scale), norm(mean, of_process), noise, rows.counts)
            for y, degrees, mean, scale, of_process, noise in targets
        )

    def without_each(self, index: NDArray[np.intp] | None = None) -> tuple[Rows, Floats, Floats, Floats]:
        """Predict training rows of a solved state, each from all others.

        Parameters
        ----------
        index : ndarray of int of shape (m,), optional
            Of these rows; of all if not given.

        Returns
        -------
        rows : Rows
        y, means, std : ndarray of shape (m, t)
            In units of y; the standard deviation with the noise of the row.
        """
        assert self.posterior is not None
        rows = self.posterior.rows if index is None else self.posterior.rows.take(index)
        return self.in_units(rows, *self.posterior.leave_one_out(index))

    def in_scale(self, rows: Rows) -> Rows:
        """Return rows of y as it is with the targets z of a solved state."""
        return rows.with_targets((rows.Y - self.means(rows.X, np.zeros_like(rows.Y))) / self.scales)

    def in_units(self, rows: Rows, means: Floats, variances: Floats) -> tuple[Rows, Floats, Floats, Floats]:
        """Return rows of z, and their y, means and standard deviations with noise in units of y, (m, t)."""
        noise = Noise(self.noise_variance).of_observations(rows)
        std = np.sqrt(variances + noise)[:, None] * self.scales
        return rows, self.means(rows.X, rows.Y), self.means(rows.X, means), std

    @property
    def kernels(self) -> tuple[WeightedKernel, ...]:
        """The kernel, or those that are averaged, with their weights."""
        return self.average or (WeightedKernel(self.kernel, self.noise_variance, 1.0),)

    @property
    def of_targets(self) -> tuple[ObservationNoise, ...]:
        """The distribution of new observations of each target."""
        return self.noises or (ObservationNoise(),) * len(self.scales)

    @property
    def degrees(self) -> Floats:
        """The degrees of freedom of new observations of each target, shape (t,); infinity where they are normal."""
        return np.array([noise.degrees for noise in self.of_targets])

    @property
    def variance_of_noise(self) -> float:
        """The mean variance of the noise of z; the noise variance is the squared scale of a t if learned under one."""
        robust = any(noise.is_of_robust_fit for noise in self.of_targets)
        if not robust and not (len(self.learning) and self.learning.chosen.likelihood.endswith(", t")):
            return self.noise_variance
        return self.noise_variance * float(np.mean([noise.mean_square for noise in self.of_targets]))

    def observed(self, X: Floats, means: Floats, std: Floats) -> Floats:
        """Return the scale of new observations, from what the process predicts of them, all of shape (m, t)."""
        columns = zip(self.of_targets, means.T, std.T, strict=True)
        return np.column_stack([noise.scale(X, mean, deviation) for noise, mean, deviation in columns])

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"before": None}

    def of_sums(self, warm: bool = False) -> Self:
        """Return the state whose posterior is that of the sums; warm iterations start from that before."""
        sums, t = self.known_sums.settled, self.level.shape[1]
        summary, totals = sums.summary, sums.targets
        assert summary is not None  # of some rows
        change = np.zeros_like(self.origin)
        kept = self.before if sums.are_quick and isinstance(self.before, Trended) and self.before.is_told else None
        if kept is not None:
            change = self.level - self.origin
        elif self.trend.estimated:
            products = totals.products
            change = np.asarray(np.linalg.lstsq(products[t:, t:], products[t:, :t], rcond=UNDETERMINED)[0])
        elif not self.centers_given:
            change = totals.means[None, :t] / self.trend.unit
        start = untrended(self.before) if self.before is not None and (warm or sums.uses_start) else None
        posterior = sums.posterior(combination(self.trend, change, self.scales), start)
        level = self.origin + change
        centers = level[0] if not self.trend.estimated else totals.means[:t] + totals.means[t:] @ self.origin
        centers = self.centers if self.centers_given else centers
        farthest = summary.farthest(np.zeros(t) if self.trend.estimated else change[0]) / self.scales
        state = replace(
            self, sums=sums, centers=centers, farthest=farthest, column_scales=summary.deviations, before=None
        )
        gib = getattr(self.recipe, "max_memory_gib", None)
        return state.conditioned(posterior if kept is None else kept.around(posterior), level, gib=gib)

    def conditioned(
        self, posterior: Posterior, level: Floats, rows: Rows | None = None, gib: float | None = None
    ) -> Self:
        """Return the state with a posterior of z, or of [z | H] with a trend, which is estimated here."""
        if not isinstance(posterior, Trended):
            posterior = trended(posterior, self.trend, rows, gib)
        if isinstance(posterior, Trended):
            level = level + self.scales * posterior.coefficients
        return replace(self, posterior=posterior, level=level)

    def means(self, X: Floats, means: Floats) -> Floats:
        """Return means of y from those of z, shape (m, t)."""
        return self.scales * means + self.trend.columns(X) @ self.level


class Detrended(NamedTuple):
    """Rows less the least-squares fit of a trend, and what was learned from them over the scales of their targets."""

    trend: Trend
    coefficients: Floats
    rows: Rows
    scales: Floats
    learned: Learned


def untrended(posterior: Posterior) -> Posterior:
    """Return the posterior of the process, without its trend."""
    return posterior.untrended if isinstance(posterior, Trended) else posterior


def combination(trend: Trend, change: Floats, scales: Floats) -> Floats:
    """Return what makes [z | H], or z of a constant, of the targets [y | H] of sums: (y − h·change)/scale."""
    p, t = change.shape
    matrix = np.zeros((t + p, t + p if trend.estimated else t))
    matrix[:t, :t], matrix[t:, :t] = np.diag(1.0 / scales), -change / scales
    matrix[t:, t:] = np.eye(p)[:, : matrix.shape[1] - t]
    return matrix


@dataclass(eq=False, repr=False)
class GaussianProcess(Summarized, Fitted, RegressorMixin, BaseEstimator):
    """Gaussian-process regression: y = trend(x) + f(x) + noise.

    Printed, or shown in a notebook, a fitted model says what was learned, see ``docs/what_was_learned.md``. Subclasses
    add their parameters, and say by `_recipe` what these describe.

    Parameters
    ----------
    kernel : Kernel, str, list of str or None
        A kernel is used as it is, but for parameters with a pair of bounds, which are learned. A name, such as
        "matern32" or "matern12+gaussian", "auto" for "matern12+matern52+gaussian" (of one column also with a season),
        or several, of which the one is taken that predicts best: learned from all rows, see `lmgp.learn`. None:
        "gaussian".
    noise_variance : float, optional
        In squared units of y; learned likewise if not given.
    trend : {"constant", "linear"} or list of int or str, default="constant"
        The mean function: the weighted mean of y, an intercept and a slope for each column, or for these columns; see
        `ExactGPRegressor`.
    ard : bool or "auto", default=False
        Whether a learned kernel has one lengthscale a column; "auto" is True.
    max_learning_rows : int, default=2000
        The largest number of rows whose exact likelihood is maximised. Of more rows, Vecchia's is maximised, or the
        exact one of a random sample of this size where the kernel has no lengthscale.
    noise : {"normal", "student", "varying", "robust", "auto"}, default="normal"
        The distribution of new observations around what the process predicts, see `lmgp.distributions`. "student": a
        Student t; "varying": a t whose scale is a second Gaussian process; "robust": these in a fit to weighted
        rows, of one target, so that outliers bend the mean less; `noise_variance_` is the square of the scale, known to
        a factor of four, of the t by which rows are weighted, and `noise_` has that of new observations. "auto": what
        predicts rows left out best. With each of these but "normal", kernel and noise variance are learned under a t
        where errors have heavy tails.
    max_memory_gib : float, default=4.0
        Memory for the matrices of the model, in GiB. A model that needs more is refused before they are made.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Draws the map, if there is one. What is learned does not depend on it.

    Attributes
    ----------
    kernel_ : Kernel
    noise_variance_ : float
    center_ : float
        The mean of y, weighted by `sample_weight`, and by a robust fit; or the `center` that `fit` was given.
    noise_ : lmgp.distributions.ObservationNoise
        The distribution of new observations, and what was tried to choose it. Printed, it is a table.
    trend_ : TrendEstimate or None
        The coefficients of the trend and their covariance, in the units of X and y; None of a constant.
    learning_ : Learning
        What was tried to learn the hyperparameters. Printed, it is a table.
    importance_, importance_error_ : ndarray of shape (d,)
        How much each column matters, and the standard error: by how much the R² of rows left out falls when the values
        of the column are shuffled among them. About 0 for a column that says nothing; it may exceed 1. Of up to 512
        rows, predicted from the others by `kernel_`; for 10 rows or more.
    inverse_lengthscales_ : ndarray
        One over the lengthscale of each column that the kernel sees, that of a sum's `metric`, in standard deviations
        of the column: how often the function may turn over them. 0 for a constant column. For kernels with a
        lengthscale. These columns are those of X; of a `GPRegressor`, what `columns_` makes of them.
    n_features_in_ : int
        The number of input columns, d.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **CONSTRAINTS,
        "trend": [StrOptions({"constant", "linear"}), "array-like"],
    }

    # No metadata but options: pipelines pass them on where metadata are routed.
    __metadata_request__fit: ClassVar = {"verbose": True}
    __metadata_request__predict: ClassVar = PREDICT_OPTIONS

    _: KW_ONLY
    kernel: Wanted = None
    noise_variance: float | None = None
    trend: TrendColumns = "constant"
    ard: Ard = False
    max_learning_rows: int = 2000
    noise: NoiseName = "normal"
    max_memory_gib: float = 4.0
    random_state: RandomState = None

    kernel_ = OfFit[Kernel]()
    noise_variance_ = OfFit[float]()
    learning_ = OfFit[Learning]()
    scales_ = OfFit[Floats]()
    recipe_ = OfFit[Recipe]()

    _fitted: Fit = field(init=False)

    # Whether a fit chooses a trend and a model.
    _chooses: ClassVar[bool] = False

    # What the parameters describe, for a number of rows and a kernel: a method of each subclass that chooses no recipe.
    _recipe: ClassVar[Callable[..., Recipe]]

    def _validate_params(self) -> None:
        check_kernel(self.kernel, type(self).__name__)
        super()._validate_params()

    def _chosen(
        self, rows: Rows, learned: Learned, trend: Trend, rng: np.random.Generator
    ) -> tuple[Recipe, np.random.Generator, Selection | None]:
        """Return the recipe for rows with targets z, what draws its map, and what was tried to choose it."""
        return self._recipe(len(rows), learned.kernel), rng, None

    def _state(self, name: str = "model") -> Fit:
        """Return the fitted state, solved."""
        if "_fitted" not in vars(self):
            raise AttributeError(f"{type(self).__name__} has no {name}: it is not fitted.")
        return self._fitted.solved

    def _solution(self, name: str = "model") -> tuple[Fit, Posterior]:
        """Return the fitted state and its posterior: rows may come meanwhile in another thread."""
        fit = self._state(name)
        assert fit.posterior is not None  # of a solved state
        return fit, fit.posterior

    def _posterior(self, name: str = "model") -> Posterior:
        return self._solution(name)[1]

    def _process(self, name: str = "model") -> Any:
        """Return the posterior without a trend, which is of the recipe of the model."""
        return untrended(self._posterior(name))

    def _of_targets(self, values: Any) -> Any:
        """Return values of all targets, or the only one of a y of shape (n,)."""
        return values[0] if self._fitted.target_names is None else values

    @property
    def center_(self) -> float | Floats:
        """The weighted mean of y, or the `center` that `fit` was given; of several targets, that of each."""
        centers = self._state("center_").centers
        return self._of_targets(centers.tolist() if self._fitted.target_names is None else centers)

    @property
    def noise_variances_(self) -> Floats:
        """The noise variance of new observations of each target, in its squared units, shape (t,)."""
        fit = self._state("noise_variances_")
        return fit.noise_variance * np.square(fit.scales)

    @property
    def noise_(self) -> ObservationNoise | tuple[ObservationNoise, ...]:
        """The distribution of new observations; of several targets, that of each."""
        return self._of_targets(self._state("noise_").of_targets)

    @property
    def target_names_(self) -> NDArray[Any]:
        """The names of several targets; "0", "1" and so on of an array."""
        names = self._state("target_names_").target_names
        if names is None:
            raise AttributeError(f"{type(self).__name__} has no target_names_: y has one target, of shape (n,).")
        return names

    @property
    def importance_(self) -> Floats:
        """By how much the R² of rows left out falls when each column is shuffled, (d,); of several targets, (t, d)."""
        return np.asarray(self._of_targets(self._importances("importance_")[0]))

    @property
    def importance_error_(self) -> Floats:
        """The standard errors of `importance_`, of the same shape."""
        return np.asarray(self._of_targets(self._importances("importance_error_")[1]))

    def _importances(self, name: str) -> Floats:
        fit = self._state(name)
        if fit.importance is None:
            try:
                rows = self._posterior().rows
            except InputError as error:
                raise AttributeError(
                    f"{type(self).__name__} has no {name}: it takes the training rows, and this model has not kept "
                    "them. Fit it in memory, or let fit learn the kernel, which notes what columns matter until rows "
                    "come or go."
                ) from error
            vars(fit)["importance"] = importances(fit, rows, self._table)  # kept, for it takes long
        if fit.importance is None:
            raise AttributeError(f"{type(self).__name__} has no {name}: it takes {FEWEST} training rows at least.")
        return fit.importance

    @property
    def inverse_lengthscales_(self) -> Floats:
        """One over the lengthscale of each column that the kernel sees, in standard deviations of the column."""
        scales = self._state("inverse_lengthscales_").column_scales
        if not self.kernel_.can("metric"):
            raise AttributeError(f"{type(self).__name__} has no inverse_lengthscales_: its kernel has no lengthscale.")
        return scales / self.kernel_.metric(len(scales))

    @property
    def trend_(self) -> TrendEstimate | tuple[TrendEstimate, ...] | None:
        """The estimated trend, in the units of X and y; None of a constant, and one each of several targets."""
        fit, posterior = self._solution("trend_")
        if not isinstance(posterior, Trended):
            return None
        covariance = posterior.coefficients_covariance
        pairs = zip(fit.level.T, fit.scales.tolist(), strict=True)
        return self._of_targets(tuple(fit.trend.estimate(level, scale**2 * covariance) for level, scale in pairs))

    @property
    def log_marginal_likelihood_(self) -> float | Floats:
        """The log marginal likelihood of the training rows at the fitted hyperparameters, in nats."""
        self._state("log_marginal_likelihood_")
        return self.log_marginal_likelihood()

    # As scikit-learn's Gaussian process calls it.
    log_marginal_likelihood_value_ = log_marginal_likelihood_

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
        duplicates: Duplicates = "keep",
        center: ArrayLike | None = None,
        verbose: bool | int = False,
    ) -> Self:
        """Fit the model to training rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,) or (n, t)
            Of several targets, each is a process of its own, with one kernel and one noise variance.
        sample_weight : array-like of shape (n,), optional
            A row of weight w has the noise variance σ²/w, where σ² is that of new rows; zero stands for its absence. A
            row counts once, whatever its weight; but if all weights are whole numbers, each stands for that many equal
            rows, and as these agree to the last digit, a learned noise variance becomes small.
        noise_variances : array-like of shape (n,), optional
            A noise variance for each row, in squared units of y. The parameter `noise_variance` then is the noise of
            new rows only; where it is not given, it is the weighted mean of these.
        duplicates : {"keep", "average", "drop"}, default="keep"
            What becomes of rows with equal X. "average": one row each, with the mean of their y and the noise of a mean
            of this number. Hyperparameters are learned from all rows before, and the predictions are those of "keep",
            from fewer rows, but for those of nearest rows and residual models, where a mean takes one place among the
            neighbours. "drop": of rows with equal X and y one is kept, of weight 1 at most, before anything is learned:
            for copies by accident.
        center : float or array-like of shape (t,), optional
            A mean of y that is known; the weighted mean of these rows if not given. A trend takes its place.
        verbose : bool or int, default=False
            1: show on standard error how far the fit is, as a bar on a terminal and in a notebook, and elsewhere as a
            line for each stage. 2: show also each kernel and each model that is tried.

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
        ColumnWarning
            If a kernel that is given has a period that is longer than the record.
        OutlierWarning
            If one row makes most of the standard deviation of a column, and a kernel that was named is learned.
        DuplicateRowsWarning
            If exact copies of rows make the learned noise variance too small.
        """
        with unchanged_on_failure(self), shown(verbose or getattr(self, "verbose", False)):
            self._validate_params()
            noise = checked_noise(self.noise)
            self._fit_normal(X, y, sample_weight, noise_variances, duplicates, center)
            if noise != "normal":
                self._fitted = with_noise(self._fitted, noise)
            if not self._all_given:  # a small part of the time that learning takes
                rows = self._posterior().rows
                noted = importances(self._fitted, rows, self._table)
                variances = row_variances(self._fitted.kernel, rows.X)
                self._fitted = replace(self._fitted, importance=noted, variances=variances)
        return self

    def _fit_normal(
        self, X: Any, y: Any, sample_weight: Any, noise_variances: Any, duplicates: Duplicates, center: Any
    ) -> None:
        """Fit with normal noise, without what is told of the fit afterwards."""
        check_duplicates(duplicates)
        refuse_chunks(self, X, y)
        inputs, target = self._read_pair(X, y)
        rows = check_rows(self._coordinates(inputs), target, sample_weight, noise_variances)
        names = named_targets(y, target)
        self._check_first(rows, names)
        if not self._all_given:
            settings = self._settings(rows.X.shape[1], CONSTANT_TREND)
            plan = expected_seconds(rows, settings, self.noise != "normal", self._chooses)
            foreseen(plan, f"a fit to {len(rows):,} rows of {inputs.shape[1]} columns")
        # A copy: what becomes of the caller's arrays later changes no model.
        rows = self._adapted((dropped(rows) if duplicates == "drop" else rows).copy())
        if isinstance(self.kernel, Kernel):
            kernel = self._given_kernel(rows.X.shape[1])
            warn_of_long_periods(kernel, rows.X, self._names())
        else:
            named = getattr(self, "feature_names_in_", None)
            warn_of_outlying_rows(inputs, named, self._table.as_they_are)
        centers, drawing = known_centers(center, rows), drawing_of(self.random_state)
        fit, rows, rng = self._frozen(rows, names, centers, center is not None, drawing, in_memory=True)
        rows = averaged(rows) if duplicates == "average" else rows
        targets = combination(fit.trend, np.zeros_like(fit.level), fit.scales)
        n_trend = fit.trend.n_columns if fit.trend.estimated else 0
        sums, posterior = fit.recipe.condition(fit.kernel, fit.noise_variance, rows, targets, rng, n_trend)
        self._fitted = self._finished(replace(fit, sums=sums), posterior, rows.with_targets(rows.Y @ targets))

    def _frozen(
        self,
        rows: Rows,
        names: NDArray[Any] | None,
        centers: Floats,
        given: bool,
        drawing: np.random.Generator,
        in_memory: bool = False,
    ) -> tuple[Fit, Rows, np.random.Generator]:
        """Learn what is not given from rows of y as it is.

        Parameters
        ----------
        rows : Rows
        names : ndarray of shape (t,) or None
            Of several targets.
        centers : ndarray of shape (t,)
            The means of y.
        given : bool
            Whether they are known.
        drawing : numpy.random.Generator
            Draws the map.
        in_memory : bool, default=False
            Whether these are all rows, which may then be weighted, and no sample of a stream.

        Returns
        -------
        fit : Fit
            Without a posterior.
        rows : Rows
            With the targets [y − hᵀlevel | h].
        rng : numpy.random.Generator
            Draws what the recipe needs.
        """
        trend, coefficients, residuals, scales, learned = self._learned(rows.with_targets(rows.Y - centers))
        robust = self._robust(residuals, learned) if in_memory else None
        level, h = np.eye(trend.n_columns, 1) * centers + coefficients, np.ones((len(rows), 1))
        if robust is not None:
            residuals, share = robust.rows, robust.noise_variance / learned.noise_variance
            average = tuple(drawn._replace(noise_variance=share * drawn.noise_variance) for drawn in learned.average)
            learned = replace(learned, noise_variance=robust.noise_variance, average=average)
            centers = centers if given else replace(rows, weights=residuals.weights).means  # as sums have them
            if not trend.estimated:
                level, residuals = centers[None], residuals.with_targets(rows.Y - centers)
        of_learning = residuals.with_targets(residuals.Y / scales)
        if trend.estimated:  # columns of the size of the targets, so that both are solved equally well
            squares = np.average(np.square(of_learning.Y), axis=0, weights=rows.weights)
            unit = float(np.sqrt(squares.mean())) or 1.0
            trend, level = replace(trend, unit=unit), level / unit
            h = trend.columns(rows.X)
        recipe, drawing, selection = self._chosen(of_learning, learned, trend, drawing)
        recipe.check(learned.kernel, rows.X.shape[1])
        fit = Fit(
            learned.kernel, learned.noise_variance, trend, level, centers, scales,
            np.abs(of_learning.Y).max(axis=0), column_deviations(rows), learned.learning,
            recipe, learned.converged, given, names, None,
            origin=level, selection=selection, average=learned.average, robust=robust and robust.gain,
        )  # fmt: skip
        return fit, residuals.with_targets(np.column_stack((residuals.Y, h))), drawing

    def _robust(self, residuals: Rows, learned: Learned) -> RobustRows | None:
        """Return the rows of one target weighted, where outliers are to bend the fit less."""
        wanted = self.noise == "robust"
        tried = self.noise == "auto" and not self._all_given and residuals.n_targets == 1
        most = math.inf if learned.kernel.can("metric") else max_rows_within(self.max_memory_gib)
        if not (wanted or tried) or not FEWEST_ROWS <= len(residuals) <= most:
            return None
        stage("weights", "looking for outliers among %s rows", f"{len(residuals):,}")
        learns_noise = self.noise_variance is None and residuals.noise_variances is None
        return robust_rows(residuals, learned.kernel, learned.noise_variance, learns_noise, wanted)

    def _finished(self, fit: Fit, posterior: Posterior, rows: Rows) -> Fit:
        """Return the fitted state with the posterior of rows in memory, and its trend."""
        return self._rescaled(fit.conditioned(posterior, fit.level, rows, self.max_memory_gib), rows)

    def _scales(self, residuals: Rows) -> Floats:
        """Return what several targets are divided by while their kernel is learned, shape (t,)."""
        shared = isinstance(self.kernel, Kernel) or self.noise_variance is not None
        if residuals.n_targets == 1 or shared or residuals.noise_variances is not None:
            return np.ones(residuals.n_targets)
        return np.sqrt(np.average(np.square(residuals.Y), axis=0, weights=residuals.weights))

    def _rescaled(self, fit: Fit, rows: Rows) -> Fit:
        """Return the state with the likeliest scale of each target beside the learned kernel, yᵀC⁻¹y/n in squares."""
        if np.all(fit.scales == 1.0):
            return fit
        posterior, alone = fit.posterior, rows.with_targets(rows.Y[:, : len(fit.scales)])
        products = None if posterior is None else posterior.products()
        if posterior is None and (len(rows) <= self.max_learning_rows or not fit.kernel.can("metric")):  # of a sample
            alone = alone.take(sampling().permutation(len(rows))[: self.max_learning_rows])
            products = ExactPosterior(fit.kernel, alone, Noise(fit.noise_variance)).products()
        if products is not None:
            squares = products.diagonal() / alone.n_observations
        else:
            squares = mean_squares(alone, fit.kernel, fit.noise_variance) * (len(alone) / alone.n_observations)
        ratios = np.sqrt(squares)
        return replace(
            fit, posterior=None if posterior is None else posterior.combined(np.diag(1.0 / ratios)),
            scales=fit.scales * ratios, farthest=fit.farthest / ratios,
        )  # fmt: skip

    def _check_first(self, rows: Rows, names: NDArray[Any] | None) -> None:
        """Refuse rows that the kernel does not fit, or from which nothing can be learned; warn of their scales."""
        if isinstance(self.kernel, Kernel):
            self._given_kernel(rows.X.shape[1]).checked(rows.X.shape[1])
        if self._learns(rows):
            for j in np.flatnonzero(np.ptp(rows.Y, axis=0) == 0.0):
                which = "y" if names is None else f"Target {str(names[j])!r}"
                raise InputError(
                    f"{which} is constant (all {rows.Y[0, j]:g}): no hyperparameters can be learned from it. Check "
                    "the target, or give both kernel and noise_variance."
                )
        if self.noise == "robust" and rows.n_targets > 1:
            raise InputError(
                f"noise='robust' weights the rows of one target; got {rows.n_targets}. Use MultiTargetGPRegressor, "
                "which fits each by its own, or noise='auto'."
            )
        # One learned lengthscale serves all columns as they come; what chooses learns in their standard deviations.
        cure = "Standardise them (sklearn.preprocessing.StandardScaler, in a pipeline), "
        if isinstance(self.kernel, Kernel):
            learned = [p for p in self.kernel.parameters if p.kind == "lengthscale" and p.bounds is not None]
            if any(p.value.ndim == 0 and p.columns is None for p in learned):
                warn_of_scales(rows, self._names(), f"{cure}or give the kernel one lengthscale a column.")
        elif not (self._chooses or self.ard):
            cure += "set ard=True, or use GPRegressor, which takes columns as they come."
            warn_of_scales(rows, self._names(), cure)

    def _learns(self, rows: Rows) -> bool:
        """Say whether targets without spread cannot be fitted."""
        return not isinstance(self.kernel, Kernel) or (self.noise_variance is None and rows.noise_variances is None)

    def _read(self, X: ArrayLike) -> Floats:
        """Return the columns of new rows as numbers, shape (n, d)."""
        return validated(self, X, reset=False)

    def _read_pair(self, X: ArrayLike, y: ArrayLike | None, reset: bool = True) -> tuple[Floats, Floats]:
        """Return the columns and the targets of rows as numbers: of training rows with `reset`."""
        if not reset and "_fitted" in vars(self):
            refuse_other_targets(y, self._fitted.target_names)
        return validated_pair(self, X, y, reset=reset, ensure_min_samples=2 if reset else 1)

    @property
    def _table(self) -> Columns:
        """What all columns have become."""
        return Columns.of_numbers(self.n_features_in_, getattr(self, "feature_names_in_", None))

    def _adapted(self, rows: Rows) -> Rows:
        """Return training rows with what the target tells of columns."""
        return rows

    def _coordinates(self, X: Floats) -> Floats:
        """Return the columns that the kernel sees, of columns as they come."""
        return self._table.coordinates(X)

    def _trend_inputs(self) -> NDArray[np.intp] | None:
        """Return the columns of X that have a slope in the trend that was asked for; None of a constant."""
        return chosen_columns(self.trend, getattr(self, "feature_names_in_", None), self.n_features_in_)

    def _trend_columns(self) -> NDArray[np.intp] | None:
        """Return the columns of the trend, among those that the kernel sees; None of a constant."""
        index = self._trend_inputs()
        if index is None:
            return None
        places = self._table.slopes(index)
        return np.sort(places) if isinstance(self.trend, str) else places

    def _names(self) -> Sequence[str] | None:
        """Return the names of the columns that the kernel sees, if they have names."""
        named, table = getattr(self, "feature_names_in_", None), self._table
        return named if table.is_plain else table.coordinate_names

    def _given_kernel(self, n_inputs: int) -> Kernel:
        """Return the kernel that was given, with the indices of columns that it names."""
        assert isinstance(self.kernel, Kernel)
        return self.kernel.with_indices(self._names(), n_inputs)

    @property
    def _all_given(self) -> bool:
        """Whether nothing is learned: no parameter of the kernel was declared free, by a pair of bounds."""
        kernel_given = isinstance(self.kernel, Kernel) and all(p.bounds is None for p in self.kernel.parameters)
        return kernel_given and self.noise_variance is not None

    def _learned(self, rows: Rows) -> Detrended:
        """Learn from rows with centred targets, less the trend."""
        return self._detrended(rows, self._trend_columns())

    def _detrended(self, rows: Rows, columns: NDArray[np.intp] | None) -> Detrended:
        """Learn from rows with centred targets less a trend in some columns that the kernel sees."""
        trend, coefficients = CONSTANT_TREND, np.zeros((1, rows.n_targets))
        if columns is not None:
            trend = Trend.of(rows, columns, self._names())
            coefficients = trend.least_squares(rows)
            rows = rows.with_targets(rows.Y - trend.columns(rows.X) @ coefficients)
            if self._learns(rows):
                trend.check_residuals(rows, coefficients)
        scales = self._scales(rows)
        learned = self._learn(rows.with_targets(rows.Y / scales), trend)
        return Detrended(trend, coefficients, rows, scales, learned)

    def _learn(self, rows: Rows, trend: Trend) -> Learned:
        """Return the hyperparameters: as given, and learned where they are not."""
        if self._all_given:
            kernel = clone(self._given_kernel(rows.X.shape[1]))
            return Learned(kernel, float(self.noise_variance), float("nan"), True)  # type: ignore[arg-type]
        return learn_warned(rows, self._settings(rows.X.shape[1], trend))

    def _settings(self, n_inputs: int, trend: Trend) -> Settings:
        """Say what is to be learned from rows of `n_inputs` columns, less a trend."""
        return Settings(
            kernel=self._given_kernel(n_inputs) if isinstance(self.kernel, Kernel) else self.kernel,
            ard=self.ard if isinstance(self.ard, str) else bool(self.ard),
            noise_variance=None if self.noise_variance is None else float(self.noise_variance),
            standardize=False,
            max_learning_rows=self.max_learning_rows,
            max_memory_gib=self.max_memory_gib,
            tails=self.noise != "normal",
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
            Whether that, and the covariance, are of new observations y, with their noise, instead of the latent
            function f. Off by default, as in scikit-learn: `predict` estimates f.
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
        mean : ndarray of shape (n,) or (n, t)
            In units of y.
        std : ndarray of shape (n,) or (n, t)
            In units of y; only with `return_std`.
        cov : ndarray of shape (n, n) or (n, n, t)
            In squared units of y; only with `return_cov`.
        error : ndarray of shape (n,) or (n, t)
            The estimated KL(this prediction ‖ the exact GP's), with noise, in nats; only with `return_error`. An
            expectation, best averaged over rows: see the notes of `lmgp.posteriors.weights.expected_divergence`.

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
            If means are impossible under the model itself, see `lmgp.estimators.warned`; the message names the cure.
        """
        check_is_fitted(self)
        if dask_kind(X) is not None:
            from lmgp.estimators.lazily import predicted_lazily

            rows_of_batch(0, 1, batch_size, verbose)  # says at once if that is none
            options = {"return_std": return_std, "include_noise": include_noise, "return_error": return_error}
            return predicted_lazily(self, X, **options, return_cov=return_cov, batch_size=batch_size)
        inputs, (fit, posterior) = self._read(X), self._solution()
        # Of a covariance, the diagonal has the variances.
        alone = return_std and not return_cov
        means, variances, errors = self._in_batches(fit, inputs, alone, return_error, batch_size, verbose)
        result = [means]
        if return_cov:
            effects = self._effects(fit, inputs)
            covariance = posterior.covariance(self._coordinates(inputs))
            covariance = (covariance + effects @ effects.T if effects.size else covariance)[..., None]
            covariance = covariance * np.square(fit.scales)
            deviations = np.sqrt(np.einsum("iij->ij", covariance))
            if include_noise:
                normal = np.sqrt(np.square(deviations) + self.noise_variances_)
                deviations = self._deviations(inputs, means, deviations)
                if fit.noises:  # correlations are those of the process with normal noise
                    covariance *= (deviations / normal)[:, None] * (deviations / normal)
                covariance[np.diag_indices(len(inputs))] = np.square(deviations)
            result += [deviations, covariance] if return_std else [covariance]
        elif variances is not None:
            latent = np.sqrt(variances)[:, None] * fit.scales
            result.append(self._deviations(inputs, means, latent) if include_noise else latent)
        if errors is not None:
            result.append(errors)
        if fit.target_names is None:
            result = [values[..., 0] for values in result]
        return result[0] if len(result) == 1 else tuple(result)

    def _deviations(self, X: Floats, means: Floats, latent: Floats) -> Floats:
        """Return the standard deviation of new observations of each target, from that of the function, (m, t)."""
        fit = self._state()
        std = np.sqrt(np.square(latent) + self.noise_variances_)
        factors = [noise.student.deviation for noise in fit.of_targets]
        return fit.observed(self._coordinates(X), means, std) * factors

    def _in_batches(
        self, fit: Fit, X: Floats, variance: bool, error: bool, batch_size: int | None, verbose: bool
    ) -> tuple[Floats, Floats | None, Floats | None]:
        """Return the means of y, and the variances of z and errors where they are asked for."""
        n, t, posterior = len(X), len(fit.scales), fit.posterior
        assert posterior is not None  # of a solved state
        size = rows_of_batch(n, X.shape[1] + t - 1, batch_size, verbose)
        means, process = np.empty((n, t)), np.empty((n, t))
        variances, errors = np.empty(n) if variance else None, np.empty((n, t)) if error else None
        with counted(n, "Prediction", "rows", verbose, delay=DELAY) as bar:
            for start in range(0, n, size):
                part = slice(start, min(start + size, n))
                rows = self._coordinates(X[part])
                # First, so that a model without one says so before it predicts.
                if errors is not None:
                    errors[part] = self._error(posterior, rows)
                process[part], latent = posterior.predict(rows, variance)
                means[part] = fit.means(rows, process[part])
                if variances is not None and latent is not None:
                    variances[part] = latent + np.square(self._effects(fit, X[part])).sum(axis=1)
                bar.update(len(rows))
        self._warn_of_implausible(fit, posterior, X, process)
        return means, variances, errors

    def _effects(self, fit: Fit, X: Floats) -> Floats:
        """Return the standard deviation of z by the effect of each unseen category of columns of many, (n, k)."""
        assert fit.posterior is not None  # of a solved state
        deviations = [np.zeros((len(X), 0))]
        for unseen, *ends in self._table.unseen_effects(X):
            above, below = (fit.means(rows, fit.posterior.predict(rows, False)[0]) for rows in ends)
            column = np.zeros((len(X), 1))
            column[unseen] = 0.5 * (above - below) / fit.scales
            deviations.append(column)
        return np.hstack(deviations)

    def _error(self, posterior: Posterior, X: Floats) -> Floats:
        """Return the stated divergence from the exact process of each row and target, shape (m, t)."""
        return posterior.error(X)

    def _warn_of_implausible(self, fit: Fit, posterior: Posterior, X: Floats, process: Floats) -> None:
        """Warn of means of z that contradict the model."""
        for j, means in enumerate(process.T):
            (far,) = np.nonzero(np.abs(means) > TARGET_RANGES * fit.farthest[j])
            if not len(far):
                continue
            rows = self._coordinates(X[far])
            prior, surprise = posterior.prior_variance(rows), posterior.surprise(rows)[:, j]
            told = implausible(means, far, float(fit.farthest[j]), prior, surprise)
            if told is not None:
                which = "" if fit.target_names is None else f"Target {str(fit.target_names[j])!r}, in its scale: "
                cure = posterior.cure(self._coordinates(X[:1]))
                warn(f"{which}{told} {cure}", ImplausibleMeanWarning)

    def predict_distribution(
        self, X: ArrayLike, include_noise: bool = True, batch_size: int | None = None, verbose: bool = False
    ) -> Any:
        """Predict distributions.

        Parameters
        ----------
        X : array-like of shape (n, d)
        include_noise : bool, default=True
            Whether of a new observation y, with its noise, instead of the latent function f. On by default: y is what
            will be observed.
        batch_size : int, optional
        verbose : bool, default=False
            See `predict`.

        Returns
        -------
        scipy.stats.distributions.rv_frozen
            Of shape (n,) or (n, t), in units of y: `scipy.stats.norm`, or `scipy.stats.t` where noise is not normal. It
            has the methods mean, std, logpdf, cdf, ppf, interval and rvs, among others.

        Raises
        ------
        ValueError
            As `predict`.

        Examples
        --------
        >>> import numpy as np
        >>> from lmgp import ExactGPRegressor, GaussianKernel
        >>> rng = np.random.default_rng(0)
        >>> X = np.linspace(0, 6, 200)[:, None]
        >>> y = np.sin(X[:, 0]) + 0.1 * rng.standard_t(3, 200)
        >>> model = ExactGPRegressor(GaussianKernel(1.0), 0.03, noise="student").fit(X, y)
        >>> model.noise_.degrees < 10
        True
        >>> observed = model.predict_distribution([[1.0], [2.0]])
        >>> bool(np.all(observed.interval(0.95)[0] < np.sin([1.0, 2.0])))
        True
        """
        return self._distributions(X, include_noise, batch_size, verbose)[0]

    def _distributions(
        self, X: ArrayLike, include_noise: bool = True, batch_size: int | None = None, verbose: bool = False
    ) -> tuple[Any, Floats]:
        """Return the distributions of rows, and the standard deviations of the function."""
        check_is_fitted(self)
        refuse_what_is_no_table(X, "X")  # as dask collections are, of which means and intervals alone are lazy
        inputs, fit = self._read(X), self._state()
        means, variances, _ = self._in_batches(fit, inputs, True, False, batch_size, verbose)
        assert variances is not None  # they were asked for
        latent = np.sqrt(variances)[:, None] * fit.scales
        scales, degrees = latent, np.full(len(fit.scales), np.inf)
        if include_noise:
            std = np.sqrt(np.square(latent) + self.noise_variances_)
            scales, degrees = fit.observed(self._coordinates(inputs), means, std), fit.degrees
        if fit.target_names is None:
            means, latent, scales, degrees = means[:, 0], latent[:, 0], scales[:, 0], degrees[0]
        return distribution(degrees, means, scales), latent

    def _located(self, X: ArrayLike, include_noise: bool, batch_size: int | None) -> tuple[Floats, Floats, Floats]:
        """Return the location and the scale of distributions, (n,) or (n, t), and degrees of freedom, () or (t,)."""
        means, std = self.predict(X, return_std=True, include_noise=include_noise, batch_size=batch_size)
        noises = self._state().of_targets if include_noise else (ObservationNoise(),) * len(self._fitted.scales)
        deviations, degrees = np.array([(noise.student.deviation, noise.degrees) for noise in noises]).T
        return means, std / self._of_targets(deviations), self._of_targets(degrees)

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
            Whether of a new observation y, with its noise, instead of the latent function f. On by default: y is what
            will be observed.
        batch_size : int, optional
            See `predict`.

        Returns
        -------
        ndarray of shape (n,) or (n, q), of several targets (n, t) or (n, t, q)
            In units of y; one column for each quantile where several are asked for.

        Raises
        ------
        ValueError
            As `predict`, and if a quantile is not strictly between 0 and 1.
        """
        refuse_what_is_no_table(X, "X")
        levels = checked_probabilities(quantile)
        mean, scale, degrees = self._located(X, include_noise, batch_size)
        quantiles: Floats = mean[..., None] + scale[..., None] * student_t.ppf(levels.ravel(), degrees[..., None])
        return quantiles if levels.ndim else quantiles[..., 0]

    def predict_interval(
        self,
        X: ArrayLike,
        level: float = 0.95,
        include_noise: bool = True,
        batch_size: int | None = None,
        method: Literal["distribution", "conformal"] = "distribution",
    ) -> tuple[Floats, Floats]:
        """Predict central intervals.

        Parameters
        ----------
        X : array-like of shape (n, d)
        level : float, default=0.95
            The probability of the interval, strictly between 0 and 1.
        include_noise : bool, default=True
            Whether of a new observation y, with its noise, instead of the latent function f. On by default: y is what
            will be observed.
        batch_size : int, optional
            See `predict`.
        method : {"distribution", "conformal"}, default="distribution"
            "distribution": quantiles of `predict_distribution`. "conformal": from the ranks of rows left out, relative
            to the predicted scale. The interval then has the probability for rows that are exchangeable with these,
            whatever their distribution is.

        Returns
        -------
        lower, upper : ndarray of shape (n,) or (n, t)
            In units of y.

        Raises
        ------
        ValueError
            As `predict`, and if the level is not strictly between 0 and 1, or no rows, or too few, were left out for
            conformal intervals.

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
        tail = 0.5 - 0.5 * checked_level(level)
        mean, scale, degrees = self._located(X, include_noise, batch_size)
        if method == "distribution":
            half_width = scale * -student_t.ppf(tail, degrees)
        elif method == "conformal" and include_noise:
            widths = [noise.conformal_width(float(level)) for noise in self._fitted.of_targets]
            half_width = scale * self._of_targets(np.array(widths))
        else:
            raise InputError(
                "method must be 'distribution' or, with include_noise=True, 'conformal'; got "
                f"method={method!r}, include_noise={include_noise}."
            )
        return mean - half_width, mean + half_width

    def predict_exceedance(
        self, X: ArrayLike, threshold: ArrayLike, include_noise: bool = True, batch_size: int | None = None
    ) -> Floats:
        """Predict the probability of a value above a threshold.

        Parameters
        ----------
        X : array-like of shape (n, d)
        threshold : float or array-like of shape (n,)
            One for all rows, or one a row, in units of y. Of several targets, one for all, (t,) or (n, t).
        include_noise : bool, default=True
            Whether of a new observation y, with its noise, instead of the latent function f. On by default: y is what
            will be observed.
        batch_size : int, optional
            See `predict`.

        Returns
        -------
        ndarray of shape (n,) or (n, t)
            P(y > threshold), between 0 and 1; accurate in its relative error where it is small.

        Raises
        ------
        ValueError
            As `predict`, and if the threshold is no finite number, or there is another number of them than of rows.
        """
        refuse_what_is_no_table(X, "X")
        limits = numbers(threshold, "threshold")
        mean, scale, degrees = self._located(X, include_noise, batch_size)
        if mean.ndim > 1:
            limits = limits_of_targets(limits, mean.shape[1])
        if limits.ndim > mean.ndim or (limits.ndim == mean.ndim and limits.shape != mean.shape):
            raise InputError(
                f"threshold must be one number, or one a row, shape ({len(mean)},); got shape {limits.shape}. For "
                "several thresholds ask once for each."
            )
        # Without any uncertainty the value is the mean.
        certain = np.where(mean > limits, np.inf, -np.inf)
        return student_t.cdf(np.divide(mean - limits, scale, out=certain, where=scale > 0.0), degrees)

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
            Whether to draw new observations y, with their noise, instead of the latent function f. Off by default, as
            in scikit-learn: a draw is a function. Where the distribution of y is not normal, each row has that of
            `predict_distribution`, and rows the rank correlations of the process with its noise.

        Returns
        -------
        ndarray of shape (n, n_samples) or (n, t, n_samples)
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
        checked_count(n_samples, "n_samples must be a positive integer")
        inputs, rng = self._read(X), generator(random_state)
        rows, (fit, posterior) = self._coordinates(inputs), self._solution()
        effects = self._effects(fit, inputs)
        shaped = include_noise and bool(fit.noises)  # whose marginals are others than those of normal draws
        process, variances = posterior.predict(rows, shaped)
        means, n_samples = fit.means(rows, process), int(n_samples)
        drawn = np.empty((len(rows), len(fit.scales), n_samples))
        for j, scale in enumerate(fit.scales):
            if variances is None:
                left = posterior.sample(rows, n_samples, rng)
            else:
                left = posterior.scores(rows, n_samples, rng) * np.sqrt(variances + fit.noise_variance)[:, None]
            left += effects @ rng.standard_normal((effects.shape[1], n_samples))
            drawn[:, j] = means[:, j, None] + scale * left
        if variances is not None:
            variances = variances + np.square(effects).sum(axis=1)
            std = np.sqrt(variances + fit.noise_variance)[:, None] * fit.scales
            scores = (drawn - means[..., None]) / std[..., None]
            tails = student_t.isf(ndtr(-np.abs(scores)), fit.degrees[:, None])
            drawn = means[..., None] + fit.observed(rows, means, std)[..., None] * np.copysign(tails, scores)
        elif include_noise:
            drawn += np.sqrt(self.noise_variances_)[:, None] * rng.standard_normal(drawn.shape)
        return drawn[:, 0] if fit.target_names is None else drawn

    def calibrate(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        noise_variances: ArrayLike | None = None,
    ) -> Self:
        """Fit the distribution of new observations to rows that had no part in the fit.

        For rows unlike those that a fit leaves out at random, such as those of another time or place, and after many
        rows were added to a model. The process stays as it is.

        Parameters
        ----------
        X : array-like of shape (n, d)
        y : array-like of shape (n,) or (n, t)
        sample_weight, noise_variances : array-like of shape (n,), optional
            As in `fit`.

        Returns
        -------
        self
            With `noise_` of the parameter `noise`, or of "auto" where that is "normal" or "robust".

        Raises
        ------
        ValueError
            As `fit`; `lmgp.errors.InputError`, which is one, if there are fewer than 30 rows.
        """
        check_is_fitted(self)
        (fit, posterior), (inputs, target) = self._solution(), self._read_pair(X, y, reset=False)
        rows = check_rows(self._coordinates(inputs), target, sample_weight, noise_variances, least=1)
        fit.check_targets(rows)
        if len(rows) < FEWEST_ROWS:
            raise InputError(f"calibrate needs {FEWEST_ROWS} rows at least; got {len(rows)}.")
        means, variances = posterior.distribution(rows.X)
        kept = np.broadcast_to(1.0 if sample_weight is None else np.asarray(sample_weight), len(inputs)) > 0.0
        variances = variances + np.square(self._effects(fit, inputs[kept])).sum(axis=1)
        noises = observation_noises(
            [(*fit.in_units(fit.in_scale(rows), means, variances), True)], checked_noise(self.noise)
        )
        if any(noise.is_of_robust_fit for noise in fit.of_targets):
            noises = tuple(noise.of_robust_fit() for noise in noises)
        self._fitted = replace(fit, noises=noises)
        return self

    def log_marginal_likelihood(self, theta: ArrayLike | None = None) -> float | Floats:
        """Return the log marginal likelihood of all training rows, at the fitted hyperparameters or at others.

        Parameters
        ----------
        theta : array-like of shape (n_free,) or (n_free + 1,), optional
            Logarithms of the free parameters of the kernel, as ``kernel_.theta`` has them, and behind them that of the
            noise variance, which stays as it is if left out. The fitted ones if not given.

        Returns
        -------
        float or ndarray of shape (t,)
            log p(y) in nats, of y less its mean or less the estimated trend. That of the exact process of a Cholesky
            factor, of the features of `FeaturizedGPRegressor`, of the blocks of `ResidualGPRegressor`, and of up to
            2,048 modes. Of other models it is Vecchia's approximation, of each row given the nearest 64 rows before it
            in a random order; of more than 20,000 rows, an unbiased estimate of that from 20,000 of them. Where weights
            are no counts, the density of a row with its own noise variance counts once; but of features and of modes,
            that of each row with σ² counts to the power of its weight.

        Raises
        ------
        InputError
            If it takes the training rows, and the model has not all of them: it was loaded or copied without them, or
            fitted to chunks. If `theta` has another length, or the features or blocks are made for one kernel.
        """
        check_is_fitted(self)
        fit, posterior = self._solution()
        given = () if theta is None else hyperparameters_at(fit.kernel, fit.kernels[0].noise_variance, theta)
        n = 0.0 if np.all(fit.scales == 1.0) else posterior.n_observations
        densities = posterior.log_density(*given) - n * np.log(fit.scales)
        return float(densities[0]) if fit.target_names is None else densities

    @property
    def loo_(self) -> LeaveOneOut | tuple[LeaveOneOut, ...]:
        """Leave-one-out predictions of the training rows, see `lmgp.estimators.leave_one_out.LeaveOneOut`.

        Each row is predicted from all others, at the fitted hyperparameters, by closed forms. They are computed when
        they are first asked for, and kept. Of several targets, each has its own.
        """
        return self._of_targets(self._state("loo_").left_out)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def limits_of_targets(threshold: ArrayLike, n_targets: int) -> Floats:
    """Return thresholds of several targets, with an axis for the targets behind that of the rows.

    Raises
    ------
    InputError
        If they are not one number, one a target, or one a row and target.
    """
    limits = numbers(threshold, "threshold")
    if limits.ndim > 2 or (limits.ndim and limits.shape[-1] != n_targets):
        raise InputError(
            f"threshold must be one number, one a target, shape ({n_targets},), or one a row and target, shape "
            f"(n, {n_targets}); got shape {limits.shape}."
        )
    return np.broadcast_to(limits, (*limits.shape[:-1], n_targets))


def checked_probabilities(quantile: ArrayLike) -> Floats:
    """Return the probabilities of one or several quantiles."""
    levels = numbers(quantile, "quantile")
    if levels.ndim > 1 or not np.all((levels > 0.0) & (levels < 1.0)):
        raise InputError(
            f"quantile must be a number strictly between 0 and 1, or several; got {quantile!r}. For the value that "
            "9 of 10 observations do not exceed give 0.9."
        )
    return levels


def rows_of_batch(n: int, d: int, batch_size: int | None, verbose: bool) -> int:
    """Return the number of rows of a batch."""
    if batch_size is not None:
        asked = "batch_size must be a positive number of rows, or None for as many as a memory budget allows"
        return checked_count(batch_size, asked)
    size = max(1, BATCH_BYTES // (8 * (4 * d + NUMBERS)))
    return min(size, max(LEAST_BATCH, -(-n // STEPS))) if verbose else size


def numbers(values: ArrayLike, name: str) -> Floats:
    """Return one or several finite numbers as an array."""
    array = floats(values)
    if isinstance(values, bool | str) or not array.size or not np.all(np.isfinite(array)):
        raise InputError(f"{name} must be a finite number, or several; got {values!r}.")
    return array


def hyperparameters_at(kernel: Kernel, noise_variance: float, theta: ArrayLike) -> tuple[Kernel, float]:
    """Return the kernel and the noise variance of logarithms."""
    n_free, values = len(kernel.theta), floats(theta)
    if values.shape not in ((n_free,), (n_free + 1,)) or not np.all(np.isfinite(values)):
        free = ", ".join(parameter.name for parameter in kernel.free_parameters)
        raise InputError(
            f"theta must have the logarithms of the {n_free} free parameters of the kernel, {free}, as kernel_.theta "
            f"has them, or of these and the noise variance; got {theta!r}."
        )
    with np.errstate(over="ignore"):
        noise = noise_variance if len(values) == n_free else float(np.exp(values[-1]))
    return kernel.with_theta(values[:n_free]), noise
