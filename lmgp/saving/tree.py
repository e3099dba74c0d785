"""A value as a tree of JSON and a list of arrays, and back.

None, booleans, text, integers and finite floats are written as JSON has them, and lists as lists. All else is a JSON
object whose ``kind`` says what: an array by its number, an object by its tag (`lmgp.saving.tags`), or one of `KINDS`.
An object or an array that is met again is written once. Nothing is called that a file names.

What of an object is written: what its own `__getstate__` returns, a dictionary, which its `__setstate__` takes, or
which becomes its attributes; of a dataclass or a named tuple without them, its fields. What follows from the rest (a
factor, a cache, a lock) is left out there, for pickle and for files alike. An object that holds training rows says how
many by an attribute `rows_kept`.
"""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import InputError, ModelFileError
from lmgp.saving.tags import class_of, tag_of
from lmgp.saving.upgrades import tag_of_path, upgrade_of

Node = Any

# The arrays that safetensors holds by their types, and those that are written as bytes: text, dates.
TYPED = {np.dtype(code).name for code in "?bBhHiIlLqQefdF"}
AS_BYTES = "fcSUMm"
BIT_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")


def _is_of(module: str, name: str) -> Callable[[Any], bool]:
    """Say whether a value is of a class of another package; where that is not loaded, none is."""
    return lambda value: module in sys.modules and type(value) is getattr(sys.modules[module], name)


def _seeds(bits: np.random.BitGenerator) -> Any:
    """Return what other generators are spawned from."""
    return getattr(bits.seed_seq, "state", None)


def _generator(state: Any, seeds: Any) -> np.random.Generator:
    if state["bit_generator"] not in BIT_GENERATORS:
        raise ModelFileError(f"it has a random generator of the unknown kind {str(state['bit_generator'])[:80]!r}")
    bits = getattr(np.random, state["bit_generator"])(None if seeds is None else np.random.SeedSequence(**seeds))
    bits.state = state
    return np.random.Generator(bits)


def _random_state(state: Any) -> np.random.RandomState:
    random_state = np.random.RandomState()
    random_state.set_state(state)
    return random_state


def _values(shape: Any, items: Any) -> NDArray[Any]:
    values = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):  # one by one: an array of lists would become one of more axes
        values[i] = item
    return values.reshape(shape)


def _tensor(of: Any) -> Any:
    import torch

    return torch.from_numpy(of)


def _search_tree(rows: Any, leafsize: Any) -> Any:
    from scipy.spatial import KDTree

    return KDTree(rows, leafsize=leafsize)


