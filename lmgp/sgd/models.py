"""Regression and classification by stochastic gradient descent in the space of a kernel.

Six strategies take the same steps: see `lmgp.sgd.functions`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from scipy.special import expit, log_expit, softmax
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin, clone, is_regressor
from sklearn.utils import Tags, get_tags
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted

from lmgp.data import Floats, RandomState, generator, spawn, validated, validated_pair
from lmgp.errors import InputError, NumericalError
from lmgp.kernels.base import Kernel
from lmgp.kernels.stationary import GaussianKernel
from lmgp.sgd.functions import STRATEGIES, KernelFunctions, Strategy, make_source, outputs
from lmgp.utils.fitted import Fitted, forget, unchanged_on_failure
from lmgp.utils.parallel import single_threaded

Schedule = Literal["constant", "inverse_sqrt", "pegasos"]

# ‖f‖ beyond which a run has diverged.
LARGEST_NORM = 1e100

# The derivatives ∂L/∂f of convex losses L(f, y) of predictions f. In classification, y is 1 or −1.
LOSSES: dict[str, Callable[[Floats, Floats], Floats]] = {
    "squared": lambda f, y: f - y,
    "logistic": lambda f, y: -y * expit(-y * f),
    "hinge": lambda f, y: -y * (y * f < 1.0),
}

# (t, α, λ) → αₜ: the size of step t = 1, 2, … for the step size α and the regularization λ.
SCHEDULES: dict[Schedule, Callable[[int, float, float], float]] = {
    "constant": lambda t, step_size, regularization: step_size,
    "inverse_sqrt": lambda t, step_size, regularization: step_size / t**0.5,
    "pegasos": lambda t, step_size, regularization: 1.0 / (regularization * t),
}


def row_order(n: int, n_steps: int, rng: np.random.Generator) -> Iterator[int]:
    """Yield the row of each step: all n rows again and again, each time in a fresh permutation."""
    for start in range(0, n_steps, n):
        yield from rng.permutation(n)[: n_steps - start].tolist()


@dataclass(eq=False, repr=False)
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

    kernel: Callable[..., Any] | None = None
    _: KW_ONLY
    features: TransformerMixin | None = None
    strategy: Strategy = "approximate_cached"
    loss: str = "squared"
    regularization: float = 1e-4
    step_size: float = 1.0
    schedule: Schedule = "inverse_sqrt"
    n_steps: int | None = None
    max_memory_gib: float = 4.0
    random_state: RandomState = None

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
            forget(self)
            self._fit(X, y)
        return self

    def _fit(self, X: ArrayLike, y: ArrayLike | None) -> None:
        if self.schedule == "pegasos" and self.regularization == 0.0:
            raise InputError("schedule='pegasos' takes steps 1/(regularization · t): regularization must be positive.")
        self._check_layout(X)
        if is_regressor(self):
            rows, labels = validated_pair(self, X, y, accept_sparse="csr", multi_output=False)
        else:
            rows, labels = validated(self, X, y=y, accept_sparse="csr")
        Y = self._targets(np.asarray(labels))
        self.n_steps_ = 10 * len(Y) if self.n_steps is None else int(self.n_steps)
        ordering, drawing = spawn(generator(self.random_state), 2)
        # Rows have been checked: what is called at every step need not do so again.
        with config_context(assume_finite=True), np.errstate(all="ignore"):
            kernel = GaussianKernel() if self.kernel is None else clone(self.kernel, safe=False)
            if isinstance(kernel, Kernel):
                kernel = kernel.with_indices(getattr(self, "feature_names_in_", None), rows.shape[1])
            source = make_source(self.strategy, kernel, self.features, rows, drawing)
            f = KernelFunctions(self.strategy, source, rows, Y.shape[1], self.max_memory_gib)
            self._descend(f, Y, ordering)
        weights = f.weights
        if self.strategy.startswith("kernel"):
            used = np.flatnonzero(weights.any(axis=0))
            self.kernel_ = source
            self.support_ = used if len(used) else np.arange(1)
            self.support_vectors_, self.dual_coef_ = rows[self.support_], weights[:, self.support_]
        else:
            self.features_, self.coef_ = source, weights

    def _descend(self, f: KernelFunctions, Y: Floats, rng: np.random.Generator) -> None:
        """Take the steps."""
        derivative = LOSSES[self.loss]
        radius = np.sqrt(np.mean(Y**2, axis=0) / self.regularization) if self.schedule == "pegasos" else None
        # A step is a few operations on one row: threads would wait for each other longer than they work.
        with single_threaded():
            for t, i in enumerate(row_order(len(Y), self.n_steps_, rng), start=1):
                step_size = SCHEDULES[self.schedule](t, self.step_size, self.regularization)
                slope = derivative(f.outputs(i), Y[i])
                f.step(i, 1.0 - step_size * self.regularization, -step_size * slope, radius)
                if not f.squared_norm.max() <= LARGEST_NORM**2:  # or not a number
                    raise self._failure(f, t, i)

    @property
    def rows_kept(self) -> int:
        """The number of training rows that predictions need."""
        return len(getattr(self, "support_vectors_", ()))

    def __sklearn_is_fitted__(self) -> bool:
        return "n_steps_" in vars(self)

    @abstractmethod
    def _targets(self, y: NDArray[Any]) -> Floats:
        """Learn what y consists of, and return the targets of the K functions, shape (n, K)."""

    def _check_layout(self, X: Any) -> None:
        if issparse(X) and not self._takes_sparse_rows():
            raise InputError(
                f"strategy={self.strategy!r} with features={self.features!r} takes dense rows only; got a sparse "
                "matrix. Use OneHotEncoder(sparse_output=False), X.toarray(), or strategy='approximate' with a map of "
                "sparse rows, such as TaylorFeatures(degree=2) or scikit-learn's PolynomialCountSketch()."
            )

    def _failure(self, f: KernelFunctions, t: int, i: int) -> Exception:
        if not f.is_finite():
            return InputError(f"The features or the kernel of row {i} are not all finite: scale the columns of X.")
        return NumericalError(
            f"{type(self).__name__} diverged at step {t} of {self.n_steps_}: ‖f‖ is above {LARGEST_NORM:g}. Use a "
            f"smaller step_size than {self.step_size:g} (below 1/k(x, x), for the squared loss), "
            "schedule='inverse_sqrt', or columns of X of a smaller scale."
        )

    def _outputs(self, X: ArrayLike) -> Floats:
        """Evaluate f at new rows, shape (n, K)."""
        check_is_fitted(self)
        self._check_layout(X)
        rows = validated(self, X, accept_sparse="csr", reset=False)
        if hasattr(self, "coef_"):
            return outputs(self.features_, self.coef_, rows)
        return outputs(self.kernel_, self.dual_coef_, rows, self.support_vectors_)

    def _takes_sparse_rows(self) -> bool:
        return (
            self.strategy in ("approximate", "approximate_cached")
            and self.features is not None
            and get_tags(self.features).input_tags.sparse
        )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse_rows()
        return tags


class KernelSGDRegressor(RegressorMixin, KernelSGD):
    """Kernel regression by stochastic gradient descent on the squared loss ½(f − y)², y centred by its training mean.

    Parameters
    ----------
    kernel : Kernel or callable, optional
        The strategies "kernel" take any callable (X, Z) → matrix of shape (n, m), such as scikit-learn's kernels.
        ``GaussianKernel()`` if not given.
    features : FeatureMap or scikit-learn transformer, optional
        The map of the strategies "approximate"; the others ignore it. Any transformer may serve, on sparse rows too if
        it takes them. A map of this package with ``kernel=None``, alone or inside others, gets this model's kernel; one
        with a kernel keeps it. ``RandomFourierFeatures()`` if not given, of a kernel that has frequencies.
    strategy : str, default="approximate_cached"
        One of "features", "features_cached", "kernel", "kernel_cached", "approximate" and "approximate_cached";
        `lmgp.sgd.functions` says what each costs. Up to rounding, the first four end in the same function (the first
        two need a kernel with a finite map), and so do the last two.
    loss : {"squared"}, default="squared"
    regularization : float, default=1e-4
        λ in the objective (1/n) Σ L(f(xᵢ), yᵢ) + λ/2 · ‖f‖².
    step_size : float, default=1.0
        α of the schedules "constant" and "inverse_sqrt". With the squared loss, steps beyond 2/k(x, x) diverge.
    schedule : {"constant", "inverse_sqrt", "pegasos"}, default="inverse_sqrt"
        The size αₜ of step t: α; α/√t; or 1/(λt), where each step ends with a projection to ‖f‖ ≤ √(mean y²/λ).
    n_steps : int, optional
        T; 10 n if not given.
    max_memory_gib : float, default=4.0
        The most memory that the rows of a "cached" strategy may take, and the most that the weights may take, in GiB.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seeds the order of the rows, and each ``random_state`` of the map that is None.

    Attributes
    ----------
    features_ : scikit-learn transformer
        The fitted map. Only with features; "kernel" strategies have none.
    coef_ : ndarray of shape (1, D)
        w, with f(x) = wᵀφ(x). Only with features.
    kernel_ : callable
        The kernel. Only with the strategies "kernel", as the following ones.
    support_, support_vectors_ : ndarray of shape (m,), ndarray of shape (m, d)
        The numbers and the rows of the training rows with a coefficient that is not zero.
    dual_coef_ : ndarray of shape (1, m)
        u, with f(x) = Σ uᵢ k(xᵢ, x), summed over these rows.
    center_ : float
        The mean of y.
    n_steps_ : int
        T.
    n_features_in_ : int
        The number of input columns, d.

    References
    ----------
    C. De Sa, *Kernels and Feature Extraction*, CS4787 lecture 18, Cornell University.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp.sgd import KernelSGDRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = KernelSGDRegressor(strategy="kernel", random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelSGD._parameter_constraints,
        "loss": [StrOptions({"squared"})],
    }

    def _targets(self, y: NDArray[Any]) -> Floats:
        # Objects and strings become numbers only here.
        numbers: Floats = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        self.center_ = float(numbers.mean())
        return numbers[:, None] - self.center_

    def predict(self, X: ArrayLike) -> Floats:
        """Predict at new rows.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
            In units of y.
        """
        return self._outputs(X)[:, 0] + self.center_


