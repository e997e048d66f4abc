"""Topics for tests of the data source without a JVM, on a broker of the module."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from interop.waiting import until
from odradek.base.ids import TopicPartition
from odradek.client import Admin, Consumer, NewTopic, Producer
from odradek.spark.batch import BatchReader
from odradek.spark.options import read_options, write_options
from odradek.spark.sink import write_rows
from odradek.spark.stream import StreamReader
from odradek.testing.kit.embedded import EmbeddedBroker


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    broker = EmbeddedBroker(directory=str(tmp_path_factory.mktemp("broker")))
    broker.start()
    yield broker.bootstrap_servers
    broker.stop()


_WHILE_AGO_MS = int(time.time() * 1000) - 3_600_000
"""Retention takes old records away."""


def ms(after: int) -> str:
    return str(_WHILE_AGO_MS + after)


class Topic:
    """A topic of one test."""

    def __init__(self, bootstrap: str, name: str, partitions: int, **config: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        with Admin(bootstrap_servers=bootstrap) as admin:
            admin.create_topics([NewTopic(name, partitions, 1, {key.replace("_", "."): value for key, value in config.items()})])

    def __getitem__(self, partition: int) -> TopicPartition:
        return TopicPartition(self.name, partition)

    def fill(self, partition: int, count: int) -> None:
        with Producer(bootstrap_servers=self.bootstrap, linger_ms=50) as producer:
            producer.send_many(self.name, [b"%d" % number for number in range(count)], partition=partition)

    def stamp(self, partition: int, seconds: Sequence[int]) -> None:
        """A record for each time, in milliseconds after a while ago."""
        with Producer(bootstrap_servers=self.bootstrap, linger_ms=50) as producer:
            for each in seconds:
                producer.send(self.name, b"%d" % each, partition=partition, timestamp=int(ms(each)))

    def delete_before(self, partition: int, offset: int) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.delete_records({self[partition]: offset})

    def delete(self) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.delete_topics([self.name])
            until(lambda: self.name not in {each.name for each in admin.list_topics()}, "the topic to be gone", 30)

    def add_partitions(self, total: int) -> None:
        with Admin(bootstrap_servers=self.bootstrap) as admin:
            admin.create_partitions({self.name: total})

    def contents(self) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
        """(key, value) of every record, by partition."""
        found: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
        with Consumer(bootstrap_servers=self.bootstrap, auto_offset_reset="earliest") as consumer:
            partitions = [self[number] for number in consumer.partitions_for(self.name)]
            ends = consumer.end_offsets(partitions)
            consumer.assign(partitions)
            while any(consumer.position(partition) < ends[partition] for partition in partitions):
                for record in consumer.poll(5000):
                    found.setdefault(record.partition, []).append((record.key, record.value))
        return found

    def options(self, **more: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap, "subscribe": self.name, **more}

    def batch(self, **more: str) -> BatchReader:
        return BatchReader(read_options(self.options(**more), streaming=False))

    def stream(self, **more: str) -> StreamReader:
        return StreamReader(read_options(self.options(**more), streaming=True))

    def write(self, *batches: object, **more: str) -> int:
        options = {"kafka.bootstrap.servers": self.bootstrap, "topic": self.name, **more}
        return write_rows(write_options(options, streaming=False), iter(batches)).rows


@pytest.fixture
def name(own_name: str) -> str:
    return own_name


def values(batches: Iterator[object]) -> list[int]:
    return [int(value) for batch in batches for value in batch.column("value").to_pylist()]  # type: ignore[attr-defined]
