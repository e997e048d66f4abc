"""Idempotent and transactional producers as the log sees them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.base.errors import ErrorCode, KafkaError
from odradek.storage.append import AppendOrigin
from odradek.storage.log import Log
from odradek.storage.producer_snapshot import CorruptSnapshotError, ProducerSnapshotEntry, decode_snapshot, encode_snapshot
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.storage.support import batch, marker, open_log, open_transactions, topic_config


@pytest.fixture
def log() -> Log:
    return open_log(VirtualDisk(), ManualClock())


def send(log: Log, sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0, transactional: bool = False) -> tuple[int, bool]:
    records = batch(count, producer_id=producer_id, producer_epoch=epoch, sequence=sequence, transactional=transactional)
    info = log.append_as_leader(records, 0)
    return info.first_offset, info.duplicate


def refused(log: Log, sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0, transactional: bool = False) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        send(log, sequence, count, producer_id=producer_id, epoch=epoch, transactional=transactional)
    return caught.value.code


def end(log: Log, *, commit: bool, producer_id: int = 7, epoch: int = 0, coordinator_epoch: int = 0) -> int:
    records = marker(producer_id, epoch, commit=commit, coordinator_epoch=coordinator_epoch)
    return log.append_as_leader(records, 0, origin=AppendOrigin.COORDINATOR).first_offset


def test_the_last_five_batches_are_recognised(log: Log) -> None:
    for sequence in range(0, 12, 2):
        assert send(log, sequence, 2) == (sequence, False)
    for sequence in range(2, 12, 2):
        assert send(log, sequence, 2) == (sequence, True)
    assert refused(log, 0, 2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 12


def test_gaps_and_old_epochs_are_refused(log: Log) -> None:
    send(log, 0, 3, epoch=1)
    assert refused(log, 4, epoch=1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, 3, epoch=0) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(log, 3, epoch=2) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 0, epoch=2) == (3, False)
    assert send(log, 1, epoch=2) == (4, False)


def test_an_unknown_producer_may_begin_anywhere(log: Log) -> None:
    assert send(log, 41) == (0, False)
    assert send(log, 42) == (1, False)


def test_sequences_wrap(log: Log) -> None:
    last = (1 << 31) - 1
    send(log, last - 1, 2)
    assert send(log, 0) == (2, False)
    assert send(log, last - 1, 2) == (0, True)


def test_sequences_wrap_within_a_batch(log: Log) -> None:
    last = (1 << 31) - 1
    send(log, last, 3)
    assert send(log, last, 3) == (0, True)
    assert send(log, 2) == (3, False)


def test_the_last_stable_offset_waits_for_open_transactions(log: Log) -> None:
    send(log, 0, 2, producer_id=1, transactional=True)
    send(log, 0, 2, producer_id=2, transactional=True)
    log.update_high_watermark(4)
    assert log.last_stable_offset == 0
    end(log, commit=True, producer_id=1)
    # Completed, but not replicated yet.
    assert log.last_stable_offset == 0
    log.update_high_watermark(5)
    assert log.last_stable_offset == 2
    end(log, commit=False, producer_id=2)
    log.update_high_watermark(6)
    assert log.last_stable_offset == 6
    assert [tuple(entry) for entry in log.aborted_transactions(0, 6)] == [(2, 2, 5, 6)]
    assert log.aborted_transactions(0, 2) == []


@pytest.mark.parametrize("commit", [True, False])
def test_the_last_stable_offset_waits_for_the_marker_to_be_replicated(log: Log, commit: bool) -> None:
    send(log, 0, 3, transactional=True)
    assert end(log, commit=commit) == 3
    log.update_high_watermark(3)
    assert log.last_stable_offset == 0, "the marker is not replicated yet"
    log.update_high_watermark(4)
    assert log.last_stable_offset == 4


def test_old_coordinators_and_epochs_are_fenced(log: Log) -> None:
    send(log, 0, transactional=True, epoch=3)
    end(log, commit=True, epoch=3, coordinator_epoch=5)
    for epoch, coordinator_epoch, code in (
        (3, 4, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (2, 5, ErrorCode.INVALID_PRODUCER_EPOCH),
    ):
        with pytest.raises(KafkaError) as caught:
            end(log, commit=True, epoch=epoch, coordinator_epoch=coordinator_epoch)
        assert caught.value.code == code


def test_plain_records_within_a_transaction_are_refused(log: Log) -> None:
    send(log, 0, transactional=True)
    assert refused(log, 1) == ErrorCode.INVALID_TXN_STATE


def test_a_new_transaction_needs_the_guard_of_its_verification() -> None:
    log = open_log(VirtualDisk(), ManualClock(), verify_transactions=True)
    records = batch(1, producer_id=7, producer_epoch=0, sequence=0, transactional=True)
    assert refused(log, 0, transactional=True) == ErrorCode.INVALID_TXN_STATE
    guard = log.start_verification(7, 0, 0)
    assert guard is not None
    assert log.start_verification(7, 0, 0) is guard
    assert log.append_as_leader(records, 0, verification_guard=guard).first_offset == 0
    # Once it is open here, its batches need none.
    assert log.start_verification(7, 1, 0) is None
    assert send(log, 1, transactional=True) == (1, False)
    end(log, commit=True)
    with pytest.raises(KafkaError):
        log.append_as_leader(batch(1, producer_id=7, producer_epoch=0, sequence=2, transactional=True), 0, verification_guard=guard)


def test_a_guard_is_given_although_nobody_has_to_have_one() -> None:
    log = open_log(VirtualDisk(), ManualClock())
    guard = log.start_verification(7, 0, 3, bumps_epoch=True)
    assert guard is not None
    assert log.append_as_leader(batch(1, producer_id=7, producer_epoch=3, sequence=0, transactional=True), 0, verification_guard=guard)
    assert log.start_verification(7, 1, 3, bumps_epoch=True) is None
    # The next epoch is another transaction, which has to be added itself, and an older one is over.
    assert log.start_verification(7, 0, 4, bumps_epoch=True) is not None
    with pytest.raises(KafkaError) as caught:
        log.start_verification(7, 0, 2, bumps_epoch=True)
    assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_transaction_of_an_earlier_epoch_does_not_stand_for_the_guard() -> None:
    log = open_log(VirtualDisk(), ManualClock(), verify_transactions=True)
    guard = log.start_verification(7, 0, 0)
    log.append_as_leader(batch(1, producer_id=7, producer_epoch=0, sequence=0, transactional=True), 0, verification_guard=guard)
    later = batch(1, producer_id=7, producer_epoch=1, sequence=0, transactional=True)
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(later, 0)
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE
    assert log.append_as_leader(later, 0, verification_guard=log.start_verification(7, 0, 1)).first_offset == 1


@pytest.mark.parametrize(("bumps_epoch", "marker_epoch", "kept"), [(True, 1, True), (True, 0, False), (False, 1, False)])
def test_the_marker_before_leaves_the_guard_of_the_next_transaction_alone(bumps_epoch: bool, marker_epoch: int, kept: bool) -> None:
    log = open_log(VirtualDisk(), ManualClock(), verify_transactions=True)
    guard = log.start_verification(7, 0, 0, bumps_epoch=bumps_epoch)
    log.append_as_leader(batch(1, producer_id=7, producer_epoch=0, sequence=0, transactional=True), 0, verification_guard=guard)
    following = log.start_verification(7, 0, 1, bumps_epoch=bumps_epoch)
    end(log, commit=True, epoch=marker_epoch)
    later = batch(1, producer_id=7, producer_epoch=1, sequence=0, transactional=True)
    if kept:
        assert log.append_as_leader(later, 0, verification_guard=following).first_offset == 2
        return
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(later, 0, verification_guard=following)
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("bumps_epoch", [True, False])
def test_who_bumps_epochs_begins_with_sequence_0(bumps_epoch: bool) -> None:
    log = open_log(VirtualDisk(), ManualClock())
    guard = log.start_verification(7, 5, 0, bumps_epoch=bumps_epoch)
    records = batch(1, producer_id=7, producer_epoch=0, sequence=5, transactional=True)
    if not bumps_epoch:
        assert log.append_as_leader(records, 0, verification_guard=guard).first_offset == 0
        return
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(records, 0, verification_guard=guard)
    assert caught.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_verification_remembers_the_lowest_sequence() -> None:
    log = open_log(VirtualDisk(), ManualClock(), verify_transactions=True)
    guard = log.start_verification(7, 0, 0)
    late = batch(1, producer_id=7, producer_epoch=0, sequence=3, transactional=True)
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(late, 0, verification_guard=guard)
    assert caught.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@pytest.mark.parametrize("clean", [True, False])
def test_sequences_continue_after_a_restart(clean: bool) -> None:
    disk, clock = VirtualDisk(), ManualClock()
    config = topic_config(segment_bytes=500)
    log = open_log(disk, clock, config)
    for sequence in range(0, 40, 2):
        send(log, sequence, 2)
    send(log, 0, 1, producer_id=9, transactional=True)
    if clean:
        log.close(durable=True)
    again = open_log(disk.kill(), clock, config, clean=clean, recovery_point=log.recovery_point)
    assert send(again, 38, 2) == (38, True)
    assert refused(again, 50) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(again, 40) == (41, False)
    assert again.producer_state.first_unstable_offset == 40


def test_truncation_takes_the_producer_state_back() -> None:
    log = open_log(VirtualDisk(), ManualClock(), topic_config(segment_bytes=400))
    for sequence in range(20):
        send(log, sequence)
    log.truncate_to(5)
    assert refused(log, 20) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 4) == (4, True)
    assert send(log, 5) == (5, False)


def test_silent_producers_expire() -> None:
    clock = ManualClock()
    log = open_log(VirtualDisk(), clock)
    send(log, 0)
    send(log, 0, producer_id=8, transactional=True)
    clock.advance_ms(86_400_001)
    log.producer_state.remove_expired(clock.time_ms())
    assert list(log.producer_state.producers) == [8]


def test_a_transaction_that_is_open_for_longer_than_producers_are_remembered_is_open_after_a_restart() -> None:
    disk, clock = VirtualDisk(), ManualClock()
    log = open_log(disk, clock)
    send(log, 0)
    send(log, 0, producer_id=8, transactional=True)
    log.close(durable=True)
    clock.advance_ms(86_400_001)
    again = open_log(disk, clock, clean=True)
    again.update_high_watermark(2)
    assert list(again.producer_state.producers) == [8]
    assert again.last_stable_offset == 1


def test_a_producer_whose_records_were_deleted_up_to_a_segment_is_known_after_a_crash() -> None:
    disk, clock = VirtualDisk(), ManualClock()
    config = topic_config(segment_bytes=500)
    log = open_log(disk, clock, config)
    for sequence in range(5):
        send(log, sequence)
    start = log.roll().base_offset
    send(log, 0, producer_id=8)
    log.update_high_watermark(log.log_end_offset)
    log.maybe_increment_log_start_offset(start)
    assert log.delete_old_segments() > 0
    again = open_log(disk.kill(), clock, config, log_start_offset=start)
    assert refused(again, 7) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(again, 5) == (6, False)


numbers = st.integers(-(1 << 31), (1 << 31) - 1)
entries = st.builds(
    ProducerSnapshotEntry,
    st.integers(0, 1 << 40),
    st.integers(-1, 32767),
    numbers,
    st.integers(-1, 1 << 50),
    numbers,
    st.integers(-1, 1 << 50),
    numbers,
    st.integers(-1, 1 << 50),
)


@given(st.lists(entries, max_size=20), st.data())
@settings(max_examples=60, derandomize=True, deadline=None)
def test_snapshots_come_back_and_damage_is_noticed(saved: list[ProducerSnapshotEntry], data: st.DataObject) -> None:
    encoded = encode_snapshot(saved)
    assert decode_snapshot(encoded) == saved
    position = data.draw(st.integers(0, len(encoded) - 1))
    damaged = bytearray(encoded)
    damaged[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(bytes(damaged))
    with pytest.raises(CorruptSnapshotError):
        decode_snapshot(encoded[:position])


def test_markers_of_transaction_version_2_raise_the_epoch(log: Log) -> None:
    """ProducerAppendInfo.checkProducerEpoch of 4.3 (KIP-890)."""

    def data(epoch: int, sequence: int = 0) -> None:
        log.append_as_leader(batch(1, producer_id=7, producer_epoch=epoch, sequence=sequence, transactional=True), 0)

    def end(epoch: int, version: int) -> None:
        log.append_as_leader(marker(7, epoch, commit=True), 0, origin=AppendOrigin.COORDINATOR, transaction_version=version)

    data(3)
    for epoch in (2, 3):
        with pytest.raises(KafkaError) as caught:
            end(epoch, 2)
        assert caught.value.code is ErrorCode.INVALID_PRODUCER_EPOCH
    end(4, 2)
    assert open_transactions(log) == []
    end(4, 2)  # the coordinator did not hear of it and says it again
    data(4)
    with pytest.raises(KafkaError):
        end(4, 2)
    end(4, 1)
    data(32767)
    end(32767, 2)
    assert open_transactions(log) == []


def test_verifications_that_nobody_used_expire() -> None:
    clock = ManualClock()
    log = open_log(VirtualDisk(), clock, verify_transactions=True)
    kept, late = (log.start_verification(producer_id, 0, 0) for producer_id in (7, 8))
    data = [batch(1, producer_id=producer_id, producer_epoch=0, sequence=0, transactional=True) for producer_id in (7, 8)]
    clock.advance_ms(86_399_999)
    log.producer_state.remove_expired(clock.time_ms())
    log.append_as_leader(data[0], 0, verification_guard=kept)
    clock.advance_ms(1)
    log.producer_state.remove_expired(clock.time_ms())
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(data[1], 0, verification_guard=late)
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE


def test_a_guard_is_good_for_one_transaction() -> None:
    log = open_log(VirtualDisk(), ManualClock(), verify_transactions=True)
    guard = log.start_verification(7, 0, 0)
    log.append_as_leader(batch(1, producer_id=7, producer_epoch=0, sequence=0, transactional=True), 0, verification_guard=guard)
    end(log, commit=True)
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch(1, producer_id=7, producer_epoch=0, sequence=1, transactional=True), 0, verification_guard=guard)
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE
    assert log.start_verification(7, 1, 0) is not guard


def test_a_guard_is_not_that_of_the_next_epoch() -> None:
    """Transaction version 2: the next transaction may be verified before the marker of this one has come."""
    log = open_log(VirtualDisk(), ManualClock(), verify_transactions=True)
    guard = log.start_verification(7, 0, 0, bumps_epoch=True)
    log.append_as_leader(batch(1, producer_id=7, producer_epoch=0, sequence=0, transactional=True), 0, verification_guard=guard)
    following = log.start_verification(7, 0, 1, bumps_epoch=True)
    assert following is not guard
    early = batch(1, producer_id=7, producer_epoch=1, sequence=0, transactional=True)
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(early, 0, verification_guard=guard)
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE


def test_a_transaction_that_was_ended_while_it_was_verified_is_not_begun_by_a_late_batch() -> None:
    """KIP-890: the batch was on its way when its transaction was aborted."""
    log = open_log(VirtualDisk(), ManualClock(), verify_transactions=True)
    guard = log.start_verification(7, 0, 0)
    end(log, commit=False)
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch(1, producer_id=7, producer_epoch=0, sequence=0, transactional=True), 0, verification_guard=guard)
    assert caught.value.code is ErrorCode.INVALID_TXN_STATE


def test_a_snapshot_that_is_written_over_a_longer_one_is_whole() -> None:
    """The producers of a log that begins anew have the names of their snapshots in common with those before."""
    disk = VirtualDisk()
    log = open_log(disk, ManualClock())
    for producer_id in range(20):
        send(log, 0, producer_id=producer_id)
    path = log.producer_state.snapshots.path(20)
    left = disk.open(path, create=True)
    left.pwritev([bytes(4096)], 0)
    log.close()
    assert len(decode_snapshot(disk.read_bytes(path))) == 20
    assert len(disk.read_bytes(path)) < 4096


def test_the_snapshot_of_a_shutdown_says_nothing_of_a_log_that_was_truncated_since() -> None:
    disk, clock = VirtualDisk(), ManualClock()
    log = open_log(disk, clock)
    for sequence in range(10):
        send(log, sequence)
    log.close(durable=True)
    again = open_log(disk, clock, clean=True)
    again.truncate_to(5)
    assert refused(again, 10) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(again, 5) == (5, False)


# -- truncations -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [3, 7, 9])
def test_after_a_truncation_the_last_batches_of_a_producer_are_known_as_before(target: int) -> None:
    log = open_log(VirtualDisk(), ManualClock())
    for sequence in range(10):
        send(log, sequence)
    log.truncate_to(target)
    for sequence in range(max(target - 5, 0), target):
        assert send(log, sequence) == (sequence, True)
    assert refused(log, target + 1) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, target) == (target, False)


def test_a_transaction_that_began_in_what_was_cut_is_not_open() -> None:
    log = open_log(VirtualDisk(), ManualClock())
    for sequence in range(3):
        log.append_as_leader(batch(1, producer_id=7, producer_epoch=0, sequence=sequence, transactional=True), 0)
        if sequence == 1:
            end(log, commit=True)
    assert open_transactions(log) == [3]
    log.update_high_watermark(3)
    log.truncate_to(3)
    assert open_transactions(log) == []
    assert log.producer_state.first_unstable_offset is None
    log.truncate_to(2)
    assert open_transactions(log) == [0], "the marker is gone"


def test_a_truncation_reads_what_it_cuts_and_not_the_whole_segment() -> None:
    disk = VirtualDisk()
    log = open_log(disk, ManualClock())
    for sequence in range(500):
        send(log, sequence)
    read: list[int] = []
    disk.fault = lambda operation, path: read.append(1) if operation == "read" and path.endswith(".log") else None
    log.truncate_to(498)
    assert len(read) < 10
    assert log.producer_state.producers[7].last_sequence == 497
