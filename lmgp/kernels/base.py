"""The contract of kernels: values, parameters that are learned, capabilities, and operators."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from lmgp.data import Floats, as_tensor, checked_scales
from lmgp.errors import InputError, nearest_names
from lmgp.kernels.derivatives import Pullback
from lmgp.utils.columns import checked_table
from lmgp.utils.facts import Described, Table
from lmgp.utils.lazy import Tensor, torch
from lmgp.utils.parallel import parallel_map
from lmgp.utils.parameters import KERNELS, KnownParameters, parameter_names

if TYPE_CHECKING:
    from lmgp.kernels.columns import ColumnsKernel
    from lmgp.kernels.composite import ScaledKernel, SumKernel
    from lmgp.kernels.stationary import GaussianKernel

Bounds = tuple[float, float] | Literal["fixed"] | None

# Bytes of a block of kernel values, which stays in the processor's cache while it is computed, and its most columns.
BLOCK_BYTES, BLOCK_COLUMNS = 2**20, 4096

# The capabilities of kernels: what each is, and which kernels have it.
CAPABILITIES = {
    "metric": (
        "a lengthscale",
        "GaussianKernel, MaternKernel, RationalQuadraticKernel, and sums, products and multiples with one of them",
    ),
    "prior_variance": (
        "one prior variance for all rows",
        "GaussianKernel, MaternKernel, RationalQuadraticKernel, PeriodicKernel, and their sums, products and multiples",
    ),
    "spectral_density": (
        "a spectral density",
        "GaussianKernel, MaternKernel, RationalQuadraticKernel, their sums and multiples, and products of Gaussians",
    ),
    "frequencies": (
        "a draw of frequencies",
        "GaussianKernel, MaternKernel, RationalQuadraticKernel, PeriodicKernel, and their sums, products and multiples",
    ),
    "gaussian_components": ("Gaussian components", "GaussianKernel, and sums, products and multiples of it"),
}

# The method that a class overrides to have a capability.
_METHODS = {name: name for name in CAPABILITIES} | {"frequencies": "sample_frequencies"}


class RadialPart(NamedTuple):
    """A part of a sum or product of kernels, each a function of the distance in lengthscales of its own.

    Attributes
    ----------
    profile : str
        Which function: a name in `lmgp.posteriors.rowsystems.PROFILES`.
    lengthscale : ndarray of shape () or (d,)
    variance, alpha : float
        The last of a rational quadratic kernel.
    columns : list of int or None
        Those that it sees, with a lengthscale each; None means all.
    period : ndarray of shape () or (d,), or None
        Of a periodic kernel, whose distance is that between points on circles.
    factor : bool
        Whether it is a factor of the part before it, not a term of its own.
    """

    profile: str
    lengthscale: Floats
    variance: float
    alpha: float
    columns: list[int] | None = None
    period: Floats | None = None
    factor: bool = False


class Parameter(NamedTuple):
    """One parameter of a kernel.

    Attributes
    ----------
    name : str
        As scikit-learn's `set_params` takes it: ``"lengthscale"``, ``"left__variance"``.
    value : ndarray of shape () or (d,)
    bounds : (float, float) or None
        The least and the largest value that learning may give it, in the units of the value; None leaves them to the
        learning.
    fixed : bool
        Whether learning leaves the parameter as it is.
    kind : str, default="other"
        What it is measured in: a ``"lengthscale"`` or a ``"period"`` in the units of the columns, a ``"variance"`` in
        squared units of y, the variance of a ``"slope"`` in these over squared units of the columns; ``"other"`` has no
        unit.
    columns : tuple of int, optional
        Those that it is of, where that are not all.
    """

    name: str
    value: Floats
    bounds: tuple[float, float] | None
    fixed: bool
    kind: str = "other"
    columns: tuple[int, ...] | None = None


class Kernel(Described, KnownParameters, BaseEstimator, ABC):
    """A positive semi-definite function k(x, z) of rows.

    Kernels add up, multiply, and take factors: ``k1 + k2``, ``k1 * k2``, ``3.0 * k1``. They are scikit-learn parameter
    objects: they clone, and a grid search reaches ``kernel__left__lengthscale``. The constructors store what they are
    given; values are checked where the kernel is used. Printed, a kernel is a table of its terms in three digits;
    `parameters` has all digits.

    A subclass implements `covariance`, and `checked` where its parameters can be wrong. It names its numeric parameters
    in `parameter_names`; the constructor parameter ``<name>_bounds`` of each holds its bounds, None or ``"fixed"``. It
    has the capabilities whose methods it overrides. Where a name does not say what a parameter is measured in,
    `parameter_kinds` does: see `Parameter`.
    """

    parameter_names: ClassVar[tuple[str, ...]] = ()
    parameter_kinds: ClassVar[Mapping[str, str]] = {"lengthscale": "lengthscale", "variance": "variance"}

    # A NumPy number in front of a kernel leaves the product to the kernel.
    __array_ufunc__ = None

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "covariance" in vars(cls) and "prior_variance" not in vars(cls):  # that of the parent's covariance
            cls.prior_variance = Kernel.prior_variance  # type: ignore[method-assign]

    @property
    def label(self) -> str:
        """What tables call the kernel."""
        return type(self).__name__

    @property
    def terms(self) -> "tuple[tuple[Kernel, ...], ...]":
        """The terms of which the kernel is the sum, each the factors of a product."""
        return ((self,),)

    def _description(self) -> Table | None:
        from lmgp.kernels.table import kernel_table

        try:
            return kernel_table(self)
        except (TypeError, ValueError, LookupError):  # parameters that are not checked yet may be anything
            return None

    def set_params(self, **params: Any) -> Self:  # noqa: D102
        known = parameter_names(type(self))
        for name in params:
            if name.partition("__")[0] not in known:  # to scikit-learn, the kernel would be its table
                raise InputError(f"Invalid parameter {name!r} for {self!r}; {nearest_names(name, known)}")
        return super().set_params(**params)

    @abstractmethod
    def covariance(self, X: Tensor, Z: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        """Compute k(x, z) for given values of the parameters, differentiably.

        Parameters
        ----------
        X : Tensor of shape (..., n, d)
            Finite float64 rows, not to be changed.
        Z : Tensor of shape (..., m, d)
        values : mapping of str to Tensor
            By the names of `parameters`.

        Returns
        -------
        Tensor of shape (..., n, m)
            A new one.
        """

    def checked(self, n_inputs: int) -> Self:
        """Return the kernel itself, after checking that it fits rows with `n_inputs` columns.

        Raises
        ------
        InputError
            If a parameter of the kernel is out of its range, or does not fit the rows.
        """
        return self

    def with_indices(self, names: Sequence[str] | None, n_inputs: int) -> "Kernel":
        """Return the kernel with indices in place of the names of columns (see `on`); itself where it has none.

        Parameters
        ----------
        names : sequence of str, optional
            Of the columns of the rows, where they have names.
        n_inputs : int
            d.

        Raises
        ------
        InputError
            If the rows have no such column.
        """
        return self

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
        rows: Floats = checked_table(X)
        return self._of_table(X, rows).evaluate_diagonal(rows)

    def evaluate_diagonal(self, X: Floats) -> Floats:
        """Evaluate k(x, x) for each row, as `diagonal`, of rows and a kernel that are not checked again."""
        if self.can("prior_variance"):
            return np.full(len(X), self.prior_variance())
        single = as_tensor(X)[:, None, :]
        return self.covariance(single, single, self.values(None, single.device))[:, 0, 0].numpy()

    def evaluate_at(self, X: Tensor, Z: Tensor, values: Mapping[str, Tensor]) -> Tensor:
        """Evaluate k(x, z) for given values of the parameters, as `covariance`: on the CPU, block by block.

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
        few = X.ndim > 2 or Z.ndim > 2 or 8 * len(X) * len(Z) <= BLOCK_BYTES or X.device.type != "cpu"
        if few or (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in (X, Z, *values.values()))):
            return self.covariance(X, Z, values)
        # Nothing but the result has its size.
        result = torch.empty((len(X), len(Z)), dtype=X.dtype, device=X.device)
        width = min(len(Z), BLOCK_COLUMNS)
        height = BLOCK_BYTES // (8 * width)

        def fill(start: tuple[int, int]) -> None:
            above, left = (slice(first, first + size) for first, size in zip(start, (height, width), strict=True))
            result[above, left] = self.covariance(X[above], Z[left], values)

        parallel_map(fill, list(itertools.product(range(0, len(X), height), range(0, len(Z), width))))
        return result

    def evaluate(self, X: Tensor, Z: Tensor, theta: Tensor | None = None) -> Tensor:
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

    def with_pullback(self, X: Tensor, theta: Tensor) -> tuple[Tensor, Pullback]:
        """Evaluate k(X, X), and prepare derivatives of it by `theta`.

        For several weighted sums of one matrix: what their derivatives share is computed once.

        Parameters
        ----------
        X : Tensor of shape (n, d) or (b, n, d)
        theta : Tensor of shape (n_free,) or (b, n_free)
            See `evaluate`.

        Returns
        -------
        covariance : Tensor of shape (n, n) or (b, n, n)
        pullback : Pullback
        """
        pullback = Pullback(self, X, theta)
        return pullback.covariance.detach(), pullback

    def radial_parts(self) -> tuple[RadialPart, ...] | None:
        """Return the parts of the kernel, where there is compiled code for all.

        Returns
        -------
        tuple of RadialPart, or None
            Their parameters, maybe a period, a lengthscale, a variance and maybe an alpha, in the order of those of the
            kernel. A factor has parts before it.
        """
        return None

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
        kernel = self._of_table(Z, rows)
        right, values = as_tensor(rows), kernel.values(None, torch.device("cpu"))

        def section(X: ArrayLike) -> Floats:
            left: Floats = checked_table(X)
            if left.shape[1] != rows.shape[1]:
                raise InputError(
                    f"X and Z must have the same number of columns; got {left.shape[1]} and {rows.shape[1]}."
                )
            if kernel is not self and list(getattr(X, "columns", Z.columns)) != list(Z.columns):  # type: ignore[union-attr]
                raise InputError(f"X and Z must have the same columns in the same order for {self!r}.")
            return kernel.evaluate_at(as_tensor(left), right, values).numpy()

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
        return self.sections(X if Z is None else Z)(X)

    def _of_table(self, table: Any, rows: Floats) -> "Kernel":
        """Return the kernel, checked, with the indices that the names of columns have in a table."""
        return self.with_indices(getattr(table, "columns", None), rows.shape[1]).checked(rows.shape[1])

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All numeric parameters, those of the parts included, free and fixed."""
        return tuple(self._parameter(name) for name in self.parameter_names)

    @property
    def free_parameters(self) -> tuple[Parameter, ...]:
        """Those of `parameters` that learning may change."""
        return tuple(parameter for parameter in self.parameters if not parameter.fixed)

    @property
    def theta(self) -> Floats:
        """Logarithms of the free parameters, in their order, shape (n_free,)."""
        return np.log(np.concatenate([np.empty(0), *(parameter.value.ravel() for parameter in self.free_parameters)]))

    @property
    def bounds(self) -> Floats:
        """Logarithms of the bounds of the free parameters, shape (n_free, 2); infinite where there are none."""
        pairs = [(parameter.bounds or (0.0, np.inf), parameter.value.size) for parameter in self.free_parameters]
        with np.errstate(divide="ignore"):
            return np.log(np.array([pair for pair, size in pairs for _ in range(size)]).reshape(-1, 2))

    def with_theta(self, theta: ArrayLike) -> Self:
        """Return a copy with other values of the free parameters.

        Parameters
        ----------
        theta : array-like of shape (n_free,)
            Their logarithms.

        Returns
        -------
        Same type
        """
        values = self.values(as_tensor(np.array(theta, dtype=np.float64)), torch.device("cpu"))
        copy: Self = clone(self)
        return copy.set_params(
            **{
                free.name: float(values[free.name]) if free.value.ndim == 0 else values[free.name].numpy().copy()
                for free in self.free_parameters
            }
        )

    def _parameter(self, name: str) -> Parameter:
        value = np.asarray(getattr(self, name), dtype=np.float64)
        bounds: Bounds = getattr(self, f"{name}_bounds")
        kind = self.parameter_kinds.get(name, "other")
        fixed = isinstance(bounds, str)
        pair: Any = None if fixed or bounds is None else tuple(bounds)  # bounds may be an array
        return Parameter(name, value, pair, fixed, kind)

    def values(self, theta: Tensor | None, device: "torch.device") -> dict[str, Tensor]:
        """Return the value of each parameter by its name; of the free ones from `theta`, where it is given.

        `theta` has shape (n_free,), or (b, n_free) for values of shape (b, 1, 1) or (b, 1, d): one set for each of b
        sets of rows.
        """
        values, start = {}, 0
        n_free = sum(parameter.value.size for parameter in self.free_parameters)
        if theta is not None and (theta.ndim not in (1, 2) or theta.shape[-1] != n_free):
            raise InputError(f"theta must have shape ({n_free},) for {self!r}; got {tuple(theta.shape)}.")
        for parameter in self.parameters:
            if theta is None or parameter.fixed:
                values[parameter.name] = as_tensor(np.array(parameter.value)).to(device)
            else:
                part = torch.exp(theta[..., start : start + parameter.value.size])
                start += parameter.value.size
                values[parameter.name] = part[:, None, :] if theta.ndim == 2 else part.reshape(parameter.value.shape)
        return values

    def can(self, capability: str) -> bool:
        """Say whether the kernel has a capability.

        Parameters
        ----------
        capability : str
            One of `CAPABILITIES`. Each is what a method needs: ``"metric"`` what `metric` and `scale` do,
            ``"frequencies"`` what `sample_frequencies` does; the others have the name of their method.

        Returns
        -------
        bool
        """
        return self._overrides(_METHODS[capability], Kernel)

    def _overrides(self, method: str, base: type) -> bool:
        return getattr(type(self), method) is not getattr(base, method)

    def metric(self, n_inputs: int) -> Floats:
        """Return the lengthscale of each column in which distances between rows are measured, shape (n_inputs,).

        Of a sum, 1/lengthscale² is the mean over the parts, weighted by their variances: near rows are those that are
        correlated through what varies most. Of a product, it is the sum over the parts, as for a product of Gaussians.
        Parts without a lengthscale do not count.

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
        return self._of_table(X, rows).in_lengthscales(rows)

    def in_lengthscales(self, X: Floats) -> Floats:
        """Divide each column by its lengthscale, as `scale`, of rows and a kernel that are not checked again."""
        return X / self.metric(X.shape[1])

    def circles(self, X: Floats) -> Floats:
        """Return points on circles, beside the rows in lengthscales, where a periodic part makes distant rows alike.

        Parameters
        ----------
        X : ndarray of shape (n, d)

        Returns
        -------
        ndarray of shape (n, c)
            Without columns where no part is periodic. Of a sum, the points of a term are multiplied by the root of its
            share of the variances, as its inverse squared lengthscales are in `metric`.
        """
        return np.empty((len(X), 0))

    def points(self, X: Floats) -> Floats:
        """Return points that are near each other where rows are alike: rows in lengthscales, and their `circles`."""
        return np.hstack((self.in_lengthscales(X), self.circles(X)))

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

    def on(self, columns: int | str | Sequence[int | str]) -> "ColumnsKernel":
        """Return this kernel of some of the columns, see `ColumnsKernel`.

        Parameters
        ----------
        columns : int, str, or sequence of these
            By their index, or by their name in the data frame that a model or a feature map is fitted to.
        """
        from lmgp.kernels.columns import ColumnsKernel

        return ColumnsKernel(self, columns)

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


