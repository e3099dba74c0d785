"""The fitted state of an estimator: one frozen record, assigned once at the end of `fit`.

An estimator keeps what it learns in a frozen dataclass and nowhere else::

    @dataclass(frozen=True, eq=False)
    class LineFit:
        slope: float

    class Line(Fitted, BaseEstimator):
        slope_ = OfFit[float]()

        def fit(self, X, y):
            with unchanged_on_failure(self):
                self._fitted = LineFit(slope=...)
            return self

A refit replaces the whole record, so that nothing of an earlier fit is left; a fit that fails replaces nothing.
(``n_features_in_`` and ``feature_names_in_`` are scikit-learn's own.)
"""

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from numbers import Real
from typing import Any, Generic, Self, TypeVar, overload

import joblib
import numpy as np
from sklearn.base import BaseEstimator

from lmgp.errors import InputError
from lmgp.saving.files import Savable
from lmgp.utils.parameters import KnownParameters

Value = TypeVar("Value")


class OfFit(Generic[Value]):
    """A public attribute that is read from the record: ``slope_ = OfFit[float]()`` reads ``self._fitted.slope``.

    Reading it raises an AttributeError before `fit`, and where the record of this fit has no such field; `hasattr` is
    then False.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self._field = name.removesuffix("_")

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...
    def __get__(self, instance: object | None, owner: type) -> Self | Value:
        if instance is None:
            return self
        record = instance.__dict__.get("_fitted")
        if not hasattr(record, self._field):
            reason = "it is not fitted" if record is None else "this fit has none"
            raise AttributeError(f"{owner.__name__} has no {self._field}_: {reason}.")
        return getattr(record, self._field)


# What to give in place of a value that has no parameters, by the name of the parameter.
GIVEN_INSTEAD = {
    "kernel": "None and names stand for a kernel that is learned in fit. Give one, such as kernel=GaussianKernel()",
    "features": "None stands for a map that is chosen in fit. Give one, such as features=TaylorFeatures(120)",
    "regressor": "None stands for GPRegressor(). Give one, such as regressor=GPRegressor()",
    "estimator": "Give an estimator, such as estimator=SVC()",
}


class Fitted(Savable, KnownParameters):
    """Mixin of estimators whose fitted state is one record, ``_fitted``: they can be saved."""

    _fitted: Any

    def set_params(self, **params: Any) -> Self:
        """Set parameters of this estimator, and of those that it holds: ``kernel__lengthscale``.

        Parameters
        ----------
        **params

        Returns
        -------
        self

        Raises
        ------
        InputError
            If a parameter that holds another is None, or something else without parameters.
        """
        for key in params:
            name, nested, _ = key.partition("__")
            value = params.get(name, getattr(self, name, None))
            if nested and name in GIVEN_INSTEAD and hasattr(self, name) and not hasattr(value, "set_params"):
                raise InputError(
                    f"{key} of {type(self).__name__} cannot be set: {name}={value!r} has no parameters. "
                    f"{GIVEN_INSTEAD[name]}, or leave out {key}."
                )
        return super().set_params(**params)  # type: ignore[misc]

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in self.__dict__


def forget(estimator: object) -> None:
    """Remove what an estimator has learned: its attributes whose names end in an underscore."""
    for name in [name for name in vars(estimator) if name.endswith("_") and not name.startswith("_")]:
        delattr(estimator, name)


@contextmanager
def unchanged_on_failure(estimator: object) -> Iterator[None]:
    """Give an estimator back the attributes that it had, if what happens inside fails."""
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def digest(value: object) -> str:
    """Return a name that two values share if they are equal: numbers, arrays, kernels, estimators and records.

    1, 1.0 and an array of one 1.0 are equal. Of a record, fields with ``compare=False`` do not count. A value that
    cannot be pickled, such as one that holds a lambda, equals itself only.
    """
    try:
        return str(joblib.hash(_plain(value)))
    except (pickle.PicklingError, AttributeError, TypeError):
        return f"{type(value).__name__} at {id(value):#x}"


def _plain(value: Any) -> Any:
    """Reduce a value to what its equality depends on: names, arrays, tuples and dictionaries."""
    if isinstance(value, Real | list | tuple):
        try:
            value = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            return tuple(map(_plain, value))
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, np.ndarray):
        value = value.astype(np.float64) if value.dtype.kind in "iuf" else value
        return value.item() if value.size == 1 else np.ascontiguousarray(value)
    if isinstance(value, BaseEstimator):
        learned = {name: item for name, item in vars(value).items() if name.endswith("_")}  # of other libraries
        parameters, fitted = value.get_params(deep=False), vars(value).get("_fitted", learned)
        return type(value).__qualname__, _plain(parameters), _plain(fitted)
    if is_dataclass(value) and not isinstance(value, type):
        compared = {field.name: getattr(value, field.name) for field in fields(value) if field.compare}
        return type(value).__qualname__, _plain(compared)
    return value
