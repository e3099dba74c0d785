"""Sums of products by BLAS and by torch, in both precisions, against products written out."""

import threading
import time
from functools import partial

import numpy as np
import pytest
import torch

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    NearestNeighborsGPRegressor,
    RandomFourierFeatures,
    TaylorFeatures,
    load,
)
from lmgp.errors import InputError, NumericalError
from lmgp.metrics import kl_divergence
from lmgp.utils import arithmetic as sums
from lmgp.utils.arithmetic import Arithmetic, Products, Written, check_device
from tests.conftest import counts_and_noises, draw

GIVEN = {"kernel": GaussianKernel([1.2, 0.8], 1.5), "noise_variance": 0.05}
EVERY = [Arithmetic(device, precision) for device in (None, "cpu") for precision in ("float64", "float32")]
has_accelerator = torch.cuda.is_available()
on_an_accelerator = pytest.mark.skipif(not has_accelerator, reason="torch has no accelerator here")


def summed(arithmetic: Arithmetic, written: bool, n: int = 700, n_columns: int = 300) -> float:
    """The largest difference of the sums over two chunks from what they are, relative to the largest sum."""
    rng = np.random.default_rng(0)
    phi, Y, rho = rng.normal(size=(n, n_columns)), rng.normal(size=(n, 2)), rng.uniform(0.2, 3.0, n)
    gram, cross = (torch.zeros((n_columns, size), dtype=torch.float64) for size in (n_columns, 2))
    products = Products(gram, cross, arithmetic)
    for part, precision in ((slice(0, 500), rho), (slice(500, n), None)):
        columns = torch.from_numpy(phi[part]).to(arithmetic.place)

        def write(some: slice, into: torch.Tensor, columns: torch.Tensor = columns) -> None:
            into.copy_(columns[some] / 0.5)

        made = Written(write, 0.5) if written else columns.to(arithmetic.dtype)
        own = None if precision is None else torch.from_numpy(precision[part]).to(arithmetic.place)
        products.add(made, torch.from_numpy(Y[part]).to(arithmetic.place), own)
    products.finish()
    rho[500:] = 1.0
    expected = (rho[:, None] * phi).T @ phi
    beside = phi.T @ (rho[:, None] * Y)
    errors = np.tril(gram.numpy() - expected), cross.numpy() - beside
    return max(float(np.abs(one).max()) for one in errors) / float(np.abs(expected).max())


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("arithmetic", EVERY, ids=str)
def test_products_are_what_they_are_said_to_be(
    arithmetic: Arithmetic, written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # So that there are several parts of several blocks.
    monkeypatch.setattr("lmgp.utils.arithmetic.CHUNK_BYTES", 8 * 300 * 128)
    monkeypatch.setattr("lmgp.utils.arithmetic.PART_BYTES", 8 * 300 * 50)
    monkeypatch.setattr("lmgp.utils.arithmetic.SINGLE_ROWS", 200)
    error = summed(arithmetic, written)
    assert error < 1e-14 if arithmetic.precision == "float64" else 1e-9 < error < 1e-6


@pytest.mark.parametrize("features", [RandomFourierFeatures(60, random_state=0), TaylorFeatures(40)], ids=type)
@pytest.mark.parametrize("trend", ["constant", "linear"])
def test_torch_agrees_with_blas(features: RandomFourierFeatures, trend: str) -> None:
    X, y, T = draw()
    counts, noises = counts_and_noises(len(y))
    given = {**GIVEN, "trend": trend}
    models = [
        FeaturizedGPRegressor(features, device=device, **given).fit(X, y, counts + 0.5, noises)
        for device in (None, "cpu")
    ]
    np.testing.assert_allclose(*(model.predict(T, return_std=True) for model in models), rtol=0, atol=1e-10)
    assert models[1].rounding_divergence_ == 0.0


@pytest.mark.parametrize("features", [RandomFourierFeatures(100, random_state=0), TaylorFeatures(40)], ids=type)
@pytest.mark.parametrize("noise", [0.1, 1e-4])
@pytest.mark.parametrize("streamed", [False, True])
def test_single_precision_says_what_it_costs(features: RandomFourierFeatures, noise: float, streamed: bool) -> None:
    given = {"features": features, "kernel": GIVEN["kernel"], "noise_variance": noise}
    ratios = []
    for seed in range(4):  # what rounding costs one draw is chance, and another on each processor
        X, y, T = draw(2000, n_new=200, outside=False, noise=noise**0.5, seed=seed)
        models = [FeaturizedGPRegressor(feature_dtype=one, **given) for one in ("float64", "float32")]
        for model in models:
            model.fit([(X[i : i + 500], y[i : i + 500]) for i in range(0, 2000, 500)]) if streamed else model.fit(X, y)
        exact, single = (model.predict(T, return_std=True, include_noise=True) for model in models)
        true = float(np.mean(kl_divergence(single[0], single[1] ** 2, exact[0], exact[1] ** 2)))
        assert 0.0 < true < 1e-3
        assert models[0].rounding_divergence_ == 0.0
        ratios.append(models[1].rounding_divergence_ / true)
    assert 1.0 / 30.0 < np.exp(np.mean(np.log(ratios))) < 300.0


def test_single_precision_is_refused_where_noise_is_too_little_for_it() -> None:
    X, y, _ = draw(2000)
    given = {"features": RandomFourierFeatures(300, random_state=0), "kernel": GaussianKernel(1.0)}
    FeaturizedGPRegressor(**given, noise_variance=1e-6).fit(X, y)
    with pytest.raises(NumericalError, match="feature_dtype='float64'"):
        FeaturizedGPRegressor(**given, noise_variance=1e-6, feature_dtype="float32").fit(X, y)


def test_angles_are_of_double_precision() -> None:
    # Of rows 1e5 radians away, single precision has angles of 0.01 radians.
    rng = np.random.default_rng(0)
    X = np.sort(rng.uniform(0.0, 4e5, (400, 1)), axis=0)
    y = np.sin(X[:, 0])
    given = {"kernel": GaussianKernel(1.0), "noise_variance": 0.1}
    exact, single = (
        FeaturizedGPRegressor(RandomFourierFeatures(30, random_state=0), feature_dtype=one, **given).fit(X, y)
        for one in ("float64", "float32")
    )
    np.testing.assert_allclose(single.predict(X), exact.predict(X), rtol=0, atol=0.05)


def test_statistics_are_of_double_precision_and_saved(tmp_path) -> None:
    X, y, T = draw()
    model = FeaturizedGPRegressor(RandomFourierFeatures(60, random_state=0), feature_dtype="float32", **GIVEN).fit(X, y)
    sums = model._fitted.sums.settled.sums
    assert sums.gram.dtype == sums.cross.dtype == torch.float64
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(T), model.predict(T))
    assert loaded.rounding_divergence_ == model.rounding_divergence_ > 0.0
    np.testing.assert_array_equal(loaded.partial_fit(X, y).predict(T), model.partial_fit(X, y).predict(T))


