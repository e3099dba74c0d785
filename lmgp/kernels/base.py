"""The contract of kernels: values, capabilities and operators."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from numbers import Real
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from lmgp.columns import checked_table
from lmgp.errors import InputError
from lmgp.inputs import checked_scales
from lmgp.kernels.capabilities import CAPABILITIES as CAPABILITIES
from lmgp.kernels.capabilities import require as require
from lmgp.kernels.capabilities import unsupported as unsupported
from lmgp.kernels.derivatives import ByAutograd, Pullback
from lmgp.kernels.parameters import Parametrized
from lmgp.validation import as_tensor

if TYPE_CHECKING:
    import gpytorch

    from lmgp.kernels.composite import ScaledKernel, SumKernel
    from lmgp.kernels.stationary import GaussianKernel

Floats = NDArray[np.float64]
Bounds = tuple[float, float] | Literal["fixed"] | None


class Kernel(Parametrized, ABC):
    """A positive semi-definite function k(x, z) of rows.

    Kernels add up, multiply, and take factors: ``k1 + k2``, ``k1 * k2``, ``3.0 * k1``. They are scikit-learn parameter
    objects: they clone, and a grid search reaches ``kernel__left__lengthscale``. The constructors store what they are
    given; values are checked where the kernel is used.

    A subclass implements `evaluate_at` and `diagonal`, names its numeric parameters in `parameter_names`, and the
    capabilities that it implements in `_capabilities`.
    """

    # A NumPy number in front of a kernel leaves the product to the kernel.
    __array_ufunc__ = None

    _capabilities: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def evaluate_at(self, X: torch.Tensor, Z: torch.Tensor, values: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Evaluate k(x, z) for given values of the parameters.

        Parameters
        ----------
        X : Tensor of shape (..., n, d)
        Z : Tensor of shape (..., m, d)
        values : mapping of str to Tensor
            By the names of `parameters`.

        Returns
        -------
        Tensor of shape (..., n, m)
        """

    @abstractmethod
    def diagonal(self, X: ArrayLike) -> Floats:
        """Evaluate k(x, x) for each row.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)

        Raises
        ------
        InputError
            As `sections`.
        """

    @abstractmethod
    def checked(self, n_inputs: int) -> Self:
        """Return the kernel itself, after checking that it fits rows with `n_inputs` columns.

        Raises
        ------
        InputError
            If a parameter of the kernel is out of its range, or does not fit the rows.
        """

    def evaluate(self, X: torch.Tensor, Z: torch.Tensor, theta: torch.Tensor | None = None) -> torch.Tensor:
        """Evaluate the kernel between all rows of X and all rows of Z, in batches and differentiably.

        Parameters
        ----------
        X : Tensor of shape (..., n, d)
            Finite float64 rows; they are not checked again.
        Z : Tensor of shape (..., m, d)
        theta : Tensor of shape (n_free,) or (b, n_free), optional
            Logarithms of the free parameters, see `theta`; the kernel's own if not given. The result is once
            differentiable in it. With b rows, the i-th of b sets of rows has the i-th parameters: X and Z have shapes
            (b, n, d) and (b, m, d).

        Returns
        -------
        Tensor of shape (..., n, m)
        """
        return self.evaluate_at(X, Z, self.values(theta, X.device))

    def with_pullback(self, X: torch.Tensor, values: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, Pullback]:
        """Evaluate k(X, X), and prepare derivatives of it.

        For several weighted sums of one matrix: what their derivatives share is computed once.

        Parameters
        ----------
        X : Tensor of shape (n, d) or (b, n, d)
        values : mapping of str to Tensor
            By the names of `parameters`, without a gradient; see `evaluate_at`. With b sets of rows, of shape
            (b, 1, 1) or (b, 1, d).

        Returns
        -------
        covariance : Tensor of shape (n, n) or (b, n, n)
        pullback : Pullback
        """
        pullback = ByAutograd(self, X, values)
        return pullback.covariance, pullback

    def sections(self, Z: ArrayLike) -> Callable[[ArrayLike], Floats]:
        """Return the function x ↦ k(x, Z).

        Parameters
        ----------
        Z : array-like of shape (m, d)

        Returns
        -------
        callable
            Takes rows of shape (n, d), gives an array of shape (n, m).

        Raises
        ------
        InputError
            If a parameter of the kernel is out of its range, or does not fit the rows.
        """
        rows: Floats = checked_table(Z, "Z")
        self.checked(rows.shape[1])
        right, values = as_tensor(rows), self.values(None, torch.device("cpu"))

        def section(X: ArrayLike) -> Floats:
            left = as_tensor(same_columns(checked_table(X), rows))
            return self.evaluate_at(left, right, values).numpy()

        return section

    def __call__(self, X: ArrayLike, Z: ArrayLike | None = None) -> Floats:
        """Evaluate the kernel between all rows of X and all rows of Z.

        Parameters
        ----------
        X : array-like of shape (n, d)
        Z : array-like of shape (m, d), optional
            X itself if not given.

        Returns
        -------
        ndarray of shape (n, m)

        Raises
        ------
        InputError
            As `sections`.
        """
        return self.sections(checked_table(X) if Z is None else Z)(X)

    def can(self, capability: str) -> bool:
        """Say whether the kernel has a capability.

        Parameters
        ----------
        capability : str
            One of `CAPABILITIES`. Each is what a method needs: ``"metric"`` what `metric` and `scale` do,
            ``"frequencies"`` what `sample_frequencies` does, ``"gpytorch"`` what `to_gpytorch` does; the others have
            the name of their method.

        Returns
        -------
        bool
        """
        return capability in self._capabilities

    def metric(self, n_inputs: int) -> Floats:
        """Return the lengthscale of each column in which distances between rows are measured, shape (n_inputs,).

        Of a sum it is the shortest lengthscale of any part, so that near rows are near for every part. Of a product,
        1/lengthscale² is the sum over the parts, as for a product of Gaussians. Parts without a lengthscale do not
        count.

        Raises
        ------
        InputError
            If no part of the kernel has a lengthscale.
        """
        raise unsupported(self, "metric", "This")

    def scale(self, X: ArrayLike) -> Floats:
        """Divide each column by its lengthscale (`metric`).

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, d)
            A new array.

        Raises
        ------
        InputError
            If the kernel has no metric, or does not fit the rows.
        """
        rows: Floats = checked_table(X)
        return rows / self.checked(rows.shape[1]).metric(rows.shape[1])

    def rescaled(self, scales: ArrayLike) -> "Kernel":
        """Return the kernel of columns in other units: k(x/scales, z/scales), a function of x and z.

        What is learned from columns in standard deviations comes out in the caller's units. A single lengthscale
        becomes one a column where the scales differ. Bounds of lengthscales grow with them: one pair then reaches from
        the lower bound in the smallest unit to the upper one in the largest.

        Parameters
        ----------
        scales : array-like of shape (d,)
            Positive: what one unit of each column of this kernel is in the new units.

        Returns
        -------
        Kernel
            A new one of the same form.

        Raises
        ------
        InputError
            If the kernel has no such form, or a scale is not positive and finite.

        Examples
        --------
        >>> from lmgp import GaussianKernel
        >>> GaussianKernel(2.0).rescaled([1.0, 1000.0]).lengthscale
        array([   2., 2000.])
        """
        checked_scales(scales)
        raise InputError(
            f"{type(self).__name__} cannot be given in other units of its columns: it does not say how it depends on "
            "them. Scale the columns before fitting."
        )

    def prior_variance(self) -> float:
        """Return k(x, x), where it is the same at every row.

        Raises
        ------
        InputError
            If it is not.
        """
        raise unsupported(self, "prior_variance", "This")

    def spectral_density(self, frequencies: ArrayLike) -> Floats:
        """Evaluate the Fourier transform k̂ of a stationary kernel: k(x − z) = ∫ k̂(ξ) e^{2πi ξᵀ(x − z)} dξ.

        Parameters
        ----------
        frequencies : array-like of shape (m, d)
            ξ, in cycles per unit of each column.

        Returns
        -------
        ndarray of shape (m,)
            It integrates to the variance.

        Raises
        ------
        InputError
            If the kernel has none.
        """
        raise unsupported(self, "spectral_density", "This")

    def sample_frequencies(self, directions: ArrayLike, rng: np.random.Generator) -> Floats:
        """Draw frequencies from the normalised spectral density, from the draws of a standard Gaussian.

        Parameters
        ----------
        directions : array-like of shape (m, d)
            Each row is N(0, I) by itself. Dependent rows, such as orthogonal ones, keep their dependence.
        rng : numpy.random.Generator
            Draws what else is random.

        Returns
        -------
        ndarray of shape (m, d)
            In radians per unit of each column: cos(ωᵀ(x − z)) has the mean k(x, z)/k(x, x).

        Raises
        ------
        InputError
            If the kernel has no such density.
        """
        raise unsupported(self, "frequencies", "This")

    def gaussian_components(self) -> "tuple[GaussianKernel, ...]":
        """Return Gaussian kernels whose sum is this kernel.

        Raises
        ------
        InputError
            If there are none.
        """
        raise unsupported(self, "gaussian_components", "This")

    def to_gpytorch(self) -> "gpytorch.kernels.Kernel":
        """Make the kernel's counterpart in GPyTorch, in float64, with the same values of the parameters.

        `lmgp.gpytorch.from_gpytorch` leads back.

        Returns
        -------
        gpytorch.kernels.Kernel

        Raises
        ------
        InputError
            If GPyTorch has none.
        """
        raise unsupported(self, "gpytorch", "This")

    def __add__(self, other: "Kernel") -> "SumKernel":
        from lmgp.kernels.composite import SumKernel

        return SumKernel(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: "Kernel | float") -> "Kernel":
        from lmgp.kernels.composite import ProductKernel, ScaledKernel

        if isinstance(other, Kernel):
            return ProductKernel(self, other)
        return ScaledKernel(self, other) if isinstance(other, Real) else NotImplemented

    def __rmul__(self, factor: float) -> "ScaledKernel":
        from lmgp.kernels.composite import ScaledKernel

        return ScaledKernel(self, factor) if isinstance(factor, Real) else NotImplemented


def same_columns(X: Floats, Z: Floats) -> Floats:
    """Return X, or raise an InputError if it has not as many columns as Z."""
    if X.shape[1] != Z.shape[1]:
        raise InputError(f"X and Z must have the same number of columns; got {X.shape[1]} and {Z.shape[1]}.")
    return X
