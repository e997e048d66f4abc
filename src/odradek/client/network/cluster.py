"""Shell that all clients share, for asyncio: metadata, requests in the versions that a broker serves, retries.

`connections` has the layers below: from dialling to authentication.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from odradek.base.clock import Clock
from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.base.ids import TopicPartition
from odradek.base.timing import Backoff
from odradek.client.calls.clock import ClientClock
from odradek.client.calls.origin import Origin
from odradek.client.core.metadata import Broker, ClusterView, MetadataCache, TopicInfo, controllers_as_metadata
from odradek.client.core.throttles import held_back_ms
from odradek.client.failures import AuthenticationFailed, ClientClosed, NoBrokersAvailable, as_kafka_error
from odradek.client.metrics import MetricName
from odradek.client.network.addresses import canonical_servers
from odradek.client.network.connections import BOOTSTRAP, Channel, Connections, Node
from odradek.client.settings.common_keys import (
    CLIENT_DNS_LOOKUP,
    CLIENT_ID,
    DEFAULT_API_TIMEOUT_MS,
    METADATA_MAX_AGE_MS,
    METADATA_RECOVERY_REBOOTSTRAP_TRIGGER_MS,
    METADATA_RECOVERY_STRATEGY,
    REQUEST_TIMEOUT_MS,
    RETRY_BACKOFF_MAX_MS,
    RETRY_BACKOFF_MS,
)
from odradek.client.settings.config import ClientConfig
from odradek.client.settings.producer_keys import METADATA_MAX_IDLE_MS, RETRIES
from odradek.network.transport import ConnectionLost, RequestTimedOut
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.schema import Message

__all__ = [
    "BOOTSTRAP",
    "AuthenticationFailed",
    "Channel",
    "ClientClosed",
    "Cluster",
    "NoBrokersAvailable",
    "Node",
    "as_kafka_error",
]

T = TypeVar("T")
R = TypeVar("R", bound=Message)


class Cluster:
    """Access to a cluster; lives in one event loop."""

    def __init__(self, config: ClientConfig, *, clock: Clock | None = None, rng: random.Random | None = None) -> None:
        self.origin = Origin()
        """Process and event loop in which the client may be used."""
        self.clock = clock or ClientClock(asyncio.get_running_loop())
        self.config = config
        self.rng = rng or random.Random()
        self.client_id = config[CLIENT_ID]
        self.request_timeout_s = config[REQUEST_TIMEOUT_MS] / 1000
        idle_ms = config[METADATA_MAX_IDLE_MS] if METADATA_MAX_IDLE_MS in config.definition else None
        self.metadata = MetadataCache(config[METADATA_MAX_AGE_MS], idle_ms)
        self.backoff = Backoff(config[RETRY_BACKOFF_MS], config[RETRY_BACKOFF_MAX_MS], self.rng)
        self._connections = Connections(config, self.clock, self.rng)
        self._rebootstraps = config[METADATA_RECOVERY_STRATEGY].lower() == "rebootstrap"
        self._rebootstrap_trigger_ms = config[METADATA_RECOVERY_REBOOTSTRAP_TRIGGER_MS]
        self._learned: dict[int, Broker] = {}
        self._refreshing: asyncio.Task[ClusterView] | None = None
        self._closed = False

    @property
    def view(self) -> ClusterView:
        """Newest view of the cluster."""
        return self.metadata.view

    @property
    def closed(self) -> bool:
        return self._closed

    def now_ms(self) -> int:
        """Return monotonic milliseconds."""
        return int(self.clock.monotonic() * 1000)

    def metrics(self) -> dict[MetricName, float]:
        """Return the current values of the client's metrics."""
        return self._connections.metrics.snapshot(self.clock.monotonic())

    async def close(self) -> None:
        """Close every connection; requests in flight fail."""
        self.origin.check()
        self._closed = True
        if self._refreshing is not None:
            self._refreshing.cancel()
            await asyncio.gather(self._refreshing, return_exceptions=True)
        await self._connections.close()

    # -- connections ----------------------------------------------------------------------------------------------------------------

    def open_node(self, node_id: int, channel: Channel = "control") -> Node | None:
        """Return the connection to the node if it is open, else None."""
        return self._connections.get(node_id, channel)

    async def node(self, node_id: int, channel: Channel = "control") -> Node:
        """Return an open connection to the node; dial the node if needed.

        Raises ConnectionLost when that fails, AuthenticationFailed when it would fail again, ClientClosed after `close`. Raises
        OdradekError in a forked child or another event loop.
        """
        self.origin.check()
        return await self._connections.node(node_id, channel, lambda: self._servers_of(node_id))

    async def _servers_of(self, node_id: int) -> list[tuple[str, int]]:
        if node_id == BOOTSTRAP:
            servers = self.config.bootstrap_servers()
            if self.config[CLIENT_DNS_LOOKUP] == "resolve_canonical_bootstrap_servers_only":
                servers = await canonical_servers(servers)
            self.rng.shuffle(servers)
            return servers
        broker = self._learned.get(node_id) or self.view.brokers.get(node_id)
        if broker is None:
            raise ConnectionLost(f"broker {node_id} is not in the metadata")
        return [(broker.host, broker.port)]

    def learn(self, broker: Broker) -> None:
        """Remember the address of a broker from a response, until newer metadata arrives."""
        self._learned[broker.node_id] = broker

    async def any_node(self) -> Node:
        """Return a connection to a broker.

        Prefers the open connection with the fewest requests in flight, then a known broker, then a bootstrap server. Once the client knows
        brokers, it goes back to bootstrap servers only with metadata.recovery.strategy=rebootstrap (KIP-899). Raises NoBrokersAvailable or
        ConnectionLost when no broker can be reached.
        """
        self.origin.check()
        node = self._connections.least_loaded()
        if node is not None:
            return node
        known = list(self.view.brokers)
        if not known:
            return await self.node(BOOTSTRAP)
        self.rng.shuffle(known)
        known.sort(key=self._connections.connect_in_s)
        reasons: list[str] = []
        for node_id in known:
            if self._connections.connect_in_s(node_id) and (self._rebootstraps or reasons):
                break
            try:
                return await self.node(node_id)
            except ConnectionLost as error:
                reasons.append(str(error))
        node = self._connections.least_loaded(every_channel=True)
        if node is not None:
            return node
        if not self._rebootstraps:
            raise NoBrokersAvailable(reasons)
        self.rebootstrap()
        return await self.node(BOOTSTRAP)

    def rebootstrap(self) -> None:
        """Forget all brokers and close their connections: the next request goes to a bootstrap server (KIP-899)."""
        self._connections.drop([*self.view.brokers, *self._learned, BOOTSTRAP])
        self._learned.clear()
        self.metadata.rebootstrap(self.now_ms())

    # -- requests -------------------------------------------------------------------------------------------------------------------

    async def call(
        self,
        node: Node,
        request: Message,
        response: type[R],
        *,
        at_most: int | None = None,
        at_least: int = 0,
        timeout_s: float | None = None,
    ) -> R:
        """Send a request in the highest version that client and broker share, and return the response.

        Raises ConnectionLost, or KafkaError(UNSUPPORTED_VERSION). The next request to that node waits for the response's throttle_time_ms.
        """
        api_key = ApiKey(request.API_KEY)
        version = node.versions.choose(api_key, at_most=at_most, at_least=at_least)
        try:
            answer = await node.connection.request(request, response, version, timeout_s=timeout_s or self.request_timeout_s)
        except RequestTimedOut:
            raise
        except ConnectionLost as error:
            raise self._connections.without_answer(node, error) from None
        throttle_time_ms: int = getattr(answer, "throttle_time_ms", 0)
        if throttle_time_ms > 0:
            self.throttled(node, api_key, version, throttle_time_ms)
        return answer

    def throttled(self, node: Node, api_key: ApiKey, version: int, throttle_time_ms: int) -> None:
        """Apply the throttle_time_ms of a node's response, for requests that were not sent with `call`."""
        pause_ms = held_back_ms(api_key, version, throttle_time_ms)
        if pause_ms > 0:
            self._connections.throttle(node.node_id, pause_ms)

    async def retrying(self, what: str, attempt: Callable[[], Awaitable[T]], *, timeout_ms: int | None = None) -> T:
        """Repeat `attempt` until it succeeds or fails for good.

        After `timeout_ms` milliseconds (default.api.timeout.ms), and in an admin client after `retries` retries, raises the last error.
        """
        limit = self.config[DEFAULT_API_TIMEOUT_MS] if timeout_ms is None else timeout_ms
        deadline = self.now_ms() + limit
        most = self.config[RETRIES] if self.config.kind == "admin-client" else limit
        failures = 0
        while True:
            try:
                return await attempt()
            except (ConnectionLost, KafkaError) as error:
                if isinstance(error, KafkaError) and not error.code.retriable and not isinstance(error, NoBrokersAvailable):
                    raise
                failures += 1
                pause = self.backoff.delay_ms(failures)
                if self._closed or failures > most or self.now_ms() + pause >= deadline:
                    raise self._last_error(what, error, limit) from None
                await asyncio.sleep(pause / 1000)

    def _last_error(self, what: str, error: ConnectionLost | KafkaError, limit: int) -> KafkaError:
        if isinstance(error, KafkaError):
            return error
        return KafkaError(as_kafka_error(error).code, f"{what}: {error} (gave up after at most {limit} ms)")

    # -- metadata -------------------------------------------------------------------------------------------------------------------

    async def refresh(self, topics: Iterable[str] | None = None, *, allow_auto_create: bool = False) -> ClusterView:
        """Request fresh metadata of all wanted topics, including `topics`; calls at the same time share one response."""
        self.origin.check()
        if topics is not None:
            self.metadata.want(topics)
        if self._refreshing is None:
            self._refreshing = asyncio.create_task(self._refresh(allow_auto_create))
            self._refreshing.add_done_callback(self._refreshed)
        return await asyncio.shield(self._refreshing)

    def _refreshed(self, task: asyncio.Task[ClusterView]) -> None:
        self._refreshing = None
        if not task.cancelled():
            task.exception()

    async def _refresh(self, allow_auto_create: bool) -> ClusterView:
        unanswered_ms = self.metadata.asking(self.now_ms())
        if self._rebootstraps and unanswered_ms > self._rebootstrap_trigger_ms and self.view.brokers:
            self.rebootstrap()
        response = await self.ask_metadata(sorted(self.metadata.wanted), allow_auto_create=allow_auto_create)
        self._learned.clear()
        return self.metadata.update(response, self.now_ms())

    async def ask_metadata(self, topics: list[str] | None, *, allow_auto_create: bool = False) -> MetadataResponse:
        """Return a new Metadata response; None asks for all topics. Raises KafkaError when the broker refuses."""
        node = await self.any_node()
        if self.config.uses_controllers and topics == []:
            return await self._ask_controllers(node)
        entries = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=entries, allow_auto_topic_creation=allow_auto_create)
        response = await self.call(node, request, MetadataResponse)
        if response.error_code:
            code = code_of(response.error_code)
            if code is ErrorCode.REBOOTSTRAP_REQUIRED and self._rebootstraps:
                self.rebootstrap()
                raise NoBrokersAvailable([f"{node.versions.node} asks this client to bootstrap again"])
            raise KafkaError(code, f"{node.versions.node} refuses Metadata requests")
        return response

    async def _ask_controllers(self, node: Node) -> MetadataResponse:
        """Return the controllers as brokers without topics, for clients with bootstrap.controllers (KIP-919)."""
        answer = await self.call(node, DescribeClusterRequest(endpoint_type=2), DescribeClusterResponse)
        if answer.error_code:
            raise KafkaError(code_of(answer.error_code), answer.error_message or f"{node.versions.node} is not a controller")
        return controllers_as_metadata(answer)

    def known_topic(self, name: str, partition: int | None = None) -> TopicInfo | None:
        """Return the topic as last seen; None if metadata has to be requested, as the topic or its `partition` is unknown."""
        info = self.metadata.view.topics.get(name)
        self.metadata.used.add(name)
        if info is None or info.error is not ErrorCode.NONE or (partition is not None and partition not in info.partitions):
            return None
        return info

    async def topic(
        self, name: str, partition: int | None = None, *, allow_auto_create: bool = False, timeout_ms: int | None = None
    ) -> TopicInfo:
        """Return the topic with its leaders. Requests metadata if it is older than metadata.max.age.ms or lacks the topic or `partition`.

        Raises KafkaError when the topic does not exist by the end of the time limit, or may not be seen.
        """
        known = self.known_topic(name, partition)
        if known is not None and self.metadata.due_in_ms(self.now_ms()) > 0:
            return known
        self.metadata.want([name])

        async def attempt() -> TopicInfo:
            view = await self.refresh(allow_auto_create=allow_auto_create)
            info = view.topics.get(name)
            if info is None:
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name} is not in the metadata yet")
            if info.error is not ErrorCode.NONE:
                raise KafkaError(
                    info.error, f"topic {name}" + (" does not exist" if info.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else "")
                )
            return info

        return await self.retrying(f"metadata of topic {name}", attempt, timeout_ms=timeout_ms)

    async def leader(self, topic_partition: TopicPartition) -> int:
        """Return the id of the partition's leader. Raises a retriable KafkaError while the partition has no leader."""
        leader = self.view.leader(topic_partition)
        if leader is None:
            self.metadata.want([topic_partition.topic])
            view = await self.refresh()
            leader = view.leader(topic_partition)
        if leader is None:
            raise self.leaderless(topic_partition)
        return leader

    def leaderless(self, topic_partition: TopicPartition) -> KafkaError:
        """Return the error that says why the view has no leader of the partition."""
        topic = self.view.topics.get(topic_partition.topic)
        if topic is not None and topic.error is ErrorCode.NONE and topic_partition.partition not in topic.partitions:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_partition} does not exist")
        code = ErrorCode.LEADER_NOT_AVAILABLE if topic is None or topic.error is ErrorCode.NONE else topic.error
        return KafkaError(code, f"{topic_partition} has no leader")
