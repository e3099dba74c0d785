"""The Gaussian kernel."""

from collections.abc import Callable
from numbers import Real
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist
from sklearn.utils.validation import check_array

from lmgp.errors import InputError
from lmgp.kernels.base import Kernel, same_columns


class GaussianKernel(Kernel):
    """The Gaussian kernel k(x, z) = variance · exp(−½ Σⱼ (xⱼ − zⱼ)²/lengthscaleⱼ²).

    Parameters
    ----------
    lengthscale : float or array-like of shape (d,), default=1.0
        In the units of the inputs: one for all columns (isotropic), or one a column.
    variance : float, default=1.0
        The prior variance k(x, x), in squared units of the target.

    Notes
    -----
    The constructor stores what it is given; values are checked where the kernel is used. The kernel is a scikit-learn
    parameter object: it clones, and a grid search reaches ``kernel__lengthscale``.

    References
    ----------
    C. E. Rasmussen and C. K. I. Williams, *Gaussian Processes for Machine Learning*, MIT Press, 2006, eq. 4.9.

    Examples
    --------
    >>> from lmgp import GaussianKernel
    >>> kernel = GaussianKernel(lengthscale=[1.0, 2.0], variance=3.0)
    >>> kernel([[0.0, 0.0]], [[1.0, 2.0], [0.0, 0.0]]).round(3)
    array([[1.104, 3.   ]])
    """

    def __init__(self, lengthscale: float | ArrayLike = 1.0, variance: float = 1.0) -> None:
        self.lengthscale = lengthscale
        self.variance = variance

    def sections(self, Z: ArrayLike) -> Callable[[ArrayLike], NDArray[np.float64]]:  # noqa: D102
        scaled = self.scale(Z)

        def section(X: ArrayLike) -> NDArray[np.float64]:
            # Differences, not inner products: far from the origin the latter lose the distances between close rows.
            values: NDArray[np.float64] = cdist(same_columns(self.scale(X), scaled), scaled, "sqeuclidean")
            values *= -0.5
            np.exp(values, out=values)
            values *= self.variance
            return values

        return section

    def diagonal(self, X: ArrayLike) -> NDArray[np.float64]:
        """Evaluate k(x, x) for each row: the variance.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        return np.full(len(self.scale(X)), float(self.variance))

    def scale(self, X: ArrayLike) -> NDArray[np.float64]:
        """Divide each column by its lengthscale: the kernel then has lengthscale 1.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, d)
            A new array.
        """
        rows: NDArray[np.float64] = check_array(X, dtype=np.float64)
        return rows / np.asarray(self.checked(rows.shape[1]).lengthscale, dtype=np.float64)

    def checked(self, n_inputs: int) -> Self:
        """Return the kernel itself, after checking that it fits rows with `n_inputs` columns.

        Raises
        ------
        InputError
            If the lengthscale or the variance is not positive, or the lengthscale has not one value a column.
        """
        variance = self.variance
        try:
            lengthscale = np.asarray(self.lengthscale)
        except ValueError:  # lists of different lengths
            lengthscale = np.asarray(None)
        if lengthscale.dtype.kind not in "iuf" or not isinstance(variance, Real):
            raise InputError(f"GaussianKernel needs numbers for lengthscale and variance; got {self!r}.")
        if lengthscale.ndim > 1 or (lengthscale.ndim == 1 and len(lengthscale) != n_inputs):
            raise InputError(
                f"lengthscale must be one number or one a column, shape ({n_inputs},) for these rows; "
                f"got shape {lengthscale.shape}."
            )
        if not (np.all(np.isfinite(lengthscale)) and np.all(lengthscale > 0)):
            raise InputError(f"lengthscale must be positive and finite; got {self.lengthscale!r}.")
        if not (np.isfinite(variance) and variance > 0):
            raise InputError(f"variance must be positive and finite; got {self.variance!r}.")
        return self
