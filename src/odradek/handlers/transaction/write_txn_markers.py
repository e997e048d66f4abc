"""WriteTxnMarkers (API key 27): a transaction coordinator ends transactions in partitions that this broker leads (KIP-98).

ACL: ALTER or CLUSTER_ACTION on Cluster. Quota: none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.config.keys.network import REQUEST_TIMEOUT_MS
from odradek.coordinator.markers import marker_batch
from odradek.handlers.access import WRITE_MARKERS_AS_ADMIN, WRITE_MARKERS_AS_BROKER
from odradek.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
from odradek.replication.appender import GROUP_METADATA_TOPIC
from odradek.storage.append import AppendOrigin

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts, Coordinators
    from odradek.replication.delayed_produce import Appends
    from odradek.replication.replica_manager import ReplicaManager


class Ending(NamedTuple):
    """End of a producer's transaction. `version` is the transaction.version, 0 for a coordinator that does not send it."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    version: int


Codes = Mapping[TopicPartition, ErrorCode]

_NOT_READY = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR})
"""Errors of a group coordinator that are answered as NOT_LEADER_OR_FOLLOWER, which transaction coordinators understand."""


def handle(
    context: RequestContext, request: WriteTxnMarkersRequest, broker: BrokerParts
) -> WriteTxnMarkersResponse | Deferred[WriteTxnMarkersResponse]:
    if not context.allows(WRITE_MARKERS_AS_ADMIN):
        context.require(WRITE_MARKERS_AS_BROKER)
    result: Deferred[WriteTxnMarkersResponse] = Deferred()
    codes: list[dict[TopicPartition, ErrorCode]] = [{} for _ in request.markers]
    left = 1

    def note(index: int, found: Codes) -> None:
        nonlocal left
        codes[index].update(found)
        finish()

    def finish() -> None:
        nonlocal left
        left -= 1
        if not left:
            result.complete(_response(request, codes))

    for index, marker in enumerate(request.markers):
        named = [TopicPartition(topic.name, number) for topic in marker.topics for number in topic.partition_indexes]
        ending = Ending(
            marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.transaction_result, marker.transaction_version
        )
        for written in write(broker.replica_manager, broker.coordinators, ending, named):
            left += 1
            written.add_callback(lambda done, index=index: note(index, done.result()))  # type: ignore[misc]
    finish()
    return result


def write(
    manager: ReplicaManager, coordinators: Coordinators, ending: Ending, partitions: Iterable[TopicPartition]
) -> list[Deferred[Codes]]:
    """Append one marker to partitions that this broker leads. The Deferreds give an error code for each partition, and never fail."""
    if ending.producer_id < 0 or ending.producer_epoch < 0 or ending.version < 0:
        return [Deferred.of(dict.fromkeys(partitions, ErrorCode.INVALID_REQUEST))]
    offsets: list[TopicPartition] = []
    data: list[TopicPartition] = []
    unknown: dict[TopicPartition, ErrorCode] = {}
    hosted = manager.partitions.by_name
    for partition in partitions:
        if partition not in hosted:
            unknown[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        else:
            (offsets if partition.topic == GROUP_METADATA_TOPIC else data).append(partition)
    written = [_end_in_group(coordinators, ending, partition) for partition in offsets]
    if data:
        written.append(_append(manager, ending, data))
    if unknown:
        written.append(Deferred.of(unknown))
    return written


def _append(manager: ReplicaManager, ending: Ending, partitions: list[TopicPartition]) -> Deferred[Codes]:
    batch = memoryview(
        marker_batch(
            ending.producer_id,
            ending.producer_epoch,
            ending.coordinator_epoch,
            committed=ending.committed,
            now_ms=manager.clock.time_ms(),
        )
    )

    def codes(appends: Appends) -> Codes:
        return {append.topic_partition: append.error for append in appends}

    answer = manager.appender.append(
        [(partition, batch) for partition in partitions],
        required_acks=-1,
        timeout_ms=manager.config[REQUEST_TIMEOUT_MS],
        origin=AppendOrigin.COORDINATOR,
        internal_topics_allowed=True,
        transaction_version=ending.version,
    )
    return answer.then(codes) if isinstance(answer, Deferred) else Deferred.of(codes(answer))


def _end_in_group(coordinators: Coordinators, ending: Ending, partition: TopicPartition) -> Deferred[Codes]:
    """Write the marker through the coordinator of the offsets partition, which then commits or drops the pending offsets."""

    def failed(error: BaseException) -> Codes:
        code = error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR
        return {partition: ErrorCode.NOT_LEADER_OR_FOLLOWER if code in _NOT_READY else code}

    ended = coordinators.groups.runtime.end_transaction(
        partition,
        ending.producer_id,
        ending.producer_epoch,
        ending.coordinator_epoch,
        committed=ending.committed,
        version=ending.version,
    )
    return ended.then(lambda _: {partition: ErrorCode.NONE}, failed)


def _response(request: WriteTxnMarkersRequest, codes: list[dict[TopicPartition, ErrorCode]]) -> WriteTxnMarkersResponse:
    """Return the results by producer. A marker without partitions is left out; markers of the same producer are merged."""
    by_producer: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for marker, found in zip(request.markers, codes, strict=True):
        for (topic, partition), code in found.items():
            by_producer.setdefault(marker.producer_id, {}).setdefault(topic, {})[partition] = code
    return WriteTxnMarkersResponse(
        markers=[
            WriteTxnMarkersResponse.WritableTxnMarkerResult(
                producer_id=producer_id,
                topics=[
                    WriteTxnMarkersResponse.WritableTxnMarkerTopicResult(
                        name=topic,
                        partitions=[
                            WriteTxnMarkersResponse.WritableTxnMarkerPartitionResult(partition_index=number, error_code=code)
                            for number, code in partitions.items()
                        ],
                    )
                    for topic, partitions in topics.items()
                ],
            )
            for producer_id, topics in by_producer.items()
        ]
    )


def error_response(request: WriteTxnMarkersRequest, error: KafkaError) -> WriteTxnMarkersResponse:
    """Return a response with the error for every partition of every marker."""
    codes = [
        dict.fromkeys((TopicPartition(topic.name, number) for topic in marker.topics for number in topic.partition_indexes), error.code)
        for marker in request.markers
    ]
    return _response(request, codes)
