"""What may be chosen, by what the user allows and the data, and what the cost model expects of it."""

from dataclasses import replace

import numpy as np
import pytest

from lmgp import (
    GaussianKernel,
    MaternKernel,
    RationalQuadraticKernel,
    farthest_point_clustering,
)
from lmgp.errors import InputError
from lmgp.kernels.base import Kernel
from lmgp.locality.cells import points_per_cell
from lmgp.locality.placement import cover
from lmgp.methods import METHODS, SPECTRAL
from lmgp.selection import candidates
from lmgp.selection.candidates import LIMITS, NAMES, TRIED, Allowed, checked_methods, families, sizes
from lmgp.selection.costs import Costs, KernelCosts, Rate, measured_costs, measured_kernel_costs, weighed
from lmgp.selection.families import Candidate, Choice, Family
from lmgp.selection.prices import Prices
from lmgp.validation import Rows

KERNEL = GaussianKernel(1.0, 1.0)
OPEN = Allowed(max_features=256)
ROWS_ONLY = ("nearest_rows", "exact")
# The global solve is taken at once, or not at all: see tests/models/test_chosen_modes.py.
SEARCHED = tuple(name for name in TRIED if name != SPECTRAL)
FEATURES = tuple(name for name in SEARCHED if name not in (*ROWS_ONLY, "residual"))
LOCAL = tuple(name for name in FEATURES if METHODS[name].localized)
FEATURES_ONLY = replace(OPEN, methods=FEATURES)
SHARE = 1e-6


def power_law(unit: float, power: float) -> Rate:
    return Rate((1.0, 2.0), (unit, unit * 2.0**power))


# A machine of ten operations a nanosecond.
MACHINE = Costs(
    model=1e-5,
    factorise=power_law(1e-10, 3),
    product_row=power_law(1e-10, 2),
    moment_row=power_law(1e-10, 1),
    predict_row=power_law(1e-10, 2),
    landmark_row=1e-12,
    exact=power_law(1e-12, 3),
    exact_row=power_law(1e-9, 2),
)


def of_nearest(rate: Rate) -> KernelCosts:
    """Make the costs of a kernel whose nearest rows are not shared."""
    return KernelCosts(entry=1e-11, neighbours_row=rate, cell_row=rate, shared_row=rate)


OF_KERNEL = of_nearest(power_law(1e-10, 3))
N_PROBES = 50


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """List those too that take next to nothing."""
    monkeypatch.setattr(candidates, "LIMITS", replace(LIMITS, negligible=0.0))


def draw(n: int = 400, d: int = 2, extent: float = 8.0) -> Rows:
    rng = np.random.default_rng(0)
    return Rows(rng.uniform(0.0, extent, (n, d)), rng.normal(size=n))


