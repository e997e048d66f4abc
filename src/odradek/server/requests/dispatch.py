"""Path of a request from a frame to a handler, and of its response to a frame.

    header -> route (API key and listener scope) -> version -> body -> handler -> response or Deferred -> frame

A request that cannot be answered closes the connection: an unknown or unsupported API key, a version out of range, a malformed body. One
exception is Kafka's: ApiVersions in an unsupported version is answered in version 0 with error 35 and the range, so that the client can try
again. A handler's KafkaError becomes the error response of its API. Any other exception is logged with its traceback and becomes
UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from odradek.base.deferred import Applied, Deferred
from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.handlers.access import declared, required
from odradek.handlers.context import RequestContext
from odradek.handlers.scopes import BROKER, CONTROLLER, LOOPBACK
from odradek.handlers.table import APIS, Api, ApiRange
from odradek.metrics.requests import Requests
from odradek.network.inbound import NotYetError
from odradek.protocol.api_keys import API_INFO, ApiKey
from odradek.protocol.framing import frame_chunks
from odradek.protocol.headers import RequestHeader, decode_request_header, encode_response_header
from odradek.protocol.registry import request_class, response_class
from odradek.protocol.schema import Message
from odradek.security.principal import ANONYMOUS, Principal
from odradek.server.metering.measuring import SlowRequests, count_nothing, error_counter, log_request, request_log
from odradek.server.requests.long_answers import LongAnswers

if TYPE_CHECKING:
    from odradek.controller.core.context import ControllerContext
    from odradek.controller.core.result import ControllerResult
    from odradek.handlers.access import Check
    from odradek.handlers.entries import Entries
    from odradek.handlers.services import ControllerParts, Parts, Services
    from odradek.metrics.requests import Measured
    from odradek.network.chunks import Answer, Chunk
    from odradek.network.connection import Connection
    from odradek.security.resources import Operation as AclOperation
    from odradek.security.resources import ResourceType
    from odradek.server.metering.measuring import CountErrors
    from odradek.server.requests.throttling import Throttling

    HandlerFunction = Callable[[RequestContext, Message, Any], Message | Deferred[Any] | Entries[Any] | None]
    Operation = Callable[[ControllerContext, Message, int], ControllerResult[Message]]
    Forward = Callable[[RequestContext, memoryview | bytes, "Route", Message], Deferred[Sequence[Chunk] | None]]

logger = logging.getLogger(__name__)

_DEBUG = logging.DEBUG
_PRODUCE = int(ApiKey.PRODUCE).to_bytes(2, "big")
"""First bytes of the frame of a Produce request."""
_FIRST = frozenset(
    int(api_key).to_bytes(2, "big")
    for api_key in (
        ApiKey.API_VERSIONS,
        ApiKey.BEGIN_QUORUM_EPOCH,
        ApiKey.BROKER_HEARTBEAT,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.CONTROLLER_REGISTRATION,
        ApiKey.END_QUORUM_EPOCH,
        ApiKey.FETCH,
        ApiKey.FETCH_SNAPSHOT,
        ApiKey.SASL_AUTHENTICATE,
        ApiKey.SASL_HANDSHAKE,
        ApiKey.VOTE,
    )
)
"""First bytes of frames that controller listeners serve before clients' requests (`FrameHandler.goes_first`). A controlled shutdown is a
heartbeat.
"""
_OF_BROKERS = frozenset(
    {
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ALTER_PARTITION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS,
        ApiKey.BROKER_REGISTRATION,
        ApiKey.CONTROLLER_REGISTRATION,
    }
)
"""Requests of the cluster's nodes to the controller: their responses do not wait for the publication of an image."""


class Route:
    """Route of requests of one API on one listener scope.

    Its modules are imported with the first request, or before it (`server.requests.handler_loading`).
    """

    __slots__ = (
        "api_key",
        "count_errors",
        "decider",
        "error_response",
        "forward",
        "function",
        "max_version",
        "measured",
        "min_version",
        "parts",
        "request_class",
        "scope",
    )

    def __init__(self, api: Api, scope: str, max_version: int, requests: Requests) -> None:
        self.api_key = api.api_key
        self.measured: Measured = requests.of(API_INFO[api.api_key].name)
        self.count_errors: CountErrors = count_nothing
        self.scope = scope
        self.forward = scope not in api.deciders
        """Whether the active controller answers; the API's error response is needed here, too."""
        self.decider = api.deciders[CONTROLLER if self.forward else scope]
        self.min_version = api.min_version
        self.max_version = max_version
        self.parts: Parts | None = None
        """Third argument of the handler; None before `Dispatcher.serve`."""
        self.function: HandlerFunction | None = None
        self.request_class: type[Message] | None = None
        self.error_response: Callable[[Message, KafkaError], Message] | None = None

    def import_modules(self) -> None:
        """Import all modules that `load` needs. May run in any thread. Raises the import errors that `load` would raise."""
        import_module(self.decider.module)
        request_class(self.api_key)
        response_class(self.api_key)

    def load(self) -> None:
        """Load the handler and the message classes. Raises AttributeError when the table names a function that does not exist."""
        module = import_module(self.decider.module)
        self.request_class = request_class(self.api_key)
        self.count_errors = error_counter(response_class(self.api_key))
        self.error_response = getattr(module, self.decider.error_function, None)
        function = getattr(module, self.decider.function)
        if self.decider.on_active_controller:
            function = _on_active_controller(function, shown=self.api_key not in _OF_BROKERS)
        checks = () if self.forward else required(self.scope, self.api_key)
        self.function = _with_access_checks(checks, function) if checks else function


