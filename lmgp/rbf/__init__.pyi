from .approximation import QuadraticRBF, TaylorRBF
from .estimators import rbf_expansion
from .expansion import Classification, OneClass, RBFExpansion, Regression
from .libsvm import read_libsvm
from .validity import gamma_max

__all__ = [
    "Classification",
    "OneClass",
    "QuadraticRBF",
    "RBFExpansion",
    "Regression",
    "TaylorRBF",
    "gamma_max",
    "rbf_expansion",
    "read_libsvm",
]
