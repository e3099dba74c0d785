"""Sums over modes against direct sums, what is added and taken out of them, and what that costs."""

from dataclasses import replace

import numpy as np
import pytest

from lmgp import GaussianKernel, MaternKernel
from lmgp.data import Noise, Rows
from lmgp.errors import InputError
from lmgp.metrics import kl_divergence
from lmgp.posteriors import toeplitz
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.modes import ModePlan, choose_modes
from lmgp.posteriors.spectral import SETTLED, ModeStatistics
from lmgp.posteriors.toeplitz import half_shape
from lmgp.sums import modes as module
from lmgp.sums.modes import CellSums, ModeSums
from tests.dense import noise_of
from tests.fourier import every_mode, mirrored, waves

KERNELS = {1: GaussianKernel(2.0), 2: GaussianKernel([3.0, 6.0]), 3: GaussianKernel(8.0)}
every_dimension = pytest.mark.parametrize("d", KERNELS)
NOISE = Noise(0.3)
KERNEL, FINE = GaussianKernel(0.9, 1.4), 1e-4
# Of means, in units of y: what the tolerance allows, and some.
CLOSE = 5e-3 * np.sqrt(0.05)


class Drawn:
    """Modes, and rows of two targets, a constant and a column of a trend, with weights and noise variances."""

    def __init__(self, d: int, n: int = 50) -> None:
        rng = np.random.default_rng(d)
        X = rng.uniform(2.0, 7.0, (n, d))
        Y = np.column_stack((3.0 + rng.normal(size=(n, 2)), np.full(n, 2.0), rng.normal(size=n)))
        self.rows = Rows(X, Y, rng.integers(1, 4, n).astype(float), rng.uniform(0.2, 3.0, n))
        plan = ModePlan.choose(KERNELS[d], NOISE, self.rows, 0.1)
        self.plan = replace(plan, modes=choose_modes(KERNELS[d], X, 0.1, 0.1), transform_tolerance=1e-12)

    def sums(self, part: slice = slice(None)) -> ModeSums:
        return ModeSums.for_plan(self.plan, 4).of(self.rows.take(part))


def assert_equal(found: ModeStatistics, expected: ModeStatistics) -> None:
    for name in ("generator", "cross", "precision"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-8, err_msg=name)
    for name in ("products", "totals", "log_precision", "n"):
        one, other = getattr(found.targets, name), getattr(expected.targets, name)
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-8, err_msg=name)


@every_dimension
class TestStatistics:
    @pytest.mark.parametrize("constant", [True, False])
    def test_they_are_the_direct_ones(self, d: int, constant: bool) -> None:
        drawn = Drawn(d)
        rows = drawn.rows if constant else drawn.rows.with_targets(drawn.rows.Y[:, :2])
        modes, found = drawn.plan.modes, ModeStatistics.of(drawn.plan, rows)
        assert rows.weights is not None
        precision = NOISE.variance / (noise_of(rows, 0.3) + drawn.plan.left_out / rows.weights)
        phi = waves(modes, rows.X)
        assert found.generator.shape == half_shape(2 * modes.counts)
        expected = (precision * rows.Y.T) @ phi.conj()
        np.testing.assert_allclose(mirrored(found.cross, modes.counts), expected, rtol=0, atol=1e-8)
        np.testing.assert_allclose(found.targets.products, rows.Y.T * precision @ rows.Y, rtol=1e-12)
        np.testing.assert_allclose(found.targets.totals, rows.weights @ rows.Y, rtol=1e-12)
        assert found.precision == pytest.approx(precision.sum(), rel=1e-12)
        # The generator holds ΦᴴPΦ: entry (j, l) is that of j − l.
        gram = phi.conj().T @ (precision[:, None] * phi)
        modes_of, doubled = every_mode(modes.counts), 2 * modes.counts
        flat = np.ravel_multi_index(tuple(((modes_of[:, None] - modes_of) + doubled).T), 2 * doubled + 1).T
        np.testing.assert_allclose(mirrored(found.generator[None], doubled)[0][flat], gram, rtol=0, atol=1e-8)

    def test_those_of_disjoint_rows_add_and_subtract(self, d: int) -> None:
        drawn = Drawn(d)
        first, second, whole = drawn.sums(slice(0, 17)), drawn.sums(slice(17, None)), drawn.sums()
        assert_equal((first + second).statistics, whole.statistics)
        less = whole - second
        assert_equal(less.statistics, first.statistics)
        assert less.rows is not None
        np.testing.assert_array_equal(less.rows.X, drawn.rows.X[:17])
        assert (whole + second).n_rows == 83
        assert whole.empty().targets.n == 0.0

    def test_combinations_are_sums_of_other_targets(self, d: int) -> None:
        drawn, combination = Drawn(d), np.array([[1.0], [0.0], [-1.5], [0.2]])
        rows = drawn.rows.with_targets(drawn.rows.Y @ combination)
        assert_equal(drawn.sums().statistics.combined(combination), ModeStatistics.of(drawn.plan, rows))

    def test_weighted_rows_are_repeated_rows(self, d: int) -> None:
        drawn = Drawn(d)
        assert drawn.rows.weights is not None
        repeated = drawn.rows.take(np.repeat(np.arange(50), drawn.rows.weights.astype(int)))
        assert_equal(ModeStatistics.of(drawn.plan, replace(repeated, weights=None)), drawn.sums().statistics)


