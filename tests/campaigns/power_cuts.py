"""Repeated power cuts of the disk under a broker, on a loop-mounted ext4.

    python -m tests.campaigns.power_cuts --cuts 200 --seed 1      (root and loop devices are needed)

The broker is stopped (SIGSTOP), the file system discards the changes that its journal does not contain yet (EXT4_IOC_SHUTDOWN), the broker
is killed, the disk mounted again and the broker started. Half of the cuts happen with flush.messages=1, half with Kafka's default, which
leaves flushing to the kernel. At the same time a client creates and deletes topics and deletes records, and a compacted topic is cleaned
all the time. Named checks:
  opens             the broker starts after every cut with all its log directories;
  acked-is-there, no-duplicates, order-kept   as in `kills`, under flush.messages=1;
  last-values       of each key of the compacted topic the last acknowledged value, or a later one, exists (flush.messages=1);
  valid-prefix      with default flushing: a partition contains a prefix of its former records and of those sent after them, without a gap;
                    acknowledged records that are lost are counted.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from interop.peers import OdradekBroker
from tests.campaigns import kills
from tests.campaigns.reading import Row, read_to_end

EXT4_IOC_SHUTDOWN = 0x8004587D
WITHOUT_JOURNAL_FLUSH = 2
IMAGE_MIB = 512
SETTINGS = {
    "log.segment.bytes": "1048576",
    "log.cleaner.backoff.ms": "100",
    "log.retention.check.interval.ms": "1000",
    "log.flush.offset.checkpoint.interval.ms": "1000",
    "log.flush.start.offset.checkpoint.interval.ms": "1000",
    "log.segment.delete.delay.ms": "500",
    # The default is longer than a life of the broker here: deleted partitions would pile up, until the disk has no inode left.
    "log.initial.task.delay.ms": "500",
    # Otherwise librdkafka's producers would create the deleted topics again when they reconnect.
    "auto.create.topics.enable": "false",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "segment.ms": "1000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
}
KEYS = 50
CLIENT = kills.CLIENT


def why_not() -> str:
    """Return what this machine lacks for the campaign, or "" when it lacks nothing."""
    if os.geteuid() != 0:
        return "power cuts need root, to mount"
    for tool in ("mkfs.ext4", "mount", "umount"):
        if shutil.which(tool) is None:
            return f"power cuts need {tool}"
    if not Path("/dev/loop-control").exists():
        return "power cuts need loop devices, and /dev/loop-control is missing"
    with tempfile.TemporaryDirectory(prefix="odradek-power-") as folder:
        disk = CutDisk(Path(folder))
        try:
            disk.make(16)
            disk.cut()
            disk.unmount()
        except (OSError, subprocess.CalledProcessError) as error:
            output = (
                error.stderr.decode(errors="replace").strip() if isinstance(error, subprocess.CalledProcessError) and error.stderr else ""
            )
            return f"power cuts need a loop-mounted ext4 that can be shut down: {error} {output}"
        finally:
            disk.unmount(quietly=True)
    return ""


class CutDisk:
    """An ext4 file system in a file, mounted through a loop device."""

    def __init__(self, folder: Path) -> None:
        self.image = folder / "disk.img"
        self.mount_point = folder / "disk"

    def make(self, mebibytes: int) -> None:
        with self.image.open("wb") as image:
            image.truncate(mebibytes << 20)
        _run("mkfs.ext4", "-q", "-F", str(self.image))
        self.mount_point.mkdir()
        self.mount()

    def mount(self) -> None:
        """Mount the file system, which replays its journal."""
        _run("mount", "-o", "loop", str(self.image), str(self.mount_point))

    def cut(self) -> None:
        """Stop all writes to the disk from now on. Changes that are not on the disk are lost."""
        descriptor = os.open(self.mount_point, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(descriptor, EXT4_IOC_SHUTDOWN, struct.pack("I", WITHOUT_JOURNAL_FLUSH))
        finally:
            os.close(descriptor)

    def write_back(self) -> None:
        """Write all changes so far, and the journal, to the disk."""
        import ctypes

        descriptor = os.open(self.mount_point, os.O_RDONLY | os.O_DIRECTORY)
        try:
            ctypes.CDLL(None).syncfs(descriptor)
        finally:
            os.close(descriptor)

    def unmount(self, *, quietly: bool = False) -> None:
        done = subprocess.run(["umount", str(self.mount_point)], capture_output=True, check=False)
        if done.returncode and not quietly:
            raise OSError(done.returncode, done.stderr.decode(errors="replace").strip())


def _run(*command: str) -> None:
    subprocess.run(command, capture_output=True, check=True)


@contextlib.contextmanager
def stopped(broker: OdradekBroker) -> Iterator[None]:
    """Stop the broker's process inside the block.

    A file system takes milliseconds to fail. An fsync in these milliseconds may report success for data that is lost, whichever process
    calls it.
    """
    process = broker.process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    # Returns when all threads have stopped; a thread within an fsync stops when the fsync has ended.
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


class CompactedLoad(threading.Thread):
    """Producer thread that writes rising numbers under few keys, and remembers the last acknowledged number of each key."""

    def __init__(self, bootstrap: str, rate: int) -> None:
        super().__init__(name="compacted")
        self.rate = rate
        self.acked: dict[bytes, int] = {}
        self.stopping = threading.Event()
        self.producer = Producer(
            {**CLIENT, "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": 300_000}
        )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        key, value = message.key(), message.value()
        if error is None and key is not None and value is not None:
            self.acked[key] = max(self.acked.get(key, -1), int(value.split(b":")[0]))

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            value = f"{number}:".encode() + b"y" * 500
            with contextlib.suppress(BufferError):
                self.producer.produce("compacted", value, key=b"k%d" % (number * 7 % KEYS), on_delivery=self._delivered)
                number += 1
            self.producer.poll(0)
            self.stopping.wait(1 / self.rate)
        self.producer.flush(120)


class Side(threading.Thread):
    """Thread that creates and deletes topics, writes to them and deletes records. Errors are ignored, as the power may be off."""

    def __init__(self, bootstrap: str, rng: random.Random) -> None:
        super().__init__(name="side")
        self.admin = AdminClient({**CLIENT, "bootstrap.servers": bootstrap})
        self.producer = Producer({**CLIENT, "bootstrap.servers": bootstrap, "message.timeout.ms": 2000})
        self.rng = rng
        self.done = 0
        self.stopping = threading.Event()

    def run(self) -> None:
        number = 0
        topics: list[str] = []
        while not self.stopping.is_set():
            try:
                if len(topics) > 4:
                    name = topics.pop(0)
                    self.admin.delete_topics([name], operation_timeout=2, request_timeout=2)[name].result(3)
                else:
                    number += 1
                    name = f"side-{id(self)}-{number}"
                    topics.append(name)
                    config = {"retention.bytes": "20000", "segment.bytes": "1048576", "file.delete.delay.ms": "200"}
                    self.admin.create_topics([NewTopic(name, 2, 1, config=config)], request_timeout=2)[name].result(3)
                    for index in range(50):
                        self.producer.produce(name, b"z" * 200, partition=index % 2)
                    self.producer.flush(2)
                    self.admin.delete_records([TopicPartition(name, 0, self.rng.randrange(25))], request_timeout=2)
                self.done += 1
            except (KafkaException, BufferError, TimeoutError):
                pass
            self.stopping.wait(0.05)


class Machine:
    """Broker with its disk."""

    def __init__(self, folder: Path, settings: dict[str, str]) -> None:
        self.disk = CutDisk(folder)
        self.disk.make(IMAGE_MIB)
        self.broker = OdradekBroker(folder, settings)
        self.broker.data = self.disk.mount_point / "data"
        self.problems: list[str] = []

    def cut(self) -> None:
        """Cut the power."""
        with stopped(self.broker):
            self.disk.cut()
            self.broker.kill()

    def come_back(self) -> float:
        """Bring disk and broker back, and return the seconds of the broker's start."""
        self.disk.unmount()
        self.disk.mount()
        begun = time.monotonic()
        position = self.broker.log_path.stat().st_size
        self.broker.start()
        said = self.broker.log_path.read_bytes()[position:]
        if b"goes offline" in said or (b"-stray" in said and b"side-" not in said):
            self.problems.append(f"opens: {said[-500:].decode(errors='replace')}")
        return time.monotonic() - begun

    def end(self) -> None:
        if self.broker.process is not None and self.broker.stop() != 0:
            self.problems.append("the last shutdown was not clean")
        self.disk.unmount(quietly=True)


