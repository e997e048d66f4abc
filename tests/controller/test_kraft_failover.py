"""Controllers that are paused, killed and replaced: what they still answer, what they keep, and how soon there is another."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.base.undo import UndoJournal
from odradek.consensus.messages import LeaderAndEpoch, VoteRequest, VoteResponse
from odradek.consensus.states import Role
from odradek.consensus.voters import ReplicaKey
from odradek.controller.core.context import ControllerContext
from odradek.controller.core.quorum import QuorumControllerCore
from odradek.controller.core.result import ControllerResult
from odradek.controller.kraft.active import MetadataController
from odradek.controller.kraft.group_commit import FLUSH_INTERVAL_S
from odradek.controller.kraft.records import decode_batches, encode_metadata_batch, encode_record
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.messages.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    FeatureLevelRecord,
)
from tests.clock import ManualClock
from tests.controller.kraft_cluster import HeldExecutor, Process, Quorum, set_config


def code_of(deferred: Deferred[Any]) -> ErrorCode:
    assert isinstance(deferred.error, KafkaError)
    return deferred.error.code


def configs(count: int) -> list[VersionedRecord]:
    return [VersionedRecord(ConfigRecord(resource_type=4, resource_name="", name=f"key {number}", value="1"), 0) for number in range(count)]


def write_many(_: ControllerContext) -> ControllerResult[str]:
    """More than one batch."""
    return ControllerResult(configs(15_000), "done")


def read(_: ControllerContext) -> ControllerResult[str]:
    return ControllerResult([], "seen")


# Pauses --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", [set_config("lost", "1"), write_many, read], ids=["one batch", "two batches", "none"])
def test_a_controller_that_slept_through_its_successor_s_election_answers_nothing(operation: Any) -> None:
    quorum = Quorum(3)
    quorum.start()
    slept = quorum.wait_for_leader()
    quorum.wait_for_all()
    quorum.pause(slept.node_id)
    quorum.cut = {slept.node_id}
    quorum.clock.advance_s(10)
    assert quorum.active is not slept
    answer = quorum.submit(slept.node_id, operation)
    assert not answer.done, "it waits in the socket of a process that stands still"
    quorum.go_on(slept.node_id)
    assert code_of(answer) is ErrorCode.NOT_CONTROLLER
    quorum.cut = set()
    kept = quorum.active.submit(set_config("kept", "1"))
    quorum.wait_for(lambda: kept.done)
    quorum.wait_for_all()
    for node in quorum.nodes.values():
        assert node.controller is not None
        assert node.controller.core.state.configs.get((4, "")) == node.image.configs.of(4, "") == {"kept": "1"}


class DeposingWriter:
    """A log whose first append is the last thing that its node does as a leader."""

    kraft_version = 0
    leader_id = -1

    def __init__(self, *, appends: bool) -> None:
        self.next_offset = 10
        self.controller: MetadataController | None = None
        self.written: list[bytes] = []
        self._appends = appends

    def append_values(self, values: list[bytes], epoch: int) -> bool:
        assert self.controller is not None
        self.written += values
        self.next_offset += len(values) if self._appends else 0
        self.controller.deactivate()
        return self._appends

    def resign(self, epoch: int) -> None: ...


def deposed_by(writer: DeposingWriter) -> MetadataController:
    """A controller whose log ends where the writer's begins."""

    def core(journal: UndoJournal) -> QuorumControllerCore:
        quorum = Quorum()
        return QuorumControllerCore(quorum.config(1), "cluster", quorum.random_for(1), journal)

    controller = writer.controller = MetadataController(core_factory=core, writer=writer, clock=ManualClock(), bootstrap=[])
    controller.commit(writer.next_offset)
    return controller


@pytest.mark.parametrize(
    ("appends", "snapshot"), [(True, False), (False, False), (False, True)], ids=["appended", "refused", "refused after a snapshot"]
)
def test_leadership_that_ends_with_an_append_takes_the_operation_back(appends: bool, snapshot: bool) -> None:
    controller = deposed_by(DeposingWriter(appends=appends))
    if snapshot:
        controller.load_snapshot(controller.begin_snapshot(), 10)
    controller.active_epoch = 5
    answer: Deferred[str] = Deferred()
    controller.run(write_many, answer)
    assert code_of(answer) is ErrorCode.NOT_CONTROLLER
    assert not controller.core.state.configs.get((4, "")), "neither the first batch nor the second"
    assert controller.replayed_to == 10, "what others commit there is read"


