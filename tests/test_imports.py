"""What an import loads, and what it finds. `lint-imports` checks which packages may import each other."""

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import lmgp
from lmgp.estimators.summary import summary
from lmgp.selection.methods import METHODS

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "lmgp"
HEAVY = ("torch", "gpytorch", "matplotlib", "scipy", "sklearn", "dask", "distributed", "numba")


# Runs pieces of code one after another, and prints which heavy packages are there after each.
ONE_AFTER_ANOTHER = f"""
import contextlib, io, json, sys
loaded = {{}}
for code in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        exec(code, {{}})
    loaded[code] = sorted({set(HEAVY)!r} & sys.modules.keys())
print(json.dumps(loaded))
"""


# ------------------------------------------------------------------------------------------------------ what is loaded


LOADED: dict[str, list[str]] = {
    "import lmgp": [],
    "import lmgp; dir(lmgp); lmgp.__version__": [],
    "import lmgp.estimators, lmgp.features, lmgp.kernels, lmgp.learning, lmgp.plots, lmgp.rbf, lmgp.sgd": [],
    "import lmgp; lmgp.metrics, lmgp.io": [],
    "from lmgp.selection.methods import METHODS": [],
    "from lmgp.cli import main; main(['--help'])": [],
    "from lmgp.cli import main; main(['compare', '--help'])": [],
    "from lmgp.cli import main; main(['fit', '--help'])": [],
    "from lmgp.cli import main; main(['predict', 'model', 'table', '--out', 'nowhere/out'])": [],
    "from lmgp.cli import main; main(['plot', '--help'])": [],
    "from lmgp.cli import main; main(['plot', 'model', '--out', 'nowhere/out'])": [],
    "from lmgp.cli import main; main(['compare', 'sinc', '--no-such-option'])": [],
    "from lmgp.cli import main; main(['info', 'nowhere.lmgp'])": [],
    "from lmgp.cli import main; main(['datasets'])": ["scipy", "sklearn"],
    "import lmgp; lmgp.load_dataset('sinc')": ["scipy", "sklearn"],
    "import lmgp; lmgp.ExactGPRegressor, lmgp.TaylorFeatures": ["scipy", "sklearn"],
    "from lmgp.cli import main; main(['info', 'model.lmgp'])": ["scipy", "sklearn"],
    # In two threads, where there are as many.
    "import lmgp; lmgp.load('near.lmgp').predict_distribution([[0.5]] * 400)": ["numba", "scipy", "sklearn"],
    "import lmgp; lmgp.learn([[0.0], [0.3], [0.7], [1.0]], [0.0, 1.0, 0.5, 0.2])": [
        "numba",
        "scipy",
        "sklearn",
        "torch",
    ],
}


@pytest.mark.slow
def test_an_import_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    model = lmgp.ExactGPRegressor(kernel=lmgp.GaussianKernel(1.0), noise_variance=0.1).fit([[0.0], [1.0]], [0.0, 1.0])
    assert summary(model, {}).facts  # of which the shares of the parts are computed once, and saved
    model.save(tmp_path / "model.lmgp")
    X = np.linspace(0.0, 1.0, 60)[:, None]
    near = lmgp.NearestNeighborsGPRegressor(50, kernel=lmgp.GaussianKernel(0.2), noise_variance=0.1, noise="varying")
    near.fit(X, np.sin(40.0 * X[:, 0])).save(tmp_path / "near.lmgp")
    assert near.noise_.name == "varying"
    run = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_ANOTHER],
        input=json.dumps(list(LOADED)),
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert json.loads(run.stdout) == LOADED


# ------------------------------------------------------------------------------------------------------- what is found


PACKAGES = ("estimators", "features", "io", "kernels", "learning", "metrics", "plots", "rbf", "sgd")


def test_the_names_at_the_top() -> None:
    kernels = {f"{name}Kernel" for name in ("Gaussian", "Matern", "RationalQuadratic", "Linear", "Exponential")}
    kernels |= {f"{name}Kernel" for name in ("Modulated", "Scaled", "Sum", "Product", "Periodic", "Columns")}
    fourier = {f"{name}FourierFeatures" for name in ("Random", "Orthogonal", "StructuredOrthogonal")}
    maps = {f"{name}Features" for name in ("RandomMaclaurin", "OptimizedMaclaurin", "Taylor", "Nystroem")}
    kinds = ("", "Exact", "Featurized", "Localized", "NearestNeighbors", "Residual", "Spectral", "TransformedTarget")
    functions = {"learn", "load", "save", "predict_areas", "predict_grid", "load_dataset", "farthest_point_clustering"}
    regressors = {f"{kind}GPRegressor" for kind in kinds}
    others = {"SphericalCoordinates", "__version__"}
    assert sorted(lmgp.__all__) == sorted(kernels | fourier | maps | regressors | functions | others)
    assert set(lmgp.__all__) - {"__version__"} <= set(dir(lmgp))
    assert sys.stdlib_module_names.isdisjoint(lmgp.__all__)
    with pytest.raises(AttributeError, match="NoSuchModel"):
        _ = lmgp.NoSuchModel


@pytest.mark.parametrize("package", ["lmgp", *(f"lmgp.{name}" for name in PACKAGES)])
def test_every_public_name_resolves_and_the_stub_lists_it(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None, name
    stub = PACKAGE.parent.joinpath(*package.split("."), "__init__.pyi")
    tree = ast.parse(stub.read_text(encoding="utf-8"))
    (listed,) = (ast.literal_eval(node.value) for node in tree.body if isinstance(node, ast.Assign))
    assert sorted(listed) == sorted(module.__all__)
    assert (PACKAGE / "py.typed").exists()


def test_every_method_has_its_name_and_makes_something() -> None:
    for name, method in METHODS.items():
        assert method.name == name
        assert hasattr(method.make(8, "local", 0), "fit")
    assert len({method.label for method in METHODS.values()}) == len(METHODS)
