"""Tables and lists of facts: one description, as text and as HTML."""

from html.parser import HTMLParser

import pytest
import sklearn
from sklearn.base import BaseEstimator

from lmgp.utils.facts import Described, Facts, Table, digits

TABLE = Table(("", "a <b>", "c"), (("first & last", "1", "2"), ("x", "12,300", "")), "A note.")


class Cells(HTMLParser):
    """The text of each cell of a table, and of each name and value of a list."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.found: list[tuple[str, str]] = []
        self.tags: list[str] = []
        self.feed(source)
        assert self.tags == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag in ("th", "td", "dt", "dd", "p"):
            self.found.append((tag, ""))

    def handle_endtag(self, tag: str) -> None:
        assert self.tags.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.tags[-1] != "style":
            tag, before = self.found[-1]
            self.found[-1] = tag, before + data


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0"),
        (1.23456, "1.23"),
        (999.4, "999"),
        (999.6, "1,000"),
        (-12345.6, "-12,300"),
        (123456.0, "123,000"),
        (1234567.0, "1.23e+06"),
        (0.000123456, "0.000123"),
        (1.23456e-7, "1.23e-07"),
        (float("inf"), "inf"),
    ],
)
def test_three_digits(value: float, text: str) -> None:
    assert digits(value) == text


def test_a_table_is_the_same_in_text_and_in_html() -> None:
    assert str(TABLE).splitlines() == [
        "               a <b>  c",
        "first & last       1  2",
        "x             12,300",
        "A note.",
    ]
    told = [text for _, text in Cells(TABLE._repr_html_()).found]
    assert told == [*TABLE.heading, *TABLE.lines[0], *TABLE.lines[1], TABLE.note]


def test_facts_are_the_same_in_text_and_in_html() -> None:
    facts = Facts({"model": "a <i>", "table": TABLE, "a long name indeed": "one\ntwo"})
    first, heading, *table = str(facts).splitlines()
    assert (first, heading) == ("model               a <i>", "table")
    assert table == [
        *(f"  {line}" for line in str(TABLE).splitlines()),
        "a long name indeed  one",
        " " * 20 + "two",
    ]
    found = Cells(facts._repr_html_()).found
    assert [text for tag, text in found if tag == "dt"] == list(facts.facts)
    assert [text for tag, text in found if tag == "dd"] == ["a <i>", "", "one\ntwo"]
    assert facts.__html__() == facts._repr_html_()


class Model(Described, BaseEstimator):
    """An estimator that is described once it is fitted."""

    def __init__(self, size: int = 1) -> None:
        self.size = size

    def fit(self) -> "Model":
        self.fitted_ = True
        return self

    @property
    def slow_(self) -> float:
        raise AssertionError("computed to be shown")

    def _description(self) -> Facts | None:
        return Facts({"size": "<small>"}) if hasattr(self, "fitted_") else None


def test_what_has_no_description_is_as_scikit_learn_shows_it() -> None:
    model = Model(2)
    assert str(model) == repr(model) == "Model(size=2)"
    assert model._repr_mimebundle_()["text/plain"] == repr(model)
    assert "lmgp" not in model._repr_html_()


def test_a_description_comes_before_the_parameters_and_no_attribute_is_computed() -> None:
    model = Model(2).fit()
    assert repr(model) == "Model(size=2)"
    assert str(model) == "size        <small>"
    bundle = model._repr_mimebundle_()
    assert bundle["text/plain"] == str(model)
    for html in (bundle["text/html"], model._repr_html_()):
        assert html.startswith(Facts({"size": "<small>"})._repr_html_())
        assert html.count("&lt;small&gt;") >= 1
        assert "Model" in html
    with sklearn.config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert model._repr_mimebundle_() == {"text/plain": str(model)}
