"""Frames of a connection that authenticates, in and out of turn."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from odradek.base.errors import ErrorCode, ProtocolError
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import encode_request_header
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from odradek.security.principal import Principal
from odradek.security.sasl.server import Identity, PlainServer, ServerExchange
from odradek.server.security.sasl_session import Outcome, SaslSession
from tests.server.sasl_support import ALICE, USERS, VERSIONS, frame, handshake, put, said, token


def session(reauth: Mapping[str, int] | None = None, exchange: ServerExchange | None = None) -> SaslSession:
    return SaslSession(("PLAIN", "SECOND"), reauth or {}, lambda mechanism: exchange or PlainServer(USERS))


def test_versions_handshake_and_token() -> None:
    one = session()
    assert put(one, VERSIONS).outcome is Outcome.VERSIONS
    one.versions_answered(without_error=True)
    step = put(one, handshake())
    assert (step.outcome, said(SaslHandshakeResponse, step, 1).mechanisms) == (Outcome.ANSWER, ["PLAIN", "SECOND"])
    step = put(one, token())
    answer = said(SaslAuthenticateResponse, step, 2)
    assert (step.outcome, answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (Outcome.AUTHENTICATED, 0, b"", 0)
    assert one.authenticated
    assert one.principal == Principal("User", "alice")
    assert one.expires_s is None


def test_bare_tokens_after_a_handshake_of_version_0() -> None:
    one = session()
    put(one, handshake(version=0))
    step = put(one, memoryview(ALICE))
    assert (step.outcome, step.answer) == (Outcome.AUTHENTICATED, [b"\0\0\0\0", b""])
    one = session()
    put(one, handshake(version=0))
    step = put(one, memoryview(b"\0alice\0wrong"))
    assert (step.outcome, step.answer) == (Outcome.FAILED, None)


def test_versions_that_were_refused_may_be_asked_for_again_and_only_then() -> None:
    one = session()
    put(one, VERSIONS)
    one.versions_answered(without_error=False)
    assert put(one, VERSIONS).outcome is Outcome.VERSIONS
    one.versions_answered(without_error=True)
    with pytest.raises(ProtocolError):
        put(one, VERSIONS)


def test_a_mechanism_that_is_not_offered() -> None:
    step = put(session(), handshake("GSSAPI"))
    answer = said(SaslHandshakeResponse, step, 1)
    assert (step.outcome, answer.error_code, answer.mechanisms) == (
        Outcome.FAILED,
        ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        ["PLAIN", "SECOND"],
    )


@pytest.mark.parametrize("first", [b"", b"garbage", frame(MetadataRequest(), 12), token(), b"\0\1\0\0"])
def test_what_comes_first_and_is_no_handshake_is_no_login(first: bytes | memoryview) -> None:
    one = session()
    assert put(one, memoryview(first))[:2] == (Outcome.FAILED, None)
    assert not one.authenticated


def test_a_request_during_the_exchange_is_out_of_turn() -> None:
    one = session()
    put(one, handshake())
    step = put(one, frame(MetadataRequest(), 12))
    assert step.outcome is Outcome.OUT_OF_TURN
    assert step.reason == "Unexpected Kafka request of type METADATA during SASL authentication."
    assert not one.authenticated


@pytest.mark.parametrize("data", [b"garbage", handshake("PLAIN", 1)[:3], b""])
def test_garbage_during_the_exchange_closes(data: bytes | memoryview) -> None:
    one = session()
    put(one, handshake())
    with pytest.raises(ProtocolError):
        put(one, memoryview(data))


def test_versions_that_are_not_served_close() -> None:
    header = encode_request_header(ApiKey.SASL_HANDSHAKE, 2, 7, "test")
    with pytest.raises(ProtocolError):
        put(session(), memoryview(header + SaslHandshakeRequest(mechanism="PLAIN").encode(1)))


def test_a_refusal_has_the_mechanisms_words() -> None:
    one = session()
    put(one, handshake())
    step = put(one, token(b"\0alice\0wrong"))
    answer = said(SaslAuthenticateResponse, step, 2)
    assert (step.outcome, answer.error_code, answer.error_message) == (
        Outcome.FAILED,
        ErrorCode.SASL_AUTHENTICATION_FAILED,
        "Authentication failed: Invalid username or password",
    )
    assert one.principal is None


class Expiring(PlainServer):
    """A credential that ends."""

    def __init__(self, expires_ms: int, name: str = "alice") -> None:
        super().__init__(USERS)
        self._ends = Identity(name, expires_ms)

    def answer(self, message: bytes) -> bytes:
        super().answer(message)
        self.identity = self._ends
        return b""


@pytest.mark.parametrize(
    ("most_ms", "expires_ms", "lifetime_ms"),
    [(0, None, 0), (5000, None, 5000), (0, 1_003_000, 3000), (5000, 1_003_000, 3000), (2000, 1_003_000, 2000), (-1, 1_003_000, 3000)],
)
def test_a_session_lasts_as_long_as_the_credential_and_the_key_let_it(most_ms: int, expires_ms: int | None, lifetime_ms: int) -> None:
    one = session({"PLAIN": most_ms}, None if expires_ms is None else Expiring(expires_ms))
    put(one, handshake())
    step = put(one, token(), now_s=50.0)
    assert said(SaslAuthenticateResponse, step, 2).session_lifetime_ms == lifetime_ms
    end = 50.0 + lifetime_ms / 1000
    assert not one.expired(end)
    assert one.expired(end + 0.001) == (lifetime_ms > 0)


def test_an_expired_credential_is_refused_without_saying_so() -> None:
    one = session(exchange=Expiring(1_000_000))
    put(one, handshake())
    answer = said(SaslAuthenticateResponse, put(one, token()), 2)
    assert answer.error_message == "Authentication failed during authentication due to invalid credentials with SASL mechanism PLAIN"
    assert not one.authenticated


def logged_in(most_ms: int = 5000) -> SaslSession:
    one = session({"PLAIN": most_ms, "SECOND": most_ms})
    put(one, handshake())
    put(one, token())
    return one


def test_a_session_begins_again_with_the_same_user() -> None:
    one = logged_in()
    assert one.begins_again(4.0)
    assert put(one, handshake(), now_s=4.0).outcome is Outcome.ANSWER
    assert put(one, token(), now_s=4.0).outcome is Outcome.AUTHENTICATED
    assert one.expires_s == 9.0
    assert not one.begins_again(4.9)
    assert one.begins_again(5.0)


def test_a_session_without_an_end_never_begins_again() -> None:
    assert not logged_in(0).begins_again(4.0)


def test_nobody_becomes_somebody_else() -> None:
    one = logged_in()
    one.begins_again(4.0)
    put(one, handshake())
    step = put(one, token(b"\0bob\0other"))
    assert step.outcome is Outcome.FAILED
    told = "Cannot change principals during re-authentication from User.alice: User.bob"
    assert said(SaslAuthenticateResponse, step, 2).error_message == told
    assert one.principal == Principal("User", "alice")


def test_the_mechanism_does_not_change() -> None:
    one = logged_in()
    one.begins_again(4.0)
    assert put(one, handshake("SECOND")).outcome is Outcome.ANSWER
    assert put(one, token())[:2] == (Outcome.FAILED, None)


class Slow(PlainServer):
    """Needs work before it can answer."""

    def __init__(self) -> None:
        super().__init__(USERS)
        self.worked = False

    def prepare(self, message: bytes) -> object:  # type: ignore[override]
        return self.work

    def work(self) -> None:
        self.worked = True


def test_work_that_takes_long_is_done_elsewhere() -> None:
    exchange = Slow()
    one = session(exchange=exchange)  # type: ignore[arg-type]
    put(one, handshake())
    step = put(one, token())
    assert step.outcome is Outcome.WORK
    assert not one.authenticated
    assert step.work is not None
    step.work()
    assert one.resume(1_000_000, 0.0).outcome is Outcome.AUTHENTICATED


def test_a_session_that_begins_again_is_what_its_new_handshake_says() -> None:
    """Of either version, as often as it likes, no sooner than a second after the one before."""
    one = session({"PLAIN": 10_000})
    now_s = 0.0
    for number, version in enumerate((1, 0, 0, 1, 1)):
        if number:
            if number > 1:
                assert not one.begins_again(now_s - 0.1)
            assert one.begins_again(now_s)
            assert not one.begins_again(now_s + 0.9)
        assert put(one, handshake(version=version), now_s=now_s).outcome is Outcome.ANSWER
        step = put(one, token() if version else memoryview(ALICE), now_s=now_s)
        assert step.outcome is Outcome.AUTHENTICATED
        assert one.expires_s == now_s + 10
        assert not one.expired(now_s + 10)
        assert one.expired(now_s + 10.1)
        now_s += 1.0


def test_a_credential_without_an_end_takes_the_end_of_the_one_before_away() -> None:
    exchanges: list[ServerExchange] = [Expiring(1_005_000), PlainServer(USERS)]
    one = SaslSession(("PLAIN",), {}, lambda mechanism: exchanges.pop(0))
    put(one, handshake())
    put(one, token())
    assert one.expires_s == 5.0
    assert one.begins_again(1.0)
    put(one, handshake())
    put(one, token(), now_s=1.0)
    assert one.expires_s is None
