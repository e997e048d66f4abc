"""Kafka requests and responses on a virtual network, for checkers that use only these messages.

    tap = WireTap(network)
    tap.on_request.append(lambda request: ...)
    tap.on_response.append(lambda request, body: ...)

Frames are decoded per connection and direction. After bytes that are not Kafka's the direction is ignored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.errors import ProtocolError
from odradek.protocol.headers import decode_request_header, decode_response_header

if TYPE_CHECKING:
    from odradek.testing.simulation.network import VirtualNetwork

Address = tuple[str, int]


class TappedRequest(NamedTuple):
    """Request that has arrived. `source` and `target` are hosts; `body` is the encoded message without its header."""

    source: str
    target: str
    target_port: int
    api_key: int
    version: int
    body: memoryview


class _Direction:
    """Bytes from one end of a connection to the other."""

    __slots__ = ("_pending", "asked", "broken")

    def __init__(self, asked: dict[int, TappedRequest] | None) -> None:
        """Make a direction. For responses `asked` has the requests by correlation id; for requests pass None."""
        self.asked = asked
        self.broken = False
        self._pending = bytearray()

    def frames(self, data: bytes) -> list[memoryview]:
        """Return the frames, without their sizes, that are complete with these bytes."""
        pending = self._pending
        pending += data
        position = 0
        found: list[memoryview] = []
        while len(pending) - position >= 4:
            end = position + 4 + int.from_bytes(pending[position : position + 4], "big")
            if len(pending) < end:
                break
            found.append(memoryview(bytes(pending[position + 4 : end])))
            position = end
        if position:
            del pending[:position]
        return found


class WireTap:
    """Decoder of a network's deliveries. Sets the network's `on_delivery` and `on_end`, and passes deliveries on to `and_then`."""

    def __init__(self, network: VirtualNetwork, and_then: Callable[[Address, Address, bytes], object] | None = None) -> None:
        self.on_request: list[Callable[[TappedRequest], object]] = []
        self.on_response: list[Callable[[TappedRequest, memoryview], object]] = []
        self._directions: dict[tuple[Address, Address], _Direction] = {}
        self._asked: dict[tuple[Address, Address], dict[int, TappedRequest]] = {}
        self._and_then = and_then
        network.on_delivery = self._delivered
        network.on_end = self._ended

    def _delivered(self, source: Address, target: Address, data: bytes) -> None:
        if self._and_then is not None:
            self._and_then(source, target, data)
        direction = self._directions.get((source, target))
        if direction is None:
            # The end that dialled sends first, and only that end sends requests.
            direction = self._directions[(source, target)] = _Direction(self._asked.get((target, source)))
            if direction.asked is None:
                self._asked[(source, target)] = {}
        if direction.broken:
            return
        for frame in direction.frames(data):
            told = self._tell_request(source, target, frame) if direction.asked is None else self._tell_response(direction.asked, frame)
            if not told:
                direction.broken = True
                return

    def _ended(self, source: Address, target: Address) -> None:
        for key in ((source, target), (target, source)):
            self._directions.pop(key, None)
            self._asked.pop(key, None)

    # Both return whether the frame is one of Kafka's. A listener's exception reaches the loop: a failed checker must not pass for a
    # satisfied one.

    def _tell_request(self, source: Address, target: Address, frame: memoryview) -> bool:
        try:
            header, offset = decode_request_header(frame)
        except ProtocolError:
            return False
        request = TappedRequest(source[0], *target, header.api_key, header.api_version, frame[offset:])
        self._asked[(source, target)][header.correlation_id] = request
        for listener in self.on_request:
            listener(request)
        return True

    def _tell_response(self, asked: dict[int, TappedRequest], frame: memoryview) -> bool:
        request = asked.pop(int.from_bytes(frame[:4], "big", signed=True), None)
        if request is None:
            return True
        try:
            _, offset = decode_response_header(frame, request.api_key, request.version)
        except ProtocolError:
            return False
        for listener in self.on_response:
            listener(request, frame[offset:])
        return True
