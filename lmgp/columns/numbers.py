"""Columns of numbers, on a scale, and with gaps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from lmgp.columns.base import Column
from lmgp.data import Floats
from lmgp.errors import InputError
from lmgp.kernels.table import Label
from lmgp.utils.columns import NUMBERS, refuse_other_than_numbers

if TYPE_CHECKING:
    import pandas

# The interquartile range of a normal distribution, in standard deviations.
QUARTILES = 1.349
# Below this quantile of the positive numbers, a logarithmic scale is linear.
LEAST = 0.01


@dataclass(frozen=True)
class AsinhScale:
    """The monotone function asinh((x − center)/width): linear within a width of the center, logarithmic beyond.

    Attributes
    ----------
    name : {"log", "asinh"}
        "log": around 0, linear up to the 1% quantile of the positive numbers. "asinh": around the median, linear within
        the middle half of the numbers.
    center, width : float
        In units of the column.

    Examples
    --------
    >>> import numpy as np
    >>> from lmgp.columns.numbers import AsinhScale
    >>> incomes = np.array([20e3, 30e3, 40e3, 50e3, 9e6])
    >>> scale = AsinhScale.of("asinh", incomes)
    >>> scale(incomes).round(1)
    array([-1.1, -0.6,  0. ,  0.6,  7.1])
    """

    name: str
    center: float
    width: float

    @classmethod
    def of(cls, name: str, values: Floats) -> Self:
        """Fit the scale to finite values, shape (n,).

        Raises
        ------
        InputError
            If a logarithm is asked for, and a value is negative, or none is positive.
        """
        if name == "log":
            if values.min() < 0.0 or values.max() == 0.0:
                raise InputError(
                    f"A logarithmic scale takes positive numbers and zeros; got {values.min():g} to {values.max():g}. "
                    "Give the scale 'asinh', which has two ends."
                )
            return cls(name, 0.0, float(np.quantile(values[values > 0.0], LEAST)))
        low, middle, high = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
        return cls(name, middle, (high - low) / QUARTILES or float(values.std()) or 1.0)

    def __call__(self, values: Floats) -> Floats:
        """Return values on the scale."""
        return np.arcsinh((values - self.center) / self.width)

    def inverse(self, scaled: Floats) -> Floats:
        """Return what has some values on the scale."""
        return self.center + self.width * np.sinh(scaled)

    def __str__(self) -> str:
        if self.name == "log":
            return f"on a logarithmic scale, linear below {self.width:.3g}"
        return f"on a scale that is linear around {self.center:.3g} ± {self.width:.3g} and logarithmic beyond"


@dataclass(frozen=True)
class Numbers(Column):
    """A column of numbers. Where some of the training rows lack it, a second coordinate may mark these rows.

    A missing number is what the other numbers of the row let expect, see `lmgp.columns.gaps`, and the mark is its
    standard deviation, which shares the lengthscale of the column: squared distances to this row are what they are on
    the average over all values that it may have.

    Attributes
    ----------
    n_missing : int
        Of the training rows.
    scale : AsinhScale or None
        None where numbers stay as they are.
    is_given : bool
        Whether this was asked for.
    is_marked : bool
        Whether gaps are marked, where there are some.
    """

    kind: ClassVar = "numbers"
    shares_lengthscale: ClassVar = True
    n_missing: int = 0
    scale: AsinhScale | None = None
    is_given: bool = False
    is_marked: bool = True

    @classmethod
    def of(cls, column: "pandas.Series", which: str, scale: str | None, is_given: bool) -> Self:
        """Look at the training rows."""
        values = numbers_of(column)
        known = values[np.isfinite(values)]
        try:
            fitted = None if scale is None else AsinhScale.of(scale, known)
        except InputError as error:
            raise InputError(f"{which}: {error}") from None
        return cls(int(np.isnan(values).sum()), fitted, is_given)

    @property
    def is_numeric(self) -> bool:
        return not self.n_missing

    @property
    def n_coordinates(self) -> int:
        return 2 if self.n_missing and self.is_marked else 1

    def read(self, column: "pandas.Series", which: str) -> Floats:
        return numbers_of(column)

    def scaled(self, values: Floats) -> Floats:
        """Return values on the scale of the column, in which gaps are filled."""
        return values if self.scale is None else self.scale(values)

    def coordinates(self, values: Floats, deviations: Floats) -> Floats:
        """Return the coordinates of values on the scale of the column, without gaps."""
        return np.hstack((values, deviations)[: self.n_coordinates])

    def values(self, coordinates: Floats) -> Floats:
        missing, number = coordinates[:, 1:].any(axis=1), coordinates[:, 0]
        return np.where(missing, np.nan, number if self.scale is None else self.scale.inverse(number))[:, None]

    def coordinate_names(self, names: Sequence[str]) -> list[str]:
        return [names[0], f"{names[0]} is missing"][: self.n_coordinates]

    def labels(self, names: Sequence[str]) -> list[Label]:
        return [Label(names[0], "" if self.scale is None else f"on the {self.scale.name} scale")]

    @property
    def told(self) -> str:
        scale = "" if self.scale is None else f" {self.scale}"
        if not self.n_missing:
            return f"{self.kind}{scale}"
        marked, rows = ", and marked" * self.is_marked, "row" if self.n_missing == 1 else "rows"
        return f"{self.kind}{scale}, missing in {self.n_missing:,} {rows}: filled by the other numbers{marked}"


def numbers_of(column: "pandas.Series") -> Floats:
    """Return numbers, with NaN where a value is missing; InputError where one is none."""
    if column.dtype.kind not in NUMBERS:
        refuse_other_than_numbers(column.dropna().to_frame(), "X")
        column = column.where(column.notna(), np.nan)
    return column.to_numpy(dtype=np.float64, na_value=np.nan)
