"""Whole controllers under random faults: KRaftNodes with their logs, snapshots and state machines, clients, and what must hold.

Everything follows from one seed. The named invariants:

- *committed prefix*: what any node knows to be committed is the same on all.
- *answers are committed*: no reply but an error leaves a controller before the records of its operation are committed.
- *nothing answered is lost*: at the end it is in the log.
- *producer ids are disjoint*: no block is handed out twice.
- *state is what the log says*: every standby has the state that a replay of its committed log gives, and every image is that of the log.
- *liveness*: when all is well again there is one controller, and everybody catches up with it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.undo import UndoJournal
from odradek.config.broker import BrokerConfig
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.quorum import QuorumControllerCore
from odradek.controller.core.result import ControllerResult
from odradek.controller.kraft import KRaftNode
from odradek.controller.kraft.active import MetadataController
from odradek.controller.kraft.commits import Commits
from odradek.controller.kraft.loader import MetadataLoader
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.messages.metadata_records import ConfigRecord, ProducerIdsRecord
from odradek.records.batch import iter_headers
from tests.clock import ManualClock
from tests.controller.kraft_cluster import CLUSTER_ID, Process, Quorum

BLOCK = 1000
_MAY_HAPPEN = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE})
"""How an operation may end without an answer: its controller leads no more, or its node stops."""


class InvariantViolation(AssertionError):
    """Named, with the seed that brings it back."""


class SlowExecutor:
    """Jobs take time, and do their work at its beginning or at its end. Those for the metadata log come one after the other."""

    def __init__(self, clock: ManualClock, process: Process, rng: random.Random, longest_s: float) -> None:
        self._clock = clock
        self._process = process
        self._rng = rng
        self._longest_s = longest_s
        self._free_s = 0.0

    def run_in_executor(self, executor: object, work: Callable[[], object]) -> Future[object]:
        """As that of an event loop."""
        future: Future[object] = Future()
        now_s = self._clock.monotonic()
        end_s = max(now_s, self._free_s if executor is not None else 0.0) + self._rng.uniform(0, self._longest_s)
        if executor is not None:
            self._free_s = end_s
        result: list[object] = []
        if end_s - now_s < self._longest_s and self._rng.random() < 0.5:
            result.append(_outcome(work))

        def ends() -> None:
            outcome = result[0] if result else _outcome(work)
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        self._clock.call_later(end_s - now_s, lambda: self._process.do(ends))
        return future


def _outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except Exception as error:
        return error


class Operation:
    """A client's request, and where the controller that ran it wants its records."""

    def __init__(self, name: str, node: int) -> None:
        self.name = name
        self.node = node
        self.first_offset = -1
        self.end_offset = -1
        self.epoch = -1


