"""The allocation of columns to degrees: its error terms from their definitions, and its optimum by brute force."""

import math
import warnings
from collections.abc import Iterator
from decimal import Decimal, localcontext
from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from lmgp import GaussianKernel, OptimizedMaclaurinFeatures, TaylorFeatures
from lmgp.features.allocation import ErrorTerms, allocate
from lmgp.features.sketches import SKETCHES, Sketch

Floats = NDArray[np.float64]


def padded(d: int) -> int:
    order = 1
    while order < d:
        order *= 2
    return order


def definitions(groups: list[Floats], sketch: Sketch, max_degree: int) -> tuple[Floats, Floats, Floats]:
    """V_n, C_n and B_p, pair by pair and with 80 digits: nothing overflows, nothing cancels."""
    with localcontext() as context:
        context.prec = 80
        totals = [[Decimal(0)] * (max_degree + 1) for _ in range(3)]
        count = n_rows = 0
        for group in groups:
            exact = [[Decimal(float(value)) for value in row] for row in group]
            for x, z in combinations(exact, 2):
                count += 1
                products = [xi * zi for xi, zi in zip(x, z, strict=True)]
                a = sum(products)
                r2, t2 = sum(xi * xi for xi in x), sum(zi * zi for zi in z)
                q, s = r2 * t2, sum(p * p for p in products)
                damping = (-(r2 + t2)).exp()
                kernel = (-sum((xi - zi) ** 2 for xi, zi in zip(x, z, strict=True)) / 2).exp()
                series = Decimal(1)
                root = damping.sqrt()
                totals[2][0] += 2 * (kernel - root) ** 2
                for n in range(1, max_degree + 1):
                    scale = damping / Decimal(math.factorial(n)) ** 2
                    column = (q + 2 * a * a) if sketch == "gaussian" else (q + 2 * (a * a - s))
                    totals[0][n] += scale * (column**n - a ** (2 * n))
                    if sketch == "tensor_srht":
                        shared = a * a - (q + a * a - 2 * s) / (padded(len(x)) - 1)
                        totals[1][n] += scale * (shared**n - a ** (2 * n))
                    series += a**n / math.factorial(n)
                    totals[2][n] += 2 * (kernel - root * series) ** 2
            for x in exact:
                n_rows += 1
                r2 = sum(xi * xi for xi in x)
                series = Decimal(1)
                totals[2][0] += (1 - (-r2).exp()) ** 2
                for n in range(1, max_degree + 1):
                    series += r2**n / math.factorial(n)
                    totals[2][n] += (1 - (-r2).exp() * series) ** 2
        counts = count, count, 2 * count + n_rows  # of ordered pairs, each row with itself among them
        means = [[float(total / number) for total in row] for row, number in zip(totals, counts, strict=True)]
    return np.array(means[0]), np.array(means[1]), np.array(means[2])


