"""Recipes: the kernels that they serve, what they cost, their default maps, and the posteriors and sums they make."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.kernel_approximation import Nystroem

from lmgp import (
    ExactGPRegressor,
    FeaturizedGPRegressor,
    GaussianKernel,
    LinearKernel,
    LocalizedGPRegressor,
    MaternKernel,
    NearestNeighborsGPRegressor,
    NystroemFeatures,
    OptimizedMaclaurinFeatures,
    OrthogonalFourierFeatures,
    RandomFourierFeatures,
    ResidualGPRegressor,
    SpectralGPRegressor,
    TaylorFeatures,
)
from lmgp.data import Rows
from lmgp.errors import InputError
from lmgp.features.base import Work
from lmgp.kernels.base import Kernel
from lmgp.posteriors import costs
from lmgp.posteriors.base import Posterior
from lmgp.posteriors.costs import Cost
from lmgp.posteriors.local import LocalPosterior
from lmgp.posteriors.nearest import NearestPosterior
from lmgp.recipes import (
    AdditiveRecipe,
    Exact,
    Iterative,
    Local,
    Nearest,
    Recipe,
    Residual,
    Spectral,
    Weights,
    checked_box,
)
from lmgp.sums.base import Sample
from lmgp.sums.modes import ModeSums
from lmgp.utils.arithmetic import Arithmetic
from tests.dense import dense, distances, draw

N, NOISE = 120, 0.05
GAUSSIAN, LINEAR = GaussianKernel([1.3, 1.1], 1.4), LinearKernel()
MATERN = MaternKernel([1.1, 0.8], 0.9, smoothness=1.5)
X, TARGETS, NEW = draw(N)
NEW = NEW[:9]
ROWS = Rows(X, TARGETS)
PLACES = np.array([[9.0, -2.5], [11.0, -2.0], [13.0, -1.5]])
# Of streams: y as it is, and 1 behind it; what makes centred targets of these.
STREAM, CENTRED = Rows(X, np.column_stack((TARGETS[:, 0] + 3.0, np.ones(N)))), np.array([[1.0], [-3.0]])


def read(name: str) -> str:
    """Return a name as it comes from a file: equal to the literal, and another object."""
    return name.encode().decode()


DUAL, AUTO, FARTHEST_POINT, TEST_ROWS = map(read, ("dual", "auto", "farthest_point", "test_rows"))


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def predicted(posterior: Posterior, T: np.ndarray = NEW) -> np.ndarray:
    return np.column_stack(posterior.predict(T))


def conditioned(recipe: Recipe, kernel: Kernel = GAUSSIAN, rows: Rows = ROWS) -> np.ndarray:
    return predicted(recipe.posterior(kernel, NOISE, rows, rng()))


def exact(kernel: Kernel) -> np.ndarray:
    """Return the means and the variances of the exact process, by dense algebra."""
    return np.column_stack(dense(kernel(X), kernel(X, NEW), kernel.diagonal(NEW), TARGETS, np.full(N, NOISE)))


def sampled(rows: Rows = STREAM, whole: bool = True, size: int = N) -> Sample:
    sample = Sample(rng(), size, whole=whole)
    sample.add(rows)
    return sample


def summed(recipe: AdditiveRecipe, kernel: Kernel = GAUSSIAN, rows: Rows = STREAM, n_trend: int | None = None) -> Any:
    options = {} if n_trend is None else {"n_trend": n_trend}
    return recipe.sums(kernel, NOISE, sampled(rows), rng(), **options).of(rows)


# ------------------------------------------------------------------------------------------------- kernels and defaults


@pytest.mark.parametrize(
    ("recipe", "model"),
    [
        (Iterative(), "An iterative solve"),
        (Local(), "LocalizedGPRegressor"),
        (Nearest(), "NearestNeighborsGPRegressor"),
        (Residual(), "A model of residuals of near rows"),
    ],
)
def test_what_measures_distances_serves_kernels_with_a_lengthscale(recipe: Recipe, model: str) -> None:
    for kernel in (GAUSSIAN, MATERN):
        assert recipe.serves(kernel, 2) is None
        recipe.check(kernel, 2)
    assert model in (recipe.serves(LINEAR, 2) or "")
    with pytest.raises(InputError, match=model):
        recipe.check(LINEAR, 2)


@pytest.mark.parametrize("recipe", [Exact(), Weights()])
def test_what_measures_no_distances_serves_every_kernel(recipe: Recipe) -> None:
    assert recipe.serves(LINEAR, 2) is None
    recipe.check(LINEAR, 2)


@pytest.mark.parametrize(
    ("model", "recipe"),
    [
        (ExactGPRegressor(), Exact()),
        (ExactGPRegressor(solver="iterative"), Iterative()),
        (FeaturizedGPRegressor(), Weights()),
        (LocalizedGPRegressor(), Local()),
        (NearestNeighborsGPRegressor(), Nearest()),
        (ResidualGPRegressor(), Residual()),
        (SpectralGPRegressor(), Spectral()),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_defaults_are_those_of_the_regressor(model: Any, recipe: Any) -> None:
    model.set_params(kernel=GAUSSIAN, noise_variance=NOISE, random_state=0).fit(X[:30], TARGETS[:30, 0])
    assert model.recipe_ == replace(recipe, max_memory_gib=model.max_memory_gib)


DEFAULT_MAPS = [
    (Weights, OrthogonalFourierFeatures(), GAUSSIAN, 2),
    (Weights, NystroemFeatures(), LINEAR, 2),
    (Local, TaylorFeatures(), GaussianKernel(2.0), 2),
    (Local, TaylorFeatures(), GaussianKernel(2.0), 4),
    (Local, OptimizedMaclaurinFeatures(), GaussianKernel(2.0), 5),
    (Residual, NystroemFeatures(1024), MATERN, 2),
]


@pytest.mark.parametrize(("recipe", "features", "kernel", "d"), DEFAULT_MAPS)
def test_the_default_map(recipe: Any, features: Any, kernel: Kernel, d: int) -> None:
    Z = rng().normal(size=(40, d))
    default, given = (one.posterior(kernel, NOISE, Rows(Z, Z[:, :1]), rng()) for one in (recipe(), recipe(features)))
    np.testing.assert_array_equal(predicted(default, Z + 0.1), predicted(given, Z + 0.1))
    assert recipe().cost(500, d, 7, kernel) == recipe(features).cost(500, d, 7, kernel)


@pytest.mark.parametrize(("recipe", "features", "kernel", "d"), [*DEFAULT_MAPS[:2], DEFAULT_MAPS[3]])
def test_the_default_map_of_a_stream(recipe: Any, features: Any, kernel: Kernel, d: int) -> None:
    Z = rng().normal(size=(40, d))
    rows = Rows(Z, np.column_stack((Z[:, 0], np.ones(40))))
    default, given = (summed(one, kernel, rows).posterior(np.eye(2)) for one in (recipe(), recipe(features)))
    np.testing.assert_array_equal(predicted(default, Z + 0.1), predicted(given, Z + 0.1))


# ---------------------------------------------------------------------------------------------------------------- costs


@pytest.mark.parametrize("kernel", [GAUSSIAN, MATERN])
def test_costs_are_those_of_what_is_made(kernel: Kernel) -> None:
    n, d, m, work = 500, 2, 70, Work(30)
    assert Exact().cost(n, d, m, kernel) == costs.of_exact(n, d, m, kernel)
    assert Weights(RandomFourierFeatures(30)).cost(n, d, m, kernel) == costs.of_map(work, n, d, m, kernel)
    local = Local(RandomFourierFeatures(30))
    assert local.cost(n, d, m, kernel) == costs.of_map(work, n, d, m, kernel, 1, 1.0)
    assert local.cost(n, d, m, kernel, 4, 0.3) == costs.of_map(work, n, d, m, kernel, 4, 0.3)
    for share in (True, False):
        found = Nearest(20, share=share).cost(n, d, m, kernel)
        assert found == costs.of_nearest(20, n, d, m, kernel, share)
    residual = Residual(RandomFourierFeatures(30), 20, 16)
    assert residual.cost(n, d, m, kernel) == costs.of_residual(work, 20, 16, n, d, m, kernel)


@pytest.mark.parametrize(("n", "n_landmarks"), [(3, 1), (1002, 250), (40_000, 2048)])
def test_an_iteration_costs_the_products_and_the_preconditioner(n: int, n_landmarks: int) -> None:
    """Of 2n² operations with as many covariances, and of a matrix of landmarks and of 512 rows in a block, twice."""
    none, one, ten = (Iterative(max_iterations=number).cost(n, 2, 7, MATERN) for number in (0, 1, 10))
    product = 2 * n**2 + 4 * n * (n_landmarks + 512)
    assert one.operations - none.operations == pytest.approx(2 * 2 * n**2 + product, rel=1e-6)
    assert ten.seconds - none.seconds == pytest.approx(10 * (one.seconds - none.seconds), rel=1e-6)
    # Before: the preconditioner, from which the variances are, and a product for each mean.
    work = NystroemFeatures(n_landmarks).work(2)
    means = Cost(7 * (2 * 2 * n + 2 * n), 7 * 8 * costs.PASSES * n)
    expected = costs.of_residual(work, 256, 512, n, 2, 7, MATERN) + means
    assert none.seconds == pytest.approx(expected.seconds, rel=1e-12)


# ----------------------------------------------------------------------------------------------------------- posteriors

RECIPES: dict[str, tuple[Recipe, Kernel]] = {
    "exact": (Exact(), MATERN),
    "iterative": (Iterative(1e-2), MATERN),
    "weights": (Weights(RandomFourierFeatures(30)), MATERN),
    "local": (Local(TaylorFeatures(60)), GAUSSIAN),
    "local, nearest": (Local(), MATERN),
    "local, dual": (Local(solver=DUAL), MATERN),
    "spectral": (Spectral(1e-3), GAUSSIAN),
    "nearest": (Nearest(20), MATERN),
    "residual": (Residual(NystroemFeatures(20), 20, 16), MATERN),
}


@pytest.mark.parametrize("name", RECIPES)
def test_the_posterior_of_combined_targets_and_its_sums(name: str) -> None:
    (recipe, kernel), combination = RECIPES[name], np.array([[1.0, 0.0], [-2.0, 0.5]])
    sums, posterior = recipe.condition(kernel, NOISE, ROWS, combination, rng())
    slack = {"rtol": 0, "atol": 1e-2 if name in ("iterative", "spectral") else 1e-10}
    combined = ROWS.with_targets(TARGETS @ combination)
    expected = conditioned(recipe, kernel, combined)
    np.testing.assert_allclose(predicted(posterior), expected, **slack)
    np.testing.assert_allclose(expected[:, :2], conditioned(recipe, kernel)[:, :2] @ combination, **slack)
    np.testing.assert_array_equal(posterior.rows.Y, combined.Y)
    assert (sums is not None) == isinstance(recipe, AdditiveRecipe)
    if sums is not None:
        assert (sums.n_rows, sums.noise_variance) == (N, NOISE)
        np.testing.assert_allclose(predicted(sums.posterior(combination)), expected, **slack)


@pytest.mark.parametrize(
    ("recipe", "kernel"),
    [
        (Exact(), LINEAR),
        (Iterative(1e-5), MATERN),
        (Weights(NystroemFeatures(N)), MATERN),
        (Nearest(N), MATERN),
        (Residual(NystroemFeatures(10), N, N), MATERN),
        (Local(TaylorFeatures(500), 9.0), GAUSSIAN),
        (Local(TaylorFeatures(500), centroids=TEST_ROWS), GAUSSIAN),
        (Local(solver=DUAL), MATERN),
        (Local(solver=DUAL, centroids=TEST_ROWS), MATERN),
        (Local(centroids=PLACES), MATERN),
    ],
)
def test_with_enough_of_everything_it_is_the_exact_process(recipe: Recipe, kernel: Kernel) -> None:
    np.testing.assert_allclose(conditioned(recipe, kernel), exact(kernel), rtol=0, atol=5e-4)


def test_other_maps_are_drawn_by_other_generators() -> None:
    for recipe in (Weights(RandomFourierFeatures(30)), Residual(NystroemFeatures(20), 20, 16)):
        first, same, other = (recipe.posterior(MATERN, NOISE, ROWS, rng(seed)).predict(NEW)[0] for seed in (0, 0, 1))
        np.testing.assert_array_equal(first, same)
        assert np.abs(first - other).max() > 1e-6


def test_the_landmarks_and_the_modes_of_generators_differ() -> None:
    """Of iterations they are seen in the variances of more rows than these are made from."""
    rows = Rows(rng().uniform(0.0, 30.0, (280, 2)), np.ones((280, 1)))
    found = [Iterative(0.5).posterior(MATERN, 0.5, rows, rng(seed)).variances(rows.X[:9]) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])
    sample, kernel = sampled(Rows(X[:, :1], STREAM.Y)), GaussianKernel(1.3)
    seeds = {Spectral(0.1).sums(kernel, NOISE, sample, rng(seed)).plan.seed for seed in range(30)}
    assert len(seeds) == 30


# ----------------------------------------------------------------------------------------------------- around centroids


@pytest.mark.parametrize(("solver", "centroids"), [(read("primal"), FARTHEST_POINT), (AUTO, TEST_ROWS)])
def test_without_a_map_the_hundred_nearest_rows_serve_other_kernels(solver: Any, centroids: Any) -> None:
    posterior = Local(solver=solver, centroids=centroids).posterior(MATERN, NOISE, ROWS, rng())
    assert isinstance(posterior, NearestPosterior)
    assert posterior.n_neighbors == 100
    np.testing.assert_allclose(predicted(posterior), conditioned(Nearest(100), MATERN), rtol=0, atol=1e-12)


@pytest.mark.parametrize("features", [None, TaylorFeatures(15), Nystroem(n_components=20)])
def test_where_centroids_are(features: Any) -> None:
    kernel = GAUSSIAN if not isinstance(features, Nystroem) else MATERN

    def centroids_of(recipe: Local) -> np.ndarray:
        posterior = recipe.posterior(kernel, NOISE, ROWS, rng())
        assert isinstance(posterior, LocalPosterior)
        return posterior.centroids

    for threshold in (0.5, 1.0):
        found = centroids_of(Local(features, threshold, FARTHEST_POINT))
        assert distances(X, found, kernel.metric(2)).min(axis=1).max() < threshold
        np.testing.assert_allclose(found[0], X.mean(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(centroids_of(Local(features, centroids=PLACES)), PLACES)
    assert centroids_of(Local(features, centroids=TEST_ROWS)).shape == (0, 2)


def test_the_size_of_a_trend_does_not_say_which_rows_are_negligible() -> None:
    """But that of every target does: of larger ones, rows are kept from farther away."""
    rows, recipe = ROWS.with_targets(np.column_stack((TARGETS[:, 0], np.full(N, 1e4)))), Local(TaylorFeatures(60))

    def reach(Y: np.ndarray, **options: Any) -> float:
        combination = np.eye(2)[:, : Y.shape[1]] if Y.ndim == 2 else np.eye(1)
        of = rows.with_targets(Y)
        posterior = recipe.condition(GAUSSIAN, NOISE, of, combination[: of.n_targets], rng(), **options)[1]
        assert isinstance(posterior, LocalPosterior)
        return posterior.reach

    assert reach(rows.Y, n_trend=1) == reach(rows.Y[:, 0]) < reach(rows.Y)


@pytest.mark.parametrize("features", [None, TaylorFeatures(15)])
@pytest.mark.parametrize("places", [[[1.0], [2.0]], np.zeros((2, 3)), np.zeros((4, 1))])
def test_centroids_of_other_columns_are_refused(places: Any, features: Any) -> None:
    recipe = Local(features, centroids=places)
    for make in (recipe.posterior, lambda kernel, noise, _, rng: recipe.sums(kernel, noise, sampled(), rng)):
        with pytest.raises(InputError, match="centroids must have as many columns as X, 2; got shape"):
            make(GAUSSIAN, NOISE, ROWS, rng())


# -------------------------------------------------------------------------------------------------------------- streams


@pytest.mark.parametrize(
    ("recipe", "kernel", "needed"),
    [
        (Weights(), GAUSSIAN, False),
        (Weights(), LINEAR, True),
        (Weights(RandomFourierFeatures()), MATERN, False),
        (Weights(NystroemFeatures()), GAUSSIAN, True),
        (Weights(TaylorFeatures()), GAUSSIAN, True),
        (Weights(OptimizedMaclaurinFeatures()), GAUSSIAN, True),
        (Weights(Nystroem()), GAUSSIAN, True),
        (Local(), GAUSSIAN, True),
        (Local(TaylorFeatures()), GAUSSIAN, False),
        (Local(TaylorFeatures(index_set=read("total_degree"))), GAUSSIAN, False),
        (Local(TaylorFeatures(index_set=read("energy"))), GAUSSIAN, True),
        (Local(OptimizedMaclaurinFeatures()), GAUSSIAN, True),
        (Spectral(), GAUSSIAN, True),
    ],
)
def test_a_sample_is_needed_where_the_map_depends_on_the_rows(
    recipe: AdditiveRecipe, kernel: Kernel, needed: bool
) -> None:
    assert recipe.needs_sample(kernel) is needed


def test_a_recipe_of_sums_says_how_rows_are_conditioned_on() -> None:
    unfinished = type("Unfinished", (AdditiveRecipe,), {"sums": lambda self, *given: None})
    with pytest.raises(TypeError, match="condition"):
        unfinished()


@pytest.mark.parametrize(
    ("recipe", "d", "slack"),
    [
        (Weights(NystroemFeatures(40)), 2, 1e-10),
        (Local(TaylorFeatures(20), 0.5, FARTHEST_POINT, read("primal")), 1, 1e-3),
        (Local(TaylorFeatures(15), centroids=PLACES), 2, 1e-6),
        (Spectral(1e-4), 1, 1e-3),
    ],
)
def test_sums_of_a_stream_make_the_posterior_of_its_rows(recipe: AdditiveRecipe, d: int, slack: float) -> None:
    kernel, rows = GaussianKernel(1.3, 1.4), Rows(X[:, :d], STREAM.Y)
    sums = summed(recipe, kernel, rows)
    assert (sums.n_rows, sums.noise_variance, sums.keeps_rows) == (N, NOISE, False)
    expected = recipe.posterior(kernel, NOISE, Rows(X[:, :d], TARGETS[:, 0]), rng())
    found = sums.posterior(CENTRED)
    np.testing.assert_allclose(predicted(found, NEW[:, :d]), predicted(expected, NEW[:, :d]), rtol=0, atol=slack)


@pytest.mark.parametrize(
    ("recipe", "kernel", "n_trend", "needs"),
    [
        (Local(solver=DUAL), GAUSSIAN, 0, "solver='primal': rows are not kept"),
        (Local(solver=AUTO), GAUSSIAN, 0, "solver='primal': rows are not kept"),
        (Local(centroids=TEST_ROWS), GAUSSIAN, 0, "centroids before test rows are known"),
        (Local(), GAUSSIAN, 2, "trend='constant'; FeaturizedGPRegressor and SpectralGPRegressor have others"),
        (Local(), MATERN, 0, "a map, and without one a kernel of Gaussians: use SpectralGPRegressor"),
    ],
)
def test_what_a_localized_stream_needs(recipe: Local, kernel: Kernel, n_trend: int, needs: str) -> None:
    with pytest.raises(InputError, match=f"A localized model of a stream needs {needs}"):
        recipe.sums(kernel, NOISE, sampled(), rng(), n_trend)


def test_a_map_that_reaches_every_row_serves_no_localized_stream() -> None:
    with pytest.raises(InputError, match="NystroemFeatures reaches every row"):
        Local(NystroemFeatures(10)).sums(MATERN, NOISE, sampled(), rng())


def test_the_rounding_of_single_precision_is_measured() -> None:
    recipe = Weights(RandomFourierFeatures(30))
    single, double = (replace(recipe, arithmetic=Arithmetic(None, read(name))) for name in ("float32", "float64"))
    for make in (lambda one: summed(one).posterior(CENTRED), lambda one: one.posterior(GAUSSIAN, NOISE, ROWS, rng())):
        assert make(single).rounding_divergence > 0.0
        assert make(double).rounding_divergence == 0.0


# ---------------------------------------------------------------------------------------------------------------- modes


def modes_of(recipe: Spectral, whole: bool = True, rows: Rows = STREAM, size: int = N) -> Any:
    sums = recipe.sums(GAUSSIAN, NOISE, sampled(rows, whole, size), rng())
    assert isinstance(sums, ModeSums)
    return sums.plan


def test_modes_serve_the_box_and_the_rows_beyond_it() -> None:
    low, high = X.min(axis=0), X.max(axis=0)
    box = np.stack((low + np.array([-3.0, 0.5]), high + np.array([4.0, -0.5])))
    for recipe, expected in (
        (Spectral(0.1), (low, high)),
        (Spectral(0.1, box=box), ([low[0] - 3.0, low[1]], [high[0] + 4.0, high[1]])),
    ):
        modes = modes_of(recipe, size=20).modes  # the box is that of all rows, not of the sample
        np.testing.assert_array_equal((modes.low, modes.high), expected)
    posterior = Spectral(0.1, box=box).posterior(GAUSSIAN, NOISE, ROWS, rng())
    np.testing.assert_array_equal(posterior.plan.modes.low, [low[0] - 3.0, low[1]])


def test_modes_of_a_stream_that_is_read_once_serve_a_million_rows() -> None:
    recipe = Spectral(0.1)
    assert modes_of(recipe, whole=True, size=20).n_chosen == N
    assert modes_of(recipe, whole=False, size=20).n_chosen == 10**6
    assert Spectral(0.1).posterior(GAUSSIAN, NOISE, ROWS, rng()).plan.n_chosen == N


@pytest.mark.parametrize("way", ["rows", "stream"])
def test_what_a_column_of_a_trend_is_off_by_is_no_error_of_the_means(way: str) -> None:
    """Of a column of 10,000, it is as large as that."""
    rows, recipe = Rows(X, np.column_stack((TARGETS[:, 0], np.full(N, 1e4)))), Spectral(0.1)

    def rounding(of: Rows, **options: Any) -> float:
        if way == "rows":
            return recipe.condition(GAUSSIAN, NOISE, of, np.eye(of.n_targets), rng(), **options)[1].accuracy.rounding
        return summed(recipe, rows=of, **options).posterior(np.eye(of.n_targets)).accuracy.rounding

    alone = rounding(Rows(X, TARGETS[:, 0]))
    assert rounding(rows, n_trend=1) == pytest.approx(alone, rel=1e-9)
    assert rounding(rows) > 1e6 * alone


BOX = [[0.0, 1.0, 2.0], [3.0, 4.0, 2.0]]


def test_a_box_is_of_lowest_and_highest_values() -> None:
    assert checked_box(None, 3) is None
    np.testing.assert_array_equal(checked_box(BOX, 3), BOX)


@pytest.mark.parametrize(
    ("box", "n_inputs"),
    [
        (BOX, 2),
        (BOX, 4),
        (BOX[:1], 3),
        ([*BOX, BOX[1]], 3),
        (BOX[0], 3),
        ([0.0, 1.0], 1),
        ([[0.0, 5.0, 2.0], BOX[1]], 3),
        ([[0.0, 1.0, 2.1], BOX[1]], 3),
        (BOX[::-1], 3),
    ],
)
def test_other_boxes_are_refused(box: Any, n_inputs: int) -> None:
    with pytest.raises(InputError, match=f"the lowest values of the {n_inputs} columns, and the highest"):
        checked_box(box, n_inputs)
    rows = Rows(np.zeros((20, n_inputs)), np.zeros((20, 1)))
    for make in (Spectral(box=box).posterior, lambda *_: Spectral(box=box).sums(GAUSSIAN, 0.1, sampled(rows), rng())):
        with pytest.raises(InputError, match="box must have"):
            make(GaussianKernel(1.0), 0.1, rows, rng())