class Simulation(Quorum):
    """Nodes, clients, faults and invariants. `seed` decides everything."""

    def __init__(self, seed: int, *, voters: int = 3, observers: int = 0, dynamic: bool = False, disk_s: float = 0.005) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.disk_s = disk_s
        self.committed: dict[int, tuple[int, int]] = {}
        """Base offset -> (epoch, CRC) of every batch that any node knew to be committed."""
        self.committed_to = 0
        self._checked_to: dict[int, int] = {}
        self.answered: list[str] = []
        """The configs whose writing was answered."""
        self.blocks: dict[int, str] = {}
        self._operations = 0
        super().__init__(
            voters + observers,
            observers=observers,
            dynamic=dynamic,
            settings={
                "internal.metadata.max.batch.size.in.bytes": "1600",  # Of which 1024 are kept free: an operation has several batches.
                "internal.metadata.log.segment.bytes": "4096",
                "metadata.log.max.record.bytes.between.snapshots": "6000",
                "metadata.max.retention.bytes": "12000",
            },
        )

    def executor_for(self, process: Process) -> object:
        return SlowExecutor(self.clock, process, random.Random(self.rng.getrandbits(32)), self.disk_s)

    def random_for(self, node: int) -> random.Random:
        return random.Random(self.rng.getrandbits(32))

    def fail(self, invariant: str, text: str) -> None:
        raise InvariantViolation(f"{invariant} (seed {self.seed}, second {self.clock.now_s:.3f}): {text}")

    # Clients -------------------------------------------------------------------------------------------------------------

    def write(self, node: int) -> None:
        """An operation of one batch or of several, whose configs exist nowhere else."""
        count = self.rng.choice((1, 1, 3, 30))
        operation = self._operation(f"write-{self._operations}", node)
        names = [f"{operation.name}-{number}" for number in range(count)]

        def run(context: ControllerContext) -> ControllerResult[list[str]]:
            self._began(operation, context, count)
            return ControllerResult([_config(name) for name in names], names)

        self.submit(node, run).add_callback(lambda done: self._answered(operation, done, self.answered.extend))

    def allocate(self, node: int) -> None:
        """A block of producer ids."""
        operation = self._operation(f"block-{self._operations}", node)

        def run(context: ControllerContext) -> ControllerResult[int]:
            self._began(operation, context, 1)
            first = context.state.next_producer_id
            record = ProducerIdsRecord(broker_id=1, broker_epoch=0, next_producer_id=first + BLOCK)
            return ControllerResult([VersionedRecord(record, 0)], first)

        def took(first: int) -> None:
            if first in self.blocks:
                self.fail("producer ids are disjoint", f"{operation.name} and {self.blocks[first]} got the block at {first}")
            self.blocks[first] = operation.name

        self.submit(node, run).add_callback(lambda done: self._answered(operation, done, took))

    def _operation(self, name: str, node: int) -> Operation:
        self._operations += 1
        return Operation(name, node)

    def _began(self, operation: Operation, context: ControllerContext, count: int) -> None:
        operation.first_offset, operation.end_offset = context.next_offset, context.next_offset + count
        operation.epoch = self.nodes[operation.node].raft.epoch

    def _answered(self, operation: Operation, done: Deferred[Any], take: Callable[[Any], object]) -> None:
        error = done.error
        if error is not None:
            if not isinstance(error, KafkaError) or error.code not in _MAY_HAPPEN:
                self.fail("answers are committed", f"{operation.name} on node {operation.node} ended in {error!r}")
            return
        self.check_committed()
        found = [epoch for base, (epoch, _) in self.committed.items() if operation.first_offset <= base < operation.end_offset]
        if self.committed_to < operation.end_offset or set(found) != {operation.epoch}:
            self.fail(
                "answers are committed",
                f"node {operation.node} answered {operation.name} in epoch {operation.epoch}, offsets {operation.first_offset} to "
                f"{operation.end_offset}; committed is what is below {self.committed_to}, there in epochs {sorted(set(found))}",
            )
        take(done.result())

    # Faults --------------------------------------------------------------------------------------------------------------

    @property
    def up(self) -> list[int]:
        return sorted(self.nodes)

    def controllers_up(self) -> list[int]:
        return [node for node in self.up if node in self.voters]

    def restart(self, node: int) -> None:
        self._checked_to.pop(node, None)
        self.start(node)

    def power_cut(self, node: int) -> None:
        """The machine goes down with its process; its disk keeps what was durable, and whatever else."""
        self.kill(node)
        self.disks[node] = self.disks[node].crash(self.rng)

    def resign(self, node: int) -> None:
        """The leader gives up by itself."""
        kraft = self.nodes[node]
        self.processes[node].do(lambda: kraft.resign(kraft.raft.epoch))

    def heal(self) -> None:
        """All links work, all processes are up and run."""
        self.cut.clear()
        self.cut_links.clear()
        for node in self.up:
            self.go_on(node)
        for node in self.ids:
            if node not in self.nodes:
                self.restart(node)

    def run(self, seconds: float) -> None:
        self.clock.advance_s(seconds)
        self.check_committed()
        if self.faults:
            self.fail("no fault", f"{self.faults}")
        for node in self.nodes.values():
            if seconds >= 1 and not node.is_active_controller and node.log.start_offset <= node.loader.next_offset == node.high_watermark:
                self.check_state(node)

    # Invariants ----------------------------------------------------------------------------------------------------------

    def check_committed(self) -> None:
        """Compares what is newly known to be committed with what others know."""
        for number, node in self.nodes.items():
            offset, end = max(self._checked_to.get(number, 0), node.log.start_offset), node.high_watermark
            while offset < end:
                for _, header in iter_headers(memoryview(node.log.read(offset, up_to=end))):
                    found = (header.partition_leader_epoch, header.crc)
                    known = self.committed.setdefault(header.base_offset, found)
                    if known != found:
                        self.fail("committed prefix", f"node {number} has {found} at {header.base_offset}, others have {known}")
                    offset = header.next_offset
                self._checked_to[number] = offset
                self.committed_to = max(self.committed_to, offset)

    def settle(self) -> None:
        """All is well again: the quorum comes together, and everything that was promised is there."""
        self.heal()
        try:
            self.wait_for_leader()
            self.write(self.active.node_id)
            self.wait_for(self._settled)
        except AssertionError as error:
            self.fail("liveness", f"{error}: {self.describe()}")
        self.check_committed()
        kept = self.active.image.configs.of(4, "")
        lost = [name for name in self.answered if name not in kept]
        if lost:
            self.fail("nothing answered is lost", f"{lost[:5]} of {len(self.answered)}")
        for node in self.nodes.values():
            self.check_state(node)

    def _settled(self) -> bool:
        """Everybody has all that there is, and has read it."""
        ends = {node.next_offset for node in self.nodes.values()}
        read = {node.loader.next_offset for node in self.nodes.values()}
        active = [node for node in self.nodes.values() if node.is_active_controller]
        return len(active) == 1 and len(ends) == 1 and ends == read

    def check_state(self, node: KRaftNode) -> None:
        """Against a replay of the node's own committed log from its beginning."""
        config = self.config(node.node_id)
        controller = MetadataController(core_factory=lambda journal: _core(config, journal), writer=node, clock=self.clock, bootstrap=[])
        loader = MetadataLoader()
        commits = Commits(node.log, loader, controller)
        commits.advance(node.high_watermark)
        while commits.read():
            pass
        if not node.image.equal_state(loader.image):
            self.fail("state is what the log says", f"the image of node {node.node_id} is not that of its log")
        state = None if node.controller is None else node.controller.core.state.comparable()
        if state is not None and state != controller.core.state.comparable():
            self.fail("state is what the log says", f"the state of controller {node.node_id} is not that of its log")

    def describe(self) -> str:
        return "; ".join(
            f"{number}: {node.raft.role.value} epoch {node.raft.epoch} leader {node.raft.leader_id} end {node.next_offset} "
            f"high watermark {node.high_watermark} read {node.loader.next_offset} active {node.is_active_controller}"
            for number, node in sorted(self.nodes.items())
        )


def _config(name: str) -> VersionedRecord:
    return VersionedRecord(ConfigRecord(resource_type=4, resource_name="", name=name, value="1"), 0)


def _core(config: BrokerConfig, journal: UndoJournal) -> QuorumControllerCore:
    return QuorumControllerCore(config, CLUSTER_ID, random.Random(0), journal)
