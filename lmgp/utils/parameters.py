"""Parameters of constructors: what other packages call them, and an error that says so."""

from functools import cache
from inspect import signature
from numbers import Integral
from typing import Any, Self

from lmgp.errors import InputError, UnknownParameterError, nearest_names

# What kernels that can be named are called elsewhere, in lower case.
KERNELS = {
    **dict.fromkeys(("rbf", "se", "squared_exponential", "squaredexponential", "exponentiated_quadratic"), "gaussian"),
    **dict.fromkeys(("exponential", "laplacian", "ornstein_uhlenbeck", "ou"), "matern12"),
    "rq": "rational_quadratic",
    **dict.fromkeys(("exp_sine_squared", "expsinesquared"), "periodic"),
    **dict.fromkeys(("dot_product", "dotproduct"), "linear"),
}

# What distributions of observations are called elsewhere, in lower case.
NOISES = {
    "gaussian": "normal",
    **dict.fromkeys(("t", "student_t", "student-t"), "student"),
    **dict.fromkeys(("heteroscedastic", "heteroskedastic"), "varying"),
}

# What parameters are called elsewhere.
PARAMETERS = {
    "nu": "smoothness",
    "length_scale": "lengthscale",
    "outputscale": "variance",
    "constant_value": "variance",
    "periodicity": "period",
    "alpha": "noise_variance",
    "noise_level": "noise_variance",
    "likelihood": "noise",
    "mean_function": "trend",
    "n_components": "n_features",
}

# What other packages let choose.
NEEDLESS = {
    "normalize_y": "leave it out: the mean of y is subtracted, and the variance of the kernel is learned",
    "n_restarts_optimizer": "leave it out: a climb starts at the best of many points",
}


class KnownParameters:
    """Mixin of classes whose constructors say which parameters they have when they are given another one by name."""

    def __new__(cls, *_: Any, **given: Any) -> Self:  # noqa: D102
        known = parameter_names(cls)  # type: ignore[arg-type]  # a class can be hashed
        for name in given:
            if known and name not in known:
                elsewhere = PARAMETERS.get(name)
                nearest = NEEDLESS.get(name) or nearest_names(elsewhere if elsewhere in known else name, known)
                raise UnknownParameterError(f"{cls.__name__} has no parameter {name!r}; {nearest}")
        return super().__new__(cls)


def checked_count(count: Any, asked: str, cure: str = "") -> int:
    """Return a number of things; `asked` says what it must be, and `cure` what else there is to say.

    Raises
    ------
    InputError
        If it is no positive integer.
    """
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise InputError(f"{asked}; got {count!r}.{cure}")
    return int(count)


@cache
def parameter_names(cls: Any) -> dict[str, None]:
    """Return the names of the parameters of a constructor, in their order; none where it takes any."""
    _, *parameters = signature(cls.__init__).parameters.values()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    return {} if takes_any else dict.fromkeys(parameter.name for parameter in parameters)
