"""The additive sufficient statistics against sums written out."""

from dataclasses import astuple, replace

import numpy as np
import pytest
import torch

from lmgp import TaylorFeatures
from lmgp.errors import InputError
from lmgp.features.moments import MomentSums
from lmgp.noise import Noise
from lmgp.statistics import GramSums, Source, Statistics
from lmgp.validation import Rows


def draw(n: int, n_features: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Features, y, weights and relative precisions of n rows."""
    rng = np.random.default_rng(seed)
    return (
        torch.from_numpy(rng.normal(size=(n, n_features))),
        torch.from_numpy(rng.normal(size=n)),
        torch.from_numpy(rng.uniform(0.2, 3.0, n)),
        torch.from_numpy(rng.uniform(0.1, 2.0, n)),
    )


SOURCE = Source(Noise(0.3), "a kernel", "a map", np.zeros(2))


def summed(features, y, weights=None, precision=None, origin: float = 0.0) -> Statistics:
    statistics = Statistics.zeros(features.shape[1], SOURCE, origin)
    statistics.add_rows(features, y, weights, precision)
    return statistics


def assert_equal(actual: Statistics, expected: Statistics, rtol: float = 1e-12) -> None:
    actual = actual.centred(expected.targets.origin)
    ours, theirs = actual.sums.expand(), expected.sums.expand()
    scale = max(1.0, float(theirs.gram.diagonal().abs().max()))
    np.testing.assert_allclose(torch.tril(ours.gram), torch.tril(theirs.gram), rtol=rtol, atol=rtol * scale)
    np.testing.assert_allclose(ours.cross, theirs.cross, rtol=rtol, atol=rtol * scale)
    np.testing.assert_allclose(astuple(actual.targets), astuple(expected.targets), rtol=rtol, atol=rtol * scale)


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
    sums, targets = statistics.sums.expand(), statistics.targets
    np.testing.assert_allclose(np.tril(sums.gram.numpy()), np.tril(gram), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums.cross[:, 0], phi.T @ (rho * target), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(sums.cross[:, 1], phi.T @ rho, rtol=1e-12, atol=1e-12)
    assert targets.squares == pytest.approx(np.sum(rho * target**2), rel=1e-13)
    assert targets.linear == pytest.approx(np.sum(rho * target), rel=1e-12)
    assert targets.precision == pytest.approx(np.sum(rho), rel=1e-13)
    assert targets.n == pytest.approx(np.sum(w), rel=1e-13)
    assert targets.weighted == pytest.approx(np.sum(w * target), rel=1e-12)
    assert targets.log_precision == pytest.approx(np.sum(w * np.log(rho / w)), rel=1e-12, abs=1e-13)
    assert statistics.mean == pytest.approx(np.average(target, weights=w), rel=1e-12)


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
    in_place = Statistics.zeros(n_features, SOURCE)
    for part in (slice(0, 33), slice(33, 90)):
        in_place.add_rows(*(tensor[part] for tensor in rows))
    assert_equal(in_place, summed(*rows))


@pytest.mark.parametrize("n_features", [3, 200])
def test_rows_are_taken_out_again(n_features: int) -> None:
    rows = draw(90, n_features)
    first, last = (summed(*(tensor[part] for tensor in rows)) for part in (slice(0, 60), slice(60, 90)))
    assert_equal(summed(*rows) - last, first)
    assert_equal(first + last - last, first)


def values(statistics: Statistics) -> list[torch.Tensor]:
    sums = statistics.sums.expand()
    return [sums.gram.clone(), sums.cross.clone(), *map(torch.as_tensor, astuple(statistics.targets))]


def test_sums_and_differences_leave_their_operands_alone() -> None:
    a, b = summed(*draw(20, 3)), summed(*draw(20, 3, seed=1), origin=2.0)
    before = [*values(a), *values(b)]
    for result in (a + b, a - b, a.centred(5.0)):
        result.add_rows(torch.ones((1, 3), dtype=torch.float64), torch.ones(1, dtype=torch.float64))
    for value, expected in zip([*values(a), *values(b)], before, strict=True):
        assert torch.equal(value, expected)


def test_update_does_in_place_what_merge_does() -> None:
    a, b = summed(*draw(20, 3)), summed(*draw(20, 3, seed=1), origin=2.0)
    for sign, expected in ((1.0, a + b), (-1.0, a - b)):
        updated = summed(*draw(20, 3))
        updated.update(b, sign)
        assert_equal(updated, expected, rtol=0.0)


def test_the_statistics_of_no_rows_are_zero() -> None:
    rows = draw(20, 5)
    assert_equal(Statistics.zeros(5, SOURCE) + summed(*rows), summed(*rows), rtol=0.0)
    nothing = summed(*(tensor[:0] for tensor in rows))
    assert_equal(nothing, Statistics.zeros(5, SOURCE), rtol=0.0)
    assert nothing.mean == 0.0


@pytest.mark.parametrize("level", [0.0, -3.0, 1e8])
def test_the_origin_changes_nothing_but_the_rounding(level: float) -> None:
    features, y, weights, precision = draw(50, 4)
    y = y + level
    expected = summed(features, y - level, weights, precision)
    parts = [
        summed(*(tensor[part] for tensor in (features, y, weights, precision)), origin=level + shift)
        for part, shift in ((slice(0, 20), 0.3), (slice(20, 50), -1.0))
    ]
    total = (parts[0] + parts[1]).centred(level)
    moved = total.sums.expand()
    exact = expected.sums.expand()
    # y itself is rounded to 1.5e-8 at a level of 1e8.
    tolerance = 1e-11 + 1e-16 * abs(level)
    np.testing.assert_allclose(moved.cross, exact.cross, rtol=0, atol=1e3 * tolerance)
    assert total.targets.squares == pytest.approx(expected.targets.squares, rel=100 * tolerance)
    assert total.mean - level == pytest.approx(expected.mean, abs=100 * tolerance)


@pytest.mark.parametrize("change", [1.0, -1.0, 0.5])
def test_sums_are_of_the_targets_less_their_origin(change: float) -> None:
    rows = draw(30, 4)
    assert_equal(summed(*rows, origin=change), summed(*rows))
    assert_equal(summed(*rows), summed(*rows, origin=change))


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
    ours, theirs = Statistics.zeros(3, SOURCE), Statistics.zeros(3, other)
    for combine in (ours.merge, ours.update, ours.__add__, ours.__sub__):
        with pytest.raises(InputError, match=f"(?s)another {what.split(',')[0]}.*{message}"):
            combine(theirs)
    with pytest.raises(InputError, match=f"another {what.split(',')[0]} cannot be merged"):
        theirs.merge(ours)
    ours.update(Statistics.zeros(3, replace(SOURCE, centre=np.zeros(2))))  # an equal one


def test_a_weight_stands_for_repetitions_of_the_row() -> None:
    features, y, _, precision = draw(20, 4)
    counts = torch.from_numpy(np.random.default_rng(3).integers(0, 4, 20))
    repeated = [torch.repeat_interleave(tensor, counts, dim=0) for tensor in (features, y)]
    repeated_precision = torch.repeat_interleave(precision, counts)
    weighted = summed(features, y, counts.to(torch.float64), precision)
    assert_equal(weighted, summed(*repeated, precision=repeated_precision))


@pytest.mark.parametrize("n_features", [6, 300])
@pytest.mark.parametrize("factor", [1.0, 1.7])
def test_some_columns_have_the_statistics_of_a_map_of_these_columns(n_features: int, factor: float) -> None:
    features, y, weights, precision = draw(40, n_features)
    columns = torch.from_numpy(np.flatnonzero(np.random.default_rng(5).integers(0, 2, n_features)))
    assert 1 < len(columns) < n_features
    whole = summed(features, y, weights, precision)
    before = values(whole)
    part = whole.of_columns(columns, factor)
    assert_equal(part, summed(factor * features[:, columns], y, weights, precision))
    assert part.sums.expand().gram.shape == (len(columns), len(columns))
    part.add_rows(features[:, columns], y)
    for value, expected in zip(values(whole), before, strict=True):
        assert torch.equal(value, expected)
    with pytest.raises(InputError, match="another map"):
        part.merge(whole.of_columns(columns, 3.0))


def test_all_columns_are_the_statistics_themselves() -> None:
    whole = summed(*draw(40, 9))
    assert_equal(whole.of_columns(torch.arange(9)), whole, rtol=0.0)


class TestMoments:
    """Sums of moments beside sums of products, of the same map."""

    def made(self) -> tuple[Statistics, Statistics, Statistics, Statistics]:
        """Of rows a by moments and by products, and those of rows b."""
        rng = np.random.default_rng(0)
        features, source = TaylorFeatures(45).fit(rng.normal(size=(400, 2)), centroids=np.zeros((1, 2))), SOURCE
        made = []
        for n, origin in ((30, 0.5), (20, -1.0)):
            rows = Rows(rng.normal(size=(n, 2)), rng.normal(size=n))
            moments = features.summed(iter([rows]), source, origin)
            products = Statistics.zeros(45, source, origin)
            precision = source.noise.relative_precision(rows, features.missing_variance(torch.from_numpy(rows.X)))
            products.add_rows(features.evaluate(torch.from_numpy(rows.X)), torch.from_numpy(rows.y), None, precision)
            assert isinstance(moments.sums, MomentSums)
            made += [moments, products]
        return tuple(made)

    def test_they_combine_in_any_order(self) -> None:
        a, of_a, b, of_b = self.made()
        for sign in (1.0, -1.0):
            expected = of_a.merge(of_b, sign).centred(0.0)
            for one, other in ((a, of_b), (of_a, b), (a, b)):
                assert_equal(one.merge(other, sign), expected, rtol=1e-9)
        assert isinstance(a.merge(b).sums, MomentSums)
        assert isinstance(of_a.merge(b).sums, MomentSums)  # beside the products of a

    def test_rows_are_added_as_products(self) -> None:
        a, of_a, _, _ = self.made()
        features, y = torch.ones((1, 45), dtype=torch.float64), torch.ones(1, dtype=torch.float64)
        for one in (a, of_a):
            one.add_rows(features, y)
        assert isinstance(a.sums, GramSums)
        assert_equal(a, of_a.centred(of_a.targets.origin), rtol=1e-9)
        assert a.expanded() is a
        _, _, b, of_b = self.made()
        assert_equal(b.expanded(), of_b.centred(of_b.targets.origin), rtol=1e-9)
        assert isinstance(b.sums, MomentSums)
