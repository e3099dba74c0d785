from math import factorial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from lmgp.experiments import figure_2 as sinc
from lmgp.experiments.compare import PROTOCOLS, Protocol
from lmgp.experiments.datasets import make_sinc
from lmgp.experiments.page import Section

Floats = NDArray[np.float64]
SEEDS = 3

Draw = tuple[Floats, Floats, Any, Floats]


def parameters(one: Draw) -> tuple[float, float, float]:
    """The lengthscale, the variance and the noise variance of the reference."""
    kernel = one[2].kernel_
    return float(kernel.lengthscale), float(kernel.variance), one[2].noise_variance_


@pytest.fixture(scope="module")
def draws() -> list[Draw]:
    return [sinc.draw(PROTOCOLS["paper"], seed) for seed in range(SEEDS)]


@pytest.fixture(scope="module")
def one(draws: list[Draw]) -> Draw:
    return draws[0]


@pytest.fixture(scope="module")
def section(draws: list[Draw]) -> Section:
    def drawn(protocol: Protocol, seed: int) -> Draw:
        assert protocol is PROTOCOLS["paper"]
        return draws[seed]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sinc, "draw", drawn)
        return sinc.sinc_section(PROTOCOLS["paper"], SEEDS)


@pytest.fixture(scope="module")
def converged() -> Draw:
    return sinc.draw(PROTOCOLS["converged"], 0)


def series(x: Floats, z: Floats, one: Draw, centre: float) -> Floats:
    """The Maclaurin series of the kernel up to degree 9 around a centre, shape (len(x), len(z))."""
    lengthscale, variance, _ = parameters(one)
    x, z = (x - centre) / lengthscale, (z - centre) / lengthscale
    total = sum(np.outer(x, z) ** n / factorial(n) for n in range(10))
    return variance * np.exp(-np.add.outer(x**2, z**2) / 2) * total


def dense(one: Draw, x: Floats, centre: float | None) -> tuple[Floats, Floats]:
    """Eq. 1 of the paper with the n × n matrix: of the exact kernel, or of its series around a centre."""
    (X, y, *_), (lengthscale, variance, noise) = one, parameters(one)

    def kernel(a: Floats, b: Floats) -> Floats:
        if centre is not None:
            return series(a, b, one, centre)
        return variance * np.exp(-(np.subtract.outer(a, b) ** 2) / (2 * lengthscale**2))

    rows = X[:, 0]
    cross = kernel(rows, x)
    solved = np.linalg.solve(kernel(rows, rows) + noise * np.eye(len(rows)), cross)
    left = kernel(x, x).diagonal() - (cross * solved).sum(axis=0)
    return solved.T @ (y - y.mean()) + y.mean(), np.sqrt(np.maximum(left, 0.0))


def test_the_rows_are_those_of_the_paper(one: Draw) -> None:
    X, y = make_sinc(50, 0.01, random_state=0)
    np.testing.assert_array_equal(one[0], X)
    np.testing.assert_array_equal(one[1], y)
    assert sinc.X_TEST.shape == (400, 1)
    assert (sinc.X_TEST.min(), sinc.X_TEST.max()) == (-2.25, 2.25)


def test_the_reference_is_the_dense_exact_gp(one: Draw) -> None:
    for got, wanted in zip(one[3][0], dense(one, sinc.X_TEST[:, 0], None), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-7)


def test_the_series_at_the_mean_is_the_dense_one(one: Draw) -> None:
    for got, wanted in zip(one[3][2], dense(one, sinc.X_TEST[:, 0], one[0].mean()), strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-6)


def test_the_series_at_each_row_is_the_dense_one(one: Draw) -> None:
    mean, std = one[3][3]
    for at in range(0, 400, 21):
        x = sinc.X_TEST[at]
        wanted_mean, wanted_std = dense(one, x, x[0])
        # The model leaves rows out of reach out, which may move the mean by 1e-3 s.d.
        assert abs(mean[at] - wanted_mean[0]) <= 1e-3 * wanted_std[0]
        assert std[at] == pytest.approx(wanted_std[0], rel=1e-3)


def test_the_noise_variance_is_given_in_the_paper_and_learned_otherwise(one: Draw, converged: Draw) -> None:
    assert one[2].noise_variance_ == pytest.approx(0.01, rel=1e-12)
    assert converged[2].noise_variance_ != 0.01
    assert converged[2].noise_variance_ == pytest.approx(0.01, rel=0.5)


def test_missing_variance_is_the_protocols(one: Draw, converged: Draw) -> None:
    prior = parameters(converged)[1] ** 0.5
    np.testing.assert_allclose(converged[3][2, 1][sinc.ENDS], prior, rtol=1e-9)
    assert one[3][2, 1][sinc.ENDS].max() < 1e-6


