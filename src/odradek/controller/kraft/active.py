"""Controller on top of the metadata log: runs operations, appends their records, replies on commit (QuorumController).

Steps of an operation:

1. Only the active controller runs it; others answer NOT_CONTROLLER at once.
2. The operation reads the state and returns records and a response. The records are encoded, replayed into the state and proposed, batch by
   batch.
3. The response waits until the last of its records is committed. An operation without records waits for all records appended before it,
   because it may have read them. For client requests the response also waits until this node's publishers have the change, so that the
   client finds it at this broker.
4. When leadership ends or an append fails, the undo journal restores the state of the last commit. All waiting operations get
   NOT_CONTROLLER.

A standby replays committed batches into the same state, so that it can take over at once.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.undo import UndoJournal
from odradek.controller.core.features import elr_safety_records
from odradek.controller.core.result import ControllerResult
from odradek.controller.kraft.activation import activation_records
from odradek.controller.kraft.records import MAX_BATCH_BYTES, MAX_BATCH_RECORDS, Batch, encode_record, split_values
from odradek.metadata.features import METADATA_VERSION
from odradek.metadata.versioned import VersionedRecord
from odradek.metrics.histogram import Histogram
from odradek.protocol.messages.metadata_records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord

if TYPE_CHECKING:
    from odradek.controller.core.context import ControllerContext
    from odradek.controller.core.quorum import QuorumControllerCore

logger = logging.getLogger(__name__)


R = TypeVar("R")


class LogWriter(Protocol):
    """Metadata log as the controller writes it."""

    @property
    def next_offset(self) -> int:
        """Offset of the next record to append."""
        ...

    @property
    def leader_id(self) -> int: ...

    @property
    def kraft_version(self) -> int:
        """Level of kraft.version, from the quorum's own records."""
        ...

    def append_values(self, values: list[bytes], epoch: int) -> bool:
        """Append one batch of encoded records at `next_offset`; return False when this node no longer leads the epoch.

        The attempt itself may end the leadership, and call `deactivate` of the controller before it returns.
        """
        ...

    def resign(self, epoch: int) -> None: ...


class _Waiting:
    """Response that waits for a commit. `since` is in seconds of the monotonic clock."""

    __slots__ = ("deferred", "offset", "response", "since")

    def __init__(self, offset: int, deferred: Deferred[Any], response: object, since: float) -> None:
        self.offset = offset
        self.since = since
        self.deferred = deferred
        self.response = response


class SnapshotState:
    """Controller state into which a snapshot is replayed. Everything in it is committed, so no undo actions are recorded."""

    def __init__(self, core_factory: Callable[[UndoJournal], QuorumControllerCore]) -> None:
        self.journal = UndoJournal()
        self.journal.recording = False
        self.core = core_factory(self.journal)

    def replay(self, message: object, offset: int) -> None:
        self.core.replay(message, offset)


