"""Functions f = Σ uᵢ φ(xᵢ) that take stochastic gradient steps, held in six ways.

For n training rows of d columns, D features and T steps they cost, besides the rows themselves:

======================  ============================================  ============  ======
strategy                what a step reads                             time          memory
======================  ============================================  ============  ======
"features"              (1) features of an exact map, on the fly      T d D         D
"features_cached"       (2) features of an exact map, made once       n d D + T D   n D
"kernel"                (3) a row of the kernel, on the fly           T n d         n
"kernel_cached"         (4) a row of the Gram matrix, made once       n² d + T n    n²
"approximate"           (5) features that approximate, on the fly     T d D         d D
"approximate_cached"    (6) features that approximate, made once      n d D + T D   n D
======================  ============================================  ============  ======

With features, f is held as its weights w, f(x) = wᵀφ(x); with rows of the kernel, as the duals u. Strategy "kernel"
also keeps a copy of the training rows, which a `Kernel` prepares once.

References
----------
C. De Sa, *Kernels and Feature Extraction*, CS4787 lecture 18, Cornell University.
"""

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse, vstack

from lmgp.data import Floats, as_tensor
from lmgp.errors import InputError
from lmgp.features.adapter import checked_transformer, fill_kernels, seeded_clone
from lmgp.features.base import FeatureMap, KernelMap
from lmgp.features.composition import exact_features
from lmgp.features.fourier import RandomFourierFeatures
from lmgp.kernels.base import Kernel
from lmgp.utils.memory import check_memory, chunks

# The columns of a row whose entries are not zero, and these entries.
Entries = tuple[slice | NDArray[np.integer[Any]], Floats]
# Makes rows, dense or CSR, of the inputs in a slice.
RowMaker = Callable[[slice], Any]

Strategy = Literal["features", "features_cached", "kernel", "kernel_cached", "approximate", "approximate_cached"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)

# A common factor of all weights that has shrunk to less is multiplied in.
SMALLEST_SCALE = 1e-100
# The number of sparse rows in a part; their memory is known only when they have been made.
SPARSE_ROWS = 1000


def make_source(strategy: str, kernel: Any, features: Any, X: Any, rng: np.random.Generator) -> Any:
    """Return what a strategy makes rows with: a feature map, fitted to X, or the kernel.

    Parameters
    ----------
    strategy : str
        One of `STRATEGIES`.
    kernel : callable
    features : FeatureMap or scikit-learn transformer, optional
        For the strategies "approximate"; random Fourier features if not given. A map with ``kernel=None``, at any
        depth, gets `kernel`; one with a kernel of its own keeps it (`lmgp.features.adapter`).
    X : ndarray or CSR matrix of shape (n, d)
    rng : numpy.random.Generator
        Seeds each ``random_state`` of the map that is None.

    Raises
    ------
    InputError
        If the kernel has no finite feature map, there is no default map for it, or all features of all rows are zero.
    """
    if strategy.startswith("kernel"):
        return kernel
    if strategy.startswith("features"):
        return exact_features(kernel).fit(X)
    if features is None and not (isinstance(kernel, Kernel) and RandomFourierFeatures.serves(kernel)):
        raise InputError(
            f"strategy={strategy!r} takes random Fourier features where it is given no map, and these serve "
            f"stationary kernels, their sums and products; got {kernel!r}. Give features=, a map for this kernel, such "
            "as NystroemFeatures()."
        )
    features = checked_transformer(RandomFourierFeatures() if features is None else features)
    if isinstance(features, KernelMap) and features.kernel is None and not isinstance(kernel, Kernel):
        raise InputError(
            f"{features!r} has no kernel of its own and would get {kernel!r}, which is no kernel of this package. Give "
            "the map a kernel, or leave the model's out."
        )
    features = fill_kernels(seeded_clone(features, rng), kernel).fit(X)
    make = feature_rows(features, X)
    parts = chunks(X.shape[0], make(slice(0, 1)).shape[1])
    if all(abs(make(part)).max() == 0.0 for part in parts):
        raise InputError(
            f"All features that {type(features).__name__} makes of the rows are zero. If it approximates its kernel "
            "near the origin, as Taylor and Maclaurin maps do, subtract the mean of X."
        )
    return features


