"""The map of the documentation: median prices of flats in England and Wales, and how far they may be off.

GPRegressor learns the logarithm of the price from the 13,844 sales of uk_flats_2020-12, and predicts a grid of 240 by
240 cells. Cells more than 20 km from every sale are left blank: they are sea, or land of which the data say nothing.

    python benchmarks/price_map.py [--data-dir DIR]

Draws docs/spatial.png, in one to three minutes on two cores.
"""

import argparse

import numpy as np
from common import FIGURES, NARROW
from matplotlib import rc_context
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from scipy.spatial import cKDTree

from lmgp import GPRegressor, SphericalCoordinates, load_dataset, predict_grid

SIZE, LON, LAT, FARTHEST_KM = 240, (-6.0, 2.0), (49.8, 55.8), 20.0


def draw(grid, known, path):
    """Draw the median price and its 68% factor where a sale is near."""
    price, factor = (np.where(known, np.exp(grid[name]), np.nan) for name in ("mean", "std"))
    low, high = np.nanpercentile(price / 1e3, (1, 99.8))
    with rc_context(NARROW):
        figure = Figure(figsize=(11, 5.2), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        image = left.pcolormesh(
            grid["x0"], grid["x1"], price / 1e3, norm=LogNorm(low, high), cmap="cividis", rasterized=True
        )
        bar = figure.colorbar(image, ax=left, label="median price, thousands of GBP", extend="both", format="{x:g}")
        bar.set_ticks([tick for tick in (50, 75, 100, 150, 200, 300, 400, 600, 800) if low <= tick <= high])
        bar.ax.minorticks_off()
        image = right.pcolormesh(grid["x0"], grid["x1"], factor, cmap="viridis_r", rasterized=True)
        figure.colorbar(image, ax=right, label="standard deviation, as a factor of the price", format="×{x:g}")
        for axes in (left, right):
            axes.set(xlabel="longitude, degrees east", aspect=1.0 / np.cos(np.radians(52.8)))
        left.set_ylabel("latitude, degrees north")
        figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir", help="default: the environment variable LMGP_DATA_DIR")
    data = load_dataset("uk_flats_2020-12", parser.parse_args().data_dir)
    places = data.X[:, :2]
    model = GPRegressor(metric="sphere", n_predict=SIZE**2, random_state=0).fit(places, data.y)
    grid = predict_grid(model, {"x0": (*LON, SIZE), "x1": (*LAT, SIZE)})
    cells = np.stack(np.meshgrid(grid["x0"], grid["x1"]), axis=-1).reshape(-1, 2)
    on_sphere = SphericalCoordinates().fit(places)
    distance, _ = cKDTree(on_sphere.transform(places)).query(on_sphere.transform(cells))
    known = (distance <= FARTHEST_KM).reshape(SIZE, SIZE)
    draw(grid, known, FIGURES / "spatial.png")


if __name__ == "__main__":
    main()
