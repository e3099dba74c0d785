import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import lmgp
from lmgp.datasets import Dataset
from lmgp.experiments.protocol import PROTOCOLS, Cell, Settings
from lmgp.experiments.report import selections, table
from lmgp.experiments.results import Row
from lmgp.experiments.runner import Comparison, prepare


def made_rows() -> list[Row]:
    common = Row(
        settings="abc", dataset="made", protocol="paper", n_train=12345, n_test=20, n_inputs=1, seed=0, method="exact",
        n_features=None, threshold=None, rmse=0.5, nlpd=0.75, coverage=0.9, crps=0.25, fit_seconds=1.0,
        predict_seconds=2.0, lengthscale=(0.8,), variance=1.5, noise_variance=0.02,
    )  # fmt: skip
    method = replace(common, lengthscale=(), variance=None, noise_variance=None, n_features_out=7, reverse_kl=0.5)
    rows = []
    for seed in (0, 1):
        rows.append(replace(common, seed=seed, variance=1.5 + seed, lengthscale=(0.8 + 2.2 * seed,)))
        for n_features in (16, 8):
            for name, threshold, kl in (("rff", None, 3.0), ("local_taylor", 1.0, 1.0), ("global_taylor", None, 2.0)):
                kl = (kl + 2 * seed) / n_features if n_features == 8 else 1 / (kl + 2 * seed)
                sizes = {"n_features": n_features, "threshold": threshold, "n_centroids": 4 if threshold else None}
                rows.append(replace(method, seed=seed, method=name, kl=kl, kl_sum=20 * kl, **sizes))
    return rows


def test_groups_ascend_in_size_and_methods_in_mean_kl_with_the_best_marked(dataset: Dataset, fixed: Settings) -> None:
    lines = table(Comparison(dataset, fixed, made_rows(), {})).splitlines()
    body = [re.sub(r"\s+", " ", line) for line in lines if re.match(r"n_features|[* ] \w", line)]
    starts = [line.split(" ")[:2] if line[0] in "* " else [line] for line in body if "method" not in line]
    assert starts == [
        ["n_features = 8"], ["*", "local_taylor"], ["", "global_taylor"], ["", "rff"],
        ["n_features = 16"], ["*", "rff"], ["", "global_taylor"], ["", "local_taylor"],
    ]  # fmt: skip


def test_a_line_has_the_means_and_the_spread_over_seeds(dataset: Dataset, fixed: Settings) -> None:
    lines = table(Comparison(dataset, fixed, made_rows(), {})).splitlines()
    columns = re.split(r"\s{2,}", next(line for line in lines if "RMSE" in line and "method" in line).strip())
    local = next(line for line in lines if "local_taylor" in line).replace("*", "").split()
    assert dict(zip(columns, local, strict=True)) == {
        "method": "local_taylor", "threshold": "1", "D": "7", "centroids": "4",
        "KL/row": "0.25", "s.d.": "0.2", "KL sum": "5", "reverse KL": "0.5",
        "RMSE": "0.5", "NLPD": "0.75", "95% cover": "90.0%", "CRPS": "0.25", "fit s": "1.000", "predict s": "2.000",
    }  # fmt: skip
    rff = next(line for line in lines if " rff " in line).split()
    assert rff[1:4] == ["-", "7", "-"]


def test_lines_are_aligned(dataset: Dataset, fixed: Settings) -> None:
    lines = table(Comparison(dataset, fixed, made_rows(), {})).splitlines()
    assert len({len(line) for line in lines if re.match(r"(method|[* ] \w)", line)}) == 1


def test_heading_tells_the_data_the_protocol_and_the_reference(dataset: Dataset, fixed: Settings) -> None:
    heading = table(Comparison(dataset, fixed, made_rows(), {})).split("\n\n")[0]
    for part in (
        "made: 60 rows (12345 train, 20 test)", "protocol paper", "target y", "lengthscale 0.8 to 3 units of x0",
        "inputs: x0; as they are, not standardised",
        "variance 1.5 to 2.5", "noise variance 0.02", "RMSE 0.5", "NLPD 0.75", "95% cover 90.0%",
    ):  # fmt: skip
        assert part in heading
    assert "converge" not in heading
    assert heading.splitlines()[0].endswith("2 seed(s), random splits")


@pytest.mark.parametrize(
    ("standardise", "unit", "units"),
    [(True, "s.d. of {}", "in s.d. of each column"), (False, "units of {}", "in units of the columns")],
)
def test_lengthscales_have_the_names_and_the_units_of_their_columns(
    standardise: bool, unit: str, units: str, make: Callable[..., Dataset]
) -> None:
    settings = Settings(seeds=2, standardise=standardise)
    exact = made_rows()[0]
    for d, lengthscales, shown in (
        (1, [(0.35,), (0.5,)], f"lengthscale 0.35 to 0.5 {unit.format('x0')}, variance"),
        (2, [(0.35,), (0.35,)], f"lengthscale 0.35 ({units}), variance"),
        (2, [(0.35, 2.0), (0.5, 2.0)], f"lengthscale 0.35 to 0.5 {unit.format('x0')}, 2 {unit.format('x1')}, variance"),
    ):
        rows = [replace(exact, seed=seed, lengthscale=found) for seed, found in enumerate(lengthscales)]
        assert shown in table(Comparison(make(d=d), settings, rows, {}))


