"""``lmgp fit``, ``lmgp predict`` and ``lmgp info``: models of tables, in files."""

import argparse
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lmgp.cli.loaded import complete_rows, loaded_model, read_for_model, reading, table_source, target_names
from lmgp.cli.parsing import STANDARD, dialect_of
from lmgp.errors import InputError, OutputError
from lmgp.saving.output import check_place, whole_file, write_whole

if TYPE_CHECKING:
    from lmgp.data import Floats
    from lmgp.grids import Axis

_LOG = logging.getLogger(__name__)

# Endings of files that are not written: CSV under such a name would not open.
UNKNOWN = (
    ".xlsx", ".xls", ".ods", ".feather", ".arrow", ".pq", ".orc", ".json", ".shp", ".kml", ".h5", ".npy", ".pkl",
    ".html", ".lmgp", ".tar", ".zip", ".7z", ".bz2", ".xz", ".zst",
)  # fmt: skip
# Endings of files that grids alone are written to, and the package that each needs.
GRIDS = {".nc": "xarray", ".tif": "rioxarray", ".tiff": "rioxarray"}


def fit(arguments: argparse.Namespace) -> None:
    """Fit a model to a table, and write it to a file."""
    if arguments.out == STANDARD:
        raise InputError("A model is written to a file; give its name, such as --out model.lmgp.")
    if not 0 <= arguments.seed < 2**32:
        raise InputError(f"--seed must be at least 0 and below 2**32 = {2**32:,}; got {arguments.seed}.")
    _check_targets(arguments)
    check_place(arguments.out, arguments.table)  # before the work
    with reading(arguments.table):
        from lmgp.io.geometry import place_names, with_geometry
        from lmgp.io.kinds import Kinds
        from lmgp.io.tables import read_targets

        targets, source, dialect = arguments.target, table_source(arguments.table), dialect_of(arguments)
        kinds = Kinds(dict.fromkeys(targets, "numbers") | dict.fromkeys(arguments.category, "text"))
        table, complete, inputs = read_targets(
            source, targets, arguments.columns, dialect, incomplete=arguments.drop, kinds=kinds
        )
    rows, categories = complete_rows(table, complete), sorted({*kinds.levels, *arguments.category})

    import numpy as np
    import pandas as pd

    from lmgp.cli.info import facts
    from lmgp.estimators.chosen import GPRegressor
    from lmgp.estimators.several import MultiTargetGPRegressor
    from lmgp.estimators.transformed import TransformedTargetGPRegressor
    from lmgp.metrics.baselines import linear_baseline
    from lmgp.saving.files import save_with_notes

    kernel, trend = (given or ["auto"] for given in (arguments.kernel, arguments.trend))
    model: Any = GPRegressor(
        arguments.tolerance,
        kernel=kernel[0] if len(kernel) == 1 else kernel,
        noise_variance=arguments.noise_variance,
        trend=trend[0] if trend in (["auto"], ["constant"], ["linear"]) else trend,
        columns=dict.fromkeys(sorted(kinds.dates), "date") | dict.fromkeys(categories, "category") or None,
        metric=arguments.metric,
        ard="auto" if arguments.ard == "auto" else arguments.ard == "yes",
        noise=arguments.noise,
        average="auto" if arguments.average == "auto" else arguments.average == "yes",
        max_memory_gib=arguments.max_memory,
        random_state=arguments.seed,
    )
    if arguments.target_transform is not None:
        model = TransformedTargetGPRegressor(model, arguments.target_transform)
    X, y = (np.ascontiguousarray(part) for part in np.split(rows, [len(inputs)], axis=1))
    frame = kinds.frame(X, inputs)
    if kinds.crs is not None and {*(places := place_names(kinds.crs))} <= {*inputs}:
        frame = with_geometry(frame, places, kinds.crs)
    is_numeric = not categories and bool(np.isfinite(X).all())
    if len(targets) > 1:
        model = MultiTargetGPRegressor(model) if arguments.hyperparameters == "each" else model
        model.fit(frame, pd.DataFrame(y, columns=targets))
    else:
        model.fit(frame, y[:, 0], duplicates=arguments.duplicates)
    X = X[:, [inputs.index(name) for name in model.feature_names_in_]]  # points come first
    if len(targets) > 1:
        of_targets: dict[str, Any] = {"targets": list(targets)}
    else:
        baselines = {"mean of y": linear_baseline(X[:, :0], y[:, 0])}
        if is_numeric and not kinds.dates:
            baselines["linear"] = linear_baseline(X, y[:, 0])
        of_targets = {"target": targets[0], "baselines": baselines}
    notes = {
        **of_targets,
        "rows": len(rows),
        "table": "standard input" if arguments.table == STANDARD else Path(arguments.table).name,
        **({"ranges": np.column_stack((np.nanmin(X, axis=0), np.nanmax(X, axis=0))).tolist()} if is_numeric else {}),
    }
    save_with_notes(model, arguments.out, notes)
    sys.stdout.write(f"{facts(model, notes)}\n")
    _LOG.info("wrote %s", arguments.out)


