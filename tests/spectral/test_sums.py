"""The sums over rows against direct sums, their addition, and weights."""

import numpy as np
import pytest

from lmgp import GaussianKernel
from lmgp.spectral.modes import Modes, choose_modes
from lmgp.spectral.sums import SpectralSums
from lmgp.validation import Rows
from tests.spectral.conftest import every_mode, mirrored, waves

KERNELS = {1: GaussianKernel(2.0), 2: GaussianKernel([3.0, 6.0]), 3: GaussianKernel(8.0)}
every_dimension = pytest.mark.parametrize("d", KERNELS)


def drawn(d: int, n: int = 50) -> tuple[Modes, Rows, np.ndarray, np.ndarray]:
    """Modes and rows, three targets and the rows' precisions."""
    rng = np.random.default_rng(d)
    X = rng.uniform(2.0, 7.0, (n, d))
    modes = choose_modes(KERNELS[d], X, 0.1, 0.1)
    return modes, Rows(X, rng.normal(size=n)), rng.normal(size=(3, n)), rng.uniform(0.2, 3.0, n)


@every_dimension
class TestSums:
    def test_they_are_the_direct_ones(self, d: int) -> None:
        modes, rows, targets, precision = drawn(d)
        sums = SpectralSums.of(modes, rows, targets, precision, 1e-12)
        phi = waves(modes, rows.X)
        np.testing.assert_allclose(
            mirrored(sums.cross, modes.counts), (precision * targets) @ phi.conj(), rtol=0, atol=1e-8
        )
        np.testing.assert_allclose(sums.products, targets * precision @ targets.T, rtol=1e-12)
        assert sums.n == len(rows.y)
        # The generator holds ΦᴴPΦ: entry (j, l) is that of j − l.
        gram = phi.conj().T @ (precision[:, None] * phi)
        modes_of, doubled = every_mode(modes.counts), 2 * modes.counts
        flat = np.ravel_multi_index(tuple(((modes_of[:, None] - modes_of) + doubled).T), 2 * doubled + 1).T
        np.testing.assert_allclose(mirrored(sums.generator[None], doubled)[0][flat], gram, rtol=0, atol=1e-8)

    def test_those_of_disjoint_rows_add(self, d: int) -> None:
        modes, rows, targets, precision = drawn(d)
        whole = SpectralSums.of(modes, rows, targets, precision, 1e-12)
        first, second = (
            SpectralSums.of(modes, rows.take(part), targets[:, part], precision[part], 1e-12)
            for part in (slice(0, 17), slice(17, None))
        )
        both = first + second
        for name in ("generator", "cross", "products", "n"):
            np.testing.assert_allclose(getattr(both, name), getattr(whole, name), rtol=0, atol=1e-8)

    def test_weighted_rows_are_repeated_rows(self, d: int) -> None:
        modes, rows, targets, precision = drawn(d)
        counts = np.random.default_rng(9).integers(1, 4, len(rows.y))
        weighted = Rows(rows.X, rows.y, counts.astype(float))
        repeated = rows.take(np.repeat(np.arange(len(rows.y)), counts))
        found = SpectralSums.of(modes, weighted, targets, counts * precision, 1e-12)
        expected = SpectralSums.of(
            modes, repeated, np.repeat(targets, counts, axis=1), np.repeat(precision, counts), 1e-12
        )
        for name in ("generator", "cross", "products", "n"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-8)
