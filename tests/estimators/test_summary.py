"""The summary of a fitted model: in `print`, in notebooks, in `lmgp info` and on the page of `lmgp plot`."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lmgp
from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LinearKernel,
    MaternKernel,
    NearestNeighborsGPRegressor,
    RandomFourierFeatures,
    TransformedTargetGPRegressor,
)
from lmgp.columns.categories import ManyCategories
from lmgp.columns.dates import Dates
from lmgp.columns.numbers import AsinhScale, Numbers
from lmgp.columns.places import OnTurnedAxes
from lmgp.columns.table import Columns
from lmgp.distributions.left_out import LeftOut
from lmgp.distributions.noise import ObservationNoise
from lmgp.estimators import MultiTargetGPRegressor
from lmgp.estimators.base import GaussianProcess
from lmgp.estimators.summary import averaged_kernels, observations, summary
from lmgp.kernels.table import row_variances
from lmgp.posteriors.average import WeightedKernel
from lmgp.utils.facts import Table

KERNEL = MaternKernel(2.0) + LinearKernel(variance=0.1)
RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 8.0, (60, 2))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * RNG.normal(size=60)


def table_of(model: Any) -> dict[str, dict[str, str]]:
    """The cells of the table of a model's kernel, by the names of their line and column."""
    (table,) = (told for name, told in summary(model).facts.items() if name.startswith("kernel"))
    assert isinstance(table, Table)
    return {name: dict(zip(table.heading[1:], line, strict=True)) for name, *line in table.lines}


@pytest.fixture(scope="module")
def houses() -> tuple[pd.DataFrame, pd.Series]:
    """A table with places, numbers with heavy tails and gaps, categories and dates."""
    rng, n = np.random.default_rng(0), 100
    table = pd.DataFrame({
        "income": np.exp(rng.normal(10.0, 1.5, n)),
        "lon": rng.uniform(-6.0, 2.0, n),
        "lat": rng.uniform(50.0, 55.0, n),
        "rooms": rng.integers(1, 8, n).astype(float),
        "kind": rng.choice(["flat", "house", "semi"], n),
        "sold": pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 2000, n), "D"),
    })  # fmt: skip
    y = np.sin(table["lon"]) + 0.3 * table["rooms"] + (table["kind"] == "flat") + 0.1 * rng.normal(size=n)
    table.loc[::9, "rooms"] = np.nan
    return table, y


@pytest.fixture(scope="module")
def model(houses: tuple[pd.DataFrame, pd.Series]) -> GPRegressor:
    options: dict[str, Any] = {"columns": {"income": "log"}, "missing": "impute", "metric": "sphere"}
    found = GPRegressor(
        kernel="matern32+categories", average=False, noise="student", trend="constant", random_state=0, **options
    )
    return found.fit(*houses)


@pytest.mark.slow
def test_lines_speak_of_the_columns_of_the_table_in_their_units(model: GPRegressor) -> None:
    found, kernel, names = table_of(model), model.kernel_, list(model._table.coordinate_names)
    assert set(found) == {
        "share of the variance",
        "standard deviation",
        "income, on the log scale",
        "lon, lat, km",
        "rooms",
        "kind, correlation of categories",
        "sold, days",
        "sold in the year, days",
    }
    matern, categories = (factor for (factor,) in kernel.terms)
    lengthscales = dict(zip(names, matern.lengthscale, strict=True))
    for name, expected in {
        "income, on the log scale": lengthscales["income"],
        "lon, lat, km": lengthscales["x_km"],
        "rooms": lengthscales["rooms"],
        "sold, days": lengthscales["sold"],
        "sold in the year, days": lengthscales["sold in the year, cos"] * 365.2425 / (2.0 * np.pi),
    }.items():
        written = found[name]["Matérn 3/2"]
        assert float(written.replace(",", "")) == pytest.approx(expected, rel=5e-3)
        assert found[name]["categories"] == found[name]["noise"] == ""
    of_categories = [j for j, name in enumerate(names) if name.startswith("kind")]
    flat, house = np.zeros((2, len(names)))
    flat[of_categories], house[of_categories] = model._table.kinds[3].coordinates(
        np.array([[0.0], [1.0]]), np.zeros((2, 1))
    )
    for factor, title in ((matern, "Matérn 3/2"), (categories, "categories")):
        (variance, covariance), _ = factor([flat, house])
        assert float(found["kind, correlation of categories"][title]) == pytest.approx(covariance / variance, abs=6e-4)


