"""The additive sufficient statistics against sums written out."""

from dataclasses import astuple

import numpy as np
import pytest
import torch

import lmgp.statistics
from lmgp.statistics import Statistics, chunks


def draw(n: int, n_features: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Features, y, weights and relative precisions of n rows."""
    rng = np.random.default_rng(seed)
    return (
        torch.from_numpy(rng.normal(size=(n, n_features))),
        torch.from_numpy(rng.normal(size=n)),
        torch.from_numpy(rng.uniform(0.2, 3.0, n)),
        torch.from_numpy(rng.uniform(0.1, 2.0, n)),
    )


def summed(features, y, weights=None, precision=None) -> Statistics:
    statistics = Statistics.zeros(features.shape[1])
    statistics.add_rows(features, y, weights, precision)
    return statistics


def assert_equal(actual: Statistics, expected: Statistics, rtol: float = 1e-12) -> None:
    scale = max(1.0, float(expected.gram.diagonal().abs().max()))
    lower = torch.tril(actual.gram), torch.tril(expected.gram)
    np.testing.assert_allclose(*lower, rtol=rtol, atol=rtol * scale)
    np.testing.assert_allclose(actual.cross, expected.cross, rtol=rtol, atol=rtol * scale)
    np.testing.assert_allclose(astuple(actual)[2:], astuple(expected)[2:], rtol=rtol, atol=rtol * scale)


@pytest.mark.parametrize("n_features", [1, 2, 127, 128, 129, 300])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("precise", [False, True])
def test_sums_are_what_they_are_said_to_be(n_features: int, weighted: bool, precise: bool) -> None:
    features, y, weights, precision = draw(40, n_features)
    statistics = summed(features, y, weights if weighted else None, precision if precise else None)
    phi, target = features.numpy(), y.numpy()
    w = weights.numpy() if weighted else np.ones(40)
    rho = w * (precision.numpy() if precise else 1.0)
    gram = sum(r * np.outer(row, row) for r, row in zip(rho, phi, strict=True))
    np.testing.assert_allclose(np.tril(statistics.gram.numpy()), np.tril(gram), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(statistics.cross, phi.T @ (rho * target), rtol=1e-12, atol=1e-12)
    assert statistics.squares == pytest.approx(np.sum(rho * target**2), rel=1e-13)
    assert statistics.n == pytest.approx(np.sum(w), rel=1e-13)
    assert statistics.log_precision == pytest.approx(np.sum(w * np.log(rho / w)), rel=1e-12, abs=1e-13)


def test_what_is_summed_is_not_changed() -> None:
    tensors = draw(10, 4)
    before = [tensor.clone() for tensor in tensors]
    summed(*tensors)
    for tensor, expected in zip(tensors, before, strict=True):
        assert torch.equal(tensor, expected)


@pytest.mark.parametrize("n_features", [3, 200])
def test_chunks_of_rows_add(n_features: int) -> None:
    rows = draw(90, n_features)
    parts = [summed(*(tensor[part] for tensor in rows)) for part in (slice(0, 1), slice(1, 50), slice(50, 90))]
    assert_equal(parts[0] + parts[1] + parts[2], summed(*rows))
    in_place = Statistics.zeros(n_features)
    for part in (slice(0, 33), slice(33, 90)):
        in_place.add_rows(*(tensor[part] for tensor in rows))
    assert_equal(in_place, summed(*rows))


@pytest.mark.parametrize("n_features", [3, 200])
def test_rows_are_taken_out_again(n_features: int) -> None:
    rows = draw(90, n_features)
    first, last = (summed(*(tensor[part] for tensor in rows)) for part in (slice(0, 60), slice(60, 90)))
    assert_equal(summed(*rows) - last, first)
    assert_equal(first + last - last, first)


def test_sums_and_differences_leave_their_operands_alone() -> None:
    a, b = summed(*draw(20, 3)), summed(*draw(20, 3, seed=1))
    before = [value.clone() if isinstance(value, torch.Tensor) else value for value in (*astuple(a), *astuple(b))]
    total, difference = a + b, a - b
    total.gram += 1.0
    difference.cross += 1.0
    for value, expected in zip((*astuple(a), *astuple(b)), before, strict=True):
        assert torch.equal(torch.as_tensor(value), torch.as_tensor(expected))


def test_the_statistics_of_no_rows_are_zero() -> None:
    rows = draw(20, 5)
    assert_equal(Statistics.zeros(5) + summed(*rows), summed(*rows), rtol=0.0)
    nothing = summed(*(tensor[:0] for tensor in rows))
    assert_equal(nothing, Statistics.zeros(5), rtol=0.0)


def test_a_weight_stands_for_repetitions_of_the_row() -> None:
    features, y, _, precision = draw(20, 4)
    counts = torch.from_numpy(np.random.default_rng(3).integers(0, 4, 20))
    repeated = [torch.repeat_interleave(tensor, counts, dim=0) for tensor in (features, y)]
    repeated_precision = torch.repeat_interleave(precision, counts)
    weighted = summed(features, y, counts.to(torch.float64), precision)
    assert_equal(weighted, summed(*repeated, precision=repeated_precision))


@pytest.mark.parametrize(("n", "n_columns"), [(1, 1), (10, 3), (1000, 7), (5, 10**6), (0, 3)])
@pytest.mark.parametrize("n_bytes", [1, 240, 10**6])
def test_slices_cover_all_rows_once_within_their_memory(
    n: int, n_columns: int, n_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmgp.statistics, "CHUNK_BYTES", n_bytes)
    parts = [range(n)[part] for part in chunks(n, n_columns)]
    assert [i for part in parts for i in part] == list(range(n))
    # One row at least, however wide.
    assert all(len(part) == 1 or 8 * n_columns * len(part) <= n_bytes for part in parts)
    assert all(8 * n_columns * (len(part) + 1) > n_bytes for part in parts[:-1])


@pytest.mark.parametrize("n_features", [6, 300])
@pytest.mark.parametrize("factor", [1.0, 1.7])
def test_some_columns_have_the_statistics_of_a_map_of_these_columns(n_features: int, factor: float) -> None:
    features, y, weights, precision = draw(40, n_features)
    columns = torch.from_numpy(np.flatnonzero(np.random.default_rng(5).integers(0, 2, n_features)))
    assert 1 < len(columns) < n_features
    whole = summed(features, y, weights, precision)
    before = [whole.gram.clone(), whole.cross.clone()]
    part = whole.of_columns(columns, factor)
    assert_equal(part, summed(factor * features[:, columns], y, weights, precision))
    assert part.gram.shape == (len(columns), len(columns))
    part.gram += 1.0
    part.cross += 1.0
    assert torch.equal(whole.gram, before[0])
    assert torch.equal(whole.cross, before[1])


def test_all_columns_are_the_statistics_themselves() -> None:
    whole = summed(*draw(40, 9))
    assert_equal(whole.of_columns(torch.arange(9)), whole, rtol=0.0)
