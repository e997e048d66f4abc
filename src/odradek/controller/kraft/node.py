"""Node of the metadata quorum: the consensus core, the performer of its work, and the controller and image that follow the log.

- Everything runs on one thread, in a work queue (`queue`). A step of the core is performed completely (`execution`) before the next event.
- A vote, a truncation or a snapshot that replaces the log must be durable before the rest of a step. Such work runs in the thread of the
  metadata log, while the queue is suspended (`background`).
- Fsyncs of appended records run in that thread beside the queue (`group_commit`). The core counts this node's copy only after `Flushed`.
- Committed records go slice by slice to the controller and into the image (`following`, `commits`), and from time to time into a snapshot
  (`snapshotting`).
- Handlers change the cluster by `submit`. `loader` holds the image of the committed records and informs the publishers.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.disk import Disk
from odradek.base.errors import ConfigError, ErrorCode, KafkaError, OdradekError
from odradek.base.ids import uuid_to_string
from odradek.base.timing import Alarm
from odradek.base.undo import UndoJournal
from odradek.config.keys.cluster import (
    CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS,
    CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS,
    CONTROLLER_QUORUM_FETCH_MAX_BYTES,
    CONTROLLER_QUORUM_FETCH_SNAPSHOT_MAX_BYTES,
    CONTROLLER_QUORUM_FETCH_TIMEOUT_MS,
    CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS,
    CONTROLLER_QUORUM_RETRY_BACKOFF_MS,
    INTERNAL_METADATA_MAX_BATCH_SIZE_IN_BYTES,
)
from odradek.consensus.messages import (
    LeaderAndEpoch,
    Outbound,
    Propose,
    Request,
    Resign,
    Response,
    Shutdown,
    Tick,
)
from odradek.consensus.raft import Raft, RaftTimeouts
from odradek.consensus.states import NEVER, Role
from odradek.consensus.voters import Endpoint, Voter, VoterSet
from odradek.controller.kraft.active import MetadataController
from odradek.controller.kraft.background import Background
from odradek.controller.kraft.bootstrap import read_bootstrap
from odradek.controller.kraft.execution import Performer
from odradek.controller.kraft.following import Following
from odradek.controller.kraft.loader import MetadataLoader, MetadataPublisher
from odradek.controller.kraft.metadata_log import MetadataLog
from odradek.controller.kraft.periodic import PeriodicTasks
from odradek.controller.kraft.queue import WorkQueue
from odradek.controller.kraft.records import encode_values
from odradek.controller.kraft.snapshotting import Snapshots
from odradek.metrics.histogram import Histogram

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.controller.core.context import ControllerContext
    from odradek.controller.core.policies import Policies
    from odradek.controller.core.quorum import QuorumControllerCore
    from odradek.controller.core.result import ControllerResult
    from odradek.controller.kraft.wire import RaftChannel
    from odradek.metadata.image import MetadataImage

logger = logging.getLogger(__name__)

R = TypeVar("R")

UNREACHABLE_MS = 200
"""Largest number of milliseconds that a voter waits before it stands for election when the leader refuses connections."""


class KRaftNode:
    """Node of the metadata quorum (see the module). All calls come from one thread, that of the event loop."""

    def __init__(
        self,
        *,
        log: MetadataLog,
        config: BrokerConfig,
        cluster_id: str,
        directory_id: UUID,
        disk: Disk,
        clock: Clock,
        rng: random.Random,
        core_factory: Callable[[UndoJournal], QuorumControllerCore] | None = None,
        channel: RaftChannel | None = None,
        loop: asyncio.AbstractEventLoop | None = None,
        endpoints: Sequence[Endpoint] | None = None,
        on_fault: Callable[[BaseException], None] | None = None,
        policies: Policies | None = None,
    ) -> None:
        """Create the node on an open `log`, which `stop` closes. `directory_id` is that of metadata.log.dir.

        `core_factory` creates the controller's core; the default is this node's own core, with `policies`. Fsyncs run in threads with
        `loop`, inline without it.

        `endpoints` are the controller listeners at which this node is reached. By default these are the configured ones; `endpoints` must
        be given when the system chose a port. `on_fault` gets an error after which this node must not go on (a failed fsync, an unreadable
        log); without it the error is logged.

        Raises StorageError or OSError when the content of the log directory cannot be used.
        """
        self.log = log
        self.cluster_id = cluster_id
        self.node_id = config.node_id
        self._config = config
        self._clock = clock
        self._channel = channel
        self._on_fault = on_fault
        self._failure: BaseException | None = None
        self.queue_times_ms = Histogram()
        """Milliseconds that operations waited in the queue; `processing_times_ms` has the milliseconds that they ran."""
        self.processing_times_ms = Histogram()
        self._started = False
        self._stopped = False
        self.raft = _new_raft(log, config, directory_id, rng, endpoints)
        new_core: Callable[[UndoJournal], QuorumControllerCore] = core_factory or (
            lambda journal: _new_core(config, cluster_id, rng, journal, policies)
        )
        self._controller = self._new_controller(new_core, disk) if config.is_controller else None
        self.loader = MetadataLoader(tolerant=not config.is_controller)
        self._left: Deferred[None] | None = None
        """Deferred that `leave` returned."""
        self._alarm = Alarm(clock, lambda: self._performer.step(Tick()))
        self._queue = WorkQueue(self._set_alarm, self._fault)
        self._background = Background(loop, self._queue)
        self._snapshots = Snapshots(
            config=config,
            log=log,
            loader=self.loader,
            voters=self.raft.voters,
            disk=disk,
            clock=clock,
            background=self._background,
            on_error=self._fault,
        )
        self._periodic = PeriodicTasks(config, clock, partial(self.submit, shown=False))
        self._following = self._new_following()
        self._performer = self._new_performer(disk)

    def _new_controller(self, new_core: Callable[[UndoJournal], QuorumControllerCore], disk: Disk) -> MetadataController:
        return MetadataController(
            core_factory=new_core,
            writer=self,
            clock=self._clock,
            bootstrap=read_bootstrap(disk, self._config.metadata_log_dir),
            max_batch_bytes=self._config[INTERNAL_METADATA_MAX_BATCH_SIZE_IN_BYTES],
        )

    def _new_following(self) -> Following:
        return Following(
            raft=self.raft,
            log=self.log,
            loader=self.loader,
            controller=self._controller,
            periodic=self._periodic,
            snapshots=self._snapshots,
            queue=self._queue,
            clock=self._clock,
        )

    def _new_performer(self, disk: Disk) -> Performer:
        return Performer(
            raft=self.raft,
            log=self.log,
            disk=disk,
            clock=self._clock,
            queue=self._queue,
            background=self._background,
            snapshots=self._snapshots,
            send=self._send,
            following=self._following,
            on_performed=self._check_left,
            on_error=self._fault,
        )

    # Life ------------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Join the quorum. A sole voter leads when this returns; its first commit follows an fsync.

        Raises ConfigError when the quorum can have no leader because this node has replaced its only voter. Raises any other error of the
        start.
        """
        _check_voters(self.raft.voters.current, self.raft.local)
        self._started = True
        self._queue.put(self._performer.start)
        if self._failure is not None:
            raise self._failure

    def leave(self) -> Deferred[None]:
        """Stop standing for election; if this node leads, resign and ask the other voters to elect a leader.

        The Deferred completes when the other voters have begun an election or when there are none (KafkaRaftClient.GracefulShutdown). The
        Deferred stays open while the other voters do not answer. Requests are still answered.
        """
        if self._left is None:
            self._left = Deferred()
            self._performer.step(Shutdown())
            self._check_left()
        return self._left

    def _check_left(self) -> None:
        left, raft = self._left, self.raft
        if left is not None and (
            self._queue.closed
            or not (raft.is_leader or raft.role is Role.RESIGNED)
            or not raft.is_voter
            or raft.voters.current.is_only(raft.local.key)
        ):
            left.complete(None)

    def stop(self) -> None:
        """Resign, flush and close. Operations that wait for a commit fail with NOT_CONTROLLER. After a fault only close."""
        if self._stopped:
            return
        if self._started and self._failure is None:
            self._performer.step(Shutdown())
        self._stopped = True
        self._stop_work(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "The node is shutting down."))
        try:
            # Otherwise the thread of the log still works, on a disk that does not answer. The log is recovered at every start.
            if self._failure is None and not self._queue.suspended:
                self._performer.group_commit.close()
                self.log.close()
        finally:
            self.log.log.close_handles()
            self._background.close()

    def _fault(self, error: BaseException) -> None:
        """Stop the node's work, because memory and disk may differ."""
        if self._failure is not None or self._stopped:
            return
        if self._on_fault is None or not isinstance(error, OSError | OdradekError):
            logger.critical("The metadata log of node %d cannot be used any further: %s", self.node_id, error, exc_info=error)
        self._failure = error
        self._stop_work(error)
        if self._on_fault is not None:
            self._on_fault(error)

    def _set_alarm(self) -> None:
        deadline_ms = self.raft.deadline_ms
        # Half a millisecond later, so that the core's clock, which counts whole milliseconds, has reached the deadline.
        self._alarm.set_at(inf if deadline_ms == NEVER else (deadline_ms + 0.5) / 1000)

    def _stop_work(self, error: BaseException) -> None:
        """Stop all work and fail the waiting requests."""
        self._queue.close()
        self._performer.group_commit.abandon()
        self._alarm.close()
        self._periodic.stop()
        if self._controller is not None:
            self._controller.deactivate()
        self._performer.exchange.close()
        self.caught_up.fail(error)
        self._check_left()

    # What others use -------------------------------------------------------------------------------------------------------

    @property
    def caught_up(self) -> Deferred[None]:
        """Deferred that completes when the image has reached the high watermark for the first time and has been published.

        Fails with the error that prevents it.
        """
        return self._following.caught_up

    @property
    def on_leader(self) -> list[Callable[[LeaderAndEpoch], object]]:
        """Callbacks for each new leader, and for each epoch without a leader.

        The callbacks must not call this node before they have returned.
        """
        return self._following.on_leader

    @property
    def on_active(self) -> list[Callable[[], object]]:
        """Callbacks for the moment at which this node's controller has become active. The same restriction holds for them."""
        return self._following.on_active

    @property
    def kraft_version(self) -> int:
        """Level of kraft.version, from the quorum's control records. The metadata does not contain it."""
        return self.raft.voters.kraft_version

    @property
    def image(self) -> MetadataImage:
        """Cluster image of the records that are committed and that this node has read."""
        return self.loader.image

    @property
    def controller(self) -> MetadataController | None:
        return self._controller

    @property
    def is_active_controller(self) -> bool:
        return self._controller is not None and self._controller.is_active

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        return self.raft.leader_and_epoch

    @property
    def high_watermark(self) -> int:
        """First offset that is not known to be committed; -1 when unknown."""
        return self.raft.high_watermark

    def leader_endpoint(self) -> Endpoint | None:
        """Return the endpoint of the leader's controller listener, or None while no leader is known. The leader may be this node."""
        leader_id = self.leader_and_epoch.leader_id
        if leader_id < 0:
            return None
        endpoints = self.raft.state.leader_endpoints or self.raft.voters.current.endpoints(leader_id)
        return self.endpoint_for_peers(endpoints) if endpoints else None

    def add_publisher(self, publisher: MetadataPublisher) -> None:
        """Add a publisher. The publisher gets the whole image once this node has caught up, and every change afterwards."""
        self.loader.add_publisher(publisher)

    def submit(self, operation: Callable[[ControllerContext], ControllerResult[R]], name: str = "", *, shown: bool = True) -> Deferred[R]:
        """Run `operation`, one of `controller.core`, on the active controller.

        The response comes when its records are committed. With `shown` it also waits until this node's publishers have them. Fails with
        NOT_CONTROLLER when this node is not, or stops being, the active controller, and with any KafkaError of the operation. `name` is for
        the log.
        """
        deferred: Deferred[R] = Deferred()
        controller = self._controller
        if controller is None or self._queue.closed:
            deferred.fail(KafkaError(ErrorCode.NOT_CONTROLLER, f"Node {self.node_id} is not a controller ({name})." if name else None))
            return deferred

        put = self._clock.monotonic()

        def run() -> None:
            begun = self._clock.monotonic()
            self._performer.tick_if_due()
            controller.run(operation, deferred, shown=shown)
            self._periodic.watch_heartbeats(controller.core.context.heartbeats)
            now = self._clock.monotonic()
            self.queue_times_ms.record((begun - put) * 1000, now)
            self.processing_times_ms.record((now - begun) * 1000, now)

        self._queue.put(run)
        return deferred

    def request(self, request: Request) -> Deferred[Response]:
        """Pass a peer's request to the core. The APIs, with their wire formats, are in `handlers.cluster`."""
        return self._performer.exchange.receive(request)

    def write_snapshot(self) -> None:
        """Write a snapshot now, in the background, unless there is nothing new."""
        self._queue.put(self._snapshots.write)

    @property
    def names_static_voters(self) -> bool:
        """Return whether the configuration names the voters (controller.quorum.voters)."""
        return bool(self._config.controller_quorum_voters)

    @property
    def snapshots(self) -> Snapshots:
        """Metadata snapshots of this node."""
        return self._snapshots

    # For `wire` and the handlers of Raft's APIs -------------------------------------------------------------------------------

    @property
    def listener_name(self) -> str:
        """Name of the controller listener to which this node sends requests to peers."""
        return _listener_name(self._config)

    @property
    def fetch_max_bytes(self) -> int:
        return self._config[CONTROLLER_QUORUM_FETCH_MAX_BYTES]

    @property
    def fetch_snapshot_max_bytes(self) -> int:
        return self._config[CONTROLLER_QUORUM_FETCH_SNAPSHOT_MAX_BYTES]

    def endpoint_for_peers(self, endpoints: Sequence[Endpoint]) -> Endpoint:
        """Return the endpoint whose listener has the name that this node uses for requests to peers (`listener_name`), else the first
        one.
        """
        name = self.listener_name
        return next((endpoint for endpoint in endpoints if endpoint.name.upper() == name), endpoints[0])

    def now_ms(self) -> int:
        """Return monotonic milliseconds, the clock of the core."""
        return self._performer.now_ms()

    def wall_ms(self) -> int:
        return self._clock.time_ms()

    def bootstrap_server(self, destination: int) -> tuple[str, int]:
        """Return host and port of the bootstrap server that the core calls `destination` (-2 is the first)."""
        return self._config.controller_quorum_bootstrap_servers[-2 - destination]

    # LogWriter, for the controller -------------------------------------------------------------------------------------------

    @property
    def next_offset(self) -> int:
        return self.log.end.offset

    @property
    def leader_id(self) -> int:
        return self.raft.leader_and_epoch.leader_id

    def append_values(self, values: list[bytes], epoch: int) -> bool:
        base = self.next_offset
        batch = encode_values(values, base_offset=base, epoch=epoch, now_ms=self._clock.time_ms())
        self._performer.step_at_once(Propose(epoch, len(values), batch))
        return self.next_offset > base

    def resign(self, epoch: int) -> None:
        self._performer.step(Resign(epoch))

    def _send(self, message: Outbound) -> Deferred[Response]:
        if self._channel is None:
            raise RuntimeError(f"node {self.node_id} has other voters but no channel to them")
        from odradek.controller.kraft.wire import send

        return send(self, self._channel, message)


