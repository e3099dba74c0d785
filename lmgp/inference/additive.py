"""The sums that one featurized model is made of, with those of a trend: they add, and rows can be taken out."""

from dataclasses import dataclass

import torch

from lmgp.errors import InputError
from lmgp.inference.weight_space import ColumnSums, WeightPosterior
from lmgp.io.summary import Summary
from lmgp.statistics import Statistics

# A sum of squares may be below zero by this share of its largest addend: rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class FeaturizedSums:
    """Sums over rows, with y less a frozen origin, and less a frozen least-squares fit of a trend.

    Attributes
    ----------
    statistics : Statistics
    columns : ColumnSums or None
        Of a trend.
    summary : Summary
        With y less the origin alone.
    """

    statistics: Statistics
    columns: ColumnSums | None
    summary: Summary

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return self.summary.n_rows

    def merge(self, other: "FeaturizedSums", sign: float = 1.0) -> "FeaturizedSums":
        """Return the sums over the rows of both; with ``sign=-1.0``, without the rows of the other.

        Raises
        ------
        InputError
            If the other's kernel, map, centre, noise or trend is not the same, or more is taken out than there is.
        """
        columns = self.columns
        if columns is not None and other.columns is not None:
            if columns.trend.name != other.columns.trend.name:
                raise InputError(
                    f"Models of one trend merge; these have {columns.trend.name} and {other.columns.trend.name}. Make "
                    "the other one by with_rows of this one."
                )
            columns = _added(columns, other.columns, sign)
        statistics = self.statistics.merge(other.statistics, sign)
        if sign < 0.0:
            check_left(self.statistics, statistics)
        return FeaturizedSums(statistics, columns, self.summary.combine(other.summary, sign))

    def posterior(self, center: float) -> WeightPosterior:
        """Solve: about the center of y, less the origin, or with the trend estimated."""
        if self.columns is None:
            return WeightPosterior(self.statistics, center)
        return WeightPosterior(self.statistics, 0.0, self.columns)


def _added(columns: ColumnSums, other: ColumnSums, sign: float) -> ColumnSums:
    return ColumnSums(
        columns.trend,
        torch.add(columns.features, other.features, alpha=sign),
        torch.add(columns.gram, other.gram, alpha=sign),
        torch.add(columns.cross, other.cross, alpha=sign),
    )


def check_left(before: Statistics, after: Statistics) -> None:
    """Refuse sums that no rows have: what was taken out was not in them.

    Raises
    ------
    InputError
    """
    check_sums(before.targets.n, after.targets.n, before.targets.squares, after.targets.squares)
    diagonals = (one.sums.expand().gram.diagonal() for one in (before, after))
    largest, least = float(next(diagonals).max()), float(next(diagonals).min())
    if least < -ROUNDING * largest:
        raise not_there("a sum of squared features falls below zero")


def check_sums(n_before: float, n_after: float, squares_before: float, squares_after: float) -> None:
    """Refuse a number of rows, or a sum of squared targets, that falls below zero.

    Raises
    ------
    InputError
    """
    if n_after < -ROUNDING * n_before:
        raise not_there(f"of {n_before:g} rows, {n_before - n_after:g} are to be taken out")
    if squares_after < -ROUNDING * squares_before:
        raise not_there("the sum of squared targets falls below zero")


def not_there(what: str) -> InputError:
    """Make the error of rows that are to be taken out and never were there."""
    return InputError(
        f"These rows cannot be taken out, because not all of them are in the model: {what}. The model is as it was. "
        "Give rows with the X, y, weights and noise variances with which they were added."
    )


def rows_are_gone() -> InputError:
    """Make the error of what needs the training rows of a model that has only their sums."""
    return InputError(
        "This model has sums over its training rows, and not the rows themselves: it was loaded from a file, copied, "
        "fitted to chunks, or rows were added, taken out or merged. Fit it to all rows at once, in memory, for "
        "leave-one-out predictions and all else that takes the rows."
    )


def keeps_rows() -> InputError:
    """Make the error of sums that are to be added to a model with all of its rows."""
    return InputError(
        "This model was fitted to rows in memory and keeps them: it takes no sums of rows that are not kept, as those "
        "of dask collections are. Fit it to chunks, fit([(X, y)]), or to a dask collection, before rows of others come."
    )
