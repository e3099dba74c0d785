"""Maps of Gaussian kernels and of their sums, and maps of a truncated series."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc, gammainccinv
from sklearn.base import clone
from sklearn.utils.validation import check_array

from lmgp.errors import InputError
from lmgp.features.base import KernelFit, KernelMap, Work
from lmgp.fitted import OfFit, unchanged_on_failure
from lmgp.kernels.base import Kernel
from lmgp.kernels.stationary import GaussianKernel
from lmgp.locality.places import distinct_places
from lmgp.validation import as_tensor

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class GaussianFit(KernelFit):
    """What a map of one Gaussian kernel learns in `fit`.

    Attributes
    ----------
    component : GaussianKernel
        The kernel, as a Gaussian.
    """

    component: GaussianKernel

    def scale(self, X: torch.Tensor) -> torch.Tensor:
        """Divide rows by the lengthscale."""
        return X / as_tensor(np.asarray(self.component.lengthscale, dtype=np.float64))


@dataclass(frozen=True, eq=False, kw_only=True)
class TruncatedFit(GaussianFit):
    """What a map of a truncated series learns in `fit`.

    Attributes
    ----------
    degree : int
    """

    degree: int

    def missing(self, squares: torch.Tensor) -> torch.Tensor:
        """Return σ²(1 − Q(degree + 1, r²)), what all terms above the degree add at rows with these r²; shape (n,)."""
        # scipy's: torch's own is wrong in the tenth digit for some degrees.
        return self.component.variance * as_tensor(np.asarray(gammainc(self.degree + 1, squares.numpy())))


@dataclass(frozen=True, eq=False, kw_only=True)
class ComponentsFit(KernelFit):
    """What a map of a sum of Gaussian kernels learns in `fit`.

    Attributes
    ----------
    parts : tuple of ComponentMap
        One fitted map for each component of the kernel, in the order of the columns.
    """

    parts: "tuple[Any, ...]"

    @property
    def degree(self) -> int:
        """The highest degree of a part."""
        return max(part.degree_ for part in self.parts)


class ComponentMap(KernelMap):
    """A map of a Gaussian kernel; for a sum of them, the columns of each component side by side.

    Each component gets an equal share of `n_features`. Products and multiples of Gaussian kernels are Gaussian.

    Subclasses implement `_draw_one` and `_evaluate` for one Gaussian, and may override `_missing` and `_reach`.
    """

    needs = "gaussian_components"

    @property
    def parts(self) -> "tuple[ComponentMap, ...]":
        """The fitted maps whose columns stand side by side: one a component of the kernel; this map itself of one."""
        return self._fitted.parts if isinstance(self._fitted, ComponentsFit) else (self,)

    def draw(  # noqa: D102
        self, X: Floats, rng: np.random.Generator, centroids: Floats | None = None
    ) -> KernelFit:
        kernel = self._prepare(X)
        components = kernel.gaussian_components()
        if len(components) > 1:
            return self._side_by_side(X, rng, kernel, components, centroids)
        fit = self._draw_one(X, rng, components[0], centroids)
        return fit if kernel is components[0] else replace(fit, kernel=kernel)

    def _side_by_side(
        self,
        X: Floats,
        rng: np.random.Generator,
        kernel: Kernel,
        components: tuple[GaussianKernel, ...],
        centroids: Floats | None,
    ) -> ComponentsFit:
        share = self.n_features // len(components)
        if share == 0:
            raise InputError(
                f"{type(self).__name__} makes columns for each of the {len(components)} Gaussian components of the "
                f"kernel: n_features must be at least {len(components)}; got {self.n_features}."
            )
        parts = []
        for component in components:
            seed = int(rng.integers(2**31))
            part = clone(self).set_params(n_features=share, kernel=component, random_state=seed)
            rows, drawing = part._start(X)
            part._fitted = part._draw_one(rows, drawing, component, centroids)
            parts.append(part)
        n_features_out = sum(part.n_features_out_ for part in parts)
        return ComponentsFit(n_features_out=n_features_out, kernel=kernel, parts=tuple(parts))

    def work(self, n_inputs: int) -> Work:
        """Return what this map will cost: the same for each component of the kernel."""
        kernel = self.kernel
        if kernel is None or not kernel.can("gaussian_components"):
            return self._work_one(self.n_features, n_inputs)
        components = kernel.checked(n_inputs).gaussian_components()
        one = self._work_one(self.n_features // max(1, len(components)), n_inputs)
        # Moments of one component are no moments of another.
        stretch = max((_stretch(kernel, component, n_inputs) for component in components), default=1.0)
        return one._replace(
            columns=max(1, len(components)) * one.columns,
            moments=one.moments if len(components) == 1 else None,
            stretch=stretch,
        )

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:  # noqa: D102
        if len(self.parts) == 1:
            return self._evaluate(self._fitted, X)
        return torch.cat([part.evaluate(X) for part in self.parts], dim=1)

    def missing_variance(self, X: torch.Tensor, features: torch.Tensor | None = None) -> torch.Tensor | None:  # noqa: D102
        if len(self.parts) == 1:
            return self._missing(self._fitted, X, features)
        sizes = [part.n_features_out_ for part in self.parts]
        columns = [None] * len(sizes) if features is None else list(features.split(sizes, dim=1))
        each = [part.missing_variance(X, own) for part, own in zip(self.parts, columns, strict=True)]
        left_out = [one for one in each if one is not None]
        return torch.stack(left_out).sum(dim=0) if left_out else None

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        if len(self.parts) == 1:
            return self._names_one(self._fitted)
        return [f"part{i}__{name}" for i, part in enumerate(self.parts) for name in part.column_names(names)]

    def reach(self, epsilon: float) -> float:  # noqa: D102
        fits = [part._fitted for part in self.parts]
        return max(
            self._reach(fit, epsilon) * _stretch(self.kernel_, fit.component, self.n_features_in_) for fit in fits
        )

    def draw_for(self, X: Floats, rng: np.random.Generator, kernel: Any) -> KernelFit:  # noqa: D102
        return self.draw(X, rng)

    def _work_one(self, n_features: int, n_inputs: int) -> Work:
        """Return what the map of one Gaussian kernel with a number of columns costs."""
        return Work(n_features)

    @abstractmethod
    def _draw_one(
        self, X: Floats, rng: np.random.Generator, kernel: GaussianKernel, centroids: Floats | None
    ) -> GaussianFit:
        """Draw the map of a checked Gaussian kernel for rows X, used around centroids."""

    @abstractmethod
    def _names_one(self, fit: Any) -> list[str]:
        """Name the columns of one Gaussian."""

    @abstractmethod
    def _evaluate(self, fit: Any, X: torch.Tensor) -> torch.Tensor:
        """Map rows, for one Gaussian."""

    def _missing(self, fit: Any, X: torch.Tensor, features: torch.Tensor | None) -> torch.Tensor | None:
        return None

    def _reach(self, fit: Any, epsilon: float) -> float:
        """Return the reach for one Gaussian, in its own lengthscales."""
        return float("inf")


def _stretch(kernel: Kernel, component: GaussianKernel, n_inputs: int) -> float:
    """Return the largest ratio of a distance in a kernel's metric to that in the lengthscales of a component."""
    return float(np.max(component.metric(n_inputs) / kernel.metric(n_inputs)))


