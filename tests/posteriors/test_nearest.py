"""Predictions from the nearest rows, against dense algebra, for any kernel."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import lmgp.posteriors.nearest as nearest
from lmgp import GaussianKernel, LinearKernel, MaternKernel
from lmgp.data import Noise, Rows
from lmgp.errors import InputError, MemoryLimitError, NumericalError
from lmgp.kernels.base import Kernel
from lmgp.metrics import kl_divergence
from lmgp.neighbours.cells import Cells
from lmgp.neighbours.forest import Forest
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.exact import ExactPosterior
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.posteriors.trend import Trend, Trended
from tests.conftest import ARGUMENTS, KERNELS, NOISE, centred, dense_gp, distances, draw, rows_and_noises


def of_one(posterior: Posterior, T: np.ndarray, variance: bool = True) -> tuple[np.ndarray, np.ndarray | None]:
    """Predict the only target, as means of shape (m,), and variances."""
    means, variances = posterior.predict(T, variance)
    return means[:, 0], variances


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("k", [1, 7, 80, 1000])
def test_it_is_the_exact_process_of_the_nearest_rows(
    name: str, arguments: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In batches of several sizes, with repeated new rows."""
    kernel, formula = KERNELS[name]
    X, y, T = draw()
    T = np.concatenate((T, T[:2]))
    rows, noise = rows_and_noises(X, y, arguments)
    monkeypatch.setattr(nearest, "BATCH_BYTES", 8 * 7**2 * 4)
    posterior = NearestPosterior(kernel, rows, Noise(NOISE), k, share=False)
    mean, variance = of_one(posterior, T)
    order = np.argsort(distances(T, X, kernel.metric(2)), axis=1, kind="stable")[:, :k]
    for row, near, found in zip(T, order, zip(mean, variance, strict=True), strict=True):
        Z, own = X[near], row[None, :]
        prior = np.diag(formula(own, own))
        expected = dense_gp(formula(Z, Z), formula(Z, own), prior, rows.Y[near, 0], noise[near], 0.0)
        np.testing.assert_allclose(found, (expected[0][0], expected[1][0]), rtol=0, atol=1e-8)
    alone = of_one(posterior, T, variance=False)
    np.testing.assert_allclose(alone[0], mean, rtol=0, atol=1e-10)
    assert alone[1] is None


