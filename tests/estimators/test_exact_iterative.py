"""The exact mean by iteration, against the Cholesky factor."""

import pickle

import numpy as np
import pytest

from lmgp import ExactGPRegressor, GaussianKernel, LinearKernel, MaternKernel
from lmgp.errors import InputError, MemoryLimitError, ToleranceWarning
from lmgp.metrics import kl_divergence
from lmgp.posteriors import iterative
from tests.conftest import counts_and_noises

KERNEL = GaussianKernel([0.5, 0.9, 0.7]) + MaternKernel(1.5, variance=0.3)
GIVEN = {"kernel": KERNEL, "noise_variance": 0.01, "random_state": 0}


@pytest.fixture(autouse=True)
def _small_preconditioner(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that leaves work to the iterations, of few rows too."""
    for name, size in {"LANDMARKS": 60, "BLOCK_SIZE": 40, "NEIGHBORS": 100}.items():
        monkeypatch.setattr(iterative, name, size)


def data(n: int = 500, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 4, (n, 3))
    y = 5.0 + 0.5 * X[:, 0] + np.sin(2 * X).sum(axis=1) + 0.1 * rng.normal(size=n)
    return X, y, rng.uniform(-0.5, 4.5, (80, 3))


def both(tolerance: float, X, y, *rest, **parameters) -> tuple[ExactGPRegressor, ExactGPRegressor]:
    made = [
        ExactGPRegressor(**{**GIVEN, **parameters}, solver=solver, tolerance=tolerance)
        for solver in ("cholesky", "iterative")
    ]
    exact, found = (model.fit(X, y, *rest) for model in made)
    return exact, found


@pytest.mark.parametrize("trend", ["constant", "linear", [0]])
@pytest.mark.parametrize("weighted", [False, True])
def test_means_are_those_of_the_factor(trend, weighted: bool) -> None:
    X, y, T = data()
    counts, noises = counts_and_noises(len(X)) if weighted else (None, None)
    exact, found = both(1e-6, X, y, counts, noises, trend=trend)
    mean, std = exact.predict(T, return_std=True)
    own = found.predict(T, return_std=True)
    np.testing.assert_allclose(own[0], mean, atol=1e-5)
    np.testing.assert_allclose(found.predict(T), own[0], atol=1e-12)
    # The variance is local: that of the nearest rows and the landmarks.
    assert np.sqrt(np.mean((own[1] / std - 1.0) ** 2)) < 0.04
    np.testing.assert_allclose(found.dual_coefficients()[1], exact.dual_coefficients()[1], atol=1e-3)
    if trend != "constant":
        np.testing.assert_allclose(found.trend_.coef, exact.trend_.coef, atol=1e-5)
        np.testing.assert_allclose(found.trend_.covariance, exact.trend_.covariance, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_variances_from_all_rows_are_those_of_the_factor(monkeypatch: pytest.MonkeyPatch, weighted: bool) -> None:
    for name in ("BLOCK_SIZE", "NEIGHBORS"):
        monkeypatch.setattr(iterative, name, 300)
    X, y, T = data(300)
    exact, found = both(1e-6, X, y, *(counts_and_noises(len(X)) if weighted else ()), trend="linear")
    expected, std = (model.predict(T, return_std=True)[1] for model in (exact, found))
    np.testing.assert_allclose(std, expected, rtol=1e-9)


@pytest.mark.parametrize(("tolerance", "noise_variance"), [(1e-1, 1e-1), (1e-2, 1e-3), (1e-3, 1e-1), (1e-3, 1e-3)])
def test_the_error_that_is_stated_is_that_of_new_rows(tolerance: float, noise_variance: float) -> None:
    T = data(400, seed=1)[0]
    errors = []
    for seed in range(3):
        X, y, _ = data(400, seed=2 + seed)
        exact, found = both(tolerance, X, y, noise_variance=noise_variance, random_state=seed)
        mean, std = exact.predict(T, return_std=True, include_noise=True)
        errors.append(float(np.sqrt(np.mean(((found.predict(T) - mean) / std) ** 2))))
        assert found.iterations_.converged
        assert found.iterations_.error <= tolerance
        assert found.predict(T[:3], return_error=True)[1] == pytest.approx(0.5 * found.iterations_.error**2)
    # An estimate from few probes: of one solve within a factor of two, on average within a third.
    assert max(errors) <= 2.0 * tolerance
    assert np.sqrt(np.mean(np.square(errors))) <= 1.33 * tolerance


def test_is_nearer_to_the_exact_process_than_its_preconditioner() -> None:
    X, y, T = data(600)
    exact, found = both(1e-3, X, y, noise_variance=1e-3)
    expected = exact.predict(T, return_std=True, include_noise=True)
    own = found.predict(T, return_std=True, include_noise=True)
    local = found._posterior()._near.predict(T)[0][:, 0] + found.center_
    divergence = [kl_divergence(m, expected[1] ** 2, expected[0], expected[1] ** 2).mean() for m in (own[0], local)]
    assert divergence[0] < 1e-3 * divergence[1]


def test_takes_over_where_the_factor_does_not_fit() -> None:
    X, y, T = data(600)
    gib = 16.0 * 500**2 / 2**30  # of two matrices of 500 rows
    small = ExactGPRegressor(**GIVEN, max_memory_gib=gib).fit(X[:500], y[:500])
    assert small.iterations_ is None
    large = ExactGPRegressor(**GIVEN, max_memory_gib=gib, tolerance=1e-5).fit(X, y)
    assert large.iterations_.number > 0
    np.testing.assert_allclose(large.predict(T), ExactGPRegressor(**GIVEN).fit(X, y).predict(T), atol=1e-4)
    with pytest.raises(MemoryLimitError, match="solver='iterative'"):
        ExactGPRegressor(**GIVEN, solver="cholesky", max_memory_gib=gib).fit(X, y).predict(T)


def test_covariances_that_do_not_fit_are_made_again() -> None:
    X, y, T = data(600)
    expected = ExactGPRegressor(**GIVEN).fit(X, y).predict(T)
    model = ExactGPRegressor(**GIVEN, solver="iterative", tolerance=1e-5, max_memory_gib=0.001).fit(X, y)
    np.testing.assert_allclose(model.predict(T), expected, atol=1e-4)


def test_is_the_same_for_a_seed_and_after_a_pickle() -> None:
    X, y, T = data()
    first, second = (ExactGPRegressor(**GIVEN, solver="iterative").fit(X, y) for _ in range(2))
    expected = first.predict(T, return_std=True)
    for model in (second, pickle.loads(pickle.dumps(first))):
        np.testing.assert_array_equal(model.predict(T, return_std=True), expected)


def test_exact_copies_of_rows_do_no_harm() -> None:
    X, y, T = data(200)
    X, y = np.tile(X, (3, 1)), np.tile(y, 3)
    exact, found = both(1e-6, X, y)
    np.testing.assert_allclose(found.predict(T), exact.predict(T), atol=1e-5)


@pytest.mark.parametrize("n", [2, 5])
def test_few_rows_are_served(n: int) -> None:
    X, y, T = data(n)
    exact, found = both(1e-6, X, y)
    np.testing.assert_allclose(found.predict(T, return_std=True), exact.predict(T, return_std=True), atol=1e-8)


def test_says_how_far_it_came() -> None:
    X, y, T = data(600)
    model = ExactGPRegressor(KERNEL, 1e-6, solver="iterative", tolerance=1e-6, max_iterations=12, random_state=0)
    with pytest.warns(
        ToleranceWarning, match=r"12 iterations, means settled to .* above the tolerance of 1e-06"
    ) as told:
        model.fit(X, y).predict(T)
    assert "raise max_iterations or tolerance" in str(told[0].message)
    assert not model.iterations_.converged
    assert "12 iterations" in str(model.iterations_)


def test_shows_its_progress_if_asked(capsys: pytest.CaptureFixture[str]) -> None:
    X, y, T = data(200)
    ExactGPRegressor(**GIVEN, solver="iterative").fit(X, y).predict(T)
    assert capsys.readouterr().err == ""
    ExactGPRegressor(**GIVEN, solver="iterative", verbose=True).fit(X, y).predict(T)
    assert "Conjugate gradients" in capsys.readouterr().err


class TestRefused:
    def test_a_kernel_without_a_lengthscale(self) -> None:
        X, y, _ = data(50)
        with pytest.raises(InputError, match="An iterative solve needs a lengthscale"):
            ExactGPRegressor(LinearKernel(), 0.1, solver="iterative").fit(X, y)

    @pytest.mark.parametrize("device", ["meteor", "cuda:77"])
    def test_a_device_that_is_not_there(self, device: str) -> None:
        X, y, _ = data(50)
        with pytest.raises(InputError, match=rf"device='{device}' cannot be used: .* Use 'cpu'"):
            ExactGPRegressor(**GIVEN, device=device).fit(X, y)

    @pytest.mark.parametrize("wrong", [{"solver": "lu"}, {"tolerance": 0.0}, {"max_iterations": 0}])
    def test_parameters_out_of_range(self, wrong) -> None:
        X, y, _ = data(50)
        with pytest.raises(ValueError, match=next(iter(wrong))):
            ExactGPRegressor(**{**GIVEN, **wrong}).fit(X, y)
