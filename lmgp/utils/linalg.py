"""Dense linear algebra in float64."""

from collections.abc import Callable

from lmgp.errors import NumericalError, NumericalWarning, warn
from lmgp.utils.arithmetic import Precision
from lmgp.utils.lazy import Tensor, torch

# What is added to the diagonal of a matrix that is not positive definite in float64: powers of ten of its mean, tried
# in this order, up to this multiple of what the noise adds. More would be another model, not a correction.
EXPONENTS, MOST_ADDED = range(-12, -5), 100.0
# A matrix of n rows has a Cholesky factor in any order of them where the squares of its pivots, or the noise on its
# diagonal, are more than this share of its largest diagonal entry, times n: the rounding of float64.
ROUNDING = 2e-16
# Columns that are factorised at a time where there are more than four times as many: each takes less than a second.
BLOCK = 1024


def cholesky(
    matrix: Tensor, noise_variance: float | None = None, diagonal_share: float | None = None,
    precision: Precision = "float64",
) -> Tensor:  # fmt: skip
    """Factorise a positive definite matrix, with a correction of its diagonal and a warning where that is needed.

    Parameters
    ----------
    matrix : Tensor of shape (n, n)
        Symmetric; only its lower triangle is read. It is not changed.
    noise_variance : float, optional
        The smallest noise variance of any row. If it is given, a correction must not exceed 100 times the noise.
    diagonal_share : float, optional
        What the noise adds to the diagonal. The noise variance itself if not given; 1 for a matrix I + ΦᵀΦ/σ².
    precision : {"float64", "float32"}, default="float64"
        Of the features whose products the matrix has; of single precision, it is not corrected.

    Returns
    -------
    Tensor of shape (n, n)
        Lower triangular L with L Lᵀ = matrix.

    Raises
    ------
    NumericalError
        If the matrix is not finite, or not positive definite after adding 1e-6 of its mean diagonal, or 100 times the
        noise; or not positive definite, of features in single precision.

    Warns
    -----
    NumericalWarning
        With the amount that was added to the diagonal.
    """
    factor, info = _factor(matrix)
    if info == 0 and torch.isfinite(factor.diagonal()).all():
        return factor
    if not torch.isfinite(matrix.tril()).all():
        raise NumericalError("The matrix to factorise is not finite; check the inputs and the hyperparameters.")
    if precision == "float32":
        raise NumericalError(
            f"The noise variance {noise_variance:.3g} is too small for features in single precision: the matrix is not "
            "positive definite. Take feature_dtype='float64', or give a larger noise_variance."
        )
    diagonal = matrix.diagonal().mean()
    for exponent in EXPONENTS:
        jitter = float(diagonal) * 10.0**exponent
        corrected = matrix.clone()
        corrected.diagonal().add_(jitter)
        factor, info = _factor(corrected)
        if info == 0:
            if noise_variance is not None:
                _check_correction(jitter, noise_variance, diagonal_share or noise_variance)
            warn(
                f"The matrix was not positive definite in float64; {jitter:.1e} was added to its diagonal "
                f"(1e{exponent} of its mean). A larger noise variance avoids this.",
                NumericalWarning,
            )
            return factor
    raise NumericalError(
        "The matrix is not positive definite, not even with 1e-6 of its mean diagonal added. "
        "The noise variance is too small for float64 beside the kernel variance: increase it."
    )


