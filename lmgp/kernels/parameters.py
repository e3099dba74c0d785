"""The numeric parameters of a kernel: their values, their bounds, and which are free."""

from collections.abc import Iterator
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone

from lmgp.errors import InputError
from lmgp.validation import as_tensor

Floats = NDArray[np.float64]
Bounds = tuple[float, float] | Literal["fixed"] | None


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
    """

    name: str
    value: Floats
    bounds: tuple[float, float] | None
    fixed: bool


class Parametrized(BaseEstimator):
    """An object whose numeric parameters learning may change, through their logarithms.

    A subclass names them in `parameter_names`; the constructor parameter ``<name>_bounds`` of each holds its bounds,
    None or ``"fixed"``.
    """

    parameter_names: ClassVar[tuple[str, ...]] = ()

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """All numeric parameters, those of the parts included, free and fixed."""
        return tuple(self._parameter(name) for name in self.parameter_names)

    @property
    def theta(self) -> Floats:
        """Logarithms of the free parameters, in their order, shape (n_free,)."""
        return np.log(np.concatenate([np.empty(0), *(one.value.ravel() for one in self._free())]))

    @property
    def bounds(self) -> Floats:
        """Logarithms of the bounds of the free parameters, shape (n_free, 2); infinite where there are none."""
        pairs = [(one.bounds or (0.0, np.inf), one.value.size) for one in self._free()]
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
                one.name: float(values[one.name]) if one.value.ndim == 0 else values[one.name].numpy().copy()
                for one in self._free()
            }
        )

    def _parameter(self, name: str) -> Parameter:
        value = np.asarray(getattr(self, name), dtype=np.float64)
        bounds: Bounds = getattr(self, f"{name}_bounds")
        return Parameter(name, value, None if bounds == "fixed" else bounds, bounds == "fixed")

    def _free(self) -> Iterator[Parameter]:
        return (one for one in self.parameters if not one.fixed)

    def values(self, theta: torch.Tensor | None, device: torch.device) -> dict[str, torch.Tensor]:
        """Return the value of each parameter by its name; of the free ones from `theta`, where it is given.

        `theta` has shape (n_free,), or (b, n_free) for values of shape (b, 1, 1) or (b, 1, d): one set for each of b
        sets of rows.
        """
        values, start = {}, 0
        n_free = sum(one.value.size for one in self._free())
        if theta is not None and (theta.ndim not in (1, 2) or theta.shape[-1] != n_free):
            raise InputError(f"theta must have shape ({n_free},) for {self!r}; got {tuple(theta.shape)}.")
        for one in self.parameters:
            if theta is None or one.fixed:
                values[one.name] = as_tensor(np.array(one.value)).to(device)
            else:
                part = torch.exp(theta[..., start : start + one.value.size])
                start += one.value.size
                values[one.name] = part[:, None, :] if theta.ndim == 2 else part.reshape(one.value.shape)
        return values


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
