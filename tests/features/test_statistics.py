"""The additive sufficient statistics against sums written out."""

from dataclasses import astuple, replace

import numpy as np
import pytest
import torch

from lmgp.data import Noise, Rows, Source
from lmgp.errors import InputError
from lmgp.features.statistics import Statistics

VARIANCE = 0.3
SOURCE = Source(Noise(VARIANCE), "a kernel", "a map", np.zeros(2))


def draw(
    n: int, n_features: int, seed: int = 0, weighted: bool = True, precise: bool = True
) -> tuple[torch.Tensor, Rows]:
    """Features and rows of two targets, with weights and noise variances of their own."""
    rng = np.random.default_rng(seed)
    features, Y = torch.from_numpy(rng.normal(size=(n, n_features))), rng.normal(size=(n, 2))
    weights, precision = rng.uniform(0.2, 3.0, n), rng.uniform(0.1, 2.0, n)
    given = weights if weighted else None, VARIANCE / precision if precise else None
    return features, Rows(np.zeros((n, 2)), Y, *given)


def add(statistics: Statistics, features: torch.Tensor, rows: Rows) -> Statistics:
    statistics.add([(rows, features, None)])
    return statistics


def summed(features: torch.Tensor, rows: Rows, part: slice = slice(None)) -> Statistics:
    index = np.arange(len(rows))[part]
    return add(Statistics.zeros(features.shape[1], 2, SOURCE), features[part], rows.take(index))


def values(statistics: Statistics) -> list[np.ndarray]:
    sums = statistics.sums.expand()
    return [np.tril(sums.gram.numpy()), sums.cross.numpy().copy(), *map(np.array, astuple(statistics.targets)[:4])]


