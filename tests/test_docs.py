"""The code in the pages of docs/ runs, and what they and the README link to is there."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.svm import SVR

ROOT = Path(__file__).parent.parent
PAGES = sorted((ROOT / "docs").glob("*.md"))
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#]+)\)")
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
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)


def names() -> dict[str, Any]:
    """What the pages take for granted: rows, targets and a model."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(120, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    return {"X": X, "y": y, "X_test": X[:9], "svr": SVR(gamma=1.0).fit(X, X[:, 0])}


def test_there_are_pages() -> None:
    assert len(PAGES) >= 4


@each_page
@pytest.mark.filterwarnings("ignore::lmgp.errors.ValidityWarning")
def test_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LMGP_CACHE_DIR", str(tmp_path))
    (tmp_path / "a9a.model").write_text(MODEL)
    namespace = names()
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    assert blocks
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.stem)
def test_links_lead_somewhere(page: Path) -> None:
    links = [link for link in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in link]
    assert links
    assert [link for link in links if not (page.parent / link).exists()] == []
