"""The report and its files, from made figures and tables."""

import base64
import csv
import io
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib.image
import pandas as pd

from lmgp.experiments import page
from lmgp.experiments.page import ReportTable, Section
from lmgp.plots.canvas import new_figure

NASTY = "a <b> & \"c\" 'd' — ‖x̃‖"
NUMBERS = (1 / 3, 0.1 + 0.2, 1e-300, -2.5e22, 123456.789, float("inf"), 5e-324)


COLUMNS = ("model", "count", "ratio", "remark")
THREE = (("one", 3, 1.5, ""), (NASTY, None, None, "above"), ("three", 12345, 0.25, None))


def table(
    name: str = "numbers", rows: Sequence[tuple[Any, ...]] = THREE, columns: Sequence[str] = COLUMNS, **changes: Any
) -> ReportTable:
    frame = pd.DataFrame(rows, columns=list(columns), dtype=object)
    return ReportTable(
        **{"name": name, "caption": "What rows are.", "frame": frame, "marked": frozenset({1})} | changes
    )


def section(name: str = "figure-1", tables: Sequence[ReportTable] | None = None, **changes: Any) -> Section:
    figure = new_figure(3.0, 2.0)
    axes = figure.subplots()
    axes.plot([0, 1, 2], [1, 4, 2], label="line")
    axes.set_title(f"of {name}")
    figure.legend(loc="outside lower center")
    made = (table(f"{name}-table"),) if tables is None else tuple(tables)
    values = {
        "name": name,
        "title": f"Title of {name}",
        "text": ("First.", "Second."),
        "figure": figure,
        "tables": made,
    }
    return Section(**values | changes)


def save(sections: Sequence[Section], out: Path, heading: str = "Heading") -> str:
    path = page.save(sections, heading, ["Introduction."], out)
    assert path == out / "report.html"
    return path.read_text(encoding="utf-8")


