"""Which batches a consumer sees (KIP-98, org.apache.kafka.clients.consumer.internals.CompletedFetch.nextFetchedRecord)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import BatchHeader, Buffer, check_crc, decode_batch, iter_headers

_ABORT = b"\0\0"


class AbortedTransactions:
    """The aborted transactions of a Fetch answer on the way through its records: which have begun and are not over.

    For an answer that is read in several calls, which all get the same one; the pieces follow one another.
    """

    __slots__ = ("active", "waiting")

    def __init__(self, listed: Iterable[tuple[int, int]] = ()) -> None:
        """(producer id, first offset), in any order, as a Fetch answer with read_committed lists them."""
        self.waiting = sorted(listed, key=_first_offset, reverse=True)
        """Those that have not begun, the next one last."""
        self.active: set[int] = set()
        """Producers whose transaction has begun and was not seen to end."""


def visible_batches(
    buffers: Iterable[Buffer],
    aborted: Iterable[tuple[int, int]] | AbortedTransactions = (),
    *,
    check_crcs: bool = True,
    name: object = "the log",
) -> Iterator[tuple[Buffer, int, BatchHeader]]:
    """(buffer, position, header) of the data batches: no control batches, none of aborted transactions.

    The buffers hold consecutive pieces of one partition, called `name` in errors; a batch cut off at the end of one is ignored. `aborted`
    is (producer id, first offset) as a Fetch answer with read_committed lists it for these pieces, in any order; without it everything is
    seen that is not a marker. A transaction ends with its abort marker, in whichever piece that lies.

    KafkaError: CORRUPT_MESSAGE for a checksum that does not fit, and what a malformed batch raises.
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
    """By its key: a version (int16), then the type (int16), 0 for abort."""
    records = decode_batch(buffer, position, header)
    return bool(records) and records[0].key is not None and records[0].key[2:4] == _ABORT
