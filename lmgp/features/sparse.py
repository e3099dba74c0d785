"""Monomials of sparse rows: a row with s non-zeros has C(s + p, p) monomials up to degree p that are not zero.

Rows with the same number of non-zeros are small dense rows. Their monomials are made degree by degree, each by one
product from one of the degree below, and put in the columns of the monomials of all inputs in `total_degree`'s order.
"""

from bisect import bisect_right
from functools import lru_cache
from math import comb
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmgp.data import Floats
from lmgp.errors import InputError
from lmgp.utils.memory import check_memory

Places = NDArray[np.intp]

# The number of monomials that are made at a time: they stay in the processor's cache.
BLOCK = 50_000


def non_zeros(X: Any) -> Places:
    """Count the entries of each row that are not zero.

    Parameters
    ----------
    X : ndarray or CSR matrix or array of shape (n, d)

    Returns
    -------
    ndarray of shape (n,)
    """
    if isinstance(X, np.ndarray):
        return np.count_nonzero(X, axis=1).astype(np.int64)
    return np.diff(canonical(X).indptr)


def scale_columns(X: Any, lengthscale: ArrayLike) -> Any:
    """Divide the columns of dense or CSR rows by their lengthscales."""
    lengthscale = np.asarray(lengthscale, dtype=np.float64)
    if isinstance(X, np.ndarray):
        return X / lengthscale
    values = X.data / (lengthscale[X.indices] if lengthscale.ndim else lengthscale)
    return type(X)((values, X.indices, X.indptr), shape=X.shape)


def row_squares(X: Any) -> Floats:
    """Return ‖x‖² of each dense or CSR row, shape (n,)."""
    squares = X * X if isinstance(X, np.ndarray) else X.multiply(X)
    return np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()


def monomial_count(non_zeros: Places, degree: int) -> Floats:
    """Return C(s + degree, degree) for each s: how many monomials of s variables there are up to a total degree."""
    counts, place = np.unique(non_zeros, return_inverse=True)
    return np.array([as_float(comb(int(s) + degree, degree)) for s in counts])[place]


def highest_degree(non_zeros: Places, budget: float) -> int:
    """Return the highest degree up to which rows have, on average, no more monomials than a budget."""

    def mean_count(degree: int) -> float:
        return float(monomial_count(non_zeros, degree).mean())

    high = 1
    while mean_count(high) <= budget:
        high *= 2
    return bisect_right(range(high), budget, key=mean_count) - 1


def as_float(number: int) -> float:
    """Return a whole number as a float, infinity where it is too large for one."""
    return float(number) if number < 1e300 else np.inf


def canonical(X: Any) -> Any:
    """Return CSR rows with ascending columns, without repeated entries and stored zeros; X itself where possible."""
    if X.has_canonical_format and np.all(X.data != 0):
        return X
    X = X.copy()
    X.sum_duplicates()
    X.eliminate_zeros()
    return X


