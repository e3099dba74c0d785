"""Tables as they come: categories and missing values, beside encoders, imputers and other packages.

Categories: made rows of three numbers and one column of 5, 50 or 5,000 categories, each with an effect of its own.
`GPRegressor()` on the table, on its `OneHotEncoder`'s columns (up to 50 categories), and on `TargetEncoder`'s; GPBoost
with a random effect of each category beside boosted trees. (Its random effects beside a Gaussian process had not ended
after five minutes on 2,000 rows.)

Missing: of real sets, at most --rows training rows, of which values are missing at random, as of the test rows.
`GPRegressor(missing="impute")`, `GPRegressor()` after `SimpleImputer`'s medians, and
`HistGradientBoostingRegressor`, with the standard deviation of its errors in five folds.

    pip install gpboost==1.8.0
    python benchmarks/tables.py [--data-dir DIR] [--draws 3] [--rows 1000] [--tables categories missing]
    python benchmarks/tables.py --redraw  # the tables alone, from the results

Writes benchmarks/results/tables.json, and the tables in docs/columns_measured.md.
"""

import argparse
import json
import warnings
from itertools import product

import numpy as np
import pandas as pd
from common import RESULTS, timed, write, write_table
from quality import SETS, load
from scipy.stats import norm
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection import cross_val_predict
from sklearn.preprocessing import OneHotEncoder, TargetEncoder

# The numbers of categories, and of training rows.
LEVELS, N_TEST, NOISE = {5: 2000, 50: 5000, 5000: 20_000}, 3000, 0.3
SHARES, GAPS = (0.05, 0.2, 0.4), ("concrete", "kin8nm", "protein")
NAMES = {
    "lmgp": "`GPRegressor()`",
    "onehot": "`OneHotEncoder`, `GPRegressor()`",
    "target": "`TargetEncoder`, `GPRegressor()`",
    "gpboost-trees": "GPBoost, trees and random effects",
    "impute": '`GPRegressor(missing="impute")`',
    "median": "`SimpleImputer`, `GPRegressor()`",
    "trees": "`HistGradientBoostingRegressor`",
}


def made(n_levels, n, draw):
    """Return three numbers, the category, y and its mean, of training and test rows."""
    rng = np.random.default_rng(draw)
    X, code = rng.uniform(size=(n + N_TEST, 3)), rng.integers(n_levels, size=n + N_TEST)
    mean = np.sin(5.0 * X[:, 0]) + np.cos(4.0 * X[:, 1] * X[:, 2]) + rng.normal(size=n_levels)[code]
    return X, code, mean + NOISE * rng.normal(size=len(mean)), mean


def of_lmgp(X, X_test):
    from lmgp import GPRegressor

    def fit(y):
        model = GPRegressor(random_state=0, missing="impute").fit(X, y)
        return lambda: model.predict_distribution(X_test)

    return fit


def of_gpboost(X, code, n):
    import gpboost

    def fit(y):
        options = {"learning_rate": 0.05, "max_depth": 6, "verbose": -1}
        effects = gpboost.GPModel(group_data=code[:n])
        trees = gpboost.train(options, gpboost.Dataset(X[:n], y), gp_model=effects, num_boost_round=300)
        return lambda: trees.predict(data=X[n:], group_data_pred=code[n:], pred_latent=False)["response_mean"]

    return fit


def of_categories(n_levels, draw):
    n = LEVELS[n_levels]
    X, code, y, mean = made(n_levels, n, draw)
    text = np.char.add("level ", code.astype(str))
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(category=text)
    fits = {"lmgp": of_lmgp(table[:n], table[n:])}
    if n_levels <= 50:
        encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore").fit(text[:n, None])
        columns = np.column_stack((X, encoder.transform(text[:, None])))
        fits["onehot"] = of_lmgp(columns[:n], columns[n:])
    encoder = TargetEncoder(random_state=0, target_type="continuous")
    train = np.column_stack((X[:n], encoder.fit_transform(text[:n, None], y[:n])))
    fits["target"] = of_lmgp(train, np.column_stack((X[n:], encoder.transform(text[n:, None]))))
    fits["gpboost-trees"] = of_gpboost(X, code, n)
    for name, fit in fits.items():
        yield {"levels": n_levels, "n": n, "draw": draw, "method": name, **scored(fit, y[:n], y[n:], mean[n:])}


