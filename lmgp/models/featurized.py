"""Gaussian processes in feature space: D × D in place of n × n."""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils._param_validation import StrOptions

from lmgp.arithmetic import USUAL, Arithmetic, Precision, check_device
from lmgp.errors import InputError, NumericalError
from lmgp.features.adapter import make_feature_map
from lmgp.features.base import KernelMap
from lmgp.features.fourier import OrthogonalFourierFeatures
from lmgp.features.nystroem import NystroemFeatures
from lmgp.fitted import OfFit
from lmgp.inference.additive import FeaturizedSums, not_there
from lmgp.inference.joint import weight_covariance, weight_samples
from lmgp.inference.learning import Hyperparameters
from lmgp.inference.leave_one_out import of_weights
from lmgp.inference.rounding import rounding_divergence, some_rows
from lmgp.inference.trend import Trend
from lmgp.inference.truncation import check_series, expected_divergence
from lmgp.inference.weight_space import (
    WeightPosterior,
    accumulate,
    accumulate_columns,
    evaluate,
    fitted_global_map,
    prior_variance,
)
from lmgp.io.summary import Summary
from lmgp.kernels.base import Kernel
from lmgp.learning.forms import Ard
from lmgp.learning.learn import Wanted
from lmgp.models.base import GPFit, TrendColumns
from lmgp.models.evidence import KeptRows, less_trend, made_for_one_kernel
from lmgp.models.streams import Sample, StreamedGP
from lmgp.noise import APPROXIMATIONS, Approximation, Noise
from lmgp.validation import RandomState, Rows

Floats = NDArray[np.float64]

ONE_START = "Models with the same first rows merge: those of one are the other's with_rows. Make the other one so."


