"""Tests that the checks of the campaign on mixed quorums report violations."""

from __future__ import annotations

from interop.cluster import DumpedLog
from tests.campaigns.mixed_quorum import KNOWN, WOKEN, acked_is_there, complaints, one_leader, prefix_equal

STOPPING = (
    "java.lang.NullPointerException: Cannot invoke "
    '"org.apache.kafka.network.metrics.RequestMetrics$ErrorMeter.getOrCreateMeter()" because the return value of '
    '"java.util.Map.get(Object)" is null'
)
"""Log output of a JVM node for a request that it answers with an error after it has closed its metrics."""
HEAD = (
    "[data-plane-kafka-request-handler-0] ERROR kafka.server.ControllerApis - [ControllerApis nodeId=2] Unexpected error handling request"
)

MARKER = (
    "[group-coordinator-event-processor-1] ERROR kafka.server.ReplicaManager - [ReplicaManager broker=1] Error processing append operation "
    "on partition e-i70mq7TWKko4WUnDcf0A:__consumer_offsets-0\n"
    "org.apache.kafka.common.errors.TransactionCoordinatorFencedException: Invalid coordinator epoch for producerId 2000 at offset 333 in "
    "partition __consumer_offsets-0: 0 (zombie), 1 (current)\n"
    "[group-coordinator-event-processor-1] ERROR org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime - [GroupCoordinator id=1] "
    "Failed to write the transaction marker to __consumer_offsets-0 due to an unexpected error: Indicates that the transaction coordinator "
    "sending a WriteTxnMarker is no longer the current coordinator for a given producer..\n"
    "org.apache.kafka.common.errors.TransactionCoordinatorFencedException: Indicates that the transaction coordinator sending a "
    "WriteTxnMarker is no longer the current coordinator for a given producer.\n"
)
"""Log output of a JVM node for a marker of a coordinator that was replaced while it was paused."""


def log(*batches: tuple[int, int, int], leaders: dict[int, int] | None = None) -> DumpedLog:
    """Return a log of batches (base offset, epoch, crc) with one record each."""
    records = {base: f'payload: {{"type":"TOPIC_RECORD","version":0,"data":{{"name":"t{base}"}}}}' for base, _, _ in batches}
    return DumpedLog({base: (base, epoch, crc) for base, epoch, crc in batches}, leaders or {}, records)


def test_errors_in_logs_are_complaints_but_for_those_that_are_known() -> None:
    assert complaints("jvm", f"{HEAD}\n{STOPPING}\n\tat somewhere\n") == []
    other = STOPPING.replace("RequestMetrics$ErrorMeter", "QuorumState")
    assert complaints("jvm", f"{HEAD}\n{other}\n") == [f"{HEAD} / {other}"]
    assert complaints("jvm", "[main] WARN kafka - slow\n[main] FATAL kafka - gone\n") == ["[main] FATAL kafka - gone / "]
    assert complaints("odradek", "12:00 INFO server: ready\n12:01 ERROR server: failed\n") == ["12:01 ERROR server: failed / "]
    assert complaints("odradek", "Traceback (most recent call last):\n  File x\n") == ["Traceback (most recent call last): /   File x"]


def test_markers_of_a_deposed_coordinator_are_known_where_brokers_stood_still_and_nowhere_else() -> None:
    assert len(complaints("jvm", MARKER)) == 2
    assert complaints("jvm", MARKER, KNOWN + WOKEN) == []
    other = MARKER.replace("TransactionCoordinatorFencedException", "InvalidProducerEpochException")
    assert len(complaints("jvm", other, KNOWN + WOKEN)) == 2


def test_two_leaders_of_an_epoch_are_seen_in_answers_and_in_logs() -> None:
    logs = {1: log(leaders={3: 1, 4: 2}), 2: log(leaders={3: 1})}
    assert one_leader(logs, {3: {1}, 5: {2}}) == []
    assert one_leader(logs, {4: {1}}) == ["one-leader: epoch 4 has [1, 2]"]
    assert one_leader(logs | {3: log(leaders={3: 3})}, {}) == ["one-leader: epoch 3 has [1, 3]"]


def test_committed_prefixes_that_differ_are_seen() -> None:
    common = [(0, 1, 7), (1, 1, 8)]
    assert prefix_equal({1: log(*common), 2: log(*common, (2, 1, 9))}, 2) == [], "what is not committed may differ"
    for other in ([(0, 1, 7)], [(0, 1, 7), (1, 2, 8)], [(0, 1, 7), (1, 1, 9)]):
        (problem,) = prefix_equal({1: log(*common), 2: log(*other)}, 2)
        assert problem.startswith("prefix-equal: node 2 differs from node 1 at offsets [1]")
    assert "prefix-equal: nothing to compare" in prefix_equal({1: log(), 2: log()}, 2)


def test_acknowledged_topics_that_are_missing_are_seen() -> None:
    assert acked_is_there(log((0, 1, 7), (1, 1, 8)), ["t0", "t1"]) == []
    (problem,) = acked_is_there(log((0, 1, 7)), ["t0", "t1"])
    assert problem.startswith("acked-is-there: 1 of 2 topics")