class TestNoise:
    def test_it_is_shared_where_all_rows_have_one(self) -> None:
        drawn = Drawn(2)
        drawn.plan = replace(drawn.plan, noise=Noise(0.3, "dtc"))
        assert drawn.sums().statistics.shared_noise is None
        drawn.rows = replace(drawn.rows, noise_variances=np.full(50, 0.7))
        assert drawn.sums().statistics.shared_noise == pytest.approx(0.7, rel=1e-12)
        both = drawn.sums(slice(0, 9)) + drawn.sums(slice(9, None))
        assert both.statistics.shared_noise == pytest.approx(0.7, rel=1e-12)
        found = drawn.sums().statistics.with_noise(Noise(0.2), 0.25)
        drawn.rows = replace(drawn.rows, noise_variances=np.full(50, 0.25))
        drawn.plan = replace(drawn.plan, noise=Noise(0.2, "dtc"))
        assert_equal(found, drawn.sums().statistics)

    @pytest.mark.parametrize("noise", [0.05, 0.15])
    @pytest.mark.parametrize("keeps_rows", [True, False])
    def test_the_same_sums_serve_another_kernel(
        self, noise: float, keeps_rows: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "FEW_MODES", 0)
        rows, T = in_a_line()
        plan = ModePlan.choose(KERNEL, Noise(0.05), rows, FINE, room=2.0, keeps_rows=keeps_rows)
        other = GaussianKernel(1.1, 1.2)
        sums = ModeSums.for_plan(plan, 2).of(rows).with_kernel(other, Noise(noise))
        centring = centring_of(sums)
        found = sums.posterior(centring)
        exact = ExactPosterior(other, rows.with_targets(rows.Y @ centring), Noise(noise))
        np.testing.assert_allclose(found.predict(T, False)[0], exact.predict(T, False)[0], rtol=0, atol=CLOSE)
        if sums.cells is not None:
            assert sums.cells.noise == Noise(noise)
            assert sums.cells.sums[:, 0].sum() == pytest.approx(sums.statistics.precision)


def in_a_line(n: int = 90, own: bool = False) -> tuple[Rows, np.ndarray]:
    """Rows of one column, with the targets y and 1, and new rows."""
    rng = np.random.default_rng(1)
    X = rng.uniform(1.0, 5.0, (n, 1))
    y = 7.0 + np.sin(3.0 * X[:, 0]) + 0.2 * rng.normal(size=n)
    weights, noises = (rng.integers(1, 4, n) * 1.0, rng.uniform(0.02, 0.2, n)) if own else (None, None)
    return Rows(X, np.column_stack((y, np.ones(n))), weights, noises), rng.uniform(1.0, 5.0, (20, 1))


def centring_of(sums: ModeSums) -> np.ndarray:
    return np.array([[1.0], [-sums.targets.totals[0] / sums.targets.totals[1]]])