def vanishing(squares: torch.Tensor, degree: int) -> torch.Tensor:
    """Return a mask of the rows with Q(degree + 1, r²) < 1e-280, which a Maclaurin map up to a degree maps to zeros.

    Their features must be exact zeros: subnormal numbers make matrix products tens of times slower.
    """
    return squares > float(gammainccinv(degree + 1, 1e-280))


class TruncatedMap(ComponentMap):
    """A map of the Maclaurin series of exp(xᵀz), cut after ``degree_``.

    In expectation ‖φ(x)‖² = variance · Q(degree + 1, r²), where r is the row's distance to the origin in lengthscales
    and Q the regularised upper incomplete gamma function: 1 near the origin, 0 beyond r² ≈ degree.

    Attributes
    ----------
    degree_ : int
        The degree of the truncated series.
    """

    degree_ = OfFit[int]()

    def fit(self, X: ArrayLike, y: object = None, centroids: ArrayLike | None = None) -> Self:
        """Choose the columns for rows like these, and draw what is random.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows as differences to the centre of the map, or to the mean of their places where there are several
            centres.
        y : ignored
        centroids : array-like of shape (n_centroids, d), optional
            The centres around which a model uses the map, in the coordinates of X; the origin if not given. A map that
            chooses its columns by the rows looks at those within reach of a centre.

        Raises
        ------
        InputError
            If the map cannot make as few columns as `n_features`, or the kernel does not fit the rows.
        MemoryLimitError
            If the map would not fit into the machine's memory.
        """
        with unchanged_on_failure(self):
            rows, rng = self._start(X)
            around = None if centroids is None else check_array(centroids, dtype=np.float64)
            self._fitted = self.draw(rows, rng, around)
        return self

    def fit_around(self, X: Floats, centroids: Floats) -> Self:  # noqa: D102
        origin = centroids[0] if len(centroids) == 1 else distinct_places(X)[0].mean(axis=0)
        return self.fit(X - origin, centroids=centroids - origin)

    def missing_variance(self, X: torch.Tensor, features: torch.Tensor | None = None) -> torch.Tensor:  # noqa: D102
        missing = super().missing_variance(X, features)
        assert missing is not None  # `_missing` never is
        return missing

    def _missing(self, fit: Any, X: torch.Tensor, features: torch.Tensor | None) -> torch.Tensor:
        return fit.missing(fit.scale(X).square().sum(dim=1))

    def _reach(self, fit: Any, epsilon: float) -> float:
        return float(np.sqrt(gammainccinv(fit.degree + 1, epsilon)))
