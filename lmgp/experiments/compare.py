"""Compare approximations with the exact GP: what is compared, and what is measured and kept of each cell."""

import csv
import hashlib
import io
import json
import logging
import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from sklearn.preprocessing import StandardScaler

from lmgp import ExactGPRegressor, GaussianKernel
from lmgp.data import Floats, Indices, Rows, warn_of_scales
from lmgp.errors import (
    ImplausibleMeanWarning,
    InputError,
    LmgpError,
    MemoryLimitError,
    ScaleWarning,
    ToleranceWarning,
    nearest_names,
)
from lmgp.experiments.datasets import Dataset, split
from lmgp.metrics import coverage, crps, kl_divergence, nlpd, rmse
from lmgp.posteriors.exact import max_rows_within
from lmgp.saving.output import write_whole
from lmgp.selection.methods import BUILT_IN, EXACT, METHODS, NEAREST_ROWS, SPECTRAL, Allocation
from lmgp.utils.memory import is_out_of_memory
from lmgp.utils.progress import counted

_LOG = logging.getLogger(__name__)
_NUMERICAL = ("lmgp", "numpy", "scipy", "scikit-learn", "torch", "gpytorch")  # whose version can change a digit

# Of the mean, in predictive standard deviations, where it is solved for by iteration: 5e-7 nats a row.
MEAN_ERROR = 1e-3

Say = Callable[[str], object]

# ------------------------------------------------------------------------------------------------- what is compared


class PublishedSettings(NamedTuple):
    """What the paper fixed for one data set: hyperparameters, training rows, and whether inputs are standardised."""

    lengthscale: float
    variance: float
    noise_variance: float
    n_train: int
    standardise: bool = False


@dataclass(frozen=True)
class Protocol:
    """The rules of a comparison.

    Attributes
    ----------
    name : str
    approximation : {"dtc", "sor", "fitc"}
        What the models do about the prior variance that a map leaves out, see `FeaturizedGPRegressor`.
    allocation : {"local", "mean"}
        The pairs of rows for which a Maclaurin map spreads its columns over the degrees, see
        `lmgp.selection.methods.Method`.
    published_splits : bool
        Whether a split that comes with the data set is used instead of a random one.
    n_features : tuple of int
        The sizes compared by default.
    max_test_rows : int or None
        The cap on test rows by default; None for no cap.
    published : mapping of str to PublishedSettings
        By data set. Empty where hyperparameters are learned, by maximising the marginal likelihood.
    """

    name: str
    approximation: Literal["dtc", "sor", "fitc"]
    allocation: Allocation
    published_splits: bool
    n_features: tuple[int, ...]
    max_test_rows: int | None = None
    published: Mapping[str, PublishedSettings] = field(default_factory=dict)

    def published_for(self, dataset: Dataset) -> PublishedSettings | None:
        """Look up what the paper fixed for a data set; None where this protocol learns instead.

        Raises
        ------
        InputError
            If the protocol is one of published hyperparameters and has none for these inputs.
        """
        if not self.published:
            return None
        # A user's own file of the same name, or other columns, is another problem.
        same = dataset.entry is not None and dataset.feature_names == dataset.entry.inputs
        if not same or dataset.name not in self.published:
            raise InputError(
                f"Protocol {self.name!r} fixes the published hyperparameters, and has none for {dataset.name!r} with "
                f"inputs {', '.join(dataset.feature_names)}: it is for the catalogue's {', '.join(self.published)}. "
                "Use protocol 'converged'."
            )
        return self.published[dataset.name]

    def model(self, cell: "ComparisonCell", kernel: Any, noise_variance: float) -> Any:
        """Make the unfitted model of a cell."""
        given = {"kernel": kernel, "noise_variance": noise_variance, "approximation": self.approximation}
        sizes = cell.n_features, cell.threshold
        return METHODS[cell.method].regressor(*sizes, allocation=self.allocation, random_state=cell.seed, **given)


