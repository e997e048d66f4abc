"""A log: append, read, roll, truncate, retain."""

from __future__ import annotations

import random

import pytest

from odradek.base.errors import ErrorCode, KafkaError, StorageError
from odradek.records.batch import check_crc, decode_records, iter_headers
from odradek.records.compression import Compression
from odradek.storage.append import AppendOrigin, RecordValidationError, UnexpectedAppendOffsetError
from odradek.storage.log import Log
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.storage.support import DIRECTORY, NOW_MS, batch, marker, open_log, read_all, read_bytes, topic_config


@pytest.fixture
def disk() -> VirtualDisk:
    return VirtualDisk()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def log(disk: VirtualDisk, clock: ManualClock) -> Log:
    return open_log(disk, clock)


def refused(log: Log, records: memoryview) -> ErrorCode:
    end = log.log_end_offset
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(records, 0)
    assert log.log_end_offset == end
    return caught.value.code


def test_offsets_continue_and_the_leader_epoch_is_stamped(log: Log) -> None:
    first = log.append_as_leader(batch(3), 5)
    second = log.append_as_leader(batch(2), 7)
    assert (first.first_offset, first.last_offset, first.record_count) == (0, 2, 3)
    assert (second.first_offset, second.last_offset, log.log_end_offset) == (3, 4, 5)
    data = read_bytes(log, 0)
    assert [(header.base_offset, header.partition_leader_epoch) for _, header in iter_headers(data)] == [(0, 5), (3, 7)]
    assert all(check_crc(data, position, header) for position, header in iter_headers(data))
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(5, 0), (7, 3)]


def test_a_read_begins_with_the_batch_that_contains_the_offset(log: Log) -> None:
    log.append_as_leader(batch(10, tag="a"), 0)
    log.append_as_leader(batch(10, tag="b"), 0)
    found = log.read(13, max_bytes=1 << 20, max_offset=20, min_one_message=True)
    assert found.first_offset == 10
    assert found.start.position == len(batch(10, tag="a"))
    found.release()


def test_the_first_batch_comes_whole_however_small_the_limit(log: Log) -> None:
    one = batch(1, size=500)
    for _ in range(3):
        log.append_as_leader(one, 0)
    assert len(read_bytes(log, 1, 10)) == len(one)
    cut = log.read(1, max_bytes=10, max_offset=3, min_one_message=False)
    assert (cut.size, cut.first_entry_incomplete) == (10, True)
    cut.release()
    assert len(read_bytes(log, 0, len(one) * 2 + 7)) == len(one) * 2 + 7


def test_what_follows_a_batch_that_is_known_comes_without_a_look_at_its_header(disk: VirtualDisk, log: Log) -> None:
    one = batch(3)
    for _ in range(4):
        log.append_as_leader(one, 0)

    looked: list[str] = []
    disk.fault = lambda operation, _: looked.append(operation)

    def read(offset: int, max_bytes: int, max_offset: int = 12) -> tuple[int, int, int]:
        """Size, position, and how often the file was read for it."""
        looked.clear()
        found = log.read(offset, max_bytes=max_bytes, max_offset=max_offset, min_one_message=True)
        found.release()
        assert found.first_offset == offset
        assert not found.first_entry_incomplete
        return found.size, found.start.position, len(looked)

    size = len(one)
    assert read(6, 2 * size) == (2 * size, 2 * size, 0)
    assert read(3, 1 << 20, max_offset=9) == (2 * size, size, 0)
    # Not all of it fits, so that the first one has to be known.
    assert read(6, 2 * size - 1) == (2 * size - 1, 2 * size, 1)
    assert read(6, 1) == (size, 2 * size, 1)
    # Nothing is there to be read.
    assert read(6, 1 << 20, max_offset=6) == (0, 2 * size, 1)


def test_nothing_at_or_above_the_upper_bound_is_returned(log: Log) -> None:
    for _ in range(4):
        log.append_as_leader(batch(5), 0)
    assert [record.offset for record in decode_records(read_bytes(log, 0, max_offset=10))] == list(range(10))
    # A bound within a batch keeps the whole batch back.
    assert [record.offset for record in decode_records(read_bytes(log, 0, max_offset=12))] == list(range(10))
    assert read_bytes(log, 10, max_offset=10) == b""
    assert read_bytes(log, 20) == b""


