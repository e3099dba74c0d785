"""Models of tables on the command line: fit, predict, score and info."""

import gzip
import io
import math
import re
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas as pd
import pytest
import rasterio
import xarray
from scipy.stats import lognorm, norm
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import lmgp
from lmgp import ExactGPRegressor, FeaturizedGPRegressor, GPRegressor, MaternKernel, TaylorFeatures
from lmgp.cli import main
from lmgp.grids import grid_rows
from lmgp.metrics import coverage, crps
from lmgp.metrics.baselines import linear_baseline
from lmgp.saving.files import load_with_header
from tests.cli.conftest import FIT, frame, mean, predicted, read, scores
from tests.conftest import GIVEN, draw

# -------------------------------------------------------------------------------------------------------- what is right


def test_fit_and_predict_are_those_of_python(folder: Path, model: Any) -> None:
    train, test = frame(), frame(20, seed=1)
    inputs = ["lon", "lat"]
    same = GPRegressor(kernel="matern32", noise="normal", random_state=0).fit(train[inputs], train["price"])
    expected, std = same.predict(test[inputs], return_std=True, include_noise=True)
    found = predicted("test.csv")
    assert list(found) == ["mean", "std", "lower", "upper"]
    np.testing.assert_array_equal(found["mean"], expected)
    np.testing.assert_allclose(found["std"], std, rtol=1e-12)
    low, high = norm.interval(0.95, expected, std)
    np.testing.assert_allclose(found[["lower", "upper"]], np.column_stack((low, high)), rtol=1e-12)
    assert repr(model.kernel_) == repr(same.kernel_)


def test_options_of_predict(model: Any) -> None:
    test = frame(20, seed=1)[["lon", "lat"]]
    expected, std = model.predict(test, return_std=True)
    found = predicted("test.csv", "--latent", "--level", "0.5")
    np.testing.assert_array_equal(found["std"], std)
    np.testing.assert_allclose(found["upper"], norm.ppf(0.75, expected, std), rtol=1e-12)


def test_options_of_fit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--trend", "lat", "--metric", "sphere", "--ard", "no", "--noise-variance", "0.05", "--seed", "3"]
    assert main(["fit", "train.csv", *FIT, *options, "--tolerance", "0.01", "--out", "model.lmgp"]) == 0
    train = frame()
    given: dict[str, Any] = {"noise": "normal"}
    given |= {"kernel": "matern32", "trend": ["lat"], "metric": "sphere", "ard": False, "noise_variance": 0.05}
    same = GPRegressor(0.01, **given, random_state=3).fit(train[["lon", "lat"]], train["price"])
    found = predicted("test.csv")
    np.testing.assert_allclose(found["mean"], mean(same, frame(20, seed=1)[["lon", "lat"]]), rtol=1e-12)
    printed = capsys.readouterr()
    assert "fitted to     price of train.csv, 60 rows, by lon, lat\n" in printed.out
    assert "variance 0.05" in printed.out
    assert printed.err == ""


def test_fit_says_what_it_does_and_what_it_tries(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "train.csv", *FIT[:-1], "--max-memory", "1", "--out", "model.lmgp"]) == 0
    told = ["learning the kernel from 60 rows of 2 columns", "fitting ExactGPRegressor to 60 rows", "wrote model.lmgp"]
    foreseen, *lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"lmgp: a fit to 60 rows of 2 columns: about \d s", foreseen)
    assert lines == [f"lmgp: {one}" for one in told]
    assert lmgp.load("model.lmgp").max_memory_gib == 1.0
    assert main(["fit", "train.csv", *FIT[:-1], "--max-memory", "3", "--verbose", "--out", "model.lmgp"]) == 0
    lines = capsys.readouterr().err.splitlines()
    trials = lmgp.load("model.lmgp").learning_.trials
    assert len([line for line in lines if line.startswith("lmgp: matern32 with one lengthscale")]) == len(trials)
    assert main(["fit", "train.csv", *FIT, "--max-memory", "1e-9", "--out", "other.lmgp"]) == 2
    assert "Lower max_learning_rows" in capsys.readouterr().err
    assert not (folder / "other.lmgp").exists()


def test_the_logarithm_of_the_target_is_modelled_in_its_units(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = (one.assign(price=np.exp(one["price"])) for one in (frame(), frame(20, seed=1)))
    train.to_csv("train.csv", index=False)
    test.to_csv("test.csv", index=False)
    assert main(["fit", "train.csv", *FIT, "--log", "--out", "model.lmgp"]) == 0
    out = capsys.readouterr().out
    assert "target        its logarithm is modelled: kernel, noise and trend are in those units\n" in out
    assert re.search(r"noise         variance .* of the logarithm: [\d.]+% of the target\n", out)
    same = GPRegressor(kernel="matern32", noise="normal", random_state=0).fit(
        train[["lon", "lat"]], np.log(train["price"])
    )
    z, std = same.predict(test[["lon", "lat"]], return_std=True, include_noise=True)
    textbook, found = lognorm(std, scale=np.exp(z)), predicted("test.csv", "--level", "0.9")
    columns = [textbook.mean(), textbook.std(), *textbook.interval(0.9)]
    np.testing.assert_allclose(found.to_numpy().T, columns, rtol=1e-7)
    latent = predicted("test.csv", "--latent", "--level", "0.9")
    np.testing.assert_allclose(latent["mean"], found["mean"], rtol=1e-7)
    assert np.all(latent["upper"] - latent["lower"] < found["upper"] - found["lower"])
    assert main(["score", "model.lmgp", "test.csv"]) == 0
    found = scores(capsys.readouterr().out)["model"]
    assert found["NLPD"] == pytest.approx(-textbook.logpdf(test["price"]).mean(), rel=1e-5)
    assert found["RMSE"] == pytest.approx(np.sqrt(np.mean((test["price"] - textbook.mean()) ** 2)), rel=1e-5)
    assert main(["info", "model.lmgp"]) == 0
    out = capsys.readouterr().out
    assert "model         GPRegressor, which chose ExactGPRegressor\n" in out
    assert "Learning the kernel:" in out
    train.assign(price=train["price"] - 20.0).to_csv("train.csv", index=False)
    assert main(["fit", "train.csv", *FIT, "--target-transform", "log1p", "--out", "other.lmgp"]) == 2
    assert "'log1p' needs targets that are greater than -1; got -" in capsys.readouterr().err


def test_columns_are_taken_by_name_in_any_order_and_others_ignored(folder: Path, model: Any) -> None:
    expected = predicted("test.csv")
    other = frame(20, seed=1).assign(city="Ely", note=None)[["note", "lat", "city", "price", "lon"]]
    other.to_csv("other.csv")  # with an index, which has no name
    pd.testing.assert_frame_equal(predicted("other.csv"), expected)


def test_a_name_with_blanks_is_found_in_a_header(folder: Path) -> None:
    train = frame().rename(columns={"lat": " lat"})
    model = ExactGPRegressor(MaternKernel(2.0), 0.1).fit(train[["lon", " lat"]], train["price"])
    model.save("model.lmgp")
    train.to_csv("blank.csv", index=False)
    np.testing.assert_allclose(predicted("blank.csv")["mean"], model.predict(train[["lon", " lat"]]), rtol=1e-9)


def test_other_ways_to_write_a_table(folder: Path, model: Any) -> None:
    expected, test = predicted("test.csv"), frame(20, seed=1)
    test.to_csv("test.csv.gz", index=False)
    pd.testing.assert_frame_equal(predicted("test.csv.gz"), expected)
    test.assign(städte="Köln").to_csv("test.tsv", index=False, sep="\t", encoding="latin-1")
    pd.testing.assert_frame_equal(predicted("test.tsv", "--sep", "tab", "--encoding", "latin-1", sep="\t"), expected)
    test.to_csv("german.csv", index=False, sep=";", decimal=",")
    found = predicted("german.csv", "--sep", ";", "--decimal", ",", sep=";", decimal=",")
    pd.testing.assert_frame_equal(found, expected, check_exact=False, rtol=1e-15)
    assert main(["predict", "model.lmgp", "test.csv", "--out", "out.csv.gz"]) == 0
    assert gzip.decompress(Path("out.csv.gz").read_bytes()).decode().splitlines()[0] == "mean,std,lower,upper"
    pd.testing.assert_frame_equal(read("out.csv.gz"), expected)


def test_standard_input_and_output(
    folder: Path, model: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = predicted("test.csv")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("test.csv").read_bytes())))
    assert main(["predict", "model.lmgp", "-"]) == 0
    printed = capsys.readouterr()
    found = read(io.StringIO(printed.out))
    pd.testing.assert_frame_equal(found, expected)
    assert printed.err == ""
    assert not sys.stdin.buffer.closed
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("train.csv").read_bytes())))
    assert main(["fit", "-", *FIT, "--out", "again.lmgp"]) == 0
    assert "price of standard input" in capsys.readouterr().out


