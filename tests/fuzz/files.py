"""Files that are none: tables and model files, changed at random."""

import gzip
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.saving.rewriting import rewritten

Random = np.random.Generator

NAMES = ("a", "b", "y")
WORDS = (
    "",
    "NA",
    "nan",
    "inf",
    "-inf",
    "1e308",
    "-1e308",
    "1e400",
    "1e-320",
    "-0",
    "0x10",
    "1_000",
    "1,5",
    "red",
    "true",
)
WORDS += ("2020-01-31", "12:30", "1e", "--1", "١٢", "½", " 3 ", '"', "'", "\0", "🙂", "=1+1", "#", "9" * 400, "1.2.3")


def _one(values: tuple[str, ...], rng: Random) -> str:
    return values[int(rng.integers(len(values)))]


def good_table(rng: Random) -> str:
    """A table of some numbers in the columns a, b and y."""
    n = int(rng.integers(3, 25))
    rows = rng.normal(size=(n, 3))
    rows[:, 2] = np.sin(rows[:, 0]) + 0.1 * rows[:, 2]
    return ",".join(NAMES) + "\n" + "".join(",".join(f"{value:.6g}" for value in row) + "\n" for row in rows.tolist())


def _change_field(text: str, rng: Random) -> str:
    lines = text.split("\n")
    at = int(rng.integers(len(lines)))
    fields = lines[at].split(",")
    fields[int(rng.integers(len(fields)))] = _one(WORDS, rng)
    lines[at] = ",".join(fields)
    return "\n".join(lines)


def _ragged(text: str, rng: Random) -> str:
    lines = text.split("\n")
    at = int(rng.integers(len(lines)))
    lines[at] = lines[at] + ",7" * int(rng.integers(1, 4)) if rng.random() < 0.5 else lines[at].partition(",")[0]
    return "\n".join(lines)


def _fewer_lines(text: str, rng: Random) -> str:
    return "\n".join(text.split("\n")[: int(rng.integers(0, 4))])


def _same_values(text: str, rng: Random) -> str:
    at = int(rng.integers(3))
    lines = [line.split(",") for line in text.split("\n")]
    value = _one(("0", "1e300", "", "-1e-300"), rng)
    return "\n".join(
        ",".join(value if j == at and i else one for j, one in enumerate(line)) for i, line in enumerate(lines)
    )


def _huge(text: str, rng: Random) -> str:
    scale = _one(("e300", "e155", "e-300", "e-155", "e17"), rng)
    head, _, rest = text.partition("\n")
    return head + "\n" + rest.replace(",", scale + ",")


# Text to text.
OF_TEXT: tuple[Callable[[str, Random], str], ...] = (
    _change_field,
    _change_field,
    _ragged,
    _fewer_lines,
    _same_values,
    _huge,
    lambda text, rng: text.replace(",", _one((";", "\t", "|", " ", ",,", "\0"), rng)),
    lambda text, rng: text.replace(".", ","),
    lambda text, rng: text.replace("\n", _one(("\r\n", "\r", "\n\n", " \n", ",\n"), rng)),
    lambda text, rng: text.replace(
        "a,b,y", _one(("a,a,y", "y,y,y", "a,b", ",b,y", "a,b,Y", "1,2,3", "", "a;b;y"), rng)
    ),
    lambda text, rng: text.replace("a,b,y", 'a,"b,y', 1),
    lambda text, rng: text.replace(",", '","', int(rng.integers(1, 9))),
    lambda text, rng: f"{text}{'9' * 200_000},1,2\n",
    lambda text, rng: f"# a comment\n{text}",
    lambda text, rng: "\n".join([text.partition("\n")[0], *text.split("\n")[1:2] * 20]),
    lambda text, rng: text * 2,
)


def flipped(content: bytes, rng: Random) -> bytes:
    """Change some bits."""
    if not content:
        return content
    array = np.frombuffer(content, np.uint8).copy()
    places = rng.integers(len(array), size=int(rng.integers(1, 6)))
    array[places] ^= (1 << rng.integers(0, 8, len(places))).astype(np.uint8)
    return array.tobytes()


def cut(content: bytes, rng: Random) -> bytes:
    """Leave out the end, or a part in the middle."""
    start, stop = sorted(rng.integers(0, len(content) + 1, 2).tolist())
    return content[:start] + (content[stop:] if rng.random() < 0.3 else b"")


