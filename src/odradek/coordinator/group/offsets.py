"""Committed offsets: plain and transactional commits, fetches, deletions, expiration (OffsetMetadataManager).

Operations read the latest state and return records; only the `replay*` methods change offsets. Plain fetches read the committed state.
Fetches that require stable offsets run as write operations, and therefore wait for all earlier operations.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar
from uuid import UUID

from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import ZERO_UUID
from odradek.base.undo import UndoJournal
from odradek.coordinator.group.committed_offsets import (
    OffsetTable,
    PendingOffsets,
    StoredOffset,
    decoded,
    is_expired,
    record_offset_of,
    stored_offset,
    stored_offsets,
)
from odradek.coordinator.group.group import Caller, Group, KeepAlive
from odradek.coordinator.group.records import Commit, has_metadata, offset_commits, offset_tombstone, parse_offset_key
from odradek.coordinator.group.registry import Groups
from odradek.coordinator.group.settings import GroupCounts, GroupSettings
from odradek.coordinator.records import CoordinatorRecord, EncodedRecords
from odradek.coordinator.shard import CoordinatorResult
from odradek.protocol.messages.group_records import OffsetCommitValue
from odradek.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from odradek.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

T = TypeVar("T")
A = TypeVar("A")
C = TypeVar("C", bound=Commit)

CommitTopic = OffsetCommitResponse.OffsetCommitResponseTopic
CommitPartition = OffsetCommitResponse.OffsetCommitResponsePartition
TxnTopic = TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic
TxnPartition = TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition
FetchGroup = OffsetFetchResponse.OffsetFetchResponseGroup
FetchTopic = OffsetFetchResponse.OffsetFetchResponseTopics
FetchPartition = OffsetFetchResponse.OffsetFetchResponsePartitions
DeleteTopic = OffsetDeleteResponse.OffsetDeleteResponseTopic
DeletePartition = OffsetDeleteResponse.OffsetDeleteResponsePartition

INVALID_OFFSET: Final = -1
_NO_RETENTION_TIME: Final = -1
_LONG: Final = 1 << 63
_ANSWERS_KEPT: Final = 4_096
LEAST_VALUE: Final = 20
"""Least bytes of a commit's value, with its version."""
HIGHEST_VERSION: Final = 4
_SHORT: Final = struct.Struct(">h")


