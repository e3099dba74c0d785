"""Any scikit-learn transformer as the map of a model: its columns times σ."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, PolynomialFeatures, StandardScaler

import tests.conftest
from lmgp import ExactGPRegressor, FeaturizedGPRegressor, GaussianKernel, TaylorFeatures
from lmgp.errors import InputError
from tests.conftest import APPROXIMATIONS, dense_gp

LENGTHSCALE = np.array([1.0, 0.7, 2.0])
VARIANCE = 2.0
NOISE = 0.05
KERNEL = GaussianKernel(LENGTHSCALE, VARIANCE)

draw = partial(tests.conftest.draw, n=60, low=(3.5, -3.5, -1.0), high=(6.5, -0.5, 2.0), n_new=12)


class Reciprocal(TransformerMixin, BaseEstimator):
    """A transformer that makes something else than one row of columns for each row."""

    def __init__(self, shape: str) -> None:
        self.shape = shape

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return {"flat": X[:, 0], "short": X[:0], "deep": X[:, :, None]}[self.shape]


@pytest.mark.parametrize(
    "transformer",
    [
        RBFSampler(gamma=0.5, n_components=30, random_state=0),
        PolynomialFeatures(3),
        make_pipeline(StandardScaler(), PolynomialFeatures(2)),
        KBinsDiscretizer(3, encode="onehot", quantile_method="averaged_inverted_cdf"),  # sparse
    ],
    ids=["rbf_sampler", "polynomial", "pipeline", "sparse"],
)
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_columns_times_sigma_are_the_features(transformer, approximation: str) -> None:
    X, y, T = draw()
    model = FeaturizedGPRegressor(transformer, kernel=KERNEL, noise_variance=NOISE, approximation=approximation).fit(
        X, y
    )
    fitted = clone(transformer).fit(X)
    phi, new = (fitted.transform(rows) for rows in (X, T))
    phi, new = (np.sqrt(VARIANCE) * np.asarray(p if isinstance(p, np.ndarray) else p.todense()) for p in (phi, new))
    expected = dense_gp(phi @ phi.T, phi @ new.T, np.sum(new**2, axis=1), y, np.full(len(y), NOISE))
    mean, std = model.predict(T, return_std=True)
    np.testing.assert_allclose(mean, expected[0], rtol=1e-7, atol=1e-8)
    # Polynomials reach thousands: the difference that is the expectation has lost as many digits.
    np.testing.assert_allclose(std**2, expected[1], rtol=1e-6, atol=1e-8)
    assert not hasattr(transformer, "n_features_in_")


@pytest.mark.parametrize("piped", [False, True])
@pytest.mark.parametrize("approximation", APPROXIMATIONS)
def test_nystroem_makes_the_textbook_inducing_point_methods(approximation: str, piped: bool) -> None:
    # Quiñonero-Candela and Rasmussen (2005), eqs. 16 (SoR), 20 (DTC) and 24 (FITC).
    X, y, T = draw()
    lengthscale = 1.3
    kernel = GaussianKernel(lengthscale, VARIANCE)
    nystroem = Nystroem(gamma=0.5 / lengthscale**2, n_components=20)
    features = make_pipeline(FunctionTransformer(), nystroem) if piped else nystroem
    model = FeaturizedGPRegressor(
        features, kernel=kernel, noise_variance=NOISE, approximation=approximation, random_state=0
    ).fit(X, y)
    fitted = model.features_.transformer_
    Z = (fitted[-1] if piped else fitted).components_
    assert Z.shape == (20, 3)
    K_uu, K_uf, K_us = kernel(Z), kernel(Z, X), kernel(Z, T)
    Q_ff, Q_ss = (np.sum(K * np.linalg.solve(K_uu, K), axis=0) for K in (K_uf, K_us))
    noise = NOISE + (VARIANCE - Q_ff if approximation == "fitc" else np.zeros(len(y)))
    precision = K_uu + (K_uf / noise) @ K_uf.T
    mean = y.mean() + K_us.T @ np.linalg.solve(precision, K_uf @ ((y - y.mean()) / noise))
    variance = np.sum(K_us * np.linalg.solve(precision, K_us), axis=0)
    if approximation != "sor":
        variance = variance + VARIANCE - Q_ss
    predicted_mean, predicted_std = model.predict(T, return_std=True)
    np.testing.assert_allclose(predicted_mean, mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(predicted_std**2, variance, rtol=0, atol=1e-8)


def test_nystroem_with_all_rows_is_the_exact_process() -> None:
    X, y, T = draw()
    kernel = GaussianKernel(1.0, VARIANCE)
    model = FeaturizedGPRegressor(
        Nystroem(gamma=0.5, n_components=60), kernel=kernel, noise_variance=NOISE, random_state=0
    )
    exact = ExactGPRegressor(kernel, NOISE)
    np.testing.assert_allclose(
        model.fit(X, y).predict(T, return_std=True), exact.fit(X, y).predict(T, return_std=True), rtol=0, atol=1e-6
    )


def test_seed_of_the_regressor_reaches_the_steps_of_a_pipeline() -> None:
    X, y, T = draw()
    features = make_pipeline(StandardScaler(), Nystroem(n_components=5))

    def predicted(random_state: int) -> list[float]:
        model = FeaturizedGPRegressor(features, kernel=KERNEL, noise_variance=NOISE, random_state=random_state)
        return model.fit(X, y).predict(T).tolist()

    assert predicted(0) == predicted(0)
    assert predicted(0) != predicted(1)
    assert features[-1].random_state is None


@pytest.mark.parametrize("shape", ["flat", "short", "deep"])
def test_a_transformer_that_makes_no_features_is_an_error(shape: str) -> None:
    X, y, _ = draw()
    with pytest.raises(InputError, match=r"cannot serve as a feature map.*expected shape \(\d+, n_features\)"):
        FeaturizedGPRegressor(Reciprocal(shape), kernel=KERNEL, noise_variance=NOISE).fit(X, y)


@pytest.mark.parametrize("features", ["taylor", 120, StandardScaler, TaylorFeatures, KERNEL])
def test_what_is_no_transformer_is_an_error(features: object) -> None:
    X, y, _ = draw()
    with pytest.raises(InputError, match=r"features must be a feature map such as TaylorFeatures.*; got"):
        FeaturizedGPRegressor(features, kernel=KERNEL, noise_variance=NOISE).fit(X, y)


@pytest.mark.filterwarnings("ignore:divide by zero")
def test_columns_that_are_not_finite_are_an_error() -> None:
    X, y, _ = draw()
    X[3] = 0.0
    with pytest.raises((ValueError, ArithmeticError), match="finite"):
        FeaturizedGPRegressor(FunctionTransformer(np.reciprocal), kernel=KERNEL, noise_variance=NOISE).fit(X, y)
