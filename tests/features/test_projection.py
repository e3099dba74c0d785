"""Sums over the columns of a map without its columns, against the columns themselves."""

import numpy as np
import pytest
import torch

from lmgp import GaussianKernel, OrthogonalFourierFeatures, TaylorFeatures
from lmgp.features.projection import Projection


def rows(d: int, n: int = 300) -> np.ndarray:
    rng = np.random.default_rng(d)
    X = rng.normal(size=(n, d))
    X[0], X[1], X[2] = 0.0, 30.0, 1e160  # at the centre, and where the map has ended
    return X


@pytest.mark.parametrize("d", [1, 2, 3, 4, 7])
@pytest.mark.parametrize(
    ("features", "by_halves"),
    [
        (TaylorFeatures(130), True),
        (TaylorFeatures(60, index_set="energy"), True),
        (OrthogonalFourierFeatures(20, random_state=0), False),
    ],
)
def test_the_sum_is_that_of_the_columns(features, by_halves: bool, d: int) -> None:
    X, lengthscales = rows(d), np.linspace(0.7, 1.9, d)
    made = features.set_params(kernel=GaussianKernel(lengthscales, 1.7)).fit(X[3:])
    weights = torch.from_numpy(np.random.default_rng(1).normal(size=made.n_features_out_))
    project = Projection(made)
    assert project.by_halves == (by_halves and d > 1)
    found = project(torch.from_numpy(X), weights).numpy()
    columns = made.transform(X)
    np.testing.assert_allclose(found, columns @ weights.numpy(), atol=1e-13 * np.abs(columns).sum(axis=1).max())
    if by_halves:
        np.testing.assert_array_equal(found[1:3], 0.0)


def test_groups_have_their_own_weights() -> None:
    X, made = rows(2), TaylorFeatures(45).fit(rows(2)[3:])
    rng = np.random.default_rng(2)
    sizes, weights = [100, 1, 0, 199], [torch.from_numpy(rng.normal(size=45)) for _ in range(4)]
    found = Projection(made).of_groups(torch.from_numpy(X), weights, sizes).numpy()
    which = np.repeat(np.arange(4), sizes)
    expected = np.einsum("ij,ij->i", made.transform(X), np.stack([one.numpy() for one in weights])[which])
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_sum_of_gaussians_is_by_its_columns() -> None:
    X = rows(2)[3:]
    made = TaylorFeatures(60, kernel=GaussianKernel(1.0) + GaussianKernel(3.0)).fit(X)
    weights = torch.from_numpy(np.random.default_rng(1).normal(size=made.n_features_out_))
    project = Projection(made)
    assert not project.by_halves
    np.testing.assert_allclose(project(torch.from_numpy(X), weights), made.transform(X) @ weights.numpy(), atol=1e-12)
