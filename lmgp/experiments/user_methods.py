"""Methods of users in comparisons: ``module:object`` names a feature map, a regressor or what makes one."""

import importlib
import inspect
import os
import sys
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from lmgp.errors import InputError, nearest_names
from lmgp.selection.methods import Allocation, Method, register

# A factory is called once with this number of features, to see what it makes.
TRIED_SIZE = 8


def user_method(name: str) -> Method:
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
    named: Any = module
    for part in path.split("."):
        if not part or not hasattr(named, part):
            known = [other for other in dir(module) if getattr(getattr(module, other), "__module__", "") == module_name]
            raise InputError(
                f"Method {name!r}: module {module_name} has no object {path!r}; {nearest_names(path, known)}"
            )
        named = getattr(named, part)
    # A name that equal files of the module share: results of another file are not read back.
    file = getattr(module, "__file__", None)
    source = sha256(Path(file).read_bytes()).hexdigest()[:8] if file else ""
    if isinstance(named, Method):
        return register(replace(named, name=name, source=source))
    parameters = _parameters(name, named)

    def make(n_features: int, _: Allocation, random_state: int | None) -> Any:
        arguments = {"n_features": n_features, "random_state": random_state}
        try:
            return named(**{key: value for key, value in arguments.items() if parameters is None or key in parameters})
        except Exception as error:
            raise InputError(
                f"Method {name!r} with n_features={n_features} and random_state={random_state} failed: "
                f"{type(error).__name__}: {error}"
            ) from error

    mapped = _is_map(name, make(TRIED_SIZE, "local", 0))
    sized = parameters is None or "n_features" in parameters
    return register(Method(name, path.replace("_", " "), "own", make, mapped=mapped, sized=sized, source=source))


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
        if error.name is None or not (module == error.name or module.startswith(f"{error.name}.")):
            reason = f"module {module} needs {error.name}, which is not installed"
        elif module.endswith(".py"):
            reason = f"there is no module {module!r}; give its name without .py"
        else:
            reason = f"there is no module {module!r}; it was looked for in {here} and in all that Python has installed"
        raise InputError(f"Method {name!r}: {reason}.") from error
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else "no message"
        raise InputError(
            f"Method {name!r}: module {module} cannot be imported: {type(error).__name__}: {first}."
        ) from error


def _parameters(name: str, named: Any) -> set[str] | None:
    """Return the parameters of a class or function that makes estimators; None where it takes any."""
    try:
        parameters = inspect.signature(named).parameters
    except (TypeError, ValueError):  # what is not called, and what C code defines
        raise _unexpected(name, f"is {_described(named)}") from None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return None
    if not inspect.isclass(named) and not {"n_features", "random_state"} <= parameters.keys():
        raise _unexpected(name, f"is a function of {', '.join(parameters) or 'nothing'}")
    is_map = inspect.isclass(named) and hasattr(named, "transform") and not hasattr(named, "predict")
    if is_map and "n_features" not in parameters:
        raise InputError(
            f"Method {name!r} is a class of maps without the parameter n_features; give a function of n_features and "
            "random_state that makes one."
        )
    return set(parameters)


def _is_map(name: str, estimator: Any) -> bool:
    """Tell a feature map from a regressor, and refuse what is neither."""
    if inspect.isclass(estimator) or not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
        raise _unexpected(name, f"makes {_described(estimator)}, which is no scikit-learn estimator")
    kind = type(estimator).__name__
    if hasattr(estimator, "predict"):
        taken = inspect.signature(estimator.predict).parameters
        if not {"return_std", "include_noise"} <= taken.keys():
            raise _unexpected(name, f"makes a {kind}, whose predict takes {', '.join(taken) or 'nothing'}")
        return False
    if not hasattr(estimator, "transform"):
        raise _unexpected(name, f"makes a {kind}, which has neither transform nor predict")
    return True


def _unexpected(name: str, got: str) -> InputError:
    return InputError(
        f"Method {name!r} {got}; expected is a class of feature maps with the parameter n_features, a class of "
        "regressors whose predict takes return_std and include_noise, a function of n_features and random_state that "
        "makes one of either, or a lmgp.selection.methods.Method."
    )


def _described(named: Any) -> str:
    if inspect.ismodule(named):
        return f"the module {named.__name__}"
    return f"the class {named.__name__}" if inspect.isclass(named) else f"an object of type {type(named).__name__}"