@pytest.mark.parametrize("offset", [-1, 6, 100])
def test_offsets_outside_the_log_are_out_of_range(log: Log, offset: int) -> None:
    log.append_as_leader(batch(5), 0)
    with pytest.raises(KafkaError) as caught:
        log.read(offset, max_bytes=100, max_offset=5, min_one_message=True)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_bad_batches_are_refused_with_kafkas_codes(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(max_message_bytes=1000))
    damaged = bytearray(batch(1))
    damaged[-1] ^= 1
    assert refused(log, memoryview(damaged)) == ErrorCode.CORRUPT_MESSAGE
    assert refused(log, batch(1, size=2000)) == ErrorCode.MESSAGE_TOO_LARGE
    assert refused(log, batch(1, base_offset=4)) == ErrorCode.INVALID_RECORD
    assert refused(log, marker(1, 0, commit=True)) == ErrorCode.INVALID_RECORD
    assert refused(log, batch(1, timestamp=NOW_MS + 7_200_000)) == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("origin", list(AppendOrigin))
def test_exactly_one_batch_is_appended_and_nothing_of_several(log: Log, origin: AppendOrigin) -> None:
    for records in (bytes(batch(1)) * 2, bytes(batch(1)) * 3, bytes(batch(1))[:-1]):
        with pytest.raises(KafkaError, match="exactly one record batch") as caught:
            log.append_as_leader(memoryview(records), 0, origin=origin)
        assert caught.value.code is ErrorCode.INVALID_RECORD
        assert (log.log_end_offset, log.size) == (0, 0)
    # As Kafka trims what is cut off at the end.
    info = log.append_as_leader(memoryview(bytes(batch(2)) + bytes(batch(1))[:-1]), 0, origin=origin)
    assert (info.first_offset, info.last_offset, log.size) == (0, 1, len(batch(2)))


def test_a_compacted_topic_names_the_records_without_key(disk: VirtualDisk, clock: ManualClock) -> None:
    from odradek.records.batch import encode_batch

    log = open_log(disk, clock, topic_config(cleanup_policy="compact"))
    with pytest.raises(RecordValidationError) as caught:
        log.append_as_leader(memoryview(encode_batch([(NOW_MS, b"k", b"v", ()), (NOW_MS, None, b"v", ())])), 0)
    assert [error.batch_index for error in caught.value.record_errors] == [1]


def test_log_append_time_replaces_the_timestamps(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(message_timestamp_type="LogAppendTime"))
    info = log.append_as_leader(batch(2, timestamp=5), 0)
    assert info.log_append_time_ms == NOW_MS
    assert [record.timestamp for record in read_all(log)] == [NOW_MS, NOW_MS]
    data = read_bytes(log, 0)
    position, header = next(iter_headers(data))
    assert check_crc(data, position, header)


