"""The basis of every interleaving: a script's clock, a log that fails, lags, compacts and changes hands, and a network that loses.

Nothing here has threads, sockets or files; all that happens follows from the script's random numbers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from odradek.base.deferred import Deferred
from odradek.base.errors import ErrorCode, KafkaError
from odradek.coordinator.shard import LoadedBatch
from odradek.records.batch import decode_batch, iter_headers
from odradek.storage.append import read_marker
from tests.clock import ManualClock

T = TypeVar("T")


class ViolationError(AssertionError):
    """An invariant, by name, that does not hold."""

    def __init__(self, invariant: str, detail: object = "") -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant


def expect(condition: object, invariant: str, detail: object = "") -> None:
    if not condition:
        raise ViolationError(invariant, detail)


class Lost(NamedTuple):
    """How a network treats messages: chances, and delays in seconds to choose from."""

    loss: float
    repeat: float
    delays: tuple[float, ...]


NETWORKS = (
    Lost(0.0, 0.0, (0.0,)),
    Lost(0.0, 0.1, (0.0, 0.0, 0.2, 1.5)),
    Lost(0.1, 0.1, (0.0, 0.0, 0.0, 0.3, 3.0)),
    Lost(0.25, 0.2, (0.0, 0.1, 4.0)),
)


class Net:
    """Requests to a coordinator and their answers: lost, repeated, delayed, so that they overtake one another."""

    def __init__(self, rng: random.Random, clock: ManualClock) -> None:
        self._rng = rng
        self._clock = clock
        self.kind = rng.choice(NETWORKS)
        self._last: dict[object, float] = {}
        self.asked: list[Deferred[Any]] = []
        self.heard = 0

    def heal(self) -> None:
        self.kind = NETWORKS[0]

    def call(
        self, request: Callable[[], Deferred[T]], arrived: Callable[[Deferred[T]], object], *, connection: object | None = None
    ) -> None:
        """Calls `request` when it reaches the coordinator, maybe twice, and `arrived` with the answers that come back.

        Requests over one `connection` arrive in order.
        """
        rng, kind = self._rng, self.kind
        if rng.random() < kind.loss:
            return
        if connection is not None:
            now = self._clock.now_s
            due = self._last[connection] = max(self._last.get(connection, now), now + rng.choice(kind.delays))
            for _ in range(2 if rng.random() < kind.repeat else 1):
                self._clock.call_later(due - now, self._deliver, request, arrived)
            return
        for _ in range(2 if rng.random() < kind.repeat else 1):
            delay = rng.choice(kind.delays)
            if delay:
                self._clock.call_later(delay, self._deliver, request, arrived)
            else:
                self._deliver(request, arrived)

    def _deliver(self, request: Callable[[], Deferred[T]], arrived: Callable[[Deferred[T]], object]) -> None:
        asked = request()
        self.asked.append(asked)
        answers = 0

        def answered(done: Deferred[T]) -> None:
            nonlocal answers
            answers += 1
            expect(answers == 1, "every-request-answered-once")
            self.heard += 1
            rng = self._rng
            if rng.random() >= self.kind.loss:
                self._clock.call_later(rng.choice(self.kind.delays), arrived, done)

        asked.add_callback(answered)

    def check_all_answered(self) -> None:
        expect(self.heard == len(self.asked), "every-request-answered-once", f"{len(self.asked) - self.heard} never were")


class ScriptLog:
    """A partition that a coordinator lives in, whoever leads it. `fail_with` refuses the next appends."""

    def __init__(self) -> None:
        self.batches: list[LoadedBatch] = []
        self.log_end_offset = 0
        self.high_watermark = 0
        self.leader_epoch = 0
        self.auto_commit = True
        self.fail_with: ErrorCode | None = None
        self.failures = 0
        self.on_committed: Callable[[LoadedBatch], object] | None = None
        """Told of every batch once, when it is committed."""
        self.on_appended: Callable[[LoadedBatch], object] | None = None
        """Told of every batch, whether it will be committed or cut off."""
        self._told = 0
        self._views: list[View] = []

    def open(self, leader_epoch: int) -> View:
        """How the leader of an epoch sees it."""
        return View(self, leader_epoch)

    def depose(self) -> None:
        """The next epoch begins: whoever led hears of no commit any more."""
        for view in self._views:
            view.frozen = self.high_watermark if view.leader_epoch == self.leader_epoch else view.frozen
        self.leader_epoch += 1

    def take(self, batch: bytes, view: View) -> int:
        if view.leader_epoch != self.leader_epoch:
            self.failures += 1
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another leads")
        if self.fail_with is not None:
            self.failures += 1
            raise KafkaError(self.fail_with, "as the script wants")
        base = self.log_end_offset
        for position, header in iter_headers(batch):
            data = memoryview(batch)
            marker = read_marker(data, position, header) if header.is_control else None
            records = [] if marker is not None else decode_batch(data, position, header)
            self.log_end_offset += header.last_offset_delta + 1
            self.batches.append(
                LoadedBatch(
                    base,
                    self.log_end_offset,
                    header.producer_id if header.is_transactional else -1,
                    header.producer_epoch,
                    None if marker is None else not marker.aborted,
                    [(base - header.base_offset + record.offset, record.key, record.value) for record in records],
                )
            )
            if self.on_appended is not None:
                self.on_appended(self.batches[-1])
        if self.auto_commit:
            self.commit(self.log_end_offset)
        return base

    def boundaries(self) -> list[int]:
        """Ends of batches from the high watermark on: replicas fetch whole batches."""
        return [self.high_watermark, *[batch.next_offset for batch in self.batches if batch.next_offset > self.high_watermark]]

    def commit(self, offset: int) -> None:
        if offset <= self.high_watermark:
            return
        self.high_watermark = offset
        if self.on_committed is not None:
            for batch in self.batches:
                if self._told < batch.next_offset <= offset:
                    self.on_committed(batch)
        self._told = offset
        for view in list(self._views):
            if view.leader_epoch == self.leader_epoch and view.on_high_watermark is not None:
                view.on_high_watermark(offset)

    def commit_all(self) -> None:
        self.commit(self.log_end_offset)

    def truncate(self, offset: int) -> None:
        """The next leader has it up to here only."""
        while self.batches and self.batches[-1].base_offset >= offset:
            self.batches.pop()
        self.log_end_offset = offset

    def compact(self, rng: random.Random) -> None:
        """Keeps the last value of each key, up to some batch before the first open transaction and the high watermark.

        A transaction is open until its marker is committed: cleaning ends at the last stable offset (LogCleanerManager.cleanableOffsets),
        and that waits for the marker's replication (ProducerStateManager.firstUnstableOffset). The marker may yet be cut off.
        """
        opened: dict[int, int] = {}
        aborted: set[int] = set()
        writes: dict[int, list[int]] = {}
        for batch in committed_batches(self):
            if batch.producer_id >= 0 and batch.committed is None:
                opened.setdefault(batch.producer_id, batch.base_offset)
                writes.setdefault(batch.producer_id, []).append(batch.base_offset)
            elif batch.committed is not None:
                opened.pop(batch.producer_id, None)
                offsets = writes.pop(batch.producer_id, [])
                if not batch.committed:
                    aborted.update(offsets)
        limit = min([self.high_watermark, *opened.values()])
        ends = [batch.next_offset for batch in self.batches if batch.next_offset <= limit]
        if not ends:
            return
        end = rng.choice(ends[len(ends) // 2 :])
        kept = [batch for batch in self.batches if batch.next_offset <= end and batch.base_offset not in aborted]
        last = {key: offset for batch in kept for offset, key, _ in batch.records}
        without_tombstones = rng.random() < 0.5
        cleaned: list[LoadedBatch] = []
        for batch in kept:
            records = [
                record for record in batch.records if last[record[1]] == record[0] and (record[2] is not None or not without_tombstones)
            ]
            if records or batch.committed is not None:
                cleaned.append(batch._replace(records=records))
        self.batches = cleaned + [batch for batch in self.batches if batch.next_offset > end]

    def __repr__(self) -> str:
        return f"ScriptLog(epoch {self.leader_epoch}, {self.high_watermark} of {self.log_end_offset} committed)"

    def enter(self, view: View) -> None:
        self._views.append(view)

    def leave(self, view: View) -> None:
        if view in self._views:
            self._views.remove(view)


class View:
    """`CoordinatorLog` for the leader of one epoch. One that was deposed goes on without hearing of it until `lose`."""

    log_start_offset = 0
    max_batch_bytes = 1_000_000

    def __init__(self, log: ScriptLog, leader_epoch: int) -> None:
        self._log = log
        self.leader_epoch = leader_epoch
        self.frozen = 0
        self.on_high_watermark: Callable[[int], object] | None = None
        self.on_lost: Callable[[], object] | None = None

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark if self.leader_epoch == self._log.leader_epoch else self.frozen

    def append(self, batch: bytes, leader_epoch: int, guard: object | None = None, transaction_version: int = 0) -> int:
        return self._log.take(batch, self)

    def read(self, start_offset: int, end_offset: int, max_bytes: int) -> Deferred[Sequence[LoadedBatch]]:
        return Deferred.of([batch for batch in self._log.batches if batch.next_offset > start_offset and batch.base_offset < end_offset])

    def continue_leading(self, leader_epoch: int) -> bool:
        self.leader_epoch = leader_epoch
        return True

    def listen(self, on_high_watermark: Callable[[int], object], on_lost: Callable[[], object]) -> Callable[[], None]:
        self.on_high_watermark, self.on_lost = on_high_watermark, on_lost
        self._log.enter(self)
        return lambda: self._log.leave(self)


def committed_batches(log: ScriptLog) -> Iterator[LoadedBatch]:
    return (batch for batch in log.batches if batch.next_offset <= log.high_watermark)


def trouble(log: ScriptLog, rng: random.Random) -> None:
    """What may happen to a log in a step: appends begin to fail, commits lag, all is well again."""
    roll = rng.random()
    if roll < 0.06:
        log.fail_with = rng.choice((ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.MESSAGE_TOO_LARGE))
    elif roll < 0.25:
        log.fail_with = None
    elif roll < 0.33:
        log.auto_commit = False
    elif roll < 0.50 and log.fail_with is None:
        log.auto_commit = True
        log.commit_all()
    elif roll < 0.65:
        log.commit(rng.choice(log.boundaries()))
    elif roll < 0.70:
        log.compact(rng)


def calm(log: ScriptLog) -> None:
    log.fail_with = None
    log.auto_commit = True
    log.commit_all()
