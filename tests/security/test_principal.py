"""Principals: text, equality, what is none."""

from __future__ import annotations

import pytest

from odradek.security.principal import ANONYMOUS, Principal


@pytest.mark.parametrize("text", ["User:alice", "User:CN=a:b,O=x", "Group:admins", "User:", ":alice", ":"])
def test_text_there_and_back(text: str) -> None:
    assert str(Principal.parse(text)) == text


@pytest.mark.parametrize("text", ["", "alice"])
def test_what_is_no_principal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a string in format principalType:principalName"):
        Principal.parse(text)


def test_how_it_was_authenticated_makes_no_other_of_it() -> None:
    with_token = Principal("User", "alice", token_authenticated=True)
    assert with_token == Principal("User", "alice")
    assert hash(with_token) == hash(Principal("User", "alice"))
    assert with_token != Principal("Group", "alice")
    assert with_token != ("User", "alice", True)
    assert str(ANONYMOUS) == "User:ANONYMOUS"
