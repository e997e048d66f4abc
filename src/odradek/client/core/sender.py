"""Sender of a producer: the next batches to send, and the meaning of the answers.

Ordering, for an idempotent producer, per partition:
1. A batch gets (producer id, epoch, sequence) when it first goes on the wire, and keeps them in retries. So the broker can tell a
   repetition from a new batch. The broker remembers the last five batches of a partition: at most five are on the wire, and a new batch
   waits while the fifth batch before it, or an older one, is on the wire. (The old batch may be at a former leader that hangs, while its
   successor takes later batches.) The first batch goes alone until it is acknowledged. A broker without state of the producer accepts any
   sequence: it would accept a second batch after it has refused the first, and would then never accept the first.
2. A batch that failed with a retriable error goes back into the queue at its place in the sequence. From then on the partition advances one
   batch at a time, lowest sequence first, until the repeated batches are acknowledged; new batches wait behind them.
3. When a batch with a sequence is given up (rejected for good, or timed out), the broker may see a gap before the following sequences and
   refuse them. Batches that were sent before keep their old sequences in retries, because an attempt whose answer was lost may have been
   written. The producer takes the next epoch, and numbers the waiting batches from 0, under two conditions. First, nothing of the partition
   is on the wire. Second, no batch that was sent before is left, or the broker refused the lowest of them for its sequence. After such a
   refusal neither that batch nor a later one was written. Other partitions move to the new epoch when they have nothing outstanding
   (KIP-360).
4. OUT_OF_ORDER_SEQUENCE_NUMBER for a batch that does not follow the last acknowledged batch is the consequence of an earlier failure: rule
   2 applies. For a batch that does follow it, and for UNKNOWN_PRODUCER_ID and INVALID_PRODUCER_EPOCH, the broker has lost or replaced the
   producer's state: rule 3 applies, then a retry.
5. A transactional producer never takes an epoch by itself. Where rule 3 would need an epoch, its transaction fails, and the coordinator has
   the next epoch for it (`core.transactions`). Batches are sent only within a transaction.
6. `delivery.timeout.ms` bounds the whole life of a record, also on the wire. A batch that times out on the wire fails at once, and stays
   among the batches in flight until its answer comes or its connection ends. Until then no batch of its partition is numbered again, and
   its memory is not given back. The late answer changes only the sequence.
7. A batch that cannot be encoded fails alone, before a broker has seen its sequence.

Without idempotence, order survives retries only with one batch of the partition on the wire (max.in.flight 1), as in Kafka. All times are
monotonic milliseconds. Source: org.apache.kafka.clients.producer.internals.Sender and TransactionManager.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from odradek.base.errors import ErrorCode, KafkaError, ProtocolError
from odradek.base.ids import TopicPartition
from odradek.base.timing import Backoff
from odradek.client.core.accumulator import Accumulator, Batch, RecordTuple, record_size, sequence_before
from odradek.client.core.buffers import BufferPool
from odradek.client.core.metadata import FOREVER, LEADERSHIP_ERRORS, ClusterView
from odradek.client.core.transactions import Transactions
from odradek.records.batch import HEADER_SIZE, decode_records, encode_batch_in, increment_sequence
from odradek.records.compression import Compression
from odradek.records.patch import set_producer, with_producer

_MAX_EPOCH = 32767
_REMEMBERED = 5
"""Batches of a producer whose repetitions a broker can recognize (ProducerStateEntry.NUM_BATCHES_TO_RETAIN)."""
_LOST_STATE = frozenset({ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_EPOCH})


class SenderConfig(NamedTuple):
    """Settings of the producer that the sender needs; `acks` is -1 for all."""

    acks: int
    idempotent: bool
    max_in_flight: int
    max_request_size: int
    retries: int
    delivery_timeout_ms: int
    batch_size: int
    compression: Compression
    compression_level: int | None
    rows_size: int = 0
    """Bytes of a batch of Arrow rows."""
    availability_timeout_ms: int = 0
    """Milliseconds after which a node that takes nothing is late; 0 for never."""


class Dispatch(NamedTuple):
    """Produce request to a node, with at most one batch of each partition."""

    node_id: int
    batches: tuple[Batch, ...]


class Work(NamedTuple):
    """Actions for the shell to do now, and the milliseconds after which it has to ask again at the latest."""

    dispatches: list[Dispatch]
    connect: set[int]
    needs_metadata: bool
    needs_producer_id: bool
    wake_in_ms: int
    needs_partitions: bool = False
    """True when partitions have to be added to the transaction first."""


class BatchAnswer(NamedTuple):
    """Answer of the broker for one batch."""

    error: ErrorCode
    base_offset: int = -1
    log_append_time_ms: int = -1
    message: str | None = None
    record_errors: dict[int, str | None] | None = None


class PartitionState:
    """Sequence state of a partition, and its batches in flight."""

    __slots__ = ("in_flight", "last_acked_sequence", "next_ordinal", "next_sequence", "producer_epoch", "producer_id", "reset_wanted")

    def __init__(self) -> None:
        self.in_flight: list[Batch] = []
        self.producer_id = -1
        self.producer_epoch = -1
        self.next_sequence = 0
        self.next_ordinal = 0
        self.last_acked_sequence = -1
        self.reset_wanted = False


class Sender:
    """Decisions of a producer; the shell performs the work that `poll` returns and reports through the `on_...` methods."""

    __slots__ = (
        "_accumulator",
        "_backoff",
        "_closed",
        "_config",
        "_dispatched",
        "_late_by_ms",
        "_nodes",
        "_on_release",
        "_partitions",
        "_taken_ms",
        "_transactions",
        "buffers",
        "producer_epoch",
        "producer_id",
        "trouble",
    )

    def __init__(
        self,
        config: SenderConfig,
        accumulator: Accumulator,
        backoff: Backoff,
        on_release: Callable[[], object] | None = None,
        transactions: Transactions | None = None,
    ) -> None:
        self._config = config
        self._accumulator = accumulator
        self.buffers = BufferPool(max(config.batch_size, 1), max(config.rows_size, 1))
        """Buffers for payloads; payloads given to `append_encoded` may also come from here."""
        self._backoff = backoff
        self._on_release = on_release
        self._transactions = transactions
        self._partitions: dict[TopicPartition, PartitionState] = {}
        self._nodes: dict[int, int] = {}
        self._dispatched: dict[int, tuple[Dispatch, int]] = {}
        """Requests on the wire, by the identity of their batches, each with the creation time of the oldest batch not timed out."""
        self._taken_ms: dict[int, int] = {}
        self._late_by_ms: dict[int, int] = {}
        self._closed = False
        self.producer_id = -1
        self.producer_epoch = -1
        self.trouble: str | None = None
        """Last error that the shell met, for the message of a batch that times out."""

    @property
    def outstanding(self) -> int:
        """Number of batches that wait or are on the wire."""
        return self._accumulator.waiting + sum([len(dispatch.batches) for dispatch, _ in self._dispatched.values()])

    def incomplete(self) -> list[Batch]:
        """Return the batches that wait or are on the wire."""
        waiting = [batch for queue in self._accumulator.queues.values() for batch in queue]
        return waiting + [batch for state in self._partitions.values() for batch in state.in_flight]

    def waiting_topics(self) -> set[str]:
        """Return the topics of records that wait to be sent."""
        return {topic_partition.topic for topic_partition, queue in self._accumulator.queues.items() if queue}

    # -- next requests --------------------------------------------------------------------------------------------------------------

    def poll(self, view: ClusterView, is_connected: Callable[[int], bool], now_ms: int) -> Work:
        """Return the requests to send now, at most one per node; call again until there are no requests.

        Waiting batches that timed out fail. Nodes that are needed and not connected are named in `connect`. Nothing is dispatched to them
        yet, so that requests go out in order.
        """
        transactions = self._transactions
        for batch in self._accumulator.expired(now_ms, self._config.delivery_timeout_ms):
            self._give_up(batch, self._timeout(batch, now_ms), certain=False)
        self._expire_on_the_wire(now_ms)
        self._drop_after_failure()
        self._renumber_gaps()
        if self._config.idempotent and self.producer_id < 0:
            waiting = self._accumulator.waiting > 0 and transactions is None
            return Work([], set(), False, waiting, self._next_expiry(now_ms))
        needs_metadata = needs_partitions = False
        connect: set[int] = set()
        wake = self._next_expiry(now_ms)
        chosen: dict[int, list[Batch]] = {}
        unsendable: list[tuple[Batch, KafkaError]] = []
        for topic_partition, queue in self._accumulator.queues.items():
            if not queue:
                continue
            wait = self._accumulator.ready_in_ms(queue[0], queue, now_ms)
            if wait > 0:
                wake = min(wake, wait)
                continue
            leader = view.leader(topic_partition)
            if leader is None:
                needs_metadata = True
                continue
            connected = is_connected(leader)
            takes = connected and self._nodes.get(leader, 0) < self._config.max_in_flight
            if self._config.availability_timeout_ms > 0:
                self._watch(leader, now_ms, takes=takes)
            if not connected:
                connect.add(leader)
            elif transactions is not None and not transactions.admits(topic_partition):
                needs_partitions = True
            elif takes and self._may_send(topic_partition, queue[0]):
                self._choose(chosen.setdefault(leader, []), queue, unsendable)
        for batch, error in unsendable:
            # After the loop, because a callback may send again.
            self._give_up(batch, error, certain=True)
            wake = 0
        dispatches = [self._dispatch(node, batches) for node, batches in chosen.items() if batches]
        return Work(dispatches, connect, needs_metadata, False, wake, needs_partitions)

    def _watch(self, node_id: int, now_ms: int, *, takes: bool) -> None:
        """Note whether the node takes a batch that is ready for it (`takes`), and for how long it has taken none."""
        if takes:
            self._taken_ms[node_id] = now_ms
        self._late_by_ms[node_id] = now_ms - self._taken_ms.setdefault(node_id, now_ms)

    def is_late(self, node_id: int) -> bool:
        """Return whether, at the last `poll`, something had waited for the node longer than `availability_timeout_ms`."""
        return self._late_by_ms.get(node_id, 0) > self._config.availability_timeout_ms

    def _choose(self, batches: list[Batch], queue: deque[Batch], unsendable: list[tuple[Batch, KafkaError]]) -> None:
        total = sum(len(batch.payload or b"") for batch in batches)
        head = queue[0]
        self._accumulator.close(head)
        self._number(head)
        try:
            self._encode(head)
        except Exception as error:
            reason = f"{head.record_count} record(s) for {head.topic_partition} cannot be encoded: {error}"
            unsendable.append((queue.popleft(), KafkaError(ErrorCode.INVALID_RECORD, reason)))
            return
        assert head.payload is not None
        if batches and total + len(head.payload) > self._config.max_request_size:
            return
        batches.append(queue.popleft())

    def _dispatch(self, node: int, batches: list[Batch]) -> Dispatch:
        self._nodes[node] = self._nodes.get(node, 0) + 1
        for batch in batches:
            batch.refused = False
            state = self._state(batch.topic_partition)
            batch.acked_before = state.last_acked_sequence
            state.in_flight.append(batch)
        dispatch = Dispatch(node, tuple(batches))
        self._dispatched[id(dispatch.batches)] = dispatch, min([batch.created_ms for batch in batches])
        return dispatch

    def _expire_on_the_wire(self, now_ms: int) -> None:
        """Fail the batches in flight that have timed out (rule 6)."""
        limit = now_ms - self._config.delivery_timeout_ms
        late = [dispatch for dispatch, created_ms in self._dispatched.values() if created_ms <= limit]
        for batch in [batch for dispatch in late for batch in dispatch.batches if batch.created_ms <= limit and not batch.is_done()]:
            self._fail(batch, self._timeout(batch, now_ms), certain=False)
        for dispatch in late:
            rest = [batch.created_ms for batch in dispatch.batches if batch.created_ms > limit]
            self._dispatched[id(dispatch.batches)] = dispatch, min(rest, default=FOREVER)

    def _may_send(self, topic_partition: TopicPartition, head: Batch) -> bool:
        state = self._state(topic_partition)
        if state.reset_wanted and (head.refused or not head.has_sequence):
            return False
        if head.has_sequence:
            return not any(sequence_before(other.base_sequence, head.base_sequence) for other in state.in_flight)
        if not self._config.idempotent:
            return len(state.in_flight) < self._config.max_in_flight
        if not state.in_flight:
            return True
        if (state.producer_id, state.producer_epoch) != (self.producer_id, self.producer_epoch) or state.last_acked_sequence < 0:
            return False
        return (
            len(state.in_flight) < self._config.max_in_flight
            and state.next_ordinal - min([batch.ordinal for batch in state.in_flight]) < _REMEMBERED
        )

    def _next_expiry(self, now_ms: int) -> int:
        heads = [queue[0].created_ms for queue in self._accumulator.queues.values() if queue]
        heads += [created_ms for _, created_ms in self._dispatched.values() if created_ms < FOREVER]
        return max(0, min(heads) + self._config.delivery_timeout_ms - now_ms) if heads else FOREVER

    # -- sequences ------------------------------------------------------------------------------------------------------------------

    def on_producer_id(self, producer_id: int, producer_epoch: int) -> None:
        """Store the producer id and epoch that the broker has assigned."""
        self.producer_id, self.producer_epoch = producer_id, producer_epoch
        if self._transactions is not None:
            # Between two transactions no batch is outstanding: uncertain batches belong to the previous epoch.
            for state in self._partitions.values():
                state.reset_wanted = False

    def _state(self, topic_partition: TopicPartition) -> PartitionState:
        state = self._partitions.get(topic_partition)
        if state is None:
            state = self._partitions[topic_partition] = PartitionState()
        return state

    def _number(self, batch: Batch) -> None:
        if not self._config.idempotent or batch.has_sequence:
            return
        state = self._state(batch.topic_partition)
        if (state.producer_id, state.producer_epoch) != (self.producer_id, self.producer_epoch):
            state.producer_id, state.producer_epoch = self.producer_id, self.producer_epoch
            state.next_sequence, state.last_acked_sequence = 0, -1
        batch.producer_id, batch.producer_epoch = state.producer_id, state.producer_epoch
        batch.base_sequence = state.next_sequence
        batch.ordinal = state.next_ordinal
        state.next_ordinal += 1
        state.next_sequence = increment_sequence(state.next_sequence, batch.record_count)

    def _encode(self, batch: Batch) -> None:
        if batch.payload is None:
            buffer = self.buffers.take(batch.size)
            batch.payload = encode_batch_in(
                buffer,
                batch.records,
                compression=self._config.compression,
                level=self._config.compression_level,
                producer_id=batch.producer_id,
                producer_epoch=batch.producer_epoch,
                base_sequence=batch.base_sequence,
                transactional=self._transactions is not None,
            )
            if type(batch.payload) is bytes:
                self.buffers.give(memoryview(buffer))
            # The gatherer that filled the batch may live on, and shares this list.
            batch.records.clear()
        elif batch.has_sequence and not batch.payload_has_sequence:
            place = batch.producer_id, batch.producer_epoch, batch.base_sequence
            transactional = self._transactions is not None
            if type(batch.payload) is memoryview and not batch.attempts:
                set_producer(batch.payload, *place, transactional=transactional)
            else:
                # An earlier attempt may not have left the process yet: its payload must not change.
                batch.payload = with_producer(batch.payload, *place, transactional=transactional)
        batch.payload_has_sequence = batch.has_sequence

    def _renumber_gaps(self) -> None:
        """Take the next epoch for the partitions with a gap whose batches are all certain (rule 3)."""
        if self._transactions is not None:
            return
        ready = {partition: state for partition, state in self._partitions.items() if self._may_renumber(partition, state)}
        if not ready or self.producer_id < 0:
            return
        if any((state.producer_id, state.producer_epoch) == (self.producer_id, self.producer_epoch) for state in ready.values()):
            self._next_epoch()
        for topic_partition, state in ready.items():
            state.reset_wanted = False
            state.producer_id = state.producer_epoch = -1
            for batch in self._accumulator.queues.get(topic_partition, ()):
                batch.producer_id = batch.producer_epoch = batch.base_sequence = -1
                batch.payload_has_sequence = batch.refused = False

    def _may_renumber(self, topic_partition: TopicPartition, state: PartitionState) -> bool:
        if not state.reset_wanted or state.in_flight:
            return False
        queue = self._accumulator.queues.get(topic_partition)
        return not queue or queue[0].refused or not queue[0].has_sequence

    def _next_epoch(self) -> None:
        if self.producer_epoch >= _MAX_EPOCH:
            self.producer_id = self.producer_epoch = -1
        else:
            self.producer_epoch += 1

    # -- answers --------------------------------------------------------------------------------------------------------------------

    def on_response(self, dispatch: Dispatch, answers: list[BatchAnswer], now_ms: int) -> bool:
        """Process the answers for a dispatch, in the order of its batches. Return whether the metadata is out of date."""
        self._landed(dispatch)
        stale = False
        for batch, answer in zip(dispatch.batches, answers, strict=True):
            self._state(batch.topic_partition).in_flight.remove(batch)
            stale = stale or answer.error in LEADERSHIP_ERRORS
            self._answered(batch, answer, now_ms)
        self._drop_after_failure()
        return stale

    def on_sent_without_answer(self, dispatch: Dispatch) -> None:
        """Complete the batches of a dispatch that was sent with acks=0, to which no answer will come."""
        self._landed(dispatch)
        for batch in dispatch.batches:
            self._state(batch.topic_partition).in_flight.remove(batch)
            self._done(batch, -1, -1)

    def on_failure(self, dispatch: Dispatch, error: KafkaError, now_ms: int) -> None:
        """Note that the request got no answer: connection lost, time-out, or a version that the node lacks."""
        self.on_response(dispatch, [BatchAnswer(error.code, message=error.message)] * len(dispatch.batches), now_ms)

    def close(self, error: BaseException) -> None:
        """Fail every waiting batch and end retries: batches on the wire end with their answer or their connection."""
        self._closed = True
        self.abort(error)

    def _drop_after_failure(self) -> None:
        """Fail the waiting batches of a transaction that has failed."""
        if self._transactions is not None and self._transactions.error is not None:
            self.abort(self._transactions.error)

    def close_open_batches(self) -> None:
        """Close every open batch, so that later records go into new batches."""
        for queue in self._accumulator.queues.values():
            for batch in queue:
                self._accumulator.close(batch)

    def abort(self, error: BaseException) -> None:
        """Fail every waiting batch; batches on the wire end with their answer, or wait for a retry."""
        for batch in self._accumulator.drain_all():
            self._give_up(batch, error, certain=False)

    def fail_topic(self, topic: str, error: BaseException) -> None:
        """Fail the waiting batches of a topic that cannot be written to."""
        failed: list[Batch] = []
        for topic_partition, queue in self._accumulator.queues.items():
            if topic_partition.topic == topic:
                failed += queue
                queue.clear()
        for batch in failed:
            self._accumulator.close(batch)
        # After the loop over the queues, because a callback may send again.
        for batch in failed:
            self._give_up(batch, error, certain=False)

    def _landed(self, dispatch: Dispatch) -> None:
        self._nodes[dispatch.node_id] -= 1
        del self._dispatched[id(dispatch.batches)]

    def _answered(self, batch: Batch, answer: BatchAnswer, now_ms: int) -> None:
        state = self._state(batch.topic_partition)
        error = answer.error
        if error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            if batch.has_sequence and (batch.producer_id, batch.producer_epoch) == (state.producer_id, state.producer_epoch):
                state.last_acked_sequence = increment_sequence(batch.base_sequence, batch.record_count - 1)
            self._done(batch, answer.base_offset if error is ErrorCode.NONE else -1, answer.log_append_time_ms)
        elif batch.is_done():
            # Rule 6: the batch timed out on the wire.
            self._released(batch)
        elif error is ErrorCode.MESSAGE_TOO_LARGE and batch.record_count > 1 and self._may_send_again(batch, now_ms):
            self._split(batch, now_ms)
        elif self._may_retry(batch, state, error, now_ms):
            batch.attempts += 1
            batch.retry_at_ms = now_ms + self._backoff.delay_ms(batch.attempts)
            self._accumulator.requeue(batch)
        else:
            code, message = (
                (ErrorCode.REQUEST_TIMED_OUT, None) if self._is_expired(batch, now_ms) and error.retriable else (error, answer.message)
            )
            failure = KafkaError(code, message or f"{batch.record_count} record(s) for {batch.topic_partition} were not accepted")
            # An earlier attempt, whose answer was lost or uncertain, may have been written.
            certain = not error.retriable and error not in _LOST_STATE and not batch.attempts
            self._give_up(batch, failure, certain=certain, record_errors=answer.record_errors)

    def _may_retry(self, batch: Batch, state: PartitionState, error: ErrorCode, now_ms: int) -> bool:
        if not self._may_send_again(batch, now_ms) or batch.attempts >= self._config.retries:
            return False
        if self._transactions is not None:
            if error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
                return batch.base_sequence != self._expected(batch)
            return error.retriable
        if batch.has_sequence and error in _LOST_STATE:
            if error is not ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER or batch.base_sequence == self._expected(batch):
                state.reset_wanted = True
            batch.refused = True
            return True
        return error.retriable

    def _may_send_again(self, batch: Batch, now_ms: int) -> bool:
        """Return whether the batch's records may be sent again: before the time-out, and within a transaction that is not aborted."""
        if self._closed or self._is_expired(batch, now_ms):
            return False
        return self._transactions is None or self._transactions.is_sending

    def _expected(self, batch: Batch) -> int:
        """Return the sequence that the broker expected when the batch was sent.

        Batches acknowledged since then do not count: they may not have been written when the broker refused this batch.
        """
        return 0 if batch.acked_before < 0 else increment_sequence(batch.acked_before, 1)

    def _split(self, batch: Batch, now_ms: int) -> None:
        """Replace a batch that is too large for the broker by batches of at most half its size."""
        try:
            records: list[RecordTuple] = [
                (record.timestamp, record.key, record.value, record.headers) for record in decode_records(batch.payload or b"")
            ]
        except (KafkaError, ProtocolError) as error:
            reason = f"{batch.record_count} record(s) for {batch.topic_partition} are too large and cannot be split: {error}"
            self._give_up(batch, KafkaError(ErrorCode.MESSAGE_TOO_LARGE, reason), certain=True)
            return
        limit = min(self._config.batch_size, max(batch.size // 2, 1))
        parts = list(_cut(records, limit))
        if len(parts) < 2:
            parts = [records[: len(records) // 2], records[len(records) // 2 :]]
        pieces: list[Batch] = []
        sequence = batch.base_sequence
        for part in parts:
            piece = Batch(batch.topic_partition, batch.created_ms, batch.owner)
            piece.records = list(part)
            piece.hold(len(part), HEADER_SIZE + sum(record_size(key, value, headers) for _, key, value, headers in part))
            piece.attempts = batch.attempts + 1
            piece.retry_at_ms = now_ms
            if batch.has_sequence:
                piece.producer_id, piece.producer_epoch, piece.base_sequence = batch.producer_id, batch.producer_epoch, sequence
                piece.ordinal = batch.ordinal
                sequence = increment_sequence(sequence, len(part))
            self._accumulator.used += piece.reserved
            pieces.append(piece)
        for piece in pieces if batch.has_sequence else reversed(pieces):
            self._accumulator.requeue(piece)
        self._released(batch)
        batch.replace_by(pieces)

    def _done(self, batch: Batch, base_offset: int, log_append_time_ms: int) -> None:
        if not batch.attempts and self._config.acks:
            # The broker has read the whole payload, and the payload was sent only once.
            self.buffers.give(batch.payload)
            batch.payload = None
        self._released(batch)
        batch.complete(base_offset, log_append_time_ms)

    def _give_up(self, batch: Batch, error: BaseException, *, certain: bool, record_errors: dict[int, str | None] | None = None) -> None:
        """Fail a batch that is not on the wire. `certain`: the broker does not have the batch and never will."""
        self._released(batch)
        self._fail(batch, error, certain=certain, record_errors=record_errors)

    def _fail(self, batch: Batch, error: BaseException, *, certain: bool, record_errors: dict[int, str | None] | None = None) -> None:
        state = self._state(batch.topic_partition)
        gap = False
        if batch.has_sequence:
            after = increment_sequence(batch.base_sequence, batch.record_count)
            gap = not certain or after != state.next_sequence or state.reset_wanted
            if gap:
                state.reset_wanted = True
            else:
                state.next_sequence = batch.base_sequence
        if self._transactions is not None:
            self._transactions.batch_failed(error, certain=not gap)
        batch.fail(error, record_errors)

    def _released(self, batch: Batch) -> None:
        self._accumulator.release(batch)
        if self._on_release is not None:
            self._on_release()

    def _is_expired(self, batch: Batch, now_ms: int) -> bool:
        return batch.created_ms + self._config.delivery_timeout_ms <= now_ms

    def _timeout(self, batch: Batch, now_ms: int) -> KafkaError:
        waited = now_ms - batch.created_ms
        return KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"{batch.record_count} record(s) for {batch.topic_partition} were not delivered within {waited} ms"
            + (f"; the last error was: {self.trouble}" if self.trouble else " (delivery.timeout.ms)"),
        )


def _cut(records: list[RecordTuple], limit: int) -> list[list[RecordTuple]]:
    parts: list[list[RecordTuple]] = [[]]
    size = HEADER_SIZE
    for record in records:
        _, key, value, headers = record
        more = record_size(key, value, headers)
        if parts[-1] and size + more > limit:
            parts.append([])
            size = HEADER_SIZE
        parts[-1].append(record)
        size += more
    return parts
