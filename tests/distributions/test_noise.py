"""The distribution of new observations, from rows that were left out."""

import numpy as np
import pytest
from scipy import optimize, stats

from lmgp import MaternKernel
from lmgp.distributions.field import ScaleField
from lmgp.distributions.left_out import LeftOut
from lmgp.distributions.noise import ObservationNoise, distribution, pays
from lmgp.errors import InputError


def rows_of(errors: np.ndarray, X: np.ndarray | None = None, std: float = 2.0, **options: object) -> LeftOut:
    """Rows whose predicted mean is 1, with errors in units of the predicted standard deviation."""
    n = len(errors)
    X = np.zeros((n, 1)) if X is None else X
    alone = options.pop("alone", np.ones(n, dtype=bool))
    return LeftOut(X, 1.0 + std * errors, np.ones(n), np.full(n, std), alone, **options)  # type: ignore[arg-type]


def varying(n: int, degrees: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, the log of the scale there, and errors of that scale."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, (n, 2))
    log_scale = np.sin(X[:, 0]) - 0.5
    return X, log_scale, np.exp(log_scale) * rng.standard_t(degrees, n)


@pytest.mark.slow
def test_normal_errors_stay_normal_on_average() -> None:
    lost = []
    for seed in range(10):
        errors = np.random.default_rng(seed).normal(size=600)
        X = np.random.default_rng(seed).uniform(size=(600, 1))
        noise, _ = ObservationNoise.fitted("auto", rows_of(errors, X))
        new = np.random.default_rng(100 + seed).normal(size=20_000)
        scale = noise.scale(np.full((len(new), 1), 0.5), np.ones(len(new)), np.full(len(new), 2.0)) / 2.0
        lost.append(float(np.mean(stats.norm.logpdf(new) - stats.t.logpdf(new, noise.degrees, scale=scale))))
    assert np.mean(lost) < 0.005


@pytest.mark.parametrize(
    ("gain", "n_rows", "expected"), [(0.012, 200, False), (0.012, 2000, True), (0.004, 2000, False)]
)
def test_a_gain_pays_beyond_its_error_and_what_two_parameters_gain_by_chance(
    gain: float, n_rows: int, expected: bool
) -> None:
    assert pays(gain, 0.005, n_rows) is expected
    assert not pays(gain, 0.005, n_rows, n_steps=20)


def test_heavy_tails_are_a_student_and_say_what_they_are_worth() -> None:
    errors = stats.t.rvs(3.0, scale=0.5, size=800, random_state=0)
    noise, _ = ObservationNoise.fitted("student", rows_of(errors))
    assert noise.name == "student"
    assert noise.degrees == pytest.approx(3.0, rel=0.3)
    np.testing.assert_allclose(
        noise.scale(np.zeros((2, 1)), np.zeros(2), np.array([1.0, 4.0])), noise.student.scale * np.array([1.0, 4.0])
    )
    normal, student = noise.trials
    log_density = stats.t.logpdf(errors, noise.degrees, scale=noise.student.scale) - np.log(2.0)
    assert student.alone == pytest.approx(log_density.mean())
    assert normal.alone == pytest.approx(stats.norm.logpdf(errors).mean() - np.log(2.0))
    assert student.gain == pytest.approx(student.alone - normal.alone)
    assert student.chosen
    assert noise.chosen is student
    assert "student" in str(noise)
    assert "800 rows left out" in str(noise)


@pytest.mark.slow
def test_a_scale_that_varies_is_found() -> None:
    X, _log_scale, errors = varying(3000, 4.0)
    noise, _ = ObservationNoise.fitted("auto", rows_of(errors, X))
    assert noise.name == "varying"
    assert noise.degrees == pytest.approx(4.0, rel=0.2)
    new = np.random.default_rng(1).uniform(-2.8, 2.8, (500, 2))
    scale = noise.scale(new, np.ones(500), np.full(500, 2.0))
    truth = np.log(2.0) + np.sin(new[:, 0]) - 0.5
    assert np.corrcoef(np.log(scale), truth)[0, 1] > 0.9
    assert np.sqrt(np.mean(np.square(np.log(scale) - truth))) < 0.2
    gains = {trial.noise: trial.gain for trial in noise.trials}
    assert gains["varying"] > 0.05


def test_the_scale_of_a_row_does_not_know_its_own_error() -> None:
    X, _, errors = varying(400, 4.0)
    columns = X, np.ones(400), np.full(400, 2.0)
    _, _, log_scales = ScaleField.fitted(*columns, errors, None)
    changed = errors.copy()
    changed[7] *= 1e3
    field, _, of_changed = ScaleField.fitted(*columns, changed, None)
    assert of_changed[7] == pytest.approx(log_scales[7], abs=0.3)
    assert field.log_scale(*columns)[7] > of_changed[7]


def test_the_scale_field_is_the_same_for_columns_in_another_order() -> None:
    X, _, errors = varying(800, 4.0)
    of_process = np.sin(X[:, 0]), np.full(800, 2.0)
    of_each = [ScaleField.fitted(columns, *of_process, errors, None) for columns in (X**2, X[:, ::-1] ** 2)]
    np.testing.assert_allclose(of_each[0][2], of_each[1][2], atol=1e-8)
    np.testing.assert_array_equal(of_each[0][0].landmarks[:, [1, 0, 2, 3]], of_each[1][0].landmarks)


def test_copies_whose_predictions_differ_by_rounding_are_one_place() -> None:
    X, _, errors = varying(800, 4.0)
    rng, copies = np.random.default_rng(5), np.arange(800) % 600
    mean = np.sin(X[copies, 0])
    scales = [
        ScaleField.fitted(X[copies], mean + 1e-11 * rng.normal(size=800), np.full(800, 2.0), errors, None)[2]
        for _ in range(2)
    ]
    np.testing.assert_allclose(*scales, atol=1e-6)


def test_the_scale_field_is_the_mode_of_the_likeliest_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmgp.distributions.field.LEAST_GAIN", -1.0)  # to take all steps
    monkeypatch.setattr("lmgp.distributions.field.MOST_STEPS", 60)
    X, _, errors = varying(300, 4.0)
    columns = X, np.ones(300), np.full(300, 2.0)
    for weights in (np.random.default_rng(1).integers(1, 4, 300).astype(float), np.ones(300)):
        field, student, log_scales = ScaleField.fitted(*columns, errors, weights)
        kernel, nu = MaternKernel(field.lengthscale, field.variance), student.degrees
        inputs = (np.column_stack((X, np.ones(300), np.full(300, np.log(2.0)))) - field.centre) / field.unit
        at_mode = 2.0 * field.log_scale(*columns) - field.level
        # The regression of one step of Fisher scoring, at the mode, by dense algebra; and without each of its rows.
        ratio, information = np.square(errors) * np.exp(-field.level - at_mode), nu / (2.0 * (nu + 3.0))
        targets = at_mode + 0.5 / information * ((nu + 1.0) * ratio / (nu + ratio) - 1.0)
        of_landmarks = kernel(inputs, field.landmarks)
        prior = of_landmarks @ np.linalg.solve(kernel(field.landmarks), of_landmarks.T)
        precision = np.linalg.inv(prior + np.diag(1.0 / (information * weights)))
        np.testing.assert_allclose(at_mode, prior @ precision @ targets, atol=1e-6)
        left_out = targets - precision @ targets / precision.diagonal()
        np.testing.assert_allclose(2.0 * log_scales, field.level + left_out, atol=1e-6)
    of_dense, evidence = laplace(kernel, inputs, errors, student.degrees, field.level)
    assert np.sqrt(np.mean(np.square(at_mode - of_dense))) < 0.05 * of_dense.std()
    for lengthscale, variance in ((0.5, 1.0), (2.0, 1.0), (1.0, 0.5), (1.0, 2.0)):
        other = MaternKernel(lengthscale * kernel.lengthscale, variance * kernel.variance)
        assert laplace(other, inputs, errors, student.degrees, field.level)[1] < evidence


def laplace(
    kernel: MaternKernel, inputs: np.ndarray, errors: np.ndarray, degrees: float, level: float
) -> tuple[np.ndarray, float]:
    """Return the mode of g less its level, and the log likelihood by Laplace's approximation, by dense algebra."""
    root = np.linalg.cholesky(kernel(inputs) + 1e-10 * np.eye(len(inputs)))

    def loss(white: np.ndarray) -> tuple[float, np.ndarray]:
        g = level + root @ white
        ratio = np.square(errors) * np.exp(-g)
        slope = 0.5 * ((degrees + 1.0) * ratio / (degrees + ratio) - 1.0)
        value = np.sum(stats.t.logpdf(errors * np.exp(-0.5 * g), degrees) - 0.5 * g) - 0.5 * white @ white
        return -float(value), white - root.T @ slope

    best = optimize.minimize(loss, np.zeros(len(inputs)), jac=True, method="L-BFGS-B")
    information = degrees / (2.0 * (degrees + 3.0))
    determinant = np.linalg.slogdet(np.eye(len(inputs)) + information * root.T @ root)[1]
    return root @ best.x, -float(best.fun) - 0.5 * determinant


@pytest.mark.slow
def test_far_away_the_scale_is_that_of_all_rows() -> None:
    X, _, errors = varying(800, 4.0)
    noise, _ = ObservationNoise.fitted("varying", rows_of(errors, X))
    assert noise.local is not None
    far = noise.local.log_scale(np.full((1, 2), 1e3), np.ones(1), np.full(1, 2.0))
    assert far[0] == pytest.approx(0.5 * noise.local.level, abs=1e-6)


def test_neighbourhoods_have_densities_of_their_own() -> None:
    errors = stats.t.rvs(3.0, size=400, random_state=0)
    alone = np.arange(400) < 300
    noise, _ = ObservationNoise.fitted("student", rows_of(errors, alone=alone))
    density = noise.student.log_density(errors) - np.log(2.0)
    assert noise.trials[1].alone == pytest.approx(density[:300].mean())
    assert noise.trials[1].regions == pytest.approx(density[300:].mean())
    assert len(noise.distances) == 300


def test_targets_that_are_rounded_make_no_spike() -> None:
    rng = np.random.default_rng(0)
    y = np.round(rng.normal(5.0, 0.2, 500))  # most of them 5
    rows = LeftOut(rng.uniform(size=(500, 1)), y, np.full(500, 5.0), np.full(500, 0.3), np.ones(500, dtype=bool))
    noise, _ = ObservationNoise.fitted("auto", rows)
    assert noise.student.scale * 0.3 > 0.1  # of a spacing of 1
    exact = LeftOut(rows.X, np.full(500, 5.0), rows.mean, rows.std, rows.alone)
    assert np.isfinite(ObservationNoise.fitted("auto", exact)[0].student.scale)


def test_whole_numbers_that_are_known_have_errors_as_small_as_they_are() -> None:
    y, errors = np.arange(60.0) % 7, np.random.default_rng(0).normal(0.0, 1e-4, 60)
    rows = LeftOut(np.zeros((60, 1)), y, y - errors, np.ones(60), np.ones(60, dtype=bool))
    assert rows.errors == pytest.approx(errors)


def test_targets_far_from_zero_have_errors_as_small_as_their_rounding() -> None:
    y = 1e9 + np.random.default_rng(0).normal(0.0, 1e-3, 500)
    std = np.full(500, np.spacing(1e9))
    rows = LeftOut(np.zeros((500, 1)), y, y.copy(), std, np.ones(500, dtype=bool))
    assert np.abs(rows.errors) == pytest.approx(1.0 / np.sqrt(12.0))  # the standard deviation of a uniform error
    off = LeftOut(rows.X, y, y + 3.0 * std, std, rows.alone)
    assert off.errors == pytest.approx(-3.0)


def test_few_rows_are_normal_and_say_why() -> None:
    noise, _ = ObservationNoise.fitted("auto", rows_of(np.zeros(29)))
    assert noise.name == "normal"
    assert str(noise) == "normal: 29 rows are too few to tell; 30 are needed."
    assert not noise.trials
    assert not hasattr(noise, "chosen")


def test_conformal_widths_are_ranks() -> None:
    errors = np.linspace(-1.0, 1.0, 101)
    noise, _ = ObservationNoise.fitted("student", rows_of(errors))
    distances = np.sort(np.abs(errors)) / noise.student.scale
    assert noise.conformal_width(0.9) == pytest.approx(distances[int(np.ceil(102 * 0.9)) - 1], rel=1e-6)
    with pytest.raises(InputError, match=r"of level 0\.995 take 199 rows left out; this model has 101"):
        noise.conformal_width(0.995)
    with pytest.raises(InputError, match=r"this model has 0\. Fit with noise='auto'"):
        ObservationNoise().conformal_width(0.5)


def test_a_row_that_counts_has_as_many_ranks() -> None:
    errors, counts = np.random.default_rng(0).normal(size=50), np.where(np.arange(50) % 2, 9.0, 1.0)
    noise, _ = ObservationNoise.fitted("student", rows_of(errors * counts, weights=counts))
    repeated = np.repeat(np.abs(errors * counts), counts.astype(int)) / noise.student.scale
    assert len(noise.distances) == 50
    np.testing.assert_allclose(noise.distances, np.sort(repeated)[4::5], rtol=1e-9)  # of 250


def test_a_normal_target_beside_a_student_has_draws_and_the_density_of_a_normal_one() -> None:
    both = distribution(np.array([np.inf, 3.0]), np.ones((4, 2)), np.full((4, 2), 2.0))
    assert np.all(np.isfinite(both.rvs(random_state=0)))
    far = np.full((4, 2), 61.0)
    np.testing.assert_allclose(both.logpdf(far)[:, 0], stats.norm.logpdf(30.0) - np.log(2.0), rtol=1e-13)
    np.testing.assert_allclose(both.cdf(-far)[:, 0], stats.norm.cdf(-31.0), rtol=1e-11)
