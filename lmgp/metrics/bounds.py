"""Proved bounds on the errors of kernel approximations."""

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmgp.errors import InputError


def hoeffding_bound(
    n_features: ArrayLike, error: ArrayLike, *, variance: float = 1.0, pairs: bool = True
) -> NDArray[np.float64]:
    """Bound the probability that random Fourier features err by `error` or more for the kernel of two rows.

    Parameters
    ----------
    n_features : array-like of int
        D, the number of columns: even for pairs.
    error : array-like of float
        The error a in k(x, z), positive. Broadcast against `n_features`.
    variance : float, default=1.0
        The kernel's variance σ².
    pairs : bool, default=True
        True for pairs of a cosine and a sine, as `RandomFourierFeatures` makes; False for cosines with a random phase
        each.

    Returns
    -------
    ndarray
        2 exp(−D a²/(4σ⁴)) for pairs, 2 exp(−D a²/(8σ⁴)) for phases; at most 1.

    Raises
    ------
    InputError
        If an argument is out of its range.

    Notes
    -----
    Each of the D/2 pairs adds 2σ²/D cos(ωᵀ(x − z)), which lies between ±2σ²/D; each of D phases adds 2σ²/D times a
    product of two cosines. Both bounds follow from Hoeffding's inequality for sums of independent bounded terms. They
    hold for one pair of rows, not for all pairs at once.

    References
    ----------
    C. De Sa, *Principles of Large-Scale Machine Learning Systems*, lecture 18, *Kernels and Feature Extraction*.

    Examples
    --------
    >>> from lmgp.metrics import hoeffding_bound
    >>> hoeffding_bound([128, 512, 2048], 0.2).round(4)
    array([0.5561, 0.012 , 0.    ])
    """
    counts, errors = _numbers("n_features", n_features), _numbers("error", error)
    _check("n_features must be positive", counts, counts > 0)
    if pairs:
        _check("n_features must be even, for pairs,", counts, counts % 2 == 0)
    _check("error must be positive", errors, errors > 0)
    if not (isinstance(variance, Real) and 0 < variance < np.inf):
        raise InputError(f"variance must be positive and finite; got {variance!r}.")
    try:
        np.broadcast_shapes(counts.shape, errors.shape)
    except ValueError:
        raise InputError(
            f"n_features and error must broadcast against each other; got shapes {counts.shape} and {errors.shape}."
        ) from None
    exponent = counts * np.square(errors / variance) / (4.0 if pairs else 8.0)
    return np.asarray(np.minimum(1.0, 2.0 * np.exp(-exponent)))


def svm_objective_gap(kernel_diagonal: ArrayLike, feature_squares: ArrayLike, regularization: float) -> float:
    """Bound the gap between the objective of a linear SVM on projected features and that of the kernel SVM.

    Let p* be the minimum of λ/2 ‖w‖² + (1/m) Σ hinge(yᵢ⟨w, φ(xᵢ)⟩), and p̃* the minimum with a projection of φ in place
    of φ. Then p* ≤ p̃* ≤ p* + gap.

    Parameters
    ----------
    kernel_diagonal : array-like of shape (m,)
        K(xᵢ, xᵢ) of the training rows.
    feature_squares : array-like of shape (m,)
        K̃(xᵢ, xᵢ), the squared norms of their features.
    regularization : float
        λ; it is 1/(C m) for `sklearn.svm.LinearSVC(C, loss="hinge")`.

    Returns
    -------
    float
        (1/(m√λ)) Σᵢ √(K(xᵢ, xᵢ) − K̃(xᵢ, xᵢ)).

    Raises
    ------
    InputError
        If a squared norm is above the kernel's diagonal: the features, such as random Fourier features, are then no
        projection. Or if λ is not positive, or the shapes differ.

    References
    ----------
    A. Cotter, J. Keshet and N. Srebro, *Explicit Approximations of the Gaussian Kernel*, 2011, Theorem 1.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import GaussianKernel, TaylorFeatures
    >>> from lmgp.metrics import svm_objective_gap
    >>> X = np.random.default_rng(0).normal(size=(100, 3)) / 4
    >>> kernel = GaussianKernel(1.0)
    >>> for degree in (1, 2, 3):
    ...     squares = np.square(TaylorFeatures(degree=degree, kernel=kernel).fit_transform(X)).sum(axis=1)
    ...     print(round(svm_objective_gap(kernel.diagonal(X), squares, regularization=0.01), 3))
    1.245
    0.368
    0.104
    """
    exact, projected = _numbers("kernel_diagonal", kernel_diagonal), _numbers("feature_squares", feature_squares)
    if exact.shape != projected.shape or exact.ndim != 1 or not len(exact):
        raise InputError(
            f"kernel_diagonal and feature_squares need one value for each row, shape (m,); got shapes {exact.shape} "
            f"and {projected.shape}. Sums over the rows of a sparse matrix may need np.ravel."
        )
    if not (isinstance(regularization, Real) and 0 < regularization < np.inf):
        raise InputError(f"regularization must be positive and finite; got {regularization!r}.")
    for name, values in (("kernel_diagonal", exact), ("feature_squares", projected)):
        _check(f"{name} must not be negative", values, values >= 0)
    missing = exact - projected
    # Rounding alone can make a difference negative.
    above = missing < -1e-9 * exact
    if above.any():
        at = int(np.argmax(above))
        raise InputError(
            f"The bound is for projections, whose feature_squares are at most kernel_diagonal; row {at} has "
            f"{projected[at]:g} above {exact[at]:g}. Taylor and Nyström features are projections, random ones are not."
        )
    return float(np.sqrt(missing.clip(min=0.0)).mean() / np.sqrt(regularization))


def spherical_fit_bound(degree: int, a: float = 4.0) -> float:
    """Bound the error of one Gaussian as a fit to the polynomial kernel of the unit sphere, for high degrees.

    Parameters
    ----------
    degree : int
        p, at least 1.
    a : float, default=4.0
        At least 2.

    Returns
    -------
    float
        (105/4096) √(π/2) a p^{−5/2}, the leading term in 1/p of ½∫₀^a (K(z) − e^{−pz²/a²})² dz with the kernel
        K(z) = (1 − z²/a²)^p. That integral reaches beyond the sphere's distances, up to 2.

    Raises
    ------
    InputError
        If an argument is out of its range.

    References
    ----------
    J. Pennington, F. X. Yu and S. Kumar, *Spherical Random Features for Polynomial Kernels*, NIPS 2015, eq. 6.

    Examples
    --------
    >>> from lmgp.metrics import spherical_fit_bound
    >>> round(spherical_fit_bound(10), 5)
    0.00041
    """
    if not (isinstance(degree, Real) and degree >= 1 and isinstance(a, Real) and a >= 2):
        raise InputError(f"degree must be at least 1 and a at least 2; got degree={degree!r}, a={a!r}.")
    return float(105.0 / 4096.0 * np.sqrt(np.pi / 2.0) * a * degree**-2.5)


def _numbers(name: str, values: ArrayLike) -> NDArray[np.float64]:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a number or an array of numbers: {error}.") from error


def _check(expected: str, values: NDArray[np.float64], holds: NDArray[np.bool_]) -> None:
    if not (np.all(holds) and np.all(np.isfinite(values))):
        at = np.argmin(np.isfinite(values) & holds)
        raise InputError(f"{expected} and finite; got {values.flat[at]:g}.")