def test_a_grid_in_place_of_a_table(folder: Path, model: Any) -> None:
    found = predicted("--grid", "lat=50:52:3", "lon=-6:2:5")
    lat, lon = np.meshgrid([50.0, 51.0, 52.0], [-6.0, -4.0, -2.0, 0.0, 2.0], indexing="ij")
    points = pd.DataFrame({"lon": lon.ravel(), "lat": lat.ravel()})
    pd.testing.assert_frame_equal(found[["lon", "lat"]], points)
    np.testing.assert_array_equal(found["mean"], mean(model, points))
    assert list(predicted("--grid", "lat=50.5", "lon=-6:2:2")["lat"]) == [50.5, 50.5]


def test_a_grid_as_netcdf(folder: Path, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "model.lmgp", "--grid", "lat=50:52:3", "lon=-6:2:5", "--out", "map.nc"]) == 0
    assert "wrote a grid of 3 × 5 to map.nc" in capsys.readouterr().err
    data, table = xarray.load_dataset("map.nc"), predicted("--grid", "lat=50:52:3", "lon=-6:2:5")
    assert data["mean"].attrs["long_name"] == "predicted mean of price"
    for _, row in table.iterrows():
        for name in ("mean", "std", "lower", "upper"):
            assert float(data[name].sel(lat=row["lat"], lon=row["lon"])) == pytest.approx(row[name], rel=1e-10)


