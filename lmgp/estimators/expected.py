"""About how long the stages of a fit take, for people who wait for it: nothing is decided by these times."""

from lmgp.data import Rows
from lmgp.estimators.rows_left_out import FEWEST_IN_REGIONS, MOST_ROWS
from lmgp.kernels.base import Kernel
from lmgp.learning.engine import Settings, forms_of
from lmgp.learning.search import FIRST_ROWS, MOST_NEIGHBORS, MOST_POSITIONS, MOST_SQUARES, NUMBERS
from lmgp.learning.trends import ROWS_OF_EACH, SAMPLE

# Seconds on two cores, measured by benchmarks/expected.py: what an entry of a covariance takes for each free number in
# a whole search for the maximum of an exact likelihood, and of Vecchia's; what a row takes that is predicted without
# itself; and what it takes to choose a model, where there are many rows, and to fit it.
EXACT, VECCHIA, ROW_LEFT_OUT, CHOICE, FITTING = 7e-8, 6e-9, 4e-4, 3.0, 0.1


def expected_seconds(rows: Rows, settings: Settings, has_noise: bool, chooses: bool) -> dict[str, float]:
    """Return about how many seconds each stage of a fit takes, in their order.

    Parameters
    ----------
    rows : Rows
    settings : Settings
        Of the learning.
    has_noise : bool
        Whether the distribution of the noise is fitted by rows left out.
    chooses : bool
        Whether a trend and a model are chosen.
    """
    n, n_free, n_screened = len(rows), 1, 0
    for form in forms_of(rows, settings):
        most = len(form.parts) * (NUMBERS[-1] + 2)
        n_free += min(form.n_free, most)
        n_screened += form.n_free if form.n_free > most else 0

    def by_exact_likelihood(n_rows: int) -> float:
        return EXACT * (n_free * n_rows**2 + n_screened * min(n_rows, FIRST_ROWS) ** 2)

    learning = by_exact_likelihood(min(n, FIRST_ROWS) if n > settings.max_learning_rows else n)
    if n > settings.max_learning_rows:
        n_positions = min(n, MOST_POSITIONS)
        learning += VECCHIA * n_free * min(n_positions * MOST_NEIGHBORS**2, MOST_SQUARES)
    # A kernel is learned from a sample with and without a trend, and then one from all rows.
    enough = min(n, SAMPLE) >= ROWS_OF_EACH * (rows.X.shape[1] + 1)
    trend = chooses and enough and not isinstance(settings.kernel, Kernel)
    stages = {"trend": 2.0 * by_exact_likelihood(min(n, SAMPLE))} if trend else {}
    stages["learning"] = learning
    if chooses:
        stages |= {"choosing": CHOICE if n > FEWEST_IN_REGIONS else 0.0, "fitting": FITTING}
    if has_noise:
        stages["noise"] = ROW_LEFT_OUT * min(n, MOST_ROWS)
    return stages