@dataclass(frozen=True, eq=False)
class FeaturizedFit(GPFit):
    """The fitted state of a model with one map.

    Attributes
    ----------
    origin : float
        What y is less of in the sums, beside the fit of `start`: any number near its mean.
    start : Trend or None
        The trend before it is estimated.
    sums : FeaturizedSums or None
        None before there are rows.
    kept : KeptRows
        The rows of one fit to rows in memory.
    arithmetic : Arithmetic
    probe : Rows or None
        Some rows, with y less the origin and `start`: of features in single precision.
    """

    features: KernelMap
    noise: Noise
    map_centre: Floats
    posterior: WeightPosterior | None
    box: tuple[Floats, Floats]
    origin: float = 0.0
    start: Trend | None = None
    sums: FeaturizedSums | None = None
    kept: KeptRows = field(default_factory=KeptRows)
    arithmetic: Arithmetic = USUAL
    probe: Rows | None = None

    # Rows of chunks are summed when there are as many, and no pass is needed that says where all rows are.
    least_rows: ClassVar[int] = 1
    covers: ClassVar[bool] = False

    def sums_of(self, rows: Rows) -> FeaturizedSums:
        """Return the sums over rows, with y as it is."""
        centred = replace(rows, y=rows.y - self.origin)
        left = centred if self.start is None else replace(centred, y=centred.y - self.start.least_squares(rows.X))
        return self._sums(left, Summary.of(centred, left.y))

    def _sums(self, left: Rows, summary: Summary) -> FeaturizedSums:
        statistics = accumulate(self.features, left, self.map_centre, self.noise, 0.0, self.arithmetic)
        columns = None
        if self.start is not None:
            columns = accumulate_columns(self.features, left, self.map_centre, self.noise, self.start)
        return FeaturizedSums(statistics, columns, summary)

    def with_sums(self, sums: FeaturizedSums) -> Self:
        """Return the state of the rows of these sums, solved."""
        summary = sums.summary
        change = 0.0 if self.center_given else summary.weighted / summary.n
        posterior = sums.posterior(change)
        trend = posterior.trend
        if trend is not None:
            start = trend.start.copy()
            start[0] -= change
            trend = replace(trend, start=start)
        return replace(
            self,
            center=self.origin + change,
            farthest_target=summary.farthest(0.0 if trend is not None else change),
            trend=trend,
            column_scales=summary.scales,
            posterior=posterior,
            box=(summary.low, summary.high),
            sums=sums,
            kept=KeptRows(),
        )

    def joined(self, rows: Rows, sign: float) -> Self:
        """Return the state with more rows, or without some."""
        return self.added(self.sums_of(rows), sign)

    def of_rows(self, rows: Rows) -> Self:
        """Return the state of these rows alone."""
        return self.with_sums(self.sums_of(rows))

    def merged(self, other: Self) -> Self:
        """Return the state of the rows of both."""
        sums = other._known_sums()
        if self.origin != other.origin:
            raise InputError(ONE_START)
        return self.added(sums, 1.0)

    def summing(self) -> Self:
        """Return what it takes to sum rows."""
        return replace(self, posterior=None, sums=None, kept=KeptRows())

    def _known_sums(self) -> FeaturizedSums:
        if self.sums is None:
            raise InputError(
                "This model was saved by an earlier version of lmgp, without its sums: rows are neither added to it "
                "nor taken out. Fit it again."
            )
        return self.sums

    def predicting(self) -> Self:
        """Return what it takes to predict: about half the numbers."""
        return replace(self, sums=None, kept=KeptRows())

    def added(self, sums: FeaturizedSums, sign: float) -> Self:
        """Return the state with more sums, or without some."""
        total = self._known_sums().merge(sums, sign)
        if total.summary.n <= 0.0:
            raise InputError("No row would be left. A model needs at least one: fit another one instead.")
        try:
            return self.with_sums(total)
        except NumericalError as error:
            if sign > 0.0:
                raise
            raise not_there("no rows have the Gram matrix that would be left") from error

    def solved(self) -> WeightPosterior:
        """Return the posterior."""
        assert self.posterior is not None  # once there are rows
        return self.posterior

    @property
    def rounding_divergence(self) -> float:
        """What features in single precision cost."""
        if self.probe is None:
            return 0.0
        posterior = self.solved()
        rows = replace(self.probe, y=self.probe.y - posterior.center)
        n_rows = self._known_sums().n_rows
        return rounding_divergence(posterior, self.features, rows, n_rows, self.map_centre, self.noise, self.arithmetic)

    @property
    def log_marginal_likelihood(self) -> float:
        """Of the centred y of all rows, or of the residuals of the trend, in nats."""
        return self.solved().log_marginal_likelihood


