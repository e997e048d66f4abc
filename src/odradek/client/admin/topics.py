"""Admin calls for topics, their partitions, offsets and records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.base.ids import TopicPartition, uuid_to_string
from odradek.client.admin.asking import Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.items import RETRIABLE_ERRORS, Outcomes, outcome
from odradek.client.admin.per_item import raising, raising_only
from odradek.client.admin.terms import authorized_operations, by_topic, present
from odradek.client.admin.types.topics import ListOffsetsResultInfo, NewPartitions, OffsetSpec, TopicDescription, TopicPartitionInfo
from odradek.client.core.data_requests import list_offsets_request, listed_offsets
from odradek.client.core.metadata import MetadataCache, TopicInfo
from odradek.client.types import CreatedTopic, NewTopic
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from odradek.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from odradek.protocol.messages.list_offsets import ListOffsetsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse

TopicKey = str | UUID
"""Name or id of a topic."""

DELETE_BY_ID_SINCE = 6
METADATA_BY_ID_SINCE = 12
"""First versions of DeleteTopics and Metadata that take topic ids. Since version 12 a Metadata response may lack the name."""

_SINCE = {OffsetSpec.MAX_TIMESTAMP: 7, OffsetSpec.EARLIEST_LOCAL: 8, OffsetSpec.LATEST_TIERED: 9, OffsetSpec.EARLIEST_PENDING_UPLOAD: 11}
"""Special timestamp -> first version of ListOffsets that knows it."""


def _topic_error(code: int, topic: TopicKey) -> KafkaError | None:
    missing = code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
    return outcome(code, None, topic_label(topic) + (" does not exist" if missing else ""))


def topic_label(topic: TopicKey) -> str:
    """Return the name of the topic for messages."""
    return f"topic {topic}" if isinstance(topic, str) else f"topic id {uuid_to_string(topic)}"


# -- creation, deletion, more partitions --------------------------------------------------------------------------------------------------


def creatable(topic: NewTopic) -> CreateTopicsRequest.CreatableTopic:
    """Return the request's entry for a topic to create."""
    return CreateTopicsRequest.CreatableTopic(
        name=topic.name,
        num_partitions=-1 if topic.assignments else topic.num_partitions,
        replication_factor=-1 if topic.assignments else topic.replication_factor,
        assignments=[
            CreateTopicsRequest.CreatableReplicaAssignment(partition_index=partition, broker_ids=list(brokers))
            for partition, brokers in topic.assignments.items()
        ],
        configs=[CreateTopicsRequest.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
    )


def created_topics(response: CreateTopicsResponse) -> Outcomes[str, CreatedTopic]:
    """Return the created topic, or the error, of every topic."""
    found: Outcomes[str, CreatedTopic] = {}
    for topic in response.topics:
        error = outcome(topic.error_code, topic.error_message, f"topic {topic.name}")
        found[topic.name] = error or CreatedTopic(topic.name, topic.topic_id, topic.num_partitions, topic.replication_factor)
    return found


def delete_topics_request(topics: Sequence[TopicKey], version: int, timeout_ms: int) -> DeleteTopicsRequest:
    """Build the request. Raises KafkaError(UNSUPPORTED_VERSION) for topic ids when the broker takes names only (before version 6)."""
    if version >= DELETE_BY_ID_SINCE:
        state = DeleteTopicsRequest.DeleteTopicState
        wanted = [state(name=each) if isinstance(each, str) else state(topic_id=each) for each in topics]
        return DeleteTopicsRequest(topics=wanted, timeout_ms=timeout_ms)
    names = [each for each in topics if isinstance(each, str)]
    if len(names) < len(topics):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the broker cannot delete topics by id: it is older than Kafka 2.8")
    return DeleteTopicsRequest(topic_names=names, timeout_ms=timeout_ms)


def deleted_topics(response: DeleteTopicsResponse, asked: Iterable[TopicKey]) -> Outcomes[TopicKey, None]:
    """Return None or the error of every topic, under the name or id in `asked`. A response may name a topic that was asked for by id."""
    ids = {each for each in asked if isinstance(each, UUID)}
    found: Outcomes[TopicKey, None] = {}
    for result in response.responses:
        key: TopicKey = result.topic_id if result.topic_id in ids else result.name or ""
        found[key] = outcome(result.error_code, result.error_message, topic_label(key))
    return found


def create_partitions_request(
    counts: Mapping[str, int | NewPartitions], names: Sequence[str], timeout_ms: int, validate_only: bool
) -> CreatePartitionsRequest:
    """Build the request that raises the topics' partition counts to new totals."""
    topics: list[CreatePartitionsRequest.CreatePartitionsTopic] = []
    for name in names:
        wanted = counts[name]
        total = wanted if isinstance(wanted, NewPartitions) else NewPartitions(wanted)
        assignments = (
            None
            if total.assignments is None
            else [CreatePartitionsRequest.CreatePartitionsAssignment(broker_ids=list(each)) for each in total.assignments]
        )
        topics.append(CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=total.total_count, assignments=assignments))
    return CreatePartitionsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=validate_only)


