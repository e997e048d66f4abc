"""Gate before the dispatcher of a test broker: counts requests, applies faults, and plays an older release of Kafka.

Requests on the broker's controller listener and looped-back requests of the node do not pass the gate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from uuid import UUID

from odradek.base.deferred import Applied, Deferred
from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.handlers.context import RequestContext
from odradek.handlers.scopes import BROKER
from odradek.metadata.features import VersionRange, supported_features
from odradek.network.chunks import Chunk, join_chunks, release_chunks
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.framing import frame_chunks
from odradek.protocol.headers import decode_request_header, decode_response_header, encode_request_header, encode_response_header
from odradek.protocol.messages.api_versions import ApiVersionsResponse
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.registry import request_class, response_class
from odradek.testing.kit.faults import Action, Rule, RuleBook, is_node
from odradek.testing.kit.partition_split import overlay, partition_errors, says, split

if TYPE_CHECKING:
    from odradek.handlers.services import Services
    from odradek.network.chunks import Answer
    from odradek.network.connection import Connection
    from odradek.protocol.headers import RequestHeader
    from odradek.protocol.schema import Message
    from odradek.server.requests.dispatch import Dispatcher
    from odradek.testing.kit.releases import Release

_SESSIONLESS: Final = -1
"""Epoch of a fetch without a session (FetchMetadata.FINAL_EPOCH)."""
_MOST_KINDS: Final = 10_000
"""Maximum number of request kinds that are counted, as clients may choose a new id for each request."""
_MANY_CONNECTIONS: Final = 64


Changed = Callable[[Sequence[Chunk] | None], "Sequence[Chunk] | Deferred[Sequence[Chunk] | None] | None"]


class RequestKind(NamedTuple):
    """Key by which requests are counted."""

    api: ApiKey
    version: int
    client_id: str | None


class _Frame(NamedTuple):
    """Request as it was received."""

    connection: Connection
    header: RequestHeader
    offset: int
    """Offset of the request's body in `bytes`."""
    bytes: memoryview


