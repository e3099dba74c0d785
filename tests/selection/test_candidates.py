"""What may be chosen, by what the user allows and the data, and what the cost model expects of it."""

import math
from dataclasses import replace

import numpy as np
import pytest

from lmgp import GaussianKernel, OrthogonalFourierFeatures, TaylorFeatures, farthest_point_clustering
from lmgp.locality.placement import cover
from lmgp.selection import candidates
from lmgp.selection.candidates import Allowed, families, max_centroids, sizes
from lmgp.selection.costs import Costs, Rate
from lmgp.selection.search import Candidate, Choice, Family
from lmgp.validation import Rows

KERNEL = GaussianKernel(1.0, 1.0)
OPEN = Allowed(None, None, None, "dtc", 256)
SHARE = 1e-6
ROWS_IN_PLACE_OF_FEATURES = {"nearest_rows", "exact"}


def power_law(unit: float, power: float) -> Rate:
    return Rate((1.0, 2.0), (unit, unit * 2.0**power))


# A machine of one operation a nanosecond, where nothing but the exact GP takes long.
MACHINE = Costs(
    model=1e-5,
    factorise=power_law(1e-10, 3),
    product_row=power_law(1e-10, 2),
    moment_row=power_law(1e-10, 1),
    predict_row=power_law(1e-10, 2),
    exact=power_law(1e-3, 3),
    exact_row=power_law(1e-9, 2),
    neighbours_row=power_law(1e-10, 3),
)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "measured_costs", lambda: MACHINE)


def draw(n: int = 400, d: int = 2, extent: float = 8.0) -> Rows:
    rng = np.random.default_rng(0)
    return Rows(rng.uniform(0.0, extent, (n, d)), rng.normal(size=n))


def listed(rows: Rows, allowed: Allowed = OPEN, n_predict: int = 1000, share: float = SHARE) -> list[Family]:
    limit = max_centroids(*rows.X.shape)
    return families(rows, len(rows.y), KERNEL, allowed, lambda t: cover(rows, KERNEL, t, limit), share, n_predict)


def choices(found: list[Family]) -> list[Choice]:
    return [candidate.choice for family in found for candidate in family.candidates]


def seconds(found: list[Family], method: str, threshold: float | None = None) -> dict[int, float]:
    return {
        candidate.choice.size: candidate.seconds
        for family in found
        for candidate in family.candidates
        if (candidate.choice.method, candidate.choice.threshold) == (method, threshold)
    }


class TestSizes:
    @pytest.mark.parametrize(
        ("largest", "expected"),
        [
            (2048, [32, 64, 128, 256, 512, 1024, 2048]),
            (100, [50, 100]),
            (64, [32, 64]),
            (63, [63]),
            (32, [32]),
            (2, [2]),
        ],
    )
    def test_halves_down_to_a_few(self, largest: int, expected: list[int]) -> None:
        assert sizes(largest) == expected

    @pytest.mark.parametrize("largest", [2, 31, 100, 700])
    def test_no_candidate_has_more_columns_or_rows_than_allowed(self, largest: int) -> None:
        found = choices(listed(draw(), replace(OPEN, max_features=largest)))
        assert max(choice.size for choice in found) == largest or largest > 400
        for choice in found:
            assert choice.size <= largest
            assert (choice.n_neighbors or 0) <= largest
            if choice.features is not None:
                assert choice.features.n_features == choice.size

    def test_grow_within_a_family(self) -> None:
        for family in listed(draw()):
            each = [candidate.choice.size for candidate in family.candidates]
            assert each == sorted(set(each))


