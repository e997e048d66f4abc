"""The same bytes to the SASL listeners of JVM Kafka and Odradek: the same answers, and the connection closed at the same point."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import struct
import time
from collections.abc import Callable, Iterator

import pytest

from odradek.protocol.messages.api_versions import ApiVersionsRequest
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest
from odradek.security.sasl.scram_client import ScramClient
from tests.interop.sasl_pair import PASSWORD, SCRAM_PASSWORD, USER, SaslBroker, both_with_sasl, signed_token
from tests.interop.sasl_support import Wire, bearer, other_nonce, other_proof

pytestmark = pytest.mark.jvm

ALICE = f"\0{USER}\0{PASSWORD}".encode()


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SaslBroker]]:
    with both_with_sasl(tmp_path_factory.mktemp("sasl")) as brokers:
        yield brokers


Story = Callable[[Wire], object]
STORIES: dict[str, tuple[str, Story]] = {}


def story(listener: str = "SASL") -> Callable[[Story], Story]:
    def add(function: Story) -> Story:
        STORIES[function.__name__] = (listener, function)
        return function

    return add


@story()
def plain(wire: Wire) -> None:
    wire.noted.append(len(wire.ask(18, 0, ApiVersionsRequest().encode(0)) or b"") > 100)
    wire.handshake("PLAIN")
    wire.authenticate(ALICE)
    wire.served()
    wire.handshake("PLAIN")
    wire.authenticate(ALICE)
    wire.served()


for number, message in enumerate(
    [
        b"\0alice\0wrong",
        b"\0nobody\0x",
        b"\0\0x",
        b"\0alice\0",
        b"bob\0alice\0" + PASSWORD.encode(),
        b"",
        b"\0",
        b"a\0b\0c\0d\0e",
        b"\xff\0\xff\0",
    ]
):

    def refused(wire: Wire, message: bytes = message) -> None:
        wire.handshake("PLAIN")
        wire.authenticate(message)
        wire.closed()

    STORIES[f"plain refused {number}"] = ("SASL", refused)


@story()
def bare_tokens(wire: Wire) -> None:
    wire.handshake("PLAIN", 0)
    wire.send(ALICE)
    wire.noted.append(wire.frame())
    wire.served()


@story()
def bare_token_refused(wire: Wire) -> None:
    wire.handshake("PLAIN", 0)
    wire.send(b"\0alice\0wrong")
    wire.closed()


@story()
def unknown_mechanism(wire: Wire) -> None:
    wire.handshake("GSSAPI")
    wire.closed()


@story()
def versions_twice(wire: Wire) -> None:
    for _ in range(2):
        wire.noted.append((wire.ask(18, 0, ApiVersionsRequest().encode(0)) or b"")[:2])


@story()
def versions_too_new(wire: Wire) -> None:
    wire.noted.append(wire.ask(18, 99, b""))
    wire.noted.append((wire.ask(18, 0, ApiVersionsRequest().encode(0)) or b"")[:2])
    wire.handshake("PLAIN")


@story()
def versions_without_a_name(wire: Wire) -> None:
    body = ApiVersionsRequest(client_software_name="", client_software_version="").encode(3)
    wire.noted.append((wire.ask(18, 3, body) or b"")[:2])
    wire.noted.append((wire.ask(18, 0, ApiVersionsRequest().encode(0)) or b"")[:2])


@story()
def metadata_first(wire: Wire) -> None:
    wire.served()
    wire.closed()


@story()
def token_first(wire: Wire) -> None:
    wire.authenticate(ALICE)
    wire.closed()


@story()
def garbage_first(wire: Wire) -> None:
    wire.send(b"\x60\x82garbage")
    wire.closed()


@story()
def metadata_in_the_exchange(wire: Wire) -> None:
    wire.handshake("PLAIN")
    body = wire.ask(3, 12, MetadataRequest(topics=[]).encode(12))
    wire.noted.append(None if body is None else "answered")
    wire.closed()


@story()
def versions_in_the_exchange(wire: Wire) -> None:
    wire.handshake("PLAIN")
    wire.noted.append(wire.ask(18, 0, ApiVersionsRequest().encode(0)))
    wire.closed()


@story()
def handshake_in_the_exchange(wire: Wire) -> None:
    wire.handshake("PLAIN")
    wire.handshake("PLAIN")
    wire.closed()


@story()
def handshake_of_version_9(wire: Wire) -> None:
    wire.noted.append(wire.ask(17, 9, SaslHandshakeRequest(mechanism="PLAIN").encode(1)))
    wire.closed()


@story()
def garbage_in_the_exchange(wire: Wire) -> None:
    wire.handshake("PLAIN")
    wire.send(b"garbage")
    wire.closed()


@story()
def too_large(wire: Wire) -> None:
    wire.raw(struct.pack(">i", 512 * 1024 + 1))
    wire.closed()


@story()
def large_enough(wire: Wire) -> None:
    wire.handshake("PLAIN")
    wire.authenticate(b"\0alice\0" + b"x" * 400_000)
    wire.closed()


@story()
def no_size(wire: Wire) -> None:
    wire.raw(struct.pack(">i", -1))
    wire.closed()


def scram(wire: Wire, mechanism: str, name: str = USER, password: str = SCRAM_PASSWORD, change: Callable[[bytes], bytes] = bytes) -> None:
    wire.handshake(mechanism)
    client = ScramClient(mechanism, name, password, "nonce-of-the-client")
    challenge = wire.authenticate(client.first())
    if challenge:
        final = client.answer(challenge)
        assert final is not None
        wire.authenticate(change(final))
    wire.served()


for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
    STORIES[mechanism] = ("SASL", lambda wire, m=mechanism: scram(wire, m))
    STORIES[f"{mechanism} wrong"] = ("SASL", lambda wire, m=mechanism: scram(wire, m, password="wrong"))
    STORIES[f"{mechanism} unknown"] = ("SASL", lambda wire, m=mechanism: scram(wire, m, "nobody"))
    STORIES[f"{mechanism} nonce"] = ("SASL", lambda wire, m=mechanism: scram(wire, m, change=other_nonce))
    STORIES[f"{mechanism} proof"] = ("SASL", lambda wire, m=mechanism: scram(wire, m, change=other_proof))


for number, message in enumerate(
    [
        b"",
        b"y,,n=alice,r=nonce",
        b"n,a=bob,n=alice,r=nonce",
        b"n,a=alice,n=alice,r=nonce",
        b"n,,n=al=ice,r=nonce",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=nonce,tokenauth=true",
        b"n,,n=alice,r=nonce,other=thing",
        b"\xff\xfe",
    ]
):

    def first(wire: Wire, message: bytes = message) -> None:
        wire.handshake("SCRAM-SHA-256")
        wire.authenticate(message)

    STORIES[f"scram first {number}"] = ("SASL", first)


def unsecured(**changed: object) -> bytes:
    now = int(time.time())
    claims = {name: value for name, value in {"sub": "alice", "iat": now, "exp": now + 3600, **changed}.items() if value is not None}
    parts = [base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in ({"alg": "none"}, claims)]
    return b".".join(parts) + b"."


def in_whole_minutes(wire: Wire) -> None:
    wire.noted = [(*each[:3], each[3] // 60_000) if isinstance(each, tuple) and len(each) == 4 else each for each in wire.noted]


def oauth(message: bytes, wire: Wire) -> None:
    wire.handshake("OAUTHBEARER")
    if wire.authenticate(message):
        wire.authenticate(b"\x01")
    wire.served()
    in_whole_minutes(wire)


BEARERS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "unsecured": ("SASL", lambda: bearer(unsecured())),
    "unsecured expired": ("SASL", lambda: bearer(unsecured(exp=1))),
    "unsecured without a name": ("SASL", lambda: bearer(unsecured(sub=None))),
    "unsecured for another": ("SASL", lambda: bearer(unsecured(), b"n,a=bob,")),
    "unsecured is a signed one": ("SASL", lambda: bearer(signed_token().encode())),
    "no first message": ("SASL", lambda: b"n,,\x01\x01"),
    # With another scheme than Bearer the JVM fails with an exception of its own, and closes without an answer.
    "signed": ("SIGNED", lambda: bearer(signed_token().encode())),
    "signed is an unsecured one": ("SIGNED", lambda: bearer(unsecured())),
    "signed expired": ("SIGNED", lambda: bearer(signed_token(exp=int(time.time()) - 60).encode())),
    "signed of another issuer": ("SIGNED", lambda: bearer(signed_token(iss="https://other").encode())),
    "signed for another audience": ("SIGNED", lambda: bearer(signed_token(aud="other").encode())),
    "signed and changed": ("SIGNED", lambda: bearer(signed_token().encode()[:-10] + b"AAAAAAAAAA")),
    "signed by a shared secret": ("SIGNED", lambda: bearer(shared_secret())),
}


def shared_secret() -> bytes:
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=") for each in ({"alg": "HS256", "kid": "key-1"}, {"sub": "mallory"})
    ]
    body = b".".join(parts)
    return body + b"." + base64.urlsafe_b64encode(hmac.new(b"key-1", body, hashlib.sha256).digest()).rstrip(b"=")


for name, (listener, make) in BEARERS.items():
    STORIES[f"bearer {name}"] = (listener, lambda wire, m=make: oauth(m(), wire))


@story("SHORT")
def sessions(wire: Wire) -> None:
    wire.handshake("PLAIN")
    wire.authenticate(ALICE)
    wire.served()
    wire.handshake("PLAIN")
    wire.authenticate(ALICE)
    wire.served()
    wire.handshake("PLAIN")


@story("SHORT")
def another_mechanism(wire: Wire) -> None:
    wire.handshake("PLAIN")
    wire.authenticate(ALICE)
    wire.handshake("SCRAM-SHA-256")
    wire.authenticate(b"n,,n=alice,r=nonce")


@story("SHORT")
def another_user(wire: Wire) -> None:
    wire.handshake("PLAIN")
    wire.authenticate(ALICE)
    wire.handshake("OAUTHBEARER")
    wire.authenticate(bearer(unsecured(sub="bob")))


@pytest.mark.parametrize("name", STORIES)
def test_both_answer_alike(pair: list[SaslBroker], name: str) -> None:
    listener, tell = STORIES[name]
    noted: list[list[object]] = []
    for each in pair:
        wire = Wire(each.port[listener])
        try:
            tell(wire)
        finally:
            wire.close()
        noted.append(wire.noted)
    assert noted[0] == noted[1]
