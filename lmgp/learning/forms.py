"""Forms of kernels that can be named: what `kernel="matern12+gaussian"` and `kernel="auto"` stand for."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import add, mul
from typing import Literal

import numpy as np
from sklearn.base import clone

from lmgp.data import Floats, Indices, Rows, column_scales
from lmgp.errors import InputError, nearest_names
from lmgp.kernels.base import Kernel
from lmgp.kernels.composite import LinearKernel
from lmgp.kernels.periodic import PeriodicKernel
from lmgp.kernels.stationary import GaussianKernel, MaternKernel, RationalQuadraticKernel
from lmgp.utils.parameters import KERNELS

Ard = bool | Literal["auto"]

# Each of ones, one a column; those with a lengthscale from rough to smooth.
PARTS: dict[str, Callable[[Floats], Kernel]] = {
    "matern12": partial(MaternKernel, smoothness=0.5),
    "matern32": partial(MaternKernel, smoothness=1.5),
    "matern52": partial(MaternKernel, smoothness=2.5),
    "rational_quadratic": RationalQuadraticKernel,
    "gaussian": GaussianKernel,
    "periodic": lambda ones: PeriodicKernel(ones, ones),
    "linear": lambda ones: LinearKernel(variance=ones),
}
# A Gaussian kernel of the columns of categories alone: what each adds, wherever the others are.
CATEGORIES = "categories"

# What "auto" stands for: a rough, a smooth and a smoother part, each with lengthscales and a variance of its own. Parts
# that the rows do not need get little variance.
AUTO = "matern12+matern52+gaussian"
# Of a stream, "auto" stands for this: near rows, which serve a rough part, are not kept.
STREAMED = "matern52+gaussian"
# Where columns are categories, "auto" stands for this.
WITH_CATEGORIES = f"{AUTO}+{CATEGORIES}"
# Of one column, "auto" tries this, too: a season that changes slowly.
SEASONAL = f"{AUTO}+matern32*periodic"


@dataclass(frozen=True, eq=False)
class Form:
    """A kernel whose free parameters are to be learned.

    Attributes
    ----------
    name : str
        ``"matern12+gaussian"``; of a kernel that was given, its class.
    ard : bool
        Whether each column has a lengthscale of its own.
    kernel : Kernel
        With the parameters that are free; of a named form their values say nothing.
    ties : ndarray of shape (n_theta,)
        The free number that stands behind each entry of ``kernel.theta``: columns may share one.
    named : bool
        Whether it was named; a kernel that was given starts from its own values.
    """

    name: str
    ard: bool
    kernel: Kernel
    ties: Indices
    named: bool = True

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of the terms of the sum."""
        return tuple(self.name.split("+"))

    @property
    def n_free(self) -> int:
        """The number of free numbers."""
        return int(self.ties.max()) + 1 if len(self.ties) else 0


def make_form(
    name: str, ard: bool, rows: Rows, groups: Sequence[int] | None = None, categories: Sequence[int] = ()
) -> Form:
    """Make the form of a name.

    Parameters
    ----------
    name : str
        Terms joined by "+", each of factors joined by "*", which are names of `PARTS`. The first factor has the
        variance of a term, and the others have the variance 1.
    ard : bool
        Whether each column, or each group of columns, has a lengthscale of its own.
    rows : Rows
        At their mean linear functions are zero, and their scales are the units of slopes.
    groups : sequence of int, optional
        The group of each column: columns of a group always share a lengthscale, as the three coordinates of a sphere.
    categories : sequence of int
        The columns that tell categories.

    Returns
    -------
    Form

    Raises
    ------
    InputError
        If a part has no such name.
    """
    given = range(rows.X.shape[1]) if groups is None else groups
    labels = np.unique(given if ard else np.zeros(len(given)), return_inverse=True)[1]
    terms = [_factors(term.split("*"), name, rows, list(categories)) for term in name.split("+")]
    kernel = reduce(add, [reduce(mul, factors) for factors in terms])
    parts, columns = parameter_units(kernel, np.ones(len(labels)), 1.0)[2].T
    ties = np.unique(parts * len(labels) + labels[columns], return_inverse=True)[1]
    return Form(name, bool(ard and labels.max() > 0), kernel, ties)


