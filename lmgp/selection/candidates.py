"""Which models are tried."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, pairwise, takewhile

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import InputError, MemoryLimitError, nearest_names
from lmgp.features.base import KernelMap
from lmgp.features.nystroem import NystroemFeatures
from lmgp.inference.function_space import max_rows_within
from lmgp.inference.weight_space import check_model
from lmgp.kernels.base import Kernel
from lmgp.methods import EXACT, METHODS, NEAREST_ROWS, RESIDUAL, Method
from lmgp.noise import Approximation
from lmgp.selection.families import Candidate, Choice, Family
from lmgp.selection.prices import Prices

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Powers:
    """How fast the divergence can fall with the size: no faster than size^(−power).

    Attributes
    ----------
    random : float
        Of random maps: the error in the kernel is of order size^(−1/2), and the divergence at most quadratic in the
        square of that.
    nearest : float
        Of the exact GP of the nearest rows.
    explicit : float
        Of maps that converge faster than any power where they converge: Taylor and Nyström maps.
    """

    random: float = 2.0
    nearest: float = 4.0
    explicit: float = 10.0

    def of(self, method: Method) -> float:
        """Return the power of a method with a map."""
        return self.random if method.family in ("Fourier", "Maclaurin") else self.explicit


@dataclass(frozen=True)
class Limits:
    """What is left out because it takes too long.

    Attributes
    ----------
    thresholds : tuple of float
        Of localized models, in lengthscales, in descending order.
    smallest_size : int
    few_centroids, rows_per_centroid : int
        A threshold is tried if it takes fewer centroids than 256, or than an eighth of the rows.
    max_coordinates : float
        With more than 3 input columns, clustering looks at n · d coordinates for each centroid. A threshold above 256
        centroids is tried only if it takes fewer than this number in all.
    quick : float
        In multiplications: where the exact GP of n rows takes fewer, n²(n/3 + n_predict), no search can save much.
    affordable : float
        In seconds: what any model may take.
    neighbours : int
        A model may also take as long as predictions from this number of nearest rows.
    residual_neighbours : tuple of int
        Of models of a map and residuals.
    residual_block : int
        Of the same.
    residual_trial : float
        In seconds: what the trial of one may take.
    negligible : float
        In seconds: a size is left out if the next larger one takes less. It cannot save what its trial takes.
    """

    thresholds: tuple[float, ...] = (4.0, 2.0, 1.0, 0.5, 0.25)
    smallest_size: int = 32
    few_centroids: int = 256
    rows_per_centroid: int = 8
    max_coordinates: float = 1e9
    quick: float = 2e10
    affordable: float = 20.0
    neighbours: int = 256
    residual_neighbours: tuple[int, ...] = (64, 128, 256)
    residual_block: int = 256
    residual_trial: float = 6.0
    negligible: float = 0.2

    def max_centroids(self, n_rows: int, n_inputs: int) -> int:
        """Return the number of centroids at which a threshold is too small to be tried."""
        limit = max(self.few_centroids, n_rows // self.rows_per_centroid)
        if n_inputs <= 3:
            return limit
        return int(min(limit, max(self.few_centroids, self.max_coordinates / (n_rows * n_inputs))))


POWERS, LIMITS = Powers(), Limits()


# All methods that can be named, and those that are tried if none are.
NAMES = (*(name for name, method in METHODS.items() if not method.chooses), EXACT)
TRIED = (*(name for name, method in METHODS.items() if method.tried), EXACT)


def checked_methods(methods: Iterable[str] | None) -> tuple[str, ...]:
    """Return the names of methods, after checking that there are such; of None, those that are tried by default.

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


