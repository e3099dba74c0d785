"""How many nearest rows predict best, by rows left out."""

from dataclasses import replace

import numpy as np
import pytest

from lmgp import GPRegressor, MaternKernel, NearestNeighborsGPRegressor
from lmgp.data import Noise, Rows, column_scales
from lmgp.distributions.left_out import LeftOut
from lmgp.distributions.noise import ObservationNoise
from lmgp.learning.heldout import Validation
from lmgp.metrics import nlpd
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.recipes import Exact, Nearest, Recipe, Weights
from lmgp.selection import choose
from lmgp.selection.candidates import NEIGHBOURS, Problem
from lmgp.selection.choose import FEW, densities, gain_over_nearest, number_of_rows
from lmgp.selection.methods import EXACT, NEAREST_ROWS
from lmgp.selection.record import Selection
from lmgp.utils.student import Student

KERNEL, NOISE = MaternKernel(10.0, 1.0, smoothness=1.5), 1e-6
FREE = MaternKernel(10.0, variance_bounds=(0.5, 2.0), smoothness=1.5)
SPOILED = 0.02  # the share of the rows that are outliers


def draw(n: int, spoiled: float, seed: int = 0, d: int = 2) -> Rows:
    """Draw rows of a sum of waves, some of which are outliers."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0, (n, d))
    y = np.sin(0.8 * X).sum(axis=1) + 0.01 * rng.normal(size=n)
    y += np.where(rng.uniform(size=n) < spoiled, 2.0 * rng.normal(size=n), 0.0)
    return Rows(X, y - y.mean())


def problem(rows: Rows, kernel: MaternKernel = KERNEL, noise: float = NOISE) -> Problem:
    return Problem(rows, kernel, noise, 1e-3, len(rows), by_rows_left_out=True)


def predicted(rows: Rows, x: np.ndarray, n_neighbors: int, noise: float) -> tuple[float, float]:
    """Predict one row by dense algebra."""
    near = np.argsort(np.square(rows.X - x).sum(axis=1))[:n_neighbors]
    X = rows.X[near]
    joint = KERNEL(np.vstack((X, x[None])))
    inverse = np.linalg.inv(joint[:-1, :-1] + noise * np.eye(len(X)))
    weights = inverse @ joint[:-1, -1]
    return float(weights @ rows.Y[near, 0]), float(np.sqrt(joint[-1, -1] - weights @ joint[:-1, -1] + noise))


def test_densities_are_those_of_dense_algebra() -> None:
    rows, noise = draw(400, SPOILED), 0.01
    validation = Validation.of(rows, column_scales(rows), np.random.default_rng(1))
    nearest = NearestPosterior(KERNEL, rows, Noise(noise), 12, share=False)
    alone, regions = validation.densities_by(nearest, densities)
    others = [rows.take(np.arange(len(rows)) != i) for i in validation.alone]
    pairs = [predicted(rest, rows.X[i], 12, noise) for rest, i in zip(others, validation.alone, strict=True)]
    y = [rows.Y[validation.alone, 0]]
    for held in validation.neighbourhoods:
        pairs += [predicted(rows.take(~held.taken), x, 12, noise) for x in rows.X[held.index]]
        y.append(rows.Y[held.index, 0])
    means, std = np.array(pairs).T
    X = [rows.X[validation.alone], *(rows.X[held.index] for held in validation.neighbourhoods)]
    is_alone = np.arange(len(means)) < len(alone)
    noise, expected = ObservationNoise.fitted("student", LeftOut(np.vstack(X), np.concatenate(y), means, std, is_alone))
    assert noise.name != "normal"
    np.testing.assert_allclose(alone, expected[: len(alone)], atol=1e-5)
    split = np.cumsum([len(one.index) for one in validation.neighbourhoods])[:-1]
    parts = np.split(expected[len(alone) :], split)
    of_regions = [held.means(part) for held, part in zip(validation.neighbourhoods, parts, strict=True)]
    np.testing.assert_allclose(regions, np.concatenate(of_regions), atol=1e-5)


@pytest.mark.slow
def test_few_rows_predict_beside_outliers_that_the_process_does_not_know() -> None:
    """New rows say the same: the number that is taken has a higher density than the largest one."""
    rows, new = draw(3000, SPOILED), draw(3000, SPOILED, seed=1)
    number = number_of_rows(problem(rows))
    assert number == FEW
    nearest = NearestPosterior(KERNEL, rows, Noise(NOISE), number, share=False)

    def density(posterior: NearestPosterior) -> float:
        means, variances = posterior.distribution(new.X)
        errors = (new.Y - means)[:, 0] / np.sqrt(variances + NOISE)
        return float((Student.fitted(errors).log_density(errors) - 0.5 * np.log(variances + NOISE)).mean())

    assert density(nearest) > density(nearest.with_neighbors(NEIGHBOURS)) + 0.05


def test_of_numbers_that_predict_alike_the_largest_is_taken() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (1500, 2))
    kernel = MaternKernel(2.0, 1.0, smoothness=0.5)
    y = np.linalg.cholesky(kernel(X) + 0.1 * np.eye(len(X))) @ rng.normal(size=len(X))
    assert number_of_rows(problem(Rows(X, y), kernel, 0.1)) == NEIGHBOURS


def test_of_rows_without_errors_any_number_is_as_good() -> None:
    """As of rows of two places and one y, where nothing tells the numbers apart."""
    X = np.tile([[0.0, 0.0], [1e6, 0.0]], (400, 1))
    rows = Rows(X, np.zeros(800))
    validation = Validation(rows, np.arange(800), ())
    nearest = NearestPosterior(KERNEL, rows, Noise(NOISE), 8, share=False)
    alone, regions = validation.densities_by(nearest, densities)
    assert np.isfinite(alone).all()
    assert not len(regions)
    assert number_of_rows(problem(rows)) == NEIGHBOURS


def test_does_not_depend_on_the_order_of_rows() -> None:
    rows = draw(2000, SPOILED)
    assert number_of_rows(problem(rows)) == number_of_rows(
        problem(rows.take(np.random.default_rng(0).permutation(2000)))
    )


def test_takes_no_more_rows_than_memory_allows() -> None:
    rows = draw(600, 0.0)
    assert number_of_rows(problem(rows), 100) == 100
    assert number_of_rows(problem(rows), 5) == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "by_rows"),
    [
        ({}, True),
        ({"noise": "normal"}, False),
        ({"tolerance": 1.1e-3}, False),
        ({"max_features": 1024}, False),
        ({"kernel": MaternKernel(4.0, 1.0, smoothness=0.5)}, False),
    ],
)
@pytest.mark.filterwarnings("ignore::lmgp.errors.ToleranceWarning")
def test_only_where_nearness_to_a_given_process_was_not_asked_for(settings: dict[str, object], by_rows: bool) -> None:
    rows = draw(5000, SPOILED, d=8)
    # In so little memory, no map and no exact process is near.
    kernel = MaternKernel(4.0, variance_bounds=(0.5, 2.0), smoothness=0.5)
    given = {"kernel": kernel, "noise_variance": NOISE, "max_memory_gib": 0.04, "trend": "constant", "random_state": 0}
    model = GPRegressor(**given | settings).fit(rows.X, rows.Y[:, 0])
    selection = model.selection_
    assert selection.by_rows_left_out == by_rows
    assert isinstance(model.model_, NearestNeighborsGPRegressor)
    assert ("Rows left out have chosen" in str(selection)) == by_rows
    assert ("chosen by rows left out" in str(model)) == by_rows
    if by_rows:
        number = number_of_rows(problem(rows, model.kernel_))
        assert model.recipe_.n_neighbors == selection.chosen.n_neighbors == number
        assert sum(trial.chosen for trial in selection) == 1
        assert selection.from_json(selection.to_json()) == selection
    else:
        assert model.recipe_.n_neighbors == max(trial.n_neighbors or 0 for trial in selection)


@pytest.mark.slow
@pytest.mark.parametrize("spoiled", [0.05, 0.0])
def test_few_rows_predict_in_place_of_an_exact_process_that_outliers_spoil(spoiled: float) -> None:
    rows, new = draw(2200, spoiled), draw(2200, spoiled, seed=1)
    # With noise="auto", outliers are weighted, and the exact process of what is left is taken.
    given = {"kernel": FREE, "noise_variance": NOISE, "noise": "student", "random_state": 0}
    model = GPRegressor(**given).fit(rows.X, rows.Y[:, 0])
    exact = GPRegressor(methods=["exact"], **given).fit(rows.X, rows.Y[:, 0])
    assert model.selection_.by_rows_left_out == (spoiled > 0.0)
    if spoiled:
        assert model.recipe_.n_neighbors == FEW
        assert model.selection_.chosen.kl > 0.0
        densities_of = [nlpd(new.Y[:, 0], each.predict_distribution(new.X)) for each in (model, exact)]
        assert densities_of[0] < densities_of[1] - 0.1
    else:
        assert model.selection_.chosen.within(1e-3)


@pytest.mark.parametrize("n_rows", [2000, 2001])
def test_of_few_rows_the_exact_process_is_taken_at_once(n_rows: int) -> None:
    rows = draw(n_rows, SPOILED)
    model = GPRegressor(kernel=FREE, noise_variance=NOISE, noise="student", random_state=0).fit(rows.X, rows.Y[:, 0])
    assert (model.selection_.chosen.method == EXACT) == (n_rows == 2000)
    assert model.selection_.by_rows_left_out == (n_rows > 2000)


def chosen(
    number: int, monkeypatch: pytest.MonkeyPatch, gain: float | None = None, **of_problem: object
) -> tuple[Recipe, Selection]:
    """Choose for 1,500 rows of which this number predicts best, beside what gains so much over it."""
    monkeypatch.setattr(choose, "number_of_rows", lambda *_: number)
    if gain is not None:
        monkeypatch.setattr(choose, "gain_over_nearest", lambda *_: gain)
    kernel = MaternKernel(1.0, 1.0, smoothness=0.5)
    allowed = {"methods": ("nystroem", "orf", "residual", NEAREST_ROWS), "max_features": 256}
    of_rows = replace(problem(draw(1500, 0.0), kernel), **allowed, **of_problem)
    return choose.choose(of_rows, np.random.default_rng(0))[:2]


def test_where_fewer_rows_predict_better_no_other_model_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe, selection = chosen(FEW, monkeypatch)
    assert recipe == Nearest(FEW, precision="float32", max_memory_gib=4.0)
    assert [(trial.method, trial.n_features) for trial in selection] == [(NEAREST_ROWS, FEW)]
    assert selection.by_rows_left_out


@pytest.mark.parametrize(("gain", "taken"), [(-0.06, False), (-0.04, True), (1.0, True)])
def test_what_is_nearest_to_the_exact_process_is_taken_unless_it_predicts_worse(
    gain: float, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By more than the tolerance, which one of the maps is within."""
    recipe, selection = chosen(NEIGHBOURS, monkeypatch, gain, tolerance=0.05, kernel=KERNEL, noise_variance=0.05)
    assert isinstance(recipe, Weights) == taken
    assert selection.by_rows_left_out == (not taken)
    assert {trial.method for trial in selection} <= {"nystroem", "orf", NEAREST_ROWS}
    assert len(selection) > 1
    assert (selection.chosen.method in ("nystroem", "orf")) == taken
    assert taken or recipe == Nearest(NEIGHBOURS, precision="float32", max_memory_gib=4.0)


