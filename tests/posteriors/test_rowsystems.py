"""Compiled systems of few rows, against those by torch, and against dense algebra."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from lmgp import GaussianKernel, LinearKernel, MaternKernel, PeriodicKernel, RationalQuadraticKernel
from lmgp.data import Noise, Rows
from lmgp.features.nystroem import NystroemFeatures
from lmgp.kernels.base import Kernel
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.posteriors.rowsystems import PAIRS, PairPullback, RowSystems, nearest_before
from lmgp.posteriors.vecchia import VecchiaLikelihood
from lmgp.recipes import Residual
from tests.conftest import ARGUMENTS, NOISE, rows_and_noises

Floats = NDArray[np.float64]

SHORT, LONG = [0.9, 1.6, 0.7], [2.1, 0.8, 3.0]
RADIAL: dict[str, Kernel] = {
    "gaussian": GaussianKernel(SHORT, 1.4),
    "one_lengthscale": GaussianKernel(1.1, 1.4),
    "matern12": MaternKernel(LONG, 1.3, smoothness=0.5),
    "matern32": MaternKernel(SHORT, 0.7),
    "matern52": MaternKernel(0.8, 1.1, smoothness=2.5),
    "rational_quadratic": RationalQuadraticKernel(LONG, 1.2, alpha=0.8),
    "one_lengthscale_and_alpha": RationalQuadraticKernel(1.5, 1.2, alpha=2.3),
    "sum": MaternKernel(LONG, 1.3, smoothness=0.5) + MaternKernel(SHORT, 0.6, smoothness=2.5),
    "scaled": 0.3 * (RationalQuadraticKernel(LONG) + 2.0 * MaternKernel(0.9)) + GaussianKernel(SHORT, 0.2),
    "fixed": MaternKernel(LONG, 1.3, lengthscale_bounds="fixed")
    + RationalQuadraticKernel(SHORT, 0.6, variance_bounds="fixed", alpha_bounds="fixed"),
    "of_some_columns": MaternKernel(SHORT, 0.7) + GaussianKernel([1.2, 0.6]).on([2, 0]) + MaternKernel(0.8).on(1),
    "product": 0.5 * (MaternKernel(LONG, 0.7) * GaussianKernel(SHORT, 1.6)) + MaternKernel(SHORT, smoothness=0.5),
    "product_of_three": RationalQuadraticKernel(LONG) * MaternKernel(0.9, 0.5, smoothness=2.5) * MaternKernel(SHORT),
    "season": MaternKernel(SHORT, 0.6) + MaternKernel(LONG, smoothness=0.5) * PeriodicKernel(0.7, 1.2, 1.5),
    "seasons": MaternKernel(LONG) * PeriodicKernel([0.7, 1.3, 0.4], LONG, variance_bounds="fixed"),
    "season_of_a_column": GaussianKernel(2.0) * PeriodicKernel([0.9, 0.3]).on([2, 0]) + GaussianKernel(1.0),
    "season_that_is_known": MaternKernel(1.5) * PeriodicKernel(0.8, 0.9, period_bounds="fixed"),
    "some_columns_alone": 0.5 * (GaussianKernel(0.7).on([1]) + RationalQuadraticKernel([1.1]).on([1]).on([0, 2])),
}


def cube(n: int, n_targets: int = 1) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (n, 3))
    X[n // 2 : n // 2 + 5] = X[:5]  # copies
    Y = np.sin(2.0 * X[:, :1] + np.arange(n_targets)) + np.abs(X[:, 1:2]) + 0.2 * rng.normal(size=(n, n_targets))
    return X, Y - Y.mean(axis=0)


def by_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowSystems, "of", lambda *_: None)


def likelihoods(rows: Rows, kernel: Kernel, n_neighbors: int, monkeypatch: pytest.MonkeyPatch):
    """All that a likelihood says, compiled and by torch."""
    likelihood = VecchiaLikelihood(rows, 60, n_neighbors, np.random.default_rng(0))
    likelihood.look_for_neighbours(kernel)
    free = np.append(kernel.theta + 0.1, np.log(NOISE))

    def found():
        return *likelihood(kernel, free), likelihood.terms(kernel, free), likelihood.log_density(kernel, free)

    compiled = found()
    by_torch(monkeypatch)
    return compiled, found()


class TestAllPairs:
    @pytest.mark.parametrize("name", RADIAL)
    def test_covariances_and_derivatives_are_those_by_torch(self, name: str) -> None:
        X, Y = cube(PAIRS // 10)  # more pairs than a tile
        kernel, weights = RADIAL[name], np.random.default_rng(1).normal(size=(len(X), len(X)))
        systems = RowSystems.of(kernel, kernel.theta + 0.1, X, Y, np.zeros(len(X)))
        assert systems is not None
        of_pairs, theta = PairPullback(systems), torch.from_numpy(kernel.theta + 0.1)
        covariance, gradient = kernel.with_pullback(torch.from_numpy(X), theta)
        np.testing.assert_allclose(of_pairs.covariance, np.tril(covariance.detach()), atol=1e-14)
        symmetric = torch.from_numpy(weights + weights.T)
        expected = gradient.of_matrix(symmetric).numpy()
        np.testing.assert_allclose(of_pairs.of_matrix(symmetric), expected, atol=1e-11 * np.abs(expected).max())


class TestLikelihood:
    @pytest.mark.parametrize("arguments", ARGUMENTS)
    @pytest.mark.parametrize("name", RADIAL)
    def test_is_that_by_torch(self, name: str, arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
        X, Y = cube(120)
        rows, _ = rows_and_noises(X, Y[:, 0], arguments)
        for compiled, expected in zip(*likelihoods(rows, RADIAL[name], 13, monkeypatch), strict=True):
            np.testing.assert_allclose(compiled, expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())

    @pytest.mark.parametrize("third", [1.2, 0.7])
    @pytest.mark.parametrize("compiled", [True, False])
    def test_derivatives_by_tied_parameters_follow_the_chain_rule(
        self, compiled: bool, third: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Of which the first and the last column are a group, where their lengthscales are equal."""
        kernel = MaternKernel([1.2, 0.8, third], smoothness=0.5) + RationalQuadraticKernel([0.9, 2.0, 0.9])
        X, Y = cube(100, 2)
        likelihood = VecchiaLikelihood(Rows(X, Y), 60, 9, np.random.default_rng(0))
        likelihood.look_for_neighbours(kernel)
        if not compiled:
            by_torch(monkeypatch)
        free, ties = np.append(kernel.theta, np.log(NOISE)), np.array([2, 0, 2, 1, 3, 0, 3, 4, 4])
        jacobian = np.zeros((len(free), 6))
        jacobian[np.arange(len(free)), np.append(ties, 5)] = 1.0
        terms, slope, information = likelihood(kernel, free)
        of_ties = likelihood(kernel, free, ties)
        np.testing.assert_allclose(of_ties[0], terms)
        np.testing.assert_allclose(of_ties[1], jacobian.T @ slope)
        np.testing.assert_allclose(of_ties[2], jacobian.T @ information @ jacobian)

    def test_columns_with_the_same_free_numbers_are_one_group(self) -> None:
        """In whatever units, whose products are rounded."""
        units, X = np.geomspace(0.1, 1e3, 40), np.ones((2, 40))
        kernel = MaternKernel(0.7 * units, smoothness=0.5) + MaternKernel(1.3 * units) + GaussianKernel(2.1 * units)
        of_part = np.array([0, *np.ones(39, dtype=int), 2])
        ties = np.concatenate([of_part + 3 * part for part in range(3)])
        learned = RowSystems.of(kernel, kernel.theta, X, np.ones((2, 1)), np.ones(2), 1.0, ties)
        assert learned is not None
        assert np.diff(learned.kernel[4]).tolist() == [1, 39]
        predicting = RowSystems.of(kernel, None, X, np.ones((2, 1)), np.ones(2))
        assert predicting is not None
        assert np.diff(predicting.kernel[4]).tolist() == [40]

    @pytest.mark.parametrize("n_neighbors", [1, 7, 8, 9, 70])
    def test_of_several_targets(self, n_neighbors: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Of which every number of neighbours has positions with fewer rows before them."""
        rows = Rows(*cube(100, 3), weights=np.random.default_rng(1).uniform(0.5, 2.0, 100))
        for compiled, expected in zip(*likelihoods(rows, RADIAL["scaled"], n_neighbors, monkeypatch), strict=True):
            np.testing.assert_allclose(compiled, expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())

    def test_of_one_column(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X, Y = cube(100)
        rows, kernel = Rows(X[:, :1], Y), MaternKernel([0.7], smoothness=0.5) + GaussianKernel(2.0)
        for compiled, expected in zip(*likelihoods(rows, kernel, 9, monkeypatch), strict=True):
            np.testing.assert_allclose(compiled, expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())

    def test_columns_in_any_unit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X, Y = cube(100)
        units = np.array([1e-180, 1e170, 1.0])
        kernel = MaternKernel(SHORT) + MaternKernel(LONG, smoothness=0.5)
        (plain, *_), _ = likelihoods(Rows(X, Y), kernel, 9, monkeypatch)
        monkeypatch.undo()
        (scaled, *_), _ = likelihoods(Rows(X * units, Y), kernel.rescaled(units), 9, monkeypatch)
        np.testing.assert_allclose(scaled, plain, rtol=1e-9)

    @pytest.mark.parametrize("scale", [1e-80, 1e80])
    def test_information_does_not_depend_on_the_unit_of_targets(self, scale: float) -> None:
        """Of parameters in logarithms, though the square of a variance leaves the range of float64."""
        X, Y = cube(100)

        def information(unit: float) -> Floats:
            likelihood = VecchiaLikelihood(Rows(X, unit * Y), 60, 9, np.random.default_rng(0))
            likelihood.look_for_neighbours(GaussianKernel(1.0))
            kernel = MaternKernel(SHORT, 1.3 * unit**2)
            return likelihood(kernel, np.append(kernel.theta, np.log(NOISE * unit**2)))[2]

        np.testing.assert_allclose(information(scale), information(1.0), rtol=1e-6)

    def test_slope_of_a_rough_kernel_between_rows_that_are_all_but_copies(self) -> None:
        """By finite differences: torch leaves the slope of such pairs out."""
        X, Y = cube(60)
        X[:30] = X[30:] + 1e-7
        likelihood = VecchiaLikelihood(Rows(X, Y), 60, 20, np.random.default_rng(0))
        likelihood.look_for_neighbours(GaussianKernel(1.0))
        kernel, step = MaternKernel(1.0, smoothness=0.5), 1e-4
        slope = likelihood(kernel, np.log([1.0, 1.0, 1e-3]))[1]
        for parameter, unit in enumerate(np.eye(3)):
            above, below = (
                likelihood.terms(kernel, np.log([1.0, 1.0, 1e-3]) + way * unit).sum() for way in (step, -step)
            )
            assert slope[parameter] == pytest.approx((above - below) / (2.0 * step), rel=1e-5)

    def test_where_one_position_fails_nothing_else_does(self) -> None:
        X, Y = cube(60)
        X[:12] = X[0]
        likelihood = VecchiaLikelihood(Rows(X, Y), 60, 5, np.random.default_rng(0))
        likelihood.look_for_neighbours(GaussianKernel(1.0))
        kernel = GaussianKernel(1.0)
        terms, slope, information = likelihood(kernel, np.append(kernel.theta, -90.0))
        assert 0 < np.count_nonzero(np.isnan(terms)) < 30
        np.testing.assert_array_equal(np.isnan(terms), np.isnan(likelihood.terms(kernel, np.append(kernel.theta, -90))))
        assert np.isnan(slope).all()
        assert np.isnan(information).all()


class TestPredictions:
    @pytest.mark.parametrize("arguments", ARGUMENTS)
    @pytest.mark.parametrize("name", RADIAL)
    def test_are_those_by_torch(self, name: str, arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
        X, Y = cube(120)
        rows, _ = rows_and_noises(X, Y[:, 0], arguments)
        posterior = NearestPosterior(RADIAL[name], rows, Noise(NOISE), 13, share=False)
        T = np.concatenate((X[:40] + 0.1, X[:4], [[1e200, 0.0, -1e9]]))

        def found():
            return *posterior.predict(T), posterior.surprise(T), *posterior.leave_one_out(np.arange(5, 60))

        compiled = found()
        by_torch(monkeypatch)
        for one, expected in zip(compiled, found(), strict=True):
            np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-11)

    @pytest.mark.parametrize("k", [1, 2, 8, 9, 17, 60])
    def test_of_several_targets(self, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
        rows = Rows(*cube(60, 4))
        posterior = NearestPosterior(RADIAL["sum"], rows, Noise(NOISE), k, share=False)
        compiled = *posterior.predict(rows.X + 0.2), posterior.surprise(rows.X)
        by_torch(monkeypatch)
        for one, expected in zip(compiled, (*posterior.predict(rows.X + 0.2), posterior.surprise(rows.X)), strict=True):
            np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-11)

    @pytest.mark.parametrize("d", [4, 5, 9])
    @pytest.mark.parametrize("k", [7, 131, 256])
    def test_of_many_columns_by_dense_algebra(self, d: int, k: int) -> None:
        rng = np.random.default_rng(0)
        X, Y = rng.normal(size=(400, d)), rng.normal(size=(400, 2))
        lengthscales = np.linspace(1.0, 3.0, d)
        kernel = (
            MaternKernel(lengthscales, 0.7, smoothness=0.5)
            + GaussianKernel(lengthscales[::-1].copy(), 0.9)
            + MaternKernel(2.0, 0.4).on([3, 0])
        )
        T, noise = np.concatenate((rng.normal(size=(5, d)), X[:2])), rng.uniform(0.01, 0.1, 400)
        near = np.array([rng.permutation(400)[:k] for _ in T])
        near[1, ::3] = -1
        systems = RowSystems.of(kernel, None, X, Y, noise, 2.0)
        assert systems is not None
        means, reductions, surprises, solved = systems.predict(near, T)
        assert solved.all()
        for test, of_test, mean, reduction, surprise in zip(T, near, means, reductions, surprises, strict=True):
            there = of_test[of_test >= 0]
            between, covariance = kernel(X[there], test[None])[:, 0], kernel(X[there]) + np.diag(2.0 * noise[there])
            solution = np.linalg.solve(covariance, np.column_stack((between, Y[there])))
            np.testing.assert_allclose(mean, between @ solution[:, 1:], rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(reduction, between @ solution[:, 0], rtol=1e-10)
            np.testing.assert_allclose(surprise, (Y[there] * solution[:, 1:]).mean(axis=0), rtol=1e-10)

    def test_what_cannot_be_factorised_goes_by_torch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        X, Y = cube(60, 2)
        posterior, predict = (
            NearestPosterior(RADIAL["sum"], Rows(X, Y), Noise(NOISE), 7, share=False),
            RowSystems.predict,
        )
        expected = posterior.predict(X + 0.1)

        def failing(*arguments):
            *found, solved = predict(*arguments)
            for one in (*found, solved):
                one[::3] = False
            return *found, solved

        monkeypatch.setattr(RowSystems, "predict", failing)
        for one, plain in zip(posterior.predict(X + 0.1), expected, strict=True):
            np.testing.assert_allclose(one, plain, rtol=1e-9)

    @pytest.mark.parametrize("variance", [True, False])
    @pytest.mark.parametrize("n_near", [1, 8, 15, 50])
    @pytest.mark.parametrize("name", ["matern12", "sum", "of_some_columns"])
    def test_of_rows_that_tests_share(self, name: str, n_near: int, variance: bool) -> None:
        """As where each of them has these rows to itself, and by dense algebra."""
        X, Y = cube(60, 2)
        kernel, noise, near, T = RADIAL[name], np.linspace(0.1, 0.4, 60), np.arange(n_near), X[:19] + 0.1
        systems = RowSystems.of(kernel, None, X, Y, noise)
        assert systems is not None
        means, reductions, surprises, solved = systems.predict(near, T, variance)
        covariance, cross = kernel(X[near]) + np.diag(noise[near]), kernel(X[near], T)
        weights = np.linalg.solve(covariance, Y[near])
        np.testing.assert_allclose(means, cross.T @ weights, rtol=0, atol=1e-12)
        explained = np.sum(cross * np.linalg.solve(covariance, cross), axis=0)
        np.testing.assert_allclose(reductions, explained if variance else 0.0, rtol=0, atol=1e-12)
        of_rows = np.sum(Y[near] * weights, axis=0) / n_near
        np.testing.assert_allclose(surprises, np.tile(of_rows, (19, 1)), rtol=1e-10)
        assert solved.all()
        each = systems.predict(np.tile(near, (19, 1)), T, variance)
        np.testing.assert_allclose(each[0], means, rtol=0, atol=1e-12)

    def test_of_no_tests_and_of_no_rows(self) -> None:
        X, Y = cube(20, 2)
        systems = RowSystems.of(RADIAL["sum"], None, X, Y, np.ones(20))
        assert systems is not None
        for near, n in ((np.arange(5), 0), (np.zeros((0, 5), dtype=np.intp), 0), (np.full((3, 5), -1), 3)):
            means, reductions, _, solved = systems.predict(near, X[:n])
            np.testing.assert_array_equal(means, np.zeros((n, 2)))
            np.testing.assert_array_equal(reductions, np.zeros(n))
            assert solved.tolist() == [True] * n

    def test_says_what_cannot_be_factorised(self) -> None:
        X, Y = cube(60)
        X[:20] = X[0]
        systems = RowSystems.of(GaussianKernel(1.0), None, X, Y, np.full(60, 1e-17))
        assert systems is not None
        solved = systems.predict(np.array([[40, 50], [1, 2], [1, 40]]), X[:3])[3]
        np.testing.assert_array_equal(solved, [True, False, True])

    def test_rows_in_any_memory_order(self) -> None:
        """Transposed, and not to be written."""
        X, Y = cube(60, 2)
        expected = NearestPosterior(RADIAL["sum"], Rows(X, Y), Noise(NOISE), 7).predict(X[::2] + 0.1)
        other, targets, T = np.asfortranarray(X), np.asfortranarray(Y), np.asfortranarray(X[::2] + 0.1)
        for array in (other, targets, T):
            array.setflags(write=False)
        found = NearestPosterior(RADIAL["sum"], Rows(other, targets), Noise(NOISE), 7).predict(T)
        for one, of_plain in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, of_plain)


class Halved(GaussianKernel):
    """A kernel whose class says nothing of compiled code."""

    def correlation(self, squares, values):
        return super().correlation(0.5 * squares, values)


@pytest.mark.parametrize(
    "kernel", [LinearKernel(), (GaussianKernel() + MaternKernel()) * MaternKernel(), Halved(), Halved() + Halved()]
)
def test_other_kernels_are_evaluated_by_torch(kernel: Kernel) -> None:
    X, Y = cube(20)
    assert RowSystems.of(kernel, None, X, Y, np.ones(20)) is None


@pytest.mark.parametrize("name", RADIAL)
def test_parts_are_those_of_the_kernel(name: str) -> None:
    """A row alone with one other: the covariance, by the mean that it makes."""
    X = cube(20)[0][:2]
    kernel = RADIAL[name]
    systems = RowSystems.of(kernel, kernel.theta, X, np.ones((2, 1)), np.zeros(2))
    assert systems is not None
    (means, reductions, surprises, solved) = systems.predict(np.array([[0], [-1]]), X[[1, 1]])
    within, between = kernel(X)[0]
    np.testing.assert_allclose(means[:, 0], [between / within, 0.0], rtol=1e-13)
    np.testing.assert_allclose(reductions, [between**2 / within, 0.0], rtol=1e-13)
    np.testing.assert_allclose(surprises[:, 0], [1.0 / within, 0.0], rtol=1e-13)
    assert solved.all()


def test_nearest_rows_before() -> None:
    """Of fewer and more rows than are looked at together, and in the likelihood."""
    rng = np.random.default_rng(0)
    X, positions = rng.normal(size=(3 * PAIRS, 9)), np.array([0, 1, 4, 5, 6, 40, PAIRS, PAIRS + 1, 3 * PAIRS - 1])
    for position, found in zip(positions, nearest_before(np.ascontiguousarray(X.T), positions, 5), strict=True):
        nearest = np.argsort(np.square(X[:position] - X[position]).sum(axis=1))[:5]
        np.testing.assert_array_equal(np.sort(found[found >= 0]), np.sort(nearest))
    likelihood = VecchiaLikelihood(Rows(X, X[:, 0]), 200, 5, rng)
    likelihood.look_for_neighbours(GaussianKernel(np.arange(1.0, 10.0)))
    scaled, near = (X / np.arange(1.0, 10.0))[likelihood.order], likelihood._near
    for position, found in zip(likelihood.positions, near, strict=True):
        nearest = np.argsort(np.square(scaled[:position] - scaled[position]).sum(axis=1))[:5]
        np.testing.assert_array_equal(np.sort(found[found >= 0]), np.sort(nearest))


class TestSinglePrecision:
    @pytest.mark.parametrize("shared", [True, False])
    @pytest.mark.parametrize("name", RADIAL)
    def test_changes_predictions_by_less_than_a_thousandth_of_the_noise(self, name: str, shared: bool) -> None:
        """Also far from the origin, where single precision does not tell rows apart."""
        X, Y = cube(300, 2)
        X += 1e5
        kernel, new = RADIAL[name], X[:50] + 0.1
        double, single = (
            NearestPosterior(kernel, Rows(X, Y), Noise(0.05), 120, share=shared, precision=precision)
            for precision in ("float64", "float32")
        )
        (means, variances), (of_means, of_variances) = double.predict(new), single.predict(new)
        off = np.abs(of_means - means).max() / 0.05**0.5
        assert 1e-9 < off < 1e-3
        np.testing.assert_allclose(of_variances, variances, rtol=0, atol=1e-4 * 0.05)

    def test_is_left_where_there_is_too_little_noise(self) -> None:
        X, Y = cube(300)
        kernel, new = RADIAL["matern32"], X[:50] + 0.1
        double, single = (
            NearestPosterior(kernel, Rows(X, Y), Noise(1e-5), 120, share=False, precision=precision).predict(new)
            for precision in ("float64", "float32")
        )
        for of_single, of_double in zip(single, double, strict=True):
            np.testing.assert_array_equal(of_single, of_double)


class TestResiduals:
    @pytest.mark.parametrize("k", [1, 13, 110])
    @pytest.mark.parametrize("name", RADIAL)
    def test_are_those_by_torch(self, name: str, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Predictions from what a map leaves of the kernel, by own systems and by LAPACK."""
        X, Y = cube(120, 2)
        recipe = Residual(NystroemFeatures(20), k, 40, 1.0)

        def found():
            posterior = recipe.posterior(RADIAL[name], NOISE, Rows(X, Y), np.random.default_rng(0))
            return *posterior.predict(X[:40] + 0.1), *posterior.leave_one_out(np.arange(5, 60))

        compiled = found()
        by_torch(monkeypatch)
        for one, expected in zip(compiled, found(), strict=True):
            np.testing.assert_allclose(one, expected, rtol=1e-9, atol=1e-11)

    def test_those_without_a_factor_are_by_torch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """And the others beside them compiled."""
        X, Y = cube(120)
        recipe, weigh = Residual(NystroemFeatures(20), 13, 40, 1.0), RowSystems.weights
        posterior = recipe.posterior(RADIAL["sum"], NOISE, Rows(X, Y), np.random.default_rng(0))
        expected = posterior.predict(X[:40])

        def failing(systems: RowSystems, near: Floats, *given: Floats) -> tuple[Floats, Floats]:
            weights, reductions = weigh(systems, near, *given)
            weights[::3], reductions[::3] = 0.0, np.nan
            return weights, reductions

        monkeypatch.setattr(RowSystems, "weights", failing)
        for found, one in zip(posterior.predict(X[:40]), expected, strict=True):
            np.testing.assert_allclose(found, one, rtol=1e-9, atol=1e-11)
            assert np.isfinite(found).all()
