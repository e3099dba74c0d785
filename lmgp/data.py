"""Rows: what is checked of them at the boundary, their noise, and what is summed of them whatever the model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from lmgp.errors import InputError, ScaleWarning, warn
from lmgp.utils.columns import dask_kind, pandas_frame, refuse_other_than_numbers, refuse_what_is_no_table

if TYPE_CHECKING:
    import torch

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Complexes = NDArray[np.complex128]
RandomState = int | np.random.Generator | np.random.RandomState | None

# Of all samples by which models learn and are compared.
SEED = 0


def generator(random_state: RandomState) -> np.random.Generator:
    """Make a generator from what scikit-learn users pass as ``random_state``.

    Parameters
    ----------
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        ``None`` takes fresh entropy from the operating system: no global state is read.

    Returns
    -------
    numpy.random.Generator
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**31)))
    if isinstance(random_state, Integral) and random_state < 0:
        raise InputError(f"random_state must be a non-negative integer, a generator or None; got {random_state}.")
    return np.random.default_rng(random_state)


def drawing_of(random_state: RandomState) -> np.random.Generator:
    """Make the generator with which a model draws its map; one that is given is advanced."""
    return spawn(generator(random_state), 2)[1]


def sampling(*of: int) -> np.random.Generator:
    """Make the generator of a sample by which models learn, or are compared: always the same, whatever `random_state`.

    Parameters
    ----------
    *of : int
        Tell samples apart that are drawn of the same rows.
    """
    return np.random.default_rng((SEED, *of))


def spawn(rng: np.random.Generator, n: int) -> list[np.random.Generator]:
    """Make n independent generators that depend on the state of `rng`, and advance it."""
    return [np.random.default_rng(seed) for seed in rng.integers(2**63, size=(n, 4))]


