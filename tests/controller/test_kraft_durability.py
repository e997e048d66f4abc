"""What must be on the disk before anybody is told, and what a node does when its disk fails."""

from __future__ import annotations

import random
from typing import cast
from uuid import UUID

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError, StorageError
from odradek.consensus.messages import ElectionState, SnapshotChunk, SnapshotInstalled, VoteRequest, VoteResponse
from odradek.consensus.voters import OffsetAndEpoch, ReplicaKey, Voter, VoterHistory, VoterSet
from odradek.controller.core.heartbeats import Heartbeats
from odradek.controller.kraft import KRaftNode
from odradek.controller.kraft.background import Background
from odradek.controller.kraft.group_commit import GroupCommit
from odradek.controller.kraft.loader import MetadataLoader
from odradek.controller.kraft.metadata_log import MetadataLog
from odradek.controller.kraft.periodic import AGAIN_AT_ONCE_S, PeriodicTasks
from odradek.controller.kraft.queue import WorkQueue
from odradek.controller.kraft.quorum_state import read_quorum_state, write_quorum_state
from odradek.controller.kraft.records import (
    MAX_BATCH_BYTES,
    encode_control_values,
    encode_metadata_batch,
    encode_values,
    split_values,
    voters_value,
)
from odradek.controller.kraft.snapshots import MAX_RECORDS_PER_BATCH, encode_snapshot, read_snapshot, write_snapshot
from odradek.controller.kraft.snapshotting import Snapshots
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.messages.metadata_records import NoOpRecord
from odradek.records.batch import iter_headers
from odradek.testing.simulation.disk import ALL, CHANGES, NONE, VirtualDisk
from tests.clock import ManualClock
from tests.controller.kraft_cluster import HeldExecutor, Quorum, RecordingPublisher, set_config
from tests.controller.kraft_support import DIRECTORY, code_of, read_only


def with_a_snapshot() -> tuple[Quorum, KRaftNode, OffsetAndEpoch]:
    """Return a quorum of one node, the node, and its snapshot of one setting."""
    quorum = Quorum()
    quorum.start()
    node = quorum.nodes[1]
    node.submit(set_config("a", "1"))
    node.write_snapshot()
    latest = node.log.latest_snapshot()
    assert latest is not None
    return quorum, node, latest


def vote(candidate: int, epoch: int) -> VoteRequest:
    return VoteRequest(ReplicaKey(1), ReplicaKey(candidate, UUID(int=candidate)), epoch, 100, epoch - 1)


# Votes ---------------------------------------------------------------------------------------------------------------------


def test_a_vote_that_cannot_be_written_down_is_not_given() -> None:
    quorum = Quorum(3)
    quorum.start(1)
    quorum.disks[1].fail(f"{DIRECTORY}/quorum-state", CHANGES)
    answer = quorum.nodes[1].request(vote(2, 9))
    assert code_of(answer) is ErrorCode.BROKER_NOT_AVAILABLE
    assert isinstance(quorum.faults[1], OSError)


def test_a_vote_holds_after_a_power_cut() -> None:
    quorum = Quorum(3)
    quorum.start(1)

    def granted(candidate: int) -> bool:
        response = quorum.nodes[1].request(vote(candidate, 9)).result()
        assert isinstance(response, VoteResponse)
        return response.granted

    assert granted(2)
    quorum.disks[1] = quorum.disks[1].crash(random.Random(1), names=NONE, data=NONE)
    quorum.start(1)
    assert not granted(3)
    # (A static quorum's quorum-state has no room for the directory of who got the vote.)
    response = quorum.nodes[1].request(vote(2, 9)._replace(replica=ReplicaKey(2))).result()
    assert isinstance(response, VoteResponse)
    assert response.granted


