"""Recipes: what a Gaussian process is approximated by, described before there are rows, and what it makes of them."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_array

from lmgp.data import Approximation, Floats, Noise, Rows
from lmgp.errors import InputError
from lmgp.features.adapter import work_of
from lmgp.features.base import KernelMap
from lmgp.features.fourier import OrthogonalFourierFeatures
from lmgp.features.maclaurin import OptimizedMaclaurinFeatures
from lmgp.features.nystroem import NystroemFeatures
from lmgp.features.taylor import TaylorFeatures
from lmgp.kernels.base import Kernel, unsupported
from lmgp.neighbours.placement import cover
from lmgp.posteriors import iterative
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.costs import Cost, of_exact, of_iterations, of_map, of_nearest, of_residual
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.iterative import IterativePosterior
from lmgp.posteriors.local import LocalPlan, Solver, fitted_map, reach_of
from lmgp.posteriors.modes import ModePlan
from lmgp.posteriors.nearest import NearestPlan
from lmgp.posteriors.residual import ResidualPlan
from lmgp.posteriors.spectral import SpectralPosterior
from lmgp.posteriors.weights import WeightPosterior, fitted_global_map, rows_for_rounding
from lmgp.sums.base import Sample, Sums
from lmgp.sums.cubes import CubeSums
from lmgp.sums.gram import WeightSums
from lmgp.sums.kept import NearestSums, RowSums
from lmgp.sums.modes import ModeSums
from lmgp.utils.arithmetic import USUAL, Arithmetic, Precision

# Up to this number of input columns the default map around centroids is the explicit one.
LOW_DIMENSION = 4

# The nearest rows that predict a row by default, for kernels that no localized map serves.
NEIGHBORS = 100

# The modes of a stream that is read once serve as many rows.
ROWS_TO_COME = 10**6

# The number of landmarks of a residual model that is given no map.
LANDMARKS = 1024


class Recipe(ABC):
    """A frozen description of a posterior: what it is made of, and how large. One line of a comparison.

    A new way to approximate a Gaussian process is a `Posterior`, and a recipe with these methods.
    """

    # What a refusal calls a recipe that measures distances, and so serves kernels with a lengthscale alone.
    by_distances: ClassVar[str | None] = None

    def serves(self, kernel: Kernel, n_inputs: int) -> str | None:
        """Return why the recipe cannot serve a kernel of this number of columns, with what can; None if it can."""
        if self.by_distances is None or kernel.can("metric"):
            return None
        return str(unsupported(kernel, "metric", self.by_distances))

    def check(self, kernel: Kernel, n_inputs: int) -> None:
        """Refuse a kernel that the recipe cannot serve.

        Raises
        ------
        InputError
        """
        reason = self.serves(kernel, n_inputs)
        if reason is not None:
            raise InputError(reason)

    def cost(self, n_rows: int, n_inputs: int, n_predict: int, kernel: Kernel) -> Cost:
        """Count what the posterior of n rows of d columns takes, with predictions of means and variances.

        The same sizes give the same cost on every machine. Where a recipe has no count of its own, it is that of the
        exact process, of which it is to save a part. What Fourier modes take follows from where rows are, see
        `lmgp.posteriors.costs.of_modes`.
        """
        return of_exact(n_rows, n_inputs, n_predict, kernel)

    @abstractmethod
    def posterior(self, kernel: Kernel, noise_variance: float, rows: Rows, rng: Generator) -> Posterior:
        """Condition the process on rows.

        Parameters
        ----------
        kernel : Kernel
        noise_variance : float
            Of rows without one of their own, in squared units of the targets.
        rows : Rows
            With centred targets, and the columns of a trend behind them.
        rng : numpy.random.Generator
            Draws the map.
        """

    def condition(
        self, kernel: Kernel, noise_variance: float, rows: Rows, combination: Floats, rng: Generator, n_trend: int = 0
    ) -> tuple[Sums | None, Posterior]:
        """Return the sums over rows, where there are some, and the posterior of their targets times a combination.

        `n_trend` says how many of the last combinations are columns of a trend that is to be estimated.
        """
        rows = rows.with_targets(rows.Y @ combination)
        return None, self.posterior(kernel, noise_variance, rows, rng)


class AdditiveRecipe(Recipe):
    """A recipe whose posterior can be made of sums over rows: of streams, and of rows that come later."""

    def needs_sample(self, kernel: Kernel) -> bool:
        """Say whether a pass over all rows is needed before they are summed."""
        return True

    @abstractmethod
    def sums(self, kernel: Kernel, noise_variance: float, sample: Sample, rng: Generator, n_trend: int = 0) -> Sums:
        """Make the sums over no rows, from a sample of those that come, with centred targets.

        `n_trend` says how many of the last targets are columns of a trend that is to be estimated.
        """

    @abstractmethod
    def condition(  # noqa: D102
        self, kernel: Kernel, noise_variance: float, rows: Rows, combination: Floats, rng: Generator, n_trend: int = 0
    ) -> tuple[Sums, Posterior]: ...

    def posterior(self, kernel: Kernel, noise_variance: float, rows: Rows, rng: Generator) -> Posterior:  # noqa: D102
        return self.condition(kernel, noise_variance, rows, np.eye(rows.n_targets), rng)[1]


@dataclass(frozen=True)
class Exact(Recipe):
    """All rows, by a Cholesky factor."""

    max_memory_gib: float | None = None

    def posterior(self, kernel: Kernel, noise_variance: float, rows: Rows, rng: Generator) -> ExactPosterior:  # noqa: D102
        return ExactPosterior(kernel, rows, Noise(noise_variance), self.max_memory_gib)


@dataclass(frozen=True)
class Iterative(Recipe):
    """All rows, by conjugate gradients; see `lmgp.posteriors.iterative.IterativePosterior`."""

    tolerance: float = 1e-2
    max_iterations: int = 500
    max_memory_gib: float | None = None
    device: str = "cpu"
    verbose: bool = False

    by_distances = "An iterative solve"

    def cost(self, n_rows: int, n_inputs: int, n_predict: int, kernel: Kernel) -> Cost:
        """Count the iterations, at most, with their preconditioner, from which the variances are."""
        n_landmarks = min(iterative.LANDMARKS, max(1, n_rows // iterative.ROWS_PER_LANDMARK))
        sizes = n_rows, n_inputs, n_predict, kernel
        work = work_of(NystroemFeatures(n_landmarks), n_inputs)
        near = of_residual(work, iterative.NEIGHBORS, iterative.BLOCK_SIZE, *sizes)
        return near + of_iterations(self.max_iterations, n_landmarks + iterative.BLOCK_SIZE, *sizes)

    def posterior(self, kernel: Kernel, noise_variance: float, rows: Rows, rng: Generator) -> IterativePosterior:  # noqa: D102
        return IterativePosterior(
            kernel, rows, Noise(noise_variance), np.random.default_rng(int(rng.integers(2**31))),
            tolerance=self.tolerance, max_iterations=self.max_iterations, max_memory_gib=self.max_memory_gib,
            device=self.device, verbose=self.verbose,
        )  # fmt: skip


@dataclass(frozen=True)
class Weights(AdditiveRecipe):
    """One map for all rows. Without a map: orthogonal Fourier features, or Nyström's where there are none."""

    features: Any = None
    approximation: Approximation = "fitc"
    max_memory_gib: float | None = None
    arithmetic: Arithmetic = USUAL

    def cost(self, n_rows: int, n_inputs: int, n_predict: int, kernel: Kernel) -> Cost:  # noqa: D102
        return of_map(work_of(self.features_for(kernel), n_inputs), n_rows, n_inputs, n_predict, kernel)

    def features_for(self, kernel: Kernel) -> Any:
        """Return the map, or the default one of a kernel; not fitted."""
        if self.features is not None:
            return self.features
        return OrthogonalFourierFeatures() if kernel.can("frequencies") else NystroemFeatures()

    def needs_sample(self, kernel: Kernel) -> bool:
        """Say whether the map depends on where the rows are: one of frequencies is as good around any row."""
        features = self.features_for(kernel)
        return not (isinstance(features, KernelMap) and features.needs == "frequencies")

    def _over(self, kernel: Kernel, noise_variance: float, rows: Rows, rng: Generator) -> WeightSums:
        features, centre = fitted_global_map(self.features_for(kernel), kernel, rows, rng, self.max_memory_gib)
        probe = None if self.arithmetic.precision == "float64" else rows_for_rounding(rows)
        noise = Noise(noise_variance, self.approximation)
        return WeightSums.over(features, centre, kernel, noise, rows.n_targets, self.arithmetic, probe)

    def sums(self, kernel: Kernel, noise_variance: float, sample: Sample, rng: Generator, n_trend: int = 0) -> Sums:  # noqa: D102
        assert sample.rows is not None  # a model is made of some rows
        return self._over(kernel, noise_variance, sample.rows, rng)

    def condition(  # noqa: D102
        self, kernel: Kernel, noise_variance: float, rows: Rows, combination: Floats, rng: Generator, n_trend: int = 0
    ) -> tuple[WeightSums, WeightPosterior]:
        sums = self._over(kernel, noise_variance, rows, rng).added(rows)
        posterior = sums.posterior(combination)
        posterior.keep(rows.with_targets(rows.Y @ combination))
        return sums, posterior


