"""Requests from one role to another: broker to controller, broker to broker.

On a single node the channel is looped back: the request is encoded, dispatched as if it had come in on the other role's listener, and its
response encoded and decoded again, so that a cluster of one runs the very code of a cluster of many. Delivery is on the loop's next turn:
nothing that sends is entered again from within; who sends from a callback of the loop itself, with nobody above, may have it at once, and
then without the bytes in between: that is for what every transaction sends, whose bytes go from node to node in simulations. To other nodes
it needs somebody to carry its frames, whom simulations have, and brokers not yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar, cast

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.handlers.scopes import BROKER, CONTROLLER, TO_CONTROLLER
from odradek.handlers.table import APIS
from odradek.network.connection import release_chunks
from odradek.protocol.framing import encode_size
from odradek.protocol.headers import decode_response_header, encode_request_header
from odradek.protocol.registry import response_class

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.network.connection import Answer, Chunk
    from odradek.protocol.schema import Message
    from odradek.server.context import RequestContext
    from odradek.server.dispatch import Dispatcher, Route

R = TypeVar("R", bound="Message")

Carry = Callable[[int, str, bytes], "Deferred[Sequence[Chunk] | None]"]
"""(node, listener scope, frame without its size) -> the frame of the answer, with it; what gets lost is never answered."""

_RETRY_S = 0.05
_FORWARD_TIMEOUT_S = 30.0

_ON_BROKERS: Final = frozenset([int(api.api_key) for api in APIS if BROKER in api.deciders])


def scope_of(api_key: int) -> str:
    """The listeners on which a node serves what another sends it."""
    return BROKER if api_key in _ON_BROKERS else CONTROLLER


class InterBrokerChannel:
    """Sends requests to other roles of this node, and to other nodes where `carry` gets them there (else BROKER_NOT_AVAILABLE)."""

    def __init__(
        self, node_id: int, clock: Clock, dispatcher: Dispatcher, *, listener_names: dict[str, str], carry: Carry | None = None
    ) -> None:
        """`listener_names`: listener scope -> the name of the listener on which looped-back requests appear to come in."""
        self._node_id = node_id
        self._clock = clock
        self._dispatcher = dispatcher
        self._listener_names = listener_names
        self._carry = carry
        self._correlation_id = 0
        self._closed = False

    def send(
        self, destination: int, api_key: int, request: Message, version: int, *, timeout_s: float = 30.0, at_once: bool = False
    ) -> Deferred[Message]:
        """Sends `request` to a node, or to the active controller (TO_CONTROLLER); the result is the response message.

        With `at_once` a request to this node is served before `send` returns, and may be answered by then.
        Fails with KafkaError REQUEST_TIMED_OUT when there is no answer in time and NETWORK_EXCEPTION when the other side closed on us.
        """
        result: Deferred[Message] = Deferred()
        if self._closed:
            result.fail(KafkaError(ErrorCode.NETWORK_EXCEPTION, "the channel is closed"))
        elif destination in (TO_CONTROLLER, self._node_id):
            if at_once:
                self._hand_over(request, version, timeout_s, result)
            else:
                self._exchange(api_key, request, version, timeout_s, result, self._loop_back)
        elif self._carry is not None:
            carry = self._carry
            self._exchange(api_key, request, version, timeout_s, result, lambda scope, frame: carry(destination, scope, frame))
        else:
            result.fail(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"node {destination} cannot be reached: this is a cluster of one node"))
        return result

    def close(self) -> None:
        """Nothing is sent from now on; what is under way is still answered."""
        self._closed = True

    def _loop_back(self, scope: str, frame: bytes) -> Answer:
        _, answer = self._dispatcher.handle_embedded(frame, scope=scope, listener_name=self._listener_names[scope], peer_host="127.0.0.1")
        return answer

    def _exchange(
        self,
        api_key: int,
        request: Message,
        version: int,
        timeout_s: float,
        result: Deferred[Message],
        serve: Callable[[str, bytes], Answer],
    ) -> None:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
        scope = scope_of(api_key)
        frame = encode_request_header(api_key, version, self._correlation_id, f"node-{self._node_id}") + request.encode(version)

        def deliver() -> None:
            try:
                answer = serve(scope, frame)
            except Exception as error:
                result.fail(KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the request was refused: {error}"))
                return
            _when_answered(answer, received)

        def received(done: Deferred[Sequence[Chunk] | None]) -> None:
            timer.cancel()
            if done.error is not None:
                result.fail(KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the request was refused: {done.error}"))
                return
            try:
                body = _join(done.result())
                _, offset = decode_response_header(body, api_key, version)
                response = response_class(api_key).decode(memoryview(body)[offset:], version)
            except ProtocolError as error:
                result.fail(error)
                return
            result.complete(response)

        def late() -> None:
            result.fail(_late(timeout_s))

        timer = self._clock.call_later(timeout_s, late)
        self._clock.call_later(0, deliver)

    def _hand_over(self, request: Message, version: int, timeout_s: float, result: Deferred[Message]) -> None:
        """To this node itself, as a message; the answer comes as one."""
        scope = scope_of(request.API_KEY)

        def received(done: Deferred[Message | None]) -> None:
            response = None if done.error is not None else done.result()
            if response is None:
                result.fail(KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the request was refused: {done.error}"))
            else:
                result.complete(response)

        try:
            answer = self._dispatcher.handle_message(
                request,
                version,
                scope=scope,
                listener_name=self._listener_names[scope],
                peer_host="127.0.0.1",
                client_id=f"node-{self._node_id}",
            )
        except Exception as error:
            result.fail(KafkaError(ErrorCode.NETWORK_EXCEPTION, f"the request was refused: {error}"))
            return
        if not answer.done:
            timer = self._clock.call_later(timeout_s, lambda: result.fail(_late(timeout_s)))
            answer.add_callback(lambda _: timer.cancel())
        answer.add_callback(received)


def _late(timeout_s: float) -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"no answer in {timeout_s:g} s")


def _when_answered(answer: Answer, callback: Callable[[Deferred[Sequence[Chunk] | None]], object]) -> None:
    if isinstance(answer, Deferred):
        answer.add_callback(callback)
        return
    done: Deferred[Sequence[Chunk] | None] = Deferred()
    done.complete(answer)
    callback(done)


def _join(answer: Sequence[Chunk] | None) -> bytes:
    """A frame of chunks as bytes, without its size; chunks of files are read."""
    chunks = answer or ()
    parts = [chunk if isinstance(chunk, (bytes, bytearray, memoryview)) else chunk.read(0, chunk.size) for chunk in chunks]
    release_chunks(chunks)
    return b"".join(parts)[4:]


class Forwarder:
    """Wraps requests that came in on a broker listener and sends them to the active controller (KIP-590)."""

    def __init__(self, channel: InterBrokerChannel, clock: Clock, dispatcher: Dispatcher) -> None:
        self._channel = channel
        self._clock = clock
        self._dispatcher = dispatcher

    def forward(
        self, context: RequestContext, frame: memoryview | bytes, route: Route, request: Message
    ) -> Deferred[Sequence[Chunk] | None]:
        """The answer to the forwarded request. Without an active controller it is asked again until the time limit, then NOT_CONTROLLER."""
        result: Deferred[Sequence[Chunk] | None] = Deferred()

        def answered(done: Deferred[bytes]) -> None:
            try:
                if done.error is not None:
                    result.complete(self._dispatcher.error_frame(context, route, request, done.error))
                else:
                    data = done.result()
                    result.complete([encode_size(len(data)), data])
            except ProtocolError as closing:
                result.fail(closing)

        self._exchange(context, frame).add_callback(answered)
        return result

    def ask(self, context: RequestContext, request: Message) -> Deferred[Message]:
        """The active controller's response to `request`, a part of what came in with `context`; fails as `forward` answers."""
        result: Deferred[Message] = Deferred()
        api_key, version = context.api_key, context.api_version

        def answered(done: Deferred[bytes]) -> None:
            if done.error is not None:
                result.fail(done.error)
                return
            try:
                body = done.result()
                _, offset = decode_response_header(body, api_key, version)
                response = response_class(api_key).decode(memoryview(body)[offset:], version)
            except ProtocolError as error:
                result.fail(error)
                return
            result.complete(response)

        header = encode_request_header(api_key, version, context.correlation_id, context.client_id)
        self._exchange(context, header + request.encode(version)).add_callback(answered)
        return result

    def _exchange(self, context: RequestContext, frame: memoryview | bytes) -> Deferred[bytes]:
        """The frame of the answer, without its size."""
        result: Deferred[bytes] = Deferred()
        envelope = _envelope(context, frame)
        deadline = self._clock.monotonic() + _FORWARD_TIMEOUT_S

        def attempt() -> None:
            left = deadline - self._clock.monotonic()
            self._channel.send(TO_CONTROLLER, envelope.API_KEY, envelope, 0, timeout_s=max(left, _RETRY_S)).add_callback(answered)

        def answered(done: Deferred[Message]) -> None:
            from odradek.protocol.messages.envelope import EnvelopeResponse

            if done.error is not None:
                error: BaseException = done.error
            else:
                response = cast(EnvelopeResponse, done.result())
                code = ErrorCode(response.error_code)
                if code == ErrorCode.NONE and response.response_data is not None:
                    result.complete(bytes(response.response_data))
                    return
                if code == ErrorCode.NOT_CONTROLLER and self._clock.monotonic() + _RETRY_S < deadline:
                    self._clock.call_later(_RETRY_S, attempt)
                    return
                error = _envelope_error(code)
            result.fail(error)

        attempt()
        return result


def _envelope(context: RequestContext, frame: memoryview | bytes) -> Message:
    from ipaddress import ip_address

    from odradek.protocol.messages.default_principal import DefaultPrincipalData
    from odradek.protocol.messages.envelope import EnvelopeRequest

    kind, _, name = context.principal.partition(":")
    principal = b"\0\0" + DefaultPrincipalData(type=kind, name=name, token_authenticated=False).encode(0)
    try:
        address = ip_address(context.peer_host.partition("%")[0]).packed
    except ValueError:
        address = ip_address("127.0.0.1").packed  # virtual networks have names for hosts
    return EnvelopeRequest(request_data=bytes(frame), request_principal=principal, client_host_address=address)


def _envelope_error(code: ErrorCode) -> Exception:
    """What the client sees of an error on the envelope: its own request was never judged (ForwardingManager)."""
    if code == ErrorCode.UNSUPPORTED_VERSION:
        return ProtocolError("the controller does not serve this version of the request")
    if code == ErrorCode.NOT_CONTROLLER:
        return KafkaError(code, "there is no active controller")
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