def test_lines_are_in_the_order_of_importance(model: GPRegressor) -> None:
    inputs = ["income", "lon", "lat", "rooms", "kind", "sold"]
    ranked = [inputs[j] for j in np.argsort(-model.importance_)]
    lines = [re.split(r", | in ", name)[0] for name in list(table_of(model))[2:]]
    assert list(dict.fromkeys(lines)) == [name for name in ranked if name != "lat"]


def test_shares_are_of_the_variances_over_the_training_rows(model: GPRegressor) -> None:
    variances = np.append(row_variances(model.kernel_, model._posterior().rows.X), model.noise_variance_)
    found = table_of(model)
    assert list(found["share of the variance"].values())[1:] == [f"{one:.1%}" for one in variances / variances.sum()]
    assert list(found["standard deviation"].values())[1:] == [f"{one:.3g}" for one in np.sqrt(variances)]


def test_a_summary_says_how_good_the_model_is_and_what_was_learned_and_chosen(model: GPRegressor) -> None:
    facts = summary(model).facts
    assert facts["model"] == "GPRegressor, which chose ExactGPRegressor"
    assert facts["fitted to"] == "100 rows, by income, lon, lat, rooms, kind, sold"
    assert facts["learned"] == "matern32+categories, by the likelihood (exact) of 100 rows"
    assert facts["chosen"] == "the exact process"
    loo = model.loo_
    r2 = 1.0 - np.square(loo.y - loo.mean).mean() / loo.y.var()
    assert isinstance(model.noise_, ObservationNoise)
    density = model.noise_.chosen.alone
    assert facts["scores"] == (
        f"R² {r2:.3f}, RMSE {loo.rmse:.3g}, log density {density:.3f} nats, of 100 rows left out"
    )
    assert density == pytest.approx(-loo.nlpd, rel=1e-6)


def test_errors_of_means_are_weighted_and_of_rows_left_out_by_themselves() -> None:
    rng = np.random.default_rng(0)
    y, weights, alone = rng.normal(size=80), rng.integers(1, 4, 80).astype(float), np.arange(80) < 60
    mean, zeros = y + 0.1 * rng.normal(size=80), np.zeros((80, 1))
    noise, _ = ObservationNoise.fitted("student", LeftOut(zeros, y, mean, np.ones(80), alone, weights))
    repeated, means = (np.repeat(one[alone], weights[alone].astype(int)) for one in (y, mean))
    assert noise.rmse == pytest.approx(np.sqrt(np.square(repeated - means).mean()), rel=1e-12)
    assert noise.r2 == pytest.approx(1.0 - noise.rmse**2 / repeated.var(), rel=1e-12)


def test_a_fitted_model_prints_as_its_summary_and_its_repr_stays(model: GPRegressor) -> None:
    assert str(model) == str(summary(model))
    assert repr(model).startswith("GPRegressor(average=False,")
    assert str(clone(model)) == repr(clone(model)) == repr(model)
    bundle = model._repr_mimebundle_()
    assert bundle["text/plain"] == str(model)
    assert bundle["text/html"].startswith(summary(model)._repr_html_())


def test_showing_a_model_computes_nothing_that_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(self: Any) -> None:
        raise AssertionError("computed to be shown")

    for name in ("loo_", "importance_", "importance_error_", "log_marginal_likelihood_"):
        monkeypatch.setattr(GaussianProcess, name, property(slow))
    fitted = NearestNeighborsGPRegressor(10, kernel=GaussianKernel(2.0), noise_variance=0.01).fit(X, Y)
    piped = make_pipeline(StandardScaler(), clone(fitted)).fit(X, Y)
    assert "importance" not in str(fitted)
    for shown in (fitted, piped):
        assert "NearestNeighborsGPRegressor" in shown._repr_mimebundle_()["text/html"]


