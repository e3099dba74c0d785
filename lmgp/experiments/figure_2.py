"""Figure 2: a Gaussian process of a sinc in one dimension, and three approximations of it with 10 columns."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    LocalizedGPRegressor,
    RandomFourierFeatures,
    TaylorFeatures,
)
from lmgp.experiments.compare import Protocol
from lmgp.experiments.datasets import make_sinc
from lmgp.experiments.figure_4 import MEDIAN_DISTANCES
from lmgp.experiments.page import ReportTable, Section, section, table
from lmgp.experiments.report import span
from lmgp.metrics import kl_divergence
from lmgp.plots.canvas import BLACK, BLUE, GREEN, ORANGE, new_figure

Floats = NDArray[np.float64]

NAME = "figure-2-sinc"
N_ROWS, N_FEATURES = 50, 10
NOISE_VARIANCE = 0.01  # in squared units of y
PUBLISHED_LENGTHSCALE = 0.11  # of one draw of the rows
LENGTHSCALES = (0.09, 0.14)  # that count as reproduced: other draws spread around the published one
X_TEST = np.linspace(-2.25, 2.25, 400)[:, None]
ENDS = [0, -1]  # the test rows furthest from the training rows, which lie in [-1.5, 1.5]
APPROXIMATIONS = {"RFF": BLUE, "Maclaurin at the mean": ORANGE, "Maclaurin at each row": GREEN}


@dataclass(frozen=True)
class Draw:
    """One draw of the rows with its models.

    Attributes
    ----------
    X, y : ndarray of shape (n, 1) and (n,)
    lengthscale, variance, noise_variance : float
        Learned; the noise variance given where the protocol says so.
    exact : ndarray of shape (2, 400)
        The mean and the standard deviation of the latent function at the test rows.
    approximations : ndarray of shape (3, 2, 400)
        The same of the three `APPROXIMATIONS`, in their order.
    """

    X: Floats
    y: Floats
    lengthscale: float
    variance: float
    noise_variance: float
    exact: Floats
    approximations: Floats

    def divergences(self) -> Floats:
        """KL(approximation ‖ exact) with noise at each test row, in nats, shape (3, 400)."""
        (mean, std), noise = self.exact, self.noise_variance
        return np.array([kl_divergence(m, s**2 + noise, mean, std**2 + noise) for m, s in self.approximations])

    def from_prior(self) -> Floats:
        """How far each method is from the prior where |x| = 2.25: the s.d. that differs most, and the greatest offset.

        Both in prior standard deviations, shape (3, 2); the prior itself gives 1 and 0.
        """
        prior = self.variance**0.5
        ratios = self.approximations[:, 1, ENDS] / prior
        offsets = np.abs(self.approximations[:, 0, ENDS] - self.y.mean()) / prior
        furthest = np.abs(ratios - 1.0).argmax(axis=1)
        return np.column_stack([ratios[range(3), furthest], offsets.max(axis=1)])


def draw(protocol: Protocol, seed: int) -> Draw:
    """Draw the rows, learn the reference, and fit the approximations with its hyper-parameters.

    Parameters
    ----------
    protocol : Protocol
        With published hyper-parameters the noise variance is the true one, as in the paper; else it is learned.
    seed : int
        Of the rows and the Fourier features.

    Returns
    -------
    Draw
    """
    X, y = make_sinc(N_ROWS, NOISE_VARIANCE, random_state=seed)
    reference: Any = ExactGPRegressor(noise_variance=NOISE_VARIANCE if protocol.published else None, random_state=0)
    reference.fit(X, y)
    shared: dict[str, Any] = {
        "kernel": reference.kernel_,
        "noise_variance": reference.noise_variance_,
        "approximation": protocol.approximation,
    }
    models: tuple[Any, ...] = (
        FeaturizedGPRegressor(RandomFourierFeatures(N_FEATURES, random_state=seed), **shared),
        FeaturizedGPRegressor(TaylorFeatures(N_FEATURES), **shared),
        LocalizedGPRegressor(TaylorFeatures(N_FEATURES), centroids="test_rows", **shared),
    )
    return Draw(
        X=X,
        y=y,
        lengthscale=float(reference.kernel_.lengthscale),
        variance=float(reference.kernel_.variance),
        noise_variance=reference.noise_variance_,
        exact=np.array(reference.predict(X_TEST, return_std=True)),
        approximations=np.array([model.fit(X, y).predict(X_TEST, return_std=True) for model in models]),
    )


def sinc_section(protocol: Protocol, seeds: int) -> Section:
    """Reproduce Figure 2 on seed 0, and its numbers on several seeds.

    Parameters
    ----------
    protocol : Protocol
    seeds : int
        The seeds are 0 … seeds − 1.

    Returns
    -------
    Section

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, section 3.2 and
    Figure 2.
    """
    draws = [draw(protocol, seed) for seed in range(seeds)]
    lengthscales = [sample.lengthscale for sample in draws]
    kl = np.array([sample.divergences().mean(axis=1) for sample in draws])
    stds, offsets = np.array([sample.from_prior() for sample in draws]).T
    values = {
        "n_rows": N_ROWS,
        "noise_variance": NOISE_VARIANCE,
        "noise": "given" if protocol.published else "learned",
        "n_features": N_FEATURES,
        "degree": N_FEATURES - 1,
        "n_test": len(X_TEST),
        "n_seeds": len(draws),
        "lengthscales": (min(lengthscales), max(lengthscales)),
        "published": PUBLISHED_LENGTHSCALE,
        "n_nearest": int((kl.argmin(axis=1) == 2).sum()),
        "kl": kl.mean(axis=0),
        "end": X_TEST[-1, 0],
        "std_offset": np.abs(stds[2] - 1.0).max(),
        "mean_offset": offsets[2].max(),
        "stds": [span(of_method.round(6), 2) for of_method in stds],
    }
    prior = pd.DataFrame(
        {
            "method": list(APPROXIMATIONS),
            "least s.d.": stds.min(axis=1),
            "greatest s.d.": stds.max(axis=1),
            "greatest |mean − centre|": offsets.max(axis=1),
        }
    )
    return section(NAME, values, (_table(draws), table(f"{NAME}-prior", prior, values)), _figure(draws[0]))


def _table(draws: Sequence[Draw]) -> ReportTable:
    rows = []
    for sample in draws:
        median, kl = np.median(pdist(sample.X)), sample.divergences()
        rows.append(
            {
                "lengthscale": sample.lengthscale,
                "published lengthscale": PUBLISHED_LENGTHSCALE,
                "lengthscale ratio": sample.lengthscale / PUBLISHED_LENGTHSCALE,
                "median distance": median,
                "published median distance": MEDIAN_DISTANCES["sinc"],
                "median distance ratio": median / MEDIAN_DISTANCES["sinc"],
                "variance": sample.variance,
                "noise variance": sample.noise_variance,
                **{f"KL/row, {name}": of_name.mean() for name, of_name in zip(APPROXIMATIONS, kl, strict=True)},
                **{f"KL sum, {name}": of_name.sum() for name, of_name in zip(APPROXIMATIONS, kl, strict=True)},
            }
        )
    frame = pd.DataFrame(rows)
    # One seed is not enough to tell.
    outside = ~frame.lengthscale.between(*LENGTHSCALES) & (len(frame) > 1)
    frame.loc["mean"] = frame.mean()
    values = {"n_test": len(X_TEST), "low": LENGTHSCALES[0], "high": LENGTHSCALES[1]}
    return table(NAME, frame.reset_index(names="seed"), values, marked=frozenset(np.flatnonzero(outside).tolist()))


def _figure(sample: Draw) -> Figure:
    figure = new_figure(13.0, 4.6)
    x, (mean, std) = X_TEST[:, 0], sample.exact
    panels = zip(
        figure.subplots(1, 3, sharey=True), APPROXIMATIONS.items(), sample.approximations, sample.divergences(),
        strict=True,
    )  # fmt: skip
    for axes, (method, colour), (m, s), kl in panels:
        axes.fill_between(x, mean - 2 * std, mean + 2 * std, color="0.88", linewidth=0, label="exact GP, ± 2 s.d.")
        axes.plot(x, mean, color="0.65", linewidth=4, label="exact GP, mean")
        axes.plot(sample.X[:, 0], sample.y, "o", color=BLACK, markersize=3, label="training rows")
        axes.plot(x, m, "--", color=colour, linewidth=1.8, label="approximation, mean")
        for sign, label in ((-2, "approximation, ± 2 s.d."), (2, None)):
            axes.plot(x, m + sign * s, color=colour, linewidth=0.9, label=label)
        axes.set_title(f"{method}\nKL {kl.mean():.3g} nats/row, sum {kl.sum():.3g}")
        axes.set(xlabel="x", xlim=(x[0], x[-1]))
    figure.axes[0].set_ylabel("y")
    handles, labels = figure.axes[-1].get_legend_handles_labels()
    legend = figure.legend(handles, labels, loc="outside lower center", ncols=len(labels))
    for line in legend.get_lines()[-2:]:
        line.set_color(BLACK)  # for each panel has its own colour
    return figure