@pytest.mark.parametrize("target", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_the_topic_decides_the_compression(disk: VirtualDisk, clock: ManualClock, target: str) -> None:
    log = open_log(disk, clock, topic_config(compression_type=target))
    log.append_as_leader(batch(4, compression=Compression.GZIP, tag="x"), 0)
    _, header = next(iter_headers(read_bytes(log, 0)))
    assert header.compression.name.lower() == ("none" if target == "uncompressed" else target)
    assert [record.value[:3] for record in read_all(log) if record.value] == [b"x:0", b"x:1", b"x:2", b"x:3"]


def test_segments_roll_by_size_and_reads_cross_them(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(segment_bytes=1000))
    for index in range(40):
        log.append_as_leader(batch(2, tag=str(index)), 0)
    assert len(log.segments) == 5
    assert all(segment.size <= 1000 for segment in log.segments)
    assert [record.offset for record in read_all(log)] == list(range(80))
    assert log.bases == [segment.base_offset for segment in log.segments]


def test_a_batch_larger_than_a_segment_is_refused(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(segment_bytes=1000))
    assert refused(log, batch(1, size=1500)) == ErrorCode.RECORD_LIST_TOO_LARGE


def test_segments_roll_by_record_time(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(segment_ms=10_000, message_timestamp_after_max_ms=10**12))
    log.append_as_leader(batch(1, timestamp=NOW_MS), 0)
    log.append_as_leader(batch(1, timestamp=NOW_MS + 10_000), 0)
    assert len(log.segments) == 1
    log.append_as_leader(batch(1, timestamp=NOW_MS + 10_001), 0)
    assert log.bases == [0, 2]


def test_what_was_cut_to_nothing_counts_from_then_on(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(segment_ms=10_000))
    log.append_as_follower(batch(1, timestamp=-1, epoch=0), 0)
    clock.advance_ms(9_000)
    log.truncate_to(0)
    log.append_as_follower(batch(1, timestamp=-1, epoch=0), 0)
    clock.advance_ms(9_000)
    log.append_as_follower(batch(1, timestamp=-1, epoch=0, base_offset=1), 0)
    assert len(log.segments) == 1
    clock.advance_ms(1_001)
    log.append_as_follower(batch(1, timestamp=-1, epoch=0, base_offset=2), 0)
    assert log.bases == [0, 2]


def test_a_full_index_rolls(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(segment_index_bytes=48, index_interval_bytes=0))
    for index in range(20):
        log.append_as_leader(batch(1, timestamp=NOW_MS + index), 0)
    # Four entries fit into the time index, of which one stays free for the roll; the first batch of a segment gets none.
    assert log.bases == [0, 4, 8, 12, 16]
    assert [record.offset for record in read_all(log)] == list(range(20))


def test_offsets_that_outgrow_31_bits_roll(log: Log) -> None:
    log.append_as_follower(batch(1, base_offset=0, epoch=0), 0)
    log.append_as_follower(batch(1, base_offset=1 << 31, epoch=0), 0)
    assert log.bases == [0, 1 << 31]


@pytest.mark.parametrize(("count", "segments"), [(1, 1), (2, 2)])
def test_a_batch_rolls_when_its_last_offset_outgrows_31_bits(log: Log, count: int, segments: int) -> None:
    """Its relative offsets are what the indexes hold, and an entry is that of the last one."""
    log.append_as_follower(batch(1, base_offset=0, epoch=0), 0)
    log.append_as_follower(batch(count, base_offset=(1 << 31) - 1, epoch=0), 0)
    assert len(log.segments) == segments
    assert read_all(log, (1 << 31) - 1)[0].offset == (1 << 31) - 1


def test_lookups_use_the_index_and_not_the_file(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(index_interval_bytes=4096))
    for _ in range(2000):
        log.append_as_leader(batch(3, size=200), 0)
    log.roll()
    read: list[int] = []
    file = log.segments[0].file
    original = type(file).pread

    class Spy:
        path = file.path

        def pread(self, size: int, offset: int) -> bytes:
            read.append(size)
            return original(file, size, offset)

        def __getattr__(self, name: str) -> object:
            return getattr(file, name)

    log.segments[0]._file = Spy()  # type: ignore[assignment]
    for offset in (0, 1, 2999, 3000, 5998, 5999):
        read.clear()
        found = log.read(offset, max_bytes=1 << 30, max_offset=6000, min_one_message=True)
        assert found.first_offset == offset // 3 * 3
        found.release()
        assert sum(read) <= 3 * 4096, (offset, read)


def test_a_follower_keeps_offsets_and_epochs(log: Log) -> None:
    log.append_as_follower(memoryview(bytes(batch(2, base_offset=0, epoch=1)) + bytes(batch(2, base_offset=5, epoch=4))), 4)
    assert log.log_end_offset == 7
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(1, 0), (4, 5)]
    with pytest.raises(UnexpectedAppendOffsetError):
        log.append_as_follower(batch(1, base_offset=6, epoch=4), 4)


def test_a_follower_leaves_out_what_is_cut_off_and_what_comes_from_the_future(log: Log) -> None:
    records = bytes(batch(2, base_offset=0, epoch=1)) + bytes(batch(2, base_offset=2, epoch=1))[:-5]
    assert log.append_as_follower(memoryview(records), 1).last_offset == 1
    records = bytes(batch(1, base_offset=2, epoch=1)) + bytes(batch(1, base_offset=3, epoch=9))
    assert log.append_as_follower(memoryview(records), 1).last_offset == 2


def test_a_follower_writes_nothing_of_a_damaged_fetch(log: Log) -> None:
    damaged = bytearray(batch(2, base_offset=2, epoch=1))
    damaged[-1] ^= 1
    with pytest.raises(KafkaError) as caught:
        log.append_as_follower(memoryview(bytes(batch(2, base_offset=0, epoch=1)) + damaged), 1)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert log.log_end_offset == 0


def test_raft_batches_must_begin_at_the_log_end(log: Log) -> None:
    assert log.append_raft(batch(2, base_offset=0, epoch=3), 3).last_offset == 1
    with pytest.raises(UnexpectedAppendOffsetError):
        log.append_raft(batch(2, base_offset=3, epoch=3), 3)