class FeaturizedGPRegressor(StreamedGP):
    """A Gaussian process with one feature map: Bayesian linear regression on D columns.

    Takes O(n D²) time and O(D²) memory beyond the data: rows are mapped and summed chunk by chunk.

    Parameters
    ----------
    features : FeatureMap or scikit-learn transformer, optional
        Cloned, given the kernel, and fitted to X less its mean. Any other transformer is fitted to X as it is, and its
        columns times σ are the features. If not given, ``OrthogonalFourierFeatures(512)`` for stationary kernels and
        their sums and products, and ``NystroemFeatures(512)`` for all others.
    kernel : Kernel, str, list of str or None, default=None
        Any kernel that the map can serve, used as it is, but for parameters with bounds, which are learned. A name,
        such as "matern32" or "matern12+gaussian", several, or "auto": what predicts best of these, learned from all
        rows, see `lmgp.learn`. None: a `GaussianKernel` by maximum marginal likelihood of at most `max_learning_rows`
        rows.
    noise_variance : float, optional
        In squared units of y; learned likewise if not given.
    approximation : {"dtc", "sor", "fitc"}, default="fitc"
        What becomes of the prior variance that the map leaves out at a row (zero for Fourier features). "sor" ignores
        it, as the paper's formula does; "dtc" adds it to the prediction's variance, which keeps that honest far from
        the centre of the map; "fitc" also adds it to the noise of the training rows.
    trend : {"constant", "linear"} or list of int or str, default="constant"
        The mean function: the mean of y, an intercept and a slope for each column, or for these columns; see
        `ExactGPRegressor`.
    ard : bool or "auto", default=False
        Whether a learned kernel has one lengthscale a column; "auto" tries both.
    max_learning_rows : int, default=2000
        The largest number of rows whose exact likelihood is maximised; of more rows, a random sample of this size.
    max_memory_gib : float, default=4.0
        The memory that the D × D matrices and the parameters of the map may take, in GiB.
    device : str, optional
        Where torch sums the products of columns, such as "cuda"; of a Fourier map, also where it makes them. If not
        given, numpy's and scipy's BLAS on the CPU. Sums are float64 always.
    feature_dtype : {"float64", "float32"}, default="float64"
        The precision of the columns of training rows, and of the products of up to 4,096 rows. "float32" takes about
        0.6 of the time; what it costs is `rounding_divergence_`.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seeds the map, where that has no seed of its own.

    Attributes
    ----------
    features_ : FeatureMap
        The fitted map. Other transformers come as `lmgp.features.adapter.TransformerFeatures`.
    log_marginal_likelihood_ : float
        Of the centred y of all rows under the featurized model, or of the residuals of the estimated trend, in nats.
    rounding_divergence_ : float
        KL(this prediction ‖ that of float64 features), in nats: the mean over rows, estimated from at most 4,096 of
        them; 0 of float64.
    kernel_, noise_variance_, center_, trend_, n_features_in_
        See `ExactGPRegressor`.

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, eq. 2.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import FeaturizedGPRegressor, GaussianKernel, TaylorFeatures
    >>> X = np.linspace(0, 6, 1000)[:, None]
    >>> model = FeaturizedGPRegressor(TaylorFeatures(n_features=40), kernel=GaussianKernel(1.0), noise_variance=0.01)
    >>> mean, std = model.fit(X, np.sin(X[:, 0])).predict([[1.0]], return_std=True)
    >>> bool(abs(mean[0] - np.sin(1.0)) < 3 * std[0])
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **StreamedGP._parameter_constraints,
        "approximation": [StrOptions(set(APPROXIMATIONS))],
        "device": [str, None],
        "feature_dtype": [StrOptions({"float64", "float32"})],
    }

    features_ = OfFit[KernelMap]()
    log_marginal_likelihood_ = OfFit[float]()
    rounding_divergence_ = OfFit[float]()

    _fitted: FeaturizedFit

    def __init__(
        self,
        features: TransformerMixin | None = None,
        *,
        kernel: Wanted = None,
        noise_variance: float | None = None,
        approximation: Approximation = "fitc",
        trend: TrendColumns = "constant",
        ard: Ard = False,
        max_learning_rows: int = 2000,
        max_memory_gib: float = 4.0,
        device: str | None = None,
        feature_dtype: Precision = "float64",
        random_state: RandomState = None,
    ) -> None:
        self.features = features
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.approximation = approximation
        self.trend = trend
        self.ard = ard
        self.max_learning_rows = max_learning_rows
        self.max_memory_gib = max_memory_gib
        self.device = device
        self.feature_dtype = feature_dtype
        self.random_state = random_state

    def _fit(self, rows: Rows, learned: Hyperparameters, common: GPFit, rng: np.random.Generator) -> FeaturizedFit:
        frozen = self._freeze(rows, common, rng, None)
        # Of the rows' own mean: nothing is left of it, not even the rounding.
        summary = replace(Summary.of(rows), weighted=0.0)
        fit = frozen.with_sums(frozen._sums(rows, summary))
        return replace(
            fit,
            farthest_target=common.farthest_target,
            column_scales=common.column_scales,
            kept=KeptRows(rows),
        )

    def _freeze(self, rows: Rows, common: GPFit, rng: np.random.Generator, sample: Sample | None) -> FeaturizedFit:
        features = default_map(common.kernel) if self.features is None else self.features
        noise = Noise(common.noise_variance, self.approximation)
        if self.device is not None:
            check_device(self.device)
        arithmetic = Arithmetic(self.device, self.feature_dtype)
        made, centre = fitted_global_map(make_feature_map(features, common.kernel, rng), rows, self.max_memory_gib)
        return FeaturizedFit(
            **vars(common),
            features=made,
            noise=noise,
            map_centre=centre,
            posterior=None,
            box=(rows.X.min(axis=0), rows.X.max(axis=0)),
            origin=common.center,
            start=common.trend,
            arithmetic=arithmetic,
            probe=None if arithmetic.precision == "float64" else some_rows(rows),
        )

    def _needs_sample(self) -> bool:
        if not self._all_given or not isinstance(self.kernel, Kernel):
            return True
        features = default_map(self.kernel) if self.features is None else self.features
        # A map of frequencies is as good around any row.
        return not (isinstance(features, KernelMap) and features.needs == "frequencies")

    def _predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        fit = self._fitted
        return evaluate(fit.solved(), fit.features, X, fit.map_centre, fit.noise, variance)

    def _covariance(self, X: Floats) -> Floats:
        fit = self._fitted
        return weight_covariance(fit.solved(), fit.features, fit.kernel, X, fit.map_centre, fit.noise)

    def _samples(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        fit = self._fitted
        errors = weight_samples(fit.solved(), fit.features, fit.kernel, X, fit.map_centre, fit.noise, n_samples, rng)
        return errors + self._predict(X, False)[0][:, None]

    def _training_rows(self) -> Rows:
        return less_trend(self._fitted.kept.get(), self._estimated_trend())

    def _log_likelihood(self) -> float:
        return self._fitted.log_marginal_likelihood

    def _log_likelihood_at(self, kernel: Kernel, noise_variance: float) -> float:
        raise made_for_one_kernel(self, "its features")

    def _left_out(self, rows: Rows) -> tuple[Floats, Floats]:
        fit = self._fitted
        return of_weights(fit.solved(), fit.features, rows, fit.map_centre, fit.noise)

    def _cure(self, X: Floats) -> str:
        return cure(self._fitted.noise, self._fitted.features, X[:1] - self._fitted.map_centre)

    def _expectations(self, X: Floats) -> tuple[Floats, Floats]:
        fit = self._fitted
        prior = prior_variance(fit.features, fit.kernel, X, fit.map_centre)
        return prior, np.full(len(X), fit.solved().surprise)

    def _expected_divergence(self, X: Floats) -> Floats:
        fit = self._fitted
        check_series(fit.features)
        outside = X - np.clip(X, *fit.box)
        beyond = np.sqrt(np.square(fit.kernel.scale(outside)).sum(axis=1))
        expected = expected_divergence(fit.solved(), fit.features, X - fit.map_centre, beyond, fit.noise)
        return expected + fit.rounding_divergence


def default_map(kernel: Kernel) -> KernelMap:
    """Return the map of a model that is given none: orthogonal Fourier features, or Nyström's where there are none."""
    return OrthogonalFourierFeatures() if kernel.can("frequencies") else NystroemFeatures()


def cure(noise: Noise, features: KernelMap, row: Floats) -> str:
    """Say what makes the predictions of a featurized model plausible; `row`, of shape (1, d), is one the map takes."""
    one_row = torch.from_numpy(np.ascontiguousarray(row))
    leaves_out = features.missing_variance(one_row, features.evaluate(one_row)) is not None
    if leaves_out and noise.approximation != "fitc":
        return (
            f"With approximation={noise.approximation!r} rows that the map represents only in part distort the fit "
            "where the noise is small: use approximation='fitc'."
        )
    return (
        f"{features.n_features_out_:,} columns cannot follow the targets as closely as noise_variance="
        f"{noise.variance:.3g} asks: use more features, NystroemFeatures, or a larger noise_variance."
    )
