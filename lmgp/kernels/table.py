"""A kernel as people read it: its terms side by side, and a line for each column of X."""

from collections.abc import Sequence
from functools import reduce
from operator import mul
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lmgp.data import Floats, as_tensor
from lmgp.kernels.base import Kernel, Parameter
from lmgp.utils.facts import Table, digits

# Of more columns, a table shows those of the greatest worth.
MOST_COLUMNS = 20
# The variances of terms are those over this number of rows.
MOST_ROWS = 500
# How a parameter is written in the line of a column, by its kind; others are written with their name.
WRITTEN = {"lengthscale": "{}", "period": "period {}", "slope": "slope ±{}"}


class Label(NamedTuple):
    """What a table calls columns of a kernel that share a lengthscale.

    Attributes
    ----------
    name : str
    unit : str
        In which lengthscales are written.
    factor : float
        One unit of these columns, in that unit.
    apart : ndarray of shape (k,) or None
        The difference of two categories, where columns tell categories: their correlation is written then.
    columns : tuple of int or str
        Of the rows that the kernel sees.
    inputs : tuple of int
        The columns of X of which they are made.
    """

    name: str
    unit: str = ""
    factor: float = 1.0
    apart: Floats | None = None
    columns: tuple[int | str, ...] = ()
    inputs: tuple[int, ...] = ()


def kernel_table(
    kernel: Kernel,
    labels: Sequence[Label] | None = None,
    *,
    noise_variance: float | None = None,
    variances: Floats | None = None,
    deviations: Floats | None = None,
    worth: ArrayLike | None = None,
) -> Table:
    """Make the table of a kernel: a column for each factor of each term, and a line for each label.

    Parameters
    ----------
    kernel : Kernel
    labels : sequence of Label, optional
        Of the columns that the kernel sees; if not given, of those that its parameters name.
    noise_variance : float, optional
        Written in a column of its own.
    variances : ndarray of shape (n_terms,), optional
        Of each term over rows, see `row_variances`; the prior variances if not given.
    deviations : ndarray of shape (d,), optional
        The standard deviation of each column that the kernel sees, written beside its name.
    worth : array-like of shape (n_labels,), optional
        By which lines are ordered, the largest first.

    Returns
    -------
    Table
    """
    labels = _labels_of(kernel) if labels is None else labels
    order = np.arange(len(labels)) if worth is None else np.argsort(-np.asarray(worth), kind="stable")
    shown = [labels[j] for j in order[:MOST_COLUMNS]]
    known = np.array([_prior_variance(term) for term in kernel.terms]) if variances is None else variances
    known = known if noise_variance is None else np.append(known, noise_variance)
    with np.errstate(invalid="ignore"):
        pairs = zip(known / known.sum(), np.sqrt(known), strict=True)
    parts = [(_unless_nan(f"{share:.1%}"), _unless_nan(digits(deviation))) for share, deviation in pairs]
    names = [f"{label.name}, {label.unit}" if label.unit else label.name for label in shown]
    prior = "prior " if variances is None else ""  # which rows that lie near to each other do not show
    columns = [("", f"share of the {prior}variance", f"{prior}standard deviation", *names)]
    spreads = [] if deviations is None else [_spread(label, deviations) for label in shown]
    if spreads:
        columns.append(("s.d.", "", "", *spreads))
    for term, part in zip(kernel.terms, parts, strict=False):
        for place, factor in enumerate(term):
            title = ("× " if place else "") + _title(factor, labels)
            columns.append((title, *(("", "") if place else part), *(_cell(factor, label) for label in shown)))
    if noise_variance is not None:
        columns.append(("noise", *parts[-1], *[""] * len(shown)))
    heading, *lines = zip(*columns, strict=True)
    told = tuple(line for line in lines if any(line[1:]))
    note = "Lengthscales are in the unit of their column" + (", beside its standard deviation." if spreads else ".")
    if len(shown) < len(labels):
        which = "" if worth is None else " that matter less"
        note += f" {len(labels) - len(shown):,} columns{which} are left out."
    return Table(heading, told, note)


def row_variances(kernel: Kernel, X: Floats) -> Floats:
    """Return the variance over rows that each term of a kernel is expected to have, shape (n_terms,).

    That is E[Σᵢ (f(xᵢ) − f̄)²/(n − 1)] of functions f with the prior of the term, over up to 500 rows drawn from X. It
    is less than the prior variance where lengthscales reach beyond the rows, so that f hardly changes among them. Of
    linear functions, it is the sum of the variances of the columns times those of the slopes.

    Parameters
    ----------
    kernel : Kernel
    X : ndarray of shape (n, d)
    """
    some = as_tensor(X[np.random.default_rng(0).permutation(len(X))[:MOST_ROWS]])
    values, n = [reduce(mul, term).evaluate(some, some).numpy() for term in kernel.terms], len(some)
    return np.array([max(np.trace(gram) - gram.sum() / n, 0.0) / max(n - 1, 1) for gram in values])