class TestWhatIsAllowed:
    def test_everything(self) -> None:
        found = choices(listed(draw(), replace(OPEN, max_features=512)))
        assert {choice.method for choice in found} == {
            "global_taylor", "global_taylor_energy", "orf", "nystroem", "local_taylor", "local_taylor_energy",
            "local_maclaurin_tensor_srht", "nearest_rows", "exact",
        }  # fmt: skip
        assert {choice.threshold for choice in found if choice.method.startswith("local_")} == {
            4.0,
            2.0,
            1.0,
            0.5,
            0.25,
        }
        assert {choice.threshold for choice in found if not choice.method.startswith("local_")} == {None}

    def test_features_only(self) -> None:
        found = choices(listed(draw(), replace(OPEN, solver="primal", max_features=512)))
        assert not {choice.method for choice in found} & ROWS_IN_PLACE_OF_FEATURES
        assert {choice.solver for choice in found} == {"primal"}

    def test_rows_only(self) -> None:
        found = choices(listed(draw(), replace(OPEN, solver="dual", max_features=512)))
        assert {choice.method for choice in found} == ROWS_IN_PLACE_OF_FEATURES
        assert {choice.solver for choice in found} == {"dual"}
        assert all(choice.features is None for choice in found)
        assert [choice.n_neighbors for choice in found] == [32, 64, 128, 256, None]

    def test_unless_told_otherwise_global_models_are_solved_by_features_and_localized_ones_as_is_best(self) -> None:
        for choice in choices(listed(draw())):
            if choice.features is not None:
                assert choice.solver == ("primal" if choice.threshold is None else "auto")

    @pytest.mark.parametrize("solver", [None, "primal", "auto"])
    def test_a_threshold(self, solver: str | None) -> None:
        """Which may need one centroid only, or as many as rows."""
        for threshold in (0.01, 1.3, 1000.0):
            found = choices(listed(draw(), replace(OPEN, threshold=threshold, solver=solver)))
            assert {choice.threshold for choice in found} == {threshold}
            assert {choice.method for choice in found} == {
                "local_taylor", "local_taylor_energy", "local_maclaurin_tensor_srht",
            }  # fmt: skip

    @pytest.mark.parametrize(("features", "size"), [(TaylorFeatures(66), 66), (OrthogonalFourierFeatures(300), 300)])
    def test_features(self, features: object, size: int) -> None:
        found = choices(listed(draw(), replace(OPEN, features=features)))
        assert all(choice.features is features for choice in found)
        assert {choice.size for choice in found} == {size}
        assert [choice.threshold for choice in found] == [None, 4.0, 2.0, 1.0, 0.5, 0.25]

    @pytest.mark.parametrize(("missing", "around_centroids"), [("dtc", "fitc"), ("sor", "sor"), ("fitc", "fitc")])
    def test_missing_variance(self, missing: str, around_centroids: str) -> None:
        for choice in choices(listed(draw(), replace(OPEN, approximation=missing))):
            assert choice.approximation == (missing if choice.threshold is None else around_centroids)

    def test_of_one_column_there_is_one_index_set(self) -> None:
        found = listed(draw(d=1))
        assert not any("energy" in choice.method for choice in choices(found))
        assert all(family.rival is None for family in found)

    def test_the_two_index_sets_are_rivals(self) -> None:
        found = {(one.candidates[0].choice.method, one.candidates[0].choice.threshold): one for one in listed(draw())}
        for (method, threshold), family in found.items():
            if "taylor" in method:
                other = method.removesuffix("_energy") if "energy" in method else f"{method}_energy"
                assert family.rival is found[other, threshold]
            else:
                assert family.rival is None


class TestExact:
    @pytest.mark.parametrize("solver", [None, "auto", "dual"])
    @pytest.mark.parametrize("n", [1, 2, 10, 31, 32, 33, 256])
    def test_all_rows_are_a_candidate_where_these_are_few(self, n: int, solver: str | None) -> None:
        found = listed(draw(n), replace(OPEN, solver=solver))
        assert list(seconds(found, "exact")) == [n]
        (exact,) = (choice for choice in choices(found) if choice.method == "exact")
        assert (exact.features, exact.n_neighbors, exact.threshold, exact.solver) == (None, None, None, "dual")

    def test_not_more_rows_than_columns_allowed(self) -> None:
        assert not seconds(listed(draw(257)), "exact")

    def test_fewer_rows_than_all_are_nearest_ones(self) -> None:
        assert list(seconds(listed(draw(128)), "nearest_rows")) == [32, 64]
        assert not seconds(listed(draw(20)), "nearest_rows")

    @pytest.mark.parametrize("n", [1, 5, 40, 400])
    @pytest.mark.parametrize("max_features", [2, 31, 1000])
    @pytest.mark.parametrize("solver", [None, "primal", "auto", "dual"])
    def test_there_is_always_a_candidate(self, n: int, max_features: int, solver: str | None) -> None:
        found = listed(draw(n), replace(OPEN, solver=solver, max_features=max_features))
        assert found
        assert all(family.candidates for family in found)

    def test_landmarks_are_not_many_more_than_rows(self) -> None:
        assert max(seconds(listed(draw(50)), "nystroem")) < 100
        assert list(seconds(listed(draw(10), replace(OPEN, solver="primal")), "nystroem")) == [32]


