"""Made candidates, whose seconds and divergences are given, for tests of the choice between them."""

from collections.abc import Callable

import numpy as np

from lmgp import GaussianKernel, TaylorFeatures
from lmgp.data import Rows
from lmgp.recipes import Exact, Local, Nearest
from lmgp.selection.candidates import Candidate, Problem
from lmgp.selection.choose import select
from lmgp.selection.methods import EXACT, NEAREST_ROWS
from lmgp.selection.probes import Probes
from lmgp.selection.record import RecipeTrial, Selection

NOISE, VARIANCE, TOLERANCE = 0.5, 1.5, 1e-3
N_PROBES = 100


class Bench:
    """Made candidates that have the divergence that is asked for, and a record of which were built."""

    def __init__(self) -> None:
        X = np.arange(float(N_PROBES))[:, None]
        rest = Rows(np.zeros((5, 1)), np.zeros(5))
        variance = np.full(N_PROBES, VARIANCE)
        self.probes = Probes(X, np.zeros(N_PROBES), variance, np.arange(N_PROBES), rest, 1.0, 5, 3.0)
        self.divergence: dict[tuple[str, int], Callable[[np.ndarray], np.ndarray]] = {}
        self.built: list[tuple[str, int]] = []

    def candidate(self, method: str, size: int, seconds: float, kl: object, trial: float = 0.0) -> Candidate:
        """Make a candidate with a divergence: one for all probes, or a function that returns one for each.

        "nearest_rows" and "exact" have no map. A trial is expected to take `trial` seconds.
        """
        self.divergence[method, size] = kl if callable(kl) else lambda X: np.full(len(X), kl)
        recipe = {NEAREST_ROWS: Nearest(), EXACT: Exact()}.get(method, Local(TaylorFeatures()))
        line = RecipeTrial(method, size, getattr(recipe, "threshold", None), "fitc", np.inf, 0.0, 0, seconds, 0.0)
        return Candidate(recipe, line._replace(kl=0.0) if method == EXACT else line, lambda *_: trial)

    def build(self, candidate: Candidate) -> "Made":
        self.built.append(candidate.trial[:2])
        return Made(self.divergence[candidate.trial[:2]])

    def select(self, candidates: list[Candidate], tolerance: float = TOLERANCE) -> tuple[Candidate, Selection]:
        problem = Problem(self.probes.rest, GaussianKernel(), NOISE, tolerance, 77)
        return select(problem, self.probes, candidates, self.build)


class Made:
    """What a made candidate becomes."""

    def __init__(self, divergence: Callable[[np.ndarray], np.ndarray]) -> None:
        self.divergence = divergence

    def distribution(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # KL = m²/(2v) for Gaussians of the same variance.
        means = np.sqrt(2.0 * (VARIANCE + NOISE) * self.divergence(X[:, 0]))
        return means[:, None], np.full(len(X), VARIANCE)
