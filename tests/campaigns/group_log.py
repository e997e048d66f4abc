"""Records of a coordinator about its groups, read from `__consumer_offsets` by an ordinary consumer while the coordinator runs.

The order of the log is the order of the coordinator's decisions. The campaigns compare the members' records with the log.
"""

from __future__ import annotations

import math
import struct
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from odradek.coordinator.group.consumer.embedded import read_assignment
from odradek.coordinator.group.records import SERDE
from odradek.coordinator.records import CoordinatorRecord
from odradek.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
)
from odradek.protocol.messages.group_records import GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue

TOPIC = "__consumer_offsets"
Partition = tuple[str, int]


class Commit(NamedTuple):
    """Committed offset. `owner`, `members` and `generation` are those of the group at that time; `member` is named by the metadata."""

    position: int
    partition: Partition
    offset: int
    member: str
    number: int
    claimed_generation: int
    member_id: str
    generation: int
    members: int
    is_member: bool
    owner: str | None


class Revocation(NamedTuple):
    """Partitions that a member of the consumer protocol has to give up, or that it had when it was removed for not giving them up in time.

    `since` is in seconds of the coordinator's clock.
    """

    client_id: str
    partitions: frozenset[Partition]
    since: float


@dataclass
class MemberState:
    """State of a member according to the log. `held` includes partitions that a member of the consumer protocol still has to give up."""

    epoch: int = -1
    stable: bool = True
    held: frozenset[Partition] = frozenset()
    since: float = math.nan
    """Seconds of the coordinator's clock from which the member has had to hold exactly `held` (consumer protocol)."""


@dataclass
class GroupState:
    """State of a group after the last record read. Times are of `time.monotonic`."""

    generation: int = -1
    changed_at: float = 0.0
    members: dict[str, MemberState] = field(default_factory=dict)
    client_ids: dict[str, str] = field(default_factory=dict)
    """Member id -> client id, for all present and past members of the consumer protocol."""
    revocations: list[Revocation] = field(default_factory=list)
    revoking: dict[str, Revocation] = field(default_factory=dict)
    """Member id -> partitions that it has not given up yet."""
    commits: list[Commit] = field(default_factory=list)
    completed: set[int] = field(default_factory=set)
    """Generations (consumer protocol: epochs) that all members had reached."""
    problems: list[str] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    """One line for every record except commits, as evidence."""

    @property
    def settled(self) -> bool:
        return all(member.epoch == self.generation and member.stable for member in self.members.values())


