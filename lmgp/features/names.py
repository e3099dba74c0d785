"""The names of the columns that a feature map makes."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from lmgp.errors import InputError


class NamedOutput:
    """Mixin of feature maps: `get_feature_names_out`, by the hook `column_names`.

    With it scikit-learn's `set_output` and `ColumnTransformer` name the columns.
    """

    n_features_in_: int
    n_features_out_: int

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return the names of the columns that are made.

        Parameters
        ----------
        input_features : array-like of str of shape (d,), optional
            The names of the columns of X; those of `fit` if not given, or x0, x1, …

        Returns
        -------
        ndarray of str of shape (n_features_out_,)

        Raises
        ------
        InputError
            If the number of names is not d, or they are not those of `fit`.
        """
        check_is_fitted(self)
        known = getattr(self, "feature_names_in_", None)
        given = known if input_features is None else np.asarray(input_features, dtype=object)
        if given is None:
            given = [f"x{j}" for j in range(self.n_features_in_)]
        if known is not None and list(given) != list(known):
            raise InputError(
                f"input_features is not equal to feature_names_in_, {list(known)}; got {list(given)}. Leave it out."
            )
        if len(given) != self.n_features_in_:
            raise InputError(
                f"input_features should have length equal to the number of columns of X, {self.n_features_in_}; got "
                f"{list(given)}."
            )
        return np.array(list(self.column_names([str(name) for name in given])), dtype=object)

    def column_names(self, names: Sequence[str]) -> Iterable[str]:
        """Name the columns of the fitted map; subclasses say more than their own name and a number.

        Parameters
        ----------
        names : sequence of str
            Of the columns of X.

        Returns
        -------
        iterable of str
            ``n_features_out_`` different ones.
        """
        return numbered(type(self).__name__.lower(), self.n_features_out_)


def numbered(name: str, count: int) -> list[str]:
    """Return names with a number at the end, as scikit-learn's own maps have: name0, name1, …"""
    return [f"{name}{i}" for i in range(count)]


def indexed(name: str, count: int) -> list[str]:
    """Return names with an index: name[0], name[1], …"""
    return [f"{name}[{i}]" for i in range(count)]


def by_degree(name: str, counts: Iterable[int]) -> list[str]:
    """Return names of columns in order of their degree, name[degree,number], for the number of columns of each."""
    return [f"{name}[{degree},{i}]" for degree, count in enumerate(counts) for i in range(count)]


def names_of(transformer: Any, names: Sequence[str], count: int) -> list[str]:
    """Return the names of the columns of any fitted transformer, numbered where it has none."""
    if hasattr(transformer, "get_feature_names_out"):
        return [str(name) for name in transformer.get_feature_names_out(np.array(names, dtype=object))]
    return numbered(type(transformer).__name__.lower(), count)