def created_partitions(response: CreatePartitionsResponse) -> Outcomes[str, None]:
    """Return None or the error of every topic."""
    return {each.name: outcome(each.error_code, each.error_message, f"topic {each.name}") for each in response.results}


# -- descriptions -------------------------------------------------------------------------------------------------------------------------


class TopicPages:
    """Pages of DescribeTopicPartitions (KIP-966): `request` asks for the next page, `answered` says whether there is another page."""

    def __init__(self, names: Iterable[str], page_size: int, include_authorized_operations: bool) -> None:
        self._authorized = include_authorized_operations
        self._left = sorted(names)
        self._page_size = page_size
        self._cursor: DescribeTopicPartitionsResponse.Cursor | None = None
        self.found: Outcomes[str, TopicDescription] = {}

    def request(self) -> DescribeTopicPartitionsRequest:
        """Build the request for the next page: for the topics that have not been read completely."""
        cursor = self._cursor
        return DescribeTopicPartitionsRequest(
            topics=[DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in self._left],
            response_partition_limit=self._page_size,
            cursor=None
            if cursor is None
            else DescribeTopicPartitionsRequest.Cursor(topic_name=cursor.topic_name, partition_index=cursor.partition_index),
        )

    def answered(self, response: DescribeTopicPartitionsResponse) -> bool:
        """Process a page; return whether there is another page.

        Raises KafkaError when the next page would begin where this page began.
        """
        for topic in response.topics:
            self._add(topic)
        before, self._cursor = self._cursor, response.next_cursor
        if self._cursor is None:
            return False
        if self._cursor == before:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the broker returns the same page of partitions repeatedly")
        first = self._cursor.topic_name
        self._left = [name for name in self._left if name >= first]
        return True

    def _add(self, topic: DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic) -> None:
        name = topic.name or ""
        error = _topic_error(topic.error_code, name)
        if error is not None:
            self.found[name] = error
            return
        known = self.found.get(name)
        partitions = dict(known.partitions) if isinstance(known, TopicDescription) else {}
        for part in topic.partitions:
            partitions[part.partition_index] = TopicPartitionInfo(
                part.partition_index,
                part.leader_id,
                part.leader_epoch,
                tuple(part.replica_nodes),
                tuple(part.isr_nodes),
                tuple(part.offline_replicas),
                tuple(part.eligible_leader_replicas or ()),
                tuple(part.last_known_elr or ()),
            )
        # The response has the operations even if the request did not ask for them.
        operations = authorized_operations(topic.topic_authorized_operations) if self._authorized else None
        self.found[name] = TopicDescription(name, topic.topic_id, topic.is_internal, partitions, operations)


def topics_request(topics: Sequence[TopicKey], include_authorized_operations: bool) -> MetadataRequest:
    """Build the Metadata request for topics by name or by id."""
    entry = MetadataRequest.MetadataRequestTopic
    return MetadataRequest(
        topics=[entry(name=each) if isinstance(each, str) else entry(topic_id=each, name=None) for each in topics],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=include_authorized_operations,
    )


def described_topics(response: MetadataResponse, asked: Iterable[TopicKey]) -> Outcomes[TopicKey, TopicDescription]:
    """Return the description, or the error, of every topic, under the name or id in `asked`."""
    ids = {each for each in asked if isinstance(each, UUID)}
    found: Outcomes[TopicKey, TopicDescription] = {}
    for topic in response.topics:
        key: TopicKey = topic.topic_id if topic.topic_id in ids else topic.name or ""
        error = _topic_error(topic.error_code, key)
        found[key] = error or TopicDescription(
            topic.name or "",
            topic.topic_id,
            topic.is_internal,
            {part.partition_index: _partition(part) for part in topic.partitions},
            authorized_operations(topic.topic_authorized_operations),
        )
    return found


def _partition(part: MetadataResponse.MetadataResponsePartition) -> TopicPartitionInfo:
    return TopicPartitionInfo(
        part.partition_index,
        part.leader_id,
        part.leader_epoch,
        tuple(part.replica_nodes),
        tuple(part.isr_nodes),
        tuple(part.offline_replicas),
        None,
        None,
    )


# -- offsets and records ------------------------------------------------------------------------------------------------------------------


