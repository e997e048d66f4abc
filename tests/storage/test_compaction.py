"""Compaction: what is chosen, what stays, what becomes of a cleaning whose log changes under it."""

from __future__ import annotations

import errno
from uuid import UUID

import pytest

from odradek.base.errors import KafkaError
from odradek.base.ids import TopicPartition
from odradek.records.batch import decode_batch, iter_headers
from odradek.records.compression import Compression
from odradek.storage.checkpoints import read_offset_checkpoint
from odradek.storage.compaction.plan import MOST_SEGMENTS_SWAPPED, Source, cleanable_offsets, group_sources, overdue_ms
from odradek.storage.compaction.throttle import Throttle
from odradek.storage.names import CLEANED_SUFFIX, SWAP_SUFFIX
from odradek.storage.txn_index import TransactionIndex
from tests.clock import ManualClock
from tests.storage.compaction_support import NOW_MS, Cleanery, compact_config, latest
from tests.storage.support import PARTITION, cleanup, read_bytes

CHECKPOINT = "/data/cleaner-offset-checkpoint"


def filled(rounds: int = 60, keys: int = 7, **overrides: object) -> Cleanery:
    """A log of some ten segments in which every key comes back."""
    made = Cleanery(config=compact_config(**overrides))
    for number in range(rounds):
        made.put((f"k{number % keys}", f"v{number}"), (f"k{number % 3}", f"w{number}"))
    return made


# -- what is chosen ------------------------------------------------------------------------------------------------------------------


def test_the_active_segment_and_what_is_not_stable_are_left_alone() -> None:
    made = filled()
    log = made.log
    assert cleanable_offsets(log, None, NOW_MS) == (0, log.active.base_offset, False)
    middle = log.bases[3] + 2
    log.update_high_watermark(middle)
    assert cleanable_offsets(log, None, NOW_MS).first_uncleanable == middle
    plan = made.manager.grab_filthiest(NOW_MS)
    assert plan is not None
    assert plan.first_uncleanable == log.bases[3]


def test_an_open_transaction_bounds_the_cleaning() -> None:
    made = filled(20)
    begin = made.put(("k1", "open"), producer=(5, 0, 0), transactional=True)
    for number in range(40):
        made.put((f"k{number % 7}", f"later{number}"))
    plan = made.manager.grab_filthiest(NOW_MS)
    assert plan is not None
    assert plan.first_uncleanable == made.log.bases[made.log.segments.index_at(begin)]


def test_young_segments_wait_for_min_compaction_lag() -> None:
    made = filled(20, min_compaction_lag_ms=10_000)
    old = made.log.active.base_offset
    made.roll()
    made.clock.advance_ms(5_000)
    for number in range(20):
        made.put((f"k{number % 7}", f"v{number}"))
    young = made.log.bases[made.log.segments.index_at(old) + 1]
    assert cleanable_offsets(made.log, None, NOW_MS + 5_000).first_uncleanable == 0
    assert cleanable_offsets(made.log, None, NOW_MS + 10_000).first_uncleanable == young
    assert cleanable_offsets(made.log, None, NOW_MS + 15_000).first_uncleanable == made.log.active.base_offset


@pytest.mark.parametrize(
    ("checkpoint", "expected"), [(None, (10, False)), (9, (10, True)), (10, (10, False)), (121, (10, True)), (120, (120, False))]
)
def test_a_checkpoint_outside_of_the_log_counts_for_nothing(checkpoint: int | None, expected: tuple[int, bool]) -> None:
    made = filled()
    made.log.maybe_increment_log_start_offset(10)
    offsets = cleanable_offsets(made.log, checkpoint, NOW_MS)
    assert (offsets.first_dirty, offsets.reset) == expected


def test_the_ratio_must_exceed_the_minimum() -> None:
    made = Cleanery(config=compact_config(min_cleanable_dirty_ratio="0.5"))
    half = "x" * 400
    made.put(("a", half))
    made.roll()
    made.manager.grab_filthiest(NOW_MS)
    made = Cleanery(config=compact_config(min_cleanable_dirty_ratio="0.5"))
    made.put(("a", half))
    made.roll()
    assert made.clean() is not None
    made.put(("b", half))
    made.roll()
    assert made.log.segments[0].size == made.log.segments[1].size
    assert made.manager.grab_filthiest(NOW_MS) is None, "half of it is dirty, which is not more than half"
    made.put(("c", "y"))
    made.roll()
    assert made.manager.grab_filthiest(NOW_MS) is not None


