"""Requests of clients that Odradek has no client for: sent by hand, to the node that is asked for, on connections that are kept."""

from __future__ import annotations

import asyncio
import random
from typing import TypeVar

from odradek.base.errors import ErrorCode, KafkaError
from odradek.network.transport import ClientConnection, ConnectionLost, dial
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.schema import Message
from odradek.testing.simulation.cluster import PORT, SimulatedCluster

R = TypeVar("R", bound=Message)

GROUP, TRANSACTION = 0, 1
"""What a coordinator is asked for."""
TIMEOUT_S = 6.0


class Requests:
    """The connections of one client, to brokers by number."""

    def __init__(self, cluster: SimulatedCluster, name: str, rng: random.Random) -> None:
        self._cluster = cluster
        self._name = name
        self._rng = rng
        self._connections: dict[tuple[int, int], ClientConnection] = {}
        self._coordinators: dict[tuple[int, str], int] = {}
        self.topic_ids: dict[str, object] = {}

    async def ask(
        self, node: int, request: Message, response: type[R], version: int, *, timeout_s: float = TIMEOUT_S, port: int = PORT
    ) -> R:
        """The answer of a broker (or of what else listens on a port of it); ConnectionLost without one."""
        connection = self._connections.get((node, port))
        if connection is None or connection.closed:
            host = self._cluster.host(node)
            connection = await dial(host, port, clock=self._cluster.clock, client_id=self._name, timeout_s=TIMEOUT_S)
            self._connections[node, port] = connection
        return await connection.request(request, response, version, timeout_s=timeout_s)

    async def ask_any(self, request: Message, response: type[R], version: int) -> R:
        """The answer of some broker."""
        return await self.ask(self._rng.choice(self._cluster.broker_ids), request, response, version)

    async def coordinator(self, kind: int, key: str) -> int:
        """The coordinator of a group or transactional id, found anew after `forget`; KafkaError or ConnectionLost without one."""
        known = self._coordinators.get((kind, key))
        if known is not None:
            return known
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        (found,) = (await self.ask_any(request, FindCoordinatorResponse, 4)).coordinators
        if found.error_code:
            raise KafkaError(ErrorCode(found.error_code), f"the coordinator of {key}")
        self._coordinators[(kind, key)] = found.node_id
        return found.node_id

    def forget(self, kind: int, key: str) -> None:
        """The coordinator is another by now, perhaps."""
        self._coordinators.pop((kind, key), None)

    async def metadata(self, topic: str) -> MetadataResponse.MetadataResponseTopic:
        """A topic with its partitions and leaders; KafkaError or ConnectionLost."""
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        (found,) = (await self.ask_any(request, MetadataResponse, 12)).topics
        if found.error_code:
            raise KafkaError(ErrorCode(found.error_code), topic)
        return found

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


async def pause(rng: random.Random, longest_s: float = 0.5) -> None:
    """Before something is tried again."""
    await asyncio.sleep(rng.uniform(0.02, longest_s))


__all__ = ["GROUP", "TRANSACTION", "ConnectionLost", "Requests", "pause"]
