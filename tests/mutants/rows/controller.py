"""Planted bugs of controller."""

ROWS = {
    "controller/core/acls.py": [
        (" and entry not in added", "", "a repeated ACL gets two ids and outlives its deletion"),
    ],
    "controller/core/brokers.py": [
        ("None and alive and", "None and not alive and", "a second broker with the id of a live one is registered"),
        ("existing.epoch ==", "existing.epoch >=", "an unclean restart may lead by eligibility and lose records"),
        ("directory in directories:", "False:", "two brokers register one log directory"),
        ("epoch != broker_epoch or broker.", "", "a restarted broker is fenced for its former epoch"),
        (
            "failed and current is ControlState.FENCED and following is ControlState.UNFENCED",
            "False",
            "a leader is elected in a directory reported as failed",
        ),
    ],
    "controller/core/partition_change.py": [
        (
            ".directories.get(replica))",
            ".partition.directory(replica) if replica in self.partition.replicas else None)",
            "a replica moved back to a working directory stays leaderless",
        ),
        (
            "record.leader = self.partition.leader  # Bumps the leader epoch.",
            "pass",
            "a removed replica fetches on with a valid leader epoch",
        ),
        ("if len(self.isr) >= self.min_isr:", "if False:", "replicas stay eligible after records they lack were acknowledged"),
    ],
    "controller/core/partitions.py": [
        (
            "    context.state.check_broker_epoch(request.broker_id, request.broker_epoch)",
            "    pass",
            "an ISR of a former broker epoch is accepted",
        ),
        ("if proposal.leader_epoch < partition.leader_epoch:", "if False:", "an ISR of a former leader epoch is accepted"),
        (
            "if proposal.partition_epoch < partition.partition_epoch:",
            "if False:",
            "an ISR of a former partition epoch overwrites a newer one",
        ),
        (" or epoch not in (-1, broker.epoch)", "", "a replica restarted since its fetch joins the ISR"),
        ("not context.state.is_active(member) or ", "", "a fenced broker joins the ISR"),
        ("len(records) >= MAX_ELECTIONS_PER_ROUND", "False", "one round of elections writes any number of records"),
    ],
    "controller/core/producer_ids.py": [
        (
            "context.state.check_broker_epoch(request.broker_id, request.broker_epoch)",
            "pass",
            "a former broker epoch takes producer id blocks",
        ),
    ],
    "controller/core/state.py": [
        ("<= self.next_producer_id", "< 0", "a producer id block is given twice"),
    ],
    "controller/core/tokens.py": [
        ("str(principal) == token.owner or str(principal) in token.renewers", "True", "anyone may expire another user's token"),
    ],
    "controller/kraft/active.py": [
        ("].offset <= offset:", "].offset <= offset + 1:", "an operation is answered before its last record commits"),
        (" or self.active_epoch != epoch", "", "an operation is answered after a failed append"),
        ("start\n                self._set_transaction(None, offset)", "None", "an uncommitted abort leaves a metadata transaction open"),
    ],
    "controller/kraft/execution.py": [
        (
            "_background.suspend_for(self._durable_work(ready), lambda: self._perform_rest(ready)",
            "_perform_rest(ready)\n            self._background.suspend_for(self._durable_work(ready), lambda: None",
            "a vote is answered before fsync",
        ),
    ],
    "controller/kraft/following.py": [
        (
            "self._loader.next_offset > leader.epoch_start_offset",
            "True",
            "a controller decides before it has read its predecessors' records",
        ),
    ],
    "controller/kraft/group_commit.py": [
        ("log.recovery_point", "log.log_end_offset", "records appended after the fsync began are answered"),
        ("log.recovery_point", "flush.up_to", "an fsync of truncated records counts for their successors"),
        (
            " or error is not None:\n            flush.release()\n            if error is not None:\n                self._on_error(error",
            ":\n            flush.release(",
            "records whose fsync failed are answered",
        ),
    ],
    "controller/kraft/loader.py": [
        ("len(self._unpublished) >= _MOST_UNPUBLISHED", "False", "images wait without bound behind a slow disk"),
    ],
    "controller/kraft/metadata_log.py": [
        ("len(self.snapshots) > 1", "self.snapshots", "retention deletes the last snapshot"),
        (
            "log.segments.write_again(0 if newest is None else newest.offset)",
            "pass",
            "records of a failed fsync count as durable after a restart",
        ),
    ],
    "controller/kraft/periodic.py": [
        ("self._heartbeats.stood_still(late_s, as_of_s)", "pass", "a controller that was paused fences all brokers"),
    ],
    "controller/kraft/snapshots.py": [
        ("file.fsync()", "pass", "a snapshot is renamed before fsync"),
        ("disk.fsync_dir(directory)", "pass", "the log is deleted below a snapshot whose name is not durable"),
    ],
    "controller/kraft/snapshotting.py": [
        ("if chunk.last:", "if False:", "a fetched snapshot replaces the log before fsync"),
    ],
}
