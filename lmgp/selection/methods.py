"""The methods that approximate the exact GP: one registry for the models, the command line and the experiments.

A method is a feature map together with the model that uses it, global or localized. To add one to the package, add a
line to the table below; `register` adds one of your own. The registry loads neither torch nor a feature map before a
method is used.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any, Literal

import lmgp
from lmgp.errors import InputError

Allocation = Literal["local", "mean"]
Family = Literal["Fourier", "Maclaurin", "Taylor", "rows", "chosen", "own"]


@dataclass(frozen=True)
class Method:
    """A way to approximate the exact GP.

    Attributes
    ----------
    name : str
        The key in `METHODS`, and the name on the command line.
    label : str
        The name in figures and tables.
    family : {"Fourier", "Maclaurin", "Taylor", "rows", "chosen", "own"}
        What the features are made of: figures show the methods of one family together.
    make : callable
        ``make(n_features, allocation, random_state)`` returns the unfitted feature map with at most `n_features`
        columns; of a method without a map, the unfitted regressor, of at most `n_features` rows. `allocation` says for
        which pairs of rows a Maclaurin map spreads its columns over the degrees: ``"local"``, rows and their centroid,
        or ``"mean"``, all rows around the training mean.
    localized : bool, default=False
        Whether there is one model around each centroid, and so a threshold.
    mapped : bool, default=True
        Whether the model has a feature map. Otherwise `make` returns the unfitted regressor.
    chooses : bool, default=False
        Whether map, size and threshold are chosen by measurement; `n_features` is the largest size.
    compared : bool, default=True
        Whether `lmgp compare` runs it when no methods are named.
    sized : bool, default=True
        Whether there is a number of features, or of rows, to be given. Otherwise `make` takes no heed of it.
    max_inputs : int, optional
        The most input columns that it serves; any number if not given.
    tried : bool, default=False
        Whether `GPRegressor` tries it when no methods are named.
    source : str, default=""
        Stands for the code of a method that is registered: results of other code are not read back. If it is empty,
        `register` makes one that no other registration has.
    """

    name: str
    label: str
    family: Family
    make: Callable[[int, Allocation, int | None], Any]
    localized: bool = False
    mapped: bool = True
    chooses: bool = False
    compared: bool = True
    sized: bool = True
    max_inputs: int | None = None
    tried: bool = False
    source: str = ""

    def refusal(self, n_inputs: int) -> str | None:
        """Say why the method cannot serve data of this many input columns; None where it can."""
        if self.max_inputs is None or n_inputs <= self.max_inputs:
            return None
        return f"method {self.name} serves up to {self.max_inputs} input columns, and there are {n_inputs}"

    def regressor(
        self,
        n_features: int | None,
        threshold: float | None = None,
        *,
        allocation: Allocation = "local",
        random_state: int | None = None,
        **parameters: Any,
    ) -> Any:
        """Make the unfitted regressor.

        Parameters
        ----------
        n_features : int or None
            None for a method without a size.
        threshold : float, optional
            Radius around a centroid, in lengthscales; makes the model a localized one.
        allocation : {"local", "mean"}, default="local"
        random_state : int, optional
        **parameters
            Of the regressor, such as ``kernel`` and ``noise_variance``. A regressor without a map leaves out those that
            it has not, such as ``approximation``.

        Returns
        -------
        FeaturizedGPRegressor, LocalizedGPRegressor, or what `make` returns of a method without a map
        """
        part = self.make(n_features or 0, allocation, random_state)
        if not self.mapped:
            known = part.get_params(deep=False)
            return part.set_params(**{name: value for name, value in parameters.items() if name in known})
        if threshold is None:
            return lmgp.FeaturizedGPRegressor(part, random_state=random_state, **parameters)
        return lmgp.LocalizedGPRegressor(part, threshold, random_state=random_state, **parameters)


def _made(name: str, **given: Any) -> Callable[[int, Allocation, int | None], Any]:
    """Return what makes the map, or the regressor, of this name in `lmgp`, which is not loaded before."""

    def make(size: int, allocation: Allocation, seed: int | None) -> Any:
        cls, sizes = getattr(lmgp, name), dict.fromkeys(("n_features", "n_neighbors", "max_features"), size)
        values = sizes | {"allocation": allocation, "random_state": seed} | given
        return cls(**{key: value for key, value in values.items() if key in cls().get_params(deep=False)})

    return make


_RADEMACHER, _GAUSSIAN, _TENSOR_SRHT = (
    _made("OptimizedMaclaurinFeatures", sketch=sketch, max_degree=15, n_allocation_rows=500)
    for sketch in ("rademacher", "gaussian", "tensor_srht")
)
_TAYLOR = _made("TaylorFeatures", random_state=None)  # which the regressor draws
_ENERGY = _made("TaylorFeatures", random_state=None, index_set="energy")

# The names of the models without a map: the exact GP of all rows, of the rows nearest to each test row, and the global
# solve on Fourier modes; and that of a map whose residuals the nearest rows predict.
EXACT, NEAREST_ROWS, SPECTRAL, RESIDUAL = "exact", "nearest_rows", "spectral", "residual"

_METHODS = (
    Method("rff", "random Fourier", "Fourier", _made("RandomFourierFeatures")),
    Method("orf", "orthogonal Fourier", "Fourier", _made("OrthogonalFourierFeatures"), tried=True),
    Method("sorf", "structured orthogonal Fourier", "Fourier", _made("StructuredOrthogonalFourierFeatures")),
    Method("random_maclaurin", "random Maclaurin", "Maclaurin", _made("RandomMaclaurinFeatures")),
    # At equal cost the variance of a Rademacher sketch is lower than that of a Gaussian one.
    Method("global_maclaurin_rademacher", "global Maclaurin, Rademacher", "Maclaurin", _RADEMACHER),
    Method("global_maclaurin_gaussian", "global Maclaurin, Gaussian", "Maclaurin", _GAUSSIAN, compared=False),
    Method("global_maclaurin_tensor_srht", "global Maclaurin, TensorSRHT", "Maclaurin", _TENSOR_SRHT),
    Method("global_taylor", "global Taylor", "Taylor", _TAYLOR, tried=True),
    Method("global_taylor_energy", "global Taylor, energy", "Taylor", _ENERGY, compared=False, tried=True),
    Method("nystroem", "Nyström", "rows", _made("NystroemFeatures"), tried=True),
    Method("local_maclaurin_rademacher", "local Maclaurin, Rademacher", "Maclaurin", _RADEMACHER, True),
    Method("local_maclaurin_gaussian", "local Maclaurin, Gaussian", "Maclaurin", _GAUSSIAN, True, compared=False),
    Method("local_maclaurin_tensor_srht", "local Maclaurin, TensorSRHT", "Maclaurin", _TENSOR_SRHT, True),
    Method("local_taylor", "local Taylor", "Taylor", _TAYLOR, True),
    Method("local_taylor_energy", "local Taylor, energy", "Taylor", _ENERGY, True),
    Method(NEAREST_ROWS, "nearest rows", "rows", _made("NearestNeighborsGPRegressor"), mapped=False, tried=True),
    Method(
        RESIDUAL, "Nyström and nearest rows", "rows",
        lambda n, _, seed: lmgp.ResidualGPRegressor(lmgp.NystroemFeatures(n), random_state=seed),
        mapped=False, tried=True,
    ),
    Method(
        SPECTRAL, "Fourier modes", "Fourier", _made("SpectralGPRegressor"),
        mapped=False, sized=False, max_inputs=3, tried=True,
    ),
    Method("auto", "chosen by measurement", "chosen", _made("GPRegressor", noise="normal"), mapped=False, chooses=True),
)  # fmt: skip

METHODS: dict[str, Method] = {method.name: method for method in _METHODS}
BUILT_IN = (*METHODS, EXACT)


def register(method: Method) -> Method:
    """Add a method of your own to those that can be compared by name; one of the same name is replaced.

    Parameters
    ----------
    method : Method

    Returns
    -------
    Method
        The same, with a `source`.

    Raises
    ------
    InputError
        If it is no `Method`, or has the name of one of the package.

    Examples
    --------
    >>> from lmgp.features.fourier import RandomFourierFeatures
    >>> mine = Method("mine", "my features", "own", lambda n, _, seed: RandomFourierFeatures(n, random_state=seed))
    >>> register(mine).name in METHODS
    True
    >>> METHODS.pop("mine").label
    'my features'
    """
    if not isinstance(method, Method):
        raise InputError(f"A lmgp.selection.methods.Method can be registered; got {type(method).__name__}.")
    if method.name in BUILT_IN:
        raise InputError(f"{method.name!r} is a method of lmgp; give yours another name.")
    METHODS[method.name] = replace(method, source=method.source or token_hex(4))
    return METHODS[method.name]
