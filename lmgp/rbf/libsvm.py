"""Read the model files of LIBSVM.

The package `libsvm-official` does not serve here: its reader takes a file that is truncated, or has words where numbers
belong, for a model without these support vectors or with zeros, and says nothing.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from lmgp.data import Floats
from lmgp.errors import InputError
from lmgp.rbf.expansion import Classification, OneClass, RBFExpansion, Readout, Regression, one_vs_one
from lmgp.utils.memory import check_memory

CLASSIFIERS = ("c_svc", "nu_svc")
TYPES = (*CLASSIFIERS, "one_class", "epsilon_svr", "nu_svr")
FIELDS = ("svm_type", "kernel_type", "gamma", "nr_class", "total_sv", "rho", "label", "nr_sv")
WITHOUT_EFFECT = ("degree", "coef0", "probA", "probB", "prob_density_marks")  # on decision values


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
    >>> from lmgp.rbf import read_libsvm
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
    return _LibsvmText(str(path), lines).expansion(n_features)


def _finite(text: str) -> float:
    value = float(text)
    if "_" in text or not math.isfinite(value):  # Python's digit separators are not LIBSVM's
        raise ValueError
    return value


def _whole(text: str) -> int:
    if not abs(_finite(text)) < 2**31:  # LIBSVM has 32 bits
        raise ValueError
    return int(text)


class _LibsvmText:
    """The lines of a model file: one field of the header each, then one support vector each."""

    def __init__(self, path: str, lines: Sequence[str]) -> None:
        self.path = path
        self.fields: dict[str, tuple[int, list[str]]] = {}
        known = FIELDS + WITHOUT_EFFECT
        for number, line in enumerate(lines, start=1):
            name, *values = line.split() or [""]
            if name == "SV":
                self.n_header, self.body = number, "\n".join(lines[number:]).rstrip().splitlines()
                return
            if name not in known:
                self.fail(number, f"{name!r} is no field of a LIBSVM model; known: {', '.join(known)}, SV")
            if name in self.fields:
                self.fail(number, f"{name} is there twice")
            self.fields[name] = (number, values)
        self.fail(max(1, len(lines)), "the file ends before the line 'SV'; it is truncated, or no LIBSVM model")

    def fail(self, line: int, what: str) -> NoReturn:
        raise InputError(f"{self.path}, line {line}: {what}.")

    def check(self, holds: Any, name: str, what: str) -> None:
        if not holds:
            self.fail(self.fields[name][0], what)

    def values(self, name: str, count: int, convert: Callable[[str], Any]) -> list[Any]:
        if name not in self.fields:
            self.fail(self.n_header, f"the field {name} is missing above this line")
        line, texts = self.fields[name]
        self.check(len(texts) == count, name, f"{name} needs {count} value(s), got {len(texts)}")
        try:
            return [convert(text) for text in texts]
        except ValueError:
            kind = "whole" if convert is _whole else "finite"
            self.fail(line, f"{name} must be {count} {kind} number(s), got {' '.join(texts)[:60]!r}")

    def above(self, least: int, name: str, convert: Callable[[str], Any]) -> Any:
        (value,) = self.values(name, 1, convert)
        self.check(value > least, name, f"{name} must be above {least}, got {value}")
        return value

    def expansion(self, n_features: int | None) -> RBFExpansion:
        (kind,), (kernel,) = self.values("svm_type", 1, str), self.values("kernel_type", 1, str)
        self.check(kind in TYPES, "svm_type", f"svm_type must be one of {', '.join(TYPES)}; got {kind!r}")
        self.check(kernel == "rbf", "kernel_type", f"kernel_type must be rbf; got {kernel!r}")
        gamma, n_sv = self.above(0, "gamma", _finite), self.above(0, "total_sv", _whole)
        n_classes, counts = 2, [n_sv, 0]
        readout: Readout = OneClass() if kind == "one_class" else Regression()
        if kind in CLASSIFIERS:
            n_classes = self.above(1, "nr_class", _whole)
            labels, counts = self.values("label", n_classes, _whole), self.values("nr_sv", n_classes, _whole)
            self.check(len(set(labels)) == n_classes, "label", f"labels must differ, got {labels}")
            fitting = min(counts) >= 0 and sum(counts) == n_sv
            self.check(fitting, "nr_sv", f"nr_sv must add up to total_sv = {n_sv}, got {counts}")
            readout = Classification(np.array(labels))
        rho = self.values("rho", n_classes * (n_classes - 1) // 2, _finite)
        dual, vectors = self.support_vectors(n_sv, n_classes - 1, n_features)
        return RBFExpansion(vectors, one_vs_one(dual.T, np.array(counts)), -np.array(rho), gamma, readout)

    def support_vectors(self, n_sv: int, n_coefficients: int, n_features: int | None) -> tuple[Floats, Floats]:
        """Return the dual coefficients, one column for each on a line, and the support vectors."""
        if len(self.body) != n_sv:
            line = self.n_header + len(self.body)
            self.fail(line, f"total_sv is {n_sv}, but there are {len(self.body)} support vectors")
        dual, rows, columns, entries = np.empty((n_sv, n_coefficients)), [], [], []
        for i, text in enumerate(self.body):
            words = text.split()
            try:
                dual[i] = [_finite(word) for word in words[:n_coefficients]]
                pairs = [word.split(":") for word in words[n_coefficients:]]
                indices = [_whole(index) for index, _ in pairs]
                ascend = all(before < here for before, here in pairwise([0, *indices]))
                if len(words) < n_coefficients or not ascend:
                    raise ValueError
                entries += [_finite(value) for _, value in pairs]
            except ValueError:
                self.fail(
                    self.n_header + 1 + i,
                    f"expected {n_coefficients} finite coefficient(s), then pairs index:value of whole indices that "
                    f"ascend from 1 and finite values; got {text[:60]!r}",
                )
            rows += [i] * len(indices)
            columns += [index - 1 for index in indices]
        largest = max(columns, default=0) + 1
        if n_features is not None and n_features < largest:
            raise InputError(
                f"n_features must be at least {largest}, the largest index in {self.path}; got {n_features}."
            )
        width = n_features or largest
        check_memory(
            8.0 * n_sv * width,
            f"The {n_sv:,} support vectors of {self.path} with {width:,} columns",
            "Is the largest index right, and n_features?",
        )
        vectors = np.zeros((n_sv, width))
        vectors[rows, columns] = entries
        return dual, vectors
