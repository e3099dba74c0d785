"""Several targets on the command line, and leave-one-out predictions, against the same in Python."""

import io
import re
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pytest
import xarray
from scipy.stats import lognorm, norm

import lmgp
from lmgp import ExactGPRegressor, FeaturizedGPRegressor, GPRegressor, TransformedTargetGPRegressor
from lmgp.cli import main
from lmgp.estimators import MultiTargetGPRegressor
from lmgp.metrics import crps, nlpd
from tests.cli.conftest import frame, predicted, scores
from tests.conftest import GIVEN

INPUTS, TARGETS = ["lon", "lat"], ["price", "rent"]
FIT = ["--kernel", "matern32", "--noise", "normal", "--target", *TARGETS, "--quiet"]
LEVELS = 0.5, 0.8, 0.95, 0.99


def with_rent(n: int = 60, seed: int = 0) -> pd.DataFrame:
    table = frame(n, seed)
    noise = np.random.default_rng(seed).normal(size=n)
    return table.assign(rent=np.exp(3.0 + np.cos(table["lon"]) + 0.1 * noise))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    with_rent().to_csv("train.csv", index=False)
    with_rent(20, seed=1).to_csv("test.csv", index=False)
    return tmp_path


def table_of(printed: str) -> pd.DataFrame:
    """The scores, one line a target."""
    head, *lines = printed.splitlines()
    assert head.endswith(" rows")
    names = re.split("  +", lines[0].strip())
    values = [line.split() for line in lines[1:]]
    return pd.DataFrame(values, columns=names).set_index("target").astype(float)


@pytest.mark.parametrize("how", ["shared", "each"])
def test_predictions_and_scores_are_those_of_python(folder: Path, capsys: Any, how: Any) -> None:
    assert main(["fit", "train.csv", *FIT, "--hyperparameters", how, "--out", "model.lmgp"]) == 0
    printed = capsys.readouterr().out
    assert "fitted to " in printed
    assert "price, rent of train.csv, 60 rows, by lon, lat\n" in printed
    train, test = with_rent(), with_rent(20, seed=1)
    one: Any = GPRegressor(kernel="matern32", noise="normal", random_state=0)
    same = (one if how == "shared" else MultiTargetGPRegressor(one)).fit(train[INPUTS], train[TARGETS])
    mean, std = same.predict(test[INPUTS], return_std=True, include_noise=True)
    found = predicted("test.csv", "--level", "0.9")
    assert list(found) == [f"{name}_{column}" for name in TARGETS for column in ("mean", "std", "lower", "upper")]
    assert main(["score", "model.lmgp", "test.csv", "--level", "0.9"]) == 0
    of_table = table_of(capsys.readouterr().out)
    assert list(of_table.index) == TARGETS
    for j, name in enumerate(TARGETS):
        np.testing.assert_allclose(found[f"{name}_mean"], mean[:, j], rtol=1e-12)
        np.testing.assert_allclose(found[f"{name}_std"], std[:, j], rtol=1e-12)
        interval = found[[f"{name}_lower", f"{name}_upper"]].to_numpy().T
        np.testing.assert_allclose(interval, norm.interval(0.9, mean[:, j], std[:, j]), rtol=1e-9)
        y = test[name].to_numpy()
        inside = (interval[0] <= y) & (y <= interval[1])
        expected = [np.sqrt(np.mean((y - mean[:, j]) ** 2)), nlpd(y, mean[:, j], std[:, j] ** 2)]
        expected += [crps(y, mean[:, j], std[:, j] ** 2), inside.mean()]
        columns = ["RMSE", "NLPD", "CRPS", "coverage of 90% intervals"]
        np.testing.assert_allclose(of_table.loc[name, columns], expected, rtol=1e-5)
    loaded = lmgp.load("model.lmgp")
    assert loaded.target_names_.tolist() == TARGETS
    assert main(["score", "model.lmgp", "--leave-one-out"]) == 0
    left_out = table_of(capsys.readouterr().out)
    np.testing.assert_allclose(left_out["NLPD"], [one.nlpd for one in same.loo_], rtol=1e-5)  # type: ignore[union-attr]


