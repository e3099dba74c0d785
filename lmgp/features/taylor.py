"""Taylor features: the explicit monomials of the Maclaurin series of exp(xᵀz)."""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from math import comb
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array, hstack, issparse
from scipy.special import gammaln, xlogy
from sklearn.utils import Tags
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, check_is_fitted

from lmgp.data import Floats, Rows, Source, TargetSums, as_tensor, validated
from lmgp.errors import InputError
from lmgp.features.allocation import sample_groups
from lmgp.features.base import Work, numbered
from lmgp.features.index_sets import highest_total_degree, most_energetic, total_degree
from lmgp.features.moments import LARGEST_SQUARE, MomentPlan, Step, moment_count, monomials, plan
from lmgp.features.series import SeriesMap, vanishing
from lmgp.features.sparse import (
    as_float,
    canonical,
    highest_degree,
    monomial_count,
    non_zeros,
    row_squares,
    scale_columns,
    sparse_monomials,
)
from lmgp.features.statistics import Statistics
from lmgp.neighbours.placement import distinct_places
from lmgp.utils.arithmetic import USUAL, Arithmetic
from lmgp.utils.lazy import Tensor, torch
from lmgp.utils.memory import check_memory

# Index sets are grown by energy on this number of rows, within reach of a map of this degree at least.
SAMPLE_ROWS, REACH_DEGREE = 500, 15

# The highest total degree of a set that is grown by energy, divided by that of all monomials in the same number of
# columns. A measured value, for `work`.
DEGREE_RATIO = 1.5


