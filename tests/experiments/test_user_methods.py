"""Methods of a user in comparisons: what ``module:object`` may name, and what is refused."""

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from lmgp import (
    ExactGPRegressor,
    GaussianKernel,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    RandomFourierFeatures,
)
from lmgp.cli import main
from lmgp.errors import InputError
from lmgp.experiments.compare import ComparisonSettings, compare
from lmgp.experiments.datasets import Dataset
from lmgp.experiments.user_methods import user_method
from lmgp.selection.methods import METHODS, Method, register
from tests.conftest import draw

CODE = """
import numpy as np
from lmgp import NearestNeighborsGPRegressor, TaylorFeatures
from lmgp.selection.methods import Method
from sklearn.kernel_approximation import RBFSampler
from sklearn.svm import SVR


class Sines(RBFSampler):
    def __init__(self, n_features=8, random_state=None):
        super().__init__(gamma=0.5, n_components=n_features, random_state=random_state)
        self.n_features = n_features

    def get_params(self, deep=True):
        return {"n_features": self.n_features, "random_state": self.random_state}


class Broken(Sines):
    def transform(self, X):
        raise KeyError("broken")


def nearest(n_features, random_state):
    return NearestNeighborsGPRegressor(n_features)


def no_estimator(n_features, random_state):
    return n_features


def of_nothing():
    return Sines()


def fails(n_features, random_state):
    raise ZeroDivisionError("oh")


local = Method("other", "local", "own", lambda n, *_: TaylorFeatures(n), localized=True)
number = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder with a module of methods and a table; what was registered is forgotten."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **options: file.write(b"drawn"))
    (tmp_path / "ownmaps.py").write_text(CODE)
    X, y, _ = draw(30)
    np.savetxt("rows.txt", np.column_stack((X, y)), delimiter=",", header="a,b,y", comments="")
    known = dict(METHODS)
    yield tmp_path
    METHODS.clear()
    METHODS.update(known)
    sys.modules.pop("ownmaps", None)


COMPARE = ["compare", "rows.txt", "--target", "y", "--seeds", "1", "--n-features", "8", "--quiet"]


def results(folder: Path) -> list[dict[str, str]]:
    with (folder / "results" / "rows" / "results.csv").open() as file:
        return list(csv.DictReader(file))


def test_maps_models_functions_and_methods_are_compared(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = ["ownmaps:Sines", "ownmaps:nearest", "ownmaps:local"]
    arguments = [*COMPARE, "--methods", "rff", "nearest_rows", own[1], "--thresholds", "2"]
    assert main([*arguments, "--method", own[0], "--method", own[2]]) == 0
    assert capsys.readouterr().err == ""
    found = {row["method"]: row for row in results(folder)}
    assert list(found) == ["exact", "rff", "nearest_rows", "ownmaps:nearest", "ownmaps:Sines", "ownmaps:local"]
    # The same model, by the name of the package and by that of the user.
    assert found["ownmaps:nearest"]["kl"] == found["nearest_rows"]["kl"]
    assert found["ownmaps:Sines"]["n_features_out"] == "8"
    assert found["ownmaps:local"]["threshold"] == "2.0"
    assert float(found["ownmaps:local"]["kl"]) > 0.0


def test_an_own_method_comes_beside_those_that_serve_the_data(folder: Path) -> None:
    dataset = Dataset("wide", np.random.default_rng(0).normal(size=(9, 4)), np.arange(9.0), tuple("abcd"), "y")
    user_method("ownmaps:Sines")
    settings, left_out = ComparisonSettings(further=("ownmaps:Sines",)).served(dataset)
    assert settings.methods is not None
    assert settings.methods[-1] == "ownmaps:Sines"
    assert "spectral" not in settings.methods  # which serves three columns at most
    assert len(left_out) == 1


def test_results_of_other_code_are_measured_anew(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [*COMPARE[:-1], "--methods", "rff", "--method", "ownmaps:Sines"]
    assert main(arguments) == 0
    assert main(arguments) == 0
    assert "3 of 3 cells are read back" in capsys.readouterr().err
    (folder / "ownmaps.py").write_text(CODE.replace("gamma=0.5", "gamma=0.01"))
    del sys.modules["ownmaps"]
    assert main(arguments) == 0
    assert "2 of 3 cells are read back" in capsys.readouterr().err
    first, second = (float(row["kl"]) for row in results(folder) if row["method"] == "ownmaps:Sines")
    assert first != second


def test_what_fails_in_use_is_said_beside_the_others(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*COMPARE[:-1], "--methods", "rff", "--method", "ownmaps:Broken"]) == 0
    assert "ownmaps:Broken, D = 8 cannot be made: KeyError: 'broken'" in capsys.readouterr().err
    assert [row["method"] for row in results(folder)] == ["exact", "rff"]


BAD = {
    "rff2": r"Unknown method 'rff2'; did you mean 'rff'\?; one of your own is module:object",
    ":Sines": "names no module; give it as module:object",
    "nomaps:Sines": "there is no module 'nomaps'; it was looked for in",
    "ownmaps.py:Sines": "there is no module 'ownmaps.py'; give its name without .py",
    "ownmaps:Sine": "module ownmaps has no object 'Sine'; did you mean 'Sines'",
    "ownmaps:": "module ownmaps has no object ''",
    "ownmaps:number": "is an object of type int; expected is a class of feature maps",
    "ownmaps:np": "is the module numpy; expected",
    "ownmaps:no_estimator": "makes an object of type int, which is no scikit-learn estimator",
    "ownmaps:of_nothing": "is a function of nothing; expected",
    "ownmaps:fails": "with n_features=8 and random_state=0 failed: ZeroDivisionError: oh",
    "ownmaps:SVR": "makes a SVR, whose predict takes X; expected",
    "ownmaps:RBFSampler": "is a class of maps without the parameter n_features",
    "collections:OrderedDict": "is the class OrderedDict; expected",
    "wrong:f": "module wrong cannot be imported: SyntaxError",
    "lacking:f": "module lacking needs nosuchpackage, which is not installed",
}


@pytest.mark.parametrize("name", BAD)
def test_other_objects_are_refused(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "wrong.py").write_text("def f(:\n")
    (folder / "lacking.py").write_text("import nosuchpackage\n")
    assert main([*COMPARE, "--method", name]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("lmgp: error: ")
    assert len(printed.err.splitlines()) == 1
    with pytest.raises(InputError, match=BAD[name]):
        raise InputError(printed.err)
    assert not (folder / "results").exists()


def test_a_method_is_registered_in_python(folder: Path) -> None:
    def make(n_features: int, allocation: str, random_state: int | None) -> Any:
        return RandomFourierFeatures(n_features, random_state=random_state)

    register(Method("mine", "mine", "own", make))
    X, y, _ = draw(30)
    dataset = Dataset("rows", X, y, ("a", "b"), "y")
    settings = ComparisonSettings(methods=("rff", "mine"), n_features=(8,), seeds=1)
    rows = compare(dataset, settings, folder / "out", quiet=True).rows
    assert rows.kl[1] == rows.kl[2]
    with pytest.raises(InputError, match="'rff' is a method of lmgp; give yours another name"):
        register(Method("rff", "mine", "own", make))
    with pytest.raises(InputError, match=r"A lmgp\.selection\.methods\.Method can be registered; got function"):
        register(make)  # type: ignore[arg-type]


def test_results_of_another_registration_are_read_back_by_its_source_alone(folder: Path) -> None:
    X, y, _ = draw(30)

    def measured(features: type, source: str = "") -> float:
        register(Method("mine", "mine", "own", lambda n, *_: features(n, random_state=0), source=source))
        settings = ComparisonSettings(methods=("mine",), n_features=(8,), seeds=1)
        rows = compare(Dataset("rows", X, y, ("a", "b"), "y"), settings, folder / "out", quiet=True).rows
        return float(rows.kl[1])

    first, second = measured(RandomFourierFeatures), measured(NystroemFeatures)
    assert first != second
    assert measured(RandomFourierFeatures, "1") == measured(NystroemFeatures, "1") == first


def test_a_class_of_models_without_a_size_is_one_cell(folder: Path) -> None:
    method = user_method("lmgp:ExactGPRegressor")
    assert not method.sized
    model = method.regressor(None, kernel=GaussianKernel(2.0), noise_variance=0.1, approximation="fitc")
    assert isinstance(model, ExactGPRegressor)
    assert model.kernel.lengthscale == 2.0
    assert not isinstance(model, NearestNeighborsGPRegressor)
