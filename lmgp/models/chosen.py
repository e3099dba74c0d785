"""The regressor that chooses its model by measurement."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils._param_validation import Interval, StrOptions

from lmgp.errors import NoEstimateError, ToleranceWarning
from lmgp.features.adapter import make_feature_map
from lmgp.features.nystroem import NystroemFeatures
from lmgp.fitted import OfFit
from lmgp.inference.function_space import max_rows_within
from lmgp.inference.learning import Hyperparameters
from lmgp.inference.local import PRUNE, LocalPosterior, fitted_map
from lmgp.inference.nearest import NearestPosterior
from lmgp.inference.residual import ResidualPosterior
from lmgp.inference.trend import TrendFit
from lmgp.inference.weight_space import fitted_global_map
from lmgp.kernels.base import Kernel, require
from lmgp.learning.forms import Ard
from lmgp.learning.learn import Settings, Wanted
from lmgp.learning.record import Learned
from lmgp.locality.blocks import Neighbourhoods
from lmgp.locality.placement import cover, negligible_share
from lmgp.methods import RESIDUAL, SPECTRAL
from lmgp.models.base import GaussianProcess, GPFit, TrendColumns
from lmgp.models.exact import ExactGPRegressor
from lmgp.models.featurized import FeaturizedGPRegressor
from lmgp.models.localized import LocalizedGPRegressor
from lmgp.models.nearest import NearestNeighborsGPRegressor
from lmgp.models.residual import ResidualGPRegressor
from lmgp.models.spectral import SpectralGPRegressor
from lmgp.noise import Approximation, Noise
from lmgp.progress import STAGES
from lmgp.selection.candidates import LIMITS, Allowed, checked_methods, exact, families
from lmgp.selection.costs import measured_costs, measured_kernel_costs
from lmgp.selection.families import Choice
from lmgp.selection.modes import by_modes, mean_error
from lmgp.selection.prices import Prices
from lmgp.selection.probes import PLAN, Probes
from lmgp.selection.search import Selection, at_once, select
from lmgp.sphere import Metric, OnSphere, lengthscale_groups
from lmgp.validation import RandomState, Rows, generator, spawn

Floats = NDArray[np.float64]
# What becomes of the prior variance that a map leaves out: right at every row, which the divergences rest on.
APPROXIMATION: Approximation = "fitc"

Chosen = (
    ExactGPRegressor
    | FeaturizedGPRegressor
    | LocalizedGPRegressor
    | NearestNeighborsGPRegressor
    | ResidualGPRegressor
    | SpectralGPRegressor
)


@dataclass(frozen=True, eq=False)
class ChosenFit(GPFit):
    """The fitted state of a model that was chosen."""

    selection: Selection
    model: Chosen


class GPRegressor(GaussianProcess):
    """A Gaussian process that chooses its approximation by measurement: the one to reach for.

    It learns the hyper-parameters, tries candidates of growing cost on training rows that it holds out, and fits the
    cheapest one that is near enough to the exact GP to all rows. Candidates are localized and global feature maps, the
    nearest rows of each test row, and the exact GP itself.

    Parameters
    ----------
    tolerance : float, default=1e-3
        The aim: the divergence from the exact GP, KL per row with noise, in nats. At 1e-3, the predicted means are off
        by about 0.04 predictive standard deviations.
    max_features : int, default=2048
        The largest number of columns of a map; also of nearest rows.
    n_predict : int, optional
        The number of rows that will be predicted, which decides what is cheapest. If not given, the number of training
        rows.
    methods : list of str, optional
        The methods to choose from. If not given, global maps: "orf" (orthogonal Fourier), "nystroem", "global_taylor",
        "global_taylor_energy"; maps around centroids: "local_taylor", "local_taylor_energy",
        "local_maclaurin_tensor_srht"; a map and near rows: "residual"; and models without a map: "spectral",
        "nearest_rows", "exact". All other names in `lmgp.methods.METHODS` can be given as well. Methods whose map
        cannot serve the kernel are left out.
    kernel : Kernel, str, list of str or None, default="auto"
        A kernel with a lengthscale is used as it is, but for parameters with a pair of bounds, which are learned. A
        name, such as "matern32" or "matern12+gaussian", several, or "auto": what predicts best of these, learned from
        all rows and from columns in their standard deviations, see `lmgp.learn`; `kernel_` is in the units of X. None:
        a `GaussianKernel` by maximum marginal likelihood of at most `max_learning_rows` rows, of columns as they are.
    noise_variance : float, optional
        In squared units of y; learned likewise if not given.
    trend : {"constant", "linear"} or list of int or str, default="constant"
        The mean function: the mean of y, an intercept and a slope for each column, or for these columns; see
        `ExactGPRegressor`.
    metric : "sphere" or None, default=None
        "sphere": two columns are longitude and latitude, in degrees. They are those named lon, longitude or lng, and
        lat or latitude, in any case, of a data frame, and the first two of an array, longitude first. They become
        three columns, x, y and z in km on a sphere of radius 6371.0088 km, whose distances are chords; the other
        columns follow. The kernel is one of these d + 1 columns, with lengthscales of the first three in km. In a list
        of columns for `trend`, longitude stands for x and y, and latitude for z.
    ard : bool or "auto", default="auto"
        Whether a learned kernel has one lengthscale a column; "auto" tries both.
    max_learning_rows : int, default=2000
        The largest number of rows whose exact likelihood is maximised; of more rows, a random sample of this size.
    max_memory_gib : float, default=4.0
        The memory for the matrices of a model, in GiB. Models that need more are no candidates.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Draws the rows that are held out, and seeds the maps.

    Attributes
    ----------
    model_ : ExactGPRegressor, FeaturizedGPRegressor, LocalizedGPRegressor, NearestNeighborsGPRegressor, \
