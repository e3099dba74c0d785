"""Every notebook runs, in its quick settings, and is kept with small outputs of its full ones."""

import base64
import io
import os
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import numpy as np
import pytest
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_core.utils import run_sync
from matplotlib.image import imread
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from lmgp.experiments.datasets import CATALOGUE
from lmgp.plots.canvas import new_figure

FOLDER = Path(__file__).parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
NEEDS = {"03_uk_prices.ipynb": "uk_flats_2020-12"}
TIMEOUT = 300  # seconds a notebook
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
SMALL = 300_000  # bytes
# The first line of a cell whose output is not kept, see notebooks/run.py.
TIMED = "# Seconds are those of your machine: run this cell."
# A number of seconds, and the columns of seconds in the tables of what was tried.
SECONDS = re.compile(r"\d s(?![.\w])|\bseconds\b|\btrial s\b| s$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]+)\)")
# At the start of a word: a slash, a home folder or a drive, as in /data, ~/data or C:\data.
ABSOLUTE = re.compile(r"""(?:^|[\s"'`(=:])(?:/\w|~[/\\]|[A-Za-z]:\\)""", re.MULTILINE)

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def skip_without_data(name: str) -> None:
    folder = os.environ.get("LMGP_DATA_DIR")
    if not folder:
        pytest.skip(f"LMGP_DATA_DIR names no folder with {name}")
    if CATALOGUE[name].local_file(Path(folder).expanduser()) is None:
        pytest.skip(f"the folder in LMGP_DATA_DIR does not have {name}")


# What a notebook finds in a kernel that others ran in: its folder, and none of their names, figures and warnings.
AS_NEW = """%reset -f
import os, warnings
import matplotlib.pyplot as plt
plt.close("all")
os.chdir({folder!r})
warnings.filterwarnings("ignore", "IProgress not found")  # a change of filters forgets what was warned about
del os, plt, warnings"""


def execute(notebook: nbformat.NotebookNode, folder: Path, manager: AsyncKernelManager) -> None:
    """Run a notebook in a folder, after others in the same kernel."""
    first = nbformat.v4.new_code_cell(AS_NEW.format(folder=str(folder)))
    whole = nbformat.v4.new_notebook(cells=[first, *notebook.cells])  # outputs come into the notebook's own cells
    client = NotebookClient(whole, km=manager, timeout=TIMEOUT, resources={"metadata": {"path": str(folder)}})
    try:
        client.execute(cleanup_kc=False)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        pytest.fail(COLOURS.sub("", str(error)), pytrace=False)
    notebook.cells = whole.cells[1:]


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AsyncKernelManager]:
    """A kernel of the interpreter of the tests, whatever kernels are installed, that imports what it needs once."""
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
    with pytest.MonkeyPatch.context() as monkeypatch:
        environment(monkeypatch, tmp_path_factory.mktemp("kernel"))
        yield manager
    if manager.has_kernel:
        run_sync(manager.shutdown_kernel)(now=True)


def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Quick settings, one thread, and nothing read from or written to the user's own settings of Jupyter."""
    monkeypatch.setenv("LMGP_QUICK", "1")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("LMGP_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.delenv("MPLBACKEND", raising=False)
    # Only what this package causes is to be seen: tqdm's advice to install widgets is not.
    monkeypatch.setenv("PYTHONWARNINGS", "ignore:IProgress not found")
    if folder := os.environ.get("LMGP_DATA_DIR"):  # the notebook runs in another folder
        monkeypatch.setenv("LMGP_DATA_DIR", str(Path(folder).expanduser().resolve()))


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 4
    assert set(NEEDS) <= {path.name for path in NOTEBOOKS}


@pytest.mark.slow
@each_notebook
def test_runs(path: Path, kernel: AsyncKernelManager, tmp_path: Path) -> None:
    if path.name in NEEDS:
        skip_without_data(NEEDS[path.name])
    notebook = nbformat.read(path, as_version=4)
    (tmp_path / "work").mkdir()
    execute(notebook, tmp_path / "work", kernel)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert "".join(output["text"] for output in outputs if output.get("name") == "stderr") == ""
    assert list((tmp_path / "work").iterdir()) == []


def test_a_failure_shows_the_traceback_of_the_cell(kernel: AsyncKernelManager, tmp_path: Path) -> None:
    source = "def halve(x):\n    return x / 0\n\n\nhalve(1)"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    with pytest.raises(pytest.fail.Exception) as failure:
        execute(notebook, tmp_path, kernel)
    assert re.search(r"return x / 0[\s\S]*ZeroDivisionError: division by zero", str(failure.value))


def test_the_kernel_is_the_interpreter_of_the_tests(kernel: AsyncKernelManager, tmp_path: Path) -> None:
    source = f"import sys\n\nassert sys.prefix == {sys.prefix!r}, sys.prefix"
    execute(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), tmp_path, kernel)


