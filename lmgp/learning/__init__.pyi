from .engine import learn
from .from_sums import learn_from_sums

__all__ = [
    "learn",
    "learn_from_sums",
]
