"""The linear system of the modes' coefficients: a Toeplitz matrix, conjugate gradients, and what makes them short."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from lmgp.data import Complexes, Floats, Indices
from lmgp.utils.lazy import torch
from lmgp.utils.linalg import cholesky

Operator = Callable[[Complexes], Complexes]

# The most modes that are solved for at once.
MOST_AT_ONCE = 2048
# Of more modes than that, those are whose prior variance, times the number of rows, is above this share of σ².
SHARE = 1.0
# Such a block is made after this number of iterations without it, and no earlier than it pays: it takes as long as the
# cube of its size, over `PAYS` and over the number of all modes, iterations.
PATIENCE, PAYS = 200, 2000.0
# The share of the period with rows, (∫ρ)²/∫ρ² of their density, above which the diagonal preconditions.
EVEN = 0.5


def half_shape(counts: Indices) -> tuple[int, ...]:
    """Return the shape of arrays over the modes from −m to m, of which the last column keeps 0 to m."""
    return (*(2 * int(m) + 1 for m in counts[:-1]), int(counts[-1]) + 1)


def opposite(values: Complexes, end: int | None = None) -> Complexes:
    """Return the values of −j in the place of j, along the axes from 1 to `end`, of arrays that hold all of these."""
    axes = tuple(range(1, end or values.ndim))
    return np.roll(np.flip(values, axes), 1, axes)


def mode_products(left: Complexes, right: Complexes) -> Floats:
    """Return Σ conj(left) right over all modes, those that are not kept included; shape (b,)."""
    pairs = zip(left, right, strict=True)
    return np.array([2.0 * np.vdot(a, b).real - np.vdot(a[..., 0], b[..., 0]).real for a, b in pairs])


def mode_gram(left: Complexes, right: Complexes) -> Floats:
    """Return the products of each of the left vectors with each of the right ones, shape (b, c)."""

    def real(vectors: Complexes) -> Floats:
        return np.ascontiguousarray(vectors).reshape(len(vectors), -1).view(np.float64)

    return 2.0 * (real(left) @ real(right).T) - real(left[..., 0]) @ real(right[..., 0]).T


class Toeplitz:
    """The matrix Tⱼₗ = g(j − l) over modes, applied by fast Fourier transforms.

    Parameters
    ----------
    generator : ndarray of shape half_shape(2 * counts)
        g of all differences of two modes.
    counts : ndarray of int of shape (d,)

    Attributes
    ----------
    largest_eigenvalue : float
        A number that no eigenvalue is above: the largest of the circulant matrix of which this is a part.
    """

    def __init__(self, generator: Complexes, counts: Indices) -> None:
        self._axes = tuple(range(-len(counts), 0))
        self._grid = tuple(fft.next_fast_len(4 * int(m) + 1, real=True) for m in counts)
        self._places = mode_places(counts, self._grid)
        multiplier = self._to_space(generator[None], mode_places(2 * counts, self._grid))[0]
        self._multiplier = multiplier * np.prod(self._grid)
        self.largest_eigenvalue = float(self._multiplier.max())

    @staticmethod
    def n_bytes(counts: Indices, n_vectors: int) -> float:
        """Return the memory of one product and of conjugate gradients, in bytes."""
        grid = float(np.prod([4.0 * int(m) + 1.0 for m in counts]))
        n_modes = float(np.prod(np.array(half_shape(counts), dtype=np.float64)))
        return 8.0 * grid * (1 + 4 * n_vectors) + 16.0 * n_modes * (6 * n_vectors + 2)

    def __call__(self, vectors: Complexes) -> Complexes:
        """Return T times each vector; shape (b, *half_shape(counts))."""
        space = self._to_space(vectors, self._places)
        space *= self._multiplier
        spectrum = fft.rfftn(space, axes=self._axes, workers=torch.get_num_threads(), overwrite_x=True)
        return np.ascontiguousarray(spectrum[self._places])

    def _to_space(self, vectors: Complexes, places: tuple[Any, ...]) -> Floats:
        """Return the real functions of vectors at these places of the spectrum, on the grid."""
        spectrum = np.zeros((len(vectors), *self._grid[:-1], self._grid[-1] // 2 + 1), dtype=np.complex128)
        spectrum[places] = vectors
        space: Floats = fft.irfftn(spectrum, self._grid, self._axes, workers=torch.get_num_threads(), overwrite_x=True)
        return space


def mode_places(counts: Indices, grid: Sequence[int]) -> tuple[Any, ...]:
    """Return the index of arrays over modes in arrays over more modes, or in spectra of a grid."""
    sides = [np.r_[: m + 1, size - m : size] for m, size in zip(counts[:-1].tolist(), grid[:-1], strict=True)]
    return (slice(None), *np.ix_(*sides), slice(int(counts[-1]) + 1))


class Solution(NamedTuple):
    """What conjugate gradients found.

    Attributes
    ----------
    vectors : ndarray of shape (b, *half_shape(counts))
    remaining : ndarray of shape (b,)
        An upper bound of the squared energy norm of the error, eᴴAe.
    n_iterations : int
    """

    vectors: Complexes
    remaining: Floats
    n_iterations: int


def conjugate_gradients(
    multiply: Operator,
    right: Complexes,
    least_eigenvalue: float,
    enough: Floats,
    max_iterations: int,
    start: Complexes | None = None,
    inverse: Operator | None = None,
) -> Solution:
    """Solve A x = right for each right side by conjugate gradients.

    Parameters
    ----------
    multiply : callable
        A, Hermitian.
    right : ndarray of shape (b, *half_shape(counts))
    least_eigenvalue : float
        A positive number that no eigenvalue of A, or of the preconditioned matrix, is below.
    enough : ndarray of shape (b,)
        The squared energy norm of the error, eᴴAe, that is small enough.
    max_iterations : int
    start : ndarray of shape (b, *half_shape(counts)), optional
        Where to start; 0 if not given.
    inverse : callable, optional
        The preconditioner: positive definite, and about the inverse of A.

    Returns
    -------
    Solution

    References
    ----------
    G. Meurant and P. Tichý, *On Computing Quadrature-Based Bounds for the A-Norm of the Error in Conjugate Gradients*,
    Numerical Algorithms 62, 2013: the Gauss–Radau upper bound, which costs nothing beside the iterations.
    """
    expand = (slice(None), *(None,) * (right.ndim - 1))
    x, residual = np.zeros_like(right), right.copy()
    if start is not None:
        x += start
        residual -= multiply(start)
    # Of the preconditioned matrix, in its inner product, the bound is the same.
    direction = residual.copy() if inverse is None else inverse(residual)
    squares = mode_products(residual, direction)
    radau = np.full(len(right), 1.0 / least_eigenvalue)
    n_iterations = 0
    while np.any(radau * squares > enough) and n_iterations < max_iterations:
        image = multiply(direction)
        curvature = mode_products(direction, image)
        # A right side that is solved to the last digit stays as it is.
        step = np.divide(squares, curvature, out=np.zeros_like(squares), where=curvature > 0.0)
        x += step[expand] * direction
        residual -= step[expand] * image
        towards = residual if inverse is None else inverse(residual)
        after = mode_products(residual, towards)
        ratio = np.divide(after, squares, out=np.zeros_like(squares), where=squares > 0.0)
        # Where rounding has closed the gap, the residual alone bounds the error.
        gap, worst = radau - step, 1.0 / least_eigenvalue
        bound = least_eigenvalue * gap + ratio
        radau = np.divide(gap, bound, out=np.full_like(gap, worst), where=(gap > 0.0) & (bound > 0.0))
        direction *= ratio[expand]
        direction += towards
        squares = after
        n_iterations += 1
    # Rounding may leave less than zero of the squares: it is an error of that size.
    return Solution(x, radau * np.abs(squares), n_iterations)


class RealModes:
    """Modes as cosines and sines F: real numbers over one of each two modes j and −j, and matrices of them.

    Parameters
    ----------
    kept : ndarray of bool, over modes
        The modes that count, the constant among them.

    Attributes
    ----------
    index : ndarray of shape (n, d)
        One of each two modes j and −j, as places in arrays over modes; the constant first.
    """

    def __init__(self, kept: NDArray[np.bool_]) -> None:
        every = np.stack(np.nonzero(kept), axis=1)
        # Places beyond the middle are those of negative numbers; the last column has none.
        sizes = np.array([*kept.shape[:-1], 2 * kept.shape[-1]])
        every = np.where(2 * every > sizes, every - sizes, every)
        leading = np.zeros(len(every), dtype=np.intp)
        for column in every.T[::-1]:  # the last column that is not 0 is positive
            leading = np.where(leading == 0, np.sign(column), leading)
        self.index: Indices = np.concatenate((np.zeros((1, kept.ndim), dtype=np.intp), every[leading > 0]))

    def __len__(self) -> int:
        return 2 * len(self.index) - 1

    def of_modes(self, values: Floats) -> Floats:
        """Return what arrays over modes hold for the constant, the cosines and the sines, shape (n_modes,)."""
        of_cosines = values[tuple(self.index.T)]
        return np.concatenate((of_cosines, of_cosines[1:]))

    def of_vectors(self, vectors: Complexes) -> Floats:
        """Return Σ ρ t F from Σ ρ t e^{−ij·θ} of each target: an isometry; shape (b, n_modes)."""
        values = vectors[(slice(None), *self.index.T)]
        root = math.sqrt(2.0)
        return np.concatenate((values[:, :1].real, root * values[:, 1:].real, -root * values[:, 1:].imag), axis=1)

    def to_vectors(self, values: Floats, vectors: Complexes) -> None:
        """Write what `of_vectors` would return as `values` into arrays over modes."""
        n, flat = len(self.index), self.index[:, -1] == 0
        cosines, sines = values[:, 1:n], values[:, n:]
        complexes = np.concatenate((values[:, :1], (cosines - 1j * sines) / math.sqrt(2.0)), axis=1)
        vectors[(slice(None), *self.index.T)] = complexes
        # Of the last column's zero, both of two modes are kept.
        vectors[(slice(None), *-self.index[flat].T)] = np.conj(complexes[:, flat])

    def gram(self, generator: Complexes) -> Floats:
        """Return FᵀPF, shape (n_modes, n_modes), from the generator of the Toeplitz matrix."""
        most = 2 * np.abs(self.index).max(axis=0)
        half = np.fft.fftshift(generator[None][mode_places(most, generator.shape)][0], tuple(range(len(most) - 1)))
        whole = np.concatenate((np.conj(np.flip(half[..., 1:])), half), axis=-1)
        strides = np.array([math.prod(whole.shape[axis + 1 :]) for axis in range(whole.ndim)])
        origin, places = int(most @ strides), self.index @ strides
        minus, plus = (whole.ravel()[origin + places[:, None] + sign * places] for sign in (-1, 1))
        plus += minus
        minus *= 2.0
        minus -= plus  # of the differences of two modes less that of their sums
        # The constant is a cosine over √2; it has no sine.
        gram = np.block([[plus.real, minus.imag[:, 1:]], [minus.imag[:, 1:].T, minus.real[1:, 1:]]])
        gram[0] *= math.sqrt(0.5)
        gram[:, 0] *= math.sqrt(0.5)
        return gram

    def series(self, covariance: Floats, counts: Indices) -> Complexes:
        """Return the Fourier series of fᵀSf over the modes from −counts to counts, S the covariance of the weights.

        Parameters
        ----------
        covariance : ndarray of shape (n_modes, n_modes)
            Of the weights of the constant, the cosines and the sines.
        counts : ndarray of int of shape (d,)
            At least twice the largest numbers in `index`.
        """
        n, shape = len(self.index), tuple(2 * int(m) + 1 for m in counts)
        scales = np.where(np.arange(2 * n - 1) == 0, math.sqrt(0.5), 1.0)  # the constant is a cosine over √2
        covariance = covariance * scales * scales[:, None]
        strides = np.array([math.prod(shape[axis + 1 :]) for axis in range(len(shape))])
        origin, modes = int(counts @ strides), self.index @ strides
        # Of Σ a_k e^{ik·θ}, whose real part is fᵀSf: over k from −counts to counts.
        sums = np.zeros(math.prod(shape), dtype=np.complex128)
        for sign in (-1, 1):  # differences of two modes, and sums
            places = (origin + modes[:, None] + sign * modes).ravel()
            even, odd = covariance[:n, :n].copy(), np.zeros((n, n))
            even[1:, 1:] -= sign * covariance[n:, n:]
            odd[:, 1:] = -2.0 * sign * covariance[:n, n:]
            sums.real += np.bincount(places, even.ravel(), len(sums))
            sums.imag += np.bincount(places, odd.ravel(), len(sums))
        whole = 0.5 * (sums + np.conj(sums[::-1])).reshape(shape)
        half = whole[..., int(counts[-1]) :]
        return np.ascontiguousarray(np.fft.ifftshift(half, tuple(range(half.ndim - 1))))


class Block:
    """The inverse of the matrix of some modes, by Cholesky factorisation, and of σ²I for the others.

    With B = W^{1/2}Φᴴ of the rows, xᴴAx = ‖Bₛᴴs + Bᵣᴴr‖² + σ²(‖s‖² + ‖r‖²) of parts s in the block and r beside it. As
    ‖a + b‖² ≥ u/(1 + u) ‖a‖² − u‖b‖² for every u > 0, and ‖Bᵣᴴr‖² ≤ vσ²‖r‖², the least eigenvalue λ is at least the
    smaller of u/(1 + u) and 1 − uv: of the best u, the smaller root of λ² − (2 + v)λ + 1 = 0.

    Parameters
    ----------
    generator : ndarray of shape half_shape(2 * counts)
    weights : ndarray over modes
    noise_variance : float
    kept : ndarray of bool, over modes
        Which are in the block.
    largest_eigenvalue : float
        Of the Toeplitz matrix.

    Attributes
    ----------
    real : RealModes
        The modes in the block.
    roots : ndarray of shape (m,)
        W^{1/2} of the constant, the cosines and the sines.
    factor : Tensor of shape (m, m)
        The Cholesky factor of the matrix of the block.
    inverse : ndarray of shape (m, m)
    noise_variance, least_eigenvalue : float

    Raises
    ------
    NumericalError
        If the matrix is not positive definite in float64.
    """

    def __init__(
        self,
        generator: Complexes,
        weights: Floats,
        noise_variance: float,
        kept: NDArray[np.bool_],
        largest_eigenvalue: float,
    ) -> None:
        self.real, self.noise_variance = RealModes(kept), noise_variance
        self.roots = np.sqrt(self.real.of_modes(weights))
        matrix = self.real.gram(generator)
        matrix *= self.roots
        matrix *= self.roots[:, None]
        matrix[np.diag_indices_from(matrix)] += noise_variance
        self.factor = cholesky(torch.from_numpy(matrix), noise_variance)
        self.inverse: Floats = torch.cholesky_inverse(self.factor).numpy()
        beside = float(np.max(weights, where=~kept, initial=0.0)) * largest_eigenvalue / noise_variance
        self.least_eigenvalue = 2.0 / (2.0 + beside + math.sqrt(beside * (beside + 4.0)))

    @property
    def log_determinant(self) -> float:
        """The logarithm of the determinant of the matrix of the block."""
        return 2.0 * float(self.factor.diagonal().log().sum())

    @staticmethod
    def n_bytes(n_modes: int) -> float:
        """Return the memory of the matrix, its factor, its inverse and what is made of it, in bytes."""
        return 4.0 * 8.0 * float(n_modes) ** 2

    def __call__(self, vectors: Complexes) -> Complexes:
        """Return the inverse times each vector."""
        result = vectors / self.noise_variance
        self.real.to_vectors(self.real.of_vectors(vectors) @ self.inverse, result)
        return result


def block_modes(
    weights: Floats, n: float, noise_variance: float, max_bytes: float = math.inf
) -> NDArray[np.bool_] | None:
    """Return which modes to solve for at once: all of few, otherwise those that matter most; None if these are many.

    Parameters
    ----------
    weights : ndarray over modes
        Their prior variances.
    n : float
        The number of rows, in units of their precision.
    noise_variance : float
        σ².
    max_bytes : float, optional
        That the block of more than a few modes may take.
    """
    every = np.ones(weights.shape, dtype=np.bool_)
    if n_kept(every) <= MOST_AT_ONCE:
        return every
    heavy = n * weights > SHARE * noise_variance
    heavy[(0,) * heavy.ndim] = True
    return heavy if n_kept(heavy) <= MOST_AT_ONCE and Block.n_bytes(n_kept(heavy)) <= max_bytes else None


def iterations_before(kept: NDArray[np.bool_]) -> int:
    """Return after how many iterations without it the block of these modes is made: 0 of all modes."""
    as_long = n_kept(kept) ** 3 / (PAYS * n_kept(np.ones_like(kept)))
    return 0 if kept.all() else max(PATIENCE, math.ceil(as_long))


def n_kept(kept: NDArray[np.bool_]) -> int:
    """Return how many modes arrays of half of them stand for."""
    return 2 * int(kept.sum()) - int(kept[..., 0].sum())


class ModeSystem:
    """A = W^{1/2}TW^{1/2} + σ²I, T the Gram matrix of the modes.

    Parameters
    ----------
    generator : ndarray of shape half_shape(2 * counts)
        Of T.
    counts : ndarray of int of shape (d,)
    weights : ndarray over modes
        W, their prior variances.
    noise_variance : float
        σ².
    max_bytes : float, optional
        See `block_modes`.

    Attributes
    ----------
    toeplitz : Toeplitz
        T.
    """

    def __init__(
        self, generator: Complexes, counts: Indices, weights: Floats, noise_variance: float, max_bytes: float = math.inf
    ) -> None:
        self._generator, self._weights, self._noise_variance = generator, weights, noise_variance
        self.toeplitz = Toeplitz(generator, counts)
        self._kept = block_modes(weights, float(generator.flat[0].real), noise_variance, max_bytes)

    @cached_property
    def block(self) -> Block | None:
        """The modes that are solved for at once; None where they would be too many."""
        return None if self._kept is None else self._block_of(self._kept)

    @property
    def whole(self) -> Block:
        """The block of all modes.

        Raises
        ------
        NumericalError
            If the matrix is not positive definite in float64.
        """
        every = np.ones(self._weights.shape, dtype=np.bool_)
        block = self.block
        return block if block is not None and len(block.real) == n_kept(every) else self._block_of(every)

    def _block_of(self, kept: NDArray[np.bool_]) -> Block:
        largest = self.toeplitz.largest_eigenvalue
        return Block(self._generator, self._weights, self._noise_variance, kept, largest)

    def diagonal(self) -> tuple[Operator, float] | None:
        """Return the inverse of nW + σ²I, and the least eigenvalue it leaves, where it shortens iterations.

        That is where rows are about as dense everywhere. Where most of the period has none, the many directions
        without rows share the eigenvalue σ², which it would spread.
        """
        n = float(self._generator.flat[0].real)
        share = n**2 / float(mode_products(self._generator[None], self._generator[None])[0]) if n > 0.0 else 0.0
        if share <= EVEN:
            return None
        diagonal = n * self._weights + self._noise_variance
        inverse = 1.0 / diagonal
        return lambda vectors: inverse * vectors, self._noise_variance / float(diagonal.max())

    def solve(self, cross: Complexes, enough: Floats, max_iterations: int, start: Complexes | None = None) -> Solution:
        """Return A⁻¹W^{1/2} times each vector, by conjugate gradients.

        With the block, at once where it is of all modes; of more modes, where iterations without it were not enough.

        Parameters
        ----------
        cross : ndarray of shape (b, *half_shape(counts))
        enough : ndarray of shape (b,)
            See `conjugate_gradients`.
        max_iterations : int
        start : ndarray of shape (b, *half_shape(counts)), optional
        """
        roots, before = np.sqrt(self._weights), max_iterations if self._kept is None else 0

        def multiply(vectors: Complexes) -> Complexes:
            image = roots * self.toeplitz(roots * vectors)
            image += self._noise_variance * vectors
            return image

        if self._kept is not None and "block" not in vars(self):
            before = min(iterations_before(self._kept), max_iterations)
        if before:
            inverse, least = self.diagonal() or (None, self._noise_variance)
            solution = conjugate_gradients(multiply, roots * cross, least, enough, before, start, inverse)
            if before == max_iterations or np.all(solution.remaining <= enough):
                return solution
            start = solution.vectors
        block = self.block
        least = self._noise_variance if block is None else block.least_eigenvalue
        rest = conjugate_gradients(multiply, roots * cross, least, enough, max_iterations - before, start, block)
        return rest._replace(n_iterations=before + rest.n_iterations)
