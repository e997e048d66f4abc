"""DescribeProducers (API key 61): producers that a replica, leader or follower, knows (KIP-664).

kafka-transactions find-hanging asks each broker for all of its replicas.

ACL: READ on Topic. Quota: request time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.base.repeats import Repeats
from odradek.handlers.access import DESCRIBE_PRODUCERS
from odradek.metadata.topic_names import topic_name_error
from odradek.protocol.messages.describe_producers import DescribeProducersRequest, DescribeProducersResponse

if TYPE_CHECKING:
    from odradek.handlers.context import RequestContext
    from odradek.handlers.entries import Entries
    from odradek.handlers.services import BrokerParts
    from odradek.storage.producer_state import ProducerEntry

Partition = DescribeProducersResponse.PartitionResponse
Producer = DescribeProducersResponse.ProducerState

_DENIED = "Topic authorization failed."


def handle(context: RequestContext, request: DescribeProducersRequest, broker: BrokerParts) -> Entries[DescribeProducersResponse]:
    repeats = Repeats()
    for topic in request.topics:
        asked = [index for index in topic.partition_indexes if repeats.answered((topic.name, index))]
        if not asked and topic.partition_indexes:
            continue
        # Build each partition in a separate loop iteration, since a partition may have a hundred thousand producers.
        partitions: list[Partition] = []
        for index in asked:
            partitions += _partitions(context, broker, topic.name, [index])
            yield None
        yield DescribeProducersResponse.TopicResponse(name=topic.name, partitions=partitions)
    return DescribeProducersResponse()


def _partitions(context: RequestContext, broker: BrokerParts, topic: str, indexes: list[int]) -> list[Partition]:
    code, why = ErrorCode.INVALID_TOPIC_EXCEPTION, topic_name_error(topic)
    if why is None and not context.allows(DESCRIBE_PRODUCERS, topic):
        return [Partition(partition_index=index, error_code=DESCRIBE_PRODUCERS.error, error_message=_DENIED) for index in indexes]
    if why is None and topic not in context.services.metadata.image.topics.by_name:
        code, why = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"the topic {topic!r} does not exist"
    if why is not None:
        return [Partition(partition_index=index, error_code=code, error_message=why) for index in indexes]
    return [_partition(broker, TopicPartition(topic, index)) for index in indexes]


def _partition(broker: BrokerParts, topic_partition: TopicPartition) -> Partition:
    try:
        log = broker.replica_manager.partition(topic_partition).local_log(-1, leader_only=False)
    except KafkaError as error:
        return Partition(partition_index=topic_partition.partition, error_code=error.code)
    producers = [_producer(entry) for entry in log.producer_state.producers.values()]
    return Partition(partition_index=topic_partition.partition, active_producers=producers)


def _producer(entry: ProducerEntry) -> Producer:
    return Producer(
        producer_id=entry.producer_id,
        producer_epoch=entry.epoch,
        last_sequence=entry.last_sequence,
        last_timestamp=entry.last_timestamp,
        coordinator_epoch=entry.coordinator_epoch,
        current_txn_start_offset=entry.txn_first_offset,
    )


def error_response(request: DescribeProducersRequest, error: KafkaError) -> DescribeProducersResponse:
    """Return a response with the error for each partition."""
    message = None if error.code is ErrorCode.NONE else error.message
    return DescribeProducersResponse(
        topics=[
            DescribeProducersResponse.TopicResponse(
                name=topic.name,
                partitions=[
                    Partition(partition_index=index, error_code=error.code, error_message=message) for index in topic.partition_indexes
                ],
            )
            for topic in request.topics
        ]
    )
