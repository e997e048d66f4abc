"""The same logs, cleaned by JVM Kafka 4.3.1 and by us, hold the same afterwards; its tools read what we leave behind."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from interop.peers import JvmBroker
from odradek.records.batch import BatchHeader, Record, decode_batch, iter_headers
from odradek.storage.checkpoints import write_offset_checkpoint
from odradek.storage.compaction.manager import CleanerManager
from odradek.storage.compaction.plan import CleaningPlan, cleanable_offsets
from odradek.storage.disk import OsDisk
from odradek.storage.txn_index import TransactionIndex
from tests.storage.compaction_support import Cleanery, Story, compact_config
from tests.storage.jvm_support import COMPLAINTS, dump, java

pytestmark = [pytest.mark.jvm, pytest.mark.timeout(300)]

SETTINGS = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "600",
    "delete.retention.ms": "3000",
    "min.cleanable.dirty.ratio": "0.01",
    "index.interval.bytes": "200",
    "min.compaction.lag.ms": "0",
}
CONFIG = compact_config(segment_bytes=600, delete_retention_ms=3_000, index_interval_bytes=200)
SEEDS = 24
MEMORIES = (24 * 8, 24 * 100, 1 << 16)
BUFFERS = (300, 4096)


class Case(NamedTuple):
    """One log: ours is cleaned here, the JVM's is its copy."""

    seed: int
    made: Cleanery
    ours: Path
    jvm: Path
    memory: int
    buffer: int

    def line(self, checkpoint: int, topic: Mapping[str, str]) -> str:
        settings = [f"{key}={value}" for key, value in topic.items()]
        fields = (self.jvm, self.made.log.log_start_offset, checkpoint, self.made.clock.time_ms(), self.memory, self.buffer)
        return "\t".join([*map(str, fields), *settings])


def batches(directory: Path) -> list[tuple[str, list[tuple[BatchHeader, list[Record]]]]]:
    """Segments in order, each with its batches; what differs when compressed anew (size, CRC) is left out."""
    found: list[tuple[str, list[tuple[BatchHeader, list[Record]]]]] = []
    for path in sorted(directory.glob("*.log")):
        data = path.read_bytes()
        content = [
            (header._replace(batch_length=0, crc=0) if header.is_compressed else header, decode_batch(data, position, header))
            for position, header in iter_headers(data)
        ]
        found.append((path.name, content))
    return found


def aborted(directory: Path) -> dict[str, object]:
    return {
        path.name: TransactionIndex(OsDisk(), str(path), int(path.stem)).entries()
        for path in sorted(directory.glob("*.txnindex"))
        if path.stat().st_size
    }


def cleaned_by_the_jvm(cases: list[Case], checkpoints: list[int], folder: Path, settings: Mapping[str, str] = SETTINGS) -> list[list[str]]:
    """What the program says of each log: first dirty, first uncleanable, reset, ratio, end offset."""
    plan = folder / "plan.tsv"
    plan.write_text("\n".join(case.line(checkpoint, settings) for case, checkpoint in zip(cases, checkpoints, strict=True)))
    output = java(str(Path(__file__).with_name("jvm") / "CleanLogs.java"), str(plan))
    return [line.split() for line in output.splitlines() if line[:1].isdigit()]


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    folder = tmp_path_factory.mktemp("logs")
    made: list[Case] = []
    for seed in range(SEEDS):
        cleanery = Cleanery(OsDisk(), config=CONFIG, directories=(str(folder / f"ours-{seed}"),))
        cleanery.map_memory, cleanery.buffer_bytes = MEMORIES[seed % 3], BUFFERS[seed % 2]
        ours = folder / f"ours-{seed}" / "orders-0"
        made.append(Case(seed, cleanery, ours, folder / f"jvm-{seed}" / "orders-0", cleanery.map_memory, cleanery.buffer_bytes))
    return made


def test_both_keep_the_same(cases: list[Case], tmp_path: Path) -> None:
    """Three rounds of writing and cleaning, in both from the same files."""
    stories = [Story(case.seed, case.made) for case in cases]
    compared = 0
    for _ in range(3):
        checkpoints: list[int] = []
        ends: list[int] = []
        expected: list[list[str]] = []
        for case, story in zip(cases, stories, strict=True):
            made = case.made
            story.write(40)
            made.log.producer_state.take_snapshot()
            made.log.flush()
            for segment in made.log.segments:
                segment.index_paths()
            shutil.rmtree(case.jvm.parent, ignore_errors=True)
            case.jvm.parent.mkdir()
            shutil.copytree(case.ours, case.jvm, ignore=shutil.ignore_patterns("*.deleted"))
            checkpoint = made.manager.checkpoint_of(made.log)
            checkpoints.append(-1 if checkpoint is None else checkpoint)
            offsets = cleanable_offsets(made.log, checkpoint, made.clock.time_ms())
            plan = CleaningPlan(made.log, offsets, overdue=False)
            run = made.clean()
            end = -1 if run is None else run.cleaner.end_offset
            ends.append(end)
            ratio = str(plan.cleanable_ratio) if plan.total_bytes else "NaN"
            expected.append([str(plan.first_dirty), str(plan.first_uncleanable), str(offsets.reset).lower(), ratio])
        answers = cleaned_by_the_jvm(cases, checkpoints, tmp_path)
        assert len(answers) == len(cases)
        for case, end, ours, answer in zip(cases, ends, expected, answers, strict=True):
            assert answer[:4] == ours, f"seed {case.seed}: what is dirty"
            if end >= 0:
                assert int(answer[4]) == end, f"seed {case.seed}: where the next cleaning begins"
                assert batches(case.ours) == batches(case.jvm), f"seed {case.seed}"
                assert aborted(case.ours) == aborted(case.jvm), f"seed {case.seed}"
                compared += 1
    assert compared > 2 * SEEDS


