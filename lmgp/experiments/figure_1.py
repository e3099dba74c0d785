"""Figure 1: the truncated Maclaurin series of the Gaussian kernel vanishes far from the origin."""

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.special import gammaincc

from lmgp import GaussianKernel, TaylorFeatures
from lmgp.data import Floats
from lmgp.experiments.page import Section, section, table
from lmgp.plots.canvas import BLACK, BLUE, GREEN, ORANGE, PINK, new_figure

NAME = "figure-1-kernel"
KERNEL = GaussianKernel(lengthscale=1.0, variance=1.0)
DEGREE = 3
N_FEATURES = 10  # in two dimensions, all monomials up to this degree: their products are k_p to rounding
ANGLES = {0: " (parallel)", 45: "", 90: " (orthogonal)", 180: " (opposite)"}  # degrees
RADII = np.linspace(0.0, 4.0, 201)  # ‖x̃‖
STYLES = {0.5: (BLUE, "o"), 1.0: (ORANGE, "s"), 2.0: (GREEN, "^"), 3.0: (PINK, "D")}  # by ‖ỹ‖


def kernels(radii_x: Floats, radii_y: Floats, angle: float) -> tuple[Floats, Floats]:
    """Evaluate the exact and the truncated kernel between rows of given norms, x and y at an angle to each other.

    Parameters
    ----------
    radii_x : ndarray of shape (n,)
        Norms of x, in lengthscales.
    radii_y : ndarray of shape (m,)
        Norms of y, in lengthscales.
    angle : float
        In degrees.

    Returns
    -------
    exact, truncated : ndarray of shape (n, m)
        k(x, y), and k_p(x, y) of degree p = 3 as the product of the features of eq. 4.

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, eqs. 3 and 4.
    """
    theta = np.radians(angle)
    x, y = radii_x[:, None] * (1.0, 0.0), radii_y[:, None] * (np.cos(theta), np.sin(theta))
    features = TaylorFeatures(N_FEATURES, kernel=KERNEL).fit(x)
    return KERNEL(x, y), features.transform(x) @ features.transform(y).T


def kernel_section() -> Section:
    """Reproduce Figure 1 and check Theorem 3.1 on a lattice of norms and angles.

    Returns
    -------
    Section

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, Figure 1 and
    Theorem 3.1.
    """
    truncated = kernels(RADII, RADII, 0)[1].diagonal()
    # k_p(x, x)/σ² = e^{−r²} Σ_{n≤p} r²ⁿ/n! = Q(p + 1, r²), not by way of the features.
    closed = gammaincc(DEGREE + 1, RADII**2)
    values = {"degree": DEGREE, "n_features": N_FEATURES, "n_radii": len(RADII)} | _theorem()
    values["deviation"] = np.abs(truncated - closed).max()
    return section(NAME, values, [table(NAME, _errors(), values)], _figure(truncated, closed))


def _theorem() -> dict[str, Any]:
    """Check the three claims of Theorem 3.1 between all norms up to 4 and all angles."""
    radii, angles = np.linspace(0.0, 4.0, 41), np.arange(0, 181, 5)
    exact, truncated = np.swapaxes([kernels(radii, radii, float(angle)) for angle in angles], 0, 1)
    errors = np.abs(exact - truncated)
    squares = np.add.outer(radii**2, radii**2)
    return {
        "n_norms": len(radii),
        "largest_norm": radii[-1],
        "n_angles": len(angles),
        "largest": [np.abs(truncated[:, squares >= least]).max() for least in (8, 16, 24)],
        "orthogonal": errors[angles == 90].max(),
        "excess": (errors - errors[0]).max(),
        "parallel": errors[0].max(),
        "opposite": errors[-1].max(),
    }


def _errors() -> pd.DataFrame:
    """Tabulate the largest error for each angle and norm."""
    rows = []
    for angle in ANGLES:
        exact, truncated = kernels(RADII, np.array(list(STYLES)), angle)
        errors = np.abs(exact - truncated)
        at = errors.argmax(axis=0)
        for i, norm in enumerate(STYLES):
            rows.append((angle, norm, errors[at[i], i], RADII[at[i]], truncated[at[i], i]))
    return pd.DataFrame(rows, columns=["angle, degrees", "‖ỹ‖", "largest |k − k_p|", "at ‖x̃‖", "k_p there"])


def _figure(truncated_diagonal: Floats, closed: Floats) -> Figure:
    figure = new_figure(13.0, 7.0)
    *panels, diagonal, rest = figure.subplots(2, 3, sharex=True, sharey=True).ravel()
    for axes, (angle, name) in zip(panels, ANGLES.items(), strict=True):
        exact, truncated = kernels(RADII, np.array(list(STYLES)), angle)
        for i, (norm, (colour, marker)) in enumerate(STYLES.items()):
            axes.plot(RADII, exact[:, i], color=colour, linewidth=4, alpha=0.35, label=f"k, ‖ỹ‖ = {norm:g}")
            # Markers tell the norms apart in grey; they start at different places, so that lines on zero show too.
            axes.plot(
                RADII, truncated[:, i], "--", color=colour, linewidth=1.5, marker=marker, markersize=4.5,
                markevery=(5 * i, 20), label=f"$k_p$, ‖ỹ‖ = {norm:g}",
            )  # fmt: skip
        axes.set(title=f"θ = {angle}°{name}", xlabel="‖x̃‖, lengthscales")
    exact_line = diagonal.plot(RADII, np.ones_like(RADII), color=BLACK, linewidth=4, alpha=0.35, label="k(x, x)")
    series_line = diagonal.plot(RADII, truncated_diagonal, "--", color=BLACK, linewidth=1.5, label="$k_p$(x, x)")
    closed_line = diagonal.plot(
        RADII[::10], closed[::10], "o", color=BLACK, fillstyle="none", label="Q(p + 1, r²), closed form"
    )
    diagonal.set(title="x = y, ‖x̃‖ = ‖ỹ‖ = r", xlabel="r, lengthscales")
    for axes in (*panels, diagonal):
        axes.set(xlim=(RADII[0], RADII[-1]), ylim=(-0.17, 1.08))
        axes.grid(alpha=0.25)
        axes.tick_params(labelbottom=True)
    for axes in (panels[0], panels[3]):
        axes.set_ylabel("kernel value, σ² = 1")
    rest.axis("off")
    lines = panels[0].get_lines()
    handles = [*lines[::2], *exact_line, *closed_line, *lines[1::2], *series_line]
    rest.legend(handles=handles, loc="center", frameon=False, ncols=2, fontsize="medium")
    return figure
