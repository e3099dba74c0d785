"""Reads the kernel expansion out of fitted estimators."""

from copy import copy
from functools import singledispatch
from os import PathLike
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Kernel, Product, Sum, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM
from sklearn.utils.validation import check_is_fitted

from lmgp.data import Floats
from lmgp.errors import InputError
from lmgp.estimators.exact import ExactGPRegressor
from lmgp.kernels.stationary import GaussianKernel
from lmgp.rbf.expansion import Classification, OneClass, RBFExpansion, Regression, one_vs_one
from lmgp.rbf.libsvm import read_libsvm

SUPPORTED = (
    "SVC, NuSVC, SVR, NuSVR, OneClassSVM and KernelRidge with kernel='rbf'; GaussianProcessRegressor with an RBF "
    "kernel (times a constant, plus white noise); ExactGPRegressor with a GaussianKernel and a constant trend; "
    "RBFExpansion; the path of a LIBSVM model file"
)


def rbf_expansion(model: Any) -> RBFExpansion:
    """Read the kernel expansion out of a fitted model.

    Parameters
    ----------
    model : fitted estimator, RBFExpansion, str or path-like
        SVC, NuSVC, SVR, NuSVR, OneClassSVM, KernelRidge, GaussianProcessRegressor, `lmgp.ExactGPRegressor`, or the path
        of a LIBSVM model file (`lmgp.rbf.read_libsvm`). An `RBFExpansion` is returned as it is.

    Returns
    -------
    RBFExpansion
        It predicts what the model predicts, up to rounding. Sparse support vectors become dense.

    Raises
    ------
    InputError
        If the model is of another kind, has another kernel, is not fitted, or has no support vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.svm import SVC
    >>> from lmgp.rbf import rbf_expansion
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
    if hasattr(model, "best_estimator_"):
        raise InputError(f"Give the model that {type(model).__name__} has found: its best_estimator_.")
    check_kind(model)
    # scikit-learn's Gaussian process counts as fitted from the start: it predicts from its prior.
    try:
        check_is_fitted(model, ["X_train_"] if isinstance(model, GaussianProcessRegressor) else None)
    except NotFittedError as error:
        raise InputError(f"{type(model).__name__} is not fitted: fit it first.") from error
    return _read(model)


def check_kind(estimator: Any) -> None:
    """Refuse an estimator whose fitted model would have no kernel expansion that is known.

    Raises
    ------
    InputError
    """
    kind = type(estimator).__name__
    if isinstance(estimator, Pipeline | BaseSearchCV):
        raise InputError(
            f"The estimator must be the model itself; got a {kind}. Put the approximation into the {kind}, as its "
            "last step or the estimator that it varies: parameters are then named estimator__C, say."
        )
    if _read.dispatch(type(estimator)) is _read.dispatch(object):
        _read(estimator)  # which refuses it


@singledispatch
def _read(model: Any) -> RBFExpansion:
    """Read the expansion of a fitted model; of a kind that is not registered below, no expansion is known."""
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


@_read.register(SVC)
@_read.register(NuSVC)
def _read_classifier(model: Any) -> RBFExpansion:
    if model.break_ties and model.decision_function_shape == "ovo":
        raise InputError("break_ties must be False where decision_function_shape is 'ovo'; the model cannot predict.")
    vectors, dual, intercept = _support_vectors(model), _dense(model.dual_coef_), model.intercept_
    if len(model.classes_) == 2:  # scikit-learn turns the signs that LIBSVM has
        dual, intercept = -dual, -intercept
    readout = Classification(model.classes_, model.decision_function_shape, model.break_ties)
    # gamma="scale" is of the variance of all training rows, which a model does not keep: only this attribute knows it.
    return RBFExpansion(vectors, one_vs_one(dual, model.n_support_), intercept, model._gamma, readout)


@_read.register(SVR)
@_read.register(NuSVR)
@_read.register(OneClassSVM)
def _read_one_output(model: Any) -> RBFExpansion:
    readout = OneClass() if isinstance(model, OneClassSVM) else Regression()
    return RBFExpansion(_support_vectors(model), _dense(model.dual_coef_).T, model.intercept_, model._gamma, readout)


@_read.register
def _read_kernel_ridge(model: KernelRidge) -> RBFExpansion:
    _check_rbf(model)
    vectors = _dense(model.X_fit_)
    weights = model.dual_coef_.reshape(len(vectors), -1)
    gamma = 1.0 / vectors.shape[1] if model.gamma is None else model.gamma
    return RBFExpansion(vectors, weights, np.zeros(weights.shape[1]), gamma, Regression(model.dual_coef_.ndim == 1))


@_read.register
def _read_sklearn_gp(model: GaussianProcessRegressor) -> RBFExpansion:
    variance, lengthscale = _gaussian(model.kernel_)
    X = model.X_train_
    # Where the kernel vanishes, the prediction is the prior: what `normalize_y` subtracted and divided by.
    far = 2.0 * np.abs(X).max(axis=0, keepdims=True) + 40.0 * np.asarray(lengthscale)
    nameless = copy(model)  # which does not warn of rows without names
    vars(nameless).pop("feature_names_in_", None)
    mean, std = (np.ravel(value) for value in nameless.predict(far, return_std=True))
    unit = std / np.sqrt(model.kernel_.diag(far))
    weights = model.alpha_.reshape(len(X), -1) * (variance * unit)
    return RBFExpansion(X, weights, mean, 0.5 / np.square(lengthscale), Regression(weights.shape[1] == 1))


def _gaussian(kernel: Kernel) -> tuple[float, float | Floats]:
    """Return the variance and the lengthscale of a Gaussian kernel, to which white noise may be added."""
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
        case Product(k1=ConstantKernel(), k2=other) | Product(k1=other, k2=ConstantKernel()):
            return _is_white(other)
    return isinstance(kernel, WhiteKernel)


@_read.register
def _read_exact_gp(model: ExactGPRegressor) -> RBFExpansion:
    kernel: Any = model.kernel_
    if type(kernel) is not GaussianKernel:
        raise InputError(f"ExactGPRegressor has the kernel {kernel!r}. Supported: {SUPPORTED}.")
    if model.trend_ is not None:
        raise InputError(f"ExactGPRegressor has trend={model.trend!r}. Supported: {SUPPORTED}.")
    X, alpha = model.dual_coefficients()
    gamma = 0.5 / np.square(np.asarray(kernel.lengthscale, dtype=np.float64))
    weights = float(kernel.variance) * alpha.reshape(len(X), -1)
    return RBFExpansion(X, weights, np.atleast_1d(model.center_), gamma, Regression(alpha.ndim == 1))
