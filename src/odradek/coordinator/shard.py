"""Interfaces around the runtime: the state machine of a shard above, the log of its partition below."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from odradek.base.deferred import Deferred
from odradek.base.errors import KafkaError
from odradek.coordinator.records import CoordinatorRecord, EncodedRecords

if TYPE_CHECKING:
    from odradek.metadata.delta import MetadataDelta
    from odradek.metadata.image import MetadataImage

T_co = TypeVar("T_co", covariant=True)


class CoordinatorResult(Generic[T_co]):
    """Decision of an operation: records to append, and the response that is due when the records are committed.

    With `replay` False the operation has already changed its soft state, and the records only persist the change: they are not replayed
    here. `on_committed` is called with None when the records are committed, or with the error. Records that are not `atomic` may be spread
    over several batches. `encoded` replaces `records`, and is always written in one batch.
    """

    __slots__ = ("atomic", "encoded", "on_committed", "records", "replay", "response")

    def __init__(
        self,
        records: Sequence[CoordinatorRecord],
        response: T_co,
        *,
        replay: bool = True,
        on_committed: Callable[[KafkaError | None], object] | None = None,
        atomic: bool = True,
        encoded: EncodedRecords | None = None,
    ) -> None:
        self.records = records
        self.encoded = encoded
        self.response = response
        self.replay = replay
        self.on_committed = on_committed
        self.atomic = atomic


class CoordinatorShard(Protocol):
    """State of one partition. Operations read the state and return results; only `replay` changes the stored state."""

    def replay(self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord) -> None:
        """Replay a record at `offset`; producer id and epoch are -1 outside a transaction."""
        ...

    def replay_end_transaction(self, offset: int, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        """Replay the marker that ends a producer's transaction in this partition."""
        ...

    def on_loaded(self, image: MetadataImage) -> None:
        """Prepare the shard for operations after the whole log is replayed and committed; timers may be set. Called once."""
        ...

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Apply a changed cluster image."""
        ...

    def on_new_epoch(self) -> None:
        """Repeat requests to other nodes that carry the former epoch: this broker goes on leading the partition in a later epoch."""
        ...

    def on_unloaded(self) -> None:
        """Fail requests that wait in soft state with NOT_COORDINATOR: this broker does not coordinate the partition any more."""
        ...


@runtime_checkable
class EncodedReplay(Protocol):
    """Shard that replays most of its records in encoded form, without message objects."""

    def replay_encoded(self, offset: int, producer_id: int, key: bytes | None, value: bytes | None) -> bool:
        """Replay the record. Return False, without a change, for a record that has to be decoded. Raises ProtocolError if malformed."""
        ...

    @property
    def load_tables(self) -> dict[bytes, dict[int, bytes]]:
        """Return the tables into which the loader may put committed values without `replay_encoded` (see `odradek.records._keyed`).

        `replay_encoded` adds a table for each key that it sees, and removes a table that may not be filled directly any more. The tables
        exist only while loading.
        """
        ...

    @property
    def load_values(self) -> tuple[int, int]:
        """Return the least length of such values in bytes, and their highest version."""
        ...


class LoadedBatch(NamedTuple):
    """Batch as read for loading. `committed` tells whether a marker commits its transaction; data batches have None."""

    base_offset: int
    next_offset: int
    producer_id: int
    producer_epoch: int
    committed: bool | None
    records: Sequence[tuple[int, bytes | None, bytes | None]]
    """(offset, key, value) of each record."""


class LoadedRun(NamedTuple):
    """Consecutive batches in their encoded form; the last batch may be truncated."""

    data: bytes
    decode: Callable[[bytes, int], tuple[LoadedBatch, int] | None]
    """Function that returns the batch at a position and the position after it; None without a whole batch."""


class CoordinatorLog(Protocol):
    """Partition of a shard, led by this broker. `read` works in an executor, all other methods on the event loop."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def max_batch_bytes(self) -> int:
        """Return the topic's max.message.bytes."""
        ...

    def append(self, batch: bytes, leader_epoch: int, guard: object | None = None, transaction_version: int = 0) -> int:
        """Append one batch as a coordinator with acks=-1; return its base offset. Raises KafkaError when nothing was written.

        `transaction_version` is the version of a marker's transaction: from version 2 on its epoch is fenced more strictly.
        """
        ...

    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> Deferred[Sequence[LoadedBatch]] | Deferred[LoadedRun]:
        """Read whole batches from `start_offset` (inclusive) to `end_offset` (exclusive) in an executor, about `max_bytes` in size.

        The result is a run for shards that implement EncodedReplay, otherwise decoded batches.
        """
        ...

    def listen(self, on_high_watermark: Callable[[int], object], on_lost: Callable[[], object]) -> Callable[[], None]:
        """Call the functions when the high watermark rises, and when this broker stops leading. Return a function that ends these calls."""
        ...

    def continue_leading(self, leader_epoch: int) -> bool:
        """Move on to a later epoch in which this broker still leads the same log. Return False, without a change, when it does not."""
        ...
