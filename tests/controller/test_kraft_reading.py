"""How what is committed is read: in slices, whole batches at a time for whoever is told, and what happens to what cannot be taken in."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

import pytest

from odradek.base.errors import StorageError
from odradek.consensus.messages import LeaderAndEpoch
from odradek.consensus.voters import OffsetAndEpoch
from odradek.controller.core.result import ControllerResult
from odradek.controller.kraft.background import Background
from odradek.controller.kraft.commits import RECORDS_A_SLICE, Commits
from odradek.controller.kraft.loader import MetadataLoader
from odradek.controller.kraft.queue import WorkQueue
from odradek.controller.kraft.records import Batch, decode_batches, encode_metadata_batch
from odradek.metadata.delta import MetadataDelta
from odradek.metadata.image import MetadataImage
from odradek.metadata.versioned import VersionedRecord
from odradek.protocol.messages.metadata_records import BeginTransactionRecord, EndTransactionRecord, FenceBrokerRecord
from tests.controller.kraft_cluster import HeldExecutor, Quorum, RecordingPublisher, set_config
from tests.controller.kraft_support import SHORT_LOG, config, write


def turns_until(quorum: Quorum, condition: Callable[[], bool]) -> int:
    for turn in range(100):
        if condition():
            return turn
        quorum.clock.turn()
    raise AssertionError("not within 100 turns")


# Slices --------------------------------------------------------------------------------------------------------------------


def test_a_large_batch_is_read_in_slices_and_shown_as_a_whole() -> None:
    quorum = Quorum()
    quorum.start()
    node = quorum.nodes[1]
    publisher = RecordingPublisher()
    node.add_publisher(publisher)
    answer = node.submit(write(5 * RECORDS_A_SLICE - 1))
    assert turns_until(quorum, lambda: answer.done) == 4
    assert answer.result() == "done"
    assert {len(image.configs.of(4, "")) for image in publisher.images} == {0, 5 * RECORDS_A_SLICE - 1}
    assert len(node.image.configs.of(4, "")) == 5 * RECORDS_A_SLICE - 1


def test_an_image_never_holds_a_part_of_a_batch() -> None:
    loader = MetadataLoader()
    loader.load_batch(Batch(0, 1, 1, 5, 100, [config("whole")], []))
    loader.load_batch(Batch(1, 2, 1, 5, 0, [config("part")], [], complete=False))
    loader.flush()
    assert "part" not in loader.image.configs.of(4, "")
    loader.load_batch(Batch(2, 3, 1, 5, 100, [config("rest")], []))
    loader.flush()
    assert set(loader.image.configs.of(4, "")) == {"whole", "part", "rest"}


def test_a_snapshot_holds_what_was_read_before_it() -> None:
    """So that a snapshot of its own is not due at once."""
    loader = MetadataLoader()
    loader.load_batch(Batch(0, 1, 1, 5, 100, [config("former")], []))
    delta = loader.begin_snapshot()
    loader.replay_into(delta, config("in the snapshot").message)
    loader.load_snapshot(OffsetAndEpoch(9, 1), delta, 5)
    assert loader.bytes_since_snapshot == 0
    loader.load_batch(Batch(9, 10, 1, 5, 70, [config("after")], []))
    loader.flush()
    assert loader.bytes_since_snapshot == 70
    assert set(loader.image.configs.of(4, "")) == {"in the snapshot", "after"}


def test_a_publisher_that_is_taken_away_before_the_node_has_caught_up_is_told_nothing() -> None:
    loader = MetadataLoader()
    gone, stays = RecordingPublisher(), RecordingPublisher()
    loader.add_publisher(gone)
    loader.add_publisher(stays)
    loader.remove_publisher(gone)
    loader.caught_up_to(0)
    assert (len(gone.images), len(stays.images)) == (0, 1)


def test_what_is_answered_while_a_large_batch_is_being_read_has_been_published() -> None:
    quorum = Quorum()
    executor = quorum.executor = HeldExecutor()
    quorum.start()
    executor.all()
    node = quorum.nodes[1]
    publisher = RecordingPublisher()
    node.add_publisher(publisher)
    node.submit(set_config("first", "1"))
    # One flush holds these two, so that they become committed together.
    few, many = node.submit(set_config("few", "1")), node.submit(write(4 * RECORDS_A_SLICE))
    seen: list[int] = []
    for each in (few, many):
        each.add_callback(lambda _: seen.append(len(publisher.images[-1].configs.of(4, ""))))
    executor.all()
    turns_until(quorum, lambda: many.done)
    assert seen == [2, 4 * RECORDS_A_SLICE + 2]
    assert {len(image.configs.of(4, "")) for image in publisher.images} == {0, 1, 2, 4 * RECORDS_A_SLICE + 2}


def test_what_is_read_again_after_a_resignation_in_the_middle_of_a_batch_is_complete() -> None:
    quorum = Quorum(3)
    quorum.start()
    leader = quorum.wait_for_leader()
    quorum.wait_for_all()
    answer = leader.submit(write(4 * RECORDS_A_SLICE))
    while leader.high_watermark < leader.next_offset:
        quorum.clock.stall_s(0.001)
        quorum.clock.turn()
    quorum.clock.turn()
    assert not answer.done, "all is committed, and half of it has been read"
    leader.resign(leader.raft.epoch)
    quorum.wait_for(lambda: any(node.is_active_controller for node in quorum.nodes.values()))
    after = quorum.active.submit(set_config("after", "1"))
    quorum.wait_for(lambda: after.done)
    quorum.wait_for_all()
    for node in quorum.nodes.values():
        assert node.controller is not None
        assert len(node.controller.core.state.configs.get((4, "")) or ()) == 4 * RECORDS_A_SLICE + 1
        assert len(node.image.configs.of(4, "")) == 4 * RECORDS_A_SLICE + 1


def test_a_snapshot_is_loaded_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    a_slice = RECORDS_A_SLICE // 10
    monkeypatch.setattr("odradek.controller.kraft.commits.RECORDS_A_SLICE", a_slice)
    quorum = Quorum(3, settings=SHORT_LOG)
    quorum.start()
    leader = quorum.wait_for_leader()
    quorum.wait_for_all()
    away = next(node for node in quorum.ids if quorum.nodes[node] is not leader)
    quorum.crash(away)
    for _ in range(3):
        answer = leader.submit(write(5 * a_slice))
        quorum.wait_for(lambda answer=answer: answer.done)
    assert leader.log.start_offset > 3 * a_slice
    slices: list[int] = []
    replay_into, read = MetadataLoader.replay_into, Commits.read

    def count(self: MetadataLoader, delta: MetadataDelta, message: object) -> None:
        slices[-1] += 1
        replay_into(self, delta, message)

    def begin(self: Commits) -> bool:
        slices.append(0)
        return read(self)

    monkeypatch.setattr(MetadataLoader, "replay_into", count)
    monkeypatch.setattr(Commits, "read", begin)
    quorum.start(away)
    quorum.wait_for_all()
    node = quorum.nodes[away]
    assert node.log.start_offset > 3 * a_slice
    assert sum(slices) >= 5 * a_slice
    assert max(slices) <= a_slice
    assert node.image.equal_state(leader.image)
    assert node.controller is not None
    assert leader.controller is not None
    assert node.controller.core.state.comparable() == leader.controller.core.state.comparable()
    assert not quorum.faults


def test_a_log_that_is_replaced_in_the_middle_of_a_batch_is_read_on_from_the_snapshot() -> None:
    quorum = Quorum(settings={"metadata.log.max.record.bytes.between.snapshots": "1000000000"})
    quorum.start()
    node = quorum.nodes[1]
    answer = node.submit(write(3 * RECORDS_A_SLICE))
    turns_until(quorum, lambda: answer.done)
    loader = MetadataLoader()
    commits = Commits(node.log, loader, None)
    commits.advance(node.high_watermark)
    assert commits.read()
    assert commits.read(), "within the batch"
    node.submit(set_config("after", "1"))
    node.write_snapshot()
    latest = node.log.latest_snapshot()
    assert latest is not None
    node.log.restart_at(latest)
    commits.restart()
    commits.advance(latest.offset)
    while commits.read():
        pass
    assert loader.image.equal_state(node.image)
    node.submit(set_config("later", "1"))
    commits.advance(node.high_watermark)
    assert not commits.read()
    assert loader.image.configs.of(4, "")["later"] == "1"
    assert loader.image.equal_state(node.image), "the half batch from before the snapshot is forgotten"


def test_a_transaction_that_a_snapshot_has_overtaken_is_over() -> None:
    loader = MetadataLoader()
    loader.load_batch(Batch(0, 2, 1, 5, 100, [VersionedRecord(BeginTransactionRecord(name="t"), 0), config("taken back")], []))
    delta = loader.begin_snapshot()
    delta.replay(config("held").message)
    loader.load_snapshot(OffsetAndEpoch(9, 2), delta, 5)
    loader.load_batch(Batch(9, 10, 2, 6, 100, [config("after")], []))
    loader.flush()
    assert loader.image.configs.of(4, "") == {"held": "1", "after": "1"}


def test_a_batch_can_be_decoded_in_slices() -> None:
    data = encode_metadata_batch([config(f"key {number}") for number in range(7)], base_offset=10, epoch=3, now_ms=5)
    slices = list(decode_batches(data, max_records=3))
    assert [(each.base_offset, each.end_offset, len(each.records), each.complete) for each in slices] == [
        (10, 13, 3, False),
        (13, 16, 3, False),
        (16, 17, 1, True),
    ]
    assert [each.size for each in slices] == [0, 0, len(data)]
    (whole,) = decode_batches(data)
    assert whole.records == [record for each in slices for record in each.records]


def test_there_is_no_snapshot_of_a_state_within_a_batch() -> None:
    quorum = Quorum()
    quorum.start()
    node = quorum.nodes[1]
    records = [config("before"), VersionedRecord(BeginTransactionRecord(name="t"), 0), config("within")]
    node.submit(lambda _: ControllerResult(records, None, atomic=True)).result()
    assert node.image.configs.of(4, "") == {"before": "1"}
    node.write_snapshot()
    assert node.log.snapshots == []
    node.submit(lambda _: ControllerResult([VersionedRecord(EndTransactionRecord(), 0)], None)).result()
    node.write_snapshot()
    assert len(node.log.snapshots) == 1
    image = node.image
    node.stop()
    quorum.start()
    assert quorum.nodes[1].image.equal_state(image)


# What cannot be taken in ---------------------------------------------------------------------------------------------------


class FailingPublisher:
    """Cannot take over what holds a config "poison"."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    def publish(self, delta: MetadataDelta, image: MetadataImage, leader_and_epoch: LeaderAndEpoch) -> None:
        if "poison" in image.configs.of(4, ""):
            raise KeyError("poison")
        self.offsets.append(image.offset)


