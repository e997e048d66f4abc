"""Subscriptions to clients' metrics, and checks of pushed metrics (KIP-714; org.apache.kafka.server.ClientMetricsManager).

A client is identified by its client instance id. It gets the union of all subscriptions with matching selectors, and the shortest of their
intervals. Requests before the interval has passed are throttled. No IO: payloads are handed on without being decoded (`otlp`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID
from zlib import crc32

from odradek.base.errors import ErrorCode, KafkaError

DEFAULT_INTERVAL_MS: Final = 300_000
ALL: Final = "*"
"""Text in place of prefixes that selects all metrics."""
COMPRESSIONS: Final = (4, 3, 1, 2)
"""Compression types of a push in order of preference: zstd, lz4, gzip, snappy. Type 0 (none) is always accepted."""
MOST_CLIENTS: Final = 16_384
"""Most clients in memory; the least recently active client is evicted."""
SELECTORS: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)

Matches = Callable[[str], bool]


class Subscription(NamedTuple):
    """Subscription of a client-metrics resource."""

    interval_ms: int
    metrics: frozenset[str]
    """Prefixes of metric names."""
    match: tuple[tuple[str, Matches], ...]
    """Selectors, all of which have to match."""


class Client(NamedTuple):
    """Attributes of a client in the order of `SELECTORS`."""

    instance_id: UUID
    client_id: str
    software_name: str
    software_version: str
    address: str
    port: str

    def selected(self, selector: str, instance_id: str) -> str:
        values = (instance_id, *self[1:])
        return values[SELECTORS.index(selector)]


class Wanted(NamedTuple):
    """Subscription that a client gets."""

    subscription_id: int
    interval_ms: int
    metrics: tuple[str, ...]


class _Known:
    __slots__ = ("asked_ms", "connection_id", "error", "pushed_ms", "terminating", "version", "wanted")

    def __init__(self, wanted: Wanted, version: int, connection_id: str) -> None:
        self.wanted = wanted
        self.version = version
        self.connection_id = connection_id
        self.asked_ms = float("-inf")
        self.pushed_ms = float("-inf")
        self.terminating = False


class Counts:
    """Counters of the metrics `client-metrics`."""

    __slots__ = ("errors", "exported", "throttled", "unknown")

    def __init__(self) -> None:
        self.unknown = 0
        """Pushes with a subscription id that is not the client's current one."""
        self.throttled = 0
        self.exported = 0
        """Pushes handed on to the receiver."""
        self.errors = 0
        """Accepted pushes that could not be read or handed on."""


class Telemetry:
    """Subscriptions and clients of one broker. Times are in milliseconds of a monotonic clock."""

    def __init__(self, max_bytes: int, uuid_text: Callable[[UUID], str], *, most_clients: int = MOST_CLIENTS) -> None:
        """`max_bytes` is telemetry.max.bytes; `uuid_text` returns an id in Kafka's text form."""
        self.max_bytes = max_bytes
        self.counts = Counts()
        self._uuid_text = uuid_text
        self._most_clients = most_clients
        self._subscriptions: Sequence[Subscription] = ()
        self._version = 0
        self._clients: OrderedDict[UUID, _Known] = OrderedDict()
        self._of_connection: dict[str, UUID] = {}

    def __len__(self) -> int:
        return len(self._clients)

    def subscribe(self, subscriptions: Iterable[Subscription]) -> None:
        """Replace all subscriptions. Clients get the new ones with their next request, or after a push with the former id."""
        self._subscriptions = list(subscriptions)
        self._version += 1

    def disconnected(self, connection_id: str) -> None:
        """Remove the client of a closed connection."""
        instance_id = self._of_connection.pop(connection_id, None)
        if instance_id is not None:
            self._clients.pop(instance_id, None)

    def ask(self, client: Client, connection_id: str, now_ms: float) -> Wanted:
        """Return the client's subscription (GetTelemetrySubscriptions).

        Raises KafkaError with THROTTLING_QUOTA_EXCEEDED before the client's interval has passed.
        """
        known = self._find(client, connection_id)
        if now_ms - max(known.asked_ms, known.pushed_ms) < known.wanted.interval_ms:
            self.counts.throttled += 1
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        known.asked_ms = now_ms
        return known.wanted

    def push(
        self, client: Client, connection_id: str, now_ms: float, *, subscription_id: int, compression: int, size: int, terminating: bool
    ) -> None:
        """Check a push (PushTelemetry), and raise KafkaError for a push that has to be refused.

        The errors are, in this order: INVALID_REQUEST after the client's terminating push, THROTTLING_QUOTA_EXCEEDED for an early push,
        UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE. A reserved client instance id is an INVALID_REQUEST.
        """
        if client.instance_id.int in (0, 1):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        known = self._find(client, connection_id)
        try:
            self._check(known, now_ms, subscription_id, compression, size, terminating=terminating)
        finally:
            known.terminating = terminating

    def _check(self, known: _Known, now_ms: float, subscription_id: int, compression: int, size: int, *, terminating: bool) -> None:
        if known.terminating:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        # The first push after GetTelemetrySubscriptions may come at any time, because clients choose it at random.
        early = known.asked_ms <= known.pushed_ms and now_ms - known.pushed_ms < known.wanted.interval_ms
        if not early:
            known.pushed_ms = now_ms
        elif not terminating:
            self.counts.throttled += 1
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        if subscription_id != known.wanted.subscription_id:
            self.counts.unknown += 1
            raise KafkaError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if compression and compression not in COMPRESSIONS:
            raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if size > self.max_bytes:
            raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE)

    def _find(self, client: Client, connection_id: str) -> _Known:
        """Return the client's state. After a change of subscriptions the wanted metrics are computed again; the request times stay."""
        instance_id = client.instance_id
        known = self._clients.get(instance_id)
        if known is None:
            known = self._clients[instance_id] = _Known(self._wanted(client), self._version, connection_id)
            self._of_connection[connection_id] = instance_id
            if len(self._clients) > self._most_clients:
                _, oldest = self._clients.popitem(last=False)
                self._of_connection.pop(oldest.connection_id, None)
            return known
        self._clients.move_to_end(instance_id)
        if known.version != self._version:
            known.wanted, known.version = self._wanted(client), self._version
        return known

    def _wanted(self, client: Client) -> Wanted:
        metrics: set[str] = set()
        interval_ms = DEFAULT_INTERVAL_MS
        instance_id = self._uuid_text(client.instance_id)
        for subscription in self._subscriptions:
            if all(matches(client.selected(selector, instance_id)) for selector, matches in subscription.match):
                metrics |= subscription.metrics
                interval_ms = min(interval_ms, subscription.interval_ms)
        names = (ALL,) if ALL in metrics else tuple(sorted(metrics))
        checksum = crc32(f"{names}{interval_ms}{client.instance_id}".encode())
        return Wanted(checksum - (1 << 32) if checksum >> 31 else checksum, interval_ms, names)


def labels_of(client: Client, instance_id: str, node_id: int) -> Mapping[str, str]:
    """Return the labels that a client's metrics get when they are handed on."""
    own = dict(zip(SELECTORS, (instance_id, *client[1:]), strict=True))
    return {**own, "kafka_broker_id": str(node_id)}