_PUBLISHED = {
    "yacht": PublishedSettings(0.318, 1650.0, 7.389, n_train=200),
    "kin8nm": PublishedSettings(2.15, 0.0696, 0.1353, n_train=7_373, standardise=True),
    "uk_flats": PublishedSettings(0.248, 0.506, 0.2019, n_train=10_000),
    "uk_flats_2020-12": PublishedSettings(0.248, 0.506, 0.2019, n_train=10_000),
}
CONVERGED = Protocol("converged", "fitc", "local", published_splits=True, n_features=(32, 128, 512), max_test_rows=2000)
PAPER = Protocol("paper", "sor", "mean", published_splits=False, n_features=(32, 128, 512, 1024), published=_PUBLISHED)
PROTOCOLS = {protocol.name: protocol for protocol in (CONVERGED, PAPER)}
DEFAULT_METHODS = tuple(name for name, method in METHODS.items() if method.compared)


class ComparisonCell(NamedTuple):
    """What is fitted once: the key of a row of results.

    The reference is a cell of method "exact", without sizes. A method without a size has no `n_features`.
    """

    seed: int
    method: str
    n_features: int | None = None
    threshold: float | None = None

    def __str__(self) -> str:
        sizes = {"D": self.n_features, "threshold": self.threshold}
        shown = (f"{name} = {size:g}" for name, size in sizes.items() if size is not None)
        return ", ".join((f"seed {self.seed}", self.method, *shown))


@dataclass(frozen=True)
class ComparisonSettings:
    """What a comparison runs: its protocol, its grid of cells, and its caps.

    Attributes
    ----------
    protocol : Protocol
    methods : tuple of str or None
        Names in `METHODS`; None for those of `DEFAULT_METHODS` that serve the data, see `served`.
    n_features : tuple of int
    thresholds : tuple of float
        In lengthscales; for the localized methods.
    seeds : int
        The seeds are 0 … seeds − 1. A seed sets the random split and what the maps draw.
    max_train_rows, max_test_rows : int or None
        Where there are more rows, a random part of that size stands for them, in the reference and the methods alike.
    ard : bool
        Whether one lengthscale a column is learned.
    standardise : bool or None
        Whether each input column is shifted and scaled to mean 0 and s.d. 1 on the training rows. None says: yes, but
        for coordinates; those are the inputs of the catalogue's spatial sets. In a user's own file none are recognised.
    further : tuple of str
        Names in `METHODS`, of methods beside `methods`.

    Raises
    ------
    InputError
        If a value cannot be used.
    """

    protocol: Protocol = CONVERGED
    methods: tuple[str, ...] | None = None
    n_features: tuple[int, ...] = CONVERGED.n_features
    thresholds: tuple[float, ...] = (0.5, 2.0)
    seeds: int = 3
    max_train_rows: int | None = 10_000
    max_test_rows: int | None = CONVERGED.max_test_rows
    ard: bool = False
    standardise: bool | None = None
    further: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (*(self.methods or ()), *self.further):
            if name not in METHODS:
                raise InputError(
                    f"Unknown method {name!r}; {nearest_names(name, METHODS)}; one of your own is module:object, or "
                    "added by lmgp.selection.methods.register."
                )
        limits: dict[str, tuple[int, tuple[int | None, ...]]] = {
            "n_features": (2, self.n_features),
            "seeds": (1, (self.seeds,)),
            "max_train_rows": (2, (self.max_train_rows,)),
            "max_test_rows": (1, (self.max_test_rows,)),
        }
        for name, (least, values) in limits.items():
            if too_low := [value for value in values if value is not None and value < least]:
                raise InputError(f"{name} must be at least {least}; got {too_low[0]}.")
        for threshold in self.thresholds:
            if not (math.isfinite(threshold) and threshold > 0):
                raise InputError(f"A threshold must be a positive number of lengthscales; got {threshold:g}.")
        if self.protocol.published and (self.ard or self.standardise is not None):
            raise InputError(
                f"Protocol {self.protocol.name!r} fixes one lengthscale for all columns, and which inputs are "
                "standardised: leave out --ard and --standardise, or use protocol 'converged'."
            )

    @property
    def wanted(self) -> tuple[str, ...]:
        """The names of all methods, each once: those by default, or those that were named, and the further ones."""
        return tuple(dict.fromkeys((*(DEFAULT_METHODS if self.methods is None else self.methods), *self.further)))

    def standardises(self, dataset: Dataset) -> bool:
        """Say whether the inputs of a data set are standardised."""
        published = self.protocol.published_for(dataset)
        if published:
            return published.standardise
        if self.standardise is not None:
            return self.standardise
        # What the catalogue knows of a set holds for its own choice of columns.
        return not (dataset.entry and dataset.entry.spatial and dataset.feature_names == dataset.entry.inputs)

    def served(self, dataset: Dataset) -> tuple["ComparisonSettings", tuple[str, ...]]:
        """Name the methods that a data set is compared by.

        Parameters
        ----------
        dataset : Dataset

        Returns
        -------
        settings : ComparisonSettings
            With names in `methods`.
        left_out : tuple of str
            Which of the default methods cannot serve the data, and why.

        Raises
        ------
        InputError
            If a method that was named cannot serve the data.
        """
        named = (*(self.methods or ()), *self.further)
        refusals = {name: METHODS[name].refusal(dataset.X.shape[1]) for name in self.wanted}
        left_out = tuple(reason for reason in refusals.values() if reason is not None)
        if refused := [refusals[name] for name in named if refusals[name] is not None]:
            raise InputError(f"{dataset.name}: {refused[0]}. Leave it out of the methods, or choose fewer columns.")
        return replace(self, methods=tuple(name for name in refusals if refusals[name] is None), further=()), left_out

    def cells(self, seed: int) -> Iterator[ComparisonCell]:
        """List the cells of one seed: the reference first, then the methods without a size."""
        yield ComparisonCell(seed, EXACT)
        yield from (ComparisonCell(seed, method) for method in self.wanted if not METHODS[method].sized)
        for n_features in sorted(set(self.n_features)):
            for method in (name for name in self.wanted if METHODS[name].sized):
                thresholds = sorted(set(self.thresholds)) if METHODS[method].localized else [None]
                yield from (ComparisonCell(seed, method, n_features, threshold) for threshold in thresholds)


