"""Every feature map with every kernel: unbiased or exact where it serves the kernel, and refused by name elsewhere."""

from math import factorial

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import lmgp
from lmgp import (
    ExponentialKernel,
    GaussianKernel,
    LinearKernel,
    MaternKernel,
    ModulatedKernel,
    NystroemFeatures,
    RationalQuadraticKernel,
    TaylorFeatures,
)
from lmgp.errors import InputError
from lmgp.features.base import KernelMap
from lmgp.kernels.base import Kernel
from tests.contract.conftest import CASES, Case, rows

Floats = NDArray[np.float64]

ARD = [0.9, 2.0, 1.4]


def _of_first(X: Floats) -> Floats:
    return 1.0 + X[:, 0] ** 2


GAUSSIANS: dict[str, Kernel] = {
    "gaussian": GaussianKernel(ARD, 1.7),
    "sum_of_gaussians": GaussianKernel(ARD, 0.5) + 2.0 * GaussianKernel(3.0, 0.2),
    "product_of_gaussians": GaussianKernel(ARD, 0.5) * GaussianKernel(1.5, 0.8),
    "with_nothing": GaussianKernel(ARD) + 0.0 * GaussianKernel(0.1),
}
STATIONARY: dict[str, Kernel] = {
    "matern12": MaternKernel(ARD, 1.3, smoothness=0.5),
    "matern32": MaternKernel(0.9, 1.3),
    "matern52": MaternKernel(ARD, 0.4, smoothness=2.5),
    "rational_quadratic": RationalQuadraticKernel(ARD, 1.2, alpha=0.8),
    "gaussian_plus_matern": GaussianKernel(ARD, 0.5) + MaternKernel([1.5, 0.6, 0.9], 0.8),
    "gaussian_times_matern": GaussianKernel(ARD, 0.5) * MaternKernel(1.5, 0.8),
}
OTHERS: dict[str, Kernel] = {
    "linear": LinearKernel(),
    "gaussian_plus_linear": GaussianKernel(ARD) + LinearKernel(),
    "exponential": ExponentialKernel(LinearKernel()),
    "modulated": ModulatedKernel(GaussianKernel(ARD), _of_first),
}
KERNELS = GAUSSIANS | STATIONARY | OTHERS
# Which kernels each map is to serve, written out.
SERVED = {
    **dict.fromkeys(("fourier", "orthogonal", "structured"), GAUSSIANS | STATIONARY),
    **dict.fromkeys(("random_maclaurin", "rademacher", "gaussian", "tensor_srht", "taylor"), GAUSSIANS),
    **dict.fromkeys(("nystroem", "nystroem_farthest"), KERNELS),
}
PAIRS = [(case, kernel) for case in CASES for kernel in KERNELS]
UNBIASED = [(case, kernel) for case, kernel in PAIRS if CASES[case].is_random and kernel in SERVED[case]]
REFUSED = [(case, kernel) for case, kernel in PAIRS if kernel not in SERVED[case]]


def target(fitted: KernelMap, kernel: Kernel, X: Floats) -> Floats:
    """The kernel, or the series of each of its Gaussian components up to the degree of the map for it."""
    if not hasattr(fitted, "degree_"):
        return kernel(X)
    total = np.zeros((len(X), len(X)))
    for part, component in zip(fitted.parts, kernel.gaussian_components(), strict=True):
        inner = component.scale(X) @ component.scale(X).T
        damping = np.exp(-0.5 * np.diag(inner))
        series = sum(inner**n / factorial(n) for n in range(part.degree_ + 1))
        total += component.variance * damping[:, None] * series * damping
    return total


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kernel"), UNBIASED)
def test_a_random_map_is_unbiased(name: str, kernel: str) -> None:
    case, k = CASES[name], KERNELS[kernel]
    X = rows(4, seed=2, scale=0.4)
    tensor = torch.from_numpy(X)
    prior = k.diagonal(X)
    errors, squares = [], []
    for seed in range(60):
        fitted = case.make(64, kernel=k, random_state=seed).fit(X)
        columns = fitted.transform(X)
        errors.append(columns @ columns.T - target(fitted, k, X))
        missing = fitted.missing_variance(tensor, torch.from_numpy(columns))
        squares.append(np.square(columns).sum(axis=1) + (0.0 if missing is None else missing.numpy()) - prior)
    for found in (np.array(errors), np.array(squares)):
        standard_error = found.std(axis=0, ddof=1) / np.sqrt(60)
        assert standard_error.max() < 0.1 * prior.max(), "too few draws to see anything"
        bias = case.bias * prior.max() + 1e-12
        np.testing.assert_array_less(np.abs(found.mean(axis=0)), 5 * standard_error + bias)


@pytest.mark.parametrize("kernel", SERVED["taylor"])
def test_taylor_features_of_high_degree_are_exact_near_the_centre(kernel: str) -> None:
    X = rows(10, seed=3, scale=0.25)
    columns = TaylorFeatures(degree=14, kernel=KERNELS[kernel]).fit_transform(X)
    np.testing.assert_allclose(columns @ columns.T, KERNELS[kernel](X), atol=1e-10)


@pytest.mark.parametrize("landmarks", ["kmeans++", "farthest_point", "given"])
@pytest.mark.parametrize("kernel", SERVED["nystroem"])
def test_nystroem_features_of_all_rows_are_exact(kernel: str, landmarks: str) -> None:
    X, k = rows(40, scale=1.5), KERNELS[kernel]
    features = NystroemFeatures(40, X if landmarks == "given" else landmarks, kernel=k, random_state=0).fit(X)
    columns = features.transform(X)
    np.testing.assert_allclose(columns @ columns.T, k(X), atol=1e-9 * k.diagonal(X).max())
    missing = features.missing_variance(torch.from_numpy(X), torch.from_numpy(columns))
    np.testing.assert_allclose(missing, 0.0, atol=1e-9 * k.diagonal(X).max())


@pytest.mark.parametrize(("name", "kernel"), REFUSED)
def test_other_kernels_are_refused_with_the_maps_that_serve_them(name: str, kernel: str) -> None:
    case, k = CASES[name], KERNELS[kernel]
    assert not case.cls.serves(k)
    with pytest.raises(InputError, match=rf"^{case.cls.__name__} needs .*{type(k).__name__}.* has none\.") as refused:
        case.make(kernel=k, random_state=0).fit(rows())
    message = str(refused.value)
    assert "Kernels that can: GaussianKernel" in message
    named = message.split("Maps that serve this kernel: ")[1].rstrip(".").split(", ")
    assert "NystroemFeatures" in named
    for other in named:
        assert np.isfinite(getattr(lmgp, other)(20, kernel=k, random_state=0).fit_transform(rows())).all()


@pytest.mark.parametrize(("name", "case"), CASES.items(), ids=CASES)
def test_a_map_says_which_kernels_it_serves(name: str, case: Case) -> None:
    assert {kernel for kernel, k in KERNELS.items() if case.cls.serves(k)} == set(SERVED[name])
