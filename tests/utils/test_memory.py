"""Chunks, what is refused because it does not fit, and what the C library keeps."""

import platform
import subprocess
import sys

import pytest

import lmgp.utils.memory
from lmgp.errors import MemoryLimitError
from lmgp.utils.memory import check_memory, chunks


@pytest.mark.parametrize(("n", "n_columns"), [(1, 1), (10, 3), (1000, 7), (5, 10**6), (0, 3)])
@pytest.mark.parametrize("n_bytes", [1, 240, 10**6])
def test_slices_cover_all_rows_once_within_their_memory(
    n: int, n_columns: int, n_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lmgp.utils.memory, "CHUNK_BYTES", n_bytes)
    parts = [range(n)[part] for part in chunks(n, n_columns)]
    assert [i for part in parts for i in part] == list(range(n))
    # One row at least, however wide.
    assert all(len(part) == 1 or 8 * n_columns * len(part) <= n_bytes for part in parts)
    assert all(8 * n_columns * (len(part) + 1) > n_bytes for part in parts[:-1])


def test_what_fits_passes() -> None:
    check_memory(2**30, "Things", "Use less.", 1.0)
    check_memory(8.0, "Things", "Use less.")


def test_what_does_not_fit_says_what_would() -> None:
    with pytest.raises(
        MemoryLimitError, match=r"Things take 3\.0 GiB, above the 2\.0 GiB of max_memory_gib=2\. At most 4\."
    ):
        check_memory(3 * 2**30, "Things", lambda limit: f"At most {limit / 2**29:.0f}.", 2.0)
    with pytest.raises(MemoryLimitError, match=r"of this machine\. Use less\."):
        check_memory(1e18, "Things", "Use less.")


# Ten times as much memory as the C library keeps by itself is taken and returned; the second time, how many pages of it
# come from the system?
PAGES = """
import resource
import numpy as np
import lmgp.utils.memory

def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(10):
        for array in [np.empty(2**20, dtype=np.uint8) for _ in range(10)]:
            array.fill(1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

pages()
print(pages())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the C library of Linux")
def test_the_memory_of_chunks_is_kept() -> None:
    found = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True)
    assert int(found.stdout) < 256  # of 25,600