def of_gaps(name, share, draw, args):
    X, y, X_test, y_test, _ = load(name, args.data_dir, 0, **SETS[name])
    rng = np.random.default_rng(draw)
    train, test = rng.permutation(len(y))[: args.rows], rng.permutation(len(y_test))[:2000]
    X, y, X_test, y_test = X[train].copy(), y[train] / y.std(), X_test[test].copy(), y_test[test] / y.std()
    for table in (X, X_test):
        table[rng.random(table.shape) < share] = np.nan
    imputer = SimpleImputer(strategy="median").fit(X)

    def trees(y):
        model = HistGradientBoostingRegressor(random_state=0)
        spread = np.std(cross_val_predict(model, X, y) - y)
        model.fit(X, y)
        return lambda: norm(model.predict(X_test), spread)

    fits = {"impute": of_lmgp(X, X_test), "median": of_lmgp(imputer.transform(X), imputer.transform(X_test))}
    for method, fit in {**fits, "trees": trees}.items():
        found = scored(fit, y, y_test, y_test)
        yield {"set": name, "share": share, "draw": draw, "method": method, **found}


def scored(fit, y, y_test, mean):
    """Fit and predict: RMSE from the means of the test rows, and NLPD of the rows themselves."""
    from lmgp.learning.engine import remembered

    remembered.cache_clear()  # of another line, which has learned from the same rows
    seconds, predict = timed(lambda: fit(y))
    predicted = predict()
    means = predicted.mean() if hasattr(predicted, "mean") and hasattr(predicted, "logpdf") else predicted
    found = {"rmse": float(np.sqrt(np.mean(np.square(means - mean)))), "fit_s": round(seconds, 2)}
    if means is not predicted:
        found["nlpd"] = float(-predicted.logpdf(y_test).mean())
    return found


def write_pages():
    """Put the tables into the page, between their marks."""
    results = json.loads((RESULTS / "tables.json").read_text())
    if "categories" in results:
        lines = ["| categories, rows | | RMSE of the function | NLPD |", "|---|---|---:|---:|"]
        groups = product((f"{levels:,}, {n:,}" for levels, n in LEVELS.items()), NAMES)
        write_table(
            "columns_measured.md",
            "categories",
            lines + list(_lines(results["categories"], groups, _case_of_categories)),
        )
    if "missing" in results:
        lines = ["| set, missing | | RMSE | NLPD |", "|---|---|---:|---:|"]
        groups = product((f"{name}, {share:.0%}" for name, share in product(GAPS, SHARES)), NAMES)
        write_table("columns_measured.md", "missing", lines + list(_lines(results["missing"], groups, _case_of_gaps)))


def _case_of_categories(run):
    return f"{run['levels']:,}, {run['n']:,}"


def _case_of_gaps(run):
    return f"{run['set']}, {run['share']:.0%}"


def _lines(runs, groups, case_of):
    for case, method in groups:
        some = [run for run in runs if (case_of(run), run["method"]) == (case, method)]
        if some:
            told = [_mean(some, "rmse"), _mean(some, "nlpd") if "nlpd" in some[0] else "-"]
            yield f"| {case} | {NAMES[method]} | {' | '.join(told)} |"


def _mean(runs, name):
    values = [run[name] for run in runs]
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else f"{values[0]:.3f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data-dir")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--tables", nargs="+", choices=("categories", "missing"), default=["categories", "missing"])
    parser.add_argument("--redraw", action="store_true", help="only write the tables of what is in the results")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = {
        "categories": (of_categories(levels, draw) for levels, draw in product(LEVELS, range(args.draws))),
        "missing": (of_gaps(*case, args) for case in product(GAPS, SHARES, range(args.draws))),
    }
    for table in [] if args.redraw else args.tables:
        runs = []
        for case in cases[table]:
            for run in case:
                runs.append(run)
                print(json.dumps(run), flush=True)
                write("tables", {table: runs})
    write_pages()


if __name__ == "__main__":
    main()