def as_tensor(array: NDArray[Any]) -> "torch.Tensor":
    """View an array of numbers as a tensor; only what torch cannot share (read-only, negative strides) is copied."""
    import torch  # here, so that data sets are read without it

    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    return torch.from_numpy(array)


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked training rows, with one column of targets for each function that is to be predicted.

    The columns of a trend are targets like any other. Targets are centred once, where the rows are made.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    Y : ndarray of shape (n, t)
        One target of shape (n,) becomes one column.
    weights : ndarray of shape (n,) or None
        Positive; the noise variance of a row of weight w is σ²/w. None means 1 everywhere. Where all are whole numbers,
        each counts equal rows, see `counts`.
    noise_variances : ndarray of shape (n,) or None
        Noise variance of each row, in squared units of the targets. None means the same everywhere.
    measurements : ndarray of shape (n,) or None
        Of how many measurements each y is the mean: y has their noise variance, divided by this number. Such rows count
        no equal rows. None means 1 everywhere.
    """

    X: Floats
    Y: Floats
    weights: Floats | None = None
    noise_variances: Floats | None = None
    measurements: Floats | None = None

    def __post_init__(self) -> None:
        if self.Y.ndim == 1:
            object.__setattr__(self, "Y", self.Y[:, None])

    def __len__(self) -> int:
        return len(self.X)

    @property
    def rows_kept(self) -> int:
        """The number of rows, which the header of a model file states."""
        return len(self)

    @property
    def n_targets(self) -> int:
        """The number t of columns of targets."""
        return self.Y.shape[1]

    def with_targets(self, Y: Floats) -> "Rows":
        """Return these rows with other targets, of shape (n, t) or (n,)."""
        return replace(self, Y=Y)

    def copy(self) -> "Rows":
        """Return rows that do not change with the caller's arrays."""
        return self.take(np.arange(len(self)))

    def take(self, index: NDArray[Any] | slice) -> "Rows":
        """Return the rows at `index` (integers, a mask or a slice)."""

        def of(array: Floats) -> Floats:
            if isinstance(index, slice) or index.dtype == bool:
                return array[index]
            return array.take(index, axis=0)  # ten times faster, for rows of a few columns

        of_rows = self.weights, self.noise_variances, self.measurements
        return Rows(of(self.X), of(self.Y), *(None if each is None else of(each) for each in of_rows))

    def joined(self, other: "Rows", noise_variance: float) -> "Rows":
        """Return these rows and others; `noise_variance` is that of rows without one of their own."""

        def of(name: str, *missing: float | Floats) -> Floats | None:
            """Join what both have; `missing` is what rows without it have."""
            parts = getattr(self, name), getattr(other, name)
            if all(part is None for part in parts):
                return None
            each = zip((self, other), parts, missing, strict=True)
            return np.concatenate([np.full(len(rows), value) if part is None else part for rows, part, value in each])

        X, Y = (np.concatenate(parts) for parts in ((self.X, other.X), (self.Y, other.Y)))
        # Beside weights that count no equal rows, none do.
        measurements = of("measurements", *(1.0 if rows.weights is None else rows.weights for rows in (self, other)))
        noises = of("noise_variances", noise_variance, noise_variance)
        return Rows(X, Y, of("weights", 1.0, 1.0), noises, measurements)

    @property
    def counts(self) -> Floats | None:
        """How many equal rows each one stands for: weights that are whole numbers. None means 1 everywhere."""
        return self.weights if self.measurements is None and are_whole(self.weights) else None

    @property
    def reweighted(self) -> bool:
        """Whether a robust fit has given the rows other weights than they came with."""
        known = self.weights is not None and self.measurements is not None
        return known and not np.array_equal(self.weights, self.measurements)  # type: ignore[arg-type]

    @property
    def n_observations(self) -> float:
        """The number of rows, each as often as it counts."""
        return float(len(self)) if self.counts is None else float(self.counts.sum())

    @property
    def mean_weight(self) -> float:
        """The mean of weights that count no equal rows: σ² over it is the noise variance of a typical row; else 1."""
        return 1.0 if self.weights is None or self.counts is not None else float(self.weights.mean())

    def at_mean_weight(self, noise: "Noise") -> tuple[Self, "Noise"]:
        """Return the same rows with a `mean_weight` of 1, and the noise of which they say as much as before."""
        unit = self.mean_weight
        if self.weights is None or unit == 1.0:
            return self, noise
        noises = None if self.noise_variances is None else self.noise_variances / unit
        rows = replace(self, weights=self.weights / unit, noise_variances=noises, measurements=None)
        return rows, replace(noise, variance=noise.variance / unit)

    @property
    def means(self) -> Floats:
        """The weighted mean of each target, shape (t,): to the last digit the same in any order of the rows."""
        if self.weights is None:
            return np.sort(self.Y, axis=0).mean(axis=0)
        return np.sort(self.weights[:, None] * self.Y, axis=0).sum(axis=0) / np.sort(self.weights).sum()


def are_whole(weights: Floats | None) -> bool:
    """Say whether there are weights, and all of them are whole numbers."""
    return weights is not None and bool(np.all(weights == np.rint(weights)))


# Rows that had no part in their prediction, their y, means and standard deviations with noise, of shape (m, t), and
# whether each was left out by itself.
Predicted = tuple[Rows, Floats, Floats, Floats, bool]

Approximation = Literal["dtc", "sor", "fitc"]
APPROXIMATIONS: tuple[Approximation, ...] = get_args(Approximation)


