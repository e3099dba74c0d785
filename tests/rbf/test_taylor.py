"""Taylor expansions of any degree, around one centre and around many, against the exact models."""

import math
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.svm import SVC, SVR

from lmgp import ExactGPRegressor, GaussianKernel
from lmgp.errors import InputError, ValidityWarning
from lmgp.rbf import QuadraticRBF, RBFExpansion, Regression, TaylorRBF, rbf_expansion
from lmgp.rbf.validity import PAPER_TOLERANCE, largest_exponent

Floats = NDArray[np.float64]


def wave(n: int = 300) -> tuple[Floats, Floats]:
    X = np.random.default_rng(0).uniform(-4, 4, size=(n, 2))
    return X, np.sin(2 * X[:, 0]) + np.cos(X[:, 1])


def grid() -> Floats:
    axis = np.linspace(-4, 4, 25)
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)


def made_up(d: int = 3, gamma: Any = 0.2, n_outputs: int = 2) -> RBFExpansion:
    rng = np.random.default_rng(1)
    X, coefficients = rng.standard_normal((15, d)), rng.standard_normal((15, n_outputs))
    return RBFExpansion(X, coefficients, np.arange(float(n_outputs)), gamma, Regression(one_dimensional=False))


def quietly(model: TaylorRBF | QuadraticRBF, Z: Floats) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        return model.predict(Z)


def truncated(expansion: RBFExpansion, Z: Floats, degree: int, center: Floats) -> Floats:
    """The expansion with its series cut off, by inner products instead of monomials."""
    x, z = (expansion.vectors - center) * expansion.scale, (Z - center) * expansion.scale
    inner = z @ x.T
    series = sum(inner**k / math.factorial(k) for k in range(degree + 1))
    damping = np.exp(-((z**2).sum(axis=1)[:, None] + (x**2).sum(axis=1)) / 2)
    return (damping * series) @ expansion.coefficients + expansion.intercept


