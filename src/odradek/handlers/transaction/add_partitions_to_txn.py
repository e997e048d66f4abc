"""AddPartitionsToTxn (API key 24): adds partitions to a producer's transaction, or verifies that they are in it (KIP-98, KIP-890).

From version 4 on brokers send the request, for several transactions at once.
ACL: WRITE on TransactionalId and on each Topic; from version 4 on CLUSTER_ACTION on Cluster. Quota: request time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.handlers.access import ADD_PARTITIONS_AS_BROKER, ADD_PARTITIONS_TOPIC, ADD_PARTITIONS_TRANSACTION
from odradek.handlers.transaction.errors import code_for
from odradek.metadata.topic_names import INTERNAL_TOPICS
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts, Coordinators
    from odradek.metadata.cache import MetadataCache

_FENCED_SINCE = 2
_FROM_BROKERS = 4
_BUMPING = 2
"""transaction.version of senders of version 4 and later."""

Codes = Mapping[TopicPartition, ErrorCode]
Topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult


class _Asked(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    partitions: list[TopicPartition]
    topics: list[Topic]


def handle(
    context: RequestContext, request: AddPartitionsToTxnRequest, broker: BrokerParts
) -> AddPartitionsToTxnResponse | Deferred[AddPartitionsToTxnResponse]:
    version = context.api_version
    denied: frozenset[str] = frozenset()
    if version >= _FROM_BROKERS:
        context.require(ADD_PARTITIONS_AS_BROKER)
    else:
        context.require(ADD_PARTITIONS_TRANSACTION, request.v3_and_below_transactional_id)
        named = [topic.name for topic in request.v3_and_below_topics if topic.name not in INTERNAL_TOPICS]
        denied = context.denied(ADD_PARTITIONS_TOPIC, named)
    asked = _asked(request, version)
    if not asked:
        return AddPartitionsToTxnResponse()
    result: Deferred[AddPartitionsToTxnResponse] = Deferred()
    results: list[list[TopicResult]] = [[] for _ in asked]
    left = len(asked)

    def answered(index: int, codes: Codes | ErrorCode) -> None:
        nonlocal left
        results[index] = _all(asked[index].topics, codes) if isinstance(codes, ErrorCode) else _by_topic(codes)
        left -= 1
        if not left:
            result.complete(_response(version, asked, results))

    metadata, coordinators = context.services.metadata, broker.coordinators
    for index, transaction in enumerate(asked):
        decided = decide(metadata, coordinators, version, *transaction[:-1], denied)
        decided.add_callback(lambda done, index=index: answered(index, done.result()))  # type: ignore[misc]
    return result


def _asked(request: AddPartitionsToTxnRequest, version: int) -> list[_Asked]:
    if version < _FROM_BROKERS:
        topics = request.v3_and_below_topics
        return [
            _Asked(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                False,
                _flat(topics),
                topics,
            )
        ]
    return [
        _Asked(each.transactional_id, each.producer_id, each.producer_epoch, each.verify_only, _flat(each.topics), each.topics)
        for each in request.transactions
    ]


def _flat(topics: Iterable[Topic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def decide(
    metadata: MetadataCache,
    coordinators: Coordinators,
    version: int,
    transactional_id: str,
    producer_id: int,
    producer_epoch: int,
    verify_only: bool,
    partitions: Sequence[TopicPartition],
    denied: frozenset[str] = frozenset(),
) -> Deferred[Codes | ErrorCode]:
    """Return an error code for each partition of one transaction, or one code for all, as `version` knows it. The Deferred never fails.

    `denied` has the topics to which the producer may not write.
    """
    refused = _refused(metadata, version, partitions, denied)
    if refused:
        # One refused partition fails all: the others are not attempted.
        return Deferred.of({partition: refused.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED) for partition in partitions})
    coordinator = coordinators.transactions
    if verify_only:
        try:
            return Deferred.of(coordinator.verify(transactional_id, producer_id, producer_epoch, partitions))
        except KafkaError as error:
            return Deferred.of(dict.fromkeys(partitions, error.code))
    client_version = _BUMPING if version >= _FROM_BROKERS else 0
    added = coordinator.add_partitions(transactional_id, producer_id, producer_epoch, partitions, client_version)
    return added.then(lambda _: ErrorCode.NONE, lambda error: code_for(error, version, _FENCED_SINCE))


def _refused(
    metadata: MetadataCache, version: int, partitions: Iterable[TopicPartition], denied: frozenset[str]
) -> dict[TopicPartition, ErrorCode]:
    """Return the errors of refused partitions: unknown ones and, for producers, those of internal and of denied topics."""
    topics = metadata.image.topics
    refused: dict[TopicPartition, ErrorCode] = {}
    for partition in partitions:
        if version < _FROM_BROKERS and (partition.topic in INTERNAL_TOPICS or partition.topic in denied):
            refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topics.partition(partition.topic, partition.partition) is None:
            refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return refused


def _response(version: int, asked: Sequence[_Asked], results: Sequence[list[TopicResult]]) -> AddPartitionsToTxnResponse:
    if version < _FROM_BROKERS:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results[0])
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResponse.AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=topics)
            for each, topics in zip(asked, results, strict=True)
        ]
    )


def _by_topic(codes: Codes) -> list[TopicResult]:
    topics: dict[str, list[PartitionResult]] = {}
    for (topic, partition), code in codes.items():
        topics.setdefault(topic, []).append(PartitionResult(partition_index=partition, partition_error_code=code))
    return [TopicResult(name=name, results_by_partition=partitions) for name, partitions in topics.items()]


def _all(topics: Iterable[Topic], code: ErrorCode) -> list[TopicResult]:
    """Return results with the same code for all partitions."""
    return [
        TopicResult(
            name=topic.name,
            results_by_partition=[PartitionResult(partition_index=number, partition_error_code=code) for number in topic.partitions],
        )
        for topic in topics
    ]


def error_response(request: AddPartitionsToTxnRequest, error: KafkaError) -> AddPartitionsToTxnResponse:
    """Return the error for every partition (up to version 3) and at the top level (later versions)."""
    topics = _all(request.v3_and_below_topics, error.code)
    return AddPartitionsToTxnResponse(error_code=error.code, results_by_topic_v3_and_below=topics)