def test_a_publisher_that_fails_is_told_of_the_next_image(caplog: pytest.LogCaptureFixture) -> None:
    quorum = Quorum()
    quorum.start()
    node = quorum.nodes[1]
    failing, other = FailingPublisher(), RecordingPublisher()
    node.add_publisher(failing)
    node.add_publisher(other)
    with caplog.at_level(logging.ERROR):
        poisoned = node.submit(set_config("poison", "1"))
    assert poisoned.result() == "poison is 1"
    assert "FailingPublisher could not apply the metadata up to offset" in caplog.text
    assert node.loader.apply_errors == 1
    node.submit(set_config("poison", None))
    assert failing.offsets[-1] == other.images[-1].offset == node.image.offset
    assert node.loader.apply_errors == 1
    assert not quorum.faults


def test_a_publisher_has_to_take_its_first_image() -> None:
    quorum = Quorum()
    quorum.start()
    quorum.nodes[1].submit(set_config("poison", "1"))
    with pytest.raises(KeyError, match="poison"):
        quorum.nodes[1].add_publisher(FailingPublisher())


def test_a_record_that_this_release_does_not_know_ends_the_node_with_one_line() -> None:
    quorum = Quorum()
    quorum.start()
    node = quorum.nodes[1]
    offset = node.next_offset
    assert node.append_values([b"\x01\xe7\x07\x00"], node.raft.epoch)
    quorum.clock.advance_s(1)
    fault = quorum.faults[1]
    assert isinstance(fault, StorageError)
    assert str(fault) == (
        f"/data/__cluster_metadata-0: the metadata record at offset {offset} cannot be read by this release: "
        "unknown metadata record type 999 (metadata.version 30)"
    )