def _check_targets(arguments: argparse.Namespace) -> None:
    """Tell the table from the targets before it, and refuse what several targets do not go together with."""
    if arguments.table is None and len(arguments.target) > 1:
        arguments.table = arguments.target.pop()
    if arguments.table is None:
        raise InputError("Give the table to fit to, lmgp fit TABLE --target COLUMN (see lmgp fit --help).")
    if len(arguments.target) == 1:
        return
    told = ", ".join(arguments.target)
    if len(set(arguments.target)) < len(arguments.target):
        raise InputError(f"Name each target once; got --target {told}.")
    if arguments.duplicates != "keep":
        raise InputError(f"--duplicates {arguments.duplicates} is for one target; got --target {told}.")
    if arguments.target_transform is not None and arguments.hyperparameters == "shared":
        raise InputError(
            f"Logarithms of several targets, {told}, have a kernel each: add --hyperparameters each, or leave out "
            "--target-transform."
        )


def predict(arguments: argparse.Namespace) -> None:
    """Predict a table or a grid with a model file."""
    if (arguments.table is None) == (arguments.grid is None):
        raise InputError("Give a table or a --grid to predict, and not both (see lmgp predict --help).")
    if arguments.latent and arguments.method == "conformal":
        raise InputError("--method conformal is of observations, and --latent of the function: leave out one of them.")
    suffix = Path(arguments.out).suffix.lower()
    if arguments.average_over != 1 and suffix not in GRIDS:
        raise InputError("--average-over is of a --grid that is written as .nc or .tif.")
    if arguments.average_over != 1 and arguments.method == "conformal":
        raise InputError("--average-over is of the function, without intervals: leave out --method conformal.")
    if arguments.out != STANDARD:
        check_place(arguments.out, arguments.model, arguments.table)  # before the work
    from lmgp.io.geometry import DRIVERS, read_features
    from lmgp.io.tables import write_table

    packed = Path(arguments.out.lower().removesuffix(".gz")).suffix
    if packed in UNKNOWN or (packed != suffix and packed in (".parquet", *GRIDS, *DRIVERS)):
        ending = packed if packed == suffix else packed + suffix
        raise InputError(f"{arguments.out}: files {ending} are not written; name a .csv, .csv.gz or .parquet file.")
    if suffix in GRIDS and arguments.grid is None:
        raise InputError(
            f"{arguments.out}: netCDF files and GeoTIFF files are for a --grid; of a table name a .csv, .csv.gz or "
            ".parquet file."
        )
    if suffix in GRIDS:
        _check_package(arguments.out, GRIDS[suffix], "grids")
    if suffix in DRIVERS:
        _check_package(arguments.out, "geopandas", "files of geographic features")

    model, notes = loaded_model(arguments)
    if suffix in GRIDS:
        _write_grid(model, notes, arguments, suffix)
        return
    of_points, points = suffix in DRIVERS, None
    if of_points and arguments.grid is None and Path(arguments.table).suffix.lower() in DRIVERS:
        from lmgp.grids import refuse_taken_names

        points = read_features(Path(arguments.table))  # with the columns that the model does not know
        refuse_taken_names(points.columns, "table", target_names(model) or ())
    whole = of_points and points is None
    parts = _parts_of_table(model, arguments, whole) if arguments.grid is None else _parts_of_grid(model, arguments)
    n_rows = (
        _write_points(model, parts, arguments.out, points)
        if of_points
        else write_table(arguments.out, parts, dialect_of(arguments))
    )
    if arguments.out != STANDARD:
        _LOG.info("wrote %d %s to %s", n_rows, "row" if n_rows == 1 else "rows", arguments.out)


