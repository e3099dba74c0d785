"""Files that appear whole, or not at all."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lmgp.errors import InputError, LmgpError, OutputError

PathLike = str | os.PathLike[str]
# Files that are written at this moment, each beside its place.
UNFINISHED: set[Path] = set()


@contextmanager
def whole_file(path: PathLike) -> Iterator[BinaryIO]:
    """Open a file for writing that takes its place when all of it is written.

    It is written beside its place under another name. If what happens inside fails, that file is removed and what was
    at `path` is left as it was.

    Parameters
    ----------
    path : path

    Raises
    ------
    OutputError
        If the folder does not exist, `path` is a folder or no regular file, or it cannot be written.
    """
    given = as_path(path)
    try:
        place = _checked(given)
        beside = _beside(place)
        UNFINISHED.add(beside)
        try:
            with beside.open("xb") as stream:
                if place.exists():
                    shutil.copymode(place, beside)
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            beside.replace(place)
        finally:
            beside.unlink(missing_ok=True)
            UNFINISHED.discard(beside)
    except OSError as error:
        raise _refusal(given, error) from error


def write_whole(path: PathLike, content: bytes | memoryview) -> None:
    """Write a file whole, or not at all: see `whole_file`."""
    with whole_file(path) as stream:
        stream.write(content)


def check_place(path: PathLike, *read: PathLike | None) -> None:
    """Check that a file can be written, by making one beside it and removing it.

    Parameters
    ----------
    path : path
    *read : path or None
        Files that are read for it, which it must not replace.

    Raises
    ------
    OutputError
        If it cannot be written, see `whole_file`, or is one of those that are read.
    """
    given = as_path(path)
    try:
        place = _checked(given)
        if place in [as_path(source).resolve() for source in read if source is not None]:
            raise OutputError(f"{given} is read, and would be replaced; name another file to write.")
        beside = _beside(place)
        beside.touch(exist_ok=False)
        beside.unlink()
    except OSError as error:
        raise _refusal(given, error) from error


def as_path(path: PathLike) -> Path:
    """Return a path, with the home folder for ``~``.

    Raises
    ------
    InputError
        If it is no path.
    """
    if not isinstance(path, str | os.PathLike) or "\0" in str(path):
        raise InputError(f"A path is a str or a pathlib.Path, such as 'data/file', without a null; got {path!r}.")
    return Path(path).expanduser()


def _beside(place: Path) -> Path:
    return place.with_name(f".{place.name[:100]}.{secrets.token_hex(4)}.part")


def _refusal(given: Path, error: OSError) -> OSError:
    if isinstance(error, LmgpError):
        return error
    return OutputError(f"{given} cannot be written: {error.strerror or error}. Free the place, or name another.")


def _checked(given: Path) -> Path:
    place = given.resolve()  # a link stays a link
    if place.is_dir():
        raise OutputError(f"{given} is a folder; give the path of a file.")
    if place.exists() and not place.is_file():
        raise OutputError(f"{given} is no regular file; give the path of a file.")
    if not place.parent.is_dir():
        raise OutputError(f"{given} cannot be written: there is no folder {place.parent}. Make it, or name another.")
    return place