class GroupLog(threading.Thread):
    """Thread that follows the log of the groups. Acquire `lock` to read `groups`."""

    def __init__(self, bootstrap: str, topics: Mapping[UUID, str]) -> None:
        super().__init__(name="group-log", daemon=True)
        self.bootstrap = bootstrap
        self.topics = topics
        self.groups: dict[str, GroupState] = {}
        self.lock = threading.Lock()
        self.stopping = threading.Event()
        self.failure: BaseException | None = None
        self.read = 0

    def run(self) -> None:
        try:
            self._follow()
        except BaseException as error:
            self.failure = error
            raise

    def _follow(self) -> None:
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "-", "auto.offset.reset": "earliest", "enable.auto.commit": False,
             "fetch.wait.max.ms": 20, "log_level": 0}
        )  # fmt: skip
        count = len(AdminClient({"bootstrap.servers": self.bootstrap}).list_topics(TOPIC, timeout=10).topics[TOPIC].partitions)
        consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(count)])
        while not self.stopping.is_set():
            for message in consumer.consume(500, 0.05):
                error = message.error()
                if error is not None:
                    if error.code() not in (KafkaError._PARTITION_EOF, KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
                        raise RuntimeError(str(error))
                    continue
                record = SERDE.decode(message.key(), message.value())
                with self.lock:
                    self.take_in(record, message.offset() or 0, message.timestamp()[1] / 1000)
        consumer.close()

    def state(self, group: str) -> GroupState:
        """Return the state of a group. The caller holds the lock."""
        return self.groups.setdefault(group, GroupState())

    def take_in(self, record: CoordinatorRecord, position: int, written: float) -> None:
        self.read += 1
        key, value = record.key, record.value
        if isinstance(key, OffsetCommitKey):
            if isinstance(value, OffsetCommitValue):
                self._commit(self.state(key.group), (key.topic, key.partition), value, position)
            return
        if isinstance(key, GroupMetadataKey):
            group = self.state(key.group)
            self._classic(group, value if isinstance(value, GroupMetadataValue) else None, position)
        elif isinstance(key, ConsumerGroupMetadataKey):
            group = self.state(key.group_id)
            if isinstance(value, ConsumerGroupMetadataValue):
                self._generation(group, value.epoch, position)
        elif isinstance(key, ConsumerGroupMemberMetadataKey):
            group = self.state(key.group_id)
            if isinstance(value, ConsumerGroupMemberMetadataValue):
                group.members.setdefault(key.member_id, MemberState())
                group.client_ids[key.member_id] = value.client_id
            else:
                group.members.pop(key.member_id, None)
            group.history.append(f"{position}: member {key.member_id} {'gone' if value is None else 'known'}")
        elif isinstance(key, ConsumerGroupCurrentMemberAssignmentKey):
            group = self.state(key.group_id)
            current = value if isinstance(value, ConsumerGroupCurrentMemberAssignmentValue) else None
            self._current(group, key.member_id, current, position, written)
        else:
            return
        group.changed_at = time.monotonic()

    def _generation(self, group: GroupState, generation: int, position: int) -> None:
        if generation < group.generation:
            group.problems.append(f"generations-rise: {generation} at {position} after {group.generation}")
        if generation != group.generation:
            group.history.append(f"{position}: generation {generation}")
        group.generation = generation

    def _classic(self, group: GroupState, value: GroupMetadataValue | None, position: int) -> None:
        if value is None:
            group.history.append(f"{position}: the group is gone")
            group.members = {}
            return
        self._generation(group, value.generation, position)
        members: dict[str, MemberState] = {}
        for each in value.members:
            held = frozenset(
                (topic.topic, number) for topic in read_assignment(each.assignment).assigned_partitions for number in topic.partitions
            )
            members[each.member_id] = MemberState(value.generation, True, held)
        group.members = members
        group.history.append(f"{position}: generation {value.generation} {_shown(members)}")
        self._exclusive(group, position)
        if members and value.protocol is not None:
            group.completed.add(value.generation)

    def _current(
        self, group: GroupState, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None, position: int, written: float
    ) -> None:
        before = group.members.get(member_id)
        revoking = group.revoking.pop(member_id, None)
        if value is None:
            group.history.append(f"{position}: {member_id} has nothing any more")
            if before is not None:
                if revoking is not None:
                    group.revocations.append(revoking._replace(partitions=before.held))
                group.members[member_id] = MemberState()
            return
        leaving = self._partitions(value.partitions_pending_revocation)
        held = self._partitions(value.assigned_partitions) | leaving
        if leaving:
            revocation = Revocation(group.client_ids.get(member_id, member_id), leaving, written)
            group.revocations.append(revocation)
            group.revoking[member_id] = revoking if revoking is not None and revoking.partitions == leaving else revocation
        since = before.since if before is not None and before.held == held and before.since <= written else written
        group.members[member_id] = MemberState(value.member_epoch, value.state == 0, held, since)
        group.history.append(f"{position}: {member_id} epoch {value.member_epoch} state {value.state} {sorted(held)}")
        self._exclusive(group, position)
        if group.settled:
            group.completed.add(group.generation)

    def _partitions(self, topics: Iterable[ConsumerGroupCurrentMemberAssignmentValue.TopicPartitions]) -> frozenset[Partition]:
        return frozenset((self.topics.get(topic.topic_id, str(topic.topic_id)), number) for topic in topics for number in topic.partitions)

    def _exclusive(self, group: GroupState, position: int) -> None:
        seen: dict[Partition, str] = {}
        for member_id, member in group.members.items():
            for partition in member.held:
                if partition in seen:
                    both = f"{seen[partition]}'s and {member_id}'s"
                    group.problems.append(f"one-owner: {partition} is {both} in generation {group.generation}, in the log at {position}")
                seen[partition] = member_id

    def _commit(self, group: GroupState, partition: Partition, value: OffsetCommitValue, position: int) -> None:
        try:
            # confluent-kafka also sends the NUL at the end of a C string.
            member, number, generation, member_id = value.metadata.rstrip("\0").split("|")
        except ValueError:
            return
        owners = [each for each, state in group.members.items() if partition in state.held]
        group.commits.append(
            Commit(
                position, partition, value.offset, member, int(number), int(generation), member_id,
                group.generation, len(group.members), member_id in group.members, owners[0] if owners else None,
            )
        )  # fmt: skip


def _shown(members: Mapping[str, MemberState]) -> str:
    return ", ".join(f"{member_id} {sorted(member.held)}" for member_id, member in members.items())


def generation_of(consumer: Consumer) -> tuple[int, str]:
    """Return generation or member epoch, and member id, from librdkafka's serialized group metadata: magic, int32, group, member id."""
    data: bytes = consumer.consumer_group_metadata()
    (generation,) = struct.unpack_from("=i", data, 7)
    return generation, data[11:].split(b"\0")[1].decode()