def test_the_table_may_stand_after_the_targets(folder: Path, capsys: Any) -> None:
    assert main(["fit", *FIT[:-1], "train.csv", "--quiet", "--out", "model.lmgp"]) == 0
    assert lmgp.load("model.lmgp").target_names_.tolist() == TARGETS
    assert main(["fit", "--target", "rent", "train.csv", *FIT[:4], "--quiet", "--out", "one.lmgp"]) == 0
    assert "rent of train.csv, 60 rows, by lon, lat, price\n" in capsys.readouterr().out


def test_a_grid_and_rows_with_missing_values(folder: Path, capsys: Any) -> None:
    assert main(["fit", "train.csv", *FIT, "--out", "model.lmgp"]) == 0
    found = predicted("--grid", "lat=50:52:3", "lon=-6:2:5")
    assert list(found)[:3] == ["lon", "lat", "price_mean"]
    expected = lmgp.load("model.lmgp").predict(found[INPUTS], return_std=True)[0]
    np.testing.assert_allclose(found[["price_mean", "rent_mean"]], expected, rtol=1e-12)
    assert main(["predict", "model.lmgp", "--grid", "lat=50:52:3", "lon=-6:2:5", "--out", "map.nc"]) == 0
    data = xarray.load_dataset("map.nc")
    assert data["mean"].dims == ("target", "lat", "lon")
    northern = data["mean"].sel(target="rent", lat=52.0)
    np.testing.assert_allclose(northern, found["rent_mean"][found["lat"] == 52.0], rtol=1e-10)
    holes = with_rent(20, seed=1)
    holes.loc[3, "lat"] = np.nan
    holes.to_csv("holes.csv", index=False)
    of_holes = predicted("holes.csv", "--drop")
    assert of_holes.loc[3].isna().all()
    assert of_holes.drop(3).notna().all(axis=None)


def test_inputs_with_the_names_of_predictions_are_refused(folder: Path, capsys: Any) -> None:
    train, inputs = with_rent().assign(rent_mean=1.0), [*INPUTS, "rent_mean"]
    MultiTargetGPRegressor(ExactGPRegressor(**GIVEN)).fit(train[inputs], train[TARGETS]).save("model.lmgp")
    train.to_csv("means.csv", index=False)
    for arguments in (["--grid", "lon=1", "lat=51", "rent_mean=1"], ["means.csv", "--out", "out.gpkg"]):
        assert main(["predict", "model.lmgp", *arguments]) == 2
        assert "The model has a column 'rent_mean', and so have predictions." in capsys.readouterr().err
    MultiTargetGPRegressor(ExactGPRegressor(**GIVEN)).fit(train[INPUTS], train[TARGETS]).save("model.lmgp")
    points = geopandas.points_from_xy(train["lon"], train["lat"], crs="EPSG:4326")
    geopandas.GeoDataFrame({"price_std": train["price"]}, geometry=points).to_file("points.gpkg")
    assert main(["predict", "model.lmgp", "points.gpkg", "--out", "out.gpkg"]) == 2
    assert "The table has a column 'price_std', and so have predictions." in capsys.readouterr().err


def test_targets_without_names_are_named_in_their_order(folder: Path, capsys: Any) -> None:
    train = with_rent()
    model = MultiTargetGPRegressor(ExactGPRegressor(random_state=0))
    model.fit(train[INPUTS].to_numpy(), train[TARGETS].to_numpy()).save("model.lmgp")
    options = ["--columns", *INPUTS, "--target", "price", "--target", "rent"]
    assert main(["score", "model.lmgp", "test.csv", *options]) == 0
    assert list(table_of(capsys.readouterr().out).index) == TARGETS
    assert main(["score", "model.lmgp", "test.csv", "--columns", *INPUTS]) == 2
    assert "no column is named '0'" in capsys.readouterr().err


def test_targets_are_scored_in_any_order(folder: Path, capsys: Any) -> None:
    assert main(["fit", "train.csv", *FIT, "--out", "model.lmgp"]) == 0
    capsys.readouterr()
    told = []
    for names in (TARGETS, TARGETS[::-1]):
        assert main(["score", "model.lmgp", "test.csv", "--target", names[0], "--target", names[1]]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]


