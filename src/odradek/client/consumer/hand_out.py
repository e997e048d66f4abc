"""What counts as handed out: the one notion that position, commit, seek, pause, rebalances and every way of reading go by.

1. The loop puts one chunk at a time here, and decodes it. Its records are *at hand*.
2. A record counts as handed out when the application has it: poll() returns it, or `for record in consumer` comes to it; a chunk or an
   Arrow batch when next_chunk() or next_batch() returns it. This happens in the thread or task of the application, as the last step of the
   call. A call that is interrupted or cancelled before has handed out nothing.
3. What is at hand is not handed out. The position of its partition is the first record at hand, and without one the end of the chunk that
   was handed out last. seek(), pause(), a revocation or another leader take back what is at hand, and it is fetched again where needed.

An interrupt may come between any two instructions, also after the step that hands out and before the caller has its result. Whoever hands
out in a thread of the application therefore takes a `mark` first, and goes `back_to` it when an exception comes.

Threads: the records are drawn from one list iterator, by the application and by whoever takes them back in the loop. Each draw is one call
of C code, so that every record goes to one of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from operator import length_hint
from typing import NamedTuple

from odradek.base.ids import TopicPartition
from odradek.client.core.fetcher import epoch_before
from odradek.client.core.positions import Chunk
from odradek.client.core.validation import Unread
from odradek.client.types import ConsumerRecord


class Mark(NamedTuple):
    """State of a HandOut: `left` records of `records` are at hand."""

    changes: int
    chunk: Chunk | None
    records: list[ConsumerRecord] | None
    left: int


class HandOut:
    """The chunk at hand of one consumer, and its records once they are decoded."""

    __slots__ = ("_changes", "_cursor", "_records", "chunk")

    def __init__(self) -> None:
        self.chunk: Chunk | None = None
        """The chunk that was put here last and not taken whole."""
        self._records: list[ConsumerRecord] | None = None
        self._cursor: Iterator[ConsumerRecord] = iter(())
        self._changes = 0
        """How often the loop has put something at hand or taken it back."""

    def put(self, chunk: Chunk) -> None:
        """Put a chunk at hand, undecoded. Nothing else is at hand at that time."""
        self.chunk, self._records = chunk, None
        self._changes += 1

    def decoded(self, records: list[ConsumerRecord]) -> None:
        """Set the records of the chunk at hand."""
        self._records, self._cursor = records, iter(records)
        self._changes += 1

    def mark(self) -> Mark:
        """Return what is at hand now."""
        return Mark(self._changes, self.chunk, self._records, length_hint(self._cursor))

    def back_to(self, mark: Mark) -> None:
        """Undo what was handed out since the mark, unless the loop has changed in the meantime what is at hand."""
        if mark.changes == self._changes:
            self.chunk, self._records = mark.chunk, mark.records
            self._cursor = iter(() if mark.records is None else mark.records[len(mark.records) - mark.left :])

    @property
    def is_decoded(self) -> bool:
        """Whether the chunk at hand has been decoded."""
        return self._records is not None

    @property
    def has_records(self) -> bool:
        """Whether a decoded record is at hand."""
        return self._records is not None and bool(length_hint(self._cursor))

    @property
    def is_empty(self) -> bool:
        """Whether no record is at hand, and no undecoded chunk."""
        return self.chunk is None or (self._records is not None and not length_hint(self._cursor))

    def next_offset(self, partition: TopicPartition) -> int | None:
        """Return the offset of the first record of `partition` at hand, None without one."""
        chunk, records = self.chunk, self._records
        if chunk is None or chunk.topic_partition != partition:
            return None
        if records is None:
            return chunk.offset
        left = length_hint(self._cursor)
        return records[len(records) - left].offset if left else None

    def unread(self, partition: TopicPartition) -> Unread | None:
        """Return what of `partition` is at hand, None for nothing."""
        offset, chunk = self.next_offset(partition), self.chunk
        return None if offset is None or chunk is None else Unread(offset, epoch_before(chunk, offset))

    def take(self, limit: int, through: Callable[[list[ConsumerRecord]], list[ConsumerRecord]] | None = None) -> list[ConsumerRecord]:
        """Hand out up to `limit` records; an empty list when none is at hand.

        `through` (interceptors) gets the records first and returns those to hand out. An exception of it, or a Ctrl-C before the call
        returns, leaves the records at hand.
        """
        mark = self.mark()
        try:
            taken = list(islice(self._cursor, limit))
            return taken if through is None or not taken else through(taken)
        except BaseException:
            self.back_to(mark)
            raise

    def draw(self, limit: int, through: Callable[[list[ConsumerRecord]], list[ConsumerRecord]] | None = None) -> Iterator[ConsumerRecord]:
        """Return an iterator that hands out up to `limit` records, each when it is drawn; `through` gets them one by one."""
        return islice(self._cursor, limit) if through is None else self._draw_through(limit, through)

    def _draw_through(self, limit: int, through: Callable[[list[ConsumerRecord]], list[ConsumerRecord]]) -> Iterator[ConsumerRecord]:
        for _ in range(limit):
            if self.is_empty:
                return
            yield from self.take(1, through)

    def take_chunk(self) -> Chunk | None:
        """Hand out the rest of the chunk at hand as a whole; None without one."""
        chunk = self.rest()
        self._let_go()
        return chunk

    def finish(self, chunk: Chunk) -> bool:
        """Hand out the rest of the chunk in another form; False when it was taken back."""
        if self.chunk is not chunk:
            return False
        self._let_go()
        return True

    def rest(self) -> Chunk | None:
        """Return the part of the chunk at hand that is not handed out, None without one."""
        chunk = self.chunk
        if chunk is None or self._records is None:
            return chunk
        unread = self.unread(chunk.topic_partition)
        return None if unread is None else chunk._replace(offset=unread.offset, previous_epoch=unread.previous_epoch)

    def take_back(self, partition: TopicPartition) -> Unread | None:
        """Take what of `partition` is at hand away from the application; return where it began, None for nothing.

        Records are drawn to the last one, so that an iteration that is under way in another thread comes to its end.
        """
        chunk = self.chunk
        if chunk is None or chunk.topic_partition != partition:
            return None
        if self._records is None:
            offset = chunk.offset
        else:
            drawn = list(self._cursor)
            if not drawn:
                return None
            offset = drawn[0].offset
        self.clear()
        return Unread(offset, epoch_before(chunk, offset))

    def abandon(self) -> None:
        """Hand out nothing more, also to loops that are under way: in a forked child the parent hands the records out."""
        if self.chunk is not None:
            self.take_back(self.chunk.topic_partition)

    def clear(self) -> None:
        """Pass over the rest of the chunk, which has nothing to hand out."""
        self._changes += 1
        self._let_go()

    def _let_go(self) -> None:
        self.chunk, self._records, self._cursor = None, None, iter(())
