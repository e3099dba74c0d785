"""The posterior over the weights of a feature map: D × D, whatever the number of rows."""

import math
from bisect import bisect_right
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from lmgp.data import Floats, Noise, Rows, TargetSums, as_tensor
from lmgp.errors import NoEstimateError
from lmgp.features.adapter import TransformerFeatures, make_feature_map
from lmgp.features.base import KernelMap
from lmgp.features.projection import Projection
from lmgp.features.sparse import as_float
from lmgp.features.statistics import Statistics
from lmgp.features.taylor import TaylorFeatures
from lmgp.kernels.base import Kernel
from lmgp.metrics import kl_divergence
from lmgp.neighbours.trees import blocks_of
from lmgp.posteriors.base import Posterior, made_for_one_kernel, without_itself
from lmgp.posteriors.joint import ADVICE, root_of, with_variance
from lmgp.utils.arithmetic import ACCELERATOR_BYTES, USUAL, Arithmetic, Precision
from lmgp.utils.lazy import Tensor, torch
from lmgp.utils.linalg import cholesky, solve_lower, solve_upper
from lmgp.utils.memory import check_memory, chunks
from lmgp.utils.parallel import parallel_map, unless_abandoned

# The most rows of a block within which what a map leaves out is drawn with its correlations.
BLOCK = 1024

# D × D matrices that a model holds at a time: the Gram matrix, A and its factor.
MATRICES = 3

# The number of leading blocks of columns, from one half on, whose predictions are compared with that of all.
LEADING = 8

# Blocks of rows whose rounding errors are found, their rows, and the rows of which the predictions are compared.
N_BLOCKS, BLOCK_ROWS, TESTS = 4, 1024, 64