def _check_package(out: str, package: str, what: str) -> None:
    """Refuse a file that takes a package which is not installed."""
    from lmgp.io.geometry import check_installed

    try:
        check_installed(package, what)
    except ImportError as error:
        raise OutputError(f"{out}: {error}") from None


def _write_grid(model: Any, notes: dict[str, Any], arguments: argparse.Namespace, suffix: str) -> None:
    """Write what is predicted on a grid as netCDF or GeoTIFF."""
    from lmgp.grids import predict_grid, write_geotiff

    options: dict[str, Any] = {"average_over": arguments.average_over}  # of the function, without intervals
    if arguments.average_over == 1:
        options = {"include_noise": not arguments.latent, "level": arguments.level, "method": arguments.method}
    grid = predict_grid(model, _axes(arguments.grid, model), target=notes.get("target"), **options)
    if suffix == ".nc":
        # By way of memory: some versions close a stream that they are given.
        write_whole(arguments.out, grid.to_netcdf(engine="scipy"))
    else:
        write_geotiff(grid, arguments.out)
    _LOG.info("wrote a grid of %s to %s", " × ".join(map(str, grid["mean"].shape)), arguments.out)


def _write_points(model: Any, parts: "Iterator[dict[str, Floats]]", out: str, points: Any = None) -> int:
    """Write rows with their predictions as points of geopandas, those of a table if given; return their number."""
    import pandas as pd

    from lmgp.columns.table import column_names, columns_of
    from lmgp.grids import of_map
    from lmgp.io.geometry import with_geometry, write_features
    from lmgp.kernels.sphere import LATITUDES

    columns, names = columns_of(model), column_names(model)
    crs = None if columns is None else columns.crs
    across, up = of_map(None, None, names if crs is None else names[:2])  # points come first
    if crs is None and up.strip().lower() in LATITUDES:
        crs = "EPSG:4326"
    frame = pd.concat(map(pd.DataFrame, parts), ignore_index=True)
    if points is None and (wrong := [name for name in (across, up) if frame[name].dtype.kind != "f"]):
        raise InputError(
            f"Points lie along two columns of numbers, and {wrong[0]!r} has dates or text. Name a .csv or .parquet "
            "file."
        )
    features = with_geometry(frame, (across, up), crs) if points is None else points.assign(**frame)
    with whole_file(out) as stream:
        write_features(features, stream, Path(out).suffix.lower())
    return len(frame)


def _axes(given: list[str], model: Any) -> "dict[str, Axis]":
    """Return the axes of a grid, from texts such as lon=-6:2:200, day=3, when=2020-01-01:2020-12-31:12 and town=Ulm."""
    from lmgp.columns.categories import Categories
    from lmgp.columns.dates import Dates
    from lmgp.columns.table import column_names, columns_of
    from lmgp.utils.columns import reads_as_number

    columns, names = columns_of(model), column_names(model)
    texts, dates = (set() if columns is None else columns.names_of(kind) for kind in (Categories, Dates))
    parts = () if columns is None else columns.parts
    levels = {names[index[0]]: kind.levels for index, kind, _ in parts if isinstance(kind, Categories)}
    axes: dict[str, Axis] = {}
    for axis in given:
        name, _, values = axis.rpartition("=")
        if not (name and values):
            raise _wrong_axis(axis)
        if name in axes:
            raise InputError(f"--grid has the column {name!r} more than once.")
        codes = values.count(":") == 2 and all(map(reads_as_number, values.split(":")))  # of categories, such as 1:3:3
        is_text = values in levels.get(name, ()) or (name in texts and not codes) or name not in names
        axes[name] = [values] if is_text else _axis(values, axis, name in dates)
    return axes


