"""Planted bugs of coordinator."""

ROWS = {
    "coordinator/context.py": [
        (" or not self.log.continue_leading(leader_epoch)", "", "a coordinator keeps the state of another log"),
        (
            "self._revert(offset, gathered, problem)\n            return",
            "raise",
            "operations batched with a failing one are never answered",
        ),
        (
            'logger.exception("a callback after an operation of a coordinator failed")',
            "raise",
            "one response that fails holds back those behind it",
        ),
        (" or committed < self.next_offset", "", "an answer after a time-out rests on uncommitted records"),
    ],
    "coordinator/group/classic/group.py": [
        ("generation_or_epoch !=", "generation_or_epoch >", "a member of an old generation overwrites offsets"),
    ],
    "coordinator/group/consumer/manager.py": [
        ("received == member.previous_epoch and reported", "reported", "a member many epochs behind is not fenced"),
    ],
    "coordinator/group/consumer/reconciliation.py": [
        ("target.is_free(topic_id, partition)", "True", "two members own a partition"),
        ("revoked and _may_own(revoked, reported)", "False", "a partition moves before its owner gave it up"),
    ],
    "coordinator/group/consumer/regexes.py": [
        (" and (may_describe is None or may_describe(name))", "", "a pattern shows topics the subscriber may not describe"),
    ],
    "coordinator/group/memory.py": [
        ("member_id, member.client_id, member.instance_id, member.rack_id, member.", "", "member ids of 32 KiB fill the memory"),
    ],
    "coordinator/group/offsets.py": [
        ("validate(topic_id, each.partition_index)", "pass", "a member commits for partitions under an older epoch"),
        ("if committed and", "if", "offsets of an aborted transaction become visible"),
        (
            "ZERO_UUID not in (topic_id, value.topic_id) and topic_id != value.topic_id",
            "False",
            "a recreated topic is read from its predecessor's offset",
        ),
    ],
    "coordinator/group/shard.py": [
        ("(names is not None or regex is not None)", "names is not None", "members that subscribe by a pattern alone are not counted"),
        ("), None, atomic=False)", "), None)", "offsets of a deleted topic stay when one batch cannot hold them"),
    ],
    "coordinator/partition_log.py": [
        ("if partition.leader_epoch != leader_epoch:", "if False:", "a former leader epoch's coordinator appends"),
    ],
    "coordinator/patterns.py": [
        ("len(pattern) > LONGEST", "False", "a pattern has no maximum length"),
        ("options.max_mem = _MEMORY", "options.max_mem = 1 << 40", "a short pattern takes any memory and any time"),
    ],
    "coordinator/transaction/markers.py": [
        (
            "                if not job.done.done:\n                    self",
            "                if True:\n                    self",
            "markers are sent after the partition moved away",
        ),
    ],
    "coordinator/transaction/shard.py": [
        ("_journal.record(offset, _nothing, self._on_prepared, ", "_on_prepared(", "markers are sent for an uncommitted decision"),
    ],
    "coordinator/transaction/state.py": [
        (
            "producer_epoch=min(transaction.producer_epoch + 1, MAX_EPOCH)",
            "producer_epoch=transaction.producer_epoch",
            "a late record of a transaction joins the next",
        ),
        (
            "raise concurrent(transaction)\n    if transaction.producer_id",
            "raise fenced(transaction, producer_epoch)\n    if transaction.producer_id",
            "an abort right after a commit fences the producer",
        ),
    ],
}
