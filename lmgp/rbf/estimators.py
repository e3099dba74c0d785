"""Which numbers of a fitted estimator are its kernel expansion."""

from collections.abc import Callable
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Product, Sum, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from sklearn.utils.validation import check_is_fitted

from lmgp.errors import InputError
from lmgp.models.exact import ExactGPRegressor
from lmgp.rbf.expansion import RBFExpansion
from lmgp.rbf.libsvm import read_libsvm
from lmgp.rbf.readouts import Classification, OneClass, Readout, Regression, one_vs_one

Floats = NDArray[np.float64]
SUPPORTED = (
    "SVC, NuSVC, SVR, NuSVR, OneClassSVM and KernelRidge with kernel='rbf'; GaussianProcessRegressor with an RBF "
    "kernel (times a constant, plus white noise); ExactGPRegressor; RBFExpansion; the path of a LIBSVM model file"
)


def rbf_expansion(model: Any) -> RBFExpansion:
    """Read the kernel expansion out of a fitted model.

    Parameters
    ----------
    model : fitted estimator, RBFExpansion, str or path-like
        SVC, NuSVC, SVR, NuSVR, OneClassSVM, KernelRidge, GaussianProcessRegressor, `lmgp.ExactGPRegressor`, or the path
        of a LIBSVM model file (`lmgp.rbf.libsvm.read_libsvm`). An `RBFExpansion` is returned as it is.

    Returns
    -------
    RBFExpansion
        Predicts the same as the model, up to rounding. Sparse support vectors are made dense.

    Raises
    ------
    InputError
        If the model is of another kind, has another kernel, is not fitted, or has no support vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from lmgp.rbf.estimators import rbf_expansion
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> model = SVC().fit(X, X[:, 0] * X[:, 1] > 0)
    >>> expansion = rbf_expansion(model)
    >>> bool(np.allclose(expansion.decision_function(X), model.decision_function(X)))
    True
    """
    if isinstance(model, RBFExpansion):
        return model
    if isinstance(model, str | PathLike):
        return read_libsvm(model)
    if isinstance(model, Pipeline):
        raise InputError("Give the last step of a Pipeline, model[-1], and rows as that step sees them, model[:-1].")
    for kinds, extract in EXTRACTORS.items():
        if isinstance(model, kinds):
            # scikit-learn's Gaussian process counts as fitted from the start: it predicts from its prior.
            fitted = None if kinds != (GaussianProcessRegressor,) else ["X_train_"]
            try:
                check_is_fitted(model, fitted)
            except NotFittedError as error:
                raise InputError(f"{type(model).__name__} is not fitted: fit it first.") from error
            return extract(model)
    if hasattr(model, "best_estimator_"):
        raise InputError(f"Give the model that {type(model).__name__} has found: its best_estimator_.")
    raise InputError(f"No kernel expansion is known of {type(model).__name__}. Supported: {SUPPORTED}.")


def _dense(array: Any) -> Floats:
    return np.asarray(array.toarray() if issparse(array) else array, dtype=np.float64)


def _check_rbf(model: Any) -> None:
    if model.kernel != "rbf":
        raise InputError(f"{type(model).__name__} has kernel={model.kernel!r}. Supported: {SUPPORTED}.")


def _support_vectors(model: Any) -> Floats:
    _check_rbf(model)
    vectors = _dense(model.support_vectors_)
    if not len(vectors):
        raise InputError(f"{type(model).__name__} has no support vectors: it predicts the constant {model.intercept_}.")
    return vectors


def _from_classifier(model: Any) -> RBFExpansion:
    if model.break_ties and model.decision_function_shape == "ovo":
        raise InputError("break_ties must be False where decision_function_shape is 'ovo'; the model cannot predict.")
    vectors, dual, intercept = _support_vectors(model), _dense(model.dual_coef_), model.intercept_
    if len(model.classes_) == 2:  # scikit-learn turns the signs that LIBSVM has
        dual, intercept = -dual, -intercept
    readout = Classification(model.classes_, model.decision_function_shape, model.break_ties)
    return RBFExpansion(vectors, one_vs_one(dual, model.n_support_), intercept, model._gamma, readout)


def _from_one_output(model: Any) -> RBFExpansion:
    readout: Readout = OneClass() if isinstance(model, OneClassSVM) else Regression()
    return RBFExpansion(_support_vectors(model), _dense(model.dual_coef_).T, model.intercept_, model._gamma, readout)


def _from_kernel_ridge(model: Any) -> RBFExpansion:
    _check_rbf(model)
    vectors = _dense(model.X_fit_)
    weights = model.dual_coef_.reshape(len(vectors), -1)
    gamma = 1.0 / vectors.shape[1] if model.gamma is None else model.gamma
    return RBFExpansion(vectors, weights, np.zeros(weights.shape[1]), gamma, Regression(model.dual_coef_.ndim == 1))


def _from_sklearn_gp(model: Any) -> RBFExpansion:
    variance, lengthscale = _gaussian(model.kernel_)
    weights = model.alpha_.reshape(len(model.X_train_), -1) * (variance * model._y_train_std)
    intercept = np.zeros(weights.shape[1]) + model._y_train_mean
    gamma = 0.5 / np.square(lengthscale)
    return RBFExpansion(model.X_train_, weights, intercept, gamma, Regression(weights.shape[1] == 1))


def _gaussian(kernel: Kernel) -> tuple[float, float | Floats]:
    """Return the variance and the lengthscale of a Gaussian kernel plus, maybe, white noise."""
    match kernel:
        case RBF() if type(kernel) is RBF:  # a Matern kernel is one of its subclasses
            return 1.0, kernel.length_scale
        case Product(k1=ConstantKernel() as constant, k2=other) | Product(k1=other, k2=ConstantKernel() as constant):
            variance, lengthscale = _gaussian(other)
            return constant.constant_value * variance, lengthscale
        case Sum(k1=signal, k2=noise) if _is_white(noise):
            return _gaussian(signal)
        case Sum(k1=noise, k2=signal) if _is_white(noise):
            return _gaussian(signal)
    raise InputError(f"GaussianProcessRegressor has the kernel {kernel}. Supported: {SUPPORTED}.")


def _is_white(kernel: Kernel) -> bool:
    match kernel:
        case WhiteKernel():
            return True
        case Product(k1=ConstantKernel(), k2=other) | Product(k1=other, k2=ConstantKernel()):
            return _is_white(other)
    return False


def _from_exact_gp(model: ExactGPRegressor) -> RBFExpansion:
    model.predict(model._rows.X[:1])  # factorises the covariance, if nothing has been predicted yet
    posterior = model._solved[0]
    weights = solve_triangular(posterior.factor.numpy(), posterior.coefficients.numpy(), lower=True, trans="T")
    gamma = 0.5 / np.square(np.asarray(model.kernel_.lengthscale, dtype=np.float64))
    coefficients = float(model.kernel_.variance) * weights[:, None]
    return RBFExpansion(posterior.X, coefficients, np.array([model.center_]), gamma)


EXTRACTORS: dict[tuple[type, ...], Callable[[Any], RBFExpansion]] = {
    (SVC, NuSVC): _from_classifier,
    (SVR, NuSVR, OneClassSVM): _from_one_output,
    (KernelRidge,): _from_kernel_ridge,
    (GaussianProcessRegressor,): _from_sklearn_gp,
    (ExactGPRegressor,): _from_exact_gp,
}