def test_a_kernel_that_is_given_has_the_names_of_an_array() -> None:
    fitted = ExactGPRegressor(KERNEL, 0.01).fit(X, Y)
    found = table_of(fitted)
    assert found["x1"] == {"s.d.": f"{X[:, 1].std():.3g}", "Matérn 3/2": "2", "linear": "slope ±0.316", "noise": ""}
    shares = [float(one.rstrip("%")) for one in list(found["share of the variance"].values())[1:]]
    assert sum(shares) == pytest.approx(100.0, abs=0.2)
    assert set(found) == {"share of the variance", "standard deviation", "x0", "x1"}


def test_one_column() -> None:
    found = table_of(ExactGPRegressor(MaternKernel(2.0), 0.01).fit(pd.DataFrame({"day": X[:, 0]}), Y))
    assert found["day"]["Matérn 3/2"] == "2"


def test_beside_a_trend_shares_are_of_what_it_leaves() -> None:
    fitted = ExactGPRegressor(MaternKernel(2.0), 0.01, trend="linear").fit(X, Y)
    facts = summary(fitted).facts
    assert "kernel, around the trend" in facts
    assert str(facts["trend"]) == str(fitted.trend_)


def test_a_model_that_keeps_no_rows_has_the_shares_that_fit_noted(tmp_path: Path) -> None:
    learned = FeaturizedGPRegressor(RandomFourierFeatures(20, random_state=0), kernel="gaussian").fit(X, Y)
    before = str(learned)
    learned.save(tmp_path / "model.lmgp")
    assert str(lmgp.load(tmp_path / "model.lmgp")) == before
    given = FeaturizedGPRegressor(RandomFourierFeatures(20, random_state=0), kernel=GaussianKernel(2.0, 3.0))
    given.set_params(noise_variance=1.0).fit(X, Y).save(tmp_path / "given.lmgp")
    shares = table_of(lmgp.load(tmp_path / "given.lmgp"))["share of the prior variance"]
    assert shares == {"s.d.": "", "Gaussian": "75.0%", "noise": "25.0%"}


def test_shares_of_a_stream_are_those_of_its_rows() -> None:
    map_of = RandomFourierFeatures(20, random_state=0)
    given = {"kernel": KERNEL.parts[0], "noise_variance": 0.01}
    in_chunks = FeaturizedGPRegressor(map_of, **given).fit([(X[:30], Y[:30]), (X[30:], Y[30:])])
    assert table_of(in_chunks)["share of the variance"].keys() == {"s.d.", "Matérn 3/2", "noise"}


def test_several_targets_share_a_table_or_have_one_each() -> None:
    targets = pd.DataFrame({"price": Y, "rent": np.cos(X[:, 0]) + 0.1 * RNG.normal(size=60)})
    shared = ExactGPRegressor(kernel="gaussian", noise="student", trend="linear").fit(X, targets)
    facts = summary(shared).facts
    assert [name for name in facts if name.startswith("trend")] == ["trend of price", "trend of rent"]
    for name in ("targets", "observations", "scores", "importance"):
        told = facts[name]
        assert isinstance(told, str)
        assert [line.split()[0] for line in told.splitlines()] == ["price", "rent"]
    each = MultiTargetGPRegressor(ExactGPRegressor(MaternKernel(2.0), 0.01)).fit(X, targets)
    tables = {name: told for name, told in summary(each).facts.items() if isinstance(told, Table)}
    assert list(tables) == ["price: kernel", "rent: kernel"]


def test_of_a_transformed_target_the_kernel_is_that_of_its_logarithm() -> None:
    given = ExactGPRegressor(MaternKernel(2.0), 0.01)
    for regressor in (given, make_pipeline(StandardScaler(), given)):
        fitted = TransformedTargetGPRegressor(regressor).fit(X, np.exp(Y))
        facts = summary(fitted).facts
        assert facts["target"] == "its logarithm is modelled: kernel, noise and trend are in those units"
        assert str(facts["noise"]).endswith("standard deviation 0.1 of the logarithm: 10.5% of the target")
        assert table_of(fitted)["x0"]["Matérn 3/2"] == "2"
        assert str(fitted) == str(summary(fitted))


