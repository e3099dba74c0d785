"""The quadratic approximation, and what all approximations share, against the exact models."""

import pickle
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn import config_context
from sklearn.base import clone, is_classifier, is_outlier_detector, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import accuracy_score, get_scorer, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, OneClassSVM

from lmgp.errors import InputError, ValidityWarning
from lmgp.rbf import RBFExpansion, Regression, rbf_expansion
from lmgp.rbf.approximation import ApproximateRBF, QuadraticRBF, TaylorRBF
from lmgp.rbf.validity import PAPER_TOLERANCE, gamma_max

Floats = NDArray[np.float64]
BOTH = pytest.mark.parametrize("cls", [QuadraticRBF, TaylorRBF])


def rows(n: int = 200, d: int = 4, seed: int = 0) -> Floats:
    return np.random.default_rng(seed).uniform(-1, 1, size=(n, d))


def classifier(n_classes: int = 2, d: int = 4, **parameters: Any) -> SVC:
    X = rows(d=d)
    return SVC(**{"gamma": gamma_max(X), "C": 30.0} | parameters).fit(X, labels(n_classes, d))


def labels(n_classes: int = 2, d: int = 4) -> NDArray[np.int64]:
    X = rows(d=d)
    return np.digitize(X[:, 0] + X[:, -1] ** 2, [0.3, 0.9][: n_classes - 1])


def made_up(d: int = 3, n_outputs: int = 1, gamma: Any = 0.1, n: int = 20) -> RBFExpansion:
    rng = np.random.default_rng(5)
    coefficients, intercept = rng.standard_normal((n, n_outputs)), rng.standard_normal(n_outputs)
    return RBFExpansion(rng.standard_normal((n, d)), coefficients, intercept, gamma, Regression(n_outputs == 1))


def literal(expansion: RBFExpansion, Z: Floats, center: Floats) -> Floats:
    """Eq. 3.7 and 3.8, in loops."""
    gamma = np.broadcast_to(expansion.gamma, center.shape)
    outputs = np.empty((len(Z), len(expansion.intercept)))
    for row, z in enumerate(Z - center):
        for output, b in enumerate(expansion.intercept):
            total = 0.0
            for x, alpha in zip(expansion.vectors - center, expansion.coefficients[:, output], strict=True):
                inner = sum(gamma[j] * x[j] * z[j] for j in range(len(z)))
                norm = sum(gamma[j] * x[j] ** 2 for j in range(len(z)))
                total += alpha * np.exp(-norm) * (1 + 2 * inner + 2 * inner**2)
            outputs[row, output] = np.exp(-sum(gamma[j] * z[j] ** 2 for j in range(len(z)))) * total + b
    return outputs


