"""Which metrics clients are asked for, and whether what they push is taken (KIP-714; org.apache.kafka.server.ClientMetricsManager).

A client is known by the id that it was given. It gets the union of all subscriptions whose selectors fit it, and the shortest of their
intervals; whoever asks or pushes before that is over is throttled. No IO: payloads are looked at, not opened (`otlp`).
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
"""In place of prefixes: all metrics."""
COMPRESSIONS: Final = (4, 3, 1, 2)
"""zstd, lz4, gzip, snappy: what a push may be compressed with, the best first; 0, none, is always taken."""
MOST_CLIENTS: Final = 16_384
"""Clients that are remembered; the one that was silent for longest makes place."""
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
    """A client-metrics resource."""

    interval_ms: int
    metrics: frozenset[str]
    """Prefixes of names."""
    match: tuple[tuple[str, Matches], ...]
    """All of these selectors have to fit."""


class Client(NamedTuple):
    """Who asks, in the order of `SELECTORS`."""

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
    """What a client is told."""

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
    """What `ClientMetrics` shows."""

    __slots__ = ("errors", "exported", "throttled", "unknown")

    def __init__(self) -> None:
        self.unknown = 0
        """Pushes under a subscription that is not the client's any more."""
        self.throttled = 0
        self.exported = 0
        """Pushes that were handed on."""
        self.errors = 0
        """Pushes that were taken, and could not be read or handed on."""


class Telemetry:
    """The subscriptions and the clients of one broker. Times are ms of a clock that never goes back."""

    def __init__(self, max_bytes: int, uuid_text: Callable[[UUID], str], *, most_clients: int = MOST_CLIENTS) -> None:
        """`max_bytes`: telemetry.max.bytes; `uuid_text`: an id as Kafka writes it."""
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
        """These are all the subscriptions from now on; clients are told when they ask next, or push under the former one."""
        self._subscriptions = list(subscriptions)
        self._version += 1

    def disconnected(self, connection_id: str) -> None:
        """The connection of a client is gone, and with it what is known of the client."""
        instance_id = self._of_connection.pop(connection_id, None)
        if instance_id is not None:
            self._clients.pop(instance_id, None)

    def ask(self, client: Client, connection_id: str, now_ms: float) -> Wanted:
        """GetTelemetrySubscriptions; THROTTLING_QUOTA_EXCEEDED for one that comes before the client's interval is over."""
        known = self._find(client, connection_id)
        if now_ms - max(known.asked_ms, known.pushed_ms) < known.wanted.interval_ms:
            self.counts.throttled += 1
            raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        known.asked_ms = now_ms
        return known.wanted

    def push(
        self, client: Client, connection_id: str, now_ms: float, *, subscription_id: int, compression: int, size: int, terminating: bool
    ) -> None:
        """PushTelemetry: KafkaError for what is not taken.

        INVALID_REQUEST after the push that was to be the last, THROTTLING_QUOTA_EXCEEDED for one too early, UNKNOWN_SUBSCRIPTION_ID,
        UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE; in this order.
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
        # The first push after a subscription comes when the client likes: it spreads them by chance.
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
        """What is known of the client: judged anew when subscriptions have changed; when it asked and pushed stays."""
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
    """What the metrics of a client are labelled with when they are handed on."""
    own = dict(zip(SELECTORS, (instance_id, *client[1:]), strict=True))
    return {**own, "kafka_broker_id": str(node_id)}
