"""Draw docs/guide_map.png: a map from 400 spot heights of a real terrain, its standard deviation, and the truth.

python benchmarks/terrain.py [--out FILE]

The terrain comes with matplotlib. It takes half a minute.
"""

import argparse
import io
from pathlib import Path

import numpy as np
from matplotlib.cbook import get_sample_data
from matplotlib.figure import Figure
from PIL import Image

from lmgp import GPRegressor, predict_grid

OUT = Path(__file__).resolve().parent.parent / "docs" / "guide_map.png"


def predicted():
    """Return the heights, their longitudes and latitudes, the places of 400 of them, and the map that these give."""
    data = get_sample_data("jacksboro_fault_dem.npz")
    height, step = data["elevation"].astype(float), data["dx"].item()
    lon = data["xmin"].item() + step * (np.arange(height.shape[1]) + 0.5)
    lat = data["ymin"].item() - step * (np.arange(height.shape[0]) + 0.5)
    cells = np.random.default_rng(0).choice(height.size, 1400, replace=False)[:400]  # the others are for scores
    row, column = np.unravel_index(cells, height.shape)
    spots = np.column_stack((lon[column], lat[row]))
    model = GPRegressor(metric="sphere", random_state=0).fit(spots, height[row, column])
    return height, lon, lat, spots, predict_grid(model, {"x0": lon[::2], "x1": lat[::2]}, include_noise=True)


def drawn(height, lon, lat, spots, grid):
    """Return the figure."""
    heights = {"cmap": "viridis", "vmin": height.min(), "vmax": height.max()}
    panels = (
        ("Height, m", height, heights),
        ("Predicted from 400 points, m", grid["mean"].values, heights),
        ("Standard deviation, m", grid["std"].values, {"cmap": "magma", "vmin": 0.0}),
    )
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    for ax, (title, values, colours) in zip(figure.subplots(1, 3, sharey=True), panels, strict=True):
        extent, aspect = (lon[0], lon[-1], lat[-1], lat[0]), 1.0 / np.cos(np.radians(lat.mean()))
        image = ax.imshow(values, extent=extent, aspect=aspect, **colours)
        ax.set(title=title, xlabel="degrees east", ylabel="degrees north" if values is height else "")
        if values is not height:
            ax.plot(*spots.T, ".", color="white", markersize=1.5)
        figure.colorbar(image, ax=ax, shrink=0.85)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, metavar="FILE", help="default: docs/guide_map.png")
    out, image = parser.parse_args().out, io.BytesIO()
    drawn(*predicted()).savefig(image, dpi=130)
    Image.open(image).convert("RGB").quantize(256, dither=Image.Dither.NONE).save(out, optimize=True)


if __name__ == "__main__":
    main()
