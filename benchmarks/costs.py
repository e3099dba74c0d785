"""The rates of the reference machine by which counted costs become nominal seconds, and how near these are.

Three rates are measured in one thread: operations of a product of matrices, bytes that operations on each number by
itself read and write, and calls of what is quick. Then models are fitted and predict, beside their nominal seconds.

    python benchmarks/costs.py

Writes benchmarks/results/costs.json. The numbers in `lmgp.posteriors.costs.REFERENCE` are those of two cores, rounded.
"""

from functools import partial
from time import process_time

import numpy as np
import torch
from common import write
from threadpoolctl import threadpool_limits

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    OrthogonalFourierFeatures,
    ResidualGPRegressor,
)
from lmgp.data import as_tensor
from lmgp.posteriors import costs
from lmgp.utils.linalg import cholesky

NOISE, N_PREDICT, BLOCK = 0.1, 2000, 256


def seconds(action, repeats=5):
    """Return the least processor time of an action."""
    times = []
    for _ in range(repeats):
        start = process_time()
        action()
        times.append(process_time() - start)
    return min(times)


def rates():
    """Measure one core; an exponential counts as two passes over its numbers."""
    rng = np.random.default_rng(0)
    matrix, numbers = (as_tensor(rng.standard_normal(shape)) for shape in ((1024, 1024), (2**15,)))
    kernel, rows, few = MaternKernel(1.0), as_tensor(rng.standard_normal((512, 4))), as_tensor(np.ones((4, 4)))
    covariance = matrix @ matrix.T + 1024.0 * torch.eye(1024, dtype=torch.float64)
    product = 2.0 * 1024**3 / seconds(lambda: matrix @ matrix)
    factor = 1024**3 / 3.0 / seconds(lambda: cholesky(covariance, 1.0))
    return {
        "operations": product,
        "bytes": 2.0 * 8.0 * len(numbers) / seconds(lambda: torch.exp(numbers), 100),
        "calls": 100.0 / seconds(lambda: [cholesky(few + torch.eye(4), 1.0) for _ in range(100)]),
        "operations of a product for one of a factorisation": product / factor,
        "passes over an entry of a kernel": 1e10 / 8.0 * seconds(lambda: kernel.evaluate(rows, rows)) / 512**2,
    }


def models():
    """Compare the processor seconds of models in one thread with nominal ones of one core."""
    found, kernel = [], MaternKernel(1.0)
    for n, d in ((2000, 2), (20_000, 4)):
        rng = np.random.default_rng(0)
        X, new = rng.uniform(0.0, 10.0, (n, d)), rng.uniform(0.0, 10.0, (N_PREDICT, d))
        y = np.sin(X[:, 0]) + 0.3 * rng.standard_normal(n)
        size, given = (n, d, N_PREDICT, kernel), {"kernel": kernel, "noise_variance": NOISE}
        tried = [
            (f"nearest {k}", NearestNeighborsGPRegressor(k, **given), costs.of_nearest(k, *size))
            for k in (32, 128, 256, 512)
        ]
        for columns in (64, 256, 1024):
            fourier, landmarks = OrthogonalFourierFeatures(columns), NystroemFeatures(columns)
            tried += [
                (f"fourier {columns}", FeaturizedGPRegressor(fourier, **given), costs.of_map(fourier.work(d), *size)),
                (
                    f"landmarks {columns}",
                    FeaturizedGPRegressor(landmarks, **given),
                    costs.of_map(landmarks.work(d), *size),
                ),
            ]
        landmarks = NystroemFeatures(512)
        residual = costs.of_residual(landmarks.work(d), 64, BLOCK, *size)
        tried.append(("residual 512, 64", ResidualGPRegressor(landmarks, 64, **given, block_size=BLOCK), residual))
        if n <= 2000:
            tried.append(("exact", ExactGPRegressor(**given), costs.of_exact(*size)))
        for name, model, cost in tried:
            measured = seconds(partial(fit_and_predict, model, X, y, new), 1)
            nominal = 2.0 * cost.seconds  # the reference has two cores
            found.append({"rows": n, "columns": d, "model": name, "seconds": measured, "nominal": nominal})
            print(found[-1], flush=True)
    return found


def fit_and_predict(model, X, y, new):
    model.fit(X, y).predict(new, return_std=True)


def main():
    torch.set_num_threads(1)
    with threadpool_limits(1):
        write("costs", {"rates of one core": [rates()], "models": models()})


if __name__ == "__main__":
    main()