def inserted(content: bytes, rng: Random) -> bytes:
    """Insert random bytes."""
    at = int(rng.integers(len(content) + 1))
    return content[:at] + rng.bytes(int(rng.integers(1, 40))) + content[at:]


def noise(content: bytes, rng: Random) -> bytes:
    """Random bytes in place of everything."""
    return rng.bytes(int(rng.integers(0, 300)))


OF_BYTES: tuple[Callable[[bytes, Random], bytes], ...] = (flipped, cut, inserted, noise)
ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-8", "utf-16", "latin-1", "cp1252", "utf-7")


def bad_table(rng: Random) -> tuple[str, bytes]:
    """A table with some changes, and the ending of its name."""
    text = good_table(rng)
    for change in rng.choice(len(OF_TEXT), int(rng.integers(0, 3))):
        text = OF_TEXT[change](text, rng)
    content = text.encode(_one(ENCODINGS, rng), errors="replace")
    if rng.random() < 0.25:
        content = OF_BYTES[int(rng.integers(len(OF_BYTES)))](content, rng)
    ending = _one((".csv", ".csv", ".csv", ".csv.gz", ".parquet", ".txt", ""), rng)
    if ending == ".csv.gz" and rng.random() < 0.8:
        content = gzip.compress(content, mtime=0)
        if rng.random() < 0.6:
            content = OF_BYTES[int(rng.integers(len(OF_BYTES)))](content, rng)
    return ending, content


# --- model files ---

VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    10**30,
    -0.5,
    1e308,
    "",
    "nan",
    "-1",
    "x",
    [],
    [1],
    {},
    {"kind": "array"},
)


def _changed_tree(tree: Any, rng: Random) -> None:
    """Change one value, at any depth, in place."""
    node = tree
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = keys[int(rng.integers(len(keys)))]
        deeper = node[key]
        if isinstance(deeper, dict | list) and len(deeper) and rng.random() < 0.9:
            node = deeper
            continue
        if isinstance(node, dict) and rng.random() < 0.2:
            del node[key]
        else:
            node[key] = VALUES[int(rng.integers(len(VALUES)))]
        return


def _changed_array(array: Any, rng: Random) -> Any:
    match int(rng.integers(5)):
        case 0:
            return array.reshape(-1)
        case 1:
            return array[..., None]
        case 2:
            return array[:-1] if array.ndim and len(array) else array.astype(np.int64)
        case 3:
            return array.astype(rng.choice(("f4", "i8", "u1", "?")))
    return array * np.nan if array.dtype.kind == "f" else array * 0 - 5


def with_other_contents(content: bytes, rng: Random) -> bytes:
    """Change what a model file says, and write it as a whole file of another version."""

    def change(header: dict[str, Any], arrays: list[Any]) -> None:
        header["lmgp"] = "0.0.1"
        if arrays and rng.random() < 0.3:
            number = int(rng.integers(len(arrays)))
            arrays[number] = _changed_array(arrays[number], rng)
        else:
            _changed_tree(header, rng)
        if arrays and rng.random() < 0.05:
            arrays.pop()

    return rewritten(content, change)


def bad_model(good: list[bytes], rng: Random) -> bytes:
    """A model file with some change."""
    content = good[int(rng.integers(len(good)))]
    if rng.random() < 0.6:
        return with_other_contents(content, rng)
    return OF_BYTES[int(rng.integers(len(OF_BYTES)))](content, rng)


# --- models of LIBSVM ---

OF_LIBSVM = ("0:1", "1:", ":1", "2:1 1:1", "-1:3", "rbf", "SV")


def bad_libsvm(text: str, rng: Random) -> bytes:
    """A model file of LIBSVM with one to three changes."""
    for _ in range(int(rng.integers(1, 4))):
        lines = text.split("\n")
        at = int(rng.integers(len(lines)))
        words = lines[at].split(" ")
        words[int(rng.integers(len(words)))] = _one((*WORDS, *OF_LIBSVM), rng)
        match int(rng.integers(4)):
            case 0:
                del lines[at]
            case 1:
                lines[at] = lines[int(rng.integers(len(lines)))]
            case _:
                lines[at] = " ".join(words)
        text = "\n".join(lines)
    content = text.encode()
    return OF_BYTES[int(rng.integers(len(OF_BYTES)))](content, rng) if rng.random() < 0.2 else content
