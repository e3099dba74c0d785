"""Compiled functions: when they are compiled, and what they refuse."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from lmgp.utils import compiled
from lmgp.utils.compiled import kept, real, vector


def doubled(values: Any, into: Any) -> None:
    for i in range(len(values)):
        into[i] = 2.0 * values[i]


@pytest.mark.parametrize("writable", [True, False])
def test_a_function_is_compiled_once_at_its_first_call(writable: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    calls, njit = list[dict[str, Any]](), compiled.njit

    def spy(signature: Any, **options: Any) -> Any:
        calls.append(options)
        if options.get("cache") and not writable:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(signature, **{**options, "cache": False})

    monkeypatch.setattr(compiled, "njit", spy)
    function = kept(vector, real[::1])(doubled)
    assert not calls
    values, into = np.arange(5.0), np.empty((4, 5))
    values.setflags(write=False)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda row: function(values, row), into))
    np.testing.assert_array_equal(into, np.tile(2.0 * values, (4, 1)))
    assert [bool(options.get("cache")) for options in calls] == ([True] if writable else [True, False])


def test_other_types_are_refused_and_not_compiled_for() -> None:
    function = kept(vector, real[::1])(doubled)
    with pytest.raises(TypeError, match="No matching definition"):
        function(np.arange(5), np.empty(5))
