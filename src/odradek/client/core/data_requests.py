"""Produce, Fetch, ListOffsets and OffsetForLeaderEpoch: requests built from decisions, responses translated for the cores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.base.ids import ZERO_UUID, TopicPartition
from odradek.client.core.accumulator import Batch
from odradek.client.core.fetch_session import SessionRequest
from odradek.client.core.fetcher import FetchedPartition
from odradek.client.core.metadata import ClusterView
from odradek.client.core.sender import BatchAnswer
from odradek.client.core.validation import EpochEnd, ValidationTarget
from odradek.protocol.messages.fetch import FetchRequest, FetchResponse
from odradek.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from odradek.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from odradek.protocol.messages.produce import ProduceRequest, ProduceResponse
from odradek.protocol.schema import records_view

LAST_PRODUCE_BY_NAME = 12
LAST_FETCH_BY_NAME = 12
"""Last versions of Produce and Fetch that name topics; later versions use topic ids only (KIP-516)."""
FIRST_EPOCH_ENDS = 3
"""First version of OffsetForLeaderEpoch that consumers may send (KIP-320); earlier versions need the rights of a broker."""

LAST_PRODUCE_OF_ADDED_PARTITIONS = 11
"""Last version of Produce that needs AddPartitionsToTxn; in later versions the leader adds partitions to the transaction (KIP-890)."""

_NO_ANSWER = BatchAnswer(ErrorCode.UNKNOWN_SERVER_ERROR, message="the broker's response does not contain this partition")


def topic_ids(view: ClusterView, topics: Iterable[str]) -> dict[str, UUID] | None:
    """Return the ids of the topics; None when a topic has no id, so that the request has to name topics."""
    ids: dict[str, UUID] = {}
    for name in topics:
        info = view.topics.get(name)
        if info is None or info.topic_id == ZERO_UUID:
            return None
        ids[name] = info.topic_id
    return ids


# -- Produce ----------------------------------------------------------------------------------------------------------------------------


def produce_request(
    batches: Sequence[Batch], acks: int, timeout_ms: int, ids: Mapping[str, UUID] | None, transactional_id: str | None = None
) -> ProduceRequest:
    """Build a request for batches of distinct partitions, without copying their payloads."""
    by_topic: defaultdict[str, list[ProduceRequest.PartitionProduceData]] = defaultdict(list)
    for batch in batches:
        topic, partition = batch.topic_partition
        by_topic[topic].append(ProduceRequest.PartitionProduceData(index=partition, records=batch.payload))
    data = [
        ProduceRequest.TopicProduceData(name=topic, topic_id=ids[topic] if ids else ZERO_UUID, partition_data=partitions)
        for topic, partitions in by_topic.items()
    ]
    return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=data)


def produce_answers(batches: Sequence[Batch], response: ProduceResponse, ids: Mapping[str, UUID] | None) -> list[BatchAnswer]:
    """Return the answer for each batch, in order; UNKNOWN_SERVER_ERROR for a partition that the response leaves out."""
    names = {topic_id: name for name, topic_id in ids.items()} if ids else {}
    answers: dict[TopicPartition, BatchAnswer] = {}
    for topic in response.responses:
        name = topic.name or names.get(topic.topic_id, "")
        for answered in topic.partition_responses:
            errors = {entry.batch_index: entry.batch_index_error_message for entry in answered.record_errors}
            answers[TopicPartition(name, answered.index)] = BatchAnswer(
                code_of(answered.error_code), answered.base_offset, answered.log_append_time_ms, answered.error_message, errors or None
            )
    return [answers.get(batch.topic_partition, _NO_ANSWER) for batch in batches]


# -- Fetch ------------------------------------------------------------------------------------------------------------------------------


class FetchSettings(NamedTuple):
    """Settings of the consumer that go into every Fetch request."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation: int
    rack_id: str


