"""Limits of what tests reach for: private names of the product, and parts of other test modules."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
MOST = 72
"""183 in November 2026. A test asks by the public face, or the module gets an accessor that an operator or a user has a use for as well."""
_LIKELY = re.compile(r"\._[a-z]|[\"'.]_[A-Za-z]|import .*\b_[A-Za-z]")
_PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_exit", "_jvm", "_jsparkSession"}
"""Named with an underscore, and no secret: of NamedTuple, os and Spark."""
_OWN = {"self", "cls", "sys", "super"}


def reached(path: Path) -> set[int]:
    """Return the lines of a file that use a private name of another object or module."""
    found: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            owner = node.value.func if isinstance(node.value, ast.Call) else node.value
            if not (isinstance(owner, ast.Name) and owner.id in _OWN):
                found.add(node.lineno)
        elif (
            isinstance(node, ast.ImportFrom)
            and (node.module or "").startswith("odradek")
            and any(_is_private(each.name) for each in node.names)
        ):
            found.add(node.lineno)
        elif isinstance(node, ast.Call) and _name(node.func) in ("setattr", "getattr", "delattr"):
            texts = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            if any(_is_private(text.rpartition(".")[2]) for text in texts):
                found.add(node.lineno)
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in _PUBLIC and not name[1:].isupper()


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else function.id if isinstance(function, ast.Name) else ""


def test_fewer_and_fewer_lines_reach_for_private_names() -> None:
    lines = [
        f"{path.relative_to(TESTS)}:{line}"
        for path in sorted(TESTS.rglob("*.py"))
        if _LIKELY.search(path.read_text())
        for line in sorted(reached(path))
    ]
    assert len(lines) <= MOST, f"{len(lines)} lines:\n" + "\n".join(lines)
    assert len(lines) > MOST - 15, "fewer: take the bound down"


def test_test_modules_do_not_import_from_each_other() -> None:
    imports = re.compile(r"^\s*from \S*\btest_\w+ import|^\s*from tests\S* import .*\btest_", re.MULTILINE)
    found = [path for path in TESTS.rglob("*.py") if path != Path(__file__) and imports.search(path.read_text())]
    assert not found, "move what is shared to a support module of the package"
