"""Foreign text (names, messages, exceptions), made safe for a line of a log or of a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """Return `text` with everything that is not printable escaped: line ends, controls, bidirectional marks, lone surrogates.

    Escapes are Python's (`\\n`, `\\x1b`, `\\u2028`), so that the result is one line. Printable text comes back as it is.
    """
    if text.isprintable():
        return text
    return "".join([each if each.isprintable() else each.encode("unicode_escape").decode() for each in text])


def columns(line: str) -> str:
    """Return `line` with each of its tab-separated columns made printable."""
    return "\t".join(map(printable, line.split("\t")))


def indented(text: str, indent: str = "  ") -> str:
    """Return the lines of `text` behind `indent`, each made printable, so that foreign text cannot begin a line of the log."""
    return "\n".join([indent + printable(line.replace("\t", "    ")) for line in text.split("\n")])
