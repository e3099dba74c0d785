"""A tree of objects as JSON and a list of arrays.

None, booleans, text, integers and finite floats are written as JSON has them, and lists as lists. All else is a JSON
object whose ``kind`` says what: see `NODES`. An object or an array that is met again is written once.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import InputError
from lmgp.saving.names import name_of

Node = Any

# Kinds of numpy arrays that are written as they are: numbers, text, dates. Others hold objects, one by one.
KINDS = "biufcSUMm"
# Those of numpy's scalars.
NUMBERS = "biufU"

BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


class Encoder:
    """Writes one tree.

    Parameters
    ----------
    whole : str
        What is written, for messages.

    Attributes
    ----------
    arrays : list of ndarray
        Those of the tree, each contiguous in the order of C.
    rows_kept : int
        The largest number of training rows that an object of the tree says to hold.
    """

    def __init__(self, whole: str) -> None:
        self.arrays: list[NDArray[Any]] = []
        self.rows_kept = 0
        self._whole = whole
        self._array_nodes: dict[tuple[Any, ...], dict[str, Node]] = {}
        self._objects: dict[int, dict[str, Node]] = {}
        self._n_shared = 0
        # What is told apart by its identity must not be freed while the tree is written.
        self._alive: list[object] = []

    def encode(self, value: Any, path: tuple[str, ...] = ()) -> Node:
        """Return the node of a value; `path` leads to it, for messages.

        Raises
        ------
        InputError
            If the value is nothing that a model file holds. The message says where it is.
        """
        if value is None or type(value) in (bool, int, str) or (type(value) is float and math.isfinite(value)):
            return value
        if type(value) is list:
            return [self.encode(one, (*path, str(i))) for i, one in enumerate(value)]
        if _is_tensor(value):
            return self._tensor(value, path)
        if type(value) is np.ndarray and value.dtype.kind in KINDS:
            return self._array(value)
        for kind, is_of, parts in NODES:
            if is_of(value):
                return {"kind": kind} | {name: self.encode(one, (*path, name)) for name, one in parts(value).items()}
        return self._object(value, path)

    def _array(self, value: NDArray[Any]) -> dict[str, Node]:
        """Write an array once, however often it is met; its layout in memory is kept, on which rounding may depend."""
        key = (value.ctypes.data, value.shape, value.strides, value.dtype.str)
        if key not in self._array_nodes:
            axes, node = list(range(value.ndim)), {"kind": "array", "number": len(self.arrays)}
            if not value.flags.c_contiguous:
                axes.sort(key=lambda axis: -abs(value.strides[axis]))
                node["axes"] = axes
            self.arrays.append(np.ascontiguousarray(value.transpose(axes)).reshape([value.shape[a] for a in axes]))
            self._alive.append(value)
            self._array_nodes[key] = node
        return self._array_nodes[key]

    def _tensor(self, value: Any, path: tuple[str, ...]) -> dict[str, Node]:
        try:
            return {"kind": "tensor", "of": self._array(value.detach().numpy())}
        except (TypeError, RuntimeError):
            raise self._refusal(path, f"a tensor of {value.dtype} on {value.device}") from None

    def _object(self, value: Any, path: tuple[str, ...]) -> dict[str, Node]:
        if id(value) in self._objects:
            first = self._objects[id(value)]
            if "id" not in first:
                self._n_shared += 1
                first["id"] = self._n_shared
            return {"kind": "same", "as": first["id"]}
        cls, name = type(value), name_of(type(value))
        if name is None:
            raise self._refusal(path, _described(value))
        node: dict[str, Node] = {"kind": "object", "class": name}
        self._objects[id(value)] = node
        state = state_of(value)
        self._alive += [value, state]
        if not isinstance(state, dict):
            raise self._refusal(path, f"{cls.__name__} with a state that is no dictionary")
        self.rows_kept = max(self.rows_kept, int(getattr(value, "rows_kept", 0)))
        node["state"] = {key: self.encode(one, (*path, key)) for key, one in state.items()}
        return node

    def _refusal(self, path: tuple[str, ...], what: str) -> InputError:
        where = ".".join(part.removeprefix("_") for part in path if part not in ("_fitted", "items"))
        part = f"its {where}" if where else "it"
        return InputError(
            f"{self._whole} cannot be saved: {part} is {what}. Model files hold numbers, text, and the kernels, maps "
            "and models of lmgp. joblib.dump(model, path) writes anything; joblib.load then runs code of the file: "
            "load only files that you trust."
        )


def state_of(value: Any) -> Any:
    """Return what of an object is in a file, see `lmgp.saving`."""
    if is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in fields(value)}
    if isinstance(value, tuple):
        return dict(zip(type(value)._fields, value, strict=True))  # type: ignore[attr-defined]
    return value.__getstate__()


def _is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")  # without it there are none
    return torch is not None and type(value) is torch.Tensor


def _is_tree(value: Any) -> bool:
    spatial = sys.modules.get("scipy.spatial")
    return spatial is not None and type(value) is spatial.KDTree


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, np.generic) and value.dtype.kind in NUMBERS and type(value.item()) in (bool, int, float, str)
    )


def _is_legacy(value: Any) -> bool:
    return type(value) is np.random.RandomState


def _is_generator(value: Any) -> bool:
    return type(value) is np.random.Generator and type(value.bit_generator).__name__ in BIT_GENERATORS


def _of_generator(value: np.random.Generator) -> dict[str, Any]:
    seeds = value.bit_generator.seed_seq  # from which generators are spawned
    names = ("entropy", "spawn_key", "pool_size", "n_children_spawned")
    known = {name: getattr(seeds, name) for name in names} if isinstance(seeds, np.random.SeedSequence) else None
    return {"state": value.bit_generator.state, "seeds": known}


def _of_objects(value: NDArray[Any]) -> dict[str, Any]:
    return {"shape": list(value.shape), "items": value.ravel().tolist()}


# What is neither JSON nor an object of the package: its kind, how it is known, and its parts.
NODES: tuple[tuple[str, Callable[[Any], bool], Callable[[Any], dict[str, Any]]], ...] = (
    ("float", lambda value: type(value) is float, lambda value: {"value": repr(value)}),
    ("tuple", lambda value: type(value) is tuple, lambda value: {"items": list(value)}),
    ("dict", lambda value: type(value) is dict, lambda value: {"items": [list(pair) for pair in value.items()]}),
    ("number", _is_number, lambda value: {"dtype": value.dtype.str, "value": value.item()}),
    ("values", lambda value: type(value) is np.ndarray and value.dtype.kind == "O", _of_objects),
    ("tree", _is_tree, lambda value: {"rows": np.asarray(value.data), "leafsize": int(value.leafsize)}),
    ("generator", _is_generator, _of_generator),
    ("random_state", _is_legacy, lambda value: {"state": value.get_state(legacy=False)}),
)


def _described(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__qualname__}"
    if hasattr(value, "__qualname__"):
        return f"the function {value.__qualname__}"
    return f"{type(value).__qualname__} of {type(value).__module__.split('.')[0]}"
