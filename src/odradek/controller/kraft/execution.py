"""Performer of each core step's work, in the order of `Ready`: disk, then peers, then the controller and image above."""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.disk import Disk
from odradek.consensus.messages import Event, Flushed, LogAppend, Outbound, Ready, Response, SnapshotInstalled, Tick
from odradek.consensus.raft import Raft
from odradek.controller.kraft.background import Background
from odradek.controller.kraft.exchange import Exchange
from odradek.controller.kraft.following import Following
from odradek.controller.kraft.group_commit import GroupCommit
from odradek.controller.kraft.metadata_log import MetadataLog
from odradek.controller.kraft.queue import WorkQueue
from odradek.controller.kraft.records import encode_control_batch
from odradek.controller.kraft.snapshotting import Snapshots

logger = logging.getLogger(__name__)


class Performer:
    """Performer of a node: passes events to the core one by one and does the resulting work."""

    def __init__(
        self,
        *,
        raft: Raft,
        log: MetadataLog,
        disk: Disk,
        clock: Clock,
        queue: WorkQueue,
        background: Background,
        snapshots: Snapshots,
        send: Callable[[Outbound], Deferred[Response]],
        following: Following,
        on_performed: Callable[[], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        """Create the performer. `send` sends a message to its destination.

        `on_performed` is called at the end of each step, `on_error` with the error of a failed fsync.
        """
        self._raft = raft
        self._log = log
        self._clock = clock
        self._queue = queue
        self._background = background
        self._snapshots = snapshots
        self._following = following
        self._on_performed = on_performed
        self._installed: SnapshotInstalled | None = None
        """Snapshot that has just replaced the log."""
        self.group_commit = GroupCommit(log, disk, clock, queue, background, self._flushed, on_error)
        self.exchange = Exchange(self.step, send)

    def now_ms(self) -> int:
        """Return monotonic milliseconds, the clock of the core."""
        return int(self._clock.monotonic() * 1000)

    def start(self) -> None:
        """Take the core's first step inside a work item, then read the latest snapshot of the directory."""
        self._perform_at_once(self._raft.start(self.now_ms()))
        self._following.read_on()

    def step(self, event: Event) -> None:
        """Queue an event for the core."""
        self._queue.put(lambda: self._perform(self._raft.step(event, self.now_ms())))

    def step_at_once(self, event: Event) -> None:
        """Pass an event to the core inside a work item that continues after it.

        Only a leader takes such steps, and they hardly ever need the disk. If a step does, its disk work is done on this thread.
        """
        self._perform_at_once(self._raft.step(event, self.now_ms()))

    def tick_if_due(self) -> None:
        """Process a due deadline before requests that waited in a socket. After a pause of the process another node may lead."""
        if self.now_ms() >= self._raft.deadline_ms:
            self.step_at_once(Tick())

    def _perform(self, ready: Ready) -> None:
        """Perform the work of a step. The call must be the last action of a work item."""
        if ready.quorum_state is None and ready.truncate_to is None and not ready.snapshot_chunks:
            self._perform_rest(ready)
        else:
            self._background.suspend_for(self._durable_work(ready), lambda: self._perform_rest(ready))

    def _perform_at_once(self, ready: Ready) -> None:
        self._durable_work(ready)()
        self._perform_rest(ready)

    def _durable_work(self, ready: Ready) -> Callable[[], None]:
        """Return the work that must be on the disk before any result of the step is visible. The work may run in another thread."""
        log, election, truncate_to = self._log, ready.quorum_state, ready.truncate_to
        voters, kraft_version = self._raft.voters.current.ids, self._raft.voters.kraft_version

        def work() -> None:
            if election is not None:
                log.write_election(election, kraft_version=kraft_version, voters=voters)
            if truncate_to is not None:
                logger.warning("Truncating the metadata log to offset %d, where it diverges from the leader's", truncate_to)
                log.truncate_to(truncate_to)
            for chunk in ready.snapshot_chunks:
                self._installed = self._snapshots.receive(chunk)

        return work

    def _perform_rest(self, ready: Ready) -> None:
        for append in ready.appends:
            self._append(append)
        for message in ready.messages:
            self.exchange.send(message)
        for token, response in ready.replies:
            self.exchange.reply(token, response)
        if ready.leader is not None:
            self._following.leader_changed(ready.leader)
        if ready.high_watermark is not None:
            self._following.committed(ready.high_watermark)
        if ready.snapshot_chunks:
            self._received()
        self._make_durable()
        self._on_performed()

    def _append(self, append: LogAppend) -> None:
        if append.fetched is not None:
            data = append.fetched.payload
        elif append.control:
            data = encode_control_batch(append.control, base_offset=append.base_offset, epoch=append.epoch, now_ms=self._clock.time_ms())
        else:
            data = append.payload
        assert isinstance(data, bytes)
        self._log.append(data, append.epoch)

    def _received(self) -> None:
        """Install a completed snapshot: restart the core's log at its end, and read the snapshot as committed."""
        installed, self._installed = self._installed, None
        if installed is not None:
            self.step(installed)
            self._following.log_replaced()

    def _make_durable(self) -> None:
        """Fsync the records that are not durable yet: now if others count on this copy, later on an observer."""
        if self._raft.flushed_offset < self._raft.log_end.offset:
            if self._raft.is_voter or self._raft.is_leader:
                self.group_commit.flush()
            else:
                self.group_commit.flush_later()

    def _flushed(self, offset: int) -> None:
        self._perform(self._raft.step(Flushed(offset), self.now_ms()))