@dataclass(frozen=True)
class Noise:
    """The noise of training rows, and what a map leaves out of their prior variance.

    A map with columns φ leaves out m(x) = k(x, x) − ‖φ(x)‖², its missing variance.

    Parameters
    ----------
    variance : float
        σ², in squared units of y, of new rows and of rows without a noise variance of their own.
    approximation : {"dtc", "sor", "fitc"}, default="fitc"
        What becomes of the missing variance. The subset of regressors ("sor") ignores it; the deterministic training
        conditional ("dtc") adds it to the variance of a prediction; the fully independent training conditional ("fitc")
        also adds it to the noise of each training row.

    References
    ----------
    J. Quiñonero-Candela and C. E. Rasmussen, *A Unifying View of Sparse Approximate Gaussian Process Regression*, JMLR
    6, 2005, sections 4 to 6.
    """

    variance: float
    approximation: Approximation = "fitc"

    @property
    def counts_missing(self) -> bool:
        """Whether the missing variance of a training row is noise of that row."""
        return self.approximation == "fitc"

    @property
    def predicts_missing(self) -> bool:
        """Whether the missing variance is part of a prediction's variance."""
        return self.approximation != "sor"

    def of_rows(self, rows: Rows, missing: Floats | None = None) -> Floats:
        """Return the noise variance σᵢ² of each row, shape (n,).

        Parameters
        ----------
        rows : Rows
        missing : ndarray of shape (n,), optional
            The missing variance; counted where the approximation says so.
        """
        noise = np.full(len(rows), self.variance) if rows.noise_variances is None else rows.noise_variances
        return noise + missing if missing is not None and self.counts_missing else noise

    def of_weighted_rows(self, rows: Rows, missing: Floats | None = None) -> Floats:
        """Return σᵢ²/wᵢ of each row: w equal rows say as much about f as one with this noise variance."""
        noise = self.of_rows(rows, missing)
        return noise if rows.weights is None else noise / rows.weights

    def of_observations(self, rows: Rows) -> Floats:
        """Return the noise variance of y in each row: σᵢ², or that of the mean of its measurements."""
        noise = self.of_rows(rows)
        return noise if rows.measurements is None else noise / rows.measurements

    def observed(self, rows: Rows, means: Floats, variances: Floats, alone: bool) -> Predicted:
        """Return rows with what is predicted of their y, from the means and variances of the latent functions."""
        return rows, rows.Y, means, np.sqrt(variances + self.of_observations(rows))[:, None], alone

    def mean_precision(self, rows: Rows) -> float:
        """Return the mean of wᵢσ²/σᵢ² over rows: as how many rows with the noise variance σ² one counts."""
        return float((self.variance / self.of_weighted_rows(rows)).mean())

    def relative_precision(self, rows: Rows, missing: Floats | None = None) -> Floats | None:
        """Return σ²/σᵢ² of each row, shape (n,); None where that is 1 for all."""
        if rows.noise_variances is None and (missing is None or not self.counts_missing):
            return None
        return self.variance / self.of_rows(rows, missing)

    def predicted(self, variance: Floats, missing: Floats | None) -> Floats:
        """Return the latent variance of a prediction, with what the map leaves out where that is part of it."""
        return variance if missing is None or not self.predicts_missing else variance + missing


# A sum of squares may be below zero by this share of its largest addend: rounding.
ROUNDING = 1e-9

# A standard deviation below this, relative to the column's largest value, is rounding: the column is constant.
CONSTANT = 1e-15


