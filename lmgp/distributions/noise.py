"""The distribution of a new observation around what a Gaussian process predicts."""

import math
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from lmgp.data import Floats
from lmgp.distributions.field import ScaleField
from lmgp.distributions.left_out import LeftOut
from lmgp.errors import InputError, nearest_names
from lmgp.utils.parameters import NOISES as SYNONYMS
from lmgp.utils.student import Student as Student  # part of `lmgp.distributions`
from lmgp.utils.student import mean_gain, pays
from lmgp.utils.trials import Trials

NoiseName = Literal["auto", "normal", "student", "varying", "robust"]
NOISES: tuple[NoiseName, ...] = get_args(NoiseName)

# Of fewer rows, nothing tells a t from a normal distribution.
FEWEST_ROWS = 30
# A t of as many degrees of freedom is normal to the last digit; of infinity numpy draws no number.
NORMAL_DEGREES = 1e100


class NoiseTrial(NamedTuple):
    """One line of an `ObservationNoise`: a distribution, and how well it predicts rows left out.

    Attributes
    ----------
    noise : str
        "normal", "student" or "varying"; with "robust" before it of a fit to which outliers count less.
    degrees : float
        ν; infinity of a normal distribution.
    least, most : float
        The 2.5% and the 97.5% quantile of the scale c h(x) of rows left out, beside predicted standard deviations.
    alone, regions : float
        The mean log density of rows left out by themselves, and of whole neighbourhoods, in nats a row; not a number
        where there were none.
    gain, standard_error : float
        The mean gain of all of them over the line before, and its standard error; of a robust fit under a t, over the
        fit that is not robust.
    chosen : bool
    """

    noise: str
    degrees: float
    least: float
    most: float
    alone: float
    regions: float
    gain: float = math.nan
    standard_error: float = math.nan
    chosen: bool = False