# ------------------------------------------------------------------------------------------------------------- rows


class Prepared(NamedTuple):
    """The rows of one seed, as the models get them: X of shape (n, d), y of shape (n,)."""

    X_train: Floats
    y_train: Floats
    X_test: Floats
    y_test: Floats


def _parts(dataset: Dataset, settings: ComparisonSettings, seed: int) -> tuple[Indices, Indices]:
    published = settings.protocol.published_for(dataset)
    n_train = published.n_train if published else None
    return split(dataset, seed, n_train=n_train, published=settings.protocol.published_splits)


def prepare(dataset: Dataset, settings: ComparisonSettings, seed: int) -> Prepared:
    """Split a data set as the settings say, cap both parts, and standardise the inputs where the protocol does.

    Parameters
    ----------
    dataset : Dataset
    settings : ComparisonSettings
    seed : int
        Sets the split, where it is random, and the rows that stay below a cap.

    Returns
    -------
    Prepared

    Raises
    ------
    InputError
        If there are fewer than 2 training rows or no test row, or if the targets or all
        inputs of the training rows are constant.
    """
    rng = np.random.default_rng((seed, 1))  # a stream apart from the split's
    caps = settings.max_train_rows, settings.max_test_rows
    train, test = (
        np.sort(rng.choice(part, cap, replace=False)) if cap is not None and len(part) > cap else part
        for part, cap in zip(_parts(dataset, settings, seed), caps, strict=True)
    )
    if len(train) < 2 or len(test) < 1:
        raise InputError(
            f"{dataset.name} has {len(dataset.y)} rows, which split into {len(train)} for training and {len(test)} "
            "for testing; at least 2 and 1 are needed."
        )
    if np.ptp(dataset.y[train]) == 0:
        raise InputError(
            f"The target {dataset.target_name!r} of {dataset.name} is constant on the training rows of seed {seed}: "
            "there is nothing to learn."
        )
    if not np.ptp(dataset.X[train], axis=0).any():
        raise InputError(
            f"All input columns of {dataset.name} ({', '.join(dataset.feature_names)}) are constant on the training "
            f"rows of seed {seed}: there is nothing to learn from."
        )
    X_train, X_test = dataset.X[train], dataset.X[test]
    if settings.standardises(dataset):
        scaler = StandardScaler().fit(X_train)
        X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
    return Prepared(X_train, dataset.y[train], X_test, dataset.y[test])


