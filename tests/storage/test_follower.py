"""A leader's log and a follower's, driven at random: after every catch-up they are the same, whatever was truncated, lost or deleted.

The follower does what replication does with the log: it fetches whole and cut-off batches, finds out by leader epochs where the two part
(KIP-101 and KIP-279 by asking first, KIP-595 by being told), truncates, and starts over where the leader's log begins.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.base.errors import StorageError
from odradek.config.topic import TopicConfig
from odradek.records.batch import BatchHeader, iter_headers
from odradek.storage.append import AppendOrigin, UnexpectedAppendOffsetError, read_marker
from odradek.storage.leader_epochs import EpochEntry
from odradek.storage.log import Log
from odradek.storage.log_manager import LogManager
from odradek.storage.producer_snapshot import ProducerSnapshotEntry, encode_snapshot
from odradek.storage.starting_state import StartingState, starting_state
from odradek.testing.simulation.disk import ALL, NONE, PREFIX, SUBSET, VirtualDisk
from tests.campaigns.crash_model import Found
from tests.clock import ManualClock
from tests.storage.support import (
    PARTITION,
    TOPIC_ID,
    batch,
    checkpoint_log_start_offsets,
    checkpoint_recovery_points,
    load_all,
    marker,
    no_broker,
    open_log,
    open_transactions,
    topic_config,
)

CONFIG = topic_config(segment_bytes=1200, index_interval_bytes=100, file_delete_delay_ms=0)


def configured(_: object) -> TopicConfig:
    return CONFIG


class Replica:
    """One broker with the one log."""

    def __init__(self, clock: ManualClock, rng: random.Random, disk: VirtualDisk | None = None) -> None:
        self.clock, self.rng = clock, rng
        self.disk = disk or VirtualDisk()
        self.open()

    def open(self) -> None:
        self.manager = LogManager(self.disk, self.clock, ["/data"], no_broker(), random=self.rng, verify_transactions=False)
        load_all(self.manager, configured)
        self.log: Log = self.manager.create_log(PARTITION, TOPIC_ID, CONFIG)

    def restart(self, how: str) -> None:
        if how == "clean":
            self.manager.shutdown()
            self.disk = self.disk.kill()
        elif how == "kill":
            self.disk = self.disk.kill()
        else:
            self.disk = self.disk.crash(self.rng, names=PREFIX, data=SUBSET)
        self.open()


class State(NamedTuple):
    """What a log says of a producer, and what reading it again does."""

    epoch: int
    coordinator_epoch: int
    last_sequence: int
    last_offset: int
    is_open: bool


class Rescan:
    """The log's batches from the log start on, followed by the simplest means there are."""

    def __init__(self, disk: VirtualDisk, log: Log) -> None:
        self.batches: list[bytes] = []
        self.producers: dict[int, State] = {}
        self.data: list[tuple[int, int]] = []
        """(producer id, base offset) of transactional data."""
        self.aborted: set[tuple[int, int]] = set()
        """Those of them that were aborted."""
        self.begin = log.log_end_offset
        """Base offset of the first batch that lies wholly above the log start."""
        self._open: dict[int, list[tuple[int, int]]] = {}
        for segment in log.segments:
            content = memoryview(disk.read_bytes(segment.log_path))[: segment.size]
            for position, header in iter_headers(content):
                if header.last_offset >= log.log_start_offset:
                    self.batches.append(bytes(content[position : position + header.size]))
                if header.base_offset >= log.log_start_offset:
                    self.begin = min(self.begin, header.base_offset)
                    if header.producer_id >= 0:
                        self._follow(content, position, header)

    def _follow(self, content: memoryview, position: int, header: BatchHeader) -> None:
        pid = header.producer_id
        before = self.producers.get(pid, State(-1, -1, -1, -1, False))
        if not header.is_control:
            self.producers[pid] = State(
                header.producer_epoch,
                before.coordinator_epoch,
                header.last_sequence,
                header.last_offset,
                before.is_open or header.is_transactional,
            )
            if header.is_transactional:
                self.data.append((pid, header.base_offset))
                self._open.setdefault(pid, []).append((pid, header.base_offset))
            return
        ended = read_marker(content, position, header)
        assert ended is not None
        same = before.epoch == header.producer_epoch
        self.producers[pid] = State(
            header.producer_epoch, ended.coordinator_epoch, before.last_sequence if same else -1, before.last_offset if same else -1, False
        )
        transaction = self._open.pop(pid, [])
        if ended.aborted:
            self.aborted.update(transaction)


