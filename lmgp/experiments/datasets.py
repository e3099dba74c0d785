"""Regression data: the sets of the catalogue, a user's own CSV file, and splits into training and test rows.

A set of the catalogue is read from a local folder, or else downloaded once into the user's cache. Its sha256 is checked
first, so that everyone computes with the same rows. Only sets that users prepare themselves have no checksum. The
catalogue, ``catalogue.toml``, has the source, licence, citation and checksums of each.
"""

import hashlib
import math
import os
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from numbers import Integral, Real
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes

from lmgp.data import Floats, RandomState, generator
from lmgp.errors import DatasetError, InputError, nearest_names
from lmgp.io.tables import Dialect, choose_inputs, read_targets
from lmgp.saving.output import PathLike, as_path

__all__ = ["DATA_DIR_VARIABLE", "Dataset", "available", "fetch", "load_csv", "load_dataset", "make_sinc", "split"]

Masks = tuple[NDArray[np.bool_], ...]
DATA_DIR_VARIABLE = "LMGP_DATA_DIR"
_ELSEWHERE = f"put it into the folder named by data_dir (--data-dir) or {DATA_DIR_VARIABLE}"


@dataclass(frozen=True, kw_only=True)
class DatasetEntry:
    """What is known of one data set.

    Parameters
    ----------
    name : str
        Name in the catalogue.
    description : str
        One line: what a row is, what the target is and its unit.
    n_rows : int
        Number of rows, training and test together; with `prepare`, those of the published file.
    columns : tuple of str
        All columns in the order of the file; the target comes last.
    inputs : tuple of str
        The columns used as inputs unless others are asked for.
    licence, citation : str
        Terms of use with the attribution they ask for, and where the data were first described.
    kind : {"generated", "shipped", "download", "file"}
        Drawn from a formula; part of scikit-learn; downloadable from `url`; or only read from a prepared local file.
    url, url_sha256 : str or None
        Address and checksum of the original file: no header, separated by whitespace (.txt) or commas (.csv.gz).
    file_name, file_sha256 : str or None
        Name and checksum of the prepared file: comma-separated, gzip, one header line. No checksum with `prepare`.
    prepare : str or None
        Command by which users make the prepared file, from the rows that the sources have at that time.
    n_splits : int
        Number of published splits into training and test rows.
    mask_sha256 : str or None
        Checksum of `mask_name`, the file with one 0/1 column for each published split, 1 for a test row.
    split_column : str or None
        The 0/1 column of the data themselves that holds the one published split.
    spatial : bool
        Whether the default inputs are geographical coordinates, which are not standardised.

    Examples
    --------
    >>> CATALOGUE["yacht"].target
    'residuary_resistance'
    >>> CATALOGUE["yacht"].download_name
    'yacht.data.txt'
    """

    name: str
    description: str
    n_rows: int
    columns: tuple[str, ...]
    inputs: tuple[str, ...]
    licence: str
    citation: str
    kind: Literal["generated", "shipped", "download", "file"]
    url: str | None = None
    url_sha256: str | None = None
    file_name: str | None = None
    file_sha256: str | None = None
    prepare: str | None = None
    n_splits: int = 0
    mask_sha256: str | None = None
    split_column: str | None = None
    spatial: bool = False

    @property
    def target(self) -> str:
        """The column to predict."""
        return self.columns[-1]

    @property
    def download_name(self) -> str | None:
        """Name under which the downloaded original file is kept; None without an address."""
        return None if self.url is None else f"{self.name}.{self.url.rpartition('/')[2]}"

    def local_file(self, folder: Path | None) -> tuple[Path, str | None] | None:
        """Look in a folder for the prepared, then for the original file; return the path and the checksum, if any."""
        if folder is None:
            return None
        candidates = ((self.file_name, self.file_sha256), (self.download_name, self.url_sha256))
        known = [(folder / name, sha256) for name, sha256 in candidates if name is not None]
        return next(((path, sha256) for path, sha256 in known if path.is_file()), None)

    @property
    def mask_name(self) -> str | None:
        """Name of the file with the published splits; None where there is no such file."""
        if self.file_name is None or self.mask_sha256 is None:
            return None
        return self.file_name.removesuffix(".csv.gz") + ".test_mask.csv.gz"


def _catalogue() -> dict[str, DatasetEntry]:
    entries = tomllib.loads((files(__package__) / "catalogue.toml").read_text(encoding="utf-8"))["dataset"]
    known = {}
    for entry in entries:
        columns = tuple(entry["columns"])
        inputs = tuple(entry.get("inputs", columns[:-1]))
        known[entry["name"]] = DatasetEntry(**entry | {"columns": columns, "inputs": inputs})
    return known


