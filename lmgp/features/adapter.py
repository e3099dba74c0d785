"""Any scikit-learn transformer as a feature map, and which kernel a map inside a model approximates.

The rule, for every regressor of this package:

- A map that is given as `features` itself, such as ``RandomFourierFeatures(512)``, gets the model's kernel. A kernel
  that it has of its own is replaced: the regressor's kernel rules.
- Inside anything composed — sums, products, multiples and modulations of maps, `CraftFeatures`, scikit-learn's
  pipelines and unions, at any depth — a map with ``kernel=None`` gets the model's kernel at unit variance, and a map
  with a kernel of its own keeps it, because that is the only way to say that parts differ. The columns of the whole are
  multiplied by σ, the root of the model's prior variance. The model warns where the lengthscale of a kernel that is
  kept is not the model's: it is not learned with the rest.
- A map behind a scaler in a pipeline applies the model's lengthscale to the scaled rows.

Kernel models by stochastic gradient descent (`lmgp.sgd`) multiply with no prior variance: there a map without a kernel
gets the model's whole kernel, and a map with a kernel keeps it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import FunctionTransformer

from lmgp.data import Floats, as_tensor
from lmgp.errors import InputError, KernelWarning, warn
from lmgp.features.base import FeatureMap, KernelMap, Work, names_of
from lmgp.kernels.base import Kernel
from lmgp.kernels.stationary import GaussianKernel
from lmgp.utils.fitted import digest
from lmgp.utils.lazy import Tensor

# Columns that are counted for a transformer that does not say how many it makes.
UNSAID_COLUMNS = 512

# What may leave out a part of the variance.
PARTIAL = (FeatureMap, Pipeline, FeatureUnion, ColumnTransformer, Nystroem)


class TransformerFeatures(KernelMap):
    """A scikit-learn transformer as a feature map: its columns times σ.

    The transformer sees the rows as they come, not divided by the kernel's lengthscale.

    Parameters
    ----------
    transformer : scikit-learn transformer
        Must give one dense or sparse row of finite numbers for each input row.
    kernel : Kernel, optional
        Only its prior variance σ² is used, which must be the same at every row.

    Attributes
    ----------
    transformer_ : scikit-learn transformer
        The fitted clone.
    """

    needs = "prior_variance"
    transformer_: Any

    def __init__(self, transformer: Any, *, kernel: Kernel | None = None) -> None:
        self.transformer = transformer
        self.kernel = kernel

    def work(self, n_inputs: int) -> Work:
        """Return what this map will cost: by the transformer's number of columns, or by 512 where it does not say."""
        inner = self.transformer[-1] if isinstance(self.transformer, Pipeline) else self.transformer
        if isinstance(inner, FeatureMap):
            return Work(inner.work(n_inputs).columns)
        if isinstance(inner, FeatureUnion):
            return Work(sum(work_of(part, n_inputs).columns for _, part in inner.transformer_list))
        size = getattr(inner, "n_features", None) or getattr(inner, "n_components", None)
        return Work(int(size) if isinstance(size, int | np.integer) else UNSAID_COLUMNS)

    def draw(self, X: Floats, rng: np.random.Generator) -> None:  # noqa: D102
        self.transformer_ = fitted(clone(self.transformer), X)

    def column_names(self, names: Sequence[str]) -> list[str]:  # noqa: D102
        return names_of(self.transformer_, names, self.n_features_out_)

    def centre_of(self, X: Floats, weights: Floats | None) -> Floats:
        """Return zeros: the transformer sees the rows as they come."""
        return np.zeros(X.shape[1])

    def evaluate(self, X: Tensor) -> Tensor:  # noqa: D102
        return mapped(self.transformer_, X) * self.kernel_.prior_variance() ** 0.5

    def missing_variance(self, X: Tensor, features: Tensor) -> Tensor | None:
        """Return σ² times what the transformer leaves out; None where that is zero for every row."""
        variance = self.kernel_.prior_variance()
        missing = left_out(self.transformer_, X, features / variance**0.5) * variance
        return missing if missing.any() else None


