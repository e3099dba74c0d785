"""The figure and the tables of benchmarks/quality.py, with published results of others beside.

What is published here was found in the sources that are named; what was not found is left out, not filled in.
"""

from typing import NamedTuple

import numpy as np
from common import FIGURES
from matplotlib.figure import Figure

LABELS = {
    "lmgp": "GPRegressor()",
    "lmgp-gaussian": "one Gaussian, 2,000 rows",
    "gpboost-matern32": "GPBoost, Matérn-3/2",
    "gpboost-exponential": "GPBoost, exponential",
    "gpboost-t": "GPBoost, t",
    "gpboost-varying": "GPBoost, noise that varies",
    "ngboost-normal": "NGBoost, normal",
    "ngboost-t": "NGBoost, t",
    "boosting": "gradient boosting",
    "quantile-boosting": "gradient boosting of quantiles",
    "sklearn-gp": "scikit-learn GP, 2,000 rows",
}
STYLES = {
    "lmgp": ("#d7191c", "*", 13), "lmgp-gaussian": ("#fdae61", "o", 6), "gpboost-matern32": ("#000000", "s", 6),
    "gpboost-exponential": ("#8c8c8c", "D", 5), "gpboost-t": ("#000000", "P", 7),
    "gpboost-varying": ("#8c8c8c", "X", 7), "ngboost-normal": ("#cc79a7", "<", 6), "ngboost-t": ("#cc79a7", ">", 6),
    "boosting": ("#009e73", "^", 6), "quantile-boosting": ("#009e73", "h", 7), "sklearn-gp": ("#0072b2", "v", 6),
}  # fmt: skip
OURS = "lmgp"
PAGES = "quality.md", "quality_tables.md"
# Differences of NLPD are drawn as at most this, in nats.
MOST = 10.0
NOTHING = "–"


# The levels of the intervals, and the keys of the shares of targets within them.
COVERAGES = {0.5: "coverage_50", 0.8: "coverage_80", 0.95: "coverage", 0.99: "coverage_99"}


class Column(NamedTuple):
    """A column of the tables: how a number of a run is written, and whether the lowest is best."""

    key: str
    write: str
    lowest: bool = True


COLUMNS = {
    "NLPD": Column("nlpd", "{:.3f}"),
    "CRPS": Column("crps", "{:.3f}"),
    "RMSE": Column("rmse", "{:.3f}"),
    "50%": Column("percent_50", "{:.1f}", False),
    "80%": Column("percent_80", "{:.1f}", False),
    "95%": Column("percent", "{:.1f}", False),
    "99%": Column("percent_99", "{:.1f}", False),
    "fit, s": Column("fit_s", "{:.1f}"),
    "predict, s": Column("predict_s", "{:.1f}"),
    "GiB": Column("peak_gib", "{:.2f}"),
}

# Of which there are means over splits: the number, and its digits.
MEANS = {
    "NLPD": ("nlpd", 3), "CRPS": ("crps", 3), "RMSE": ("rmse", 3), "50%": ("percent_50", 1), "80%": ("percent_80", 1),
    "95%": ("percent", 1), "99%": ("percent_99", 1), "seconds": ("seconds", 1),
}  # fmt: skip


class Exact(NamedTuple):
    """RMSE and NLPD of an exact GP on the same data set, other splits; y in its standard deviations."""

    rmse: float
    nlpd: float


# Wang et al. (2019).
WANG = {"kin40k": Exact(0.080, -0.755), "protein": Exact(0.511, 0.960), "elevators": Exact(0.399, 0.626)}


class Team(NamedTuple):
    """Results of the comparison on modis_lst: RMSE and CRPS in °C, share within 95% intervals, minutes, cores."""

    name: str
    rmse: float | None
    crps: float | None
    coverage: float | None
    minutes: float | None
    cores: int | None  # or threads, or jobs at a time, in the team's script


# Heaton et al. (2019), table 3. Scores: as FRK's authors restate them, where FRK itself is left out. Minutes and cores:
# the scripts of the comparison's own repository, github.com/finnlindgren/heatoncomparison at commit 32a64d2
# (Code/GetResults/GetResults.R and the teams' scripts). None: not found in either.
HEATON = (
    Team("FRK", None, None, None, 134.146 / 60, None),
    Team("Gapfill", 1.86, 1.17, 0.36, 83.527 / 60, 40),
    Team("LatticeKrig", 1.68, 0.87, 0.96, 1675.154 / 60, None),  # its script has a sequential and a parallel mode
    Team("LAGP", 2.08, 1.17, 0.83, 136 / 60, 40),
    Team("Metakriging", 2.50, 1.44, 0.89, 173311 / 60, 30),
    Team("MRA", 1.85, 0.94, 0.92, 936.78 / 60, None),
    Team("NNGP, conjugate", 1.64, 0.85, 0.95, 2.06, 10),
    Team("NNGP, response", 1.68, 0.87, 0.94, 2571 / 60, 12),
    Team("Partition", 1.80, 1.02, 0.86, 4798.6 / 60, 55),
    Team("Predictive processes", 2.52, 1.85, 0.75, 38428.51 / 60, 10),
    Team("SPDE", 1.53, 0.83, 0.97, 7219.541 / 60, 2),
    Team("Tapering", 2.45, 1.32, 0.93, 7995.7 / 60, None),
    Team("Periodic embedding", 1.79, 0.91, 0.93, None, None),
)