@pytest.mark.parametrize(
    ("standardise", "spatial", "said"),
    [(None, False, True), (None, True, False), (False, False, False), (True, True, True)],
)
def test_the_heading_says_what_was_standardised(
    standardise: bool | None, spatial: bool, said: bool, make: Callable[..., Dataset]
) -> None:
    settings = Settings(seeds=1, standardise=standardise)
    rows = [replace(made_rows()[0], lengthscale=(0.3,))]
    text = table(Comparison(make(d=2, spatial=spatial), settings, rows, {}))
    told = "inputs: x0, x1; each standardised to mean 0 and s.d. 1 on the training rows\n"
    assert (told in text) == said
    assert ("inputs: x0, x1; as they are, not standardised\n" in text) != said


def test_a_nearest_model_that_is_of_no_use_is_remarked_upon(dataset: Dataset, fixed: Settings) -> None:
    rows = made_rows()
    assert "note:" not in table(Comparison(dataset, fixed, rows, {}))
    trivial = []
    for seed in (0, 1):
        of_seed = prepare(dataset, fixed, seed)
        z = (of_seed.y_test - of_seed.y_train.mean()) / of_seed.y_train.std()
        trivial.append(np.mean(z**2 / 2 + np.log(of_seed.y_train.std() * np.sqrt(2 * np.pi))))
    worse = float(np.mean(trivial))

    def told(**fields: float) -> list[str]:
        changed = [replace(row, **fields) if row.n_features == 8 else row for row in rows]
        return [line for line in table(Comparison(dataset, fixed, changed, {})).splitlines() if line.startswith("note")]

    (note,) = told(kl=1e5)
    assert "at n_features = 8 even the nearest, rff, is far from the exact GP, KL/row 1e+05. Use more" in note
    (note,) = told(nlpd=worse + 0.01)
    assert f"predicts worse than the training mean and s.d., NLPD {worse + 0.01:.4g} against {worse:.4g}" in note
    assert told(nlpd=worse - 0.01) == told(kl=0.99) == []
    assert len(told(kl=float("nan"))) == 1


def test_heading_tells_published_splits(dataset: Dataset, fixed: Settings) -> None:
    data = replace(dataset, splits=(dataset.y > 5.0,))
    for protocol, splits in (("converged", "published"), ("paper", "random")):
        settings = fixed if protocol == "paper" else replace(fixed, protocol=PROTOCOLS[protocol])
        assert f"{splits} splits" in table(Comparison(data, settings, made_rows(), {}))


def test_an_optimiser_that_did_not_converge_and_cells_not_made_are_told(dataset: Dataset, fixed: Settings) -> None:
    rows = [replace(row, converged=False) if row.method == "exact" else row for row in made_rows()]
    text = table(Comparison(dataset, fixed, rows, {Cell(0, "orf", 8): "too few"}))
    assert "did not converge" in text
    assert text.endswith("not made: seed 0, orf, D = 8: too few\n")


@pytest.mark.parametrize("kl", [float("inf"), float("nan")])
def test_a_divergence_that_is_no_number_comes_last(kl: float, dataset: Dataset, fixed: Settings) -> None:
    rows = [replace(row, kl=kl) if row.method == "local_taylor" else row for row in made_rows()]
    text = table(Comparison(dataset, fixed, rows, {}))
    assert re.findall(r"^[* ] (\w+)", text, flags=re.MULTILINE)[2] == "local_taylor"
    assert len(re.findall(r"^\* ", text, flags=re.MULTILINE)) == 2


@pytest.mark.skipif("GPRegressor" not in lmgp.__all__, reason="there is no class yet that chooses")
def test_what_auto_tried_is_shown_once_a_size_and_what_it_chose_for_every_seed(
    dataset: Dataset, fixed: Settings
) -> None:
    from lmgp.selection.search import Selection, Trial

    trials = (
        Trial("orf", 32, None, "add", 0.5, 0.1, 32, 0.01, 0.02),
        Trial("local_taylor", 64, 2.0, "fitc", 0.0005, 0.0001, 256, 0.03, 0.04, chosen=True),
    )
    selection = Selection(trials, 1e-3, 500, 4096, 2e-5, 0.7)
    rows = [
        replace(
            made_rows()[1], method="auto", threshold=None, seed=seed, n_features=size, selection=selection.to_json()
        )
        for seed in (0, 1)
        for size in (128, 64)
    ]
    text = selections(Comparison(dataset, fixed, [*made_rows(), *rows], {}))
    assert text.count(str(selection)) == 2
    assert text.index("up to max_features = 64") < text.index("up to max_features = 128")
    assert text.count("seed 1, auto, D = 64: local_taylor, size 64, threshold 2; KL/row 0.0005 on the probes\n") == 1
    assert selections(Comparison(dataset, fixed, made_rows(), {})) == ""