@dataclass(frozen=True)
class Local(AdditiveRecipe):
    """One map, centred anew around each of many centroids; see `lmgp.posteriors.local.LocalPosterior`.

    Without a map: Taylor features in few columns and optimised Maclaurin features in more, which serve sums of
    Gaussians. Every other kernel is served by the nearest rows, or, with ``solver="dual"`` or given centroids, by all.
    """

    features: Any = None
    threshold: float = 1.0
    centroids: Any = "farthest_point"
    solver: Solver = "primal"
    approximation: Approximation = "fitc"
    max_memory_gib: float | None = None

    by_distances = "LocalizedGPRegressor"

    def cost(  # noqa: D102
        self, n_rows: int, n_inputs: int, n_predict: int, kernel: Kernel, n_centroids: int = 1, share: float = 1.0
    ) -> Cost:
        # The number of centroids, and the share of the rows that is near one, follow from where the rows are.
        work = work_of(self._features_of(n_inputs), n_inputs)
        return of_map(work, n_rows, n_inputs, n_predict, kernel, n_centroids, share)

    def needs_sample(self, kernel: Kernel) -> bool:
        """Say whether the map depends on where the rows are: all monomials up to a degree do not."""
        # The default map follows from the number of columns, which is not known yet.
        return not (isinstance(self.features, TaylorFeatures) and self.features.index_set == "total_degree")

    def _features_of(self, n_inputs: int) -> Any:
        """Return the map, or the default one for sums of Gaussians; not fitted."""
        if self.features is not None:
            return self.features
        return TaylorFeatures() if n_inputs <= LOW_DIMENSION else OptimizedMaclaurinFeatures()

    @property
    def _placed(self) -> str:
        """How centroids are placed: by a name, or as "given"."""
        return self.centroids if isinstance(self.centroids, str) else "given"

    def sums(self, kernel: Kernel, noise_variance: float, sample: Sample, rng: Generator, n_trend: int = 0) -> Sums:  # noqa: D102
        rows = sample.rows
        assert rows is not None  # a model is made of some rows
        reason = (
            "solver='primal': rows are not kept" if self.solver != "primal"
            else "centroids before test rows are known" if self._placed == "test_rows"
            else "trend='constant'; FeaturizedGPRegressor and SpectralGPRegressor have others" if n_trend
            else "a map, and without one a kernel of Gaussians: use SpectralGPRegressor" if self.features is None and
            not kernel.can("gaussian_components")
            else None
        )  # fmt: skip
        if reason is not None:
            raise InputError(f"A localized model of a stream needs {reason}. Or fit to rows in memory.")
        features, noise = self._features_of(rows.X.shape[1]), Noise(noise_variance, self.approximation)
        given = self._given_centroids(rows) if self._placed == "given" else None
        return CubeSums.over(kernel, noise, features, rows, self.threshold, given, rng, self.max_memory_gib)

    def condition(  # noqa: D102
        self, kernel: Kernel, noise_variance: float, rows: Rows, combination: Floats, rng: Generator, n_trend: int = 0
    ) -> tuple[Sums, Posterior]:
        centred = rows.with_targets(rows.Y @ combination)
        targets = centred.with_targets(centred.Y[:, : centred.n_targets - n_trend])  # which say what is negligible
        plan = self._plan(kernel, Noise(noise_variance, self.approximation), targets, rng)
        if isinstance(plan, NearestPlan):
            sums = NearestSums.over(plan, rows)
            return sums, sums.posterior(combination)
        return RowSums.over(Noise(noise_variance), plan, rows), plan.posterior(centred)

    def _plan(self, kernel: Kernel, noise: Noise, rows: Rows, rng: Generator) -> LocalPlan | NearestPlan:
        mapped = self.features is not None or kernel.can("gaussian_components")
        if not mapped and self.solver != "dual" and self._placed != "given":
            return NearestPlan(kernel, Noise(noise.variance), NEIGHBORS, self.max_memory_gib)
        threshold, fitted = None, None
        if self._placed == "given":
            centroids = self._given_centroids(rows)
        elif self._placed == "test_rows":
            centroids = rows.X[:0].copy()
        else:
            threshold, centroids = self.threshold, cover(rows, kernel, self.threshold)
        if mapped:
            features = self._features_of(rows.X.shape[1])
            fitted = fitted_map(features, kernel, rows, centroids, rng, self.max_memory_gib)
        reach = reach_of(fitted, kernel, noise, rows)
        return LocalPlan(kernel, noise, fitted, centroids, threshold, self.solver, reach, self.max_memory_gib)

    def _given_centroids(self, rows: Rows) -> Floats:
        centroids: Floats = np.array(self.centroids, dtype=np.float64)
        if centroids.shape[1] != rows.X.shape[1]:
            raise InputError(
                f"centroids must have as many columns as X, {rows.X.shape[1]}; got shape {centroids.shape}."
            )
        return centroids