def check_kernel(kernel: object, who: str) -> None:
    """Refuse what is neither a kernel of this package, nor names of some, nor None, as a parameter of `who`.

    Raises
    ------
    InputError
        It says how a kernel of another package is called here.
    """
    if kernel is None or isinstance(kernel, Kernel | str | Sequence | np.ndarray):
        return
    name, package = type(kernel).__name__, type(kernel).__module__.partition(".")[0]
    known = KERNELS.get(name.lower().removesuffix("kernel"))
    cure = f" It is called {known!r} here." if known else ""
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        cure = f" Give a kernel of this class, {kernel.__name__}()."
    elif package == "gpytorch":
        cure = " lmgp.gpytorch.from_gpytorch converts it."
    origin = "" if package in ("builtins", "abc") else f", of {package}"
    raise InputError(
        f"The 'kernel' parameter of {who} must be a Kernel, such as GaussianKernel(), a name such as 'matern32', a "
        f"list of names, or None. Got {kernel!r} instead{origin}.{cure}"
    )


def require(kernel: Kernel, capability: str, who: str) -> None:
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


def unsupported(kernel: Kernel, capability: str, who: str) -> InputError:
    """Make the error that `require` raises."""
    what, which = CAPABILITIES[capability]
    shown = " ".join(repr(kernel).split())
    return InputError(f"{who} needs {what} of the kernel; {shown} has none. Kernels that can: {which}.")