@dataclass(frozen=True)
class Allowed:
    """What the user allows.

    Attributes
    ----------
    methods : sequence of str
        Names of methods.
    max_features : int
        The largest number of columns, and of nearest rows.
    approximation : {"dtc", "sor", "fitc"}
    max_memory_gib : float
        Models whose matrices need more are left out.
    max_neighbours : int
        The largest number of nearest rows.
    """

    methods: Sequence[str] = TRIED
    max_features: int = 2048
    approximation: Approximation = "fitc"
    max_memory_gib: float = 4.0
    max_neighbours: int = 2048

    def takes_exact(self, n_rows: int) -> bool:
        """Say whether the exact GP of n rows is a candidate."""
        return EXACT in self.methods and n_rows <= max_rows_within(self.max_memory_gib)

    def needs_no_search(self, n_rows: int, n_predict: int) -> bool:
        """Say whether the exact GP is to be taken at once."""
        work = n_rows**2 * (n_rows / 3.0 + n_predict)
        return self.takes_exact(n_rows) and (work <= LIMITS.quick or set(self.methods) == {EXACT})


def sizes(max_features: int) -> list[int]:
    """Return the sizes that are tried: from the largest down by halves."""
    halves = takewhile(lambda size: size >= LIMITS.smallest_size, (max_features // 2**power for power in count()))
    return sorted(halves) or [max_features]


def families(allowed: Allowed, kernel: Kernel, prices: Prices, cover: Callable[[float], Floats]) -> list[Family]:
    """List the candidates, with the seconds expected of each.

    Parameters
    ----------
    allowed : Allowed
    kernel : Kernel
        Methods whose map cannot serve it are left out.
    prices : Prices
    cover : callable
        Returns the centroids of a threshold; of these, no more than `Limits.max_centroids` are needed.

    Returns
    -------
    list of Family

    Raises
    ------
    InputError
        If there is no candidate.
    """
    known = {name: METHODS[name] for name in allowed.methods if name in METHODS}
    maps = {name: method for name, method in known.items() if method.mapped and _map(name).serves(kernel)}
    if prices.n_inputs == 1:  # rivals are the same map: keep the first
        names = list(maps)
        maps = {name: maps[name] for i, name in enumerate(names) if maps[name].rival not in names[:i]}
    everywhere = {name: method for name, method in maps.items() if not method.localized}
    around = {name: method for name, method in maps.items() if method.localized}
    found = _of_maps(allowed, everywhere, prices, None, None)
    for threshold in LIMITS.thresholds if around else ():
        centroids = cover(threshold)
        if len(centroids) >= LIMITS.max_centroids(prices.n_tried, prices.n_inputs):
            break  # smaller thresholds take more
        if len(centroids) > 1 or not everywhere:  # around one centroid, a model is a global one
            found += _of_maps(allowed, around, prices, threshold, centroids)
    found += _of_residuals(allowed, prices)
    found += _of_rows(allowed, prices)
    if not found:
        raise InputError(
            f"None of methods={list(allowed.methods)} can serve {kernel!r} for {prices.n_rows:,} rows of "
            f"{prices.n_inputs} columns, with max_features={allowed.max_features} and "
            f"max_memory_gib={allowed.max_memory_gib:g}. Allow more of these."
        )
    return _affordable(found, max(LIMITS.affordable, prices.of_neighbours(LIMITS.neighbours).model))


def exact(n_rows: int, approximation: Approximation) -> Choice:
    """Return the choice of the exact GP of all rows."""
    return Choice(EXACT, n_rows, None, None, approximation)


def _map(name: str, size: int = LIMITS.smallest_size) -> KernelMap:
    """Make the unfitted map of a method."""
    made: KernelMap = METHODS[name].make(size, "local", None)
    return made


def model_fits(features: KernelMap, n_rows: int, n_inputs: int, max_memory_gib: float) -> bool:
    """Say whether the matrices of a model with a map fit into memory."""
    try:
        check_model(features, n_rows, n_inputs, max_memory_gib)
    except MemoryLimitError:
        return False
    return True


def _affordable(found: list[Family], limit: float) -> list[Family]:
    """Leave out the candidates that take longer than a limit in seconds, or next to nothing, but for the cheapest."""
    limit = max(limit, min(candidate.seconds for family in found for candidate in family.candidates))
    for family in found:
        possible = [candidate for candidate in family.candidates if candidate.seconds <= limit]
        worth = [one for one, larger in pairwise(possible) if larger.seconds > LIMITS.negligible]
        family.candidates[:] = worth + possible[-1:]
    return [family for family in found if family.candidates]


def _of_maps(
    allowed: Allowed,
    methods: Mapping[str, Method],
    prices: Prices,
    threshold: float | None,
    centroids: Floats | None,
) -> list[Family]:
    """List the maps around the centroids of a threshold; of None, around one centre."""
    n_centroids = 1 if centroids is None else len(centroids)
    distances = None if centroids is None else prices.distances(centroids)
    made: dict[str, Family] = {}
    for name, method in methods.items():
        priced = [
            (size, features, features.work(prices.n_inputs))
            for size, features in ((size, _map(name, size)) for size in sizes(allowed.max_features))
        ]
        # As many landmarks as rows make the model exact on the probes, but not for all rows.
        sensible = [one for one in priced if not one[2].solved or one[0] < prices.n_tried]
        sensible += [one for one in priced if one[2].solved and one[0] >= prices.n_rows][:1]
        made[name] = Family(
            [
                Candidate(
                    Choice(name, size, features, threshold, allowed.approximation),
                    *prices.of_map(work, n_centroids, distances),
                )
                for size, features, work in sensible
                if model_fits(features, prices.n_rows, prices.n_inputs, allowed.max_memory_gib)
            ],
            POWERS.of(method),
        )
    for name, family in made.items():
        rival = methods[name].rival
        family.rival = None if rival is None else made.get(rival)
    return [family for family in made.values() if family.candidates]


def _of_residuals(allowed: Allowed, prices: Prices) -> list[Family]:
    """List global Nyström maps whose residuals the nearest rows predict, a family for each number of these."""
    if RESIDUAL not in allowed.methods:
        return []
    most = min(allowed.max_features, allowed.max_neighbours, prices.n_tried)
    # Beside its neighbours, only a large map is worth its trial.
    large = [size for size in sizes(allowed.max_features)[-2:] if size < prices.n_tried]
    maps = [NystroemFeatures(size) for size in large or [min(allowed.max_features, prices.n_tried)]]
    families = []
    for k in sorted({min(k, most) for k in LIMITS.residual_neighbours}):
        found = []
        for features in maps:
            price = prices.of_residual(features.work(prices.n_inputs), k, LIMITS.residual_block)
            held = 8.0 * prices.n_rows * (features.n_features + LIMITS.residual_block)
            fits = model_fits(features, prices.n_rows, prices.n_inputs, allowed.max_memory_gib)
            if fits and held <= allowed.max_memory_gib * 2**30 and price.trial <= LIMITS.residual_trial:
                choice = Choice(RESIDUAL, features.n_features, features, None, allowed.approximation, k)
                found.append(Candidate(choice, *price))
        families.append(Family(found, POWERS.explicit))
    return [family for family in families if family.candidates]


def _of_rows(allowed: Allowed, prices: Prices) -> list[Family]:
    """List the exact GP of the nearest rows, and that of all rows."""
    n, found = prices.n_rows, []
    if NEAREST_ROWS in allowed.methods:
        most = min(allowed.max_features, allowed.max_neighbours, max_rows_within(allowed.max_memory_gib))
        fewer = [k for k in sizes(most) if 0 < k < n]
        if not fewer and EXACT not in allowed.methods:
            fewer = [n]
        found.append(
            Family(
                [
                    Candidate(Choice(NEAREST_ROWS, k, None, None, allowed.approximation, k), *prices.of_neighbours(k))
                    for k in fewer
                ],
                POWERS.nearest,
            )
        )
    if allowed.takes_exact(n):
        found.append(Family([Candidate(exact(n, allowed.approximation), *prices.of_exact())], POWERS.explicit))
    return [family for family in found if family.candidates]
