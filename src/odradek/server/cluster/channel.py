"""Requests from one role to another: broker to controller, broker to broker.

- A request to this node itself is looped back. The channel encodes the request, dispatches it as if it had arrived on the other role's
  listener, and encodes and decodes its response. So a cluster of one node runs the same code as a cluster of many. The request is delivered
  in the next loop iteration: the sender is never re-entered. Requests that each transaction would send to its own node do not use the
  channel (`server.cluster.transactions_here`).
- A request to another broker goes to the inter-broker listener that the broker has registered (`network.peers`).
- A request to the active controller follows the leader of the metadata quorum (`server.cluster.controller_requests`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.handlers.scopes import BROKER, CONTROLLER, TO_CONTROLLER
from odradek.network.chunks import join_chunks
from odradek.network.peers import Address, Peers
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.headers import encode_request_header
from odradek.protocol.registry import decode_response
from odradek.security.principal import ANONYMOUS, Principal
from odradek.server.cluster.controller_requests import ControllerRequests

if TYPE_CHECKING:
    from odradek.base.clock import Clock
    from odradek.network.chunks import Answer, Chunk
    from odradek.protocol.schema import Message
    from odradek.server.requests.dispatch import Dispatcher

Carry = Callable[[int, str, bytes], "Deferred[Sequence[Chunk] | None]"]
"""(node, listener scope, frame without its size) -> the response frame with its size. The Deferred of a lost request never completes."""

_PURPOSES: Final[dict[int, str]] = {
    ApiKey.BROKER_REGISTRATION: "lifecycle",
    ApiKey.BROKER_HEARTBEAT: "lifecycle",
    ApiKey.ENVELOPE: "forward",
    ApiKey.WRITE_TXN_MARKERS: "markers",
}
"""API -> purpose of its connection, "rpc" by default. A heartbeat must not wait for a client's request to the controller, and no request
may wait for a marker that waits for replicas.
"""


class InterBrokerChannel:
    """The one channel of a node. Without `peers` (or `carry`, the network of simulations) the node is the only one of its cluster."""

    def __init__(
        self,
        node_id: int,
        clock: Clock,
        dispatcher: Dispatcher,
        *,
        listener_names: dict[str, str],
        principal: Callable[[str], Principal] = lambda _scope: ANONYMOUS,
        peers: Peers | None = None,
        broker: Callable[[int], Address | None] = lambda broker_id: None,
        controller: Callable[[], Address | None] | None = None,
        controller_timeout_s: float = 30.0,
        carry: Carry | None = None,
    ) -> None:
        """`listener_names`: listener scope -> name of the listener on which looped-back requests appear to arrive. `principal`: listener
        scope -> principal of these requests. `broker` returns the address of a broker. `controller` returns the address of the active
        controller, None while no controller is known; without `controller` this node is the controller. `controller_timeout_s`
        (controller.socket.timeout.ms) bounds each wait for a controller's response; after it the request is sent again.
        """
        self._node_id = node_id
        self._clock = clock
        self._dispatcher = dispatcher
        self._listener_names = listener_names
        self._principal = principal
        self._peers = peers
        self._broker = broker
        self._carry = carry
        self._correlation_id = 0
        self._closed = False
        here = Address(node_id, "", 0)
        self._to_controller = ControllerRequests(
            clock, controller or (lambda: here), self._send_to_controller, attempt_timeout_s=controller_timeout_s
        )

    def send(self, destination: int, api_key: int, request: Message, version: int, *, timeout_s: float = 30.0) -> Deferred[Message]:
        """Send `request` to a broker, or to the active controller (TO_CONTROLLER); return its response message.

        The request has the highest version up to `version` that the other side knows. The Deferred fails with KafkaError:

        - REQUEST_TIMED_OUT when no response arrives within `timeout_s`;
        - NETWORK_EXCEPTION when the other side cannot be reached or closes the connection;
        - BROKER_NOT_AVAILABLE when no such broker is registered;
        - UNSUPPORTED_VERSION as in `Peers.send`.

        A request to the active controller fails only at its deadline: until then it is sent again, and waits for a controller that answers.
        """
        if self._closed:
            return Deferred.failed(KafkaError(ErrorCode.NETWORK_EXCEPTION, "the channel is closed"))
        if destination == TO_CONTROLLER:
            return self._to_controller.send(request, version, timeout_s)
        result: Deferred[Message] = Deferred()
        if destination == self._node_id:
            self._exchange(BROKER, request, version, timeout_s, result, self._loop_back)
            return result
        if self._carry is not None:
            carry = self._carry
            self._exchange(BROKER, request, version, timeout_s, result, lambda scope, frame: carry(destination, scope, frame))
            return result
        address = self._broker(destination)
        if address is None or self._peers is None:
            return Deferred.failed(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"this node does not know broker {destination}"))
        return self._peers.send(address, _PURPOSES.get(api_key, "rpc"), request, at_most=version, timeout_s=timeout_s)

    def controller_changed(self) -> None:
        """Send waiting requests, in the next loop iteration, to the controller that `controller` now returns."""
        self._clock.call_later(0, self._to_controller.controller_changed)

    def close(self) -> None:
        """Send no further request; requests under way are still answered."""
        self._closed = True
        self._to_controller.close()

    def _send_to_controller(self, controller: Address, request: Message, version: int, timeout_s: float) -> Deferred[Message]:
        if controller.node_id == self._node_id:
            result: Deferred[Message] = Deferred()
            self._exchange(CONTROLLER, request, version, timeout_s, result, self._loop_back)
            return result
        assert self._peers is not None
        return self._peers.send(controller, _PURPOSES.get(request.API_KEY, "rpc"), request, at_most=version, timeout_s=timeout_s)

    def _loop_back(self, scope: str, frame: bytes) -> Answer:
        _, answer = self._dispatcher.handle_embedded(
            frame,
            scope=scope,
            listener_name=self._listener_names[scope],
            peer_host="127.0.0.1",
            principal=self._principal(scope),
        )
        return answer

    def _exchange(
        self,
        scope: str,
        request: Message,
        version: int,
        timeout_s: float,
        result: Deferred[Message],
        serve: Callable[[str, bytes], Answer],
    ) -> None:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFF_FFFF
        api_key = request.API_KEY
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
                response = decode_response(join_chunks(done.result() or ())[4:], api_key, version)
            except ProtocolError as error:
                result.fail(error)
                return
            result.complete(response)

        def late() -> None:
            result.fail(_late(timeout_s))

        timer = self._clock.call_later(timeout_s, late)
        self._clock.call_later(0, deliver)


def _late(timeout_s: float) -> KafkaError:
    return KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"no response within {timeout_s:g} s")


def _when_answered(answer: Answer, callback: Callable[[Deferred[Sequence[Chunk] | None]], object]) -> None:
    if isinstance(answer, Deferred):
        answer.add_callback(callback)
        return
    done: Deferred[Sequence[Chunk] | None] = Deferred()
    done.complete(answer)
    callback(done)