def check_parameters(kernel: Kernel, n_inputs: int, a_column: Sequence[str]) -> None:
    """Check that the parameters of a kernel, and their bounds, are positive numbers that fit rows.

    Parameters
    ----------
    kernel : Kernel
    n_inputs : int
    a_column : sequence of str
        The names of those that may be one a column.

    Raises
    ------
    InputError
    """
    name, values = type(kernel).__name__, {key: getattr(kernel, key) for key in kernel.parameter_names}
    arrays = {parameter: _array(values[parameter]) for parameter in a_column}
    numbers = all(isinstance(value, Real) for parameter, value in values.items() if parameter not in a_column)
    if not numbers or any(array.dtype.kind not in "iuf" for array in arrays.values()):
        raise InputError(f"{name} needs numbers for {' and '.join(values)}; got {kernel!r}.")
    for parameter, array in arrays.items():
        if array.ndim > 1 or (array.ndim == 1 and len(array) != n_inputs):
            raise InputError(
                f"{parameter} must be one number or one a column, shape ({n_inputs},) for these rows; got shape "
                f"{array.shape} in {kernel!r}."
            )
    for parameter, value in values.items():
        array = np.asarray(value, dtype=np.float64)
        if not (np.all(np.isfinite(array)) and np.all(array > 0.0)):
            raise InputError(f"{parameter} must be positive and finite; got {value!r} in {name}.")
        check_bounds(f"{parameter}_bounds", getattr(kernel, f"{parameter}_bounds"))


