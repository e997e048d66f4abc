"""Delegation tokens that come, are used, expire and go, many times over."""

from __future__ import annotations

import hmac
from typing import NamedTuple

import pytest

from odradek.security.tokens import TokenLogins, TokenSecret, has_expired


class Facts(NamedTuple):
    """A token in the metadata."""

    owner: str = "User:alice"
    max_timestamp: int = 1000
    expiration_timestamp: int = 500


@pytest.mark.parametrize(
    ("facts", "expired"),
    [
        (Facts(), False),
        (Facts(expiration_timestamp=399), True),
        (Facts(expiration_timestamp=400), False),
        (Facts(max_timestamp=399), True),
        (Facts(max_timestamp=400), False),
    ],
)
def test_a_token_is_used_up_to_both_of_its_ends(facts: Facts, expired: bool) -> None:
    assert has_expired(facts, 400) is expired


def test_a_token_is_found_by_its_mac_however_many_came_and_went_before() -> None:
    secret = TokenSecret("secret")
    macs: dict[str, bytes] = {}
    for generation in range(6):
        there = [f"{generation}-{number}" for number in range(700)]
        for token_id in (there[0], there[-1]):
            macs[token_id] = secret.mac(token_id)
            assert macs[token_id] == hmac.digest(b"secret", token_id.encode(), "sha512")
            assert secret.find(macs[token_id], there) == token_id
        for gone, mac in macs.items():
            assert secret.find(mac, there) == (gone if gone in there else None)
    assert secret.find(macs["0-0"], ["0-0"]) == "0-0", "one that is back"
    assert secret.find(b"other", ["0-0"]) is None


class Tokens:
    """Logins by tokens; `facts` are those that there are."""

    def __init__(self) -> None:
        self.facts: dict[str, Facts] = {"one": Facts(), "two": Facts(owner="User:bob", max_timestamp=300)}
        self.secret = TokenSecret("secret")
        self.salts = iter(range(100_000))
        self.logins = TokenLogins(self.secret, self.facts.get, lambda size: next(self.salts).to_bytes(size, "big"))

    def ready(self, mechanism: str, token_id: str) -> None:
        work = self.logins.prepare(mechanism, token_id)
        assert work is not None
        work()
        assert self.logins.prepare(mechanism, token_id) is None


def test_a_token_says_whose_it_is_and_until_when() -> None:
    tokens = Tokens()
    for token_id, name, expires_ms in (("one", "alice", 500), ("two", "bob", 300)):
        identity = tokens.logins.owner(token_id)
        assert identity is not None
        assert (identity.name, identity.expires_ms, identity.by_token) == (name, expires_ms, True)
    assert tokens.logins.owner("gone") is None


def test_each_mechanism_has_keys_of_its_own_for_each_token() -> None:
    tokens = Tokens()
    assert tokens.logins.prepare("SCRAM-SHA-256", "gone") is None
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        for token_id in ("one", "two"):
            assert tokens.logins.credential(mechanism, token_id) is None
            tokens.ready(mechanism, token_id)
    found = [tokens.logins.credential(mechanism, token_id) for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512") for token_id in tokens.facts]
    assert all(found)
    assert len({each.stored_key for each in found if each is not None}) == 4
    del tokens.facts["one"]
    assert tokens.logins.owner("one") is None


def test_keys_of_the_tokens_that_were_made_first_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.security.tokens._MOST_KEPT", 3)
    tokens = Tokens()
    names = [str(number) for number in range(5)]
    tokens.facts |= dict.fromkeys(names, Facts())
    for _ in range(2):
        for name in names:
            tokens.ready("SCRAM-SHA-256", name)
        kept = [name for name in names if tokens.logins.credential("SCRAM-SHA-256", name) is not None]
        assert kept == names[2:]
