"""Rows in blocks: the covariance of all rows, as a map sees it between blocks and as it is within them."""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from lmgp.data import Floats, Indices, Noise, Rows, as_tensor
from lmgp.features.base import KernelMap
from lmgp.kernels.base import Kernel
from lmgp.neighbours.forest import Forest, Part
from lmgp.neighbours.trees import blocks_of
from lmgp.utils.lazy import Tensor, no_grad, torch
from lmgp.utils.linalg import factorise, solve_lower, solve_upper
from lmgp.utils.memory import check_memory, chunks
from lmgp.utils.parallel import parallel_map, single_threaded


@dataclass(frozen=True, eq=False)
class BlockPlan:
    """What a map leaves out of the covariance of rows, and how many of them at most make a block.

    Attributes
    ----------
    kernel : Kernel
        With a metric.
    noise : Noise
    features : KernelMap
        Fitted.
    centre : ndarray of shape (d,)
        Of the map.
    size : int
        The most rows in a block.
    max_memory_gib : float or None
        For the features of all rows and the covariances within their blocks; the machine's memory if None.
    """

    kernel: Kernel
    noise: Noise
    features: KernelMap
    centre: Floats
    size: int
    max_memory_gib: float | None

    def mapped(self, X: Floats) -> Tensor:
        """Return the features of rows, shape (n, D)."""
        values = torch.empty((len(X), self.features.n_features_out_), dtype=torch.float64)
        for part in chunks(len(X), values.shape[1]):
            values[part] = self.features.evaluate(as_tensor(X[part] - self.centre))
        return values

    def check_memory(self, n: int) -> None:
        """Refuse more rows than there is memory for."""
        width = self.features.n_features_out_
        check_memory(
            8.0 * n * (width + min(self.size, n)),
            f"The {width:,} features of {n:,} rows, and the covariances within their blocks,",
            "Use fewer features, smaller blocks, or a higher max_memory_gib.",
            self.max_memory_gib,
        )


@dataclass(frozen=True, eq=False)
class Blocks(Part):
    """Rows with one search tree, in blocks of near rows, with what a map leaves out of their covariance.

    Attributes
    ----------
    plan : BlockPlan
    blocks : tuple of ndarray of int
        Each row that is there is in one block.
    """

    plan: BlockPlan
    blocks: tuple[Indices, ...]

    @cached_property
    def inputs(self) -> Tensor:
        """The rows, shape (n, d)."""
        return as_tensor(self.rows.X)

    @cached_property
    def targets(self) -> Tensor:
        """Their targets, shape (n, t)."""
        return as_tensor(self.rows.Y)

    @cached_property
    def noise(self) -> Tensor:
        """Their noise variances, shape (n,)."""
        return as_tensor(self.plan.noise.of_weighted_rows(self.rows))

    @cached_property
    def mapped(self) -> Tensor:
        """Their features Φ, shape (n, D)."""
        return self.plan.mapped(self.rows.X)

    @cached_property
    def factors(self) -> tuple[Tensor, ...]:
        """The Cholesky factors of B = K − ΦΦᵀ + Σ within each block."""
        return tuple(parallel_map(self._factor, self.blocks))

    @cached_property
    def products(self) -> Tensor:
        """The sums [Φ | Y]ᵀB⁻¹[Φ | Y] over blocks, shape (D + t, D + t)."""
        n_sums = max(1, min(len(self.blocks), torch.get_num_threads()))
        pairs = list(zip(self.blocks, self.factors, strict=True))
        first, *others = parallel_map(self._products, [pairs[i::n_sums] for i in range(n_sums)])
        return sum(others, first)

    @no_grad
    def _factor(self, block: Indices) -> Tensor:
        rows, columns, kernel = self.inputs[block], self.mapped[block], self.plan.kernel
        left_out = kernel.evaluate_at(rows, rows, kernel.values(None, rows.device))
        left_out.addmm_(columns, columns.T, alpha=-1.0)
        return factorise(left_out, self.noise[block])

    @no_grad
    def _products(self, pairs: Sequence[tuple[Indices, Tensor]]) -> Tensor:
        width = self.mapped.shape[1] + self.targets.shape[1]
        gram = torch.zeros((width, width), dtype=torch.float64)
        for block, factor in pairs:
            whitened = solve_lower(factor, torch.cat((self.mapped[block], self.targets[block]), dim=1))
            gram.addmm_(whitened.T, whitened)
        return gram

    def without(self, kernel: Kernel, index: Indices) -> Self:
        """Return the rows without some: of the blocks that these were in, new sums take the place of the old ones."""
        if not len(index):
            return self
        gone, stays = super().without(kernel, index), np.ones(len(self.rows), dtype=np.bool_)
        stays[index] = False
        pairs = list(zip(self.blocks, self.factors, strict=True))
        kept, old = ([pair for pair in pairs if stays[pair[0]].all() == whole] for whole in (True, False))
        new = [(rest, self._factor(rest)) for rest in (block[stays[block]] for block, _ in old) if len(rest)]
        products, of_all = self.products - self._products(old) + self._products(new), [*kept, *new]
        vars(gone).update(
            blocks=tuple(block for block, _ in of_all), factors=tuple(factor for _, factor in of_all),
            products=products, mapped=self.mapped,
        )  # fmt: skip
        return gone

    def __getstate__(self) -> dict[str, Any]:
        # Without what is n × D and n × the rows of a block: it is made again where it is needed.
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"products": self.products}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)


