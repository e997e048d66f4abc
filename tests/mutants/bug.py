"""A bug to plant: an edit of one source file."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "src"


class Bug(NamedTuple):
    path: str
    """The file below src: `odradek/storage/log.py`."""
    start: int
    """Position of the first character that is replaced."""
    before: str
    after: str
    why: str
    """What breaks (a row), or the kind of the edit (a generic mutant)."""
    is_row: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.before)

    def planted(self, text: str) -> str:
        return text[: self.start] + self.after + text[self.end :]

    def line_numbers(self, text: str) -> range:
        """Return the numbers of the lines that the edit replaces, the first line of the file being 1."""
        first = text.count("\n", 0, self.start) + 1
        return range(first, first + self.before.rstrip("\n").count("\n") + 1)

    def lines(self, text: str) -> tuple[str, str]:
        """Return the edited lines before and after, without the indentation around them."""
        begin = text.rfind("\n", 0, self.start) + 1
        end = text.find("\n", self.end)
        end = len(text) if end < 0 else end
        return text[begin:end].strip(), (text[begin : self.start] + self.after + text[self.end : end]).strip()

    def title(self, text: str) -> str:
        number = self.line_numbers(text)[0]
        if self.is_row:
            return f"{self.path}:{number}: {self.why}"
        before, after = self.lines(text)
        same = next((place for place, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), 0)
        return f"{self.path}:{number}: {self.why}: {_short(before, same)} -> {_short(after, same)}"


def _short(text: str, place: int) -> str:
    """Return what stands around a place of a text, in one line."""
    begin = max(0, place - 40)
    around = " ".join(text[begin : begin + 80].split())
    return f"{'...' if begin else ''}{around}{'...' if len(text) > begin + 80 else ''}"


def packages() -> list[str]:
    """Return the packages that have rows."""
    return sorted(path.stem for path in (Path(__file__).parent / "rows").glob("[a-z]*.py"))


def rows(names: Collection[str] | None = None) -> Iterator[Bug]:
    """Yield the planted bugs of the packages `names`, or of all packages.

    Raises ValueError for a text that stands in its file not exactly once.
    """
    for package in packages():
        if names is not None and package not in names:
            continue
        for path, edits in import_module(f"tests.mutants.rows.{package}").ROWS.items():
            text = (SOURCES / "odradek" / path).read_text()
            for before, after, why in edits:
                if (times := text.count(before)) != 1:
                    raise ValueError(f"tests/mutants/rows/{package}.py: {before!r} stands {times} times in {path}, not once")
                yield Bug(f"odradek/{path}", text.index(before), before, after, why, is_row=True)


class Lines:
    """Positions in a text from ast's lines and columns, which count bytes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def position(self, line: int, column: int) -> int:
        content = self._lines[line - 1]
        if not content.isascii():
            column = len(content.encode()[:column].decode())
        return self._starts[line - 1] + column

    def number(self, position: int) -> int:
        """Return the number of the line at a position, the first being 1."""
        return bisect_right(self._starts, position)
