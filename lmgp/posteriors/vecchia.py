"""The likelihood of all rows from a sample of their positions: a subsampled Vecchia approximation."""

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse
from scipy.spatial import KDTree

from lmgp.data import Floats, Indices, Rows, as_tensor
from lmgp.kernels.base import Kernel
from lmgp.neighbours.ties import told_apart
from lmgp.utils.lazy import Tensor, no_grad, torch
from lmgp.utils.memory import chunks
from lmgp.utils.parallel import parallel_map
from lmgp.utils.student import Student, mean_gain, pays

if TYPE_CHECKING:
    from lmgp.posteriors.rowsystems import RowSystems

# Bytes of the covariances that are factorised at a time: few enough to stay in a processor's cache.
BATCH_BYTES = 2**21

# Of the rows nearest to a position, a random number come before it. A search is so wide that they are enough, but for a
# chance of this number of standard deviations.
DEVIATIONS = 3.0

# From this number of positions on it pays to search in several threads, and for positions with more and with fewer rows
# before them by themselves.
MANY = 100

# From this number of columns on, one tree of all rows is searched; before the first positions, up to this share of the
# rows, each row is looked at.
MANY_COLUMNS, FIRST = 8, 0.125
# Positions whose earlier rows are looked at together.
PART = 64

# With more columns than this, balanced trees are searched in less time; they take twice the time to make.
FEW_COLUMNS = 3

# The share of the positions that is spread evenly over all strata.
EARLY = 1 / 3


