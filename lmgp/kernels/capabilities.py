"""What a kernel can do, and the error that names what can."""

from typing import TYPE_CHECKING

from lmgp.errors import InputError

if TYPE_CHECKING:
    from lmgp.kernels.base import Kernel

# The capabilities of kernels: what each is, and which kernels have it.
CAPABILITIES = {
    "metric": (
        "a lengthscale",
        "GaussianKernel, MaternKernel, RationalQuadraticKernel, and sums, products and multiples with one of them",
    ),
    "prior_variance": (
        "one prior variance for all rows",
        "GaussianKernel, MaternKernel, RationalQuadraticKernel, and their sums, products and multiples",
    ),
    "spectral_density": (
        "a spectral density",
        "GaussianKernel, MaternKernel, RationalQuadraticKernel, their sums and multiples, and products of Gaussians",
    ),
    "frequencies": (
        "a draw of frequencies",
        "GaussianKernel, MaternKernel, RationalQuadraticKernel, and their sums, products and multiples",
    ),
    "gaussian_components": (
        "Gaussian components",
        "GaussianKernel, and sums, products and multiples of it",
    ),
    "gpytorch": (
        "a counterpart in GPyTorch",
        "GaussianKernel, MaternKernel, RationalQuadraticKernel, LinearKernel() without a matrix, and their sums, "
        "products and multiples",
    ),
}


def require(kernel: "Kernel", capability: str, who: str) -> None:
    """Check that a kernel has the capability that a map or solver needs.

    Parameters
    ----------
    kernel : Kernel
    capability : str
        One of `CAPABILITIES`.
    who : str
        The name of what needs it.

    Raises
    ------
    InputError
        If it has not; the message names the kernels that have.
    """
    if not kernel.can(capability):
        raise unsupported(kernel, capability, who)


def unsupported(kernel: "Kernel", capability: str, who: str) -> InputError:
    """Make the error that `require` raises."""
    what, which = CAPABILITIES[capability]
    shown = " ".join(repr(kernel).split())
    return InputError(f"{who} needs {what} of the kernel; {shown} has none. Kernels that can: {which}.")
