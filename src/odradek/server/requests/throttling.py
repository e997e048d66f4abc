"""Usage of clients' quotas by requests, and the muting of clients (KIP-13, 124, 219, 599).

While quotas exist, each request has a `Meter`. It measures three things: the time on the loop and in executor calls, as percents of a
thread; the bytes of Produce and Fetch; the partitions that the controller creates and deletes. When the response is complete, the meter
returns the client's throttle time, the longest of the three. The response contains the throttle time and is sent at once, and the
connection is muted for that time. Later costs of the request count for the client's next request.

Exempt are fetches of replicas, transaction markers and, on controllers, the requests of the quorum. A node's requests to itself have no
meter. A request in an Envelope has its client's quotas on the controller, too; the broker that sent it mutes the client.
(kafka.server.RequestHandlerHelper, KafkaApis, ControllerApis)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from odradek.base.deferred import Deferred
from odradek.config.keys.cluster import CONTROLLER_QUOTA_WINDOW_NUM, CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS
from odradek.config.keys.observability import QUOTA_WINDOW_NUM, QUOTA_WINDOW_SIZE_SECONDS
from odradek.handlers.scopes import BROKER, CONTROLLER
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.framing import encode_size
from odradek.protocol.headers import encode_response_header
from odradek.protocol.registry import decode_response
from odradek.quotas.clients import NANOS_TO_PERCENT
from odradek.quotas.managers import ClientQuotas
from odradek.quotas.samples import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from odradek.base.clock import Clock
    from odradek.config.broker import BrokerConfig
    from odradek.handlers.context import RequestContext
    from odradek.network.chunks import Answer, Chunk
    from odradek.network.connection import Connection
    from odradek.protocol.schema import Message
    from odradek.quotas.managers import Changes
    from odradek.quotas.mutations import MutationQuota

T = TypeVar("T")

EXEMPT = {
    BROKER: frozenset({ApiKey.WRITE_TXN_MARKERS}),
    CONTROLLER: frozenset(
        {
            ApiKey.FETCH,
            ApiKey.FETCH_SNAPSHOT,
            ApiKey.VOTE,
            ApiKey.BEGIN_QUORUM_EPOCH,
            ApiKey.END_QUORUM_EPOCH,
            ApiKey.DESCRIBE_QUORUM,
            ApiKey.ALTER_PARTITION,
            ApiKey.ENVELOPE,
        }
    ),
}
"""Listener scope -> APIs whose time counts for no client."""
STRICT_SINCE = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}
"""API -> first version with the error THROTTLING_QUOTA_EXCEEDED."""

_SECONDS_TO_PERCENT = NANOS_TO_PERCENT * 1e9


class Throttling:
    """Quotas of a node's clients, and the meters of the requests being served."""

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self.clock = clock
        window = Window(config[QUOTA_WINDOW_NUM], config[QUOTA_WINDOW_SIZE_SECONDS] * 1000)
        mutations = Window(config[CONTROLLER_QUOTA_WINDOW_NUM], config[CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS] * 1000)
        self.quotas = {scope: ClientQuotas(window, mutations) for scope in (BROKER, CONTROLLER)}
        self.running: Meter | None = None
        """Meter of the request that the loop serves now."""

    @property
    def enabled(self) -> bool:
        """Return whether any client has a quota."""
        return self.quotas[BROKER].enabled

    def apply(self, changes: Changes) -> None:
        """Apply the client quotas among the changes."""
        for quotas in self.quotas.values():
            quotas.apply(changes)

    def now_ms(self) -> int:
        return int(self.clock.monotonic() * 1000)

    def meter(self, context: RequestContext, size: int, connection: Connection | None) -> Meter:
        """Return a meter for a request of `size` bytes. Without a connection no client is muted."""
        meter = context.meter = Meter(self, self.quotas[context.listener_scope], context, size, connection)
        return meter

    def timed(self, job: Callable[[], T]) -> Callable[[], T]:
        """Return the job, to be run in another thread, with its time added to the request that is being served now."""
        meter, clock = self.running, self.clock
        if meter is None:
            return job

        def run() -> T:
            begin = clock.monotonic()
            try:
                return job()
            finally:
                meter.elsewhere.append(clock.monotonic() - begin)

        return run


