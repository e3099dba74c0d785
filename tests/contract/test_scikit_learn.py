"""The contract of all public estimators: every check of scikit-learn, and a reason beside each exception."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_estimator,
    check_global_output_transform_pandas,
    check_sample_weight_equivalence_on_dense_data,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
)

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    NearestNeighborsGPRegressor,
    RandomFourierFeatures,
    ResidualGPRegressor,
    SpectralGPRegressor,
    SphericalCoordinates,
    TaylorFeatures,
    TransformedTargetGPRegressor,
)
from lmgp.errors import ValidityWarning
from lmgp.estimators import MultiTargetGPRegressor
from lmgp.features import (
    CraftFeatures,
    LinearFeatures,
    ModulatedFeatures,
    PolynomialMaclaurinFeatures,
    ProductFeatures,
    ScaledFeatures,
    SphericalFourierFeatures,
    SumFeatures,
)
from lmgp.kernels.base import Kernel
from lmgp.rbf import QuadraticRBF, TaylorRBF
from lmgp.sgd import KernelSGDClassifier, KernelSGDRegressor
from tests.contract.conftest import CASES
from tests.public import classes

pytestmark = pytest.mark.filterwarnings(f"ignore::{ValidityWarning.__module__}.{ValidityWarning.__name__}")

# The rows that the checks draw have up to 30 columns and extend over many lengthscales of a default kernel. What is
# learned of them takes long: see the test of the weights below, and the tests of learning.
WIDE = {"kernel": GaussianKernel(4.0, 1.5), "noise_variance": 0.1}


class Decay:
    """A function that prints the same in every process, as names of tests have to."""

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return np.exp(-0.1 * np.square(X).sum(axis=1))

    def __repr__(self) -> str:
        return "Decay()"


ESTIMATORS: list[Any] = [
    ExactGPRegressor(**WIDE),
    FeaturizedGPRegressor(**WIDE),
    LocalizedGPRegressor(TaylorFeatures(66), threshold=2.0, **WIDE),
    NearestNeighborsGPRegressor(**WIDE),
    ResidualGPRegressor(**WIDE),
    SpectralGPRegressor(**WIDE),
    GPRegressor(**WIDE),
    TransformedTargetGPRegressor(ExactGPRegressor(**WIDE)),
    MultiTargetGPRegressor(ExactGPRegressor(**WIDE)),
    KernelSGDRegressor(),
    KernelSGDClassifier(),
    QuadraticRBF(SVC(gamma=0.01, C=10.0), center="mean"),
    QuadraticRBF(KernelRidge(kernel="rbf", gamma=0.01), center="mean"),
    TaylorRBF(SVC(gamma=0.1, C=10.0), threshold=1.0),
    *{type(model): model for model in (case.make(16, random_state=0) for case in CASES.values())}.values(),
    SphericalFourierFeatures(16, n_gaussians=2, normalize=True, random_state=0),
    PolynomialMaclaurinFeatures(16, random_state=0),
    CraftFeatures(PolynomialMaclaurinFeatures(16), 8, random_state=0),
    LinearFeatures(),
    SumFeatures(RandomFourierFeatures(8, random_state=0), StandardScaler()),
    ProductFeatures(RandomFourierFeatures(8, random_state=0), LinearFeatures()),
    ScaledFeatures(RandomFourierFeatures(8, random_state=0), 2.0),
    ModulatedFeatures(LinearFeatures(), Decay()),
    SphericalCoordinates(),
]

MORE_COLUMNS = "Its rows have more than three columns, which Fourier modes do not serve."
NO_PLACES = "Its second column is no latitude: values are above 90 degrees."


def named(estimator: Any) -> str:
    """The name of a class."""
    return type(estimator).__name__


def exceptions(estimator: Any) -> dict[str, str]:
    """The checks that an estimator cannot pass, each with the reason."""
    if isinstance(estimator, SpectralGPRegressor):
        return {
            "check_n_features_in_after_fitting": MORE_COLUMNS,
            "check_positive_only_tag_during_fit": MORE_COLUMNS,
            "check_estimators_dtypes": MORE_COLUMNS,
            "check_sample_weight_equivalence_on_dense_data": MORE_COLUMNS,
            "check_dtype_object": MORE_COLUMNS,
            "check_regressors_train": MORE_COLUMNS,
            "check_regressor_data_not_an_array": MORE_COLUMNS,
            "check_regressors_no_decision_function": MORE_COLUMNS,
            "check_regressors_int": MORE_COLUMNS,
            "check_regressor_multioutput": MORE_COLUMNS,
        }
    if isinstance(estimator, SphericalCoordinates):
        return {
            "check_fit_idempotent": NO_PLACES,
            "check_fit_check_is_fitted": NO_PLACES,
            "check_n_features_in": NO_PLACES,
        }
    if isinstance(estimator, SphericalFourierFeatures):
        return {"check_estimators_dtypes": "One of its rows is zero, which has no direction."}
    if isinstance(estimator, QuadraticRBF | TaylorRBF) and isinstance(estimator.estimator, SVC):
        said = "It wants the message to name sample_weight; SVC, which gets the weights, says that classes are one."
        return {"check_classifiers_one_label_sample_weights": said}
    return {}


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=named)
def test_every_check_of_scikit_learn(estimator: Any) -> None:
    impossible = exceptions(estimator)
    results = check_estimator(estimator, expected_failed_checks=impossible, on_skip=None)
    outcomes = {(one["check_name"], one["status"]) for one in results if one["expected_to_fail"]}
    assert outcomes == {(name, "xfail") for name in impossible}


# What scikit-learn asks of its own estimators with data frames, beyond `check_estimator`.
OF_FRAMES = [
    check_dataframe_column_names_consistency,
    check_set_output_transform,
    check_set_output_transform_pandas,
    check_global_output_transform_pandas,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
]
# They have other columns than these two take: see their own tests, and those of names.
IN_FRAMES = [one for one in ESTIMATORS if not isinstance(one, SpectralGPRegressor | SphericalCoordinates)]


@pytest.mark.filterwarnings("ignore:X (has|does not have).* feature names")
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        (estimator, check)
        for estimator in IN_FRAMES
        for check in OF_FRAMES
        if hasattr(estimator, "transform") or "transform" not in check.__name__
    ],
)
def test_every_check_of_data_frames(estimator: Any, check: Callable[[str, Any], None]) -> None:
    check(type(estimator).__name__, clone(estimator))


def test_every_public_estimator_is_checked() -> None:
    estimators = {one for one in classes(BaseEstimator) if not issubclass(one, Kernel)}
    assert estimators <= {type(one) for one in ESTIMATORS}


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [ExactGPRegressor(), FeaturizedGPRegressor(), LocalizedGPRegressor(), NearestNeighborsGPRegressor(), GPRegressor()],
    ids=str,
)
def test_weights_are_repetitions_where_everything_is_learned(model: Any) -> None:
    # 15 rows of noise in 30 columns: any rounding that depended on the order would choose another lengthscale.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_sample_weight_equivalence_on_dense_data(type(model).__name__, model)
