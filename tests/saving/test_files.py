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
from safetensors.numpy import save_file
from sklearn import config_context
from sklearn.exceptions import NotFittedError
from sklearn.kernel_approximation import Nystroem

import lmgp
from lmgp import ExactGPRegressor, FeaturizedGPRegressor, GaussianKernel, LocalizedGPRegressor, RandomFourierFeatures
from lmgp.errors import InputError, LmgpError, ModelFileError, OutputError
from lmgp.saving.files import VERSION, load_with_header, to_bytes
from lmgp.saving.tree import Encoder
from lmgp.sgd import KernelSGDRegressor
from tests.conftest import GIVEN, draw
from tests.saving.rewriting import parts, rewritten

X, Y, T = draw(30)


def model(**parameters: Any) -> ExactGPRegressor:
    return ExactGPRegressor(**GIVEN, **parameters).fit(X, Y)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of a small model."""
    model().save(tmp_path / "model.lmgp")
    return tmp_path / "model.lmgp"


def change(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change what a model file says, and leave its arrays."""
    path.write_bytes(rewritten(path.read_bytes(), lambda header, _: change(header)))


def fields(header: dict[str, Any]) -> dict[str, Any]:
    fitted: dict[str, Any] = header["model"]["state"]["_fitted"]["state"]
    return fitted


# ------------------------------------------------------------------------------------------------------ what is written


def test_a_file_is_one_of_safetensors_with_json_in_its_metadata(path: Path) -> None:
    header, arrays = parts(path)
    assert any(np.array_equal(X, array) for array in arrays)
    assert header["model"]["tag"] == "exact-gp-regressor"
    assert header["version"] == VERSION
    told = load_with_header(path)[1]
    assert told["class"] == "ExactGPRegressor"
    assert told["rows_kept"] == 30
    assert told["packages"]["numpy"] == np.__version__


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


def test_requests_of_metadata_are_left_out(path: Path, tmp_path: Path) -> None:
    with config_context(enable_metadata_routing=True):
        model().set_fit_request(sample_weight=True).save(tmp_path / "requesting")
    assert (tmp_path / "requesting").read_bytes() == path.read_bytes()


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
        patch.setattr("os.fsync", full)
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


@pytest.mark.skipif(os.name != "posix", reason="Files have no such permissions here.")
def test_a_file_that_is_replaced_keeps_its_permissions(path: Path) -> None:
    path.chmod(0o600)
    model().save(path)
    assert path.stat().st_mode & 0o777 == 0o600


# --------------------------------------------------------------------------------------------------- what is not read


def of_version_1(
    path: Path, change: Callable[[dict[str, bytes]], object], compression: int = zipfile.ZIP_STORED
) -> None:
    """Write a file of version 0.3, with a change."""
    with zipfile.ZipFile(Path(__file__).parent / "files/version_1_exact.lmgp") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def of_objects(members: dict[str, bytes]) -> None:
    stream = io.BytesIO()
    np.save(stream, np.array([os.system], dtype=object), allow_pickle=True)
    members["a0.npy"] = stream.getvalue()


def of_an_array_that_states_more(members: dict[str, bytes]) -> None:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    members["a0.npy"] = stream.getvalue() + members["a0.npy"]


def of_a_function(members: dict[str, bytes]) -> None:
    members["model.json"] = members["model.json"].replace(b"kernels.stationary.GaussianKernel", b"os.system")


