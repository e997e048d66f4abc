"""Registration and heartbeats of a broker at the controller (BrokerLifecycleManager, KIP-631).

1. BrokerRegistration is sent until the controller accepts it; the response has the broker epoch. An error that retries do not fix ends the
   start of the broker, but not a broker that was registered before.
2. BrokerHeartbeat is sent every broker.heartbeat.interval.ms. It asks to stay fenced while the metadata log is not replayed up to the
   registration. A change of the request is sent at once, not with the next heartbeat.
3. Once caught up and ready the broker asks to be unfenced; the response that confirms it makes the broker RUNNING.
4. For a controlled shutdown the broker asks to shut down, until the controller confirms that this broker leads no partition.

After a stale broker epoch (the controller restarted without this broker, or a session expired) the broker registers again. A new controller
hears of this broker at once. A broker that shuts down waits for the controller as long as the controller answers. A controller that is
silent for a whole session cannot confirm the shutdown, and the session is over anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, cast
from uuid import UUID

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, StorageError, code_of
from odradek.base.ids import random_uuid
from odradek.base.timing import Alarm, Backoff
from odradek.config.keys.cluster import INITIAL_BROKER_REGISTRATION_TIMEOUT_MS
from odradek.config.keys.log import LOG_DIR_FAILURE_TIMEOUT_MS
from odradek.handlers.scopes import TO_CONTROLLER
from odradek.metadata.features import cordoned_log_dirs_supported, directory_assignment_supported, registered_features
from odradek.server.cluster.channel import InterBrokerChannel
from odradek.server.cluster.lifecycle import BrokerState, BrokerStateMachine
from odradek.server.step import StartError, Step

if TYPE_CHECKING:
    import random

    from odradek.consensus.messages import LeaderAndEpoch
    from odradek.controller.kraft.node import KRaftNode
    from odradek.metadata.image import MetadataImage
    from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse
    from odradek.protocol.messages.broker_registration import BrokerRegistrationResponse
    from odradek.protocol.schema import Message
    from odradek.server.start.identity import NodeIdentity
    from odradek.server.start.node import Node
    from odradek.server.upkeep.log_directories import LogDirectories

logger = logging.getLogger(__name__)

_FIRST_RETRY_MS = 50
_LEAVING_INTERVAL_S = 0.05
_REFRESH_RETRY_S = 1.0
_FINAL = frozenset({ErrorCode.INCONSISTENT_CLUSTER_ID, ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REGISTRATION})
"""Errors of the first registration that retries do not fix."""


class AdvertisedListener(NamedTuple):
    """Address at which clients of a listener reach this broker; `security_protocol` is Kafka's number."""

    name: str
    host: str
    port: int
    security_protocol: int


class Identity(NamedTuple):
    """Contents of a registration that stay the same for one start of the broker."""

    broker_id: int
    cluster_id: str
    incarnation_id: UUID
    listeners: list[AdvertisedListener]
    rack: str | None
    log_dirs: list[UUID]
    previous_broker_epoch: int


