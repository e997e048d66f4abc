"""Log on a virtual disk."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from odradek.base.disk import Disk
from odradek.base.ids import TopicPartition
from odradek.config.broker import BrokerConfig
from odradek.config.topic import TopicConfig
from odradek.records.batch import Record, decode_records, encode_batch
from odradek.records.compression import Compression
from odradek.storage.append import AppendOrigin
from odradek.storage.duplicates import IsStray
from odradek.storage.loader import load_log
from odradek.storage.loading import LoadProgress
from odradek.storage.log import Log
from odradek.storage.log_directory import write_checkpoints
from odradek.storage.log_manager import LogManager
from odradek.storage.moves import Assigned
from odradek.storage.options import LogOptions
from tests.clock import START_MS, ManualClock

NOW_MS = START_MS
TOPIC_ID = UUID(int=0x1234567890)
PARTITION = TopicPartition("orders", 0)
DIRECTORY = "/data/orders-0"


def topic_config(**overrides: object) -> TopicConfig:
    """Return a topic's configuration with overrides by Python name: segment_bytes=1000."""
    values = {name.replace("_", "."): str(value) for name, value in overrides.items()}
    if "segment.bytes" in values:
        values["internal.segment.bytes"] = values.pop("segment.bytes")
    return TopicConfig.build(None, values)


def batch(
    count: int = 1,
    *,
    timestamp: int = NOW_MS,
    size: int = 20,
    tag: str = "",
    base_offset: int = 0,
    epoch: int = -1,
    compression: Compression = Compression.NONE,
    producer_id: int = -1,
    producer_epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
) -> memoryview:
    """Return a batch of `count` records, whose values contain `tag` and their index."""
    records = [(timestamp + index, b"k%d" % index, f"{tag}:{index}".encode().ljust(size, b"."), ()) for index in range(count)]
    return memoryview(
        encode_batch(
            records,
            base_offset=base_offset,
            partition_leader_epoch=epoch,
            compression=compression,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
    )


def marker(producer_id: int, epoch: int, *, commit: bool, coordinator_epoch: int = 0, timestamp: int = NOW_MS) -> memoryview:
    """Return a control batch that ends a transaction."""
    key = b"\0\0" + (b"\0\1" if commit else b"\0\0")
    value = b"\0\0" + coordinator_epoch.to_bytes(4, "big")
    return memoryview(
        encode_batch([(timestamp, key, value, ())], producer_id=producer_id, producer_epoch=epoch, transactional=True, control=True)
    )


def open_transactions(log: Log) -> list[int]:
    """Return the first offsets of transactions without a marker, sorted."""
    return sorted(entry.txn_first_offset for entry in log.producer_state.producers.values() if entry.txn_first_offset >= 0)


def append_transactions(log: Log, count: int, *, committed: Callable[[int], bool] = lambda index: False, leader_epoch: int = 0) -> None:
    """Append `count` transactions of producer 9 with two records each; `committed(index)` decides between commit and abort."""
    for index in range(count):
        log.append_as_leader(batch(2, producer_id=9, producer_epoch=0, sequence=2 * index, transactional=True), leader_epoch)
        log.append_as_leader(marker(9, 0, commit=committed(index)), leader_epoch, origin=AppendOrigin.COORDINATOR)


def open_log(
    disk: Disk,
    clock: ManualClock,
    config: TopicConfig | None = None,
    *,
    clean: bool = False,
    compacted: bool = False,
    log_start_offset: int = 0,
    recovery_point: int = 0,
    verify_transactions: bool = False,
    on_io_error: Callable[[Log, OSError], None] | None = None,
    jitter: Callable[[int], int] = lambda limit: 0,
) -> Log:
    disk.makedirs(DIRECTORY)
    return load_log(
        disk,
        clock,
        PARTITION,
        DIRECTORY,
        config or topic_config(),
        clean=clean,
        compacted=compacted,
        log_start_offset=log_start_offset,
        recovery_point=recovery_point,
        options=LogOptions(verify_transactions=verify_transactions, on_io_error=on_io_error, jitter=jitter),
    )


def read_bytes(log: Log, start_offset: int, max_bytes: int = 1 << 20, max_offset: int | None = None, *, min_one: bool = True) -> bytes:
    end = log.log_end_offset if max_offset is None else max_offset
    found = log.read(start_offset, max_bytes=max_bytes, max_offset=end, min_one_message=min_one)
    try:
        return b"".join([piece.read(0, piece.size) for piece in found.slices])
    finally:
        found.release()


def read_all(log: Log, start_offset: int | None = None) -> list[Record]:
    """Return every record from the log start (or `start_offset`) to the log end, as a consumer would read them."""
    offset = log.log_start_offset if start_offset is None else start_offset
    found: list[Record] = []
    while offset < log.log_end_offset:
        records = [record for record in decode_records(read_bytes(log, offset)) if record.offset >= offset]
        if not records:
            break
        found += records
        offset = records[-1].offset + 1
    return found


def cleanup(logs: LogManager) -> int:
    """Apply retention to all logs; return the number of deleted segments."""
    return sum([deleted for _, deleted in logs.cleanup_steps()])


def checkpoint_recovery_points(logs: LogManager) -> None:
    logs.finish_checkpoints(write_checkpoints(logs.begin_recovery_points()))


def checkpoint_log_start_offsets(logs: LogManager) -> None:
    logs.finish_checkpoints(write_checkpoints(logs.begin_log_start_offsets()))


def load_all(
    logs: LogManager,
    topic_config: Callable[[TopicPartition], TopicConfig],
    *,
    is_stray: IsStray = lambda topic_partition, topic_id: False,
    assigned: Assigned = lambda topic_partition, topic_id: None,
    on_progress: Callable[[LoadProgress], None] | None = None,
) -> None:
    """Lock and load all directories, one after the other; the server loads them in parallel."""
    logs.lock_directories()
    for directory in logs.online_directories:
        loading = logs.begin_loading(directory, topic_config, on_progress)
        loading.open()
        loading.work()
        logs.adopt(loading, is_stray, assigned)


def no_broker() -> BrokerConfig:
    """The log manager only hands it on."""
    return BrokerConfig.__new__(BrokerConfig)
