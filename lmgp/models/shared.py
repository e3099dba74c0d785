"""Models of several targets at the same rows, with one kernel and one noise variance: what they share is made once."""

from abc import ABC, abstractmethod
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from lmgp.inference.function_space import RowPosterior
from lmgp.inference.trend import TrendFit
from lmgp.memory import chunks
from lmgp.models.base import GaussianProcess
from lmgp.models.evidence import KeptRows
from lmgp.models.exact import ExactGPRegressor
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
        The largest |y| of each target; of a trend, the largest of its least-squares residuals.
    trends : tuple of TrendFit
        That of each target, all with the same columns; none of a constant.
    """

    model: GaussianProcess
    farthest: Floats
    trends: tuple[TrendFit, ...] = field(default=(), kw_only=True)

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
        """Return means without trends, (m, t), and variances, (m, 1) if all targets have the same ones, or (m, t)."""

    @abstractmethod
    def view(self, j: int) -> GaussianProcess:
        """Return the fitted model of one target."""

    def levels(self, X: Floats) -> Floats | float:
        """Return the trends of rows, shape (m, t)."""
        if not self.trends:
            return 0.0
        return self.trends[0].columns(X) @ np.column_stack([one.start + one.change for one in self.trends])

    def covariances(self, X: Floats) -> Floats:
        """Return the covariances of rows, (m, m, 1) if they are the same for all targets, or (m, m, t)."""
        return self.model._covariance(X)[:, :, None]

    def samples(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        """Draw the latent functions without trends, (m, t, n_samples): of one law about the mean of each target."""
        drawn = self.model._samples(X, self.n_targets * n_samples, rng) - self.model._predict(X, False)[0][:, None]
        return drawn.reshape(len(X), self.n_targets, n_samples) + self.predict(X, False)[0][:, :, None]

    def divergences(self, X: Floats) -> Floats:
        """Estimate the divergence from the exact prediction, (m, 1) if it is the same for all targets, or (m, t)."""
        return self.model._expected_divergence(X)[:, None]

    def own_trend(self, j: int) -> TrendFit | None:
        """Return the trend of a target."""
        return self.trends[j] if self.trends else None


@dataclass(frozen=True, eq=False)
class SharedRows(Shared):
    """Of the exact process: one Cholesky factor.

    Attributes
    ----------
    targets, coefficients : ndarray of shape (n, t)
        y, of a trend the residuals of its least-squares fit, and (K + Σ)⁻¹(y − trend).
    """

    targets: Floats
    coefficients: Floats

    def predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        """Predict from the coefficients of all targets; see `Shared`."""
        fit: Any = self.model._fitted
        section, means = fit.kernel.sections(fit.rows.X), np.empty((len(X), self.n_targets))
        for part in chunks(len(X), len(fit.rows.X), BATCH_BYTES):
            means[part] = section(X[part]) @ self.coefficients
        return means, own_variance(self.model, X) if variance else None

    def view(self, j: int) -> GaussianProcess:
        """Return the model of one target, with the same factor."""
        fit: Any = self.model._fitted
        y = np.ascontiguousarray(self.targets[:, j])
        rows = Rows(fit.rows.X, y, fit.rows.weights, fit.rows.noise_variances)
        assert isinstance(self.model, ExactGPRegressor)  # for the type checker
        posterior, solved = self.model._posterior(), copy(fit.solved)  # of which a copy is empty
        assert isinstance(posterior, RowPosterior)
        trend = self.own_trend(j)
        solved.get("posterior", lambda: posterior.with_target(y, trend))
        return viewed(self, j, rows=rows, solved=solved)


@dataclass(frozen=True, eq=False)
class SharedNeighbours(Shared):
    """Of the nearest rows, and of a map and near residuals: the factorisation of each prediction.

    Attributes
    ----------
    targets : ndarray of shape (n, t)
        Less their trends.
    """

    targets: Floats

    def predict(self, X: Floats, variance: bool) -> tuple[Floats, Floats | None]:
        """Predict all targets from the same rows; see `Shared`."""
        means, found = self._posterior.predict_targets(X, variance)
        return means, None if found is None else found[:, None]

    def view(self, j: int) -> GaussianProcess:
        """Return the model of one target, with the same tree and factors."""
        return viewed(self, j, posterior=self._posterior.with_targets(self.targets[:, j : j + 1]))

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
        Σ ρφy, with the precision ρ of each row relative to the noise, of y less its trend.
    squares : ndarray of shape (t,)
        Σ ρy².
    total_weight : float
        The number of rows, each times its weight.
    kept : KeptRows
        With y of shape (n, t); of a trend, the residuals of its least-squares fit.
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
        return means, own_variance(self.model, X) if variance else None

    def view(self, j: int) -> GaussianProcess:
        """Return the model of one target, with the same map and factor."""
        fit: Any = self.model._fitted
        assert fit.posterior is not None  # for the type checker: there are rows
        cross, squares = torch.from_numpy(self.cross[:, [j]].copy()), float(self.squares[j])
        trend = self.own_trend(j)
        posterior = fit.posterior.with_sums(cross, squares, fit.noise.variance, self.total_weight, trend)
        return viewed(self, j, posterior=posterior, kept=self.kept.one(j))

    def divergences(self, X: Floats) -> Floats:
        """Estimate the divergence of each target."""
        return np.column_stack([self.view(j)._expected_divergence(X) for j in range(self.n_targets)])


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
        """Predict by each model; see `Shared`."""
        means, variances = np.empty((len(X), self.n_targets)), np.empty((len(X), self.n_targets))
        for j, model in enumerate(self.models):
            means[:, j], found = model._predict(X, variance)
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
        """Draw from each model."""
        return np.stack([model._samples(X, n_samples, rng) for model in self.models], axis=1)

    def levels(self, X: Floats) -> Floats | float:
        """Return the trend of each model, whose columns differ where the noise of rows does."""
        trends = [model._estimated_trend() for model in self.models]
        return np.column_stack([np.zeros(len(X)) if one is None else one.values(X) for one in trends])

    def divergences(self, X: Floats) -> Floats:
        """Estimate the divergence of each model."""
        return np.column_stack([model._expected_divergence(X) for model in self.models])


def own_variance(model: GaussianProcess, X: Floats) -> Floats:
    """Return the variance of rows, shape (m, 1)."""
    found = model._predict(X, True)[1]
    assert found is not None  # for the type checker: it was asked for
    return found[:, None]


def replaced(model: GaussianProcess, **changes: Any) -> GaussianProcess:
    """Return a fitted model with another fitted state; all that is not changed is shared."""
    other: GaussianProcess = object.__new__(type(model))
    other.__dict__.update(vars(model))
    other._fitted = replace(model._fitted, **changes)
    return other


def viewed(of: Shared, j: int, **changes: Any) -> GaussianProcess:
    """Return the fitted model of one target from that of another."""
    if of.trends:
        changes["trend"] = of.own_trend(j)
    return replaced(of.model, farthest_target=float(of.farthest[j]), **changes)
