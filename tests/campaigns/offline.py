"""Damage that takes a whole log directory offline or prevents the broker's start, each in a separate log directory, compared with JVM
Kafka.

Both brokers must take the same directories offline, and serve the partitions of all others whole. `BETTER` names the cases in which ours
serves more; such a case counts only if the partition is served with all of its records.
"""

from __future__ import annotations

import random
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import NamedTuple

from interop.differential.peer import Peer
from interop.peers import BrokerProcess, JvmBroker, OdradekBroker
from odradek.protocol.api_keys import ApiKey
from odradek.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from odradek.protocol.messages.fetch import FetchRequest
from odradek.protocol.messages.list_offsets import ListOffsetsRequest
from tests.campaigns.sources import batches_in, make_log, raise_epochs

TOPIC = "held"
_GARBAGE = b"\x00\xff\xfenot what was written\n\x80\x80"
_PATIENCE_SECONDS = 10


class Damage(NamedTuple):
    """One kind of damage: `change(log directory, partition's directory)`."""

    name: str
    change: Callable[[Path, Path], None]
    better: str = ""
    """Reason why ours continues although JVM Kafka does not."""
    safer: str = ""
    """Reason why ours does not continue although JVM Kafka does, without the records."""


def _in_directory(name: str, content: bytes) -> Callable[[Path, Path], None]:
    def run(directory: Path, log: Path) -> None:
        (directory / name).write_bytes(content)

    return run


def _in_log(name: str, content: bytes) -> Callable[[Path, Path], None]:
    def run(directory: Path, log: Path) -> None:
        (log / name).write_bytes(content)

    return run


def _checkpoints(names: tuple[str, ...], *damages: str) -> list[Damage]:
    contents = {
        "garbage": _GARBAGE,
        "of a future version": b"7\n0\n",
        "with a row missing": b"0\n2\nheld 0 1\n",
        "with a word for a number": b"0\n1\nheld 0 many\n",
        "empty": b"",
    }
    paths = [f"{name}-offset-checkpoint" for name in names]
    return [Damage(f"{path} {what}", _in_directory(path, contents[what]), _COSTS) for path in paths for what in damages]


def _meta_properties(change: Callable[[str], str]) -> Callable[[Path, Path], None]:
    def run(directory: Path, log: Path) -> None:
        path = directory / "meta.properties"
        path.write_text(change(path.read_text()))

    return run