class TestThresholds:
    def test_those_with_too_many_centroids_are_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(candidates, "FEW_CENTROIDS", 60)
        rows = draw(400, d=4)
        limit = max_centroids(400, 4)
        assert limit == 60
        expected = [t for t in (4.0, 2.0, 1.0, 0.5, 0.25) if len(farthest_point_clustering(rows.X, t)) < limit]
        assert 0 < len(expected) < 5
        found = {choice.threshold for choice in choices(listed(rows))} - {None}
        assert found == set(expected)

    def test_one_centroid_is_a_global_model(self) -> None:
        assert {choice.threshold for choice in choices(listed(draw(extent=0.5)))} == {None, 0.25}

    def test_of_more_rows_more_centroids_are_looked_for_except_in_high_dimension(self) -> None:
        assert max_centroids(100, 2) == max_centroids(1000, 8) == 256
        assert max_centroids(80_000, 3) == 10_000
        assert max_centroids(80_000, 8) == 6250
        assert max_centroids(1_000_000, 8) == 500
        assert max_centroids(10**9, 8) == 256

    def test_a_given_one_is_kept_whatever_it_takes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(candidates, "FEW_CENTROIDS", 1)
        monkeypatch.setattr(candidates, "ROWS_PER_CENTROID", 1000)
        assert choices(listed(draw(), replace(OPEN, threshold=0.25)))


