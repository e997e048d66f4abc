"""What the runtime drives and what it stands on: a shard's state machine above it, a partition's log below it."""

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
    """What an operation decided: records to append, and the response for when they are committed.

    With `replay` False the operation has changed its (soft) state itself, the records only persist it: they are not replayed here, and
    `on_committed` is told when they are committed (None), or the error. Records that are not `atomic` may be spread over batches;
    `encoded` ones, which take the place of `records`, never are.
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
    """The state of one partition. Operations read it and return results; only `replay` changes what is stored."""

    def replay(self, offset: int, producer_id: int, producer_epoch: int, record: CoordinatorRecord) -> None:
        """A record at `offset`; producer id and epoch are -1 outside a transaction."""
        ...

    def replay_end_transaction(self, offset: int, producer_id: int, producer_epoch: int, *, committed: bool) -> None:
        """The marker that ends a producer's transaction in this partition."""
        ...

    def on_loaded(self, image: MetadataImage) -> None:
        """The log has been replayed and is committed; timers may be set. Called once, before any operation."""
        ...

    def on_metadata(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """The cluster changed."""
        ...

    def on_new_epoch(self) -> None:
        """This broker leads the partition on in a later epoch: what has gone out under the former one may have to be begun anew."""
        ...

    def on_unloaded(self) -> None:
        """This broker coordinates the partition no more: whoever waits in soft state is answered NOT_COORDINATOR."""
        ...


@runtime_checkable
class EncodedReplay(Protocol):
    """A shard that takes the bulk of its records as they lie in the log, without messages being made of them."""

    def replay_encoded(self, offset: int, producer_id: int, key: bytes | None, value: bytes | None) -> bool:
        """Replays the record; False, and nothing happened, when it has to be decoded. ProtocolError as from decoding."""
        ...

    @property
    def load_tables(self) -> dict[bytes, dict[int, bytes]]:
        """Where values that are committed may be put without `replay_encoded`, see `odradek.records._keyed`. Only while loading.

        `replay_encoded` adds tables for the keys that it sees and takes them out when that may no longer be done.
        """
        ...

    @property
    def load_values(self) -> tuple[int, int]:
        """How long such values are at least, and their highest version."""
        ...


class LoadedBatch(NamedTuple):
    """One batch as loading reads it. `committed` is None for data, else what a transaction marker says."""

    base_offset: int
    next_offset: int
    producer_id: int
    producer_epoch: int
    committed: bool | None
    records: Sequence[tuple[int, bytes | None, bytes | None]]
    """(offset, key, value)"""


class LoadedRun(NamedTuple):
    """Batches as they lie in the log, one after the other; the last one may be cut off."""

    data: bytes
    decode: Callable[[bytes, int], tuple[LoadedBatch, int] | None]
    """The batch at a position and the position behind it, None when there is no whole one."""


class CoordinatorLog(Protocol):
    """The partition that a shard lives in, led by this broker. Everything but `read` runs on the loop."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def max_batch_bytes(self) -> int:
        """The topic's max.message.bytes."""
        ...

    def append(self, batch: bytes, leader_epoch: int, guard: object | None = None, transaction_version: int = 0) -> int:
        """Appends one batch, as a coordinator, with acks=-1; its base offset. KafkaError when nothing was written.

        `transaction_version` is that of a marker: version 2 is fenced by its epoch more strictly.
        """
        ...

    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> Deferred[Sequence[LoadedBatch]] | Deferred[LoadedRun]:
        """The next whole batches from `start_offset` below `end_offset`, about `max_bytes` of them, read in an executor.

        A run for shards that implement EncodedReplay, else decoded.
        """
        ...

    def listen(self, on_high_watermark: Callable[[int], object], on_lost: Callable[[], object]) -> Callable[[], None]:
        """Has the two called when the high watermark rises and when the partition is no longer led here; returns how to end that."""
        ...

    def lead_on(self, leader_epoch: int) -> bool:
        """Takes a later epoch, in which this broker still leads the same log; False, and nothing is taken, when it does not."""
        ...
