"""Shares of a leader's partitions: which of its num.replica.fetchers fetchers copies which partition."""

from __future__ import annotations

from functools import lru_cache

from odradek.base.ids import TopicPartition


def fetcher_number(topic_partition: TopicPartition, fetchers: int) -> int:
    """Return the number of the leader's fetcher for the partition, as Kafka does (AbstractFetcherManager.getFetcherId)."""
    number = (31 * _java_hash(topic_partition.topic) + topic_partition.partition) & 0xFFFF_FFFF
    if number >= 0x8000_0000:
        number = 0x1_0000_0000 - number
    return 0 if number == 0x8000_0000 else number % fetchers


@lru_cache(maxsize=4096)
def _java_hash(text: str) -> int:
    """Return String.hashCode of the text as an unsigned number; topic names are ASCII."""
    number = 0
    for unit in text.encode():
        number = (31 * number + unit) & 0xFFFF_FFFF
    return number
