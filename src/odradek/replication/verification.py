"""Transaction verification before an append (KIP-890): the coordinator confirms that the partition belongs to the producer's transaction.

Only transactional batches are verified, in partitions without that transaction in progress. The log issues a guard before the question and
takes it back with the append. So an end-transaction marker that is written in between makes the append fail. While the producer's last
transaction is still ending, the question is repeated, each time with a new guard: the marker takes the earlier guard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.ids import TopicPartition
from odradek.records.batch import HEADER_SIZE, TRANSACTIONAL_MASK, BatchHeader, iter_headers, read_header
from odradek.replication.appender import Appender, Entry
from odradek.replication.delayed_produce import Appends, PartitionAppend
from odradek.replication.hosted_partitions import HostedPartitions

if TYPE_CHECKING:
    from odradek.storage.append import AppendOrigin
    from odradek.storage.producer_state import VerificationGuard

_RETRIED_AS_NOT_ENOUGH_REPLICAS = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Coordinator errors that older producers would not retry. They do retry NOT_ENOUGH_REPLICAS, without refreshing metadata."""


class Support(NamedTuple):
    """Features of a producer, from the version of its request (AddPartitionsToTxnManager.TransactionSupportedOperation)."""

    adds: bool
    """Whether the producer uses transaction version 2: its records add their partitions to the transaction."""
    knows_abortable: bool
    """Whether the producer understands TRANSACTION_ABORTABLE."""


def support_of_produce(version: int) -> Support:
    """Return the features of a producer by the version of a Produce request."""
    return Support(version >= 12, version >= 11)


def support_of_offset_commit(version: int) -> Support:
    """Return the features of a producer by the version of a TxnOffsetCommit request."""
    return Support(version >= 5, version >= 4)


Again = Callable[[], Sequence[TopicPartition]]


class TransactionVerifier(Protocol):
    """Client of the transaction coordinator."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        support: Support,
        again: Again | None = None,
    ) -> Deferred[Mapping[TopicPartition, ErrorCode]]:
        """Return the partitions that may not be written, with their errors.

        With `again`, CONCURRENT_TRANSACTIONS is retried for a moment, each time about the partitions that `again` returns.
        """
        ...


class NoCoordinator:
    """Verifier of a broker without a transaction coordinator: every partition gets COORDINATOR_NOT_AVAILABLE, which clients retry."""

    def verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        support: Support,
        again: Again | None = None,
    ) -> Deferred[Mapping[TopicPartition, ErrorCode]]:
        verdict: Deferred[Mapping[TopicPartition, ErrorCode]] = Deferred()
        verdict.complete(dict.fromkeys(partitions, ErrorCode.COORDINATOR_NOT_AVAILABLE))
        return verdict


class VerifiedAppender:
    """Appender of clients' records, with verification.

    Without `verify` (transaction.partition.verification.enable=false) only producers whose records add partitions are verified.
    """

    __slots__ = ("_appender", "_partitions", "verifier", "verify")

    def __init__(self, partitions: HostedPartitions, appender: Appender, verifier: TransactionVerifier, *, verify: bool = True) -> None:
        self._partitions = partitions
        self._appender = appender
        self.verifier = verifier
        self.verify = verify

    def append(
        self,
        entries: Sequence[Entry],
        *,
        required_acks: int,
        timeout_ms: int,
        origin: AppendOrigin,
        transactional_id: str | None,
        support: Support,
        internal_topics_allowed: bool = False,
    ) -> Appends | Deferred[Appends]:
        """Verify the transaction where needed, and append as `Appender.append` does.

        Raises INVALID_PRODUCER_ID_MAPPING when the transactional batches name several producers.
        """
        if transactional_id is not None and (self.verify or support.adds):
            producer, batches = _transactional_batches(entries)
            if producer is not None:
                guards, errors = self._guards(batches, support)
                if guards or errors:
                    verdict: Deferred[Mapping[TopicPartition, ErrorCode]] = Deferred.of({})
                    if guards:

                        def again() -> Sequence[TopicPartition]:
                            renewed = self._guards(batches, support)
                            guards.clear()
                            guards.update(renewed[0])
                            errors.clear()
                            errors.update(renewed[1])
                            return tuple(guards)

                        verdict = self.verifier.verify(
                            transactional_id, producer[0], producer[1], tuple(guards), support, again if support.adds else None
                        )
                    return self._append_verified(
                        verdict, entries, errors, guards, required_acks, timeout_ms, origin, support, internal_topics_allowed
                    )
        return self._appender.append(
            entries, required_acks=required_acks, timeout_ms=timeout_ms, origin=origin, internal_topics_allowed=internal_topics_allowed
        )

    def _guards(
        self, batches: Mapping[TopicPartition, BatchHeader], support: Support
    ) -> tuple[dict[TopicPartition, VerificationGuard], dict[TopicPartition, ErrorCode]]:
        guards: dict[TopicPartition, VerificationGuard] = {}
        errors: dict[TopicPartition, ErrorCode] = {}
        for topic_partition, header in batches.items():
            try:
                log = self._partitions.find(topic_partition).local_log(-1, leader_only=True)
                guard = log.start_verification(header.producer_id, header.base_sequence, header.producer_epoch, bumps_epoch=support.adds)
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
        support: Support,
        internal_topics_allowed: bool,
    ) -> Deferred[Appends]:
        result: Deferred[Appends] = Deferred()

        def verified(done: Deferred[Mapping[TopicPartition, ErrorCode]]) -> None:
            refusals = dict.fromkeys(guards, ErrorCode.NETWORK_EXCEPTION) if done.error is not None else done.result()
            refused = [_refusal(key, code, support) for key, code in {**errors, **refusals}.items() if code is not ErrorCode.NONE]
            without = {append.topic_partition for append in refused}
            answer = self._appender.append(
                [entry for entry in entries if entry[0] not in without],
                required_acks=required_acks,
                timeout_ms=timeout_ms,
                origin=origin,
                internal_topics_allowed=internal_topics_allowed,
                guards=guards,
            )
            if isinstance(answer, Deferred):
                answer.then(lambda appends: refused + appends).into(result)
            else:
                result.complete(refused + answer)

        verdict.add_callback(verified)
        return result


def _transactional_batches(entries: Sequence[Entry]) -> tuple[tuple[int, int] | None, dict[TopicPartition, BatchHeader]]:
    if len(entries) == 1 and len(records := entries[0][1]) >= HEADER_SIZE and (only := read_header(records)).size == len(records):
        # Nearly every request has a single batch.
        verified = only.attributes & TRANSACTIONAL_MASK and only.producer_id >= 0
        return ((only.producer_id, only.producer_epoch), {entries[0][0]: only}) if verified else (None, {})
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


def _refusal(topic_partition: TopicPartition, code: ErrorCode, support: Support) -> PartitionAppend:
    if code is ErrorCode.INVALID_TXN_STATE:
        return PartitionAppend(topic_partition, code, error_message="Partition was not added to the transaction")
    if code in _RETRIED_AS_NOT_ENOUGH_REPLICAS or (code is ErrorCode.CONCURRENT_TRANSACTIONS and not support.adds):
        message = f"Unable to verify the partition has been added to the transaction. Underlying error: {code.name}"
        return PartitionAppend(topic_partition, ErrorCode.NOT_ENOUGH_REPLICAS, error_message=message)
    return PartitionAppend(topic_partition, code)