@pytest.mark.slow
def test_logarithms_of_targets_take_dates_and_text(folder: Path) -> None:
    train = with_rent().assign(day=pd.date_range("2020-01-01", periods=60).astype(str), town=["Ulm", "Bonn"] * 30)
    train["price"] = np.exp(train["price"])
    train.to_csv("more.csv", index=False)
    assert main(["fit", "more.csv", *FIT, "--log", "--hyperparameters", "each", "--out", "model.lmgp"]) == 0
    expected = lmgp.load("model.lmgp").predict(train[[*INPUTS, "day", "town"]])
    np.testing.assert_allclose(predicted("more.csv")[["price_mean", "rent_mean"]], expected, rtol=1e-9)


def test_leave_one_out_of_targets_with_gaps(folder: Path, capsys: Any) -> None:
    train = with_rent()
    train.loc[3, "rent"] = np.nan
    model = MultiTargetGPRegressor(ExactGPRegressor(**GIVEN)).fit(train[INPUTS], train[TARGETS])
    model.save("model.lmgp")
    assert main(["score", "model.lmgp", "--leave-one-out"]) == 0
    found = table_of(capsys.readouterr().out)
    np.testing.assert_allclose(found["NLPD"], [one.nlpd for one in model.loo_], rtol=1e-5)


def test_leave_one_out_counts_rows_as_often_as_their_weights(folder: Path, capsys: Any) -> None:
    train, weights = with_rent(), np.arange(1.0, 61.0)
    model = ExactGPRegressor(**GIVEN).fit(train[INPUTS], train["price"], sample_weight=weights)
    model.save("model.lmgp")
    assert main(["score", "model.lmgp", "--leave-one-out"]) == 0
    (nlpd_line,) = (line for line in capsys.readouterr().out.splitlines() if "NLPD" in line)
    assert float(nlpd_line.split()[1]) == pytest.approx(model.loo_.nlpd, rel=1e-3)


def test_info_has_each_target(folder: Path, capsys: Any) -> None:
    assert main(["fit", "train.csv", *FIT, "--out", "model.lmgp"]) == 0
    capsys.readouterr()
    assert main(["info", "model.lmgp"]) == 0
    out, model = capsys.readouterr().out, lmgp.load("model.lmgp")
    for name, center, scale in zip(TARGETS, model.center_, model.scales_, strict=True):
        assert f"{name:<5}  mean {center:.6g}, scale {scale:.6g}, noise " in out
    assert "Learning the kernel:\n" in out
    assert re.search(r"matern32 +one.* +exact +60 ", out)  # what was tried for the shared kernel
    assert main(["fit", "train.csv", *FIT, "--hyperparameters", "each", "--out", "model.lmgp"]) == 0
    assert main(["info", "model.lmgp"]) == 0
    out = capsys.readouterr().out
    kernel = lmgp.load("model.lmgp").estimators_[1].kernel_
    assert re.search(rf"rent: kernel\n(.*\n)+?  lat +\S+ +{kernel.lengthscale[1]:.3g}\n", out)
    assert "Learning the kernel of price:\n" in out


def test_leave_one_out_is_that_of_python(folder: Path, capsys: Any) -> None:
    train = with_rent()
    for options, regressor in (([], None), (["--log"], "log")):
        fit = ["fit", "train.csv", "--columns", *INPUTS, "--target", "rent", "--kernel", "matern32", "--quiet"]
        fit += ["--noise", "normal"]
        assert main([*fit, *options, "--out", "model.lmgp"]) == 0
        capsys.readouterr()
        assert main(["score", "model.lmgp", "--leave-one-out"]) == 0
        found = scores(capsys.readouterr().out)["model"]
        same: Any = GPRegressor(kernel="matern32", noise="normal", random_state=0)
        same = same if regressor is None else TransformedTargetGPRegressor(same)
        left_out = same.fit(train[INPUTS], train["rent"]).loo_
        expected = [left_out.rmse, left_out.nlpd, left_out.crps, *map(left_out.coverage, LEVELS)]
        np.testing.assert_allclose(found.iloc[:7], expected, rtol=1e-5)


