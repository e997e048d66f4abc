"""Reader of committed records: reads them slice by slice, and activates and deactivates the controller."""

from __future__ import annotations

import logging
from collections.abc import Callable

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.notify import tell_each
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
    """Reader of committed records. All its work runs in the node's queue."""

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
        """Whether the next loop iteration will read a slice."""
        self.caught_up: Deferred[None] = Deferred()
        """Deferred that completes when everything up to the high watermark has been read for the first time and published."""
        self.on_leader: list[Callable[[LeaderAndEpoch], object]] = []
        """Callbacks for each new leader, and for each epoch without a leader."""
        self.on_active: list[Callable[[], object]] = []
        """Callbacks for the moment at which this node's controller has become active."""

    def leader_changed(self, leader: LeaderAndEpoch) -> None:
        """Note a new leader. Deactivate this node's controller unless it is active in that epoch on that leader."""
        logger.info("The leader of epoch %d is %s", leader.epoch, leader.leader_id if leader.leader_id >= 0 else "unknown")
        self._loader.leader = leader
        controller = self._controller
        if controller is not None and (leader.leader_id != self._raft.local.id or controller.active_epoch != leader.epoch):
            controller.deactivate()
            self._periodic.stop()
        tell_each(self.on_leader, leader)

    def committed(self, high_watermark: int) -> None:
        """Note a higher high watermark and read on."""
        self._commits.advance(high_watermark)
        self.read_on()

    def log_replaced(self) -> None:
        """Read the snapshot that has replaced the log."""
        self._commits.restart()
        self.read_on()

    def read_on(self) -> None:
        """Read a slice of the committed records. The next loop iteration reads the next slice."""
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
        # The loader may have been full.
        self.read_on()

    def _activate_when_replayed(self) -> None:
        """Activate a leader's controller once everything before the leader's epoch is in the state."""
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