def producers_of(log: Log) -> dict[int, State]:
    return {
        pid: State(entry.epoch, entry.coordinator_epoch, entry.last_sequence, entry.last_data_offset, entry.txn_first_offset >= 0)
        for pid, entry in log.producer_state.producers.items()
    }


def check_against_rescan(disk: VirtualDisk, log: Log) -> Rescan:
    """Producer state and transaction index are those of the batches. Of producers without data in the log more may be known."""
    scan = Rescan(disk, log)
    known = producers_of(log)
    for pid, state in scan.producers.items():
        if state.last_offset >= 0:
            assert known[pid]._replace(coordinator_epoch=0) == state._replace(coordinator_epoch=0), pid
            if state.coordinator_epoch >= 0:
                assert known[pid].coordinator_epoch == state.coordinator_epoch
        else:
            assert (known[pid].epoch, known[pid].is_open) == (state.epoch, state.is_open)
    for pid, state in known.items():
        assert pid in scan.producers or state.last_offset < scan.begin
    aborted = log.aborted_transactions(log.log_start_offset, log.log_end_offset)
    covered = {
        (pid, base)
        for pid, base in scan.data
        if any(each.producer_id == pid and each.first_offset <= base <= each.last_offset for each in aborted)
    }
    assert covered == scan.aborted
    return scan


