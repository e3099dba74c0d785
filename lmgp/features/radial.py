"""The radii of spherical random Fourier features: a non-negative density, fitted to a polynomial kernel on the sphere.

On the unit sphere (1 − ‖x − z‖²/a²)ᵖ is a function of the distance z alone, but not a positive definite one in every
dimension. It is approximated by K̂(z) = ∫ p(w) Λ(wz) dw. The non-negative density p of the frequencies' norms w is the
positive part of a sum of Gaussian densities (eq. 4). It is fitted once for each (p, a, d) and kept on disk.

References
----------
J. Pennington, F. X. Yu and S. Kumar, *Spherical Random Features for Polynomial Kernels*, NIPS 2015, section 3.2.
"""

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from numbers import Integral, Real
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import cumulative_trapezoid
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import minimize, nnls
from scipy.special import gammaln, xlogy
from scipy.stats import chi

from lmgp.errors import InputError
from lmgp.parallel import single_threaded_blas

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Fitting:
    """How the density is fitted.

    Attributes
    ----------
    version : int
        Part of the name of a stored fit. Raise it with any change that gives other numbers for the same parameters.
    n_distances, n_radii : int
        Nodes of the integrals over z and over w.
    n_iterations : int
        The most steps from each start.
    """

    version: int = 1
    n_distances: int = 64
    n_radii: int = 2000
    n_iterations: int = 300


FITTING = Fitting()


