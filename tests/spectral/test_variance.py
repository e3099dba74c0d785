"""Which model the variance is from, and that the fitted model says so."""

import numpy as np
import pytest

from lmgp import GaussianKernel, MaternKernel, SpectralGPRegressor
from lmgp.locality.placement import cover
from lmgp.spectral import variance as module
from lmgp.spectral.variance import PLAN
from lmgp.validation import Rows


def fitted(kernel, n: int, extent: float) -> SpectralGPRegressor:
    rng = np.random.default_rng(0)
    X = rng.uniform(0.0, extent, (n, 2))
    model = SpectralGPRegressor(1e-2, kernel=kernel, noise_variance=0.1)
    return model.fit(X, np.sin(X).sum(axis=1) + 0.3 * rng.normal(size=n))


def test_of_few_modes_it_is_exact() -> None:
    model = fitted(GaussianKernel(2.0), 3000, 10.0)
    assert model.error_.n_modes <= PLAN.few
    assert model.variance_by_ == "exact, from all modes"


def test_of_few_rows_it_is_exact() -> None:
    model = fitted(GaussianKernel(0.5), 800, 20.0)
    assert model.error_.n_modes > PLAN.few
    assert model.variance_by_ == "exact, from all rows"


def test_of_a_gaussian_it_is_from_taylor_features() -> None:
    model = fitted(GaussianKernel(0.5), 3000, 20.0)
    rows = Rows(model._fitted.rows.X, model._fitted.rows.y)
    n_centroids = len(cover(rows, model.kernel_, PLAN.thresholds[1]))
    assert f"Taylor features around {n_centroids} centroids" in model.variance_by_
    assert int(model.variance_by_.split()[1]) in {(p + 1) * (p + 2) // 2 for p in range(30)}


@pytest.mark.parametrize("k", [64, 512])
def test_of_others_it_is_from_the_nearest_rows(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PLAN", module.Plan(neighbors=(k, 2 * k)))
    model = fitted(MaternKernel(1.0), 2500, 20.0)
    assert model.variance_by_ in (f"from the nearest {k} rows", f"from the nearest {2 * k} rows")
