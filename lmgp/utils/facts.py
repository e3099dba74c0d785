"""Tables and lists of facts, each with one description that prints as text and shows as HTML."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from textwrap import indent
from typing import Any

from lmgp.utils.trials import aligned

# Colours are those of the page around, be it light or dark.
STYLE = """<style>
.lmgp dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .3em 1.2em; margin: .5em 0; }
.lmgp dt { font-weight: 600; }
.lmgp dd { margin: 0; white-space: pre-line; overflow-wrap: anywhere; }
.lmgp .scroll { overflow-x: auto; }
.lmgp table { border-collapse: collapse; margin: 0; font-size: inherit; font-variant-numeric: tabular-nums; }
.lmgp th, .lmgp td { padding: .1em .7em; text-align: right; white-space: nowrap; border-bottom: 1px solid #8886; }
.lmgp tbody th { font-weight: 400; }
.lmgp tr > :first-child { text-align: left; padding-left: 0; }
.lmgp p { margin: .3em 0; white-space: normal; }
@media (max-width: 600px) {
  .lmgp dl { grid-template-columns: minmax(0, 1fr); gap: 0; }
  .lmgp dd { margin-bottom: .6em; }
}
</style>"""


def digits(value: float) -> str:
    """Write a number in three digits, without an exponent from a ten-thousandth to a million."""
    text = f"{value:.3g}"
    return f"{float(text):,.0f}" if 1e3 <= abs(float(text)) < 1e6 else text


@dataclass(frozen=True)
class Table:
    """Lines of cells under a heading, the first cell of each is its name; and a note below."""

    heading: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    note: str = ""

    def __str__(self) -> str:
        lines = [line.rstrip() for line in aligned((self.heading, *self.lines), 1)]
        return "\n".join([*lines, *([self.note] if self.note else [])])

    def _html(self) -> str:
        heading = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in self.heading)
        lines = (
            f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
            for name, *cells in self.lines
        )
        table = f"<table><thead><tr>{heading}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
        return f'<div class="scroll" tabindex="0">{table}</div>' + (f"<p>{escape(self.note)}</p>" if self.note else "")

    def _repr_html_(self) -> str:
        return f'<div class="lmgp">{STYLE}{self._html()}</div>'


@dataclass(frozen=True)
class Facts:
    """What there is to say of something, by name: texts and tables."""

    facts: Mapping[str, str | Table]

    def __str__(self) -> str:
        width = max(12, *(len(name) + 2 for name, told in self.facts.items() if isinstance(told, str)))
        return "\n".join(
            f"{name}\n{indent(str(told), '  ')}"
            if isinstance(told, Table)
            else f"{name:<{width}}" + told.replace("\n", "\n" + " " * width)
            for name, told in self.facts.items()
        )

    def _repr_html_(self) -> str:
        told = "".join(
            f"<dt>{escape(name)}</dt><dd>{fact._html() if isinstance(fact, Table) else escape(fact)}</dd>"
            for name, fact in self.facts.items()
        )
        return f'<div class="lmgp">{STYLE}<dl>{told}</dl></div>'

    # Templates take it as it is.
    __html__ = _repr_html_


class Described:
    """Mixin of what prints as its description, and shows it in notebooks; elsewhere it is as scikit-learn shows it."""

    @abstractmethod
    def _description(self) -> Facts | Table | None:
        """Return the description; None where there is none."""

    def __str__(self) -> str:
        description = self._description()
        return repr(self) if description is None else str(description)

    def _repr_html_inner(self) -> str:
        description = self._description()
        parameters: str = super()._repr_html_inner()  # type: ignore[misc]
        return parameters if description is None else description._repr_html_() + parameters

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        description = self._description()
        if description is None:
            return bundle
        shown = {"text/html": description._repr_html_() + bundle["text/html"]} if "text/html" in bundle else {}
        return bundle | {"text/plain": str(description)} | shown

    def _get_fitted_attr_html(self, doc_link: str = "") -> tuple[()]:
        """Keep scikit-learn from listing all attributes of a fitted model, some of which take long to compute."""
        return ()
