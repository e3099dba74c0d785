"""Screening of many columns."""

import numpy as np
import pytest
from numpy.typing import NDArray

from lmgp import learn
from lmgp.data import Rows
from lmgp.learning import search as search_module
from lmgp.learning.forms import make_form
from lmgp.learning.scoring import ExactObjective
from lmgp.learning.screening import OWN_COLUMNS, screened
from lmgp.learning.search import Search
from lmgp.learning.space import Space, Units

Floats = NDArray[np.float64]
INFORMATIVE = [3, 17, 30]


def table(n: int, d: int, seed: int = 0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(1.0, 1e3, d)
    Z = X / X.std(axis=0)
    y = np.sin(2.0 * Z[:, 3]) + 0.5 * Z[:, 17] + Z[:, 17] * Z[:, 30] + 0.1 * rng.normal(size=n)
    return X, y - y.mean()


def objective(d: int, *, ard: bool = True, groups: list[int] | None = None) -> ExactObjective:
    X, y = table(200, max(d, 31))
    rows = Rows(X[:, :d], y)
    return ExactObjective(rows, Space(make_form("matern12+gaussian", ard, d, groups), Units.of(rows, True, groups)))


class TestSpace:
    @pytest.mark.parametrize(("d", "ard"), [(OWN_COLUMNS, True), (40, False)])
    def test_is_the_same_where_few_columns_have_lengthscales_of_their_own(self, d: int, ard: bool) -> None:
        one = objective(d, ard=ard)
        space, start, *_ = screened(one, one.space.median)
        assert space is one.space
        assert start is one.space.median

    def test_informative_columns_keep_lengthscales_of_their_own(self) -> None:
        one = objective(60)
        space, start, *_ = screened(one, one.space.median)
        ties = space.form.ties[:60]
        shared = np.flatnonzero(np.bincount(ties) > 1)
        assert len(shared) == 1
        own = np.flatnonzero(ties != shared[0])
        assert len(own) == OWN_COLUMNS
        assert set(INFORMATIVE) <= set(own.tolist())
        np.testing.assert_array_equal(space.form.ties[61:121] - ties, np.full(60, OWN_COLUMNS + 2))
        assert space.form.n_free == 2 * (OWN_COLUMNS + 2)
        assert len(start) == space.form.n_free + 1

    def test_twenty_columns_have_lengthscales_of_their_own_and_kinds_stay(self) -> None:
        one = objective(40)
        space = screened(one, one.space.median).space
        assert space.form.n_free == 2 * (20 + 1 + 1)
        assert np.count_nonzero(space.kinds == "lengthscale") == 2 * 21
        assert np.count_nonzero(space.kinds == "variance") == 2
        assert screened(objective(20), one.space.median).space.form.n_free == 2 * (20 + 1)

    def test_the_start_is_the_same_point(self) -> None:
        one = objective(60)
        space, start, *_ = screened(one, one.space.median + 0.3)
        np.testing.assert_allclose(space.logarithms(start), one.space.logarithms(one.space.median + 0.3))

    def test_the_columns_with_the_shortest_lengthscales_of_their_own_stay(self) -> None:
        one = objective(60)
        screening = screened(one, one.space.median)
        free, last = screening.start.copy(), screening.own[-4:]
        for column, shorter in zip(last, (1.0, 2.0, 3.0, 4.0), strict=True):  # in the second part
            free[screening.places[61 + column]] -= shorter
        half = screening.shorter_half(free, one.space)
        assert len(half) == OWN_COLUMNS // 2
        np.testing.assert_array_equal(half[:4], last[::-1])
        assert set(half) <= set(screening.own)
        others = np.setdiff1d(np.arange(60), screening.own)[:5]
        again = screened(one, free[screening.places], others)
        assert set(others) <= set(again.own)
        assert len(again.own) == OWN_COLUMNS
        first, second = (np.take(of, [others[0], last[0]]) for of in (screening.places, again.places))
        assert second[0] != second[1]
        np.testing.assert_allclose(again.start[second[0]], free[first[0]])

    def test_columns_of_a_group_stay_together(self) -> None:
        groups = [0, 0, 0, *range(1, 38)]
        one = objective(40, groups=groups)
        ties = screened(one, one.space.median).space.form.ties[:40]
        assert len(set(ties[:3].tolist())) == 1
        assert len(set(ties.tolist())) == OWN_COLUMNS + 1


@pytest.mark.slow
@pytest.mark.parametrize("n", [150, 2100])
def test_learns_from_few_of_many_columns(n: int) -> None:
    """The root mean square error of 80 columns, of which three say something."""
    (X, y), (X_test, y_test) = table(n, 80), table(500, 80, seed=1)
    learned = learn(X[:, :80], y, kernel="gaussian", random_state=0)
    _, counts = np.unique((learned.kernel.lengthscale / X.std(axis=0)).round(9), return_counts=True)
    assert counts.max() >= 80 - OWN_COLUMNS
    assert learned.learning.chosen.n_own == OWN_COLUMNS
    assert f"gaussian  of {OWN_COLUMNS} columns" in str(learned.learning)
    weights = np.linalg.solve(learned.kernel(X) + learned.noise_variance * np.eye(n), y)
    error = np.sqrt(np.mean(np.square(learned.kernel(X_test, X) @ weights - y_test)))
    assert error < (0.4 if n == 150 else 0.2) * y_test.std()


@pytest.mark.slow
def test_columns_that_say_something_beside_others_are_found_by_the_second_screening() -> None:
    rng, seen = np.random.default_rng(3), list[NDArray[np.intp]]()
    X = rng.uniform(size=(1000, 120))
    y = 3.0 * np.sin(3.0 * X[:, 0]) + 4.0 * X[:, 1] ** 2 + 0.5 * np.sin(4.0 * X[:, 2:5].sum(axis=1))
    y += 0.1 * rng.normal(size=1000)
    rows = Rows(X, y - y.mean())
    space = Space(make_form("matern52", True, 120, None), Units.of(rows, True, None))
    search = Search(rows, space.units, None, True, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_module, "screened", lambda *of: seen.append((found := screened(*of)).own) or found)
        search.optimum(space.form)
    first, second = (np.isin(range(5), own).sum() for own in seen)
    assert first < second == 5
