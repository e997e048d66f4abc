"""Registry of the assignors, by the names that members of a group agree on (partition.assignment.strategy)."""

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
    """User data of the sticky assignor: the member's last assignment and its generation."""

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
    """Assignor of Kafka. With `cooperative` members keep their partitions in a rebalance, and give up only those that move."""

    name: str
    java_class: str
    assign: Callable[[Topics, Members], Assignment]
    cooperative: bool = False
    user_data: Callable[[Sequence[TopicPartition], int], bytes | None] = _no_user_data
    """Function that returns the member's user data, given its last partitions and their generation."""
    held: Callable[[Subscription], tuple[Sequence[TopicPartition], int]] = _held_as_said
    """Function that returns the member's last partitions and their generation from its subscription."""

    def members(self, said: Mapping[str, Subscription], instance_ids: Mapping[str, str | None]) -> Members:
        """Return the members in the form that `assign` takes."""
        members: dict[str, Member] = {}
        for member_id, subscription in said.items():
            owned, generation = self.held(subscription)
            members[member_id] = Member(subscription.topics, owned, generation, instance_ids.get(member_id), subscription.rack)
        return members


def _assign_sticky(topics: Topics, members: Members) -> Assignment:
    return sticky.assign(topics, members).assignment


def _assign_cooperative(topics: Topics, members: Members) -> Assignment:
    """Assign as sticky does, without the partitions that their owners have yet to give up: the next rebalance assigns those (KIP-429)."""
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
    """Return the member's last partitions from its user data: eager members give up all partitions before they join.

    Unreadable user data count as no partitions.
    """
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
    """Return the member's partitions and generation. Members before version 2 of the protocol put the generation into the user data."""
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
"""Assignors by name. Configuration may also use the names of Java's classes."""
