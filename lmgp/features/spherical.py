"""Spherical random Fourier features: polynomial kernels for rows of unit norm.

On the unit sphere (1 − ‖x − z‖²/a²)ᵖ is a function of the distance z alone, but not a positive definite one in every
dimension. It is approximated by K̂(z) = ∫ p(w) Λ(wz) dw. The non-negative density p of the frequencies' norms w is the
positive part of a sum of Gaussian densities (eq. 4). It is fitted once for each (p, a, d) and kept on disk.

References
----------
J. Pennington, F. X. Yu and S. Kumar, *Spherical Random Features for Polynomial Kernels*, NIPS 2015, section 3.2.
"""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, lru_cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import cumulative_trapezoid
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import minimize
from scipy.special import gammaln, xlogy
from scipy.stats import chi, ortho_group
from sklearn.metrics.pairwise import polynomial_kernel
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from lmgp.data import Floats, RandomState, as_tensor, validated
from lmgp.errors import InputError
from lmgp.features.base import FeatureMap
from lmgp.features.fourier import wave_names, write_waves
from lmgp.features.sparse import non_zeros
from lmgp.saving.output import write_whole
from lmgp.utils.lazy import Tensor, torch
from lmgp.utils.parallel import single_threaded_blas

# The largest distance of the norm of a row from 1.
UNIT = 1e-6

# How the density is fitted: nodes of the integrals over z and over w, and the most steps from each start. The version
# is part of the name of a stored fit: raise it with any change that gives other numbers for the same parameters.
N_DISTANCES, N_RADII, N_ITERATIONS, VERSION = 64, 2000, 300, 1