class KernelFunctions:
    """K functions f on the training inputs, zero at first, for one strategy.

    They have weights w, f(x) = wᵀφ(x), where the strategy reads features, and duals u, f(x) = Σ uⱼ k(xⱼ, x), where it
    reads rows of the kernel. These are ``stored`` times ``scale``: to shrink all of them changes one number.

    Parameters
    ----------
    strategy : str
        One of `STRATEGIES`.
    source : transformer or callable
        From `make_source`.
    X : ndarray or CSR matrix of shape (n, d)
    n_outputs : int
        K.
    max_memory_gib : float
        For the rows that a cached strategy makes now, and for the weights, in GiB.

    Attributes
    ----------
    squared_norm : ndarray of shape (K,)
        ‖f‖², updated at each step.

    Raises
    ------
    MemoryLimitError
        If all rows or the weights take more. They have not been made then; of sparse rows, at most `SPARSE_ROWS` above
        the limit.
    """

    def __init__(self, strategy: str, source: Any, X: Any, n_outputs: int, max_memory_gib: float) -> None:
        self._dual = strategy.startswith("kernel")
        make = kernel_rows(source, X, X) if self._dual else feature_rows(source, X)
        n, width = X.shape[0], make(slice(0, 1)).shape[1]
        self._rows = _all_rows(strategy, make, n, width, max_memory_gib) if strategy.endswith("_cached") else None
        self._make = make
        # Twice: as they are held, and once more when the common factor is multiplied in.
        check_memory(
            16.0 * n_outputs * width,
            f"The {width:,} weights of {n_outputs} function(s)",
            "Use fewer features (a lower degree, or hashed ones, such as PolynomialCountSketch()), or a higher "
            "max_memory_gib.",
            max_memory_gib,
        )
        self.stored = np.zeros((n_outputs, width))
        self.scale = np.ones(n_outputs)
        self.squared_norm = np.zeros(n_outputs)

    @property
    def weights(self) -> Floats:
        """The weights w or duals u, shape (K, width)."""
        return self.stored * self.scale[:, None]

    def read(self, i: int) -> Entries:
        """Return the entries of the row of training input i."""
        return _entries(self._make(slice(i, i + 1)), 0) if self._rows is None else _entries(self._rows, i)

    def outputs(self, i: int) -> Floats:
        """Return f(xᵢ), shape (K,), and keep the entries of row i for `step`."""
        self._entries = where, values = self.read(i)
        self._outputs = self.scale * (self.stored[:, where] @ values)
        return self._outputs

    def step(self, i: int, shrink: float, change: Floats, radius: Floats | None = None) -> None:
        """Set f to shrink · f + change · φ(xᵢ), then project it to ‖f‖ ≤ radius.

        Parameters
        ----------
        i : int
            That of the last call of `outputs`.
        shrink : float
        change : ndarray of shape (K,)
        radius : ndarray of shape (K,), optional
        """
        where, values = self._entries
        square = float(values[i] if self._dual else values @ values)
        self.squared_norm = shrink * (shrink * self.squared_norm + 2.0 * change * self._outputs) + change**2 * square
        self.scale = self.scale * shrink
        if np.abs(self.scale).min() < SMALLEST_SCALE:
            self.stored, self.scale = self.weights, np.ones_like(self.scale)
        if change.any() and self._dual:
            self.stored[:, i] += change / self.scale
        elif change.any():
            self.stored[:, where] += (change / self.scale)[:, None] * values
        if radius is not None:
            # Rounding alone can make the norm of a vanishing f negative; 0/0 counts as no need to shrink.
            factor = np.fmin(1.0, radius / np.sqrt(self.squared_norm.clip(min=0.0)))
            self.scale = self.scale * factor
            self.squared_norm = self.squared_norm * factor**2

    def is_finite(self) -> bool:
        """Say whether the entries that were read last are finite."""
        return bool(np.isfinite(self._entries[1]).all())


