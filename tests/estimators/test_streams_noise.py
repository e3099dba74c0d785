"""The distribution of new observations of streams: it is told by a sample of their rows, each without itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from lmgp import FeaturizedGPRegressor, NystroemFeatures
from lmgp.errors import InputError, StreamError
from lmgp.estimators import streamed
from lmgp.estimators.rows_left_out import MOST_ROWS
from lmgp.io.sources import Chunk, RowSource
from tests.conftest import counts_and_noises
from tests.estimators.streams import ARGUMENTS, GIVEN, MODELS, both, chunks, drawn, every_model

N = 240


def heavy(n: int = N, degrees: float = 3.0) -> tuple[np.ndarray, np.ndarray]:
    """Rows, and targets whose errors are a t."""
    rng = np.random.default_rng(1)
    X = rng.uniform(0.0, [6.0, 5.0], (n, 2))
    return X, np.sin(2.0 * X[:, 0]) + 0.3 * X[:, 1] + 0.2 * rng.standard_t(degrees, n)


def of(name: str, noise: str = "student") -> Any:
    return clone(MODELS[name]).set_params(noise=noise, random_state=0)


def same(one: Any, other: Any) -> None:
    """Compare what two models have been told of their noise."""
    assert str(one.noise_) == str(other.noise_)
    np.testing.assert_array_equal(one.noise_.distances, other.noise_.distances)


@pytest.mark.slow
@every_model
def test_each_row_is_predicted_by_a_model_without_it(name: str) -> None:
    X, y = heavy(40)
    trend = {} if "trend" in name else {"center": y.mean()}  # which a row that is forgotten would change
    given = {"n_neighbors": 40} if name == "nearest" else {}  # of fewer, one more is near where one is forgotten
    model = of(name).set_params(**given).fit(chunks(X, y, 7), **trend)
    assert model.noise_.n_rows == 40
    found = model.noise_.distances * model.noise_.student.scale
    for i in (0, 9, 18, 39):
        others = clone(MODELS[name]).set_params(**given).fit(chunks(X, y, 7), **trend)
        others.forget(X[i : i + 1], y[i : i + 1])
        mean, std = others.predict(X[i : i + 1], return_std=True, include_noise=True)
        expected = abs(y[i] - mean[0]) / std[0]
        assert found[np.argmin(np.abs(found - expected))] == pytest.approx(expected, rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["student", "varying", "auto"])
@every_model
def test_the_process_is_that_of_normal_noise(name: str, noise: str) -> None:
    X, y = heavy()
    model, plain = (of(name, one).fit(chunks(X, y)) for one in (noise, "normal"))
    T = drawn()[2]
    np.testing.assert_array_equal(both(model, T), both(plain, T))
    assert model.noise_.n_rows == N
    assert noise == "auto" or model.noise_.name == noise
    assert np.all(model.predict_interval(T, 0.9, method="conformal")[0] < model.predict(T))


@pytest.mark.parametrize("arguments", [(), *ARGUMENTS])
@pytest.mark.parametrize("name", ["featurized", "spectral", "spectral_trend"])
def test_it_is_told_as_by_rows_in_memory(name: str, arguments: tuple[str, ...]) -> None:
    X, y = heavy()
    counts, noises = counts_and_noises(N)
    given = {one: {"sample_weight": counts, "noise_variances": noises}[one] for one in arguments}
    model, whole = of(name).fit(chunks(X, y, **given)), of(name).fit(X, y, **given)
    assert model.noise_.n_rows == whole.noise_.n_rows
    assert model.noise_.degrees == pytest.approx(whole.noise_.degrees, rel=1e-3)
    np.testing.assert_allclose(model.noise_.distances, whole.noise_.distances, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_the_truth_is_found_from_a_sample_of_many_rows() -> None:
    X, y = heavy(20_000)
    model = FeaturizedGPRegressor(NystroemFeatures(60), **GIVEN, noise="auto", random_state=0).fit(chunks(X, y, 1500))
    assert model.noise_.n_rows == MOST_ROWS
    assert model.noise_.degrees == pytest.approx(3.0, rel=0.2)
    T, of_T = heavy(25_000)[0][20_000:], heavy(25_000)[1][20_000:]
    pit = model.predict_distribution(T).cdf(of_T)
    for level in (0.5, 0.8, 0.95):
        assert abs(np.mean(np.abs(2.0 * pit - 1.0) <= level) - level) < 0.03


def test_each_of_several_targets_has_its_own() -> None:
    X, y = heavy()
    targets = np.column_stack((y, np.cos(X[:, 0]) + 0.2 * np.random.default_rng(0).normal(size=N)))
    model = of("featurized").fit(chunks(X, targets))
    first, second = model.noise_
    assert first.degrees < second.degrees
    assert first.degrees == pytest.approx(of("featurized").fit(chunks(X, y)).noise_.degrees, rel=1e-6)


class Stopping(RowSource):
    """Some chunks, of which one cannot be read."""

    def __init__(self, made: list[Any], last: int) -> None:
        self.made, self.left = made, last

    def chunks(self) -> Iterator[Chunk]:
        for chunk in self.made:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
            yield Chunk(*chunk)


@pytest.mark.slow
@pytest.mark.parametrize("last", [1, 4, 9])
@pytest.mark.parametrize("name", ["featurized_nystroem", "localized", "spectral"])
def test_a_stopped_fit_goes_on_to_the_same_noise(
    name: str, last: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed, "MOST_ROWS", 90)
    X, y = heavy()
    made, path = chunks(X, y), tmp_path / "state"
    try:
        of(name, "varying").fit(Stopping(made, last), checkpoint=path)
    except KeyboardInterrupt:
        assert path.exists()
    model, whole = of(name, "varying").fit(made, checkpoint=path), of(name, "varying").fit(made)
    assert model.noise_.n_rows == 90
    same(model, whole)
    assert not path.exists()


def test_the_sample_is_of_all_chunks_and_no_random_state_draws_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streamed, "MOST_ROWS", 90)
    X, y = heavy()
    seen: list[Any] = []
    told = streamed.with_noise_of_sample
    monkeypatch.setattr(
        streamed, "with_noise_of_sample", lambda fit, wanted, sample: seen.append(sample) or told(fit, wanted, sample)
    )
    for seed in (0, 1):
        of("featurized").set_params(random_state=seed).fit(chunks(X, y))
    rows = [{tuple(row) for row in sample.rows.X.tolist()} for sample in seen]
    places = [[np.flatnonzero(X[:, 0] == row[0])[0] // 40 for row in some] for some in rows]
    assert all(min(np.bincount(some, minlength=6)) >= 6 for some in places)  # 15 of each chunk are expected
    assert rows[0] == rows[1]


def test_what_comes_later_leaves_it_and_a_broken_chunk_leaves_that_of_chunks_before() -> None:
    X, y = heavy()
    made: list[Any] = chunks(X, y)
    model, first = of("featurized"), of("featurized").fit(iter(made[:4]))
    with pytest.raises(StreamError):
        model.fit(iter([*made[:4], (np.nan * X, y)]))
    same(model, first)
    assert model.noise_.n_rows == 160
    before = model.noise_
    model.partial_fit(made[4:]).merge(model.with_rows(X[:9], y[:9])).forget(X[:9], y[:9])
    assert model.noise_ is before


def test_few_rows_and_robust_fits_are_refused_or_said() -> None:
    X, y = heavy()
    model = of("featurized", "auto").fit(chunks(X[:20], y[:20], 7))
    assert str(model.noise_) == "normal: 20 rows are too few to tell; 30 are needed."
    with pytest.raises(InputError, match=r"noise='robust' fits all rows several times.*noise='auto', or fit to rows"):
        of("featurized", "robust").fit(chunks(X, y))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["featurized_nystroem", "localized", "spectral_trend"])
def test_dask_collections_tell_it_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("dask")
    da = pytest.importorskip("dask.array")
    X, y = heavy()
    lazy = da.from_array(X, chunks=(37, 2)), da.from_array(y, chunks=37)
    model, stream = of(name).fit(*lazy), of(name).fit(chunks(X, y, 37))
    np.testing.assert_allclose(both(model, X[:9]), both(stream, X[:9]), rtol=0, atol=1e-8)
    assert model.noise_.n_rows == N
    np.testing.assert_allclose(model.noise_.distances, stream.noise_.distances, rtol=1e-4, atol=1e-6)
    monkeypatch.setattr(streamed, "MOST_ROWS", 90)
    one, other = of(name, "varying").fit(*lazy), of(name, "varying").fit(*lazy)
    assert one.noise_.n_rows == 90
    same(one, other)
