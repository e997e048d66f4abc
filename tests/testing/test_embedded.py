"""The embedded broker serves real clients from within the test process."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from odradek.base.errors import ConfigError, StorageError
from odradek.base.ids import TopicPartition
from odradek.client import Admin, ConfigResource, Consumer, NewTopic, Producer
from odradek.server.start.quorum import CatchUp
from odradek.testing.kit.embedded import EmbeddedBroker, EmbeddedCluster
from odradek.testing.kit.temporary import ReservedPort
from odradek.testing.simulation.disk import VirtualDisk


def _round_trip(bootstrap_servers: str, value: bytes) -> int:
    with Producer(bootstrap_servers=bootstrap_servers) as producer:
        return producer.send("topic", value, partition=0).result(30).offset


def test_clients_write_and_read_and_the_folder_goes() -> None:
    with EmbeddedBroker() as broker:
        folder = Path(broker.directory)
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics([NewTopic("topic", 1, 1)])
        assert _round_trip(broker.bootstrap_servers, b"one") == 0
        with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("topic", 0)])
            assert [record.value for record in consumer.poll(10_000)] == [b"one"]
    assert not folder.exists()


def test_a_given_folder_stays_and_is_served_again(tmp_path: Path) -> None:
    for offset in range(2):
        with EmbeddedBroker(directory=str(tmp_path)) as broker:
            assert _round_trip(broker.bootstrap_servers, b"value") == offset


def test_what_keeps_it_from_starting_is_raised() -> None:
    with pytest.raises(ConfigError, match=r"no\.such\.key"):
        EmbeddedBroker({"no.such.key": "1"}).start()


def _threads() -> set[threading.Thread]:
    """Those of embedded brokers; other tests may have one running."""
    return {thread for thread in threading.enumerate() if thread.name == "odradek-embedded"}


def test_a_metadata_log_that_cannot_be_flushed_is_said_and_nothing_is_left_running() -> None:
    before = _threads()
    disk = VirtualDisk()
    disk.makedirs("/data")
    disk.fail("/data/__cluster_metadata-0/00000000000000000000.log", "fsync", after=1)
    with pytest.raises(StorageError, match=r"__cluster_metadata-0.*Input/output error"):
        EmbeddedBroker(directory="/data", disk=disk).start(60)
    assert _threads() == before
    assert disk.locks == set()


def test_a_start_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_: CatchUp) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(CatchUp, "start", never)
    before = _threads()
    broker = EmbeddedBroker()
    with pytest.raises(TimeoutError):
        broker.start(0.2)
    assert _threads() == before
    assert not Path(broker.directory).exists()


def test_a_broker_that_was_never_started_can_be_stopped() -> None:
    broker = EmbeddedBroker()
    broker.stop()
    assert not Path(broker.directory).exists()


def test_listeners_for_clients_are_completed_by_one_for_the_controller() -> None:
    reserved = ReservedPort()
    port = reserved.port
    with EmbeddedBroker({"listeners": f"PLAINTEXT://127.0.0.1:{port}"}) as broker:
        assert broker.bootstrap_servers == f"127.0.0.1:{port}"


def test_numbers_and_booleans_are_settings_and_other_values_name_their_key() -> None:
    settings = {"num.partitions": 3, "auto.create.topics.enable": False, "log.flush.interval.messages": 7}
    with EmbeddedBroker(settings) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        (described,) = admin.describe_configs([ConfigResource("broker", "1")]).values()
        found = {entry.name: entry for entry in described}
    assert [found[key].value for key in settings] == ["3", "false", "7"]
    for settings_of_no_kind in ({"num.partitions": None}, {"num.partitions": {}}, {"num.partitions": b"3"}):
        with pytest.raises(ConfigError, match=r"num\.partitions"):
            EmbeddedBroker(settings_of_no_kind)  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["listeners", "node.id", "log.dirs"])
def test_what_no_two_nodes_can_share_is_refused_by_its_name(key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        EmbeddedCluster(2, {key: "1"})
