"""The .properties format, as java.util.Properties reads it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.errors import ConfigError
from odradek.config.properties import parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", {"a": "b"}),
        ("a:b", {"a": "b"}),
        ("a b", {"a": "b"}),
        ("  a   =   b  ", {"a": "b  "}),
        ("a", {"a": ""}),
        ("# c\n! d\n\na=1", {"a": "1"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1,\\\n    2,\\\n    3", {"a": "1,2,3"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a\\ b c", {"a b": "c"}),
        ("a=\\u00e4\\t\\x", {"a": "ä\tx"}),
        ("a=\\ud83d\\ude00", {"a": "😀"}),
        ("a=1\na=2", {"a": "2"}),
        ("a==b", {"a": "=b"}),
        ("a=1\\\n#no comment", {"a": "1#no comment"}),
        ("=v", {"": "v"}),
        ("a=b\\", {"a": "b"}),
    ],
)
def test_lines(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_broken_unicode_escape_is_an_error() -> None:
    with pytest.raises(ConfigError):
        parse_properties("a=\\u12g4")


def escape(text: str) -> str:
    return "".join(f"\\u{ord(c):04x}" if ord(c) > 126 or c in "\\ =:#!\t\n\r\f" else c for c in text)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.dictionaries(st.text(st.characters(max_codepoint=0xD7FF), min_size=1), st.text(st.characters(max_codepoint=0xD7FF))))
def test_what_is_escaped_comes_back(values: dict[str, str]) -> None:
    assert parse_properties("\n".join(f"{escape(k)}={escape(v)}" for k, v in values.items())) == values
