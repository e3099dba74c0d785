"""What a stochastic gradient step is made of: its row, the loss there and its derivative, and the size of the step."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.float64]
Schedule = Literal["constant", "inverse_sqrt", "pegasos"]


@dataclass(frozen=True)
class Loss:
    """A convex function L(f, y) of a prediction.

    Attributes
    ----------
    value, derivative : callable
        L and ∂L/∂f. Both take arrays f and y of one shape, and give one of that shape.
    """

    value: Callable[[Floats, Floats], Floats]
    derivative: Callable[[Floats, Floats], Floats]


# In classification, y is 1 or −1.
LOSSES = {
    "squared": Loss(lambda f, y: 0.5 * (f - y) ** 2, lambda f, y: f - y),
    "logistic": Loss(lambda f, y: np.logaddexp(0.0, -y * f), lambda f, y: -y * expit(-y * f)),
    "hinge": Loss(lambda f, y: np.maximum(0.0, 1.0 - y * f), lambda f, y: -y * (y * f < 1.0)),
}

# (t, α, λ) → αₜ: the size of step t = 1, 2, … for the step size α and the regularization λ.
SCHEDULES: dict[Schedule, Callable[[int, float, float], float]] = {
    "constant": lambda t, step_size, regularization: step_size,
    "inverse_sqrt": lambda t, step_size, regularization: step_size / t**0.5,
    "pegasos": lambda t, step_size, regularization: 1.0 / (regularization * t),
}


def row_order(n: int, n_steps: int, rng: np.random.Generator) -> Iterator[int]:
    """Yield the row of each step: all n rows again and again, each time in a fresh permutation."""
    for start in range(0, n_steps, n):
        yield from rng.permutation(n)[: n_steps - start].tolist()
