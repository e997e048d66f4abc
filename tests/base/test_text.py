"""Text of others in lines of ours."""

from __future__ import annotations

import sys

import pytest

from odradek.base.text import indented, printable


def test_no_character_begins_a_line_or_moves_a_cursor() -> None:
    """Whatever a terminal or `splitlines` takes for a line end, an escape sequence or a change of direction."""
    for code in range(sys.maxunicode + 1):
        text = printable(f"a{chr(code)}b")
        assert len(text.splitlines()) == 1
        assert text.isprintable()
        text.encode()


@pytest.mark.parametrize("text", ["", "plain", "größer", "名前 \U0001f600", "back\\slash", "Müller (5 %)"])
def test_what_is_printable_stays(text: str) -> None:
    assert printable(text) == text


def test_escapes_are_those_of_python() -> None:
    assert printable("g\n\x1b[2K\r\x9b\u202e\ud800\x7f") == "g\\n\\x1b[2K\\r\\x9b\\u202e\\ud800\\x7f"


def test_lines_are_indented_each() -> None:
    assert indented("a\n\tb\x1b\n\nc\rd") == "  a\n      b\\x1b\n  \n  c\\rd"
