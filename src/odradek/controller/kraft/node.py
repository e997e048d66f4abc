"""One node of the metadata quorum: the consensus core, what performs its decisions, and the controller and image that follow the log.

- Everything runs on one thread, in a queue (`queue`): a step of the core is performed wholly (`performing`) before the next event is taken.
- What must be durable before the rest of a step (a vote, a truncation, a snapshot in the place of the log) is done in the thread of the
  metadata log, and the queue is suspended meanwhile (`background`).
- Appends are flushed there beside the queue (`group_commit`). The core hears of it by `Flushed`, and only then counts this node's copy.
- What is committed goes, slice by slice, to the controller and into the image (`following`, `commits`), now and then into a snapshot
  (`snapshotting`).
- `submit` is how handlers change the cluster; `loader` holds the image of what is committed and tells the publishers.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from odradek.base.clock import Clock
from odradek.base.deferred import Deferred
from odradek.base.disk import Disk
from odradek.base.errors import ConfigError, ErrorCode, KafkaError, OdradekError
from odradek.base.ids import uuid_to_string
from odradek.base.undo import UndoJournal
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
from odradek.consensus.states import Role
from odradek.consensus.voters import Endpoint, Voter, VoterSet
from odradek.controller.kraft.active import MetadataController
from odradek.controller.kraft.alarm import Alarm
from odradek.controller.kraft.background import Background
from odradek.controller.kraft.bootstrap import read_bootstrap
from odradek.controller.kraft.following import Following
from odradek.controller.kraft.loader import MetadataLoader, MetadataPublisher
from odradek.controller.kraft.metadata_log import MetadataLog
from odradek.controller.kraft.performing import Performer
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
"""How long, at the most, a voter waits before it stands when the leader's connections are refused."""