def _array(value: Any) -> Any:
    try:
        return np.asarray(value)
    except ValueError:  # lists of different lengths
        return np.asarray(None)


def rescaled_values(value: Any, bounds: Bounds, factors: Floats) -> tuple[Any, Bounds]:
    """Return a parameter in other units, one number where these are equal, and its bounds, which grow with them.

    Parameters
    ----------
    value : float or array-like of shape (d,)
    bounds : (float, float), "fixed" or None
    factors : ndarray of shape (d,)
        What one unit of each column is in the new ones.
    """
    low, high = float(factors.min()), float(factors.max())
    if bounds is not None and not isinstance(bounds, str):
        bounds = (bounds[0] * low, bounds[1] * high)
    scaled = np.asarray(value, dtype=np.float64) * (low if low == high else factors)
    return scaled if scaled.ndim else float(scaled), bounds


def check_bounds(name: str, bounds: Any) -> None:
    """Check that the bounds of a parameter are None, "fixed", or two positive numbers, the lower one first.

    Raises
    ------
    InputError
        If they are not; `name` is the parameter's name in the message.
    """
    if bounds is None or (isinstance(bounds, str) and bounds == "fixed"):
        return
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        low = high = 0.0
    if not 0.0 < low < high < np.inf:
        raise InputError(f"{name} must be two positive numbers, the lower one first, 'fixed' or None; got {bounds!r}.")
