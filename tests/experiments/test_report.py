"""The report of a comparison: its table, and its figure with one panel a family and the errors as dots."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.image import imread

from lmgp.experiments import report
from lmgp.experiments.compare import (
    CONVERGED,
    DEFAULT_METHODS,
    Comparison,
    ComparisonCell,
    ComparisonSettings,
    as_frame,
    compare,
    prepare,
)
from lmgp.experiments.datasets import Dataset
from lmgp.experiments.report import selections, table
from lmgp.selection.methods import EXACT
from lmgp.selection.record import RecipeTrial, Selection
from tests.experiments.conftest import made_row

# ----------------------------------------------------------------------------------------------------------- the table


def made_rows() -> list[dict[str, Any]]:
    rows = []
    for seed in (0, 1):
        exact = {"variance": 1.5 + seed, "lengthscale": str(0.8 + 2.2 * seed)}
        rows.append(made_row(EXACT, seed=seed, n_train=12345, **exact))
        for size in (16, 8):
            for name, threshold, kl in (
                ("rff", np.nan, 3.0),
                ("local_taylor", 1.0, 1.0),
                ("global_taylor", np.nan, 2.0),
            ):
                kl = (kl + 2 * seed) / size if size == 8 else 1 / (kl + 2 * seed)
                more = {"kl": kl, "reverse_kl": 0.5, "n_features_out": 7, "fit_seconds": 1.0, "predict_seconds": 2.0}
                rows.append(made_row(name, size, threshold, seed=seed, n_train=12345, **more))
    return rows


@pytest.fixture
def made(dataset: Dataset, fixed: ComparisonSettings) -> Callable[..., Comparison]:
    def comparison(rows: Sequence[dict[str, Any]] | None = None, **changes: Any) -> Comparison:
        frame = as_frame(list(made_rows() if rows is None else rows))
        return Comparison(**({"dataset": dataset, "settings": fixed, "rows": frame, "failures": {}} | changes))

    return comparison


def changed(where: Callable[[dict[str, Any]], bool], **fields: Any) -> list[dict[str, Any]]:
    return [row | fields if where(row) else row for row in made_rows()]


def test_groups_ascend_in_size_and_methods_in_mean_kl_with_the_best_marked(made: Callable[..., Comparison]) -> None:
    lines = table(made()).splitlines()
    body = [re.sub(r"\s+", " ", line) for line in lines if re.match(r"n_features|[* ] \w", line)]
    starts = [line.split(" ")[:2] if line[0] in "* " else [line] for line in body if "method" not in line]
    assert starts == [
        ["n_features = 8"], ["*", "local_taylor"], ["", "global_taylor"], ["", "rff"],
        ["n_features = 16"], ["*", "rff"], ["", "global_taylor"], ["", "local_taylor"],
    ]  # fmt: skip
    assert len({len(line) for line in lines if re.match(r"(method|[* ] \w)", line)}) == 1  # aligned


def test_a_line_has_the_means_and_the_spread_over_seeds(made: Callable[..., Comparison]) -> None:
    lines = table(made()).splitlines()
    columns = re.split(r"\s{2,}", next(line for line in lines if "RMSE" in line and "method" in line).strip())
    local = next(line for line in lines if "local_taylor" in line).replace("*", "").split()
    assert dict(zip(columns, local, strict=True)) == {
        "method": "local_taylor", "threshold": "1", "D": "7", "centroids": "3",
        "KL/row": "0.25", "s.d.": "0.2", "KL sum": "5", "reverse KL": "0.5",
        "RMSE": "0.5", "NLPD": "0.75", "95% cover": "90.0%", "CRPS": "0.25", "fit s": "1.000", "predict s": "2.000",
    }  # fmt: skip
    rff = next(line for line in lines if " rff " in line).split()
    assert rff[1:4] == ["-", "7", "-"]


def test_heading_tells_the_data_the_protocol_and_the_reference(
    made: Callable[..., Comparison], dataset: Dataset, fixed: ComparisonSettings
) -> None:
    heading = table(made()).split("\n\n")[0]
    for part in (
        "made: 60 rows (12345 train, 20 test)", "protocol paper", "target y", "lengthscale 0.8 to 3 units of x0",
        "inputs: x0; as they are, not standardised",
        "variance 1.5 to 2.5", "noise variance 0.02", "RMSE 0.5", "NLPD 0.75", "95% cover 90.0%",
    ):  # fmt: skip
        assert part in heading
    assert "converge" not in heading
    assert heading.splitlines()[0].endswith("2 seed(s), random splits")
    published = replace(dataset, splits=(dataset.y > 5.0,))
    assert "published splits" in table(made(dataset=published, settings=replace(fixed, protocol=CONVERGED)))


@pytest.mark.parametrize(
    ("standardise", "unit", "units"),
    [(True, "s.d. of {}", "in s.d. of each column"), (False, "units of {}", "in units of the columns")],
)
def test_lengthscales_have_the_names_and_the_units_of_their_columns(
    standardise: bool, unit: str, units: str, made: Callable[..., Comparison], make: Callable[..., Dataset]
) -> None:
    settings = ComparisonSettings(seeds=2, standardise=standardise)
    told = "each standardised to mean 0 and s.d. 1 on the training rows" if standardise else "as they are"
    for d, lengthscales, shown in (
        (1, ["0.35", "0.5"], f"lengthscale 0.35 to 0.5 {unit.format('x0')}, variance"),
        (2, ["0.35", "0.35"], f"lengthscale 0.35 ({units}), variance"),
        (2, ["0.35 2.0", "0.5 2.0"], f"lengthscale 0.35 to 0.5 {unit.format('x0')}, 2 {unit.format('x1')}, variance"),
    ):
        rows = [made_row(EXACT, seed=seed, lengthscale=text) for seed, text in enumerate(lengthscales)]
        text = table(made(rows, dataset=make(d=d), settings=settings))
        assert shown in text
        assert f"; {told}" in text


def test_a_nearest_model_that_is_of_no_use_is_remarked_upon(
    made: Callable[..., Comparison], dataset: Dataset, fixed: ComparisonSettings
) -> None:
    assert "note:" not in table(made())
    trivial = []
    for seed in (0, 1):
        of_seed = prepare(dataset, fixed, seed)
        z = (of_seed.y_test - of_seed.y_train.mean()) / of_seed.y_train.std()
        trivial.append(np.mean(z**2 / 2 + np.log(of_seed.y_train.std() * np.sqrt(2 * np.pi))))
    worse = float(np.mean(trivial))

    def told(**fields: float) -> list[str]:
        rows = changed(lambda row: row["n_features"] == 8, **fields)
        return [line for line in table(made(rows)).splitlines() if line.startswith("note")]

    (note,) = told(kl=1e5)
    assert "at n_features = 8 even the nearest, rff, is far from the exact GP, KL/row 1e+05. Use more" in note
    (note,) = told(nlpd=worse + 0.01)
    assert f"predicts worse than the training mean and s.d., NLPD {worse + 0.01:.4g} against {worse:.4g}" in note
    assert told(nlpd=worse - 0.01) == told(kl=0.99) == []
    assert len(told(kl=float("nan"))) == 1


def test_an_optimiser_that_did_not_converge_and_cells_not_made_are_told(made: Callable[..., Comparison]) -> None:
    rows = changed(lambda row: row["method"] == EXACT, converged=False)
    text = table(made(rows, failures={ComparisonCell(0, "orf", 8): "too few"}))
    assert "did not converge" in text
    assert text.endswith("not made: seed 0, orf, D = 8: too few\n")


@pytest.mark.parametrize("kl", [float("inf"), float("nan")])
def test_a_divergence_that_is_no_number_comes_last(kl: float, made: Callable[..., Comparison]) -> None:
    text = table(made(changed(lambda row: row["method"] == "local_taylor" and row["seed"] == 1, kl=kl)))
    assert re.findall(r"^[* ] (\w+)", text, flags=re.MULTILINE)[2] == "local_taylor"
    assert len(re.findall(r"^\* ", text, flags=re.MULTILINE)) == 2


def test_a_method_that_failed_for_a_seed_is_not_the_nearest(made: Callable[..., Comparison]) -> None:
    failed = "local_taylor", 8, 1  # it comes first where its other seed alone counts
    lines = table(made([row for row in made_rows() if (row["method"], row["n_features"], row["seed"]) != failed]))
    of_size = lines[lines.index("n_features = 8") : lines.index("n_features = 16")]
    starts = re.findall(r"^([* ]) (\w+(?: \(.*\))?)  ", of_size, flags=re.MULTILINE)
    assert starts == [("*", "global_taylor"), (" ", "rff"), (" ", "local_taylor (1 of 2 seeds)")]
    assert "seeds)" not in lines[lines.index("n_features = 16") :]


def test_a_method_without_a_size_has_a_group_of_its_own(made: Callable[..., Comparison]) -> None:
    rows = [*made_rows(), *(made_row("spectral", seed=seed, kl=7.5, n_features_out=99) for seed in (0, 1))]
    lines = table(made(rows)).splitlines()
    starts = [line.split()[0] for line in lines[lines.index("n_features = 8") :] if line[0] in "*nw "]
    assert starts.count("*") == 2
    assert starts[-2:] == ["without", "spectral"]
    assert lines[-1].split()[1:5] == ["-", "99", "-", "7.5"]
    alone = table(made([row for row in rows if row["method"] in (EXACT, "spectral")]))
    assert "note: even the nearest, spectral, is far from the exact GP, KL/row 7.5" in alone


def test_what_auto_tried_is_shown_once_a_size_and_what_it_chose_for_every_seed(made: Callable[..., Comparison]) -> None:
    trials = (
        RecipeTrial("orf", 32, None, "add", 0.5, 0.1, 32, 0.01, 0.02),
        RecipeTrial("local_taylor", 64, 2.0, "fitc", 0.0005, 0.0001, 256, 0.03, 0.04, chosen=True),
    )
    selection = Selection(trials, 1e-3, 500, 4096, 0.7)
    auto = [
        made_row("auto", size, seed=seed, selection=selection.to_json(), kl=0.1)
        for seed in (0, 1)
        for size in (128, 64)
    ]
    text = selections(made([*made_rows(), *auto]))
    assert text.count(str(selection)) == 2
    assert text.index("up to max_features = 64") < text.index("up to max_features = 128")
    assert text.count("seed 1, auto, D = 64: local_taylor, size 64, threshold 2; KL/row 0.0005 on the probes\n") == 1
    assert selections(made()) == ""


# ---------------------------------------------------------------------------------------------------------- the figure

LINES = {
    "Fourier": {("rff", None): "random Fourier", ("orf", None): "orthogonal Fourier"},
    "Maclaurin, local": {
        ("local_maclaurin_rademacher", 0.5): "Rademacher, T = 0.5",
        ("local_maclaurin_rademacher", 2.0): "Rademacher, T = 2",
    },
    "Taylor": {
        ("global_taylor", None): "global Taylor",
        ("local_taylor", 0.5): "local Taylor, T = 0.5",
        ("local_taylor", 2.0): "local Taylor, T = 2",
    },
}
METHODS = tuple(dict.fromkeys(method for keys in LINES.values() for method, _ in keys))


@pytest.fixture
def drawn_rows(made: Callable[..., Comparison], fixed: ComparisonSettings) -> Callable[..., Comparison]:
    """A comparison of made numbers, that differ between all cells."""

    def comparison(methods: Sequence[str] = METHODS, seeds: int = 2) -> Comparison:
        settings = replace(fixed, methods=tuple(methods), thresholds=(0.5, 2.0), seeds=seeds)
        rng, rows = np.random.default_rng(0), []
        for seed in range(seeds):
            rows.append(made_row(EXACT, seed=seed, rmse=0.2 + seed / 100))
            for _, method, size, threshold in list(settings.cells(seed))[1:]:
                numbers = {"rmse": 0.2 + rng.random() / 10, "kl": float(10 ** rng.uniform(-4, 1))}
                rows.append(made_row(method, size or np.nan, threshold or np.nan, seed=seed, **numbers))
        return made(rows, settings=settings)

    return comparison


def bars_of(axes: Axes) -> list[ErrorbarContainer]:
    return [container for container in axes.containers if isinstance(container, ErrorbarContainer)]


def values(comparison: Comparison, name: str, method: str, size: int, threshold: float | None) -> list[float]:
    rows = comparison.rows
    same = rows.threshold.isna() if threshold is None else rows.threshold == threshold
    found: list[float] = rows.loc[(rows.method == method) & (rows.n_features == size) & same, name].tolist()
    assert len(found) == 2
    return found


def test_one_panel_a_family_with_its_lines_named(drawn_rows: Callable[..., Comparison]) -> None:
    comparison = drawn_rows()
    *panels, errors = report.figure(comparison).axes
    assert [axes.get_title() for axes in panels] == list(LINES)
    for axes in panels:
        keys = LINES[axes.get_title()]
        assert sorted(text.get_text() for text in axes.texts) == sorted(keys.values())
        assert len(bars_of(axes)) == len(keys)
        assert len(axes.lines) >= sum(map(len, LINES.values()))  # those of the other families are grey
        assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
        assert [tick.get_text() for tick in axes.get_xticklabels()] == ["8", "16"]
        styles = {(line.get_marker(), line.get_linestyle()) for line, _, _ in bars_of(axes)}
        assert len(styles) == len(keys)  # told apart without colours
        for key, (line, _, (bars,)) in zip(keys, bars_of(axes), strict=True):
            np.testing.assert_array_equal(line.get_xdata(), [8, 16])
            for at, size in enumerate((8, 16)):
                kl = values(comparison, "kl", key[0], size, key[1])
                np.testing.assert_allclose(line.get_ydata()[at], np.mean(kl))
                np.testing.assert_allclose(bars.get_segments()[at][:, 1], sorted(kl))
    assert "nats" in panels[0].get_ylabel()
    assert (errors.get_title(loc="right"), errors.get_xlabel()) == ("RMSE at n_features = 16", "units of y")


def test_errors_are_dots_of_the_largest_size_the_least_on_top(drawn_rows: Callable[..., Comparison]) -> None:
    comparison = drawn_rows()
    axes = report.figure(comparison).axes[-1]
    found = {key: values(comparison, "rmse", key[0], 16, key[1]) for keys in LINES.values() for key in keys}
    ordered = sorted(found, key=lambda key: -float(np.mean(found[key])))
    for height, (key, (dot, _, (bars,))) in enumerate(zip(ordered, bars_of(axes), strict=True)):
        assert (dot.get_xdata()[0], dot.get_ydata()[0]) == (pytest.approx(np.mean(found[key])), height)
        np.testing.assert_allclose(bars.get_segments()[0][:, 0], sorted(found[key]))
    names = {key: label for keys in LINES.values() for key, label in keys.items()}
    assert axes.get_yticklabels()[0].get_text().endswith(names[ordered[0]])
    (line,) = (line for line in axes.lines if line.get_alpha() == 0.4)
    np.testing.assert_allclose(line.get_xdata(), 0.205)  # the exact GP


@pytest.mark.slow
def test_no_names_overlap_with_all_methods(drawn_rows: Callable[..., Comparison]) -> None:
    fig: Figure = report.figure(drawn_rows(DEFAULT_METHODS))
    fig.canvas.draw()
    renderer = fig.canvas.get_renderer()  # type: ignore[attr-defined]
    boxes = [text.get_window_extent(renderer) for axes in fig.axes[:-1] for text in axes.texts]
    boxes += [label.get_window_extent(renderer) for label in fig.axes[-1].get_yticklabels()]
    boxes += [axes.get_window_extent(renderer) for axes in fig.axes]
    assert len(boxes) == 2 * 20 + 7
    for number, box in enumerate(boxes):
        for other in boxes[:number]:
            width, height = (min(getattr(box, f"{a}1"), getattr(other, f"{a}1")) - max(getattr(box, f"{a}0"),
                             getattr(other, f"{a}0")) for a in "xy")  # fmt: skip
            assert width < 0.5 or height < 0.5  # half a pixel is rounding


def test_a_method_without_a_size_is_drawn_hollow_at_every_size(drawn_rows: Callable[..., Comparison]) -> None:
    comparison = drawn_rows(["rff", "spectral"], seeds=1)
    fig = report.figure(comparison)
    fourier, errors = fig.axes
    (rff, _, _), (spectral, _, _) = fourier.containers
    np.testing.assert_array_equal(spectral.get_xdata(), [8, 16])
    assert len(set(spectral.get_ydata())) == 1
    assert [line.get_markerfacecolor() == "white" for line in (rff, spectral)] == [False, True]
    assert fig.get_suptitle() == "made: protocol paper, one seed. Hollow: without n_features"
    assert {label.get_text() for label in errors.get_yticklabels()} == {"random Fourier", "Fourier modes"}
    assert len(report.figure(drawn_rows([], seeds=1)).axes) == 1  # the exact GP alone


def test_a_comparison_that_was_run_can_be_saved(dataset: Dataset, fixed: ComparisonSettings, tmp_path: Path) -> None:
    comparison = compare(dataset, replace(fixed, seeds=1), tmp_path, quiet=True)
    report.save(comparison, tmp_path / "comparison.png")
    picture = imread(tmp_path / "comparison.png")
    assert picture.shape[0] > 400
    assert picture.std() > 0.01


@pytest.mark.parametrize("kl", [0.0, float("inf"), float("nan")])
def test_divergences_that_a_logarithmic_axis_lacks(kl: float, drawn_rows: Callable[..., Comparison]) -> None:
    comparison = drawn_rows(["rff", "orf"])
    rows = comparison.rows.assign(kl=comparison.rows.kl.where(comparison.rows.method != "rff", kl))
    fig = report.figure(replace(comparison, rows=rows))
    fig.canvas.draw()
    (line, _, _), _ = bars_of(fig.axes[0])
    np.testing.assert_array_equal(line.get_ydata(), max(kl, 1e-12))
    assert fig.get_suptitle().endswith(". 1e-12: or less") == (kl == 0.0)
    assert "random Fourier" in [text.get_text() for text in fig.axes[0].texts]
