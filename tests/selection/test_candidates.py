"""What may be chosen, by what the user allows and the data."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.special import gammainccinv

from lmgp import (
    GaussianKernel,
    MaternKernel,
    RationalQuadraticKernel,
    farthest_point_clustering,
)
from lmgp.errors import InputError
from lmgp.kernels.base import Kernel
from lmgp.posteriors import costs
from lmgp.recipes import Exact, Local, Nearest, Residual, Weights
from lmgp.selection import candidates
from lmgp.selection.candidates import (
    NAMES,
    SAMPLE_CENTROIDS,
    THRESHOLDS,
    TRIED,
    Problem,
    checked_methods,
    max_centroids,
    sizes,
)
from lmgp.selection.methods import SPECTRAL
from tests.selection.machine import (
    FEATURES,
    FEATURES_ONLY,
    KERNEL,
    LOCAL,
    OPEN,
    ROWS_ONLY,
    SEARCHED,
    SHARE,
    draw,
    features_of,
    listed,
    seconds,
    threshold_of,
)


class TestSizes:
    @pytest.mark.parametrize(
        ("largest", "expected"),
        [
            (2048, [32, 128, 512, 2048]),
            (200, [50, 200]),
            (128, [32, 128]),
            (63, [63]),
            (32, [32]),
            (2, [2]),
        ],
    )
    def test_quarters_down_to_a_few(self, largest: int, expected: list[int]) -> None:
        assert sizes(largest) == expected

    @pytest.mark.parametrize("largest", [2, 31, 100, 700])
    def test_no_candidate_has_more_columns_or_rows_than_allowed(self, largest: int) -> None:
        """But for the exact GP, which has all rows."""
        found = [one for one in (listed(draw(), replace(OPEN, max_features=largest))) if one.trial.method != "exact"]
        assert max(candidate.trial.n_features for candidate in found) == largest or largest > 400
        for candidate in found:
            assert candidate.trial.n_features <= largest
            assert getattr(candidate.recipe, "n_neighbors", 0) <= largest
            if features_of(candidate) is not None:
                assert features_of(candidate).n_features == candidate.trial.n_features


class TestWhatIsAllowed:
    def test_everything(self) -> None:
        found = listed(draw(), replace(OPEN, max_features=512))
        assert {candidate.trial.method for candidate in found} == {
            "global_taylor", "global_taylor_energy", "orf", "nystroem", "local_taylor", "local_taylor_energy",
            "local_maclaurin_tensor_srht", "residual", "nearest_rows", "exact",
        }  # fmt: skip
        assert {threshold_of(candidate) for candidate in found if candidate.trial.method.startswith("local_")} == {
            4.0,
            2.0,
            1.0,
            0.5,
            0.25,
        }
        assert {threshold_of(candidate) for candidate in found if not candidate.trial.method.startswith("local_")} == {
            None
        }

    def test_features_only(self) -> None:
        found = listed(draw(), FEATURES_ONLY)
        assert {candidate.trial.method for candidate in found} == set(FEATURES)
        assert all(features_of(candidate) is not None for candidate in found)

    def test_residuals_are_of_one_map_and_of_two_numbers_of_rows(self) -> None:
        found = listed(draw(2000), replace(OPEN, methods=("residual",), max_features=2048))
        assert [(one.trial.n_features, one.recipe.n_neighbors) for one in found] == [(1024, 64), (1024, 128)]
        (one,) = listed(draw(40), replace(OPEN, methods=("residual",)))
        assert (one.trial.n_features, one.recipe.n_neighbors) == (40, 40)

    def test_rows_only(self) -> None:
        found = listed(draw(), replace(OPEN, methods=ROWS_ONLY, max_features=512))
        assert {candidate.trial.method for candidate in found} == set(ROWS_ONLY)
        assert [candidate.recipe for candidate in found] == [
            *(Nearest(k, 4.0, precision="float32") for k in (32, 128)),
            Exact(4.0),
        ]

    def test_global_models_are_solved_by_features_and_localized_ones_as_is_best(self) -> None:
        for candidate in listed(draw()):
            if isinstance(candidate.recipe, Local):
                assert candidate.recipe.solver == "auto"
            else:
                assert isinstance(candidate.recipe, (Weights, Nearest, Residual, Exact))

    @pytest.mark.parametrize("method", [name for name in NAMES if name != SPECTRAL])
    @pytest.mark.parametrize("n", [10, 200])
    def test_one_method(self, method: str, n: int) -> None:
        assert {candidate.trial.method for candidate in (listed(draw(n), replace(OPEN, methods=(method,))))} == {method}

    @pytest.mark.parametrize("method", ["local_taylor_energy", "global_taylor_energy"])
    def test_of_one_column_an_index_set_can_be_named(self, method: str) -> None:
        found = listed(draw(d=1), replace(OPEN, methods=(method,)))
        assert {candidate.trial.method for candidate in (found)} == {method}


class TestExact:
    @pytest.mark.parametrize("methods", [TRIED, ROWS_ONLY, ("exact",)])
    @pytest.mark.parametrize("n", [1, 2, 10, 31, 32, 33, 256])
    def test_all_rows_are_a_candidate_where_these_are_few(self, n: int, methods: tuple[str, ...]) -> None:
        found = listed(draw(n), replace(OPEN, methods=methods))
        assert list(seconds(found, "exact")) == [n]
        (exact,) = (candidate for candidate in (found) if candidate.trial.method == "exact")
        assert isinstance(exact.recipe, Exact)

    def test_more_rows_than_columns_allowed_too(self) -> None:
        assert list(seconds(listed(draw(257), replace(OPEN, max_features=40)), "exact")) == [257]

    def test_takes_no_search_where_it_is_quick(self) -> None:
        """n²(n/3 + n_predict) multiplications, as many as 2,500 rows need for as many predictions."""

        def of(n_rows: int, n_predict: int, **allowed: object) -> Problem:
            return replace(OPEN, n_streamed=n_rows, n_predict=n_predict, **allowed)

        assert of(30, 5).exact_seconds == 900 * (10 + 5) / candidates.QUICK
        assert of(2400, 2400).needs_no_search
        assert not of(2600, 2600).needs_no_search
        assert of(3500, 10).needs_no_search
        assert not of(100, 10**7).needs_no_search
        assert not of(10, 10, methods=FEATURES).needs_no_search
        assert of(10_000, 10**7, methods=("exact",)).needs_no_search
        assert not of(10_000, 10, methods=("exact",), max_memory_gib=1e-3).needs_no_search

    def test_by_hand(self) -> None:
        found = seconds(listed(draw(400), n_predict=7), "exact")
        assert found[400] == costs.of_exact(400, 2, 7, KERNEL).seconds

    def test_nearest_rows_are_no_more_than_can_be_told(self) -> None:
        assert list(seconds(listed(draw(), replace(OPEN, max_neighbours=128)), "nearest_rows")) == [32, 128]

    def test_fewer_rows_than_all_are_nearest_ones(self) -> None:
        assert list(seconds(listed(draw(128)), "nearest_rows")) == [64]
        assert not seconds(listed(draw(20)), "nearest_rows")
        assert list(seconds(listed(draw(20), replace(OPEN, methods=("nearest_rows",))), "nearest_rows")) == [20]

    @pytest.mark.parametrize("n", [1, 5, 40, 400])
    @pytest.mark.parametrize("max_features", [2, 31, 1000])
    @pytest.mark.parametrize("methods", [TRIED, FEATURES, LOCAL, ROWS_ONLY])
    def test_there_is_always_a_candidate(self, n: int, max_features: int, methods: tuple[str, ...]) -> None:
        found = listed(draw(n), replace(OPEN, methods=methods, max_features=max_features))
        assert found

    def test_landmarks_are_not_many_more_than_rows(self) -> None:
        assert list(seconds(listed(draw(100)), "nystroem")) == [64]
        assert list(seconds(listed(draw(10), FEATURES_ONLY), "nystroem")) == [64]


def test_only_the_divergence_of_the_exact_process_is_known_before_a_trial() -> None:
    divergences = {(one.trial.method == "exact", one.trial.kl, one.trial.spread) for one in listed(draw())}
    assert divergences == {(True, 0.0, 0.0), (False, np.inf, 0.0)}


def test_defaults_are_those_that_are_stated() -> None:
    problem = Problem(draw(1), KERNEL, 0.1, 1e-3, 1000)
    assert (problem.max_features, problem.max_neighbours, problem.max_memory_gib) == (2048, 2048, 4.0)


class TestThresholds:
    def test_those_with_too_many_centroids_are_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(candidates, "FEW_CENTROIDS", 60)
        rows = draw(400, d=4)
        limit = max_centroids(400, 4)
        assert limit == 60
        expected = [t for t in (4.0, 2.0, 1.0, 0.5, 0.25) if len(farthest_point_clustering(rows.X, t)) < limit]
        assert 0 < len(expected) < 5
        found = {threshold_of(candidate) for candidate in (listed(rows))} - {None}
        assert found == set(expected)

    def test_one_centroid_is_a_global_model(self) -> None:
        assert {threshold_of(candidate) for candidate in (listed(draw(extent=0.5)))} == {None, 0.25}

    def test_of_more_rows_more_centroids_are_looked_for_except_in_high_dimension(self) -> None:
        assert max_centroids(100, 2) == max_centroids(1000, 8) == 256
        assert max_centroids(4_004, 2) == 500
        assert max_centroids(80_000, 3) == 10_000
        assert max_centroids(80_000, 8) == 1562
        assert max_centroids(400_000, 8) == 312
        assert max_centroids(10**9, 8) == 256

    def test_where_localized_models_alone_are_allowed_one_centroid_will_do(self) -> None:
        found = listed(draw(extent=0.5), replace(OPEN, methods=LOCAL))
        assert {threshold_of(candidate) for candidate in found} == set(THRESHOLDS)


class TestKernels:
    @pytest.mark.parametrize(
        "kernel",
        [
            MaternKernel(1.0, 1.0, smoothness=0.5),
            RationalQuadraticKernel(1.0, 1.0, alpha=2.0),
            GaussianKernel(1.0, 0.5) + MaternKernel([1.0, 2.0], 0.5),
        ],
    )
    def test_that_are_no_sums_of_gaussians(self, kernel: Kernel) -> None:
        found = listed(draw(), replace(OPEN, max_features=512), kernel=kernel)
        assert {candidate.trial.method for candidate in found} == {
            "orf",
            "nystroem",
            "residual",
            "nearest_rows",
            "exact",
        }
        assert {threshold_of(candidate) for candidate in found} == {None}

    def test_sums_of_gaussians_allow_every_method(self) -> None:
        kernel = GaussianKernel(1.0, 0.5) + GaussianKernel(3.0, 0.5)
        found = listed(draw(), replace(OPEN, max_features=512), kernel=kernel)
        assert {candidate.trial.method for candidate in found} == set(SEARCHED)

    def test_one_that_no_method_can_serve_is_refused(self) -> None:
        with pytest.raises(InputError, match=r"None of methods=\['local_taylor'\] can serve MaternKernel"):
            listed(draw(), replace(OPEN, methods=("local_taylor",)), kernel=MaternKernel(1.0, 1.0))


class TestMemory:
    def test_models_that_do_not_fit_are_left_out(self) -> None:
        """Three D × D matrices, or two of all rows."""
        allowed = replace(OPEN, max_features=512, max_memory_gib=3 * 8 * 150**2 / 2**30)
        found = listed(draw(), allowed)
        assert max(candidate.trial.n_features for candidate in found if features_of(candidate) is not None) == 128
        assert "exact" not in {candidate.trial.method for candidate in found}

    def test_nothing_fits(self) -> None:
        with pytest.raises(InputError, match=r"max_memory_gib=1e-08\. Allow more of these"):
            listed(draw(), replace(OPEN, methods=("orf", "exact"), max_memory_gib=1e-8))

    @pytest.mark.parametrize(("gib", "n_found"), [(0.09, 0), (0.1, 2)])
    def test_residuals_keep_the_features_of_all_rows(self, gib: float, n_found: int) -> None:
        """10,000 × (1,024 + 256) numbers: 0.095 GiB."""
        allowed = replace(OPEN, methods=("residual", "orf"), max_features=2048, max_memory_gib=gib)
        found = listed(draw(10_000), allowed)
        assert len([one for one in found if one.trial.method == "residual"]) == n_found


def test_the_price_of_localized_maps_counts_the_rows_within_reach() -> None:
    rows = draw(300)
    found = [one for one in listed(rows) if one.trial.method == "local_taylor" and threshold_of(one) == 2.0]
    assert len(found) == 2
    centroids = farthest_point_clustering(rows.X, 2.0)
    assert len(centroids) <= SAMPLE_CENTROIDS  # all of them, and so of no sample
    distances = cdist(centroids, rows.X)
    for one in found:
        work = features_of(one).work(2)
        reach = work.stretch * np.sqrt(gammainccinv(work.degree + 1, SHARE))
        share = float(np.mean(distances <= reach))
        assert 0.0 < share < 1.0
        expected = one.recipe.cost(300, 2, 1000, KERNEL, n_centroids=len(centroids), share=share)
        assert one.trial.seconds == pytest.approx(expected.seconds)


class TestNames:
    def test_none_is_all(self) -> None:
        assert checked_methods(None) == TRIED
        assert not set(LOCAL) & set(TRIED)  # maps around centroids are tried where they are named
        assert checked_methods(LOCAL) == LOCAL

    def test_are_kept_in_order(self) -> None:
        assert checked_methods(["exact", "orf"]) == ("exact", "orf")

    @pytest.mark.parametrize(
        ("name", "near"), [("local_tayler", "local_taylor"), ("nearest", "nearest_rows"), ("nystrom", "nystroem")]
    )
    def test_an_unknown_one_is_told_with_what_is_near(self, name: str, near: str) -> None:
        with pytest.raises(InputError, match=f"methods has the name '{name}'.*did you mean '{near}'"):
            checked_methods(["orf", name])

    def test_one_far_from_all_is_told_with_all(self) -> None:
        with pytest.raises(InputError, match=f"known: {', '.join(NAMES)}"):
            checked_methods(["xyz"])

    def test_at_least_one_is_needed(self) -> None:
        with pytest.raises(InputError, match=r"methods=\[\] leaves nothing to choose from\. Leave it out, or name one"):
            checked_methods([])
