"""Models of a map and of residuals whose rows come later, and go: against dense algebra of the same blocks."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lmgp
from lmgp import GPRegressor, MaternKernel, NystroemFeatures, ResidualGPRegressor
from lmgp.errors import InputError, MemoryLimitError
from tests.estimators.streams import both, chunks

NOISE = 0.05
KERNEL = MaternKernel([2.0, 3.0, 2.5], 1.5)


def drawn(n: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X, T = rng.uniform(0.0, 9.0, (n, 3)), rng.uniform(0.0, 9.0, (20, 3))
    return X, 7.0 + np.sin(X).sum(axis=1) + NOISE**0.5 * rng.normal(size=n), T


def residual(features: Any = None, **parameters: Any) -> ResidualGPRegressor:
    features = NystroemFeatures(12) if features is None else features
    given = {"kernel": KERNEL, "noise_variance": NOISE, "random_state": 0, "block_size": 25}
    return ResidualGPRegressor(features, 15, **(given | parameters))


def block_of_each_row(model: Any) -> np.ndarray:
    """The number of the block of each row, in the order in which the rows came."""
    forest = model._fitted.sums.settled.forest
    found = np.full(sum(len(part.rows) for part in forest.parts), -1)
    start = number = 0
    for part in forest.parts:
        for block in part.blocks:
            assert np.all(found[block + start] == -1)
            found[block + start], number = number, number + 1
        start += len(part.rows)
    return found[forest.places]


def dense(model: Any, X: np.ndarray, y: np.ndarray, T: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """The means and variances at T of the formulas of the class, row by row, with numpy's general solver."""
    features = model.features_
    centre = model._fitted.sums.plan.blocks.centre
    mapped, own, y = features.transform(X - centre), features.transform(T - centre), y - model.center_
    left_out = KERNEL(X) - mapped @ mapped.T
    within = np.linalg.inv(np.where(blocks[:, None] == blocks, left_out, 0.0) + NOISE * np.eye(len(y)))
    covariance = np.linalg.inv(np.eye(mapped.shape[1]) + mapped.T @ within @ mapped)
    weights = covariance @ (mapped.T @ (within @ y))
    distances = np.linalg.norm(KERNEL.scale(T)[:, None] - KERNEL.scale(X)[None], axis=2)
    found = []
    for i, near in enumerate(np.argsort(distances, axis=1)[:, : model.n_neighbors]):
        section = KERNEL(T[i : i + 1], X[near])[0] - mapped[near] @ own[i]
        b = np.linalg.solve(left_out[np.ix_(near, near)] + NOISE * np.eye(len(near)), section)
        psi = own[i] - mapped[near].T @ b
        variance = psi @ covariance @ psi + KERNEL.variance - own[i] @ own[i] - b @ section
        found.append((model.center_ + psi @ weights + b @ y[near], variance))
    return np.transpose(found)


