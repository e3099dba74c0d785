"""The quadratic approximation of fitted RBF models."""

import math
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lmgp.fitted import OfFit
from lmgp.memory import chunks
from lmgp.rbf.approximation import ApproximateRBF, ApproximationFit, template
from lmgp.rbf.expansion import RBFExpansion
from lmgp.rbf.validity import resolve_center

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class QuadraticFit(ApproximationFit):
    """What `QuadraticRBF` learns; see its attributes."""

    c: Floats
    v: Floats
    M: Floats
    expansion_point: Floats

    @property
    def row_size(self) -> int:  # noqa: D102
        return self.n_features_in + len(self.intercept)

    @property
    def arrays(self) -> tuple[Floats, ...]:  # noqa: D102
        return self.c, self.v, self.M, self.expansion_point

    def evaluate(self, rows: Floats) -> tuple[Floats, Floats]:  # noqa: D102
        shifted = rows - self.expansion_point
        squares = np.square(shifted * self.scale).sum(axis=1)
        # Damped before they are squared: far from the centre the quadratic form alone overflows.
        root = np.exp(-squares / 4.0)[:, None]
        shifted *= root
        outputs = root * (root * self.c + shifted @ self.v.T)
        for output, matrix in zip(outputs.T, self.M, strict=True):
            output += np.einsum("ij,ij->i", shifted @ matrix, shifted)
        return outputs, np.sqrt(squares)


class QuadraticRBF(ApproximateRBF):
    """The quadratic approximation f(z) ≈ e^{−γ‖z‖²}(c + vᵀz + zᵀMz) + b of a fitted RBF model.

    Here z is the difference to the point of expansion. A prediction takes O(d²) operations for each output, whatever
    the number of support vectors; none of them is kept.

    Parameters
    ----------
    estimator : estimator, optional
        What `fit` clones, fits and approximates: SVC, NuSVC, SVR, NuSVR, OneClassSVM, KernelRidge,
        GaussianProcessRegressor or `lmgp.ExactGPRegressor` with a Gaussian kernel. The fitted clone is not kept. For a
        model that is fitted, or a file, there is `from_estimator`.
    center : {"origin", "mean"} or array-like of shape (d,), default="origin"
        What to expand around: the origin as in the paper, the mean of the support vectors, or a point, such as the mean
        of all training rows. The bound holds for more rows if this point lies amid the data.

    Attributes
    ----------
    c_ : ndarray of shape (n_outputs,)
        Σᵢ wᵢ with wᵢ = αᵢ e^{−γ‖xᵢ‖²}.
    v_ : ndarray of shape (n_outputs, d)
        2γ Σᵢ wᵢ xᵢ.
    M_ : ndarray of shape (n_outputs, d, d)
        2γ² Σᵢ wᵢ xᵢxᵢᵀ: half the Hessian at the point of expansion, without the factor e^{−γ‖z‖²}.
    expansion_point_ : ndarray of shape (d,)
        The point that `center` stands for.
    gamma_ : ndarray of shape () or (d,)
    intercept_ : ndarray of shape (n_outputs,)
        b.
    radius_ : float
        In lengthscales 1/√(2γ). Rows at most this far from the point of expansion are within the bound
        ‖x_M‖‖z‖ ≤ 1/(4γ), where x_M is the support vector farthest from it. There every term of the sum errs by less
        than 3.05%.
    classes_ : ndarray of shape (n_classes,)
        Of classifiers.
    n_features_in_ : int
        The number of input columns, d.
    sizes : Sizes
        Numbers kept before and after.

    Notes
    -----
    The bound is on each term, not on their sum. Where large terms of both signs cancel, the relative error of the sum
    can be larger, and labels near a decision boundary can change. The bound is a worst case: beyond it there is no
    guarantee, but the approximation is often as good.

    References
    ----------
    M. Claesen, F. De Smet, J. A. K. Suykens and B. De Moor, *Fast Prediction with SVM Models Containing RBF Kernels*,
    2014, eq. 3.7, 3.8 and 3.11.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from lmgp.rbf.quadratic import QuadraticRBF
    >>> from lmgp.rbf.validity import gamma_max
    >>> X = np.random.default_rng(0).uniform(-1, 1, size=(500, 3))
    >>> y = X[:, 0] ** 2 + X[:, 1] > 0
    >>> fast = QuadraticRBF(SVC(gamma=gamma_max(X), C=100)).fit(X, y)
    >>> fast.score(X, y) > 0.95, fast.sizes.ratio > 10
    (True, True)

    Of a model that is fitted:

    >>> model = SVC(gamma=gamma_max(X), C=100).fit(X, y)
    >>> labels, valid = QuadraticRBF.from_estimator(model).predict(X, return_valid=True)
    >>> bool(valid.all()), bool(np.mean(labels != model.predict(X)) < 0.01)
    (True, True)
    """

    c_ = OfFit[Floats]()
    v_ = OfFit[Floats]()
    M_ = OfFit[Floats]()
    expansion_point_ = OfFit[Floats]()

    def __init__(self, estimator: Any = None, *, center: str | ArrayLike = "origin") -> None:
        self.estimator = estimator
        self.center = center

    @classmethod
    def from_estimator(cls, model: Any, *, center: str | ArrayLike = "origin") -> Self:
        """Approximate a fitted model.

        Parameters
        ----------
        model
            See `lmgp.rbf.estimators.rbf_expansion`.
        center
            See the class.

        Returns
        -------
        QuadraticRBF
            Its `estimator` is a clone of the model, without what it has learned; None of a file or an expansion.

        Raises
        ------
        InputError
            If the model is not supported, or the center does not fit it.
        """
        return cls(template(model), center=center)._approximate(model)

    def _expand(self, expansion: RBFExpansion, taken_over: dict[str, Any]) -> QuadraticFit:
        n_sv, n_inputs = expansion.vectors.shape
        n_outputs = len(expansion.intercept)
        point = resolve_center(self.center, expansion.vectors)
        c, v, M = np.zeros(n_outputs), np.zeros((n_outputs, n_inputs)), np.zeros((n_outputs, n_inputs, n_inputs))
        slope, farthest = 2.0 * np.asarray(expansion.gamma), 0.0
        for part in chunks(n_sv, n_inputs):
            shifted = expansion.vectors[part] - point
            squares = np.square(shifted * expansion.scale).sum(axis=1)
            farthest = max(farthest, float(squares.max()) ** 0.5)
            weights = expansion.coefficients[part] * np.exp(-squares / 2.0)[:, None]
            shifted *= slope
            c += weights.sum(axis=0)
            v += weights.T @ shifted
            for matrix, weight in zip(M, weights.T, strict=True):
                matrix += (0.5 * weight * shifted.T) @ shifted
        return QuadraticFit(
            **taken_over,
            radius=0.5 / farthest if farthest else math.inf,
            error="each term of the sum errs by less than 3.05%",
            advice="Expand around the data (center), train with gamma at most gamma_max(X, center=...), or use "
            "TaylorRBF with a higher degree or a threshold.",
            c=c,
            v=v,
            M=M,
            expansion_point=point,
        )
