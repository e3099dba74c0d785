"""Read the model files of LIBSVM."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lmgp.errors import InputError
from lmgp.memory import check_memory
from lmgp.rbf.expansion import RBFExpansion
from lmgp.rbf.readouts import Classification, OneClass, Readout, Regression, one_vs_one


@dataclass(frozen=True)
class Format:
    """The words of a model file.

    Attributes
    ----------
    classifiers, others : tuple of str
        Values of the field svm_type.
    fields, ignored : tuple of str
        Names of fields; the ignored ones have no part in the decision values.
    """

    classifiers: tuple[str, ...] = ("c_svc", "nu_svc")
    others: tuple[str, ...] = ("one_class", "epsilon_svr", "nu_svr")
    fields: tuple[str, ...] = ("svm_type", "kernel_type", "gamma", "nr_class", "total_sv", "rho", "label", "nr_sv")
    ignored: tuple[str, ...] = ("degree", "coef0", "probA", "probB", "prob_density_marks")


FORMAT = Format()
TYPES = (*FORMAT.classifiers, *FORMAT.others)
FIELDS = (*FORMAT.fields, *FORMAT.ignored)


def read_libsvm(path: str | PathLike[str], *, n_features: int | None = None) -> RBFExpansion:
    """Read a LIBSVM model file with the RBF kernel.

    Parameters
    ----------
    path : str or path-like
        What ``svm-train`` wrote, of type c_svc, nu_svc, one_class, epsilon_svr or nu_svr.
    n_features : int, optional
        The number of input columns, d; the largest index in the file if not given. The file leaves out zeros, so that
        trailing columns that are zero in all support vectors do not show in it.

    Returns
    -------
    RBFExpansion
        Decision values follow scikit-learn's conventions: of two classes they are positive for the larger label.
        LIBSVM's own are positive for the label that came first in the training file.

    Raises
    ------
    InputError
        If the file cannot be read or is not such a model; the message names the line.

    References
    ----------
    C.-C. Chang and C.-J. Lin, "LIBSVM: A library for support vector machines", *ACM Transactions on Intelligent Systems
    and Technology* 2, 2011.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "two.model"
    >>> _ = path.write_text('''svm_type c_svc
    ... kernel_type rbf
    ... gamma 0.5
    ... nr_class 2
    ... total_sv 2
    ... rho 0.25
    ... label 1 -1
    ... nr_sv 1 1
    ... SV
    ... 1 1:1 2:2
    ... -1 1:-1
    ... ''')
    >>> model = read_libsvm(path)
    >>> model.predict([[1.0, 2.0], [-1.0, 0.0]]).tolist()
    [1, -1]
    """
    if n_features is not None and (isinstance(n_features, bool) or not isinstance(n_features, Integral)):
        raise InputError(f"n_features must be a whole number; got {n_features!r}.")
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, TypeError, UnicodeDecodeError) as error:
        raise InputError(f"The model file {path} cannot be read: {error}.") from error
    return _Model(str(path), lines).expansion(n_features)


class _Model:
    """The lines of a model file: one field of the header each, then one support vector each."""

    def __init__(self, path: str, lines: list[str]) -> None:
        self.path = path
        self.lines = lines
        self.fields: dict[str, tuple[int, list[str]]] = {}
        for number, line in enumerate(lines, start=1):
            name, *values = line.split() or [""]
            if name == "SV":
                self.n_header = number
                return
            if name not in FIELDS:
                self.fail(number, f"{name!r} is no field of a LIBSVM model; known: {', '.join(FIELDS)}, SV")
            if name in self.fields:
                self.fail(number, f"{name} is there twice")
            self.fields[name] = (number, values)
        self.fail(max(1, len(lines)), "the file ends before the line 'SV'; it is truncated, or no LIBSVM model")

    def fail(self, number: int, what: str) -> NoReturn:
        raise InputError(f"{self.path}, line {number}: {what}.")

    def number(self, at: int, text: str, convert: Callable[[str], Any] = float) -> Any:
        try:
            value = convert(text)
        except ValueError:
            value = math.nan
        # Python's own digit separators are not LIBSVM's, and its whole numbers are 32-bit ones.
        if "_" in text or not (abs(value) < 2**31 if convert is int else math.isfinite(value)):
            self.fail(at, f"{text[:40]!r} is not a {'whole' if convert is int else 'finite'} number")
        return value

    def values(self, name: str, count: int, convert: Callable[[str], Any] = float) -> list[Any]:
        """Return the values of a field; there must be `count` of them."""
        if name not in self.fields:
            self.fail(self.n_header, f"the field {name} is missing above this line")
        at, texts = self.fields[name]
        if len(texts) != count:
            self.fail(at, f"{name} needs {count} value(s), got {len(texts)}")
        return [text if convert is str else self.number(at, text, convert) for text in texts]

    def positive(self, name: str, convert: Callable[[str], Any], least: float = 0) -> Any:
        value = self.values(name, 1, convert)[0]
        if value <= least:
            self.fail(self.fields[name][0], f"{name} must be above {least}, got {value}")
        return value

    def expansion(self, n_features: int | None) -> RBFExpansion:
        kind, kernel = self.values("svm_type", 1, str)[0], self.values("kernel_type", 1, str)[0]
        if kind not in TYPES:
            self.fail(self.fields["svm_type"][0], f"svm_type must be one of {', '.join(TYPES)}; got {kind!r}")
        if kernel != "rbf":
            self.fail(self.fields["kernel_type"][0], f"kernel_type must be rbf; got {kernel!r}")
        gamma = self.positive("gamma", float)
        n_sv = self.positive("total_sv", int)
        n_classes = self.positive("nr_class", int, least=1) if kind in FORMAT.classifiers else 2
        rho = self.values("rho", n_classes * (n_classes - 1) // 2)
        counts, readout = np.array([n_sv, 0]), self.readout(kind, n_classes)
        if isinstance(readout, Classification):
            counts = np.array(self.values("nr_sv", n_classes, int))
            if counts.min() < 0 or counts.sum() != n_sv:
                self.fail(self.fields["nr_sv"][0], f"nr_sv must add up to total_sv = {n_sv}, got {counts.tolist()}")
        dual, vectors = self.support_vectors(n_sv, n_classes - 1, n_features)
        return RBFExpansion(vectors, one_vs_one(dual.T, counts), -np.array(rho), gamma, readout)

    def readout(self, kind: str, n_classes: int) -> Readout:
        if kind not in FORMAT.classifiers:
            return OneClass() if kind == "one_class" else Regression()
        labels = np.array(self.values("label", n_classes, int))
        if len(np.unique(labels)) < n_classes:
            self.fail(self.fields["label"][0], f"labels must differ, got {labels.tolist()}")
        return Classification(labels)

    def support_vectors(
        self, n_sv: int, n_coefficients: int, n_features: int | None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the dual coefficients, one column for each on a line, and the support vectors."""
        body = self.lines[self.n_header :]
        while body and not body[-1].strip():
            body.pop()
        if len(body) != n_sv:
            self.fail(self.n_header + len(body), f"total_sv is {n_sv}, but there are {len(body)} support vectors")
        dual = np.empty((n_sv, n_coefficients))
        rows, columns, values = [], [], []
        for i, line in enumerate(body):
            at, texts = self.n_header + 1 + i, line.split()
            if len(texts) < n_coefficients or any(":" in text for text in texts[:n_coefficients]):
                self.fail(at, f"expected {n_coefficients} coefficient(s), then index:value pairs; got {line[:60]!r}")
            dual[i] = [self.number(at, text) for text in texts[:n_coefficients]]
            last = 0
            for text in texts[n_coefficients:]:
                index_text, colon, value_text = text.partition(":")
                if not colon:
                    self.fail(at, f"expected index:value, got {text!r}")
                index = self.number(at, index_text, int)
                if index <= last:
                    self.fail(at, f"indices must start at 1 and ascend, got {index} after {last}")
                last = index
                rows.append(i)
                columns.append(index - 1)
                values.append(self.number(at, value_text))
        largest = max(columns, default=0) + 1
        if n_features is not None and n_features < largest:
            raise InputError(
                f"n_features must be at least {largest}, the largest index in {self.path}; got {n_features}."
            )
        check_memory(
            8.0 * n_sv * largest,
            f"The {n_sv:,} support vectors of {self.path} with {largest:,} columns",
            "Is the largest index right?",
        )
        vectors = np.zeros((n_sv, n_features or largest))
        vectors[rows, columns] = values
        return dual, vectors
