"""The measured rates: interpolation, what they are positive and constant for, and torch's threads afterwards."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest
import torch

from lmgp import GaussianKernel, MaternKernel
from lmgp.kernels.base import Kernel
from lmgp.selection import costs
from lmgp.selection.costs import Costs, Rate, measured_costs, measured_kernel_costs

RATES = ("factorise", "product_row", "moment_row", "predict_row", "exact", "exact_row")


@pytest.fixture
def few_repeats(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], Costs]:
    """Measure without the cache, and no more than needed."""
    monkeypatch.setattr(costs, "SAMPLING", replace(costs.SAMPLING, repeats=1))
    return costs.measure


@pytest.fixture
def threads() -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield 2
    torch.set_num_threads(before)


class TestRate:
    RATE = Rate((10.0, 100.0, 1000.0), (3e-6, 2e-5, 9e-3))

    def test_the_measured_sizes_take_what_was_measured(self) -> None:
        assert [self.RATE(size) for size in self.RATE.sizes] == pytest.approx(self.RATE.seconds, rel=1e-12)

    @pytest.mark.parametrize(("low", "high"), [(0, 1), (1, 2)])
    def test_a_power_law_between_two_sizes(self, low: int, high: int) -> None:
        (x0, x1), (y0, y1) = ((values[low], values[high]) for values in (self.RATE.sizes, self.RATE.seconds))
        for size in (1.5 * x0, 4.0 * x0, 0.9 * x1):
            power = np.log(y1 / y0) / np.log(x1 / x0)
            assert self.RATE(size) == pytest.approx(y0 * (size / x0) ** power, rel=1e-12)

    def test_the_last_power_goes_on_beyond_the_largest_size(self) -> None:
        assert self.RATE(1e5) == pytest.approx(9e-3 * (9e-3 / 2e-5) ** 2, rel=1e-12)

    def test_no_cheaper_beyond_the_largest_size(self) -> None:
        """Two measurements can come in the wrong order."""
        rate = Rate((10.0, 100.0), (2e-6, 1e-6))
        assert rate(1e6) == pytest.approx(1e-6, rel=1e-12)

    @pytest.mark.parametrize("size", [0, 0.5, 1, 9])
    def test_less_than_the_smallest_size_takes_as_long(self, size: float) -> None:
        assert self.RATE(size) == pytest.approx(3e-6, rel=1e-12)

    def test_the_least_power_holds_beyond_the_largest_size_alone(self) -> None:
        rate = Rate((10.0, 100.0), (1e-6, 2e-6), power=3.0)
        assert rate(1000) == pytest.approx(2e-3, rel=1e-12)
        assert rate(100) == pytest.approx(2e-6, rel=1e-12)
        assert Rate((10.0, 100.0), (1e-6, 1e-2), power=3.0)(1000) == pytest.approx(1e2, rel=1e-12)

    def test_a_law_of_one_power_is_met_everywhere(self) -> None:
        rate = Rate((32.0, 128.0, 512.0), tuple(1e-9 * size**2.5 for size in (32.0, 128.0, 512.0)))
        for size in (33, 200, 512, 5000, 10**6):
            assert rate(size) == pytest.approx(1e-9 * size**2.5, rel=1e-10)


class TestMeasured:
    def test_every_rate_is_positive_and_finite(self) -> None:
        measured = measured_costs()
        assert 0.0 < measured.model < 10.0
        for name in RATES:
            seconds = np.array(getattr(measured, name).seconds)
            assert np.all(np.isfinite(seconds) & (seconds > 0.0) & (seconds < 10.0)), name

    def test_larger_sizes_take_longer(self) -> None:
        """By more than a measurement is off."""
        measured = measured_costs()
        for name in ("factorise", "product_row", "predict_row", "exact", "exact_row"):
            rate = getattr(measured, name)
            assert rate(rate.sizes[-1]) > 1.5 * rate(rate.sizes[0]), name
            assert rate(100 * rate.sizes[-1]) > 3 * rate(rate.sizes[-1]), name

    def test_a_factorisation_of_many_rows_takes_longer_than_one_prediction_from_them(self) -> None:
        measured = measured_costs()
        assert measured.exact(2000) > 50 * measured.exact_row(2000)
        assert measured.factorise(2000) > 50 * measured.predict_row(2000)

    def test_once_for_each_number_of_threads(self, monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
        asked: list[int] = []
        monkeypatch.setattr(costs, "MEASURED", {})
        monkeypatch.setattr(costs, "measure", asked.append)
        for n_threads in (threads, 1, threads, 1):
            torch.set_num_threads(n_threads)
            measured_costs()
        assert asked == [threads, 1]

    def test_the_same_rates_for_the_rest_of_the_process(self) -> None:
        assert measured_costs() is measured_costs()

    def test_independent_tasks_share_the_threads(self, monkeypatch: pytest.MonkeyPatch, few_repeats) -> None:
        """What one thread does in a second takes four threads a quarter of it."""
        clock = iter(float(tick) for tick in range(10**6))
        monkeypatch.setattr(costs, "process_time", lambda: next(clock))
        one, four = few_repeats(1), few_repeats(4)
        assert one.exact.seconds == pytest.approx([1.0, 1.0, 1.0])
        assert four.exact.seconds == pytest.approx([0.25, 0.25, 0.25])
        assert four.model == pytest.approx(0.5)
        assert four.predict_row.seconds == pytest.approx([0.25 / 256] * 3)
        assert four.moment_row.seconds == pytest.approx([0.25 / 2048] * 3)

    def test_the_least_of_several_times_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ticks, spent = [0.0], iter([5.0, 1.0] * 10**5)
        even = [True]

        def clock() -> float:
            if not even[0]:
                ticks[0] += next(spent)
            even[0] = not even[0]
            return ticks[0]

        monkeypatch.setattr(costs, "process_time", clock)
        assert costs.measure(1).factorise.seconds == pytest.approx([1.0, 1.0, 1.0])


class TestOfAKernel:
    KERNEL = MaternKernel(2.0, 1.0)

    def test_the_rates_are_positive_and_grow_with_the_neighbours(self) -> None:
        found = measured_kernel_costs(self.KERNEL, 3)
        assert 0.0 < found.entry < 1e-3
        assert 0.0 < found.neighbours_row(32) < found.neighbours_row(256) < 10.0
        assert found.neighbours_row(1024) >= 4.0 * found.neighbours_row(512)

    def test_rows_of_a_cell_share_in_few_columns(self) -> None:
        found = measured_kernel_costs(self.KERNEL, 2)
        assert found.shared_row(256) < 0.5 * found.cell_row(256)
        found = measured_kernel_costs(self.KERNEL, 3)
        assert found.shared_row is found.cell_row is found.neighbours_row

    def test_are_those_of_its_form(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whatever its parameters; other columns, another number of lengthscales or other parts are measured anew."""
        asked: list[tuple[Kernel, int]] = []
        monkeypatch.setattr(costs, "MEASURED", {})
        monkeypatch.setattr(costs, "measure_kernel", lambda kernel, n_inputs, _: asked.append((kernel, n_inputs)))
        other, both = MaternKernel(0.1, 7.0), self.KERNEL + MaternKernel(3.0, 1.0)
        ard = MaternKernel([1.0, 2.0, 3.0], 1.0)
        cases = [(self.KERNEL, 3), (other, 3), (self.KERNEL, 2), (ard, 3), (both, 3), (GaussianKernel(), 3), (ard, 3)]
        for kernel, n_inputs in cases:
            measured_kernel_costs(kernel, n_inputs)
        assert asked == [cases[i] for i in (0, 2, 3, 4, 5)]


class TestThreads:
    def test_are_as_many_as_before(self, threads: int, few_repeats) -> None:
        few_repeats(threads)
        assert torch.get_num_threads() == threads

    def test_are_as_many_as_before_after_an_error(
        self, threads: int, few_repeats, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seen = []

        def fail(*_: object, **__: object) -> None:
            seen.append(torch.get_num_threads())
            raise RuntimeError("no luck")

        monkeypatch.setattr(costs, "evaluate", fail)
        with pytest.raises(RuntimeError, match="no luck"):
            few_repeats(threads)
        assert seen == [1]
        assert torch.get_num_threads() == threads
