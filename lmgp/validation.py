"""What every estimator does with its input at the boundary: random state, tensors, rows and their weights."""

import math
import warnings
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from lmgp.columns import NamedColumns, dask_kind, refuse_other_than_numbers, refuse_what_is_no_table
from lmgp.errors import InputError

if TYPE_CHECKING:
    import torch

RandomState = int | np.random.Generator | np.random.RandomState | None


def generator(random_state: RandomState) -> np.random.Generator:
    """Make a generator from what scikit-learn users pass as ``random_state``.

    Parameters
    ----------
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        ``None`` takes fresh entropy from the operating system: no global state is read.

    Returns
    -------
    numpy.random.Generator
    """
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(int(random_state.randint(2**31)))
    if isinstance(random_state, Integral) and random_state < 0:
        raise InputError(f"random_state must be a non-negative integer, a generator or None; got {random_state}.")
    return np.random.default_rng(random_state)


def spawn(rng: np.random.Generator, n: int) -> list[np.random.Generator]:
    """Make n independent generators that depend on the state of `rng`, and advance it."""
    return [np.random.default_rng(seed) for seed in rng.integers(2**63, size=(n, 4))]


def as_tensor(array: NDArray[Any]) -> "torch.Tensor":
    """View an array of numbers as a tensor; only what torch cannot share (read-only, negative strides) is copied."""
    import torch  # here, so that data sets are read without it

    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    return torch.from_numpy(array)


@dataclass(frozen=True)
class Rows:
    """Validated training rows.

    Attributes
    ----------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    weights : ndarray of shape (n,) or None
        Positive; a weight w stands for w repetitions of the row. None means 1 everywhere.
    noise_variances : ndarray of shape (n,) or None
        Noise variance of each row, in squared units of y. None means the same everywhere.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    weights: NDArray[np.float64] | None = None
    noise_variances: NDArray[np.float64] | None = None

    def copy(self) -> "Rows":
        """Return rows that do not change with the caller's arrays."""
        return self.take(np.arange(len(self.y)))

    def take(self, index: NDArray[Any] | slice) -> "Rows":
        """Return the rows at `index` (integers, a mask or a slice)."""

        def of(array: NDArray[np.float64]) -> NDArray[np.float64]:
            if isinstance(index, slice) or index.dtype == bool:
                return array[index]
            return array.take(index, axis=0)  # ten times faster, for rows of a few columns

        return Rows(
            of(self.X),
            of(self.y),
            None if self.weights is None else of(self.weights),
            None if self.noise_variances is None else of(self.noise_variances),
        )

    def joined(self, other: "Rows", noise_variance: float) -> "Rows":
        """Return these rows and others; `noise_variance` is that of rows without one of their own."""

        def of(name: str, missing: float) -> NDArray[np.float64] | None:
            parts = getattr(self, name), getattr(other, name)
            if all(part is None for part in parts):
                return None
            pairs = zip((self, other), parts, strict=True)
            return np.concatenate([np.full(len(rows.y), missing) if one is None else one for rows, one in pairs])

        X, y = (np.concatenate(parts) for parts in ((self.X, other.X), (self.y, other.y)))
        return Rows(X, y, of("weights", 1.0), of("noise_variances", noise_variance))

    @property
    def rows_kept(self) -> int:
        """The number of rows."""
        return len(self.y)

    @property
    def mean(self) -> float:
        """The weighted mean of y: to the last digit the same in any order of the rows."""
        if self.weights is None:
            return float(np.sort(self.y, axis=None).mean())
        return float(np.sort(self.weights * self.y).sum() / np.sort(self.weights).sum())

    def center(self, known: Any) -> float:
        """Return the mean of y that is known, or the weighted one for None; see `known_center`."""
        center = known_center(known)
        return self.mean if center is None else center


def known_center(known: Any) -> float | None:
    """Check a mean of y that is known, or None.

    Raises
    ------
    InputError
        If it is no finite number.
    """
    if known is None:
        return None
    if not isinstance(known, Real) or isinstance(known, bool) or not math.isfinite(known):
        raise InputError(f"center must be a finite number, the known mean of y; got {known!r}.")
    return float(known)


def validated(estimator: BaseEstimator, X: Any, **options: Any) -> Any:
    """Check rows as scikit-learn's `validate_data` does, with messages that name columns and rows.

    Parameters
    ----------
    estimator : BaseEstimator
        It gets ``n_features_in_`` and ``feature_names_in_``, or X is checked against them with ``reset=False``.
    X : array-like of shape (n, d)
    **options
        Those of `validate_data`.

    Returns
    -------
    ndarray or sparse array of shape (n, d), of float64
    """
    _refuse_sparse(estimator, X, options)
    refuse_what_is_no_table(X, "X")
    _refuse_other_names(estimator, X, options)
    refuse_other_than_numbers(X, "X")
    return _checked(estimator, X, options)


