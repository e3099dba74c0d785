"""Predictions on grids: maps as data sets of xarray, and as GeoTIFF files."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from lmgp.columns.dates import Dates
from lmgp.columns.places import OnSphere
from lmgp.columns.table import column_names, columns_of
from lmgp.data import Floats
from lmgp.errors import InputError, nearest_names
from lmgp.io.geometry import check_installed
from lmgp.kernels.sphere import LATITUDES, LONGITUDES, SphericalCoordinates
from lmgp.metrics.scorers import last_step, predicted_distribution
from lmgp.saving.output import PathLike, whole_file
from lmgp.utils.dates import EPOCH, days_since, times_after, times_of
from lmgp.utils.parameters import checked_count

if TYPE_CHECKING:
    import pandas
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

# How files have dates: netCDF 3 has no integers of 64 bits.
DAYS = {"units": "days since 1970-01-01", "dtype": "float64"}

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
        For each column of the model a tuple (from, to, n) of n numbers or dates, both ends included; one number; or a
        list or an array of values, such as dates or categories. The columns of a model that was fitted to an array are
        x0, x1, ...
    x, y : str, optional
        The columns that are x and y of the map. If not given, those named lon, longitude, lng, x, easting, eastings,
        east or e, and lat, latitude, y, northing, northings, north or n, in any case; of other names the two first
        columns of the model, x first.
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
    check_model(model)
    check_installed("xarray", "grids")
    import pandas
    import xarray

    checked_count(average_over, "average_over is a positive number of points")
    if level is not None and not (isinstance(level, Real) and 0.0 < level < 1.0):
        raise InputError(f"level is the probability of an interval, between 0 and 1; got {level!r}.")
    if method not in ("distribution", "conformal"):
        raise InputError(f"method must be 'distribution' or 'conformal'; got {method!r}.")
    names = column_names(model)
    if not isinstance(axes, Mapping):
        example = ", ".join(f"{name!r}: (0.0, 1.0, 50)" for name in names)
        raise InputError(f"axes is a dictionary with an axis of each column, such as {{{example}}}; got {axes!r}.")
    across, up = of_map(x, y, names)
    values, columns = checked_axes(axes, names), columns_of(model)
    of_dates = set() if columns is None else columns.names_of(Dates) & values.keys()
    values |= {name: dates for name in of_dates if (dates := _dates(values[name])) is not None}  # which may be text
    order = (*(name for name in values if name not in (across, up)), up, across)
    grid = {name: np.sort(values[name])[:: -1 if name == up else 1] for name in order}
    of_dates = {name for name in of_dates if grid[name].dtype.kind == "M"}
    of_rows = grid | {name: pandas.DatetimeIndex(grid[name], tz="UTC") for name in of_dates}
    if average_over == 1:
        parts = [predicted(model, rows, return_std, include_noise, level, method) for rows in grid_rows(of_rows, names)]
    else:
        if include_noise or level is not None:
            raise InputError("average_over is of the function: leave out include_noise and level.")
        steps = np.array([_step(name, grid[name]) if name in (across, up) else 0.0 for name in names])
        places = [names.index(name) for name in (across, up)]
        parts = [cell_averages(model, rows, steps, places, average_over) for rows in grid_rows(of_rows, names)]
        parts = parts if return_std else [{"mean": part["mean"]} for part in parts]
    shape, dimensions = tuple(map(len, grid.values())), order
    coordinates: dict[str, Any] = {
        name: (name, points, _attributes(name), DAYS if points.dtype.kind == "M" else {})
        for name, points in grid.items()
    }
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
    names = [", ".join([str(name), *map(_band_name, others, place)]) for name in grid for place in places]
    coordinates = {"y": grid[up].values, "x": grid[across].values}
    raster = xarray.DataArray(bands, coordinates, ("band", "y", "x"), attrs={"long_name": names})
    system = grid.attrs.get("crs", "EPSG:4326" if grid[across].attrs.get("units") == "degrees_east" else None)
    if system is not None:
        raster = raster.rio.write_crs(system)
    with whole_file(path) as stream:
        raster.rio.to_raster(stream.name, driver="GTiff")


def check_model(model: Any) -> None:
    """Refuse what is no fitted model, such as rows in its place."""
    if not hasattr(model, "fit"):
        raise InputError(f"A fitted model comes first; got a {type(model).__name__}.")
    check_is_fitted(model)


def checked_axes(axes: Mapping[str, Axis], names: Sequence[str]) -> dict[str, NDArray[Any]]:
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


def refuse_taken_names(columns: Iterable[str], whose: str = "model", targets: Iterable[str] = ()) -> None:
    """Refuse columns beside which predictions of the same name, or those of some targets, would stand."""
    of_targets = {f"{target}_{name}" for target in targets for name in TITLES}
    if taken := sorted({*TITLES, "target", *of_targets} & set(columns)):
        cure = "Rename it, or write"
        if whose == "model":
            cure = "Fit a model to a table in which it has another name, or predict a table to"
        raise InputError(
            f"The {whose} has a column {taken[0]!r}, and so have predictions. {cure} a .csv file, in which these stand "
            "by themselves."
        )


def grid_rows(axes: Mapping[str, NDArray[Any]], names: Sequence[str], chunk: int = CHUNK) -> Iterator[Any]:
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
    ndarray or DataFrame of shape (at most chunk, d)
        A data frame where some values are dates or text.
    """
    shape = tuple(map(len, axes.values()))
    places = [list(axes).index(name) for name in names]
    for start in range(0, math.prod(shape), chunk):
        index = np.unravel_index(np.arange(start, min(start + chunk, math.prod(shape))), shape)
        columns = {name: axes[name][index[place]] for name, place in zip(names, places, strict=True)}
        if all(values.dtype.kind == "f" for values in columns.values()):
            yield np.column_stack(list(columns.values()))
        else:
            import pandas

            yield pandas.DataFrame(columns)


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
        variables = {"mean": distribution.mean(), "std": distribution.std()}
    else:
        variables = dict(zip(("mean", "std"), end.predict(rows, return_std=True, **shown), strict=True))
    if level is None:
        return variables
    if include_noise and method == "distribution":
        ends = distribution.interval(level)
    else:
        ends = end.predict_interval(rows, level, include_noise=include_noise, method=method)
    variables |= dict(zip(("lower", "upper"), ends, strict=True))
    return variables if return_std else {name: values for name, values in variables.items() if name != "std"}


