"""Tests of the distinction between records that a client has repeated and faults of a broker."""

from __future__ import annotations

import pytest

from odradek.records.batch import BatchHeader, encode_batch, read_header
from tests.campaigns.written_again import Refusal, is_the_clients, refusals

LINE = (
    "[data-plane-kafka-request-handler-0] ERROR kafka.server.ReplicaManager - [ReplicaManager broker=1] Error processing append operation "
    "on partition UUvSDr0VSOi9bfemQMnvpw:source-0\n"
    "org.apache.kafka.common.errors.OutOfOrderSequenceException: Out of order sequence number for producer 1001 at offset 12 in partition "
    "source-0: 14 (incoming seq. number), 11 (current end sequence number)\n"
)


def test_a_jvm_brokers_refusals_are_read_from_its_log() -> None:
    assert refusals(LINE, "source-0") == [Refusal(1001, 12, 11)]
    assert refusals(LINE, "source-1") == []


def batch(offset: int, epoch: int, sequence: int, producer_id: int = 1001) -> BatchHeader:
    """Return the header of a batch with one record."""
    return read_header(
        encode_batch([(0, None, b"x", ())], base_offset=offset, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    )


@pytest.mark.parametrize(
    ("batches", "refused", "clients"),
    [
        ([batch(11, 0, 11), batch(12, 1, 0)], [Refusal(1001, 12, 11)], True),
        ([batch(11, 0, 11), batch(12, 0, 11)], [Refusal(1001, 12, 11)], False),
        ([batch(11, 0, 11), batch(12, 1, 0)], [], False),
        ([batch(11, 0, 11), batch(12, 1, 0)], [Refusal(1001, 12, 10)], False),
        ([batch(11, 0, 11), batch(12, 1, 0)], [Refusal(1001, 11, 11)], False),
        ([batch(11, 0, 11), batch(12, 1, 0)], [Refusal(1001, 13, 11)], False),
        ([batch(11, 0, 11), batch(12, 1, 0)], [Refusal(1002, 12, 11)], False),
        ([batch(11, 0, 11), batch(12, 1, 0, 1002)], [Refusal(1001, 12, 11)], False),
        ([batch(11, 0, 11), batch(12, 2, 0)], [Refusal(1001, 12, 11)], False),
        ([batch(11, 0, 11)], [Refusal(1001, 12, 11)], False),
    ],
    ids=[
        "written again",
        "in the same epoch",
        "nobody refused",
        "the leader had lost it",
        "refused before",
        "refused later",
        "another producer refused",
        "by another producer",
        "two epochs later",
        "not there",
    ],
)
def test_only_what_a_client_repeats_in_its_next_epoch_is_its_own(batches: list[BatchHeader], refused: list[Refusal], clients: bool) -> None:
    assert is_the_clients(11, 12, batches, refused) is clients
