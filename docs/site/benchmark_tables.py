"""The page of the benchmarks, from raw results: what each measures, its command, where it ran, and its figures."""

import ast
import json
import re
from statistics import median

MOST_ROWS = 24
# Columns that tell runs of one setting apart; what is to be read is their median.
RUNS = ("seed", "repeat")
# Files with several runs of one setting, without a column that numbers them.
REPEATED = {"clustering", "dense_fit"}
# Results that a script of another name writes.
SCRIPTS = {"localized_million": "million"}


def benchmarks_page(root):
    """Return the page of all files in benchmarks/results."""
    parts = [
        "# Benchmarks",
        "What was measured, by script, from the raw results in the repository. Each file has every run with its "
        "command and its environment; the tables here leave columns out, and show medians of runs of one "
        "setting. Seconds compare methods that ran side by side; those of two files may come from two machines. "
        "To measure again, run the command in a copy of the repository.",
    ]
    for path in sorted((root / "benchmarks/results").glob("*.json")):
        parts += _section(root, path)
    return "\n\n".join(parts) + "\n"


def _section(root, path):
    found = json.loads(path.read_text(encoding="utf-8"))
    name = SCRIPTS.get(path.stem, path.stem)
    told = ast.get_docstring(ast.parse((root / f"benchmarks/{name}.py").read_text(encoding="utf-8")))
    title, *rest = told.split("\n\n")
    what = rest[0] if rest and not rest[0].startswith(("    ", "python")) else ""
    commands = sorted(
        {" ".join(one["command"]) for one in [found, *found.get("measured", {}).values()] if "command" in one}
    )
    if not commands:
        commands = [f"benchmarks/{name}.py"]
    commands = [one if one.startswith("benchmarks/") else f"benchmarks/{one}" for one in commands]
    pages = [
        one for one in sorted((root / "docs").glob("*.md")) if re.search(rf"benchmarks/{name}\.py", one.read_text())
    ]
    read = ", ".join(f"[{_title(one)}](docs/{one.name})" for one in pages)
    lines = [
        *(f"- Command: `python {one}`" for one in commands),
        f"- Environment: {_environment(found)}",
        f"- Raw results: [{path.name}](benchmarks/results/{path.name})",
        *([f"- More about it: {read}"] if read else []),
    ]
    heading = f"## {path.stem.replace('_', ' ').capitalize()}"
    return [
        heading,
        _sentence(title),
        *([what] if what else []),
        "\n".join(lines),
        *_tables(found, path.stem in REPEATED),
    ]


def _title(page):
    return page.read_text(encoding="utf-8").splitlines()[0].lstrip("# ").rstrip()


def _sentence(text):
    return " ".join(text.split())


def _environment(found):
    """Return the versions of what ran, and its machine."""
    places = [found.get("environment", {}), *(one.get("environment", {}) for one in found.get("measured", {}).values())]
    told = set()
    for place in places:
        place = {**place, **place.get("libraries", {})}
        keys = ("python", "numpy", "scipy", "torch", "scikit-learn", "gpboost", "torch threads", "cpus")
        told.add(", ".join(f"{key} {place[key]}" for key in keys if key in place))
    told = sorted(one for one in told if one) or [f"python {found['python']}" if "python" in found else "not recorded"]
    return "; ".join(told)


def _tables(found, repeated):
    """Return the tables of a file, each with its name; tables of the same columns are one."""
    tables = {}
    for key, value in found.items():
        if key == "share by kind of code":
            value = [{"code": name, "share": share} for name, share in value.items()]
        if not (isinstance(value, list) and value and isinstance(value[0], dict)):
            continue
        if "medians" in found and key == "runs":
            continue
        if all("medians" in row for row in value):
            value = [{"set": row["set"], **one} for row in value for one in row["medians"]]
        rows = [_scalars(row) for row in value]
        alike = next((name for name, others in tables.items() if set(others[0]) - {"set"} == set(rows[0])), None)
        if alike is None:
            tables[key] = rows
        else:
            told = tables.pop(alike)
            told = told if "set" in told[0] else [{"set": alike, **row} for row in told]
            tables["all sets"] = [*told, *({"set": key, **row} for row in rows)]
    return [part for name, rows in tables.items() for part in _table(name, rows, repeated)]


def _scalars(row):
    """Return what of a row fits into a cell."""
    kept = {}
    for key, value in row.items():
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            value = ", ".join(value)
        if (value is None or isinstance(value, str | int | float)) and len(str(value)) <= 60:
            kept[key] = value
    return kept


def _table(name, rows, repeated):
    rows = _medians(rows, repeated)
    columns = list(dict.fromkeys(key for row in rows for key in row))
    shown = rows[:MOST_ROWS]
    lines = [f"| {' | '.join(columns)} |", "|" + " --- |" * len(columns)]
    lines += [f"| {' | '.join(_cell(row.get(key)) for key in columns)} |" for row in shown]
    more = [f"The first {len(shown)} of {len(rows)} lines; the file has all."] if len(rows) > len(shown) else []
    return [f"### {name.replace('_', ' ')}", "\n".join(lines), *more]


def _medians(rows, repeated=False):
    """Return one row for runs of one setting, with the medians of what was measured in fractions.

    Runs of one setting have the same text and whole numbers, and different seeds. Where two of them have one seed, a
    fraction is a setting, too, and all rows stay.
    """
    settings = {}
    for row in rows:
        key = tuple((name, _is_fraction(value) or str(value)) for name, value in row.items() if name not in RUNS)
        settings.setdefault(key, []).append(row)
    found = []
    for group in settings.values():
        seeds = [tuple(row.get(name) for name in RUNS) for row in group]
        alike = repeated or len(set(seeds)) == len(group)
        found += [_median(group)] if alike and len(group) > 1 else group
    return found


def _median(group):
    kept = {name: value for name, value in group[0].items() if name not in RUNS}
    return {name: median(row[name] for row in group) if _is_fraction(value) else value for name, value in kept.items()}


def _is_fraction(value):
    return isinstance(value, float)


def _cell(value):
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if isinstance(value, float) else str(value).replace("|", "\\|")
