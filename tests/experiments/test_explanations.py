"""Where our divergences are not the published ones: the reasons that the report gives, measured on the real sets."""

import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import gammainc
from sklearn.base import clone

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LocalizedGPRegressor,
    OptimizedMaclaurinFeatures,
    load_dataset,
)
from lmgp.experiments.compare import PAPER, ComparisonSettings, Prepared, prepare
from lmgp.experiments.figure_4 import published
from lmgp.features.allocation import ErrorTerms, allocate
from lmgp.metrics import kl_divergence

pytestmark = pytest.mark.skipif("LMGP_DATA_DIR" not in os.environ, reason="needs the data sets in LMGP_DATA_DIR")

SETTINGS = ComparisonSettings(PAPER, max_test_rows=None)


def hyperparameters(name: str) -> tuple[GaussianKernel, float]:
    known = PAPER.published[name]
    return GaussianKernel(known.lengthscale, known.variance), known.noise_variance


def cell(dataset: str, method: str, n_features: int, threshold: float | None = None) -> Any:
    """One of the published cells."""
    cells = published(dataset)
    same = cells.threshold.isna() if threshold is None else cells.threshold == threshold
    (known,) = cells[(cells.method == method) & (cells.n_features == n_features) & same].itertuples()
    return known


def in_lengthscales(data: Prepared, kernel: GaussianKernel) -> np.ndarray:
    return kernel.scale(data.X_train - data.X_train.mean(axis=0))


def kl_sums(name: str, data: Prepared, models: list[Any]) -> list[float]:
    """Of unfitted models, with the published hyperparameters."""
    kernel, noise = hyperparameters(name)
    predictions = [
        model.fit(data.X_train, data.y_train).predict(data.X_test, return_std=True, include_noise=True)
        for model in (ExactGPRegressor(kernel, noise), *models)
    ]
    exact, *others = [(mean, std**2) for mean, std in predictions]
    return [float(kl_divergence(*other, *exact).sum()) for other in others]


@pytest.mark.slow
@pytest.mark.parametrize(("sketch", "n_features"), [("rademacher", 1024), ("tensor_srht", 1024), ("tensor_srht", 512)])
def test_yacht_was_published_with_degrees_up_to_10(sketch: str, n_features: int) -> None:
    """The published divergences of large localized maps are those of maps without the degrees above 10."""
    dataset = load_dataset("yacht")
    kernel, noise = hyperparameters("yacht")
    threshold, seeds = 4.0, 3
    shared: dict[str, Any] = {"kernel": kernel, "noise_variance": noise, "approximation": "sor"}
    limited, unlimited = [], []
    for seed in range(seeds):
        data = prepare(dataset, SETTINGS, seed)
        models = [
            LocalizedGPRegressor(
                OptimizedMaclaurinFeatures(
                    n_features, sketch=sketch, max_degree=max_degree, allocation="mean", random_state=seed
                ),
                threshold,
                **shared,
            )
            for max_degree in (10, 15)
        ]
        few, all_ = kl_sums("yacht", data, models)
        assert models[0].features_.degree_ == 10
        assert models[1].features_.degree_ > 10
        limited.append(few)
        unlimited.append(all_)
    known = cell("yacht", f"local_maclaurin_{sketch}", n_features, threshold)
    assert np.mean(unlimited) < 0.5 * known.kl_sum
    error = np.hypot(known.kl_sum_sd / np.sqrt(known.runs), np.std(limited, ddof=1) / np.sqrt(seeds))
    assert abs(np.mean(limited) - known.kl_sum) < 3.0 * error
    assert 0.6 < np.mean(limited) / known.kl_sum < 1.5


