"""Generic mutants: which edits are made, and which code is left alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants import operators
from tests.mutants.operators import mutants

_EDITS = [
    ("return a < b", {"return a <= b", "return None"}),
    ("return a not in b", {"return a in b", "return None"}),
    ("return a is not None", {"return a is None", "return None"}),
    ("x = a == b != c", {"x = a != b != c", "x = a == b == c"}),
    ("x = a and b and c", {"x = a or b and c", "x = a and b or c"}),
    ("x = not a", {"x = (a)"}),
    ("x = a + b", {"x = a - b"}),
    ("x += b", {"pass", "x -= b"}),
    ("x = min(a, b)", {"x = max(a, b)"}),
    ("x = 7", {"x = 8"}),
    ("x = True", {"x = False"}),
    ("x: int = 7", {"x: int = 8"}),
    ("self.x = a", {"pass"}),
    ("self.go()", {"pass"}),
    ("await self.go()", {"pass"}),
    ("del a[b]", {"pass"}),
    ("raise ValueError(1 + 2)", {"pass"}),
    ("go(a, b=c, d=e)", {"pass", "go(a, d=e)", "go(a, b=c, )"}),
    ("x = Point(a, b=c)", set()),
    ("x = go(help='A text')", set()),
    ("x = [e for e in a if e > b]", {"x = [e for e in a if e >= b]"}),
    ("x = a if b else c", set()),
    ("x = lambda: a < b", {"x = lambda: a <= b"}),
    ("x = 'é' if a < b else c", {"x = 'é' if a <= b else c"}),
]


def after(statement: str) -> set[str]:
    text = f"async def f(self, a, b):\n    {statement}\n"
    return {each.lines(text)[1] for each in mutants("m.py", text)}


@pytest.mark.parametrize(("statement", "expected"), _EDITS, ids=[statement for statement, _ in _EDITS])
def test_statements_have_these_mutants(statement: str, expected: set[str]) -> None:
    assert after(statement) == expected


@pytest.mark.parametrize(
    "statement",
    [
        '"""A docstring with 1 < 2."""',
        "logger.warning('%d', a + 1)",
        "self._log.debug(a < b)",
        "print(a < b)",
        "x = f'{a + 1}'",
        "x = 'a' + b",
        "assert a < b",
        "x: Literal[1]",
        "return None",
        "pass",
        "import a",
    ],
)
def test_what_no_test_should_notice_is_left_alone(statement: str) -> None:
    assert after(statement) == set()


def test_only_functions_are_edited() -> None:
    text = """LIMIT = 1 + 1
if TYPE_CHECKING:
    def f(): return 1 < 2
class A:
    __slots__ = ("a",)
    x: int = 3
    def __repr__(self): return 1 < 2
    @overload
    def g(self, a: Literal[1] = 1): return 1 < 2
@cache(1)
def h(a=1) -> Literal[2]:
    def inner():
        return 5
"""
    assert {each.lines(text)[1] for each in mutants("m.py", text)} == {"return None", "return 6"}


def test_a_guard_never_holds_and_another_condition_is_turned() -> None:
    text = "def f(a):\n    if a:\n        return\n    if a.b:\n        a.go()\n"
    assert {(each.why, each.after) for each in mutants("m.py", text)} == {
        ("condition never holds", "False"),
        ("condition turned", "not (a.b)"),
        ("statement deleted", "pass"),
    }


def test_a_handler_swallows_its_error() -> None:
    text = "def f(a):\n    try:\n        a()\n    except OSError as error:\n        a.fail(error)\n    finally:\n        a.close()\n"
    swallowed = next(each for each in mutants("m.py", text) if each.why == "error swallowed")
    assert "as error:\n        pass\n    finally" in swallowed.planted(text)


def test_the_fields_that_an_init_sets_stay() -> None:
    text = "class A:\n    def __init__(self, a):\n        self.a = a\n        self.go()\n"
    assert not mutants("m.py", text)


def test_only_changed_lines_are_edited() -> None:
    text = "def f(a, b):\n    x = a < b\n    y = a < b\n    return (\n        a\n    )\n"
    assert [each.line_numbers(text)[0] for each in mutants("m.py", text, {3})] == [3]
    assert [each.why for each in mutants("m.py", text, {5})] == ["None returned"]


def test_every_mutant_of_a_module_is_python() -> None:
    text = Path(operators.__file__).read_text()
    found = mutants("operators.py", text)
    assert len(found) > 50
    for each in found[::10]:
        ast.parse(each.planted(text))
