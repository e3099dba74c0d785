"""Made candidates, whose seconds and divergences are given, for tests of the choice between them."""

from collections.abc import Callable, Sequence

import numpy as np

from lmgp import TaylorFeatures
from lmgp.methods import EXACT, NEAREST_ROWS
from lmgp.selection.families import Candidate, Choice, Family
from lmgp.selection.probes import Probes
from lmgp.selection.search import Predictor, Selection, select
from lmgp.validation import Rows

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
        features = None if method in (NEAREST_ROWS, EXACT) else TaylorFeatures()
        choices = [Choice(method, size, features, 1.0, "dtc") for size in table]
        return Family([Candidate(choice, table[choice.size][0], trial) for choice in choices], power)

    def build(self, choice: Choice) -> Predictor:
        self.built.append((choice.method, choice.size))
        return Made(self, (choice.method, choice.size))

    def select(self, families: Sequence[Family], tolerance: float = TOLERANCE) -> tuple[Choice, Selection]:
        return select(self.probes, families, self.build, NOISE, tolerance, 77)


class Made:
    """What a made candidate becomes."""

    def __init__(self, bench: Bench, key: tuple[str, int]) -> None:
        self.bench, self.key = bench, key

    def missing(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self.bench.missing.get(self.key, 0.0))

    def predict(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.bench.predicted.append((*self.key, len(X)))
        # KL = m²/(2v) for Gaussians of the same variance.
        divergence = self.bench.divergence[self.key](X[:, 0])
        return np.sqrt(2.0 * (VARIANCE + NOISE) * divergence), np.full(len(X), VARIANCE)