class Gate:
    """`network.acceptor.FrameHandler` in front of a dispatcher. All methods run on the broker's event loop."""

    def __init__(self, services: Services, dispatcher: Dispatcher, loop: asyncio.AbstractEventLoop, release: Release | None) -> None:
        self.rules = RuleBook()
        self.counts: dict[RequestKind, int] = {}
        """Number of requests of clients and of other nodes, by kind."""
        self.on_request: Callable[[], object] | None = None
        """Called after each counted request."""
        self._services = services
        self._dispatcher = dispatcher
        self._loop = loop
        self._release = release
        self._muted: dict[Connection, float] = {}
        self._clients: dict[Connection, str | None] = {}
        self._look_at = _MANY_CONNECTIONS
        """Number of connections at which closed connections are next removed."""

    # -- interface for the acceptor --------------------------------------------------------------------------------------------------

    def may_follow(self, frame: memoryview) -> bool:
        return self._dispatcher.may_follow(frame)

    def goes_first(self, connection: Connection, head: bytes) -> bool:
        return self._dispatcher.goes_first(connection, head)

    def handle_frame(self, connection: Connection, frame: memoryview) -> Answer:
        if connection.listener.scope != BROKER:
            return self._dispatcher.handle_frame(connection, frame)
        header, offset = decode_request_header(frame)
        self._count(connection, header)
        request = _Frame(connection, header, offset, frame)
        if connection in self._muted:
            left_s = self._muted.pop(connection) - self._loop.time()
            if left_s > 0:
                return self._later(left_s, lambda: self._serve(request))
        return self._serve(request)

    def disconnect(self, client_id: str | None, matches: Callable[[str | None, str | None], bool]) -> int:
        """Close the connections of clients whose id `matches`, and return their number."""
        chosen = [each for each, name in self._clients.items() if not each.closed and matches(name, client_id)]
        for connection in chosen:
            connection.abort()
        return len(chosen)

    def _count(self, connection: Connection, header: RequestHeader) -> None:
        kind = RequestKind(ApiKey(header.api_key), header.api_version, header.client_id)
        if kind in self.counts or len(self.counts) < _MOST_KINDS:
            self.counts[kind] = self.counts.get(kind, 0) + 1
        if connection not in self._clients and len(self._clients) >= self._look_at:
            self._clients = {each: name for each, name in self._clients.items() if not each.closed}
            self._muted = {each: until for each, until in self._muted.items() if not each.closed}
            self._look_at = max(_MANY_CONNECTIONS, 2 * len(self._clients))
        self._clients[connection] = header.client_id
        if self.on_request is not None:
            self.on_request()

    # -- faults ----------------------------------------------------------------------------------------------------------------------

    def _serve(self, request: _Frame) -> Answer:
        if self._release is not None and not is_node(request.header.client_id):
            return self._as_release(request, self._release)
        return self._with_faults(request)

    def _with_faults(self, request: _Frame) -> Answer:
        header = request.header
        if not self.rules:
            return self._dispatcher.handle_frame(request.connection, request.bytes)
        candidates = self.rules.candidates(header.api_key, header.client_id)
        message: Message | None = None
        if any(rule.topic is not None for _, rule in candidates):
            message, _ = request_class(header.api_key).decode_prefix(request.bytes, header.api_version, request.offset)
            if isinstance(message, FetchRequest):
                if message.session_epoch > 0:
                    # Only the session knows the partitions of this fetch. After the error the client starts a new session and names its
                    # partitions.
                    return self._frame(header, FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND))
                message.session_id, message.session_epoch, message.forgotten_topics_data = 0, _SESSIONLESS, []
                request = self._with(request, message)
        rule = self.rules.strike(
            header.api_key, header.client_id, lambda rule: rule.topic is None or self._parts(message, rule)[0] is not None
        )
        if rule is None:
            return self._ask(request)
        if rule.action is Action.FAIL:
            return self._fail(request, rule, message)
        if rule.action is Action.DELAY:
            return _then(self._ask(request), lambda answer: self._later(rule.seconds, lambda: answer))
        if rule.action is Action.THROTTLE:
            return _then(self._ask(request), lambda answer: self._throttled(request, answer, rule.seconds))
        if rule.action is Action.DROP:
            return _then(self._ask(request), _swallow) if rule.applied else Deferred()
        if rule.applied:
            return _then(self._ask(request), self._cut_off)
        raise ProtocolError("a fault closes the connection")

    def _ask(self, request: _Frame) -> Answer:
        """Return the dispatcher's answer to the request."""
        return self._dispatcher.handle_frame(request.connection, request.bytes)

    @staticmethod
    def _with(request: _Frame, message: Message) -> _Frame:
        """Return the request with another message of the same API."""
        header = request.header
        head = encode_request_header(header.api_key, header.api_version, header.correlation_id, header.client_id)
        return request._replace(offset=len(head), bytes=memoryview(head + message.encode(header.api_version)))

    def _fail(self, request: _Frame, rule: Rule, message: Message | None) -> Answer:
        header = request.header
        if rule.topic is None or message is None:
            refusal = self._refusal(request, rule)
            return _then(self._ask(request), lambda answer: _instead(answer, refusal)) if rule.applied else refusal
        inside, rest = self._parts(message, rule)
        assert inside is not None
        if getattr(message, "acks", None) == 0:
            raise ProtocolError("a fault fails a produce request with acks=0")
        errors = partition_errors(inside, response_class(header.api_key), rule.error, rule.message)
        if errors is None:
            refusal = self._refusal(request, rule)
            return _then(self._ask(request), lambda answer: _instead(answer, refusal)) if rule.applied else refusal
        if rule.applied or header.api_key == ApiKey.METADATA:  # the client still needs the brokers that a Metadata response names.
            return _then(self._ask(request), lambda answer: self._overlaid(header, answer, errors))
        if rest is None:
            return self._frame(header, errors)
        if isinstance(rest, FetchRequest):
            rest.max_wait_ms = 0
        return _then(self._ask(self._with(request, rest)), lambda answer: self._overlaid(header, answer, errors))

    def _refusal(self, request: _Frame, rule: Rule) -> Sequence[Chunk]:
        connection, header, offset, frame = request
        context = RequestContext(
            header.api_key,
            header.api_version,
            header.correlation_id,
            header.client_id,
            connection.connection_id,
            connection.listener.name,
            connection.listener.scope,
            connection.peer_host,
            self._services.clock.monotonic(),
            self._services,
            connection.principal,
        )
        refusal = self._dispatcher.refusal(context, header, frame, offset, KafkaError(ErrorCode(rule.error), rule.message))
        if not says(self._decoded(header, refusal), rule.error):
            # Old versions have no field for an error of the whole response (OffsetFetch below 2): the error stands with each partition.
            message, _ = request_class(header.api_key).decode_prefix(frame, header.api_version, offset)
            errors = partition_errors(message, response_class(header.api_key), rule.error, rule.message)
            if errors is not None:
                return self._frame(header, errors)
        return refusal

    def _parts(self, message: Message | None, rule: Rule) -> tuple[Message | None, Message | None]:
        """Return the part of the request that the rule applies to, and the rest."""
        topics = self._services.metadata.image.topics

        def matches(topic: str | UUID | None, partition: int | None) -> bool:
            name = topics.topic_name(topic) if isinstance(topic, UUID) else topic
            return name == rule.topic and rule.partition in (None, partition)

        return (None, None) if message is None else split(message, matches)

    # -- answers ---------------------------------------------------------------------------------------------------------------------

    @staticmethod
    def _frame(header: RequestHeader, response: Message) -> Sequence[Chunk]:
        head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
        return cast("Sequence[Chunk]", frame_chunks(head, [response.encode(header.api_version)]))

    def _decoded(self, header: RequestHeader, answer: Sequence[Chunk]) -> Any:
        frame = memoryview(join_chunks(answer))[4:]
        _, offset = decode_response_header(frame, header.api_key, header.api_version)
        return response_class(header.api_key).decode(frame[offset:], header.api_version)

    def _overlaid(self, header: RequestHeader, answer: Sequence[Chunk] | None, errors: Message) -> Sequence[Chunk] | None:
        return None if answer is None else self._frame(header, overlay(self._decoded(header, answer), errors))

    def _throttled(self, request: _Frame, answer: Sequence[Chunk] | None, seconds: float) -> Sequence[Chunk] | None:
        """Set the response's throttle time, and mute the connection for `seconds`, as a broker does since KIP-219."""
        self._muted[request.connection] = self._loop.time() + seconds
        if answer is None:
            return None
        response = self._decoded(request.header, answer)
        if hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = round(seconds * 1000)
        return self._frame(request.header, response)

    @staticmethod
    def _cut_off(answer: Sequence[Chunk] | None) -> Sequence[Chunk] | None:
        if answer is not None:
            release_chunks(answer)
        raise ProtocolError("a fault closes the connection")

    def _later(self, seconds: float, answer: Callable[[], Answer]) -> Deferred[Sequence[Chunk] | None]:
        """Return an answer that is made after `seconds` of real time."""
        result: Deferred[Sequence[Chunk] | None] = Deferred()

        def make() -> None:
            try:
                made = answer()
            except Exception as error:
                result.fail(error)
                return
            _pass_on(made, result)

        self._loop.call_later(seconds, make)
        return result

    # -- older releases --------------------------------------------------------------------------------------------------------------

    def _as_release(self, request: _Frame, release: Release) -> Answer:
        header = request.header
        served = self._ranges(release)
        versions = served.get(header.api_key)
        if header.api_key == ApiKey.API_VERSIONS:
            assert versions is not None
            if header.api_version not in versions:
                own = ApiVersionsResponse.ApiVersion(api_key=header.api_key, min_version=versions.minimum, max_version=versions.maximum)
                response = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own])
                return self._frame(header._replace(api_version=0), response)
            return _then(self._with_faults(request), lambda answer: self._announced(header, answer, served, release))
        if versions is None:
            raise ProtocolError(f"Kafka {release.name} does not support {ApiKey(header.api_key).name} on this listener")
        if header.api_version not in versions:
            raise ProtocolError(
                f"Kafka {release.name} supports {ApiKey(header.api_key).name} in versions {versions}, not {header.api_version}"
            )
        return self._with_faults(request)

    def _ranges(self, release: Release) -> dict[int, VersionRange]:
        """Return the API versions that both the release and this broker serve."""
        found: dict[int, VersionRange] = {}
        for own in self._services.api_ranges[BROKER]:
            theirs = release.apis.get(own.api_key)
            if theirs is not None:
                both = VersionRange(max(own.min_version, theirs.minimum), min(own.max_version, theirs.maximum))
                if both.minimum <= both.maximum:
                    found[own.api_key] = both
        return found

    def _announced(
        self, header: RequestHeader, answer: Sequence[Chunk] | None, served: dict[int, VersionRange], release: Release
    ) -> Sequence[Chunk] | None:
        if answer is None:
            return None
        response = cast("ApiVersionsResponse", self._decoded(header, answer))
        response.api_keys = [
            ApiVersionsResponse.ApiVersion(api_key=key, min_version=versions.minimum, max_version=versions.maximum)
            for key, versions in served.items()
        ]
        own = supported_features()
        response.supported_features = [
            ApiVersionsResponse.SupportedFeatureKey(
                name=name, min_version=levels.minimum, max_version=min(levels.maximum, own[name].maximum)
            )
            for name, levels in release.features.items()
            if name in own and own[name].maximum > 0 and (levels.minimum > 0 or header.api_version >= 4)
        ]
        if not release.features:
            response.finalized_features, response.finalized_features_epoch = [], -1
        return self._frame(header, response)


def _then(answer: Answer, change: Changed) -> Answer:
    """Return the answer that `change` makes of `answer`, now or when `answer` is complete."""
    if not isinstance(answer, Deferred):
        return change(answer)
    result: Deferred[Sequence[Chunk] | None] = Applied() if isinstance(answer, Applied) else Deferred()

    def finish(done: Deferred[Sequence[Chunk] | None]) -> None:
        try:
            changed = change(done.result())
        except BaseException as error:
            result.fail(error)
            return
        _pass_on(changed, result)

    answer.add_callback(finish)
    return result


def _pass_on(answer: Answer, result: Deferred[Sequence[Chunk] | None]) -> None:
    if isinstance(answer, Deferred):
        answer.into(result)
    else:
        result.complete(answer)


def _swallow(answer: Sequence[Chunk] | None) -> Deferred[Sequence[Chunk] | None]:
    """Release the answer, and return an answer that is never complete."""
    if answer is not None:
        release_chunks(answer)
    return Deferred()


def _instead(answer: Sequence[Chunk] | None, other: Sequence[Chunk]) -> Sequence[Chunk]:
    if answer is not None:
        release_chunks(answer)
    return other
