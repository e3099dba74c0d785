"""Feature maps made from feature maps: whose kernel they are, how they compose, and what they refuse."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, PolynomialFeatures, StandardScaler

from lmgp import (
    ExponentialKernel,
    FeaturizedGPRegressor,
    GaussianKernel,
    LinearKernel,
    ModulatedKernel,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    ScaledKernel,
    TaylorFeatures,
)
from lmgp.errors import InputError
from lmgp.features import CraftFeatures, PolynomialMaclaurinFeatures, SphericalFourierFeatures
from lmgp.features.base import FeatureMap
from lmgp.features.composition import (
    LinearFeatures,
    ModulatedFeatures,
    ProductFeatures,
    ScaledFeatures,
    SumFeatures,
    exact_features,
)
from lmgp.kernels.base import Kernel

Floats = NDArray[np.float64]

rng = np.random.default_rng(0)
X = 0.7 * rng.standard_normal((9, 3))
Z = 0.7 * rng.standard_normal((5, 3))
A = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, -0.3], [0.0, -0.3, 0.7]])


class Decay:
    """A function whose name does not hold an address: names of tests must be the same in every process."""

    def __call__(self, rows: Floats) -> Floats:
        return np.exp(-0.5 * np.square(rows).sum(axis=1))

    def __repr__(self) -> str:
        return "decay"


decay = Decay()
LINEAR = LinearKernel()
# A kernel with a finite map, and how many columns that has.
FINITE: dict[str, tuple[Kernel, int]] = {
    "identity": (LINEAR, 3),
    "weighted": (LinearKernel(A), 3),
    "singular": (LinearKernel(np.outer([1.0, 2.0, -1.0], [1.0, 2.0, -1.0])), 3),
    "sum": (LINEAR + LinearKernel(A), 6),
    "product": (LINEAR * LinearKernel(A), 9),
    "scaled": (2.5 * LINEAR, 3),
    "zero": (0.0 * LINEAR, 3),
    "modulated": (ModulatedKernel(LinearKernel(A), decay), 3),
    "cube": (LINEAR * LINEAR * LINEAR, 27),
    "nested": (0.3 * (LINEAR + ModulatedKernel(LINEAR * LINEAR, decay)) * (LinearKernel(A) + 2.0 * LINEAR), 72),
}


@pytest.mark.parametrize("name", FINITE)
def test_the_exact_map_of_a_kernel_reproduces_it(name: str) -> None:
    kernel, n_columns = FINITE[name]
    fitted = exact_features(kernel).fit(X)
    np.testing.assert_allclose(fitted.transform(X) @ fitted.transform(Z).T, kernel(X, Z), rtol=0, atol=1e-12)
    assert fitted.n_features_out_ == n_columns == fitted.transform(X).shape[1]
    names = fitted.get_feature_names_out()
    assert len(set(names)) == len(names) == n_columns


class Squared(LinearKernel):
    """A kernel of somebody's own."""

    def covariance(self, X: Any, Z: Any, values: Any) -> Any:
        return super().covariance(X, Z, values) ** 2


@pytest.mark.parametrize(
    "kernel",
    [
        GaussianKernel(),
        Squared(),
        LINEAR.on(0),
        ExponentialKernel(LINEAR),
        LINEAR + GaussianKernel(),
        2.0 * (LINEAR * ExponentialKernel(LINEAR)),
        ModulatedKernel(GaussianKernel(), decay),
    ],
)
def test_a_kernel_without_a_finite_map_is_refused(kernel: Any) -> None:
    message = "As far as is known here, .* has no finite feature map; approximate it: strategy 'approximate' with "
    with pytest.raises(InputError, match=message):
        exact_features(kernel)
    with pytest.raises(InputError, match="is no kernel of this package"):
        exact_features(np.dot)


# ----------------------------------------------------------------------------------------------------------- operations


def parts() -> tuple[RandomFourierFeatures, TaylorFeatures]:
    return RandomFourierFeatures(8, kernel=GaussianKernel(0.7), random_state=1), TaylorFeatures(10)


