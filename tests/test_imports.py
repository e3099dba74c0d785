"""What an import loads, what it finds, and in which order the modules of the package may import each other."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import lmgp
from lmgp.methods import METHODS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "lmgp"
HEAVY = ("torch", "gpytorch", "matplotlib", "scipy", "sklearn", "dask", "distributed")


def loaded_by(code: str) -> set[str]:
    """The heavy packages that a fresh interpreter has loaded after some code."""
    script = f"{code}\nimport sys\nprint('loaded', *({set(HEAVY)!r} & sys.modules.keys()))"
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, cwd=ROOT)
    return set(run.stdout.splitlines()[-1].split()) - {"loaded"}


# ------------------------------------------------------------------------------------------------------ what is loaded


@pytest.mark.parametrize(
    ("code", "allowed"),
    [
        ("import lmgp", set()),
        ("import lmgp; dir(lmgp); lmgp.__version__", set()),
        ("from lmgp.methods import METHODS", set()),
        ("from lmgp.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass", set()),
        ("from lmgp.cli import main\ntry: main(['compare', '--help'])\nexcept SystemExit: pass", set()),
        ("from lmgp.cli import main\ntry: main(['fit', '--help'])\nexcept SystemExit: pass", set()),
        ("from lmgp.cli import main\nmain(['predict', 'model', 'table', '--out', 'nowhere/out'])", set()),
        ("from lmgp.cli import main\ntry: main(['plot', '--help'])\nexcept SystemExit: pass", set()),
        ("from lmgp.cli import main\nmain(['plot', 'model', '--out', 'nowhere/out'])", set()),
        ("from lmgp.cli import main\nmain(['compare', 'sinc', '--no-such-option'])", set()),
        ("from lmgp.cli import main\nmain(['datasets'])", {"scipy", "sklearn"}),
        ("import lmgp; lmgp.load_dataset('sinc')", {"scipy", "sklearn"}),
        # Not matplotlib.
        ("import lmgp; lmgp.ExactGPRegressor, lmgp.TaylorFeatures", {"scipy", "sklearn", "torch", "gpytorch"}),
    ],
)
def test_an_import_loads_no_more_than_it_needs(code: str, allowed: set[str]) -> None:
    assert loaded_by(code) <= allowed


# ------------------------------------------------------------------------------------------------------- what is found


def test_every_public_name_resolves() -> None:
    assert len(set(lmgp.__all__)) == len(lmgp.__all__) > 30
    for name in lmgp.__all__:
        assert getattr(lmgp, name) is not None, name
    assert set(lmgp.__all__) - {"__version__"} == set(dir(lmgp))
    with pytest.raises(AttributeError, match="NoSuchModel"):
        _ = lmgp.NoSuchModel


def test_the_stub_lists_the_same_names_for_type_checkers() -> None:
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    (listed,) = (ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))
    assert sorted(listed) == sorted(lmgp.__all__)
    assert (PACKAGE / "py.typed").exists()


def test_every_method_has_its_name_and_makes_something() -> None:
    for name, method in METHODS.items():
        assert method.name == name
        if not method.chooses or "GPRegressor" in lmgp.__all__:
            assert hasattr(method.make(8, "local", 0), "fit")
    assert len({method.label for method in METHODS.values()}) == len(METHODS)


# ----------------------------------------------------------------------------------------------- the order of imports


def order() -> list[str]:
    """The list in CONTRIBUTING.md."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (item,) = re.findall(r"^- A module imports only.*?(?=^- )", text, flags=re.MULTILINE | re.DOTALL)
    return [name for name in re.findall(r"`([\w.]+)`", item.partition(":")[2])]


def place(module: str, listed: list[str]) -> int:
    """Where a module, such as ``features.taylor``, stands: under the longest name that it starts with."""
    under = [name for name in listed if module == name or module.startswith(f"{name}.")]
    assert under, f"{module} is not in the list of CONTRIBUTING.md"
    return listed.index(max(under, key=len))


def homes() -> dict[str, str]:
    """The module of each public name, from the stub."""
    tree = ast.parse((PACKAGE / "__init__.pyi").read_text(encoding="utf-8"))
    nodes = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or alias.name for node in nodes for alias in node.names}


def imported(path: Path) -> Iterator[str]:
    """The modules of the package that a file imports, wherever it does; "" is the package itself."""
    home = homes()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[2] for alias in node.names if alias.name.split(".")[0] == "lmgp")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            package, _, module = (node.module or "").partition(".")
            if package != "lmgp":
                continue
            for alias in node.names:
                below = PACKAGE / module.replace(".", "/") / alias.name
                if not module and alias.name in home:
                    yield home[alias.name]
                elif below.is_dir() or below.with_suffix(".py").exists():
                    yield f"{module}.{alias.name}".removeprefix(".")
                else:
                    yield module


MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
    if path.parent != PACKAGE or not path.name.startswith("__")
}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_those_before_it(module: str) -> None:
    listed = order()
    here = place(module, listed)
    for other in imported(MODULES[module]):
        if other == "":
            assert module == "methods", f"{module} imports the package itself"
        else:
            assert place(other, listed) <= here, f"{module} imports {other}, which stands after it"


def test_the_order_is_read_and_would_find_an_offender(tmp_path: Path) -> None:
    listed = order()
    assert listed[0] == "errors"
    assert listed[-1] == "cli"
    assert place("models.chosen", listed) > place("selection.search", listed) > place("models.exact", listed)
    offender = tmp_path / "kernels.py"
    offender.write_text(
        "import lmgp\ndef f():\n    from lmgp import TaylorFeatures, metrics\n    from lmgp.models import exact\n"
        "    from lmgp.models.exact import ExactGPRegressor\n    import lmgp.cli\n"
    )
    assert list(imported(offender)) == ["", "features.taylor", "metrics", "models.exact", "models.exact", "cli"]
