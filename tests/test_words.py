"""Plain words: how many docstrings, messages and pages carry a marker of a sentence that needs a second reading. The numbers only fall.

CONTRIBUTING.md ("Plain words") has the rules. A marker is not always wrong; most of the sentences that carry one are.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "odradek"
MARKERS = (
    "whoever|whom|nobody|nothing else|so many|so long|so much|no more|also when|meanwhile|just now|all the same|anew|for ever|is no|"
    "is none|has none|of its own|in turns|once more|what is|that which|as whom|the like|at all"
)
_MARKER = re.compile(rf"\b({MARKERS})\b", re.IGNORECASE)
_PLAIN = re.compile(r"is None|is no longer|no more than")
"""Texts that contain a marker by chance."""
_BEGINNING = re.compile(r"(One|Those|What|Who|Whether|Of|As|In which|So that)\b")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

DOCSTRINGS: dict[str, int] = {}
"""Docstrings with a marker or a wrong beginning, by package; none in the others."""
MESSAGES: dict[str, int] = {}
"""Texts in code (messages, descriptions of keys and metrics, help) with a marker, by package; none in the others."""
PAGES = 9
"""Markers in the pages of documentation."""


def odd_docstrings(path: Path) -> Iterator[str]:
    """Yield the places of docstrings with a marker, and of functions' docstrings that do not begin with a verb."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef, ast.Module)):
            continue
        text = " ".join((ast.get_docstring(node) or "").split())
        is_property = isinstance(node, _FUNCTIONS) and any("property" in ast.unparse(each) for each in node.decorator_list)
        if _MARKER.search(text.replace("is None", "")) or (_BEGINNING.match(text) and not is_property):
            yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}: {text[:100]}"


def odd_messages(path: Path) -> Iterator[str]:
    """Yield the places of string literals of several words, f-strings included, that carry a marker. Docstrings are not among them."""
    tree = ast.parse(path.read_text())
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    parts |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Constant, ast.JoinedStr)) or id(node) in parts:
            continue
        pieces = node.values if isinstance(node, ast.JoinedStr) else [node]
        text = "".join(str(piece.value) if isinstance(piece, ast.Constant) else "{}" for piece in pieces)
        if " " in text.strip() and _MARKER.search(_PLAIN.sub("", text)):
            yield f"{path.relative_to(ROOT)}:{node.lineno}: {text[:100]}"


@pytest.mark.parametrize(("places", "allowed"), [(odd_docstrings, DOCSTRINGS), (odd_messages, MESSAGES)])
def test_the_sources_are_in_plain_words(places: Callable[[Path], Iterator[str]], allowed: dict[str, int]) -> None:
    found: dict[str, list[str]] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        found.setdefault(path.relative_to(SOURCES).parts[0], []).extend(places(path))
    over = {package: lines for package, lines in found.items() if len(lines) > allowed.get(package, 0)}
    assert not over, "\n".join(line for lines in over.values() for line in lines)
    assert {package: len(found[package]) for package in allowed} == allowed, "fewer: take the numbers down"


def test_pages_are_in_plain_words() -> None:
    named = [ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY", "changes/README")]
    pages = [*named, *sorted((ROOT / "docs").rglob("*.md"))]
    found = Counter({str(page.relative_to(ROOT)): len(_MARKER.findall(page.read_text().replace("is None", ""))) for page in pages})
    assert found.total() <= PAGES, found.most_common()
    assert found.total() > PAGES - 20, "fewer: take the number down"
