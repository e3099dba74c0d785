from pathlib import Path

import pytest

from lmgp.errors import InputError
from lmgp.experiments.results import HEADER, ResultsFile, Row, check_writable, replace


def row(**changes: object) -> Row:
    values: dict = {
        "settings": "abc",
        "dataset": 'a, "quoted" name',
        "protocol": "converged",
        "n_train": 40,
        "n_test": 20,
        "n_inputs": 2,
        "seed": 0,
        "method": "rff",
        "n_features": 8,
        "threshold": None,
        "rmse": 0.1 + 0.2,
        "nlpd": -1e-300,
        "coverage": 1 / 3,
        "crps": float("inf"),
        "fit_seconds": 1e22,
        "predict_seconds": 5e-324,
    }
    return Row(**(values | changes))


def test_rows_read_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "results.csv"
    rows = (row(), row(method="exact", n_features=None, lengthscale=(0.1, 1 / 3), variance=2.0, converged=False))
    for one in rows:
        ResultsFile(path).append(one)
    assert ResultsFile(path).rows == rows
    assert path.read_text().startswith(",".join(HEADER) + "\n")


def test_reading_writes_nothing(tmp_path: Path) -> None:
    assert ResultsFile(tmp_path / "folder" / "results.csv").rows == ()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("cut", [1, 30])
def test_a_torn_last_line_is_dropped_and_cut_off_before_the_next(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "results.csv"
    for seed in (0, 1):
        ResultsFile(path).append(row(seed=seed))
    torn = path.read_bytes()[:-cut]
    path.write_bytes(torn)
    file = ResultsFile(path)
    assert file.rows == (row(seed=0),)
    assert path.read_bytes() == torn
    file.append(row(seed=2))
    file.append(row(seed=3))
    assert [one.seed for one in ResultsFile(path).rows] == [0, 2, 3]
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("start", ["", "sett"])
def test_a_file_killed_in_its_header_is_begun_anew(tmp_path: Path, start: str) -> None:
    path = tmp_path / "results.csv"
    path.write_text(start)
    ResultsFile(path).append(row())
    assert ResultsFile(path).rows == (row(),)


@pytest.mark.parametrize("content", [b"a,b\n1,2\n", b"\xff\xfe\x00binary", (",".join(HEADER) + ",more\n").encode()])
def test_a_file_of_something_else_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "results.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"results\.csv is not a results file"):
        ResultsFile(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("damage", ["abc,made,converged\n", None])
def test_a_damaged_line_inside_is_named(tmp_path: Path, damage: str | None) -> None:
    path = tmp_path / "results.csv"
    ResultsFile(path).append(row())
    path.write_text(path.read_text().replace(",8,", ",eight,") if damage is None else path.read_text() + damage)
    with pytest.raises(InputError, match="Line 2" if damage is None else "Line 3"):
        ResultsFile(path)


def test_a_line_of_another_length_is_named_with_both_lengths(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    ResultsFile(path).append(row())
    path.write_text(path.read_text() + "abc,made,converged\n")
    with pytest.raises(InputError, match=rf"^Line 3 of .* has 3 fields, and {len(HEADER)} are expected\. Remove this"):
        ResultsFile(path)


def test_a_damaged_field_is_named(tmp_path: Path) -> None:
    path = tmp_path / "results.csv"
    ResultsFile(path).append(row())
    path.write_text(path.read_text().replace(",8,", ",eight,"))
    with pytest.raises(InputError, match=r"Line 2 of .* has 'eight' in the column n_features\. Remove this line"):
        ResultsFile(path)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="there is no /proc")
def test_a_folder_where_nothing_can_be_made_is_not_writable_whatever_the_permissions() -> None:
    with pytest.raises(InputError, match=r"Cannot write /proc/x/results\.csv: /proc is in the way or not writable"):
        check_writable(Path("/proc/x/results.csv"))


def test_checking_leaves_nothing_behind_and_changes_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("content")
    before = (tmp_path / "file").stat().st_mtime_ns
    for path in (tmp_path / "file", tmp_path / "a" / "b", tmp_path / "other"):
        check_writable(path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "content"
    assert (tmp_path / "file").stat().st_mtime_ns == before


def test_a_path_below_a_file_or_on_a_folder_is_not_writable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check_writable(tmp_path / "a" / "b")
    check_writable(tmp_path / "file")
    for path in (tmp_path / "file" / "results.csv", tmp_path):
        with pytest.raises(InputError, match="Cannot write"):
            check_writable(path)


def test_replacing_fails_whole(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        replace(tmp_path / "folder", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
