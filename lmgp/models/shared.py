"""Models of several targets at the same rows, with one kernel and one noise variance: what they share is made once."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.inference.function_space import RowPosterior
from lmgp.inference.weight_space import WeightPosterior
from lmgp.memory import chunks
from lmgp.models.base import GaussianProcess
from lmgp.models.evidence import KeptRows
from lmgp.models.exact import ExactGPRegressor
from lmgp.models.featurized import FeaturizedFit, FeaturizedGPRegressor
from lmgp.models.nearest import NearestNeighborsGPRegressor
from lmgp.models.residual import ResidualGPRegressor
from lmgp.noise import Noise
from lmgp.parallel import parallel_map
from lmgp.validation import Rows, as_tensor

Floats = NDArray[np.float64]

# Bytes of what is computed between test rows and training rows at a time.
BATCH_BYTES = 32 * 2**20


@dataclass(frozen=True, eq=False)
class Shared(ABC):
    """Posteriors of t targets of mean 0, given the same rows.

    Attributes
    ----------
    model : GaussianProcess
        Fitted to the first target: variances and covariances are the same for all.
    farthest : ndarray of shape (t,)
        The largest |y| of each target.
    """

    model: GaussianProcess
    farthest: Floats

    @property
    def n_targets(self) -> int:
        """The number t of targets."""
        return len(self.farthest)

    def noise_variance(self, j: int) -> float:
        """Return that of new observations of a target."""
        variance: float = self.model.noise_variance_
        return variance

    @abstractmethod
    def predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        """Return means of shape (m, t), and variances, (m, 1) if they are the same for all targets, or (m, t)."""

    @abstractmethod
    def view(self, j: int) -> GaussianProcess:
        """Return the fitted model of one target."""

    def covariances(self, X: Floats) -> Floats:
        """Return the covariances of rows, (m, m, 1) if they are the same for all targets, or (m, m, t)."""
        return self.model._covariance(X)[:, :, None]

    def samples(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        """Draw the latent functions, shape (m, t, n_samples): of one law about the mean of each target."""
        drawn = self.model._samples(X, self.n_targets * n_samples, rng) - self.model._predict(X, False)[0][:, None]
        return drawn.reshape(len(X), self.n_targets, n_samples) + self.predict(X, False)[0][:, :, None]

    def divergences(self, X: Floats) -> Floats:
        """Estimate the divergence from the exact prediction, (m, 1) if it is the same for all targets, or (m, t)."""
        return self.model._expected_divergence(X)[:, None]


@dataclass(frozen=True, eq=False)
class SharedRows(Shared):
    """Of the exact process: one Cholesky factor.

    Attributes
    ----------
    targets, coefficients : ndarray of shape (n, t)
        y and (K + Σ)⁻¹y.
    """

    targets: Floats
    coefficients: Floats

    def predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        """Predict from the coefficients of all targets; see `Shared`."""
        fit: Any = self.model._fitted
        section, means = fit.kernel.sections(fit.rows.X), np.empty((len(X), self.n_targets))
        for part in chunks(len(X), len(fit.rows.X), BATCH_BYTES):
            means[part] = section(X[part]) @ self.coefficients
        return means, _own_variance(self.model, X) if variance else None

    def view(self, j: int) -> GaussianProcess:
        """Return the model of one target, with the same factor."""
        fit: Any = self.model._fitted
        y = np.ascontiguousarray(self.targets[:, j])
        rows = Rows(fit.rows.X, y, fit.rows.weights, fit.rows.noise_variances)
        assert isinstance(self.model, ExactGPRegressor)  # for the type checker
        posterior, solved = self.model._posterior(), copy(fit.solved)  # of which a copy is empty
        assert isinstance(posterior, RowPosterior)
        solved.get("posterior", lambda: posterior.with_target(y))
        return _viewed(self, j, rows=rows, solved=solved)


@dataclass(frozen=True, eq=False)
class SharedNeighbours(Shared):
    """Of the nearest rows, and of a map and near residuals: the factorisation of each prediction.

    Attributes
    ----------
    targets : ndarray of shape (n, t)
    """

    targets: Floats

    def predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        """Predict all targets from the same rows; see `Shared`."""
        means, found = self._posterior.predict_targets(X, variance)
        return means, None if found is None else found[:, None]

    def view(self, j: int) -> GaussianProcess:
        """Return the model of one target, with the same tree and factors."""
        return _viewed(self, j, posterior=self._posterior.with_targets(self.targets[:, j : j + 1]))

    @property
    def _posterior(self) -> Any:
        fit: Any = self.model._fitted
        return fit.posterior


@dataclass(frozen=True, eq=False)
class SharedWeights(Shared):
    """Of a feature map: one D × D factor.

    Attributes
    ----------
    weights : ndarray of shape (D, t)
        The posterior means.
    cross : ndarray of shape (D, t)
        Σ ρφy, with the precision ρ of each row relative to the noise.
    squares : ndarray of shape (t,)
        Σ ρy².
    total_weight : float
        The number of rows, each times its weight.
    kept : KeptRows
        With y of shape (n, t).
    """

    weights: Floats
    cross: Floats
    squares: Floats
    total_weight: float
    kept: KeptRows

    def predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        """Predict from the weights of all targets; see `Shared`."""
        fit: Any = self.model._fitted
        means = np.empty((len(X), self.n_targets))
        for part in chunks(len(X), fit.features.n_features_out_, BATCH_BYTES):
            means[part] = fit.features.evaluate(as_tensor(X[part] - fit.map_centre)).numpy() @ self.weights
        return means, _own_variance(self.model, X) if variance else None

    def view(self, j: int) -> GaussianProcess:
        """Return the model of one target, with the same map and factor."""
        fit: Any = self.model._fitted
        posterior = _of_sums(fit, self.cross[:, j : j + 1], float(self.squares[j]), self.total_weight)
        return _viewed(self, j, posterior=posterior, kept=self.kept.one(j))


@dataclass(frozen=True, eq=False)
class SharedParameters(Shared):
    """Of all other models: a model for each target, with the same parameters.

    Attributes
    ----------
    models : tuple of GaussianProcess
    """

    models: tuple[GaussianProcess, ...]

    def noise_variance(self, j: int) -> float:
        """Return that of new observations of a target: the mean of its rows, where each has its own."""
        variance: float = self.models[j].noise_variance_
        return variance

    def predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        """Predict by each model, with its trend; see `Shared`."""
        means, variances = np.empty((len(X), self.n_targets)), np.empty((len(X), self.n_targets))
        for j, model in enumerate(self.models):
            means[:, j], found = model._predict(X, variance)
            trend = model._estimated_trend()
            if trend is not None:
                means[:, j] += trend.values(X)
            if found is not None:
                variances[:, j] = found
        return means, variances if variance else None

    def view(self, j: int) -> GaussianProcess:
        """Return the model of one target."""
        return self.models[j]

    def covariances(self, X: Floats) -> Floats:
        """Return the covariance of rows of each model."""
        return np.stack([model._covariance(X) for model in self.models], axis=2)

    def samples(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        """Draw from each model, with its trend."""
        drawn = []
        for model in self.models:
            trend = model._estimated_trend()
            level = 0.0 if trend is None else trend.values(X)[:, None]
            drawn.append(model._samples(X, n_samples, rng) + level)
        return np.stack(drawn, axis=1)

    def divergences(self, X: Floats) -> Floats:
        """Estimate the divergence of each model."""
        return np.column_stack([model._expected_divergence(X) for model in self.models])


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
    fit: Any = model._fitted
    y = rows.y
    farthest = np.abs(y).max(axis=0)
    common = fit.trend is None and (rows.noise_variances is None or rows.noise_variances.ndim == 1)
    solved = model._posterior() if common and isinstance(model, ExactGPRegressor) else None
    if isinstance(solved, RowPosterior):
        return SharedRows(model, farthest, y, solved.solve(y))
    if common and isinstance(model, NearestNeighborsGPRegressor | ResidualGPRegressor):
        joint = _replaced(model, posterior=fit.posterior.with_targets(y))
        return SharedNeighbours(joint, farthest, y)
    if common and isinstance(model, FeaturizedGPRegressor):
        cross, squares = _sums(fit, rows)
        weights = np.column_stack([_of_sums(fit, cross[:, [j]], 0.0, 1.0).weights.numpy() for j in range(y.shape[1])])
        total = float(len(y) if rows.weights is None else rows.weights.sum())
        return SharedWeights(model, farthest, weights, cross, squares, total, KeptRows(rows))
    return SharedParameters(model, farthest, (model, *(fit_to(j) for j in range(1, y.shape[1]))))


def _own_variance(model: GaussianProcess, X: Floats) -> Floats:
    found = model._predict(X, True)[1]
    assert found is not None  # for the type checker: it was asked for
    return found[:, None]


def _replaced(model: GaussianProcess, **changes: Any) -> GaussianProcess:
    """Return a fitted model with another fitted state; all that is not changed is shared."""
    other: GaussianProcess = object.__new__(type(model))
    other.__dict__.update(vars(model))
    other._fitted = replace(model._fitted, **changes)
    return other


def _viewed(of: Shared, j: int, **changes: Any) -> GaussianProcess:
    return _replaced(of.model, farthest_target=float(of.farthest[j]), **changes)


def _sums(fit: FeaturizedFit, rows: Rows) -> tuple[Floats, Floats]:
    """Return Σ ρφyᵀ, shape (D, t), and Σ ρy², shape (t,), of the rows of a featurized model."""
    features, noise = fit.features, fit.noise

    def of_chunk(part: slice) -> tuple[torch.Tensor, torch.Tensor]:
        chunk = rows.take(part)
        X, y = as_tensor(chunk.X - fit.map_centre), as_tensor(chunk.y)
        mapped = features.evaluate(X)
        missing = features.missing_variance(X, mapped) if noise.counts_missing else None
        weighted = y * (noise.variance / noise.of_weighted_rows(chunk, missing))[:, None]
        return mapped.T @ weighted, (y * weighted).sum(dim=0)

    parts = parallel_map(of_chunk, list(chunks(len(rows.y), features.n_features_out_)))
    cross, squares = (sum(values[1:], values[0]) for values in zip(*parts, strict=True))
    return cross.numpy(), squares.numpy()


def _of_sums(fit: FeaturizedFit, cross: Floats, squares: float, total_weight: float) -> WeightPosterior:
    """Return the posterior of one target from its sums, shape (D, 1), with the factor of another."""
    noise: Noise = fit.noise
    assert fit.posterior is not None  # for the type checker: there are rows
    return fit.posterior.with_sums(torch.from_numpy(cross.copy()), squares, noise.variance, total_weight)