@dataclass(frozen=True)
class Spectral(AdditiveRecipe):
    """Fourier modes for the means, and a local variance; see `lmgp.posteriors.spectral.SpectralPosterior`."""

    tolerance: float = 1e-3
    max_iterations: int = 2000
    max_memory_gib: float | None = None
    max_seconds: float | None = None
    room: float = 1.0
    box: Any = None

    def _plan(
        self, kernel: Kernel, noise_variance: float, rows: Rows, rng: Generator, n_trend: int,
        box: tuple[Floats, Floats] | None, n_rows: int | None, keeps_rows: bool,
    ) -> ModePlan:  # fmt: skip
        return ModePlan.choose(
            kernel, Noise(noise_variance), rows, self.tolerance, n_trend=n_trend, keeps_rows=keeps_rows,
            room=self.room, box=box, n_rows=n_rows, max_iterations=self.max_iterations,
            max_memory_gib=self.max_memory_gib, max_seconds=self.max_seconds, seed=int(rng.integers(2**63)),
        )  # fmt: skip

    def sums(self, kernel: Kernel, noise_variance: float, sample: Sample, rng: Generator, n_trend: int = 0) -> Sums:  # noqa: D102
        rows, summary = sample.rows, sample.summary
        assert rows is not None and summary is not None  # noqa: PT018 - a model is made of some rows
        given = checked_box(self.box, rows.X.shape[1]) or (summary.low, summary.high)
        box = np.minimum(summary.low, given[0]), np.maximum(summary.high, given[1])
        n_rows = summary.n_rows if sample.whole else max(summary.n_rows, ROWS_TO_COME)
        plan = self._plan(kernel, noise_variance, rows, rng, n_trend, box, n_rows, False)
        return ModeSums.for_plan(plan, rows.n_targets)

    def condition(  # noqa: D102
        self, kernel: Kernel, noise_variance: float, rows: Rows, combination: Floats, rng: Generator, n_trend: int = 0
    ) -> tuple[ModeSums, SpectralPosterior]:
        box = checked_box(self.box, rows.X.shape[1])
        plan = self._plan(kernel, noise_variance, rows, rng, n_trend, box, None, True)
        sums = ModeSums.for_plan(plan, rows.n_targets).of(rows)
        posterior = sums.posterior(combination)
        posterior.prepare_variance()
        return sums, posterior


