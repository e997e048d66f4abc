"""AddPartitionsToTxn (API key 24): partitions join a producer's transaction, or are looked for in it (KIP-98, KIP-890).

Versions: 0-5; from 4 on it comes from brokers, in batches. ACL: WRITE on TransactionalId and on each Topic; CLUSTER_ACTION on Cluster
from version 4 on.
Quota: request time.
Known gaps: ACLs and quotas are not enforced yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.handlers.registration import BROKER, handler
from odradek.handlers.transaction.errors import code_for
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from odradek.server.context import RequestContext
    from odradek.server.services import Services

_FENCED_SINCE = 2
_FROM_BROKERS = 4
_BUMPING = 2
"""Whoever sends version 4 and later goes by transaction.version 2."""

TopicResult = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
Codes = Mapping[TopicPartition, ErrorCode]


class _Asked(NamedTuple):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    partitions: list[TopicPartition]


@handler(ApiKey.ADD_PARTITIONS_TO_TXN, versions=(0, 5), listeners=(BROKER,))
def handle(
    context: RequestContext, request: AddPartitionsToTxnRequest, services: Services
) -> AddPartitionsToTxnResponse | Deferred[AddPartitionsToTxnResponse]:
    version = context.api_version
    asked = _asked(request, version)
    if not asked:
        return AddPartitionsToTxnResponse()
    result: Deferred[AddPartitionsToTxnResponse] = Deferred()
    outcomes: list[Codes | None] = [None] * len(asked)
    left = len(asked)

    def answered(index: int, codes: Codes) -> None:
        nonlocal left
        outcomes[index] = codes
        left -= 1
        if not left:
            result.complete(_response(version, asked, [codes or {} for codes in outcomes]))

    for index, transaction in enumerate(asked):
        _ask(services, version, transaction).add_callback(lambda done, index=index: answered(index, done.result()))  # type: ignore[misc]
    return result


def _asked(request: AddPartitionsToTxnRequest, version: int) -> list[_Asked]:
    if version < _FROM_BROKERS:
        partitions = _flat(request.v3_and_below_topics)
        return [
            _Asked(
                request.v3_and_below_transactional_id,
                request.v3_and_below_producer_id,
                request.v3_and_below_producer_epoch,
                False,
                partitions,
            )
        ]
    return [
        _Asked(each.transactional_id, each.producer_id, each.producer_epoch, each.verify_only, _flat(each.topics))
        for each in request.transactions
    ]


def _flat(topics: Iterable[AddPartitionsToTxnRequest.AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in topic.partitions]


def _ask(services: Services, version: int, asked: _Asked) -> Deferred[Codes]:
    """A code for every partition; never fails."""
    topics = services.metadata.image.topics
    missing = {partition for partition in asked.partitions if topics.partition(partition.topic, partition.partition) is None}
    if missing:
        # One partition that does not exist fails them all; the others were not even tried.
        return Deferred.of(
            {
                partition: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition in missing else ErrorCode.OPERATION_NOT_ATTEMPTED
                for partition in asked.partitions
            }
        )
    coordinator = services.transactions
    if asked.verify_only:
        try:
            found = coordinator.verify(asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.partitions)
        except KafkaError as error:
            return Deferred.of(dict.fromkeys(asked.partitions, error.code))
        return Deferred.of(found)
    result: Deferred[Codes] = Deferred()

    def added(done: Deferred[None]) -> None:
        code = ErrorCode.NONE if done.error is None else code_for(done.error, version, _FENCED_SINCE)
        result.complete(dict.fromkeys(asked.partitions, code))

    client_version = _BUMPING if version >= _FROM_BROKERS else 0
    coordinator.add_partitions(
        asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.partitions, client_version
    ).add_callback(added)
    return result


def _response(version: int, asked: Sequence[_Asked], outcomes: Sequence[Codes]) -> AddPartitionsToTxnResponse:
    if version < _FROM_BROKERS:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_by_topic(outcomes[0]))
    return AddPartitionsToTxnResponse(
        results_by_transaction=[
            AddPartitionsToTxnResponse.AddPartitionsToTxnResult(transactional_id=each.transactional_id, topic_results=_by_topic(codes))
            for each, codes in zip(asked, outcomes, strict=True)
        ]
    )


def _by_topic(codes: Codes) -> list[TopicResult]:
    topics: dict[str, list[PartitionResult]] = {}
    for (topic, partition), code in codes.items():
        topics.setdefault(topic, []).append(PartitionResult(partition_index=partition, partition_error_code=code))
    return [TopicResult(name=name, results_by_partition=partitions) for name, partitions in topics.items()]


def error_response(request: AddPartitionsToTxnRequest, error: KafkaError) -> AddPartitionsToTxnResponse:
    """The error for every partition, in the shape of the version: in the lists where they are, and on top."""
    codes = dict.fromkeys(_flat(request.v3_and_below_topics), error.code)
    return AddPartitionsToTxnResponse(error_code=error.code, results_by_topic_v3_and_below=_by_topic(codes))
