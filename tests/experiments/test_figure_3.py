import re
from collections.abc import Iterator
from dataclasses import replace
from math import factorial
from pathlib import Path
from shutil import copytree

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from lmgp.errors import InputError
from lmgp.estimators.base import GaussianProcess
from lmgp.experiments import figure_3 as uk_map
from lmgp.experiments.compare import PROTOCOLS, ComparisonSettings, PublishedSettings, prepare
from lmgp.experiments.datasets import Dataset, DatasetEntry
from lmgp.experiments.page import Section

Floats = NDArray[np.float64]
GRID, D = 6, 30
LENGTHSCALE, VARIANCE, NOISE = 0.5, 0.8, 0.05
PAPER = replace(PROTOCOLS["paper"], published={"made": PublishedSettings(LENGTHSCALE, VARIANCE, NOISE, n_train=150)})


def make_dataset(inputs: tuple[str, str] = ("lon", "lat")) -> Dataset:
    rng = np.random.default_rng(0)
    columns = {"lon": rng.uniform(-5.0, 1.0, 200), "lat": rng.uniform(50.5, 54.0, 200)}
    y = 12.0 + np.sin(2 * columns["lon"]) + np.cos(3 * columns["lat"]) + 0.2 * rng.standard_normal(200)
    entry = DatasetEntry(
        name="made",
        description="",
        n_rows=200,
        columns=(*inputs, "log_price"),
        inputs=inputs,
        licence="",
        citation="",
        kind="generated",
        spatial=True,
    )
    return Dataset("made", np.column_stack([columns[name] for name in inputs]), y, inputs, "log_price", entry)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("map") / "cache"


