"""Choice of the tests that a planted bug is tried with first.

A file of tests is near when it belongs to the module's package, imports the module, has its name, and shares rare words with the bug: names
in the edited line and around it, and the words of a row's reason, as the names of tests are sentences. Files that take long, and those of
campaigns and comparisons, are left to the later stages.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.mutants.bug import ROOT, Bug

_FAR = {"campaigns", "interop", "mutants", "ci"}
_IMPORT = re.compile(r"^[ \t]*(?:from\s+([\w.]+)\s+import\s+(\([^)]*\)|[^\n]*)|import\s+([\w.]+))", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z]\w{2,}")
_TITLE = re.compile(r"^\s*(?:async )?(?:def|class) ([Tt]est\w+)", re.MULTILINE)
_SPOKEN = re.compile(r"[A-Z]?[a-z]{3,}|[A-Z]{3,}|\d{4,}")


class _Tests(NamedTuple):
    file: str
    imports: frozenset[str]
    names: frozenset[str]
    words: frozenset[str]
    """Beginnings of the words in the names of the tests."""


class _Suite(NamedTuple):
    files: list[_Tests]
    names: Counter[str]
    """Number of files that have the name."""
    words: Counter[str]


def package(path: str, root: Path = ROOT) -> str:
    """Return the folder of the tests of a source file's package, relative to the root; "" where it has none."""
    top, _, below = path.partition("/")
    folder = "tests/spark" if top != "odradek" else f"tests/{below.partition('/')[0]}"
    return folder if (root / folder).is_dir() else ""


def first(bug: Bug, text: str, most: int, root: Path = ROOT) -> list[str]:
    """Return the test files to run first for a bug in the source file `text`, relative to the root, the nearest first; at most `most`."""
    suite = _suite(root)
    home = f"{package(bug.path, root)}/"
    stem = Path(bug.path).stem
    module = bug.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    names = {*_names(bug.lines(text)[0]), *(name.strip("_") for name in _enclosing(bug, text))}
    words = _words(bug.why) if bug.is_row else set()
    ranked = []
    for each in suite.files:
        is_home, is_user = each.file.startswith(home), module in each.imports
        shared = _rarity(names & each.names, suite.names, suite) + _rarity(words & each.words, suite.words, suite)
        if is_home or is_user or (bug.is_row and shared):
            near = 2 * is_home + 2 * is_user + 4 * (stem in Path(each.file).stem)
            ranked.append((-near - shared / 2, each.file))
    return [file for _, file in sorted(ranked)[:most]]


def _rarity(shared: Iterable[str], known: Counter[str], suite: _Suite) -> float:
    return sum(math.log(len(suite.files) / known[each]) for each in shared)


def _enclosing(bug: Bug, text: str) -> list[str]:
    """Return the names of the functions and classes around the bug."""
    number = bug.line_numbers(text)[0]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [each.name for each in ast.walk(_tree(text)) if isinstance(each, kinds) and each.lineno <= number <= (each.end_lineno or 0)]


@cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def _suite(root: Path) -> _Suite:
    tests = root / "tests"
    slow = _slow_files(tests)
    helpers = {_module(path, root): _imports(path.read_text()) for path in tests.rglob("*.py") if not path.name.startswith("test_")}
    files = []
    for path in sorted(tests.rglob("test_*.py")):
        if path.relative_to(tests).parts[0] not in _FAR and path not in slow:
            text = path.read_text()
            imports = _imports(text)
            imports.update(*(helpers.get(each, ()) for each in imports))
            titles = _words(" ".join(_TITLE.findall(text)))
            files.append(_Tests(path.relative_to(root).as_posix(), frozenset(imports), frozenset(_names(text)), frozenset(titles)))
    names = Counter(name for each in files for name in each.names)
    return _Suite(files, names, Counter(word for each in files for word in each.words))


def _slow_files(tests: Path) -> set[Path]:
    """Return the files that tests/conftest.py lists as long, and those whose tests all need JVM Kafka or Spark."""
    conftest = tests / "conftest.py"
    listed = re.search(r"^_LONGEST = \(\n(.*?)^\)", conftest.read_text() if conftest.exists() else "", re.MULTILINE | re.DOTALL)
    names = re.findall(r'"([^"]+)"', listed[1]) if listed else []
    marked = {
        path for path in tests.rglob("test_*.py") if re.search(r"^pytestmark = .*mark\.(jvm|spark)\b", path.read_text(), re.MULTILINE)
    }
    return {tests / name for name in names} | marked


def _names(text: str) -> set[str]:
    return {name.strip("_") for name in _NAME.findall(text)}


def _words(text: str) -> set[str]:
    return {word.lower()[:6] for word in _SPOKEN.findall(text)}


def _module(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts)


def _imports(text: str) -> set[str]:
    """Return the modules that a text imports, `from a import b` counting as a and a.b."""
    found = set()
    for whole, names, plain in _IMPORT.findall(text):
        found.add(plain or whole)
        found.update(f"{whole}.{name}" for name in re.findall(r"\w+", re.sub(r"\s+as\s+\w+", "", names)))
    return found
