"""Who follows the log: what is committed is read, slice by slice, and the controller takes up its office and lays it down."""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.telling import tell_each
from odradek.consensus.messages import LeaderAndEpoch
from odradek.consensus.raft import Raft
from odradek.controller.kraft.active import MetadataController
from odradek.controller.kraft.commits import Commits
from odradek.controller.kraft.loader import MetadataLoader
from odradek.controller.kraft.metadata_log import MetadataLog
from odradek.controller.kraft.periodic import PeriodicTasks
from odradek.controller.kraft.queue import WorkQueue
from odradek.controller.kraft.snapshotting import Snapshots

logger = logging.getLogger(__name__)


class Following:
    """All in pieces of the queue's work."""

    def __init__(
        self,
        *,
        raft: Raft,
        log: MetadataLog,
        loader: MetadataLoader,
        controller: MetadataController | None,
        periodic: PeriodicTasks,
        snapshots: Snapshots,
        queue: WorkQueue,
        clock: Clock,
    ) -> None:
        self._raft = raft
        self._loader = loader
        self._controller = controller
        self._periodic = periodic
        self._snapshots = snapshots
        self._queue = queue
        self._clock = clock
        self._commits = Commits(log, loader, controller)
        loader.do = queue.put
        loader.on_published = self._published
        self._reads_on = False
        """Whether a slice will be read on the loop's next turn."""
        self.caught_up: Deferred[None] = Deferred()
        """Completes when everything up to the high watermark has been read for the first time, and the publishers were told."""
        self.on_leader: list[Callable[[LeaderAndEpoch], object]] = []
        """Told of each new leader, and of each epoch without one."""
        self.on_active: list[Callable[[], object]] = []
        """Told when this node's controller has become active."""

    def leader_changed(self, leader: LeaderAndEpoch) -> None:
        """Whoever is not that leader, in that epoch, is no active controller any more."""
        logger.info("The leader of epoch %d is %s", leader.epoch, leader.leader_id if leader.leader_id >= 0 else "unknown")
        self._loader.leader = leader
        controller = self._controller
        if controller is not None and (leader.leader_id != self._raft.local.id or controller.active_epoch != leader.epoch):
            controller.deactivate()
            self._periodic.stop()
        tell_each(self.on_leader, leader)

    def committed(self, high_watermark: int) -> None:
        """There is more to read."""
        self._commits.advance(high_watermark)
        self.read_on()

    def log_replaced(self) -> None:
        """By a snapshot, which is to be read now."""
        self._commits.restart()
        self.read_on()

    def read_on(self) -> None:
        """Reads a slice of what is committed; the next one when the loop has done what else there is."""
        if self._reads_on or self._loader.is_full:
            return
        if self._commits.read():
            self._reads_on = True
            self._clock.call_later(0, self._queue.put, self._read_next)
            return
        self._activate_when_replayed()
        if self._loader.caught_up:
            self.caught_up.complete(None)
        self._snapshots.consider()

    def _read_next(self) -> None:
        self._reads_on = False
        self.read_on()

    def _published(self) -> None:
        self._commits.published()
        # Perhaps the loader was full.
        self.read_on()

    def _activate_when_replayed(self) -> None:
        """A leader's controller becomes active once everything before its epoch is in the state."""
        controller, leader = self._controller, self._raft.leader_state()
        if leader is None or controller is None or controller.is_active:
            return
        if self._loader.next_offset > leader.epoch_start_offset:
            self._queue.put(lambda: self._activate(controller, leader.epoch))

    def _activate(self, controller: MetadataController, epoch: int) -> None:
        if self._raft.is_leader and self._raft.epoch == epoch and not controller.is_active:
            controller.activate(epoch)
            if controller.is_active:
                self._periodic.start()
                self._periodic.watch_heartbeats(controller.core.context.heartbeats)
                tell_each(self.on_active)