@pytest.mark.parametrize("other", [TaylorFeatures(10), Nystroem(n_components=4, random_state=0), PolynomialFeatures(2)])
def test_compositions_of_any_transformers_are_those_of_their_kernels(other: Any) -> None:
    ours = RandomFourierFeatures(8, random_state=1)
    phi, psi = clone(ours).fit(X).transform(X), clone(other).fit(X).transform(X)
    for made, expected in (
        (ours + other, np.hstack((phi, psi))),
        (other + ours, np.hstack((psi, phi))),
        (ours * other, np.einsum("ij,ik->ijk", phi, psi).reshape(9, -1)),
        (other * ours, np.einsum("ij,ik->ijk", psi, phi).reshape(9, -1)),
        (4.0 * ours, 2.0 * phi),
        (ours * 4.0, 2.0 * phi),
        (4.0 * (ours + other), 2.0 * np.hstack((phi, psi))),
        (ModulatedFeatures(other, decay), decay(X)[:, None] * psi),
        (np.float64(4.0) * ours, 2.0 * phi),
    ):
        np.testing.assert_allclose(made.fit_transform(X), expected, rtol=1e-14, atol=1e-16)


def test_operators_make_what_they_say() -> None:
    first, second = parts()
    assert isinstance(first + second, SumFeatures)
    assert isinstance(first * second, ProductFeatures)
    assert isinstance(2.0 * first, ScaledFeatures)
    assert isinstance(3.0 * (first + second) * first, ProductFeatures)
    for operation in (
        lambda: first + 1.0,
        lambda: 1.0 + first,
        lambda: first * "a",
        lambda: np.ones(2) * first,
        lambda: first + LINEAR,
    ):
        with pytest.raises(TypeError, match=r"unsupported operand|can't multiply|does not support ufuncs"):
            operation()


def test_parts_are_cloned_and_fitted_in_fit() -> None:
    first, second = parts()
    fitted = (first + second).fit(X)
    assert fitted.left is first
    assert not hasattr(first, "frequencies_")
    assert fitted.left_.n_features_out_ == 8
    assert fitted.right_.n_features_in_ == fitted.n_features_in_ == 3


def test_a_sum_of_fourier_maps_is_unbiased() -> None:
    left, right = GaussianKernel(0.5, 2.0), GaussianKernel([2.0, 1.0, 3.0], 0.5)
    products = []
    for seed in range(200):
        made = RandomFourierFeatures(8, kernel=left, random_state=2 * seed) + 3.0 * OrthogonalFourierFeatures(
            6, kernel=right, random_state=2 * seed + 1
        )
        fitted = made.fit(X)
        products.append(fitted.transform(X) @ fitted.transform(Z).T)
    target = (left + 3.0 * right)(X, Z)
    error = np.std(products, axis=0, ddof=1) / np.sqrt(len(products))
    assert np.all(np.abs(np.mean(products, axis=0) - target) < 5.0 * error)


def test_a_product_of_independent_fourier_maps_is_unbiased() -> None:
    left, right = GaussianKernel(1.5), GaussianKernel(2.0)
    products = []
    for seed in range(200):
        made = RandomFourierFeatures(6, kernel=left, random_state=2 * seed) * RandomFourierFeatures(
            6, kernel=right, random_state=2 * seed + 1
        )
        fitted = made.fit(X)
        products.append(fitted.transform(X) @ fitted.transform(Z).T)
    error = np.std(products, axis=0, ddof=1) / np.sqrt(len(products))
    assert np.all(np.abs(np.mean(products, axis=0) - (left * right)(X, Z)) < 5.0 * error)


def test_a_composed_map_serves_in_a_gaussian_process() -> None:
    y = np.sin(X[:, 0]) + X[:, 1]
    made = 1.5 * parts()[0] + LinearFeatures(A)
    model = FeaturizedGPRegressor(made, kernel=GaussianKernel(1.0, 2.0), noise_variance=0.1).fit(X, y)
    mean, std = model.predict(Z, return_std=True)
    # The regressor's columns are the map's times σ: the GP with σ² φᵀφ as its kernel, by dense algebra.
    fitted = clone(made).fit(X)
    K = 2.0 * fitted.transform(X) @ fitted.transform(X).T + 0.1 * np.eye(9)
    cross = 2.0 * fitted.transform(Z) @ fitted.transform(X).T
    np.testing.assert_allclose(mean, y.mean() + cross @ np.linalg.solve(K, y - y.mean()), rtol=1e-8)
    prior = 2.0 * np.square(fitted.transform(Z)).sum(axis=1)
    np.testing.assert_allclose(std**2, prior - np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1), rtol=1e-6)


# ------------------------------------------------------------------------------------------------------- scikit-learn


def test_maps_clone_pickle_and_take_nested_parameters() -> None:
    first, second = parts()
    made = ModulatedFeatures(2.0 * (first + second) * LinearFeatures(A), decay)
    expected = made.fit_transform(X)
    np.testing.assert_array_equal(clone(made).fit_transform(X), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(made)).transform(X), expected)
    assert clone(made).set_params(features__left__features__left__n_features=4).fit(X).n_features_out_ == (4 + 10) * 3


