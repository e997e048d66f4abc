"""Consumer groups of a story, by raw requests: simple consumers that commit positions, and members by both protocols that commit for what
they are assigned.

A commit whose answer got lost may be served at any time later, after other commits of the same member even (it waits in the socket of a
node that stands still). So nobody commits again in the same name after such a thing: simple consumers take another group, members come back
as other members, whose generation fences what the old one had sent.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition, random_uuid, uuid_to_string
from odradek.network.transport import ConnectionLost
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.protocol.schema import Message
from odradek.testing.history import Assigned, Commit, Revoked
from tests.simulation.whole.plan import SOURCE, Plan
from tests.simulation.whole.requests import GROUP, TIMEOUT_S, R, Requests, pause

if TYPE_CHECKING:
    from tests.simulation.whole.story import Story

_FENCED: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.GROUP_ID_NOT_FOUND,
    }
)
_NOT_DONE: Final = _FENCED | {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
"""Answers to a commit that say that it has had no effect."""
_SESSION_MS = 6000


def actors(plan: Plan) -> dict[str, Callable[[Story, str, random.Random], Awaitable[None]]]:
    """By name, those that the plan asks for."""
    found: dict[str, Callable[[Story, str, random.Random], Awaitable[None]]] = {}
    for number in range(plan.committers):
        found[f"committer-{number}"] = commit_positions
    for protocol, count in plan.members.items():
        for number in range(count):
            found[f"{protocol}-{number}"] = be_classic_member if protocol == "classic" else be_consumer_member
    return found


async def _ask_commit(requests: Requests, group: str, offsets: dict[TopicPartition, int], member: str, generation: int) -> ErrorCode:
    """The first error of a commit, NONE when all was committed; ConnectionLost or KafkaError when nothing was answered."""
    topics: dict[str, list[OffsetCommitRequest.OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
        )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=name, partitions=each) for name, each in topics.items()],
    )
    answer = await requests.ask(await requests.coordinator(GROUP, group), request, OffsetCommitResponse, 9)
    codes = [each.error_code for topic in answer.topics for each in topic.partitions if each.error_code]
    return ErrorCode(codes[0]) if codes else ErrorCode.NONE


async def ask_coordinator(
    story: Story, requests: Requests, group: str, request: Message, response: type[R], version: int, *, timeout_s: float = TIMEOUT_S
) -> R:
    """What a group's coordinator answers to what it need not write down; KafkaError or ConnectionLost. One that was deposed and has not
    heard of it answers from what it had, as Kafka's does: it is not believed.
    """
    node = await requests.coordinator(GROUP, group)
    asked = story.cluster.clock.monotonic()
    answer = await requests.ask(node, request, response, version, timeout_s=timeout_s)
    if not story.coordinators.believable(node, group, asked):
        raise KafkaError(ErrorCode.NOT_COORDINATOR, f"node {node} leads {group} no more, and had not heard of it")
    return answer


async def fetch_positions(
    story: Story, requests: Requests, group: str, partitions: list[TopicPartition], *, stable: bool = False
) -> dict[TopicPartition, int]:
    """Committed positions, -1 where there is none; KafkaError or ConnectionLost."""
    committed = await fetch_committed(story, requests, group, partitions, stable=stable)
    return {partition: offset for partition, (offset, _) in committed.items()}


async def fetch_committed(
    story: Story, requests: Requests, group: str, partitions: list[TopicPartition], *, stable: bool
) -> dict[TopicPartition, tuple[int, int]]:
    """As `fetch_positions`, with the leader epochs that were committed beside them."""
    wanted = [OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=[number]) for topic, number in partitions]
    request = OffsetFetchRequest(groups=[OffsetFetchRequest.OffsetFetchRequestGroup(group_id=group, topics=wanted)], require_stable=stable)
    (answer,) = (await ask_coordinator(story, requests, group, request, OffsetFetchResponse, 8)).groups
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code), group)
    found: dict[TopicPartition, tuple[int, int]] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            if each.error_code:
                raise KafkaError(ErrorCode(each.error_code), group)
            found[TopicPartition(topic.name, each.partition_index)] = (each.committed_offset, each.committed_leader_epoch)
    return found


async def commit_positions(story: Story, name: str, rng: random.Random) -> None:
    """A simple consumer that commits higher and higher positions, and looks at what is committed now and then."""
    writer, reader = story.recorder(name), story.recorder(f"{name} looks")
    requests = Requests(story.cluster, name, rng)
    partition = TopicPartition(SOURCE, 0)
    groups = [f"{name} 0"]
    position = 0
    while not story.over:
        group = groups[-1]
        position += rng.randint(1, 5)
        commit = Commit(group, *partition, position)
        writer.invoke("commit", [commit])
        try:
            code = await _ask_commit(requests, group, {partition: position}, "", -1)
        except (KafkaError, ConnectionLost) as error:
            code = error.code if isinstance(error, KafkaError) else ErrorCode.NETWORK_EXCEPTION
        if code is ErrorCode.NONE:
            writer.ok("commit", [commit])
        else:
            requests.forget(GROUP, group)
            writer.info("commit", [commit])
            story.note(name, f"commit: {code.name}")
            if code not in _NOT_DONE:
                groups.append(f"{name} {len(groups)}")
        await pause(rng, rng.choice((0.1, 0.5)))
        looked_at = rng.choice(groups[-3:])
        reader.invoke("commit")
        try:
            found = await fetch_positions(story, requests, looked_at, [partition], stable=rng.random() < 0.3)
        except (KafkaError, ConnectionLost) as error:
            requests.forget(GROUP, looked_at)
            reader.info("commit")
            story.note(name, f"look: {error}")
        else:
            offset = found[partition]
            reader.ok("commit", committed=[[looked_at, *partition, None if offset < 0 else offset]])
    requests.close()


class Membership:
    """What a member owns, and how its history is written."""

    def __init__(self, story: Story, name: str, group: str, rng: random.Random) -> None:
        self.story = story
        self.name = name
        self.group = group
        self.rng = rng
        self.lives = 0
        self.requests = Requests(story.cluster, name, rng)
        self.owned: dict[TopicPartition, int] = {}
        """With the position to commit next; -1: not known yet."""
        self.generation = 0
        self.begin()

    def begin(self) -> None:
        """As another member from now on."""
        self.lives += 1
        self.member_id = ""
        self.process = f"{self.name}.{self.lives}"
        self.recorder = self.story.recorder(self.process)

    def heard(self) -> None:
        """The coordinator has answered."""
        self.story.coordinators.heard_of(self.process)

    async def ask(self, request: Message, response: type[R], version: int, *, timeout_s: float = TIMEOUT_S) -> R:
        """See `ask_coordinator`."""
        return await ask_coordinator(self.story, self.requests, self.group, request, response, version, timeout_s=timeout_s)

    def trouble(self, what: str, error: BaseException | ErrorCode) -> None:
        """Something did not work; the coordinator is to be looked up again."""
        self.requests.forget(GROUP, self.group)
        self.story.note(self.name, f"{what}: {error}")

    def assign(self, partitions: set[TopicPartition], generation: int) -> None:
        """The partitions of this generation: what is not among them is given up, the rest is owned."""
        self.give_up(set(self.owned) - partitions)
        self.generation = generation
        for partition in sorted(partitions):
            self.owned.setdefault(partition, -1)
        if partitions:
            self.recorder.info("rebalance", [Assigned(self.group, *each, generation) for each in sorted(partitions)])

    def give_up(self, partitions: set[TopicPartition] | None = None, *, lost: bool = False) -> None:
        """No longer owned (default: all); `lost`: the group has gone on without this member."""
        gone = sorted(self.owned if partitions is None else partitions)
        if gone:
            revoked = [Revoked(self.group, *each, self.generation) for each in gone]
            self.recorder.info("rebalance", revoked, **({"lost": True} if lost else {}))
        for each in gone:
            del self.owned[each]

    async def commit(self) -> bool:
        """Goes on with some of the partitions; False when this member must not commit any more."""
        unknown = [each for each, position in self.owned.items() if position < 0]
        if unknown:
            try:
                for partition, offset in (await fetch_positions(self.story, self.requests, self.group, unknown)).items():
                    self.owned[partition] = max(offset, 0)
            except (KafkaError, ConnectionLost) as error:
                self.trouble("position", error)
            return True
        chosen = {each: position + self.rng.randint(1, 3) for each, position in self.owned.items() if self.rng.random() < 0.7}
        if not chosen:
            return True
        commits = [Commit(self.group, *each, position) for each, position in chosen.items()]
        self.recorder.invoke("commit", commits, generation=self.generation)
        try:
            code = await _ask_commit(self.requests, self.group, chosen, self.member_id, self.generation)
        except (KafkaError, ConnectionLost) as error:
            self.trouble("commit", error)
            code = error.code if isinstance(error, KafkaError) else ErrorCode.NETWORK_EXCEPTION
        if code is ErrorCode.NONE:
            self.recorder.ok("commit", commits, generation=self.generation)
            self.owned.update(chosen)
            return True
        if code in _NOT_DONE:
            self.recorder.fail("commit", commits, generation=self.generation)
            return True
        self.trouble("commit", code)
        self.recorder.info("commit", commits, generation=self.generation)
        return False


async def be_consumer_member(story: Story, name: str, rng: random.Random) -> None:
    """A member by the consumer protocol (KIP-848)."""
    member = Membership(story, name, "group of consumer", rng)
    names = {story.metadata.topic_id(topic): topic for topic in story.plan.topics}
    epoch = 0
    while not story.over:
        if not member.member_id:
            member.member_id, epoch = uuid_to_string(random_uuid(rng)), 0
        try:
            answer = await _heartbeat(member, epoch, names)
        except (KafkaError, ConnectionLost) as error:
            member.trouble("heartbeat", error)
            await pause(rng)
            continue
        member.heard()
        code = ErrorCode(answer.error_code)
        if code in _FENCED:
            member.give_up(lost=True)
            epoch = 0
        elif code is not ErrorCode.NONE:
            member.trouble("heartbeat", code)
        else:
            if answer.assignment is not None:
                mine = {
                    TopicPartition(names[each.topic_id], number)
                    for each in answer.assignment.topic_partitions
                    for number in each.partitions
                }
                member.assign(mine, answer.member_epoch)
            elif answer.member_epoch != epoch:
                member.assign(set(member.owned), answer.member_epoch)
            epoch = answer.member_epoch
            if not await member.commit():
                await _leave_consumer_group(member)
        await pause(rng, 0.8)
    await _leave_consumer_group(member)
    member.requests.close()


async def _heartbeat(member: Membership, epoch: int, names: dict[object, str]) -> ConsumerGroupHeartbeatResponse:
    ids = {name: topic_id for topic_id, name in names.items()}
    owned: dict[str, list[int]] = {}
    for topic, number in member.owned:
        owned.setdefault(topic, []).append(number)
    request = ConsumerGroupHeartbeatRequest(
        group_id=member.group,
        member_id=member.member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=sorted({partition.topic for partition in member.story.plan.partitions}),
        topic_partitions=[
            ConsumerGroupHeartbeatRequest.TopicPartitions(topic_id=ids[topic], partitions=sorted(numbers))  # type: ignore[arg-type]
            for topic, numbers in sorted(owned.items())
        ],
    )
    return await member.ask(request, ConsumerGroupHeartbeatResponse, 1)


async def _leave_consumer_group(member: Membership) -> None:
    """Gives everything up, and says so, if that can be said."""
    member.give_up()
    request = ConsumerGroupHeartbeatRequest(group_id=member.group, member_id=member.member_id, member_epoch=-1)
    try:
        await member.ask(request, ConsumerGroupHeartbeatResponse, 1)
    except (KafkaError, ConnectionLost) as error:
        member.trouble("leave", error)
    member.begin()


async def be_classic_member(story: Story, name: str, rng: random.Random) -> None:
    """A member by the classic protocol: eager rebalances, the leader assigns round robin."""
    member = Membership(story, name, "group of classic", rng)
    while not story.over:
        try:
            joined = await _join(member) and await _hold(member)
        except (KafkaError, ConnectionLost) as error:
            member.trouble("membership", error)
            joined = False
        if not joined:
            await pause(rng)
    await _leave_classic_group(member)
    member.requests.close()


async def _join(member: Membership) -> bool:
    """Joins and syncs, with nothing in its hands; whether it is a member with an assignment now."""
    member.give_up()
    subscription = b"\0\0" + ConsumerProtocolSubscription(topics=sorted({each.topic for each in member.story.plan.partitions})).encode(0)
    request = JoinGroupRequest(
        group_id=member.group,
        session_timeout_ms=_SESSION_MS,
        rebalance_timeout_ms=8000,
        member_id=member.member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequest.JoinGroupRequestProtocol(name="roundrobin", metadata=subscription)],
    )
    joined = await member.ask(request, JoinGroupResponse, 8, timeout_s=15)
    member.heard()
    code = ErrorCode(joined.error_code)
    if code is ErrorCode.MEMBER_ID_REQUIRED:
        member.member_id = joined.member_id
        return False
    if code is not ErrorCode.NONE:
        return _refused(member, "join", code)
    member.member_id = joined.member_id
    sync = SyncGroupRequest(
        group_id=member.group,
        generation_id=joined.generation_id,
        member_id=member.member_id,
        protocol_type="consumer",
        protocol_name="roundrobin",
        assignments=_assignments(member, joined) if joined.leader == member.member_id else [],
    )
    synced = await member.ask(sync, SyncGroupResponse, 5, timeout_s=15)
    member.heard()
    code = ErrorCode(synced.error_code)
    if code is not ErrorCode.NONE:
        return _refused(member, "sync", code)
    assignment = ConsumerProtocolAssignment.decode(synced.assignment[2:], 0) if synced.assignment else ConsumerProtocolAssignment()
    mine = {TopicPartition(each.topic, number) for each in assignment.assigned_partitions for number in each.partitions}
    member.assign(mine, joined.generation_id)
    return True


def _assignments(member: Membership, joined: JoinGroupResponse) -> list[SyncGroupRequest.SyncGroupRequestAssignment]:
    members = sorted(each.member_id for each in joined.members)
    found: list[SyncGroupRequest.SyncGroupRequestAssignment] = []
    for index, member_id in enumerate(members):
        mine = [
            ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=[number])
            for topic, number in member.story.plan.partitions[index :: len(members)]
        ]
        data = b"\0\0" + ConsumerProtocolAssignment(assigned_partitions=mine).encode(0)
        found.append(SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=data))
    return found


def _refused(member: Membership, what: str, code: ErrorCode) -> bool:
    member.trouble(what, code)
    if code in _FENCED:
        member.member_id = ""
    return False


async def _hold(member: Membership) -> bool:
    """Heartbeats and commits until the group rebalances or goes on without this member."""
    while not member.story.over:
        request = HeartbeatRequest(group_id=member.group, generation_id=member.generation, member_id=member.member_id)
        try:
            code = ErrorCode((await member.ask(request, HeartbeatResponse, 4)).error_code)
        except (KafkaError, ConnectionLost) as error:
            member.trouble("heartbeat", error)
            await pause(member.rng)
            continue
        member.heard()
        if code is ErrorCode.REBALANCE_IN_PROGRESS:
            return True
        if code in _FENCED:
            member.give_up(lost=True)
            member.member_id = ""
            return True
        if code is not ErrorCode.NONE:
            member.trouble("heartbeat", code)
        elif not await member.commit():
            await _leave_classic_group(member)
            return True
        await pause(member.rng, 0.8)
    return True


async def _leave_classic_group(member: Membership) -> None:
    member.give_up()
    request = LeaveGroupRequest(group_id=member.group, members=[LeaveGroupRequest.MemberIdentity(member_id=member.member_id)])
    try:
        await member.ask(request, LeaveGroupResponse, 5)
    except (KafkaError, ConnectionLost) as error:
        member.trouble("leave", error)
    member.begin()
