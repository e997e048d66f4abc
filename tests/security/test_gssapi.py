"""What follows a context of GSSAPI: the layer that is negotiated, who has logged in, and what ends the exchange. No Kerberos."""

from __future__ import annotations

import pytest

from odradek.security.sasl.errors import SaslError
from odradek.security.sasl.gssapi import GssapiClient, GssapiServer

OFFER = b"\1\0\0\0"


class Context:
    """One that is established after some tokens; what is wrapped has `sealed:` before it."""

    initiator = "alice@REALM"

    def __init__(self, *tokens: bytes) -> None:
        self._tokens = list(tokens)

    @property
    def complete(self) -> bool:
        return not self._tokens

    def step(self, token: bytes) -> bytes:
        if token == b"wrong":
            raise SaslError("Decrypt integrity check failed")
        return self._tokens.pop(0)

    def wrap(self, message: bytes) -> bytes:
        return b"sealed:" + message

    def unwrap(self, token: bytes) -> bytes:
        if not token.startswith(b"sealed:"):
            raise SaslError("no seal")
        return token.removeprefix(b"sealed:")


def server(*tokens: bytes) -> GssapiServer:
    return GssapiServer(lambda: Context(*tokens), lambda principal: principal.partition("@")[0])


def put(exchange: GssapiServer, message: bytes) -> bytes:
    work = exchange.prepare(message)
    assert work is not None
    work()
    return exchange.answer(message)


def test_who_has_proved_to_be_alice_is_alice_whatever_it_claims() -> None:
    exchange = server(b"reply")
    assert put(exchange, b"request") == b"reply"
    assert put(exchange, b"") == b"sealed:" + OFFER
    assert exchange.identity is None
    assert put(exchange, b"sealed:" + OFFER + b"bob@REALM") == b""
    assert exchange.identity is not None
    assert exchange.identity.name == "alice"


def test_a_server_without_a_reply_offers_at_once() -> None:
    exchange = server(b"")
    assert put(exchange, b"request") == b"sealed:" + OFFER
    assert put(exchange, b"sealed:" + OFFER) == b""
    assert exchange.identity is not None


def test_contexts_may_take_several_steps() -> None:
    exchange = server(b"more", b"reply")
    assert [put(exchange, each) for each in (b"1", b"2", b"")] == [b"more", b"reply", b"sealed:" + OFFER]


@pytest.mark.parametrize(
    "messages",
    [
        [b"wrong"],
        [b"request", b"something"],
        [b"request", b"", OFFER],
        [b"request", b"", b""],
        [b"request", b"", b"sealed:"],
        [b"request", b"", b"sealed:\1\0\0"],
        [b"request", b"", b"sealed:\2\0\0\0"],
        [b"request", b"", b"sealed:\4\0\0\0"],
        [b"request", b"", b"sealed:\3\0\0\0"],
        [b"request", b"", b"sealed:\0\0\0\0alice"],
    ],
)
def test_what_is_no_exchange_is_refused(messages: list[bytes]) -> None:
    exchange = server(b"reply")
    for each in messages[:-1]:
        put(exchange, each)
    with pytest.raises(SaslError):
        put(exchange, messages[-1])
    assert exchange.identity is None


def test_whom_no_rule_names_is_refused() -> None:
    def nobody(principal: str) -> str:
        raise ValueError(f"No rules apply to {principal}")

    exchange = GssapiServer(lambda: Context(b""), nobody)
    put(exchange, b"request")
    with pytest.raises(SaslError, match="based on Kerberos authentication rules: No rules apply to alice@REALM"):
        put(exchange, b"sealed:" + OFFER)
    assert exchange.identity is None


def test_a_client_goes_to_the_end() -> None:
    client = GssapiClient(lambda: Context(b"request", b""))
    assert client.first() == b"request"
    assert client.answer(b"reply") == b""
    assert client.answer(b"sealed:\7\0\1\0") == b"sealed:" + OFFER
    assert client.answer(b"") is None


@pytest.mark.parametrize("offer", [b"sealed:\2\0\0\0", b"sealed:\6\1\0\0", b"sealed:\1", b"sealed:", OFFER, b""])
def test_a_client_leaves_a_server_that_has_not_proved_itself_or_demands_a_layer(offer: bytes) -> None:
    client = GssapiClient(lambda: Context(b"request", b""))
    client.first()
    client.answer(b"reply")
    with pytest.raises(SaslError):
        client.answer(offer)


def test_a_client_does_not_take_success_before_the_servers_proof() -> None:
    client = GssapiClient(lambda: Context(b"request", b""))
    client.first()
    with pytest.raises(SaslError):
        client.answer(b"wrong")
