"""``lmgp plot`` and ``lmgp score --report``: what is on the page, and what is refused."""

import base64
import io
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.image
import numpy as np
import pandas as pd
import pytest

import lmgp
from lmgp import FeaturizedGPRegressor, GaussianKernel, LocalizedGPRegressor, TaylorFeatures
from lmgp.cli import main
from lmgp.metrics import nlpd, rmse
from lmgp.sgd import KernelSGDRegressor

NASTY = "<b>&\"$x$'"


def frame(n: int, d: int, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 5.0, (n, d))
    columns = pd.DataFrame(X, columns=[NASTY, "b", "c"][:d])
    return columns.assign(price=np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=n))


@pytest.fixture
def fitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes model.lmgp by ``lmgp fit`` of a number of input columns, and test.csv, in the working folder."""
    monkeypatch.chdir(tmp_path)

    def make(d: int) -> None:
        frame(50, d).to_csv("train.csv", index=False)
        frame(20, d, seed=1).to_csv("test.csv", index=False)
        options = ["--kernel", "gaussian", "--ard", "no", "--noise", "normal", "--noise-variance", "0.01", "--quiet"]
        assert main(["fit", "train.csv", "--target", "price", "--out", "model.lmgp", *options]) == 0

    return make


class Page(HTMLParser):
    """The titles, the cells and the images of a page."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.source = Path(path).read_text(encoding="utf-8")
        self.titles: list[str] = []
        self.lines: list[list[str]] = []  # the cells of tables
        self.images: list[tuple[str, bytes]] = []
        self.tags: list[str] = []
        self._into: list[str] | None = None
        self.feed(self.source)
        self.close()
        self.scores = {line[0]: line[1] for line in self.lines}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in ("tr", "dt"):
            self.lines.append([])
        cells = ("th", "td", "dt", "dd")
        self._into = self.titles if tag in ("h2", "h3") else self.lines[-1] if tag in cells else None
        if self._into is not None:
            self._into.append("")
        if tag == "img":
            values = dict(attrs)
            encoded = (values["src"] or "").removeprefix("data:image/png;base64,")
            self.images.append((values["alt"] or "", base64.b64decode(encoded, validate=True)))

    def handle_endtag(self, tag: str) -> None:
        self._into = None

    def handle_data(self, data: str) -> None:
        if self._into is not None:
            self._into[-1] += data


PREDICTIONS = ["Prediction against truth", "Calibration"]
FIELDS = {1: ["Mean and band"], 2: ["Map of the mean and the standard deviation"], 3: []}


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2, 3])
def test_a_table_gives_scores_first_and_then_all_figures(d: int, fitted: Callable[[int], None]) -> None:
    fitted(d)
    assert main(["plot", "model.lmgp", "test.csv", "--quiet"]) == 0
    page = Page("model.html")
    missing = ["Not drawn"] if d == 3 else []
    figures = [*PREDICTIONS, *FIELDS[d], "Importance of columns"]
    tried = ["Learning the kernel", "Choosing the model"]
    assert page.titles == ["Scores", "The model", "Figures", *figures, *missing, *tried]
    test, model = frame(20, d, seed=1), lmgp.load("model.lmgp")
    mean, std = model.predict(test.drop(columns="price"), return_std=True, include_noise=True)
    assert float(page.scores["RMSE"]) == pytest.approx(rmse(test["price"], mean), rel=1e-5)
    assert float(page.scores["NLPD"]) == pytest.approx(nlpd(test["price"], mean, std**2), rel=1e-5)
    for alt, png in page.images:
        assert len(alt) > 20
        pixels = matplotlib.image.imread(io.BytesIO(png), format="png")[..., :3]
        assert pixels.shape[1] == 704
        assert 0.3 < pixels.mean() < 0.99


def test_the_page_needs_nothing_else_and_reads_on_a_narrow_screen(fitted: Callable[[int], None]) -> None:
    fitted(2)
    assert main(["plot", "model.lmgp", "test.csv", "--out", "page.html", "--quiet"]) == 0
    page = Page("page.html")
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert not re.search(r"https?:|url\(|@import", page.source)
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in page.source
    assert set(re.findall(r'href="#(.+?)"', page.source)) <= set(re.findall(r'id="(.+?)"', page.source))


def test_names_are_escaped(fitted: Callable[[int], None]) -> None:
    fitted(2)
    assert main(["plot", "model.lmgp", "--quiet"]) == 0
    page = Page("model.html")
    assert "<b>" not in page.source
    assert f"by {NASTY}, b" in page.scores["fitted to"]


