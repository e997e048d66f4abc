"""Hanging transactions: open in a partition, but unknown to every coordinator (KIP-664)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from odradek.base.ids import TopicPartition
from odradek.client.admin.types.transactions import ProducerState


class Suspect(NamedTuple):
    """Producer with an open transaction in a partition."""

    partition: TopicPartition
    producer: ProducerState


def candidates(producers: Mapping[TopicPartition, Iterable[ProducerState]], before_ms: int) -> list[Suspect]:
    """Return the producers with an open transaction whose last record is older than `before_ms` (Unix milliseconds, exclusive)."""
    return [
        Suspect(partition, each)
        for partition, found in sorted(producers.items())
        for each in sorted(found, key=lambda producer: producer.producer_id)
        if each.current_transaction_start_offset is not None and each.last_timestamp < before_ms
    ]


def hanging(suspects: Iterable[Suspect], ids: Mapping[int, str], partitions: Mapping[str, Collection[TopicPartition]]) -> list[Suspect]:
    """Return the suspects whose transactional id no coordinator knows, or whose coordinator has no transaction with the partition.

    `ids` are transactional ids by producer id, `partitions` the partitions of a transaction by transactional id.
    """
    return [suspect for suspect in suspects if suspect.partition not in partitions.get(ids.get(suspect.producer.producer_id, ""), ())]
