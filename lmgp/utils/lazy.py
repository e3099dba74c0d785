"""torch, which is imported when it is first used: it takes longer than all else that the package imports."""

import functools
import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:

    class _Torch:
        def __getattr__(self, name: str) -> Any:
            value = getattr(importlib.import_module("torch"), name)
            setattr(self, name, value)  # the next time, it is found without a call
            return value

    torch, Tensor = _Torch(), object  # which annotations name


def no_grad(function: Any) -> Any:
    """Call a function without gradients."""

    @functools.wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        with torch.no_grad():
            return function(*arguments, **named)

    return called


__all__ = ["Tensor", "no_grad", "torch"]
