"""Draw the images of docs/plots.md: one of each function of `lmgp.plots`, on made rows.

python docs/gallery.py [--out DIR]
"""

import argparse
import io
import logging
from pathlib import Path

import numpy as np
from PIL import Image

from lmgp import (
    ExactGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    MaternKernel,
    OptimizedMaclaurinFeatures,
    TaylorFeatures,
    plots,
)

HERE = Path(__file__).resolve().parent


def waves(X):
    """Return a smooth function of two columns, and of noise."""
    return np.sin(3.0 * X[:, 0]) + np.cos(2.0 * X[:, 1]) * X[:, 0]


def band():
    rng = np.random.default_rng(0)
    X = np.sort(np.concatenate((rng.uniform(0.0, 4.0, 25), rng.uniform(6.0, 10.0, 25))))[:, None]
    y = np.sin(2.0 * X[:, 0]) + 0.15 * rng.normal(size=50)
    return plots.band(ExactGPRegressor(random_state=0).fit(X, y), X, y)


def places(n=300, seed=0, noise=0.2):
    """Return clustered rows of two columns and noisy targets, the first half for training."""
    rng = np.random.default_rng(seed)
    towns = rng.uniform(0.0, 3.0, (12, 2))
    X = towns[rng.integers(12, size=n)] + 0.25 * rng.normal(size=(n, 2))
    return X, waves(X) + noise * rng.normal(size=n)


def map_of_two_columns():
    X, y = places()
    return plots.map(ExactGPRegressor(random_state=0).fit(X, y), X)


def scored():
    X, y = places(1800, seed=1, noise=0.6)
    model = GPRegressor(random_state=0).fit(X[:900], y[:900])
    return y[900:], model.predict_distribution(X[900:])


def against_truth():
    y, observed = scored()
    return plots.prediction(y, observed.mean(), observed.std())


def importance():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    y = np.sin(2.0 * X[:, 0]) + X[:, 3] ** 2 / 2.0 + 0.3 * X[:, 5] + 0.1 * rng.normal(size=300)
    return plots.importance(ExactGPRegressor(ard=True, random_state=0).fit(X, y))


def variogram():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (800, 2))
    covariance = np.asarray(MaternKernel(1.0, 2.0, smoothness=1.5)(X, X)) + 0.3 * np.eye(800)
    y = np.linalg.cholesky(covariance) @ rng.normal(size=800)
    return plots.variogram(ExactGPRegressor(kernel="matern32", random_state=0).fit(X, y), X, y)


def kl_over_size():
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 30.0, (6000, 2))
    y = waves(X / 3.0) + 0.3 * rng.normal(size=len(X))
    methods = ["orf", "nystroem", "local_taylor", "nearest_rows"]
    given = {"kernel": GaussianKernel(1.5), "noise_variance": 0.09}
    return plots.kl_over_size(GPRegressor(tolerance=0.01, methods=methods, **given, random_state=0).fit(X, y))


def allocation():
    X = np.random.default_rng(0).normal(size=(500, 6))
    kernel = GaussianKernel(2.0) + GaussianKernel(5.0)
    return plots.allocation(OptimizedMaclaurinFeatures(512, kernel=kernel, random_state=0).fit(X))


def centroids():
    X, y = places(600)
    kernel = GaussianKernel([0.15, 0.25])
    model = LocalizedGPRegressor(TaylorFeatures(28), 1.5, kernel=kernel, noise_variance=0.04).fit(X, y)
    return plots.centroids(model, X)


IMAGES = {
    "band": band,
    "map": map_of_two_columns,
    "calibration": lambda: plots.calibration(*scored()),
    "prediction": against_truth,
    "importance": importance,
    "variogram": variogram,
    "kl_over_size": kl_over_size,
    "allocation": allocation,
    "centroids": centroids,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE / "plots", metavar="DIR", help="default: docs/plots")
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    for name, draw in IMAGES.items():
        ax = np.ravel(draw())[0]
        path = out / f"{name}.png"
        drawn = io.BytesIO()
        ax.figure.savefig(drawn, dpi=150)
        # 256 colours are enough for these, and less than half of the bytes.
        Image.open(drawn).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
        logging.info("%s: %d bytes", path, path.stat().st_size)


if __name__ == "__main__":
    main()
