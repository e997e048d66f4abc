"""Asking the leaders for offsets, with retries per partition."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.cluster import Cluster
from odradek.client.core.data_requests import ListedOffset, list_offsets_request, listed_offsets
from odradek.network.transport import ConnectionLost
from odradek.protocol.messages.list_offsets import ListOffsetsResponse


async def list_offsets(cluster: Cluster, wanted: Mapping[TopicPartition, int], *, isolation: int = 0) -> dict[TopicPartition, ListedOffset]:
    """The offsets of `wanted` (partition -> timestamp, or -2 earliest, -1 latest, -3 greatest); KafkaError when one cannot be had."""
    found: dict[TopicPartition, ListedOffset] = {}
    left = dict(wanted)
    if not left:
        return found
    cluster.metadata.want(partition.topic for partition in left)

    async def attempt() -> dict[TopicPartition, ListedOffset]:
        by_leader: defaultdict[int, dict[TopicPartition, int]] = defaultdict(dict)
        for partition, timestamp in left.items():
            by_leader[await cluster.leader(partition)][partition] = timestamp
        answers = await asyncio.gather(
            *(_ask(cluster, leader, asked, isolation) for leader, asked in by_leader.items()), return_exceptions=True
        )
        failure: BaseException | None = None
        for answer in answers:
            if isinstance(answer, BaseException):
                failure = answer
                continue
            for partition, listed in answer.items():
                if listed.error is ErrorCode.NONE:
                    found[partition] = listed
                    left.pop(partition, None)
                else:
                    failure = KafkaError(listed.error, f"offsets of {partition}")
        if failure is not None:
            cluster.metadata.request_update()
            await _refresh_quietly(cluster)
            raise failure
        if left:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker left out {', '.join(map(str, left))}")
        return found

    return await cluster.retrying("offsets", attempt)


async def _ask(cluster: Cluster, leader: int, asked: Mapping[TopicPartition, int], isolation: int) -> dict[TopicPartition, ListedOffset]:
    node = await cluster.node(leader)
    request = list_offsets_request(asked, isolation, int(cluster.request_timeout_s * 1000))
    return listed_offsets(await cluster.call(node, request, ListOffsetsResponse))


async def _refresh_quietly(cluster: Cluster) -> None:
    try:
        await cluster.refresh()
    except (ConnectionLost, KafkaError):
        return  # The next attempt reports what is wrong.
