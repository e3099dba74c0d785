"""The posterior of nearest rows: each row is predicted from the training rows nearest to it."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from lmgp.data import Floats, Indices, Noise, Rows, as_tensor
from lmgp.errors import NoEstimateError
from lmgp.kernels.base import Kernel, require
from lmgp.neighbours.cells import MOST, Cell, Cells, sharing_pays
from lmgp.neighbours.forest import Forest
from lmgp.neighbours.trees import tree_points
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.exact import max_rows_within
from lmgp.posteriors.products import ROUNDING
from lmgp.utils.arithmetic import ACCELERATOR_BYTES, Arithmetic, Precision
from lmgp.utils.fitted import digest
from lmgp.utils.lazy import no_grad, torch
from lmgp.utils.linalg import factorise, solve_lower, solve_upper
from lmgp.utils.memory import check_memory, chunks
from lmgp.utils.parallel import parallel_map

# In noise standard deviations: what rounding to single precision may change means by.
SINGLE = 1e-3
# Bytes of the covariances that are factorised at a time: few enough to stay in a processor's cache.
BATCH_BYTES = 4 * 2**20


class NearestPosterior(Posterior):
    """The nearest-neighbour Gaussian process: each row is predicted from the training rows nearest to it.

    "Near" is measured in the kernel's metric, so that a column counts by its lengthscale. A prediction is the exact
    Gaussian process given the rows that make it.

    Parameters
    ----------
    kernel : Kernel
        With a metric.
    rows : Rows or Forest
        With centred targets.
    noise : Noise
    n_neighbors : int
        k, the least number of rows that make a prediction; of fewer training rows, all.
    max_memory_gib : float, optional
        For the matrices of one prediction, in GiB; the machine's memory if not given.
    share : bool, default=True
        Whether rows that are near to each other share the rows around them where that pays, see the notes. Without,
        every prediction is made from its k nearest rows: quicker for rows that are sparse beside the training rows.
    device : str, default="cpu"
        Where batches of matrices are factorised, as torch names it. An accelerator gets large batches, and rows share
        none.
    precision : {"float64", "float32"}, default="float64"
        "float32": on the CPU, systems of 100 rows and more are solved in single precision where the root mean square
        of what that changes means by is below a thousandth of the noise's standard deviation.
    combination : ndarray of shape (s, t), optional
        What makes the targets of those of the rows; these are the targets if not given.

    Attributes
    ----------
    n_neighbors : int
        At most the number of training rows.

    Raises
    ------
    InputError
        If the kernel has no metric.
    MemoryLimitError
        If the matrices of one prediction take more.

    Notes
    -----
    With few columns, space is parted into cubes, `lmgp.neighbours.cells.Cells`. The rows in one are predicted from all
    training rows around it, about twice k, by one factorisation. A row is predicted from its k nearest rows by
    themselves where its cube has too many rows around it for that to pay, or for the memory, and where one of the k may
    be missing there.

    Either way a prediction is made from at least the k nearest rows, and which rows these are depends on the training
    rows and the row itself alone: beside whichever rows it is predicted, it is the same but for rounding.

    References
    ----------
    A. V. Vecchia, *Estimation and Model Identification for Continuous Spatial Processes*, JRSS B 50, 1988.
    """

    # The rows nearest to each training row, where they are remembered.
    _near: Indices | None = None

    def __init__(
        self,
        kernel: Kernel,
        rows: Rows | Forest,
        noise: Noise,
        n_neighbors: int,
        max_memory_gib: float | None = None,
        *,
        share: bool = True,
        device: str = "cpu",
        precision: Precision = "float64",
        combination: Floats | None = None,
    ) -> None:
        require(kernel, "metric", "A prediction from the nearest rows")
        self._forest = forest = rows if isinstance(rows, Forest) else Forest.of(kernel, rows, noise.variance)
        self._combination = np.eye(forest.none.n_targets) if combination is None else combination
        self.kernel, self.noise, self.n_rows = kernel, noise, len(forest)
        self.n_neighbors = min(n_neighbors, self.n_rows)
        check_memory(
            16.0 * self.n_neighbors**2,
            f"The two matrices of a prediction from {self.n_neighbors:,} rows",
            "Use a smaller n_neighbors, or a higher max_memory_gib.",
            max_memory_gib,
        )
        kernel.checked(forest.none.X.shape[1])
        self._arithmetic = Arithmetic(device, precision)
        share = share and not self._arithmetic.accelerated
        roomy = max_memory_gib is None or max_rows_within(max_memory_gib) >= MOST * self.n_neighbors
        shared = share and roomy and sharing_pays(kernel.points(forest.none.X).shape[1], self.n_neighbors)
        self._cells = Cells(forest, self.n_neighbors) if shared else None

    @property
    def rows(self) -> Rows:
        """The training rows, in the order in which they came."""
        return self._with_targets(self._forest.rows)

    def _with_targets(self, rows: Rows) -> Rows:
        """Return rows of the forest with the targets of this posterior."""
        return rows.with_targets(rows.Y @ self._combination)

    @property
    def _n_targets(self) -> int:
        return self._combination.shape[1]

    def with_neighbors(self, number: int) -> Self:
        """Return a posterior of the same rows that predicts each row from another number of its own nearest ones."""
        return self._changed(n_neighbors=min(number, self.n_rows), _cells=None, _near=None)

    def without(self, taken: NDArray[np.bool_]) -> Self:
        """Return a posterior that predicts from the other rows alone, each row from its own nearest ones."""
        forest = self._forest.left_out(taken)
        return self._changed(_forest=forest, n_rows=len(forest)).with_neighbors(self.n_neighbors)

    def with_weights(self, weights: Floats, noise: Noise) -> Self:
        """Return the posterior of the same rows, planted together, with other weights and another noise.

        The rows nearest to each are remembered, so that leaving out each row takes one search for all weights.
        """
        near, places = self._near, self._forest.places
        if near is None:
            parts = list(chunks(len(places), self.n_neighbors, BATCH_BYTES))
            near = np.concatenate(parallel_map(lambda part: self._forest.others(places[part], self.n_neighbors), parts))
        return self._changed(_forest=self._forest.with_weights(weights), noise=noise, _near=near)

    def combined(self, combination: Floats) -> Self:  # noqa: D102
        return self._changed(_combination=self._combination @ combination)

    def leave_one_out(self, index: Indices | None = None) -> tuple[Floats, Floats]:
        """Predict training rows from the rows nearest to each without itself: each has its own."""
        places = self._forest.places if index is None else self._forest.places[index]
        X = self._forest.take(places).X
        means, variances = np.empty((len(X), self._n_targets)), self.prior_variance(X)
        of_rows, remembered = self._predictor(), self._near if index is None else None

        def solve(part: slice) -> None:
            near = self._forest.others(places[part], self.n_neighbors) if remembered is None else remembered[part]
            means[part], reduction, _ = of_rows(near, X[part])
            variances[part] = np.maximum(variances[part] - reduction, 0.0)

        self._in_batches(solve, len(X))
        return means, variances

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:  # noqa: D102
        means, variances, _ = self._solve(X, variance)
        return means, variances if variance else None

    def surprise(self, X: Floats) -> Floats:  # noqa: D102
        return self._solve(X, False)[2]

    def _solve(self, X: Floats, variance: bool) -> tuple[Floats, Floats, Floats]:
        """Return the means and the surprise of the rows that make them, shape (m, t), and the variance, shape (m,)."""
        means, surprises = np.empty((2, len(X), self._n_targets))
        variances = np.empty(len(X))
        if not len(X):
            return means, variances, surprises
        points = tree_points(self.kernel, X)
        prior = self.kernel.evaluate_diagonal(X) if variance else np.zeros(len(X))
        of_rows = self._predictor(variance)
        cells, alone = ([], np.arange(len(X))) if self._cells is None else self._cells.group(points)

        def solve(sets: Indices, members: Indices) -> None:
            """Predict `members` from one set of rows, shape (n,), or each from its own, shape (n_members, n)."""
            means[members], reduction, surprises[members] = of_rows(sets, X[members])
            variances[members] = np.maximum(prior[members] - reduction, 0.0)

        def solve_cell(cell: Cell) -> Indices:
            """Predict the points of a cell; return those that its rows do not serve."""
            assert self._cells is not None  # there are no cells without
            rows, remaining = self._cells.rows_around(cell), []
            for part in chunks(len(cell.members), len(rows), BATCH_BYTES):
                members = cell.members[part]
                served = self._cells.serves(cell, points[members], rows)
                if served.any():
                    solve(rows, members[served])
                remaining.append(members[~served])
            return np.concatenate(remaining)

        def solve_alone(part: slice) -> None:
            solve(self._forest.query(points[alone[part]], self.n_neighbors)[1], alone[part])

        alone = np.concatenate((alone, *parallel_map(solve_cell, cells)))
        if len(alone) > 1:  # near points read the same rows, which the caches then have
            alone = alone[KDTree(points[alone], balanced_tree=False).indices]
        self._in_batches(solve_alone, len(alone))
        return means, variances, surprises

    def _in_batches(self, solve: Callable[[slice], None], n: int) -> None:
        """Predict n rows, each from rows of its own."""
        if not self._arithmetic.accelerated:
            parallel_map(solve, list(chunks(n, self.n_neighbors**2, BATCH_BYTES)))
            return
        for part in chunks(n, self.n_neighbors**2, ACCELERATOR_BYTES):
            solve(part)

    def _predictor(self, variance: bool = True) -> Callable[[Indices, Floats], tuple[Floats, Floats, Floats]]:
        """Return a function that predicts tests as `_of_rows`, where it pays by compiled loops."""
        from lmgp.posteriors.rowsystems import LARGE, MOST, RowSystems  # here, for it loads a compiler

        systems, none = None, self._with_targets(self._forest.none)
        by_torch = partial(self._of_rows, variance=variance)
        if not self._arithmetic.accelerated and self.n_neighbors <= MOST:
            systems = RowSystems.of(self.kernel, None, none.X, none.Y, np.empty(0))
        single = systems is not None and self._arithmetic.precision == "float32"
        rounding = ROUNDING * self.kernel.prior_variance() if single else math.inf

        def predict(near: Indices, tests: Floats) -> tuple[Floats, Floats, Floats]:
            if systems is None or near.shape[-1] > MOST:
                return by_torch(near, tests)
            rows = self._with_targets(self._forest.take(near.ravel()))
            noise = self.noise.of_weighted_rows(rows)
            enough = rounding * math.sqrt(near.shape[-1]) < SINGLE * float(noise.min(initial=math.inf))
            of_near, by_place = systems.over(rows.X, rows.Y, noise), np.arange(near.size).reshape(near.shape)
            *results, solved = of_near.predict(by_place, tests, variance, enough and near.shape[-1] >= LARGE)
            if not solved.all():  # which torch corrects, or refuses
                some = near if near.ndim == 1 else near[~solved]
                for into, corrected in zip(results, by_torch(some, tests[~solved]), strict=True):
                    into[~solved] = corrected
            return results[0], results[1], results[2]

        return predict

    @no_grad
    def _of_rows(self, near: Indices, tests: Floats, variance: bool = True) -> tuple[Floats, Floats, Floats]:
        """Predict tests of shape (m, d) from the same rows, of shape (n,), or each from its own, of shape (m, n).

        Returns
        -------
        means : ndarray of shape (number of tests, t)
        reduction : ndarray of shape (number of tests,)
            By how much the rows reduce the variance; 0 where it is not asked for.
        surprise : ndarray of shape (number of tests, t)
        """
        place, n, t = self._arithmetic.place, near.shape[-1], self._n_targets
        rows = self._with_targets(self._forest.take(near.ravel()))
        of_rows = map(as_tensor, (rows.X, self.noise.of_weighted_rows(rows), rows.Y))
        X, noise, given = (values.reshape(*near.shape, *values.shape[1:]).to(place) for values in of_rows)
        points = as_tensor(tests).to(place)
        # One evaluation for both: with few rows, what surrounds an operation takes as long as the operation.
        joint = self.kernel.evaluate(torch.cat((X, points if near.ndim == 1 else points[:, None]), dim=-2), X)
        factor = factorise(joint[..., :n, :], noise)
        if variance:
            solved = solve_lower(factor, torch.cat((given, joint[..., n:, :].mT), dim=-1))
            targets, columns = solved[..., :t], solved[..., t:]
            means, reduction = columns.mT @ targets, columns.square().sum(dim=-2)
        else:
            targets = solve_lower(factor, given)
            means = joint[..., n:, :] @ solve_upper(factor.mT, targets)
            reduction = torch.zeros(means.shape[:-1], dtype=means.dtype)
        surprise = targets.square().mean(dim=-2, keepdim=True).expand_as(means)
        flat = means.flatten(0, -2), reduction.flatten(), surprise.flatten(0, -2)
        return flat[0].cpu().numpy(), flat[1].cpu().numpy(), flat[2].cpu().numpy()

    def error(self, X: Floats) -> Floats:  # noqa: D102
        raise NoEstimateError(
            f"return_error cannot say what the rows beyond the nearest {self.n_neighbors} would change. Compare with "
            "ExactGPRegressor on some rows instead."
        )


def nearest_of(posterior: Posterior, kernel: Kernel, noise: Noise, n_neighbors: int) -> NearestPosterior:
    """Return the posterior of the nearest of another one's rows, by its search tree if it has one in this metric."""
    other = posterior.process
    if isinstance(other, NearestPosterior) and other._forest.is_one_tree and digest(other.kernel) == digest(kernel):
        return other.with_neighbors(n_neighbors)._changed(noise=noise)
    return NearestPosterior(kernel, posterior.rows, noise, n_neighbors, share=False)


@dataclass(frozen=True)
class NearestPlan:
    """How a posterior of nearest rows is made of a forest of them; see `lmgp.sums.kept.NearestSums`."""

    kernel: Kernel
    noise: Noise
    n_neighbors: int
    max_memory_gib: float | None
    share: bool = True
    device: str = "cpu"
    precision: Precision = "float64"

    # What models have in common that merge.
    merged: ClassVar[str] = "one number of nearest rows, and of one noise variance,"

    @property
    def name(self) -> tuple[Any, ...]:
        """What plans share whose sums add."""
        return self.n_neighbors, self.noise

    def forest(self, rows: Rows) -> Forest:
        """Return rows in one search tree."""
        return Forest.of(self.kernel, rows, self.noise.variance)

    def __call__(self, rows: Forest, combination: Floats) -> NearestPosterior:
        """Return the posterior of rows, with a combination of their targets."""
        return NearestPosterior(rows=rows, combination=combination, **vars(self))