# Snapshots -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [ALL, NONE])
def test_a_fetched_snapshot_survives_the_power_cut_after_it(names: str) -> None:
    quorum = Quorum(
        3,
        settings={
            "metadata.log.max.record.bytes.between.snapshots": "2000",
            "metadata.max.retention.bytes": "3000",
            "internal.metadata.log.segment.bytes": "2048",
        },
    )
    quorum.start()
    leader = quorum.wait_for_leader()
    quorum.wait_for_all()
    away = next(node for node in quorum.ids if quorum.nodes[node] is not leader)
    quorum.crash(away)
    for number in range(200):
        answer = leader.submit(set_config(f"key{number % 10}", f"value {number}"))
        quorum.wait_for(lambda answer=answer: answer.done)
    quorum.start(away)
    node = quorum.nodes[away]
    quorum.wait_for(lambda: node.log.start_offset > 100)
    latest = node.log.latest_snapshot()
    assert latest is not None
    path = node.log.snapshot_path(latest)
    after = quorum.disks[away].crash(random.Random(1), names=names, data=NONE)
    assert after.read_bytes(path) == quorum.disks[away].read_bytes(path)
    quorum.kill(away)
    quorum.disks[away] = after
    quorum.start(away)
    quorum.wait_for_all()
    assert quorum.nodes[away].image.equal_state(leader.image)


@pytest.mark.parametrize("names", [ALL, NONE])
def test_a_snapshot_of_its_own_survives_the_power_cut_after_it(names: str) -> None:
    quorum, node, latest = with_a_snapshot()
    after = quorum.disks[1].crash(random.Random(1), names=names, data=NONE)
    records = [record.message for batch in read_snapshot(after, node.log.snapshot_path(latest)) for record in batch.records]
    assert len(records) == len(list(node.image.to_records()))


def test_what_an_interrupted_fetch_left_is_no_part_of_the_next_snapshot() -> None:
    quorum, node, latest = with_a_snapshot()
    whole = quorum.disks[1].read_bytes(node.log.snapshot_path(latest))
    node.stop()
    disk = VirtualDisk()
    log = MetadataLog.open(disk, quorum.clock, quorum.config(1))
    snapshots = Snapshots(
        config=quorum.config(1),
        log=log,
        loader=MetadataLoader(),
        voters=VoterHistory(VoterSet()),
        disk=disk,
        clock=quorum.clock,
        background=Background(None, WorkQueue(lambda: None, lambda error: None)),
        on_error=lambda error: pytest.fail(str(error)),
    )
    assert snapshots.receive(SnapshotChunk(latest, 0, whole + b"more of another leader's", False)) is None
    assert snapshots.receive(SnapshotChunk(latest, 0, whole[:10], False)) is None
    assert snapshots.receive(SnapshotChunk(latest, 10, whole[10:], True)) == SnapshotInstalled(latest, None, 0)
    assert disk.read_bytes(log.snapshot_path(latest)) == whole
    assert log.start_offset == latest.offset


def test_a_snapshot_that_takes_the_place_of_the_log_takes_that_of_older_ones_too() -> None:
    quorum = Quorum()
    quorum.start()
    node = quorum.nodes[1]
    for value in ("1", "2"):
        node.submit(set_config("a", value))
        node.write_snapshot()
    older, latest = node.log.snapshots
    node.submit(set_config("a", "3"))
    node.log.restart_at(latest)
    assert node.log.snapshots == [latest]
    disk = quorum.disks[1]
    assert not disk.exists(node.log.snapshot_path(older))
    assert disk.exists(node.log.snapshot_path(latest))


def test_a_start_removes_what_unfinished_snapshots_and_deletions_have_left() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.nodes[1].stop()
    disk = quorum.disks[1]
    left = [f"{DIRECTORY}/00000000000000000009-0000000001.checkpoint{suffix}" for suffix in (".part", ".deleted")]
    for path in left:
        disk.write_atomic(path, b"x")
    quorum.start()
    assert [path for path in left if disk.exists(path)] == []


def test_a_snapshot_that_is_written_when_the_node_has_stopped_leaves_the_log_alone() -> None:
    quorum = Quorum(settings={"metadata.max.retention.bytes": "1", "internal.metadata.log.segment.bytes": "600"})
    executor = quorum.executor = HeldExecutor()
    quorum.start()
    node = quorum.nodes[1]
    executor.all()
    for number in range(30):
        node.submit(set_config(f"key{number}", "v" * 20))
        executor.all()
    node.write_snapshot()
    assert executor.waiting
    node.stop()
    disk = quorum.disks[1]
    before = set(disk.listdir(DIRECTORY))
    executor.all()
    after = set(disk.listdir(DIRECTORY))
    assert before - after == set()
    assert {name.rpartition(".")[2] for name in after - before} == {"checkpoint"}


