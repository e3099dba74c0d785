"""What the tests of learning share: a small plan, and rows drawn from known kernels."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from lmgp.kernels.base import Kernel
from lmgp.learning import plan
from lmgp.learning.engine import REMEMBERED
from lmgp.learning.plan import Round

Floats = NDArray[np.float64]
Draw = Callable[..., tuple[Floats, Floats]]

SMALL: dict[str, Any] = {
    "FIRST": Round(60, 8, 8, 3, 0.5),
    "SECOND": Round(120, 12, 8, 2, 0.2),
    "LAST": Round(200, 15, 15, 2, 0.2),
    "EXACT": (Round(100, 12, 3, 2, 0.05), Round(100, 12, 10, 1, 0.05)),
    "SAMPLE": Round(100, 12, 10, 1, 0.05),
    "CLOSER": ((30, 150),),
    "POSITIONS_PER_PARAMETER": 20,
}


@pytest.fixture(autouse=True)
def forgotten() -> None:
    """Forget what other tests learned by another plan."""
    REMEMBERED.clear()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search on few positions with few neighbours."""
    for name, value in SMALL.items():
        monkeypatch.setattr(plan, name, value)


@pytest.fixture(scope="session")
def draw_from() -> Draw:
    """Draw n rows in a square, and y from a kernel with noise."""

    def drawn(kernel: Kernel, n: int, noise: float = 0.05, seed: int = 0, d: int = 2) -> tuple[Floats, Floats]:
        rng = np.random.default_rng(seed)
        X = rng.uniform(-2.0, 2.0, (n, d))
        y = multivariate_normal(np.zeros(n), kernel(X) + noise * np.eye(n)).rvs(random_state=rng)
        return X, y

    return drawn
