"""All Fourier modes one by one, and arrays over them, for tests of sums over modes."""

import numpy as np

from lmgp.kernels.base import Kernel
from lmgp.posteriors.modes import Modes


def every_mode(counts: np.ndarray) -> np.ndarray:
    """All modes j from −m to m, shape (Π(2m + 1), d)."""
    grid = np.meshgrid(*(np.arange(-m, m + 1) for m in counts), indexing="ij")
    return np.stack([axis.ravel() for axis in grid], axis=1)


def mirrored(half: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The values of all modes, of arrays that hold 0 to m along the last column; shape (b, Π(2m + 1))."""
    modes = every_mode(counts)
    kept = modes[:, -1] >= 0
    # Python's negative indices are the order of the arrays.
    values = half[(slice(None), *np.where(kept[:, None], modes, -modes).T)]
    return np.where(kept, values, values.conj())


def halved(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The arrays that hold 0 to m along the last column, of the values of all modes; the other way round."""
    half = np.empty((len(values), *(2 * m + 1 for m in counts[:-1]), counts[-1] + 1), dtype=np.complex128)
    modes = every_mode(counts)
    kept = modes[:, -1] >= 0
    half[(slice(None), *modes[kept].T)] = values[:, kept]
    return half


def waves(modes: Modes, X: np.ndarray) -> np.ndarray:
    """The modes e^{2πi h∘j·(x − center)} at each row, shape (n, Π(2m + 1))."""
    center = 0.5 * (modes.low + modes.high)
    return np.exp(2j * np.pi * (X - center) @ (every_mode(modes.counts) * modes.spacing).T)


def approximated(modes: Modes, kernel: Kernel, lags: np.ndarray) -> np.ndarray:
    """The kernel that the modes make, Σⱼ weightⱼ cos(2π h∘j·lag), from its spectral density; shape (m,)."""
    density = kernel.spectral_density(every_mode(modes.counts) * modes.spacing) * np.prod(modes.spacing)
    left = density.reshape([2 * int(m) + 1 for m in modes.counts])[..., None]
    # The modes are symmetric in each column: what is summed of the last is real.
    for m, h, lag in zip(modes.counts[::-1], modes.spacing[::-1], lags.T[::-1], strict=True):
        cosines = np.cos(2.0 * np.pi * h * np.outer(np.arange(-m, m + 1), lag))
        left = np.einsum("...mp,mp->...p", np.broadcast_to(left, (*left.shape[:-1], len(lag))), cosines)
    return left


def between(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """The lags of all pairs of rows, shape (n m, d)."""
    return (X[:, None, :] - Z[None, :, :]).reshape(-1, X.shape[1])