@dataclass(frozen=True, eq=False)
class TargetSums:
    """Sums over rows of products of their targets, with the weight w and the precision ρ of each row.

    ρ = w σ²/σᵢ² is relative to the noise variance σ² of the model.

    Attributes
    ----------
    products : ndarray of shape (t, t)
        Σ ρ yyᵀ.
    totals : ndarray of shape (t,)
        Σ w y.
    n : float
        Σ w.
    log_precision : float
        Σ w log(ρ/w), the rows' own part of the log likelihood; 0 where all rows share one noise variance.
    peaks : ndarray of shape (t,)
        The largest Σ ρ y² of each target that was ever part of these sums: what is left after rows were taken out has
        the rounding of that.
    n_rows : int
    counts_rows : bool
        Whether the weights of all rows that were ever part of these sums count equal rows, see `Rows.counts`.
    """

    products: Floats
    totals: Floats
    n: float
    log_precision: float
    peaks: Floats
    n_rows: int = 0
    counts_rows: bool = True

    @classmethod
    def zeros(cls, n_targets: int) -> Self:
        """Make the sums over no rows."""
        return cls(np.zeros((n_targets, n_targets)), np.zeros(n_targets), 0.0, 0.0, np.zeros(n_targets))

    @classmethod
    def of(cls, rows: Rows, noise: Noise | None = None, missing: Floats | None = None) -> tuple[Self, Floats | None]:
        """Sum over rows; return the sums, and ρ of each row, shape (n,), None where it is 1 for all.

        Parameters
        ----------
        rows : Rows
        noise : Noise, optional
            Without one, ρ = w.
        missing : ndarray of shape (n,), optional
            What a map leaves out of the prior variance of each row.
        """
        Y, weights = rows.Y, rows.weights
        relative = None if noise is None else noise.relative_precision(rows, missing)
        n = float(len(Y)) if weights is None else float(weights.sum())
        totals = Y.sum(axis=0) if weights is None else weights @ Y
        precision, log_precision = weights, 0.0
        if relative is not None:
            logarithms = np.log(relative)
            log_precision = float(logarithms.sum() if weights is None else weights @ logarithms)
            precision = relative if weights is None else weights * relative
        products = Y.T @ (Y if precision is None else Y * precision[:, None])
        counts_rows = weights is None or rows.counts is not None
        peaks = products.diagonal().copy()
        return cls(products, totals, n, log_precision, peaks, len(rows), counts_rows), precision

    @property
    def means(self) -> Floats:
        """The weighted mean of each target, shape (t,); 0 of no rows."""
        return self.totals / self.n if self.n else np.zeros_like(self.totals)

    @property
    def n_densities(self) -> float:
        """The number of targets in the likelihood: Σ w where all weights count equal rows, else that of the rows."""
        return self.n if self.counts_rows else float(self.n_rows)

    def combine(self, other: Self, sign: float = 1.0) -> Self:
        """Return these sums plus `sign` times others."""
        products = self.products + sign * other.products
        peaks = np.maximum(np.maximum(self.peaks, other.peaks), products.diagonal())
        n, log_precision = self.n + sign * other.n, self.log_precision + sign * other.log_precision
        totals, n_rows = self.totals + sign * other.totals, self.n_rows + int(sign) * other.n_rows
        counts_rows = self.counts_rows and other.counts_rows
        return type(self)(products, totals, n, log_precision, peaks, n_rows, counts_rows)

    def combined(self, combination: Floats) -> Self:
        """Return the sums of the targets Y @ combination, for a combination of shape (t, s)."""
        products = combination.T @ self.products @ combination
        peaks = np.square(np.abs(combination).T @ np.sqrt(self.peaks))
        return replace(self, products=products, totals=self.totals @ combination, peaks=peaks)

    def check_remaining(self, before: Self) -> None:
        """Refuse sums that no rows have: what was taken out of those `before` was not in them.

        Raises
        ------
        InputError
        """
        remaining(before.n, self.n, before.products.diagonal(), self.products.diagonal())


@dataclass(frozen=True, eq=False)
class Source:
    """What sums are of: two with equal sources add.

    Attributes
    ----------
    noise : Noise
        What the precision of a row is relative to.
    kernel : str
        As it prints.
    features : str
        The name and a digest of the fitted map: of its kernel, its columns and what was drawn.
    centre : ndarray of shape (d,) or None
        The centre of the map, in the units of X.
    """

    noise: Noise
    kernel: str = ""
    features: str = ""
    centre: Floats | None = None

    def check(self, other: Self) -> None:
        """Refuse another source.

        Raises
        ------
        InputError
            It names what differs, of both.
        """
        if self is other:
            return
        noises = [(source.noise.variance, source.noise.counts_missing) for source in (self, other)]
        mine, theirs = (np.zeros(0) if source.centre is None else source.centre for source in (self, other))
        pairs = (
            ("noise variance", noises[0] == noises[1], self.noise, other.noise),
            ("kernel", self.kernel == other.kernel, self.kernel, other.kernel),
            ("map", self.features == other.features, self.features, other.features),
            ("centre", np.array_equal(mine, theirs), self.centre, other.centre),
        )
        for what, same, ours, others in pairs:
            if not same:
                raise InputError(
                    f"Statistics of another {what} cannot be merged: these have {ours}, the others {others}. Sum both "
                    "with the same fitted map, centre and noise."
                )


