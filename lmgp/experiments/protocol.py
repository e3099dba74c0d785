"""What a comparison consists of: the two protocols, and the settings of one comparison."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from lmgp.datasets import Dataset
from lmgp.errors import InputError, nearest_names
from lmgp.methods import EXACT, METHODS, Allocation


class PublishedSettings(NamedTuple):
    """What the paper fixed for one data set: hyper-parameters, training rows, and whether inputs are standardised."""

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
        The pairs of rows for which a Maclaurin map spreads its columns over the degrees, see `lmgp.methods.Method`.
    published_splits : bool
        Whether a split that comes with the data set is used instead of a random one.
    n_features : tuple of int
        The sizes compared by default.
    max_test_rows : int or None
        The cap on test rows by default; None for no cap.
    published : mapping of str to PublishedSettings
        By data set. Empty where hyper-parameters are learned, by maximising the marginal likelihood.
    """

    name: str
    approximation: Literal["dtc", "sor", "fitc"]
    allocation: Allocation
    published_splits: bool
    n_features: tuple[int, ...]
    max_test_rows: int | None
    published: Mapping[str, PublishedSettings] = field(default_factory=dict)

    def published_for(self, dataset: Dataset) -> PublishedSettings | None:
        """Look up what the paper fixed for a data set; None where this protocol learns instead.

        Raises
        ------
        InputError
            If the protocol is one of published hyper-parameters and has none for these inputs.
        """
        if not self.published:
            return None
        # A user's own file of the same name, or other columns, is another problem.
        same = dataset.entry is not None and dataset.feature_names == dataset.entry.inputs
        if not same or dataset.name not in self.published:
            raise InputError(
                f"Protocol {self.name!r} fixes the published hyper-parameters, and has none for {dataset.name!r} with "
                f"inputs {', '.join(dataset.feature_names)}: it is for the catalogue's {', '.join(self.published)}. "
                "Use protocol 'converged'."
            )
        return self.published[dataset.name]


PROTOCOLS = {
    protocol.name: protocol
    for protocol in (
        Protocol(
            name="converged",
            approximation="fitc",
            allocation="local",
            published_splits=True,
            n_features=(32, 128, 512),
            max_test_rows=2_000,
        ),
        Protocol(
            name="paper",
            approximation="sor",
            allocation="mean",
            published_splits=False,
            n_features=(32, 128, 512, 1024),
            max_test_rows=None,
            published={
                "yacht": PublishedSettings(0.318, 1650.0, 7.389, n_train=200),
                "kin8nm": PublishedSettings(2.15, 0.0696, 0.1353, n_train=7_373, standardise=True),
                "uk_flats": PublishedSettings(0.248, 0.506, 0.2019, n_train=10_000),
                "uk_flats_2020-12": PublishedSettings(0.248, 0.506, 0.2019, n_train=10_000),
            },
        ),
    )
}


DEFAULT_METHODS = tuple(name for name, method in METHODS.items() if method.compared)
DEFAULT_THRESHOLDS = (0.5, 2.0)
DEFAULT_SEEDS = 3
MAX_TRAIN_ROWS = 10_000


class Cell(NamedTuple):
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
class Settings:
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

    protocol: Protocol = PROTOCOLS["converged"]
    methods: tuple[str, ...] | None = None
    n_features: tuple[int, ...] = PROTOCOLS["converged"].n_features
    thresholds: tuple[float, ...] = DEFAULT_THRESHOLDS
    seeds: int = DEFAULT_SEEDS
    max_train_rows: int | None = MAX_TRAIN_ROWS
    max_test_rows: int | None = PROTOCOLS["converged"].max_test_rows
    ard: bool = False
    standardise: bool | None = None
    further: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in (*(self.methods or ()), *self.further):
            if name not in METHODS:
                raise InputError(
                    f"Unknown method {name!r}; {nearest_names(name, METHODS)}; one of your own is module:object, or "
                    "added by lmgp.methods.register."
                )
        for n_features in self.n_features:
            if n_features < 2:
                raise InputError(f"n_features must be at least 2; got {n_features}.")
        for threshold in self.thresholds:
            if not (math.isfinite(threshold) and threshold > 0):
                raise InputError(f"A threshold must be a positive number of lengthscales; got {threshold:g}.")
        if self.seeds < 1:
            raise InputError(f"At least 1 seed is needed; got {self.seeds}.")
        for name, cap, least in (("max_train_rows", self.max_train_rows, 2), ("max_test_rows", self.max_test_rows, 1)):
            if cap is not None and cap < least:
                raise InputError(f"{name} must be at least {least}; got {cap}.")
        if self.ard and self.protocol.published:
            raise InputError(f"Protocol {self.protocol.name!r} fixes one lengthscale for all columns: ard cannot be.")
        if self.standardise is not None and self.protocol.published:
            raise InputError(
                f"Protocol {self.protocol.name!r} fixes which inputs are standardised: leave out --standardise, or use "
                "protocol 'converged'."
            )

    def standardises(self, dataset: Dataset) -> bool:
        """Say whether the inputs of a data set are standardised."""
        published = self.protocol.published_for(dataset)
        if published:
            return published.standardise
        if self.standardise is not None:
            return self.standardise
        # What the catalogue knows of a set holds for its own choice of columns.
        return not (dataset.entry and dataset.entry.spatial and dataset.feature_names == dataset.entry.inputs)

    def served(self, dataset: Dataset) -> tuple["Settings", tuple[str, ...]]:
        """Name the methods that a data set is compared by.

        Parameters
        ----------
        dataset : Dataset

        Returns
        -------
        settings : Settings
            With names in `methods`.
        left_out : tuple of str
            Which of the default methods cannot serve the data, and why.

        Raises
        ------
        InputError
            If a method that was named cannot serve the data.
        """
        named = (*(self.methods or ()), *self.further)
        methods = tuple(dict.fromkeys((*(DEFAULT_METHODS if self.methods is None else ()), *named)))
        refusals = {name: METHODS[name].refusal(dataset.X.shape[1]) for name in methods}
        left_out = tuple(reason for reason in refusals.values() if reason is not None)
        if refused := [reason for name in named if (reason := refusals[name]) is not None]:
            raise InputError(f"{dataset.name}: {refused[0]}. Leave it out of the methods, or choose fewer columns.")
        return replace(self, methods=tuple(name for name in methods if refusals[name] is None), further=()), left_out

    def cells(self, seed: int) -> Iterator[Cell]:
        """List the cells of one seed: the reference first, then the methods without a size."""
        yield Cell(seed, EXACT)
        methods = dict.fromkeys((*(DEFAULT_METHODS if self.methods is None else self.methods), *self.further))
        yield from (Cell(seed, method) for method in methods if not METHODS[method].sized)
        for n_features in sorted(set(self.n_features)):
            for method in (name for name in methods if METHODS[name].sized):
                thresholds = sorted(set(self.thresholds)) if METHODS[method].localized else [None]
                yield from (Cell(seed, method, n_features, threshold) for threshold in thresholds)
