"""Pages of HTML that need no network, and read on a narrow screen: text, figures that open, and tables."""

import base64
from collections.abc import Sequence
from html import escape

# An image is no narrower than this share of its own width: the text in it stays readable, and the image scrolls.
NARROWEST = 0.55

STYLE = """
* { box-sizing: border-box; }
body { font: 15px/1.45 system-ui, sans-serif; max-width: 1250px; margin: 2em auto; padding: 0 1em; color: #111;
  overflow-wrap: break-word; }
h1 { font-size: 1.6em; line-height: 1.2; } h2 { margin-top: 2.2em; border-bottom: 1px solid #bbb; }
img { max-width: 100%; height: auto; }
figure { margin: 1em 0; }
.view { display: block; overflow-x: auto; cursor: zoom-in; }
.close { display: none; }
figcaption { font-size: 13px; color: #444; }
figure:target { position: fixed; inset: 0; z-index: 1; margin: 0; padding: 3.2em 1em 1em; overflow: auto;
  background: #fff; }
figure:target .view { overflow: visible; cursor: default; }
figure:target img { max-width: none; width: auto; }
figure:target .close { display: block; position: fixed; top: .6em; right: 1em; z-index: 2; padding: .3em .9em;
  background: #fff; border: 1px solid #666; border-radius: .3em; }
.scroll { overflow-x: auto; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 370px), 1fr)); gap: 0 2em; }
.cards h3 { margin: 1.5em 0 0; font-size: 1.05em; } .cards p { margin: .4em 0; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; margin: .5em 0 1em; }
table.plain { font-size: 15px; }
caption { text-align: left; padding: .3em 0; color: #444; }
caption span { display: inline-block; position: sticky; left: 0; max-width: min(70em, calc(100vw - 3em)); }
th, td { padding: .15em .6em; text-align: right; border-bottom: 1px solid #ddd; white-space: nowrap; }
th { vertical-align: bottom; white-space: normal; border-bottom: 2px solid #888; }
td.text, th.text { text-align: left; }
table.plain th { text-align: left; vertical-align: top; font-weight: 600; border-bottom: 1px solid #ddd; }
table.plain td { white-space: pre-line; overflow-wrap: anywhere; }
table.plain td.text { font-variant-numeric: normal; }
tr.marked { background: #fbe3d6; } tr.marked td:first-child::before { content: "✗ "; }
pre { overflow-x: auto; font-size: 12.5px; background: #f6f6f6; padding: .6em; }
summary { cursor: pointer; color: #0b57a4; } a { color: #0b57a4; }
code { background: #f2f2f2; padding: .1em .3em; }
"""


def page(title: str, parts: Sequence[str]) -> bytes:
    """Make a page of parts in HTML.

    Parameters
    ----------
    title : str
    parts : sequence of str
        In HTML.

    Returns
    -------
    bytes
        The content of the file, in UTF-8.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    ).encode()


def figure(name: str, alt: str, png: bytes, files: Sequence[str] = (), narrowest: float = NARROWEST) -> str:
    """Make a figure that opens in its own size, over the page, when it is clicked.

    Parameters
    ----------
    name : str
        What it is called within the page: letters, digits and hyphens.
    alt : str
        What is to be seen.
    png : bytes
    files : sequence of str
        Names of files beside the page that have the figure, too.
    narrowest : float
        The least width of the image, as a share of its own.

    Returns
    -------
    str
        In HTML. The image is part of it.
    """
    encoded = base64.b64encode(png).decode()
    width = int.from_bytes(png[16:20], "big")  # where each PNG has it
    least = f' style="min-width:{round(narrowest * width)}px"'
    links = ", ".join(f'<a href="{escape(file)}">{escape(file)}</a>' for file in files)
    caption = f"<figcaption>Click to enlarge. Also in {links}.</figcaption>" if files else ""
    return (
        f'<div id="{name}"><figure id="{name}-open"><a class="view" href="#{name}-open">'
        f'<img alt="{escape(alt)}" src="data:image/png;base64,{encoded}"{least}></a>'
        f'<a class="close" href="#{name}">Close</a>{caption}</figure></div>'
    )


def paragraphs(text: Sequence[str]) -> list[str]:
    """Make paragraphs of plain text."""
    return [f"<p>{escape(paragraph)}</p>" for paragraph in text]


def facts(values: dict[str, str], numbers: bool = False) -> str:
    """Make a table of names and what they stand for.

    Parameters
    ----------
    values : dict of str to str
        Plain text.
    numbers : bool
        Whether they are numbers, which are set to the right.
    """
    kind = "" if numbers else ' class="text"'
    rows = (f"<tr><th>{escape(name)}</th><td{kind}>{escape(value)}</td></tr>" for name, value in values.items())
    return f'<table class="plain"><tbody>{"".join(rows)}</tbody></table>'
