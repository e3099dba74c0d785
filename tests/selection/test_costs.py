"""What models cost: counted, and so the same wherever and whenever they are counted."""

import random
from dataclasses import replace

import numpy as np
import pytest
import torch

from lmgp import GaussianKernel, GPRegressor, MaternKernel
from lmgp.data import Rows
from lmgp.features.base import Work
from lmgp.neighbours.cells import points_per_cell, rows_per_cell
from lmgp.neighbours.placement import cover
from lmgp.posteriors import costs
from lmgp.posteriors.costs import PASSES, REFERENCE, TRIANGULAR, Cost
from lmgp.recipes import Exact, Iterative
from lmgp.selection import choose, probes
from lmgp.selection.candidates import Candidate
from tests.selection.machine import (
    FEATURES_ONLY,
    KERNEL,
    N_PROBES,
    OPEN,
    ROWS_ONLY,
    draw,
    listed,
    seconds,
    threshold_of,
)


class TestCounts:
    def test_add_up_and_become_seconds(self) -> None:
        cost = Cost(8.0, 2.0, 4.0) + 3.0 * Cost(1.0, 1.0)
        assert cost == Cost(11.0, 5.0, 4.0)
        expected = 11.0 / REFERENCE.operations + 5.0 / REFERENCE.bytes + 4.0 / REFERENCE.calls
        assert cost.seconds == pytest.approx(expected, rel=1e-14)

    def test_of_the_exact_process(self) -> None:
        n, d, m = 100, 3, 7
        entries = n**2 + m * n
        found = costs.of_exact(n, d, m, KERNEL)
        assert found.operations == pytest.approx(TRIANGULAR * (n**3 / 3 + m * n**2) + 2 * d * entries)
        assert found.bytes == pytest.approx(8 * PASSES * entries)

    def test_a_sum_of_kernels_takes_the_entries_of_both(self) -> None:
        one, both = (costs.of_exact(100, 2, 0, kernel) for kernel in (KERNEL, KERNEL + MaternKernel()))
        assert both.bytes == 2.0 * one.bytes

    def test_of_iterations_they_grow_with_the_square_of_the_rows(self) -> None:
        few, many = (Iterative(max_iterations=9).cost(n, 3, 7, KERNEL) for n in (20_000, 40_000))
        entries = 9 * 40_000**2
        assert many.operations > (2 + 2 * 3) * entries
        assert many.bytes > 8 * PASSES * entries
        assert 2.0 < many.bytes / few.bytes < 4.0
        assert many.seconds < Exact().cost(40_000, 3, 7, KERNEL).seconds

    def test_of_a_model_for_all_rows(self) -> None:
        n, D, m = 400, 64, 7
        found = costs.of_map(Work(D), n, 2, m, KERNEL)
        assert found.operations == pytest.approx(TRIANGULAR * (D**3 / 3 + m * D**2) + n * D**2)
        assert found.bytes == pytest.approx(8 * PASSES * (D**2 + (n + m) * D))

    def test_of_points_that_share_a_cell(self) -> None:
        """Few points are each alone in a cell; of many, a cell serves the more, the denser they are."""
        n, k = 400, 128
        alone, some, all_, more = (costs.of_nearest(k, n, 2, m, KERNEL).calls for m in (2, n // 2, n, 4 * n))
        cells = np.array([2.0, *[n / points_per_cell(2, k)] * 3])
        np.testing.assert_allclose([alone, some, all_, more], costs.CALLS_OF_CELL * cells)
        assert rows_per_cell(2, k) > k
        apart = costs.of_nearest(k, n, 2, n, KERNEL, share=False)
        assert costs.of_nearest(k, n, 2, n, KERNEL).seconds < apart.seconds

    def test_do_not_depend_on_the_values_of_parameters(self) -> None:
        assert costs.of_nearest(64, 500, 3, 9, GaussianKernel(0.1)) == costs.of_nearest(
            64, 500, 3, 9, MaternKernel(7.0)
        )


class TestSeconds:
    ROWS = draw(400)

    @pytest.mark.parametrize("method", ["orf", "nystroem", "global_taylor"])
    def test_grow_with_the_size(self, method: str) -> None:
        each = list(seconds(listed(self.ROWS), method).values())
        assert 0.0 < each[0] < each[1] < np.inf
        assert len(each) == 2

    @pytest.mark.parametrize(
        "method", ["orf", "nystroem", "global_taylor", "local_taylor", "local_maclaurin_tensor_srht"]
    )
    def test_grow_with_the_rows(self, method: str) -> None:
        """Of the same place, so that there are as many centroids."""
        threshold = 2.0 if method.startswith("local_") else None
        few = self.ROWS
        many = Rows(np.repeat(few.X, 20, axis=0), np.repeat(few.Y[:, 0], 20))
        allowed = FEATURES_ONLY
        found = [seconds(listed(rows, allowed), method, threshold)[256] for rows in (few, many)]
        assert found[1] > found[0]

    def test_grow_with_the_rows_to_predict(self) -> None:
        few, many = (
            [
                (one.trial.method, one.trial.n_features, threshold_of(one), one.trial.seconds)
                for one in self.flat(n_predict)
            ]
            for n_predict in (1000, 100_000)
        )
        assert [line[:3] for line in few] == [line[:3] for line in many]
        assert all(less[3] < more[3] for less, more in zip(few, many, strict=True))

    def flat(self, n_predict: int) -> list[Candidate]:
        return listed(self.ROWS, FEATURES_ONLY, n_predict)

    def test_nearest_rows_cost_by_the_rows_to_predict_alone(self) -> None:
        rows = draw(400, d=4)
        first, second = (seconds(listed(rows, n_predict=n), "nearest_rows") for n in (100, 1000))
        assert list(second.values()) == pytest.approx([10.0 * value for value in first.values()])

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
        every_row = costs.of_map(Work(256), 400, 2, 1000, KERNEL, n_centroids=n_models)
        assert found[2] == pytest.approx(every_row.seconds)

    def test_of_a_trial_are_those_of_the_rows_that_it_is_of_and_of_the_probes(self) -> None:
        few = self.ROWS.take(slice(None, None, 2))
        methods = ("orf", "nystroem", "global_taylor", "residual", *ROWS_ONLY)  # without centroids
        found, probes = (
            {
                (one.trial.method, one.trial.n_features, getattr(one.recipe, "n_neighbors", None)): one
                for one in listed(rows, allowed, n)
            }
            for allowed in [replace(OPEN, methods=methods)]
            for rows, n in ((self.ROWS, 10**5), (few, N_PROBES))
        )
        common = found.keys() & probes.keys()
        assert {method for method, *_ in common} == {"orf", "nystroem", "global_taylor", "nearest_rows"}
        for key in common:
            assert found[key].seconds(len(few), N_PROBES) == pytest.approx(probes[key].trial.seconds)

    def test_only_models_from_which_a_row_is_predicted_are_solved(self) -> None:
        found = [seconds(listed(self.ROWS, FEATURES_ONLY, n), "local_taylor", 0.25)[256] for n in (1, 2, 10**4, 10**5)]
        assert found[1] == pytest.approx(2.0 * found[0], rel=1e-9)
        n_models, per_row = len(cover(self.ROWS, KERNEL, 0.25)), (found[3] - found[2]) / 9e4
        assert found[2] == pytest.approx(n_models * (found[0] - per_row) + 10**4 * per_row, rel=1e-6)

    def test_moments_are_taken_where_they_cost_less(self) -> None:
        """In two columns they do; in sixteen they do not."""
        many = Rows(np.repeat(self.ROWS.X, 50, axis=0), np.repeat(self.ROWS.Y[:, 0], 50))
        found = listed(many, replace(FEATURES_ONLY, max_features=2048), n_predict=1)
        assert seconds(found, "global_taylor")[2048] < 0.8 * seconds(found, "orf")[2048]
        found = listed(draw(400, d=16), FEATURES_ONLY, n_predict=1)
        products = costs.of_map(Work(153), 400, 16, 1, KERNEL)  # all monomials up to degree 2
        assert seconds(found, "global_taylor")[256] == pytest.approx(products.seconds)

    def test_what_takes_long_is_left_out_but_for_the_cheapest(self) -> None:
        """Longer than 20 s, and than 256 nearest rows."""
        rows = draw(3000, d=4)
        found = listed(rows, replace(OPEN, methods=("nearest_rows", "orf"), max_features=2048), n_predict=10**6)
        assert max(candidate.trial.n_features for candidate in found if candidate.trial.method == "nearest_rows") == 128
        found = listed(rows, replace(OPEN, methods=("nearest_rows",), max_features=2048), n_predict=3000)
        assert max(candidate.trial.n_features for candidate in found) > 256
        found = listed(rows, replace(OPEN, methods=("exact",)), n_predict=10**7)
        assert [candidate.trial.method for candidate in found] == ["exact"]

    def test_landmarks_are_drawn_first(self) -> None:
        """The exact factor of their covariance, their weighing, and a system and entries for each row."""
        found = seconds(listed(self.ROWS, n_predict=7), "nystroem")
        m, n = 64, 400
        passes = 8 * PASSES * (m**2 + (n + 7) * (m + m) + m**2)
        weighing = 8 * 3 * n * m * (2 + np.log(m))
        operations = TRIANGULAR * (2 * m**3 / 3 + (n + 7) * m**2 + 7 * m**2) + n * m**2 + 2 * 2 * (m**2 + (n + 7) * m)
        expected = Cost(operations, passes + weighing, costs.CALLS_OF_MODEL)
        assert found[64] == pytest.approx(expected.seconds, rel=1e-12)


@pytest.mark.slow
def test_the_choice_does_not_depend_on_the_clock_or_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which once decided how many maps were tried, and which model was the cheapest."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 12.0, (700, 4))
    y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(700)
    given = {"kernel": GaussianKernel(4.0), "noise_variance": 0.09, "n_predict": 10**6, "max_features": 256}
    found, before = [], torch.get_num_threads()
    try:
        # A clock that stands still, and one that runs mad.
        for threads, clock in ((1, lambda: 0.0), (2, lambda: 1e4 * random.random())):
            torch.set_num_threads(threads)
            for module in (choose, probes):
                monkeypatch.setattr(module, "perf_counter", clock)
            found.append(GPRegressor(**given, random_state=0).fit(X, y))
    finally:
        torch.set_num_threads(before)
    first, second = ([(one[:4], one.n_probes, one.seconds) for one in model.selection_] for model in found)
    assert first == second
    assert len(first) > 3
    np.testing.assert_allclose(found[0].predict(X[:20]), found[1].predict(X[:20]), rtol=0, atol=1e-9)