def assert_equal(actual: Statistics, expected: Statistics, rtol: float = 1e-12) -> None:
    scale = max(1.0, float(expected.sums.expand().gram.diagonal().abs().max()))
    for ours, theirs in zip(values(actual), values(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("n_features", [1, 2, 127, 128, 129, 300])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("precise", [False, True])
def test_sums_are_what_they_are_said_to_be(n_features: int, weighted: bool, precise: bool) -> None:
    features, rows = draw(40, n_features, weighted=weighted, precise=precise)
    statistics = summed(features, rows)
    phi, Y = features.numpy(), rows.Y
    w = np.ones(40) if rows.weights is None else rows.weights
    rho = w * (1.0 if rows.noise_variances is None else VARIANCE / rows.noise_variances)
    gram = sum(r * np.outer(row, row) for r, row in zip(rho, phi, strict=True))
    sums, targets = statistics.sums.expand(), statistics.targets
    np.testing.assert_allclose(np.tril(sums.gram.numpy()), np.tril(gram), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums.cross, phi.T @ (rho[:, None] * Y), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(targets.products, (rho[:, None] * Y).T @ Y, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(targets.totals, w @ Y, rtol=1e-12)
    np.testing.assert_allclose(targets.means, np.average(Y, axis=0, weights=w), rtol=1e-12)
    assert targets.n == pytest.approx(np.sum(w), rel=1e-13)
    assert targets.log_precision == pytest.approx(np.sum(w * np.log(rho / w)), rel=1e-12, abs=1e-13)


def test_what_is_summed_is_not_changed() -> None:
    features, rows = draw(10, 4)
    arrays = [features.numpy(), rows.X, rows.Y, rows.weights, rows.noise_variances]
    before = [array.copy() for array in arrays]
    summed(features, rows)
    for array, expected in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize("n_features", [3, 200])
def test_chunks_of_rows_add(n_features: int) -> None:
    features, rows = draw(90, n_features)
    parts = [summed(features, rows, part) for part in (slice(0, 1), slice(1, 50), slice(50, 90))]
    assert_equal(parts[0] + parts[1] + parts[2], summed(features, rows))
    in_place = Statistics.zeros(n_features, 2, SOURCE)
    for part in (slice(0, 33), slice(33, 90)):
        add(in_place, features[part], rows.take(np.arange(90)[part]))
    assert_equal(in_place, summed(features, rows))


def test_sums_leave_their_operands_alone() -> None:
    a, b = summed(*draw(20, 3)), summed(*draw(20, 3, seed=1))
    before = [*values(a), *values(b)]
    add(a + b, *draw(1, 3, seed=2))
    for value, expected in zip([*values(a), *values(b)], before, strict=True):
        np.testing.assert_array_equal(value, expected)


def test_the_statistics_of_no_rows_are_zero() -> None:
    features, rows = draw(20, 5)
    nothing = Statistics.zeros(5, 2, SOURCE)
    assert_equal(nothing + summed(features, rows), summed(features, rows), rtol=0.0)
    assert_equal(summed(features, rows, slice(0, 0)), nothing, rtol=0.0)
    np.testing.assert_array_equal(nothing.targets.means, [0.0, 0.0])


@pytest.mark.parametrize("level", [0.3, -3.0, 1e8])
def test_sums_of_a_combination_of_the_targets_are_combined(level: float) -> None:
    """As where the mean is subtracted: of the targets and a column of ones, y − level is a combination."""
    features, rows = draw(50, 4)
    rows = rows.with_targets(np.column_stack((rows.Y[:, 0] + level, np.ones(50))))
    combination = np.array([[1.0], [-level]])
    found = summed(features, rows)
    less = rows.with_targets(rows.Y @ combination)
    expected = add(Statistics.zeros(4, 1, SOURCE), features, less)
    # A sum of n products of size level² is rounded by as much.
    cross = (found.sums.expand().cross.numpy() @ combination, expected.sums.expand().cross.numpy())
    np.testing.assert_allclose(*cross, rtol=0, atol=1e-13 * (100.0 + 100.0 * abs(level)))
    targets = found.targets.combined(combination)
    atol = 1e-13 * (100.0 + 100.0 * level**2)
    np.testing.assert_allclose(targets.products, expected.targets.products, rtol=1e-12, atol=atol)
    np.testing.assert_allclose(targets.totals, expected.targets.totals, rtol=0, atol=1e-13 * (100 + 100 * abs(level)))


OTHERS = {
    "noise variance": (replace(SOURCE, noise=Noise(0.4)), "variance=0.3.*variance=0.4"),
    "noise variance, by its approximation": (replace(SOURCE, noise=Noise(0.3, "dtc")), "fitc.*dtc"),
    "kernel": (replace(SOURCE, kernel="another kernel"), "a kernel.*another kernel"),
    "map": (replace(SOURCE, features="another map"), "a map.*another map"),
    "centre": (replace(SOURCE, centre=np.ones(2)), r"\[0\. 0\.\].*\[1\. 1\.\]"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_statistics_of_another_source_are_refused_by_name(what: str) -> None:
    other, message = OTHERS[what]
    ours, theirs = Statistics.zeros(3, 2, SOURCE), Statistics.zeros(3, 2, other)
    for combine in (ours.merge, ours.__add__):
        with pytest.raises(InputError, match=f"(?s)another {what.split(',')[0]}.*{message}"):
            combine(theirs)
    with pytest.raises(InputError, match=f"another {what.split(',')[0]} cannot be merged"):
        theirs.merge(ours)
    ours.merge(Statistics.zeros(3, 2, replace(SOURCE, centre=np.zeros(2))))  # an equal one


def test_a_weight_stands_for_repetitions_of_the_row() -> None:
    features, rows = draw(20, 4, weighted=False)
    counts = np.random.default_rng(3).integers(0, 4, 20)
    repeated = rows.take(np.repeat(np.arange(20), counts))
    weighted = Rows(rows.X, rows.Y, counts.astype(float), rows.noise_variances)
    found, expected = summed(features, weighted), summed(features[np.repeat(np.arange(20), counts)], repeated)
    assert_equal(found, expected)