def _labels_of(kernel: Kernel) -> list[Label]:
    """Return a label for each column that parameters name, and one for those that share a parameter."""
    parameters = [parameter for parameter in kernel.parameters if _is_of_columns(parameter)]
    seen = [column for parameter in parameters for column in _columns_of(parameter) or ()]
    labels = [Label(key if isinstance(key, str) else f"x{key}", columns=(key,)) for key in dict.fromkeys(seen)]
    all_are_known = any(parameter.columns is None and parameter.value.ndim for parameter in parameters)
    if not all_are_known and any(_columns_of(parameter) is None for parameter in parameters):
        labels.append(Label("other columns" if labels else "each column"))
    return labels


def _is_of_columns(parameter: Parameter) -> bool:
    """Say whether a parameter is told of columns, and not of the whole kernel."""
    return parameter.kind in WRITTEN or parameter.value.ndim > 0 or parameter.name.endswith("lengthscale")


def _columns_of(parameter: Parameter) -> Sequence[int | str] | None:
    """Return the columns that a parameter is of; None where it is of all, whatever their number is."""
    return range(parameter.value.size) if parameter.columns is None and parameter.value.ndim else parameter.columns


def _prior_variance(term: tuple[Kernel, ...]) -> float:
    """Return the prior variance of a term; not a number where it is not the same everywhere."""
    kernel = reduce(mul, term)
    return kernel.prior_variance() if kernel.can("prior_variance") else np.nan


def _sees(factor: Kernel, label: Label) -> bool:
    """Say whether a factor depends on the columns of a label."""
    return any(_is_of(parameter, label) for parameter in factor.parameters)


def _is_of(parameter: Parameter, label: Label) -> bool:
    columns = _columns_of(parameter)
    return columns is None or not set(label.columns).isdisjoint(columns)


def _title(factor: Kernel, labels: Sequence[Label]) -> str:
    """Return the heading of a factor, with the parameters that are not of columns."""
    seen = [label for label in labels if _sees(factor, label)]
    if len(seen) < len(labels) and seen and all(label.apart is not None for label in seen):
        return "categories"
    others = [param for param in factor.parameters if not _is_of_columns(param) and param.kind != "variance"]
    told = ", ".join(f"{param.name.rpartition('__')[2]} {digits(float(param.value))}" for param in others)
    return f"{factor.label} ({told})" if told else factor.label


def _cell(factor: Kernel, label: Label) -> str:
    """Write what a factor is in the columns of a label; nothing where it does not depend on them."""
    if label.apart is not None and factor.can("metric") and _sees(factor, label):
        return f"{_correlation(factor, label, label.apart):.3f}"
    return ", ".join(_written(p, label) for p in factor.parameters if _is_of_columns(p) and _is_of(p, label))


def _written(param: Parameter, label: Label) -> str:
    """Write the value of a parameter in the columns of a label, or the least and the largest one."""
    columns, values = _columns_of(param), np.atleast_1d(param.value)
    if columns is not None and len(values) > 1:
        values = values[[place for place, column in enumerate(columns) if column in label.columns]]
    if param.kind in ("lengthscale", "period"):
        values = values * label.factor
    elif param.kind == "slope":
        values = np.sqrt(values) / label.factor
    ends = dict.fromkeys((digits(values.min()), digits(values.max())))
    return WRITTEN.get(param.kind, param.name.rpartition("__")[2] + " {}").format(" to ".join(ends))


def _correlation(factor: Kernel, label: Label, apart: Floats) -> float:
    """Return the correlation of rows that differ in their category alone."""
    columns = [int(column) for column in label.columns]
    n_columns = 1 + max(int(column) for p in factor.parameters for column in (*columns, *(_columns_of(p) or ())))
    rows = np.zeros((2, n_columns))
    rows[1, columns] = apart
    (variance, covariance), _ = factor(rows)
    return float(covariance / variance)


def _spread(label: Label, deviations: Floats) -> str:
    """Write the root mean square distance of rows from their mean; nothing of categories."""
    if label.apart is not None:
        return ""
    return digits(label.factor * float(np.linalg.norm(deviations[list(map(int, label.columns))])))


def _unless_nan(text: str) -> str:
    return "" if "nan" in text else text