def check(model: Any, X: np.ndarray, y: np.ndarray, T: np.ndarray) -> None:
    mean, variance = dense(model, X, y, T, block_of_each_row(model))
    assert model.center_ == pytest.approx(y.mean(), rel=1e-12)
    found = model.predict(T, return_std=True)
    np.testing.assert_allclose(found[0], mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(found[1] ** 2, variance, rtol=0, atol=1e-8)


def grown(X: np.ndarray, y: np.ndarray) -> ResidualGPRegressor:
    model = residual().fit(X[:300], y[:300])
    for start in range(300, len(X), 7):
        model.partial_fit(X[start : start + 7], y[start : start + 7])
    return model


class TestRowsThatCome:
    def test_are_in_blocks_of_their_own(self) -> None:
        X, y, T = drawn()
        model = residual().fit(X[:300], y[:300])
        before = block_of_each_row(model)
        model.partial_fit(X[300:310], y[300:310])
        after = block_of_each_row(model)
        np.testing.assert_array_equal(after[:300], before)
        assert set(after[300:]).isdisjoint(before)
        check(model, X[:310], y[:310], T)

    def test_in_chunks_give_what_dense_algebra_says(self) -> None:
        X, y, T = drawn()
        model = grown(X, y)
        assert len(model._fitted.sums.forest.parts) > 1
        check(model, X, y, T)

    def test_one_by_one(self) -> None:
        X, y, T = drawn(330)
        model = residual().fit(X[:310], y[:310])
        for row in range(310, 330):
            model.partial_fit(X[row : row + 1], y[row : row + 1])
        check(model, X, y, T)

    def test_are_nearer_to_what_they_measured(self) -> None:
        X, y, _ = drawn()
        model = residual().fit(X[:300], y[:300])
        before = model.predict(X[300:])
        after = model.partial_fit(X[300:], y[300:]).predict(X[300:])
        assert np.mean((y[300:] - after) ** 2) < 0.7 * np.mean((y[300:] - before) ** 2)

    def test_of_a_stream_have_the_map_of_a_sample(self) -> None:
        X, y, T = drawn()
        check(residual().fit(chunks(X, y, 90)), X, y, T)

    def test_with_weights_and_noise_variances_are_those_of_an_exact_process_where_all_are_near(self) -> None:
        X, y, T = drawn(120)
        weights, noises = np.random.default_rng(1).uniform(0.5, 2.0, (2, 120))
        rest = {"sample_weight": weights, "noise_variances": 0.1 * noises}
        model = residual(block_size=200).set_params(n_neighbors=200).fit(X, y, **rest)
        exact = lmgp.ExactGPRegressor(KERNEL, NOISE).fit(X, y, **rest)
        np.testing.assert_allclose(both(model, T), both(exact, T), rtol=0, atol=1e-7)
        some = {name: one[:90] for name, one in rest.items()}
        later = {name: one[90:] for name, one in rest.items()}
        model = residual(block_size=200).set_params(n_neighbors=200).fit(X[:90], y[:90], **some)
        model.partial_fit(X[90:], y[90:], **later)
        # All rows are planted together, in one block.
        assert len(model._fitted.sums.forest.parts) == 1
        np.testing.assert_allclose(both(model, T), both(exact, T), rtol=0, atol=1e-7)


class TestRowsThatGo:
    def test_leave_what_dense_algebra_says_of_the_others(self) -> None:
        X, y, T = drawn()
        gone = np.random.default_rng(2).permutation(400)[:30]
        model = grown(X, y).forget(X[gone], y[gone])
        rest_X, rest_y = np.delete(X, gone, axis=0), np.delete(y, gone)
        assert any(part.n_gone for part in model._fitted.sums.forest.parts)  # of which the blocks were mended
        check(model, rest_X, rest_y, T)
        model.partial_fit(X[gone], y[gone])
        check(model, np.vstack((rest_X, X[gone])), np.append(rest_y, y[gone]), T)

    def test_by_age(self) -> None:
        X, y, T = drawn()
        check(grown(X, y).forget(keep=150), X[-150:], y[-150:], T)

    def test_that_are_not_there_are_refused_and_nothing_changes(self) -> None:
        X, y, T = drawn(310)
        model = residual().fit(X, y)
        before = both(model, T)
        with pytest.raises(InputError, match=r"row 0, .* is not"):
            model.forget(X[:1] + 1.0, y[:1])
        np.testing.assert_array_equal(both(model, T), before)


class TestAfterUpdates:
    def test_leave_one_out_takes_each_row_out_of_its_block(self) -> None:
        X, y, _ = drawn()
        model = grown(X, y).forget(X[:20], y[:20])
        X, y, blocks = X[20:], y[20:], block_of_each_row(model)
        for i in (0, 200, 379):
            others = np.arange(380) != i
            (mean,), (variance,) = dense(model, X[others], y[others], X[i : i + 1], blocks[others])
            assert model.loo_.mean[i] == pytest.approx(mean, abs=1e-8)
            assert model.loo_.std[i] ** 2 == pytest.approx(variance + NOISE, abs=1e-8)

    def test_the_likelihood_is_that_of_the_blocks(self) -> None:
        X, y, _ = drawn()
        model = grown(X, y)
        blocks, mapped = block_of_each_row(model), model.features_.transform(X - model._fitted.sums.plan.blocks.centre)
        outer = mapped @ mapped.T
        covariance = np.where(blocks[:, None] == blocks, KERNEL(X), outer) + NOISE * np.eye(400)
        z = y - model.center_
        expected = z @ np.linalg.solve(covariance, z) + np.linalg.slogdet(covariance)[1] + 400 * np.log(2 * np.pi)
        assert model.log_marginal_likelihood() == pytest.approx(-0.5 * expected, rel=1e-9)

    def test_a_file_and_a_pickle_take_more_rows(self, tmp_path: Path) -> None:
        X, y, T = drawn()
        model = residual().fit(X[:300], y[:300])
        model.partial_fit(X[300:350], y[300:350]).save(tmp_path / "model.lmgp")
        for same in (lmgp.load(tmp_path / "model.lmgp"), pickle.loads(pickle.dumps(model))):
            np.testing.assert_allclose(both(same, T), both(model, T), rtol=1e-12)
            check(same.partial_fit(X[350:], y[350:]).forget(X[:10], y[:10]), X[10:], y[10:], T)

    def test_a_copy_has_the_blocks_from_which_rows_went(self, tmp_path: Path) -> None:
        X, y, T = drawn()
        model = grown(X, y).forget(X[:20], y[:20])
        assert any(part.n_gone for part in model._fitted.sums.forest.parts)
        model.save(tmp_path / "model.lmgp")
        for same in (lmgp.load(tmp_path / "model.lmgp"), pickle.loads(pickle.dumps(model))):
            assert not any(part.n_gone for part in same._fitted.sums.forest.parts)
            np.testing.assert_array_equal(block_of_each_row(same), block_of_each_row(model))
            np.testing.assert_allclose(same.loo_.mean, model.loo_.mean, rtol=1e-9)
            np.testing.assert_allclose(same.loo_.std, model.loo_.std, rtol=1e-9)
            assert same.log_marginal_likelihood() == pytest.approx(model.log_marginal_likelihood(), rel=1e-9)
            check(same.partial_fit(X[:3], y[:3]), np.vstack((X[20:], X[:3])), np.append(y[20:], y[:3]), T)

    def test_models_of_one_map_merge(self) -> None:
        X, y, T = drawn()
        model = residual().fit(X[:300], y[:300])
        other = model.with_rows(X[300:], y[300:])
        check(other, X[300:], y[300:], T)
        check(model.merge(other), X, y, T)
        with pytest.raises(InputError, match=r"Models of one map, .* merge"):
            model.merge(residual(random_state=1).fit(X[:300], y[:300]))

    def test_a_trend_that_few_rows_told_is_estimated_anew(self) -> None:
        X, y, _ = drawn()
        y = y + 3.0 * X[:, 0]
        model, whole = (residual(trend=[0]).fit(X[:n], y[:n]) for n in (20, len(X)))
        assert model.trend_.coef[0] != pytest.approx(whole.trend_.coef[0], rel=1e-3)
        assert model.partial_fit(X[20:], y[20:]).trend_.coef[0] == pytest.approx(whole.trend_.coef[0], rel=1e-8)

    def test_a_trend_that_many_rows_told_stays_as_it_was(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(lmgp.posteriors.trend, "TREND_ROWS", 300)
        X, y, T = drawn()
        y = y + 3.0 * X[:, 0]
        model = residual(trend=[0]).fit(X[:300], y[:300])
        slope = model.trend_.coef[0]
        model.partial_fit(X[300:], y[300:])
        assert model.trend_.coef[0] == slope
        line = [model.trend_.intercept + slope * of[:, 0] for of in (X, T)]
        mean, _ = dense(model, X, y - line[0] + model.center_, T, block_of_each_row(model))
        np.testing.assert_allclose(model.predict(T), mean - model.center_ + line[1], rtol=0, atol=1e-7)

    def test_more_rows_than_there_is_memory_for_are_refused_and_nothing_changes(self) -> None:
        X, y, T = drawn()
        model = residual(max_memory_gib=8 * 37 * 310 / 2**30).fit(X[:300], y[:300])
        before = both(model, T)
        with pytest.raises(MemoryLimitError, match="12 features of 400 rows"):
            model.partial_fit(X[300:], y[300:])
        np.testing.assert_array_equal(both(model, T), before)
        model.partial_fit(X[300:307], y[300:307])  # planted by themselves, and counted with the others
        with pytest.raises(MemoryLimitError, match="12 features of 314 rows"):
            model.partial_fit(X[307:314], y[307:314])

    def test_what_is_chosen_takes_rows(self) -> None:
        X, y, T = drawn()
        model = GPRegressor(
            kernel=KERNEL, noise_variance=NOISE, methods=["residual"], n_predict=10**6, random_state=0
        ).fit(X[:380], y[:380])
        assert isinstance(model.model_, ResidualGPRegressor)
        before = model.predict(T, return_std=True)[1]
        assert np.all(model.partial_fit(X[380:], y[380:]).predict(T, return_std=True)[1] <= before + 1e-9)