@dataclass(frozen=True, eq=False)
class Summary:
    """Moments and ranges of rows. Those of disjoint rows add; ranges do not shrink where rows are taken out.

    Attributes
    ----------
    n_rows : int
    n : float
        Σ w.
    mean, squares : ndarray of shape (d,)
        The weighted mean of each column, and Σ w (x − mean)².
    low, high : ndarray of shape (d,)
        The box of the rows.
    least, most : ndarray of shape (t,)
        The range of each target.
    """

    n_rows: int
    n: float
    mean: Floats
    squares: Floats
    low: Floats
    high: Floats
    least: Floats
    most: Floats

    @classmethod
    def of(cls, rows: Rows) -> Self:
        """Summarise at least one row."""
        weights = np.ones(len(rows)) if rows.weights is None else rows.weights
        n = float(weights.sum())
        # A copy by columns, of which numpy takes sums and ranges several times as fast.
        columns = np.array(rows.X.T, order="C", copy=True)
        mean = columns @ weights / n
        box = columns.min(axis=1), columns.max(axis=1)
        columns -= mean[:, None]
        squares = np.square(columns, out=columns) @ weights
        return cls(len(rows), n, mean, squares, *box, rows.Y.min(axis=0), rows.Y.max(axis=0))

    def combine(self, other: Self, sign: float = 1.0) -> Self:
        """Return the summary of the rows of both; with ``sign=-1.0``, without the rows of the other."""
        slack = 1e-12 * np.maximum(np.abs(self.low), np.abs(self.high))  # rows of another batch may differ by rounding
        if sign < 0.0 and (np.any(other.low < self.low - slack) or np.any(other.high > self.high + slack)):
            raise not_there("one of them lies outside the range of its rows")
        n, m, n_rows = self.n, sign * other.n, self.n_rows + int(sign) * other.n_rows
        if n + m <= 0.0:
            return replace(self, n_rows=n_rows, n=n + m)
        apart = other.mean - self.mean
        squares = self.squares + sign * other.squares + n * m / (n + m) * np.square(apart)
        moments = replace(
            self, n_rows=n_rows, n=n + m, mean=self.mean + m / (n + m) * apart, squares=np.maximum(squares, 0.0)
        )
        if sign < 0.0:
            return moments
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        least, most = np.minimum(self.least, other.least), np.maximum(self.most, other.most)
        return replace(moments, low=low, high=high, least=least, most=most)

    @property
    def deviations(self) -> Floats:
        """The standard deviation of each column, shape (d,): 0 of one that is constant up to rounding."""
        deviations = np.sqrt(self.squares / self.n)
        spread = deviations > CONSTANT * np.maximum(np.abs(self.low), np.abs(self.high))
        return np.where(spread, deviations, 0.0)

    def farthest(self, centers: Floats) -> Floats:
        """Return the largest |y − center| of the first targets, one for each center, shape (len(centers),)."""
        t = len(centers)
        return np.maximum(np.maximum(self.most[:t] - centers, centers - self.least[:t]), 0.0)


def remaining(n: Floats | float, n_left: Floats | float, squares: Floats, squares_left: Floats) -> NDArray[np.bool_]:
    """Say where rows remain, of numbers of rows and sums of squared targets before and after some were taken out.

    Raises
    ------
    InputError
        If no rows have the sums that would be left.
    """
    before, left = np.atleast_1d(n), np.atleast_1d(n_left)
    short = left < -ROUNDING * before
    if short.any():
        raise not_there(f"of {before[short][0]:g} rows, {(before - left)[short][0]:g} are to be taken out")
    if np.any(squares_left < -ROUNDING * squares):
        raise not_there("the sum of squared targets falls below zero")
    return left > ROUNDING * before


