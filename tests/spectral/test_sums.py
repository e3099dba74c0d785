"""The sums over rows against direct sums, their addition, weights and noises, and another origin."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lmgp import GaussianKernel
from lmgp.errors import InputError
from lmgp.noise import Noise
from lmgp.spectral.modes import choose_modes, half_shape
from lmgp.spectral.sums import SpectralSums, check_admitted
from lmgp.validation import Rows
from tests.spectral.conftest import every_mode, mirrored, waves

KERNELS = {1: GaussianKernel(2.0), 2: GaussianKernel([3.0, 6.0]), 3: GaussianKernel(8.0)}
every_dimension = pytest.mark.parametrize("d", KERNELS)
NOISE = Noise(0.3)
FIELDS = ("generator", "cross", "products", "totals", "log_precision")


class Drawn:
    """Modes and rows, columns of a trend, and the rows' noise variances and weights."""

    def __init__(self, d: int, n: int = 50) -> None:
        rng = np.random.default_rng(d)
        X = rng.uniform(2.0, 7.0, (n, d))
        self.modes = choose_modes(KERNELS[d], X, 0.1, 0.1)
        self.noises, self.weights = rng.uniform(0.2, 3.0, n), rng.integers(1, 4, n).astype(float)
        self.rows = Rows(X, 3.0 + rng.normal(size=n), self.weights)
        self.columns = np.column_stack((np.ones(n), rng.normal(size=(n, 2))))

    def sums(self, part: slice = slice(None), **more: Any) -> SpectralSums:
        variances = (self.noises / self.weights)[part]
        return SpectralSums.of(self.modes, self.rows.take(part), self.columns[part], NOISE, variances, 1e-12, **more)


def assert_equal(found: SpectralSums, expected: SpectralSums) -> None:
    for name in FIELDS:
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-8, err_msg=name)


@every_dimension
class TestSums:
    def test_they_are_the_direct_ones(self, d: int) -> None:
        drawn = Drawn(d)
        modes, w = drawn.modes, drawn.weights
        origin = np.array([2.0, 0.5, -1.0])
        sums = drawn.sums(origin=origin)
        targets = np.vstack((drawn.rows.y - drawn.columns @ origin, drawn.columns.T))
        precision = NOISE.variance * w / drawn.noises
        phi = waves(modes, drawn.rows.X)
        assert sums.cross.shape == (4, *half_shape(modes.counts))
        assert sums.generator.shape == half_shape(2 * modes.counts)
        np.testing.assert_allclose(
            mirrored(sums.cross, modes.counts), (precision * targets) @ phi.conj(), rtol=0, atol=1e-8
        )
        np.testing.assert_allclose(sums.products, targets * precision @ targets.T, rtol=1e-12)
        np.testing.assert_allclose(sums.totals, targets @ w, rtol=1e-12)
        assert sums.n == w.sum()
        assert sums.mean == pytest.approx(np.average(drawn.rows.y, weights=w), rel=1e-12)
        assert sums.log_precision == pytest.approx(w @ np.log(NOISE.variance / drawn.noises), rel=1e-12)
        # The generator holds ΦᴴPΦ: entry (j, l) is that of j − l.
        gram = phi.conj().T @ (precision[:, None] * phi)
        modes_of, doubled = every_mode(modes.counts), 2 * modes.counts
        flat = np.ravel_multi_index(tuple(((modes_of[:, None] - modes_of) + doubled).T), 2 * doubled + 1).T
        np.testing.assert_allclose(mirrored(sums.generator[None], doubled)[0][flat], gram, rtol=0, atol=1e-8)

    def test_those_of_disjoint_rows_add_and_subtract(self, d: int) -> None:
        drawn = Drawn(d)
        first, second = drawn.sums(slice(0, 17)), drawn.sums(slice(17, None), origin=np.array([3.0, 1.0, 0.2]))
        assert_equal(first + second, drawn.sums())
        assert_equal((second + first).about(np.zeros(3)), drawn.sums())
        assert_equal(drawn.sums() - second, first)

    def test_another_origin_is_that_of_other_targets(self, d: int) -> None:
        drawn, origin = Drawn(d), np.array([3.0, 1.0, 0.2])
        moved = drawn.sums().about(origin)
        assert_equal(moved, drawn.sums(origin=origin))
        assert moved.mean == pytest.approx(drawn.sums().mean, rel=1e-12)
        np.testing.assert_array_equal(moved.origin, origin)

    def test_weighted_rows_are_repeated_rows(self, d: int) -> None:
        drawn = Drawn(d)
        at = np.repeat(np.arange(50), drawn.weights.astype(int))
        repeated = Rows(drawn.rows.X[at], drawn.rows.y[at])
        found = SpectralSums.of(drawn.modes, repeated, drawn.columns[at], NOISE, drawn.noises[at], 1e-12)
        assert_equal(found, drawn.sums())


class TestNoise:
    def test_it_is_shared_where_all_rows_have_one(self) -> None:
        drawn = Drawn(2)
        assert drawn.sums().shared_noise is None
        drawn.noises[:] = 0.7
        assert drawn.sums().shared_noise == pytest.approx(0.7, rel=1e-12)
        assert (drawn.sums(slice(0, 9)) + drawn.sums(slice(9, None))).shared_noise == pytest.approx(0.7, rel=1e-12)
        other = Drawn(2)
        other.noises[:] = 0.8
        assert (drawn.sums(slice(0, 9)) + other.sums(slice(9, None))).shared_noise is None

    def test_another_shared_noise(self) -> None:
        drawn = Drawn(2)
        drawn.noises[:] = 0.7
        found = drawn.sums().with_noise(Noise(0.2), 0.25)
        drawn.noises[:] = 0.25
        variances = drawn.noises / drawn.weights
        assert_equal(found, SpectralSums.of(drawn.modes, drawn.rows, drawn.columns, Noise(0.2), variances, 1e-12))
        assert found.shared_noise == pytest.approx(0.25, rel=1e-12)


class TestRefused:
    def test_sums_of_another_source(self) -> None:
        drawn = Drawn(2)
        sums = drawn.sums()
        others = {
            "noise variance": replace(sums, source=replace(sums.source, noise=Noise(0.4))),
            "map": drawn.sums(trend=" and a trend of x0"),
        }
        drawn.modes = choose_modes(KERNELS[2], drawn.rows.X, 0.1, 0.01)
        others["map cannot be merged: these have .*Fourier modes.*, the others .*Fourier modes"] = drawn.sums()
        for named, other in others.items():
            with pytest.raises(InputError, match=f"Statistics of another {named}"):
                sums.merge(other)

    def test_rows_beyond_the_margin(self) -> None:
        modes = Drawn(2).modes
        assert np.all(modes.margin > 0.1)
        edge = np.stack((modes.low - 0.999 * modes.margin, modes.high + 0.999 * modes.margin))
        check_admitted(modes, edge)
        with pytest.raises(
            InputError, match=r"Rows are added within \[.* × \[.*1 rows are not, .* row 1, \[.*fit again"
        ):
            check_admitted(modes, np.stack((edge[0], modes.high + [0.0, 1.001] * modes.margin)))
