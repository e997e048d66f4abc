"""Transaction verification before an append (KIP-890): the coordinator confirms that the partition belongs to the producer's transaction.

Only transactional batches of partitions without that transaction under way are asked about. The log issues a guard before the question and
takes it back with the append, so that an end-transaction marker written in between makes the append fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.records.batch import BatchHeader, iter_headers
from odradek.replication.appender import Appender, Entry
from odradek.replication.delayed_produce import Appends, PartitionAppend
from odradek.replication.hosted_partitions import HostedPartitions

if TYPE_CHECKING:
    from odradek.storage.append import AppendOrigin
    from odradek.storage.producer_state import VerificationGuard

_RETRIED_AS_NOT_ENOUGH_REPLICAS = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Errors of the coordinator that older producers would not retry; NOT_ENOUGH_REPLICAS they do, without refreshing metadata."""


class TransactionVerifier(Protocol):
    """The way to the transaction coordinator."""

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> Deferred[Mapping[TopicPartition, ErrorCode]] | None:
        """The partitions that may not be written, with the reason; None when the coordinator need not be asked."""
        ...


class NoCoordinator:
    """For a broker without a transaction coordinator: nothing can be verified, clients are told to try again."""

    def verify(
        self, transactional_id: str, producer_id: int, producer_epoch: int, partitions: Sequence[TopicPartition]
    ) -> Deferred[Mapping[TopicPartition, ErrorCode]] | None:
        verdict: Deferred[Mapping[TopicPartition, ErrorCode]] = Deferred()
        verdict.complete(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return verdict


class VerifiedAppender:
    """Client appends. With `verifier` None nothing is verified (transaction.partition.verification.enable=false)."""

    __slots__ = ("_appender", "_partitions", "verifier")

    def __init__(self, partitions: HostedPartitions, appender: Appender, verifier: TransactionVerifier | None) -> None:
        self._partitions = partitions
        self._appender = appender
        self.verifier = verifier

    def append(
        self,
        entries: Sequence[Entry],
        *,
        required_acks: int,
        timeout_ms: int,
        origin: AppendOrigin,
        transactional_id: str | None,
        internal_topics_allowed: bool = False,
    ) -> Appends | Deferred[Appends]:
        """As `Appender.append`, after the transaction has been verified where that is needed.

        INVALID_PRODUCER_ID_MAPPING (raised) when the transactional batches name more than one producer.
        """
        verifier = self.verifier
        if transactional_id is not None and verifier is not None:
            producer, batches = _transactional_batches(entries)
            if producer is not None:
                guards, errors = self._guards(batches)
                verdict = verifier.verify(transactional_id, producer[0], producer[1], tuple(guards)) if guards else None
                if verdict is not None or errors:
                    return self._append_verified(verdict or _nothing_refused(), entries, errors, guards, required_acks, timeout_ms, origin)
        return self._appender.append(
            entries, required_acks=required_acks, timeout_ms=timeout_ms, origin=origin, internal_topics_allowed=internal_topics_allowed
        )

    def _guards(
        self, batches: Mapping[TopicPartition, BatchHeader]
    ) -> tuple[dict[TopicPartition, VerificationGuard], dict[TopicPartition, ErrorCode]]:
        guards: dict[TopicPartition, VerificationGuard] = {}
        errors: dict[TopicPartition, ErrorCode] = {}
        for topic_partition, header in batches.items():
            try:
                log = self._partitions.find(topic_partition).local_log(-1, leader_only=True)
                guard = log.start_verification(header.producer_id, header.base_sequence, header.producer_epoch)
            except KafkaError as error:
                errors[topic_partition] = error.code
                continue
            if guard is not None:
                guards[topic_partition] = guard
        return guards, errors

    def _append_verified(
        self,
        verdict: Deferred[Mapping[TopicPartition, ErrorCode]],
        entries: Sequence[Entry],
        errors: Mapping[TopicPartition, ErrorCode],
        guards: Mapping[TopicPartition, VerificationGuard],
        required_acks: int,
        timeout_ms: int,
        origin: AppendOrigin,
    ) -> Deferred[Appends]:
        result: Deferred[Appends] = Deferred()

        def verified(done: Deferred[Mapping[TopicPartition, ErrorCode]]) -> None:
            refusals = dict.fromkeys(guards, ErrorCode.NETWORK_EXCEPTION) if done.error is not None else done.result()
            refused = [_refusal(key, code) for key, code in {**errors, **refusals}.items() if code is not ErrorCode.NONE]
            without = {append.topic_partition for append in refused}
            answer = self._appender.append(
                [entry for entry in entries if entry[0] not in without],
                required_acks=required_acks,
                timeout_ms=timeout_ms,
                origin=origin,
                guards=guards,
            )
            if isinstance(answer, Deferred):
                answer.add_callback(lambda later: result.complete(refused + later.result()))
            else:
                result.complete(refused + answer)

        verdict.add_callback(verified)
        return result


def _nothing_refused() -> Deferred[Mapping[TopicPartition, ErrorCode]]:
    verdict: Deferred[Mapping[TopicPartition, ErrorCode]] = Deferred()
    verdict.complete({})
    return verdict


def _transactional_batches(entries: Sequence[Entry]) -> tuple[tuple[int, int] | None, dict[TopicPartition, BatchHeader]]:
    producers: set[tuple[int, int]] = set()
    batches: dict[TopicPartition, BatchHeader] = {}
    for topic_partition, records in entries:
        for _, header in iter_headers(records):
            if header.is_transactional and header.has_producer_id:
                producers.add((header.producer_id, header.producer_epoch))
                batches.setdefault(topic_partition, header)
    if len(producers) > 1:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "Transactional records contained more than one producer ID")
    return next(iter(producers), None), batches


def _refusal(topic_partition: TopicPartition, code: ErrorCode) -> PartitionAppend:
    if code is ErrorCode.INVALID_TXN_STATE:
        return PartitionAppend(topic_partition, code, error_message="Partition was not added to the transaction")
    if code in _RETRIED_AS_NOT_ENOUGH_REPLICAS:
        message = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return PartitionAppend(topic_partition, ErrorCode.NOT_ENOUGH_REPLICAS, error_message=message)
    return PartitionAppend(topic_partition, code)