def not_there(what: str) -> InputError:
    """Make the error of rows that are to be taken out and never were there."""
    return InputError(
        f"These rows cannot be taken out, because not all of them are in the model: {what}. The model is as it was. "
        "Give rows with the X, y, weights and noise variances with which they were added."
    )


def floats(values: Any) -> Floats:
    """Return numbers as an array; not a number where they are none."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return np.full(1, np.nan)


def known_centers(known: ArrayLike | None, rows: Rows) -> Floats:
    """Return the known means of the targets, shape (t,), or the weighted means of the rows if `known` is None.

    Raises
    ------
    InputError
        If they are no finite numbers, one, or one for each target.
    """
    if known is None:
        return rows.means
    means = floats(known)
    if isinstance(known, bool | str) or means.shape not in ((), (rows.n_targets,)) or not np.all(np.isfinite(means)):
        raise InputError(
            f"center must be a finite number, the known mean of y{'' if rows.n_targets == 1 else ' of each target'}; "
            f"got {known!r}."
        )
    return np.broadcast_to(means, rows.n_targets).copy()


def named_targets(y: Any, target: Floats) -> NDArray[Any] | None:
    """Return the names of the columns of y, of "0", "1" and so on where they have none; None of a y of shape (n,)."""
    if target.ndim == 1:
        return None
    return np.array(_names_of_targets(y) or list(map(str, range(target.shape[1]))), dtype=object)


def _names_of_targets(y: Any) -> list[str]:
    return [str(name) for name in getattr(pandas_frame(y), "columns", ())]


def refuse_other_targets(y: Any, names: NDArray[Any] | None) -> None:
    """Refuse targets whose names are those of a model in another order; see `refuse_other_order`."""
    refuse_other_order(_names_of_targets(y), names)


def refuse_other_order(given: Sequence[str], names: NDArray[Any] | None) -> None:
    """Refuse names of targets that are those of a model in another order.

    Raises
    ------
    InputError
    """
    if names is not None and sorted(given) == sorted(names) and list(given) != list(names):
        raise InputError(f"y must have its columns in the order of fit, {', '.join(names)}; got {', '.join(given)}.")


def validated(estimator: BaseEstimator, X: Any, **options: Any) -> Any:
    """Check rows as scikit-learn's `validate_data` does, with messages that name columns and rows.

    Parameters
    ----------
    estimator : BaseEstimator
        It gets ``n_features_in_`` and ``feature_names_in_``, or X is checked against them with ``reset=False``.
    X : array-like of shape (n, d)
    **options
        Those of `validate_data`.

    Returns
    -------
    ndarray or sparse array of shape (n, d), of float64
    """
    _refuse_no_inputs(estimator, X, options)
    return validate_data(estimator, X, dtype=np.float64, **options)


def refuse_no_targets(estimator: BaseEstimator, y: Any) -> None:
    """Refuse a y that is not there, in scikit-learn's words."""
    if y is None:
        raise InputError(f"{type(estimator).__name__} requires y to be passed, but the target y is None.")


def validated_pair(estimator: BaseEstimator, X: Any, y: Any, **options: Any) -> tuple[Any, NDArray[np.float64]]:
    """Check rows and numeric targets, one a row; see `validated`.

    Returns
    -------
    X : ndarray or sparse array of shape (n, d)
    y : ndarray of shape (n,) or (n, t)
        Both of float64.
    """
    _refuse_no_inputs(estimator, X, options)
    if dask_kind(y) is not None:
        refuse_what_is_no_table(y, "y")  # before an array is made of it
    if y is not None and np.asarray(y).ndim == 0:
        raise InputError("y should be a 1d array, got an array of shape () instead: one value for each row of X.")
    if getattr(y, "shape", ())[1:] == (0,):
        raise InputError(f"y must have one column a target; got none, shape {y.shape}.")
    refuse_other_than_numbers(y, "y")
    options = {"y_numeric": True, "multi_output": True, **options}
    inputs, target = validate_data(estimator, X, y, dtype=np.float64, **options)
    # Objects and strings become numbers only here.
    return inputs, check_array(target, dtype=np.float64, ensure_2d=False, input_name="y")