def sphere_cosine(t: ArrayLike, n_inputs: int) -> Floats:
    """Return the mean of cos(t u) where u is one coordinate of a uniform point on the unit sphere.

    That is Λ(t) = Γ(d/2) (2/t)^{d/2−1} J_{d/2−1}(t): the Fourier transform of the sphere's uniform distribution. It is
    summed by Gauss quadrature for the weight (1 − u²)^{(d−3)/2}, which has no power or Gamma function to overflow.

    Parameters
    ----------
    t : array-like of any shape
    n_inputs : int
        d ≥ 1; with one input u is ±1, and Λ the cosine.

    Returns
    -------
    ndarray of the shape of t

    Examples
    --------
    >>> sphere_cosine([0.0, 2.0], 3).round(6)  # sin(t)/t
    array([1.      , 0.454649])
    """
    t = np.asarray(t, dtype=np.float64)
    largest = float(np.abs(t).max(initial=0.0))
    # The error is at most t²ⁿ/(2n)! · Πβ, and βₖ ≤ k/d: negligible for n well above t/2, or above t²/d.
    n_nodes = 2 * int(20 + min(largest / 2, largest**2 / n_inputs) / 2)
    k, order = np.arange(2, n_nodes), n_inputs / 2 - 1
    beta = np.append(1 / n_inputs, k * (k + 2 * order - 1) / (4 * (k + order) * (k + order - 1)))
    nodes, vectors = eigh_tridiagonal(np.zeros(n_nodes), np.sqrt(beta))
    # The nodes are symmetric, and the cosine is even.
    total = np.zeros(t.shape)
    for node, weight in zip(nodes[n_nodes // 2 :], 2 * vectors[0, n_nodes // 2 :] ** 2, strict=True):
        total += weight * np.cos(node * t)
    return total


@dataclass(frozen=True, eq=False)
class RadialFit:
    """The radial density p(w) = max(0, Σ cᵢ pᵢ(w)) and its kernel K̂; pᵢ is the density of √2 σᵢ χ_d.

    Attributes
    ----------
    degree : int
        p of the kernel.
    a : float
    n_inputs : int
        d.
    c, sigma : ndarray of shape (n_gaussians,)
        The weights, of any sign, and the widths.
    """

    degree: int
    a: float
    n_inputs: int
    c: Floats
    sigma: Floats

    @cached_property
    def radii(self) -> Floats:
        """The grid of w on which p is integrated by the trapezoidal rule, and its distribution function is inverted."""
        return _radii(self.degree, self.a, self.n_inputs)

    @cached_property
    def value(self) -> float:
        """K̂(0) = ∫ p(w) dw."""
        return float(np.trapezoid(self.density(self.radii), self.radii))

    @cached_property
    def loss(self) -> float:
        """L = ½ ∫₀² (K(z) − K̂(z))² dz (eq. 5)."""
        z, weights = _distances()
        return float(weights @ (self.kernel(z) - self.target(z)) ** 2 / 2)

    def density(self, w: ArrayLike) -> Floats:
        """Return p(w), which integrates to K̂(0), for radii of any shape."""
        w = np.asarray(w, dtype=np.float64)
        return np.maximum(self.c @ _densities(w.ravel(), self.sigma, self.n_inputs), 0.0).reshape(w.shape)

    def target(self, z: ArrayLike) -> Floats:
        """Return K(z) = (1 − z²/a²)ᵖ for distances in [0, 2] of any shape."""
        return _target(np.asarray(z, dtype=np.float64), self.degree, self.a)

    def kernel(self, z: ArrayLike) -> Floats:
        """Return K̂(z) = ∫ p(w) Λ(wz) dw for distances in [0, 2] of any shape."""
        z = np.asarray(z, dtype=np.float64)
        density = self.density(self.radii)
        parts = [
            np.trapezoid(density * sphere_cosine(np.outer(part, self.radii), self.n_inputs), self.radii)
            for part in np.array_split(z.ravel(), 1 + z.size // 256)
        ]
        return np.concatenate(parts).reshape(z.shape)

    def sample(self, size: int, rng: np.random.Generator) -> Floats:
        """Draw radii from p(w)/K̂(0) by the inverse of its distribution function."""
        distribution = cumulative_trapezoid(self.density(self.radii), self.radii, initial=0.0)
        return np.interp(distribution[-1] * rng.random(size), distribution, self.radii)


def fit_radial(degree: int, a: float, n_inputs: int, n_gaussians: int = 10) -> RadialFit:
    """Fit the radial density to (1 − z²/a²)ᵖ, or read an earlier fit from the disk.

    The fit is deterministic. Fits are kept in the folder ``spherical`` of the user's cache, ``pooch.os_cache("lmgp")``,
    or of the folder that the environment variable ``LMGP_CACHE_DIR`` names. If a file cannot be read, the density is
    fitted again; if the folder cannot be written to, nothing is stored.

    Parameters
    ----------
    degree : int
        p ≥ 1.
    a : float
        At least 2.
    n_inputs : int
        d ≥ 1.
    n_gaussians : int, default=10
        The number of terms of the sum.

    Returns
    -------
    RadialFit

    Raises
    ------
    InputError
        If a parameter is out of its range.

    References
    ----------
    J. Pennington, F. X. Yu and S. Kumar, *Spherical Random Features for Polynomial Kernels*, NIPS 2015, eq. 4 and 5.

    Examples
    --------
    >>> fit = fit_radial(10, 4.0, 64)
    >>> bool(abs(fit.kernel(1.0) - fit.target(1.0)) < 0.01)
    True
    """
    _check(a, degree=degree, n_inputs=n_inputs, n_gaussians=n_gaussians)
    parameters = int(degree), float(a), int(n_inputs)
    path = _path(*parameters, int(n_gaussians))
    fitted = _read(path, parameters, n_gaussians)
    if fitted is None:
        # In one thread: the products are small, and their rounding shall not depend on the number of threads.
        with single_threaded_blas():
            fitted = _fit(*parameters, int(n_gaussians))
        with suppress(OSError):
            _write(path, fitted)
    return fitted


def least_loss(degree: int, a: float, n_inputs: int) -> float:
    """Return the least loss L of any non-negative radial distribution on the grid of `fit_radial`: a lower bound.

    K̂ is linear in the distribution: this is a non-negative least-squares problem. Its solution has few atoms, often a
    single radius.

    Parameters
    ----------
    degree, a, n_inputs
        As `fit_radial`.

    Raises
    ------
    InputError
        If a parameter is out of its range.

    Examples
    --------
    >>> fit_radial(3, 2.0, 64).loss / least_loss(3, 2.0, 64) < 1.1
    True
    """
    _check(a, degree=degree, n_inputs=n_inputs)
    z, weights = _distances()
    target = _target(z, degree, a)
    matrix = sphere_cosine(np.outer(z, _radii(degree, a, n_inputs)), n_inputs)
    residual = nnls(np.sqrt(weights)[:, None] * matrix, np.sqrt(weights) * target, maxiter=10 * FITTING.n_radii)[1]
    return float(residual**2 / 2)


def _check(a: float, **counts: int) -> None:
    for name, count in counts.items():
        if not isinstance(count, Integral) or count < 1:
            raise InputError(f"{name} must be an integer of at least 1; got {count!r}.")
    if not isinstance(a, Real) or not 2 <= a < np.inf:
        raise InputError(
            f"a must be a finite number of at least 2, the largest distance on the unit sphere; got {a!r}."
        )


def _target(z: Floats, degree: int, a: float) -> Floats:
    return (1.0 - (z / a) ** 2) ** degree


def _distances() -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on [0, 2]."""
    nodes, weights = np.polynomial.legendre.leggauss(FITTING.n_distances)
    return nodes + 1.0, weights


def _largest_log_ratio(n_inputs: int) -> float:
    """Return how far log σ may be from its start: the densities that matter are narrower, and closer, for larger d."""
    return min(0.7, 0.25 + 3.0 / n_inputs**0.5)


def _radii(degree: int, a: float, n_inputs: int) -> Floats:
    scale = (2.0 * degree) ** 0.5 / a
    reach = np.exp(_largest_log_ratio(n_inputs))
    return np.linspace(
        scale / reach * chi.ppf(1e-14, n_inputs), scale * reach * chi.isf(1e-14, n_inputs), FITTING.n_radii
    )


def _densities(w: Floats, sigma: Floats, n_inputs: int) -> Floats:
    """Evaluate the densities of √2 σᵢ χ_d, shape (n_gaussians, n_radii)."""
    sigma = sigma[:, None]
    constant = gammaln(n_inputs / 2) + (n_inputs - 1) * np.log(2.0)
    return np.exp(xlogy(n_inputs - 1, w) - (w / sigma) ** 2 / 4 - n_inputs * np.log(sigma) - constant)


@lru_cache(maxsize=32)  # for where the folder cannot be written to
def _fit(degree: int, a: float, n_inputs: int, n_gaussians: int) -> RadialFit:
    """Minimise L over c and log σ from two starts around the single Gaussian σ² = p/a²."""
    z, weights = _distances()
    radii = _radii(degree, a, n_inputs)
    matrix = sphere_cosine(np.outer(z, radii), n_inputs) * (radii[1] - radii[0])
    matrix[:, [0, -1]] /= 2  # the trapezoidal rule
    target = _target(z, degree, a)

    def loss(parameters: Floats) -> tuple[float, Floats]:
        c, sigma = parameters[:n_gaussians], np.exp(parameters[n_gaussians:])
        densities = _densities(radii, sigma, n_inputs)
        mixture = c @ densities
        residual = matrix @ np.maximum(mixture, 0.0) - target
        slope = (weights * residual) @ matrix * (mixture > 0)
        by_log_sigma = densities * (0.5 * (radii / sigma[:, None]) ** 2 - n_inputs)
        return float(weights @ residual**2 / 2), np.concatenate((densities @ slope, c * (by_log_sigma @ slope)))

    centre = np.log(degree**0.5 / a)
    middle = n_gaussians // 2
    offsets = (np.arange(n_gaussians) - middle) / max(middle, 1)
    # For many inputs the best density is a narrow peak near the first Gaussian; for few, a wide mixture.
    starts = [
        (np.eye(n_gaussians)[middle], min(0.5, 2.0 / n_inputs**0.5)),
        (np.full(n_gaussians, 1.0 / n_gaussians), 0.5),
    ]
    reach = _largest_log_ratio(n_inputs)
    bounds = [(None, None)] * n_gaussians + [(centre - reach, centre + reach)] * n_gaussians
    results = []
    for c, spread in starts:
        start = np.concatenate((c, centre + spread * offsets))
        unit = loss(start)[0]  # gradients of ordinary size, however small L is
        results.append(
            minimize(
                lambda parameters, unit=unit: tuple(part / unit for part in loss(parameters)),
                start,
                jac=True,
                method="L-BFGS-B",
                bounds=bounds,
                options={"maxiter": FITTING.n_iterations, "ftol": 1e-12, "gtol": 1e-12},
            ).x
        )
    best = min(results, key=lambda parameters: loss(parameters)[0])
    c, sigma = best[:n_gaussians].copy(), np.exp(best[n_gaussians:])
    for shared in (c, sigma):
        shared.flags.writeable = False
    return RadialFit(degree, a, n_inputs, c, sigma)


def _path(degree: int, a: float, n_inputs: int, n_gaussians: int) -> Path:
    folder = os.environ.get("LMGP_CACHE_DIR")
    if not folder:
        import pooch

        folder = pooch.os_cache("lmgp")
    return Path(folder, "spherical", f"v{FITTING.version}-p{degree}-a{a!r}-d{n_inputs}-n{n_gaussians}.json")


def _read(path: Path, parameters: tuple[int, float, int], n_gaussians: int) -> RadialFit | None:
    """Return the stored fit, or None where there is none that can be used."""
    try:
        stored = json.loads(path.read_text())
        c, sigma = (np.array(stored[name], dtype=np.float64) for name in ("c", "sigma"))
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None
    if c.shape != (n_gaussians,) or c.shape != sigma.shape:
        return None
    usable = np.isfinite(c).all() and np.isfinite(sigma).all() and (sigma > 0).all()
    fitted = RadialFit(*parameters, c, sigma)
    # K(0) is 1: another file than one of these fits would hardly come near.
    return fitted if usable and abs(fitted.value - 1.0) < 0.5 else None


def _write(path: Path, fitted: RadialFit) -> None:
    """Store a fit whole or not at all: another process may read it meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "w") as file:
            json.dump({"c": fitted.c.tolist(), "sigma": fitted.sigma.tolist()}, file)
        os.replace(name, path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
