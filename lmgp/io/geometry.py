"""Tables of geopandas: points become columns of coordinates."""

from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from lmgp.errors import DatasetError, InputError

if TYPE_CHECKING:
    import pandas

# Files of geographic features by their endings, and what writes them.
DRIVERS = {".gpkg": "GPKG", ".geojson": "GeoJSON", ".fgb": "FlatGeobuf"}
# What the coordinates of points are called: in degrees, and in the units of a projection.
DEGREES, PROJECTED = ("longitude", "latitude"), ("x", "y")


def check_installed(package: str, what: str) -> None:
    """Say what to do where a package of the extra "spatial" is not installed, by an ImportError."""
    if find_spec(package) is None:
        raise ImportError(f'{package} is not installed, which {what} need: pip install "lmgp[spatial]".')


def has_geometry(X: Any) -> bool:
    """Say whether this is a GeoDataFrame or a GeoSeries; geopandas is not imported."""
    return any(cls.__module__.partition(".")[0] == "geopandas" for cls in type(X).__mro__) and hasattr(X, "crs")


def without_geometry(X: Any, incomplete: bool = False) -> "tuple[pandas.DataFrame, Any]":
    """Return a table of geopandas with two columns in place of its points, and their reference system.

    Parameters
    ----------
    X : GeoDataFrame or GeoSeries
        Of points.
    incomplete : bool, default=False
        Whether rows may lack a point, whose coordinates are then not numbers.

    Returns
    -------
    pandas.DataFrame
        The first columns are longitude and latitude where the reference system is geographic, and x and y elsewhere;
        the others follow.
    pyproj.CRS or None

    Raises
    ------
    InputError
        If a geometry is missing or no point, angles are not in degrees, or a column has the name of a coordinate.
    """
    import pandas

    points = X.geometry
    if other := sorted(set(points.geom_type.dropna()) - {"Point"}):
        raise InputError(
            f"Geometries must be points; got {', '.join(other)}. Give the point that stands for each, "
            "X.set_geometry(X.representative_point()); averages over areas are predicted by lmgp.predict_areas."
        )
    if not incomplete and (lacking := int((points.isna() | points.is_empty).sum())):
        raise InputError(f"{lacking:,} of {len(X):,} rows have no point: leave these rows out (lmgp: --drop).")
    across, up = place_names(points.crs)
    if across in DEGREES and not in_degrees(points.crs):
        raise InputError(
            f"The coordinates are in the unit {points.crs.axis_info[0].unit_name}, and must be in degrees: give them "
            "by .to_crs('EPSG:4326')."
        )
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


def place_names(crs: Any) -> tuple[str, str]:
    """Return what the coordinates of points in a reference system are called."""
    return DEGREES if crs is not None and crs.is_geographic else PROJECTED


def in_degrees(crs: Any) -> bool:
    """Say whether a reference system has longitudes and latitudes in degrees."""
    return crs.is_geographic and crs.axis_info[0].unit_name.startswith("degree")


def with_geometry(frame: "pandas.DataFrame", names: tuple[str, str], crs: Any) -> Any:
    """Return a GeoDataFrame with points in place of two columns, the inverse of `without_geometry`."""
    import geopandas

    points = geopandas.points_from_xy(*(frame[name] for name in names))
    return geopandas.GeoDataFrame(frame.drop(columns=list(names)), geometry=points, crs=crs)


def read_features(path: Path) -> Any:
    """Read a file of points as a GeoDataFrame.

    Raises
    ------
    DatasetError
        If it cannot be read, or has no geometries.
    """
    try:
        check_installed("geopandas", "files of geographic features")
        import geopandas

        frame = geopandas.read_file(path)
    except ImportError as error:
        raise DatasetError(f"{path}: {error}") from None
    except (RuntimeError, OSError, ValueError) as error:  # of GDAL, by pyogrio
        raise DatasetError(f"{path} could not be read as geographic features: {error}") from error
    if not has_geometry(frame):
        raise DatasetError(f"{path} has no geometries: save the table as CSV or Parquet.")
    return frame


def write_features(frame: Any, stream: BinaryIO, suffix: str) -> None:
    """Write a GeoDataFrame as a file of the kind that an ending names."""
    buffer = BytesIO()
    # The index of FlatGeobuf sorts the rows, and takes no missing points.
    options = {"SPATIAL_INDEX": "NO"} if suffix == ".fgb" else {}
    frame.to_file(buffer, driver=DRIVERS[suffix], engine="pyogrio", **options)
    stream.write(buffer.getvalue())
