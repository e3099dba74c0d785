"""What `lmgp.saving.encode` wrote, made again: nothing else is made, and nothing is called that a file names."""

from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields, is_dataclass
from inspect import signature
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import ModelFileError
from lmgp.saving.encode import BIT_GENERATORS, NUMBERS, Node
from lmgp.saving.names import class_of


class Decoder:
    """Makes one tree.

    Parameters
    ----------
    arrays : sequence of ndarray
    """

    def __init__(self, arrays: Sequence[NDArray[Any]]) -> None:
        self._arrays = arrays
        self._placed: dict[tuple[int, tuple[int, ...]], NDArray[Any]] = {}
        self._objects: dict[int, Any] = {}
        self._kinds: dict[str, Callable[[dict[str, Node]], Any]] = {
            "float": lambda node: float(_of(node, "value", str)),
            "tuple": lambda node: tuple(self.decode(node["items"])),
            "dict": lambda node: dict(self.decode(node["items"])),
            "number": self._number,
            "array": self._array,
            "tensor": self._tensor,
            "values": self._values,
            "tree": self._tree,
            "generator": self._generator,
            "random_state": self._random_state,
            "object": self._object,
            "same": lambda node: self._objects[node["as"]],
        }

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
            return [self.decode(one) for one in node]
        if not isinstance(node, dict):
            return node
        kind = node["kind"]
        if kind not in self._kinds:
            raise ModelFileError(f"it has a part of the unknown kind {str(kind)[:80]!r}")
        return self._kinds[kind](node)

    def _number(self, node: dict[str, Node]) -> Any:
        dtype = np.dtype(_of(node, "dtype", str))
        if dtype.kind not in NUMBERS:
            raise ModelFileError(f"it has a number of the unknown type {str(dtype)[:80]!r}")
        return dtype.type(self.decode(node["value"]))

    def _array(self, node: dict[str, Node]) -> NDArray[Any]:
        number, axes = node["number"], tuple(node.get("axes", ()))
        if (number, axes) not in self._placed:
            stored = self._arrays[_index(number)]
            self._placed[number, axes] = stored.transpose(np.argsort(axes)) if axes else stored
        return self._placed[number, axes]

    def _tensor(self, node: dict[str, Node]) -> Any:
        import torch

        return torch.from_numpy(self._array(node["of"]))

    def _values(self, node: dict[str, Node]) -> NDArray[Any]:
        items = self.decode(node["items"])
        made = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):  # one by one: an array of lists would become one of more axes
            made[i] = item
        return made.reshape(node["shape"])

    def _tree(self, node: dict[str, Node]) -> Any:
        from scipy.spatial import KDTree

        return KDTree(self.decode(node["rows"]), leafsize=_of(node, "leafsize", int))

    def _generator(self, node: dict[str, Node]) -> np.random.Generator:
        state, seeds = self.decode(node["state"]), self.decode(node["seeds"])
        if state["bit_generator"] not in BIT_GENERATORS:
            raise ModelFileError(f"it has a random generator of the unknown kind {str(state['bit_generator'])[:80]!r}")
        sequence = None if seeds is None else np.random.SeedSequence(**seeds)
        made = getattr(np.random, state["bit_generator"])(sequence)
        made.state = state
        return np.random.Generator(made)

    def _random_state(self, node: dict[str, Node]) -> np.random.RandomState:
        made = np.random.RandomState()
        made.set_state(self.decode(node["state"]))
        return made

    def _object(self, node: dict[str, Node]) -> Any:
        cls, given = class_of(node["class"]), node["state"]
        for name in given:
            if not name.isidentifier() or name.startswith("__"):
                raise ModelFileError(f"{cls.__name__} in it has the attribute {name[:80]!r}")
        if issubclass(cls, tuple):
            state = _complete(cls, self.decode_all(given), dict.fromkeys(cls._fields, MISSING))  # type: ignore[attr-defined]
            return self._keep(node, cls(**state))
        made = self._keep(node, cls.__new__(cls))  # before its parts, which may refer to it
        state = _complete(cls, self.decode_all(given), _expected(cls))
        if hasattr(made, "__setstate__") and not is_dataclass(cls):
            made.__setstate__(state)
        else:
            vars(made).update(state)
        return made

    def decode_all(self, nodes: dict[str, Node]) -> dict[str, Any]:
        """Return the values of named nodes."""
        return {name: self.decode(one) for name, one in nodes.items()}

    def _keep(self, node: dict[str, Node], made: Any) -> Any:
        if "id" in node:
            self._objects[node["id"]] = made
        return made


def _index(number: Node) -> int:
    if not isinstance(number, int) or number < 0:
        raise ModelFileError(f"it refers to the array {str(number)[:80]!r}")
    return number


def _of(node: dict[str, Node], name: str, kind: type) -> Any:
    value = node[name]
    if type(value) is not kind:
        raise ModelFileError(f"its part {str(node['kind'])!r} has {str(value)[:80]!r} as {name}")
    return value


def _expected(cls: type) -> dict[str, Any]:
    """Return what an object has at least, with the values of what may be absent; MISSING of all else."""
    if is_dataclass(cls):
        return {
            one.name: one.default_factory() if one.default_factory is not MISSING else one.default
            for one in fields(cls)
        }
    if not hasattr(cls, "get_params"):
        return {}
    parameters = signature(cls).parameters.values()
    return {one.name: MISSING if one.default is one.empty else one.default for one in parameters}


def _complete(cls: type, state: dict[str, Any], expected: dict[str, Any]) -> dict[str, Any]:
    """Check the names of what was read; add the defaults of what files of earlier versions do not have."""
    unknown = state.keys() - expected.keys() if expected else set()
    if hasattr(cls, "get_params"):
        unknown = {name for name in unknown if not (name.startswith("_") or name.endswith("_"))}
    lacking = [name for name, default in expected.items() if name not in state and default is MISSING]
    if unknown or lacking:
        what = f"lacks {', '.join(lacking)}" if lacking else f"has the unknown part {min(unknown)[:80]!r}"
        raise ModelFileError(f"{cls.__name__} in it {what}")
    return {name: value for name, value in expected.items() if name not in state} | state