def _with_access_checks(checks: Sequence[Check], function: HandlerFunction) -> HandlerFunction:
    """Return a handler that first makes the access checks that the API requires for the whole request."""

    def handle(context: RequestContext, request: Message, parts: Parts) -> Message | Deferred[Any] | Entries[Any] | None:
        for check in checks:
            context.require(check)
        return function(context, request, parts)

    return handle


def _on_active_controller(operation: Operation, *, shown: bool) -> HandlerFunction:
    """Return the handler of an API that the controller's core decides; `shown` as in `KRaftNode.submit`."""

    def handle(context: RequestContext, request: Message, parts: ControllerParts) -> Deferred[Message]:
        version = context.api_version
        count = None if context.meter is None else context.meter.counter()
        if context.services.authorizer is None and count is None:
            return parts.kraft.submit(lambda controller: operation(controller, request, version), operation.__name__, shown=shown)

        def allows(what: AclOperation, resource: ResourceType, name: str) -> bool:
            return context.allows(declared(context.listener_scope, context.api_key, what, resource), name)

        def operate(controller: ControllerContext) -> ControllerResult[Message]:
            with controller.on_behalf_of(allows, count):
                return operation(controller, request, version)

        return parts.kraft.submit(operate, operation.__name__, shown=shown)

    return handle


def build_routes(
    scope: str, *, unstable: bool, requests: Requests | None = None, optional: bool = False
) -> tuple[dict[int, Route], list[ApiRange]]:
    """Return the routes of a listener scope and their ranges in ApiVersions.

    `unstable`: unstable.api.versions.enable. `optional`: whether ApiVersions lists the APIs that the table marks as optional.
    """
    requests = requests or Requests()
    routes: dict[int, Route] = {}
    ranges: list[ApiRange] = []
    for api in APIS:
        if not api.is_served_on(scope):
            continue
        api_key, max_version = api.api_key, api.max_version
        info = API_INFO[api_key]
        if info.latest_version_unstable and not unstable and max_version == info.max_version:
            max_version -= 1
        routes[api_key] = Route(api, scope, max_version, requests)
        if optional or not api.optional:
            ranges.append(ApiRange(int(api_key), api.advertised_from, max_version))
    return routes, ranges


