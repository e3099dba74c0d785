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
    OrthogonalFourierFeatures,
    TaylorFeatures,
)

FILES = Path(__file__).parent / "files"
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
    "chosen": (
        GPRegressor(kernel=KERNEL, noise_variance=0.02, random_state=0),
        [[0.10423947651727511, 0.9578625915021715], [0.10787205849758176, 0.081425644750491]],
    ),
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
    if name != "featurized":  # whose random map may be drawn otherwise by later versions
        np.testing.assert_allclose(unfitted.fit(*rows()).predict(NEW, return_std=True), predicted, rtol=1e-6)


def test_every_file_is_read() -> None:
    assert {path.name for path in FILES.glob("*.lmgp")} == {f"version_1_{name}.lmgp" for name in WRITTEN}
    assert sum(path.stat().st_size for path in FILES.iterdir()) < 30_000
