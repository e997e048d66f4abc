"""Whom the admin client asks, and how often: the strategies on which all of its calls are built.

1. A route says for each item which node decides it: the controller, any broker, the leader of a partition, the coordinator of a group or
   transactional id, a named broker.
2. The items of one node go there together, those of several nodes at the same time.
3. An item whose answer is an error that may pass, or whose node was not reached, is routed again after a pause that grows (KIP-580).
4. That goes on item by item until default.api.timeout.ms is over, or an item was asked for `retries` times again; then the last error of
   the item is its outcome.

Source: org.apache.kafka.clients.admin.internals (AdminApiDriver and its lookup strategies).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.cluster import BOOTSTRAP, Cluster, NoBrokersAvailable, Node, as_kafka_error
from odradek.client.coordinators import COORDINATOR_MOVED, CoordinatorKind, find_coordinators
from odradek.client.core.admin_items import Items, K, NotHeard, Outcomes, V
from odradek.network.transport import ConnectionLost
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import UnsupportedVersionError
from odradek.protocol.schema import Message

R = TypeVar("R", bound=Message)
T = TypeVar("T")

_GRACE_MS = 200
"""A request that ends with the limit of its call says better what went wrong than the limit could."""


ANY_NODE = BOOTSTRAP
"""In the place of a node id: whichever can be reached."""


class Peer:
    """A node that is asked, within the time that is left."""

    __slots__ = ("_cluster", "_deadline_ms", "_node", "node_id")

    def __init__(self, cluster: Cluster, node: Node, deadline_ms: int) -> None:
        self._cluster = cluster
        self._node = node
        self._deadline_ms = deadline_ms
        self.node_id = node.node_id

    @property
    def timeout_ms(self) -> int:
        """How long the broker may take for what it is asked: request.timeout.ms, or what is left of the call."""
        return max(1, min(int(self._cluster.request_timeout_s * 1000), self._deadline_ms - self._cluster.now_ms()))

    def version(self, api_key: ApiKey, *, at_most: int | None = None) -> int:
        """The version in which the node is asked; KafkaError(UNSUPPORTED_VERSION)."""
        return self._node.versions.choose(api_key, at_most=at_most)

    async def call(self, request: Message, response: type[R], *, at_most: int | None = None) -> R:
        """Asks in the highest common version; ConnectionLost, or KafkaError(UNSUPPORTED_VERSION)."""
        try:
            return await self._cluster.call(self._node, request, response, at_most=at_most, timeout_s=self.timeout_ms / 1000)
        except UnsupportedVersionError as error:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"the broker is too old for this: {ApiKey(request.API_KEY).name} {error}"
            ) from None


Ask: TypeAlias = Callable[[Peer, Sequence[K]], Awaitable[Mapping[K, V | KafkaError]]]
"""Asks one node for several items; what it raises holds for all of them."""


class Route(Protocol[K]):
    """Which node decides which item."""

    async def find(self, cluster: Cluster, keys: Sequence[K]) -> Mapping[K, int | KafkaError]:
        """Node ids, ANY_NODE, or why there is none; ConnectionLost or KafkaError when that could not be found out."""
        ...

    def doubt(self, cluster: Cluster, keys: Sequence[K], node_id: int, error: KafkaError) -> None:
        """What the node said of the items, or that it was not reached, may mean that others decide them now."""
        ...


class AnyNode(Generic[K]):
    """Any broker may be asked."""

    async def find(self, cluster: Cluster, keys: Sequence[K]) -> Mapping[K, int | KafkaError]:
        return dict.fromkeys(keys, ANY_NODE)

    def doubt(self, cluster: Cluster, keys: Sequence[K], node_id: int, error: KafkaError) -> None:
        """Another one is taken when the connection is gone."""


class AtController(Generic[K]):
    """The node that Metadata names as controller; in KRaft that is any broker, which forwards what it is asked."""

    def __init__(self) -> None:
        self._doubted = False

    async def find(self, cluster: Cluster, keys: Sequence[K]) -> Mapping[K, int | KafkaError]:
        if self._doubted or cluster.view.controller_id not in cluster.view.brokers:
            await cluster.refresh([])
            self._doubted = False
        controller = cluster.view.controller_id
        return dict.fromkeys(keys, controller if controller in cluster.view.brokers else ANY_NODE)

    def doubt(self, cluster: Cluster, keys: Sequence[K], node_id: int, error: KafkaError) -> None:
        self._doubted = True


class AtLeaders(Generic[K]):
    """The leader of each item's partition."""

    def __init__(self, partition_of: Callable[[K], TopicPartition]) -> None:
        self._partition_of = partition_of
        self._doubted: set[str] = set()

    async def find(self, cluster: Cluster, keys: Sequence[K]) -> Mapping[K, int | KafkaError]:
        partitions = {key: self._partition_of(key) for key in keys}
        old = cluster.metadata.due_in_ms(cluster.now_ms()) == 0
        unsure = {each.topic for each in partitions.values() if old or each.topic in self._doubted or cluster.view.leader(each) is None}
        if unsure:
            cluster.metadata.update(await cluster.ask_metadata(sorted(unsure)), cluster.now_ms())
            self._doubted -= unsure
        return {key: self._leader(cluster, partition) for key, partition in partitions.items()}

    def _leader(self, cluster: Cluster, partition: TopicPartition) -> int | KafkaError:
        topic = cluster.view.topics.get(partition.topic)
        if topic is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {partition.topic} is not in the metadata")
        if topic.error is not ErrorCode.NONE:
            missing = topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return KafkaError(topic.error, f"topic {partition.topic}{' does not exist' if missing else ''}")
        if partition.partition not in topic.partitions:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition} does not exist")
        leader = cluster.view.leader(partition)
        return KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"{partition} has no leader") if leader is None else leader

    def doubt(self, cluster: Cluster, keys: Sequence[K], node_id: int, error: KafkaError) -> None:
        self._doubted.update(self._partition_of(key).topic for key in keys)


