"""Batches that a consumer sees (KIP-98, org.apache.kafka.clients.consumer.internals.CompletedFetch.nextFetchedRecord)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import BatchHeader, Buffer, check_crc, decode_batch, iter_headers

_ABORT = b"\0\0"


class AbortedTransactions:
    """Progress through the aborted transactions of a Fetch response: those that have begun and not ended, and those to come.

    A response that is read in several calls needs the same object in all of them, with its parts in order.
    """

    __slots__ = ("active", "waiting")

    def __init__(self, listed: Iterable[tuple[int, int]] = ()) -> None:
        """`listed` are (producer id, first offset), in any order, as a Fetch response with read_committed lists them."""
        self.waiting = sorted(listed, key=_first_offset, reverse=True)
        """Transactions that have not begun, the next one last."""
        self.active: set[int] = set()
        """Producers whose transaction has begun and not ended yet."""


def visible_batches(
    buffers: Iterable[Buffer],
    aborted: Iterable[tuple[int, int]] | AbortedTransactions = (),
    *,
    check_crcs: bool = True,
    name: object = "the log",
) -> Iterator[tuple[Buffer, int, BatchHeader]]:
    """Yield (buffer, position, header) of the data batches, without control batches and batches of aborted transactions.

    The buffers hold consecutive parts of one partition, called `name` in errors; an incomplete batch at the end of a buffer is ignored.
    `aborted` is (producer id, first offset) as a Fetch response with read_committed lists it for these buffers, in any order. Without it
    all batches but markers are visible. A transaction ends with its abort marker, in any of the buffers.

    Raises KafkaError: CORRUPT_MESSAGE for a wrong checksum, and the errors of a malformed batch.
    """
    transactions = aborted if isinstance(aborted, AbortedTransactions) else AbortedTransactions(aborted)
    waiting, active = transactions.waiting, transactions.active
    for buffer in buffers:
        for position, header in iter_headers(buffer):
            if check_crcs and not check_crc(buffer, position, header):
                raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"The batch at offset {header.base_offset} of {name} fails its checksum")
            while waiting and waiting[-1][1] <= header.last_offset:
                active.add(waiting.pop()[0])
            if header.is_control:
                if header.producer_id in active and _is_abort_marker(buffer, position, header):
                    active.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in active):
                yield buffer, position, header


def _first_offset(transaction: tuple[int, int]) -> int:
    return transaction[1]


def _is_abort_marker(buffer: Buffer, position: int, header: BatchHeader) -> bool:
    """Return whether the marker's key says abort: a version (int16), then the type (int16), 0 for abort."""
    records = decode_batch(buffer, position, header)
    return bool(records) and records[0].key is not None and records[0].key[2:4] == _ABORT