def fingerprint(dataset: Dataset, settings: ComparisonSettings) -> str:
    """Hash all that changes the numbers of a cell and is not part of its key.

    Returns
    -------
    str
        12 hexadecimal digits.
    """
    protocol = settings.protocol
    described = {
        "versions": {name: version(name) for name in _NUMERICAL},
        "protocol": [protocol.name, protocol.approximation, protocol.allocation, protocol.published_splits],
        "published": protocol.published_for(dataset),
        "standardised": settings.standardises(dataset),
        "columns": [*dataset.feature_names, dataset.target_name],
        "caps": [settings.max_train_rows, settings.max_test_rows],
        "ard": settings.ard,
    }
    digest = hashlib.sha256(json.dumps(described, sort_keys=True).encode())
    for array in (dataset.X, dataset.y, *dataset.splits):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:12]


def _mark_of(mark: str, method: str) -> str:
    """Return the fingerprint of the results of one method: with that of its code, where it is not the package's."""
    source = METHODS[method].source if method in METHODS else ""
    return f"{mark}-{source}" if source else mark


# ------------------------------------------------------------------------------------------- the file of results

TEXT = ("settings", "dataset", "protocol", "method", "lengthscale", "selection")
COLUMNS = (
    "settings", "dataset", "protocol", "n_train", "n_test", "n_inputs", "seed", "method", "n_features", "threshold",
    "rmse", "nlpd", "coverage", "crps", "fit_seconds", "predict_seconds", "n_features_out", "n_centroids", "kl",
    "kl_sum", "reverse_kl", "lengthscale", "variance", "noise_variance", "converged", "selection",
)  # fmt: skip
"""What is kept of each cell, one line of ``results.csv``; see `Comparison`."""

_HEADER = ",".join(COLUMNS) + "\n"
_TRUTH = {"": math.nan, "True": 1.0, "False": 0.0}


def results_path(dataset: Dataset, out: Path) -> Path:
    """Say where the results of a data set are kept."""
    return out / dataset.name / "results.csv"


def learned_path(dataset: Dataset, out: Path) -> Path:
    """Say where the learned hyperparameters of a data set are kept."""
    return out / dataset.name / "learned.json"


def as_frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Make a frame with the columns of the results; what a row lacks is NaN, or an empty text."""
    frame = pd.DataFrame(rows, columns=list(COLUMNS)).astype(object)
    return frame.fillna(dict.fromkeys(TEXT, "")).astype({name: str if name in TEXT else float for name in COLUMNS})


def read_results(path: Path) -> pd.DataFrame:
    """Read what was measured, of whatever settings, and leave nothing behind.

    Parameters
    ----------
    path : Path
        Need not exist. A last line without an end, which a killed process has left, is passed over.

    Returns
    -------
    DataFrame
        With the columns `COLUMNS`.

    Raises
    ------
    InputError
        If a file is there that is no results file of this version, or if `path` cannot be written.
    """
    check_writable(path)
    text = path.read_bytes().decode(errors="replace") if path.exists() else ""
    if not (text.startswith(_HEADER) or _HEADER.startswith(text)):
        raise InputError(
            f"{path} is not a results file of this version of lmgp and is left as it is. "
            "Move it away, or choose another --out."
        )
    cure = "Remove this line, and its cell is measured again; or choose another --out."
    rows = []
    for number, values in enumerate(csv.reader(io.StringIO(text[: text.rfind("\n") + 1])), start=1):
        if len(values) != len(COLUMNS):
            raise InputError(
                f"Line {number} of {path} has {len(values)} fields, and {len(COLUMNS)} are expected. {cure}"
            )
        row: dict[str, Any] = dict(zip(COLUMNS, values, strict=True))
        for name, value in row.items() if number > 1 else ():
            try:
                row[name] = value if name in TEXT else _TRUTH[value] if value in _TRUTH else float(value)
            except ValueError:
                raise InputError(f"Line {number} of {path} has {value!r} in the column {name}. {cure}") from None
        rows.append(row)
    return as_frame(rows[1:])


def append_result(path: Path, row: Mapping[str, Any]) -> None:
    """Add a line; it is on disk when this returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = pd.DataFrame([row], columns=list(COLUMNS)).to_csv(header=False, index=False, lineterminator="\n")
    with path.open("a+b") as file:
        file.seek(0)
        end = file.read().rfind(b"\n") + 1  # what a killed process left of a last line is cut off
        file.truncate(end)
        file.write((line if end else _HEADER + line).encode())