@pytest.mark.parametrize(("d", "field"), FIELDS.items())
def test_a_model_alone_shows_what_it_has(
    d: int, field: list[str], fitted: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    fitted(d)
    capsys.readouterr()
    assert main(["plot", "model.lmgp"]) == 0
    assert capsys.readouterr().out == "model.html\n"
    page = Page("model.html")
    assert [title for title in page.titles if title in [*PREDICTIONS, *field]] == field
    assert "Importance of columns" in page.titles
    assert "scores need a table" in page.source
    assert "these need a table that has the target" in page.source


def test_the_report_of_score_is_the_page_of_plot(
    fitted: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    fitted(1)
    capsys.readouterr()
    assert main(["plot", "model.lmgp", "test.csv", "--level", "0.5", "--out", "a.html", "--quiet"]) == 0
    capsys.readouterr()
    assert main(["score", "model.lmgp", "test.csv", "--level", "0.5", "--report", "b.html", "--quiet"]) == 0
    assert Path("a.html").read_bytes() == Path("b.html").read_bytes()
    rows, heading, *printed = capsys.readouterr().out.splitlines()
    page = Page("b.html")
    assert rows == "rows  20"
    assert f"{rows.split()[1]} rows of the table" in page.source
    assert re.split(r"  +", heading) == page.lines[0] == ["", "model", "mean of y", "linear"]
    assert [re.split(r"  +", line) for line in printed] == [
        [cell for cell in line if cell] for line in page.lines[1 : 1 + len(printed)]
    ]
    assert page.scores["coverage of 50% intervals"]
    assert "The mean, and 50% intervals of the function." in Page("b.html").source


@pytest.mark.slow
def test_a_model_that_is_worse_than_a_line_is_seen_on_the_page(fitted: Callable[[int], None]) -> None:
    fitted(2)
    test = frame(20, 2, seed=1)
    test["price"] = 10.0 * test["b"]
    test.to_csv("line.csv", index=False)
    train = frame(50, 2)
    train.assign(price=10.0 * train["b"] + 0.1 * train["price"]).to_csv("train.csv", index=False)
    short = ["--kernel", "gaussian", "--ard", "no", "--noise", "normal", "--noise-variance", "1000", "--quiet"]
    assert main(["fit", "train.csv", "--target", "price", "--out", "model.lmgp", *short]) == 0
    assert main(["plot", "model.lmgp", "line.csv", "--quiet"]) == 0
    page = Page("model.html")
    ((_, of_model, of_mean, of_line),) = [line for line in page.lines if line[0] == "RMSE"]
    train = pd.read_csv("train.csv")
    assert float(of_mean) == pytest.approx(rmse(test["price"], np.full(20, train["price"].mean())), rel=1e-5)
    design = np.column_stack((np.ones(50), train.iloc[:, :2]))
    slopes = np.linalg.lstsq(design, train["price"], rcond=None)[0]
    line = np.column_stack((np.ones(20), test.iloc[:, :2])) @ slopes
    assert float(of_line) == pytest.approx(rmse(test["price"], line), rel=1e-5)
    assert float(of_line) < float(of_model)
    assert "a linear model of the training rows" in page.source
    model = lmgp.load("model.lmgp")
    model.save("alone.lmgp")  # which knows no training targets
    assert main(["plot", "alone.lmgp", "line.csv", "--target", "price", "--out", "alone.html", "--quiet"]) == 0
    assert Page("alone.html").lines[0] == ["", "model"]
    assert "a linear model" not in Page("alone.html").source


def test_a_model_saved_in_python_has_its_centroids_and_its_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = frame(60, 2)
    table.to_csv("test.csv", index=False)
    model = LocalizedGPRegressor(TaylorFeatures(15), kernel=GaussianKernel(1.0), noise_variance=0.01)
    model.fit(table.iloc[:, :2].to_numpy(), table["price"]).save("model.lmgp")
    assert main(["plot", "model.lmgp", "--quiet"]) == 0
    alone = Page("model.html")
    assert alone.titles[3:] == ["Importance of columns", "Columns of the map by degree", "Not drawn"]
    assert "the file does not say where the training rows are" in alone.source
    assert main(["plot", "model.lmgp", "test.csv", "--target", "price", "--quiet"]) == 0
    assert Page("model.html").titles[3:] == [
        *PREDICTIONS, *FIELDS[2], "Centroids and their reach", "Importance of columns", "Columns of the map by degree",
    ]  # fmt: skip


def test_a_model_without_training_rows_has_no_importance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = frame(30, 3)
    model = FeaturizedGPRegressor(kernel=GaussianKernel(1.0), noise_variance=1.0)
    model.fit([(table.iloc[:, :3].to_numpy(), table["price"].to_numpy())]).save("model.lmgp")
    assert main(["plot", "model.lmgp", "--quiet"]) == 0
    assert "The importance of columns: the model has neither it" in Page("model.html").source


# ------------------------------------------------------------------------------------------------------------ bad input


REFUSED = [
    ("plot model.lmgp --out nowhere/page.html", "there is no folder"),
    ("plot model.lmgp --out .", "is a folder"),
    ("plot model.lmgp --out -", "A report is an HTML file; give its name, such as report.html. Got '-'"),
    ("plot model.lmgp --out page.pdf", "A report is an HTML file; give its name, such as report.html. Got 'page.pdf'"),
    ("plot model.lmgp --out model.lmgp", "model.lmgp is read, and would be replaced"),
    ("plot model.lmgp test.csv --out ./test.csv", "test.csv is read, and would be replaced"),
    ("score model.lmgp test.csv --report test.csv", "test.csv is read, and would be replaced"),
    ("plot model.lmgp other.csv", "other.csv does not exist"),
    ("plot nothing.lmgp", "nothing.lmgp does not exist"),
    ("plot test.csv", "test.csv is no"),
    ("plot .", ". is a folder; give the path of a file that model.save(path) wrote"),
    ("plot model.lmgp test.csv --target prise", "no column is named 'prise'"),
    ("plot model.lmgp --target price", "--target and --columns are about a table, and none is given"),
    ("plot model.lmgp test.csv --level 95", "expected a number between 0 and 1"),
    ("plot model.lmgp missing.csv", "missing"),
    ("plot sgd.lmgp", "only Gaussian-process regressors predict on the command line"),
    ("plot", "the following arguments are required: MODEL"),
]


@pytest.mark.parametrize(("command", "told"), REFUSED, ids=[command for command, _ in REFUSED])
def test_bad_input_is_refused_and_nothing_is_written(
    command: str, told: str, fitted: Callable[[int], None], capsys: pytest.CaptureFixture[str]
) -> None:
    fitted(1)
    frame(4, 1).assign(price=[1.0, None, 2.0, 3.0]).to_csv("missing.csv", index=False)
    KernelSGDRegressor(random_state=0).fit(frame(9, 1).iloc[:, :1], np.arange(9.0)).save("sgd.lmgp")
    before = {path.name: path.read_bytes() for path in Path().iterdir()}
    capsys.readouterr()
    assert main(command.split()) == 2
    printed = capsys.readouterr()
    assert told in printed.err
    assert printed.err.startswith("lmgp: error: ")
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_a_failure_while_drawing_leaves_what_was_there(
    fitted: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted(1)
    Path("model.html").write_text("before")

    def fails(*_: object, **__: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lmgp.plots.report.render", fails)
    assert main(["plot", "model.lmgp", "--quiet"]) == 2
    assert Path("model.html").read_text() == "before"
    assert sorted(path.name for path in Path().iterdir()) == ["model.html", "model.lmgp", "test.csv", "train.csv"]


def test_missing_values_are_left_out_where_asked_for(fitted: Callable[[int], None]) -> None:
    fitted(1)
    test = frame(20, 1, seed=1)
    test.loc[3, "price"] = None
    test.to_csv("missing.csv", index=False)
    assert main(["plot", "model.lmgp", "missing.csv", "--drop", "--quiet"]) == 0
    assert "19 rows of the table" in Page("model.html").source


@pytest.mark.parametrize("d", [1, 2])
def test_columns_with_a_gap_are_drawn(d: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = frame(50, d)
    table.iloc[3, 0] = np.nan
    table.to_csv("gap.csv", index=False)
    given = ["--kernel", "gaussian", "--ard", "no", "--noise", "normal", "--noise-variance", "0.01", "--quiet"]
    assert main(["fit", "gap.csv", "--target", "price", "--out", "gap.lmgp", *given]) == 0
    assert main(["plot", "gap.lmgp", "gap.csv", "--out", "page.html", "--quiet"]) == 0
    assert [title for title in Page("page.html").titles if title in FIELDS[d]] == FIELDS[d]


def test_one_row_and_a_constant_column_are_drawn(fitted: Callable[[int], None]) -> None:
    fitted(2)
    frame(1, 2).to_csv("one.csv", index=False)
    frame(9, 2).assign(b=2.0).to_csv("constant.csv", index=False)
    for table in ("one.csv", "constant.csv"):
        assert main(["plot", "model.lmgp", table, "--quiet"]) == 0
        assert [title for title in Page("model.html").titles if title in FIELDS[2]] == FIELDS[2]


def test_calibration_of_a_log_target_is_that_of_the_logarithm(
    fitted: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fitted(1)
    table = frame(50, 1).assign(price=lambda rows: np.exp(rows["price"]))
    table.to_csv("train.csv", index=False)
    options = ["--kernel", "gaussian", "--ard", "no", "--noise", "student", "--log", "--quiet"]
    assert main(["fit", "train.csv", "--target", "price", "--out", "model.lmgp", *options]) == 0
    seen = []
    monkeypatch.setattr("lmgp.plots.report.calibration", lambda *predictions, ax: seen.append(predictions))
    assert main(["plot", "model.lmgp", "train.csv"]) == 0
    y, distribution = seen[0]
    np.testing.assert_allclose(y, table["price"], rtol=1e-12)
    inner = lmgp.load("model.lmgp").regressor_
    assert inner.noise_.name == "student"
    of_z = inner.predict_distribution(table[[NASTY]])
    np.testing.assert_allclose(distribution.cdf(y), of_z.cdf(np.log(table["price"])), rtol=1e-10)