def test_max_compaction_lag_makes_a_log_overdue_and_rolls_it() -> None:
    made = Cleanery(config=compact_config(min_cleanable_dirty_ratio="1.0", max_compaction_lag_ms=1_000))
    made.put(("a", "1"))
    made.clock.advance_ms(1_001)
    assert made.manager.grab_filthiest(made.clock.time_ms()) is None
    made.put(("a", "2"))
    assert len(made.log.segments) == 2, "the segment was rolled before segment.ms had passed"
    assert overdue_ms(made.log, 0, NOW_MS + 1_000) == 0
    assert overdue_ms(made.log, 0, NOW_MS + 1_003) == 3
    assert made.manager.grab_filthiest(NOW_MS + 1_003) is not None


def test_the_filthiest_log_comes_first_and_a_log_is_cleaned_once_at_a_time() -> None:
    made = filled(20)
    other = made.logs.create_log(TopicPartition("more", 0), None, made.config)
    first, made.log = made.log, other
    for number in range(60):
        made.put((f"k{number % 7}", f"v{number}"))
    first_plan = made.manager.grab_filthiest(NOW_MS)
    second_plan = made.manager.grab_filthiest(NOW_MS)
    assert first_plan is not None
    assert second_plan is not None
    assert {first_plan.log, second_plan.log} == {first, other}
    assert first_plan.cleanable_ratio >= second_plan.cleanable_ratio
    assert made.manager.grab_filthiest(NOW_MS) is None


def source(base: int, size: int, end: int) -> Source:
    made = Source.__new__(Source)
    made.base_offset, made.size, made.end_offset = base, size, end
    return made


def test_groups_keep_within_bytes_index_and_offsets() -> None:
    sources = [source(0, 40, 10), source(10, 40, 20), source(20, 40, 30), source(30, 0, 40)]
    no_index = [(0, 0)] * 4

    def bases(sizes: list[tuple[int, int]], segment: int, index: int, parts: list[Source] = sources, end: int = 40) -> list[list[int]]:
        return [[each.base_offset for each in group] for group in group_sources(parts, sizes, segment, index, end)]

    assert bases(no_index, 1000, 100) == [[0, 10, 20, 30]]
    assert bases(no_index, 80, 100) == [[0, 10], [20, 30]]
    assert bases(no_index, 10, 100) == [[0], [10], [20], [30]]
    assert bases([(60, 0), (40, 0), (1, 0), (0, 0)], 1000, 100) == [[0, 10], [20, 30]]
    assert bases([(0, 60), (0, 41), (0, 1), (0, 0)], 1000, 100) == [[0], [10, 20, 30]]
    far = [source(0, 10, 10), source(10, 10, 1 << 31), source((1 << 31) + 5, 10, 1 << 32)]
    assert bases(no_index, 1000, 100, far, (1 << 31) + 6) == [[0], [10, (1 << 31) + 5]]
    assert bases(no_index, 1000, 100, far[:2], 1 << 31) == [[0, 10]]
    many = [source(number, 1, number + 1) for number in range(MOST_SEGMENTS_SWAPPED + 1)]
    assert [len(group) for group in group_sources(many, [(0, 0)] * len(many), 1 << 20, 1 << 20, len(many))] == [MOST_SEGMENTS_SWAPPED, 1]


# -- what stays ----------------------------------------------------------------------------------------------------------------------


def test_the_last_value_of_each_key_stays_at_its_offset() -> None:
    made = filled()
    before = latest(made.records())
    kept_anyway = [record for record in made.records() if record.offset >= made.log.active.base_offset]
    run = made.clean()
    assert run is not None
    after = made.records()
    assert latest(after) == before
    dirty_end = run.cleaner.end_offset
    assert dirty_end == made.log.active.base_offset
    cleaned = [record for record in after if record.offset < dirty_end]
    assert len({record.key for record in cleaned}) == len(cleaned)
    assert after[-len(kept_anyway) :] == kept_anyway
    for offset in range(made.log.log_end_offset + 1):
        assert made.records(offset) == [record for record in after if record.offset >= offset]
    assert read_offset_checkpoint(made.disk, CHECKPOINT) == {PARTITION: dirty_end}