def check_writable(path: Path) -> None:
    """Check that a file can be written, by making and removing one where it is not there yet.

    Permissions do not tell all: in ``/proc`` the superuser has them, and still nothing can be made. A file that exists
    is opened, and not changed.

    Raises
    ------
    InputError
        If it cannot.
    """
    existing = path
    while not os.path.lexists(existing):
        existing = existing.parent
    try:
        if existing == path:
            path.open("r+b").close()
        else:
            with TemporaryDirectory(prefix=".lmgp-", dir=existing) as folder:
                Path(folder, "file").touch()
    except OSError as error:
        raise InputError(
            f"Cannot write {path}: {existing} is in the way or not writable ({error.strerror}). Choose another --out."
        ) from None


# ---------------------------------------------------------------------------------------------------- the exact GP

LEARNED = ("lengthscale", "variance", "noise_variance", "converged", "seconds")


def iterates(n_train: int) -> bool:
    """Say whether the reference of this many training rows solves for its mean by iteration."""
    return n_train > max_rows_within(ExactGPRegressor().max_memory_gib)


def read_learned(path: Path) -> dict[str, dict[str, Any]]:
    """Return what exact GPs learned, `LEARNED` by fingerprint and seed; a damaged file counts as empty."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {name: learned for name, learned in kept.items() if set(learned) == set(LEARNED)}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def fit_exact(
    dataset: Dataset, settings: ComparisonSettings, rows: Prepared, seed: int, out: Path, say: Say = lambda text: None
) -> tuple[ExactGPRegressor, dict[str, Any]]:
    """Fit the exact GP: with the hyperparameters published, those kept on disk, or those learned and kept now.

    Parameters
    ----------
    dataset : Dataset
    settings : ComparisonSettings
    rows : Prepared
    seed : int
        Of the split.
    out : Path
        The folder of the results.
    say : callable, optional
        Takes a text that says what is being done.

    Returns
    -------
    model : ExactGPRegressor
        Fitted; it solves at its first prediction.
    learned : dict
        Of `LEARNED`: the seconds are those of learning, and given hyperparameters have converged.
    """
    path, key = learned_path(dataset, out), f"{fingerprint(dataset, settings)}-{seed}"
    published = settings.protocol.published_for(dataset)
    kept = None if published else read_learned(path).get(key)
    given = published._asdict() if published else kept
    model = ExactGPRegressor(
        None if given is None else GaussianKernel(given["lengthscale"], given["variance"]),
        None if given is None else given["noise_variance"],
        ard=settings.ard and given is None,
        tolerance=MEAN_ERROR,
        random_state=0,
    )
    if given is None and not settings.ard:
        train = Rows(rows.X_train, rows.y_train)
        warn_of_scales(train, dataset.feature_names, "Use --standardise yes, or --ard.")
    n_rows = min(len(rows.y_train), model.max_learning_rows)
    say(f"seed {seed}: {'fitting' if given else 'learning hyperparameters'} on {n_rows:,} rows")
    start = perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ScaleWarning)  # the command has its own, with names and options
        model.fit(rows.X_train, rows.y_train)
    learned = kept or {
        "lengthscale": np.asarray(model.kernel_.lengthscale, dtype=float).tolist(),
        "variance": float(model.kernel_.variance),
        "noise_variance": float(model.noise_variance_),
        "converged": bool(model.converged_),
        "seconds": perf_counter() - start,
    }
    if given is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, (json.dumps(read_learned(path) | {key: learned}, indent=1) + "\n").encode())
    return model, learned


# ---------------------------------------------------------------------------------------------------- the measuring


class Bench:
    """The rows of a split with the exact GP fitted to them: what every cell is measured on.

    Parameters
    ----------
    dataset : Dataset
    settings : ComparisonSettings
    rows : Prepared
    seed : int
        Of the split.
    out : Path
        The folder of the results, with the hyperparameters that the exact GP learned.
    say : callable, optional
        Takes a text that says what is being done.
    """

    def __init__(
        self, dataset: Dataset, settings: ComparisonSettings, rows: Prepared, seed: int, out: Path,
        say: Say = lambda text: None,
    ) -> None:  # fmt: skip
        self.protocol, self.rows = settings.protocol, rows
        self.exact, learned = fit_exact(dataset, settings, rows, seed, out, say)
        n_test, n_train = len(rows.y_test), len(rows.y_train)
        say(f"seed {seed}: exact prediction of {n_test:,} rows from {n_train:,}")
        self.mean, self.variance, seconds = self._predict(self.exact)
        if self.exact.iterations_ is not None:
            level = logging.INFO if self.exact.iterations_.converged else logging.WARNING
            _LOG.log(level, "seed %d: the mean of the exact GP: %s", seed, self.exact.iterations_)
        self._described = {
            "settings": fingerprint(dataset, settings),
            "dataset": dataset.name,
            "protocol": self.protocol.name,
            "n_train": n_train,
            "n_test": n_test,
            "n_inputs": dataset.X.shape[1],
        }
        self._reference = {
            "fit_seconds": learned["seconds"],
            "predict_seconds": seconds,
            "lengthscale": " ".join(repr(float(value)) for value in np.atleast_1d(self.exact.kernel_.lengthscale)),
            "variance": float(self.exact.kernel_.variance),
            "noise_variance": float(self.exact.noise_variance_),
            "converged": learned["converged"] if self.protocol.published_for(dataset) is None else None,
        }

    def measure(self, cell: ComparisonCell) -> dict[str, Any]:
        """Fit and score what a cell names.

        Returns
        -------
        dict
            A row of results, see `COLUMNS`.
        """
        described = {**self._described, **cell._asdict()}
        if cell.method == EXACT:
            return described | self._scores(self.mean, self.variance) | self._reference
        method = METHODS[cell.method]
        model = self.protocol.model(cell, self.exact.kernel_, self.exact.noise_variance_)
        with _named_warnings(cell):
            start = perf_counter()
            model.fit(self.rows.X_train, self.rows.y_train)
            fit_seconds = perf_counter() - start
            mean, variance, predict_seconds = self._predict(model)
        selection = model.selection_ if method.chooses else None
        kl = kl_divergence(mean, variance, self.mean, self.variance)
        return described | {
            "settings": _mark_of(described["settings"], cell.method),
            "n_features_out": self._size_of(cell, model),
            "n_centroids": len(model.centroids_) if method.localized else None,
            "selection": "" if selection is None else selection.to_json(),
            "kl": float(np.mean(kl)),
            "kl_sum": float(np.sum(kl)),
            "reverse_kl": float(np.mean(kl_divergence(self.mean, self.variance, mean, variance))),
            **self._scores(mean, variance),
            "fit_seconds": fit_seconds,
            "predict_seconds": predict_seconds,
        }

    def _predict(self, model: Any) -> tuple[Floats, Floats, float]:
        """Return the mean and the variance, with noise, of each test row, and the seconds that it took."""
        start = perf_counter()
        mean, std = model.predict(self.rows.X_test, return_std=True, include_noise=True)
        return mean, std**2, perf_counter() - start

    def _scores(self, mean: Floats, variance: Floats) -> dict[str, float]:
        y = self.rows.y_test
        return {
            "rmse": rmse(y, mean),
            "nlpd": nlpd(y, mean, variance),
            "coverage": coverage(y, mean, variance),
            "crps": crps(y, mean, variance),
        }

    def _size_of(self, cell: ComparisonCell, model: Any) -> int | None:
        """Count the columns of a fitted model; or the rows that a prediction is from, or the modes."""
        if METHODS[cell.method].chooses:
            chosen = model.selection_.chosen
            return None if chosen.method == EXACT else int(chosen.n_features)
        if cell.method == NEAREST_ROWS:
            return min(model.n_neighbors, len(self.rows.y_train))
        if cell.method == SPECTRAL:
            return int(model.error_.n_modes)
        features = getattr(model, "features_", None)  # rows may be chosen in place of features
        return None if features is None else int(features.transform(self.rows.X_train[:1]).shape[1])


def _reason(error: Exception, method: str) -> str:
    """Say why a cell cannot be made, or raise: of a method that is not the package's, anything may be wrong."""
    if isinstance(error, LmgpError):
        return str(error)
    if is_out_of_memory(error):
        return "out of memory"
    if method in BUILT_IN:
        raise error
    return f"{type(error).__name__}: {error}"


