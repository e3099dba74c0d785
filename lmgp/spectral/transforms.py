"""Sums over rows for all modes, and sums over modes for all rows: non-uniform fast Fourier transforms."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import finufft
import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from lmgp.spectral.modes import Indices, half_shape

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]


def sums_over_rows(angles: Sequence[Floats], strengths: Floats, counts: Indices, tolerance: float) -> Complexes:
    """Return Σₙ cₙ e^{−i j·angleₙ} for all modes j.

    Parameters
    ----------
    angles : sequence of ndarray of shape (n,)
        One a column.
    strengths : ndarray of shape (b, n)
        Real.
    counts : ndarray of int of shape (d,)
        The modes go from −m to m.
    tolerance : float
        Of the transform, relative.

    Returns
    -------
    ndarray of shape (b, *half_shape(counts))
    """
    # Two real sums are the two parts of one complex sum: F(a + ib) has F(a) and F(b) as its symmetric parts.
    paired = np.zeros((len(strengths[::2]), strengths.shape[1]), dtype=np.complex128)
    paired.real = strengths[::2]
    paired.imag[: len(strengths) // 2] = strengths[1::2]
    both = _transform(1, angles, paired, counts, tolerance)
    mirrored = np.conj(_reversed(both))
    last = int(counts[-1]) + 1
    result = np.empty((len(strengths), *half_shape(counts)), dtype=np.complex128)
    result[::2] = 0.5 * (both + mirrored)[..., :last]
    result[1::2] = -0.5j * (both - mirrored)[: len(strengths) // 2, ..., :last]
    return result


def sums_over_modes(angles: Sequence[Floats], coefficients: Complexes, counts: Indices, tolerance: float) -> Floats:
    """Return Σⱼ cⱼ e^{i j·angleₙ} for all rows n, of coefficients whose sums are real.

    Parameters
    ----------
    angles : sequence of ndarray of shape (n,)
    coefficients : ndarray of shape (b, *half_shape(counts))
    counts : ndarray of int of shape (d,)
    tolerance : float

    Returns
    -------
    ndarray of shape (b, n)
    """
    whole = _whole(coefficients, counts)
    paired = whole[::2].copy()
    paired[: len(whole) // 2] += 1j * whole[1::2]
    both = _transform(2, angles, paired, counts, tolerance)
    result = np.empty((len(whole), len(angles[0])))
    result[::2], result[1::2] = both.real, both.imag[: len(whole) // 2]
    return result


def white(shape: tuple[int, ...], rng: np.random.Generator) -> Complexes:
    """Draw the modes of real white noise, each of variance 1; shape (b, *half_shape(counts))."""
    drawn = (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)) * np.sqrt(0.5)
    # Where the last column is 0, −j is kept beside j.
    plane = drawn[..., 0]
    axes = tuple(range(1, plane.ndim))
    mirrored = np.roll(np.flip(plane, axes), 1, axes) if axes else plane
    drawn[..., 0] = np.sqrt(0.5) * (plane + np.conj(mirrored))
    return drawn


def _threads() -> int:
    """Return the number of threads: torch's, as far as finufft's OpenMP has as many."""
    return min([torch.get_num_threads(), *(one.num_threads for one in _openmp())])


@cache
def _openmp() -> list[Any]:
    controllers: list[Any] = ThreadpoolController().select(user_api="openmp").lib_controllers
    return [one for one in controllers if "finufft" in one.filepath]


def _transform(kind: int, angles: Sequence[Floats], values: Complexes, counts: Indices, tolerance: float) -> Complexes:
    transform: Any = getattr(finufft, f"nufft{len(angles)}d{kind}")
    options = {"eps": tolerance, "modeord": 1, "nthreads": _threads()}
    if kind == 1:
        shape = tuple(2 * int(m) + 1 for m in counts)
        # A transform of one component has that as its number.
        size = shape if len(angles) > 1 else shape[0]
        found = transform(*angles, np.ascontiguousarray(values), size, isign=-1, **options)
        return np.asarray(found).reshape(len(values), *shape)
    found = transform(*angles, np.ascontiguousarray(values), isign=1, **options)
    return np.asarray(found).reshape(len(values), len(angles[0]))


def _reversed(values: Complexes) -> Complexes:
    """Return the values of −j in the place of j, of arrays that hold all modes."""
    axes = tuple(range(1, values.ndim))
    return np.roll(np.flip(values, axes), 1, axes)


def _whole(half: Complexes, counts: Indices) -> Complexes:
    """Return all modes, of arrays whose last column holds 0 to m."""
    others = tuple(range(1, half.ndim - 1))
    mirrored = np.conj(np.flip(half[..., 1:], -1))
    if others:
        mirrored = np.roll(np.flip(mirrored, others), 1, others)
    return np.concatenate((half, mirrored), axis=-1)