def checked_box(given: ArrayLike | None, n_inputs: int) -> tuple[Floats, Floats] | None:
    """Return the lowest and the highest values of the columns, each of shape (d,), if they are given.

    Raises
    ------
    InputError
        If they are not of this number of columns, or not in this order.
    """
    if given is None:
        return None
    box: Floats = check_array(given, dtype=np.float64, input_name="box", ensure_2d=False)
    if box.shape != (2, n_inputs) or np.any(box[0] > box[1]):
        raise InputError(
            f"box must have the lowest values of the {n_inputs} columns, and the highest, shape (2, {n_inputs}); "
            f"got {given!r}."
        )
    return box[0], box[1]


class OfNearRows(AdditiveRecipe):
    """A recipe whose sums are the rows themselves, of which the nearest predict."""

    @abstractmethod
    def _plan(self, kernel: Kernel, noise_variance: float, rows: Rows, rng: Generator) -> NearestPlan | ResidualPlan:
        """Say how near rows predict, and fit what the plan has of rows."""

    def sums(self, kernel: Kernel, noise_variance: float, sample: Sample, rng: Generator, n_trend: int = 0) -> Sums:  # noqa: D102
        assert sample.rows is not None  # a model is made of some rows
        return NearestSums.over(self._plan(kernel, noise_variance, sample.rows, rng), sample.rows.take(slice(0)))

    def condition(  # noqa: D102
        self, kernel: Kernel, noise_variance: float, rows: Rows, combination: Floats, rng: Generator, n_trend: int = 0
    ) -> tuple[NearestSums, Posterior]:
        sums = NearestSums.over(self._plan(kernel, noise_variance, rows, rng), rows)
        return sums, sums.posterior(combination)


