"""Requests to the controller about leaders, reassignments and brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from interop.differential.case import Case
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.elect_leaders import ElectLeadersRequest
from odradek.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from odradek.protocol.messages.unregister_broker import UnregisterBrokerRequest


def elect_leaders(version: int) -> Iterator[Case]:
    partitions_of = ElectLeadersRequest.TopicPartitions

    def case(name: str, wanted: dict[str, list[int]] | None, kind: int = 0) -> Case:
        topics = None if wanted is None else [partitions_of(topic=topic, partitions=numbers) for topic, numbers in wanted.items()]
        options: dict[str, Any] = {"election_type": kind} if version >= 1 else {}
        request = ElectLeadersRequest(topic_partitions=topics, timeout_ms=10_000, **options)
        return Case(ApiKey.ELECT_LEADERS, version, name, lambda _: request)

    for kind in (0, 1) if version >= 1 else (0,):
        yield case(f"type {kind}, not needed", {"plain": [0]}, kind)
        yield case(f"type {kind}, several", {"three": [2, 0, 1], "plain": [0]}, kind)
        yield case(f"type {kind}, all", None, kind)
        yield case(f"type {kind}, unknown topic", {"unknown": [0]}, kind)
        yield case(f"type {kind}, unknown partition", {"plain": [7, -1]}, kind)
        yield case(f"type {kind}, known and unknown", {"plain": [0, 9], "unknown": [0]}, kind)
        yield case(f"type {kind}, unusable name", {"with space": [0]}, kind)
        yield case(f"type {kind}, no partitions", {"plain": []}, kind)
        yield case(f"type {kind}, nothing", {}, kind)
        yield case(f"type {kind}, twice", {"plain": [0, 0]}, kind)
    if version >= 1:
        for kind in (2, -1, 127):
            yield case(f"unknown type {kind}", {"plain": [0]}, kind)
            yield case(f"unknown type {kind}, all", None, kind)


def list_partition_reassignments(version: int) -> Iterator[Case]:
    """A single broker moves no replicas, so every answer is empty; compared is what it leaves out and what it answers with an error."""
    topics_of = ListPartitionReassignmentsRequest.ListPartitionReassignmentsTopics

    def case(name: str, wanted: list[tuple[str, list[int]]] | None, timeout_ms: int = 10_000) -> Case:
        topics = None if wanted is None else [topics_of(name=topic, partition_indexes=numbers) for topic, numbers in wanted]
        request = ListPartitionReassignmentsRequest(topics=topics, timeout_ms=timeout_ms)
        return Case(ApiKey.LIST_PARTITION_REASSIGNMENTS, version, name, lambda _: request)

    yield case("all", None)
    yield case("nothing", [])
    yield case("several", [("three", [2, 0, 1]), ("plain", [0])])
    yield case("unknown topic", [("unknown", [0])])
    yield case("unknown partition", [("plain", [7, -1, 2**31 - 1])])
    yield case("known and unknown", [("plain", [0, 9]), ("unknown", [0])])
    yield case("unusable names", [("with space", [0]), ("", [0]), ("x" * 300, [0])])
    yield case("metadata log", [("__cluster_metadata", [0])])
    yield case("no partitions", [("plain", [])])
    yield case("twice", [("plain", [0, 0]), ("plain", [0])])
    for timeout_ms in (0, -1, -(2**31)):
        yield case(f"timeout {timeout_ms}", None, timeout_ms)


def unregister_broker(version: int) -> Iterator[Case]:
    for broker_id in (7, -1, 2**31 - 1):
        request = UnregisterBrokerRequest(broker_id=broker_id)
        yield Case(ApiKey.UNREGISTER_BROKER, version, f"broker {broker_id}", lambda _, r=request: r)


ADMINISTRATION_CASES: dict[ApiKey, Callable[[int], Iterator[Case]]] = {
    ApiKey.ELECT_LEADERS: elect_leaders,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: list_partition_reassignments,
    ApiKey.UNREGISTER_BROKER: unregister_broker,
}