def listed(
    rows: Rows,
    allowed: Allowed = OPEN,
    n_predict: int = 1000,
    share: float = SHARE,
    kernel: Kernel = KERNEL,
    machine: Costs = MACHINE,
    of_kernel: KernelCosts = OF_KERNEL,
) -> list[Family]:
    limit = candidates.LIMITS.max_centroids(*rows.X.shape)
    prices = Prices(rows, len(rows.y), kernel, share, n_predict, machine, of_kernel, N_PROBES)
    return families(allowed, kernel, prices, lambda threshold: cover(rows, kernel, threshold, limit))


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
        """But for the exact GP, which has all rows."""
        found = [one for one in choices(listed(draw(), replace(OPEN, max_features=largest))) if one.method != "exact"]
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
            "local_maclaurin_tensor_srht", "residual", "nearest_rows", "exact",
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
        found = choices(listed(draw(), FEATURES_ONLY))
        assert {choice.method for choice in found} == set(FEATURES)
        assert all(choice.features is not None and choice.solver != "dual" for choice in found)

    def test_rows_only(self) -> None:
        found = choices(listed(draw(), replace(OPEN, methods=ROWS_ONLY, max_features=512)))
        assert {choice.method for choice in found} == set(ROWS_ONLY)
        assert {choice.solver for choice in found} == {"dual"}
        assert all(choice.features is None for choice in found)
        assert [choice.n_neighbors for choice in found] == [32, 64, 128, 256, None]

    def test_global_models_are_solved_by_features_and_localized_ones_as_is_best(self) -> None:
        for choice in choices(listed(draw())):
            if choice.features is not None:
                assert choice.solver == ("primal" if choice.threshold is None else "auto")

    @pytest.mark.parametrize("method", [name for name in NAMES if name != SPECTRAL])
    @pytest.mark.parametrize("n", [10, 200])
    def test_one_method(self, method: str, n: int) -> None:
        assert {choice.method for choice in choices(listed(draw(n), replace(OPEN, methods=(method,))))} == {method}

    @pytest.mark.parametrize("approximation", ["dtc", "sor", "fitc"])
    def test_the_approximation_is_that_of_every_model(self, approximation: str) -> None:
        found = choices(listed(draw(), replace(OPEN, approximation=approximation)))
        assert {choice.approximation for choice in found} == {approximation}

    @pytest.mark.parametrize("method", ["local_taylor_energy", "global_taylor_energy"])
    def test_of_one_column_an_index_set_can_be_named(self, method: str) -> None:
        found = listed(draw(d=1), replace(OPEN, methods=(method,)))
        assert {choice.method for choice in choices(found)} == {method}

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
    @pytest.mark.parametrize("methods", [TRIED, ROWS_ONLY, ("exact",)])
    @pytest.mark.parametrize("n", [1, 2, 10, 31, 32, 33, 256])
    def test_all_rows_are_a_candidate_where_these_are_few(self, n: int, methods: tuple[str, ...]) -> None:
        found = listed(draw(n), replace(OPEN, methods=methods))
        assert list(seconds(found, "exact")) == [n]
        (exact,) = (choice for choice in choices(found) if choice.method == "exact")
        assert (exact.features, exact.n_neighbors, exact.threshold, exact.solver) == (None, None, None, "dual")

    def test_more_rows_than_columns_allowed_too(self) -> None:
        assert list(seconds(listed(draw(257), replace(OPEN, max_features=40)), "exact")) == [257]

    def test_takes_no_search_where_it_is_quick(self) -> None:
        """n²(n/3 + n_predict) multiplications, as many as 2,500 rows need for as many predictions."""
        assert OPEN.needs_no_search(2400, 2400)
        assert not OPEN.needs_no_search(2600, 2600)
        assert OPEN.needs_no_search(3500, 10)
        assert not OPEN.needs_no_search(100, 10**7)
        assert not replace(OPEN, methods=FEATURES).needs_no_search(10, 10)
        assert replace(OPEN, methods=("exact",)).needs_no_search(10_000, 10**7)
        assert not replace(OPEN, methods=("exact",), max_memory_gib=1e-3).needs_no_search(10_000, 10)

    def test_by_hand(self) -> None:
        found = seconds(listed(draw(400), n_predict=7), "exact")
        expected = 1e-12 * 400**3 + 400**2 * 1e-11 + 7 * (1e-9 * 400**2 + 400 * 1e-11)
        assert found[400] == pytest.approx(expected)

    def test_nearest_rows_are_no_more_than_can_be_told(self) -> None:
        assert list(seconds(listed(draw(), replace(OPEN, max_neighbours=128)), "nearest_rows")) == [32, 64, 128]

    def test_fewer_rows_than_all_are_nearest_ones(self) -> None:
        assert list(seconds(listed(draw(128)), "nearest_rows")) == [32, 64]
        assert not seconds(listed(draw(20)), "nearest_rows")
        assert list(seconds(listed(draw(20), replace(OPEN, methods=("nearest_rows",))), "nearest_rows")) == [20]

    @pytest.mark.parametrize("n", [1, 5, 40, 400])
    @pytest.mark.parametrize("max_features", [2, 31, 1000])
    @pytest.mark.parametrize("methods", [TRIED, FEATURES, LOCAL, ROWS_ONLY])
    def test_there_is_always_a_candidate(self, n: int, max_features: int, methods: tuple[str, ...]) -> None:
        found = listed(draw(n), replace(OPEN, methods=methods, max_features=max_features))
        assert found
        assert all(family.candidates for family in found)

    def test_landmarks_are_not_many_more_than_rows(self) -> None:
        assert max(seconds(listed(draw(50)), "nystroem")) < 100
        assert list(seconds(listed(draw(10), FEATURES_ONLY), "nystroem")) == [32]