def check_terms(groups: list[Floats], sketch: Sketch, max_degree: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = ErrorTerms.of_groups(groups, sketch, max_degree)
    variance, covariance, truncation = definitions(groups, sketch, max_degree)
    assert found.n_inputs == groups[0].shape[1]
    np.testing.assert_allclose(found.variance, variance, rtol=1e-10, atol=1e-290)
    # The covariance is a difference of two terms, each at most as large as the variance's.
    assert np.all(np.abs(found.covariance - covariance) <= 1e-10 * np.maximum(np.abs(covariance), variance) + 1e-290)
    # k and k_p are at most 1, and known to rounding: so is the root of the mean squared difference.
    np.testing.assert_allclose(np.sqrt(found.truncation), np.sqrt(truncation), rtol=1e-10, atol=2e-15)


def spread(n: int, d: int, largest: float, seed: int = 0) -> Floats:
    """Rows in all directions with norms from 0.2 to `largest`, and a few next to each other."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((n, d))
    X = directions / np.linalg.norm(directions, axis=1)[:, None] * np.geomspace(0.2, largest, n)[:, None]
    X[1] = X[-1] + 0.1 / np.sqrt(d)
    return X


# --------------------------------------------------------------------------------------------------------- error terms


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("d", [2, 3, 5, 8])
def test_error_terms_are_those_of_their_definition(sketch: Sketch, d: int) -> None:
    groups = [0.7 * np.random.default_rng(seed).standard_normal((n, d)) for seed, n in enumerate((8, 5, 2))]
    check_terms(groups, sketch, 8)


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("largest", [6.0, 50.0, 1e3])
def test_error_terms_of_rows_far_out_are_exact(sketch: Sketch, largest: float) -> None:
    check_terms([spread(16, 3, largest)], sketch, 15)
    # And without any row near the centre.
    check_terms([spread(6, 3, 1.0) + 0.6 * largest], sketch, 15)


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("largest", [50.0, 1e3, 1e8])
def test_a_map_of_rows_far_out_is_finite(sketch: Sketch, largest: float) -> None:
    X = spread(60, 3, largest)
    for allocation in ("local", "mean"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            fitted = OptimizedMaclaurinFeatures(40, sketch=sketch, allocation=allocation, random_state=0).fit(X)
            features = fitted.transform(X)
        assert fitted.degree_counts_.sum() == 40
        assert np.isfinite(features).all()


def test_degree_zero_is_exact_and_costs_nothing() -> None:
    terms = ErrorTerms.of_groups([spread(8, 3, 2.0)], "tensor_srht", 3)
    assert terms.variance[0] == terms.covariance[0] == 0.0


# ------------------------------------------------------------------------------------------------------- the algorithm


def allocations(budget: int, max_degree: int) -> Iterator[list[int]]:
    """All ways to give a constant, and degrees 1 to p one column or more, exactly `budget` columns; p from 2 up."""
    highest = min(max_degree, budget - 1)
    for degree in range(min(2, highest), highest + 1):
        for cuts in combinations(range(1, budget - 1), degree - 1):
            edges = (0, *cuts, budget - 1)
            yield [1, *(right - left for left, right in pairwise(edges))]


def objective(terms: tuple[Floats, Floats, Floats], counts: list[int], d: int) -> float:
    """Σ terms + B_p, as the method states them."""
    variance, covariance, truncation = terms
    order = padded(d)
    total = [truncation[len(counts) - 1]]
    for n, m in enumerate(counts[1:], start=1):
        if covariance[n] > 0:
            total.append((variance[n] + (order - 1) * covariance[n]) / m)
        else:
            c = (m // order) * order * (order - 1) + (m % order) * (m % order - 1)
            total.append(variance[n] / m + c / m**2 * covariance[n])
    return math.fsum(total)


@pytest.mark.parametrize(("budget", "max_degree", "n_expected"), [(4, 4, 3), (6, 3, 10), (2, 4, 1), (5, 1, 1)])
def test_brute_force_tries_every_allocation(budget: int, max_degree: int, n_expected: int) -> None:
    tried = list(allocations(budget, max_degree))
    assert len(set(map(tuple, tried))) == len(tried) == n_expected
    assert all(sum(counts) == budget and min(counts) >= 1 for counts in tried)


def small_cases(sketch: Sketch, n_cases: int) -> Iterator[tuple[list[Floats], int, int, int]]:
    rng = np.random.default_rng(SKETCHES.index(sketch))
    for _ in range(n_cases):
        d = int(rng.integers(2, 9))
        scale = 10 ** rng.uniform(-1.0, 0.7) / np.sqrt(d)
        groups = [scale * rng.standard_normal((6, d)) + scale * rng.standard_normal(d) for _ in range(2)]
        yield groups, d, int(rng.integers(2, 13)), int(rng.integers(1, 5))


@pytest.mark.parametrize("sketch", SKETCHES)
def test_the_allocation_is_the_best_of_all(sketch: Sketch) -> None:
    ratios, degrees = [], set()
    for groups, d, budget, max_degree in small_cases(sketch, 300):
        terms = ErrorTerms.of_groups(groups, sketch, max_degree)
        found = allocate(terms, budget, max_degree)
        tried = list(allocations(budget, max_degree))
        assert found in tried
        arrays = (terms.variance, terms.covariance, terms.truncation)
        best = min(objective(arrays, counts, d) for counts in tried)
        ratios.append(objective(arrays, found, d) / best)
        degrees.add(len(found) - 1)
    assert degrees == {1, 2, 3, 4}, "the cases are too much alike to see anything"
    # TensorSRHT's terms are not convex: the incremental algorithm only comes close.
    assert max(ratios) <= (1.03 if sketch == "tensor_srht" else 1 + 1e-12)
    assert np.mean(np.array(ratios) < 1 + 1e-12) > 0.9


@pytest.mark.parametrize("seed", range(20))
def test_the_allocation_is_the_best_for_any_terms(seed: int) -> None:
    # Not only for terms of Gaussian kernels: the cut is where the terms are large and the remainders differ.
    rng = np.random.default_rng(seed)
    terms = ErrorTerms(10 ** rng.uniform(-3, 1, 5), np.zeros(5), np.sort(10 ** rng.uniform(-4, 1, 5))[::-1], 4)
    arrays = (terms.variance, terms.covariance, terms.truncation)
    for budget in range(2, 12):
        found = objective(arrays, allocate(terms, budget, 4), 4)
        best = min(objective(arrays, counts, 4) for counts in allocations(budget, 4))
        assert found <= best * (1 + 1e-12)


@pytest.mark.parametrize("sketch", SKETCHES)
def test_the_error_of_a_degree_is_as_stated(sketch: Sketch) -> None:
    for d in (2, 3, 8):
        terms = ErrorTerms.of_groups([np.random.default_rng(d).standard_normal((9, d))], sketch, 4)
        arrays = (terms.variance, terms.covariance, np.zeros(5))
        for m in range(1, 30):
            for n in range(1, 5):
                others = [1] * n
                expected = objective(arrays, [*others, m], d) - objective(arrays, others, d)
                assert terms.of_columns(n, m) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("d", [2, 3, 8])
def test_columns_that_repeat_each_other_cost_their_bound(d: int) -> None:
    # At even degrees the covariance can be positive: then the convex bound stands for the term.
    variance, covariance = np.array([0.0, 0.7, 0.9]), np.array([0.0, -0.05, 0.03])
    arrays = (variance, covariance, np.zeros(3))
    terms = ErrorTerms(*arrays, d)
    for m in range(1, 30):
        assert terms.of_columns(1, m) == pytest.approx(objective(arrays, [1, m], d), rel=1e-14)
        assert terms.of_columns(2, m) == pytest.approx((0.9 + (padded(d) - 1) * 0.03) / m, rel=1e-14)


def test_a_large_allocation_cannot_be_improved_by_moving_a_column() -> None:
    terms = ErrorTerms.of_groups([0.6 * np.random.default_rng(0).standard_normal((60, 5))], "rademacher", 15)
    arrays = (terms.variance, terms.covariance, terms.truncation)
    counts = allocate(terms, 1024, 15)
    assert sum(counts) == 1024
    error = objective(arrays, counts, 5)
    for giver in range(1, len(counts)):
        for taker in range(1, len(counts)):
            moved = counts.copy()
            moved[giver] -= 1
            moved[taker] += 1
            assert moved[giver] == 0 or objective(arrays, moved, 5) >= error * (1 - 1e-12)


# -------------------------------------------------------------------------------------------------------------- the map


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize("n_features", [2, 3, 4, 17, 100])
def test_counts_sum_to_the_columns_with_one_constant(sketch: Sketch, n_features: int) -> None:
    X = 0.6 * np.random.default_rng(0).standard_normal((40, 4))
    fitted = OptimizedMaclaurinFeatures(n_features, sketch=sketch, random_state=0).fit(X)
    counts = fitted.degree_counts_
    assert counts.sum() == fitted.n_features_out_ == n_features
    assert counts[0] == 1
    assert counts.min() >= 1
    assert len(counts) == fitted.degree_ + 1
    assert fitted.degree_ >= min(2, n_features - 1)


@pytest.mark.parametrize("max_degree", [1, 2, 4])
def test_the_highest_degree_is_respected(max_degree: int) -> None:
    # Norms up to 3: without a limit the degrees go higher.
    X = np.random.default_rng(0).uniform(-1.7, 1.7, (100, 3))
    free = OptimizedMaclaurinFeatures(400, random_state=0).fit(X)
    assert free.degree_ > 4
    fitted = OptimizedMaclaurinFeatures(400, max_degree=max_degree, random_state=0).fit(X)
    assert fitted.degree_ == max_degree
    assert fitted.degree_counts_.sum() == 400


def test_a_map_uses_the_allocation_of_all_pairs() -> None:
    X = 0.8 * np.random.default_rng(3).standard_normal((40, 4))
    lengthscale = np.array([1.0, 2.0, 0.7, 1.3])
    for sketch in SKETCHES:
        expected = allocate(ErrorTerms.of_groups([X / lengthscale], sketch, 15), 200, 15)
        for allocation in ("local", "mean"):
            fitted = OptimizedMaclaurinFeatures(
                200, sketch=sketch, allocation=allocation, kernel=GaussianKernel(lengthscale, 5.0), random_state=0
            ).fit(X)
            assert fitted.degree_counts_.tolist() == expected


# ----------------------------------------------------------------------------------------------------------- edge cases


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize(("n_features", "max_degree"), [(2, 15), (9, 15), (300, 15), (300, 40), (50, 3)])
def test_one_input_column_needs_no_sketch(sketch: Sketch, n_features: int, max_degree: int) -> None:
    X = np.random.default_rng(0).uniform(-3.0, 3.0, (30, 1))
    kernel = GaussianKernel(0.8, 1.0)
    fitted = OptimizedMaclaurinFeatures(
        n_features, sketch=sketch, max_degree=max_degree, kernel=kernel, random_state=0
    ).fit(X)
    made = min(n_features, max_degree + 1)
    assert fitted.n_features_out_ == made
    assert fitted.degree_counts_.tolist() == [1] * made
    assert fitted.degree_ == made - 1
    expected = TaylorFeatures(made, kernel=kernel).fit_transform(X)
    np.testing.assert_allclose(fitted.transform(X), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize(
    "X",
    [
        np.array([[0.3, -0.2, 0.1]]),
        np.zeros((1, 3)),
        np.zeros((20, 3)),
        np.full((20, 3), 0.4),
        np.repeat(np.eye(3), 5, axis=0),
        np.tile([0.3, 0.0, 0.0], (20, 1)) * np.linspace(-1.0, 1.0, 20)[:, None],
    ],
    ids=["one row", "one at the centre", "all at the centre", "duplicates", "few distinct", "constant columns"],
)
def test_degenerate_rows_get_a_full_allocation(sketch: Sketch, X: Floats) -> None:
    for allocation in ("local", "mean"):
        for n_features in (2, 3, 25):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                fitted = OptimizedMaclaurinFeatures(
                    n_features, sketch=sketch, allocation=allocation, random_state=0
                ).fit(X)
                features = fitted.transform(X)
            assert features.shape == (len(X), n_features)
            assert fitted.degree_counts_.sum() == n_features
            assert fitted.degree_counts_.min() >= 1
            assert np.isfinite(features).all()
