"""What the site is made from, gathered in one folder with the layout of the repository, so that its links hold."""

import ast
import base64
import importlib
import inspect
import json
import re
import shutil
from pathlib import Path

from benchmark_tables import benchmarks_page

import lmgp

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SECTION = re.compile(r"^<!-- README: (.+) -->$", re.MULTILINE)
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
# Modules that are used by their own name, and classes from which own kernels, maps and models derive.
MODULES = ("errors", "experiments.datasets", "gpytorch", "io", "metrics", "plots", "selection.methods")
BASES = (
    "lmgp.kernels.Kernel",
    "lmgp.kernels.StationaryKernel",
    "lmgp.features.KernelMap",
    "lmgp.features.FeatureMap",
    "lmgp.posteriors.base.Posterior",
    "lmgp.sums.base.Sums",
    "lmgp.recipes.Recipe",
    "lmgp.recipes.AdditiveRecipe",
    "lmgp.estimators.GaussianProcess",
)
GROUPS = {  # by the package that lists a name
    "estimators": "Models",
    "features": "Feature maps",
    "kernels": "Kernels",
    "learning": "Learning, files and places",
    "sgd": "Linear models by stochastic gradient descent",
    "rbf": "Fast prediction with fitted RBF models",
}


def gather(out):
    """Write all sources of the site to a folder."""
    pages = [*ROOT.glob("docs/*.md"), *ROOT.glob("notebooks/*.ipynb"), *ROOT.glob("docs/**/*.png")]
    for path in [*pages, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "datasets/README.md"]:
        _copy(path, out)
    for path in HERE.glob("*.md"):
        (out / path.name).write_text(with_sections(path.read_text(encoding="utf-8")), encoding="utf-8")
    (out / "notebooks/index.md").write_text(gallery(sorted(ROOT.glob("notebooks/*.ipynb")), out), encoding="utf-8")
    (out / "benchmarks.md").write_text(benchmarks_page(ROOT), encoding="utf-8")
    (out / "api").mkdir()
    for name, text in api_pages().items():
        (out / "api" / f"{name}.md").write_text(text, encoding="utf-8")
    for page in out.rglob("*.md"):
        page.write_text(_linked(page, out), encoding="utf-8")


def with_sections(text):
    """Put sections of the README in the place of comments that name them."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    def section(match):
        found = re.search(rf"^## {re.escape(match[1])}\n(.*?)(?=^## |\Z)", readme, re.MULTILINE | re.DOTALL)
        if found is None:
            raise ValueError(f"README.md has no section {match[1]!r}, which a page of docs/site names.")
        return found[1].strip("\n")

    return SECTION.sub(section, text)


def gallery(notebooks, out):
    """Return the page of the notebooks: of each its first image, its title and its first paragraph."""
    cards = []
    for path in notebooks:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        title, _, rest = "".join(cells[0]["source"]).partition("\n")
        image, alt = _first_image(cells)
        (out / "notebooks" / f"{path.stem}.png").write_bytes(base64.b64decode(image))
        first = " ".join(_plain(rest.strip().split("\n\n")[0]).split())
        cards.append(
            f":::{{grid-item-card}} {title.lstrip('# ')}\n:link: {path.stem}\n:link-type: doc\n"
            f":img-top: {path.stem}.png\n:img-alt: {alt}\n{first}\n:::"
        )
    tree = "\n".join(path.stem for path in notebooks)
    return (
        "# Examples\n\nNotebooks with their outputs. Each is in `notebooks/` of the repository, to be run.\n\n"
        "::::{grid} 1 1 2 3\n:gutter: 3\n\n" + "\n\n".join(cards) + "\n::::\n\n"
        f"```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    )


def _first_image(cells):
    for cell in cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                return output["data"]["image/png"], cell["metadata"]["mystnb"]["image"]["alt"]
    raise ValueError("a notebook without an image has no card in the gallery")


def _plain(text):
    """Return Markdown without links."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)