def fetch_request(asked: SessionRequest, settings: FetchSettings, ids: Mapping[str, UUID] | None) -> FetchRequest:
    """Build the Fetch request of a session, in the order of its targets."""
    by_topic: defaultdict[str, list[FetchRequest.FetchPartition]] = defaultdict(list)
    for target in asked.named:
        topic, partition = target.topic_partition
        by_topic[topic].append(
            FetchRequest.FetchPartition(
                partition=partition,
                current_leader_epoch=target.leader_epoch,
                fetch_offset=target.offset,
                partition_max_bytes=target.max_bytes,
            )
        )
    topics = [
        FetchRequest.FetchTopic(topic=topic, topic_id=ids[topic] if ids else ZERO_UUID, partitions=partitions)
        for topic, partitions in by_topic.items()
    ]
    forgotten: dict[tuple[str, UUID], FetchRequest.ForgottenTopic] = {}
    for (topic, partition), topic_id in asked.forgotten:
        entry = forgotten.setdefault((topic, topic_id), FetchRequest.ForgottenTopic(topic=topic, topic_id=topic_id))
        entry.partitions.append(partition)
    return FetchRequest(
        max_wait_ms=settings.max_wait_ms,
        min_bytes=settings.min_bytes,
        max_bytes=settings.max_bytes,
        isolation_level=settings.isolation,
        session_id=asked.session_id,
        session_epoch=asked.session_epoch,
        topics=topics,
        forgotten_topics_data=list(forgotten.values()),
        rack_id=settings.rack_id,
    )


def fetched_partitions(
    response: FetchResponse, ids: Mapping[str, UUID] | None, read_committed: bool = False
) -> dict[TopicPartition, FetchedPartition]:
    """Return partition -> its part of the response. Raises KafkaError when the broker refused the whole request."""
    if response.error_code:
        raise KafkaError(code_of(response.error_code), "the broker refused the fetch")
    names = {topic_id: name for name, topic_id in ids.items()} if ids else {}
    found: dict[TopicPartition, FetchedPartition] = {}
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id, "")
        for part in topic.partitions:
            found[TopicPartition(name, part.partition_index)] = _fetched(part, read_committed)
    return found


def _fetched(part: FetchResponse.PartitionData, read_committed: bool) -> FetchedPartition:
    view = records_view(part.records)
    aborted = [(entry.producer_id, entry.first_offset) for entry in part.aborted_transactions or ()]
    end = part.last_stable_offset if read_committed else part.high_watermark
    return FetchedPartition(code_of(part.error_code), aborted, view, end, part.preferred_read_replica)


# -- ListOffsets ------------------------------------------------------------------------------------------------------------------------


class ListedOffset(NamedTuple):
    """Offset of one partition; `offset` is -1 where no record is at or after the timestamp."""

    error: ErrorCode
    offset: int
    timestamp: int
    leader_epoch: int


def list_offsets_request(wanted: Mapping[TopicPartition, int], isolation: int, timeout_ms: int) -> ListOffsetsRequest:
    """Build the request to a leader for the offsets of timestamps (-2 earliest, -1 latest, -3 greatest timestamp)."""
    by_topic: defaultdict[str, list[ListOffsetsRequest.ListOffsetsPartition]] = defaultdict(list)
    for (topic, partition), timestamp in wanted.items():
        by_topic[topic].append(ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=timestamp))
    topics = [ListOffsetsRequest.ListOffsetsTopic(name=name, partitions=parts) for name, parts in by_topic.items()]
    return ListOffsetsRequest(replica_id=-1, isolation_level=isolation, topics=topics, timeout_ms=timeout_ms)


def listed_offsets(response: ListOffsetsResponse) -> dict[TopicPartition, ListedOffset]:
    """Return partition -> its offset or error."""
    return {
        TopicPartition(topic.name, part.partition_index): ListedOffset(
            code_of(part.error_code), part.offset, part.timestamp, part.leader_epoch
        )
        for topic in response.topics
        for part in topic.partitions
    }


# -- OffsetForLeaderEpoch ---------------------------------------------------------------------------------------------------------------


def epoch_ends_request(targets: Iterable[ValidationTarget]) -> OffsetForLeaderEpochRequest:
    """Build the request to a leader: at which offset does its log end for the epoch of the last record read before each position?"""
    by_topic: defaultdict[str, list[OffsetForLeaderEpochRequest.OffsetForLeaderPartition]] = defaultdict(list)
    for target in targets:
        topic, partition = target.topic_partition
        by_topic[topic].append(
            OffsetForLeaderEpochRequest.OffsetForLeaderPartition(
                partition=partition, current_leader_epoch=target.leader_epoch, leader_epoch=target.offset_epoch
            )
        )
    topics = [OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=parts) for topic, parts in by_topic.items()]
    return OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


def epoch_ends(response: OffsetForLeaderEpochResponse) -> dict[TopicPartition, EpochEnd]:
    """Return partition -> the end of its epoch, or its error."""
    return {
        TopicPartition(topic.topic, part.partition): EpochEnd(code_of(part.error_code), part.leader_epoch, part.end_offset)
        for topic in response.topics
        for part in topic.partitions
    }