class AtCoordinators(Generic[K]):
    """The coordinator of each item's group or transactional id."""

    def __init__(self, kind: CoordinatorKind, id_of: Callable[[K], str]) -> None:
        self._kind = kind
        self._id_of = id_of
        self._known: dict[str, int] = {}

    async def find(self, cluster: Cluster, keys: Sequence[K]) -> Mapping[K, int | KafkaError]:
        ids = dict.fromkeys(map(self._id_of, keys))
        found: dict[str, int | KafkaError] = {each: self._known[each] for each in ids if each in self._known}
        missing = [each for each in ids if each not in found]
        if missing:
            found |= await find_coordinators(cluster, self._kind, missing)
            self._known |= {each: node_id for each, node_id in found.items() if isinstance(node_id, int)}
        return {key: found[self._id_of(key)] for key in keys}

    def doubt(self, cluster: Cluster, keys: Sequence[K], node_id: int, error: KafkaError) -> None:
        if error.code in COORDINATOR_MOVED or isinstance(error, NotHeard):
            for key in keys:
                self._known.pop(self._id_of(key), None)


class AtBrokers(Generic[K]):
    """The broker that each item names, or ANY_NODE; one that is not in the cluster is an error, and not waited for."""

    def __init__(self, broker_of: Callable[[K], int]) -> None:
        self._broker_of = broker_of
        self._doubted = False

    async def find(self, cluster: Cluster, keys: Sequence[K]) -> Mapping[K, int | KafkaError]:
        brokers = {key: self._broker_of(key) for key in keys}
        if self._doubted or any(each not in cluster.view.brokers for each in brokers.values() if each != ANY_NODE):
            await cluster.refresh([])
            self._doubted = False
        there = {ANY_NODE, *cluster.view.brokers}
        return {
            key: each if each in there else KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"broker {each} is not in the cluster")
            for key, each in brokers.items()
        }

    def doubt(self, cluster: Cluster, keys: Sequence[K], node_id: int, error: KafkaError) -> None:
        self._doubted = True


