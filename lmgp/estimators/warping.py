"""Targets on another scale: the distribution of y where g(y) is Gaussian, for a strictly monotone g."""

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from scipy.stats import norm

from lmgp.data import Floats
from lmgp.errors import InputError, NumericalError
from lmgp.metrics.gaussian import quantile_rule

# Nodes of the Gauss-Hermite rules, by which means are taken.
N_NODES = 40
# The probability at each end of z at which y may be undefined; and that of the noise around f, which is rarely near an
# end.
NEGLIGIBLE, OF_NOISE = 1e-5, 1e-2

# Beyond this number of standard deviations a probability is 0 in double precision; halvings of the range of as many.
REACH, HALVINGS = 38.0, 55
# A function without spread is looked for within this share of the noise.
LEAST_REACH = 1e-3

# Rows that are evaluated at a time.
CHUNK = 4096


class Scale(ABC):
    """A strictly monotone map g of targets; z = g(y) is Gaussian."""

    increasing: bool

    @abstractmethod
    def forward(self, y: Floats) -> Floats:
        """Return g(y), for checked targets."""

    @abstractmethod
    def inverse(self, z: Floats) -> Floats:
        """Return y where g(y) = z."""

    @abstractmethod
    def log_slope(self, y: Floats) -> Floats:
        """Return log |g′(y)|."""

    @abstractmethod
    def check(self, y: Floats) -> None:
        """Refuse targets that g does not take."""

    def of_expectation(self, mean: Floats, std: Floats, noise_std: Floats | float) -> "WarpedDistribution":
        """Return the distribution of E[y | f], for z = f + noise and f of this mean and `std`."""
        of_f = norm(mean, np.maximum(std, np.finfo(np.float64).tiny))  # of no spread, the distribution of a point
        noises = np.broadcast_to(noise_std, mean.shape)
        reach = np.maximum(std, LEAST_REACH * noises)
        return WarpedDistribution(of_f, of_f, ExpectationScale(self, mean, reach, noises))

    def of_rows(self, part: slice) -> "Scale":
        """Return g of some rows."""
        return self

    def mean(self, mean: Floats, std: Floats) -> Floats:
        """Return the mean of y, shape (n,)."""
        return _finite(self.expectation(mean, std))

    def expectation(self, mean: Floats, std: Floats, negligible: float = NEGLIGIBLE) -> Floats:
        """Return the mean of y, shape (n,); not a number, or infinity, where there is none."""
        return self._by_rows(lambda of, m, s: of._at(m, s, NODES, WEIGHTS, negligible) @ WEIGHTS, mean, std)

    def std(self, mean: Floats, std: Floats) -> Floats:
        """Return the standard deviation of y, shape (n,)."""
        return _finite(self._by_rows(lambda of, m, s: _deviations(of._at(m, s, NODES, WEIGHTS)), mean, std))

    def crps(self, y: Floats, mean: Floats, std: Floats) -> Floats:
        """Return the continuous ranked probability score: twice the integral of the quantile loss."""

        def losses(of: Scale, targets: Floats, m: Floats, s: Floats) -> Floats:
            probabilities, shares = quantile_rule()
            at = probabilities if self.increasing else 1.0 - probabilities
            error = targets[:, None] - of._at(m, s, ndtri(at), shares)
            return 2.0 * np.maximum(probabilities * error, (probabilities - 1.0) * error) @ shares

        return _finite(self._by_rows(losses, *np.broadcast_arrays(y, mean, std)))

    def _at(self, mean: Floats, std: Floats, nodes: Floats, shares: Floats, negligible: float = NEGLIGIBLE) -> Floats:
        """Return y at nodes of each row, of these shares of the probability, shape (n, n_nodes).

        In rows where some have no y, the outermost of a negligible share together have that of the next one.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            values = self.inverse(mean + std * nodes[:, None]).T  # rows are the last axis
        tails = np.minimum(np.cumsum(shares), np.cumsum(shares[::-1])[::-1])
        inner = np.clip(np.arange(len(shares)), *np.flatnonzero(tails > negligible)[[0, -1]])
        return np.where(np.isfinite(values).all(axis=1, keepdims=True), values, values[:, inner])

    def _by_rows(self, function: Any, *arrays: Floats) -> Floats:
        slices = [slice(i, i + CHUNK) for i in range(0, len(arrays[0]), CHUNK)]
        parts = [function(self.of_rows(part), *(array[part] for array in arrays)) for part in slices]
        return np.concatenate(parts) if parts else np.empty(0)


@dataclass(frozen=True, eq=False)
class WarpedDistribution:
    """The distribution of y = g⁻¹(z), with methods of scipy.stats' frozen distributions.

    Attributes
    ----------
    of_z : frozen distribution of scipy.stats
        Of shape (n,).
    normal : frozen distribution of scipy.stats
        The normal distribution of z by which moments of y are: the exponential of a t has none.
    scale : Scale
        g.
    """

    of_z: Any
    normal: Any
    scale: Scale

    def mean(self) -> Floats:
        """Return the mean under the normal distribution of z."""
        return self.scale.mean(self.normal.mean(), self.normal.std())

    def std(self) -> Floats:
        """Return the standard deviation under the normal distribution of z."""
        return self.scale.std(self.normal.mean(), self.normal.std())

    def var(self) -> Floats:
        """Return the variance under the normal distribution of z."""
        return np.square(self.std())

    def crps(self, y: ArrayLike) -> Floats:
        """Return the continuous ranked probability score under the normal distribution of z."""
        y = self._checked(y)
        return self.scale.crps(y, self.normal.mean(), self.normal.std())

    def logpdf(self, y: ArrayLike) -> Floats:
        """Return log p(y): that of z = g(y), and log |g′(y)|, by which y and z differ."""
        y = self._checked(y)
        return self.of_z.logpdf(self.scale.forward(y)) + self.scale.log_slope(y)

    def pdf(self, y: ArrayLike) -> Floats:
        """Return the density of y."""
        return np.exp(self.logpdf(y))

    def _checked(self, y: ArrayLike) -> Floats:
        """Return targets as numbers, of which g takes each."""
        values = np.asarray(y, dtype=np.float64)
        self.scale.check(np.atleast_1d(values))
        return values

    def _z(self, y: ArrayLike) -> Floats:
        """Return g(y); −∞ or ∞ of what all targets are above, or below."""
        values = np.asarray(y, dtype=np.float64)
        z = self.scale.forward(values)
        beyond = np.isnan(z) & ~np.isnan(values)
        if not beyond.any():
            return z
        return np.where(beyond, np.where((values > self.median()) == self.scale.increasing, np.inf, -np.inf), z)

    def sf(self, y: ArrayLike) -> Floats:
        """Return the probability of a larger value."""
        return self.of_z.sf(self._z(y)) if self.scale.increasing else self.of_z.cdf(self._z(y))

    def cdf(self, y: ArrayLike) -> Floats:
        """Return the probability of no larger value."""
        return self.of_z.cdf(self._z(y)) if self.scale.increasing else self.of_z.sf(self._z(y))

    def logsf(self, y: ArrayLike) -> Floats:
        """Return the logarithm of the probability of a larger value."""
        return self.of_z.logsf(self._z(y)) if self.scale.increasing else self.of_z.logcdf(self._z(y))

    def logcdf(self, y: ArrayLike) -> Floats:
        """Return the logarithm of the probability of no larger value."""
        return self.of_z.logcdf(self._z(y)) if self.scale.increasing else self.of_z.logsf(self._z(y))

    def ppf(self, q: Floats | float) -> Floats:
        """Return the quantile: g⁻¹ of that of z."""
        return self.scale.inverse(self.of_z.ppf(q) if self.scale.increasing else self.of_z.isf(q))

    def isf(self, q: Floats | float) -> Floats:
        """Return the value that is exceeded with a probability."""
        return self.scale.inverse(self.of_z.isf(q) if self.scale.increasing else self.of_z.ppf(q))

    def median(self) -> Floats:
        """Return the median."""
        return self.ppf(0.5)

    def interval(self, confidence: float) -> tuple[Floats, Floats]:
        """Return the ends of the central interval."""
        return self.ppf(0.5 - 0.5 * confidence), self.isf(0.5 - 0.5 * confidence)

    def rvs(self, size: Any = None, random_state: Any = None) -> Floats:
        """Draw values, of the shape `size`, whose last axis is that of the rows."""
        size = np.shape(self.of_z.median()) if size is None else size
        return self.scale.inverse(self.of_z.rvs(size=size, random_state=random_state))


@dataclass(frozen=True, eq=False)
class ExpectationScale(Scale):
    """f as a function of E[y | f], for z = f + noise.

    Attributes
    ----------
    scale : Scale
        g, with z = g(y).
    mean_of_f, reach : ndarray of shape (n,)
        f is looked for within `REACH` times `reach` of its mean.
    noise_std : ndarray of shape (n,)
    """

    scale: Scale
    mean_of_f: Floats
    reach: Floats
    noise_std: Floats

    @property
    def increasing(self) -> bool:  # type: ignore[override]
        """Whether E[y | f] increases with f, as y does with z."""
        return self.scale.increasing

    def of_rows(self, part: slice) -> Scale:
        """Return the function of some rows."""
        of_rows = {name: getattr(self, name)[part] for name in ("mean_of_f", "reach", "noise_std")}
        return replace(self, **of_rows)

    def forward(self, y: Floats) -> Floats:
        """Return f where E[y | f] = y, by bisection."""
        below, above = (self.mean_of_f + side * REACH * self.reach + np.zeros_like(y) for side in (-1.0, 1.0))
        with warnings.catch_warnings():  # of scikit-learn, where there is no inverse
            warnings.filterwarnings("ignore", message="Some values in column")
            for _ in range(HALVINGS):
                middle = 0.5 * (below + above)
                values = self.inverse(middle)
                higher = np.where(np.isfinite(values), (values > y) == self.increasing, middle > self.mean_of_f)
                below, above = np.where(higher, below, middle), np.where(higher, middle, above)
        return 0.5 * (below + above)

    def inverse(self, z: Floats) -> Floats:
        """Return E[y | f]; not a number, or infinity, where there is none."""
        noises = np.broadcast_to(self.noise_std, z.shape)
        return self.scale.expectation(z.ravel(), noises.ravel(), OF_NOISE).reshape(z.shape)

    def log_slope(self, y: Floats) -> Floats:
        """Return the logarithm of the slope of f over E[y | f], by central differences."""
        f, step = self.forward(y), np.cbrt(np.finfo(np.float64).eps) * self.reach
        return np.log(2.0 * step) - np.log(np.abs(self.inverse(f + step) - self.inverse(f - step)))

    def check(self, y: Floats) -> None:
        """Refuse what g does not take."""
        self.scale.check(y)


def _finite(moments: Floats) -> Floats:
    """Return moments of y, after checking that there are such."""
    if not np.all(np.isfinite(moments)):
        raise NumericalError(
            "The transformer of the target has no inverse at values that the model holds possible, of a probability "
            f"above {NEGLIGIBLE:g}: y has no mean and no standard deviation. Use predict_quantile or predict_interval."
        )
    return moments


def _deviations(values: Floats) -> Floats:
    """Return the standard deviation of each row of values at the nodes."""
    return np.sqrt(np.square(values - (values @ WEIGHTS)[:, None]) @ WEIGHTS)


NODES, _weights = np.polynomial.hermite_e.hermegauss(N_NODES)
WEIGHTS: Floats = _weights / _weights.sum()


@dataclass(frozen=True)
class LogScale(Scale):
    """z = log(y + shift): y + shift is log-normal, and all is in closed form.

    Attributes
    ----------
    shift : float
        0 for "log", 1 for "log1p".
    increasing : bool
    """

    shift: float
    increasing: bool = True

    def forward(self, y: Floats) -> Floats:
        """Return log(y + shift); −∞ of what all targets are above."""
        y = np.maximum(y, -self.shift)
        with np.errstate(divide="ignore"):
            return np.log1p(y) if self.shift == 1.0 else np.log(y)

    def inverse(self, z: Floats) -> Floats:
        """Return exp(z) − shift."""
        with np.errstate(over="ignore"):
            return np.expm1(z) if self.shift == 1.0 else np.exp(z)

    def log_slope(self, y: Floats) -> Floats:
        """Return −log(y + shift)."""
        return -self.forward(y)

    def check(self, y: Floats) -> None:
        """Refuse targets of which there is no logarithm."""
        if not np.all(y > -self.shift):
            at = int(np.argmin(y))
            cure = (
                'Give transformer="log1p" (--target-transform log1p) for counts and amounts that may be zero, or leave '
                "these rows out."
                if self.shift == 0.0 and y[at] > -1.0
                else "Leave these rows out, or give another transformer (on the command line, no --log)."
            )
            name, least = ("log1p", "greater than -1") if self.shift else ("log", "positive")
            raise InputError(f"transformer={name!r} needs targets that are {least}; got {y[at]:g} in row {at}. {cure}")

    def mean(self, mean: Floats, std: Floats) -> Floats:
        """Return exp(μ + σ²/2) − shift."""
        return self.inverse(mean + 0.5 * np.square(std))

    def std(self, mean: Floats, std: Floats) -> Floats:
        """Return exp(μ + σ²/2) √(exp(σ²) − 1)."""
        with np.errstate(over="ignore"):
            deviation: Floats = np.exp(mean + 0.5 * np.square(std)) * np.sqrt(np.expm1(np.square(std)))
        return deviation

    def of_expectation(self, mean: Floats, std: Floats, noise_std: Floats | float) -> WarpedDistribution:
        """Return the distribution of exp(f + noise_std²/2) − shift: that of y with another mean and without noise."""
        of_f = norm(mean + 0.5 * np.square(noise_std), np.maximum(std, np.finfo(np.float64).tiny))
        return WarpedDistribution(of_f, of_f, self)

    def crps(self, y: Floats, mean: Floats, std: Floats) -> Floats:
        """Return the score of a log-normal distribution (S. Baran and S. Lerch, 2015, QJRMS 141, eq. 5)."""
        moved = y + self.shift
        with np.errstate(divide="ignore"):
            z = (np.log(moved) - mean) / std
        level = np.exp(mean + 0.5 * np.square(std))
        return moved * (2.0 * ndtr(z) - 1.0) - 2.0 * level * (ndtr(z - std) + ndtr(std / np.sqrt(2.0)) - 1.0)


@dataclass(frozen=True, eq=False)
class TransformerScale(Scale):
    """z by a scikit-learn transformer of one column.

    Attributes
    ----------
    transformer : transformer
        Fitted, with `inverse_transform`.
    increasing : bool
    unit : float
        The scale of y: its standard deviation.
    """

    transformer: Any
    increasing: bool
    unit: float

    @classmethod
    def of(cls, transformer: Any, y: Floats) -> "TransformerScale":
        """Make the scale of a fitted transformer, after checking it on targets.

        Raises
        ------
        InputError
            If it is not strictly monotone on them, or its inverse does not lead back.
        """
        unit = float(np.std(y)) or 1.0
        scale = cls(transformer, True, unit)
        name, distinct = type(transformer).__name__, np.unique(y)
        distinct = distinct[np.append(True, np.diff(distinct) > 1e-9 * unit)]  # without those that differ by rounding
        z = scale._of(transformer.transform, distinct)
        if not np.all(np.isfinite(z)):
            raise InputError(
                f"{name} makes {z[~np.isfinite(z)][0]} of the target {distinct[~np.isfinite(z)][0]:g}. Give a "
                "transformer that takes every target, or leave such rows out."
            )
        steps = np.diff(z)
        if not (np.all(steps > 0.0) or np.all(steps < 0.0)):
            raise InputError(
                f"{name} is not strictly monotone on the targets: {len(distinct):,} different ones become "
                f"{len(np.unique(z)):,} numbers, or change their order. Give one that keeps or turns their order."
            )
        back = scale.inverse(z)
        if not np.allclose(back, distinct, rtol=1e-6, atol=1e-6 * unit):
            at = int(np.argmax(np.abs(back - distinct)))
            raise InputError(
                f"inverse_transform of {name} makes {back[at]:g} of what was {distinct[at]:g}. Give a transformer with "
                "its inverse: FunctionTransformer(np.sqrt, inverse_func=lambda z: np.square(np.maximum(z, 0.0))), say."
            )
        return cls(transformer, bool(len(z) < 2 or z[-1] > z[0]), unit)

    def forward(self, y: Floats) -> Floats:
        """Return what `transform` makes of y; not a number of what it refuses."""
        try:
            return self._of(self.transformer.transform, y)
        except ValueError:
            distinct, place = np.unique(y.ravel(), return_inverse=True)
        if len(distinct) < 2:
            return np.full(y.shape, np.nan)
        halves = np.array_split(distinct, 2)  # what is refused lies at the ends
        return np.concatenate([self.forward(half) for half in halves])[place].reshape(y.shape)

    def inverse(self, z: Floats) -> Floats:
        """Return what `inverse_transform` makes of z; infinity of infinite ones that it refuses."""
        ends = np.isinf(z)
        try:
            return self._of(self.transformer.inverse_transform, z)
        except ValueError:
            if not ends.any():
                raise
        y = self._of(self.transformer.inverse_transform, np.where(ends, 0.0, z))
        return np.where(ends, z if self.increasing else -z, y)

    def log_slope(self, y: Floats) -> Floats:
        """Return log |g′(y)|, by central differences; at an end of what g takes, by those of one side."""
        share = np.cbrt(np.finfo(np.float64).eps)
        step = share * np.maximum(np.abs(y), self.unit)
        inside = np.isfinite(self.forward(y - step)) & np.isfinite(self.forward(y + step))
        step = np.where(inside | (y == 0.0), step, share * np.abs(y))  # near an end at zero, a shorter one
        low, high = (np.where(np.isfinite(self.forward(side)), side, y) for side in (y - step, y + step))
        rise = self.forward(high) - self.forward(low)
        with np.errstate(all="ignore"):
            return np.log(np.abs(rise) / (high - low))

    def check(self, y: Floats) -> None:
        """Refuse targets of which the transformer makes no finite number."""
        finite = np.isfinite(self.forward(y))
        if not finite.all():
            at = int(np.argmin(finite))
            name = type(self.transformer).__name__
            raise InputError(f"{name} makes no finite number of the target {y[at]:g} in row {at}. Leave it out.")

    @property
    def name(self) -> str:
        """What the transformer is."""
        return " ".join(repr(self.transformer).split())

    def _of(self, function: Any, values: Floats) -> Floats:
        with np.errstate(all="ignore"):
            mapped = np.asarray(function(values.reshape(-1, 1)), dtype=np.float64)
        return mapped.reshape(values.shape)
