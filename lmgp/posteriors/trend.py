"""The mean function of a Gaussian process: columns h of a trend, and the posterior with their coefficients."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from lmgp.data import Floats, Indices, Rows, column_deviations
from lmgp.errors import InputError
from lmgp.kernels.base import Kernel
from lmgp.neighbours.duplicates import steady_sample
from lmgp.posteriors.base import LEAST, Posterior
from lmgp.posteriors.exact import ExactPosterior, max_rows_within
from lmgp.posteriors.joint import normal_draws
from lmgp.utils.columns import column_index
from lmgp.utils.facts import Table
from lmgp.utils.fitted import digest

# A column is constant where its standard deviation is below this share of its largest value.
CONSTANT = 1e-12
# A direction is missing where the standardised columns spread by less than this share of their largest spread.
COLLINEAR = 1e-7
# Sums of squares of the columns do not determine a direction in which they have less than this share of their largest:
# rounding. As along a missing one, the trend does not change along it. HᵀC⁻¹H may have far less in a direction that the
# kernel explains than in another: what is below the second share of its largest is rounding.
UNDETERMINED, ROUNDING = 1e-10, 1e-14
# A trend explains the targets where its largest residual is below this share of its largest value.
EXPLAINED = 1e-10

# The rows from which a trend is estimated where no posterior has all rows: about a second of factorisation.
TREND_ROWS = 4000


@dataclass(frozen=True, eq=False)
class Trend:
    """The columns h(x) of a mean function hᵀβ: a constant, and slopes for some columns of x.

    h(x) = (1, Qᵀz) with z = (x − mean)/scale has uncorrelated columns, of mean 0 and variance 1 over the training rows.
    Where columns of z are collinear, h has one less for each direction in which no two rows differ. The slopes then are
    the smallest ones, for z, of all that fit the rows equally well. Along a missing direction the trend does not
    change, and nothing is added to the variance.

    Attributes
    ----------
    names : tuple of str
        Of the q columns of x.
    index : ndarray of shape (q,)
        Where they are.
    mean, scale : ndarray of shape (q,)
        Over the rows, in units of x; the scale of a constant column is infinite.
    directions : ndarray of shape (q, p - 1)
        Q.
    estimated : bool
        Whether the coefficients are estimated with their uncertainty. Those of a constant alone are the means of y, as
        if they were known.
    unit : float, default=1.0
        By which all columns of h are multiplied: near the size of the targets, so that what is accurate enough for
        these is so for the columns.
    """

    names: tuple[str, ...]
    index: Indices
    mean: Floats
    scale: Floats
    directions: Floats
    estimated: bool
    unit: float = 1.0

    @classmethod
    def of(cls, rows: Rows, columns: Any, names: Sequence[str] | None) -> "Trend":
        """Make the columns of a trend for training rows, which count with their weight over their noise variance.

        Parameters
        ----------
        rows : Rows
        columns : {"constant", "linear"} or array-like of int or str
            See `chosen_columns`.
        names : sequence of str, optional
            Of all columns of X.

        Raises
        ------
        InputError
            If there is no such column, or there are not more rows than coefficients.
        """
        index = chosen_columns(columns, names, rows.X.shape[1])
        if index is None:
            return CONSTANT_TREND
        check_number(len(rows), len(index))
        shares = _shares(rows)
        chosen = rows.X[:, index]
        mean, deviations = shares @ chosen, column_deviations(Rows(chosen, rows.Y, shares))
        spread = deviations > CONSTANT * np.abs(chosen).max(axis=0, initial=0.0)
        scale = np.where(spread, deviations, np.inf)
        root = np.sqrt(shares)[:, None]
        _, values, axes = np.linalg.svd(np.linalg.qr(root * ((chosen - mean) / scale), mode="r"))
        kept = values > COLLINEAR * values.max(initial=0.0)
        directions = axes[: len(values)][kept].T / values[kept]
        listed = [f"x{i}" for i in range(rows.X.shape[1])] if names is None else names
        return cls(tuple(str(listed[i]) for i in index), index, mean, scale, directions, True)

    @property
    def n_columns(self) -> int:
        """The number p of columns of h."""
        return 1 + self.directions.shape[1]

    @property
    def name(self) -> str:
        """The columns, and a digest of h: trends of one name have the same h."""
        of = digest((self.index, self.mean, self.scale, self.directions))[:8]
        return f"a trend of {', '.join(self.names) or 'a constant'} ({of})"

    def columns(self, X: Floats) -> Floats:
        """Return h of each row, shape (n, p)."""
        h = np.empty((len(X), self.n_columns))
        h[:, 0] = self.unit
        h[:, 1:] = (X[:, self.index] - self.mean) / self.scale @ (self.unit * self.directions)
        return h

    def least_squares(self, rows: Rows) -> Floats:
        """Return the coefficients of the least-squares fit to each target, shape (p, t); of a constant, the means."""
        if not self.estimated:
            return rows.means[None, :]
        h, root = self.columns(rows.X), np.sqrt(_shares(rows))[:, None]
        return np.asarray(np.linalg.lstsq(root * h, root * rows.Y, rcond=None)[0])

    def check(self, X: Floats) -> None:
        """Refuse rows that differ from the training rows in a direction that h has not.

        Raises
        ------
        InputError
        """
        if not self.estimated:
            return
        chosen = X[:, self.index] - self.mean
        constant = np.abs(chosen) > 1e3 * CONSTANT * np.maximum(np.abs(self.mean), np.abs(X[:, self.index]))
        z, (basis, _) = chosen / self.scale, np.linalg.qr(self.directions)
        beside = np.abs(z - z @ basis @ basis.T) > 10.0 * COLLINEAR * (1.0 + np.abs(z))
        (outside,) = np.nonzero(np.any(np.isinf(self.scale) & constant | beside, axis=1))
        if len(outside):
            raise InputError(
                f"The trend of {', '.join(self.names)} has no slope in a direction in which no training row differed; "
                f"{len(outside):,} rows do, the first of them row {outside[0]}. Fit again to all rows, or list other "
                "columns."
            )

    def check_residuals(self, residuals: Rows, coefficients: Floats) -> None:
        """Refuse targets that the trend explains to the last digits: there is nothing to learn from.

        Raises
        ------
        InputError
        """
        largest = np.abs(self.columns(residuals.X) @ coefficients).max(axis=0)
        if self.estimated and np.any(np.abs(residuals.Y).max(axis=0) <= EXPLAINED * largest):
            raise InputError(
                f"y is a linear function of {', '.join(self.names) or 'nothing'}, to the last digits: no "
                "hyperparameters can be learned from what the trend leaves. Give both kernel and noise_variance, or "
                "use trend='constant'."
            )

    def estimate(self, coefficients: Floats, covariance: Floats) -> "TrendEstimate":
        """Return the trend of one target for x as it comes.

        Parameters
        ----------
        coefficients : ndarray of shape (p,)
            Those of h.
        covariance : ndarray of shape (p, p)
        """
        to_slopes = self.directions / self.scale[:, None]
        # From the coefficients of h to those of (1, x).
        change = np.zeros((len(self.index) + 1, self.n_columns))
        change[0, 0], change[0, 1:], change[1:, 1:] = 1.0, -self.mean @ to_slopes, to_slopes
        change *= self.unit
        values = change @ coefficients
        return TrendEstimate(self.names, values[0], values[1:], change @ covariance @ change.T)


# That of the mean of y.
CONSTANT_TREND = Trend((), np.empty(0, dtype=np.intp), np.empty(0), np.empty(0), np.empty((0, 0)), False)


@dataclass(frozen=True, eq=False)
class TrendEstimate:
    """The estimated trend, intercept + coefᵀx, in the units of X and y. Printed, it is a table.

    A column that is constant among the training rows has a slope of exactly 0. Columns that are combinations of each
    other share their slopes: the smallest ones, in standard deviations of the columns, that give the same trend.

    Attributes
    ----------
    names : tuple of str
        The q columns; x0, x1, ... where X has no names.
    intercept : float
        The trend at x = 0.
    coef : ndarray of shape (q,)
        The slopes.
    covariance : ndarray of shape (q + 1, q + 1)
        Of the intercept and the slopes, in this order.
    """

    names: tuple[str, ...]
    intercept: float
    coef: Floats
    covariance: Floats

    @property
    def intercept_error(self) -> float:
        """The standard error of the intercept."""
        return float(np.sqrt(self.covariance[0, 0]))

    @property
    def coef_error(self) -> Floats:
        """The standard errors of the slopes, shape (q,)."""
        return np.sqrt(self.covariance.diagonal()[1:])

    @property
    def table(self) -> Table:
        """The coefficients and their standard errors."""
        names, values = ("intercept", *self.names), (self.intercept, *self.coef)
        rows = zip(names, values, (self.intercept_error, *self.coef_error), strict=True)
        lines = tuple((name, f"{value:.5g}", f"{error:.5g}") for name, value, error in rows)
        return Table(("", "coefficient", "std. error"), lines)

    def __str__(self) -> str:
        return str(self.table)


class Trended(Posterior):
    """A Gaussian process whose mean hᵀβ is estimated by generalised least squares, under a flat prior.

    Made of any posterior of the targets [Y | H], with the columns H of the trend behind the targets. Its targets are
    Y − Hβ: means are less the trend. With the prediction m_H of the columns, a row's trend differs from what the
    process knows of it by r = h − m_H: not knowing β adds rᵀ(HᵀC⁻¹H)⁻¹r to the variance.

    Parameters
    ----------
    posterior : Posterior
        Of the targets [Y | H]. Y may be less any combination of the columns.
    trend : Trend
    products : ndarray of shape (t + p, t + p)
        [Y | H]ᵀC⁻¹[Y | H] of the training rows.

    Attributes
    ----------
    coefficients : ndarray of shape (p, t)
        β.
    coefficients_covariance : ndarray of shape (p, p)
        (HᵀC⁻¹H)⁻¹.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, 2006, section 2.7, eq. 2.42.
    """

    def __init__(self, posterior: Posterior, trend: Trend, products: Floats) -> None:
        self.kernel, self.noise, self.n_rows = posterior.kernel, posterior.noise, posterior.n_rows
        self.trend, self._t = trend, len(products) - trend.n_columns
        t = self._t
        normal = 0.5 * (products[t:, t:] + products[t:, t:].T)
        squares = np.eye(trend.n_columns) if posterior.targets is None else posterior.targets.products[t:, t:]
        values, axes = np.linalg.eigh(squares)
        known = axes[:, values > UNDETERMINED * values[-1]]
        inverse = known @ np.linalg.pinv(known.T @ normal @ known, ROUNDING, hermitian=True) @ known.T
        self.coefficients_covariance = np.asarray(inverse, dtype=np.float64)
        self.coefficients: Floats = self.coefficients_covariance @ products[t:, :t]
        residual = np.eye(len(products))
        residual[t:, :t] = -self.coefficients
        self._posterior = posterior.combined(residual)

    @property
    def is_told(self) -> bool:
        """Whether there are as many rows as tell a trend: it then stays as it is where rows come and go."""
        return self.n_rows >= TREND_ROWS

    @property
    def untrended(self) -> Posterior:
        """The posterior of [Y − Hβ | H]."""
        return self._posterior

    @property
    def rows(self) -> Rows:
        """The training rows, with the targets less their trends."""
        rows = self._posterior.rows
        return rows.with_targets(rows.Y[:, : self._t])

    @property
    def n_observations(self) -> float:  # noqa: D102
        return self._posterior.n_observations

    def combined(self, combination: Floats) -> Self:  # noqa: D102
        p = self.trend.n_columns
        whole = np.zeros((self._t + p, combination.shape[1] + p))
        whole[: self._t, :-p], whole[self._t :, -p:] = combination, np.eye(p)
        other = type(self).__new__(type(self))
        vars(other).update(self.__getstate__(), _t=combination.shape[1], _posterior=self._posterior.combined(whole))
        other.coefficients = self.coefficients @ combination
        return other

    def around(self, posterior: Posterior) -> Self:
        """Return the estimated trend with the posterior of other rows, of [Y − Hβ | H]."""
        other = type(self).__new__(type(self))
        vars(other).update(self.__getstate__(), n_rows=posterior.n_rows, _posterior=posterior)
        other.coefficients = np.zeros_like(self.coefficients)
        return other

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:
        """Predict Y less its trend, with the uncertainty of the trend."""
        if not variance:
            return self.process.predict(X, False)
        means, variances = self._posterior.distribution(X)
        return means[:, : self._t], variances + self._added(self.trend.columns(X) - means[:, self._t :])

    @cached_property
    def process(self) -> Posterior:
        """The posterior of Y − Hβ, which takes less time for means than that of the columns beside them."""
        return self._posterior.combined(np.eye(self._t + self.trend.n_columns)[:, : self._t])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "process"}

    def _added(self, left: Floats) -> Floats:
        """Return what not knowing β adds to the variance of rows whose trend differs by `left`, shape (m, p)."""
        return np.einsum("ij,jk,ik->i", left, self.coefficients_covariance, left).clip(min=0.0)

    def _differences(self, X: Floats) -> Floats:
        """Return h − m_H of each row, shape (m, p)."""
        return self.trend.columns(X) - self._posterior.predict(X, False)[0][:, self._t :]

    def products(self) -> Floats | None:  # noqa: D102
        products = self._posterior.products()
        return None if products is None else products[: self._t, : self._t]

    def surprise(self, X: Floats) -> Floats:
        """Return what the process makes of the targets less their trends."""
        return self._posterior.surprise(X)[:, : self._t]

    def prior_variance(self, X: Floats) -> Floats:  # noqa: D102
        return self._posterior.prior_variance(X)

    def covariance(self, X: Floats) -> Floats:  # noqa: D102
        left = self._differences(X)
        added = left @ self.coefficients_covariance @ left.T
        return self._posterior.covariance(X) + (added + added.T) / 2  # symmetric to the last bit

    def sample(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:  # noqa: D102
        drawn = self._posterior.sample(X, n_samples, rng)
        drawn += self._differences(X) @ normal_draws(self.coefficients_covariance, n_samples, rng)
        return drawn

    def without_each(self, rows: Rows) -> tuple[Floats, Floats]:  # noqa: D102
        whole = rows.with_targets(np.column_stack((rows.Y, self.trend.columns(rows.X))))
        return self._estimated_without(whole, *self._posterior.without_each(whole))

    def leave_one_out(self, index: Indices | None = None) -> tuple[Floats, Floats]:  # noqa: D102
        rows = self._posterior.rows if index is None else self._posterior.rows.take(index)
        return self._estimated_without(rows, *self._posterior.leave_one_out(index))

    def _estimated_without(self, rows: Rows, means: Floats, variances: Floats) -> tuple[Floats, Floats]:
        """Return predictions of each row without itself, with coefficients that are estimated without it as well.

        Without a row whose trend differs by r, and which is predicted with the variance v, noise included, the
        covariance S of the coefficients is S + S r rᵀ S/(v − rᵀSr).
        """
        added = self._added(rows.Y[:, self._t :] - means[:, self._t :])
        missing = self._posterior.missing(rows.X)  # which the fit took as noise of each row
        noisy = variances - missing + self.noise.of_weighted_rows(rows, missing)
        remaining = np.maximum(noisy - added, LEAST * noisy)
        # The errors of the means with the coefficients of all rows, which know this one.
        errors = rows.Y[:, : self._t] - means[:, : self._t]
        return means[:, : self._t] - (added / remaining)[:, None] * errors, variances + added * noisy / remaining

    def log_density(self, kernel: Kernel | None = None, noise_variance: float | None = None) -> Floats:
        """Return the log density of the targets less their trends, estimated anew where that can be."""
        other = None if kernel is None or noise_variance is None else self._posterior.at(kernel, noise_variance)
        products = None if other is None else other.products()
        if other is not None and products is not None:
            return Trended(other, self.trend, products).log_density()
        return self._posterior.log_density(kernel, noise_variance)[: self._t]

    def error(self, X: Floats) -> Floats:  # noqa: D102
        return self._posterior.error(X)[:, : self._t]

    def cure(self, X: Floats) -> str:  # noqa: D102
        return self._posterior.cure(X)


def trended(
    posterior: Posterior, trend: Trend, rows: Rows | None = None, max_memory_gib: float | None = None
) -> Posterior:
    """Return the posterior with a trend, from one of [Y | H].

    Where no posterior has all rows, the coefficients are estimated by the exact process of at most 4,000 of them, with
    their own covariance: that is unbiased, and its uncertainty is right. More rows of the same extent say little more
    about a trend, because what the process adds to it is much the same for all of them.

    Parameters
    ----------
    posterior : Posterior
    trend : Trend
        One that is not estimated is left out: the posterior is returned as it is.
    rows : Rows, optional
        Those of the posterior, where it has no products.
    max_memory_gib : float, optional
        For two matrices of the sample, in GiB; fewer rows are taken where it asks for that.

    Raises
    ------
    MemoryLimitError
        If the matrices of one row more than there are coefficients take more.
    """
    if not trend.estimated:
        return posterior
    products = posterior.products()
    if products is None:
        rows, most = posterior.rows if rows is None else rows, TREND_ROWS
        if max_memory_gib is not None:
            # Never fewer than determine it: that they do not fit is said then.
            most = max(min(most, max_rows_within(max_memory_gib)), trend.n_columns + 1)
        sample = rows.take(steady_sample(rows.with_targets(rows.Y[:, : -trend.n_columns]), most))
        products = ExactPosterior(posterior.kernel, sample, posterior.noise, max_memory_gib).products()
    return Trended(posterior, trend, products)


def check_number(n: int, q: int) -> None:
    """Refuse numbers of rows that do not determine a trend of q columns."""
    if n <= q + 1:
        raise InputError(
            f"A trend of {q} columns has {q + 1} coefficients, and needs more rows than that; got {n}. Use "
            "trend='constant', or list fewer columns."
        )


def chosen_columns(trend: Any, names: Sequence[str] | None, n_inputs: int) -> Indices | None:
    """Return where the columns of a trend are.

    Parameters
    ----------
    trend : {"constant", "linear"} or array-like of int or str
        The parameter of a model.
    names : sequence of str, optional
        Of the columns of X, where it has names.
    n_inputs : int
        d.

    Returns
    -------
    ndarray of shape (q,) or None
        None of the trend "constant", which is not estimated but the mean of y.

    Raises
    ------
    InputError
        If there is no such column, or one is named twice.
    """
    if isinstance(trend, str):
        return None if trend == "constant" else np.arange(n_inputs)
    if np.ndim(np.asarray(trend, dtype=object)) != 1:
        raise InputError(f"trend must be 'constant', 'linear' or a list of columns; got {trend!r}.")
    return column_index(trend, names, n_inputs, "trend")


def _shares(rows: Rows) -> Floats:
    """Return the share of each row in a weighted mean: its weight over its noise variance."""
    shares = np.ones(len(rows)) if rows.weights is None else rows.weights
    shares = shares if rows.noise_variances is None else shares / rows.noise_variances
    return shares / shares.sum()
