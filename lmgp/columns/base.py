"""What every kind of column has."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from lmgp.data import Floats
from lmgp.kernels.table import Label

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Column(ABC):
    """What one column of a table becomes, or several columns together.

    Values are one number a row and column, NaN where a value is missing; coordinates are what a kernel sees.
    """

    kind: ClassVar[str]
    # Whether all values are equally far from each other.
    exchangeable: ClassVar[bool] = False
    # For each column of the table, the coordinates that have its slope in a trend.
    slopes: ClassVar[tuple[tuple[int, ...], ...]] = ((0,),)
    # Whether all coordinates share a lengthscale.
    shares_lengthscale: ClassVar[bool] = False

    @property
    def is_numeric(self) -> bool:
        """Whether values are the finite numbers of the table itself."""
        return False

    @property
    @abstractmethod
    def n_coordinates(self) -> int:
        """The number of coordinates."""

    @abstractmethod
    def read(self, column: "pandas.Series", which: str) -> Floats:
        """Return the values of one column of a table, shape (n,); `which` names it in messages."""

    @abstractmethod
    def coordinates(self, values: Floats, deviations: Floats) -> Floats:
        """Return the coordinates, shape (n, k), of values of shape (n, d).

        `deviations` are the standard deviations of values that were filled in, and 0 elsewhere.
        """

    @abstractmethod
    def values(self, coordinates: Floats) -> Floats:
        """Return the values that have some coordinates, shape (n, d)."""

    @abstractmethod
    def coordinate_names(self, names: Sequence[str]) -> list[str]:
        """Return the names of the coordinates, from those of the columns."""

    @property
    def groups(self) -> list[int]:
        """Which coordinates share a lengthscale: those of equal numbers."""
        return [0] * self.n_coordinates if self.shares_lengthscale else list(range(self.n_coordinates))

    def labels(self, names: Sequence[str]) -> list[Label]:
        """Return what tables call each group of coordinates, from the names of the columns."""
        return [Label(name) for name in self.coordinate_names(names)]

    @property
    def told(self) -> str:
        """The kind, and what else there is to say."""
        return self.kind