@dataclass(frozen=True)
class Nearest(OfNearRows):
    """The nearest rows of each row, which rows near each other share where that pays, unless `share` is False."""

    n_neighbors: int = NEIGHBORS
    max_memory_gib: float | None = None
    device: str = "cpu"
    share: bool = True
    precision: Precision = "float64"

    def cost(self, n_rows: int, n_inputs: int, n_predict: int, kernel: Kernel) -> Cost:  # noqa: D102
        return of_nearest(self.n_neighbors, n_rows, n_inputs, n_predict, kernel, self.share)

    by_distances = "NearestNeighborsGPRegressor"

    def needs_sample(self, kernel: Kernel) -> bool:
        """Say whether a pass is needed before rows are kept: none is."""
        return False

    def _plan(self, kernel: Kernel, noise_variance: float, rows: Rows, rng: Generator) -> NearestPlan:
        settings = self.n_neighbors, self.max_memory_gib, self.share, self.device, self.precision
        return NearestPlan(kernel, Noise(noise_variance), *settings)


@dataclass(frozen=True)
class Residual(OfNearRows):
    """A map for the long part of the kernel, and the nearest rows for what it leaves out."""

    features: Any = None
    n_neighbors: int = 64
    block_size: int = 256
    max_memory_gib: float | None = None

    by_distances = "A model of residuals of near rows"

    def cost(self, n_rows: int, n_inputs: int, n_predict: int, kernel: Kernel) -> Cost:  # noqa: D102
        work = work_of(self._features, n_inputs)
        return of_residual(work, self.n_neighbors, self.block_size, n_rows, n_inputs, n_predict, kernel)

    @property
    def _features(self) -> Any:
        """The map, or the default one; not fitted."""
        return NystroemFeatures(LANDMARKS) if self.features is None else self.features

    def _plan(self, kernel: Kernel, noise_variance: float, rows: Rows, rng: Generator) -> ResidualPlan:
        sizes = self.n_neighbors, self.block_size, self.max_memory_gib
        return ResidualPlan.fitted(kernel, rows, Noise(noise_variance), self._features, rng, *sizes)
