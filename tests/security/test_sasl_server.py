"""The server's side of PLAIN and SCRAM, against the client's and against what no honest client sends."""

from __future__ import annotations

import base64
import hmac
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.security.sasl.client import PlainClient
from odradek.security.sasl.errors import SaslError, SaslRefused
from odradek.security.sasl.scram import ScramKeys, keys_of, salted_password
from odradek.security.sasl.scram_client import ScramClient
from odradek.security.sasl.scram_server import ScramServer
from odradek.security.sasl.server import Identity, PlainServer
from tests.security.sasl_support import finals, made, other_nonce, server_of

USERS = {"alice": "secret", "zoë": "pässwörd"}
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.mark.parametrize(("name", "password"), USERS.items())
def test_plain_knows_its_users(name: str, password: str) -> None:
    server = PlainServer(USERS)
    assert server.answer(PlainClient(name, password).first()) == b""
    assert server.identity == Identity(name)


@pytest.mark.parametrize(
    ("message", "told"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0secret", "Authentication failed: Invalid username or password"),
        (b"\0\0secret", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"bob\0alice\0secret", "Authentication failed: Client requested an authorization id that is different from username"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0secret\0more", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0alice\0secret\0more\0and\0more", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"\0\xff\xfe\0secret", "Authentication failed: Invalid username or password"),
    ],
)
def test_plain_refuses_in_kafkas_words(message: bytes, told: str) -> None:
    server = PlainServer(USERS)
    with pytest.raises(SaslRefused, match=re.escape(told)):
        server.answer(message)
    assert server.identity is None


def test_plain_takes_the_name_as_authorization_id() -> None:
    server = PlainServer(USERS)
    server.answer(b"alice\0alice\0secret")
    assert server.identity == Identity("alice")


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("name", ["user", "u,s=e,r", "=2C", "a" * 500])
def test_scram_and_its_client_agree(mechanism: str, name: str) -> None:
    server, client = server_of({name: made(mechanism)}, mechanism), ScramClient(mechanism, name, "pencil", "of-the-client")
    final = client.answer(server.answer(client.first()))
    assert final is not None
    assert server.identity is None
    assert client.answer(server.answer(final)) is None
    assert server.identity == Identity(name)


def test_scram_as_in_rfc_7677() -> None:
    """The exchange of its section 3."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    keys = keys_of("SCRAM-SHA-256", salted_password("SCRAM-SHA-256", "pencil", salt, 4096), salt, 4096)
    server = ScramServer("SCRAM-SHA-256", {"user": keys}.get, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    challenge = server.answer(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO")
    assert challenge == b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    proof = b"dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    final = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=" + proof
    assert server.answer(final) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"y,,n=user,r=nonce",
        b"p=tls-unique,,n=user,r=nonce",
        b"n,,m=must,n=user,r=nonce",
        b"n,,n=user",
        b"n,,n=user,r=",
        b"n,,n=us=er,r=nonce",
        b"n,,n=user,r=non\x00ce",
        b"n,,n=us\xc3\xa9r,r=nonce",
        b"n,,r=nonce,n=user",
        b"n,,n=nobody,r=nonce",
        b"n,,n=user,r=nonce,tokenauth",
        b"n,,n=user,r=nonce,tokenauth=true",
        b"\xff" * 100,
    ],
)
def test_scram_refuses_a_first_message_without_a_reason(first: bytes) -> None:
    with pytest.raises(SaslError) as error:
        server_of({"user": made()}).answer(first)
    assert not isinstance(error.value, SaslRefused)


def test_scram_refuses_another_authorization_id() -> None:
    with pytest.raises(SaslRefused, match="authorization id that is different"):
        server_of({"user": made()}).answer(b"n,a=other,n=user,r=nonce")
    server_of({"user": made()}).answer(b"n,a=user,n=user,r=nonce")


def test_scram_refuses_a_credential_of_few_iterations() -> None:
    with pytest.raises(SaslError, match="4095 iterations"):
        server_of({"user": made(iterations=4095)}).answer(b"n,,n=user,r=nonce")


def longer_nonce(final: bytes) -> bytes:
    return final.replace(b"of-the-server", b"of-the-serverX")


def bound_to_a_channel(final: bytes) -> bytes:
    return final.replace(b"c=biws", b"c=" + base64.b64encode(b"y,,"))


def without_proof(final: bytes) -> bytes:
    return final[: final.index(b",p=")]


def empty_proof(final: bytes) -> bytes:
    return without_proof(final) + b",p="


def short_proof(final: bytes) -> bytes:
    return without_proof(final) + b",p=AAAA"


@pytest.mark.parametrize("trick", [other_nonce, longer_nonce, bound_to_a_channel, without_proof, empty_proof, short_proof, lambda _: b""])
def test_scram_refuses_tricks_with_the_final_message(trick: object) -> None:
    server = server_of({"user": made()})
    final = finals(server)
    with pytest.raises(SaslError):
        server.answer(trick(final))  # type: ignore[operator]
    assert server.identity is None


@pytest.mark.parametrize(
    "without",
    [
        pytest.param(b"c=biws,r=nonce", id="only the client's nonce"),
        pytest.param(b"c=biws,r=nonceof-another-server", id="another server's nonce"),
        pytest.param(b"c=eSws,r=nonceof-the-server", id="a different channel"),
    ],
)
def test_scram_refuses_a_right_proof_over_other_words(without: bytes) -> None:
    """Whoever knows the password, or has overheard a proof, signs what he likes: the words themselves have to be right."""
    keys = made()
    server = server_of({"user": keys})
    challenge = server.answer(b"n,,n=user,r=nonce")
    client_key = hmac.digest(salted_password("SCRAM-SHA-256", "pencil", keys.salt, keys.iterations), b"Client Key", "sha256")
    signature = hmac.digest(keys.stored_key, b",".join((b"n=user,r=nonce", challenge, without)), "sha256")
    proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
    with pytest.raises(SaslError, match=r"nonce|channel"):
        server.answer(without + b",p=" + base64.b64encode(proof))
    assert server.identity is None


def test_scram_refuses_a_wrong_password_and_a_replay() -> None:
    users = {"user": made()}
    server = server_of(users)
    wrong = finals(server, "pen")
    with pytest.raises(SaslError, match="proof is wrong"):
        server.answer(wrong)
    recorded = finals(server_of(users))
    replayed = ScramServer("SCRAM-SHA-256", users.get, "another-nonce")
    replayed.answer(b"n,,n=user,r=nonce")
    with pytest.raises(SaslError, match="a different nonce"):
        replayed.answer(recorded)


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_scram_ends_on_whatever_is_sent(first: bytes, second: bytes) -> None:
    server = server_of({"user": ScramKeys(b"salt", b"s" * 32, b"k" * 32, 4096)})
    for message in (first, second):
        try:
            server.answer(message)
        except SaslError:
            break
    assert server.identity is None


def test_keys_are_not_shown() -> None:
    assert repr(made()) == "ScramKeys(iterations=4096)"
