"""Kafka's small text files: offset checkpoints, leader epochs, partition.metadata and the clean-shutdown marker.

Readers raise StorageError on malformed content, DamagedFileError where no release can have written it, and OSError from the disk. A missing
file reads as empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

from odradek.base.disk import Disk
from odradek.base.errors import StorageError
from odradek.base.ids import TopicPartition, uuid_from_string, uuid_to_string

_VERSION = 0


class DamagedFileError(StorageError):
    """Error for a file that is torn, emptied or overwritten."""


def _read_lines(disk: Disk, path: str, columns: int) -> list[list[str]]:
    try:
        text = disk.read_bytes(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    lines = text.splitlines()
    if not lines:
        return []
    try:
        version = int(lines[0])
        expected = int(lines[1]) if len(lines) > 1 else -1
    except ValueError:
        raise DamagedFileError(f"{path}: the first two lines must be the version and the number of entries") from None
    if version != _VERSION:
        raise StorageError(f"{path}: unknown checkpoint version {version}, this release reads {_VERSION}")
    if expected < 0:
        return []
    rows = [line.split() for line in lines[2:]]
    for row in rows:
        if len(row) != columns:
            raise DamagedFileError(f"{path}: malformed line {' '.join(row)!r}")
    if len(rows) != expected:
        raise DamagedFileError(f"{path}: {expected} entries are announced, but there are {len(rows)}")
    return rows


def _write_lines(disk: Disk, path: str, rows: Iterable[str], *, durable: bool = True) -> None:
    lines = list(rows)
    disk.write_atomic(path, "".join(f"{line}\n" for line in (str(_VERSION), str(len(lines)), *lines)).encode(), durable=durable)


def _number(path: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise DamagedFileError(f"{path}: {text!r} is not a number") from None


def read_offset_checkpoint(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Return the offsets of a recovery-point-, log-start-, replication- or cleaner-offset-checkpoint."""
    return {
        TopicPartition(topic, _number(path, partition)): _number(path, offset) for topic, partition, offset in _read_lines(disk, path, 3)
    }


def write_offset_checkpoint(disk: Disk, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    _write_lines(disk, path, (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()))


def read_epoch_checkpoint(disk: Disk, path: str) -> list[tuple[int, int]]:
    """Return the (epoch, start offset) pairs of a leader-epoch-checkpoint in file order."""
    return [(_number(path, epoch), _number(path, offset)) for epoch, offset in _read_lines(disk, path, 2)]


def write_epoch_checkpoint(disk: Disk, path: str, entries: Iterable[tuple[int, int]], *, durable: bool = True) -> None:
    _write_lines(disk, path, (f"{epoch} {offset}" for epoch, offset in entries), durable=durable)


def read_partition_metadata(disk: Disk, path: str) -> UUID | None:
    """Return the topic id of a log directory, None when the file is missing."""
    try:
        text = disk.read_bytes(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version") != str(_VERSION) or "topic_id" not in fields:
        raise StorageError(f"{path}: expected the lines 'version: {_VERSION}' and 'topic_id: <id>'")
    try:
        topic_id = uuid_from_string(fields["topic_id"].strip())
    except ValueError as error:
        raise StorageError(f"{path}: {error}") from None
    if topic_id.int == 0:
        raise StorageError(f"{path}: the topic id is zero")
    return topic_id


def write_partition_metadata(disk: Disk, path: str, topic_id: UUID, *, durable: bool = True) -> None:
    disk.write_atomic(path, f"version: {_VERSION}\ntopic_id: {uuid_to_string(topic_id)}".encode(), durable=durable)


def read_clean_shutdown(disk: Disk, path: str) -> int | None:
    """Return the broker epoch in the clean-shutdown marker, None without a marker.

    Returns -1 when the epoch cannot be read; the marker still counts.
    """
    import json

    try:
        content = disk.read_bytes(path)
    except FileNotFoundError:
        return None
    try:
        fields = json.loads(content)
        epoch = fields["brokerEpoch"]
        return epoch if isinstance(epoch, int) and fields["version"] == _VERSION else -1
    except (ValueError, KeyError, TypeError):
        return -1


def write_clean_shutdown(disk: Disk, path: str, broker_epoch: int) -> None:
    disk.write_atomic(path, b'{"version":0,"brokerEpoch":%d}' % broker_epoch)
