"""Coordinators of groups and transactional ids: look-up and requests (KIP-699: several keys in one request)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from enum import IntEnum
from typing import TypeVar

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.client.core.metadata import Broker
from odradek.client.network.cluster import Cluster, Node
from odradek.network.transport import ConnectionLost
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from odradek.protocol.schema import Message

R = TypeVar("R", bound=Message)

_LAST_VERSION_WITH_ONE_KEY = 3


class CoordinatorKind(IntEnum):
    """Kind of coordinator, as FindCoordinator numbers it."""

    GROUP = 0
    TRANSACTION = 1


COORDINATOR_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
"""Errors after which the coordinator has to be looked up again."""


async def find_coordinators(cluster: Cluster, kind: CoordinatorKind, keys: Iterable[str]) -> dict[str, int | KafkaError]:
    """Ask a broker once for the coordinators of `keys` (group ids or transactional ids); return a node id or an error for each key.

    Raises ConnectionLost, or KafkaError when the whole request was refused; does not retry. The returned nodes can be dialled.
    """
    chosen = list(dict.fromkeys(keys))
    node = await cluster.any_node()
    if node.versions.choose(ApiKey.FIND_COORDINATOR) > _LAST_VERSION_WITH_ONE_KEY:
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=chosen)
        response = await cluster.call(node, request, FindCoordinatorResponse)
        found = {each.key: _outcome(cluster, kind, each.key, each) for each in response.coordinators}
    else:
        requests = [FindCoordinatorRequest(key=key, key_type=kind) for key in chosen]
        answers = await asyncio.gather(*(cluster.call(node, request, FindCoordinatorResponse) for request in requests))
        found = {key: _outcome(cluster, kind, key, answer) for key, answer in zip(chosen, answers, strict=True)}
    for key in chosen:
        found.setdefault(
            key, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's response does not contain the coordinator of {key}")
        )
    return found


def _outcome(
    cluster: Cluster, kind: CoordinatorKind, key: str, answer: FindCoordinatorResponse | FindCoordinatorResponse.Coordinator
) -> int | KafkaError:
    if answer.error_code:
        what = "group" if kind is CoordinatorKind.GROUP else "transactional id"
        return KafkaError(code_of(answer.error_code), answer.error_message or f"coordinator of {what} {key}")
    cluster.learn(Broker(answer.node_id, answer.host, answer.port, None))
    return answer.node_id


class Coordinator:
    """Coordinator of one group or transactional id, looked up when it is needed, and again after it has moved or cannot be reached.

    The coordinator has a separate connection to the broker, so that a heartbeat never waits behind a Fetch. Belongs to the cluster's loop.
    """

    def __init__(self, cluster: Cluster, kind: CoordinatorKind, key: str) -> None:
        self.cluster = cluster
        self.kind = kind
        self.key = key
        self.node_id: int | None = None
        self._finding: asyncio.Task[int] | None = None

    async def node(self) -> Node:
        """Return an open connection to the coordinator; callers at the same time share one look-up.

        Raises ConnectionLost or KafkaError on failure.
        """
        if self.node_id is None:
            if self._finding is None:
                self._finding = asyncio.create_task(self._find())
                self._finding.add_done_callback(self._found)
            await asyncio.shield(self._finding)
        node_id = self.node_id
        if node_id is None:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, f"the coordinator of {self.key} has moved")
        try:
            return await self.cluster.node(node_id, "coordinator")
        except ConnectionLost:
            self.forget(node_id)
            raise

    async def call(
        self, request: Message, response: type[R], *, at_most: int | None = None, at_least: int = 0, timeout_s: float | None = None
    ) -> R:
        """Send a request to the coordinator and return its response. Raises ConnectionLost, or KafkaError without a coordinator.

        Errors within the response are left to the caller: after an error of COORDINATOR_MOVED the caller has to call `forget`.
        """
        node = await self.node()
        try:
            return await self.cluster.call(node, request, response, at_most=at_most, at_least=at_least, timeout_s=timeout_s)
        except ConnectionLost:
            self.forget(node.node_id)
            raise

    def forget(self, node_id: int | None = None) -> None:
        """Look up the coordinator again before the next request. With `node_id`, only if that node still counts as the coordinator."""
        if node_id is None or node_id == self.node_id:
            self.node_id = None

    async def _find(self) -> int:
        outcome = (await find_coordinators(self.cluster, self.kind, [self.key]))[self.key]
        if isinstance(outcome, KafkaError):
            raise outcome
        self.node_id = outcome
        return outcome

    def _found(self, task: asyncio.Task[int]) -> None:
        self._finding = None
        if not task.cancelled():
            task.exception()

    async def close(self) -> None:
        """Cancel a look-up that is under way; the cluster closes the connection."""
        if self._finding is not None:
            self._finding.cancel()
            await asyncio.gather(self._finding, return_exceptions=True)
