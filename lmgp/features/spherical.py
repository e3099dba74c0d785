"""Spherical random Fourier features: polynomial kernels for rows of unit norm."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.stats import ortho_group
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from lmgp.errors import InputError
from lmgp.features.base import FeatureMap, MapFit
from lmgp.features.names import indexed
from lmgp.features.radial import RadialFit, fit_radial
from lmgp.features.sparse import non_zeros
from lmgp.fitted import OfFit
from lmgp.validation import RandomState, as_tensor, validated

Floats = NDArray[np.float64]

# The largest distance of the norm of a row from 1.
UNIT = 1e-6


@dataclass(frozen=True, eq=False, kw_only=True)
class SphericalFit(MapFit):
    """What `SphericalFourierFeatures` learns; see its attributes."""

    frequencies: Floats
    radial: RadialFit


class SphericalFourierFeatures(FeatureMap):
    """Random Fourier features for the polynomial kernel (1 − ‖x − z‖²/a²)ᵖ of rows of unit norm.

    φ(x) = √(2K̂(0)/D) [cos(Wx), sin(Wx)], where the rows of W are D/2 frequencies. Their directions are uniform; their
    norms are drawn from a density that is fitted to the kernel (`lmgp.features.radial`). The map is unbiased for the
    kernel K̂ of that density, which approximates the polynomial one, and ‖φ(x)‖² = K̂(0) at every row.

    Parameters
    ----------
    n_features : int, default=512
        The number of columns, at least 2; an odd number gives one less.
    degree : int, default=3
        p, at least 1.
    a : float, default=4.0
        At least 2. In scikit-learn's terms the kernel is (gamma xᵀz + coef0)ᵖ with gamma = 2/a², coef0 = 1 − 2/a².
    n_gaussians : int, default=10
        The number of terms of the radial density.
    orthogonal : bool, default=False
        Whether the directions are orthogonal in blocks of d, which lowers the variance.
    normalize : bool, default=False
        Whether to divide rows by their norms. Otherwise a row whose norm is not 1 is refused.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of what is drawn.

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_features_out_ / 2, d)
    radial_ : RadialFit
        The density of the frequencies' norms, ``radial_.density(w)``, and its kernel, ``radial_.kernel(z)``.
    n_features_out_ : int
        The number of columns made.
    n_features_in_ : int
        The number of input columns, d.

    Notes
    -----
    The first fit for given `degree`, `a`, d and `n_gaussians` takes about a second; it is kept on disk
    (`lmgp.features.radial.fit_radial`). The difference between K̂ and K does not depend on `n_features`. It is largest
    for low degrees and small `a`; ``radial_.loss`` is its size.

    This differs from the paper's Algorithm 1 in two ways: pairs of a cosine and a sine replace cosines with a random
    phase, whose variance is higher; and the columns are scaled by K̂(0), which is not exactly 1.

    References
    ----------
    J. Pennington, F. X. Yu and S. Kumar, *Spherical Random Features for Polynomial Kernels*, NIPS 2015, Algorithm 1.

    F. X. Yu et al., *Orthogonal Random Features*, NIPS 2016, section 3.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from lmgp.features.spherical import SphericalFourierFeatures
    >>> X = normalize(load_digits().data[:200])
    >>> features = SphericalFourierFeatures(n_features=4096, degree=10, random_state=0).fit(X)
    >>> columns = features.transform(X)
    >>> bool(abs(columns @ columns.T - features.exact_kernel(X)).mean() < 0.01)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_features": [Interval(Integral, 2, None, closed="left")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "a": [Interval(Real, 2, None, closed="left")],
        "n_gaussians": [Interval(Integral, 1, None, closed="left")],
        "orthogonal": ["boolean"],
        "normalize": ["boolean"],
        "random_state": ["random_state", np.random.Generator],
    }

    frequencies_ = OfFit[Floats]()
    radial_ = OfFit[RadialFit]()

    def __init__(
        self,
        n_features: int = 512,
        degree: int = 3,
        a: float = 4.0,
        n_gaussians: int = 10,
        *,
        orthogonal: bool = False,
        normalize: bool = False,
        random_state: RandomState = None,
    ) -> None:
        self.n_features = n_features
        self.degree = degree
        self.a = a
        self.n_gaussians = n_gaussians
        self.orthogonal = orthogonal
        self.normalize = normalize
        self.random_state = random_state

    def draw(self, X: Floats, rng: np.random.Generator) -> SphericalFit:  # noqa: D102
        n_inputs = self._of_unit_norm(X).shape[1]
        radial = fit_radial(self.degree, self.a, n_inputs, self.n_gaussians)
        n_frequencies = self.n_features // 2
        if self.orthogonal:
            n_blocks = -(-n_frequencies // n_inputs)
            blocks = [ortho_group.rvs(n_inputs, random_state=rng) for _ in range(n_blocks)]
            directions = np.concatenate(blocks)[:n_frequencies]
        else:
            directions = rng.standard_normal((n_frequencies, n_inputs))
            directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        frequencies = directions * radial.sample(n_frequencies, rng)[:, None]
        return SphericalFit(n_features_out=2 * n_frequencies, frequencies=frequencies, radial=radial)

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        half = self.n_features_out_ // 2
        return [*indexed("cos", half), *indexed("sin", half)]

    def evaluate(self, X: torch.Tensor) -> torch.Tensor:
        """Map a tensor of finite rows, shape (n, d), to features of shape (n, n_features_out_).

        Raises
        ------
        InputError
            If a row has not the unit norm, or is zero where rows are to be normalised.
        """
        fit: SphericalFit = self._fitted
        angles = as_tensor(self._of_unit_norm(X.numpy())) @ as_tensor(fit.frequencies).T
        half = len(fit.frequencies)
        features = torch.empty((len(angles), 2 * half), dtype=torch.float64)
        torch.cos(angles, out=features[:, :half])
        torch.sin(angles, out=features[:, half:])
        return features.mul_((fit.radial.value / half) ** 0.5)

    def operation_count(self, X: ArrayLike) -> Floats:
        """Count the floating point operations that the features of each row take.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows of unit norm, unless `normalize`.

        Returns
        -------
        ndarray of shape (n,)
            D s for a row with s non-zeros, as for `RandomFourierFeatures`.
        """
        check_is_fitted(self)
        return np.asarray(self.n_features_out_ * non_zeros(self._checked(X, "X")), dtype=np.float64)

    def exact_kernel(self, X: ArrayLike, Z: ArrayLike | None = None) -> Floats:
        """Evaluate the polynomial kernel (1 − ‖x − z‖²/a²)ᵖ between all rows of X and all rows of Z.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows of unit norm, unless `normalize`.
        Z : array-like of shape (m, d), optional
            X itself if not given.

        Returns
        -------
        ndarray of shape (n, m)

        Raises
        ------
        InputError
            As `evaluate`.
        """
        check_is_fitted(self)
        left = self._checked(X, "X")
        right = left if Z is None else self._checked(Z, "Z")
        gamma = 2.0 / self.radial_.a**2
        return polynomial_kernel(left, right, degree=self.radial_.degree, gamma=gamma, coef0=1.0 - gamma)

    def _checked(self, X: ArrayLike, name: str) -> Floats:
        return self._of_unit_norm(validated(self, X, reset=False), name)

    def _of_unit_norm(self, rows: Floats, name: str = "X") -> Floats:
        """Bring rows to unit norm, or check that they have it."""
        if self.normalize:
            # By the largest entry first, so that no square overflows or vanishes.
            largest = np.abs(rows).max(axis=1, keepdims=True)
            if not largest.all():
                raise InputError(
                    f"Row {int(np.argmin(largest))} of {name} is zero and cannot be brought to unit norm: leave it out."
                )
            scaled = rows / largest
            return scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
        norms = np.linalg.norm(rows, axis=1)
        wrong = np.abs(norms - 1.0) > UNIT
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InputError(
                f"{type(self).__name__} needs rows of unit norm; row {at} of {name} has norm {norms[at]:.6g}. Use "
                "sklearn.preprocessing.normalize, or normalize=True."
            )
        return rows
