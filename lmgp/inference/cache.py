"""Posteriors that are solved once and kept, whatever the number of threads that ask for them."""

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar


class Sized(Protocol):
    """What can say how much memory it holds."""

    @property
    def n_bytes(self) -> int:
        """Bytes held."""
        ...


Kept = TypeVar("Kept", bound=Sized)


class Cache(Generic[Kept]):
    """Values by a key, each made once by the first thread that asks; the others wait for it.

    A value that would take the cache above its limit is handed out, but not kept. A copy has none of them, but for
    those whose attribute `lasting` is true.

    Parameters
    ----------
    limit : float
        In bytes.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._held: dict[int, int] = {}  # bytes by the identity of a value: some keys share one
        self._lock = Lock()
        self._values: dict[Hashable, Future[Kept]] = {}

    def get(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        """Return the value of a key, from `make` where there is none yet."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                mine = False
            else:
                mine, value = True, Future()
                self._values[key] = value
        if mine:
            try:
                made = make()
            except BaseException as error:
                with self._lock:
                    del self._values[key]
                value.set_exception(error)
                raise
            value.set_result(made)
            with self._lock:
                if id(made) not in self._held:
                    if self.n_bytes + made.n_bytes > self.limit:
                        del self._values[key]
                    else:
                        self._held[id(made)] = made.n_bytes
        return value.result()

    @property
    def n_bytes(self) -> int:
        """Bytes that the kept values hold."""
        return sum(self._held.values())

    def __len__(self) -> int:
        return len(self._values)

    def __getstate__(self) -> dict[str, Any]:
        # Values are solved again where they are needed, but for those that say that they take too long for that.
        made = {
            key: value.result() for key, value in list(self._values.items()) if value.done() and not value.exception()
        }
        return {
            "limit": self.limit,
            "lasting": {key: one for key, one in made.items() if getattr(one, "lasting", False)},
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["limit"])  # type: ignore[misc]
        for key, value in state.get("lasting", {}).items():
            self._values[key] = Future()
            self._values[key].set_result(value)
