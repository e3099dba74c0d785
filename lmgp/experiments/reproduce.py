"""Reproduce the evaluation of Wacker and Filippone (2022): what is run for each figure, and the report about it."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from matplotlib.figure import Figure

from lmgp.errors import DatasetError, InputError, nearest_names
from lmgp.experiments import page
from lmgp.experiments.compare import Comparison, ComparisonSettings, Protocol, check, check_writable, compare
from lmgp.experiments.datasets import CATALOGUE, Dataset, available, load_dataset
from lmgp.experiments.figure_1 import kernel_section
from lmgp.experiments.figure_2 import sinc_section
from lmgp.experiments.figure_3 import uk_map_section
from lmgp.experiments.figure_4 import (
    Effort,
    cells_section,
    clusters_section,
    features_section,
    models_section,
    settings_for,
    settings_of_models,
    verdict_section,
)
from lmgp.experiments.page import Section

_LOG = logging.getLogger(__name__)

PARTS = ("kernel", "sinc", "uk-map", "clusters", "features", "models")
_OF_ALL_SETS = {"clusters", "features", "models"}
# The paper's own file of flats, where somebody has prepared it, goes before the set that stands for it.
DATASETS = ("uk_flats", "uk_flats_2020-12", "yacht", "kin8nm")
UK_FLATS = DATASETS[:2]


def reproduce(
    out: Path,
    protocol: Protocol,
    effort: Effort = "default",
    parts: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    *,
    seeds: int | None = None,
    data_dir: str | None = None,
    quiet: bool = False,
) -> Path:
    """Run what is missing of the paper's evaluation, and write the report.

    Parameters
    ----------
    out : Path
        The folder for the figures, the tables and ``report.html``; ``out/cells`` keeps what was measured, so that an
        interrupted run resumes.
    protocol : Protocol
    effort : {"quick", "default", "full"}
    parts : sequence of str, optional
        From `PARTS`; all of them if not given.
    names : sequence of str, optional
        Of data sets, from `DATASETS`; if not given, those that can be had, of the sets of flats the first.
    seeds : int, optional
        In place of the effort's own number.
    data_dir : str, optional
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
    parts, kept = PARTS if parts is None else parts, out / "cells"
    for name in parts:
        if name not in PARTS:
            raise InputError(f"Unknown part {name!r}; {nearest_names(name, PARTS)}")
    for name in names or ():
        if name not in DATASETS:
            raise InputError(f"{name!r} is not a data set of the paper; {nearest_names(name, DATASETS)}")
    if names is not None and set(parts) == {"uk-map"} and not set(UK_FLATS) & set(names):
        raise InputError(f"Part 'uk-map' is of the data set {UK_FLATS[1]} (or {UK_FLATS[0]}); name it too.")
    if seeds is not None and seeds < 1:
        raise InputError(f"seeds must be at least 1; got {seeds}.")
    datasets, missing = _load(set(parts), names, data_dir, quiet=quiet)
    flats = next((datasets[name] for name in UK_FLATS if name in datasets), None)
    of_figure, of_models = dict[str, ComparisonSettings](), dict[str, ComparisonSettings]()
    clusters, features = "clusters" in parts, "features" in parts
    for name, dataset in datasets.items():
        if clusters or features:
            of_figure[name] = settings_for(name, protocol, effort, seeds=seeds, clusters=clusters, features=features)
            check(dataset, of_figure[name], kept)
        if "models" in parts:
            of_models[name] = settings_of_models(dataset, protocol, effort)
            check(dataset, of_models[name], kept)
    if flats is not None and not of_figure:
        check(flats, ComparisonSettings(protocol, methods=(), seeds=1), kept)
    for path in (out / "report.html", kept / "any"):
        check_writable(path)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"The folder {out} cannot be made: {error.strerror}. Choose another --out.") from None

    sections = []
    if "kernel" in parts:
        sections.append(kernel_section())
    if "sinc" in parts:
        sections.append(sinc_section(protocol, seeds or (1 if effort == "quick" else 10)))
    if "uk-map" in parts and flats is not None:
        sections.append(uk_map_section(flats, protocol, 30 if effort == "quick" else 100, kept, quiet=quiet))

    figure_4, models = dict[str, Comparison](), dict[str, Comparison]()
    drawn: dict[Figure, bytes] = {}

    def save() -> Path:
        """Write the report of what is done, the verdict first."""
        comparisons = [figure_4[name] for name in datasets if name in figure_4]
        later = [models[name] for name in datasets if name in models]
        text = _introduction(protocol, effort, datasets, missing, comparisons)
        verdict = verdict_section(comparisons)
        to_come = [name for name in of_models or of_figure if name not in (models if of_models else figure_4)]
        if to_come:
            unfinished = f"Not finished: {', '.join(to_come)} to come. Interrupted, the same command resumes."
            if verdict is None:
                text.insert(0, unfinished)
            else:
                verdict = replace(verdict, text=(unfinished, *verdict.text))
        shown = list[Section](sections)
        if comparisons:
            shown += [clusters_section(comparisons)] if clusters else []
            shown += [features_section(comparisons)] if features else []
            shown.append(cells_section(comparisons))
        if later:
            shown.append(models_section(later, figure_4))
        return page.save(shown, page.WORDS["introduction"]["title"], text, out, drawn, first=verdict)

    # The small set first, and a report after each: a run of hours has something to show before its end.
    report = save()
    for settings, done in ((of_figure, figure_4), (of_models, models)):
        for name in sorted(settings, key=lambda name: len(datasets[name].y)):
            done[name] = compare(datasets[name], settings[name], kept, quiet=quiet)
            report = save()
    return report


