"""What the tables of malformed input share: one example of each public class, and small rows and targets."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.svm import SVC, SVR

from lmgp import (
    ExactGPRegressor,
    GaussianKernel,
    LinearKernel,
    RandomFourierFeatures,
    TaylorFeatures,
    TransformedTargetGPRegressor,
)
from lmgp.estimators import MultiTargetGPRegressor
from lmgp.features import CraftFeatures, LinearFeatures
from lmgp.kernels.base import Kernel
from tests.public import classes as public

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, size=(30, 2))
Y = 3.0 + X[:, 0] + 0.1 * RNG.normal(size=30)
LABELS = np.where(Y > 3.0, "a", "b")
GIVEN = {"kernel": GaussianKernel(1.0), "noise_variance": 0.1}


def example(cls: type) -> Any:
    """An unfitted estimator of a public class."""
    special: dict[str, Any] = {
        "GPRegressor": lambda: cls(**GIVEN),
        "TransformedTargetGPRegressor": lambda: TransformedTargetGPRegressor(ExactGPRegressor(**GIVEN)),
        "MultiTargetGPRegressor": lambda: MultiTargetGPRegressor(ExactGPRegressor(**GIVEN)),
        "KernelSGDRegressor": lambda: cls(n_steps=5, random_state=0),
        "KernelSGDClassifier": lambda: cls(n_steps=5, random_state=0),
        "QuadraticRBF": lambda: cls(SVR(gamma=0.1)),
        "TaylorRBF": lambda: cls(SVC(gamma=0.1)),
        "CraftFeatures": lambda: CraftFeatures(TaylorFeatures(10), 4, random_state=0),
        "LinearFeatures": lambda: LinearFeatures(),
        "SumFeatures": lambda: cls(TaylorFeatures(3), LinearFeatures()),
        "ProductFeatures": lambda: cls(TaylorFeatures(3), LinearFeatures()),
        "ScaledFeatures": lambda: cls(RandomFourierFeatures(4, random_state=0), 2.0),
        "ModulatedFeatures": lambda: cls(LinearFeatures(), row_sums),
        "SphericalCoordinates": lambda: cls(),
        "SphericalFourierFeatures": lambda: cls(4, n_gaussians=1, normalize=True, random_state=0),
    }
    if cls.__name__ in special:
        return special[cls.__name__]()
    if issubclass(cls, ExactGPRegressor.__mro__[1]):
        return cls(**GIVEN)
    return cls(8)


def kernel(cls: type) -> Kernel:
    """A kernel of a public class."""
    special: dict[str, Any] = {
        "ProductKernel": lambda: cls(GaussianKernel(), LinearKernel()),
        "SumKernel": lambda: cls(GaussianKernel(), LinearKernel()),
        "ScaledKernel": lambda: cls(GaussianKernel(), 2.0),
        "ExponentialKernel": lambda: cls(LinearKernel()),
        "ModulatedKernel": lambda: cls(LinearKernel(), row_sums),
        "ColumnsKernel": lambda: cls(GaussianKernel(), [0]),
    }
    return special.get(cls.__name__, cls)()


def row_sums(rows: np.ndarray) -> np.ndarray:
    """A function of rows."""
    return rows.sum(axis=1)


def targets(estimator: Any) -> np.ndarray:
    """Targets that an estimator takes."""
    is_classifier = "Classifier" in type(estimator).__name__ or isinstance(getattr(estimator, "estimator", None), SVC)
    if isinstance(estimator, MultiTargetGPRegressor):
        return np.column_stack((Y, Y[::-1]))
    return LABELS if is_classifier else Y


def changed(array: np.ndarray, value: Any, dtype: Any = object) -> np.ndarray:
    """Change the number of row 2 that comes first."""
    array = array.astype(dtype)
    array[2, ...].flat[0] = value
    if array.ndim == 1:
        array[2] = value
    return array


def estimators() -> list[type]:
    """All public estimators but kernels."""
    return [cls for cls in public(BaseEstimator) if not issubclass(cls, Kernel)]


# What stands in place of rows, and what the message must say.
ROWS: dict[str, tuple[Any, str]] = {
    "none": (None, r"must be a table of numbers, one row for each observation.*; got None\."),
    "a path": ("rows.csv", r"got 'rows\.csv'\. Read a file first, pandas\.read_csv"),
    "a parquet file": ("rows.parquet", r"pandas\.read_parquet\(path\), or .* lmgp\.io\.open_dataset\(path, target="),
    "a dictionary": ({"a": [1.0]}, r"got a dict\. pandas\.DataFrame\(\w\) makes one of it"),
    "an iterator": (iter([[1.0, 2.0]]), r"got a list_iterator\. Give list\(\w\)"),
    "a number": (3.0, "Expected 2D array, got scalar array"),
    "ragged": ([[1.0, 2.0], [3.0]], r"must have the same length; row 0 has 2 values, row 1 has 1 value\."),
    "half flat": ([[1.0, 2.0], 3.0], r"must have the same length; row 0 has 2 values, row 1 has one number"),
    "flat": (X[:, 0], "Expected 2D array, got 1D array"),
    "a cube": (X[:, :, None], "Found array with dim 3"),
    "no rows": (X[:0], r"0 sample\(s\)"),
    "no columns": (X[:, :0], r"0 feature\(s\)"),
    "nan": (changed(X, np.nan, float), r"contains NaN \(missing values\) in 1 of 30 rows \(2\), in column 0"),
    "infinite": (changed(X, np.inf, float), r"contains infinity in 1 of 30 rows \(2\), in column 0"),
    "a missing value": (changed(X, None), "contains NaN"),
    "a word": (changed(X, "red"), r"is not numeric: could not convert string to float: 'red' \(row 2\)"),
    "decimal commas": (changed(X, "1,5"), r'pd\.read_csv\(\.\.\., decimal=","\)'),
    "bytes": (changed(X, b"x"), "is not numeric"),
    "objects": (changed(X, {}), r"is not numeric: .*not 'dict' \(row 2\)"),
    "complex": (X + 1j, "complex numbers"),
    "dates": (np.full(X.shape, "2020-01-01", "datetime64[D]"), "dates, which are not numbers"),
    "a frame with text": (pd.DataFrame({"a": ["x"] * 30, "b": Y}), r"column 'a' of \w is not numeric"),
    "columns of one name": (pd.DataFrame(X, columns=["a", "a"]), "more than one column named 'a'; make the names"),
    "frame of missing": (pd.DataFrame(X).astype("Float64").mask(X > 0.5), "contains NaN"),
    "sparse": (sparse.csr_array(X), r"(?i)sparse.*(toarray|dense)"),
}
# What stands in place of targets, one a row.
TARGETS: dict[str, tuple[Any, str]] = {
    "none": (None, "requires y to be passed, but the target y is None"),
    "a number": (3.0, r"y should be a 1d array, got an array of shape \(\)|Expected array-like|got scalar array"),
    "a name": ("price", r"got 'price'\. Give the column itself, df\['price'\]|y should be a 1d array"),
    "short": (Y[:-1], r"inconsistent numbers of samples: \[(30, 29|29, 30)\]"),
    "two columns": (
        np.column_stack((Y, Y)),
        r"y should be a 1d array, got an array of shape \(30, 2\)|The model has 1 target",
    ),
    "nan": (changed(Y, np.nan, float), "y contains NaN"),
    "infinite": (changed(Y, np.inf, float), "y contains infinity"),
    "complex": (Y + 1j, "(?i)complex"),
}
NUMERIC: dict[str, tuple[Any, str]] = {
    "a word": (changed(Y, "red"), r"could not convert string to float: 'red'"),
    "dates": (np.full(30, "2020-01-01", "datetime64[D]"), "dates, which are not numbers|no support vectors"),
}