def too_old_for(specs: Mapping[TopicPartition, int], version: int) -> Outcomes[TopicPartition, ListOffsetsResultInfo]:
    """Return an error for each partition whose spec the leader does not know in `version` of ListOffsets."""
    return {
        partition: KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the broker supports LIST_OFFSETS up to version {version}; {OffsetSpec(spec).name} of {partition} needs version {since}",
        )
        for partition, spec in specs.items()
        if version < (since := _SINCE.get(spec, 0))  # type: ignore[call-overload]
    }


def offset_infos(response: ListOffsetsResponse) -> Outcomes[TopicPartition, ListOffsetsResultInfo]:
    """Return the offset, or the error, of every partition."""
    return {
        partition: KafkaError(each.error, f"offset of {partition}")
        if each.error is not ErrorCode.NONE
        else ListOffsetsResultInfo(each.offset, each.timestamp, present(each.leader_epoch))
        for partition, each in listed_offsets(response).items()
    }


def delete_records_request(offsets: Mapping[TopicPartition, int], timeout_ms: int) -> DeleteRecordsRequest:
    """Build the request for partitions of one leader; records below the offsets are deleted."""
    topics = [
        DeleteRecordsRequest.DeleteRecordsTopic(
            name=name,
            partitions=[
                DeleteRecordsRequest.DeleteRecordsPartition(partition_index=number, offset=offsets[TopicPartition(name, number)])
                for number in numbers
            ],
        )
        for name, numbers in by_topic(offsets).items()
    ]
    return DeleteRecordsRequest(topics=topics, timeout_ms=timeout_ms)


def deleted_records(response: DeleteRecordsResponse) -> Outcomes[TopicPartition, int]:
    """Return the low watermark, or the error, of every partition."""
    return {
        (partition := TopicPartition(topic.name, result.partition_index)): KafkaError(
            code_of(result.error_code), f"deleting records of {partition}"
        )
        if result.error_code
        else result.low_watermark
        for topic in response.topics
        for result in topic.partitions
    }


# A description is about the present: waiting for a topic that does not exist would be wrong.
_RETRIED_DESCRIBING = RETRIABLE_ERRORS - {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}

PAGE_SIZE = 2000
"""Maximum number of partitions in one response; the same as Java's client asks for."""


