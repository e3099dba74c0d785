"""One object for the noise of rows, their weights, and what a map leaves out."""

import numpy as np
import pytest

from lmgp.data import APPROXIMATIONS, Approximation, Noise, Rows

X, y = np.zeros((3, 1)), np.arange(3.0)
OWN, WEIGHTS = np.array([0.1, 0.2, 0.4]), np.array([1.0, 2.0, 4.0])
MISSING = np.array([0.0, 0.5, 1.0])


@pytest.mark.parametrize("approximation", APPROXIMATIONS)
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("missing", [False, True])
def test_noise_of_rows(approximation: Approximation, own: bool, weighted: bool, missing: bool) -> None:
    noise = Noise(0.5, approximation)
    rows = Rows(X, y, WEIGHTS if weighted else None, OWN if own else None)
    left_out = MISSING if missing else None
    counted = missing and approximation == "fitc"
    expected = (OWN if own else np.full(3, 0.5)) + (MISSING if counted else 0.0)
    np.testing.assert_allclose(noise.of_rows(rows, left_out), expected)
    np.testing.assert_allclose(noise.of_weighted_rows(rows, left_out), expected / (WEIGHTS if weighted else 1.0))
    precision = noise.relative_precision(rows, left_out)
    if own or counted:
        np.testing.assert_allclose(precision, 0.5 / expected)
    else:
        assert precision is None


@pytest.mark.parametrize(("approximation", "added"), [("dtc", 1.0), ("sor", 0.0), ("fitc", 1.0)])
def test_what_is_added_to_a_prediction(approximation: Approximation, added: float) -> None:
    noise, variance = Noise(0.5, approximation), np.ones(3)
    np.testing.assert_allclose(noise.predicted(variance, MISSING), 1.0 + added * MISSING)
    np.testing.assert_allclose(noise.predicted(variance, None), variance)
    assert noise.predicts_missing == bool(added)
    assert noise.counts_missing == (approximation == "fitc")


def test_the_default_is_fitc() -> None:
    assert Noise(0.1).approximation == "fitc"
