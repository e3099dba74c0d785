"""Figure 1: the truncated Maclaurin series of the Gaussian kernel vanishes far from the origin."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaincc

from lmgp import GaussianKernel, TaylorFeatures
from lmgp.experiments.drawing import BLACK, BLUE, GREEN, ORANGE, PINK, new_figure
from lmgp.experiments.paper.section import Section, Table

Floats = NDArray[np.float64]

NAME = "figure-1-kernel"
KERNEL = GaussianKernel(lengthscale=1.0, variance=1.0)
DEGREE = 3
N_FEATURES = 10  # in two dimensions, all monomials up to this degree: their products are k_p to rounding
ANGLES = (0, 45, 90, 180)  # degrees
RADII = np.linspace(0.0, 4.0, 201)  # ‖x̃‖
STYLES = {0.5: (BLUE, "o"), 1.0: (ORANGE, "s"), 2.0: (GREEN, "^"), 3.0: (PINK, "D")}  # by ‖ỹ‖
NORMS = np.array(list(STYLES))


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
    return Section(
        NAME,
        "Figure 1: the truncated kernel vanishes far from its centre",
        (
            f"The Gaussian kernel k (solid) and its Maclaurin series k_p up to degree p = {DEGREE} (dashed), with "
            "σ² = l = 1, over ‖x̃‖ for several ‖ỹ‖ and angles between x and y. k_p is what a Taylor map of "
            f"{N_FEATURES} columns in two dimensions gives.",
            _theorem(),
            _diagonal(),
        ),
        _figure(),
        (_table(),),
    )


def _theorem() -> str:
    """Check the three claims of Theorem 3.1 between all norms up to 4 and all angles."""
    radii, angles = np.linspace(0.0, 4.0, 41), np.arange(0, 181, 5)
    pairs = [kernels(radii, radii, float(angle)) for angle in angles]
    truncated = np.abs([truncated for _, truncated in pairs])
    errors = np.abs([exact - truncated for exact, truncated in pairs])
    excess = float((errors - errors[0]).max())
    squares = np.square(radii)[:, None] + np.square(radii)[None, :]
    sums = (8, 16, 24)
    largest = [truncated[:, squares >= least].max() for least in sums]
    return (
        f"Theorem 3.1, between {len(radii)} norms up to {radii[-1]:g} on either side and {len(angles)} angles from 0° "
        f"to 180°: |k_p| falls as ‖x̃‖² + ‖ỹ‖² grows, whatever the angle: where that is at least {_listed(sums)}, "
        f"|k_p| is at most {_listed(largest)}. At 90° the error |k − k_p| is at most {errors[angles == 90].max():.1e}. "
        f"For given norms no angle's error exceeds that of parallel rows by more than {excess:.1e}; the largest error "
        f"of parallel rows is {errors[0].max():.3f}, of opposite ones {errors[-1].max():.3f}."
    )


def _listed(values: ArrayLike) -> str:
    *first, last = (f"{value:.3g}" for value in np.asarray(values))
    return f"{', '.join(first)} and {last}"


def _on_diagonal() -> tuple[Floats, Floats]:
    exact, truncated = kernels(RADII, RADII, 0)
    return exact.diagonal(), truncated.diagonal()


def _closed_form(radii: Floats) -> Floats:
    """k_p(x, x)/σ² = e^{−r²} Σ_{n≤p} r²ⁿ/n! = Q(p + 1, r²), not by way of the features."""
    closed: Floats = gammaincc(DEGREE + 1, radii**2)
    return closed


def _diagonal() -> str:
    deviation = np.abs(_on_diagonal()[1] - _closed_form(RADII)).max()
    return (
        "For x = y with ‖x̃‖ = r, k_p(x, x) is the regularised upper incomplete gamma function Q(p + 1, r²), 1 near the "
        f"origin and 0 beyond r² ≈ p: the largest deviation measured is {deviation:.1e}, at {len(RADII)} values of r."
    )


def _table() -> Table:
    rows: list[tuple[float, ...]] = []
    for angle in ANGLES:
        exact, truncated = kernels(RADII, NORMS, angle)
        errors = np.abs(exact - truncated)
        at = errors.argmax(axis=0)
        rows.extend(
            (angle, norm, float(errors[at[i], i]), float(RADII[at[i]]), float(truncated[at[i], i]))
            for i, norm in enumerate(STYLES)
        )
    return Table(
        NAME,
        f"The largest error of the truncated kernel, p = {DEGREE} and σ² = 1, over ‖x̃‖ from 0 to 4, and the ‖x̃‖ where "
        "it is. Norms in lengthscales.",
        ("angle, degrees", "‖ỹ‖", "largest |k − k_p|", "at ‖x̃‖", "k_p there"),
        tuple(rows),
    )


def _figure() -> Figure:
    figure = new_figure(13.0, 7.0)
    panels = figure.subplots(2, 3, sharex=True, sharey=True).ravel()
    for axes, angle in zip(panels, ANGLES, strict=False):
        exact, truncated = kernels(RADII, NORMS, angle)
        for i, (norm, (colour, marker)) in enumerate(STYLES.items()):
            axes.plot(RADII, exact[:, i], color=colour, linewidth=4, alpha=0.35, label=f"k, ‖ỹ‖ = {norm:g}")
            # Markers tell the norms apart in grey; they start at different places, so that lines on zero show too.
            axes.plot(
                RADII, truncated[:, i], "--", color=colour, linewidth=1.5, marker=marker, markersize=4.5,
                markevery=(5 * i, 20), label=f"$k_p$, ‖ỹ‖ = {norm:g}",
            )  # fmt: skip
        axes.set_title(f"θ = {angle}°" + {0: " (parallel)", 90: " (orthogonal)", 180: " (opposite)"}.get(angle, ""))
    diagonal, rest = panels[len(ANGLES) :]
    exact, truncated = _on_diagonal()
    diagonal.plot(RADII, exact, color=BLACK, linewidth=4, alpha=0.35, label="k(x, x)")
    diagonal.plot(RADII, truncated, "--", color=BLACK, linewidth=1.5, label="$k_p$(x, x)")
    some = RADII[::10]
    diagonal.plot(some, _closed_form(some), "o", color=BLACK, fillstyle="none", label="Q(p + 1, r²), closed form")
    diagonal.set_title("x = y, ‖x̃‖ = ‖ỹ‖ = r")
    for axes in panels[:-1]:
        axes.set(xlim=(RADII[0], RADII[-1]), ylim=(-0.17, 1.08))
        axes.grid(alpha=0.25)
        axes.tick_params(labelbottom=True)
        axes.set_xlabel("r, lengthscales" if axes is diagonal else "‖x̃‖, lengthscales")
    for axes in panels[::3]:
        axes.set_ylabel("kernel value, σ² = 1")
    rest.axis("off")
    on_diagonal, truncated_on_diagonal, closed = diagonal.get_lines()
    handles = [*panels[0].get_lines()[::2], on_diagonal, closed, *panels[0].get_lines()[1::2], truncated_on_diagonal]
    rest.legend(handles=handles, loc="center", frameon=False, ncols=2, fontsize="medium")
    return figure
