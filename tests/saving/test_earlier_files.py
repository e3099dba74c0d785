"""Model files that an earlier version wrote, in version 1 of the format: each later version reads them.

They are of 12 rows, `rows()`. A file of a class that changes is not written anew: the change has to read it.
"""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lmgp
from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    GPRegressor,
    LocalizedGPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    OrthogonalFourierFeatures,
    ResidualGPRegressor,
    TaylorFeatures,
    TransformedTargetGPRegressor,
)
from lmgp.saving.upgrades import UPGRADES

FILES = Path(__file__).parent / "files"
MATERN = MaternKernel(0.7, smoothness=1.5)
KERNEL = GaussianKernel([0.8, 1.5], 1.2)
NEW = np.array([[0.0, 0.0], [0.5, -0.5]])

# The model of each file, and the means and standard deviations of `NEW` that the version which wrote it predicted.
WRITTEN: dict[str, tuple[Any, list[list[float]]]] = {
    "exact": (
        ExactGPRegressor(MaternKernel(0.7, smoothness=1.5) + GaussianKernel(2.0), 0.02, trend=[0]),
        [[0.08510423896699865, 0.9269018555793529], [0.4792375751117467, 0.2777133632232896]],
    ),
    "featurized": (
        FeaturizedGPRegressor(OrthogonalFourierFeatures(8), kernel=KERNEL, noise_variance=0.02, random_state=0),
        [[0.13852778448119435, 0.8200126011616156], [0.08514622102317507, 0.06592912145246622]],
    ),
    "localized": (
        LocalizedGPRegressor(TaylorFeatures(10), threshold=1.0, kernel=KERNEL, noise_variance=0.02),
        [[0.11453075477424252, 0.9553511494372176], [0.10893903658884674, 0.08307314342887014]],
    ),
    "nearest": (
        NearestNeighborsGPRegressor(6, kernel=MATERN, noise_variance=0.02, trend=[0]),
        [[0.14005000924492533, 0.9024868065743845], [0.4960327740832247, 0.29217363765748633]],
    ),
    "residual": (
        ResidualGPRegressor(NystroemFeatures(5), 6, kernel=MATERN, noise_variance=0.02, random_state=0),
        [[0.0956172203708528, 0.9213618006076583], [0.4790409136073718, 0.2776490907890466]],
    ),
    "transformed": (
        TransformedTargetGPRegressor(ExactGPRegressor(KERNEL, 0.02), "log1p"),
        [[2.0413900160251326, 3.036721744020777], [0.3290377383966262, 0.32923824322740436]],
    ),
    "chosen": (
        GPRegressor(kernel=KERNEL, noise_variance=0.02, random_state=0),
        [[0.10423947651727511, 0.9578625915021715], [0.10787205849758176, 0.081425644750491]],
    ),
}


# Of models without standard deviations: their decision values or predictions.
WITHOUT_STD: dict[str, list[float]] = {
    "quadratic": [-0.8213050360205316, -1.0156912147614408],
    "taylor": [0.45018060555841943, 0.750069608038195],
    "sgd_rows": [0.2520485136318069, 0.8141539159583444],
    "sgd_weights": [0.7386721721831091, 1.439690558579528],
}


def rows() -> tuple[np.ndarray, np.ndarray]:
    """The rows that the models were fitted to."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (12, 2))
    return X, np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=12)


@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_of_version_1_predicts_what_it_did(name: str) -> None:
    path = FILES / f"version_1_{name}.lmgp"
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("model.json"))["version"] == 1
    unfitted, predicted = WRITTEN[name]
    model = lmgp.load(path)
    assert type(model) is type(unfitted)
    found = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(found, predicted, rtol=1e-9)
    if name not in ("featurized", "residual"):  # whose random maps may be drawn otherwise by later versions
        X, y = rows()
        noises = {"noise_variances": np.linspace(0.01, 0.05, 12)} if name == "nearest" else {}
        y = y + 2.0 if name == "transformed" else y
        np.testing.assert_allclose(unfitted.fit(X, y, **noises).predict(NEW, return_std=True), predicted, rtol=1e-6)


@pytest.mark.parametrize("name", WITHOUT_STD)
def test_a_file_of_another_model_of_version_1_answers_what_it_did(name: str) -> None:
    model = lmgp.load(FILES / f"version_1_{name}.lmgp")
    answer = getattr(model, "decision_function", model.predict)
    np.testing.assert_allclose(np.ravel(answer(NEW)), WITHOUT_STD[name], rtol=1e-9)
    assert model.n_features_in_ == 2
    if name in ("quadratic", "sgd_weights"):
        assert model.classes_.tolist() == (["high", "low"] if name == "quadratic" else [False, True])


def test_an_upgrade_returns_what_takes_the_place_of_an_object(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(UPGRADES, "kernels.stationary.MaternKernel", lambda state: GaussianKernel(state["lengthscale"]))
    model = lmgp.load(FILES / "version_1_exact.lmgp")
    assert repr(model.kernel) == repr(GaussianKernel(0.7) + GaussianKernel(2.0))


def test_every_file_is_read() -> None:
    assert {path.name for path in FILES.glob("*.lmgp")} == {
        f"version_1_{name}.lmgp" for name in (*WRITTEN, *WITHOUT_STD)
    }
    assert sum(path.stat().st_size for path in FILES.iterdir()) < 60_000