def test_a_transaction_that_a_snapshot_has_overtaken_is_over_for_the_controller_too() -> None:
    controller = deposed_by(DeposingWriter(appends=True))
    begin = VersionedRecord(BeginTransactionRecord(name="left open"), 0)
    for offset in (10, 20):
        for batch in decode_batches(encode_metadata_batch([begin, *configs(1)], base_offset=offset, epoch=4, now_ms=0)):
            controller.replay_batch(batch)
        controller.load_snapshot(controller.begin_snapshot(), offset + 10)
    assert not controller.core.state.configs.get((4, ""))


@pytest.mark.parametrize("appends", [True, False], ids=["appended", "refused"])
def test_a_transaction_that_a_deposed_leader_aborted_in_vain_is_aborted_by_the_next(appends: bool) -> None:
    """Else it stays open in the log, and nobody is shown anything of what follows it."""
    writer = DeposingWriter(appends=appends)
    controller = deposed_by(writer)
    left_open = [
        VersionedRecord(FeatureLevelRecord(name="metadata.version", feature_level=30), 0),
        VersionedRecord(BeginTransactionRecord(name="left open"), 0),
        *configs(1),
    ]
    for batch in decode_batches(encode_metadata_batch(left_open, base_offset=10, epoch=4, now_ms=0)):
        controller.replay_batch(batch)
    writer.next_offset = 13
    controller.commit(13)
    abort = encode_record(VersionedRecord(AbortTransactionRecord(reason="the controller was replaced"), 0))
    for epoch in (5, 7):
        writer.written.clear()
        writer.next_offset = 13
        controller.activate(epoch)
        assert not controller.is_active
        assert not controller.core.state.configs.get((4, ""))
        assert writer.written == [abort]


def test_a_controller_that_leads_on_in_another_epoch_begins_anew() -> None:
    """Its writes would be refused: they are of the former epoch."""
    quorum = Quorum()
    quorum.start()
    node = quorum.nodes[1]
    assert node.controller is not None
    node._following.leader_changed(LeaderAndEpoch(1, node.raft.epoch + 1))  # pyright: ignore[reportPrivateUsage]
    assert not node.controller.is_active


# Failover ------------------------------------------------------------------------------------------------------------------


def failover_s(quorum: Quorum) -> float:
    """How long it takes from the death of the active controller to an answer of the next one."""
    quorum.start()
    quorum.wait_for_leader()
    quorum.wait_for_all()
    quorum.clock.advance_s(5)
    quorum.kill(quorum.active.node_id)
    began_s = quorum.clock.now_s
    answer = quorum.wait_for_leader().submit(set_config("a", "1"))
    quorum.wait_for(lambda: answer.done)
    assert answer.error is None
    return quorum.clock.now_s - began_s


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_a_killed_controller_has_a_successor_in_less_than_half_a_second(dynamic: bool) -> None:
    assert failover_s(Quorum(3, dynamic=dynamic)) < 0.5
    assert failover_s(Quorum(5, dynamic=dynamic)) < 0.5


def test_a_fetch_timeout_that_was_configured_is_waited_out() -> None:
    assert failover_s(Quorum(3, settings={"controller.quorum.fetch.timeout.ms": "2000"})) >= 1.5


def test_a_controller_that_stops_has_a_successor_at_once() -> None:
    quorum = Quorum(3)
    quorum.start()
    stopped = quorum.wait_for_leader()
    quorum.wait_for_all()
    began_s = quorum.clock.now_s
    stopped.stop()
    quorum.wait_for(lambda: any(node.is_active_controller for node in quorum.nodes.values()))
    assert quorum.clock.now_s - began_s < 0.1


class OneExecutor(Quorum):
    """Only the last node to start has a slow disk."""

    held = HeldExecutor()

    def executor_for(self, process: Process) -> object | None:
        return self.held if len(self.processes) == len(self.ids) else None


# What must be durable first ------------------------------------------------------------------------------------------------