class TestThresholds:
    def test_those_with_too_many_centroids_are_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(candidates, "LIMITS", replace(LIMITS, few_centroids=60))
        rows = draw(400, d=4)
        limit = candidates.LIMITS.max_centroids(400, 4)
        assert limit == 60
        expected = [t for t in (4.0, 2.0, 1.0, 0.5, 0.25) if len(farthest_point_clustering(rows.X, t)) < limit]
        assert 0 < len(expected) < 5
        found = {choice.threshold for choice in choices(listed(rows))} - {None}
        assert found == set(expected)

    def test_one_centroid_is_a_global_model(self) -> None:
        assert {choice.threshold for choice in choices(listed(draw(extent=0.5)))} == {None, 0.25}

    def test_of_more_rows_more_centroids_are_looked_for_except_in_high_dimension(self) -> None:
        assert LIMITS.max_centroids(100, 2) == LIMITS.max_centroids(1000, 8) == 256
        assert LIMITS.max_centroids(80_000, 3) == 10_000
        assert LIMITS.max_centroids(80_000, 8) == 1562
        assert LIMITS.max_centroids(400_000, 8) == 312
        assert LIMITS.max_centroids(10**9, 8) == 256

    def test_where_localized_models_alone_are_allowed_one_centroid_will_do(self) -> None:
        found = choices(listed(draw(extent=0.5), replace(OPEN, methods=LOCAL)))
        assert {choice.threshold for choice in found} == set(LIMITS.thresholds)


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
        allowed = FEATURES_ONLY
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
        found = listed(self.ROWS, FEATURES_ONLY, n_predict)
        return [candidate for family in found for candidate in family.candidates]

    def test_nearest_rows_cost_by_the_rows_to_predict_alone(self) -> None:
        first = seconds(listed(self.ROWS, n_predict=100), "nearest_rows")
        second = seconds(listed(self.ROWS, n_predict=1000), "nearest_rows")
        assert list(second.values()) == pytest.approx([10.0 * value for value in first.values()])
        assert first[64] == pytest.approx(100 * 1e-10 * 64**3)

    def test_nearest_rows_that_are_shared_cost_by_the_cell(self) -> None:
        """Few rows are each alone in a cell; of many, a cell serves as many as it has training rows."""
        n, k = len(self.ROWS.y), 128
        cell, row, members = 1e-2, 1e-5, points_per_cell(2, k)
        shared = replace(OF_KERNEL, cell_row=power_law(cell + row, 0), shared_row=power_law(cell / members + row, 0))
        for n_predict, n_cells in ((2, 2.0), (n // 2, n / members), (n, n / members), (4 * n, 4.0 * n / members)):
            found = seconds(listed(self.ROWS, n_predict=n_predict, of_kernel=shared), "nearest_rows")
            assert found[k] == pytest.approx(n_cells * cell + n_predict * row)

    def test_only_models_from_which_a_row_is_predicted_are_solved(self) -> None:
        allowed = FEATURES_ONLY
        found = [seconds(listed(self.ROWS, allowed, n), "local_taylor", 0.25)[256] for n in (1, 2, 10**4)]
        assert found[1] == pytest.approx(2.0 * found[0], rel=1e-9)
        n_models = len(cover(self.ROWS, KERNEL, 0.25))
        per_row = 1e-10 * 253**2  # all monomials up to degree 21
        assert found[2] == pytest.approx(n_models * (found[0] - per_row) + 10**4 * per_row, rel=1e-9)

    def test_a_global_model_by_hand(self) -> None:
        found = seconds(listed(self.ROWS, n_predict=7), "orf")
        assert found[64] == pytest.approx(1e-5 + 1e-10 * 64**3 + 400 * 1e-10 * 64**2 + 7 * 1e-10 * 64**2)

    def test_rows_out_of_reach_cost_nothing(self) -> None:
        """A row is within reach of a part of the centroids: of fewer, where more may be left out."""
        wide = draw(400, extent=60.0)
        allowed = replace(OPEN, methods=("local_maclaurin_tensor_srht",))
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
        allowed = FEATURES_ONLY
        found = listed(many, allowed, n_predict=1)
        assert seconds(found, "global_taylor")[256] < 0.5 * seconds(found, "orf")[256]
        found = listed(draw(400, d=16), allowed, n_predict=1)
        n_columns = 153  # all monomials up to degree 2
        products = 1e-5 + 1e-10 * n_columns**3 + 401 * 1e-10 * n_columns**2
        assert seconds(found, "global_taylor")[256] == pytest.approx(products)

    def test_what_takes_long_is_left_out_but_for_the_cheapest(self) -> None:
        """Longer than 20 s, and than 256 nearest rows."""
        slow = replace(MACHINE, model=1e3, exact=power_law(1e-6, 3))
        of_kernel = of_nearest(power_law(1e-9, 3))
        for n_predict, expected in ((10, {32, 64, 128, 256, 512}), (1000, {32, 64, 128, 256})):
            found = listed(self.ROWS, Allowed(), n_predict, machine=slow, of_kernel=of_kernel)
            assert {one.size for one in choices(found)} >= expected - {512}
            assert {one.method for one in choices(found)} == {"nearest_rows"}
        found = choices(listed(self.ROWS, replace(OPEN, methods=("exact", "orf")), machine=slow))
        assert [choice.method for choice in found] == ["exact"]

    def test_as_long_as_256_nearest_rows_is_affordable(self) -> None:
        of_kernel = of_nearest(power_law(1e-8, 3))
        rows = draw(3000)
        for n_predict, largest in ((10, 512), (300, 256), (10**6, 256)):
            found = listed(rows, replace(Allowed(), methods=("nearest_rows",)), n_predict, of_kernel=of_kernel)
            assert max(choice.size for choice in choices(found)) == largest

    def test_a_size_is_left_out_where_the_next_one_takes_next_to_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(candidates, "LIMITS", LIMITS)
        assert list(seconds(listed(self.ROWS), "orf")) == [256]
        assert len(seconds(listed(self.ROWS, n_predict=10**6), "orf")) == 4

    def test_of_a_trial_are_those_for_the_probes(self) -> None:
        """It is fitted to all rows."""
        methods = (*FEATURES, *ROWS_ONLY)  # what is affordable of residuals depends on the number of predictions
        found, probes = (
            listed(self.ROWS, replace(OPEN, methods=methods), n_predict) for n_predict in (10**5, N_PROBES)
        )
        tried = [one.trial_seconds for family in found for one in family.candidates if one.choice.method != "exact"]
        expected = [one.seconds for family in probes for one in family.candidates if one.choice.method != "exact"]
        assert tried == pytest.approx(expected)

    def test_of_a_trial_of_residuals_are_those_for_the_probes(self) -> None:
        allowed = replace(OPEN, methods=("residual",))
        few, many = (
            {
                (one.choice.size, one.choice.n_neighbors): one
                for family in listed(self.ROWS, allowed, n_predict)
                for one in family.candidates
            }
            for n_predict in (N_PROBES, 10**5)
        )
        common = few.keys() & many.keys()
        assert len(common) >= 2
        for key in common:
            assert many[key].trial_seconds == pytest.approx(few[key].seconds)

    def test_landmarks_are_drawn_first(self) -> None:
        found = seconds(listed(self.ROWS, n_predict=7), "nystroem")
        landmarks = 400 * weighed(64) * 1e-12 + 64**2 * 1e-11 + 1e-12 * 64**3
        row = 1e-10 * 64**2 + 64 * 1e-11
        model = 1e-5 + 1e-10 * 64**3 + 400 * (1e-10 * 64**2 + row)
        assert found[64] == pytest.approx(landmarks + model + 7 * (1e-10 * 64**2 + row))

    @pytest.mark.parametrize("n_inputs", [1, 2, 5])
    def test_the_measured_rates_give_costs_too(self, n_inputs: int) -> None:
        of_kernel = measured_kernel_costs(KERNEL, n_inputs)
        for family in listed(draw(300, n_inputs), machine=measured_costs(), of_kernel=of_kernel):
            each = [candidate.seconds for candidate in family.candidates]
            assert np.all(np.isfinite(each) & (np.array(each) > 0.0))


class TestKernels:
    @pytest.mark.parametrize(
        "kernel",
        [
            MaternKernel(1.0, 1.0, smoothness=0.5),
            RationalQuadraticKernel(1.0, 1.0, alpha=2.0),
            GaussianKernel(1.0, 0.5) + MaternKernel([1.0, 2.0], 0.5),
        ],
    )
    def test_that_are_no_sums_of_gaussians(self, kernel: Kernel) -> None:
        found = choices(listed(draw(), replace(OPEN, max_features=512), kernel=kernel))
        assert {choice.method for choice in found} == {"orf", "nystroem", "residual", "nearest_rows", "exact"}
        assert {choice.threshold for choice in found} == {None}

    def test_sums_of_gaussians_allow_every_method(self) -> None:
        kernel = GaussianKernel(1.0, 0.5) + GaussianKernel(3.0, 0.5)
        found = choices(listed(draw(), replace(OPEN, max_features=512), kernel=kernel))
        assert {choice.method for choice in found} == set(SEARCHED)

    def test_one_that_no_method_can_serve_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"None of methods=\['local_taylor'\] can serve MaternKernel"):
            listed(draw(), replace(OPEN, methods=("local_taylor",)), kernel=MaternKernel(1.0, 1.0))


class TestMemory:
    def test_models_that_do_not_fit_are_left_out(self) -> None:
        """Three D × D matrices, or two of all rows."""
        allowed = replace(OPEN, max_features=512, max_memory_gib=3 * 8 * 150**2 / 2**30)
        found = choices(listed(draw(), allowed))
        assert max(choice.size for choice in found if choice.features is not None) == 128
        assert "exact" not in {choice.method for choice in found}

    def test_nothing_fits(self) -> None:
        with pytest.raises(InputError, match=r"max_memory_gib=1e-08\. Allow more of these"):
            listed(draw(), replace(OPEN, methods=("orf", "exact"), max_memory_gib=1e-8))


class TestNames:
    def test_none_is_all(self) -> None:
        assert checked_methods(None) == TRIED

    def test_are_kept_in_order(self) -> None:
        assert checked_methods(["exact", "orf"]) == ("exact", "orf")

    @pytest.mark.parametrize(
        ("name", "near"), [("local_tayler", "local_taylor"), ("nearest", "nearest_rows"), ("nystrom", "nystroem")]
    )
    def test_an_unknown_one_is_told_with_what_is_near(self, name: str, near: str) -> None:
        with pytest.raises(InputError, match=f"methods has the name '{name}'.*did you mean '{near}'"):
            checked_methods(["orf", name])

    def test_one_far_from_all_is_told_with_all(self) -> None:
        with pytest.raises(InputError, match=f"known: {', '.join(NAMES)}"):
            checked_methods(["xyz"])

    def test_at_least_one_is_needed(self) -> None:
        with pytest.raises(InputError, match="methods is empty"):
            checked_methods([])
