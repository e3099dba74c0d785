"""What was learned last, by the rows and the settings: a grid search over sizes or thresholds learns once a fold."""

import threading
from collections import OrderedDict

from lmgp.learning.record import Learned


class Remembered:
    """The last results, by the digests of what they were learned from.

    Parameters
    ----------
    most : int
        The number of results that are kept.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Learned] = OrderedDict()

    def get(self, key: str) -> Learned | None:
        """Return a result, or None."""
        with self._lock:
            if key in self._known:
                self._known.move_to_end(key)
            return self._known.get(key)

    def put(self, key: str, learned: Learned) -> None:
        """Keep a result in place of the one that was not asked for longest."""
        with self._lock:
            self._known[key] = learned
            while len(self._known) > self._most:
                self._known.popitem(last=False)

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._known.clear()


REMEMBERED = Remembered(16)