def _refuse_no_inputs(estimator: BaseEstimator, X: Any, options: dict[str, Any]) -> None:
    """Refuse what is no table of numbers with an estimator's columns; sparse ones raise scikit-learn's TypeError."""
    if not options.get("accept_sparse"):
        # Which a frame has if all of its columns are sparse.
        if hasattr(X, "iloc") and X.ndim == 2 and X.shape[1] and hasattr(X, "sparse"):
            raise TypeError(
                f"A data frame of sparse columns was passed as X, but {type(estimator).__name__} needs dense ones: use "
                "X.sparse.to_dense(), or pd.get_dummies(..., sparse=False) where they are made."
            )
        if issparse(X):
            raise TypeError(
                f"Sparse data was passed as X, but dense data is required by {type(estimator).__name__}. Ask for dense "
                "columns where they are made, OneHotEncoder(sparse_output=False) or ColumnTransformer(..., "
                "sparse_threshold=0), or use X.toarray()."
            )
    refuse_what_is_no_table(X, "X")
    if options.get("reset") is False:
        refuse_other_columns(estimator, X)
    refuse_other_than_numbers(X, "X")


def refuse_other_columns(estimator: BaseEstimator, X: Any) -> None:
    """Refuse a data frame with other columns than `fit` had, or in another order."""
    if not hasattr(X := pandas_frame(X), "columns"):
        return
    refuse_what_is_no_table(X, "X")
    try:
        validate_data(estimator, X, reset=False, skip_check_array=True)
    except ValueError as error:
        known = set(getattr(estimator, "feature_names_in_", ()))
        cure = "Take them by name: X[model.feature_names_in_]." if known and known <= set(X.columns) else ""
        raise InputError(f"{error}{cure}") from error


def check_rows(
    X: Floats, y: Floats, sample_weight: ArrayLike | None, noise_variances: ArrayLike | None, least: int = 2
) -> Rows:
    """Check the weights of validated X and y, and leave out the rows of weight zero.

    Raises
    ------
    InputError
        If a weight is negative, a noise variance is not positive, or fewer than `least` rows remain.
    """
    rows = Rows(
        X, y, _check_vector(sample_weight, "sample_weight", X), _check_vector(noise_variances, "noise_variances", X)
    )
    if rows.weights is not None and np.any(rows.weights < 0):
        at = int(np.argmin(rows.weights))
        raise InputError(f"sample_weight must not be negative; got {rows.weights[at]:g} for row {at}.")
    noises = 1.0 if rows.noise_variances is None else rows.noise_variances
    noises = np.where(rows.weights == 0, np.inf, noises)  # rows of weight zero need none
    if not np.all(noises > 0):
        at = int(np.argmin(noises))
        raise InputError(
            f"noise_variances must be positive; got {noises[at]:g} for row {at}. "
            "For a row without noise give a small positive variance."
        )
    if rows.weights is not None:
        rows = rows.take(rows.weights > 0)
        rows = rows if are_whole(rows.weights) else replace(rows, measurements=rows.weights)
    if len(rows) < least:
        raise InputError(
            f"At least {least} row{'s' if least > 1 else ''} of positive weight {'are' if least > 1 else 'is'} needed "
            f"to fit a model; got {len(rows)} sample(s): all other weights are zero."
        )
    return rows