def _as_folder(name: str) -> Callable[[Path, Path], None]:
    def run(directory: Path, log: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        (directory / name).mkdir()

    return run


def _as_file(directory: Path, log: Path) -> None:
    shutil.rmtree(directory)
    directory.write_bytes(b"")


def _log_as_folder(directory: Path, log: Path) -> None:
    path = sorted(log.glob("*.log"))[-1]
    path.unlink()
    path.mkdir()


def _gone(directory: Path, log: Path) -> None:
    (directory / "meta.properties").unlink()


_COSTS = "a damaged checkpoint costs work, not the directory: everything in it is recovered, cleaned or replicated from the start"
_LATER = "a partition.metadata of a later release takes its directory offline: JVM Kafka sets the log aside and begins an empty one"
_HIDDEN = "a .log that cannot be opened takes its directory offline: JVM Kafka serves the partition without it"
_EPOCHS = "leader epochs whose checkpoint is damaged are read from the batches"

DAMAGES: tuple[Damage, ...] = (
    Damage("nothing", lambda directory, log: None),
    *_checkpoints(("recovery-point", "log-start"), "with a word for a number", "empty"),
    *_checkpoints(("replication",), "garbage", "of a future version", "with a row missing", "empty"),
    *_checkpoints(("cleaner",), "garbage", "of a future version", "with a row missing", "with a word for a number", "empty"),
    Damage("leader-epoch-checkpoint garbage", _in_log("leader-epoch-checkpoint", _GARBAGE), _EPOCHS),
    Damage("leader-epoch-checkpoint of a future version", _in_log("leader-epoch-checkpoint", b"7\n0\n")),
    Damage("leader-epoch-checkpoint with a row missing", _in_log("leader-epoch-checkpoint", b"0\n2\n0 0\n"), _EPOCHS),
    Damage("partition.metadata garbage", _in_log("partition.metadata", _GARBAGE)),
    Damage(
        "partition.metadata of a future version",
        _in_log("partition.metadata", b"version: 7\ntopic_id: c2hvdWxkbm90YmVoZXJlMQ"),
        safer=_LATER,
    ),
    Damage("partition.metadata with a zero id", _in_log("partition.metadata", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA")),
    Damage("clean-shutdown marker garbage", _in_directory(".kafka_cleanshutdown", _GARBAGE)),
    Damage("clean-shutdown marker empty", _in_directory(".kafka_cleanshutdown", b"")),
    Damage("a file in the place of the log directory", _as_file),
    Damage("a folder in the place of a .log", _log_as_folder, safer=_HIDDEN),
    Damage("a file that is no log's", _in_directory("notes.txt", _GARBAGE)),
)


def _duplicate(directory: Path, log: Path) -> None:
    shutil.copytree(log, directory.parent / "held-00" / log.name)


def _same_id(directory: Path, log: Path) -> None:
    shutil.copy(directory.parent / "held-00" / "meta.properties", directory)


_UNUSABLE = (
    "a directory with an unusable meta.properties, .lock or partition.metadata goes offline, others are served: JVM Kafka does not start"
)

ALONE: tuple[Damage, ...] = (
    Damage("meta.properties without directory.id", _meta_properties(lambda text: re.sub(r"directory\.id=.*\n", "", text))),
    *_checkpoints(("recovery-point", "log-start"), "garbage", "of a future version", "with a row missing"),
    *_checkpoints(("replication",), "with a word for a number"),
    Damage("a directory that is no log's", lambda directory, log: (directory / "holiday pictures").mkdir()),
    Damage("partition.metadata empty", _in_log("partition.metadata", b""), _UNUSABLE),
    Damage("partition.metadata with half an id", _in_log("partition.metadata", b"version: 0\ntopic_id: c2hvd"), _UNUSABLE),
    Damage(".lock as a folder", _as_folder(".lock"), _UNUSABLE),
    Damage("the same partition in two directories", _duplicate),
    Damage("the directory of another node", _meta_properties(lambda text: text.replace("node.id=1", "node.id=2"))),
    Damage("the directory of another cluster", _meta_properties(lambda text: text.replace("cluster.id=", "cluster.id=x"))),
    Damage("the same directory id twice", _same_id),
    Damage("meta.properties garbage", _in_directory("meta.properties", _GARBAGE), _UNUSABLE),
    Damage("meta.properties empty", _in_directory("meta.properties", b""), _UNUSABLE),
    Damage("meta.properties of a future version", _meta_properties(lambda text: text.replace("version=1", "version=9")), _UNUSABLE),
    Damage("meta.properties without node.id", _meta_properties(lambda text: text.replace("node.id", "node.it")), _UNUSABLE),
    Damage("meta.properties as a folder", _as_folder("meta.properties"), _UNUSABLE),
    Damage("meta.properties missing", _gone),
)
"""Damages with which a broker may not start at all: each has a separate start."""


class Seen(NamedTuple):
    """Result for one directory. `end` is -1 when ListOffsets answers an error; `data` is everything that a fetch returns."""

    offline: bool
    end: int
    data: bytes


class Tally:
    def __init__(self) -> None:
        self.count = self.equal = self.better = 0
        self.reasons: Counter[str] = Counter()
        self.problems: list[str] = []


def _directories(folder: Path) -> list[Path]:
    return [folder / f"held-{number:02d}" for number in range(len(DAMAGES))]


def _overrides(folder: Path) -> dict[str, str]:
    return {
        "log.dirs": ",".join(map(str, _directories(folder))),
        "metadata.log.dir": str(folder / "data"),
        "log.cleaner.enable": "true",
        "log.cleaner.dedupe.buffer.size": "4194304",
        "log.flush.offset.checkpoint.interval.ms": "3600000",
        "log.retention.ms": "-1",
    }


def _prepare(folder: Path, rng: random.Random) -> list[bytes]:
    """Make a partition in each log directory, not cleanly closed. Return the contents of each."""
    broker = OdradekBroker(folder, _overrides(folder))
    raise_epochs(broker, lambda peer: peer.create_topic(TOPIC, len(DAMAGES), {"index.interval.bytes": "200"}))
    contents: list[bytes] = []
    for directory in _directories(folder):
        [log] = directory.glob(f"{TOPIC}-*")
        for old in log.iterdir():
            if old.name != "partition.metadata":
                old.unlink()
        end, bases = make_log(rng, log, time.time_ns() // 1_000_000 - 3_600_000, gaps=False, closed=False)
        contents.append(b"".join(batches_in(log).values()))
        for name, offset in (("recovery-point", max(bases[-1], 1)), ("log-start", 0), ("replication", end), ("cleaner", 0)):
            (directory / f"{name}-offset-checkpoint").write_text(f"0\n1\n{log.name.replace('-', ' ')} {offset}\n")
        (directory / ".kafka_cleanshutdown").unlink()
    return contents


def _offline(peer: Peer) -> set[str]:
    """Return the names of the log directories for which DescribeLogDirs answers an error."""
    results = peer.call(ApiKey.DESCRIBE_LOG_DIRS, 4, DescribeLogDirsRequest(topics=None)).results
    good = {Path(result.log_dir).name for result in results if not result.error_code}
    return {path.name for path in _directories(Path())} - good


def _ends(peer: Peer, partitions: list[int]) -> dict[int, int]:
    asked = [ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in partitions]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=asked)])
    [answer] = peer.call(ApiKey.LIST_OFFSETS, 7, request).topics
    return {entry.partition_index: -1 if entry.error_code else entry.offset for entry in answer.partitions}


def _records(peer: Peer, partition: int) -> bytes:
    wanted = FetchRequest.FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 24)
    found, offset = b"", 0
    while True:
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1 << 24,
            topics=[FetchRequest.FetchTopic(topic=TOPIC, partitions=[wanted])],
        )
        wanted.fetch_offset = offset
        [entry] = peer.call(ApiKey.FETCH, 11, request).responses[0].partitions
        records = bytes(entry.records or b"")
        if not records:
            return found
        found += records
        offset = _next_offset(records)


