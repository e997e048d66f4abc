"""Planted bugs of storage."""

ROWS = {
    "storage/appending.py": [
        ("marker is not None:", "marker is None:", "a fenced coordinator's marker ends a transaction"),
        ("try:\n        if log.durability.is_cut:\n            harden(log)", "try:", "a leader overwrites an unfinished truncation"),
    ],
    "storage/checkpoints.py": [
        ("rows) != expected", "rows) > expected", "a truncated checkpoint file is believed"),
    ],
    "storage/compaction/cleaner.py": [
        (
            "for good.\n                source.file.fsync()",
            "for good.\n                pass",
            "compaction removes old values before the new are durable",
        ),
    ],
    "storage/compaction/plan.py": [
        ("min(log.last_stable_offset, log.active.base_offset)", "log.active.base_offset", "records of open transactions are compacted"),
    ],
    "storage/compaction/swap.py": [
        (
            "return Swapped(disk, log, segment, deleted",
            "log.segments.deleted += deleted\n        return Swapped(disk, log, segment, []",
            "segments are removed before the swap is durable",
        ),
    ],
    "storage/creation.py": [
        ("if each.topic_partition in self._tables.current:", "if False:", "two logs write the same files"),
        ("not is_new or topic_partition", "topic_partition", "a failed directory's replica is recreated empty"),
    ],
    "storage/disk.py": [
        ("fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)", "pass", "a JVM broker starts on a locked directory"),
        ("written != total", "written > total", "a short write leaves a torn batch"),
        (
            "\n        if durable:\n            self.fsync_dir(os.path.dirname(path))",
            "",
            "a replaced file is the old one after a power cut",
        ),
    ],
    "storage/duplicates.py": [
        ('return log, "the', 'return empty, "the', "a failed creation's empty log replaces the records"),
        ("reason is _ASSIGNED", "reason is None", "records are deleted because of the metadata"),
    ],
    "storage/flushing.py": [
        ("self.is_cut or offset >", "offset >", "truncated records return after a power cut"),
        ("recovery_point = min(self.recovery_point, log_end_offset)\n        self.", "", "records after a truncation count as flushed"),
        (
            'self._directories.update(path.rpartition("/")[0] for path in names)',
            "pass",
            "records count as flushed in a directory that is not durable",
        ),
    ],
    "storage/leader_epochs.py": [
        ("self.number > order.written", "True", "an overtaken flush writes truncated epochs"),
    ],
    "storage/loader.py": [
        ("log.segments.write_again(log.recovery_point)", "pass", "records of a failed fsync count as durable after a restart"),
        ("if rest:", "if not rest:", "a dropped segment returns after a power cut"),
        ("<= self.recovery_point:", "<= self.recovery_point + 1:", "the unflushed end of a segment is not checked"),
        ("offset < lowest_cleaned", "offset <= lowest_cleaned", "an unfinished swap replaces its segments"),
    ],
    "storage/log_directory.py": [
        ("\n            self._disk.fsync_dir(self.path)", "", "an old clean-shutdown marker returns after a power cut"),
        ("\n            self.write_recovery_points()", "", "a recreated log keeps its predecessor's recovery point"),
    ],
    "storage/log_manager.py": [
        (
            "write_recovery_points()\n                directory.write_log_start_offsets()\n                directory.write_clean_marker(broker_epoch",
            "write_clean_marker(broker_epoch)\n                directory.write_recovery_points()\n                directory.write_log_start_offsets(",
            "a shutdown with failed checkpoints counts as clean",
        ),
        ("finally:", "except ValueError:\n            raise\n        else:", "a recreated topic gets its predecessor's log"),
        (
            "if out_of_descriptors(error):\n            now = self._clock.monotonic()",
            "if error is None:\n            now = self._clock.monotonic()",
            "want of descriptors is taken for a failure of a directory",
        ),
    ],
    "storage/moves.py": [
        ("_disk.fsync_dir(self.directory)\n        self.", "", "a moved log has its old name after a power cut"),
        ("and len(tables.online_directories) == len(tables.directories)", "", "a partial copy replaces the log of an offline directory"),
    ],
    "storage/offline.py": [
        ("+ 1 < len(log.bases)", "< 0", "a truncated segment is missing silently from a table"),
    ],
    "storage/producer_state.py": [
        (">= high_watermark", "> high_watermark", "the last stable offset passes an unreplicated marker"),
        ("epoch == self.epoch:", "True:", "the first batch of a new epoch is dropped as a duplicate"),
        (
            "producer_id\n            self._verifications.pop(producer_id, None)",
            "producer_id",
            "an old verification opens the next transaction",
        ),
        ("> coordinator_epoch:", "> coordinator_epoch + 1:", "a replaced coordinator writes markers"),
        (
            "[batch for batch in entry.batches if batch.last_offset < offset]",
            "list(entry.batches)",
            "a batch after a truncation counts as a duplicate",
        ),
    ],
    "storage/retention.py": [
        ("log.high_watermark", "log.log_end_offset", "retention deletes unreplicated records"),
    ],
    "storage/segment.py": [
        ("self.txn_index.truncate_to(offset)", "pass", "a truncated abort hides a committed transaction"),
    ],
    "storage/slices.py": [
        ("if self._readers == 0:", "if self._readers >= 0:", "a file is closed while it is being sent"),
    ],
    "storage/truncation.py": [
        ("return False\n    log.durability.void_plans()", "return False", "an fsync vouches for records after a truncation"),
        ("if log.options.write_checkpoints is not None:", "if False:", "the recovery point stays above a truncated end"),
    ],
}
