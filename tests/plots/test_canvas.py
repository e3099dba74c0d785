"""Text of any script in figures, without global state of matplotlib."""

import logging
import warnings

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from lmgp.plots import canvas
from lmgp.plots.canvas import new_figure, plain, render


def titled(title: str) -> Figure:
    figure = new_figure(2.0, 1.0)
    figure.subplots().set(title=title, xlabel="x")
    return figure


@pytest.mark.parametrize("form", ["png", "pdf"])
def test_characters_that_no_font_has_are_named_once_and_warn_of_nothing(
    form: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canvas, "FONTS", ("DejaVu Sans",))
    figure = titled("価格 of 格 Å")
    before = {name: value for name, value in mpl.rcParams.items() if name != "backend"}  # found out when first read
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        content = render(figure, form)
    assert content.startswith({"png": b"\x89PNG", "pdf": b"%PDF"}[form])
    assert not any("Glyph" in str(warning.message) for warning in caught)
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "the characters 価格, which are drawn as boxes" in record.getMessage()
    assert {name: mpl.rcParams[name] for name in before} == before


def test_a_font_that_is_installed_and_has_the_characters_is_used(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STIXGeneral, which matplotlib brings, has letters that DejaVu Sans lacks; fonts not installed are passed over."""
    monkeypatch.setattr(canvas, "FONTS", ("DejaVu Sans", "No Such Font", "STIXGeneral"))
    figure = titled("a \u1d81")
    content = render(figure, "png")
    assert {tuple(text.get_fontfamily()) for text in figure.findobj(Text)} == {("DejaVu Sans", "STIXGeneral")}
    assert caplog.records == []
    monkeypatch.setattr(canvas, "FONTS", ("DejaVu Sans",))
    assert content != render(titled("a \u1d81"), "png")  # a box


@pytest.mark.parametrize("name", ["price_$", "$a$ and $b", r"$\frac$", "100 $ to 200 $"])
def test_names_of_columns_are_no_mathematics(name: str) -> None:
    title = titled(plain(name)).axes[0].title
    assert title._preprocess_math(title.get_text()) == (name, False)
