"""Decisions of `odradek reassign` that need no cluster: proposed replicas, and throttled replicas of moves.

Source: kafka-reassign-partitions.sh and org.apache.kafka.admin.AdminUtils (assignReplicasToBrokers).
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin.types.replicas import PartitionReassignment

Replicas = Mapping[TopicPartition, Sequence[int]]


class Move(NamedTuple):
    """Brokers from which a partition's records are copied, and brokers to which they are copied."""

    sources: frozenset[int]
    destinations: frozenset[int]


def spread(racks: Mapping[int, str | None], partitions: int, copies: int, rng: random.Random) -> list[list[int]]:
    """Return the brokers of each partition of a topic, the preferred leader first: leaders round robin, followers shifted in each round.

    With racks, a partition has a second replica in a rack only when every rack has a replica. Raises KafkaError
    (INVALID_REPLICATION_FACTOR) when there are fewer brokers than copies.
    """
    if copies > len(racks):
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, f"Replication factor: {copies} larger than available brokers: {len(racks)}.")
    names = {rack for rack in racks.values() if rack is not None}
    order = _alternating(racks) if names else sorted(racks)
    start, shift = rng.randrange(len(order)), rng.randrange(len(order))
    found: list[list[int]] = []
    for partition in range(partitions):
        if partition and partition % len(order) == 0:
            shift += 1
        first = (partition + start) % len(order)
        found.append(_replicas(order, racks, first, shift * max(len(names), 1), copies, len(names)))
    return found


def _alternating(racks: Mapping[int, str | None]) -> list[int]:
    """Return the brokers, round robin over the racks, so that neighbours are in different racks as long as several racks have brokers."""
    by_rack: dict[str, list[int]] = defaultdict(list)
    for broker in sorted(racks):
        by_rack[racks[broker] or ""].append(broker)
    order: list[int] = []
    for index in range(max(map(len, by_rack.values()))):
        order += [brokers[index] for _, brokers in sorted(by_rack.items()) if index < len(brokers)]
    return order


def _replicas(order: list[int], racks: Mapping[int, str | None], first: int, shift: int, copies: int, number_of_racks: int) -> list[int]:
    replicas = [order[first]]
    used = {racks[order[first]]}
    step = 0
    while len(replicas) < copies:
        broker = order[(first + 1 + (shift + step) % (len(order) - 1)) % len(order)]
        step += 1
        if broker in replicas or (racks[broker] in used and len(used) < number_of_racks):
            continue
        replicas.append(broker)
        used.add(racks[broker])
    return replicas


def proposal(current: Replicas, racks: Mapping[int, str | None], rng: random.Random) -> dict[TopicPartition, list[int]]:
    """Return new replicas for all partitions of the topics. A topic's partitions get as many replicas as its first partition has."""
    by_topic: dict[str, list[TopicPartition]] = defaultdict(list)
    for partition in sorted(current):
        by_topic[partition.topic].append(partition)
    found: dict[TopicPartition, list[int]] = {}
    for partitions in by_topic.values():
        found |= zip(partitions, spread(racks, len(partitions), len(current[partitions[0]]), rng), strict=True)
    return found


def moves(under_way: Mapping[TopicPartition, PartitionReassignment], wanted: Replicas, current: Replicas) -> dict[TopicPartition, Move]:
    """Return all moves when `wanted` is added to the moves under way. A partition that moves already keeps its sources."""
    found: dict[TopicPartition, Move] = {}
    for partition, each in under_way.items():
        found[partition] = Move(frozenset(each.replicas) - frozenset(each.adding_replicas), frozenset(each.adding_replicas))
    for partition, brokers in wanted.items():
        sources = found[partition].sources if partition in found else frozenset(current[partition])
        found[partition] = Move(sources, frozenset(brokers) - sources)
    return found


def throttled_replicas(moving: Mapping[TopicPartition, Move]) -> dict[str, tuple[str, str]]:
    """Return leader.replication.throttled.replicas and follower.replication.throttled.replicas by topic."""
    leaders: dict[str, set[str]] = defaultdict(set)
    followers: dict[str, set[str]] = defaultdict(set)
    for partition, move in moving.items():
        leaders[partition.topic] |= {f"{partition.partition}:{broker}" for broker in move.sources}
        followers[partition.topic] |= {f"{partition.partition}:{broker}" for broker in move.destinations}
    return {topic: (_listed(leaders[topic]), _listed(followers[topic])) for topic in sorted(leaders)}


def _listed(words: Iterable[str]) -> str:
    return ",".join(sorted(words))


def brokers_of(moving: Mapping[TopicPartition, Move]) -> list[int]:
    """Return all brokers that are sources or destinations of moves."""
    return sorted({broker for move in moving.values() for broker in move.sources | move.destinations})
