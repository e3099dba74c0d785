"""The variogram of rows beside that of the model."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from lmgp import ExactGPRegressor, GaussianKernel, GPRegressor, MaternKernel, TransformedTargetGPRegressor, plots
from lmgp.errors import InputError
from lmgp.estimators.summary import summary


def drawn(ax: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, model = ax.get_lines()[:2]
    return rows.get_xdata(), rows.get_ydata(), model.get_ydata()


def field(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 6.0, (n, 2))
    covariance = np.asarray(MaternKernel(0.7, 2.0, smoothness=1.5)(X, X)) + 0.3 * np.eye(n)
    return X, 5.0 + np.linalg.cholesky(covariance) @ rng.normal(size=n)


def test_points_and_line_are_those_of_all_pairs() -> None:
    X, y = field()
    kernel = MaternKernel(0.7, 2.0, smoothness=1.5)
    model = ExactGPRegressor(kernel, 0.3).fit(X, y)
    at, rows, of_model = drawn(plots.variogram(model, X, y, n_bins=10))
    i, j = np.triu_indices(len(X), 1)
    distance = np.hypot(*(X[i] - X[j]).T)
    edges = np.linspace(0.0, 0.5 * distance.max(), 11)
    semivariance = np.asarray(0.3 + 2.0 - np.asarray(kernel(X, X))[i, j])
    for number in range(10):
        within = (distance >= edges[number]) & (distance < edges[number + 1])
        assert at[number] == pytest.approx(distance[within].mean())
        assert rows[number] == pytest.approx(np.mean(0.5 * np.square(y[i] - y[j])[within]))
        assert of_model[number] == pytest.approx(semivariance[within].mean())


def test_a_trend_is_left_out_and_noise_is_drawn() -> None:
    X, y = field()
    kernel = MaternKernel(0.7, 2.0, smoothness=1.5)
    steep = y + 20.0 * X[:, 0]
    ax = plots.variogram(ExactGPRegressor(kernel, 0.3, trend="linear").fit(X, steep), X, steep)
    flat = plots.variogram(ExactGPRegressor(kernel, 0.3, trend="linear").fit(X, y), X, y)
    np.testing.assert_allclose(drawn(ax)[1], drawn(flat)[1], rtol=1e-6)
    assert ax.get_lines()[2].get_ydata()[0] == pytest.approx(0.3)


def test_the_line_has_the_variance_of_noise_that_was_learned_under_a_t() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, 10.0, (400, 2))
    y = np.sin(X[:, 0]) * np.cos(X[:, 1]) + 0.25 * rng.standard_t(3, 400)
    model = ExactGPRegressor("gaussian", noise="student").fit(X, y)
    assert model.learning_.chosen.likelihood.endswith(", t")
    ax = plots.variogram(model, X, y)
    _, rows, line = drawn(ax)
    assert 0.7 < line[0] / rows[0] < 1.4
    variance = model.noise_variance_ * np.square((model.loo_.y - model.loo_.mean) / model.loo_.normal.std()).mean()
    assert ax.get_lines()[2].get_ydata()[0] == pytest.approx(variance, rel=1e-3)
    facts = summary(model).facts
    told = f"scale {model.noise_variance_**0.5:.3g} of a t, standard deviation {variance**0.5:.3g}"
    assert facts["noise"] == told
    _, _, deviations, *_ = str(facts["kernel"]).splitlines()
    assert float(deviations.split()[-1]) == pytest.approx(variance**0.5, rel=5e-3)


@pytest.mark.parametrize("n_bins", [0, 2.5])
def test_a_number_of_distances_is_a_positive_integer(n_bins: Any) -> None:
    X, y = field(80)
    with pytest.raises(InputError, match=f"n_bins must be a positive integer; got {n_bins}"):
        plots.variogram(ExactGPRegressor(GaussianKernel(), 0.3).fit(X, y), X, y, n_bins=n_bins)


def test_distances_are_in_km_on_the_sphere_and_in_lengthscales_of_many_columns() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.uniform(0.0, 10.0, (80, 2)), rng.normal(size=80)
    given: dict[str, Any] = {"noise_variance": 0.1, "noise": "normal"}
    ax = plots.variogram(GPRegressor(kernel=GaussianKernel(300.0), metric="sphere", **given).fit(X, y), X, y)
    assert ax.get_xlabel() == "distance in km"
    assert 300.0 < drawn(ax)[0].max() < 900.0
    many = rng.normal(size=(80, 5))
    ax = plots.variogram(GPRegressor(kernel=GaussianKernel(2.0), **given).fit(many, y), many, y)
    assert ax.get_xlabel() == "distance in lengthscales"


def test_what_has_no_variogram_is_refused() -> None:
    X, y = field(60)
    model = ExactGPRegressor(GaussianKernel(1.0), 0.1)
    with pytest.raises(InputError, match=r"needs 30 pairs of rows at a distance; got 3 rows"):
        plots.variogram(model.fit(X, y), X[:3], y[:3])
    with pytest.raises(InputError, match="of one target, y of shape"):
        plots.variogram(model.fit(X, np.column_stack((y, y))), X, np.column_stack((y, y)))
    transformed = TransformedTargetGPRegressor(model).fit(X, np.exp(y))
    with pytest.raises(InputError, match=r"got a TransformedTargetGPRegressor\. Of a transformed target give its"):
        plots.variogram(transformed, X, y)


def test_rows_with_gaps_have_distances_in_lengthscales() -> None:
    X = pd.DataFrame({"a": np.random.default_rng(0).normal(size=100)})
    X.loc[::9, "a"] = np.nan
    y = np.sin(np.arange(100.0))
    model = GPRegressor(kernel=GaussianKernel(1.0), noise_variance=0.1, noise="normal", missing="impute").fit(X, y)
    assert plots.variogram(model, X, y).get_xlabel() == "distance in lengthscales"
