"""Generic mutants of a module: one small edit each, at the places that decide something.

Only code in functions is edited, as tables and constants of a module are its tests' own subject. Log lines, messages, texts, annotations,
decorators and `assert` stay as they are.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

from tests.mutants.bug import Bug, Lines

_TURNED = {"==": "!=", "!=": "==", "is": "is not", "is not": "is", "in": "not in", "not in": "in"}
_BOUNDARY = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
_COMPARISON = re.compile(r"not\s+in\b|is\s+not\b|in\b|is\b|[=!<>]=|[<>]")
_SWAPPED = {"min": "max", "max": "min", "any": "all", "all": "any"}
_LOGS = {"debug", "info", "warning", "error", "exception", "critical", "log", "warn", "print"}
_SHOWN = {"__repr__", "__str__"}
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


class _Edit(NamedTuple):
    start: int
    end: int
    after: str
    kind: str


def mutants(path: str, text: str, lines: Collection[int] | None = None) -> list[Bug]:
    """Return the generic mutants of a file, in the order of the text; those in the lines `lines` only, where they are given."""
    places = Lines(text)
    found: dict[tuple[int, int, str], Bug] = {}
    for start, end, after, kind in _Finder(places).edits(ast.parse(text)):
        touched = range(places.number(start), places.number(max(start, end - 1)) + 1)
        if lines is None or any(number in lines for number in touched):
            found.setdefault((start, end, after), Bug(path, start, text[start:end], after, kind))
    return [found[key] for key in sorted(found)]


class _Finder:
    """Finder of the edits of one module."""

    def __init__(self, places: Lines) -> None:
        self._places = places
        self._text = places.text

    def edits(self, tree: ast.AST) -> Iterator[_Edit]:
        """Yield the edits in the functions of a module or class."""
        for node in ast.iter_child_nodes(tree):
            if isinstance(node, _FUNCTIONS):
                if node.name not in _SHOWN and not any("overload" in ast.unparse(each) for each in node.decorator_list):
                    yield from self._statements(node.body, is_start=node.name == "__init__")
            elif isinstance(node, ast.ClassDef) or (isinstance(node, ast.If) and "TYPE_CHECKING" not in ast.unparse(node.test)):
                yield from self.edits(node)

    def _span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        end = self._places.position(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset)
        return self._places.position(node.lineno, node.col_offset), end

    def _replaced(self, node: ast.expr | ast.stmt, after: str, kind: str) -> _Edit:
        return _Edit(*self._span(node), after, kind)

    def _source(self, node: ast.expr) -> str:
        start, end = self._span(node)
        return self._text[start:end]

    # Statements.

    def _statements(self, body: list[ast.stmt], *, is_start: bool = False) -> Iterator[_Edit]:
        for statement in body:
            if not _is_silent(statement):
                yield from self._statement(statement, is_start)

    def _statement(self, node: ast.stmt, is_start: bool) -> Iterator[_Edit]:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            yield from self.edits(ast.Module([node], []))
            return
        if _may_go(node) and not is_start:
            yield self._replaced(node, "pass", "statement deleted")
        if isinstance(node, (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)):
            return
        if isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
            yield self._replaced(node.value, "None", "None returned")
        if isinstance(node, ast.If):
            yield from self._condition(node)
        if isinstance(node, ast.AugAssign) and isinstance(node.op, (ast.Add, ast.Sub)):
            start, end = self._span(node.target)[1], self._span(node.value)[0]
            yield self._turned_sign(start, end, "+=" if isinstance(node.op, ast.Add) else "-=")
        if isinstance(node, ast.AnnAssign):
            if node.value is not None:
                yield from self._expression(node.value)
            return
        for name, value in ast.iter_fields(node):
            if name in ("body", "orelse", "finalbody") and isinstance(value, list):
                yield from self._statements(value, is_start=is_start)
            elif name == "handlers":
                for handler in value:
                    yield from self._handler(handler)
            elif name == "cases":
                for case in value:
                    yield from self._statements(case.body, is_start=is_start)
            elif name not in ("targets", "target"):
                for each in value if isinstance(value, list) else [value]:
                    yield from self._expressions_in(each)

    def _expressions_in(self, node: object) -> Iterator[_Edit]:
        if isinstance(node, ast.expr):
            yield from self._expression(node)
        elif isinstance(node, ast.withitem):
            yield from self._expression(node.context_expr)

    def _condition(self, node: ast.If) -> Iterator[_Edit]:
        if isinstance(node.body[-1], _LEAVING) and not node.orelse:
            yield self._replaced(node.test, "False", "condition never holds")
        elif not isinstance(node.test, (ast.UnaryOp, ast.Compare)):  # these are turned as expressions
            yield self._replaced(node.test, f"not ({self._source(node.test)})", "condition turned")

    def _handler(self, handler: ast.ExceptHandler) -> Iterator[_Edit]:
        if not all(_is_silent(each) for each in handler.body):
            start, end = self._span(handler.body[0])[0], self._span(handler.body[-1])[1]
            yield _Edit(start, end, "pass", "error swallowed")
        yield from self._statements(handler.body)

    # Expressions.

    def _expression(self, node: ast.expr) -> Iterator[_Edit]:
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Call) and _is_log(node)):
            return
        if isinstance(node, ast.Compare):
            yield from self._comparisons(node)
        elif isinstance(node, ast.BoolOp):
            before, after = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from self._operator(left, right, re.compile(rf"\b{before}\b"), {before: after}, f"{after} for {before}")
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield self._replaced(node, f"({self._source(node.operand)})", "negation dropped")
        elif isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)) and not (_is_text(node.left) or _is_text(node.right)):
            sign = re.compile(r"[+-]")
            yield from self._operator(node.left, node.right, sign, {"+": "-", "-": "+"}, "sign turned")
        elif isinstance(node, ast.Call):
            yield from self._call(node)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, bool):
            after = str(not node.value) if isinstance(node.value, bool) else str(node.value + 1)
            yield self._replaced(node, after, "constant changed")
        for name, value in ast.iter_fields(node):
            if name == "slice" and isinstance(value, ast.Constant):
                continue
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.expr):
                    yield from self._expression(each)
                elif isinstance(each, ast.keyword):
                    yield from self._expression(each.value)
                elif isinstance(each, ast.comprehension):
                    for inner in (each.iter, *each.ifs):
                        yield from self._expression(inner)

    def _comparisons(self, node: ast.Compare) -> Iterator[_Edit]:
        for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
            yield from self._operator(left, right, _COMPARISON, _BOUNDARY, "boundary moved")
            yield from self._operator(left, right, _COMPARISON, _TURNED, "comparison turned")

    def _call(self, node: ast.Call) -> Iterator[_Edit]:
        name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if isinstance(node.func, ast.Name) and name in _SWAPPED:
            yield self._replaced(node.func, _SWAPPED[name], f"{_SWAPPED[name]} for {name}")
        if name[:1].isupper():
            return  # A value without a field is noticed by its constructor.
        for keyword in node.keywords:
            if keyword.arg is not None and not _is_text(keyword.value):
                end = self._span(keyword.value)[1]
                start = self._places.position(keyword.lineno, keyword.col_offset)
                comma = re.compile(r"\s*,\s*").match(self._text, end)
                yield _Edit(start, comma.end() if comma else end, "", "argument dropped")

    def _operator(self, left: ast.expr, right: ast.expr, pattern: re.Pattern[str], table: dict[str, str], kind: str) -> Iterator[_Edit]:
        """Yield the edit of the operator between two operands, where the table has one for it."""
        begin, end = self._span(left)[1], self._span(right)[0]
        match = pattern.search(self._text, begin, end)
        if match is not None and (after := table.get(" ".join(match.group().split()))) is not None:
            yield _Edit(match.start(), match.end(), after, kind)

    def _turned_sign(self, start: int, end: int, sign: str) -> _Edit:
        at = self._text.index(sign, start, end)
        return _Edit(at, at + 2, "-=" if sign == "+=" else "+=", "sign turned")


def _may_go(node: ast.stmt) -> bool:
    """Return whether a function still runs to its end without the statement: it binds no name and returns nothing."""
    if isinstance(node, ast.Assign):
        return all(isinstance(target, (ast.Attribute, ast.Subscript)) for target in node.targets)
    if isinstance(node, ast.Expr):
        return not isinstance(node.value, (ast.Yield, ast.YieldFrom))
    return isinstance(node, (ast.AugAssign, ast.Delete, ast.Raise, ast.Continue, ast.Break))


def _is_silent(node: ast.stmt) -> bool:
    """Return whether a statement does nothing that a test could notice: a docstring, `pass`, a line for the log."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) or (isinstance(node.value, ast.Call) and _is_log(node.value))
    return isinstance(node, (ast.Pass, ast.Global, ast.Nonlocal))


def _is_log(node: ast.Call) -> bool:
    if isinstance(node.func, ast.Name):
        return node.func.id == "print"
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in _LOGS:
        return False
    owner = ast.unparse(node.func.value).lower()
    return "log" in owner or owner == "warnings"


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, (ast.JoinedStr, ast.List, ast.Tuple)) or (
        isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
    )
