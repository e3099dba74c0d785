"""Tables of geopandas: points become columns of coordinates."""

from typing import TYPE_CHECKING, Any

from lmgp.errors import InputError

if TYPE_CHECKING:
    import pandas


def has_geometry(X: Any) -> bool:
    """Say whether this is a GeoDataFrame or a GeoSeries; geopandas is not imported."""
    return any(cls.__module__.partition(".")[0] == "geopandas" for cls in type(X).__mro__) and hasattr(X, "crs")


def without_geometry(X: Any) -> "tuple[pandas.DataFrame, Any]":
    """Return a table of geopandas with two columns in place of its points, and their reference system.

    Parameters
    ----------
    X : GeoDataFrame or GeoSeries
        Of points.

    Returns
    -------
    pandas.DataFrame
        The first columns are longitude and latitude where the reference system is geographic, and x and y elsewhere;
        the others follow.
    pyproj.CRS or None

    Raises
    ------
    InputError
        If a geometry is missing or no point, or a column has the name of a coordinate.
    """
    import pandas

    points = X.geometry
    if other := sorted(set(points.geom_type.dropna()) - {"Point"}):
        raise InputError(
            f"Geometries must be points; got {', '.join(other)}. Give the point that stands for each, "
            "X.set_geometry(X.representative_point()); averages over areas are predicted by lmgp.predict_areas."
        )
    if lacking := int((points.isna() | points.is_empty).sum()):
        raise InputError(f"{lacking:,} of {len(X):,} rows have no point: leave these rows out.")
    across, up = ("longitude", "latitude") if points.crs is not None and points.crs.is_geographic else ("x", "y")
    places = pandas.DataFrame({across: points.x, up: points.y}, index=X.index)
    others = pandas.DataFrame(X).drop(columns=points.name) if X.ndim == 2 else pandas.DataFrame(index=X.index)
    if taken := [name for name in (across, up) if name in others.columns]:
        raise InputError(
            f"X has a column {taken[0]!r} beside its geometry, whose points become {across} and {up}: leave the column "
            "out, or rename it."
        )
    return pandas.concat([places, others], axis=1), points.crs
