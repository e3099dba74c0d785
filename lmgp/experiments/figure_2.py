"""Figure 2: a Gaussian process of a sinc in one dimension, and three approximations of it with 10 columns."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.spatial.distance import pdist

from lmgp import ExactGPRegressor, FeaturizedGPRegressor, LocalizedGPRegressor, RandomFourierFeatures, TaylorFeatures
from lmgp.data import Floats
from lmgp.experiments.compare import Protocol
from lmgp.experiments.datasets import make_sinc
from lmgp.experiments.figure_4 import MEDIAN_DISTANCES
from lmgp.experiments.page import Section, section, table
from lmgp.experiments.report import span
from lmgp.metrics import kl_divergence
from lmgp.plots.canvas import BLACK, BLUE, GREEN, ORANGE, new_figure

NAME = "figure-2-sinc"
N_ROWS, N_FEATURES = 50, 10
NOISE_VARIANCE = 0.01  # in squared units of y
PUBLISHED_LENGTHSCALE = 0.11  # of one draw of the rows
LENGTHSCALES = (0.09, 0.14)  # that count as reproduced: other draws spread around the published one
X_TEST = np.linspace(-2.25, 2.25, 400)[:, None]
ENDS = [0, -1]  # the test rows furthest from the training rows, which lie in [-1.5, 1.5]
APPROXIMATIONS = {"RFF": BLUE, "Maclaurin at the mean": ORANGE, "Maclaurin at each row": GREEN}


def draw(protocol: Protocol, seed: int) -> tuple[Floats, Floats, Any, Floats]:
    """Draw the rows, learn the reference, and fit the approximations with its hyperparameters.

    Parameters
    ----------
    protocol : Protocol
        With published hyperparameters the noise variance is the true one, as in the paper; else it is learned.
    seed : int
        Of the rows and the Fourier features.

    Returns
    -------
    X, y : ndarray of shape (n, 1) and (n,)
    reference : ExactGPRegressor
        Fitted to these.
    predictions : ndarray of shape (4, 2, 400)
        The mean and the standard deviation of the latent function at the test rows: of the reference, and of the three
        `APPROXIMATIONS` in their order.
    """
    X, y = make_sinc(N_ROWS, NOISE_VARIANCE, random_state=seed)
    reference: Any = ExactGPRegressor(noise_variance=NOISE_VARIANCE if protocol.published else None, random_state=0)
    reference.fit(X, y)
    shared: dict[str, Any] = {
        "kernel": reference.kernel_,
        "noise_variance": reference.noise_variance_,
        "approximation": protocol.approximation,
    }
    approximations: tuple[Any, ...] = (
        FeaturizedGPRegressor(RandomFourierFeatures(N_FEATURES, random_state=seed), **shared),
        FeaturizedGPRegressor(TaylorFeatures(N_FEATURES), **shared),
        LocalizedGPRegressor(TaylorFeatures(N_FEATURES), centroids="test_rows", **shared),
    )
    models = [reference, *(model.fit(X, y) for model in approximations)]
    return X, y, reference, np.array([model.predict(X_TEST, return_std=True) for model in models])


def divergences(predictions: Floats, noise_variance: float) -> Floats:
    """KL(approximation ‖ exact) with noise at each test row, in nats, shape (3, 400)."""
    exact, *approximations = ((mean, std**2 + noise_variance) for mean, std in predictions)
    return np.array([kl_divergence(*approximate, *exact) for approximate in approximations])


def measures(X: Floats, y: Floats, reference: Any, predictions: Floats) -> dict[str, float]:
    """Return the numbers of one draw, by the columns of the table and of what is said about it.

    Among them is how far each method is from the prior where |x| = 2.25, in prior standard deviations: the s.d. that
    differs most from 1, and the greatest offset of the mean.
    """
    variance, noise = float(reference.kernel_.variance), reference.noise_variance_
    kl, median = divergences(predictions, noise), np.median(pdist(X))
    ratios = predictions[1:, 1, ENDS] / variance**0.5
    offsets = np.abs(predictions[1:, 0, ENDS] - y.mean()).max(axis=1) / variance**0.5
    furthest = np.take_along_axis(ratios, np.abs(ratios - 1.0).argmax(axis=1)[:, None], axis=1)[:, 0]
    of_methods = {"KL/row": kl.mean(axis=1), "KL sum": kl.sum(axis=1), "s.d.": furthest, "offset": offsets}
    return {
        "lengthscale": float(reference.kernel_.lengthscale),
        "published lengthscale": PUBLISHED_LENGTHSCALE,
        "lengthscale ratio": float(reference.kernel_.lengthscale) / PUBLISHED_LENGTHSCALE,
        "median distance": median,
        "published median distance": MEDIAN_DISTANCES["sinc"],
        "median distance ratio": median / MEDIAN_DISTANCES["sinc"],
        "variance": variance,
        "noise variance": noise,
    } | {
        f"{what}, {name}": value
        for what, values in of_methods.items()
        for name, value in zip(APPROXIMATIONS, values, strict=True)
    }


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
    frame = pd.DataFrame([measures(*drawn) for drawn in draws])
    kl, stds, offsets = (frame.filter(like=f"{what}, ").to_numpy() for what in ("KL/row", "s.d.", "offset"))
    values = {
        "n_rows": N_ROWS,
        "noise_variance": NOISE_VARIANCE,
        "noise": "given" if protocol.published else "learned",
        "n_features": N_FEATURES,
        "degree": N_FEATURES - 1,
        "n_test": len(X_TEST),
        "n_seeds": seeds,
        "lengthscales": (frame.lengthscale.min(), frame.lengthscale.max()),
        "published": PUBLISHED_LENGTHSCALE,
        "low": LENGTHSCALES[0],
        "high": LENGTHSCALES[1],
        "n_nearest": int((kl.argmin(axis=1) == 2).sum()),
        "kl": kl.mean(axis=0),
        "end": X_TEST[-1, 0],
        "std_offset": np.abs(stds[:, 2] - 1.0).max(),
        "mean_offset": offsets[:, 2].max(),
        "stds": [span(of_method.round(6), 2) for of_method in stds.T],
    }
    prior = pd.DataFrame(
        {
            "method": list(APPROXIMATIONS),
            "least s.d.": stds.min(axis=0),
            "greatest s.d.": stds.max(axis=0),
            "greatest |mean − centre|": offsets.max(axis=0),
        }
    )
    numbers = frame.loc[:, : f"KL sum, {list(APPROXIMATIONS)[-1]}"]
    outside = ~frame.lengthscale.between(*LENGTHSCALES) & (seeds > 1)  # one seed is not enough to tell
    numbers.loc["mean"] = numbers.mean()
    marked = frozenset(np.flatnonzero(outside).tolist())
    tables = (
        table(NAME, numbers.reset_index(names="seed"), values, marked=marked),
        table(f"{NAME}-prior", prior, values),
    )
    return section(NAME, values, tables, _figure(*draws[0]))


def _figure(X: Floats, y: Floats, reference: Any, predictions: Floats) -> Figure:
    figure = new_figure(13.0, 4.6)
    x, (mean, std) = X_TEST[:, 0], predictions[0]
    kls = divergences(predictions, reference.noise_variance_)
    panels = zip(figure.subplots(1, 3, sharey=True), APPROXIMATIONS.items(), predictions[1:], kls, strict=True)
    for axes, (method, colour), (m, s), kl in panels:
        axes.fill_between(x, mean - 2 * std, mean + 2 * std, color="0.88", linewidth=0, label="exact GP, ± 2 s.d.")
        axes.plot(x, mean, color="0.65", linewidth=4, label="exact GP, mean")
        axes.plot(X[:, 0], y, "o", color=BLACK, markersize=3, label="training rows")
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
