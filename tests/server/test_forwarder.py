"""Requests on their way to a controller that answers, refuses, is late or is not there: what is under way and how long it took."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.protocol.headers import encode_response_header
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.envelope import EnvelopeResponse
from odradek.protocol.schema import Message
from odradek.security.principal import ANONYMOUS
from odradek.server.cluster.forwarding import Forwarder
from tests.clock import ManualClock

FRAME = b"what the client sent"


class Forwarding(RuleBasedStateMachine):
    """Whole requests and parts of requests, answered in any order and in every way."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.envelopes: list[tuple[Deferred[Message], Deferred[Any], bool]] = []
        """(answer to the envelope, what the client waits for, whether it is a part) of those under way."""
        self.sent: Deferred[Message] = Deferred()
        self.ended = 0
        channel = SimpleNamespace(send=self.send)
        dispatcher = SimpleNamespace(error_frame=lambda context, route, request, error: ["refused", error])
        self.forwarder = Forwarder(cast(Any, channel), cast(Any, dispatcher))
        self.context: Any = SimpleNamespace(
            services=SimpleNamespace(clock=self.clock),
            principal=ANONYMOUS,
            peer_host="10.0.0.1",
            api_key=CreateTopicsRequest.API_KEY,
            api_version=7,
            correlation_id=7,
            client_id="c",
        )

    def send(self, *_: object, timeout_s: float) -> Deferred[Message]:
        assert timeout_s == 60
        self.sent = Deferred()
        return self.sent

    @rule(part=st.booleans())
    def asks(self, part: bool) -> None:
        request = CreateTopicsRequest()
        forward: Callable[[], Deferred[Any]] = (
            (lambda: self.forwarder.ask(self.context, request))
            if part
            else lambda: self.forwarder.forward(self.context, FRAME, cast(Any, None), request)
        )
        result = forward()
        self.envelopes.append((self.sent, result, part))

    @precondition(lambda self: self.envelopes)
    @rule(data=st.data(), how=st.sampled_from(("answered", "late", "lost", "refused", "too new", "broken")))
    def ends(self, data: st.DataObject, how: str) -> None:
        number = data.draw(st.integers(0, len(self.envelopes) - 1))
        answer, result, part = self.envelopes.pop(number)
        head = encode_response_header(CreateTopicsRequest.API_KEY, 7, 7)
        body = b"".join(map(bytes, [head, *CreateTopicsResponse(throttle_time_ms=5).encode_chunks(7)]))
        if how == "answered":
            answer.complete(EnvelopeResponse(response_data=body))
        elif how in ("late", "lost"):
            answer.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT if how == "late" else ErrorCode.NETWORK_EXCEPTION))
        elif how == "broken":
            answer.fail(KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
        else:
            code = ErrorCode.UNSUPPORTED_VERSION if how == "too new" else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            answer.complete(EnvelopeResponse(error_code=code))
        self.ended += 1
        assert result.done
        assert [each.done for _, each, _ in self.envelopes] == [False] * len(self.envelopes), "nobody else's"
        error = result.error
        if how == "answered":
            found = result.result()
            assert found == (CreateTopicsResponse(throttle_time_ms=5) if part else [len(body).to_bytes(4, "big"), body])
            return
        if how == "too new":
            assert isinstance(error, ProtocolError) or (not part and isinstance(result.result()[1], ProtocolError))
            return
        if not part:
            error = result.result()[1]
        codes = {"late": ErrorCode.REQUEST_TIMED_OUT, "lost": ErrorCode.REQUEST_TIMED_OUT, "refused": ErrorCode.UNKNOWN_SERVER_ERROR}
        assert isinstance(error, KafkaError)
        assert error.code is codes.get(how, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    @rule(seconds=st.sampled_from((0.01, 3.0)))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance_s(seconds)

    @invariant()
    def is_counted(self) -> None:
        assert self.forwarder.under_way == len(self.envelopes)
        times = self.forwarder.times_ms.read(self.clock.now_s)
        assert times.count == self.ended


TestForwarding = Forwarding.TestCase
TestForwarding.settings = settings(max_examples=40, stateful_step_count=12)