def test_of_a_pipeline_it_is_that_of_the_last_step_and_names_the_others() -> None:
    X, y = np.random.default_rng(0).normal(size=(2, 40, 2))
    process = ExactGPRegressor(GaussianKernel(1.0), 0.1)
    of_steps = summary(make_pipeline(StandardScaler(), process).fit(X, y[:, 0])).facts
    of_process = summary(clone(process).fit(StandardScaler().fit_transform(X), y[:, 0])).facts
    assert of_steps["model"] == "ExactGPRegressor, of what StandardScaler() make of the columns"
    assert {name: str(one) for name, one in of_steps.items() if name != "model"} == {
        name: str(one) for name, one in of_process.items() if name != "model"
    }


def test_points_of_a_geo_data_frame_have_a_lengthscale_in_km() -> None:
    geopandas = pytest.importorskip("geopandas")
    points = geopandas.points_from_xy(X[:, 0] - 6.0, X[:, 1] + 50.0)
    frame = geopandas.GeoDataFrame({"depth": X[:, 0]}, geometry=points, crs="EPSG:4326")
    found = table_of(GPRegressor(kernel=MaternKernel(300.0), noise_variance=0.01).fit(frame, Y))
    assert found["longitude, latitude, km"]["Matérn 3/2"] == "300"


def test_every_kind_of_column_has_a_label_for_each_of_its_lengthscales() -> None:
    dates = Dates("2015-01-01", ("week",), (30.0,))
    many = ManyCategories(("a", "b"))
    columns = Columns(
        (OnTurnedAxes(30.0), dates, many, Numbers(3, AsinhScale("asinh", 0.0, 1.0)), Numbers(3)),
        ((1, 3), (0,), (2,), (4,), (5,)),
        ("day", "east", "zip", "north", "income", "rooms"),
    )
    assert [(label.name, label.unit, label.columns, label.inputs) for label in columns.labels] == [
        ("east, north along 30°", "", (0,), (1, 3)),
        ("east, north across 30°", "", (1,), (1, 3)),
        ("day", "days", (2,), (0,)),
        ("day in the week", "days", (3, 4), (0,)),
        ("day in the period of 30 days", "days", (5, 6), (0,)),
        ("zip, effect", "", (7,), (2,)),
        ("zip, its standard deviation", "", (8,), (2,)),
        ("income", "on the asinh scale", (9, 10), (4,)),
        ("rooms", "", (11, 12), (5,)),
    ]
    assert columns.labels[4].factor == pytest.approx(30.0 / (2.0 * np.pi))


def test_categories_alone() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"kind": rng.choice(["flat", "house"], 60)})
    y = (table.kind == "flat") + rng.normal(size=60)
    found = table_of(GPRegressor(random_state=0, average=False, noise="normal").fit(table, y))
    assert list(found) == ["share of the variance", "standard deviation", "kind, correlation of categories"]


def weighted(*weights: float) -> list[WeightedKernel]:
    kernels = [MaternKernel(1.0) + GaussianKernel(1.0), MaternKernel(2.0) * MaternKernel(1.0, smoothness=0.5)]
    return [WeightedKernel(kernels[k % 2], 0.1, weight) for k, weight in enumerate(weights)]


def test_few_kernels_are_named_with_their_weights() -> None:
    assert averaged_kernels(weighted(0.7, 0.2, 0.1)) == (
        "0.7 of this kernel, 0.2 of Matérn 3/2 × Matérn 1/2, 0.1 of Matérn 3/2 + Gaussian"
    )


def test_many_kernels_are_counted() -> None:
    assert averaged_kernels(weighted(0.04, *[0.06] * 16)) == (
        "17 kernels that the rows leave plausible, this one with the weight 0.04"
    )


@pytest.mark.parametrize(("degrees", "shape"), [(2.25, "Student t of 2.25 degrees of freedom"), (1e4, "normal")])
def test_a_t_that_is_nearly_normal_is_called_so(degrees: float, shape: str) -> None:
    noise: Any = SimpleNamespace(name="varying", degrees=degrees, chosen=SimpleNamespace(least=0.5, most=1.25))
    assert observations(noise) == f"{shape}, 0.5 to 1.25 times the standard deviation"
