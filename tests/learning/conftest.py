"""What the tests of learning share: a small plan, and rows drawn from known kernels."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

import lmgp.learning.engine
import lmgp.learning.search
from lmgp.kernels.base import Kernel
from lmgp.learning.engine import REMEMBERED
from lmgp.learning.plan import PLAN, Round

Floats = NDArray[np.float64]
Draw = Callable[..., tuple[Floats, Floats]]

SMALL = replace(
    PLAN,
    first=Round(60, 8, 8, 3, 0.5),
    second=Round(120, 12, 8, 2, 0.2),
    last=Round(200, 15, 15, 2, 0.2),
    exact=(Round(100, 12, 3, 2, 0.05), Round(100, 12, 10, 1, 0.05)),
    sample=Round(100, 12, 10, 1, 0.05),
    closer=((30, 150),),
    positions_per_parameter=20,
)


@pytest.fixture(autouse=True)
def forgotten() -> None:
    """Forget what other tests learned by another plan."""
    REMEMBERED.clear()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search on few positions with few neighbours."""
    for module in (lmgp.learning.engine, lmgp.learning.search):
        monkeypatch.setattr(module, "PLAN", SMALL)


@pytest.fixture(scope="session")
def draw_from() -> Draw:
    """Draw n rows in a square, and y from a kernel with noise."""

    def drawn(kernel: Kernel, n: int, noise: float = 0.05, seed: int = 0, d: int = 2) -> tuple[Floats, Floats]:
        rng = np.random.default_rng(seed)
        X = rng.uniform(-2.0, 2.0, (n, d))
        y = multivariate_normal(np.zeros(n), kernel(X) + noise * np.eye(n)).rvs(random_state=rng)
        return X, y

    return drawn
