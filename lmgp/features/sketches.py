"""Polynomial sketches: random maps φ with E[φ(x)ᵀφ(z)] = (xᵀz)ⁿ.

With independent random matrices W₁, …, Wₙ of m rows, φ(x) = (W₁x ⊙ … ⊙ Wₙx)/√m. Three distributions of W:

- ``"gaussian"``: independent normal entries,
- ``"rademacher"``: independent random signs, of lower variance,
- ``"tensor_srht"``: rows of Hadamard matrices with random signs, drawn without replacement, of lower variance still
  for odd n.

W is kept dense: for the few thousand columns of a Gaussian process one matrix product is faster than a fast transform.

References
----------
J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, Table 1 and Algorithm 2.
"""

from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from lmgp.data import Floats

Sketch = Literal["gaussian", "rademacher", "tensor_srht"]
SKETCHES: tuple[Sketch, ...] = ("gaussian", "rademacher", "tensor_srht")

Counts = TypeVar("Counts", int, NDArray[np.int64])


def padded_size(n_inputs: int) -> int:
    """Return the smallest power of two that is at least `n_inputs`."""
    return 1 << (n_inputs - 1).bit_length()


def hadamard(rows: NDArray[np.int64], n_columns: int) -> Floats:
    """Return rows of the unnormalised Walsh-Hadamard matrix (Sylvester's order): ±1, shape (len(rows), n_columns)."""
    odd = np.bitwise_count(rows[:, None] & np.arange(n_columns)) & 1
    return 1.0 - 2.0 * odd


def draw_sketch(sketch: Sketch, degree: int, n_columns: int, n_inputs: int, rng: np.random.Generator) -> Floats:
    """Draw the matrices W₁, …, Wₙ of one sketch.

    Parameters
    ----------
    sketch : {"gaussian", "rademacher", "tensor_srht"}
    degree : int
        n, the number of factors.
    n_columns : int
        m, the number of columns of φ.
    n_inputs : int
        d.
    rng : numpy.random.Generator

    Returns
    -------
    ndarray of shape (degree, n_columns, n_inputs)
    """
    shape = (degree, n_columns, n_inputs)
    if sketch == "gaussian":
        return rng.standard_normal(shape)
    if sketch == "rademacher":
        return rng.choice([-1.0, 1.0], size=shape)
    order = padded_size(n_inputs)
    weights = np.empty(shape)
    for start in range(0, n_columns, order):
        size = min(order, n_columns - start)
        for factor in range(degree):
            rows = rng.permutation(order)[:size]
            weights[factor, start : start + size] = hadamard(rows, n_inputs) * rng.choice([-1.0, 1.0], size=n_inputs)
    return weights


def within_blocks(n_columns: Counts, n_inputs: int) -> Counts:
    """Count the ordered pairs of columns that share a block of a TensorSRHT: c(m, d̄) of Table 1."""
    order = padded_size(n_inputs)
    full, rest = n_columns // order, n_columns % order
    return full * order * (order - 1) + rest * (rest - 1)


def variance_terms(
    sketch: Sketch, degree: int, n_inputs: int, inner: Floats, norms: Floats, overlap: Floats
) -> tuple[Floats, Floats]:
    """Return V and C with Var[φ(x)ᵀφ(z)] = V/m + C · c(m, d̄)/m² for m columns.

    Parameters
    ----------
    sketch : {"gaussian", "rademacher", "tensor_srht"}
    degree, n_inputs : int
    inner : ndarray of shape (n_pairs,)
        xᵀz.
    norms : ndarray of shape (n_pairs,)
        ‖x‖²‖z‖².
    overlap : ndarray of shape (n_pairs,)
        Σᵢ xᵢ²zᵢ².

    Returns
    -------
    V, C : ndarray of shape (n_pairs,)
        The variance of one column, and the covariance of two columns in one block: 0 but for TensorSRHT.
    """
    squares = inner**2
    power = squares**degree
    if sketch == "gaussian":
        return (norms + 2.0 * squares) ** degree - power, np.zeros_like(power)
    variance = (norms + 2.0 * (squares - overlap)) ** degree - power
    if sketch == "rademacher":
        return variance, np.zeros_like(power)
    shared = squares - (norms + squares - 2.0 * overlap) / (padded_size(n_inputs) - 1)
    return variance, shared**degree - power
