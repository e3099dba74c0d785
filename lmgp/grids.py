"""Predictions on grids, as arrays for maps: xarray data sets, and bands of rasters with their affine transform."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import product
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri
from sklearn.utils.validation import check_is_fitted

from lmgp.columns import NamedColumns
from lmgp.errors import InputError, nearest_names
from lmgp.models.base import GaussianProcess
from lmgp.models.transformed import TransformedTargetGPRegressor
from lmgp.sphere import EARTH

if TYPE_CHECKING:
    import xarray

Floats = NDArray[np.float64]
Axis = float | tuple[float, float, int] | ArrayLike

# Points of a grid. More are more than a prediction is wanted of, and a mistake.
MOST_POINTS = 10**8

# Points that are predicted at a time.
CHUNK = 2**16

# A step of a raster may differ from the others by this share: places that were written with six digits.
REGULAR = 1e-4

# Names of columns, in lower case, that are the x and the y of a map. Longitude and latitude come first.
ACROSS = (*EARTH.longitudes, "x", "easting", "eastings", "east", "e")
UP = (*EARTH.latitudes, "y", "northing", "northings", "north", "n")

TITLES = {
    "mean": "predicted mean",
    "std": "standard deviation",
    "lower": "lower end of the interval",
    "upper": "upper end of the interval",
}


@dataclass(frozen=True, eq=False)
class Raster:
    """Bands of a georeferenced raster, north up: what a writer of GeoTIFF takes.

    Attributes
    ----------
    bands : ndarray of shape (n_bands, n_rows, n_columns)
        The first row is the northernmost, the first column the westernmost.
    names : tuple of str
        One of each band, such as "mean" and "std"; of further columns with their value, "mean, day=3".
    transform : tuple of 6 floats
        (a, b, c, d, e, f), in the order of `rasterio.Affine`: x = a·column + b·row + c, y = d·column + e·row + f. Of
        whole numbers these are corners of pixels; their centres, at halves, are the points of the grid.
    """

    bands: Floats
    names: tuple[str, ...]
    transform: tuple[float, float, float, float, float, float]

    @property
    def geotransform(self) -> tuple[float, float, float, float, float, float]:
        """The transform in GDAL's order: (c, a, b, f, d, e)."""
        a, b, c, d, e, f = self.transform
        return c, a, b, f, d, e


