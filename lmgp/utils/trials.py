"""What was tried: a sequence of lines, of which one was chosen, and how lines print as a table."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar, overload

Line = TypeVar("Line")


class Trials(Sequence[Line]):
    """A sequence of lines, one of which was chosen; ``pandas.DataFrame`` makes a table of it.

    Attributes
    ----------
    trials : tuple
        Of lines with an attribute `chosen`.
    """

    trials: tuple[Any, ...]
    # Of the printed table: the heading of each column, its value in a line, and how this is formatted.
    columns: ClassVar[tuple[tuple[str, Callable[[Any], Any], str], ...]]

    @overload
    def __getitem__(self, index: int) -> Line: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Line, ...]: ...
    def __getitem__(self, index: int | slice) -> Line | tuple[Line, ...]:
        return self.trials[index]

    def __len__(self) -> int:
        return len(self.trials)

    @property
    def chosen(self) -> Line:
        """The line of what was chosen."""
        for trial in self.trials:
            if trial.chosen:
                return trial
        raise AttributeError("Nothing was tried, and so nothing was chosen.")

    def table(self, n_left: int) -> list[str]:
        """Return the lines as text below their headings, the chosen one with a star: some columns aligned left first.

        A value that is None, or not a number, is a dash.
        """
        lines = [("", *(heading for heading, _, _ in self.columns))]
        for trial in self.trials:
            values = ((value(trial), form) for _, value, form in self.columns)
            cells = ("-" if value is None or value != value else format(value, form) for value, form in values)
            lines.append(("*" if trial.chosen else "", *cells))
        return aligned(lines, n_left)


def aligned(lines: Sequence[Sequence[str]], n_left: int) -> list[str]:
    """Return each line of cells as text, in columns of one width: the first ones aligned left, the others right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    left, right = widths[:n_left], widths[n_left:]
    return ["  ".join((*map(str.ljust, line, left), *map(str.rjust, line[n_left:], right))) for line in lines]
