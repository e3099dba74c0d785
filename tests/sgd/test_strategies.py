"""Steps of a function in weights and in duals, rows of all kinds, and the memory that they take."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array, random_array
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import PolynomialFeatures

from lmgp import (
    ExponentialKernel,
    GaussianKernel,
    LinearKernel,
    RandomFourierFeatures,
    RandomMaclaurinFeatures,
    TaylorFeatures,
)
from lmgp.errors import InputError, MemoryLimitError
from lmgp.kernels.base import Kernel
from lmgp.sgd.functions import STRATEGIES, KernelFunctions, make_source, outputs
from lmgp.sgd.models import LOSSES, SCHEDULES

Floats = NDArray[np.float64]

X = np.random.default_rng(0).standard_normal((12, 3))
QUADRATIC = LinearKernel() * LinearKernel() + 0.5 * LinearKernel()


def expand(strategy: str, source: Any, X: Any, n_outputs: int, limit: float) -> KernelFunctions:
    """The limit in bytes."""
    return KernelFunctions(strategy, source, X, n_outputs, limit / 2**30)


def start(
    strategy: str, X: Any = X, features: Any = None, limit: float = 1e9, kernel: Any = QUADRATIC
) -> KernelFunctions:
    rng = np.random.default_rng(1)
    return expand(strategy, make_source(strategy, kernel, features, X, rng), X, 2, limit)


# --------------------------------------------------------------------------------------------------------------- losses


VALUES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "squared": lambda f, y: 0.5 * (f - y) ** 2,
    "logistic": lambda f, y: np.logaddexp(0.0, -y * f),
    "hinge": lambda f, y: np.maximum(0.0, 1.0 - y * f),
}


@pytest.mark.parametrize("name", LOSSES)
def test_derivatives_of_losses_are_those_of_their_values(name: str) -> None:
    f = np.array([-800.0, -3.1, -1.2, -0.3, 0.0, 0.4, 2.2, 800.0])
    for y in (-1.0, 1.0):
        target, h = np.full_like(f, y), 1e-6
        slope = (VALUES[name](f + h, target) - VALUES[name](f - h, target)) / (2.0 * h)
        np.testing.assert_allclose(LOSSES[name](f, target), slope, rtol=1e-6, atol=1e-6)


def test_step_sizes_are_those_of_the_formulas() -> None:
    assert [SCHEDULES["constant"](t, 0.3, 2.0) for t in (1, 4)] == [0.3, 0.3]
    assert [SCHEDULES["inverse_sqrt"](t, 0.3, 2.0) for t in (1, 4)] == [0.3, 0.15]
    assert [SCHEDULES["pegasos"](t, 0.3, 2.0) for t in (1, 4)] == [0.5, 0.125]


# ---------------------------------------------------------------------------------------------------------------- steps


def test_the_table_has_six_strategies_in_the_order_of_the_lecture() -> None:
    assert STRATEGIES == (
        "features",
        "features_cached",
        "kernel",
        "kernel_cached",
        "approximate",
        "approximate_cached",
    )


@pytest.mark.parametrize("strategy", STRATEGIES[:4])
@pytest.mark.parametrize("radius", [None, np.array([0.5, 3.0])])
def test_steps_are_those_of_plain_duals(strategy: str, radius: Floats | None) -> None:
    f = start(strategy)
    K, duals = QUADRATIC(X), np.zeros((2, 12))
    rng = np.random.default_rng(2)
    for _ in range(60):
        i, shrink, change = int(rng.integers(12)), float(rng.uniform(-0.5, 1.0)), rng.standard_normal(2)
        np.testing.assert_allclose(f.outputs(i), duals @ K[i], rtol=1e-9, atol=1e-12)
        f.step(i, shrink, change, radius)
        duals *= shrink
        duals[:, i] += change
        if radius is not None:
            norm = np.sqrt(np.einsum("ki,ij,kj->k", duals, K, duals))
            duals *= np.minimum(1.0, radius / norm)[:, None]
        np.testing.assert_allclose(f.squared_norm, np.einsum("ki,ij,kj->k", duals, K, duals), rtol=1e-9, atol=1e-12)
    if strategy.startswith("kernel"):
        np.testing.assert_allclose(f.weights, duals, rtol=1e-9, atol=1e-12)
    else:
        phi = make_source(strategy, QUADRATIC, None, X, rng).transform(X)
        np.testing.assert_allclose(f.weights, duals @ phi, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("strategy", ["features_cached", "kernel_cached"])
def test_shrinking_to_nothing_and_far_below_one_leaves_no_trace(strategy: str) -> None:
    f = start(strategy)
    f.outputs(0)
    f.step(0, 1.0, np.ones(2))
    f.outputs(1)
    f.step(1, 0.0, np.array([0.5, 2.0]))  # only the change remains
    K = QUADRATIC(X)
    np.testing.assert_allclose(f.outputs(3), [0.5 * K[1, 3], 2.0 * K[1, 3]], rtol=1e-12)
    for _ in range(400):
        f.outputs(1)
        f.step(1, 0.1, np.zeros(2))
    f.outputs(2)
    f.step(2, 0.1, np.ones(2))
    np.testing.assert_allclose(f.outputs(3), [K[2, 3]] * 2, rtol=1e-12)
    np.testing.assert_allclose(f.squared_norm, [K[2, 2]] * 2, rtol=1e-12)


def test_a_vanishing_function_stays_so_under_a_projection_to_nothing() -> None:
    f = start("kernel")
    f.outputs(0)
    with np.errstate(invalid="ignore"):
        f.step(0, 0.5, np.zeros(2), np.zeros(2))
    np.testing.assert_array_equal(f.weights, np.zeros((2, 12)))


# ----------------------------------------------------------------------------------------------------------------- rows


@pytest.mark.parametrize("strategy", STRATEGIES[4:])
def test_sparse_rows_take_the_steps_of_dense_ones(strategy: str) -> None:
    sparse = random_array((12, 6), density=0.4, format="csr", rng=np.random.default_rng(5))
    maps = PolynomialFeatures(2), PolynomialFeatures(2)
    of_sparse, of_dense = start(strategy, sparse, maps[0]), start(strategy, sparse.toarray(), maps[1])
    rng = np.random.default_rng(3)
    for _ in range(40):
        i, change = int(rng.integers(12)), rng.standard_normal(2)
        np.testing.assert_allclose(of_sparse.outputs(i), of_dense.outputs(i), rtol=1e-12, atol=1e-14)
        of_sparse.step(i, 0.9, change)
        of_dense.step(i, 0.9, change)
    np.testing.assert_allclose(of_sparse.weights, of_dense.weights, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(of_sparse.squared_norm, of_dense.squared_norm, rtol=1e-10)
    where, values = of_sparse.read(0)
    assert not isinstance(where, slice)
    assert len(values) < of_sparse.weights.shape[1]


@pytest.mark.parametrize(
    "kernel", [GaussianKernel(0.7), QUADRATIC, RBF(0.7), rbf_kernel, lambda X, Z: (X @ Z.T).astype(np.float32)]
)
@pytest.mark.parametrize("strategy", STRATEGIES[2:4])
def test_kernel_rows_are_those_of_the_matrix(strategy: str, kernel: Callable[..., Any]) -> None:
    f, K = start(strategy, kernel=kernel), np.asarray(kernel(X, X), dtype=np.float64)
    for i in (0, 7, 11):
        np.testing.assert_allclose(f.read(i)[1], K[i], rtol=1e-6 if K.dtype == np.float32 else 1e-13, atol=1e-15)


class CountingKernel(LinearKernel):
    """Counts how often it is prepared."""

    prepared = 0

    def sections(self, Z: Any) -> Any:
        type(self).prepared += 1
        return super().sections(Z)


def test_a_kernel_is_prepared_once_for_all_steps() -> None:
    kernel: Kernel = CountingKernel()
    f = start("kernel", kernel=kernel)
    for i in range(12):
        f.outputs(i)
    assert CountingKernel.prepared == 1


def test_outputs_are_the_product_in_parts() -> None:
    Z = np.random.default_rng(7).standard_normal((2500, 3))
    weights = np.random.default_rng(8).standard_normal((2, 12))
    np.testing.assert_allclose(outputs(QUADRATIC, weights, Z, X), QUADRATIC(Z, X) @ weights.T, rtol=1e-9, atol=1e-12)
    sparse, affine = random_array((2500, 5), density=0.3, format="csr", rng=np.random.default_rng(9)), weights[:, :6]
    features = PolynomialFeatures(1).fit(sparse)
    np.testing.assert_allclose(
        outputs(features, affine, sparse), features.transform(sparse.toarray()) @ affine.T, rtol=1e-9, atol=1e-12
    )


def test_the_default_map_has_the_kernel_and_others_keep_what_they_have() -> None:
    def made(features: Any) -> Any:
        return make_source("approximate", GaussianKernel(0.3, 2.0), features, X, np.random.default_rng(0))

    default = made(None)
    assert isinstance(default, RandomFourierFeatures)
    assert (default.kernel_.lengthscale, default.kernel_.variance) == (0.3, 2.0)
    assert made(RandomFourierFeatures(4)).kernel_.lengthscale == 0.3
    assert made(RandomFourierFeatures(4, kernel=GaussianKernel(5.0))).kernel_.lengthscale == 5.0
    assert isinstance(made(Nystroem(n_components=4)), Nystroem)


# --------------------------------------------------------------------------------------------------------------- limits


@pytest.mark.parametrize(
    ("strategy", "needed", "rows"),
    [
        (
            "features_cached",
            12 * 12 * 8,
            "12 rows of 12 columns",
        ),
        (
            "kernel_cached",
            12 * 12 * 8,
            "12 rows of 12 columns",
        ),
        (
            "approximate_cached",
            12 * 50 * 8,
            "12 rows of 50 columns",
        ),
    ],
)
def test_memory_is_stated_before_it_is_taken(strategy: str, needed: int, rows: str) -> None:
    other = strategy.removesuffix("_cached")
    message = f"{rows} that strategy='{strategy}' stores .*Use strategy='{other}', which"
    features = RandomFourierFeatures(50, kernel=GaussianKernel())
    with pytest.raises(MemoryLimitError, match=message):
        start(strategy, features=features, limit=needed - 1)
    start(strategy, features=features, limit=needed)
    # On the fly only the weights of two functions are held, twice.
    start(strategy.removesuffix("_cached"), features=features, limit=2 * 2 * 8 * needed // (12 * 8))


def test_nothing_is_made_above_the_limit() -> None:
    asked: list[int] = []

    def kernel(X: Floats, Z: Floats) -> Floats:
        asked.append(len(X))
        return X @ Z.T

    with pytest.raises(MemoryLimitError):
        start("kernel_cached", kernel=kernel, limit=100)
    assert max(asked) == 1


def test_sparse_features_need_what_they_hold() -> None:
    sparse = random_array((500, 40), density=0.1, format="csr", rng=np.random.default_rng(5))
    features = PolynomialFeatures(2)
    made = features.fit_transform(sparse)
    needed = made.data.nbytes + made.indices.nbytes
    start("approximate_cached", sparse, features, limit=1.3 * needed)
    with pytest.raises(MemoryLimitError, match="500 of 500 rows of 861 columns that strategy='approx"):
        start("approximate_cached", sparse, features, limit=0.7 * needed)


class Bad(TransformerMixin, BaseEstimator):
    """A transformer that makes what it is told to."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def fit(self, X: Any, y: Any = None) -> "Bad":
        return self

    def transform(self, X: Any) -> Any:
        return self.result


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (np.ones(3), r"an array of shape \(3,\) of float64 for 1 rows; expected numbers, shape \(1, n_features\)"),
        (np.ones((2, 3)), r"shape \(2, 3\)"),
        (np.array([["a", "b"]]), r"of <U1 for 1 rows"),
        (csr_array(np.ones((4, 2))), r"shape \(4, 2\)"),
    ],
)
def test_features_of_the_wrong_shape_are_refused(result: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        start("approximate", features=Bad(result))


@pytest.mark.parametrize(
    "kernel", [lambda X, Z: X, lambda X, Z: 1.0, lambda X, Z: (X @ Z.T).T, lambda X, Z: X @ Z.T * 1j, GaussianKernel]
)
def test_kernels_that_make_no_matrix_are_refused(kernel: Any) -> None:
    with pytest.raises(InputError, match=r"expected numbers, shape \(1, 12\)"):
        start("kernel", kernel=kernel)


def test_a_kernel_without_a_map_of_its_own_is_refused() -> None:
    with pytest.raises(InputError, match=r"random Fourier features where .*; got ProductKernel"):
        start("approximate", kernel=LinearKernel() * GaussianKernel())
    with pytest.raises(InputError, match="no finite feature map; approximate it"):
        start("features", kernel=GaussianKernel())


def test_weights_above_the_limit_are_refused() -> None:
    X = csr_array(np.eye(3, 200))
    features = TaylorFeatures(degree=3).fit(X)
    with pytest.raises(MemoryLimitError, match=r"1,373,701 weights of 2 function\(s\) take 41.9 MiB.*lower degree"):
        expand("approximate", features, X, 2, 40e6)
    assert expand("approximate", features, X, 2, 50e6).weights.shape == (2, 1_373_701)


def test_sparse_rows_of_unequal_length_are_counted_one_by_one() -> None:
    dense = np.zeros((3000, 60))
    dense[:, 0] = 1.0
    dense[1] = 1.0  # among the first rows, and the heaviest by far
    X = csr_array(dense)
    features = TaylorFeatures(degree=2).fit(X)
    stored = features.transform(X)
    needed = stored.data.nbytes + stored.indices.nbytes
    with pytest.raises(MemoryLimitError, match=r"approximate_cached.*of max_memory_gib="):
        expand("approximate_cached", features, X, 1, needed - 1)
    expand("approximate_cached", features, X, 1, needed)


def test_outputs_that_are_not_finite_are_refused() -> None:
    X = np.ones((3, 2))
    X[1] = 1e5
    with pytest.raises(InputError, match="not finite at row 1"):
        outputs(ExponentialKernel(LinearKernel()), np.ones((1, 3)), X, np.ones((3, 2)))


@pytest.mark.parametrize("features", [TaylorFeatures(20), RandomMaclaurinFeatures(20)])
def test_features_that_are_zero_at_all_rows_are_refused(features: Any) -> None:
    with pytest.raises(
        InputError, match=r"All features that .*Features makes of the rows are zero.* subtract the mean of X"
    ):
        start("approximate", X + 100.0, features, kernel=GaussianKernel())
    start("approximate", np.vstack((X + 100.0, X)), features, kernel=GaussianKernel())