class WeightPosterior(Posterior):
    """The Gaussian posterior over the weights w of f(x) = φ(x − c)ᵀw, with prior w ~ N(0, I), around a centre c.

    With A = Σ ρφφᵀ/σ² + I = LLᵀ and β = L⁻¹ Σ ρφyᵀ/σ², the latent mean at a row is vᵀβ and its variance ‖v‖²,
    v = L⁻¹φ: a sum of squares, which cannot be negative. The noise says what becomes of the variance that the map
    leaves out.

    Parameters
    ----------
    features : KernelMap
        Fitted.
    centre : ndarray of shape (d,)
        Of the map.
    kernel : Kernel
    statistics : Statistics
        Sums over the training rows, with centred targets; see `accumulate`. They are not changed, nor kept.
    combination : ndarray of shape (s, t), optional
        The targets are those of the statistics times this matrix.
    box : pair of ndarray of shape (d,), optional
        The lowest and the highest values of the training rows: an error beyond is larger.
    precision : {"float64", "float32"}, default="float64"
        Of the features that were summed.

    Attributes
    ----------
    factor : Tensor of shape (D, D)
        L, lower triangular.
    coefficients : Tensor of shape (D, t)
        β.
    targets : TargetSums

    References
    ----------
    J. Wacker and M. Filippone, *Local Random Feature Approximations of the Gaussian Kernel*, 2022, eq. 2.
    """

    targets: TargetSums
    rounding_divergence: float = 0.0

    def __init__(
        self,
        features: KernelMap,
        centre: Floats,
        kernel: Kernel,
        statistics: Statistics,
        combination: Floats | None = None,
        *,
        box: tuple[Floats, Floats] | None = None,
        precision: Precision = "float64",
    ) -> None:
        self.features, self.centre, self.kernel, self._box = features, centre, kernel, box
        self.noise = statistics.source.noise
        sums, variance = statistics.sums.expand(), self.noise.variance
        matrix = sums.gram / variance
        matrix.diagonal().add_(1.0)
        self.factor = cholesky(matrix, variance, 1.0, precision)
        cross, self.targets = sums.cross, statistics.targets
        if combination is not None:
            cross, self.targets = cross @ as_tensor(combination), self.targets.combined(combination)
        self.coefficients = solve_lower(self.factor, cross / variance)
        self.n_rows = round(self.targets.n)

    def keep(self, rows: Rows) -> None:
        """Keep the training rows, for what is predicted of each of them; copies go without."""
        self._rows = rows

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_rows", "weights")}

    @cached_property
    def weights(self) -> Tensor:
        """The posterior mean of w, L⁻ᵀβ, shape (D, t)."""
        return solve_upper(self.factor.T, self.coefficients)

    @property
    def n_bytes(self) -> int:
        """The memory that this posterior holds, in bytes."""
        return self.factor.nbytes + 2 * self.coefficients.nbytes

    def combined(self, combination: Floats) -> Self:  # noqa: D102
        other = super().combined(combination)
        other.coefficients = self.coefficients @ as_tensor(combination)
        other.targets = self.targets.combined(combination)
        vars(other).pop("weights", None)
        return other

    def evaluate(self, X: Floats) -> tuple[Tensor, Floats | None]:
        """Return the features of rows, shape (m, D), and the prior variance that the map leaves out of each."""
        rows = as_tensor(X - self.centre)
        columns = self.features.evaluate(rows)
        missing = self.features.missing_variance(rows, columns)
        return columns, None if missing is None else missing.numpy()

    def missing(self, X: Floats) -> Floats:  # noqa: D102
        variances = np.zeros(len(X))
        for part in chunks(len(X), self.features.n_features_out_) if self.noise.predicts_missing else ():
            missing = self.evaluate(X[part])[1]
            variances[part] = 0.0 if missing is None else missing
        return variances

    def whiten(self, columns: Tensor) -> Tensor:
        """Return v = L⁻¹φ of each row, as columns of shape (D, m), for features of shape (m, D)."""
        return solve_lower(self.factor, columns.T)

    def predict(self, X: Floats, variance: bool = True) -> tuple[Floats, Floats | None]:  # noqa: D102
        if not variance and self.coefficients.shape[1] == 1:
            project = Projection(self.features)
            return project(as_tensor(X - self.centre), self.weights[:, 0]).numpy()[:, None], None
        means, variances = np.empty((len(X), self.coefficients.shape[1])), np.empty(len(X)) if variance else None
        for part in chunks(len(X), self.features.n_features_out_):
            if variances is None:
                means[part] = (self.features.evaluate(as_tensor(X[part] - self.centre)) @ self.weights).numpy()
                continue
            columns, missing = self.evaluate(X[part])
            whitened = self.whiten(columns)
            means[part] = (self.coefficients.T @ whitened).T.numpy()
            variances[part] = self.noise.predicted(whitened.square().sum(dim=0).numpy(), missing)
        return means, variances

    @property
    def n_observations(self) -> float:
        """The sum of the weights: a density of sums is that of each row to the power of its weight."""
        return self.targets.n

    def products(self) -> Floats:  # noqa: D102
        explained = (self.coefficients.T @ self.coefficients).numpy()
        return self.targets.products / self.noise.variance - explained

    def prior_variance(self, X: Floats) -> Floats:  # noqa: D102
        if isinstance(self.features, TransformerFeatures):  # which is no map of the kernel
            return self.evaluate(X)[0].square().sum(dim=1).numpy()
        return super().prior_variance(X)

    def covariance(self, X: Floats) -> Floats:
        """Return the covariance of rows by the map, with what it leaves out of the kernel, shape (m, m).

        That is the covariance k − φᵀφ where it is one, as of Nyström and Taylor maps; of other maps, each row's own.
        """
        m, n_features = len(X), self.features.n_features_out_
        check_memory(8.0 * (4.0 * m**2 + 3.0 * m * n_features), f"The covariance of {m:,} rows", ADVICE)
        columns, missing = self.evaluate(X)
        whitened = self.whiten(columns)
        covariance = (whitened.T @ whitened).numpy()
        if missing is not None and self.noise.predicts_missing:
            covariance += self._left_out(X, columns, missing)
        return with_variance(covariance, covariance.diagonal().copy())

    def sample(self, X: Floats, n_samples: int, rng: np.random.Generator) -> Floats:
        """Draw errors by drawing weights, shape (m, n_samples); what a map leaves out, within blocks of near rows."""
        features, kernel = self.features, self.kernel
        white = torch.from_numpy(rng.standard_normal((len(self.factor), n_samples)))
        weights, draws = solve_upper(self.factor.T, white), np.empty((len(X), n_samples))
        near = kernel.in_lengthscales(X) if kernel.can("metric") else X
        parts = blocks_of(near, BLOCK) if features.leaves_covariance else chunks(len(X), features.n_features_out_)
        for part in parts:
            columns, missing = self.evaluate(X[part])
            draws[part] = (columns @ weights).numpy()
            if missing is not None and self.noise.predicts_missing:
                beside = rng.standard_normal((len(columns), n_samples))
                if features.leaves_covariance:
                    draws[part] += root_of(self._left_out(X[part], columns, missing)) @ beside
                else:
                    draws[part] += np.sqrt(missing)[:, None] * beside
        return draws

    def _left_out(self, X: Floats, columns: Tensor, missing: Floats) -> Floats:
        """Return the prior covariance that the map leaves out."""
        if not self.features.leaves_covariance:
            return np.diag(missing)
        remainder: Floats = self.kernel.evaluate(as_tensor(X), as_tensor(X)).numpy() - (columns @ columns.T).numpy()
        np.fill_diagonal(remainder, missing)
        return remainder

    def without_each(self, rows: Rows) -> tuple[Floats, Floats]:  # noqa: D102
        means, variances = np.empty(rows.Y.shape), np.empty(len(rows))
        for part in chunks(len(rows), self.features.n_features_out_):
            chunk = rows.take(part)
            columns, missing = self.evaluate(chunk.X)
            whitened = self.whiten(columns)
            mean, variance = (whitened.T @ self.coefficients).numpy(), whitened.square().sum(dim=0).numpy()
            noise = self.noise.of_weighted_rows(chunk, missing)
            means[part], latent = without_itself(chunk.Y, mean, variance, noise)
            variances[part] = self.noise.predicted(latent, missing)
        return means, variances

    def log_density(self, kernel: Kernel | None = None, noise_variance: float | None = None) -> Floats:  # noqa: D102
        if kernel is not None or noise_variance is not None:
            raise made_for_one_kernel("a featurized model", "its features")
        n, squares = self.targets.n, self.products().diagonal()
        log_determinant = 2.0 * float(self.factor.diagonal().log().sum())
        constant = n * math.log(2.0 * math.pi * self.noise.variance) - self.targets.log_precision + log_determinant
        return -0.5 * (constant + squares)

    def error(self, X: Floats, beyond: Floats | None = None) -> Floats:
        """Return what cutting the series of a Taylor map has cost, see `expected_divergence`.

        `beyond`, shape (m,), says how far each row is from where training rows are, in lengthscales, where that is
        known better than from their box.
        """
        if beyond is None:
            beyond = np.full(len(X), -np.inf)
            if self._box is not None:
                outside = X - np.clip(X, *self._box)
                beyond = np.sqrt(np.square(self.kernel.in_lengthscales(outside)).sum(axis=1))
        return expected_divergence(self, X, beyond) + self.rounding_divergence

    def cure(self, X: Floats) -> str:  # noqa: D102
        if self.evaluate(X[:1])[1] is not None and self.noise.approximation != "fitc":
            return (
                f"With approximation={self.noise.approximation!r} rows that the map represents only in part distort "
                "the fit where the noise is small: use approximation='fitc'."
            )
        return (
            f"{self.features.n_features_out_:,} columns cannot follow the targets as closely as noise_variance="
            f"{self.noise.variance:.3g} asks: use more features, NystroemFeatures, or a larger noise_variance."
        )


