"""Taylor and Maclaurin maps of sums of Gaussian kernels: the columns of each component side by side."""

import numpy as np
import pytest
import torch

from lmgp import (
    GaussianKernel,
    MaternKernel,
    OptimizedMaclaurinFeatures,
    RandomMaclaurinFeatures,
    TaylorFeatures,
)
from lmgp.errors import InputError, MemoryLimitError
from lmgp.features.fourier import RandomFourierFeatures

SUM = GaussianKernel([0.8, 1.5], 2.0) + 0.5 * GaussianKernel(2.0)
X = np.random.default_rng(0).normal(size=(30, 2)) * 0.7
MAPS = [TaylorFeatures, OptimizedMaclaurinFeatures, RandomMaclaurinFeatures]


def test_taylor_features_converge_to_the_sum() -> None:
    columns = TaylorFeatures(600, kernel=SUM).fit(X).transform(X)
    np.testing.assert_allclose(columns @ columns.T, SUM(X), atol=1e-8)


def test_sparse_and_dense_rows_have_the_same_columns() -> None:
    from scipy.sparse import csr_array

    features = TaylorFeatures(degree=3, kernel=SUM).fit(X)
    np.testing.assert_allclose(features.transform(csr_array(X)).toarray(), features.transform(X), atol=1e-14)


@pytest.mark.parametrize("cls", MAPS)
def test_the_components_share_the_columns_equally(cls) -> None:
    features = cls(40, kernel=SUM, random_state=0).fit(X)
    parts = [part.n_features_out_ for part in features.parts]
    assert features.n_features_out_ == sum(parts) <= 40
    assert len(set(parts)) == 1
    assert features.work(2).columns == sum(parts)
    with pytest.raises(InputError, match="at least 2; got 1"):
        cls(1, kernel=SUM).fit(X)


def test_a_degree_decides_on_the_columns_alone() -> None:
    few, many = (TaylorFeatures(n_features, degree=3, kernel=SUM).fit(X) for n_features in (1, 512))
    np.testing.assert_array_equal(few.transform(X), many.transform(X))
    assert [len(part.exponents_) for part in few.parts] == [10, 10]


@pytest.mark.parametrize("index_set", ["total_degree", "energy"])
def test_the_missing_variance_is_summed(index_set: str) -> None:
    features = TaylorFeatures(20, index_set=index_set, kernel=SUM).fit(3 * X)
    columns = torch.from_numpy(features.transform(3 * X))
    expected = SUM.diagonal(X) - np.square(columns.numpy()).sum(axis=1)
    np.testing.assert_allclose(features.missing_variance(torch.from_numpy(3 * X), columns), expected, atol=1e-12)
    np.testing.assert_allclose(features.missing_variance(torch.from_numpy(3 * X)), expected, atol=1e-12)


@pytest.mark.parametrize("epsilon", [1e-2, 1e-6])
def test_beyond_the_reach_there_is_next_to_nothing(epsilon: float) -> None:
    features = TaylorFeatures(60, kernel=SUM).fit(X)
    directions = np.random.default_rng(1).normal(size=(200, 2))
    far = directions / np.linalg.norm(SUM.scale(directions), axis=1, keepdims=True) * features.reach(epsilon)
    assert np.all(np.square(features.transform(far)).sum(axis=1) <= epsilon * SUM.diagonal(far) * (1 + 1e-9))


@pytest.mark.parametrize("kernel", [2.0 * GaussianKernel(0.7, 1.5), GaussianKernel(1.0) * GaussianKernel(0.7, 3.0)])
@pytest.mark.parametrize("cls", MAPS)
def test_products_and_multiples_are_one_gaussian(cls, kernel) -> None:
    (gaussian,) = kernel.gaussian_components()
    features = cls(30, kernel=kernel, random_state=0).fit(X)
    expected = cls(30, kernel=gaussian, random_state=0).fit(X)
    np.testing.assert_array_equal(features.transform(X), expected.transform(X))
    assert repr(features.kernel_) == repr(kernel)


@pytest.mark.parametrize("cls", MAPS)
@pytest.mark.parametrize("kernel", [MaternKernel(1.0), GaussianKernel() + MaternKernel()])
def test_other_kernels_are_refused_by_name(cls, kernel) -> None:
    with pytest.raises(InputError, match=rf"{cls.__name__} needs Gaussian components.*Matern.*NystroemFeatures"):
        cls(30, kernel=kernel).fit(X)


@pytest.mark.slow
@pytest.mark.parametrize(
    "features", [RandomFourierFeatures(10**9), TaylorFeatures(10**9), OptimizedMaclaurinFeatures(10**10)]
)
def test_a_map_that_does_not_fit_is_refused_before_it_is_drawn(features) -> None:
    with pytest.raises(MemoryLimitError, match="At most about"):
        features.fit(X)
