"""What the properties share: every model, problems that hypothesis draws, and how near equal predictions must be."""

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    OptimizedMaclaurinFeatures,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    ResidualGPRegressor,
    SpectralGPRegressor,
    StructuredOrthogonalFourierFeatures,
    TaylorFeatures,
    TransformedTargetGPRegressor,
)
from lmgp.errors import ImplausibleMeanWarning, KernelWarning, NumericalWarning, ToleranceWarning
from lmgp.estimators import MultiTargetGPRegressor
from lmgp.features import (
    CraftFeatures,
    LinearFeatures,
    ModulatedFeatures,
    PolynomialMaclaurinFeatures,
    ProductFeatures,
    ScaledFeatures,
    SphericalFourierFeatures,
    SumFeatures,
)
from lmgp.kernels.base import Kernel
from lmgp.sgd import KernelSGDRegressor
from tests.public import classes as public

Floats = NDArray[np.float64]

# What they warn of is what is tested here.
WARNED = (NumericalWarning, ImplausibleMeanWarning, KernelWarning, ToleranceWarning)

# How near predictions of equal models are: means in prior standard deviations, variances in prior variances.
TOLERANCES = {
    # Cholesky factors of at most 220 rows, with noise of at least a hundredth of the variance: the condition number is
    # below 3e4, times the rounding of 64 bits, times the magnification of a shift by a hundred extents.
    "direct": 1e-8,
    # Landmarks within a lengthscale are nearly linearly dependent: their last columns have five digits.
    "landmarks": 1e-5,
    # What conjugate gradients leave at the tolerance 1e-8 of the model, in noise standard deviations.
    "iterative": 1e-6,
    # The model's tolerance of 1e-3 noise standard deviations, of which modes and iterations may each leave one.
    "modes": 3e-3,
    # The optimiser stops at another point near the maximum, where the likelihood is flat.
    "learned": 1e-2,
}


@dataclass(frozen=True)
class Case:
    """A model, and what its properties are.

    Attributes
    ----------
    model : regressor
        Without kernel and noise variance.
    near : str
        Of `TOLERANCES`.
    matern : bool
        Whether its kernel is a Matérn one.
    most_columns : int
    invariant : bool
        Whether shifts of X, and X in other units with the lengthscale, change nothing.
    of_all : dict
        The parameters with which a prediction is from all rows, however often they are repeated.
    whole_prior : bool
        Whether the prior variance is the kernel's at every row.
    """

    model: Any
    near: str = "direct"
    matern: bool = False
    most_columns: int = 5
    invariant: bool = True
    of_all: dict[str, Any] = field(default_factory=dict)
    whole_prior: bool = True

    def make(self, problem: "Problem", **parameters: Any) -> Any:
        """Make the model with the hyperparameters of a problem."""
        given = {"kernel": problem.kernel(self.matern), "noise_variance": problem.noise, **parameters}
        return clone(self.model).set_params(**given)

    def predict(self, problem: "Problem", **parameters: Any) -> tuple[Floats, Floats]:
        """Fit the model to a problem, and predict the means and variances of its new rows."""
        with warnings.catch_warnings():
            for one in WARNED:
                warnings.simplefilter("ignore", one)
            model = self.make(problem, **parameters).fit(problem.X, problem.y, sample_weight=problem.weights)
            mean, std = model.predict(problem.T, return_std=True)
        return mean, np.square(std)

    def prior(self, problem: "Problem") -> Floats:
        """The prior variance of new rows: the kernel's, or what noise that says nothing of y leaves of it."""
        if self.whole_prior:
            return np.full(len(problem.T), problem.variance)
        return self.predict(problem, noise_variance=1e12 * problem.variance)[1]


@dataclass(frozen=True, eq=False)
class Problem:
    """Training rows, new rows and hyperparameters."""

    X: Floats
    y: Floats
    T: Floats
    lengthscale: Floats
    variance: float
    noise: float
    weights: Floats | None = None

    @classmethod
    def draw(cls, n: int, d: int, seed: int, reach: float = 0.3, noise: float = 0.05) -> Self:
        """Draw n rows of a smooth function in a box, new rows in it, near it, far from it, and training rows."""
        rng = np.random.default_rng(seed)
        extent = rng.uniform(0.5, 3.0, d)
        low = rng.uniform(-5.0, 5.0, d)
        X = low + extent * rng.random((n, d))
        y = 2.0 + np.sin(5.0 * (X[:, 0] - low[0]) / extent[0]) + 0.2 * rng.normal(size=n)
        inside = low + extent * rng.random((6, d))
        T = np.concatenate((inside, X[:4], X[:2] + 0.5 * extent, X[:2] - 3.0 * extent, X[:1] + 1e3 * extent))
        variance = float(rng.uniform(0.3, 3.0))
        return cls(X, y, T, reach * extent * rng.uniform(0.7, 1.4, d), variance, noise * variance)

    def kernel(self, matern: bool) -> Kernel:
        """The kernel, Gaussian or a Matérn one."""
        return (MaternKernel if matern else GaussianKernel)(self.lengthscale, self.variance)

    def rows(self, index: Any) -> Self:
        """The problem of some of its training rows, in some order."""
        weights = None if self.weights is None else self.weights[index]
        return replace(self, X=self.X[index], y=self.y[index], weights=weights)

    def moved(self, shift: Floats, units: float, of_y: float, start: float) -> Self:
        """The problem with X shifted and in other units, and y likewise."""
        return replace(
            self,
            X=units * (self.X + shift),
            T=units * (self.T + shift),
            y=start + of_y * self.y,
            lengthscale=units * self.lengthscale,
            variance=of_y**2 * self.variance,
            noise=of_y**2 * self.noise,
        )


