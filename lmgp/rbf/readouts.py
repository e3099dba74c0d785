"""How the outputs of a kernel expansion become what its model predicts."""

from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

# scikit-learn has no public name for this function: its own SVC turns the values of pairs into those of classes by it.
from sklearn.utils.multiclass import _ovr_decision_function

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Regression:
    """The outputs are the predictions.

    Attributes
    ----------
    one_dimensional : bool, default=True
        Whether the predictions for the only output have shape (n,), not (n, 1).
    """

    one_dimensional: bool = True
    kind: ClassVar[str] = "regressor"

    def n_outputs(self) -> int | None:
        """Return how many outputs there must be; None for any number."""
        return 1 if self.one_dimensional else None

    def predict(self, outputs: Floats) -> Floats:
        """Return predictions, shape (n,) or (n, n_outputs)."""
        return outputs[:, 0] if self.one_dimensional else outputs


@dataclass(frozen=True)
class OneClass:
    """The only output is positive for inliers: rows like those of the training."""

    kind: ClassVar[str] = "outlier_detector"

    def n_outputs(self) -> int | None:
        """Return how many outputs there must be."""
        return 1

    def decision(self, outputs: Floats) -> Floats:
        """Return the output, shape (n,)."""
        return outputs[:, 0]

    def predict(self, outputs: Floats) -> NDArray[Any]:
        """Return 1 for inliers and -1 for outliers, shape (n,)."""
        return np.where(outputs[:, 0] > 0, 1, -1)


@dataclass(frozen=True, eq=False)
class Classification:
    """One output for each pair of classes, as in LIBSVM: positive for the first of the two.

    Attributes
    ----------
    labels : ndarray of shape (n_classes,)
        In the model's own order. The pairs are (0, 1), (0, 2), …, (1, 2), …. Where classes have equally many votes,
        the first of them is predicted.
    shape : {"ovr", "ovo"}, default="ovr"
        Whether decision values of more than two classes are one a class, or one a pair.
    break_ties : bool, default=False
        With more than two classes, whether to predict that of the largest decision value, not that of most votes.
    """

    labels: NDArray[Any]
    shape: Literal["ovr", "ovo"] = "ovr"
    break_ties: bool = False
    kind: ClassVar[str] = "classifier"

    @property
    def classes(self) -> NDArray[Any]:
        """The labels in scikit-learn's order, which is ascending."""
        return np.sort(self.labels)

    def n_outputs(self) -> int | None:
        """Return how many outputs there must be."""
        return len(self.labels) * (len(self.labels) - 1) // 2

    def decision(self, outputs: Floats) -> Floats:
        """Return decision values by scikit-learn's conventions, with the classes in ascending order.

        Parameters
        ----------
        outputs : ndarray of shape (n, n_pairs)

        Returns
        -------
        ndarray of shape (n,), (n, n_classes) or (n, n_pairs)
            With two classes, positive for the second; with more, see `shape`.
        """
        n_classes = len(self.labels)
        first, second = np.triu_indices(n_classes, 1)
        column = np.empty((n_classes, n_classes), dtype=np.intp)
        column[first, second] = column[second, first] = np.arange(len(first))
        order = np.argsort(self.labels)
        left, right = order[first], order[second]
        ordered = outputs[:, column[left, right]] * np.where(left < right, 1.0, -1.0)
        if n_classes == 2:
            return -ordered[:, 0]
        return ordered if self.shape == "ovo" else _ovr_decision_function(ordered < 0, -ordered, n_classes)

    def predict(self, outputs: Floats) -> NDArray[Any]:
        """Return labels, shape (n,)."""
        n_classes = len(self.labels)
        if self.break_ties and n_classes > 2:
            return self.classes[np.argmax(self.decision(outputs), axis=1)]
        first, second = np.triu_indices(n_classes, 1)
        winners = np.where(outputs > 0, first, second)
        votes = (winners[:, :, None] == np.arange(n_classes)).sum(axis=1)
        return self.labels[np.argmax(votes, axis=1)]


Readout = Regression | OneClass | Classification


def one_vs_one(dual: Floats, counts: NDArray[np.int64]) -> Floats:
    """Write LIBSVM's dual coefficients as one column a pair of classes.

    Parameters
    ----------
    dual : ndarray of shape (n_classes - 1, n_sv)
        For a support vector of class i, the coefficients against the other classes in their order.
    counts : ndarray of shape (n_classes,)
        The number of support vectors of each class; they are sorted by class.

    Returns
    -------
    ndarray of shape (n_sv, n_classes * (n_classes - 1) / 2)
    """
    owner = np.repeat(np.arange(len(counts)), counts)
    columns = [
        np.where(owner == i, dual[j - 1], np.where(owner == j, dual[i], 0.0))
        for i, j in combinations(range(len(counts)), 2)
    ]
    return np.stack(columns, axis=1)
