"""Committed offsets: requests, meaning of the responses, and the time of the next automatic commit.

Source: org.apache.kafka.clients.consumer.internals.ConsumerCoordinator (OffsetCommitResponseHandler, OffsetFetchResponseHandler).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError, code_of
from odradek.base.ids import TopicPartition
from odradek.client.types import ConsumerGroupMetadata, OffsetAndMetadata
from odradek.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from odradek.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse

LAST_BY_NAME = 9
"""Last version of OffsetCommit and OffsetFetch that names topics; later versions use topic ids (KIP-848)."""
LAST_OF_ONE_GROUP = 7
"""Last version of OffsetFetch that asks for a single group (KIP-709)."""

Offsets = Mapping[TopicPartition, OffsetAndMetadata]


class CommitFailed(KafkaError):
    """Failed commit of a consumer that has left the group (org.apache.kafka.clients.consumer.CommitFailedException).

    Another member may have the partitions, and reads from the last committed offsets.
    """

    def __init__(self, code: ErrorCode, group_id: str) -> None:
        super().__init__(
            code,
            f"offsets of group {group_id} are not committed: the group has rebalanced and may have assigned the partitions to "
            "another member; if poll() is called too rarely, raise max.poll.interval.ms or lower max.poll.records",
        )


class Verdict(Enum):
    """Meaning of a response for a commit or a fetch of offsets."""

    DONE = "done"
    AGAIN = "again"
    MOVED = "moved"
    """Retry at another coordinator."""
    OUTDATED = "outdated"
    """Retry with the member's new epoch."""
    FAILED = "failed"


class CommitOutcome(NamedTuple):
    """Outcome of a commit; `error` says why the verdict is not DONE."""

    verdict: Verdict
    error: KafkaError | None = None


_MOVED = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT})
_AGAIN = frozenset({ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNSTABLE_OFFSET_COMMIT})
_NO_MEMBER = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_MEMBER_EPOCH})


def commit_request(offsets: Offsets, member: ConsumerGroupMetadata) -> OffsetCommitRequest:
    """Build the request that commits `offsets` as `member`."""
    by_topic: defaultdict[str, list[OffsetCommitRequest.OffsetCommitRequestPartition]] = defaultdict(list)
    for (topic, number), offset in offsets.items():
        by_topic[topic].append(
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=number,
                committed_offset=offset.offset,
                committed_leader_epoch=-1 if offset.leader_epoch is None else offset.leader_epoch,
                committed_metadata=offset.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=parts) for topic, parts in by_topic.items()],
    )


def commit_outcomes(offsets: Offsets, response: OffsetCommitResponse, group_id: str) -> dict[TopicPartition, CommitOutcome]:
    """Return the outcome of each of `offsets`. A partition that the response leaves out counts as failed."""
    answered = {
        TopicPartition(topic.name, part.partition_index): code_of(part.error_code) for topic in response.topics for part in topic.partitions
    }
    return {each: _commit_verdict(answered.get(each, ErrorCode.UNKNOWN_SERVER_ERROR), each, group_id) for each in offsets}


def worst_outcome(outcomes: Iterable[CommitOutcome]) -> CommitOutcome:
    """Return the most severe of the outcomes; DONE for an empty iterable."""
    return max(outcomes, key=lambda outcome: _SEVERITY[outcome.verdict], default=CommitOutcome(Verdict.DONE))


_SEVERITY = {verdict: rank for rank, verdict in enumerate((Verdict.DONE, Verdict.AGAIN, Verdict.OUTDATED, Verdict.MOVED, Verdict.FAILED))}


def _commit_verdict(error: ErrorCode, partition: TopicPartition, group_id: str) -> CommitOutcome:
    if error is ErrorCode.NONE:
        return CommitOutcome(Verdict.DONE)
    if error in _NO_MEMBER:
        return CommitOutcome(Verdict.FAILED, CommitFailed(error, group_id))
    refused = KafkaError(error, f"committing the offset of {partition} for group {group_id}")
    if error is ErrorCode.STALE_MEMBER_EPOCH:
        return CommitOutcome(Verdict.OUTDATED, CommitFailed(error, group_id))
    if error in _MOVED:
        return CommitOutcome(Verdict.MOVED, refused)
    return CommitOutcome(Verdict.AGAIN if error in _AGAIN else Verdict.FAILED, refused)


def committed_request(partitions: Iterable[TopicPartition], member: ConsumerGroupMetadata, *, of_one_group: bool) -> OffsetFetchRequest:
    """Build the request for the group's committed offsets.

    The broker answers UNSTABLE_OFFSET_COMMIT for offsets of open transactions (KIP-447).
    """
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for topic, number in partitions:
        by_topic[topic].append(number)
    if of_one_group:
        topics = [OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=numbers) for topic, numbers in by_topic.items()]
        return OffsetFetchRequest(group_id=member.group_id, topics=topics, require_stable=True)
    group = OffsetFetchRequest.OffsetFetchRequestGroup(
        group_id=member.group_id,
        member_id=member.member_id or None,
        member_epoch=member.generation_id,
        topics=[OffsetFetchRequest.OffsetFetchRequestTopics(name=topic, partition_indexes=numbers) for topic, numbers in by_topic.items()],
    )
    return OffsetFetchRequest(groups=[group], require_stable=True)


