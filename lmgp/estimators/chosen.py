"""The regressor that chooses its recipe by measurement."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.metaestimators import available_if

from lmgp.columns.adapted import adapted
from lmgp.columns.table import Columns, Missing, Rotate
from lmgp.data import Floats, Rows, column_scales, generator, refuse_other_columns
from lmgp.distributions.noise import NoiseName
from lmgp.errors import InputError, NoEstimateError, ToleranceWarning, warn
from lmgp.estimators.base import Detrended, Fit, GaussianProcess, TrendColumns, untrended
from lmgp.estimators.exact import ExactGPRegressor
from lmgp.estimators.featurized import FeaturizedGPRegressor
from lmgp.estimators.localized import LocalizedGPRegressor
from lmgp.estimators.nearest import NearestNeighborsGPRegressor
from lmgp.estimators.residual import ResidualGPRegressor
from lmgp.estimators.rows_left_out import FEWEST_IN_REGIONS
from lmgp.estimators.spectral import SpectralGPRegressor
from lmgp.estimators.streamed import AdditiveGaussianProcess
from lmgp.estimators.warned import warn_of_targets
from lmgp.kernels.base import Kernel
from lmgp.kernels.sphere import Metric
from lmgp.learning.engine import Average, Settings, Wanted
from lmgp.learning.forms import STREAMED, Ard
from lmgp.learning.record import Learned
from lmgp.learning.trends import likely_trend, trend_pays
from lmgp.posteriors.average import WeightedKernel, averaged
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.spectral import SpectralPosterior
from lmgp.posteriors.trend import CONSTANT_TREND, Trend
from lmgp.recipes import ROWS_TO_COME, Exact, Local, Nearest, Recipe, Residual, Spectral, Weights
from lmgp.selection.candidates import Problem, checked_methods
from lmgp.selection.choose import choose
from lmgp.selection.methods import METHODS
from lmgp.selection.record import Selection
from lmgp.sums.base import Sample
from lmgp.utils.columns import pandas_frame
from lmgp.utils.fitted import OfFit
from lmgp.utils.progress import silent, stage

# The regressors of recipes.
SHELLS: dict[type[Recipe], type[GaussianProcess]] = {
    Exact: ExactGPRegressor,
    Weights: FeaturizedGPRegressor,
    Local: LocalizedGPRegressor,
    Nearest: NearestNeighborsGPRegressor,
    Residual: ResidualGPRegressor,
    Spectral: SpectralGPRegressor,
}


def _takes_rows(model: Any) -> bool:
    """Say whether rows are added to a model, and taken out: what was chosen for it keeps rows or sums over them."""
    return "_fitted" in vars(model) and model._fitted.sums is not None


@dataclass(eq=False, repr=False)
class GPRegressor(AdditiveGaussianProcess):
    """A Gaussian process that chooses its approximation by measurement: the one to reach for.

    It learns the hyperparameters, tries candidates of growing cost on training rows that it holds out, and fits the
    cheapest one that is near enough to the exact GP to all rows. Candidates are global feature maps, the nearest rows
    of each test row, with a map or without, and the exact GP itself. Where few nearest rows predict rows left out
    better, these are taken.

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
        "global_taylor_energy"; a map and near rows: "residual"; and models without a map: "spectral", "nearest_rows",
        "exact". All other names in `lmgp.selection.methods.METHODS` can be given as well, such as "local_taylor", maps
        around centroids. Methods whose map cannot serve the kernel are left out.
    kernel : Kernel, str, list of str or None, default="auto"
        A kernel is used as it is, but for parameters with a pair of bounds, which are learned; of many rows it needs a
        lengthscale. A name, such as "matern32" or "linear+matern32*periodic", "auto" for "matern12+matern52+gaussian"
        (of one column also with a season), or several, of which the one is taken that predicts best: learned from all
        rows and from columns in their standard deviations, see `lmgp.learn`; `kernel_` is in the units of X. Of a
        stream, "auto" is "matern52+gaussian". None: "gaussian".
    noise_variance : float, optional
        In squared units of y; learned likewise if not given.
    noise : {"auto", "normal", "student", "varying", "robust"}, default="auto"
        The distribution of new observations, which intervals are from. "normal": that of the process. "student": a
        Student t. "varying": a t whose scale is a second Gaussian process. "robust": these in a fit to weighted rows,
        of one target, in which outliers count less. "auto": what predicts rows left out best. With each but "normal",
        kernel and noise variance are learned under a t where errors have heavy tails. `noise_` says what was taken.
    trend : {"auto", "constant", "linear"} or list of int or str, default="auto"
        The mean function: the mean of y, an intercept and a slope for each column, or for these columns; see
        `ExactGPRegressor`. "auto": of one target and a kernel that is named, slopes for the columns that earn them, by
        how well rows and neighbourhoods left out are predicted; none of fewer than 100 rows. `trend_` says which.
    metric : "sphere" or None, default=None
        "sphere": two columns are longitude and latitude, in degrees. They are those named lon, longitude or lng, and
        lat or latitude, in any case, of a data frame, and the first two of an array, longitude first. They become
        three columns, x, y and z in km on a sphere of radius 6371.0088 km, whose distances are chords; the other
        columns follow. The kernel is one of these d + 1 columns, with lengthscales of the first three in km. In a list
        of columns for `trend`, longitude stands for x and y, and latitude for z.
    columns : mapping of str or int to {"number", "log", "asinh", "category", "date"}, optional
        What columns are, by name or index, where their values do not say so, such as ``{"zip": "category"}``.
        Otherwise text, and pandas' categories, are categories, and dates are dates. Numbers that are dates are days
        since 1970-01-01.
    missing : {"auto", "impute", "error"}, default="auto"
        What becomes of missing values of X. "impute": a number is filled by what the other numbers of the row let
        expect, and marked by how sure that is, in a column of its own; a missing category is one more level. "auto"
        does so with a `ColumnWarning`.
    rotate : bool or pair of int or str, default=False
        Whether two columns of one unit are seen along and across a direction, which is learned: that of the longer
        lengthscale of a field that is not the same in all directions. True: the two columns of X. Of more columns, the
        two are listed, by name or index, and come first in the kernel.
    ard : bool or "auto", default="auto"
        Whether a learned kernel has one lengthscale a column; "auto" is True.
    average : bool or "auto", default="auto"
        Whether kernels are averaged. Up to 500 rows, these are draws of the hyperparameters from their posterior
        distribution: the variance includes what they are uncertain by. Of more rows, they are up to three of several
        kernels that were named, with the weights that predict rows left out best; "auto": up to `max_learning_rows`
        rows. Predictions take as long as those of all of them. There is no average of several targets, nor beside a
        linear trend, nor of a kernel that is given.
    max_learning_rows : int, default=2000
        The largest number of rows whose exact likelihood is maximised. Of more rows, Vecchia's is maximised, or the
        exact one of a random sample of this size where the kernel has no lengthscale.
    max_memory_gib : float, default=4.0
        The memory for the matrices of a model, in GiB. Models that need more are no candidates. The rows, their copies
        and the trials of the choice are not counted: see ``docs/choosing.md``.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Draws the random maps that are tried. Nothing else depends on it.

    Attributes
    ----------
    columns_ : lmgp.columns.table.Columns or None
        What columns of categories, of dates, and with missing values have become. Printed, it is a table. None where
        all are numbers.
    recipe_ : lmgp.recipes.Recipe
        What was chosen, such as ``Nearest(n_neighbors=256)``.
    model_ : GaussianProcess
        The regressor of this recipe, in the same fitted state: it has the attributes of its own class.
    selection_ : lmgp.selection.record.Selection
        What was tried, what it cost, and what was chosen. Printed, it is a table.
    kernels_ : tuple of lmgp.posteriors.average.WeightedKernel
        The kernels that are averaged, with their noise variances and weights, `kernel_` first: the likeliest.
        `noise_variance_` is the weighted mean.
    kernel_, noise_variance_, noise_, center_, trend_, learning_, loo_, importance_, importance_error_, n_features_in_
        See `lmgp.estimators.GaussianProcess`.

    Notes
    -----
    Where the exact GP takes fewer than 2e10 multiplications, n²(n/3 + `n_predict`), it is taken at once, unless rows
    left out may choose: 2,400 rows and predictions.

    In up to three columns, `SpectralGPRegressor` is taken at once where it serves the kernel and is quick: the mean of
    all rows, by a global solve that states its own error, and the variance of local models.

    Otherwise 64 training rows, the probes, are held out, and predicted by the exact GP of all other rows; of more than
    4,096 rows, by that of the 512 rows nearest to each of 8 places, around which the probes are. Targets of probes are
    not used.

    Candidates come in sizes that grow by four, up to `max_features`. Localized ones are tried where `methods` names
    them, with thresholds of 4, 2, 1, 1/2 and 1/4 lengthscales. The operations and bytes that each takes to fit all rows
    and to predict `n_predict` are counted, and become nominal seconds by the rates of one machine
    (`lmgp.posteriors.costs`). Affordable are 20 of these, or what predictions from 256 nearest rows take where that is
    more. Candidates are tried on the probes, the cheapest first, and the first one is taken whose mean divergence, with
    two standard errors, is within the tolerance. All trials together take at most 3 nominal seconds.

    If there is none, as with kernels of many columns and little noise, the cheapest is taken whose divergence is within
    one standard error of the least; where `tolerance`, `max_features` or `methods` was given, a `ToleranceWarning` says
    so. Give `n_predict` if you predict fewer rows than you train on: more becomes affordable.

    The exact process has normal noise. Where none of the three was given, `noise` is not "normal", hyperparameters are
    learned and rows are more than 2,000, rows left out say from how many nearest rows each row is predicted: 8 where
    these have a mean log density above that of 128 by more than two standard errors, or else 256. Where it is 256,
    candidates are tried, too, and the one that is taken as above predicts in place of 256 nearest rows, unless its mean
    log density of rows left out is lower by more than `tolerance`. Where a t is likelier than a normal distribution,
    rows are weighted before, if rows left out gain by that: outliers count less.

    Where nearest rows were chosen, with a map or without, or sums over chunks, the model has the methods `partial_fit`,
    `forget`, `with_rows` and `merge` of `NearestNeighborsGPRegressor`.

    Of chunks and dask collections, all this is done with a random sample of up to 20,000 rows, for as many rows as
    there are, and with those models alone that are sums over rows: the global solve and the maps. Divergences of maps
    are from the exact GP of the sample; beside that of all rows, they may be larger.

    No clock decides: the same rows with the same `random_state` give the same model on every machine, under any load.

    Far from all data, all candidates but Fourier maps return to the prior.

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
        **AdditiveGaussianProcess._parameter_constraints,
        "tolerance": [Interval(Real, 0, None, closed="neither")],
        "max_features": [Interval(Integral, 2, None, closed="left")],
        "n_predict": [Interval(Integral, 1, None, closed="left"), None],
        "methods": ["array-like", None],
        "trend": [StrOptions({"auto", "constant", "linear"}), "array-like"],
        "columns": [Mapping, None],
        "missing": [StrOptions({"auto", "impute", "error"})],
        "metric": [StrOptions({"sphere"}), None],
        "rotate": ["boolean", "array-like"],
        "average": ["boolean", StrOptions({"auto"})],
    }

    selection_ = OfFit[Selection]()

    partial_fit = available_if(_takes_rows)(AdditiveGaussianProcess.partial_fit)
    forget = available_if(_takes_rows)(AdditiveGaussianProcess.forget)
    with_rows = available_if(_takes_rows)(AdditiveGaussianProcess.with_rows)
    merge = available_if(_takes_rows)(AdditiveGaussianProcess.merge)

    _chooses = True
    _maps_are_streams = False  # rows in memory have more models to choose from

    _columns_read: Columns | None = field(init=False, default=None)
    # Rows of a stream, in the copy of the model that learns from them.
    _sample: Sample | None = field(init=False, default=None)

    tolerance: float = 1e-3
    _: KW_ONLY
    max_features: int = 2048
    n_predict: int | None = None
    methods: Sequence[str] | None = None
    kernel: Wanted = "auto"
    trend: TrendColumns | Literal["auto"] = "auto"
    columns: Mapping[Any, str] | None = None
    missing: Missing = "auto"
    metric: Metric = None
    rotate: Rotate = False
    ard: Ard = "auto"
    noise: NoiseName = "auto"
    average: Average = "auto"

    def _settings(self, n_inputs: int, trend: Trend) -> Settings:
        # In standard deviations: columns come in any units. The coordinates of a place share one lengthscale.
        settings, average = super()._settings(n_inputs, trend), False if trend.estimated else self.average
        groups, categories = self._table.groups.tolist(), self._table.categories.tolist()
        return replace(settings, standardize=True, groups=groups, categories=categories, average=average)

    def _learned(self, rows: Rows) -> Detrended:
        if not isinstance(self.trend, str) or self.trend != "auto":
            return super()._learned(rows)
        places = [self._table.slopes([j]) for j in range(self.n_features_in_)]
        places = [of for of in places if len(of)]  # categories have no slopes
        if isinstance(self.kernel, Kernel) or self.average is True or rows.n_targets > 1 or not places:
            return self._detrended(rows, None)
        columns = likely_trend(rows, places, self._settings(rows.X.shape[1], CONSTANT_TREND))
        without = self._detrended(rows, None)
        if columns is None:
            return without
        stage("trend", "learning the kernel beside a linear trend")
        with silent():  # what is to be warned about has been said
            beside = self._detrended(rows, columns)
        pays = trend_pays(rows, columns, without.learned, beside.learned, column_scales(rows, None))
        return beside if pays else without

    def _check_first(self, rows: Rows, names: NDArray[Any] | None) -> None:
        checked_methods(self.methods)  # before the time that learning takes
        constant = isinstance(self.trend, str) and self.trend in ("auto", "constant")
        if self.average is True and not constant:
            raise InputError(
                "average=True takes trend='constant': there is no average of processes with linear trends."
            )
        if self.average is True and rows.n_targets > 1:
            raise InputError(
                f"average=True is of one target; got {rows.n_targets}. lmgp.estimators.MultiTargetGPRegressor averages "
                "the kernels of each (lmgp fit: --hyperparameters each)."
            )
        super()._check_first(rows, names)
        warn_of_targets(rows.Y, names)

    @property
    def columns_(self) -> Columns | None:
        """What columns have become that are not numbers, or have missing values; None where there are none."""
        self._state("columns_")
        return self._columns_read

    @property
    def _table(self) -> Columns:
        """What all columns have become."""
        names, fit, metric = getattr(self, "feature_names_in_", None), vars(self).get("_fitted"), self.metric
        if fit is not None:  # a place on the sphere has one coordinate more than columns
            metric = "sphere" if len(fit.column_scales) > self.n_features_in_ else None
        return self._columns_read or Columns.of_numbers(self.n_features_in_, names, metric)

    def _read(self, X: ArrayLike) -> Floats:
        X = pandas_frame(X)
        refuse_other_columns(self, self._table.table(X))
        return self._table.checked(X, super()._read, self.missing)

    def _read_pair(self, X: ArrayLike, y: ArrayLike | None, reset: bool = True) -> tuple[Floats, Floats]:
        X = pandas_frame(X)
        if reset:
            self.__dict__.pop("_fitted", None)  # which says what columns were
            rotate = bool(self.rotate) if np.ndim(self.rotate) == 0 else list(self.rotate)  # type: ignore[arg-type]
            self._columns_read = Columns.of(X, self.columns, self.missing, self.metric, rotate)
        else:
            refuse_other_columns(self, self._table.table(X))
        read, targets = super()._read_pair, list[Floats]()

        def inputs(table: Any) -> Floats:
            array, target = read(table, y, reset)
            targets.append(target)
            return array

        # Of numbers alone, how many they are is known when they were read.
        values = inputs(X) if self._columns_read is None else self._table.checked(X, inputs, self.missing)
        return values, targets[0]

    def _adapted(self, rows: Rows) -> Rows:
        settings, learns = self._settings(rows.X.shape[1], CONSTANT_TREND), not isinstance(self.kernel, Kernel)
        straight = None if isinstance(self.trend, str) and self.trend == "auto" else self._trend_inputs()
        columns, rows = adapted(self._table, rows, settings, learns, () if straight is None else straight)
        if not columns.is_plain:
            self._columns_read = columns
        return rows

    def _trend_columns(self) -> NDArray[np.intp] | None:
        if not isinstance(self.trend, str) and self._columns_read is not None:
            self._table.check_slopes(self.trend)
        return super()._trend_columns()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing != "error"
        return tags

    def _chosen(
        self, rows: Rows, learned: Learned, trend: Trend, rng: np.random.Generator
    ) -> tuple[Recipe, np.random.Generator, Selection | None]:
        n_trend = trend.n_columns if trend.estimated else 0
        recipe, selection, drawing = self._choice(rows, learned.kernel, learned.noise_variance, rng, n_trend)
        if (self._asked_for or self._sample is not None) and selection.shortfall:
            warn(selection.shortfall, ToleranceWarning)
        stage("fitting", "fitting %s to %s rows", SHELLS[type(recipe)].__name__, f"{self._n_streamed or len(rows):,}")
        return recipe, drawing, selection

    def _choice(
        self, rows: Rows, kernel: Kernel, noise_variance: float, rng: np.random.Generator, n_trend: int = 0
    ) -> tuple[Recipe, Selection, np.random.Generator]:
        """Choose the recipe for a kernel, see `choose`."""
        n_streamed = self._n_streamed
        methods = checked_methods(self.methods, summed=n_streamed is not None)
        if n_streamed is not None and n_trend:  # around centroids, sums have no trend
            methods = tuple(name for name in methods if name not in METHODS or not METHODS[name].localized)
        n_predict = n_streamed or len(rows) if self.n_predict is None else int(self.n_predict)
        first = rows.with_targets(rows.Y[:, :1])  # what serves one target serves all
        n_targets = rows.n_targets + n_trend
        # Rows left out may choose fewer rows to predict from: of few rows, the exact process is taken.
        free = self.noise != "normal" and not (self._asked_for or self._all_given) and n_streamed is None
        problem = Problem(
            first, kernel, noise_variance, float(self.tolerance), n_predict, n_targets, n_streamed,
            methods, int(self.max_features), float(self.max_memory_gib),
            by_rows_left_out=free and len(rows) > FEWEST_IN_REGIONS and kernel.can("metric"),
        )  # fmt: skip
        return choose(problem, rng)

    @property
    def _asked_for(self) -> bool:
        """Whether a user has said how near the exact process the model is to be, or by what."""
        given = self.tolerance, self.max_features
        return self.methods is not None or given != (GPRegressor.tolerance, GPRegressor.max_features)

    @property
    def _n_streamed(self) -> int | None:
        """The number of rows of a stream that is learned from; None of rows in memory."""
        if self._sample is None or self._sample.summary is None:
            return None
        n_rows = self._sample.summary.n_rows
        return n_rows if self._sample.whole else max(n_rows, ROWS_TO_COME)

    def _needs_sample(self) -> bool:
        return True

    def _check_streamed(self) -> None:
        checked_methods(self.methods, summed=True)
        whole = {"columns": self.columns, "rotate": self.rotate, "average": self.average is True}
        for name, given in whole.items():
            if given is not None and given is not False:
                raise InputError(
                    f"{name}={getattr(self, name)!r} takes all rows in memory, and a fit to chunks keeps none. Leave "
                    "it out: streams have columns of numbers, as they are, and one kernel. Or fit to rows in memory."
                )

    def _begun(self, sample: Sample, drawing: np.random.Generator, center: ArrayLike | None) -> Fit:
        model = copy(self)
        model._sample, model.average = sample, False
        if isinstance(self.kernel, str) and self.kernel == "auto":
            model.kernel = STREAMED
        return replace(super(GPRegressor, model)._begun(sample, drawing, center), average=())

    def _ended(self, fit: Fit, sample: Sample | None) -> Fit:
        return super()._ended(_stating(fit.solved), sample)

    def _finished(self, fit: Fit, posterior: Posterior, rows: Rows) -> Fit:
        if len(fit.average) > 1:
            posterior = averaged(fit.average, partial(self._part, fit, posterior, rows))
            fit = replace(fit, noise_variance=posterior.noise.variance, sums=None)
        # Sums that are quick share the rows of the posterior, and all others would double the memory.
        sums = fit.sums if fit.sums is not None and fit.sums.are_quick else None
        return _stating(replace(super()._finished(fit, posterior, rows), sums=sums))

    def _part(self, fit: Fit, heaviest: Posterior, rows: Rows, kernel: Kernel, noise_variance: float) -> Posterior:
        """Return the posterior of one kernel of an average, by a recipe of its own."""
        if kernel is fit.kernel:
            return heaviest
        assert fit.selection is not None  # of a recipe that was chosen
        recipe, _, drawing = self._choice(rows, kernel, noise_variance, generator(fit.selection.seed))
        return recipe.posterior(kernel, noise_variance, rows, drawing)

    @property
    def kernels_(self) -> tuple[WeightedKernel, ...]:
        """The kernels that are averaged, the likeliest first; one alone has the weight 1."""
        return self._state("kernels_").kernels

    @property
    def model_(self) -> GaussianProcess:
        """The regressor of the chosen recipe, in the same fitted state."""
        fit = self._state("model_")
        cls = SHELLS[type(fit.recipe)]
        values = {name: getattr(fit.recipe, name) for name in cls().get_params() if hasattr(fit.recipe, name)}
        values |= {"kernel": fit.kernel, "noise_variance": fit.noise_variance}
        values |= {"trend": fit.trend.index.tolist() if fit.trend.estimated else "constant", "noise": self.noise}
        if fit.selection is not None:
            values["random_state"] = fit.selection.seed
        model = cls(**{name: clone(value, safe=False) for name, value in values.items()})
        model._fitted = fit if self._table.is_plain else replace(fit, importance=None)  # which is of the columns of X
        model.n_features_in_ = len(fit.column_scales)
        return model

    def _error(self, posterior: Posterior, X: Floats) -> Floats:
        try:
            return super()._error(posterior, X)
        except NoEstimateError:  # it states none: the mean of what was measured on the probes
            return np.full((len(X), len(self._fitted.scales)), self.selection_.chosen.kl)


def _stating(fit: Fit) -> Fit:
    """Return the state of a solve by modes with what this states of itself in its selection."""
    by_modes = None if fit.posterior is None else untrended(fit.posterior)
    if not isinstance(by_modes, SpectralPosterior) or fit.selection is None:
        return fit
    trial = fit.selection.chosen._replace(kl=by_modes.accuracy.divergence)  # of one that is taken at once
    return replace(fit, selection=replace(fit.selection, trials=(trial,), variance_by=by_modes.variance_by))
