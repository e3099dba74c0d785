"""Targets of shape (n, t), and a regressor for each."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from lmgp.columns import NamedColumns, checked_table
from lmgp.errors import InputError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class OneFit:
    """The fitted state for y of shape (n,): the regressor of it."""

    estimators: tuple[Any, ...]


@dataclass(frozen=True, eq=False)
class EachFit:
    """The fitted state of targets apart: a regressor of each, and their names."""

    estimators: tuple[Any, ...]
    target_names: NDArray[Any]


@dataclass(frozen=True)
class Known:
    """A prediction that is made: what methods that ask for one take in place of a model."""

    mean: Floats
    std: Floats

    def predict(self, X: Any, **_: Any) -> tuple[Floats, Floats]:
        """Return the mean and the standard deviation."""
        return self.mean, self.std


def is_table(y: Any) -> bool:
    """Say whether these are targets of shape (n, t); all else is left to the regressor."""
    try:
        return np.asarray(y).ndim == 2
    except ValueError:  # lists of different lengths
        return False


def checked_targets(y: Any, least: int = 2) -> tuple[Floats, NDArray[Any]]:
    """Return targets as floats of shape (n, t), and their names."""
    if getattr(y, "shape", ())[1:] == (0,):
        raise InputError(f"y must have one column a target; got none, shape {y.shape}.")
    try:
        targets: Floats = checked_table(y, "y", ensure_min_samples=least, ensure_min_features=1)
    except InputError as error:
        if "NaN" not in str(error):
            raise
        raise InputError(
            f"{error} All targets of a row are needed: to use rows that lack one, fit one regressor for each target to "
            "the rows that have it."
        ) from error
    names = y.names if isinstance(y, NamedColumns) else getattr(y, "columns", range(targets.shape[1]))
    return targets, np.array([str(name) for name in names], dtype=object)


def noise_of_shape(shape: tuple[int, ...], y: Floats) -> InputError:
    """Make the error of noise variances of another shape than targets."""
    return InputError(
        f"noise_variances must have one value a row, shape ({len(y)},), or one a row and target, shape {y.shape}; got "
        f"shape {shape}."
    )


def apart(
    regressor: Any, X: Any, y: Floats, names: Any, sample_weight: Any = None, noise_variances: Any = None
) -> tuple[Any, ...]:
    """Fit a regressor to each target; what is wrong with one is said with its name."""
    options = {} if sample_weight is None else {"sample_weight": sample_weight}
    per_target = noise_variances is not None and np.ndim(noise_variances) == 2
    if per_target and np.shape(noise_variances) != y.shape:
        raise noise_of_shape(np.shape(noise_variances), y)
    found = []
    for j in range(y.shape[1]):
        if noise_variances is not None:
            options["noise_variances"] = np.asarray(noise_variances)[:, j] if per_target else noise_variances
        try:
            found.append(clone(regressor).fit(X, np.ascontiguousarray(y[:, j]), **options))
        except InputError as error:
            raise type(error)(f"Target {str(names[j])!r}: {error}") from error
    return tuple(found)


def stacked(found: list[Any], axis: int) -> Any:
    """Stack the results of all targets: arrays, or tuples of them."""
    if isinstance(found[0], tuple):
        return tuple(np.stack(parts, axis=axis) for parts in zip(*found, strict=True))
    return np.stack(found, axis=axis)
