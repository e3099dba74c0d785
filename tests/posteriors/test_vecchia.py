"""The subsampled Vecchia likelihood, against dense algebra, finite differences and Monte Carlo."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import multivariate_normal, norm, t

from lmgp import GaussianKernel, MaternKernel, RationalQuadraticKernel
from lmgp.data import Rows
from lmgp.kernels.base import Kernel
from lmgp.posteriors.rowsystems import RowSystems
from lmgp.posteriors.vecchia import VecchiaLikelihood
from lmgp.utils.student import Student
from tests.conftest import ARGUMENTS, KERNELS, NOISE, centred, gaussian, rows_and_noises
from tests.dense import log_likelihood_and_gradient

Floats = NDArray[np.float64]

KERNEL = GaussianKernel([0.9, 1.6], 1.4)


def plane(n: int, seed: int = 0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    return X, np.sin(2 * X[:, 0]) + np.abs(X[:, 1]) + 0.2 * rng.normal(size=n)


def made(rows: Rows, n_positions: int, n_neighbors: int, kernel: Kernel = KERNEL, seed: int = 0) -> VecchiaLikelihood:
    likelihood = VecchiaLikelihood(rows, n_positions, n_neighbors, np.random.default_rng(seed))
    likelihood.look_for_neighbours(kernel)
    return likelihood


def free(kernel: Kernel, noise_variance: float = NOISE) -> Floats:
    return np.append(kernel.theta, np.log(noise_variance))


def conditional(covariance: Floats, noise: Floats, y: Floats, row: int, given: NDArray[np.intp]) -> float:
    """log p(y of a row | y of others), as the difference of two Gaussian densities."""

    def density(index: NDArray[np.intp]) -> float:
        noisy = covariance[np.ix_(index, index)] + np.diag(noise[index])
        return float(multivariate_normal(np.zeros(len(index)), noisy).logpdf(y[index])) if len(index) else 0.0

    return density(np.append(given, row)) - density(given)


class TestAllNeighbours:
    @pytest.mark.parametrize("name", KERNELS)
    def test_value_is_the_density_of_all_rows(self, name: str) -> None:
        kernel, formula = KERNELS[name]
        X, y = plane(45)
        rows = centred(X, y)
        likelihood = made(rows, 45, 44, kernel)
        expected = multivariate_normal(np.zeros(45), formula(X, X) + NOISE * np.eye(45)).logpdf(rows.Y[:, 0])
        assert likelihood(kernel, free(kernel))[0].sum() == pytest.approx(expected, rel=1e-9)
        assert likelihood.terms(kernel, free(kernel)).sum() == pytest.approx(expected, rel=1e-9)

    @pytest.mark.parametrize("arguments", ARGUMENTS)
    @pytest.mark.parametrize("name", KERNELS)
    def test_gradient_is_that_of_the_exact_likelihood(self, name: str, arguments: str) -> None:
        kernel, (X, y) = KERNELS[name][0], plane(30)
        rows, _ = rows_and_noises(X, y, arguments)
        found = made(rows, 30, 99, kernel)(kernel, free(kernel))
        value, gradient = log_likelihood_and_gradient(rows, kernel, NOISE)
        assert found[0].sum() == pytest.approx(value, rel=1e-9)
        np.testing.assert_allclose(found[1], gradient, rtol=1e-7, atol=1e-8)

    def test_weights_are_repetitions(self) -> None:
        X, y = plane(25)
        counts = np.random.default_rng(1).integers(1, 4, 25)
        rows = centred(X, y, counts.astype(float))
        many, targets = np.repeat(X, counts, axis=0), np.repeat(rows.Y[:, 0], counts)
        covariance = gaussian(many, many, [0.9, 1.6], 1.4) + NOISE * np.eye(len(many))
        expected = multivariate_normal(np.zeros(len(many)), covariance).logpdf(targets)
        assert made(rows, 25, 24)(KERNEL, free(KERNEL))[0].sum() == pytest.approx(expected, rel=1e-9)

    def test_every_number_of_rows_has_all_its_positions(self) -> None:
        for n in range(2, 150):
            rng = np.random.default_rng(n)
            rows = Rows(rng.normal(size=(n, 1)), rng.normal(size=n))
            likelihood = VecchiaLikelihood(rows, n, 3, rng)
            np.testing.assert_array_equal(likelihood.positions, np.arange(n))
            np.testing.assert_array_equal(np.sort(likelihood.order), np.arange(n))


class TestNearestNeighbours:
    @pytest.mark.parametrize("arguments", ARGUMENTS)
    @pytest.mark.parametrize("name", ["matern12", "gaussian_plus_matern"])
    def test_terms_are_conditional_densities_given_the_nearest_earlier_rows(self, name: str, arguments: str) -> None:
        kernel, formula = KERNELS[name]
        X, y = plane(60)
        rows, noise = rows_and_noises(X, y, arguments)
        likelihood = made(rows, 60, 10, kernel)
        order, covariance = likelihood.order, formula(X, X)
        distances = np.linalg.norm((X[:, None] - X) / kernel.metric(2), axis=2)
        own = np.full(60, NOISE) if rows.noise_variances is None else rows.noise_variances
        weights = np.ones(60) if rows.weights is None else rows.weights
        expected = []
        for position in range(60):
            row, earlier = order[position], order[:position]
            nearest = earlier[np.argsort(distances[row, earlier])[:10]]
            repeated = 0.5 * (weights[row] - 1.0) * np.log(2 * np.pi * own[row]) + 0.5 * np.log(weights[row])
            expected.append(conditional(covariance, noise, rows.Y[:, 0], row, nearest) - repeated)
        np.testing.assert_allclose(likelihood.terms(kernel, free(kernel)), expected, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(likelihood(kernel, free(kernel))[0], expected, rtol=1e-7, atol=1e-9)

    @pytest.mark.parametrize("arguments", ARGUMENTS)
    @pytest.mark.parametrize("name", KERNELS)
    def test_gradient_is_that_of_finite_differences(self, name: str, arguments: str) -> None:
        kernel, (X, y) = KERNELS[name][0], plane(150)
        rows, _ = rows_and_noises(X, y, arguments)
        likelihood = made(rows, 40, 12, kernel)
        at, step = free(kernel), 1e-5
        slopes = [
            (likelihood.terms(kernel, at + step * unit).sum() - likelihood.terms(kernel, at - step * unit).sum())
            / (2 * step)
            for unit in np.eye(len(at))
        ]
        np.testing.assert_allclose(likelihood(kernel, at)[1], slopes, rtol=1e-5, atol=1e-5)

    def test_neighbours_are_those_of_the_last_search(self) -> None:
        rows, other = centred(*plane(60)), GaussianKernel([5.0, 0.1])
        likelihood = made(rows, 60, 10)
        likelihood.look_for_neighbours(other)
        np.testing.assert_array_equal(
            likelihood.terms(KERNEL, free(KERNEL)), made(rows, 60, 10, other).terms(KERNEL, free(KERNEL))
        )

    @pytest.mark.parametrize("compiled", [True, False])
    @pytest.mark.parametrize("degrees", [2.3, 6.0])
    def test_under_a_t(self, degrees: float, compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """Densities by dense algebra, their slopes by finite differences, and the information by quadrature."""
        kernel, (X, y), step = KERNELS["matern12"][0], plane(80), 1e-5
        rows, at = centred(X, y), free(kernel)
        likelihood = made(rows, 30, 9, kernel)
        likelihood.student = Student(degrees)
        if not compiled:
            monkeypatch.setattr(RowSystems, "of", lambda *_: None)

        def conditionals(at: Floats) -> tuple[Floats, Floats]:
            """The mean and the variance of each position."""
            covariance = kernel.with_theta(at[:-1])(X[likelihood.order]) + np.exp(at[-1]) * np.eye(80)
            found = []
            for position, near in zip(likelihood.positions, likelihood._near, strict=True):
                near = near[near >= 0]
                weights = np.linalg.solve(covariance[np.ix_(near, near)], covariance[near, position])
                mean = weights @ rows.Y[likelihood.order[near], 0]
                found.append((mean, covariance[position, position] - weights @ covariance[near, position]))
            return tuple(np.array(found).T)  # type: ignore[return-value]

        own, shares, units = rows.Y[likelihood.order[likelihood.positions], 0], likelihood._shares, np.eye(len(at))

        def terms(at: Floats) -> Floats:
            means, variances = conditionals(at)
            return shares * t.logpdf(own, degrees, means, np.sqrt(variances))

        found, slope, information = likelihood(kernel, at)
        np.testing.assert_allclose(found, terms(at), rtol=1e-8)
        slopes = [(terms(at + step * unit) - terms(at - step * unit)).sum() / (2.0 * step) for unit in units]
        np.testing.assert_allclose(slope, slopes, rtol=1e-4, atol=1e-5)
        # Of the mean and of the logarithm of the variance of a t of scale 1.
        changes = np.array([np.array(conditionals(at + step * u)) - conditionals(at - step * u) for u in units])
        of_means, of_variances = np.swapaxes(changes / (2.0 * step), 0, 1)

        def by_mean(error: float) -> float:
            return (degrees + 1.0) * error / (degrees + error**2)

        squares = (lambda e: by_mean(e) ** 2, lambda e: (0.5 * (by_mean(e) * e - 1.0)) ** 2)
        mean, scale = (quad(lambda e, of=of: of(e) * t.pdf(e, degrees), -np.inf, np.inf)[0] for of in squares)
        variances = conditionals(at)[1]
        of_means, of_variances = of_means * np.sqrt(mean / variances), of_variances * np.sqrt(scale) / variances
        expected = (of_means * shares) @ of_means.T + (of_variances * shares) @ of_variances.T
        np.testing.assert_allclose(information, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())

    @pytest.mark.parametrize("tails", [False, True])
    def test_degrees_of_freedom_are_the_likeliest_ones_of_the_errors_where_they_pay(self, tails: bool) -> None:
        rng = np.random.default_rng(0)
        X, y = plane(300)
        y += 0.6 * (rng.standard_t(3.0, 300) if tails else rng.normal(size=300))
        X[:2] = X[2]  # of which float64 has no factor where there is no noise
        likelihood = made(centred(X, y), 300, 20)
        assert likelihood.student.degrees == np.inf
        for noise in (0.3, 1e-300):
            with np.errstate(invalid="ignore"):
                likelihood.take_tails(KERNEL, free(KERNEL, noise))
            variances, squares = likelihood._errors(KERNEL, free(KERNEL, noise))
            errors = np.sqrt(squares[np.isfinite(variances)])
            assert len(errors) == 300 if noise == 0.3 else 3 < len(errors) < 300
            shares = likelihood._shares[np.isfinite(variances)]

            def loss(point: Floats, errors: Floats = errors, shares: Floats = shares) -> float:
                return -float(shares @ t.logpdf(errors[:, 0], 2.2 + np.exp(point[0]), scale=np.exp(point[1])))

            best = minimize(loss, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-10})
            degrees, scale = 2.2 + np.exp(best.x[0]), np.exp(best.x[1])
            deviation = np.sqrt(np.average(errors[:, 0] ** 2, weights=shares))
            gains = t.logpdf(errors[:, 0], degrees, scale=scale) - norm.logpdf(errors[:, 0], scale=deviation)
            gain = np.average(gains, weights=shares)
            error = np.sqrt(np.average((gains - gain) ** 2, weights=shares) / len(gains))
            taken = gain > error + 2.0 / len(gains)
            assert taken == tails or noise < 0.3
            assert likelihood.student.degrees == pytest.approx(degrees if taken else np.inf, rel=1e-2)
            assert likelihood.student.scale == 1.0

    def test_more_neighbours_come_closer_to_the_exact_likelihood(self) -> None:
        kernel = MaternKernel(1.0, 1.0)
        rows = centred(*plane(200))
        exact, _ = log_likelihood_and_gradient(rows, kernel, NOISE)
        off = [abs(made(rows, 200, m, kernel)(kernel, free(kernel))[0].sum() - exact) for m in (2, 8, 32, 199)]
        assert off[0] > 2.0 * off[1] > 4.0 * off[2]
        assert off[3] < 1e-6

    def test_what_float64_cannot_factorise_is_not_a_number(self) -> None:
        rows = Rows(np.zeros((20, 2)), np.linspace(-1.0, 1.0, 20))
        value = made(rows, 20, 5)(KERNEL, free(KERNEL, 1e-30))
        assert not np.isfinite(value[0].sum())


class TestSamples:
    def test_is_deterministic_for_a_seed(self) -> None:
        rows = centred(*plane(200))
        first, again, other = (made(rows, 50, 8, seed=seed)(KERNEL, free(KERNEL)) for seed in (0, 0, 1))
        np.testing.assert_array_equal(first[0], again[0])
        np.testing.assert_array_equal(first[1], again[1])
        assert first[0].sum() != other[0].sum()

    def test_number_of_positions_and_neighbours(self) -> None:
        rows = centred(*plane(100))
        assert (made(rows, 30, 8).n_positions, made(rows, 30, 8).n_neighbors) == (30, 8)
        assert (made(rows, 1000, 1000).n_positions, made(rows, 1000, 1000).n_neighbors) == (100, 99)
        # Numbers of rows around powers of 2, whose last stratum is small.
        for n in (127, 128, 129, 130, 140):
            likelihood = made(centred(*plane(n)), 64, 4)
            assert len(np.unique(likelihood.positions)) == likelihood.n_positions == 64

    @pytest.mark.parametrize("n", [33, 50])
    def test_estimate_is_unbiased_and_its_standard_error_is_right(self, n: int) -> None:
        # With all earlier rows as neighbours, the sum over all positions is the same for every order.
        kernel, rows = MaternKernel(0.8, 1.0, smoothness=0.5), centred(*plane(n))
        exact = log_likelihood_and_gradient(rows, kernel, NOISE)[0] / n
        means, squares = [], []
        for seed in range(60):
            likelihood = made(rows, n // 2, n - 1, kernel, seed)
            terms = likelihood.terms(kernel, free(kernel))
            means.append(terms.mean())
            squares.append(likelihood.standard_error(terms) ** 2)
        spread = float(np.std(means, ddof=1))
        assert abs(np.mean(means) - exact) < 3.5 * spread / np.sqrt(60)
        # A standard deviation of 60 draws is itself known to 9%.
        assert np.sqrt(np.mean(squares)) == pytest.approx(spread, rel=0.3)

    def test_standard_error_is_zero_where_all_rows_are_positions(self) -> None:
        likelihood = made(centred(*plane(100)), 100, 5)
        assert likelihood.standard_error(likelihood.terms(KERNEL, free(KERNEL))) == 0.0

    def test_gradient_of_samples_is_unbiased(self) -> None:
        kernel, rows = GaussianKernel([0.9, 1.6], 1.4), centred(*plane(40))
        exact = log_likelihood_and_gradient(rows, kernel, NOISE)[1] / 40
        slopes = np.array([made(rows, 20, 39, kernel, seed)(kernel, free(kernel))[1] / 20 for seed in range(60)])
        z = (slopes.mean(axis=0) - exact) / (slopes.std(axis=0, ddof=1) / np.sqrt(60))
        assert np.abs(z).max() < 3.5


class TestInformation:
    @pytest.mark.parametrize("m", [6, 24])
    def test_is_the_variance_of_the_score(self, m: int) -> None:
        # y drawn from the density of the model itself: the exact one, whose conditionals these are.
        kernel, rng = GaussianKernel([0.9, 1.6], 1.4), np.random.default_rng(0)
        X, _ = plane(25)
        covariance = kernel(X) + 0.1 * np.eye(25)
        scores, informations = [], []
        for y in multivariate_normal(np.zeros(25), covariance).rvs(150, random_state=rng):
            _, score, information = made(Rows(X, y), 25, m, kernel)(kernel, free(kernel, 0.1))
            scores.append(score)
            informations.append(information)
        mean = np.mean(informations, axis=0)
        assert np.abs(np.mean(scores, axis=0) / np.sqrt(np.diag(mean) / 150)).max() < 3.5
        if m == 24:  # the product of all conditionals is the density that y was drawn from
            np.testing.assert_allclose(np.cov(np.transpose(scores)), mean, atol=0.4 * np.diag(mean).max())
            np.testing.assert_allclose(np.diag(np.cov(np.transpose(scores))), np.diag(mean), rtol=0.4)

    def test_its_mean_is_the_fisher_information_of_dense_algebra(self) -> None:
        kernel, rng = RationalQuadraticKernel([0.9, 1.6], 1.4, alpha=0.8), np.random.default_rng(0)
        X, _ = plane(25)
        at, step = free(kernel, 0.1), 1e-6

        def covariance(logarithms: Floats) -> Floats:
            return kernel.with_theta(logarithms[:-1])(X) + np.exp(logarithms[-1]) * np.eye(25)

        changes = [
            np.linalg.solve(covariance(at), covariance(at + step * unit) - covariance(at - step * unit)) / (2 * step)
            for unit in np.eye(len(at))
        ]
        expected = 0.5 * np.array([[np.trace(a @ b) for b in changes] for a in changes])
        draws = multivariate_normal(np.zeros(25), covariance(at)).rvs(150, random_state=rng)
        found = np.array([made(Rows(X, y), 25, 24, kernel)(kernel, at)[2] for y in draws])
        off: Any = (found.mean(axis=0) - expected) / (found.std(axis=0) / np.sqrt(150))
        assert np.abs(off).max() < 4.0
