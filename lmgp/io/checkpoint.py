"""How far a pass over a stream has come, in a file."""

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from lmgp.errors import ModelFileError
from lmgp.io.sample import Sample
from lmgp.saving.container import damaged, read_archive, write_archive
from lmgp.saving.decode import Decoder
from lmgp.saving.encode import Encoder
from lmgp.saving.files import DO_NOT_FIT
from lmgp.saving.output import PathLike, whole_file
from lmgp.validation import Rows

KIND = "checkpoint"


@dataclass(eq=False)
class Checkpoint:
    """The state of a fit to a stream after a number of chunks.

    Attributes
    ----------
    model, parameters : str
        The class of the model, and a digest of its parameters.
    rngs : tuple of numpy.random.Generator
        For learning, for what is drawn.
    columns : dict
        The number of columns, and their names where they have names.
    sample : Sample or None
        During the first pass.
    record : GPFit or None
        The model before it has rows, after the first pass.
    covered : bool
        Whether the model has seen where all rows are, where it needs that.
    sums : object
        Of the rows of the last pass; None of none.
    waiting : Rows or None
        Rows that are summed with those of the next chunk.
    n_chunks, n_rows : int
        That the present pass has finished.
    mark : str
        A digest of the last one of them.
    """

    model: str
    parameters: str
    rngs: tuple[np.random.Generator, ...]
    columns: dict[str, Any]
    sample: Sample | None
    record: Any = None
    covered: bool = False
    sums: Any = None
    waiting: Rows | None = None
    n_chunks: int = 0
    n_rows: int = 0
    mark: str = ""

    def write(self, path: PathLike) -> None:
        """Write this state to a file, which then replaces that of an earlier chunk.

        Raises
        ------
        OutputError
            If the file cannot be written, on a full disk for one. The earlier file stays.
        """
        encoder = Encoder("A checkpoint")
        tree = encoder.encode(self)
        header = {"lmgp": version("lmgp"), "class": KIND, "of": self.model, "rows_kept": encoder.rows_kept}
        with whole_file(path) as stream:
            write_archive(stream, {**header, "model": tree}, encoder.arrays)


def read_checkpoint(path: PathLike, model: str, parameters: str) -> Checkpoint | None:
    """Read the state of a fit; None where there is no such file.

    Parameters
    ----------
    path : path
    model, parameters : str
        Of the model that is to go on.

    Raises
    ------
    ModelFileError
        If the file is no checkpoint, is damaged, or is of another model, other parameters or another version.
    """
    file = Path(path).expanduser()
    if not file.exists():
        return None
    if file.is_dir():
        raise ModelFileError(f"{file} is a folder; give the path of a file for the checkpoint.")
    try:
        header, arrays = read_archive(file)
    except OSError as error:
        if isinstance(error, ModelFileError) or error.strerror is None:
            raise
        raise ModelFileError(f"{file} cannot be read: {error.strerror}.") from error
    cure = "Go on with what wrote it, or remove the file, or give another path, to begin again."
    if header.get("class") != KIND:
        raise ModelFileError(f"{file} is a model of {str(header.get('class'))[:40]}, and no checkpoint. {cure}")
    if header.get("lmgp") != version("lmgp"):
        wrote = str(header.get("lmgp"))[:40]
        raise ModelFileError(f"{file} was written by lmgp {wrote}, and this is lmgp {version('lmgp')}. {cure}")
    if header.get("of") != model:
        raise ModelFileError(f"{file} is a checkpoint of {str(header.get('of'))[:40]}, not of {model}. {cure}")
    try:
        state = Decoder(arrays).decode(header["model"])
        if not isinstance(state, Checkpoint):
            raise ModelFileError("it holds no checkpoint")
    except (ModelFileError, *DO_NOT_FIT) as error:
        raise damaged(file, str(error)) from error
    if state.parameters != parameters:
        raise ModelFileError(f"{file} is a checkpoint of a {model} with other parameters. {cure}")
    return state
