"""What the tests of learning share: rows drawn from known kernels, and small likelihoods."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from lmgp.data import Rows
from lmgp.kernels.base import Kernel
from lmgp.learning import search
from lmgp.learning.engine import remembered
from lmgp.learning.forms import Form, make_form

Floats = NDArray[np.float64]
Draw = Callable[..., tuple[Floats, Floats]]

SMALL = {"FIRST_ROWS": 60, "INFORMATION": (100, 12), "MOST_POSITIONS": 200, "MOST_SQUARES": 200 * 16**2}


def form_of(name: str, ard: bool, n_inputs: int, groups: Sequence[int] | None = None) -> Form:
    """The form of a name for rows around zero, of which nothing is known but their columns."""
    return make_form(name, ard, Rows(np.zeros((2, n_inputs)), np.zeros(2)), groups)


@pytest.fixture(autouse=True)
def forgotten() -> None:
    """Forget what other tests learned by likelihoods of other sizes."""
    remembered.cache_clear()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search on few positions with few neighbours."""
    for name, value in SMALL.items():
        monkeypatch.setattr(search, name, value)


@pytest.fixture(scope="session")
def draw_from() -> Draw:
    """Draw n rows in a square, and y from a kernel with noise."""

    def drawn(kernel: Kernel, n: int, noise: float = 0.05, seed: int = 0, d: int = 2) -> tuple[Floats, Floats]:
        rng = np.random.default_rng(seed)
        X = rng.uniform(-2.0, 2.0, (n, d))
        y = multivariate_normal(np.zeros(n), kernel(X) + noise * np.eye(n)).rvs(random_state=rng)
        return X, y

    return drawn