class BrokerRegistrar:
    """Registration and heartbeats of a broker. `registered` and `running` complete with these events, `left` when the controller confirms
    the shutdown.
    """

    def __init__(
        self,
        identity: Identity,
        channel: InterBrokerChannel,
        clock: Clock,
        states: BrokerStateMachine,
        *,
        heartbeat_interval_s: float,
        session_timeout_s: float,
        metadata_offset: Callable[[], int],
        finalized: Callable[[], Mapping[str, int]] = dict,
        offline_log_dirs: Callable[[], list[UUID]],
        cordoned_log_dirs: Callable[[], list[UUID] | None] = list,
        failure_timeout_s: float = 30.0,
        on_fatal: Callable[[BaseException], object] = lambda error: None,
    ) -> None:
        """`finalized` returns the finalized levels of features that this node has read from the metadata log, because the registration
        precedes the first published image. `cordoned_log_dirs` returns None while the metadata.version does not support cordons:
        controllers of that version do not read them. `failure_timeout_s` (log.dir.failure.timeout.ms): `on_fatal` is called when the
        controller has not learned of a failed directory within that time.
        """
        self._identity = identity
        self._channel = channel
        self._clock = clock
        self._states = states
        self._interval_s = heartbeat_interval_s
        self._session_timeout_s = session_timeout_s
        self._timeout_s = session_timeout_s / 2
        self._metadata_offset = metadata_offset
        self._finalized = finalized
        self._offline_log_dirs = offline_log_dirs
        self._cordoned_log_dirs = cordoned_log_dirs
        self._failure_timeout_s = failure_timeout_s
        self._on_fatal = on_fatal
        self._known_offline: set[UUID] = set()
        """Failed directories that the controller has acknowledged."""
        self._reported: list[UUID] = []
        """Failed directories in the heartbeat under way."""
        self._alarm = Alarm(clock, self._run_next)
        self._next: Callable[[], None] = self._register
        """Action of the alarm."""
        self._answered_s = clock.monotonic()
        """Monotonic seconds of the controller's last response."""
        self.problem = ""
        """Reason why the last request was not accepted; "" when it was."""
        self._in_flight = False
        self._again = False
        self._refreshing = False
        self._backoff = Backoff(_FIRST_RETRY_MS, session_timeout_s * 1000 / 2)
        self._ready = False
        self._leaving = False
        self._stopped = False
        self.broker_epoch = -1
        self.on_registered: Callable[[], object] | None = None
        """Callback after each accepted registration."""
        self.registered: Deferred[int] = Deferred()
        self.running: Deferred[None] = Deferred()
        self.left: Deferred[None] = Deferred()

    # -- for the wiring --------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Send the registration until it is accepted or finally refused (then `registered` fails)."""
        self._register()

    def ready(self) -> None:
        """Note that the rest of the broker is ready: ask to be unfenced as soon as the metadata is caught up."""
        self._ready = True
        self._beat_now()

    def metadata_changed(self, image: MetadataImage) -> None:
        """Note a published image. Before RUNNING this sends a heartbeat at once. The image may also require a new registration."""
        if self._states.state in (BrokerState.STARTING, BrokerState.RECOVERY):
            self._beat_now()
        if self._needs_refresh(image):
            self._refresh()

    def _needs_refresh(self, image: MetadataImage) -> bool:
        """Return whether the registration dates from a metadata.version without log directories, and the current version supports them
        (org.apache.kafka.image.publisher.BrokerRegistrationTracker).
        """
        mine = image.cluster.brokers.get(self._identity.broker_id)
        return (
            mine is not None
            and mine.epoch == self.broker_epoch
            and not mine.directories
            and bool(self._identity.log_dirs)
            and directory_assignment_supported(image.features.metadata_version or 0)
        )

    def _refresh(self) -> None:
        """Register again, with the same incarnation and epoch, until the controller accepts."""
        if self._refreshing or self._leaving or self._stopped:
            return
        self._refreshing = True

        def refreshed(done: Deferred[Message]) -> None:
            self._refreshing = False
            code = ErrorCode.NETWORK_EXCEPTION
            if done.error is None:
                code = code_of(cast("BrokerRegistrationResponse", done.result()).error_code)
            if code is not ErrorCode.NONE:
                logger.info("broker %d could not register its log directories (%s)", self._identity.broker_id, code.name)
                self._clock.call_later(_REFRESH_RETRY_S, self._refresh)

        self._send_registration(refreshed)

    def directories_changed(self) -> None:
        """Send a heartbeat at once, because log directories were cordoned or uncordoned."""
        self._beat_now()

    def directory_failed(self, directory_id: UUID) -> None:
        """Report a log directory that went offline.

        Until the controller knows of the failure, it sends clients here for the directory's partitions. If the controller does not learn of
        it within `failure_timeout_s`, the broker ends, so that its session ends.
        """
        self._beat_now()
        self._clock.call_later(self._failure_timeout_s, self._check_reported, directory_id)

    def _check_reported(self, directory_id: UUID) -> None:
        if not self._stopped and directory_id not in self._known_offline:
            reason = (
                f"the controller could not be informed within {self._failure_timeout_s:g} s that log directory {directory_id} has failed"
            )
            self._on_fatal(StorageError(reason))

    def controller_changed(self) -> None:
        """Send at once the request that waits for the alarm, because another controller leads."""
        if self._alarm.is_set and not self._stopped:
            self._backoff.reset()
            self._alarm.cancel()
            self._run_next()

    def leave(self) -> Deferred[None]:
        """Ask the controller to move the leaders away. The Deferred completes when this is done, or when the controller has not answered
        for a whole session.

        Kafka waits five minutes for the controller, even if it is silent.
        """
        self._leaving = True
        if self.broker_epoch < 0 or self._stopped:
            self.left.complete(None)
        else:
            self._beat_now()
            self._stop_leaving()
        return self.left

    def _stop_leaving(self) -> None:
        """Stop waiting for a silent controller."""
        if self.left.done:
            return
        silent_s = self._clock.monotonic() - self._answered_s
        if silent_s >= self._session_timeout_s:
            logger.warning(
                "the controller has not responded to broker %d for %.0f s; leaving without its consent", self._identity.broker_id, silent_s
            )
            self.left.complete(None)
        else:
            self._clock.call_later(self._session_timeout_s - silent_s, self._stop_leaving)

    def stop(self) -> None:
        """Send no further request."""
        self._stopped = True
        self._alarm.close()
        for deferred in (self.registered, self.running):
            deferred.fail(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "the broker is shutting down"))
        self.left.complete(None)

    # -- registration ----------------------------------------------------------------------------------------------------------

    def _register(self) -> None:
        if not self._stopped:
            self._send_registration(self._registered)

    def _send_registration(self, answered: Callable[[Deferred[Message]], None]) -> None:
        from odradek.protocol.messages.broker_registration import BrokerRegistrationRequest

        identity = self._identity
        request = BrokerRegistrationRequest(
            broker_id=identity.broker_id,
            cluster_id=identity.cluster_id,
            incarnation_id=identity.incarnation_id,
            listeners=[
                BrokerRegistrationRequest.Listener(name=name, host=host, port=port, security_protocol=protocol)
                for name, host, port, protocol in identity.listeners
            ],
            features=[
                BrokerRegistrationRequest.Feature(name=name, min_supported_version=levels.minimum, max_supported_version=levels.maximum)
                for name, levels in registered_features(self._finalized()).items()
            ],
            rack=identity.rack,
            log_dirs=sorted(identity.log_dirs, key=lambda directory_id: directory_id.int),
            previous_broker_epoch=identity.previous_broker_epoch,
        )
        self._channel.send(TO_CONTROLLER, request.API_KEY, request, 4, timeout_s=self._timeout_s).add_callback(answered)

    def _registered(self, done: Deferred[Message]) -> None:
        if self._stopped:
            return
        if done.error is not None:
            self._later(self._register, done.error)
            return
        response = cast("BrokerRegistrationResponse", done.result())
        self._answered_s = self._clock.monotonic()
        code = code_of(response.error_code)
        # Like Kafka, a broker that was registered before goes on trying: the next controller may accept it.
        if code in _FINAL and not self.registered.done:
            self.registered.fail(KafkaError(code, "the controller refuses the registration of this broker"))
            return
        if code != ErrorCode.NONE:
            self._later(self._register, code.name)
            return
        self._accepted()
        self.broker_epoch = response.broker_epoch
        logger.info("registered as broker %d with epoch %d", self._identity.broker_id, response.broker_epoch)
        self.registered.complete(response.broker_epoch)
        if self.on_registered is not None:
            self.on_registered()
        self._beat_now()

    def _accepted(self) -> None:
        self._backoff.reset()
        self.problem = ""

    def _later(self, action: Callable[[], None], reason: object) -> None:
        if self.problem != str(reason):
            self.problem = str(reason)
            logger.info("the controller did not accept the request of broker %d (%s); retrying", self._identity.broker_id, reason)
        self._schedule(self._backoff.next_s(), action)

    def _schedule(self, delay_s: float, action: Callable[[], None]) -> None:
        self._next = action
        self._alarm.set(delay_s)

    def _run_next(self) -> None:
        self._next()

    # -- heartbeats ------------------------------------------------------------------------------------------------------------

    def _beat_now(self) -> None:
        if self._stopped or self.broker_epoch < 0:
            return
        if self._in_flight:
            self._again = True
        else:
            self._beat()

    def _beat(self) -> None:
        # Only one heartbeat is under way. The response to the last may already have caused another, through callbacks.
        if self._stopped or self._in_flight:
            return
        from odradek.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest

        self._in_flight = True
        self._again = False
        self._reported = list(self._offline_log_dirs())
        caught_up = self._states.state not in (BrokerState.STARTING, BrokerState.NOT_RUNNING)
        request = BrokerHeartbeatRequest(
            broker_id=self._identity.broker_id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=not (self._ready and caught_up) or (self._leaving and self._states.state < BrokerState.RUNNING),
            want_shut_down=self._leaving,
            offline_log_dirs=self._reported,
            # None before RECOVERY: until then the metadata may not have reached a version with cordons.
            cordoned_log_dirs=self._cordoned_log_dirs() if caught_up else None,
        )
        self._channel.send(TO_CONTROLLER, request.API_KEY, request, 2, timeout_s=self._timeout_s).add_callback(self._beaten)

    def _beaten(self, done: Deferred[Message]) -> None:
        self._in_flight = False
        if self._stopped:
            return
        if done.error is not None:
            self._later(self._beat, done.error)
            return
        response = cast("BrokerHeartbeatResponse", done.result())
        self._answered_s = self._clock.monotonic()
        code = code_of(response.error_code)
        if code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            if self._leaving:
                self.left.complete(None)
                return
            self.broker_epoch = -1
            self._later(self._register, code.name)
            return
        if code != ErrorCode.NONE:
            self._later(self._beat, code.name)
            return
        self._accepted()
        self._known_offline.update(self._reported)
        if self._follow(response) or self._again:
            self._beat()
        else:
            self._schedule(min(self._interval_s, _LEAVING_INTERVAL_S) if self._leaving else self._interval_s, self._beat)

    def _follow(self, response: BrokerHeartbeatResponse) -> bool:
        """Apply the state change that the response allows. Return whether another heartbeat should follow at once."""
        state = self._states.state
        if self._leaving:
            if response.should_shut_down:
                self.left.complete(None)
            return False
        if state is BrokerState.STARTING and response.is_caught_up:
            self._states.to(BrokerState.RECOVERY)
            return self._ready
        if state is BrokerState.RECOVERY and not response.is_fenced:
            self._states.to(BrokerState.RUNNING)
            self.running.complete(None)
        return False


