"""Any scikit-learn transformer as a feature map of a regressor."""

import warnings
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestRegressor
from sklearn.kernel_approximation import AdditiveChi2Sampler, Nystroem, RBFSampler
from sklearn.linear_model import Ridge
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures, SplineTransformer, StandardScaler

from lmgp import (
    FeaturizedGPRegressor,
    GaussianKernel,
    MaternKernel,
    NystroemFeatures,
    OptimizedMaclaurinFeatures,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    RationalQuadraticKernel,
    TaylorFeatures,
)
from lmgp.errors import InputError, KernelWarning
from lmgp.features.adapter import TransformerFeatures, make_feature_map
from lmgp.features.composition import CraftFeatures, ModulatedFeatures

Floats = NDArray[np.float64]
NOISE = 0.05
VARIANCE = 1.7


def data(n: int = 60, d: int = 2, seed: int = 0) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(1.0, 4.0, (n, d))
    return X, 3.0 + np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(n)


def regressor(features: Any, **parameters: Any) -> FeaturizedGPRegressor:
    parameters = {"kernel": GaussianKernel(0.8, VARIANCE), "noise_variance": NOISE, "random_state": 0} | parameters
    return FeaturizedGPRegressor(features, **parameters)


def by_hand(columns: Floats, test_columns: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Mean and variance of Bayesian linear regression on columns times σ, in the n × n form."""
    kernel = VARIANCE * columns @ columns.T + NOISE * np.eye(len(y))
    cross = VARIANCE * test_columns @ columns.T
    mean = y.mean() + cross @ np.linalg.solve(kernel, y - y.mean())
    prior = VARIANCE * np.square(test_columns).sum(axis=1)
    return mean, prior - np.sum(cross * np.linalg.solve(kernel, cross.T).T, axis=1)


class Rows(TransformerMixin, BaseEstimator):
    """Gives back what `make` makes of the rows; counts what it was fitted to."""

    def __init__(self, make: Any = None) -> None:
        self.make = make

    def fit(self, X: Floats, y: object = None) -> "Rows":
        self.seen_ = X.copy()
        return self

    def transform(self, X: Floats) -> Any:
        return X if self.make is None else self.make(X)


# ---------------------------------------------------------------------------------------------------------- predictions


DENSE = {
    "function": FunctionTransformer(np.sqrt),
    "polynomial": PolynomialFeatures(2),
    "rbf_sampler": RBFSampler(gamma=0.8, n_components=30, random_state=1),
    "chi2": AdditiveChi2Sampler(),
    "pipeline": make_pipeline(StandardScaler(), RBFSampler(n_components=20, random_state=1)),
    "union": FeatureUnion([("x", FunctionTransformer()), ("roots", FunctionTransformer(np.sqrt))]),
    "sparse": SplineTransformer(n_knots=6, sparse_output=True),
    "dense splines": SplineTransformer(n_knots=6),
}


@pytest.mark.parametrize("transformer", DENSE.values(), ids=DENSE)
@pytest.mark.parametrize("approximation", ["dtc", "sor", "fitc"])
def test_predictions_are_those_of_the_transformers_columns(transformer: Any, approximation: str) -> None:
    # Nothing is missing in these columns: they are the model.
    X, y = data()
    X_test = data(seed=1)[0]
    model = regressor(transformer, approximation=approximation).fit(X, y)
    mean, std = model.predict(X_test, return_std=True)
    fitted = clone(transformer).fit(X)
    dense = [
        np.asarray(part.todense()) if hasattr(part, "todense") else part for part in map(fitted.transform, (X, X_test))
    ]
    expected_mean, expected_variance = by_hand(*dense, y)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-7)
    np.testing.assert_allclose(std**2, expected_variance, rtol=1e-5, atol=1e-9)
    assert isinstance(model.features_, TransformerFeatures)
    assert model.features_.n_features_out_ == dense[0].shape[1]


@pytest.mark.parametrize(
    "transformer",
    [
        Nystroem(gamma=0.5 / 0.8**2, n_components=15, random_state=3),
        make_pipeline(StandardScaler(), Nystroem(gamma=0.9, n_components=15, random_state=3)),
        Nystroem(kernel="laplacian", gamma=0.9, n_components=15, random_state=3),
    ],
    ids=["alone", "pipeline", "laplacian"],
)
def test_nystroem_misses_what_its_columns_leave_of_the_variance(transformer: Any) -> None:
    X, y = data()
    X_test = np.vstack((data(seed=1)[0], [[50.0, -50.0]]))
    fitted = clone(transformer).fit(X)
    expected_mean, expected_variance = by_hand(fitted.transform(X), fitted.transform(X_test), y)
    missing = VARIANCE * (1 - np.square(fitted.transform(X_test)).sum(axis=1))
    assert missing[-1] > 0.99 * VARIANCE
    for mode, added in (("sor", 0.0), ("dtc", np.maximum(missing, 0.0))):
        mean, std = regressor(transformer, approximation=mode).fit(X, y).predict(X_test, return_std=True)
        np.testing.assert_allclose(mean, expected_mean, rtol=1e-7)
        np.testing.assert_allclose(std**2, expected_variance + added, rtol=1e-6, atol=1e-10)
    # Far from the landmarks: the prior.
    assert mean[-1] == pytest.approx(y.mean(), abs=1e-6)
    assert std[-1] ** 2 == pytest.approx(VARIANCE, rel=1e-6)


def test_rounding_at_the_landmarks_leaves_no_negative_variance() -> None:
    X, _ = data(n=30)
    for seed in range(5):
        transformer = Nystroem(gamma=5.0, n_components=30, random_state=seed)
        adapted = TransformerFeatures(transformer, kernel=GaussianKernel(1.0, VARIANCE)).fit(X)
        tensor = torch.from_numpy(X)
        features = adapted.evaluate(tensor)
        assert (features.square().sum(dim=1) > VARIANCE).any(), "nothing to see here"
        missing = adapted.missing_variance(tensor, features)
        assert (missing >= 0).all()
        assert (missing < 1e-10).all()


def nystroem(seed: int = 0) -> NystroemFeatures:
    return NystroemFeatures(12, random_state=seed)


def behind(last: Any) -> Any:
    return make_pipeline("passthrough", Rows(), last)


COMPOSED = {
    "multiple": (3.0 * nystroem(), 3.0),
    "nothing": (0.0 * nystroem(), 0.0),
    "of nothing": (RandomFourierFeatures(8, random_state=1) + 2.0 * RandomFourierFeatures(8, random_state=2), 3.0),
    "sum": (nystroem() + RandomFourierFeatures(8, random_state=1) + 2.0 * nystroem(2), 4.0),
    "product": ((2.0 * nystroem()) * nystroem(1), 2.0),
    "product with a whole map": (nystroem() * RandomFourierFeatures(8, random_state=1), 1.0),
    "modulation": (ModulatedFeatures(nystroem(), lambda X: np.full(len(X), 3.0)), 9.0),
    "pipeline": (behind(nystroem() + nystroem(1)), 2.0),
    "pipeline of one step": (make_pipeline(nystroem()), 1.0),
    "pipeline of a union": (behind(FeatureUnion([("one", nystroem()), ("other", behind(nystroem()))])), 2.0),
    "pipeline with nothing last": (make_pipeline(nystroem(), "passthrough", None), 1.0),
    "union with no weight": (FeatureUnion([("one", nystroem())], transformer_weights={"one": None}), 1.0),
    "columns": (
        ColumnTransformer(
            [("one", nystroem(), [0]), ("no", "drop", [1]), ("none", nystroem(), []), ("some", nystroem(1), slice(1))],
            remainder=nystroem(2),
            transformer_weights={"one": 2.0, "some": None},
        ),
        5.0,
    ),
    "union": (
        FeatureUnion(
            [("one", nystroem()), ("no", "drop"), ("other", RandomFourierFeatures(8, random_state=1))],
            transformer_weights={"one": 2.0},
        ),
        5.0,
    ),
    "scikit-learn's": (3.0 * (nystroem() + Nystroem(n_components=12, random_state=0)), 6.0),
}


@pytest.mark.parametrize(("features", "prior"), COMPOSED.values(), ids=COMPOSED)
def test_a_composed_map_misses_what_its_parts_leave_out(features: Any, prior: float) -> None:
    X = np.vstack((data()[0], [[50.0, -50.0]]))
    made = make_feature_map(features, GaussianKernel(0.8, VARIANCE), np.random.default_rng(0)).fit(X[:-1])
    columns = made.evaluate(torch.from_numpy(X))
    missing, kept = made.missing_variance(torch.from_numpy(X), columns), columns.square().sum(dim=1).numpy()
    np.testing.assert_allclose(kept + (0.0 if missing is None else missing.numpy()), prior * VARIANCE)


def test_a_part_that_was_fitted_to_a_table_is_given_one() -> None:
    X, y = data()
    union = FeatureUnion([("one", make_pipeline(FunctionTransformer(lambda table: table[["x0"]]), nystroem()))])
    model = regressor(make_pipeline(StandardScaler(), union).set_output(transform="pandas"))
    assert model.fit(X, y).predict([[50.0, -50.0]], return_std=True)[1] == pytest.approx(VARIANCE**0.5)


def test_a_union_maps_its_parts_once(monkeypatch: Any) -> None:
    X, y = data()
    model = regressor(FeatureUnion([("one", nystroem()), ("other", RandomFourierFeatures(8))])).fit(X, y)
    sizes: list[int] = []
    evaluate = NystroemFeatures.evaluate
    monkeypatch.setattr(NystroemFeatures, "evaluate", lambda self, X: sizes.append(len(X)) or evaluate(self, X))
    model.predict(X, return_std=True)
    assert sizes.count(len(X)) == 1


def test_a_projected_map_misses_what_the_larger_one_leaves_out() -> None:
    X, y = data()
    model = regressor(CraftFeatures(nystroem(), 12, random_state=0)).fit(X, y)
    assert model.predict([[50.0, -50.0]], return_std=True)[1] == pytest.approx(VARIANCE**0.5)


@pytest.mark.parametrize("plain", [nystroem(), TaylorFeatures(28)], ids=["nystroem", "taylor"])
@pytest.mark.parametrize("approximation", ["dtc", "fitc"])
def test_a_multiple_by_one_is_the_map_itself(plain: Any, approximation: str) -> None:
    X, y = data()
    X -= X.mean(axis=0)  # where both are centred
    new = np.vstack((X + 0.1, [[30.0, 30.0]]))
    one, other = (
        regressor(features, approximation=approximation).fit(X, y).predict(new, return_std=True)
        for features in (plain, 1.0 * plain)
    )
    np.testing.assert_allclose(other, one, rtol=1e-6)
    assert other[1][-1] == pytest.approx(VARIANCE**0.5)


def test_fitc_counts_what_is_missing_as_noise_of_the_training_rows() -> None:
    X, y = data()
    X_test = data(seed=1)[0]
    transformer = Nystroem(gamma=0.5 / 0.8**2, n_components=5, random_state=3)
    columns, test_columns = (transformer.fit(X).transform(part) for part in (X, X_test))
    missing = VARIANCE * np.maximum(0.0, 1 - np.square(columns).sum(axis=1))
    kernel = VARIANCE * columns @ columns.T + np.diag(NOISE + missing)
    cross = VARIANCE * test_columns @ columns.T
    model = regressor(transformer, approximation="fitc").fit(X, y)
    mean, std = model.predict(X_test, return_std=True)
    np.testing.assert_allclose(mean, y.mean() + cross @ np.linalg.solve(kernel, y - y.mean()), rtol=1e-7)
    # The variance of the latent function at a test row: the whole prior variance less what the rows explain.
    expected = VARIANCE - np.sum(cross * np.linalg.solve(kernel, cross.T).T, axis=1)
    np.testing.assert_allclose(std**2, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "transformer",
    [
        Nystroem(kernel="polynomial", gamma=0.01, coef0=0, degree=2, n_components=3, random_state=0),
        Nystroem(kernel="linear", n_components=2, random_state=0),
        make_pipeline(Nystroem(n_components=10, random_state=0), StandardScaler()),
        RBFSampler(random_state=0),
    ],
    ids=["polynomial", "linear", "not last", "not Nystroem"],
)
def test_nothing_is_missing_where_the_prior_variance_is_not_one(transformer: Any) -> None:
    X, y = data()
    models = [regressor(transformer, approximation=mode).fit(X, y) for mode in ("dtc", "sor")]
    left, right = (model.predict(X, return_std=True)[1] for model in models)
    np.testing.assert_array_equal(left, right)


def test_the_transformer_sees_the_rows_as_they_come() -> None:
    X, y = data()
    transformer = Rows()
    model = regressor(transformer, kernel=GaussianKernel([0.3, 7.0], VARIANCE)).fit(X, y)
    # Neither centred nor scaled; and it is a clone that is fitted.
    np.testing.assert_array_equal(model.features_.transformer_.seen_, X)
    assert not hasattr(transformer, "seen_")
    expected_mean, _ = by_hand(X, X, y)
    np.testing.assert_allclose(model.predict(X), expected_mean, rtol=1e-8)


def test_columns_of_other_types_are_taken_as_float64() -> None:
    X, y = data()
    expected = regressor(Rows(np.round)).fit(X, y).predict(X)
    for make in (
        lambda A: np.round(A).astype(np.float32),
        lambda A: np.round(A).astype(int),
        lambda A: np.asfortranarray(np.round(A)),
        lambda A: np.round(A).tolist(),
        lambda A: np.round(A)[:, ::-1][:, ::-1],
    ):
        np.testing.assert_allclose(regressor(Rows(make)).fit(X, y).predict(X), expected, rtol=1e-9)


def test_an_adapted_map_is_saved_with_the_model(tmp_path: Any) -> None:
    X, y = data()
    model = regressor(make_pipeline(StandardScaler(), Nystroem(n_components=15))).fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    again = joblib.load(tmp_path / "model.joblib")
    for before, after in zip(model.predict(X, return_std=True), again.predict(X, return_std=True), strict=True):
        np.testing.assert_array_equal(after, before)


def test_the_adapter_is_a_transformer_itself() -> None:
    X, _ = data()
    adapted = TransformerFeatures(PolynomialFeatures(2), kernel=GaussianKernel(1.0, VARIANCE)).fit(X)
    np.testing.assert_allclose(adapted.transform(X), np.sqrt(VARIANCE) * PolynomialFeatures(2).fit_transform(X))
    assert adapted.n_features_out_ == 6
    assert len(adapted.get_feature_names_out()) == 6
    assert adapted.reach(1e-8) == np.inf
    with pytest.raises(ValueError, match="X has 3 features, but TransformerFeatures is expecting 2"):
        adapted.transform(np.ones((2, 3)))


# ---------------------------------------------------------------------------------------------------- kernels and seeds


def test_a_map_of_our_own_is_given_the_kernel_and_stays_as_it_was() -> None:
    X, y = data()
    mine = TaylorFeatures(28, kernel=GaussianKernel(123.0))
    model = regressor(mine).fit(X, y)
    assert isinstance(model.features_, TaylorFeatures)
    assert model.features_ is not mine
    assert model.features_.kernel.lengthscale == 0.8
    assert mine.kernel.lengthscale == 123.0
    assert not hasattr(mine, "kernel_")


def test_no_features_means_the_documented_default() -> None:
    X, y = data()
    model = regressor(None).fit(X, y)
    assert isinstance(model.features_, OrthogonalFourierFeatures)
    assert model.features_.n_features_out_ == 512


@pytest.mark.parametrize(
    ("features", "names"),
    [
        (RandomFourierFeatures(8), ["random_state"]),
        (OptimizedMaclaurinFeatures(8), ["random_state"]),
        (Nystroem(), ["random_state"]),
        (make_pipeline(StandardScaler(), Nystroem(n_components=5)), ["nystroem__random_state"]),
        (
            FeatureUnion([("a", RBFSampler()), ("b", make_pipeline(StandardScaler(), RBFSampler()))]),
            ["a__random_state", "b__rbfsampler__random_state"],
        ),
    ],
    ids=["fourier", "maclaurin", "nystroem", "pipeline", "union"],
)
def test_seeds_are_filled_where_there_are_none(features: Any, names: list[str]) -> None:
    def seeds(seed: int) -> list[int]:
        made = make_feature_map(features, GaussianKernel(), np.random.default_rng(seed))
        parameters = getattr(made, "transformer", made).get_params(deep=True)
        return [parameters[name] for name in names]

    assert all(isinstance(seed, int) for seed in seeds(0))
    assert len(set(seeds(0))) == len(names)
    assert seeds(0) == seeds(0)
    assert seeds(0) != seeds(1)
    # In the caller's own object nothing changes.
    assert all(features.get_params(deep=True)[name] is None for name in names)


@pytest.mark.parametrize(
    "features",
    [
        RandomFourierFeatures(8, random_state=5),
        make_pipeline(StandardScaler(), Nystroem(n_components=5, random_state=5)),
    ],
    ids=["map", "pipeline"],
)
def test_a_seed_that_is_given_is_kept(features: Any) -> None:
    X, y = data()
    first, second = (regressor(features, random_state=seed).fit(X, y).predict(X) for seed in (0, 1))
    np.testing.assert_array_equal(first, second)
    made = make_feature_map(features, GaussianKernel(), np.random.default_rng(0))
    parameters = getattr(made, "transformer", made).get_params(deep=True)
    assert [value for name, value in parameters.items() if name.endswith("random_state")] == [5]


@pytest.mark.parametrize("features", [RandomFourierFeatures(8), Nystroem(n_components=5), RBFSampler(n_components=8)])
def test_the_regressors_seed_draws_the_map(features: Any) -> None:
    X, y = data()
    predictions = [regressor(features, random_state=seed).fit(X, y).predict(X) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(predictions[0], predictions[1])
    assert not np.array_equal(predictions[0], predictions[2])


def test_clones_and_parameters_reach_into_the_transformer() -> None:
    model = regressor(make_pipeline(StandardScaler(), Nystroem(n_components=5)))
    clone(model).set_params(features__nystroem__n_components=7, kernel__variance=2.0)
    assert model.get_params()["features__nystroem__n_components"] == 5
    X, y = data()
    copied = clone(model).set_params(features__nystroem__n_components=7).fit(X, y)
    assert copied.features_.n_features_out_ == 7


# ------------------------------------------------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    "features",
    [RandomFourierFeatures, Nystroem, "nystroem", 512, Ridge(), RandomForestRegressor(), np.ones((3, 3)), np.sqrt],
    ids=lambda features: f"{features!r:.40}",
)
def test_what_is_no_transformer_is_refused(features: Any) -> None:
    X, y = data()
    with pytest.raises(InputError, match=r"features must be a feature map such as TaylorFeatures\(n_features=120\)"):
        regressor(features).fit(X, y)


@pytest.mark.parametrize(
    ("make", "shape"),
    [
        (lambda X: X[:2], r"\(2, 2\) of 60 rows; expected shape \(60, n_features\)"),
        (lambda X: X[:1], r"\(1, 2\) of 60 rows; expected shape \(60, n_features\)"),
        (lambda X: np.vstack((X, X)), r"\(2, 2\) of 1 rows; expected shape \(1, n_features\)"),
        (lambda X: X[:, 0], r"\(1,\) of 1 rows; expected shape \(1, n_features\)"),
        (lambda X: X[:, :, None], r"\(1, 2, 1\) of 1 rows; expected shape \(1, n_features\)"),
        (lambda X: 1.0, r"\(\) of 1 rows; expected shape \(1, n_features\)"),
    ],
)
def test_a_transformer_that_gives_the_wrong_rows_is_refused(make: Any, shape: str) -> None:
    X, y = data()
    with pytest.raises(InputError, match=rf"Rows\(.* cannot serve as a feature map: it made an array of shape {shape}"):
        regressor(Rows(make)).fit(X, y)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_transformer_that_gives_numbers_that_are_not_finite_is_refused(value: float) -> None:
    X, y = data()
    with pytest.raises(InputError, match=r"Rows.*finite"):
        regressor(Rows(lambda X: np.where(X > 2.0, value, X))).fit(X, y)
    # Or that does so later.
    model = regressor(Rows(lambda X: np.where(X > 100.0, value, X))).fit(X, y)
    with pytest.raises(InputError, match=r"Rows.*finite"):
        model.predict([[1.0, 101.0]])


def test_a_transformer_that_gives_no_numbers_is_refused() -> None:
    X, y = data()
    with pytest.raises(ValueError, match="could not convert string to float"):
        regressor(Rows(lambda X: np.full(X.shape, "a"))).fit(X, y)


def test_a_transformer_that_gives_no_columns_is_refused() -> None:
    X, y = data()
    with pytest.raises(InputError, match="Rows"):
        regressor(Rows(lambda X: np.empty((len(X), 0)))).fit(X, y)


class TestWhichKernel:
    """The rule of `lmgp.features.adapter`."""

    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.sin(X[:, 0])
    kernel = GaussianKernel(0.6, 2.5)

    def columns(self, features) -> np.ndarray:
        model = FeaturizedGPRegressor(features, kernel=self.kernel, noise_variance=0.1, random_state=0)
        fitted = model.fit(self.X, self.y).features_
        return fitted.transform(self.X)

    @pytest.mark.parametrize("own", [None, GaussianKernel(3.0)])
    def test_a_map_by_itself_gets_the_models(self, own) -> None:
        found = self.columns(RandomFourierFeatures(16, kernel=own, random_state=0))
        expected = RandomFourierFeatures(16, kernel=self.kernel, random_state=0).fit_transform(self.X)
        np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-12)

    def test_inside_anything_composed_a_map_without_a_kernel_gets_the_models_at_unit_variance(self) -> None:
        inner = RandomFourierFeatures(16, random_state=0)
        unit = RandomFourierFeatures(16, kernel=GaussianKernel(0.6), random_state=0).fit_transform(self.X)
        product = unit @ unit.T
        for features, expected in (
            (inner + inner, 2 * product),
            (inner * inner, product**2),
            (3.0 * (inner + inner), 6 * product),
            (make_pipeline(FunctionTransformer(), inner), product),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("error", KernelWarning)
                found = self.columns(features)
            np.testing.assert_allclose(found @ found.T, 2.5 * expected, atol=1e-10)

    def test_a_part_with_a_kernel_keeps_it_and_the_model_says_so(self) -> None:
        parts = [RandomFourierFeatures(16, kernel=kernel, random_state=0) for kernel in (GaussianKernel(3.0), None)]
        with pytest.warns(KernelWarning, match=r"keeps its own kernel, GaussianKernel\(lengthscale=3.0\)"):
            found = self.columns(parts[0] + parts[1])
        units = [
            RandomFourierFeatures(16, kernel=GaussianKernel(scale), random_state=0).fit_transform(self.X)
            for scale in (3.0, 0.6)
        ]
        np.testing.assert_allclose(found @ found.T, 2.5 * sum(one @ one.T for one in units), atol=1e-10)

    @pytest.mark.parametrize(
        ("own", "kernel"),
        [
            (MaternKernel(0.6), MaternKernel(0.6, 2.5, lengthscale_bounds=(0.1, 1.0))),
            (GaussianKernel([0.6, 0.6]), GaussianKernel(0.6, 2.5)),
        ],
    )
    def test_a_part_with_the_models_lengthscale_is_no_other(self, own: Any, kernel: Any) -> None:
        features = make_pipeline(FunctionTransformer(), RandomFourierFeatures(16, kernel=own, random_state=0))
        with warnings.catch_warnings():
            warnings.simplefilter("error", KernelWarning)
            make_feature_map(features, kernel, np.random.default_rng(0))
        for other in (kernel.rescaled([2.0, 2.0]), RationalQuadraticKernel(0.6)):
            with pytest.warns(KernelWarning, match="keeps its own kernel"):
                make_feature_map(features, other, np.random.default_rng(0))