def _check_vector(values: ArrayLike | None, name: str, X: NDArray[np.float64]) -> NDArray[np.float64] | None:
    if values is None:
        return None
    if isinstance(values, str):
        raise InputError(f"{name} must have one number a row; got {values!r}.")
    if isinstance(values, Real) or getattr(values, "shape", None) == ():  # one for all rows, as in scikit-learn
        values = np.full(len(X), values)
    refuse_other_than_numbers(values, name)
    vector: NDArray[np.float64] = check_array(values, ensure_2d=False, dtype=np.float64, input_name=name)
    if vector.shape != (len(X),):
        raise InputError(f"{name} must have one value a row, shape ({len(X)},); got shape {vector.shape}.")
    return vector


# Columns whose standard deviations differ by this factor are no match for one lengthscale.
FAR_APART = 1e3


def column_scales(rows: Rows, groups: Indices | None = None) -> Floats:
    """Measure the standard deviation of each column of X, weighted like the rows.

    Values up to the limits of float64 do not overflow. A column that is constant up to rounding has the scale 1.

    Parameters
    ----------
    rows : Rows
    groups : ndarray of int of shape (d,), optional
        Columns with equal numbers get one scale, the root of the mean square of theirs.

    Returns
    -------
    ndarray of shape (d,)
        Positive and finite, in the units of each column.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp.data import Rows
    >>> X = np.array([[1.0, 1e200, 5.0], [3.0, 3e200, 5.0]])
    >>> column_scales(Rows(X, np.zeros(2)))
    array([1.e+000, 1.e+200, 1.e+000])
    """
    deviations = column_deviations(rows)
    for group in () if groups is None else np.unique(groups):
        of_group = groups == group
        largest = deviations[of_group].max() or 1.0
        deviations[of_group] = largest * np.sqrt(np.mean(np.square(deviations[of_group] / largest)))
    return np.where(deviations > 0.0, deviations, 1.0)


def column_deviations(rows: Rows) -> Floats:
    """Measure as `column_scales`, but with 0 for a column that is constant up to rounding."""
    return np.array([_deviation(column, rows.weights) for column in rows.X.T])


def _deviation(column: Floats, weights: Floats | None) -> float:
    largest = float(np.abs(column).max())
    if largest == 0.0:
        return 0.0
    # Between −1 and 1 no square overflows; less the first value, a mean far from zero takes no digits.
    relative = column / largest
    relative -= relative[0]
    centered = relative - np.average(relative, weights=weights)
    deviation = float(np.sqrt(np.average(np.square(centered), weights=weights)))
    return max(deviation * largest, np.finfo(np.float64).tiny) if deviation > CONSTANT else 0.0


def warn_of_scales(rows: Rows, names: Sequence[str] | None, cure: str) -> None:
    """Warn where one lengthscale serves columns that differ a thousandfold in scale; constant columns do not count.

    Parameters
    ----------
    rows : Rows
    names : sequence of str or None
        Of the columns; None means by their numbers.
    cure : str
        What to do, one sentence.

    Warns
    -----
    ScaleWarning
    """
    deviations = column_deviations(rows)
    large, small = int(np.argmax(deviations)), int(np.argmin(np.where(deviations > 0.0, deviations, np.inf)))
    if deviations[large] / FAR_APART < deviations[small] or not deviations.any():
        return
    labels = [f"column {names[j]!r}" if names is not None else f"column {j}" for j in (large, small)]
    warn(
        f"The standard deviation of {labels[0]} of X is {deviations[large]:.3g}, that of {labels[1]} is "
        f"{deviations[small]:.3g}. One lengthscale serves all columns: the second one will hardly count. {cure}",
        ScaleWarning,
    )


def checked_scales(scales: ArrayLike) -> Floats:
    """Return the scales of columns as an array of shape (d,).

    Raises
    ------
    InputError
        If they are not positive and finite.
    """
    checked = np.asarray(scales, dtype=np.float64)
    if checked.ndim != 1 or not len(checked) or not np.all((checked > 0) & np.isfinite(checked)):
        raise InputError(f"scales must be positive and finite, one a column, shape (d,); got {scales!r}.")
    return checked
