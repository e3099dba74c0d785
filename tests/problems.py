"""Three small problems with known hyperparameters: the generated sinc and Friedman sets, and a part of diabetes."""

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1


def standardise(values: np.ndarray) -> np.ndarray:
    return (values - values.mean(axis=0)) / values.std(axis=0)


def sinc() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.5, 1.5, (50, 1))
    return X, np.sinc(5 * X[:, 0]) + 0.1 * rng.normal(size=50)


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_diabetes(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:120]
    return standardise(X[rows]), standardise(y[rows])


def friedman() -> tuple[np.ndarray, np.ndarray]:
    return make_friedman1(150, n_features=5, noise=1.0, random_state=1)


SETS = {"sinc": sinc, "diabetes": diabetes, "friedman": friedman}

# Hyperparameters of each set, of the order that is learned there.
GIVEN = {"sinc": (0.15, 0.1, 0.01), "diabetes": (5.0, 1.1, 0.5), "friedman": (0.8, 100.0, 1.0)}


def given(name: str, ard: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | float, float, float]:
    X, y = SETS[name]()
    lengthscale, variance, noise_variance = GIVEN[name]
    rng = np.random.default_rng(5)
    T = X[rng.permutation(len(X))[:20]] + 0.3 * rng.normal(size=(20, X.shape[1]))
    return X, y, T, lengthscale * rng.uniform(0.5, 2.0, X.shape[1]) if ard else lengthscale, variance, noise_variance
