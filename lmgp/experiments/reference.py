"""The exact GP that methods are compared with; what it learned is kept on disk before it predicts."""

import json
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lmgp import ExactGPRegressor, GaussianKernel
from lmgp.datasets import Dataset
from lmgp.errors import ScaleWarning
from lmgp.experiments.protocol import Settings
from lmgp.experiments.results import replace
from lmgp.inference.function_space import max_rows_within
from lmgp.inputs import warn_of_scales
from lmgp.validation import Rows

Floats = NDArray[np.float64]

# Of the mean, in predictive standard deviations, where it is solved for by iteration: 5e-7 nats a row.
MEAN_ERROR = 1e-3

Doing = Callable[[str], AbstractContextManager[object]]


@dataclass(frozen=True)
class Prepared:
    """The rows of one seed, as the models get them: X of shape (n, d), y of shape (n,)."""

    X_train: Floats
    y_train: Floats
    X_test: Floats
    y_test: Floats

    def same(self, other: "Prepared") -> bool:
        """Compare the rows: a data set with one published split has the same for every seed."""
        return all(map(np.array_equal, vars(self).values(), vars(other).values()))


@dataclass(frozen=True)
class Learned:
    """What the exact GP learned from the rows of one seed.

    Attributes
    ----------
    lengthscale : float or list of float
        One for all columns, or one a column.
    variance, noise_variance : float
    converged : bool
    seconds : float
        The time that learning took.
    """

    lengthscale: float | list[float]
    variance: float
    noise_variance: float
    converged: bool
    seconds: float

    @classmethod
    def of(cls, model: Any, seconds: float) -> "Learned":
        """Take the hyper-parameters of a fitted exact GP."""
        kernel = model.kernel_
        lengthscale = np.asarray(kernel.lengthscale, dtype=float).tolist()
        return cls(lengthscale, float(kernel.variance), float(model.noise_variance_), bool(model.converged_), seconds)

    def model(self) -> ExactGPRegressor:
        """Make the unfitted exact GP with these hyper-parameters."""
        lengthscale = np.array(self.lengthscale) if isinstance(self.lengthscale, list) else self.lengthscale
        return _reference(GaussianKernel(lengthscale, self.variance), self.noise_variance)


def _reference(
    kernel: GaussianKernel | None = None, noise_variance: float | None = None, *, ard: bool = False
) -> ExactGPRegressor:
    return ExactGPRegressor(kernel, noise_variance, ard=ard, tolerance=MEAN_ERROR, random_state=0)


def iterates(n_train: int) -> bool:
    """Say whether the reference of this many training rows solves for its mean by iteration."""
    return n_train > max_rows_within(ExactGPRegressor().max_memory_gib)


class LearnedFile:
    """Learned hyper-parameters in a JSON file, by the fingerprint of the settings and the seed.

    Parameters
    ----------
    path : Path
        Need not exist. A file that cannot be read as such counts as empty: what it held is learned again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def seeds(self, mark: str) -> dict[int, Learned]:
        """Return what was learned under these settings, by seed."""
        found = {}
        with suppress(AttributeError):
            for seed, values in self._read().get(mark, {}).items():
                with suppress(TypeError, ValueError):
                    found[int(seed)] = Learned(**values)
        return found

    def keep(self, mark: str, seed: int, learned: Learned) -> None:
        """Add what was learned; it is on disk when this returns."""
        try:
            kept = self._read()
            kept.setdefault(mark, {})[str(seed)] = asdict(learned)
        except (TypeError, AttributeError):
            kept = {mark: {str(seed): asdict(learned)}}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        replace(self.path, (json.dumps(kept, indent=1) + "\n").encode())

    def _read(self) -> dict[str, Any]:
        try:
            kept: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return kept


def fit_exact(
    dataset: Dataset,
    settings: Settings,
    rows: Prepared,
    seed: int,
    *,
    mark: str = "",
    file: LearnedFile | None = None,
    doing: Doing = nullcontext,
) -> tuple[ExactGPRegressor, Learned]:
    """Fit the exact GP: with the hyper-parameters published, those kept on disk, or those learned now.

    Parameters
    ----------
    dataset : Dataset
    settings : Settings
    rows : Prepared
    seed : int
        Of the split.
    mark : str
        The fingerprint of the settings.
    file : LearnedFile, optional
        Where hyper-parameters are looked for, and kept as soon as they are learned.
    doing : callable
        Shows a text for as long as its context lasts.

    Returns
    -------
    model : ExactGPRegressor
        Fitted; it solves at its first prediction.
    learned : Learned
        Given hyper-parameters have converged.
    """
    published = settings.protocol.published_for(dataset)
    kept = None if file is None else file.seeds(mark).get(seed)
    if published:
        kernel = GaussianKernel(published.lengthscale, published.variance)
        model = _reference(kernel, published.noise_variance)
    elif kept:
        model = kept.model()
    else:
        model = _reference(ard=settings.ard)
    start = perf_counter()
    n = min(len(rows.y_train), model.max_learning_rows)
    if not (published or kept or settings.ard):
        train = Rows(rows.X_train, rows.y_train)
        warn_of_scales(train, dataset.feature_names, "Use --standardise yes, or --ard.", stacklevel=2)
    with (
        doing(f"seed {seed}: {'fitting' if published or kept else 'learning hyper-parameters'} on {n:,} rows"),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", ScaleWarning)  # the command has its own, with names and options
        model.fit(rows.X_train, rows.y_train)
    learned = kept or Learned.of(model, perf_counter() - start)
    if file is not None and not (published or kept):
        file.keep(mark, seed, learned)
    return model, learned
