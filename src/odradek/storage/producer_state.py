"""Producer state of a log: sequences, epochs, open transactions (Kafka's ProducerStateManager and ProducerAppendInfo).

The state is a function of the log. Snapshots next to the segments only make its rebuilding shorter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from odradek.base.disk import Disk
from odradek.base.errors import ErrorCode, KafkaError
from odradek.records.batch import TRANSACTIONAL_MASK, increment_sequence
from odradek.storage.producer_snapshot import CorruptSnapshotError, ProducerSnapshotEntry, SnapshotFiles, decode_snapshot, encode_snapshot
from odradek.storage.txn_index import AbortedTransaction

if TYPE_CHECKING:
    from odradek.records.batch import BatchHeader
    from odradek.records.scan import Scan
    from odradek.storage.append import ControlMarker

BATCHES_KEPT = 5
NO_SEQUENCE = -1
_MAX_SEQUENCE = 0x7FFFFFFF
_MAX_EPOCH = 0x7FFF


class BatchMetadata(NamedTuple):
    """Recent batch of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta

    @property
    def first_sequence(self) -> int:
        first = self.last_sequence - self.offset_delta
        return first if first >= 0 else first + _MAX_SEQUENCE + 1


class ProducerEntry:
    """State of one producer id; `batches` are the last five of its current epoch, oldest first."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "producer_id", "restored", "txn_first_offset")

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = -1
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.txn_first_offset = -1
        """First offset of the open transaction, -1 when none is open."""
        self.batches: list[BatchMetadata] = []
        self.restored = False
        """True if the entry was read from a snapshot, which holds only the last batch. `complete_from` adds earlier batches from the log.
        """

    def complete_from(self, recent: list[BatchMetadata]) -> None:
        """Add earlier batches found in the log, oldest first, as far as their sequences lead up to the last batch without a gap."""
        self.restored = False
        if not recent or not self.batches or recent[-1].last_offset != self.batches[-1].last_offset:
            return
        batches = [recent[-1]]
        for batch in reversed(recent[:-1]):
            if len(batches) == BATCHES_KEPT or (batch.last_sequence + 1) & _MAX_SEQUENCE != batches[0].first_sequence:
                break
            batches.insert(0, batch)
        self.batches = batches

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    @property
    def last_offset_delta(self) -> int:
        return self.batches[-1].offset_delta if self.batches else 0

    def find_duplicate(self, epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        if epoch == self.epoch:
            for batch in self.batches:
                if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                    return batch
        return None

    def add_batch(self, epoch: int, batch: BatchMetadata) -> None:
        batches = self.batches
        if epoch != self.epoch:
            batches.clear()
            self.epoch = epoch
        elif len(batches) == BATCHES_KEPT:
            del batches[0]
        batches.append(batch)
        self.last_timestamp = batch.timestamp


class VerificationGuard:
    """Token of one running verification (KIP-890); tokens are compared by identity."""

    __slots__ = ()


class _Verification:
    __slots__ = ("bumps_epoch", "epoch", "guard", "lowest_sequence", "timestamp")

    def __init__(self, timestamp: int, sequence: int, epoch: int, bumps_epoch: bool) -> None:
        self.guard = VerificationGuard()
        self.bumps_epoch = bumps_epoch
        self.timestamp = timestamp
        self.lowest_sequence = sequence
        self.epoch = epoch

    def lower(self, sequence: int, epoch: int) -> None:
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    aborted: bool


class ProducerStateManager:
    """Checks of batches before they are written, and updates after (`apply_data`, `apply_marker`).

    Checks raise KafkaError: OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED.
    """

    __slots__ = (
        "_expiration_ms",
        "_name",
        "_ongoing",
        "_unreplicated",
        "_verifications",
        "_verify",
        "last_snapshot_offset",
        "map_end_offset",
        "producers",
        "snapshots",
    )

    def __init__(self, disk: Disk, directory: str, name: str, *, expiration_ms: int, verify_transactions: bool) -> None:
        self.snapshots = SnapshotFiles(disk, directory)
        self._name = name
        self._expiration_ms = expiration_ms
        self._verify = verify_transactions
        self.producers: dict[int, ProducerEntry] = {}
        self._verifications: dict[int, _Verification] = {}
        self._ongoing: dict[int, int] = {}
        """Producer id by first offset of the open transactions. Offsets rise, because transactions begin at the end of the log."""
        self._unreplicated: dict[int, int] = {}
        """Marker offset by first offset of transactions completed above the high watermark, in order of completion."""
        self.map_end_offset = 0
        self.last_snapshot_offset = 0

    # -- checks ------------------------------------------------------------------------------------------------------------------

    def update_settings(self, expiration_ms: int, *, verify_transactions: bool) -> None:
        """Set both settings for the following checks."""
        self._expiration_ms = expiration_ms
        self._verify = verify_transactions

    def check_client(self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int) -> BatchMetadata | None:
        """Check a client's data batch. Return the earlier batch that it repeats, or None when it is next in sequence."""
        entry = self.producers.get(producer_id)
        if entry is None:
            self._check_lowest(producer_id, first_sequence)
            return None
        duplicate = entry.find_duplicate(epoch, first_sequence, last_sequence)
        if duplicate is not None:
            return duplicate
        self.check_epoch(entry, epoch)
        self._check_lowest(producer_id, first_sequence)
        known = entry.epoch
        if known == -1:
            return None
        if epoch != known:
            if first_sequence != 0:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Producer {producer_id} begins epoch {epoch} (after {known}) on {self._name} with sequence {first_sequence}, not 0",
                )
            return None
        last = entry.last_sequence
        if first_sequence != last + 1 and not (first_sequence == 0 and last == _MAX_SEQUENCE):
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {producer_id} sent sequence {first_sequence} to {self._name}, whose last one is {last}",
            )
        return None

    def check_epoch(self, entry: ProducerEntry, epoch: int) -> None:
        """Raise KafkaError INVALID_PRODUCER_EPOCH when the batch has an older epoch."""
        if epoch < entry.epoch:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch {epoch} of producer {entry.producer_id} on {self._name} is smaller than the last seen epoch {entry.epoch}",
            )

    def _check_lowest(self, producer_id: int, first_sequence: int) -> None:
        verification = self._verifications.get(producer_id)
        if verification is None:
            return
        if verification.bumps_epoch and first_sequence != 0:
            entry = self.producers.get(producer_id)
            if entry is None or not entry.batches:
                raise KafkaError(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Producer {producer_id} begins on {self._name} with sequence {first_sequence}, not 0",
                )
        if first_sequence > verification.lowest_sequence:
            raise KafkaError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Producer {producer_id} sent sequence {first_sequence} to {self._name} before sequence {verification.lowest_sequence}",
            )

    def check_transaction(self, producer_id: int, epoch: int, *, transactional: bool, guard: VerificationGuard | None) -> None:
        """Raise KafkaError INVALID_TXN_STATE unless the data batch belongs to a transaction that the coordinator knows."""
        entry = self.producers.get(producer_id)
        if not transactional:
            if entry is not None and entry.txn_first_offset >= 0:
                raise KafkaError(
                    ErrorCode.INVALID_TXN_STATE,
                    f"Producer {producer_id} has an open transaction on {self._name}: expected a transactional write",
                )
            return
        if not self._verify or self.has_ongoing_transaction(producer_id, epoch):
            return
        verification = self._verifications.get(producer_id)
        if verification is None or guard is not verification.guard:
            raise KafkaError(ErrorCode.INVALID_TXN_STATE, "Record was not part of an ongoing transaction")

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int, transaction_version: int = 0) -> None:
        """Check a transaction marker from a coordinator. Raises KafkaError when either epoch went back.

        With transaction version 2 (KIP-890) every marker has a higher epoch than the data before it, so that a late marker cannot end the
        next transaction. The same epoch is allowed for a repeated marker, and for the highest possible epoch.
        """
        entry = self.producers.get(producer_id)
        if entry is None:
            return
        self.check_epoch(entry, epoch)
        if transaction_version >= 2 and epoch == entry.epoch and entry.txn_first_offset >= 0 and epoch != _MAX_EPOCH:
            raise KafkaError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch {epoch} of a marker of producer {producer_id} on {self._name} is not above the epoch of the open transaction",
            )
        if entry.coordinator_epoch > coordinator_epoch:
            raise KafkaError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Coordinator epoch {coordinator_epoch} for producer {producer_id} on {self._name} is older than {entry.coordinator_epoch}",
            )

    # -- verification (KIP-890) --------------------------------------------------------------------------------------------------

    def start_verification(
        self, producer_id: int, sequence: int, epoch: int, now_ms: int, *, bumps_epoch: bool = False
    ) -> VerificationGuard | None:
        """Return a guard to append with after the coordinator has agreed; None when the transaction is already open here.

        The setting decides whether appends without a guard are refused (`check_transaction`). A producer that `bumps_epoch` (transaction
        version 2) is verified regardless of the setting, because the verification adds the partition to its transaction.

        Raises KafkaError INVALID_PRODUCER_EPOCH for an older epoch.
        """
        entry = self.producers.get(producer_id)
        if entry is not None:
            self.check_epoch(entry, epoch)
        if self.has_ongoing_transaction(producer_id, epoch):
            return None
        verification = self._verifications.get(producer_id)
        if verification is None:
            verification = self._verifications[producer_id] = _Verification(now_ms, sequence, epoch, bumps_epoch)
        else:
            verification.lower(sequence, epoch)
        return verification.guard

    def has_late_transaction(self, before_ms: int) -> bool:
        """Return whether an open transaction has had no write since `before_ms`."""
        if not self._ongoing:
            return False
        return any(entry.txn_first_offset >= 0 and entry.last_timestamp < before_ms for entry in self.producers.values())

    def has_ongoing_transaction(self, producer_id: int, epoch: int | None = None) -> bool:
        entry = self.producers.get(producer_id)
        return entry is not None and entry.txn_first_offset >= 0 and (epoch is None or entry.epoch == epoch)

    # -- following the log -------------------------------------------------------------------------------------------------------

    def follow(self, header: BatchHeader, base_offset: int, max_timestamp: int, marker: ControlMarker | None) -> AbortedTransaction | None:
        """Update the state after a batch with a producer id was written at `base_offset`; `marker` is the marker of a control batch.

        Returns the entry for the transaction index when the batch aborts a transaction.
        """
        if not header.is_control:
            self.apply_data(
                header.producer_id,
                header.producer_epoch,
                header.last_sequence,
                base_offset,
                base_offset + header.last_offset_delta,
                max_timestamp,
                transactional=header.is_transactional,
            )
        elif marker is not None:
            completed = self.apply_marker(
                header.producer_id, header.producer_epoch, marker.coordinator_epoch, base_offset, marker.timestamp, aborted=marker.aborted
            )
            if completed is not None:
                return self.complete(completed)
        return None

    def apply_data(
        self, producer_id: int, epoch: int, last_sequence: int, base_offset: int, last_offset: int, timestamp: int, *, transactional: bool
    ) -> None:
        """Update the state after a data batch of an idempotent producer was written."""
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        entry.add_batch(epoch, BatchMetadata(last_sequence, last_offset, last_offset - base_offset, timestamp))
        if transactional:
            if entry.txn_first_offset < 0:
                entry.txn_first_offset = base_offset
                self._ongoing[base_offset] = producer_id
            self._verifications.pop(producer_id, None)

    def apply_batches(self, scan: Scan, first: int, end: int) -> None:
        """Update the state as `apply_data` does, after the batches `first` to `end` (exclusive) of a scan, none of them a control batch.

        Of many batches of one producer only the last few are read.
        """
        by_producer: dict[int, list[int]] = {}
        bits = 0
        for index, (producer_id, attributes) in enumerate(
            zip(scan.producer_ids[first:end], scan.attributes[first:end], strict=True), first
        ):
            if producer_id >= 0:
                bits |= attributes
                indexes = by_producer.get(producer_id)
                if indexes is None:
                    by_producer[producer_id] = [index]
                else:
                    indexes.append(index)
        opened: list[tuple[int, int]] = []
        for producer_id, indexes in by_producer.items():
            entry = self.producers.get(producer_id)
            if entry is None:
                entry = self.producers[producer_id] = ProducerEntry(producer_id)
            # Five batches replace all earlier ones, and so does a new epoch.
            for index in indexes[-BATCHES_KEPT:]:
                entry.add_batch(scan.producer_epochs[index], _batch_of(scan, index))
            if not bits & TRANSACTIONAL_MASK:
                continue
            begin = next((index for index in indexes if scan.attributes[index] & TRANSACTIONAL_MASK), None)
            if begin is None:
                continue
            self._verifications.pop(producer_id, None)
            if entry.txn_first_offset < 0:
                entry.txn_first_offset = scan.base_offsets[begin]
                opened.append((entry.txn_first_offset, producer_id))
        for offset, producer_id in sorted(opened):
            self._ongoing[offset] = producer_id

    def retreat(self, offset: int) -> bool:
        """Roll the producers back to `offset`, the new log end; the truncated batches must not include a control batch.

        Returns False, and changes nothing, when none of a producer's remembered batches is left: only the log has its earlier ones.
        """
        kept: dict[int, list[BatchMetadata]] = {}
        for producer_id, entry in self.producers.items():
            if entry.last_data_offset >= offset:
                kept[producer_id] = [batch for batch in entry.batches if batch.last_offset < offset]
                if not kept[producer_id]:
                    return False
        for producer_id, batches in kept.items():
            entry = self.producers[producer_id]
            # An entry of five batches has dropped earlier ones.
            entry.restored = entry.restored or len(entry.batches) == BATCHES_KEPT
            entry.batches = batches
            entry.last_timestamp = batches[-1].timestamp
            if entry.txn_first_offset >= offset:
                del self._ongoing[entry.txn_first_offset]
                entry.txn_first_offset = -1
        self.map_end_offset = offset
        return True

    def apply_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, offset: int, timestamp: int, *, aborted: bool
    ) -> CompletedTransaction | None:
        """Update the state after a transaction marker was written. Return the completed transaction, None when it had no data."""
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id)
        completed = CompletedTransaction(producer_id, entry.txn_first_offset, offset, aborted) if entry.txn_first_offset >= 0 else None
        if epoch != entry.epoch:
            entry.batches.clear()
            entry.epoch = epoch
        entry.coordinator_epoch = coordinator_epoch
        entry.txn_first_offset = -1
        entry.last_timestamp = timestamp
        verification = self._verifications.get(producer_id)
        if verification is not None and not (verification.bumps_epoch and verification.epoch == epoch):
            # With transaction version 2 the marker has the epoch of the next transaction, whose verification may already be running.
            del self._verifications[producer_id]
        return completed

    def complete(self, completed: CompletedTransaction) -> AbortedTransaction | None:
        """Close a transaction. Return the entry for the transaction index when it was aborted."""
        self._ongoing.pop(completed.first_offset, None)
        first_ongoing = next(iter(self._ongoing), None)
        self._unreplicated[completed.first_offset] = completed.last_offset
        if not completed.aborted:
            return None
        stable = first_ongoing if first_ongoing is not None else completed.last_offset + 1
        return AbortedTransaction(completed.producer_id, completed.first_offset, completed.last_offset, stable)

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest transaction that is open or not yet replicated."""
        first = next(iter(self._ongoing), None)
        if self._unreplicated:
            unreplicated = min(self._unreplicated)
            return unreplicated if first is None else min(first, unreplicated)
        return first

    def on_high_watermark(self, high_watermark: int) -> None:
        if self._unreplicated:
            self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= high_watermark}

    def on_log_start(self, log_start_offset: int) -> None:
        self.on_high_watermark(log_start_offset)
        self.map_end_offset = max(self.map_end_offset, log_start_offset)

    def adopt(self, other: ProducerStateManager) -> None:
        """Adopt the state of another copy of the log that this copy's batches do not show.

        These are producers whose batches are gone from the log, and running verifications.
        """
        for producer_id, entry in other.producers.items():
            if producer_id not in self.producers and entry.txn_first_offset < 0:
                self.producers[producer_id] = entry
        self._verifications.update(other._verifications)

    def remove_expired(self, now_ms: int) -> None:
        """Remove producers that wrote nothing for producer.id.expiration.ms and have no open transaction."""
        limit = now_ms - self._expiration_ms
        expired = [entry.producer_id for entry in self.producers.values() if entry.txn_first_offset < 0 and entry.last_timestamp <= limit]
        for producer_id in expired:
            del self.producers[producer_id]
        for producer_id in [key for key, value in self._verifications.items() if value.timestamp <= limit]:
            del self._verifications[producer_id]

    # -- snapshots ---------------------------------------------------------------------------------------------------------------

    def take_snapshot(self, *, sync: bool = True) -> str | None:
        """Write `<map end offset>.snapshot` unless nothing changed since the last one. Return its path when it still has to be fsynced."""
        offset = self.map_end_offset
        if offset <= self.last_snapshot_offset:
            return None
        path = self.snapshots.write(offset, self._encoded(), sync=sync)
        self.last_snapshot_offset = offset
        return None if sync else path

    def _encoded(self) -> bytes:
        return encode_snapshot([_to_snapshot(entry) for entry in self.producers.values()])

    def snapshot_at(self, offset: int) -> bytes | None:
        """Return the bytes of a snapshot at `offset`; None without a readable one, when the state is at another offset.

        Raises OSError from the disk.
        """
        if offset == self.map_end_offset:
            return self._encoded()
        if offset not in self.snapshots.offsets:
            return None
        data = self.snapshots.read(offset)
        try:
            decode_snapshot(data)
        except CorruptSnapshotError:
            return None
        return data

    def reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Return to the newest readable snapshot at or below the log end (truncateAndReload); replay continues at `map_end_offset`.

        Kafka also drops a snapshot exactly at the log start. Here that snapshot stays, because only it shows the producers before the log
        start. They come from a state with which the log began, or their records were deleted, and the running broker still knows them.
        """
        for offset in [value for value in self.snapshots.offsets if value > log_end_offset or value < max(log_start_offset, 1)]:
            self.snapshots.delete(offset)
        if log_end_offset == self.map_end_offset:
            self.on_log_start(log_start_offset)
            self.last_snapshot_offset = self.snapshots.offsets[-1] if self.snapshots.offsets else log_start_offset
            return
        self.clear()
        while self.snapshots.offsets:
            offset = self.snapshots.offsets[-1]
            try:
                entries = decode_snapshot(self.snapshots.read(offset))
            except CorruptSnapshotError:
                self.snapshots.delete(offset)
                continue
            self._adopt(entries, now_ms)
            self.map_end_offset = self.last_snapshot_offset = offset
            return
        self.map_end_offset = self.last_snapshot_offset = log_start_offset

    def _adopt(self, entries: list[ProducerSnapshotEntry], now_ms: int) -> None:
        limit = now_ms - self._expiration_ms
        for saved in entries:
            if saved.txn_first_offset < 0 and saved.timestamp <= limit:
                continue
            entry = ProducerEntry(saved.producer_id)
            entry.epoch = saved.epoch
            entry.coordinator_epoch = saved.coordinator_epoch
            entry.last_timestamp = saved.timestamp
            entry.txn_first_offset = saved.txn_first_offset
            if saved.last_offset >= 0:
                entry.batches.append(BatchMetadata(saved.last_sequence, saved.last_offset, saved.offset_delta, saved.timestamp))
                entry.restored = True
            self.producers[saved.producer_id] = entry
        self._ongoing = dict(
            sorted((entry.txn_first_offset, entry.producer_id) for entry in self.producers.values() if entry.txn_first_offset >= 0)
        )

    def clear(self) -> None:
        self.producers.clear()
        self._ongoing = {}
        self._unreplicated = {}

    def truncate_fully(self, offset: int) -> None:
        """Remove all producers and snapshots; the log begins again at `offset`."""
        self.clear()
        for snapshot in list(self.snapshots.offsets):
            self.snapshots.delete(snapshot)
        self.last_snapshot_offset = 0
        self.map_end_offset = offset

    def begin_with(self, offset: int, producers: list[ProducerSnapshotEntry], now_ms: int) -> None:
        """Adopt the state of another log, with a durable snapshot (reloadFromTieredSnapshot). Call it after `truncate_fully(offset)`."""
        self.snapshots.write_first(offset, encode_snapshot(producers))
        self.last_snapshot_offset = offset
        self._adopt(producers, now_ms)


def _batch_of(scan: Scan, index: int) -> BatchMetadata:
    sequence, delta = scan.base_sequences[index], scan.last_offsets[index] - scan.base_offsets[index]
    last_sequence = increment_sequence(sequence, delta) if sequence >= 0 else sequence
    return BatchMetadata(last_sequence, scan.last_offsets[index], delta, scan.max_timestamps[index])


def _to_snapshot(entry: ProducerEntry) -> ProducerSnapshotEntry:
    return ProducerSnapshotEntry(
        entry.producer_id,
        entry.epoch,
        entry.last_sequence,
        entry.last_data_offset,
        entry.last_offset_delta,
        entry.last_timestamp,
        entry.coordinator_epoch,
        entry.txn_first_offset,
    )