def check_model(features: KernelMap, n_rows: int, n_inputs: int, max_memory_gib: float | None = None) -> None:
    """Refuse a featurized model whose matrices do not fit, before its map is made.

    Parameters
    ----------
    features : KernelMap
        Not fitted.
    n_rows, n_inputs : int
        n and d.
    max_memory_gib : float, optional
        The machine's memory if not given.

    Raises
    ------
    MemoryLimitError
        If three D × D matrices and the parameters of the map take more.
    """
    needed, n_columns = bytes_of_model(features, n_rows, n_inputs)

    def advice(limit: float) -> str:
        most = 0
        if "n_features" in features.get_params(deep=False):
            sizes = range(1, min(features.n_features, 10**12))
            smaller = clone(features)
            most = bisect_right(
                sizes, limit, key=lambda size: bytes_of_model(smaller.set_params(n_features=size), n_rows, n_inputs)[0]
            )
        return f"Use at most {most or math.isqrt(int(limit / (8 * MATRICES))):,} features, or a higher limit."

    check_memory(needed, f"The matrices of a model with {n_columns:,} columns", advice, max_memory_gib)


def fitted_global_map(
    features: Any, kernel: Kernel, rows: Rows, rng: np.random.Generator, max_memory_gib: float | None = None
) -> tuple[KernelMap, Floats]:
    """Fit a map of a global model; return it and its centre, shape (d,).

    Parameters
    ----------
    features : FeatureMap or scikit-learn transformer
        Cloned, and given the kernel and a seed where it has none.
    kernel : Kernel
    rows : Rows
    rng : numpy.random.Generator
    max_memory_gib : float, optional
        For the matrices of a model with this map, in GiB; the machine's memory if not given.

    Raises
    ------
    MemoryLimitError
        If the matrices of its columns take more; the map has not been made then.
    """
    feature_map = make_feature_map(features, kernel, rng)
    check_model(feature_map, len(rows), rows.X.shape[1], max_memory_gib)
    centre = feature_map.centre_of(rows.X, rows.weights)
    return feature_map.fit_around(rows.X, centre[None, :]), centre


