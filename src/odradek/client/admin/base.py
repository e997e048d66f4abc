"""Base of all subjects of the asyncio admin client: the connections, and the routes with their time limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from types import TracebackType
from typing import Self, TypeVar

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.client.admin.asking import AnyNode, Ask, AtBrokers, AtController, AtCoordinators, AtLeaders, Peer, Route, settle
from odradek.client.admin.items import CONTROLLER_ERRORS, COORDINATOR_ERRORS, NOTHING, RETRIABLE_ERRORS, K, Outcomes, V
from odradek.client.core.metadata import Broker
from odradek.client.metrics import MetricName
from odradek.client.network.cluster import Cluster
from odradek.client.network.coordinators import CoordinatorKind
from odradek.client.settings.common_keys import DEFAULT_API_TIMEOUT_MS
from odradek.client.settings.config import ADMIN_CONFIG, ClientConfig, Setting

T = TypeVar("T")


class AdminBase:
    """Base class of the admin client: a started client has a cluster, and its calls use the routes of `asking`."""

    def __init__(self, config: Mapping[str, Setting] | None = None, /, **settings: Setting) -> None:
        """Check the settings: keys as Kafka names them in `config`, or keyword arguments with underscores in the place of dots.

        Raises ConfigError, which names the key, for an unknown key or an invalid value.
        """
        self._config = ClientConfig(ADMIN_CONFIG, config, **settings)
        self._cluster: Cluster | None = None

    async def start(self) -> Self:
        """Start the client, which opens connections when it needs them."""
        if self._cluster is None:
            self._cluster = Cluster(self._config)
        return self

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    @property
    def cluster(self) -> Cluster:
        """Connections of the client. Raises OdradekError before `start`."""
        if self._cluster is None:
            raise OdradekError("the admin client is not started: use `async with`, or await start()")
        return self._cluster

    def metrics(self) -> dict[MetricName, float]:
        """Return this client's metrics under Kafka's names: rates per second, times in milliseconds, sizes in bytes."""
        return self.cluster.metrics()

    async def close(self) -> None:
        """Close the connections."""
        if self._cluster is not None:
            await self._cluster.close()

    # -- strategies: several items ----------------------------------------------------------------------------------------------------

    async def _settle(
        self, keys: Iterable[K], route: Route[K], ask: Ask[K, V], retried: Collection[ErrorCode], name: Callable[[K], str]
    ) -> Outcomes[K, V]:
        limit = self._config[DEFAULT_API_TIMEOUT_MS]
        return await settle(self.cluster, keys, route, ask, retried=retried, name=name, timeout_ms=limit)

    async def _at_controller(self, keys: Iterable[K], ask: Ask[K, V], *, name: Callable[[K], str] = str) -> Outcomes[K, V]:
        return await self._settle(keys, AtController[K](), ask, CONTROLLER_ERRORS, name)

    async def _at_any_broker(
        self, keys: Iterable[K], ask: Ask[K, V], *, retried: Collection[ErrorCode] = NOTHING, name: Callable[[K], str] = str
    ) -> Outcomes[K, V]:
        return await self._settle(keys, AnyNode[K](), ask, retried, name)

    async def _at_leaders(
        self,
        keys: Iterable[K],
        ask: Ask[K, V],
        *,
        partition_of: Callable[[K], TopicPartition],
        retried: Collection[ErrorCode] = RETRIABLE_ERRORS,
        name: Callable[[K], str] = str,
    ) -> Outcomes[K, V]:
        return await self._settle(keys, AtLeaders[K](partition_of), ask, retried, name)

    async def _at_coordinators(
        self,
        kind: CoordinatorKind,
        keys: Iterable[K],
        ask: Ask[K, V],
        *,
        id_of: Callable[[K], str] = str,
        retried: Collection[ErrorCode] = COORDINATOR_ERRORS,
        name: Callable[[K], str] = str,
    ) -> Outcomes[K, V]:
        return await self._settle(keys, AtCoordinators[K](kind, id_of), ask, retried, name)

    async def _at_brokers(
        self,
        keys: Iterable[K],
        ask: Ask[K, V],
        *,
        broker_of: Callable[[K], int],
        retried: Collection[ErrorCode] = NOTHING,
        name: Callable[[K], str] = str,
    ) -> Outcomes[K, V]:
        return await self._settle(keys, AtBrokers[K](broker_of), ask, retried, name)

    async def _all_brokers(self) -> list[int]:
        """Return the sorted ids of the brokers that are in the cluster now."""

        async def attempt() -> list[int]:
            return sorted((await self.cluster.refresh([])).brokers)

        return await self.cluster.retrying("the brokers of the cluster", attempt)

    async def _broker_info(self, node_id: int) -> Broker:
        """Return the address of a broker; host "" and port -1 for a broker that the metadata does not have."""
        view = self.cluster.view
        if node_id not in view.brokers:
            view = await self.cluster.refresh([])
        return view.brokers.get(node_id) or Broker(node_id, "", -1)

    # -- strategies: one question -----------------------------------------------------------------------------------------------------

    async def _controller(self, what: str, ask: Callable[[Peer], Awaitable[T]]) -> T:
        """Ask the controller one question and return the answer. Raises the KafkaError of the answer."""
        return _only(await self._at_controller([what], _one(ask)))

    async def _any_broker(self, what: str, ask: Callable[[Peer], Awaitable[T]]) -> T:
        """Ask any broker one question and return the answer. Raises the KafkaError of the answer."""
        return _only(await self._at_any_broker([what], _one(ask)))


def _one(ask: Callable[[Peer], Awaitable[T]]) -> Ask[str, T]:
    async def asked(peer: Peer, keys: Collection[str]) -> dict[str, T | KafkaError]:
        return dict.fromkeys(keys, await ask(peer))

    return asked


def _only(outcomes: Outcomes[str, T]) -> T:
    (answer,) = outcomes.values()
    if isinstance(answer, KafkaError):
        raise answer
    return answer
