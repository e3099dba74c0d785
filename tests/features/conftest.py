"""What the tests of feature maps share: rows, a target, and the projected kernel."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from lmgp import GaussianKernel

Floats = NDArray[np.float64]
KERNEL = GaussianKernel([0.8, 1.5], 1.7)
NOISE = 0.05


def box_rows(n: int = 60, d: int = 2, seed: int = 0, extent: float = 4.0) -> Floats:
    """Draw rows in a box."""
    return np.random.default_rng(seed).uniform(0.0, extent, (n, d))


def wave(X: Floats) -> Floats:
    """A target with noise, the same for rows of the same number."""
    return 3.0 + np.sin(2.0 * X[:, 0]) + 0.3 * X[:, -1] + 0.1 * np.random.default_rng(7).standard_normal(len(X))


def projected(kernel: GaussianKernel, Z: Floats, X: Floats, T: Floats) -> Floats:
    """k(X, Z) K_ZZ⁻¹ k(Z, T)."""
    return kernel(X, Z) @ np.linalg.solve(kernel(Z), kernel(Z, T))


def sparse_rows(n: int, d: int, density: float, seed: int = 0) -> Any:
    """Draw CSR rows whose entries that are not zero are normal with standard deviation 2."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=density, format="csr", rng=rng)
    X.data = rng.normal(size=X.nnz) * 2
    return X
