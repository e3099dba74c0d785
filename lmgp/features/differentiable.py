"""Fitted feature maps as functions of torch's autograd: differentiable in the rows and in their units."""

from functools import singledispatch
from math import log
from typing import Any

import torch
from torch.linalg import solve_triangular

from lmgp.errors import InputError
from lmgp.features.base import TensorMap
from lmgp.features.composition import LinearFeatures, ProductFeatures, ScaledFeatures, SumFeatures
from lmgp.features.fourier import FourierMap
from lmgp.features.maclaurin import SketchedFit, _MaclaurinMap
from lmgp.features.nystroem import NystroemFeatures
from lmgp.features.series import TaylorFit
from lmgp.features.taylor import TaylorFeatures
from lmgp.features.truncated import vanishing
from lmgp.validation import as_tensor

SERVED = (
    "the Fourier maps, TaylorFeatures, the Maclaurin maps, NystroemFeatures, LinearFeatures, and sums, products and "
    "multiples of these"
)


@singledispatch
def columns_at(features: Any, X: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    """Evaluate a fitted map at rows times a factor, in batches, and differentiably in both.

    Parameters
    ----------
    features : fitted map
    X : Tensor of shape (..., n, d)
        Of float64.
    factor : Tensor of shape (..., 1, 1) or (..., 1, d)
        What the rows are multiplied with. A Nyström map's landmarks are multiplied likewise: it is that of the
        kernel with lengthscales over the factor.

    Returns
    -------
    Tensor of shape (..., n, n_features_out_)

    Raises
    ------
    InputError
        If the map is not evaluated by torch.
    """
    rows = X * factor
    if isinstance(features, TensorMap):  # of somebody's own, which may be differentiable as it is
        try:
            made = features.evaluate(rows.flatten(end_dim=-2))
        except RuntimeError as error:
            raise _refusal(features) from error
        if made.requires_grad or not rows.requires_grad:
            return made.unflatten(0, rows.shape[:-1])
    raise _refusal(features)


def _refusal(features: Any) -> InputError:
    return InputError(
        f"{type(features).__name__} is not evaluated by torch, so that no lengthscale can be learned through it. Maps "
        f"that are: {SERVED}; and maps of your own whose evaluate() uses differentiable operations of torch alone."
    )


@columns_at.register
def _(features: FourierMap, X: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    fit = features.record_
    angles = (X * factor) @ as_tensor(fit.frequencies).T
    scale = (fit.variance / len(fit.frequencies)) ** 0.5
    return scale * torch.cat((torch.cos(angles), torch.sin(angles)), dim=-1)


@columns_at.register
def _(features: LinearFeatures, X: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return (X * factor) @ as_tensor(features.root_)


@columns_at.register
def _(features: SumFeatures, X: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return torch.cat([columns_at(part, X, factor) for part in (features.left_, features.right_)], dim=-1)


@columns_at.register
def _(features: ProductFeatures, X: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    left, right = (columns_at(part, X, factor) for part in (features.left_, features.right_))
    return (left[..., :, None] * right[..., None, :]).flatten(start_dim=-2)


@columns_at.register
def _(features: ScaledFeatures, X: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return features.record_.root * columns_at(features.features_, X, factor)


@columns_at.register
def _(features: NystroemFeatures, X: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    from linear_operator.utils.cholesky import psd_safe_cholesky  # says so where it adds to the diagonal

    kernel, landmarks = features.kernel_, as_tensor(features.landmarks_) * factor
    root = psd_safe_cholesky(kernel.evaluate(landmarks, landmarks))
    return solve_triangular(root, kernel.evaluate(landmarks, X * factor), upper=False).mT


@columns_at.register
def _(features: TaylorFeatures, X: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return torch.cat([_taylor(part.record_, X * factor) for part in features.parts], dim=-1)


@columns_at.register
def _(features: _MaclaurinMap, X: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
    return torch.cat([_maclaurin(part, part.record_, X * factor) for part in features.parts], dim=-1)


def _taylor(fit: Any, X: torch.Tensor) -> torch.Tensor:
    """Multiply the powers of each column that make a monomial."""
    if not isinstance(fit, TaylorFit):
        raise InputError("TaylorFeatures fitted to sparse rows is not evaluated by torch: fit it to an array.")
    scaled, rate = fit.scale(X), 0.5 if fit.coef0 is None else 0.0
    made: torch.Tensor | None = None
    for column, (parents, exponents) in zip(scaled.unbind(dim=-1), fit.steps, strict=True):
        powers = [torch.exp(-rate * column.square())]
        for k in range(1, int(exponents.max()) + 1):
            powers.append(powers[-1] * column * k**-0.5)
        chosen = torch.stack(powers, dim=-1)[..., as_tensor(exponents)]
        made = chosen if made is None else made[..., as_tensor(parents)] * chosen
    assert made is not None  # rows have a column
    if fit.coef0 is not None:
        return made * as_tensor(fit.degree_factors()[fit.exponents.sum(axis=1)])
    far = vanishing(scaled.detach().square().sum(dim=-1, keepdim=True), fit.degree)
    return made * ((~far).to(made.dtype) * float(fit.component.variance) ** 0.5)


def _maclaurin(features: Any, fit: SketchedFit, X: torch.Tensor) -> torch.Tensor:
    """Multiply the projections of each degree, with the exponential and the coefficient inside the product."""
    scaled = fit.scale(X)
    squares = scaled.square().sum(dim=-1, keepdim=True)
    squares = torch.where(vanishing(squares.detach(), len(fit.weights) - 1), torch.inf, squares)
    blocks = []
    for degree, weights in enumerate(fit.weights):
        log_factor = features._log_coefficient(fit, degree) + 0.5 * log(float(fit.component.variance))
        if degree == 0:
            blocks.append(torch.exp(log_factor - squares / 2.0).expand(*X.shape[:-1], weights.shape[1]))
            continue
        damped = scaled * torch.exp((log_factor - squares / 2.0) / degree)
        blocks.append(torch.stack([damped @ as_tensor(factor).T for factor in weights]).prod(dim=0))
    return torch.cat(blocks, dim=-1)
