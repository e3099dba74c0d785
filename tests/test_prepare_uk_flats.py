"""The script that makes the data set uk_flats, on small made files."""

import csv
import gzip
import importlib.util
import io
import math
import os
import re
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from lmgp.experiments.datasets import load_dataset

SCRIPT = Path(__file__).resolve().parents[1] / "datasets" / "prepare_uk_flats.py"


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prepare_uk_flats", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = _load()
TABLE = "id,postcode,latitude,longitude\n1,AA1 1AA,51.5,-0.125\n2,BB2 2BB,53.25,-2.5\n3,CC3 3CC,50,0.1\n"


def sale(price: str = "250000", postcode: str = "AA1 1AA", kind: str = "F", status: str = "A") -> str:
    address = ["12", "FLAT 3", "HIGH STREET, NORTH", "", "TOWN", "DISTRICT", "COUNTY"]
    fields = ["{9DBAD222}", price, "2021-12-17 00:00", postcode, kind, "N", "L", *address, "B", status]
    return ",".join(f'"{field}"' for field in fields) + "\n"


def put(path: Path, content: str | bytes) -> Path:
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


class Maker:
    """Runs the script in a folder of its own, and reads what it says."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.out = folder / "out"
        self.out.mkdir()

    def run(self, prices: str | bytes | Path, table: str | bytes | Path = TABLE) -> int:
        if not isinstance(prices, Path):
            prices = put(self.folder / "prices.csv", prices)
        if not isinstance(table, Path):
            table = put(self.folder / "table.csv", table)
        status: int = script.main([str(prices), str(table), "--out", str(self.out)])
        self.stdout, self.stderr = self.capsys.readouterr()
        return status

    def made(self, prices: str | bytes | Path, table: str | bytes | Path = TABLE) -> list[list[float]]:
        """Return the rows of a run that succeeds."""
        assert self.run(prices, table) == 0, self.stderr
        assert self.stderr == ""
        assert [path.name for path in self.out.iterdir()] == ["uk_flats.csv.gz"]
        header, *lines = gzip.decompress((self.out / "uk_flats.csv.gz").read_bytes()).decode().splitlines()
        assert header == "lon,lat,log_price"
        return [[float(field) for field in line.split(",")] for line in lines]

    def refused(self, prices: str | bytes | Path, table: str | bytes | Path = TABLE) -> str:
        """Return the message of a run that fails and must leave nothing."""
        assert self.run(prices, table) == 2
        assert self.stdout == ""
        assert list(self.out.iterdir()) == []
        assert "Traceback" not in self.stderr
        assert ": error: " in self.stderr
        return self.stderr

    def counts(self, file: str) -> dict[str, int]:
        """Return the counts printed for a file, without those of zero; they must add up to the rows read."""
        block = re.search(rf"^.*/{file}:\n((?: .*\n)+)", self.stdout, re.MULTILINE)
        assert block is not None
        lines = [line.strip().split("  ", 1) for line in block[1].splitlines()]
        found = {text.partition(" [")[0]: int(number.replace(",", "")) for number, text in lines}
        assert len(found) == len(lines)
        assert found["rows read"] == sum(found.values()) - found["rows read"]
        return {text: number for text, number in found.items() if number}


@pytest.fixture
def maker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Maker:
    return Maker(tmp_path, capsys)


# What is made


def random_sources(n: int, seed: int = 0) -> tuple[str, str]:
    """Make a table of 300 postcodes, and sales among these and 30 others, with some of each flaw."""
    rng = np.random.default_rng(seed)
    names = [f"{chr(65 + i // 26)}{chr(65 + i % 26)}{i % 10} {i % 9}XY" for i in range(330)]
    places = [f"{i},{name},{rng.uniform(50, 59)!r},{rng.uniform(-6, 2)!r}\n" for i, name in enumerate(names[:300])]
    chosen = rng.integers(0, len(names), n)
    spelled = [names[i] if i % 3 else names[i].lower().replace(" ", "") for i in chosen]
    prices = rng.choice(["", "0", "-5", "x", *map(str, rng.integers(10_000, 900_000, 60))], n)
    kinds = rng.choice(list("DSTFFFFO"), n)
    sales = [
        sale(*map(str, row), status=status) for *row, status in zip(prices, spelled, kinds, "ACD" * n, strict=False)
    ]
    return "".join(sales), "id,postcode,latitude,longitude\n" + "".join(places)


def test_agrees_with_an_independent_join(maker: Maker) -> None:
    sales, table = random_sources(2000)
    places = {row["postcode"].replace(" ", ""): row for row in csv.DictReader(io.StringIO(table))}
    expected, dropped = [], 0
    for row in csv.reader(io.StringIO(sales)):
        place = places.get(row[3].replace(" ", "").upper())
        if row[4] != "F" or place is None or not row[1].isdigit() or int(row[1]) == 0:
            dropped += 1
        else:
            expected.append([float(place["longitude"]), float(place["latitude"]), math.log(int(row[1]))])
    assert min(dropped, len(expected)) > 500
    assert maker.made(sales, table) == expected  # to the last digit, in the order of the sales
    counts = maker.counts("prices.csv")
    assert (counts["rows read"], counts["kept"]) == (2000, len(expected))
    data = load_dataset("uk_flats", maker.out)
    np.testing.assert_array_equal(np.column_stack([data.X, data.y]), expected)
    assert data.feature_names == ("lon", "lat")


def test_bytes_are_the_same_each_time_and_from_gzip(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    sales, table = random_sources(300)
    maker.made(sales, table)
    before = (maker.out / "uk_flats.csv.gz").read_bytes()
    assert before[3:8] == bytes(5)  # neither a file name nor a time
    monkeypatch.setattr("time.time", lambda: 2e9)
    maker.made(put(maker.folder / "p.csv.gz", sales), put(maker.folder / "t.csv.gz", table))
    assert (maker.out / "uk_flats.csv.gz").read_bytes() == before


def test_byte_order_mark_dos_lines_and_blank_lines(maker: Maker) -> None:
    expected = maker.made(sale() + sale("1000", "CC3 3CC"))
    odd = b"\xef\xbb\xbf" + (sale() + "\n" + sale("1000", "CC3 3CC") + "\n").replace("\n", "\r\n").encode()
    without_id = TABLE.replace("id,", "").replace("1,AA", "AA").replace("2,BB", "BB").replace("3,CC", "CC")
    table = b"\xef\xbb\xbf" + (without_id + "\n").replace("\n", "\r\n").encode()
    assert maker.made(odd, table) == expected == [[-0.125, 51.5, math.log(250_000)], [0.1, 50, math.log(1000)]]
    assert maker.counts("prices.csv") == {"rows read": 2, "kept": 2}
    assert maker.counts("table.csv") == {"rows read": 3, "kept": 3}
    assert "kept\n" in maker.stdout


@pytest.mark.parametrize("postcode", ["AA1 1AA", "aa11aa", " A a1\t1aA ", "AA1\u00a01AA"])
def test_postcodes_are_compared_without_case_and_white_space(maker: Maker, postcode: str) -> None:
    assert len(maker.made(sale(postcode=postcode))) == 1
    assert len(maker.made(sale(), TABLE.replace("AA1 1AA", postcode))) == 1


@pytest.mark.parametrize(
    "table",
    [
        "postcode,latitude,longitude\nAA1 1AA,51.5,-0.125\n",
        "Longitude,POSTCODE,area,Latitude\n-0.125,AA1 1AA,x,51.5\n",
        "lon, lat ,postcode\n-0.125,51.5,AA1 1AA\n",
        '"lng","Lat","Postcode"\n"-0.125","51.5","AA1 1AA"\n',
        "long,latitude,id,postcode,x\n-0.125,51.5,1,AA1 1AA,\n",
        "1,AA1 1AA,51.5,-0.125\n",
        "AA1 1AA,51.5,-0.125\n",
        "BB2 2BB,,\nAA1 1AA,51.5,-0.125\n",
    ],
)
def test_variants_of_the_postcode_table(maker: Maker, table: str) -> None:
    assert maker.made(sale(), table) == [[-0.125, 51.5, math.log(250_000)]]


def test_prints_the_attribution_and_where_the_file_is(maker: Maker) -> None:
    maker.made(sale())
    assert str(maker.out / "uk_flats.csv.gz") in maker.stdout
    assert "Contains HM Land Registry data © Crown copyright and database right" in maker.stdout
    assert "Open\nGovernment Licence v3.0" in maker.stdout


# What is dropped


def test_every_dropped_sale_is_counted_under_its_reason(maker: Maker) -> None:
    lines = [
        sale(),
        *[sale(kind="D")] * 2,
        *[sale(kind="S")] * 3,
        *[sale(kind="T")] * 4,
        *[sale(kind="O")] * 5,
        *[sale(kind="")] * 3,
        *[sale(kind="f")] * 3,
        *[sale(postcode=" ")] * 7,
        *[sale(postcode=f"ZZ{i % 5} 9ZZ") for i in range(8)],
        *[sale(price) for price in ("0", "-1", "", "n/a", "nan", "inf", "1e999", "1_000", "£5")],
        sale().replace(',"B"', ""),
        sale().replace(',"B"', ',"B","B"'),
        '"unclosed,' + sale().replace('"', ""),
        "just text\n",
        sale().rstrip("\n"),
    ]
    assert len(maker.made("".join(lines))) == 2
    assert maker.counts("prices.csv") == {
        "rows read": len(lines),
        "kept": 2,
        "not a flat: detached (D)": 2,
        "not a flat: semi-detached (S)": 3,
        "not a flat: terraced (T)": 4,
        "not a flat: other (O)": 5,
        "not a flat: unknown property type": 6,
        "flat without a postcode": 7,
        "flat whose postcode has no position in the table": 8,
        "flat whose price is not a positive number": 9,
        "malformed: wrong number of fields": 4,
    }
    assert "5 distinct postcodes, such as ZZ09ZZ, ZZ19ZZ, ZZ29ZZ]" in maker.stdout
    assert f"malformed: wrong number of fields [first: line {len(lines) - 4}]" in maker.stdout


def test_every_dropped_postcode_is_counted_under_its_reason(maker: Maker) -> None:
    bad = {
        "duplicate with the same coordinates": ["1,aa11aa,51.50,-0.125"],
        "duplicate with other coordinates (the first are kept)": ["1,AA1 1AA,51.5,-0.25", "1,AA1 1AA,52,-0.125"],
        "coordinates empty or not numbers": ["1,AA2 1AA,,", "1,AA2 1AA,51,", "1,AA2 1AA,x,1", "1,AA2 1AA,nan,1"],
        "coordinates of an unknown place (0, 0 or latitude above 99)": ["1,AA3 1AA,0,0.0", "1,AA4 1AA,99.999999,0"],
        "coordinates out of range": ["1,AA5 1AA,90.5,0", "1,AA6 1AA,-91,0", "1,AA7 1AA,51,180.5", "1,AA8 1AA,51,-181"],
        "malformed: no postcode": ["1, ,51,1"],
        "malformed: wrong number of fields": ["1,AA9 1AA,51", "AA9 1AA", '1,"AA9 1AA,51,1'],
    }
    # BB2 2BB has a position only in its second row, CC3 3CC is on the edge of what is possible.
    lines = ["1,AA1 1AA,51.5,-0.125", "1,BB2 2BB,,", *(line for group in bad.values() for line in group)]
    lines += ["1,BB2 2BB,0,5", "1,CC3 3CC,90,-180"]
    sales = [sale(postcode=code) for code in ("AA1 1AA", "BB2 2BB", "CC3 3CC", *(f"AA{i} 1AA" for i in range(2, 10)))]
    made = maker.made("".join(sales), "id,postcode,latitude,longitude\n" + "\n".join(lines))
    assert [row[:2] for row in made] == [[-0.125, 51.5], [5, 0], [-180, 90]]
    expected = {reason: len(group) for reason, group in bad.items()} | {"rows read": len(lines), "kept": 3}
    expected["coordinates empty or not numbers"] += 1
    assert maker.counts("table.csv") == expected
    assert "coordinates empty or not numbers [first: line 3]" in maker.stdout
    assert maker.counts("prices.csv")["flat whose postcode has no position in the table"] == 8


# What is refused

BINARY = bytes(range(256)) * 10
BAD_PRICES = {
    "empty": ("", "prices.csv: of its 0 rows none has 16 fields; expected HM Land Registry's price-paid CSV"),
    "blank": ("\n\n", "of its 0 rows none has 16 fields"),
    "the postcode table": (TABLE, "of its 4 rows none has 16 fields; .*get it from https://www.gov.uk"),
    "no flat": (sale(kind="D"), r"no flat that could be kept; check both files\.\n(.*\n)*.* 1  not a flat: detached"),
    "no match": (sale(postcode="ZZ1 1ZZ"), r"no flat that could be kept(.*\n)*.* 1  flat whose postcode .*ZZ11ZZ"),
    "no price": (sale(price="0"), r"no flat that could be kept(.*\n)*.* 1  flat whose price"),
    "binary": (BINARY, "prices.csv could not be read after line .*codec can't decode.*expected CSV in UTF-8"),
    "latin-1": ((sale() + "\xa3").encode("latin-1"), "could not be read.*0xa3.*expected CSV in UTF-8"),
    "UTF-16": (sale().encode("utf-16"), "could not be read.*expected CSV in UTF-8"),
    "zeros": (bytes(300_000), "prices.csv: line 1 has 100,000 characters or more; expected CSV in UTF-8"),
    "gzip by another name": (gzip.compress(sale().encode()), r"could not be read.*only if its name ends in \.gz"),
}
BAD_TABLES = {
    "empty": ("", "table.csv is empty; expected a header that names postcode, latitude and longitude"),
    "the price-paid file": (sale(), "table.csv is no table of postcodes: its first row is '{9DBAD222},250000,"),
    "unknown names": ("pcd,y,x\nAA1 1AA,51.5,-0.1\n", "first row is 'pcd,y,x'; expected.*https://www.freemaptools"),
    "no latitude": ("postcode,x,lon\nAA1 1AA,51.5,-0.1\n", "is no table of postcodes"),
    "two latitudes": ("postcode,lat,latitude,lon\nAA1 1AA,51.5,5,-0.1\n", "is no table of postcodes"),
    "another order": ("51.5,-0.1,AA1 1AA\n", "is no table of postcodes"),
    "two columns": ("AA1 1AA,51.5\n", "is no table of postcodes"),
    "five columns": ("1,2,AA1 1AA,51.5,-0.1\n", "is no table of postcodes"),
    "semicolons": ("postcode;latitude;longitude\nAA1 1AA;51.5;-0.1\n", "is no table of postcodes"),
    "header only": ("postcode,lat,lon\n", "no postcode with coordinates"),
    "no coordinates": ("postcode,lat,lon\nAA1 1AA,,\n", r"no postcode with coordinates(.*\n)*.* 1  coordinates empty"),
    "binary": (BINARY, "table.csv could not be read"),
}


@pytest.mark.parametrize(("content", "message"), BAD_PRICES.values(), ids=BAD_PRICES)
def test_wrong_price_paid_file(maker: Maker, content: str | bytes, message: str) -> None:
    assert re.search(message, maker.refused(content))


@pytest.mark.parametrize(("content", "message"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_wrong_postcode_table(maker: Maker, content: str | bytes, message: str) -> None:
    assert re.search(message, maker.refused(sale(), content))


def test_missing_files_and_folders(maker: Maker) -> None:
    good, nowhere = put(maker.folder / "good.csv", sale()), maker.folder / "nowhere.csv"
    assert f"{nowhere} is not a file; give the path" in maker.refused(nowhere)
    assert f"{nowhere} is not a file; give the path" in maker.refused(good, nowhere)
    assert f"{maker.folder} is not a file; give the path" in maker.refused(maker.folder)
    maker.out.rmdir()
    assert maker.run(good) == 2
    assert re.search(r"--out is '.*out', which is not a folder; name one that exists", maker.stderr)
    assert not maker.out.exists()


def test_damaged_gzip_leaves_what_was_there(maker: Maker) -> None:
    maker.made(sale())
    before = (maker.out / "uk_flats.csv.gz").read_bytes()
    rng = np.random.default_rng(0)
    whole = gzip.compress("".join(sale(str(price)) for price in rng.integers(1, 10**9, 20_000)).encode())
    path = maker.folder / "cut.csv.gz"
    for damaged in (whole[: len(whole) // 2], whole[:10] + b"\xff" * 50 + whole[60:], sale().encode()):
        path.write_bytes(damaged)
        assert maker.run(path) == 2
        assert "cut.csv.gz could not be read after line" in maker.stderr
        assert maker.stdout == ""
        assert [file.name for file in maker.out.iterdir()] == ["uk_flats.csv.gz"]
        assert (maker.out / "uk_flats.csv.gz").read_bytes() == before


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (KeyboardInterrupt(), 130, ": interrupted; nothing was written\n"),
        (OSError(28, "No space left"), 2, ": error: [Errno 28] No space left\n"),
    ],
)
def test_a_run_that_is_cut_short_leaves_nothing(
    maker: Maker, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: int, message: str
) -> None:
    def log(price: float) -> float:
        assert [path.name for path in maker.out.iterdir()] == [f".uk_flats.csv.gz.{os.getpid()}"]
        raise error

    monkeypatch.setattr(script.math, "log", log)
    assert maker.run(sale()) == status
    assert maker.stdout == ""
    assert maker.stderr.endswith(message)
    assert list(maker.out.iterdir()) == []


def test_runs_as_a_script_beside_its_own_folder(tmp_path: Path) -> None:
    copy = put(tmp_path / SCRIPT.name, SCRIPT.read_bytes())
    prices, table = put(tmp_path / "prices.csv", sale()), put(tmp_path / "table.csv", TABLE)
    command = [sys.executable, str(copy)]
    done = subprocess.run([*command, prices, table], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert (tmp_path / "uk_flats.csv.gz").is_file()
    failed = subprocess.run([*command, prices, tmp_path / "no.csv"], capture_output=True, text=True)
    assert failed.returncode == 2
    assert failed.stderr.startswith("prepare_uk_flats.py: error: ")
    assert failed.stderr.count("\n") == 1


# Large files


def big(path: Path, n: int) -> Path:
    def lines() -> Iterator[str]:
        codes = ("AA1 1AA", "bb22bb", "ZZ9 9ZZ")
        for i in range(n):
            yield sale(str(1000 + i), codes[i % 3], "FFFD"[i % 4])

    with path.open("w", encoding="utf-8") as file:
        file.writelines(lines())
    return path


@pytest.mark.slow
def test_memory_does_not_grow_with_the_sales(maker: Maker) -> None:
    def peak(n: int) -> int:
        path = big(maker.folder / f"{n}.csv", n)
        tracemalloc.start()
        try:
            assert maker.run(path) == 0
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(100)  # what is imported or cached on first use
    small, large = peak(1_000), peak(20_000)
    assert maker.counts("20000.csv")["kept"] == 10_000
    assert large < small + 200_000
    assert large < 2_000_000
