"""What several targets share, by the kind of model: around centroids, on Fourier modes, in iterations, and else."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.inference.cache import Cache
from lmgp.inference.function_space import RowPosterior, estimate_trends
from lmgp.inference.iterative import IterativePosterior
from lmgp.inference.local import LocalPosterior
from lmgp.inference.local_targets import LocalTargets, target_sums
from lmgp.inference.trend import Trend, TrendFit, of_targets
from lmgp.models.base import GaussianProcess
from lmgp.models.evidence import KeptRows
from lmgp.models.exact import ExactGPRegressor
from lmgp.models.featurized import FeaturizedFit, FeaturizedGPRegressor
from lmgp.models.localized import LocalizedGPRegressor
from lmgp.models.nearest import NearestNeighborsGPRegressor
from lmgp.models.residual import ResidualGPRegressor
from lmgp.models.shared import (
    Shared,
    SharedNeighbours,
    SharedParameters,
    SharedRows,
    SharedWeights,
    replaced,
    viewed,
)
from lmgp.models.spectral import SpectralGPRegressor
from lmgp.spectral.dense import DenseFactor
from lmgp.spectral.posterior import SpectralPosterior
from lmgp.spectral.targets import posteriors_of
from lmgp.validation import Rows

Floats = NDArray[np.float64]
Trends = tuple[Trend, ...]


@dataclass(frozen=True, eq=False)
class SharedCentroids(Shared):
    """Of models around centroids: one factor around each.

    Attributes
    ----------
    targets : ndarray of shape (n, t)
        Of a trend, the residuals of its least-squares fit.
    """

    targets: Floats

    @cached_property
    def _of_targets(self) -> LocalTargets:
        fit: Any = self.model._fitted
        return LocalTargets(fit.posterior, _less(self.targets, fit.posterior.given.X, self.trends))

    def predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        """Predict all targets by the factor of each centroid; see `Shared`."""
        means, found = self._of_targets.predict(X, variance)
        return means, None if found is None else found[:, None]

    def view(self, j: int) -> GaussianProcess:
        """Return the model of one target, with the same factors."""
        y = np.ascontiguousarray(self.targets[:, j])
        return viewed(self, j, posterior=self._of_targets.of_one(j, y, self.own_trend(j)))

    def divergences(self, X: Floats) -> Floats:
        """Estimate the divergence of each target."""
        return np.column_stack([self.view(j)._expected_divergence(X) for j in range(self.n_targets)])


@dataclass(frozen=True, eq=False)
class SharedModes(Shared):
    """Of models on Fourier modes: the sums over rows, and the variance.

    Attributes
    ----------
    targets : ndarray of shape (n, t)
        Of a trend, the residuals of its least-squares fit.
    posteriors : tuple of SpectralPosterior
        One for each target.
    """

    targets: Floats
    posteriors: tuple[SpectralPosterior, ...]

    def predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        """Predict all targets by one transform; see `Shared`."""
        means = self.posteriors[0]._evaluate(np.stack([one._mean for one in self.posteriors]), X).T
        assert isinstance(self.model, SpectralGPRegressor)  # for the type checker
        return means, self.model._variance(X)[:, None] if variance else None

    def view(self, j: int) -> GaussianProcess:
        """Return the model of one target, with the same variance."""
        fit: Any = self.model._fitted
        posterior, variance = self.posteriors[j], fit.variance
        if isinstance(variance, DenseFactor):
            # Of the likelihood, yᵀC⁻¹y alone is another one.
            variance, n = copy(variance), fit.posterior.sums.n
            variance.log_marginal_likelihood += 0.5 * n * (fit.posterior.surprise - posterior.surprise)
        rows = Rows(fit.rows.X, np.ascontiguousarray(self.targets[:, j]), fit.rows.weights, fit.rows.noise_variances)
        return viewed(self, j, posterior=posterior, variance=variance, rows=rows)

    def divergences(self, X: Floats) -> Floats:
        """Estimate the divergence of each target."""
        return np.column_stack([self.view(j)._expected_divergence(X) for j in range(self.n_targets)])


@dataclass(frozen=True, eq=False)
class SharedIterations(Shared):
    """Of the exact process by iteration: the covariances, the preconditioner and each pass over them.

    Attributes
    ----------
    targets : ndarray of shape (n, t)
        Of a trend, the residuals of its least-squares fit.
    """

    targets: Floats

    def predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        """Predict all targets from the same covariances; see `Shared`."""
        means, found = self._posterior.predict_targets(X, variance)
        return means, None if found is None else found[:, None]

    def view(self, j: int) -> GaussianProcess:
        """Return the model of one target, with its solution."""
        fit: Any = self.model._fitted
        y, posterior = np.ascontiguousarray(self.targets[:, j]), self._posterior.of_target(j, self.own_trend(j))
        rows = Rows(fit.rows.X, y, fit.rows.weights, fit.rows.noise_variances)
        return viewed(self, j, rows=rows, solved=_kept(posterior))

    @property
    def _posterior(self) -> IterativePosterior:
        assert isinstance(self.model, ExactGPRegressor)  # for the type checker
        posterior = self.model._posterior()
        assert isinstance(posterior, IterativePosterior)
        return posterior


def shared(model: GaussianProcess, fit_to: Callable[[int], GaussianProcess], rows: Rows) -> Shared:
    """Make the posteriors of several targets from that of the first one.

    Parameters
    ----------
    model : GaussianProcess
        Fitted to the first target.
    fit_to : callable
        Fits the same model to a target by its number, for models that share parameters alone.
    rows : Rows
        Those that the kernel sees, of positive weight, with y of shape (n, t) and mean 0. Noise variances of shape
        (n, t) are not shared.

    Returns
    -------
    Shared
    """
    if rows.noise_variances is None or rows.noise_variances.ndim == 1:
        trend = model._fitted.trend
        trends: Trends = ()
        if trend is not None:
            trends, left = of_targets(trend, rows)
            rows = Rows(rows.X, left, rows.weights, rows.noise_variances)
        made = _sharing(model, rows, trends)
        if made is not None:
            return made
    models = (model, *(fit_to(j) for j in range(1, rows.y.shape[1])))
    return SharedParameters(model, np.array([one._fitted.farthest_target for one in models]), models)


def _sharing(model: GaussianProcess, rows: Rows, trends: Trends) -> Shared | None:
    """Return what the targets share; None of a model of which that is not known."""
    fit: Any = model._fitted
    farthest = np.abs(rows.y).max(axis=0)
    if isinstance(model, ExactGPRegressor):
        return _of_iterations(model, rows, trends) if model._iterates() else _of_rows(model, rows, trends)
    if isinstance(model, FeaturizedGPRegressor):
        return _of_weights(model, rows, trends)
    if isinstance(model, SpectralGPRegressor):
        posteriors = posteriors_of(fit.posterior, rows, trends, model.max_memory_gib)
        found = tuple(one.trend for one in posteriors if one.trend is not None)
        return SharedModes(model, farthest, rows.y, posteriors, trends=found)
    if not isinstance(model, NearestNeighborsGPRegressor | ResidualGPRegressor | LocalizedGPRegressor):
        return None
    fits = _estimated(model, rows, trends)
    if isinstance(fit.posterior, LocalPosterior):
        return SharedCentroids(model, farthest, rows.y, trends=fits)
    targets = _less(rows.y, rows.X, fits)
    joint = replaced(model, posterior=fit.posterior.with_targets(targets))
    return SharedNeighbours(joint, farthest, targets, trends=fits)


def _of_rows(model: ExactGPRegressor, rows: Rows, trends: Trends) -> Shared:
    posterior, farthest = model._posterior(), np.abs(rows.y).max(axis=0)
    assert isinstance(posterior, RowPosterior)  # of this solver
    solved, known = posterior.solve(rows.y), posterior.trend
    if known is None:
        return SharedRows(model, farthest, rows.y, solved)
    H = known.columns(rows.X)
    changes = known.covariance @ (H.T @ solved)
    coefficients = solved - posterior.solve(H) @ changes
    return SharedRows(model, farthest, rows.y, coefficients, trends=_changed(trends, changes, known))


def _of_iterations(model: ExactGPRegressor, rows: Rows, trends: Trends) -> Shared:
    posterior = model._iterated(np.ascontiguousarray(rows.y[:, 1:]))
    joint, farthest = replaced(model, solved=_kept(posterior)), np.abs(rows.y).max(axis=0)
    if posterior.trend is None:
        return SharedIterations(joint, farthest, rows.y)
    return SharedIterations(joint, farthest, rows.y, trends=_changed(trends, posterior.changes, posterior.trend))


def _of_weights(model: FeaturizedGPRegressor, rows: Rows, trends: Trends) -> Shared:
    fit: FeaturizedFit = model._fitted
    posterior, noise, t = fit.solved(), fit.noise, rows.y.shape[1]
    known, H = posterior.trend, np.empty((len(rows.y), 0))
    if known is not None:
        H = known.columns(rows.X)
    sums = target_sums(
        fit.features, Rows(rows.X, np.hstack((rows.y, H)), rows.weights, rows.noise_variances), fit.map_centre, noise
    )
    cross, of_columns = sums.cross[:, :t], sums.cross[:, t:]
    products = sums.products.numpy()
    squares = products.diagonal()[:t]
    fits: tuple[TrendFit, ...] = ()
    if known is not None:
        # HᵀC⁻¹y, by C⁻¹ = (I − Φ A⁻¹ Φᵀ/σ²)/σ²
        explained = (posterior.solve(of_columns).T @ cross).numpy() / noise.variance
        changes = known.covariance @ (products[t:, :t] - explained) / noise.variance
        left = np.vstack((np.eye(t), -changes))
        cross, squares = sums.cross @ torch.from_numpy(left), np.einsum("ij,ik,kj->j", left, products, left)
        fits = _changed(trends, changes, known)
    weights = posterior.solve(cross / noise.variance).numpy()
    farthest, kept = np.abs(rows.y).max(axis=0), KeptRows(rows)
    return SharedWeights(model, farthest, weights, cross.numpy(), squares, sums.n, kept, trends=fits)


def _estimated(model: GaussianProcess, rows: Rows, trends: Trends) -> tuple[TrendFit, ...]:
    """Estimate the trends of all targets from the rows from which the model has estimated that of the first."""
    if not trends:
        return ()
    fit: Any = model._fitted
    rng = np.random.default_rng(0)  # as `GaussianProcess._with_trend`
    return estimate_trends(trends, fit.kernel, rows, fit.posterior.noise, rng, model.max_memory_gib)


def _changed(trends: Trends, changes: Floats, known: TrendFit) -> tuple[TrendFit, ...]:
    """Return the estimates of trends by what is added to the coefficients of each, shape (p, t)."""
    pairs = zip(trends, np.ascontiguousarray(changes.T), strict=True)
    return tuple(trend.changed(change, known.covariance) for trend, change in pairs)


def _less(targets: Floats, X: Floats, trends: tuple[TrendFit, ...]) -> Floats:
    """Return residuals of least-squares trends less the estimated ones."""
    if not trends:
        return targets
    return targets - trends[0].columns(X) @ np.column_stack([one.change for one in trends])


def _kept(posterior: IterativePosterior) -> Cache[Any]:
    solved: Cache[Any] = Cache(float("inf"))
    solved.get("posterior", lambda: posterior)
    return solved
