"""Every public estimator and kernel: malformed rows and targets to every method that takes rows, and parameters."""

import inspect
import re
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import lmgp
from lmgp.errors import LmgpError
from lmgp.kernels.base import Kernel
from tests.malformed.conftest import (
    LABELS,
    NUMERIC,
    ROWS,
    TARGETS,
    X,
    estimators,
    example,
    kernel,
    public,
    targets,
)

# What subclasses implement and models call: of rows that were checked before.
HOOKS = {
    "draw", "evaluate", "in_lengthscales", "fit_around", "fit_checked", "centre_of", "missing_variance",
    "kernel_map", "prior", "log_density",
}  # fmt: skip
ESTIMATORS = estimators()
KERNELS = list(public(Kernel))
# What GPRegressor takes: see tests/estimators/test_columns.py.
TABLES = {"nan", "a missing value", "dates", "a frame with text", "frame of missing"}
FITTED: dict[type, Any] = {}


def fitted(cls: type) -> Any:
    """A fitted estimator, one for all cases: what fails leaves it as it was."""
    if cls not in FITTED:
        estimator = example(cls)
        FITTED[cls] = estimator.fit(X, targets(estimator))
    return FITTED[cls]


def methods_of_rows(cls: type) -> list[str]:
    """The public methods with a parameter X that is given first."""
    found = []
    for name in dir(cls):
        method = inspect.getattr_static(cls, name)
        if name.startswith("_") or name in HOOKS or not callable(getattr(cls, name, None)):
            continue
        if isinstance(method, classmethod | staticmethod):
            continue
        parameters = list(inspect.signature(getattr(cls, name)).parameters)
        if len(parameters) > 1 and parameters[1] == "X":
            found.append(name)
    return found


def call(estimator: Any, name: str, rows: Any) -> Any:
    """Call a method with rows, and with values of what else it needs."""
    method = getattr(estimator, name)
    given = {"y": targets(estimator), "quantile": 0.5, "threshold": 0.0}
    return method(rows, **{one: given[one] for one in inspect.signature(method).parameters if one in given})


METHODS = [(cls, name) for cls in ESTIMATORS for name in methods_of_rows(cls) if hasattr(fitted(cls), name)]
IDS = [f"{cls.__name__}.{name}" for cls, name in METHODS]


def test_methods_are_found() -> None:
    found = {cls.__name__: methods_of_rows(cls) for cls in ESTIMATORS}
    assert set(found["SpectralGPRegressor"]) >= {"fit", "predict", "sample_y", "score", "update", "with_rows"}
    assert set(found["TaylorFeatures"]) >= {"fit", "transform", "fit_transform"}
    assert set(found["TransformedTargetGPRegressor"]) >= {
        "predict_distribution",
        "predict_interval",
        "predict_quantile",
    }
    assert all("fit" in names for names in found.values())


@pytest.mark.parametrize(("cls", "name"), METHODS, ids=IDS)
@pytest.mark.filterwarnings("ignore")
def test_rows(cls: type, name: str) -> None:
    for case, (rows, told) in ROWS.items():
        estimator = clone(fitted(cls)) if name.startswith("fit") else fitted(cls)
        if case == "sparse" and (accepts_sparse(estimator) or name == "operation_count"):
            continue
        if cls is lmgp.GPRegressor and name == "fit" and case in TABLES:
            continue
        if case in ("a path", "a parquet file") and "RBF" in cls.__name__ and name == "fit":
            told = "fit takes rows X and targets y; got str"
        with pytest.raises((ValueError, TypeError)) as caught:
            call(estimator, name, rows)
        assert_said(caught.value, told, f"{cls.__name__}.{name} of {case}")
    if not name.startswith("fit"):
        with pytest.raises(ValueError, match=r"X has 3 features, but \w+ is expecting 2 features"):
            call(fitted(cls), name, np.ones((30, 3)))
        if name == "partial_fit":  # the first call of which is fit
            return
        with pytest.raises(ValueError, match="not fitted yet"):
            call(clone(fitted(cls)), name, X)


def accepts_sparse(estimator: Any) -> bool:
    """Say whether it takes sparse rows."""
    return "RBF" in type(estimator).__name__ or isinstance(estimator, lmgp.TaylorFeatures)


def assert_said(error: BaseException, told: str, where: str) -> None:
    """Assert what a message says."""
    assert re.search(told, str(error), flags=re.DOTALL | re.IGNORECASE), f"{where}: {type(error).__name__}: {error}"


WITH_TARGETS = [(cls, name) for cls, name in METHODS if "y" in inspect.signature(getattr(cls, name)).parameters]
WITH_TARGETS = [(cls, name) for cls, name in WITH_TARGETS if hasattr(cls, "predict")]


