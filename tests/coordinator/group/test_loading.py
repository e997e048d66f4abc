"""Loading a partition from runs of its bytes gives what loading it batch by batch gives."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.context import RuntimeOptions
from odradek.coordinator.group.records import SERDE, group_tombstone, offset_commits, offset_tombstone
from odradek.coordinator.markers import marker_batch
from odradek.coordinator.partition_log import decode_one
from odradek.coordinator.shard import LoadedBatch, LoadedRun
from odradek.protocol.messages.offset_commit import OffsetCommitRequest
from odradek.records.batch import encode_batch, iter_headers
from odradek.records.compression import Compression
from tests.coordinator.group.support import World
from tests.coordinator.support import MemoryLog

Partition = OffsetCommitRequest.OffsetCommitRequestPartition


class RunLog(MemoryLog):
    """Reads as PartitionLog does: about as many bytes as asked for, wherever they end."""

    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> Deferred[Sequence[LoadedBatch]] | Deferred[LoadedRun]:  # type: ignore[override]
        data = b"".join(batch for batch in self.batches if next(iter(iter_headers(batch)))[1].next_offset > start_offset)
        first = next(iter(iter_headers(data)))[1].size if data else 0
        return Deferred.of(LoadedRun(data[: max(first, 1_000)], lambda run, position: decode_one(run, position, end_offset)))


def random_batches(rng: random.Random) -> list[bytes]:
    """Commits, tombstones, transactions, other records, plain and compressed."""
    batches = []
    for _ in range(rng.randrange(1, 60)):
        producer = rng.choice([-1, -1, -1, -1, 7, 8])
        if producer > 0 and rng.random() < 0.5:
            batches.append(marker_batch(producer, 0, 0, committed=rng.random() < 0.7, now_ms=0))
            continue
        records = []
        for _ in range(rng.randrange(1, 6)):
            place = (f"g{rng.randrange(3)}", f"t{rng.randrange(2)}", rng.randrange(3))
            commit = Partition(partition_index=place[2], committed_offset=rng.randrange(99), committed_metadata="")
            expires = rng.choice([None, None, 99])
            (record,) = offset_commits(*place[:2], [commit], commit_timestamp=0, expire_timestamp=expires)
            records.append((0, *(SERDE.encode(offset_tombstone(*place)) if rng.random() < 0.2 else record), ()))
        if rng.random() < 0.1:
            records.append((0, b"\0\x63unknown", b"\0\0what", ()))
        compression = rng.choice([Compression.NONE, Compression.NONE, Compression.GZIP])
        batches.append(encode_batch(records, producer_id=producer, producer_epoch=0, transactional=producer > 0, compression=compression))
    return batches


def loaded(log: MemoryLog, batches: list[bytes], committed: float) -> list[object]:
    log.auto_commit = False
    for batch in batches:
        log.append(batch, 0)
    log.commit(int(log.log_end_offset * committed))
    world = World(log)
    table = world.shard.offsets.offsets
    latest = sorted((group, *each) for group in table.groups for each in table.of_group(group))
    committed_now = sorted(
        (group, topic, *each)
        for group in table.groups
        for topic, partitions in table.topics(group, committed=True)
        for each in partitions.committed_items()
    )
    open_transactions = sorted(world.shard.offsets.pending.of_group("g0"))
    return [latest, committed_now, open_transactions, sorted(group.group_id for group in world.shard.groups), world.shard.offsets.tables]


@pytest.mark.parametrize("seed", range(60))
def test_runs_and_batches_load_the_same(seed: int) -> None:
    rng = random.Random(seed)
    batches = random_batches(rng)
    committed = rng.choice([1, 1, 0.5, 0])
    assert loaded(RunLog(), batches, committed) == loaded(MemoryLog(), batches, committed)


def test_records_that_have_to_be_decoded_make_a_slice_shorter() -> None:
    """A slice is so long because others wait meanwhile: ten times as long for each record of which messages are made."""
    log = RunLog()
    log.append(encode_batch([(0, *SERDE.encode(group_tombstone(f"g{number}")), ()) for number in range(100)]), 0)
    world = World(RunLog())
    world.log = log
    world.runtime._options = RuntimeOptions(load_slice_records=200)
    home = world.coordinator.partition_for("g")
    world.runtime.unload(home, None)
    world.runtime.load(home, 9)
    turns = 1
    while world.runtime.leader_epoch(home) is None:
        world.clock.turn()
        turns += 1
    assert turns == 6, "twenty of them a turn, and one to find the end"


def test_a_malformed_batch_fails_the_load() -> None:
    (record,) = offset_commits("g", "t", [Partition()], commit_timestamp=0)
    batch = bytearray(encode_batch([(0, *record, ())] * 2))
    batch[60] = 1
    log = RunLog()
    log.append(bytes(batch), 0)
    world = World(log)
    with pytest.raises(KafkaError) as caught:
        world.runtime.read(world.coordinator.partition_for("g"), lambda shard: shard)
    assert caught.value.code is ErrorCode.NOT_COORDINATOR


def test_a_log_of_which_nothing_is_left_is_loaded() -> None:
    log = RunLog()
    log.log_end_offset = log.high_watermark = 5
    assert World(log).commit_code(1) is ErrorCode.NONE
