"""One kernel and one noise variance for several targets, learned from all of them."""

import math
import warnings
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from tqdm import tqdm

from lmgp.errors import ImplausibleMeanWarning, InputError
from lmgp.inference.function_space import RowPosterior
from lmgp.inference.leave_one_out import LeaveOneOut
from lmgp.inference.scales import deviation
from lmgp.inference.trend import without_trend
from lmgp.inference.vecchia import VecchiaLikelihood
from lmgp.kernels.base import Kernel
from lmgp.learning.forms import declared_free
from lmgp.learning.record import Learned, Learning
from lmgp.models.apart import noise_of_shape
from lmgp.models.base import GaussianProcess
from lmgp.models.chosen import GPRegressor
from lmgp.models.plausible import implausible
from lmgp.models.prediction import DELAY, check_draws, rows_of_batch
from lmgp.models.shared import Shared
from lmgp.models.sharing import shared
from lmgp.noise import Noise
from lmgp.validation import Rows, check_rows, generator, spawn, validated

Floats = NDArray[np.float64]

# Of the scales of more rows than learning takes at once: positions of the Vecchia likelihood, and neighbours of each.
POSITIONS, NEIGHBORS = 4000, 30


@dataclass(frozen=True, eq=False)
class Together:
    """Targets z = (y − center)/scale with one kernel and one noise variance.

    Attributes
    ----------
    regressor : GaussianProcess
        Fitted to the first target z.
    posteriors : Shared
        Of all targets z.
    centers, scales : ndarray of shape (t,)
        In units of each y.
    kernel : Kernel
        Of z.
    noise_variances : ndarray of shape (t,)
        Of new observations, in squared units of each y.
    learning : Learning
    total_weight : float
        The number of rows, each times its weight.
    """

    regressor: GaussianProcess
    posteriors: Shared
    centers: Floats
    scales: Floats
    kernel: Kernel
    noise_variances: Floats
    learning: Learning
    total_weight: float

    def predict(
        self, X: Any, std: bool, covariance: bool, error: bool, include_noise: bool, batch_size: int | None,
        verbose: bool, names: NDArray[Any],
    ) -> list[Floats]:  # fmt: skip
        """Predict y: the means, and what else is asked for in this order; see `MultiTargetGPRegressor.predict`."""
        inputs: Floats = validated(self.regressor, X, reset=False)
        rows, noise = self.regressor._coordinates(inputs), self.noise_variances if include_noise else 0.0
        errors = self.posteriors.divergences(rows) if error else None  # first: a model without one says so
        means, variances = self._in_batches(rows, std, batch_size, verbose)
        self._warn_of(means, rows, names)
        found = [self.centers + self.scales * (means + self.posteriors.levels(rows))]
        if variances is not None:
            found.append(np.sqrt(variances * self.scales**2 + noise))
        if covariance:
            covariances = self.posteriors.covariances(rows) * self.scales**2
            covariances[np.diag_indices(len(rows))] += noise
            found.append(covariances)
        if errors is not None:
            found.append(np.broadcast_to(errors, means.shape).copy())
        return found

    def _in_batches(
        self, rows: Floats, variance: bool, batch_size: int | None, verbose: bool
    ) -> tuple[Floats, Floats | None]:
        """Return means and variances of z, shape (n, t)."""
        n, t = len(rows), len(self.scales)
        size = rows_of_batch((n, rows.shape[1] + t), batch_size, verbose)
        means, variances = np.empty((n, t)), np.empty((n, t)) if variance else None
        with tqdm(total=n, desc="Prediction", unit="row", unit_scale=True, delay=DELAY, disable=not verbose) as bar:
            for start in range(0, n, size):
                part = slice(start, min(start + size, n))
                means[part], found = self.posteriors.predict(rows[part], variance)
                if variances is not None and found is not None:
                    variances[part] = found
                bar.update(part.stop - start)
        return means, variances

    def _warn_of(self, means: Floats, rows: Floats, names: NDArray[Any]) -> None:
        """Warn of means that are impossible under the model of a target."""
        for j, name in enumerate(names):
            of = partial(self._expectations, j, rows)
            told = implausible(means[:, j], float(self.posteriors.farthest[j]), of)
            if told is not None:
                cure = self.posteriors.view(j)._cure(rows[:1])
                warnings.warn(f"Target {name!r}, in its scale: {told} {cure}", ImplausibleMeanWarning, stacklevel=4)

    def _expectations(self, j: int, rows: Floats, far: NDArray[np.intp]) -> tuple[Floats, Floats]:
        return self.posteriors.view(j)._expectations(rows[far])

    def samples(self, X: Any, n_samples: int, rng: np.random.Generator, include_noise: bool) -> Floats:
        """Draw y, shape (n, t, n_samples); see `MultiTargetGPRegressor.sample_y`."""
        check_draws(n_samples)
        rows = self.regressor._coordinates(validated(self.regressor, X, reset=False))
        z = self.posteriors.samples(rows, int(n_samples), rng)
        z += np.broadcast_to(self.posteriors.levels(rows), z.shape[:2])[:, :, None]
        drawn: Floats = self.centers[:, None] + self.scales[:, None] * z
        if include_noise:
            drawn += np.sqrt(self.noise_variances)[:, None] * rng.standard_normal(drawn.shape)
        return drawn

    @cached_property
    def left_out(self) -> tuple[LeaveOneOut, ...]:
        """Predictions of each training row of each target from all others, in its units."""
        found = []
        for j, (center, scale) in enumerate(zip(self.centers, self.scales, strict=True)):
            z = self.posteriors.view(j).loo_
            found.append(LeaveOneOut(center + scale * z.y, center + scale * z.mean, scale * z.std))
        return tuple(found)

    def log_likelihoods(self) -> Floats:
        """Return the log marginal likelihood of each target, in nats of y in its units, shape (t,)."""
        found = []
        for j, scale in enumerate(self.scales):
            model = self.posteriors.view(j)
            found.append(model.log_marginal_likelihood() - self.total_weight * math.log(scale))
        return np.array(found)


