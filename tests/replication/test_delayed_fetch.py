"""When a fetch that waits is answered, and with what."""

from __future__ import annotations

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode
from odradek.replication.appender import Appender
from odradek.replication.flushing import Flusher
from odradek.replication.following import truncate_to_divergence
from odradek.replication.reader import Reads
from odradek.storage.append import AppendOrigin
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.replication.support import TP, Brokers, Node, PartitionMetadata, batch, content, fetch_as, wanted


def leader(**config: str) -> Node:
    node = Node(1, ManualClock(), Brokers({1: 10, 2: 20}), **config)
    node.partition.make_leader(PartitionMetadata(replicas=(1,), isr=(1,)), node.log)
    return node


def fetch(node: Node, offset: int = 0, *, min_bytes: int = 1, leader_only: bool = True, last_fetched_epoch: int = -1) -> Deferred[Reads]:
    """A consumer's fetch that has to wait."""
    params = fetch_as(-1, max_wait_ms=500, min_bytes=min_bytes, leader_only=leader_only)
    answer = node.reader.fetch(params, [wanted(offset, last_fetched_epoch=last_fetched_epoch)])
    assert isinstance(answer, Deferred)
    return answer


def test_each_byte_counts_once_towards_min_bytes() -> None:
    node = leader()
    size = len(batch(b"a" * 60))
    answer = fetch(node, min_bytes=3 * size)
    for _ in range(2):
        node.append(b"a" * 60)
        assert not answer.done
    node.append(b"a" * 60)
    assert len(content(answer.result()[0][1])) == 3 * size


def test_the_last_byte_of_min_bytes_ends_the_wait() -> None:
    node = leader()
    answer = fetch(node, min_bytes=len(batch(b"a")))
    node.append(b"a")
    assert answer.done
    answer.result()[0][1].release()


def test_data_behind_a_new_segment_is_not_waited_for() -> None:
    node = leader(internal_segment_bytes="300")
    answer = fetch(node, min_bytes=100_000)
    node.append(b"a" * 150)
    assert not answer.done
    node.append(b"b" * 150)
    assert node.log.active.base_offset == 1
    assert answer.done, "the answer ends with the segment, however long it waits"
    answer.result()[0][1].release()


def test_a_fetch_from_an_older_segment_does_not_wait() -> None:
    node = leader(internal_segment_bytes="300")
    for _ in range(3):
        node.append(b"a" * 150)
    answer = node.reader.fetch(fetch_as(-1, max_wait_ms=500, min_bytes=100_000), [wanted(0)])
    assert not isinstance(answer, Deferred)
    answer[0][1].release()


def test_a_fetch_above_what_was_truncated_is_answered() -> None:
    node = Node(1, ManualClock(), Brokers({1: 10, 2: 20}))
    node.partition.make_follower(PartitionMetadata(leader=2), node.log)
    for offset in range(3):
        records = batch(b"a", base_offset=offset, partition_leader_epoch=0)
        node.partition.append_as_follower(records, 0, high_watermark=3, log_start_offset=0)
    answer = fetch(node, 3, leader_only=False)
    node.log.truncate_to(1)
    node.delayed.partition_changed(TP)
    node.delayed.drain()
    assert answer.result()[0][1].error is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_fetcher_whose_log_diverges_meanwhile_is_told() -> None:
    node = Node(1, ManualClock(), Brokers({1: 10, 2: 20}))
    node.partition.make_follower(PartitionMetadata(leader=2, leader_epoch=1), node.log)
    for offset in range(2):
        records = batch(b"a", base_offset=offset, partition_leader_epoch=0)
        node.partition.append_as_follower(records, 1, high_watermark=2, log_start_offset=0)
    answer = fetch(node, 2, leader_only=False, last_fetched_epoch=0)
    truncate_to_divergence(node.partition.followed_log(), 0, 1)
    records = batch(b"b", base_offset=1, partition_leader_epoch=1)
    node.partition.append_as_follower(records, 1, high_watermark=2, log_start_offset=0)
    node.delayed.partition_changed(TP)
    node.delayed.drain()
    assert answer.result()[0][1].diverging_epoch == (0, 1)


def test_a_flush_that_makes_records_visible_wakes_who_waits_for_them() -> None:
    clock = ManualClock()
    disk = VirtualDisk()
    node = Node(1, clock, Brokers({1: 10}), disk=disk, flush_messages="1")
    node.partition.make_leader(PartitionMetadata(replicas=(1,), isr=(1,)), node.log)
    answer = fetch(node)
    node.append(b"a")
    assert not answer.done, "not durable yet"
    flusher = Flusher(disk, lambda job: Deferred.of(job()))
    flusher.flush(node.partition)
    node.delayed.drain()
    assert content(answer.result()[0][1]) != b""


def test_an_append_of_a_request_wakes_who_waits() -> None:
    node = leader()
    answer = fetch(node)
    appender = Appender(node.hosted, node.delayed, Flusher(VirtualDisk(), lambda job: Deferred.of(job())))
    appender.append([(TP, batch(b"a"))], required_acks=1, timeout_ms=100, origin=AppendOrigin.CLIENT)
    assert content(answer.result()[0][1]) != b""


def test_aborted_transactions_that_reach_into_the_answer_are_listed() -> None:
    from odradek.coordinator.markers import marker_batch

    node = leader(internal_segment_bytes="300")
    append = node.partition.append_as_leader
    guard = node.log.start_verification(7, 0, 0, bumps_epoch=False)
    append(batch(b"t" * 150, producer_id=7, producer_epoch=0, base_sequence=0, transactional=True), 1, AppendOrigin.CLIENT, guard)
    append(memoryview(marker_batch(7, 0, 0, committed=False, now_ms=0)), 1, AppendOrigin.COORDINATOR)
    node.append(b"plain")
    read = node.reader.read(fetch_as(-1, isolation_level=1), [wanted(0)], update_follower=False)[0][1]
    assert read.aborted == [(7, 0)]
    read.release()
    read = node.reader.read(fetch_as(-1, isolation_level=1), [wanted(2)], update_follower=False)[0][1]
    assert read.aborted == []
    read.release()
    read = node.reader.read(fetch_as(-1), [wanted(0)], update_follower=False)[0][1]
    assert read.aborted is None
    read.release()
