"""Predictions on grids: maps as data sets of xarray, and as GeoTIFF files."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from lmgp.columns.table import columns_of
from lmgp.data import Floats
from lmgp.errors import InputError, nearest_names
from lmgp.io.geometry import check_installed
from lmgp.kernels.sphere import LATITUDES, LONGITUDES
from lmgp.metrics.scorers import last_step, predicted_distribution
from lmgp.saving.output import PathLike, whole_file

if TYPE_CHECKING:
    import xarray

Axis = float | tuple[float, float, int] | ArrayLike

# Points of a grid. More are more than a prediction is wanted of, and a mistake.
MOST_POINTS = 10**8

# Points that are predicted at a time.
CHUNK = 2**16

# A step of a raster may differ from the others by this share: places that were written with six digits.
REGULAR = 1e-4

# Names of columns, in lower case, that are the x and the y of a map. Longitude and latitude come first.
ACROSS = (*LONGITUDES, "x", "easting", "eastings", "east", "e")
UP = (*LATITUDES, "y", "northing", "northings", "north", "n")

# What is predicted: the names of variables, and their titles.
TITLES = {
    "mean": "predicted mean",
    "std": "standard deviation",
    "lower": "lower end of the interval",
    "upper": "upper end of the interval",
}


def predict_grid(
    model: Any,
    axes: Mapping[str, Axis],
    *,
    x: str | None = None,
    y: str | None = None,
    return_std: bool = True,
    include_noise: bool = False,
    level: float | None = None,
    method: Literal["distribution", "conformal"] = "distribution",
    average_over: int = 1,
    target: str | None = None,
    units: str | None = None,
) -> "xarray.Dataset":
    """Predict every combination of some values of the columns: a map.

    Needs xarray: ``pip install "lmgp[spatial]"``.

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
        Whether these are of a new observation, with its noise, instead of the latent function. Off by default: a map
        shows the function.
    level : float, optional
        The probability of an interval around the mean, such as 0.95.
    method : {"distribution", "conformal"}, default="distribution"
        How it is made, see `ExactGPRegressor.predict_interval`.
    average_over : int, default=1
        How many points along each side of the raster's cell around a point the function is averaged over, as
        `predict_areas` averages it over areas; 1 is the point itself. Of the function, without intervals.
    target : str, optional
        What is predicted, for the long names: "price" makes "predicted mean of price".
    units : str, optional
        Of the target, such as "degC".

    Returns
    -------
    xarray.Dataset
        The variables mean, and std, lower and upper where they are asked for, with long names and units by the CF
        conventions. Their last two dimensions are y from north to south and x from west to east, whatever the order of
        the values given; the first is "target" of a model of several. ``.to_netcdf(path)`` writes it, and
        `write_geotiff`.

    Raises
    ------
    InputError
        If a column has no axis, an axis is no column or has no such values, or there are more than 10⁸ points.
    ImportError
        If xarray is not installed.

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
    >>> grid["mean"].dims, grid["mean"].shape
    (('x1', 'x0'), (2, 3))
    >>> grid["mean"].values[:, 0].round(3)  # the northern row first
    array([3., 1.])
    """
    check_is_fitted(model)
    check_installed("xarray", "grids")
    import xarray

    if isinstance(average_over, bool) or not isinstance(average_over, Integral) or average_over < 1:
        raise InputError(f"average_over is a positive number of points; got {average_over!r}.")
    if level is not None and not (isinstance(level, Real) and 0.0 < level < 1.0):
        raise InputError(f"level is the probability of an interval, between 0 and 1; got {level!r}.")
    names = column_names(model)
    if not isinstance(axes, Mapping):
        example = ", ".join(f"{name!r}: (0.0, 1.0, 50)" for name in names)
        raise InputError(f"axes is a dictionary with an axis of each column, such as {{{example}}}; got {axes!r}.")
    across, up = of_map(x, y, names)
    values = checked_axes(axes, names)
    order = (*(name for name in values if name not in (across, up)), up, across)
    grid = {name: np.sort(values[name])[:: -1 if name == up else 1] for name in order}
    if average_over == 1:
        parts = [predicted(model, rows, return_std, include_noise, level, method) for rows in grid_rows(grid, names)]
    else:
        if include_noise or level is not None:
            raise InputError("average_over is of the function: leave out include_noise and level.")
        steps = np.array([_step(name, grid[name]) if name in (across, up) else 0.0 for name in names])
        places = [names.index(name) for name in (across, up)]
        parts = [cell_averages(model, rows, steps, places, average_over) for rows in grid_rows(grid, names)]
    shape, dimensions = tuple(map(len, grid.values())), order
    coordinates: dict[str, Any] = {name: (name, points, _attributes(name)) for name, points in grid.items()}
    coordinates[up][2]["axis"], coordinates[across][2]["axis"] = "Y", "X"
    if parts[0]["mean"].ndim == 2:
        n_targets = parts[0]["mean"].shape[1]
        shape, dimensions = (n_targets, *shape), ("target", *order)
        coordinates["target"] = list(map(str, getattr(model, "target_names_", range(n_targets))))
    whose = "a new observation" if include_noise else "the function"
    comments = {"std": f"of {whose}", **dict.fromkeys(("lower", "upper"), f"of {whose}, with probability {level}")}
    variables = {}
    for name in parts[0]:
        attributes = {
            "long_name": TITLES[name] + ("" if target is None else f" of {target}"),
            "comment": comments.get(name),
            "units": units,
        }
        array = np.concatenate([part[name] for part in parts]).T.reshape(shape)
        variables[name] = dimensions, array, {key: text for key, text in attributes.items() if text is not None}
    columns = columns_of(model)
    system = None if columns is None else columns.crs
    of_grid = {"Conventions": "CF-1.8", "source": "lmgp"} | ({} if system is None else {"crs": system})
    return xarray.Dataset(variables, coordinates, of_grid)


def write_geotiff(grid: "xarray.Dataset", path: PathLike) -> None:
    """Write what `predict_grid` returned as a GeoTIFF file, which appears whole.

    Points of the grid are the centres of pixels. There is a band for each variable and each combination of values of
    further columns, such as "mean, day=3". The reference system is that of the GeoDataFrame to which the model was
    fitted; of other columns of longitudes and latitudes it is WGS 84.
    Needs rioxarray: ``pip install "lmgp[spatial]"``.

    Parameters
    ----------
    grid : xarray.Dataset
    path : path

    Raises
    ------
    InputError
        If x or y has fewer than two values, or they are not evenly spaced.
    OutputError
        If the file cannot be written.
    ImportError
        If rioxarray is not installed.
    """
    check_installed("rioxarray", "grids")
    import rioxarray  # noqa: F401, which gives arrays their `rio`
    import xarray

    *others, up, across = grid["mean"].dims
    for name in (up, across):
        _check_even(str(name), grid[name].values)
    bands = np.concatenate([of.values.reshape(-1, grid.sizes[up], grid.sizes[across]) for of in grid.values()])
    places = list(product(*(grid[name].values for name in others)))
    names = [", ".join([str(name), *map("{}={}".format, others, place)]) for name in grid for place in places]
    coordinates = {"y": grid[up].values, "x": grid[across].values}
    raster = xarray.DataArray(bands, coordinates, ("band", "y", "x"), attrs={"long_name": names})
    system = grid.attrs.get("crs", "EPSG:4326" if grid[across].attrs.get("units") == "degrees_east" else None)
    if system is not None:
        raster = raster.rio.write_crs(system)
    with whole_file(path) as stream:
        raster.rio.to_raster(stream.name, driver="GTiff")


def column_names(model: Any) -> tuple[str, ...]:
    """Return the names of the columns of a fitted model: x0, x1, ... where it knows none."""
    known = getattr(model, "feature_names_in_", None)
    return tuple(f"x{j}" for j in range(model.n_features_in_)) if known is None else tuple(map(str, known))


def checked_axes(axes: Mapping[str, Axis], names: Sequence[str]) -> dict[str, Floats]:
    """Return the values of each axis; refuse axes of other columns than those of a model, and too many points."""
    refuse_taken_names(names)
    values = {name: _values(name, axis) for name, axis in axes.items()}
    for name in values:
        if name not in names:
            raise InputError(f"The model has no column {name!r} for the grid; {nearest_names(str(name), names)}.")
    if missing := [name for name in names if name not in values]:
        raise InputError(f"The grid needs an axis of each column; missing are {', '.join(missing)}.")
    n_points = math.prod(map(len, values.values()))
    if n_points > MOST_POINTS:
        raise InputError(f"The grid has {n_points:,} points; the most are {MOST_POINTS:,}. Give smaller numbers.")
    return values


def refuse_taken_names(columns: Iterable[str]) -> None:
    """Refuse columns of a model beside which predictions of the same name would stand."""
    if taken := sorted({*TITLES, "target"} & set(columns)):
        raise InputError(
            f"The model has a column {taken[0]!r}, and so have its predictions. Fit a model to a table in which it has "
            "another name, or predict a table, whose predictions stand by themselves."
        )


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
    model: Any,
    rows: Any,
    return_std: bool = True,
    include_noise: bool = False,
    level: float | None = None,
    method: str = "distribution",
    verbose: bool = False,
) -> dict[str, Floats]:
    """Predict rows whose columns are those of the model: the variables of `TITLES`, each of shape (n,) or (n, t)."""
    end, rows = last_step(model, with_names(model, rows))
    shown = {"verbose": True} if verbose else {}
    if not return_std and level is None:
        return {"mean": end.predict(rows, **shown)}
    if include_noise:
        distribution = predicted_distribution(end, rows, **shown)
        found = {"mean": distribution.mean(), "std": distribution.std()}
    else:
        found = dict(zip(("mean", "std"), end.predict(rows, return_std=True, **shown), strict=True))
    if level is None:
        return found
    if include_noise and method == "distribution":
        ends = distribution.interval(level)
    else:
        ends = end.predict_interval(rows, level, include_noise=include_noise, method=method)
    return found | dict(zip(("lower", "upper"), ends, strict=True))


def average(model: Any, rows: Floats, weights: Floats) -> tuple[float, float]:
    """Return the mean and the standard deviation of a weighted sum of the function at rows, shape (k, d)."""
    end, table = last_step(model, with_names(model, rows))
    mean, covariance = end.predict(table, return_cov=True)
    if mean.ndim > 1:
        raise InputError(f"Averages are of models of one target; got one of {mean.shape[1]}.")
    return float(weights @ mean), math.sqrt(max(float(weights @ covariance @ weights), 0.0))


def with_names(model: Any, rows: Any) -> Any:
    """Return rows as a data frame, if the model knows the names of its columns."""
    if getattr(model, "feature_names_in_", None) is None or hasattr(rows, "iloc"):
        return rows
    import pandas

    return pandas.DataFrame(rows, columns=column_names(model), copy=False)


def of_map(x: str | None, y: str | None, names: Sequence[str]) -> tuple[str, str]:
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
                f"The axis {name!r} is (from, to, n), two finite numbers and a positive integer; got {axis!r}. Give "
                "single values as a list or an array."
            )
        if axis[2] > MOST_POINTS:
            raise InputError(f"The axis {name!r} has {axis[2]:,} values; the most are {MOST_POINTS:,}.")
        if axis[0] == axis[1] and axis[2] > 1:
            raise InputError(f"The axis {name!r} has {axis[2]:,} times the value {axis[0]:g}; give it as one number.")
        return np.linspace(float(axis[0]), float(axis[1]), int(axis[2]))
    try:
        dates = np.asarray(axis)
        days = (dates - np.datetime64(0, "us")) / np.timedelta64(1, "D") if dates.dtype.kind == "M" else axis
        values = np.atleast_1d(np.asarray(days, dtype=np.float64))
    except (TypeError, ValueError):
        values = np.array([np.nan])
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all() or len(np.unique(values)) < len(values):
        raise InputError(
            f"The axis {name!r} is (from, to, n), one number, or a list of finite numbers without repetition; got "
            f"{axis!r}."
        )
    return values


def cell_averages(model: Any, rows: Floats, steps: Floats, places: Sequence[int], n: int) -> dict[str, Floats]:
    """Average the function over cells around rows, from n × n points of each: `mean` and `std`, shape (m,)."""
    inside = (np.arange(n) + 0.5) / n - 0.5
    points = np.zeros((n * n, rows.shape[1]))
    points[:, places[0]], points[:, places[1]] = np.repeat(inside, n), np.tile(inside, n)
    weights = np.full(len(points), 1.0 / len(points))
    mean, std = np.array([average(model, row + steps * points, weights) for row in rows]).T
    return {"mean": mean, "std": std}


def _step(name: str, values: Floats) -> float:
    """Return the length of a cell along an axis."""
    _check_even(name, values)
    return float(abs(values[1] - values[0]))


def _check_even(name: str, values: Floats) -> None:
    """Refuse the values of an axis that are not those of pixels."""
    if len(values) < 2:
        raise InputError(f"The size of a pixel follows from two values of {name!r} or more; got {len(values)}.")
    steps, step = np.diff(values), float(values[-1] - values[0]) / (len(values) - 1)
    if np.abs(steps - step).max() > REGULAR * abs(step):
        raise InputError(
            f"The values of {name!r} are not evenly spaced, which a raster needs: steps are from "
            f"{np.abs(steps).min():g} to {np.abs(steps).max():g}. Give (from, to, n), or write netCDF."
        )


def _attributes(name: str) -> dict[str, str]:
    """Return the attributes of a coordinate by the CF conventions."""
    if name.strip().lower() in LONGITUDES:
        return {"standard_name": "longitude", "long_name": "longitude", "units": "degrees_east"}
    if name.strip().lower() in LATITUDES:
        return {"standard_name": "latitude", "long_name": "latitude", "units": "degrees_north"}
    return {"long_name": name}
