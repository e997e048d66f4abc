"""A load generator: many members of one group, from the first request until each has its partition.

Every member has a connection of its own, made before the clock starts, and does what a consumer does: in the classic protocol JoinGroup
(twice, for its id), SyncGroup with the leader's assignment, heartbeats, and joining again when it is told; in the consumer protocol
heartbeats, at once when it has given partitions up, else at the interval that the broker asks for.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from uuid import UUID

from bench.comparison import Figures
from bench.wire import Wire, await_coordinator, connect_many, request_frame, run_generator
from odradek.base.errors import ErrorCode
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

HEARTBEAT_S = 0.5
"""The heartbeat interval of members of the classic protocol, who choose it themselves."""
SESSION_MS = 45_000
REBALANCE_MS = 300_000
_HAS_TO_JOIN = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION})


@dataclass
class Group:
    """All members, and when they are done."""

    name: str
    topic: str
    size: int
    assigned: dict[int, tuple[int, frozenset[int]]] = field(default_factory=dict)
    """Member's number -> generation, partitions."""
    stable: asyncio.Event = field(default_factory=asyncio.Event)
    requests: int = 0

    def got(self, number: int, generation: int, partitions: frozenset[int]) -> None:
        """Stable: all are in one generation and every partition has its owner (there are as many as members)."""
        self.assigned[number] = (generation, partitions)
        if len(self.assigned) < self.size or self.stable.is_set():
            return
        generations = {each for each, _ in self.assigned.values()}
        owned = sum(len(each) for _, each in self.assigned.values())
        if len(generations) == 1 and owned == self.size and all(len(each) == 1 for _, each in self.assigned.values()):
            self.stable.set()


def _check(code: int) -> None:
    if code != ErrorCode.NONE:
        raise RuntimeError(f"the broker answers {ErrorCode(code).name}")


class ClassicMember:
    """One member of the classic protocol."""

    def __init__(self, group: Group, number: int, wire: Wire) -> None:
        self.group, self.number, self.wire = group, number, wire
        self.member_id = ""
        subscription = ConsumerProtocolSubscription(topics=[group.topic])
        self.protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"\0\1" + subscription.encode(1))]

    async def run(self) -> None:
        while True:
            joined = await self.join()
            if await self.sync(joined):
                await self.beat(joined.generation_id)

    async def join(self) -> JoinGroupResponse:
        while True:
            request = JoinGroupRequest(
                group_id=self.group.name,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=self.protocols,
            )
            self.group.requests += 1
            answer = await self.wire.ask(request, 9, JoinGroupResponse)
            self.member_id = answer.member_id
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                continue
            _check(answer.error_code)
            return answer

    async def sync(self, joined: JoinGroupResponse) -> bool:
        request = SyncGroupRequest(
            group_id=self.group.name,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name=joined.protocol_name,
            assignments=self.assignments(joined) if joined.leader == self.member_id else [],
        )
        self.group.requests += 1
        answer = await self.wire.ask(request, 5, SyncGroupResponse)
        if answer.error_code in _HAS_TO_JOIN:
            return False
        _check(answer.error_code)
        own = ConsumerProtocolAssignment.decode(answer.assignment[2:], 1)
        partitions = frozenset(partition for topic in own.assigned_partitions for partition in topic.partitions)
        self.group.got(self.number, joined.generation_id, partitions)
        return True

    def assignments(self, joined: JoinGroupResponse) -> list[SyncGroupRequest.SyncGroupRequestAssignment]:
        share, extra = divmod(self.group.size, len(joined.members))
        result = []
        start = 0
        for index, member in enumerate(joined.members):
            count = share + (index < extra)
            own = [ConsumerProtocolAssignment.TopicPartition(topic=self.group.topic, partitions=list(range(start, start + count)))]
            assignment = b"\0\1" + ConsumerProtocolAssignment(assigned_partitions=own).encode(1)
            result.append(SyncGroupRequest.SyncGroupRequestAssignment(member_id=member.member_id, assignment=assignment))
            start += count
        return result

    async def beat(self, generation: int) -> None:
        """Sends heartbeats until the member has to join again."""
        request = request_frame(HeartbeatRequest(group_id=self.group.name, generation_id=generation, member_id=self.member_id), 4)
        while True:
            await asyncio.sleep(HEARTBEAT_S)
            self.group.requests += 1
            answer = HeartbeatResponse.decode((await self.wire.send(request))[5:], 4)
            if answer.error_code in _HAS_TO_JOIN:
                return
            _check(answer.error_code)


class ConsumerMember:
    """One member of the consumer protocol."""

    def __init__(self, group: Group, number: int, wire: Wire) -> None:
        self.group, self.number, self.wire = group, number, wire
        self.member_id = str(UUID(int=number + 1))

    async def run(self) -> None:
        epoch = 0
        owned: dict[UUID, list[int]] = {}
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group.name,
            member_id=self.member_id,
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=[self.group.topic],
            topic_partitions=[],
        )
        while True:
            self.group.requests += 1
            answer = await self.wire.ask(request, 1, ConsumerGroupHeartbeatResponse)
            _check(answer.error_code)
            epoch = answer.member_epoch
            request = ConsumerGroupHeartbeatRequest(group_id=self.group.name, member_id=self.member_id, member_epoch=epoch)
            changed = False
            if answer.assignment is not None:
                wanted = {each.topic_id: each.partitions for each in answer.assignment.topic_partitions}
                changed = wanted != owned
                owned = wanted
            self.group.got(self.number, epoch, frozenset(partition for each in owned.values() for partition in each))
            if changed:
                request.topic_partitions = [
                    ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=topic_id, partitions=partitions)
                    for topic_id, partitions in owned.items()
                ]
            else:
                await asyncio.sleep(answer.heartbeat_interval_ms / 1000)


async def main(port: int, *, protocol: str, topic: str, members: int) -> Figures:
    group = Group(topic, topic, members)
    wires = await connect_many(port, members)
    await await_coordinator(wires[0], [group.name])
    kind = ClassicMember if protocol == "classic" else ConsumerMember
    start, cpu = time.perf_counter(), time.process_time()
    running = [asyncio.ensure_future(kind(group, number, wire).run()) for number, wire in enumerate(wires)]
    stable = asyncio.ensure_future(group.stable.wait())
    done, _ = await asyncio.wait([stable, *running], timeout=300, return_when=asyncio.FIRST_COMPLETED)
    elapsed = time.perf_counter() - start
    for each in done - {stable}:
        each.result()
    if stable not in done:
        raise TimeoutError(f"{len(group.assigned)} of {members} members have something after {elapsed} s")
    for each in running:
        each.cancel()
    return {"s": elapsed, "requests": group.requests, "client CPU s": time.process_time() - cpu}


if __name__ == "__main__":
    run_generator(main)
