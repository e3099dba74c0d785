"""The code in the README and in the pages of docs/ runs, their links lead somewhere, and their tables are true."""

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.datasets
from sklearn.svm import SVR

import lmgp
from lmgp.kernels.base import CAPABILITIES, Kernel
from lmgp.selection.methods import METHODS

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
MODEL = """svm_type c_svc
kernel_type rbf
gamma 0.001
nr_class 2
total_sv 2
rho 0.1
label 1 -1
nr_sv 1 1
SV
1 1:1 2:2
-1 2:1
"""
# What fetch_openml(data_id=42585) downloads, of which scikit-learn has a copy among its tests.
PENGUINS = {
    "api-v1-jd-42585.json.gz": "api/v1/json/data/42585.gz",
    "api-v1-jdf-42585.json.gz": "api/v1/json/data/features/42585.gz",
    "api-v1-jdq-42585.json.gz": "api/v1/json/data/qualities/42585.gz",
    "data-v1-dl-21854866.arff.gz": "data/v1/download/21854866/penguins.arff.gz",
}
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def names() -> dict[str, Any]:
    """What the pages take for granted: rows, targets and a model."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(120, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    return {"X": X, "y": y, "X_test": X[:9], "svr": SVR(gamma=1.0).fit(X, X[:, 0])}


def put_penguins(home: Path) -> None:
    """Put the downloads of a page into the cache of scikit-learn, or skip where it was installed without its tests."""
    copies = Path(sklearn.datasets.__file__).parent / "tests" / "data" / "openml" / "id_42585"
    if not copies.is_dir():
        pytest.skip("scikit-learn was installed without the data of its tests")
    for copy, name in PENGUINS.items():
        place = home / "openml" / "openml.org" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(copies / copy, place)


def test_there_are_pages() -> None:
    assert len(PAGES) >= 8


@pytest.mark.parametrize("page", [ROOT / "README.md", ROOT / "docs/site/index.md"], ids=lambda page: page.stem)
def test_the_first_prediction_that_is_shown_is_of_observations(page: Path) -> None:
    block = next(one for one in BLOCK.findall(page.read_text(encoding="utf-8")) if ".fit(" in one)
    first = next(line for line in block.splitlines() if ".predict" in line)
    assert "predict_interval" in first
    assert "with their noise" in first
    assert all("of the function, without noise" in line for line in block.splitlines() if "return_std" in line)


@pytest.mark.slow
@each_page
@pytest.mark.filterwarnings("ignore::lmgp.errors.ValidityWarning")
def test_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LMGP_CACHE_DIR", str(tmp_path))
    (tmp_path / "a9a.model").write_text(MODEL)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "scikit-learn"))
    namespace = names()
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks
    if any("fetch_openml" in block for block in blocks):
        put_penguins(tmp_path / "scikit-learn")
    known = dict(METHODS)
    try:
        for block in blocks:
            exec(compile(block, str(page), "exec"), namespace)
    finally:  # without what a page registers
        METHODS.clear()
        METHODS.update(known)


@each_page
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert [link for link in links if not (page.parent / link).exists()] == []


FENCED = re.compile(r"^```(?!{)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
SITE = ROOT / "docs" / "site"
LISTED = re.compile(r"^- \[[^\]]+\]\((\S+?)\): \S.+", re.MULTILINE)
SEARCHED = (
    "periodic", "categorical", "missing", "outliers", "counts", "kriging", "GeoTIFF", "GPU", "save", "uncertainty",
    "hyperparameters", "heteroscedastic", "classification", "multi-output",
)  # fmt: skip
# Pages of figures, which scripts write, and the pages of the papers, are as long as they are.
LONGEST = {"README": 160, "quality_tables": 1000, "own_kernels": 300}


@pytest.mark.parametrize("page", [*PAGES, *sorted(SITE.glob("*.md"))], ids=lambda page: page.stem)
def test_lines_of_code_fit_a_screen_of_1280_pixels(page: Path) -> None:
    blocks = FENCED.findall(page.read_text(encoding="utf-8"))
    assert [line for block in blocks for line in block.splitlines() if len(line) > 88] == []


@each_page
def test_pages_are_as_long_as_they_are_read(page: Path) -> None:
    assert len(page.read_text(encoding="utf-8").splitlines()) <= LONGEST.get(page.stem, 200)


def test_every_page_of_the_guide_has_a_line_that_says_what_is_in_it() -> None:
    for name in ("guide.md", "papers.md"):
        text = (SITE / name).read_text(encoding="utf-8")
        trees = re.findall(r"```{toctree}\n(.*?)```", text, re.DOTALL)
        entries = {line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")}
        assert entries
        assert entries <= {link.removesuffix(".md") for link in LISTED.findall(text)}


@pytest.mark.parametrize("word", SEARCHED)
def test_one_word_finds_a_page(word: str) -> None:
    """In the guide's list, and in a heading of a page, which the search of the site puts first."""
    assert word.lower() in (SITE / "guide.md").read_text(encoding="utf-8").lower()
    headings = [
        line for page in PAGES for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("#")
    ]
    assert any(word.lower() in line.lower() for line in headings)


def table(first_cell: str, second_cell: str) -> list[dict[str, str]]:
    """The rows of a table of the page on kernels, by the names of its columns."""
    lines = (ROOT / "docs" / "kernels.md").read_text(encoding="utf-8").splitlines()
    (start,) = (i for i, line in enumerate(lines) if line.startswith(f"| {first_cell} | {second_cell} |"))
    header, _, *body = (
        [cell.strip("` ") for cell in line.strip("|").split("|")] for line in lines[start : lines.index("", start)]
    )
    return [dict(zip(header, row, strict=True)) for row in body]


def kernel_of(code: str) -> Kernel:
    names = {name: getattr(lmgp, name) for name in lmgp.__all__ if name.endswith("Kernel")}
    kernel = eval(code, {**names, "np": np, "f": np.sum})
    assert isinstance(kernel, Kernel)
    return kernel


def test_the_table_of_capabilities_is_true() -> None:
    rows = table("kernel", "metric")
    assert len(rows) >= 10
    assert set(rows[0]) == {"kernel", *CAPABILITIES}
    for row in rows:
        kernel = kernel_of(row.pop("kernel"))
        assert row == {name: "yes" if kernel.can(name) else "–" for name in CAPABILITIES}, kernel


def test_the_table_of_maps_is_true() -> None:
    """By fitting each map, not by what it says that it needs."""
    rows = table("kernel", "`NystroemFeatures`")
    assert len(rows) >= 10
    X = np.random.default_rng(0).normal(size=(20, 2))
    for row in rows:
        kernel = kernel_of(row.pop("kernel"))
        assert set(row.values()) <= {"yes", "–"}
        for name, served in row.items():
            features = getattr(lmgp, name)(12, kernel=kernel, random_state=0)
            if served == "yes":
                assert features.fit_transform(X).shape[0] == 20
            else:
                with pytest.raises(lmgp.errors.InputError, match=f"{name} needs"):
                    features.fit(X)
