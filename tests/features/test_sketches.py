"""Polynomial sketches: what is drawn, and the mean and the variance of φ(x)ᵀφ(z) by simulation.

The expected variances are written out here from Table 1 of the paper, pair by pair; those by the library's terms are
compared with them exactly, and both with drawn sketches within five standard errors.
"""

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import linalg

from lmgp.features.sketches import (
    SKETCHES,
    Sketch,
    draw_sketch,
    hadamard,
    padded_size,
    variance_terms,
    within_blocks,
)

Floats = NDArray[np.float64]


def products(weights: Floats, x: Floats, z: Floats) -> Floats:
    """φ(x)ᵀφ(z) of weights (degree, …, m, d) by the definition: columns multiplied, averaged over m."""
    return np.mean(np.prod(weights @ x, axis=0) * np.prod(weights @ z, axis=0), axis=-1)


def table_1(sketch: Sketch, n: int, m: int, x: Floats, z: Floats) -> float:
    """The variance in the paper's form, with plain numbers and the padded dimension for TensorSRHT."""
    a, q, s = float(x @ z), float((x @ x) * (z @ z)), float(np.sum(x**2 * z**2))
    if sketch == "gaussian":
        return ((q + 2 * a**2) ** n - a ** (2 * n)) / m
    rademacher = ((q + 2 * (a**2 - s)) ** n - a ** (2 * n)) / m
    if sketch == "rademacher":
        return rademacher
    d = 1
    while d < len(x):
        d *= 2
    c = (m // d) * d * (d - 1) + (m % d) * (m % d - 1)
    return rademacher - c / m**2 * (a ** (2 * n) - (a**2 - (q + a**2 - 2 * s) / (d - 1)) ** n)


def pairs(d: int) -> list[tuple[Floats, Floats]]:
    """A row with itself, unequal, close, orthogonal and opposite rows."""
    rng = np.random.default_rng(d)
    # Entries of unequal sizes: the more alike they are, the heavier are the tails of a product of factors.
    sizes = 0.5 ** np.arange(d)
    x, z = sizes * rng.choice([-1.0, 1.0], d), rng.permutation(sizes) * rng.choice([-1.0, 1.0], d)
    x, z = x / np.linalg.norm(x), z / np.linalg.norm(z)
    orthogonal = z - (x @ z) * x
    return [(x, x), (x, z), (x, 0.8 * x + 0.3 * z), (x, orthogonal / np.linalg.norm(orthogonal)), (1.3 * x, -0.7 * x)]


def terms(x: Floats, z: Floats) -> tuple[Floats, Floats, Floats]:
    return np.array([x @ z]), np.array([(x @ x) * (z @ z)]), np.array([np.sum(x**2 * z**2)])


# ------------------------------------------------------------------------------------------------------------ hadamard


@pytest.mark.parametrize("order", [1, 2, 4, 8, 64, 512])
def test_hadamard_rows_are_those_of_sylvester(order: int) -> None:
    np.testing.assert_array_equal(hadamard(np.arange(order), order), linalg.hadamard(order))
    some = np.random.default_rng(0).permutation(order)[: order // 2 + 1]
    n_columns = max(1, order - 3)
    np.testing.assert_array_equal(hadamard(some, n_columns), linalg.hadamard(order)[some, :n_columns])


def test_sizes_are_padded_to_powers_of_two() -> None:
    sizes = [padded_size(n) for n in (1, 2, 3, 4, 5, 8, 9, 64, 65, 1000)]
    assert sizes == [1, 2, 4, 4, 8, 8, 16, 64, 128, 1024]


# --------------------------------------------------------------------------------------------------------------- draws


@pytest.mark.parametrize("sketch", SKETCHES)
@pytest.mark.parametrize(("degree", "n_columns", "d"), [(1, 1, 1), (1, 5, 3), (3, 4, 4), (4, 19, 5), (0, 3, 2)])
def test_a_sketch_has_one_matrix_for_each_factor(sketch: Sketch, degree: int, n_columns: int, d: int) -> None:
    weights = draw_sketch(sketch, degree, n_columns, d, np.random.default_rng(0))
    assert weights.shape == (degree, n_columns, d)
    assert weights.dtype == np.float64
    if sketch != "gaussian":
        np.testing.assert_array_equal(np.abs(weights), 1.0)
    np.testing.assert_array_equal(draw_sketch(sketch, degree, n_columns, d, np.random.default_rng(0)), weights)


@pytest.mark.parametrize("d", [2, 4, 16])
@pytest.mark.parametrize("n_blocks", [1, 3])
def test_srht_blocks_are_orthogonal_and_drawn_anew(d: int, n_blocks: int) -> None:
    weights = draw_sketch("tensor_srht", 3, n_blocks * d + d // 2, d, np.random.default_rng(1))
    for factor in weights:
        for start in range(0, len(factor), d):
            block = factor[start : start + d]
            np.testing.assert_array_equal(block @ block.T, d * np.eye(len(block)))
    if d == 16:
        blocks = [factor[start : start + d] for factor in weights for start in range(0, n_blocks * d, d)]
        for i, left in enumerate(blocks):
            for right in blocks[:i]:
                # Neither the signs nor the rows are the same: the first row removes the signs.
                assert not np.array_equal(left, right)
                assert not np.array_equal(left * left[0], right * right[0])


def test_srht_rows_are_drawn_uniformly() -> None:
    # Without its signs a column of d - 1 Hadamard rows misses each row equally often.
    d, n_draws = 4, 4000
    rng = np.random.default_rng(0)
    counts = np.zeros(d)
    table = linalg.hadamard(d)
    for _ in range(n_draws):
        block = draw_sketch("tensor_srht", 1, d - 1, d, rng)[0]
        # The product of two rows is free of the signs and is the Hadamard row of the exclusive or of their numbers.
        difference = block[0] * block[1]
        counts[np.flatnonzero((table == difference).all(axis=1))[0]] += 1
    assert counts[0] == 0
    expected = n_draws / (d - 1)
    assert np.sum((counts[1:] - expected) ** 2 / expected) < 27.6  # the chi-square with 2 degrees at p = 1e-6


@pytest.mark.parametrize(
    ("m", "d", "expected"), [(1, 4, 0), (3, 4, 6), (4, 3, 12), (4, 4, 12), (11, 4, 30), (19, 5, 118), (16, 8, 112)]
)
def test_columns_that_share_a_block_are_counted(m: int, d: int, expected: int) -> None:
    block = np.arange(m) // padded_size(d)
    assert np.sum(block[:, None] == block) - m == expected
    assert within_blocks(m, d) == expected


# ------------------------------------------------------------------------------------------------------------- moments


@pytest.mark.parametrize("sketch", SKETCHES)
def test_the_variance_is_that_of_table_1(sketch: Sketch) -> None:
    for d, degree, m in product((2, 3, 4, 7, 8, 16), (1, 2, 3, 4, 9), (1, 3, 4, 5, 8, 11, 40)):
        for x, z in pairs(d):
            expected = table_1(sketch, degree, m, x, z)
            scale = table_1("gaussian", degree, m, x, z)
            found = sketch_variance(sketch, degree, m, d, x, z)
            np.testing.assert_allclose(found, [expected], rtol=1e-12, atol=1e-13 * scale)


def sketch_variance(sketch: Sketch, degree: int, m: int, d: int, x: Floats, z: Floats) -> Floats:
    """The variance of a sketch of m columns, from the terms of one column and of two in one block."""
    single, shared = variance_terms(sketch, degree, d, *terms(x, z))
    return single / m + shared * within_blocks(m, d) / m**2


def column_moments(sketch: Sketch, degree: int, x: Floats, z: Floats) -> tuple[float, float]:
    """The variance and the fourth central moment of one column's φ(x)φ(z), exactly."""
    if sketch == "gaussian":
        # Gauss-Hermite quadrature in the plane of x and z is exact for polynomials of this degree.
        nodes, weights = np.polynomial.hermite_e.hermegauss(8)
        along, across = np.meshgrid(nodes, nodes)
        chances = np.outer(weights, weights) / np.sum(weights) ** 2
        a = (x @ z) / np.linalg.norm(x)
        factor = np.linalg.norm(x) * along * (a * along + np.sqrt(max(0.0, z @ z - a**2)) * across)
    else:
        signs = np.array(list(product([-1.0, 1.0], repeat=len(x))))
        factor, chances = (signs @ x) * (signs @ z), np.full(len(signs), 1 / len(signs))
    mean, second, third, fourth = (float(np.sum(chances * factor**k)) ** degree for k in (1, 2, 3, 4))
    return second - mean**2, fourth - 4 * mean * third + 6 * mean**2 * second - 3 * mean**4


def check_moments(drawn: Floats, x: Floats, z: Floats, sketch: Sketch, degree: int, m: int) -> None:
    """Compare the mean and the variance of drawn φ(x)ᵀφ(z), one a sketch of m columns, with their formulas.

    The distribution has heavy tails at high degrees, so that the fourth moment of the draws falls short of the true
    one; the standard error of their variance therefore comes from the exact moments of a column.
    """
    variance = table_1(sketch, degree, m, x, z)
    centred = drawn - (x @ z) ** degree
    rounding = 1e-12  # where nothing varies: a whole Hadamard basis at degree 1
    assert abs(centred.mean()) < 5 * np.sqrt(max(variance, 0.0) / len(drawn)) + rounding

    second, fourth = column_moments(sketch, degree, x, z)
    of_columns = (fourth + 3 * (m - 1) * second**2) / m**3 - (second / m) ** 2
    sample = np.mean(centred**2)
    if sketch == "tensor_srht":
        # Columns of one block depend on each other, the less the higher the degree.
        of_draws = np.mean(centred**4) - sample**2
        of_columns = of_draws if degree <= 2 else max(of_draws, of_columns)
    standard_error = np.sqrt(of_columns / len(drawn))
    assert abs(sample - variance) < 5 * standard_error + rounding, (sample, variance, standard_error)


@pytest.mark.parametrize("degree", [1, 2, 3, 4])
@pytest.mark.parametrize(("sketch", "d"), [("gaussian", 3), ("gaussian", 4), ("rademacher", 3), ("rademacher", 8)])
def test_sketches_of_independent_columns_have_their_mean_and_variance(sketch: Sketch, d: int, degree: int) -> None:
    # One long sketch, cut into sketches of m columns: they are independent.
    m, n_draws = 16, 12_000
    weights = draw_sketch(sketch, degree, m * n_draws, d, np.random.default_rng(degree))
    weights = weights.reshape(degree, n_draws, m, d)
    for x, z in pairs(d):
        check_moments(products(weights, x, z), x, z, sketch, degree, m)


@pytest.mark.slow
@pytest.mark.parametrize("degree", [1, 2, 3])
@pytest.mark.parametrize(
    ("d", "m"),
    [(3, 3), (3, 4), (3, 11), (4, 2), (6, 21), (8, 16)],
)
def test_tensor_srht_has_its_mean_and_variance(d: int, m: int, degree: int) -> None:
    # Below, equal to and above the padded dimension, multiples of it or not.
    rng = np.random.default_rng(100 * d + 10 * m + degree)
    weights = np.stack([draw_sketch("tensor_srht", degree, m, d, rng) for _ in range(1500)], axis=1)
    for x, z in pairs(d):
        check_moments(products(weights, x, z), x, z, "tensor_srht", degree, m)


@pytest.mark.parametrize("sketch", SKETCHES)
def test_drawn_sketches_of_one_size_have_its_variance(sketch: Sketch) -> None:
    # As a map draws them: every sketch by itself.
    d, m, degree = 5, 6, 2
    rng = np.random.default_rng(0)
    weights = np.stack([draw_sketch(sketch, degree, m, d, rng) for _ in range(3000)], axis=1)
    for x, z in pairs(d):
        check_moments(products(weights, x, z), x, z, sketch, degree, m)


@pytest.mark.parametrize("degree", [1, 3, 5])
def test_tensor_srht_never_raises_the_variance_at_odd_degrees(degree: int) -> None:
    # q + a² − 2s = ½ Σ (xᵢzⱼ + xⱼzᵢ)² over i ≠ j.
    rng = np.random.default_rng(degree)
    for d in (2, 3, 8, 11):
        for x, z in rng.standard_normal((50, 2, d)):
            for m in (1, 2, 7, 40):
                of = {sketch: sketch_variance(sketch, degree, m, d, x, z)[0] for sketch in SKETCHES}
                assert of["tensor_srht"] <= of["rademacher"] * (1 + 1e-12)
                assert of["rademacher"] <= of["gaussian"]