def test_where_256_rows_are_nearest_to_the_exact_process_nothing_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "gain_over_nearest", lambda *_: pytest.fail("compared"))
    recipe, selection = chosen(NEIGHBOURS, monkeypatch, tolerance=1e-15)
    assert recipe == Nearest(NEIGHBOURS, precision="float32", max_memory_gib=4.0)
    assert selection.by_rows_left_out
    assert sum(trial.chosen for trial in selection) == 1
    assert len({trial[:2] for trial in selection}) == len(selection) > 1


def test_the_gain_is_that_of_the_densities_by_dense_algebra() -> None:
    rows, noise = draw(300, SPOILED), 0.01
    given = replace(problem(rows), noise_variance=noise)
    found = gain_over_nearest(given, Exact(), 12, np.random.default_rng(0))
    others = [rows.take(np.arange(300) != i) for i in range(300)]

    def densities_of(number: int) -> np.ndarray:
        of_rows = zip(others, rows.X, strict=True)
        means, std = np.array([predicted(rest, x, number, noise) for rest, x in of_rows]).T
        left_out = LeftOut(rows.X, rows.Y[:, 0], means, std, np.ones(300, dtype=bool))
        return ObservationNoise.fitted("student", left_out)[1]

    assert found == pytest.approx(float((densities_of(299) - densities_of(12)).mean()), abs=1e-4)
    assert gain_over_nearest(given, Nearest(12), 12, np.random.default_rng(0)) == pytest.approx(0.0, abs=1e-6)


def test_the_gain_is_that_of_a_sample_of_many_rows_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, numbers, plain = draw(900, SPOILED), list[int](), Exact.posterior
    monkeypatch.setattr(choose, "MOST_ROWS", 500)
    monkeypatch.setattr(
        Exact, "posterior", lambda recipe, *given: (numbers.append(len(given[2])), plain(recipe, *given))[1]
    )
    shuffled = rows.take(np.random.default_rng(0).permutation(900))
    gains = [gain_over_nearest(problem(some), Exact(), 12, np.random.default_rng(0)) for some in (rows, shuffled)]
    assert gains[0] == pytest.approx(gains[1], rel=1e-6)
    assert numbers == [500, 500]