def test_dump_log_segments_reads_cleaned_segments(cases: list[Case]) -> None:
    for case in cases[:3]:
        files = [path for path in sorted(case.ours.iterdir()) if path.suffix in (".log", ".index", ".timeindex", ".txnindex")]
        logs = [path for path in files if path.suffix == ".log"]
        indexes = [path for path in files if path.suffix in (".index", ".timeindex")]
        said = dump(logs, "--deep-iteration", "--print-data-log")
        assert not COMPLAINTS.search(said), said
        assert said.count("baseOffset: ") == sum(len(content) for _, content in batches(case.ours))
        checked = dump(indexes, "--index-sanity-check")
        assert checked.count("passed sanity check") + checked.count(" is empty.") == len(indexes), checked
        assert checked.count("passed sanity check") >= len(logs)
        # The tool misses the records of batches that were retained empty, whoever wrote them.
        theirs = [case.jvm / path.name for path in indexes[:-2]]
        verified = dump(indexes[:-2], "--verify-index-only")
        assert verified == dump(theirs, "--verify-index-only").replace(str(case.jvm), str(case.ours))


TRANSACTIONAL = {**SETTINGS, "internal.segment.bytes": "6000", "delete.retention.ms": "60000"}


def test_transactions_of_a_jvm_broker_are_cleaned_alike(tmp_path: Path) -> None:
    """A real producer's transactions against a JVM broker, committed, aborted and interleaved; cleaned twice, markers' horizon included."""
    with JvmBroker(tmp_path / "jvm", {"log.cleaner.enable": "false"}, heap="512m") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("orders", 1, 1, config=TRANSACTIONAL)])["orders"].result(30)
        rng = random.Random(5)
        producers = [Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": f"t{number}"}) for number in range(3)]
        for producer in producers:
            producer.init_transactions(60)
        for _ in range(20):
            for producer in producers:
                producer.begin_transaction()
            for _ in range(6):
                producer = rng.choice(producers)
                for _ in range(rng.randint(1, 4)):
                    value = None if rng.random() < 0.2 else str(rng.random())
                    producer.produce("orders", key=rng.choice("abcdefghij"), value=value, headers={"n": str(rng.random())})
                producer.flush(30)
            for producer in producers:
                (producer.commit_transaction if rng.random() < 0.6 else producer.abort_transaction)(60)
    source = broker.data / "orders-0"
    copies = [tmp_path / name / "orders-0" for name in ("ours", "theirs")]
    for copy in copies:
        shutil.copytree(source, copy)
        (copy / "partition.metadata").unlink()
    config = compact_config(segment_bytes=6_000, delete_retention_ms=60_000, index_interval_bytes=200)
    made = Cleanery(OsDisk(), config=config, directories=(str(tmp_path / "ours"),))
    made.clock.set_wall_ms(time.time_ns() // 1_000_000)
    case = Case(0, made, copies[0], copies[1], made.map_memory, made.buffer_bytes)
    assert len(made.log.segments) > 3
    assert aborted(source)
    before = _table(made.committed())
    for checkpoint in (-1, 0):
        # The second time the whole log counts as dirty again: markers and tombstones have outlived their horizon.
        if checkpoint == 0:
            made.clock.advance_ms(60_001)
            write_offset_checkpoint(OsDisk(), f"{tmp_path}/ours/cleaner-offset-checkpoint", {})
            made.manager = CleanerManager(OsDisk(), made.logs)
        run = made.clean()
        assert run is not None
        answer = cleaned_by_the_jvm([case], [checkpoint], tmp_path, TRANSACTIONAL)[0]
        assert int(answer[4]) == run.cleaner.end_offset
        assert batches(case.ours) == batches(case.jvm)
        assert aborted(case.ours) == aborted(case.jvm)
        assert _table(made.committed()) == before
        assert run.cleaner.stats.records_written < run.cleaner.stats.records_read


def _table(records: list[Record]) -> dict[bytes | None, bytes]:
    last = {record.key: record.value for record in records}
    return {key: value for key, value in last.items() if value is not None}
