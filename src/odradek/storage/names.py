"""File and directory names of Kafka's LogFileUtils and LocalLog."""

from __future__ import annotations

import re
from uuid import UUID

from odradek.base.errors import StorageError
from odradek.base.ids import TopicPartition

LOG_SUFFIX = ".log"
INDEX_SUFFIX = ".index"
TIME_INDEX_SUFFIX = ".timeindex"
TXN_INDEX_SUFFIX = ".txnindex"
SNAPSHOT_SUFFIX = ".snapshot"
SEGMENT_SUFFIXES = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TXN_INDEX_SUFFIX)

DELETED_SUFFIX = ".deleted"
CLEANED_SUFFIX = ".cleaned"
SWAP_SUFFIX = ".swap"

DELETE_DIR_SUFFIX = "-delete"
FUTURE_DIR_SUFFIX = "-future"
STRAY_DIR_SUFFIX = "-stray"

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
MOVED_FROM = "moved-from"
"""File in the directory of a moved replica, with the path of the log that it replaces, until the exchange of the two is durable.

Kafka has no such file and ignores it.
"""
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
LOCK_FILE = ".lock"
META_PROPERTIES = "meta.properties"

_DELETED_DIR = re.compile(r"^(\S+)-(\S+)\.(\S+)-(delete|stray)$")
_FUTURE_DIR = re.compile(r"^(\S+)-(\S+)\.(\S+)-future$")
LONGEST_NAME = 255


def segment_file(base_offset: int, suffix: str) -> str:
    """Return a file name such as `00000000000000000042.log`."""
    return f"{base_offset:020d}{suffix}"


def offset_of_file(name: str) -> int | None:
    """Return the base offset at the beginning of a file name, or None without one."""
    head = name.partition(".")[0]
    return int(head) if head.isdecimal() and head.isascii() else None


def directory_name(topic_partition: TopicPartition) -> str:
    return f"{topic_partition.topic}-{topic_partition.partition}"


def _suffixed(topic_partition: TopicPartition, unique: UUID, suffix: str, *, capped: bool) -> str:
    tail = f"-{topic_partition.partition}.{unique.hex}{suffix}"
    topic = topic_partition.topic
    return (topic[: LONGEST_NAME - len(tail)] if capped else topic) + tail


def deleted_directory_name(topic_partition: TopicPartition, unique: UUID) -> str:
    """Return `topic-0.<32 hex digits>-delete`; the topic is shortened where the name would exceed the file system's 255 bytes."""
    return _suffixed(topic_partition, unique, DELETE_DIR_SUFFIX, capped=True)


def stray_directory_name(topic_partition: TopicPartition, unique: UUID) -> str:
    return _suffixed(topic_partition, unique, STRAY_DIR_SUFFIX, capped=True)


def future_directory_name(topic_partition: TopicPartition, unique: UUID) -> str:
    return _suffixed(topic_partition, unique, FUTURE_DIR_SUFFIX, capped=False)


def parse_directory_name(name: str) -> TopicPartition:
    """Return the partition of a log's directory. Raises StorageError when the name is not `topic-N`, with or without suffix."""
    plain = name
    if name.endswith((DELETE_DIR_SUFFIX, STRAY_DIR_SUFFIX)):
        if not _DELETED_DIR.match(name):
            raise _not_a_log_directory(name)
        plain = name.rpartition(".")[0]
    elif name.endswith(FUTURE_DIR_SUFFIX):
        if not _FUTURE_DIR.match(name):
            raise _not_a_log_directory(name)
        plain = name.rpartition(".")[0]
    topic, dash, partition = plain.rpartition("-")
    if not dash or not topic or not (partition.isdecimal() and partition.isascii()):
        raise _not_a_log_directory(name)
    return TopicPartition(topic, int(partition))


def _not_a_log_directory(name: str) -> StorageError:
    return StorageError(
        f"the name of the directory {name!r} must be topic-partition or topic-partition.uniqueId-delete/-future/-stray; log "
        "directories must contain only Kafka's data: move it elsewhere"
    )
