"""Periodic tasks of the active controller (org.apache.kafka.controller.PeriodicTaskControlManager)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from odradek.base.clock import READING_TURNS, Clock, TimerHandle
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.config.keys.cluster import METADATA_MAX_IDLE_INTERVAL_MS
from odradek.config.keys.replication import (
    AUTO_LEADER_REBALANCE_ENABLE,
    LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS,
    UNCLEAN_LEADER_ELECTION_INTERVAL_MS,
)
from odradek.config.keys.security import DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS, DELEGATION_TOKEN_SECRET_KEY
from odradek.controller.core.brokers import fence_stale_broker
from odradek.controller.core.partitions import balance_leaders, elect_unclean_leaders
from odradek.controller.core.result import ControllerResult
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.messages.metadata_records import NoOpRecord

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.controller.core.context import ControllerContext
    from odradek.controller.core.heartbeats import Heartbeats

logger = logging.getLogger(__name__)

AGAIN_AT_ONCE_S = 0.01
"""Seconds until a task that did not finish its work in one operation runs again (PeriodicTask's immediate period)."""
_LATE_S = 0.05
"""Lateness in seconds beyond which a timer shows that the event loop stood still."""


class Submit(Protocol):
    """Signature of `KRaftNode.submit`."""

    def __call__(self, operation: Callable[[ControllerContext], ControllerResult[object]], name: str) -> Deferred[object]: ...


class PeriodicTasks:
    """Periodic tasks, active between `start` and `stop`. Each task has one timer, set again after each run."""

    def __init__(self, config: BrokerConfig, clock: Clock, submit: Submit) -> None:
        self._config = config
        self._clock = clock
        self._submit = submit
        self._timers: dict[str, TimerHandle] = {}
        self._running = False
        self._term = 0
        """Counter of starts and stops. A task begun in an earlier term does not set its timer again."""

    def start(self) -> None:
        """Start the tasks, as this node has become the active controller."""
        self._running = True
        self._term += 1
        config = self._config
        idle_ms = config[METADATA_MAX_IDLE_INTERVAL_MS]
        if idle_ms > 0:
            # No-op records tell replicas that have no other records to fetch that they are up to date (KIP-835).
            self._every("writeNoOpRecord", idle_ms / 1000, _no_op)
        if config[AUTO_LEADER_REBALANCE_ENABLE]:
            balance_s = config[LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS]
            self._every("electPreferred", balance_s, lambda context: _widen(balance_leaders(context)))
        if config[DELEGATION_TOKEN_SECRET_KEY]:
            from odradek.controller.core.tokens import sweep_expired_tokens

            sweep_s = config[DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS] / 1000
            self._every("expireDelegationTokens", sweep_s, lambda context: _widen(sweep_expired_tokens(context, self._clock.time_ms())))
        unclean_s = config[UNCLEAN_LEADER_ELECTION_INTERVAL_MS] / 1000
        self._every("electUnclean", unclean_s, lambda context: _widen(elect_unclean_leaders(context)))

    def stop(self) -> None:
        self._running = False
        self._term += 1
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def watch_heartbeats(self, heartbeats: Heartbeats) -> None:
        """Set the timer for the next broker session that may expire, unless it is set. To be called after each operation."""
        if not self._running or "fenceStaleBroker" in self._timers:
            return
        at_s = heartbeats.next_check_s()
        if at_s is not None:
            now_s = self._clock.monotonic()
            due_s = max(at_s, now_s + AGAIN_AT_ONCE_S)
            self._timers["fenceStaleBroker"] = self._clock.call_later(due_s - now_s, self._session_due, heartbeats, due_s)

    def _session_due(self, heartbeats: Heartbeats, due_s: float) -> None:
        """Check sessions after subtracting the time in which this process stood still, and after serving requests that wait in sockets.

        A broker is not silent because this node did not listen. (In Kafka another thread receives heartbeats, and they count from then.)
        """
        now_s = self._clock.monotonic()
        if now_s - due_s > _LATE_S:
            heartbeats.stood_still(now_s - due_s, now_s)
        self._check_heartbeats(READING_TURNS)

    def _check_heartbeats(self, grace: int) -> None:
        if grace:
            self._timers["fenceStaleBroker"] = self._clock.call_later(0, self._check_heartbeats, grace - 1)
            return
        self._timers.pop("fenceStaleBroker", None)
        as_of_s = self._clock.monotonic()
        # After this operation, as after every other one, `watch_heartbeats` is called.
        fenced = self._submit(lambda context: _widen(fence_stale_broker(context, as_of_s)), "fenceStaleBroker")
        self._report("fenceStaleBroker", fenced)

    def _every(self, name: str, interval_s: float, operation: Callable[[ControllerContext], ControllerResult[object]]) -> None:
        def run() -> None:
            deferred = self._submit(operation, name)
            self._report(name, deferred)
            deferred.add_callback(finished)

        def finished(deferred: Deferred[object]) -> None:
            again = deferred.error is None and deferred.result() is True
            if self._term == term:
                self._timers[name] = self._clock.call_later(AGAIN_AT_ONCE_S if again else interval_s, run)

        term = self._term
        self._timers[name] = self._clock.call_later(interval_s, run)

    def _report(self, name: str, deferred: Deferred[object]) -> None:
        def done(finished: Deferred[object]) -> None:
            error = finished.error
            if error is not None and not (isinstance(error, KafkaError) and error.code is ErrorCode.NOT_CONTROLLER):
                logger.error("The controller's task %s failed: %s", name, error, exc_info=error)

        deferred.add_callback(done)


def _no_op(_: ControllerContext) -> ControllerResult[object]:
    return ControllerResult([VersionedRecord(NoOpRecord(), 0)], None)


def _widen(result: ControllerResult[bool] | ControllerResult[int | None]) -> ControllerResult[object]:
    return ControllerResult(result.records, result.response, atomic=result.atomic)
