"""Fourier maps: the distribution of the frequencies, and the variance and bias that follow from it.

Distributions are compared by Kolmogorov-Smirnov tests at a fixed seed, rejected below p = 1e-6 (about five sigma).
"""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from lmgp import (
    GaussianKernel,
    LinearKernel,
    MaternKernel,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    RationalQuadraticKernel,
    StructuredOrthogonalFourierFeatures,
)
from lmgp.errors import InputError

Floats = NDArray[np.float64]
MAPS = [RandomFourierFeatures, OrthogonalFourierFeatures, StructuredOrthogonalFourierFeatures]
REJECTED = 1e-6


def frequencies(cls: type, n_frequencies: int, d: int, seed: int) -> Floats:
    fitted = cls(2 * n_frequencies, random_state=seed).fit(np.zeros((1, d)))
    assert fitted.frequencies_.shape == (n_frequencies, d)
    return fitted.frequencies_


def errors(cls: type, n_features: int, differences: Floats, seeds: range) -> Floats:
    """φ(x)ᵀφ(z) − k(x, z) at x − z = each difference, for each seed."""
    # Blocks that are cut depend on what follows them: each map is drawn by itself.
    X = np.vstack((np.zeros(differences.shape[1]), differences))
    kernel = np.exp(-np.square(differences).sum(axis=1) / 2)
    result = np.empty((len(seeds), len(differences)))
    for i, seed in enumerate(seeds):
        features = cls(n_features, random_state=seed).fit_transform(X)
        result[i] = features[1:] @ features[0] - kernel
    return result