@dataclass(eq=False, repr=False)
class TaylorFeatures(SeriesMap):
    """Explicit monomials: terms of the series of the Gaussian kernel, exactly.

    φ_a(x) = σ e^{−‖x̃‖²/2} x̃ᵃ/√(a!) for a set of multi-indices a. With all |a| ≤ p these are D = C(d + p, p) columns in
    order of their degree, and the error at two rows is at most σ²(‖x̃‖‖z̃‖)^{p+1}/(p + 1)!. Not random.

    Sparse rows (CSR) give sparse features: a row with s non-zeros has C(s + p, p) that are not zero, and only these are
    made.

    Parameters
    ----------
    n_features : int, default=512
        The number of columns.
    degree : int, optional
        All monomials up to this total degree, whatever `n_features` is.
    index_set : {"total_degree", "energy"}, default="total_degree"
        "total_degree" takes all monomials up to the largest total degree that fits into `n_features`. "energy" takes
        `n_features` monomials, one after the other by their mean square on a sample of the rows within reach of a
        centre, each place once; it is better for columns of X that have different extents in lengthscales, and needs
        dense rows.
    weights : {"gaussian", "polynomial"}, default="gaussian"
        "polynomial" gives the same monomials the weights of another kernel, which is then met exactly:
        φ(x)ᵀφ(z) = σ²(x̃ᵀz̃ + coef0)^p, p the total degree. For linear models, not inside a Gaussian-process regressor.
    coef0 : float, default=1.0
        Of the polynomial kernel, not negative.
    kernel
        See `lmgp.features.base.KernelMap`.
    random_state : ignored
        Nothing is drawn; present so that all maps are made alike.

    Attributes
    ----------
    degree_ : int
        The highest total degree.
    exponents_ : ndarray of shape (n_features_out_, d)
        The multi-index a of each column. A map fitted to sparse rows, which may have millions of columns, has none.
        Of a sum of Gaussians, each of `parts` has its own.

    Notes
    -----
    In low dimension a localized model with this map is nearer to the exact GP than with a random map of the same size.
    For many input columns the total degree that fits is low: fewer than d + 1 columns hold the constant alone.

    A model sums moments instead of products of features if that is less work (`lmgp.features.moments`).

    References
    ----------
    A. Cotter, J. Keshet and N. Srebro, *Explicit Approximations of the Gaussian Kernel*, 2011, eq. 9, 11 and 15.

    Examples
    --------
    >>> from lmgp import TaylorFeatures
    >>> features = TaylorFeatures(n_features=130).fit([[0.0, 0.0], [1.0, 0.5]])
    >>> features.degree_, features.n_features_out_
    (14, 120)
    >>> features.set_params(index_set="energy").fit([[3.0, 0.0], [-2.0, 0.1]]).exponents_.max(axis=0).tolist()
    [40, 5]

    Sparse rows, and a degree in place of a number of columns:

    >>> from scipy.sparse import random_array
    >>> X = random_array((1000, 500), density=0.01, format="csr", random_state=0)
    >>> sparse = TaylorFeatures(degree=TaylorFeatures.degree_for_budget(X, budget=60)).fit(X)
    >>> sparse.degree_, sparse.n_features_out_, sparse.transform(X).nnz
    (2, 125751, 23510)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SeriesMap._parameter_constraints,
        "degree": [Interval(Integral, 0, None, closed="left"), None],
        "index_set": [StrOptions({"total_degree", "energy"})],
        "weights": [StrOptions({"gaussian", "polynomial"})],
        "coef0": [Interval(Real, 0, None, closed="left")],
    }
    _accepts_sparse = True
    leaves_covariance = True

    exponents_: NDArray[np.int64] = field(init=False)
    # How columns follow from each other (`lmgp.features.moments.plan`), and the plan of their moments, where statistics
    # are less work by way of these; the constant of the polynomial kernel, None for the Gaussian one.
    steps_: list[Step] = field(init=False)
    moments_: MomentPlan | None = field(init=False)
    coef0_: float | None = field(init=False)

    _: KW_ONLY
    degree: int | None = None
    index_set: Literal["total_degree", "energy"] = "total_degree"
    weights: Literal["gaussian", "polynomial"] = "gaussian"
    coef0: float = 1.0

    @staticmethod
    def degree_for_budget(X: ArrayLike, budget: float) -> int:
        """Return the highest degree whose features stay within a budget of operations a row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        budget : float
            Floating point operations for a row, on average: see `operation_count`. At least 1.

        Returns
        -------
        int

        Raises
        ------
        InputError
            If the budget is below 1, or all rows are zero and every degree takes one operation.

        References
        ----------
        A. Cotter, J. Keshet and N. Srebro, *Explicit Approximations of the Gaussian Kernel*, 2011, section 4.
        """
        counts = non_zeros(check_array(X, accept_sparse="csr"))
        if not (isinstance(budget, Real) and 1.0 <= budget < np.inf):
            raise InputError(
                f"budget must be a finite number of operations a row, at least 1 for the constant; got {budget!r}."
            )
        if not counts.any():
            raise InputError("All rows are zero: only the constant feature is not, and no degree exceeds a budget.")
        return highest_degree(counts, budget)

    def fit_around(self, X: Floats, centroids: Floats) -> Self:  # noqa: D102
        if self.weights == "polynomial":
            raise InputError(
                "TaylorFeatures(weights='polynomial') is the map of a polynomial kernel, for linear models; a Gaussian "
                "process here has the Gaussian kernel. Use weights='gaussian'."
            )
        return super().fit_around(X, centroids)

    def _work_one(self, n_features: int, n_inputs: int) -> Work:
        degree = highest_total_degree(n_inputs, n_features) if self.degree is None else self.degree
        columns = comb(n_inputs + degree, degree)
        if self.index_set == "energy":
            degree, columns = round(DEGREE_RATIO * degree), n_features
        return Work(columns, moment_count(n_inputs, degree), degree)

    def _check_size(self, X: Any) -> None:
        if issparse(X):
            return  # needs no table of exponents
        work, n_inputs = self.work(X.shape[1]), X.shape[1]
        check_memory(
            as_float(work.columns) * _column_bytes(n_inputs),
            f"The exponents of {as_float(work.columns):.3g} monomials up to degree {work.degree}",
            lambda limit: (
                f"At most about {int(limit / _column_bytes(n_inputs)):,} features of {n_inputs} inputs fit. Use a "
                "lower degree or fewer features, or give the rows as a CSR matrix, which needs no such table."
            ),
        )

    def n_bytes(self, n_rows: int, n_inputs: int) -> float:  # noqa: D102
        work = self.work(n_inputs)
        n_columns = as_float(work.columns)
        with_moments = work.moments is not None and work.moments < n_columns * (n_columns / 2 + n_inputs)
        return n_columns * (_column_bytes(n_inputs) + (MomentPlan.PAIR_BYTES * n_columns if with_moments else 0.0))

    def draw(self, X: Any, rng: np.random.Generator, centroids: Floats | None = None) -> None:  # noqa: D102
        super().draw(X, rng, centroids)
        # Only a model, which says where its centres are, sums statistics.
        if centroids is not None and self.weights == "gaussian" and "exponents_" in vars(self):
            self.moments_ = MomentPlan(self.exponents_) if MomentPlan.pays(self.exponents_, len(X)) else None

    def _draw_one(self, X: Any, rng: np.random.Generator, centroids: Floats | None) -> None:
        self.coef0_ = float(self.coef0) if self.weights == "polynomial" else None
        self.moments_ = None
        n_inputs, kernel = X.shape[1], self.component_
        degree = highest_total_degree(n_inputs, self.n_features) if self.degree is None else self.degree
        if self.index_set == "energy":
            self._check_energy(X)
            scaled = kernel.in_lengthscales(distinct_places(X)[0])
            centres = np.zeros((1, n_inputs)) if centroids is None else kernel.in_lengthscales(centroids)
            reached = max(degree, REACH_DEGREE)
            groups = sample_groups(scaled, centres, SAMPLE_ROWS, reached, np.random.default_rng(0))
            exponents = most_energetic(np.concatenate(groups), self.n_features)
        elif issparse(X):
            self.n_features_out_, self.degree_ = comb(n_inputs + degree, degree), degree
            return
        else:
            exponents = total_degree(n_inputs, degree)
        self.n_features_out_, self.degree_ = len(exponents), int(exponents.sum(axis=1).max())
        self.exponents_, self.steps_ = exponents, plan(exponents)

    def _names_one(self) -> list[str]:
        if "exponents_" not in vars(self):
            return numbered("taylor", self.n_features_out_)
        return [f"taylor[{','.join(map(str, powers))}]" for powers in self.exponents_.tolist()]

    def _check_energy(self, X: Any) -> None:
        """Refuse what index_set="energy" does not go with."""
        reason = (
            "needs dense rows" if issparse(X)
            else "takes n_features columns, of any degree: degree must be None" if self.degree is not None
            else "chooses by the Gaussian kernel: weights must be 'gaussian'" if self.weights != "gaussian"
            else None
        )  # fmt: skip
        if reason is not None:
            raise InputError(f"TaylorFeatures(index_set='energy') {reason}. Or use index_set='total_degree'.")

    def transform(self, X: ArrayLike) -> Any:
        """Map rows to features.

        Parameters
        ----------
        X : array-like or sparse matrix or array of shape (n, d)

        Returns
        -------
        ndarray or CSR matrix or array of shape (n, n_features_out_)
            Sparse for sparse rows.

        Raises
        ------
        MemoryLimitError
            If the features of sparse rows are larger than the machine's memory.
        """
        check_is_fitted(self)
        rows = self._checked(X)
        if not issparse(rows):
            return self.evaluate(as_tensor(rows)).numpy()
        if len(self.parts) == 1:
            if self.index_set == "energy":
                self._check_energy(rows)
            return self._sparse_terms(rows)
        return hstack([part.transform(rows) for part in self.parts], format="csr")

    def _checked(self, X: ArrayLike) -> Any:
        return validated(self, X, accept_sparse="csr", reset=False)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.index_set == "total_degree"
        return tags

    def operation_count(self, X: ArrayLike) -> NDArray[np.float64]:
        """Count the floating point operations that the features of each row take.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
            One for each feature that is not zero: C(s + p, p) for a row with s non-zeros and all monomials up to
            degree p.

        References
        ----------
        A. Cotter, J. Keshet and N. Srebro, *Explicit Approximations of the Gaussian Kernel*, 2011, section 4.
        """
        check_is_fitted(self)
        if len(self.parts) > 1:
            return np.sum([part.operation_count(X) for part in self.parts], axis=0)
        rows = self._checked(X)
        if self.index_set == "total_degree":
            return monomial_count(non_zeros(rows), self.degree_)
        self._check_energy(rows)
        uses_a_zero = (rows == 0).astype(np.float64) @ (self.exponents_ > 0).astype(np.float64).T > 0
        return np.asarray((~uses_a_zero).sum(axis=1), dtype=np.float64)

    def error_bound(self, X: ArrayLike, Z: ArrayLike | None = None) -> NDArray[np.float64]:
        """Bound the error |k(x, z) − φ(x)ᵀφ(z)| for all pairs of rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)
        Z : array-like or sparse matrix of shape (m, d), optional
            X itself if not given.

        Returns
        -------
        ndarray of shape (n, m)
            σ²(‖x̃‖‖z̃‖)^{p+1}/(p + 1)!, summed over the components of the kernel.

        Raises
        ------
        InputError
            If the map has not all monomials up to a degree, or not those of the Gaussian kernel.

        References
        ----------
        A. Cotter, J. Keshet and N. Srebro, *Explicit Approximations of the Gaussian Kernel*, 2011, eq. 11.
        """
        check_is_fitted(self)
        if self.index_set == "energy" or self.weights == "polynomial":
            raise InputError(
                "error_bound is for all monomials up to a total degree with the Gaussian kernel's weights; got "
                f"index_set={self.index_set!r}, weights={self.weights!r}."
            )
        if len(self.parts) > 1:
            return np.sum([part.error_bound(X, Z) for part in self.parts], axis=0)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            checked = [self._checked(rows) for rows in (X, X if Z is None else Z)]
            squares = (row_squares(scale_columns(rows, self.component_.lengthscale)) for rows in checked)
            left, right = (np.log(square) / 2.0 for square in squares)
            product = left[:, None] + right
        product[np.isnan(product)] = -np.inf  # zero times a norm beyond float64
        order = self.degree_ + 1.0
        return np.asarray(self.component_.variance * np.exp(order * product - gammaln(order + 1.0)))

    def _evaluate_one(self, X: Tensor) -> Tensor:
        if "exponents_" not in vars(self):  # fitted to sparse rows
            return as_tensor(self._sparse_terms(csr_array(X.numpy())).toarray())
        scaled = self.in_lengthscales(X)
        if self.coef0_ is not None:
            factors = as_tensor(self.degree_factors()[self.exponents_.sum(axis=1)])
            return monomials(scaled, self.steps_, 0.0).mul_(factors[:, None]).T
        kept = (~vanishing(scaled.square().sum(dim=1), self.degree_)).to(torch.float64)
        return monomials(scaled, self.steps_, 0.5).mul_(kept * self.component_.variance**0.5).T

    def _sparse_terms(self, X: Any) -> Any:
        """Evaluate all monomials up to the degree at CSR rows of shape (n, d), as CSR of shape (n, D)."""
        scaled = scale_columns(canonical(X), self.component_.lengthscale)
        features = sparse_monomials(scaled, 0.5 if self.coef0_ is None else 0.0, self.degree_factors())
        if self.coef0_ is None:
            far = vanishing(torch.from_numpy(row_squares(scaled)), self.degree_).numpy()
            features.data[np.repeat(far, np.diff(features.indptr))] = 0.0
        features.eliminate_zeros()
        return features

    def degree_factors(self) -> Floats:
        """Return the factors of xᵃ/√(a!) by |a| = 0, …, p, without the Gaussian's exponential."""
        degree, variance = self.degree_, float(self.component_.variance)
        k = np.arange(degree + 1.0)
        if self.coef0_ is None:
            return np.full(len(k), variance**0.5)
        # (u + c)^p = Σ C(p, k) c^{p−k} uᵏ, and uᵏ = k! Σ xᵃzᵃ/a!: in C(p, k) k!, the k! goes out.
        logarithm = gammaln(degree + 1.0) - gammaln(degree - k + 1.0) + xlogy(degree - k, self.coef0_)
        return np.asarray(np.exp((logarithm + np.log(variance)) / 2.0))

    def _missing_one(self, X: Tensor, features: Tensor | None) -> Tensor:
        if self.index_set == "total_degree":
            return super()._missing_one(X, features)
        features = self._evaluate_one(X) if features is None else features
        # Rounding alone can make the difference negative, near the centre.
        return (self.component_.variance - features.square().sum(dim=1)).clamp(min=0.0)

    @property
    def row_size(self) -> int:  # noqa: D102
        moments = vars(self).get("moments_")
        return super().row_size if moments is None else moments.n_values

    def summed(self, chunks: Iterable[Rows], source: Source, n_targets: int, by: Arithmetic = USUAL) -> Statistics:
        """Sum the statistics of rows: by way of their moments, where that is less work."""
        plan = vars(self).get("moments_")
        if plan is None or by != USUAL:
            return super().summed(chunks, source, n_targets, by)
        moments = plan.sums(float(self.component_.variance), n_targets)
        total, far = Statistics(source, moments, TargetSums.zeros(n_targets)), []
        for chunk in chunks:
            scaled = self.in_lengthscales(as_tensor(chunk.X))
            squares = scaled.square().sum(dim=1)
            if squares.max() >= LARGEST_SQUARE:
                far.append(chunk)
                continue
            missing = None
            if source.noise.counts_missing:
                complete = self.index_set == "total_degree"  # then what is left out depends on r² alone
                missing = self.missing(squares) if complete else self.missing_variance(as_tensor(chunk.X))
            precision = total.add_targets(chunk, missing)
            moments.add_rows(scaled, squares, as_tensor(chunk.Y), precision)
        return total + super().summed(far, source, n_targets) if far else total


def _column_bytes(n_inputs: int) -> float:
    """Return the bytes a column: of exponents, of the two tables of how columns follow from each other, and others."""
    return 24.0 * n_inputs + 200.0
