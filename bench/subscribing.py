"""A load generator: a consumer that comes anew subscribes, over raw requests; milliseconds until it holds the first record.

Each time it joins a new group, over a new connection, and knows only the broker's address. It asks what a client has to ask, one request
after the other, and nothing else, so that the broker's time is measured.
"""

from __future__ import annotations

import time
from uuid import UUID, uuid4

from bench.comparison import Figures
from bench.members import SESSION_MS
from bench.wire import Wire, await_coordinator, connect, find_coordinator, percentile, run_generator
from odradek.base.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

_EARLIEST = -2


def _check(code: int) -> None:
    if code != ErrorCode.NONE:
        raise RuntimeError(f"the broker answers {ErrorCode(code).name}")


async def join_classic(wire: Wire, group: str, topic: str) -> list[int]:
    """The partitions that the new member gets."""
    subscription = b"\0\1" + ConsumerProtocolSubscription(topics=[topic]).encode(1)
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=subscription)]
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )
    joined = await wire.ask(request, 9, JoinGroupResponse)
    request.member_id = joined.member_id
    joined = await wire.ask(request, 9, JoinGroupResponse)
    _check(joined.error_code)
    own = [ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=[0])]
    assignment = b"\0\1" + ConsumerProtocolAssignment(assigned_partitions=own).encode(1)
    assignments = [SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)]
    sync = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )
    synced = await wire.ask(sync, 5, SyncGroupResponse)
    _check(synced.error_code)
    got = ConsumerProtocolAssignment.decode(synced.assignment[2:], 1)
    return list(got.assigned_partitions[0].partitions)


async def join_consumer(wire: Wire, group: str, topic: str) -> list[int]:
    answer = await wire.ask(
        ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id=str(uuid4()),
            member_epoch=0,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        ),
        1,
        ConsumerGroupHeartbeatResponse,
    )
    _check(answer.error_code)
    assert answer.assignment is not None
    return list(answer.assignment.topic_partitions[0].partitions)


async def subscribe(port: int, protocol: str, group: str, topic: str) -> float:
    """Subscribes once; returns the milliseconds until the first record."""
    begin = time.perf_counter()
    wire = await connect(port)
    metadata = await wire.ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=topic)]), 12, MetadataResponse)
    topic_id: UUID = metadata.topics[0].topic_id
    await find_coordinator(wire, [group])
    (partition,) = await (join_classic if protocol == "classic" else join_consumer)(wire, group, topic)
    asked = [OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[partition])]
    fetch = OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=asked)], require_stable=True)
    fetched = await wire.ask(fetch, 8, OffsetFetchResponse)
    _check(fetched.groups[0].error_code)
    wanted = [ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=_EARLIEST)]
    listed = await wire.ask(
        ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=wanted)]),
        7,
        ListOffsetsResponse,
    )
    offset = listed.topics[0].partitions[0].offset
    read = [FetchRequest.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)]
    records = await wire.ask(
        FetchRequest(max_wait_ms=500, min_bytes=1, topics=[FetchRequest.FetchTopic(topic_id=topic_id, partitions=read)]),
        13,
        FetchResponse,
    )
    if not records.responses[0].partitions[0].records:
        raise RuntimeError("no record came")
    elapsed = (time.perf_counter() - begin) * 1000
    wire.close()
    return elapsed


async def main(port: int, *, protocol: str, topic: str, count: int) -> Figures:
    groups = [f"{topic}-{number}" for number in range(count)]
    wire = await connect(port)
    await await_coordinator(wire, groups)
    wire.close()
    times = [await subscribe(port, protocol, group, topic) for group in groups]
    return {"p50 ms": percentile(times, 0.5), "max ms": max(times)}


if __name__ == "__main__":
    run_generator(main)
