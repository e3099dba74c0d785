"""What a model file is, what cannot be written to it, and what is refused when it is read."""

import io
import json
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import Nystroem

import lmgp
from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    KernelSGDRegressor,
    LocalizedGPRegressor,
    RandomFourierFeatures,
)
from lmgp.errors import InputError, LmgpError, ModelFileError, OutputError
from lmgp.saving.container import VERSION
from lmgp.saving.files import load_with_header
from tests.conftest import GIVEN, draw

X, Y, T = draw(30)


def model(**parameters: Any) -> ExactGPRegressor:
    return ExactGPRegressor(**GIVEN, **parameters).fit(X, Y)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of a small model."""
    model().save(tmp_path / "model.lmgp")
    return tmp_path / "model.lmgp"


def rewritten(path: Path, change: Callable[[dict[str, Any]], Any]) -> Path:
    """Change what a model file says, and leave its arrays."""
    with zipfile.ZipFile(path) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    header = json.loads(members["model.json"])
    members["model.json"] = json.dumps(change(header) or header).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def fields(header: dict[str, Any]) -> dict[str, Any]:
    fitted: dict[str, Any] = header["model"]["state"]["_fitted"]["state"]
    return fitted


# ------------------------------------------------------------------------------------------------------ what is written


def test_a_file_is_an_archive_of_json_and_of_arrays_that_numpy_reads(path: Path) -> None:
    with np.load(path, allow_pickle=False) as archive:
        arrays = [archive[name] for name in archive.files if name != "model.json"]
    assert any(np.array_equal(X, array) for array in arrays)
    header = load_with_header(path)[1]
    assert header["class"] == "ExactGPRegressor"
    assert header["rows_kept"] == 30
    assert header["packages"]["numpy"] == np.__version__


def test_parts_that_are_shared_stay_shared(tmp_path: Path) -> None:
    LocalizedGPRegressor(RandomFourierFeatures(8), **GIVEN).fit(X, Y).save(tmp_path / "model")
    again = lmgp.load(tmp_path / "model")
    posterior = again._fitted.posterior
    assert posterior.kernel is again.kernel_
    assert posterior.features is again.features_
    assert np.shares_memory(posterior.centroids, again.centroids_)
    assert again.kernel is not again.kernel_


@pytest.mark.parametrize("bits", ["PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64"])
def test_a_generator_goes_on_where_it_was(bits: str, tmp_path: Path) -> None:
    given = np.random.Generator(getattr(np.random, bits)(7))
    given.normal(size=3)
    given.spawn(2)
    model(random_state=given).save(tmp_path / "model")
    again = lmgp.load(tmp_path / "model").random_state
    np.testing.assert_array_equal(again.normal(size=5), given.normal(size=5))
    np.testing.assert_array_equal(again.spawn(1)[0].normal(size=5), given.spawn(1)[0].normal(size=5))


def test_a_random_state_goes_on_where_it_was(tmp_path: Path) -> None:
    given = np.random.RandomState(7)
    given.normal(size=3)  # one more is kept for the next call
    model(random_state=given).save(tmp_path / "model")
    np.testing.assert_array_equal(lmgp.load(tmp_path / "model").random_state.normal(size=5), given.normal(size=5))


def test_parameters_of_all_kinds_are_kept(tmp_path: Path) -> None:
    kernel = GaussianKernel(np.float64(1.5), np.array([2.0])[0], lengthscale_bounds=(0.1, float("inf")))
    given = model().set_params(kernel=kernel, max_learning_rows=np.int64(7), trend=(0, 1), ard=np.bool_(True))
    given.save(tmp_path / "model")
    again = lmgp.load(tmp_path / "model")
    assert repr(again.kernel) == repr(kernel)
    for name in ("max_learning_rows", "trend", "ard"):
        assert type(getattr(again, name)) is type(getattr(given, name))
        assert getattr(again, name) == getattr(given, name)


def test_pickle_and_joblib_keep_working_on_what_was_loaded(path: Path) -> None:
    again = lmgp.load(path)
    joblib.dump(again, path.with_name("joblib"))
    for other in (pickle.loads(pickle.dumps(again)), joblib.load(path.with_name("joblib"))):
        np.testing.assert_array_equal(other.predict(T), again.predict(T))


# ------------------------------------------------------------------------------------------------ what is not written


class OwnKernel(GaussianKernel):
    """A kernel of a user."""


class OwnBits(np.random.PCG64):
    """Random bits of a user."""


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (
            lambda: FeaturizedGPRegressor(Nystroem(gamma=0.1, n_components=9), **GIVEN),
            "its features is Nystroem of skl",
        ),
        (lambda: ExactGPRegressor(OwnKernel(1.0), 0.1), "its kernel is OwnKernel of tests"),
        (lambda: ExactGPRegressor(2.0 * OwnKernel(1.0), 0.1), "its kernel.kernel is OwnKernel of tests"),
        (
            lambda: ExactGPRegressor(**GIVEN, random_state=np.random.Generator(OwnBits(1))),
            "its random_state is Generator of numpy",
        ),
        (
            lambda: KernelSGDRegressor(lambda A, B: A @ B.T, strategy="kernel", n_steps=9),
            r"its kernel is the function <lambda>|its kernel is the function .*<locals>",
        ),
    ],
)
def test_parts_of_others_are_refused_by_their_names(make: Callable[[], Any], told: str, tmp_path: Path) -> None:
    fitted = make().fit(X, Y)
    with pytest.raises(InputError, match=told) as caught:
        fitted.save(tmp_path / "model")
    assert "joblib" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_fitted_is_not_saved(tmp_path: Path) -> None:
    for unfitted in (ExactGPRegressor(), RandomFourierFeatures(8), lmgp.SphericalCoordinates()):
        with pytest.raises(NotFittedError, match="Call 'fit'"):
            unfitted.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written_are_refused(tmp_path: Path, path: Path) -> None:
    before = path.read_bytes()
    for place, told in (
        (tmp_path, "is a folder"),
        (tmp_path / "nowhere" / "model", "there is no folder"),
        (path / "model", "there is no folder"),
        (Path("/dev/null"), "no regular file"),
        (tmp_path / ("x" * 300), "cannot be written"),
    ):
        with pytest.raises(OutputError, match=told):
            model().save(place)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.lmgp"]


def test_a_path_with_a_null_is_refused(path: Path) -> None:
    fitted = lmgp.load(path)
    with pytest.raises(InputError, match=r"without a null; got 'a\\x00b'"):
        fitted.save("a\0b")
    with pytest.raises(InputError, match="without a null"):
        lmgp.load("a\0b")


def test_a_failed_save_leaves_the_earlier_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = path.read_bytes()

    def full(*arguments: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("numpy.lib.format.write_array", full)
        with pytest.raises(OutputError, match="No space left on device"):
            model().save(path)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["model.lmgp"]
    other = ExactGPRegressor(GaussianKernel(3.0), 0.2).fit(X, Y)
    other.save(path)
    assert lmgp.load(path).kernel_.lengthscale == 3.0


def test_a_link_stays_a_link(path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    ExactGPRegressor(GaussianKernel(3.0), 0.2).fit(X, Y).save(link)
    assert link.is_symlink()
    assert lmgp.load(path).kernel_.lengthscale == 3.0


# --------------------------------------------------------------------------------------------------- what is not read


def compressed(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def of_objects(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    stream = io.BytesIO()
    np.save(stream, np.array([os.system], dtype=object), allow_pickle=True)
    members["a0.npy"] = stream.getvalue()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


FOREIGN: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: path.unlink(), "does not exist"),
    "folder": (lambda path: (path.unlink(), path.mkdir()), "is a folder"),
    "empty": (lambda path: path.write_bytes(b""), "is empty"),
    "text": (lambda path: path.write_text("x,y\n1,2\n"), "is not a model file of lmgp"),
    "pickle": (lambda path: path.write_bytes(pickle.dumps(model())), "load it with joblib.load"),
    "joblib": (lambda path: joblib.dump(model(), path), "load it with joblib.load"),
    "npz": (lambda path: np.savez(path.open("wb"), X=X), "is not a model file of lmgp"),
    "other json": (lambda path: rewritten(path, lambda header: {"format": "theirs"}), "is not a model file of lmgp"),
    "newer": (
        lambda path: rewritten(path, lambda header: header.update(version=VERSION + 1, lmgp="9.9.9")),
        f"written by lmgp 9.9.9 in version {VERSION + 1} of the format; .* Upgrade",
    ),
    "no version": (lambda path: rewritten(path, lambda header: header.update(version="x")), "its version is 'x'"),
    "compressed": (compressed, "compressed"),
    "objects": (of_objects, "damaged or incomplete"),
    "function": (
        lambda path: rewritten(
            path, lambda header: fields(header).update(solved={"kind": "object", "class": "os.system", "state": {}})
        ),
        "it names 'os.system'",
    ),
    "class of ours": (
        lambda path: rewritten(path, lambda header: header["model"].update({"class": "datasets.Dataset"})),
        "it names 'datasets.Dataset'",
    ),
    "no model": (
        lambda path: rewritten(path, lambda header: header.update(model=fields(header)["kernel"])),
        "it holds no model",
    ),
    "kind": (
        lambda path: rewritten(path, lambda header: fields(header).update(solved={"kind": "call"})),
        "kind 'call'",
    ),
    "attribute": (
        lambda path: rewritten(path, lambda header: header["model"]["state"].update(predict=1)),
        "unknown part 'predict'",
    ),
    "dunder": (
        lambda path: rewritten(path, lambda header: header["model"]["state"].update(__class__=1)),
        "the attribute '__class__'",
    ),
    "field": (lambda path: rewritten(path, lambda header: fields(header).pop("kernel") and None), "lacks kernel"),
    "array": (
        lambda path: rewritten(path, lambda header: fields(header).update(kernel={"kind": "array", "number": 99})),
        "do not fit together",
    ),
    "not fitted": (
        lambda path: rewritten(path, lambda header: header["model"]["state"].pop("_fitted") and None),
        "not fitted yet",
    ),
    "of another version": (
        lambda path: rewritten(path, lambda header: (fields(header).pop("kernel"), header.update(lmgp="0.1.2"))[1]),
        "was written by lmgp 0.1.2 and is not read by lmgp .*: ExactFit in it lacks kernel. Fit the model again",
    ),
    "notes that are none": (lambda path: rewritten(path, lambda header: header.update(notes=3)), "its notes is '3'"),
    "rows that are none": (
        lambda path: rewritten(path, lambda header: header.update(notes={"rows": None})),
        "its number of rows is 'None'",
    ),
    "packages that are none": (
        lambda path: rewritten(path, lambda header: header.update(packages=[])),
        r"its packages is '\[\]'",
    ),
    "deep": (
        lambda path: rewritten(path, lambda header: fields(header).update(kernel=json.loads("[" * 900 + "]" * 900))),
        "damaged or incomplete",
    ),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_what_is_no_model_is_refused(case: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*arguments: Any) -> None:
        raise AssertionError("code of the file has run")

    change, told = FOREIGN[case]
    change(path)
    monkeypatch.setattr("os.system", called)
    with pytest.raises(ModelFileError, match=told) as caught:
        lmgp.load(path)
    assert isinstance(caught.value, LmgpError)
    assert str(path) in str(caught.value)


def test_a_truncated_file_is_refused_wherever_it_ends(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(1, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match="is not a model file" if length < 40 else "damaged or incomplete"):
            lmgp.load(path)


def test_a_damaged_file_is_refused_or_answers_the_same(path: Path) -> None:
    """A bit that does not count, such as one of the date of a member, may change."""
    whole, expected = path.read_bytes(), model().predict(T)
    refused = 0
    for place in range(0, len(whole), 23):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            again = lmgp.load(path)
        except ModelFileError:
            refused += 1
        else:
            np.testing.assert_array_equal(again.predict(T), expected)
    assert refused > 0.8 * len(range(0, len(whole), 23))