ResidualGPRegressor or SpectralGPRegressor
        The chosen model, fitted to all rows.
    selection_ : lmgp.selection.search.Selection
        What was tried, what it cost, and what was chosen. Printed, it is a table.
    kernel_, noise_variance_, center_, trend_, n_features_in_
        See `ExactGPRegressor`.

    Notes
    -----
    Where the exact GP takes fewer than 2e10 multiplications, n²(n/3 + `n_predict`), it is taken at once: 2,400 rows and
    predictions.

    In up to three columns, `SpectralGPRegressor` is taken at once where it serves the kernel and is quick: the mean of
    all rows, by a global solve that states its own error, and the variance of local models.

    Otherwise at most 256 training rows, the probes, are held out, and predicted by the exact GP: from all other rows,
    of up to 4,096 rows. Of more, from the nearest 1,024 rows exactly, and from those beyond through a Nyström map where
    these matter. Targets of probes are not used.

    Candidates come in sizes that double, up to `max_features`, and localized ones with thresholds of 4, 2, 1, 1/2 and
    1/4 lengthscales. A cost model, with rates measured on this machine and for this kernel, says what each takes to fit
    all rows and to predict `n_predict`. Affordable are 20 seconds, or what predictions from 256 nearest rows take where
    that is more. A candidate is near enough if its mean divergence, with two standard errors added, is within the
    tolerance.

    The nearest rows are tried first, from few to many; trials take the same time whatever n. Then maps are tried, in
    the order of their seconds, on the 32 first probes, and on all of them where these are promising. These trials take
    as long as the model without a map that would be taken instead, but 2 seconds at least and 3 at most. Seconds in
    which other programs hold the processor do not count. No map is tried that could not save what its trial takes. So
    choosing takes some seconds, of a million rows too.

    The cheapest candidate that is near enough is taken. If there is none, as with kernels of many columns and little
    noise, that is the one with the least divergence, or the cheapest whose divergence is at most 1.25 times as large,
    where both include by how much the exact predictions are uncertain, up to 20 times the tolerance;
    a `ToleranceWarning` says how far off it is. Give `n_predict` if you predict fewer rows than you train on: more
    becomes affordable.

    Far from all data, all candidates but Fourier maps return to the prior. Within one process, the measured rates stay
    the same, and with a seed so does the choice, unless time ends the trials of maps; between processes it can also
    differ where candidates cost about the same.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import GaussianKernel, GPRegressor
    >>> X = np.linspace(0, 100, 2000)[:, None]
    >>> model = GPRegressor(kernel=GaussianKernel(1.0), noise_variance=0.01, random_state=0).fit(X, np.sin(X[:, 0]))
    >>> model.selection_.chosen.kl < 1e-3
    True
    >>> bool(abs(model.predict([[50.0]])[0] - np.sin(50.0)) < 0.1)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GaussianProcess._parameter_constraints,
        "tolerance": [Interval(Real, 0, None, closed="neither")],
        "max_features": [Interval(Integral, 2, None, closed="left")],
        "n_predict": [Interval(Integral, 1, None, closed="left"), None],
        "methods": ["array-like", None],
        "metric": [StrOptions({"sphere"}), None],
    }

    selection_ = OfFit[Selection]()
    model_ = OfFit[Chosen]()

    _fitted: ChosenFit

    def __init__(
        self,
        tolerance: float = 1e-3,
        *,
        max_features: int = 2048,
        n_predict: int | None = None,
        methods: Sequence[str] | None = None,
        kernel: Wanted = "auto",
        noise_variance: float | None = None,
        trend: TrendColumns = "constant",
        metric: Metric = None,
        ard: Ard = "auto",
        max_learning_rows: int = 2000,
        max_memory_gib: float = 4.0,
        random_state: RandomState = None,
    ) -> None:
        self.tolerance = tolerance
        self.max_features = max_features
        self.n_predict = n_predict
        self.methods = methods
        self.kernel = kernel
        self.noise_variance = noise_variance
        self.trend = trend
        self.metric = metric
        self.ard = ard
        self.max_learning_rows = max_learning_rows
        self.max_memory_gib = max_memory_gib
        self.random_state = random_state

    def _learn(self, rows: Rows, rng: np.random.Generator) -> Learned:
        checked_methods(self.methods)  # before the time that learning takes
        return super()._learn(rows, rng)

    def _settings(self, n_inputs: int) -> Settings:
        # In standard deviations: columns come in any units. The coordinates of a place share one lengthscale.
        groups = lengthscale_groups(self.metric, n_inputs)
        return replace(super()._settings(n_inputs), standardize=True, groups=groups.tolist())

    def _coordinates(self, X: Floats) -> Floats:
        return X if self.metric is None else self._sphere.points(X)

    def _places(self, index: NDArray[np.intp]) -> NDArray[np.intp]:
        return index if self.metric is None else self._sphere.places(index)

    def _names(self) -> Sequence[str] | None:
        return super()._names() if self.metric is None else self._sphere.names

    @property
    def _sphere(self) -> OnSphere:
        return OnSphere.of(self.n_features_in_, super()._names())

    def _one_lengthscale(self) -> bool:
        # What is named is learned from columns in their standard deviations: any scales will do.
        return self.kernel is None and super()._one_lengthscale()

    def _fit(self, rows: Rows, learned: Hyperparameters, common: GPFit, rng: np.random.Generator) -> ChosenFit:
        require(common.kernel, "metric", type(self).__name__)
        seed = int(rng.integers(2**31))
        n_rows, noise = len(rows.y), Noise(common.noise_variance, APPROXIMATION)
        n_predict = n_rows if self.n_predict is None else int(self.n_predict)
        allowed = Allowed(
            checked_methods(self.methods), int(self.max_features), APPROXIMATION, float(self.max_memory_gib)
        )
        if allowed.needs_no_search(n_rows, n_predict):
            choice = exact(n_rows, APPROXIMATION)
            selection = at_once(choice, float(self.tolerance), n_predict)
        elif found := by_modes(
            allowed, rows, common.kernel, noise, float(self.tolerance), n_predict,
            n_targets=1 if common.trend is None else 1 + common.trend.n_columns,
        ):  # fmt: skip
            choice, selection = found
        else:
            plan = PLAN.within(self.max_memory_gib)
            STAGES.info("choosing a model for %s rows and %s predictions", f"{n_rows:,}", f"{n_predict:,}")
            probes = Probes.of(rows, common.kernel, noise, self.tolerance, rng, plan)
            choice, selection = self._choose(probes, allowed, n_rows, n_predict, common.kernel, noise, seed)
        if shortfall := selection.shortfall(self.max_features):
            possible = n_rows <= max_rows_within(self.max_memory_gib)
            warnings.warn(
                shortfall + (", or use ExactGPRegressor." if possible else "."),
                ToleranceWarning,
                stacklevel=3,  # the line that calls fit
            )
        model = self._regressor(choice, common, seed)
        STAGES.info("fitting %s to %s rows", type(model).__name__, f"{n_rows:,}")
        trend = 0.0 if common.trend is None else common.trend.least_squares(rows.X)
        y = rows.y + trend + common.center
        model.fit(rows.X, y, rows.weights, rows.noise_variances, center=common.center)
        if isinstance(model, SpectralGPRegressor):
            selection = selection.stating(model.error_.divergence, model.variance_by_)
        return ChosenFit(**vars(common), selection=selection, model=model)

    def _choose(
        self, probes: Probes, allowed: Allowed, n_rows: int, n_predict: int, kernel: Kernel, noise: Noise, seed: int
    ) -> tuple[Choice, Selection]:
        """Try candidates on probes, each made of the rows that are not held out."""
        rest = probes.rest
        mean = np.average(rest.X, axis=0, weights=rest.weights)[None, :]
        neighbourhoods = cache(lambda: Neighbourhoods(kernel.scale(rest.X)))
        most = LIMITS.max_centroids(*rest.X.shape)
        covers = cache(lambda threshold: cover(rest, kernel, threshold, most))

        @cache
        def of_landmarks(size: int) -> ResidualPosterior:
            features = make_feature_map(NystroemFeatures(size), kernel, spawn(generator(seed), 2)[1])
            fitted, centre = fitted_global_map(features, rest, self.max_memory_gib)
            return ResidualPosterior(kernel, rest, noise, fitted, centre, 1, LIMITS.residual_block, self.max_memory_gib)

        def build(choice: Choice) -> LocalPosterior | NearestPosterior | ResidualPosterior:
            if choice.method == RESIDUAL:
                assert choice.n_neighbors is not None  # for the type checker
                return of_landmarks(choice.size).with_neighbours(choice.n_neighbors)
            if choice.n_neighbors is not None:
                return NearestPosterior(
                    kernel, probes.near, noise, choice.n_neighbors, self.max_memory_gib, share=False
                )
            centroids: Floats = mean if choice.threshold is None else covers(choice.threshold)
            # The stream from which the chosen regressor draws as well: what is tried is what is fitted.
            drawing = spawn(generator(seed), 2)[1]
            return LocalPosterior(
                kernel,
                rest,
                Noise(noise.variance, choice.approximation),
                centroids,
                features=fitted_map(choice.features, kernel, rest, centroids, drawing, self.max_memory_gib),
                solver=choice.solver,
                max_memory_gib=self.max_memory_gib,
                neighbourhoods=None if choice.threshold is None else neighbourhoods(),
            )

        share = negligible_share(rest, kernel, noise, PRUNE)
        costs = measured_costs(), measured_kernel_costs(kernel, rest.X.shape[1])
        prices = Prices(rest, n_rows, kernel, share, n_predict, *costs, len(probes.X))
        allowed = replace(allowed, max_neighbours=probes.most_neighbours)
        candidates = families(allowed, kernel, prices, covers)
        return select(probes, candidates, build, noise.variance, float(self.tolerance), n_predict)

    def _regressor(self, choice: Choice, common: GPFit, seed: int) -> Chosen:
        """Make the unfitted regressor of a choice."""
        shared: dict[str, Any] = {
            "kernel": common.kernel,
            "noise_variance": common.noise_variance,
            "trend": "constant" if common.trend is None else common.trend.index.tolist(),
            "max_learning_rows": self.max_learning_rows,
            "max_memory_gib": self.max_memory_gib,
            "random_state": seed,
        }
        if choice.method == RESIDUAL:
            assert choice.n_neighbors is not None  # for the type checker
            block = LIMITS.residual_block
            return ResidualGPRegressor(choice.features, choice.n_neighbors, block_size=block, **shared)
        if choice.method == SPECTRAL:
            return SpectralGPRegressor(mean_error(self.tolerance), **shared)
        if choice.n_neighbors is not None:
            return NearestNeighborsGPRegressor(choice.n_neighbors, **shared)
        if choice.features is None:
            return ExactGPRegressor(**shared)
        shared["approximation"] = choice.approximation
        if choice.threshold is None:
            return FeaturizedGPRegressor(choice.features, **shared)
        return LocalizedGPRegressor(choice.features, choice.threshold, solver=choice.solver, **shared)

    def _estimated_trend(self) -> TrendFit | None:
        bare, trend = self._fitted.trend, self.model_._estimated_trend()  # which knows no names of columns
        return None if bare is None or trend is None else replace(trend, names=bare.names)

    def _predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        return self.model_._predict(X, variance)

    def _covariance(self, X: Floats) -> Floats:
        return self.model_._covariance(X)

    def _samples(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        return self.model_._samples(X, n_samples, rng)

    def _log_likelihood(self) -> float:
        return self.model_._log_likelihood()

    def _log_likelihood_at(self, kernel: Kernel, noise_variance: float) -> float:
        return self.model_._log_likelihood_at(kernel, noise_variance)

    def _training_rows(self) -> Rows:
        return self.model_._training_rows()

    def _left_out(self, rows: Rows) -> tuple[Floats, Floats]:
        return self.model_._left_out(rows)

    def _expectations(self, X: Floats) -> tuple[Floats, Floats]:
        return self.model_._expectations(X)

    def _expected_divergence(self, X: Floats) -> Floats:
        try:
            return self.model_._expected_divergence(X)
        except NoEstimateError:  # it states none: the mean of what was measured on the probes
            return np.full(len(X), self.selection_.chosen.kl)

    def _cure(self, X: Floats) -> str:
        return self.model_._cure(X)
