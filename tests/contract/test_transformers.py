"""What every feature map of another kernel than the Gaussian does: those of polynomial kernels, and projections."""

import pickle
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from lmgp.features import CraftFeatures, PolynomialMaclaurinFeatures, SphericalFourierFeatures

Floats = NDArray[np.float64]

MAPS = {
    "spherical": SphericalFourierFeatures(40, a=3.0),
    "spherical_orthogonal": SphericalFourierFeatures(40, orthogonal=True),
    "polynomial": PolynomialMaclaurinFeatures(40, degree=5, gamma=0.3),
    "craft_gaussian": CraftFeatures(PolynomialMaclaurinFeatures(64), 40),
    "craft_srht": CraftFeatures(PolynomialMaclaurinFeatures(64), 40, projection="srht"),
}
EVERY = pytest.mark.parametrize("features", MAPS.values(), ids=MAPS)


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LMGP_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


def rows(n: int = 9, d: int = 3) -> Floats:
    """Rows of unit norm, which all maps take."""
    X = np.random.default_rng(0).standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def seeded(features: Any, random_state: Any = 0) -> Any:
    return clone(features).set_params(random_state=random_state)


@EVERY
@pytest.mark.parametrize("n_features", [2, 7, 40])
def test_columns_are_finite_and_have_names(features: Any, n_features: int) -> None:
    X = rows()
    fitted = seeded(features).set_params(n_features=n_features).fit(X)
    columns = fitted.transform(X)
    made = n_features - n_features % 2 if isinstance(features, SphericalFourierFeatures) else n_features
    assert columns.dtype == np.float64
    assert columns.shape == (9, made)
    assert np.isfinite(columns).all()
    assert fitted.transform(X[:1]).shape == (1, made)
    names = fitted.get_feature_names_out()
    assert len(set(names)) == len(names) == made


@pytest.mark.slow
@EVERY
@pytest.mark.parametrize("d", [1, 2, 17])
def test_any_number_of_inputs_will_do(features: Any, d: int) -> None:
    X = rows(d=d)
    assert np.isfinite(seeded(features).fit(X[:1]).transform(X)).all()


@EVERY
def test_fit_draws_as_the_random_state_says(features: Any) -> None:
    X = rows()
    expected = seeded(features, 3).fit_transform(X)
    np.testing.assert_array_equal(seeded(features, 3).fit(X).transform(X), expected)
    np.testing.assert_array_equal(seeded(features, np.random.default_rng(3)).fit_transform(X), expected)
    for other in (4, None):
        assert not np.array_equal(seeded(features, other).fit_transform(X), expected)


@EVERY
def test_the_global_random_state_is_not_touched(features: Any) -> None:
    before = joblib.hash(np.random.get_state())  # noqa: NPY002
    seeded(features, None).fit(rows())
    assert joblib.hash(np.random.get_state()) == before  # noqa: NPY002


@EVERY
def test_a_clone_and_a_copy_give_the_same_columns(features: Any, tmp_path: Path) -> None:
    X = rows()
    fitted = seeded(features).fit(X)
    columns = fitted.transform(X)
    copied = clone(fitted)
    with pytest.raises(NotFittedError):
        copied.transform(X)
    np.testing.assert_array_equal(copied.fit_transform(X), columns)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), columns)
    joblib.dump(fitted, tmp_path / "map")
    np.testing.assert_array_equal(joblib.load(tmp_path / "map", mmap_mode="r").transform(X), columns)


BAD_ROWS: dict[str, tuple[Any, str]] = {
    "nan": (np.array([[np.nan, 1.0, 0.0]]), "NaN"),
    "infinity": (np.array([[np.inf, 1.0, 0.0]]), "infinity"),
    "one dimension": (np.array([1.0, 0.0, 0.0]), "Expected 2D array"),
    "columns": (np.eye(4), r"X has 4 features, but \w+ is expecting 3 features"),
    "sparse": (csr_array(np.eye(3)), "[Ss]parse data was passed.*toarray"),
    "text": ([["a", "b", "c"]], "could not convert string to float"),
    "no rows": (np.ones((0, 3)), "0 sample"),
}


@EVERY
@pytest.mark.parametrize("bad", BAD_ROWS)
def test_rows_that_cannot_be_used_are_refused(features: Any, bad: str) -> None:
    given, message = BAD_ROWS[bad]
    fitted = seeded(features).fit(rows())
    with pytest.raises((ValueError, TypeError), match=message):
        fitted.transform(given)
    if bad != "columns":
        with pytest.raises((ValueError, TypeError), match=message):
            seeded(features).fit(given)


@EVERY
@pytest.mark.parametrize(("parameter", "value"), [("n_features", 0), ("n_features", 2.5), ("random_state", "zero")])
def test_parameters_of_the_wrong_kind_are_refused(features: Any, parameter: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"The '{parameter}' parameter of {type(features).__name__}"):
        clone(features).set_params(**{parameter: value}).fit(rows())
