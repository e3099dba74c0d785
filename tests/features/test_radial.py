"""The radial density of spherical random Fourier features: its transform, its fit, its cache."""

import json
import os
import pickle
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.optimize import nnls
from scipy.special import gammaln, j0, jv
from scipy.stats import kstest

from lmgp.errors import InputError
from lmgp.features import spherical
from lmgp.features.spherical import RadialFit, fit_radial, sphere_cosine

Floats = NDArray[np.float64]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LMGP_CACHE_DIR", str(tmp_path))
    return tmp_path / "spherical"


def series(t: float, n_inputs: int) -> float:
    """Σ (−t²/4)ᵏ/(k! (d/2)ₖ), with digits enough for its cancellation."""
    with localcontext() as context:
        context.prec = 400
        square, half = Decimal(t) ** 2 / 4, Decimal(n_inputs) / 2
        term = total = Decimal(1)
        k = 0
        while k < 40 or abs(term) > Decimal(10) ** -30:
            term *= -square / ((k + 1) * (half + k))
            total += term
            k += 1
        return float(total)


def single(degree: int, a: float, n_inputs: int) -> RadialFit:
    return RadialFit(degree, a, n_inputs, np.array([1.0]), np.array([degree**0.5 / a]))


def least_single_loss(degree: int, a: float) -> float:
    """L of exp(−p z²/a²), by adaptive quadrature."""
    value, _ = quad(lambda z: (np.exp(-degree * z**2 / a**2) - (1 - z**2 / a**2) ** degree) ** 2, 0, 2)
    return value / 2


