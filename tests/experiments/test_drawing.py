"""Text of any script in figures, without global state of matplotlib."""

import logging
import warnings

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from lmgp.experiments import drawing
from lmgp.experiments.drawing import Fonts, new_figure, plain, render


def titled(title: str) -> Figure:
    figure = new_figure(2.0, 1.0)
    figure.subplots().set(title=title, xlabel="x")
    return figure


@pytest.mark.parametrize("form", ["png", "pdf"])
def test_characters_that_no_font_has_are_named_once_and_warn_of_nothing(
    form: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "FONTS", Fonts(fallbacks=()))
    figure = titled("価格 of 格 Å")
    before = {name: value for name, value in mpl.rcParams.items() if name != "backend"}  # found out when first read
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        content = render(figure, form)
    assert content.startswith({"png": b"\x89PNG", "pdf": b"%PDF"}[form])
    assert caught == []
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "the characters 価格, which are drawn as boxes" in record.getMessage()
    assert figure.axes[0].get_title() == "価格 of 格 Å"
    assert {name: mpl.rcParams[name] for name in before} == before


def test_a_font_that_is_installed_and_has_the_characters_is_used(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """STIXGeneral, which matplotlib brings, has letters that DejaVu Sans lacks; fonts not installed are passed over."""
    (letter,) = sorted(drawing._characters("STIXGeneral") - drawing._characters("DejaVu Sans"))[:1]
    monkeypatch.setattr(drawing, "FONTS", Fonts(fallbacks=("No Such Font", "cmr10", "STIXGeneral")))
    figure = titled(f"a {letter}")
    render(figure, "png")
    assert {tuple(text.get_fontfamily()) for text in figure.findobj(Text)} == {("DejaVu Sans", "STIXGeneral")}
    assert caplog.records == []


def test_plain_text_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    figure = titled("Müller's price, €")
    render(figure, "png")
    assert {tuple(text.get_fontfamily()) for text in figure.findobj(Text)} == {("sans-serif",)}
    assert caplog.records == []


@pytest.mark.parametrize("name", ["price_$", "$a$ and $b", r"$\frac$", "100 $ to 200 $"])
def test_names_of_columns_are_no_mathematics(name: str) -> None:
    figure = titled(plain(name))
    render(figure, "png")
    title = figure.axes[0].title
    assert title._preprocess_math(title.get_text()) == (name, False)