def _load(
    parts: set[str], names: Sequence[str] | None, data_dir: str | None, *, quiet: bool
) -> tuple[dict[str, Dataset], dict[str, str]]:
    """Load the data sets, and say why others are missing: those that were not asked for by name may be."""
    loaded, missing = dict[str, Dataset](), dict[str, str]()
    if not {"uk-map", *_OF_ALL_SETS} & parts:
        return loaded, missing
    # Also refuses a folder that is not there.
    places = {entry.name: where for entry, where in available(data_dir)}
    wanted = DATASETS if names is None else tuple(dict.fromkeys(names))
    if not _OF_ALL_SETS & parts:
        wanted = tuple(name for name in wanted if name in UK_FLATS)
    for name in wanted:
        if names is None and name in UK_FLATS and set(UK_FLATS) & set(loaded):
            continue
        try:
            loaded[name] = load_dataset(name, data_dir, progressbar=not quiet)
        except DatasetError as error:
            if names is not None or places[name].startswith(("here", "cached")):
                raise
            missing[name] = str(error)
    if set(UK_FLATS) & set(loaded):
        missing.pop(UK_FLATS[0], None)
    elif "uk-map" in parts:
        missing["uk-map"] = f"Figure 3, which is of the data set {UK_FLATS[1]} or {UK_FLATS[0]}."
    if not loaded and not {"kernel", "sinc"} & parts:
        raise DatasetError("None of the data sets can be had. " + " ".join(missing.values()))
    for reason in missing.values():
        _LOG.warning("left out: %s", reason)
    return loaded, missing


def _introduction(
    protocol: Protocol,
    effort: Effort,
    datasets: dict[str, Dataset],
    missing: dict[str, str],
    comparisons: Sequence[Comparison],
) -> list[str]:
    versions = ", ".join(f"{name} {version(name)}" for name in ("lmgp", "numpy", "scipy", "torch", "gpytorch"))
    values = {"protocol": page.WORDS["protocols"][protocol.name], "effort": effort}
    text = list(page.section("introduction", values | {"versions": versions}).text)
    for comparison in comparisons:
        settings = comparison.settings
        text.append(
            f"{comparison.dataset.name}: {settings.seeds} seed(s), thresholds {_listed(settings.thresholds)}, features "
            f"{_listed(settings.n_features)}."
        )
        text.extend(f"Not made: {cell}: {reason}" for cell, reason in comparison.failures.items())
    text.extend(f"Left out: {reason}" for reason in missing.values())
    return [*text, *dict.fromkeys(CATALOGUE[name].licence for name in datasets if name in UK_FLATS)]


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:g}" for value in values)
