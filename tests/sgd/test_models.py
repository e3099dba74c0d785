"""Kernel SGD: that six strategies are two functions, that these are the right ones, and what is refused."""

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array, random_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import Nystroem, PolynomialCountSketch
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import LinearSVC

from lmgp import ExponentialKernel, GaussianKernel, LinearKernel, ModulatedKernel, RandomFourierFeatures, TaylorFeatures
from lmgp.errors import InputError, MemoryLimitError, NumericalError
from lmgp.features.composition import exact_features
from lmgp.sgd.functions import STRATEGIES
from lmgp.sgd.models import LOSSES, SCHEDULES, KernelSGD, KernelSGDClassifier, KernelSGDRegressor, row_order

Floats = NDArray[np.float64]

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 3))
NEW = rng.standard_normal((20, 3))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 3.0
LABELS = np.array(["low", "middle", "high"])[np.digitize(X[:, 0] + 0.3 * rng.standard_normal(60), [-0.5, 0.5])]


def damping(rows: Floats) -> Floats:
    return 1.0 / (1.0 + np.square(rows).sum(axis=1))


FINITE = ModulatedKernel((LinearKernel() + LinearKernel() * LinearKernel()) * LinearKernel(np.diag([1, 2, 3])), damping)


# ------------------------------------------------------------------------------------------ six ways, the same function


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "regularization"),
    [(schedule, size) for schedule in SCHEDULES for size in (0.0, 1e-3, 0.5) if (schedule, size) != ("pegasos", 0.0)],
)
@pytest.mark.parametrize("loss", LOSSES)
def test_strategies_of_one_model_end_in_the_same_function(schedule: str, regularization: float, loss: str) -> None:
    options = {
        "schedule": schedule,
        "regularization": regularization,
        "step_size": 0.2,
        "n_steps": 80,
        "random_state": 4,
    }
    for labels in (LABELS, LABELS == "high"):
        for strategies in (STRATEGIES[:4], STRATEGIES[4:]):
            kernel = FINITE if "kernel" in strategies else None
            fits = [KernelSGDClassifier(kernel, strategy=s, loss=loss, **options).fit(X, labels) for s in strategies]
            first, *others = (fitted.decision_function(NEW) for fitted in fits)
            for other in others:
                np.testing.assert_allclose(other, first, rtol=1e-8, atol=1e-8 * np.abs(first).max())


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["constant", "inverse_sqrt", "pegasos"])
@pytest.mark.parametrize("n_steps", [1, 60, 61, 300])
def test_regressors_of_one_model_end_in_the_same_function(schedule: str, n_steps: int) -> None:
    options = {"schedule": schedule, "n_steps": n_steps, "regularization": 0.01, "step_size": 0.2, "random_state": 4}
    for strategies in (STRATEGIES[:4], STRATEGIES[4:]):
        kernel = FINITE if "kernel" in strategies else GaussianKernel([1.0, 2.0, 0.5], 1.5)
        first, *others = (KernelSGDRegressor(kernel, strategy=s, **options).fit(X, Y).predict(NEW) for s in strategies)
        for other in others:
            np.testing.assert_allclose(other, first, rtol=1e-8)


def test_approximate_features_come_near_the_kernel_itself() -> None:
    exact = KernelSGDRegressor(GaussianKernel(2.0), strategy="kernel", random_state=1).fit(X, Y).predict(NEW)
    near = [
        KernelSGDRegressor(GaussianKernel(2.0), features=RandomFourierFeatures(D), random_state=1)
        .fit(X, Y)
        .predict(NEW)
        for D in (32, 8192)
    ]
    error = [np.sqrt(np.mean((found - exact) ** 2)) for found in near]
    assert error[1] < 0.03
    assert error[1] < 0.2 * error[0]


@pytest.mark.parametrize(
    "kernel", [RBF(0.7), lambda X, Z: rbf_kernel(X, Z, gamma=0.5 / 0.7**2)], ids=["gp", "function"]
)
@pytest.mark.parametrize("strategy", ["kernel", "kernel_cached"])
def test_any_callable_is_a_kernel(kernel: Any, strategy: str) -> None:
    found = KernelSGDRegressor(kernel, strategy=strategy, random_state=0).fit(X, Y).predict(NEW)
    expected = KernelSGDRegressor(GaussianKernel(0.7), strategy=strategy, random_state=0).fit(X, Y).predict(NEW)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