def test_points_without_geopandas_are_refused(
    folder: Path, model: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lmgp.io.geometry.find_spec", lambda name: None)
    told = 'geopandas is not installed, which files of geographic features need: pip install "lmgp[spatial]"'
    Path("wells.gpkg").write_bytes(b"")
    assert main(["fit", "wells.gpkg", "--target", "y", "--out", "new.lmgp"]) == 2
    assert f"wells.gpkg: {told}" in capsys.readouterr().err
    assert main(["predict", "model.lmgp", "test.csv", "--out", "out.gpkg"]) == 2
    assert f"out.gpkg: {told}" in capsys.readouterr().err
    assert not Path("out.gpkg").exists()


def test_grids_without_their_packages_are_refused_before_the_work(
    folder: Path, model: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lmgp.io.geometry.find_spec", lambda name: None)
    monkeypatch.setattr("lmgp.grids.predicted", None)
    for file, package in (("map.nc", "xarray"), ("map.tif", "rioxarray")):
        assert main(["predict", "model.lmgp", "--grid", "lat=50:52:3", "lon=-6:2:5", "--out", file]) == 2
        told = f'{file}: {package} is not installed, which grids need: pip install "lmgp[spatial]"'
        assert told in capsys.readouterr().err


def test_a_grid_as_geotiff(folder: Path, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "model.lmgp", "--grid", "lat=50:52:3", "lon=-6:2:5", "--out", "map.tif"]) == 0
    assert "wrote a grid of 3 × 5 to map.tif" in capsys.readouterr().err
    table = predicted("--grid", "lat=50:52:3", "lon=-6:2:5")
    with rasterio.open("map.tif") as file:
        assert file.descriptions == ("mean", "std", "lower", "upper")
        for _, row in table.iterrows():
            (found,) = file.sample([(row["lon"], row["lat"])])
            np.testing.assert_allclose(found, row[["mean", "std", "lower", "upper"]], rtol=1e-10)


def test_a_large_grid_is_written_in_parts(folder: Path, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = predicted("--grid", "lat=50:52:3", "lon=-6:2:5")
    monkeypatch.setattr("lmgp.grids.grid_rows", partial(grid_rows, chunk=4))
    pd.testing.assert_frame_equal(predicted("--grid", "lat=50:52:3", "lon=-6:2:5"), whole, rtol=1e-9)


def test_rows_of_one_place_are_kept_averaged_or_dropped(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = frame()
    several = pd.concat([train, train.iloc[:30].assign(price=train["price"] + 0.3), train.iloc[:5]])
    several.to_csv("train.csv", index=False)
    found = {}
    for way in ("keep", "average", "drop"):
        assert main(["fit", "train.csv", *FIT, "--duplicates", way, "--out", "model.lmgp"]) == 0
        same = GPRegressor(kernel="matern32", noise="normal", random_state=0)
        same.fit(several[["lon", "lat"]], several["price"], duplicates=way)
        found[way] = predicted("test.csv")
        np.testing.assert_allclose(found[way]["mean"], mean(same, frame(20, seed=1)[["lon", "lat"]]), rtol=1e-12)
    pd.testing.assert_frame_equal(found["average"], found["keep"], rtol=1e-6)
    assert abs(found["drop"]["std"] - found["keep"]["std"]).max() > 1e-4


def test_rows_with_missing_values_can_be_dropped(folder: Path, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    expected, test = predicted("test.csv"), frame(20, seed=1)
    test.loc[[3, 7], "lat"], test.loc[9, "price"] = math.nan, math.inf
    test.to_csv("holes.csv", index=False)
    found = predicted("holes.csv", "--drop")
    assert list(np.flatnonzero(found.isna().all(axis=1))) == [3, 7]
    pd.testing.assert_frame_equal(found.dropna(), expected.drop([3, 7]))
    test.to_csv("holes.csv", index=False)
    assert main(["score", "model.lmgp", "holes.csv", "--drop"]) == 0
    printed = capsys.readouterr()
    assert re.match(r"rows +17\n", printed.out)
    assert "3 of 20 rows have missing values and are left out" in printed.err
    train = frame()
    train.loc[5, "price"] = math.nan
    train.to_csv("train.csv", index=False)
    assert main(["fit", "train.csv", *FIT, "--drop", "--out", "model.lmgp"]) == 0
    assert "59 rows" in capsys.readouterr().out


def test_scores_are_those_of_the_textbook(folder: Path, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "model.lmgp", "test.csv", "--level", "0.8"]) == 0
    printed = capsys.readouterr().out
    found, test = scores(printed)["model"], frame(20, seed=1)
    mean, std = model.predict(test[["lon", "lat"]], return_std=True, include_noise=True)
    y, z = test["price"], (test["price"] - mean) / std
    crps = np.mean(std * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi)))
    shares = {level: np.mean(np.abs(z) < norm.ppf(0.5 + 0.5 * level)) for level in (0.5, 0.8, 0.95, 0.99)}
    expected = {
        "RMSE": np.sqrt(np.mean((y - mean) ** 2)),
        "NLPD": -norm.logpdf(y, mean, std).mean(),
        "CRPS": crps,
        **{f"coverage of {100 * level:g}% intervals": share for level, share in shares.items()},
        "below the 5% quantile": np.mean(z < norm.ppf(0.05)),
        "above the 95% quantile": np.mean(z > norm.ppf(0.95)),
    }
    assert printed.startswith("rows  20\n")
    assert list(found.index) == list(expected)
    np.testing.assert_allclose(found, list(expected.values()), rtol=1e-5)
    assert main(["score", "model.lmgp", "test.csv", "--level", "0.9"]) == 0
    share = scores(capsys.readouterr().out)["model"]["coverage of 90% intervals"]
    assert share == pytest.approx(np.mean(np.abs(z) < norm.ppf(0.95)))


def test_baselines_are_the_mean_and_a_linear_model_of_the_training_rows(
    folder: Path, model: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    train, test = frame(), frame(20, seed=1)

    def errors(columns: list[str], fitted: pd.DataFrame, rows: pd.DataFrame) -> Any:
        design, places = (np.column_stack((np.ones(len(of)), of[columns])) for of in (fitted, rows))
        return rows["price"] - places @ np.linalg.lstsq(design, fitted["price"], rcond=None)[0]

    for name, columns in (("mean of y", []), ("linear", ["lon", "lat"])):
        each = [errors(columns, train.drop(i), train.loc[[i]]).iloc[0] for i in range(len(train))]
        deviation = np.sqrt(np.mean(np.square(each)))
        assert main(["score", "model.lmgp", "--leave-one-out"]) == 0
        left_out = scores(capsys.readouterr().out)[name]
        expected = deviation, -norm.logpdf(each, 0.0, deviation).mean()
        np.testing.assert_allclose(left_out[["RMSE", "NLPD"]], expected, rtol=1e-5)
        new = errors(columns, train, test)
        assert main(["score", "model.lmgp", "test.csv"]) == 0
        found = scores(capsys.readouterr().out)[name]
        expected = np.sqrt(np.mean(new**2)), -norm.logpdf(new, 0.0, deviation).mean()
        np.testing.assert_allclose(found[["RMSE", "NLPD"]], expected, rtol=1e-5)
        assert found.isna().sum() == len(found) - 2


def test_constant_columns_and_few_rows_have_the_baselines_that_they_allow() -> None:
    X, y = np.column_stack((np.arange(5.0), np.full(5, 3.0))), np.array([0.0, 1.1, 1.9, 3.2, 3.9])
    intercept, slope, nothing, _ = linear_baseline(X, y)
    np.testing.assert_allclose((slope, intercept), np.polyfit(X[:, 0], y, 1), rtol=1e-10)
    assert nothing == 0.0
    assert linear_baseline(X[:2], y[:2]) == []
    alone = np.column_stack((X[:, 0], np.arange(5) == 4))  # of the last row nothing is told without itself
    *_, deviation = linear_baseline(alone, y)
    assert deviation == pytest.approx(linear_baseline(X[:4, :1], y[:4])[-1], rel=1e-10)


def test_intervals_and_scores_are_those_of_the_distribution(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = frame(90), frame(20, seed=1)
    train["price"] += 0.3 * np.random.default_rng(0).standard_t(2.0, 90)
    train.to_csv("train.csv", index=False)
    fit = ["fit", "train.csv", "--kernel", "gaussian", "--ard", "no", "--target", "price", "--quiet"]
    assert main([*fit, "--noise", "student", "--out", "model.lmgp"]) == 0
    assert "observations  Student t of " in capsys.readouterr().out
    same = GPRegressor(kernel="gaussian", ard=False, noise="student", random_state=0)
    same.fit(train[["lon", "lat"]], train["price"])
    distribution = same.predict_distribution(test[["lon", "lat"]])
    assert np.all(distribution.kwds.get("df", distribution.args[0]) < 10.0)
    found = predicted("test.csv", "--level", "0.9")
    expected = [distribution.mean(), distribution.std(), *distribution.interval(0.9)]
    np.testing.assert_allclose(found.to_numpy().T, expected, rtol=1e-10)
    conformal = predicted("test.csv", "--level", "0.9", "--method", "conformal")
    expected = same.predict_interval(test[["lon", "lat"]], 0.9, method="conformal")
    np.testing.assert_allclose(conformal[["lower", "upper"]].to_numpy().T, expected, rtol=1e-10)
    assert main(["score", "model.lmgp", "test.csv"]) == 0
    model = scores(capsys.readouterr().out)["model"]
    assert model["NLPD"] == pytest.approx(-distribution.logpdf(test["price"]).mean(), rel=1e-5)
    assert model["CRPS"] == pytest.approx(crps(test["price"], distribution), rel=1e-5)
    assert model["coverage of 50% intervals"] == coverage(test["price"], distribution, level=0.5)
    assert main(["info", "model.lmgp"]) == 0
    assert f"\nChoosing the noise:\n\n{same.noise_}\n" in capsys.readouterr().out


def test_info_shows_what_a_file_has(folder: Path, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "model.lmgp"]) == 0
    out = capsys.readouterr().out
    assert "model         GPRegressor, which chose ExactGPRegressor\n" in out
    assert re.search(r"kernel\n +s\.d\. +Matérn 3/2 +noise\n  share of the variance +", out)
    for name, lengthscale in zip(("lon", "lat"), model.kernel_.lengthscale, strict=True):
        assert re.search(rf"\n  {name} +\S+ +{lengthscale:.3g}\n", out)
    assert f"variance {model.noise_variance_:.3g}, standard deviation" in out
    assert re.search(r"importance    (lon|lat) \S+ ± \S+, (lon|lat) ", out)
    assert "rows kept   60\n" in out
    assert f"{(folder / 'model.lmgp').stat().st_size:,} bytes, written by lmgp {lmgp.__version__}" in out
    assert str(model.learning_) in out
    assert str(model.selection_) in out
    assert "observations  normal\n" in out
    assert "Choosing the noise" not in out


def test_info_of_models_and_maps_that_keep_no_rows(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, y, _ = draw(30)
    FeaturizedGPRegressor(TaylorFeatures(10), **GIVEN).fit(X, y).save("model.lmgp")
    TaylorFeatures(10).fit(X).save("map.lmgp")
    later = FeaturizedGPRegressor(TaylorFeatures(10), **GIVEN).fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])
    later.save("later.lmgp")
    for path in ("model.lmgp", "later.lmgp", "map.lmgp"):
        assert main(["info", path]) == 0
        assert "rows kept   none: the model needs no training rows" in capsys.readouterr().out
    assert main(["predict", "map.lmgp", "train.csv"]) == 2
    assert "has a TaylorFeatures; only Gaussian-process regressors predict" in capsys.readouterr().err


def test_a_model_without_names_takes_columns_by_their_places(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = frame(), frame(20, seed=1)
    model = ExactGPRegressor(MaternKernel(2.0), 0.1).fit(train[["lat", "lon"]].to_numpy(), train["price"])
    model.save("model.lmgp")
    expected = mean(model, test[["lat", "lon"]].to_numpy())
    np.testing.assert_array_equal(predicted("test.csv", "--columns", "lat", "lon")["mean"], expected)
    test[["lat", "lon"]].to_csv("inputs.csv", index=False)
    np.testing.assert_array_equal(predicted("inputs.csv")["mean"], expected)
    assert list(predicted("--grid", "x0=50:55:2", "x1=1")["x0"]) == [50.0, 55.0]
    assert main(["predict", "model.lmgp", "inputs.csv", "--out", "out.geojson"]) == 0
    points = geopandas.read_file("out.geojson")
    np.testing.assert_allclose(points.geometry.x, test["lat"])
    np.testing.assert_allclose(points["mean"], expected)
    assert main(["score", "model.lmgp", "test.csv", "--target", "price", "--columns", "lat", "lon"]) == 0
    assert f"{np.sqrt(np.mean((test['price'] - expected) ** 2)):.6g}" in capsys.readouterr().out
    for arguments, told in (
        (
            ["predict", "model.lmgp", "test.csv"],
            "has 3 inputs, lon, lat, price; the model was fitted to 2 columns without names. Choose the inputs, in "
            "their order, such as --columns lon lat;",
        ),
        (["score", "model.lmgp", "test.csv"], "does not say which column it predicts; name it (--target)"),
        (["predict", "model.lmgp", "test.csv", "--columns", "lat", "lat"], "has 1 inputs, lat; the model was fitted"),
        (
            ["score", "model.lmgp", "test.csv", "--target", "price", "--columns", "lat", "price"],
            "name each input once, and not the target 'price' among them",
        ),
    ):
        assert main(arguments) == 2
        assert told in capsys.readouterr().err


def test_names_that_are_given_one_by_one_add_up(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--kernel", "gaussian", "--noise", "normal", "--out", "m.lmgp", "--quiet"]
    assert main(["fit", "train.csv", "--target", "price", "--columns", "lat", "--columns", "lon", *options]) == 0
    assert "60 rows, by lat, lon" in capsys.readouterr().out
    assert main(["fit", "train.csv", "--target", "price", "--target", "lat", *options]) == 0
    assert lmgp.load("m.lmgp").target_names_.tolist() == ["price", "lat"]
    several = ["--kernel", "matern12", "--trend", "lat", "--trend", "lon", *options]
    assert main(["fit", "train.csv", "--target", "price", *several]) == 0
    model = lmgp.load("m.lmgp")
    assert (model.kernel, model.trend) == (["matern12", "gaussian"], ["lat", "lon"])
    assert main(["predict", "m.lmgp", "--grid", "lon=1", "--grid", "lat=51", "--out", "out.csv"]) == 0
    assert pd.read_csv("out.csv")[["lon", "lat"]].to_numpy().tolist() == [[1.0, 51.0]]


def test_parquet(folder: Path, model: Any) -> None:
    expected, test = predicted("test.csv"), frame(20, seed=1)
    test.assign(city="Ely").to_parquet("test.parquet")
    pd.testing.assert_frame_equal(predicted("test.parquet"), expected)
    assert main(["predict", "model.lmgp", "test.parquet", "--out", "out.parquet"]) == 0
    pd.testing.assert_frame_equal(pd.read_parquet("out.parquet"), expected)
    test.loc[3, "lat"] = math.nan
    test.to_parquet("test.parquet")
    assert predicted("test.parquet", "--drop")["mean"].isna().sum() == 1


def test_an_index_without_a_name_is_no_input(folder: Path) -> None:
    frame().sample(frac=0.9, random_state=0).to_parquet("rows.parquet")
    assert main(["fit", "rows.parquet", *FIT, "--out", "model.lmgp"]) == 0
    assert lmgp.load("model.lmgp").feature_names_in_.tolist() == ["lon", "lat"]
    assert lmgp.io.open_dataset("rows.parquet", "price").names == ("lon", "lat")
    ExactGPRegressor(**GIVEN).fit(frame()[["lon", "lat"]].to_numpy(), frame()["price"]).save("model.lmgp")
    frame(20, seed=1)[["lon", "lat"]].sample(frac=0.9, random_state=0).to_parquet("new.parquet")
    assert len(predicted("new.parquet")) == 18


def test_a_table_may_follow_an_option(model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    pd.testing.assert_frame_equal(predicted("--latent", "test.csv"), predicted("test.csv", "--latent"))
    for others in (["test.csv", "more.csv"], ["--latnet"]):
        assert main(["predict", "model.lmgp", "--latent", *others]) == 2
        assert f"unrecognized arguments: {' '.join(others)}" in capsys.readouterr().err


# --------------------------------------------------------------------------------------------------- what the page says

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("page", ["docs/command_line.md", "README.md"])
def test_the_commands_of_the_pages_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / page).read_text(encoding="utf-8")
    made, commands = re.search(r"```python\n((?:(?!```).)*)```\n\n```sh\n(.*?)```", text, flags=re.DOTALL).groups()
    exec(made, {})
    for command in commands.splitlines():
        program, *arguments = shlex.split(command, comments=True)
        assert program == "lmgp"
        assert main([one.replace(":200", ":3") for one in arguments]) == 0, capsys.readouterr().err
    assert len(read("predictions.csv")) == 100
    assert "model         GPRegressor" in capsys.readouterr().out


def test_the_page_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
    for command in ("fit", "predict", "score", "plot"):
        with pytest.raises(SystemExit):
            main([command, "--help"])
        options = set(re.findall(r"--[a-z-]+", capsys.readouterr().out)) - {"--help", "--quiet", "--out"}
        assert len(options) > 5
        assert {option for option in options if option not in text} == set()


@pytest.mark.parametrize("quiet", [True, False])
def test_long_predictions_are_told_unless_they_are_to_be_quiet(
    quiet: bool, folder: Path, model: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("lmgp.estimators.base.DELAY", 0.0)
    expected = predicted("test.csv")
    capsys.readouterr()
    assert main(["predict", "model.lmgp", "test.csv", "--out", "out.csv", *["--quiet"] * quiet]) == 0
    assert bool(re.search(r"lmgp: Prediction, \d+ rows\n", capsys.readouterr().err)) is not quiet
    pd.testing.assert_frame_equal(read("out.csv"), expected)


def test_intervals_take_no_second_prediction(folder: Path, model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    predict = GPRegressor._in_batches
    monkeypatch.setattr(GPRegressor, "_in_batches", lambda self, *args: calls.append(1) or predict(self, *args))
    predicted("test.csv")
    assert len(calls) == 1


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_dates_are_read_at_fit_and_at_predict(folder: Path, ending: str, capsys: pytest.CaptureFixture[str]) -> None:
    when = pd.date_range("2015-01-01", periods=96, freq="MS")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"sold": when, "size": rng.normal(size=96)})
    table["price"] = 3.0 * np.sin(2.0 * np.pi * when.day_of_year / 365.25) + table["size"] + 0.1 * rng.normal(size=96)
    for name, rows in (("train", table[:80]), ("test", table[80:]), ("days", table[80:].assign(sold=range(16)))):
        path = folder / f"{name}.{ending}"
        rows.to_csv(path, index=False) if ending == "csv" else rows.to_parquet(path)
    assert main(["fit", f"train.{ending}", "--noise", "normal", "--target", "price", "--out", "model.lmgp"]) == 0
    assert "sold  dates, as days since 2015-01-01, and the time of the year" in capsys.readouterr().out
    mean = predicted(f"test.{ending}")["mean"]
    np.testing.assert_allclose(mean, lmgp.load("model.lmgp").predict(table.loc[80:, ["sold", "size"]]))
    assert np.sqrt(np.mean(np.square(mean.to_numpy() - table["price"].to_numpy()[80:]))) < 0.4
    assert main(["fit", f"days.{ending}", "--noise", "normal", "--target", "price", "--out", "days.lmgp"]) == 0
    assert main(["predict", "days.lmgp", f"test.{ending}", "--out", "out.csv"]) == 2
    assert "not numeric: 'sold' (" in capsys.readouterr().err
    assert main(["predict", "model.lmgp", f"days.{ending}", "--out", "out.csv"]) == 2
    assert "column 'sold' has dates, but for '0' (" in capsys.readouterr().err


def test_times_with_and_without_a_zone_are_told_apart(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    when = pd.date_range("2020-01-01", periods=96, freq="h")
    plain = pd.DataFrame({"when": when.strftime("%Y-%m-%dT%H:%M"), "y": 2.0 * np.sin(2.0 * np.pi * when.hour / 24.0)})
    tables = {"plain": plain, "utc": plain.assign(when=plain["when"] + "Z")}
    tables |= {"other": plain.assign(when=plain["when"] + "+06:00"), "mixed": pd.concat([plain[:48], tables["utc"]])}
    for name, table in tables.items():
        table.to_csv(f"{name}.csv", index=False)
        options = ["--target", "y", *FIT[:4], "--trend", "constant", "--quiet", "--out", f"{name}.lmgp"]
        assert main(["fit", f"{name}.csv", *options]) == (2 if name == "mixed" else 0)
    assert "Some times of column 'when' have a zone, and others none" in capsys.readouterr().err
    told = {("plain", "other"): "have a zone, and are converted", ("other", "plain"): "have no zone, and are read"}
    for model in ("plain", "utc", "other"):
        for table in ("plain", "utc", "other"):
            assert main(["predict", f"{model}.lmgp", f"{table}.csv", "--out", "out.csv"]) == 0
            printed = capsys.readouterr().err
            assert ("zone" in printed) == ((model, table) in told)
            assert told.get((model, table), "") in printed
            hours = 6.0 * ((model == "other") - (table == "other"))
            expected = 2.0 * np.sin(2.0 * np.pi * (when.hour + hours) / 24.0)
            np.testing.assert_allclose(pd.read_csv("out.csv")["mean"][12:84], expected[12:84], atol=0.05)
    axis = "when=2020-01-02T12:00+06:00:2020-01-02T15:00+06:00:4"
    assert main(["predict", "other.lmgp", "--grid", axis, "--out", "out.csv"]) == 0
    assert "zone" not in capsys.readouterr().err
    np.testing.assert_allclose(pd.read_csv("out.csv")["mean"], plain["y"][36:40], atol=0.05)


# ------------------------------------------------------------------------------------------ categories, gaps and points


def mixed(n: int = 80) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"size": rng.normal(size=n), "kind": rng.choice(["flat", "house", "barn"], n)})
    table["price"] = table["size"] + 2.0 * (table["kind"] == "barn") + 0.1 * rng.normal(size=n)
    table.loc[::9, "size"] = np.nan
    table.loc[::11, "kind"] = None
    return table


@pytest.mark.parametrize("file", ["mixed.csv", "mixed.parquet"])
def test_text_is_categories_and_gaps_are_filled(
    file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    table = mixed()
    table.to_csv(file, index=False) if file.endswith("csv") else table.to_parquet(file, index=False)
    options = ["--target", "price", "--kernel", "gaussian", "--noise", "normal", "--out", "model.lmgp"]
    assert main(["fit", file, *options]) == 0
    told, warned = capsys.readouterr()
    assert "Values are missing in column 'size' of X, column 'kind' of X" in warned
    assert "3 categories, and one for 8 rows where it is missing" in told
    assert "numbers, missing in 9 rows: filled by the other numbers, and marked" in told
    model = lmgp.load("model.lmgp")
    assert main(["predict", "model.lmgp", file, "--latent", "--out", "out.csv"]) == 0
    np.testing.assert_allclose(pd.read_csv("out.csv")["mean"], model.predict(table[["size", "kind"]]), rtol=1e-12)
    assert main(["score", "model.lmgp", file]) == 0
    assert "RMSE" in capsys.readouterr().out
    assert main(["plot", "model.lmgp", file, "--out", "page.html", "--quiet"]) == 0
    assert main(["fit", file, *options, "--drop"]) == 0
    assert "numbers\n" in capsys.readouterr().out


def test_a_new_category_is_predicted_and_text_among_numbers_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    mixed().dropna().to_csv("mixed.csv", index=False)
    assert main(["fit", "mixed.csv", "--target", "price", "--kernel", "gaussian", "--out", "model.lmgp"]) == 0
    Path("new.csv").write_text("size,kind\n0.5,castle\n0.5,barn\n")
    assert main(["predict", "model.lmgp", "new.csv", "--out", "out.csv"]) == 0
    of_castle, of_barn = pd.read_csv("out.csv")["std"]
    assert of_castle > of_barn
    capsys.readouterr()
    Path("wrong.csv").write_text("size,kind\nlarge,barn\n0.5,barn\n")
    assert main(["predict", "model.lmgp", "wrong.csv"]) == 2
    assert "not numeric: 'size' (line 2: 'large')" in capsys.readouterr().err


def test_dates_and_categories_are_axes_of_a_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"when": pd.date_range("2020-01-01", periods=40), "town": rng.choice(["Ulm", "Bonn"], 40)})
    table["y"] = np.sin(np.arange(40.0) / 9.0) + (table["town"] == "Ulm")
    table.to_csv("table.csv", index=False)
    assert main(["fit", "table.csv", "--target", "y", "--kernel", "gaussian", "--out", "model.lmgp"]) == 0
    grid = ["--grid", "when=2020-01-03:2020-01-05:3", "town=Ulm"]
    assert main(["predict", "model.lmgp", *grid, "--latent", "--out", "out.csv"]) == 0
    out = pd.read_csv("out.csv")
    assert out["when"].tolist() == ["2020-01-03", "2020-01-04", "2020-01-05"]
    assert out["town"].tolist() == ["Ulm"] * 3
    np.testing.assert_allclose(out["mean"], lmgp.load("model.lmgp").predict(out[["when", "town"]]))
    hours = ["--grid", "when=2020-01-03T06:00:2020-01-04T06:00:25", "town=Ulm"]
    assert main(["predict", "model.lmgp", *hours, "--out", "out.csv"]) == 0
    when = pd.to_datetime(pd.read_csv("out.csv")["when"])
    assert main(["predict", "model.lmgp", "--grid", "when=2020-01-03", "town=Ulm:Ost", "--out", "new.csv"]) == 0
    assert pd.read_csv("new.csv")["town"].tolist() == ["Ulm:Ost"]
    assert when.tolist() == pd.date_range("2020-01-03T06:00", periods=25, freq="h").tolist()


def test_an_axis_of_a_grid_may_be_a_category_that_reads_as_a_number(folder: Path) -> None:
    table = pd.DataFrame({"version": ["1.1", "1.10", "1e2"] * 20, "y": np.tile([0.0, 5.0, 9.0], 20)})
    table["y"] += 0.1 * np.random.default_rng(0).normal(size=60)
    table.to_csv("table.csv", index=False)
    fit = ["fit", "table.csv", *FIT[:4], "--category", "version", "--target", "y", "--quiet", "--out", "model.lmgp"]
    assert main(fit) == 0
    expected = predicted("table.csv")["mean"]
    for row, level in enumerate(table["version"][:3]):
        assert main(["predict", "model.lmgp", "--grid", f"version={level}", "--out", "out.csv", "--quiet"]) == 0
        found = pd.read_csv("out.csv", dtype={"version": str})
        assert found["version"].tolist() == [level]
        np.testing.assert_allclose(found["mean"], expected[row], rtol=1e-9)


def test_an_axis_of_a_grid_may_be_a_range_of_codes_or_a_truth(folder: Path) -> None:
    table = pd.DataFrame({"rooms": [1, 2, 3] * 20, "garden": [True, False] * 30})
    model = lmgp.GPRegressor(kernel="gaussian", noise="normal", columns={"rooms": "category"})
    model.fit(table, 2.0 * table["rooms"] + table["garden"]).save("model.lmgp")
    grid = ["--grid", "rooms=1:3:3", "garden=True"]
    assert main(["predict", "model.lmgp", *grid, "--out", "out.csv", "--quiet"]) == 0
    rows = pd.DataFrame({"rooms": [1, 2, 3], "garden": True})
    np.testing.assert_allclose(pd.read_csv("out.csv")["mean"], model.predict(rows), rtol=1e-9)


def test_a_model_of_an_array_with_categories_takes_columns_in_their_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = mixed()
    X = table[["size", "kind"]].to_numpy(dtype=object)
    model = lmgp.GPRegressor(kernel="gaussian", noise="normal", missing="impute").fit(X, table["price"])
    model.save("model.lmgp")
    table.rename(columns={"size": "a", "kind": "b"}).to_csv("table.csv", index=False)
    assert main(["predict", "model.lmgp", "table.csv", "--columns", "a", "b", "--latent", "--out", "out.csv"]) == 0
    np.testing.assert_allclose(pd.read_csv("out.csv")["mean"], model.predict(X), rtol=1e-9)
    assert main(["predict", "model.lmgp", "--grid", "x0=1", "x1=barn", "--latent", "--out", "out.csv"]) == 0
    expected = model.predict(np.array([[1.0, "barn"]], dtype=object))
    np.testing.assert_allclose(pd.read_csv("out.csv")["mean"], expected, rtol=1e-9)


@pytest.mark.parametrize("suffix", ["gpkg", "geojson"])
def test_points_in_and_out_keep_their_reference_system(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    crs = 27700 if suffix == "gpkg" else 4326
    points = geopandas.points_from_xy(rng.uniform(-3.0, 1.0, 60), rng.uniform(51.0, 54.0, 60))
    wells = geopandas.GeoDataFrame({"id": range(60), "level": rng.normal(size=60)}, geometry=points, crs=4326)
    wells = wells.to_crs(crs)
    wells.to_file(f"wells.{suffix}")
    columns = ["x", "y"] if crs == 27700 else ["longitude", "latitude"]
    options = ["--target", "level", "--kernel", "gaussian", "--columns", *columns]
    assert main(["fit", f"wells.{suffix}", *options, "--out", "model.lmgp"]) == 0
    assert main(["predict", "model.lmgp", f"wells.{suffix}", "--latent", "--out", f"out.{suffix}"]) == 0
    out, model = geopandas.read_file(f"out.{suffix}"), lmgp.load("model.lmgp")
    assert out.crs.to_epsg() == crs
    np.testing.assert_allclose(out.geometry.x, wells.geometry.x)
    np.testing.assert_allclose(out["mean"], model.predict(wells.geometry), rtol=1e-9)
    assert [*out.columns] == ["id", "level", "mean", "std", "lower", "upper", "geometry"]
    assert out["id"].tolist() == wells["id"].tolist()
    wells.loc[3, "geometry"] = None
    wells.to_file(f"gaps.{suffix}")
    assert main(["predict", "model.lmgp", f"gaps.{suffix}", "--out", "gaps.csv"]) == 2
    assert "1 of 60 rows have no point: leave these rows out (lmgp: --drop)" in capsys.readouterr().err
    assert main(["predict", "model.lmgp", f"gaps.{suffix}", "--drop", "--latent", "--out", "gaps.csv"]) == 0
    mean = pd.read_csv("gaps.csv")["mean"]
    assert mean.isna().to_numpy().nonzero()[0].tolist() == [3]
    np.testing.assert_allclose(mean.drop(3), out["mean"].drop(3))
    assert main(["predict", "model.lmgp", f"gaps.{suffix}", "--drop", "--out", "gaps.fgb"]) == 0
    assert geopandas.read_file("gaps.fgb")["id"].tolist() == wells["id"].tolist()
    wells = wells.drop(3)
    west, south, east, north = wells.total_bounds
    across, up = ("x", "y") if crs == 27700 else ("longitude", "latitude")
    grid = [f"{across}={west}:{east}:6", f"{up}={south}:{north}:5"]
    assert main(["predict", "model.lmgp", "--grid", *grid, "--out", "map.tif"]) == 0
    with rasterio.open("map.tif") as file:
        assert file.crs.to_epsg() == crs
    capsys.readouterr()
    wells.set_geometry(wells.buffer(0.1)).to_file("areas.gpkg")
    assert main(["predict", "model.lmgp", "areas.gpkg"]) == 2
    assert "areas.gpkg: Geometries must be points; got Polygon" in capsys.readouterr().err


@pytest.mark.slow
def test_a_table_of_dates_is_scored_and_drawn(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    when, rng = pd.date_range("2015-01-01", periods=96, freq="MS"), np.random.default_rng(0)
    table = pd.DataFrame({"when": when, "y": np.sin(np.arange(96) / 2.0) + 0.1 * rng.normal(size=96)})
    table.to_csv("dates.csv", index=False)
    table.assign(size=rng.normal(size=96)).to_csv("both.csv", index=False)
    for name in ("dates", "both"):
        options = ["--target", "y", "--kernel", "matern32", "--noise", "normal", "--out", f"{name}.lmgp"]
        assert main(["fit", f"{name}.csv", *options, "--quiet"]) == 0
        capsys.readouterr()
        assert main(["score", f"{name}.lmgp", f"{name}.csv", "--quiet"]) == 0
        printed = capsys.readouterr().out
        assert "mean of y" in printed
        assert "linear" not in printed
    for options in (["dates.csv"], []):
        assert main(["plot", "dates.lmgp", *options, "--out", "page.html", "--quiet"]) == 0
        assert "The band: " not in (page := Path("page.html").read_text())
        assert page.count("<img") == 2 + 2 * len(options)


def test_codes_keep_their_zeros(folder: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"zip": rng.choice(["01234", "1234", "03456"], 90), "size": rng.normal(size=90)})
    y = table["size"] + 3.0 * (table["zip"] == "01234")
    model = lmgp.GPRegressor(columns={"zip": "category"}, noise="normal").fit(table, y)
    model.save("model.lmgp")
    table.to_csv("new.csv", index=False)
    np.testing.assert_allclose(predicted("new.csv", "--latent")["mean"], model.predict(table), rtol=1e-5)
    of_grid = predicted("--grid", "zip=01234", "size=0", "--latent")
    np.testing.assert_allclose(
        of_grid["mean"], model.predict(pd.DataFrame({"zip": ["01234"], "size": [0.0]})), rtol=1e-5
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_category_may_be_called_none_and_end_in_spaces(ending: str, folder: Path) -> None:
    heating = ["none", "gas  ", "?", "NA", None] * 12
    table = pd.DataFrame({"size": np.random.default_rng(0).normal(size=60), "heating": heating})
    y = table["size"] + 3.0 * (table["heating"] == "none") - 2.0 * (table["heating"] == "gas  ")
    model = GPRegressor(missing="impute", **GIVEN).fit(table, y)
    model.save("model.lmgp")
    new = table[:5].assign(note="NA", length=["NA", "1", "none", "2", "3"])
    new.to_csv("new.csv", index=False) if ending == "csv" else new.to_parquet("new.parquet", index=False)
    np.testing.assert_allclose(predicted(f"new.{ending}", "--latent")["mean"], model.predict(table[:5]), rtol=1e-9)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_codes_and_seasons_are_categories_where_this_is_said(
    ending: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"zip": rng.choice([7, 12, 30], 90), "season": rng.choice(["2005-06", "2013-14"], 90)})
    table["price"] = 3.0 * (table["zip"] == 12) + (table["season"] == "2005-06") + 0.1 * rng.normal(size=90)
    table.to_csv("t.csv", index=False) if ending == "csv" else table.to_parquet("t.parquet", index=False)
    assert main(["fit", f"t.{ending}", *FIT, "--category", "zip", "--category", "season", "--out", "model.lmgp"]) == 0
    assert re.search(r"zip +3 categories\n +season +2 categories", capsys.readouterr().out)
    inputs = table[["zip", "season"]]
    expected = GPRegressor(
        kernel="matern32", noise="normal", columns={"zip": "category", "season": "category"}, random_state=0
    ).fit(inputs, table["price"])
    np.testing.assert_allclose(predicted(f"t.{ending}", "--latent")["mean"], expected.predict(inputs), rtol=1e-9)
    assert main(["fit", f"t.{ending}", *FIT, "--category", "zap", "--out", "no.lmgp"]) == 2
    assert "--category names inputs, and 'zap' is none of them; did you mean 'zip'?" in capsys.readouterr().err
    assert main(["fit", f"t.{ending}", *FIT, "--category", "price", "--out", "no.lmgp"]) == 2
    assert "--category names inputs, and 'price' is none of them" in capsys.readouterr().err
    inputs.assign(zip=["7", "x"] * 45, price=1.0).to_csv("codes.csv", index=False)
    assert main(["fit", "codes.csv", *FIT, "--out", "no.lmgp"]) == 2
    assert "(--category of lmgp fit)" in capsys.readouterr().err


def test_days_that_a_model_takes_as_numbers_may_be_either(folder: Path) -> None:
    days = pd.DataFrame({"day": np.arange(18262.0, 18322.0)})
    given: Any = {"kernel": "gaussian", "noise": "normal", "columns": {"day": "date"}}
    model = GPRegressor(**given).fit(days, np.sin(np.arange(60.0) / 9.0))
    model.save("model.lmgp")
    days.to_csv("days.csv", index=False)
    pd.DataFrame({"day": pd.date_range("2020-01-01", periods=60)}).to_csv("dates.csv", index=False)
    for name in ("days.csv", "dates.csv"):
        np.testing.assert_allclose(predicted(name, "--latent")["mean"], model.predict(days), atol=1e-9)


def test_a_pipeline_takes_the_columns_of_the_table(folder: Path) -> None:
    table = frame().assign(price=np.exp(frame()["price"]))
    regressor = GPRegressor(kernel="gaussian", noise="normal", columns={2: "asinh"})
    model = lmgp.TransformedTargetGPRegressor(make_pipeline(PolynomialFeatures(2, include_bias=False), regressor))
    model.fit(table[["lon", "lat"]], table["price"]).save("model.lmgp")
    np.testing.assert_allclose(predicted("train.csv")["mean"], model.predict(table[["lon", "lat"]]), rtol=1e-9)


def test_columns_named_x_and_y_beside_points_in_degrees_are_no_points(folder: Path) -> None:
    wells = frame().rename(columns={"lon": "x", "lat": "y"})
    geopandas.GeoDataFrame(wells, geometry=geopandas.points_from_xy(wells["x"], wells["y"], crs=4326)).to_file("w.gpkg")
    assert main(["fit", "w.gpkg", *FIT, "--columns", "x", "y", "--out", "model.lmgp"]) == 0
    assert lmgp.load("model.lmgp").columns_ is None


def test_points_are_those_of_a_projected_model_that_has_degrees_beside_them(folder: Path) -> None:
    wells = frame().rename(columns={"price": "level"})
    points = geopandas.points_from_xy(wells["lon"], wells["lat"], crs=4326).to_crs(27700)
    geopandas.GeoDataFrame(wells, geometry=points).to_file("wells.gpkg")
    options = ["--target", "level", "--kernel", "gaussian", "--noise", "normal", "--out", "model.lmgp", "--quiet"]
    assert main(["fit", "wells.gpkg", *options]) == 0
    wells.assign(x=points.x, y=points.y).to_csv("new.csv", index=False)
    assert main(["predict", "model.lmgp", "new.csv", "--out", "out.gpkg"]) == 0
    np.testing.assert_allclose(geopandas.read_file("out.gpkg").geometry.x, points.x)


def test_points_of_another_reference_system_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    places = geopandas.points_from_xy(rng.uniform(3e5, 4e5, 40), rng.uniform(2e5, 3e5, 40))
    wells = geopandas.GeoDataFrame(
        {"depth": rng.normal(size=40), "level": rng.normal(size=40)}, geometry=places, crs=27700
    )
    wells.to_file("wells.gpkg")
    wells.to_crs(3857).to_file("others.gpkg")
    columns = ["--columns", "depth", "x", "y"]
    options = ["--target", "level", "--kernel", "gaussian", "--noise", "normal", "--quiet"]
    assert main(["fit", "wells.gpkg", *options, *columns, "--out", "model.lmgp"]) == 0
    notes = load_with_header("model.lmgp")[1]["notes"]
    assert notes["ranges"][2] == pytest.approx([wells["depth"].min(), wells["depth"].max()])
    assert main(["predict", "model.lmgp", "others.gpkg", "--out", "out.csv"]) == 2
    assert "reference system EPSG:3857" in capsys.readouterr().err
    assert not Path("out.csv").exists()


@pytest.fixture
def doses(folder: Path) -> pd.DataFrame:
    """Rows of doses that are decimals, one of them of seventeen digits, as tables of three kinds."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(0.0, 5.0, 90), "dose": rng.choice([1 / 3, 0.1 + 0.2, 2.5], 90)})
    table["y"] = np.sin(table["x"]) + 3.0 * (table["dose"] == 2.5) - 2.0 * (table["dose"] == 1 / 3)
    table.to_csv("point.csv", index=False)
    table.to_csv("comma.csv", index=False, sep=";", decimal=",")
    table.to_parquet("table.parquet", index=False)
    return table


@pytest.mark.parametrize("fitted", ["point.csv", "comma.csv", "table.parquet", "in Python"])
def test_a_category_that_is_a_decimal_is_the_same_in_every_kind_of_table(doses: pd.DataFrame, fitted: str) -> None:
    options = {"comma.csv": ["--sep", ";", "--decimal", ","]}
    if fitted == "in Python":
        model = lmgp.GPRegressor(kernel="matern32", noise="normal", columns={"dose": "category"})
        model.fit(doses[["x", "dose"]], doses["y"]).save("model.lmgp")
    else:
        given = [*FIT[:4], "--category", "dose", "--target", "y", "--quiet", "--out", "model.lmgp"]
        assert main(["fit", fitted, *options.get(fitted, []), *given]) == 0
    for table in ("point.csv", "comma.csv", "table.parquet"):
        read = options.get(table, [])
        assert main(["predict", "model.lmgp", table, *read, "--out", "out.csv", "--quiet"]) == 0
        out = pd.read_csv("out.csv", **({"sep": ";", "decimal": ","} if read else {}))
        np.testing.assert_allclose(out["mean"], doses["y"], atol=0.2)


def test_texts_of_a_table_with_nulls_are_categories(folder: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.uniform(0.0, 9.0, 90), "kind": rng.choice(["none", "NA", "?", "gas", None], 90)})
    table["y"] = np.sin(table["x"]) + table["kind"].map({"none": 3.0, "NA": -3.0, "?": 0.0, "gas": 1.5}).fillna(6.0)
    table.to_parquet("table.parquet", index=False)
    assert main(["fit", "table.parquet", *FIT[:4], "--target", "y", "--quiet", "--out", "model.lmgp"]) == 0
    np.testing.assert_allclose(predicted("table.parquet")["mean"], table["y"], atol=0.2)


def test_an_axis_of_a_grid_may_be_a_category_that_reads_as_a_range(folder: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=60), "slot": ["06:00:03", "12:30:05", "18:00:02"] * 20})
    y = np.sin(table["x"]) + 5.0 * (table["slot"] == "12:30:05") + 0.1 * rng.normal(size=60)
    model = lmgp.GPRegressor(kernel="matern32", noise="normal").fit(table, y)
    model.save("model.lmgp")
    assert main(["predict", "model.lmgp", "--grid", "x=1", "slot=12:30:05", "--out", "out.csv", "--quiet"]) == 0
    found = pd.read_csv("out.csv")
    assert found["slot"].tolist() == ["12:30:05"]
    np.testing.assert_allclose(found["mean"], model.predict(pd.DataFrame({"x": [1.0], "slot": ["12:30:05"]})))
