"""Screening of many columns."""

import numpy as np
import pytest
from numpy.typing import NDArray

from lmgp import learn
from lmgp.data import Rows
from lmgp.learning.search import NUMBERS, Search, screened
from lmgp.learning.space import Space, Units
from tests.learning.conftest import form_of

Floats = NDArray[np.float64]
INFORMATIVE = [3, 17, 30]


def table(n: int, d: int, seed: int = 0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(1.0, 1e3, d)
    Z = X / X.std(axis=0)
    y = np.sin(2.0 * Z[:, 3]) + 0.5 * Z[:, 17] + Z[:, 17] * Z[:, 30] + 0.1 * rng.normal(size=n)
    return X, y - y.mean()


def rows_of(d: int, y: Floats | None = None) -> Rows:
    X, of_columns = table(200, max(d, 31))
    return Rows(X[:, :d], of_columns if y is None else y)


def screening_of(
    rows: Rows, *, name: str = "matern12+gaussian", ard: bool = True, groups: list[int] | None = None, n_rows: int = 200
) -> tuple[tuple[Space, Floats, int | None], Space]:
    space = Space(form_of(name, ard, rows.X.shape[1], groups), Units.of(rows, True, groups))
    return screened([rows], space, space.median, n_rows), space


def own_columns(space: Space, d: int) -> list[int]:
    """Return the columns whose lengthscale of the first part no other column shares."""
    ties = space.form.ties[:d]
    return np.flatnonzero(np.bincount(ties)[ties] == 1).tolist()


class TestScreened:
    @pytest.mark.parametrize(
        ("d", "ard", "name"),
        [(NUMBERS[-1], True, "matern12+gaussian"), (40, False, "matern12+gaussian"), (40, True, "periodic")],
    )
    def test_is_the_same_space_where_nothing_is_to_be_shared(self, d: int, ard: bool, name: str) -> None:
        (same, start, n_own), space = screening_of(rows_of(d), ard=ard, name=name)
        assert same is space
        np.testing.assert_array_equal(start, space.median)
        assert n_own is None

    def test_informative_columns_have_lengthscales_of_their_own_in_every_part(self) -> None:
        (space, start, n_own), whole = screening_of(rows_of(60))
        assert n_own == 5
        own = own_columns(space, 60)
        assert len(own) == n_own
        assert set(INFORMATIVE) <= set(own)
        np.testing.assert_array_equal(space.form.ties[61:121] - space.form.ties[:60], np.full(60, n_own + 2))
        assert space.form.n_free == 2 * (n_own + 1 + 1)
        assert np.count_nonzero(space.kinds == "lengthscale") == 2 * (n_own + 1)
        assert np.count_nonzero(space.kinds == "variance") == 2
        assert start.shape == (space.form.n_free + 1,)
        # It starts where columns that say something have shorter lengthscales, in standard deviations, than the others.
        lengthscales = (space.logarithms(start) - whole.logarithms(whole.median))[:60]
        assert lengthscales[INFORMATIVE].max() < np.delete(lengthscales, own).min()

    def test_no_column_has_its_own_where_none_says_anything(self) -> None:
        noise = np.random.default_rng(1).normal(size=200)
        (space, start, n_own), _ = screening_of(rows_of(60, noise - noise.mean()))
        assert n_own == 0
        assert np.count_nonzero(space.kinds == "lengthscale") == 2
        assert len(start) == 5

    def test_the_more_rows_there_are_the_more_columns_have_their_own(self) -> None:
        numbers = [screening_of(rows_of(60), n_rows=n)[0][2] for n in (200, 200_000)]
        assert numbers == [5, NUMBERS[-1]]

    @pytest.mark.parametrize(("d", "n_own"), [(21, 1), (160, 0)])
    def test_what_one_of_many_columns_has_by_chance_is_not_enough(self, d: int, n_own: int) -> None:
        rng = np.random.default_rng(2)
        X, y = rng.normal(size=(120, 160)), rng.normal(size=120)
        y = 0.48 * X[:, 0] + np.sqrt(1.0 - 0.48**2) * y
        (_, _, found), _ = screening_of(Rows(X[:, :d], y - y.mean()), name="gaussian", n_rows=120)
        assert found == n_own

    def test_columns_of_a_group_stay_together(self) -> None:
        groups = [0, 0, 0, *range(1, 38)]
        (space, _, n_own), _ = screening_of(rows_of(40), groups=groups)
        ties = space.form.ties[:40]
        assert len(set(ties[:3].tolist())) == 1
        assert n_own == 5
        assert len(set(ties.tolist())) == n_own + 1


@pytest.mark.slow
@pytest.mark.parametrize("n", [150, 2100])
def test_learns_from_few_of_many_columns(n: int) -> None:
    """The root mean square error of 80 columns, of which three say something."""
    (X, y), (X_test, y_test) = table(n, 80), table(500, 80, seed=1)
    learned = learn(X[:, :80], y, kernel="gaussian", random_state=0)
    n_own = learned.learning.chosen.n_own
    assert n_own in (5, 10, 20)
    _, counts = np.unique((learned.kernel.lengthscale / X.std(axis=0)).round(9), return_counts=True)
    assert counts.max() == 80 - n_own
    assert f"gaussian  of {n_own} columns" in str(learned.learning)
    weights = np.linalg.solve(learned.kernel(X) + learned.noise_variance * np.eye(n), y)
    error = np.sqrt(np.mean(np.square(learned.kernel(X_test, X) @ weights - y_test)))
    assert error < (0.4 if n == 150 else 0.2) * y_test.std()


@pytest.mark.slow
def test_columns_that_say_something_beside_others_are_found() -> None:
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(1000, 120))
    y = 3.0 * np.sin(3.0 * X[:, 0]) + 4.0 * X[:, 1] ** 2 + 0.5 * np.sin(4.0 * X[:, 2:5].sum(axis=1))
    y += 0.1 * rng.normal(size=1000)
    rows = Rows(X, y - y.mean())
    space = Space(form_of("matern52", True, 120, None), Units.of(rows, True, None))
    optimum = Search(rows, space.units, None, True, 0).optimum(space.form)
    assert set(range(5)) <= set(own_columns(optimum.space, 120))


@pytest.mark.slow
def test_all_columns_alike_share_one_lengthscale() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 100))
    learned = learn(X, np.sin(X).sum(axis=1) / 10.0 + 0.1 * rng.normal(size=300), kernel="gaussian")
    assert (learned.learning.chosen.n_own, learned.learning.chosen.ard) == (0, False)
    assert np.ptp(learned.kernel.lengthscale / X.std(axis=0)) < 1e-12
