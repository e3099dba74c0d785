"""Where sums of products run, and in which precision: BLAS on the CPU, or torch on a device."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from scipy.linalg import cython_blas

from lmgp.errors import InputError
from lmgp.utils.lazy import Tensor, torch

Precision = Literal["float64", "float32"]

# Rows whose products are summed in single precision, before they are added to sums in double precision.
SINGLE_ROWS = 4096

# Blocks of columns of a product by torch, at most as many, and not narrower than this: about half of it is needed.
N_BLOCKS, NARROWEST = 4, 256

# Bytes of the float64 columns that are multiplied at a time, and made at a time: in a processor's cache. An accelerator
# wants larger products.
CHUNK_BYTES, PART_BYTES, ACCELERATOR_BYTES = 4 * 2**20, 2**20, 512 * 2**20


@dataclass(frozen=True)
class Written:
    """Columns that are written where they are multiplied, while that is in the cache.

    Attributes
    ----------
    write : callable
        Takes a slice of rows, and a tensor for their columns.
    factor : float
        By which all columns are to be multiplied.
    """

    write: Callable[[slice, Tensor], None]
    factor: float = 1.0


Columns = Tensor | Written


@dataclass(frozen=True)
class Arithmetic:
    """How columns are made and multiplied. Sums are float64 always.

    Attributes
    ----------
    device : str or None
        As torch names it; None: the BLAS of scipy, on the CPU, which on some processors is faster than torch's.
    precision : {"float64", "float32"}
        Of the columns, and of products of `SINGLE_ROWS` rows.
    """

    device: str | None = None
    precision: Precision = "float64"

    @property
    def dtype(self) -> "torch.dtype":
        """The precision of columns."""
        return torch.float32 if self.precision == "float32" else torch.float64

    @cached_property
    def place(self) -> "torch.device":
        """Where columns and sums are: the CPU in place of a device that is not here, as for a model of a file."""
        return place_of(self.device or "cpu")

    @property
    def accelerated(self) -> bool:
        """Whether sums run elsewhere than on the CPU."""
        return self.device not in (None, "cpu") and self.place.type != "cpu"

    @property
    def sizes(self) -> tuple[int, int]:
        """The bytes of float64 columns that are multiplied at a time, and made at a time."""
        return (ACCELERATOR_BYTES,) * 2 if self.accelerated else (CHUNK_BYTES, PART_BYTES)

    def __getstate__(self) -> dict[str, Any]:
        return {"device": self.device, "precision": self.precision}


USUAL = Arithmetic()


class Products:
    """Products of columns over rows that come chunk by chunk.

    Parameters
    ----------
    gram : Tensor of shape (D, D)
        Σ ρφφᵀ of earlier rows, of float64 and by rows, of which only the lower triangle is kept.
    cross : Tensor of shape (D, t)
        Σ ρφyᵀ. `finish` leaves the sums in both.
    arithmetic : Arithmetic
    """

    def __init__(self, gram: Tensor, cross: Tensor, arithmetic: Arithmetic) -> None:
        self._arithmetic, self._n_single, self._into = arithmetic, 0, (gram, cross)
        self._gram, self._cross = gram.to(arithmetic.place), cross.to(arithmetic.place)
        single = arithmetic.precision == "float32"
        self._single = torch.zeros(gram.shape, device=arithmetic.place) if single else None
        self._room = torch.empty((0, len(gram)), dtype=arithmetic.dtype, device=arithmetic.place)

    def add(self, columns: Columns, y: Tensor, precision: Tensor | None) -> None:
        """Add the sums over some rows.

        Parameters
        ----------
        columns : Tensor of shape (n, D), or Written
            φ of each row: in the precision, and on the device, of the arithmetic.
        y : Tensor of shape (n, t)
        precision : Tensor of shape (n,) or None
            ρ; None where it is 1 for all rows.
        """
        factor = columns.factor if isinstance(columns, Written) else 1.0
        right = y.T * factor
        root = None
        if precision is not None:
            root = torch.sqrt(precision)
            right *= root
            root = root[:, None].to(self._arithmetic.dtype)
        right = right.to(self._arithmetic.dtype)
        if isinstance(columns, torch.Tensor):
            block = columns if root is None else columns * root
            for start in range(0, len(block), SINGLE_ROWS):
                self._multiply(block[start : start + SINGLE_ROWS])
            self._add_cross(block, right)
            return
        n_rows, n_part = (max(1, size // (8 * len(self._gram))) for size in self._arithmetic.sizes)
        if self._single is not None:
            n_rows = min(n_rows, SINGLE_ROWS)
        for start in range(0, len(y), n_rows):
            block = self._rows(min(n_rows, len(y) - start))
            for first in range(0, len(block), n_part):
                some = block[first : first + n_part]
                part = slice(start + first, start + first + len(some))
                columns.write(part, some)
                if root is not None:
                    some.mul_(root[part])
                self._add_cross(some, right[:, part])
            self._multiply(block, factor**2)

    def _rows(self, n: int) -> Tensor:
        """Return room for the columns of n rows: the same one each time."""
        if len(self._room) < n:
            self._room = self._room.new_empty((n, self._room.shape[1]))
        return self._room[:n]

    def _add_cross(self, columns: Tensor, right: Tensor) -> None:
        # Two products with a vector: faster than one with a matrix of two columns.
        for column, target in zip(self._cross.unbind(1), right.unbind(0), strict=True):
            column += torch.mv(columns.T, target)

    def _multiply(self, columns: Tensor, factor: float = 1.0) -> None:
        """Add Σ φφᵀ times a factor to the lower triangle."""
        into = self._gram if self._single is None else self._single
        if self._arithmetic.device is None:
            _add_products(into, columns, factor)
        else:
            width = max(NARROWEST, -(-len(into) // N_BLOCKS))
            for start in range(0, len(into), width):
                stop = start + width
                into[start:stop, :stop].addmm_(columns[:, start:stop].T, columns[:, :stop], alpha=factor)
        self._n_single += len(columns)
        if self._n_single >= SINGLE_ROWS:
            self._flush()

    def _flush(self) -> None:
        """Add what is summed in single precision to the sums."""
        if self._single is not None:
            if self._arithmetic.accelerated:
                self._gram += self._single
            else:  # which torch takes three times as long for
                np.add(self._gram.numpy(), self._single.numpy(), out=self._gram.numpy())
            self._single.zero_()
        self._n_single = 0

    def finish(self) -> None:
        """Bring the sums to where they were at first."""
        self._flush()
        for kept, sums in zip(self._into, (self._gram, self._cross), strict=True):
            if sums is not kept:
                kept.copy_(sums)


def _blas_of_threads(name: str) -> Callable[..., None]:
    """Return a function of scipy's BLAS as a C function, which lets other threads run: scipy's wrapper does not."""
    capsule = cython_blas.__pyx_capi__[name]
    signature = ctypes.pythonapi.PyCapsule_GetName
    signature.restype, signature.argtypes = ctypes.c_char_p, [ctypes.py_object]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 10)(pointer(capsule, signature(capsule)))


_SYRK = {8: (_blas_of_threads("dsyrk"), ctypes.c_double), 4: (_blas_of_threads("ssyrk"), ctypes.c_float)}


def _add_products(into: Tensor, columns: Tensor, factor: float) -> None:
    """Add ΦᵀΦ times a factor to the lower triangle of a matrix, for columns of shape (n, D), by BLAS."""
    syrk, number = _SYRK[into.itemsize]
    by_rows = columns.stride(1) == 1
    if not by_rows and columns.stride(0) != 1:
        columns, by_rows = columns.contiguous(), True
    n, n_columns = columns.shape
    step = max(columns.stride(0), n_columns) if by_rows else max(columns.stride(1), n)
    order, n_rows, length, width = (ctypes.byref(ctypes.c_int(size)) for size in (n_columns, n, step, len(into)))
    alpha, beta = (ctypes.byref(number(value)) for value in (factor, 1.0))
    # The lower triangle by rows is the upper one by columns, as BLAS has it.
    sides = b"U", b"N" if by_rows else b"T"
    syrk(*sides, order, n_rows, alpha, columns.data_ptr(), length, beta, into.data_ptr(), width)


def check_device(name: str) -> None:
    """Refuse a device that torch does not have here, or that has no float64.

    The factor of one number makes torch load its linear algebra for the device, which threads cannot do at once.

    Raises
    ------
    InputError
    """
    try:
        torch.linalg.cholesky(torch.ones((1, 1), device=name, dtype=torch.float64)).cpu()
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"device={name!r} cannot be used: {reason}. Use 'cpu'.") from error


def place_of(name: str) -> "torch.device":
    """Return a device, or the CPU where torch does not have it here."""
    try:
        check_device(name)
    except InputError:
        return torch.device("cpu")
    return torch.device(name)
