"""Loading a directory with several workers: who loads what, what one failing log does, and what is reported."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from random import Random
from typing import Any

import pytest

from odradek.base.errors import StorageError
from odradek.base.ids import TopicPartition
from odradek.storage.loader import load_log
from odradek.storage.loading import DirectoryLoading, LoadProgress
from odradek.storage.log import Log
from odradek.storage.log_directory import LogDirectory
from odradek.storage.log_manager import LogManager
from odradek.storage.options import LogOptions
from odradek.testing.simulation.disk import VirtualDisk
from tests.clock import ManualClock
from tests.storage.support import TOPIC_ID, batch, load_all, no_broker, topic_config


def filled(disk: VirtualDisk, *directories: str) -> None:
    manager = LogManager(disk, ManualClock(), directories, no_broker(), random=Random(1))
    load_all(manager, lambda _: topic_config())
    for number in range(12):
        log = manager.create_log(TopicPartition("orders", number), TOPIC_ID, topic_config())
        for _ in range(number):
            log.append_as_leader(batch(1), 0)
    for directory in manager.directories:
        directory.release()


def loading(
    disk: VirtualDisk, path: str, lock: AbstractContextManager[object], reports: list[LoadProgress] | None = None
) -> DirectoryLoading:
    on_progress = reports.append if reports is not None else None
    return DirectoryLoading(disk, ManualClock(), LogDirectory(disk, path), lambda _: topic_config(), LogOptions(), lock, on_progress)


def test_several_workers_load_every_log_once() -> None:
    disk = VirtualDisk()
    filled(disk, "/data")
    reports: list[LoadProgress] = []
    found = loading(disk.kill(), "/data", threading.Lock(), reports)
    found.open()
    workers = [threading.Thread(target=found.work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    logs = found.result()
    assert not isinstance(logs, Exception)
    assert sorted((log.topic_partition.partition, log.log_end_offset) for log in logs) == [(number, number) for number in range(12)]
    assert {report.log for report in reports} == {f"orders-{number}" for number in range(12)}
    assert {report.total for report in reports} == {12}


def test_a_log_that_cannot_be_loaded_takes_its_directory_offline_and_no_other(caplog: pytest.LogCaptureFixture) -> None:
    disk = VirtualDisk()
    filled(disk, "/a", "/b")
    survivor = disk.kill()
    survivor.write_atomic("/a/orders-0/partition.metadata", b"version: 7\n")
    survivor.write_atomic("/a/.kafka_cleanshutdown", b"{}")
    failed: list[str] = []
    manager = LogManager(
        survivor, ManualClock(), ["/a", "/b"], no_broker(), random=Random(1), on_directory_failure=lambda path, _: failed.append(path)
    )
    load_all(manager, lambda _: topic_config())
    assert failed == ["/a"]
    assert [directory.path for directory in manager.online_directories] == ["/b"]
    assert {log.parent_directory for log in manager.logs} == {"/b"}
    assert "/a/orders-0" in caplog.text


def test_a_directory_that_is_no_log_is_refused() -> None:
    disk = VirtualDisk()
    filled(disk, "/data")
    survivor = disk.kill()
    survivor.makedirs("/data/holiday pictures")
    found = loading(survivor, "/data", threading.Lock())
    found.open()
    found.work()
    with pytest.raises(StorageError, match="holiday pictures"):
        found.result()


def test_what_was_loaded_before_a_log_failed_is_closed_and_the_rest_left_alone() -> None:
    disk = VirtualDisk()
    filled(disk, "/data")
    survivor = disk.kill()
    survivor.write_atomic("/data/orders-10/partition.metadata", b"version: 7\n")
    survivor.write_atomic("/data/.kafka_cleanshutdown", b"{}")
    reports: list[LoadProgress] = []
    found = loading(survivor, "/data", threading.Lock(), reports)
    loaded: list[Log] = []
    found.open()
    original = load_log

    def load(*arguments: Any, **named: Any) -> Log:
        loaded.append(original(*arguments, **named))
        return loaded[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("odradek.storage.loading.load_log", load)
        found.work()
        found.work()
    assert isinstance(found.result(), StorageError)
    # In the order of their names: orders-0, orders-1, orders-10.
    assert [log.topic_partition.partition for log in loaded] == [0, 1]
    assert all(log.closed for log in loaded)
    assert {report.log for report in reports} == {"orders-0", "orders-1", "orders-10"}