class OffsetManager:
    """Committed offsets of one shard."""

    def __init__(
        self, journal: UndoJournal, groups: Groups, settings: GroupSettings, time_ms: Callable[[], int], keep_alive: KeepAlive
    ) -> None:
        self._groups = groups
        self._settings = settings
        self._time_ms = time_ms
        self._keep_alive = keep_alive
        self.topic_id: Callable[[str], UUID] = lambda _: ZERO_UUID
        """Function that returns the id of a topic by name, for requests without topic ids."""
        self.offsets = OffsetTable(journal)
        self.pending = PendingOffsets(journal)
        self._names: dict[bytes, str] = {}
        """Group ids and topic names of the loaded records, so that each string exists once."""
        self.tables: dict[bytes, dict[int, bytes]] = {}
        """While loading: key without the partition -> table of its offsets (`coordinator.shard.EncodedReplay`)."""

    # -- commits -----------------------------------------------------------------------------------------------------------------

    def commit(self, caller: Caller, request: OffsetCommitRequest) -> CoordinatorResult[OffsetCommitResponse]:
        """Commit offsets. Too long metadata fails only its partition.

        Raises KafkaError when the group refuses the member, or does not exist although the request has a generation or epoch.
        """
        is_new = self._groups.find(request.group_id) is None
        group = self._committing_group(caller, request)
        validate = group.validate_offset_commit(
            request.member_id,
            request.group_instance_id,
            request.generation_id_or_member_epoch,
            transactional=False,
            api_version=caller.api_version,
        )
        self._keep_alive(group, request.member_id)
        now_ms = self._time_ms()
        expires_at = _expires_at(now_ms, request.retention_time_ms)
        commits = _Commits(self, self._settings.counts, request.group_id, now_ms, expires_at)
        limit = self._settings.offset_metadata_max_bytes
        topics: list[CommitTopic] = []
        for topic in request.topics:
            taken, answers = _judged(topic.partitions, limit, _commit_answer)
            topics.append(CommitTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers))
            if validate is not None:
                topic_id = self.topic_id(topic.name) if topic.topic_id == ZERO_UUID else topic.topic_id
                for each in taken:
                    validate(topic_id, each.partition_index)
            commits.add(topic.name, taken, topic.topic_id)
        if not commits.records and is_new:
            # Without a commit the group that was just created is removed.
            self._groups.remove(request.group_id)
        return commits.result(OffsetCommitResponse(topics=topics))

    def _committing_group(self, caller: Caller, request: OffsetCommitRequest) -> Group:
        group = self._groups.find(request.group_id)
        if group is not None:
            return group
        if request.generation_id_or_member_epoch < 0:
            # From an admin client, or from a consumer that assigns partitions to itself: a group without members keeps the offsets.
            return self._groups.get_or_create_classic(request.group_id)
        if caller.api_version >= 9:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def commit_transactional(self, caller: Caller, request: TxnOffsetCommitRequest) -> CoordinatorResult[TxnOffsetCommitResponse]:
        """Commit offsets in the producer's transaction; its commit marker makes the offsets visible.

        Raises KafkaError when the group refuses the member, or does not exist although the request has a generation.
        """
        group = self._groups.find(request.group_id)
        if group is None:
            if request.generation_id >= 0:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
            group = self._groups.get_or_create_classic(request.group_id)
        try:
            validate = group.validate_offset_commit(
                request.member_id,
                request.group_instance_id,
                request.generation_id,
                transactional=True,
                api_version=caller.api_version,
            )
            if validate is not None:
                for requested in request.topics:
                    for each in requested.partitions:
                        validate(self.topic_id(requested.name), each.partition_index)
        except KafkaError as error:
            if error.code is ErrorCode.STALE_MEMBER_EPOCH:
                raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) from None
            raise
        now_ms = self._time_ms()
        commits = _Commits(self, self._settings.counts, request.group_id, now_ms)
        limit = self._settings.offset_metadata_max_bytes
        topics: list[TxnTopic] = []
        for topic in request.topics:
            taken, answers = _judged(topic.partitions, limit, _txn_answer)
            topics.append(TxnTopic(name=topic.name, partitions=answers))
            commits.add(topic.name, taken)
        return commits.result(TxnOffsetCommitResponse(topics=topics))

    # -- fetches -----------------------------------------------------------------------------------------------------------------

    def fetch(self, request: OffsetFetchRequest.OffsetFetchRequestGroup, *, require_stable: bool) -> FetchGroup:
        """Return the requested offsets: -1 without an offset; with `require_stable` UNSTABLE_OFFSET_COMMIT during an open transaction."""
        committed = not require_stable
        group = self._fetching_group(request, committed=committed)
        topics: list[FetchTopic] = []
        for topic in request.topics or ():
            answers: list[FetchPartition] = []
            topics.append(FetchTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers))
            table = None if group is None else self.offsets.topic(request.group_id, topic.name, committed=committed)
            for partition in topic.partition_indexes:
                if require_stable and self.pending.has(request.group_id, topic.name, partition):
                    answers.append(_no_offset(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                    continue
                stored = None if table is None else table.committed(partition) if committed else table.get(partition)
                answers.append(_answer(partition, stored, topic.topic_id))
        return FetchGroup(group_id=request.group_id, topics=topics)

    def fetch_all(self, request: OffsetFetchRequest.OffsetFetchRequestGroup, *, require_stable: bool) -> FetchGroup:
        """Return all offsets of the group."""
        committed = not require_stable
        topics: list[FetchTopic] = []
        if self._fetching_group(request, committed=committed) is not None:
            for topic, table in self.offsets.topics(request.group_id, committed=committed):
                answers: list[FetchPartition] = []
                for partition, stored in table.committed_items() if committed else table.items():
                    if require_stable and self.pending.has(request.group_id, topic, partition):
                        answers.append(_no_offset(partition, ErrorCode.UNSTABLE_OFFSET_COMMIT))
                    else:
                        answers.append(_answer(partition, stored, ZERO_UUID))
                if answers:
                    topics.append(FetchTopic(name=topic, partitions=answers))
        return FetchGroup(group_id=request.group_id, topics=topics)

    def _fetching_group(self, request: OffsetFetchRequest.OffsetFetchRequestGroup, *, committed: bool) -> Group | None:
        group = self._groups.find_committed(request.group_id) if committed else self._groups.find(request.group_id)
        if group is None:
            return None
        try:
            group.validate_offset_fetch(request.member_id, request.member_epoch)
        except KafkaError as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                return None
            raise
        return group

    # -- deletions ---------------------------------------------------------------------------------------------------------------

    def delete(self, request: OffsetDeleteRequest) -> CoordinatorResult[OffsetDeleteResponse]:
        """Delete offsets of topics that no member of the group subscribes to. Raises KafkaError when the group refuses the deletion."""
        group = self._groups.get(request.group_id)
        group.validate_offset_delete()
        records: list[CoordinatorRecord] = []
        topics: list[DeleteTopic] = []
        for topic in request.topics:
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed_to_topic(topic.name) else ErrorCode.NONE
            topics.append(
                DeleteTopic(
                    name=topic.name,
                    partitions=[DeletePartition(partition_index=each.partition_index, error_code=code) for each in topic.partitions],
                )
            )
            if code is ErrorCode.NONE:
                records += [
                    offset_tombstone(request.group_id, topic.name, each.partition_index)
                    for each in topic.partitions
                    if self._is_known(request.group_id, topic.name, each.partition_index)
                ]
        self._settings.counts.deletions += len(records)
        return CoordinatorResult(records, OffsetDeleteResponse(topics=topics))

    def _is_known(self, group_id: str, topic: str, partition: int) -> bool:
        return self.offsets.get(group_id, topic, partition) is not None or self.pending.has(group_id, topic, partition)

    def delete_all(self, group_id: str) -> list[CoordinatorRecord]:
        """Return tombstones for all offsets of a group, pending offsets included."""
        records = [offset_tombstone(group_id, topic, partition) for topic, partition, _ in self.offsets.of_group(group_id)]
        records += [
            offset_tombstone(group_id, topic, partition)
            for topic, partition in self.pending.of_group(group_id)
            if self.offsets.get(group_id, topic, partition) is None
        ]
        return records

    def topics_deleted(self, deleted: Mapping[str, Container[UUID]]) -> list[CoordinatorRecord]:
        """Return tombstones for the offsets of deleted topics, given as name -> ids.

        Offsets of new topics with the same name stay.
        """
        records: list[CoordinatorRecord] = []
        for group_id, topics in self.offsets.groups.items():
            for topic in sorted(name for name in deleted if name in topics):
                ids = deleted[topic]
                for partition, stored in topics[topic].items():
                    topic_id = decoded(stored).topic_id
                    if topic_id == ZERO_UUID or topic_id in ids:
                        records.append(offset_tombstone(group_id, topic, partition))
        records += [
            offset_tombstone(group_id, topic, partition)
            for group_id, topic, partition in self.pending.of_topics(frozenset(deleted))
            if self.offsets.get(group_id, topic, partition) is None
        ]
        return records

    def expire(self, group: Group, records: list[CoordinatorRecord]) -> bool:
        """Add tombstones for the group's expired offsets. Return whether the group has no other offsets and no open transaction."""
        group_id = group.group_id
        if group_id not in self.offsets.groups:
            return not self.pending.has_group(group_id)
        expiry = group.offset_expiry()
        if expiry is None:
            return False
        all_expired = True
        now_ms, retention_ms = self._time_ms(), self._settings.offsets_retention_ms
        for topic, table in self.offsets.topics(group_id, committed=False):
            if group.is_subscribed_to_topic(topic):
                all_expired = False
                continue
            for partition, stored in table.items():
                expired = is_expired(stored, now_ms, expiry.base_timestamp, retention_ms)
                if expired and not self.pending.has(group_id, topic, partition):
                    records.append(offset_tombstone(group_id, topic, partition))
                    self._settings.counts.expirations += 1
                else:
                    all_expired = False
        return all_expired and not self.pending.has_group(group_id)

    # -- replay ------------------------------------------------------------------------------------------------------------------

    def replay(
        self, offset: int, producer_id: int, group_id: str, topic: str, partition: int, value: OffsetCommitValue | None, version: int
    ) -> None:
        """Replay a record that this broker has just written."""
        encoded = None if value is None else _SHORT.pack(version) + value.encode(version)
        self.replay_value(offset, producer_id, group_id, topic, partition, encoded)

    def replay_encoded(self, offset: int, producer_id: int, key: bytes | None, value: bytes | None) -> bool:
        """Replay a record in its encoded form. Return False for other records, and for records that have to be decoded."""
        if key is None or (value is not None and (len(value) < LEAST_VALUE or value[0] or value[1] > HIGHEST_VERSION)):
            return False
        parsed = parse_offset_key(key)
        if parsed is None:
            return False
        group_id, topic, partition = self._name(parsed[0]), self._name(parsed[1]), parsed[2]
        self.replay_value(offset, producer_id, group_id, topic, partition, value)
        if producer_id < 0 and value is not None:
            table = self.offsets.topic(group_id, topic, committed=False)
            if table is not None:
                self.tables[key[:-4]] = table.unjournaled()  # type: ignore[assignment]
        else:
            # The table may have been removed; it may be cached under either of the two key types.
            for record_type in (b"\0\0", b"\0\1"):
                self.tables.pop(record_type + key[2:-4], None)
        return True

    def _name(self, name: bytes) -> str:
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = name.decode()
        return known

    def loaded(self) -> None:
        """Drop the data that only loading needs."""
        self._names = {}
        self.tables = {}

    def replay_value(self, offset: int, producer_id: int, group_id: str, topic: str, partition: int, value: bytes | None) -> None:
        """Replay a record with an encoded value, or a tombstone (None)."""
        if value is None:
            self.offsets.remove(group_id, topic, partition)
            self.pending.remove(group_id, topic, partition)
            return
        if self._groups.find(group_id) is None:
            self._groups.get_or_create_classic(group_id)
        stored = stored_offset(offset, value)
        if producer_id < 0:
            self.offsets.put(group_id, topic, partition, stored)
        else:
            self.pending.put(producer_id, group_id, topic, partition, stored)

    def replay_commits(self, producer_id: int, group_id: str, topic: str, stored: Mapping[int, StoredOffset]) -> None:
        """Replay the commits of a topic's partitions (partition -> offset); the effect is that of `replay_value` for each partition."""
        if self._groups.find(group_id) is None:
            self._groups.get_or_create_classic(group_id)
        if producer_id < 0:
            self.offsets.put_all(group_id, topic, stored)
        else:
            for partition, each in stored.items():
                self.pending.put(producer_id, group_id, topic, partition, each)

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Apply or drop the offsets of the producer's transaction."""
        for group_id, topic, partition, stored in self.pending.take(producer_id):
            existing = self.offsets.get(group_id, topic, partition)
            # A later plain commit takes precedence over the transaction's earlier commit.
            if committed and (existing is None or record_offset_of(stored) > record_offset_of(existing)):
                self.offsets.put(group_id, topic, partition, stored)


class _Commits:
    """Commits of one request, encoded when they are added."""

    def __init__(self, offsets: OffsetManager, counts: GroupCounts, group_id: str, now_ms: int, expires_at: int | None = None) -> None:
        self._offsets = offsets
        self._counts = counts
        self._group_id = group_id
        self._now_ms = now_ms
        self._expires_at = expires_at
        self._topics: list[tuple[str, list[tuple[bytes, bytes]]]] = []
        self.records: list[tuple[bytes, bytes | None]] = []

    def add(self, topic: str, commits: Sequence[Commit], topic_id: UUID = ZERO_UUID) -> None:
        encoded = offset_commits(
            self._group_id, topic, commits, commit_timestamp=self._now_ms, expire_timestamp=self._expires_at, topic_id=topic_id
        )
        self.records += encoded
        self._counts.commits += len(encoded)
        self._topics.append((topic, encoded))

    def result(self, response: T) -> CoordinatorResult[T]:
        return CoordinatorResult([], response, encoded=EncodedRecords(self.records, self._replay) if self.records else None)

    def _replay(self, offset: int, producer_id: int) -> None:
        for topic, encoded in self._topics:
            if encoded:
                self._offsets.replay_commits(producer_id, self._group_id, topic, stored_offsets(offset, encoded))
                offset += len(encoded)


@lru_cache(_ANSWERS_KEPT)
def _commit_answer(partition: int, code: ErrorCode) -> CommitPartition:
    """Return a cached response for a partition. Several responses share the object, so it must not be changed."""
    return CommitPartition(partition_index=partition, error_code=code)


@lru_cache(_ANSWERS_KEPT)
def _txn_answer(partition: int, code: ErrorCode) -> TxnPartition:
    """Return a cached response for a partition; see `_commit_answer`."""
    return TxnPartition(partition_index=partition, error_code=code)


def _expires_at(now_ms: int, retention_time_ms: int) -> int | None:
    """Return the expiration time of a commit with its own retention time; None without.

    A sum of 2^63 or more wraps, as in Java: such a commit has already expired.
    """
    if retention_time_ms == _NO_RETENTION_TIME:
        return None
    return (now_ms + retention_time_ms + _LONG) % (2 * _LONG) - _LONG


def _judged(commits: Sequence[C], limit: int, answer: Callable[[int, ErrorCode], A]) -> tuple[Sequence[C], list[A]]:
    """Return the accepted commits, and a response for each commit. Too long metadata fails only its partition."""
    good = ErrorCode.NONE
    if not has_metadata(commits):
        return commits, [answer(each.partition_index, good) for each in commits]
    codes = [_metadata_error(each.committed_metadata, limit) for each in commits]
    judged = list(zip(commits, codes, strict=True))
    return [each for each, code in judged if code is good], [answer(each.partition_index, code) for each, code in judged]


def _metadata_error(metadata: str | None, limit: int) -> ErrorCode:
    # A character has at most 2 UTF-16 units, so most texts need no counting.
    if metadata is None or 2 * len(metadata) <= limit or _java_length(metadata) <= limit:
        return ErrorCode.NONE
    return ErrorCode.OFFSET_METADATA_TOO_LARGE


def _java_length(text: str) -> int:
    """Return the number of UTF-16 units; offset.metadata.max.bytes counts these units instead of bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def _no_offset(partition: int, error: ErrorCode = ErrorCode.NONE) -> FetchPartition:
    return FetchPartition(
        partition_index=partition, committed_offset=INVALID_OFFSET, committed_leader_epoch=-1, metadata="", error_code=error
    )


def _answer(partition: int, stored: StoredOffset | None, topic_id: UUID) -> FetchPartition:
    if stored is None:
        return _no_offset(partition)
    value = decoded(stored)
    if ZERO_UUID not in (topic_id, value.topic_id) and topic_id != value.topic_id:
        # The commit was for a deleted topic of the same name.
        return _no_offset(partition)
    return FetchPartition(
        partition_index=partition,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=ErrorCode.NONE,
    )