@dataclass(frozen=True, eq=False)
class ObservationNoise(Trials[NoiseTrial]):
    """The distribution of a new observation, y = m(x) + s(x) h(x) c ε.

    m and s are the process's mean and standard deviation with noise, and ε a standard t of ν degrees of freedom.
    Printed, it is a table of what was tried.

    Attributes
    ----------
    student : Student
        ν and c: infinity and 1 of a normal distribution.
    local : ScaleField or None
        h; None means 1 everywhere.
    trials : tuple of NoiseTrial
        What was tried; none where nothing was.
    n_rows : int
        The number of rows that were left out; a row that was left out by itself and within a region counts twice.
    distances : ndarray of shape (m,)
        |y − m(x)| over the scale, of the m rows that were left out by themselves, in increasing order. Where rows count
        several equal ones, m quantiles of the distances of all of these.
    note : str
        Why nothing was tried, where something was asked for.
    rmse, r2 : float
        The root mean squared error, in units of y, and the coefficient of determination of the means m(x) of rows that
        were left out by themselves; not a number where there were none.
    mean_square : float
        The mean of ((y − m)/s)² of rows that were left out by themselves; 1 where there were none.
    """

    student: Student = Student()  # noqa: RUF009
    local: ScaleField | None = None
    trials: tuple[NoiseTrial, ...] = ()
    n_rows: int = 0
    distances: Floats = field(default_factory=lambda: np.empty(0))
    note: str = ""
    rmse: float = math.nan
    r2: float = math.nan
    mean_square: float = 1.0

    @property
    def name(self) -> str:
        """What was taken: "normal", "student" or "varying"."""
        return "varying" if self.local is not None else "normal" if math.isinf(self.student.degrees) else "student"

    @property
    def is_of_robust_fit(self) -> bool:
        """Whether outliers count less to the fit."""
        return bool(self.trials) and self.chosen.noise.startswith("robust")

    @property
    def degrees(self) -> float:
        """The degrees of freedom ν: infinity of a normal distribution."""
        return self.student.degrees

    def scale(self, X: Floats, mean: Floats, std: Floats) -> Floats:
        """Return s h c of each row, what the t is multiplied by, shape (m,).

        Parameters
        ----------
        X : ndarray of shape (m, d)
        mean, std : ndarray of shape (m,)
            The predicted mean, and the process's standard deviation with noise.
        """
        scale: Floats = self.student.scale * std
        return scale if self.local is None else scale * np.exp(self.local.log_scale(X, mean, std))

    def conformal_width(self, level: float) -> float:
        """Return half the width of an interval over the scale, from the ranks of rows left out.

        With n rows, it is the ⌈(n + 1) level⌉-th smallest distance: a new row that is exchangeable with them is within
        it with this probability at least, whatever the distribution is.

        Parameters
        ----------
        level : float
            Between 0 and 1.

        Raises
        ------
        InputError
            If no rows were left out, or too few for the level.

        References
        ----------
        J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman, *Distribution-Free Predictive Inference for
        Regression*, Journal of the American Statistical Association 113, 2018, section 5.2.
        """
        n = len(self.distances)
        rank = math.ceil((n + 1) * level)
        if rank > n:
            least = math.ceil(level / (1.0 - level))
            raise InputError(
                f"Conformal intervals of level {level:g} take {least:,} rows left out; this model has {n:,}. Fit with "
                "noise='auto', or call calibrate(X, y) with rows that you have kept back."
            )
        return float(self.distances[rank - 1])

    columns = (
        ("noise", lambda trial: trial.noise, ""),
        ("ν", lambda trial: "∞" if math.isinf(trial.degrees) else f"{trial.degrees:.1f}", ""),
        ("scale", lambda trial: " to ".join(f"{value:.2f}" for value in sorted({trial.least, trial.most})), ""),
        ("rows left out", lambda trial: trial.alone, ".4f"),
        ("regions", lambda trial: trial.regions, ".4f"),
        ("gain", lambda trial: trial.gain, ".4f"),
        ("s.e.", lambda trial: trial.standard_error, ".1g"),
    )

    def __str__(self) -> str:
        if not self.trials:
            return self.note or "normal: nothing else was tried."
        note = f"*: taken, by {self.n_rows:,} rows left out; densities in nats a row."
        return "\n".join((*self.table(2), note))

    @classmethod
    def fitted(cls, wanted: NoiseName, rows: LeftOut) -> tuple["ObservationNoise", Floats]:
        """Fit what is wanted to rows left out; "auto" takes what predicts them best.

        A distribution with more parameters is taken where it gains more than a standard error and what its parameters
        gain by chance.

        Parameters
        ----------
        wanted : {"auto", "normal", "student", "varying"}
        rows : LeftOut

        Returns
        -------
        noise : ObservationNoise
        densities : ndarray of shape (n,)
            The log density of each row, in nats; none of too few rows.
        """
        if len(rows.y) < FEWEST_ROWS:
            return too_few(len(rows.y)), np.empty(0)
        errors, log_std = rows.errors, np.log(rows.std)
        pairs = [(cls(), np.zeros(1)), (cls(Student.fitted(errors, rows.weights)), np.zeros(1))]
        varying = None if wanted == "student" else ScaleField.fitted(rows.X, rows.mean, rows.std, errors, rows.weights)
        if varying is not None:
            local, student, log_scales = varying
            pairs.append((cls(student, local), log_scales))
        densities = [fitted.student.log_density(errors * np.exp(-each)) - each - log_std for fitted, each in pairs]
        taken = len(pairs) - 1 if wanted != "auto" else 0
        for i in range(taken + 1, len(pairs)):
            gain, error = mean_gain(densities[taken], densities[i], rows.weights)
            taken = i if pays(gain, error, len(rows.y), i - taken) else taken
        trials = []
        for i, (fitted, each) in enumerate(pairs):
            least, most = fitted.student.scale * np.exp(np.quantile(each, (0.025, 0.975)))
            alone, regions = (_mean(densities[i], rows, some) for some in (rows.alone, ~rows.alone))
            gain, error = mean_gain(densities[i - 1], densities[i], rows.weights) if i else (math.nan, math.nan)
            trials.append(NoiseTrial(fitted.name, fitted.degrees, least, most, alone, regions, gain, error, i == taken))
        noise, log_scales = pairs[taken]
        relative = errors * np.exp(-log_scales) / noise.student.scale
        m, counts = np.count_nonzero(rows.alone), np.ones(len(rows.y)) if rows.weights is None else rows.weights
        distances = np.quantile(
            np.abs(relative[rows.alone]), np.arange(1, m + 1) / m, weights=counts[rows.alone], method="inverted_cdf"
        )
        rmse, r2 = _errors_of_means(rows)
        square = float(np.average(np.square(errors[rows.alone]), weights=counts[rows.alone])) if m else 1.0
        noise = replace(
            noise, trials=tuple(trials), n_rows=len(rows.y), distances=distances, rmse=rmse, r2=r2, mean_square=square
        )
        return noise, densities[taken]

    def of_robust_fit(self) -> Self:
        """Return it with the word "robust" in each trial."""
        return replace(self, trials=tuple(trial._replace(noise=f"robust {trial.noise}") for trial in self.trials))

    def beside(self, robust: "ObservationNoise", gain: float, error: float) -> "ObservationNoise":
        """Return the noise of a robust fit, with the trials of both.

        Parameters
        ----------
        robust : ObservationNoise
        gain, error : float
            The mean gain of the robust fit under a t, in nats a row left out, and its standard error.
        """
        mine = [trial._replace(chosen=False) for trial in self.trials]
        others = list(robust.of_robust_fit().trials)
        others[1] = others[1]._replace(gain=gain, standard_error=error)
        return replace(robust, trials=(*mine, *others))