@pytest.mark.parametrize("strategy", ["kernel", "kernel_cached"])
def test_a_kernel_may_make_sparse_rows(strategy: str) -> None:
    def tent(X: Floats, Z: Floats) -> Floats:
        return np.maximum(0.0, 1.0 - np.abs(X[:, None] - Z)).prod(axis=2)

    found, expected = (
        KernelSGDRegressor(kernel, strategy=strategy, random_state=0).fit(X, Y).predict(NEW)
        for kernel in (lambda X, Z: csr_array(tent(X, Z)), tent)
    )
    np.testing.assert_array_equal(found, expected)


# ------------------------------------------------------------------------------------------------------ the right steps


@pytest.mark.parametrize("schedule", ["constant", "inverse_sqrt", "pegasos"])
def test_steps_are_those_of_the_formula(schedule: str) -> None:
    n_steps, lam = 150, 0.1
    model = KernelSGDClassifier(
        FINITE,
        strategy="kernel",
        schedule=schedule,
        loss="logistic",
        regularization=lam,
        n_steps=n_steps,
        random_state=7,
    ).fit(X, LABELS == "high")
    order = list(
        row_order(60, n_steps, np.random.default_rng(np.random.default_rng(7).integers(2**63, size=(2, 4))[0]))
    )
    assert len(order) == n_steps == model.n_steps_
    assert sorted(order[:60]) == sorted(order[60:120]) == list(range(60))
    assert order[:60] != order[60:120]
    K, u, y = FINITE(X), np.zeros(60), np.where(LABELS == "high", 1.0, -1.0)
    for t, i in enumerate(order, start=1):
        alpha = {"constant": 1.0, "inverse_sqrt": 1.0 / np.sqrt(t), "pegasos": 1.0 / (lam * t)}[schedule]
        slope = -y[i] / (1.0 + np.exp(y[i] * (u @ K[i])))
        u = (1.0 - alpha * lam) * u
        u[i] -= alpha * slope
        if schedule == "pegasos":
            u *= min(1.0, 1.0 / np.sqrt(lam * (u @ K @ u)))
    np.testing.assert_allclose(model.decision_function(NEW), FINITE(NEW, X) @ u, rtol=1e-9, atol=1e-12)
    assert sorted(model.support_) == sorted(np.flatnonzero(u))


@pytest.mark.slow
def test_classes_against_the_rest_share_their_order() -> None:
    together = KernelSGDClassifier(FINITE, strategy="kernel", random_state=3).fit(X, LABELS)
    decision = together.decision_function(NEW)
    assert decision.shape == (20, 3)
    for k, name in enumerate(together.classes_):
        alone = KernelSGDClassifier(FINITE, strategy="kernel", random_state=3).fit(X, name == LABELS)
        np.testing.assert_allclose(alone.decision_function(NEW), decision[:, k], rtol=1e-10)
    np.testing.assert_array_equal(together.predict(NEW), together.classes_[decision.argmax(axis=1)])


# ------------------------------------------------------------------------------------------------- independent solvers


def test_squared_loss_comes_to_kernel_ridge_regression() -> None:
    lam, n = 0.05, 30
    model = KernelSGDRegressor(
        GaussianKernel(1.5),
        strategy="kernel_cached",
        schedule="constant",
        step_size=0.002,
        regularization=lam,
        n_steps=1000 * n,
        random_state=0,
    ).fit(X[:n], Y[:n])
    ridge = KernelRidge(alpha=n * lam, kernel="rbf", gamma=0.5 / 1.5**2).fit(X[:n], Y[:n] - Y[:n].mean())
    np.testing.assert_allclose(model.predict(NEW), ridge.predict(NEW) + Y[:n].mean(), atol=5e-3)