@contextlib.contextmanager
def machine(folder: Path, settings: dict[str, str]) -> Iterator[Machine]:
    """Yield a running machine, and clean it up in any case."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Machine(folder, settings)
    try:
        made.broker.start()
        yield made
    except BaseException:
        made.broker.kill()
        made.disk.unmount(quietly=True)
        raise
    made.end()


def flushed(cuts: int, seed: int, folder: Path, rate: int) -> list[str]:
    """Cut the power with flush.messages=1: no acknowledged record may be lost."""
    rng = random.Random(f"flushed {seed}")
    with machine(folder, {**SETTINGS, "log.flush.interval.messages": "1"}) as made:
        bootstrap = made.broker.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap})
        for topic in (NewTopic(kills.TOPIC, kills.PARTITIONS, 1), NewTopic("compacted", 1, 1, config=COMPACTED)):
            admin.create_topics([topic])[topic.topic].result(30)
        loads = [kills.Load(bootstrap, partition, rate) for partition in range(kills.PARTITIONS)]
        compacted, side = CompactedLoad(bootstrap, rate * 3), Side(bootstrap, rng)
        threads: list[kills.Load | CompactedLoad | Side] = [*loads, compacted, side]
        for thread in threads:
            thread.start()
        acked = 0
        try:
            for number in range(cuts):
                kills.wait_for_acks(loads, acked + 1)
                time.sleep(rng.uniform(0, 0.8))
                made.cut()
                taken = made.come_back()
                acked = sum(len(load.acked) for load in loads)
                print(f"flushed, cut {number + 1} of {cuts}: back in {taken:.2f} s, {acked} acked so far", flush=True)
        finally:
            for thread in threads:
                thread.stopping.set()
            for thread in threads:
                thread.join()
        made.problems += kills.check(loads, kills.read_back(bootstrap))
        made.problems += _check_compacted(bootstrap, compacted)
        print(
            f"flush.messages=1: {cuts} cuts, {sum(load.sent for load in loads)} sent, {sum(len(load.acked) for load in loads)} acked, "
            f"{side.done} topics came and went, {len(made.problems)} problems"
        )
    return made.problems


def _check_compacted(bootstrap: str, load: CompactedLoad) -> list[str]:
    latest: dict[bytes, int] = {}
    for _, key, value in read_to_end(bootstrap, "compacted", [0])[0]:
        latest[key] = int(value.split(b":")[0])
    lost = [key for key, number in load.acked.items() if latest.get(key, -1) < number]
    return [f"last-values: {len(lost)} keys of the compacted topic went back, first {lost[:5]}"] if lost else []


class Burst(threading.Thread):
    """Producer thread of one round. It sends until it is stopped, and does not wait for records under way."""

    def __init__(self, bootstrap: str, topic: str, partition: int, rate: int, first: int) -> None:
        super().__init__(name=f"burst-{partition}")
        self.topic = topic
        self.partition = partition
        self.rate = rate
        self.next = first
        self.acked: set[int] = set()
        self.stopping = threading.Event()
        self.producer = Producer(
            {**CLIENT, "bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 2, "message.timeout.ms": 60_000}
        )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is None and value is not None:
            self.acked.add(int(value.split(b":")[0]))

    def run(self) -> None:
        while not self.stopping.is_set():
            with contextlib.suppress(BufferError):
                self.producer.produce(
                    self.topic,
                    f"{self.next}:".encode() + b"x" * (self.next * 37 % 3000),
                    partition=self.partition,
                    on_delivery=self._delivered,
                )
                self.next += 1
            self.producer.poll(0)
            self.stopping.wait(1 / self.rate)
        # Records that return to librdkafka's queue after a broken connection escape a purge. They would be written to the log that comes
        # back, as the first records of a producer that the broker no longer knows.
        deadline = time.monotonic() + 10
        while len(self.producer) and time.monotonic() < deadline:
            self.producer.purge()
            self.producer.poll(0.05)


def unflushed(cuts: int, seed: int, folder: Path, rate: int) -> list[str]:
    """Cut the power with default flushing: a valid prefix must exist. A new topic every ten cuts keeps the reads short."""
    rng = random.Random(f"unflushed {seed}")
    lost = acked = 0
    with machine(folder, SETTINGS) as made:
        bootstrap = made.broker.bootstrap
        admin = AdminClient({**CLIENT, "bootstrap.servers": bootstrap})
        topic = ""
        held: list[list[bytes]] = []
        side = Side(bootstrap, rng)
        side.start()
        try:
            for number in range(cuts):
                if number % 10 == 0:
                    if topic:
                        admin.delete_topics([topic])[topic].result(30)
                    topic, held = f"prefix-{number}", [[] for _ in range(kills.PARTITIONS)]
                    admin.create_topics([NewTopic(topic, kills.PARTITIONS, 1)])[topic].result(30)
                bursts = [Burst(bootstrap, topic, partition, rate, number * 1_000_000) for partition in range(kills.PARTITIONS)]
                for burst in bursts:
                    burst.start()
                _wait(bursts)
                time.sleep(rng.uniform(0, 0.4))
                if rng.random() < 0.7:
                    # The kernel sometimes writes back: then a part of the log is on the disk and the rest is not.
                    made.disk.write_back()
                time.sleep(rng.uniform(0, 0.4))
                made.cut()
                for burst in bursts:
                    burst.stopping.set()
                for burst in bursts:
                    burst.join()
                taken = made.come_back()
                for burst in bursts:
                    found = read_to_end(bootstrap, topic, [burst.partition])[burst.partition]
                    gone, problems = _check_prefix(burst, held[burst.partition], found)
                    lost, acked = lost + gone, acked + len(burst.acked)
                    made.problems += problems
                    held[burst.partition] = [value for _, _, value in found]
                print(f"default, cut {number + 1} of {cuts}: back in {taken:.2f} s, {acked} acked, {lost} of them lost", flush=True)
        finally:
            side.stopping.set()
            side.join()
        print(f"default flushing: {cuts} cuts, {acked} acked, {lost} of them lost, {len(made.problems)} problems")
    return made.problems


def _wait(bursts: list[Burst]) -> None:
    deadline = time.monotonic() + 30
    while not all(burst.acked for burst in bursts):
        if time.monotonic() > deadline:
            raise TimeoutError("no acknowledgement in 30 s")
        time.sleep(0.01)


def _check_prefix(burst: Burst, held: list[bytes], found: list[Row]) -> tuple[int, list[str]]:
    """Return (number of acknowledged values that are missing, problems)."""
    place = f"{burst.topic}-{burst.partition}"
    problems: list[str] = []
    values = [value for _, _, value in found]
    if [offset for offset, _, _ in found] != list(range(len(found))):
        problems.append(f"valid-prefix: {place} has holes")
    if values[: len(held)] != held[: len(values)]:
        problems.append(f"valid-prefix: {place} holds something else than before")
    fresh = [int(value.split(b":")[0]) for value in values[len(held) :]]
    first = burst.next // 1_000_000 * 1_000_000
    gap = next((index for index, value in enumerate(fresh) if value != first + index), None)
    if gap is not None:
        problems.append(
            f"valid-prefix: {place} lacks values in the middle of what was sent last: {len(fresh)} from {first} on, wrong at {gap} "
            f"({fresh[max(gap - 2, 0) : gap + 3]}); {burst.next - first} were sent and {len(burst.acked)} acknowledged"
        )
    return len(burst.acked - set(fresh)), problems


def campaign(cuts: int, seed: int, folder: Path, rate: int) -> list[str]:
    """Run half of the cuts with flush.messages=1, half with default flushing. Return the problems."""
    problems = flushed((cuts + 1) // 2, seed, folder / "flushed", rate)
    return problems + (unflushed(cuts // 2, seed, folder / "unflushed", rate) if cuts > 1 else [])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=int, default=300, help="records a second and producer")
    options = parser.parse_args()
    lacking = why_not()
    if lacking:
        print(f"This machine cannot run the campaign: {lacking}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory(prefix="odradek-power-") as folder:
        problems = campaign(options.cuts, options.seed, Path(folder), options.rate)
    for problem in problems:
        print(problem)
    print(f"{options.cuts} cuts, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
