"""The mean function of a Gaussian process: a constant, and slopes of columns, estimated with their uncertainty."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import InputError, nearest_names
from lmgp.fitted import digest
from lmgp.inputs import column_deviations
from lmgp.validation import Rows

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


@dataclass(frozen=True)
class Resolution:
    """What counts as no difference.

    Attributes
    ----------
    constant : float
        A column is constant where its standard deviation is below this share of its largest value.
    collinear : float
        A direction is missing where the standardised columns spread by less than this share of their largest spread.
    exact : float
        A trend explains the targets where its largest residual is below this share of its largest value.
    """

    constant: float = 1e-12
    collinear: float = 1e-7
    exact: float = 1e-10


RESOLUTION = Resolution()


@dataclass(frozen=True, eq=False)
class Trend:
    """The columns h(x) of a trend hᵀβ, and its least-squares fit: a constant, and slopes for some columns of x.

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
    start : ndarray of shape (p,)
        The least-squares β of the targets. What is estimated later is the change from it.
    """

    names: tuple[str, ...]
    index: Indices
    mean: Floats
    scale: Floats
    directions: Floats
    start: Floats

    @property
    def n_columns(self) -> int:
        """The number p of columns of h."""
        return len(self.start)

    @property
    def name(self) -> str:
        """The columns, and a digest of h: trends of one name have the same h."""
        of = digest((self.index, self.mean, self.scale, self.directions))[:8]
        return f"a trend of {', '.join(self.names) or 'a constant'} ({of})"

    def missing(self, X: Floats) -> NDArray[np.bool_]:
        """Say which rows differ from the training rows in a direction that h has not, shape (n,)."""
        chosen = X[:, self.index] - self.mean
        constant = np.abs(chosen) > 1e3 * RESOLUTION.constant * np.maximum(np.abs(self.mean), np.abs(X[:, self.index]))
        z, (basis, _) = chosen / self.scale, np.linalg.qr(self.directions)
        beside = np.abs(z - z @ basis @ basis.T) > 10.0 * RESOLUTION.collinear * (1.0 + np.abs(z))
        found: NDArray[np.bool_] = np.any(np.isinf(self.scale) & constant | beside, axis=1)
        return found

    def columns(self, X: Floats) -> Floats:
        """Return h of each row, shape (n, p)."""
        h = np.empty((len(X), self.n_columns))
        h[:, 0] = 1.0
        h[:, 1:] = (X[:, self.index] - self.mean) / self.scale @ self.directions
        return h

    def least_squares(self, X: Floats) -> Floats:
        """Return hᵀ`start` of each row, shape (n,)."""
        return self.columns(X) @ self.start

    def check_residuals(self, residuals: Rows) -> None:
        """Refuse targets that the trend explains to the last digits: there is nothing to learn from.

        Raises
        ------
        InputError
        """
        if np.abs(residuals.y).max() <= RESOLUTION.exact * np.abs(self.least_squares(residuals.X)).max():
            raise InputError(
                f"y is a linear function of {', '.join(self.names) or 'nothing'}, to the last digits: no "
                "hyper-parameters can be learned from what the trend leaves. Give both kernel and noise_variance, or "
                "use trend='constant'."
            )

    def estimated(self, normal: Floats, cross: Floats) -> "TrendFit":
        """Estimate β by generalised least squares.

        Parameters
        ----------
        normal : ndarray of shape (p, p)
            HᵀC⁻¹H, of the n rows H of h and the covariance C of their targets, noise included.
        cross : ndarray of shape (p,)
            HᵀC⁻¹y, of the residuals y of the least-squares fit.

        Returns
        -------
        TrendFit
        """
        covariance = np.asarray(np.linalg.pinv(normal, hermitian=True), dtype=np.float64)
        return self.changed(covariance @ cross, covariance)

    def changed(self, change: Floats, covariance: Floats) -> "TrendFit":
        """Return the estimate whose coefficients are those of least squares and this change."""
        least_squares = {one.name: getattr(self, one.name) for one in fields(Trend)}
        return TrendFit(**least_squares, change=change, covariance=covariance)


@dataclass(frozen=True, eq=False)
class TrendFit(Trend):
    """A trend whose coefficients are estimated by generalised least squares, under a flat prior.

    Attributes
    ----------
    change : ndarray of shape (p,)
        What is added to the least-squares β.
    covariance : ndarray of shape (p, p)
        (HᵀC⁻¹H)⁻¹, of the estimate.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, 2006, section 2.7, eq. 2.42.
    """

    change: Floats
    covariance: Floats

    def estimated(self, normal: Floats, cross: Floats) -> "TrendFit":
        """Return this trend: it is estimated."""
        return self

    def values(self, X: Floats) -> Floats:
        """Return the trend of each row, less the mean of y, shape (n,)."""
        return self.columns(X) @ (self.start + self.change)

    def changes(self, X: Floats) -> Floats:
        """Return by how much the trend of each row is more than the least-squares one, shape (n,)."""
        return self.columns(X) @ self.change

    def variance(self, X: Floats, means: Floats | float = 0.0) -> Floats:
        """Return what not knowing β adds to the variance of predictions: rᵀ(HᵀC⁻¹H)⁻¹r, r = h − Hᵀ C⁻¹k.

        Parameters
        ----------
        X : ndarray of shape (m, d)
        means : ndarray of shape (m, p), default=0
            HᵀC⁻¹k: what the Gaussian process predicts from the columns of H in place of targets.

        Returns
        -------
        ndarray of shape (m,)
        """
        r = self.columns(X) - means
        return np.einsum("ij,jk,ik->i", r, self.covariance, r).clip(min=0.0)

    def estimate(self, center: float) -> "TrendEstimate":
        """Return the coefficients for x as it comes, and for y, whose mean is `center`."""
        to_slopes = self.directions / self.scale[:, None]
        # From the coefficients of h to those of (1, x).
        change = np.zeros((len(self.index) + 1, self.n_columns))
        change[0, 0], change[0, 1:], change[1:, 1:] = 1.0, -self.mean @ to_slopes, to_slopes
        coefficients = change @ (self.start + self.change)
        return TrendEstimate(
            self.names, center + coefficients[0], coefficients[1:], change @ self.covariance @ change.T
        )


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

    def __str__(self) -> str:
        names, values = ("intercept", *self.names), (self.intercept, *self.coef)
        width = max(map(len, names))
        rows = zip(names, values, (self.intercept_error, *self.coef_error), strict=True)
        lines = [f"{name:<{width}}  {value:>12.5g}  {error:>12.5g}" for name, value, error in rows]
        return "\n".join([f"{'':<{width}}  {'coefficient':>12}  {'std. error':>12}", *lines])


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
    listed = np.asarray(trend, dtype=object)
    if listed.ndim != 1:
        raise InputError(f"trend must be 'constant', 'linear' or a list of columns; got {trend!r}.")
    index = [_place(column, names, n_inputs) for column in listed]
    if len(set(index)) < len(index):
        raise InputError(f"trend must list each column once; got {trend!r}.")
    return np.array(index, dtype=np.intp)


def _place(column: Any, names: Sequence[str] | None, n_inputs: int) -> int:
    if isinstance(column, str):
        if names is None:
            raise InputError(
                f"trend names the column {column!r}, but X has no names of columns: give a data frame, or indices from "
                f"0 to {n_inputs - 1}."
            )
        if column not in names:
            raise InputError(f"trend: X has no column {column!r}, {nearest_names(column, names)}")
        return list(names).index(column)
    if isinstance(column, bool | np.bool_) or not isinstance(column, Integral):
        raise InputError(f"trend must list columns by index or name; got {column!r}.")
    if not 0 <= (index := int(column)) < n_inputs:
        raise InputError(f"trend: X has columns 0 to {n_inputs - 1}; got {column}.")
    return index


def without_trend(rows: Rows, columns: Any, names: Sequence[str] | None) -> tuple[Trend | None, Rows]:
    """Fit a trend by least squares, and take it out of the targets.

    Rows count with their weight over their noise variance.

    Parameters
    ----------
    rows : Rows
        With y centred.
    columns : {"constant", "linear"} or array-like of int or str
        See `chosen_columns`.
    names : sequence of str, optional
        Of all columns of X.

    Returns
    -------
    trend : Trend or None
        None of a constant.
    residuals : Rows
        With what the trend leaves of y; of a constant, the same rows.

    Raises
    ------
    InputError
        If there is no such column, or there are not more rows than coefficients.
    """
    index = chosen_columns(columns, names, rows.X.shape[1])
    if index is None:
        return None, rows
    n, q = len(rows.y), len(index)
    if n <= q + 1:
        raise InputError(
            f"A trend of {q} columns has {q + 1} coefficients, and needs more rows than that; got {n}. Use "
            "trend='constant', or list fewer columns."
        )
    shares = _shares(rows)
    chosen = rows.X[:, index]
    mean, deviations = shares @ chosen, column_deviations(Rows(chosen, rows.y, shares))
    spread = deviations > RESOLUTION.constant * np.abs(chosen).max(axis=0, initial=0.0)
    scale = np.where(spread, deviations, np.inf)
    root = np.sqrt(shares)[:, None]
    _, values, axes = np.linalg.svd(np.linalg.qr(root * ((chosen - mean) / scale), mode="r"))
    kept = values > RESOLUTION.collinear * values.max(initial=0.0)
    directions = axes[: len(values)][kept].T / values[kept]
    listed = [f"x{i}" for i in range(rows.X.shape[1])] if names is None else names
    known = tuple(str(listed[i]) for i in index)
    bare = Trend(known, index, mean, scale, directions, np.zeros(1 + directions.shape[1]))
    (trend,), left = of_targets(bare, Rows(rows.X, rows.y[:, None], rows.weights, rows.noise_variances))
    return trend, Rows(rows.X, left[:, 0], rows.weights, rows.noise_variances)


def of_targets(trend: Trend, rows: Rows) -> tuple[tuple[Trend, ...], Floats]:
    """Fit the columns of a trend to several targets by least squares, as `without_trend` does.

    Parameters
    ----------
    trend : Trend
        Its own fit does not matter.
    rows : Rows
        With y of shape (n, t).

    Returns
    -------
    trends : tuple of Trend
        One for each target.
    residuals : ndarray of shape (n, t)
    """
    h, root = trend.columns(rows.X), np.sqrt(_shares(rows))[:, None]
    starts, *_ = np.linalg.lstsq(root * h, root * rows.y, rcond=None)
    columns = (trend.names, trend.index, trend.mean, trend.scale, trend.directions)
    return tuple(Trend(*columns, start) for start in starts.T.copy()), rows.y - h @ starts


def _shares(rows: Rows) -> Floats:
    """Return the share of each row in a weighted mean: its weight over its noise variance."""
    shares = np.ones(len(rows.X)) if rows.weights is None else rows.weights
    shares = shares if rows.noise_variances is None else shares / rows.noise_variances
    total: Floats = shares / shares.sum()
    return total
