"""Admin calls for topics, their partitions, offsets and records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin.asking import Peer
from odradek.client.admin.base import AdminBase
from odradek.client.admin.per_item import raising, raising_only
from odradek.client.admin.types.topics import ListOffsetsResultInfo, NewPartitions, OffsetSpec, TopicDescription
from odradek.client.core.admin_items import RETRIABLE_ERRORS, Outcomes
from odradek.client.core.admin_topics import (
    METADATA_BY_ID_SINCE,
    TopicKey,
    TopicPages,
    creatable,
    create_partitions_request,
    created_partitions,
    created_topics,
    delete_records_request,
    delete_topics_request,
    deleted_records,
    deleted_topics,
    described_topics,
    offset_infos,
    too_old_for,
    topic_label,
    topics_request,
)
from odradek.client.core.data_requests import list_offsets_request
from odradek.client.core.metadata import MetadataCache, TopicInfo
from odradek.client.types import CreatedTopic, NewTopic
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.create_partitions import CreatePartitionsResponse
from odradek.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from odradek.protocol.messages.delete_records import DeleteRecordsResponse
from odradek.protocol.messages.delete_topics import DeleteTopicsResponse
from odradek.protocol.messages.describe_topic_partitions import DescribeTopicPartitionsResponse
from odradek.protocol.messages.list_offsets import ListOffsetsResponse
from odradek.protocol.messages.metadata import MetadataRequest, MetadataResponse

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
