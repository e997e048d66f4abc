"""Starting on what a crash or a shutdown left, Odradek and JVM Kafka 4.3.1 side by side on this machine.

    python -m bench.recovery [--rounds N] [--only ROW ...] [--scale FACTOR]

How it is measured: bench/comparison.py; a start is cold by nature.
- recovery of 5 GB after kill -9: five partitions whose whole active segment was never flushed (recovery point 0), 1 KB records in batches
  of 16 KB. The bytes are made once and shared: nothing in them is damaged, so that neither broker changes a `.log` file, and both rebuild
  all indexes. They are in the page cache for both. "start s" runs from the start of the process until it serves, "recovery s" is what
  the broker's own log says the loading of its logs took, "CPU s" the difference to a start after a clean shutdown.
- clean start with 5,000 partitions: five topics of a thousand partitions, each with a few records, and a clean shutdown. "start s" is
  until the broker serves, "RSS MB" what it then holds, "CPU s" what it took.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.clock import WallClock
from bench.comparison import MB, OVERRIDES, AnyRow, ColdRow, Figures, Target, at_most, run
from interop.peers import BrokerProcess, OdradekBroker
from odradek.base.ids import TopicPartition
from odradek.config.topic import TopicConfig
from odradek.records.batch import encode_batch
from odradek.storage.disk import OsDisk
from odradek.storage.loader import load_log

_PARTITIONS = 5
_BATCH_RECORDS = 15
_CHECKPOINTS = (".kafka_cleanshutdown", "recovery-point-offset-checkpoint", "replication-offset-checkpoint")


def create_partitions(broker: BrokerProcess, topics: list[str], partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.create_topics([NewTopic(topic, partitions, 1) for topic in topics]).values():
        done.result(120)


def make_unflushed(home: Path, size: int) -> None:
    """A directory as kill -9 leaves it: `size` bytes in the active segments of one topic, nothing known to be durable."""
    broker = OdradekBroker(home, OVERRIDES)
    broker.start()
    try:
        create_partitions(broker, ["load"], _PARTITIONS)
        if broker.stop():
            raise RuntimeError(broker.log_tail())
    finally:
        broker.kill()
    values = [random.Random(number).randbytes(1024) for number in range(_BATCH_RECORDS)]
    now_ms = time.time_ns() // 1_000_000
    for partition in range(_PARTITIONS):
        name = TopicPartition("load", partition)
        log = load_log(OsDisk(), WallClock(), name, str(broker.data / f"load-{partition}"), TopicConfig.build(None, {}), clean=True)
        while log.size < size // _PARTITIONS:
            now_ms += 1
            records = [(now_ms, None, value, ()) for value in values]
            batch = encode_batch(records, base_offset=log.log_end_offset, partition_leader_epoch=0)
            log.append_as_follower(memoryview(batch), 0)
        log.close()
    for checkpoint in _CHECKPOINTS:
        (broker.data / checkpoint).unlink(missing_ok=True)


def make_partitions(home: Path, topics: int, partitions: int) -> None:
    """A directory with `topics` x `partitions` logs of a few records, cleanly shut down."""
    broker = OdradekBroker(home, OVERRIDES)
    broker.start()
    try:
        names = [f"many-{number}" for number in range(topics)]
        create_partitions(broker, names, partitions)
        producer = Producer(
            {"bootstrap.servers": broker.bootstrap, "log_level": 0, "linger.ms": 50, "queue.buffering.max.messages": 400_000}
        )
        for name in names:
            for partition in range(partitions):
                for number in range(3):
                    producer.produce(name, b"record %d" % number, partition=partition)
            producer.poll(0)
        if producer.flush(120):
            raise RuntimeError("records left unsent")
        if broker.stop():
            raise RuntimeError(broker.log_tail())
    finally:
        broker.kill()


def share(source: Path, target: Path) -> None:
    """A copy of a directory in which the large files are the same ones: nobody writes to them."""

    def copy(path: str, to: str) -> str:
        if path.endswith(".log") and os.stat(path).st_size > MB:
            os.link(path, to)
            return to
        return shutil.copy2(path, to)

    shutil.copytree(source, target, copy_function=copy)


def warm(data: Path) -> None:
    for path in data.rglob("*.log"):
        with path.open("rb") as file:
            while file.read(1 << 22):
                pass


def start_on(broker: BrokerProcess) -> Figures:
    os.sync()
    begin = time.perf_counter()
    broker.start(timeout=600)
    elapsed = time.perf_counter() - begin
    return {"start s": elapsed, "CPU s": broker.cpu_seconds()}


_LOADED = re.compile(r"Loaded \d+ logs .*?in ([0-9.]+) ?(ms|s)\b")


def loading_seconds(broker: BrokerProcess) -> float:
    """How long loading the logs took, by the broker's own log."""
    found = _LOADED.search(broker.log_path.read_text(errors="replace"))
    if found is None:
        raise RuntimeError(f"{broker.name} does not say how long it loaded its logs: {broker.log_tail()}")
    return float(found[1]) / (1000 if found[2] == "ms" else 1)


def recovery(broker: BrokerProcess, source: Path) -> Figures:
    share(source / "unflushed" / "data", broker.data)
    warm(broker.data)
    figures = start_on(broker)
    seconds = loading_seconds(broker)
    status = broker.stop()
    if status not in (0, 143):
        raise RuntimeError(f"{broker.name} ended with {status}: {broker.log_tail()}")
    again = start_on(broker)
    broker.stop()
    return {"start s": figures["start s"], "recovery s": seconds, "CPU s": figures["CPU s"] - again["CPU s"]}


def clean_start(broker: BrokerProcess, source: Path) -> Figures:
    share(source / "many" / "data", broker.data)
    # The first start after the other broker's shutdown may have something to make up for; the second is what is asked for.
    start_on(broker)
    broker.stop()
    figures = start_on(broker)
    time.sleep(2)
    return {**figures, "RSS MB": broker.rss_bytes() / MB}


def rows(scale: float) -> Sequence[AnyRow]:
    return (
        ColdRow(
            "recovery of 5 GB after kill -9",
            recovery,
            {"recovery s": Target("<= 0.33x", ratio_max=1 / 3), "start s": at_most(1), "CPU s": at_most(0.5)},
            prepare=lambda source: make_unflushed(source / "unflushed", int(5000 * MB * scale)),
            talking="kafka.log.LogManager",
        ),
        ColdRow(
            "clean start with 5,000 partitions",
            clean_start,
            {"start s": at_most(1), "RSS MB": at_most(0.5), "CPU s": at_most(0.5)},
            prepare=lambda source: make_partitions(source / "many", 5, max(1, int(1000 * scale))),
        ),
    )


if __name__ == "__main__":
    run(__doc__, "recovery", rows)