class TestPosterior:
    @pytest.mark.parametrize("own", [False, True])
    @pytest.mark.parametrize("keeps_rows", [True, False])
    def test_parts_of_the_rows_make_the_posterior_of_all(self, own: bool, keeps_rows: bool) -> None:
        rows, T = in_a_line(own=own)
        box = rows.X.min(axis=0), rows.X.max(axis=0)
        sample = rows.take(slice(0, 20))
        plan = ModePlan.choose(KERNEL, Noise(0.05), sample, FINE, box=box, n_rows=90, keeps_rows=keeps_rows)
        none = ModeSums.for_plan(plan, 2)
        whole = none.of(rows.take(slice(0, 40))) + none.of(rows.take(slice(40, None)))
        less = whole - none.of(rows.take(slice(60, None)))
        waiting = none.added(rows.take(slice(0, 40))).added(rows.take(slice(40, None)))
        assert waiting.waiting is not None
        for sums, n in ((whole, 90), (less, 60), (waiting, 90)):
            centring = centring_of(sums.settled)
            posterior = sums.posterior(centring)
            some = rows.take(slice(0, n))
            exact = ExactPosterior(KERNEL, some.with_targets(some.Y @ centring), Noise(0.05))
            for one, other in zip(posterior.predict(T), exact.predict(T), strict=True):
                np.testing.assert_allclose(one, other, rtol=0, atol=CLOSE)
            assert posterior.n_rows == n
        if not keeps_rows:
            with pytest.raises(InputError, match="not the rows themselves"):
                whole.posterior(centring_of(whole)).leave_one_out()

    def test_a_row_counts_equal_ones_where_all_rows_do(self) -> None:
        rows, _ = in_a_line()
        plan, weights = ModePlan.choose(KERNEL, Noise(0.05), rows, FINE), np.repeat([1.0, 2.0, 2.5], 30)
        rows = replace(rows, weights=weights)
        none, mixed = ModeSums.for_plan(plan, 2), replace(rows, measurements=weights)
        whole, others = none.of(rows.take(slice(30, 60))), none.of(mixed.take(np.arange(90) % 60 < 30))
        for sums, n in ((whole, 60), (others, 60), (none.of(mixed) - whole, 60), (others + whole, 90)):
            assert sums.targets.n_densities == n
        assert (whole + others).targets.n_densities == 90

    def test_a_start_saves_iterations_and_later_rows_take_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(toeplitz, "MOST_AT_ONCE", 0)
        rows, _ = in_a_line()
        plan = ModePlan.choose(KERNEL, Noise(0.05), rows, FINE)
        none = ModeSums.for_plan(plan, 2)
        first = (none + none.of(rows)).posterior(centring_of(none.of(rows)))
        assert first.accuracy.iterations <= 0.5 * FINE**2
        later = none.of(rows.take(slice(0, 89))) + none.of(rows.take(slice(89, None)))
        cold = later.posterior(centring_of(later))
        assert 0.0 < cold.accuracy.iterations <= 0.5 * SETTLED**2 * (1.0 + 1e-9)
        assert cold.accuracy.n_iterations > first.accuracy.n_iterations
        assert later.posterior(centring_of(later), first).accuracy.n_iterations <= 1


class TestCells:
    @pytest.mark.parametrize("kernel", [GaussianKernel(0.3), MaternKernel(0.5)])
    def test_they_stand_for_their_rows_in_variances(self, kernel: GaussianKernel) -> None:
        rng = np.random.default_rng(0)
        X = rng.uniform(0.0, 10.0, (3000, 2))
        rows = Rows(X, np.column_stack((rng.normal(size=3000), np.ones(3000))), rng.integers(1, 3, 3000) * 1.0)
        plan = ModePlan.choose(kernel, Noise(0.3), rows, 0.05, keeps_rows=False)
        none = ModeSums.for_plan(plan, 2)
        first, second = none.of(rows.take(slice(0, 1000))), none.of(rows.take(slice(1000, None)))
        whole = first + second
        assert isinstance(whole.cells, CellSums)
        np.testing.assert_allclose(whole.cells.sums[:, 0].sum(), rows.weights.sum(), rtol=1e-12)
        np.testing.assert_array_equal((whole - second).cells.keys, first.cells.keys)
        with pytest.raises(InputError, match="there is no row near one of them"):
            first - none.of(rows.take(slice(1000, 1100)))
        kept = ModeSums.for_plan(replace(plan, keeps_rows=True), 2).of(rows)
        with pytest.raises(InputError, match="Merge the other way round"):
            kept + whole
        assert (first + ModeSums.for_plan(replace(plan, keeps_rows=True), 2).of(rows)).n_rows == 4000
        T = rng.uniform(0.0, 10.0, (50, 2))
        found, expected = (sums.posterior(np.eye(2)[:, :1]).variances(T) for sums in (whole, kept))
        assert kl_divergence(0.0, found + 0.3, 0.0, expected + 0.3).mean() < 0.05**2


