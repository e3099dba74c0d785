"""What the target says of columns before the kernel is learned: their scales, their direction, and effects."""

from lmgp.columns.effects import with_effects
from lmgp.columns.table import Columns
from lmgp.data import Rows
from lmgp.learning.engine import Settings


def adapted(columns: Columns, rows: Rows, settings: Settings, with_scales: bool) -> tuple[Columns, Rows]:
    """Return columns as the target needs them, and training rows with their coordinates."""
    return with_effects(columns, rows, settings)