def test_what_a_start_finds_in_the_log_is_durable_before_anybody_is_told_of_it() -> None:
    """The process was killed with records that were not flushed yet: the start recovers them, and counts them as its own."""
    quorum = Quorum()
    quorum.start()
    quorum.kill(1)
    quorum.executor = HeldExecutor()
    quorum.start()
    node = quorum.nodes[1]
    quorum.executor.all()
    node.submit(set_config("a", "1"))
    end = node.next_offset
    assert node.log.log.recovery_point < end
    quorum.kill(1)
    log = MetadataLog.open(quorum.disks[1], quorum.clock, quorum.config(1))
    assert log.log.recovery_point == log.end.offset == end
    after = MetadataLog.open(quorum.disks[1].crash(random.Random(1), names=NONE, data=NONE), quorum.clock, quorum.config(1))
    assert after.end == log.end


def test_the_newest_snapshot_and_what_follows_it_stay() -> None:
    quorum = Quorum(settings={"metadata.max.retention.bytes": "1", "internal.metadata.log.segment.bytes": "600"})
    quorum.start()
    node = quorum.nodes[1]
    for number in range(60):
        node.submit(set_config(f"key{number}", "v" * 20))
        if number in (20, 40):
            node.write_snapshot()
    (only,) = node.log.snapshots
    assert 0 < node.log.start_offset <= only.offset < node.next_offset
    quorum.clock.advance_s(120)
    image = node.image
    node.stop()
    quorum.start()
    assert quorum.nodes[1].image.equal_state(image)


def test_a_node_that_comes_back_from_a_snapshot_knows_what_it_holds_and_nothing_else() -> None:
    quorum = Quorum()
    quorum.start()
    node = quorum.nodes[1]
    for name in ("kept", "gone"):
        node.submit(set_config(name, "1"))
    former = node.image
    node.submit(set_config("gone", None))
    node.write_snapshot()
    latest = node.log.latest_snapshot()
    assert latest is not None
    contents = list(node.log.read_snapshot(latest))
    node.stop()
    quorum.start()
    restarted = quorum.nodes[1].controller
    assert restarted is not None
    assert restarted.core.state.configs.get((4, "")) == {"kept": "1"}, "the controller starts from the snapshot, too"
    behind = MetadataLoader()
    behind.image = former
    delta = behind.begin_snapshot()
    for batch in contents:
        for record in batch.records:
            behind.replay_into(delta, record.message)
    behind.load_snapshot(latest, delta, 0)
    assert behind.image.configs.of(4, "") == {"kept": "1"}


def test_a_log_whose_beginning_is_missing_is_refused() -> None:
    quorum, node, latest = with_a_snapshot()
    node.log.restart_at(latest)
    path = node.log.snapshot_path(latest)
    node.stop()
    quorum.disks[1].remove(path)
    with pytest.raises(StorageError, match="the earlier part has no snapshot"):
        quorum.start()


def test_a_snapshot_that_is_ahead_of_the_log_takes_its_place() -> None:
    """The power went after a fetched snapshot got its name, and before the log began anew."""
    quorum = Quorum()
    quorum.start()
    node = quorum.nodes[1]
    node.submit(set_config("a", "1"))
    contents = encode_snapshot(node.image.to_records(), epoch=1, last_contained_log_time_ms=0, now_ms=0)
    end = node.next_offset
    node.stop()
    write_snapshot(quorum.disks[1], DIRECTORY, OffsetAndEpoch(1000, 1), contents)
    quorum.start()
    assert quorum.nodes[1].log.start_offset == 1000 > end
    assert quorum.nodes[1].image.configs.of(4, "") == {"a": "1"}


