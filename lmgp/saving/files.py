"""Saving fitted models and maps, and loading them: arrays and JSON, without pickle.

A file is one of safetensors, which any of its readers opens. Its metadata have one entry, `ENTRY`: a digest of all that
follows and of the arrays, and JSON with what stands beside the model and the tree of its objects (`lmgp.saving.tree`).
The arrays are ``a0``, ``a1`` and so on. Files of version 0.3, of format 1, are zip archives of ``model.json`` and one
``.npy`` file for each array.
"""

import hashlib
import io
import json
import sys
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from lmgp.errors import InputError, ModelFileError
from lmgp.saving.output import PathLike, as_path, write_whole
from lmgp.saving.tree import Decoder, Encoder

Arrays = Sequence[NDArray[Any]]

# Of the format that is written. Files of this version and of those before it are read.
VERSION = 2
ENTRY = "lmgp model"
# How files start: safetensors with the length of its header, zip with four bytes and 26 of the first member.
START = b"." * 8 + f'{{"__metadata__":{{"{ENTRY}":'.encode()
START_OF_VERSION_1 = b"PK\x03\x04" + b"." * 26 + b"model.json"

# Where arrays begin in memory. Products of matrices may round otherwise elsewhere.
ALIGNMENT = 64

# What of other packages may change a result, in its last digits or more.
PACKAGES = {"numpy": "numpy", "scipy": "scipy", "torch": "torch", "scikit-learn": "sklearn"}

# What making parts of wrong kinds raises; NotFittedError is an AttributeError.
DO_NOT_FIT = (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError, MemoryError)


class Savable:
    """Mixin of what can be saved once it is fitted."""

    def save(self, path: PathLike) -> None:
        """Write what was fitted to a file, which `lmgp.load` reads: arrays and JSON, without pickle.

        Parameters
        ----------
        path : path
            Such as ``"model.lmgp"``. A file that is there is replaced, once the new one is complete.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        InputError
            If a part cannot be written: a kernel, a map or a function of another package. The message names it.
        OutputError
            If there is no such folder, or the file cannot be written.

        Notes
        -----
        Models that predict from training rows keep them in the file. Predictions of the loaded model are those of this
        one to the last bit, on the same machine with the same versions of the packages. See ``docs/model_files.md``.
        """
        save_with_notes(self, path, {})


def save(model: Any, path: PathLike) -> None:
    """Write a fitted model, map or pipeline to a file, which `load` reads: arrays and JSON, without pickle.

    Parameters
    ----------
    model : fitted model, map or sklearn.pipeline.Pipeline
        A pipeline ends in a model of this package. Its steps may be scikit-learn's `ColumnTransformer`, scalers,
        encoders, `QuantileTransformer`, `PowerTransformer`, `PolynomialFeatures`, `SimpleImputer` and `PCA`.
    path : path
        Such as ``"model.lmgp"``. A file that is there is replaced, once the new one is complete.

    Raises
    ------
    sklearn.exceptions.NotFittedError
        Before `fit`.
    InputError
        If a part cannot be written: a step, a kernel, a map or a function of another package. The message names it.
    OutputError
        If there is no such folder, or the file cannot be written.

    Examples
    --------
    >>> import numpy as np, tempfile, os
    >>> import lmgp
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = np.linspace(0, 10, 50)[:, None]
    >>> model = lmgp.ExactGPRegressor(kernel=lmgp.GaussianKernel(0.3), noise_variance=0.01)
    >>> pipeline = make_pipeline(StandardScaler(), model).fit(X, np.sin(X[:, 0]))
    >>> path = os.path.join(tempfile.mkdtemp(), "pipeline.lmgp")
    >>> lmgp.save(pipeline, path)
    >>> bool(np.all(lmgp.load(path).predict(X) == pipeline.predict(X)))
    True
    """
    if not _is_whole(model):
        best = hasattr(model, "best_estimator_")
        raise InputError(
            f"{type(model).__name__} cannot be saved: a model file holds a model or a map of lmgp, or a pipeline that "
            f"ends in one{': save its best_estimator_' if best else ''}. joblib.dump(model, path) writes anything; "
            "joblib.load then runs code of the file."
        )
    save_with_notes(model, path, {})