@contextmanager
def _named_warnings(cell: ComparisonCell) -> Iterator[None]:
    """Log of which cell the means are impossible; how far a chosen model is off, the table says."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore", ToleranceWarning)
        warnings.simplefilter("always", ImplausibleMeanWarning)
        yield
    for warning in caught:
        if issubclass(warning.category, ImplausibleMeanWarning):
            _LOG.warning("%s: %s", cell, warning.message)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)


def _check_features(name: str, settings: ComparisonSettings, n_train: int) -> None:
    """Refuse sizes at which two D × D matrices, those of a model in feature space, do not fit."""
    max_memory_gib = ExactGPRegressor().max_memory_gib
    largest = max(settings.n_features, default=0)
    for method in map(METHODS.__getitem__, settings.methods or ()):
        n_columns = min(largest, n_train) if method.family == "rows" else largest
        needed = 16.0 * n_columns**2 / 2**30
        if needed > max_memory_gib and method.sized and not method.chooses:
            raise MemoryLimitError(
                f"{name}: method {method.name} with {n_columns:,} features takes {needed:,.1f} GiB for its matrices, "
                f"above the limit of {max_memory_gib:g} GiB. Lower --n-features: "
                f"{int((max_memory_gib * 2**30 / 16.0) ** 0.5):,} fit."
            )


def check(dataset: Dataset, settings: ComparisonSettings, out: Path) -> None:
    """Find out all that would stop `compare` and can be known beforehand; nothing is left behind.

    Raises
    ------
    InputError, MemoryLimitError
        As `compare`, and where the matrices of a size do not fit.
    """
    read_results(results_path(dataset, out))
    settings, left_out = settings.served(dataset)
    n_train = 0
    for seed in range(settings.seeds):
        n_train = len(prepare(dataset, settings, seed).y_train)
        _check_features(dataset.name, settings, n_train)
    for reason in left_out:
        _LOG.info("%s: left out: %s", dataset.name, reason)
    if iterates(n_train):
        _LOG.info(
            "%s: %s training rows are too many for a Cholesky factor: the mean of the exact GP is solved for by "
            "iteration, to %g predictive standard deviations, and its variance is approximate (--max-train-rows)",
            dataset.name,
            f"{n_train:,}",
            MEAN_ERROR,
        )
    caps = {"train": settings.max_train_rows, "test": settings.max_test_rows}
    for (name, cap), part in zip(caps.items(), _parts(dataset, settings, 0), strict=True):
        if cap is not None and len(part) > cap:
            _LOG.info(
                "%s: a random %d of the %d %s rows are used (--max-%s-rows)", dataset.name, cap, len(part), name, name
            )


@dataclass(frozen=True)
class Comparison:
    """The outcome of a comparison.

    Attributes
    ----------
    dataset : Dataset
    settings : ComparisonSettings
    rows : DataFrame
        One row for each cell that could be made, in the order of the settings. Its columns are

        - ``settings``, the fingerprint of all that changes the numbers and is not part of the cell;
        - ``dataset``, ``protocol``, and the rows and input columns used: ``n_train``, ``n_test``, ``n_inputs``;
        - ``seed``, ``method``, ``n_features``, ``threshold``: the cell. The reference has no sizes;
        - ``rmse``, ``nlpd``, ``coverage``, ``crps``, with noise: RMSE and CRPS in the target's units, coverage of the
          central 95% interval;
        - ``fit_seconds``, ``predict_seconds``. The reference and localized models solve while they predict; the
          reference's fit is its learning;
        - ``n_features_out``, the columns really made; the rows that a prediction is from, or the modes, where there is
          no map; ``n_centroids`` of a localized model;
        - ``kl``, ``kl_sum``, ``reverse_kl``: mean and sum over test rows of KL(approximation ‖ exact), and the mean of
          KL(exact ‖ approximation), in nats, with noise;
        - ``lengthscale`` (one or one a column, separated by spaces), ``variance``, ``noise_variance`` of the reference,
          and ``converged``, whether learning them ended at an optimum;
        - ``selection``, what the method "auto" tried, see `lmgp.selection.record.Selection.to_json`.
    failures : dict of ComparisonCell to str
        Why the other cells could not be made.
    left_out : tuple of str
        Which of the default methods cannot serve the data, and why.
    """

    dataset: Dataset
    settings: ComparisonSettings
    rows: pd.DataFrame
    failures: dict[ComparisonCell, str]
    left_out: tuple[str, ...] = ()


def compare(dataset: Dataset, settings: ComparisonSettings, out: Path, *, quiet: bool = False) -> Comparison:
    """Compare the methods with the exact GP on one data set.

    Each cell is written to ``<out>/<name>/results.csv`` as soon as it is measured, and learned hyperparameters to
    ``learned.json`` beside it as soon as they are learned. What is found there with the same settings is read back
    instead; what was measured under other settings is left alone.

    Parameters
    ----------
    dataset : Dataset
    settings : ComparisonSettings
    out : Path
        The folder of the results; made with the first row written.
    quiet : bool, default=False
        Whether to show no progress bar.

    Returns
    -------
    Comparison

    Raises
    ------
    InputError
        If the data cannot be split or modelled, a method that was named cannot serve them, or the results cannot be
        written.
    """
    settings, left_out = settings.served(dataset)
    path, mark = results_path(dataset, out), fingerprint(dataset, settings)
    cells = [cell for seed in range(settings.seeds) for cell in settings.cells(seed)]
    kept = read_results(path).to_dict("records")
    measured = {_cell_of(row): row for row in kept if row["settings"] == _mark_of(mark, row["method"])}
    missing = [cell for cell in cells if cell not in measured]
    if n_done := len(cells) - len(missing):
        _LOG.info("%s: %d of %d cells are read back from %s", dataset.name, n_done, len(cells), path)
    failures: dict[ComparisonCell, str] = {}
    with counted(len(missing), dataset.name, "cells", not quiet and bool(missing)) as bar:
        try:
            bench: Bench | None = None
            for seed, of_seed in groupby(missing, key=attrgetter("seed")):
                rows = prepare(dataset, settings, seed)
                # A data set with one published split has the same rows for every seed.
                if bench is None or not all(map(np.array_equal, rows, bench.rows)):
                    bench = Bench(dataset, settings, rows, seed, out, bar.set_postfix_str)
                for cell in of_seed:
                    bar.set_postfix_str(str(cell), refresh=False)
                    try:
                        row = bench.measure(cell)
                    except Exception as error:
                        failures[cell] = _reason(error, cell.method)
                        _LOG.warning("%s: %s cannot be made: %s", dataset.name, cell, failures[cell])
                    else:
                        append_result(path, row)
                        measured[cell] = row
                    bar.update()
        except KeyboardInterrupt:
            told = []
            if n_done := sum(cell in measured for cell in cells):
                told.append(f"{n_done} of {len(cells)} cells in {path}")
            if n_learned := sum(key.startswith(f"{mark}-") for key in read_learned(learned_path(dataset, out))):
                told.append(f"the hyperparameters of {n_learned} seed(s) in {learned_path(dataset, out)}")
            outcome = f"kept are {' and '.join(told)}; the same command resumes"
            nothing = "nothing was finished, and the same command begins anew"
            raise KeyboardInterrupt(f"{dataset.name}: {outcome if told else nothing}") from None
    frame = as_frame([measured[cell] for cell in cells if cell in measured])
    return Comparison(dataset, settings, frame, failures, left_out)


def _cell_of(row: dict[str, Any]) -> ComparisonCell:
    n_features, threshold = (None if math.isnan(row[name]) else row[name] for name in ("n_features", "threshold"))
    return ComparisonCell(int(row["seed"]), row["method"], None if n_features is None else int(n_features), threshold)
