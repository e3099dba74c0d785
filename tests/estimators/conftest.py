"""Models chosen by measurement: rows, the model, and how far it is from the exact GP."""

import warnings

import numpy as np

from lmgp import ExactGPRegressor, GaussianKernel, GPRegressor
from lmgp.metrics import kl_divergence
from lmgp.selection.candidates import TRIED

ROWS = ["nearest_rows", "exact"]
LOCAL = ["local_taylor", "local_taylor_energy", "local_maclaurin_tensor_srht"]
# The global solve is taken at once where it is quick: `test_chosen_modes`. All others are tried, localized maps where
# they are named.
SEARCHED = [name for name in (*TRIED, *LOCAL) if name != "spectral"]
FEATURES = [name for name in SEARCHED if name not in (*ROWS, "residual")]
NOISE, VARIANCE = 0.05, 2.0


def draw(n: int = 500, d: int = 2, extent: float = 10.0, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Training rows away from the origin, with y away from zero, and test rows among them."""
    rng = np.random.default_rng(seed)
    X, T = rng.uniform(3.0, 3.0 + extent, (n, d)), rng.uniform(3.0, 3.0 + extent, (100, d))
    return X, 7.0 + np.sin(X).sum(axis=1) + NOISE**0.5 * rng.normal(size=n), T


def auto(lengthscale: float | np.ndarray = 1.0, **parameters: object) -> GPRegressor:
    given = {"kernel": GaussianKernel(lengthscale, VARIANCE), "noise_variance": NOISE, "methods": SEARCHED}
    return GPRegressor(**{**given, "random_state": 0, **parameters})


def divergence(model: GPRegressor, X, y, T, **arguments: np.ndarray) -> float:
    """Mean KL from the exact GP of the same rows."""
    exact = ExactGPRegressor(model.kernel_, model.noise_variance).fit(X, y, **arguments)
    noise = model.noise_variance_  # of the processes, whatever the distribution of observations is
    (mean, std), (expected, expected_std) = (one.predict(T, return_std=True) for one in (model, exact))
    return float(kl_divergence(mean, std**2 + noise, expected, expected_std**2 + noise).mean())


def assert_no_warning(model: GPRegressor, *arguments: object, **more: object) -> GPRegressor:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return model.fit(*arguments, **more)
