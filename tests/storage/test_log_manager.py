"""Several logs in several directories: load, delete, checkpoints, failing disks, identity."""

from __future__ import annotations

import errno
import random
from uuid import UUID

import pytest

from odradek.base.errors import ErrorCode, KafkaError, StorageError
from odradek.base.ids import TopicPartition
from odradek.storage.checkpoints import read_offset_checkpoint, read_partition_metadata, write_offset_checkpoint
from odradek.storage.loading import LoadProgress
from odradek.storage.log_manager import LogManager
from odradek.storage.meta_properties import (
    MetaProperties,
    complete_identities,
    read_identities,
    read_meta_properties,
    verify_identities,
    write_meta_properties,
)
from odradek.storage.moves import note_move
from odradek.storage.names import parse_directory_name
from odradek.testing.simulation.disk import DIRECTORIES, NONE, VirtualDisk
from tests.clock import ManualClock
from tests.storage.support import (
    PARTITION,
    TOPIC_ID,
    batch,
    checkpoint_log_start_offsets,
    checkpoint_recovery_points,
    load_all,
    no_broker,
    read_all,
    topic_config,
)

CONFIG = topic_config(segment_bytes=1000, file_delete_delay_ms=60_000)


def manager(disk: VirtualDisk, *directories: str, clock: ManualClock | None = None) -> LogManager:
    made = LogManager(disk, clock or ManualClock(), directories or ("/data",), no_broker(), random=random.Random(3))
    load_all(made, lambda _: CONFIG)
    return made


def test_new_logs_go_where_the_fewest_are() -> None:
    disk = VirtualDisk()
    logs = manager(disk, "/a", "/b")
    for partition in range(6):
        logs.create_log(TopicPartition("t", partition), TOPIC_ID, CONFIG)
    assert [len(directory.logs) for directory in logs.directories] == [3, 3]
    assert read_partition_metadata(disk, "/a/t-0/partition.metadata") == TOPIC_ID


def test_logs_on_their_way_to_a_directory_count_as_being_there() -> None:
    logs = manager(VirtualDisk(), "/a", "/b")
    for partition in range(2):
        logs.create_log(TopicPartition("t", partition), TOPIC_ID, CONFIG)
    logs.create_future_log(TopicPartition("t", 1), TOPIC_ID, CONFIG, "/a")
    assert logs.create_log(TopicPartition("t", 2), TOPIC_ID, CONFIG).parent_directory == "/b"


def test_of_partitions_that_never_come_only_so_many_are_remembered() -> None:
    """A client may name any number of them and where they should go."""
    logs = manager(VirtualDisk(), "/a", "/b")
    for partition in range(10_001):
        logs.placement.prefer(TopicPartition("t", partition), "/b")
    assert logs.create_log(TopicPartition("t", 10_000), TOPIC_ID, CONFIG).parent_directory == "/b"
    assert logs.create_log(TopicPartition("t", 0), TOPIC_ID, CONFIG).parent_directory == "/a"


def test_a_log_belongs_to_one_topic_id() -> None:
    logs = manager(VirtualDisk())
    log = logs.create_log(PARTITION, TOPIC_ID, CONFIG)
    assert logs.create_log(PARTITION, TOPIC_ID, CONFIG) is log
    with pytest.raises(KafkaError) as caught:
        logs.create_log(PARTITION, UUID(int=999), CONFIG)
    assert caught.value.code == ErrorCode.INCONSISTENT_TOPIC_ID


def test_a_log_that_is_there_takes_over_the_configuration_it_is_asked_for_with() -> None:
    logs = manager(VirtualDisk())
    log = logs.create_log(PARTITION, TOPIC_ID, CONFIG)
    assert logs.create_log(PARTITION, TOPIC_ID, topic_config(max_message_bytes=70)) is log
    with pytest.raises(KafkaError) as caught:
        log.append_as_leader(batch(1), 0)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE
    logs.create_log(PARTITION, TOPIC_ID, CONFIG)
    assert log.append_as_leader(batch(1), 0).first_offset == 0


def test_a_clean_shutdown_leaves_a_marker_that_the_next_start_takes() -> None:
    disk = VirtualDisk()
    logs = manager(disk)
    logs.create_log(PARTITION, TOPIC_ID, CONFIG).append_as_leader(batch(3), 0)
    logs.shutdown(broker_epoch=42)
    assert disk.read_bytes("/data/.kafka_cleanshutdown") == b'{"version":0,"brokerEpoch":42}'
    assert read_offset_checkpoint(disk, "/data/recovery-point-offset-checkpoint") == {PARTITION: 3}
    again = manager(disk)
    assert again.previous_broker_epoch == 42
    assert not disk.exists("/data/.kafka_cleanshutdown")
    log = again.get_log(PARTITION)
    assert log is not None
    assert (log.topic_id, log.log_end_offset, log.recovery_point) == (TOPIC_ID, 3, 3)
    assert manager(disk.kill()).previous_broker_epoch == -1