def _is_whole(value: Any) -> bool:
    """Say whether this is what a file may hold: a model or a map, or a pipeline that ends in one."""
    from sklearn.pipeline import Pipeline

    with suppress(*DO_NOT_FIT):  # a pipeline of a file that another program wrote
        value = value[-1] if isinstance(value, Pipeline) else value
    return isinstance(value, Savable)


def save_with_notes(model: Any, path: PathLike, notes: dict[str, Any]) -> None:
    """Save a model as its method `save` does, with notes for `load_with_header`."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    packages = {name: sys.modules[module].__version__ for name, module in PACKAGES.items() if module in sys.modules}
    name = type(model).__name__
    write_file(path, model, name, {"class": name, "packages": packages, "notes": notes})


def load(path: PathLike) -> Any:
    """Read a fitted model, map or pipeline that its method `save`, or `lmgp.save`, wrote.

    Nothing of the file is run: it has numbers and text, and the tags of classes of this package and of scikit-learn.

    Parameters
    ----------
    path : path

    Returns
    -------
    The fitted model, map or pipeline.

    Raises
    ------
    ModelFileError
        If there is no such file, it is no model file, it is damaged, or a later version of the package wrote it.

    Warns
    -----
    InconsistentVersionWarning
        If another version of scikit-learn wrote a pipeline: its steps may not be as they were.

    Examples
    --------
    >>> import numpy as np, tempfile, os
    >>> import lmgp
    >>> X = np.linspace(0, 10, 50)[:, None]
    >>> model = lmgp.ExactGPRegressor(kernel=lmgp.GaussianKernel(1.0), noise_variance=0.01).fit(X, np.sin(X[:, 0]))
    >>> path = os.path.join(tempfile.mkdtemp(), "model.lmgp")
    >>> model.save(path)
    >>> bool(np.all(lmgp.load(path).predict(X) == model.predict(X)))
    True
    """
    return load_with_header(path)[0]


def load_with_header(path: PathLike, tensors: bool = True) -> tuple[Any, dict[str, Any]]:
    """Read a model as `load` does, and what the file says beside it.

    Parameters
    ----------
    path : path
    tensors : bool, default=True
        Whether the model is to predict. Otherwise its tensors stay arrays, and torch is not imported.

    Returns
    -------
    model : fitted model or map
    header : dict
        ``lmgp`` and ``packages``, the versions that wrote the file; ``class``; ``rows_kept``, the number of training
        rows in it; ``notes``, what `lmgp fit` says of the data; ``as_written``, whether this version of the package
        wrote the file, so that its parts fit together.
    """
    model, header = read_file(path, tensors)
    if header.get("class") == "checkpoint":
        raise ModelFileError(
            f"{path} is a checkpoint of a fit to a stream that has not ended, and no model. Go on with "
            f"{str(header.get('of'))[:40]}.fit(..., checkpoint=...)."
        )
    if not _is_whole(model):
        raise damaged(path, "it holds no model")
    return model, header


def write_file(path: PathLike, value: Any, whole: str, beside: dict[str, Any]) -> None:
    """Write a value to a file, which takes its place when all of it is written.

    Parameters
    ----------
    path : path
    value
        Of what `lmgp.saving.tree` writes.
    whole : str
        What the value is, for messages.
    beside : dict
        What JSON has, for the header.

    Raises
    ------
    InputError
        If a part cannot be written.
    OutputError
        If the file cannot be written.
    """
    encoder = Encoder(whole)
    tree = encoder.encode(value)
    header = {"version": VERSION, "lmgp": version("lmgp"), **beside, "rows_kept": encoder.rows_kept, "model": tree}
    write_whole(path, to_bytes(header, encoder.arrays))


def read_file(path: PathLike, tensors: bool = True) -> tuple[Any, dict[str, Any]]:
    """Read what `write_file` wrote: the value, and the header with ``as_written``, see `load_with_header`.

    Parameters
    ----------
    path : path
    tensors : bool, default=True
        See `load_with_header`.

    Raises
    ------
    ModelFileError
        If there is no such file, or it is no model file, is damaged, has a later version of the format, or has objects
        of an earlier version of lmgp that this version cannot read.
    """
    file = as_path(path)
    try:
        if file.is_dir() or not file.exists():
            what = "is a folder" if file.is_dir() else "does not exist"
            raise ModelFileError(f"{file} {what}; give the path of a file that model.save(path) wrote.")
        with file.open("rb") as stream:
            start = stream.read(max(len(START), len(START_OF_VERSION_1)))
        if start[8:].startswith(START[8:]):
            header, arrays = _read(file)
        elif start[:4] == START_OF_VERSION_1[:4] and start[30:40] == START_OF_VERSION_1[30:]:
            header, arrays = _read_version_1(file)
        else:
            raise _foreign(file, start)
        wrote, reads = str(header.get("lmgp"))[:40], version("lmgp")
        header["as_written"] = header["version"] == VERSION and wrote == reads
    except ModelFileError:
        raise
    except OSError as error:
        raise ModelFileError(f"{file} cannot be read: {error.strerror or error}.") from error
    except (*DO_NOT_FIT, EOFError, RuntimeError, zipfile.BadZipFile, safetensors.SafetensorError) as error:
        # RuntimeError: an encryption or a compression of zip that Python does not know.
        raise damaged(file, str(error)) from error
    try:
        return Decoder(arrays, tensors).decode(header.pop("model")), header
    except (ModelFileError, *DO_NOT_FIT) as error:
        told = f"its parts do not fit together ({type(error).__name__}: {error})"
        what = str(error) if isinstance(error, ModelFileError) else told
        if header["as_written"]:
            raise damaged(file, what) from error
        raise ModelFileError(
            f"{file} was written by lmgp {wrote} and is not read by lmgp {reads}: {what}. Fit the model again, or use "
            "that version."
        ) from error


def damaged(path: PathLike, what: str) -> ModelFileError:
    """Make the error of a model file that cannot be read to its end."""
    reason = what.rstrip(".") or "it ends too early"
    cure = "Copy it again, or save the model again."
    return ModelFileError(f"{path} is a model file of lmgp that is damaged or incomplete: {reason}. {cure}")


def to_bytes(header: dict[str, Any], arrays: Arrays) -> bytes:
    """Return the content of a file."""
    text = json.dumps(header, allow_nan=False)
    named = {f"a{number}": array for number, array in enumerate(arrays)}
    return safetensors.numpy.save(named, {ENTRY: f"{_digest(text, arrays)} {text}"})


def _digest(text: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(text.encode())
    for array in arrays:
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()


def _read(file: Path) -> tuple[dict[str, Any], Arrays]:
    """Read a file of this version of the format: no more than its own size, which safetensors checks."""
    with safetensors.safe_open(file, framework="np") as content:
        digest, _, text = content.metadata()[ENTRY].partition(" ")
        arrays = [_aligned(content.get_tensor(f"a{number}")) for number in range(len(content.keys()))]
    if digest != _digest(text, arrays):
        raise damaged(file, "its digest is of other content")
    header = json.loads(text)
    if header["version"] > VERSION:
        raise ModelFileError(
            f"{file} was written by lmgp {header.get('lmgp')} in version {header['version']} of the format; this lmgp "
            f"reads versions up to {VERSION}. Upgrade lmgp, or save the model with this one."
        )
    return header, arrays


def _read_version_1(file: Path) -> tuple[dict[str, Any], Arrays]:
    """Read a file of version 0.3, whose members have checksums."""
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        # Members that overlap could be of more bytes than the file.
        stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
        if not stored or sum(member.file_size for member in members) > file.stat().st_size:
            raise damaged(file, "its members are compressed, or larger than the file")
        contents = (io.BytesIO(archive.read(f"a{number}.npy")) for number in range(len(members) - 1))
        arrays = [_aligned(np.lib.format.read_array(content, allow_pickle=False)) for content in contents]
        return json.loads(archive.read("model.json")), arrays


def _aligned(array: NDArray[Any]) -> NDArray[Any]:
    memory = np.empty(array.nbytes + ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    aligned: NDArray[Any] = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    aligned[...] = array
    return aligned


def _foreign(file: Path, start: bytes) -> ModelFileError:
    """Make the error of a file that is no model file."""
    pickled = start[:1] == b"\x80" or start[:2] in (b"\x1f\x8b", b"x\x9c")
    cure = (
        "If joblib or pickle wrote it, load it with joblib.load, which runs code of the file: only if you trust it."
        if pickled
        else "Model files are written by model.save(path)."
    )
    return ModelFileError(f"{file} {'is not a model file of lmgp' if start else 'is empty'}. {cure}")
