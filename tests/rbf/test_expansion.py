"""What is read out of fitted models predicts what they predict."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

from lmgp import ExactGPRegressor, GaussianKernel, MaternKernel
from lmgp.errors import InputError
from lmgp.rbf import Classification, OneClass, RBFExpansion, Regression, rbf_expansion

Floats = NDArray[np.float64]


def rows(n: int = 90, seed: int = 0) -> Floats:
    return 3.0 + np.random.default_rng(seed).standard_normal((n, 3))


def target(X: Floats) -> Floats:
    return 5.0 + 2.0 * np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def labels(X: Floats, n_classes: int) -> NDArray[Any]:
    thresholds = np.quantile(target(X), np.linspace(0, 1, n_classes + 1)[1:-1])
    return np.array(["pear", "apple", "quince", "fig"])[np.digitize(target(X), thresholds)]


def two_targets(X: Floats) -> Floats:
    return np.stack((target(X), 100.0 * X[:, 0] ** 2), axis=1)


REGRESSORS: dict[str, Any] = {
    "svr": SVR(C=10.0, gamma=0.3),
    "nu svr": NuSVR(),
    "kernel ridge": KernelRidge(kernel="rbf", gamma=0.3, alpha=0.1),
    "kernel ridge, default gamma": KernelRidge(kernel="rbf"),
    "gp, default kernel": GaussianProcessRegressor(alpha=0.1),
    "gp, rbf": GaussianProcessRegressor(RBF(1.5), alpha=0.1, optimizer=None),
    "gp, constant": GaussianProcessRegressor(ConstantKernel(9.0) * RBF(1.5), alpha=0.1, optimizer=None),
    "gp, ard": GaussianProcessRegressor(RBF([1.0, 2.0, 0.5]) * ConstantKernel(4.0), alpha=0.1, optimizer=None),
    "gp, noise": GaussianProcessRegressor(
        WhiteKernel(0.1, "fixed") + ConstantKernel(2.0) * RBF([1.0, 2.0, 0.5]), normalize_y=True, random_state=0
    ),
    "gp, a multiple of noise": GaussianProcessRegressor(
        RBF(1.5) + ConstantKernel(2.0) * WhiteKernel(0.1), optimizer=None
    ),
    "gp, noise within": GaussianProcessRegressor(
        ConstantKernel(2.0) * (RBF(2.0) + WhiteKernel(0.1)), normalize_y=True, optimizer=None
    ),
    "exact gp": ExactGPRegressor(GaussianKernel(1.5, 3.0), 0.1),
    "exact gp, ard": ExactGPRegressor(GaussianKernel([1.0, 2.0, 0.5], 3.0), 0.1),
    "exact gp, learned": ExactGPRegressor(random_state=0),
}


def assert_same(found: Floats, expected: Floats) -> None:
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("model", REGRESSORS.values(), ids=REGRESSORS)
def test_regressors_are_read_exactly(model: Any) -> None:
    X, Z = rows(), rows(seed=1)
    fitted = clone(model).fit(X, target(X))
    expansion = rbf_expansion(fitted)
    assert_same(expansion.predict(Z), fitted.predict(Z))
    assert not hasattr(expansion, "decision_function")
    assert rbf_expansion(expansion) is expansion


@pytest.mark.parametrize("name", ["kernel ridge", "gp, noise within", "gp, ard", "exact gp, ard"])
@pytest.mark.parametrize("columns", [[0, 1], [0]])
def test_several_targets_are_read_exactly(name: str, columns: list[int]) -> None:
    X, Z = rows(), rows(seed=1)
    fitted = clone(REGRESSORS[name]).fit(X, two_targets(X)[:, columns])
    assert_same(rbf_expansion(fitted).predict(Z), fitted.predict(Z))


def test_an_exact_gp_with_weights_and_noise_of_its_rows_is_read_exactly() -> None:
    X, rng = rows(), np.random.default_rng(2)
    fitted = ExactGPRegressor(GaussianKernel(1.5, 3.0), 0.1)
    fitted.fit(X, target(X), sample_weight=rng.integers(0, 3, 90), noise_variances=rng.uniform(0.1, 1.0, 90))
    assert_same(rbf_expansion(fitted).predict(X), fitted.predict(X))


def test_the_weights_of_an_exact_gp_solve_its_linear_system() -> None:
    X, rng = rows(), np.random.default_rng(2)
    kernel, noise, weights = GaussianKernel(1.5, 3.0), rng.uniform(0.1, 1.0, 90), rng.integers(1, 3, 90)
    fitted = ExactGPRegressor(kernel, 0.1).fit(X, target(X), sample_weight=weights, noise_variances=noise)
    found, alpha = fitted.dual_coefficients()
    np.testing.assert_array_equal(found, X)
    centred = target(X) - np.average(target(X), weights=weights)
    np.testing.assert_allclose(kernel(X) @ alpha + noise / weights * alpha, centred, rtol=1e-9, atol=1e-9)


def test_an_exact_gp_with_another_kernel_is_refused() -> None:
    fitted = ExactGPRegressor(GaussianKernel(1.0), 0.1).fit(rows(), target(rows()))
    fitted.kernel_ = MaternKernel(1.0)  # type: ignore[assignment]
    with pytest.raises(InputError, match=r"ExactGPRegressor has the kernel MaternKernel.*Supported: SVC"):
        rbf_expansion(fitted)


def test_an_exact_gp_with_a_trend_is_refused() -> None:
    fitted = ExactGPRegressor(GaussianKernel(1.0), 0.1, trend="linear").fit(rows(), target(rows()))
    with pytest.raises(InputError, match=r"ExactGPRegressor has trend='linear'\. Supported: SVC.* a constant trend"):
        rbf_expansion(fitted)


@pytest.mark.parametrize("unit", [1e-6, 1e9])
def test_a_gp_of_scikit_learn_is_read_in_any_unit(unit: float) -> None:
    X, Z = rows() * unit, rows(seed=1) * unit
    gp = GaussianProcessRegressor(2.0 * RBF([2.0 * unit] * 3, "fixed"), alpha=0.1, optimizer=None, normalize_y=True)
    fitted = gp.fit(X, 1e5 + two_targets(X / unit))
    np.testing.assert_allclose(rbf_expansion(fitted).predict(Z), fitted.predict(Z), rtol=1e-10)


CLASSIFIERS: dict[str, Callable[..., Any]] = {"svc": SVC, "nu svc": NuSVC}


@pytest.mark.parametrize("gamma", ["scale", "auto", 0.8])
@pytest.mark.parametrize("shape", ["ovr", "ovo"])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("make", CLASSIFIERS.values(), ids=CLASSIFIERS)
def test_classifiers_are_read_exactly(make: Callable[..., Any], n_classes: int, shape: str, gamma: Any) -> None:
    X, Z = rows(), rows(500, seed=1)
    fitted = make(gamma=gamma, decision_function_shape=shape).fit(X, labels(X, n_classes))
    expansion = rbf_expansion(fitted)
    assert_same(expansion.decision_function(Z), fitted.decision_function(Z))
    np.testing.assert_array_equal(expansion.predict(Z), fitted.predict(Z))
    assert isinstance(expansion.readout, Classification)
    np.testing.assert_array_equal(expansion.readout.classes, fitted.classes_)


def test_ties_of_votes_are_broken_as_the_model_breaks_them() -> None:
    rng = np.random.default_rng(0)
    angle = rng.uniform(0, 2 * np.pi, 300)
    X = np.stack((np.cos(angle), np.sin(angle)), axis=1) + 0.1 * rng.standard_normal((300, 2))
    y = (angle // (2 * np.pi / 3)).astype(int)
    Z = 0.6 * rng.standard_normal((3000, 2))
    predictions = {}
    for break_ties in (False, True):
        fitted = SVC(gamma=1.0, break_ties=break_ties).fit(X, y)
        predictions[break_ties] = rbf_expansion(fitted).predict(Z)
        np.testing.assert_array_equal(predictions[break_ties], fitted.predict(Z))
    assert np.any(predictions[False] != predictions[True])  # there are ties, and so the test means something


def test_weights_of_classes_and_rows_change_nothing_about_it() -> None:
    X = rows()
    fitted = SVC(class_weight="balanced", C=0.3).fit(X, labels(X, 3), sample_weight=np.linspace(0.1, 2.0, 90))
    np.testing.assert_array_equal(rbf_expansion(fitted).predict(X), fitted.predict(X))


def test_an_outlier_detector_is_read_exactly() -> None:
    X, Z = rows(), rows(300, seed=1)
    fitted = OneClassSVM(nu=0.3, gamma=0.4).fit(X)
    expansion = rbf_expansion(fitted)
    assert_same(expansion.decision_function(Z), fitted.decision_function(Z))
    np.testing.assert_array_equal(expansion.predict(Z), fitted.predict(Z))
    assert set(expansion.predict(Z)) == {-1, 1}


@pytest.mark.parametrize("n_classes", [2, 3])
def test_sparse_support_vectors_are_made_dense(n_classes: int) -> None:
    X = rows() * (np.random.default_rng(3).uniform(size=(90, 3)) < 0.6)
    fitted = SVC(gamma=0.5).fit(csr_matrix(X), labels(X, n_classes))
    assert_same(rbf_expansion(fitted).decision_function(X), fitted.decision_function(csr_matrix(X)))


def test_many_rows_are_evaluated_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows()
    expansion = rbf_expansion(SVR().fit(X, target(X)))
    expected = expansion.outputs(X)
    monkeypatch.setattr("lmgp.rbf.expansion.KERNEL_BYTES", 8 * len(expansion.vectors) * 7)
    np.testing.assert_allclose(expansion.outputs(X), expected, rtol=1e-13)


def test_a_pair_without_a_class_of_the_support_vector_costs_nothing() -> None:
    X = rows()
    expansion = rbf_expansion(SVC(gamma=0.5).fit(X, labels(X, 4)))
    n_sv = len(expansion.vectors)
    assert expansion.coefficients.shape == (n_sv, 6)
    assert expansion.n_numbers <= n_sv * (3 + 3) + 6


def test_an_output_of_zero_is_for_the_second_class_and_for_outliers() -> None:
    assert Classification(np.array([3, 7])).predict(np.zeros((1, 1))).tolist() == [7]
    assert Classification(np.array([7, 3])).predict(np.zeros((1, 1))).tolist() == [3]
    assert OneClass().predict(np.zeros((1, 1))).tolist() == [-1]


UNSUPPORTED: dict[str, tuple[Any, str]] = {
    "forest": (RandomForestClassifier(n_estimators=2), "No kernel expansion is known of RandomForestClassifier"),
    "pipeline": (make_pipeline(StandardScaler(), SVC()), r"last step of a Pipeline, model\[-1\]"),
    "linear": (SVC(kernel="linear"), "SVC has kernel='linear'. Supported: SVC"),
    "polynomial": (NuSVC(kernel="poly"), "NuSVC has kernel='poly'"),
    "callable": (SVR(kernel=lambda A, B: A @ B.T), "SVR has kernel=<function"),
    "ridge, linear": (KernelRidge(), "KernelRidge has kernel='linear'"),
    "matern": (GaussianProcessRegressor(Matern()), "GaussianProcessRegressor has the kernel Matern"),
    "sum": (GaussianProcessRegressor(RBF() + RBF(3.0), optimizer=None), "has the kernel RBF"),
    "constant sum": (GaussianProcessRegressor(RBF() + ConstantKernel(), optimizer=None), "has the kernel RBF"),
    "ovo ties": (SVC(break_ties=True, decision_function_shape="ovo"), "break_ties must be False"),
    "no support vectors": (SVR(epsilon=1e3), "SVR has no support vectors"),
}


@pytest.mark.parametrize("bad", UNSUPPORTED)
def test_other_models_are_refused(bad: str) -> None:
    model, message = UNSUPPORTED[bad]
    X = rows(30)
    fitted = clone(model).fit(X, labels(X, 2) if hasattr(model, "predict_proba") or "SVC" in str(model) else target(X))
    with pytest.raises(InputError, match=message):
        rbf_expansion(fitted)


@pytest.mark.parametrize(
    "model", [SVC(), SVR(), KernelRidge(kernel="rbf"), GaussianProcessRegressor(), ExactGPRegressor()], ids=str
)
def test_a_model_that_is_not_fitted_is_refused(model: Any) -> None:
    with pytest.raises(InputError, match="is not fitted: fit it first"):
        rbf_expansion(model)


def test_a_search_is_asked_for_its_best_model() -> None:
    search = GridSearchCV(SVR(), {"C": [1.0, 2.0]}).fit(rows(), target(rows()))
    with pytest.raises(InputError, match="its best_estimator_"):
        rbf_expansion(search)
    assert_same(rbf_expansion(search.best_estimator_).predict(rows()), search.predict(rows()))


@pytest.mark.parametrize("model", [None, 3, SVC, np.zeros((2, 2))], ids=str)
def test_what_is_no_model_is_refused(model: Any) -> None:
    with pytest.raises(InputError, match="No kernel expansion is known of"):
        rbf_expansion(model)


def numbers(**changed: Any) -> dict[str, Any]:
    return {"vectors": np.ones((4, 2)), "coefficients": np.ones((4, 1)), "intercept": [0.0], "gamma": 1.0} | changed


BAD_NUMBERS: dict[str, tuple[dict[str, Any], str]] = {
    "gamma zero": ({"gamma": 0.0}, "gamma must be positive and finite; got 0.0"),
    "gamma negative": ({"gamma": np.array([1.0, -1.0])}, "gamma must be positive"),
    "gamma infinite": ({"gamma": np.inf}, "gamma must be positive"),
    "gamma of another length": ({"gamma": np.ones(3)}, r"one a column, shape \(2,\)"),
    "gamma text": ({"gamma": "scale"}, "gamma must be one number"),
    "no vectors": ({"vectors": np.ones((0, 2)), "coefficients": np.ones((0, 1))}, "at least one support vector"),
    "vectors in one dimension": ({"vectors": np.ones(4)}, "vectors must be a non-empty array of 2"),
    "coefficients in one dimension": ({"coefficients": np.ones(4)}, "coefficients must be a non-empty array of 2"),
    "coefficients of other vectors": ({"coefficients": np.ones((3, 1))}, r"shape \(4, 1\)"),
    "intercept of other outputs": ({"intercept": [0.0, 1.0]}, r"shape \(4, 2\)"),
    "not finite": ({"coefficients": np.full((4, 1), np.nan)}, "coefficients contains NaN"),
    "too few outputs": ({"readout": Classification(np.arange(3))}, r"needs 3 output\(s\); got 1"),
    "two outputs of one": (
        {"coefficients": np.ones((4, 2)), "intercept": [0.0, 0.0], "readout": OneClass()},
        r"needs 1 output\(s\); got 2",
    ),
}


@pytest.mark.parametrize("bad", BAD_NUMBERS)
def test_numbers_that_do_not_fit_are_refused(bad: str) -> None:
    changed, message = BAD_NUMBERS[bad]
    with pytest.raises(InputError, match=message):
        RBFExpansion(**numbers(**changed))


def test_numbers_of_any_other_model_can_be_given() -> None:
    expansion = RBFExpansion(
        **numbers(coefficients=np.ones((4, 2)), intercept=[1.0, 2.0], readout=Regression(one_dimensional=False))
    )
    np.testing.assert_allclose(expansion.predict([[1.0, 1.0]]), [[5.0, 6.0]])


@pytest.mark.parametrize(
    ("Z", "message"), [([[1.0]], "Z has 1 columns; the support vectors have 2"), ([[1.0, np.nan]], "NaN")]
)
def test_rows_that_do_not_fit_are_refused(Z: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RBFExpansion(**numbers()).predict(Z)