def public_regressors() -> set[type]:
    """All public regressors; what wraps another estimator is what that is."""
    return {cls for cls in public(BaseEstimator) if issubclass(cls, RegressorMixin)}


def waves(rows: Floats) -> Floats:
    """A function of rows."""
    return np.cos(rows[:, 0])


def featurized(features: Any, **properties: Any) -> Case:
    """The model of one map."""
    return Case(FeaturizedGPRegressor(features, random_state=0), **properties)


# The columns of a map that sees rows as they come are another function of shifted rows; those of a map with a kernel of
# its own have its lengthscale.
AS_THEY_COME: dict[str, Any] = {"invariant": False, "whole_prior": False}
LANDMARKS = NystroemFeatures(15, "farthest_point")

# Every kind of map, in the model of one map.
MAPS: dict[str, Case] = {
    "fourier": featurized(RandomFourierFeatures(30)),
    "orthogonal": featurized(OrthogonalFourierFeatures(30)),
    "structured": featurized(StructuredOrthogonalFourierFeatures(30)),
    "taylor": featurized(TaylorFeatures(30)),
    "taylor_energy": featurized(TaylorFeatures(30, index_set="energy")),
    "nystroem": featurized(LANDMARKS),
    "nystroem_random": featurized(NystroemFeatures(15)),
    # What a random map leaves out of the prior is right on average only.
    "random_maclaurin": featurized(RandomMaclaurinFeatures(30), whole_prior=False),
    "maclaurin": featurized(OptimizedMaclaurinFeatures(30), whole_prior=False),
    "maclaurin_mean": featurized(OptimizedMaclaurinFeatures(30, allocation="mean"), whole_prior=False),
    "polynomial": featurized(PolynomialMaclaurinFeatures(30), **AS_THEY_COME),
    "spherical": featurized(SphericalFourierFeatures(30, n_gaussians=2, normalize=True), **AS_THEY_COME),
    "craft": featurized(CraftFeatures(TaylorFeatures(30), 15), **AS_THEY_COME),
    "linear": featurized(LinearFeatures(), **AS_THEY_COME),
    "sum": featurized(SumFeatures(RandomFourierFeatures(20), LinearFeatures()), **AS_THEY_COME),
    "product": featurized(ProductFeatures(RandomFourierFeatures(8), LinearFeatures()), **AS_THEY_COME),
    "scaled": featurized(ScaledFeatures(RandomFourierFeatures(20), 2.0), **AS_THEY_COME),
    "modulated": featurized(ModulatedFeatures(RandomFourierFeatures(20), waves), **AS_THEY_COME),
}
CASES: dict[str, Case] = {
    "exact": Case(ExactGPRegressor(solver="cholesky")),
    "exact_iterative": Case(ExactGPRegressor(solver="iterative", tolerance=1e-8, random_state=0), near="iterative"),
    **MAPS,
    "localized": Case(LocalizedGPRegressor(TaylorFeatures(30))),
    "localized_dual": Case(LocalizedGPRegressor(TaylorFeatures(30), solver="dual")),
    "localized_test_rows": Case(LocalizedGPRegressor(TaylorFeatures(30), centroids="test_rows")),
    "localized_energy": Case(LocalizedGPRegressor(TaylorFeatures(30, index_set="energy"))),
    "localized_nystroem": Case(LocalizedGPRegressor(LANDMARKS), near="landmarks"),
    "localized_nystroem_random": Case(LocalizedGPRegressor(NystroemFeatures(15), random_state=0), near="landmarks"),
    "localized_maclaurin": Case(
        LocalizedGPRegressor(OptimizedMaclaurinFeatures(30, n_allocation_rows=15), random_state=0), whole_prior=False
    ),
    # From the nearest 100 rows.
    "localized_matern": Case(LocalizedGPRegressor(), matern=True),
    "nearest": Case(NearestNeighborsGPRegressor(15), matern=True, of_all={"n_neighbors": 1000}),
    "residual": Case(
        ResidualGPRegressor(LANDMARKS, 15, block_size=16),
        of_all={"n_neighbors": 1000, "block_size": 1000},
    ),
    "spectral": Case(SpectralGPRegressor(max_memory_gib=0.02, random_state=0), near="modes", most_columns=3),
    "spectral_matern": Case(SpectralGPRegressor(max_memory_gib=0.02), near="modes", most_columns=1, matern=True),
    "chosen": Case(GPRegressor(random_state=0), near="modes"),
    "chosen_local": Case(GPRegressor(1e-8, methods=["local_taylor"], random_state=0), near="modes", most_columns=2),
}

# Models of streams, which take rows later and out again, to 1e-8. Of a spectral model, the box has all rows.
UPDATED: dict[str, Case] = {
    "orthogonal": CASES["orthogonal"],
    "taylor": CASES["taylor"],
    "nystroem": CASES["nystroem"],
    "trend": featurized(TaylorFeatures(30), of_all={"trend": "linear"}),
    "localized": Case(LocalizedGPRegressor(TaylorFeatures(30)), most_columns=3),
    "nearest": Case(NearestNeighborsGPRegressor(12)),
    "spectral": Case(SpectralGPRegressor(1e-9), most_columns=1, of_all={"box": [[-6.0], [9.0]]}),
}

# Its properties are other ones, which have their test. Stochastic gradients are of rows in the order in which they are
# drawn, and have no prior: their properties are in expectation, in tests/sgd.
APART = (MultiTargetGPRegressor, TransformedTargetGPRegressor)
WITHOUT = (KernelSGDRegressor,)
