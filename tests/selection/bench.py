"""Made candidates, whose seconds and divergences are given, for tests of the choice between them."""

from collections.abc import Callable, Sequence

import numpy as np

from lmgp import TaylorFeatures
from lmgp.data import Rows
from lmgp.recipes import Exact, Local, Nearest
from lmgp.selection.candidates import Candidate, Family
from lmgp.selection.methods import EXACT, NEAREST_ROWS
from lmgp.selection.probes import Probes
from lmgp.selection.search import Selection, select

NOISE, VARIANCE, TOLERANCE = 0.5, 1.5, 1e-3
N_PROBES = 100
FLAT, STEEP = 0.0, 30.0  # powers with which no, and any, larger candidate can be near enough


class Bench:
    """Made families, whose candidates have the divergence that is asked for, and a record of what was done."""

    def __init__(self, n_probes: int = N_PROBES, change: float = 0.0) -> None:
        X = np.arange(float(n_probes))[:, None]
        rest = Rows(np.zeros((5, 1)), np.zeros(5))
        group = np.arange(n_probes)
        self.probes = Probes(X, np.zeros(n_probes), np.full(n_probes, VARIANCE), group, rest, rest, 5, change, 3.0)
        self.divergence: dict[tuple[str, int], Callable[[np.ndarray], np.ndarray]] = {}
        self.missing: dict[tuple[str, int], float] = {}
        self.built: list[tuple[str, int]] = []
        self.predicted: list[tuple[str, int, int]] = []

    def family(
        self, method: str, table: dict[int, tuple[float, object]], power: float = STEEP, trial: float = 0.0
    ) -> Family:
        """Make candidates of sizes, each with its seconds and its divergence: one for all probes, or one for each.

        "nearest_rows" and "exact" have no map. A trial is expected to take `trial` seconds.
        """
        for size, (_, kl) in table.items():
            self.divergence[method, size] = kl if callable(kl) else lambda X, kl=kl: np.full(len(X), kl)
        recipe = {NEAREST_ROWS: Nearest(), EXACT: Exact()}.get(method, Local(TaylorFeatures()))
        return Family([Candidate(method, size, recipe, seconds, trial) for size, (seconds, _) in table.items()], power)

    def build(self, candidate: Candidate) -> "Made":
        self.built.append((candidate.method, candidate.size))
        return Made(self, (candidate.method, candidate.size))

    def select(self, families: Sequence[Family], tolerance: float = TOLERANCE) -> tuple[Candidate, Selection]:
        return select(self.probes, families, self.build, NOISE, tolerance, 77)


class Made:
    """What a made candidate becomes."""

    def __init__(self, bench: Bench, key: tuple[str, int]) -> None:
        self.bench, self.key = bench, key

    def missing(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.bench.missing.get(self.key, 0.0))

    def distribution(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.bench.predicted.append((*self.key, len(X)))
        # KL = m²/(2v) for Gaussians of the same variance.
        divergence = self.bench.divergence[self.key](X[:, 0])
        return np.sqrt(2.0 * (VARIANCE + NOISE) * divergence)[:, None], np.full(len(X), VARIANCE)
