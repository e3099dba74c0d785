"""The archive of a model file: one member of JSON, and one for each array."""

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import ModelFileError
from lmgp.saving.encode import KINDS

FORMAT = "lmgp model"
# Of the files that are written. Files of this version and of those before it are read.
VERSION = 1
HEADER = "model.json"

# Where arrays begin in memory. Products of matrices may round otherwise elsewhere.
ALIGNMENT = 64

# Equal models make equal files.
NO_DATE = (1980, 1, 1, 0, 0, 0)


def write_archive(stream: BinaryIO, header: dict[str, Any], arrays: Sequence[NDArray[Any]]) -> None:
    """Write a header and arrays; the format and its version are added to the header.

    Parameters
    ----------
    stream : binary file
    header : dict
        Of what JSON has.
    arrays : sequence of ndarray
        Contiguous in the order of C.
    """
    text = json.dumps({"format": FORMAT, "version": VERSION, **header}, allow_nan=False)
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(HEADER, NO_DATE), text.encode())
        for number, array in enumerate(arrays):
            with archive.open(zipfile.ZipInfo(_member(number), NO_DATE), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
        archive.comment = _seal(archive)


def _seal(archive: zipfile.ZipFile) -> bytes:
    """Return a digest of the members of an archive, from their checksums."""
    told = "".join(f"{one.filename} {one.CRC:08x} {one.file_size}\n" for one in archive.infolist())
    return b"lmgp " + hashlib.sha256(told.encode()).hexdigest().encode()


def read_archive(path: Path) -> tuple[dict[str, Any], list[NDArray[Any]]]:
    """Read what `write_archive` wrote.

    Returns
    -------
    header : dict
        With ``as_written``: whether the members are those that `write_archive` wrote, by the archive's comment, which
        files of earlier versions do not have.
    arrays : list of ndarray

    Raises
    ------
    ModelFileError
        If the file is no model, is damaged, or of a later version of the format.
    """
    try:
        with path.open("rb") as stream:
            _check_start(path, stream)
            with zipfile.ZipFile(stream) as archive:
                _check_members(path, archive, os.fstat(stream.fileno()).st_size)
                _check_end(path, archive, stream)
                header = {**_header(path, archive), "as_written": archive.comment == _seal(archive)}
                n_arrays = len(archive.infolist()) - 1
                return header, [_array(archive.read(_member(number))) for number in range(n_arrays)]
    except (zipfile.BadZipFile, EOFError, KeyError, ValueError, RecursionError, NotImplementedError) as error:
        # NotImplementedError: a compression, or a version of zip, that Python does not know.
        raise damaged(path, str(error)) from error


def damaged(path: Path, what: str) -> ModelFileError:
    """Make the error of a model file that cannot be read to its end."""
    reason = what.rstrip(".") or "it ends too early"
    cure = "Copy it again, or save the model again."
    return ModelFileError(f"{path} is a model file of lmgp that is damaged or incomplete: {reason}. {cure}")


def _member(number: int) -> str:
    return f"a{number}.npy"


def _check_start(path: Path, stream: BinaryIO) -> None:
    """Refuse a file that does not begin as `write_archive` begins it."""
    start = stream.read(30 + len(HEADER))
    stream.seek(0)
    if start[:4] == b"PK\x03\x04" and start[30:] == HEADER.encode():
        return
    what = "is empty" if not start else "is not a model file of lmgp"
    pickled = start[:1] == b"\x80" or start[:2] in (b"\x1f\x8b", b"x\x9c")
    cure = (
        "If joblib or pickle wrote it, load it with joblib.load, which runs code of the file: only if you trust it."
        if pickled
        else "Model files are written by model.save(path)."
    )
    raise ModelFileError(f"{path} {what}. {cure}")


def _check_members(path: Path, archive: zipfile.ZipFile, size: int) -> None:
    members = archive.infolist()
    if any(one.compress_type != zipfile.ZIP_STORED or one.flag_bits & 1 for one in members):
        raise damaged(path, "its members are compressed or encrypted")
    if sum(one.file_size for one in members) > size:  # they overlap: small files would become large
        raise damaged(path, "its members are larger than the file")


def _check_end(path: Path, archive: zipfile.ZipFile, stream: BinaryIO) -> None:
    """Refuse a file that ends within the comment, which `zipfile` reads as a shorter one."""
    place, length = stream.tell(), len(archive.comment)
    stream.seek(-2 - length, os.SEEK_END)
    if int.from_bytes(stream.read(2), "little") != length:
        raise damaged(path, "it ends too early")
    stream.seek(place)


def _header(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    header = json.loads(archive.read(HEADER))
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError(f"{path} is not a model file of lmgp. Model files are written by model.save(path).")
    version = header.get("version")
    if isinstance(version, int) and version > VERSION:
        raise ModelFileError(
            f"{path} was written by lmgp {header.get('lmgp')} in version {version} of the format; this lmgp reads "
            f"versions up to {VERSION}. Upgrade lmgp, or save the model with this one."
        )
    if not isinstance(version, int) or version < 1:
        raise damaged(path, f"its version is {str(version)[:80]!r}")
    return header


def _array(member: bytes) -> NDArray[Any]:
    """Read an array in numpy's format, whose header states no more than there is."""
    stream = io.BytesIO(member)
    version = np.lib.format.read_magic(stream)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"an array is in version {version} of numpy's format")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran_order, dtype = read(stream)
    start = stream.tell()
    n_bytes = math.prod(shape) * dtype.itemsize
    if dtype.kind not in KINDS or dtype.shape or fortran_order or len(member) - start != n_bytes:
        raise ValueError(f"an array of {dtype} and shape {shape} has {len(member) - start} bytes")
    memory = np.empty(n_bytes + ALIGNMENT, dtype=np.uint8)
    offset = -memory.ctypes.data % ALIGNMENT
    aligned = memory[offset : offset + n_bytes]
    aligned[:] = np.frombuffer(member, dtype=np.uint8, offset=start)
    made: NDArray[Any] = aligned.view(dtype).reshape(shape)
    return made