def test_a_record_that_contradicts_the_image_ends_a_controller_and_is_left_out_by_a_broker(caplog: pytest.LogCaptureFixture) -> None:
    records = [config("before"), VersionedRecord(FenceBrokerRecord(id=7, epoch=1), 0), config("after")]
    batch = Batch(0, 3, 1, 5, 100, records, [])
    with pytest.raises((KeyError, ValueError)):
        MetadataLoader().load_batch(batch)
    broker = MetadataLoader(tolerant=True)
    with caplog.at_level(logging.ERROR):
        broker.load_batch(batch)
    broker.flush()
    assert broker.image.configs.of(4, "") == {"before": "1", "after": "1"}
    assert "was not applied" in caplog.text
    assert broker.load_errors == 1


# Threads -------------------------------------------------------------------------------------------------------------------


def test_the_metadata_log_has_a_thread_of_its_own() -> None:
    names: dict[str, str] = {}

    async def main() -> None:
        queue = WorkQueue(lambda: None, lambda error: None)
        background = Background(asyncio.get_running_loop(), queue)
        done = asyncio.Event()
        left = {"in order", "beside", "suspended"}

        def work(name: str) -> None:
            names[name] = threading.current_thread().name

        def ended(name: str) -> None:
            assert threading.current_thread() is threading.main_thread()
            left.discard(name)
            if not left:
                done.set()

        background.run_in_order(lambda: work("in order"), lambda error: ended("in order"))
        background.run(lambda: work("beside"), lambda error: ended("beside"))
        queue.put(lambda: background.suspend_for(lambda: work("suspended"), lambda: ended("suspended")))
        await asyncio.wait_for(done.wait(), 10)
        background.close()

    asyncio.run(main())
    assert names["in order"] == names["suspended"]
    assert names["in order"].startswith("metadata-log")
    assert not names["beside"].startswith("metadata-log")


def test_what_suspended_work_raises_ends_the_queue() -> None:
    errors: list[BaseException] = []

    async def main() -> None:
        told = asyncio.Event()

        def fault(error: Exception) -> None:
            errors.append(error)
            told.set()

        queue = WorkQueue(lambda: None, fault)
        background = Background(asyncio.get_running_loop(), queue)
        later: list[str] = []

        def fail() -> None:
            raise OSError(5, "Input/output error")

        queue.put(lambda: background.suspend_for(fail, lambda: later.append("rest")))
        queue.put(lambda: later.append("next"))
        await asyncio.wait_for(told.wait(), 10)
        background.close()
        assert "rest" not in later

    asyncio.run(main())
    assert isinstance(errors[0], OSError)
