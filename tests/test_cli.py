import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from lmgp.cli import main
from lmgp.experiments.compare import COLUMNS as HEADER
from lmgp.selection.methods import METHODS

ROOT = Path(__file__).parent.parent
SAVEFIG = Figure.savefig
QUICK = ["--methods", "rff", "local_taylor", "--n-features", "8", "16", "--thresholds", "1", "--seeds", "1"]


def write_csv(path: Path, rows: int = 30, header: str = "a,b,price", cell: str | None = None) -> str:
    rng = np.random.default_rng(0)
    a, b = rng.uniform(-2, 2, (2, rows))
    table = [[f"{value:.6f}" for value in row] for row in np.column_stack((a, b, np.sin(a) + b))]
    if cell is not None:
        table[rows // 2][1] = cell
    path.write_text("\n".join((header, *map(",".join, table))) + "\n")
    return str(path)


def short_results(out: Path) -> str:
    (out / "sinc").mkdir(parents=True)
    (out / "sinc" / "results.csv").write_text(",".join(HEADER) + "\na,b,c\n")
    return str(out)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, no data folder, and no time spent on drawing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LMGP_DATA_DIR", raising=False)
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **options: file.write(b"drawn"))
    return tmp_path


def test_a_csv_file_of_the_user(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Figure, "savefig", SAVEFIG)
    file = write_csv(folder / "houses.csv")
    assert main(["compare", file, "--target", "price", *QUICK]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("houses: 30 rows (27 train, 3 test), 2 input columns, target price")
    assert len(re.findall(r"^\* (rff|local_taylor) ", printed.out, flags=re.MULTILINE)) == 2
    assert "lmgp: houses, 5 cells\n" in printed.err
    assert sorted(os.listdir(folder / "results" / "houses")) == ["comparison.png", "learned.json", "results.csv"]
    assert len((folder / "results" / "houses" / "results.csv").read_text().splitlines()) == 6

    assert main(["compare", file, "--target", "price", *QUICK]) == 0
    again = capsys.readouterr()
    assert again.out == printed.out
    assert "5 of 5 cells are read back" in again.err


def test_quiet_says_nothing_on_standard_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_csv(folder / "houses.csv")
    assert main(["compare", file, "--target", "price", "--max-train-rows", "20", "--quiet", *QUICK]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("options", [[], ["--quiet"]])
def test_warnings_are_messages(
    options: list[str], folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def careful(*request: Any) -> object:
        warnings.warn("careful", UserWarning, stacklevel=2)
        return METHODS["local_taylor"].make(*request)

    monkeypatch.setitem(METHODS, "rff", replace(METHODS["rff"], make=careful))
    file = write_csv(folder / "houses.csv")
    assert main(["compare", file, "--target", "price", *options, *QUICK]) == 0
    err = capsys.readouterr().err
    assert err == "" if options else "\nlmgp: careful\n" in err.replace("\r", "\n")


def test_caps_are_said_and_columns_chosen(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_csv(folder / "houses.csv", cell="text in a column that is not used")
    options = ["--columns", "a", "--max-train-rows", "20", "--max-test-rows", "2"]
    assert main(["compare", file, "--target", "price", *options, *QUICK]) == 0
    printed = capsys.readouterr()
    assert "houses: 30 rows (20 train, 2 test), 1 input columns" in printed.out
    assert "a random 20 of the 27 train rows are used (--max-train-rows)" in printed.err
    assert "a random 2 of the 3 test rows are used (--max-test-rows)" in printed.err


def test_several_data_sets_and_ard(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_csv(folder / "houses.csv")
    assert main(["compare", "sinc", file, "--target", "price", "--ard", "--out", "deep/er", *QUICK]) == 0
    out = capsys.readouterr().out
    assert re.search(r"exact GP: lengthscale \S+ s\.d\. of a, \S+ s\.d\. of b, variance", out)
    assert sorted(os.listdir(folder / "deep" / "er")) == ["houses", "sinc"]


def test_ctrl_c_keeps_what_is_finished(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*request: Any) -> None:
        raise KeyboardInterrupt

    command = ["compare", write_csv(folder / "houses.csv"), "--target", "price", *QUICK]
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "local_taylor", replace(METHODS["local_taylor"], make=interrupt))
        assert main(command) == 130
    printed = capsys.readouterr()
    assert printed.out == ""
    where = "results/houses"
    kept = f"2 of 5 cells in {where}/results.csv and the hyperparameters of 1 seed(s) in {where}/learned.json"
    assert printed.err.endswith(f"\nlmgp: interrupted: houses: kept are {kept}; the same command resumes\n")
    assert main(command) == 0
    assert "2 of 5 cells are read back" in capsys.readouterr().err


BAD: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "no command": (lambda path: [], "COMMAND"),
    "unknown command": (lambda path: ["compar"], "'compare'"),
    "unknown option": (lambda path: ["compare", "sinc", "--metods", "rff"], "--metods"),
    "no data set": (lambda path: ["compare"], "DATASET"),
    "unknown protocol": (lambda path: ["compare", "sinc", "--protocol", "papr"], "'papr'"),
    "unknown data set": (lambda path: ["compare", "diabetis"], "'diabetes'"),
    "second data set unknown": (lambda path: ["compare", "sinc", "diabetis"], "'diabetes'"),
    "unknown method": (lambda path: ["compare", "sinc", "--methods", "rff", "local_tailor"], "'local_taylor'"),
    "n_features 1": (lambda path: ["compare", "sinc", "--n-features", "32", "1"], "n_features must be at least 2"),
    "n_features text": (lambda path: ["compare", "sinc", "--n-features", "many"], "'many'"),
    "threshold 0": (lambda path: ["compare", "sinc", "--thresholds", "0"], "threshold"),
    "threshold negative": (lambda path: ["compare", "sinc", "--thresholds", "-1"], "got -1"),
    "no seeds": (lambda path: ["compare", "sinc", "--seeds", "0"], "seed"),
    "cap of 1": (lambda path: ["compare", "sinc", "--max-train-rows", "1"], "max_train_rows"),
    "paper protocol elsewhere": (lambda path: ["compare", "sinc", "--protocol", "paper"], "yacht, kin8nm, uk_flats"),
    "twice the same": (lambda path: ["compare", "sinc", "sinc"], "results/sinc"),
    "two files of one name": (
        lambda path: ["compare", "sinc", write_csv(path / "Sinc.csv"), "--target", "price"],
        "results/sinc",
    ),
    "target without a file": (lambda path: ["compare", "sinc", "--target", "y"], "--target"),
    "no data folder": (lambda path: ["compare", "sinc", "--data-dir", "nowhere"], "'nowhere'"),
    "missing file": (lambda path: ["compare", "nowhere/mine.csv", "--target", "price"], "nowhere/mine.csv"),
    "no target": (lambda path: ["compare", write_csv(path / "mine.csv")], "a, b, price"),
    "unknown target": (lambda path: ["compare", write_csv(path / "mine.csv"), "--target", "prise"], "'price'"),
    "unknown column": (
        lambda path: ["compare", write_csv(path / "mine.csv"), "--target", "price", "--columns", "a", "c"],
        "'c'",
    ),
    "not a number": (
        lambda path: ["compare", write_csv(path / "mine.csv", cell="red"), "--target", "price"],
        "not numeric: 'b'",
    ),
    "NaN": (lambda path: ["compare", write_csv(path / "mine.csv", cell="nan"), "--target", "price"], "'b'"),
    "infinity": (lambda path: ["compare", write_csv(path / "mine.csv", cell="inf"), "--target", "price"], "'b'"),
    "two rows": (lambda path: ["compare", write_csv(path / "mine.csv", rows=2), "--target", "price"], "2 rows"),
    "one row": (lambda path: ["compare", write_csv(path / "mine.csv", rows=1), "--target", "price"], "it has 1"),
    "out is a file": (lambda path: ["compare", "sinc", "--out", write_csv(path / "taken")], "taken"),
    "out below a file": (lambda path: ["compare", "sinc", "--out", write_csv(path / "taken") + "/deep"], "taken"),
    "ard in the paper protocol": (
        lambda path: ["compare", "yacht", "--protocol", "paper", "--ard"],
        "lengthscale",
    ),
    "standardise in the paper protocol": (
        lambda path: ["compare", "yacht", "--protocol", "paper", "--standardise", "yes"],
        "--standardise",
    ),
    "neither yes nor no": (lambda path: ["compare", "sinc", "--standardise", "maybe"], "'maybe'"),
    "too many features for the memory": (
        lambda path: [
            "compare",
            write_csv(path / "ok.csv"),
            "--target",
            "price",
            "--n-features",
            "100000",
            "--methods",
            "rff",
        ],
        "ok: method rff with 100,000 features takes 149.0 GiB",
    ),
    "out where nothing can be made": (
        lambda path: ["compare", "sinc", "--out", "/proc/x"],
        "Cannot write /proc/x/sinc",
    ),
    "a short row of results": (
        lambda path: ["compare", "sinc", "--out", short_results(path / "out")],
        f"has 3 fields, and {len(HEADER)} are expected",
    ),
    "list with no data folder": (lambda path: ["datasets", "--data-dir", "nowhere"], "'nowhere'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line_and_leaves_nothing(
    case: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_arguments, named = BAD[case]
    arguments = make_arguments(folder)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert re.fullmatch(r"lmgp: error: .+\n", printed.err)
    assert named in printed.err
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_constant_inputs_are_refused_before_anything_is_written(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "same.csv").write_text("a,b\n" + "".join(f"7,{i}\n" for i in range(9)))
    arguments = ["compare", "sinc", str(folder / "same.csv"), "--target", "b", "--out", str(folder / "out"), "--quiet"]
    assert main(arguments) == 2
    assert "All input columns of same (a) are constant" in capsys.readouterr().err
    assert not (folder / "out").exists()


def test_a_method_that_cannot_serve_the_columns_is_left_out_unless_it_was_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_csv(folder / "wide.csv", header="a,b,price")
    lines = Path(file).read_text().splitlines()
    wider = [f"{line},{number % 7},{number % 5}" for number, line in enumerate(lines)]
    Path(file).write_text("\n".join(["a,b,price,c,d", *wider[1:]]) + "\n")
    command = ["compare", file, "--target", "price", "--n-features", "8", "--thresholds", "1", "--seeds", "1"]
    assert main([*command, "--methods", "rff", "spectral"]) == 2
    reason = "wide: method spectral serves up to 3 input columns, and there are 4"
    assert capsys.readouterr().err.startswith(f"lmgp: error: {reason}.")
    assert not (folder / "results").exists()
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "lmgp: wide: left out: method spectral serves up to 3" in printed.err.replace("\r", "\n")
    assert "left out: method spectral serves up to 3" in printed.out
    assert main([*command, "--columns", "a", "b", "c", "--methods", "spectral"]) == 0
    assert "\n  spectral " in capsys.readouterr().out


def test_a_constant_target_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "flat.csv").write_text("a,b\n" + "".join(f"{i},7\n" for i in range(9)))
    assert main(["compare", "flat.csv", "--target", "b"]) == 2
    assert "'b' of flat is constant" in capsys.readouterr().err
    assert os.listdir(folder) == ["flat.csv"]


def test_a_results_file_of_something_else_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "results" / "sinc").mkdir(parents=True)
    (folder / "results" / "sinc" / "results.csv").write_text("mine\n1\n")
    assert main(["compare", "sinc"]) == 2
    assert "not a results file" in capsys.readouterr().err
    assert (folder / "results" / "sinc" / "results.csv").read_text() == "mine\n1\n"


def test_datasets_lists_the_catalogue_and_what_is_here(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "data").mkdir()
    (folder / "data" / "kin8nm.csv.gz").touch()
    assert main(["datasets", "--data-dir", "data"]) == 0
    out = capsys.readouterr().out
    assert "diabetes: 442 rows, 10 inputs, target disease_progression [shipped with scikit-learn]" in out
    assert "kin8nm: 8192 rows, 8 inputs, target y [here: data/kin8nm.csv.gz]" in out
    assert "modis_lst: 148309 rows, 2 inputs, target temp_c [needs a file]" in out
    assert out.count("licence:") >= 10


def test_help_names_every_method(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["compare", "--help"])
    assert set(METHODS) <= set(re.findall(r"\w+", capsys.readouterr().out))


def run(*arguments: str, folder: Path, program: str = "-m lmgp") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *program.split(maxsplit=1), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )


def test_standardisation_is_said_and_can_be_left_out(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["compare", write_csv(folder / "map.csv", header="lon,lat,price"), "--target", "price", "--quiet", *QUICK]
    for choice, said, unit in (
        ([], "each standardised to mean 0 and s.d. 1", "s.d. of"),
        (["--standardise", "yes"], "each standardised to mean 0 and s.d. 1", "s.d. of"),
        (["--standardise", "no"], "as they are, not standardised", "units of"),
    ):
        assert main([*command, "--ard", *choice]) == 0
        out = capsys.readouterr().out
        assert f"\ninputs: lon, lat; {said}" in out
        assert re.search(rf"exact GP: lengthscale \S+ {unit} lon, \S+ {unit} lat, variance", out)
    assert main([*command, "--standardise", "no"]) == 0
    assert re.search(r"exact GP: lengthscale \S+ \(in units of the columns\), variance", capsys.readouterr().out)
    # Settings that differ in it are never mixed: with "yes" nothing was measured anew.
    rows = (folder / "results" / "map" / "results.csv").read_text().splitlines()[1:]
    assert len(rows) == 3 * 5


@pytest.mark.slow
def test_columns_a_thousandfold_apart_are_named_with_the_options_that_help(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    path = folder / "house.csv"
    X = rng.normal(size=(40, 2)) * [1.0, 1e5]
    np.savetxt(path, np.column_stack((X, X[:, 0])), delimiter=",", header="rooms,income,price", comments="")
    command = ["compare", str(path), "--target", "price", *QUICK]
    assert main([*command, "--standardise", "no"]) == 0
    (told,) = [line for line in capsys.readouterr().err.splitlines() if "standard deviation of" in line]
    for part in ("column 'income' of X", "column 'rooms'", "--standardise yes", "--ard"):
        assert part in told
    for choice in (["--standardise", "yes"], ["--standardise", "no", "--ard"]):
        assert main([*command, *choice]) == 0
        assert "standard deviation of" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"
        ),
    ],
)
def test_an_allocator_that_fails_is_one_line(
    error: Exception, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*arguments: Any, **options: Any) -> None:
        raise error

    command = ["compare", write_csv(folder / "houses.csv"), "--target", "price", *QUICK]
    with monkeypatch.context() as patch:  # one cell: the others are made
        patch.setitem(METHODS, "rff", replace(METHODS["rff"], make=failing))
        assert main(command) == 0
        printed = capsys.readouterr()
        assert printed.out.count("not made: seed 0, rff") == 2
        assert "out of memory" in printed.out
    monkeypatch.setattr("lmgp.experiments.datasets.load_csv", failing)
    assert main(command) == 2
    assert re.fullmatch(r"lmgp: error: out of memory; use fewer rows .+\n", capsys.readouterr().err)


def test_other_errors_of_the_program_are_not_hidden(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("shapes differ")

    monkeypatch.setattr("lmgp.experiments.datasets.load_csv", failing)
    with pytest.raises(RuntimeError, match="shapes differ"):
        main(["compare", write_csv(folder / "houses.csv"), "--target", "price", *QUICK])


@pytest.mark.slow
def test_ctrl_c_while_modules_are_imported_is_one_line(folder: Path) -> None:
    program = (
        "-c import sys\nclass Finder:\n def find_spec(self, name, *_):\n"
        "  if name == 'lmgp.experiments.datasets': raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Finder())\nfrom lmgp.cli import main\nsys.exit(main())"
    )
    interrupted = run("compare", "sinc", folder=folder, program=program)
    assert (interrupted.returncode, interrupted.stdout) == (130, "")
    assert interrupted.stderr == "lmgp: interrupted\n"


@pytest.mark.parametrize("arguments", ["datasets", "compare --help"])
def test_a_reader_that_stops_ends_the_command_quietly(arguments: str, folder: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        command = [sys.executable, "-m", "lmgp", *arguments.split()]
        environment = os.environ | {"PYTHONPATH": str(ROOT)}
        stopped = subprocess.run(
            command, stdout=write, stderr=subprocess.PIPE, text=True, check=False, cwd=folder, env=environment
        )
    finally:
        os.close(write)
    assert stopped.stderr == ""
    assert stopped.returncode == 141 or "--help" in arguments  # argparse passes over what it cannot write


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="No device is full here.")
def test_output_that_finds_no_place_is_one_line() -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": ""}
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "lmgp", "--version"]
        told = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment)
    assert (told.returncode, told.stderr) == (2, "lmgp: error: [Errno 28] No space left on device\n")


def test_streams_that_are_closed_are_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    assert main(["datasets"]) == 0
    assert main(["fit", "-", "--target", "y", "--out", "model.lmgp"]) == 2  # there is nothing to read


def test_the_package_runs_as_a_module_and_has_a_version() -> None:
    shown = subprocess.run([sys.executable, "-m", "lmgp", "--version"], check=True, capture_output=True, text=True)
    assert re.fullmatch(r"lmgp \d+\.\d+\.\d+\n", shown.stdout)