@dataclass(eq=False, repr=False)
class KernelSGDClassifier(ClassifierMixin, KernelSGD):
    """Kernel classification by stochastic gradient descent, one class against the rest.

    For more than two classes, each class has a function of its own, whose targets are 1 for this class and −1 for all
    others. All functions take their steps on the same rows.

    Parameters
    ----------
    loss : {"hinge", "logistic", "squared"}, default="hinge"
        max(0, 1 − yf), log(1 + exp(−yf)) or ½(f − y)², of y = ±1.
    kernel, features, strategy, regularization, step_size, schedule, n_steps, max_memory_gib, random_state
        See `KernelSGDRegressor`. The projection of "pegasos" is to ‖f‖ ≤ 1/√λ.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    features_, coef_, kernel_, support_, support_vectors_, dual_coef_, n_steps_, n_features_in_
        See `KernelSGDRegressor`; ``coef_`` and ``dual_coef_`` have one row for two classes, one a class for more.

    References
    ----------
    C. De Sa, *Kernels and Feature Extraction*, CS4787 lecture 18, Cornell University.
    S. Shalev-Shwartz, Y. Singer, N. Srebro and A. Cotter, *Pegasos: Primal Estimated sub-GrAdient SOlver for SVM*,
    Mathematical Programming, 2011: the schedule and the projection.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp.sgd import KernelSGDClassifier
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> inside = (X**2).sum(axis=1) < 1.0
    >>> bool(KernelSGDClassifier(random_state=0).fit(X, inside).score(X, inside) > 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelSGD._parameter_constraints,
        "loss": [StrOptions(set(LOSSES))],
    }

    _: KW_ONLY
    loss: Literal["hinge", "logistic", "squared"] = "hinge"

    def _targets(self, y: NDArray[Any]) -> Floats:
        check_classification_targets(y)
        self.classes_, place = np.unique(y, return_inverse=True)
        n_classes = len(self.classes_)
        if n_classes < 2:
            raise InputError(f"y must have at least two classes; got one class: {self.classes_[0]}.")
        positive = np.arange(n_classes) if n_classes > 2 else np.array([1])
        return np.where(place[:, None] == positive, 1.0, -1.0)

    def decision_function(self, X: ArrayLike) -> Floats:
        """Evaluate f at new rows.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,) or (n, n_classes)
            For two classes, positive where the second is predicted.
        """
        decision = self._outputs(X)
        return decision[:, 0] if len(self.classes_) == 2 else decision

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the class of new rows.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n,)
        """
        decision = self.decision_function(X)
        return self.classes_[(decision > 0).astype(np.intp) if decision.ndim == 1 else decision.argmax(axis=1)]

    @available_if(lambda model: model.loss == "logistic")
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Predict the probabilities of the classes; with the logistic loss only.

        Parameters
        ----------
        X : array-like of shape (n, d)

        Returns
        -------
        ndarray of shape (n, n_classes)
            1/(1 + exp(−f)); with more than two classes divided by their sum.
        """
        decision = self.decision_function(X)
        of_each = np.stack((-decision, decision), axis=1) if decision.ndim == 1 else decision
        return softmax(log_expit(of_each), axis=1)
