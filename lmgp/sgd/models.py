"""Regression and classification by stochastic gradient descent in the space of a kernel.

Six strategies take the same steps: see `lmgp.sgd.strategies`.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_expit, softmax
from sklearn.base import ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array

from lmgp.errors import InputError
from lmgp.fitted import OfFit
from lmgp.sgd.base import KernelSGD, Targets
from lmgp.sgd.losses import LOSSES, Schedule
from lmgp.sgd.strategies import StrategyName
from lmgp.validation import RandomState

Floats = NDArray[np.float64]


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
        with a kernel keeps it. ``RandomFourierFeatures()`` if not given, for a Gaussian kernel.
    strategy : str, default="approximate_cached"
        One of "features", "features_cached", "kernel", "kernel_cached", "approximate" and "approximate_cached";
        `lmgp.sgd.strategies` says what each costs. Up to rounding, the first four end in the same function (the first
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
    >>> from lmgp.sgd.models import KernelSGDRegressor
    >>> X = np.linspace(0, 6, 200)[:, None]
    >>> model = KernelSGDRegressor(strategy="kernel", random_state=0).fit(X, np.sin(X[:, 0]))
    >>> bool(model.score(X, np.sin(X[:, 0])) > 0.99)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelSGD._parameter_constraints,
        "loss": [StrOptions({"squared"})],
    }

    center_ = OfFit[float]()

    def _targets(self, y: NDArray[Any]) -> Targets:
        # Objects and strings become numbers only here.
        numbers: Floats = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y")
        center = float(numbers.mean())
        return Targets(numbers[:, None] - center, center=center)

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
    >>> from lmgp.sgd.models import KernelSGDClassifier
    >>> X = np.random.default_rng(0).standard_normal((200, 2))
    >>> inside = (X**2).sum(axis=1) < 1.0
    >>> bool(KernelSGDClassifier(random_state=0).fit(X, inside).score(X, inside) > 0.95)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **KernelSGD._parameter_constraints,
        "loss": [StrOptions(set(LOSSES))],
    }

    classes_ = OfFit[NDArray[Any]]()

    def __init__(
        self,
        kernel: Callable[..., Any] | None = None,
        *,
        features: TransformerMixin | None = None,
        strategy: StrategyName = "approximate_cached",
        loss: Literal["hinge", "logistic", "squared"] = "hinge",
        regularization: float = 1e-4,
        step_size: float = 1.0,
        schedule: Schedule = "inverse_sqrt",
        n_steps: int | None = None,
        max_memory_gib: float = 4.0,
        random_state: RandomState = None,
    ) -> None:
        super().__init__(
            kernel,
            features=features,
            strategy=strategy,
            loss=loss,
            regularization=regularization,
            step_size=step_size,
            schedule=schedule,
            n_steps=n_steps,
            max_memory_gib=max_memory_gib,
            random_state=random_state,
        )

    def _targets(self, y: NDArray[Any]) -> Targets:
        check_classification_targets(y)
        classes, place = np.unique(y, return_inverse=True)
        if len(classes) < 2:
            raise InputError(f"y must have at least two classes; got one class: {classes[0]}.")
        positive = np.arange(len(classes)) if len(classes) > 2 else np.array([1])
        return Targets(np.where(place[:, None] == positive, 1.0, -1.0), classes=classes)

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
