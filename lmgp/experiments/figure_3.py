"""Figure 3: the predictive distribution of flat prices on a map, by the exact GP and by approximations of it."""

import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.spatial import KDTree

from lmgp import GaussianKernel
from lmgp.data import Floats
from lmgp.errors import InputError
from lmgp.experiments.compare import (
    ComparisonCell,
    ComparisonSettings,
    Prepared,
    Protocol,
    fingerprint,
    fit_exact,
    prepare,
)
from lmgp.experiments.datasets import Dataset
from lmgp.experiments.page import Section, section, table
from lmgp.metrics import kl_divergence, rmse
from lmgp.plots.canvas import new_figure, plain
from lmgp.saving.output import whole_file
from lmgp.selection.methods import EXACT, METHODS
from lmgp.utils.progress import counted

NAME = "figure-3-uk-map"
LATITUDES, LONGITUDES = (50.0, 55.0), (-6.0, 2.0)  # the edges of the map, in degrees
MIDDLE = 52.5  # the latitude at which a degree of longitude is drawn to scale
N_PARTS = 20  # in which the lattice is predicted, for the progress bar
SEED = 0
TITLES = {
    EXACT: "exact GP",
    "rff": "random Fourier",
    "global_maclaurin_rademacher": "Rademacher Maclaurin\nat the training mean",
    "local_maclaurin_rademacher": "Rademacher Maclaurin\nat each grid point",
    "local_taylor": "Taylor\nat each grid point",
}
_NAMES = {method: title.replace("\n", " ") for method, title in TITLES.items()}


# What one method predicts on the lattice: the mean and the standard deviation of the latent function, in units of the
# target, row by row from the south, each from the west, shape (grid²,). The seconds to fit, with the learning of
# hyperparameters, and predict; the columns of the map, NaN for the reference; and the reference's hyperparameters.
KEPT = ("mean", "std", "seconds", "n_columns", "lengthscale", "variance", "noise_variance")
Prediction = dict[str, Any]


def lattice(grid: int, feature_names: Sequence[str]) -> Floats:
    """Make the points of the map, 50° to 55° N and 6° W to 2° E.

    Parameters
    ----------
    grid : int
        The number of latitudes, and of longitudes.
    feature_names : sequence of str
        "lon" and "lat", in the order of the columns.

    Returns
    -------
    ndarray of shape (grid², 2)
        Degrees, row by row from the south, each from the west.

    Raises
    ------
    InputError
        If the inputs are not longitude and latitude, or there are fewer than 2 points a side.
    """
    if sorted(feature_names) != ["lat", "lon"]:
        raise InputError(f"A map needs the inputs lon and lat; got {', '.join(feature_names)}.")
    if grid < 2:
        raise InputError(f"A map needs at least 2 points a side; got grid={grid}.")
    lat, lon = np.meshgrid(np.linspace(*LATITUDES, grid), np.linspace(*LONGITUDES, grid), indexing="ij")
    columns = {"lat": lat.ravel(), "lon": lon.ravel()}
    return np.column_stack([columns[name] for name in feature_names])