def least_loss(fitted: RadialFit) -> float:
    """The least L of any non-negative radial distribution on the grid of a fit, by non-negative least squares."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    root = np.sqrt(weights)
    matrix = sphere_cosine(np.outer(nodes + 1.0, fitted.radii), fitted.n_inputs)
    _, residual = nnls(root[:, None] * matrix, root * fitted.target(nodes + 1.0), maxiter=20_000)
    return residual**2 / 2


# -------------------------------------------------------------------------------------------------------- the transform


@pytest.mark.parametrize("d", [1, 2, 3, 4, 7, 64, 256, 2000])
def test_the_mean_cosine_equals_its_power_series(d: int) -> None:
    t = np.array([0.0, 1e-3, 0.7, 5.0, 30.0, 120.0, 300.0])
    np.testing.assert_allclose(sphere_cosine(t, d), [series(value, d) for value in t], rtol=0, atol=1e-12)


def test_the_mean_cosine_equals_its_closed_forms() -> None:
    t = np.linspace(0.1, 200.0, 400).reshape(4, 100)
    np.testing.assert_allclose(sphere_cosine(t, 1), np.cos(t), atol=1e-12)
    np.testing.assert_allclose(sphere_cosine(t, 2), j0(t), atol=1e-12)
    np.testing.assert_allclose(sphere_cosine(t, 3), np.sin(t) / t, atol=1e-12)
    bessel = np.exp(gammaln(5) + 4 * np.log(2 / t)) * jv(4, t)
    np.testing.assert_allclose(sphere_cosine(t, 10), bessel, atol=1e-12)


def test_the_mean_cosine_is_a_mean_over_the_sphere() -> None:
    rng = np.random.default_rng(0)
    points = rng.standard_normal((200_000, 5))
    values = np.cos(3.0 * points[:, 0] / np.linalg.norm(points, axis=1))
    assert abs(values.mean() - sphere_cosine(3.0, 5)) < 5 * values.std() / np.sqrt(len(values))


# ------------------------------------------------------------------------------------------------------------- one term


# With two inputs the density has a slope at zero, which the trapezoidal rule sees.
@pytest.mark.parametrize(("d", "tolerance"), [(1, 1e-10), (2, 1e-5), (3, 1e-9), (64, 1e-10), (2000, 1e-10)])
@pytest.mark.parametrize("degree", [1, 20])
def test_the_kernel_of_one_gaussian_is_a_gaussian(d: int, tolerance: float, degree: int) -> None:
    z = np.linspace(0.0, 2.0, 30).reshape(5, 6)
    np.testing.assert_allclose(single(degree, 2.0, d).kernel(z), np.exp(-degree * z**2 / 4), rtol=0, atol=tolerance)


@pytest.mark.parametrize(("degree", "a"), [(3, 2.0), (10, 4.0), (20, 2.0)])
def test_the_loss_is_the_integral_of_the_squared_error(degree: int, a: float) -> None:
    np.testing.assert_allclose(single(degree, a, 64).loss, least_single_loss(degree, a), rtol=1e-8)


def test_the_loss_of_the_single_gaussian_comes_to_the_papers_bound() -> None:
    # Eq. 6, an expansion for large degrees.
    bound = 105 / 4096 * np.sqrt(np.pi / 2) * 2.0 * 400**-2.5
    np.testing.assert_allclose(single(400, 2.0, 64).loss, bound, rtol=0.01)


# -------------------------------------------------------------------------------------------------------------- the fit


@pytest.mark.slow
@pytest.mark.parametrize(
    ("degree", "a", "d", "ratio"),
    [(3, 4.0, 64, 1.1), (10, 4.0, 64, 1.2), (10, 2.0, 256, 1.1), (20, 4.0, 256, 1.1), (7, 3.0, 2000, 1.05)],
)
def test_the_fit_is_near_the_best_of_all_densities(degree: int, a: float, d: int, ratio: float) -> None:
    fitted = fit_radial(degree, a, d)
    best = least_loss(fitted)
    assert best <= fitted.loss < ratio * best
    assert fitted.loss < 0.4 * least_single_loss(degree, a)


@pytest.mark.parametrize(("degree", "a", "d"), [(3, 4.0, 1), (10, 4.0, 3), (20, 2.0, 16)])
def test_the_fit_is_all_but_exact_in_low_dimension(degree: int, a: float, d: int) -> None:
    z = np.linspace(0.0, 2.0, 50)
    fitted = fit_radial(degree, a, d)
    np.testing.assert_allclose(fitted.kernel(z), (1 - z**2 / a**2) ** degree, atol=2e-3)


@pytest.mark.parametrize("n_gaussians", [1, 2, 5])
def test_fewer_terms_do_no_worse_than_the_start(n_gaussians: int) -> None:
    fitted = fit_radial(7, 4.0, 30, n_gaussians)
    assert fitted.c.shape == fitted.sigma.shape == (n_gaussians,)
    assert least_loss(fitted) < fitted.loss < least_single_loss(7, 4.0)


def test_the_density_is_not_negative_and_integrates_to_the_value_at_zero() -> None:
    fitted = fit_radial(10, 4.0, 64)
    assert (fitted.c < 0).any()
    assert fitted.density(fitted.radii).min() == 0.0
    np.testing.assert_allclose(fitted.kernel(0.0), fitted.value, rtol=1e-12)
    # The adaptive integral does not know the grid.
    total, _ = quad(fitted.density, fitted.radii[0], fitted.radii[-1], limit=500, points=[fitted.radii[700]])
    np.testing.assert_allclose(total, fitted.value, rtol=1e-4)


def test_radii_are_drawn_from_the_density() -> None:
    fitted = fit_radial(10, 4.0, 64)
    drawn = fitted.sample(4000, np.random.default_rng(0))

    def distribution(w: Floats) -> Floats:
        cells = np.linspace(fitted.radii[0], fitted.radii[-1], 50_001)
        mass = np.cumsum(fitted.density(cells))
        return np.interp(w, cells, mass / mass[-1])

    assert kstest(drawn, distribution).pvalue > 1e-4


# ------------------------------------------------------------------------------------------------------------ the cache


def numbers(fitted: RadialFit) -> tuple[list[float], list[float], float, float]:
    return fitted.c.tolist(), fitted.sigma.tolist(), fitted.loss, fitted.value


def test_a_stored_fit_gives_the_same_numbers(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = fit_radial(3, 4.0, 5, 3)
    assert [path.name for path in cache.iterdir()] == ["v1-p3-a4.0-d5-n3.json"]
    with monkeypatch.context() as patched:
        patched.setattr(spherical, "_fit", lambda *_: pytest.fail("fitted anew"))
        assert numbers(fit_radial(3, 4.0, 5, 3)) == numbers(first)
        assert numbers(fit_radial(np.int64(3), 4, np.int32(5), 3)) == numbers(first)  # type: ignore[arg-type]
    (cache / "v1-p3-a4.0-d5-n3.json").unlink()
    assert numbers(fit_radial(3, 4.0, 5, 3)) == numbers(first)


@pytest.mark.parametrize("parameters", [(4, 4.0, 5, 3), (3, 3.9, 5, 3), (3, 4.0, 6, 3), (3, 4.0, 5, 2)])
def test_other_parameters_have_a_fit_of_their_own(parameters: tuple[int, float, int, int], cache: Path) -> None:
    first = fit_radial(3, 4.0, 5, 3)
    assert numbers(fit_radial(*parameters)) != numbers(first)
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe\x00",
        b"[]",
        b"{}",
        b'{"c": [1, 2], "sigma": [1]}',
        b'{"c": [1, 2], "sigma": [1, "wide"]}',
        b'{"c": [1, NaN], "sigma": [1, 1]}',
        b'{"c": [1, 1' + 400 * b"0" + b'], "sigma": [1, 1]}',
        b'{"c": [1, 2], "sigma": [1, 0]}',
        b'{"c": [-1, -2], "sigma": [1, 1]}',
        b'{"c": {"a": 1}, "sigma": [1, 1]}',
    ],
    ids=str,
)
def test_a_file_that_cannot_be_used_is_fitted_anew(content: bytes, cache: Path) -> None:
    cache.mkdir()
    path = cache / "v1-p2-a4.0-d3-n2.json"
    path.write_bytes(content)
    fitted = fit_radial(2, 4.0, 3, 2)
    assert fitted.loss < 1e-3
    assert json.loads(path.read_text())["c"] == fitted.c.tolist()
    assert [file.name for file in cache.iterdir()] == [path.name]


def test_a_folder_that_cannot_be_written_to_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LMGP_CACHE_DIR", str(tmp_path / "file"))
    assert fit_radial(2, 4.0, 3, 2).loss < 1e-3


def test_a_failed_write_leaves_nothing_behind(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    assert fit_radial(2, 4.0, 3, 2).loss < 1e-3
    assert list(cache.iterdir()) == []


def test_without_the_variable_the_users_cache_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LMGP_CACHE_DIR")
    monkeypatch.setattr("pooch.os_cache", lambda name: tmp_path / "home" / name)
    fit_radial(2, 4.0, 3, 2)
    assert (tmp_path / "home" / "lmgp" / "spherical" / "v1-p2-a4.0-d3-n2.json").is_file()


def test_a_fit_can_be_pickled() -> None:
    fitted = fit_radial(2, 4.0, 3, 2)
    assert numbers(pickle.loads(pickle.dumps(fitted))) == numbers(fitted)


# ------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ((0, 4.0, 5, 3), "degree must be an integer of at least 1; got 0"),
        ((-1, 4.0, 5, 3), "degree must be an integer of at least 1; got -1"),
        ((2.5, 4.0, 5, 3), "degree must be an integer of at least 1; got 2.5"),
        ((3, 1.9, 5, 3), "a must be a finite number of at least 2.* got 1.9"),
        ((3, np.nan, 5, 3), "a must be a finite number of at least 2.* got nan"),
        ((3, np.inf, 5, 3), "a must be a finite number of at least 2.* got inf"),
        ((3, "4", 5, 3), "a must be a finite number of at least 2.* got '4'"),
        ((3, 4.0, 0, 3), "n_inputs must be an integer of at least 1; got 0"),
        ((3, 4.0, 5, 0), "n_gaussians must be an integer of at least 1; got 0"),
    ],
)
def test_parameters_that_cannot_be_used_are_refused(parameters: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit_radial(*parameters)