@dataclass(eq=False, repr=False)
class SphericalFourierFeatures(FeatureMap):
    """Random Fourier features for the polynomial kernel (1 − ‖x − z‖²/a²)ᵖ of rows of unit norm.

    φ(x) = √(2K̂(0)/D) [cos(Wx), sin(Wx)], where the rows of W are D/2 frequencies. Their directions are uniform; their
    norms are drawn from a density that is fitted to the kernel (`lmgp.features.spherical`). The map is unbiased for the
    kernel K̂ of that density, which approximates the polynomial one, and ‖φ(x)‖² = K̂(0) at every row.

    Parameters
    ----------
    n_features : int, default=512
        The number of columns, at least 2; an odd number gives one less.
    degree : int, default=3
        p, at least 1.
    a : float, default=4.0
        At least 2. In scikit-learn's terms the kernel is (gamma xᵀz + coef0)ᵖ with gamma = 2/a², coef0 = 1 − 2/a².
    n_gaussians : int, default=10
        The number of terms of the radial density.
    orthogonal : bool, default=False
        Whether the directions are orthogonal in blocks of d, which lowers the variance.
    normalize : bool, default=False
        Whether to divide rows by their norms. Otherwise a row whose norm is not 1 is refused.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Seed of what is drawn.

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_features_out_ / 2, d)
    radial_ : RadialFit
        The density of the frequencies' norms, ``radial_.density(w)``, and its kernel, ``radial_.kernel(z)``.
    n_features_out_ : int
        The number of columns made.
    n_features_in_ : int
        The number of input columns, d.

    Notes
    -----
    The first fit for given `degree`, `a`, d and `n_gaussians` takes about a second; it is kept on disk
    (`fit_radial`). The difference between K̂ and K does not depend on `n_features`. It is largest for low degrees and
    small `a`; ``radial_.loss`` is its size.

    This differs from the paper's Algorithm 1 in two ways: pairs of a cosine and a sine replace cosines with a random
    phase, whose variance is higher; and the columns are scaled by K̂(0), which is not exactly 1. A third one,
    ``orthogonal=True``, is off by default.

    References
    ----------
    J. Pennington, F. X. Yu and S. Kumar, *Spherical Random Features for Polynomial Kernels*, NIPS 2015, Algorithm 1.

    F. X. Yu et al., *Orthogonal Random Features*, NIPS 2016, section 3.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from lmgp.features.spherical import SphericalFourierFeatures
    >>> X = normalize(load_digits().data[:200])
    >>> features = SphericalFourierFeatures(n_features=4096, degree=10, random_state=0).fit(X)
    >>> columns = features.transform(X)
    >>> bool(abs(columns @ columns.T - features.exact_kernel(X)).mean() < 0.01)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **FeatureMap._parameter_constraints,
        "n_features": [Interval(Integral, 2, None, closed="left")],
        "degree": [Interval(Integral, 1, None, closed="left")],
        "a": [Interval(Real, 2, None, closed="left")],
        "n_gaussians": [Interval(Integral, 1, None, closed="left")],
        "orthogonal": ["boolean"],
        "normalize": ["boolean"],
    }

    n_features: int = 512
    degree: int = 3
    a: float = 4.0
    n_gaussians: int = 10
    _: KW_ONLY
    orthogonal: bool = False
    normalize: bool = False
    random_state: RandomState = None
    frequencies_: Floats = field(init=False)
    radial_: "RadialFit" = field(init=False)

    def draw(self, X: Floats, rng: np.random.Generator) -> None:  # noqa: D102
        n_inputs = self._of_unit_norm(X).shape[1]
        radial = fit_radial(self.degree, self.a, n_inputs, self.n_gaussians)
        n_frequencies = self.n_features // 2
        if self.orthogonal:
            n_blocks = -(-n_frequencies // n_inputs)
            blocks = [ortho_group.rvs(n_inputs, random_state=rng) for _ in range(n_blocks)]
            directions = np.concatenate(blocks)[:n_frequencies]
        else:
            directions = rng.standard_normal((n_frequencies, n_inputs))
            directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        self.frequencies_, self.radial_ = directions * radial.sample(n_frequencies, rng)[:, None], radial
        self.n_features_out_ = 2 * n_frequencies

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        return wave_names(self.n_features_out_ // 2)

    def evaluate(self, X: Tensor) -> Tensor:
        """Map a tensor of finite rows, shape (n, d), to features of shape (n, n_features_out_).

        Raises
        ------
        InputError
            If a row has not the unit norm, or is zero where rows are to be normalised.
        """
        angles = as_tensor(self._of_unit_norm(X.numpy())) @ as_tensor(self.frequencies_).T
        half = len(self.frequencies_)
        features = torch.empty((len(angles), 2 * half), dtype=torch.float64)
        write_waves(angles, features)
        return features.mul_((self.radial_.value / half) ** 0.5)

    def operation_count(self, X: ArrayLike) -> Floats:
        """Count the floating point operations that the features of each row take.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows of unit norm, unless `normalize`.

        Returns
        -------
        ndarray of shape (n,)
            D s for a row with s non-zeros, as for `RandomFourierFeatures`.
        """
        check_is_fitted(self)
        return np.asarray(self.n_features_out_ * non_zeros(self._checked(X, "X")), dtype=np.float64)

    def exact_kernel(self, X: ArrayLike, Z: ArrayLike | None = None) -> Floats:
        """Evaluate the polynomial kernel (1 − ‖x − z‖²/a²)ᵖ between all rows of X and all rows of Z.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows of unit norm, unless `normalize`.
        Z : array-like of shape (m, d), optional
            X itself if not given.

        Returns
        -------
        ndarray of shape (n, m)

        Raises
        ------
        InputError
            As `evaluate`.
        """
        check_is_fitted(self)
        left = self._checked(X, "X")
        right = left if Z is None else self._checked(Z, "Z")
        gamma = 2.0 / self.radial_.a**2
        return polynomial_kernel(left, right, degree=self.radial_.degree, gamma=gamma, coef0=1.0 - gamma)

    def _checked(self, X: ArrayLike, name: str) -> Floats:
        return self._of_unit_norm(validated(self, X, reset=False), name)

    def _of_unit_norm(self, rows: Floats, name: str = "X") -> Floats:
        """Bring rows to unit norm, or check that they have it."""
        if self.normalize:
            # By the largest entry first, so that no square overflows or vanishes.
            largest = np.abs(rows).max(axis=1, keepdims=True)
            if not largest.all():
                raise InputError(
                    f"Row {int(np.argmin(largest))} of {name} is zero and cannot be brought to unit norm: leave it out."
                )
            scaled = rows / largest
            return scaled / np.linalg.norm(scaled, axis=1, keepdims=True)
        norms = np.linalg.norm(rows, axis=1)
        wrong = np.abs(norms - 1.0) > UNIT
        if wrong.any():
            at = int(np.argmax(wrong))
            raise InputError(
                f"{type(self).__name__} needs rows of unit norm; row {at} of {name} has norm {norms[at]:.6g}. Use "
                "sklearn.preprocessing.normalize, or normalize=True."
            )
        return rows


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
        return (1.0 - (np.asarray(z, dtype=np.float64) / self.a) ** 2) ** self.degree

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
    for name, count in {"degree": degree, "n_inputs": n_inputs, "n_gaussians": n_gaussians}.items():
        if not isinstance(count, Integral) or count < 1:
            raise InputError(f"{name} must be an integer of at least 1; got {count!r}.")
    if not isinstance(a, Real) or not 2 <= a < np.inf:
        raise InputError(
            f"a must be a finite number of at least 2, the largest distance on the unit sphere; got {a!r}."
        )
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


def _distances() -> tuple[Floats, Floats]:
    """Gauss-Legendre nodes and weights on [0, 2]."""
    nodes, weights = np.polynomial.legendre.leggauss(N_DISTANCES)
    return nodes + 1.0, weights


def _largest_log_ratio(n_inputs: int) -> float:
    """Return how far log σ may be from its start: the densities that matter are narrower, and closer, for larger d."""
    return min(0.7, 0.25 + 3.0 / n_inputs**0.5)


def _radii(degree: int, a: float, n_inputs: int) -> Floats:
    scale = (2.0 * degree) ** 0.5 / a
    reach = np.exp(_largest_log_ratio(n_inputs))
    return np.linspace(scale / reach * chi.ppf(1e-14, n_inputs), scale * reach * chi.isf(1e-14, n_inputs), N_RADII)


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
    target = (1.0 - (z / a) ** 2) ** degree

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

    def relative(parameters: Floats, unit: float) -> tuple[Any, ...]:
        return tuple(part / unit for part in loss(parameters))

    reach = _largest_log_ratio(n_inputs)
    options = {"maxiter": N_ITERATIONS, "ftol": 1e-12, "gtol": 1e-12}
    bounds = [(None, None)] * n_gaussians + [(centre - reach, centre + reach)] * n_gaussians
    results = []
    for c, spread in starts:
        start = np.concatenate((c, centre + spread * offsets))
        unit = loss(start)[0]  # gradients of ordinary size, however small L is
        results.append(minimize(relative, start, unit, "L-BFGS-B", jac=True, bounds=bounds, options=options).x)
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
    return Path(folder, "spherical", f"v{VERSION}-p{degree}-a{a!r}-d{n_inputs}-n{n_gaussians}.json")


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
    write_whole(path, json.dumps({"c": fitted.c.tolist(), "sigma": fitted.sigma.tolist()}).encode())
