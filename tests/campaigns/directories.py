"""The same damaged directories given to JVM Kafka 4.3.1 and to Odradek: what both make of them must be the same.

    python -m tests.campaigns.directories [--count 500] [--seed 1] [--keep FOLDER]

A broker makes topics and is stopped; the logs of their partitions are replaced by logs of several segments, epochs and codecs, with
idempotent and transactional producers and with gaps as compaction leaves them, and every one of them suffers one or two of the
`mutations`. One log directory was closed cleanly, the others were not. Then both brokers start on copies, are asked, and are shut down;
compared are log start and log end, the end of every epoch, what a fetch at random offsets finds, aborted transactions, and after the
shutdown leader-epoch-checkpoint, the producer snapshot and the bytes of the log. A difference must have one of the `BETTER` reasons.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from interop.differential.peer import Peer
from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from odradek.base.ids import TopicPartition
from odradek.config.topic import TopicConfig
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from odradek.records.batch import encode_batch, iter_headers
from odradek.records.compression import Compression
from odradek.storage.disk import OsDisk
from odradek.storage.loader import LogOptions, load_log
from odradek.storage.log import Log
from odradek.storage.producer_snapshot import CorruptSnapshotError, decode_snapshot
from tests.campaigns.mutations import MUTATIONS, Lines
from tests.storage.support import ManualClock, marker

OVERRIDES = {
    "log.retention.ms": "-1",
    "log.cleaner.enable": "false",
    "log.retention.check.interval.ms": "3600000",
    "log.flush.offset.checkpoint.interval.ms": "3600000",
    "num.recovery.threads.per.data.dir": "2",
}
TOPICS = ("plain", "kept")
EPOCHS = 4
_CLEAN = 1
"""The log directory (of three) that was closed cleanly."""


class Outcome(NamedTuple):
    """What a broker made of a partition."""

    start: int
    end: int
    epoch_ends: tuple[tuple[int, int], ...]
    fetches: tuple[tuple[int, int, int], ...]
    """(offset asked for, error, base offset of the first batch or -1)"""
    aborted: tuple[tuple[int, ...], ...]
    """(producer id, first offset, last offset, last stable offset) from the transaction indexes"""
    epochs: tuple[tuple[int, int], ...]
    producers: tuple[object, ...]
    log: bytes
    """All batches from the log start on."""
    stray: bool


class Case(NamedTuple):
    topic: str
    partition: int
    directory: int
    mutations: tuple[str, ...]
    recovery_point: int | None
    end: int
    probes: tuple[int, ...]

    @property
    def clean(self) -> bool:
        return self.directory == _CLEAN

    def __str__(self) -> str:
        state = "clean" if self.clean else f"recovery point {self.recovery_point}"
        return f"{self.topic}-{self.partition} ({state}, end {self.end}): {', '.join(self.mutations)}"


# -- making the directories ----------------------------------------------------------------------------------------------------------


def make_log(rng: random.Random, folder: Path, now_ms: int, *, gaps: bool, closed: bool) -> tuple[int, list[int]]:
    """A log in `folder`; its end and the base offsets of its segments."""
    clock = ManualClock(now_ms)
    folder.mkdir(parents=True, exist_ok=True)
    config = TopicConfig.build(None, {"internal.segment.bytes": str(rng.choice((1500, 3000, 6000))), "index.interval.bytes": "200"})
    log = load_log(OsDisk(), clock, TopicPartition("x", 0), str(folder), config, clean=True, options=LogOptions(verify_transactions=False))
    sequences = dict.fromkeys((100, 101, 200, 201), 0)
    open_transactions: set[int] = set()
    for index in range(rng.randrange(20, 60)):
        epoch = index * EPOCHS // 60
        clock.now_ms += rng.randrange(20)
        count = rng.randrange(1, 6)
        producer = rng.choice((-1, -1, *sequences))
        if gaps and rng.random() < 0.3:
            _skip(log, rng.randrange(1, 9), epoch, clock.now_ms, rng)
            continue
        if producer in open_transactions and rng.random() < 0.4:
            _append(log, bytes(marker(producer, 0, commit=rng.random() < 0.5, timestamp=clock.now_ms)), epoch)
            open_transactions.discard(producer)
            continue
        transactional = producer >= 200
        records = [(clock.now_ms + n, b"k%d" % rng.randrange(9), rng.randbytes(rng.randrange(60)), ()) for n in range(count)]
        data = encode_batch(
            records,
            compression=Compression(rng.randrange(5)),
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequences.get(producer, -1),
            transactional=transactional,
        )
        _append(log, data, epoch)
        if producer >= 0:
            sequences[producer] += count
        if transactional:
            open_transactions.add(producer)
    end, bases = log.log_end_offset, list(log.bases)
    if closed:
        log.close(durable=True)
    else:
        log.active.become_inactive()
        log.flush()
    return end, bases


def _append(log: Log, data: bytes, epoch: int) -> None:
    """As a follower, so that offsets are ours to choose."""
    header = bytearray(data)
    header[:8] = log.log_end_offset.to_bytes(8, "big")
    header[12:16] = epoch.to_bytes(4, "big")
    log.append_as_follower(memoryview(bytes(header)), epoch)


def _skip(log: Log, count: int, epoch: int, now_ms: int, rng: random.Random) -> None:
    """A batch behind a gap."""
    data = bytearray(encode_batch([(now_ms, b"gap", rng.randbytes(20), ())]))
    data[:8] = (log.log_end_offset + count).to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    log.append_as_follower(memoryview(bytes(data)), epoch)


def log_dirs(folder: Path) -> list[Path]:
    return [folder / f"data-{number}" for number in range(3)]


def overrides(folder: Path) -> dict[str, str]:
    return {**OVERRIDES, "log.dirs": ",".join(map(str, log_dirs(folder))), "metadata.log.dir": str(folder / "data")}


def prepare(folder: Path, partitions: int) -> None:
    """Topics in the metadata, with leader epochs that reach above those in the logs."""
    broker = OdradekBroker(folder, overrides(folder))
    for number in range(EPOCHS):
        broker.start()
        try:
            if number == 0:
                peer = Peer("source", broker.port)
                for topic, policy in zip(TOPICS, ("delete", "compact"), strict=True):
                    peer.create_topic(topic, partitions, {"cleanup.policy": policy, "index.interval.bytes": "200", "retention.ms": "-1"})
                peer.close()
            if broker.stop():
                raise RuntimeError(broker.log_tail())
        finally:
            broker.kill()


def damage(folder: Path, rng: random.Random, now_ms: int) -> list[Case]:
    """Fills the partitions of a prepared folder and lets each suffer."""
    cases: list[Case] = []
    names = ("recovery-point", "log-start", "replication", "cleaner")
    weighted = [mutation for mutation in MUTATIONS for _ in range(mutation.weight)]
    for number, directory in enumerate(log_dirs(folder)):
        clean = number == _CLEAN
        rows: dict[str, list[str]] = {name: [] for name in names}
        for path in sorted(directory.glob("*-*")):
            topic, _, partition = path.name.rpartition("-")
            if topic not in TOPICS:
                continue
            for old in path.iterdir():
                if old.name != "partition.metadata":
                    old.unlink()
            end, bases = make_log(rng, path, now_ms, gaps=topic == "kept", closed=clean or rng.random() < 0.5)
            lines = Lines(end, bases)
            if not clean:
                lines.recovery_point = rng.choice((0, bases[-1], rng.choice(bases), rng.randrange(end + 1)))
            done: list[str] = []
            wanted = rng.choice((1, 1, 2))
            while len(done) < wanted:
                mutation = weighted[rng.randrange(len(weighted))]
                if clean and not mutation.clean and rng.random() < 0.95:
                    continue  # JVM Kafka refuses to start with most of these, which costs a start each.
                if mutation.run(rng, path, lines):
                    done.append(mutation.name)
            for name, offset in zip(rows, (lines.recovery_point, lines.log_start, lines.high_watermark, lines.cleaner), strict=True):
                if offset is not None:
                    rows[name].append(f"{topic} {partition} {offset}")
            probes = tuple(sorted(rng.randrange(end + 2) for _ in range(4)))
            cases.append(Case(topic, int(partition), number, tuple(done), lines.recovery_point, end, probes))
        for name, entries in rows.items():
            (directory / f"{name}-offset-checkpoint").write_text("".join(f"{line}\n" for line in ("0", str(len(entries)), *entries)))
        marker_file = directory / ".kafka_cleanshutdown"
        if not clean:
            marker_file.unlink(missing_ok=True)
    return cases


# -- asking ----------------------------------------------------------------------------------------------------------------------------


def ask(broker: BrokerProcess, cases: list[Case]) -> dict[tuple[str, int], dict[str, object]]:
    peer = Peer(broker.name, broker.port)
    answers: dict[tuple[str, int], dict[str, object]] = {(case.topic, case.partition): {} for case in cases}
    by_topic = {topic: sorted(case.partition for case in cases if case.topic == topic) for topic in TOPICS}
    try:
        for topic in TOPICS:
            peer.learn(topic)
        for what, timestamp in (("start", -2), ("end", -1)):
            request = ListOffsetsRequest(
                replica_id=-1,
                topics=[
                    ListOffsetsRequest.ListOffsetsTopic(
                        name=topic,
                        partitions=[ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in found],
                    )
                    for topic, found in by_topic.items()
                ],
            )
            for topic_answer in peer.call(ApiKey.LIST_OFFSETS, 7, request).topics:
                for entry in topic_answer.partitions:
                    answers[topic_answer.name, entry.partition_index][what] = -entry.error_code if entry.error_code else entry.offset
        for epoch in range(EPOCHS):
            _ask_epoch(peer, epoch, by_topic, answers)
        for case in cases:
            answers[case.topic, case.partition]["fetches"] = [(offset, *fetch(peer, case, offset)) for offset in case.probes]
    finally:
        peer.close()
    return answers


def _ask_epoch(peer: Peer, epoch: int, by_topic: dict[str, list[int]], answers: dict[tuple[str, int], dict[str, object]]) -> None:
    asked = OffsetForLeaderEpochRequest
    request = asked(
        replica_id=-1,
        topics=[
            asked.OffsetForLeaderTopic(
                topic=topic, partitions=[asked.OffsetForLeaderPartition(partition=index, leader_epoch=epoch) for index in found]
            )
            for topic, found in by_topic.items()
        ],
    )
    for topic_answer in peer.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, request).topics:
        for entry in topic_answer.partitions:
            ends = answers[topic_answer.topic, entry.partition].setdefault("epoch_ends", [])
            assert isinstance(ends, list)
            ends.append((entry.leader_epoch, entry.end_offset))


def fetch(peer: Peer, case: Case, offset: int) -> tuple[int, int]:
    """(error code, base offset of the first batch or -1)."""
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1 << 24,
        topics=[
            FetchRequest.FetchTopic(
                topic=case.topic,
                partitions=[FetchRequest.FetchPartition(partition=case.partition, fetch_offset=offset, partition_max_bytes=1 << 20)],
            )
        ],
    )
    [entry] = peer.call(ApiKey.FETCH, 11, request).responses[0].partitions
    records = bytes(entry.records or b"")
    return entry.error_code, int.from_bytes(records[:8], "big") if records else -1


def read_back(folder: Path, case: Case, answer: dict[str, object]) -> Outcome:
    """The outcome from the answers and from what the shutdown left on disk."""
    directory = log_dirs(folder)[case.directory]
    name = f"{case.topic}-{case.partition}"
    homes = [each / name for each in log_dirs(folder) if (each / name).is_dir()]
    home = homes[0] if homes else directory / name
    end, start = answer["end"], answer["start"]
    assert isinstance(end, int)
    assert isinstance(start, int)
    rows = (home / "leader-epoch-checkpoint").read_text().splitlines()[2:] if (home / "leader-epoch-checkpoint").exists() else []
    epochs = tuple(pair for row in rows if (pair := (int(row.split()[0]), int(row.split()[1])))[1] < end)
    # What lies below the log start is dropped by whoever loads it next.
    below = [pair for pair in epochs if pair[1] <= start]
    epochs = (((below[-1][0], start),) if below else ()) + epochs[len(below) :]
    snapshots = sorted(home.glob("*.snapshot"))
    producers: tuple[object, ...] = ()
    if snapshots:
        try:
            producers = tuple(sorted(decode_snapshot(snapshots[-1].read_bytes())))
        except CorruptSnapshotError as error:
            producers = (str(error),)
    data = b"".join(path.read_bytes() for path in sorted(home.glob("*.log")))
    visible = bytearray()
    try:
        for position, header in iter_headers(data):
            if header.last_offset >= start:
                visible += data[position : position + header.size]
    except Exception as error:
        visible += type(error).__name__.encode()
    fetches, ends = answer.get("fetches", ()), answer.get("epoch_ends", ())
    aborted: list[tuple[int, ...]] = []
    for path in sorted(home.glob("*.txnindex")):
        content = path.read_bytes()
        aborted += [struct.unpack(">qqqq", content[at + 2 : at + 34]) for at in range(0, len(content) - 33, 34)]
    assert isinstance(fetches, list)
    assert isinstance(ends, list)
    stray = bool(list(directory.glob(f"{name}.*-stray")))
    return Outcome(
        start,
        end,
        tuple(ends),
        tuple(fetches),
        tuple(entry for entry in aborted if entry[2] >= start),
        epochs,
        producers,
        bytes(visible),
        stray,
    )


_CULPRITS = tuple(re.compile(words + r"[^\n]*data-\d/((?:plain|kept)-\d+)\b") for words in ("one of the threads", "Error while", "ERROR"))


def start(broker: BrokerProcess, folder: Path) -> set[str]:
    """Starts the broker; a partition for which it refuses to, or takes the directory offline, is emptied, noted, and it is tried again."""
    refused: set[str] = set()
    while True:
        broker.log_path.unlink(missing_ok=True)
        try:
            broker.start(120)
            offline = "offline" in (text := broker.log_path.read_text(errors="replace")) and "Error while loading log dir" in text
            if not offline:
                return refused
        except RuntimeError:
            text = broker.log_path.read_text(errors="replace")
        broker.kill()
        culprits = next((found for each in _CULPRITS if (found := set(each.findall(text)) - refused)), set())
        if not culprits:
            raise RuntimeError(f"{broker.name} does not start, and does not say why: {text[-2000:]}")
        culprit = sorted(culprits)[0]
        refused.add(culprit)
        for directory in log_dirs(folder):
            shutil.rmtree(directory / culprit, ignore_errors=True)


def recover(
    make: Callable[[Path, dict[str, str]], BrokerProcess], source: Path, folder: Path, cases: list[Case]
) -> tuple[dict[str, Outcome], set[str]]:
    """What became of each partition, and those with which the broker did not start."""
    shutil.copytree(source, folder)
    for leftover in folder.glob("*.log"):
        leftover.unlink()
    broker = make(folder, overrides(folder))
    refused: set[str] = set()
    try:
        while more := start(broker, folder) - refused:
            # Once more on untouched copies of the others: what was tried has changed them.
            refused |= more
            broker.kill()
            shutil.rmtree(folder)
            shutil.copytree(source, folder)
            for name in refused:
                for directory in log_dirs(folder):
                    shutil.rmtree(directory / name, ignore_errors=True)
        answers = ask(broker, cases)
        status = broker.stop()
        if status not in (0, 143):
            raise RuntimeError(f"{broker.name} ended with {status}: {broker.log_tail()}")
    finally:
        broker.kill()
    return {f"{case.topic}-{case.partition}": read_back(folder, case, answers[case.topic, case.partition]) for case in cases}, refused


# -- judging ---------------------------------------------------------------------------------------------------------------------------


class Better(NamedTuple):
    """A difference that is meant: `fields` of the outcome may differ where `when` holds."""

    why: str
    fields: frozenset[str]
    when: Callable[[Case, Outcome, Outcome], bool]


def _has(*words: str) -> Callable[[Case, Outcome, Outcome], bool]:
    return lambda case, ours, theirs: any(word in mutation for word in words for mutation in case.mutations)


EVERYTHING = frozenset(Outcome._fields)
EPOCHS_OF = frozenset({"epochs", "epoch_ends"})

BETTER: tuple[Better, ...] = (
    Better(
        "leader epochs whose checkpoint is lost are read from the batches, below the recovery point as well",
        EPOCHS_OF,
        _has("leader-epoch-checkpoint missing", "leader-epoch-checkpoint empty", "leader-epoch-checkpoint without"),
    ),
    Better("an index below the recovery point that lies is found out and rebuilt", frozenset({"fetches"}), _has(".index")),
    Better(
        "the end of a cleanly closed log is found although its index points behind it or nowhere: JVM Kafka falls back to the base offset",
        EVERYTHING,
        lambda case, ours, theirs: case.clean and ours.end > theirs.end and _has(".log cut", ".index")(case, ours, theirs),
    ),
    Better(
        "a damaged transaction index is rebuilt: JVM Kafka does not see that it ends in the middle of an entry, or that it is missing",
        frozenset({"aborted"}),
        lambda case, ours, theirs: set(theirs.aborted) <= set(ours.aborted) and _has(".txnindex", "swap")(case, ours, theirs),
    ),
    Better(
        "producer state survives the rebuilding of an index although that drops the snapshots behind it",
        frozenset({"producers"}),
        lambda case, ours, theirs: case.clean and not theirs.producers and _has(".index", ".txnindex")(case, ours, theirs),
    ),
    Better(
        "a batch whose base offset (which no checksum covers) jumps ends the log: JVM Kafka keeps it and what follows, out of order",
        EVERYTHING,
        lambda case, ours, theirs: not case.clean and len(ours.log) < len(theirs.log) and _has(".log flipped")(case, ours, theirs),
    ),
    Better(
        "of a segment in which such an offset breaks the index the batches before it are kept: JVM Kafka drops the whole segment",
        EVERYTHING,
        lambda case, ours, theirs: not case.clean and ours.end > theirs.end and _has(".log flipped")(case, ours, theirs),
    ),
    Better(
        "bytes behind the last batch of a cleanly closed log are cut: JVM Kafka appends behind them",
        frozenset({"log"}),
        lambda case, ours, theirs: (
            case.clean and theirs.log.startswith(ours.log.removesuffix(b"KafkaError")) and _has(".log")(case, ours, theirs)
        ),
    ),
    Better(
        "a hole that a crash left in an unflushed log ends it: JVM Kafka, which had to rebuild an index there, goes on behind the hole",
        EVERYTHING,
        lambda case, ours, theirs: not case.clean and ours.end < theirs.end and _has(".log")(case, ours, theirs),
    ),
)


def judge(case: Case, ours: Outcome, theirs: Outcome, used: Counter[str]) -> list[str]:
    differing = {field for field in Outcome._fields if getattr(ours, field) != getattr(theirs, field)}
    for better in BETTER:
        if differing and differing & better.fields and better.when(case, ours, theirs):
            used[better.why] += 1
            differing -= better.fields
    return sorted(differing)


def show(value: object) -> str:
    return f"{len(value)} bytes" if isinstance(value, bytes) else f"{value!r:.300}"


def campaign(count: int, seed: int, folder: Path) -> list[str]:
    """The differences that have no reason, one line each."""
    import time

    rng = random.Random(seed)
    source = folder / "source"
    prepare(source, (count + 1) // 2)
    cases = damage(source, rng, time.time_ns() // 1_000_000 - 3_600_000)
    ours, refused = recover(OdradekBroker, source, folder / "odradek", cases)
    theirs, unstartable = recover(lambda home, keys: JvmBroker(home, keys, heap="512m"), source, folder / "jvm", cases)
    used: Counter[str] = Counter()
    problems = [f"{case}: Odradek does not start" for case in cases if f"{case.topic}-{case.partition}" in refused]
    for case in cases:
        name = f"{case.topic}-{case.partition}"
        if name in unstartable:
            used[f"JVM Kafka does not start with it: {', '.join(sorted(set(case.mutations)))}"] += 1
            continue
        for field in judge(case, ours[name], theirs[name], used):
            problems.append(f"{case}: {field} is {show(getattr(ours[name], field))}, JVM {show(getattr(theirs[name], field))}")
    kinds = len({mutation for case in cases for mutation in case.mutations})
    print(f"{len(cases)} partitions with {kinds} kinds of damage, {len(problems)} differences without a reason")
    for why, times in used.most_common():
        print(f"{times:6} {why}")
    return problems


def main() -> None:
    parser = argparse.ArgumentParser(description="damaged log directories, beside JVM Kafka")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="keep the directories here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="odradek-directories-") as folder:
        problems = campaign(options.count, options.seed, options.keep or Path(folder))
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
