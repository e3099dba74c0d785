"""Build the documentation site: gather its sources, run Sphinx, and check what came out.

    python docs/site/build.py [--out FOLDER]

Needs the extra `docs`, and no network. The pages are those of docs/, the notebooks with their outputs, a page for each
public name and one of the benchmarks' raw results. A warning, a broken link, an image without words in its place, and
anything that a reader's browser would load from elsewhere end the build with status 1.
"""

import argparse
import logging
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from check import faults  # noqa: E402
from gather import gather  # noqa: E402


def build(out):
    """Make the site in OUT/html from sources in OUT/source; return what is wrong, one line each."""
    from sphinx.cmd.build import main as sphinx

    source, html = out / "source", out / "html"
    for folder in (source, html):
        shutil.rmtree(folder, ignore_errors=True)
    gather(source)
    options = ["--fail-on-warning", "--keep-going", "--quiet", "--builder", "html", "--jobs", "2"]
    status = sphinx([*options, "--conf-dir", str(HERE), "--doctree-dir", str(out / "doctrees"), str(source), str(html)])
    return ["Sphinx warns, see above"] * bool(status) + faults(html)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "build" / "site", metavar="FOLDER")
    out = parser.parse_args().out.resolve()
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    found = build(out)
    for fault in found:
        logging.error(fault)
    if found:
        raise SystemExit(1)
    logging.info("%s", out / "html" / "index.html")


if __name__ == "__main__":
    main()
