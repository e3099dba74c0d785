"""Kernels of GPyTorch as kernels of this package, and back."""

from functools import reduce
from operator import add, mul
from typing import Any, TypeAlias

import gpytorch
import numpy as np
import torch

from lmgp.errors import InputError
from lmgp.kernels.base import Kernel
from lmgp.kernels.composite import ScaledKernel
from lmgp.kernels.dot_product import LinearKernel
from lmgp.kernels.rational_quadratic import RationalQuadraticKernel
from lmgp.kernels.stationary import GaussianKernel, MaternKernel, StationaryKernel

GPyTorchKernel: TypeAlias = gpytorch.kernels.Kernel


def counterpart(name: str, kernel: StationaryKernel, **options: Any) -> GPyTorchKernel:
    """Make GPyTorch's kernel of a name, times the variance.

    Parameters
    ----------
    name : str
        Of a class in `gpytorch.kernels`.
    kernel : StationaryKernel
        Its lengthscale, variance and alpha, if it has one, are the values.
    **options
        Further arguments of the class.

    Returns
    -------
    gpytorch.kernels.ScaleKernel
    """
    shape = np.shape(kernel.lengthscale)
    made = getattr(gpytorch.kernels, name)(ard_num_dims=shape[0] if shape else None, **options).double()
    learned = {}
    for one in kernel.parameters:
        learned[one.name] = not one.fixed
        if one.name != "variance":
            made.initialize(**{one.name: torch.from_numpy(np.array(one.value))})
            getattr(made, f"raw_{one.name}").requires_grad_(learned[one.name])
    return scaled(made, float(kernel.variance), learned=learned["variance"])


def linear() -> GPyTorchKernel:
    """Make GPyTorch's linear kernel of unit variance, which is not learned."""
    made = gpytorch.kernels.LinearKernel().double()
    made.initialize(variance=torch.ones((), dtype=torch.float64))
    made.raw_variance.requires_grad_(False)
    return made


def scaled(kernel: GPyTorchKernel, factor: float, *, learned: bool) -> GPyTorchKernel:
    """Multiply a kernel of GPyTorch by a factor, which is a parameter that can be learned, or not."""
    made = gpytorch.kernels.ScaleKernel(kernel).double()
    made.initialize(outputscale=torch.tensor(factor, dtype=torch.float64))
    made.raw_outputscale.requires_grad_(learned)
    return made


def from_gpytorch(kernel: GPyTorchKernel) -> Kernel:
    """Make a kernel of this package with the values of one of GPyTorch.

    Parameters
    ----------
    kernel : gpytorch.kernels.Kernel
        RBFKernel, MaternKernel, RQKernel, LinearKernel, or sums, products and multiples (ScaleKernel) of these.

    Returns
    -------
    Kernel

    Raises
    ------
    InputError
        If the kernel is of another kind, is batched, or uses only some of the columns.

    Examples
    --------
    >>> from lmgp import MaternKernel
    >>> from lmgp.kernels.gpytorch import from_gpytorch
    >>> from_gpytorch(MaternKernel([1.0, 2.0], 3.0).to_gpytorch())
    MaternKernel(lengthscale=array([1., 2.]), variance=3.0)
    """
    if kernel.active_dims is not None or kernel.batch_shape:
        raise InputError(f"{type(kernel).__name__} is batched or has active_dims: only kernels of all columns convert.")
    match kernel:
        case gpytorch.kernels.ScaleKernel():
            inner = from_gpytorch(kernel.base_kernel)
            factor = kernel.outputscale.item()
            if isinstance(inner, StationaryKernel):
                return inner.set_params(variance=float(inner.variance) * factor)
            return ScaledKernel(inner, factor)
        case gpytorch.kernels.RBFKernel():
            return GaussianKernel(_lengthscale(kernel))
        case gpytorch.kernels.MaternKernel():
            return MaternKernel(_lengthscale(kernel), smoothness=float(kernel.nu))
        case gpytorch.kernels.RQKernel():
            return RationalQuadraticKernel(_lengthscale(kernel), alpha=kernel.alpha.item())
        case gpytorch.kernels.LinearKernel() if kernel.variance.numel() == 1:
            return ScaledKernel(LinearKernel(), kernel.variance.item())
        case gpytorch.kernels.AdditiveKernel():
            return reduce(add, map(from_gpytorch, kernel.kernels))
        case gpytorch.kernels.ProductKernel():
            return reduce(mul, map(from_gpytorch, kernel.kernels))
    raise InputError(
        f"{type(kernel).__name__} of GPyTorch has no counterpart here. Kernels that have: RBFKernel, MaternKernel, "
        "RQKernel, LinearKernel, AdditiveKernel, ProductKernel and ScaleKernel."
    )


def _lengthscale(kernel: GPyTorchKernel) -> Any:
    values = kernel.lengthscale.detach().numpy().ravel().astype(np.float64)
    return values if kernel.ard_num_dims else float(values[0])
