"""Sizes of files, classes and functions, and the names in docstrings: limits that hold for new code.

Code that exceeds a limit today is named in `EXCEPTIONS` with its size. It may only shrink: a smaller size, or a name that is gone, fails
the test until the table says so, too.
"""

from __future__ import annotations

import ast
import builtins
import json
import keyword
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "odradek"
LINES_OF_FILE = 600
LINES_OF_CLASS = 450
LINES_OF_FUNCTION = 70
COMPLEXITY = 20
"""Most independent paths through a function (McCabe)."""

EXCEPTIONS = {
    "client/consumer/engine.py": 649,
    "client/consumer/engine.py:ConsumerEngine": 592,
    "client/core/membership_classic.py:ClassicMembership": 487,
    "client/core/sender.py:Sender": 454,
    "client/producer/engine.py:ProducerEngine": 467,
}

COMPLEX: set[str] = set()
"""Functions over `COMPLEXITY`; the table may only shrink."""

FOREIGN = {
    "HTT",
    "MicroBatchStream",
    "ReportsSourceMetrics",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "_checksum.pxd",
    "_raw.pxd",
    "bisect",
    "foreachBatch",
    "jepsen.tests.kafka",
    "member0",
    "member1",
    "pyspark_odradek.DefaultSource",
    "pyspark_odradek_log.DefaultSource",
    "python3",
    "query.lastProgress",
    "query.recentProgress",
    "shouldClientThrottle",
    "try_x",
    "validVersions",
}
"""Whole texts in backquotes that name things of other projects, standards, files and patterns of names."""

LARGEST_CIRCLE = 10
"""Files of the largest circle of imports, those for type checking included; may only shrink."""

_COMMENT = re.compile(r"(?:^|\s)# .*")
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def trees() -> dict[Path, ast.Module]:
    """Return the modules by path; those of the messages are generated."""
    return {path: ast.parse(path.read_text()) for path in sorted(SOURCES.rglob("*.py")) if path.parent.name != "messages"}


def _definitions(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.ClassDef, *_FUNCTIONS)):
            yield f"{prefix}{node.name}", node
            yield from _definitions(node, f"{prefix}{node.name}.")
        elif not isinstance(node, ast.expr):
            yield from _definitions(node, prefix)


def oversized() -> dict[str, int]:
    """Return the lines of what is over its limit, by name: `package/file.py` or `package/file.py:Class.function`."""
    found: dict[str, int] = {}
    for path, tree in trees().items():
        name = str(path.relative_to(SOURCES))
        if (lines := path.read_text().count("\n")) > LINES_OF_FILE:
            found[name] = lines
        for qualified, node in _definitions(tree):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > (LINES_OF_CLASS if isinstance(node, ast.ClassDef) else LINES_OF_FUNCTION):
                found[f"{name}:{qualified}"] = lines
    return found


def test_files_classes_and_functions_stay_small() -> None:
    found = oversized()
    grown = {name: lines for name, lines in found.items() if lines > EXCEPTIONS.get(name, 0)}
    assert not grown, f"over the limits of {LINES_OF_FILE}, {LINES_OF_CLASS} and {LINES_OF_FUNCTION} lines, or larger than before"
    assert found == EXCEPTIONS, "smaller: take the numbers down"


def test_functions_stay_simple() -> None:
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "C901", "--output-format", "json"]
    limit = f"lint.mccabe.max-complexity = {COMPLEXITY}"
    done = subprocess.run([*command, "--config", limit, str(SOURCES)], capture_output=True, text=True, check=False)
    found = {f"{Path(each['filename']).relative_to(SOURCES)}: {each['message']}" for each in json.loads(done.stdout)}
    assert found == COMPLEX, "a new function is too complex, or a name of the table is gone"


def _read(path: Path, tree: ast.Module) -> tuple[set[str], list[tuple[int, str]]]:
    """Return the names that a module uses, and line and text of its documentation.

    Names include the words of its strings: keys, fields on the wire, names of other programs. Documentation: docstrings, bare strings below
    attributes, comments.
    """
    names = set(path.relative_to(ROOT).with_suffix("").parts)
    documentation = {}
    strings = []
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                documentation[id(node.value)] = (node.lineno, text)
            case ast.Constant(value=str()):
                strings.append(node)
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                names.add(name)
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.alias(name=name):
                names.update(name.split("."))
    for node in strings:
        if id(node) not in documentation:
            names.update(re.findall(r"\w+", str(node.value)))
    comments = [
        (number, comment.group())
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if "#" in line and (comment := _COMMENT.search(line))
    ]
    return names, [*documentation.values(), *comments]


def test_names_in_backquotes_exist() -> None:
    known = {*dir(builtins), *keyword.kwlist}
    texts = {}
    for path, tree in trees().items():
        names, texts[path] = _read(path, tree)
        known |= names
    unknown: dict[str, list[str]] = {}
    for path, documentation in texts.items():
        for line, text in documentation:
            for quoted in re.findall(r"(?<!`)`([A-Za-z_][\w.]*\w)(?:\(\))?`(?!`)", text):
                if not known.issuperset(quoted.split(".")):
                    unknown.setdefault(quoted, []).append(f"{path.relative_to(ROOT)}:{line}: `{quoted}`")
    assert not unknown.keys() - FOREIGN, "\n".join(chain.from_iterable(unknown[name] for name in unknown.keys() - FOREIGN))
    assert not FOREIGN - unknown.keys(), "no text quotes these names, or they exist here by now"


def test_files_in_backquotes_exist() -> None:
    """Pages name files of the repository by their path; a path must lead somewhere."""
    pages = [*ROOT.glob("*.md"), *sorted((ROOT / "docs").rglob("*.md"))]
    pattern = re.compile(r"`((?:src|tests|bench|interop|examples|docs|packaging)/[\w/.-]*\w)`")
    unknown = [
        f"{page.relative_to(ROOT)}: {path}" for page in pages for path in pattern.findall(page.read_text()) if not (ROOT / path).exists()
    ]
    assert not unknown, "\n".join(unknown)


def _imports() -> dict[str, set[str]]:
    """Return the modules of the package that each of its modules imports, also within functions and for type checking."""
    modules = {path: ".".join(path.relative_to(SOURCES.parent).with_suffix("").parts).removesuffix(".__init__") for path in trees()}
    known = set(modules.values())
    found: dict[str, set[str]] = {}
    for path, tree in trees().items():
        named: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                named.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                inner = {f"{node.module}.{alias.name}" for alias in node.names} & known
                named |= inner or {node.module}
        found[modules[path]] = named & known
    return found


def largest_circle() -> set[str]:
    """Return the largest set of modules that import each other, directly or through others."""
    imports = _imports()
    reached: dict[str, set[str]] = {}
    for module in imports:
        seen: set[str] = set()
        next_ones = list(imports[module])
        while next_ones:
            other = next_ones.pop()
            if other not in seen:
                seen.add(other)
                next_ones += imports[other]
        reached[module] = seen
    return max(({other for other in seen if module in reached[other]} for module, seen in reached.items()), key=len)


def test_circles_of_imports_stay_small() -> None:
    largest = largest_circle()
    assert len(largest) <= LARGEST_CIRCLE, sorted(largest)
    assert len(largest) == LARGEST_CIRCLE, "smaller: take the number down"


def test_handlers_do_not_know_the_server() -> None:
    """Not even for type checking: what they need of it is a protocol in `handlers.services`."""
    known = {module: {other for other in others if other.startswith("odradek.server")} for module, others in _imports().items()}
    assert not {module: others for module, others in known.items() if others and module.startswith("odradek.handlers")}
