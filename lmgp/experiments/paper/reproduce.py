"""Reproduce the paper: what is run for each figure, and the report about it."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from lmgp.catalogue import CATALOGUE
from lmgp.datasets import Dataset, available, load_dataset
from lmgp.errors import DatasetError, InputError, nearest_names
from lmgp.experiments import runner
from lmgp.experiments.paper import cells, grid, models, page
from lmgp.experiments.paper.cells import Effort
from lmgp.experiments.paper.kernel import kernel_section
from lmgp.experiments.paper.section import Section
from lmgp.experiments.paper.sinc import sinc_section
from lmgp.experiments.paper.uk_map import uk_map_section
from lmgp.experiments.paper.verdict import verdict_section
from lmgp.experiments.protocol import Protocol, Settings
from lmgp.experiments.results import check_writable
from lmgp.experiments.runner import Comparison

_LOG = logging.getLogger(__name__)

PARTS = ("kernel", "sinc", "uk-map", "clusters", "features", "models")
_OF_ALL_SETS = {"clusters", "features", "models"}
# The paper's own file of flats, where somebody has prepared it, goes before the set that stands for it.
DATASETS = ("uk_flats", "uk_flats_2020-12", "yacht", "kin8nm")
UK_FLATS = DATASETS[:2]


@dataclass(frozen=True)
class Request:
    """What is to be reproduced.

    Attributes
    ----------
    protocol : Protocol
    effort : {"quick", "default", "full"}
    parts : tuple of str
        From `PARTS`.
    datasets : tuple of str or None
        From `DATASETS`; None for those that can be had, of the sets of flats the first.
    seeds : int or None
        In place of the effort's own number.
    data_dir : str or None
    """

    protocol: Protocol
    effort: Effort = "default"
    parts: tuple[str, ...] = PARTS
    datasets: tuple[str, ...] | None = None
    seeds: int | None = None
    data_dir: str | None = None

    def __post_init__(self) -> None:
        for name in self.parts:
            if name not in PARTS:
                raise InputError(f"Unknown part {name!r}; {nearest_names(name, PARTS)}")
        for name in self.datasets or ():
            if name not in DATASETS:
                raise InputError(f"{name!r} is not a data set of the paper; {nearest_names(name, DATASETS)}")
        if self.datasets is not None and self.parts == ("uk-map",) and not set(UK_FLATS) & set(self.datasets):
            raise InputError(f"Part 'uk-map' is of the data set {UK_FLATS[1]} (or {UK_FLATS[0]}); name it too.")
        if self.seeds is not None and self.seeds < 1:
            raise InputError(f"At least 1 seed is needed; got {self.seeds}.")


class _Done(NamedTuple):
    """What was measured, by data set: the cells of Figure 4, and other models beside them."""

    figure_4: dict[str, Comparison]
    beside: dict[str, Comparison]


class _Loaded(NamedTuple):
    datasets: dict[str, Dataset]
    missing: dict[str, str]


def _load(request: Request, *, quiet: bool) -> _Loaded:
    """Load the data sets; one that was not asked for by name may be missing."""
    loaded = _Loaded({}, {})
    if not {"uk-map", *_OF_ALL_SETS} & set(request.parts):
        return loaded
    # Also refuses a folder that is not there.
    places = {entry.name: where for entry, where in available(request.data_dir)}
    wanted = DATASETS if request.datasets is None else tuple(dict.fromkeys(request.datasets))
    if not _OF_ALL_SETS & set(request.parts):
        wanted = tuple(name for name in wanted if name in UK_FLATS)
    for name in wanted:
        if request.datasets is None and name in UK_FLATS and set(UK_FLATS) & set(loaded.datasets):
            continue
        try:
            loaded.datasets[name] = load_dataset(name, request.data_dir, progressbar=not quiet)
        except DatasetError as error:
            if request.datasets is not None or places[name].startswith(("here", "cached")):
                raise
            loaded.missing[name] = str(error)
    if set(UK_FLATS) & set(loaded.datasets):
        loaded.missing.pop(UK_FLATS[0], None)
    elif "uk-map" in request.parts:
        loaded.missing["uk-map"] = f"Figure 3, which is of the data set {UK_FLATS[1]} or {UK_FLATS[0]}."
    if not loaded.datasets and not {"kernel", "sinc"} & set(request.parts):
        raise DatasetError("None of the data sets can be had. " + " ".join(loaded.missing.values()))
    for reason in loaded.missing.values():
        _LOG.warning("left out: %s", reason)
    return loaded


def reproduce(request: Request, out: Path, *, quiet: bool = False) -> Path:
    """Run what is missing of the paper's evaluation, and write the report.

    Parameters
    ----------
    request : Request
    out : Path
        The folder for the figures, the tables and ``report.html``; ``out/cells`` keeps what was measured, so that an
        interrupted run resumes.
    quiet : bool, default=False
        Whether to show no progress.

    Returns
    -------
    Path
        That of the report.

    Raises
    ------
    InputError, DatasetError, MemoryLimitError
        If the request cannot be met; nothing is written then.
    """
    kept = out / "cells"
    loaded = _load(request, quiet=quiet)
    flats = next((loaded.datasets[name] for name in UK_FLATS if name in loaded.datasets), None)
    plans = _plans(request, loaded, flats, kept)
    beside = _plans_beside(request, loaded, kept)
    for path in (out / "report.html", kept / "any"):
        check_writable(path)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {out} cannot be made: {error.strerror}. Choose another --out.") from None

    sections: list[Section] = []
    if "kernel" in request.parts:
        sections.append(kernel_section())
    if "sinc" in request.parts:
        sections.append(sinc_section(request.protocol, request.seeds or (1 if request.effort == "quick" else 10)))
    if "uk-map" in request.parts and flats is not None:
        size = 30 if request.effort == "quick" else 100
        sections.append(uk_map_section(flats, request.protocol, size, kept, quiet=quiet))

    # The small set first, and a report after each: a run of hours has something to show before its end.
    names = [dataset.name for dataset, _ in plans or beside]
    done = _Done({}, {})
    drawn: dict[Figure, bytes] = {}
    report = _save(request, loaded, sections, done, names, out, drawn)
    for dataset, settings in sorted(plans, key=lambda plan: len(plan[0].y)):
        done.figure_4[dataset.name] = runner.compare(dataset, settings, kept, together=True, quiet=quiet)
        report = _save(request, loaded, sections, done, names, out, drawn)
    for dataset, settings in sorted(beside, key=lambda plan: len(plan[0].y)):
        done.beside[dataset.name] = runner.compare(dataset, settings, kept, quiet=quiet)
        report = _save(request, loaded, sections, done, names, out, drawn)
    return report


def _plans(request: Request, loaded: _Loaded, flats: Dataset | None, kept: Path) -> list[tuple[Dataset, Settings]]:
    """Say which cells are run of each data set, after a check that all of them can be."""
    clusters, features = "clusters" in request.parts, "features" in request.parts
    if not (clusters or features):
        if flats is not None:
            runner.check(flats, Settings(request.protocol, methods=(), seeds=1), kept)
        return []
    plans = []
    for dataset in loaded.datasets.values():
        settings = cells.settings_for(
            dataset.name, request.protocol, request.effort, seeds=request.seeds, clusters=clusters, features=features
        )
        runner.check(dataset, settings, kept)
        plans.append((dataset, settings))
    return plans


def _plans_beside(request: Request, loaded: _Loaded, kept: Path) -> list[tuple[Dataset, Settings]]:
    """Say which cells are run of other models, after a check that all of them can be."""
    if "models" not in request.parts:
        return []
    plans = []
    for dataset in loaded.datasets.values():
        settings = models.settings_for(dataset, request.protocol, request.effort)
        runner.check(dataset, settings, kept)
        plans.append((dataset, settings))
    return plans


def _save(
    request: Request,
    loaded: _Loaded,
    sections: Sequence[Section],
    done: _Done,
    names: Sequence[str],
    out: Path,
    drawn: dict[Figure, bytes],
) -> Path:
    """Write the report of what is done, the verdict first."""
    parts = request.parts
    comparisons = [done.figure_4[name] for name in names if name in done.figure_4]
    beside = [done.beside[name] for name in names if name in done.beside]
    text = _introduction(request, loaded, comparisons)
    last = done.beside if "models" in parts else done.figure_4
    verdict = verdict_section(comparisons)
    if to_come := [name for name in names if name not in last]:
        unfinished = f"Not finished: {', '.join(to_come)} to come. Interrupted, the same command resumes."
        if verdict is None:
            text.insert(0, unfinished)
        else:
            verdict = replace(verdict, text=(unfinished, *verdict.text))
    figure_4 = _figure_4(comparisons, clusters="clusters" in parts, features="features" in parts)
    heading = "Local random feature approximations of the Gaussian kernel, reproduced"
    other = [models.models_section(beside, done.figure_4)] if beside else []
    return page.save([*sections, *figure_4, *other], heading, text, out, drawn, first=verdict)


def _figure_4(comparisons: Sequence[Comparison], *, clusters: bool, features: bool) -> list[Section]:
    if not comparisons:
        return []
    made = [grid.clusters_section(comparisons)] if clusters else []
    made += [grid.features_section(comparisons)] if features else []
    text, table = tuple(cells.remarks(comparisons)), cells.cells(comparisons)
    return [*made, Section("figure-4-cells", "Figure 4: all cells", text, None, (table,) if table.rows else ())]


def _introduction(request: Request, loaded: _Loaded, comparisons: Sequence[Comparison]) -> list[str]:
    versions = ", ".join(f"{name} {version(name)}" for name in ("lmgp", "numpy", "scipy", "torch", "gpytorch"))
    text = [
        "J. Wacker and M. Filippone, Local Random Feature Approximations of the Gaussian Kernel, 2022. Divergences are "
        "KL(approximation ‖ exact GP) in nats, noise included: the mean per test row first, the sum beside it.",
        {
            "paper": "Protocol paper: the published hyper-parameters, and random splits like the paper's.",
            "converged": "Protocol converged: hyper-parameters by maximum marginal likelihood to convergence. What was "
            "published has other hyper-parameters and does not compare.",
        }[request.protocol.name]
        + f" Effort: {request.effort}. {versions}.",
    ]
    for comparison in comparisons:
        settings = comparison.settings
        text.append(
            f"{comparison.dataset.name}: {settings.seeds} seed(s), thresholds {_listed(settings.thresholds)}, features "
            f"{_listed(settings.n_features)}."
        )
        text.extend(f"Not made: {cell}: {reason}" for cell, reason in comparison.failures.items())
    text.extend(f"Left out: {reason}" for reason in loaded.missing.values())
    licences = dict.fromkeys(CATALOGUE[name].licence for name in loaded.datasets if name in UK_FLATS)
    return [*text, *licences]


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
