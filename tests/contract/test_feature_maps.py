"""One suite that every public feature map passes.

The statistical tests draw with fixed seeds and allow five standard errors, estimated from the same draws.
"""

import pickle
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import comb, factorial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from lmgp import (
    GaussianKernel,
    NystroemFeatures,
    OptimizedMaclaurinFeatures,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    StructuredOrthogonalFourierFeatures,
    TaylorFeatures,
)
from lmgp.errors import InputError
from lmgp.features.base import FeatureMap

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A feature map, and which parts of the contract apply to it."""

    cls: type[FeatureMap]
    options: tuple[tuple[str, Any], ...] = ()
    is_random: bool = True
    pairs: bool = False
    smallest: int = 1
    # How far E[φ(x)ᵀφ(z)] may be from its kernel, over the variance.
    bias: float = 0.0
    # How far rounding may take a column, over the root of the variance.
    rounding: float = 1e-14

    def make(self, n_features: Any = 40, **parameters: Any) -> FeatureMap:
        return self.cls(n_features, **dict(self.options), **parameters)


CASES = {
    "fourier": Case(RandomFourierFeatures, pairs=True, smallest=2),
    "orthogonal": Case(OrthogonalFourierFeatures, pairs=True, smallest=2),
    # Documented: 0.006 over the distances that matter, which is 0.01 at the worst of them, two lengthscales.
    "structured": Case(StructuredOrthogonalFourierFeatures, pairs=True, smallest=2, bias=0.01),
    "random_maclaurin": Case(RandomMaclaurinFeatures),
    "rademacher": Case(OptimizedMaclaurinFeatures, (("sketch", "rademacher"),), smallest=2),
    "gaussian": Case(OptimizedMaclaurinFeatures, (("sketch", "gaussian"),), smallest=2),
    "tensor_srht": Case(OptimizedMaclaurinFeatures, (("sketch", "tensor_srht"),), smallest=2),
    "taylor": Case(TaylorFeatures, is_random=False),
    # Where landmarks are drawn they are from the rows, and what is drawn is not unbiased: see the map's own tests. A
    # column is divided by what its landmark adds, which is at least a millionth of the root of the variance.
    "nystroem": Case(NystroemFeatures, is_random=False, rounding=1e-10),
    "nystroem_farthest": Case(NystroemFeatures, (("landmarks", "farthest_point"),), is_random=False, rounding=1e-10),
}
RANDOM = {name: case for name, case in CASES.items() if case.is_random}
ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
EVERY_RANDOM = pytest.mark.parametrize("case", RANDOM.values(), ids=RANDOM)


def rows(n: int = 12, d: int = 3, seed: int = 0, scale: float = 0.6) -> Floats:
    return scale * np.random.default_rng(seed).standard_normal((n, d))


def truncated_kernel(X: Floats, lengthscale: float | Floats, variance: float, degree: int) -> Floats:
    """σ² e^{−(‖x̃‖² + ‖z̃‖²)/2} Σ_{n ≤ p} (x̃ᵀz̃)ⁿ/n!, term by term."""
    scaled = X / lengthscale
    inner = scaled @ scaled.T
    squares = np.diag(inner)
    series = sum(inner**n / factorial(n) for n in range(degree + 1))
    return variance * np.exp(-(squares[:, None] + squares) / 2) * series


def exact_kernel(X: Floats, lengthscale: float | Floats, variance: float) -> Floats:
    scaled = X / lengthscale
    differences = scaled[:, None, :] - scaled[None, :, :]
    return variance * np.exp(-np.sum(differences**2, axis=2) / 2)


def target(fitted: FeatureMap, X: Floats, lengthscale: float | Floats, variance: float) -> Floats:
    """The kernel whose unbiased estimate the map is."""
    degree = getattr(fitted, "degree_", None)
    if degree is None:
        return exact_kernel(X, lengthscale, variance)
    return truncated_kernel(X, lengthscale, variance, degree)


# --------------------------------------------------------------------------------------------------------------- shapes


@ALL
@pytest.mark.parametrize("d", [1, 2, 3, 8, 20])
def test_transform_gives_finite_float64_columns(case: Case, d: int) -> None:
    X = rows(d=d)
    fitted = case.make(40, random_state=0).fit(X)
    features = fitted.transform(X)
    assert isinstance(features, np.ndarray)
    assert features.dtype == np.float64
    assert features.shape == (12, fitted.n_features_out_)
    assert np.isfinite(features).all()
    assert fitted.n_features_in_ == d
    assert fitted.transform(rows(n=1, d=d, seed=9)).shape == (1, fitted.n_features_out_)


@ALL
@pytest.mark.parametrize("d", [2, 3, 8])
@pytest.mark.parametrize("n_features", [2, 3, 9, 10, 11, 44, 45, 46, 65])
def test_makes_the_largest_number_of_columns_it_can(case: Case, n_features: int, d: int) -> None:
    made = case.make(n_features, random_state=0).fit(rows(d=d)).n_features_out_
    if case.pairs:
        assert made == n_features - n_features % 2
    elif case.cls is TaylorFeatures:
        assert made == max(comb(d + p, p) for p in range(70) if comb(d + p, p) <= n_features)
    elif case.cls is NystroemFeatures:
        assert made == min(n_features, 12)  # one for each row
    else:
        assert made == n_features


@ALL
def test_columns_have_names(case: Case) -> None:
    fitted = case.make(20, random_state=0).fit(rows())
    prefix = case.cls.__name__.lower()
    assert fitted.get_feature_names_out().tolist() == [f"{prefix}{i}" for i in range(fitted.n_features_out_)]


@ALL
def test_fit_returns_itself_and_fit_transform_is_both(case: Case) -> None:
    X = rows()
    feature_map = case.make(random_state=3)
    assert feature_map.fit(X) is feature_map
    np.testing.assert_array_equal(case.make(random_state=3).fit_transform(X), feature_map.transform(X))


@ALL
def test_a_row_is_mapped_alone(case: Case) -> None:
    fitted = case.make(random_state=0).fit(rows(50))
    X = rows(2500, seed=1)
    together = fitted.transform(X)
    np.testing.assert_allclose(fitted.transform(X[7:8]), together[7:8], rtol=1e-12, atol=case.rounding)
    np.testing.assert_allclose(fitted.transform(X[::-1]), together[::-1], rtol=1e-12, atol=case.rounding)


# --------------------------------------------------------------------------------------------------------- random state


@ALL
@pytest.mark.parametrize(
    "seed", [lambda: 5, lambda: np.random.default_rng(5), lambda: np.random.RandomState(5)], ids=["int", "rng", "old"]
)
def test_the_same_random_state_gives_the_same_map(case: Case, seed: Callable[[], Any]) -> None:
    X = rows()
    first = case.make(random_state=seed()).fit(X).transform(X)
    np.testing.assert_array_equal(case.make(random_state=seed()).fit(X).transform(X), first)


@ALL
def test_refitting_with_an_int_gives_the_same_map(case: Case) -> None:
    X = rows()
    fitted = case.make(random_state=1).fit(X)
    first = fitted.transform(X)
    np.testing.assert_array_equal(fitted.fit(X).transform(X), first)


@EVERY_RANDOM
@pytest.mark.parametrize("seed", [np.random.default_rng, np.random.RandomState], ids=["rng", "old"])
def test_a_generator_moves_on_between_fits(case: Case, seed: Callable[[int], Any]) -> None:
    X = rows()
    fitted = case.make(random_state=seed(1)).fit(X)
    first = fitted.transform(X)
    assert not np.array_equal(fitted.fit(X).transform(X), first)


@EVERY_RANDOM
def test_other_seeds_give_other_maps(case: Case) -> None:
    X = rows()
    maps = [case.make(random_state=seed).fit_transform(X) for seed in (0, 1)]
    # Two fits without a seed differ as well, whatever the global state is.
    for _ in range(2):
        np.random.seed(0)  # noqa: NPY002
        maps.append(case.make(random_state=None).fit_transform(X))
    for i, left in enumerate(maps):
        for right in maps[:i]:
            assert not np.array_equal(left, right)


@ALL
def test_the_global_random_state_is_neither_read_nor_moved(case: Case) -> None:
    X = rows()
    results = []
    for seed in (0, 1):
        np.random.seed(seed)  # noqa: NPY002
        before = joblib.hash(np.random.get_state())  # noqa: NPY002
        results.append(case.make(random_state=4).fit_transform(X))
        case.make(random_state=None).fit_transform(X)
        assert joblib.hash(np.random.get_state()) == before  # noqa: NPY002
    np.testing.assert_array_equal(*results)


# ------------------------------------------------------------------------------------------------- scikit-learn's rules


@ALL
def test_the_constructor_only_stores(case: Case) -> None:
    names = list(case.cls().get_params(deep=False))
    given = {name: object() for name in names}
    assert case.cls(given["n_features"], **{n: v for n, v in given.items() if n != "n_features"}).__dict__ == given


@ALL
@pytest.mark.parametrize("fit_with", ["int", "generator"])
def test_fit_edits_no_parameter(case: Case, fit_with: str) -> None:
    kernel = GaussianKernel(np.array([1.0, 2.0, 0.5]), 3.0)
    feature_map = case.make(41, kernel=kernel, random_state=np.random.default_rng(0) if fit_with == "generator" else 2)
    before = dict(feature_map.get_params(deep=True))
    hashed = joblib.hash(before["kernel__lengthscale"])
    feature_map.fit(rows())
    after = feature_map.get_params(deep=True)
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert after[name] is value
    assert joblib.hash(after["kernel__lengthscale"]) == hashed
    assert vars(kernel).keys() == {"lengthscale", "variance", "lengthscale_bounds", "variance_bounds"}


@ALL
def test_the_fitted_map_keeps_its_own_kernel(case: Case) -> None:
    X = rows()
    kernel = GaussianKernel(np.array([1.0, 2.0, 0.5]), 3.0)
    fitted = case.make(kernel=kernel, random_state=0).fit(X)
    before = fitted.transform(X)
    kernel.lengthscale[:] = 17.0
    kernel.set_params(variance=9.0)
    np.testing.assert_array_equal(fitted.transform(X), before)


@ALL
def test_a_clone_is_unfitted_and_fits_to_the_same_map(case: Case) -> None:
    X = rows()
    fitted = case.make(30, kernel=GaussianKernel([1.0, 2.0, 0.5], 3.0), random_state=2).fit(X)
    copied = clone(fitted)
    assert copied.kernel is not fitted.kernel
    with pytest.raises(NotFittedError):
        copied.transform(X)
    np.testing.assert_array_equal(copied.fit(X).transform(X), fitted.transform(X))


@ALL
def test_a_saved_map_gives_the_same_columns(case: Case, tmp_path: Path) -> None:
    X = rows()
    fitted = case.make(random_state=None).fit(X)
    expected = fitted.transform(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), expected)
    joblib.dump(fitted, tmp_path / "map.joblib")
    np.testing.assert_array_equal(joblib.load(tmp_path / "map.joblib").transform(X), expected)
    # Mapped from the disk the map's own arrays are read-only.
    np.testing.assert_array_equal(joblib.load(tmp_path / "map.joblib", mmap_mode="r").transform(X), expected)


@ALL
def test_transform_changes_neither_the_map_nor_its_input(case: Case) -> None:
    X = rows()
    fitted = case.make(random_state=0, kernel=GaussianKernel(0.7, 2.0)).fit(X)
    state, given = joblib.hash(vars(fitted)), X.copy()
    first = fitted.transform(X)
    assert joblib.hash(vars(fitted)) == state
    np.testing.assert_array_equal(X, given)
    # The columns are the caller's: writing to them reaches nothing else.
    first[:] = 0.0
    assert joblib.hash(vars(fitted)) == state
    np.testing.assert_array_equal(X, given)


@parametrize_with_checks([case.make(16, random_state=0) for case in CASES.values()])
def test_scikit_learns_own_checks(estimator: FeatureMap, check: Callable[[FeatureMap], None]) -> None:
    check(estimator)


@ALL
def test_serves_in_a_pipeline_and_a_grid_search(case: Case) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (90, 2))
    y = np.sin(2.0 * X[:, 0]) * np.cos(X[:, 1])
    feature_map = case.make(60, kernel=GaussianKernel(), random_state=0)
    pipeline = make_pipeline(feature_map, Ridge(alpha=1e-4))
    # Held-out rows: the target is smooth, and the map has columns enough.
    assert pipeline.fit(X[:60], y[:60]).score(X[60:], y[60:]) > 0.9
    name = f"{case.cls.__name__.lower()}__kernel__lengthscale"
    search = GridSearchCV(pipeline, {name: [0.01, 1.0]}, cv=3, error_score="raise").fit(X, y)
    assert search.best_params_ == {name: 1.0}
    assert search.best_estimator_[0].kernel_.lengthscale == 1.0
    assert feature_map.kernel.lengthscale == 1.0


# -------------------------------------------------------------------------------------------------------------- kernels


@ALL
@pytest.mark.parametrize("lengthscale", [0.4, [0.5, 3.0, 1.2]], ids=["isotropic", "ard"])
def test_the_kernel_scales_the_rows_and_the_columns(case: Case, lengthscale: Any) -> None:
    X, Z = rows(), rows(seed=1)
    kernel = GaussianKernel(lengthscale, 7.0)
    scaled = case.make(kernel=kernel, random_state=6).fit(X)
    unit = case.make(random_state=6).fit(X / np.array(lengthscale))
    expected = np.sqrt(7.0) * unit.transform(Z / np.array(lengthscale))
    np.testing.assert_allclose(scaled.transform(Z), expected, rtol=1e-12, atol=1e-14)


@ALL
def test_no_kernel_means_the_unit_kernel(case: Case) -> None:
    X = rows()
    fitted = case.make(random_state=0).fit(X)
    assert fitted.kernel is None
    assert (fitted.kernel_.lengthscale, fitted.kernel_.variance) == (1.0, 1.0)
    given = case.make(kernel=GaussianKernel(1.0, 1.0), random_state=0).fit(X)
    np.testing.assert_array_equal(given.transform(X), fitted.transform(X))


@ALL
def test_the_expected_product_is_the_kernel(case: Case) -> None:
    X = rows(6, seed=2, scale=0.4)  # the variance of Kar and Karnick's map explodes with the norms
    lengthscale, variance = np.array([0.8, 1.0, 1.5]), 2.5
    kernel = GaussianKernel(lengthscale, variance)
    n_draws = 500 if case.is_random else 1
    errors = np.empty((n_draws, 6, 6))
    for seed in range(n_draws):
        fitted = case.make(34, kernel=kernel, random_state=seed).fit(X)
        features = fitted.transform(X)
        errors[seed] = features @ features.T - target(fitted, X, lengthscale, variance)
    if not case.is_random:
        np.testing.assert_allclose(errors[0], 0.0, atol=1e-13)
        return
    standard_error = errors.std(axis=0, ddof=1) / np.sqrt(n_draws)
    assert standard_error.max() < 0.05 * variance, "too few draws to see anything"
    # 1e-12: what does not vary (Fourier maps on the diagonal) is exact up to rounding.
    np.testing.assert_array_less(np.abs(errors.mean(axis=0)), 5 * standard_error + case.bias * variance + 1e-12)


@ALL
def test_the_square_of_a_row_is_the_prior_variance_less_what_is_missing(case: Case) -> None:
    X = rows(5, seed=3, scale=0.45)
    kernel = GaussianKernel(0.9, 2.5)
    n_draws = 300 if case.is_random else 1
    sums = np.empty((n_draws, 5))
    for seed in range(n_draws):
        fitted = case.make(34, kernel=kernel, random_state=seed).fit(X)
        tensor = torch.from_numpy(X)
        features = fitted.evaluate(tensor)
        missing = fitted.missing_variance(tensor, features)
        squares = features.square().sum(dim=1).numpy()
        sums[seed] = squares if missing is None else squares + missing.numpy()
        if missing is not None:
            assert (missing >= 0).all()
    standard_error = sums.std(axis=0, ddof=1) / np.sqrt(n_draws) if case.is_random else 0.0
    np.testing.assert_array_less(np.abs(sums.mean(axis=0) - 2.5), 5 * standard_error + 1e-12)


@EVERY_RANDOM
def test_the_error_falls_with_the_root_of_the_number_of_columns(case: Case) -> None:
    # 4 inputs: 64 and 1024 frequencies are whole blocks for both orthogonal maps.
    X = rows(6, d=4, seed=4, scale=0.5)
    upper = np.triu_indices(6, k=1)
    parameters = {"max_degree": 2} if case.cls is OptimizedMaclaurinFeatures else {}
    smaller = 128 if case.pairs else 64
    means, relative_errors = [], []
    for n_features, n_draws in ((smaller, 120), (16 * smaller, 35)):
        draws = np.empty((n_draws, len(upper[0])))
        for seed in range(n_draws):
            fitted = case.make(n_features, random_state=seed, **parameters).fit(X)
            features = fitted.transform(X)
            draws[seed] = (features @ features.T - target(fitted, X, 1.0, 1.0))[upper]
        if case.bias:
            # Around its own mean: the bias stays. The factor is for the lost degree of freedom.
            draws = (draws - draws.mean(axis=0)) * np.sqrt(n_draws / (n_draws - 1))
        squared = np.square(draws).mean(axis=1)
        means.append(squared.mean())
        relative_errors.append(squared.std(ddof=1) / np.sqrt(n_draws) / squared.mean())
    ratio = np.log(means[0] / means[1])
    allowed = 5 * np.hypot(*relative_errors)
    # 16 times the columns, 1/16 of the squared error: exactly so where columns, or whole blocks, are independent.
    # The optimised maps, here all of degree 2, share out integers: 63 columns are not a sixteenth of 1023.
    allowed_of_integers = 0.05 if case.cls is OptimizedMaclaurinFeatures else 0.0
    assert allowed < np.log(4.0), "too few draws to see anything"
    assert abs(ratio - np.log(16.0)) < allowed_of_integers + allowed


# ---------------------------------------------------------------------------------------------------------------- input


def layouts(X: Floats) -> Iterator[tuple[str, Any]]:
    read_only = X.copy()
    read_only.flags.writeable = False
    spread = np.zeros((2 * len(X), X.shape[1] + 1))
    spread[::2, 1:] = X
    yield "read-only", read_only
    yield "read-only Fortran", np.asfortranarray(read_only)
    yield "Fortran", np.asfortranarray(X)
    yield "strided", spread[::2, 1:]
    yield "backwards", X[::-1].copy()[::-1]
    yield "other byte order", X.astype(">f8")
    yield "list", X.tolist()
    yield "objects", X.astype(object)


@ALL
def test_the_layout_of_the_input_does_not_matter(case: Case) -> None:
    X = rows()
    expected = case.make(random_state=0, kernel=GaussianKernel([1.0, 0.5, 2.0])).fit_transform(X)
    for name, given in layouts(X):
        found = case.make(random_state=0, kernel=GaussianKernel([1.0, 0.5, 2.0])).fit(given).transform(given)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15, err_msg=name)


@ALL
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.uint8, bool])
def test_other_numbers_are_taken_as_float64(case: Case, dtype: type) -> None:
    X = (np.abs(rows(scale=2.0))).astype(dtype)
    found = case.make(random_state=0, kernel=GaussianKernel(2.0)).fit(X).transform(X)
    assert found.dtype == np.float64
    exact = X.astype(np.float64)
    expected = case.make(random_state=0, kernel=GaussianKernel(2.0)).fit(exact).transform(exact)
    np.testing.assert_array_equal(found, expected)


@ALL
def test_pandas_is_not_needed(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)  # an import of it now fails
    fitted = case.make(random_state=0).fit(rows())
    assert np.isfinite(fitted.transform(rows())).all()


@ALL
@pytest.mark.parametrize("n_rows", [1, 2])
def test_few_rows_and_rows_alike_are_enough(case: Case, n_rows: int) -> None:
    for X in (rows(n_rows), np.zeros((n_rows, 3)), np.ones((n_rows, 3))):
        fitted = case.make(21, random_state=0).fit(X)
        assert np.isfinite(fitted.transform(rows())).all()


BAD_ROWS: dict[str, tuple[Any, str]] = {
    "nan": (np.array([[0.0, np.nan, 1.0], [1.0, 2.0, 3.0]]), "NaN"),
    "infinity": (np.array([[0.0, np.inf, 1.0], [1.0, 2.0, 3.0]]), "infinity"),
    "one dimension": (np.array([1.0, 2.0, 3.0]), "Expected 2D array"),
    "three dimensions": (np.ones((2, 3, 1)), "dim 3"),
    "no rows": (np.ones((0, 3)), "0 sample"),
    "no columns": (np.ones((3, 0)), "0 feature"),
    "text": ([["a", "b", "c"]], "could not convert string to float"),
    "complex": (np.full((2, 3), 1j), "Complex data"),
}


@ALL
@pytest.mark.parametrize("bad", BAD_ROWS)
def test_rows_that_cannot_be_used_are_refused(case: Case, bad: str) -> None:
    given, message = BAD_ROWS[bad]
    with pytest.raises(ValueError, match=message):
        case.make(random_state=0).fit(given)
    fitted = case.make(random_state=0).fit(rows())
    with pytest.raises(ValueError, match=message):
        fitted.transform(given)


@ALL
@pytest.mark.parametrize("d", [2, 4])
def test_rows_with_another_number_of_columns_are_refused(case: Case, d: int) -> None:
    fitted = case.make(random_state=0).fit(rows())
    with pytest.raises(ValueError, match=f"X has {d} features, but {case.cls.__name__} is expecting 3 features"):
        fitted.transform(rows(d=d))


@ALL
def test_an_unfitted_map_says_so(case: Case) -> None:
    feature_map = case.make()
    with pytest.raises(NotFittedError, match="not fitted yet"):
        feature_map.transform(rows())
    with pytest.raises(NotFittedError, match="not fitted yet"):
        feature_map.get_feature_names_out()


@ALL
@pytest.mark.parametrize("n_features", [0, -3, 2.5, "many", None, [8]])
def test_an_impossible_number_of_columns_is_refused(case: Case, n_features: Any) -> None:
    with pytest.raises(ValueError, match="n_features"):
        case.make(n_features).fit(rows())


@ALL
def test_too_few_columns_for_the_map_are_refused(case: Case) -> None:
    if case.smallest == 1:
        assert case.make(1, random_state=0).fit(rows()).n_features_out_ == 1
        return
    with pytest.raises(InputError, match=rf"{case.cls.__name__}.* n_features must be at least 2; got 1"):
        case.make(1).fit(rows())
    assert case.make(2, random_state=0).fit(rows()).n_features_out_ == 2


@ALL
@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (GaussianKernel(0.0), "lengthscale must be positive and finite; got 0.0"),
        (GaussianKernel(-1.0), "lengthscale must be positive and finite; got -1.0"),
        (GaussianKernel(np.nan), "lengthscale must be positive and finite; got nan"),
        (GaussianKernel(np.inf), "lengthscale must be positive and finite; got inf"),
        (GaussianKernel([1.0, 0.0, 1.0]), "lengthscale must be positive and finite"),
        (GaussianKernel([1.0, 2.0]), r"shape \(3,\) for these rows; got shape \(2,\)"),
        (GaussianKernel([[1.0, 2.0, 3.0]]), r"shape \(3,\) for these rows; got shape \(1, 3\)"),
        (GaussianKernel("long"), "numbers for lengthscale"),
        (GaussianKernel(1.0, 0.0), "variance must be positive and finite; got 0.0"),
        (GaussianKernel(1.0, -2.0), "variance must be positive and finite; got -2.0"),
        (GaussianKernel(1.0, np.nan), "variance must be positive and finite; got nan"),
    ],
    ids=str,
)
def test_a_kernel_that_cannot_be_used_is_refused(case: Case, kernel: GaussianKernel, message: str) -> None:
    with pytest.raises(InputError, match=message):
        case.make(kernel=kernel).fit(rows())


@ALL
@pytest.mark.parametrize(
    ("parameter", "value"), [("kernel", "rbf"), ("kernel", GaussianKernel), ("random_state", "zero")], ids=str
)
def test_parameters_of_the_wrong_kind_are_refused(case: Case, parameter: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"The '{parameter}' parameter of {case.cls.__name__}"):
        case.make(**{parameter: value}).fit(rows())


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("sketch", "srht"),
        ("sketch", None),
        ("max_degree", 0),
        ("max_degree", 2.5),
        ("n_allocation_rows", 1),
        ("allocation", "global"),
    ],
)
def test_parameters_of_the_optimised_map_are_checked(parameter: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"The '{parameter}' parameter of OptimizedMaclaurinFeatures"):
        OptimizedMaclaurinFeatures(**{parameter: value}).fit(rows())
