"""Transactions in the order in which a cleaning meets them (Kafka's CleanedTransactionMetadata)."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from odradek.records.batch import BatchHeader
from odradek.storage.append import read_marker
from odradek.storage.txn_index import AbortedTransaction


class _Aborted:
    """Aborted transaction whose marker has not been met yet."""

    __slots__ = ("seen", "transaction")

    def __init__(self, transaction: AbortedTransaction) -> None:
        self.transaction = transaction
        self.seen = False
        """True if one of its batches is still in the log."""


class CleanedTransactions:
    """Decision on batches of transactions, which must be given in the order of the log.

    `retained` collects the index entries of the aborted transactions whose markers are kept, for the cleaned segment's index.
    """

    __slots__ = ("_committed", "_ongoing", "_upcoming", "retained")

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._upcoming = [(each.first_offset, each) for each in aborted]
        heapify(self._upcoming)
        self._ongoing: dict[int, _Aborted] = {}
        self._committed: set[int] = set()
        self.retained: list[AbortedTransaction] = []

    def add_aborted(self, aborted: Iterable[AbortedTransaction]) -> None:
        """Add the aborted transactions that reach into the next segment. A transaction may be added once for each segment that it spans."""
        for each in aborted:
            heappush(self._upcoming, (each.first_offset, each))

    def _begin_up_to(self, offset: int) -> None:
        upcoming = self._upcoming
        while upcoming and upcoming[0][0] <= offset:
            transaction = heappop(upcoming)[1]
            self._ongoing.setdefault(transaction.producer_id, _Aborted(transaction))

    def is_aborted(self, header: BatchHeader) -> bool:
        """Return whether the transaction of a data batch was aborted, so that none of its records is needed."""
        if self._upcoming:
            self._begin_up_to(header.last_offset)
        if not header.is_transactional:
            return False
        aborted = self._ongoing.get(header.producer_id)
        if aborted is not None:
            aborted.seen = True
            return True
        self._committed.add(header.producer_id)
        return False

    def is_spent(self, batch: memoryview, header: BatchHeader) -> bool:
        """Return whether no batch is left of the transaction that a control batch ends. Its marker may then be removed after its delete
        horizon.
        """
        if self._upcoming:
            self._begin_up_to(header.last_offset)
        if header.record_count == 0:
            return True
        marker = read_marker(batch, 0, header)
        if marker is None:
            return False
        if not marker.aborted:
            if header.producer_id in self._committed:
                self._committed.discard(header.producer_id)
                return False
            return True
        aborted = self._ongoing.pop(header.producer_id, None)
        if aborted is None or not aborted.seen:
            return True
        self.retained.append(aborted.transaction)
        return False
