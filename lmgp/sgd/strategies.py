"""Six ways to hold and to step a function f = Σ uᵢ φ(xᵢ) in stochastic gradient descent.

For n training rows of d columns, D features and T steps they cost, besides the rows themselves:

======================  ============================================  ============  ======
strategy                what a step reads                             time          memory
======================  ============================================  ============  ======
"features"              (1) features of an exact map, on the fly      T d D         D
"features_cached"       (2) features of an exact map, made once       n d D + T D   n D
"kernel"                (3) a row of the kernel, on the fly           T n d         n
"kernel_cached"         (4) a row of the Gram matrix, made once       n² d + T n    n²
"approximate"           (5) features that approximate, on the fly     T d D         d D
"approximate_cached"    (6) features that approximate, made once      n d D + T D   n D
======================  ============================================  ============  ======

With features, f is held as its weights w, f(x) = wᵀφ(x); with rows of the kernel, as the duals u. Strategy "kernel"
also keeps a copy of the training rows, which a `Kernel` prepares once.

References
----------
C. De Sa, *Kernels and Feature Extraction*, CS4787 lecture 18, Cornell University.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lmgp.errors import InputError
from lmgp.features.adapter import checked_transformer, fill_kernels, seeded_clone
from lmgp.features.base import KernelMap
from lmgp.features.composition import exact_features
from lmgp.features.fourier import RandomFourierFeatures
from lmgp.kernels.base import Kernel

StrategyName = Literal["features", "features_cached", "kernel", "kernel_cached", "approximate", "approximate_cached"]


@dataclass(frozen=True)
class Strategy:
    """One way to take the steps.

    Attributes
    ----------
    name : str
    reads : {"features", "kernel"}
        What a step reads: features of its row, of which f has weights; or its row of the kernel matrix, for duals.
    exact : bool
        Whether f is a function of the kernel's own space; otherwise of that of a map that approximates the kernel.
    cached : bool
        Whether all rows are made once, before the first step; otherwise each when a step reads it.
    on_the_fly : str
        The name of the same strategy that is not cached.
    """

    name: StrategyName
    reads: Literal["features", "kernel"]
    exact: bool
    cached: bool
    on_the_fly: StrategyName


# In the order of the lecture.
STRATEGIES: dict[StrategyName, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("features", "features", exact=True, cached=False, on_the_fly="features"),
        Strategy("features_cached", "features", exact=True, cached=True, on_the_fly="features"),
        Strategy("kernel", "kernel", exact=True, cached=False, on_the_fly="kernel"),
        Strategy("kernel_cached", "kernel", exact=True, cached=True, on_the_fly="kernel"),
        Strategy("approximate", "features", exact=False, cached=False, on_the_fly="approximate"),
        Strategy("approximate_cached", "features", exact=False, cached=True, on_the_fly="approximate"),
    )
}


def make_source(strategy: Strategy, kernel: Any, features: Any, X: Any, rng: np.random.Generator) -> Any:
    """Return what a strategy makes rows with: a feature map, fitted to X, or the kernel.

    Parameters
    ----------
    strategy : Strategy
    kernel : callable
    features : FeatureMap or scikit-learn transformer, optional
        For strategies that are not exact; random Fourier features if not given. A map with ``kernel=None``, at any
        depth, gets `kernel`; one with a kernel of its own keeps it (`lmgp.features.adapter`).
    X : ndarray or CSR matrix of shape (n, d)
    rng : numpy.random.Generator
        Seeds each ``random_state`` of the map that is None.

    Raises
    ------
    InputError
        If the kernel has no finite feature map, or there is no default map for it.
    """
    if strategy.reads == "kernel":
        return kernel
    if strategy.exact:
        return exact_features(kernel).fit(X)
    if features is None and not (isinstance(kernel, Kernel) and RandomFourierFeatures.serves(kernel)):
        raise InputError(
            f"strategy={strategy.name!r} takes random Fourier features where it is given no map, and these serve "
            f"stationary kernels, their sums and products; got {kernel!r}. Give features=, a map for this kernel, such "
            "as NystroemFeatures()."
        )
    features = checked_transformer(RandomFourierFeatures() if features is None else features)
    if isinstance(features, KernelMap) and features.kernel is None and not isinstance(kernel, Kernel):
        raise InputError(
            f"{features!r} has no kernel of its own and would get {kernel!r}, which is no kernel of this package. Give "
            "the map a kernel, or leave the model's out."
        )
    return fill_kernels(seeded_clone(features, rng), kernel).fit(X)
