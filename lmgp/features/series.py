"""Maps of the series of Gaussian kernels, and of sums of these."""

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammainc, gammainccinv
from sklearn.base import clone
from sklearn.utils.validation import check_array

from lmgp.data import Floats, as_tensor
from lmgp.errors import InputError
from lmgp.features.base import KernelMap, Work
from lmgp.kernels.base import Kernel
from lmgp.kernels.stationary import GaussianKernel
from lmgp.neighbours.placement import distinct_places
from lmgp.utils.lazy import Tensor, torch


class SeriesMap(KernelMap):
    """A map of the Maclaurin series of exp(xᵀz), for a Gaussian kernel; for a sum of them, their columns side by side.

    Each component gets an equal share of `n_features`. Products and multiples of Gaussian kernels are Gaussian.

    Of a series that is cut after ``degree_``, ‖φ(x)‖² = variance · Q(degree + 1, r²) in expectation, where r is the
    row's distance to the origin in lengthscales and Q the regularised upper incomplete gamma function: 1 near the
    origin, 0 beyond r² ≈ degree.

    Subclasses implement `_draw_one`, `_names_one` and `_evaluate_one` for one Gaussian, ``component_``.

    Attributes
    ----------
    degree_ : int
        The degree of a truncated series.
    """

    needs = "gaussian_components"
    parts_: "tuple[SeriesMap, ...]"
    component_: GaussianKernel
    degree_: int

    @property
    def parts(self) -> "tuple[SeriesMap, ...]":
        """The fitted maps whose columns stand side by side: one a component of the kernel; this map itself of one."""
        return vars(self).get("parts_", (self,))

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
        around = None if centroids is None else check_array(centroids, dtype=np.float64)
        return self._fit_by(X, partial(self.draw, centroids=around))

    def fit_around(self, X: Floats, centroids: Floats) -> Self:  # noqa: D102
        origin = centroids[0] if len(centroids) == 1 else distinct_places(X)[0].mean(axis=0)
        return self._fit_by(X - origin, partial(self.draw, centroids=centroids - origin), checked=True)

    def draw(self, X: Floats, rng: np.random.Generator, centroids: Floats | None = None) -> None:  # noqa: D102
        components = self.kernel_.gaussian_components()
        if len(components) == 1:
            self.component_ = components[0]
            self._draw_one(X, rng, centroids)
            return
        share = self.n_features // len(components) if getattr(self, "degree", None) is None else self.n_features
        if share == 0:
            raise InputError(
                f"{type(self).__name__} makes columns for each of the {len(components)} Gaussian components of the "
                f"kernel: n_features must be at least {len(components)}; got {self.n_features}."
            )
        parts = []
        for component in components:
            seed = int(rng.integers(2**31))
            part = clone(self).set_params(n_features=share, kernel=component, random_state=seed)
            draw = partial(SeriesMap.draw, part, centroids=centroids)
            parts.append(part._fit_by(X, draw, checked=True))
        self.parts_ = tuple(parts)
        self.n_features_out_ = sum(part.n_features_out_ for part in parts)
        if hasattr(parts[0], "degree_"):
            self.degree_ = max(part.degree_ for part in parts)

    def work(self, n_inputs: int) -> Work:
        """Return what this map will cost: the same for each component of the kernel."""
        kernel = self.kernel
        if kernel is None or not kernel.can("gaussian_components"):
            return self._work_one(self.n_features, n_inputs)
        components = kernel.checked(n_inputs).gaussian_components()
        work = self._work_one(self.n_features // max(1, len(components)), n_inputs)
        # Moments of one component are no moments of another.
        stretch = max((_stretch(kernel, component, n_inputs) for component in components), default=1.0)
        return work._replace(
            columns=max(1, len(components)) * work.columns,
            moments=work.moments if len(components) == 1 else None,
            stretch=stretch,
        )

    def evaluate(self, X: Tensor) -> Tensor:  # noqa: D102
        blocks = [part._evaluate_one(X) for part in self.parts]
        return blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=1)

    def missing_variance(self, X: Tensor, features: Tensor | None = None) -> Tensor | None:  # noqa: D102
        if not hasattr(self.parts[0], "degree_"):
            return None
        if len(self.parts) == 1:
            return self._missing_one(X, features)
        sizes = [part.n_features_out_ for part in self.parts]
        blocks = [None] * len(sizes) if features is None else features.split(sizes, dim=1)
        missing = [part._missing_one(X, block) for part, block in zip(self.parts, blocks, strict=True)]
        return torch.stack(missing).sum(dim=0)

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        if len(self.parts) == 1:
            return self._names_one()
        return [f"part{i}__{name}" for i, part in enumerate(self.parts) for name in part._names_one()]

    def reach(self, epsilon: float) -> float:  # noqa: D102
        if not hasattr(self.parts[0], "degree_"):
            return float("inf")
        return max(
            float(np.sqrt(gammainccinv(part.degree_ + 1, epsilon)))
            * _stretch(self.kernel_, part.component_, self.n_features_in_)
            for part in self.parts
        )

    def in_lengthscales(self, X: Tensor) -> Tensor:
        """Divide rows by the lengthscale of the one component."""
        return X / as_tensor(np.asarray(self.component_.lengthscale, dtype=np.float64))

    def missing(self, squares: Tensor) -> Tensor:
        """Return σ²(1 − Q(degree + 1, r²)), what all terms above the degree add at rows with these r²; shape (n,)."""
        # scipy's: torch's own is wrong in the tenth digit for some degrees.
        return self.component_.variance * as_tensor(np.asarray(gammainc(self.degree_ + 1, squares.numpy())))

    def _work_one(self, n_features: int, n_inputs: int) -> Work:
        """Return what the map of one Gaussian kernel with a number of columns costs."""
        return Work(n_features)

    @abstractmethod
    def _draw_one(self, X: Floats, rng: np.random.Generator, centroids: Floats | None) -> None:
        """Draw the map of one Gaussian for rows X, used around centroids."""

    @abstractmethod
    def _names_one(self) -> list[str]:
        """Name the columns of one Gaussian."""

    @abstractmethod
    def _evaluate_one(self, X: Tensor) -> Tensor:
        """Map rows, for one Gaussian."""

    def _missing_one(self, X: Tensor, features: Tensor | None) -> Tensor:
        """Return the variance that the map of one Gaussian leaves out."""
        return self.missing(self.in_lengthscales(X).square().sum(dim=1))


def _stretch(kernel: Kernel, component: GaussianKernel, n_inputs: int) -> float:
    """Return the largest ratio of a distance in a kernel's metric to that in the lengthscales of a component."""
    return float(np.max(component.metric(n_inputs) / kernel.metric(n_inputs)))


def vanishing(squares: Tensor, degree: int) -> Tensor:
    """Return a mask of the rows with Q(degree + 1, r²) < 1e-280, which a Maclaurin map up to a degree maps to zeros.

    Their features must be exact zeros: subnormal numbers make matrix products tens of times slower.
    """
    return squares > float(gammainccinv(degree + 1, 1e-280))
