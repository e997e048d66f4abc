"""Group coordinator of a broker: passes each request to the shard of its group's partition.

Each method takes a decoded request and returns the response; errors are returned in the form that the API's response has for them.

(org.apache.kafka.coordinator.group.GroupCoordinatorService)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.coordinator.context import append_error_code
from odradek.coordinator.group.classic.group import join_error
from odradek.coordinator.group.classic.manager import DescribedGroup
from odradek.coordinator.group.consumer.manager import DescribedConsumerGroup, failed_description
from odradek.coordinator.group.consumer.validation import check_heartbeat
from odradek.coordinator.group.group import Caller
from odradek.coordinator.group.settings import GroupSettings
from odradek.coordinator.group.shard import DeletableGroupResult, GroupShard, ListedGroup
from odradek.coordinator.partitioning import partition_of
from odradek.coordinator.runtime import CoordinatorRuntime
from odradek.coordinator.shard import CoordinatorResult
from odradek.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from odradek.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from odradek.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from odradek.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from odradek.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from odradek.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from odradek.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

if TYPE_CHECKING:
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import MetadataImage

T = TypeVar("T")
R = TypeVar("R")

FetchGroup = OffsetFetchResponse.OffsetFetchResponseGroup

Verify = Callable[[TopicPartition, TxnOffsetCommitRequest, int], "Deferred[object | None]"]
"""Function (partition, request, API version) that asks the transaction coordinator whether the producer's transaction contains the
partition. The result is the guard for the append, or KafkaError.
"""

_FETCH_ERRORS = {
    # Old consumers retry NOT_COORDINATOR after a new lookup of the coordinator, but do not know these errors.
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.NOT_COORDINATOR,
}


class GroupCoordinator:
    """Group coordinator; see the module docstring. Runs on the event loop. `partition_count` returns the number of partitions of
    `__consumer_offsets`.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[GroupShard],
        settings: GroupSettings,
        *,
        topic: str,
        partition_count: Callable[[], int],
        verify: Verify | None = None,
    ) -> None:
        self.runtime = runtime
        self._settings = settings
        self.counts = settings.counts
        self._topic = topic
        self._partition_count = partition_count
        self.verify = verify
        """Verification of transactional commits; None for no verification."""

    def partition_for(self, group_id: str) -> TopicPartition:
        """Return the partition of `__consumer_offsets` for the group."""
        return TopicPartition(self._topic, partition_of(group_id, self._partition_count()))

    # -- members -------------------------------------------------------------------------------------------------------------------

    def join_group(self, caller: Caller, request: JoinGroupRequest) -> Deferred[JoinGroupResponse]:
        """Join a group; the response completes after the rebalance, or at once."""
        settings = self._settings
        if not request.group_id:
            return Deferred.of(join_error(request.member_id, ErrorCode.INVALID_GROUP_ID))
        if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
            return Deferred.of(join_error(request.member_id, ErrorCode.INVALID_SESSION_TIMEOUT))
        response: Deferred[JoinGroupResponse] = Deferred()
        written = self.runtime.write(self.partition_for(request.group_id), lambda shard: shard.join(caller, request, response))
        written.add_callback(lambda done: _unless_answered(done, response, lambda code: join_error("", code)))
        return response

    def sync_group(self, request: SyncGroupRequest) -> Deferred[SyncGroupResponse]:
        """Answer SyncGroup; the response completes when the leader's assignment is stored, or at once."""
        if not request.group_id:
            return Deferred.of(SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        response: Deferred[SyncGroupResponse] = Deferred()
        written = self.runtime.write(self.partition_for(request.group_id), lambda shard: shard.sync(request, response))
        written.add_callback(lambda done: _unless_answered(done, response, lambda code: SyncGroupResponse(error_code=code)))
        return response

    def heartbeat(self, request: HeartbeatRequest) -> Deferred[HeartbeatResponse]:
        """Answer a heartbeat. While the group is being loaded, the response has no error, so that the member goes on."""
        if not request.group_id:
            return Deferred.of(HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))

        def failed(code: ErrorCode) -> HeartbeatResponse:
            return HeartbeatResponse(error_code=ErrorCode.NONE if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code)

        return self._write(request.group_id, lambda shard: shard.heartbeat(request), failed)

    def leave_group(self, request: LeaveGroupRequest) -> Deferred[LeaveGroupResponse]:
        """Remove the members in `members`; requests of all versions have to list them there."""
        if not request.group_id:
            return Deferred.of(LeaveGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))

        def failed(code: ErrorCode) -> LeaveGroupResponse:
            if code is not ErrorCode.UNKNOWN_MEMBER_ID:
                return LeaveGroupResponse(error_code=code)
            return LeaveGroupResponse(
                members=[
                    LeaveGroupResponse.MemberResponse(
                        member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=code
                    )
                    for member in request.members
                ]
            )

        return self._write(request.group_id, lambda shard: shard.leave(request), failed)

    def consumer_group_heartbeat(self, caller: Caller, request: ConsumerGroupHeartbeatRequest) -> Deferred[ConsumerGroupHeartbeatResponse]:
        """Answer a heartbeat with which a consumer-protocol member joins, goes on, or leaves."""
        try:
            check_heartbeat(request, caller.api_version, self._settings.consumer_assignors)
        except KafkaError as error:
            return Deferred.of(ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message))

        def failed(error: BaseException) -> ConsumerGroupHeartbeatResponse:
            message = error.message if isinstance(error, KafkaError) else None
            return ConsumerGroupHeartbeatResponse(error_code=_code_of(error), error_message=message)

        partition = self.partition_for(request.group_id)
        written = self.runtime.write(partition, lambda shard: shard.consumer_heartbeat(caller, request))
        return written.then(lambda response: response, failed)

    # -- offsets -------------------------------------------------------------------------------------------------------------------

    def commit_offsets(self, caller: Caller, request: OffsetCommitRequest) -> Deferred[OffsetCommitResponse]:
        """Commit offsets. The group id may be empty, for old simple consumers."""
        return self._write(request.group_id, lambda shard: shard.offsets.commit(caller, request), lambda code: commit_error(request, code))

    def commit_transactional_offsets(self, caller: Caller, request: TxnOffsetCommitRequest) -> Deferred[TxnOffsetCommitResponse]:
        """Commit offsets in the producer's transaction, after the verification that the transaction contains the partition."""
        if not request.group_id:
            return Deferred.of(txn_commit_error(request, ErrorCode.INVALID_GROUP_ID))
        partition = self.partition_for(request.group_id)
        response: Deferred[TxnOffsetCommitResponse] = _Answer(lambda code: txn_commit_error(request, code))
        verified: Deferred[object | None] = (
            Deferred.of(None) if self.verify is None else self.verify(partition, request, caller.api_version)
        )

        def write(guard: Deferred[object | None]) -> None:
            if guard.error is not None:
                # NOT_LEADER_OR_FOLLOWER would not make the client look up the new coordinator.
                response.complete(txn_commit_error(request, append_error_code(_code_of(guard.error))))
                return
            self.runtime.write_transactional(
                partition,
                request.producer_id,
                request.producer_epoch,
                guard.result(),
                lambda shard: shard.offsets.commit_transactional(caller, request),
            ).into(response)

        verified.add_callback(write)
        return response

    def fetch_offsets(self, request: OffsetFetchRequest.OffsetFetchRequestGroup, *, require_stable: bool) -> Deferred[FetchGroup]:
        """Return the requested offsets of one group; all of its offsets when `topics` is null."""

        def fetch(shard: GroupShard) -> FetchGroup:
            if request.topics is None:
                return shard.offsets.fetch_all(request, require_stable=require_stable)
            return shard.offsets.fetch(request, require_stable=require_stable)

        def failed(code: ErrorCode) -> FetchGroup:
            return FetchGroup(group_id=request.group_id, topics=[], error_code=_FETCH_ERRORS.get(code, code))

        if require_stable:
            return self._write(request.group_id, lambda shard: CoordinatorResult([], fetch(shard)), failed)
        try:
            return Deferred.of(self.runtime.read(self.partition_for(request.group_id), fetch))
        except KafkaError as error:
            return Deferred.of(failed(error.code))

    def delete_offsets(self, request: OffsetDeleteRequest) -> Deferred[OffsetDeleteResponse]:
        if not request.group_id:
            return Deferred.of(OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return self._write(
            request.group_id, lambda shard: shard.offsets.delete(request), lambda code: OffsetDeleteResponse(error_code=code)
        )

    # -- groups --------------------------------------------------------------------------------------------------------------------

    def list_groups(self, request: ListGroupsRequest) -> ListGroupsResponse:
        """Return the groups of all shards that this broker coordinates. States and types are matched case-insensitively."""
        states = frozenset(state.lower() for state in request.states_filter)
        types = frozenset(name.lower() for name in request.types_filter)
        try:
            listed = self.runtime.read_all(lambda shard: shard.list_groups(states, types))
        except KafkaError as error:
            return ListGroupsResponse(error_code=error.code)
        groups: list[ListedGroup] = [group for part in listed for group in part]
        return ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups)

    def describe_groups(self, caller: Caller, group_ids: Sequence[str]) -> Iterator[DescribedGroup]:
        """Yield the descriptions, computed one by one, grouped by partition."""
        for partition, ids in self._by_partition(group_ids).items():
            for group_id in ids:
                try:
                    yield self.runtime.read(partition, partial(_described, caller, group_id))
                except KafkaError as error:
                    yield DescribedGroup(group_id=group_id, error_code=error.code)

    def describe_consumer_groups(self, group_ids: Sequence[str]) -> Iterator[DescribedConsumerGroup]:
        """Yield the descriptions, computed one by one, grouped by partition. Errors for empty ids come first."""
        for group_id in group_ids:
            if not group_id:
                yield failed_description("", ErrorCode.INVALID_GROUP_ID)
        for partition, ids in self._by_partition([group_id for group_id in group_ids if group_id]).items():
            for group_id in ids:
                try:
                    yield self.runtime.read(partition, partial(_described_consumer, group_id))
                except KafkaError as error:
                    yield failed_description(group_id, error.code)

    def delete_groups(self, group_ids: Sequence[str]) -> Deferred[list[DeletableGroupResult]]:
        """Delete empty groups and their offsets."""
        writes = [
            self.runtime.write(partition, _deletion(ids), _Answer(_failed_deletion(ids)))
            for partition, ids in self._by_partition(group_ids).items()
        ]
        return _gather(writes)

    def _by_partition(self, group_ids: Iterable[str]) -> Mapping[TopicPartition, list[str]]:
        found: dict[TopicPartition, list[str]] = {}
        for group_id in group_ids:
            found.setdefault(self.partition_for(group_id), []).append(group_id)
        return found

    # -- metadata and shutdown -----------------------------------------------------------------------------------------------------

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply a new cluster image, after the partitions have changed their roles."""
        before = delta.topics.image.by_id
        deleted: dict[str, set[UUID]] = {}
        for topic_id in delta.topics.deleted_topic_ids & before.keys():
            deleted.setdefault(before[topic_id].name, set()).add(topic_id)
        if deleted:
            self.runtime.write_all(lambda shard: shard.topics_deleted(deleted))
        self.runtime.publish(delta, image)

    def close(self) -> None:
        """Fail all waiting requests with NOT_COORDINATOR, and all later requests, too."""
        self.runtime.close()

    # -- responses -----------------------------------------------------------------------------------------------------------------

    def _write(
        self, group_id: str, operation: Callable[[GroupShard], CoordinatorResult[R]], failed: Callable[[ErrorCode], R]
    ) -> Deferred[R]:
        return self.runtime.write(self.partition_for(group_id), operation, _Answer(failed))


def _described(caller: Caller, group_id: str, shard: GroupShard) -> DescribedGroup:
    return shard.describe(caller, group_id)


def _described_consumer(group_id: str, shard: GroupShard) -> DescribedConsumerGroup:
    return shard.describe_consumer_group(group_id)


def _deletion(group_ids: list[str]) -> Callable[[GroupShard], CoordinatorResult[list[DeletableGroupResult]]]:
    return lambda shard: shard.delete_groups(group_ids)


def _failed_deletion(group_ids: list[str]) -> Callable[[ErrorCode], list[DeletableGroupResult]]:
    return lambda code: [DeletableGroupResult(group_id=group_id, error_code=code) for group_id in group_ids]


def _code_of(error: BaseException) -> ErrorCode:
    return error.code if isinstance(error, KafkaError) else ErrorCode.UNKNOWN_SERVER_ERROR


class _Answer(Deferred[R]):
    """Deferred that turns an error into the client's response."""

    __slots__ = ("_failed",)

    def __init__(self, failed: Callable[[ErrorCode], R]) -> None:
        super().__init__()
        self._failed = failed

    def fail(self, error: BaseException) -> bool:
        return self.complete(self._failed(_code_of(error)))


def _unless_answered(done: Deferred[None], response: Deferred[R], failed: Callable[[ErrorCode], R]) -> None:
    """Complete the response with an error when the operation failed; otherwise the group answers the parked request."""
    if done.error is not None:
        response.complete(failed(_code_of(done.error)))


def _gather(parts: Sequence[Deferred[list[T]]]) -> Deferred[list[T]]:
    """Return all results in order, once the last part is done."""
    gathered: Deferred[list[T]] = Deferred()
    left = len(parts)

    def finished(_: Deferred[list[T]]) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            gathered.complete([item for part in parts for item in part.result()])

    if not parts:
        gathered.complete([])
    for part in parts:
        part.add_callback(finished)
    return gathered


def commit_error(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """Return a response with the same error for each partition of the request."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponse.OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def txn_commit_error(request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    """Return a response with the same error for each partition of the request."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