def uk_map_section(
    dataset: Dataset, protocol: Protocol, grid: int, cache: Path, *, n_features: int = 100, quiet: bool = False
) -> Section:
    """Reproduce Figure 3, with the map of the standard deviation and with Taylor features beside it.

    Parameters
    ----------
    dataset : Dataset
        With the inputs lon and lat, in degrees.
    protocol : Protocol
    grid : int
        The number of latitudes, and of longitudes.
    cache : Path
        The folder where each method's prediction is kept once it is made; made where it is missing.
    n_features : int, default=100
    quiet : bool, default=False
        Whether to show no progress bar.

    Returns
    -------
    Section

    Raises
    ------
    InputError
        If the data are not of a map, cannot be split, or have no published hyperparameters where the protocol needs
        them.
    MemoryLimitError
        If there are too many rows for the exact reference.

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, section 4.1 and
    Figure 3.
    """
    points = lattice(grid, dataset.feature_names)
    settings = ComparisonSettings(protocol=protocol, n_features=(n_features,))
    rows = prepare(dataset, settings, SEED)
    mark, predictions = fingerprint(dataset, settings), dict[str, Prediction]()
    try:
        with counted(len(TITLES) * len(points), NAME, "points", not quiet) as bar:
            for method, name in _NAMES.items():
                size = "" if method == EXACT else f"-D{n_features}"
                path = cache / f"{NAME}-{mark}-grid{grid}-{method}{size}.npz"
                prediction = _read(path, len(points))
                if prediction is None:
                    bar.set_postfix_str(f"fitting: {name}")
                    start = perf_counter()
                    if method == EXACT:
                        model: Any = fit_exact(dataset, settings, rows, SEED, cache)[0]
                    else:
                        model = _model(method, predictions[EXACT], settings).fit(rows.X_train, rows.y_train)
                    bar.set_postfix_str(f"predicting: {name}")
                    prediction = _predict(model, points, start, bar.update)
                    cache.mkdir(parents=True, exist_ok=True)
                    with whole_file(path) as file:
                        np.savez(file, **prediction)
                else:
                    bar.update(len(points))
                predictions[method] = prediction
    except KeyboardInterrupt:
        kept = f"{len(predictions)} of {len(TITLES)} maps are kept in {cache}; the same command resumes"
        raise KeyboardInterrupt(kept) from None
    scores = _scores(predictions)
    values = _values(dataset, rows, points, predictions, scores["KL/row"])
    columns = {name: points[:, dataset.feature_names.index(name)] for name in ("lat", "lon")}
    for method, prediction in predictions.items():
        columns |= {f"mean, {_NAMES[method]}": prediction["mean"], f"s.d., {_NAMES[method]}": prediction["std"]}
    tables = (
        table(NAME, scores.rename(index=_NAMES).reset_index(), values),
        table(f"{NAME}-grid", pd.DataFrame(columns), values, folded=True),
    )
    return section(NAME, values, tables, _figure(dataset, rows, grid, predictions, scores))


def _model(method: str, reference: Prediction, settings: ComparisonSettings) -> Any:
    localized = METHODS[method].localized
    # The threshold is of the centroids that the grid points take the place of.
    cell = ComparisonCell(SEED, method, settings.n_features[0], 1.0 if localized else None)
    kernel = GaussianKernel(float(reference["lengthscale"]), float(reference["variance"]))
    model = settings.protocol.model(cell, kernel, float(reference["noise_variance"]))
    return model.set_params(centroids="test_rows") if localized else model


def _predict(model: Any, points: Floats, start: float, advance: Callable[[int], object]) -> Prediction:
    parts = []
    for part in np.array_split(points, min(N_PARTS, len(points))):
        parts.append(model.predict(part, return_std=True))
        advance(len(part))
    mean, std = np.concatenate(parts, axis=1)
    return {
        "mean": mean,
        "std": std,
        "seconds": perf_counter() - start,
        "n_columns": model.features_.n_features_out_ if hasattr(model, "features_") else np.nan,
        "lengthscale": float(model.kernel_.lengthscale),
        "variance": float(model.kernel_.variance),
        "noise_variance": float(model.noise_variance_),
    }


def _read(path: Path, n_points: int) -> Prediction | None:
    """Read a prediction back; None where there is none, or a damaged one."""
    try:
        with np.load(path) as file:
            prediction = {name: file[name][()] for name in file.files}
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile):
        return None
    whole = set(prediction) == set(KEPT) and np.shape(prediction["mean"]) == np.shape(prediction["std"]) == (n_points,)
    return prediction if whole else None


def _scores(predictions: Mapping[str, Prediction]) -> pd.DataFrame:
    """Compare with the reference, with noise: KL, its mean and sum over the grid points, and the RMSE of the mean."""
    reference, rows = predictions[EXACT], []
    noise = reference["noise_variance"]
    exact = reference["mean"], reference["std"] ** 2 + noise
    for prediction in predictions.values():
        approximate = prediction["mean"], prediction["std"] ** 2 + noise
        kl = kl_divergence(*approximate, *exact)
        reverse, error = kl_divergence(*exact, *approximate).mean(), rmse(exact[0], approximate[0])
        rows.append((prediction["n_columns"], kl.mean(), kl.sum(), reverse, error, prediction["seconds"]))
    columns = ["columns", "KL/row", "KL sum", "reverse KL/row", "RMSE to the exact mean", "seconds"]
    frame = pd.DataFrame(rows, index=pd.Index(predictions, name="method"), columns=columns).astype({"columns": "Int64"})
    frame.loc[EXACT, columns[1:5]] = np.nan
    return frame


