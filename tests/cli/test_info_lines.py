"""Lines of `lmgp info`: kernels that are averaged, and the distribution of observations."""

from types import SimpleNamespace

import pytest

from lmgp import MaternKernel
from lmgp.cli.info import _averaged, _observed
from lmgp.posteriors.average import WeightedKernel


def weighted(*weights: float) -> list[WeightedKernel]:
    return [WeightedKernel(MaternKernel(1.0 + k), 0.1, weight) for k, weight in enumerate(weights)]


def test_few_kernels_are_named_with_their_weights() -> None:
    text = _averaged(weighted(0.7, 0.3))
    assert text.startswith("0.7 of this kernel, 0.3 of MaternKernel(lengthscale=2.0")
    assert "\n" not in text


def test_many_kernels_are_counted() -> None:
    assert _averaged(weighted(0.04, *[0.06] * 16)) == (
        "17 kernels that the rows leave plausible, this one with the weight 0.04"
    )


@pytest.mark.parametrize(("degrees", "shape"), [(2.25, "Student t of 2.25 degrees of freedom"), (1e4, "normal")])
def test_a_t_that_is_nearly_normal_is_called_so(degrees: float, shape: str) -> None:
    noise = SimpleNamespace(name="varying", degrees=degrees, chosen=SimpleNamespace(least=0.5, most=1.25))
    assert _observed(noise) == f"{shape}, 0.5 to 1.25 times the standard deviation"