def test_truncation_removes_whole_batches_and_later_segments(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(segment_bytes=600, index_interval_bytes=0))
    for index in range(20):
        log.append_as_leader(batch(2, tag=str(index)), index // 5)
    log.update_high_watermark(40)
    assert log.truncate_to(16)
    assert (log.log_end_offset, log.high_watermark) == (16, 16)
    assert [record.offset for record in read_all(log)] == list(range(16))
    assert log.leader_epochs.latest_epoch == 1
    assert log.append_as_leader(batch(1), 9).first_offset == 16
    deletions = log.take_deletions()
    assert deletions
    assert all(path.endswith(".deleted") and disk.exists(path) for path in deletions)
    assert not log.truncate_to(17)


def test_the_first_record_of_several_with_the_largest_timestamp_is_named(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(segment_bytes=1200))
    log.append_as_leader(batch(1), 0)
    for _ in range(40):
        log.append_as_leader(batch(1, timestamp=NOW_MS + 7), 0)
    assert len(log.segments) > 2
    assert log.offset_for_max_timestamp() == (NOW_MS + 7, 1, 0)


def test_the_largest_timestamp_of_what_was_cut_is_forgotten(disk: VirtualDisk, clock: ManualClock) -> None:
    """By lookups and by retention, which would keep the segment too long."""
    config = topic_config(index_interval_bytes=100, retention_ms=1000)
    log = open_log(disk, clock, config)
    for index in range(10):
        log.append_as_leader(batch(2, timestamp=NOW_MS + 100 * index), 0)
    log.truncate_to(6)
    assert log.offset_for_max_timestamp() == (NOW_MS + 201, 5, 0)
    assert log.offset_for_timestamp(NOW_MS + 202) is None
    log.update_high_watermark(6)
    clock.advance_ms(201 + 1000)
    assert log.delete_old_segments() == 0
    clock.advance_ms(1)
    assert log.delete_old_segments() == 1


def test_truncate_fully_starts_over_elsewhere(log: Log) -> None:
    log.append_as_leader(batch(5), 2)
    log.truncate_fully_and_start_at(100)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 100, 100)
    assert log.leader_epochs.entries == []
    assert log.append_as_follower(batch(1, base_offset=100, epoch=3), 3).first_offset == 100


def test_a_slice_outlives_the_deletion_of_its_segment_but_not_its_truncation(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(segment_bytes=300))
    for index in range(10):
        log.append_as_leader(batch(2, tag=str(index)), 0)
    log.update_high_watermark(20)
    oldest = log.read(0, max_bytes=10_000, max_offset=20, min_one_message=True)
    newest = log.read(19, max_bytes=10_000, max_offset=20, min_one_message=True)
    log.maybe_increment_log_start_offset(15)
    assert log.delete_old_segments() > 0
    assert decode_records(oldest.slices[0].read(0, oldest.size))[0].offset == 0
    log.truncate_to(18)
    with pytest.raises(StorageError):
        newest.slices[0].read(0, newest.size)
    oldest.release()
    newest.release()


def test_epoch_end_offsets_answer_as_kafka_does(log: Log) -> None:
    for epoch, count in ((2, 4), (5, 3), (6, 1)):
        log.append_as_leader(batch(count), epoch)
    assert log.end_offset_for_epoch(6) == (6, 8)
    assert log.end_offset_for_epoch(5) == (5, 7)
    assert log.end_offset_for_epoch(4) == (2, 4)
    assert log.end_offset_for_epoch(1) == (1, 0)
    assert log.end_offset_for_epoch(7) == (-1, -1)
    assert log.end_offset_for_epoch(-1) == (-1, -1)


def test_timestamps_are_found_across_segments(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(segment_bytes=700, index_interval_bytes=100))
    for index in range(30):
        log.append_as_leader(batch(2, timestamp=NOW_MS + 10 * index), 4)
    for index in range(30):
        assert log.offset_for_timestamp(NOW_MS + 10 * index) == (NOW_MS + 10 * index, 2 * index, 4)
        assert log.offset_for_timestamp(NOW_MS + 10 * index + 1) == (NOW_MS + 10 * index + 1, 2 * index + 1, 4)
    assert log.offset_for_timestamp(NOW_MS + 292) is None
    assert log.offset_for_max_timestamp() == (NOW_MS + 291, 59, 4)
    log.update_high_watermark(60)
    log.maybe_increment_log_start_offset(7)
    found = log.offset_for_timestamp(NOW_MS)
    assert found is not None
    assert found.offset == 7


