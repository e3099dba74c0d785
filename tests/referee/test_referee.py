"""The referee: whether the package still answers what `answers.json` says. How the file is made: `answers.py`."""

import json
from fnmatch import fnmatchcase
from functools import cache

import pytest

from tests.referee.answers import CONFIGURATIONS, FILE, INFORMATIVE, Answers, answered, difference, tolerance_of


@cache
def expected() -> dict[str, Answers]:
    return json.loads(FILE.read_text())


def test_the_file_has_every_configuration() -> None:
    assert list(expected()) == list(CONFIGURATIONS), "write the file anew: python tests/referee/answers.py"


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_answers_are_those_of_the_file(name: str) -> None:
    found, changes = answered(name), []
    for quantity, numbers in expected()[name].items():
        if quantity not in found:
            changes.append(f"{name}: {quantity} is not answered any more")
            continue
        worst, tolerance = difference(quantity, found[quantity], numbers), tolerance_of(name, quantity)
        if not worst <= tolerance:
            changes.append(f"{name}: {quantity} differs by {worst:.1e} of its size, more than {tolerance:.0e}")
    if changes and fnmatchcase(name, INFORMATIVE):
        pytest.skip("informative only: " + "; ".join(changes))
    assert not changes, "\n" + "\n".join(changes)
