"""What is public: the names at the top of the package, and those that the subpackages list."""

import importlib
import inspect
from collections.abc import Iterator
from typing import Any

# In this order: a name at the top, such as `lmgp.GPRegressor`, is listed under it alone.
SUBPACKAGES = (
    *("estimators", "features", "kernels", "learning", "metrics", "io", "rbf", "sgd", "plots"),
    *("gpytorch", "experiments.datasets"),
)
PACKAGES = ("lmgp", *(f"lmgp.{name}" for name in SUBPACKAGES))
# Classes to derive from.
BASES = ("GaussianProcess", "FeatureMap", "KernelMap", "Kernel", "StationaryKernel")


def members() -> dict[str, Any]:
    """What is public, by names such as ``lmgp.GPRegressor`` and ``lmgp.rbf.gamma_max``, each once."""
    by_identity: dict[int, tuple[str, Any]] = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            by_identity.setdefault(id(getattr(module, name)), (f"{package}.{name}", getattr(module, name)))
    return dict(by_identity.values())


def classes(kind: type) -> Iterator[type]:
    """The public classes of a kind that are no bases."""
    return (
        member
        for member in members().values()
        if inspect.isclass(member) and issubclass(member, kind) and member.__name__ not in BASES
    )