@pytest.mark.parametrize("gamma", [0.2, np.array([0.1, 0.4, 0.9])], ids=["isotropic", "ard"])
@pytest.mark.parametrize("degree", [0, 1, 2, 5])
def test_it_is_the_truncated_series(degree: int, gamma: Any) -> None:
    expansion, Z = made_up(gamma=gamma), np.random.default_rng(2).standard_normal((40, 3))
    for center, point in (("origin", np.zeros(3)), ("mean", expansion.vectors.mean(axis=0))):
        model = TaylorRBF.from_estimator(expansion, degree, center=center)
        assert model.weights_.shape == (1, math.comb(3 + degree, degree), 2)
        np.testing.assert_allclose(quietly(model, Z), truncated(expansion, Z, degree, point), rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("degree", [0, 1, 3, 4, 7])
def test_each_term_errs_less_than_the_tolerance_within_the_bound(degree: int) -> None:
    rng = np.random.default_rng(0)
    for d in (1, 3):
        x = rng.standard_normal((1, d))
        directions = np.concatenate((rng.standard_normal((40, d)), x, -x))
        directions /= np.linalg.norm(directions, axis=1)[:, None]
        model = TaylorRBF.from_estimator(RBFExpansion(x, np.ones((1, 1)), np.zeros(1), 0.5), degree)
        Z = 0.9999999 * directions * largest_exponent(degree) / np.linalg.norm(x)
        found, valid = model.predict(Z, return_valid=True)
        assert valid.all()
        errors = np.abs(found / np.exp(-0.5 * ((Z - x) ** 2).sum(axis=1)) - 1)
        assert errors.max() == pytest.approx(PAPER_TOLERANCE, rel=1e-5)
        assert errors.max() < PAPER_TOLERANCE
        with pytest.warns(ValidityWarning, match=f"{len(Z)} of {len(Z)} rows"):
            model.predict(1.001 * Z)


def test_localized_it_is_exact_where_the_global_quadratic_is_useless() -> None:
    X, y = wave()
    for exact in (SVR(gamma=1.0, C=10.0, epsilon=0.01), ExactGPRegressor(GaussianKernel(0.7, 2.0), 0.01)):
        exact.fit(X, y)
        expected = exact.predict(grid())
        assert np.abs(quietly(QuadraticRBF.from_estimator(exact, center="mean"), grid()) - expected).max() > 1.0
        model = TaylorRBF.from_estimator(exact, 20, threshold=0.8)
        found, valid = model.predict(grid(), return_valid=True)
        assert valid.all()
        assert np.abs(found - expected).max() < 1e-6


def test_localized_classifiers_give_the_same_labels() -> None:
    X, y = wave()
    svc = SVC(gamma=1.0, C=10.0).fit(X, np.digitize(y, [-0.5, 0.5]))
    model = TaylorRBF.from_estimator(svc, 12, threshold=0.8)
    assert np.mean(model.predict(grid()) != svc.predict(grid())) < 0.005
    np.testing.assert_allclose(model.decision_function(X), svc.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("degree", [2, 6])
def test_localized_every_kernel_value_is_within_the_tolerance_on_valid_rows(degree: int) -> None:
    expansion = rbf_expansion(SVR(gamma=0.8).fit(*wave(150)))
    n_sv = len(expansion.vectors)
    # One output for each support vector: the outputs are the kernel values.
    values = RBFExpansion(expansion.vectors, np.eye(n_sv), np.zeros(n_sv), 0.8, Regression(one_dimensional=False))
    for tolerance in (PAPER_TOLERANCE, 1e-4):
        model = TaylorRBF.from_estimator(values, degree, threshold=1.0, tolerance=tolerance)
        with pytest.warns(ValidityWarning, match=f"kernel value errs by less than {tolerance:.3g}"):
            found, valid = model.predict(1.3 * grid(), return_valid=True)
        errors = np.abs(found - values.outputs(1.3 * grid())).max(axis=1)
        assert 0 < valid.sum() < len(valid)
        assert errors[valid].max() <= tolerance
        assert errors[~valid].max() > tolerance


@pytest.mark.parametrize("d", [1, 2])
def test_each_row_uses_its_nearest_centre_and_all_vectors_that_matter(d: int) -> None:
    rng = np.random.default_rng(3)
    X, scales = rng.uniform(-30, 30, size=(80, d)), np.array([0.5, 2.0])[:d]
    expansion = RBFExpansion(X, rng.standard_normal((80, 1)), np.array([0.3]), scales)
    model = TaylorRBF.from_estimator(expansion, 3, threshold=2.0)
    scaled = np.sqrt(2 * scales)
    assert cdist(X * scaled, model.centers_ * scaled).min(axis=1).max() < 2.0
    Z = rng.uniform(-30, 30, size=(50, d))
    nearest = cdist(Z * scaled, model.centers_ * scaled).argmin(axis=1)
    expected = [truncated(expansion, Z[[i]], 3, model.centers_[c])[0, 0] for i, c in enumerate(nearest)]
    np.testing.assert_allclose(quietly(model, Z), expected, rtol=0, atol=1e-10)


def test_its_size_does_not_grow_with_the_support_vectors() -> None:
    sizes = []
    for n in (500, 5000):
        X = np.random.default_rng(0).uniform(-2, 2, size=(n, 2))
        expansion = RBFExpansion(X, np.ones((n, 1)), np.zeros(1), 0.5)
        model = TaylorRBF.from_estimator(expansion, 6, threshold=1.5)
        assert model.sizes.approximate == model.weights_.size + model.centers_.size + 3
        assert len(pickle.dumps(model)) < 8 * model.sizes.approximate + 2500
        sizes.append(model.sizes.approximate)
    assert sizes[1] < 1.5 * sizes[0]
    assert model.sizes.exact == 5000 * 3 + 1


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"degree": -1}, InputError, "degree must be a whole number from 0 to 400; got -1"),
        ({"degree": 2.5}, InputError, "degree must be a whole number from 0 to 400; got 2.5"),
        ({"degree": 200}, InputError, "monomials, more than 100,000"),
        ({"threshold": 0.0}, ValueError, "The 'threshold' parameter of TaylorRBF"),
        ({"threshold": "auto"}, ValueError, "The 'threshold' parameter of TaylorRBF"),
        ({"tolerance": 0.0}, ValueError, "The 'tolerance' parameter of TaylorRBF"),
        ({"tolerance": 1.0}, ValueError, "The 'tolerance' parameter of TaylorRBF"),
        ({"center": None}, ValueError, "The 'center' parameter of TaylorRBF"),
        ({"center": "mean", "threshold": 1.0}, InputError, "cannot both be given"),
        ({"center": [0.0] * 3, "threshold": 1.0}, InputError, "cannot both be given"),
    ],
    ids=str,
)
def test_parameters_that_cannot_be_are_refused(parameters: dict[str, Any], error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        TaylorRBF.from_estimator(made_up(), **parameters)
