"""Random Fourier features: independent, orthogonal, and structured orthogonal frequencies."""

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from lmgp.data import Floats, as_tensor, validated
from lmgp.errors import InputError
from lmgp.features.base import KernelMap, indexed
from lmgp.features.sketches import hadamard, padded_size
from lmgp.features.sparse import non_zeros
from lmgp.utils.arithmetic import Arithmetic, Written
from lmgp.utils.lazy import Tensor, torch


class FourierMap(KernelMap):
    """φ(x) = σ √(2/D) [cos(Ωx), sin(Ωx)] with D/2 frequencies, the rows of Ω, in radians per unit of each column.

    Frequencies are drawn from the spectral density of the kernel (`Kernel.sample_frequencies`), each from one direction
    that is N(0, I) by itself. Subclasses define how the directions of a block depend on each other. Pairs of a cosine
    and a sine have a lower variance than cosines with a random phase. ‖φ(x)‖² = σ² at every row.
    """

    needs = "frequencies"
    frequencies_: Floats

    def draw(self, X: Floats, rng: np.random.Generator) -> None:  # noqa: D102
        n_frequencies, n_inputs = self.n_features // 2, X.shape[1]
        if n_frequencies == 0:
            raise InputError(
                f"{type(self).__name__} makes pairs of columns: n_features must be at least 2; got {self.n_features}."
            )
        # A stream of its own, so that a larger map starts with the directions of a smaller one.
        (mixing,) = rng.spawn(1)
        # Blocks of directions are drawn whole; the last one is cut.
        blocks = [self._draw_block(n_inputs, rng)]
        while len(blocks) * len(blocks[0]) < n_frequencies:
            blocks.append(self._draw_block(n_inputs, rng))
        directions = np.concatenate(blocks)[:n_frequencies].copy()
        self.frequencies_ = self.kernel_.sample_frequencies(directions, mixing)
        self.n_features_out_ = 2 * n_frequencies

    @abstractmethod
    def _draw_block(self, n_inputs: int, rng: np.random.Generator) -> Floats:
        """Draw directions that depend on each other, shape (any, n_inputs)."""

    def operation_count(self, X: ArrayLike) -> Floats:
        """Count the floating point operations that the features of each row take.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
            D s for a row with s non-zeros: s multiplications and s additions for each of the D/2 frequencies. Cosines
            and sines are not counted.

        References
        ----------
        A. Cotter, J. Keshet and N. Srebro, *Explicit Approximations of the Gaussian Kernel*, 2011, section 4.
        """
        check_is_fitted(self)
        rows = validated(self, X, accept_sparse="csr", reset=False)
        return np.asarray(self.n_features_out_ * non_zeros(rows), dtype=np.float64)

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        return wave_names(self.n_features_out_ // 2)

    def evaluate(self, X: Tensor) -> Tensor:  # noqa: D102
        features = torch.empty((len(X), self.n_features_out_), dtype=torch.float64)
        written = self._written(X)
        written.write(slice(None), features)
        return features.mul_(written.factor)

    def _columns(self, X: Tensor, missing: bool, arithmetic: Arithmetic) -> tuple[Written, None]:
        return self._written(X.to(arithmetic.place)), None

    def _written(self, X: Tensor) -> Written:
        """Return what writes the features of rows, on the device of X and in any precision.

        Angles are made in double precision: they may be large.
        """
        frequencies = as_tensor(self.frequencies_).to(X.device).T.contiguous()
        half = len(self.frequencies_)

        def write(part: slice, features: Tensor) -> None:
            angles = torch.mm(X[part], frequencies).to(features.dtype)
            write_waves(angles, features)

        return Written(write, (self.kernel_.prior_variance() / half) ** 0.5)


def wave_names(n_frequencies: int) -> list[str]:
    """Name the cosines, then the sines."""
    return [*indexed("cos", n_frequencies), *indexed("sin", n_frequencies)]


def write_waves(angles: Tensor, features: Tensor) -> None:
    """Write the cosines of angles of shape (n, m), then their sines, into features of shape (n, 2 m)."""
    cosines, sines = features.chunk(2, dim=1)
    torch.cos(angles, out=cosines)
    torch.sin(angles, out=sines)


class RandomFourierFeatures(FourierMap):
    """Random Fourier features with independent frequencies, for stationary kernels, their sums and products.

    φ(x) = σ √(2/D) [cos(Ωx), sin(Ωx)] with D/2 frequencies from the kernel's spectral density. Unbiased; ‖φ(x)‖² = σ²
    at every row.

    Parameters
    ----------
    n_features : int, default=512
        The number of columns, at least 2; an odd number gives one less.
    kernel, random_state
        See `lmgp.features.base.KernelMap`.

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_features_out_ / 2, d)

    References
    ----------
    A. Rahimi and B. Recht, *Random Features for Large-Scale Kernel Machines*, NIPS 2007, Algorithm 1.

    Examples
    --------
    >>> from lmgp import RandomFourierFeatures
    >>> features = RandomFourierFeatures(n_features=7, random_state=0).fit_transform([[0.0, 0.0], [1.0, 0.5]])
    >>> features.shape
    (2, 6)
    """

    def _draw_block(self, n_inputs: int, rng: np.random.Generator) -> Floats:
        return rng.standard_normal((self.n_features // 2, n_inputs))


class OrthogonalFourierFeatures(FourierMap):
    """Random Fourier features whose frequencies are orthogonal in blocks of d.

    Each block is a Haar-distributed orthogonal matrix whose rows are scaled by independent χ_d norms: every row is
    N(0, I) by itself. The kernel makes a frequency from it, so the map is unbiased. For the Gaussian kernel its
    variance is lower than with independent frequencies.

    Parameters
    ----------
    n_features : int, default=512
        The number of columns, at least 2; an odd number gives one less.
    kernel, random_state
        See `lmgp.features.base.KernelMap`.

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_features_out_ / 2, d)

    References
    ----------
    F. X. Yu et al., *Orthogonal Random Features*, NIPS 2016, section 3.

    Examples
    --------
    >>> from lmgp import OrthogonalFourierFeatures
    >>> OrthogonalFourierFeatures(n_features=32, random_state=0).fit_transform([[0.0, 0.0], [1.0, 0.5]]).shape
    (2, 32)
    """

    def _draw_block(self, n_inputs: int, rng: np.random.Generator) -> Floats:
        orthogonal, triangular = np.linalg.qr(rng.standard_normal((n_inputs, n_inputs)))
        # QR alone is not Haar: the signs of the diagonal of R make it so.
        orthogonal = orthogonal * np.sign(np.diagonal(triangular))
        return orthogonal * np.sqrt(rng.chisquare(n_inputs, size=n_inputs))[:, None]


class StructuredOrthogonalFourierFeatures(FourierMap):
    """Random Fourier features with frequencies from products of Hadamard and random sign matrices.

    Each block is √d̄ · HD₁HD₂HD₃, H the normalised Walsh-Hadamard matrix of order d̄ and Dᵢ random signs.

    Parameters
    ----------
    n_features : int, default=512
        The number of columns, at least 2; an odd number gives one less.
    kernel, random_state
        See `lmgp.features.base.KernelMap`.

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_features_out_ / 2, d)

    Notes
    -----
    The map is *biased*, and more so for a smaller order: of order d̄ = 1, 2 and 4 it has 1, 2 and 12 distinct
    frequencies. Rows are therefore padded with zeros to at least 64 columns. A bias of 0.006 of the variance remains
    (root mean square over distances; 0.01 at most), and some frequencies coincide at d = 1 and 2.
    `OrthogonalFourierFeatures` has neither fault. It takes one dense d × d factorisation a block, and is the better
    choice up to several hundred input columns.

    References
    ----------
    F. X. Yu et al., *Orthogonal Random Features*, NIPS 2016, section 4.

    Examples
    --------
    >>> from lmgp import StructuredOrthogonalFourierFeatures
    >>> StructuredOrthogonalFourierFeatures(n_features=32, random_state=0).fit_transform([[0.0], [1.0]]).shape
    (2, 32)
    """

    def _draw_block(self, n_inputs: int, rng: np.random.Generator) -> Floats:
        order = max(64, padded_size(n_inputs))
        transform = hadamard(np.arange(order), order)
        signs = rng.choice([-1.0, 1.0], size=(3, order))
        # Only the first d columns meet the zero-padded rows. H is unnormalised here: 1/√d̄ a factor, √d̄ in front.
        block = transform[:, :n_inputs] * signs[2, :n_inputs]
        block = transform @ (signs[1][:, None] * block)
        return (transform @ (signs[0][:, None] * block)) / order
