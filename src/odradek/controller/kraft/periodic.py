"""Periodic tasks of the active controller (org.apache.kafka.controller.PeriodicTaskControlManager)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.timing import Alarm, Grace
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
    """Periodic tasks, active between `start` and `stop`. Each task has one alarm, set again after each run."""

    def __init__(self, config: BrokerConfig, clock: Clock, submit: Submit) -> None:
        self._config = config
        self._clock = clock
        self._submit = submit
        self._alarms: list[Alarm] = []
        self._session_alarm = Alarm(clock, self._session_due)
        self._heartbeats: Heartbeats | None = None
        """Heartbeats to be checked when the alarm of sessions rings."""
        self._session_due_s = 0.0
        self._grace = Grace(self._session_alarm)
        self._running = False

    def start(self) -> None:
        """Start the tasks, as this node has become the active controller."""
        self._running = True
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
        for alarm in self._alarms:
            alarm.close()
        self._alarms.clear()
        self._session_alarm.cancel()

    def watch_heartbeats(self, heartbeats: Heartbeats) -> None:
        """Set the alarm for the next broker session that may expire, unless it is set. To be called after each operation."""
        if not self._running or self._session_alarm.is_set:
            return
        at_s = heartbeats.next_check_s()
        if at_s is not None:
            self._heartbeats = heartbeats
            self._grace.restart()
            self._session_due_s = max(at_s, self._clock.monotonic() + AGAIN_AT_ONCE_S)
            self._session_alarm.set_at(self._session_due_s)

    def _session_due(self) -> None:
        """Check sessions after subtracting the time in which this process stood still, and after serving requests that wait in sockets.

        A broker is not silent because this node did not listen. (In Kafka another thread receives heartbeats, and they count from then.)
        """
        as_of_s = self._clock.monotonic()
        if self._heartbeats is not None:
            late_s = as_of_s - self._session_due_s
            if late_s > _LATE_S:
                self._heartbeats.stood_still(late_s, as_of_s)
            self._heartbeats = None
        if self._grace.waits():
            return
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
            alarm.set(AGAIN_AT_ONCE_S if again else interval_s)

        alarm = Alarm(self._clock, run)
        alarm.set(interval_s)
        self._alarms.append(alarm)

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
