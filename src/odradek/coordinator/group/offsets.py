"""Committed offsets: commits, plain and transactional, fetches, deletions, expiry (OffsetMetadataManager).

Operations decide on the latest state and return records; `replay*` alone changes offsets. Plain fetches read what is committed; those that
require stable offsets run as write operations and so wait for everything that is under way.
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
"""No value of a commit is shorter, version included."""
HIGHEST_VERSION: Final = 4
_SHORT: Final = struct.Struct(">h")


class OffsetManager:
    """One shard's offsets."""

    def __init__(
        self, journal: UndoJournal, groups: Groups, settings: GroupSettings, time_ms: Callable[[], int], keep_alive: KeepAlive
    ) -> None:
        self._groups = groups
        self._settings = settings
        self._time_ms = time_ms
        self._keep_alive = keep_alive
        self.topic_id: Callable[[str], UUID] = lambda _: ZERO_UUID
        """The id of a topic by name, for requests that have none."""
        self.offsets = OffsetTable(journal)
        self.pending = PendingOffsets(journal)
        self._names: dict[bytes, str] = {}
        """Group ids and topic names seen while loading, so that each exists once."""
        self.tables: dict[bytes, dict[int, bytes]] = {}
        """While loading: the beginning of a key, without the partition -> where its offsets go (`coordinator.shard.EncodedReplay`)."""

    # -- commits -----------------------------------------------------------------------------------------------------------------

    def commit(self, caller: Caller, request: OffsetCommitRequest) -> CoordinatorResult[OffsetCommitResponse]:
        """Fails as a whole with what the group says to the member; metadata that is too long fails its partition alone."""
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
            # Nothing came of it: no group either.
            self._groups.remove(request.group_id)
        return commits.result(OffsetCommitResponse(topics=topics))

    def _committing_group(self, caller: Caller, request: OffsetCommitRequest) -> Group:
        group = self._groups.find(request.group_id)
        if group is not None:
            return group
        if request.generation_id_or_member_epoch < 0:
            # From an admin client, or from a consumer that takes its partitions itself: a group without members keeps the offsets.
            return self._groups.get_or_create_classic(request.group_id)
        if caller.api_version >= 9:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
        raise KafkaError(ErrorCode.ILLEGAL_GENERATION)

    def commit_transactional(self, caller: Caller, request: TxnOffsetCommitRequest) -> CoordinatorResult[TxnOffsetCommitResponse]:
        """The offsets become visible with the marker of the producer's transaction."""
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
        """The offsets asked for; -1 where there is none, UNSTABLE_OFFSET_COMMIT where a transaction is open and that matters."""
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
        """All offsets of the group."""
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
        """OffsetDelete: of topics that no member of the group is subscribed to."""
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
        """Tombstones for everything that a group has, pending offsets included."""
        records = [offset_tombstone(group_id, topic, partition) for topic, partition, _ in self.offsets.of_group(group_id)]
        records += [
            offset_tombstone(group_id, topic, partition)
            for topic, partition in self.pending.of_group(group_id)
            if self.offsets.get(group_id, topic, partition) is None
        ]
        return records

    def topics_deleted(self, deleted: Mapping[str, Container[UUID]]) -> list[CoordinatorRecord]:
        """Tombstones for all offsets of topics that are no more, by name and ids; not for those of new topics of the same names."""
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
        """Adds tombstones for the group's expired offsets; True when nothing of it remains, no open transaction either."""
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
        """A record as this broker wrote it just now."""
        encoded = None if value is None else _SHORT.pack(version) + value.encode(version)
        self.replay_value(offset, producer_id, group_id, topic, partition, encoded)

    def replay_encoded(self, offset: int, producer_id: int, key: bytes | None, value: bytes | None) -> bool:
        """A record as the log has it; False when it is none of ours, or one that has to be looked at closely."""
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
            # Its table may be gone, whichever of the two types of keys it was known by.
            for record_type in (b"\0\0", b"\0\1"):
                self.tables.pop(record_type + key[2:-4], None)
        return True

    def _name(self, name: bytes) -> str:
        known = self._names.get(name)
        if known is None:
            known = self._names[name] = name.decode()
        return known

    def loaded(self) -> None:
        """What only loading needed is dropped."""
        self._names = {}
        self.tables = {}

    def replay_value(self, offset: int, producer_id: int, group_id: str, topic: str, partition: int, value: bytes | None) -> None:
        """As `replay`, the value as the log has it."""
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
        """Partition -> offset: as `replay_value`, one by one."""
        if self._groups.find(group_id) is None:
            self._groups.get_or_create_classic(group_id)
        if producer_id < 0:
            self.offsets.put_all(group_id, topic, stored)
        else:
            for partition, each in stored.items():
                self.pending.put(producer_id, group_id, topic, partition, each)

    def replay_end_transaction(self, producer_id: int, *, committed: bool) -> None:
        """Applies or drops what the producer's transaction has written."""
        for group_id, topic, partition, stored in self.pending.take(producer_id):
            existing = self.offsets.get(group_id, topic, partition)
            # A later plain commit wins over what the transaction wrote before it.
            if committed and (existing is None or record_offset_of(stored) > record_offset_of(existing)):
                self.offsets.put(group_id, topic, partition, stored)


class _Commits:
    """What one request commits, encoded as it comes."""

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
    """Shared by all responses that say the same: it must not be changed."""
    return CommitPartition(partition_index=partition, error_code=code)


@lru_cache(_ANSWERS_KEPT)
def _txn_answer(partition: int, code: ErrorCode) -> TxnPartition:
    """As `_commit_answer`."""
    return TxnPartition(partition_index=partition, error_code=code)


def _expires_at(now_ms: int, retention_time_ms: int) -> int | None:
    """When a commit expires that says how long it is to be kept. A sum beyond 2^63 wraps, as in Java: such a commit has expired already."""
    if retention_time_ms == _NO_RETENTION_TIME:
        return None
    return (now_ms + retention_time_ms + _LONG) % (2 * _LONG) - _LONG


def _judged(commits: Sequence[C], limit: int, answer: Callable[[int, ErrorCode], A]) -> tuple[Sequence[C], list[A]]:
    """What of them is taken, and the answer to each: too long metadata fails its partition alone."""
    good = ErrorCode.NONE
    if not has_metadata(commits):
        return commits, [answer(each.partition_index, good) for each in commits]
    codes = [_metadata_error(each.committed_metadata, limit) for each in commits]
    judged = list(zip(commits, codes, strict=True))
    return [each for each, code in judged if code is good], [answer(each.partition_index, code) for each, code in judged]


def _metadata_error(metadata: str | None, limit: int) -> ErrorCode:
    # A character is two UTF-16 units at most: mostly nothing has to be counted.
    if metadata is None or 2 * len(metadata) <= limit or _java_length(metadata) <= limit:
        return ErrorCode.NONE
    return ErrorCode.OFFSET_METADATA_TOO_LARGE


def _java_length(text: str) -> int:
    """offset.metadata.max.bytes counts UTF-16 units, whatever its name says."""
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
        # Committed for a topic of the same name that has been deleted since.
        return _no_offset(partition)
    return FetchPartition(
        partition_index=partition,
        committed_offset=value.offset,
        committed_leader_epoch=value.leader_epoch,
        metadata=value.metadata,
        error_code=ErrorCode.NONE,
    )
