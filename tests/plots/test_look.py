"""The figures read in grey and with any colour vision: by the lightness of what they are drawn with."""

from itertools import combinations

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.colors import to_rgb

from lmgp.plots.canvas import COLOURS, DASHES, FILL, LINE, MARKERS, MEAN_MAP, PALE, STD_MAP

# From linear RGB to what people see whose eyes lack the cones for red, or for green (F. Viénot, H. Brettel and
# J. D. Mollon, 1999).
SEEN = {
    "red": [[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]],
    "green": [[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]],
}


def linear(colour: object) -> np.ndarray:
    rgb = np.array(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def lightness(colour: object) -> float:
    """CIE L*, of 0 to 100."""
    luminance = float(linear(colour) @ [0.2126, 0.7152, 0.0722])
    return 116.0 * luminance ** (1 / 3) - 16.0 if luminance > 0.008856 else 903.3 * luminance


@pytest.mark.parametrize("name", [MEAN_MAP, STD_MAP])
def test_a_map_rises_or_falls_in_lightness_throughout(name: str) -> None:
    steps = np.diff([lightness(colour) for colour in mpl.colormaps[name](np.linspace(0, 1, 64))[:, :3]])
    assert np.all(steps > 0.0) or np.all(steps < 0.0)
    assert abs(steps.sum()) > 60.0


@pytest.mark.parametrize("kind", SEEN)
def test_colours_of_lines_differ_with_any_colour_vision(kind: str) -> None:
    seen = [np.clip(np.array(SEEN[kind]) @ linear(colour), 0.0, 1.0) for colour in COLOURS]
    for one, other in combinations(seen, 2):
        assert np.abs(np.cbrt(one) - np.cbrt(other)).max() > 0.08


def test_what_is_drawn_together_differs_in_grey() -> None:
    assert abs(lightness(LINE) - lightness(FILL)) > 20.0
    assert abs(lightness(LINE) - lightness(PALE)) > 20.0


def test_lines_have_looks_of_their_own_in_grey() -> None:
    looks = {(MARKERS[j % len(MARKERS)], DASHES[j % len(DASHES)]) for j in range(28)}
    assert len(looks) == 28