# What is neither JSON nor an array nor an object of the package: how it is known, its parts, and what is made of them.
KINDS: dict[str, tuple[Callable[[Any], bool], Callable[[Any], dict[str, Any]], Callable[..., Any]]] = {
    "float": (lambda value: type(value) is float, lambda value: {"value": repr(value)}, lambda value: float(value)),
    "tuple": (lambda value: type(value) is tuple, lambda value: {"items": list(value)}, lambda items: tuple(items)),
    "dict": (
        lambda value: type(value) is dict,
        lambda value: {"items": [list(pair) for pair in value.items()]},
        lambda items: dict(items),
    ),
    "number": (
        lambda value: isinstance(value, np.generic) and type(value.item()) in (bool, int, float, str),
        lambda value: {"dtype": value.dtype.str, "value": value.item()},
        lambda dtype, value: np.dtype(dtype).type(value),
    ),
    "values": (
        lambda value: type(value) is np.ndarray and value.dtype.kind == "O",
        lambda value: {"shape": list(value.shape), "items": value.ravel().tolist()},
        _values,
    ),
    "tensor": (_is_of("torch", "Tensor"), lambda value: {"of": value.numpy(force=True)}, _tensor),
    "tree": (
        _is_of("scipy.spatial", "KDTree"),
        lambda value: {"rows": np.asarray(value.data), "leafsize": int(value.leafsize)},
        _search_tree,
    ),
    "generator": (
        lambda value: type(value) is np.random.Generator and type(value.bit_generator).__name__ in BIT_GENERATORS,
        lambda value: {"state": value.bit_generator.state, "seeds": _seeds(value.bit_generator)},
        _generator,
    ),
    "index": (
        lambda value: "pandas" in sys.modules and isinstance(value, sys.modules["pandas"].Index),
        lambda value: {"items": value.tolist()},
        lambda items: items,
    ),
    "slice": (
        lambda value: type(value) is slice,
        lambda value: {"start": value.start, "stop": value.stop, "step": value.step},
        lambda start, stop, step: slice(start, stop, step),
    ),
    "dtype": (
        lambda value: isinstance(value, np.dtype),
        lambda value: {"name": value.str},
        lambda name: np.dtype(name),
    ),
    "scalar_type": (
        lambda value: isinstance(value, type) and issubclass(value, np.generic),
        lambda value: {"name": np.dtype(value).str},
        lambda name: np.dtype(name).type,
    ),
    "random_state": (
        lambda value: type(value) is np.random.RandomState,
        lambda value: {"state": value.get_state(legacy=False)},
        _random_state,
    ),
}


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
        self._numbers: dict[int, int] = {}
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
            return [self.encode(item, (*path, str(i))) for i, item in enumerate(value)]
        if type(value) is np.ndarray and (value.dtype.name in TYPED or value.dtype.kind in AS_BYTES):
            return self._array(value)
        for kind, (is_of_kind, parts, _) in KINDS.items():
            if is_of_kind(value):
                nodes = {name: self.encode(part, (*path, name)) for name, part in parts(value).items()}
                return {"kind": kind, **nodes}
        return self._object(value, path)

    def _array(self, value: NDArray[Any]) -> dict[str, Node]:
        """Write an array once, however often it is met; its layout in memory is kept, on which rounding may depend."""
        key = (value.ctypes.data, value.shape, value.strides, value.dtype.str)
        if key not in self._array_nodes:
            axes, node = list(range(value.ndim)), {"kind": "array", "number": len(self.arrays)}
            if not value.flags.c_contiguous:
                axes.sort(key=lambda axis: -abs(value.strides[axis]))
                node["axes"] = axes
            native = value.dtype.newbyteorder("=")
            stored = np.ascontiguousarray(value.transpose(axes), native).reshape([value.shape[axis] for axis in axes])
            if value.dtype.name not in TYPED:
                node |= {"dtype": native.str, "shape": list(stored.shape)}
                stored = np.frombuffer(stored.tobytes(), np.uint8)
            self.arrays.append(stored)
            self._alive.append(value)
            self._array_nodes[key] = node
        return self._array_nodes[key]

    def _object(self, value: Any, path: tuple[str, ...]) -> dict[str, Node]:
        if id(value) in self._numbers:
            return {"kind": "same", "as": self._numbers[id(value)]}
        tag, number = tag_of(type(value)), len(self._numbers)
        if tag is None:
            raise self._refusal(path, value)
        self._numbers[id(value)] = number
        state = _state_of(value)
        self._alive += [value, state]
        self.rows_kept = max(self.rows_kept, int(getattr(value, "rows_kept", 0)))
        nodes = {name: self.encode(part, (*path, name)) for name, part in state.items()}
        return {"kind": "object", "tag": tag, "id": number, "state": nodes}

    def _refusal(self, path: tuple[str, ...], value: Any) -> InputError:
        where = ".".join(part.removeprefix("_") for part in path if part not in ("_fitted", "items"))
        what = f"{type(value).__qualname__} of {type(value).__module__.split('.')[0]}"
        if hasattr(value, "__qualname__"):
            what = f"the {'class' if isinstance(value, type) else 'function'} {value.__qualname__}"
        return InputError(
            f"{self._whole} cannot be saved: {f'its {where}' if where else 'it'} is {what}. Model files hold numbers, "
            "text, the kernels, maps and models of lmgp, and scikit-learn's scalers, encoders and imputers, see "
            "lmgp.save. joblib.dump(model, path) writes anything; joblib.load then runs code of the file: load only "
            "files that you trust."
        )