class Asking(Generic[K, V]):
    """One call: the items, the route and the question."""

    def __init__(self, cluster: Cluster, items: Items[K, V], route: Route[K], ask: Ask[K, V], timeout_ms: int) -> None:
        self._cluster = cluster
        self._items = items
        self._route = route
        self._ask = ask
        self._timeout_ms = timeout_ms
        self._retries = cluster.config.integer("retries")
        self._deadline_ms = cluster.now_ms() + timeout_ms

    async def outcomes(self) -> Outcomes[K, V]:
        """Asks until every item is settled."""
        await self._settle(self._items.left, 0)
        return self._items.outcomes()

    async def _settle(self, keys: Sequence[K], failures: int) -> None:
        if not keys:
            return
        if failures:
            pause = self._cluster.backoff.delay_ms(failures)
            if failures > self._retries:
                self._items.give_up(keys, f"{failures} attempt{'s' if failures != 1 else ''}")
                return
            if self._cluster.closed or self._cluster.now_ms() + pause >= self._deadline_ms:
                self._items.give_up(keys, f"{self._timeout_ms} ms")
                return
            await asyncio.sleep(pause / 1000)
        again: list[K] = []
        groups: defaultdict[int, list[K]] = defaultdict(list)
        found = await self._in_time(lambda: self._route.find(self._cluster, keys))
        if isinstance(found, KafkaError):
            again = self._failed(keys, ANY_NODE, found)
        else:
            for key, node_id in found.items():
                if isinstance(node_id, KafkaError):
                    again += self._failed([key], ANY_NODE, node_id)
                else:
                    groups[node_id].append(key)
        # What is asked at one node is settled without waiting for the others.
        await _all_of(self._settle(again, failures + 1), *(self._settle_at(node_id, asked, failures) for node_id, asked in groups.items()))

    async def _settle_at(self, node_id: int, keys: Sequence[K], failures: int) -> None:
        answers = await self._in_time(lambda: self._question(node_id, keys))
        if isinstance(answers, KafkaError):
            again = self._failed(keys, node_id, answers)
        else:
            again = self._items.answered(keys, answers)
            for key in again:
                error = answers[key]
                assert isinstance(error, KafkaError)
                self._route.doubt(self._cluster, [key], node_id, error)
        await self._settle(again, failures + 1)

    async def _question(self, node_id: int, keys: Sequence[K]) -> Mapping[K, V | KafkaError]:
        cluster = self._cluster
        node = await (cluster.any_node() if node_id == ANY_NODE else cluster.node(node_id))
        return await self._ask(Peer(cluster, node, self._deadline_ms), keys)

    def _failed(self, keys: Sequence[K], node_id: int, error: KafkaError) -> list[K]:
        """The items to ask for again after an error that holds for all of them."""
        if not error.code.retriable and not isinstance(error, NoBrokersAvailable):
            self._items.refused(keys, error)
            return []
        self._items.lost(keys, error)
        self._route.doubt(self._cluster, keys, node_id, error)
        return list(keys)

    async def _in_time(self, action: Callable[[], Awaitable[T]]) -> T | KafkaError:
        left_ms = self._deadline_ms + _GRACE_MS - self._cluster.now_ms()
        try:
            async with asyncio.timeout(left_ms / 1000):
                return await action()
        except TimeoutError:
            return NotHeard(ErrorCode.REQUEST_TIMED_OUT, "no connection in time")
        except ConnectionLost as error:
            return NotHeard(as_kafka_error(error).code, str(error))
        except KafkaError as error:
            return error


async def _all_of(*actions: Coroutine[Any, Any, None]) -> None:
    """Ends when all have ended; when one fails, or this is cancelled, the others are cancelled."""
    tasks = [asyncio.ensure_future(action) for action in actions]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def one_by_one(keys: Sequence[K], ask: Callable[[K], Awaitable[V | KafkaError]]) -> Outcomes[K, V]:
    """For APIs that take one item a request: all are on the wire at once, and each has its own outcome."""
    answers = await asyncio.gather(*(ask(key) for key in keys), return_exceptions=True)
    found: Outcomes[K, V] = {}
    for key, answer in zip(keys, answers, strict=True):
        if isinstance(answer, ConnectionLost):
            found[key] = NotHeard(ErrorCode.NETWORK_EXCEPTION, str(answer))
        elif isinstance(answer, BaseException) and not isinstance(answer, KafkaError):
            raise answer
        else:
            found[key] = answer
    return found


async def settle(
    cluster: Cluster,
    keys: Iterable[K],
    route: Route[K],
    ask: Ask[K, V],
    *,
    retried: Collection[ErrorCode],
    name: Callable[[K], str] = str,
    timeout_ms: int,
) -> Outcomes[K, V]:
    """What came of every item: see the module's text. `retried` are the errors of one item that may pass."""
    return await Asking[K, V](cluster, Items[K, V](keys, retried, name), route, ask, timeout_ms).outcomes()
