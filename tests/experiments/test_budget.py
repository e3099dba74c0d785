"""Memory of the cells of a comparison, and what an allocator's error is."""

import numpy as np
import pytest
import torch

from lmgp.errors import InputError, MemoryLimitError
from lmgp.experiments.budget import check_features, is_out_of_memory, most_columns


@pytest.mark.parametrize(("method", "fits"), [("rff", False), ("nystroem", True), ("auto", True), ("spectral", True)])
def test_two_matrices_of_all_columns_must_fit(method: str, fits: bool) -> None:
    """100,000 columns take 149 GiB; landmarks are at most the training rows; "auto" chooses, and modes have no size."""
    if fits:
        check_features("made", [method], [32, 100_000], 50, 4.0)
        return
    with pytest.raises(MemoryLimitError, match=r"^made: method rff with 100,000 .* takes 149\.0 GiB .* 16,384 fit\.$"):
        check_features("made", ["nystroem", method], [32, 100_000], 50, 4.0)


def test_the_largest_size_said_is_the_largest_that_passes() -> None:
    most = most_columns(0.01)
    assert 16 * most**2 <= 0.01 * 2**30 < 16 * (most + 1) ** 2
    check_features("made", ["rff"], [most], 10, 0.01)
    with pytest.raises(MemoryLimitError, match=f"{most:,} fit"):
        check_features("made", ["rff"], [most + 1], 10, 0.01)


def test_the_error_of_an_allocator_is_told_from_others() -> None:
    with pytest.raises((RuntimeError, MemoryError)) as of_torch:
        torch.empty(2**59, dtype=torch.float64)
    with pytest.raises(MemoryError) as of_numpy:
        np.empty(2**59)
    assert is_out_of_memory(of_torch.value)
    assert is_out_of_memory(of_numpy.value)
    assert is_out_of_memory(MemoryLimitError("too large"))
    for other in (RuntimeError("shapes differ"), InputError("x"), OSError("out of memory")):
        assert not is_out_of_memory(other)