def test_leave_one_out_of_a_logarithm_is_that_of_its_log_normal_distributions() -> None:
    train = with_rent()
    model = TransformedTargetGPRegressor(ExactGPRegressor(**GIVEN)).fit(train[INPUTS], train["rent"])
    z = ExactGPRegressor(**GIVEN).fit(train[INPUTS], np.log(train["rent"])).loo_
    law, found = lognorm(s=z.std, scale=np.exp(z.mean)), model.loo_
    np.testing.assert_allclose(found.y, train["rent"], rtol=1e-12)
    np.testing.assert_allclose(found.mean, law.mean(), rtol=1e-10)
    np.testing.assert_allclose(found.std, law.std(), rtol=1e-10)
    assert found.nlpd == pytest.approx(-law.logpdf(train["rent"]).mean(), rel=1e-10)
    assert found.crps == pytest.approx(model.scale_.crps(found.y, z.mean, z.std).mean(), rel=1e-12)
    low, high = law.interval(0.8)
    assert found.coverage(0.8) == np.mean((low <= train["rent"]) & (train["rent"] <= high))
    assert "60 rows, each left out" in str(found)


REFUSED: dict[str, tuple[list[str], str]] = {
    "twice": (["fit", "train.csv", "--target", "rent", "rent", "--out", "m"], "Name each target once; got"),
    "unknown": (["fit", "train.csv", "--target", "rent", "rant", "--out", "m"], "no column is named 'rant'"),
    "no table": (["fit", "--target", "rent", "--out", "m"], "Give the table to fit to, lmgp fit TABLE"),
    "an input": (
        ["fit", "train.csv", "--target", *TARGETS, "--columns", "lat", "rent", "--out", "m"],
        "not the target 'rent' among them",
    ),
    "no input": (["fit", "train.csv", "--target", *TARGETS, *INPUTS, "--out", "m"], "no input column is left"),
    "averaged": (
        ["fit", "train.csv", *FIT, "--duplicates", "average", "--out", "m"], "--duplicates average is for one target"
    ),
    "log": (["fit", "train.csv", *FIT, "--log", "--out", "m"], "add --hyperparameters each"),
    "negative": (
        ["fit", "low.csv", *FIT, "--log", "--hyperparameters", "each", "--out", "m"],
        "Target 'price': transformer='log' needs targets that are positive",
    ),
    "plot": (["plot", "model.lmgp", "test.csv"], "A page is of one target; model.lmgp predicts price, rent"),
    "report": (["score", "model.lmgp", "test.csv", "--report", "r.html"], "A report is of one target"),
    "one of two": (["score", "model.lmgp", "test.csv", "--target", "rent"], "predicts 2 targets, price, rent"),
    "neither": (["score", "model.lmgp"], "Give a table to score, or --leave-one-out"),
    "both": (["score", "model.lmgp", "test.csv", "--leave-one-out"], "and not both"),
    "dropped": (["score", "model.lmgp", "--leave-one-out", "--drop"], "--drop and --leave-one-out do not go together"),
    "no rows": (["score", "sums.lmgp", "--leave-one-out"], "sums.lmgp keeps no training rows"),
    "two of one": (
        ["score", "one.lmgp", "test.csv", "--target", "price", "--target", "rent"],
        "one.lmgp predicts one target; got --target price, rent",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_said_in_one_line(folder: Path, capsys: Any, case: str) -> None:
    train = with_rent()
    MultiTargetGPRegressor(ExactGPRegressor(**GIVEN)).fit(train[INPUTS], train[TARGETS]).save("model.lmgp")
    FeaturizedGPRegressor(**GIVEN, random_state=0).fit(train[INPUTS], train["rent"]).save("sums.lmgp")
    ExactGPRegressor(**GIVEN).fit(train[INPUTS], train["rent"]).save("one.lmgp")
    train.assign(price=train["price"] - 20.0).to_csv("low.csv", index=False)
    before = sorted(folder.iterdir())
    arguments, told = REFUSED[case]
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert told in printed.err
    assert printed.out == ""
    assert printed.err.count("lmgp: error") == 1
    assert io.StringIO(printed.err).readlines()[-1].endswith("\n")
    assert sorted(folder.iterdir()) == before
