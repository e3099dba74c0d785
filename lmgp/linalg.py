"""Dense linear algebra in float64."""

import warnings

import torch

from lmgp.errors import NumericalError, NumericalWarning


def cholesky(matrix: torch.Tensor) -> torch.Tensor:
    """Factorise a positive definite matrix, and say so where that took a correction.

    Parameters
    ----------
    matrix : Tensor of shape (n, n)
        Symmetric; only its lower triangle is read. It is not changed.

    Returns
    -------
    Tensor of shape (n, n)
        Lower triangular L with L Lᵀ = matrix.

    Raises
    ------
    NumericalError
        If the matrix is not finite, or not positive definite after adding 1e-6 of its mean diagonal.

    Warns
    -----
    NumericalWarning
        With the amount that was added to the diagonal.
    """
    factor, info = torch.linalg.cholesky_ex(matrix)
    if info == 0 and torch.isfinite(factor.diagonal()).all():
        return factor
    if not torch.isfinite(matrix.tril()).all():
        raise NumericalError("The matrix to factorise is not finite; check the inputs and the hyper-parameters.")
    diagonal = matrix.diagonal().mean()
    for exponent in range(-12, -5):
        jitter = float(diagonal) * 10.0**exponent
        corrected = matrix.clone()
        corrected.diagonal().add_(jitter)
        factor, info = torch.linalg.cholesky_ex(corrected)
        if info == 0:
            warnings.warn(
                f"The matrix was not positive definite in float64; {jitter:.1e} was added to its diagonal "
                f"(1e{exponent} of its mean). A larger noise variance avoids this.",
                NumericalWarning,
                stacklevel=2,
            )
            return factor
    raise NumericalError(
        "The matrix is not positive definite, not even with 1e-6 of its mean diagonal added. "
        "The noise variance is too small for float64 beside the kernel variance: increase it."
    )


def solve_lower(factor: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Solve L Z = right for lower triangular L of shape (n, n) and right of shape (n, m)."""
    return torch.linalg.solve_triangular(factor, right, upper=False)


def solve_upper(factor: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Solve U Z = right for upper triangular U of shape (n, n) and right of shape (n, m)."""
    return torch.linalg.solve_triangular(factor, right, upper=True)