def _factor(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Factorise in blocks, between which Ctrl-C is answered; like `torch.linalg.cholesky_ex`, say where that fails."""
    n = len(matrix)
    if n <= 4 * BLOCK or matrix.requires_grad:
        return torch.linalg.cholesky_ex(matrix)
    factor = matrix.mT.triu().mT  # column by column, as LAPACK takes it
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        panel, before = factor[start:, start:stop], factor[start:, :start]
        panel.addmm_(before, before[: stop - start].T, alpha=-1.0)
        block, info = torch.linalg.cholesky_ex(panel[: stop - start])
        panel[: stop - start] = block
        if info != 0:
            break
        below = panel[stop - start :]
        below.copy_(torch.linalg.solve_triangular(block.T, below, upper=True, left=False))
    return factor, info


def _check_correction(jitter: float, noise_variance: float, diagonal_share: float) -> None:
    """Refuse a correction that drowns the noise: it would answer for another, noisier model."""
    if jitter > MOST_ADDED * diagonal_share:
        # Twice that noise, so that rounding to one digit leaves enough.
        works = 2.0 * noise_variance * (jitter / diagonal_share)
        raise NumericalError(
            f"The noise variance is too small for float64 beside the kernel, noise_variance={noise_variance:.3g}: the "
            f"matrix is not positive definite. The smallest noise_variance that works here is about {works:.1g}."
        )


def factorise(covariance: Tensor, noise: Tensor) -> Tensor:
    """Factorise K + Σ, with a correction of its diagonal where that is needed, see `cholesky`.

    Parameters
    ----------
    covariance : Tensor of shape (..., n, n)
        K; the noise is added to it in place.
    noise : Tensor of shape (..., n)

    Returns
    -------
    Tensor of shape (..., n, n)
        Lower triangular.
    """
    covariance.diagonal(dim1=-2, dim2=-1).add_(noise)
    least = noise.amin(dim=-1) if noise.shape[-1] else noise.new_zeros(noise.shape[:-1])
    if least.ndim == 0:
        return cholesky(covariance, float(least))
    factors, failed = torch.linalg.cholesky_ex(covariance)
    for index in failed.nonzero().ravel().tolist():
        factors[index] = cholesky(covariance[index], float(least[index]))
    return factors


def solve_lower(factor: Tensor, right: Tensor) -> Tensor:
    """Solve L Z = right for lower triangular L of shape (n, n) and right of shape (n, m)."""
    return torch.linalg.solve_triangular(factor, right, upper=False)


def solve_upper(factor: Tensor, right: Tensor) -> Tensor:
    """Solve U Z = right for upper triangular U of shape (n, n) and right of shape (n, m)."""
    return torch.linalg.solve_triangular(factor, right, upper=True)


def conjugate_gradients(
    multiply: Callable[[Tensor], Tensor],
    precondition: Callable[[Tensor], Tensor],
    right: Tensor,
    settled: Callable[[int, Tensor, Tensor], bool],
    max_iterations: int,
) -> Tensor:
    """Solve A x = b for each column b of `right` by preconditioned conjugate gradients.

    Parameters
    ----------
    multiply : callable
        V ↦ A V, for a symmetric positive definite A.
    precondition : callable
        V ↦ P⁻¹V, for a P near A. The iterations begin at P⁻¹b.
    right : Tensor of shape (n, t)
    settled : callable
        Takes the number of iterations done, x and the residual b − A x, which it must not change; says whether x is
        near enough.
    max_iterations : int

    Returns
    -------
    Tensor of shape (n, t)

    Raises
    ------
    NumericalError
        If A is not positive definite in floating point.
    """
    x = precondition(right)
    residual = right - multiply(x)
    conditioned = precondition(residual)
    direction, squares = conditioned.clone(), (residual * conditioned).sum(dim=0)
    for number in range(max_iterations + 1):
        if settled(number, x, residual) or number == max_iterations:
            break
        image = multiply(direction)
        curvature = (direction * image).sum(dim=0)
        left = squares > 0.0  # a column that is solved to the last digit stays as it is
        if bool((left & (curvature <= 0.0)).any()):
            raise NumericalError(
                "The matrix to solve with is not positive definite in floating point. A larger noise variance, or "
                "fewer rows, avoid this."
            )
        step = torch.where(left, squares / curvature, 0.0)
        x = x + step * direction
        residual = residual - step * image
        conditioned = precondition(residual)
        after = (residual * conditioned).sum(dim=0)
        direction = conditioned + torch.where(left, after / squares, 0.0) * direction
        squares = after
    return x
