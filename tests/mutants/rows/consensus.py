"""Planted bugs of consensus."""

ROWS = {
    "consensus/elections.py": [
        (">= (raft.log_end.epoch, raft.log_end.offset)", ">= (0, raft.log_end.offset)", "a longer log of older epochs wins the election"),
    ],
    "consensus/polling.py": [
        ("installing_snapshot or not _may_fetch(raft)", "installing_snapshot", "a follower acknowledges records before fsync"),
    ],
    "consensus/progress.py": [
        ("end_offset = offset", "end_offset = max(self.end_offset, offset)", "records that a voter lost count as copied"),
        (
            "candidate <= self.epoch_start_offset",
            "candidate < self.epoch_start_offset",
            "records of former epochs commit without one of this epoch",
        ),
        (" if offset is None else offset + 1", "", "records fetched as an observer count without an fsync"),
    ],
    "consensus/raft.py": [
        ("self.log_end.epoch:", "0:", "the epoch goes back after a restart with an old quorum-state"),
    ],
    "consensus/replication.py": [
        ("raft.flushed_offset = min(raft.flushed_offset, offset)", "pass", "records appended after a truncation count as fsynced"),
        (" raft.high_watermark", " 0", "a follower truncates committed records"),
        ("raft.voters.truncate_from(offset)", "pass", "a truncated voter set stays in force"),
        (" != state.progress.voter_set", ".ids != state.progress.voter_set.ids", "a voter replaced by another directory id still counts"),
        ("not state.lost_quorum(raft.now_ms)", "True", "a paused leader appends what its successors never see"),
    ],
    "consensus/states.py": [
        (
            "return pre_vote and up_to_date\n        return super()",
            "return up_to_date\n        return super()",
            "a candidate votes twice in an epoch",
        ),
    ],
}
