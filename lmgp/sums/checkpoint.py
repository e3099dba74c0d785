"""How far a pass over a stream has come, in a file."""

from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from lmgp.errors import ModelFileError
from lmgp.saving.files import read_file, write_file
from lmgp.saving.output import PathLike
from lmgp.sums.sample import Sample

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
    fit : Fit or None
        The model, after the first pass, with the sums of the last one.
    covered : bool
        Whether the present pass is that of the sums, which have seen where all rows are, where they need that.
    n_chunks, n_rows : int
        That the present pass has finished.
    mark : str
        A digest of all of these chunks, each chained to that of the one before it.
    """

    model: str
    parameters: str
    rngs: tuple[np.random.Generator, ...]
    columns: dict[str, Any]
    sample: Sample | None
    fit: Any = None
    covered: bool = False
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
        write_file(path, self, "A checkpoint", {"class": KIND, "of": self.model})


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
    state, header = read_file(file)
    cure = "Go on with what wrote it, or remove the file, or give another path, to begin again."
    kind, wrote, of = (str(header.get(name))[:40] for name in ("class", "lmgp", "of"))
    known = isinstance(state, Checkpoint)
    for fits, told in (
        (kind == KIND and known, f"is a model of {kind}, and no checkpoint"),
        (wrote == version("lmgp"), f"was written by lmgp {wrote}, and this is lmgp {version('lmgp')}"),
        (of == model, f"is a checkpoint of {of}, not of {model}"),
        (known and state.parameters == parameters, f"is a checkpoint of a {model} with other parameters"),
    ):
        if not fits:
            raise ModelFileError(f"{file} {told}. {cure}")
    return state