def test_a_second_cleaning_begins_where_the_first_ended() -> None:
    made = filled()
    assert made.clean_all() == 1
    end = made.manager.checkpoint_of(made.log)
    for number in range(40):
        made.put((f"k{number % 7}", f"again{number}"))
    before = latest(made.records())
    run = made.clean()
    assert run is not None
    assert run.plan.first_dirty == end
    assert latest(made.records()) == before
    made.reopen()
    assert latest(made.records()) == before
    assert made.manager.checkpoint_of(made.log) == made.log.active.base_offset


def test_a_map_that_is_full_ends_the_cleaning_early_and_it_goes_on() -> None:
    made = Cleanery()
    made.map_memory = 24 * 20
    for number in range(120):
        made.put(*((f"key{number}-{part}", "value") for part in range(2)), ("same", str(number)))
    before = latest(made.records())
    first = made.clean()
    assert first is not None
    assert first.cleaner.stats.buffer_utilization == 1
    assert 0 < first.cleaner.end_offset < 60
    assert made.clean_all() > 5
    assert latest(made.records()) == before
    assert sum(record.key == b"same" for record in made.records() if record.offset < made.log.active.base_offset) == 1


def test_a_batch_larger_than_the_map_and_the_buffer_is_cleaned_all_the_same() -> None:
    made = Cleanery(config=compact_config(segment_bytes=100_000))
    made.map_memory, made.buffer_bytes = 24 * 20, 100
    made.put(*((f"key{number}", "v" * 10) for number in range(200)), compression=Compression.LZ4)
    made.put(("key0", "new"))
    made.roll()
    before = latest(made.records())
    assert made.clean_all() > 9
    assert latest(made.records()) == before
    assert sum(record.key == b"key0" for record in made.records()) == 1


def test_tombstones_stay_for_delete_retention_and_then_go() -> None:
    made = Cleanery()
    made.put(("a", "1"))
    made.put(("a", None), ("b", "2"))
    made.roll()
    made.clean()
    assert [(record.key, record.value) for record in made.records()] == [(b"a", None), (b"b", b"2")]
    made.put(("c", "3"))
    made.roll()
    made.clock.advance_ms(59_999)
    made.clean()
    assert (b"a", None) in [(record.key, record.value) for record in made.records()]
    made.put(("c", "4"))
    made.roll()
    made.clock.advance_ms(1)
    made.clean()
    assert [(record.key, record.value) for record in made.records()] == [(b"b", b"2"), (b"c", b"4")]


def test_aborted_records_go_and_markers_follow_when_nothing_is_left_to_end() -> None:
    made = Cleanery()
    made.put(("a", "0"))
    made.put(("a", "aborted"), ("b", "aborted"), producer=(1, 0, 0), transactional=True)
    made.put(("b", "kept"), producer=(2, 0, 0), transactional=True)
    made.end(1, 0, commit=False)
    made.end(2, 0, commit=True)
    made.put(("later", "1"), producer=(1, 0, 2))
    made.put(("later", "2"), producer=(2, 0, 1))
    made.roll()
    made.clean()
    expected = [(b"a", b"0"), (b"b", b"kept"), (b"later", b"2")]
    assert [(record.key, record.value) for record in made.committed()] == expected
    assert [(record.key, record.value) for record in made.records()] == expected
    kinds = _kinds(made)
    assert kinds.count("marker") == 2, "the first cleaning sees the transactions' batches: their markers stay"
    assert len(made.log.segments[0].txn_index.entries()) == 1
    for wait in (0, 60_000):
        made.clock.advance_ms(wait)
        made.put(("later", str(wait)))
        made.roll()
        made.clean()
    assert "marker" in _kinds(made), "that of the committed transaction stays as long as its record"
    assert _kinds(made).count("marker") == 1
    assert made.log.segments[0].txn_index.entries() == []
    assert [(record.key, record.value) for record in made.committed()][:2] == expected[:2]