def test_retention_by_size_time_and_log_start(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(segment_bytes=300, retention_bytes=700, retention_ms=1000))
    for index in range(20):
        log.append_as_leader(batch(2, tag=str(index), timestamp=NOW_MS), 0)
    log.update_high_watermark(20)
    log.delete_old_segments()
    # The high watermark protects what is above it.
    assert log.log_start_offset <= 20
    log.update_high_watermark(40)
    log.delete_old_segments()
    assert log.size < 700 + 300
    clock.advance_ms(5000)
    log.delete_old_segments()
    assert (log.log_start_offset, log.log_end_offset, log.size) == (40, 40, 0)
    assert log.append_as_leader(batch(1), 0).first_offset == 40


def test_retention_says_which_segment_has_a_timestamp_ahead(
    disk: VirtualDisk, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    log = open_log(disk, clock, topic_config(segment_bytes=300, retention_ms=1000))
    ahead_ms = NOW_MS + 1_800_000
    for index in range(20):
        log.append_as_leader(batch(2, tag=str(index), timestamp=ahead_ms if index == 10 else NOW_MS), 0)
    log.update_high_watermark(40)
    clock.advance_ms(10)
    log.delete_old_segments()
    assert caplog.messages == [], "nothing is old enough yet, whatever stands behind it"
    clock.advance_ms(1990)
    log.delete_old_segments()
    holding = log.bases[0]
    assert 0 < holding <= 20 < log.bases[1]
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"{log.name}: retention.ms keeps segment {holding} and all later ones" in caplog.text
    assert f"1798.001 s in the future ({ahead_ms + 1})" in caplog.text
    log.delete_old_segments()
    assert len(caplog.records) == 2, "once in each check"
    clock.advance_ms(1_800_000)
    caplog.clear()
    log.delete_old_segments()
    assert (log.size, caplog.messages) == (0, [])


def test_log_start_cannot_pass_the_high_watermark(log: Log) -> None:
    log.append_as_leader(batch(5), 0)
    log.update_high_watermark(3)
    with pytest.raises(KafkaError) as caught:
        log.maybe_increment_log_start_offset(4)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.maybe_increment_log_start_offset(3)
    assert not log.maybe_increment_log_start_offset(2)


def test_a_failing_disk_is_reported_and_answered_as_storage_error(clock: ManualClock) -> None:
    disk = VirtualDisk()
    failures: list[OSError] = []
    log = open_log(disk, clock, on_io_error=lambda _, error: failures.append(error))
    disk.capacity = 10
    assert refused(log, batch(1)) == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(failures) == 1
    disk.capacity = None
    assert log.append_as_leader(batch(1), 0).first_offset == 0


def test_an_offset_counts_as_flushed_only_with_the_directory_entry(clock: ManualClock) -> None:
    steps: list[tuple[str, str]] = []
    disk = VirtualDisk(fault=lambda operation, path: steps.append((operation, path)))
    log = open_log(disk, clock)
    log.append_as_leader(batch(3), 0)
    steps.clear()
    flush = log.begin_flush()
    assert flush is not None
    flush.run(disk)
    assert log.recovery_point == 0
    log.finish_flush(flush)
    assert log.recovery_point == 3
    assert ("fsync_dir", DIRECTORY) in steps
    assert log.begin_flush() is None


def test_a_flush_that_a_truncation_overtook_proves_nothing(log: Log, disk: VirtualDisk) -> None:
    log.append_as_leader(batch(5), 0)
    flush = log.begin_flush()
    assert flush is not None
    log.truncate_to(0)
    log.append_as_leader(batch(5), 0)
    flush.run(disk)
    log.finish_flush(flush)
    assert log.recovery_point == 0


def test_renaming_the_directory_keeps_everything_readable(log: Log, disk: VirtualDisk) -> None:
    log.append_as_leader(batch(2), 0)
    log.rename_directory("orders-0.abc-delete")
    assert [record.offset for record in read_all(log)] == [0, 1]
    assert disk.exists("/data/orders-0.abc-delete/00000000000000000000.log")


def test_the_generation_tells_whether_a_plan_still_holds(log: Log) -> None:
    log.append_as_leader(batch(3), 0)
    log.roll()
    log.append_as_leader(batch(3), 0)
    seen = [log.generation]
    assert seen == [0]
    for change in (
        lambda: log.truncate_to(4),
        lambda: log.truncate_fully_and_start_at(10),
        lambda: log.rename_directory("orders-0.abc-delete"),
        log.close,
        log.close_handles,
    ):
        change()
        seen.append(log.generation)
    assert seen == sorted(set(seen))
    assert log.closed


def test_preallocated_segments_are_trimmed_when_they_are_rolled_or_closed(disk: VirtualDisk, clock: ManualClock) -> None:
    one = batch(1, size=500)
    config = topic_config(segment_bytes=len(one) * 3 + 10, preallocate="true")
    log = open_log(disk, clock, config)

    def file_size(base: int) -> int:
        return disk.open(f"{DIRECTORY}/{base:020d}.log").size()

    assert (file_size(0), log.active.size, log.size) == (config.segment_bytes, 0, 0)
    for _ in range(4):
        log.append_as_leader(one, 0)
    assert (file_size(0), file_size(3), log.active.size) == (len(one) * 3, config.segment_bytes, len(one))
    assert log.size == len(one) * 4
    assert [record.offset for record in read_all(log)] == [0, 1, 2, 3]
    # A process that is killed leaves the zeros behind; recovery cuts them.
    survivor = open_log(disk.kill(), clock, config)
    assert (survivor.log_end_offset, survivor.active.size) == (4, len(one))
    survivor.append_as_leader(one, 0)
    assert [record.offset for record in read_all(survivor)] == [0, 1, 2, 3, 4]
    log.close(durable=True)
    assert file_size(3) == len(one)
    # Truncated and started over, the new segment is preallocated again.
    log = open_log(disk, clock, config, clean=True)
    log.truncate_to(2)
    assert (file_size(0), log.active.size) == (len(one) * 2, len(one) * 2)
    log.truncate_fully_and_start_at(7)
    assert (file_size(7), log.active.size) == (config.segment_bytes, 0)


def test_a_preallocated_segment_without_records_is_trimmed_too(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(preallocate="true"), clean=True)
    log.close(durable=True)
    assert disk.open(f"{DIRECTORY}/{0:020d}.log").size() == 0
    for parent in ("/", "/data"):
        disk.fsync_dir(parent)
    assert disk.crash(random.Random(1)).open(f"{DIRECTORY}/{0:020d}.log").size() == 0


def test_zeros_that_a_clean_shutdown_left_behind_are_found(disk: VirtualDisk, clock: ManualClock) -> None:
    """A marker that outlived the trimming of the file it vouches for."""
    log = open_log(disk, clock)
    for _ in range(3):
        log.append_as_leader(batch(2), 0)
    log.close(durable=True)
    file = disk.open(f"{DIRECTORY}/{0:020d}.log")
    file.truncate(file.size() + 100_000)
    again = open_log(disk, clock, clean=True)
    assert again.log_end_offset == 6
    again.append_as_leader(batch(1), 0)
    assert [record.offset for record in read_all(again)] == list(range(7))


def test_an_index_that_points_to_the_very_end_of_what_is_left_is_made_again(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(index_interval_bytes=1))
    for _ in range(3):
        log.append_as_leader(batch(2), 0)
    log.close(durable=True)
    file = disk.open(f"{DIRECTORY}/{0:020d}.log")
    file.truncate(file.size() * 2 // 3)
    again = open_log(disk, clock, topic_config(index_interval_bytes=1), clean=True)
    again.append_as_leader(batch(1), 0)
    again.append_as_leader(batch(1), 0)
    assert [record.offset for record in read_all(again)] == list(range(6))
    assert [record.offset for record in read_all(again, 5)] == [5]


@pytest.mark.parametrize("rested", [False, True])
def test_a_full_index_rolls_after_a_restart_too(disk: VirtualDisk, clock: ManualClock, rested: bool) -> None:
    config = topic_config(index_interval_bytes=1, segment_index_bytes=8 * 5)
    log = open_log(disk, clock, config)
    while not log.active.is_index_full:
        log.append_as_leader(batch(1), 0)
    assert len(log.segments) == 1
    if rested:
        log.rest()
        log.rest()
    else:
        log.close(durable=True)
        log = open_log(disk, clock, config, clean=True)
    log.append_as_leader(batch(1), 0)
    assert len(log.segments) == 2


def test_a_batch_of_exactly_a_segment_is_taken(disk: VirtualDisk, clock: ManualClock) -> None:
    size = len(batch(3))
    log = open_log(disk, clock, topic_config(segment_bytes=size))
    for _ in range(2):
        log.append_as_leader(batch(3), 0)
    assert [segment.size for segment in log.segments] == [size, size]
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch(3, size=21), 0)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_the_time_index_of_a_rolled_segment_ends_with_its_largest_timestamp(disk: VirtualDisk, clock: ManualClock) -> None:
    """JVM Kafka believes it (LogSegment.readMaxTimestampAndOffsetSoFar)."""
    log = open_log(disk, clock)
    log.append_as_leader(batch(3, timestamp=NOW_MS + 50), 0)
    log.append_as_leader(batch(1, timestamp=NOW_MS), 0)
    log.roll()
    assert disk.read_bytes(f"{DIRECTORY}/{0:020d}.timeindex") == (NOW_MS + 52).to_bytes(8, "big") + (2).to_bytes(4, "big")


def test_indexes_keep_within_segment_index_bytes(disk: VirtualDisk, clock: ManualClock) -> None:
    """The time index too, with the entry that it gets when its segment is rolled."""
    log = open_log(disk, clock, topic_config(segment_index_bytes=48, index_interval_bytes=0))
    for index in range(20):
        log.append_as_leader(batch(1, timestamp=NOW_MS + 2 * index), 0)
    sizes = {
        suffix: {len(disk.read_bytes(f"{DIRECTORY}/{base:020d}{suffix}")) for base in log.bases} for suffix in (".index", ".timeindex")
    }
    assert max(sizes[".index"] | sizes[".timeindex"]) <= 48


def test_aborted_transactions_are_listed_although_their_markers_lie_in_later_segments(disk: VirtualDisk, clock: ManualClock) -> None:
    """The list of a fetch ends where no later marker can matter: at an entry whose last stable offset lies beyond what is read."""
    log = open_log(disk, clock)
    for producer_id in (8, 9):
        log.append_as_leader(batch(2, producer_id=producer_id, producer_epoch=0, sequence=0, transactional=True), 0)
    for producer_id in (9, 8):
        log.append_as_leader(batch(1), 0)
        log.append_as_leader(marker(producer_id, 0, commit=False), 0, origin=AppendOrigin.COORDINATOR)
        log.roll()
    assert {entry.producer_id for entry in log.aborted_transactions(0, 4)} == {8, 9}
    assert {entry.producer_id for entry in log.aborted_transactions(0, 2)} == {8}


def test_a_slice_that_is_released_twice_leaves_other_readers_alone(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(segment_bytes=300))
    for _ in range(10):
        log.append_as_leader(batch(2), 0)
    log.update_high_watermark(20)
    one, other = (log.read(0, max_bytes=10_000, max_offset=20, min_one_message=True) for _ in range(2))
    one.release()
    one.release()
    log.maybe_increment_log_start_offset(20)
    assert log.delete_old_segments()
    assert len(other.slices[0].read(0, other.size)) == other.size
    other.release()
    with pytest.raises(OSError, match="descriptor"):
        other.slices[0].read(0, 1)


@pytest.mark.parametrize("suffixes", [(".index", ".timeindex"), (".index",), (".timeindex",)])
def test_what_a_jvm_broker_preallocated_of_an_index_counts_for_nothing(
    disk: VirtualDisk, clock: ManualClock, suffixes: tuple[str, ...]
) -> None:
    count = 20
    config = topic_config(segment_index_bytes=2400, index_interval_bytes=100)
    log = open_log(disk, clock, config)
    for index in range(count):
        log.append_as_leader(batch(2, timestamp=NOW_MS + index), 0)
    log.close(durable=True)
    for suffix in suffixes:
        disk.open(f"{DIRECTORY}/{0:020d}{suffix}").truncate(2400)
    again = open_log(disk, clock, config, clean=True)
    again.append_as_leader(batch(2, timestamp=NOW_MS + 50), 0)
    assert len(again.segments) == 1, "a full index would roll"
    assert [record.offset for record in read_all(again)] == list(range(2 * count + 2))
    assert again.offset_for_timestamp(NOW_MS + 51) == (NOW_MS + 51, 2 * count + 1, 0)


@pytest.mark.parametrize("how", ["close", "close_handles"])
def test_a_log_that_is_gone_is_not_read_and_opens_nothing(log: Log, disk: VirtualDisk, how: str) -> None:
    log.append_as_leader(batch(3), 0)
    getattr(log, how)()
    seen: list[str] = []
    disk.fault = lambda operation, path: seen.append(path)
    with pytest.raises(KafkaError) as caught:
        log.read(0, max_bytes=100, max_offset=3, min_one_message=True)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert refused(log, batch(1)) is ErrorCode.KAFKA_STORAGE_ERROR
    assert seen == []


def test_the_last_stable_offset_is_never_below_the_log_start(log: Log) -> None:
    """The transaction began with records that were deleted since."""
    for sequence in (0, 2):
        log.append_as_leader(batch(2, producer_id=9, producer_epoch=0, sequence=sequence, transactional=True), 0)
    log.update_high_watermark(4)
    assert log.last_stable_offset == 0
    log.maybe_increment_log_start_offset(3)
    assert log.last_stable_offset == 3


def test_epochs_below_the_log_start_are_forgotten(log: Log) -> None:
    for epoch in range(4):
        log.append_as_leader(batch(2), epoch)
    log.update_high_watermark(8)
    log.maybe_increment_log_start_offset(5)
    assert [tuple(entry) for entry in log.leader_epochs.entries] == [(2, 5), (3, 6)]
    # An epoch below the first known one is answered with itself, as Kafka does.
    assert log.end_offset_for_epoch(0) == (0, 5)


def test_the_high_watermark_stays_within_the_log(log: Log) -> None:
    for count in (3, 2):
        log.append_as_leader(batch(count), 0)
    assert log.update_high_watermark(9) == 5
    log.maybe_increment_log_start_offset(2)
    assert log.update_high_watermark(1) == 2
    log.update_high_watermark(5)
    log.truncate_to(3)
    assert log.high_watermark == 3


def test_nothing_beyond_a_truncation_counts_as_flushed(log: Log) -> None:
    for _ in range(4):
        log.append_as_leader(batch(1), 0)
    log.flush()
    log.truncate_to(2)
    assert log.recovery_point == 2
    log.append_as_leader(batch(2), 0)
    assert (log.recovery_point, log.checkpointed_recovery_point) == (2, 2)


def test_readers_at_the_tail_are_not_led_to_what_was_cut(log: Log) -> None:
    for _ in range(4):
        log.append_as_leader(batch(1, size=50), 0)
    log.truncate_to(1)
    log.append_as_leader(batch(3, tag="long", size=90), 0)
    log.append_as_leader(batch(1, tag="last"), 0)
    for offset, tag in ((1, b"long"), (2, b"long"), (3, b"long"), (4, b"last")):
        records = decode_records(read_bytes(log, offset))
        assert records[0].value is not None
        assert records[0].value.startswith(tag)


def test_jitter_rolls_a_segment_earlier(disk: VirtualDisk, clock: ManualClock) -> None:
    config = topic_config(segment_ms=10_000, segment_jitter_ms=4_000)
    log = open_log(disk, clock, config, jitter=lambda limit: limit - 1)
    log.roll(5)  # segments that are loaded, and the first one of a log, have none
    log.append_as_follower(batch(1, base_offset=5, epoch=0), 0)
    log.append_as_follower(batch(1, base_offset=6, epoch=0, timestamp=NOW_MS + 6_001), 0)
    assert log.bases == [0, 5]
    log.append_as_follower(batch(1, base_offset=7, epoch=0, timestamp=NOW_MS + 6_002), 0)
    assert log.bases == [0, 5, 7]


def test_a_repeated_batch_is_answered_with_the_time_of_the_first(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(message_timestamp_type="LogAppendTime"))
    sent = batch(2, producer_id=7, producer_epoch=0, sequence=0)
    first = log.append_as_leader(sent, 0)
    clock.advance_ms(5_000)
    again = log.append_as_leader(sent, 0)
    assert (again.duplicate, again.first_offset, again.log_append_time_ms) == (True, 0, first.log_append_time_ms)
    assert first.log_append_time_ms == NOW_MS


def test_a_follower_leaves_out_what_the_very_next_leader_wrote(log: Log) -> None:
    """KAFKA-18723: the fetch was sent under epoch 2, and its answer came from the leader of epoch 3."""
    records = bytes(batch(1, base_offset=0, epoch=2)) + bytes(batch(1, base_offset=1, epoch=3))
    assert log.append_as_follower(memoryview(records), 2).last_offset == 0
    assert log.log_end_offset == 1


def test_retention_by_size_leaves_at_least_as_much_as_it_says(disk: VirtualDisk, clock: ManualClock) -> None:
    log = open_log(disk, clock, topic_config(segment_bytes=1000))
    for _ in range(40):
        log.append_as_leader(batch(2), 0)
    log.update_high_watermark(log.log_end_offset)
    left = log.size - log.segments[0].size
    log.update_config(topic_config(segment_bytes=1000, retention_bytes=left + 1))
    assert log.delete_old_segments() == 0
    log.update_config(topic_config(segment_bytes=1000, retention_bytes=left))
    assert log.delete_old_segments() == 1
    assert log.size == left
