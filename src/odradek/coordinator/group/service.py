"""The group coordinator of a broker: requests in, answers out, each by the partition its group belongs to.

Every method takes a request as it was decoded and hands out the response, errors included, in the shape its API has for them.
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
"""Has the transaction coordinator say that the partition is part of the producer's transaction: (partition, request, API version) -> the
guard for the append, or KafkaError."""

_FETCH_ERRORS = {
    # Consumers of old retry NOT_COORDINATOR, and look for the coordinator again, but know nothing of these.
    ErrorCode.COORDINATOR_NOT_AVAILABLE: ErrorCode.NOT_COORDINATOR,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.NOT_COORDINATOR,
}


class GroupCoordinator:
    """See the module's text. Lives on the loop; `partition_count` is that of `__consumer_offsets`."""

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
        """None: nothing is verified."""

    def partition_for(self, group_id: str) -> TopicPartition:
        """The partition that holds the group."""
        return TopicPartition(self._topic, partition_of(group_id, self._partition_count()))

    # -- members -------------------------------------------------------------------------------------------------------------------

    def join_group(self, caller: Caller, request: JoinGroupRequest) -> Deferred[JoinGroupResponse]:
        """Answered when the group has rebalanced, or at once."""
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
        """Answered when the leader's assignment is stored, or at once."""
        if not request.group_id:
            return Deferred.of(SyncGroupResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        response: Deferred[SyncGroupResponse] = Deferred()
        written = self.runtime.write(self.partition_for(request.group_id), lambda shard: shard.sync(request, response))
        written.add_callback(lambda done: _unless_answered(done, response, lambda code: SyncGroupResponse(error_code=code)))
        return response

    def heartbeat(self, request: HeartbeatRequest) -> Deferred[HeartbeatResponse]:
        """While the group is being loaded the member may go on."""
        if not request.group_id:
            return Deferred.of(HeartbeatResponse(error_code=ErrorCode.INVALID_GROUP_ID))

        def failed(code: ErrorCode) -> HeartbeatResponse:
            return HeartbeatResponse(error_code=ErrorCode.NONE if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS else code)

        return self._write(request.group_id, lambda shard: shard.heartbeat(request), failed)

    def leave_group(self, request: LeaveGroupRequest) -> Deferred[LeaveGroupResponse]:
        """`members` names who leaves, whatever the version."""
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
        """A member of the consumer protocol joins, goes on, or leaves."""
        try:
            check_heartbeat(request, caller.api_version, self._settings.consumer_assignors)
        except KafkaError as error:
            return Deferred.of(ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message))
        response: Deferred[ConsumerGroupHeartbeatResponse] = Deferred()

        def written(done: Deferred[ConsumerGroupHeartbeatResponse]) -> None:
            if done.error is None:
                response.complete(done.result())
                return
            message = done.error.message if isinstance(done.error, KafkaError) else None
            response.complete(ConsumerGroupHeartbeatResponse(error_code=_code_of(done.error), error_message=message))

        partition = self.partition_for(request.group_id)
        self.runtime.write(partition, lambda shard: shard.consumer_heartbeat(caller, request)).add_callback(written)
        return response

    # -- offsets -------------------------------------------------------------------------------------------------------------------

    def commit_offsets(self, caller: Caller, request: OffsetCommitRequest) -> Deferred[OffsetCommitResponse]:
        """Without a group id as well: simple consumers of old."""
        return self._write(request.group_id, lambda shard: shard.offsets.commit(caller, request), lambda code: commit_error(request, code))

    def commit_transactional_offsets(self, caller: Caller, request: TxnOffsetCommitRequest) -> Deferred[TxnOffsetCommitResponse]:
        """Into the producer's transaction, once that is known to be open."""
        if not request.group_id:
            return Deferred.of(txn_commit_error(request, ErrorCode.INVALID_GROUP_ID))
        partition = self.partition_for(request.group_id)
        response: Deferred[TxnOffsetCommitResponse] = Deferred()
        verified: Deferred[object | None] = (
            Deferred.of(None) if self.verify is None else self.verify(partition, request, caller.api_version)
        )

        def write(guard: Deferred[object | None]) -> None:
            if guard.error is not None:
                # Nobody who heard NOT_LEADER_OR_FOLLOWER would look for the coordinator that there is now.
                response.complete(txn_commit_error(request, append_error_code(_code_of(guard.error))))
                return
            self.runtime.write_transactional(
                partition,
                request.producer_id,
                request.producer_epoch,
                guard.result(),
                lambda shard: shard.offsets.commit_transactional(caller, request),
            ).add_callback(lambda done: _pass_on(done, response, lambda code: txn_commit_error(request, code)))

        verified.add_callback(write)
        return response

    def fetch_offsets(self, request: OffsetFetchRequest.OffsetFetchRequestGroup, *, require_stable: bool) -> Deferred[FetchGroup]:
        """One group; `topics` None asks for all its offsets."""

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
        """Those this broker coordinates."""
        states = frozenset(state.lower() for state in request.states_filter)
        types = frozenset(name.lower() for name in request.types_filter)
        try:
            listed = self.runtime.read_all(lambda shard: shard.list_groups(states, types))
        except KafkaError as error:
            return ListGroupsResponse(error_code=error.code)
        groups: list[ListedGroup] = [group for part in listed for group in part]
        return ListGroupsResponse(error_code=ErrorCode.NONE, groups=groups)

    def describe_groups(self, caller: Caller, group_ids: Sequence[str]) -> Iterator[DescribedGroup]:
        """Yield the groups as they are when asked for, those of a partition together."""
        for partition, ids in self._by_partition(group_ids).items():
            for group_id in ids:
                try:
                    yield self.runtime.read(partition, partial(_described, caller, group_id))
                except KafkaError as error:
                    yield DescribedGroup(group_id=group_id, error_code=error.code)

    def describe_consumer_groups(self, group_ids: Sequence[str]) -> Iterator[DescribedConsumerGroup]:
        """Yield the groups as they are when asked for, those without a name first, those of a partition together."""
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
        """Empty groups, with their offsets."""
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

    # -- the cluster ---------------------------------------------------------------------------------------------------------------

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Each new image of the cluster, after the partitions have taken their roles."""
        before = delta.topics.image.by_id
        deleted: dict[str, set[UUID]] = {}
        for topic_id in delta.topics.deleted_topic_ids & before.keys():
            deleted.setdefault(before[topic_id].name, set()).add(topic_id)
        if deleted:
            self.runtime.write_all(lambda shard: shard.topics_deleted(deleted))
        self.runtime.publish(delta, image)

    def close(self) -> None:
        """Answers whoever waits; nothing is served any more."""
        self.runtime.close()

    # -- answering -----------------------------------------------------------------------------------------------------------------

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
    """A reply whose errors are turned into what the client gets."""

    __slots__ = ("_failed",)

    def __init__(self, failed: Callable[[ErrorCode], R]) -> None:
        super().__init__()
        self._failed = failed

    def fail(self, error: BaseException) -> bool:
        return self.complete(self._failed(_code_of(error)))


def _pass_on(done: Deferred[R], response: Deferred[R], failed: Callable[[ErrorCode], R]) -> None:
    response.complete(done.result() if done.error is None else failed(_code_of(done.error)))


def _unless_answered(done: Deferred[None], response: Deferred[R], failed: Callable[[ErrorCode], R]) -> None:
    """A parked request is answered by its group, but when it never got there."""
    if done.error is not None:
        response.complete(failed(_code_of(done.error)))


def _gather(parts: Sequence[Deferred[list[T]]]) -> Deferred[list[T]]:
    """All of them, in order, once the last is done."""
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
    """Every partition of the request with the same error."""
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
    """Every partition of the request with the same error."""
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
