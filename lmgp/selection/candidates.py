"""Which recipes are tried."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise, takewhile

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gammainccinv

from lmgp.data import Floats, Rows
from lmgp.errors import InputError, MemoryLimitError, nearest_names
from lmgp.features.base import KernelMap
from lmgp.features.nystroem import NystroemFeatures
from lmgp.kernels.base import Kernel
from lmgp.posteriors.exact import max_rows_within
from lmgp.posteriors.weights import check_model
from lmgp.recipes import Exact, Local, Nearest, Recipe, Residual, Weights
from lmgp.selection.methods import EXACT, METHODS, NEAREST_ROWS, RESIDUAL, Method

# The divergence falls no faster than size^(−power). Of random maps, the error in the kernel is of order size^(−1/2),
# and the divergence at most quadratic in the square of that.
RANDOM_POWER, RANDOM = 2.0, ("Fourier", "Maclaurin")
# Of the exact GP of the nearest rows.
NEAREST_POWER = 4.0
# Of maps that converge faster than any power where they converge: Taylor and Nyström maps.
EXPLICIT_POWER = 10.0

# Thresholds of localized models, in lengthscales, in descending order.
THRESHOLDS = (4.0, 2.0, 1.0, 0.5, 0.25)
SMALLEST_SIZE = 32
# A threshold is tried if it takes fewer centroids than the first number, or than one in the second number of rows.
FEW_CENTROIDS, ROWS_PER_CENTROID = 256, 8
# With more than 3 input columns, clustering looks at n · d coordinates for each centroid. A threshold above
# `FEW_CENTROIDS` is tried only if it takes fewer than this number in all.
MAX_COORDINATES = 1e9
# In multiplications: where the exact GP of n rows takes fewer, n²(n/3 + n_predict), no search can save much.
QUICK = 2e10
# In nominal seconds, as all others below: what any model may take.
AFFORDABLE = 20.0
# A model may also take as long as predictions from this number of nearest rows.
NEIGHBOURS = 256
# Of models of a map and residuals, whose trials may take so many seconds.
RESIDUAL_NEIGHBOURS, RESIDUAL_BLOCK, RESIDUAL_TRIAL = (64, 128, 256), 256, 6.0
# A size is left out if the next larger one takes less. It cannot save what its trial takes.
NEGLIGIBLE = 0.2

# The share of rows within reach of a centroid is estimated from the distances between this many rows and centroids.
SAMPLE_ROWS, SAMPLE_CENTROIDS = 4096, 64

# All methods that can be named, and those that are tried if none are.
NAMES = (*(name for name, method in METHODS.items() if not method.chooses), EXACT)
TRIED = (*(name for name, method in METHODS.items() if method.tried), EXACT)


def checked_methods(methods: Iterable[str] | None) -> tuple[str, ...]:
    """Check the names of methods, and return them; those that are tried by default if None.

    Raises
    ------
    InputError
        If a name is unknown, or there is none.
    """
    if methods is None:
        return TRIED
    names = tuple(methods)
    for name in names:
        if name not in NAMES:
            known = nearest_names(str(name), NAMES)
            raise InputError(f"methods has the name {name!r}, which is no method that can be chosen; {known}")
    if not names:
        raise InputError(
            f"methods is empty: nothing can be chosen. Leave it out, or name one or more of {', '.join(NAMES)}."
        )
    return names


@dataclass(frozen=True, eq=False)
class Candidate:
    """A recipe, and its nominal time; see `lmgp.posteriors.costs`.

    Attributes
    ----------
    method : str
        The name of its method.
    size : int
        The number of columns asked for; of a model without a map, the number of rows.
    recipe : Recipe
    seconds : float
        Of conditioning it on all rows, and predicting as many as the user will.
    trial_seconds : float
        Of conditioning it on all rows but the probes, and predicting these.
    """

    method: str
    size: int
    recipe: Recipe
    seconds: float
    trial_seconds: float = 0.0


@dataclass
class Family:
    """Candidates that differ in their size, and what is known of them.

    Attributes
    ----------
    candidates : list of Candidate
        In ascending order of size.
    power : float
        The divergence is assumed to fall no faster than size^(−power).
    rival : Family or None
        Another family of the same sizes and costs. Of the two, the one with the larger divergence at the largest size
        that both have tried is given up.
    seen : dict of int to (float, bool)
        By size: the divergence, and whether it was measured. Where it was not, it is a lower bound.
    """

    candidates: list[Candidate]
    power: float
    rival: "Family | None" = None
    seen: dict[int, tuple[float, bool]] = field(default_factory=dict)

    @property
    def least(self) -> float:
        """The least divergence that the largest candidate can have.

        It falls no faster than `power` allows, and its power of the size no more than doubles with the size. The
        divergence of a map that converges geometrically in the size is exp(−c · size): its power does double.
        """
        if not self.seen:
            return 0.0
        sizes = sorted(self.seen)
        divergence = self.seen[sizes[-1]][0]
        doublings = math.log2(self.candidates[-1].size / sizes[-1])
        powers = [
            math.log2(self.seen[before][0] / self.seen[after][0]) / math.log2(after / before)
            for before, after in pairwise(sizes)
            # A lower bound and a divergence cannot be compared.
            if self.seen[before][1] == self.seen[after][1] and min(self.seen[before][0], self.seen[after][0]) > 0.0
        ]
        least_power = max(1.0, *powers) if powers else math.inf
        growth = 2.0 ** (doublings + 1.0) - 2.0  # 2 + 4 + 8 + …, one for each doubling
        fall = min(self.power * doublings, least_power * growth if growth > 0.0 else 0.0)
        return divergence * 2.0**-fall

    @property
    def behind(self) -> bool:
        """Whether the rival has the smaller divergence."""
        rivals = {} if self.rival is None else self.rival.seen
        common = [size for size in self.seen if size in rivals and rivals[size][1]]
        return bool(common) and rivals[max(common)][0] < self.seen[max(common)][0]


@dataclass(frozen=True)
class Allowed:
    """What the user allows.

    Attributes
    ----------
    methods : sequence of str
        Names of methods.
    max_features : int
        The largest number of columns, and of nearest rows.
    max_memory_gib : float
        Models whose matrices need more are left out.
    max_neighbours : int
        The largest number of nearest rows.
    """

    methods: Sequence[str] = TRIED
    max_features: int = 2048
    max_memory_gib: float = 4.0
    max_neighbours: int = 2048

    def takes_exact(self, n_rows: int) -> bool:
        """Say whether the exact GP of n rows is a candidate."""
        return EXACT in self.methods and n_rows <= max_rows_within(self.max_memory_gib)

    def needs_no_search(self, n_rows: int, n_predict: int) -> bool:
        """Say whether the exact GP is to be taken at once."""
        return self.takes_exact(n_rows) and (exact_work(n_rows, n_predict) <= QUICK or set(self.methods) == {EXACT})


def exact_work(n_rows: int, n_predict: int) -> float:
    """Return the multiplications that the exact GP of n rows takes."""
    return n_rows**2 * (n_rows / 3.0 + n_predict)


def sizes(max_features: int) -> list[int]:
    """Return the sizes that are tried: from the largest down by halves."""
    halves = takewhile(lambda size: size >= SMALLEST_SIZE, (max_features // 2**power for power in count()))
    return sorted(halves) or [max_features]


def max_centroids(n_rows: int, n_inputs: int) -> int:
    """Return the number of centroids at which a threshold is too small to be tried."""
    limit = max(FEW_CENTROIDS, n_rows // ROWS_PER_CENTROID)
    if n_inputs <= 3:
        return limit
    return int(min(limit, max(FEW_CENTROIDS, MAX_COORDINATES / (n_rows * n_inputs))))


@dataclass(frozen=True, eq=False)
class Problem:
    """What a model is chosen for.

    Attributes
    ----------
    rows : Rows
        Those that candidates are tried on.
    n_rows : int
        The number of those that the chosen one is fitted to.
    kernel : Kernel
    share : float
        The share of its prior variance below which a row is left out of a model, see
        `lmgp.neighbours.placement.negligible_share`.
    n_predict, n_probes : int
        The number of rows to predict, and of those on which candidates are tried.
    """

    rows: Rows
    n_rows: int
    kernel: Kernel
    share: float
    n_predict: int
    n_probes: int

    @property
    def n_tried(self) -> int:
        """The number of rows that candidates are tried on."""
        return len(self.rows)

    @property
    def n_inputs(self) -> int:
        """The number of their columns, d."""
        return self.rows.X.shape[1]

    def candidate(self, method: str, size: int, recipe: Recipe, **more: float) -> Candidate:
        """Return a candidate, with what else its cost depends on."""
        seconds = (
            recipe.cost(self.n_rows, self.n_inputs, n_predict, self.kernel, **more).seconds
            for n_predict in (self.n_predict, self.n_probes)
        )
        return Candidate(method, size, recipe, *seconds)

    def distances(self, centroids: Floats) -> Floats:
        """Return distances between centroids and rows, a sample of each, in lengthscales."""
        picked = np.random.default_rng(0).permutation(len(centroids))[:SAMPLE_CENTROIDS]
        sample = np.random.default_rng(0).permutation(self.n_tried)[:SAMPLE_ROWS]
        return cdist(self.kernel.in_lengthscales(centroids[picked]), self.kernel.in_lengthscales(self.rows.X[sample]))


def families(allowed: Allowed, problem: Problem, cover: Callable[[float], Floats]) -> list[Family]:
    """List the candidates, with the nominal time of each.

    Parameters
    ----------
    allowed : Allowed
    problem : Problem
        Methods whose map cannot serve its kernel are left out.
    cover : callable
        Returns the centroids of a threshold; of these, no more than `max_centroids` are needed.

    Returns
    -------
    list of Family

    Raises
    ------
    InputError
        If there is no candidate.
    """
    known = {name: METHODS[name] for name in allowed.methods if name in METHODS}
    maps = {name: method for name, method in known.items() if method.mapped and _map(method).serves(problem.kernel)}
    if problem.n_inputs == 1:  # rivals are the same map: keep the first
        names = list(maps)
        maps = {name: maps[name] for i, name in enumerate(names) if maps[name].rival not in names[:i]}
    everywhere = {name: method for name, method in maps.items() if not method.localized}
    around = {name: method for name, method in maps.items() if method.localized}
    found = _of_maps(allowed, everywhere, problem)
    for threshold in THRESHOLDS if around else ():
        centroids = cover(threshold)
        if len(centroids) >= max_centroids(problem.n_tried, problem.n_inputs):
            break  # smaller thresholds take more
        if len(centroids) > 1 or not everywhere:  # around one centroid, a model is a global one
            found += _of_maps(allowed, around, problem, threshold, centroids)
    found += _of_residuals(allowed, problem)
    found += _of_rows(allowed, problem)
    if not found:
        raise InputError(
            f"None of methods={list(allowed.methods)} can serve {problem.kernel!r} for {problem.n_rows:,} rows of "
            f"{problem.n_inputs} columns, with max_features={allowed.max_features} and "
            f"max_memory_gib={allowed.max_memory_gib:g}. Allow more of these."
        )
    nearest = problem.candidate(NEAREST_ROWS, NEIGHBOURS, Nearest(NEIGHBOURS))
    return _affordable(found, max(AFFORDABLE, nearest.seconds))


def _map(method: Method, size: int = SMALLEST_SIZE) -> KernelMap:
    """Make the unfitted map of a method."""
    made: KernelMap = method.make(size, "local", None)
    return made


def _fits(features: KernelMap, problem: Problem, allowed: Allowed) -> bool:
    """Say whether the matrices of a model with a map fit into memory."""
    try:
        check_model(features, problem.n_rows, problem.n_inputs, allowed.max_memory_gib)
    except MemoryLimitError:
        return False
    return True


def _affordable(found: list[Family], limit: float) -> list[Family]:
    """Leave out the candidates that take longer than a limit in seconds, or next to nothing, but for the cheapest."""
    limit = max(limit, min(candidate.seconds for family in found for candidate in family.candidates))
    for family in found:
        possible = [candidate for candidate in family.candidates if candidate.seconds <= limit]
        worth = [one for one, larger in pairwise(possible) if larger.seconds > NEGLIGIBLE]
        family.candidates[:] = worth + possible[-1:]
    return [family for family in found if family.candidates]


def _of_maps(
    allowed: Allowed,
    methods: Mapping[str, Method],
    problem: Problem,
    threshold: float | None = None,
    centroids: Floats | None = None,
) -> list[Family]:
    """List the maps around the centroids of a threshold, if one is given."""
    gib, made = allowed.max_memory_gib, {}
    distances = None if centroids is None else problem.distances(centroids)
    for name, method in methods.items():
        maps = [(size, _map(method, size)) for size in sizes(allowed.max_features)]
        worked = [(size, features, features.work(problem.n_inputs)) for size, features in maps]
        # As many landmarks as rows make the model exact on the probes, but not for all rows.
        sensible = [one for one in worked if not one[2].solved or one[0] < problem.n_tried]
        sensible += [one for one in worked if one[2].solved and one[0] >= problem.n_rows][:1]
        found = []
        for size, features, work in sensible:
            if not _fits(features, problem, allowed):
                continue
            if threshold is None or centroids is None:
                found.append(problem.candidate(name, size, Weights(features, max_memory_gib=gib)))
                continue
            # A localized model takes the rows within the reach of its degree.
            share = 1.0
            if work.degree is not None:
                reach = work.stretch * np.sqrt(gammainccinv(work.degree + 1, problem.share))
                share = float(np.mean(distances <= reach))
            recipe = Local(features, threshold, solver="auto", max_memory_gib=gib)
            found.append(problem.candidate(name, size, recipe, n_centroids=len(centroids), share=share))
        made[name] = Family(found, RANDOM_POWER if method.family in RANDOM else EXPLICIT_POWER)
    for name, family in made.items():
        rival = methods[name].rival
        family.rival = None if rival is None else made.get(rival)
    return [family for family in made.values() if family.candidates]


def _of_residuals(allowed: Allowed, problem: Problem) -> list[Family]:
    """List global Nyström maps whose residuals the nearest rows predict, a family for each number of these."""
    if RESIDUAL not in allowed.methods:
        return []
    n_tried, gib = problem.n_tried, allowed.max_memory_gib
    most = min(allowed.max_features, allowed.max_neighbours, n_tried)
    # Beside its neighbours, only a large map is worth its trial.
    large = [size for size in sizes(allowed.max_features)[-2:] if size < n_tried]
    families = []
    for k in sorted({min(k, most) for k in RESIDUAL_NEIGHBOURS}):
        found = []
        for size in large or [min(allowed.max_features, n_tried)]:
            features = NystroemFeatures(size)
            candidate = problem.candidate(RESIDUAL, size, Residual(features, k, RESIDUAL_BLOCK, gib))
            held = 8.0 * problem.n_rows * (size + RESIDUAL_BLOCK)
            fits = _fits(features, problem, allowed) and held <= gib * 2**30
            if fits and candidate.trial_seconds <= RESIDUAL_TRIAL:
                found.append(candidate)
        families.append(Family(found, EXPLICIT_POWER))
    return [family for family in families if family.candidates]


def _of_rows(allowed: Allowed, problem: Problem) -> list[Family]:
    """List the exact GP of the nearest rows, and that of all rows."""
    n, gib, found = problem.n_rows, allowed.max_memory_gib, []
    if NEAREST_ROWS in allowed.methods:
        most = min(allowed.max_features, allowed.max_neighbours, max_rows_within(gib))
        fewer = [k for k in sizes(most) if 0 < k < n]
        if not fewer and EXACT not in allowed.methods:
            fewer = [n]
        found.append(Family([problem.candidate(NEAREST_ROWS, k, Nearest(k, gib)) for k in fewer], NEAREST_POWER))
    if allowed.takes_exact(n):
        found.append(Family([problem.candidate(EXACT, n, Exact(gib))], EXPLICIT_POWER))
    return [family for family in found if family.candidates]
