"""Saving fitted models and maps, and loading them."""

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lmgp.errors import ModelFileError
from lmgp.saving.container import damaged, read_archive, write_archive
from lmgp.saving.decode import Decoder
from lmgp.saving.encode import Encoder
from lmgp.saving.names import class_of
from lmgp.saving.output import PathLike, as_path, whole_file

# What of other packages may change a result, in its last digits or more.
PACKAGES = {"numpy": "numpy", "scipy": "scipy", "torch": "torch", "scikit-learn": "sklearn"}

# What a header says beside the model.
BESIDE: dict[str, type] = {"lmgp": str, "packages": dict, "class": str, "rows_kept": int, "notes": dict}

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


def save_with_notes(model: Savable, path: PathLike, notes: dict[str, Any]) -> None:
    """Save a model as its method `save` does, with notes for `load_with_header`."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    name = type(model).__name__
    encoder = Encoder(name)
    tree = encoder.encode(model)
    packages = {name: sys.modules[module].__version__ for name, module in PACKAGES.items() if module in sys.modules}
    header = {"lmgp": version("lmgp"), "packages": packages, "class": name, "rows_kept": encoder.rows_kept}
    with whole_file(path) as stream:
        write_archive(stream, {**header, "notes": notes, "model": tree}, encoder.arrays)


def load(path: PathLike) -> Any:
    """Read a fitted model or map that its method `save` wrote.

    Nothing of the file is run: it has numbers and text, and the names of classes of this package.

    Parameters
    ----------
    path : path

    Returns
    -------
    The fitted model or map.

    Raises
    ------
    ModelFileError
        If there is no such file, it is no model file, it is damaged, or a later version of the package wrote it.

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


def load_with_header(path: PathLike) -> tuple[Any, dict[str, Any]]:
    """Read a model as `load` does, and what the file says beside it.

    Returns
    -------
    model : fitted model or map
    header : dict
        ``lmgp`` and ``packages``, the versions that wrote the file; ``class``; ``rows_kept``, the number of training
        rows in it; ``notes``, what `lmgp fit` says of the data; ``as_written``, whether the file holds what a
        `save` of this version wrote, so that its parts fit together.
    """
    from sklearn.utils.validation import check_is_fitted

    file = as_path(path)
    try:
        if file.is_dir() or not file.exists():
            what = "is a folder" if file.is_dir() else "does not exist"
            raise ModelFileError(f"{file} {what}; give the path of a file that model.save(path) wrote.")
        header, arrays = read_archive(file)
        _check_header(file, header)
    except OSError as error:
        if isinstance(error, ModelFileError) or error.strerror is None:
            raise
        raise ModelFileError(f"{file} cannot be read: {error.strerror}.") from error
    if header.get("class") == "checkpoint":
        raise ModelFileError(
            f"{file} is a checkpoint of a fit to a stream that has not ended, and no model. Go on with "
            f"{str(header.get('of'))[:40]}.fit(..., checkpoint=...)."
        )
    try:
        tree = header.pop("model")
        if not issubclass(class_of(tree["class"]), Savable):
            raise ModelFileError("it holds no model")
        model = Decoder(arrays).decode(tree)
        check_is_fitted(model)
    except ModelFileError as error:
        raise _unfit(file, header, str(error)) from error
    except DO_NOT_FIT as error:
        told = f"its parts do not fit together ({type(error).__name__}: {error})"
        raise _unfit(file, header, told) from error
    header["as_written"] = header["as_written"] and header.get("lmgp") == version("lmgp")
    return model, header


def _check_header(file: Path, header: dict[str, Any]) -> None:
    for name, kind in BESIDE.items():
        if type(value := header.get(name, kind())) is not kind:
            raise damaged(file, f"its {name} is {str(value)[:80]!r}")
    if type(n_rows := header.get("notes", {}).get("rows", 0)) is not int:
        raise damaged(file, f"its number of rows is {str(n_rows)[:80]!r}")


def _unfit(file: Path, header: dict[str, Any], what: str) -> ModelFileError:
    """Make the error of a file that is whole, but holds other parts than it should."""
    wrote, reads = str(header.get("lmgp"))[:40], version("lmgp")
    if wrote == reads:
        return damaged(file, what)
    return ModelFileError(
        f"{file} was written by lmgp {wrote} and is not read by lmgp {reads}: {what}. Fit the model again, or use that "
        "version."
    )
