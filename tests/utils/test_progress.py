"""What is shown while a model is fitted."""

import logging
import re

import pytest

import lmgp
from lmgp import ExactGPRegressor, GaussianKernel, GPRegressor
from tests.conftest import draw

X, Y, _ = draw(150)


def lines(text: str) -> list[str]:
    found = [re.fullmatch(r"\[lmgp +\d+\.\d s\] (.+)", line) for line in text.splitlines()]
    assert all(found)
    return [one.group(1) for one in found if one]


def test_each_kernel_that_is_tried_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = {"kernel": ["matern32", "gaussian"], "ard": False, "random_state": 11}
    learned = lmgp.learn(X, Y, **arguments, verbose=1)
    printed = capsys.readouterr()
    first, *tried = lines(printed.err)
    assert printed.out == ""
    assert first == "learning the kernel from 150 rows of 2 columns"
    expected = [
        f"{one.kernel} with one lengthscale: {one.likelihood} likelihood of {one.n_rows} rows, "
        f"{one.log_likelihood:.4f} nats a row, {one.seconds:.2g} s"
        for one in learned.learning
    ]
    assert sorted(tried) == sorted(expected)
    lmgp.learn(X, Y, **arguments, verbose=1)
    assert lines(capsys.readouterr().err) == ["the kernel was learned from these rows before"]


def test_each_model_that_is_tried_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    given = {"kernel": GaussianKernel(1.0), "noise_variance": 0.05, "noise": "normal", "random_state": 0}
    X, Y, _ = draw(600)
    model = GPRegressor(methods=["nearest_rows", "local_taylor"], **given).fit(X, Y, verbose=True)
    found = lines(capsys.readouterr().err)
    assert found[0] == "choosing a model for 600 rows and 600 predictions"
    assert found[-1] == f"fitting {type(model.model_).__name__} to 600 rows"
    told = [re.sub(r"(, threshold \S+)?: .*", "", line) for line in found[1:-1]]
    assert set(told) == {f"{one.method} of size {one.n_features:,}" for one in model.selection_}


def test_nothing_is_shown_unasked_and_nothing_stays(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    package = logging.getLogger("lmgp")
    before = package.level, package.propagate, list(package.handlers)
    ExactGPRegressor(random_state=3).fit(X, Y)
    with pytest.raises(ValueError, match="NaN"):
        ExactGPRegressor().fit(X * float("nan"), Y, verbose=1)
    assert capsys.readouterr().err == ""
    assert (package.level, package.propagate, list(package.handlers)) == before
    with caplog.at_level("INFO", logger="lmgp"):  # as logging.basicConfig(level="INFO") does for all models
        ExactGPRegressor(random_state=4).fit(X + 1.0, Y)
    assert [one.name for one in caplog.records] == ["lmgp.stages", "lmgp.tried"]
    assert "gaussian with one lengthscale: exact likelihood of 150 rows" in caplog.text
