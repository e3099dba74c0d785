"""Farthest-point clustering against a plain implementation of the published algorithm."""

import math
import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial import cKDTree

from lmgp.errors import InputError
from lmgp.neighbours import clustering
from lmgp.neighbours.clustering import farthest_point_clustering


def plain_algorithm(X: np.ndarray, threshold: float) -> np.ndarray:
    """The clustering in Algorithm 1 of the paper, in Python floats: all distances anew in each step."""
    rows = X.tolist()
    centroids = [X.mean(axis=0).tolist()]
    while True:
        largest, index = -1.0, -1
        for i, row in enumerate(rows):
            smallest = math.inf
            for centroid in centroids:
                squared = 0.0
                for x, c in zip(row, centroid, strict=True):
                    squared += (x - c) * (x - c)
                smallest = min(smallest, squared)
            if smallest > largest:  # strictly: ties stay with the lowest row
                largest, index = smallest, i
        if math.sqrt(largest) < threshold:
            return np.array(centroids)
        centroids.append(rows[index])


def full_passes(
    X: np.ndarray, threshold: float, *, start: np.ndarray | None = None, max_centroids: float = math.inf
) -> np.ndarray:
    """The same, faster: each centroid against all rows, once."""
    centroids, smallest = [X.mean(axis=0) if start is None else start], np.full(len(X), np.inf)
    while True:
        squared = np.zeros(len(X))
        for j in range(X.shape[1]):
            squared += (X[:, j] - centroids[-1][j]) ** 2
        smallest = np.minimum(smallest, squared)
        if math.sqrt(smallest.max()) < threshold or len(centroids) >= max_centroids:
            return np.array(centroids)
        centroids.append(X[np.argmax(smallest)])


def grid(n: int, d: int, step: float = 1.0) -> np.ndarray:
    return step * np.stack(np.meshgrid(*[np.arange(n)] * d, indexing="ij"), axis=-1).reshape(-1, d).astype(float)


def distances_to_nearest(X: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    return cKDTree(centroids).query(X)[0]


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 3, 8, 9, 20])
@pytest.mark.parametrize("quantile", [0.05, 0.3, 0.9])
def test_equals_the_plain_algorithm_on_random_rows(d: int, quantile: float) -> None:
    rng = np.random.default_rng(d)
    X = rng.normal(size=(120, d)) * rng.uniform(0.1, 3.0, d) + rng.normal(size=d)
    threshold = float(np.quantile(np.linalg.norm(X - X.mean(axis=0), axis=1), quantile))
    expected = plain_algorithm(X, threshold)
    assert 2 <= len(expected) < 122
    np.testing.assert_array_equal(farthest_point_clustering(X, threshold), expected)


@pytest.mark.parametrize(("n", "d"), [(40, 1), (9, 2), (8, 2), (4, 3), (2, 6)])
@pytest.mark.parametrize("step", [1.0, 0.1])
@pytest.mark.parametrize("threshold", [0.5, 1.0, 1.5, 2.0])
def test_equals_the_plain_algorithm_on_grids_full_of_ties(n: int, d: int, step: float, threshold: float) -> None:
    X = grid(n, d, step)
    np.testing.assert_array_equal(farthest_point_clustering(X, threshold * step), plain_algorithm(X, threshold * step))


@pytest.mark.parametrize("threshold", [0.4, 1.0, 2.5])
def test_equals_the_plain_algorithm_with_duplicated_rows(threshold: float) -> None:
    rng = np.random.default_rng(4)
    X = rng.integers(0, 5, size=(150, 3)).astype(float)
    assert len(np.unique(X, axis=0)) < 100
    centroids = farthest_point_clustering(X, threshold)
    np.testing.assert_array_equal(centroids, plain_algorithm(X, threshold))
    assert len(np.unique(centroids, axis=0)) == len(centroids)


# ------------------------------------------------------------------------------------------------------- rows in blocks


def cities(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0, 50, (12, d))[rng.integers(0, 12, n)] + rng.exponential(size=(n, 1)) * rng.normal(size=(n, d))