def _axis(text: str, whole: str, of_dates: bool) -> "Axis":
    """Return the values of an axis of numbers or, with `of_dates`, of dates, from their text."""
    from lmgp.io.tables import TRUTH
    from lmgp.utils.columns import reads_as_date, reads_as_number

    if text.lower() in TRUTH:
        return TRUTH[text.lower()]
    if reads_as_number(text):
        return float(text)
    if of_dates and reads_as_date(text):
        return [text]
    *parts, n = text.split(":")
    for cut in range(1, len(parts) if n.isdecimal() else 0):  # times have colons, too
        first, last = ":".join(parts[:cut]), ":".join(parts[cut:])
        if reads_as_number(first) and reads_as_number(last):
            return float(first), float(last), int(n)
        if of_dates and reads_as_date(first) and reads_as_date(last):
            return first, last, int(n)
    raise _wrong_axis(whole)


def _wrong_axis(axis: str) -> InputError:
    return InputError(
        "An axis of a grid is COLUMN=FROM:TO:N, with two numbers or dates and a positive integer, such as "
        f"lon=-6:2:200, or COLUMN=VALUE; got {axis!r}."
    )


def _parts_of_table(model: Any, arguments: argparse.Namespace, whole: bool) -> "Iterator[dict[str, Floats]]":
    """Predict a table, with its columns where it is `whole`; what is predicted of incomplete rows is NaN."""
    import numpy as np
    import pandas as pd

    from lmgp.columns.table import column_names
    from lmgp.grids import refuse_taken_names

    X, _, complete = read_for_model(model, arguments)
    columns = dict(pd.DataFrame(X, columns=column_names(model)).infer_objects()) if whole else {}
    refuse_taken_names(columns, targets=target_names(model) or ())
    for name, values in _predictions(model, X[complete], arguments).items():
        columns[name] = np.full(len(X), np.nan)
        columns[name][complete] = values
    yield columns


def _parts_of_grid(model: Any, arguments: argparse.Namespace) -> "Iterator[dict[str, Floats]]":
    """Predict a grid, part by part: the columns of the model, then the predictions."""
    from lmgp.columns.table import column_names
    from lmgp.grids import checked_axes, grid_rows, refuse_taken_names

    names = column_names(model)
    refuse_taken_names(names, targets=target_names(model) or ())
    for X in grid_rows(checked_axes(_axes(arguments.grid, model), names), names):
        columns = dict(X) if hasattr(X, "iloc") else dict(zip(names, X.T, strict=True))
        times = {name: dates.dt.tz_localize("UTC") for name, dates in columns.items() if dates.dtype.kind == "M"}
        yield columns | _predictions(model, X.assign(**times) if times else X, arguments)


def _predictions(model: Any, X: "Floats", arguments: argparse.Namespace) -> "dict[str, Floats]":
    """Return the mean, std, lower and upper of each row, after the name of the target where there are several."""
    from lmgp.grids import predicted

    verbose = _LOG.isEnabledFor(logging.INFO)  # with a bar, where it takes long
    values = predicted(
        model, X, include_noise=not arguments.latent, level=arguments.level, method=arguments.method, verbose=verbose
    )
    if (targets := target_names(model)) is None:
        return values
    return {f"{target}_{name}": values[name][:, j] for j, target in enumerate(targets) for name in values}


def info(arguments: argparse.Namespace) -> None:
    """Show what a model file has."""
    from lmgp.saving.files import load_with_header

    model, arguments.header = load_with_header(arguments.model, tensors=False)
    from lmgp.cli.info import facts, is_solved, of_file  # by now, a file that cannot be read has been refused

    if not is_solved(model):  # which takes tensors
        model, _ = load_with_header(arguments.model)
    told = facts(model, arguments.header.get("notes", {}))
    sys.stdout.write(f"{told}\n{of_file(arguments.model, model, arguments.header)}")
