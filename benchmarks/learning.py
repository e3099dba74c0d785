"""Forms of kernels: what each predicts on ten data sets, and how long it takes to learn.

Of each set, at most --rows training rows and as many test rows of the first split, drawn at random; of concrete, the
first three splits. Each form is learned with one lengthscale a column, and predicts from the 128 nearest rows with the
noise that rows left out tell, so that forms differ in nothing else. Of a list of forms, learning takes the one that
predicts rows left out best. "auto" is the sum of three.

    python benchmarks/learning.py [--data-dir DIR] [--rows 4000] [--sets NAME ...] [--threads 2]
    python benchmarks/learning.py --redraw  # the figure and the table alone, from the results

Writes benchmarks/results/learning.json, docs/learning.png and the table in docs/learning_measured.md.
"""

import argparse
import json

import numpy as np
from common import FIGURES, NARROW, RESULTS, WIDTH, write, write_table
from quality import SETS, load
from threadpoolctl import threadpool_limits

SINGLE = "matern12", "matern32", "matern52", "gaussian"
PAIRS = "matern12+matern52", "matern12+gaussian", "matern52+gaussian"
THREE = "matern12+matern52+gaussian"
FORMS = {
    **{name: name for name in (*SINGLE, *PAIRS, THREE)},
    "the best of two sums": ["matern12+matern52", "matern52+gaussian"],
    "the best of all eight": [*SINGLE, *PAIRS, THREE],
}
SPLITS = {"concrete": (0, 1, 2)}
NEIGHBORS = 128
# The height of a name in the figure, in heights of the highest point: names of near points stand above each other.
LINE = 0.045


def rows_of(name, number, args):
    X, y, X_test, y_test, _ = load(name, args.data_dir, number, **SETS[name])
    train, test = (np.random.default_rng(number).permutation(len(rows))[: args.rows] for rows in (y, y_test))
    return X[train], (y[train] - y.mean()) / y.std(), X_test[test], (y_test[test] - y.mean()) / y.std()


def measure(args):
    from lmgp import NearestNeighborsGPRegressor

    def fitted(X, y, label):
        return NearestNeighborsGPRegressor(NEIGHBORS, kernel=FORMS[label], ard=True, noise="auto").fit(X, y)

    def run(name, number, label):
        X, y, X_test, y_test = rows_of(name, number, args)
        model = fitted(X, y, label)
        nlpd, seconds = -float(model.predict_distribution(X_test).logpdf(y_test).mean()), model.learning_.seconds
        return {"set": name, "split": number, "form": label, "nlpd": nlpd, "seconds": seconds, "rows": list(X.shape)}

    rng = np.random.default_rng(0)
    fitted(rng.normal(size=(3000, 2)), rng.normal(size=3000), SINGLE[0])  # compiles what all forms take
    runs = []
    for name in args.sets:
        for number in SPLITS.get(name, (0,)):
            for label in FORMS:
                with threadpool_limits(args.threads):
                    runs.append(run(name, number, label))
                print(f"{name} {number} {label}: NLPD {runs[-1]['nlpd']:.4f}, {runs[-1]['seconds']:.1f} s", flush=True)
        write("learning", {"runs": runs})


def means():
    """Return for each form its mean loss over the best form of each run, the worst one, and the mean seconds."""
    runs = json.loads((RESULTS / "learning.json").read_text())["runs"]
    places = sorted({(run["set"], run["split"]) for run in runs})
    of = {(run["set"], run["split"], run["form"]): run for run in runs}
    nlpd, seconds = (
        np.array([[of[*place, form][key] for form in FORMS] for place in places]) for key in ("nlpd", "seconds")
    )
    names = np.array([name for name, _ in places])  # splits of one set count as one
    sets = list(dict.fromkeys(names))
    by_set, of_time = (np.array([each[names == one].mean(axis=0) for one in sets]) for each in (nlpd, seconds))
    loss = by_set - by_set.min(axis=1, keepdims=True)
    return loss.mean(axis=0), loss.max(axis=0), of_time.mean(axis=0)


def draw():
    import matplotlib.pyplot as plt

    loss, _, seconds = means()
    with plt.rc_context(NARROW):
        figure, ax = plt.subplots(figsize=(WIDTH, 4.2), layout="constrained")
        height = -np.inf
        for label, x, y in sorted(zip(FORMS, seconds, loss, strict=True), key=lambda point: point[2]):
            kind = "o" if label in SINGLE else "s" if label in PAIRS else "*" if label == THREE else "D"
            ax.plot(x, y, kind, color="C3" if label == THREE else "C0", markersize=12 if label == THREE else 7)
            left, height = x > 0.6 * max(seconds), max(y, height + LINE * max(loss))
            of_text = {"ha": "right" if left else "left", "va": "center", "fontsize": 10}
            ax.annotate(label, (x, height), (-8 if left else 10, 0), textcoords="offset points", **of_text)
        ax.set(xlabel="seconds to learn, mean over the sets", ylabel="nats a row behind the best form")
        ax.margins(x=0.1, y=0.12)
        ax.set(xlim=(0.0, None), ylim=(0.0, None))
        ax.grid(alpha=0.25)
        figure.savefig(FIGURES / "learning.png")


def write_page():
    """Put the table into the page, between its marks."""
    loss, worst, seconds = means()
    lines = ["| form | behind the best, mean | at worst | seconds |", "|---|---:|---:|---:|"]
    for label, of_mean, of_worst, of_time in zip(FORMS, loss, worst, seconds, strict=True):
        name = f"**`{label}`**" if label == THREE else label if " of " in label else f"`{label}`"
        lines.append(f"| {name} | {of_mean:.3f} | {of_worst:.3f} | {of_time:.1f} |")
    write_table("learning_measured.md", "forms", lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--data-dir", help="default: the environment variable LMGP_DATA_DIR")
    parser.add_argument("--redraw", action="store_true", help="only draw the figure and write the table")
    args = parser.parse_args()
    if not args.redraw:
        measure(args)
    draw()
    write_page()


if __name__ == "__main__":
    main()
