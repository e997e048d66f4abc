"""The assignors by the names that members of a group agree on (partition.assignment.strategy)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.base.errors import ProtocolError
from odradek.base.ids import TopicPartition
from odradek.client.assignors import ranges, round_robin, sticky
from odradek.client.assignors.protocol import Subscription
from odradek.client.assignors.spec import UNKNOWN_GENERATION, Assignment, Member, Members, Topics
from odradek.protocol.schema import Array, Int32, Message, String, Struct, Versions, field

_GENERATION: Final = struct.Struct(">i")


class _StickyUserData(Message):
    """What a member of the sticky assignor held last, and since when."""

    VALID_VERSIONS = Versions(0, 1)

    previous_assignment: list[TopicPartitions] = field(Array("TopicPartitions"), "0+")
    generation: int = field(Int32, "1+", default=UNKNOWN_GENERATION)

    class TopicPartitions(Struct):
        topic: str = field(String, "0+")
        partitions: list[int] = field(Array(Int32), "0+")


def _no_user_data(_: Sequence[TopicPartition], __: int) -> bytes | None:
    return None


def _held_as_said(said: Subscription) -> tuple[Sequence[TopicPartition], int]:
    return said.owned, said.generation


class Assignor(NamedTuple):
    """One of Kafka's. `cooperative`: members keep what they hold during a rebalance, and give up only what somebody else is to get."""

    name: str
    java_class: str
    assign: Callable[[Topics, Members], Assignment]
    cooperative: bool = False
    user_data: Callable[[Sequence[TopicPartition], int], bytes | None] = _no_user_data
    """What a member sends along, given what it held last and in which generation."""
    held: Callable[[Subscription], tuple[Sequence[TopicPartition], int]] = _held_as_said
    """What a member held last, and in which generation, by what it says."""

    def members(self, said: Mapping[str, Subscription], instance_ids: Mapping[str, str | None]) -> Members:
        """What `assign` needs of what the members say."""
        members: dict[str, Member] = {}
        for member_id, subscription in said.items():
            owned, generation = self.held(subscription)
            members[member_id] = Member(subscription.topics, owned, generation, instance_ids.get(member_id), subscription.rack)
        return members


def _assign_sticky(topics: Topics, members: Members) -> Assignment:
    return sticky.assign(topics, members).assignment


def _assign_cooperative(topics: Topics, members: Members) -> Assignment:
    """As sticky; but nobody gets what another has not given up yet: that follows with the next rebalance (KIP-429)."""
    assignment, moved = sticky.assign(topics, members)
    for partition, member_id in moved.items():
        assignment[member_id].remove(partition)
    return assignment


def _sticky_user_data(owned: Sequence[TopicPartition], generation: int) -> bytes | None:
    if not owned:
        return None
    topics: dict[str, list[int]] = {}
    for topic, partition in owned:
        topics.setdefault(topic, []).append(partition)
    previous = [_StickyUserData.TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in topics.items()]
    return _StickyUserData(previous_assignment=previous, generation=generation).encode(1)


def _cooperative_user_data(_: Sequence[TopicPartition], generation: int) -> bytes | None:
    return _GENERATION.pack(generation)


def _held_by_user_data(said: Subscription) -> tuple[Sequence[TopicPartition], int]:
    """By the assignor's own data: members have given up everything before they join. What cannot be read is nothing."""
    if not said.user_data:
        return (), UNKNOWN_GENERATION
    for version in (1, 0):
        try:
            data, end = _StickyUserData.decode_prefix(said.user_data, version)
        except ProtocolError:
            continue
        if end == len(said.user_data):
            return [TopicPartition(each.topic, number) for each in data.previous_assignment for number in each.partitions], data.generation
    return (), UNKNOWN_GENERATION


def _held_by_generation(said: Subscription) -> tuple[Sequence[TopicPartition], int]:
    """Members of before version 2 of the protocol tell the generation in the assignor's data."""
    if said.generation == UNKNOWN_GENERATION and said.user_data is not None and len(said.user_data) >= _GENERATION.size:
        return said.owned, _GENERATION.unpack_from(said.user_data)[0]
    return said.owned, said.generation


_PACKAGE = "org.apache.kafka.clients.consumer."

ASSIGNORS: Final[Mapping[str, Assignor]] = {
    assignor.name: assignor
    for assignor in (
        Assignor("range", _PACKAGE + "RangeAssignor", ranges.assign),
        Assignor("roundrobin", _PACKAGE + "RoundRobinAssignor", round_robin.assign),
        Assignor("sticky", _PACKAGE + "StickyAssignor", _assign_sticky, user_data=_sticky_user_data, held=_held_by_user_data),
        Assignor(
            "cooperative-sticky",
            _PACKAGE + "CooperativeStickyAssignor",
            _assign_cooperative,
            cooperative=True,
            user_data=_cooperative_user_data,
            held=_held_by_generation,
        ),
    )
}
"""By name; configuration may also give the class that Java calls it by."""