class TestDevices:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["nowhere", "meta", ""])
    @pytest.mark.parametrize("model", [FeaturizedGPRegressor, NearestNeighborsGPRegressor, ExactGPRegressor])
    def test_an_unknown_device_is_refused(self, name: str, model: type) -> None:
        X, y, _ = draw()
        with pytest.raises(InputError, match=r"cannot be used: .*\. Use 'cpu'\."):
            model(device=name, **GIVEN).fit(X, y)

    @pytest.mark.parametrize("trend", ["constant", "linear"])
    @pytest.mark.parametrize("accelerated", [False, True])
    def test_nearest_rows_in_large_batches(
        self, trend: str, accelerated: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        X, y, T = draw(200)
        monkeypatch.setattr(Arithmetic, "accelerated", accelerated)  # as on an accelerator, but here
        model = NearestNeighborsGPRegressor(20, trend=trend, **GIVEN).fit(X, y)
        left_out = model.loo_
        monkeypatch.undo()
        expected = NearestNeighborsGPRegressor(20, trend=trend, device="cpu", **GIVEN).fit(X, y)
        if accelerated:
            expected._fitted.posterior._cells = None
        found = model.predict(T, return_std=True)
        np.testing.assert_allclose(found, expected.predict(T, return_std=True), rtol=0, atol=1e-10)
        np.testing.assert_allclose(left_out.mean, expected.loo_.mean, rtol=0, atol=1e-10)

    @on_an_accelerator
    def test_nearest_rows_and_iterations_on_an_accelerator(self) -> None:
        X, y, T = draw(400)
        settled = partial(ExactGPRegressor, solver="iterative", tolerance=1e-8, random_state=0)
        # The CPU shares neighbours among rows, which changes nothing where all rows are neighbours.
        for of in (partial(NearestNeighborsGPRegressor, n_neighbors=len(X)), settled):
            here, there = (of(device=device, **GIVEN).fit(X, y) for device in ("cpu", "cuda"))
            np.testing.assert_allclose(there.predict(T), here.predict(T), rtol=0, atol=1e-6)

    @pytest.mark.skipif(has_accelerator, reason="torch has an accelerator here")
    def test_a_device_that_is_not_here_is_refused(self) -> None:
        with pytest.raises(InputError, match="device='cuda' cannot be used"):
            check_device("cuda")
        assert Arithmetic("cuda").place.type == "cpu"  # of a model that was fitted elsewhere

    @on_an_accelerator
    @pytest.mark.parametrize("precision", ["float64", "float32"])
    @pytest.mark.parametrize("written", [False, True])
    def test_an_accelerator_sums(self, precision: str, written: bool) -> None:
        assert summed(Arithmetic("cuda", precision), written) < (1e-13 if precision == "float64" else 1e-6)

    @on_an_accelerator
    def test_an_accelerator_agrees(self) -> None:
        X, y, T = draw()
        models = [
            FeaturizedGPRegressor(RandomFourierFeatures(60, random_state=0), device=device, **GIVEN).fit(X, y)
            for device in (None, "cuda")
        ]
        np.testing.assert_allclose(*(model.predict(T) for model in models), rtol=0, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("layout", ["rows", "columns", "every second row", "every second column"])
def test_columns_of_any_layout_are_multiplied(layout: str, dtype: torch.dtype) -> None:
    base = torch.from_numpy(np.random.default_rng(0).normal(size=(14, 14))).to(dtype)
    layouts = {
        "rows": base[:7],
        "columns": base.T[:7],
        "every second row": base[::2],
        "every second column": base[:, ::2],
    }
    columns = layouts[layout]
    into = torch.ones((columns.shape[1],) * 2, dtype=dtype)
    sums._add_products(into, columns, 3.0)
    expected = 1.0 + 3.0 * columns.T @ columns
    torch.testing.assert_close(into.tril(), expected.tril())
    torch.testing.assert_close(into.triu(1), torch.ones_like(into).triu(1))


def test_other_threads_run_while_blas_multiplies() -> None:
    columns, into = torch.randn(20_000, 500, dtype=torch.float64), torch.zeros((500, 500), dtype=torch.float64)
    thread = threading.Thread(target=sums._add_products, args=(into, columns, 1.0))
    thread.start()
    turns = 0
    while thread.is_alive():
        time.sleep(1e-3)
        turns += 1
    assert turns > 5
