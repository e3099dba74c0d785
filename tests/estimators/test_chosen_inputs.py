"""The model to start with on columns as they come: their units, and longitude and latitude."""

from typing import Literal

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from lmgp import ExactGPRegressor, GaussianKernel, GPRegressor, MaternKernel, SphericalCoordinates
from lmgp.errors import InputError

KERNEL = GaussianKernel(800.0, 1.5)


def sphere(**parameters: object) -> GPRegressor:
    defaults = {"kernel": KERNEL, "noise_variance": 0.01, "metric": "sphere", "random_state": 0, "methods": ["exact"]}
    return GPRegressor(**{**defaults, **parameters})


def degrees(points: np.ndarray) -> np.ndarray:
    """Longitude and latitude of unit vectors."""
    return np.degrees(np.column_stack((np.arctan2(points[:, 1], points[:, 0]), np.arcsin(points[:, 2]))))


def cap(n: int = 80) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unit vectors within about 2,000 km of (1, 0, 0), a function of them, and new ones."""
    rng = np.random.default_rng(0)
    points = np.column_stack((np.ones(n + 20), 0.25 * rng.normal(size=(n + 20, 2))))
    points /= np.linalg.norm(points, axis=1)[:, None]
    y = np.sin(8 * points[:, 1]) + points[:, 2] ** 2 + 0.1 * rng.normal(size=n + 20)
    return points[:n], y[:n], points[n:]


def rotation(axis: int, angle: float) -> np.ndarray:
    c, s = np.cos(np.radians(angle)), np.sin(np.radians(angle))
    matrix = np.eye(3)
    i, j = (one for one in range(3) if one != axis)
    matrix[[i, i, j, j], [i, j, i, j]] = c, -s, s, c
    return matrix


PLACES = {"date line": rotation(2, 180.0), "pole": rotation(1, 90.0), "between": rotation(1, 40.0) @ rotation(2, 70.0)}


class TestSphere:
    @pytest.mark.slow
    @pytest.mark.parametrize("place", PLACES)
    @pytest.mark.parametrize("learned", [False, True])
    def test_predictions_do_not_depend_on_where_on_the_sphere(self, place: str, learned: bool) -> None:
        points, y, new = cap()
        turned, new_turned = points @ PLACES[place].T, new @ PLACES[place].T
        if place == "date line":
            assert np.ptp(degrees(turned)[:, 0]) > 350
        if place == "pole":
            assert np.ptp(degrees(turned)[:, 0]) > 300
        parameters = {"kernel": "auto", "noise_variance": None} if learned else {}
        expected = sphere(**parameters).fit(degrees(points), y).predict(degrees(new), return_std=True)
        found = sphere(**parameters).fit(degrees(turned), y).predict(degrees(new_turned), return_std=True)
        np.testing.assert_allclose(found, expected, rtol=2e-3 if learned else 1e-8)

    def test_it_is_the_exact_process_of_the_points_in_km(self) -> None:
        points, y, new = cap()
        X, T = degrees(points), degrees(new)
        model = sphere().fit(X, y)
        exact = ExactGPRegressor(KERNEL, 0.01).fit(6371.0088 * points, y)
        np.testing.assert_allclose(
            model.predict(T, return_std=True), exact.predict(6371.0088 * new, return_std=True), rtol=1e-9
        )
        pipeline = make_pipeline(SphericalCoordinates(), ExactGPRegressor(KERNEL, 0.01)).fit(X, y)
        np.testing.assert_allclose(pipeline.predict(T), model.predict(T), rtol=1e-9)

    @pytest.mark.parametrize("fitted", [None, "sphere"])
    @pytest.mark.parametrize("chunk_rows", [None, 40])
    def test_a_fitted_model_does_not_depend_on_the_parameter(
        self, fitted: Literal["sphere"] | None, chunk_rows: int | None
    ) -> None:
        points, y, new = cap()
        X, T = degrees(points), degrees(new)
        for methods in (["orf"],) if chunk_rows else (["orf"], ["nearest_rows"]):
            given = {"metric": fitted, "methods": methods, "noise": "normal", "tolerance": 10.0}
            model, other = (sphere(**given).fit(X, y, chunk_rows=chunk_rows) for _ in range(2))
            model.set_params(metric=None if fitted else "sphere")
            np.testing.assert_array_equal(model.predict(T), other.predict(T))
            if methods != ["orf"] or chunk_rows:
                updated = (one.partial_fit(T, y[:20]).predict(T) for one in (model, other))
                np.testing.assert_array_equal(*updated)
            again = sphere(**given).set_params(metric=model.metric)
            np.testing.assert_array_equal(model.fit(X, y).predict(T), again.fit(X, y).predict(T))

    def test_learned_lengthscales_of_the_three_columns_are_equal_and_in_km(self) -> None:
        points, y, _ = cap()
        other = np.random.default_rng(1).normal(size=len(y)) * 1e6
        model = sphere(kernel="matern32", ard=False).fit(np.column_stack((degrees(points), other)), y)
        x, y_, z, last = model.kernel_.lengthscale
        assert x == y_ == z
        assert 100 < x < 20_000
        assert last > 1e5

    def test_the_callers_columns_stay_the_callers(self) -> None:
        points, y, _ = cap()
        lon, lat = degrees(points).T
        df = pd.DataFrame({"height": np.arange(len(y)), "Lat": lat, "LON": lon})
        model = sphere(kernel=GaussianKernel([800.0, 800.0, 800.0, 50.0])).fit(df, y)
        assert model.n_features_in_ == 3
        assert list(model.feature_names_in_) == ["height", "Lat", "LON"]
        points_km = np.column_stack((6371.0088 * points, df["height"]))
        exact = ExactGPRegressor(model.kernel_, 0.01).fit(points_km, y)
        np.testing.assert_allclose(model.predict(df), exact.predict(points_km), rtol=1e-9)
        with pytest.raises(ValueError, match=r"(?s)missing.*height"):
            model.predict(df[["Lat", "LON"]])
        assert clone(model).metric == "sphere"

    def test_a_lengthscale_for_each_column_is_one_of_x_y_z_and_the_others(self) -> None:
        points, y, _ = cap()
        with pytest.raises(InputError, match=r"shape \(3,\) for these rows; got shape \(2,\)"):
            sphere(kernel=GaussianKernel([800.0, 800.0])).fit(degrees(points), y)

    def test_coordinates_out_of_range_are_refused_at_fit_and_at_predict(self) -> None:
        points, y, _ = cap()
        X = degrees(points)
        with pytest.raises(InputError, match=r"latitude must be within.*swapped"):
            sphere().fit(X[:, ::-1] * [1.0, 3.0], y)
        with pytest.raises(InputError, match="longitude must be within"):
            sphere().fit(X, y).predict([[400.0, 0.0]])
        with pytest.raises(InputError, match="two columns"):
            sphere().fit(X[:, :1], y)
        with pytest.raises(InputError, match="One column must be named 'lon'"):
            sphere().fit(pd.DataFrame(X, columns=["east", "north"]), y)

    def test_a_trend_of_latitude_and_other_columns(self) -> None:
        points, y, _ = cap()
        df = pd.DataFrame(degrees(points), columns=["lon", "lat"])
        df["height"] = np.random.default_rng(1).normal(size=len(y))
        y = y + 5.0 * df["height"].to_numpy()
        kernel = GaussianKernel([800.0, 800.0, 800.0, 2.0])
        points_km = np.column_stack((6371.0088 * points, df["height"]))
        for trend, inner, names in (
            (["height"], [3], ("height",)),
            (["height", "lat"], [3, 2], ("height", "z_km")),
            ("linear", "linear", ("x_km", "y_km", "z_km", "height")),
        ):
            model = sphere(kernel=kernel, trend=trend).fit(df, y)
            exact = ExactGPRegressor(kernel, 0.01, trend=inner).fit(points_km, y)
            np.testing.assert_allclose(model.predict(df), exact.predict(points_km), rtol=1e-7)
            assert model.trend_.names == names
        by_index = sphere(kernel=kernel, trend=[2]).fit(df.to_numpy(), y)
        assert by_index.trend_.names == ("x2",)
        assert by_index.trend_.coef == pytest.approx(5.0, abs=0.2)

    def test_another_metric_is_refused(self) -> None:
        with pytest.raises(ValueError, match="'metric' parameter of GPRegressor must be"):
            sphere(metric="haversine").fit(*cap()[:2])


class TestUnits:
    def table(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(150, 3)) * [1e-4, 1.0, 1e5] + [0.0, 300.0, -1e6]
        return X, np.sin(X[:, 0] * 1e4) + 0.5 * X[:, 2] / 1e5 + 0.1 * rng.normal(size=150)

    def test_lengthscales_come_out_in_the_units_of_the_columns(self) -> None:
        X, y = self.table()
        model = GPRegressor(kernel="matern52", methods=["exact"], ard=False, random_state=0).fit(X, y)
        in_deviations = model.kernel_.lengthscale / X.std(axis=0)
        np.testing.assert_allclose(in_deviations, in_deviations[0], rtol=1e-10)
        assert model.score(X, y) > 0.9

    @pytest.mark.slow
    @pytest.mark.parametrize("ard", [False, "auto"])
    def test_none_is_a_gaussian(self, ard: Literal["auto"] | bool) -> None:
        X, y = self.table()
        model, named = (
            GPRegressor(kernel=kernel, ard=ard, methods=["exact"], random_state=0).fit(X, y)
            for kernel in (None, "gaussian")
        )
        assert repr(model.kernel_) == repr(named.kernel_)

    def test_numpy_s_truth_is_truth(self) -> None:
        X, y = self.table()
        model, same = (ExactGPRegressor(ard=ard, random_state=0).fit(X, y) for ard in (np.True_, True))
        np.testing.assert_array_equal(model.kernel_.lengthscale, same.kernel_.lengthscale)
        assert model.kernel_.lengthscale.shape == (3,)

    def test_a_given_kernel_is_used_as_it_is(self) -> None:
        X, y = self.table()
        kernel = MaternKernel([1e-4, 1.0, 1e5])
        model = GPRegressor(kernel=kernel, noise_variance=0.01, methods=["exact"]).fit(X, y)
        assert model.kernel_.lengthscale == kernel.lengthscale

    def test_a_constant_column_changes_no_prediction(self) -> None:
        X, y = self.table()
        more = np.column_stack((X, np.full(len(y), 1e9)))
        scales = np.array([1e-4, 1.0, 1e5, 3.0])
        expected, model = (
            GPRegressor(kernel=GaussianKernel(scales[: Z.shape[1]]), noise_variance=0.01, methods=["exact"]).fit(Z, y)
            for Z in (X, more)
        )
        np.testing.assert_allclose(model.predict(more), expected.predict(X), rtol=1e-10)

    @pytest.mark.slow
    @pytest.mark.parametrize("kernel", ["gaussian", "matern52"])
    def test_a_constant_column_is_no_obstacle_to_learning(self, kernel: str) -> None:
        X, y = self.table()
        more = np.column_stack((X, np.full(len(y), 1e9)))
        # At the optimum nothing changes; draws around it have one more number, and so are others.
        for average, near in ((False, 1e-5), ("auto", 5e-3)):
            expected, model = (
                GPRegressor(kernel=kernel, methods=["exact"], average=average, random_state=0).fit(Z, y)
                for Z in (X, more)
            )
            assert np.all(np.isfinite(model.kernel_.theta))
            np.testing.assert_allclose(model.predict(more), expected.predict(X), atol=near * y.std())

    @pytest.mark.slow
    def test_a_constant_column_costs_no_likelihood(self) -> None:
        X, y = self.table()
        more = np.column_stack((X, np.full(len(y), 1e9)))
        without, found = (
            ExactGPRegressor(model.kernel_, model.noise_variance_).fit(Z, y).log_marginal_likelihood_
            for Z in (X, more)
            for model in [GPRegressor(kernel=["gaussian", "matern52"], methods=["exact"], random_state=0).fit(Z, y)]
        )
        assert found > without - 0.01 * len(y)


def test_the_model_of_coordinates_prints() -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=120), "place": rng.choice(list("abc"), 120), "z": rng.normal(size=120)})
    X.loc[3, "z"] = np.nan
    y = rng.normal(size=120) + X["x"]
    model = GPRegressor(kernel="gaussian", noise="normal", trend=["x"], missing="impute", average=False).fit(X, y)
    inner = model.model_
    assert "kernel" in str(inner)
    assert inner.importance_.shape == (inner.n_features_in_,)
    assert inner.trend == model._fitted.trend.index.tolist()