def test_the_directory_that_got_the_vote_stands_in_quorum_state() -> None:
    disk = VirtualDisk()
    disk.makedirs("/data")
    voted = ElectionState(9, -1, ReplicaKey(2, UUID(int=1 << 90)))
    write_quorum_state(disk, "/data", voted, kraft_version=1, voters=(1, 2, 3))
    assert read_quorum_state(disk, "/data") == voted


# fsync ---------------------------------------------------------------------------------------------------------------------


def held() -> tuple[Quorum, HeldExecutor]:
    quorum = Quorum()
    executor = quorum.executor = HeldExecutor()
    quorum.start()
    return quorum, executor


def test_a_node_has_caught_up_when_its_first_record_is_durable() -> None:
    quorum, executor = held()
    node = quorum.nodes[1]
    assert not node.caught_up.done
    assert not node.is_active_controller
    executor.one()
    assert node.is_active_controller
    executor.all()
    assert node.caught_up.error is None
    assert node.caught_up.done


def test_operations_are_answered_by_the_fsync_that_holds_them() -> None:
    quorum, executor = held()
    executor.all()
    node = quorum.nodes[1]
    publisher = RecordingPublisher()
    node.add_publisher(publisher)
    first = node.submit(set_config("a", "1"))
    second, third = node.submit(set_config("b", "1")), node.submit(read_only)
    assert len(executor.waiting) == 1, "one fsync at a time"
    assert not first.done
    disk = quorum.disks[1]
    executor.one()
    assert (first.done, second.done, third.done) == (True, False, False)
    assert publisher.images[-1].configs.of(4, "") == {"a": "1"}, "nothing shows that is not committed"
    quorum.disks[1] = disk.crash(random.Random(1), names=NONE, data=NONE)
    assert len(executor.waiting) == 1, "what came meanwhile shares the next one"
    executor.one()
    assert second.result() == "b is 1"
    assert third.result() == "seen", "what was seen may be what was not committed yet"
    assert executor.waiting == []
    # What was answered by the first fsync was on the disk by then.
    quorum.executor = None
    quorum.start()
    assert quorum.nodes[1].image.configs.of(4, "")["a"] == "1"


def test_an_answer_comes_after_the_publishers_were_told() -> None:
    """Whoever was answered may ask this broker at once."""
    quorum, executor = held()
    executor.all()
    publisher = RecordingPublisher()
    quorum.nodes[1].add_publisher(publisher)
    seen: list[dict[str, str]] = []
    answer = quorum.nodes[1].submit(set_config("a", "1"))
    answer.add_callback(lambda _: seen.append(dict(publisher.images[-1].configs.of(4, ""))))
    executor.all()
    assert seen == [{"a": "1"}]


def test_one_snapshot_is_written_at_a_time() -> None:
    quorum, executor = held()
    executor.all()
    node = quorum.nodes[1]
    node.submit(set_config("a", "1"))
    executor.all()
    node.write_snapshot()
    writing = executor.waiting.pop()
    node.submit(set_config("b", "1"))
    executor.all()
    node.write_snapshot()
    assert executor.waiting == [], "the first one is still being written"
    executor.waiting.append(writing)
    executor.all()
    node.write_snapshot()
    executor.all()
    assert [node.image.offset + 1 - each.offset for each in node.log.snapshots] == [1, 0]


def test_a_failed_fsync_fails_all_who_wait_and_nothing_is_flushed_again() -> None:
    quorum, executor = held()
    executor.all()
    node = quorum.nodes[1]
    waiting = [node.submit(set_config("a", "1")), node.submit(set_config("b", "1")), node.submit(read_only)]
    failure = quorum.disks[1].fail(DIRECTORY, "fsync", times=1)
    executor.one()
    assert [code_of(each) for each in waiting] == [ErrorCode.NOT_CONTROLLER] * 3
    assert isinstance(quorum.faults[1], OSError)
    assert failure.hits == 1
    assert node.controller is not None
    assert node.controller.core.state.configs.get((4, "")) in (None, {}), "taken back"
    assert code_of(node.submit(set_config("c", "1"))) is ErrorCode.NOT_CONTROLLER
    assert code_of(node.request(vote(2, 9))) is ErrorCode.BROKER_NOT_AVAILABLE
    steps = quorum.disks[1].steps
    node.stop()
    quorum.clock.advance_s(600)
    assert executor.waiting == []
    assert quorum.disks[1].steps == steps, "what is on the disk is not known any more: nothing is written"


