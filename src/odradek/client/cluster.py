"""The asyncio shell that all clients share: connections to brokers, version negotiation, metadata, retries.

A node has up to three connections, so that a long-polling Fetch never delays a question for metadata or offsets, nor a heartbeat.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Literal, TypeVar

from odradek import __version__
from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, OdradekError, ProtocolError
from odradek.base.ids import TopicPartition
from odradek.client.clock import ClientClock
from odradek.client.config import ClientConfig
from odradek.client.core.backoff import Backoff
from odradek.client.core.metadata import Broker, ClusterView, MetadataCache, TopicInfo
from odradek.network.transport import ClientConnection, ConnectionLost, RequestTimedOut, dial
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.negotiation import ApiVersionTable, Negotiation
from odradek.protocol.schema import Message

T = TypeVar("T")
R = TypeVar("R", bound=Message)
Channel = Literal["control", "data", "coordinator"]
BOOTSTRAP = -1
"""Node id of "any server of bootstrap.servers"."""


class ClientClosed(OdradekError):
    """The client was closed."""


class NoBrokersAvailable(KafkaError):
    """None of the known brokers could be reached."""

    def __init__(self, reasons: list[str]) -> None:
        tried = "; ".join(dict.fromkeys(reasons))
        super().__init__(
            ErrorCode.BROKER_NOT_AVAILABLE, f"no broker can be reached ({tried}); is one running, and is bootstrap.servers right?"
        )


async def settled(deferred: Deferred[T]) -> T:
    """Waits for a deferred within the running loop."""
    if deferred.done:
        return deferred.result()
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_: Deferred[T]) -> None:
        if not future.done():
            future.set_result(None)

    deferred.add_callback(wake)
    await future
    return deferred.result()


class Node:
    """An open connection and what its broker serves."""

    __slots__ = ("connection", "node_id", "versions")

    def __init__(self, node_id: int, connection: ClientConnection, versions: ApiVersionTable) -> None:
        self.node_id = node_id
        self.connection = connection
        self.versions = versions


class Cluster:
    """Access to a cluster; lives in one event loop."""

    def __init__(self, config: ClientConfig, *, clock: Clock | None = None, rng: random.Random | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.clock = clock or ClientClock(self._loop)
        self.config = config
        self.rng = rng or random.Random()
        self.client_id = config.text("client.id")
        self.request_timeout_s = config.integer("request.timeout.ms") / 1000
        self.metadata = MetadataCache(config.integer("metadata.max.age.ms"))
        self.backoff = Backoff(config.integer("retry.backoff.ms"), config.integer("retry.backoff.max.ms"), self.rng)
        self._reconnect = Backoff(config.integer("reconnect.backoff.ms"), config.integer("reconnect.backoff.max.ms"), self.rng)
        self._nodes: dict[tuple[int, Channel], Node] = {}
        self._dialling: dict[tuple[int, Channel], asyncio.Task[Node]] = {}
        self._failures: dict[int, int] = {}
        self._learned: dict[int, Broker] = {}
        self._refreshing: asyncio.Task[ClusterView] | None = None
        self._closed = False

    @property
    def view(self) -> ClusterView:
        """The newest view of the cluster."""
        return self.metadata.view

    @property
    def closed(self) -> bool:
        return self._closed

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        return int(self.clock.monotonic() * 1000)

    async def close(self) -> None:
        """Closes every connection; requests in flight fail."""
        self._closed = True
        tasks: list[asyncio.Task[Any]] = [*self._dialling.values(), *([self._refreshing] if self._refreshing else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for node in self._nodes.values():
            node.connection.close()
        self._nodes.clear()

    # -- connections ----------------------------------------------------------------------------------------------------------------

    def open_node(self, node_id: int, channel: Channel = "control") -> Node | None:
        """The connection to the node if it is open now."""
        node = self._nodes.get((node_id, channel))
        return node if node is not None and not node.connection.closed else None

    async def node(self, node_id: int, channel: Channel = "control") -> Node:
        """An open connection to the node, dialled if need be; ConnectionLost when that fails, ClientClosed after `close`."""
        if self._closed:
            raise ClientClosed("the client is closed")
        key = (node_id, channel)
        node = self.open_node(node_id, channel)
        if node is not None:
            return node
        task = self._dialling.get(key)
        if task is None:
            task = self._dialling[key] = asyncio.create_task(self._dial(node_id, channel))
            task.add_done_callback(lambda done: self._dialled(key, done))
        return await asyncio.shield(task)

    def _dialled(self, key: tuple[int, Channel], task: asyncio.Task[Node]) -> None:
        del self._dialling[key]
        if not task.cancelled():
            task.exception()

    async def _dial(self, node_id: int, channel: Channel) -> Node:
        failures = self._failures.get(node_id, 0)
        if failures:
            await asyncio.sleep(self._reconnect.delay_ms(failures) / 1000)
        try:
            node = await (self._dial_bootstrap() if node_id == BOOTSTRAP else self._dial_broker(node_id))
        except (ConnectionLost, KafkaError):
            self._failures[node_id] = failures + 1
            raise
        self._failures.pop(node_id, None)
        self._nodes[(node_id, channel)] = node
        return node

    async def _dial_bootstrap(self) -> Node:
        servers = self.config.bootstrap_servers()
        self.rng.shuffle(servers)
        reasons: list[str] = []
        for host, port in servers:
            try:
                return await self._open(BOOTSTRAP, host, port)
            except ConnectionLost as error:
                reasons.append(str(error))
        raise NoBrokersAvailable(reasons)

    async def _dial_broker(self, node_id: int) -> Node:
        broker = self._learned.get(node_id) or self.view.brokers.get(node_id)
        if broker is None:
            raise ConnectionLost(f"broker {node_id} is not in the metadata")
        return await self._open(node_id, broker.host, broker.port)

    def learn(self, broker: Broker) -> None:
        """Remembers the address of a broker that an answer named, until newer metadata comes."""
        self._learned[broker.node_id] = broker

    async def _open(self, node_id: int, host: str, port: int) -> Node:
        timeout = self.config.integer("socket.connection.setup.timeout.ms") / 1000
        connection = await dial(host, port, clock=self.clock, client_id=self.client_id, timeout_s=timeout, max_in_flight=1 << 20)
        try:
            return Node(node_id, connection, await self._negotiate(connection))
        except BaseException as error:
            connection.close()
            if isinstance(error, ProtocolError):
                raise ConnectionLost(f"{host}:{port} does not speak Kafka: {error}") from None
            raise

    async def _negotiate(self, connection: ClientConnection) -> ApiVersionTable:
        negotiation = Negotiation(__version__)
        while True:
            question = [negotiation.question()]
            body = await settled(connection.send(ApiKey.API_VERSIONS, negotiation.version, question, timeout_s=self.request_timeout_s))
            table = negotiation.answered(body)
            if table is not None:
                return table

    async def any_node(self) -> Node:
        """A connection to some broker: an open one if possible, else known ones in random order, else the bootstrap servers."""
        for (_, channel), node in self._nodes.items():
            if channel == "control" and not node.connection.closed:
                return node
        known = list(self.view.brokers)
        self.rng.shuffle(known)
        for node_id in known:
            try:
                return await self.node(node_id)
            except ConnectionLost:
                continue
        return await self.node(BOOTSTRAP)

    # -- requests -------------------------------------------------------------------------------------------------------------------

    async def call(
        self, node: Node, request: Message, response: type[R], *, at_most: int | None = None, timeout_s: float | None = None
    ) -> R:
        """Sends a request in the highest common version. ConnectionLost, or KafkaError(UNSUPPORTED_VERSION)."""
        version = node.versions.choose(ApiKey(request.API_KEY), at_most=at_most)
        return await settled(node.connection.request(request, response, version, timeout_s=timeout_s or self.request_timeout_s))

    async def retrying(self, what: str, attempt: Callable[[], Awaitable[T]], *, timeout_ms: int | None = None) -> T:
        """Runs `attempt` until it succeeds or fails for good; after `timeout_ms` (default.api.timeout.ms) raises the last error."""
        limit = self.config.integer("default.api.timeout.ms") if timeout_ms is None else timeout_ms
        deadline = self.now_ms() + limit
        failures = 0
        while True:
            try:
                return await attempt()
            except (ConnectionLost, KafkaError) as error:
                if isinstance(error, KafkaError) and not error.code.retriable and not isinstance(error, NoBrokersAvailable):
                    raise
                failures += 1
                pause = self.backoff.delay_ms(failures)
                if self._closed or self.now_ms() + pause >= deadline:
                    raise self._last_error(what, error, limit) from None
                await asyncio.sleep(pause / 1000)

    def _last_error(self, what: str, error: ConnectionLost | KafkaError, limit: int) -> KafkaError:
        if isinstance(error, KafkaError):
            return error
        return KafkaError(as_kafka_error(error).code, f"{what}: {error} (gave up after {limit} ms)")

    # -- metadata -------------------------------------------------------------------------------------------------------------------

    async def refresh(self, topics: Iterable[str] | None = None, *, allow_auto_create: bool = False) -> ClusterView:
        """Asks for fresh metadata of all wanted topics, to which `topics` are added; calls at the same time share one answer."""
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
        response = await self.ask_metadata(sorted(self.metadata.wanted), allow_auto_create=allow_auto_create)
        self._learned.clear()
        return self.metadata.update(response, self.now_ms())

    async def ask_metadata(self, topics: list[str] | None, *, allow_auto_create: bool = False) -> MetadataResponse:
        """A Metadata answer as it came; None asks for all topics."""
        node = await self.any_node()
        entries = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=entries, allow_auto_topic_creation=allow_auto_create)
        return await self.call(node, request, MetadataResponse)

    def known_topic(self, name: str) -> TopicInfo | None:
        """The topic as last seen, None when it has to be asked for."""
        info = self.metadata.view.topics.get(name)
        return info if info is not None and info.error is ErrorCode.NONE else None

    async def topic(self, name: str, *, allow_auto_create: bool = False, timeout_ms: int | None = None) -> TopicInfo:
        """The topic with its leaders, as seen within metadata.max.age.ms; KafkaError when it does not exist (by the end of the time limit)
        or may not be seen.
        """
        known = self.known_topic(name)
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
        """The id of the partition's leader; KafkaError, retriable, while there is none."""
        leader = self.view.leader(topic_partition)
        if leader is None:
            self.metadata.want([topic_partition.topic])
            view = await self.refresh()
            leader = view.leader(topic_partition)
        if leader is None:
            topic = self.view.topics.get(topic_partition.topic)
            if topic is not None and topic.error is ErrorCode.NONE and topic_partition.partition not in topic.partitions:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_partition} does not exist")
            code = ErrorCode.LEADER_NOT_AVAILABLE if topic is None or topic.error is ErrorCode.NONE else topic.error
            raise KafkaError(code, f"{topic_partition} has no leader")
        return leader


def as_kafka_error(error: BaseException) -> KafkaError:
    """A lost connection or other failure of a request as the error code it stands for."""
    if isinstance(error, KafkaError):
        return error
    if isinstance(error, RequestTimedOut):
        return KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error))
    if isinstance(error, ConnectionLost):
        return KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error))
    if isinstance(error, ClientClosed):
        return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error))
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{type(error).__name__}: {error}")
