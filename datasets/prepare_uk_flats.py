"""Make the data set uk_flats from HM Land Registry's price-paid data and a table of postcodes.

Usage: python datasets/prepare_uk_flats.py PRICE_PAID.csv POSTCODES.csv [--out DIR]

Every flat whose postcode has a position and whose price is positive is kept, with its position in degrees and the
natural log of its price in GBP; nothing is filtered by date, category or record status. So Wacker and Filippone (2022,
section 4.1) prepared their 24,553 flats. Both files are read once, line by line: memory goes to the postcodes alone.
"""

import argparse
import csv
import gzip
import io
import math
import os
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TextIO

from tqdm import tqdm

FILE_NAME = "uk_flats.csv.gz"
N_FIELDS = 16
MAX_LINE = 100_000  # characters; a longer line is of no table, and must not fill the memory
PRICE_PAID_URL = "https://www.gov.uk/government/statistical-data-sets/price-paid-data-downloads"
POSTCODES_URL = "https://www.freemaptools.com/download-uk-postcode-lat-lng.htm"
EXPECTED_PRICES = f"expected HM Land Registry's price-paid CSV, {N_FIELDS} fields a line; get it from {PRICE_PAID_URL}"
EXPECTED_TABLE = (
    "expected a header that names postcode, latitude and longitude once each, or no header and the columns postcode, "
    f"latitude, longitude, with or without an id before them; get such a table from {POSTCODES_URL}"
)
EXPECTED_TEXT = "expected CSV in UTF-8, compressed by gzip only if its name ends in .gz; unpack a .zip file first"
ATTRIBUTION = (
    "Contains HM Land Registry data © Crown copyright and database right. This data is licensed under the Open\n"
    "Government Licence v3.0. The source of the postcode table asks for an attribution of its own.\n"
)


class SourceError(Exception):
    """A file or folder that was named cannot be used; nothing was written."""


class Sale(StrEnum):
    """What became of a row of the price-paid file; of several reasons to drop it, the first that applied."""

    KEPT = "kept"
    DETACHED = "not a flat: detached (D)"
    SEMI = "not a flat: semi-detached (S)"
    TERRACED = "not a flat: terraced (T)"
    OTHER = "not a flat: other (O)"
    UNKNOWN_KIND = "not a flat: unknown property type"
    NO_POSTCODE = "flat without a postcode"
    NO_POSITION = "flat whose postcode has no position in the table"
    BAD_PRICE = "flat whose price is not a positive number"
    MALFORMED = "malformed: wrong number of fields"


class Place(StrEnum):
    """What became of a row of the postcode table."""

    KEPT = "kept"
    REPEATED = "duplicate with the same coordinates"
    CONFLICTING = "duplicate with other coordinates (the first are kept)"
    NO_NUMBERS = "coordinates empty or not numbers"
    UNKNOWN = "coordinates of an unknown place (0, 0 or latitude above 99)"
    OUT_OF_RANGE = "coordinates out of range"
    NO_POSTCODE = "malformed: no postcode"
    MALFORMED = "malformed: wrong number of fields"


NOT_FLAT = {"D": Sale.DETACHED, "S": Sale.SEMI, "T": Sale.TERRACED, "O": Sale.OTHER}


class Tally:
    """Counts the rows of a file. Each is added under one outcome, so the counts add up to the rows read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: Counter[StrEnum] = Counter()
        self.notes: dict[StrEnum, str] = {}

    def add(self, outcome: StrEnum, line: int) -> None:
        """Count a row, and note where the first of each reason to drop it is."""
        self.counts[outcome] += 1
        if outcome != "kept" and outcome not in self.notes:
            self.notes[outcome] = f"first: line {line}"

    def report(self, outcomes: type[StrEnum]) -> str:
        """Return the counts as text, one line each, in the order of `outcomes`."""
        lines = [f"{self.path}:", f"{self.counts.total():>12,}  rows read"]
        for outcome in outcomes:
            note = f" [{self.notes[outcome]}]" if outcome in self.notes else ""
            lines.append(f"{self.counts[outcome]:>12,}  {outcome}{note}")
        return "\n".join(lines) + "\n"


def _read_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the fields of every line that is not blank.

    Each line is parsed by itself: a quotation mark left open spoils that line, not all that follow.
    """
    line = 0
    size = path.stat().st_size
    try:
        with path.open("rb") as file, tqdm(total=size, unit="B", unit_scale=True, desc=path.name, disable=None) as bar:
            stream = io.TextIOWrapper(gzip.GzipFile(fileobj=file) if path.suffix == ".gz" else file, "utf-8-sig")
            while text := stream.readline(MAX_LINE):
                line += 1
                if len(text) == MAX_LINE:
                    raise SourceError(f"{path}: line {line} has {MAX_LINE:,} characters or more; {EXPECTED_TEXT}.")
                if line % 10_000 == 0:
                    bar.update(file.tell() - bar.n)
                if fields := next(csv.reader((text,))):
                    yield line, fields
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"{path} could not be read after line {line}: {error}; {EXPECTED_TEXT}.") from error


def _normal(postcode: str) -> str:
    return "".join(postcode.split()).upper()