def _factors(names: Sequence[str], form: str, rows: Rows, categories: list[int]) -> list[Kernel]:
    """Make the factors of a term."""
    parts = PARTS | {CATEGORIES: lambda _: GaussianKernel(np.ones(len(categories))).on(categories)}
    factors: list[Kernel] = []
    for name in names:
        if name == CATEGORIES and not categories:
            raise InputError(f"kernel={form!r} has a part for categories, but no column of X is one of categories.")
        if name not in parts:
            known = nearest_names(KERNELS.get(name.lower(), name), PARTS if len(form) > len(name) else (*PARTS, "auto"))
            raise InputError(
                f"kernel={form!r} has the part {name!r}, which is no kernel that can be named (sums are joined by "
                f'"+", products by "*"); {known}'
            )
        factor = parts[name](np.ones(rows.X.shape[1]))
        if isinstance(factor, LinearKernel):
            center = np.average(rows.X, axis=0, weights=rows.weights)
            factor.set_params(center=center, variance=column_scales(rows, None) ** -2.0)
        bounds = "kernel__variance_bounds" if name == CATEGORIES else "variance_bounds"
        factors.append(factor.set_params(**{bounds: "fixed"}) if factors else factor)
    return factors


def parameter_units(kernel: Kernel, columns: Floats, variance: float) -> tuple[Floats, list[str], Indices]:
    """Say what each free number of a kernel is measured in.

    Parameters
    ----------
    kernel : Kernel
    columns : ndarray of shape (d,)
        The unit of each column; a number that several columns share is measured in their mean.
    variance : float
        Of y.

    Returns
    -------
    units : ndarray of shape (n_theta,)
        In the order of `kernel.theta`.
    kinds : list of str
        Keys of `lmgp.learning.space.RANGES`.
    labels : ndarray of int of shape (n_theta, 2)
        The part and the column that each belongs to.
    """
    units: list[float] = []
    kinds: list[str] = []
    labels: list[tuple[int, int]] = []
    for part, parameter in enumerate(kernel.free_parameters):
        seen, size = list(parameter.columns or range(len(columns))), parameter.value.size
        scale = columns[seen] if parameter.value.ndim else columns[seen].mean()
        unit = {"variance": variance, "slope": variance * scale**-2.0, "other": 1.0}.get(parameter.kind, scale)
        units += np.broadcast_to(unit, size).tolist()
        kinds += ["variance" if parameter.kind == "slope" else parameter.kind] * size
        labels += [(part, column) for column in seen[:size]]
    return np.array(units), kinds, np.array(labels, dtype=np.intp).reshape(-1, 2)


def declared_free(kernel: Kernel) -> Form:
    """Return the form of a kernel that is given: free are those parameters that have a pair of bounds.

    Parameters
    ----------
    kernel : Kernel

    Returns
    -------
    Form
    """
    form: Kernel = clone(kernel)
    form.set_params(**{f"{each.name}_bounds": "fixed" for each in form.parameters if each.bounds is None})
    return Form(type(kernel).__name__, False, form, np.arange(len(form.theta)), named=False)


def names_of(kernel: str | Iterable[str], n_inputs: int, has_categories: bool) -> tuple[str, ...]:
    """Return the names of the forms that a parameter `kernel` of a model names, each once.

    Parameters
    ----------
    kernel : str or iterable of str
        A name, several, or "auto", which stands for `AUTO` or `WITH_CATEGORIES`, and in one column for `SEASONAL`, too.
    n_inputs : int
    has_categories : bool
        Whether some columns tell categories.

    Raises
    ------
    InputError
        If there is no name.
    """
    given = [kernel] if isinstance(kernel, str) else list(kernel)
    auto = (WITH_CATEGORIES,) if has_categories else (AUTO, SEASONAL) if n_inputs == 1 else (AUTO,)
    if not given or not all(isinstance(item, str) for item in given):
        raise InputError(
            f"kernel must be a kernel, a name such as 'matern32', a list of names, or 'auto'; got {kernel!r}."
        )
    names = (name for item in given for name in (auto if item == "auto" else (item,)))
    return tuple(dict.fromkeys(re.sub(r"\s*([+*])\s*", r"\1", name.strip()) for name in names))