def test_a_marker_goes_although_its_producer_has_committed_records_that_stay() -> None:
    made = Cleanery()
    for sequence, key in enumerate(("kept", "gone")):
        made.put((key, "1"), producer=(1, 0, sequence), transactional=True)
        made.end(1, 0, commit=True)
    made.put(("gone", "2"))
    made.put(("later", "1"), producer=(1, 0, 2))
    made.roll()
    made.clean()
    assert _kinds(made).count("marker") == 2, "the first cleaning sees the records of both transactions"
    for wait in (0, 60_000):
        made.clock.advance_ms(wait)
        made.put(("later", str(wait)))
        made.roll()
        made.clean()
    assert _kinds(made).count("marker") == 1


def _kinds(made: Cleanery) -> list[str]:
    kinds: list[str] = []
    offset = 0
    while offset < made.log.log_end_offset:
        for _, header in iter_headers(read_bytes(made.log, offset)):
            kinds.append("marker" if header.is_control and header.record_count else "empty" if header.record_count == 0 else "data")
            offset = header.next_offset
    return kinds


def test_the_last_batch_of_an_active_producer_stays_empty_and_its_sequence_goes_on() -> None:
    made = Cleanery()
    made.put(("a", "1"), producer=(7, 3, 0))
    made.put(("a", "2"), producer=(7, 3, 1))
    made.put(("a", "3"))
    made.put(("z", "end"))
    made.roll()
    made.clean()
    headers = [header for _, header in iter_headers(read_bytes(made.log, 0))]
    assert [(header.base_offset, header.record_count, header.producer_id) for header in headers] == [(1, 0, 7), (2, 1, -1), (3, 1, -1)]
    made.disk.remove("/data/orders-0/00000000000000000004.snapshot")
    made.reopen()
    assert made.log.producer_state.producers[7].last_sequence == 1
    made.put(("b", "1"), producer=(7, 3, 2))
    with pytest.raises(KafkaError):
        made.put(("b", "2"), producer=(7, 3, 9))


def test_the_end_of_the_round_is_kept_as_an_empty_batch() -> None:
    made = Cleanery()
    made.put(("a", "1"))
    made.put(("a", "aborted"), producer=(1, 0, 0), transactional=True)
    made.roll()
    made.end(1, 0, commit=False)
    made.put(("b", "1"), producer=(1, 0, 1))
    made.clean()
    headers = [header for _, header in iter_headers(read_bytes(made.log, 0))]
    assert [(header.base_offset, header.record_count) for header in headers] == [(0, 1), (1, 0)], "offset 1 ends what was cleaned"
    assert [record.key for record in made.committed()] == [b"a", b"b"]


def test_dates_and_names_of_what_was_cleaned() -> None:
    made = filled(segment_bytes=1000)
    for number, segment in enumerate(made.log.segments):
        made.disk.set_modified_ms(segment.log_path, NOW_MS + number)
    old = list(made.log.segments)
    made.clean()
    assert [made.disk.modified_ms(segment.log_path) for segment in made.log.segments] == [NOW_MS + number for number in range(len(old))]
    made.put(("x", "y"))
    made.roll()
    made.clean()
    assert len(made.log.segments) < len(old), "what has become small is joined"
    newest = made.log.segments[0]
    assert made.disk.modified_ms(newest.log_path) == made.disk.modified_ms(newest.log_path.replace(".log", ".index"))
    assert made.names(CLEANED_SUFFIX) == made.names(SWAP_SUFFIX) == []
    snapshots = {int(name.partition(".")[0]) for name in made.names(".snapshot")}
    assert snapshots <= set(made.log.bases)
    made.logs.due_deletions(everything=True).run()  # type: ignore[union-attr]
    assert made.names(".deleted") == []


# -- when something comes between ----------------------------------------------------------------------------------------------------


def untouched(made: Cleanery, change: object = None) -> None:
    assert made.names(CLEANED_SUFFIX) == made.names(SWAP_SUFFIX) == []
    assert made.manager.running == []
    assert all(segment.pin.readers == 0 for segment in made.log.segments)