def validated_pair(estimator: BaseEstimator, X: Any, y: Any, **options: Any) -> tuple[Any, NDArray[np.float64]]:
    """Check rows and numeric targets, one a row; see `validated`.

    Returns
    -------
    X : ndarray or sparse array of shape (n, d)
    y : ndarray of shape (n,)
        Both of float64.
    """
    _refuse_sparse(estimator, X, options)
    refuse_what_is_no_table(X, "X")
    _refuse_other_names(estimator, X, options)
    refuse_other_than_numbers(X, "X")
    if dask_kind(y) is not None:
        refuse_what_is_no_table(y, "y")  # before an array is made of it
    shape = np.asarray(y).shape
    if len(shape) == 2 and shape[1] > 1:
        raise InputError(
            f"y should be a 1d array, got an array of shape {shape} instead. For several targets use "
            f"MultiTargetGPRegressor({type(estimator).__name__}(...))."
        )
    refuse_other_than_numbers(y, "y")
    inputs, target = _checked(estimator, X, {"y": y, "y_numeric": True, **options})
    # Objects and strings become numbers only here.
    return inputs, check_array(target, dtype=np.float64, ensure_2d=False, input_name="y")


def _refuse_other_names(estimator: BaseEstimator, X: Any, options: dict[str, Any]) -> None:
    if hasattr(X, "columns") and options.get("reset") is False:
        # Columns that fit does not know say more than what is missing in them.
        validate_data(estimator, X, reset=False, skip_check_array=True)


def _refuse_sparse(estimator: BaseEstimator, X: Any, options: dict[str, Any]) -> None:
    """Raise a TypeError, as scikit-learn does, for sparse rows where they are not accepted."""
    if options.get("accept_sparse"):
        return
    if hasattr(X, "iloc") and hasattr(X, "sparse"):  # which a frame has if all of its columns are sparse
        raise TypeError(
            f"A data frame of sparse columns was passed as X, but {type(estimator).__name__} needs dense ones: use "
            "X.sparse.to_dense(), or pd.get_dummies(..., sparse=False) where they are made."
        )
    if issparse(X):
        raise TypeError(
            f"Sparse data was passed as X, but dense data is required by {type(estimator).__name__}. Ask for dense "
            "columns where they are made, OneHotEncoder(sparse_output=False) or ColumnTransformer(..., "
            "sparse_threshold=0), or use X.toarray()."
        )


def _checked(estimator: BaseEstimator, X: Any, options: dict[str, Any]) -> Any:
    """Check as scikit-learn does, and take over the names of columns that have them."""
    if not isinstance(X, NamedColumns):
        return validate_data(estimator, X, dtype=np.float64, **options)
    known = getattr(estimator, "feature_names_in_", None)
    if not options.get("reset", True) and known is not None and tuple(known) != X.names:
        raise InputError(f"The columns must be {', '.join(known)}, in this order; got {', '.join(X.names)}.")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")  # they have, as was seen
        checked = validate_data(estimator, np.asarray(X), dtype=np.float64, **options)
    if options.get("reset", True):
        estimator.feature_names_in_ = np.array(X.names, dtype=object)
    return checked


def check_rows(
    X: NDArray[np.float64],
    y: NDArray[np.float64],
    sample_weight: ArrayLike | None,
    noise_variances: ArrayLike | None,
    least: int = 2,
) -> Rows:
    """Check the weights of validated X and y, and leave out the rows of weight zero.

    Raises
    ------
    InputError
        If a weight is negative, a noise variance is not positive, or fewer than `least` rows remain.
    """
    rows = Rows(
        X, y, _check_vector(sample_weight, "sample_weight", X), _check_vector(noise_variances, "noise_variances", X)
    )
    if rows.noise_variances is not None and not np.all(rows.noise_variances > 0):
        at = int(np.argmin(rows.noise_variances))
        raise InputError(
            f"noise_variances must be positive; got {rows.noise_variances[at]:g} for row {at}. "
            "For a row without noise give a small positive variance."
        )
    if rows.weights is not None:
        if np.any(rows.weights < 0):
            at = int(np.argmin(rows.weights))
            raise InputError(f"sample_weight must not be negative; got {rows.weights[at]:g} for row {at}.")
        rows = rows.take(rows.weights > 0)
    if len(rows.y) < least:
        raise InputError(
            f"At least {least} row{'s' if least > 1 else ''} of positive weight {'are' if least > 1 else 'is'} needed "
            f"to fit a model; got {len(rows.y)} sample(s): all other weights are zero."
        )
    return rows


def _check_vector(values: ArrayLike | None, name: str, X: NDArray[np.float64]) -> NDArray[np.float64] | None:
    if values is None:
        return None
    if isinstance(values, Real):  # scikit-learn's convention: one value for all rows
        values = np.full(len(X), float(values))
    if isinstance(values, str):
        raise InputError(f"{name} must have one number a row; got {values!r}.")
    refuse_other_than_numbers(values, name)
    vector: NDArray[np.float64] = check_array(values, ensure_2d=False, dtype=np.float64, input_name=name)
    if vector.shape != (len(X),):
        raise InputError(f"{name} must have one value a row, shape ({len(X)},); got shape {vector.shape}.")
    return vector
