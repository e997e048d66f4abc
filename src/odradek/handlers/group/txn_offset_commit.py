"""TxnOffsetCommit (28): offsets of a group that become visible when the producer's transaction commits.

ACL: WRITE on the transactional id, READ on the group and on each topic. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.group.service import txn_commit_error
from odradek.handlers.access import TXN_OFFSETS_GROUP, TXN_OFFSETS_TOPIC, TXN_OFFSETS_TRANSACTION
from odradek.handlers.group.caller import caller_of
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.services import BrokerParts

RequestTopic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
ResponseTopic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
ResponsePartition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition

_LOADING_SINCE = 2
"""First version whose producers know COORDINATOR_LOAD_IN_PROGRESS here."""


def handle(
    context: RequestContext, request: TxnOffsetCommitRequest, broker: BrokerParts
) -> Deferred[TxnOffsetCommitResponse] | TxnOffsetCommitResponse:
    context.require(TXN_OFFSETS_TRANSACTION, request.transactional_id)
    context.require(TXN_OFFSETS_GROUP, request.group_id)
    denied = context.denied(TXN_OFFSETS_TOPIC, [topic.name for topic in request.topics])
    topics = context.services.metadata.image.topics
    refused: list[ResponseTopic] = []
    valid: list[RequestTopic] = []
    for topic in request.topics:
        if topic.name in denied:
            refused.append(_refusal(topic.name, [each.partition_index for each in topic.partitions], TXN_OFFSETS_TOPIC.error))
            continue
        found = topics.by_name.get(topic.name)
        present = [] if found is None else [each for each in topic.partitions if each.partition_index in found.partitions]
        missing = [each.partition_index for each in topic.partitions if each not in present]
        if missing:
            refused.append(_refusal(topic.name, missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        if present:
            valid.append(RequestTopic(name=topic.name, partitions=present))
    if not valid:
        return TxnOffsetCommitResponse(topics=refused)
    request.topics = valid
    committed = broker.groups.commit_transactional_offsets(caller_of(context), request)
    return committed.then(lambda response: TxnOffsetCommitResponse(topics=_merged(refused, response.topics, context.api_version)))


def error_response(request: TxnOffsetCommitRequest, error: KafkaError) -> TxnOffsetCommitResponse:
    """Return a response with `error` for every partition."""
    return txn_commit_error(request, error.code)


def _refusal(name: str, partitions: list[int], code: ErrorCode) -> ResponseTopic:
    return ResponseTopic(name=name, partitions=[ResponsePartition(partition_index=each, error_code=code) for each in partitions])


def _merged(refused: list[ResponseTopic], committed: list[ResponseTopic], version: int) -> list[ResponseTopic]:
    topics = {topic.name: topic for topic in refused}
    for topic in committed:
        if version < _LOADING_SINCE:
            for partition in topic.partitions:
                if partition.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    partition.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        known = topics.setdefault(topic.name, topic)
        if known is not topic:
            known.partitions += topic.partitions
    return list(topics.values())