class KRaftNode:
    """See the module's text. Every call comes from one thread (the event loop's)."""

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
        """`log` is open; `stop` closes it. `directory_id` is that of metadata.log.dir. `core_factory` makes the controller's core; without
        one, a node with the controller role makes its own.

        `loop` runs fsyncs in its executor; without one they run inline. `endpoints` are the controller listeners this node is reached at
        (from the configuration unless given, which is needed where a port was chosen by the system). `on_fault` is told of an error after
        which this node must not go on (a failed fsync, a log that cannot be read); without it the error is logged. The controller asks
        `policies`.

        StorageError or OSError when what the log directory holds cannot be used.
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
        """How long operations waited before they were begun, and how long each was at work."""
        self.processing_times_ms = Histogram()
        self._started = False
        self._stopped = False
        if endpoints is None:
            endpoints = [Endpoint(each.listener, each.host, each.port) for each in config.advertised_controller_listeners]
        static_voters = self._static_voters()
        self.raft = Raft(
            local=Voter(config.node_id, directory_id, tuple(endpoints)),
            log=log,
            voters=log.voter_history(static_voters),
            election=log.read_election(),
            rng=rng,
            timeouts=_timeouts(config),
            bootstrap=tuple(range(-2, -2 - len(config.controller_quorum_bootstrap_servers), -1)) or static_voters.ids,
        )
        self._controller: MetadataController | None = None
        if config.is_controller:
            self._controller = MetadataController(
                core_factory=core_factory or (lambda journal: _new_core(config, cluster_id, rng, journal, policies)),
                writer=self,
                clock=clock,
                bootstrap=read_bootstrap(disk, config.metadata_log_dir),
                max_batch_bytes=config.integer("internal.metadata.max.batch.size.in.bytes"),
            )
        self.loader = MetadataLoader(tolerant=not config.is_controller)
        self._left: Deferred[None] | None = None
        """Of `leave`."""
        self._alarm = Alarm(clock, lambda: self._performer.step(Tick()))
        self._queue = WorkQueue(lambda: self._alarm.set(self.raft.deadline_ms), self._fault)
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
        self._following = Following(
            raft=self.raft,
            log=log,
            loader=self.loader,
            controller=self._controller,
            periodic=self._periodic,
            snapshots=self._snapshots,
            queue=self._queue,
            clock=clock,
        )
        self._performer = Performer(
            raft=self.raft,
            log=log,
            disk=disk,
            clock=clock,
            queue=self._queue,
            background=self._background,
            snapshots=self._snapshots,
            send=self._send,
            following=self._following,
            on_performed=self._check_left,
            on_error=self._fault,
        )
        self.caught_up = self._following.caught_up
        """Completes when the image is at the high watermark for the first time, after the publishers were told; fails with the error that
        keeps the node from getting there."""
        self.on_leader = self._following.on_leader
        """Told of each new leader, and of each epoch without one. They must not call this node before they have returned."""
        self.on_active = self._following.on_active
        """Told when this node's controller has become active; the same holds for them."""

    def _static_voters(self) -> VoterSet:
        listener = self.listener_name
        voters = self._config.controller_quorum_voters
        return VoterSet(Voter(voter, None, (Endpoint(listener, host, port),)) for voter, (host, port) in voters.items())

    # Life ------------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Takes part in the quorum. A sole voter leads when this returns; its first commit follows an fsync.

        ConfigError when the quorum can have no leader: its only voter has been replaced by this node. Whatever else goes wrong while the
        node takes up its role is raised too.
        """
        _check_voters(self.raft.voters.current, self.raft.local)
        self._started = True
        self._queue.put(self._performer.start)
        if self._failure is not None:
            raise self._failure

    def leave(self) -> Deferred[None]:
        """Stands for election no more and, when it leads, resigns and asks the others to elect. Done when they have begun to, or when there
        is nobody to ask (KafkaRaftClient.GracefulShutdown); requests are still answered. Without an answer of the others it is never done.
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
        """Gives up leadership, flushes and closes. What waits for a commit fails with NOT_CONTROLLER. After a fault it only closes."""
        if self._stopped:
            return
        if self._started and self._failure is None:
            self._performer.step(Shutdown())
        self._stopped = True
        self._cease(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "The node is shutting down."))
        try:
            # Else the thread of the log is still at work, on a disk that does not answer. The log is recovered at every start.
            if self._failure is None and not self._queue.suspended:
                self._performer.group_commit.close()
                self.log.close()
        finally:
            self.log.log.close_handles()
            self._background.close()

    def _fault(self, error: BaseException) -> None:
        """The node must not go on: what is in memory may no longer be what is on the disk."""
        if self._failure is not None or self._stopped:
            return
        if self._on_fault is None or not isinstance(error, OSError | OdradekError):
            logger.critical("The metadata log of node %d cannot go on: %s", self.node_id, error, exc_info=error)
        self._failure = error
        self._cease(error)
        if self._on_fault is not None:
            self._on_fault(error)

    def _cease(self, error: BaseException) -> None:
        """No more work; whoever waits is told."""
        self._queue.close()
        self._performer.group_commit.abandon()
        self._alarm.cancel()
        self._periodic.stop()
        if self._controller is not None:
            self._controller.deactivate()
        self._performer.exchange.close()
        self.caught_up.fail(error)
        self._check_left()

    # What others use -------------------------------------------------------------------------------------------------------

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version, which stands in the quorum's control records and not in the metadata."""
        return self.raft.voters.kraft_version

    @property
    def image(self) -> MetadataImage:
        """The cluster as committed and read by this node."""
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
        """The first offset that is not known to be committed, -1 while that is unknown."""
        return self.raft.high_watermark

    def leader_endpoint(self) -> Endpoint | None:
        """The controller listener at which the present leader is reached, as far as this node knows one; its own when it leads."""
        leader_id = self.leader_and_epoch.leader_id
        if leader_id < 0:
            return None
        endpoints = self.raft.state.leader_endpoints or self.raft.voters.current.endpoints(leader_id)
        return self.endpoint_for_peers(endpoints) if endpoints else None

    def add_publisher(self, publisher: MetadataPublisher) -> None:
        """The publisher is told of everything once this node has caught up, and of every change from then on."""
        self.loader.add_publisher(publisher)

    def submit(self, operation: Callable[[ControllerContext], ControllerResult[R]], name: str = "", *, shown: bool = True) -> Deferred[R]:
        """Runs `operation`, one of `controller.core`, on the active controller; the response comes when its records are committed and,
        if it is to be `shown`, when this node's publishers were told of them.

        Fails with NOT_CONTROLLER when this node is not the active controller or stops being it, and with whatever KafkaError the operation
        raises. `name` is for the log.
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
        """A peer's request, without the wire's wrapping; the APIs are in `handlers.cluster`."""
        return self._performer.exchange.receive(request)

    def write_snapshot(self) -> None:
        """Writes a snapshot now, in the background; nothing when there is nothing new."""
        self._queue.put(self._snapshots.write)

    @property
    def names_static_voters(self) -> bool:
        """Whether the configuration names the voters (controller.quorum.voters)."""
        return bool(self._config.controller_quorum_voters)

    @property
    def snapshots(self) -> Snapshots:
        """Of the metadata, written by this node."""
        return self._snapshots

    # For `wire` and the handlers of Raft's APIs -------------------------------------------------------------------------------

    @property
    def listener_name(self) -> str:
        """The controller listener that this node's requests to its peers go to."""
        names = self._config.controller_listener_names
        return names[0] if names else "CONTROLLER"

    @property
    def fetch_max_bytes(self) -> int:
        return self._config.integer("controller.quorum.fetch.max.bytes")

    @property
    def fetch_snapshot_max_bytes(self) -> int:
        return self._config.integer("controller.quorum.fetch.snapshot.max.bytes")

    def endpoint_for_peers(self, endpoints: Sequence[Endpoint]) -> Endpoint:
        """The one on this node's controller listener, else the first."""
        name = self.listener_name
        return next((endpoint for endpoint in endpoints if endpoint.name.upper() == name), endpoints[0])

    def now_ms(self) -> int:
        """The clock of the core: monotonic milliseconds."""
        return self._performer.now_ms()

    def wall_ms(self) -> int:
        return self._clock.time_ms()

    def bootstrap_server(self, destination: int) -> tuple[str, int]:
        """Host and port of the bootstrap server that the core calls `destination` (-2 is the first)."""
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
            raise RuntimeError(f"node {self.node_id} has peers but no channel to them")
        from odradek.controller.kraft.wire import send

        return send(self, self._channel, message)


