"""The controller on top of the log: operations in, records appended, replies on commit (org.apache.kafka.controller.QuorumController).

The way of an operation:

1. Only the active controller runs it; others answer NOT_CONTROLLER at once.
2. It reads the state and returns records and a response. The records are encoded, replayed into the state and proposed, batch by batch.
3. The response waits until the last of them is committed. An operation without records waits for all appended before it: it may have
   seen them. Unless a broker has asked, it waits until the publishers of this node were told, too: a client that goes on at this very
   broker finds what it has made.
4. When leadership goes, or an append fails, the undo journal takes the state back to the last commit and all who wait get NOT_CONTROLLER.

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
    """The node below, as the controller sees it."""

    @property
    def next_offset(self) -> int:
        """Where the next record will be appended."""
        ...

    @property
    def leader_id(self) -> int: ...

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version, which the quorum's own records say."""
        ...

    def append_values(self, values: list[bytes], epoch: int) -> bool:
        """Appends one batch of encoded records at `next_offset`; False when this node no longer leads the epoch.

        The attempt itself may show that it does not, and `deactivate` the controller before this returns.
        """
        ...

    def resign(self, epoch: int) -> None: ...


class _Waiting:
    """A response that waits for a commit, since a time of the monotonic clock."""

    __slots__ = ("deferred", "offset", "response", "since")

    def __init__(self, offset: int, deferred: Deferred[Any], response: object, since: float) -> None:
        self.offset = offset
        self.since = since
        self.deferred = deferred
        self.response = response


class SnapshotState:
    """The state that a snapshot holds, while it is being read. All of it is committed, so that nothing is kept to take it back."""

    def __init__(self, core_factory: Callable[[UndoJournal], QuorumControllerCore]) -> None:
        self.journal = UndoJournal()
        self.journal.recording = False
        self.core = core_factory(self.journal)

    def replay(self, message: object, offset: int) -> None:
        self.core.replay(message, offset)


class MetadataController:
    """One node's controller, active or standby. All calls come from the node's queue, one at a time."""

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
        """The epoch this controller is active in, -1 on a standby."""
        self.replayed_to = 0
        """The first offset that is not in the state."""
        self.committed_to = 0
        """The first offset that may still be taken back."""
        self.shown_to = 0
        """The first offset that this node's publishers were not told of."""
        self._transaction_start: int | None = None
        self._waiting: deque[_Waiting] = deque()
        """For a commit."""
        self._to_be_shown: deque[_Waiting] = deque()
        """For a commit that the publishers were told of."""
        self.commit_times_ms = Histogram()
        """How long records took from their append to their commit."""

    @property
    def is_active(self) -> bool:
        return self.active_epoch >= 0

    # Operations ------------------------------------------------------------------------------------------------------------

    def run(self, operation: Callable[[ControllerContext], ControllerResult[R]], deferred: Deferred[R], *, shown: bool = True) -> None:
        """Runs the operation now; `deferred` gets its response, or a KafkaError, when that is certain.

        `shown`: and when the publishers of this node were told.
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
            # The log cannot be written: the node ends.
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
            waiting = self._to_be_shown if shown else self._waiting
            waiting.append(_Waiting(self.replayed_to, deferred, response, self._clock.monotonic()))

    def _append(self, records: list[VersionedRecord], *, atomic: bool) -> bool:
        """Replays and appends; False when leadership went meanwhile. Whatever it leaves by, an inactive controller has the state of the
        last commit: what is replayed here and not appended must not stay.
        """
        if not records:
            return True
        values = [encode_record(record) for record in records]
        batches = [values] if atomic else list(split_values(values, max_bytes=self._max_batch_bytes))
        if atomic and (len(values) > MAX_BATCH_RECORDS or sum(map(len, values)) > self._max_batch_bytes):
            raise KafkaError(
                ErrorCode.POLICY_VIOLATION, f"{len(values)} records must be written in one batch, at most {MAX_BATCH_RECORDS} fit"
            )
        position = 0
        epoch = self.active_epoch
        for batch in batches:
            base = self._writer.next_offset
            try:
                for index in range(len(batch)):
                    self._replay(records[position + index].message, base + index)
            except Exception:
                # A record of our own that cannot be replayed is a fault in the core: nothing of it may stay or be written.
                logger.exception("A record at offset %d could not be replayed; resigning", base)
                self.deactivate()
                self._writer.resign(epoch)
                return False
            self.replayed_to = base + len(batch)
            appended = self._writer.append_values(batch, epoch)
            if not appended or self.active_epoch != epoch:
                # Perhaps it was appended, and the same step of the quorum ended the leadership: then it may never be committed.
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
                # Nor can that be taken back; but should this record not be committed, the next leader, perhaps this node, writes another.
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
        """A committed batch, or a slice of it; those that this controller appended itself are in the state already."""
        if batch.base_offset < self.replayed_to:
            return
        for index, record in enumerate(batch.records):
            self._replay(record.message, batch.base_offset + index)
        self.replayed_to = batch.end_offset

    def begin_snapshot(self) -> SnapshotState:
        """A state to replay a snapshot into, for `load_snapshot`."""
        return SnapshotState(self._core_factory)

    def load_snapshot(self, state: SnapshotState, end_offset: int) -> None:
        """The state becomes what the snapshot holds."""
        state.journal.recording = True
        self.journal, self.core = state.journal, state.core
        self._transaction_start = None
        self.replayed_to = self.committed_to = end_offset

    def commit(self, offset: int, shown_to: int | None = None) -> None:
        """Everything below `offset` is committed: it can no longer be taken back, and its responses go out.

        `shown_to`: up to where the publishers were told, where that is less.
        """
        self.committed_to = max(self.committed_to, offset)
        self.replayed_to = max(self.replayed_to, offset)
        final = self.committed_to if self._transaction_start is None else min(self.committed_to, self._transaction_start)
        self.journal.commit_to(final)
        self._respond(self._waiting, self.committed_to)
        self.show(self.committed_to if shown_to is None else shown_to)

    def show(self, offset: int) -> None:
        """The publishers were told of what is below `offset`, which is committed: its responses go out."""
        self.shown_to = max(self.shown_to, offset)
        self._respond(self._to_be_shown, self.shown_to)

    def _respond(self, queue: deque[_Waiting], offset: int) -> None:
        while queue and queue[0].offset <= offset:
            waiting = queue.popleft()
            now = self._clock.monotonic()
            self.commit_times_ms.record((now - waiting.since) * 1000, now)
            waiting.deferred.complete(waiting.response)

    # Leadership ------------------------------------------------------------------------------------------------------------

    def activate(self, epoch: int) -> None:
        """This node leads `epoch` and everything before it has been replayed."""
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
        """No longer active: back to the last commit; whoever waits must ask the next controller."""
        if not self.is_active:
            return
        logger.info("Resigning as the active controller of epoch %d", self.active_epoch)
        self.active_epoch = -1
        self.journal.revert_to(self.committed_to)
        self.replayed_to = self.committed_to
        # What is committed stays, whether it is shown yet or not.
        self._respond(self._to_be_shown, self.committed_to)
        error = self.not_controller()
        for queue in (self._waiting, self._to_be_shown):
            while queue:
                queue.popleft().deferred.fail(error)