@pytest.mark.parametrize("checkpoint", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_a_shutdown_that_cannot_write_a_checkpoint_leaves_no_marker(checkpoint: str) -> None:
    """What was deleted would be there again after a start that takes the log for clean."""
    disk = VirtualDisk()
    logs = manager(disk)
    log = logs.create_log(PARTITION, TOPIC_ID, CONFIG)
    log.append_as_leader(batch(3), 0)
    log.update_high_watermark(3)
    log.maybe_increment_log_start_offset(2)
    disk.fail(f"/data/{checkpoint}", "write")
    logs.shutdown(7)
    assert not logs.online_directories
    assert not disk.exists("/data/.kafka_cleanshutdown")


def test_an_unreadable_marker_still_marks() -> None:
    disk = VirtualDisk()
    manager(disk).shutdown(7)
    disk.write_atomic("/data/.kafka_cleanshutdown", b"")
    again = manager(disk)
    assert again.directories[0].clean
    assert again.previous_broker_epoch == -1


def test_the_second_process_is_refused() -> None:
    disk = VirtualDisk()
    first = manager(disk)
    with pytest.raises(StorageError, match=r"\.lock"):
        manager(disk)
    first.shutdown()
    manager(disk)


def test_deleted_logs_go_after_their_delay() -> None:
    disk, clock = VirtualDisk(), ManualClock()
    logs = manager(disk, clock=clock)
    log = logs.create_log(PARTITION, TOPIC_ID, CONFIG)
    log.append_as_leader(batch(3), 0)
    checkpoint_recovery_points(logs)
    found = log.read(0, max_bytes=1000, max_offset=3, min_one_message=True)
    logs.delete_log(PARTITION)
    assert logs.get_log(PARTITION) is None
    assert read_offset_checkpoint(disk, "/data/recovery-point-offset-checkpoint") == {}
    (name,) = [name for name in disk.listdir("/data") if name.endswith("-delete")]
    assert parse_directory_name(name) == PARTITION
    assert logs.due_deletions() is None
    # Created anew at once, and still there after the old one is gone.
    logs.create_log(PARTITION, UUID(int=5000), CONFIG)
    clock.advance_ms(60_000)
    deletion = logs.due_deletions()
    assert deletion is not None
    assert deletion.run() == []
    assert not disk.exists(f"/data/{name}")
    assert disk.exists("/data/orders-0")
    assert len(found.slices[0].read(0, found.size)) == found.size
    found.release()


def test_a_deletion_that_a_restart_interrupted_is_resumed() -> None:
    disk = VirtualDisk()
    logs = manager(disk)
    logs.create_log(PARTITION, TOPIC_ID, CONFIG)
    logs.delete_log(PARTITION)
    again = manager(disk.kill())
    assert again.get_log(PARTITION) is None
    deletion = again.due_deletions()
    assert deletion is not None
    deletion.run()


def test_strays_are_set_aside_and_stay() -> None:
    disk = VirtualDisk()
    logs = manager(disk)
    logs.create_log(PARTITION, TOPIC_ID, CONFIG).append_as_leader(batch(3), 0)
    logs.shutdown()
    again = LogManager(disk, ManualClock(), ["/data"], no_broker(), random=random.Random(3))
    load_all(again, lambda _: CONFIG, is_stray=lambda partition, topic_id: topic_id == TOPIC_ID)
    assert again.get_log(PARTITION) is None
    (stray,) = again.strays
    assert stray.endswith("-stray")
    assert disk.exists(f"{stray}/00000000000000000000.log")
    again.shutdown()
    assert manager(disk).strays == [stray]


def twice(records: int) -> VirtualDisk:
    """A disk with two logs of the partition, of 3 records in /a and of `records` in /b."""
    disk = VirtualDisk()
    for path, count in (("/a", 3), ("/b", records)):
        logs = manager(disk, path)
        log = logs.create_log(PARTITION, TOPIC_ID, CONFIG)
        for _ in range(count):
            log.append_as_leader(batch(1), 0)
        logs.shutdown()
    return disk


def test_the_same_partition_twice_is_refused_when_nothing_tells_which_counts() -> None:
    with pytest.raises(StorageError, match="Duplicate"):
        manager(twice(2), "/a", "/b")


@pytest.mark.parametrize("order", [("/a", "/b"), ("/b", "/a")])
def test_of_two_logs_of_a_partition_the_empty_one_goes(order: tuple[str, str]) -> None:
    disk = twice(0)
    logs = manager(disk, *order)
    assert [(log.directory, log.log_end_offset) for log in logs.logs] == [("/a/orders-0", 3)]
    assert not disk.exists("/b/orders-0")
    logs.shutdown()
    assert [log.directory for log in manager(disk, *order).logs] == ["/a/orders-0"]


@pytest.mark.parametrize("order", [("/a", "/b"), ("/b", "/a")])
def test_of_two_logs_of_a_partition_the_one_that_the_metadata_names_counts_and_the_other_is_kept_aside(order: tuple[str, str]) -> None:
    disk = twice(2)
    ids = {"/a": A_ID, "/b": B_ID}
    logs = LogManager(disk, ManualClock(), order, no_broker(), random=random.Random(3), directory_ids=ids)
    load_all(logs, lambda _: CONFIG, assigned=lambda topic_partition, topic_id: B_ID)
    assert [(log.directory, log.log_end_offset) for log in logs.logs] == [("/b/orders-0", 2)]
    assert [path.startswith("/a/orders-0.") and path.endswith("-stray") for path in logs.strays] == [True]


def test_a_directory_that_fails_while_a_second_log_is_put_aside_goes_offline() -> None:
    disk = twice(2)
    disk.fail("/a", "rename")
    logs = LogManager(disk, ManualClock(), ("/a", "/b"), no_broker(), random=random.Random(3), directory_ids={"/a": A_ID, "/b": B_ID})
    load_all(logs, lambda _: CONFIG, assigned=lambda topic_partition, topic_id: B_ID)
    assert [log.directory for log in logs.logs] == ["/b/orders-0"]
    assert [directory.path for directory in logs.online_directories] == ["/b"]


def test_of_two_copies_on_their_way_one_goes() -> None:
    disk, logs = two_logs()
    logs.directory_failed("/b", OSError(errno.EIO, "gone"))
    survivor = disk.kill()
    survivor.makedirs("/c")
    for name in survivor.listdir("/b"):
        if name.endswith("-future"):
            survivor.rename(f"/b/{name}", f"/c/{name}")
            survivor.makedirs(f"/b/{name}")
    after = manager(survivor, "/a", "/b", "/c")
    futures = [log for directory in after.directories for log in directory.future_logs.values()]
    assert [log.parent_directory for log in futures] == ["/c"], "the one that holds records"


def test_a_directory_that_is_no_log_is_refused() -> None:
    disk = VirtualDisk()
    disk.makedirs("/data/photographs")
    with pytest.raises(StorageError, match="photographs"):
        manager(disk)


def test_what_a_file_system_keeps_at_its_root_is_no_log() -> None:
    disk = VirtualDisk()
    disk.makedirs("/data/lost+found")
    assert list(manager(disk).logs) == []


def test_a_failing_directory_goes_offline_and_the_others_serve_on() -> None:
    failing = False

    def fault(operation: str, path: str) -> None:
        if failing and path.startswith("/a/") and operation != "read":
            raise OSError(errno.EIO, "I/O error", path)

    disk = VirtualDisk(fault=fault)
    failures: list[str] = []
    logs = manager(disk, "/a", "/b")
    logs.on_directory_failure = lambda path, error: failures.append(path)
    one = logs.create_log(TopicPartition("t", 0), TOPIC_ID, CONFIG)
    two = logs.create_log(TopicPartition("t", 1), TOPIC_ID, CONFIG)
    failing = True
    with pytest.raises(KafkaError) as caught:
        one.append_as_leader(batch(1), 0)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert failures == ["/a"]
    failing = False
    with pytest.raises(KafkaError, match="closed"):
        one.append_as_leader(batch(1), 0)
    failing = True
    assert logs.get_log(TopicPartition("t", 0)) is None
    assert two.append_as_leader(batch(1), 0).first_offset == 0
    logs.shutdown()
    assert disk.exists("/b/.kafka_cleanshutdown")
    assert not disk.exists("/a/.kafka_cleanshutdown")


def test_a_damaged_recovery_checkpoint_only_costs_a_scan() -> None:
    disk = VirtualDisk()
    logs = manager(disk)
    logs.create_log(PARTITION, TOPIC_ID, CONFIG).append_as_leader(batch(3), 0)
    disk.write_atomic("/data/recovery-point-offset-checkpoint", b"0\nrubbish\n")
    log = manager(disk.kill()).get_log(PARTITION)
    assert log is not None
    assert log.log_end_offset == 3


def test_the_log_start_survives() -> None:
    disk = VirtualDisk()
    logs = manager(disk)
    log = logs.create_log(PARTITION, TOPIC_ID, CONFIG)
    for _ in range(10):
        log.append_as_leader(batch(3), 0)
    log.update_high_watermark(30)
    log.maybe_increment_log_start_offset(7)
    checkpoint_log_start_offsets(logs)
    again = manager(disk.kill()).get_log(PARTITION)
    assert again is not None
    assert again.log_start_offset == 7
    assert read_all(again)[0].offset == 7


def test_loading_reports_its_progress() -> None:
    disk = VirtualDisk()
    logs = manager(disk)
    for partition in range(3):
        logs.create_log(TopicPartition("t", partition), TOPIC_ID, CONFIG).append_as_leader(batch(1), 0)
    reports: list[LoadProgress] = []
    again = LogManager(disk.kill(), ManualClock(), ["/data"], no_broker(), random=random.Random(3))
    load_all(again, lambda _: CONFIG, on_progress=reports.append)
    assert {report.done for report in reports} == {0, 1, 2}
    assert any(report.segments_total == 1 and report.segments_done == 1 for report in reports)


def test_checkpoints_have_kafkas_text() -> None:
    disk = VirtualDisk()
    disk.makedirs("/data")
    write_offset_checkpoint(disk, "/data/c", {TopicPartition("a.b", 0): 5, TopicPartition("x", 12): 0})
    assert disk.read_bytes("/data/c") == b"0\n2\na.b 0 5\nx 12 0\n"
    assert read_offset_checkpoint(disk, "/data/c") == {TopicPartition("a.b", 0): 5, TopicPartition("x", 12): 0}


def test_identities_must_fit() -> None:
    disk = VirtualDisk()
    for index, path in enumerate(("/a", "/b")):
        disk.makedirs(path)
        write_meta_properties(disk, path, MetaProperties("cluster", 1, UUID(int=1000 + index)))
    disk.makedirs("/c")
    found = read_identities(disk, ["/a", "/b", "/c"])
    assert (found.cluster_id, found.node_id, found.empty) == ("cluster", 1, ["/c"])
    verify_identities(found, metadata_directory="/a", node_id=1)
    with pytest.raises(StorageError, match=r"node id 1 .*configured node id 2"):
        verify_identities(found, metadata_directory="/a", node_id=2)
    with pytest.raises(StorageError, match=r"Invalid cluster\.id"):
        verify_identities(found, metadata_directory="/a", node_id=1, cluster_id="other")
    with pytest.raises(StorageError, match="not formatted"):
        verify_identities(found, metadata_directory="/c", node_id=1)
    with pytest.raises(StorageError, match=r"No meta\.properties found in /c"):
        complete_identities(disk, found, lambda: UUID(int=7777))
    assert read_meta_properties(disk, "/c") is None
    write_meta_properties(disk, "/c", MetaProperties("cluster", 1))
    complete = complete_identities(disk, read_identities(disk, ["/a", "/b", "/c"]), lambda: UUID(int=7777))
    assert complete["/c"] == read_meta_properties(disk, "/c") == MetaProperties("cluster", 1, UUID(int=7777))
    write_meta_properties(disk, "/b", MetaProperties("cluster", 1, UUID(int=1000)))
    with pytest.raises(StorageError, match="Duplicate directory id"):
        verify_identities(read_identities(disk, ["/a", "/b"]), metadata_directory="/a", node_id=1)


def test_a_directory_that_cannot_be_given_an_id_is_left_out_and_has_failed() -> None:
    disk = VirtualDisk()
    for path in ("/a", "/b"):
        disk.makedirs(path)
        write_meta_properties(disk, path, MetaProperties("cluster", 1))
    found = read_identities(disk, ["/a", "/b"])
    disk.fail("/b", error=errno.EROFS)
    assert list(complete_identities(disk, found, lambda: UUID(int=7777))) == ["/a"]
    assert list(found.failed) == ["/b"]


def test_a_cluster_migrated_from_zookeeper_keeps_its_version() -> None:
    disk = VirtualDisk()
    disk.makedirs("/a")
    disk.write_atomic("/a/meta.properties", b"#\nbroker.id=3\ncluster.id=c\n")  # without a version it is 0
    found = read_identities(disk, ["/a"])
    verify_identities(found, metadata_directory="/a", node_id=3)
    with pytest.raises(StorageError, match=r"node id 3 .*configured node id 1"):
        verify_identities(found, metadata_directory="/a", node_id=1)
    completed = complete_identities(disk, found, lambda: UUID(int=7777))["/a"]
    assert completed == read_meta_properties(disk, "/a") == MetaProperties("c", 3, UUID(int=7777), version=0)
    written = disk.read_bytes("/a/meta.properties").decode().split()
    assert {"broker.id=3", "version=0"} < set(written)
    assert not any(line.startswith("node.id") for line in written)


@pytest.mark.parametrize(
    "content",
    [
        b"version=0\nbroker.id=1\n",
        b"version=0\ncluster.id=x\nnode.id=1\n",
        b"version=1\ncluster.id=x\nbroker.id=1\n",
        b"version=1\nnode.id=1\n",
        b"version=1\ncluster.id=x\nnode.id=-\n",
        b"version=9\ncluster.id=x\nnode.id=1\n",
    ],
)
def test_unusable_meta_properties_say_so(content: bytes) -> None:
    disk = VirtualDisk()
    disk.makedirs("/a")
    disk.write_atomic("/a/meta.properties", content)
    assert isinstance(read_identities(disk, ["/a"]).failed["/a"], StorageError)


@pytest.mark.parametrize("name", ["t", "-1", "t-", "t-x", "t-1-delete", "t-1.x", "t--future"])
def test_names_that_are_no_logs(name: str) -> None:
    with pytest.raises(StorageError):
        parse_directory_name(name)


def test_names_of_logs() -> None:
    assert parse_directory_name("a-b-3") == TopicPartition("a-b", 3)
    assert parse_directory_name("a-b-3.0123456789abcdef0123456789abcdef-delete") == TopicPartition("a-b", 3)
    assert parse_directory_name("a.b-3.0123456789abcdef0123456789abcdef-future") == TopicPartition("a.b", 3)


@pytest.mark.parametrize("seed", range(30))
def test_what_is_flushed_in_a_new_log_survives_a_power_cut_with_its_names(seed: int) -> None:
    disk = VirtualDisk()
    logs = manager(disk)
    log = logs.create_log(PARTITION, TOPIC_ID, CONFIG)
    log.assign_epoch_start(4, 0)
    log.append_as_leader(batch(3), 4)
    log.flush()
    again = manager(disk.crash(random.Random(seed))).get_log(PARTITION)
    assert again is not None
    assert (again.topic_id, again.log_end_offset, again.latest_epoch) == (TOPIC_ID, 3, 4)


@pytest.mark.parametrize("seed", range(30))
def test_a_new_log_that_a_power_cut_takes_is_made_again(seed: int) -> None:
    disk = VirtualDisk()
    logs = manager(disk)
    logs.create_log(PARTITION, TOPIC_ID, CONFIG).assign_epoch_start(4, 0)
    disk = disk.crash(random.Random(seed))
    again = LogManager(disk, ManualClock(), ("/data",), no_broker(), random=random.Random(3))
    load_all(again, lambda _: CONFIG, is_stray=lambda _, topic_id: topic_id is None)
    log = again.create_log(PARTITION, TOPIC_ID, CONFIG)
    log.append_as_leader(batch(3), 5)
    assert (log.topic_id, log.log_end_offset) == (TOPIC_ID, 3)


def test_a_checkpoint_collected_earlier_never_replaces_one_collected_later() -> None:
    disk = VirtualDisk()
    logs = manager(disk)
    log = logs.create_log(PARTITION, TOPIC_ID, CONFIG)
    log.append_as_leader(batch(3), 0)
    log.flush()
    (late,) = logs.begin_recovery_points()
    log.truncate_to(1)
    late.run()  # the executor gets to it only now
    assert read_offset_checkpoint(disk, "/data/recovery-point-offset-checkpoint") == {PARTITION: log.recovery_point}
    assert log.recovery_point < 3


# -- moves that a crash cut short ---------------------------------------------------------------------------------------------------


A_ID, B_ID = UUID(int=(1 << 70) + 1), UUID(int=(1 << 70) + 2)


def two_logs(count: int = 3) -> tuple[VirtualDisk, LogManager]:
    """A partition in /a with its copy in /b, and the note that they are about to change places."""
    disk = VirtualDisk()
    logs = moving(disk)
    current = logs.create_log(PARTITION, TOPIC_ID, CONFIG, directory_id=A_ID)
    current.append_as_leader(batch(count), 0)
    future = logs.create_future_log(PARTITION, TOPIC_ID, CONFIG, "/b")
    future.append_as_follower(batch(count, epoch=0), 0)
    note_move(disk, current, future)()
    return disk, logs


def moving(disk: VirtualDisk) -> LogManager:
    made = LogManager(disk, ManualClock(), ("/a", "/b"), no_broker(), random=random.Random(3), directory_ids={"/a": A_ID, "/b": B_ID})
    load_all(made, lambda _: CONFIG)
    return made


def test_of_two_logs_of_a_partition_the_one_that_was_moved_here_stays() -> None:
    """The new name reached the disk and the loss of the old one did not."""
    disk, logs = two_logs()
    future = logs.get_log(PARTITION, future=True)
    assert future is not None
    disk.rename(future.directory, "/b/orders-0")
    after = moving(disk.kill())
    after.settle_moves(lambda topic_partition, topic_id: A_ID)
    log = after.get_log(PARTITION)
    assert log is not None
    assert log.directory == "/b/orders-0"
    assert not after.directories[0].logs
    assert after.directories[1].logs == {PARTITION: log}


def test_a_log_whose_exchange_was_cut_short_takes_its_place_whatever_the_metadata_says() -> None:
    disk, _ = two_logs()
    disk.rename("/a/orders-0", "/a/orders-0.0123-delete")
    after = moving(disk.kill())
    after.settle_moves(lambda topic_partition, topic_id: A_ID)
    log = after.get_log(PARTITION)
    assert log is not None
    assert log.directory == "/b/orders-0"
    assert len(read_all(log)) == 3


def test_a_log_that_is_deleted_takes_its_copy_with_it() -> None:
    """A topic of the same name would find it, and move there."""
    disk, logs = two_logs()
    logs.delete_log(PARTITION)
    assert logs.get_log(PARTITION, future=True) is None
    assert not [name for name in disk.listdir("/b") if name.endswith("-future")]


def test_a_copy_that_cannot_be_deleted_does_not_keep_the_log() -> None:
    """A topic of the same name would find it, with another topic id."""
    disk, logs = two_logs()
    disk.fail("/b", "rename")
    with pytest.raises(KafkaError):
        logs.delete_log(PARTITION)
    assert logs.get_log(PARTITION) is None
    assert not disk.exists("/a/orders-0")
    assert [directory.path for directory in logs.online_directories] == ["/a"]


@pytest.mark.parametrize("note", [False, True])
def test_a_copy_does_not_replace_a_log_whose_directory_is_offline(note: bool) -> None:
    disk, logs = two_logs()
    future = logs.get_log(PARTITION, future=True)
    assert future is not None
    if not note:
        disk.remove(f"{future.directory}/moved-from")
    survivor = disk.kill()
    survivor.fail("/a", "read")
    after = LogManager(survivor, ManualClock(), ("/a", "/b"), no_broker(), random=random.Random(3), directory_ids={"/a": A_ID, "/b": B_ID})
    load_all(after, lambda _: CONFIG)
    after.settle_moves(lambda topic_partition, topic_id: B_ID)
    assert after.get_log(PARTITION) is None
    assert after.get_log(PARTITION, future=True) is not None
    with pytest.raises(KafkaError) as caught:
        after.create_log(PARTITION, TOPIC_ID, CONFIG, directory_id=A_ID)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("checkpoint", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"])
def test_a_log_made_where_one_was_inherits_nothing(checkpoint: str) -> None:
    """Deleted and made again before the checkpoint was written: what the file says of the old log is not true of the new one."""
    disk = VirtualDisk()
    logs = moving(disk)
    log = logs.create_log(PARTITION, TOPIC_ID, CONFIG, directory_id=A_ID)
    log.append_as_leader(batch(20), 0)
    log.update_high_watermark(20)
    log.maybe_increment_log_start_offset(20)
    log.flush()
    checkpoint_recovery_points(logs)
    checkpoint_log_start_offsets(logs)
    logs.on_created = lambda: None  # nothing becomes durable by itself
    logs.delete_log(PARTITION)
    assert PARTITION in read_offset_checkpoint(disk, f"/a/{checkpoint}")
    log = logs.create_log(PARTITION, UUID(int=99), CONFIG, directory_id=A_ID)
    assert PARTITION not in read_offset_checkpoint(disk, f"/a/{checkpoint}")
    log.append_as_leader(batch(3), 0)
    again = moving(disk.kill()).get_log(PARTITION)
    assert again is not None
    assert (again.log_start_offset, again.log_end_offset) == (0, 3)


def test_what_the_cleaner_left_out_is_no_damage_after_the_policy_changed() -> None:
    """The last batches of a cleaned segment may be gone; under cleanup.policy=delete a crash must not take that for a lost end."""
    disk = VirtualDisk()
    logs = manager(disk)
    log = logs.create_log(PARTITION, TOPIC_ID, CONFIG)
    while len(log.segments) < 3:
        log.append_as_leader(batch(3), 0)
    end, segment = log.log_end_offset, log.segments[0]
    last = [found.position for found in segment.scan()][-1]
    disk.open(segment.log_path).truncate(last)
    write_offset_checkpoint(disk, "/data/cleaner-offset-checkpoint", {PARTITION: log.bases[1]})
    again = manager(disk.kill()).get_log(PARTITION)
    assert again is not None
    assert again.log_end_offset == end


def test_a_log_that_ends_below_its_stored_recovery_point_takes_it_back_before_anything_is_written() -> None:
    """As after a truncation that a crash cut short before the checkpoint."""
    disk = VirtualDisk()
    logs = manager(disk)
    log = logs.create_log(PARTITION, TOPIC_ID, CONFIG)
    other = logs.create_log(TopicPartition("other", 0), TOPIC_ID, CONFIG)
    for each in (log, other):
        for _ in range(6):
            each.append_as_leader(batch(3), 0)
        each.flush()
    checkpoint_recovery_points(logs)
    disk.open(log.segments[0].log_path).truncate(next(iter(log.segments[0].scan())).size)
    for segment in log.segments[1:]:
        disk.remove(segment.log_path)
    survivor = disk.kill()
    again = manager(survivor).get_log(PARTITION)
    assert again is not None
    assert (again.log_end_offset, again.recovery_point) == (3, 3)
    points = read_offset_checkpoint(survivor, "/data/recovery-point-offset-checkpoint")
    assert points[PARTITION] <= 3
    assert points[other.topic_partition] >= 17
    steps = survivor.kill()
    written: list[str] = []
    steps.fault = lambda operation, path: written.append(path) if operation == "rename" else None
    manager(steps)
    assert not written


def test_a_move_whose_second_rename_fails_leaves_the_current_log_in_its_place() -> None:
    disk, logs = two_logs()
    current = logs.get_log(PARTITION)
    assert current is not None
    disk.fail("/b", "rename")
    with pytest.raises(KafkaError) as caught:
        logs.replace_current_with_future(PARTITION)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert logs.get_log(PARTITION) is current
    assert (current.directory, disk.exists("/a/orders-0")) == ("/a/orders-0", True)
    assert current.append_as_leader(batch(1), 0).first_offset == 3
    again = moving(disk.kill()).get_log(PARTITION)
    assert again is not None
    assert len(read_all(again)) == 4


def test_a_moved_log_shows_what_the_one_before_it_showed() -> None:
    _, logs = two_logs()
    current = logs.get_log(PARTITION)
    assert current is not None
    current.update_high_watermark(2)
    assert logs.replace_current_with_future(PARTITION).high_watermark == 2


@pytest.mark.parametrize("names", [NONE, DIRECTORIES])
def test_a_move_that_is_finished_is_still_known_after_a_power_cut_at_any_moment(names: str) -> None:
    """The note about it goes last: whichever rename the power takes, one log of the partition is there, with what was flushed to it."""
    disk, logs = two_logs()
    current, future = logs.get_log(PARTITION), logs.get_log(PARTITION, future=True)
    assert current is not None
    assert future is not None
    current.flush()
    future.flush()
    disk.fsync_dir("/")
    survivors: list[VirtualDisk] = []

    def cut(operation: str, path: str) -> None:
        if operation != "read":
            survivors.extend(disk.crash(random.Random(seed), names=names, data=NONE) for seed in range(8))

    disk.fault = cut
    logs.replace_current_with_future(PARTITION)
    disk.fault = None
    for survivor in survivors:
        after = moving(survivor)
        after.settle_moves(lambda topic_partition, topic_id: A_ID)
        log = after.get_log(PARTITION)
        assert log is not None
        assert len(read_all(log)) == 3


def test_what_is_flushed_right_after_a_move_is_found_although_nobody_has_made_its_names_durable() -> None:
    disk, logs = two_logs()
    for log in (logs.get_log(PARTITION), logs.get_log(PARTITION, future=True)):
        assert log is not None
        log.flush()
    disk.fsync_dir("/")
    logs.on_created = lambda: None  # that job is still to come
    moved = logs.replace_current_with_future(PARTITION)
    moved.append_as_leader(batch(1), 0)
    moved.flush()
    after = moving(disk.crash(random.Random(1), names=NONE, data=NONE))
    after.settle_moves(lambda topic_partition, topic_id: A_ID)
    found = after.get_log(PARTITION)
    assert found is not None
    assert len(read_all(found)) == 4


def test_nothing_new_is_placed_in_a_cordoned_directory_unless_all_of_them_are() -> None:
    logs = manager(VirtualDisk(), "/a", "/b")
    logs.cordon(["/a"])
    for partition in range(3):
        logs.create_log(TopicPartition("t", partition), TOPIC_ID, CONFIG)
    assert [len(directory.logs) for directory in logs.directories] == [0, 3]
    logs.cordon(["/a", "/b"])
    assert logs.create_log(TopicPartition("t", 3), TOPIC_ID, CONFIG).parent_directory == "/a"
    logs.cordon([])
    assert logs.create_log(TopicPartition("t", 4), TOPIC_ID, CONFIG).parent_directory == "/a"


def test_a_directory_that_fails_is_let_go() -> None:
    """Whoever repairs it may use it while the broker runs on."""
    disk = VirtualDisk()
    logs = manager(disk, "/a", "/b")
    logs.directory_failed("/a", OSError(errno.EIO, "broken"))
    disk.lock("/a/.lock").release()
    with pytest.raises(BlockingIOError):
        disk.lock("/b/.lock")


def test_a_file_that_cannot_be_removed_stops_no_other() -> None:
    disk = VirtualDisk()
    clock = ManualClock()
    logs = manager(disk, clock=clock)
    log = logs.create_log(PARTITION, TOPIC_ID, CONFIG)
    for _ in range(60):
        log.append_as_leader(batch(1), 0)
    log.update_high_watermark(60)
    log.maybe_increment_log_start_offset(60)
    assert log.delete_old_segments() > 2
    other = logs.create_log(TopicPartition("t", 0), TOPIC_ID, CONFIG).directory
    logs.delete_log(TopicPartition("t", 0))
    deleted = [name for name in disk.listdir(log.directory) if name.endswith(".deleted")]
    assert logs.due_deletions() is None
    clock.advance_ms(60_000)
    deletion = logs.due_deletions()
    assert deletion is not None
    disk.fail(f"{log.directory}/{deleted[0]}", "remove")
    assert len(deletion.run()) == 1
    assert [name for name in disk.listdir(log.directory) if name.endswith(".deleted")] == deleted[:1]
    assert not [name for name in disk.listdir("/data") if name.startswith(other.rpartition("/")[2])]


def test_a_directory_that_cannot_be_removed_stops_no_other() -> None:
    disk = VirtualDisk()
    logs = manager(disk)
    for partition in range(3):
        logs.delete_log(logs.create_log(TopicPartition("t", partition), TOPIC_ID, CONFIG).topic_partition)
    deleted = [name for name in disk.listdir("/data") if name.endswith("-delete")]
    assert len(deleted) == 3
    disk.fail(f"/data/{deleted[0]}", "rmdir")
    deletion = logs.due_deletions(everything=True)
    assert deletion is not None
    assert len(deletion.run()) == 1
    assert [name for name in disk.listdir("/data") if name.endswith("-delete")] == deleted[:1]


def test_retention_passes_over_a_log_that_was_deleted_meanwhile() -> None:
    """It looks at some logs in a turn of the loop, and what it has not come to yet may be gone by then, files and all."""
    logs = manager(VirtualDisk())
    config = topic_config(segment_bytes=1000, retention_bytes=1000)
    made = [logs.create_log(TopicPartition("t", partition), TOPIC_ID, config) for partition in range(2)]
    for log in made:
        for _ in range(60):
            log.append_as_leader(batch(1), 0)
        log.update_high_watermark(60)
    steps = logs.cleanup_steps()
    assert next(steps)[1] > 0
    logs.delete_log(made[1].topic_partition)
    deletion = logs.due_deletions(everything=True)
    assert deletion is not None
    assert deletion.run() == []
    assert list(steps) == []
    assert [log.topic_partition for log in logs.logs] == [made[0].topic_partition]


def test_the_marker_that_a_start_took_does_not_come_back_with_a_power_cut() -> None:
    """What was written since would pass for flushed."""
    disk = VirtualDisk()
    logs = manager(disk)
    logs.create_log(PARTITION, TOPIC_ID, CONFIG).append_as_leader(batch(3), 0)
    logs.shutdown()
    disk.fsync_dir("/")
    survivor = disk.kill()
    manager(survivor)
    assert not survivor.crash(random.Random(1), names=NONE, data=NONE).exists("/data/.kafka_cleanshutdown")


@pytest.mark.parametrize("content", [b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", b"version: 0\ntopic_id: short", b"\0" * 40])
def test_a_topic_id_that_no_topic_has_is_none(content: bytes) -> None:
    disk = VirtualDisk()
    disk.write_atomic("/partition.metadata", content)
    with pytest.raises(StorageError, match=r"partition\.metadata"):
        read_partition_metadata(disk, "/partition.metadata")


def test_the_copy_of_a_log_on_its_way_is_checkpointed_too() -> None:
    disk, logs = two_logs()
    future = logs.get_log(PARTITION, future=True)
    assert future is not None
    future.update_high_watermark(3)
    future.maybe_increment_log_start_offset(2)
    future.flush()
    checkpoint_recovery_points(logs)
    checkpoint_log_start_offsets(logs)
    assert read_offset_checkpoint(disk, "/b/recovery-point-offset-checkpoint") == {PARTITION: future.checkpointed_recovery_point}
    assert read_offset_checkpoint(disk, "/b/log-start-offset-checkpoint") == {PARTITION: 2}
    again = moving(disk.kill()).get_log(PARTITION, future=True)
    assert again is not None
    assert (again.log_start_offset, again.log_end_offset) == (2, 3)


def test_a_clean_shutdown_makes_the_copy_of_a_log_on_its_way_durable_too() -> None:
    disk, logs = two_logs()
    logs.shutdown()
    again = moving(disk.crash(random.Random(1), data=NONE)).get_log(PARTITION, future=True)
    assert again is not None
    assert len(read_all(again)) == 3


def test_the_copy_of_a_log_on_its_way_takes_over_what_is_configured() -> None:
    _, logs = two_logs()
    config = topic_config(retention_ms=1)
    logs.reconfigure(lambda topic: config)
    assert [log.config for log in (logs.get_log(PARTITION), logs.get_log(PARTITION, future=True)) if log is not None] == [config] * 2


@pytest.mark.parametrize("verify", [True, False])
def test_logs_to_come_ask_for_verification_as_those_that_are_there(verify: bool) -> None:
    logs = LogManager(VirtualDisk(), ManualClock(), ("/data",), no_broker(), random=random.Random(3), verify_transactions=not verify)
    load_all(logs, lambda _: CONFIG)
    logs.create_log(TopicPartition("t", 0), TOPIC_ID, CONFIG)
    logs.update_producer_settings(60_000, verify_transactions=verify)
    logs.create_log(TopicPartition("t", 1), TOPIC_ID, CONFIG)
    transactional = batch(1, producer_id=5, producer_epoch=0, sequence=0, transactional=True)
    for log in logs.logs:
        if verify:
            with pytest.raises(KafkaError) as refused:
                log.append_as_leader(transactional, 0)
            assert refused.value.code is ErrorCode.INVALID_TXN_STATE
        else:
            assert log.append_as_leader(transactional, 0).first_offset == 0


def test_a_log_in_an_offline_directory_is_not_begun_anew_elsewhere() -> None:
    disk, logs = two_logs()
    logs.directory_failed("/a", OSError(errno.EIO, "broken"))
    with pytest.raises(KafkaError) as caught:
        logs.create_log(PARTITION, TOPIC_ID, CONFIG, directory_id=A_ID)
    assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
    assert not disk.exists("/b/orders-0")
    # The reserved ids and another directory name none that the records are known to be in.
    for number, directory_id in enumerate((None, UUID(int=0), UUID(int=1), UUID(int=2), B_ID)):
        partition = TopicPartition("t", number)
        with pytest.raises(KafkaError, match="offline: /a"):
            logs.create_log(partition, TOPIC_ID, CONFIG, directory_id=directory_id)
        assert logs.create_log(partition, TOPIC_ID, CONFIG, directory_id=directory_id, is_new=True).parent_directory == "/b"


def test_a_copy_on_its_way_keeps_a_new_log_from_being_begun_beside_it() -> None:
    disk, logs = two_logs()
    logs.directory_failed("/a", OSError(errno.EIO, "broken"))
    with pytest.raises(KafkaError, match="offline: /a"):
        logs.create_log(PARTITION, TOPIC_ID, CONFIG, directory_id=B_ID, is_new=True)
    assert not disk.exists("/b/orders-0")


def test_the_note_of_a_move_goes_when_both_names_are_durable() -> None:
    """The new name first: else a power cut could leave no log of the partition."""
    disk, logs = two_logs()
    seen: list[tuple[str, str]] = []
    disk.fault = lambda operation, path: seen.append((operation, path))
    logs.replace_current_with_future(PARTITION)
    disk.fault = None
    gone = seen.index(("remove", "/b/orders-0/moved-from"))
    assert seen.index(("fsync_dir", "/b")) < seen.index(("fsync_dir", "/a")) < gone