def _listener_name(config: BrokerConfig) -> str:
    names = config.controller_listener_names
    return names[0] if names else "CONTROLLER"


def _new_raft(log: MetadataLog, config: BrokerConfig, directory_id: UUID, rng: random.Random, endpoints: Sequence[Endpoint] | None) -> Raft:
    """Return the consensus core in the state of `log`, with the configured voters and timeouts."""
    if endpoints is None:
        endpoints = [Endpoint(each.listener, each.host, each.port) for each in config.advertised_controller_listeners]
    listener, voters = _listener_name(config), config.controller_quorum_voters
    static_voters = VoterSet(Voter(voter, None, (Endpoint(listener, host, port),)) for voter, (host, port) in voters.items())
    return Raft(
        local=Voter(config.node_id, directory_id, tuple(endpoints)),
        log=log,
        voters=log.voter_history(static_voters),
        election=log.read_election(),
        rng=rng,
        timeouts=_timeouts(config),
        bootstrap=tuple(range(-2, -2 - len(config.controller_quorum_bootstrap_servers), -1)) or static_voters.ids,
    )


def _timeouts(config: BrokerConfig) -> RaftTimeouts:
    """Return the configured timeouts.

    Unlike in Kafka, a voter stands for election before the fetch timeout when the leader refuses connections, unless that timeout is
    configured.
    """
    waits = config.is_set(CONTROLLER_QUORUM_FETCH_TIMEOUT_MS)
    return RaftTimeouts(
        election_ms=config[CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS],
        election_backoff_max_ms=config[CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS],
        fetch_ms=config[CONTROLLER_QUORUM_FETCH_TIMEOUT_MS],
        request_ms=config[CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS],
        retry_backoff_ms=config[CONTROLLER_QUORUM_RETRY_BACKOFF_MS],
        unreachable_max_ms=0 if waits else UNREACHABLE_MS,
    )


def _new_core(
    config: BrokerConfig, cluster_id: str, rng: random.Random, journal: UndoJournal, policies: Policies | None
) -> QuorumControllerCore:
    from odradek.controller.core.quorum import QuorumControllerCore

    return QuorumControllerCore(config, cluster_id, rng, journal, policies)


def _check_voters(voters: VoterSet, local: Voter) -> None:
    """Raise ConfigError when the only voter is this node with another metadata directory, because no node can lead the quorum."""
    known = voters.get(local.id)
    if known is not None and len(voters) == 1 and not voters.contains(local.key):
        theirs, ours = (None if each is None else uuid_to_string(each) for each in (known.directory_id, local.directory_id))
        raise ConfigError(
            f"the only voter of the metadata quorum is node {local.id} with the metadata directory {theirs}, but the metadata "
            f"directory of this node is {ours}"
        )
