"""The documentation site has a page of everything, and its checks find what is wrong. `make docs` builds it."""

import importlib
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.public import members

ROOT = Path(__file__).parent.parent
SITE = ROOT / "docs" / "site"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The scripts of the site, by their names."""
    monkeypatch.syspath_prepend(str(SITE))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


@pytest.fixture
def gathered(site: Any, tmp_path: Path) -> Path:
    site("gather").gather(tmp_path / "source")
    return tmp_path / "source"


def test_every_public_name_has_a_page(site: Any) -> None:
    pages = site("gather").api_pages()
    for name in members():
        place, _, _ = name.rpartition(".")
        assert f":: {name}\n" in pages[name if name in pages else place]
        assert f"({name if name in pages else place}.md)" in pages["index"]


def test_every_page_is_in_the_navigation(gathered: Path) -> None:
    reached, waiting = set(), ["index"]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        path = gathered / f"{page}.md"
        for tree in re.findall(r"```{toctree}\n(.*?)```", path.read_text() if path.exists() else "", re.DOTALL):
            entries = [line for line in tree.splitlines() if line and not line.startswith(":")]
            waiting += [str((Path(page).parent / entry).as_posix()) for entry in entries]
    found = [*gathered.rglob("*.md"), *gathered.rglob("*.ipynb")]
    assert {str(path.relative_to(gathered).with_suffix("")) for path in found} == reached
    assert {f"docs/{path.stem}" for path in (ROOT / "docs").glob("*.md")} <= reached
    assert {f"notebooks/{path.stem}" for path in (ROOT / "notebooks").glob("*.ipynb")} <= reached


def test_links_of_pages_lead_to_what_was_gathered(gathered: Path) -> None:
    wrong = []
    for path in gathered.rglob("*.md"):
        links = re.findall(
            r"\]\(([^)\s#]+)[^)]*\)", re.sub(r"`[^`]*`|^```.*?^```", "", path.read_text(), flags=re.M | re.S)
        )
        wrong += [(path.name, link) for link in links if "://" not in link and not (path.parent / link).exists()]
    assert wrong == []


def test_links_to_folders_lead_to_the_page_about_them(site: Any, tmp_path: Path) -> None:
    page = tmp_path / "docs" / "one.md"
    page.parent.mkdir()
    page.write_text("[a](../benchmarks/results) [b](../notebooks) [c](../pyproject.toml) [d](nowhere.md)")
    assert site("gather")._linked(page, tmp_path) == (
        "[a](../benchmarks.md) [b](../notebooks/index.md) [c](../pyproject.toml) [d](nowhere.md)"
    )
    assert (tmp_path / "pyproject.toml").read_text() == (ROOT / "pyproject.toml").read_text()


def test_sections_of_the_readme_are_shown(site: Any) -> None:
    text = site("gather").with_sections("before\n<!-- README: Licence -->\nafter")
    assert text == "before\nMIT.\nafter"
    assert site("gather").with_sections("<!-- README: Install -->").startswith("```sh\npip install .")
    with pytest.raises(ValueError, match="has no section 'Nothing'"):
        site("gather").with_sections("<!-- README: Nothing -->")


def test_every_file_of_results_is_on_the_page_of_the_benchmarks(gathered: Path) -> None:
    page = (gathered / "benchmarks.md").read_text(encoding="utf-8")
    for path in (ROOT / "benchmarks" / "results").glob("*.json"):
        section = page.split(f"](benchmarks/results/{path.name})")
        assert len(section) == 2, path.name
        assert "- Command: `python benchmarks/" in section[0].rsplit("\n## ", 1)[1]
        assert (gathered / "benchmarks" / "results" / path.name).exists()
    rows = json.loads((ROOT / "benchmarks/results/sizes.json").read_text())["runs"]
    assert f"| {rows[0]['rows']:,} | {rows[0]['fit_s']:.3g} | {rows[0]['predict_s']:.3g} |" in page


def test_runs_that_differ_in_the_seed_become_their_median(site: Any) -> None:
    rows = [{"method": "a", "seed": seed, "kl": kl} for seed, kl in enumerate((0.1, 0.9, 0.2))]
    medians = site("benchmark_tables")._medians
    assert medians(rows) == [{"method": "a", "kl": 0.2}]
    widths = [{**row, "width": width} for row in rows for width in (0.5, 2.0)]  # a setting that is a fraction
    assert medians(widths) == widths
    assert medians([{"map": "a", "s": 1.0}, {"map": "a", "s": 3.0}, {"map": "b", "s": 5.0}], repeated=True) == [
        {"map": "a", "s": 2.0},
        {"map": "b", "s": 5.0},
    ]


@pytest.mark.slow
def test_the_code_of_the_first_page_runs() -> None:
    X = np.random.default_rng(0).uniform(size=(60, 2))
    namespace: dict[str, Any] = {"X": X, "y": np.sin(3.0 * X[:, 0]), "X_test": X[:5]}
    (block,) = BLOCK.findall((SITE / "index.md").read_text(encoding="utf-8"))
    exec(compile(block, "index.md", "exec"), namespace)
    assert namespace["std"].shape == (5,)


GOOD = (
    '<html><body><h1 id="top">T</h1><a href="#top">a</a><a href="b.html#there">b</a><img src="i.png" alt="I"></body>'
    "</html>"
)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ('<a href="c.html">c</a>', "the link c.html leads nowhere"),
        ('<a href="b.html#nowhere">c</a>', "the link b.html#nowhere leads nowhere"),
        ('<a href="../../outside.html">c</a>', "leads nowhere"),
        ('<img src="i.png">', "the image i.png has no words in its place"),
        ('<img src="i.png" alt=" ">', "the image i.png has no words in its place"),
        ('<script src="https://cdn.example/x.js"></script>', "https://cdn.example/x.js is loaded from elsewhere"),
        ('<link rel="stylesheet" href="//cdn.example/x.css">', "//cdn.example/x.css is loaded from elsewhere"),
    ],
)
def test_faults_of_pages_are_found(site: Any, tmp_path: Path, wrong: str, told: str) -> None:
    faults = site("check").faults
    (tmp_path / "b.html").write_text('<p id="there">b</p><a href="https://example.org/gone">not followed</a>')
    (tmp_path / "i.png").write_bytes(b"")
    (tmp_path / "a.html").write_text(GOOD)
    assert faults(tmp_path) == []
    (tmp_path / "a.html").write_text(GOOD.replace("</body>", f"{wrong}</body>"))
    (fault,) = faults(tmp_path)
    assert fault.startswith("a.html: ")
    assert told in fault


def test_a_folder_without_pages_and_a_style_from_elsewhere_are_faults(site: Any, tmp_path: Path) -> None:
    assert site("check").faults(tmp_path) == [f"{tmp_path} has no pages"]
    (tmp_path / "a.html").write_text(GOOD.replace("b.html#there", "#top").replace("i.png", "a.html"))
    (tmp_path / "a.css").write_text("@font-face { src: url(https://fonts.example/f.woff2); }")
    assert site("check").faults(tmp_path) == ["a.css: a style is loaded from elsewhere"]


def test_formulas_in_docstrings_stay_as_they_are(site: Any) -> None:
    pytest.importorskip("docutils")
    lines = ["of |y − m|, less `center_` and center_, see [1]_", "", ">>> model.center_ | 1", "", "n_features_out_)"]
    site("conf").escape_formulas(None, "class", "", None, None, lines)
    assert lines[0] == r"of \|y − m\|, less `center_` and center\_, see [1]_"
    assert lines[2:] == [">>> model.center_ | 1", "", r"n_features_out\_)"]