def fit_together(
    regressor: GaussianProcess,
    X: Any,
    y: Floats,
    names: list[str],
    sample_weight: ArrayLike | None,
    noise_variances: ArrayLike | None,
) -> Together:
    """Learn one kernel and one noise variance from all targets, and fit a model to each.

    Parameters
    ----------
    regressor : GaussianProcess
        Not fitted; it is changed.
    X : array-like of shape (n, d)
    y : ndarray of shape (n, t)
        Finite.
    names : list of str
        Of the targets, for messages.
    sample_weight : array-like of shape (n,), optional
    noise_variances : array-like of shape (n,) or (n, t), optional
        In squared units of each y.

    Returns
    -------
    Together

    Raises
    ------
    InputError
        If a target is constant and hyper-parameters are to be learned, or as the regressor.
    """
    regressor._validate_params()
    own = None if noise_variances is None else _checked_noise(noise_variances, y, names)
    # In place of a target, the number of each row: it says which rows have a positive weight.
    numbers = np.arange(len(y), dtype=np.float64)
    rows = regressor._checked_rows(X, numbers, sample_weight, None if own is None else own[:, 0])
    kept = rows.y.astype(np.intp)
    centers, scales, learns_scales = _units(regressor, y[kept], rows, names)
    z, noise = (y - centers) / scales, None if own is None else own / scales**2
    if noise is not None and not learns_scales and np.ptp(noise, axis=1).max() == 0.0:
        noise = noise[:, 0]  # which all targets share
    rows = Rows(rows.X, z[kept], rows.weights, None if noise is None else noise[kept])
    if regressor.random_state is None:  # one map for all targets
        regressor.set_params(random_state=int(np.random.default_rng().integers(2**31)))
    residuals = _without_trends(regressor, rows)
    learned = regressor._learn(residuals, spawn(generator(regressor.random_state), 2)[0])
    if learns_scales and noise is None:
        ratios = np.sqrt(_mean_squares(residuals, learned, regressor))
        z, scales = z / ratios, scales * ratios
        rows = Rows(rows.X, z[kept], rows.weights)
    regressor.set_params(kernel=_as_given(learned.kernel))
    if noise is None:
        regressor.set_params(noise_variance=learned.noise_variance)

    def fit_to(j: int) -> GaussianProcess:
        of_each = noise[:, j] if noise is not None and noise.ndim == 2 else noise
        if j and isinstance(regressor, GPRegressor):  # which has chosen a model
            given = None if of_each is None else of_each[kept]
            return clone(regressor.model_).fit(rows.X, rows.y[:, j], rows.weights, given, center=0.0)
        return (clone(regressor) if j else regressor).fit(X, z[:, j], sample_weight, of_each, center=0.0)

    first = fit_to(0)
    posteriors = shared(first.model_ if isinstance(first, GPRegressor) else first, fit_to, rows)
    variances = np.array([posteriors.noise_variance(j) for j in range(y.shape[1])]) * scales**2
    total = float(len(kept)) if rows.weights is None else float(rows.weights.sum())
    return Together(regressor, posteriors, centers, scales, learned.kernel, variances, learned.learning, total)