class MetadataController:
    """Controller of one node, active or standby. All calls come from the node's queue, one at a time."""

    def __init__(
        self,
        *,
        core_factory: Callable[[UndoJournal], QuorumControllerCore],
        writer: LogWriter,
        clock: Clock,
        bootstrap: list[VersionedRecord],
        max_batch_bytes: int = MAX_BATCH_BYTES,
    ) -> None:
        self._core_factory = core_factory
        self.journal = UndoJournal()
        self.core = core_factory(self.journal)
        self._writer = writer
        self._clock = clock
        self._bootstrap = bootstrap
        self._max_batch_bytes = max_batch_bytes
        self.active_epoch = -1
        """Epoch in which this controller is active; -1 on a standby."""
        self.replayed_to = 0
        """First offset that is not in the state."""
        self.committed_to = 0
        """First offset that may still be undone."""
        self.shown_to = 0
        """First offset that this node's publishers do not have yet."""
        self._transaction_start: int | None = None
        self._waiting: deque[_Waiting] = deque()
        """Responses that wait for a commit."""
        self._waiting_for_publishers: deque[_Waiting] = deque()
        """Responses that wait until the publishers have a commit."""
        self.commit_times_ms = Histogram()
        """Milliseconds from the append of records to their commit."""

    @property
    def is_active(self) -> bool:
        return self.active_epoch >= 0

    # Operations ------------------------------------------------------------------------------------------------------------

    def run(self, operation: Callable[[ControllerContext], ControllerResult[R]], deferred: Deferred[R], *, shown: bool = True) -> None:
        """Run the operation now. `deferred` gets its response when its records are committed, or a KafkaError.

        With `shown` the response also waits until this node's publishers have the records.
        """
        if not self.is_active:
            deferred.fail(self.not_controller())
            return
        writer = self._writer
        context = self.core.begin(now_s=self._clock.monotonic(), next_offset=writer.next_offset, kraft_version=writer.kraft_version)
        try:
            result = operation(context)
        except Exception as error:
            deferred.fail(error)
            return
        try:
            appended = self._append(result.records, atomic=result.atomic)
        except KafkaError as error:
            deferred.fail(error)
            return
        except Exception:
            # The log cannot be written. The error ends the node.
            deferred.fail(self.not_controller())
            raise
        if appended:
            self._wait(deferred, result.response, shown=shown)
        else:
            deferred.fail(self.not_controller())

    def not_controller(self) -> KafkaError:
        leader = self._writer.leader_id
        known = f"The active controller appears to be node {leader}." if leader >= 0 else "No controller appears to be active."
        return KafkaError(ErrorCode.NOT_CONTROLLER, known)

    def _wait(self, deferred: Deferred[R], response: R, *, shown: bool) -> None:
        if self.replayed_to <= (self.shown_to if shown else self.committed_to):
            deferred.complete(response)
        else:
            waiting = self._waiting_for_publishers if shown else self._waiting
            waiting.append(_Waiting(self.replayed_to, deferred, response, self._clock.monotonic()))

    def _append(self, records: list[VersionedRecord], *, atomic: bool) -> bool:
        """Replay and append the records; return False when the leadership ended.

        When this returns, an inactive controller has the state of the last commit: replayed records that were not appended are undone.

        Raises KafkaError POLICY_VIOLATION when atomic records do not fit into one batch.
        """
        if not records:
            return True
        values = [encode_record(record) for record in records]
        batches = [values] if atomic else list(split_values(values, max_bytes=self._max_batch_bytes))
        if atomic and (len(values) > MAX_BATCH_RECORDS or sum(map(len, values)) > self._max_batch_bytes):
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION,
                f"{len(values)} records must be written in one batch, which can have at most {MAX_BATCH_RECORDS}",
            )
        position = 0
        epoch = self.active_epoch
        for batch in batches:
            base = self._writer.next_offset
            try:
                for index in range(len(batch)):
                    self._replay(records[position + index].message, base + index)
            except Exception:
                # A record of this controller that cannot be replayed is a bug in the core. Undo its batch and do not write it.
                logger.exception("A record at offset %d could not be replayed; resigning", base)
                self.deactivate()
                self._writer.resign(epoch)
                return False
            self.replayed_to = base + len(batch)
            appended = self._writer.append_values(batch, epoch)
            if not appended or self.active_epoch != epoch:
                # The records may be in the log although the same quorum step ended the leadership. Then they may never be committed.
                self.deactivate()
                return False
            position += len(batch)
            assert self.replayed_to <= self._writer.next_offset
        return True

    # Replay ----------------------------------------------------------------------------------------------------------------

    def _replay(self, message: object, offset: int) -> None:
        if isinstance(message, BeginTransactionRecord):
            self._begin_transaction(offset)
        elif isinstance(message, EndTransactionRecord):
            self._set_transaction(None, offset)
        elif isinstance(message, AbortTransactionRecord):
            start = self._transaction_start
            if start is not None:
                self.journal.revert_to(start)
                # The revert itself cannot be undone. If this record is not committed, the next leader, perhaps this node, writes another
                # one.
                self._transaction_start = start
                self._set_transaction(None, offset)
        else:
            self.core.replay(message, offset)

    def _begin_transaction(self, offset: int) -> None:
        if self._transaction_start is not None:
            raise ValueError(f"a metadata transaction begins at offset {offset} within that of offset {self._transaction_start}")
        self._set_transaction(offset, offset)

    def _set_transaction(self, start: int | None, offset: int) -> None:
        former = self._transaction_start

        def undo() -> None:
            self._transaction_start = former

        self.journal.record(offset, undo)
        self._transaction_start = start

    def replay_batch(self, batch: Batch) -> None:
        """Replay a committed batch, or a slice of one. Skip a batch that this controller appended itself: the state has it already."""
        if batch.base_offset < self.replayed_to:
            return
        for index, record in enumerate(batch.records):
            self._replay(record.message, batch.base_offset + index)
        self.replayed_to = batch.end_offset

    def begin_snapshot(self) -> SnapshotState:
        """Return an empty state to replay a snapshot into; `load_snapshot` then installs it."""
        return SnapshotState(self._core_factory)

    def load_snapshot(self, state: SnapshotState, end_offset: int) -> None:
        """Replace the state by that of a snapshot that ends at `end_offset` (exclusive)."""
        state.journal.recording = True
        self.journal, self.core = state.journal, state.core
        self._transaction_start = None
        self.replayed_to = self.committed_to = end_offset

    def commit(self, offset: int, shown_to: int | None = None) -> None:
        """Note that everything below `offset` is committed, drop its undo actions and send its responses.

        `shown_to` is the end offset of the records that the publishers have, if that is less than `offset`.
        """
        self.committed_to = max(self.committed_to, offset)
        self.replayed_to = max(self.replayed_to, offset)
        final = self.committed_to if self._transaction_start is None else min(self.committed_to, self._transaction_start)
        self.journal.commit_to(final)
        self._respond(self._waiting, self.committed_to)
        self.show(self.committed_to if shown_to is None else shown_to)

    def show(self, offset: int) -> None:
        """Note that the publishers have the committed records below `offset`, and send the responses that wait for them."""
        self.shown_to = max(self.shown_to, offset)
        self._respond(self._waiting_for_publishers, self.shown_to)

    def _respond(self, queue: deque[_Waiting], offset: int) -> None:
        while queue and queue[0].offset <= offset:
            waiting = queue.popleft()
            now = self._clock.monotonic()
            self.commit_times_ms.record((now - waiting.since) * 1000, now)
            waiting.deferred.complete(waiting.response)

    # Leadership ------------------------------------------------------------------------------------------------------------

    def activate(self, epoch: int) -> None:
        """Become active in `epoch`, which this node leads. Everything before it has been replayed."""
        self.active_epoch = epoch
        logger.info("Becoming the active controller in epoch %d at offset %d", epoch, self.replayed_to)
        self.replayed_to = max(self.replayed_to, self._writer.next_offset)
        deferred: Deferred[None] = Deferred()

        def begin(context: ControllerContext) -> ControllerResult[None]:
            records = activation_records(
                metadata_version=context.state.features.get(METADATA_VERSION),
                transaction_start=self._transaction_start,
                bootstrap=[*self._bootstrap, *elr_safety_records(context, self._bootstrap)],
            )
            return ControllerResult(records, None)

        self.run(begin, deferred)
        self.core.activate(self._clock.monotonic())
        if deferred.error is not None:
            logger.error("The controller could not be activated: %s", deferred.error, exc_info=deferred.error)
            self.deactivate()
            self._writer.resign(epoch)

    def deactivate(self) -> None:
        """Stop being active: restore the state of the last commit, and fail waiting operations with NOT_CONTROLLER."""
        if not self.is_active:
            return
        logger.info("Resigning as the active controller of epoch %d", self.active_epoch)
        self.active_epoch = -1
        self.journal.revert_to(self.committed_to)
        self.replayed_to = self.committed_to
        # Operations that are committed succeed, even when the publishers do not have them yet.
        self._respond(self._waiting_for_publishers, self.committed_to)
        error = self.not_controller()
        for queue in (self._waiting, self._waiting_for_publishers):
            while queue:
                queue.popleft().deferred.fail(error)
