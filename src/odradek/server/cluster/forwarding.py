"""Forwarding of client requests from broker listeners to the active controller (KIP-590, kafka.server.ForwardingManager).

Each request travels in an Envelope with the client's principal and address. The request waits 60 s for an active controller, as in Kafka,
through elections and broken connections. Then the client gets REQUEST_TIMED_OUT.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, ProtocolError, code_of
from odradek.handlers.scopes import TO_CONTROLLER
from odradek.metrics.histogram import Histogram
from odradek.protocol.framing import encode_size
from odradek.protocol.headers import encode_request_header
from odradek.protocol.registry import decode_response

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.network.chunks import Chunk
    from odradek.protocol.messages.envelope import EnvelopeResponse
    from odradek.protocol.schema import Message
    from odradek.server.cluster.channel import InterBrokerChannel
    from odradek.server.requests.dispatch import Dispatcher, Route

_FORWARD_TIMEOUT_S = 60.0


class Forwarder:
    """Sender of clients' requests to the active controller, each wrapped in an Envelope (KIP-590)."""

    def __init__(self, channel: InterBrokerChannel, dispatcher: Dispatcher) -> None:
        self._channel = channel
        self._dispatcher = dispatcher
        self.under_way = 0
        """Requests that the controller has not answered yet."""
        self.times_ms = Histogram()
        """Milliseconds until the response."""

    def forward(
        self, context: RequestContext, frame: memoryview | bytes, route: Route, request: Message
    ) -> Deferred[Sequence[Chunk] | None]:
        """Return the response to the forwarded request; the API's error response with REQUEST_TIMED_OUT when no active controller answers
        in time.
        """

        def answered(data: bytes) -> Sequence[Chunk] | None:
            return [encode_size(len(data)), data]

        # The error frame raises ProtocolError for an error that closes the connection.
        return self._exchange(context, frame).then(answered, lambda error: self._dispatcher.error_frame(context, route, request, error))

    def ask(self, context: RequestContext, request: Message) -> Deferred[Message]:
        """Return the active controller's response to `request`, a part of the client's request in `context`. The Deferred fails with the
        errors that `forward` returns.
        """
        api_key, version = context.api_key, context.api_version
        header = encode_request_header(api_key, version, context.correlation_id, context.client_id)
        return self._exchange(context, header + request.encode(version)).then(lambda data: decode_response(data, api_key, version))

    def _exchange(self, context: RequestContext, frame: memoryview | bytes) -> Deferred[bytes]:
        """Return the response frame, without its size."""
        begun = context.services.clock.monotonic()
        self.under_way += 1

        def count(_: Deferred[Message]) -> None:
            self.under_way -= 1
            now = context.services.clock.monotonic()
            self.times_ms.record((now - begun) * 1000, now)

        def opened(message: Message) -> bytes:
            response = cast("EnvelopeResponse", message)
            code = code_of(response.error_code)
            if code is not ErrorCode.NONE or response.response_data is None:
                raise _envelope_error(code)
            return bytes(response.response_data)

        def failed(error: BaseException) -> bytes:
            raise _client_error(error)

        envelope = _envelope(context, frame)
        sent = self._channel.send(TO_CONTROLLER, envelope.API_KEY, envelope, 0, timeout_s=_FORWARD_TIMEOUT_S)
        sent.add_callback(count)
        return sent.then(opened, failed)


def _envelope(context: RequestContext, frame: memoryview | bytes) -> Message:
    from ipaddress import ip_address

    from odradek.protocol.messages.default_principal import DefaultPrincipalData
    from odradek.protocol.messages.envelope import EnvelopeRequest

    kind, name, token_authenticated = context.principal
    principal = b"\0\0" + DefaultPrincipalData(type=kind, name=name, token_authenticated=token_authenticated).encode(0)
    try:
        address = ip_address(context.peer_host.partition("%")[0]).packed
    except ValueError:
        address = ip_address("127.0.0.1").packed  # hosts of virtual networks have names
    return EnvelopeRequest(request_data=bytes(frame), request_principal=principal, client_host_address=address)


def _envelope_error(code: ErrorCode) -> Exception:
    """Return the error for the client when the controller refused the Envelope itself and did not read the client's request."""
    if code is ErrorCode.UNSUPPORTED_VERSION:
        return ProtocolError("the controller does not support this version of the request")
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _client_error(error: BaseException) -> BaseException:
    """Return the client's error when the envelope had no response: a client must not mistake an error between nodes for an error of its
    connection.
    """
    late = isinstance(error, KafkaError) and error.code in (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION)
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the active controller did not respond in time") if late else error
