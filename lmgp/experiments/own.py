"""Methods of one's own in comparisons: ``module:object`` names a feature map, a regressor or what makes one."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path
from typing import Any

from lmgp.errors import InputError, nearest_names
from lmgp.methods import METHODS, Allocation, Method, register

# A factory is called once with this number of features, to see what it makes.
TRIED_SIZE = 8

EXPECTED = (
    "expected is a class of feature maps with the parameter n_features, a class of regressors whose predict takes "
    "return_std and include_noise, a function of n_features and random_state that makes one of either, or a "
    "lmgp.methods.Method"
)


def is_own(name: str) -> bool:
    """Say whether a name is one of ``module:object``."""
    return ":" in name


def own_method(name: str) -> Method:
    """Import what ``module:object`` names, and register it as a method of this name.

    Parameters
    ----------
    name : str
        The module is one that Python finds, from the working folder first.

    Returns
    -------
    Method
        A feature map is used in `FeaturizedGPRegressor`; for other models the object is a `Method`, which may be
        localized.

    Raises
    ------
    InputError
        If there is no such module or object, or it is of another kind.
    """
    module_name, _, path = name.partition(":")
    module = _imported(name, module_name)
    found: Any = module
    for part in path.split("."):
        if not part or not hasattr(found, part):
            known = [one for one in dir(module) if getattr(getattr(module, one), "__module__", "") == module_name]
            raise InputError(
                f"Method {name!r}: module {module_name} has no object {path!r}; {nearest_names(path, known)}"
            )
        found = getattr(found, part)
    source = _digest(module)
    if isinstance(found, Method):
        fields = {one: getattr(found, one) for one in found.__dataclass_fields__}
        return register(Method(**{**fields, "name": name, "source": source}))
    make, sized = _maker(name, found)
    made = _called(name, make, TRIED_SIZE)
    mapped = _kind(name, made) == "map"
    label = path.replace("_", " ")
    return register(Method(name, label, "own", _of_method(name, make), mapped=mapped, sized=sized, source=source))


def register_own(names: Iterable[str]) -> None:
    """Register those of some names that are ``module:object``, see `own_method`."""
    for name in dict.fromkeys(names):
        if is_own(name):
            own_method(name)


def _imported(name: str, module: str) -> Any:
    if not module:
        raise InputError(f"Method {name!r} names no module; give it as module:object, such as mymaps:Hinges.")
    here = os.getcwd()
    if here not in sys.path:  # as python -m does; the command lmgp has the folder of its script in place of it
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            told = "give its name without .py" if module.endswith(".py") else f"it was looked for in {here} and in all"
            told = told if module.endswith(".py") else f"{told} that Python has installed"
            raise InputError(f"Method {name!r}: there is no module {module!r}; {told}.") from None
        raise InputError(f"Method {name!r}: module {module} needs {error.name}, which is not installed.") from error
    except Exception as error:
        what = str(error).splitlines()[0] if str(error) else "no message"
        raise InputError(
            f"Method {name!r}: module {module} cannot be imported: {type(error).__name__}: {what}."
        ) from error


def _maker(name: str, found: Any) -> tuple[Callable[[int, int | None], Any], bool]:
    """Return what makes the unfitted estimator of a size and a seed, and whether there is a size."""
    if not callable(found):
        raise InputError(f"Method {name!r} is {_described(found)}; {EXPECTED}.")
    try:
        parameters = inspect.signature(found).parameters
    except (TypeError, ValueError):  # what C code defines
        raise InputError(f"Method {name!r} is {_described(found)}; {EXPECTED}.") from None
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
    if not inspect.isclass(found) and not {"n_features", "random_state"} <= parameters.keys() and not takes_all:
        raise InputError(f"Method {name!r} is a function of {', '.join(parameters) or 'nothing'}; {EXPECTED}.")
    sized = takes_all or "n_features" in parameters
    if inspect.isclass(found) and not sized and hasattr(found, "transform") and not hasattr(found, "predict"):
        raise InputError(
            f"Method {name!r} is a class of maps without the parameter n_features; give a function of n_features and "
            "random_state that makes one."
        )

    def make(n_features: int, random_state: int | None) -> Any:
        given = {"n_features": n_features, "random_state": random_state}
        return found(**{one: value for one, value in given.items() if takes_all or one in parameters})

    return make, sized


def _of_method(name: str, make: Callable[[int, int | None], Any]) -> Callable[[int, Allocation, int | None], Any]:
    return lambda n_features, _, random_state: _called(name, make, n_features, random_state)


def _called(name: str, make: Callable[[int, int | None], Any], n_features: int, random_state: int | None = 0) -> Any:
    try:
        return make(n_features, random_state)
    except Exception as error:
        raise InputError(
            f"Method {name!r} with n_features={n_features} and random_state={random_state} failed: "
            f"{type(error).__name__}: {error}"
        ) from error


def _kind(name: str, made: Any) -> str:
    """Say whether an estimator is a "map" or a "regressor"."""
    if inspect.isclass(made) or not (hasattr(made, "fit") and hasattr(made, "get_params")):
        raise InputError(f"Method {name!r} makes {_described(made)}, which is no scikit-learn estimator; {EXPECTED}.")
    if hasattr(made, "predict"):
        taken = inspect.signature(made.predict).parameters
        if not {"return_std", "include_noise"} <= taken.keys():
            raise InputError(
                f"Method {name!r} makes a {type(made).__name__}, whose predict takes {', '.join(taken) or 'nothing'}; "
                f"{EXPECTED}."
            )
        return "regressor"
    if hasattr(made, "transform"):
        return "map"
    raise InputError(
        f"Method {name!r} makes a {type(made).__name__}, which has neither transform nor predict; {EXPECTED}."
    )


def _described(found: Any) -> str:
    if inspect.ismodule(found):
        return f"the module {found.__name__}"
    return f"the class {found.__name__}" if inspect.isclass(found) else f"an object of type {type(found).__name__}"


def _digest(module: Any) -> str:
    """Return a name that equal files of a module share; results of another file are not read back."""
    file = getattr(module, "__file__", None)
    return sha256(Path(file).read_bytes()).hexdigest()[:8] if file else ""


def mark_of(mark: str, method: str) -> str:
    """Return the fingerprint of the results of one method: with that of its code, where it is not the package's."""
    source = METHODS[method].source if method in METHODS else ""
    return f"{mark}-{source}" if source else mark