class TopicCalls(AdminBase):
    """Part of `AsyncAdmin` for topics."""

    async def try_create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> Outcomes[str, CreatedTopic]:
        """Create topics, or with `validate_only` only check them.

        Errors of a topic: TOPIC_ALREADY_EXISTS, INVALID_REPLICATION_FACTOR and others.
        """
        wanted: dict[str, NewTopic] = {}
        for topic in topics:
            wanted.setdefault(topic.name, topic)

        async def ask(peer: Peer, names: Sequence[str]) -> Outcomes[str, CreatedTopic]:
            creations = [creatable(wanted[name]) for name in names]
            request = CreateTopicsRequest(topics=creations, timeout_ms=peer.timeout_ms, validate_only=validate_only)
            return created_topics(await peer.call(request, CreateTopicsResponse))

        return await self._at_controller(wanted, ask, name=topic_label)

    create_topics = raising(try_create_topics)

    async def try_delete_topics(self, topics: Iterable[TopicKey]) -> Outcomes[TopicKey, None]:
        """Delete topics by name or by id. Errors of a missing topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID."""

        async def ask(peer: Peer, asked: Sequence[TopicKey]) -> Outcomes[TopicKey, None]:
            request = delete_topics_request(asked, peer.version(ApiKey.DELETE_TOPICS), peer.timeout_ms)
            found = deleted_topics(await peer.call(request, DeleteTopicsResponse), asked)
            for topic, error in found.items():
                if error is None and isinstance(topic, str):
                    self.cluster.metadata.forget(topic)
            return found

        return await self._at_controller(topics, ask, name=topic_label)

    delete_topics = raising_only(try_delete_topics)

    async def try_create_partitions(self, counts: Mapping[str, int | NewPartitions], *, validate_only: bool = False) -> Outcomes[str, None]:
        """Raise the number of partitions of topics to these totals. Error of a topic whose total is not greater: INVALID_PARTITIONS."""

        async def ask(peer: Peer, names: Sequence[str]) -> Outcomes[str, None]:
            request = create_partitions_request(counts, names, peer.timeout_ms, validate_only)
            return created_partitions(await peer.call(request, CreatePartitionsResponse))

        return await self._at_controller(counts, ask, name=topic_label)

    create_partitions = raising_only(try_create_partitions)

    async def list_topics(self, *, internal: bool = False) -> list[TopicInfo]:
        """Return all topics, sorted by name; Kafka's own topics only with `internal`."""

        async def ask(peer: Peer) -> list[TopicInfo]:
            response = await peer.call(MetadataRequest(topics=None, allow_auto_topic_creation=False), MetadataResponse)
            topics = MetadataCache(0).update(response, 0).topics
            return [topics[name] for name in sorted(topics) if internal or not topics[name].is_internal]

        return await self._any_broker("listing topics", ask)

    async def try_describe_topics(
        self, topics: Iterable[TopicKey], *, include_authorized_operations: bool = False, page_size: int = PAGE_SIZE
    ) -> Outcomes[TopicKey, TopicDescription]:
        """Return partitions and leaders of topics by name or by id. Errors of a missing topic: UNKNOWN_TOPIC_OR_PARTITION,
        UNKNOWN_TOPIC_ID.

        Topics by name come in pages of `page_size` partitions where the broker supports pages. Only then are eligible leaders known
        (KIP-966).
        """

        async def ask(peer: Peer, asked: Sequence[TopicKey]) -> Outcomes[TopicKey, TopicDescription]:
            names = [each for each in asked if isinstance(each, str)]
            pages = TopicPages(names, page_size, include_authorized_operations)
            paged = await self._described_by_pages(peer, pages) if names else None
            left = [each for each in asked if paged is None or not isinstance(each, str)]
            found: Outcomes[TopicKey, TopicDescription] = {}
            if paged is not None:
                found.update(paged)
            if left:
                found |= await self._described_at_once(peer, left, include_authorized_operations)
            return found

        return await self._at_any_broker(topics, ask, retried=_RETRIED_DESCRIBING, name=topic_label)

    describe_topics = raising(try_describe_topics)

    async def _described_by_pages(self, peer: Peer, pages: TopicPages) -> Outcomes[str, TopicDescription] | None:
        """Describe topics by DescribeTopicPartitions. Return None when the broker does not support that API."""
        try:
            while pages.answered(await peer.call(pages.request(), DescribeTopicPartitionsResponse)):
                pass
        except KafkaError as error:
            if error.code is ErrorCode.UNSUPPORTED_VERSION:
                return None
            raise
        return pages.found

    async def _described_at_once(self, peer: Peer, asked: Sequence[TopicKey], authorized: bool) -> Outcomes[TopicKey, TopicDescription]:
        by_name = all(isinstance(each, str) for each in asked)
        if not by_name and peer.version(ApiKey.METADATA) < METADATA_BY_ID_SINCE:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the broker cannot describe topics by id: it is older than Kafka 3.1")
        return described_topics(await peer.call(topics_request(asked, authorized), MetadataResponse), asked)

    # -- offsets and records ----------------------------------------------------------------------------------------------------------

    async def try_list_offsets(
        self, specs: Mapping[TopicPartition, OffsetSpec | int], *, read_committed: bool = False
    ) -> Outcomes[TopicPartition, ListOffsetsResultInfo]:
        """Return offsets of partitions: those of an OffsetSpec, or of the first record at or after a timestamp (Unix milliseconds).

        With `read_committed` LATEST is the last stable offset. A missing partition is retried until the time limit, then fails with
        UNKNOWN_TOPIC_OR_PARTITION. A spec that the leader does not know fails with UNSUPPORTED_VERSION.
        """
        wanted = {partition: int(spec) for partition, spec in specs.items()}

        async def ask(peer: Peer, asked: Sequence[TopicPartition]) -> Outcomes[TopicPartition, ListOffsetsResultInfo]:
            found = too_old_for({each: wanted[each] for each in asked}, peer.version(ApiKey.LIST_OFFSETS))
            left = {each: wanted[each] for each in asked if each not in found}
            if left:
                request = list_offsets_request(left, 1 if read_committed else 0, peer.timeout_ms)
                found |= offset_infos(await peer.call(request, ListOffsetsResponse))
            return found

        return await self._at_leaders(wanted, ask, partition_of=_itself)

    list_offsets = raising(try_list_offsets)

    async def try_delete_records(self, offsets: Mapping[TopicPartition, int]) -> Outcomes[TopicPartition, int]:
        """Delete the records before these offsets (-1: up to the high watermark) and return the new log start offsets.

        Error of a partition: OFFSET_OUT_OF_RANGE.
        """

        async def ask(peer: Peer, asked: Sequence[TopicPartition]) -> Outcomes[TopicPartition, int]:
            request = delete_records_request({each: offsets[each] for each in asked}, peer.timeout_ms)
            return deleted_records(await peer.call(request, DeleteRecordsResponse))

        return await self._at_leaders(offsets, ask, partition_of=_itself)

    delete_records = raising(try_delete_records)


def _itself(partition: TopicPartition) -> TopicPartition:
    return partition