CATALOGUE: dict[str, DatasetEntry] = _catalogue()
"""All known data sets by name."""


@dataclass(frozen=True, eq=False)
class Dataset:
    """Rows to learn from, with the names of their columns.

    Parameters
    ----------
    name : str
        Name in the catalogue, or that of the user's file.
    X : ndarray of shape (n, d)
        Inputs, float64, in the units of the source.
    y : ndarray of shape (n,)
        Target, float64.
    feature_names, target_name : tuple of str, and str
        Names of the d columns of `X`, and of `y`.
    entry : DatasetEntry or None
        What the catalogue knows; None for a user's own file.
    splits : tuple of bool ndarray of shape (n,)
        Published splits, True for a test row; empty where there are none or their file is missing.
    """

    name: str
    X: Floats
    y: Floats
    feature_names: tuple[str, ...]
    target_name: str
    entry: DatasetEntry | None = None
    splits: Masks = ()


def make_sinc(
    n: int = 50, noise_variance: float = 0.01, random_state: RandomState = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Draw noisy observations of y = sinc(5x), where sinc(t) = sin(πt)/(πt), at uniform x in [-1.5, 1.5].

    This is the one-dimensional example of Wacker and Filippone (2022), section 4.

    Parameters
    ----------
    n : int
        Number of rows.
    noise_variance : float
        Variance of the normal noise added to y.
    random_state : int, Generator, RandomState or None
        Seed or source of the draws.

    Returns
    -------
    X : ndarray of shape (n, 1)
    y : ndarray of shape (n,)

    Raises
    ------
    InputError
        If `n` is below 1 or `noise_variance` is negative or not finite.

    Examples
    --------
    >>> import numpy as np
    >>> X, y = make_sinc(3, noise_variance=0.0)
    >>> bool(np.all(y == np.sinc(5 * X[:, 0])))
    True
    """
    if not isinstance(n, Integral) or n < 1:
        raise InputError(f"n must be an integer of at least 1; got {n!r}.")
    if not (isinstance(noise_variance, Real) and math.isfinite(noise_variance) and noise_variance >= 0):
        raise InputError(f"noise_variance must be finite and not negative; got {noise_variance!r}.")
    rng = generator(random_state)
    x = rng.uniform(-1.5, 1.5, n)
    return x[:, np.newaxis], np.sinc(5 * x) + rng.normal(0.0, math.sqrt(noise_variance), n)


def load_dataset(
    name: str, data_dir: PathLike | None = None, *, columns: Sequence[str] | None = None, progressbar: bool = False
) -> Dataset:
    """Load a data set of the catalogue.

    The places are tried in this order: the local folder (prepared file, then original), the user's cache, the address
    of the original. Published splits are read from the local folder.

    Parameters
    ----------
    name : str
        A key of `lmgp.experiments.datasets.CATALOGUE`.
    data_dir : path or None
        Local folder with data files; None means the environment variable ``LMGP_DATA_DIR``, if set.
    columns : sequence of str or None
        Columns to use as inputs; None means those of the catalogue.
    progressbar : bool
        Show the progress of a download on standard error.

    Returns
    -------
    Dataset

    Raises
    ------
    DatasetError
        If the name, the folder or a column is unknown, or the data are missing, damaged or cannot be downloaded.

    Examples
    --------
    >>> data = load_dataset("diabetes", columns=["bmi", "bp"])
    >>> data.X.shape, data.feature_names, data.target_name
    ((442, 2), ('bmi', 'bp'), 'disease_progression')
    """
    if not isinstance(name, str) or name not in CATALOGUE:
        raise DatasetError(f"No data set is named {name!r}; {nearest_names(str(name), CATALOGUE)}")
    entry = CATALOGUE[name]
    wanted = entry.inputs if columns is None else columns
    inputs = choose_inputs(f"Data set {name!r}", entry.columns, [entry.target], wanted)
    table, splits = _read_entry(entry, _data_folder(data_dir), progressbar)
    X = np.ascontiguousarray(table[:, [entry.columns.index(column) for column in inputs]])
    return Dataset(name, X, table[:, -1].copy(), inputs, entry.target, entry, splits)


def fetch(entry: DatasetEntry, cache_dir: PathLike | None = None, progressbar: bool = False) -> Path:
    """Download the original file of a data set, unless the cache has it already.

    Parameters
    ----------
    entry : DatasetEntry
        A data set with an address.
    cache_dir : path or None
        Folder to keep the file in; None means the user's cache, ``pooch.os_cache("lmgp")``.
    progressbar : bool
        Show the progress on standard error.

    Returns
    -------
    pathlib.Path
        The file, whose checksum is that of the catalogue.

    Raises
    ------
    DatasetError
        If the download fails or gives another file than expected; nothing of it stays in the cache.
    """
    if not isinstance(entry, DatasetEntry):
        raise InputError(
            f"entry must be one of lmgp.experiments.datasets.CATALOGUE, such as CATALOGUE['yacht']; got {entry!r}."
        )
    if entry.url is None or entry.url_sha256 is None or entry.download_name is None:
        raise DatasetError(f"Data set {entry.name!r} has no address to download it from.")
    import pooch

    path = Path(pooch.os_cache("lmgp") if cache_dir is None else cache_dir).expanduser() / entry.download_name
    logger = pooch.get_logger()
    level = logger.level
    try:
        if path.is_file():
            if _sha256(path) == entry.url_sha256:
                return path
            path.unlink()  # or a damaged copy would outlive a download that fails
        logger.setLevel("WARNING")
        pooch.retrieve(entry.url, f"sha256:{entry.url_sha256}", path.name, path.parent, progressbar=progressbar)
    except (OSError, ValueError) as error:
        # All errors of the connection are OSErrors, and those with an answer carry it; a ValueError is a wrong hash.
        status = getattr(getattr(error, "response", None), "status_code", None)
        reason = str(error).rstrip(".") if status is None else f"the server answered with HTTP status {status}"
        advice = f"try again, or get the file by other means, save it as {entry.download_name} and {_ELSEWHERE}"
        raise DatasetError(f"{entry.name!r} could not be downloaded from {entry.url}: {reason}; {advice}.") from error
    finally:
        logger.setLevel(level)
    return path


def load_csv(
    path: PathLike,
    target: str | None,
    *,
    columns: Sequence[str] | None = None,
    sep: str = ",",
    decimal: str = ".",
    encoding: str = "utf-8-sig",
) -> Dataset:
    """Load a user's own CSV file: one header line, then numbers.

    Parameters
    ----------
    path : path
        A file whose name ends in ``.gz`` is compressed by gzip. One whose name ends in ``.parquet`` is a Parquet file,
        which pyarrow reads.
    target : str
        Column to predict.
    columns : sequence of str or None
        Columns to use as inputs; None means all but the target. Other columns may hold anything.
    sep : str, default=","
        What separates the columns.
    decimal : {".", ","}, default="."
    encoding : str, default="utf-8-sig"
        As Python names it.

    Returns
    -------
    Dataset

    Raises
    ------
    DatasetError
        If the file cannot be read as such a table; the message names the file, the columns and the lines.
    """
    file = as_path(path)
    targets = None if target is None else [target]
    table, _, inputs = read_targets(file, targets, columns, Dialect(sep, decimal, encoding))
    name = re.sub(r"\.(csv|parquet|txt|tsv|dat)$", "", file.name.removesuffix(".gz"))
    return Dataset(name, np.ascontiguousarray(table[:, :-1]), table[:, -1].copy(), inputs, str(target))


def split(
    dataset: Dataset, seed: int, *, n_train: int | None = None, published: bool = True, test_fraction: float = 0.1
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Split the rows into training and test rows; the same arguments always give the same split.

    Parameters
    ----------
    dataset : Dataset
        What to split.
    seed : int
        Number of the published split, or seed of a random one.
    n_train : int or None
        Number of training rows of a random split; all others are test rows. None: see `test_fraction`.
    published : bool
        Use published split number `seed` where there is one; `n_train` and `test_fraction` then have no effect. A set
        with a single published split uses it for every seed.
    test_fraction : float
        Share of test rows of a random split without `n_train`. At least 1 test row and 2 training rows remain.

    Returns
    -------
    train, test : ndarray of int
        Row numbers, which together are all rows.

    Raises
    ------
    InputError
        If an argument leaves fewer than 2 training rows or no test row.

    Examples
    --------
    >>> train, test = split(load_dataset("diabetes"), seed=0)
    >>> len(train), len(test)
    (398, 44)
    """
    if not isinstance(dataset, Dataset):
        raise InputError(
            f"dataset must be a Dataset, as load_dataset and load_csv return it; got {type(dataset).__name__}."
        )
    if seed < 0:
        raise InputError(f"seed must not be negative; got {seed}.")
    number = 0 if len(dataset.splits) == 1 else seed
    if published and number < len(dataset.splits):
        return np.flatnonzero(~dataset.splits[number]), np.flatnonzero(dataset.splits[number])
    if not 0 < test_fraction < 1:
        raise InputError(f"test_fraction must lie between 0 and 1; got {test_fraction}.")
    n = len(dataset.y)
    if n_train is None:
        n_train = max(n - max(round(test_fraction * n), 1), 2)
    if not 2 <= n_train < n:
        got = f"of its {n} rows {n_train} would be for training"
        raise InputError(f"Data set {dataset.name!r}: {got}; at least 2 must be, and at least 1 be left for testing.")
    order = np.random.default_rng(seed).permutation(n)
    return order[:n_train], order[n_train:]


def available(data_dir: PathLike | None = None) -> list[tuple[DatasetEntry, str]]:
    """List the catalogue, and where each set would come from.

    Parameters
    ----------
    data_dir : path or None
        As in `load_dataset`. Files are looked for, not read.

    Returns
    -------
    list of (DatasetEntry, str)
        The text is ``"generated"``, ``"shipped with scikit-learn"``, ``"here: PATH"``, ``"cached: PATH"``,
        ``"download on first use"`` or ``"needs a file"``.
    """
    import pooch

    folder = _data_folder(data_dir)

    def where(entry: DatasetEntry) -> str:
        if entry.kind in ("generated", "shipped"):
            return "generated" if entry.kind == "generated" else "shipped with scikit-learn"
        if (local := entry.local_file(folder)) is not None:
            return f"here: {local[0]}"
        if entry.download_name is None:
            return "needs a file"
        cached = Path(pooch.os_cache("lmgp"), entry.download_name)
        return f"cached: {cached}" if cached.is_file() else "download on first use"

    return [(entry, where(entry)) for entry in CATALOGUE.values()]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _data_folder(data_dir: PathLike | None) -> Path | None:
    named_by = DATA_DIR_VARIABLE if data_dir is None else "data_dir (--data-dir)"
    chosen = os.environ.get(DATA_DIR_VARIABLE, "") if data_dir is None else data_dir
    if chosen == "":
        return None
    folder = as_path(chosen)
    if not folder.is_dir():
        raise DatasetError(f"{named_by} is {str(folder)!r}, which is not a folder; name one that exists.")
    return folder


def _read_entry(entry: DatasetEntry, folder: Path | None, progressbar: bool) -> tuple[Floats, Masks]:
    """Return all columns of a set, shape (n_rows, n_columns), and its published splits."""
    if entry.kind == "generated":
        training, test = make_sinc(), make_sinc(entry.n_rows - 50, random_state=1)
        return np.vstack([np.column_stack(training), np.column_stack(test)]), (np.arange(entry.n_rows) >= 50,)
    if entry.kind == "shipped":
        return np.column_stack(load_diabetes(return_X_y=True, scaled=False)), ()
    local = entry.local_file(folder)
    if local is None and entry.kind == "file":
        looked = "no data folder is named" if folder is None else f"{folder} does not have it"
        advice = _ELSEWHERE if entry.prepare is None else f"make it with '{entry.prepare}' and {_ELSEWHERE}"
        raise DatasetError(f"Data set {entry.name!r} needs the file {entry.file_name}, and {looked}; {advice}.")
    path, sha256 = local or (fetch(entry, progressbar=progressbar), entry.url_sha256)
    if entry.prepare is not None:
        dataset = load_csv(path, entry.target, columns=entry.columns[:-1])
        return np.column_stack([dataset.X, dataset.y]), ()
    table = _read_checked(path, sha256, (entry.n_rows, len(entry.columns)), has_header=path.name == entry.file_name)
    if entry.split_column is not None:
        return table, (table[:, entry.columns.index(entry.split_column)] == 1,)
    if folder is None or entry.mask_name is None or not (folder / entry.mask_name).is_file():
        return table, ()
    masks = _read_checked(folder / entry.mask_name, entry.mask_sha256, (entry.n_rows, entry.n_splits))
    return table, tuple(column == 1 for column in masks.T)


def _read_checked(path: Path, sha256: str | None, shape: tuple[int, int], has_header: bool = True) -> Floats:
    got = _sha256(path)
    if got != sha256:
        reason = f"not the file of the catalogue: expected sha256 {sha256}, got {got}"
        raise DatasetError(f"{path} is {reason}; replace it by an undamaged copy, or load it with load_csv.")
    table = np.loadtxt(path, delimiter=None if path.suffix == ".txt" else ",", skiprows=int(has_header), ndmin=2)
    if table.shape != shape:
        raise DatasetError(f"{path} has {table.shape} rows and columns; the catalogue says {shape}.")
    return table
