"""Model files, written here from scikit-learn's models, which are LIBSVM's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.svm import SVC, SVR, NuSVC, NuSVR, OneClassSVM

from lmgp.errors import InputError, MemoryLimitError
from lmgp.rbf import Classification, rbf_expansion, read_libsvm

Floats = NDArray[np.float64]
TYPES = {SVC: "c_svc", NuSVC: "nu_svc", SVR: "epsilon_svr", NuSVR: "nu_svr", OneClassSVM: "one_class"}


def rows(n: int = 60, seed: int = 0) -> Floats:
    return np.round(np.random.default_rng(seed).standard_normal((n, 4)), 1)  # with zeros, which the file leaves out


def fitted(model: Any, n_classes: int = 2) -> Any:
    X = rows()
    target = np.sin(X[:, 0]) + X[:, 1] * X[:, 3]
    if isinstance(model, SVC | NuSVC):
        target = np.digitize(target, np.quantile(target, np.linspace(0, 1, n_classes + 1)[1:-1])) * 10 - 10
    return model.fit(X, target)


def text_of(model: Any, order: list[int] | None = None) -> str:
    """Write a model as svm-train does: `order` says which class came first in its training file."""
    kind = TYPES[type(model)]
    lines = [f"svm_type {kind}", "kernel_type rbf", f"gamma {float(model._gamma)!r}"]
    dual, intercept = np.atleast_2d(model.dual_coef_), model.intercept_
    index = np.arange(len(model.support_vectors_))
    if kind in ("c_svc", "nu_svc"):
        n_classes = len(model.classes_)
        order = order or list(range(n_classes))
        sign = -1.0 if n_classes == 2 else 1.0
        owner = np.repeat(np.arange(n_classes), model.n_support_)
        pairs = [(i, j) for i in range(n_classes) for j in range(i + 1, n_classes)]

        def coefficient(sv: int, other: int) -> float:
            own = owner[sv]
            value = sign * dual[other - 1 if own < other else other, sv]
            # Turned round where the order turns the pair round.
            return value if (own < other) == (order.index(own) < order.index(other)) else -value

        rho = []
        for a in range(n_classes):
            for b in range(a + 1, n_classes):
                i, j = order[a], order[b]
                value = -sign * intercept[pairs.index((min(i, j), max(i, j)))]
                rho.append(value if i < j else -value)
        index = np.concatenate([np.flatnonzero(owner == label) for label in order])
        coefficients = [[coefficient(sv, other) for other in order if other != owner[sv]] for sv in index]
        lines += [f"nr_class {n_classes}", f"total_sv {len(index)}", "rho " + " ".join(map(repr, map(float, rho)))]
        lines += ["label " + " ".join(str(model.classes_[i]) for i in order)]
        lines += ["probA " + " ".join("0.5" for _ in rho)]
        lines += ["nr_sv " + " ".join(str(model.n_support_[i]) for i in order)]
    else:
        coefficients = dual.T.tolist()
        lines += ["nr_class 2", f"total_sv {len(index)}", f"rho {float(-intercept[0])!r}"]
    lines.append("SV")
    for sv, values in zip(index, coefficients, strict=True):
        cells = [f"{j + 1}:{float(x)!r}" for j, x in enumerate(model.support_vectors_[sv]) if x]
        lines.append(" ".join([*(repr(float(value)) for value in values), *cells]) + " ")
    return "\n".join(lines) + "\n"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("model", [SVR(gamma=0.4), NuSVR(), OneClassSVM(nu=0.4)], ids=str)
def test_models_of_one_output_predict_the_same_from_their_file(model: Any, tmp_path: Path) -> None:
    model = fitted(model)
    read = rbf_expansion(write(tmp_path / "a.model", text_of(model)))
    np.testing.assert_allclose(read.predict(rows(seed=1)), model.predict(rows(seed=1)), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("make", [SVC, NuSVC])
@pytest.mark.parametrize("order", [[0, 1], [1, 0], [0, 1, 2], [2, 0, 1], [1, 2, 0], [3, 0, 2, 1]], ids=str)
def test_classifiers_predict_the_same_whichever_class_came_first(make: Any, order: list[int], tmp_path: Path) -> None:
    model = fitted(make(gamma=0.4), len(order))
    read = read_libsvm(write(tmp_path / "a.model", text_of(model, order)))
    Z = rows(300, seed=1)
    np.testing.assert_allclose(read.decision_function(Z), model.decision_function(Z), rtol=1e-10, atol=1e-12)
    # Where the votes of three classes are equal, the order decides: there LIBSVM would answer otherwise too.
    assert isinstance(read.readout, Classification)
    model.set_params(decision_function_shape="ovo")
    if len(order) == 2:
        np.testing.assert_array_equal(read.predict(Z), model.predict(Z))
    else:
        values = model.decision_function(Z)
        pairs = [(i, j) for i in range(len(order)) for j in range(i + 1, len(order))]
        winners = [[i if value > 0 else j for value, (i, j) in zip(row, pairs, strict=True)] for row in values]
        expected = [model.classes_[max(order, key=row.count)] for row in winners]
        assert read.predict(Z).tolist() == expected


def test_the_first_label_is_the_one_of_positive_values_in_the_file(tmp_path: Path) -> None:
    text = "svm_type c_svc\nkernel_type rbf\ngamma 1\nnr_class 2\ntotal_sv 1\nrho 0\nlabel 7 3\nnr_sv 1 0\nSV\n2 1:1\n"
    read = read_libsvm(write(tmp_path / "a.model", text))
    assert read.predict([[1.0]]).tolist() == [7]
    np.testing.assert_allclose(read.decision_function([[1.0]]), [2.0])
    turned = read_libsvm(write(tmp_path / "b.model", text.replace("7 3", "3 7")))
    assert turned.predict([[1.0]]).tolist() == [3]
    np.testing.assert_allclose(turned.decision_function([[1.0]]), [-2.0])


def test_columns_that_are_zero_at_the_end_can_be_told(tmp_path: Path) -> None:
    model = fitted(SVR())
    path = write(tmp_path / "a.model", text_of(model))
    wide = read_libsvm(path, n_features=6)
    Z = rows(5, seed=1)
    expected = model.predict(Z)
    np.testing.assert_allclose(wide.predict(np.pad(Z, ((0, 0), (0, 2)))), expected, rtol=1e-10)
    with pytest.raises(InputError, match="n_features must be at least 4, the largest index"):
        read_libsvm(path, n_features=3)
    with pytest.raises(MemoryLimitError, match="with 10,000,000,000,000 columns"):
        read_libsvm(path, n_features=10**13)


GOOD = """svm_type c_svc
kernel_type rbf
gamma 0.5
nr_class 2
total_sv 2
rho 0.1
label 1 -1
nr_sv 1 1
SV
1 1:1
-1 2:1
"""
LINE_11 = r"line 11: expected 1 finite coefficient\(s\), then pairs index:value of whole indices that ascend .*; got"
MALFORMED: dict[str, tuple[str, str, str]] = {
    "truncated header": (GOOD[GOOD.index("SV\n") :], "", "line 8: the file ends before the line 'SV'"),
    "truncated vectors": ("-1 2:1\n", "", "line 10: total_sv is 2, but there are 1 support vectors"),
    "a vector too many": ("-1 2:1\n", "-1 2:1\n-1 2:2\n", "line 12: total_sv is 2, but there are 3"),
    "another kernel": ("rbf", "polynomial", "line 2: kernel_type must be rbf; got 'polynomial'"),
    "another type": ("c_svc", "d_svc", "line 1: svm_type must be one of c_svc"),
    "missing gamma": ("gamma 0.5\n", "", "line 8: the field gamma is missing"),
    "missing rho": ("rho 0.1\n", "", "line 8: the field rho is missing"),
    "missing labels": ("label 1 -1\n", "", "the field label is missing"),
    "missing counts": ("nr_sv 1 1\n", "", "the field nr_sv is missing"),
    "a field twice": ("rho 0.1\n", "rho 0.1\nrho 0.1\n", "line 7: rho is there twice"),
    "unknown field": ("rho 0.1", "sigma 0.1", "line 6: 'sigma' is no field"),
    "an empty line": ("rho 0.1", "", "line 6: '' is no field"),
    "gamma of zero": ("gamma 0.5", "gamma 0", "line 3: gamma must be above 0"),
    "gamma that is no number": ("gamma 0.5", "gamma half", "line 3: gamma must be 1 finite number\\(s\\), got 'half'"),
    "gamma that is not finite": ("gamma 0.5", "gamma nan", "line 3: gamma must be 1 finite number"),
    "one class": ("nr_class 2", "nr_class 1", "line 4: nr_class must be above 1"),
    "no support vectors": ("total_sv 2", "total_sv 0", "line 5: total_sv must be above 0"),
    "half a support vector": ("total_sv 2", "total_sv 2.5", "line 5: total_sv must be 1 whole number"),
    "too many rho": ("rho 0.1", "rho 0.1 0.2", r"line 6: rho needs 1 value\(s\), got 2"),
    "labels alike": ("label 1 -1", "label 1 1", "line 7: labels must differ"),
    "counts that do not add up": ("nr_sv 1 1", "nr_sv 1 2", "line 8: nr_sv must add up to total_sv = 2"),
    "a negative count": ("nr_sv 1 1", "nr_sv 3 -1", "line 8: nr_sv must add up"),
    "no coefficient": ("-1 2:1", "2:1", LINE_11),
    "a bad coefficient": ("-1 2:1", "x 2:1", LINE_11),
    "no colon": ("-1 2:1", "-1 2", LINE_11),
    "a bad value": ("-1 2:1", "-1 2:one", LINE_11),
    "an infinite value": ("-1 2:1", "-1 2:inf", LINE_11),
    "an index from zero": ("-1 2:1", "-1 0:1", LINE_11),
    "indices that do not ascend": (
        "-1 2:1",
        "-1 2:1 2:3",
        LINE_11,
    ),
    "an index too large": ("-1 2:1", "-1 99999999999:1", LINE_11),
    "an index beyond memory": ("-1 2:1", "-1 2147483647:1", "support vectors of .* with 2,147,483,647 columns take"),
    "digits in groups": ("-1 2:1", "-1 1_0:1", LINE_11),
    "a count of hundreds of digits": (
        "total_sv 2",
        "total_sv " + "9" * 400,
        "line 5: total_sv must be 1 whole number.*'9{60}'",
    ),
    "an empty file": (GOOD, "", "line 1: the file ends"),
}


@pytest.mark.slow
@pytest.mark.parametrize("bad", MALFORMED)
def test_a_malformed_file_is_refused_with_its_line(bad: str, tmp_path: Path) -> None:
    old, new, message = MALFORMED[bad]
    assert GOOD.count(old) == 1
    path = write(tmp_path / "bad.model", GOOD.replace(old, new))
    with pytest.raises(
        (InputError, MemoryLimitError), match=f"bad.model, {message}" if message.startswith("line") else message
    ):
        read_libsvm(path)
    assert read_libsvm(write(path, GOOD)).predict([[1.0, 0.0]]).tolist() == [1]
    assert read_libsvm(write(path, "\ufeff" + GOOD)).predict([[1.0, 0.0]]).tolist() == [1]


@pytest.mark.parametrize("n_features", ["5", 2.5, True])
def test_a_number_of_columns_that_is_none_is_refused(n_features: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="n_features must be a whole number"):
        read_libsvm(write(tmp_path / "good.model", GOOD), n_features=n_features)


@pytest.mark.parametrize("path", [None, 3])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_libsvm(path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "none.model", tmp_path):
        with pytest.raises(InputError, match=f"model file {path} cannot be read"):
            read_libsvm(path)
    (tmp_path / "binary.model").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"binary\.model cannot be read"):
        rbf_expansion(str(tmp_path / "binary.model"))
