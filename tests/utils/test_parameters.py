"""Names of parameters, kernels and distributions that other packages have: the error names ours."""

import pickle
import re
from inspect import signature
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.gaussian_process.kernels import RBF

import lmgp
from lmgp import ExactGPRegressor, GaussianKernel, GPRegressor, MaternKernel, PeriodicKernel, TaylorFeatures
from lmgp.errors import InputError, LmgpError, UnknownParameterError, missing_columns, nearest_names
from lmgp.learning.forms import PARTS
from lmgp.utils.parameters import KERNELS

X, Y = np.arange(6.0)[:, None], np.sin(np.arange(6.0))

UNKNOWN: list[tuple[type, str, str]] = [
    (MaternKernel, "nu", "did you mean 'smoothness'?"),
    (GaussianKernel, "length_scale", "did you mean 'lengthscale'?"),
    (GaussianKernel, "alpha", "known: lengthscale, variance, lengthscale_bounds, variance_bounds"),
    (PeriodicKernel, "periodicity", "did you mean 'period'?"),
    (GPRegressor, "alpha", "did you mean 'noise_variance'?"),
    (ExactGPRegressor, "likelihood", "did you mean 'noise'?"),
    (TaylorFeatures, "n_components", "did you mean 'n_features'?"),
    (GPRegressor, "normalize_y", "leave it out: the mean of y is subtracted"),
    (ExactGPRegressor, "n_restarts_optimizer", "leave it out: a climb starts at the best of many points"),
]


@pytest.mark.parametrize(("cls", "name", "told"), UNKNOWN)
def test_a_parameter_that_is_none_names_those_that_are(cls: Any, name: str, told: str) -> None:
    with pytest.raises(
        UnknownParameterError, match=re.escape(f"{cls.__name__} has no parameter {name!r}; {told}")
    ) as error:
        cls(**{name: 1.0})
    assert isinstance(error.value, TypeError)
    assert isinstance(error.value, LmgpError)


def test_known_parameters_are_as_before() -> None:
    kernel = MaternKernel(2.0, smoothness=0.5) + GaussianKernel(variance=3.0)
    for copy in (clone(kernel), pickle.loads(pickle.dumps(kernel))):
        np.testing.assert_array_equal(copy(X), kernel(X))
    assert next(iter(signature(GPRegressor).parameters)) == "tolerance"


def test_a_class_that_takes_any_parameter_takes_it() -> None:
    class Named(GaussianKernel):
        def __init__(self, **options: float) -> None:
            super().__init__(**options)

    assert Named(lengthscale=2.0).lengthscale == 2.0


def test_kernels_of_other_packages_name_ours() -> None:
    assert set(KERNELS.values()) <= set(PARTS)
    for name in ("rbf", "RBF", "linear+SE"):
        with pytest.raises(InputError, match=r"did you mean 'gaussian'\?"):
            GPRegressor(kernel=name).fit(X, Y)
    with pytest.raises(InputError, match=r"did you mean 'matern52' or 'matern32' or 'matern12'\?"):
        GPRegressor(kernel="Matern").fit(X, Y)
    with pytest.raises(InputError, match=r"of sklearn.* called 'gaussian' here"):
        GPRegressor(kernel=RBF()).fit(X, Y)
    with pytest.raises(InputError, match=r"Give a kernel of this class, GaussianKernel\(\)"):
        GPRegressor(kernel=GaussianKernel).fit(X, Y)


def test_a_kernel_of_gpytorch_is_to_be_converted() -> None:
    kernels = pytest.importorskip("gpytorch").kernels
    with pytest.raises(InputError, match="from_gpytorch converts it"):
        GPRegressor(kernel=kernels.RBFKernel()).fit(X, Y)


@pytest.mark.parametrize(
    ("noise", "told"),
    [
        ("gaussian", "did you mean 'normal'?"),
        ("Student-t", "did you mean 'student'?"),
        ("heteroscedastic", "did you mean 'varying'?"),
        (0.1, "the variance is noise_variance=0.1"),
        (None, "got None."),
    ],
)
def test_distributions_of_other_packages_name_ours(noise: Any, told: str) -> None:
    with pytest.raises(InputError, match=rf"noise must be one of .*{re.escape(told)}"):
        ExactGPRegressor(GaussianKernel(), 0.1, noise=noise).fit(X, Y)


def test_the_case_of_letters_does_not_count() -> None:
    assert nearest_names("Price", ["price", "prices"]) == "did you mean 'price'?"
    assert (
        missing_columns(["Y", "z"], ["a", "y"])
        == "no column is named 'Y', did you mean 'y'?; no column is named 'z', known: a, y"
    )
    assert lmgp.errors.nearest_names("x", []) == "known: "