class Decoder:
    """Makes one tree.

    Parameters
    ----------
    arrays : sequence of ndarray
    tensors : bool, default=True
        Whether tensors are made, for which torch is imported. Otherwise they stay arrays: the object can be described.
    """

    def __init__(self, arrays: Sequence[NDArray[Any]], tensors: bool = True) -> None:
        self._arrays, self._tensors = arrays, tensors
        self._placed: dict[str, NDArray[Any]] = {}
        self._objects: dict[Any, Any] = {}

    def decode(self, node: Node) -> Any:
        """Return the value of a node.

        Raises
        ------
        ModelFileError
            If it is of an unknown kind or class, or an object lacks what it needs.
        KeyError, IndexError, TypeError, ValueError
            If it is malformed otherwise.
        """
        if isinstance(node, list):
            return [self.decode(item) for item in node]
        if not isinstance(node, dict):
            return node
        match node["kind"]:
            case "array":
                return self._array(node)
            case "object":
                return self._object(node)
            case "same":
                return self._objects[node["as"]]
            case "tensor" if not self._tensors:
                return self.decode(node["of"])
            case kind if kind in KINDS:
                return KINDS[kind][2](**{name: self.decode(part) for name, part in node.items() if name != "kind"})
            case kind:
                raise ModelFileError(f"it has a part of the unknown kind {str(kind)[:80]!r}")

    def _array(self, node: dict[str, Node]) -> NDArray[Any]:
        if str(node) not in self._placed:
            array, axes = self._arrays[node["number"]], node.get("axes")
            if "dtype" in node:
                array = array.view(node["dtype"]).reshape(node["shape"])
            self._placed[str(node)] = array if axes is None else array.transpose(np.argsort(axes))
        return self._placed[str(node)]

    def _object(self, node: dict[str, Node]) -> Any:
        path, number = node.get("class"), node.get("id")  # a path in version 0.3; an object that was met once had no id
        tag, upgrade = node["tag"] if path is None else tag_of_path(path), upgrade_of(path)
        if upgrade is not None:
            self._objects[number] = upgrade(self._decode_all(node["state"]))
            return self._objects[number]
        cls = class_of(tag)
        if issubclass(cls, tuple):
            self._objects[number] = cls(**self._decode_all(node["state"]))
            return self._objects[number]
        value = self._objects[number] = cls.__new__(cls)  # before its parts, which may refer to it
        _restore(value, self._decode_all(node["state"]))
        return value

    def _decode_all(self, nodes: dict[str, Node]) -> dict[str, Any]:
        return {name: self.decode(node) for name, node in nodes.items()}


def _state_of(value: Any) -> dict[str, Any]:
    """Return what of an object is written, see above."""
    if isinstance(value, tuple):
        return dict(zip(type(value)._fields, value, strict=True))  # type: ignore[attr-defined]
    if is_dataclass(value) and type(value).__getstate__ is object.__getstate__:
        return {field.name: getattr(value, field.name) for field in fields(value)}
    # What metadata are requested is in classes of scikit-learn that files do not hold.
    return {name: part for name, part in (value.__getstate__() or {}).items() if name != "_metadata_request"}


def _restore(value: Any, state: dict[str, Any]) -> None:
    """Give an object its state, with the defaults of what files of earlier versions do not have."""
    cls = type(value)
    expected: dict[str, Any] = {}
    if hasattr(cls, "get_params"):
        parameters = signature(cls).parameters.values()
        expected = {param.name: MISSING if param.default is param.empty else param.default for param in parameters}
    elif is_dataclass(cls) and not hasattr(cls, "__setstate__"):
        for field in fields(cls):
            expected[field.name] = field.default if field.default_factory is MISSING else field.default_factory()
    missing = {name: default for name, default in expected.items() if name not in state}
    state = {name: default for name, default in missing.items() if default is not MISSING} | state
    for name in expected.keys() - state.keys():
        raise ModelFileError(f"{cls.__name__} in it lacks {name}")
    for name in state.keys() - expected.keys():
        learned = hasattr(cls, "get_params") and name != name.strip("_")
        if expected and not learned:
            raise ModelFileError(f"{cls.__name__} in it has the unknown part {name[:80]!r}")
    if hasattr(cls, "__setstate__"):
        value.__setstate__(state)
    else:
        value.__dict__.update(state)
