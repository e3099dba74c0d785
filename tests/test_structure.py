"""The shape of the package: short modules and functions, few parameters, plain words."""

import ast
import inspect
import re
from pathlib import Path

import pytest

import lmgp

PACKAGE = Path(lmgp.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
NAMES = [str(path.relative_to(PACKAGE)) for path in MODULES]

LONGEST_MODULE = 400
LONGEST_FUNCTION = 60
MOST_PARAMETERS = 12
# Words that stand for a number or a name which is known, and tales of earlier versions.
VAGUE = r"\b(so many|the (former|latter)|used to be|no longer|at hand)\b"


@pytest.mark.parametrize("path", MODULES, ids=NAMES)
def test_a_module_is_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= LONGEST_MODULE


@pytest.mark.parametrize("path", MODULES, ids=NAMES)
def test_a_function_is_short(path: Path) -> None:
    # Without its docstring: what is read as code.
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            length = body[-1].end_lineno - body[0].lineno + 1 if body else 0
            assert length <= LONGEST_FUNCTION, f"{path.name}:{node.lineno} {node.name} has {length} lines"


@pytest.mark.parametrize("name", [name for name in lmgp.__all__ if inspect.isclass(getattr(lmgp, name))])
def test_a_constructor_has_few_parameters(name: str) -> None:
    assert len(inspect.signature(getattr(lmgp, name)).parameters) <= MOST_PARAMETERS


@pytest.mark.parametrize("path", MODULES, ids=NAMES)
def test_the_words_are_plain(path: Path) -> None:
    found = [line.strip() for line in path.read_text().splitlines() if re.search(VAGUE, line, re.IGNORECASE)]
    assert found == []