def objective(w: Floats, phi: Floats, y: Floats, lam: float, loss: str) -> float:
    margin = y * (phi @ w)
    losses = {"hinge": np.maximum(0.0, 1.0 - margin), "logistic": np.logaddexp(0.0, -margin)}
    return float(losses[loss].mean() + 0.5 * lam * w @ w)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_pegasos_comes_to_the_minimum_of_a_linear_solver(loss: str) -> None:
    lam, labels = 0.05, LABELS == "high"
    y = np.where(labels, 1.0, -1.0)
    model = KernelSGDClassifier(
        FINITE,
        strategy="features_cached",
        schedule="pegasos",
        loss=loss,
        regularization=lam,
        n_steps=30_000,
        random_state=0,
    ).fit(X, labels)
    phi = exact_features(FINITE).fit_transform(X)
    C = 1.0 / (60 * lam)
    solver = (
        LinearSVC(C=C, loss="hinge", fit_intercept=False, tol=1e-8, max_iter=1_000_000, random_state=0)
        if loss == "hinge"
        else LogisticRegression(C=C, fit_intercept=False, tol=1e-10, max_iter=10_000)
    ).fit(phi, labels)
    best = objective(solver.coef_[0], phi, y, lam, loss)
    assert best < 0.9 * objective(np.zeros(phi.shape[1]), phi, y, lam, loss)
    # Never below the minimum, and within half a per cent of it.
    assert best - 1e-6 < objective(model.coef_[0], phi, y, lam, loss) < 1.005 * best


# ----------------------------------------------------------------------------------------------------------- estimators


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_fits_are_deterministic_and_pickle_and_clone(strategy: str) -> None:
    model = KernelSGDRegressor(LinearKernel() if "features" in strategy else None, strategy=strategy, random_state=0)
    expected = model.fit(X, Y).predict(NEW)
    np.testing.assert_array_equal(clone(model).fit(X, Y).predict(NEW), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(NEW), expected)
    for seed in (np.random.default_rng(5), np.random.RandomState(5)):
        again = clone(model).set_params(random_state=seed)
        assert not np.array_equal(again.fit(X, Y).predict(NEW), expected)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_learned_attributes_are_those_of_the_strategy(strategy: str) -> None:
    kernel = LinearKernel() if "features" in strategy else GaussianKernel()
    fitted = KernelSGDClassifier(kernel, strategy=strategy, random_state=0).fit(X, LABELS)
    assert fitted.classes_.tolist() == ["high", "low", "middle"]
    assert fitted.n_steps_ == 600
    if strategy.startswith("kernel"):
        assert not hasattr(fitted, "coef_")
        assert fitted.dual_coef_.shape == (3, len(fitted.support_))
        np.testing.assert_array_equal(fitted.support_vectors_, X[fitted.support_])
        by_hand = fitted.kernel_(NEW, fitted.support_vectors_) @ fitted.dual_coef_.T
    else:
        assert not hasattr(fitted, "dual_coef_")
        by_hand = fitted.features_.transform(NEW) @ fitted.coef_.T
    np.testing.assert_allclose(fitted.decision_function(NEW), by_hand, rtol=1e-10)


def test_a_second_fit_forgets_the_first() -> None:
    model = KernelSGDRegressor(strategy="kernel", random_state=0).fit(X, Y)
    model.set_params(strategy="approximate").fit(X, Y)
    assert not hasattr(model, "dual_coef_")
    model.set_params(strategy="kernel_cached").fit(X, Y)
    assert not hasattr(model, "coef_")
    expected = model.predict(NEW)
    with pytest.raises(InputError):
        model.set_params(strategy="features").fit(X[:, :2], Y)
    np.testing.assert_array_equal(model.predict(NEW), expected)  # a fit that fails changes nothing


def test_rows_that_were_never_needed_are_not_kept() -> None:
    fitted = KernelSGDClassifier(strategy="kernel", n_steps=7, random_state=0).fit(X, LABELS == "high")
    assert len(fitted.support_) <= 7
    constant = KernelSGDRegressor(strategy="kernel", random_state=0).fit(X, np.full(60, 4.0))
    np.testing.assert_array_equal(constant.predict(NEW), np.full(20, 4.0))
    np.testing.assert_array_equal(
        KernelSGDRegressor(schedule="pegasos", random_state=0).fit(X, np.full(60, 4.0)).predict(NEW), np.full(20, 4.0)
    )


