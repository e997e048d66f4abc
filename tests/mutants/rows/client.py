"""Planted bugs of client."""

ROWS = {
    "client/network/connections.py": [
        ("=_MAX_FIRST_RESPONSE", "=MAX_RESPONSE", "a foreign server makes the client allocate without bound"),
        ("max(setup_ms, config[SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS])", "1 << 40", "a connection attempt has no time limit"),
    ],
    "client/consumer/commits.py": [
        ("self.auto.forget(left)", "pass", "an unanswered commit counts as known and is left out"),
        ("now.generation_id >= 0 and (rebalancing or now != member)", "False", "close() commits nothing while the member rejoins"),
    ],
    "client/consumer/engine.py": [
        ("if not call.made:", "if False:", "Ctrl-C keeps a rebalance from its listener"),
    ],
    "client/core/accumulator.py": [
        ("and size + HEADER_SIZE > left", "> self._limit", "records beyond buffer.memory are accepted"),
    ],
    "client/core/buffers.py": [
        ("if size // 2 <=", "if", "small batches hold more than buffer.memory"),
    ],
    "client/core/fetcher.py": [
        (" or position.generation != target.generation", "", "records fetched before a seek are delivered after it"),
        ("chunk.aborted if read_committed", "() if read_committed", "read_committed returns records of aborted transactions"),
    ],
    "client/core/membership_consumer.py": [
        ("bool(self._owned)", "False", "a fenced member reads on"),
    ],
    "client/core/metadata.py": [
        (
            "before.leader_epoch > info.leader_epoch >=",
            "info.leader_epoch <",
            "late metadata of a lagging broker leads back to the old leader",
        ),
    ],
    "client/core/outgoing.py": [
        ("= bytes(payload)", "= payload", "the caller's view of a batch is changed after it was sent"),
    ],
    "client/core/sender.py": [
        ("self._expire_on_the_wire(now_ms)", "pass", "records on the wire are not failed by a close"),
        ("self._next_epoch()", "pass", "sequences restart at 0 within an epoch: records count as duplicates"),
        (
            "_give_up(batch, self._timeout(batch, now_ms), certain=False)",
            "_give_up(batch, self._timeout(batch, now_ms), certain=True)",
            "the sequence of a batch in doubt is reused: records are lost",
        ),
        (", 0) < self._config.max_in_flight", ", 0) <= self._config.max_in_flight", "max.in.flight.requests.per.connection is exceeded"),
        ("_LOST_STATE and not batch.attempts", "_LOST_STATE", "a record is acknowledged and not written"),
        ("self._may_send_again(batch, now_ms):", "not self._closed:", "an abort waits for halves of a split batch for ever"),
        ("self._transactions is None or self._transactions.is_sending", "True", "a batch of an aborted transaction is sent after its end"),
    ],
    "client/core/validation.py": [
        ("and position.generation == target.generation ", "", "a late epoch check undoes a seek"),
    ],
    "client/calls/loop_thread.py": [
        ("    result.set_running_or_notify_cancel()\n    ", "", "a blocking call cancelled by close() never returns"),
    ],
    "client/producer/blocking.py": [
        ("if timestamp is not None:", "if False:", "one bad timestamp stops the producer"),
    ],
    "client/producer/engine.py": [
        ("self.cluster.origin.at_fork(self._router.forget)", "pass", "send() in a forked child takes records that are never sent"),
        (
            "self.cluster.metadata.want(self._sender.waiting_topics())",
            "pass",
            "a record that waits beyond metadata.max.idle.ms is never sent",
        ),
    ],
    "client/producer/transactions.py": [
        ("self.core.implicit = self._is_implicit()", "pass", "a reconnect changes the transaction version: fenced"),
        ("self._call.forget()", "pass", "a commit joins the cancelled commit before it"),
        ("await self._landed()", "pass", "a record that failed on the wire arrives after its transaction"),
    ],
    "client/schemas/cache.py": [
        ("len(self._entries) > self._capacity", "False", "schema ids of hostile records fill the memory"),
    ],
}
