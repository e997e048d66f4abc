"""The logs of new topics are made beside the loop, of a whole broker with real clients."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from odradek.base.ids import TopicPartition
from odradek.client import Admin, NewTopic, Producer
from odradek.storage.loader import load_log
from odradek.storage.log import Log
from odradek.testing.kit.embedded import EmbeddedBroker


class Creations:
    """What is opened of the topic that the test makes, and where; each may be held up."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.threads: set[str] = set()
        self.logs: list[Log] = []
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        monkeypatch.setattr("odradek.storage.creation.load_log", self._load)

    def _load(self, disk: Any, clock: Any, topic_partition: TopicPartition, *args: Any, **options: Any) -> Log:
        self.begun.set()
        assert self.go_on.wait(30)
        self.threads.add(threading.current_thread().name)
        self.logs.append(load_log(disk, clock, topic_partition, *args, **options))
        return self.logs[-1]


def create(broker: EmbeddedBroker, name: str, partitions: int) -> None:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, partitions, 1)])


def write(broker: EmbeddedBroker, topic: str, partition: int) -> int:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        return producer.send(topic, b"value", partition=partition).result(30).offset


def test_logs_are_made_in_another_thread_than_the_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    creations = Creations(monkeypatch)
    with EmbeddedBroker() as broker:
        create(broker, "new", 5)
        assert write(broker, "new", 4) == 0
        assert len(creations.logs) == 5
        assert "odradek-embedded" not in creations.threads


def test_others_are_served_while_logs_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with EmbeddedBroker() as broker, ThreadPoolExecutor(1) as pool:
        create(broker, "old", 1)
        creations = Creations(monkeypatch)
        creations.go_on.clear()
        created = pool.submit(create, broker, "new", 3)
        assert creations.begun.wait(30)
        assert write(broker, "old", 0) == 0, "with a producer id, which the controller gives"
        assert not created.done()
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            assert "new" not in {topic.name for topic in admin.list_topics()}
        creations.go_on.set()
        created.result(30)
        assert write(broker, "new", 2) == 0


def test_a_broker_that_stops_meanwhile_closes_what_was_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    creations = Creations(monkeypatch)
    creations.go_on.clear()
    broker = EmbeddedBroker(directory=str(tmp_path)).start()
    with ThreadPoolExecutor(2) as pool:
        created = pool.submit(create, broker, "new", 3)
        assert creations.begun.wait(30)
        stopped = pool.submit(broker.stop)
        with pytest.raises(TimeoutError):
            stopped.result(0.5)
        creations.go_on.set()
        stopped.result(30)
        created.exception(60)
    assert len(creations.logs) == 3
    assert all(log.closed for log in creations.logs)
    with EmbeddedBroker(directory=str(tmp_path)) as broker:
        assert write(broker, "new", 2) == 0