def _finite(text: str) -> float | None:
    """Return the number that a field holds, None if it holds no finite one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and "_" not in text else None  # to Python, 1_000 is a number


def _find_columns(path: Path, first: list[str]) -> tuple[list[int], bool]:
    """Return where postcode, latitude and longitude are, and whether the first row is a header."""
    wanted = ({"postcode"}, {"latitude", "lat"}, {"longitude", "lon", "lng", "long"})
    found = [[i for i, name in enumerate(first) if name.strip().lower() in names] for names in wanted]
    if all(len(columns) == 1 for columns in found):
        return [columns[0] for columns in found], True
    n = len(first)
    if n in (3, 4) and not any(found):
        postcode = _normal(first[-3])
        # Every postcode looks like this, and the name of a column does not.
        if postcode[:1].isalpha() and any(map(str.isdigit, postcode)):
            return [n - 3, n - 2, n - 1], False
    raise SourceError(f"{path} is no table of postcodes: its first row is {','.join(first)[:200]!r}; {EXPECTED_TABLE}.")


def _read_postcodes(path: Path) -> tuple[dict[str, complex], Tally]:
    """Return longitude + i latitude of each postcode, and what became of each row of the table.

    There are millions of postcodes, and a complex number takes a third of the memory of a tuple of two floats.
    """
    positions: dict[str, complex] = {}
    tally = Tally(path)
    rows = _read_rows(path)
    top = next(rows, None)
    if top is None:
        raise SourceError(f"{path} is empty; {EXPECTED_TABLE}.")
    columns, has_header = _find_columns(path, top[1])
    for line, fields in rows if has_header else chain([top], rows):
        if len(fields) != len(top[1]):
            tally.add(Place.MALFORMED, line)
            continue
        postcode, latitude, longitude = (fields[column] for column in columns)
        postcode, lat, lon = _normal(postcode), _finite(latitude), _finite(longitude)
        if not postcode:
            outcome = Place.NO_POSTCODE
        elif lat is None or lon is None:
            outcome = Place.NO_NUMBERS
        elif lat > 99 or lat == lon == 0:
            outcome = Place.UNKNOWN
        elif abs(lat) > 90 or abs(lon) > 180:
            outcome = Place.OUT_OF_RANGE
        elif postcode not in positions:
            outcome = Place.KEPT
            positions[postcode] = complex(lon, lat)
        elif positions[postcode] == complex(lon, lat):
            outcome = Place.REPEATED
        else:
            outcome = Place.CONFLICTING
        tally.add(outcome, line)
    if not positions:
        raise SourceError(f"{path} has no postcode with coordinates; {EXPECTED_TABLE}.\n{tally.report(Place)}")
    return positions, tally


def _write_flats(path: Path, positions: dict[str, complex], out: TextIO) -> Tally:
    """Write the flats in the order of the price-paid file; return what became of each of its rows."""
    tally = Tally(path)
    missing: dict[str, None] = {}
    out.write("lon,lat,log_price\n")
    for line, fields in _read_rows(path):
        if len(fields) != N_FIELDS:
            tally.add(Sale.MALFORMED, line)
            continue
        price_text, postcode, kind = fields[1], _normal(fields[3]), fields[4]
        if kind != "F":
            outcome = NOT_FLAT.get(kind, Sale.UNKNOWN_KIND)
        elif not postcode:
            outcome = Sale.NO_POSTCODE
        elif (position := positions.get(postcode)) is None:
            outcome = Sale.NO_POSITION
            missing[postcode] = None
        elif (price := _finite(price_text)) is None or price <= 0:
            outcome = Sale.BAD_PRICE
        else:
            outcome = Sale.KEPT
            out.write(f"{position.real!r},{position.imag!r},{math.log(price)!r}\n")
        tally.add(outcome, line)
    if missing:
        examples = ", ".join(list(missing)[:3])
        tally.notes[Sale.NO_POSITION] += f"; {len(missing):,} distinct postcodes, such as {examples}"
    n = tally.counts.total()
    if n == tally.counts[Sale.MALFORMED]:
        raise SourceError(f"{path}: of its {n:,} rows none has {N_FIELDS} fields; {EXPECTED_PRICES}.")
    if not tally.counts[Sale.KEPT]:
        raise SourceError(f"{path} has no flat that could be kept; check both files.\n{tally.report(Sale)}")
    return tally


@contextmanager
def _whole_or_not_at_all(path: Path) -> Iterator[TextIO]:
    """Open a gzip file that appears only once it is complete, and whose bytes depend on nothing but its text."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with (
            temporary.open("wb") as file,
            gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as binary,
            io.TextIOWrapper(binary, "utf-8", newline="\n") as text,
        ):
            yield text
        temporary.replace(path)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments; those of the process if not given.

    Returns
    -------
    int
        The exit status: 0, 2 after an error that a message on standard error explains, 130 after Ctrl-C.
    """
    parser = argparse.ArgumentParser(description=f"Make {FILE_NAME} from the price-paid data and a postcode table.")
    parser.add_argument("price_paid", type=Path, metavar="PRICE_PAID.csv", help=f"from {PRICE_PAID_URL}")
    parser.add_argument("postcodes", type=Path, metavar="POSTCODES.csv", help=f"from {POSTCODES_URL}")
    here = Path(__file__).resolve().parent
    parser.add_argument("--out", type=Path, default=here, metavar="DIR", help="default: the folder of this script")
    arguments = parser.parse_args(argv)
    target = arguments.out / FILE_NAME
    try:
        for path in (arguments.price_paid, arguments.postcodes):
            if not path.is_file():
                raise SourceError(f"{path} is not a file; give the path of the CSV file, which may end in .csv.gz.")
        if not arguments.out.is_dir():
            raise SourceError(f"--out is {str(arguments.out)!r}, which is not a folder; name one that exists.")
        positions, places = _read_postcodes(arguments.postcodes)
        with _whole_or_not_at_all(target) as out:
            sales = _write_flats(arguments.price_paid, positions, out)
    except (SourceError, OSError) as error:
        sys.stderr.write(f"{parser.prog}: error: {error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write(f"{parser.prog}: interrupted; nothing was written\n")
        return 130
    sys.stdout.write(f"{places.report(Place)}{sales.report(Sale)}wrote {target}\n{ATTRIBUTION}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