@dataclass(frozen=True, eq=False)
class BlockForest(Forest):
    """Rows in search trees, and in blocks: rows that were planted together share blocks.

    Attributes
    ----------
    parts : tuple of Blocks
    plan : BlockPlan
    """

    parts: tuple[Blocks, ...]
    plan: BlockPlan

    def _plant(self, rows: Rows) -> Blocks:
        plan, part = self.plan, Part.of(self.plan.kernel, rows)
        blocks = blocks_of(part.points(plan.kernel, slice(None)), plan.size)
        return Blocks(**{attr.name: getattr(part, attr.name) for attr in fields(part)}, plan=plan, blocks=tuple(blocks))

    def _without_gone(self, part: Any) -> Blocks:
        numbers = np.cumsum(part.there) - 1
        planted = replace(self._plant(part.remaining), blocks=tuple(numbers[block] for block in part.blocks))
        vars(planted)["products"] = part.products  # of the same blocks
        return planted

    def gathered(self, name: str, places: Indices) -> Tensor:
        """Return what an attribute of the parts has of the rows at some places, of the shape of these and more axes."""
        values: list[Tensor] = [getattr(part, name) for part in self.parts]
        if len(values) == 1:
            return values[0][torch.from_numpy(places)]
        flat, axes = places.ravel(), values[0].shape[1:]
        at_places = torch.empty((len(flat), *axes), dtype=torch.float64)
        for of_part, (_, start, mine) in zip(values, self._by_part(flat), strict=True):
            at_places[torch.from_numpy(mine)] = of_part[torch.from_numpy(flat[mine] - start)]
        return at_places.reshape(*places.shape, *axes)


