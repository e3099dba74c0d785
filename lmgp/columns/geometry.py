"""Tables of geopandas: points become columns of coordinates."""

from typing import TYPE_CHECKING, Any

from lmgp.errors import InputError
from lmgp.metrics.scorers import end_of

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


def refuse_other_system(system: Any, of_training: str | None) -> None:
    """Refuse a reference system, of pyproj, that is not that of the training rows; None is any."""
    if system is not None and of_training is not None and system != of_training:
        raise InputError(
            f"The geometries are in the reference system {system.to_string()}, and those of the training rows were in "
            f"{of_training}: give them by .to_crs({of_training!r})."
        )


def reference_system(model: Any) -> str | None:
    """Return the reference system of the points to which a model was fitted, if it knows one."""
    columns = getattr(model_of_columns(model), "columns_", None)
    return None if columns is None else columns.crs


def model_of_columns(model: Any) -> Any:
    """Return the Gaussian process that reads the columns of a search, a pipeline, or one of several targets."""
    end = end_of(model)
    for name in ("estimators_", "regressor_"):
        inner = getattr(end, name, None)
        end = end if inner is None else end_of(inner[0] if name == "estimators_" else inner)
    return end
