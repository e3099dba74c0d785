"""Figures without global state, with text in whatever script the data are named in."""

import io
import logging
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont, fontManager, get_font
from matplotlib.text import Text

_LOG = logging.getLogger(__name__)

# Distinct in colour and, through their lightness, in grey; for people with any colour vision.
BLACK, BLUE, ORANGE, GREEN, PINK, SKY = "#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9"


@dataclass(frozen=True)
class Fonts:
    """The fonts of a figure's text: each character comes from the first that has it.

    Attributes
    ----------
    first : str
        The one that matplotlib brings.
    fallbacks : tuple of str
        Those of Chinese, Japanese and Korean that are common on Linux, Windows and macOS, and then any other script.
    """

    first: str = "DejaVu Sans"
    fallbacks: tuple[str, ...] = (
        "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans SC", "Source Han Sans SC", "WenQuanYi Micro Hei",
        "WenQuanYi Zen Hei", "Droid Sans Fallback", "Microsoft YaHei", "SimHei", "MS Gothic", "Yu Gothic",
        "Malgun Gothic", "PingFang SC", "Hiragino Sans", "Apple SD Gothic Neo", "Noto Sans", "Arial Unicode MS",
    )  # fmt: skip


FONTS = Fonts()


def new_figure(width: float, height: float) -> Figure:
    """Make an empty figure, in inches, with a canvas of its own: no global state of matplotlib is touched."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def plain(text: str) -> str:
    """Escape what matplotlib would read as mathematics: for the names of a user's columns and files."""
    return text.replace("$", r"\$")


def render(figure: Figure, form: str, **options: Any) -> bytes:
    """Draw a figure.

    Parameters
    ----------
    figure : Figure
    form : {"png", "pdf"}
    **options
        Of `Figure.savefig`, such as ``dpi``.

    Returns
    -------
    bytes
        The content of the file. Characters that no installed font has are drawn as boxes, and named in the log.
    """
    choose_fonts(figure)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # the log has said it, once
        figure.savefig(buffer, format=form, **options)
    return buffer.getvalue()


def choose_fonts(figure: Figure) -> None:
    """Give the texts of a figure fonts that have their characters, as far as such fonts are installed."""
    texts = figure.findobj(Text)
    wanted = {character for text in texts for character in text.get_text() if not character.isspace()}
    missing = wanted - _characters(FONTS.first)
    if not missing:
        return
    families = [FONTS.first]
    installed = set(fontManager.get_font_names())
    for name in FONTS.fallbacks:
        if name in installed and missing & (has := _characters(name)):
            families.append(name)
            missing -= has
    for text in texts:
        text.set_fontfamily(families)
    if missing:
        _LOG.warning(
            "no installed font has the characters %s, which are drawn as boxes; install one that has, such as Noto "
            "Sans CJK",
            _listed(missing),
        )


def _characters(family: str) -> set[str]:
    return set(map(chr, get_font(findfont(FontProperties(family=family))).get_charmap()))


def _listed(characters: Iterable[str], most: int = 20) -> str:
    ordered = sorted(characters)
    return "".join(ordered[:most]) + (f" and {len(ordered) - most} more" if len(ordered) > most else "")