# -- steps of the start -----------------------------------------------------------------------------------------------------------


def new_registrar(
    node: Node,
    identity: NodeIdentity,
    directories: LogDirectories,
    listeners: list[AdvertisedListener],
    channel: InterBrokerChannel,
    kraft: KRaftNode,
) -> BrokerRegistrar:
    """Return the registrar of this start, for a broker whose logs are loaded; it sends nothing before its `start`."""
    config = node.config
    registrar = BrokerRegistrar(
        Identity(
            config.node_id,
            identity.cluster_id,
            new_incarnation_id(kraft.image, node.random),
            listeners,
            config.rack,
            directories.online_ids,
            directories.log_manager.previous_broker_epoch,
        ),
        channel,
        node.clock,
        node.states,
        heartbeat_interval_s=config.broker_heartbeat_interval_ms / 1000,
        session_timeout_s=config.broker_session_timeout_ms / 1000,
        metadata_offset=lambda: node.services.metadata.image.offset,
        finalized=lambda: kraft.image.features.levels,
        offline_log_dirs=lambda: directories.offline_ids,
        cordoned_log_dirs=lambda: (
            directories.cordoned_ids if cordoned_log_dirs_supported(node.services.metadata.image.features.metadata_version or 0) else None
        ),
        failure_timeout_s=config[LOG_DIR_FAILURE_TIMEOUT_MS] / 1000,
        on_fatal=node.fatal,
    )
    directories.registrar = registrar
    return registrar


