"""Routing and retries of the admin client's requests, on which all of its calls are built.

1. A route finds for each item the node that decides it: the controller, any broker, the leader of a partition, the coordinator of a group
   or transactional id, a named broker.
2. One request asks a node for all of its items; requests to several nodes run at the same time.
3. An item with a retriable error, or whose node was not reached, is routed again after an exponential backoff (KIP-580).
4. Retries of an item end when default.api.timeout.ms is over, or after `retries` of them. The outcome is then the item's last error.

Source: org.apache.kafka.clients.admin.internals (AdminApiDriver and its lookup strategies).
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin.items import Items, K, NotHeard, Outcomes, V
from odradek.client.network.cluster import BOOTSTRAP, Cluster, NoBrokersAvailable, Node, as_kafka_error
from odradek.client.network.coordinators import COORDINATOR_MOVED, CoordinatorKind, find_coordinators
from odradek.client.settings.admin_keys import RETRIES
from odradek.network.transport import ConnectionLost
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.errors import UnsupportedVersionError
from odradek.protocol.schema import Message

R = TypeVar("R", bound=Message)
T = TypeVar("T")

_GRACE_MS = 200
"""Milliseconds after the call's deadline for which a request may go on: its own timeout error says more than the deadline could."""


ANY_NODE = BOOTSTRAP
"""Node id that stands for any broker that can be reached."""


class Peer:
    """Node to be asked, within the time that the call has left."""

    __slots__ = ("_cluster", "_deadline_ms", "_node", "node_id")

    def __init__(self, cluster: Cluster, node: Node, deadline_ms: int) -> None:
        self._cluster = cluster
        self._node = node
        self._deadline_ms = deadline_ms
        self.node_id = node.node_id

    @property
    def timeout_ms(self) -> int:
        """Milliseconds that the broker may take for a request: request.timeout.ms, or the time that the call has left if that is less."""
        return max(1, min(int(self._cluster.request_timeout_s * 1000), self._deadline_ms - self._cluster.now_ms()))

    def version(self, api_key: ApiKey, *, at_most: int | None = None) -> int:
        """Return the highest common version of the API, `at_most` inclusive.

        Raises KafkaError(UNSUPPORTED_VERSION) without a common version.
        """
        return self._node.versions.choose(api_key, at_most=at_most)

    async def call(self, request: Message, response: type[R], *, at_most: int | None = None) -> R:
        """Send a request in the highest common version and return the response.

        Raises ConnectionLost, and KafkaError(UNSUPPORTED_VERSION) when the broker is too old.
        """
        try:
            return await self._cluster.call(self._node, request, response, at_most=at_most, timeout_s=self.timeout_ms / 1000)
        except UnsupportedVersionError as error:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"the broker is too old for this call: {ApiKey(request.API_KEY).name} {error}"
            ) from None


Ask: TypeAlias = Callable[[Peer, Sequence[K]], Awaitable[Mapping[K, V | KafkaError]]]
"""Function that asks one node for several items. An error that it raises applies to all of them."""


class Route(Protocol[K]):
    """Route from items to the nodes that decide them."""

    async def find(self, cluster: Cluster, keys: Sequence[K]) -> Mapping[K, int | KafkaError]:
        """Return for each item a node id, ANY_NODE, or a KafkaError. Raises ConnectionLost or KafkaError when no lookup was possible."""
        ...

    def doubt(self, cluster: Cluster, keys: Sequence[K], node_id: int, error: KafkaError) -> None:
        """Note that other nodes may decide the items now, after an error of the node or a failed connection."""
        ...


class AnyNode(Generic[K]):
    """Route to any broker."""

    async def find(self, cluster: Cluster, keys: Sequence[K]) -> Mapping[K, int | KafkaError]:
        return dict.fromkeys(keys, ANY_NODE)

    def doubt(self, cluster: Cluster, keys: Sequence[K], node_id: int, error: KafkaError) -> None:
        """Do nothing: a lost connection makes the cluster choose another broker."""


class AtController(Generic[K]):
    """Route to the controller that Metadata names. In KRaft Metadata names any broker, which forwards requests to the controller."""

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
    """Route to the leader of each item's partition."""

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
    """Route to the coordinator of each item's group or transactional id."""

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
    """Route to the broker that each item names, or to ANY_NODE. An item of a broker outside of the cluster fails at once."""

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
    """Call of the admin client: the items, the route and the question."""

    def __init__(self, cluster: Cluster, items: Items[K, V], route: Route[K], ask: Ask[K, V], timeout_ms: int) -> None:
        self._cluster = cluster
        self._items = items
        self._route = route
        self._ask = ask
        self._timeout_ms = timeout_ms
        self._retries = cluster.config[RETRIES]
        self._deadline_ms = cluster.now_ms() + timeout_ms

    async def outcomes(self) -> Outcomes[K, V]:
        """Ask until every item has an outcome, and return the outcomes."""
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
        # Settle the items of each node without waiting for the other nodes.
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
        """Return the items to retry after an error that applies to all of them."""
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
            return NotHeard(ErrorCode.REQUEST_TIMED_OUT, "no connection was made within the time limit")
        except ConnectionLost as error:
            return NotHeard(as_kafka_error(error).code, str(error))
        except KafkaError as error:
            return error


async def _all_of(*actions: Coroutine[Any, Any, None]) -> None:
    """Run all actions to their end. When an action fails, or the caller is cancelled, cancel the other actions."""
    tasks = [asyncio.ensure_future(action) for action in actions]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


async def one_by_one(keys: Sequence[K], ask: Callable[[K], Awaitable[V | KafkaError]]) -> Outcomes[K, V]:
    """Ask for each key in a separate request, all at the same time, and return an outcome per key.

    For APIs that take one item a request.
    """
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
    """Return the outcome of every item (see the module). `retried` are the retriable errors of a single item."""
    return await Asking[K, V](cluster, Items[K, V](keys, retried, name), route, ask, timeout_ms).outcomes()