def test_float32_overflows_above_degree_10_on_yacht() -> None:
    """The n-th power of the second moment of a sketch, as the published code takes it, for one pair in ten or more."""
    kernel, _ = hyperparameters("yacht")
    for seed in range(10):
        X = in_lengthscales(prepare(load_dataset("yacht"), SETTINGS, seed), kernel).astype(np.float32)
        inner, overlap, squares = X @ X.T, np.square(X) @ np.square(X).T, np.square(X).sum(axis=1)
        moment = np.outer(squares, squares) + 2 * (inner**2 - overlap)
        with np.errstate(over="ignore"):
            lost = [float(np.mean(np.isinf(moment[np.tril_indices(len(X), -1)] ** n))) for n in range(1, 16)]
        assert max(lost[:10]) < 0.01
        assert min(lost[10:]) > 0.05


def test_a_row_is_paired_with_itself_as_published() -> None:
    """kin8nm, TensorSRHT, 1,024 columns: without these pairs the series ends a degree early, farther off."""
    kernel, _ = hyperparameters("kin8nm")
    data = prepare(load_dataset("kin8nm"), SETTINGS, 0)
    centre = data.X_train.mean(axis=0, keepdims=True)
    request = {"sketch": "tensor_srht", "allocation": "mean", "kernel": kernel, "random_state": 0}
    features = OptimizedMaclaurinFeatures(1024, **request).fit_around(data.X_train, centre)

    sample = in_lengthscales(data, kernel)[:500]
    terms = ErrorTerms.of_groups([sample], "tensor_srht", 15)
    own = np.array([np.mean(gammainc(p + 1, np.square(sample).sum(axis=1)) ** 2) for p in range(16)])
    others = replace(terms, truncation=(500 * terms.truncation - own) / 499)
    assert [len(allocate(of_pairs, 1024, 15)) - 1 for of_pairs in (terms, others)] == [4, 3]
    shorter = OptimizedMaclaurinFeatures(1024, max_degree=3, **request).fit_around(data.X_train, centre)
    assert (features.degree_, shorter.degree_) == (4, 3)
    _, noise = hyperparameters("kin8nm")
    models = [
        FeaturizedGPRegressor(clone(of), kernel=kernel, noise_variance=noise, approximation="sor")
        for of in (features, shorter)
    ]
    # Of all rows 1.5 times, as published; the exact process of these takes seconds.
    some = data._replace(X_train=data.X_train[:4000], y_train=data.y_train[:4000])
    ours, without = kl_sums("kin8nm", some, models)
    assert without > 1.3 * ours


def test_a_reference_in_float32_is_another_one() -> None:
    """UK flats: distances in float32 from the inner products of degrees that were not centred, as published."""
    kernel, noise = hyperparameters("uk_flats_2020-12")
    data = prepare(load_dataset("uk_flats_2020-12"), ComparisonSettings(PAPER, max_train_rows=2_000), 0)
    X, Z = (torch.tensor(part / kernel.lengthscale, dtype=torch.float32) for part in (data.X_train, data.X_test))
    y = torch.tensor(data.y_train - data.y_train.mean())

    def predict(squares_of: object) -> tuple[np.ndarray, np.ndarray]:
        covariance, cross = (kernel.variance * torch.exp(-squares_of(part) / 2).double() for part in (X, Z))
        factor = torch.linalg.cholesky(covariance + noise * torch.eye(len(X), dtype=torch.float64))
        whitened = torch.linalg.solve_triangular(factor, torch.cat((y[:, None], cross.T), dim=1), upper=False)
        variance = kernel.variance - whitened[:, 1:].square().sum(dim=0) + noise
        return (whitened[:, 0] @ whitened[:, 1:]).numpy(), variance.numpy()

    exact = predict(lambda part: torch.cdist(part.double(), X.double()) ** 2)
    rounded = predict(lambda part: torch.cdist(part, X, compute_mode="use_mm_for_euclid_dist") ** 2)
    careful = predict(lambda part: torch.cdist(part - X.mean(0), X - X.mean(0)) ** 2)
    kl = [float(kl_divergence(*exact, *other).mean()) for other in (rounded, careful)]
    assert kl[0] > 5e-4
    assert kl[1] < 0.1 * kl[0]