class Dispatcher:
    """Handler of the frames of all listeners (`network.inbound.FrameHandler`)."""

    def __init__(self, services: Services, *, unstable_versions: bool = False) -> None:
        self._services = services
        self._clock = services.clock
        self.requests = Requests()
        self.slow = SlowRequests()
        self.long_answers = LongAnswers(services.clock)
        self._routes: dict[str, dict[int, Route]] = {}
        for scope in (BROKER, CONTROLLER):
            self._routes[scope], services.api_ranges[scope] = build_routes(
                scope, unstable=unstable_versions, requests=self.requests, optional=services.telemetry is not None
            )
        self.forward: Forward | None = None
        """Function that forwards a request to the active controller; set by the wiring on nodes with broker listeners."""
        self.throttling: Throttling | None = None
        """Quotas of clients; None while no client has a quota."""

    @property
    def routes(self) -> list[Route]:
        """Routes of all listener scopes."""
        return [route for routes in self._routes.values() for route in routes.values()]

    def serve(self, scope: str, parts: Parts) -> None:
        """Give the handlers of a listener scope the parts that they need; called before the scope's listeners are served."""
        for route in self._routes[scope].values():
            route.parts = parts

    def handle_frame(self, connection: Connection, frame: memoryview) -> Answer:
        header, offset = decode_request_header(frame)
        listener = connection.listener
        context = RequestContext(
            header.api_key,
            header.api_version,
            header.correlation_id,
            header.client_id,
            connection.connection_id,
            listener.name,
            listener.scope,
            connection.peer_host,
            self._clock.monotonic(),
            self._services,
            connection.principal,
        )
        context.connection = connection
        if self.throttling is not None:
            answer = self._dispatch_metered(self.throttling, context, header, frame, offset, connection)
        else:
            answer = self.dispatch(context, header, frame, offset)
        measured = context.measured
        if measured is None:
            return answer
        now = self._clock.monotonic()
        if isinstance(answer, Deferred) and not answer.done:
            answer.add_callback(partial(self._waited, context, len(frame), now))
            return answer
        measured.answered(header.api_version, len(frame), context.received_at, now)
        if now - context.received_at > self.slow.threshold_s:
            self.slow.log_if_slow(context, len(frame), now, now)
        if request_log.level <= _DEBUG and request_log.isEnabledFor(_DEBUG):
            log_request(context, len(frame), now, now)
        return answer

    def _waited(self, context: RequestContext, size: int, parked: float, _: Deferred[Sequence[Chunk] | None]) -> None:
        """Measure a request whose response was delayed and is complete now."""
        now = self._clock.monotonic()
        if context.measured is not None:
            context.measured.waited(context.api_version, size, context.received_at, parked, now)
        if now - context.received_at > self.slow.threshold_s:
            self.slow.log_if_slow(context, size, parked, now)
        if request_log.isEnabledFor(logging.DEBUG):
            log_request(context, size, parked, now)

    def may_follow(self, frame: memoryview) -> bool:
        """Return whether the frame is a Produce request. Other requests may follow it while it waits for replicas, because appends keep the
        order of their frames.
        """
        return bytes(frame[:2]) == _PRODUCE

    def goes_first(self, connection: Connection, head: bytes) -> bool:
        """Return whether a request belongs to the quorum, keeps a broker's session alive, or begins a connection for such requests."""
        return connection.listener.scope == CONTROLLER and head in _FIRST

    def _dispatch_metered(
        self,
        throttling: Throttling,
        context: RequestContext,
        header: RequestHeader,
        frame: memoryview,
        offset: int,
        connection: Connection | None,
    ) -> Answer:
        meter = throttling.meter(context, len(frame), connection)
        meter.begin()
        try:
            return self.dispatch(context, header, frame, offset)
        finally:
            meter.end()

    def dispatch(self, context: RequestContext, header: RequestHeader, frame: memoryview, offset: int) -> Answer:
        """Return the response frame, in chunks, to the request whose body begins at `offset`. Raises ProtocolError when the connection must
        close.
        """
        route = self._route(context)
        if route is None:
            return self._unsupported_api_versions(context)
        assert route.request_class is not None
        held = self.long_answers.held_requests
        if held.waiting and context.connection is not None and held.hold(context.connection, context.api_key, len(frame)):
            raise NotYetError
        context.measured = route.measured
        request, _ = route.request_class.decode_prefix(frame, header.api_version, offset)
        if route.forward:
            if self.forward is None:
                raise ProtocolError(f"{route.api_key.name} cannot be forwarded")
            forwarded = self.forward(context, frame, route, request)
            return forwarded if context.meter is None else context.meter.forwarded(context, forwarded)
        return self._serve(context, route, request, len(frame))

    def _route(self, context: RequestContext) -> Route | None:
        """Return the route of the request; None for ApiVersions in an unsupported version. Raises ProtocolError for any other
        unsupported request.
        """
        scope, version = context.listener_scope, context.api_version
        route = self._routes[scope].get(context.api_key)
        if route is None:
            raise ProtocolError(f"API key {context.api_key} is not supported on {scope} listeners")
        if not route.min_version <= version <= route.max_version:
            if context.api_key == ApiKey.API_VERSIONS:
                return None
            raise ProtocolError(f"{route.api_key.name} is not supported in version {version}")
        if route.function is None:
            route.load()
        return route

    def _unsupported_api_versions(self, context: RequestContext) -> Sequence[Chunk]:
        from odradek.protocol.messages.api_versions import ApiVersionsResponse

        route = self._routes[context.listener_scope][ApiKey.API_VERSIONS]
        own_range = ApiVersionsResponse.ApiVersion(api_key=18, min_version=route.min_version, max_version=route.max_version)
        body = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[own_range])
        return self._frame(context, body, 0)

    def _serve(self, context: RequestContext, route: Route, request: Message, size: int) -> Answer:
        assert route.function is not None
        try:
            result = route.function(context, request, route.parts)
        except ProtocolError:
            raise
        except Exception as error:
            return self.error_frame(context, route, request, error)
        if result is None:
            return None
        if isinstance(result, Generator):
            result = self.long_answers.serve(context, size, result)
        if not isinstance(result, Deferred):
            return self._finish(context, route, request, result)
        if result.done:
            return self._finish_deferred(context, route, request, result)
        answer: Deferred[Sequence[Chunk] | None] = Applied() if isinstance(result, Applied) else Deferred()
        result.add_callback(partial(self._completed, answer, context, route, request))
        return answer

    def _completed(
        self,
        answer: Deferred[Sequence[Chunk] | None],
        context: RequestContext,
        route: Route,
        request: Message,
        done: Deferred[Message | None],
    ) -> None:
        if context.meter is not None:
            context.meter.begin()
        try:
            answer.complete(self._finish_deferred(context, route, request, done))
        except Exception as error:
            answer.fail(error)
        finally:
            if context.meter is not None:
                context.meter.end()

    def _finish_deferred(
        self, context: RequestContext, route: Route, request: Message, done: Deferred[Message | None]
    ) -> Sequence[Chunk] | None:
        if done.error is not None:
            return self.error_frame(context, route, request, done.error)
        response = done.result()
        return None if response is None else self._finish(context, route, request, response)

    def _finish(self, context: RequestContext, route: Route, request: Message, response: Message) -> Sequence[Chunk]:
        try:
            if context.meter is not None:
                context.meter.answer(response)
            if context.measured is not None:
                route.count_errors(response, context.measured.errors)
            return self._frame(context, response, context.api_version)
        except Exception as error:
            return self.error_frame(context, route, request, error)

    def _frame(self, context: RequestContext, response: Message, version: int) -> Sequence[Chunk]:
        header = encode_response_header(context.api_key, context.api_version, context.correlation_id)
        return frame_chunks(header, response.encode_chunks(version))

    def refusal(self, context: RequestContext, header: RequestHeader, frame: memoryview, offset: int, error: KafkaError) -> Sequence[Chunk]:
        """Return the error response to a request that no handler gets. Raises ProtocolError when the connection must close."""
        route = self._route(context)
        if route is None:
            return self._unsupported_api_versions(context)
        assert route.request_class is not None
        request, _ = route.request_class.decode_prefix(frame, header.api_version, offset)
        return self.error_frame(context, route, request, error)

    def error_frame(self, context: RequestContext, route: Route, request: Message, error: BaseException) -> Sequence[Chunk]:
        """Return the API's response to an error.

        Raises ProtocolError, which closes the connection, when the API has no error response. Raises NOT_CONTROLLER for a request in an
        Envelope: the broker that forwarded the request then asks the other controller.
        """
        if context.forwarded and isinstance(error, KafkaError) and error.code is ErrorCode.NOT_CONTROLLER:
            raise error
        response = self._error(context, route, request, error)
        if context.meter is not None:
            context.meter.answer(response)
        if context.measured is not None:
            route.count_errors(response, context.measured.errors)
        return self._frame(context, response, context.api_version)

    def _error(self, context: RequestContext, route: Route, request: Message, error: BaseException) -> Message:
        if isinstance(error, ProtocolError):
            raise error
        if not isinstance(error, KafkaError):
            logger.error("%s version %d failed", route.api_key.name, context.api_version, exc_info=error)
            error = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        if route.error_response is not None:
            return route.error_response(request, error)
        response = response_class(context.api_key)()
        if not hasattr(response, "error_code"):
            raise ProtocolError(f"{route.api_key.name} failed: {error}")
        response.error_code = int(error.code)  # pyright: ignore[reportAttributeAccessIssue]
        if hasattr(response, "error_message"):
            response.error_message = error.message  # pyright: ignore[reportAttributeAccessIssue]
        return response

    # -- requests without their own socket -----------------------------------------------------------------------------------------------

    def handle_embedded(
        self,
        frame: bytes | memoryview,
        *,
        scope: str,
        listener_name: str,
        peer_host: str,
        principal: Principal = ANONYMOUS,
        connection_id: str = LOOPBACK,
        forwarded: bool = False,
    ) -> tuple[RequestHeader, Answer]:
        """Serve a request (header and body, no size) from an Envelope or from the loopback of the inter-broker channel.

        For a `forwarded` request NOT_CONTROLLER is raised, or fails the Deferred.
        """
        view = memoryview(frame)
        header, offset = decode_request_header(view)
        context = RequestContext(
            header.api_key,
            header.api_version,
            header.correlation_id,
            header.client_id,
            connection_id=connection_id,
            listener_name=listener_name,
            listener_scope=scope,
            peer_host=peer_host,
            received_at=self._clock.monotonic(),
            services=self._services,
            principal=principal,
            forwarded=forwarded,
        )
        if self.throttling is not None and forwarded:
            return header, self._dispatch_metered(self.throttling, context, header, view, offset, None)
        return header, self.dispatch(context, header, view, offset)
