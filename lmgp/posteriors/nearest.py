"""The posterior of nearest rows: each row is predicted from the training rows nearest to it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from lmgp.data import Floats, Indices, Noise, Rows, as_tensor
from lmgp.errors import NoEstimateError
from lmgp.kernels.base import Kernel, require
from lmgp.neighbours.cells import MOST, Cell, Cells, sharing_pays
from lmgp.neighbours.trees import others, tree_of_rows, tree_points
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.exact import max_rows_within
from lmgp.utils.arithmetic import ACCELERATOR_BYTES, Arithmetic
from lmgp.utils.lazy import no_grad, torch
from lmgp.utils.linalg import factorise, solve_lower, solve_upper
from lmgp.utils.memory import check_memory, chunks
from lmgp.utils.parallel import parallel_map

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
    rows : Rows
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

    def __init__(
        self,
        kernel: Kernel,
        rows: Rows,
        noise: Noise,
        n_neighbors: int,
        max_memory_gib: float | None = None,
        *,
        share: bool = True,
        device: str = "cpu",
    ) -> None:
        require(kernel, "metric", "A prediction from the nearest rows")
        self.kernel, self.noise, self._rows, self.n_rows = kernel, noise, rows, len(rows)
        self.n_neighbors = min(n_neighbors, self.n_rows)
        check_memory(
            16.0 * self.n_neighbors**2,
            f"The two matrices of a prediction from {self.n_neighbors:,} rows",
            "Use a smaller n_neighbors, or a higher max_memory_gib.",
            max_memory_gib,
        )
        self._X = as_tensor(rows.X)
        self._noise_of_rows = noise.of_weighted_rows(rows)
        self._values = kernel.checked(rows.X.shape[1]).values(None, torch.device("cpu"))
        self._tree, self._arithmetic = tree_of_rows(kernel, rows.X), Arithmetic(device)
        share = share and not self._arithmetic.accelerated
        roomy = max_memory_gib is None or max_rows_within(max_memory_gib) >= MOST * self.n_neighbors
        shared = share and roomy and sharing_pays(self._tree.m, self.n_neighbors)
        self._cells = Cells(self._tree, self.n_neighbors) if shared else None

    def with_noise(self, noise: Noise) -> Self:
        """Return the posterior of the same rows with another noise."""
        return self._changed(noise=noise, _noise_of_rows=noise.of_weighted_rows(self._rows))

    def without(self, taken: NDArray[np.bool_]) -> Self:
        """Return a posterior that predicts from the other rows alone."""
        k = min(self.n_neighbors, int(np.count_nonzero(~taken)))
        if isinstance(self._tree, KDTree):
            return type(self)(self.kernel, self._rows.take(~taken), self.noise, k, share=False)
        return self._changed(_tree=self._tree.without(taken), n_neighbors=k)

    def combined(self, combination: Floats) -> Self:  # noqa: D102
        return super().combined(combination)  # targets are read from the rows

    def leave_one_out(self, index: Indices | None = None) -> tuple[Floats, Floats]:
        """Predict training rows from the rows nearest to each without itself: each has its own."""
        index = np.arange(self.n_rows) if index is None else index
        means, variances = np.empty((len(index), self._rows.n_targets)), self.prior_variance(self._rows.X[index])
        of_rows = self._alone()

        def solve(part: slice) -> None:
            rows = self._rows.X[index[part]]
            near = others(self._tree, tree_points(self.kernel, rows), index[part], self.n_neighbors)
            means[part], reduction, _ = of_rows(near, rows)
            variances[part] = np.maximum(variances[part] - reduction, 0.0)

        self._in_batches(solve, len(index))
        return means, variances

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:  # noqa: D102
        means, variances, _ = self._solve(X, variance)
        return means, variances if variance else None

    def surprise(self, X: Floats) -> Floats:  # noqa: D102
        return self._solve(X, False)[2]

    def _solve(self, X: Floats, variance: bool) -> tuple[Floats, Floats, Floats]:
        """Return the means and the surprise of the rows that make them, shape (m, t), and the variance, shape (m,)."""
        means, surprises = np.empty((2, len(X), self._rows.n_targets))
        variances = np.empty(len(X))
        if not len(X):
            return means, variances, surprises
        points = tree_points(self.kernel, X)
        prior = self.kernel.evaluate_diagonal(X) if variance else np.zeros(len(X))
        of_rows = self._alone(variance)
        cells, alone = ([], np.arange(len(X))) if self._cells is None else self._cells.group(points)

        def solve(sets: Indices, members: Indices) -> None:
            """Predict `members` from one set of rows, shape (n,), or each from its own, shape (n_members, n)."""
            found = of_rows(sets, X[members]) if sets.ndim > 1 else self._of_rows(sets, X[members], variance)
            means[members], reduction, surprises[members] = found
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
            k = np.arange(1, self.n_neighbors + 1)
            solve(self._tree.query(points[alone[part]], k=k)[1], alone[part])

        alone = np.concatenate((alone, *parallel_map(solve_cell, cells)))
        # Near points read the same rows, which the caches then have.
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

    def _alone(self, variance: bool = True) -> Callable[[Indices, Floats], tuple[Floats, Floats, Floats]]:
        """Return a function that predicts tests, each from rows of its own, as `_of_rows`."""
        from lmgp.posteriors.rowsystems import MOST, RowSystems  # here, for it loads a compiler

        systems = None
        if not self._arithmetic.accelerated and self.n_neighbors <= MOST:
            systems = RowSystems.of(self.kernel, None, self._rows.X, self._rows.Y, self._noise_of_rows.numpy())
        if systems is None:
            return partial(self._of_rows, variance=variance)

        def predict(near: Indices, tests: Floats) -> tuple[Floats, Floats, Floats]:
            *found, solved = systems.predict(near, tests)
            if not solved.all():  # which torch corrects, or refuses
                for into, corrected in zip(found, self._of_rows(near[~solved], tests[~solved]), strict=True):
                    into[~solved] = corrected
            return found[0], found[1], found[2]

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
        place, n, t = self._arithmetic.place, near.shape[-1], self._rows.n_targets
        X, noise, given = (values[near].to(place) for values in (self._X, self._noise_of_rows, as_tensor(self._rows.Y)))
        own = as_tensor(tests).to(place)
        values = {name: value.to(place) for name, value in self._values.items()}
        # One evaluation for both: with few rows, what surrounds an operation takes as long as the operation.
        joint = self.kernel.evaluate_at(torch.cat((X, own if near.ndim == 1 else own[:, None]), dim=-2), X, values)
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


@dataclass(frozen=True)
class NearestPlan:
    """How a posterior of nearest rows is made again of other rows; see `lmgp.sums.kept.RowSums`."""

    kernel: Kernel
    noise: Noise
    n_neighbors: int
    max_memory_gib: float | None

    @property
    def name(self) -> str:
        """A name that plans of as many neighbours share."""
        return f"the nearest {self.n_neighbors}"

    def __call__(self, rows: Rows, start: Posterior | None = None) -> NearestPosterior:
        """Return the posterior of rows."""
        return NearestPosterior(self.kernel, rows, self.noise, self.n_neighbors, self.max_memory_gib)