class CommittedAnswer(NamedTuple):
    """Answer for one partition; with the verdict DONE `offset` is the committed offset (None without a committed offset)."""

    verdict: Verdict
    offset: OffsetAndMetadata | None = None
    error: KafkaError | None = None


class CommittedOutcome(NamedTuple):
    """Answer for all partitions; with the verdict DONE `offsets` has their committed offsets (None without a committed offset)."""

    verdict: Verdict
    offsets: Mapping[TopicPartition, OffsetAndMetadata | None]
    error: KafkaError | None = None


def committed_outcome(answers: Mapping[TopicPartition, CommittedAnswer]) -> CommittedOutcome:
    """Return the most severe verdict of the answers, with the offsets if it is DONE."""
    worst = max(answers.values(), key=lambda answer: _SEVERITY[answer.verdict], default=CommittedAnswer(Verdict.DONE))
    offsets = {partition: answer.offset for partition, answer in answers.items()} if worst.verdict is Verdict.DONE else {}
    return CommittedOutcome(worst.verdict, offsets, worst.error)


def committed_answers(
    partitions: Iterable[TopicPartition], response: OffsetFetchResponse, group_id: str
) -> dict[TopicPartition, CommittedAnswer]:
    """Return the answer for each of `partitions`. An error of the whole group counts for each partition."""
    group = next((group for group in response.groups if group.group_id == group_id), None)
    error = code_of(group.error_code if group is not None else response.error_code)
    topics = group.topics if group is not None else response.topics
    answered = {TopicPartition(topic.name, part.partition_index): part for topic in topics for part in topic.partitions}
    found: dict[TopicPartition, CommittedAnswer] = {}
    for partition in partitions:
        part = answered.get(partition)
        if error is not ErrorCode.NONE:
            found[partition] = _not_told(error, KafkaError(error, f"committed offsets of group {group_id}"))
        elif part is None or part.error_code:
            code = ErrorCode.UNKNOWN_SERVER_ERROR if part is None else code_of(part.error_code)
            found[partition] = _not_told(code, KafkaError(code, f"committed offsets of group {group_id}, {partition}"))
        elif part.committed_offset < 0:
            found[partition] = CommittedAnswer(Verdict.DONE)
        else:
            epoch = part.committed_leader_epoch if part.committed_leader_epoch >= 0 else None
            found[partition] = CommittedAnswer(Verdict.DONE, OffsetAndMetadata(part.committed_offset, epoch, part.metadata or ""))
    return found


def _not_told(code: ErrorCode, refused: KafkaError) -> CommittedAnswer:
    if code in _MOVED:
        return CommittedAnswer(Verdict.MOVED, error=refused)
    if code is ErrorCode.STALE_MEMBER_EPOCH:
        return CommittedAnswer(Verdict.OUTDATED, error=refused)
    again = code in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    return CommittedAnswer(Verdict.AGAIN if again else Verdict.FAILED, error=refused)


class AutoCommit:
    """Schedule of automatic commits (auto.commit.interval.ms), and the offsets that are known to be committed. Times are monotonic ms."""

    __slots__ = ("_at_ms", "_interval_ms", "_known", "_under_way")

    def __init__(self, interval_ms: int, now_ms: int) -> None:
        self._interval_ms = interval_ms
        self._at_ms = now_ms + interval_ms
        self._under_way = False
        self._known: dict[TopicPartition, int] = {}

    def due(self, now_ms: int) -> bool:
        """Return whether an automatic commit is due; False while an automatic commit is under way."""
        return not self._under_way and now_ms >= self._at_ms

    def changed(self, offsets: Offsets) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that are not known to be committed."""
        return {partition: offset for partition, offset in offsets.items() if self._known.get(partition) != offset.offset}

    def began(self) -> None:
        """Note that an automatic commit is under way."""
        self._under_way = True

    def ended(self, now_ms: int, pause_ms: int | None = None) -> None:
        """Note that the automatic commit has been answered.

        `pause_ms` is the time until the next attempt after a failure that may pass; None waits for the interval.
        """
        self._under_way = False
        self._at_ms = now_ms + (self._interval_ms if pause_ms is None else pause_ms)

    def note(self, offsets: Offsets) -> None:
        """Note that these offsets are committed, by an automatic commit or another one."""
        for partition, offset in offsets.items():
            self._known[partition] = offset.offset

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the committed offsets of these partitions: they are given up, or a commit of them is under way."""
        for partition in partitions:
            self._known.pop(partition, None)