def _timeouts(config: BrokerConfig) -> RaftTimeouts:
    """Kafka's. But a leader whose connections are refused is doubted before the fetch timeout, unless that was given."""
    waits = config.is_set("controller.quorum.fetch.timeout.ms")
    return RaftTimeouts(
        election_ms=config.integer("controller.quorum.election.timeout.ms"),
        election_backoff_max_ms=config.integer("controller.quorum.election.backoff.max.ms"),
        fetch_ms=config.integer("controller.quorum.fetch.timeout.ms"),
        request_ms=config.integer("controller.quorum.request.timeout.ms"),
        retry_backoff_ms=config.integer("controller.quorum.retry.backoff.ms"),
        unreachable_max_ms=0 if waits else UNREACHABLE_MS,
    )


def _new_core(
    config: BrokerConfig, cluster_id: str, rng: random.Random, journal: UndoJournal, policies: Policies | None
) -> QuorumControllerCore:
    from odradek.controller.core.quorum import QuorumControllerCore

    return QuorumControllerCore(config, cluster_id, rng, journal, policies)


def _check_voters(voters: VoterSet, local: Voter) -> None:
    """ConfigError for a quorum whose only voter was this node with another metadata directory: nobody is left to lead it."""
    known = voters.get(local.id)
    if known is not None and len(voters) == 1 and not voters.contains(local.key):
        theirs, ours = (None if each is None else uuid_to_string(each) for each in (known.directory_id, local.directory_id))
        raise ConfigError(f"the only voter of the metadata quorum is node {local.id} with the metadata directory {theirs}, not with {ours}")