class FollowerWorld:
    """Two replicas; `leader` is the one that is written to."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock()
        self.replicas = [Replica(self.clock, self.rng), Replica(self.clock, self.rng)]
        self.leader, self.follower = self.replicas
        self.epoch = 0
        self.counter = 0
        self.lead()

    def lead(self) -> None:
        self.epoch += self.rng.randint(1, 2)
        self.leader.log.assign_epoch_start(self.epoch, self.leader.log.log_end_offset)

    # -- the leader ------------------------------------------------------------------------------------------------------------------

    def append(self) -> None:
        rng, log = self.rng, self.leader.log
        self.counter += 1
        pid = rng.choice((-1, 7, 8, 9, 10))
        options = {"count": rng.randint(1, 4), "tag": str(self.counter), "size": rng.choice((10, 60, 200))}
        if pid < 0:
            log.append_as_leader(batch(**options), self.epoch)  # type: ignore[arg-type]
            return
        entry = log.producer_state.producers.get(pid)
        epoch = 0 if entry is None else entry.epoch
        sequence = 0 if entry is None else entry.last_sequence + 1
        if entry is not None and entry.txn_first_offset < 0 and rng.random() < 0.15:
            epoch, sequence = epoch + 1, 0
        log.append_as_leader(
            batch(**options, producer_id=pid, producer_epoch=epoch, sequence=sequence, transactional=pid >= 9),  # type: ignore[arg-type]
            self.epoch,
        )

    def end_transaction(self) -> None:
        log = self.leader.log
        open_ones = [entry for entry in log.producer_state.producers.values() if entry.txn_first_offset >= 0]
        if open_ones:
            entry = self.rng.choice(open_ones)
            epoch = entry.epoch + self.rng.randint(0, 1)
            data = marker(entry.producer_id, epoch, commit=self.rng.random() < 0.5, coordinator_epoch=max(entry.coordinator_epoch, 0))
            log.append_as_leader(data, self.epoch, origin=AppendOrigin.COORDINATOR)

    def delete_records(self) -> None:
        log = self.leader.log
        log.maybe_increment_log_start_offset(self.rng.randint(log.log_start_offset, log.high_watermark))
        if self.rng.random() < 0.5:
            log.delete_old_segments()
        if self.rng.random() < 0.5:
            checkpoint_log_start_offsets(self.leader.manager)

    # -- the follower ----------------------------------------------------------------------------------------------------------------

    def ask_first(self) -> None:
        """KIP-101 and KIP-279: what a follower did before it fetched (getOffsetTruncationState)."""
        mine, theirs = self.follower.log, self.leader.log
        for _ in range(100):
            if mine.latest_epoch < 0:
                return
            found, end = theirs.end_offset_for_epoch(mine.latest_epoch)
            if end == -1:
                return
            local, local_end = mine.end_offset_for_epoch(found)
            if local == -1:
                mine.truncate_to(min(end, mine.log_end_offset))
                return
            mine.truncate_to(min(local_end, end, mine.log_end_offset))
            if local == found:
                return
        raise AssertionError("truncates for ever")

    def diverges(self) -> bool:
        """KIP-595: the leader compares the fetch position, the follower truncates (truncate_to_divergence)."""
        mine, theirs = self.follower.log, self.leader.log
        if mine.latest_epoch < 0:
            return False
        found, end = theirs.end_offset_for_epoch(mine.latest_epoch)
        if end == -1 or (found == mine.latest_epoch and end >= mine.log_end_offset):
            return False
        local, local_end = mine.end_offset_for_epoch(found)
        if local == -1:
            mine.truncate_to(min(end, mine.log_end_offset))
        elif local == found:
            mine.truncate_to(min(local_end, end, mine.log_end_offset))
        else:
            mine.truncate_to(min(local_end, mine.log_end_offset))
        return True

    def start_over(self) -> None:
        """OFFSET_OUT_OF_RANGE: with or without the state of what the leader has deleted."""
        mine, theirs = self.follower.log, self.leader.log
        if mine.log_end_offset > theirs.log_end_offset:
            mine.truncate_to(theirs.log_end_offset)
            if mine.log_end_offset >= theirs.log_start_offset:
                return
        state = starting_state(theirs, theirs.log_start_offset) if self.rng.random() < 0.7 else None
        mine.truncate_fully_and_start_at(theirs.log_start_offset, state=state)

    def fetch(self, *, max_bytes: int | None = None) -> None:
        mine, theirs = self.follower.log, self.leader.log
        if not theirs.log_start_offset <= mine.log_end_offset <= theirs.log_end_offset:
            self.start_over()
            return
        if self.diverges():
            return
        wanted = max_bytes or self.rng.choice((1, 200, 700, 5000))
        read = theirs.read(mine.log_end_offset, max_bytes=wanted, max_offset=theirs.log_end_offset, min_one_message=True)
        data = b"".join([piece.read(0, piece.size) for piece in read.slices])
        read.release()
        if max_bytes is None and self.rng.random() < 0.3:
            data = data[: self.rng.randint(0, len(data))]
        try:
            mine.append_as_follower(memoryview(data), self.epoch)
        except UnexpectedAppendOffsetError as error:
            if mine.log_end_offset != mine.log_start_offset:
                raise
            mine.truncate_fully_and_start_at(error.first_offset)
            mine.append_as_follower(memoryview(data), self.epoch)
        self.share_offsets()

    def share_offsets(self) -> None:
        mine, theirs = self.follower.log, self.leader.log
        theirs.update_high_watermark(mine.log_end_offset)
        mine.update_high_watermark(theirs.high_watermark)
        if theirs.log_start_offset <= mine.high_watermark:
            mine.maybe_increment_log_start_offset(theirs.log_start_offset)

    def catch_up(self) -> None:
        mine, theirs = self.follower.log, self.leader.log
        if self.rng.random() < 0.4:
            self.ask_first()
        for _ in range(1000):
            if mine.log_end_offset == theirs.log_end_offset and not self.diverges():
                break
            self.fetch(max_bytes=self.rng.choice((300, 3000)))
        assert mine.log_end_offset == theirs.log_end_offset
        self.share_offsets()
        if mine.log_start_offset > theirs.log_start_offset:
            theirs.maybe_increment_log_start_offset(mine.log_start_offset)
        assert mine.log_start_offset == theirs.log_start_offset
        ours, leaders = (check_against_rescan(each.disk, each.log) for each in (self.follower, self.leader))
        assert ours.batches == leaders.batches
        assert ours.producers == leaders.producers
        assert ours.aborted == leaders.aborted
        assert Found(self.follower.disk, mine).epochs == Found(self.leader.disk, theirs).epochs

    # -- what comes between ----------------------------------------------------------------------------------------------------------

    def change_leader(self) -> None:
        """To the other one, however little of the log it has (an unclean election)."""
        self.leader, self.follower = self.follower, self.leader
        self.lead()

    def restart(self) -> None:
        replica = self.rng.choice(self.replicas)
        replica.restart(self.rng.choice(("clean", "kill", "power")))
        check_against_rescan(replica.disk, replica.log)
        if replica is self.leader:
            self.lead()

    def upkeep(self) -> None:
        replica = self.rng.choice(self.replicas)
        replica.log.flush()
        if self.rng.random() < 0.5:
            checkpoint_recovery_points(replica.manager)
        deletion = replica.manager.due_deletions()
        if deletion is not None:
            assert deletion.run() == []

    def step(self) -> None:
        actions: tuple[tuple[int, Callable[[], None]], ...] = (
            (30, self.append),
            (8, self.end_transaction),
            (20, self.fetch),
            (5, self.catch_up),
            (4, self.change_leader),
            (4, self.restart),
            (3, self.delete_records),
            (6, self.upkeep),
        )
        self.rng.choices([action for _, action in actions], [weight for weight, _ in actions])[0]()


@settings(max_examples=40)
@given(st.integers(min_value=0, max_value=1 << 32))
@example(0)
def test_a_follower_that_caught_up_has_the_leaders_log(seed: int) -> None:
    world = FollowerWorld(seed)
    for _ in range(150):
        world.step()
    world.catch_up()


# -- beginning in the middle -----------------------------------------------------------------------------------------------------------


def old_log(rng: random.Random) -> Replica:
    """Forty records of producer 5, epochs 1 to 4, closed cleanly (a snapshot at the end), a fifth epoch unflushed."""
    replica = Replica(ManualClock(), rng)
    for index in range(20):
        replica.log.append_as_leader(batch(2, size=100, producer_id=5, producer_epoch=0, sequence=2 * index), 1 + index // 5)
    replica.restart("clean")
    checkpoint_recovery_points(replica.manager)
    return replica


def foreign_state(offset: int) -> StartingState:
    producers = [
        ProducerSnapshotEntry(77, 3, 41, offset - 2, 1, 1_700_000_000_000, -1, -1),
        ProducerSnapshotEntry(88, 0, 9, offset - 1, 0, 1_700_000_000_000, 2, offset - 1),
    ]
    return StartingState([EpochEntry(2, 0), EpochEntry(9, offset - 3)], encode_snapshot(producers))


def new_producers(offset: int) -> dict[int, tuple[int, int, int]]:
    return {77: (3, 41, -1), 88: (0, 9, offset - 1)}


def producers_there(log: Log) -> dict[int, tuple[int, int, int]]:
    """Epoch, last sequence, first offset of the open transaction."""
    return {pid: (each.epoch, each.last_sequence, each.txn_first_offset) for pid, each in log.producer_state.producers.items()}


def is_new_beginning(log: Log, offset: int) -> bool:
    return producers_there(log) == new_producers(offset) and log.log_start_offset == offset and log.latest_epoch == 9


def places() -> list[int]:
    """Below the old log's end (a segment's base among them), at it, behind it."""
    bases = old_log(random.Random(0)).log.bases
    return [bases[2], bases[-1], 25, 40, 60]


@pytest.mark.parametrize("offset", places())
@pytest.mark.parametrize("seed", range(6))
def test_a_crash_while_a_log_begins_anew_leaves_the_old_log_or_the_new_beginning(offset: int, seed: int) -> None:
    rng = random.Random(seed)
    replica = old_log(rng)
    old = Rescan(replica.disk, replica.log).batches
    images: list[VirtualDisk] = []

    def before(operation: str, path: str) -> None:
        if operation != "read":
            images.append(replica.disk.crash(rng, names=rng.choice((ALL, PREFIX, NONE)), data=rng.choice((ALL, SUBSET, NONE))))
            # As after a kill, but a copy: opening one image must not change another.
            images.append(replica.disk.crash(rng, names=ALL, data=ALL))

    replica.disk.fault = before
    replica.log.truncate_fully_and_start_at(offset, state=foreign_state(offset))
    replica.disk.fault = None
    assert is_new_beginning(replica.log, offset)
    assert replica.log.log_end_offset == offset
    begun = 0
    for image in images:
        again = Replica(ManualClock(), rng, image)
        if set(again.log.producer_state.producers) & {77, 88}:
            assert is_new_beginning(again.log, offset)
            assert again.log.log_end_offset == offset
            begun += 1
        else:
            found = check_against_rescan(again.disk, again.log).batches
            assert found == old[: len(found)]
            assert 9 not in [entry.epoch for entry in again.log.leader_epochs.entries]
    assert 0 < begun < len(images)


@pytest.mark.parametrize("how", ["clean", "kill", "power"])
@pytest.mark.parametrize("offset", places())
def test_a_log_that_began_in_the_middle_goes_on_after_a_restart(offset: int, how: str) -> None:
    replica = old_log(random.Random(1))
    replica.log.truncate_fully_and_start_at(offset, state=foreign_state(offset))
    replica.restart(how)
    assert is_new_beginning(replica.log, offset)
    replica.log.append_as_follower(batch(2, base_offset=offset, epoch=9, producer_id=77, producer_epoch=3, sequence=42), 9)
    # The transaction began before the log did.
    end = bytes(batch(1, base_offset=offset + 2, epoch=9, producer_id=88, producer_epoch=0, sequence=10, transactional=True))
    replica.log.append_as_follower(memoryview(end), 9)
    assert open_transactions(replica.log) == [offset - 1]
    replica.log.flush()
    replica.restart(how)
    assert replica.log.producer_state.producers[77].last_sequence == 43
    assert replica.log.producer_state.producers[88].txn_first_offset == offset - 1
    assert replica.log.log_end_offset == offset + 3
    assert [tuple(each) for each in replica.log.leader_epochs.entries] == [(9, offset)]
    # What was cut back to the beginning is the beginning again, and another one takes nothing of it along.
    replica.log.truncate_to(offset)
    assert producers_there(replica.log) == new_producers(offset)
    replica.log.truncate_fully_and_start_at(offset)
    assert not replica.log.producer_state.producers
    replica.log.append_as_follower(batch(1, base_offset=offset, epoch=9), 9)
    replica.log.flush()
    replica.restart(how)
    assert not replica.log.producer_state.producers


def test_a_state_that_is_none_changes_nothing() -> None:
    replica = old_log(random.Random(1))
    good = foreign_state(30)
    for bad in (
        good._replace(producers=good.producers[:-1]),
        good._replace(producers=b""),
        good._replace(epochs=[EpochEntry(3, 0), EpochEntry(3, 5)]),
        good._replace(epochs=[EpochEntry(3, 5), EpochEntry(4, 5)]),
        good._replace(epochs=[EpochEntry(3, 30)]),
        foreign_state(31),
    ):
        with pytest.raises(StorageError):
            replica.log.truncate_fully_and_start_at(30, state=bad)
    assert replica.log.log_end_offset == 40
    assert len(check_against_rescan(replica.disk, replica.log).batches) == 20


def test_the_state_at_an_offset_is_known_at_snapshots_and_at_the_end() -> None:
    replica = old_log(random.Random(1))
    log = replica.log
    base = log.bases[2]
    for offset in (base, 40):
        state = starting_state(log, offset)
        assert state is not None
        (producer,) = state.producers_before(offset)
        assert (producer.producer_id, producer.last_offset, producer.last_sequence) == (5, offset - 1, offset - 1)
        assert list(state.epochs) == [entry for entry in log.leader_epochs.entries if entry.start_offset < offset]
    assert starting_state(log, base + 1) is None
    assert starting_state(log, 41) is None
    path = log.producer_state.snapshots.path(base)
    replica.disk.write_atomic(path, replica.disk.read_bytes(path)[:-1])
    assert starting_state(log, base) is None


def test_a_follower_knows_its_own_state_at_its_end_and_nowhere_else() -> None:
    log = open_log(VirtualDisk(), ManualClock())
    for offset in range(3):
        log.append_as_follower(batch(1, base_offset=offset, epoch=0, producer_id=7, producer_epoch=0, sequence=offset), 0)
        state = starting_state(log, log.log_end_offset)
        assert state is not None
        assert [each.last_offset for each in state.producers_before(offset + 1)] == [offset]
    assert starting_state(log, 1) is None