def errors_in_one_draw(cls: type, n_features: int, differences: Floats, n_draws: int, seed: int = 0) -> Floats:
    """As `errors`, of maps of whole blocks: one large map has the frequencies of all of them."""
    X = np.vstack((np.zeros(differences.shape[1]), differences))
    kernel = np.exp(-np.square(differences).sum(axis=1) / 2)
    features = np.sqrt(n_draws) * cls(n_draws * n_features, random_state=seed).fit_transform(X)
    assert features.shape[1] == n_draws * n_features
    # Cosines of all frequencies, then their sines.
    products = (features[1:] * features[0]).reshape(len(differences), 2, n_draws, n_features // 2)
    return products.sum(axis=(1, 3)).T - kernel


def differences(d: int, distances: list[float], seed: int = 0) -> Floats:
    directions = np.random.default_rng(seed).standard_normal((len(distances), d))
    return directions / np.linalg.norm(directions, axis=1)[:, None] * np.array(distances)[:, None]


# ------------------------------------------------------------------------------------------------------------- all maps


@pytest.mark.parametrize("cls", MAPS)
@pytest.mark.parametrize("scale", [1.0, 50.0, 1e8])
def test_the_square_of_every_row_is_the_variance(cls: type, scale: float) -> None:
    X = scale * np.random.default_rng(0).standard_normal((30, 5))
    features = cls(46, kernel=GaussianKernel([1.0, 2.0, 0.5, 1.0, 3.0], 3.7), random_state=0).fit_transform(X)
    np.testing.assert_allclose(np.square(features).sum(axis=1), 3.7, rtol=1e-13)


@pytest.mark.parametrize("cls", MAPS)
def test_columns_are_cosines_and_sines_of_the_same_angles(cls: type) -> None:
    X = np.random.default_rng(0).standard_normal((7, 3))
    lengthscale = np.array([1.0, 2.0, 0.5])
    fitted = cls(20, kernel=GaussianKernel(lengthscale, 3.0), random_state=0).fit(X)
    angles = X @ fitted.frequencies_.T
    expected = np.sqrt(3.0 / 10) * np.hstack((np.cos(angles), np.sin(angles)))
    np.testing.assert_allclose(fitted.transform(X), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("cls", MAPS)
def test_a_kernel_value_depends_on_the_difference_alone(cls: type) -> None:
    rng = np.random.default_rng(0)
    X, shift = rng.standard_normal((6, 3)), 10.0 * rng.standard_normal(3)
    fitted = cls(64, random_state=0).fit(X)
    here, there = fitted.transform(X), fitted.transform(X + shift)
    np.testing.assert_allclose(there @ there.T, here @ here.T, atol=1e-12)


@pytest.mark.parametrize("cls", MAPS)
@pytest.mark.parametrize("d", [1, 3, 70])
@pytest.mark.parametrize(("n_small", "n_large"), [(2, 46), (9, 46), (46, 47), (130, 300)])
def test_a_map_of_fewer_columns_has_the_first_frequencies_of_one_of_more(
    cls: type, d: int, n_small: int, n_large: int
) -> None:
    X = np.random.default_rng(0).standard_normal((9, d))
    kernel = GaussianKernel(np.linspace(0.5, 2.0, d), 2.3)
    small, large = (cls(size, kernel=kernel, random_state=4).fit(X) for size in (n_small, n_large))
    np.testing.assert_array_equal(small.frequencies_, large.frequencies_[: len(small.frequencies_)])


# --------------------------------------------------------------------------------------------------------- independent


def test_independent_frequencies_are_standard_normal() -> None:
    drawn = frequencies(RandomFourierFeatures, 20_000, 3, seed=0)
    for j in range(3):
        assert stats.kstest(drawn[:, j], "norm").pvalue > REJECTED
    assert stats.kstest(np.square(drawn).sum(axis=1), "chi2", args=(3,)).pvalue > REJECTED
    # Uncorrelated between inputs, and from one frequency to the next: standard error 1/√20,000.
    np.testing.assert_allclose(np.corrcoef(drawn.T) - np.eye(3), 0.0, atol=5 / np.sqrt(20_000))
    np.testing.assert_allclose(drawn[1:].T @ drawn[:-1] / 20_000, 0.0, atol=5 / np.sqrt(20_000))


@pytest.mark.parametrize("d", [1, 2, 5])
def test_independent_frequencies_have_the_variance_of_pairs(d: int) -> None:
    # Var[cos ωᵀδ] = ½(1 − e^(−‖δ‖²))², averaged over D/2 frequencies.
    distances = [0.1, 0.5, 1.0, 2.0, 4.0]
    found = errors_in_one_draw(RandomFourierFeatures, 24, differences(d, distances), 2000)
    centred = found - found.mean(axis=0)
    variance = found.var(axis=0, ddof=1)
    standard_error = np.sqrt((np.mean(centred**4, axis=0) - variance**2) / len(found))
    expected = (1 - np.exp(-np.square(distances))) ** 2 / 24
    assert np.all(standard_error < 0.1 * expected)
    np.testing.assert_array_less(np.abs(variance - expected), 5 * standard_error)


# ---------------------------------------------------------------------------------------------------------- orthogonal


@pytest.mark.parametrize(("d", "n_frequencies"), [(1, 5), (2, 7), (5, 13), (8, 24), (40, 24)])
def test_orthogonal_frequencies_are_orthogonal_in_blocks(d: int, n_frequencies: int) -> None:
    drawn = frequencies(OrthogonalFourierFeatures, n_frequencies, d, seed=0)
    norms = np.linalg.norm(drawn, axis=1)
    cosines = (drawn @ drawn.T) / (norms[:, None] * norms)
    block = np.arange(n_frequencies) // d
    same = block[:, None] == block
    np.testing.assert_allclose(cosines[same], np.eye(n_frequencies)[same], atol=1e-13)
    # Blocks are independent: never orthogonal to each other.
    assert d > n_frequencies or np.all(np.abs(cosines[~same]) > 1e-12)


@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_orthogonal_frequencies_have_independent_chi_norms(d: int) -> None:
    norms = np.linalg.norm(frequencies(OrthogonalFourierFeatures, 4000 * d, d, seed=1), axis=1)
    assert stats.kstest(norms, "chi", args=(d,)).pvalue > REJECTED
    if d > 1:
        blocks = norms.reshape(4000, d)
        np.testing.assert_allclose(np.corrcoef(blocks.T) - np.eye(d), 0.0, atol=5 / np.sqrt(4000))


@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_each_orthogonal_frequency_is_standard_normal(d: int) -> None:
    blocks = frequencies(OrthogonalFourierFeatures, 4000 * d, d, seed=2).reshape(4000, d, d)
    direction = np.arange(1.0, d + 1) / np.linalg.norm(np.arange(1.0, d + 1))
    for place in range(d):
        # Along the axes too: a QR without its sign fix has a fixed sign on the diagonal.
        assert stats.kstest(blocks[:, place, place], "norm").pvalue > REJECTED
        assert stats.kstest(blocks[:, place, -1], "norm").pvalue > REJECTED
        assert stats.kstest(blocks[:, place] @ direction, "norm").pvalue > REJECTED
    # Rotations and reflections alike: standard error of a fair coin.
    reflections = np.mean(np.linalg.det(blocks) < 0)
    assert abs(reflections - 0.5) < 5 * 0.5 / np.sqrt(4000)


@pytest.mark.parametrize("d", [4, 8])
def test_orthogonal_frequencies_have_a_lower_error_than_independent_ones(d: int) -> None:
    apart = differences(d, [0.5, 1.0, 1.5, 2.0])
    independent = np.square(errors_in_one_draw(RandomFourierFeatures, 4 * d, apart, 1000)).mean(axis=1)
    orthogonal = np.square(errors_in_one_draw(OrthogonalFourierFeatures, 4 * d, apart, 1000)).mean(axis=1)
    gain = independent.mean() - orthogonal.mean()
    assert gain > 5 * np.sqrt((independent.var(ddof=1) + orthogonal.var(ddof=1)) / 1000)


def test_orthogonal_frequencies_have_the_variance_of_their_definition() -> None:
    # Against a simulation that shares nothing with the library.
    d, n_draws = 4, 2500
    apart = differences(d, [0.7, 1.5, 2.5])
    rng = np.random.default_rng(0)
    bases = stats.ortho_group(d, seed=rng).rvs(n_draws)
    omega = bases * stats.chi(d).rvs((n_draws, d, 1), random_state=rng)
    expected = np.cos(omega @ apart.T).mean(axis=1) - np.exp(-np.square(apart).sum(axis=1) / 2)
    found = errors_in_one_draw(OrthogonalFourierFeatures, 2 * d, apart, n_draws)
    squares = [np.square(found), np.square(expected)]
    standard_error = np.sqrt(sum(part.var(axis=0, ddof=1) / n_draws for part in squares))
    np.testing.assert_array_less(np.abs(squares[0].mean(axis=0) - squares[1].mean(axis=0)), 5 * standard_error)


# ---------------------------------------------------------------------------------------------------------- structured


@pytest.mark.parametrize(("d", "order"), [(1, 64), (2, 64), (5, 64), (64, 64), (65, 128), (100, 128)])
def test_a_structured_block_is_orthogonal_and_padded_to_64_at_least(d: int, order: int) -> None:
    drawn = frequencies(StructuredOrthogonalFourierFeatures, 3 * order, d, seed=0)
    for block in drawn.reshape(3, order, d):
        # d columns of √d̄ times an orthogonal matrix.
        np.testing.assert_allclose(block.T @ block, order * np.eye(d), atol=1e-10)
    assert not np.allclose(drawn[:order], drawn[order : 2 * order])


@pytest.mark.parametrize(("d", "distinct"), [(1, 10), (2, 40), (4, 60), (8, 64)])
def test_structured_frequencies_differ_in_low_dimension(d: int, distinct: int) -> None:
    # Padded to the next power of two only, there are 1, 2 and 12 of them at d = 1, 2 and 4. They lie on a lattice, so
    # that some of 64 coincide all the same.
    drawn = [frequencies(StructuredOrthogonalFourierFeatures, 64, d, seed).round(9) for seed in range(20)]
    assert np.mean([len(np.unique(block, axis=0)) for block in drawn]) >= distinct


@pytest.mark.parametrize("d", [1, 2, 4])
@pytest.mark.parametrize("n_features", [32, 256])
def test_structured_features_are_no_worse_than_independent_ones_in_low_dimension(d: int, n_features: int) -> None:
    distances = np.linspace(0.2, 4.0, 20)
    squares = np.square(
        errors(StructuredOrthogonalFourierFeatures, n_features, differences(d, distances.tolist()), range(150))
    ).mean(axis=1)
    independent = np.mean((1 - np.exp(-np.square(distances))) ** 2) / n_features
    assert squares.mean() < independent + 5 * squares.std(ddof=1) / np.sqrt(150)


def test_structured_features_have_the_documented_bias() -> None:
    # At d = 1 the first Hadamard product of random signs can be averaged in closed form: a frequency is
    # Σₖ ±Tₖ/d̄ with T = H times random signs, so that E cos(ωδ) = E Πₖ cos(δTₖ/d̄).
    order, distances = 64, np.linspace(0.0, 4.0, 21)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(2000, order))
    sylvester = np.array([[(-1.0) ** (i & j).bit_count() for j in range(order)] for i in range(order)])
    spread = signs @ sylvester
    averages = np.stack([np.cos(t * spread / order).prod(axis=1) for t in distances])
    bias = averages.mean(axis=1) - np.exp(-(distances**2) / 2)
    exact_to = 5 * averages.std(axis=1, ddof=1) / np.sqrt(2000)
    assert exact_to.max() < 0.003
    root_mean_square = np.sqrt(np.mean(bias**2))
    assert root_mean_square == pytest.approx(0.0055, abs=0.001)
    assert np.abs(bias).max() == pytest.approx(0.0095, abs=0.002)

    for d in (1, 2, 4):
        apart = differences(d, distances.tolist()) if d > 1 else distances[:, None]
        found = errors_in_one_draw(StructuredOrthogonalFourierFeatures, 128, apart, 600)
        standard_error = found.std(axis=0, ddof=1) / np.sqrt(600)
        assert standard_error.max() < 0.005
        if d == 1:
            np.testing.assert_array_less(np.abs(found.mean(axis=0) - bias), 5 * standard_error + exact_to + 1e-12)
        np.testing.assert_array_less(np.abs(found.mean(axis=0)), 5 * standard_error + 0.0115)


KERNELS = {
    "matern12": MaternKernel([0.7, 2.0], 1.3, smoothness=0.5),
    "matern32": MaternKernel([0.7, 2.0], 1.3),
    "matern52": MaternKernel(1.1, 0.4, smoothness=2.5),
    "rational_quadratic": RationalQuadraticKernel([0.7, 2.0], 1.2, alpha=0.8),
    "sum": GaussianKernel([0.7, 2.0], 0.5) + MaternKernel([1.5, 0.6], 0.8, smoothness=0.5),
    "product": GaussianKernel([0.7, 2.0], 0.5) * MaternKernel(1.5, 0.8, smoothness=2.5),
    "multiple": 2.5 * RationalQuadraticKernel(1.1, 0.7, alpha=2.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("kind", [RandomFourierFeatures, OrthogonalFourierFeatures])
def test_features_are_unbiased_for_every_stationary_kernel(kind: Any, name: str) -> None:
    kernel = KERNELS[name]
    X = np.random.default_rng(1).normal(size=(5, 2))
    # One large map: 4,000 blocks of four frequencies, which are whole blocks of the orthogonal map.
    columns = kind(n_features=32_000, kernel=kernel, random_state=0).fit_transform(X)
    np.testing.assert_allclose(np.square(columns).sum(axis=1), kernel.diagonal(X), rtol=1e-12)
    left, right = np.triu_indices(5, k=1)
    values = 4000.0 * (columns[left] * columns[right]).reshape(10, 2, 4000, 4).sum(axis=(1, 3))
    standard_errors = values.std(axis=1, ddof=1) / np.sqrt(4000)
    assert standard_errors.max() < 0.02 * kernel.prior_variance(), "too few draws to see anything"
    assert np.all(np.abs(values.mean(axis=1) - kernel(X)[left, right]) < 4.5 * standard_errors)


def test_a_kernel_without_a_spectrum_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"RandomFourierFeatures needs a draw of frequencies .* LinearKernel"):
        RandomFourierFeatures(kernel=LinearKernel()).fit([[0.0], [1.0]])