def test_a_vote_waits_for_the_disk_and_nothing_else_does() -> None:
    quorum = Quorum(3)
    quorum.start(2)
    executor = quorum.executor = HeldExecutor()
    quorum.start(1)
    node = quorum.nodes[1]

    def vote(candidate: int) -> Deferred[Any]:
        return node.request(VoteRequest(ReplicaKey(1), ReplicaKey(candidate), 9, 0, 0))

    first = vote(2)
    assert not first.done, "it is being written down"
    assert len(executor.waiting) == 1
    second = vote(3)
    refused = node.submit(set_config("a", "1"))
    quorum.clock.advance_s(5)
    assert len(executor.waiting) == 1, "the queue is suspended, timers and all; the loop goes on"
    assert not second.done
    assert not refused.done
    executor.one()
    assert isinstance(first.result(), VoteResponse)
    assert first.result().granted
    assert not second.result().granted
    assert code_of(refused) is ErrorCode.NOT_CONTROLLER


def test_a_disk_that_hangs_in_a_vote_does_not_keep_the_node_from_stopping() -> None:
    quorum = OneExecutor(3)
    executor = quorum.held = HeldExecutor()
    quorum.start()
    node = quorum.nodes[3]
    for _ in range(100):
        quorum.clock.advance_s(0.1)
        executor.all()
    assert node.raft.role is Role.FOLLOWER
    assert node.log.log.recovery_point == node.next_offset > 0
    answer = node.request(VoteRequest(ReplicaKey(3), ReplicaKey(2), 99, 1000, 98))
    assert len(executor.waiting) == 1
    steps = quorum.disks[3].steps
    node.stop()
    assert code_of(answer) is ErrorCode.BROKER_NOT_AVAILABLE
    assert quorum.disks[3].steps == steps, "the thread may still be at the log"
    executor.all()
    assert not quorum.faults


def test_a_truncation_that_fails_ends_the_node() -> None:
    quorum = Quorum(3)
    quorum.start()
    deposed = quorum.wait_for_leader()
    quorum.wait_for_all()
    quorum.cut = {deposed.node_id}
    deposed.submit(set_config("lost", "1"))
    quorum.wait_for(lambda: any(node.is_active_controller and node is not deposed for node in quorum.nodes.values()))
    quorum.disks[deposed.node_id].fail("/data/__cluster_metadata-0", "truncate")
    quorum.cut = set()
    quorum.wait_for(lambda: deposed.node_id in quorum.faults)
    assert isinstance(quorum.faults[deposed.node_id], OSError)


# Observers -----------------------------------------------------------------------------------------------------------------


def test_a_broker_does_not_wait_for_its_disk_and_flushes_now_and_then() -> None:
    quorum = OneExecutor(2, observers=1)
    held = quorum.held = HeldExecutor()
    quorum.start(1)
    quorum.start(2)
    broker = quorum.nodes[2]
    quorum.wait_for_leader()
    quorum.wait_for(lambda: bool(held.waiting))
    held.all()  # quorum-state
    for number in range(3):
        quorum.active.submit(set_config(f"key {number}", "1"))
        quorum.clock.advance_s(0.1)
    assert len(broker.image.configs.of(4, "")) == 3
    assert held.waiting == []
    quorum.clock.advance_s(FLUSH_INTERVAL_S)
    assert len(held.waiting) == 1, "all of it in one flush"
    assert broker.log.log.recovery_point < broker.next_offset
    held.all()
    assert broker.log.log.recovery_point == broker.next_offset
    quorum.clock.advance_s(2 * FLUSH_INTERVAL_S)
    assert held.waiting == [], "there is nothing to flush"
    quorum.active.submit(set_config("later", "1"))
    quorum.clock.advance_s(2 * FLUSH_INTERVAL_S)
    assert len(held.waiting) == 1, "there is again"


def test_a_broker_finds_the_next_controller_when_the_first_one_goes() -> None:
    quorum = Quorum(4, observers=1)
    quorum.start()
    quorum.wait_for_leader()
    quorum.wait_for_all()
    quorum.clock.advance_s(3)
    gone = quorum.active.node_id
    quorum.kill(gone)
    began_s = quorum.clock.now_s
    quorum.wait_for(lambda: quorum.nodes[4].leader_and_epoch.leader_id not in (gone, -1))
    assert quorum.clock.now_s - began_s < 0.6
    assert quorum.nodes[4].raft.role is Role.FOLLOWER