def too_few(n_rows: int) -> ObservationNoise:
    """Return a normal distribution, for want of rows."""
    return ObservationNoise(note=f"normal: {n_rows} rows are too few to tell; {FEWEST_ROWS} are needed.")


def _mean(density: Floats, rows: LeftOut, some: NDArray[np.bool_]) -> float:
    """Return the mean density of some rows."""
    weights = None if rows.weights is None else rows.weights[some]
    return float(np.average(density[some], weights=weights)) if some.any() else math.nan


def _errors_of_means(rows: LeftOut) -> tuple[float, float]:
    """Return the root mean squared error and the R² of rows left out by themselves."""
    y, mean = rows.y[rows.alone], rows.mean[rows.alone]
    weights = None if rows.weights is None else rows.weights[rows.alone]
    error = float(np.average(np.square(y - mean), weights=weights))
    variance = float(np.average(np.square(y - np.average(y, weights=weights)), weights=weights))
    return math.sqrt(error), 1.0 - error / variance if variance > 0.0 else math.nan


def distribution(degrees: Floats | float, mean: Floats, scale: Floats) -> Any:
    """Return the frozen distribution of scipy: a normal one where the degrees of freedom are infinite.

    What is known without any uncertainty gets the smallest scale that there is: of zero, scipy has no distribution.
    """
    scale = np.maximum(scale, np.finfo(np.float64).tiny)
    if np.isinf(degrees).all():
        return stats.norm(mean, scale)
    return stats.t(np.minimum(degrees, NORMAL_DEGREES), mean, scale)


def checked_noise(noise: Any) -> NoiseName:
    """Return the name of a noise.

    Raises
    ------
    InputError
        If it is none.
    """
    if isinstance(noise, str) and noise in NOISES:
        return noise
    told = f"noise must be one of {', '.join(map(repr, NOISES))}; got {noise!r}"
    if isinstance(noise, Real):
        raise InputError(f"{told}. It names the distribution; the variance is noise_variance={noise!r}.")
    nearest = nearest_names(SYNONYMS.get(str(noise).lower(), str(noise)), NOISES)
    raise InputError(f"{told}: {nearest}" if nearest.startswith("did") else f"{told}.")