def _units(regressor: GaussianProcess, y: Floats, rows: Rows, names: list[str]) -> tuple[Floats, Floats, bool]:
    """Return the mean and the scale of each target, and whether they have scales of their own."""
    kernel, weights = regressor.kernel, rows.weights
    if regressor._learns(rows) or (isinstance(kernel, Kernel) and declared_free(kernel) is not None):
        for name, column in zip(names, y.T, strict=True):
            deviation(column, f"Target {name}")  # refuses what overflows
            if np.ptp(column) == 0:
                raise InputError(
                    f"Target {name} is constant (all {column[0]:g}): no hyper-parameters can be learned from it. Leave "
                    "it out, or give a regressor with both kernel and noise_variance."
                )
    centers = np.average(y, axis=0, weights=weights)
    own_scales = not isinstance(kernel, Kernel) and regressor.noise_variance is None
    if not own_scales:
        return centers, np.ones(y.shape[1]), False
    return centers, np.sqrt(np.average(np.square(y - centers), axis=0, weights=weights)), True


def _checked_noise(noise_variances: ArrayLike, y: Floats, names: list[str]) -> Floats:
    """Return a noise variance for each row and target, shape (n, t)."""
    shape = np.shape(noise_variances)
    if len(shape) != 2:
        one = check_rows(np.empty((len(y), 0)), y[:, 0], None, noise_variances, least=0).noise_variances
        assert one is not None  # for the type checker: it was given
        return np.repeat(one[:, None], y.shape[1], axis=1)
    if shape != y.shape:
        raise noise_of_shape(shape, y)
    columns = np.asarray(noise_variances).T
    found = [check_rows(np.empty((len(y), 0)), y[:, 0], None, one, least=0).noise_variances for one in columns]
    return np.column_stack(found)  # type: ignore[arg-type]


def _without_trends(regressor: GaussianProcess, rows: Rows) -> Rows:
    """Return the residuals of the least-squares trend of each target."""
    columns, names, noise = regressor._trend_columns(), regressor._names(), rows.noise_variances
    residuals = []
    for j, z in enumerate(rows.y.T):
        own = noise[:, j] if noise is not None and noise.ndim == 2 else noise
        trend, left = without_trend(Rows(rows.X, z, rows.weights, own), columns, names)
        if trend is not None and regressor._learns(rows):
            trend.check_residuals(left)
        residuals.append(left.y)
    return Rows(rows.X, np.column_stack(residuals), rows.weights, noise)


def _mean_squares(rows: Rows, learned: Learned, regressor: GaussianProcess) -> Floats:
    """Return zᵀC⁻¹z/n of each target, shape (t,): the square of the likeliest scale of each, in that of z."""
    n, kernel, noise = len(rows.y), learned.kernel, learned.noise_variance
    total = float(n) if rows.weights is None else float(rows.weights.sum())
    if n > regressor.max_learning_rows and kernel.can("metric"):
        likelihood = VecchiaLikelihood(rows, POSITIONS, NEIGHBORS, np.random.default_rng(0))
        likelihood.look_for_neighbours(kernel.metric(rows.X.shape[1]))
        return likelihood.squares(kernel, np.append(kernel.theta, math.log(noise))) * (n / total)
    if n > regressor.max_learning_rows:
        rows = rows.take(np.random.default_rng(0).choice(n, regressor.max_learning_rows, replace=False))
        total = float(len(rows.y)) if rows.weights is None else float(rows.weights.sum())
    first = Rows(rows.X, rows.y[:, 0], rows.weights)
    solved = RowPosterior(kernel, first, Noise(noise), regressor.max_memory_gib).solve(rows.y)
    squares: Floats = np.einsum("ij,ij->j", rows.y, solved) / total
    return squares


def _as_given(kernel: Kernel) -> Kernel:
    """Return a kernel of which nothing is learned again."""
    given: Kernel = clone(kernel)
    bounds = {f"{one.name}_bounds": None for one in given.parameters if isinstance(one.bounds, tuple)}
    given.set_params(**bounds)
    return given