@pytest.mark.parametrize("center", ["origin", "mean", [0.5, -0.1, 2.0]], ids=str)
@pytest.mark.parametrize("gamma", [0.1, np.array([0.05, 0.3, 1.0])], ids=["isotropic", "ard"])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_it_is_the_formula_of_the_paper_and_taylor_of_degree_two(center: Any, gamma: Any, n_outputs: int) -> None:
    expansion, Z = made_up(gamma=gamma, n_outputs=n_outputs), 2 * rows(9, 3)
    point = {"origin": np.zeros(3), "mean": expansion.vectors.mean(axis=0)}.get(str(center), center)
    expected = literal(expansion, Z, np.asarray(point))
    for model in (
        QuadraticRBF.from_estimator(expansion, center=center),
        TaylorRBF.from_estimator(expansion, degree=2, center=center),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ValidityWarning)
            found = model.predict(Z).reshape(expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


def test_the_point_of_expansion_is_known() -> None:
    expansion = made_up()
    for cls in (QuadraticRBF, TaylorRBF):
        model = cls.from_estimator(expansion, center="mean")
        np.testing.assert_allclose(model.expansion_point_, expansion.vectors.mean(axis=0), rtol=1e-12)
        assert not hasattr(model, "center_")  # that is the mean of y, of regressors
    assert not hasattr(TaylorRBF.from_estimator(expansion, 2, threshold=0.5), "expansion_point_")


def test_its_attributes_are_value_gradient_and_half_the_hessian() -> None:
    expansion = made_up(gamma=0.2, n_outputs=2)
    model = QuadraticRBF.from_estimator(expansion, center="mean")
    x, alpha = expansion.vectors - expansion.vectors.mean(axis=0), expansion.coefficients
    w = alpha * np.exp(-0.2 * (x**2).sum(axis=1))[:, None]
    np.testing.assert_allclose(model.c_, w.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(model.v_, 0.4 * w.T @ x, rtol=1e-12)
    np.testing.assert_allclose(model.M_, 0.08 * np.einsum("io,ij,ik->ojk", w, x, x), rtol=1e-12, atol=1e-14)
    assert model.M_.shape == (2, 3, 3)


def test_the_mask_is_the_bound_of_the_paper() -> None:
    svc = classifier(gamma=0.5)
    Z = np.concatenate((rows(seed=1), 0.2 * rows(seed=2)))
    model = QuadraticRBF.from_estimator(svc)
    with pytest.warns(ValidityWarning):
        _, valid = model.predict(Z, return_valid=True)
    largest = (svc.support_vectors_**2).sum(axis=1).max()
    assert model.radius_ / np.sqrt(2 * 0.5) == pytest.approx(1 / (4 * 0.5 * np.sqrt(largest)), rel=1e-12)
    assert TaylorRBF.from_estimator(svc, 2).radius_ == pytest.approx(model.radius_, rel=1e-12)
    np.testing.assert_array_equal(valid, largest * (Z**2).sum(axis=1) < 1 / (16 * 0.5**2))
    assert 0 < valid.sum() < len(Z)


def test_each_term_errs_less_than_the_tolerance_within_the_bound_and_more_beyond_it() -> None:
    rng = np.random.default_rng(0)
    gamma, d, worst = 0.3, 4, 0.0
    for _ in range(50):
        x = rng.standard_normal((1, d)) * rng.uniform(0.1, 3)
        directions = np.concatenate((rng.standard_normal((40, d)), x, -x))
        directions /= np.linalg.norm(directions, axis=1)[:, None]
        model = QuadraticRBF.from_estimator(RBFExpansion(x, np.ones((1, 1)), np.zeros(1), gamma))
        Z = 0.9999999 * directions / (4 * gamma * np.linalg.norm(x))
        found, valid = model.predict(Z, return_valid=True)
        assert valid.all()
        error = np.abs(found / np.exp(-gamma * ((Z - x) ** 2).sum(axis=1)) - 1)
        assert error.max() <= PAPER_TOLERANCE
        assert error.argmax() == len(Z) - 1  # against x
        worst = max(worst, error.max())
        with pytest.warns(ValidityWarning):
            beyond = model.predict(1.1 * Z)
        assert np.abs(beyond / np.exp(-gamma * ((1.1 * Z - x) ** 2).sum(axis=1)) - 1).max() > PAPER_TOLERANCE
    assert worst == pytest.approx(PAPER_TOLERANCE, rel=1e-5)


@BOTH
@pytest.mark.parametrize("shape", ["ovr", "ovo"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_within_the_bound_hardly_a_label_changes(cls: type, n_classes: int, shape: str) -> None:
    svc, Z = classifier(n_classes, decision_function_shape=shape), rows(1000, seed=3)
    model = cls.from_estimator(svc)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)  # rows beyond all of the training
        labels, valid = model.predict(Z, return_valid=True)
        values = model.decision_function(Z)
    assert valid.mean() > 0.95
    assert np.mean(labels[valid] != svc.predict(Z)[valid]) < 0.02
    np.testing.assert_array_equal(model.classes_, svc.classes_)
    exact = svc.decision_function(Z)
    assert values.shape == exact.shape
    near = np.abs(values - exact) < 0.05 * np.abs(exact).max()
    assert near.mean() > 0.95


def test_labels_of_any_kind_come_back() -> None:
    X = rows()
    svc = SVC(gamma=gamma_max(X), C=100.0).fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    assert set(QuadraticRBF.from_estimator(svc).predict(X)) == {"yes", "no"}


def test_an_outlier_detector_stays_one() -> None:
    X = rows()
    exact = OneClassSVM(gamma=gamma_max(X), nu=0.2).fit(X)
    model = QuadraticRBF.from_estimator(exact)
    found, valid = model.predict(X, return_valid=True)
    assert valid.all()  # at gamma_max itself, too
    assert set(found) == {-1, 1}
    assert np.mean(found != exact.predict(X)) < 0.05
    # Each term errs by at most 3.05%, and no term is above its coefficient.
    largest = PAPER_TOLERANCE * exact.dual_coef_.sum()
    np.testing.assert_allclose(model.decision_function(X), exact.decision_function(X), rtol=0, atol=largest)


def test_regressors_have_no_decision_function() -> None:
    model = QuadraticRBF.from_estimator(made_up())
    with pytest.raises(AttributeError, match="decision_function"):
        model.decision_function(np.zeros((1, 3)))


def test_scikit_learn_takes_it_for_what_its_model_is() -> None:
    X, svc = rows(), classifier()
    y = svc.predict(X)
    fast = QuadraticRBF.from_estimator(svc)
    assert is_classifier(fast)
    assert get_scorer("roc_auc")(fast, X, y) > 0.99
    assert is_regressor(QuadraticRBF.from_estimator(made_up()))
    assert is_outlier_detector(QuadraticRBF.from_estimator(OneClassSVM(gamma=0.01).fit(X)))


@pytest.mark.parametrize("d", [1, 3])
def test_gaussian_processes_with_a_lengthscale_a_column_and_several_targets(d: int) -> None:
    X = rows(60, d)
    Y = np.stack((np.sin(X[:, 0]), 50 + X.sum(axis=1)), axis=1)
    gp = GaussianProcessRegressor(RBF(np.linspace(3.0, 5.0, d)), alpha=1.0, optimizer=None, normalize_y=True).fit(X, Y)
    model = QuadraticRBF.from_estimator(gp, center="mean")
    found, valid = model.predict(X, return_valid=True)
    assert valid.all()
    assert found.shape == (60, 2)
    # Each term errs by at most 3.05%.
    terms = np.abs(rbf_expansion(gp).coefficients).sum(axis=0)
    assert np.all(np.abs(found - gp.predict(X)) <= PAPER_TOLERANCE * terms)


def test_one_support_vector_at_the_centre_is_exact_everywhere() -> None:
    bump = RBFExpansion(np.array([[1.0, 2.0]]), np.array([[3.0]]), np.array([0.5]), 0.7)
    Z = 5 * rows(50, 2)
    for model in (QuadraticRBF.from_estimator(bump, center="mean"), TaylorRBF.from_estimator(bump, 0, center="mean")):
        found, valid = model.predict(Z, return_valid=True)
        assert valid.all()
        np.testing.assert_allclose(found, bump.predict(Z), rtol=1e-12)


def test_moving_the_data_and_the_centre_together_changes_nothing() -> None:
    expansion, Z = made_up(gamma=0.01), rows(20, 3)
    moved = RBFExpansion(expansion.vectors + 1e3, expansion.coefficients, expansion.intercept, expansion.gamma)
    for cls in (QuadraticRBF, TaylorRBF):
        expected = cls.from_estimator(expansion, center="mean").predict(Z)
        np.testing.assert_allclose(cls.from_estimator(moved, center="mean").predict(Z + 1e3), expected, rtol=1e-9)


@BOTH
def test_the_layout_and_the_type_of_the_rows_do_not_matter(cls: type) -> None:
    model = cls.from_estimator(classifier())
    X = np.round(rows(30), 2)
    expected = model.decision_function(X)
    np.testing.assert_array_equal(model.decision_function(X.tolist()), expected)
    np.testing.assert_allclose(model.decision_function(np.asfortranarray(X)), expected, rtol=1e-12, atol=1e-12)
    single = X.astype(np.float32)
    np.testing.assert_array_equal(model.decision_function(single), model.decision_function(single.astype(float)))
    assert model.decision_function(single).dtype == np.float64


@BOTH
@pytest.mark.parametrize(
    ("Z", "message"),
    [
        (np.zeros((2, 3)), "X has 3 features, but .* is expecting 4 features"),
        (np.full((1, 4), np.nan), "NaN"),
        (np.full((1, 4), np.inf), "infinity"),
        (np.zeros(4), "Expected 2D array"),
        (np.zeros((0, 4)), "0 sample"),
        ([["a"] * 4], "could not convert string"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(cls: type, Z: Any, message: str) -> None:
    model = cls.from_estimator(classifier())
    for method in (model.predict, model.decision_function):
        with pytest.raises(ValueError, match=message):
            method(Z)


@BOTH
def test_every_prediction_beyond_the_bound_warns_and_says_what_to_do(cls: type) -> None:
    model = cls.from_estimator(classifier())
    Z = np.concatenate((np.zeros((3, 4)), np.full((2, 4), 9.0)))
    for _ in range(2):
        for call in (lambda: model.predict(Z), lambda: model.decision_function(Z, return_valid=True)):
            with pytest.warns(
                ValidityWarning, match=r"2 of 5 rows are outside the bound.*gamma_max\(X, center=.*degree"
            ) as caught:
                call()
            assert len(caught) == 1
            assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.predict(Z[:3], return_valid=True)[1].all()


@BOTH
def test_rows_far_away_get_the_intercept(cls: type) -> None:
    expansion = made_up()
    with pytest.warns(ValidityWarning):
        found = cls.from_estimator(expansion).predict(np.array([[1e3, 0.0, 0.0], [1e200, -1e200, 1.0]]))
    np.testing.assert_allclose(found, expansion.intercept[0] * np.ones(2), rtol=1e-12)


@BOTH
def test_many_rows_take_chunks(cls: type, monkeypatch: pytest.MonkeyPatch) -> None:
    model, Z = cls.from_estimator(classifier()), rows(100, seed=4)
    expected = model.decision_function(Z)
    monkeypatch.setattr("lmgp.utils.memory.CHUNK_BYTES", 4000)
    np.testing.assert_allclose(model.decision_function(Z), expected, rtol=1e-10, atol=1e-12)
    again = cls.from_estimator(classifier())  # in chunks of support vectors
    np.testing.assert_allclose(again.decision_function(Z), expected, rtol=1e-10, atol=1e-12)


@BOTH
def test_copies_pickle_and_repeat_to_the_last_digit(cls: type) -> None:
    svc, Z = classifier(), rows(30)
    model = cls.from_estimator(svc, center="mean")
    expected = model.decision_function(Z)
    again = clone(model).fit(rows(), labels())
    for other in (pickle.loads(pickle.dumps(model)), cls.from_estimator(svc, center="mean"), again):
        assert isinstance(other, ApproximateRBF)
        np.testing.assert_array_equal(other.decision_function(Z), expected)
    assert str(clone(model).get_params()) == str(model.get_params())
    with pytest.raises(NotFittedError, match="not fitted yet"):
        clone(model).predict(Z)


def test_what_a_model_before_had_is_gone_after_another_fit() -> None:
    model = QuadraticRBF(SVC(gamma=0.1)).fit(pd.DataFrame(rows(), columns=list("abcd")), labels())
    assert model.feature_names_in_.tolist() == list("abcd")
    model.set_params(estimator=SVR(gamma=0.1)).fit(rows(d=3), rows()[:, 0])
    assert is_regressor(model)
    assert not hasattr(model, "classes_")
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(np.zeros((2, 3))).shape == (2,)


@BOTH
def test_a_fit_that_fails_leaves_the_one_before(cls: type) -> None:
    model = cls.from_estimator(classifier())
    expected = model.decision_function(rows(20))
    with pytest.raises(InputError):
        model.set_params(center=[1.0]).fit(rows(d=3), labels(d=3))
    np.testing.assert_array_equal(model.decision_function(rows(20)), expected)


@BOTH
def test_nothing_of_the_support_vectors_is_kept(cls: type) -> None:
    X = np.random.default_rng(0).standard_normal((3000, 2))
    ridge = KernelRidge(kernel="rbf", gamma=0.01).fit(X, X[:, 0])
    model = cls.from_estimator(ridge)
    assert model.sizes.exact == 3000 * (2 + 1) + 1
    assert model.sizes.ratio == model.sizes.exact / model.sizes.approximate > 100
    assert model.sizes.n_bytes[1] == 8 * model.sizes.approximate
    assert len(pickle.dumps(model)) < model.sizes.n_bytes[1] + 2500
    kept = [getattr(model, name, None) for name in dir(model) if name.endswith("_") and not name.startswith("_")]
    assert len([value for value in kept if isinstance(value, np.ndarray)]) >= 4
    assert not any(np.shares_memory(value, X) for value in kept if isinstance(value, np.ndarray))


def test_the_numbers_of_the_quadratic_form_are_counted() -> None:
    expansion = made_up(d=5, n_outputs=3)
    # c, v, M, b and the centre; gamma and the radius.
    assert QuadraticRBF.from_estimator(expansion).sizes == (20 * (5 + 3) + 3, 3 * (1 + 5 + 25 + 1) + 5 + 2)


@pytest.mark.parametrize(
    ("center", "message"),
    [("median", "center must be 'origin'"), ([1.0, 2.0], r"shape \(3,\)"), (3.0, "parameter of QuadraticRBF")],
)
def test_a_centre_that_does_not_fit_is_refused(center: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        QuadraticRBF.from_estimator(made_up(), center=center)


def test_a_model_that_is_not_supported_is_refused() -> None:
    with pytest.raises(InputError, match="SVR has kernel='linear'"):
        QuadraticRBF.from_estimator(SVR(kernel="linear").fit(rows(20), np.arange(20)))


# -- around an estimator to fit


@BOTH
@pytest.mark.parametrize("estimator", [SVC(gamma=0.1), SVR(gamma=0.1), OneClassSVM(gamma=0.1)], ids=str)
def test_fit_approximates_what_the_estimator_would_learn(cls: type, estimator: Any) -> None:
    X, y, weights = 0.5 * rows(), labels(), np.random.default_rng(1).uniform(0.1, 3.0, 200)
    given = clone(estimator)
    model = cls(given, center="mean").fit(X, y, sample_weight=weights)
    expected = cls.from_estimator(clone(estimator).fit(X, y, sample_weight=weights), center="mean")
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    np.testing.assert_array_equal(model.gamma_, expected.gamma_)
    assert model.estimator is given
    assert not hasattr(given, "support_vectors_")
    assert expected.get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert str(expected.estimator) == str(estimator)
    assert not hasattr(expected.estimator, "support_vectors_")


@BOTH
def test_what_it_is_follows_from_the_estimator_before_a_fit(cls: type) -> None:
    assert is_classifier(cls(SVC()))
    assert is_regressor(cls(KernelRidge(kernel="rbf")))
    assert is_outlier_detector(cls(OneClassSVM()))
    assert not is_classifier(cls())
    assert hasattr(cls(SVC()), "decision_function")
    assert not hasattr(cls(SVR()), "decision_function")
    assert not hasattr(cls(OneClassSVM()), "score")


def test_scores_are_accuracy_and_r2_and_those_of_outlier_detectors() -> None:
    X, y = 0.5 * rows(), labels()
    weights = np.random.default_rng(1).uniform(0.1, 3.0, 200)
    fast = QuadraticRBF(SVC(gamma=0.1)).fit(X, y)
    assert fast.score(X, y, weights) == accuracy_score(y, fast.predict(X), sample_weight=weights)
    fast = QuadraticRBF(SVR(gamma=0.1)).fit(X, X[:, 0])
    assert fast.score(X, X[:, 0]) == r2_score(X[:, 0], fast.predict(X)) > 0.5
    exact = OneClassSVM(gamma=gamma_max(X), nu=0.2).fit(X)
    fast = QuadraticRBF.from_estimator(exact)
    assert fast.offset_ == exact.offset_
    np.testing.assert_allclose(fast.score_samples(X), fast.decision_function(X) + exact.offset_, rtol=1e-12)
    with pytest.raises(AttributeError, match="Only outlier detectors"):
        _ = QuadraticRBF(SVC(gamma=0.1)).fit(X, y).offset_


def test_a_grid_search_reaches_the_estimator_and_a_pipeline_scales_first() -> None:
    X, y = rows(), labels()
    units = np.array([1.0, 100.0, 0.01, 1.0])
    pipeline = make_pipeline(StandardScaler(), QuadraticRBF(SVC(gamma=0.05), center="mean"))
    search = GridSearchCV(pipeline, {"quadraticrbf__estimator__C": [1e-3, 30.0]}, cv=3, error_score="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ValidityWarning)
        assert search.fit(X * units, y).best_params_ == {"quadraticrbf__estimator__C": 30.0}
        assert search.score(X * units, y) > 0.9


def test_weights_are_routed_to_the_estimator() -> None:
    X, y, weights = 0.5 * rows(), labels(), np.random.default_rng(1).uniform(0.0, 3.0, 200)
    expected = QuadraticRBF(SVC(gamma=0.1)).fit(X, y, sample_weight=weights).decision_function(X)
    with config_context(enable_metadata_routing=True):
        model = QuadraticRBF(SVC(gamma=0.1).set_fit_request(sample_weight=True))
        scaler = StandardScaler(with_mean=False, with_std=False).set_fit_request(sample_weight=False)
        pipeline = make_pipeline(scaler, model)
        found = pipeline.fit(X, y, sample_weight=weights).decision_function(X)
    np.testing.assert_array_equal(found, expected)


@BOTH
def test_sparse_rows_are_predicted_as_dense_ones(cls: type) -> None:
    X = rows() * (rows(seed=7) > 0)
    dense = cls(SVC(gamma=0.1)).fit(X, labels())
    sparse = cls(SVC(gamma=0.1)).fit(csr_array(X), labels())
    np.testing.assert_allclose(sparse.decision_function(csr_array(X)), dense.decision_function(X), rtol=1e-7, atol=1e-9)


@BOTH
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda cls: cls().fit(rows(), labels()), r"has no estimator to fit.*from_estimator"),
        (lambda cls: cls(SVC()).fit(classifier()), r"takes rows X and targets y; got SVC.*\.from_estimator"),
        (lambda cls: cls(SVC()).fit("a.model"), r"got str\. For a model that is fitted, or a file"),
        (lambda cls: cls(SVC(kernel="linear")).fit(rows(), labels()), "SVC has kernel='linear'"),
        (lambda cls: cls(make_pipeline(SVC())).fit(rows(), labels()), "model itself; got a Pipeline. Put the approx"),
        (lambda cls: cls(GridSearchCV(SVC(), {})).fit(rows(), labels()), "itself; got a GridSearchCV"),
        (lambda cls: cls(StandardScaler()).fit(rows(), labels()), "'estimator' parameter of .*'fit' and 'predict'"),
    ],
)
def test_what_cannot_be_fitted_is_refused(cls: type, make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(cls)