def _next_offset(records: bytes) -> int:
    from odradek.records.batch import iter_headers

    return [header.next_offset for _, header in iter_headers(records)][-1]


def _look(broker: BrokerProcess, partitions: list[int]) -> list[Seen]:
    """Return the result for each directory, when each is either offline or has its partition served (or after ten seconds)."""
    peer = Peer(broker.name, broker.port)
    names = [path.name for path in _directories(Path())]
    deadline = time.monotonic() + _PATIENCE_SECONDS
    try:
        while True:
            offline, ends = _offline(peer), _ends(peer, partitions)
            settled = all((ends[index] < 0) == (name in offline) for name, index in zip(names, partitions, strict=True))
            if settled or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        return [
            Seen(name in offline, ends[index], _records(peer, index) if ends[index] >= 0 else b"")
            for name, index in zip(names, partitions, strict=True)
        ]
    finally:
        peer.close()


def _copy(source: Path, folder: Path, damages: tuple[Damage, ...]) -> None:
    shutil.copytree(source, folder)
    for directory, damage in zip(_directories(folder), damages, strict=False):
        [log] = directory.glob(f"{TOPIC}-*")
        damage.change(directory, log)


def _run(make: Callable[[Path, dict[str, str]], BrokerProcess], folder: Path, partitions: list[int]) -> list[Seen] | None:
    """Start a broker and return its results, or None when the broker ends instead of starting."""
    broker = make(folder, _overrides(folder))
    try:
        try:
            broker.start(120)
        except RuntimeError:
            return None
        seen = _look(broker, partitions)
        broker.stop()
        return seen
    finally:
        broker.kill()


