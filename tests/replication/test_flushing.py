"""One flush of a log at a time, none while it is held, and no second chance for a disk that failed."""

from __future__ import annotations

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.replication.flushing import Flusher
from odradek.storage.options import LogOptions
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.replication.support import Brokers, Node, PartitionMetadata


class FlushingWorld:
    """A leader whose flushes run when the test says so."""

    def __init__(self) -> None:
        self.disk = VirtualDisk()
        self.failures: list[OSError] = []
        options = LogOptions(on_io_error=lambda log, error: self.failures.append(error))
        self.node = Node(1, ManualClock(), Brokers({1: 10}), disk=self.disk, options=options, flush_messages="1")
        self.node.partition.make_leader(PartitionMetadata(replicas=(1,), isr=(1,)), self.node.log)
        self.jobs: list[Deferred[None]] = []
        self.flusher = Flusher(self.disk, self._run_job)

    def _run_job(self, job: object) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self.jobs.append(done)
        return done

    def flush(self) -> Deferred[None]:
        self.node.append(b"a")
        return self.flusher.flush(self.node.partition)


def test_what_is_asked_for_during_a_flush_waits_for_the_next() -> None:
    world = FlushingWorld()
    first, second, third = (world.flush() for _ in range(3))
    assert len(world.jobs) == 1
    world.jobs[0].complete(None)
    assert (first.done, second.done) == (True, False)
    assert world.node.log.high_watermark == 1
    assert len(world.jobs) == 2
    world.jobs[1].complete(None)
    assert second.done
    assert third.done
    assert world.node.log.high_watermark == 3


def test_nothing_to_flush_is_done_at_once() -> None:
    world = FlushingWorld()
    world.flush()
    world.jobs[0].complete(None)
    assert world.flusher.flush(world.node.partition).done
    assert len(world.jobs) == 1


def test_a_held_log_is_not_flushed_until_it_is_released() -> None:
    world = FlushingWorld()
    held = world.flusher.hold(world.node.partition)
    assert held.done
    flush = world.flush()
    assert not world.jobs
    world.flusher.release(world.node.partition)
    assert len(world.jobs) == 1
    world.jobs[0].complete(None)
    assert flush.done


def test_holding_waits_for_the_flush_under_way() -> None:
    world = FlushingWorld()
    first = world.flush()
    held = world.flusher.hold(world.node.partition)
    second = world.flush()
    assert not held.done
    world.jobs[0].complete(None)
    assert first.done
    assert held.done
    assert len(world.jobs) == 1
    world.flusher.release(world.node.partition)
    assert len(world.jobs) == 2
    world.jobs[1].complete(None)
    assert second.done


def test_a_release_before_the_flush_under_way_ended_starts_no_second_one() -> None:
    world = FlushingWorld()
    world.flush()
    held = world.flusher.hold(world.node.partition)
    world.flusher.release(world.node.partition)
    second = world.flush()
    assert len(world.jobs) == 1
    world.jobs[0].complete(None)
    assert not held.done
    assert len(world.jobs) == 2
    world.jobs[1].complete(None)
    assert second.done


def test_a_failed_flush_fails_its_directory_and_whoever_waits() -> None:
    world = FlushingWorld()
    first, second = world.flush(), world.flush()
    failure = OSError(5, "gone")
    world.jobs[0].fail(failure)
    assert first.error is failure
    assert world.failures == [failure]
    assert world.node.log.high_watermark == 0
    assert not second.done
    world.jobs[1].fail(failure)
    assert second.error is failure


def test_a_partition_that_went_away_is_not_flushed() -> None:
    world = FlushingWorld()
    world.flush()
    late = world.flush()
    world.node.partition.mark_deleted()
    world.jobs[0].complete(None)
    assert isinstance(late.error, KafkaError)
    assert late.error.code is ErrorCode.KAFKA_STORAGE_ERROR
