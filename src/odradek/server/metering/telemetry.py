"""Metrics that clients push (KIP-714): forwarded to an OTLP/HTTP receiver, or only counted.

A push is decompressed in the executor, within a size limit, and labelled with its client. Then it waits in a short queue for the receiver,
which gets one POST at a time. A slow or missing receiver costs telemetry, never memory, and no client waits for it.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Final

from odradek.base.addresses import without_password
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import uuid_to_string
from odradek.config.client_metrics import subscription_of
from odradek.metadata.image import RESOURCE_CLIENT_METRICS
from odradek.metrics.otlp import labelled
from odradek.metrics.telemetry import Client, Subscription, Telemetry, labels_of
from odradek.network.limits import QuietLog
from odradek.records.compression import Compression, decompress

if TYPE_CHECKING:
    from uuid import UUID

    from odradek.base.clock import Clock
    from odradek.consensus.messages import LeaderAndEpoch
    from odradek.handlers.context import RequestContext
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import ConfigurationsImage, MetadataImage
    from odradek.server.upkeep.jobs import Jobs

logger = logging.getLogger(__name__)

COUNTED_ONLY: Final = "counted"
"""Value in place of a receiver's address: pushes are checked and counted, but not forwarded."""
MOST_WAITING: Final = 32
WAITING_BYTES: Final = 32 * 1024 * 1024
_UNKNOWN: Final = "unknown"
_TIMEOUT_S: Final = 10.0


class ClientTelemetry:
    """Subscriptions, clients and the receiver of one broker."""

    def __init__(self, endpoint: str, max_bytes: int, node_id: int, clock: Clock, jobs: Jobs) -> None:
        self.telemetry = Telemetry(max_bytes, uuid_to_string)
        self._endpoint = endpoint
        self._shown = without_password(endpoint)
        self._node_id = node_id
        self._clock = clock
        self._jobs = jobs
        self._quiet_log = QuietLog(logger, clock)
        self._configs: ConfigurationsImage | None = None
        self._software: dict[str, tuple[str, str]] = {}
        """Connection id -> the client's software name and version in ApiVersions."""
        self._waiting: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._sending = False
        self._closed = False

    # -- clients and subscriptions
    # ----------------------------------------------------------------------------------------------------------

    def publish(self, delta: MetadataDelta, image: MetadataImage, leader_and_epoch: LeaderAndEpoch) -> None:
        """Apply the subscriptions when configurations have changed; see `controller.kraft.MetadataPublisher`."""
        if image.configs is self._configs:
            return
        self._configs = image.configs
        found = {name: each for (kind, name), each in image.configs.resources.items() if kind == RESOURCE_CLIENT_METRICS}
        subscriptions: list[Subscription] = []
        for name, settings in sorted(found.items()):
            try:
                subscriptions.append(subscription_of(settings))
            except KafkaError as error:
                # Another implementation accepted the invalid subscription.
                logger.warning("the client-metrics subscription %s is ignored: %s", name, error)
        self.telemetry.subscribe(subscriptions)

    def introduced(self, connection_id: str, name: str, version: str) -> None:
        """Remember the software name and version of a connection's client."""
        self._software[connection_id] = (name, version)

    def disconnected(self, connection_id: str) -> None:
        self._software.pop(connection_id, None)
        self.telemetry.disconnected(connection_id)

    def client(self, context: RequestContext, instance_id: UUID) -> Client:
        """Return the client that sent the request."""
        name, version = self._software.get(context.connection_id, (_UNKNOWN, _UNKNOWN))
        # The format is local:port-remote:port-index.
        port = context.connection_id.rsplit("-", 1)[0].rpartition(":")[2]
        return Client(instance_id, context.client_id or "", name, version, context.peer_host, port)

    # -- pushes ----------------------------------------------------------------------------------------------------------------------------

    def take(self, client: Client, data: bytes | memoryview, compression: int) -> Deferred[None]:
        """Queue pushed metrics for the receiver. The Deferred completes when they are queued.

        Fails with KafkaError: TELEMETRY_TOO_LARGE when the decompressed metrics exceed the limit; INVALID_RECORD when they cannot be read,
        or when the queue is full.
        """
        limit = self.telemetry.max_bytes
        labels = labels_of(client, uuid_to_string(client.instance_id), self._node_id)

        def open_it() -> bytes:
            try:
                return labelled(memoryview(decompress(data, Compression(compression), limit)), labels)
            except KafkaError as error:
                too_large = error.code is ErrorCode.MESSAGE_TOO_LARGE or "grows by more" in (error.message or "")
                raise KafkaError(ErrorCode.TELEMETRY_TOO_LARGE if too_large else ErrorCode.INVALID_RECORD) from None
            except ValueError as error:
                raise KafkaError(ErrorCode.INVALID_RECORD, str(error)) from None

        taken: Deferred[None] = Deferred()

        def opened(done: Deferred[bytes]) -> None:
            error = done.error
            if error is None and not self._queue(done.result()):
                error = KafkaError(ErrorCode.INVALID_RECORD)
            if error is None:
                self.telemetry.counts.exported += 1
                taken.complete(None)
            else:
                self.telemetry.counts.errors += 1
                taken.fail(error)

        self._jobs.run(open_it).add_callback(opened)
        return taken

    def _queue(self, payload: bytes) -> bool:
        if self._endpoint == COUNTED_ONLY:
            return True
        if self._closed or len(self._waiting) >= MOST_WAITING or self._waiting_bytes + len(payload) > WAITING_BYTES:
            self._quiet_log.warning("%s does not keep up with the clients' metrics: some are dropped", self._shown)
            return False
        self._waiting.append(payload)
        self._waiting_bytes += len(payload)
        self._send_next()
        return True

    def _send_next(self) -> None:
        if self._sending or not self._waiting or self._closed:
            return
        self._sending = True
        payload = self._waiting.popleft()
        self._waiting_bytes -= len(payload)
        self._jobs.apart(lambda: post(self._endpoint, payload)).add_callback(self._sent)

    def _sent(self, done: Deferred[None]) -> None:
        self._sending = False
        if done.error is not None:
            self.telemetry.counts.errors += 1
            self._quiet_log.warning("%s did not accept clients' metrics: %s", self._shown, done.error)
        self._send_next()

    def close(self) -> None:
        """Send no further metrics; a request under way ends by itself."""
        self._closed = True
        self._waiting.clear()


def post(endpoint: str, payload: bytes) -> None:
    """Send metrics to an OTLP/HTTP receiver. Raises OSError when they are not accepted.

    Blocks for at most ten seconds until it is connected, and ten seconds for the response.
    """
    from odradek.network.web import exchange

    headers = {"Content-Type": "application/x-protobuf"}
    answer = exchange("POST", endpoint, payload, headers, largest=4096, connect_s=_TIMEOUT_S, answer_s=_TIMEOUT_S)
    if answer.status >= 300:
        raise OSError(f"it responds with {answer.status} {answer.reason}")
