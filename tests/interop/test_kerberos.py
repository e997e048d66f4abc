"""GSSAPI in a realm of Debian's MIT KDC: the same stories at Odradek and at JVM Kafka, with the same answers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interop.kerberos import Kdc
from odradek.network.kerberos import Tickets
from odradek.protocol.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from odradek.security.sasl.gssapi import SecurityContext
from tests.interop.kerberos_pair import DELAY_S, SESSION_MS, Kerberized, kerberized, realm_with_people
from tests.interop.sasl_support import CLOSED, Wire


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kdc]:
    with realm_with_people(tmp_path_factory.mktemp("realm")) as one:
        yield one


@pytest.fixture(scope="module", params=["odradek", pytest.param("jvm", marks=pytest.mark.jvm)])
def broker(realm: Kdc, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Kerberized]:
    with kerberized(realm, tmp_path_factory.mktemp("kerberized"), jvm=request.param == "jvm") as one:
        yield one


REFUSED = (58, "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI")
Change = Callable[[bytes], bytes]


class Client:
    """A raw client with contexts of its own; `noted` is what it is told."""

    def __init__(self, realm: Kdc, port: int, authority: Path | None) -> None:
        self.wire = Wire(port, authority)
        self.realm = realm

    def context(self, who: str, service: str = "kafka") -> SecurityContext:
        return Tickets(who, str(self.realm.folder / "people.keytab")).context(service, "localhost")

    def ask(self, token: bytes) -> SaslAuthenticateResponse | None:
        body = self.wire.ask(36, 2, SaslAuthenticateRequest(auth_bytes=token).encode(2))
        return None if body is None else SaslAuthenticateResponse.decode(memoryview(body)[1:], 2)

    def log_in(
        self,
        who: str,
        *,
        choice: bytes = b"\1\0\0\0",
        first: Change = bytes,
        second: bytes = b"",
        last: Change = bytes,
        wrapped: bool = True,
    ) -> object:
        """None when that succeeds, else what went wrong. What it sends is changed as the arguments say."""
        self.wire.handshake("GSSAPI")
        context = self.context(who)
        answer = self.ask(first(context.step(b"")))
        if answer is None or answer.error_code:
            return CLOSED if answer is None else (answer.error_code, answer.error_message)
        assert context.step(bytes(answer.auth_bytes)) == b""
        answer = self.ask(second)
        if answer is None or answer.error_code:
            return CLOSED if answer is None else (answer.error_code, answer.error_message)
        offer = context.unwrap(bytes(answer.auth_bytes))
        assert len(offer) == 4
        assert offer[0] == 1
        answer = self.ask(last(context.wrap(choice) if wrapped else choice))
        if answer is None or answer.error_code:
            return CLOSED if answer is None else (answer.error_code, answer.error_message)
        assert answer.auth_bytes == b""
        self.lifetime_ms = answer.session_lifetime_ms
        return None

    def name(self) -> object:
        """Under which name the broker knows it."""
        body = self.wire.ask(38, 3, CreateDelegationTokenRequest().encode(3))
        if body is None:
            return CLOSED
        answer = CreateDelegationTokenResponse.decode(memoryview(body)[1:], 3)
        return (answer.error_code, answer.principal_type, answer.principal_name)


@pytest.fixture
def client(realm: Kdc, broker: Kerberized) -> Iterator[Callable[..., Client]]:
    made: list[Client] = []

    def make(listener: str = "GSS") -> Client:
        made.append(Client(realm, broker.port[listener], broker.certificates.authority if listener == "GSSTLS" else None))
        return made[-1]

    yield make
    for each in made:
        each.wire.close()


@pytest.mark.parametrize(("who", "name"), [("alice", "alice"), ("carol-admin", "CAROL-ADMIN"), ("carl/laptop", "carl")])
def test_a_principal_has_the_name_that_the_rules_give_it(client: Callable[..., Client], who: str, name: str) -> None:
    one = client()
    assert one.log_in(who) is None
    assert one.lifetime_ms == 0
    assert one.name() == (0, "User", name)


def test_over_tls_it_is_the_same(client: Callable[..., Client]) -> None:
    one = client("GSSTLS")
    assert one.log_in("carol-admin") is None
    assert one.name() == (0, "User", "CAROL-ADMIN")
    other = client("GSSTLS")
    before = time.monotonic()
    assert other.log_in("alice", last=changed) == REFUSED
    assert time.monotonic() - before > DELAY_S * 0.9
    other.wire.closed()
    assert other.wire.noted[-1] == CLOSED


@pytest.mark.parametrize("claimed", [b"bob", b"bob@ODRADEK.TEST", b"kafka@localhost", b"\xff"])
def test_who_claims_to_be_somebody_else_stays_who_it_is(client: Callable[..., Client], claimed: bytes) -> None:
    one = client()
    assert one.log_in("alice", choice=b"\1\0\0\0" + claimed) is None
    assert one.name() == (0, "User", "alice")


def changed(token: bytes) -> bytes:
    return token[:-3] + bytes(255 - each for each in token[-3:])


@pytest.mark.parametrize(
    "how",
    [
        {"first": changed},
        {"first": lambda _: b""},
        {"first": lambda _: b"garbage"},
        {"second": b"x"},
        {"last": changed},
        {"last": lambda _: b""},
        {"wrapped": False},
        {"choice": b"\2\0\0\0"},
        {"choice": b"\4\0\0\0"},
        {"choice": b"\0\0\0\0"},
    ],
    ids=[
        "a first token that was changed",
        "no first token",
        "a first token of anything",
        "a second token where none is due",
        "a choice that was changed",
        "no choice",
        "a choice without a proof",
        "integrity",
        "secrecy",
        "no layer at all",
    ],
)
def test_what_is_no_exchange_is_refused_after_the_delay(client: Callable[..., Client], how: dict[str, object]) -> None:
    one = client()
    before = time.monotonic()
    assert one.log_in("alice", **how) == REFUSED  # type: ignore[arg-type]
    assert time.monotonic() - before > DELAY_S * 0.9
    one.wire.closed()
    assert one.wire.noted[-1] == CLOSED


@pytest.mark.parametrize(("choice", "jvm"), [(b"\1\0\0", CLOSED), (b"", CLOSED), (b"\3\0\0\0", None)])
def test_a_choice_that_is_none(broker: Kerberized, client: Callable[..., Client], choice: bytes, jvm: object) -> None:
    """Too short for the JVM's code, which fails; or two layers at once."""
    assert client().log_in("alice", choice=choice) == (jvm if broker.broker.name == "jvm" else REFUSED)


