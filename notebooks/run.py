"""Run notebooks at their full settings, and keep their outputs in them.

    python notebooks/run.py [NOTEBOOK ...]

Without names, all of them. Outputs are kept small: images in 256 colours, no metadata. Of a cell whose first line is
the comment below, no output is kept: its seconds are those of one machine, which are no one else's.
"""

import argparse
import base64
import io
import logging
import os
import sys
import tempfile
from pathlib import Path

import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from PIL import Image

FOLDER = Path(__file__).resolve().parent
SECONDS = "# Seconds are those of your machine: run this cell."
KEPT = ("text/plain", "text/markdown", "image/png")
TIMEOUT = 3600  # seconds a cell


def execute(notebook, folder):
    """Run a notebook in a folder, by this interpreter, whatever kernels are installed."""
    manager = AsyncKernelManager(
        kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[])
    )
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, km=manager, timeout=TIMEOUT, resources=resources).execute(
        cleanup_kc=True
    )


def tidy(notebook):
    """Keep what is read of the outputs."""
    count = 0
    for number, cell in enumerate(notebook.cells, start=1):
        # The words in place of an image, where it cannot be seen, are kept: docs/site reads them.
        told = {key: value for key, value in cell.metadata.items() if key == "mystnb"}
        cell.id, cell.metadata = f"cell-{number:02d}", told
        if cell.cell_type != "code":
            continue
        count += 1
        timed = cell.source.startswith(SECONDS)
        cell.execution_count = None if timed else count
        cell.outputs = (
            [] if timed else [kept(output, count) for output in joined(cell.outputs)]
        )
    notebook.metadata = {
        "kernelspec": {
            "display_name": "Python 3",
            "language": "python",
            "name": "python3",
        },
        "language_info": {"name": "python"},
    }
    return notebook


def joined(outputs):
    """Join what was printed in parts, and leave out what a last line returns that is only an address."""
    found = []
    for output in outputs:
        if (
            found
            and output.output_type == found[-1].output_type == "stream"
            and output.name == found[-1].name
        ):
            found[-1].text += output.text
        elif not (
            set(output.get("data", ())) == {"text/plain"}
            and " at 0x" in output.data["text/plain"]
        ):
            found.append(output)
    return found


def kept(output, count):
    """Return an output with what is read of it."""
    if output.output_type == "stream" and output.name == "stderr":
        raise SystemExit(f"cell {count} writes to standard error: {output.text}")
    if "execution_count" in output:
        output.execution_count = count
    if "data" in output:
        output.metadata = {}
        output.data = {
            kind: value for kind, value in output.data.items() if kind in KEPT
        }
        if "image/png" in output.data:
            output.data["text/plain"] = "<Figure>"
            output.data["image/png"] = small(output.data["image/png"])
    return output


def small(png):
    """Return an image, in base64, in 256 colours."""
    image, drawn = Image.open(io.BytesIO(base64.b64decode(png))), io.BytesIO()
    image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(
        drawn, "png", optimize=True
    )
    return base64.b64encode(drawn.getvalue()).decode()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("notebooks", nargs="*", type=Path, metavar="NOTEBOOK")
    paths = parser.parse_args().notebooks or sorted(FOLDER.glob("*.ipynb"))
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    os.environ.pop("LMGP_QUICK", None)
    os.environ.pop("MPLBACKEND", None)
    os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"
    for path in paths:
        notebook = nbformat.read(path, as_version=4)
        with tempfile.TemporaryDirectory() as folder:
            execute(notebook, folder)
        nbformat.write(tidy(notebook), path)
        logging.info("%s: %d bytes", path, path.stat().st_size)


if __name__ == "__main__":
    main()
