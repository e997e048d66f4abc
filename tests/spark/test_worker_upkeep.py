"""What is done in workers so that tasks begin and end quickly."""

from __future__ import annotations

import importlib
import os
import pickle
import socket
import struct
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from zipimport import zipimporter

import pytest

from odradek.spark import worker_upkeep
from odradek.spark.batch import BatchReader
from odradek.spark.log_source import LogReader
from odradek.spark.options import log_options, read_options, write_options
from odradek.spark.sink import BatchWriter
from odradek.spark.stream import StreamReader
from odradek.spark.stream_sink import StreamWriter


def test_a_worker_of_spark_spares_what_it_has_once(monkeypatch: pytest.MonkeyPatch) -> None:
    froze: list[str] = []
    monkeypatch.setattr(worker_upkeep.gc, "freeze", lambda: froze.append("now"))
    monkeypatch.setattr(worker_upkeep, "_spared", None)
    worker_upkeep.exempt_current_objects()
    assert froze == [], "the process of a user"
    monkeypatch.setattr(worker_upkeep.TaskContext, "get", lambda: "a task")
    for _ in range(3):
        worker_upkeep.exempt_current_objects()
    assert froze == ["now"]


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An archive on the path, which has been imported from."""
    path = tmp_path / "modules.zip"
    write(path, "kept_one", "WHAT = 1")
    monkeypatch.syspath_prepend(str(path))
    assert importlib.import_module("kept_one").WHAT == 1
    return path


def write(path: Path, *modules: str) -> None:
    with zipfile.ZipFile(path, "w") as file:
        for name, text in zip(modules[::2], modules[1::2], strict=True):
            file.writestr(f"{name}.py", text)


def test_an_archive_is_listed_again_only_when_it_has_changed(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []
    original = zipimporter.invalidate_caches

    def counted(importer: zipimporter) -> None:
        listed.append(importer.archive)
        original(importer)

    monkeypatch.setattr(zipimporter, "invalidate_caches", counted)
    worker_upkeep.keep_archives()
    for _ in range(5):
        importlib.invalidate_caches()
        worker_upkeep.keep_archives()
    assert listed.count(str(archive)) == 1, "what was listed before may be older than the file"
    write(archive, "kept_one", "WHAT = 1", "kept_two", "WHAT = 2")
    importlib.invalidate_caches()
    assert listed.count(str(archive)) == 2
    assert importlib.import_module("kept_two").WHAT == 2


def test_what_came_into_an_archive_before_it_was_kept_is_found(archive: Path) -> None:
    write(archive, "kept_one", "WHAT = 1", "kept_three", "WHAT = 3")
    worker_upkeep.keep_archives()
    importlib.invalidate_caches()
    assert importlib.import_module("kept_three").WHAT == 3


def test_an_archive_that_is_gone_hinders_nobody(archive: Path) -> None:
    worker_upkeep.keep_archives()
    importlib.invalidate_caches()
    archive.unlink()
    importlib.invalidate_caches()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("kept_four")
    assert type(sys.path_importer_cache[str(archive)]) is not zipimporter


@pytest.fixture
def talk(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[socket.socket, socket.socket]]:
    """A connection of which the receiver, the second, lets acknowledgements wait, as it is in the middle of a conversation."""
    monkeypatch.setattr(worker_upkeep, "_from_spark", None)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as sender:
        receiver = server.accept()[0]
        with receiver:
            for _ in range(50):
                sender.send(b"question")
                receiver.recv(100)
                receiver.send(b"answer")
                sender.recv(100)
            yield sender, receiver


def unacknowledged(sender: socket.socket) -> int:
    """Pieces that its peer's system has not acknowledged: tcpi_unacked."""
    found: int = struct.unpack_from("5I", sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104), 8)[4]
    return found


def test_what_came_is_acknowledged_at_once(talk: tuple[socket.socket, socket.socket], tmp_path: Path) -> None:
    sender, receiver = talk
    with (tmp_path / "file").open("w"):  # a descriptor that is no socket
        for _ in range(3):
            sender.send(b"a function")
            receiver.recv(100)
            worker_upkeep.acknowledge_at_once()
            assert unacknowledged(sender) == 0
            receiver.send(b"rows")
            sender.recv(100)
    sender.send(b"more")
    assert receiver.recv(100) == b"more", "it stays open"


def test_a_worker_whose_connection_is_gone_goes_on(talk: tuple[socket.socket, socket.socket]) -> None:
    worker_upkeep.acknowledge_at_once()
    for each in talk:
        each.close()
    worker_upkeep.acknowledge_at_once()


def test_a_forked_process_looks_for_its_own_connection(talk: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    sender, receiver = talk
    monkeypatch.setattr(worker_upkeep, "_from_spark", (os.getpid() + 1, ()))
    sender.send(b"a function")
    receiver.recv(100)
    worker_upkeep.acknowledge_at_once()
    assert unacknowledged(sender) == 0


def test_a_system_without_proc_is_left_alone(talk: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: str) -> list[str]:
        raise FileNotFoundError

    monkeypatch.setattr(worker_upkeep.os, "listdir", nothing)
    worker_upkeep.acknowledge_at_once()


def test_a_system_without_the_option_is_left_alone(talk: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(socket, "TCP_QUICKACK")
    worker_upkeep.acknowledge_at_once()
    assert worker_upkeep._from_spark is None


WRITE = {"kafka.bootstrap.servers": "127.0.0.1:1"}
READ = {**WRITE, "subscribe": "one"}
SENT = (
    BatchReader(read_options(READ, streaming=False)),
    StreamReader(read_options(READ, streaming=True)),
    LogReader(log_options({"path": "/nowhere", "subscribe": "one"})),
    BatchWriter(write_options(WRITE, streaming=False)),
    StreamWriter(write_options(WRITE, streaming=True)),
)


@pytest.mark.parametrize("sent", SENT, ids=lambda each: type(each).__name__)
def test_all_that_spark_sends_to_workers_acknowledges(sent: object, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    monkeypatch.setattr(worker_upkeep, "acknowledge_at_once", lambda: heard.append("now"))
    received = pickle.loads(pickle.dumps(sent))
    assert heard == ["now"]
    assert received._options == sent._options  # type: ignore[attr-defined]