class BlockCovariance:
    """C = ΦΦᵀ + B: the covariance of rows as a map sees it, and, within blocks, what the map leaves out, and the noise.

    With B = diag over blocks of K − ΦΦᵀ + Σ, C is the covariance of the partially independent conditional (PIC), and
    C⁻¹ = B⁻¹ − B⁻¹Φ A⁻¹ ΦᵀB⁻¹ with A = I + ΦᵀB⁻¹Φ. Vectors have a number for each place of the forest; those of rows
    that are gone count for nothing.

    Parameters
    ----------
    forest : BlockForest
    factor : Tensor of shape (D, D)
        The Cholesky factor of A.

    References
    ----------
    E. Snelson and Z. Ghahramani, *Local and Global Sparse Gaussian Process Approximations*, AISTATS 2007.
    """

    def __init__(self, forest: BlockForest, factor: Tensor) -> None:
        self.factor = factor
        self._mapped = [part.mapped for part in forest.parts]
        ends = np.cumsum([len(mapped) for mapped in self._mapped])
        self._slices = [slice(end - len(mapped), end) for end, mapped in zip(ends.tolist(), self._mapped, strict=True)]
        # The number of its part, its places, and its factor.
        self._blocks = [
            (number, torch.from_numpy(block + places.start), of_block)
            for number, (places, part) in enumerate(zip(self._slices, forest.parts, strict=True))
            for block, of_block in zip(part.blocks, part.factors, strict=True)
        ]

    def solve(self, V: Tensor) -> Tensor:
        """Return C⁻¹V, for V of shape (n, t)."""
        within = self._within_blocks(V)
        seen = [mapped.T @ within[places] for mapped, places in zip(self._mapped, self._slices, strict=True)]
        weights = solve_few(self.factor, sum(seen[1:], seen[0]))  # of the columns: ΦᵀC⁻¹V = A⁻¹ΦᵀB⁻¹V
        return self._within_blocks(V - torch.cat([mapped @ weights for mapped in self._mapped]))

    @property
    def log_determinant(self) -> float:
        """Log det C."""
        halves = [float(factor.diagonal().log().sum()) for factor in (self.factor, *(item[2] for item in self._blocks))]
        return 2.0 * sum(halves)

    def of_rows(self, places: Indices, take: Callable[[Indices, Tensor, Tensor], None]) -> None:
        """Give a function, for each block, those of its rows that are wanted, their diagonal of C⁻¹, and their ΦᵀC⁻¹.

        Parameters
        ----------
        places : ndarray of int
            Of the rows that are wanted.
        take : callable
            Takes the places of the wanted rows of a block, shape (m,), their diagonal, (m,), and columns of shape
            (D, m): of several blocks at a time.
        """
        wanted = torch.zeros(self._slices[-1].stop, dtype=torch.bool)
        wanted[torch.from_numpy(places)] = True

        @no_grad
        def of_block(item: tuple[int, Tensor, Tensor]) -> None:
            number, block, factor = item
            some = wanted[block]
            inverse = solve_with(factor, torch.eye(len(block), dtype=torch.float64)[:, some])
            seen = self._mapped[number][block - self._slices[number].start].T @ inverse
            pulls = solve_with(self.factor, seen)
            take(block[some].numpy(), inverse[some].diagonal() - (seen * pulls).sum(dim=0), pulls)

        parallel_map(of_block, [item for item in self._blocks if wanted[item[1]].any()])

    def _within_blocks(self, V: Tensor) -> Tensor:
        """Return B⁻¹V."""
        solved = torch.zeros_like(V)

        @no_grad
        def solve(item: tuple[int, Tensor, Tensor]) -> None:
            _, block, factor = item
            solved[block] = solve_with(factor, V[block])

        parallel_map(solve, self._blocks)
        return solved

    def to(self, device: "torch.device") -> Self:
        """Return this covariance with its matrices on a device."""
        moved = copy(self)
        moved.factor, moved._mapped = self.factor.to(device), [mapped.to(device) for mapped in self._mapped]
        moved._blocks = [(number, block, factor.to(device)) for number, block, factor in self._blocks]
        return moved


def solve_with(factor: Tensor, V: Tensor) -> Tensor:
    """Return (L Lᵀ)⁻¹V."""
    return solve_upper(factor.mT, solve_lower(factor, V))


def solve_few(factor: Tensor, V: Tensor) -> Tensor:
    """Return (L Lᵀ)⁻¹V of a few columns, for which threads would wait for each other longer than one takes."""
    with single_threaded():
        return solve_with(factor, V)