def outputs(source: Any, weights: Floats, X: Any, support: Floats | None = None) -> Floats:
    """Evaluate K functions at checked inputs, part by part.

    Parameters
    ----------
    source : transformer or callable
        The fitted map, or the kernel.
    weights : ndarray of shape (K, D) or (K, m)
        w or u.
    X : ndarray or CSR matrix of shape (n, d)
    support : ndarray of shape (m, d), optional
        With a kernel, the rows to which the duals belong.

    Returns
    -------
    ndarray of shape (n, K)

    Raises
    ------
    InputError
        If a value is not finite.
    """
    make = feature_rows(source, X) if support is None else kernel_rows(source, X, support)
    is_sparse = issparse(make(slice(0, 1)))
    parts = chunks(X.shape[0], weights.shape[1], 8 * SPARSE_ROWS * weights.shape[1] if is_sparse else None)
    with np.errstate(all="ignore"):
        values = np.concatenate([make(part) @ weights.T for part in parts])
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        raise InputError(
            f"The function is not finite at row {int(np.argmin(finite))}: its features or its kernel overflow there. "
            "Check that its columns have the scale of those of the training rows."
        )
    return values


def feature_rows(features: Any, X: Any) -> RowMaker:
    """Make rows of features, from checked inputs.

    Parameters
    ----------
    features : scikit-learn transformer
        Fitted. Maps of this package take dense inputs without a further check.
    X : ndarray or CSR matrix of shape (n, d)

    Returns
    -------
    callable
        Gives an array or CSR matrix of shape (m, D) for a slice of m inputs.
    """
    if isinstance(features, FeatureMap) and not issparse(X):
        inputs = as_tensor(X)
        return lambda part: features.evaluate(inputs[part]).numpy()
    return lambda part: _rows(features.transform(X[part]), features, X[part].shape[0])


def kernel_rows(kernel: Callable[..., Any], X: Floats, Z: Floats) -> RowMaker:
    """Make rows k(x, Z) of the kernel matrix, from checked inputs.

    Parameters
    ----------
    kernel : callable
        (X, Z) → matrix of shape (n, m). A `Kernel` prepares Z only once.
    X : ndarray of shape (n, d)
    Z : ndarray of shape (m, d)

    Returns
    -------
    callable
    """
    section: Any = kernel.sections(Z) if isinstance(kernel, Kernel) else lambda rows: kernel(rows, Z)

    def make(part: slice) -> Any:
        values = section(X[part])
        return _rows(values.toarray() if issparse(values) else values, kernel, len(X[part]), len(Z))

    return make


def _all_rows(strategy: str, make: RowMaker, n: int, width: int, max_memory_gib: float) -> Any:
    def check(needed: float, qualifier: str = "") -> None:
        check_memory(
            needed,
            f"{qualifier}{n:,} rows of {width:,} columns that strategy={strategy!r} stores",
            f"Use strategy={strategy.removesuffix('_cached')!r}, which makes them one by one, or a higher "
            "max_memory_gib.",
            max_memory_gib,
        )

    if issparse(make(slice(0, 1))):
        parts, held = [], 0
        for start in range(0, n, SPARSE_ROWS):
            parts.append(make(slice(start, start + SPARSE_ROWS)))
            held += parts[-1].data.nbytes + parts[-1].indices.nbytes
            check(held, f"{min(start + SPARSE_ROWS, n):,} of ")
        return vstack(parts, format="csr")
    check(8.0 * n * width)
    rows = np.empty((n, width))
    # Part by part: what a map or a kernel needs besides its result stays small.
    for part in chunks(n, width):
        rows[part] = make(part)
    return rows


def _entries(rows: Any, i: int) -> Entries:
    if not issparse(rows):
        return slice(None), rows[i]
    part = slice(rows.indptr[i], rows.indptr[i + 1])
    return rows.indices[part], rows.data[part]


def _rows(values: Any, source: object, n: int, width: int | None = None) -> Any:
    """Check the shape of what a transformer or a kernel made."""
    if issparse(values):
        values = values.tocsr()
        values.sum_duplicates()
    else:
        values = np.asarray(values)
    if values.ndim != 2 or values.shape != (n, width or values.shape[1]) or values.dtype.kind not in "fiub":
        raise InputError(
            f"{source!r} made an array of shape {values.shape} of {values.dtype} for {n} rows; expected numbers, shape "
            f"({n}, {width or 'n_features'})."
        )
    return values.astype(np.float64, copy=False)