class TestSeconds:
    ROWS = draw(400)

    def test_grow_with_the_size(self) -> None:
        for family in listed(self.ROWS):
            each = [candidate.seconds for candidate in family.candidates]
            assert min(each) > 0.0
            assert np.all(np.isfinite(each))
            assert each == sorted(each)
            assert len(each) == 1 or each[-1] > each[0]

    @pytest.mark.parametrize(
        "method", ["orf", "nystroem", "global_taylor", "local_taylor", "local_maclaurin_tensor_srht"]
    )
    def test_grow_with_the_rows(self, method: str) -> None:
        """Of the same place, so that there are as many centroids."""
        threshold = 2.0 if method.startswith("local_") else None
        few = self.ROWS
        many = Rows(np.repeat(few.X, 20, axis=0), np.repeat(few.y, 20))
        allowed = replace(OPEN, solver="primal")
        found = [seconds(listed(rows, allowed), method, threshold)[256] for rows in (few, many)]
        assert found[1] > found[0]

    def test_grow_with_the_rows_to_predict(self) -> None:
        few, many = (
            [(one.choice.method, one.choice.size, one.choice.threshold, one.seconds) for one in self.flat(n_predict)]
            for n_predict in (1000, 100_000)
        )
        assert [line[:3] for line in few] == [line[:3] for line in many]
        assert all(less[3] < more[3] for less, more in zip(few, many, strict=True))

    def flat(self, n_predict: int) -> list[Candidate]:
        found = listed(self.ROWS, replace(OPEN, solver="primal"), n_predict)
        return [candidate for family in found for candidate in family.candidates]

    def test_nearest_rows_cost_by_the_rows_to_predict_alone(self) -> None:
        first = seconds(listed(self.ROWS, n_predict=100), "nearest_rows")
        second = seconds(listed(self.ROWS, n_predict=1000), "nearest_rows")
        assert list(second.values()) == pytest.approx([10.0 * value for value in first.values()])
        assert first[64] == pytest.approx(100 * 1e-10 * 64**3)

    def test_only_models_from_which_a_row_is_predicted_are_solved(self) -> None:
        allowed = replace(OPEN, solver="primal")
        found = [seconds(listed(self.ROWS, allowed, n), "local_taylor", 0.25)[256] for n in (1, 2, 10**4)]
        assert found[1] == pytest.approx(2.0 * found[0], rel=1e-9)
        n_models = len(cover(self.ROWS, KERNEL, 0.25))
        per_row = 1e-10 * 256**2
        assert found[2] == pytest.approx(n_models * (found[0] - per_row) + 10**4 * per_row, rel=1e-9)

    def test_a_global_model_by_hand(self) -> None:
        found = seconds(listed(self.ROWS, n_predict=7), "orf")
        assert found[64] == pytest.approx(1e-5 + 1e-10 * 64**3 + 400 * 1e-10 * 64**2 + 7 * 1e-10 * 64**2)

    def test_rows_out_of_reach_cost_nothing(self) -> None:
        """A row is within reach of a part of the centroids: of fewer, where more may be left out."""
        wide = draw(400, extent=60.0)
        allowed = replace(OPEN, solver="primal", threshold=4.0)
        found = [
            seconds(listed(wide, allowed, share=share), "local_maclaurin_tensor_srht", 4.0)[256]
            for share in (1e-2, 1e-12, 0.0)
        ]
        assert found[0] < found[1] < found[2]
        n_models = len(cover(wide, KERNEL, 4.0))
        every_row = n_models * (1e-5 + 1e-10 * 256**3 + 400 * 1e-10 * 256**2) + 1000 * 1e-10 * 256**2
        assert found[2] == pytest.approx(every_row)

    def test_moments_are_taken_where_they_cost_less(self) -> None:
        """In two columns they do; in sixteen they do not."""
        many = Rows(np.repeat(self.ROWS.X, 5, axis=0), np.repeat(self.ROWS.y, 5))
        allowed = replace(OPEN, solver="primal")
        found = listed(many, allowed, n_predict=1)
        assert seconds(found, "global_taylor")[256] < 0.5 * seconds(found, "orf")[256]
        found = listed(draw(400, d=16), allowed, n_predict=1)
        assert seconds(found, "global_taylor")[256] == pytest.approx(seconds(found, "orf")[256])


@pytest.mark.parametrize("n_inputs", [1, 2, 5])
def test_the_measured_rates_give_costs_too(n_inputs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from lmgp.selection.costs import measured_costs

    monkeypatch.setattr(candidates, "measured_costs", measured_costs)
    for family in listed(draw(300, n_inputs)):
        each = [candidate.seconds for candidate in family.candidates]
        assert np.all(np.isfinite(each) & (np.array(each) > 0.0))


def test_of_more_rows_than_the_exact_process_can_take_none_costs_more_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = draw(400, d=6)
    allowed = replace(OPEN, max_features=2048)

    def found(n_rows: int) -> list:
        return families(rows, n_rows, KERNEL, allowed, lambda t: cover(rows, KERNEL, t, 100), 1e-9, n_rows)

    cheap = replace(MACHINE, exact=power_law(1e-9, 3))
    monkeypatch.setattr(candidates, "measured_costs", lambda: cheap)
    limit = cheap.exact(candidates.MAX_EXACT_ROWS) / candidates.MAX_EXACT_ROWS
    listed_candidates = [candidate for family in found(400_000) for candidate in family.candidates]
    assert max(candidate.seconds for candidate in listed_candidates) <= limit * 400_000
    assert ("nearest_rows", 2048) not in {(one.choice.method, one.choice.size) for one in listed_candidates}
    monkeypatch.setattr(candidates, "LONG", math.inf)
    everything = [candidate for family in found(400_000) for candidate in family.candidates]
    assert len(everything) > len(listed_candidates) > 10
