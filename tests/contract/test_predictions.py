"""The contract of all regressors: what a prediction returns, what it leaves alone, and what random_state seeds."""

import copy
import pickle

import numpy as np
import pytest
import torch

from tests.conftest import draw_normal as draw
from tests.conftest import every_regressor, make, predictions


@every_regressor
def test_types_and_shapes(name: str) -> None:
    X, y = draw()
    model = make(name).fit(X, y)
    for n in (1, 7):
        mean = model.predict(X[:n])
        assert isinstance(mean, np.ndarray)
        both = model.predict(X[:n], return_std=True)
        assert isinstance(both, tuple)
        for values in (mean, *both):
            assert isinstance(values, np.ndarray)
            assert values.shape == (n,)
            assert values.dtype == np.float64
        np.testing.assert_allclose(both[0], mean, rtol=0, atol=1e-10)
    assert isinstance(model.score(X, y), float)
    assert model.score(X, y) > 0.5


@every_regressor
def test_noise_is_added_to_the_variance_of_the_latent_function(name: str) -> None:
    X, y = draw()
    model = make(name).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    noisy_mean, noisy_std = model.predict(X, return_std=True, include_noise=True)
    np.testing.assert_array_equal(noisy_mean, mean)
    np.testing.assert_allclose(noisy_std**2 - std**2, model.noise_variance_, rtol=1e-12)
    np.testing.assert_allclose(model.predict(X, include_noise=True), mean, rtol=0, atol=1e-10)


@every_regressor
def test_predict_changes_nothing(name: str) -> None:
    X, y = draw()
    model = make(name).fit(X, y)
    state, attributes = pickle.dumps(model), dict(vars(model))
    first, alone = predictions(model, X), model.predict(X)
    np.testing.assert_array_equal(predictions(model, X), first)
    np.testing.assert_array_equal(model.predict(X), alone)
    assert pickle.dumps(model) == state
    assert list(vars(model)) == list(attributes)
    assert all(vars(model)[key] is value for key, value in attributes.items())


@every_regressor
def test_pickle_and_copy(name: str) -> None:
    X, y = draw()
    model = make(name).fit(X, y)
    before = pickle.loads(pickle.dumps(model))
    expected = predictions(model, X)
    for twin in (before, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(predictions(twin, X), expected)


@pytest.mark.slow
@every_regressor
def test_any_dense_container_and_layout(name: str) -> None:
    X, y = draw()
    X, y = np.round(X, 3).astype(np.float32), np.round(y, 3).astype(np.float32)
    expected = predictions(make(name).fit(X, y), X)
    read_only = X.astype(np.float64)
    read_only.flags.writeable = False
    backwards = np.ascontiguousarray(X[::-1].astype(np.float64))[::-1]
    for inputs in (X.tolist(), np.asfortranarray(X), read_only, backwards, np.repeat(X, 2, axis=1)[:, ::2]):
        model = make(name).fit(inputs, y.tolist())
        np.testing.assert_allclose(predictions(model, inputs), expected, rtol=1e-10)


@every_regressor
def test_integers(name: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.integers(-3, 4, (40, 3)), rng.integers(0, 5, 40)
    expected = predictions(make(name).fit(X.astype(float), y.astype(float)), X.astype(float))
    np.testing.assert_array_equal(predictions(make(name).fit(X, y), X), expected)


@every_regressor
def test_same_seed_same_result_whatever_the_global_state(name: str) -> None:
    X, y = draw()

    def seeded(seed: int) -> np.ndarray:
        np.random.seed(seed)  # noqa: NPY002
        torch.manual_seed(seed)
        return predictions(make(name).set_params(random_state=5).fit(X, y), X)

    np.testing.assert_array_equal(seeded(0), seeded(1))


@every_regressor
def test_global_state_is_left_alone(name: str) -> None:
    X, y = draw()
    numpy_state = np.random.get_state()  # noqa: NPY002
    torch_state, n_threads = torch.random.get_rng_state(), torch.get_num_threads()
    predictions(make(name).set_params(random_state=None).fit(X, y), X)
    assert pickle.dumps(np.random.get_state()) == pickle.dumps(numpy_state)  # noqa: NPY002
    assert torch.equal(torch.random.get_rng_state(), torch_state)
    assert torch.get_num_threads() == n_threads
    assert torch.get_default_dtype() == torch.float32


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "featurized",
        "featurized_maclaurin",
        "featurized_nystroem",
        "featurized_sklearn_nystroem",
        "localized_maclaurin",
        "localized_nystroem",
    ],
)
def test_random_state_seeds_the_map(name: str) -> None:
    X, y = draw()

    def seeded(random_state) -> list[list[float]]:
        return predictions(make(name).set_params(random_state=random_state).fit(X, y), X).tolist()

    assert seeded(0) != seeded(1)
    assert seeded(None) != seeded(None)
    for kind in (np.random.default_rng, np.random.RandomState):
        assert seeded(kind(0)) == seeded(kind(0))
        assert seeded(kind(0)) != seeded(kind(1))
        stream = kind(0)
        assert seeded(stream) != seeded(stream)