@pytest.mark.parametrize("labels", [LABELS, LABELS == "high"], ids=["three", "two"])
def test_probabilities_are_for_the_logistic_loss(labels: NDArray[Any]) -> None:
    fitted = KernelSGDClassifier(loss="logistic", random_state=0).fit(X, labels)
    probabilities, decision = fitted.predict_proba(NEW), fitted.decision_function(NEW)
    expected = 1.0 / (1.0 + np.exp(-decision))
    if decision.ndim == 1:
        np.testing.assert_allclose(probabilities, np.stack((1.0 - expected, expected), axis=1), rtol=1e-12)
    else:
        np.testing.assert_allclose(probabilities, expected / expected.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_array_equal(fitted.classes_[probabilities.argmax(axis=1)], fitted.predict(NEW))
    for loss in ("hinge", "squared"):
        assert not hasattr(KernelSGDClassifier(loss=loss), "predict_proba")


def test_serves_in_a_pipeline_and_a_grid_search() -> None:
    search = GridSearchCV(
        make_pipeline(StandardScaler(), KernelSGDRegressor(GaussianKernel(), strategy="kernel", random_state=0)),
        {"kernelsgdregressor__kernel__lengthscale": [0.05, 2.0]},
        cv=3,
    ).fit(X, Y)
    assert search.best_params_ == {"kernelsgdregressor__kernel__lengthscale": 2.0}
    assert search.best_score_ > 0.8


# ---------------------------------------------------------------------------------------------------------- sparse rows


SPARSE = random_array((50, 8), density=0.3, format="csr", rng=np.random.default_rng(5))
TARGET = SPARSE.toarray()[:, 0] - 2.0 * SPARSE.toarray()[:, 3]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES[4:])
@pytest.mark.parametrize(
    "features",
    [PolynomialFeatures(2), PolynomialCountSketch(n_components=30, random_state=0), TaylorFeatures(degree=3)],
    ids=["poly", "sketch", "taylor"],
)
def test_sparse_rows_give_the_function_of_dense_ones(strategy: str, features: Any) -> None:
    model = KernelSGDRegressor(features=features, strategy=strategy, step_size=0.1, n_steps=120, random_state=0)
    expected = clone(model).fit(SPARSE.toarray(), TARGET).predict(SPARSE.toarray())
    for layout in (SPARSE, SPARSE.tocsc(), SPARSE.tocoo()):
        fitted = clone(model).fit(layout, TARGET)
        np.testing.assert_allclose(fitted.predict(layout), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"strategy": "kernel"},
        {"strategy": "kernel_cached"},
        {"strategy": "features", "kernel": LinearKernel()},
        {"features": RandomFourierFeatures(8)},
        {"strategy": "kernel", "features": PolynomialFeatures(2)},
    ],
)
def test_sparse_rows_are_refused_by_strategies_that_need_dense_ones(options: dict[str, Any]) -> None:
    message = r"takes dense rows only; got a sparse matrix\. Use OneHotEncoder\(sparse_output=False\), X\.toarray"
    model = KernelSGDRegressor(**options)
    with pytest.raises(InputError, match=message):
        model.fit(SPARSE, TARGET)
    model.fit(SPARSE.toarray(), TARGET)
    with pytest.raises(InputError, match=message):
        model.predict(SPARSE)


