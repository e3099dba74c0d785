"""How compiled functions are typed, and kept on disk from one run to the next.

numba is imported with this module: what uses it imports it where it is used. What a compiled function calls is in the
file of that function, by whose date numba knows whether what it keeps is of today.
"""

from collections.abc import Callable
from functools import cache, wraps
from threading import Lock
from typing import Any

from numba import njit, types

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
# In the order of the formulas; and sums in any order.
exact, summed = (njit(**OPTIONS, fastmath=flags) for flags in ({"contract"}, {"contract", "reassoc", "nsz"}))

real, index = types.float64, types.intp
vector, matrix, matrices, indices, many_indices = (
    types.Array(kind, n_axes, "C", readonly=True)
    for kind, n_axes in ((real, 1), (real, 2), (real, 3), (index, 1), (index, 2))
)


def kept(*arguments: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Compile a function of typed arguments at its first call, and keep it on disk where there is a folder for it."""

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        lock, signature = Lock(), types.void(*arguments)

        @cache
        def compiled() -> Any:
            try:
                return njit(signature, cache=True, **OPTIONS)(function)
            except RuntimeError:  # nothing can be written
                return njit(signature, **OPTIONS)(function)

        @wraps(function)
        def called(*values: Any) -> None:
            with lock:
                compiler = compiled()
            compiler(*values)

        return called

    return decorated
