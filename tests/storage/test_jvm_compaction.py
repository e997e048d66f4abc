"""The same logs, cleaned by JVM Kafka 4.3.1 and by us, hold the same afterwards; its tools read what we leave behind."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from odradek.records.batch import BatchHeader, Record, decode_batch, iter_headers
from odradek.storage.compaction.plan import CleaningPlan, cleanable_offsets
from odradek.storage.disk import OsDisk
from odradek.storage.txn_index import TransactionIndex
from tests.storage.compaction_support import Cleanery, compact_config
from tests.storage.test_compaction_properties import Story
from tests.storage.test_jvm import COMPLAINTS, dump, java

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

    def line(self, checkpoint: int) -> str:
        settings = [f"{key}={value}" for key, value in SETTINGS.items()]
        fields = (self.jvm, self.made.log.log_start_offset, checkpoint, self.made.clock.now_ms, self.memory, self.buffer)
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


def cleaned_by_the_jvm(cases: list[Case], checkpoints: list[int], folder: Path) -> list[list[str]]:
    """What the program says of each log: first dirty, first uncleanable, reset, ratio, end offset."""
    plan = folder / "plan.tsv"
    plan.write_text("\n".join(case.line(checkpoint) for case, checkpoint in zip(cases, checkpoints, strict=True)))
    output = java("-Dorg.slf4j.simpleLogger.defaultLogLevel=error", str(Path(__file__).with_name("jvm") / "CleanLogs.java"), str(plan))
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
            offsets = cleanable_offsets(made.log, checkpoint, made.clock.now_ms)
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