# ---------------------------------------------------------------------------------------------------------------- input


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "rbf"}, "The 'kernel' parameter"),
        ({"features": "fourier"}, "The 'features' parameter"),
        ({"strategy": "fast"}, "The 'strategy' parameter"),
        ({"loss": "absolute"}, "The 'loss' parameter"),
        ({"schedule": "linear"}, "The 'schedule' parameter"),
        ({"regularization": -1.0}, "The 'regularization' parameter"),
        ({"step_size": 0.0}, "The 'step_size' parameter"),
        ({"step_size": np.nan}, "The 'step_size' parameter"),
        ({"n_steps": 0}, "The 'n_steps' parameter"),
        ({"n_steps": 2.5}, "The 'n_steps' parameter"),
        ({"max_memory_gib": 0}, "The 'max_memory_gib' parameter"),
        ({"schedule": "pegasos", "regularization": 0.0}, "regularization must be positive"),
        (
            {"strategy": "features"},
            "GaussianKernel.* has no finite feature map; approximate it: strategy 'approximate'",
        ),
        ({"strategy": "features", "kernel": ExponentialKernel(LinearKernel())}, "no finite feature map"),
        ({"kernel": LinearKernel()}, "random Fourier features .* got LinearKernel.*Give features="),
        (
            {"kernel": LinearKernel(), "features": RandomFourierFeatures()},
            "RandomFourierFeatures needs a draw of frequencies",
        ),
        ({"kernel": GaussianKernel(-1.0), "strategy": "kernel"}, "lengthscale must be positive"),
        ({"kernel": GaussianKernel, "strategy": "kernel"}, "expected numbers, shape"),
        ({"kernel": 1e200 * LinearKernel() * LinearKernel() * 1e200, "strategy": "kernel"}, "not all finite: scale"),
    ],
    ids=str,
)
@pytest.mark.parametrize("cls", [KernelSGDRegressor, KernelSGDClassifier])
def test_parameters_that_cannot_be_used_are_refused(
    cls: type[KernelSGD], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        cls(**options).fit(X, Y > 3.0)


@pytest.mark.parametrize("strategy", ["features", "kernel_cached"])
@pytest.mark.parametrize("schedule", ["constant", "inverse_sqrt"])
def test_divergence_is_reported(strategy: str, schedule: str) -> None:
    model = KernelSGDRegressor(LinearKernel(), strategy=strategy, schedule=schedule, step_size=1e4)
    with pytest.raises(
        NumericalError, match=r"KernelSGDRegressor diverged at step \d+ of 600.*Use a smaller step_size"
    ):
        model.fit(X, Y)


def test_memory_above_the_limit_is_refused() -> None:
    with pytest.raises(
        MemoryLimitError,
        match=r"60 rows of 512 columns that strategy='approximate_cached' stores .*Use strategy='approximate',",
    ):
        KernelSGDRegressor(max_memory_gib=(60 * 512 * 8 - 1) / 2**30).fit(X, Y)


def test_targets_and_rows_that_cannot_be_used_are_refused() -> None:
    with pytest.raises(InputError, match="at least two classes; got one class: a"):
        KernelSGDClassifier().fit(X, np.full(60, "a"))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        KernelSGDClassifier().fit(X, Y)
    for bad, message in (
        (X * np.nan, "NaN"),
        (X[:, 0], "Expected 2D array"),
        (X[:5], "inconsistent numbers of samples"),
    ):
        with pytest.raises(ValueError, match=message):
            KernelSGDRegressor().fit(bad, Y)
    with pytest.raises(ValueError, match="y contains NaN"):
        KernelSGDRegressor().fit(X, Y * np.nan)
    fitted = KernelSGDRegressor(random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match="X has 2 features, but KernelSGDRegressor is expecting 3"):
        fitted.predict(X[:, :2])
    with pytest.raises(NotFittedError, match="not fitted yet"):
        KernelSGDRegressor().predict(X)


def test_transformers_serve_as_approximate_maps() -> None:
    for features in (Nystroem(gamma=0.1, n_components=40), TaylorFeatures(120, kernel=GaussianKernel(2.0))):
        model = KernelSGDRegressor(features=features, random_state=0)
        assert model.fit(X, Y).score(X, Y) > 0.8
        np.testing.assert_array_equal(clone(model).fit(X, Y).predict(NEW), model.predict(NEW))


@pytest.mark.parametrize("cls", [KernelSGDClassifier, KernelSGDRegressor])
def test_a_path_without_targets_is_refused_in_words(cls: Any) -> None:
    with pytest.raises(InputError, match=r"X must be a table of numbers.*got 'rows\.parquet'\. Read a file"):
        cls().fit("rows.parquet")
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        cls().fit([[1.0, 2.0], [2.0, 3.0]])