def test_a_token_that_is_played_again_is_refused(client: Callable[..., Client]) -> None:
    seen: list[bytes] = []
    assert client().log_in("bob", first=lambda token: seen.append(token) or token) is None  # type: ignore[func-returns-value]
    assert client().log_in("bob", first=lambda _: seen[0]) == REFUSED


def test_a_session_goes_on_for_the_same_principal_only(client: Callable[..., Client]) -> None:
    one = client("SHORT")
    assert one.log_in("alice") is None
    assert one.lifetime_ms == SESSION_MS
    assert one.name()[:2] == (0, "User")
    assert one.log_in("alice") is None
    other = client("SHORT")
    assert other.log_in("alice") is None
    assert other.log_in("bob") == (58, "Cannot change principals during re-authentication from User.alice: User.bob")


def test_whom_no_rule_names_gets_nowhere(broker: Kerberized, client: Callable[..., Client]) -> None:
    """The JVM looks for the name with the first request, which closes the connection."""
    one = client("SHORT")
    assert one.log_in("carol-admin") == (None if broker.broker.name == "jvm" else REFUSED)
    assert one.name() == CLOSED


def test_a_ticket_for_another_service_is_refused(client: Callable[..., Client]) -> None:
    one = client()
    other = one.context("alice", "other").step(b"")
    assert one.log_in("alice", first=lambda _: other) == REFUSED
