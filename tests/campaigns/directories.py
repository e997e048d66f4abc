"""Equal damaged directories for JVM Kafka 4.3.1 and for Odradek: the results must be equal.

    python -m tests.campaigns.directories [--count 500] [--seed 1] [--keep FOLDER]

A broker creates topics and is stopped. The logs of their partitions are replaced by logs with several segments, epochs and codecs, with
idempotent and transactional producers, and with gaps as compaction leaves them. Some of the logs were written by JVM Kafka for JVM
producers (`sources`). Each log gets one or two of the `mutations`. One log directory was closed cleanly, the others were not. Then both
brokers start on copies, are queried, and are shut down. Compared are log start and log end, the end of every epoch, the results of fetches
at random offsets, and aborted transactions. After the shutdown leader-epoch-checkpoint, the producer snapshot and the bytes of the log are
compared. A difference must have one of the reasons in `judging`. Damage that takes a whole log directory offline has separate directories
(`offline`).
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from interop.differential.peer import Peer
from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from odradek.base.errors import OdradekError
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from odradek.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from odradek.records.batch import iter_headers
from odradek.storage.producer_snapshot import CorruptSnapshotError, ProducerSnapshotEntry, decode_snapshot
from tests.campaigns import offline
from tests.campaigns.judging import BETTER, UNREADABLE, Case, Outcome, differences, judge, unsound
from tests.campaigns.mutations import MUTATIONS, RARE, Lines
from tests.campaigns.sources import EPOCHS, JvmLogs, aborted_in, batches_in, make_log, raise_epochs

OVERRIDES = {
    "log.retention.ms": "-1",
    "log.cleaner.enable": "false",
    "log.retention.check.interval.ms": "3600000",
    "log.flush.offset.checkpoint.interval.ms": "3600000",
    "num.recovery.threads.per.data.dir": "2",
}
TOPICS = {"plain": "delete", "kept": "compact"}
_CLEAN = 1
"""Number of the log directory (of three) that was closed cleanly."""
_OF_JVM = 0.3
"""Share of logs that JVM Kafka wrote."""
_OF_EACH_RARE = 3
"""Number of cases of each rare kind, in each log directory of a full campaign."""
FULL_COUNT = 500
"""Number of partitions from which on a campaign is full. In a full campaign every reason must occur, and damage that takes directories
offline is tested as well (many directories with one start of each broker).
"""


# -- making the directories ----------------------------------------------------------------------------------------------------------


def log_dirs(folder: Path) -> list[Path]:
    return [folder / f"data-{number}" for number in range(3)]


def overrides(folder: Path) -> dict[str, str]:
    return {**OVERRIDES, "log.dirs": ",".join(map(str, log_dirs(folder))), "metadata.log.dir": str(folder / "data")}


def prepare(folder: Path, partitions: int) -> None:
    def create(peer: Peer) -> None:
        for topic, policy in TOPICS.items():
            peer.create_topic(topic, partitions, {"cleanup.policy": policy, "index.interval.bytes": "200", "retention.ms": "-1"})

    raise_epochs(OdradekBroker(folder, overrides(folder)), create)


def damage(folder: Path, rng: random.Random, now_ms: int, jvm_logs: JvmLogs, *, of_each_rare: int = 0) -> list[Case]:
    """Fill the partitions of a prepared folder and damage each: first `of_each_rare` cases of every `RARE` kind, then random kinds."""
    cases: list[Case] = []
    names = ("recovery-point", "log-start", "replication", "cleaner")
    weighted = [mutation for mutation in MUTATIONS for _ in range(mutation.weight)]
    named = {mutation.name: mutation for mutation in MUTATIONS}
    for number, directory in enumerate(log_dirs(folder)):
        clean = number == _CLEAN
        rows: dict[str, list[str]] = {name: [] for name in names}
        rare = list(RARE[clean] * of_each_rare)
        for path in sorted(directory.glob("*-*")):
            topic, _, partition = path.name.rpartition("-")
            if topic not in TOPICS:
                continue
            for old in path.iterdir():
                if old.name != "partition.metadata":
                    old.unlink()
            closed = clean or rng.random() < 0.5
            foreign = rng.random() < _OF_JVM
            if foreign:
                end, bases = jvm_logs.put(rng, topic, path, closed=closed)
            else:
                end, bases = make_log(rng, path, now_ms, gaps=topic == "kept", closed=closed)
            whole, aborted = batches_in(path), frozenset(aborted_in(path))
            lines = Lines(end, bases)
            if not clean:
                lines.recovery_point = rng.choice((0, bases[-1], rng.choice(bases), rng.randrange(end + 1)))
            done: list[str] = []
            script = next((each for each in rare if each[0] == topic), None)
            scripted: list[str] = []
            if script is not None:
                rare.remove(script)
                scripted += script[1]
            wanted = len(scripted) or rng.choice((1, 1, 2))
            while len(done) < wanted:
                mutation = named[scripted.pop(0)] if scripted else weighted[rng.randrange(len(weighted))]
                if clean and not mutation.clean and rng.random() < 0.95:
                    continue  # JVM Kafka refuses to start with most of these; each would cost a start
                if mutation.run(rng, path, lines):
                    done.append(mutation.name)
            for name, offset in zip(rows, (lines.recovery_point, lines.log_start, lines.high_watermark, lines.cleaner), strict=True):
                if offset is not None:
                    rows[name].append(f"{topic} {partition} {offset}")
            probes = tuple(sorted(rng.randrange(end + 2) for _ in range(4)))
            names_done = tuple(done)
            source = "JVM Kafka" if foreign else "odradek"
            recovery_point = lines.recovery_point
            cases.append(Case(topic, int(partition), clean, number, names_done, recovery_point, end, probes, whole, aborted, source))
        for name, entries in rows.items():
            (directory / f"{name}-offset-checkpoint").write_text("".join(f"{line}\n" for line in ("0", str(len(entries)), *entries)))
        marker_file = directory / ".kafka_cleanshutdown"
        if not clean:
            marker_file.unlink(missing_ok=True)
    return cases


# -- queries ---------------------------------------------------------------------------------------------------------------------------


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
    """Return (error code, base offset of the first batch or -1)."""
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
    """Return the outcome, from the responses and from the files that the shutdown left."""
    directory = log_dirs(folder)[case.directory]
    name = case.name
    homes = [each / name for each in log_dirs(folder) if (each / name).is_dir()]
    home = homes[0] if homes else directory / name
    end, start = answer["end"], answer["start"]
    assert isinstance(end, int)
    assert isinstance(start, int)
    rows = (home / "leader-epoch-checkpoint").read_text().splitlines()[2:] if (home / "leader-epoch-checkpoint").exists() else []
    epochs = tuple((int(row.split()[0]), int(row.split()[1])) for row in rows)
    # The next load drops epochs below the log start.
    below = [pair for pair in epochs if pair[1] <= start]
    epochs = (((below[-1][0], start),) if below else ()) + epochs[len(below) :]
    epochs = tuple(pair for pair in epochs if pair[1] < end)
    snapshots = sorted(home.glob("*.snapshot"))
    producers: tuple[ProducerSnapshotEntry | str, ...] = ()
    if snapshots and int(snapshots[-1].stem) == end:
        try:
            producers = tuple(sorted(decode_snapshot(snapshots[-1].read_bytes())))
        except CorruptSnapshotError as error:
            producers = (str(error),)
    visible = bytearray()
    for path in sorted(home.glob("*.log")):
        data = path.read_bytes()
        try:
            for position, header in iter_headers(data):
                if header.last_offset >= start:
                    visible += data[position : position + header.size]
        except OdradekError:
            visible += UNREADABLE
    fetches, ends = answer.get("fetches", ()), answer.get("epoch_ends", ())
    assert isinstance(fetches, list)
    assert isinstance(ends, list)
    stray = bool(list(directory.glob(f"{name}.*-stray")))
    return Outcome(
        start,
        end,
        tuple(ends),
        tuple(fetches),
        tuple(entry for entry in aborted_in(home) if entry[2] >= start),
        epochs,
        producers,
        bytes(visible),
        stray,
    )


_CULPRITS = tuple(re.compile(words + r"[^\n]*data-\d/((?:plain|kept)-\d+)\b") for words in ("one of the threads", "Error while", "ERROR"))


def start(broker: BrokerProcess, folder: Path) -> set[str]:
    """Start the broker, and return the partitions that prevented the start or took their directory offline.

    Each such partition is removed, and the broker is started again. Raises RuntimeError when the log does not name a partition.
    """
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
    """Return the outcome of each partition, and the partitions with which the broker did not start."""
    shutil.copytree(source, folder)
    for leftover in folder.glob("*.log"):
        leftover.unlink()
    broker = make(folder, overrides(folder))
    refused: set[str] = set()
    try:
        while more := start(broker, folder) - refused:
            # Start again on unchanged copies of the other partitions, as the failed start has changed them.
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
    return {case.name: read_back(folder, case, answers[case.topic, case.partition]) for case in cases}, refused


# -- the campaign --------------------------------------------------------------------------------------------------------------------


def show(value: object) -> str:
    return f"{len(value)} bytes" if isinstance(value, bytes) else f"{value!r:.300}"


class Tally:
    """Results of the campaign. `problems` must stay empty."""

    def __init__(self, seed: int, cases: list[Case]) -> None:
        self.seed = seed
        self.cases = cases
        self.equal = 0
        self.better = 0
        self.alone = 0
        """Number of cases for which JVM Kafka takes the directory offline."""
        self.reasons: Counter[str] = Counter({better.why: 0 for better in BETTER})
        self.problems: list[str] = []

    def judge(self, case: Case, ours: Outcome, theirs: Outcome) -> None:
        if not differences(ours, theirs):
            self.equal += 1
            return
        left = judge(case, ours, theirs, self.reasons)
        self.better += not left
        for field in left:
            self.problems.append(f"{case}: {field} is {show(getattr(ours, field))}, JVM {show(getattr(theirs, field))}")

    def without_jvm(self, case: Case, ours: Outcome) -> None:
        """Check a case with which JVM Kafka does not start: our outcome must follow from the undamaged batches."""
        self.alone += 1
        if not any(".log" in mutation or "swap" in mutation for mutation in case.mutations):
            self.problems += [f"{case}: {field} is {show(getattr(ours, field))}, JVM Kafka does not start" for field in unsound(case, ours)]

    def report(self, directories: offline.Tally) -> None:
        written = Counter(case.source for case in self.cases)
        kinds = len({mutation for case in self.cases for mutation in case.mutations})
        for why, times in (*self.reasons.most_common(), *directories.reasons.most_common()):
            print(f"{times:6} {why}")
        print(
            f"seed {self.seed}: {len(self.cases)} partitions ({written['JVM Kafka']} written by JVM Kafka), {kinds} kinds of damage: "
            f"{self.equal} equal, {self.better} better, {self.alone} with which JVM Kafka does not start; "
            f"{directories.count} damaged log directories: {directories.equal} equal, {directories.better} better; "
            f"unexplained: {len(self.problems) + len(directories.problems)}"
        )


def campaign(count: int, seed: int, folder: Path) -> list[str]:
    """Return the differences without a reason, one line each. Print the reasons of the others, and a summary."""
    import time

    directories = offline.campaign(seed, folder / "offline") if count >= FULL_COUNT else offline.Tally()
    rng = random.Random(seed)
    source = folder / "source"
    prepare(source, (count + 1) // 2)
    jvm_logs = JvmLogs(folder / "jvm-logs", TOPICS, OVERRIDES, seed)
    now_ms = time.time_ns() // 1_000_000
    cases = damage(source, rng, now_ms - 3_600_000, jvm_logs, of_each_rare=_OF_EACH_RARE if count >= FULL_COUNT else 0)
    ours, refused = recover(OdradekBroker, source, folder / "odradek", cases)
    theirs, unstartable = recover(lambda home, keys: JvmBroker(home, keys, heap="512m"), source, folder / "jvm", cases)
    tally = Tally(seed, cases)
    for case in cases:
        if case.name in refused:
            tally.problems.append(f"{case}: Odradek does not start")
        elif case.name in unstartable:
            tally.without_jvm(case, ours[case.name])
        else:
            tally.judge(case, ours[case.name], theirs[case.name])
    if count >= FULL_COUNT:
        tally.problems += [f"no case for: {why}" for why, times in tally.reasons.items() if not times]
    tally.report(directories)
    return tally.problems + directories.problems


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
