"""Rows: taken, joined and summed, against numpy; and what is refused of their sums, sources and known means."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lmgp.data import (
    Noise,
    Rows,
    Source,
    Summary,
    TargetSums,
    as_tensor,
    checked_scales,
    generator,
    known_centers,
    remaining,
)
from lmgp.errors import InputError

RNG = np.random.default_rng(0)
N = 30
X, Y = RNG.normal(size=(N, 2)), RNG.normal(size=(N, 3)) + 2.0
WEIGHTS, NOISES = RNG.uniform(0.5, 3.0, N), RNG.uniform(0.1, 0.9, N)
OF_ROWS = {
    "plain": Rows(X, Y),
    "weights": Rows(X, Y, WEIGHTS),
    "noises": Rows(X, Y, None, NOISES),
    "both": Rows(X, Y, WEIGHTS, NOISES),
}
every_kind = pytest.mark.parametrize("kind", OF_ROWS)
FIRST, SECOND = slice(0, 12), slice(12, N)


def ones(kind: str) -> np.ndarray:
    weights = OF_ROWS[kind].weights
    return np.ones(N) if weights is None else weights


@every_kind
@pytest.mark.parametrize("index", [slice(3, 9), np.arange(3, 9), np.isin(np.arange(N), np.arange(3, 9))])
def test_rows_are_taken_with_all_that_is_theirs(kind: str, index: Any) -> None:
    rows = OF_ROWS[kind]
    taken = rows.take(index)
    assert (len(taken), taken.n_targets) == (6, 3)
    for name in ("X", "Y", "weights", "noise_variances"):
        found, whole = getattr(taken, name), getattr(rows, name)
        assert (found is None) == (whole is None)
        if whole is not None:
            np.testing.assert_array_equal(found, whole[3:9])


@every_kind
@pytest.mark.parametrize("other", OF_ROWS)
def test_rows_without_weights_count_once_beside_others(kind: str, other: str) -> None:
    first, second = OF_ROWS[kind].take(FIRST), OF_ROWS[other].take(SECOND)
    joined = first.joined(second, 0.7)
    np.testing.assert_array_equal((joined.X, joined.Y[:, :2]), (X, Y[:, :2]))
    for name, missing in (("weights", 1.0), ("noise_variances", 0.7)):
        parts = [getattr(part, name) for part in (first, second)]
        if parts[0] is None and parts[1] is None:
            assert getattr(joined, name) is None
        else:
            full = [np.full(n, missing) if part is None else part for part, n in zip(parts, (12, N - 12), strict=True)]
            np.testing.assert_array_equal(getattr(joined, name), np.concatenate(full))


@every_kind
def test_means_count_weights_in_any_order_to_the_last_digit(kind: str) -> None:
    rows = OF_ROWS[kind]
    np.testing.assert_allclose(rows.means, np.average(Y, axis=0, weights=ones(kind)), rtol=1e-13)
    np.testing.assert_array_equal(rows.take(RNG.permutation(N)).means, rows.means)


def test_whole_weights_count_rows_and_others_count_none() -> None:
    X, y = np.zeros((3, 1)), np.zeros(3)
    for weights, n in ((None, 3.0), ([2.0, 1.0, 4.0], 7.0), ([2.0, 1.0, 0.5], 3.0), ([2.5, 2.5, 2.5], 3.0)):
        rows = Rows(X, y, None if weights is None else np.array(weights))
        assert rows.n_observations == n
        assert (rows.counts is None) == (n == 3.0)


# ----------------------------------------------------------------------------------------------------------------- sums


def targets_of(kind: str, part: slice = slice(None)) -> tuple[TargetSums, np.ndarray]:
    """The sums of rows, and the precision of each row relative to a noise variance of 0.5."""
    rows = OF_ROWS[kind].take(part)
    sums, precision = TargetSums.of(rows, Noise(0.5))
    return sums, np.ones(len(rows)) if precision is None else precision


@every_kind
def test_sums_of_targets(kind: str) -> None:
    (sums, precision), weights = targets_of(kind), ones(kind)
    noises = np.full(N, 0.5) if OF_ROWS[kind].noise_variances is None else NOISES
    np.testing.assert_allclose(precision, weights * 0.5 / noises, rtol=1e-13)
    np.testing.assert_allclose(sums.products, Y.T @ np.diag(precision) @ Y, rtol=1e-13)
    np.testing.assert_allclose(sums.totals, weights @ Y, rtol=1e-13)
    np.testing.assert_allclose(sums.means, np.average(Y, axis=0, weights=weights), rtol=1e-13)
    assert sums.n == pytest.approx(weights.sum(), rel=1e-14)
    assert sums.log_precision == pytest.approx(weights @ np.log(0.5 / noises), rel=1e-12)
    np.testing.assert_allclose(sums.peaks, np.square(Y).T @ precision, rtol=1e-13)
    combination = np.array([[1.0, 0.0], [-2.0, 0.5], [0.0, 3.0]])
    other = OF_ROWS["plain"].with_targets(Y @ combination)
    combined, (expected, _) = sums.combined(combination), TargetSums.of(other, Noise(0.5))
    if kind == "plain":
        np.testing.assert_allclose(combined.products, expected.products, rtol=1e-12)
        np.testing.assert_allclose(combined.totals, expected.totals, rtol=1e-12)
        assert np.all(combined.peaks >= expected.peaks)


@every_kind
def test_sums_of_targets_add_and_are_taken_out(kind: str) -> None:
    whole, first, second = (targets_of(kind, part)[0] for part in (slice(None), FIRST, SECOND))
    none = TargetSums.zeros(3)
    pairs = (first.combine(second), whole), (whole.combine(second, -1.0), first), (none.combine(first), first)
    for found, expected in pairs:
        for name in ("products", "totals", "n", "log_precision"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=0, atol=1e-11)
    np.testing.assert_array_equal(none.means, 0.0)
    # What is left has the rounding of the largest sums that ever were.
    np.testing.assert_allclose(whole.combine(second, -1.0).peaks, whole.peaks)
    np.testing.assert_allclose(first.combine(second).peaks, whole.peaks)
    whole.combine(second, -1.0).check_remaining(whole)
    with pytest.raises(InputError, match="cannot be taken out"):
        first.combine(whole, -1.0).check_remaining(first)


def test_what_remains_after_rows_were_taken_out() -> None:
    """As far as rounding does not decide: by one part in 10⁹ of what there was."""
    stay = remaining(np.array([4.0, 4.0, 4.0]), np.array([1.0, 0.0, -1e-9]), np.ones(3), np.array([0.5, 0.0, -1e-10]))
    np.testing.assert_array_equal(stay, [True, False, False])
    with pytest.raises(InputError, match=r"of 5 rows, 7 are to be taken out"):
        remaining(np.array([4.0, 5.0]), np.array([1.0, -2.0]), np.ones(2), np.ones(2))
    with pytest.raises(InputError, match="the sum of squared targets falls below zero"):
        remaining(4.0, 1.0, np.array([1.0]), np.array([-1e-6]))


@every_kind
def test_summaries_add_and_are_taken_out(kind: str) -> None:
    whole, first, second = (Summary.of(OF_ROWS[kind].take(part)) for part in (slice(None), FIRST, SECOND))
    weights = ones(kind)
    mean = np.average(X, axis=0, weights=weights)
    both, less = first.combine(second), whole.combine(second, -1.0)
    assert (both.n_rows, less.n_rows) == (N, 12)
    for found, expected in ((both, whole), (less, first)):
        for name in ("n", "mean", "squares"):
            np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-10)
    np.testing.assert_allclose(both.deviations**2, weights @ np.square(X - mean) / weights.sum(), rtol=1e-10)
    # Ranges do not shrink.
    for name in ("low", "high", "least", "most"):
        for found in (both, less):
            np.testing.assert_array_equal(getattr(found, name), getattr(whole, name))
    np.testing.assert_allclose(whole.farthest(np.array([1.0, 5.0])), np.abs(Y[:, :2] - [1.0, 5.0]).max(axis=0))
    of_one = Summary.of(OF_ROWS[kind].take(slice(1)))
    np.testing.assert_allclose(of_one.combine(second).combine(second, -1.0).squares, 0.0, atol=1e-10)
    none = whole.combine(whole, -1.0)
    assert (none.n_rows, none.n) == (0, 0.0)


def test_the_deviation_of_a_constant_column_is_zero() -> None:
    values = np.column_stack((np.full(N, 1e9 / 3), X[:, 0], np.zeros(N), 1e-20 * X[:, 0]))
    deviations = Summary.of(Rows(values, Y)).deviations
    np.testing.assert_allclose(deviations, np.array([0.0, 1.0, 0.0, 1e-20]) * X[:, 0].std(), rtol=1e-10)


@every_kind
def test_as_how_many_rows_with_the_usual_noise_one_counts(kind: str) -> None:
    rows = OF_ROWS[kind]
    noises = np.full(N, 0.5) if rows.noise_variances is None else NOISES
    assert Noise(0.5).mean_precision(rows) == pytest.approx(np.mean(ones(kind) * 0.5 / noises), rel=1e-13)


def test_tensors_share_the_memory_of_arrays_where_torch_can() -> None:
    read_only = X.copy()
    read_only.flags.writeable = False
    for array, shared in ((X, True), (X[:, ::2], True), (np.broadcast_to(X[0].copy(), (4, 2)), False)):
        assert np.shares_memory(as_tensor(array).numpy(), array) is shared
        np.testing.assert_array_equal(as_tensor(array), array)
    for array in (X[::-1], X[:, ::-1], read_only):
        assert not np.shares_memory(as_tensor(array).numpy(), array)
        np.testing.assert_array_equal(as_tensor(array), array)


# ------------------------------------------------------------------------------------------------------------- refusals

SOURCE = Source(Noise(0.1), "a kernel", "a map", np.array([1.0, 2.0]))


@pytest.mark.parametrize(
    ("what", "other"),
    [
        ("noise variance", {"noise": Noise(0.2)}),
        ("noise variance", {"noise": Noise(0.1, "dtc")}),
        ("kernel", {"kernel": "another kernel"}),
        ("kernel", {"kernel": "a"}),
        ("map", {"features": "another map"}),
        ("map", {"features": "a"}),
        ("centre", {"centre": np.array([1.0, 2.5])}),
        ("centre", {"centre": None}),
    ],
)
def test_sums_of_another_source_are_refused(what: str, other: dict[str, Any]) -> None:
    changed = replace(SOURCE, **other)
    for first, second in ((SOURCE, changed), (changed, SOURCE)):
        with pytest.raises(InputError, match=f"Statistics of another {what} cannot be merged"):
            first.check(second)
    changed.check(changed)
    kernel, features = (name.encode().decode() for name in (SOURCE.kernel, SOURCE.features))
    SOURCE.check(Source(Noise(0.1), kernel, features, np.array([1.0, 2.0])))
    # What the rows of either approximation sum is the same.
    replace(SOURCE, noise=Noise(0.1, "dtc")).check(replace(SOURCE, noise=Noise(0.1, "sor")))


@pytest.mark.parametrize(
    ("known", "expected"),
    [(None, Y.mean(axis=0)), (7, [7.0] * 3), (2.5, [2.5] * 3), ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])],
)
def test_known_means(known: Any, expected: Any) -> None:
    means = known_centers(known, OF_ROWS["plain"])
    np.testing.assert_allclose(means, expected, rtol=1e-14)
    means += 1.0  # they are no view of what was given


@pytest.mark.parametrize(
    "known", [True, "1.0", "no", [1.0], [1.0, 2.0], np.ones((1, 3)), np.inf, [1.0, np.nan, 2.0], {}]
)
def test_what_are_no_known_means(known: Any) -> None:
    with pytest.raises(InputError, match="center must be a finite number, the known mean of y of each target"):
        known_centers(known, OF_ROWS["plain"])


@pytest.mark.parametrize("scales", [[], 1.0, [[1.0, 2.0]], [1.0, 0.0], [1.0, -2.0], [1.0, np.nan], [np.inf, 1.0]])
def test_what_are_no_scales(scales: Any) -> None:
    np.testing.assert_array_equal(checked_scales([2.0, 1e-9]), [2.0, 1e-9])
    with pytest.raises(InputError, match="scales must be positive and finite, one a column"):
        checked_scales(scales)


def test_a_seed_is_no_negative_number() -> None:
    for state in (0, 3, np.random.default_rng(3), None):
        assert generator(state).uniform() < 1.0
    assert generator(3).uniform() == generator(np.int64(3)).uniform() != generator(4).uniform()
    drawn = {generator(np.random.RandomState(seed)).uniform() for seed in range(40)}
    assert len(drawn) == 40
    with pytest.raises(InputError, match="random_state must be a non-negative integer"):
        generator(-1)