class Reader(HTMLParser):
    """The elements of a page, the text of each kind of element, and whether all are closed."""

    VOID = ("meta", "img", "link", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self.open: list[str] = []
        self.declaration = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_decl(self, decl: str) -> None:
        self.declaration = decl

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.text.setdefault(tag, []).append("")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        for tag in set(self.open):
            self.text[tag][-1] += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def test_the_page_opens_without_a_network(tmp_path: Path) -> None:
    text = save([section("figure-1"), section("figure-2")], tmp_path)
    read = Reader(text)
    assert read.declaration == "doctype html"
    assert {"charset": "utf-8"} in read.of("meta")
    assert not {"script", "link", "iframe", "object", "embed", "base"} & {tag for tag, _ in read.elements}
    for tag, attributes in read.elements:
        for name, value in attributes.items():
            known = ("class", "id", "alt", "src", "charset", "lang", "href", "style", "name", "content")
            assert name in known, (tag, name)
            assert name != "src" or (value or "").startswith("data:image/png;base64,")
    assert not re.search(r"https?:|url\(|@import", text.replace("data:image", ""))


def test_links_lead_to_a_place_on_the_page_or_a_file_beside_it(tmp_path: Path) -> None:
    read = Reader(save([section("figure-1"), section("figure-2")], tmp_path))
    links = [link["href"] or "" for link in read.of("a")]
    places = {attributes.get("id") for _, attributes in read.elements}
    within, beside = ([one for one in links if one.startswith("#") == here] for here in (True, False))
    assert {link[1:] for link in within} <= places
    assert len(within) == 4  # each figure opens and closes
    assert sorted(beside) == ["figure-1.pdf", "figure-1.png", "figure-2.pdf", "figure-2.png"]
    assert all((tmp_path / link).exists() for link in beside)


def test_the_verdict_comes_first(tmp_path: Path) -> None:
    verdict = section("verdict", figure=None)
    path = page.save([section("figure-1")], "Heading", ["Introduction."], tmp_path, first=verdict)
    read = Reader(path.read_text(encoding="utf-8"))
    assert read.text["h2"] == ["Title of verdict", "How this was made", "Title of figure-1"]
    assert read.text["p"] == ["First.", "Second.", "Introduction.", "First.", "Second."]


def test_a_narrow_screen_shows_it_in_its_own_width(tmp_path: Path) -> None:
    read = Reader(save([section("figure-1")], tmp_path))
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in read.of("meta")
    # 390 pixels wide: an image that would have to shrink below 55% scrolls in place of the page.
    assert read.of("img")[0]["style"] == "min-width:215px"
    assert [tag for tag, attributes in read.elements if attributes.get("class") == "scroll"] == ["div"]


def test_images_are_the_figures(tmp_path: Path) -> None:
    read = Reader(save([section("figure-1"), section("figure-2")], tmp_path))
    assert [image["alt"] for image in read.of("img")] == ["Title of figure-1", "Title of figure-2"]
    for name, image in zip(("figure-1", "figure-2"), read.of("img"), strict=True):
        content = base64.b64decode((image["src"] or "").partition(",")[2], validate=True)
        assert content == (tmp_path / f"{name}.png").read_bytes()
        pixels = matplotlib.image.imread(io.BytesIO(content), format="png")
        assert pixels.shape[:2] == (260, 390)  # 130 dots an inch
        assert 0.0 < pixels[:, :, :3].mean() < 1.0
        pdf = (tmp_path / f"{name}.pdf").read_bytes()
        assert pdf.startswith(b"%PDF-")
        assert pdf.rstrip().endswith(b"%%EOF")
        assert b"CreationDate" not in pdf


def test_sections_come_in_order_with_their_words(tmp_path: Path) -> None:
    read = Reader(save([section("figure-1"), section("figure-2")], tmp_path))
    assert read.text["h1"] == read.text["title"] == ["Heading"]
    assert read.text["h2"] == ["Title of figure-1", "Title of figure-2"]
    assert read.text["p"] == ["Introduction.", *["First.", "Second."] * 2]
    assert [tag for tag, _ in read.elements if tag in ("h2", "img", "table")] == ["h2", "img", "table"] * 2


def test_tables_without_a_figure(tmp_path: Path) -> None:
    read = Reader(save([section("all", figure=None)], tmp_path))
    assert read.of("img") == []
    assert len(read.of("table")) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all-table.csv", "report.html"]


def test_text_is_escaped(tmp_path: Path) -> None:
    nasty = table(caption=NASTY, columns=(NASTY, "b", "c", "d"), folded=True)
    text = save([section(title=NASTY, text=(NASTY,), tables=[nasty])], tmp_path, heading=NASTY)
    read = Reader(text)
    assert "<b>" not in text
    assert read.text["h1"] == read.text["title"] == read.text["h2"] == [NASTY]
    assert read.text["p"][-1] == NASTY
    assert read.text["th"][0] == NASTY
    assert NASTY in read.text["td"]
    assert read.text["caption"][0].startswith(NASTY)
    assert NASTY in read.text["summary"][0]
    assert read.of("img")[0]["alt"] == NASTY


def test_rows_out_of_tolerance_are_marked_and_it_says_so(tmp_path: Path) -> None:
    read = Reader(
        save([section(tables=[table("a", marked=frozenset({0, 2})), table("b", marked=frozenset())])], tmp_path)
    )
    rows = [row.get("class") for row in read.of("tr")]
    assert rows == [None, "marked", None, "marked", *[None] * 4]  # each with its header
    assert ["out of tolerance" in caption for caption in read.text["caption"]] == [True, False]


def test_numbers_are_rounded_and_nothing_is_a_dash(tmp_path: Path) -> None:
    rows = ((1234.5678, 12345, None, ""), (1e-5 / 3, 0, float("inf"), "x"))
    read = Reader(save([section(tables=[table(rows=rows)])], tmp_path))
    assert read.text["td"] == ["1235", "12345", "–", "–", "3.333e-06", "0", "inf", "x"]
    # Only columns of text are set as text.
    assert [cell.get("class") for cell in read.of("th")] == [None, None, None, "text"]
    assert [cell.get("class") for cell in read.of("td")] == [None, None, None, "text"] * 2


def test_the_csv_has_every_digit(tmp_path: Path) -> None:
    rows = tuple((NASTY, number, value, None) for number, value in enumerate(NUMBERS))
    save([section(tables=[table("full", rows=rows)])], tmp_path)
    with (tmp_path / "full.csv").open(encoding="utf-8", newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["model", "count", "ratio", "remark"]
    assert [float(line[2]) for line in lines] == list(NUMBERS)
    assert [int(line[1]) for line in lines] == list(range(len(NUMBERS)))
    assert {(line[0], line[3]) for line in lines} == {(NASTY, "")}


def test_a_long_table_is_folded(tmp_path: Path) -> None:
    rows = tuple((f"row {number}", number, 0.5, "") for number in range(1500))
    read = Reader(save([section(tables=[table("long", rows=rows, folded=True), table("short")])], tmp_path))
    assert len(read.of("details")) == 1
    assert "open" not in read.of("details")[0]
    assert read.text["summary"] == ["1,500 rows: What rows are."]
    assert "row 1499" in read.text["details"][0]
    assert "three" not in read.text["details"][0]


def test_a_table_that_is_too_long_for_a_page_is_a_file(tmp_path: Path) -> None:
    rows = tuple((f"row {number}", number, 0.5, "") for number in range(page.LARGEST + 1))
    read = Reader(save([section(tables=[table("long", rows=rows)])], tmp_path))
    assert read.of("table") == []
    assert read.text["p"][-1] == f"{len(rows):,} rows in long.csv: What rows are."
    assert len((tmp_path / "long.csv").read_text().splitlines()) == len(rows) + 1


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    contents = []
    for out in ("a", "b"):
        (tmp_path / out).mkdir()
        save([section("figure-1"), section("figure-2")], tmp_path / out)
        contents.append({path.name: path.read_bytes() for path in (tmp_path / out).iterdir()})
    assert contents[0] == contents[1]
    assert sorted(contents[0]) == [
        "figure-1-table.csv", "figure-1.pdf", "figure-1.png", "figure-2-table.csv", "figure-2.pdf", "figure-2.png",
        "report.html",
    ]  # fmt: skip


def test_an_old_report_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text("old")
    (tmp_path / "mine.txt").write_text("mine")
    assert Reader(save([], tmp_path)).text["h1"] == ["Heading"]
    assert (tmp_path / "mine.txt").read_text() == "mine"
