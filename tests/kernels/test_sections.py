"""The covariances with fixed rows, of kernels that have no faster way to them."""

import numpy as np
import pytest

from lmgp import GaussianKernel, LinearKernel
from lmgp.errors import InputError
from lmgp.kernels.base import Kernel


@pytest.mark.parametrize("kernel", [LinearKernel(), GaussianKernel(0.9, 1.4)])
def test_they_are_those_of_the_kernel(kernel: Kernel) -> None:
    rng = np.random.default_rng(0)
    Z, X = rng.normal(size=(7, 2)), rng.normal(size=(4, 2))
    np.testing.assert_allclose(Kernel.sections(kernel, Z)(X), kernel(X, Z), rtol=1e-12)
    np.testing.assert_allclose(kernel.sections(Z)(X), kernel(X, Z), rtol=1e-10)
    with pytest.raises(InputError, match="columns"):
        Kernel.sections(kernel, Z)(X[:, :1])
    with pytest.raises(InputError):
        Kernel.sections(kernel, np.full((2, 2), np.nan))