@dataclass(frozen=True, eq=False)
class GridPrediction:
    """What a model predicts on a grid.

    Arrays have one dimension for each of `axes`, in their order. The last but one is the y of a map, from north to
    south, and the last one its x, from west to east.

    Attributes
    ----------
    axes : dict of str to ndarray
        The values of each column.
    mean : ndarray
    std : ndarray or None
        None where it was not asked for.
    lower, upper : ndarray or None
        The ends of the intervals; None where no level was given.
    level : float or None
        The probability of the intervals.
    with_noise : bool
        Whether `std` and the intervals are of a new observation instead of the latent function.
    """

    axes: dict[str, Floats]
    mean: Floats
    std: Floats | None = None
    lower: Floats | None = None
    upper: Floats | None = None
    level: float | None = None
    with_noise: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of values of each axis."""
        return tuple(map(len, self.axes.values()))

    @property
    def variables(self) -> dict[str, Floats]:
        """What was predicted: mean, and std, lower and upper where they were asked for."""
        found = {name: getattr(self, name) for name in TITLES}
        return {name: values for name, values in found.items() if values is not None}

    def to_xarray(self, *, target: str | None = None, units: str | None = None) -> "xarray.Dataset":
        """Return an `xarray.Dataset` with attributes by the CF conventions.

        Parameters
        ----------
        target : str, optional
            What is predicted, for the long names: "price" makes "predicted mean of price".
        units : str, optional
            Of the target, such as "degC".

        Returns
        -------
        xarray.Dataset
            Its variables are those of `variables`, its dimensions `axes`. ``.to_netcdf(path)`` writes it.

        Raises
        ------
        ImportError
            If xarray is not installed: ``pip install "lmgp[spatial]"``.
        """
        check_xarray()
        import xarray

        of = "" if target is None else f" of {target}"
        whose = "a new observation" if self.with_noise else "the function"
        variables = {}
        for name, values in self.variables.items():
            told = {"long_name": TITLES[name] + of}
            if name != "mean":
                told["comment"] = f"of {whose}" + ("" if name == "std" else f", with probability {self.level:g}")
            variables[name] = (tuple(self.axes), values, told | ({} if units is None else {"units": units}))
        coordinates = {name: (name, values, _attributes(name)) for name, values in self.axes.items()}
        return xarray.Dataset(variables, coordinates, {"Conventions": "CF-1.8", "source": "lmgp"})

    def to_raster(self) -> Raster:
        """Return the bands of a raster and its affine transform.

        Returns
        -------
        Raster
            A band for each of `variables` and each combination of values of further axes.

        Raises
        ------
        InputError
            If x or y has fewer than two values, or they are not evenly spaced.
        """
        (*others, y_name, x_name) = self.axes
        x_step, y_step = (_step(name, self.axes[name]) for name in (x_name, y_name))
        x, y = self.axes[x_name], self.axes[y_name]
        several = [name for name in others if len(self.axes[name]) > 1]
        places = [
            [f"{name}={value:g}" for name, value in zip(several, place, strict=True)]
            for place in product(*(self.axes[name] for name in several))
        ]
        names = [", ".join([title, *place]) for title in self.variables for place in places]
        bands = np.concatenate([values.reshape(-1, len(y), len(x)) for values in self.variables.values()])
        transform = (x_step, 0.0, float(x[0]) - x_step / 2, 0.0, y_step, float(y[0]) - y_step / 2)
        return Raster(bands, tuple(names), transform)


def predict_grid(
    model: Any,
    axes: Mapping[str, Axis],
    *,
    x: str | None = None,
    y: str | None = None,
    return_std: bool = True,
    include_noise: bool = False,
    level: float | None = None,
) -> GridPrediction:
    """Predict every combination of some values of the columns: a map.

    Parameters
    ----------
    model : fitted regressor
        Of this package, or a pipeline that ends in one.
    axes : mapping of str to tuple, float or array-like
        For each column of the model a tuple (from, to, n) of n values, both ends included; one number; or a list or an
        array of values. The columns of a model that was fitted to an array are x0, x1, ...
    x, y : str, optional
        The columns that are x and y of the map. If not given, those named lon, longitude or lng, x, easting or east,
        and lat or latitude, y, northing or north, in any case; of other names the two first columns of the model, x
        first.
    return_std : bool, default=True
        Whether to predict standard deviations as well.
    include_noise : bool, default=False
        Whether these are of a new observation instead of the latent function.
    level : float, optional
        The probability of an interval around the mean, such as 0.95.

    Returns
    -------
    GridPrediction
        Its arrays have y from north to south and x from west to east as their last two dimensions, whatever the order
        of the values given. `GridPrediction.to_xarray` and `GridPrediction.to_raster` pass them on.

    Raises
    ------
    InputError
        If a column has no axis, an axis is no column or has no such values, or there are more than 10⁸ points.

    Notes
    -----
    Points are made and predicted 65,536 at a time: a large grid takes the memory of its results.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp import ExactGPRegressor, GaussianKernel, predict_grid
    >>> X, y = np.array([[0.0, 50.0], [1.0, 50.0], [0.0, 51.0]]), np.array([1.0, 2.0, 3.0])
    >>> model = ExactGPRegressor(GaussianKernel(1.0), 1e-6).fit(X, y)
    >>> grid = predict_grid(model, {"x0": (0, 1, 3), "x1": (50, 51, 2)})
    >>> list(grid.axes), grid.mean.shape
    (['x1', 'x0'], (2, 3))
    >>> grid.mean[:, 0].round(3)  # the northern row first
    array([3., 1.])
    >>> grid.to_raster().transform
    (0.5, 0.0, -0.25, 0.0, -1.0, 51.5)
    """
    check_is_fitted(model)
    if level is not None and not (isinstance(level, Real) and 0.0 < level < 1.0):
        raise InputError(f"level is the probability of an interval, between 0 and 1; got {level!r}.")
    names = column_names(model)
    if not isinstance(axes, Mapping):
        example = ", ".join(f"{name!r}: (0.0, 1.0, 50)" for name in names)
        raise InputError(f"axes is a dictionary with an axis of each column, such as {{{example}}}; got {axes!r}.")
    across, up = _of_map(x, y, names)
    values = {name: _values(name, axis) for name, axis in axes.items()}
    check_axes(values, names)
    order = (*(name for name in values if name not in (across, up)), up, across)
    ordered = {name: np.sort(values[name])[:: -1 if name == up else 1] for name in order}
    shape = tuple(map(len, ordered.values()))
    spread = return_std or level is not None
    found = np.empty((1 + spread + 2 * (level is not None), math.prod(shape)))
    done = 0
    for rows in grid_rows(ordered, names):
        found[:, done : done + len(rows)] = predicted(model, rows, spread, include_noise, level)
        done += len(rows)
    predictions = dict(zip(TITLES, found.reshape(-1, *shape), strict=False))
    return GridPrediction(ordered, **predictions, level=level, with_noise=include_noise)


def check_xarray() -> None:
    """Say what to do where xarray is not installed, by an ImportError."""
    if find_spec("xarray") is None:
        raise ImportError(
            'xarray is not installed, which data sets and netCDF files need: pip install "lmgp[spatial]", or pip '
            "install xarray. Without it there are `variables`, `axes` and to_raster() of lmgp.predict_grid."
        )


def column_names(model: Any) -> tuple[str, ...]:
    """Return the names of the columns of a fitted model: x0, x1, ... where it knows none."""
    known = getattr(model, "feature_names_in_", None)
    return tuple(f"x{j}" for j in range(model.n_features_in_)) if known is None else tuple(map(str, known))


def check_axes(axes: Mapping[str, Floats], names: Sequence[str]) -> None:
    """Refuse axes of other columns than those of a model, and too many points, by an InputError."""
    for name in axes:
        if name not in names:
            raise InputError(f"The model has no column {name!r} for the grid; {nearest_names(str(name), names)}.")
    if missing := [name for name in names if name not in axes]:
        raise InputError(f"The grid needs an axis of each column; missing are {', '.join(missing)}.")
    n_points = math.prod(len(values) for values in axes.values())
    if n_points > MOST_POINTS:
        raise InputError(f"The grid has {n_points:,} points; the most are {MOST_POINTS:,}. Give smaller numbers.")


def grid_rows(axes: Mapping[str, Floats], names: Sequence[str], chunk: int = CHUNK) -> Iterator[Floats]:
    """Make the points of a grid, some at a time.

    Parameters
    ----------
    axes : mapping of str to ndarray of shape (n,)
        The values of the last one change fastest.
    names : sequence of str
        The columns of the rows, in their order.
    chunk : int
        The number of rows at a time.

    Yields
    ------
    ndarray of shape (at most chunk, d)
    """
    shape = tuple(map(len, axes.values()))
    places = [list(axes).index(name) for name in names]
    for start in range(0, math.prod(shape), chunk):
        index = np.unravel_index(np.arange(start, min(start + chunk, math.prod(shape))), shape)
        yield np.column_stack([axes[name][index[place]] for name, place in zip(names, places, strict=True)])


def predicted(
    model: Any, rows: Floats, spread: bool, include_noise: bool, level: float | None = None, verbose: bool = False
) -> Floats:
    """Predict rows whose columns are those of the model: mean, standard deviation, and the ends of the interval."""
    own, named = isinstance(model, GaussianProcess | TransformedTargetGPRegressor), rows
    if getattr(model, "feature_names_in_", None) is not None:
        named = NamedColumns.of(rows, column_names(model))
        if not own:  # a pipeline, whose first step may be another package's
            import pandas  # which has made the names

            named = pandas.DataFrame(rows, columns=column_names(model))
    wanted = {"return_std": spread, "include_noise": include_noise, "verbose": verbose and own}
    found = np.atleast_2d(model.predict(named, **{name: True for name, asked in wanted.items() if asked}))
    if level is None:
        return found
    if isinstance(model, TransformedTargetGPRegressor):  # not symmetric
        return np.vstack((found, model.predict_interval(named, level, include_noise)))
    half = float(ndtri(0.5 + 0.5 * level)) * found[1]
    return np.vstack((found, found[0] - half, found[0] + half))


def _of_map(x: str | None, y: str | None, names: Sequence[str]) -> tuple[str, str]:
    """Return the columns that are the x and the y of a map."""
    if len(names) < 2:
        raise InputError(f"A map has two columns, x and y; the model has {len(names)}, {', '.join(names)}.")
    chosen = []
    for given, known, what in ((x, ACROSS, "x"), (y, UP, "y")):
        if given is not None and given not in names:
            raise InputError(f"{what}: the model has no column {given!r}; {nearest_names(given, names)}.")
        recognised = (name for one in known for name in names if name.strip().lower() == one)
        chosen.append(next(recognised, None) if given is None else given)
    left = [name for name in names if name not in chosen]
    across, up = (one if one is not None else left.pop(0) for one in chosen)
    if across == up:
        raise InputError(f"x and y must be two columns; got {across!r} as both.")
    return across, up


def _values(name: str, axis: Any) -> Floats:
    """Return the values of an axis."""
    if isinstance(axis, tuple):
        well = len(axis) == 3 and isinstance(axis[2], Integral) and not isinstance(axis[2], bool) and int(axis[2]) >= 1
        if not (well and all(isinstance(end, Real) and math.isfinite(end) for end in axis[:2])):
            raise InputError(
                f"The axis {name!r} as a tuple is (from, to, n), two finite numbers and a positive integer; got "
                f"{axis!r}. Give values as a list or an array."
            )
        if axis[2] > MOST_POINTS:
            raise InputError(f"The axis {name!r} has {axis[2]:,} values; the most are {MOST_POINTS:,}.")
        if axis[0] == axis[1] and axis[2] > 1:
            raise InputError(f"The axis {name!r} has {axis[2]:,} times the value {axis[0]:g}; give it as one number.")
        return np.linspace(float(axis[0]), float(axis[1]), int(axis[2]))
    try:
        values = np.atleast_1d(np.asarray(axis, dtype=np.float64))
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all() or len(np.unique(values)) < len(values):
        raise InputError(
            f"The axis {name!r} is (from, to, n), one number, or a list of finite numbers without repetition; got "
            f"{axis!r}."
        )
    return values


def _step(name: str, values: Floats) -> float:
    """Return the step of an axis of a raster, negative where the values fall."""
    if len(values) < 2:
        raise InputError(f"The size of a pixel follows from two values of {name!r} or more; got {len(values)}.")
    steps, step = np.diff(values), float(values[-1] - values[0]) / (len(values) - 1)
    if np.abs(steps - step).max() > REGULAR * abs(step):
        raise InputError(
            f"The values of {name!r} are not evenly spaced, which a raster needs: steps are from "
            f"{np.abs(steps).min():g} to {np.abs(steps).max():g}. Give (from, to, n), or use to_xarray()."
        )
    return step


def _attributes(name: str) -> dict[str, str]:
    """Return the attributes of a coordinate by the CF conventions."""
    if name.strip().lower() in EARTH.longitudes:
        return {"standard_name": "longitude", "long_name": "longitude", "units": "degrees_east", "axis": "X"}
    if name.strip().lower() in EARTH.latitudes:
        return {"standard_name": "latitude", "long_name": "latitude", "units": "degrees_north", "axis": "Y"}
    return {"long_name": name}
