"""Averages over areas, with their standard deviations: block kriging."""

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from lmgp.columns.table import column_names, columns_of
from lmgp.data import Floats
from lmgp.errors import InputError
from lmgp.grids import averages, check_model, of_map
from lmgp.io.geometry import check_installed, has_geometry, in_degrees, refuse_other_system
from lmgp.kernels.sphere import LATITUDES
from lmgp.utils.parameters import checked_count

if TYPE_CHECKING:
    import geopandas

# The number of points that stand for an area.
N_POINTS = 64
# The most places of a lattice in the extent of an area.
MOST_PLACES = 10_000_000


def predict_areas(model: Any, areas: Any, n_points: int = N_POINTS) -> "geopandas.GeoDataFrame":
    """Predict averages of the function over areas, by block kriging.

    Needs geopandas: ``pip install "lmgp[spatial]"``.

    Parameters
    ----------
    model : fitted regressor
        Of this package and of one target, or a pipeline that ends in one. Two of its columns are coordinates: those of
        the points of a GeoDataFrame, or else those that are x and y of a map in `predict_grid`.
    areas : GeoDataFrame or GeoSeries
        Polygons. A model with further columns takes their values from columns of these names.
    n_points : int, default=64
        About how many points stand for an area: the centroids of the parts of it in the cells of a regular lattice. At
        its edge the cells are cut, so that there are some more, and many more of a thin area that lies aslant.

    Returns
    -------
    GeoDataFrame
        The areas, with their columns and two more, "mean" and "std", in units of y: the mean and the standard deviation
        of the average of the function over the area, without the noise of observations.

    Raises
    ------
    InputError
        If a geometry is no area, a column is missing or is called "mean" or "std", or the reference system is not that
        of the training rows.
    ImportError
        If geopandas is not installed.

    Notes
    -----
    With points x₁ to x_k of weights wᵢ that sum to one, proportional to the areas of their parts, in degrees times the
    cosine of the latitude, the mean is Σ wᵢ m(xᵢ), and the variance Σ wᵢ wⱼ c(xᵢ, xⱼ), with the posterior mean m and
    covariance c. Without degrees, the average of a linear function is exact; more points only change what the function
    bends within a part.

    References
    ----------
    J.-P. Chilès and P. Delfiner, *Geostatistics: Modeling Spatial Uncertainty*, Wiley, 2012, section 3.5.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from lmgp import ExactGPRegressor, GaussianKernel, predict_areas
    >>> X = pd.DataFrame(np.random.default_rng(0).uniform(0, 4, (80, 2)), columns=["x", "y"])
    >>> model = ExactGPRegressor(GaussianKernel(1.0), 0.01).fit(X, np.sin(X["x"]))
    >>> import geopandas, shapely
    >>> areas = geopandas.GeoSeries([shapely.box(0, 0, 2, 2), shapely.box(2, 2, 4, 4)])
    >>> predict_areas(model, areas)["mean"].round(1).tolist()
    [0.7, 0.1]
    """
    check_model(model)
    check_installed("geopandas", "areas")
    import geopandas
    import pandas
    import shapely

    if not has_geometry(areas):
        raise InputError(f"areas must be a GeoDataFrame or a GeoSeries of polygons; got a {type(areas).__name__}.")
    checked_count(n_points, "n_points must be a positive integer")
    shapes = areas.geometry
    if wrong := sorted(set(shapes.geom_type.map(str)) - {"Polygon", "MultiPolygon"}):
        raise InputError(f"Areas must be polygons; got {', '.join(wrong)}.")
    # What an invalid polygon covers, without its holes: its own area counts parts that are gone around in the other
    # direction as negative ones.
    polygons = shapely.make_valid(np.asarray(shapes), method="structure", keep_collapsed=False)
    if empty := np.count_nonzero(shapely.area(polygons) == 0.0):
        raise InputError(f"{empty:,} of {len(shapes):,} areas have no extent: leave them out.")
    columns = columns_of(model)
    refuse_other_system(shapes.crs, None if columns is None else columns.crs)
    names = column_names(model)
    across, up = of_map(None, None, names)
    if up.strip().lower() in LATITUDES and shapes.crs is not None and not in_degrees(shapes.crs):
        raise InputError(
            f"The model is of {across} and {up}, in degrees, and areas are in the reference system "
            f"{shapes.crs.to_string()}: give them by .to_crs('EPSG:4326')."
        )
    others = [name for name in names if name not in (across, up)]
    if missing := [name for name in others if areas.ndim == 1 or name not in areas.columns]:
        raise InputError(
            f"The model has the column {missing[0]!r} beside {across} and {up}: areas must have it, too, with a value "
            "for each area."
        )
    table = geopandas.GeoDataFrame(geometry=shapes) if areas.ndim == 1 else areas
    if taken := sorted({"mean", "std"} & set(table.columns)):
        raise InputError(f"areas have a column {taken[0]!r}, which the prediction would replace: rename it.")

    def points_within(place: int) -> tuple[pandas.DataFrame, Floats]:
        points, shares = lattice(polygons[place], n_points)
        rows = {across: points[:, 0], up: points[:, 1]}
        rows |= {name: areas[name].iloc[np.full(len(points), place)].array for name in others}
        return pandas.DataFrame({name: rows[name] for name in names}), shares

    return table.assign(**averages(model, map(points_within, range(len(shapes))), (up,)))


def lattice(area: Any, n_points: int) -> tuple[Floats, Floats]:
    """Return the centroids, shape (k, 2), of the about `n_points` parts of an area in cells, and their shares of it."""
    import shapely

    shapely.prepare(area)
    left, low, right, high = area.bounds
    n_columns, n_rows = (
        max(1, round(length / math.sqrt(area.area / n_points))) for length in (right - left, high - low)
    )
    if 1 in (n_columns, n_rows):  # of a strip
        n_columns, n_rows = min(n_columns, n_points), min(n_rows, n_points)
    if n_columns * n_rows > MOST_PLACES:
        raise InputError(
            f"An area of {area.area:.3g} square units has an extent of {(right - left) * (high - low):.3g}, for "
            "which a lattice has too many places. Predict its parts, areas.explode(), and weigh them by their areas."
        )
    x, y = np.linspace(left, right, n_columns + 1), np.linspace(low, high, n_rows + 1)
    rows = (shapely.box(x[:-1], below, x[1:], above) for below, above in pairwise(y))
    parts = shapely.intersection(np.concatenate([cells[shapely.intersects(area, cells)] for cells in rows]), area)
    sizes = shapely.area(parts)
    kept = sizes > 0.0
    return shapely.get_coordinates(shapely.centroid(parts[kept])), sizes[kept] / sizes.sum()
