"""Model files with other contents than `save` writes, of which the digest is right all the same."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from lmgp.saving.files import ENTRY, to_bytes

Change = Callable[[dict[str, Any], list[NDArray[Any]]], Any]


def parts(path: Path) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """The header and the arrays of a model file."""
    with safe_open(path, framework="np") as content:
        header = json.loads(content.metadata()[ENTRY].partition(" ")[2])
        return header, [content.get_tensor(f"a{number}") for number in range(len(content.keys()))]


def rewritten(content: bytes, change: Change) -> bytes:
    """Change the header or the arrays of the content of a model file in place; or return another header."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.lmgp"
        path.write_bytes(content)
        header, arrays = parts(path)
    other = change(header, arrays)
    return to_bytes(other if isinstance(other, dict) else header, [np.ascontiguousarray(one) for one in arrays])