class TestRefused:
    def test_sums_of_another_source(self) -> None:
        drawn = Drawn(2)
        sums = drawn.sums()
        drawn.plan = replace(drawn.plan, noise=Noise(0.4))
        with pytest.raises(InputError, match="Statistics of another noise variance"):
            sums + drawn.sums()
        modes = choose_modes(KERNELS[2], drawn.rows.X, 0.1, 0.01)
        drawn.plan = replace(drawn.plan, noise=NOISE, modes=modes)
        with pytest.raises(InputError, match=r"map cannot be merged: these have .*modes.*, the others .*Fourier modes"):
            sums + drawn.sums()

    def test_rows_beyond_the_margin_and_rows_that_are_not_there(self) -> None:
        drawn = Drawn(2)
        modes, sums = drawn.plan.modes, drawn.sums(slice(0, 20))
        edge = np.stack((modes.low - 0.999 * modes.margin, modes.high + 0.999 * modes.margin))
        sums.check(Rows(edge, np.zeros(2)))
        beyond = np.stack((edge[0], modes.high + [0.0, 1.001] * modes.margin))
        with pytest.raises(
            InputError, match=r"Rows are added within \[.* × \[.*1 rows are not, .* row 1, \[.*fit again"
        ):
            sums.check(Rows(beyond, np.zeros(2)))
        with pytest.raises(InputError, match="is not, or not as often, with this y"):
            drawn.sums() - drawn.sums().of(drawn.rows.take(np.array([3, 3])))
        with pytest.raises(InputError, match="No row would be left"):
            sums - sums


class TestRounding:
    """Adding and taking out rows of large targets leaves their rounding, which the stated error has."""

    @pytest.mark.parametrize("large", [1e8, 1e12])
    @pytest.mark.parametrize("case", ["apart", "together", "from the start"])
    @pytest.mark.parametrize("kernel", [GaussianKernel(1.5, 1.4), MaternKernel(2.0, 0.8, smoothness=2.5)])
    def test_the_stated_error_covers_the_true_one(self, kernel: GaussianKernel, case: str, large: float) -> None:
        rng = np.random.default_rng(0)
        X, T = rng.uniform(1.0, 5.0, (400, 2)), rng.uniform(1.0, 5.0, (50, 2))
        y, outliers = np.sin(3.0 * X[:, 0]) + 0.2 * rng.normal(size=400), large * rng.normal(size=50)
        # Where the outliers are among the first rows, the origin of the targets is far from the others.
        origin = np.concatenate((y, outliers)).mean() if case == "from the start" else 0.0
        rows = Rows(X, np.column_stack((y, np.ones(400))))
        gone = Rows(T, np.column_stack((outliers - origin, np.ones(50))))
        none = ModeSums.for_plan(ModePlan.choose(kernel, Noise(0.1), rows, 1e-3), 2)
        shifted = Rows(X, rows.Y - [origin, 0.0])
        if case == "apart":
            sums = none.of(shifted) + none.of(gone) - none.of(gone)
        else:
            sums = none.of(shifted.joined(gone, 0.1)) - none.of(gone)
        quiet = replace(none.of(rows), has_grown=True).posterior(np.array([[1.0], [0.0]]))
        found = sums.posterior(np.array([[1.0], [origin]]))
        off = found.predict(X, False)[0] - quiet.predict(X, False)[0]
        true, error = 0.5 * np.mean(off**2) / 0.1, found.accuracy
        assert true <= error.rounding <= error.divergence
        assert error.divergence == error.iterations + error.modes + error.rounding
        assert found.error(T)[0, 0] == pytest.approx(error.divergence)
        assert "by rounding of the sums: about" in str(error)
        # The largest of these are not covered by the other parts of the error.
        assert large < 1e12 or error.rounding > 10.0 * error.modes
        # Without such rows, it says what it said.
        assert quiet.accuracy.rounding < 1e-9 * quiet.accuracy.modes
