"""Requests to the leaders for offsets, with retries per partition."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.core.data_requests import ListedOffset, list_offsets_request, listed_offsets
from odradek.client.network.cluster import Cluster
from odradek.network.transport import ConnectionLost
from odradek.protocol.messages.list_offsets import ListOffsetsResponse


async def list_offsets(cluster: Cluster, wanted: Mapping[TopicPartition, int], *, isolation: int = 0) -> dict[TopicPartition, ListedOffset]:
    """Return the offsets of `wanted` (partition -> timestamp, or -2 earliest, -1 latest, -3 greatest timestamp).

    Each partition is asked for independently: a partition without a leader delays no other. Raises KafkaError, which names the partition,
    when an offset is not known within default.api.timeout.ms.
    """
    found: dict[TopicPartition, ListedOffset] = {}
    left = dict(wanted)
    if not left:
        return found
    cluster.metadata.want(partition.topic for partition in left)

    async def attempt() -> dict[TopicPartition, ListedOffset]:
        failures: list[BaseException] = []
        by_leader = await _by_leader(cluster, left, failures)
        answers = await asyncio.gather(
            *(_ask(cluster, leader, asked, isolation) for leader, asked in by_leader.items()), return_exceptions=True
        )
        for asked, answer in zip(by_leader.values(), answers, strict=True):
            if isinstance(answer, BaseException):
                failures.append(answer)
                continue
            for partition in asked:
                listed = answer.get(partition)
                if listed is not None and listed.error is ErrorCode.NONE:
                    found[partition] = listed
                    left.pop(partition, None)
                else:
                    code = ErrorCode.UNKNOWN_SERVER_ERROR if listed is None else listed.error
                    failures.append(
                        KafkaError(code, f"{'the broker omitted the offset of' if listed is None else 'offsets of'} {partition}")
                    )
        if failures:
            cluster.metadata.request_update()
            await _refresh_quietly(cluster)
            raise min(failures, key=_heals)
        return found

    return await cluster.retrying("offsets", attempt)


def _heals(error: BaseException) -> bool:
    """Return whether a request that failed with the error is worth another attempt."""
    return isinstance(error, ConnectionLost) or (isinstance(error, KafkaError) and error.code.retriable)


async def _by_leader(
    cluster: Cluster, wanted: Mapping[TopicPartition, int], failures: list[BaseException]
) -> dict[int, dict[TopicPartition, int]]:
    """Return leader -> its partitions and timestamps; append to `failures` why a partition has no leader."""
    by_leader: defaultdict[int, dict[TopicPartition, int]] = defaultdict(dict)
    if any(cluster.view.leader(partition) is None for partition in wanted):
        try:
            await cluster.refresh()
        except (ConnectionLost, KafkaError) as error:
            failures.append(error)
    for partition, timestamp in wanted.items():
        leader = cluster.view.leader(partition)
        if leader is None:
            failures.append(cluster.leaderless(partition))
        else:
            by_leader[leader][partition] = timestamp
    return by_leader


async def _ask(cluster: Cluster, leader: int, asked: Mapping[TopicPartition, int], isolation: int) -> dict[TopicPartition, ListedOffset]:
    node = await cluster.node(leader)
    request = list_offsets_request(asked, isolation, int(cluster.request_timeout_s * 1000))
    return listed_offsets(await cluster.call(node, request, ListOffsetsResponse))


async def _refresh_quietly(cluster: Cluster) -> None:
    try:
        await cluster.refresh()
    except (ConnectionLost, KafkaError):
        return  # The next attempt reports the error.