def test_divergences_are_with_noise_and_from_the_approximation(one: Draw) -> None:
    noise, (mean_q, std_q) = one[2].noise_variance_, one[3][0]
    for kl, (mean_p, std_p) in zip(sinc.divergences(one[3], noise), one[3][1:], strict=True):
        p, q = std_p**2 + noise, std_q**2 + noise
        wanted = 0.5 * (p / q + (mean_p - mean_q) ** 2 / q - 1 + np.log(q / p))
        np.testing.assert_allclose(kl, wanted, atol=1e-12)


def test_centring_at_each_row_is_nearest_for_every_seed(section: Section) -> None:
    names = ("RFF", "Maclaurin at the mean", "Maclaurin at each row")
    mean, total = (section.tables[0].frame[[f"{kind}, {name}" for name in names]] for kind in ("KL/row", "KL sum"))
    np.testing.assert_allclose(total, 400 * mean)
    assert (mean.iloc[:, 2] < 0.05 * mean.iloc[:, :2].min(axis=1)).all()


def test_lengthscales_are_near_the_published_one(section: Section) -> None:
    frame = section.tables[0].frame
    assert frame.seed.tolist() == [0, 1, 2, "mean"]
    numbers = frame.drop(columns="seed").astype(float)
    np.testing.assert_allclose(numbers.iloc[-1], numbers.iloc[:-1].mean())
    for seed in range(SEEDS):
        row = frame.iloc[seed]
        assert 0.09 <= row["lengthscale"] <= 0.14
        assert row["lengthscale ratio"] == pytest.approx(row["lengthscale"] / 0.11)
        assert row["median distance ratio"] == pytest.approx(1.0, abs=0.2)
        x = make_sinc(50, 0.01, random_state=seed)[0][:, 0]
        distances = np.abs(np.subtract.outer(x, x))[np.triu_indices(50, 1)]
        assert row["median distance"] == pytest.approx(np.median(distances))
    assert section.tables[0].marked == frozenset()
    assert "The paper's text has no KL" in section.tables[0].caption


def test_lengthscales_out_of_range_are_marked(draws: list[Draw], monkeypatch: pytest.MonkeyPatch) -> None:
    lengthscales = [parameters(sample)[0] for sample in draws]
    monkeypatch.setattr(sinc, "draw", lambda protocol, seed: draws[seed])
    monkeypatch.setattr(sinc, "LENGTHSCALES", (0.09, sorted(lengthscales)[1]))
    assert sinc.sinc_section(PROTOCOLS["paper"], SEEDS).tables[0].marked == {int(np.argmax(lengthscales))}
    # One seed is not enough to tell.
    monkeypatch.setattr(sinc, "draw", lambda protocol, seed: draws[int(np.argmax(lengthscales))])
    assert sinc.sinc_section(PROTOCOLS["paper"], 1).tables[0].marked == frozenset()


def test_only_centring_at_each_row_returns_to_the_prior(section: Section) -> None:
    rff, at_mean, at_row = section.tables[1].frame.itertuples(index=False)
    assert at_row[1:3] == pytest.approx((1.0, 1.0), abs=1e-9)
    assert at_row[3] < 1e-5
    assert at_mean[2] < 1e-6
    assert rff[2] < 0.9


def test_the_distance_from_the_prior_is_that_of_the_worse_end(one: Draw) -> None:
    prior, y = parameters(one)[1] ** 0.5, one[1]
    mean, std = one[3][1]
    found = sinc.measures(*one)
    assert abs(found["s.d., RFF"] - 1.0) == max(abs(std[[0, 399]] / prior - 1.0))
    assert found["offset, RFF"] == pytest.approx(max(abs(mean[0] - y.mean()), abs(mean[399] - y.mean())) / prior)


def test_panels_draw_seed_0(section: Section, one: Draw) -> None:
    axes, (_, y, reference_model, (exact, *approximations)) = section.figure.axes, one
    assert len(axes) == 3
    kls = sinc.divergences(one[3], reference_model.noise_variance_)
    for panel, (mean, std), kl in zip(axes, approximations, kls, strict=True):
        reference, rows, dashed, low, high = panel.get_lines()
        np.testing.assert_allclose(reference.get_ydata(), exact[0])
        np.testing.assert_array_equal(rows.get_ydata(), y)
        np.testing.assert_allclose(dashed.get_ydata(), mean)
        assert dashed.get_linestyle() == "--"
        np.testing.assert_allclose(low.get_ydata(), mean - 2 * std)
        np.testing.assert_allclose(high.get_ydata(), mean + 2 * std)
        (band,) = panel.collections
        vertices = band.get_paths()[0].vertices[:, 1]
        assert vertices.max() == pytest.approx((exact[0] + 2 * exact[1]).max())
        assert f"KL {kl.mean():.3g} nats/row, sum {kl.sum():.3g}" in panel.get_title()
        assert panel.get_ylim() == axes[0].get_ylim()
    (legend,) = section.figure.legends
    assert len(legend.get_texts()) == 5
