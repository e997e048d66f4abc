"""Choice of the next log to clean, and offsets cleaned so far (Kafka's LogCleanerManager). Everything runs on the loop.

A partition is free, being cleaned (its plan is in `_running`) or paused by one or more owners. Stopping a cleaning does not wait: its plan
is marked as stopped, and none of its further segments are swapped in. No other cleaning of the partition begins until its last step has
ended.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from odradek.base.disk import Disk
from odradek.base.errors import StorageError
from odradek.base.ids import TopicPartition
from odradek.storage.checkpoints import read_offset_checkpoint
from odradek.storage.compaction.plan import CleaningPlan, cleanable_offsets, overdue_ms
from odradek.storage.log import Log
from odradek.storage.log_directory import CheckpointWrite
from odradek.storage.log_manager import LogManager
from odradek.storage.names import CLEANER_OFFSET_CHECKPOINT

logger = logging.getLogger(__name__)


class CleanerManager:
    """State of all cleanings. The log manager reports events of logs and directories to it (as `CleanerHooks`)."""

    def __init__(self, disk: Disk, log_manager: LogManager) -> None:
        """Read the checkpoints of all directories that are online."""
        self._log_manager = log_manager
        self._running: dict[TopicPartition, CleaningPlan] = {}
        self._paused: dict[TopicPartition, set[str]] = {}
        """Owners of a pause by partition."""
        self._uncleanable: dict[str, dict[TopicPartition, str]] = {}
        self._checkpoints: dict[str, dict[TopicPartition, int]] = {}
        self._changed: set[str] = set()
        self.looked_ms: int | None = None
        """Time of the last search for a log to clean; `dirtiest` is the largest dirty ratio found then."""
        self.dirtiest = 0.0
        self.last_seconds = 0.0
        """Duration of the latest finished cleaning; `last_recopied` is the ratio of bytes written to bytes read."""
        self.last_recopied = 0.0
        self.last_utilization = 0.0
        """How full the map of keys became in the latest finished cleaning, between 0 and 1."""
        for directory in log_manager.online_directories:
            path = f"{directory.path}/{CLEANER_OFFSET_CHECKPOINT}"
            try:
                self._checkpoints[directory.path] = read_offset_checkpoint(disk, path)
            except StorageError as error:
                # Only work is lost: everything is then cleaned from the start.
                logger.warning("Ignoring a damaged checkpoint: %s", error)
                self._checkpoints[directory.path] = {}
            except OSError as error:
                self._checkpoints[directory.path] = {}
                log_manager.directory_failed(directory.path, error)

    # -- what to clean -----------------------------------------------------------------------------------------------------------------

    def grab_filthiest(self, now_ms: int) -> CleaningPlan | None:
        """Return a plan for the log with the largest dirty ratio among those that are dirty enough or overdue; None without such a log.

        The log counts as being cleaned until `done`, `failed` or `dropped` is called.
        """
        filthiest: CleaningPlan | None = None
        self.looked_ms, self.dirtiest = now_ms, 0.0
        for log in self._log_manager.logs:
            plan = self._plan(log, now_ms) if self._may_clean(log) else None
            if plan is None or plan.total_bytes == 0:
                continue
            self.dirtiest = max(self.dirtiest, plan.cleanable_ratio)
            wanted = plan.cleanable_ratio > log.config.min_cleanable_dirty_ratio or (plan.overdue and plan.cleanable_bytes > 0)
            if wanted and (filthiest is None or plan.cleanable_ratio > filthiest.cleanable_ratio):
                filthiest = plan
        return None if filthiest is None else self._begin(filthiest)

    def grab(self, log: Log, now_ms: int) -> CleaningPlan | None:
        """Return a plan for this log, as if it had never been cleaned; None when no part of it may be cleaned now."""
        plan = self._plan(log, now_ms, whole=True) if self._may_clean(log) else None
        return None if plan is None or plan.cleanable_bytes == 0 else self._begin(plan)

    def _begin(self, plan: CleaningPlan) -> CleaningPlan | None:
        try:
            plan.prepare()
        except Exception as error:
            # No error of one log may keep the other logs from being cleaned.
            self._cannot(plan.log, error)
            return None
        self._running[plan.topic_partition] = plan
        return plan

    def _may_clean(self, log: Log) -> bool:
        return log.config.compact and self._is_free(log.topic_partition) and not self.is_uncleanable(log)

    def _is_free(self, topic_partition: TopicPartition) -> bool:
        """Return whether the partition is neither being cleaned nor paused and has no future log.

        A move that continues after a restart has a future log without a `pause`. Records that are compacted away while the log is copied
        would stay in the copy, which then counts as compacted.
        """
        if topic_partition in self._running or topic_partition in self._paused:
            return False
        return self._log_manager.get_log(topic_partition, future=True) is None

    def _plan(self, log: Log, now_ms: int, *, whole: bool = False) -> CleaningPlan | None:
        try:
            offsets = cleanable_offsets(log, None if whole else self.checkpoint_of(log), now_ms)
            if offsets.reset:
                self._set_checkpoint(log.parent_directory, log.topic_partition, offsets.first_dirty)
            return CleaningPlan(log, offsets, overdue=overdue_ms(log, offsets.first_dirty, now_ms) > 0)
        except Exception as error:
            # No error of one log may keep the other logs from being cleaned.
            self._cannot(log, error)
            return None

    def _cannot(self, log: Log, error: Exception) -> None:
        """Record a log that cannot be planned for, because its disk failed or its content is invalid."""
        if isinstance(error, OSError):
            self._log_manager.on_io_error(log, error)
        else:
            self.mark_uncleanable(log, str(error))

    # -- results -----------------------------------------------------------------------------------------------------------------------

    def done(self, plan: CleaningPlan, end_offset: int) -> None:
        """Record that the log was cleaned up to `end_offset`."""
        self._forget(plan)
        if plan.is_valid():
            self._set_checkpoint(plan.log.parent_directory, plan.topic_partition, end_offset)

    def dropped(self, plan: CleaningPlan) -> None:
        """End a cleaning that was stopped or whose log has changed; the log is cleaned later from the start of its dirty part."""
        self._forget(plan)

    def failed(self, plan: CleaningPlan, reason: str) -> None:
        """End a failed cleaning; the log is not cleaned again until the broker restarts."""
        self._forget(plan)
        if plan.is_valid():
            self.mark_uncleanable(plan.log, reason)

    def _forget(self, plan: CleaningPlan) -> None:
        if self._running.get(plan.topic_partition) is plan:
            del self._running[plan.topic_partition]

    @property
    def running(self) -> Collection[CleaningPlan]:
        """Running cleanings."""
        return list(self._running.values())

    # -- stopping ----------------------------------------------------------------------------------------------------------------------

    def abort(self, topic_partition: TopicPartition) -> None:
        """Stop the cleaning of a partition, if there is one; another may begin when it has ended."""
        plan = self._running.get(topic_partition)
        if plan is not None:
            plan.stopped = True

    def pause(self, topic_partition: TopicPartition, owner: str) -> None:
        """Stop the cleaning, and allow none before `owner` and all other owners of a pause call `resume`. Idempotent."""
        self.abort(topic_partition)
        self._paused.setdefault(topic_partition, set()).add(owner)

    def resume(self, topic_partition: TopicPartition, owner: str) -> None:
        """End this owner's `pause`. A missing pause is ignored, because the owner may be older than the cleaner."""
        owners = self._paused.get(topic_partition)
        if owners is not None:
            owners.discard(owner)
            if not owners:
                del self._paused[topic_partition]

    # -- retention ---------------------------------------------------------------------------------------------------------------------

    def may_delete(self, log: Log) -> bool:
        """Return whether the regular retention may delete segments of the log: only if it is neither compacted nor being cleaned."""
        return not log.config.compact and self._is_free(log.topic_partition)

    def delete_old_segments(self) -> int:
        """Apply retention to the compacted logs and return the number of deleted segments.

        Of logs without `delete` in the policy only the segments below the log start are deleted.
        """
        return sum([self._log_manager.delete_old_segments(log) for log in self._log_manager.logs if self._may_clean(log)])

    # -- uncleanable logs --------------------------------------------------------------------------------------------------------------

    @property
    def uncleanable(self) -> Mapping[str, Mapping[TopicPartition, str]]:
        """Partitions that are not cleaned any more, with the reason, by directory."""
        return self._uncleanable

    def uncleanable_in(self, directory: str) -> Collection[TopicPartition]:
        """Return partitions as `CleanerHooks.uncleanable_in`."""
        return list(self._uncleanable.get(directory, ()))

    def is_uncleanable(self, log: Log) -> bool:
        return log.topic_partition in self._uncleanable.get(log.parent_directory, ())

    def mark_uncleanable(self, log: Log, reason: str) -> None:
        """Exclude the log from compaction and retention from now on, and log the reason."""
        logger.error("%s cannot be compacted and stays unchanged until the broker restarts: %s", log.directory, reason)
        self._uncleanable.setdefault(log.parent_directory, {})[log.topic_partition] = reason

    # -- checkpoints -------------------------------------------------------------------------------------------------------------------

    def checkpoint_of(self, log: Log) -> int | None:
        """Return the offset up to which the log was cleaned; None when it never was."""
        return self._checkpoints.get(log.parent_directory, {}).get(log.topic_partition)

    def _set_checkpoint(self, directory: str, topic_partition: TopicPartition, offset: int | None) -> None:
        offsets = self._checkpoints.get(directory)
        if offsets is None or offsets.get(topic_partition) == offset:
            return
        if offset is None:
            del offsets[topic_partition]
        else:
            offsets[topic_partition] = offset
        self._changed.add(directory)

    def take_checkpoint_writes(self) -> list[CheckpointWrite]:
        """Return writes of the cleaner-offset-checkpoint files that changed since the last call; for `write_checkpoints`, in any thread."""
        changed, self._changed = self._changed, set()
        writes: list[CheckpointWrite] = []
        for directory in self._log_manager.online_directories:
            if directory.path in changed:
                # Lines of partitions that are no longer in the directory are dropped, as in Kafka.
                offsets = {each: offset for each, offset in self._checkpoints[directory.path].items() if each in directory.logs}
                self._checkpoints[directory.path] = dict(offsets)
                write = directory.begin_offsets(CLEANER_OFFSET_CHECKPOINT, offsets)
                if write is not None:
                    writes.append(write)
        return writes

    # -- events of logs (CleanerHooks) -------------------------------------------------------------------------------------------------

    def truncated(self, log: Log) -> None:
        """Stop the cleaning of a truncated log, which must not count as cleaned beyond its active segment."""
        self.abort(log.topic_partition)
        known = self.checkpoint_of(log)
        if log.config.compact and known is not None and known > log.active.base_offset:
            self._set_checkpoint(log.parent_directory, log.topic_partition, log.active.base_offset)

    def removed(self, topic_partition: TopicPartition, directory: str) -> None:
        """Stop the cleaning of a log that is deleted or set aside, and forget its offset."""
        self.abort(topic_partition)
        self._set_checkpoint(directory, topic_partition, None)
        self._uncleanable.get(directory, {}).pop(topic_partition, None)

    def moved(self, topic_partition: TopicPartition, source: str, target: str) -> None:
        """Move the offset of a log that was moved to another directory."""
        self.abort(topic_partition)
        offset = self._checkpoints.get(source, {}).get(topic_partition)
        if offset is not None:
            self._set_checkpoint(source, topic_partition, None)
            self._set_checkpoint(target, topic_partition, offset)
        reason = self._uncleanable.get(source, {}).pop(topic_partition, None)
        if reason is not None:
            self._uncleanable.setdefault(target, {})[topic_partition] = reason

    def directory_failed(self, directory: str) -> None:
        """Stop all cleanings in a directory that went offline, and forget its offsets."""
        for plan in self._running.values():
            if plan.log.parent_directory == directory:
                plan.stopped = True
        self._checkpoints.pop(directory, None)
        self._uncleanable.pop(directory, None)
        self._changed.discard(directory)
