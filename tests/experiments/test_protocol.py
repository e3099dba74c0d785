from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import lmgp
from lmgp import GaussianKernel
from lmgp.datasets import Dataset, load_dataset
from lmgp.errors import InputError
from lmgp.experiments.protocol import DEFAULT_METHODS, PROTOCOLS, Cell, Settings
from lmgp.methods import METHODS


def test_cells_cover_the_grid_and_only_local_methods_have_thresholds() -> None:
    settings = Settings(methods=("rff", "local_taylor"), n_features=(16, 8), thresholds=(2.0, 0.5), seeds=1)
    assert list(settings.cells(0)) == [
        Cell(0, "exact"),
        Cell(0, "rff", 8),
        Cell(0, "local_taylor", 8, 0.5),
        Cell(0, "local_taylor", 8, 2.0),
        Cell(0, "rff", 16),
        Cell(0, "local_taylor", 16, 0.5),
        Cell(0, "local_taylor", 16, 2.0),
    ]


def test_repeated_values_are_run_once() -> None:
    settings = Settings(methods=("rff", "rff"), n_features=(8, 8), seeds=1)
    assert list(settings.cells(0)) == [Cell(0, "exact"), Cell(0, "rff", 8)]


def test_default_comparison_has_the_peer_and_leaves_out_the_gaussian_sketches() -> None:
    assert "nystroem" in DEFAULT_METHODS
    left_out = {"global_maclaurin_gaussian", "local_maclaurin_gaussian", "global_taylor_energy"}
    assert set(METHODS) - set(DEFAULT_METHODS) == left_out


def test_a_method_without_a_size_is_one_cell_a_seed() -> None:
    settings = Settings(methods=("rff", "spectral"), n_features=(8, 16), seeds=1)
    assert list(settings.cells(2)) == [Cell(2, "exact"), Cell(2, "spectral"), Cell(2, "rff", 8), Cell(2, "rff", 16)]
    assert str(Cell(2, "spectral")) == "seed 2, spectral"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"methods": ("rf",)}, "'rff'"),
        ({"n_features": (32, 1)}, "n_features must be at least 2; got 1"),
        ({"thresholds": (0.0,)}, "got 0"),
        ({"thresholds": (float("nan"),)}, "got nan"),
        ({"thresholds": (float("inf"),)}, "got inf"),
        ({"seeds": 0}, "seed"),
        ({"max_train_rows": 1}, "max_train_rows must be at least 2; got 1"),
        ({"max_test_rows": 0}, "max_test_rows must be at least 1; got 0"),
        ({"protocol": PROTOCOLS["paper"], "ard": True}, "lengthscale"),
    ],
)
def test_settings_that_cannot_be_used(options: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings(**options)


def test_published_hyper_parameters_are_only_for_the_catalogue_s_own_inputs(make: Callable[..., Dataset]) -> None:
    paper = PROTOCOLS["paper"]
    with pytest.raises(InputError, match="yacht, kin8nm, uk_flats, uk_flats_2020-12"):
        paper.published_for(load_dataset("sinc"))
    as_published = replace(make(d=2), name="yacht")
    assert paper.published_for(as_published) == (0.318, 1650.0, 7.389, 200, False)
    for other in (replace(as_published, entry=None), replace(as_published, feature_names=("x1", "x0"))):
        with pytest.raises(InputError, match="'yacht' with inputs x"):
            paper.published_for(other)


@pytest.mark.parametrize("lengthscale", [2.0, [0.5, 3.0]])
def test_nystroem_with_all_landmarks_is_the_kernel(
    lengthscale: float | list[float], make: Callable[..., Dataset]
) -> None:
    X = make(n=20, d=2).X
    kernel = GaussianKernel(lengthscale, variance=7.0)
    features = METHODS["nystroem"].make(512, "local", 0)
    columns = features.set_params(kernel=kernel).fit_transform(X)
    assert columns.shape == (20, 20)
    np.testing.assert_allclose(columns @ columns.T, kernel(X), atol=1e-13)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "auto" or "GPRegressor" in lmgp.__all__])
def test_every_method_fits_and_follows_the_protocol(name: str, make: Callable[..., Dataset]) -> None:
    data = make(n=30, d=2)
    kernel = GaussianKernel(1.0, 2.0)
    for protocol in PROTOCOLS.values():
        model = METHODS[name].regressor(
            16,
            1.0 if METHODS[name].localized else None,
            allocation=protocol.allocation,
            random_state=3,
            kernel=kernel,
            noise_variance=0.1,
            approximation=protocol.approximation,
        )
        mean, std = model.fit(data.X, data.y).predict(data.X, return_std=True)
        assert np.all(np.isfinite(mean))
        assert np.all(np.isfinite(std))
        parameters = model.get_params()
        assert parameters.get("approximation", "fitc") == (protocol.approximation if METHODS[name].mapped else "fitc")
        assert parameters.get("features__allocation", protocol.allocation) == protocol.allocation