def at_step(made: Cleanery, step: int, change: object) -> bool:
    """Cleans, and calls `change` while step `step` is under way; whether the cleaning came that far."""
    assert callable(change)
    count = 0

    def between() -> None:
        nonlocal count
        count += 1
        if count == step:
            change()

    made.clean(between)
    return count >= step


def test_a_truncation_at_any_moment_throws_the_rest_away() -> None:
    step = 0
    while True:
        step += 1
        made = filled(30)
        cut = made.log.bases[2] + 3
        expected = [record for record in made.records() if record.offset < cut]
        came = at_step(made, step, lambda made=made, cut=cut: made.log.truncate_to(cut))
        if not came:
            break
        untouched(made)
        assert made.log.log_end_offset <= cut
        assert latest(made.records()) == latest([record for record in expected if record.offset < made.log.log_end_offset])
        assert (made.manager.checkpoint_of(made.log) or 0) <= made.log.active.base_offset
        made.put(("after", "cut"))
        before = latest(made.records())
        made.reopen()
        assert latest(made.records()) == before
        made.clean_all()
        assert latest(made.records()) == before
    assert step > 8


def test_a_shutdown_at_any_moment_throws_the_rest_away() -> None:
    """Nobody stops the cleaning of a log that is closed, but what it has made is not swapped in any more."""
    step = 0
    while True:
        step += 1
        made = filled(30)
        kept: dict[str, bytes] = {}

        def shutdown(made: Cleanery = made, kept: dict[str, bytes] = kept) -> None:
            made.logs.shutdown()
            path = made.log.directory
            kept.update({name: made.disk.read_bytes(f"{path}/{name}") for name in made.disk.listdir(path) if name.endswith(".log")})

        if not at_step(made, step, shutdown):
            break
        assert {name: made.disk.read_bytes(f"{made.log.directory}/{name}") for name in kept} == kept
    assert step > 8


def test_replaced_files_are_not_removed_before_the_new_names_are_durable() -> None:
    made = filled(30, file_delete_delay_ms=0)
    run = made.start()
    assert run is not None
    renamed: list[str] = []

    def fault(operation: str, path: str) -> None:
        if operation == "rename" and path.endswith(".swap"):
            renamed.append(path)
        elif operation == "fsync_dir" and path == made.log.directory:
            renamed.clear()

    made.disk.fault = fault
    removed = 0
    going_on = True
    while going_on:
        run.step()
        going_on = run.settle() is not None
        deletion = made.logs.due_deletions()
        if deletion is not None:
            assert not renamed, "a power cut could still take the new names"
            assert not deletion.run()
            removed += 1
    assert removed > 0


def test_a_deletion_at_any_moment_throws_the_rest_away() -> None:
    step = 0
    while True:
        step += 1
        made = filled(30)

        def recreate(made: Cleanery = made) -> None:
            made.logs.delete_log(PARTITION)
            made.log = made.logs.create_log(PARTITION, None, made.config)
            made.put(("new", "life"))

        if not at_step(made, step, recreate):
            break
        untouched(made)
        assert [record.key for record in made.records()] == [b"new"]
        assert made.manager.checkpoint_of(made.log) is None
        assert made.manager.uncleanable == {"/data": {}} or not made.manager.uncleanable
        assert all(directory.online for directory in made.logs.directories)
        made.reopen()
        assert [record.key for record in made.records()] == [b"new"]
    assert step > 8


def test_retention_leaves_a_log_alone_while_it_is_cleaned() -> None:
    made = filled(30, cleanup_policy="compact,delete", retention_ms=1_000)
    bases = list(made.log.bases)
    made.clock.advance_ms(5_000)

    def between() -> None:
        cleanup(made.logs)
        made.manager.delete_old_segments()
        assert made.log.log_start_offset == 0

    assert made.clean(between) is not None
    assert made.log.bases == bases
    cleanup(made.logs)
    assert made.log.bases == bases, "the regular retention never touches what is compacted"
    assert made.manager.delete_old_segments() == len(bases)
    assert made.log.log_start_offset == made.log.log_end_offset