def _jvm(folder: Path, overrides: dict[str, str]) -> BrokerProcess:
    return JvmBroker(folder, overrides, heap="512m")


def judge(damage: Damage, content: bytes, ours: Seen, theirs: Seen, tally: Tally) -> None:
    tally.count += 1
    whole = not ours.offline and ours.data == content
    if ours == theirs and (ours.offline or whole):
        tally.equal += 1
    elif theirs.offline and whole and damage.better:
        tally.better += 1
        tally.reasons[damage.better] += 1
    elif damage.safer and ours.offline and not theirs.offline and len(theirs.data) < len(content):
        tally.better += 1
        tally.reasons[damage.safer] += 1
    else:
        told = [f"offline {each.offline}, end {each.end}, {len(each.data)} of {len(content)} bytes" for each in (ours, theirs)]
        tally.problems.append(f"{damage.name}: Odradek {told[0]}; JVM {told[1]}")


def _others_served(seen: list[Seen], contents: list[bytes]) -> bool:
    return all(each.data == content for index, (each, content) in enumerate(zip(seen, contents, strict=True)) if index != 1)


def _serves_less(theirs: list[Seen] | None, ours: list[Seen], contents: list[bytes]) -> bool:
    """Return whether JVM Kafka serves nothing that ours does not, and not all that ours does."""
    if theirs is None:
        return ours[1].offline or ours[1].data == contents[1]
    return all(len(other.data) <= len(mine.data) for mine, other in zip(ours, theirs, strict=True)) and (
        not _others_served(theirs, contents) or (ours[1].data == contents[1] != theirs[1].data)
    )


def judge_alone(damage: Damage, contents: list[bytes], ours: list[Seen] | None, theirs: list[Seen] | None, tally: Tally) -> None:
    """Judge a start in which the second directory is damaged. If ours starts, it must serve all others; a start where JVM Kafka has none is
    better.
    """
    tally.count += 1
    rest = ours is None or _others_served(ours, contents)
    if ours == theirs and rest:
        tally.equal += 1
    elif ours is not None and rest and damage.better and _serves_less(theirs, ours, contents):
        tally.better += 1
        tally.reasons[damage.better] += 1
    else:
        told = ["does not start" if each is None else f"starts, the directory offline: {each[1].offline}" for each in (ours, theirs)]
        others = "" if rest else "; not all other partitions are served"
        tally.problems.append(f"{damage.name}: Odradek {told[0]}{others}; JVM Kafka {told[1]}")


def campaign(seed: int, folder: Path) -> Tally:
    """Test every damage once. `problems` of the result has a line for each difference without a reason."""
    rng = random.Random(seed)
    source = folder / "source"
    contents = _prepare(source, rng)
    partitions = [int(next(iter(path.glob(f"{TOPIC}-*"))).name.rpartition("-")[2]) for path in _directories(source)]
    tally = Tally()
    run = count()

    def both(damages: tuple[Damage, ...]) -> list[list[Seen] | None]:
        seen: list[list[Seen] | None] = []
        for name, make in (("odradek", OdradekBroker), ("jvm", _jvm)):
            home = folder / name
            _copy(source, home, damages)
            seen.append(_run(make, home, partitions))
            home.rename(folder / f"{name}-{next(run) // 2}")
        return seen

    ours, theirs = both(DAMAGES)
    if ours is None or theirs is None:
        tally.problems.append(f"no start with many directories: Odradek {ours is not None}, JVM Kafka {theirs is not None}")
    else:
        for damage, content, mine, other in zip(DAMAGES, contents, ours, theirs, strict=True):
            judge(damage, content, mine, other, tally)
    for damage in ALONE:
        ours, theirs = both((DAMAGES[0], damage))
        judge_alone(damage, contents, ours, theirs, tally)
    return tally