def public_names():
    """Return the groups of public names of the package, by their titles."""
    stub = ast.parse((ROOT / "lmgp/__init__.pyi").read_text(encoding="utf-8"))
    package = {
        alias.name: (node.module or "").split(".")[0]
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    groups = {title: [] for title in GROUPS.values()}
    for name in lmgp.__all__:
        groups[GROUPS.get(package.get(name, ""), GROUPS["learning"])].append(f"lmgp.{name}")
    for package, title in GROUPS.items():
        names = sorted({*importlib.import_module(f"lmgp.{package}").__all__} - {*lmgp.__all__})
        groups[title] += [name for name in (f"lmgp.{package}.{name}" for name in names) if name not in BASES]
    return groups | {"Modules": [f"lmgp.{name}" for name in MODULES], "To derive from": list(BASES)}


def members(module):
    """Return the public names that a module defines, or that it lists."""
    listed = getattr(module, "__all__", None)
    return listed or [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__ and callable(value)
    ]


def api_pages():
    """Return the pages of the reference by their names: a page a public name, and their index."""
    pages = {}
    index = ["# Reference", "All public names. A model of your own starts from [these steps](../docs/extending.md)."]
    for title, names in public_names().items():
        names = sorted(names, key=lambda name: name != "lmgp.GPRegressor")  # the one to start with
        rows = []
        for name in names:
            value, directive = _found(name)
            pages[name] = f"# {name.removeprefix('lmgp.')}\n\n```{{eval-rst}}\n{directive}\n```\n"
            rows.append(f"| [`{name.removeprefix('lmgp.')}`]({name}.md) | {_summary(value)} |")
        tree = "\n".join(names)
        index += [
            f"## {title}",
            "| name | what it is |\n|---|---|\n" + "\n".join(rows),
            f"```{{toctree}}\n:hidden:\n:caption: {title}\n\n{tree}\n```",
        ]
    return pages | {"index": "\n\n".join(index) + "\n"}


def _found(name):
    """Return what a dotted name stands for, and the directive that documents it."""
    place, _, last = name.rpartition(".")
    if name.removeprefix("lmgp.") in MODULES:
        module = importlib.import_module(name)
        parts = [f".. automodule:: {name}\n   :no-members:"]
        for member in members(module):
            parts.append(_directive(getattr(module, member), f"{name}.{member}"))
        return module, "\n\n".join(parts)
    value = getattr(importlib.import_module(place), last)
    return value, _directive(value, name)


def _directive(value, name):
    if inspect.isclass(value):
        return f".. autoclass:: {name}\n   :members:\n   :inherited-members:\n   :show-inheritance:"
    return f".. autofunction:: {name}" if callable(value) else f".. autodata:: {name}"


def _summary(value):
    """Return the first sentence of a docstring, as Markdown."""
    if isinstance(value, str | dict | tuple | list):
        return "The version of the package." if value == lmgp.__version__ else ""
    return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split()).replace("|", "\\|").replace("``", "`")


def _linked(page, out):
    """Return a page whose links to files outside the site lead to copies, and to folders to the page about them."""
    text = page.read_text(encoding="utf-8")
    folders = {ROOT / "benchmarks/results": "benchmarks.md", ROOT / "notebooks": "notebooks/index.md"}
    depth = "../" * len(page.parent.relative_to(out).parts)

    def link(match):
        target = match[2]
        path = (ROOT / page.parent.relative_to(out) / target).resolve()
        if "://" in target or (page.parent / target).exists() or not path.is_relative_to(ROOT) or not path.exists():
            return match[0]  # a link that leads nowhere stays: Sphinx names it
        if path in folders:
            return f"{match[1]}{depth}{folders[path]}{match[3]}"
        if path.is_file():
            _copy(path, out)
        return match[0]

    return LINK.sub(link, text)


def _copy(path, out):
    place = out / path.relative_to(ROOT)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, place)
