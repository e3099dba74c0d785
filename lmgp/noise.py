"""Noise: one variance for all rows, one a row, and the prior variance that a feature map leaves out."""

from dataclasses import dataclass
from typing import Literal, get_args

import torch

from lmgp.validation import Rows, as_tensor

Approximation = Literal["dtc", "sor", "fitc"]
APPROXIMATIONS: tuple[Approximation, ...] = get_args(Approximation)


@dataclass(frozen=True)
class Noise:
    """The noise of training rows, and what a map leaves out of their prior variance.

    A map with columns φ leaves out m(x) = k(x, x) − ‖φ(x)‖², its missing variance.

    Parameters
    ----------
    variance : float
        σ², in squared units of y, of new rows and of rows without a noise variance of their own.
    approximation : {"dtc", "sor", "fitc"}, default="fitc"
        What becomes of the missing variance. The subset of regressors ("sor") ignores it; the deterministic training
        conditional ("dtc") adds it to the variance of a prediction; the fully independent training conditional ("fitc")
        also adds it to the noise of each training row.

    References
    ----------
    J. Quiñonero-Candela and C. E. Rasmussen, *A Unifying View of Sparse Approximate Gaussian Process Regression*, JMLR
    6, 2005, sections 4 to 6.
    """

    variance: float
    approximation: Approximation = "fitc"

    @property
    def counts_missing(self) -> bool:
        """Whether the missing variance of a training row is noise of that row."""
        return self.approximation == "fitc"

    @property
    def predicts_missing(self) -> bool:
        """Whether the missing variance is part of a prediction's variance."""
        return self.approximation != "sor"

    def of_rows(self, rows: Rows, missing: torch.Tensor | None = None) -> torch.Tensor:
        """Return the noise variance σᵢ² of each row, shape (n,).

        Parameters
        ----------
        rows : Rows
        missing : Tensor of shape (n,), optional
            The missing variance; counted where the approximation says so.
        """
        own = rows.noise_variances
        noise = torch.full((len(rows.y),), self.variance, dtype=torch.float64) if own is None else as_tensor(own)
        return noise + missing if missing is not None and self.counts_missing else noise

    def of_weighted_rows(self, rows: Rows, missing: torch.Tensor | None = None) -> torch.Tensor:
        """Return σᵢ²/wᵢ of each row: w equal rows say as much about f as one with this noise variance."""
        noise = self.of_rows(rows, missing)
        return noise if rows.weights is None else noise / as_tensor(rows.weights)

    def mean_precision(self, rows: Rows) -> float:
        """Return the mean of wᵢσ²/σᵢ² over rows: as how many rows with the noise variance σ² one counts."""
        return float((self.variance / self.of_weighted_rows(rows)).mean())

    def relative_precision(self, rows: Rows, missing: torch.Tensor | None = None) -> torch.Tensor | None:
        """Return σ²/σᵢ² of each row, shape (n,); None where that is 1 for all."""
        if rows.noise_variances is None and (missing is None or not self.counts_missing):
            return None
        return self.variance / self.of_rows(rows, missing)

    def predicted(self, variance: torch.Tensor, missing: torch.Tensor | None) -> torch.Tensor:
        """Return the latent variance of a prediction, with what the map leaves out where that is part of it."""
        return variance if missing is None or not self.predicts_missing else variance + missing