def _values(
    dataset: Dataset, rows: Prepared, points: Floats, predictions: Mapping[str, Prediction], kl: "pd.Series[float]"
) -> dict[str, Any]:
    """Return what the text and the captions name."""
    reference = predictions[EXACT]
    lon, lat = (rows.X_train[:, dataset.feature_names.index(name)].mean() for name in ("lon", "lat"))
    distances, _ = KDTree(rows.X_train).query(points)
    far = int(distances.argmax())
    prior, centre = reference["variance"] ** 0.5, rows.y_train.mean()
    returns = (
        f"{_NAMES[method]} {at['std'][far] / prior:.3f} and {abs(at['mean'][far] - centre) / prior:.3f}"
        for method, at in predictions.items()
    )
    ranked = kl.dropna().sort_values().items()
    return {
        "n_train": len(rows.y_train),
        "name": dataset.name,
        "target": dataset.target_name,
        "n_points": len(points),
        "reference": reference,
        "middle": f"{_degrees(lat, 'NS')}, {_degrees(lon, 'EW')}",
        "ranked": ", ".join(f"{_NAMES[method]} {value:.2g}" for method, value in ranked),
        "distance": distances[far] / reference["lengthscale"],
        "returns": "; ".join(returns),
    }


def _degrees(value: float, signs: str) -> str:
    return f"{abs(value):.4g}°" + (signs[int(value < 0)] if value else "")


def _figure(
    dataset: Dataset, rows: Prepared, grid: int, predictions: Mapping[str, Prediction], scores: pd.DataFrame
) -> Figure:
    figure = new_figure(13.0, 5.8)
    panels = figure.subplots(2, len(predictions), sharex=True, sharey=True)
    unit = "log price, ln(GBP)" if dataset.target_name == "log_price" else plain(dataset.target_name)
    reference = predictions[EXACT]
    # Not the range of all predictions: that of random features would leave the others one colour.
    low, high = np.percentile(reference["mean"], (1, 99))
    scales = (("mean", "mean", low, high, "both"), ("std", "s.d.", 0.0, reference["variance"] ** 0.5, "max"))
    for of_row, (field, label, low, high, extend) in zip(panels, scales, strict=True):
        for axes, prediction in zip(of_row, predictions.values(), strict=True):
            image = axes.pcolormesh(
                np.linspace(*LONGITUDES, grid), np.linspace(*LATITUDES, grid),
                prediction[field].reshape(grid, grid),
                vmin=low, vmax=high, cmap="cividis", shading="nearest", rasterized=True,
            )  # fmt: skip
        figure.colorbar(image, ax=of_row, label=f"{label}, {unit}", extend=extend, pad=0.01, fraction=0.02)
    for axes, method in zip(panels[0], predictions, strict=True):
        kl, kl_sum = scores.loc[method, ["KL/row", "KL sum"]]
        told = "" if method == EXACT else f"KL {kl:.3g} nats/row,\nsum {kl_sum:,.4g}"
        axes.set_title(f"{TITLES[method]}\n{told}", fontsize="medium")
    lon, lat = (rows.X_train[:, dataset.feature_names.index(name)] for name in ("lon", "lat"))
    panels[0, 0].scatter(lon, lat, s=0.3, color="white", alpha=0.15, linewidth=0)
    for axes in panels[:, 2]:
        axes.plot(lon.mean(), lat.mean(), "x", color="white")
    for axes in panels.flat:
        _draw_degrees(axes)
    return figure


def _draw_degrees(axes: Axes) -> None:
    axes.set(xlim=LONGITUDES, ylim=LATITUDES, aspect=1.0 / np.cos(np.radians(MIDDLE)))
    longitudes, latitudes = (-6, -4, -2, 0, 2), range(50, 56)
    axes.set_xticks(longitudes, [_degrees(value, "EW") for value in longitudes])
    axes.set_yticks(latitudes, [_degrees(value, "NS") for value in latitudes])
    axes.tick_params(labelsize="small")
