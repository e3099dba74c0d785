"""Products with the covariance of all rows, block by block: kept where they fit into memory, and made again if not."""

from lmgp.kernels.base import Kernel
from lmgp.utils.lazy import Tensor, no_grad, torch
from lmgp.utils.parallel import parallel_map

# Rows of a block: on the CPU what is made of one stays in its cache; an accelerator wants larger ones.
ROWS, ACCELERATOR_ROWS = 1024, 4096

# Of single precision: the root mean square of a relative rounding error.
ROUNDING = 2.0**-25

# Rows whose covariances say how large rounding errors are.
SAMPLE = 64


class KernelProducts:
    """The function V ↦ (K + Σ) V, for the covariance K of n rows and the variances Σ of their noise.

    Parameters
    ----------
    kernel : Kernel
    X : Tensor of shape (n, d)
        On the device where the products are to run.
    noise : Tensor of shape (n,)
    single : bool
        Whether covariances are rounded to single precision; sums of them over blocks are in double precision.
    max_bytes : float
        Memory for the lower triangle of K. If it takes more, its blocks are made again for each product.

    Attributes
    ----------
    kept : bool
        Whether the blocks are in memory.
    """

    def __init__(self, kernel: Kernel, X: Tensor, noise: Tensor, *, single: bool, max_bytes: float) -> None:
        self._kernel, self._X, self._noise = kernel, X, noise[:, None]
        self._values = kernel.values(None, X.device)
        self._precision = torch.float32 if single else torch.float64
        n, size = len(X), ROWS if X.device.type == "cpu" else ACCELERATOR_ROWS
        spans = [slice(start, min(start + size, n)) for start in range(0, n, size)]
        self._pairs = [(i, j) for index, i in enumerate(spans) for j in spans[: index + 1]]
        self.kept = self.n_bytes(n, single) <= max_bytes
        self._blocks = parallel_map(self._block, self._pairs) if self.kept else None

    @staticmethod
    def n_bytes(n: int, single: bool) -> float:
        """Return the memory of the lower triangle, in bytes."""
        return (4.0 if single else 8.0) * 0.5 * n * (n + ROWS)

    @no_grad
    def _block(self, pair: tuple[slice, slice]) -> Tensor:
        i, j = pair
        return self._kernel.evaluate_at(self._X[i], self._X[j], self._values).to(self._precision)

    def __call__(self, V: Tensor) -> Tensor:
        """Return (K + Σ) V, for V of shape (n, t) in double precision."""
        n_sums = max(1, min(len(self._pairs), torch.get_num_threads()))
        rounded = V.to(self._precision)

        @no_grad
        def part(first: int) -> Tensor:
            product = torch.zeros_like(V)
            for index in range(first, len(self._pairs), n_sums):
                i, j = self._pairs[index]
                block = self._block((i, j)) if self._blocks is None else self._blocks[index]
                product[i] += block @ rounded[j]
                if i != j:
                    product[j] += block.T @ rounded[i]
            return product

        # In a fixed order, so that the result is always the same.
        return sum(parallel_map(part, range(n_sums)), self._noise * V)


def single_is_enough(kernel: Kernel, X: Tensor, least_noise: float, tolerance: float) -> bool:
    """Say whether rounding covariances to single precision changes means by less than a tolerance.

    Rounding errors are as good as independent: they change the mean at a row x by `ROUNDING` · ‖k(x, X)‖ times the root
    mean square of the weights (K + Σ)⁻¹y, which is 1/σₙ at most.

    Parameters
    ----------
    kernel : Kernel
    X : Tensor of shape (n, d)
        In no order that matters: the norm is that of `SAMPLE` rows, equally spaced.
    least_noise : float
        σₙ², the smallest of any row.
    tolerance : float
        In noise standard deviations.
    """
    sample = X[:: max(1, len(X) // SAMPLE)]
    norm = kernel.evaluate(sample, X).square().sum(dim=1).mean().sqrt()
    return ROUNDING * float(norm) < tolerance * least_noise
