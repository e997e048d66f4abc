"""Planted bugs of server."""

ROWS = {
    "server/cluster/assignments.py": [
        (
            "self._sent.get(key, registration.directory(self._broker_id)",
            "registration.directory(self._broker_id",
            "a replica stays assigned to a directory that failed before the move",
        ),
        ("if gone:\n            self._forget_shown()", "return", "a replica moved away and back has no directory"),
    ],
    "server/security/audit.py": [
        ("printable(self._line(decision)", "self._line(decision", "a client forges audit log lines"),
    ],
    "server/security/authentication.py": [
        ("next(iter(self._delayed.values", "next(reversed(self._delayed.values", "with 1000 delayed refusals guesses are answered at once"),
        ("look)\n        alarm.set(self._failed_delay_s)", "end)\n        alarm.set(0)", "passwords can be tried without delay"),
        ("now_s >= until_s", "False", "unauthenticated connections stay for ever"),
        ("sasl.max_receive_size", "self._request_size", "unauthenticated clients send large messages (CVE-2022-34917)"),
    ],
    "server/security/bearer_keys.py": [
        (" or self._closed", "", "a token on a closed listener reads keys again"),
        ("answer.status != 200", "answer.status >= 400", "keys are fetched from any URL (CVE-2025-27817)"),
    ],
    "server/upkeep/cleaning.py": [
        (
            "[worker for worker in self._workers if not worker.retiring]",
            "list(self._workers)",
            "lowering and raising log.cleaner.threads loses cleaners",
        ),
    ],
    "server/cluster/controller_requests.py": [
        ("_AGAIN or self._closed", "_AGAIN", "a stopped broker sends failed requests again"),
        ("len(self._pending) >= _MOST_PENDING", "False", "requests fill the memory while there is no controller"),
    ],
    "server/cluster/disconnects.py": [
        ("self._alarm.cancel()", "self._alarm.close()", "after an election nobody is fenced for a lost connection"),
        ("if gone and self._grace.waits():", "if False:", "a busy controller fences brokers with unread heartbeats"),
    ],
    "server/requests/dispatch.py": [
        ("with controller.on_behalf_of(allows, count):\n                ", "", "a client sends the controller what only nodes may"),
    ],
    "replication/fetchers.py": [
        (
            "self._owner.harden(cuts)\n        self.wake()",
            "self._owner.harden(cuts)\n        if known:\n            self.wake()",
            "a follower with an unanswered epoch request stops",
        ),
        (
            "if log.is_cut:\n            followed.resets",
            "if False:\n            followed.resets",
            "a replica is appended to before its truncation is durable",
        ),
        ("_flushes or self._closed", "_closed", "flush.messages=1 acknowledges what followers have not fsynced"),
    ],
    "server/requests/held_requests.py": [
        ("_LEAST_COUNTED: Final = 1024", "_LEAST_COUNTED: Final = 0", "short requests wait decoded without bound"),
    ],
    "server/upkeep/log_directories.py": [
        (" if self.registrar is None else self.registrar.broker_epoch", "", "an orderly restart counts as unclean"),
        ("== static.metadata_log_dir", "is None", "a node without its metadata log runs on"),
    ],
    "server/start/logs.py": [
        ("printable(super().formatMessage(record)", "super().formatMessage(record", "a client writes lines into the log"),
    ],
    "server/requests/long_answers.py": [
        ("inf if in_one_go else ", "", "long responses keep decoded requests in memory"),
        ("if making.has_waited:", "if False:", "the bound on waiting responses is never released"),
        ("if making.gone:", "if False:", "a client that left keeps the loop working"),
    ],
    "server/metering/exporter.py": [
        ("next(iter(self._asking), None)", "None", "silent connections block health checks"),
    ],
    "server/cluster/producer_ids.py": [
        (", start + length)", ", start + length + 1)", "two producers get one id"),
    ],
    "server/cluster/publisher.py": [
        ("self._count_errors(errors)\n\n    def _apply_configs", "pass\n\n    def _apply_configs", "metadata-apply-error-count stays 0"),
    ],
    "server/cluster/registration.py": [
        (" or self._in_flight", "", "heartbeats overtake one another"),
        (" and not self.registered.done", "", "a refused second registration ends heartbeats"),
        ("await self._seen", "pass", "partitions take roles before the registration is in the metadata"),
        (
            ": kraft.image.features.levels",
            ": node.services.metadata.image.features.levels",
            "a broker waits for an image before it may register",
        ),
    ],
    "server/security/sasl_session.py": [
        (
            "if header.api_key != ApiKey.SASL_HANDSHAKE:",
            "if header.api_key == ApiKey.METADATA:\n            return Step(Outcome.VERSIONS)\n        if header.api_key != ApiKey.SASL_HANDSHAKE:",
            "a client without login reads metadata",
        ),
        ("self.expires_s is not None and now_s > self.expires_s", "False", "a session outlives its credential"),
        ("_again_from_s = now_s", "_again_from_s = self._again_from_s or now_s", "re-authentication has no pause"),
        ("= self.principal:", "= self.principal and self._in_requests:", "a bare SASL session continues as another user"),
    ],
    "server/metering/telemetry.py": [
        ("= MOST_WAITING or", "= 10**9 or", "a hanging receiver fills the memory"),
    ],
    "server/security/tls.py": [
        (
            " as error:\n                towards[listener] = error",
            ":\n                self._towards.pop(listener)",
            "an unreadable store cuts a node off",
        ),
    ],
    "server/cluster/transactions_here.py": [
        ("transaction.client_version", "0", "a marker does not raise the expected epoch"),
    ],
}