def test_compact_alone_deletes_below_the_log_start_only() -> None:
    made = filled(30, retention_ms=1_000)
    made.clock.advance_ms(5_000)
    assert made.manager.delete_old_segments() == 0
    made.log.maybe_increment_log_start_offset(made.log.bases[2])
    assert made.manager.delete_old_segments() == 2
    made.logs.cleaner = None
    assert cleanup(made.logs) == 0, "without a cleaner nobody shortens it"


def test_a_failing_disk_takes_the_directory_offline() -> None:
    failures = 0
    for operation in ("write", "fsync", "fsync_dir", "rename", "create"):
        made = filled(30)

        def fail(current: str, path: str, operation: str = operation) -> None:
            if current == operation and not path.endswith("checkpoint.tmp"):
                raise OSError(errno.EIO, "broken", path)

        made.disk.fault = fail
        made.clean()
        failures += not made.logs.directories[0].online
        assert made.manager.running == []
        assert made.manager.grab_filthiest(NOW_MS) is None
    assert failures == 5


def test_a_log_that_makes_no_sense_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    made = filled(30)
    path = made.log.segments[1].log_path
    file = made.disk.open(path)
    file.pwritev([b"\xff"], 80)
    before = [made.disk.read_bytes(segment.log_path) for segment in made.log.segments[1:]]
    made.clean_all()
    assert list(made.manager.uncleanable["/data"]) == [PARTITION]
    assert "checksum" in made.manager.uncleanable["/data"][PARTITION]
    assert "orders-0 cannot be compacted" in caplog.text
    assert [made.disk.read_bytes(segment.log_path) for segment in made.log.segments[1:]] == before
    assert made.logs.directories[0].online
    untouched(made)
    made.logs.delete_log(PARTITION)
    made.log = made.logs.create_log(PARTITION, None, made.config)
    assert not made.manager.is_uncleanable(made.log)


def test_a_log_that_cannot_be_looked_at_does_not_stop_the_others() -> None:
    made = filled(30)
    bad, made.log = made.log, made.logs.create_log(TopicPartition("more", 0), None, made.config)
    made.put(("a", "1"))
    made.put(("a", "2"))
    made.roll()
    first = bad.segments[0]
    made.disk.open(first.txn_index.path, create=True).pwritev([b"no entry"], 0)
    first.txn_index = TransactionIndex(made.disk, first.txn_index.path, 0)
    for _ in range(4):
        made.clean()
    assert PARTITION in made.manager.uncleanable["/data"]
    assert made.manager.checkpoint_of(made.log) == 2


def test_readers_finish_what_they_began() -> None:
    made = filled(30)
    found = made.log.read(0, max_bytes=1 << 20, max_offset=made.log.log_end_offset, min_one_message=True)
    expected = b"".join([piece.read(0, piece.size) for piece in found.slices])
    old = made.log.segments[0]
    made.clean()
    assert made.log.segments[0] is not old
    made.logs.due_deletions(everything=True).run()  # type: ignore[union-attr]
    assert b"".join([piece.read(0, piece.size) for piece in found.slices]) == expected
    found.release()
    assert old.pin.readers == 0


def test_paused_logs_wait() -> None:
    made = filled(30)
    run = made.start()
    assert run is not None
    made.manager.pause(PARTITION, "one")
    made.manager.pause(PARTITION, "one")
    made.manager.pause(PARTITION, "other")
    made.finish(run)
    untouched(made)
    assert made.start() is None
    made.manager.resume(PARTITION, "one")
    made.manager.resume(PARTITION, "nobody")
    assert made.start() is None
    made.manager.resume(PARTITION, "other")
    made.manager.resume(PARTITION, "other")
    assert made.clean() is not None


def test_a_log_on_its_way_waits_although_nobody_told_this_cleaner() -> None:
    """The move goes on after a restart, before there is a cleaner."""
    made = Cleanery(directories=("/a", "/b"))
    for number in range(40):
        made.put((f"k{number % 3}", f"v{number}"))
    target = "/b" if made.log.parent_directory == "/a" else "/a"
    made.logs.create_future_log(PARTITION, made.log.topic_id, made.config, target)
    made.logs.shutdown()
    made.reopen()
    assert made.logs.get_log(PARTITION, future=True) is not None
    assert made.start() is None
    made.logs.delete_future_log(PARTITION)
    assert made.clean() is not None