ROWS = {
    "normal": lambda n, d, rng: rng.normal(size=(n, d)),
    "cities": cities,
    "heavy tails": lambda n, d, rng: rng.standard_cauchy(size=(n, d)),
    "lattice": lambda n, d, rng: 0.1 * rng.integers(0, math.ceil((2 * n) ** (1 / d)), (n, d)),
    "duplicates": lambda n, d, rng: rng.normal(size=(n // 7, d))[rng.integers(0, n // 7, n)],
    "half of them equal": lambda n, d, rng: rng.normal(size=(n, d)) * rng.integers(0, 2, (n, 1)),
    "collinear": lambda n, d, rng: 3.0 + rng.normal(size=(n, 1)) * rng.normal(size=d),
    "one column constant": lambda n, d, rng: np.hstack([rng.normal(size=(n, d - 1)), np.full((n, 1), 0.3)]),
    "far from the origin": lambda n, d, rng: 1e8 + rng.normal(size=(n, d)) * 10.0 ** rng.integers(-8, 3),
    "equal but for rounding": lambda n, d, rng: rng.permuted(np.tile(rng.integers(1, 30, d) / 10, (n, 1)), axis=1),
    "tiny, underflowing": lambda n, d, rng: 1e-161 * rng.normal(size=(n, d)),
    "huge": lambda n, d, rng: 1e152 * rng.normal(size=(n, d)),
    "sorted": lambda n, d, rng: np.sort(rng.normal(size=(n, d)), axis=0),
}


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("kind", ROWS)
def test_blocks_change_no_centroid(kind: str, d: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng([d, list(ROWS).index(kind)])
    monkeypatch.setattr(clustering, "MIN_ROWS", 30)
    for _ in range(2):
        monkeypatch.setattr(clustering, "FIRST_PASSES", rng.integers(1, 4))
        monkeypatch.setattr(clustering, "UNTESTED", rng.integers(0, 4))
        monkeypatch.setattr(clustering, "ROWS_AT_ONCE", rng.choice([1, 50, 1000]))
        X = ROWS[kind](rng.integers(30, 400), d, rng)
        spread = np.max(np.abs(X - X.mean(axis=0)))
        threshold = max(float(spread * rng.choice([1e-12, 0.03, 0.1, 0.3, 10.0])), 5e-324)
        start = None if rng.integers(2) else X[rng.integers(len(X))] + spread * rng.normal(size=d)
        expected = full_passes(X, threshold, start=start)
        np.testing.assert_array_equal(farthest_point_clustering(X, threshold, start=start), expected)


def test_a_distance_smaller_by_one_rounding_is_seen() -> None:
    # A box of equal rows is a point: a bound that rounded in another way than the distances would pass over it.
    rng = np.random.default_rng(3)
    for row, centroid in rng.normal(size=(100, 2, 5)):
        squared = sum((row - centroid) ** 2)
        cover = clustering._Cover(np.tile(row, (64, 1)))
        cover.smallest[:] = np.nextafter(squared, np.inf)
        cover.sort_into_blocks(np.tile(row, (64, 1)))
        cover.add(centroid)
        assert cover.farthest() == (0, squared)
        assert np.all(cover.smallest == squared)


@pytest.fixture
def measured_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of rows, or of blocks, whose distances were computed."""
    counts, squared_distances = [], clustering.squared_distances

    def counting(columns: np.ndarray, centroid: np.ndarray) -> np.ndarray:
        counts.append(columns[0].size)
        return squared_distances(columns, centroid)

    monkeypatch.setattr(clustering, "squared_distances", counting)
    return counts


def test_many_centroids_in_two_columns_visit_few_rows(measured_rows: list[int]) -> None:
    X = cities(20_000, 2, np.random.default_rng(0))
    centroids = farthest_point_clustering(X, 0.4)
    assert 1800 < len(centroids) < 2200
    assert sum(measured_rows) < 0.1 * len(X) * len(centroids)
    np.testing.assert_array_equal(centroids, full_passes(X, 0.4))
    coarse = farthest_point_clustering(X, 1.2)
    assert 100 < len(coarse) < 1000
    np.testing.assert_array_equal(coarse, centroids[: len(coarse)])
    np.testing.assert_array_equal(farthest_point_clustering(X, 0.4, max_centroids=777), centroids[:777])


def test_many_columns_cost_little_more_than_full_passes(measured_rows: list[int]) -> None:
    X = np.random.default_rng(1).normal(size=(17_000, 9))
    centroids = farthest_point_clustering(X, 1.0, max_centroids=400)
    assert max(measured_rows[300:]) > 16_000 > min(measured_rows)  # blocks were tested, and all of them visited
    assert sum(measured_rows) < 1.01 * len(X) * len(centroids)
    np.testing.assert_array_equal(centroids, full_passes(X, 1.0, max_centroids=400))


# -------------------------------------------------------------------------------------------------------------- details


def test_sums_follow_the_order_of_the_columns() -> None:
    # The rotations of one row tie but for the rounding of their sums: another order of summation takes other rows.
    row = np.random.default_rng(13).permutation(np.arange(1, 21) / 10)
    X = np.stack([np.roll(row, shift) for shift in range(20)])
    np.testing.assert_array_equal(farthest_point_clustering(X, 2.0), plain_algorithm(X, 2.0))
    squares = (X - X.mean(axis=0)) ** 2
    assert np.argmax(np.sum(squares, axis=1)) != np.argmax(np.cumsum(squares, axis=1)[:, -1])


def test_ties_go_to_the_lowest_row() -> None:
    corners = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
    for first in range(4):
        rolled = np.roll(corners, -first, axis=0)
        np.testing.assert_array_equal(farthest_point_clustering(rolled, 1.4, max_centroids=2)[1], corners[first])


def test_published_order_on_a_line() -> None:
    # The mean is 3; 10 is at 7 from it; then 0 and 6, both at 3 from it; all others are then at most at 1.
    X = np.array([[0.0], [1.0], [2.0], [1.0], [2.0], [6.0], [2.0], [10.0]])
    np.testing.assert_array_equal(farthest_point_clustering(X, 2.0).ravel(), [3.0, 10.0, 0.0, 6.0])


@pytest.mark.parametrize("seed", range(5))
def test_every_row_is_covered_and_the_centroids_are_spread(seed: int) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, size=(3000, 2 + seed))
    threshold = 1.5
    centroids = farthest_point_clustering(X, threshold)
    assert distances_to_nearest(X, centroids).max() < threshold
    assert centroids.shape[1] == X.shape[1]
    pairs, _ = cKDTree(centroids).query(centroids, k=2)
    assert pairs[:, 1].min() >= threshold
    # Not one centroid too many: without the last one some row was too far.
    assert distances_to_nearest(X, centroids[:-1]).max() >= threshold


def test_stops_strictly_below_the_threshold() -> None:
    # The rows are at 0.1 exactly from their mean, and 0.1² rounds: comparing squares would be a matter of luck.
    X = np.array([[-0.1], [0.1]])
    assert len(farthest_point_clustering(X, 0.1)) == 3
    assert len(farthest_point_clustering(X, np.nextafter(0.1, 1.0))) == 1


@pytest.mark.parametrize("half", [0.1, 0.3, 0.7, 1.1, 1e-3, 1 / 3])
def test_a_row_at_the_threshold_is_not_below_it(half: float) -> None:
    assert len(farthest_point_clustering([[-half], [half]], half)) == 3


def test_a_larger_threshold_gives_the_first_centroids_of_a_smaller_one() -> None:
    X = np.random.default_rng(5).normal(size=(500, 2))
    fine, coarse = farthest_point_clustering(X, 0.2), farthest_point_clustering(X, 0.8)
    assert 1 < len(coarse) < len(fine)
    np.testing.assert_array_equal(fine[: len(coarse)], coarse)


def test_max_centroids_stops_early() -> None:
    X = np.random.default_rng(6).normal(size=(500, 2))
    full = farthest_point_clustering(X, 0.5)
    for limit in (1, 2, len(full) - 1):
        np.testing.assert_array_equal(farthest_point_clustering(X, 0.5, max_centroids=limit), full[:limit])
    for limit in (len(full), len(full) + 1, 10**6):
        np.testing.assert_array_equal(farthest_point_clustering(X, 0.5, max_centroids=np.int64(limit)), full)


def test_one_row_is_its_own_centroid() -> None:
    np.testing.assert_array_equal(farthest_point_clustering([[0.1, -7.3]], 1e-12), [[0.1, -7.3]])


@pytest.mark.parametrize("n", [2, 3, 10, 49, 100_003])
def test_identical_rows_have_one_centroid(n: int) -> None:
    X = np.full((n, 3), [0.1, -1 / 3, 1e3 + 0.1])
    centroids = farthest_point_clustering(X, 1e-6)
    assert centroids.shape == (1, 3)
    np.testing.assert_allclose(centroids[0], X[0], rtol=1e-10)


def test_identical_rows_below_the_rounding_of_their_mean_terminate() -> None:
    X = np.full((1000, 1), 0.1)
    assert X.mean() != 0.1  # the case in question
    np.testing.assert_array_equal(farthest_point_clustering(X, 1e-300), [X.mean(axis=0), [0.1]])


def test_a_tiny_threshold_takes_every_distinct_row_once() -> None:
    X = np.repeat(grid(4, 2) + 0.25 * grid(4, 2) ** 2, 3, axis=0)
    centroids = farthest_point_clustering(X, 1e-200)
    assert len(centroids) == 17
    np.testing.assert_array_equal(np.unique(centroids[1:], axis=0), np.unique(X, axis=0))


@pytest.mark.parametrize("threshold", [1e3, 1e308, 10**300])
def test_a_huge_threshold_leaves_the_mean(threshold: float) -> None:
    X = np.random.default_rng(7).normal(size=(200, 3))
    np.testing.assert_array_equal(farthest_point_clustering(X, threshold), X.mean(axis=0)[np.newaxis])


def test_translation_moves_the_centroids() -> None:
    # Multiples of 1/64: translated rows and (n a power of two) their mean are exact, and so are the distances. Through
    # inner products, 1e7² + … would leave nothing of them.
    X = np.random.default_rng(8).integers(-256, 256, size=(512, 2)) / 64
    shift = np.array([1e7, -3e7])
    centroids = farthest_point_clustering(X, 0.75)
    assert len(centroids) > 20
    np.testing.assert_array_equal(farthest_point_clustering(X + shift, 0.75), centroids + shift)


def test_scaling_by_a_power_of_two_scales_the_centroids() -> None:
    X = np.random.default_rng(9).normal(size=(400, 3))
    for scale in (2.0**-300, 2.0**300):
        np.testing.assert_array_equal(
            farthest_point_clustering(X * scale, 1.2 * scale), farthest_point_clustering(X, 1.2) * scale
        )


def test_memory_order_dtype_and_container_do_not_matter() -> None:
    X = np.random.default_rng(10).normal(size=(1000, 3)).astype(np.float32).astype(np.float64)
    expected = farthest_point_clustering(X, 0.7)
    doubled = np.zeros((2000, 6))
    doubled[::2, ::2] = X
    for same in (np.asfortranarray(X), doubled[::2, ::2], X.astype(np.float32), X.tolist()):
        np.testing.assert_array_equal(farthest_point_clustering(same, 0.7), expected)
    # NumPy rounds the mean differently in the two orders.
    X = np.random.default_rng(14).normal(size=(5000, 3)) + 0.1
    assert not np.array_equal(np.asfortranarray(X).mean(axis=0), X.mean(axis=0))
    for same in (X, np.asfortranarray(X)):
        np.testing.assert_array_equal(farthest_point_clustering(same, 0.7)[0], X.mean(axis=0))
    integers = (10 * X).astype(np.int64)
    np.testing.assert_array_equal(
        farthest_point_clustering(integers, 7), farthest_point_clustering(integers.astype(float), 7.0)
    )


def test_argument_is_not_changed_and_not_shared() -> None:
    X = np.random.default_rng(11).normal(size=(100, 2))
    copy = X.copy()
    X.flags.writeable = False
    centroids = farthest_point_clustering(X, 0.5)
    np.testing.assert_array_equal(X, copy)
    assert not np.shares_memory(centroids, X)
    assert centroids.flags.writeable


def test_memory_does_not_grow_with_the_number_of_centroids() -> None:
    X = np.random.default_rng(12).uniform(size=(20_000, 2))
    tracemalloc.start()
    try:
        centroids = farthest_point_clustering(X, 0.04)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(centroids) > 300  # a matrix of distances would take more than 150 times X
    assert peak < 5 * X.nbytes


# --------------------------------------------------------------------------------------------------------------- inputs


@pytest.mark.parametrize("threshold", [0.0, -1.0, math.nan, math.inf, -math.inf, "1", None, True, [1.0]])
def test_bad_thresholds_are_refused(threshold) -> None:
    with pytest.raises(InputError, match="threshold must be"):
        farthest_point_clustering([[0.0], [1.0]], threshold)


@pytest.mark.parametrize("limit", [0, -3, 2.0, "2", True])
def test_bad_limits_are_refused(limit) -> None:
    with pytest.raises(InputError, match="max_centroids must be"):
        farthest_point_clustering([[0.0], [1.0]], 1.0, max_centroids=limit)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([[0.0], [math.nan]], "NaN"),
        ([[0.0], [math.inf]], "infinity"),
        (np.empty((0, 2)), "0 sample"),
        (np.empty((3, 0)), "0 feature"),
        ([1.0, 2.0], "2D array"),
        (np.zeros((2, 2, 2)), "dim"),
        ([["a"], ["b"]], "convert"),
        (np.array([[1j]]), "[Cc]omplex"),
        (sparse.csr_array(np.eye(3)), "[Ss]parse"),
    ],
)
def test_bad_rows_are_refused(bad, message: str) -> None:
    with pytest.raises(InputError, match=message):
        farthest_point_clustering(bad, 1.0)


@pytest.mark.parametrize("large", [[[1e200], [-1e200]], [[1.7e308], [1.7e308]]])
def test_rows_whose_squared_distances_overflow_are_refused(large: list) -> None:
    with pytest.raises(InputError, match="overflow"):
        farthest_point_clustering(large, 1.0)