def test_what_a_failed_fsync_left_in_memory_is_on_the_disk_before_the_next_process_counts_it() -> None:
    """As on Linux, where the next fsync succeeds without having written it."""
    quorum, disk = Quorum(settings={"internal.metadata.log.segment.bytes": "300"}), VirtualDisk()

    def opened(disk: VirtualDisk) -> MetadataLog:
        return MetadataLog.open(disk, quorum.clock, quorum.config(1))

    log = opened(disk)
    log.write_election(ElectionState(1, 1, None), kraft_version=0, voters=(1,))
    for offset in range(0, 20, 2):
        log.append(batch(offset, 1), 1)
        log.append(batch(offset + 1, 1), 1)
    assert len(log.log.segments) > 3
    failure = disk.fail(DIRECTORY, "fsync")
    for segment in log.log.segments:
        with pytest.raises(OSError, match="Input/output"):
            segment.file.fsync()
    failure.lift()
    log.log.close_handles()
    again = opened(disk)
    assert again.end.offset == again.log.recovery_point == 20
    again.log.close_handles()
    assert opened(disk.crash(random.Random(1), names=NONE, data=NONE)).end.offset == 20


def test_a_first_fsync_that_fails_is_told_to_who_waits_for_the_image() -> None:
    quorum, executor = held()
    quorum.disks[1].fail(DIRECTORY, "fsync")
    executor.one()
    assert isinstance(quorum.nodes[1].caught_up.error, OSError)


def test_a_stop_before_the_first_commit_is_told_to_who_waits_for_the_image() -> None:
    quorum, executor = held()
    quorum.nodes[1].stop()
    assert code_of(quorum.nodes[1].caught_up) is ErrorCode.BROKER_NOT_AVAILABLE
    executor.all()
    assert not quorum.faults


def test_a_write_that_fails_ends_the_node_and_is_no_answer_for_a_client() -> None:
    quorum = Quorum()
    quorum.start()
    node = quorum.nodes[1]
    quorum.disks[1].fail(DIRECTORY, "write")
    answer = node.submit(set_config("a", "1"))
    assert code_of(answer) is ErrorCode.NOT_CONTROLLER
    assert isinstance(quorum.faults[1], OSError)
    assert not node.is_active_controller


def batch(base_offset: int, epoch: int) -> bytes:
    return encode_metadata_batch([VersionedRecord(NoOpRecord(), 0)], base_offset=base_offset, epoch=epoch, now_ms=0)


