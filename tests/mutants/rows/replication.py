"""Planted bugs of replication."""

ROWS = {
    "replication/acks.py": [
        ("self._waiting >= self._max_waiting", "False", "waiting acks=all requests have no bound"),
    ],
    "replication/appender.py": [
        ("not internal_topics_allowed and topic_partition.topic in INTERNAL_TOPICS", "False", "clients write to __consumer_offsets"),
        ("flush_due is not None", "False", "acks=1 with flush.messages=1 is answered before the fsync"),
    ],
    "replication/cluster_view.py": [
        ("fetch_broker_epoch in (-1, alive_epoch)", "True", "a fetch of a former broker epoch joins the ISR"),
    ],
    "replication/delete_records.py": [
        (
            "(written or Deferred[None].of(None)).add_callback(wait",
            "wait(Deferred[None].of(None)",
            "DeleteRecords is answered before the log start is durable",
        ),
    ],
    "replication/fetch_session.py": [
        ("session.epoch = next_epoch(epoch)", "pass", "a repeated session request is not noticed"),
        (") >= self.max_sessions", ") > self.max_sessions", "one fetch session more than the limit"),
    ],
    "replication/fetching/states.py": [
        (" and self.asked == self.position.log_end_offset", "", "a stale response is appended after a truncation"),
    ],
    "replication/flushing.py": [
        ("log.failed(error)", "pass", "a failed fsync leaves its directory online"),
        ("caller.fail(error", "caller.complete(None", "a failed fsync is acknowledged"),
    ],
    "replication/future_replicas.py": [
        ("_flush(move, self._ask", "_ask(move", "the controller hears of a move before it is durable"),
        ("self._clock.monotonic() >= move.hold_until", "False", "a move holds up acknowledgements without a limit"),
    ],
    "replication/high_watermarks.py": [
        (
            "= saved.pop(log.topic_partition",
            "= saved.get(log.topic_partition",
            "a recreated log is read to its predecessor's high watermark",
        ),
        ("self._last and not last", "False", "a clean stop writes old high watermarks"),
    ],
    "replication/metadata_changes.py": [
        ("            or after.epoch != known.epoch\n", "", "a new incarnation leaves the high watermark waiting"),
        ("            self._flush(unflushed)\n", "", "without descriptors at first the high watermark waits for an append"),
    ],
    "replication/partition.py": [
        (" isr.maximal_isr", " isr.isr", "the high watermark ignores a replica joining the ISR"),
        (
            "if registration.partition_epoch < self.partition_epoch:\n            return False\n        new_leader",
            "new_leader",
            "older metadata takes back the ISR",
        ),
        (
            "self.leader_epoch_start_offset = start_offset",
            "self.leader_epoch_start_offset = log.high_watermark",
            "a follower joins the ISR without committed records",
        ),
        (" leader_epoch != self", " leader_epoch > self", "a deposed leader's late batch is stored"),
        ("not self._is_under_min_isr(log) and ", "", "the high watermark moves below min.insync.replicas"),
        (
            "broker_epoch != -1 and alive_epoch is not None and alive_epoch > broker_epoch",
            "False",
            "a fetch of a former broker epoch moves the high watermark",
        ),
        ("   self.replicas.clear()\n         ", "", "a re-elected leader believes its old follower offsets"),
        (
            "now_s = self._clock.monotonic()\n        end_offset = log.log_end_offset",
            "now_s = self._clock.time_ms() / 1000 - 1_700_000_000\n        end_offset = log.log_end_offset",
            "a jump of the wall clock empties the ISR",
        ),
        (
            "                        and self._cluster.has_online_replica(self.topic_partition, replica.broker_id)\n",
            "",
            "a caught-up replica in a failed directory holds acks=all back",
        ),
    ],
    "replication/replica_manager.py": [
        (" and partition.log.parent_directory == directory", "", "one failed disk takes all partitions offline"),
    ],
    "replication/verification.py": [
        ("guards=guards,", "guards=None,", "an end marker between verification and append is missed"),
    ],
}