@pytest.fixture(scope="module")
def section(cache: Path) -> Section:
    return uk_map.uk_map_section(make_dataset(), PAPER, GRID, cache, n_features=D, quiet=True)


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The class of each model that is fitted."""
    fitted: list[str] = []
    fit = GaussianProcess.fit

    def counted(self: GaussianProcess, *arguments: object) -> GaussianProcess:
        fitted.append(type(self).__name__)
        return fit(self, *arguments)

    monkeypatch.setattr(GaussianProcess, "fit", counted)
    return fitted


def again(cache: Path, n_features: int = D) -> Section:
    return uk_map.uk_map_section(make_dataset(), PAPER, GRID, cache, n_features=n_features, quiet=True)


def grid_columns(section: Section) -> Floats:
    return section.tables[1].frame.to_numpy().T


def dense(centred: bool) -> tuple[Floats, Floats]:
    """Eq. 1 of the paper at each grid point: with the exact kernel, or its series up to degree 6 around the point."""
    rows = prepare(make_dataset(), ComparisonSettings(PAPER), 0)
    centre = rows.y_train.mean()
    X = rows.X_train / LENGTHSCALE
    means, stds = [], []
    for lat in np.linspace(50, 55, GRID):
        for lon in np.linspace(-6, 2, GRID):
            Z = X - np.array([lon, lat]) / LENGTHSCALE
            squares = np.square(Z).sum(axis=1)
            cross = VARIANCE * np.exp(-squares / 2)
            product = Z @ Z.T
            total = sum(product**n / factorial(n) for n in range(7)) if centred else np.exp(product)
            gram = VARIANCE * np.exp(-np.add.outer(squares, squares) / 2) * total
            solved = np.linalg.solve(gram + NOISE * np.eye(len(X)), cross)
            means.append(solved @ (rows.y_train - centre) + centre)
            stds.append(np.sqrt(VARIANCE - solved @ cross))
    return np.array(means), np.array(stds)


def test_the_lattice_runs_from_the_south_west() -> None:
    points = uk_map.lattice(3, ("lon", "lat"))
    np.testing.assert_array_equal(points[[0, 1, 2, 3, -1]], [[-6, 50], [-2, 50], [2, 50], [-6, 52.5], [2, 55]])
    np.testing.assert_array_equal(uk_map.lattice(3, ("lat", "lon")), points[:, ::-1])


def test_what_is_no_map_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lon and lat"):
        uk_map.lattice(5, ("lon", "date"))
    with pytest.raises(InputError, match="grid=1"):
        uk_map.uk_map_section(make_dataset(), PAPER, 1, tmp_path / "cache", quiet=True)
    with pytest.raises(InputError, match="n_features"):
        uk_map.uk_map_section(make_dataset(), PAPER, 3, tmp_path / "cache", n_features=1, quiet=True)
    assert not any(tmp_path.iterdir())


def test_panels_draw_the_dense_predictions(section: Section) -> None:
    panels = section.figure.axes
    drawn = [np.asarray(axes.collections[0].get_array(), dtype=float).ravel() for axes in panels[:10]]
    mean, std = dense(centred=False)
    np.testing.assert_allclose(drawn[0], mean, atol=1e-8)
    np.testing.assert_allclose(drawn[5], std, atol=1e-8)
    mean, std = dense(centred=True)
    # The localized model may leave rows out as far as that moves its mean by 1e-3 s.d.
    np.testing.assert_allclose(drawn[4], mean, atol=1e-3 * std.min())
    np.testing.assert_allclose(drawn[9], std, rtol=1e-3)
    assert [axes.get_title().partition("\n")[0] for axes in (panels[0], panels[1], panels[4])] == [
        "exact GP",
        "random Fourier",
        "Taylor",
    ]


def test_the_columns_may_come_in_either_order(section: Section, tmp_path: Path) -> None:
    swapped = uk_map.uk_map_section(
        make_dataset(("lat", "lon")), PAPER, GRID, tmp_path / "cache", n_features=D, quiet=True
    )
    for column in (0, 1, 2, 3, 10, 11):  # the deterministic methods
        np.testing.assert_allclose(grid_columns(swapped)[column], grid_columns(section)[column], rtol=1e-8)


def test_the_table_compares_with_the_reference(section: Section) -> None:
    table, grid = section.tables[0], grid_columns(section)
    rows = table.frame.to_numpy()
    assert table.frame["columns"].tolist() == [pd.NA, D, D, D, 28]
    assert table.frame.iloc[0, 2:6].isna().all()
    mean_q, q = grid[2], grid[3] ** 2 + NOISE
    for number, row in enumerate(rows[1:], start=1):
        mean_p, p = grid[2 + 2 * number], grid[3 + 2 * number] ** 2 + NOISE
        kl = 0.5 * (p / q + (mean_p - mean_q) ** 2 / q - 1 + np.log(q / p))
        reverse = 0.5 * (q / p + (mean_p - mean_q) ** 2 / p - 1 + np.log(p / q))
        wanted = kl.mean(), kl.sum(), reverse.mean(), np.sqrt(np.mean((mean_p - mean_q) ** 2))
        np.testing.assert_allclose(row[2:6].astype(float), wanted)
        assert f"KL {kl.mean():.3g} nats/row" in section.figure.axes[number].get_title()
        assert row[6] > 0
    kl_of_row = [row[2] for row in rows[1:]]
    assert kl_of_row.index(min(kl_of_row)) == 3


def test_the_grid_table_is_what_is_drawn(section: Section) -> None:
    table = section.tables[1]
    assert table.folded
    assert table.frame.columns[:4].tolist() == ["lat", "lon", "mean, exact GP", "s.d., exact GP"]
    assert table.frame.shape == (GRID**2, 12)
    assert table.frame.iloc[1, :2].tolist() == [50.0, pytest.approx(-6 + 8 / 5)]
    drawn = np.asarray(section.figure.axes[6].collections[0].get_array(), dtype=float).ravel()
    np.testing.assert_array_equal(grid_columns(section)[5], drawn)


def test_a_row_of_panels_shares_its_colours_and_axes_are_degrees(section: Section) -> None:
    section.figure.canvas.draw()
    panels = section.figure.axes
    for of_row in (panels[:5], panels[5:10]):
        assert len({axes.collections[0].get_clim() for axes in of_row}) == 1
    assert [axes.get_ylabel() for axes in panels[10:]] == ["mean, log price, ln(GBP)", "s.d., log price, ln(GBP)"]
    assert [tick.get_text() for tick in panels[5].get_xticklabels()] == ["6°W", "4°W", "2°W", "0°", "2°E"]
    assert [tick.get_text() for tick in panels[5].get_yticklabels()] == [f"{lat}°N" for lat in range(50, 56)]
    assert panels[0].get_aspect() == pytest.approx(1 / np.cos(np.radians(52.5)))


def test_what_is_kept_is_not_made_again(section: Section, cache: Path, fits: list[str]) -> None:
    assert len(list(cache.glob("*.npz"))) == 5
    resumed = again(cache)
    assert fits == []
    for table, other in zip(resumed.tables, section.tables, strict=True):
        pd.testing.assert_frame_equal(table.frame, other.frame)
    assert resumed.text == section.text


def test_only_what_is_missing_or_damaged_is_made(section: Section, cache: Path, fits: list[str]) -> None:
    (damaged,) = cache.glob("*local_taylor*")
    damaged.write_bytes(damaged.read_bytes()[:500])
    (missing,) = cache.glob("*rff*")
    missing.unlink()
    resumed = again(cache)
    assert fits == ["FeaturizedGPRegressor", "LocalizedGPRegressor"]
    np.testing.assert_array_equal(grid_columns(resumed), grid_columns(section))
    again(cache)
    assert len(fits) == 2


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04" + bytes(40)])
def test_a_file_that_is_no_prediction_is_made_again(
    content: bytes, section: Section, cache: Path, fits: list[str]
) -> None:
    (path,) = cache.glob("*exact*")
    path.write_bytes(content)
    resumed = again(cache)
    assert fits == ["ExactGPRegressor"]
    np.testing.assert_array_equal(grid_columns(resumed), grid_columns(section))


def test_a_prediction_of_another_form_is_made_again(section: Section, cache: Path, fits: list[str]) -> None:
    (path,) = cache.glob("*exact*")
    with np.load(path) as file:
        values = dict(file)
    for broken in (values | {"mean": values["mean"][:-1]}, {"mean": values["mean"]}, values | {"more": 1.0}):
        np.savez(path, **broken)
        np.testing.assert_array_equal(grid_columns(again(cache)), grid_columns(section))
    assert fits == ["ExactGPRegressor"] * 3


def test_a_killed_run_resumes(tmp_path: Path, section: Section, monkeypatch: pytest.MonkeyPatch) -> None:
    class KilledError(Exception):
        pass

    fit, fitted = GaussianProcess.fit, []

    def killed(self: GaussianProcess, *arguments: object) -> GaussianProcess:
        fitted.append(self)
        if len(fitted) == 3:
            raise KilledError
        return fit(self, *arguments)

    monkeypatch.setattr(GaussianProcess, "fit", killed)
    with pytest.raises(KilledError):
        again(tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    np.testing.assert_array_equal(grid_columns(again(tmp_path)), grid_columns(section))
    assert len(fitted) == 3 + 3


@pytest.mark.slow
def test_other_settings_are_other_predictions(section: Section, cache: Path, tmp_path: Path, fits: list[str]) -> None:
    cache = Path(copytree(cache, tmp_path / "cache"))
    again(cache, n_features=20)
    assert len(fits) == 4  # the reference has no columns
    other = replace(PAPER, published={"made": PublishedSettings(LENGTHSCALE, VARIANCE, 2 * NOISE, n_train=150)})
    uk_map.uk_map_section(make_dataset(), other, GRID, cache, n_features=D, quiet=True)
    assert len(fits) == 4 + 5
    uk_map.uk_map_section(make_dataset(), PAPER, 4, cache, n_features=D, quiet=True)
    assert len(fits) == 4 + 5 + 5
    again(cache)
    assert len(fits) == 4 + 5 + 5  # nor were the first ones lost


def test_learned_hyperparameters_are_kept_too(tmp_path: Path, fits: list[str]) -> None:
    def run() -> Section:
        return uk_map.uk_map_section(make_dataset(), PROTOCOLS["converged"], 3, tmp_path, n_features=10, quiet=True)

    first = run()
    fits.clear()
    assert run().text == first.text
    assert fits == []
    assert f"lengthscale {LENGTHSCALE:.3g}°" not in first.text[0]


def test_progress_can_be_switched_off(cache: Path, section: Section, capfd: pytest.CaptureFixture[str]) -> None:
    again(cache)
    assert capfd.readouterr().err == ""
    uk_map.uk_map_section(make_dataset(), PAPER, GRID, cache, n_features=D)
    assert re.search(rf", {5 * GRID**2:,} points\n$", capfd.readouterr().err)