class Meter:
    """Usage of one request. Everything runs on the loop, except that other threads append to `elsewhere`."""

    __slots__ = (
        "_api_key",
        "_client_id",
        "_connection",
        "_counted",
        "_interrupted",
        "_quotas",
        "_seconds",
        "_since",
        "_size",
        "_throttling",
        "_user",
        "_version",
        "elsewhere",
        "exempt",
        "mutations",
        "settled",
        "throttle_ms",
    )

    def __init__(
        self, throttling: Throttling, quotas: ClientQuotas, context: RequestContext, size: int, connection: Connection | None
    ) -> None:
        self._throttling = throttling
        self._quotas = quotas
        self._connection = connection
        self._user = context.principal.name
        self._client_id = context.client_id or ""
        self._api_key = context.api_key
        self._version = context.api_version
        self._size = size
        self._seconds = 0.0
        self._counted = 0.0
        """Part of `_seconds` that the quota has recorded."""
        self._since = 0.0
        self._interrupted: list[Meter | None] = []
        """Meter that ran before each `begin` without its `end`: requests complete each other, so `begin` may nest."""
        self.elsewhere: list[float] = []
        """Seconds in other threads."""
        self.exempt = context.api_key in EXEMPT[context.listener_scope]
        self.mutations: MutationQuota | None = None
        self.settled = False
        """Whether the throttle time is decided."""
        self.throttle_ms = 0

    # -- time ------------------------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start measuring loop time for this request; an interrupted request is paused until `end`."""
        throttling = self._throttling
        now = throttling.clock.monotonic()
        interrupted = throttling.running
        self._interrupted.append(interrupted)
        if interrupted is not None:
            interrupted._seconds += now - interrupted._since
        throttling.running = self
        self._since = now

    def end(self) -> None:
        """Stop measuring. Time after the response counts for the client's next request."""
        throttling = self._throttling
        now = throttling.clock.monotonic()
        self._seconds += now - self._since
        interrupted = throttling.running = self._interrupted.pop()
        if interrupted is not None:
            interrupted._since = now
        if not self._interrupted and self.settled and not self.exempt:
            self._quotas.request.note(self._user, self._client_id, self.percent(), throttling.now_ms())

    def percent(self) -> float:
        """Return the time not counted yet, as percents of a thread's second, and mark it as counted."""
        seconds = self._seconds
        if self._throttling.running is self:
            seconds += self._throttling.clock.monotonic() - self._since
        while self.elsewhere:
            seconds += self.elsewhere.pop()
        uncounted, self._counted = seconds - self._counted, seconds
        self._seconds = seconds
        self._since = self._throttling.clock.monotonic()
        return uncounted * _SECONDS_TO_PERCENT

    # -- usage ------------------------------------------------------------------------------------------------------------------------

    def most_to_fetch(self) -> float:
        """Return the number of bytes above which a fetch is throttled in any case."""
        return self._quotas.fetch.most_at_once(self._user, self._client_id, self._throttling.now_ms())

    def produced(self, acks: int) -> int:
        """Record a served Produce request; return its throttle time in milliseconds. With acks=0 (without a response) its time counts for
        no client.
        """
        now_ms = self._throttling.now_ms()
        bandwidth_ms = self._quotas.produce.record(self._user, self._client_id, self._size, now_ms)
        self.exempt = acks == 0
        return self._settle(bandwidth_ms, now_ms)

    def fetched(self, size: int) -> int:
        """Record a Fetch response of `size` bytes; return its throttle time in milliseconds. A throttled client must get an empty response,
        whose bytes do not count.
        """
        now_ms = self._throttling.now_ms()
        bandwidth_ms = self._quotas.fetch.record(self._user, self._client_id, size, now_ms)
        throttle_ms = self._settle(bandwidth_ms, now_ms)
        if throttle_ms:
            self._quotas.fetch.note(self._user, self._client_id, -size, now_ms)
        return throttle_ms

    def counter(self) -> Callable[[int], None] | None:
        """Return a function that the controller calls with the number of partitions to create or delete of each topic; None without such a
        quota.

        The function raises KafkaError THROTTLING_QUOTA_EXCEEDED when the quota does not allow the partitions.
        """
        strict_since = STRICT_SINCE.get(ApiKey(self._api_key))
        if strict_since is None:
            return None
        now_ms = self._throttling.now_ms
        quota = self._quotas.mutation.quota_for(self._user, self._client_id, now_ms(), strict=self._version >= strict_since)
        self.mutations = quota
        return None if quota is None else lambda partitions: quota.record(partitions, now_ms())

    def answer(self, response: Message) -> None:
        """Write the throttle time into a complete response."""
        if not self.settled:
            now_ms = self._throttling.now_ms()
            asked_ms = getattr(response, "throttle_time_ms", 0)  # throttle time of the controller
            self._settle(asked_ms if self.mutations is None else self.mutations.throttle_ms(now_ms), now_ms)
        if self.throttle_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = self.throttle_ms  # pyright: ignore[reportAttributeAccessIssue]

    def _settle(self, throttle_ms: int, now_ms: int) -> int:
        self.settled = True
        if not self.exempt:
            throttle_ms = max(throttle_ms, self._quotas.request.record(self._user, self._client_id, self.percent(), now_ms))
        self.throttle_ms = throttle_ms
        if throttle_ms > 0 and self._connection is not None:
            self._connection.mute(throttle_ms / 1000)
        return throttle_ms

    def forwarded(self, context: RequestContext, answer: Answer) -> Answer:
        """Return the controller's response to a forwarded request, with the longer of both throttle times."""
        if not isinstance(answer, Deferred):
            return answer
        return answer.then(lambda chunks: None if chunks is None else self._throttled(context, chunks))

    def _throttled(self, context: RequestContext, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        frame = b"".join([chunk for chunk in chunks if isinstance(chunk, (bytes, bytearray, memoryview))])
        response = decode_response(frame[4:], context.api_key, context.api_version)
        asked_ms = getattr(response, "throttle_time_ms", 0)
        self.answer(response)
        if self.throttle_ms == asked_ms:
            return chunks
        header = encode_response_header(context.api_key, context.api_version, context.correlation_id)
        body = header + response.encode(context.api_version)
        return [encode_size(len(body)), body]
