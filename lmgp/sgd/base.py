"""What regression and classification by stochastic gradient descent share: parameters, steps and fitted state."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn import config_context
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_regressor
from sklearn.utils import Tags, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from lmgp.errors import InputError, NumericalError
from lmgp.fitted import Fitted, OfFit, unchanged_on_failure
from lmgp.kernels.stationary import GaussianKernel
from lmgp.parallel import single_threaded
from lmgp.sgd.functions import Expansion, Primal, expand, outputs
from lmgp.sgd.losses import LOSSES, SCHEDULES, Schedule, row_order
from lmgp.sgd.strategies import STRATEGIES, StrategyName, make_source
from lmgp.validation import RandomState, generator, spawn, validated, validated_pair

Floats = NDArray[np.float64]

# ‖f‖ beyond which a run has diverged.
LARGEST_NORM = 1e100


@dataclass(frozen=True, eq=False)
class Targets:
    """What the functions are fitted to.

    Attributes
    ----------
    values : ndarray of shape (n, K)
    center : float
        The mean of y, of a regressor.
    classes : ndarray of shape (n_classes,) or None
        Of a classifier.
    """

    values: Floats
    center: float = 0.0
    classes: NDArray[Any] | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class SGDFit:
    """What a model learns in `fit`; see its attributes."""

    n_steps: int
    center: float
    classes: NDArray[Any] | None


@dataclass(frozen=True, eq=False, kw_only=True)
class PrimalFit(SGDFit):
    """What a model of weights learns."""

    features: Any
    coef: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class DualFit(SGDFit):
    """What a model of rows of the kernel learns."""

    kernel: Any
    support: NDArray[np.intp]
    support_vectors: Floats
    dual_coef: Floats

    @property
    def rows_kept(self) -> int:
        """The number of training rows."""
        return len(self.support_vectors)


def _record(f: Expansion, source: Any, X: Any, targets: Targets, n_steps: int) -> SGDFit:
    common: dict[str, Any] = {"n_steps": n_steps, "center": targets.center, "classes": targets.classes}
    duals = f.weights
    if isinstance(f, Primal):
        return PrimalFit(**common, features=source, coef=duals)
    used = np.flatnonzero(duals.any(axis=0))
    support = used if len(used) else np.arange(1)
    return DualFit(**common, kernel=source, support=support, support_vectors=X[support], dual_coef=duals[:, support])


class KernelSGD(Fitted, BaseEstimator, ABC):
    """Minimises (1/n) Σ L(f(xᵢ), yᵢ) + regularization/2 · ‖f‖² by steps on one training row each.

    It begins with f = 0. Step t takes row i of a random order and sets f ← (1 − αₜλ) f − αₜ L′(f(xᵢ), yᵢ) φ(xᵢ). The
    order is one permutation of all rows after another; it depends on `random_state` alone.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "kernel": [callable, None],
        "features": [HasMethods(["fit", "transform"]), None],
        "strategy": [StrOptions(set(STRATEGIES))],
        "regularization": [Interval(Real, 0, None, closed="left")],
        "step_size": [Interval(Real, 0, None, closed="neither")],
        "schedule": [StrOptions(set(SCHEDULES))],
        "n_steps": [Interval(Integral, 1, None, closed="left"), None],
        "max_memory_gib": [Interval(Real, 0, None, closed="neither")],
        "random_state": ["random_state", np.random.Generator],
    }

    n_steps_ = OfFit[int]()
    features_ = OfFit[Any]()
    coef_ = OfFit[Floats]()
    kernel_ = OfFit[Any]()
    support_ = OfFit[NDArray[np.intp]]()
    support_vectors_ = OfFit[Floats]()
    dual_coef_ = OfFit[Floats]()

    def __init__(
        self,
        kernel: Callable[..., Any] | None = None,
        *,
        features: TransformerMixin | None = None,
        strategy: StrategyName = "approximate_cached",
        loss: str = "squared",
        regularization: float = 1e-4,
        step_size: float = 1.0,
        schedule: Schedule = "inverse_sqrt",
        n_steps: int | None = None,
        max_memory_gib: float = 4.0,
        random_state: RandomState = None,
    ) -> None:
        self.kernel = kernel
        self.features = features
        self.strategy = strategy
        self.loss = loss
        self.regularization = regularization
        self.step_size = step_size
        self.schedule = schedule
        self.n_steps = n_steps
        self.max_memory_gib = max_memory_gib
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Run the steps.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Or a sparse matrix, for the strategies "approximate" with a map that takes one.
        y : array-like of shape (n,)
            Not optional.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If X or y is not finite and numeric (a classifier's y may be any labels), their lengths differ, or a
            parameter is out of its range. `lmgp.errors.InputError`, which is one, if the strategy cannot use the kernel
            or the map, or y has only one class.
        MemoryLimitError
            If what the strategy stores, or the weights, take more than `max_memory_gib`.
        NumericalError
            If the steps diverge.
        """
        self._validate_params()
        with unchanged_on_failure(self):
            self._fitted = self._fit(X, y)
        return self

    def _fit(self, X: ArrayLike, y: ArrayLike | None) -> SGDFit:
        if self.schedule == "pegasos" and self.regularization == 0.0:
            raise InputError("schedule='pegasos' takes steps 1/(regularization · t): regularization must be positive.")
        self._check_layout(X)
        if is_regressor(self):
            rows, labels = validated_pair(self, X, y, accept_sparse="csr")
        else:
            rows, labels = validated(self, X, y=y, accept_sparse="csr")
        targets = self._targets(np.asarray(labels))
        n_steps = 10 * len(labels) if self.n_steps is None else int(self.n_steps)
        # Rows have been checked: what is called at every step need not do so again.
        with config_context(assume_finite=True), np.errstate(all="ignore"):
            return self._descend(rows, targets, n_steps, *spawn(generator(self.random_state), 2))

    def _descend(
        self, X: Any, targets: Targets, n_steps: int, ordering: np.random.Generator, drawing: np.random.Generator
    ) -> SGDFit:
        Y, strategy = targets.values, STRATEGIES[self.strategy]
        kernel = GaussianKernel() if self.kernel is None else clone(self.kernel, safe=False)
        source = make_source(strategy, kernel, self.features, X, drawing)
        f = expand(strategy, source, X, Y.shape[1], self.max_memory_gib)
        derivative = LOSSES[self.loss].derivative
        radius = np.sqrt(np.mean(Y**2, axis=0) / self.regularization) if self.schedule == "pegasos" else None
        # A step is a few operations on one row: threads would wait for each other longer than they work.
        with single_threaded():
            for t, i in enumerate(row_order(len(Y), n_steps, ordering), start=1):
                step_size = SCHEDULES[self.schedule](t, self.step_size, self.regularization)
                slope = derivative(f.outputs(i), Y[i])
                f.step(i, 1.0 - step_size * self.regularization, -step_size * slope, radius)
                if not f.squared_norm.max() <= LARGEST_NORM**2:  # or not a number
                    raise self._failure(f, t, n_steps, i)
        return _record(f, source, X, targets, n_steps)

    @abstractmethod
    def _targets(self, y: NDArray[Any]) -> Targets:
        """Return the targets of the K functions."""

    def _check_layout(self, X: Any) -> None:
        if issparse(X) and not self._takes_sparse_rows():
            raise InputError(
                f"strategy={self.strategy!r} with features={self.features!r} takes dense rows only; got a sparse "
                "matrix. Use OneHotEncoder(sparse_output=False), X.toarray(), or strategy='approximate' with a map of "
                "sparse rows, such as TaylorFeatures(degree=2) or scikit-learn's PolynomialCountSketch()."
            )

    def _failure(self, f: Expansion, t: int, n_steps: int, i: int) -> Exception:
        if not f.is_finite():
            return InputError(f"The features or the kernel of row {i} are not all finite: scale the columns of X.")
        return NumericalError(
            f"{type(self).__name__} diverged at step {t} of {n_steps}: ‖f‖ is above {LARGEST_NORM:g}. Use a smaller "
            f"step_size than {self.step_size:g} (below 1/k(x, x), for the squared loss), schedule='inverse_sqrt', or "
            "columns of X of a smaller scale."
        )

    def _outputs(self, X: ArrayLike) -> Floats:
        """Evaluate f at new rows, shape (n, K)."""
        check_is_fitted(self)
        self._check_layout(X)
        rows = validated(self, X, accept_sparse="csr", reset=False)
        fit = self._fitted
        if isinstance(fit, PrimalFit):
            return outputs(fit.features, fit.coef, rows)
        return outputs(fit.kernel, fit.dual_coef, rows, fit.support_vectors)

    def _takes_sparse_rows(self) -> bool:
        return (
            self.strategy in STRATEGIES  # scikit-learn asks before parameters are checked
            and not STRATEGIES[self.strategy].exact
            and self.features is not None
            and get_tags(self.features).input_tags.sparse
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse_rows()
        return tags
