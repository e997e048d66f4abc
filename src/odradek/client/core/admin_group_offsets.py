"""Committed offsets of groups in the admin client: OffsetFetch, OffsetCommit and OffsetDelete."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin.types.groups import OffsetAndMetadata
from odradek.client.core.admin_items import Outcomes, outcome
from odradek.client.core.admin_terms import by_topic, present
from odradek.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

GroupOffsets: TypeAlias = dict[TopicPartition, OffsetAndMetadata | KafkaError | None]
"""Partition -> the committed offset, None without a committed offset, or an error."""

LAST_BY_NAME = 9
"""Last version of OffsetFetch and OffsetCommit that names topics; later versions use topic ids."""

SEVERAL_GROUPS_SINCE = 8
STABLE_SINCE = 7
"""First versions of OffsetFetch that can ask for several groups (8) and for stable offsets only (7)."""


def offset_fetch_request(groups: Mapping[str, Iterable[TopicPartition] | None], require_stable: bool) -> OffsetFetchRequest:
    """Build the request for several groups of one coordinator (version 8 and later); None asks for all partitions of a group."""
    wanted = [
        OffsetFetchRequest.OffsetFetchRequestGroup(
            group_id=group_id,
            topics=None
            if partitions is None
            else [
                OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(partitions).items()
            ],
        )
        for group_id, partitions in groups.items()
    ]
    return OffsetFetchRequest(groups=wanted, require_stable=require_stable)


def offset_fetch_request_of_one(group_id: str, partitions: Iterable[TopicPartition] | None, require_stable: bool) -> OffsetFetchRequest:
    """Build the request for one group (before version 8); None asks for all partitions."""
    topics = (
        None
        if partitions is None
        else [
            OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=numbers)
            for topic, numbers in by_topic(partitions).items()
        ]
    )
    return OffsetFetchRequest(group_id=group_id, topics=topics, require_stable=require_stable)


def fetched_offsets(response: OffsetFetchResponse) -> Outcomes[str, GroupOffsets]:
    """Return the committed offsets, or the error, of every group (version 8 and later)."""
    found: Outcomes[str, GroupOffsets] = {}
    for group in response.groups:
        offsets = {
            TopicPartition(topic.name, each.partition_index): _committed(topic.name, each)
            for topic in group.topics
            for each in topic.partitions
        }
        found[group.group_id] = outcome(group.error_code, None, f"offsets of group {group.group_id}") or _stable(group.group_id, offsets)
    return found


def fetched_offsets_of_one(group_id: str, response: OffsetFetchResponse) -> GroupOffsets | KafkaError:
    """Return the committed offsets of one group, or its error (before version 8)."""
    offsets = {
        TopicPartition(topic.name, each.partition_index): _committed(topic.name, each)
        for topic in response.topics
        for each in topic.partitions
    }
    return outcome(response.error_code, None, f"offsets of group {group_id}") or _stable(group_id, offsets)


def _committed(
    topic: str, answer: OffsetFetchResponse.OffsetFetchResponsePartition | OffsetFetchResponse.OffsetFetchResponsePartitions
) -> OffsetAndMetadata | KafkaError | None:
    if answer.error_code:
        return outcome(answer.error_code, None, f"offset of {topic}-{answer.partition_index}")
    if answer.committed_offset < 0:
        return None
    return OffsetAndMetadata(answer.committed_offset, present(answer.committed_leader_epoch), answer.metadata or "")


def _stable(group_id: str, offsets: GroupOffsets) -> GroupOffsets | KafkaError:
    """Return `offsets`, or one error for the whole group if an open transaction may still change an offset.

    After that error the group is asked again (KIP-447).
    """
    for partition, each in offsets.items():
        if isinstance(each, KafkaError) and each.code is ErrorCode.UNSTABLE_OFFSET_COMMIT:
            return KafkaError(each.code, f"group {group_id} has an open transaction with an offset of {partition}")
    return offsets


def offset_commit_request(group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> OffsetCommitRequest:
    """Build the request as a client that is not a member of the group."""
    topics = [
        OffsetCommitRequest.OffsetCommitRequestTopic(
            name=topic, partitions=[_to_commit(number, offsets[TopicPartition(topic, number)]) for number in numbers]
        )
        for topic, numbers in by_topic(offsets).items()
    ]
    return OffsetCommitRequest(group_id=group_id, topics=topics)


def _to_commit(partition: int, offset: OffsetAndMetadata) -> OffsetCommitRequest.OffsetCommitRequestPartition:
    return OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=partition,
        committed_offset=offset.offset,
        committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
        committed_metadata=offset.metadata,
    )


def committed_offsets(response: OffsetCommitResponse) -> Outcomes[TopicPartition, None]:
    """Return None or the error of every partition."""
    return {
        (partition := TopicPartition(topic.name, each.partition_index)): outcome(each.error_code, None, f"offset of {partition}")
        for topic in response.topics
        for each in topic.partitions
    }


def offset_delete_request(group_id: str, partitions: Iterable[TopicPartition]) -> OffsetDeleteRequest:
    """Build the request that deletes the group's offsets of these partitions."""
    topics = [
        OffsetDeleteRequest.OffsetDeleteRequestTopic(
            name=topic, partitions=[OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
        )
        for topic, numbers in by_topic(partitions).items()
    ]
    return OffsetDeleteRequest(group_id=group_id, topics=topics)


def deleted_offsets(response: OffsetDeleteResponse, asked: Iterable[TopicPartition]) -> Outcomes[TopicPartition, None]:
    """Return None or the error of every partition; an error of the whole response counts for each partition."""
    whole = outcome(response.error_code, None, "deleting offsets")
    if whole is not None:
        return dict.fromkeys(asked, whole)
    return {
        (partition := TopicPartition(topic.name, each.partition_index)): outcome(each.error_code, None, f"offset of {partition}")
        for topic in response.topics
        for each in topic.partitions
    }
