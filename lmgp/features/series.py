"""The terms of the Gaussian kernel's Maclaurin series, of a fitted Taylor map: for dense and for sparse rows."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import gammaln, xlogy

from lmgp.features.moments import MomentPlan, Step, monomials
from lmgp.features.sparse import canonical, row_squares, scale_columns, sparse_monomials
from lmgp.features.truncated import TruncatedFit, vanishing
from lmgp.validation import as_tensor

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class EnergySets:
    """How index sets are grown by energy.

    Attributes
    ----------
    sample_rows : int
        Rows whose differences to a centre a set is grown on.
    reach_degree : int
        The sample is of rows within reach of a map of this degree; of the map's own degree where that is higher.
    degree_ratio : float
        The highest total degree of such a set, divided by that of all monomials in the same number of columns. A
        measured value, for `work`.
    """

    sample_rows: int = 500
    reach_degree: int = 15
    degree_ratio: float = 1.5


ENERGY = EnergySets()


@dataclass(frozen=True, eq=False, kw_only=True)
class SeriesFit(TruncatedFit):
    """What a Taylor map learns from sparse rows: its columns are all monomials up to the degree.

    Attributes
    ----------
    coef0 : float or None
        Of the polynomial kernel whose weights the monomials have; None for those of the Gaussian kernel.
    """

    coef0: float | None

    def degree_factors(self) -> Floats:
        """Return the factors of xᵃ/√(a!) by |a| = 0, …, p, without the Gaussian's exponential."""
        degree, variance = self.degree, float(self.component.variance)
        k = np.arange(degree + 1.0)
        if self.coef0 is None:
            return np.full(len(k), variance**0.5)
        # (u + c)^p = Σ C(p, k) c^{p−k} uᵏ, and uᵏ = k! Σ xᵃzᵃ/a!: in C(p, k) k!, the k! goes out.
        logarithm = gammaln(degree + 1.0) - gammaln(degree - k + 1.0) + xlogy(degree - k, self.coef0)
        return np.asarray(np.exp((logarithm + np.log(variance)) / 2.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class TaylorFit(SeriesFit):
    """What a Taylor map learns from dense rows.

    Attributes
    ----------
    exponents : ndarray of shape (D, d)
    steps : list of (parents, powers)
        How columns follow from each other: see `lmgp.features.moments.plan`.
    moments : MomentPlan or None
        Where statistics are less work by way of moments.
    """

    exponents: NDArray[np.int64]
    steps: list[Step] = field(compare=False)
    moments: MomentPlan | None = field(default=None, compare=False)


def dense_terms(fit: TaylorFit, X: torch.Tensor) -> torch.Tensor:
    """Evaluate the columns at dense rows of shape (n, d), shape (n, D)."""
    scaled = fit.scale(X)
    if fit.coef0 is not None:
        factors = as_tensor(fit.degree_factors()[fit.exponents.sum(axis=1)])
        return monomials(scaled, fit.steps, 0.0).mul_(factors[:, None]).T
    kept = (~vanishing(scaled.square().sum(dim=1), fit.degree)).to(torch.float64)
    return monomials(scaled, fit.steps, 0.5).mul_(kept * fit.component.variance**0.5).T


def sparse_terms(fit: SeriesFit, X: Any) -> Any:
    """Evaluate all monomials up to the degree at CSR rows of shape (n, d), as CSR of shape (n, D)."""
    scaled = scale_columns(canonical(X), fit.component.lengthscale)
    if fit.coef0 is not None:
        features = sparse_monomials(scaled, 0.0, fit.degree_factors())
    else:
        features = sparse_monomials(scaled, 0.5, fit.degree_factors())
        far = vanishing(torch.from_numpy(row_squares(scaled)), fit.degree).numpy()
        features.data[np.repeat(far, np.diff(features.indptr))] = 0.0
    features.eliminate_zeros()
    return features


def error_bound(fit: SeriesFit, X: Any, Z: Any) -> Floats:
    """Return σ²(‖x̃‖‖z̃‖)^{p+1}/(p + 1)! for all pairs of dense or CSR rows, shape (n, m)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        left, right = (np.log(row_squares(scale_columns(rows, fit.component.lengthscale))) / 2.0 for rows in (X, Z))
        product = left[:, None] + right
    product[np.isnan(product)] = -np.inf  # zero times a norm beyond float64
    order = fit.degree + 1.0
    return np.asarray(fit.component.variance * np.exp(order * product - gammaln(order + 1.0)))


def column_bytes(n_inputs: int) -> float:
    """Return the bytes a column: of exponents, of the two tables of how columns follow from each other, and others."""
    return 24.0 * n_inputs + 200.0