OF_A_FUNCTION = {"kind": "object", "tag": "os.system", "state": {}}
FOREIGN: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: path.unlink(), "does not exist"),
    "folder": (lambda path: (path.unlink(), path.mkdir()), "is a folder"),
    "empty": (lambda path: path.write_bytes(b""), "is empty"),
    "text": (lambda path: path.write_text("x,y\n1,2\n"), "is not a model file of lmgp"),
    "pickle": (lambda path: path.write_bytes(pickle.dumps(model())), "load it with joblib.load"),
    "joblib": (lambda path: joblib.dump(model(), path), "load it with joblib.load"),
    "npz": (lambda path: np.savez(path.open("wb"), X=X), "is not a model file of lmgp"),
    "safetensors of others": (lambda path: save_file({"X": X}, path), "is not a model file of lmgp"),
    "newer": (
        lambda path: change(path, lambda header: header.update(version=VERSION + 1, lmgp="9.9.9")),
        f"written by lmgp 9.9.9 in version {VERSION + 1} of the format; .* Upgrade",
    ),
    "no version": (lambda path: change(path, lambda header: header.update(version="x")), "damaged or incomplete"),
    "no header": (lambda path: change(path, lambda header: header.clear()), "damaged or incomplete"),
    "compressed": (lambda path: of_version_1(path, len, zipfile.ZIP_DEFLATED), "compressed"),
    "objects": (lambda path: of_version_1(path, of_objects), "damaged or incomplete"),
    "an array that states more": (lambda path: of_version_1(path, of_an_array_that_states_more), "damaged or incom"),
    "an array less": (lambda path: of_version_1(path, lambda members: members.pop("a7.npy")), "do not fit together"),
    "no header of version 1": (
        lambda path: of_version_1(path, lambda members: members.update({"model.json": b"{}"})),
        "damaged or incomplete",
    ),
    "function": (lambda path: change(path, lambda header: fields(header).update(solved=OF_A_FUNCTION)), "'os.system'"),
    "function of version 1": (lambda path: of_version_1(path, of_a_function), "it holds 'system', which this"),
    "no model": (lambda path: change(path, lambda header: header.update(model=fields(header)["kernel"])), "no model"),
    "kind": (
        lambda path: change(path, lambda header: fields(header).update(solved={"kind": "call"})),
        "unknown kind 'call'",
    ),
    "attribute": (
        lambda path: change(path, lambda header: header["model"]["state"].update(predict=1)),
        "unknown part 'predict'",
    ),
    "field": (
        lambda path: change(path, lambda header: fields(header).pop("noise_variance") and None),
        "lacks noise_var",
    ),
    "array": (
        lambda path: change(path, lambda header: fields(header).update(kernel={"kind": "array", "number": 99})),
        "do not fit together",
    ),
    "array of objects": (
        lambda path: change(
            path,
            lambda header: fields(header).update(kernel={"kind": "array", "number": 0, "dtype": "O", "shape": [2]}),
        ),
        "do not fit together",
    ),
    "of another version": (
        lambda path: change(
            path, lambda header: (fields(header).pop("noise_variance"), header.update(lmgp="0.1.2"))[1]
        ),
        "was written by lmgp 0.1.2 and is not read by lmgp .*: Fit in it lacks noise_variance. Fit the model again",
    ),
    "deep": (
        lambda path: change(path, lambda header: fields(header).update(kernel=json.loads("[" * 900 + "]" * 900))),
        "damaged or incomplete",
    ),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_what_is_no_model_is_refused(case: str, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def called(*arguments: Any) -> None:
        raise AssertionError("code of the file has run")

    make, told = FOREIGN[case]
    make(path)
    monkeypatch.setattr("os.system", called)
    with pytest.raises(ModelFileError, match=told) as caught:
        lmgp.load(path)
    assert isinstance(caught.value, LmgpError)
    assert str(path) in str(caught.value)


def test_a_truncated_file_is_refused_wherever_it_ends(path: Path) -> None:
    whole = path.read_bytes()
    for length in range(1, len(whole), 37):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match="is not a model file" if length < 38 else "damaged or incomplete"):
            lmgp.load(path)


@pytest.mark.parametrize("version", [1, 2])
def test_no_damaged_file_loads_with_other_contents(version: int, path: Path) -> None:
    """A byte that does not count, such as one of the date of a member of a zip archive, may change."""
    if version == 1:
        path.write_bytes((Path(__file__).parent / "files/version_1_exact.lmgp").read_bytes())
    whole, content = path.read_bytes(), stored(path)
    refused, places = 0, range(0, len(whole), 13)
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            again = stored(path)
        except ModelFileError:
            refused += 1
        else:
            assert again == content, place
    assert refused > (0.99 if version == 2 else 0.8) * len(places)


def stored(path: Path) -> bytes:
    """All that a model file holds."""
    encoder = Encoder("model")
    tree = encoder.encode(lmgp.load(path))
    return to_bytes(tree, encoder.arrays)
