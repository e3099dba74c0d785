"""The gallery in docs/ has an image of each plot, and they are small enough for a page."""

import re
import runpy
from pathlib import Path

import pytest
from matplotlib.image import imread

from lmgp import plots

DOCS = Path(__file__).parent.parent.parent / "docs"
PAGE = (DOCS / "plots.md").read_text(encoding="utf-8")


def test_each_plot_has_its_code_and_its_image() -> None:
    shown = re.findall(r"^!\[.{30,}\]\(plots/(\w+)\.png\)", PAGE, flags=re.MULTILINE)
    assert sorted(shown) == sorted(plots.__all__)
    for name in plots.__all__:
        assert f"plots.{name}(" in PAGE


@pytest.mark.parametrize("name", plots.__all__)
def test_an_image_is_small_and_not_empty(name: str) -> None:
    path = DOCS / "plots" / f"{name}.png"
    assert path.stat().st_size <= 60_000
    pixels = imread(path)[..., :3]
    assert pixels.shape[1] == 660
    assert 0.3 < pixels.mean() < 0.99


@pytest.mark.slow
def test_the_script_draws_them_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = runpy.run_path(str(DOCS / "gallery.py"))
    assert sorted(script["IMAGES"]) == sorted(plots.__all__)
    for name in ("kl_over_size", "calibration", "prediction"):  # which take seconds
        script["IMAGES"].pop(name)
    monkeypatch.setattr("sys.argv", ["gallery.py", "--out", str(tmp_path)])
    script["main"]()
    assert sorted(path.stem for path in tmp_path.iterdir()) == sorted(script["IMAGES"])