class VecchiaLikelihood:
    """The Vecchia log likelihood of rows in a random order, from a sample of positions.

    log p(y) ≈ Σₜ log p(yₜ | y of the m nearest rows among those before t). The sum over a random sample of positions,
    times n over their number, is an unbiased estimate of it; its cost does not depend on n but for finding these rows.

    Parameters
    ----------
    rows : Rows
        With centred targets, whose likelihoods are added.
    n_positions : int
        At most this number of positions is drawn.
    n_neighbors : int
        m.
    rng : numpy.random.Generator
        Draws the order and the positions: the same order for the same state.

    Attributes
    ----------
    n_positions, n_neighbors : int
    order : ndarray of int of shape (n,)
        The rows, in the random order.
    positions : ndarray of int of shape (n_positions,)
        Those that were drawn, ascending: position t is the row ``order[t]``.
    student : Student
        The density of (yₜ − mean) over its standard deviation: a normal one, until `take_tails` is called.

    Notes
    -----
    Positions are drawn from strata, those between two powers of 2, with more from the first ones than their number asks
    for: there neighbours are far apart, which tells long lengthscales apart. The share of a position makes up for that.

    Several targets share the covariances and their factorisations. The information of t targets has Σⱼ bⱼbⱼᵀ, with
    the slopes bⱼ of the mean of each; bbᵀ of a sum b with random signs, drawn for each position, is an unbiased
    estimate that takes the time of one target. The value and the gradient are not estimated.

    In few columns, one k-d tree holds the first 2^l rows, for each l. A position t looks for nearest rows in the
    smallest tree that holds it, of which half or more come before t. The search finds m of these in all but one case in
    a thousand, and otherwise t has fewer neighbours. In many columns, the rows before t are looked for among all, and
    each of them is looked at where they are few.

    References
    ----------
    M. Katzfuss, J. Guinness and E. Lawrence, *Scaled Vecchia Approximation for Fast Computer-Model Emulation*, SIAM/ASA
    Journal on Uncertainty Quantification, 2022.

    J. Guinness, *Gaussian Process Learning via Fisher Scoring of Vecchia's Approximation*, Statistics and Computing,
    2021.

    K. L. Lange, R. J. A. Little and J. M. G. Taylor, *Robust Statistical Modeling Using the t Distribution*, Journal of
    the American Statistical Association 84, 1989: the information of a t.
    """

    def __init__(self, rows: Rows, n_positions: int, n_neighbors: int, rng: np.random.Generator) -> None:
        n = len(rows)
        self._n, self.n_neighbors = n, min(n_neighbors, n - 1)
        self.order = rng.permutation(n)
        self._rows = rows.take(self.order)
        self.positions, self._stratum, self._shares = _positions(n, min(n_positions, n), rng)
        self.n_positions = len(self.positions)
        self.student = Student()
        several, shape = rows.n_targets > 1, (self.n_positions, rows.n_targets)
        self._signs = rng.choice((-1.0, 1.0), shape) if several else np.ones(shape)
        # Of each row, over the common factor if there is one.
        noise_variances, weights, self._counts = self._rows.noise_variances, self._rows.weights, self._rows.counts
        noises = np.ones(n) if noise_variances is None else noise_variances
        self._noises: Floats = noises if weights is None else noises / weights

    def standard_error(self, terms: Floats) -> float:
        """Return the standard error of the mean of some terms as an estimate of the mean over all positions."""
        variance = 0.0
        for stratum in np.unique(self._stratum):
            of_stratum = self._stratum == stratum
            drawn, share = np.count_nonzero(of_stratum), self._shares[of_stratum].sum()
            left_out = 1.0 - drawn / max(drawn, round(share * self._n / self.n_positions))
            spread = np.var(terms[of_stratum] / self._shares[of_stratum]) / max(1, drawn - 1)
            variance += (share / self.n_positions) ** 2 * spread * left_out
        return math.sqrt(variance)

    def look_for_neighbours(self, kernel: Kernel) -> None:
        """Find the nearest rows of all positions.

        Parameters
        ----------
        kernel : Kernel
            With a metric; distances are those of its `points`.
        """
        scaled, positions = told_apart(kernel.points(self._rows.X)), self.positions
        self._near = np.empty((self.n_positions, self.n_neighbors), dtype=np.intp)
        if scaled.shape[1] >= MANY_COLUMNS:
            from lmgp.neighbours.leaves import Leaves  # here, for they load a compiler
            from lmgp.posteriors.rowsystems import nearest_before

            leaves, k, columns = Leaves.of(scaled), np.arange(1, self.n_neighbors + 1), np.ascontiguousarray(scaled.T)
            first = positions <= max(self.n_neighbors, FIRST * len(scaled))
            for some, search in (
                (first, lambda before: nearest_before(columns, before, self.n_neighbors)),
                (~first, lambda before: leaves.query(scaled[before], k, before)[1]),
            ):
                those = positions[some]
                parts = [those[part] for part in chunks(len(those), 1, 8 * PART)]
                self._near[some] = np.concatenate([self._near[:0], *parallel_map(search, parts)])
            return
        levels = np.floor(np.log2(np.maximum(positions, 1))).astype(int)
        for level in np.unique(levels):
            (members,) = np.nonzero(levels == level)
            self._near[members] = self._earlier(scaled[: 2 ** (level + 1)], positions[members])

    def take_tails(self, kernel: Kernel, free: Floats) -> None:
        """Take the density of a t, with the degrees of freedom that are likeliest at one point, where it pays there."""
        errors = np.sqrt(self._errors(kernel, free)[1])
        known = errors > 0.0  # others have no factor
        if not known.any():
            return
        errors, shares = errors[known], np.broadcast_to(self._shares[:, None], errors.shape)[known]
        normal = Student(scale=math.sqrt(np.average(np.square(errors), weights=shares)))
        student = Student.fitted(errors, shares)
        gain, error = mean_gain(normal.log_density(errors), student.log_density(errors), shares)
        self.student = Student(student.degrees) if pays(gain, error, len(errors)) else Student()

    def _earlier(self, scaled: Floats, positions: Indices) -> Indices:
        """Return the nearest rows before each position, and −1 for those that there are not."""
        tree = KDTree(scaled, balanced_tree=scaled.shape[1] > FEW_COLUMNS, compact_nodes=False)
        nearest = np.full((len(positions), self.n_neighbors), -1, dtype=np.intp)
        # The share of the tree's rows that come before: of the nearest ones, it is as large but for chance.
        shares = np.maximum(positions, 1) / len(scaled)
        group = np.floor(8.0 * shares) if len(positions) >= MANY else np.zeros(len(positions))
        for number in np.unique(group):
            (members,) = np.nonzero(group == number)
            share = shares[members].min()
            wanted = self.n_neighbors + DEVIATIONS * math.sqrt(self.n_neighbors * (1.0 - share))
            k = min(math.ceil(wanted / share) + 1, len(scaled))  # the position itself is one
            workers = torch.get_num_threads() if len(members) >= MANY else 1
            _, places = tree.query(scaled[positions[members]], k=np.arange(1, k + 1), workers=workers)
            later = places >= positions[members, None]
            order = np.argsort(later, axis=1, kind="stable")[:, : self.n_neighbors]
            earlier = np.where(later, -1, places)
            nearest[members, : order.shape[1]] = np.take_along_axis(earlier, order, axis=1)
        return nearest

    def __call__(self, kernel: Kernel, free: Floats, ties: Indices | None = None) -> tuple[Floats, Floats, Floats]:
        """Evaluate the sample and its derivatives.

        Parameters
        ----------
        kernel : Kernel
        free : ndarray of shape (n_theta + 1,)
            Logarithms of the kernel's free parameters and of the noise variance.
        ties : ndarray of int of shape (n_theta,), optional
            Which of n_free numbers stands behind each of the parameters; if not given, each has a number of its own.

        Returns
        -------
        terms : ndarray of shape (n_positions,)
            log p(y_t | y of its neighbours) of each position, in nats, times its share: their mean estimates that over
            all positions. Not finite where float64 does not allow a Cholesky factorisation.
        gradient : ndarray of shape (n_free + 1,)
            Of their sum, by these numbers and the logarithm of the noise variance.
        information : ndarray of shape (n_free + 1, n_free + 1)
            The expected Fisher information of the sample.
        """
        ties = np.arange(len(free) - 1) if ties is None else ties
        systems, log_noise = self._systems(kernel, free, ties), float(free[-1])

        def evaluate(part: slice) -> tuple[Floats, Floats, Floats, Floats]:
            if systems is None:
                return self._derivatives(kernel, free, ties, part)
            drawn = self._near[part], self.positions[part], self._shares[part], self._signs[part]
            return systems.conditionals(*drawn, self._rows.noise_variances is None, 1.0 / self.student.degrees)

        variances, squares, scores, informations = zip(*parallel_map(evaluate, self._chunks()), strict=True)
        slope, counts = sum(scores), self._counts
        if counts is not None and self._rows.noise_variances is None:
            # −½(w − 1) log σ² less the spread of w equal rows, which is zero: no information but this slope.
            slope[-1] -= 0.5 * self._rows.n_targets * float(self._shares @ (counts[self.positions] - 1.0))
        terms = self._terms(np.concatenate(variances), np.concatenate(squares), log_noise).sum(axis=1)
        return terms, slope, sum(informations)

    def _systems(self, kernel: Kernel, free: Floats, ties: Indices | None = None) -> "RowSystems | None":
        """Return the compiled way, where there is one."""
        from lmgp.posteriors.rowsystems import RowSystems  # here, for it loads a compiler

        factor = math.exp(free[-1]) if self._rows.noise_variances is None else 1.0
        return RowSystems.of(kernel, free[:-1], self._rows.X, self._rows.Y, self._noises, factor, ties)

    def _terms(self, variances: Floats, squares: Floats, log_noise: float) -> Floats:
        """Return the term of each position and target."""
        terms = self.student.log_density(np.sqrt(squares)) - 0.5 * np.log(variances)[:, None]
        terms *= self._shares[:, None]
        if self._counts is None:
            return terms
        # What w equal rows say beyond one row with the noise σ²/w.
        counts, noise = self._counts[self.positions], self._rows.noise_variances
        of_row = np.exp(log_noise) if noise is None else noise[self.positions]
        repeated = (counts - 1.0) * np.log(2.0 * math.pi * of_row) + np.log(counts)
        return terms - (0.5 * self._shares * repeated)[:, None]

    @no_grad
    def _derivatives(
        self, kernel: Kernel, free: Floats, ties: Indices, part: slice
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """Evaluate positions as `RowSystems.conditionals`, by torch."""
        theta, sets, log_noise = torch.from_numpy(np.array(free[:-1], dtype=np.float64)), self._sets(part), free[-1]
        # A copy of the parameters for each position: its derivatives come apart from those of the others.
        covariance, gradient = kernel.with_pullback(sets, theta.expand(len(sets), -1))
        residual, variance, u, v = self._conditional(covariance, log_noise, part)
        squared, inverse_degrees = residual.square() / variance[:, None], 1.0 / self.student.degrees
        pulls = (1.0 + inverse_degrees) / (1.0 + inverse_degrees * squared)
        pull = pulls * residual / variance[:, None]
        of_signs, of_pull = ((v * terms[:, None]).sum(dim=-1) for terms in (torch.from_numpy(self._signs[part]), pull))
        sums = torch.nn.functional.one_hot(torch.from_numpy(np.append(ties, ties.max(initial=-1) + 1))).double()
        V = torch.stack((u, of_signs, of_pull))
        by_noise = torch.zeros(*V.shape[:-1], 1, dtype=torch.float64)
        if self._rows.noise_variances is None:
            by_noise = (V * (u * self._noise(log_noise, part))).sum(dim=-1, keepdim=True)
        # The derivatives of uᵀCv of each set, for each v of V, by all logarithms.
        by_variance, signed, pulled = torch.cat((gradient.of_products(u, V), by_noise), dim=-1) @ sums
        score = pulled + 0.5 * by_variance * ((pulls * squared - 1.0).sum(dim=1) / variance)[:, None]
        share, relative = torch.from_numpy(self._shares[part]), by_variance / variance[:, None]
        information = (1.0 + inverse_degrees) * signed.T @ (signed * (share / variance)[:, None])
        information += 0.5 * self._rows.n_targets * (relative.T @ (relative * share[:, None]))
        information /= 1.0 + 3.0 * inverse_degrees
        return variance.numpy(), squared.numpy(), (share @ score).numpy(), information.numpy()

    def terms(self, kernel: Kernel, free: Floats) -> Floats:
        """Evaluate the terms alone, see `__call__`; in a third of the time."""
        return self._terms(*self._errors(kernel, free), float(free[-1])).sum(axis=1)

    def whitening(self, kernel: Kernel, free: Floats) -> sparse.csr_array | None:
        """Return U with UᵀU ≈ C⁻¹, shape (n_positions, n): of all rows where all are positions.

        Each row of U is what is left of a value less its mean given the rows near to it, over its standard deviation.
        None for kernels that have no compiled systems.
        """
        systems, n = self._systems(kernel, free), self._n
        if systems is None:
            return None
        tests, priors = systems.rows_at(self.positions)
        parts = parallel_map(lambda part: systems.weights(self._near[part], tests[part]), self._chunks())
        weights, reductions = (np.concatenate(each) for each in zip(*parts, strict=True))
        variances = priors - np.nan_to_num(reductions)
        entries = np.column_stack((np.ones(self.n_positions), -weights)) / np.sqrt(variances)[:, None]
        columns = self.order[np.column_stack((self.positions, self._near))]
        starts = np.arange(self.n_positions + 1) * columns.shape[1]
        return sparse.csr_array((entries.ravel(), columns.ravel(), starts), shape=(self.n_positions, n))

    def squares(self, kernel: Kernel, free: Floats) -> Floats:
        """Estimate the mean over all rows of yᵀC⁻¹y of each target, shape (t,); see `__call__`."""
        return np.average(self._errors(kernel, free)[1], axis=0, weights=self._shares)

    def _errors(self, kernel: Kernel, free: Floats) -> tuple[Floats, Floats]:
        """Return the conditional variance v of each position, and (y − mean)²/v of each target."""
        systems, theta = self._systems(kernel, free), torch.from_numpy(np.array(free[:-1], dtype=np.float64))

        @no_grad
        def evaluate(part: slice) -> tuple[Floats, Floats]:
            if systems is not None:
                return systems.errors(self._near[part], self.positions[part])
            sets = self._sets(part)
            covariance = kernel.evaluate(sets, sets, theta.expand(len(sets), -1))
            residual, variance, _, _ = self._conditional(covariance, float(free[-1]), part)
            return variance.numpy(), (residual.square() / variance[:, None]).numpy()

        variances, squares = zip(*parallel_map(evaluate, self._chunks()), strict=True)
        return np.concatenate(variances), np.concatenate(squares)

    def _chunks(self) -> list[slice]:
        return list(chunks(self.n_positions, (self.n_neighbors + 1) ** 2, BATCH_BYTES))

    def _index(self, part: slice) -> Tensor:
        """Return the rows of each set, its own last."""
        return torch.from_numpy(np.column_stack((self._near[part], self.positions[part])))

    def _sets(self, part: slice) -> Tensor:
        return as_tensor(self._rows.X)[self._index(part)]

    def _noise(self, log_noise: float, part: slice) -> Tensor:
        """Return the noise variance of each row of each set, for its weight."""
        noise = torch.from_numpy(self._noises)[self._index(part)]
        return noise.mul_(math.exp(log_noise)) if self._rows.noise_variances is None else noise

    def _conditional(self, covariance: Tensor, log_noise: float, part: slice) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return residual and variance of the last value of each set given the others, and derivatives of its mean.

        Residuals, of shape (n_sets, t), and v, of shape (n_sets, m + 1, t), are those of each target.

        With C the covariance of m values, k that with the last one, w = C⁻¹k and α = C⁻¹y, u = (−w, 1) and v = (α, 0):
        the mean changes by uᵀ dC v and the variance by uᵀ dC u.
        """
        m, index = self.n_neighbors, self._index(part)
        present = index >= 0
        if not present.all():
            # A neighbour that is absent is independent of the others; its value is 0.
            covariance = torch.where(present[:, :, None] & present[:, None, :], covariance, 0.0)
        noisy = covariance.clone()
        noisy.diagonal(dim1=-2, dim2=-1).add_(self._noise(log_noise, part))
        y, section = torch.where(present[..., None], as_tensor(self._rows.Y)[index], 0.0), noisy[:, :m, m:]
        factor, failed = torch.linalg.cholesky_ex(noisy[:, :m, :m])
        solved = torch.cholesky_solve(torch.cat((section, y[:, :m]), dim=2), factor)
        weights, coefficients = solved[..., 0], solved[..., 1:]
        residual = y[:, m] - (section * coefficients).sum(dim=1)
        variance = noisy[:, m, m] - (section[..., 0] * weights).sum(dim=1)
        # What float64 cannot factorise is no value: a search turns back.
        variance = torch.where((failed == 0) & (variance > 0.0), variance, torch.nan)
        u = torch.where(present, torch.nn.functional.pad(-weights, (0, 1), value=1.0), 0.0)
        v = torch.where(present[..., None], torch.nn.functional.pad(coefficients, (0, 0, 0, 1)), 0.0)
        return residual, variance, u, v

    def log_density(self, kernel: Kernel, free: Floats) -> Floats:
        """Estimate the log density of all rows, in nats, of each target, shape (t,); see `terms`."""
        terms = self._terms(*self._errors(kernel, free), float(free[-1]))
        return terms.mean(axis=0) * self._n


# Of the log density of all rows: the nearest earlier rows of each, and the positions it is summed over.
NEIGHBORS, POSITIONS = 64, 20_000

# Noise variances of rows are the model's where they differ by rounding alone, relatively.
SAME = 1e-12


def log_density(rows: Rows, kernel: Kernel, noise_variance: float, metric: Kernel) -> Floats:
    """Estimate the log density of each target by Vecchia's approximation, in nats, shape (t,).

    Of each row given the nearest 64 rows before it in a random order, in the metric of a kernel; of more than 20,000
    rows, it is an unbiased estimate from 20,000 of them.
    """
    noise_variances = rows.noise_variances
    if noise_variances is not None and np.allclose(noise_variances, noise_variance, rtol=SAME, atol=0.0):
        rows = replace(rows, noise_variances=None)  # which is that of all
    likelihood = _likelihood(rows, metric, POSITIONS, NEIGHBORS)
    return likelihood.log_density(kernel, np.append(kernel.theta, math.log(noise_variance)))


def mean_squares(rows: Rows, kernel: Kernel, noise_variance: float) -> Floats:
    """Estimate yᵀC⁻¹y/n of each target by Vecchia's approximation, shape (t,), from 4,000 rows and 30 neighbours."""
    likelihood = _likelihood(rows, kernel, 4000, 30)
    return likelihood.squares(kernel, np.append(kernel.theta, math.log(noise_variance)))


def _likelihood(rows: Rows, metric: Kernel, n_positions: int, n_neighbors: int) -> VecchiaLikelihood:
    likelihood = VecchiaLikelihood(rows, n_positions, n_neighbors, np.random.default_rng(0))
    likelihood.look_for_neighbours(metric)
    return likelihood


def _positions(n: int, n_positions: int, rng: np.random.Generator) -> tuple[Indices, Indices, Floats]:
    """Draw positions from strata; return them in their order, the stratum of each, and its share."""
    levels = np.floor(np.log2(np.maximum(np.arange(n), 1))).astype(int)
    sizes = np.bincount(levels)
    even = np.minimum(sizes, EARLY * n_positions / len(sizes))
    shared = even + (n_positions - even.sum()) * (sizes - even) / max(1.0, n - even.sum())
    drawn = np.floor(shared).astype(int)
    # What rounding down leaves goes where it took most: no stratum gives more than it has.
    drawn[np.argsort(drawn - shared)[: n_positions - drawn.sum()]] += 1
    starts = np.concatenate(([0], np.cumsum(sizes[:-1])))
    parts = [
        start + np.sort(rng.permutation(size)[:count]) for start, size, count in zip(starts, sizes, drawn, strict=True)
    ]
    stratum = np.repeat(np.arange(len(sizes)), [len(part) for part in parts])
    positions = np.concatenate(parts)
    shares = (sizes / np.maximum(drawn, 1))[stratum] * len(positions) / n
    return positions, stratum, shares
