"""One node of the metadata quorum: performs what the consensus core decides, and feeds what is committed upwards.

- Everything runs on one thread, in a queue: a step of the core is performed wholly before the next event is taken.
- Only fsync leaves the thread: appends that come while one runs share the next (group commit). The core hears of it by `Flushed`, and only
  then counts this node's copy.
- `submit` is how handlers change the cluster; `loader` holds the image of what is committed and tells the publishers.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from odradek.base.clock import Clock, TimerHandle
from odradek.base.deferred import Deferred
from odradek.base.disk import Disk
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.undo import UndoJournal
from odradek.consensus.messages import (
    Event,
    Flushed,
    LeaderAndEpoch,
    LogAppend,
    Outbound,
    Propose,
    Ready,
    Request,
    RequestReceived,
    Resign,
    Response,
    ResponseReceived,
    Shutdown,
    SnapshotChunk,
    SnapshotInstalled,
    Tick,
)
from odradek.consensus.raft import Raft, RaftTimeouts
from odradek.consensus.states import NEVER
from odradek.consensus.voters import BOOTSTRAP_SNAPSHOT_ID, Endpoint, Voter, VoterSet
from odradek.controller.kraft.active import MetadataController
from odradek.controller.kraft.bootstrap import read_bootstrap
from odradek.controller.kraft.loader import MetadataLoader, MetadataPublisher
from odradek.controller.kraft.metadata_log import MetadataLog, next_offset_after
from odradek.controller.kraft.periodic import PeriodicTasks
from odradek.controller.kraft.records import decode_batches, encode_control_batch, encode_values
from odradek.controller.kraft.snapshots import encode_snapshot, write_snapshot

if TYPE_CHECKING:
    from odradek.config.broker import BrokerConfig
    from odradek.controller.core.context import ControllerContext
    from odradek.controller.core.quorum import QuorumControllerCore
    from odradek.controller.core.result import ControllerResult
    from odradek.controller.kraft.wire import RaftChannel
    from odradek.metadata.image import MetadataImage
    from odradek.storage.flushing import Flush

logger = logging.getLogger(__name__)

R = TypeVar("R")
T = TypeVar("T")


class KRaftNode:
    """See the module's text. `start` and every other call come from one thread (the event loop's)."""

    def __init__(
        self,
        *,
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
    ) -> None:
        """`directory_id` is that of metadata.log.dir. `core_factory` makes the controller's core; without one, a node with the
        controller role makes its own.

        `loop` runs fsyncs in its executor; without one they run inline. `endpoints` are the controller listeners this node is reached at
        (from the configuration unless given, which is needed where a port was chosen by the system). `on_fault` is told of an error after
        which this node must not go on (a failed fsync, a log that cannot be read); without it the error is logged.
        """
        self._config = config
        self.cluster_id = cluster_id
        self.node_id = config.node_id
        self._directory_id = directory_id
        self._disk = disk
        self._clock = clock
        self._rng = rng
        self._core_factory = core_factory
        self._channel = channel
        self._loop = loop
        self._endpoints = endpoints
        self._on_fault = on_fault
        self.loader = MetadataLoader()
        self.caught_up: Deferred[None] = Deferred()
        """Completes when the image is at the high watermark for the first time, after the publishers were told."""
        self._queue: deque[Callable[[], None]] = deque()
        self._draining = False
        self._stopped = False
        self._failed: BaseException | None = None
        self._checked_features: object = None
        self._warned: set[str] = set()
        self._flushing = False
        self._snapshotting = False
        self._timer: TimerHandle | None = None
        self._timer_deadline_ms = NEVER
        self._last_snapshot_s = clock.monotonic()
        self._tokens: dict[int, Deferred[Response]] = {}
        self._next_token = 0
        self._controller: MetadataController | None = None
        self._periodic = PeriodicTasks(config, clock, self.submit)

    # Life ------------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Opens the metadata log and takes part in the quorum. A sole voter leads when this returns; its first commit follows an fsync.

        StorageError or OSError when the directory cannot be used; whatever else goes wrong while the node takes up its role is raised too.
        """
        config = self._config
        self.log = MetadataLog.open(self._disk, self._clock, config)
        static_voters = self._static_voters()
        history = self.log.voter_history(static_voters)
        bootstrap = range(-2, -2 - len(config.controller_quorum_bootstrap_servers), -1)
        self.raft = Raft(
            local=self._local_voter(history.kraft_version),
            log=self.log,
            voters=history,
            election=self.log.read_election(),
            rng=self._rng,
            timeouts=RaftTimeouts(
                election_ms=config.integer("controller.quorum.election.timeout.ms"),
                fetch_ms=config.integer("controller.quorum.fetch.timeout.ms"),
                request_ms=config.integer("controller.quorum.request.timeout.ms"),
                retry_backoff_ms=config.integer("controller.quorum.retry.backoff.ms"),
            ),
            bootstrap=tuple(bootstrap) or static_voters.ids,
        )
        if config.is_controller:
            self._controller = MetadataController(
                core_factory=self._core_factory or self._new_core,
                writer=self,
                clock=self._clock,
                bootstrap=read_bootstrap(self._disk, config.metadata_log_dir),
                max_batch_bytes=config.integer("internal.metadata.max.batch.size.in.bytes"),
            )
        self._load_latest_snapshot()
        self._enqueue(lambda: self._perform(self.raft.start(self.now_ms())))
        if self._failed is not None:
            raise self._failed

    @property
    def kraft_version(self) -> int:
        """The level of kraft.version, which stands in the quorum's control records and not in the metadata."""
        return self.raft.voters.kraft_version

    def _new_core(self, journal: UndoJournal) -> QuorumControllerCore:
        from odradek.controller.core.quorum import QuorumControllerCore

        return QuorumControllerCore(self._config, self.cluster_id, self._rng, journal)

    def _static_voters(self) -> VoterSet:
        listener = self.listener_name
        voters = self._config.controller_quorum_voters
        return VoterSet(Voter(voter, None, (Endpoint(listener, host, port),)) for voter, (host, port) in voters.items())

    def _local_voter(self, kraft_version: int) -> Voter:
        endpoints = self._endpoints
        if endpoints is None:
            endpoints = [Endpoint(each.listener, each.host, each.port) for each in self._config.advertised_controller_listeners]
        return Voter(self.node_id, self._directory_id, tuple(endpoints))

    def stop(self) -> None:
        """Gives up leadership, flushes and closes. What waits for a commit fails with NOT_CONTROLLER."""
        if self._stopped:
            return
        if not hasattr(self, "raft"):  # the start failed before there was anything to give up
            self._stopped = True
            return
        self._step(Shutdown())
        self._stopped = True
        self._periodic.stop()
        if self._timer is not None:
            self._timer.cancel()
        for deferred in list(self._tokens.values()):
            deferred.fail(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "The node is shutting down."))
        self._tokens.clear()
        if not self._flushing:
            self.log.log.flush()
        self.log.close()

    # What others use -------------------------------------------------------------------------------------------------------

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

    def add_publisher(self, publisher: MetadataPublisher) -> None:
        """The publisher is told of everything once this node has caught up, and of every change from then on."""
        self.loader.add_publisher(publisher)

    def submit(self, operation: Callable[[ControllerContext], ControllerResult[R]], name: str = "") -> Deferred[R]:
        """Runs `operation`, one of `controller.core`, on the active controller; the response comes when its records are committed.

        Fails with NOT_CONTROLLER when this node is not the active controller or stops being it, and with whatever KafkaError the operation
        raises. `name` is for the log.
        """
        deferred: Deferred[R] = Deferred()
        controller = self._controller
        if controller is None or self._stopped:
            deferred.fail(KafkaError(ErrorCode.NOT_CONTROLLER, f"Node {self.node_id} is not a controller ({name})." if name else None))
            return deferred

        def run() -> None:
            controller.run(operation, deferred)
            self._periodic.watch_heartbeats(controller.core.context.heartbeats)

        self._enqueue(run)
        return deferred

    def request(self, request: Request) -> Deferred[Response]:
        """A peer's request, without the wire's wrapping; the APIs are in `handlers.cluster`."""
        self._next_token += 1
        token = self._next_token
        deferred: Deferred[Response] = Deferred()
        if self._stopped:
            deferred.fail(KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "The node is shutting down."))
            return deferred
        self._tokens[token] = deferred
        self._step(RequestReceived(token, request))
        return deferred

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
        return int(self._clock.monotonic() * 1000)

    def wall_ms(self) -> int:
        return self._clock.time_ms()

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
        self._perform(self.raft.step(Propose(epoch, len(values), batch), self.now_ms()))
        return self.next_offset > base

    def resign(self, epoch: int) -> None:
        self._step(Resign(epoch))

    # The queue -------------------------------------------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        self._enqueue(lambda: self._perform(self.raft.step(event, self.now_ms())))

    def _enqueue(self, work: Callable[[], None]) -> None:
        if self._stopped:
            return
        self._queue.append(work)
        if self._draining:
            return
        self._draining = True
        try:
            while self._queue and not self._stopped:
                self._queue.popleft()()
        except Exception as error:
            self._fault(error)
        finally:
            self._draining = False
        self._set_timer()

    def _fault(self, error: BaseException) -> None:
        if self._on_fault is None or not isinstance(error, OSError):
            logger.critical("The metadata log of node %d cannot go on: %s", self.node_id, error, exc_info=error)
        self._stopped = True
        self._failed = error
        self._periodic.stop()
        if self._controller is not None:
            self._controller.deactivate()
        if self._on_fault is not None:
            self._on_fault(error)

    def _set_timer(self) -> None:
        deadline = self.raft.deadline_ms
        if self._stopped or deadline == self._timer_deadline_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_deadline_ms = deadline
        if deadline != NEVER:
            self._timer = self._clock.call_later(max(deadline - self.now_ms(), 0) / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_deadline_ms = NEVER
        self._step(Tick())

    # Performing ------------------------------------------------------------------------------------------------------------

    def _perform(self, ready: Ready) -> None:
        """The work of one step, in the order that `Ready` asks for."""
        if ready.quorum_state is not None:
            voters = self.raft.voters
            self.log.write_election(ready.quorum_state, kraft_version=voters.kraft_version, voters=voters.current.ids)
        if ready.truncate_to is not None:
            logger.warning("Truncating the metadata log to offset %d, where it diverges from the leader's", ready.truncate_to)
            self.log.truncate_to(ready.truncate_to)
        for append in ready.appends:
            self._append(append)
        for chunk in ready.snapshot_chunks:
            self._write_chunk(chunk)
        for message in ready.messages:
            self._send(message)
        for token, response in ready.replies:
            deferred = self._tokens.pop(token, None)
            if deferred is not None:
                deferred.complete(response)
        if ready.leader is not None:
            self._leader_changed(ready.leader)
        if ready.high_watermark is not None:
            self._committed(ready.high_watermark)
        if ready.appends:
            self._flush()

    def _append(self, append: LogAppend) -> None:
        if append.fetched is not None:
            data = append.fetched.payload
        elif append.control:
            data = encode_control_batch(append.control, base_offset=append.base_offset, epoch=append.epoch, now_ms=self._clock.time_ms())
        else:
            data = append.payload
        assert isinstance(data, bytes)
        self.log.append(data, append.epoch)

    def _send(self, message: Outbound) -> None:
        correlation = message.correlation

        def answered(deferred: Deferred[Response]) -> None:
            self._step(ResponseReceived(correlation, None if deferred.error is not None else deferred.result()))

        if self._channel is None:
            raise RuntimeError(f"node {self.node_id} has peers but no channel to them")
        from odradek.controller.kraft.wire import send

        send(self, self._channel, message).add_callback(answered)

    def bootstrap_server(self, destination: int) -> tuple[str, int]:
        """Host and port of the bootstrap server that the core calls `destination` (-2 is the first)."""
        return self._config.controller_quorum_bootstrap_servers[-2 - destination]

    # fsync -----------------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        if self._flushing or self._stopped:
            return
        flush = self.log.begin_flush()
        if flush is None:
            return
        self._flushing = True
        self._in_executor(lambda: flush.run(self._disk), lambda error: self._flushed(flush, error))

    def _flushed(self, flush: Flush, error: BaseException | None) -> None:
        self._flushing = False
        if error is not None:
            flush.release()
            self._fault(error)
            return
        self.log.log.finish_flush(flush)
        self._step(Flushed(flush.up_to))
        if self.log.log.log_end_offset > flush.up_to:
            self._flush()

    def _in_executor(self, work: Callable[[], T], done: Callable[[BaseException | None], None]) -> None:
        """Runs `work` beside the loop and `done` on it; inline, but from the queue, when there is no loop."""
        if self._loop is None:
            error: BaseException | None = None
            try:
                work()
            except OSError as caught:
                error = caught
            self._enqueue(lambda: done(error))
            return
        future = self._loop.run_in_executor(None, work)
        future.add_done_callback(lambda finished: done(finished.exception()))

    # Commits ---------------------------------------------------------------------------------------------------------------

    def _leader_changed(self, leader: LeaderAndEpoch) -> None:
        logger.info("The leader of epoch %d is %s", leader.epoch, leader.leader_id if leader.leader_id >= 0 else "unknown")
        self.loader.leader = leader
        controller = self._controller
        if controller is not None and (leader.leader_id != self.node_id or controller.active_epoch != leader.epoch):
            controller.deactivate()
            self._periodic.stop()

    def _load_latest_snapshot(self) -> None:
        """Everything in a snapshot is committed. The bootstrap one holds no metadata."""
        latest = self.log.latest_snapshot()
        if latest is None:
            return
        contents = self.log.read_snapshot(latest)
        if latest == BOOTSTRAP_SNAPSHOT_ID:
            return
        if self._controller is not None:
            self._controller.load_snapshot(list(contents.records()), latest.offset)
        self.loader.load_snapshot(latest, contents)

    def _committed(self, high_watermark: int) -> None:
        """Hands on what is committed and not read yet; then the replies go out, the image and the publishers follow."""
        self.log.log.update_high_watermark(high_watermark)
        controller = self._controller
        offset = self.loader.next_offset
        while offset < high_watermark:
            data = self.log.read(offset, up_to=high_watermark)
            for batch in decode_batches(data):
                if batch.base_offset < offset:
                    continue
                if controller is not None:
                    controller.replay_batch(batch)
                self.loader.load_batch(batch)
            offset = next_offset_after(data, offset)
        self.loader.flush()
        self._check_features()
        self.loader.caught_up_to(high_watermark)
        if controller is not None:
            controller.commit(high_watermark)
            leader = self.raft.leader_state()
            if leader is not None and not controller.is_active and self.loader.next_offset > leader.epoch_start_offset:
                epoch = leader.epoch
                self._queue.append(lambda: self._activate(controller, epoch))
        if self.loader.caught_up:
            self.caught_up.complete(None)
        self._consider_snapshot()

    def _check_features(self) -> None:
        """Warns once of each finalized feature that is not served; a feature nobody here knows is a fault."""
        finalized = self.loader.image.features
        if finalized is self._checked_features:
            return
        self._checked_features = finalized
        from odradek.controller.format import check_finalized

        for warning in check_finalized(finalized.finalized):
            if warning not in self._warned:
                self._warned.add(warning)
                logger.warning("%s", warning)

    def _activate(self, controller: MetadataController, epoch: int) -> None:
        if self.raft.is_leader and self.raft.epoch == epoch and not controller.is_active:
            controller.activate(epoch)
            if controller.is_active:
                self._periodic.start()
                self._periodic.watch_heartbeats(controller.core.context.heartbeats)

    # Snapshots -------------------------------------------------------------------------------------------------------------

    def _consider_snapshot(self) -> None:
        """Kafka's thresholds: bytes of records since the last one, or time since it when there is anything new."""
        config = self._config
        if self.loader.bytes_since_snapshot >= config.integer("metadata.log.max.record.bytes.between.snapshots"):
            self.write_snapshot()
            return
        interval_ms = config.integer("metadata.log.max.snapshot.interval.ms")
        if interval_ms > 0 and (self._clock.monotonic() - self._last_snapshot_s) * 1000 >= interval_ms:
            self.write_snapshot()

    def write_snapshot(self) -> None:
        """Writes a snapshot of the image beside the log, in the executor; nothing when it exists or one is on its way."""
        image = self.loader.image
        snapshot_id = self.loader.snapshot_id
        latest = self.log.latest_snapshot()
        if self._snapshotting or not self.loader.caught_up or snapshot_id.offset <= 0 or (latest is not None and snapshot_id <= latest):
            return
        self._snapshotting = True
        self._last_snapshot_s = self._clock.monotonic()
        self.loader.snapshot_written()
        voters, kraft_version = self.raft.voters.at(snapshot_id.offset)
        now_ms = self._clock.time_ms()

        def write() -> None:
            batches = encode_snapshot(
                image.to_records(),
                epoch=snapshot_id.epoch,
                last_contained_log_time_ms=image.provenance.last_contained_log_time_ms,
                now_ms=now_ms,
                kraft_version=kraft_version,
                voters=voters,
            )
            write_snapshot(self._disk, self.log.directory, snapshot_id, batches)

        def written(error: BaseException | None) -> None:
            self._snapshotting = False
            if error is not None:
                self._fault(error)
                return
            logger.info("Wrote the metadata snapshot that ends at offset %d, epoch %d", *snapshot_id)
            self.log.add_snapshot(snapshot_id)
            self.log.clean(self._clock.time_ms())
            self._delete_later(self.log.take_deletions())

        self._in_executor(write, written)

    def _delete_later(self, paths: Sequence[str]) -> None:
        if not paths:
            return

        def delete() -> None:
            for path in paths:
                if self._disk.exists(path):
                    self._disk.remove(path)

        self._clock.call_later(self._config.integer("internal.metadata.delete.delay.millis") / 1000, delete)

    def _write_chunk(self, chunk: SnapshotChunk) -> None:
        """A piece of a snapshot that is fetched from the leader; the last one puts it in the place of the log."""
        path = self.log.snapshot_path(chunk.snapshot_id)
        part = path + ".part"
        if chunk.position == 0 and self._disk.exists(part):
            self._disk.remove(part)
        file = self._disk.open(part, create=True)
        try:
            file.pwritev([chunk.data], chunk.position)
            if chunk.last:
                file.fsync()
        finally:
            file.close()
        if not chunk.last:
            return
        self._disk.rename(part, path)
        self._disk.fsync_dir(self.log.directory)
        self.log.restart_at(chunk.snapshot_id)
        self._load_latest_snapshot()
        contents = self.log.read_snapshot(chunk.snapshot_id)
        self._step(SnapshotInstalled(chunk.snapshot_id, contents.voters, contents.kraft_version))
