"""Logins in any order of frames: versions, handshakes, messages of several exchanges, sessions that begin again and that end."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from odradek.base.errors import ErrorCode, ProtocolError
from odradek.protocol.messages.metadata import MetadataRequest
from odradek.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from odradek.protocol.messages.sasl_handshake import SaslHandshakeResponse
from odradek.security.principal import Principal
from odradek.security.sasl.errors import SaslError
from odradek.security.sasl.server import Identity
from odradek.server.security.sasl_session import Outcome, SaslSession, Step
from tests.server.sasl_support import VERSIONS, frame, handshake, said, token
from tests.walks import step, walk

OFFERED = ("SHORT", "LONG")
MOST_MS = {"SHORT": 3_000}
PAUSE_S = 1.0
"""KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS."""

LEFT_MS = (None, None, 2_000, 9_000, 9_000, 0)


class Exchange:
    """A mechanism whose messages are `more`, or a name and when the credential ends (Unix ms)."""

    def __init__(self) -> None:
        self.identity: Identity | None = None

    def prepare(self, message: bytes) -> Callable[[], object] | None:
        return (lambda: None) if message.startswith(b"slow") else None

    def answer(self, message: bytes) -> bytes:
        words = message.decode("utf-8", "replace").removeprefix("slow ").split(" ")
        if words == ["more"]:
            return b"go on"
        if words[0] not in ("alice", "bob"):
            raise SaslError("no such user")
        self.identity = Identity(words[0], int(words[1]) if len(words) > 1 else None)
        return b"welcome"


class Logins:
    """`phase` is what the protocol allows next (KIP-152, KIP-368), told in the words of the documentation and not of the code."""

    def __init__(self) -> None:
        self.session = SaslSession(OFFERED, MOST_MS, lambda mechanism: Exchange())
        self.now_s = 50.0
        self.phase = "versions or handshake"
        self.mechanism = ""
        self.bare = False
        self.name: str | None = None
        self.ends_s: float | None = None
        self.begun_again_s: float | None = None

    @property
    def now_ms(self) -> int:
        return round(self.now_s * 1000) + 1_000_000

    def put(self, data: memoryview) -> Step:
        return self.session.frame(data, self.now_ms, self.now_s)

    def ends(self, step: Step, outcome: Outcome = Outcome.FAILED) -> None:
        assert step.outcome is outcome
        self.phase = "over"

    @step(lambda self: self.phase != "over", weight=2, seconds=(0.4, 1.0, 5.0))
    def time_passes(self, seconds: float) -> None:
        self.now_s += seconds

    @step(lambda self: self.phase not in ("over", "served"), refused=(False, True))
    def versions(self, refused: bool) -> None:
        if self.phase == "handshake":
            with pytest.raises(ProtocolError):
                self.put(VERSIONS)
            self.phase = "over"
        elif self.phase == "versions or handshake":
            assert self.put(VERSIONS).outcome is Outcome.VERSIONS
            self.session.versions_answered(without_error=not refused)
            self.phase = self.phase if refused else "handshake"
        else:
            self.other()

    @step(lambda self: self.phase not in ("over", "served"))
    def other(self) -> None:
        """A request that is no part of a login."""
        turn = self.phase == "exchange" and not self.bare
        self.ends(self.put(frame(MetadataRequest(), 9)), Outcome.OUT_OF_TURN if turn else Outcome.FAILED)

    @step(lambda self: self.phase != "over", weight=5, mechanism=(*OFFERED * 3, "UNKNOWN"), version=(0, 1))
    def handshake(self, mechanism: str, version: int) -> None:
        if self.phase == "served":
            soon = self.begun_again_s is not None and self.now_s < self.begun_again_s + PAUSE_S
            begins = self.ends_s is not None and not soon
            assert self.session.begins_again(self.now_s) is begins
            if not begins:
                return
            self.begun_again_s = self.now_s
            self.phase = "handshake"
        if self.phase not in ("versions or handshake", "handshake"):
            self.other()
            return
        step = self.put(handshake(mechanism, version))
        answer = said(SaslHandshakeResponse, step, version)
        assert answer.mechanisms == list(OFFERED)
        if mechanism not in OFFERED:
            assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
            self.ends(step)
            return
        assert (answer.error_code, step.outcome) == (0, Outcome.ANSWER)
        if self.name is not None and mechanism != self.mechanism:
            self.phase = "another mechanism"
            return
        self.phase, self.mechanism, self.bare = "exchange", mechanism, version == 0

    def message(self, text: str) -> Step:
        step = self.put(memoryview(text.encode()) if self.bare else token(text.encode()))
        if text.startswith("slow"):
            assert step.outcome is Outcome.WORK
            assert step.work is not None
            step = self.session.resume(self.now_ms, self.now_s)
        return step

    @step(lambda self: self.phase in ("exchange", "another mechanism"), text=("more", "slow more", "mallory", "slow mallory"))
    def goes_on(self, text: str) -> None:
        if self.phase == "another mechanism":
            self.ends(self.put(token(text.encode())))
            return
        step = self.message(text)
        if "mallory" in text:
            assert (step.answer is None) is self.bare
            self.ends(step)
        else:
            assert step.outcome is Outcome.ANSWER

    @step(lambda self: self.phase == "exchange", weight=9, name=("alice",) * 4 + ("bob",), slow=(False, True), left_ms=LEFT_MS)
    def proves(self, name: str, slow: bool, left_ms: int | None) -> None:
        step = self.message(f"{'slow ' * slow}{name}{'' if left_ms is None else f' {self.now_ms + left_ms}'}")
        if left_ms == 0 or self.name not in (None, name):
            self.ends(step)
            return
        assert step.outcome is Outcome.AUTHENTICATED
        limits = [each for each in (left_ms, MOST_MS.get(self.mechanism)) if each is not None]
        if not self.bare:
            answer = said(SaslAuthenticateResponse, step, 2)
            assert (answer.error_code, answer.auth_bytes, answer.session_lifetime_ms) == (0, b"welcome", min(limits, default=0))
        self.phase, self.name = "served", name
        self.ends_s = self.now_s + min(limits) / 1000 if limits else None

    def holds(self) -> None:
        assert self.session.authenticated is (self.phase == "served") or self.phase == "over"
        if self.phase == "served":
            assert self.name is not None
            assert self.session.principal == Principal("User", self.name)
            assert self.session.mechanism == self.mechanism
            assert self.session.expired(self.now_s) is (self.ends_s is not None and self.now_s > self.ends_s)
        if self.name is None:
            assert not self.session.authenticated


@pytest.mark.parametrize("seed", range(10))
def test_logins_in_any_order(seed: int) -> None:
    walk(Logins(), seed, 300)


def test_every_second_login_too_has_its_pause() -> None:
    session = SaslSession(OFFERED, MOST_MS, lambda mechanism: Exchange())
    now_s = 10.0
    for again in range(4):
        if again:
            assert session.begins_again(now_s)
        session.frame(handshake("SHORT"), 1_000_000, now_s)
        assert session.frame(token(b"alice"), 1_000_000, now_s).outcome is Outcome.AUTHENTICATED
        if again:
            assert not session.begins_again(now_s + 0.99), f"login {again}"
        now_s += 1.5