def averages(
    model: Any, tables: "Iterable[tuple[pandas.DataFrame, float | Floats]]", places: Sequence[str]
) -> dict[str, Floats]:
    """Average the function over the points of each table, which stand for areas: `mean` and `std`, shape (m,).

    Meridians converge: where one of the columns is the latitude, points stand for less area towards a pole.
    """
    latitude, pairs = next((name for name in places if name.strip().lower() in LATITUDES), None), []
    for table, areas in tables:
        widths = np.ones(len(table)) if latitude is None else np.cos(np.radians(np.asarray(table[latitude])))
        weights = areas * widths / (areas * widths).sum()
        end, rows = last_step(model, with_names(model, table))
        mean, covariance = end.predict(rows, return_cov=True)
        if mean.ndim > 1:
            raise InputError(f"Averages are of models of one target; got one of {mean.shape[1]}.")
        pairs.append((float(weights @ mean), math.sqrt(max(float(weights @ covariance @ weights), 0.0))))
    return dict(zip(("mean", "std"), np.array(pairs).reshape(-1, 2).T, strict=True))


def with_names(model: Any, rows: Any) -> Any:
    """Return rows as a data frame if the model knows the names of its columns, and as an array if not."""
    if getattr(model, "feature_names_in_", None) is None:
        return rows.to_numpy() if hasattr(rows, "iloc") else rows
    if hasattr(rows, "iloc"):
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
        recognised = (name for label in known for name in names if name.strip().lower() == label)
        chosen.append(next(recognised, None) if given is None else given)
    left = [name for name in names if name not in chosen]
    across, up = (name if name is not None else left.pop(0) for name in chosen)
    if across == up:
        raise InputError(f"x and y must be two columns; got {across!r} as both.")
    return across, up