def test_maps_serve_in_a_pipeline_and_after_transformers_with_sparse_output() -> None:
    made = make_pipeline(StandardScaler(), LinearFeatures() + OneHotEncoder(handle_unknown="ignore"))
    labels = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]])
    columns = made.fit_transform(labels)
    assert isinstance(columns, np.ndarray)
    np.testing.assert_array_equal(columns[:, 2:], [[1, 0, 0, 0, 1], [0, 1, 0, 0, 1], [0, 0, 1, 1, 0]])


def test_evaluate_is_transform_without_a_check() -> None:
    fitted = (parts()[0] * LinearFeatures() + Nystroem(n_components=3, random_state=0)).fit(X)
    np.testing.assert_array_equal(fitted.evaluate(torch.from_numpy(Z)).numpy(), fitted.transform(Z))


def test_a_transform_never_shares_memory_with_its_input() -> None:
    assert not np.shares_memory(LinearFeatures().fit(X).transform(X), X)


# ---------------------------------------------------------------------------------------------------------------- input


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (LinearFeatures(np.eye(2)), r"shape \(3, 3\) for these rows; got \(2, 2\)"),
        (LinearFeatures(np.diag([1.0, -1.0, 1.0])), "positive semi-definite"),
        (ScaledFeatures(LinearFeatures(), -2.0), "non-negative finite number; got -2.0"),
        (SumFeatures(LinearFeatures(), "rbf"), "must be a scikit-learn transformer; got 'rbf'"),
        (ProductFeatures(LinearFeatures, LinearFeatures()), "must be a scikit-learn transformer; got <class"),
        (ModulatedFeatures(LinearFeatures(), lambda rows: rows), r"shape \(1,\) for these rows; got shape \(1, 3\)"),
        (exact_features(ScaledKernel(LINEAR, -1.0)), "non-negative finite number; got -1.0"),
    ],
)
def test_what_cannot_be_used_is_refused(made: FeatureMap, message: str) -> None:
    with pytest.raises(InputError, match=message):
        made.fit(X)


def test_rows_that_cannot_be_used_are_refused() -> None:
    fitted = SumFeatures(*parts()).fit(X)
    for bad, error, message in (
        (X * np.nan, ValueError, "NaN"),
        (X[:, :2], ValueError, "X has 2 features, but SumFeatures is expecting 3"),
        (csr_array(X), TypeError, "Sparse data was passed.*dense data is required"),
    ):
        with pytest.raises(error, match=message):
            fitted.transform(bad)
    with pytest.raises(TypeError, match="dense data is required"):
        SumFeatures(*parts()).fit(csr_array(X))
    with pytest.raises(NotFittedError, match="not fitted yet"):
        SumFeatures(*parts()).transform(X)


@pytest.mark.parametrize(
    "features",
    [
        SphericalFourierFeatures(20, random_state=0),
        PolynomialMaclaurinFeatures(20, random_state=0),
        CraftFeatures(PolynomialMaclaurinFeatures(40), 20, random_state=0),
        TaylorFeatures(20),
    ],
    ids=lambda features: type(features).__name__,
)
def test_every_map_has_the_operators(features: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMGP_CACHE_DIR", str(tmp_path))
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    own = clone(features).fit_transform(unit)
    other = LinearFeatures().fit_transform(unit)
    gram, linear = own @ own.T, other @ other.T
    composed = {"sum": features + LinearFeatures(), "product": features * LinearFeatures(), "multiple": 3.0 * features}
    expected = {"sum": gram + linear, "product": gram * linear, "multiple": 3.0 * gram}
    for name, made in composed.items():
        columns = made.fit_transform(unit)
        np.testing.assert_allclose(columns @ columns.T, expected[name], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("matrix", [None, [[2.0, 0.5], [0.5, 1.0]]])
@pytest.mark.parametrize("variance", [1.0, 3.0, [0.5, 2.0]])
def test_features_of_a_linear_kernel_have_its_variance(matrix: Any, variance: Any) -> None:
    X = np.random.default_rng(0).normal(size=(6, 2))
    kernel = LinearKernel(matrix, variance)
    phi = exact_features(kernel).fit_transform(X)
    np.testing.assert_allclose(phi @ phi.T, kernel(X), rtol=1e-10, atol=1e-12)
    with pytest.raises(InputError, match="has a center, which its map has not: subtract it from the rows"):
        exact_features(LinearKernel(matrix, variance, center=[0.0, 1.0]))