def test_a_notebook_finds_nothing_of_those_before(kernel: AsyncKernelManager, tmp_path: Path) -> None:
    for source in ("left = 1", "assert 'left' not in globals()"):
        execute(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)]), tmp_path, kernel)


@each_notebook
def test_is_valid_and_tidy(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=nbformat.NO_CONVERT)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    assert notebook.metadata.kernelspec == {"display_name": "Python 3", "language": "python", "name": "python3"}
    assert text.endswith("}\n")
    for cell in notebook.cells:
        # Words in place of the image, for those who do not see it; nothing else.
        if any("image/png" in output.get("data", {}) for output in cell.get("outputs", [])):
            assert len(cell.metadata["mystnb"]["image"]["alt"]) >= 40
            assert list(cell.metadata) == ["mystnb"]
        else:
            assert cell.metadata == {}
        assert not ABSOLUTE.search(cell.source), cell.source
    assert any("LMGP_QUICK" in cell.source for cell in notebook.cells)


@each_notebook
def test_is_kept_with_small_outputs(path: Path) -> None:
    assert path.stat().st_size <= SMALL
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    for number, cell in enumerate(cells, start=1):
        timed = cell.source.startswith(TIMED)
        assert cell.execution_count == (None if timed else number), "run notebooks/run.py"
        assert not (timed and cell.outputs)
        if not timed and ("print(" in cell.source or "plt.subplots" in cell.source) and "def " not in cell.source:
            assert cell.outputs, cell.source
    outputs = [output for cell in cells for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert {output.output_type for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert {kind for output in outputs for kind in output.get("data", {})} <= {
        "text/plain",
        "text/markdown",
        "image/png",
    }


@each_notebook
def test_outputs_are_of_no_machine(path: Path) -> None:
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    for output in (output for cell in cells for output in cell.outputs):
        assert output.get("name") != "stderr"
        for text in (
            output.get("text", ""),
            *(output.get("data", {}).get(f"text/{kind}", "") for kind in ("plain", "markdown")),
        ):
            assert not ABSOLUTE.search(text), text
            assert not SECONDS.search(text), text
            assert " at 0x" not in text, text


@each_notebook
def test_ends_with_what_to_read_next(path: Path) -> None:
    last = nbformat.read(path, as_version=4).cells[-1]
    assert last.cell_type == "markdown"
    assert last.source.startswith("## What to read next\n")
    links = LINK.findall(last.source)
    assert len(links) >= 2
    assert [link for link in links if not (FOLDER / link).exists()] == []


def test_the_script_keeps_what_is_read_of_the_outputs() -> None:
    script = runpy.run_path(str(FOLDER / "run.py"))
    assert script["SECONDS"] == TIMED
    buffer = io.BytesIO()
    figure = new_figure(3.0, 2.0)
    figure.subplots().plot([1, 2])
    figure.savefig(buffer)
    data = {
        "image/png": base64.b64encode(buffer.getvalue()).decode(),
        "text/plain": "<Figure at 0x7f>",
        "text/html": "<p>",
    }
    made = nbformat.v4.new_output("display_data", data=data, metadata={"needs_background": "light"})
    cells = [nbformat.v4.new_code_cell("draw()", outputs=[made]), nbformat.v4.new_code_cell(f"{TIMED}\nprint(1)")]
    cells[1].outputs = [nbformat.v4.new_output("stream", text="1 s")]
    address = nbformat.v4.new_output("execute_result", data={"text/plain": "<Legend at 0x7f>"})
    printed = [nbformat.v4.new_output("stream", text=text) for text in "ab"]
    kept, timed = script["tidy"](nbformat.v4.new_notebook(cells=cells)).cells
    assert (kept.id, kept.execution_count, timed.execution_count, timed.outputs) == ("cell-01", 1, None, [])
    assert script["joined"]([address, *printed]) == [nbformat.v4.new_output("stream", text="ab")]
    (output,) = kept.outputs
    assert set(output.data) == {"image/png", "text/plain"}
    assert output.data["text/plain"] == "<Figure>"
    image = imread(io.BytesIO(base64.b64decode(output.data["image/png"])))[..., :3]
    np.testing.assert_allclose(image, imread(io.BytesIO(buffer.getvalue()))[..., :3], atol=0.03)


@pytest.mark.parametrize(("name", "dataset"), NEEDS.items())
def test_the_licence_of_the_data_is_given(name: str, dataset: str) -> None:
    introduction = nbformat.read(FOLDER / name, as_version=4).cells[0].source
    first, attribution = CATALOGUE[dataset].licence.split(". ", maxsplit=1)
    assert first in introduction
    assert attribution in introduction