def test_a_moved_log_takes_its_checkpoint_along() -> None:
    made = Cleanery(directories=("/a", "/b"))
    for number in range(40):
        made.put((f"k{number % 3}", f"v{number}"))
    made.clean()
    source_path = made.log.parent_directory
    target = "/b" if source_path == "/a" else "/a"
    end = made.manager.checkpoint_of(made.log)
    made.manager.moved(PARTITION, source_path, target)
    assert made.manager.checkpoint_of(made.log) is None
    assert end is not None
    made.log.directory = f"{target}/orders-0"
    assert made.manager.checkpoint_of(made.log) == end


def test_a_log_that_cannot_be_cleaned_is_not_tried_again_after_a_move() -> None:
    made = Cleanery(directories=("/a", "/b"))
    source, target = sorted(("/a", "/b"), key=lambda path: path != made.log.parent_directory)
    made.manager.mark_uncleanable(made.log, "it makes no sense")
    made.manager.moved(PARTITION, source, target)
    assert dict(made.manager.uncleanable[source]) == {}
    assert made.manager.uncleanable[target] == {PARTITION: "it makes no sense"}


def test_a_topic_made_anew_is_cleaned_although_its_namesake_could_not_be() -> None:
    made = filled(30)
    made.manager.mark_uncleanable(made.log, "it makes no sense")
    assert made.start() is None
    made.logs.delete_log(PARTITION)
    made.log = made.logs.create_log(PARTITION, UUID(int=99), made.config)
    for number in range(30):
        made.put((f"k{number % 3}", f"v{number}"))
    assert made.clean() is not None


def test_a_topic_made_anew_is_cleaned_from_its_beginning() -> None:
    made = filled(30)
    made.clean()
    assert made.manager.checkpoint_of(made.log)
    made.logs.delete_log(PARTITION)
    made.log = made.logs.create_log(PARTITION, UUID(int=99), made.config)
    assert made.manager.checkpoint_of(made.log) is None, "what its deleted namesake had cleaned is not this one's"


def test_what_is_written_after_a_truncation_is_cleaned_although_it_had_been_cleaned_so_far() -> None:
    made = filled(60)
    made.clean()
    cleaned = made.manager.checkpoint_of(made.log)
    assert cleaned is not None
    target = made.log.bases[1] + 1
    assert target < cleaned
    made.log.truncate_to(target)
    known = made.manager.checkpoint_of(made.log)
    assert known is not None
    assert known <= made.log.active.base_offset < cleaned


def test_a_damaged_checkpoint_costs_work_only() -> None:
    made = filled(30)
    made.clean()
    before = latest(made.records())
    file = made.disk.open(CHECKPOINT)
    file.pwritev([b"x"], 0)
    made.reopen()
    assert made.manager.checkpoint_of(made.log) is None
    made.clean()
    assert latest(made.records()) == before


def test_the_throttle_holds_the_rate() -> None:
    clock = ManualClock()
    throttle = Throttle(clock, 1_000.0)
    waited = 0.0
    for _ in range(100):
        delay = throttle.observe(50)
        waited += delay
        clock.advance_ms(round(delay * 1000))
    assert 4.5 <= waited <= 5.0
    assert throttle.slice_bytes == 300
    throttle.rate = 1.7976931348623157e308
    assert throttle.observe(1 << 40) == 0
    assert throttle.slice_bytes > 1 << 30


def test_headers_and_timestamps_survive() -> None:
    made = Cleanery()
    made.put(("a", "1"), ("b", "2"), ("c", "3"), timestamp=NOW_MS - 5)
    made.put(("b", "4"), timestamp=NOW_MS)
    made.roll()
    before = {record.key: record for record in made.records()}
    made.clean()
    assert {record.key: record for record in made.records()} == before
    data = read_bytes(made.log, 0)
    position, header = next(iter_headers(data))
    assert len(decode_batch(data, position, header)) == 2
    assert made.log.segments[0].max_timestamp == NOW_MS