def test_voters_are_found_however_far_behind_the_snapshot_they_stand() -> None:
    quorum = Quorum()
    log = MetadataLog.open(quorum.disks[1], quorum.clock, quorum.config(1))
    for offset in range(2):
        # Both do not fit into one read. What is in the records nobody looks at here.
        log.append(encode_values([bytes(MAX_BATCH_BYTES * 3 // 4)], base_offset=offset, epoch=1, now_ms=0), 1)
    voters = VoterSet([Voter(7, UUID(int=70))])
    log.append(encode_control_values([voters_value(voters)], base_offset=2, epoch=1, now_ms=0), 1)
    assert log.voter_history(VoterSet()).current.ids == (7,)


def test_the_offsets_of_a_snapshot_rise_without_gaps_over_all_its_batches() -> None:
    records = [VersionedRecord(NoOpRecord(), 0)] * (2 * MAX_RECORDS_PER_BATCH + 1)
    batches = encode_snapshot(records, epoch=1, last_contained_log_time_ms=0, now_ms=0)
    headers = [header for _, header in iter_headers(b"".join(batches))]
    assert len(headers) == 5
    assert [header.base_offset for header in headers] == [0, *[header.next_offset for header in headers[:-1]]]
    assert headers[-1].next_offset == len(records) + 2


def test_a_flush_of_what_was_cut_off_meanwhile_makes_nothing_durable() -> None:
    quorum = Quorum()
    disk, clock, executor = quorum.disks[1], quorum.clock, HeldExecutor()
    log = MetadataLog.open(disk, clock, quorum.config(1))
    queue = WorkQueue(lambda: None, lambda error: pytest.fail(str(error)))
    durable: list[int] = []
    background = Background(executor, queue)  # type: ignore[arg-type]

    def told(offset: int) -> None:
        durable.append(offset)
        if offset < log.end.offset:
            commit.flush()

    commit = GroupCommit(log, disk, clock, queue, background, told, lambda error: pytest.fail(str(error)))
    log.append(batch(0, 1), 1)
    commit.flush()
    log.truncate_to(0)
    log.append(batch(0, 2), 2)
    executor.one()
    assert max(durable, default=0) == 0, "the record at offset 0 is another one by now"
    executor.one()
    assert durable[-1] == 1
    after = disk.crash(random.Random(1), names=NONE, data=NONE)
    after.write_atomic(f"{DIRECTORY}/quorum-state", b'{"leaderId":-1,"leaderEpoch":2,"votedId":-1,"data_version":0}')
    assert MetadataLog.open(after, clock, quorum.config(1)).end == (1, 2)


def test_a_flush_that_is_under_way_at_the_stop_lets_go_of_its_files() -> None:
    quorum, executor = held()
    executor.all()
    node = quorum.nodes[1]
    node.submit(set_config("a", "1"))
    pin = node.log.log.active.pin
    assert pin.readers == 1
    node.stop()
    executor.all()
    assert pin.readers == 0


# Leadership ----------------------------------------------------------------------------------------------------------------


def test_a_deposed_controller_reads_what_was_committed_in_the_place_of_its_own_records() -> None:
    quorum = Quorum(3)
    quorum.start()
    deposed = quorum.wait_for_leader()
    quorum.wait_for_all()
    quorum.cut = {deposed.node_id}
    quorum.clock.advance_s(0.7)  # the fetches that waited there are over
    lost = [deposed.submit(set_config(f"lost {number}", "1")) for number in range(3)][-1]
    others = [node for node in quorum.nodes.values() if node is not deposed]
    quorum.wait_for(lambda: any(node.is_active_controller for node in others) and not deposed.is_active_controller)
    assert code_of(lost) is ErrorCode.NOT_CONTROLLER
    kept = quorum.active.submit(set_config("kept", "1"))
    quorum.wait_for(lambda: kept.done)
    quorum.cut = set()
    quorum.wait_for_all()
    for node in quorum.nodes.values():
        assert node.controller is not None
        assert node.controller.core.state.configs.get((4, "")) == {"kept": "1"}


def _sessions_of_nine_seconds(clock: ManualClock) -> Heartbeats:
    class Sessions:
        def next_check_s(self) -> float:
            return clock.now_s + 9

    return cast(Heartbeats, Sessions())


def test_sessions_are_looked_at_again_and_again() -> None:
    clock = ManualClock()
    sessions = _sessions_of_nine_seconds(clock)
    checks: list[float] = []

    def submit(_operation: object, name: str) -> Deferred[object]:
        if name == "fenceStaleBroker":
            checks.append(clock.now_s)
        tasks.watch_heartbeats(sessions)
        return Deferred()

    tasks = PeriodicTasks(Quorum().config(1), clock, submit)
    tasks.watch_heartbeats(sessions)
    clock.advance_s(20)
    assert checks == [], "not before it leads"
    tasks.start()
    tasks.watch_heartbeats(sessions)
    clock.advance_s(30)
    assert checks == [29, 38, 47]


def test_sessions_are_looked_at_again_by_a_controller_that_leads_for_the_second_time() -> None:
    clock = ManualClock()
    sessions = _sessions_of_nine_seconds(clock)
    checks: list[float] = []

    def submit(_operation: object, name: str) -> Deferred[object]:
        if name == "fenceStaleBroker":
            checks.append(clock.now_s)
        return Deferred()

    tasks = PeriodicTasks(Quorum().config(1), clock, submit)
    for _ in range(2):
        tasks.start()
        tasks.watch_heartbeats(sessions)
        clock.advance_s(5)
        tasks.stop()
    tasks.start()
    tasks.watch_heartbeats(sessions)
    clock.advance_s(20)
    assert checks == [19]


def test_a_task_that_is_under_way_when_the_leadership_ends_does_not_come_back() -> None:
    clock = ManualClock()
    submitted: list[Deferred[object]] = []

    def submit(_operation: object, name: str) -> Deferred[object]:
        submitted.append(Deferred())
        return submitted[-1]

    settings = {"metadata.max.idle.interval.ms": "500", "auto.leader.rebalance.enable": "false"}
    tasks = PeriodicTasks(Quorum(settings=settings).config(1), clock, submit)
    tasks.start()
    clock.advance_s(0.6)
    (under_way,) = submitted
    tasks.stop()
    under_way.fail(KafkaError(ErrorCode.NOT_CONTROLLER))
    clock.advance_s(5)
    assert submitted == [under_way]


def test_a_batch_holds_as_many_records_as_it_may_and_no_more() -> None:
    parts = list(split_values([b"%d" % number for number in range(7)], max_records=3))
    assert [len(part) for part in parts] == [3, 3, 1]
    assert [value for part in parts for value in part] == [b"%d" % number for number in range(7)]


def test_nothing_periodic_goes_on_without_leadership() -> None:
    quorum = Quorum(3, settings={"metadata.max.idle.interval.ms": "500"})
    quorum.start()
    leader = quorum.wait_for_leader()
    quorum.wait_for_all()
    quorum.cut = set(quorum.ids)
    quorum.wait_for(lambda: not leader.is_active_controller)
    end = leader.next_offset
    quorum.clock.advance_s(5)
    assert leader.next_offset == end


def test_a_task_with_more_to_do_runs_again_at_once_also_when_its_answer_comes_later() -> None:
    quorum = Quorum(settings={"leader.imbalance.check.interval.seconds": "300", "unclean.leader.election.interval.ms": "3600000"})
    clock = ManualClock()
    submitted: list[tuple[str, Deferred[object]]] = []

    def submit(_operation: object, name: str) -> Deferred[object]:
        submitted.append((name, Deferred()))
        return submitted[-1][1]

    tasks = PeriodicTasks(quorum.config(1), clock, submit)
    tasks.start()
    clock.advance_s(300)
    assert [name for name, _ in submitted] == ["electPreferred"]
    clock.advance_s(1)
    submitted[-1][1].complete(True)
    clock.advance_s(AGAIN_AT_ONCE_S)
    assert len(submitted) == 2, "there is more to balance"
    submitted[-1][1].complete(False)
    clock.advance_s(299)
    assert len(submitted) == 2
    clock.advance_s(1)
    assert len(submitted) == 3
    tasks.stop()
    tasks.start()
    submitted[-1][1].complete(True)
    clock.advance_s(299)
    assert len(submitted) == 3, "what was begun before the stop does not go on beside what was begun after it"


def test_what_waits_in_the_queue_is_dropped_when_it_closes() -> None:
    done: list[str] = []
    queue = WorkQueue(lambda: done.append("idle"), lambda error: queue.close())

    def first() -> None:
        queue.put(lambda: done.append("second"))
        queue.put(fail)
        queue.put(lambda: done.append("third"))
        done.append("first")

    def fail() -> None:
        raise OSError(5, "Input/output error")

    queue.put(first)
    queue.put(lambda: done.append("late"))
    assert done == ["first", "second"]


def test_what_suspended_the_queue_is_ended_before_anything_else_is_done() -> None:
    done: list[str] = []
    queue = WorkQueue(lambda: done.append("idle"), lambda error: pytest.fail(str(error)))

    def first() -> None:
        done.append("first")
        queue.suspend()

    queue.put(first)
    queue.put(lambda: done.append("second"))
    assert done == ["first"], "not even idle: the piece of work is not over"
    queue.resume(lambda: done.append("rest of the first"))
    assert done == ["first", "rest of the first", "second", "idle"]