@pytest.mark.parametrize(("cls", "name"), WITH_TARGETS, ids=[f"{cls.__name__}.{name}" for cls, name in WITH_TARGETS])
@pytest.mark.filterwarnings("ignore")
def test_targets(cls: type, name: str) -> None:
    of_numbers = targets(example(cls)) is not LABELS
    for case, (y, told) in (TARGETS | (NUMERIC if of_numbers and name != "score" else {})).items():
        if case == "two columns" and name in TAKE_TARGETS and issubclass(cls, TAKE_TARGETS[name]):
            continue  # which are two targets
        estimator = clone(fitted(cls)) if name.startswith("fit") else fitted(cls)
        if name == "score":
            told = OF_SCORES.get(case, ".")  # the words are those of scikit-learn's scores
        if cls is lmgp.estimators.MultiTargetGPRegressor:
            told = f"{told}|Expected 2D array, got 1D array"
        with pytest.raises((ValueError, TypeError)) as caught:
            getattr(estimator, name)(X, y)
        assert_said(caught.value, told, f"{cls.__name__}.{name} of {case}")


TAKE_TARGETS: dict[str, Any] = {
    "fit": (lmgp.estimators.GaussianProcess, lmgp.estimators.MultiTargetGPRegressor),
    "calibrate": lmgp.estimators.MultiTargetGPRegressor,
    "score": lmgp.estimators.MultiTargetGPRegressor,
}
OF_SCORES = {"nan": "NaN", "short": r"inconsistent numbers of samples: \[(30, 29|29, 30)\]"}


class Nothing:
    """Of no use as any parameter."""

    def __repr__(self) -> str:
        return "Nothing()"


PARAMETERS = [(cls, name) for cls in ESTIMATORS for name in inspect.signature(cls).parameters]


@pytest.mark.parametrize(("cls", "name"), PARAMETERS, ids=[f"{cls.__name__}({name})" for cls, name in PARAMETERS])
@pytest.mark.filterwarnings("ignore")
def test_parameters_of_estimators(cls: type, name: str) -> None:
    estimator = example(cls)
    y = targets(estimator)
    with pytest.raises((ValueError, TypeError)) as caught:
        estimator.set_params(**{name: Nothing()}).fit(X, y)
    assert_said(caught.value, f"(?s)({NAMED.get(name, name)}.*)?Nothing", f"{cls.__name__}({name}=Nothing())")


# What messages call a parameter that is a part of others.
NAMED = {"left": "part", "right": "part"}
OF_KERNELS = [(cls, name) for cls in KERNELS for name in inspect.signature(cls).parameters]


@pytest.mark.parametrize(("cls", "name"), OF_KERNELS, ids=[f"{cls.__name__}({name})" for cls, name in OF_KERNELS])
def test_parameters_of_kernels(cls: type, name: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        kernel(cls).set_params(**{name: Nothing()})(X)
    assert_said(caught.value, "Nothing", f"{cls.__name__}({name}=Nothing())")


@pytest.mark.parametrize("cls", KERNELS)
def test_rows_of_kernels(cls: type) -> None:
    made = kernel(cls)
    for case, (rows, told) in ROWS.items():
        for arguments in ((rows,), (X, X if rows is None else rows)):
            if rows is None and len(arguments) == 2:
                continue
            with pytest.raises((ValueError, TypeError)) as caught:
                made(*arguments)
            assert_said(caught.value, told, f"{cls.__name__} of {case}")
    with pytest.raises(ValueError, match="X and Z must have the same number of columns; got 2 and 3"):
        made(X, np.ones((4, 3)))
    for other in (3, "a", None):
        with pytest.raises(TypeError, match="unsupported operand"):
            made + other


@pytest.mark.parametrize("cls", [cls for cls in ESTIMATORS if hasattr(cls, "predict")])
@pytest.mark.parametrize("of", ["X", "y"])
@pytest.mark.filterwarnings("ignore")
def test_huge_values_are_refused_or_predicted_finitely(cls: type, of: str) -> None:
    estimator = example(cls)
    rows, y = (1e200 * X if of == "X" else X), targets(estimator)
    if of == "y" and y is LABELS:
        return
    try:
        found = np.asarray(estimator.fit(rows, 1e200 * y if of == "y" else y).predict(rows))
    except (LmgpError, ValueError) as error:
        assert_said(error, "large|overflow|scale|GiB|noise variance|diverged|finite", f"{cls.__name__} of huge {of}")
    else:
        assert found.dtype.kind not in "fc" or np.all(np.isfinite(found))
