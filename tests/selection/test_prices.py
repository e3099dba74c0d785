"""What the cost model expects of candidates."""

from dataclasses import replace

import numpy as np
import pytest

from lmgp.locality.cells import points_per_cell
from lmgp.locality.placement import cover
from lmgp.selection import candidates
from lmgp.selection.candidates import LIMITS, Allowed
from lmgp.selection.costs import measured_costs, measured_kernel_costs, weighed
from lmgp.selection.families import Candidate
from lmgp.validation import Rows
from tests.selection.machine import (
    FEATURES,
    FEATURES_ONLY,
    KERNEL,
    MACHINE,
    N_PROBES,
    OF_KERNEL,
    OPEN,
    ROWS_ONLY,
    choices,
    draw,
    listed,
    of_nearest,
    power_law,
    seconds,
)


@pytest.fixture(autouse=True)
def every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """List those too that take next to nothing."""
    monkeypatch.setattr(candidates, "LIMITS", replace(LIMITS, negligible=0.0))


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