def _values(name: str, axis: Any) -> NDArray[Any]:
    """Return the values of an axis: numbers, times or text."""
    if isinstance(axis, tuple):
        well = len(axis) == 3 and isinstance(axis[2], Integral) and not isinstance(axis[2], bool) and int(axis[2]) >= 1
        numbers = well and all(isinstance(end, Real) and math.isfinite(end) for end in axis[:2])
        dates = None if numbers or not well else _dates(axis[:2])
        if not numbers and dates is None:
            raise InputError(
                f"The axis {name!r} is (from, to, n), two finite numbers or dates and a positive integer; got "
                f"{axis!r}. Give single values as a list or an array."
            )
        if axis[2] > MOST_POINTS:
            raise InputError(f"The axis {name!r} has {axis[2]:,} values; the most are {MOST_POINTS:,}.")
        if axis[0] == axis[1] and axis[2] > 1:
            raise InputError(f"The axis {name!r} has {axis[2]:,} times the value {axis[0]}; give it as one value.")
        first, last = axis[:2] if dates is None else days_since(EPOCH, dates)
        values = np.linspace(float(first), float(last), int(axis[2]))
        return values if dates is None else times_after(EPOCH, values)
    values = np.atleast_1d(np.asarray(axis))
    if all(isinstance(value, str) for value in values.flat):
        values = values.astype(object)
    else:
        try:
            dates = _dates(values)
            values = np.asarray(values, dtype=np.float64) if dates is None else dates
        except (TypeError, ValueError):
            values = np.array([np.nan])
    missing = values.dtype.kind != "O" and not np.isfinite(values).all()
    if values.ndim != 1 or not len(values) or missing or len(np.unique(values)) < len(values):
        raise InputError(
            f"The axis {name!r} is (from, to, n), one value, or a list of finite numbers, dates or text, without "
            f"repetition; got {axis!r}."
        )
    return values


def _dates(values: Any) -> NDArray[Any] | None:
    """Return dates in microseconds, those of a zone in UTC; None where one is none."""
    if any(isinstance(value, Real | np.bool_) for value in values):
        return None
    import pandas

    try:
        return times_of(pandas.Series(list(values), dtype=object))
    except (TypeError, ValueError):
        return None


def cell_averages(model: Any, rows: Any, steps: Floats, places: Sequence[int], n: int) -> dict[str, Floats]:
    """Average the function over cells around rows, from n × n points of each: `mean` and `std`, shape (m,)."""
    import pandas

    inside = (np.arange(n) + 0.5) / n - 0.5
    offsets = [steps[j] * of for j, of in zip(places, (np.repeat(inside, n), np.tile(inside, n)), strict=True)]
    table = rows if hasattr(rows, "iloc") else pandas.DataFrame(rows, columns=column_names(model))
    names, columns = table.columns[list(places)], columns_of(model)
    before = [step for _, step in getattr(model, "steps", ()) if isinstance(step, SphericalCoordinates)]
    on_sphere = bool(before) or (columns is not None and OnSphere() in columns.kinds)

    def points_around(i: int) -> tuple[pandas.DataFrame, float]:
        points, pairs = table.iloc[np.full(n * n, i)], zip(names, offsets, strict=True)
        return points.assign(**{name: _within(name, points[name] + offset, on_sphere) for name, offset in pairs}), 1.0

    return averages(model, map(points_around, range(len(table))), names)


def _within(name: str, values: Any, on_sphere: bool) -> Any:
    """Return degrees beyond a pole as those on this side of it, and beyond the date line as those of the same places.

    A model of a plane has no date line: other longitudes are other places.
    """
    if name.strip().lower() in LATITUDES:
        return 90.0 - np.abs(90.0 - (np.abs(90.0 + values) - 90.0))
    if on_sphere and name.strip().lower() in LONGITUDES:
        return np.where((values < -180.0) | (values > 360.0), (values + 180.0) % 360.0 - 180.0, values)
    return values


def _band_name(name: Any, value: Any) -> str:
    """Return what a band is called by a value of a further column, such as day=3 or day=2020-01-31."""
    return f"{name}={np.datetime_as_string(value, 'auto') if isinstance(value, np.datetime64) else value}"


def _step(name: str, values: NDArray[Any]) -> float:
    """Return the length of a cell along an axis."""
    _check_even(name, values)
    return float(abs(values[1] - values[0]))


def _check_even(name: str, values: NDArray[Any]) -> None:
    """Refuse the values of an axis that are not those of pixels."""
    if values.dtype.kind != "f":
        raise InputError(f"Pixels lie along two columns of numbers, and {name!r} has dates or text. Write netCDF.")
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
