"""Admin calls for the committed offsets of groups: OffsetFetch, OffsetCommit and OffsetDelete.

They go to the coordinator of each group, and retry while the coordinator moves or loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, cast

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.client.admin.asking import Peer, one_by_one
from odradek.client.admin.base import AdminBase
from odradek.client.admin.groups import group_label
from odradek.client.admin.items import COORDINATOR_ERRORS, Outcomes, outcome, results
from odradek.client.admin.per_item import raising_only
from odradek.client.admin.terms import by_topic, present
from odradek.client.admin.types.groups import (
    OffsetAndMetadata,
)
from odradek.client.network.coordinators import CoordinatorKind
from odradek.protocol.api_keys import ApiKey
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


class GroupOffsetCalls(AdminBase):
    """Part of `AsyncAdmin` for committed offsets of groups."""

    async def try_list_consumer_group_offsets(
        self, groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None], *, require_stable: bool = False
    ) -> Outcomes[str, GroupOffsets]:
        """Return the committed offsets of groups: of all partitions, or of the partitions to which `groups` maps a group.

        A partition without a committed offset has the value None if it was named, and is absent if not. A partition that failed has its
        KafkaError. A group that does not exist has no offsets. `require_stable` waits for open transactions that contain offsets (KIP-447).
        """
        named = _named(groups)
        wanted = {group_id: None if partitions is None else list(partitions) for group_id, partitions in named.items()}

        async def ask(peer: Peer, ids: Sequence[str]) -> Outcomes[str, GroupOffsets]:
            version = peer.version(ApiKey.OFFSET_FETCH, at_most=LAST_BY_NAME)
            if require_stable and version < STABLE_SINCE:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "the broker cannot wait for stable offsets: it is older than Kafka 2.5")
            if version >= SEVERAL_GROUPS_SINCE:
                request = offset_fetch_request({each: wanted[each] for each in ids}, require_stable)
                return fetched_offsets(await peer.call(request, OffsetFetchResponse, at_most=LAST_BY_NAME))

            async def one(each: str) -> GroupOffsets | KafkaError:
                request = offset_fetch_request_of_one(each, wanted[each], require_stable)
                return fetched_offsets_of_one(each, await peer.call(request, OffsetFetchResponse, at_most=LAST_BY_NAME))

            return await one_by_one(ids, one)

        retried = COORDINATOR_ERRORS | {ErrorCode.UNSTABLE_OFFSET_COMMIT}
        return await self._at_coordinators(CoordinatorKind.GROUP, wanted, ask, retried=retried, name=group_label)

    async def list_consumer_group_offsets(
        self, groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None], *, require_stable: bool = False
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata | None]]:
        """Return the committed offsets of groups: of all partitions, or of the partitions to which `groups` maps a group.

        A partition without a committed offset has the value None if it was named, and is absent if not. A group that does not exist has no
        offsets. `require_stable` waits for open transactions that contain offsets (KIP-447).

        Raises the KafkaError of the first group or partition that failed.
        """
        found = results(await self.try_list_consumer_group_offsets(groups, require_stable=require_stable))
        return {group_id: results(offsets) for group_id, offsets in found.items()}

    async def try_alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> Outcomes[TopicPartition, None]:
        """Commit offsets for a group without members; the coordinator creates a missing group.

        Error of the partitions when the group has members: UNKNOWN_MEMBER_ID.
        """
        wanted = {each: offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset) for each, offset in offsets.items()}

        async def ask(peer: Peer, partitions: Sequence[TopicPartition]) -> Outcomes[TopicPartition, None]:
            request = offset_commit_request(group_id, {each: wanted[each] for each in partitions})
            return committed_offsets(await peer.call(request, OffsetCommitResponse, at_most=LAST_BY_NAME))

        retried = COORDINATOR_ERRORS | {ErrorCode.REBALANCE_IN_PROGRESS}
        return await self._at_coordinators(CoordinatorKind.GROUP, wanted, ask, id_of=lambda _: group_id, retried=retried)

    alter_consumer_group_offsets = raising_only(try_alter_consumer_group_offsets)

    async def try_delete_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> Outcomes[TopicPartition, None]:
        """Delete committed offsets. Error of a partition whose topic a member of the group reads: GROUP_SUBSCRIBED_TO_TOPIC."""

        async def ask(peer: Peer, asked: Sequence[TopicPartition]) -> Outcomes[TopicPartition, None]:
            return deleted_offsets(await peer.call(offset_delete_request(group_id, asked), OffsetDeleteResponse), asked)

        return await self._at_coordinators(CoordinatorKind.GROUP, partitions, ask, id_of=lambda _: group_id)

    delete_consumer_group_offsets = raising_only(try_delete_consumer_group_offsets)


def _named(groups: Iterable[str] | Mapping[str, Iterable[TopicPartition] | None]) -> Mapping[str, Iterable[TopicPartition] | None]:
    if isinstance(groups, Mapping):
        return cast("Mapping[str, Iterable[TopicPartition] | None]", groups)
    return dict.fromkeys(groups)