def sparse_monomials(X: Any, rate: float, degree_factors: Floats) -> Any:
    """Evaluate f(|a|) e^{−rate‖x‖²} xᵃ/√(a!) for all |a| ≤ p at sparse rows.

    Parameters
    ----------
    X : CSR matrix or array of shape (n, d)
        As `canonical` returns it.
    rate : float
    degree_factors : ndarray of shape (p + 1,)
        f.

    Returns
    -------
    CSR matrix or array, as X, of shape (n, C(d + p, p))
        Columns in the order of `lmgp.features.index_sets.total_degree`, ascending in each row.

    Raises
    ------
    MemoryLimitError
        If the result is larger than the machine's memory.
    InputError
        If there are more columns than 64-bit integers can number.
    """
    n_rows, n_inputs = X.shape
    degree = len(degree_factors) - 1
    n_columns = comb(n_inputs + degree, degree)
    if n_columns * max(degree, 1) >= 2**63:
        raise InputError(
            f"{n_inputs:,} inputs have {as_float(n_columns):.2g} monomials up to degree {degree}, more columns than "
            "64-bit integers number. Use a lower degree."
        )
    counts = np.diff(X.indptr)
    sizes = monomial_count(counts, degree)
    total = float(sizes.sum())
    index_type = np.int32 if max(n_columns, total) < 2**31 else np.int64
    check_memory(
        total * (8 + np.dtype(index_type).itemsize),
        f"The {total:.3g} non-zero monomials up to degree {degree} of these {n_rows:,} rows",
        "Use a lower degree, or fewer rows at a time.",
    )
    starts = np.concatenate(([0], np.cumsum(sizes.astype(np.int64))))
    values, columns = np.empty(starts[-1]), np.empty(starts[-1], dtype=index_type)
    inputs, place = np.unique(X.indices, return_inverse=True)
    last, terms = _column_terms(n_inputs, degree, inputs)
    for size in np.unique(counts):
        rows = np.flatnonzero(counts == size)
        length = comb(int(size) + degree, degree)
        for part in np.array_split(rows, -(-len(rows) * length // BLOCK)):
            entries = X.indptr[part][:, None] + np.arange(size)
            target = starts[part][:, None] + np.arange(length)
            values[target] = _values(X.data[entries], rate, degree_factors)
            columns[target] = _columns(place[entries], last, terms)
    return type(X)((values, columns, starts.astype(index_type)), shape=(n_rows, n_columns))


@lru_cache(maxsize=16)
def _recurrence(size: int, degree: int) -> list[tuple[Places, Places, Floats]]:
    """Plan how the monomials of each degree follow from those of the degree below: parent, variable, 1/√(power).

    A variable goes in front of all monomials that start with it or with a later one, the last in lexicographic order.
    """
    steps: list[tuple[Places, Places, Floats]] = []
    first, power = np.array([size]), np.array([0])
    for _ in range(degree):
        starts = np.searchsorted(first, np.arange(size))
        lengths = len(first) - starts
        variable = np.repeat(np.arange(size), lengths)
        parent = np.arange(len(variable)) - np.repeat(np.cumsum(lengths) - len(first), lengths)
        power = np.where(first[parent] == variable, power[parent] + 1, 1)
        first = variable
        steps.append((parent, variable, 1.0 / np.sqrt(power)))
    return steps


def _values(x: Floats, rate: float, degree_factors: Floats) -> Floats:
    """Evaluate the monomials of dense rows without zeros, shape (m, s) to (m, C(s + p, p))."""
    degree = len(degree_factors) - 1
    decay = np.ones((len(x), 1))
    if rate:
        decay = np.exp(-rate * np.square(x).sum(axis=1, keepdims=True) / max(degree, 1))
    # The exponential goes in degree by degree: whole, it underflows where the power brings the product back.
    damped = x * decay
    values = np.empty((len(x), comb(x.shape[1] + degree, degree)))
    block, stop = np.ones((len(x), 1)), 1
    values[:, :1] = degree_factors[0] * decay ** max(degree, 1)
    for k, (parent, variable, factor) in enumerate(_recurrence(x.shape[1], degree), start=1):
        block = block.take(parent, axis=1)
        block *= damped.take(variable, axis=1)
        block *= factor
        start, stop = stop, stop + len(parent)
        np.multiply(block, degree_factors[k] * decay ** (degree - k), out=values[:, start:stop])
    return values


def _column_terms(n_inputs: int, degree: int, inputs: Places) -> tuple[list[int], list[Places]]:
    """Return what `_columns` adds up, for the inputs that occur, ascending, shape (m,)."""
    last = [comb(n_inputs + k, k) - 1 for k in range(degree + 1)]
    after = n_inputs - 1 - inputs.astype(np.int64)
    terms = [np.ones_like(after)]
    for k in range(1, degree + 1):
        terms.append(terms[-1] * (after + k - 1) // k)
    return last, terms


def _columns(place: Places, last: list[int], terms: list[Places]) -> Places:
    """Return the columns of all monomials of rows with these inputs, shape (m, s) to (m, C(s + p, p)).

    A monomial of degree k is k ascending inputs j₁ ≤ … ≤ j_k of d, counted from 0. Degrees ascend and each is in
    lexicographic order, so that of the C(d + k, k) monomials up to degree k, Σᵢ C(d + k − 1 − i − jᵢ, k + 1 − i) are
    after it.

    Parameters
    ----------
    place : ndarray of int of shape (m, s)
        The inputs, by their place among those that occur.
    last : list of int
        The last column of each degree k.
    terms : list of ndarray
        C(d − 1 − j + k − 1, k) of each input j that occurs, for each k.
    """
    degree = len(terms) - 1
    result = np.zeros((len(place), comb(place.shape[1] + degree, degree)), dtype=np.int64)
    after, stop = result[:, :1], 1
    for k, (parent, variable, _) in enumerate(_recurrence(place.shape[1], degree), start=1):
        after = after.take(parent, axis=1)
        after += terms[k][place].take(variable, axis=1)
        start, stop = stop, stop + len(parent)
        np.subtract(last[k], after, out=result[:, start:stop])
    return result
