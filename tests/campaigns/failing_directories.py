"""Failures of the file system of one of two log directories under load, and of the last log directory.

    python -m tests.campaigns.failing_directories --count 6 --seed 1

Needs root and loop mounts: the second directory is an ext4 file system in a file. Every record is flushed (flush.messages=1). The file
system is shut down as by a cut cable (every operation fails with EIO, unsynced changes are lost), aborted by the kernel (EROFS) or filled
(ENOSPC). Checks:
  the-rest-serves     writes to partitions in the other directory are acknowledged within 10 s;
  offline-is-shown    DescribeLogDirs answers KAFKA_STORAGE_ERROR for the directory, and its partitions have no leader;
  acked-is-there      after the repair and a restart, every acknowledged record is at its acknowledged offset;
  last-one-halts      when the only directory fails, the process ends with a status other than 0 and one line with the reason.
The seed decides kinds and times; the load runs in real time.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import random
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.differential.peer import Peer
from interop.peers import OdradekBroker
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from tests.campaigns.power_cuts import stopped
from tests.campaigns.reading import read_to_end

TOPIC = "fails"
PARTITIONS = 4
KINDS = ("shut down", "aborted", "full")
KAFKA_STORAGE_ERROR = 56
_SHUTDOWN, _NO_LOG_FLUSH = 0x8004587D, 2
"""EXT4_IOC_SHUTDOWN: every operation fails from now on, and the journal is not written any more."""


def unavailable() -> str | None:
    """Return the reason why the campaign cannot run here, or None when it can."""
    if os.geteuid() != 0:
        return "it mounts file systems, which only root may"
    with tempfile.TemporaryDirectory(prefix="odradek-mount-") as folder:
        try:
            with FileSystem(Path(folder) / "image", Path(folder) / "mounted"):
                return None
        except (OSError, subprocess.CalledProcessError) as error:
            return f"a file system in a file cannot be mounted: {error}"


def command(*words: str | Path) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)


class FileSystem:
    """An ext4 file system of 64 MiB in a file, mounted inside a `with` block."""

    def __init__(self, image: Path, path: Path) -> None:
        self.image = image
        self.path = path
        with image.open("wb") as file:
            file.truncate(64 << 20)
        command("mkfs.ext4", "-q", "-F", image)
        path.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> FileSystem:
        self.mount()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            command("umount", "-l", self.path)

    def mount(self) -> None:
        command("mount", "-o", "loop", self.image, self.path)

    def fail(self, kind: str) -> None:
        if kind == "shut down":
            descriptor = os.open(self.path, os.O_RDONLY)
            try:
                fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
            finally:
                os.close(descriptor)
        elif kind == "aborted":
            with contextlib.suppress(subprocess.CalledProcessError):
                command("mount", "-o", "remount,abort", self.path)
        else:
            with (self.path / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(bytes(1 << 16))

    def repair(self, kind: str) -> None:
        """Repair the file system, or remove the filler. No process may have a file open there."""
        if kind == "full":
            (self.path / "filler").unlink()
            return
        command("umount", self.path)
        subprocess.run(["e2fsck", "-fy", str(self.image)], capture_output=True, check=False)
        self.mount()


class Load(threading.Thread):
    """Producer thread of one partition, which remembers acknowledged offsets and values."""

    def __init__(self, bootstrap: str, partition: int) -> None:
        super().__init__(name=f"producer-{partition}")
        self.partition = partition
        self.acked: dict[int, int] = {}
        self.sent = 0
        self.stopping = threading.Event()
        settings = {"acks": "all", "linger.ms": 1, "message.timeout.ms": 4000, "topic.metadata.refresh.interval.ms": 500}
        self.producer = Producer({"bootstrap.servers": bootstrap, "retries": 100, **settings})

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        value, offset = message.value(), message.offset()
        if error is None and value is not None and offset is not None:
            self.acked[offset] = int(value.split(b":")[1])

    def run(self) -> None:
        while not self.stopping.is_set():
            with contextlib.suppress(BufferError):
                self.producer.produce(
                    TOPIC, b"%d:%d:" % (self.partition, self.sent) + b"x" * 100, partition=self.partition, on_delivery=self.delivered
                )
                self.sent += 1
            self.producer.poll(0)
            self.stopping.wait(0.005)
        self.producer.flush(10)


def directories(broker: OdradekBroker) -> tuple[dict[int, str], dict[str, int]]:
    """Return (partition -> its log directory, log directory -> error code)."""
    peer = Peer("odradek", broker.port)
    answer = peer.call(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None))
    peer.close()
    places = {
        p.partition_index: each.log_dir for each in answer.results for topic in each.topics if topic.name == TOPIC for p in topic.partitions
    }
    return places, {each.log_dir: each.error_code for each in answer.results}


@contextlib.contextmanager
def running(broker: OdradekBroker) -> Iterator[None]:
    try:
        yield
    finally:
        broker.kill()


def one_failure(kind: str, seed: int, folder: Path) -> list[str]:
    """Run one broker with one failure and one restart, and return the violations."""
    rng = random.Random(seed)
    problems: list[str] = []
    with FileSystem(folder / "image", folder / "second") as second:
        broker = OdradekBroker(folder / "node", {"log.dirs": f"{{data}},{second.path}/logs", "log.flush.interval.messages": "1"})
        with running(broker):
            broker.start()
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
            places, _ = directories(broker)
            lost = [number for number, path in places.items() if path.startswith(str(second.path))]
            loads = [Load(broker.bootstrap, number) for number in range(PARTITIONS)]
            for load in loads:
                load.start()
            time.sleep(rng.uniform(0.5, 2))
            with stopped(broker):
                second.fail(kind)
            before = {load.partition: len(load.acked) for load in loads}
            deadline = time.monotonic() + 10
            kept = [load for load in loads if load.partition not in lost]
            while any(len(load.acked) < before[load.partition] + 50 for load in kept) and time.monotonic() < deadline:
                time.sleep(0.05)
            if any(len(load.acked) < before[load.partition] + 50 for load in kept):
                problems.append(f"the-rest-serves: nothing acknowledged in the other directory within 10 s ({kind})")
            problems += shown_offline(broker, admin, str(second.path), lost, kind)
            for load in loads:
                load.stopping.set()
            for load in loads:
                load.join()
            broker.stop()
            second.repair(kind)
            broker.start()
            for load in loads:
                rows = read_to_end(broker.bootstrap, TOPIC, [load.partition])[load.partition]
                found = {row.offset: int(row.value.split(b":")[1]) for row in rows}
                missing = [offset for offset, number in load.acked.items() if found.get(offset) != number]
                if missing or not load.acked:
                    problems.append(f"acked-is-there: partition {load.partition} lacks {len(missing)} of {len(load.acked)} ({kind})")
            broker.stop()
        if problems:
            problems.append(broker.log_tail())
    return problems


def shown_offline(broker: OdradekBroker, admin: AdminClient, path: str, lost: list[int], kind: str) -> list[str]:
    deadline = time.monotonic() + 10
    while True:
        codes = directories(broker)[1]
        code = next(code for directory, code in codes.items() if directory.startswith(path))
        partitions = admin.list_topics(TOPIC, timeout=10).topics[TOPIC].partitions
        leaders = [partitions[number].leader for number in lost]
        if code == KAFKA_STORAGE_ERROR and all(leader == -1 for leader in leaders):
            return []
        if time.monotonic() > deadline:
            return [f"offline-is-shown: error code {code}, leaders {leaders} ({kind})"]
        time.sleep(0.1)


def last_failure(kind: str, folder: Path) -> list[str]:
    """Let the only directory fail, and return the violations."""
    with FileSystem(folder / "image", folder / "only") as only:
        broker = OdradekBroker(folder / "node", {"log.dirs": f"{only.path}/logs", "log.flush.interval.messages": "1"})
        broker.data = only.path / "logs"
        with running(broker):
            broker.start()
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
            load = Load(broker.bootstrap, 0)
            load.start()
            time.sleep(0.5)
            only.fail(kind)
            try:
                assert broker.process is not None
                status = broker.process.wait(20)
            except subprocess.TimeoutExpired:
                return [f"last-one-halts: still running 20 s after its only directory was {kind}"]
            finally:
                load.stopping.set()
                load.join()
        said = [line for line in broker.log_tail(200).splitlines() if line.startswith("odradek start: ")]
        if status == 0 or len(said) != 1 or str(only.path) not in said[0]:
            return [f"last-one-halts: status {status}, said {said} ({kind})", broker.log_tail()]
    return []


def campaign(count: int, seed: int, folder: Path) -> list[str]:
    """Run `count` failures of one of two directories, and one failure of the only directory for each kind. Return the violations."""
    problems: list[str] = []
    kinds = list(KINDS)
    random.Random(seed).shuffle(kinds)
    for number in range(count):
        place = folder / f"failure-{number}"
        place.mkdir(parents=True)
        kind = kinds[number % len(kinds)]
        found = one_failure(kind, seed + number, place)
        print(f"{number}: {kind}: {'; '.join(found) or 'ok'}", flush=True)
        problems += found
    for kind in kinds:
        place = folder / f"last-{kind.replace(' ', '-')}"
        place.mkdir(parents=True)
        found = last_failure(kind, place)
        print(f"last one {kind}: {'; '.join(found) or 'ok'}", flush=True)
        problems += found
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description="file systems that fail under one of two log directories")
    parser.add_argument("--count", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    reason = unavailable()
    if reason is not None:
        print(f"failing_directories NOT RUN: {reason}")
        sys.exit(0)
    with tempfile.TemporaryDirectory(prefix="odradek-failing-") as folder:
        problems = campaign(options.count, options.seed, Path(folder))
    print(f"{options.count} failures of one directory, {len(KINDS)} of the last one, {len(problems)} problems (seed {options.seed})")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