def bytes_of_model(features: KernelMap, n_rows: int, n_inputs: int) -> tuple[float, int]:
    """Return the bytes of the matrices of a model with a map, and its number of columns."""
    work = features.work(n_inputs)
    # Of n rows, no more than n can be landmarks.
    n_columns = min(work.columns, n_rows) if work.solved else work.columns
    return 8.0 * MATRICES * as_float(n_columns**2) + features.n_bytes(n_rows, n_inputs), n_columns


def accumulate(
    features: KernelMap, rows: Rows, centre: Floats, noise: Noise, arithmetic: Arithmetic = USUAL
) -> Statistics:
    """Sum the statistics of X − centre over the rows, chunk by chunk.

    Parameters
    ----------
    features : KernelMap
        Fitted.
    rows : Rows
    centre : ndarray of shape (d,)
        Of the map.
    noise : Noise
    arithmetic : Arithmetic

    Returns
    -------
    Statistics
    """
    source = features.source(noise, centre)
    parts = list(chunks(len(rows), features.row_size, ACCELERATOR_BYTES if arithmetic.accelerated else None))
    # One sum a thread, over every n_sums-th chunk: added in a fixed order, so that the result is always the same.
    n_sums = 1 if arithmetic.accelerated else max(1, min(len(parts), torch.get_num_threads()))

    def sum_chunks(first: int) -> Statistics:
        taken = (rows.take(part) for part in unless_abandoned(parts[first::n_sums]))
        differences = (Rows(chunk.X - centre, chunk.Y, chunk.weights, chunk.noise_variances) for chunk in taken)
        return features.summed(differences, source, rows.n_targets, arithmetic)

    return reduce(Statistics.merge, parallel_map(sum_chunks, range(n_sums)))