def work_of(features: Any, n_inputs: int) -> Work:
    """Return what any transformer will cost as the map of a model; it need not be fitted."""
    return (features if isinstance(features, KernelMap) else TransformerFeatures(features)).work(n_inputs)


def fitted(transformer: Any, X: Floats) -> Any:
    """Fit any transformer to checked rows, and return it; one of this package's does not check them again."""
    return transformer.fit_checked(X) if isinstance(transformer, FeatureMap) else transformer.fit(X)


def mapped(transformer: Any, X: Tensor) -> Tensor:
    """Map checked rows by any fitted transformer; one of this package's does not check them again.

    Raises
    ------
    InputError
        If it does not make one row of finite numbers for each row.
    """
    if isinstance(transformer, FeatureMap):
        columns = transformer.evaluate(X).numpy()
    else:
        columns = transformer.transform(_as_fitted(transformer, X.numpy()))
        columns = np.asarray(columns.toarray() if issparse(columns) else columns, dtype=np.float64)
    if columns.ndim != 2 or len(columns) != len(X) or columns.shape[1] == 0:
        raise InputError(
            f"{transformer!r} cannot serve as a feature map: it made an array of shape {columns.shape} of "
            f"{len(X)} rows; expected shape ({len(X)}, n_features)."
        )
    if not np.isfinite(columns).all():
        raise InputError(f"{transformer!r} cannot serve as a feature map: not all numbers that it made are finite.")
    return as_tensor(columns)


def left_out(transformer: Any, X: Tensor, columns: Tensor) -> Tensor:
    """Return the prior variance that any fitted transformer leaves out at each row, from the columns it made of X."""
    none, missing = columns.new_zeros(len(columns)), None
    match transformer:
        case FeatureMap():
            missing = transformer.missing_variance(X, columns)
        case Pipeline():
            steps = [step for step in transformer.steps if step[1] not in (None, "passthrough")]
            if steps and isinstance(steps[-1][1], PARTIAL):
                before = Pipeline([*steps[:-1], ("rows", FunctionTransformer())])
                missing = left_out(steps[-1][1], mapped(before, X), columns)
        case FeatureUnion() | ColumnTransformer():
            missing, weights = none, transformer.transformer_weights or {}
            for name, part, rows, of_part in _side_by_side(transformer, X, columns):
                weight = 1.0 if weights.get(name) is None else weights[name]
                missing = missing + weight**2 * left_out(part, rows, of_part / (weight or 1.0))
        case Nystroem(kernel="rbf" | "laplacian"):
            # Rounding alone can make the difference negative, at the landmarks.
            missing = (1.0 - columns.square().sum(dim=1)).clamp(min=0.0)
    return none if missing is None else missing


def _as_fitted(transformer: Any, X: Floats) -> Any:
    """Return the rows as a table if the transformer was fitted to one."""
    names = getattr(transformer, "feature_names_in_", None)
    if names is None:
        return X
    import pandas as pd

    return pd.DataFrame(X, columns=names)


def _side_by_side(union: Any, X: Tensor, columns: Tensor) -> Iterator[tuple[str, Any, Tensor, Tensor]]:
    """Yield the names of the parts of a fitted union, the parts, the rows that each sees, and the columns it made."""
    if isinstance(union, ColumnTransformer):
        for name, part, _ in union.transformers_:
            seen = union._transformer_to_input_indices[name]
            if isinstance(part, PARTIAL) and len(seen):
                yield name, part, X[:, seen], columns[:, union.output_indices_[name]]
        return
    parts = [(name, part) for name, part in union.transformer_list if part != "drop"]
    blocks = columns.split([mapped(part, X[:1]).shape[1] for _, part in parts], dim=1)
    for (name, part), block in zip(parts, blocks, strict=True):
        yield name, part, X, block