@pytest.mark.parametrize("k", [7, 1000])
@pytest.mark.parametrize("d", [2, 5])
def test_with_other_weights_it_is_that_of_rows_with_these(d: int, k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of rows left out, too, which are looked for once."""
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(90, d)), rng.normal(size=(20, d))
    rows, kernel, some = Rows(X, X.sum(axis=1)), MaternKernel(2.0), np.arange(5, 50, 5)
    searches, search = [], Forest.others
    monkeypatch.setattr(Forest, "others", lambda *of: searches.append(1) or search(*of))
    for make in (ExactPosterior, lambda *of: NearestPosterior(*of, k, share=False)):
        found = make(kernel, rows, Noise(NOISE))
        searches.clear()
        for noise in (Noise(0.3), Noise(0.1)):
            weights = rng.uniform(0.1, 2.0, size=90)
            found = found.with_weights(weights, noise)
            left_out, n_searches = found.leave_one_out(), len(searches)
            expected = make(kernel, replace(rows, weights=weights), noise)
            pairs = [
                (left_out, expected.leave_one_out()),
                (found.leave_one_out(some), expected.leave_one_out(some)),
                (found.predict(T), expected.predict(T)),
            ]
            for one, other in pairs:
                np.testing.assert_allclose(one[0], other[0], rtol=1e-10)
                np.testing.assert_allclose(one[1], other[1], rtol=1e-10)
            assert n_searches == (isinstance(found, NearestPosterior) and noise.variance == 0.3)
            searches[:] = []
    fewer = found.with_neighbors(3)
    np.testing.assert_allclose(fewer.leave_one_out()[0], fewer.leave_one_out(np.arange(90))[0], rtol=1e-10)
    rest = found.without(np.arange(90) < 40)
    np.testing.assert_allclose(rest.leave_one_out()[0], rest.leave_one_out(np.arange(50))[0], rtol=1e-10)


@pytest.mark.parametrize("k", [7, 1000])
@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("arguments", ARGUMENTS)
def test_without_some_rows_and_with_another_noise_it_is_that_of_the_others(d: int, arguments: str, k: int) -> None:
    rng = np.random.default_rng(0)
    X, T, taken = rng.normal(size=(90, d)), rng.normal(size=(20, d)), rng.uniform(size=90) < 0.3
    rows, _ = rows_and_noises(X, X.sum(axis=1), arguments)
    kernel = MaternKernel(2.0)
    expected = NearestPosterior(kernel, rows.take(~taken), Noise(0.3), k, share=False).predict(T)
    found = NearestPosterior(kernel, rows, Noise(NOISE), k, share=False).without(taken)._changed(noise=Noise(0.3))
    for one, of_others in zip(found.predict(T), expected, strict=True):
        np.testing.assert_allclose(one, of_others, rtol=1e-10)


class TestTheNearestRowsOfAnotherPosterior:
    @pytest.mark.parametrize("kernel", [MaternKernel(2.0), GaussianKernel(1.5)])
    @pytest.mark.parametrize("d", [2, 5])
    def test_are_those_of_its_rows(self, d: int, kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
        """Found in its tree, where it has one in this metric; a trend is taken off."""
        rng = np.random.default_rng(0)
        X, T, taken = rng.normal(size=(90, d)), rng.normal(size=(20, d)), rng.uniform(size=90) < 0.3
        rows = Rows(X, X.sum(axis=1) + np.sin(3.0 * X[:, 0]))
        trend = Trend.of(rows, "linear", None)
        whole = rows.with_targets(np.column_stack((rows.Y, trend.columns(X))))
        products = ExactPosterior(MaternKernel(2.0), whole, Noise(0.1)).products()
        others = (
            NearestPosterior(MaternKernel(2.0), rows, Noise(0.1), 9),
            ExactPosterior(MaternKernel(2.0), rows, Noise(0.1)),
            Trended(NearestPosterior(MaternKernel(2.0), whole, Noise(0.1), 9), trend, products),
        )
        expected = [NearestPosterior(kernel, one.rows, Noise(0.3), 30, share=False) for one in others]
        expected = [(one.predict(T), one.without(taken).predict(T)) for one in expected]
        if isinstance(kernel, MaternKernel):
            others = others[0], others[2]
            expected = expected[0], expected[2]
            monkeypatch.setattr(Forest, "of", None)  # no tree is planted
        for other, (of_all, of_others) in zip(others, expected, strict=True):
            found = nearest.nearest_of(other, kernel, Noise(0.3), 30)
            np.testing.assert_allclose(np.column_stack(found.predict(T)), np.column_stack(of_all), rtol=1e-10)
            without = found.without(taken).predict(T)
            np.testing.assert_allclose(np.column_stack(without), np.column_stack(of_others), rtol=1e-10)

    def test_are_planted_anew_where_rows_have_come(self) -> None:
        rng = np.random.default_rng(1)
        X, T = rng.normal(size=(90, 5)), rng.normal(size=(20, 5))
        rows, kernel = Rows(X, X.sum(axis=1)), MaternKernel(2.0)
        forests = [Forest.of(kernel, rows.take(part), 0.1) for part in (slice(0, 88), slice(88, 90))]
        posterior = NearestPosterior(kernel, forests[0] + forests[1], Noise(0.1), 9)
        assert not posterior._forest.is_one_tree
        found = nearest.nearest_of(posterior, kernel, Noise(0.3), 30).predict(T)
        expected = NearestPosterior(kernel, posterior.rows, Noise(0.3), 30, share=False).predict(T)
        np.testing.assert_array_equal(np.column_stack(found), np.column_stack(expected))


def of_rows_around(kernel, formula, rows, noise: np.ndarray, T: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The exact process of the rows around each row's cell, by dense algebra; NaN for a row that its cell leaves."""
    points, cells, expected = kernel.scale(T), Cells(Forest.of(kernel, rows, NOISE), k), np.full((2, len(T)), np.nan)
    for cell in cells.group(points)[0]:
        near = cells.rows_around(cell)
        members = cell.members[cells.serves(cell, points[cell.members], near)]
        Z, own = rows.X[near], T[members]
        prior = np.diag(formula(own, own))
        expected[:, members] = dense_gp(formula(Z, Z), formula(Z, own), prior, rows.Y[near, 0], noise[near], 0.0)[:2]
    return expected


ROUGH = MaternKernel(4.0, smoothness=0.5)


def wide(n: int = 600, n_new: int = 120):
    return draw(n, high=(28.0, 17.0), n_new=n_new)


class TestRowsThatShareACell:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", KERNELS)
    @pytest.mark.parametrize("arguments", ["plain", "both"])
    def test_are_predicted_by_the_exact_process_of_the_rows_around_it(self, name: str, arguments: str) -> None:
        kernel, formula = KERNELS[name]
        X, y, T = wide(900, 24)
        rows, noise = rows_and_noises(X, y, arguments)
        expected = of_rows_around(kernel, formula, rows, noise, T, 100)
        shared = np.isfinite(expected[0])
        assert shared.mean() > 0.4
        found = np.array(of_one(NearestPosterior(kernel, rows, Noise(NOISE), 100), T))
        np.testing.assert_allclose(found[:, shared], expected[:, shared], rtol=0, atol=1e-8)
        alone = np.array(of_one(NearestPosterior(kernel, rows, Noise(NOISE), 100, share=False), T))
        np.testing.assert_allclose(found[:, ~shared], alone[:, ~shared], rtol=0, atol=1e-9)

    @pytest.mark.parametrize("smoothness", [0.5, 1.5, 2.5])
    def test_are_nearer_to_the_exact_process(self, smoothness: float) -> None:
        X, y, T = wide(2000, 300)
        kernel, rows, noise = MaternKernel(3.0, smoothness=smoothness), centred(X, y), Noise(0.05)
        exact = of_one(ExactPosterior(kernel, rows, noise), T)
        divergence = []
        for share in (True, False):
            mean, variance = of_one(NearestPosterior(kernel, rows, noise, 100, share=share), T)
            divergence.append(kl_divergence(mean, variance + 0.05, exact[0], exact[1] + 0.05).mean())
        assert divergence[0] < 0.7 * divergence[1]

    def test_are_predicted_alike_whatever_rows_are_beside_them(self) -> None:
        X, y, T = wide(2000, 300)
        posterior = NearestPosterior(MaternKernel([2.0, 3.0]), centred(X, y), Noise(0.05), 100)
        expected = np.array(of_one(posterior, T))
        order = np.random.default_rng(1).permutation(len(T))
        np.testing.assert_allclose(np.array(of_one(posterior, T[order])), expected[:, order], rtol=1e-10, atol=1e-12)
        for row in range(0, len(T), 40):
            alone = np.array(of_one(posterior, T[row : row + 1]))[:, 0]
            np.testing.assert_allclose(alone, expected[:, row], rtol=1e-10, atol=1e-12)

    @pytest.mark.parametrize("kernel", [ROUGH, ROUGH + MaternKernel(4.0, smoothness=2.5)], ids=["alone", "in a sum"])
    def test_have_no_seams(self, kernel: Kernel) -> None:
        """The steps of a map at the borders of cells are those of the exact process, and as large as elsewhere."""
        X, y, _ = wide(2000)
        across, up = np.linspace(9.0, 27.0, 241), np.linspace(-2.0, 16.0, 21)
        T, rows = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2), centred(X, y)
        points, number = kernel.points(T), np.empty(len(T))
        cells, alone = Cells(Forest.of(kernel, rows, 0.05), 100).group(points)
        assert not len(alone)
        for i, cell in enumerate(cells):
            number[cell.members] = i
        border = np.diff(number.reshape(21, 241), axis=1) != 0.0
        assert 0.02 < border.mean() < 0.2
        found = NearestPosterior(kernel, rows, Noise(0.05), 100).predict(T)
        exact = ExactPosterior(kernel, rows, Noise(0.05)).predict(T)
        for of_map, expected in ((found[0], exact[0]), (np.sqrt(found[1]), np.sqrt(exact[1]))):
            steps, right = (np.diff(values.reshape(21, 241), axis=1) for values in (of_map, expected))
            at_borders, within = (np.sqrt(np.mean(np.square(steps[at]))) for at in (border, ~border))
            assert at_borders < 1.1 * within
            assert np.sqrt(np.mean(np.square(steps - right)[border])) < 0.02 * within

    def test_are_predicted_alike_by_any_number_of_threads(self) -> None:
        X, y, T = wide(2000, 300)
        posterior = NearestPosterior(MaternKernel([2.0, 3.0]), centred(X, y), Noise(0.05), 100)
        before, found = torch.get_num_threads(), []
        try:
            for n_threads in (1, 3):
                torch.set_num_threads(n_threads)
                found.append(np.array(of_one(posterior, T)))
        finally:
            torch.set_num_threads(before)
        np.testing.assert_allclose(found[0], found[1], rtol=1e-10, atol=1e-12)

    def test_among_hundreds_of_copies(self) -> None:
        X, y, _ = wide(500)
        X = np.concatenate((np.repeat(X[:1], 400, axis=0), X))
        rows = centred(X, np.concatenate((y[0] + np.linspace(-0.1, 0.1, 400), y)))
        T = np.concatenate((X[:1], X[:1] + np.array([1e-3, 0.0]), X[450:460]))
        mean, variance = of_one(NearestPosterior(MaternKernel(3.0), rows, Noise(0.05), 60), T)
        exact = of_one(ExactPosterior(MaternKernel(3.0), rows, Noise(0.05)), T)
        assert variance[0] == pytest.approx(1.0 / (1.0 + 60 / 0.05), rel=1e-6)  # from 60 of the copies
        np.testing.assert_allclose(mean, exact[0], rtol=0, atol=0.1)

    def test_far_from_all_rows_it_is_the_prior(self) -> None:
        X, y, _ = wide()
        far = np.array([[1e3, 0.0], [-1e9, 1e9], [1e200, 0.0]])
        mean, variance = of_one(NearestPosterior(MaternKernel(0.5, 2.0), centred(X, y), Noise(0.05), 60), far)
        np.testing.assert_allclose(mean, 0.0, atol=1e-12)
        np.testing.assert_allclose(variance, 2.0, rtol=1e-12)


