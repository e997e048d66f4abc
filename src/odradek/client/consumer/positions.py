"""Search for positions: the group's committed offsets, and without a committed offset auto.offset.reset.

The core (`core.positions`, `core.resets`) decides on the requests, which run as tasks of the fetching loop. A search belongs to no call of
the application: a call that ends, is cancelled or interrupted leaves the search running, and another assignment does not wait for it.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from odradek.base.errors import ErrorCode, KafkaError, OdradekError
from odradek.base.ids import TopicPartition
from odradek.client.consumer.commits import Committer
from odradek.client.core.data_requests import list_offsets_request, listed_offsets
from odradek.client.core.fetcher import Fetcher
from odradek.client.core.metadata import FOREVER
from odradek.client.core.offsets import CommittedAnswer, Verdict
from odradek.client.core.resets import ResetPlan
from odradek.client.network.cluster import Cluster, as_kafka_error
from odradek.network.transport import ConnectionLost
from odradek.protocol.messages.list_offsets import ListOffsetsResponse


class NoOffsetForPartition(OdradekError, ValueError):
    """Partition without a position, with auto.offset.reset=none (org.apache.kafka.clients.consumer.NoOffsetForPartitionException)."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(f"{partition} has no position and auto.offset.reset=none: call seek() first")
        self.partition = partition


class PositionFinder:
    """Requests for the positions that the fetcher lacks and the application waits for."""

    def __init__(self, cluster: Cluster, fetcher: Fetcher, isolation: int, committer: Committer | None) -> None:
        self._cluster = cluster
        self._fetcher = fetcher
        self._isolation = isolation
        self._committer = committer

    def due(self) -> tuple[list[Coroutine[Any, Any, None]], bool, int]:
        """Return the requests to make now, whether metadata is missing, and milliseconds until a back-off ends (FOREVER for none)."""
        now_ms = self._cluster.now_ms()
        plans, needs_metadata, wake_ms = self._fetcher.searches.plans(self._cluster.view, now_ms, self._cluster.clock.time_ms())
        actions: list[Coroutine[Any, Any, None]] = [self._ask_leader(plan) for plan in plans]
        asked: dict[TopicPartition, int] = {}
        for partition, generation in self._fetcher.uncommitted():
            position = self._fetcher.positions[partition]
            if not position.sought or position.in_flight or position.error is not None:
                continue
            if position.retry_at_ms > now_ms:
                wake_ms = min(wake_ms, position.retry_at_ms - now_ms)
                continue
            position.in_flight = True
            asked[partition] = generation
        if asked and self._committer is not None:
            actions.append(self._ask_group(self._committer, asked))
        return actions, needs_metadata, min(wake_ms, FOREVER)

    async def _ask_leader(self, plan: ResetPlan) -> None:
        searches, now_ms = self._fetcher.searches, self._cluster.now_ms
        try:
            node = await self._cluster.node(plan.node_id)
            wanted = {target.topic_partition: target.timestamp for target in plan.targets}
            request = list_offsets_request(wanted, self._isolation, int(self._cluster.request_timeout_s * 1000))
            answers = listed_offsets(await self._cluster.call(node, request, ListOffsetsResponse))
        except (ConnectionLost, KafkaError) as lost:
            searches.on_failure(plan, as_kafka_error(lost), now_ms())
            self._cluster.metadata.request_update()
        except Exception as error:
            searches.on_failure(plan, as_kafka_error(error), now_ms())
            raise
        else:
            if searches.on_answers(plan, answers, now_ms()):
                self._cluster.metadata.request_update()

    async def _ask_group(self, committer: Committer, asked: dict[TopicPartition, int]) -> None:
        try:
            answers = await committer.try_committed(list(asked))
        except Exception as failure:
            answers = dict.fromkeys(asked, CommittedAnswer(Verdict.FAILED, error=as_kafka_error(failure)))
        now_ms = self._cluster.now_ms()
        for partition, generation in asked.items():
            position = self._fetcher.positions.get(partition)
            if position is None or position.generation != generation:
                continue
            answer = answers[partition]
            position.in_flight = False
            if answer.verdict is Verdict.DONE:
                self._fetcher.committed(partition, generation, answer.offset)
                continue
            error = answer.error or KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the committed offset of {partition}")
            if answer.verdict is Verdict.FAILED:
                self._fetcher.refuse(position, error)
            else:
                self._fetcher.again(position, error, now_ms)