def make_feature_map(features: Any, kernel: Any, rng: np.random.Generator) -> KernelMap:
    """Clone what a regressor was given as `features`, with the regressor's kernel and seeds where it has none.

    Parameters
    ----------
    features : FeatureMap or scikit-learn transformer
    kernel : Kernel
    rng : numpy.random.Generator
        Seeds every ``random_state`` parameter that is None.

    Returns
    -------
    KernelMap
        Not fitted.

    Raises
    ------
    InputError
        If `features` has no `fit` and `transform`, or is no map of a kernel and the model's prior variance is not the
        same at every row.

    Warns
    -----
    KernelWarning
        If a part of a composed map keeps a kernel whose lengthscale is not the model's.
    """
    features = seeded_clone(checked_transformer(features), rng)
    if isinstance(features, KernelMap):
        return features.set_params(kernel=kernel)
    TransformerFeatures.require(kernel)
    kept = [part for _, part in _parts(features) if part.kernel is not None and _differs(part.kernel, kernel)]
    if kept:
        warn(
            f"A part of the composed map keeps its own kernel, {kept[0].kernel!r}, whose lengthscale is not that of "
            f"the model's {kernel!r}. Leave out the part's kernel to give it the model's, or give the model this "
            "kernel.",
            KernelWarning,
        )
    return TransformerFeatures(fill_kernels(features, _at_unit_variance(kernel)), kernel=kernel)


def fill_kernels(features: Any, kernel: Any) -> Any:
    """Give a kernel, in place, to every map of a kernel in `features`, itself included, that has none.

    Parameters
    ----------
    features : scikit-learn transformer
    kernel : Kernel
    """
    for name, part in _parts(features):
        if part.kernel is None:
            features.set_params(**{f"{name}__kernel" if name else "kernel": kernel})
    return features


def checked_transformer(features: Any) -> Any:
    """Return `features`, or raise an InputError if it has no `fit` and `transform`."""
    if isinstance(features, type) or not (hasattr(features, "fit") and hasattr(features, "transform")):
        raise InputError(
            f"features must be a feature map such as TaylorFeatures(n_features=120), or another scikit-learn "
            f"transformer; got {features!r}."
        )
    return features


def seeded_clone(features: Any, rng: np.random.Generator) -> Any:
    """Clone a transformer, and seed every ``random_state`` parameter, nested ones included, that is None."""
    features = clone(features)
    parameters = features.get_params(deep=True)
    for name in sorted(parameters):
        if name.split("__")[-1] == "random_state" and parameters[name] is None:
            features.set_params(**{name: int(rng.integers(2**31))})
    return features


def _parts(features: Any) -> Iterator[tuple[str, KernelMap]]:
    """Yield the maps of a kernel in a transformer, with the names of the parameters that hold them."""
    if isinstance(features, KernelMap):
        yield "", features
    for name, value in sorted(features.get_params(deep=True).items()):
        if isinstance(value, KernelMap):
            yield name, value


def _at_unit_variance(kernel: Any) -> Any:
    """Return the kernel divided by its prior variance: its correlations."""
    if type(kernel) is GaussianKernel:
        return GaussianKernel(kernel.lengthscale)
    return 1.0 / kernel.prior_variance() * kernel


def _differs(of_map: Any, kernel: Any) -> bool:
    """Say whether a kernel has other lengthscales, or is of another kind, than the model's."""
    return digest(_form(of_map)) != digest(_form(kernel))


def _form(kernel: Kernel) -> Kernel:
    """Return the kernel without bounds, with unit variances, and with one number where all columns have the same."""
    values = {
        p.name: 1.0 if p.kind == "variance" else p.value if len(np.unique(p.value)) > 1 else p.value.max()
        for p in kernel.parameters
    }
    copy: Kernel = clone(kernel)
    return copy.set_params(**values, **{f"{name}_bounds": None for name in values})