def test_of_no_new_rows() -> None:
    X, y, T = draw()
    mean, variance = of_one(NearestPosterior(GaussianKernel(1.0), centred(X, y), Noise(NOISE), 7), T[:0])
    assert mean.shape == variance.shape == (0,)


def test_what_the_rows_were_expected_to_be() -> None:
    X, y, T = draw()
    kernel, formula = KERNELS["matern32"]
    rows = centred(X, y)
    posterior = NearestPosterior(kernel, rows, Noise(NOISE), 9, share=False)
    np.testing.assert_allclose(posterior.prior_variance(T), np.diag(formula(T, T)), rtol=1e-14)
    surprise = posterior.surprise(T)[:, 0]
    for near, found in zip(np.argsort(distances(T, X, kernel.metric(2)), axis=1)[:, :9], surprise, strict=True):
        covariance = formula(X[near], X[near]) + NOISE * np.eye(9)
        assert found == pytest.approx(rows.Y[near, 0] @ np.linalg.solve(covariance, rows.Y[near, 0]) / 9, rel=1e-8)


class TestRefused:
    def test_a_kernel_without_a_metric(self) -> None:
        with pytest.raises(InputError, match=r"(?s)from the nearest rows needs a lengthscale.*LinearKernel"):
            NearestPosterior(LinearKernel(), centred(*draw()[:2]), Noise(NOISE), 7)

    def test_more_neighbours_than_fit(self) -> None:
        with pytest.raises(MemoryLimitError, match=r"from 50 rows take .*max_memory_gib=1e-05.*smaller n_neighbors"):
            NearestPosterior(MaternKernel(), centred(*draw()[:2]), Noise(NOISE), 50, max_memory_gib=1e-5)

    def test_repeated_rows_without_noise_to_speak_of(self) -> None:
        X, y, T = draw(30)
        rows = centred(np.repeat(X, 3, axis=0), np.repeat(y, 3))
        posterior = NearestPosterior(GaussianKernel([11.0, 6.0], 2.0), rows, Noise(1e-17), 60)
        with pytest.raises(NumericalError, match=r"noise_variance=1e-17.*smallest noise_variance that works here is"):
            of_one(posterior, T)