def answered(run):
    return "no answer" not in run


def percents(run):
    """Return the shares of targets within intervals, in percent."""
    return {key.replace("coverage", "percent"): 100.0 * run[key] for key in COVERAGES.values() if key in run}


def numbers(run):
    """Return a run with what is computed of it."""
    return run | percents(run) | {"seconds": run["fit_s"] + run["predict_s"]}


def grid(header, rows):
    """Return a Markdown table."""
    lines = [header, ["---"] + ["---:"] * (len(header) - 1), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def scores_table(runs):
    """Return the table of one set: a method a row, the best of a column in bold."""
    found = {run["method"]: run for run in runs}
    answers = [numbers(run) for run in runs if answered(run)]
    lowest = {key: min((run[key] for run in answers if key in run), default=None) for key, *_ in COLUMNS.values()}
    rows = []
    for method in LABELS:
        run = found.get(method)
        if run is None:
            continue
        if not answered(run):
            why = run["no answer"] if "cap_s" in run else "failed"
            rows.append([f"{LABELS[method]}: {why}", *[NOTHING] * len(COLUMNS)])
            continue
        cells = [LABELS[method]]
        for key, write, is_compared in COLUMNS.values():
            value = numbers(run).get(key)
            text = NOTHING if value is None else write.format(value)
            cells.append(f"**{text}**" if is_compared and value is not None and value == lowest[key] else text)
        rows.append(cells)
    return grid(["", *COLUMNS], rows)


def ours_table(results):
    """Return the table of GPRegressor() alone: NLPD beside that of normal noise, and the shares within intervals."""
    rows = []
    for name in results:
        run = ours(results, name)
        if run is None or "beside" not in run:
            continue
        normal, conformal = run["beside"]["normal"], run["beside"]["conformal"]
        shares = [f"{value:.1f}" for one in (run, conformal) for value in percents(one).values()]
        rows.append([name, f"{run['nlpd']:.3f}", f"{normal['nlpd']:.3f}", *shares])
    kinds = "{:.0%}", "conformal, {:.0%}"
    return grid(
        ["set", "NLPD", "normal noise, NLPD", *(kind.format(level) for kind in kinds for level in COVERAGES)], rows
    )


def sizes_table(results):
    """Return the table of rows and columns."""
    rows = []
    for name, runs in results.items():
        sizes = next((run["rows"] for run in runs if answered(run)), None)
        if sizes is not None:
            rows.append([name, *(f"{size:,}" for size in sizes)])
    return grid(["set", "training rows", "test rows", "columns"], rows)


def splits_table(results, others):
    """Return the table of means over splits, with their standard errors: of runs on the first and on other splits."""
    rows = []
    for name, runs in others.items():
        for method in LABELS:
            found = [run for run in results.get(name, []) + runs if run["method"] == method and answered(run)]
            if len(found) > 1:
                rows.append([name, LABELS[method], str(len(found)), *(mean(found, *one) for one in MEANS.values())])
    return grid(["set", "method", "splits", *MEANS], rows)


def mean(runs, key, digits):
    """Write the mean of a score over splits and its standard error."""
    values = np.array([numbers(run).get(key, np.nan) for run in runs])
    if np.isnan(values).any():
        return NOTHING
    return f"{values.mean():.{digits}f} ± {values.std(ddof=1) / np.sqrt(len(values)):.{digits}f}"


def load_note(results):
    """Say what else the machine did: seconds of runs that share it are too long."""
    loads = [run["load"] for runs in results.values() for run in runs if "load" in run]
    if not loads:
        return ""
    return f"The machine's load average just before the runs: {min(loads):.1f} to {max(loads):.1f}."


def ours(results, name):
    return next((run for run in results.get(name, ()) if run["method"] == OURS and answered(run)), None)


def wang_table(results):
    rows = []
    for name, exact in WANG.items():
        run = ours(results, name)
        mine = [NOTHING] * 3 if run is None else [f"{run['rmse']:.3f}", f"{run['nlpd']:.3f}", f"{run['fit_s']:.0f}"]
        rows.append([name, f"{exact.rmse:.3f}", f"{exact.nlpd:.3f}", *mine])
    header = ["set", "RMSE, Wang et al.", "NLPD, Wang et al.", "RMSE, here", "NLPD, here", "seconds to learn, here"]
    return grid(header, rows)


def heaton_table(results):
    """Return the table of the comparison's teams and of what was measured here, by RMSE."""
    teams = [(team.rmse, team) for team in HEATON]
    for run in results.get("modis_lst", ()):
        if answered(run) and "crps" in run:
            sd, minutes = run["target_sd"], numbers(run)["seconds"] / 60
            name = f"**{LABELS[run['method']]}**, here"
            error = run["rmse"] * sd if "rmse" in run else None  # of quantiles alone there is none
            team = Team(name, error, run["crps"] * sd, run["coverage"], minutes, run["threads"])
            teams.append((team.rmse, team))
    teams.sort(key=lambda pair: (pair[0] is None, pair[0]))

    def cell(value, form):
        return NOTHING if value is None else form.format(value)

    rows = [
        [team.name, cell(team.rmse, "{:.2f}"), cell(team.crps, "{:.2f}"), cell(team.coverage, "{:.0%}"),
         cell(team.minutes, "{:,.1f}"), cell(team.cores, "{}")]
        for _, team in teams
    ]  # fmt: skip
    return grid(["method", "RMSE, °C", "CRPS, °C", "within 95% intervals", "minutes", "cores or threads"], rows)


def write_pages(results, others, folder):
    """Put the tables into the pages on quality, each between its marks, and write these to a folder."""
    parts = {
        "sizes": sizes_table(results),
        "ours": ours_table(results),
        "scores": "\n\n".join(
            [*(f"**{name}**\n\n{scores_table(runs)}" for name, runs in results.items()), load_note(results)]
        ).rstrip(),
        "splits": splits_table(results, others),
        "wang": wang_table(results),
        "heaton": heaton_table(results),
    }
    for page in PAGES:
        text = (FIGURES / page).read_text(encoding="utf-8")
        for name in [name for name in parts if f"<!-- {name} -->" in text]:
            before, _, rest = text.partition(f"<!-- {name} -->\n")
            _, end, after = rest.partition("<!-- end -->")
            text = f"{before}<!-- {name} -->\n\n{parts.pop(name)}\n\n{end}{after}"
        (folder / page).write_text(text, encoding="utf-8")
    assert not parts, f"no page has marks for {', '.join(parts)}"


def draw(results, path):
    """Draw NLPD, CRPS and RMSE beside the best other method, coverage, and seconds: a set a line.

    Two panels a row, and letters that can be read where the figure is 390 pixels wide.
    """
    figure = Figure(figsize=(6.8, 4.0 + 1.02 * len(results)), layout="constrained")
    panels = figure.subplots(3, 2, sharey=True).ravel()
    titles = (
        f"NLPD less that of the best\nother, nats a row (±{MOST:g}: or more)",
        "CRPS over that of the\nbest other method",
        "targets within\n50% intervals, percent",
        "targets within\n95% intervals, percent",
        "RMSE over that of the\nbest other method",
        "seconds to fit and predict\n(×: no answer in time)",
    )
    for line, runs in enumerate(results.values()):
        found = {run["method"]: numbers(run) for run in runs if answered(run)}
        best = {
            key: min((run[key] for method, run in found.items() if method != OURS and key in run), default=None)
            for key in ("nlpd", "crps", "rmse")
        }
        for method, run in found.items():
            known = {key for key, lowest in best.items() if key in run and lowest is not None}
            lead = run["nlpd"] - best["nlpd"] if "nlpd" in known else None
            values = (
                None if lead is None else min(max(lead, -MOST), MOST),
                run["crps"] / best["crps"] if "crps" in known else None,
                run.get("percent_50"),
                run.get("percent"),
                run["rmse"] / best["rmse"] if "rmse" in known else None,
                run["seconds"],
            )
            colour, marker, size = STYLES[method]
            for axes, value in zip(panels, values, strict=True):
                if value is not None:
                    order = 3 if method == OURS else 2
                    axes.plot(value, line, marker, color=colour, markersize=size, label=LABELS[method], zorder=order)
        for number, run in enumerate(run for run in runs if "cap_s" in run):  # beside each other
            panels[5].plot(run["cap_s"] * 1.25**number, line, "x", color=STYLES[run["method"]][0], markersize=8)
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize=12)
        axes.tick_params(labelsize=11)
        axes.grid(alpha=0.25)
        axes.set_axisbelow(True)
    panels[0].axvline(0.0, color="black", linewidth=0.8)
    panels[0].set_xscale("symlog", linthresh=0.1)
    panels[0].set_xticks([-MOST, -1.0, 0.0, 1.0, MOST])
    panels[0].set_xlim(-1.5 * MOST, 1.5 * MOST)
    panels[0].xaxis.set_major_formatter("{x:g}")
    for axes, level in ((panels[2], 50.0), (panels[3], 95.0)):
        axes.axvspan(level - 3.0, level + 3.0, color="#009e73", alpha=0.12)
        axes.axvline(level, color="black", linewidth=0.8)
    for axes in (panels[1], panels[4]):
        axes.axvline(1.0, color="black", linewidth=0.8)
    panels[5].set_xscale("log")
    panels[5].xaxis.set_major_formatter("{x:g}")
    panels[5].xaxis.set_minor_formatter("")
    panels[0].set_yticks(range(len(results)), list(results))
    panels[0].set_ylim(len(results) - 0.5, -0.5)
    handles = {}
    for axes in panels:
        handles |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    order = [label for label in LABELS.values() if label in handles]
    figure.legend([handles[label] for label in order], order, loc="outside lower center", ncols=2, fontsize=11)
    figure.savefig(path, dpi=120)
