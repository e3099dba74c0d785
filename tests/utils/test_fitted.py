"""The fitted state as one record."""

import pickle
from copy import copy, deepcopy
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.utils.validation import check_is_fitted

from lmgp import GaussianKernel
from lmgp.utils.fitted import Fitted, OfFit, digest, unchanged_on_failure


@dataclass(frozen=True, eq=False)
class LineFit:
    slope: float
    derived: float = field(default=0.0, compare=False)


@dataclass(frozen=True, eq=False)
class CurveFit(LineFit):
    curvature: float = 0.0


class Line(Fitted, BaseEstimator):
    slope_ = OfFit[float]()
    curvature_ = OfFit[float]()

    def __init__(self, curved: bool = False) -> None:
        self.curved = curved

    def fit(self, slope: float) -> Self:
        with unchanged_on_failure(self):
            self.n_features_in_ = 1 if slope < 10 else 2
            if slope < 0:
                raise ValueError
            self._fitted = CurveFit(slope) if self.curved else LineFit(slope)
        return self


def test_attributes_are_read_from_the_record() -> None:
    line = Line()
    assert not hasattr(line, "slope_")
    with pytest.raises(NotFittedError):
        check_is_fitted(line)
    with pytest.raises(AttributeError, match="Line has no slope_: it is not fitted"):
        _ = line.slope_
    line.fit(2.0)
    check_is_fitted(line)
    assert line.slope_ == 2.0


def test_a_refit_leaves_nothing_of_the_earlier_fit() -> None:
    line = Line(curved=True).fit(1.0)
    assert hasattr(line, "curvature_")
    line.set_params(curved=False).fit(3.0)
    assert line.slope_ == 3.0
    assert not hasattr(line, "curvature_")


def test_a_failed_refit_changes_nothing() -> None:
    line = Line().fit(20.0)
    before = vars(line).copy()
    with pytest.raises(ValueError):  # noqa: PT011
        line.fit(-1.0)
    assert vars(line) == before


def test_copies() -> None:
    line = Line().fit(2.0)
    assert not hasattr(clone(line), "slope_")
    for made in (copy(line), deepcopy(line), pickle.loads(pickle.dumps(line))):
        made_slope: float = made.slope_
        assert made_slope == 2.0
        made.fit(5.0)
        assert line.slope_ == 2.0


EQUAL: list[tuple[Any, Any]] = [
    (1, 1.0),
    (np.float64(2.0), 2),
    ([1.0, 2.0], np.array([1, 2])),
    (GaussianKernel(1.0), GaussianKernel(np.array([1.0]))),
    ({"kernel_": GaussianKernel(1.0)}, {"kernel_": GaussianKernel(np.float64(1.0))}),
    (LineFit(1.0, derived=1.0), LineFit(1.0, derived=2.0)),
    (np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.arange(6.0).reshape(2, 3)),
    (LinearRegression().fit([[1.0], [2.0]], [1.0, 2.0]), LinearRegression().fit([[1.0], [2.0]], [1.0, 2.0])),
]
DIFFERENT: list[tuple[Any, Any]] = [
    (1.0, np.nextafter(1.0, 2.0)),
    ([1.0, 2.0], [2.0, 1.0]),
    (GaussianKernel([1.0, 2.0]), GaussianKernel([1.0, np.nextafter(2.0, 3.0)])),
    (GaussianKernel(1.0, 2.0), GaussianKernel(2.0, 1.0)),
    ({"kernel_": GaussianKernel(1.0)}, {"kernel_": GaussianKernel(2.0)}),
    (LineFit(1.0), LineFit(2.0)),
    (LineFit(1.0), CurveFit(1.0)),
    (Line().fit(1.0), Line().fit(2.0)),
    (LinearRegression().fit([[1.0], [2.0]], [1.0, 2.0]), LinearRegression().fit([[1.0], [2.0]], [1.0, 3.0])),
    (lambda x: x, lambda x: x),
]


@pytest.mark.parametrize("pair", EQUAL)
def test_equal_values_share_a_digest(pair: tuple[Any, Any]) -> None:
    assert digest(pair[0]) == digest(pair[1])


@pytest.mark.parametrize("pair", DIFFERENT)
def test_different_values_do_not(pair: tuple[Any, Any]) -> None:
    assert digest(pair[0]) != digest(pair[1])
    assert digest(pair[0]) == digest(pair[0])