class RegisterBroker(Step[None]):
    """Step that registers with the controller, and waits until the metadata contains the registration. Heartbeats continue until its stop.

    No partition takes a role before that. The metadata may still name this broker as leader although it has lost records in a power
    failure. New records that it appended in the same epoch would be indistinguishable from those of its followers. With the registration
    the controller moves leaders away from a broker that did not shut down cleanly. (As in Kafka, whose publishers come after the
    registration.)
    """

    name = "introduction"

    def __init__(self, node: Node, kraft: KRaftNode, registrar: BrokerRegistrar) -> None:
        self._node = node
        self._kraft = kraft
        self._registrar = registrar
        self._seen: Deferred[None] = Deferred()

    def _look(self, image: MetadataImage) -> None:
        mine = image.cluster.brokers.get(self._node.config.node_id)
        if mine is not None and mine.epoch == self._registrar.broker_epoch:
            self._seen.complete(None)

    def _leader_changed(self, leader: LeaderAndEpoch) -> None:
        if leader.leader_id >= 0:
            self._node.clock.call_later(0, self._registrar.controller_changed)

    async def start(self) -> None:
        self._kraft.on_leader.append(self._leader_changed)
        self._registrar.start()
        patience_ms = self._node.config[INITIAL_BROKER_REGISTRATION_TIMEOUT_MS]
        try:
            await asyncio.wait_for(self._registrar.registered, patience_ms / 1000)
        except TimeoutError:
            why = f": {self._registrar.problem}" if self._registrar.problem else ""
            raise StartError(f"the controller did not register this broker within {patience_ms} ms{why}") from None
        # A publisher would first get an image of the whole cluster.
        self._kraft.loader.on_image.append(self._look)
        # The metadata may contain a later registration before its response arrives.
        self._registrar.on_registered = lambda: self._look(self._kraft.image)
        self._look(self._kraft.image)
        await self._seen
        self._registrar.on_registered = None
        self._kraft.loader.on_image.remove(self._look)

    def waits_for(self) -> str:
        return "the registration of this broker in the metadata"

    async def stop(self) -> None:
        if self._look in self._kraft.loader.on_image:
            self._kraft.loader.on_image.remove(self._look)
        if self._leader_changed in self._kraft.on_leader:
            self._kraft.on_leader.remove(self._leader_changed)
        self._registrar.stop()


class Unfence(Step[None]):
    """Step that asks to be unfenced, and waits until the broker is unfenced."""

    name = "registration"

    def __init__(self, node: Node, registrar: BrokerRegistrar) -> None:
        self._node = node
        self._registrar = registrar

    async def start(self) -> None:
        self._registrar.ready()
        await self._registrar.running

    def waits_for(self) -> str:
        return "the controller to unfence this broker"

    async def stop(self) -> None:
        self._registrar.stop()


def new_incarnation_id(image: MetadataImage, rng: random.Random) -> UUID:
    """Return a random id that no registered node uses. With its old id the controller would treat the broker as the one it told to shut
    down, and keep it fenced.
    """
    known = {node.incarnation_id for nodes in (image.cluster.brokers, image.cluster.controllers) for node in nodes.values()}
    while True:
        # A random source that starts as in the last start (of a test or simulation) would return the same id again.
        incarnation_id = random_uuid(rng)
        if incarnation_id not in known:
            return incarnation_id