def expected_divergence(posterior: WeightPosterior, X: Floats, beyond: Floats) -> Floats:
    """Estimate the divergence of a prediction from the exact one.

    The leading block of chol(A) is the factor for the leading columns of the map: the predictions of smaller maps are
    partial sums of that of the whole one. The mean divergence of eight of them, of D/2 to 15 D/16 columns, from the
    whole is the first part. It is blind where the map has ended: there, data explain about a share
    κ = exp(−max(0, δ)²) of the variance m that the map leaves out, at a distance of δ lengthscales from where they are;
    so that the exact prediction has a mean about √(κ m) away, and only (1 − κ) m more variance than the map's. The
    divergence from that is the second part.

    Parameters
    ----------
    posterior : WeightPosterior
        With fitted `TaylorFeatures`.
    X : ndarray of shape (m, d)
    beyond : ndarray of shape (m,)
        How far each row is from where training rows are, in lengthscales; negative among them.

    Returns
    -------
    ndarray of shape (m, t)
        KL(this prediction ‖ exact prediction), with noise, in nats.

    Raises
    ------
    InputError
        If the columns of the map are not the terms of a series.

    Notes
    -----
    An expectation: the true divergence of a row depends on the sign and size of one error of the mean. It does not see
    rows that were pruned. How near it comes, measured on five data sets: ``docs/error_estimate.md``.
    """
    features, noise = posterior.features, posterior.noise
    if not isinstance(features, TaylorFeatures) or len(features.parts) > 1:
        of = f" of a sum of {len(features.parts)} Gaussians" if isinstance(features, TaylorFeatures) else ""
        raise NoEstimateError(
            "return_error needs TaylorFeatures of one Gaussian, whose first columns are a smaller map; got "
            f"{type(features).__name__}{of}. Compare with ExactGPRegressor on some rows instead."
        )
    n_columns = features.n_features_out_
    half = n_columns // 2
    ends = sorted({half + (n_columns - half) * i // LEADING for i in range(LEADING)})
    sizes = [stop - start for start, stop in pairwise([0, *ends, n_columns])]
    result = np.empty((len(X), posterior.coefficients.shape[1]))
    for part in chunks(len(X), n_columns):
        columns, left_out = posterior.evaluate(X[part])
        missing = 0.0 if left_out is None else left_out
        whitened = posterior.whiten(columns)
        variances = _partial_sums(whitened.square(), sizes)
        represented = _partial_sums(columns.T.square(), sizes)
        noisy = variances + (represented[-1] - represented) + missing + noise.variance
        explained = np.exp(-np.square(np.maximum(beyond[part], 0.0)))
        predicted = noisy[-1] if noise.predicts_missing else noisy[-1] - missing
        expected = noisy[-1] - explained * missing
        of_end = kl_divergence(np.sqrt(explained * missing), predicted, 0.0, expected)
        for j, coefficients in enumerate(posterior.coefficients.T):
            means = _partial_sums(coefficients[:, None] * whitened, sizes)
            changes = [kl_divergence(*pair, means[-1], noisy[-1]) for pair in zip(means[:-1], noisy[:-1], strict=True)]
            result[part, j] = np.mean(changes, axis=0) + of_end
    return result


def _partial_sums(values: Tensor, sizes: list[int]) -> Floats:
    """Sum the rows of `values` block by block, and these sums up to each block; shape (n_blocks, n)."""
    return torch.stack([block.sum(dim=0) for block in values.split(sizes)]).cumsum(dim=0).numpy()


def rows_for_rounding(rows: Rows) -> Rows:
    """Return as many rows as the estimate takes, equally spaced."""
    n = min(len(rows), N_BLOCKS * BLOCK_ROWS)
    return rows.take(np.linspace(0, len(rows) - 1, n).astype(np.intp))


def rounding_divergence(posterior: WeightPosterior, rows: Rows, n_rows: int, arithmetic: Arithmetic) -> float:
    """Estimate the divergence of predictions from those of features in double precision.

    The sums of blocks of rows in both precisions differ by rounding errors. To first order these change predictions by
    φᵀA⁻¹(δb − δG w)/σ². The changes of all rows follow from the mean and the variance of those of the blocks: errors of
    one sign add as the number of rows, those of either sign as its root.

    Parameters
    ----------
    posterior : WeightPosterior
    rows : Rows
        Some of the training rows, with the first target of the posterior.
    n_rows : int
        The number of all.
    arithmetic : Arithmetic
        Of the sums of the posterior.

    Returns
    -------
    float
        KL(this prediction ‖ that of double precision), with noise, in nats: the mean of some training rows.
    """
    tests, _ = posterior.evaluate(rows.X[:: max(1, len(rows) // TESTS)])
    whitened = posterior.whiten(tests)
    solved = solve_upper(posterior.factor.T, whitened)
    blocks = np.array_split(np.random.default_rng(0).permutation(len(rows)), -(-len(rows) // BLOCK_ROWS))
    changes = np.array([_changes(posterior, rows.take(block), arithmetic, solved) for block in blocks])
    n = n_rows / (len(rows) / len(blocks))
    mean, spread = changes.mean(axis=0), changes.var(axis=0, ddof=1) if len(blocks) > 1 else np.zeros_like(changes[0])
    total = whitened.square().sum(dim=0).numpy() + posterior.noise.variance
    factors = np.stack((0.5 / total, 0.25 / np.square(total)))
    # Without the spread of few blocks in the square of their mean; of all rows at once, which leaves less chance.
    common = max(0.0, float((factors * (np.square(mean) - spread / len(blocks))).mean(axis=1).sum()))
    return n * float((factors * spread).mean(axis=1).sum()) + n**2 * common


def _changes(posterior: WeightPosterior, rows: Rows, arithmetic: Arithmetic, solved: Tensor) -> Floats:
    """Return what the rounding of a block of rows changes in means and variances of some rows, shape (2, n)."""
    of = posterior.features, rows, posterior.centre, posterior.noise
    rounded, exact = (accumulate(*of, by).sums.expand() for by in (arithmetic, Arithmetic()))
    lower = torch.tril(rounded.gram - exact.gram)
    change = lower + torch.tril(lower, -1).T
    cross = (rounded.cross - exact.cross)[:, 0] - change @ posterior.weights[:, 0]
    moved = solved.T @ cross, -((change @ solved) * solved).sum(dim=0)
    return torch.stack(moved).numpy() / posterior.noise.variance
